/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hierarchical timing wheel
 *
 * A data structure without a clock, a lock or memory of its own. Ticks are
 * plain numbers, and the caller serializes all calls on one wheel. It also
 * compiles as part of a program, for libhtw's timers in the process and as two
 * files by itself, with lib/port for what it uses of the kernel. What only such
 * programs call is in wheel/more.c.
 */
#ifndef _HTW_WHEEL_H
#define _HTW_WHEEL_H

#include <linux/compiler.h>
#include <linux/htw_node.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define HTW_WHEEL_MAX_LEVELS	8
#define HTW_WHEEL_MAX_SLOTS	2048

/*
 * What callers must see to. A program may define it, as assert() for instance.
 */
#ifndef HTW_ASSERT
#define HTW_ASSERT(condition)	do { if (0) (void)(condition); } while (0)
#endif

/*
 * Can wheels have levels? A program whose wheels have none may define it as 0, and
 * takes half as much code.
 */
#ifndef HTW_WHEEL_LEVELS
#define HTW_WHEEL_LEVELS	1
#endif

#define HTW_NEVER		U64_MAX		/* a tick that never comes */
#define HTW_LAST_TICK		(HTW_NEVER / 2 + 1)	/* the last tick that can come */
#define HTW_ALL			(~0U)		/* a budget that is never used up */

/*
 * Bits of a tick that choose the list of a node beyond the levels; lists for 64
 * bits.
 */
#define HTW_DIGIT_BITS		2
#define HTW_WHEEL_LISTS		(64 / HTW_DIGIT_BITS + 1)

/**
 * struct htw_geometry - the shape of a wheel's levels
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
 *	the last tick that has come if that is later, as it may be until nodes
 *	that were there before the levels, or before a rewind, have been sorted;
 *	never later than %HTW_LAST_TICK
 * @end: the first tick that belongs to a level above; a multiple of that
 *	level's @span
 * @buckets: the ring of buckets, with room for two windows
 * @mask: @nr_buckets - 1 if that number and @span are powers of two, else zero
 * @shift: log2 of @span if there is a @mask
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
 * @level: the levels, finest first, and one above the last that stands for
 *	@beyond; without levels in @none
 * @cursor: the first tick that has not been expired
 * @next: no work before this tick, see htw_wheel_next(). A caller that expires
 *	nodes may set it to zero, so that htw_wheel_start() returns false until
 *	htw_wheel_next() is called
 * @next_window: the cursor's value at which the windows of level 0 move on, or
 *	the end of time
 * @settled: as long as the cursor is before this, no bucket has to be moved
 *	down
 * @pending: number of nodes in the wheel, those that are due included
 * @levels: number of levels
 * @search: what searching all levels takes of a budget
 * @rewound: some of @unsorted may be nodes whose tick has come
 * @due: nodes whose tick has come, in order
 * @quiet: no work before this tick, if the cursor is not beyond it: what
 *	@next is, but nobody else sets it, and an advance that has found nothing
 *	to do has it later
 * @cascades: nodes moved down a level so far
 * @base: the lists of @beyond are relative to this tick, and no node in them is
 *	earlier
 * @used: a bit for each list of @beyond, set if it holds a node
 * @unsorted: nodes that are to be put where they belong, in order
 * @beyond: nodes beyond the last level, by the highest digit, of
 *	%HTW_DIGIT_BITS, in which their tick differs from @base
 * @sorted: few nodes without levels, by their ticks
 * @never: nodes of ticks after %HTW_LAST_TICK, in the order of their starts
 * @none: in place of levels: one that stands for @sorted, one for @beyond
 */
struct htw_wheel {
	struct htw_level *level;
	u64 cursor;
	u64 next;
	u64 next_window;
	u64 settled;
	u64 pending;
	unsigned int levels;
	unsigned int search;
	bool rewound;
	struct list_head due;
	u64 quiet;
	u64 cascades;
	u64 base;
	u64 used;
	struct list_head unsorted;
	struct list_head beyond[HTW_WHEEL_LISTS];
	struct list_head sorted;
	struct list_head never;
	struct htw_level none[2];
};

/* Has the deadline of a node come at @time? */
typedef bool htw_is_due_t(const struct htw_node *n, u64 time);

const char *htw_geometry_error(const struct htw_geometry *geo);
void htw_geometry_default(struct htw_geometry *geo, u64 tick_ns, u64 nodes);
size_t htw_geometry_bytes(const struct htw_geometry *geo);

u64 htw_coalesce(u64 first, u64 last);
u64 htw_tick_within(u64 deadline, u64 slack, u64 tick_ns);

