// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Hierarchical timing wheel: scheme 7 of G. Varghese and T. Lauck, "Hashed and
 * Hierarchical Timing Wheels", SOSP 1987
 *
 * Levels
 * ------
 * A level is a ring of buckets. A slot of level l spans all slots of level
 * l - 1, so a timer far in the future is put into a coarse bucket. As its time
 * comes nearer it is moved down level by level, and it expires from level 0
 * only, where a bucket is one tick. So the granularity of the upper levels does
 * not delay an expiry. With the default geometry (256,64,64,64,64) and a tick
 * of 1 ms:
 *
 *	level	granularity	two windows
 *	0	1 ms		512 ms
 *	1	256 ms		33 s
 *	2	16 s		35 min
 *	3	17 min		37 h
 *	4	19 h		99 days
 *
 * Windows
 * -------
 * A window of level l is the span of one slot of level l + 1. The ring of a
 * level holds two windows: the one with the cursor, and the next. level[l].end
 * is the first tick that belongs to level l + 1, so the level of a tick is the
 * first one whose end is later:
 *
 *	cursor <= level 0 < end[0] <= level 1 < end[1] <= level 2 ...
 *
 * When the cursor enters a window of level l, the bucket of level l + 1 that
 * holds the following window is moved down ("cascade"). A whole window of time
 * is left for that, so it is done in batches, after expiring what is due.
 * end[l] moves past the bucket only when it is empty. Until then, timers
 * started for its ticks are appended to the bucket and moved in their turn. So
 * timers of one tick stay in the order in which they were started, whatever
 * level they were started on: nodes are only appended to the end of a bucket
 * and taken from its front, and a tick is in two buckets only while one is
 * moved into the other.
 *
 * Ticks beyond the last level wait in the overflow list, which is the only
 * bucket of one more level. It is searched when the window of the last level
 * moves on, unless @overflow_min shows that all of it is still beyond.
 *
 * Cost
 * ----
 * Starting and stopping a timer is O(1), with at most one comparison per level.
 * A timer within the range of the levels is moved at most levels - 1 times.
 * Empty ticks and windows cost nothing: the bitmaps give the next tick with
 * work in O(levels), and the cursor jumps there.
 *
 * The cursor may be advanced up to tick 2^63; a node may expire at any u64.
 */

#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "htw_wheel.h"

/* 2^63 ticks plus two windows of the last level fit in a u64. */
#define HTW_MAX_SPAN		BIT_ULL(61)
/* Nodes that htw_wheel_make_due() looks at, and ticks that htw_wheel_coalesce() does. */
#define HTW_WHEEL_LOOKS		32
#define HTW_WHEEL_LOOK_TICKS	512
/* Words of bitmaps that are searched, several times, for a unit of a budget. */
#define HTW_WHEEL_UNIT_WORDS	32

/**
 * htw_geometry_check() - validate the shape of a wheel
 * @geo: the shape
 * @why: out: if it is not valid, the reason as text
 *
 * Return: 0 or -EINVAL.
 */
int htw_geometry_check(const struct htw_geometry *geo, const char **why)
{
	u64 span = 1;

	if (geo->levels < 1 || geo->levels > HTW_WHEEL_MAX_LEVELS) {
		*why = "a wheel has 1 to 8 levels";
		return -EINVAL;
	}
	for (unsigned int l = 0; l < geo->levels; l++) {
		if (geo->slots[l] < 2 || geo->slots[l] > HTW_WHEEL_MAX_SLOTS) {
			*why = "a level has 2 to 2048 slots";
			return -EINVAL;
		}
		if (span > div_u64(HTW_MAX_SPAN, geo->slots[l])) {
			*why = "all levels together span more than 2^61 ticks";
			return -EINVAL;
		}
		span *= geo->slots[l];
	}
	return 0;
}

/* The slot of a tick, counted from tick 0. */
static u64 htw_level_slot(const struct htw_wheel *w,
			  const struct htw_level *lev, u64 tick)
{
	return w->pow2 ? tick >> lev->shift : div64_u64(tick, lev->span);
}

