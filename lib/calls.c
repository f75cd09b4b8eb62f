// SPDX-License-Identifier: MIT
/* The table of a dispatcher's calls; see calls.h */
#include "calls.h"

#include <sys/mman.h>

#define CHUNK_CALLS	1024u
#define CHUNKS_MAX	(1u << 21)		/* a slot's number has 32 bits */
#define DIRECTORY_MIN	16u

/**
 * struct chunk - slots that are allocated together
 * @room: on &calls.room if a slot is free
 * @free: slots that have been used, and are free
 * @index: in the directory
 * @nr_used: slots that hold a call
 * @nr_fresh: the first of the slots that have not been used
 * @generation: that of every fresh slot
 * @next_generation: above those of all calls that were in this chunk
 * @retired: a slot has used up its generations
 * @calls: the slots
 */
struct chunk {
	struct list_head room;
	struct list_head free;
	u32 index;
	u32 nr_used;
	u32 nr_fresh;
	u32 generation;
	u32 next_generation;
	bool retired;
	struct call calls[CHUNK_CALLS];
};

/**
 * struct directory_entry - where a chunk is
 * @chunk: the chunk, or NULL
 * @generation: without a chunk: for the slots of the next one
 * @next_vacant: without a chunk: the next such entry, plus one
 */
struct directory_entry {
	struct chunk *chunk;
	u32 generation;
	u32 next_vacant;
};

static struct chunk *chunk_of_call(const struct calls *t, const struct call *c)
{
	return t->directory[((u32)c->handle - 1) / CHUNK_CALLS].chunk;
}

static int grow_directory(struct calls *t)
{
	const u32 size = t->size ? t->size * 2 : DIRECTORY_MIN;
	struct directory_entry *directory;

	if (size > CHUNKS_MAX)
		return -ENOMEM;
	directory = reallocarray(t->directory, size, sizeof(*directory));
	if (!directory)
		return -ENOMEM;
	t->directory = directory;
	t->size = size;
	return 0;
}

/* The index of an entry without a chunk, or a negative errno. */
static int vacant_entry(struct calls *t)
{
	const u32 index = t->nr_chunks;

	if (t->vacant)
		return t->vacant - 1;
	if (index == t->size && grow_directory(t))
		return -ENOMEM;
	t->directory[index] = (struct directory_entry){ };
	t->nr_chunks++;
	t->vacant = index + 1;
	return index;
}

static struct chunk *new_chunk(struct calls *t)
{
	const int error = errno;
	const int index = vacant_entry(t);
	struct chunk *chunk = MAP_FAILED;
	struct directory_entry *entry;

	/* Not by malloc(), which may keep what is freed. Pages are not touched before use. */
	if (index >= 0)
		chunk = mmap(NULL, sizeof(*chunk), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	errno = error;
	if (chunk == MAP_FAILED)
		return NULL;

	entry = &t->directory[index];
	t->vacant = entry->next_vacant;
	entry->chunk = chunk;
	chunk->index = index;
	chunk->generation = entry->generation;
	chunk->next_generation = entry->generation;
	INIT_LIST_HEAD(&chunk->free);
	list_add(&chunk->room, &t->room);
	return chunk;
}

/* Give back a chunk without calls. */
static void free_chunk(struct calls *t, struct chunk *chunk)
{
	struct directory_entry *entry = &t->directory[chunk->index];

	list_del(&chunk->room);
	entry->chunk = NULL;
	entry->generation = chunk->next_generation;
	/* An entry whose generations are used up is not used again. */
	if (!chunk->retired) {
		entry->next_vacant = t->vacant;
		t->vacant = chunk->index + 1;
	}
	munmap(chunk, sizeof(*chunk));
}

/**
 * calls_init() - set up an empty table
 * @t: the table
 */
void calls_init(struct calls *t)
{
	*t = (struct calls){ };
	INIT_LIST_HEAD(&t->room);
}

/**
 * calls_free() - free the memory of a table and its calls
 * @t: the table
 */
void calls_free(struct calls *t)
{
	u32 i;

	for (i = 0; i < t->nr_chunks; i++)
		if (t->directory[i].chunk)
			munmap(t->directory[i].chunk, sizeof(struct chunk));
	free(t->directory);
}

/**
 * calls_new() - add a call
 * @t: the table
 *
 * Return: the call, with a handle, on no list, and zero else, for the caller to
 * set its function; or NULL if there is no memory.
 */
struct call *calls_new(struct calls *t)
{
	struct chunk *chunk;
	struct call *c;
	u64 handle;

