// SPDX-License-Identifier: MIT
/* Memory of the deadlines of timers that can be put off; see deadlines.h. */
#include "deadlines.h"

#include <sys/mman.h>

#define BLOCK_BYTES	(HTW_DEADLINE_BLOCK * sizeof(struct htw_deadline))
#define COUNT_MIN	16u

/* Blocks among which one is looked for that can be used again. */
#define LOOKS		4u

/*
 * The pointers to the blocks, as stores see them, and behind them to those that
 * were dropped, while a store may still be looking at one. When a longer list
 * takes its place it stays until the handle is closed, as a store may be looking
 * at it.
 */
struct list {
	struct list *older;
	struct htw_deadline **dropped;
	u32 nr_dropped;
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
	struct htw_deadline *block;
	u32 i, looks;

	for (i = list->nr_dropped, looks = LOOKS; i && looks; i--, looks--) {
		block = list->dropped[i - 1];
		if (!is_quiet(block))
			continue;
		list->dropped[i - 1] = list->dropped[--list->nr_dropped];
		return block;
	}
	return NULL;
}

static struct htw_deadline *new_block(struct list *list)
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
	madvise(block, BLOCK_BYTES, MADV_WIPEONFORK);
	errno = error;
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
	list = malloc(sizeof(*list) + 2 * count * sizeof(*list->d.blocks));
	errno = error;
	if (!list)
		return -ENOMEM;

	list->older = old == &none.d ? NULL : list_of(old);
	list->d.blocks = (struct htw_deadline **)(list + 1);
	list->dropped = list->d.blocks + count;
	list->nr_dropped = list_of(old)->nr_dropped;
	for (i = 0; i < list->nr_dropped; i++)
		list->dropped[i] = list_of(old)->dropped[i];
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
 *
 * Return: the entry; NULL if there is no memory.
 */
struct htw_deadline *htw_deadlines_reach(struct htw *htw, u32 first, u64 id)
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
		block = new_block(list_of(d));
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
	struct list *list = list_of(htw->deadlines);
	const int error = errno;
	struct htw_deadline *block;

	if (number >= list->d.count || list->d.blocks[number] == nothing ||
	    list->nr_dropped == list->d.count)
		return;

	block = list->d.blocks[number];
	list->dropped[list->nr_dropped++] = block;
	__atomic_store_n(&list->d.blocks[number], nothing, __ATOMIC_RELEASE);
	if (is_quiet(block))
		madvise(block, BLOCK_BYTES, MADV_DONTNEED);
	errno = error;
}

/**
 * htw_deadlines_free() - free all entries
 * @htw: the handle, which no thread uses any more
 */
void htw_deadlines_free(struct htw *htw)
{
	struct list *list = list_of(htw->deadlines), *older;
	u32 i;

	if (list == &none)
		return;
	for (i = 0; i < list->nr_dropped; i++)
		munmap(list->dropped[i], BLOCK_BYTES);
	for (i = 0; i < list->d.count; i++)
		if (list->d.blocks[i] != nothing)
			munmap(list->d.blocks[i], BLOCK_BYTES);
	for (; list; list = older) {
		older = list->older;
		free(list);
	}
	htw->deadlines = &none.d;
}