/* The index of a slot's bucket. */
static u32 htw_level_bucket_index(const struct htw_wheel *w,
				  const struct htw_level *lev, u64 slot)
{
	u32 index;

	if (w->pow2)
		return slot & (lev->nr_buckets - 1);
	div_u64_rem(slot, lev->nr_buckets, &index);
	return index;
}

/* The bucket of a tick that the level holds. */
static struct list_head *htw_level_bucket(const struct htw_wheel *w,
					  const struct htw_level *lev, u64 tick)
{
	return &lev->buckets[htw_level_bucket_index(w, lev, htw_level_slot(w, lev, tick))];
}

static u64 htw_level_slot_start(const struct htw_wheel *w,
				const struct htw_level *lev, u64 tick)
{
	return htw_level_slot(w, lev, tick) * lev->span;
}

/* The slot with which level @l begins: where the level below ends. */
static u64 htw_level_first_slot(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *lev = &w->level[l];

	return htw_level_slot(w, lev, l ? lev[-1].end : w->cursor);
}

/* The first tick of level @l's earliest bucket that holds a node. */
static u64 htw_level_first_tick(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *lev = &w->level[l];
	u32 from, index;
	u64 slot;

	if (!lev->nonempty)
		return HTW_NEVER;
	slot = htw_level_first_slot(w, l);
	from = htw_level_bucket_index(w, lev, slot);
	index = find_next_bit(lev->occupied, lev->nr_buckets, from);
	if (index < lev->nr_buckets)
		return (slot + index - from) * lev->span;
	index = find_first_bit(lev->occupied, lev->nr_buckets);
	return (slot + lev->nr_buckets + index - from) * lev->span;
}

/* The same for the overflow list, whose nodes are in no order. */
static u64 htw_wheel_overflow_first_tick(const struct htw_wheel *w)
{
	const struct htw_level *overflow = &w->level[w->levels];

	if (!list_empty(&w->overflow_scan))
		return overflow[-1].end;
	if (list_empty(&w->overflow) || w->overflow_min == HTW_NEVER)
		return HTW_NEVER;
	return htw_level_slot_start(w, overflow, w->overflow_min);
}

static u64 htw_wheel_upper_first_tick(const struct htw_wheel *w, unsigned int l)
{
	return l < w->levels ? htw_level_first_tick(w, l) :
			       htw_wheel_overflow_first_tick(w);
}

/* Where level @l should end: two windows after the start of the cursor's. */
static u64 htw_level_end_wanted(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *up = &w->level[l + 1];

	return (htw_level_slot(w, up, w->cursor) + 2) * up->span;
}

static void htw_level_set_end(struct htw_wheel *w, struct htw_level *lev,
			      u64 end)
{
	lev->end = end;
	/* After a rewind the end may be before the cursor: ticks that have come stay below. */
	lev->last = max(end, w->cursor) - 1;
}

/* Advance the end of level @l, at most to the first bucket above that is not moved down yet. */
static void htw_level_advance_end(struct htw_wheel *w, unsigned int l)
{
	u64 end = min(htw_level_end_wanted(w, l),
		      htw_wheel_upper_first_tick(w, l + 1));

	htw_level_set_end(w, &w->level[l], min(end, w->level[l + 1].end));
}

/* The cursor has entered another window of level 0, and possibly of levels above. */
static void htw_wheel_advance_ends(struct htw_wheel *w)
{
	for (unsigned int l = w->levels; l-- > 0;)
		htw_level_advance_end(w, l);
	w->next_window = htw_level_slot_start(w, &w->level[1], w->cursor) + w->level[1].span;
}

/* Advance the cursor to a tick before which nothing is due. Return: were levels searched? */
static bool htw_wheel_set_cursor(struct htw_wheel *w, u64 cursor)
{
	const bool searched = cursor >= w->next_window;

	w->cursor = cursor;
	if (searched)
		htw_wheel_advance_ends(w);
	/* The cursor passes the end while a bucket above is moved down in parts. */
	htw_level_set_end(w, &w->level[0], w->level[0].end);
	return searched;
}

/* The same, at the expense of a budget. */
static void htw_wheel_move_cursor(struct htw_wheel *w, u64 cursor,
				  unsigned int *budget)
{
	if (htw_wheel_set_cursor(w, cursor))
		*budget -= min(*budget, w->search);
}