	chunk = list_first_entry_or_null(&t->room, struct chunk, room);
	if (!chunk)
		chunk = new_chunk(t);
	if (!chunk)
		return NULL;

	c = list_first_entry_or_null(&chunk->free, struct call, list);
	if (c) {
		list_del(&c->list);
		handle = c->handle;
	} else {
		c = &chunk->calls[chunk->nr_fresh];
		handle = (u64)chunk->generation << 32 |
			 (chunk->index * CHUNK_CALLS + chunk->nr_fresh + 1);
		chunk->nr_fresh++;
	}
	*c = (struct call){ .handle = handle };
	INIT_LIST_HEAD(&c->list);

	chunk->nr_used++;
	if (chunk == t->spare)
		t->spare = NULL;
	if (list_empty(&chunk->free) && chunk->nr_fresh == CHUNK_CALLS)
		list_del_init(&chunk->room);
	return c;
}

/**
 * calls_end() - remove a call
 * @t: the table
 * @c: the call, on no list, whose handle is never used again
 */
void calls_end(struct calls *t, struct call *c)
{
	struct chunk *chunk = chunk_of_call(t, c);
	const u32 generation = (c->handle >> 32) + 1;

	c->fn = NULL;
	c->handle += 1ULL << 32;
	chunk->nr_used--;
	if (generation) {
		chunk->next_generation = max(chunk->next_generation, generation);
		list_add(&c->list, &chunk->free);
	} else {
		chunk->retired = true;	/* the slot is not used again */
	}

	if (list_empty(&chunk->room) && generation)
		list_add(&chunk->room, &t->room);	/* it was full */
	if (chunk->nr_used)
		return;

	/* One empty chunk stays, so that calls which come and go do not map it each time. */
	if (list_empty(&chunk->room))
		list_add(&chunk->room, &t->room);
	if (chunk->retired || t->spare) {
		free_chunk(t, chunk);
	} else {
		t->spare = chunk;
		list_move_tail(&chunk->room, &t->room);
	}
}

/**
 * calls_find() - find a call
 * @t: the table
 * @handle: any number
 *
 * Return: the call, or NULL if there is none with this handle.
 */
struct call *calls_find(const struct calls *t, u64 handle)
{
	const u32 number = (u32)handle - 1;
	struct chunk *chunk = NULL;
	struct call *c;

	if (number / CHUNK_CALLS < t->nr_chunks)
		chunk = t->directory[number / CHUNK_CALLS].chunk;
	if (!chunk)
		return NULL;
	c = &chunk->calls[number % CHUNK_CALLS];
	/* The handle of a slot that was never used is zero. */
	return c->fn && c->handle == handle ? c : NULL;
}

/**
 * calls_next() - go through the calls
 * @t: the table
 * @cursor: zero at first; the calls before it have been seen
 *
 * Return: a call, or NULL at the end.
 */
struct call *calls_next(const struct calls *t, u64 *cursor)
{
	while (*cursor / CHUNK_CALLS < t->nr_chunks) {
		const struct directory_entry *entry = &t->directory[*cursor / CHUNK_CALLS];
		struct chunk *chunk = entry->chunk;
		u32 i = *cursor % CHUNK_CALLS;

		if (chunk && chunk->nr_used) {
			for (; i < chunk->nr_fresh; i++) {
				if (chunk->calls[i].fn) {
					*cursor = *cursor / CHUNK_CALLS * CHUNK_CALLS + i + 1;
					return &chunk->calls[i];
				}
			}
		}
		*cursor = (*cursor / CHUNK_CALLS + 1) * CHUNK_CALLS;
	}
	return NULL;
}
