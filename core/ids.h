/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timers of a context and their ids: which are free, and how one is found
 */
#ifndef _HTW_IDS_H
#define _HTW_IDS_H

#include <linux/atomic.h>
#include <linux/nospec.h>
#include <linux/rcupdate.h>

#include "base.h"

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
 * struct htw_ids - the pages of a context's timers (&htw_context.mutex, and read
 * without)
 * @dir: the pages by number (read under RCU); NULL before the second page
 * @first: the first page, of %HTW_FIRST_SLOTS slots, or NULL; set once
 * @nr_pages: how many there are or were; grows after the page is in the
 *	directory
 * @nr_held: those that there are, but for the first
 * @hole: the first that was given back may be this one
 * @generation: with which new pages begin: no page that was given back has had
 *	a later one
 * @limit: timers at most; final with the first page
 * @room: how many more timers new pages may have; less with the mutex alone
 * @kept: empty pages that each base keeps
 * @is_sparse: many pages of a base are empty, for htw_pages_shrink(); cleared
 *	with the mutex alone
 */
struct htw_ids {
	struct htw_directory __rcu *dir;
	struct htw_page *first;
	u32 nr_pages;
	u32 nr_held;
	u32 hole;
	u32 generation;
	u32 limit;
	atomic_t room;
	u32 kept;
	bool is_sparse;
};

void htw_ids_init(struct htw_ids *ids);
void htw_ids_limit(struct htw_ids *ids, u32 limit);
u32 htw_ids_take(struct htw_base *base, struct htw_timer **timers, u32 want, u64 *numbers);
void htw_ids_share(struct htw_ids *ids, u32 nr_bases);
bool htw_ids_are_sparse(const struct htw_base *base);
void htw_page_empty(struct htw_base *base, struct htw_page *page);
void htw_page_retire(struct htw_base *base, struct htw_page *page);

/* The number of pages: all of them can be looked up. */
static inline u32 htw_ids_pages(const struct htw_ids *ids)
{
	/* Pairs with htw_pages_add(). */
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
static __always_inline u32 htw_page_take(struct htw_base *base, struct htw_page *page,
					 struct htw_timer **timers, u32 want, u64 *numbers)
{
	u32 n = want == 1 ? 1 : min(want, HTW_PAGE_TIMERS - page->used);
	u32 generation = ++page->generation;
	u64 first = (u64)generation << 32 | page->slot;
	struct list_head *free = page->free;

	lockdep_assert_held(&base->lock);

	for (u32 i = 0; i < n; i++, free = free->next) {
		struct htw_timer *t = list_entry(free, struct htw_timer, node.list);

		t->generation = generation;
		numbers[i] = first + (t - &page->header);
		timers[i] = t;
	}
	page->free = free;
	if (unlikely(!page->used)) {
		list_move(&page->list, &base->pages);
		base->nr_empty--;
	}
	if (unlikely(!free))
		__htw_list_del(&page->list);
	page->used += n;
	return n;
}

/* Take a timer of a base if that is simple; NULL if it is not. */
static inline struct htw_timer *htw_ids_take_one(struct htw_base *base, u64 *number)
{
	struct htw_timer *t = NULL;
	struct htw_page *page;

	spin_lock(&base->lock);
	page = list_first_entry(&base->pages, struct htw_page, list);
	if (likely(!list_empty(&base->pages) && page->generation != U32_MAX))
		htw_page_take(base, page, &t, 1, number);
	spin_unlock(&base->lock);
	return t;
}

/* End a timer, which is on no list: its id is not valid any more, and it can be taken again. */
static __always_inline void htw_ids_return(struct htw_base *base, const struct htw_ids *ids,
					   struct htw_timer *t)
{
	struct htw_page *page = htw_ids_page(ids, t);

	lockdep_assert_held(&base->lock);

	if (unlikely(!page->free))
		list_add(&page->list, &base->pages);
	WRITE_ONCE(t->key, 0);
	t->node.list.next = page->free;
	page->free = &t->node.list;
	if (unlikely(!--page->used))
		htw_page_empty(base, page);
}

/*
 * The same for one that was taken, and has not been started. Its id is not used
 * again: another thread of the program may have read it from memory.
 */
static inline void htw_ids_give_up(struct htw_base *base, struct htw_timer *t)
{
	spin_lock(&base->lock);
	htw_ids_return(base, base->ids, t);
	spin_unlock(&base->lock);
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
