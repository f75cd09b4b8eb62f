/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timers of a context and their ids: pages, their directory, limits
 */
#ifndef _HTW_IDS_H
#define _HTW_IDS_H

#include <linux/list.h>
#include <linux/nospec.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "timer.h"

struct htw_context;

/**
 * struct htw_directory - a context's pages by number
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
 * @nr_pages: how many there are; grows after the page is in the directory
 *	(&htw_context.mutex)
 * @free: free timers that were used
 * @unused: the next of the timers that were never used
 * @nr_unused: how many these are
 * @unused_slot: its slot
 * @generation: with which those begin; never changes
 * @nr_timers: timers that are not free
 * @limit: maximum of those; final with the first page
 * @charged: slots for which the user is charged (&htw_context.mutex)
 * @spare: pages that were allocated together, and charged (&htw_context.mutex)
 * @nr_spare: how many these are
 */
struct htw_ids {
	spinlock_t lock;	/* order: a base's lock, this */
	struct htw_directory __rcu *dir;
	struct htw_page *first;
	u32 nr_pages;
	struct list_head free;
	struct htw_timer *unused;
	u32 nr_unused;
	u32 unused_slot;
	u32 generation;
	u32 nr_timers;
	u32 limit;
	u32 charged;
	void *spare;
	u32 nr_spare;
};

void htw_ids_init(struct htw_ids *ids, u32 limit);
void htw_ids_exit(struct htw_context *ctx);
int htw_ids_reserve(struct htw_context *ctx, struct list_head *timers, u32 want, u64 *numbers);
void htw_ids_return(struct htw_ids *ids, struct list_head *timers, u32 count);

/* htw_ids_return() for one that can be used again. */
static inline void htw_ids_return_one(struct htw_ids *ids, struct htw_timer *t)
{
	spin_lock(&ids->lock);
	__htw_list_add(&t->node.list, &ids->free);
	ids->nr_timers--;
	spin_unlock(&ids->lock);
}

/* The number of pages: all of them can be looked up. */
static inline u32 htw_ids_pages(const struct htw_ids *ids)
{
	/* Pairs with htw_ids_grow(). */
	return smp_load_acquire(&ids->nr_pages);
}

/* A timer's slot number: the lower half of its id. */
static inline u32 htw_ids_slot(const struct htw_ids *ids, const struct htw_timer *t)
{
	const struct htw_page *page = ids->first;
	size_t offset = (unsigned long)t - (unsigned long)page;

	if (likely(offset >= HTW_FIRST_SLOTS * sizeof(*t))) {
		page = (const struct htw_page *)((unsigned long)t & PAGE_MASK);
		offset = offset_in_page(t);
	}
	return page->slot + offset / sizeof(*t);
}

static inline u64 htw_ids_number(const struct htw_ids *ids, const struct htw_timer *t)
{
	return htw_timer_id_at(t, htw_ids_slot(ids, t));
}

/* htw_ids_reserve() for one if that is simple; NULL if it is not. */
static inline struct htw_timer *htw_ids_reserve_one(struct htw_ids *ids, u64 *number)
{
	struct htw_timer *t = NULL;

	spin_lock(&ids->lock);
	if (likely(ids->nr_timers < ids->limit)) {
		if (!list_empty(&ids->free)) {
			t = htw_timer_pop(&ids->free);
			*number = htw_ids_number(ids, t);
		} else if (ids->nr_unused) {
			t = ids->unused++;
			ids->nr_unused--;
			t->generation = ids->generation;
			*number = htw_timer_id_at(t, ids->unused_slot++);
		}
	}
	if (likely(t)) {
		WRITE_ONCE(t->state, HTW_RESERVED);
		ids->nr_timers++;
	}
	spin_unlock(&ids->lock);
	return t;
}

/**
 * struct htw_lookup - for looking up many ids; valid under RCU, as the lock of
 * a base is
 * @dir: the directory, or NULL
 * @first: the first page, or NULL
 * @nr_pages: how many pages there are
 */
struct htw_lookup {
	const struct htw_directory *dir;
	struct htw_page *first;
	u32 nr_pages;
};

static inline struct htw_lookup htw_ids_lookup(const struct htw_ids *ids)
{
	struct htw_lookup l;

	l.nr_pages = htw_ids_pages(ids);
	/* After the count, so that it holds all pages below it. */
	l.first = READ_ONCE(ids->first);
	l.dir = rcu_dereference_raw(ids->dir);
	return l;
}

/* What is found in place of a timer that there is not: it is free for ever. */
extern const struct htw_timer htw_no_timer;

/* The timer in an id's slot, in any state and of any generation. */
static inline struct htw_timer *htw_lookup_find(const struct htw_lookup *l, u64 id)
{
	u32 slot = id, nr = slot / HTW_PAGE_SLOTS, index = slot % HTW_PAGE_SLOTS;

	if (unlikely(nr >= l->nr_pages))
		return (struct htw_timer *)&htw_no_timer;
	if (!nr) {
		if (unlikely(index >= HTW_FIRST_SLOTS))
			return (struct htw_timer *)&htw_no_timer;
		index = array_index_nospec(index, HTW_FIRST_SLOTS);
		return &l->first->header + index;
	}
	/* The mask keeps a mispredicted branch within the array. */
	return &rcu_dereference_raw(l->dir->pages[nr & l->dir->mask])->header + index;
}

/*
 * End a timer's id. Return: false if its slot must not be used again: its
 * generations have run out.
 */
static inline bool htw_timer_end(struct htw_timer *t)
{
	WRITE_ONCE(t->state, HTW_FREE);
	return ++t->generation;
}

#endif /* _HTW_IDS_H */