/**
 * htw_wheel_forward() - bring an idle wheel up to the present, before a start
 * @w: the wheel
 * @now: the present tick
 *
 * Nothing is due before &htw_wheel.next, so the cursor can jump there.
 */
void htw_wheel_forward(struct htw_wheel *w, u64 now)
{
	u64 idle = min(now + 1, w->next);

	if (idle > w->cursor)
		htw_wheel_set_cursor(w, idle);
}

/*
 * Allocate the buckets of all levels, and their bitmaps. Apart: large
 * allocations are rounded up to a power of two, which the buckets of most
 * wheels are without the bitmaps.
 */
static bool htw_wheel_alloc_buckets(struct htw_wheel *w, gfp_t gfp, int node)
{
	struct list_head *buckets;
	size_t nr_buckets = 0, longs = 0;
	unsigned long *map;

	for (unsigned int l = 0; l < w->levels; l++) {
		nr_buckets += w->level[l].nr_buckets;
		longs += BITS_TO_LONGS(w->level[l].nr_buckets);
	}

	buckets = kvmalloc_node(nr_buckets * sizeof(*buckets), gfp, node);
	map = kvmalloc_node(longs * sizeof(*map), gfp, node);
	if (!buckets || !map) {
		kvfree(buckets);
		kvfree(map);
		return false;
	}

	memset(map, 0, longs * sizeof(*map));
	w->search = longs / HTW_WHEEL_UNIT_WORDS;
	for (size_t i = 0; i < nr_buckets; i++)
		INIT_LIST_HEAD(&buckets[i]);

	for (unsigned int l = 0; l < w->levels; l++) {
		w->level[l].buckets = buckets;
		w->level[l].occupied = map;
		buckets += w->level[l].nr_buckets;
		map += BITS_TO_LONGS(w->level[l].nr_buckets);
	}
	return true;
}

/**
 * htw_wheel_init() - initialize an empty wheel and allocate its buckets
 * @w: the wheel
 * @geo: its shape, which htw_geometry_check() has passed
 * @now: the present tick
 * @gfp: flags of the allocation
 * @node: the NUMA node, or NUMA_NO_NODE
 *
 * Context: may sleep if @gfp may.
 * Return: 0, or -ENOMEM with nothing to destroy.
 */
int htw_wheel_init(struct htw_wheel *w, const struct htw_geometry *geo, u64 now,
		   gfp_t gfp, int node)
{
	u64 span = 1;

	memset(w, 0, sizeof(*w));
	INIT_LIST_HEAD(&w->due);
	INIT_LIST_HEAD(&w->overflow_scan);
	INIT_LIST_HEAD(&w->overflow);
	w->levels = geo->levels;
	w->pow2 = true;
	w->next = HTW_NEVER;
	w->overflow_min = HTW_NEVER;
	for (unsigned int l = 0; l < geo->levels; l++) {
		struct htw_level *lev = &w->level[l];

		lev->span = span;
		lev->shift = ilog2(span);
		lev->nr_buckets = 2 * geo->slots[l];
		w->pow2 &= is_power_of_2(geo->slots[l]);
		span *= geo->slots[l];
	}
	for (unsigned int l = 0; l < geo->levels && w->pow2; l++)
		w->level[l].mask = w->level[l].nr_buckets - 1;
	w->level[w->levels] = (struct htw_level) {
		.buckets = &w->overflow,
		.span = span,
		.shift = ilog2(span),
		.nr_buckets = 1,
		.last = HTW_NEVER,
		.end = HTW_NEVER,
	};
	if (!htw_wheel_alloc_buckets(w, gfp, node))
		return -ENOMEM;
	htw_wheel_set_cursor(w, now + 1);
	return 0;
}

/* Free the buckets of an empty wheel, and their bitmaps. */
void htw_wheel_destroy(struct htw_wheel *w)
{
	WARN_ON(w->pending);
	/* Of all levels. */
	kvfree(w->level[0].buckets);
	kvfree(w->level[0].occupied);
}

static void htw_level_set(struct htw_level *lev, u32 index)
{
	if (!__test_and_set_bit(index, lev->occupied))
		lev->nonempty++;
}

