/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hierarchical timing wheel
 *
 * A data structure without a clock or a lock. Ticks are plain numbers, and the
 * caller serializes all calls on one wheel. It also compiles as part of a
 * program, for libhtw's timers in the process, with lib/port for what it uses
 * of the kernel.
 */
#ifndef _HTW_WHEEL_H
#define _HTW_WHEEL_H

#include <linux/compiler.h>
#include <linux/gfp_types.h>
#include <linux/htw_node.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define HTW_WHEEL_MAX_LEVELS	8
#define HTW_WHEEL_MAX_SLOTS	2048

#define HTW_NEVER		U64_MAX		/* a tick that never comes */

/**
 * struct htw_geometry - the shape of a wheel
 * @levels: number of levels, at least 1
 * @slots: slots of each level, finest first, from 2 to %HTW_WHEEL_MAX_SLOTS
 *	each; they need not be powers of two
 */
struct htw_geometry {
	unsigned int levels;
	unsigned int slots[HTW_WHEEL_MAX_LEVELS];
};

/**
 * struct htw_level - one level of a wheel
 * @last: the last tick whose nodes are put on this level or below: @end - 1, or
 *	the last tick that has come if that is later, as it may be until a
 *	rewind is complete
 * @end: the first tick that belongs to a level above; a multiple of that
 *	level's @span
 * @buckets: the ring of buckets, with room for two windows
 * @mask: @nr_buckets - 1 if all spans are powers of two, else zero
 * @shift: log2 of @span if all spans are powers of two
 * @nonempty: number of buckets that hold a node
 * @span: ticks in a slot
 * @occupied: a bit for each bucket, set if it holds a node
 * @nr_buckets: number of @buckets
 */
struct htw_level {
	u64 last;
	u64 end;
	struct list_head *buckets;
	u32 mask;
	u8 shift;
	u32 nonempty;
	u64 span;
	unsigned long *occupied;
	u32 nr_buckets;
};

/**
 * struct htw_wheel - a hierarchical timing wheel
 * @cursor: the first tick that has not been expired
 * @next: no work before this tick, see htw_wheel_next(). While the caller
 *	expires nodes it sets this to zero, so that htw_wheel_start() returns
 *	false
 * @next_window: the cursor's value at which the windows of level 0 move on
 * @pending: number of nodes in the wheel, those that are due included
 * @levels: number of levels
 * @pow2: all spans are powers of two
 * @search: what searching all levels takes of a budget
 * @due: nodes whose tick has come, in order
 * @overflow_scan: nodes of @overflow that are still to be looked at, see
 *	htw_wheel_overflow_cascade(); after htw_wheel_rewind() all nodes
 * @overflow_min: no node in @overflow is earlier; %HTW_NEVER while it is empty
 * @cascades: nodes moved down a level so far
 * @level: the levels, finest first, and one above the last whose only bucket is
 *	@overflow
 * @overflow: nodes beyond the last level
 */
struct htw_wheel {
	u64 cursor;
	u64 next;
	u64 next_window;
	u64 pending;
	unsigned int levels;
	bool pow2;
	unsigned int search;
	struct list_head due;
	struct list_head overflow_scan;
	u64 overflow_min;
	u64 cascades;
	struct htw_level level[HTW_WHEEL_MAX_LEVELS + 1];
	struct list_head overflow;
};

/* Has the deadline of a node come at @time? */
typedef bool htw_is_due_t(const struct htw_node *n, u64 time);

int htw_geometry_check(const struct htw_geometry *geo, const char **why);

int htw_wheel_init(struct htw_wheel *w, const struct htw_geometry *geo, u64 now,
		   gfp_t gfp, int node);
void htw_wheel_destroy(struct htw_wheel *w);

bool htw_wheel_link_due(struct htw_wheel *w, struct htw_node *n);
bool htw_wheel_make_due(struct htw_wheel *w, u64 now, htw_is_due_t *is_due,
			u64 time, bool *ahead);
bool htw_wheel_link_slow(struct htw_wheel *w, struct htw_level *lev,
			 struct htw_node *n);
bool htw_level_mark_bucket(struct htw_wheel *w, struct htw_level *lev,
			   struct htw_node *n);
void htw_level_emptied(struct htw_wheel *w, const struct list_head *list);
void htw_wheel_forward(struct htw_wheel *w, u64 now);
bool htw_wheel_is_ahead(struct htw_wheel *w, u64 expires);
u64 htw_wheel_coalesce(const struct htw_wheel *w, u64 first, u64 last);
bool htw_wheel_collect_due(struct htw_wheel *w, u64 now, unsigned int *budget);
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now,
				  unsigned int *budget);
bool htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget);
u64 htw_wheel_next(const struct htw_wheel *w);
bool htw_wheel_first_node(struct htw_wheel *w, unsigned int most,
			  struct htw_node **first);