void htw_wheel_init(struct htw_wheel *w, u64 now);
void htw_levels_init(const struct htw_geometry *geo, void *memory);
bool htw_wheel_attach_levels(struct htw_wheel *w, const struct htw_geometry *geo,
			     void *memory);
void *htw_wheel_remove_levels(struct htw_wheel *w);

bool htw_wheel_link_due(struct htw_wheel *w, struct htw_node *n);
bool htw_wheel_make_due(struct htw_wheel *w, u64 now, htw_is_due_t *is_due,
			u64 time, bool *ahead);
bool htw_wheel_link_slow(struct htw_wheel *w, struct htw_level *lev,
			 struct htw_node *n);
bool htw_level_mark_bucket(struct htw_wheel *w, struct htw_level *lev,
			   struct htw_node *n);
void htw_wheel_emptied(struct htw_wheel *w, const struct list_head *list);
void htw_wheel_forward(struct htw_wheel *w, u64 now);
bool htw_wheel_collect_due(struct htw_wheel *w, u64 now, unsigned int *budget);
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now,
				  unsigned int *budget);
bool htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget);
void htw_wheel_set_quiet(struct htw_wheel *w);
u64 htw_wheel_next(struct htw_wheel *w);
u64 htw_wheel_first_tick(const struct htw_wheel *w);
bool htw_wheel_holds(const struct htw_wheel *w, const struct htw_node *n);
u64 htw_level_first_tick(const struct htw_wheel *w, unsigned int l);
u64 htw_beyond_first_tick(const struct htw_wheel *w, unsigned int most);
void htw_wheel_rewind(struct htw_wheel *w, u64 now);

/**
 * htw_tick_up() - round a deadline up to a tick, so that nothing is early
 * @deadline: a time, from 0
 * @tick_ns: what a tick is of it
 *
 * Return: the tick; %HTW_NEVER for the last u64, which is a time that never
 * comes.
 */
static inline u64 htw_tick_up(u64 deadline, u64 tick_ns)
{
	u64 tick = div64_u64(deadline, tick_ns);

	if (unlikely(deadline == U64_MAX))
		return HTW_NEVER;
	return tick + (tick * tick_ns != deadline);
}

/*
 * Lists on the hot path skip the hardening of CONFIG_DEBUG_LIST, which
 * distributions enable: it makes each list_add_tail() and list_del() a call,
 * which costs more than half of what moving a timer takes. (kernel/time/timer.c
 * does not pay for it either: hlists are not checked.) Debug kernels, as those
 * of the tests, keep the checks.
 */
#if defined(CONFIG_PROVE_LOCKING) || defined(CONFIG_KASAN)
#define __htw_list_add_tail(entry, head)	list_add_tail(entry, head)
#define __htw_list_del(entry)			list_del(entry)
#else
static inline void __htw_list_add_tail(struct list_head *entry,
				       struct list_head *head)
{
	struct list_head *last = head->prev;

	entry->next = head;
	entry->prev = last;
	head->prev = entry;
	WRITE_ONCE(last->next, entry);
}

/* Leaves the entry's own links as they are. */
static inline void __htw_list_del(struct list_head *entry)
{
	__list_del(entry->prev, entry->next);
}
#endif

/* Make a node one that is not pending, before its first start. */
static inline void htw_node_init(struct htw_node *n)
{
	n->list.next = NULL;
}

/* Is a node in a wheel? After htw_node_init(). */
static inline bool htw_node_pending(const struct htw_node *n)
{
	return n->list.next;
}

/* The number of a wheel's levels. */
static inline unsigned int htw_wheel_levels(const struct htw_wheel *w)
{
	return HTW_WHEEL_LEVELS ? w->levels : 0;
}

/* The number of nodes in a wheel, those that are due included. */
static inline u64 htw_wheel_count(const struct htw_wheel *w)
{
	return w->pending;
}

/*
 * Append a node to a list. Return: true if it was empty, so that its bit has to
 * be set.
 */
static inline bool htw_level_append(struct list_head *list, struct htw_node *n)
{
	__htw_list_add_tail(&n->list, list);
	return n->list.prev == list;
}

/* Link a node into its bucket on a level. Return: as htw_wheel_start(). */
static __always_inline bool
htw_level_link(struct htw_wheel *w, struct htw_level *lev, struct htw_node *n)
{
	if (!HTW_WHEEL_LEVELS || unlikely(!lev->mask))
		return htw_wheel_link_slow(w, lev, n);
	/* Only the first node of a bucket can make work earlier. */
	return unlikely(htw_level_append(&lev->buckets[(n->expires >> lev->shift) & lev->mask],
					 n)) &&
	       htw_level_mark_bucket(w, lev, n);
}

/*
 * Link a node where its tick, &htw_node.expires, belongs. Return: as
 * htw_wheel_start().
 */