static void htw_level_clear(struct htw_level *lev, u32 index)
{
	if (__test_and_clear_bit(index, lev->occupied))
		lev->nonempty--;
}

/* Append all of a bucket to @list. */
static void htw_level_take(struct htw_level *lev, u32 index,
			   struct list_head *list)
{
	list_splice_tail_init(&lev->buckets[index], list);
	htw_level_clear(lev, index);
}

/* Clear the bit of @list if it is a bucket: it has lost its last node. */
void htw_level_emptied(struct htw_wheel *w, const struct list_head *list)
{
	for (unsigned int l = 0; l < w->levels; l++) {
		struct htw_level *lev = &w->level[l];

		if (list >= lev->buckets &&
		    list < lev->buckets + lev->nr_buckets) {
			htw_level_clear(lev, list - lev->buckets);
			return;
		}
	}
}

/*
 * Append a node to the overflow list. While the list is being searched, to the
 * part that has not been looked at: an older node of the same tick may be
 * there.
 */
static void htw_wheel_overflow_add(struct htw_wheel *w, struct htw_node *n)
{
	if (!list_empty(&w->overflow_scan)) {
		__htw_list_add_tail(&n->list, &w->overflow_scan);
		return;
	}
	if (list_empty(&w->overflow))
		w->overflow_min = HTW_NEVER;
	__htw_list_add_tail(&n->list, &w->overflow);
	w->overflow_min = min(w->overflow_min, n->expires);
}

/*
 * The tick at which a bucket that starts at tick @first makes work: on level 0
 * that tick; above, one window earlier, when the bucket can be moved down.
 */
static u64 htw_wheel_work_at(const struct htw_wheel *w, unsigned int l,
			     u64 first)
{
	if (!l || first == HTW_NEVER)
		return first;
	return first - min(first, w->level[l].span);
}

/* Would starting a node at tick @expires make &htw_wheel.next earlier? */
bool htw_wheel_is_ahead(struct htw_wheel *w, u64 expires)
{
	const struct htw_level *lev = htw_wheel_level(w, expires);

	expires = htw_level_slot_start(w, lev, expires);
	return htw_wheel_work_at(w, lev - w->level, expires) < w->next;
}

/**
 * htw_wheel_coalesce() - choose a tick that a node can share with others
 * @w: the wheel
 * @first: the earliest tick allowed
 * @last: the latest tick allowed
 *
 * Prefer a tick of level 0 that holds a node already and is near, then the
 * roundest number in the range, which others are likely to choose as well (as apply_slack() in
 * kernel/time/timer.c did).
 *
 * Return: a tick from @first to @last; @first if @last is not later.
 */
u64 htw_wheel_coalesce(const struct htw_wheel *w, u64 first, u64 last)
{
	const struct htw_level *lev = &w->level[0];
	u64 reach = max(first, w->cursor), end = 0;

	if (last <= first)
		return first;
	/* Without levels, level 0 is the overflow list: it has no bitmap to search. */
	if (w->levels)
		end = min3(last + 1, lev->end, reach + HTW_WHEEL_LOOK_TICKS);
	/* Each bucket of level 0 is a tick; the ring wraps, so search it in two parts. */
	while (reach < end) {
		u32 from = htw_level_bucket_index(w, lev, reach);
		u32 to = min_t(u64, lev->nr_buckets, from + (end - reach));
		u32 index = find_next_bit(lev->occupied, to, from);

		reach += index - from;
		if (index < to)
			return reach;
	}
	return last & ~(BIT_ULL(fls64(first ^ last) - 1) - 1);
}

/* Note that there is work at a tick. Return: true if @next has become earlier. */
static bool htw_wheel_note_work(struct htw_wheel *w, u64 work)
{
	if (work >= w->next)
		return false;
	w->next = work;
	return true;
}

/* htw_wheel_link() for a tick that has come. */
bool htw_wheel_link_due(struct htw_wheel *w, struct htw_node *n)
{
	__htw_list_add_tail(&n->list, &w->due);
	return htw_wheel_note_work(w, n->expires);
}

/* htw_wheel_link() for a level without a mask. */
bool htw_wheel_link_slow(struct htw_wheel *w, struct htw_level *lev,
			 struct htw_node *n)
{
	unsigned int l = lev - w->level;

