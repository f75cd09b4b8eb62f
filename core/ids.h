/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timers of a context and their ids: which are free, and how one is found
 */
#ifndef _HTW_IDS_H
#define _HTW_IDS_H

#include <linux/nospec.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "timer.h"

/* Pages of a context at most, and its timers. */
#define HTW_DIRECTORY_MAX	BIT(18)
#define HTW_CONTEXT_MAX		(HTW_DIRECTORY_MAX * HTW_PAGE_TIMERS)

/**
 * struct htw_directory - a context's pages by number, from the second one on
 * @rcu: frees it after it has been replaced
 * @mask: number of entries - 1; constant
 * @pages: the pages; a missing page is NULL
 */
struct htw_directory {
	struct rcu_head rcu;
	u32 mask;
	struct htw_page __rcu *pages[];
};

/**
 * struct htw_ids - the timers of a context
 * @lock: guards what follows. Order: a base's lock, this
 * @dir: the pages by number (&htw_context.mutex; read under RCU); NULL before
 *	the second page
 * @first: the first page, of %HTW_FIRST_SLOTS slots, or NULL; set once
 *	(&htw_context.mutex)
 * @nr_pages: how many there are or were; grows after the page is in the
 *	directory (&htw_context.mutex)
 * @nr_held: those that there are, but for the first (&htw_context.mutex)
 * @hole: the first that was given back may be this one (&htw_context.mutex)
 * @pages: those with free timers; the ones in which none is used are last
 * @nr_empty: how many these are
 * @generation: with which new pages begin: no page that was given back has had
 *	a later one (&htw_context.mutex)
 * @nr_timers: timers that are not free
 * @limit: maximum of those; final with the first page
 * @spare: pages that were allocated together, and charged (&htw_context.mutex)
 * @nr_spare: how many these are
 */
struct htw_ids {
	spinlock_t lock;	/* order: a base's lock, this */
	struct htw_directory __rcu *dir;
	struct htw_page *first;
	u32 nr_pages;
	u32 nr_held;
	u32 hole;
	struct list_head pages;
	u32 nr_empty;
	u32 generation;
	u32 nr_timers;
	u32 limit;
	void *spare;
	u32 nr_spare;
};

void htw_ids_init(struct htw_ids *ids, u32 limit);
u32 htw_ids_take(struct htw_ids *ids, struct htw_timer **timers, u32 want, u64 *numbers);
void htw_ids_return(struct htw_ids *ids, struct list_head *timers, u32 count);
void htw_page_retire(struct htw_ids *ids, struct htw_page *page);
void htw_ids_give_up(struct htw_ids *ids, struct htw_timer *t);

/* The number of pages: all of them can be looked up. */
static inline u32 htw_ids_pages(const struct htw_ids *ids)
{
	/* Pairs with htw_pages_grow(). */
	return smp_load_acquire(&ids->nr_pages);
}

/* The page of a timer. */
static inline struct htw_page *htw_ids_page(const struct htw_ids *ids, const struct htw_timer *t)
{
	size_t offset = (unsigned long)t - (unsigned long)ids->first;

	if (unlikely(offset < HTW_FIRST_SLOTS * sizeof(*t)))
		return ids->first;
	return (struct htw_page *)((unsigned long)t & PAGE_MASK);
}

/* The id by which programs name a timer; never zero. */
static inline u64 htw_ids_number(const struct htw_ids *ids, const struct htw_timer *t)
{
	const struct htw_page *page = htw_ids_page(ids, t);
	u32 slot = page->slot + (t - &page->header);

	return (u64)t->generation << 32 | slot;
}

/*
 * Take free timers of a page that has some, and whose generations have not run
 * out. Return: how many, from 1 to @want.
 */
static __always_inline u32 htw_page_take(struct htw_ids *ids, struct htw_page *page,
					 struct htw_timer **timers, u32 want, u64 *numbers)
{
	u32 n = want == 1 ? 1 : min(want, HTW_PAGE_TIMERS - page->used);
	u32 generation = ++page->generation;
	u64 first = (u64)generation << 32 | page->slot;
	struct list_head *free = page->free;

	lockdep_assert_held(&ids->lock);

	for (u32 i = 0; i < n; i++, free = free->next) {
		struct htw_timer *t = list_entry(free, struct htw_timer, node.list);

		t->generation = generation;
		numbers[i] = first + (t - &page->header);
		timers[i] = t;
	}
	page->free = free;
	if (unlikely(!free))
		__htw_list_del(&page->list);
	if (unlikely(!page->used))
		WRITE_ONCE(ids->nr_empty, ids->nr_empty - 1);
	page->used += n;
	ids->nr_timers += n;
	return n;
}

/* htw_pages_reserve() for one if that is simple; NULL if it is not. */
static inline struct htw_timer *htw_ids_reserve_one(struct htw_ids *ids, u64 *number)
{
	struct htw_timer *t = NULL;
	struct htw_page *page;

	spin_lock(&ids->lock);
	page = list_first_entry(&ids->pages, struct htw_page, list);
	if (likely(!list_empty(&ids->pages) && page->generation != U32_MAX &&
		   ids->nr_timers < ids->limit))
		htw_page_take(ids, page, &t, 1, number);
	spin_unlock(&ids->lock);
	return t;
}

/**
 * struct htw_lookup - for looking up many ids; valid as long as the lock of a
 * base is held, as what is found is
 * @pages: the pages in the directory
 * @mask: &htw_directory.mask
 * @nr_pages: how many of those there are
 * @first: the first page, which is not in the directory, or NULL
 */
struct htw_lookup {
	struct htw_page __rcu * const *pages;
	u32 mask;
	u32 nr_pages;
	struct htw_page *first;
};

static inline struct htw_lookup htw_ids_lookup(const struct htw_ids *ids)
{
	u32 nr_pages = htw_ids_pages(ids);
	struct htw_lookup l = { .first = READ_ONCE(ids->first) };

	if (nr_pages > 1) {
		/* After the count, so that it holds all pages below it. */
		const struct htw_directory *dir = rcu_dereference_raw(ids->dir);

		l.pages = dir->pages;
		l.mask = dir->mask;
		l.nr_pages = nr_pages - 1;
	}
	return l;
}

/* What is found in place of a timer that there is not: it is free for ever. */
extern const struct htw_timer htw_no_timer;

/* htw_lookup_find() for a slot that is not in the directory's pages. */
static inline struct htw_timer *htw_lookup_first(const struct htw_lookup *l, u32 slot)
{
	if (slot >= HTW_FIRST_SLOTS || !l->first)
		return (struct htw_timer *)&htw_no_timer;
	return &l->first->header + array_index_nospec(slot, HTW_FIRST_SLOTS);
}

/* The timer in an id's slot, in any state and of any generation. */
static inline struct htw_timer *htw_lookup_find(const struct htw_lookup *l, u64 id)
{
	/* A slot of the first page becomes a number that no page has. */
	u32 slot = id, nr = (slot - HTW_PAGE_SLOTS) / HTW_PAGE_SLOTS;

	if (unlikely(nr >= l->nr_pages))
		return htw_lookup_first(l, slot);
	/* The mask keeps a mispredicted branch within the array. */
	return &rcu_dereference_raw(l->pages[nr & l->mask])->header + slot % HTW_PAGE_SLOTS;
}

#endif /* _HTW_IDS_H */