static inline bool htw_wheel_link(struct htw_wheel *w, struct htw_node *n)
{
	struct htw_level *lev = w->level;

	/* Only a search that ends on level 0 checks for a past tick. */
	if (HTW_WHEEL_LEVELS && n->expires > lev->last) {
		do {
			lev++;
		} while (n->expires > lev->last);
	} else if (unlikely(n->expires < w->cursor)) {
		return htw_wheel_link_due(w, n);
	}
	return htw_level_link(w, lev, n);
}

/* The tick of the first node in the sorted list. */
static inline u64 htw_sorted_first_tick(const struct htw_wheel *w)
{
	return list_empty(&w->sorted) ? HTW_NEVER :
	       list_first_entry(&w->sorted, struct htw_node, list)->expires;
}

/*
 * Is &htw_wheel.next another one than @known, or has its node been stopped? On
 * upper levels a bucket that has been emptied is not noticed: then there is no
 * work at that tick.
 */
static inline bool htw_wheel_next_is_stale(const struct htw_wheel *w, u64 known)
{
	const struct htw_level *lev = w->level;

	if (w->next != known || (!w->pending && known != HTW_NEVER))
		return true;
	if (!lev->mask)
		return lev == w->none && known != HTW_NEVER && list_empty(&w->due) &&
		       htw_sorted_first_tick(w) != known;
	return known >= w->cursor && known < w->settled &&
	       list_empty(&lev->buckets[known & lev->mask]);
}

/*
 * Is there no work up to the present? Then the cursor advances past it, and
 * nothing else is to be done. A node that is due is before the cursor, and work
 * before @quiet: so none is due here.
 */
static inline bool htw_wheel_pass(struct htw_wheel *w, u64 now)
{
	u64 cursor = now + 1;

	if (now >= w->quiet || cursor < w->cursor)
		return false;
	/*
	 * Mostly no window moves, nor does what follows the cursor; the end of time
	 * is a window's.
	 */
	if (likely(cursor < w->next_window && cursor <= w->level->end))
		w->cursor = cursor;
	else
		htw_wheel_forward(w, now);
	return true;
}

/* Take a node out of its bucket or list. */
static inline void htw_wheel_unlink(struct htw_wheel *w, struct htw_node *n)
{
	struct list_head *prev = n->list.prev, *next = n->list.next;

	__htw_list_del(&n->list);
	if (unlikely(prev == next))	/* both are the list's head */
		htw_wheel_emptied(w, prev);
}

/**
 * htw_wheel_start() - start a node
 * @w: the wheel
 * @n: the node, in no wheel; after htw_node_init(), or zeroed
 * @tick: when it expires; never, if that is later than %HTW_LAST_TICK
 *
 * A node whose tick has come is due at once. Nodes of one tick expire in the
 * order in which they were started. On a wheel that has been idle, call
 * htw_wheel_forward() first.
 *
 * Return: true if there is work before &htw_wheel.next, the tick that
 * htw_wheel_next() has returned last, so that the caller has to wake up earlier
 * than that; &htw_wheel.next is the earlier tick now. If it is false, what the
 * caller has planned is early enough for all nodes. That does not mean that
 * htw_wheel_next() would return the same again: a list may have become too long
 * to be searched, and after a stop it can be later.
 */
static inline bool htw_wheel_start(struct htw_wheel *w, struct htw_node *n,
				   u64 tick)
{
	HTW_ASSERT(!htw_node_pending(n));
	w->pending++;
	n->expires = tick;
	return htw_wheel_link(w, n);
}

/**
 * htw_wheel_stop() - stop a node
 * @w: the wheel
 * @n: a node in the wheel
 *
 * &htw_wheel.next stays, so the caller may come back once without work.
 */
static inline void htw_wheel_stop(struct htw_wheel *w, struct htw_node *n)
{
	HTW_ASSERT(htw_wheel_holds(w, n));
	w->pending--;
	htw_wheel_unlink(w, n);
	htw_node_init(n);
}

/**
 * htw_wheel_restart() - start a node, or move one that is in the wheel
 * @w: the wheel
 * @n: the node, after htw_node_init()
 * @tick: when it expires
 *
 * It comes after all nodes that were started for the same tick before.
 *
 * Return: as htw_wheel_start().
 */
static inline bool htw_wheel_restart(struct htw_wheel *w, struct htw_node *n,
				     u64 tick)
{
	HTW_ASSERT(!htw_node_pending(n) || htw_wheel_holds(w, n));
	if (htw_node_pending(n))
		htw_wheel_unlink(w, n);
	else
		w->pending++;
	n->expires = tick;
	return htw_wheel_link(w, n);
}

#endif /* _HTW_WHEEL_H */