	if (l == w->levels) {
		htw_wheel_overflow_add(w, n);
		return htw_wheel_note_work(w, htw_wheel_work_at(w, l,
								htw_wheel_overflow_first_tick(w)));
	}
	return htw_level_append(htw_level_bucket(w, lev, n->expires), n) &&
	       htw_level_mark_bucket(w, lev, n);
}

/* Set the bit of a bucket that has got its first node. Return: as htw_wheel_start(). */
bool htw_level_mark_bucket(struct htw_wheel *w, struct htw_level *lev,
			   struct htw_node *n)
{
	htw_level_set(lev, n->list.prev - lev->buckets);
	return htw_wheel_note_work(w, htw_wheel_work_at(w, lev - w->level,
					     htw_level_slot_start(w, lev, n->expires)));
}

/**
 * htw_wheel_make_due() - make way for a node whose deadline came within the present tick
 * @w: the wheel, after htw_wheel_forward()
 * @now: the present tick
 * @is_due: has the deadline of a node come at @time?
 * @time: passed to @is_due
 * @ahead: out: set to true if &htw_wheel.next has become earlier, else left
 *	alone
 *
 * Such a node can be started for @now and need not wait for the next tick.
 * Nodes that wait for that tick and are due as well move to @now first, so that
 * it does not overtake them.
 *
 * Return: false if the node has to wait for the next tick as well, to stay in
 * order: there are more nodes than are looked at and the last of them is due,
 * or some may still be on an upper level.
 */
bool htw_wheel_make_due(struct htw_wheel *w, u64 now, htw_is_due_t *is_due,
			u64 time, bool *ahead)
{
	const struct htw_level *lev = &w->level[0];
	unsigned int looks = HTW_WHEEL_LOOKS;
	struct htw_node *n, *next;
	struct list_head *bucket;

	if (now + 1 >= lev->end)
		return false;
	bucket = htw_level_bucket(w, lev, now + 1);
	list_for_each_entry_safe(n, next, bucket, list) {
		if (!looks--)
			return !is_due(list_last_entry(bucket, struct htw_node, list), time);
		if (!is_due(n, time))
			continue;
		htw_wheel_unlink(w, n);
		n->expires = now;
		*ahead |= htw_wheel_link(w, n);
	}
	return true;
}

/*
 * Move up to @left nodes of a bucket down to level @l. The constant @masks says
 * whether the level has a mask, so that the loop does not ask for each node.
 *
 * Return: the first node that stays in the bucket, or its head.
 */
static __always_inline struct list_head *
htw_level_cascade_bucket(struct htw_wheel *w, unsigned int l,
			 struct list_head *bucket, unsigned int *left,
			 bool masks)
{
	struct htw_level *lev = &w->level[l];
	const struct htw_level to = *lev;	/* kept in registers */
	struct list_head *entry = bucket->next;

	for (; *left && entry != bucket; --*left) {
		struct htw_node *n = list_entry(entry, struct htw_node, list);
		struct list_head *down = masks ? &to.buckets[(n->expires >> to.shift) & to.mask] :
						 htw_level_bucket(w, lev, n->expires);

		entry = entry->next;
		prefetchw(entry);
		if (htw_level_append(down, n))
			htw_level_set(lev, down - to.buckets);
	}
	return entry;
}

/* Move the bucket at the end of level @l down. Return: false if some of it is left. */
static bool htw_level_cascade(struct htw_wheel *w, unsigned int l,
			      unsigned int *budget)
{
	struct htw_level *up = &w->level[l + 1];
	u32 index = htw_level_bucket_index(w, up, htw_level_slot(w, up, w->level[l].end));
	struct list_head *bucket = &up->buckets[index], *entry;
	unsigned int left = *budget;

	if (w->level[l].mask)
		entry = htw_level_cascade_bucket(w, l, bucket, &left, true);
	else
		entry = htw_level_cascade_bucket(w, l, bucket, &left, false);
	/* Cut what was moved off the front of the bucket. */
	bucket->next = entry;
	entry->prev = bucket;
	w->cascades += *budget - left;
	*budget = left;
	if (entry != bucket)
		return false;
	htw_level_clear(up, index);
	return true;
}

