// SPDX-License-Identifier: MIT
/*
 * Memory of timers in the process: chunks of slots
 *
 * Timers are started in one chunk until it is full, then in others that have
 * free slots, then in one without timers. What a burst has left goes back to the
 * system as chunks become empty: at most a quarter of the chunks in use are kept
 * without timers. A chunk's number is used again, with generations above all
 * that it has had.
 */
#include "process.h"

#include <sys/mman.h>

/* Not in all libraries' headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23
#endif

/* Slots that are made ready at a time: a page. */
#define READY		64u
/* Most chunks for which address space is taken at a time: a huge page. */
#define ROOM_MOST	32u

struct slot htw_no_chunk[CHUNK_SLOTS];

/* Where a handle without chunks starts timers: it is full. */
static struct chunk *no_chunk(void)
{
	return (struct chunk *)htw_no_chunk;
}

/* Make space for more numbers of chunks. */
static int grow_numbers(struct process *p)
{
	const u32 size = p->size ? p->size * 2 : 16;
	struct number *numbers;
	struct chunk **chunks;
	u32 i;

	numbers = realloc(p->numbers, size * sizeof(*numbers));
	if (!numbers)
		return -ENOMEM;
	p->numbers = numbers;

	chunks = realloc(p->chunks, size * sizeof(*chunks));
	if (!chunks)
		return -ENOMEM;
	p->chunks = chunks;

	for (i = p->size; i < size; i++)
		chunks[i] = no_chunk();
	p->size = size;
	return 0;
}

/* Take a number for a chunk. Return: it, less &process.first; or a negative errno. */
static int64_t take_number(struct process *p, u32 *generation)
{
	u32 number = p->free_number;

	if (number) {
		number--;
		p->free_number = p->numbers[number].next;
		*generation = p->numbers[number].generation;
		return number;
	}

	/* The next handle of this number needs one as well. */
	if (p->first + p->nr_numbers >= CHUNK_NUMBERS - 1)
		return -ENOMEM;
	if (p->nr_numbers == p->size && grow_numbers(p))
		return -ENOMEM;
	*generation = 1;
	return p->nr_numbers++;
}

static void give_number_back(struct process *p, u32 number, u32 generation)
{
	p->numbers[number].generation = generation;
	p->numbers[number].next = p->free_number;
	p->free_number = number + 1;
}