void htw_wheel_rewind(struct htw_wheel *w, u64 now);
struct htw_node *htw_wheel_evict(struct htw_wheel *w);

/*
 * Lists on the hot path skip the hardening of CONFIG_DEBUG_LIST, which
 * distributions enable: it makes each list_add_tail() and list_del() a call,
 * which costs more than half of what moving a timer takes. (kernel/time/timer.c
 * does not pay for it either: hlists are not checked.) Debug kernels, as those
 * of the tests, keep the checks.
 */
#if defined(CONFIG_PROVE_LOCKING) || defined(CONFIG_KASAN)
#define HTW_DEBUG_LIST		true
#else
#define HTW_DEBUG_LIST		false
#endif

static inline void __htw_list_add(struct list_head *entry,
				  struct list_head *head)
{
	struct list_head *first = head->next;

	if (HTW_DEBUG_LIST) {
		list_add(entry, head);
		return;
	}
	entry->next = first;
	entry->prev = head;
	first->prev = entry;
	WRITE_ONCE(head->next, entry);
}

static inline void __htw_list_add_tail(struct list_head *entry,
				       struct list_head *head)
{
	struct list_head *last = head->prev;

	if (HTW_DEBUG_LIST) {
		list_add_tail(entry, head);
		return;
	}
	entry->next = head;
	entry->prev = last;
	head->prev = entry;
	WRITE_ONCE(last->next, entry);
}

/* Leaves the entry's own links stale, where list_del() poisons them. */
static inline void __htw_list_del(struct list_head *entry)
{
	if (HTW_DEBUG_LIST)
		list_del(entry);
	else
		__list_del(entry->prev, entry->next);
}

/* The level of a tick that has not come; the search ends at the overflow list. */
static inline struct htw_level *htw_wheel_level(struct htw_wheel *w,
						u64 expires)
{
	struct htw_level *lev = w->level;

	while (expires > lev->last)
		lev++;
	return lev;
}

/* Append a node to a bucket. Return: true if it was empty, so that its bit has to be set. */
static inline bool htw_level_append(struct list_head *bucket,
				    struct htw_node *n)
{
	__htw_list_add_tail(&n->list, bucket);
	return n->list.prev == bucket;
}

/* Link a node into its bucket on a level. Return: as htw_wheel_start(). */
static __always_inline bool
htw_level_link(struct htw_wheel *w, struct htw_level *lev, struct htw_node *n)
{
	if (unlikely(!lev->mask))
		return htw_wheel_link_slow(w, lev, n);
	/* Only the first node of a bucket can make work earlier. */
	return unlikely(htw_level_append(&lev->buckets[(n->expires >> lev->shift) & lev->mask],
					 n)) &&
	       htw_level_mark_bucket(w, lev, n);
}

/* Link a node where its tick belongs. Return: as htw_wheel_start(). */
static inline bool htw_wheel_link(struct htw_wheel *w, struct htw_node *n)
{
	struct htw_level *lev = w->level;

	/* As htw_wheel_level(). Only a search that ends on level 0 checks for a past tick. */
	if (n->expires > lev->last) {
		do {
			lev++;
		} while (n->expires > lev->last);
	} else if (unlikely(n->expires < w->cursor)) {
		return htw_wheel_link_due(w, n);
	}
	return htw_level_link(w, lev, n);
}

/* Take a node out of its bucket or list. */
static inline void htw_wheel_unlink(struct htw_wheel *w, struct htw_node *n)
{
	struct list_head *prev = n->list.prev, *next = n->list.next;

	__htw_list_del(&n->list);
	if (unlikely(prev == next))	/* both are the list's head */
		htw_level_emptied(w, prev);
}

/**
 * htw_wheel_start() - start a node (START_TIMER)
 * @w: the wheel, after htw_wheel_forward()
 * @n: the node, on no list, with &htw_node.expires set
 *
 * A node whose tick has come is due at once. Nodes of one tick expire in the
 * order in which they were started.
 *
 * Return: true if &htw_wheel.next has become earlier, so that the caller has to
 * reprogram its timer.
 */
static inline bool htw_wheel_start(struct htw_wheel *w, struct htw_node *n)
{
	bool ahead = htw_wheel_link(w, n);

	w->pending++;
	return ahead;
}

/**
 * htw_wheel_stop() - stop a node (STOP_TIMER)
 * @w: the wheel
 * @n: a node in the wheel
 *
 * &htw_wheel.next stays, so the caller may come back once without work.
 */
static inline void htw_wheel_stop(struct htw_wheel *w, struct htw_node *n)
{
	w->pending--;
	htw_wheel_unlink(w, n);
}

#endif /* _HTW_WHEEL_H */