/*
 * Search the overflow list: nodes that belong to the next window of the last
 * level move down, the others go back. If the budget runs out, the rest stays
 * on @overflow_scan.
 *
 * Return: false if the budget was too small.
 */
static bool htw_wheel_overflow_cascade(struct htw_wheel *w,
				       unsigned int *budget)
{
	struct htw_level *lev = &w->level[w->levels - 1];
	u64 end = lev->end + w->level[w->levels].span;
	struct htw_node *n;

	if (list_empty(&w->overflow_scan)) {
		list_splice_init(&w->overflow, &w->overflow_scan);
		w->overflow_min = HTW_NEVER;
	}
	while ((n = list_first_entry_or_null(&w->overflow_scan, struct htw_node, list))) {
		if (!*budget)
			return false;
		--*budget;
		if (n->expires < w->cursor) {
			__htw_list_del(&n->list);
			__htw_list_add_tail(&n->list, &w->due);
		} else if (n->expires < end) {
			struct list_head *down = htw_level_bucket(w, lev, n->expires);

			__htw_list_del(&n->list);
			w->cascades++;
			if (htw_level_append(down, n))
				htw_level_set(lev, down - lev->buckets);
		} else {
			list_move_tail(&n->list, &w->overflow);
			w->overflow_min = min(w->overflow_min, n->expires);
		}
	}
	return true;
}

/*
 * Move the bucket at the end of level @l down, so that the end can move on. If
 * levels above end at the same tick, the highest of them has to go first.
 *
 * Return: true if the end of a level has moved on, false if the budget was too
 * small.
 */
static bool htw_wheel_cascade_to(struct htw_wheel *w, unsigned int l,
				 unsigned int *budget)
{
	bool filled;

	while (w->level[l].end == w->level[l + 1].end)
		l++;
	if (l + 1 < w->levels)
		filled = htw_level_cascade(w, l, budget);
	else
		filled = htw_wheel_overflow_cascade(w, budget);
	if (filled)
		htw_level_advance_end(w, l);
	return filled;
}

/**
 * htw_wheel_cascade() - move nodes down ahead of the windows that need them
 * @w: the wheel
 * @budget: nodes that may be looked at; decremented for each one
 *
 * To be called when htw_wheel_expire() has nothing that is due.
 *
 * Return: true if nothing is left to do now, false if the budget was too small.
 */
bool htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget)
{
	for (unsigned int l = 0; l < w->levels; l++) {
		while (w->level[l].end < htw_level_end_wanted(w, l)) {
			if (!htw_wheel_cascade_to(w, l, budget))
				return false;
		}
	}
	return true;
}

/* The first tick of any bucket above level 0 that holds a node, at most @limit. */
static u64 htw_wheel_first_tick_above(const struct htw_wheel *w, u64 limit)
{
	for (unsigned int l = 1; l <= w->levels; l++)
		limit = min(limit, htw_wheel_upper_first_tick(w, l));
	return limit;
}

/*
 * Advance the cursor past the next tick that has nodes and make those due, but
 * not past @now.
 *
 * Before its end, level 0 has all nodes of a tick. Past it, it may have some
 * that came down from a bucket whose rest is still above, or was stopped: they
 * wait until the end has moved on, as earlier ones may come down behind them.
 *
 * Return: false if the budget was too small.
 */
static bool htw_wheel_step(struct htw_wheel *w, u64 now, unsigned int *budget)
{
	struct htw_level *lev = &w->level[0];
	u64 first = htw_level_first_tick(w, 0);
	u64 to;

	/* A tick that has come has nodes. */
	if (first <= now && first < lev->end) {
		htw_level_take(lev, htw_level_bucket_index(w, lev, first), &w->due);
		htw_wheel_move_cursor(w, first + 1, budget);
		return true;
	}

	/* None that has come does. */
	if (now < lev->end) {
		htw_wheel_move_cursor(w, now + 1, budget);
		return true;
	}

	/*
	 * None before the end does. Skip to the first tick that may have some;
	 * unless that moves the end on, a bucket has to be moved down first.
	 */
	to = min(first, htw_wheel_first_tick_above(w, now + 1));
	htw_wheel_move_cursor(w, max(w->cursor, to), budget);
	return w->cursor < lev->end || htw_wheel_cascade_to(w, 0, budget);
}