/* Take address space for more chunks; it starts at a multiple of a chunk's size. */
static int take_room(struct process *p)
{
	const size_t bytes = min(max(p->nr_chunks / 8, 1u), ROOM_MOST) * CHUNK_BYTES;
	char *map = mmap(NULL, bytes + CHUNK_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (map == MAP_FAILED)
		return -ENOMEM;

	before = -(uintptr_t)map % CHUNK_BYTES;
	if (before)
		munmap(map, before);
	munmap(map + before + bytes, CHUNK_BYTES - before);
	p->room = map + before;
	p->room_bytes = bytes;
	return 0;
}

static struct chunk *make_chunk(struct process *p)
{
	u32 generation;
	struct chunk *c;
	int64_t number;

	if (!p->room_bytes && take_room(p))
		return NULL;
	number = take_number(p, &generation);
	if (number < 0)
		return NULL;

	c = (struct chunk *)p->room;
	p->room += CHUNK_BYTES;
	p->room_bytes -= CHUNK_BYTES;
	*c = (struct chunk){
		.name = NAME_NOWHERE(p),
		.number = p->first + number,
		.fresh = 1,
		.generation = generation,
	};
	p->chunks[number] = c;
	p->nr_chunks++;
	return c;
}

/*
 * Give the memory of a chunk without timers back, which is on no list. Return: false if the
 * system cannot split the mapping, and the chunk stays.
 */
static bool give_chunk_back(struct process *p, struct chunk *c)
{
	const u32 number = c->number - p->first;
	const int error = errno;
	const struct slot *t = chunk_slots(c);
	u32 generation = c->generation;
	bool used_up = false;
	u32 i;

	for (i = 1; i < c->fresh; i++) {
		const u32 next = t[i].name / ID_GENERATION;

		used_up |= !next;	/* retired */
		generation = max(generation, next);
	}

	if (munmap(c, CHUNK_BYTES)) {
		errno = error;
		return false;
	}
	htw_deadlines_drop(&p->htw, number);
	p->chunks[number] = no_chunk();
	p->nr_chunks--;
	if (!used_up)
		give_number_back(p, number, generation);
	return true;
}

static bool can_start(const struct chunk *c)
{
	return c->free || c->fresh < CHUNK_SLOTS;
}

static void unlist(struct process *p, struct chunk *c)
{
	if (!c->listed)
		return;
	list_del(&c->node.list);
	c->listed = false;
	if (!c->used)
		p->nr_spare--;
}

static void add_spare(struct process *p, struct chunk *c)
{
	list_add(&c->node.list, &p->spare);
	c->listed = true;
	p->nr_spare++;
}

static struct chunk *first_chunk(struct list_head *list)
{
	return list_empty(list) ? NULL : list_first_entry(list, struct chunk, node.list);
}

/* Give chunks back as long as there are many without timers. */
static void trim(struct process *p)
{
	struct chunk *c;

	while (p->nr_spare > 1 + (p->nr_chunks - p->nr_spare) / 4 &&
	       p->nr_chunks > p->reserved) {
		c = first_chunk(&p->spare);
		unlist(p, c);
		if (!give_chunk_back(p, c)) {
			add_spare(p, c);
			return;
		}
	}
}

/**
 * htw_slot_chunk_changed() - find the place of a chunk in which a slot was freed
 * @p: the handle
 * @c: the chunk, which was full, or has no timers any more
 */
void htw_slot_chunk_changed(struct process *p, struct chunk *c)
{
	if (c == p->from)
		return;

	if (c->used) {
		if (!c->listed) {
			list_add_tail(&c->node.list, &p->open);
			c->listed = true;
		}
		return;
	}

	if (c->listed) {
		list_del(&c->node.list);
		c->listed = false;
	}
	if (can_start(c))
		add_spare(p, c);
	else
		give_chunk_back(p, c);
	trim(p);
}

/**
 * htw_slot_retire() - leave a slot unused whose generations have run out
 * @p: the handle
 * @t: the slot, on no list; using it again would make old ids valid
 */
void htw_slot_retire(struct process *p, struct slot *t)
{
	struct chunk *c = chunk_of(t);

	t->name = index_of(t) ^ NAME_FREE;
	if (!--c->used)
		htw_slot_chunk_changed(p, c);
}

/* Put slots that have never been used on the free list of their chunk, in order. */
static void make_ready(const struct process *p, struct chunk *c)
{
	const u32 end = min((c->fresh / READY + 1) * READY, CHUNK_SLOTS);
	const u64 id = c->generation * ID_GENERATION | (u64)p->number << ID_HANDLE_SHIFT |
		       c->number * CHUNK_SLOTS;
	struct slot *t = chunk_slots(c), *next = c->free;
	u32 i;

	for (i = end - 1; i >= c->fresh; i--) {
		t[i].name = (id | i) ^ NAME_FREE;
		t[i].node.list.next = (struct list_head *)next;
		next = &t[i];
	}
	c->free = next;
	c->fresh = end;
}

/* The chunk to start timers in, as @p->from is full; NULL if there is no memory. */
static struct chunk *next_chunk(struct process *p)
{
	struct chunk *c = first_chunk(&p->open);

	if (!c)
		c = first_chunk(&p->spare);
	if (c)
		unlist(p, c);
	else
		c = make_chunk(p);
	if (!c)
		return NULL;

	/* Left without timers if all of its slots are retired. */
	if (p->from != no_chunk() && !p->from->used)
		give_chunk_back(p, p->from);
	p->from = c;
	return c;
}

/**
 * htw_slot_open_chunk() - take_slot() where no slot is ready
 * @p: the handle
 * @id: out: id of the timer
 *
 * Return: as take_slot().
 */
struct slot *htw_slot_open_chunk(struct process *p, u64 *id)
{
	const int error = errno;
	struct chunk *c = p->from;

	if (c == no_chunk() || !can_start(c))
		c = next_chunk(p);
	errno = error;
	if (!c)
		return NULL;
	if (!c->free)
		make_ready(p, c);
	return take_slot(p, id);
}

/**
 * htw_slots_reserve() - htw_reserve()
 * @p: the handle, locked
 * @count: total number of timers that there shall be room for
 *
 * Return: 0 or -ENOMEM.
 */
int htw_slots_reserve(struct process *p, u64 count)
{
	const u32 want = (count + CHUNK_SLOTS - 2) / (CHUNK_SLOTS - 1);
	const int error = errno;
	struct chunk *c;
	u32 i;

	while (p->nr_chunks < want) {
		c = make_chunk(p);
		errno = error;
		if (!c)
			return -ENOMEM;
		/* The first ones in front, as timers are started in the first. */
		list_add_tail(&c->node.list, &p->spare);
		c->listed = true;
		p->nr_spare++;
	}
	p->reserved = max(p->reserved, want);

	for (i = 0; i < p->nr_numbers; i++) {
		bool full;

		if (p->chunks[i] == no_chunk() || p->chunks[i]->populated)
			continue;
		/* Leaves pages that are populated as they are. Before Linux 5.14: EINVAL. */
		full = madvise(p->chunks[i], CHUNK_BYTES, MADV_POPULATE_WRITE) && errno == ENOMEM;
		errno = error;
		if (full)
			return -ENOMEM;
		p->chunks[i]->populated = true;
	}
	return 0;
}

/**
 * htw_slots_init() - begin without timers
 * @p: the handle, with @p->first
 *
 * Return: 0 or -ENOMEM.
 */
int htw_slots_init(struct process *p)
{
	INIT_LIST_HEAD(&p->open);
	INIT_LIST_HEAD(&p->spare);
	p->from = no_chunk();
	p->nowhere.name = NAME_NOWHERE(p);
	return grow_numbers(p);
}

/**
 * htw_slots_free() - free all chunks, whatever is in them
 * @p: the handle
 */
void htw_slots_free(struct process *p)
{
	u32 i;

	for (i = 0; i < p->nr_numbers; i++)
		if (p->chunks[i] != no_chunk())
			munmap(p->chunks[i], CHUNK_BYTES);
	if (p->room_bytes)
		munmap(p->room, p->room_bytes);
	free(p->chunks);
	free(p->numbers);
}
