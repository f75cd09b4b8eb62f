// SPDX-License-Identifier: MIT
/* Memory of the deadlines of timers that can be put off; see deadlines.h. */
#include "deadlines.h"

#include <sys/mman.h>

#define BLOCK_BYTES	(HTW_DEADLINE_BLOCK * sizeof(struct htw_deadline))
#define COUNT_MIN	16u

/* Blocks among which one is looked for that can be used again. */
#define LOOKS		4u

/* A block whose memory was given back, while a store may still be looking at it. */
struct dropped {
	struct dropped *next;
	struct htw_deadline *block;
};

/*
 * The pointers to the blocks, as stores see them. When a longer list takes its
 * place it stays until the handle is closed, as a store may be looking at it.
 */
struct list {
	struct list *older;
	struct dropped *dropped;
	struct htw_deadlines d;
};

static struct list *list_of(struct htw_deadlines *d)
{
	return container_of(d, struct list, d);
}

/* Stands for blocks that do not exist, so that stores need not ask. */
static struct htw_deadline nothing[HTW_DEADLINE_BLOCK];

/* What a handle without such timers has. */
static struct list none;

/**
 * htw_deadlines_init() - begin without entries
 * @htw: the handle
 */
void htw_deadlines_init(struct htw *htw)
{
	htw->deadlines = &none.d;
}

/* Does no timer have an entry, and is no store on its way to one? */
static bool is_quiet(const struct htw_deadline *block)
{
	u32 i;

	for (i = 0; i < HTW_DEADLINE_BLOCK; i++)
		if (__atomic_load_n(&block[i].tag, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

/*
 * Take a block that was dropped. One is left that has a store on its way, or
 * forgot one with its memory: a store that had found another timer's id, and
 * then took one from a count that was zero again.
 */
static struct htw_deadline *dropped_block(struct list *list)
{
	struct dropped **at = &list->dropped, *dropped;
	struct htw_deadline *block;
	u32 looks;

	for (looks = 0; *at && looks < LOOKS; looks++, at = &(*at)->next) {
		dropped = *at;
		if (!is_quiet(dropped->block))
			continue;
		block = dropped->block;
		*at = dropped->next;
		free(dropped);
		return block;
	}
	return NULL;
}

static struct htw_deadline *new_block(struct list *list, bool wipe_on_fork)
{
	const int error = errno;
	void *block = dropped_block(list);

	if (block)
		return block;
	block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED) {
		errno = error;
		return NULL;
	}
	if (wipe_on_fork)
		madvise(block, BLOCK_BYTES, MADV_WIPEONFORK);
	return block;
}

/* Put a list of at least @count blocks in the place of the present one. */
static int grow_list(struct htw *htw, u32 first, u32 count)
{
	struct htw_deadlines *old = htw->deadlines;
	const int error = errno;
	struct list *list;
	u32 i;

	count = max(max(count, old->count * 2), COUNT_MIN);
	list = malloc(sizeof(*list) + (count - 1) * sizeof(list->d.blocks[0]));
	errno = error;
	if (!list)
		return -ENOMEM;

	list->older = old == &none.d ? NULL : list_of(old);
	list->dropped = list_of(old)->dropped;
	list->d.first = first;
	list->d.count = count;
	for (i = 0; i < count; i++)
		list->d.blocks[i] = i < old->count ? old->blocks[i] : nothing;
	__atomic_store_n(&htw->deadlines, &list->d, __ATOMIC_RELEASE);
	return 0;
}

/**
 * htw_deadlines_reach() - make an entry for an id
 * @htw: the handle, whose lock is held
 * @first: number of the first block, always the same
 * @id: the id
 * @wipe_on_fork: a child of fork() shall find no timer in it
 *
 * Return: the entry; NULL if there is no memory.
 */
struct htw_deadline *htw_deadlines_reach(struct htw *htw, u32 first, u64 id, bool wipe_on_fork)
{
	const u32 number = (u32)id / HTW_DEADLINE_BLOCK - first;
	struct htw_deadlines *d = htw->deadlines;
	struct htw_deadline *block;

	if (unlikely(number >= d->count)) {
		if (grow_list(htw, first, number + 1))
			return NULL;
		d = htw->deadlines;
	}

	block = d->blocks[number];
	if (unlikely(block == nothing)) {
		block = new_block(list_of(d), wipe_on_fork);
		if (!block)
			return NULL;
		__atomic_store_n(&d->blocks[number], block, __ATOMIC_RELEASE);
	}
	return &block[id % HTW_DEADLINE_BLOCK];
}

/**
 * htw_deadlines_drop() - give the memory of a block's entries back
 * @htw: the handle, whose lock is held; no timer has one of them
 * @number: the block, counted from the first
 *
 * A store may still be on its way to one, and its count must not be forgotten
 * with the memory: the store would then reach the next timer that gets the
 * entry. So stores are led elsewhere first, and the block is used again only
 * when it is quiet.
 */
void htw_deadlines_drop(struct htw *htw, u32 number)
{
	struct htw_deadlines *d = htw->deadlines;
	const int error = errno;
	struct dropped *dropped;

	if (number >= d->count || d->blocks[number] == nothing)
		return;
	dropped = malloc(sizeof(*dropped));
	if (dropped) {
		dropped->block = d->blocks[number];
		dropped->next = list_of(d)->dropped;
		list_of(d)->dropped = dropped;
		__atomic_store_n(&d->blocks[number], nothing, __ATOMIC_RELEASE);
		if (is_quiet(dropped->block))
			madvise(dropped->block, BLOCK_BYTES, MADV_DONTNEED);
	}
	errno = error;
}

/**
 * htw_deadlines_free() - free all entries
 * @htw: the handle, which no thread uses any more
 */
void htw_deadlines_free(struct htw *htw)
{
	struct list *list = list_of(htw->deadlines), *older;
	struct dropped *dropped, *next;
	u32 i;

	if (list == &none)
		return;
	for (dropped = list->dropped; dropped; dropped = next) {
		next = dropped->next;
		munmap(dropped->block, BLOCK_BYTES);
		free(dropped);
	}
	for (i = 0; i < list->d.count; i++)
		if (list->d.blocks[i] != nothing)
			munmap(list->d.blocks[i], BLOCK_BYTES);
	for (; list; list = older) {
		older = list->older;
		free(list);
	}
	htw->deadlines = &none.d;
}