/* Inline for htw_wheel_expire(), which callouts call once for each node. */
static inline bool __htw_wheel_collect_due(struct htw_wheel *w, u64 now,
					   unsigned int *budget)
{
	while (*budget) {
		if (!list_empty(&w->due))
			return true;
		if (w->cursor > now || !htw_wheel_step(w, now, budget))
			return false;
	}
	return false;
}

/**
 * htw_wheel_collect_due() - fill the list of due nodes (PER_TICK_BOOKKEEPING)
 * @w: the wheel
 * @now: the present tick; not before that of an earlier call
 * @budget: nodes that may be looked at; decremented for each one
 *
 * The caller takes nodes off the front of &htw_wheel.due and subtracts their
 * number from &htw_wheel.pending. They are in the order of their ticks, those
 * of one tick in the order in which they were started, and none is there before
 * its tick.
 *
 * Return: true if a node is due and the budget is not used up.
 */
bool htw_wheel_collect_due(struct htw_wheel *w, u64 now, unsigned int *budget)
{
	return __htw_wheel_collect_due(w, now, budget);
}

/**
 * htw_wheel_expire() - take out the next node that is due
 * @w: the wheel
 * @now: as for htw_wheel_collect_due()
 * @budget: nodes that may be taken out or looked at; decremented for each one
 *
 * Return: the node, which is on no list any more; NULL if none is due or the
 * budget is used up.
 */
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now,
				  unsigned int *budget)
{
	struct htw_node *n;

	if (!__htw_wheel_collect_due(w, now, budget))
		return NULL;
	n = list_first_entry(&w->due, struct htw_node, list);
	--*budget;
	w->pending--;
	__htw_list_del(&n->list);
	return n;
}

/**
 * htw_wheel_next() - the earliest tick with work
 * @w: the wheel
 *
 * Work is a node to expire or a bucket to move down. The caller stores the
 * result in &htw_wheel.next when it programs its timer.
 *
 * Return: the tick; one that has come if there is work now, %HTW_NEVER if there
 * will be none.
 */
u64 htw_wheel_next(const struct htw_wheel *w)
{
	u64 next;

	if (!list_empty(&w->due))
		return w->cursor - 1;
	next = htw_level_first_tick(w, 0);
	for (unsigned int l = 1; l <= w->levels; l++)
		next = min(next, htw_wheel_work_at(w, l, htw_wheel_upper_first_tick(w, l)));
	return next;
}

/* Set @first to a list's earliest node if that is earlier; false if it has more than @most. */
static bool htw_wheel_earliest(const struct list_head *list, unsigned int *most,
			       struct htw_node **first)
{
	struct htw_node *n;

	list_for_each_entry(n, list, list) {
		if (!(*most)--)
			return false;
		if (!*first || n->expires < (*first)->expires)
			*first = n;
	}
	return true;
}

/**
 * htw_wheel_first_node() - find the node that expires next
 * @w: the wheel
 * @most: nodes that may be looked at
 * @first: out: the node, which stays in the wheel, or NULL if the wheel is
 *	empty
 *
 * Return: false if more than @most nodes would have to be looked at.
 */
bool htw_wheel_first_node(struct htw_wheel *w, unsigned int most,
			  struct htw_node **first)
{
	*first = list_first_entry_or_null(&w->due, struct htw_node, list);
	if (*first)
		return true;

	/* Levels overlap while a bucket is moved down in parts. */
	for (unsigned int l = 0; l < w->levels; l++) {
		const struct htw_level *lev = &w->level[l];
		u64 tick = htw_level_first_tick(w, l);
		struct list_head *bucket;

		if (tick == HTW_NEVER || (*first && (*first)->expires < tick))
			continue;

		bucket = htw_level_bucket(w, lev, tick);
		if (!l)
			*first = list_first_entry(bucket, struct htw_node, list);
		else if (!htw_wheel_earliest(bucket, &most, first))
			return false;
	}

	if (*first && (*first)->expires < htw_wheel_overflow_first_tick(w))
		return true;
	return htw_wheel_earliest(&w->overflow_scan, &most, first) &&
	       htw_wheel_earliest(&w->overflow, &most, first);
}

