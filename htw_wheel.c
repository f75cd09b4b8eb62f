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
 * Beyond the levels
 * -----------------
 * Ticks that no level holds wait in lists that form a radix heap (R. K. Ahuja,
 * K. Mehlhorn, J. Orlin and R. E. Tarjan, "Faster Algorithms for the Shortest
 * Path Problem", JACM 1990): the list is chosen by the highest digit, of two
 * bits, in which a tick differs from @base, a tick that is not later than any of
 * them. So all of a list comes before all of the next. @base moves on as windows
 * of the last level do. Then the lists that lie otherwise as seen from the new
 * base are joined to @unsorted, without looking at their nodes, and in batches
 * each node goes down to the last level or to a list below its old one, but for
 * at most two rounds in each list. Nodes that are started in the meantime, for
 * ticks beyond the levels, are appended to @unsorted, so that they come behind
 * older ones of their tick. A node is looked at O(log) times, however far it is
 * and whatever the levels span.
 *
 * Without levels
 * --------------
 * Levels are memory that the caller adds when the wheel holds many nodes. They
 * change what a start and an expiry cost, and nothing else. Few nodes, as most
 * programs have, are best kept in a sorted list: nothing is moved, and the first
 * is the next to expire. If there are more, and yet no levels, as when there was
 * no memory for them, all are in the lists of the radix heap.
 *
 * Cost
 * ----
 * Starting and stopping a timer is O(1), with at most one comparison per level.
 * A timer within the range of the levels is moved at most levels - 1 times.
 * Empty ticks and windows cost nothing: the bitmaps give the next tick with
 * work in O(levels), and the cursor jumps there.
 *
 * A node may expire at any u64. Time ends at %HTW_LAST_TICK: a later one counts
 * as that, and nodes of later ticks stay in the wheel.
 */

#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/prefetch.h>
#include <linux/string.h>

#include "htw_wheel.h"

/* 2^63 ticks plus two windows of the last level fit in a u64. */
#define HTW_MAX_SPAN		BIT_ULL(61)
/* Nodes that htw_wheel_make_due() looks at. */
#define HTW_WHEEL_LOOKS		32
/* Most nodes in the sorted list. A test may have fewer, to reach the radix heap with them. */
#ifndef HTW_WHEEL_FEW
#define HTW_WHEEL_FEW		63
#endif
/* Nodes beyond the levels, and without levels, that are looked at for the first of them. */
#ifndef HTW_SHORT_LIST
#define HTW_SHORT_LIST		8
#define HTW_LONG_LIST		1024
#endif
/*
 * Words of bitmaps that are searched, several times, for a unit of a budget; and words that are
 * searched for nothing, as those of the default geometry.
 */
#define HTW_WHEEL_UNIT_WORDS	8
#define HTW_WHEEL_FREE_WORDS	32
/* How far ahead of its first tick a bucket of level 1 can at least be moved down, in ns. */
#define HTW_AHEAD_NS		20000000
/* Of how many nodes level 0 has a slot. */
#define HTW_SLOT_NODES		64

/**
 * htw_geometry_error() - validate the shape of a wheel's levels
 * @geo: the shape
 *
 * Return: NULL if it is valid, else the reason as text.
 */
const char *htw_geometry_error(const struct htw_geometry *geo)
{
	u64 span = 1;

	if (geo->levels < 1 || geo->levels > HTW_WHEEL_MAX_LEVELS)
		return "a wheel has 1 to 8 levels";
	for (unsigned int l = 0; l < geo->levels; l++) {
		if (geo->slots[l] < 2 || geo->slots[l] > HTW_WHEEL_MAX_SLOTS)
			return "a level has 2 to 2048 slots";
		if (span > div_u64(HTW_MAX_SPAN, geo->slots[l]))
			return "all levels together span more than 2^61 ticks";
		span *= geo->slots[l];
	}
	return NULL;
}

/**
 * htw_geometry_default() - a shape for many timers
 * @geo: out: the shape
 * @tick_ns: what a tick is, in ns
 * @nodes: about how many nodes there will be; 0 if that is not known
 *
 * Level 0 has 256 slots, or as many as span 20 ms, or one for each 64 nodes, but
 * not more than %HTW_WHEEL_MAX_SLOTS: with ticks of less than about 10 us it
 * spans less. The nodes of a slot above, a million for instance, have that long
 * to be moved down. More slots are fewer windows to enter, which counts when few
 * nodes share one, and at most a byte a node.
 */
void htw_geometry_default(struct htw_geometry *geo, u64 tick_ns, u64 nodes)
{
	unsigned int slots = 256;

	while (slots < HTW_WHEEL_MAX_SLOTS &&
	       (tick_ns < HTW_AHEAD_NS / slots || nodes / HTW_SLOT_NODES > slots))
		slots *= 2;
	geo->levels = 5;
	geo->slots[0] = slots;
	for (unsigned int l = 1; l < HTW_WHEEL_MAX_LEVELS; l++)
		geo->slots[l] = l < geo->levels ? 64 : 0;
}

/**
 * htw_geometry_bytes() - what the levels of a wheel take
 * @geo: their shape, which htw_geometry_error() has passed
 *
 * Return: the size of the memory for htw_wheel_add_levels().
 */
size_t htw_geometry_bytes(const struct htw_geometry *geo)
{
	size_t buckets = 0, longs = 0;

	for (unsigned int l = 0; l < geo->levels; l++) {
		buckets += 2 * geo->slots[l];
		longs += BITS_TO_LONGS(2 * geo->slots[l]);
	}
	return (geo->levels + 1) * sizeof(struct htw_level) +
	       buckets * sizeof(struct list_head) + longs * sizeof(long);
}

/**
 * htw_coalesce() - choose a time that timers which may be late can share
 * @first: the earliest time allowed
 * @last: the latest
 *
 * It depends on no wheel, so timers of different wheels, and processes, meet.
 *
 * Return: of the times from @first to @last the one that ends in most zero bits;
 * @first if @last is not later.
 */
u64 htw_coalesce(u64 first, u64 last)
{
	if (last <= first || !first)
		return first;
	return last & ~(BIT_ULL(fls64((first - 1) ^ last) - 1) - 1);
}

/**
 * htw_tick_within() - choose a tick that timers which may be late can share
 * @deadline: when the timer is due, in ns
 * @slack: how much later it may expire, in ns
 * @tick_ns: what a tick is; with less slack than that, there is none
 *
 * Of the times that are allowed the one that ends in most zero bits is rounded
 * up to a tick. So timers meet whatever the ticks of their wheels.
 *
 * Return: the tick, which is not before @deadline, nor after @deadline + @slack
 * if a tick is in between.
 */
u64 htw_tick_within(u64 deadline, u64 slack, u64 tick_ns)
{
	u64 last = deadline + slack, tick;

	if (slack < tick_ns || last < deadline)
		return htw_tick_up(deadline, tick_ns);
	tick = htw_tick_up(htw_coalesce(deadline, last), tick_ns);
	return min(tick, div64_u64(last, tick_ns));
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

/*
 * The same for level 0, if that tick is before &htw_wheel.settled, as it mostly is while there
 * is much to do; else a later one, or %HTW_NEVER.
 */
static inline u64 htw_wheel_near_tick(const struct htw_wheel *w)
{
	const struct htw_level *lev = w->level;
	u64 tick = w->cursor;
	const unsigned long *word;
	unsigned long bits;

	if (unlikely(!lev->mask || tick >= w->settled))
		return HTW_NEVER;
	word = &lev->occupied[(tick & lev->mask) / BITS_PER_LONG];
	bits = *word >> (tick % BITS_PER_LONG);
	if (bits)
		return tick + __ffs(bits);
	/* The ring does not turn before that: a window is half of it. */
	for (tick = round_down(tick, BITS_PER_LONG) + BITS_PER_LONG; tick < w->settled;
	     tick += BITS_PER_LONG) {
		bits = *++word;
		if (bits)
			return tick + __ffs(bits);
	}
	return HTW_NEVER;
}

/* A bucket that was empty has got a node. */
static inline void htw_level_set(struct htw_level *lev, u32 index)
{
	__set_bit(index, lev->occupied);
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

/* The first tick that can be in list @i of &htw_wheel.beyond. */
static u64 htw_beyond_list_start(const struct htw_wheel *w, unsigned int i)
{
	unsigned int shift = HTW_DIGIT_BITS * (i - 1);

	return i ? ((w->base >> shift) + 1) << shift : w->base;
}

/* The list of &htw_wheel.beyond for a tick that is not before the base. */
static unsigned int htw_beyond_index(const struct htw_wheel *w, u64 tick)
{
	return (fls64(tick ^ w->base) + HTW_DIGIT_BITS - 1) / HTW_DIGIT_BITS;
}

/* The first list of &htw_wheel.beyond that holds a node. */
static unsigned int htw_beyond_first_list(const struct htw_wheel *w)
{
	return __ffs64(w->used);
}

/* The earliest tick of a list's nodes; false if there are more than @most. */
static bool htw_list_first_tick(const struct list_head *list, unsigned int most,
				u64 *first)
{
	const struct list_head *at;

	*first = HTW_NEVER;
	list_for_each(at, list) {
		if (!most--)
			return false;
		*first = min(*first, list_entry(at, struct htw_node, list)->expires);
	}
	return true;
}

/* A tick before which no node is beyond the levels, exact if the first list has @most nodes. */
static u64 htw_beyond_first_tick(const struct htw_wheel *w, unsigned int most)
{
	unsigned int i;
	u64 first;

	/* Not before what the last level may hold. */
	if (!list_empty(&w->unsorted))
		return w->levels ? w->level[w->levels - 1].end : w->cursor;
	if (!w->used)
		return HTW_NEVER;
	i = htw_beyond_first_list(w);
	if (htw_list_first_tick(&w->beyond[i], most, &first))
		return first;
	/* The cursor may have passed that: a start names the tick itself. */
	return max(htw_beyond_list_start(w, i), w->cursor);
}

/* Put a node into its list beyond the levels. */
static void htw_beyond_append(struct htw_wheel *w, struct htw_node *n)
{
	unsigned int i = htw_beyond_index(w, n->expires);

	if (htw_level_append(&w->beyond[i], n))
		w->used |= BIT_ULL(i);
}

/*
 * Start a node beyond the levels. While there are unsorted nodes, an older one
 * of the same tick may be among them. The base is ahead of what the last level
 * holds if all of them were stopped.
 */
static void htw_beyond_add(struct htw_wheel *w, struct htw_node *n)
{
	if (!list_empty(&w->unsorted)) {
		__htw_list_add_tail(&n->list, &w->unsorted);
		return;
	}
	if (!w->used)
		w->base = w->levels ? w->level[w->levels - 1].last + 1 : w->cursor;
	if (n->expires < w->base)
		__htw_list_add_tail(&n->list, &w->unsorted);
	else
		htw_beyond_append(w, n);
}

/* Append the lists of &htw_wheel.beyond up to @last to @all, in the order of their ticks. */
static void htw_beyond_splice(struct htw_wheel *w, unsigned int last,
			      struct list_head *all)
{
	for (; w->used && htw_beyond_first_list(w) <= last; w->used &= w->used - 1)
		list_splice_tail_init(&w->beyond[htw_beyond_first_list(w)], all);
}

/*
 * Move the base on, to a tick before which nothing is beyond the levels that
 * does not come down now. Lists whose nodes may belong elsewhere, as seen from
 * there, become unsorted.
 */
static void htw_beyond_set_base(struct htw_wheel *w, u64 base)
{
	unsigned int last = htw_beyond_index(w, base);
	LIST_HEAD(all);

	htw_beyond_splice(w, last, &all);
	/* In front, as what is unsorted already was started later. */
	list_splice(&all, &w->unsorted);
	w->base = base;
}

/* The first tick of level @l's earliest bucket; above the last level, of a window in its place. */
static u64 htw_wheel_upper_first_tick(const struct htw_wheel *w, unsigned int l)
{
	u64 first;

	if (l < w->levels)
		return htw_level_first_tick(w, l);
	first = htw_beyond_first_tick(w, HTW_SHORT_LIST);
	if (first == HTW_NEVER)
		return HTW_NEVER;
	first = htw_level_slot_start(w, &w->level[l], first);
	return max(first, w->level[l - 1].end);
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
	unsigned int l = 0;

	/* A window of an upper level ends where one of each level below does. */
	while (l < w->levels && w->level[l].end < htw_level_end_wanted(w, l))
		l++;
	while (l-- > 0)
		htw_level_advance_end(w, l);
	w->next_window = htw_level_slot_start(w, &w->level[1], w->cursor) + w->level[1].span;
}

/* Advance the cursor to a tick before which nothing is due. Return: were levels searched? */
static bool htw_wheel_set_cursor(struct htw_wheel *w, u64 cursor)
{
	const bool searched = cursor >= w->next_window;

	w->cursor = cursor;
	if (!w->levels)
		return false;
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
 * A node goes to the level where it belongs as seen from the latest tick that the
 * wheel knows of. Nothing expires by this call: there is no work before
 * &htw_wheel.next, and it does not go beyond that.
 */
void htw_wheel_forward(struct htw_wheel *w, u64 now)
{
	u64 idle = min(min_t(u64, now, HTW_LAST_TICK) + 1, w->next);

	if (idle > w->cursor)
		htw_wheel_set_cursor(w, idle);
}

/* Are there no levels, and all nodes that are not due in the sorted list? */
static bool htw_wheel_is_sorted(const struct htw_wheel *w)
{
	return w->level == w->none;
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

/* The tick of the first node, if all are in the sorted list. */
static u64 htw_sorted_first_tick(const struct htw_wheel *w)
{
	return list_empty(&w->sorted) ? HTW_NEVER :
	       list_first_entry(&w->sorted, struct htw_node, list)->expires;
}

/*
 * A tick before which no node is to expire, nor a bucket to be moved down; for
 * nodes that are due, or not in the sorted list.
 */
static u64 htw_wheel_next_work(const struct htw_wheel *w)
{
	u64 next;

	if (!list_empty(&w->due))
		return w->cursor - 1;
	if (!w->levels)
		return list_empty(&w->unsorted) ? htw_beyond_first_tick(w, HTW_LONG_LIST) :
						  w->cursor - 1;
	next = htw_level_first_tick(w, 0);
	/* All other work is in later windows. */
	if (next < w->settled)
		return next;
	for (unsigned int l = 1; l <= w->levels; l++)
		next = min(next, htw_wheel_work_at(w, l, htw_wheel_upper_first_tick(w, l)));
	return next;
}

/* htw_wheel_next() if it is not found at once. */
static noinline u64 htw_wheel_find_next(struct htw_wheel *w)
{
	w->next = htw_wheel_next_work(w);
	return w->next;
}

/**
 * htw_wheel_next() - the next tick with work
 * @w: the wheel
 *
 * Work is a node to expire, or nodes to move to a finer level, so this is never
 * later than the first node. Without levels it is that node's tick, unless more
 * than 1,024 nodes would have to be looked at for it.
 *
 * Sets &htw_wheel.next, by which htw_wheel_start() says whether the caller's
 * timer is to be programmed earlier.
 *
 * Return: the tick; one that has come if there is work now; %HTW_NEVER if there
 * will be none. After %HTW_LAST_TICK there is none either: that is the tick of a
 * node that never expires.
 */
u64 htw_wheel_next(struct htw_wheel *w)
{
	u64 near;

	if (!list_empty(&w->due))
		return htw_wheel_find_next(w);
	near = htw_wheel_near_tick(w);
	if (near >= w->settled) {
		if (!htw_wheel_is_sorted(w))
			return htw_wheel_find_next(w);
		near = htw_sorted_first_tick(w);
	}
	w->next = near;
	return near;
}

/**
 * htw_wheel_first_tick() - a tick before which no node expires
 * @w: the wheel
 *
 * As htw_wheel_next(), but without what is to be moved down before that: the first
 * tick of the earliest bucket with a node. Changes nothing.
 *
 * Return: the tick; %HTW_NEVER if there is none.
 */
u64 htw_wheel_first_tick(const struct htw_wheel *w)
{
	u64 first = HTW_NEVER;

	if (!list_empty(&w->due))
		return w->cursor - 1;
	if (htw_wheel_is_sorted(w))
		return htw_sorted_first_tick(w);
	for (unsigned int l = 0; l < w->levels; l++)
		first = min(first, htw_level_first_tick(w, l));
	return min(first, htw_beyond_first_tick(w, HTW_SHORT_LIST));
}

/* Could starting a node at tick @expires make &htw_wheel.next earlier? */
bool htw_wheel_is_ahead(struct htw_wheel *w, u64 expires)
{
	const struct htw_level *lev = htw_wheel_level(w, expires);

	expires = htw_level_slot_start(w, lev, expires);
	return htw_wheel_work_at(w, lev - w->level, expires) < w->next;
}

/* Note that there is work at a tick. Return: true if @next has become earlier. */
static bool htw_wheel_note_work(struct htw_wheel *w, u64 work)
{
	if (work >= w->next)
		return false;
	w->next = work;
	return true;
}

/* What stands above the last level, for nodes beyond it. */
static void htw_level_init_above(struct htw_level *lev, u64 span)
{
	memset(lev, 0, sizeof(*lev));
	lev->last = HTW_NEVER;
	lev->end = HTW_NEVER;
	lev->span = span;
	lev->shift = ilog2(span);
}

/**
 * htw_wheel_init() - initialize an empty wheel without levels
 * @w: the wheel; it must not be moved or copied from now on, as lists lead to it
 * @now: the present tick
 *
 * Nothing has to be undone when the wheel is empty again and has no levels.
 */
void htw_wheel_init(struct htw_wheel *w, u64 now)
{
	memset(w, 0, sizeof(*w));
	INIT_LIST_HEAD(&w->due);
	INIT_LIST_HEAD(&w->unsorted);
	for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++)
		INIT_LIST_HEAD(&w->beyond[i]);
	INIT_LIST_HEAD(&w->sorted);
	htw_level_init_above(&w->none[0], 1);
	htw_level_init_above(&w->none[1], 1);
	w->level = w->none;
	w->pow2 = true;
	w->next = HTW_NEVER;
	w->next_window = HTW_NEVER;
	w->cursor = min_t(u64, now, HTW_LAST_TICK) + 1;
}

/* There are more than a few nodes, or levels are to be added: use the radix heap. */
static void htw_wheel_spread(struct htw_wheel *w)
{
	struct list_head *entry, *following;

	w->level = &w->none[1];
	w->base = w->cursor;
	list_for_each_safe(entry, following, &w->sorted)
		htw_beyond_append(w, list_entry(entry, struct htw_node, list));
	INIT_LIST_HEAD(&w->sorted);
}

/*
 * Are all nodes that are not due in the sorted list, and few? More than that are
 * spread first: any number can have been due as they were started.
 */
static bool htw_wheel_is_few(struct htw_wheel *w)
{
	if (htw_wheel_is_sorted(w) && w->pending > HTW_WHEEL_FEW)
		htw_wheel_spread(w);
	return htw_wheel_is_sorted(w);
}

/* Have all levels end where the cursor's window of the last one starts: they hold nothing. */
static void htw_wheel_reset_ends(struct htw_wheel *w)
{
	u64 end = htw_level_slot_start(w, &w->level[w->levels], w->cursor);

	for (unsigned int l = 0; l < w->levels; l++)
		htw_level_set_end(w, &w->level[l], end);
}

/**
 * htw_wheel_add_levels() - have a wheel work as well with many nodes
 * @w: a wheel without levels
 * @geo: the levels' shape, which htw_geometry_error() has passed
 * @memory: htw_geometry_bytes() of memory, aligned for u64 and pointers, as an
 *	array of u64 is, or what malloc() gives; the wheel's until
 *	htw_wheel_remove_levels()
 *
 * Nodes that are in the wheel are not moved by this call: those that expire first
 * are put on levels in batches, before their time.
 *
 * Return: as htw_wheel_start().
 */
bool htw_wheel_add_levels(struct htw_wheel *w, const struct htw_geometry *geo,
			  void *memory)
{
	struct htw_level *level = (struct htw_level *)memory;
	struct list_head *buckets = (struct list_head *)(level + geo->levels + 1);
	size_t nr_buckets = 0, longs = 0;
	unsigned long *map;
	u64 span = 1;

	HTW_ASSERT(!w->levels && !htw_geometry_error(geo));
	if (htw_wheel_is_sorted(w))
		htw_wheel_spread(w);
	w->level = level;
	w->levels = geo->levels;
	for (unsigned int l = 0; l < geo->levels; l++) {
		struct htw_level *lev = &level[l];

		memset(lev, 0, sizeof(*lev));
		lev->span = span;
		lev->shift = ilog2(span);
		lev->nr_buckets = 2 * geo->slots[l];
		lev->buckets = buckets + nr_buckets;
		nr_buckets += lev->nr_buckets;
		w->pow2 &= is_power_of_2(geo->slots[l]);
		span *= geo->slots[l];
	}
	htw_level_init_above(&level[geo->levels], span);

	map = (unsigned long *)(buckets + nr_buckets);
	for (unsigned int l = 0; l < geo->levels; l++) {
		level[l].occupied = map + longs;
		longs += BITS_TO_LONGS(level[l].nr_buckets);
		if (w->pow2)
			level[l].mask = level[l].nr_buckets - 1;
	}
	memset(map, 0, longs * sizeof(*map));
	for (size_t i = 0; i < nr_buckets; i++)
		INIT_LIST_HEAD(&buckets[i]);

	w->search = longs < HTW_WHEEL_FREE_WORDS ? 0 : longs / HTW_WHEEL_UNIT_WORDS;
	w->next_window = 0;
	htw_wheel_reset_ends(w);
	htw_wheel_set_cursor(w, w->cursor);
	return htw_wheel_note_work(w, htw_wheel_next_work(w));
}

/**
 * htw_wheel_remove_levels() - have a wheel work without levels again
 * @w: an empty wheel
 *
 * Return: the memory of its levels, or NULL if it has none.
 */
void *htw_wheel_remove_levels(struct htw_wheel *w)
{
	struct htw_level *level = w->level;

	HTW_ASSERT(!w->pending);
	if (!w->levels)
		return NULL;
	w->level = w->none;
	w->levels = 0;
	w->search = 0;
	w->pow2 = true;
	w->next_window = HTW_NEVER;
	w->settled = 0;
	return level;
}

/* Note that a list, or a bucket, has lost its last node. */
void htw_wheel_emptied(struct htw_wheel *w, const struct list_head *list)
{
	if (list >= w->beyond && list < w->beyond + HTW_WHEEL_LISTS) {
		w->used &= ~BIT_ULL(list - w->beyond);
		return;
	}
	if (list == &w->unsorted)
		w->rewound = false;
	for (unsigned int l = 0; l < w->levels; l++) {
		struct htw_level *lev = &w->level[l];

		if (list >= lev->buckets &&
		    list < lev->buckets + lev->nr_buckets) {
			htw_level_clear(lev, list - lev->buckets);
			return;
		}
	}
}

/* htw_wheel_link() for a tick that has come. */
bool htw_wheel_link_due(struct htw_wheel *w, struct htw_node *n)
{
	/* After a rewind an older one of the same tick may be among the unsorted nodes. */
	if (unlikely(w->rewound))
		__htw_list_add_tail(&n->list, &w->unsorted);
	else
		__htw_list_add_tail(&n->list, &w->due);
	return htw_wheel_note_work(w, n->expires);
}

/* htw_wheel_link() for the sorted list. */
static bool htw_sorted_link(struct htw_wheel *w, struct htw_node *n)
{
	struct list_head *after = &w->sorted;

	/* A list that starts with an earlier node has an end for the search. */
	if (!list_empty(after) &&
	    list_first_entry(after, struct htw_node, list)->expires <= n->expires) {
		do {
			after = after->prev;
		} while (list_entry(after, struct htw_node, list)->expires > n->expires);
	}
	__htw_list_add(&n->list, after);
	return htw_wheel_note_work(w, n->expires);
}

/* Set the bit of a bucket that has got its first node. Return: as htw_wheel_start(). */
bool htw_level_mark_bucket(struct htw_wheel *w, struct htw_level *lev,
			   struct htw_node *n)
{
	htw_level_set(lev, n->list.prev - lev->buckets);
	return htw_wheel_note_work(w, htw_wheel_work_at(w, lev - w->level,
					     htw_level_slot_start(w, lev, n->expires)));
}

/* htw_wheel_link() for a level without a mask, and for what is no level. */
bool htw_wheel_link_slow(struct htw_wheel *w, struct htw_level *lev,
			 struct htw_node *n)
{
	unsigned int l = lev - w->level;

	if (lev == w->none) {
		if (likely(w->pending <= HTW_WHEEL_FEW))
			return htw_sorted_link(w, n);
		htw_wheel_spread(w);
		lev = w->level;
	}
	if (l == w->levels) {
		htw_beyond_add(w, n);
		return htw_wheel_note_work(w, htw_wheel_work_at(w, l,
						htw_level_slot_start(w, lev, n->expires)));
	}
	return htw_level_append(htw_level_bucket(w, lev, n->expires), n) &&
	       htw_level_mark_bucket(w, lev, n);
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
 * order: there are more nodes than are looked at, or some may still be on an
 * upper level.
 */
bool htw_wheel_make_due(struct htw_wheel *w, u64 now, htw_is_due_t *is_due,
			u64 time, bool *ahead)
{
	unsigned int looks = HTW_WHEEL_LOOKS;
	struct list_head *list;
	struct htw_node *n, *next;

	/* Linking a node that is made due must not spread the list that is walked. */
	if (htw_wheel_is_few(w)) {
		list = &w->sorted;
	} else if (!w->levels) {
		if (!list_empty(&w->unsorted) || now + 1 < w->base)
			return false;
		list = &w->beyond[htw_beyond_index(w, now + 1)];
	} else {
		if (now + 1 >= w->level[0].end)
			return false;
		list = htw_level_bucket(w, &w->level[0], now + 1);
	}
	list_for_each_entry_safe(n, next, list, list) {
		if (n->expires > now + 1 && list == &w->sorted)
			break;
		if (!looks--)
			return false;
		if (n->expires != now + 1 || !is_due(n, time))
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
 * Put unsorted nodes where they belong: before @end on the last level, else in a
 * list beyond it. Return: false if the budget was too small.
 */
static bool htw_beyond_sort(struct htw_wheel *w, u64 end, unsigned int *budget)
{
	struct htw_level *lev = w->level + w->levels - 1;
	struct list_head *entry;

	while ((entry = w->unsorted.next) != &w->unsorted) {
		struct htw_node *n = list_entry(entry, struct htw_node, list);

		if (!*budget)
			return false;
		--*budget;
		__htw_list_del(entry);
		if (n->expires < w->cursor) {
			__htw_list_add_tail(&n->list, &w->due);
		} else if (n->expires < end) {
			struct list_head *down = htw_level_bucket(w, lev, n->expires);

			w->cascades++;
			if (htw_level_append(down, n))
				htw_level_set(lev, down - lev->buckets);
		} else {
			htw_beyond_append(w, n);
		}
	}
	w->rewound = false;
	return true;
}

/* Move what is in the window behind the last level down. Return: false if some of it is left. */
static bool htw_beyond_cascade(struct htw_wheel *w, unsigned int *budget)
{
	struct htw_level *lev = &w->level[w->levels - 1];
	u64 end = lev->end + w->level[w->levels].span;

	if (w->base < end)
		htw_beyond_set_base(w, end);
	if (!htw_beyond_sort(w, end, budget))
		return false;
	htw_level_set_end(w, lev, end);
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
		filled = htw_beyond_cascade(w, budget);
	if (!filled)
		return false;
	htw_level_advance_end(w, l);
	/*
	 * After a rewind levels below end before the cursor, and follow at once: a level that
	 * holds more than its two windows would take one slot for another.
	 */
	while (l-- && w->level[l].end <= w->cursor)
		htw_level_advance_end(w, l);
	return true;
}

/**
 * htw_wheel_cascade() - move nodes to finer levels, ahead of their time
 * @w: the wheel
 * @budget: nodes that may be looked at; decremented for each one
 *
 * To be called when htw_wheel_expire() has nothing that is due.
 *
 * Return: true if nothing is left to do now; false if the budget was too small,
 * then call it again with a new one, or if a node is due.
 */
bool htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget)
{
	if (w->cursor < w->settled)
		return true;
	if (!w->levels && !htw_beyond_sort(w, 0, budget))
		return false;
	for (unsigned int l = 0; l < w->levels; l++) {
		while (w->level[l].end < htw_level_end_wanted(w, l)) {
			if (!htw_wheel_cascade_to(w, l, budget))
				return false;
		}
	}
	if (w->levels)
		w->settled = min_t(u64, w->next_window, HTW_LAST_TICK + 1);
	/* After a rewind, sorting finds nodes that are due. */
	return list_empty(&w->due);
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
static bool htw_level_step(struct htw_wheel *w, u64 now, unsigned int *budget)
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

/* The same for the sorted list. Return: false if nothing is due. */
static bool htw_sorted_step(struct htw_wheel *w, u64 now)
{
	struct list_head *head = &w->sorted, *entry = head->next, *last;
	u64 first;

	if (entry == head || list_entry(entry, struct htw_node, list)->expires > now) {
		w->cursor = now + 1;
		return false;
	}

	/* Cut the nodes of the first tick off. */
	first = list_entry(entry, struct htw_node, list)->expires;
	w->cursor = first + 1;
	w->due.next = entry;
	entry->prev = &w->due;
	do {
		last = entry;
		entry = entry->next;
	} while (entry != head &&
		 list_entry(entry, struct htw_node, list)->expires == first);
	w->due.prev = last;
	last->next = &w->due;
	head->next = entry;
	entry->prev = head;
	return true;
}

/* The same for the radix heap, if there are no levels. */
static bool htw_beyond_step(struct htw_wheel *w, u64 now, unsigned int *budget)
{
	unsigned int i;
	u64 start;

	if (!htw_beyond_sort(w, 0, budget))
		return false;
	if (!list_empty(&w->due))
		return true;

	if (!w->used) {
		w->level = w->none;
		w->cursor = now + 1;
		return true;
	}
	i = htw_beyond_first_list(w);
	start = htw_beyond_list_start(w, i);
	if (start > now) {
		w->cursor = now + 1;
		return true;
	}

	/* All nodes of list 0 are of one tick. Others are distributed as their time comes. */
	if (i) {
		w->cursor = max(w->cursor, start);
		htw_beyond_set_base(w, w->cursor);
		return htw_beyond_sort(w, 0, budget);
	}
	list_splice_tail_init(&w->beyond[0], &w->due);
	w->used &= ~BIT_ULL(0);
	w->cursor = start + 1;
	return true;
}

/*
 * Make the nodes of the next tick due, and advance the cursor past it, if that tick has come and
 * is found at once, and no window moves. Return: was it so?
 */
static inline bool htw_wheel_near_step(struct htw_wheel *w, u64 now)
{
	struct htw_level *lev = w->level;
	u64 first = w->next;
	u32 index = first & lev->mask;

	/* Mostly that is the tick which htw_wheel_next() has found. */
	if (first < w->cursor || !lev->mask || list_empty(&lev->buckets[index])) {
		first = htw_wheel_near_tick(w);
		index = first & lev->mask;
	}
	if (first > now || first + 1 >= w->settled)
		return false;
	list_replace_init(&lev->buckets[index], &w->due);
	__clear_bit(index, lev->occupied);
	lev->nonempty--;
	w->cursor = first + 1;
	return true;
}

/* htw_wheel_collect_due() if there are more than a few nodes, and none is due yet. */
static noinline bool htw_wheel_fill_due(struct htw_wheel *w, u64 now,
					unsigned int *budget)
{
	while (*budget && w->cursor <= now) {
		if (w->levels ? !htw_level_step(w, now, budget) :
				!htw_beyond_step(w, now, budget))
			return false;
		if (!list_empty(&w->due))
			return *budget;
	}
	return false;
}

/* Is any node due? */
static inline bool htw_wheel_has_due(struct htw_wheel *w, u64 now,
				     unsigned int *budget)
{
	if (!list_empty(&w->due))
		return *budget;
	if (htw_wheel_near_step(w, now))
		return *budget;
	now = min_t(u64, now, HTW_LAST_TICK);
	if (w->cursor > now)
		return false;
	if (htw_wheel_is_sorted(w))
		return htw_sorted_step(w, now) && *budget;
	return htw_wheel_fill_due(w, now, budget);
}

/**
 * htw_wheel_collect_due() - fill the list of due nodes
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
	return htw_wheel_has_due(w, now, budget);
}

/* Take out the first node that is due. */
static struct htw_node *htw_wheel_take_due(struct htw_wheel *w,
					   unsigned int *budget)
{
	struct htw_node *n = list_first_entry(&w->due, struct htw_node, list);

	--*budget;
	w->pending--;
	__htw_list_del(&n->list);
	htw_node_init(n);
	return n;
}

/**
 * htw_wheel_expire() - take out the next node that is due
 * @w: the wheel
 * @now: the present tick, as for htw_wheel_advance()
 * @budget: nodes that may be taken out or looked at; decremented for each one
 *
 * Return: the node, which is on no list any more; NULL if none is due or the
 * budget is used up. After a rewind htw_wheel_cascade() may find more.
 */
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now,
				  unsigned int *budget)
{
	return htw_wheel_has_due(w, now, budget) ? htw_wheel_take_due(w, budget) : NULL;
}

/* Hand all nodes that are due to @expired, within the budget. */
static inline void htw_wheel_expire_due(struct htw_wheel *w, u64 now,
					unsigned int *budget,
					htw_node_fn_t *expired, void *arg)
{
	while (htw_wheel_has_due(w, now, budget)) {
		do {
			expired(htw_wheel_take_due(w, budget), arg);
		} while (*budget && !list_empty(&w->due));
		if (w->cursor > now)
			break;
	}
}

/**
 * htw_wheel_advance() - expire what is due, then move nodes to finer levels
 * @w: the wheel
 * @now: the present tick; a later one than %HTW_LAST_TICK counts as that
 * @budget: nodes that may be expired or looked at; decremented for each one
 * @expired: called for each node that has expired, which is in no wheel any more
 * @arg: for @expired
 *
 * Ticks go forward: with an earlier one than in a call before, only what is due
 * already expires. htw_wheel_rewind() is for a clock that was set back.
 *
 * @expired may start, stop and free any node, the one that it is called for
 * included, and may call htw_wheel_next(), and this function. It must not rewind
 * the wheel, nor end its life. What it starts for a tick that has come is expired
 * by the same call, within the budget.
 *
 * Return: true if nothing is left to do before htw_wheel_next(); false if the
 * budget is used up, so that there may be more to do, with a new one. It need not
 * be looked at: htw_wheel_next() is a tick that has come as long as there is work.
 */
bool htw_wheel_advance(struct htw_wheel *w, u64 now, unsigned int *budget,
		       htw_node_fn_t *expired, void *arg)
{
	do {
		htw_wheel_expire_due(w, now, budget, expired, arg);
		if (!*budget)
			return false;
		if (htw_wheel_is_sorted(w) || w->cursor < w->settled ||
		    htw_wheel_cascade(w, budget))
			return true;
	} while (!list_empty(&w->due));
	return false;
}

/*
 * Set @first to a list's earliest node if that is earlier; false if it has more
 * than @most. Unsorted nodes whose tick has come expire in the order of the list.
 */
static bool htw_wheel_earliest(const struct htw_wheel *w,
			       const struct list_head *list, unsigned int *most,
			       struct htw_node **first)
{
	struct htw_node *n;
	u64 tick;

	list_for_each_entry(n, list, list) {
		if (!(*most)--)
			return false;
		tick = max(n->expires, w->cursor - 1);
		if (!*first || tick < max((*first)->expires, w->cursor - 1))
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
	if (!*first)
		*first = list_first_entry_or_null(&w->sorted, struct htw_node, list);
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
		else if (!htw_wheel_earliest(w, bucket, &most, first))
			return false;
	}

	if (*first && (*first)->expires < htw_beyond_first_tick(w, HTW_SHORT_LIST))
		return true;
	/* Of one tick, unsorted nodes were started last. */
	if (w->used &&
	    !htw_wheel_earliest(w, &w->beyond[htw_beyond_first_list(w)], &most, first))
		return false;
	return htw_wheel_earliest(w, &w->unsorted, &most, first);
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
	else if (!list_empty(&w->sorted))
		from = &w->sorted;
	for (unsigned int l = 0; l < w->levels && !from; l++) {
		u64 first = htw_level_first_tick(w, l);
		struct htw_level *lev = &w->level[l];

		if (first != HTW_NEVER)
			from = htw_level_bucket(w, lev, first);
	}
	if (!from)
		from = w->used ? &w->beyond[htw_beyond_first_list(w)] : &w->unsorted;

	n = list_first_entry_or_null(from, struct htw_node, list);
	if (n)
		htw_wheel_stop(w, n);
	return n;
}

static void htw_list_walk(struct list_head *list, htw_node_fn_t *visit, void *arg)
{
	struct list_head *entry;

	list_for_each(entry, list)
		visit(list_entry(entry, struct htw_node, list), arg);
}

/**
 * htw_wheel_walk() - look at all nodes
 * @w: the wheel
 * @visit: called for each node, in no order; it must not change the wheel
 * @arg: for @visit
 */
void htw_wheel_walk(struct htw_wheel *w, htw_node_fn_t *visit, void *arg)
{
	htw_list_walk(&w->due, visit, arg);
	htw_list_walk(&w->sorted, visit, arg);
	htw_list_walk(&w->unsorted, visit, arg);
	for (unsigned int l = 0; l < w->levels; l++)
		for (u32 i = 0; i < w->level[l].nr_buckets; i++)
			htw_list_walk(&w->level[l].buckets[i], visit, arg);
	for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++)
		htw_list_walk(&w->beyond[i], visit, arg);
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
 * All nodes become unsorted, list by list, in time proportional to the number of
 * slots; htw_wheel_advance(), or htw_wheel_expire() and htw_wheel_cascade(), then
 * put them back within their budgets. Until that is done none of them expires, and nodes
 * that are started join the end of the list, so order is kept. Nodes that were
 * due may have to wait again. &htw_wheel.next becomes zero: the caller has work
 * to do at once. Nothing is done if the wheel was not advanced beyond @now. Not
 * to be called by a function that htw_wheel_advance() calls, as that goes on with
 * the later tick.
 */
void htw_wheel_rewind(struct htw_wheel *w, u64 now)
{
	struct list_head *entry, *following;
	LIST_HEAD(all);

	if (now + 1 >= w->cursor)
		return;
	w->next = 0;
	list_splice_init(&w->due, &all);
	if (htw_wheel_is_few(w)) {
		w->cursor = now + 1;
		list_for_each_safe(entry, following, &all)
			htw_wheel_link(w, list_entry(entry, struct htw_node, list));
		return;
	}
	for (unsigned int l = 0; l < w->levels; l++)
		htw_level_splice(w, l, &all);
	htw_beyond_splice(w, HTW_WHEEL_LISTS - 1, &all);
	list_splice(&all, &w->unsorted);
	w->rewound = !list_empty(&w->unsorted);
	w->cursor = now + 1;
	if (!w->levels) {
		w->base = w->cursor;
		return;
	}
	htw_wheel_reset_ends(w);
	w->base = w->level[0].end + w->level[w->levels].span;
	w->next_window = 0;
	w->settled = 0;
	htw_wheel_set_cursor(w, w->cursor);
}