/**
 * htw_wheel_evict() - take out any node, to empty the wheel
 * @w: the wheel
 *
 * Nodes of one tick come in the order in which they were started.
 *
 * Return: the node, or NULL if the wheel is empty.
 */
struct htw_node *htw_wheel_evict(struct htw_wheel *w)
{
	struct list_head *from = NULL;
	struct htw_node *n;

	if (!list_empty(&w->due))
		from = &w->due;
	for (unsigned int l = 0; l < w->levels && !from; l++) {
		u64 first = htw_level_first_tick(w, l);
		struct htw_level *lev = &w->level[l];

		if (first != HTW_NEVER)
			from = htw_level_bucket(w, lev, first);
	}
	if (!from)
		from = list_empty(&w->overflow) ? &w->overflow_scan : &w->overflow;

	n = list_first_entry_or_null(from, struct htw_node, list);
	if (n)
		htw_wheel_stop(w, n);
	return n;
}

/*
 * Append the buckets from @index up to @end behind @tail, the last entry of a
 * list that is closed later. Return: the last entry.
 */
static struct list_head *htw_level_splice_part(struct htw_level *lev, u32 index,
					       u32 end, struct list_head *tail)
{
	while (index < end) {
		u32 first = round_down(index, BITS_PER_LONG);
		unsigned long bits = lev->occupied[first / BITS_PER_LONG] &
				     (~0UL << (index - first));

		index = min(first + BITS_PER_LONG, end);
		if (index - first < BITS_PER_LONG)
			bits &= BIT(index - first) - 1;
		for (; bits; bits &= bits - 1) {
			struct list_head *bucket = &lev->buckets[first + __ffs(bits)];

			tail->next = bucket->next;
			tail->next->prev = tail;
			tail = bucket->prev;
			INIT_LIST_HEAD(bucket);
		}
	}
	return tail;
}

/* Append all buckets of a level to @list, in the order of their ticks. */
static void htw_level_splice(struct htw_wheel *w, unsigned int l,
			     struct list_head *list)
{
	struct htw_level *lev = &w->level[l];
	struct list_head *tail = list->prev;
	u32 from;

	if (!lev->nonempty)
		return;
	from = htw_level_bucket_index(w, lev, htw_level_first_slot(w, l));
	tail = htw_level_splice_part(lev, from, lev->nr_buckets, tail);
	tail = htw_level_splice_part(lev, 0, from, tail);
	tail->next = list;
	list->prev = tail;
	memset(lev->occupied, 0, BITS_TO_LONGS(lev->nr_buckets) * sizeof(*lev->occupied));
	lev->nonempty = 0;
}

/**
 * htw_wheel_rewind() - restart at an earlier tick, after the clock was set back
 * @w: the wheel
 * @now: the present tick
 *
 * Splice all nodes into @overflow_scan, bucket by bucket, in time proportional
 * to the number of buckets; htw_wheel_expire() and htw_wheel_cascade() then put
 * them back within their budgets. Until that
 * is done none of them expires, and nodes that are started join the end of the
 * list, so order is kept. Only nodes that are started for a tick that has come
 * are due at once. Nodes that were due may have to wait again. &htw_wheel.next
 * becomes zero: the caller has work to do at once.
 */
void htw_wheel_rewind(struct htw_wheel *w, u64 now)
{
	const struct htw_level *overflow = &w->level[w->levels];
	LIST_HEAD(all);

	list_splice_init(&w->due, &all);
	for (unsigned int l = 0; l < w->levels; l++)
		htw_level_splice(w, l, &all);
	list_splice_tail_init(&w->overflow, &all);
	list_splice_tail_init(&w->overflow_scan, &all);
	list_splice(&all, &w->overflow_scan);
	w->overflow_min = HTW_NEVER;

	w->cursor = now + 1;
	for (unsigned int l = 0; l < w->levels; l++)
		htw_level_set_end(w, &w->level[l],
				  htw_level_slot_start(w, overflow, w->cursor));
	w->next_window = 0;
	w->next = 0;
	htw_wheel_set_cursor(w, w->cursor);
}
