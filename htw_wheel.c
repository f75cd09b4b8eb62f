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
 * A node may have any u64 for its tick. Time ends at %HTW_LAST_TICK: a later one
 * counts as that. Nodes of later ticks never expire, and are in a list of their
 * own, so that nothing looks for them: no level, and nothing beyond the levels,
 * holds a tick after %HTW_LAST_TICK.
 */

#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/prefetch.h>

#include "htw_wheel.h"

/* 2^63 ticks plus two windows of the last level fit in a u64. */
#define HTW_MAX_SPAN		BIT_ULL(61)
/* Nodes that htw_wheel_make_due() looks at. */
#define HTW_WHEEL_LOOKS		32
/*
 * Is code to be small rather than quick? Then it has one way for what it can
 * also do in a quicker one.
 */
#ifndef HTW_WHEEL_SMALL
#define HTW_WHEEL_SMALL		0
#endif
/*
 * Most nodes in the sorted list; none if there is no such list. A test may have
 * fewer, to reach the radix heap with them.
 */
#ifndef HTW_WHEEL_FEW
#define HTW_WHEEL_FEW		(HTW_WHEEL_SMALL ? 0 : 63)
#endif
/*
 * Nodes beyond the levels, and without levels, that are looked at for the first
 * of them.
 */
#ifndef HTW_SHORT_LIST
#define HTW_SHORT_LIST		8
#define HTW_LONG_LIST		1024
#endif
/*
 * Slots of all levels whose bits are searched, several times, for a unit of a
 * budget; and fewer than this are searched for nothing, as those of the default
 * geometry.
 */
#define HTW_WHEEL_UNIT_SLOTS	256
#define HTW_WHEEL_FREE_SLOTS	1024
/*
 * How far ahead of its first tick a bucket of level 1 can at least be moved
 * down, in ns.
 */
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
 * Level 0 has 256 slots, or as many as span 20 ms, or one for each 64 nodes,
 * but not more than %HTW_WHEEL_MAX_SLOTS: with ticks of less than about 10 us
 * it spans less. The nodes of a slot above, a million for instance, have that
 * long to be moved down. More slots are fewer windows to enter, which counts
 * when few nodes share one, and at most a byte a node.
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
 * Return: the size of the memory for htw_levels_init().
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
 * Return: of the times from @first to @last the one that ends in most zero
 * bits;
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
static u64 htw_level_slot(const struct htw_level *lev, u64 tick)
{
	return !HTW_WHEEL_SMALL && lev->mask ? tick >> lev->shift : div64_u64(tick, lev->span);
}

/* The index of a slot's bucket. */
static u32 htw_level_bucket_index(const struct htw_level *lev, u64 slot)
{
	u32 index;

	if (lev->mask)
		return (u32)slot & lev->mask;
	div_u64_rem(slot, lev->nr_buckets, &index);
	return index;
}

/* The bucket of a tick that the level holds. */
static struct list_head *htw_level_bucket(const struct htw_level *lev, u64 tick)
{
	return &lev->buckets[htw_level_bucket_index(lev, htw_level_slot(lev, tick))];
}

static u64 htw_level_slot_start(const struct htw_level *lev, u64 tick)
{
	return htw_level_slot(lev, tick) * lev->span;
}

/* The slot with which level @l begins: where the level below ends. */
static u64 htw_level_first_slot(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *lev = &w->level[l];

	return htw_level_slot(lev, l ? lev[-1].end : w->cursor);
}

/* The first tick of level @l's earliest bucket that holds a node. */
u64 htw_level_first_tick(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *lev = &w->level[l];
	u32 from, index;
	u64 slot;

	if (!lev->nonempty)
		return HTW_NEVER;
	slot = htw_level_first_slot(w, l);
	from = htw_level_bucket_index(lev, slot);
	index = find_next_bit_wrap(lev->occupied, lev->nr_buckets, from);
	if (index < from)
		index += lev->nr_buckets;
	return (slot + index - from) * lev->span;
}

/*
 * The same for level 0, if that tick is before &htw_wheel.settled, as it mostly
 * is while there is much to do; else that, or a later one, to which 1 can be
 * added.
 */
static inline u64 htw_wheel_near_tick(const struct htw_wheel *w)
{
	const struct htw_level *lev = w->level;
	u64 tick = w->cursor;
	const unsigned long *word;
	u32 index = (u32)tick & lev->mask;
	unsigned long bits;

	if (HTW_WHEEL_SMALL || unlikely(!lev->mask || tick >= w->settled))
		return w->settled;

	word = &lev->occupied[index / BITS_PER_LONG];
	bits = *word >> (index % BITS_PER_LONG);
	if (bits)
		return tick + __ffs(bits);

	/* The ring does not turn before that: a window is half of it. */
	for (tick += BITS_PER_LONG - tick % BITS_PER_LONG; tick < w->settled;
	     tick += BITS_PER_LONG) {
		bits = *++word;
		if (bits)
			return tick + __ffs(bits);
	}
	return w->settled;
}

/* A bucket that was empty has got a node. */
static inline void htw_level_set(struct htw_level *lev, u32 index)
{
	__set_bit(index, lev->occupied);
	lev->nonempty++;
}

/* A bucket is empty, and may have been before. */
static void htw_level_clear(struct htw_level *lev, u32 index)
{
	if (__test_and_clear_bit(index, lev->occupied))
		lev->nonempty--;
}

/* The last level; there are some. */
static struct htw_level *htw_wheel_last_level(const struct htw_wheel *w)
{
	return &w->level[htw_wheel_levels(w) - 1];
}

/* The first tick that can be in list @i of &htw_wheel.beyond. */
static u64 htw_beyond_list_start(const struct htw_wheel *w, unsigned int i)
{
	unsigned int shift = HTW_DIGIT_BITS * (i - 1);

	return i ? (w->base | (BIT_ULL(shift) - 1)) + 1 : w->base;
}

/* The list of &htw_wheel.beyond for a tick that is not before the base. */
static unsigned int htw_beyond_index(const struct htw_wheel *w, u64 tick)
{
	return (fls64(tick ^ w->base) + HTW_DIGIT_BITS - 1) / HTW_DIGIT_BITS;
}

/*
 * A tick before which no node is beyond the levels, exact if the first list has
 * @most nodes.
 */
u64 htw_beyond_first_tick(const struct htw_wheel *w, unsigned int most)
{
	const struct list_head *entry;
	u64 first = HTW_NEVER;
	unsigned int i;

	/* Not before what the last level may hold. */
	if (!list_empty(&w->unsorted))
		return htw_wheel_levels(w) ? htw_wheel_last_level(w)->end : w->cursor - 1;
	if (!w->used)
		return HTW_NEVER;

	i = __ffs64(w->used);
	list_for_each(entry, &w->beyond[i]) {
		/* The cursor may have passed that: a start names the tick itself. */
		if (!most--)
			return max(htw_beyond_list_start(w, i), w->cursor);
		first = min(first, list_entry(entry, struct htw_node, list)->expires);
	}
	return first;
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
		w->base = htw_wheel_levels(w) ? htw_wheel_last_level(w)->last + 1 : w->cursor;
	if (n->expires < w->base)
		__htw_list_add_tail(&n->list, &w->unsorted);
	else
		htw_beyond_append(w, n);
}

/*
 * Append the lists of &htw_wheel.beyond up to @last to @all, in the order of
 * their ticks.
 */
static void htw_beyond_splice(struct htw_wheel *w, unsigned int last,
			      struct list_head *all)
{
	for (; w->used && __ffs64(w->used) <= last; w->used &= w->used - 1)
		list_splice_tail_init(&w->beyond[__ffs64(w->used)], all);
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

/*
 * The first tick of level @l's earliest bucket; above the last level, of a
 * window in its place.
 */
static u64 htw_wheel_upper_first_tick(const struct htw_wheel *w, unsigned int l)
{
	u64 first;

	if (l < htw_wheel_levels(w))
		return htw_level_first_tick(w, l);
	first = htw_beyond_first_tick(w, HTW_SHORT_LIST);
	if (first == HTW_NEVER)
		return HTW_NEVER;
	first = htw_level_slot_start(&w->level[l], first);
	return max(first, w->level[l - 1].end);
}

/* Where level @l should end: two windows after the start of the cursor's. */
static u64 htw_level_end_wanted(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *up = &w->level[l + 1];

	return (htw_level_slot(up, w->cursor) + 2) * up->span;
}

static void htw_level_set_end(struct htw_wheel *w, struct htw_level *lev,
			      u64 end)
{
	lev->end = end;
	/*
	 * After a rewind the end may be before the cursor: ticks that have come
	 * stay below. Ticks that never come stay above.
	 */
	lev->last = min_t(u64, max(end, w->cursor) - 1, HTW_LAST_TICK);
}

/*
 * Advance the end of level @l, at most to the first bucket above that is not
 * moved down yet.
 */
static void htw_level_advance_end(struct htw_wheel *w, unsigned int l)
{
	u64 end = min(htw_level_end_wanted(w, l),
		      htw_wheel_upper_first_tick(w, l + 1));

	htw_level_set_end(w, &w->level[l], min(end, w->level[l + 1].end));
}

/*
 * The cursor has entered another window of level 0, and possibly of levels
 * above.
 */
static void htw_wheel_advance_ends(struct htw_wheel *w)
{
	unsigned int l = 0;

	/*
	 * A window of an upper level ends where one of each level below does.
	 */
	while (l < htw_wheel_levels(w) && w->level[l].end < htw_level_end_wanted(w, l))
		l++;
	while (l-- > 0)
		htw_level_advance_end(w, l);
	w->next_window = min_t(u64, htw_level_end_wanted(w, 0) - w->level[1].span,
			       HTW_LAST_TICK + 1);
}

/* Advance the cursor to a tick before which nothing is due. */
static void htw_wheel_set_cursor(struct htw_wheel *w, u64 cursor)
{
	w->cursor = cursor;
	if (!htw_wheel_levels(w))
		return;
	if (cursor >= w->next_window)
		htw_wheel_advance_ends(w);
	/*
	 * The cursor passes the end while a bucket above is moved down in
	 * parts.
	 */
	htw_level_set_end(w, &w->level[0], w->level[0].end);
}

/**
 * htw_wheel_forward() - bring an idle wheel up to the present, before a start
 * @w: the wheel
 * @now: the present tick
 *
 * A node goes to the level where it belongs as seen from the latest tick that
 * the wheel knows of. Nothing expires by this call: it does not go beyond a tick
 * with work.
 */
void htw_wheel_forward(struct htw_wheel *w, u64 now)
{
	u64 idle = min(min_t(u64, now, HTW_LAST_TICK) + 1, w->quiet);

	if (idle > w->cursor)
		htw_wheel_set_cursor(w, idle);
}

/* Are there no levels, and all nodes that are not due in the sorted list? */
static bool htw_wheel_is_sorted(const struct htw_wheel *w)
{
	return HTW_WHEEL_FEW && w->level == w->none;
}

/*
 * The tick at which a bucket of level @lev that starts at tick @first makes
 * work: on level 0 that tick; above, one window earlier, when the bucket can be
 * moved down.
 */
static u64 htw_level_work_at(const struct htw_wheel *w,
			     const struct htw_level *lev, u64 first)
{
	if (lev == w->level)
		return first;
	return first - min(first, lev->span);
}

/*
 * A tick before which no node is to expire, nor a bucket to be moved down, if
 * none is due, nor in the sorted list.
 */
static noinline u64 htw_wheel_next_work(const struct htw_wheel *w)
{
	u64 next, first;

	if (!htw_wheel_levels(w))
		return htw_beyond_first_tick(w, HTW_LONG_LIST);
	next = htw_level_first_tick(w, 0);
	/* All other work is in later windows. */
	if (next < w->settled)
		return next;
	for (unsigned int l = 1; l <= htw_wheel_levels(w); l++) {
		first = htw_wheel_upper_first_tick(w, l);
		if (first != HTW_NEVER)
			next = min(next, htw_level_work_at(w, &w->level[l], first));
	}
	return next;
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
 * Return: the tick, up to %HTW_LAST_TICK; one that has come if there is work
 * now; %HTW_NEVER if no node in the wheel expires any more.
 */
u64 htw_wheel_next(struct htw_wheel *w)
{
	u64 next = w->cursor - 1;

	if (list_empty(&w->due)) {
		next = htw_wheel_near_tick(w);
		if (next >= w->settled)
			next = htw_wheel_is_sorted(w) ? htw_sorted_first_tick(w) :
							htw_wheel_next_work(w);
	}
	w->next = next;
	w->quiet = next;
	return next;
}

/*
 * Note how long there is no work, after an advance that has found none: the next
 * ones need not look. Finds no more than what is near.
 */
void htw_wheel_set_quiet(struct htw_wheel *w)
{
	if (htw_wheel_is_sorted(w))
		w->quiet = htw_sorted_first_tick(w);
	else if (!htw_wheel_levels(w))
		w->quiet = htw_beyond_first_tick(w, HTW_SHORT_LIST);
	else if (!HTW_WHEEL_SMALL && w->level->mask)
		w->quiet = min(w->settled, htw_wheel_near_tick(w));
	else
		w->quiet = min(w->settled, htw_level_first_tick(w, 0));
}

/**
 * htw_wheel_first_tick() - a tick before which no node expires
 * @w: the wheel
 *
 * As htw_wheel_next(), but without what is to be moved down before that: the
 * first tick of the earliest bucket with a node. Changes nothing.
 *
 * Return: the tick; %HTW_NEVER if there is none.
 */
u64 htw_wheel_first_tick(const struct htw_wheel *w)
{
	u64 first = htw_sorted_first_tick(w);

	if (!list_empty(&w->due))
		return w->cursor - 1;
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++)
		first = min(first, htw_level_first_tick(w, l));
	return min(first, htw_beyond_first_tick(w, HTW_SHORT_LIST));
}

/*
 * Note that there is work at a tick. Return: true if @next has become earlier.
 */
static bool htw_wheel_note_work(struct htw_wheel *w, u64 work)
{
	if (work < w->quiet)
		w->quiet = work;
	if (work >= w->next)
		return false;
	w->next = work;
	return true;
}

static void htw_level_init(struct htw_level *lev, u64 span)
{
	lev->last = 0;
	lev->end = 0;
	lev->buckets = NULL;
	lev->mask = 0;
	lev->shift = 0;
	lev->nonempty = 0;
	lev->span = span;
	lev->occupied = NULL;
	lev->nr_buckets = 0;
}

/* What stands above the last level, for nodes beyond it. */
static void htw_level_init_above(struct htw_level *lev, u64 span)
{
	htw_level_init(lev, span);
	lev->last = HTW_NEVER;
	lev->end = HTW_NEVER;
}

/**
 * htw_wheel_init() - initialize an empty wheel without levels
 * @w: the wheel; it must not be moved or copied from now on, as lists lead to
 *	it
 * @now: the present tick
 *
 * Nothing has to be undone when the wheel is empty again and has no levels.
 */
void htw_wheel_init(struct htw_wheel *w, u64 now)
{
	w->settled = 0;
	w->pending = 0;
	w->levels = 0;
	w->search = 0;
	w->rewound = false;
	w->cascades = 0;
	w->base = 0;
	w->used = 0;
	INIT_LIST_HEAD(&w->due);
	INIT_LIST_HEAD(&w->unsorted);
	for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++)
		INIT_LIST_HEAD(&w->beyond[i]);
	INIT_LIST_HEAD(&w->sorted);
	INIT_LIST_HEAD(&w->never);
	for (unsigned int i = 0; i < 2; i++)
		htw_level_init_above(&w->none[i], 1);
	w->level = &w->none[!HTW_WHEEL_FEW];
	w->next = HTW_NEVER;
	w->quiet = HTW_NEVER;
	w->next_window = HTW_LAST_TICK + 1;
	w->cursor = min_t(u64, now, HTW_LAST_TICK) + 1;
}

/*
 * There are more than a few nodes, or levels are to be added: use the radix
 * heap.
 */
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
 * Are all nodes that are not due in the sorted list, and few? More than that
 * are spread first: any number can have been due as they were started.
 */
static bool htw_wheel_is_few(struct htw_wheel *w)
{
	if (htw_wheel_is_sorted(w) && w->pending > HTW_WHEEL_FEW)
		htw_wheel_spread(w);
	return htw_wheel_is_sorted(w);
}

/*
 * Have the levels, which hold nothing, end where the cursor's window of the last
 * one starts, and from there on as far as nothing has to be moved down.
 */
static void htw_wheel_reset_ends(struct htw_wheel *w)
{
	u64 end = htw_level_slot_start(&w->level[htw_wheel_levels(w)], w->cursor);

	for (unsigned int l = 0; l < htw_wheel_levels(w); l++)
		htw_level_set_end(w, &w->level[l], end);
	w->next_window = 0;
	w->settled = 0;
	htw_wheel_set_cursor(w, w->cursor);
}

/**
 * htw_levels_init() - lay levels out, for htw_wheel_attach_levels()
 * @geo: the levels' shape, which htw_geometry_error() has passed
 * @memory: htw_geometry_bytes() of memory, aligned for u64 and pointers, as an
 *	array of u64 is, or what malloc() gives
 *
 * Takes as long as there are slots. No wheel is needed, so no lock.
 */
void htw_levels_init(const struct htw_geometry *geo, void *memory)
{
	struct htw_level *level = (struct htw_level *)memory;
	struct list_head *bucket = (struct list_head *)(level + geo->levels + 1);
	/* Bitmaps are behind all buckets, from the end on. */
	unsigned long *map = (unsigned long *)(void *)((char *)memory + htw_geometry_bytes(geo));
	u64 span = 1;

	HTW_ASSERT(!htw_geometry_error(geo));
	for (unsigned int l = 0; l < geo->levels; l++) {
		struct htw_level *lev = &level[l];

		htw_level_init(lev, span);
		lev->nr_buckets = 2 * geo->slots[l];
		if (is_power_of_2(span) && is_power_of_2(lev->nr_buckets)) {
			lev->mask = lev->nr_buckets - 1;
			lev->shift = (u8)ilog2(span);
		}
		span *= geo->slots[l];

		lev->buckets = bucket;
		for (u32 i = 0; i < lev->nr_buckets; i++)
			INIT_LIST_HEAD(bucket++);
		map -= BITS_TO_LONGS(lev->nr_buckets);
		for (u32 i = 0; i < BITS_TO_LONGS(lev->nr_buckets); i++)
			map[i] = 0;
		lev->occupied = map;
	}
	htw_level_init_above(&level[geo->levels], span);
}

/**
 * htw_wheel_attach_levels() - have a wheel work as well with many nodes
 * @w: a wheel without levels
 * @geo: the levels' shape
 * @memory: what htw_levels_init() has laid out for that; the wheel's until
 *	htw_wheel_remove_levels()
 *
 * Nodes that are in the wheel are not moved by this call: those that expire
 * first are put on levels in batches, before their time.
 *
 * Return: as htw_wheel_start().
 */
bool htw_wheel_attach_levels(struct htw_wheel *w, const struct htw_geometry *geo,
			     void *memory)
{
	unsigned int slots = 0;

	HTW_ASSERT(!htw_wheel_levels(w));
	if (htw_wheel_is_sorted(w))
		htw_wheel_spread(w);
	w->level = (struct htw_level *)memory;
	w->levels = geo->levels;
	for (unsigned int l = 0; l < geo->levels; l++)
		slots += geo->slots[l];

	w->search = slots < HTW_WHEEL_FREE_SLOTS ? 0 : slots / HTW_WHEEL_UNIT_SLOTS;
	htw_wheel_reset_ends(w);
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
	u64 cascades = w->cascades;

	HTW_ASSERT(!w->pending);
	if (!htw_wheel_levels(w))
		return NULL;
	htw_wheel_init(w, w->cursor - 1);
	w->cascades = cascades;
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
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++) {
		struct htw_level *lev = &w->level[l];

		if (list >= lev->buckets &&
		    list < lev->buckets + lev->nr_buckets) {
			htw_level_clear(lev, (u32)(list - lev->buckets));
			return;
		}
	}
}

/* htw_wheel_link() for a tick that has come. */
bool htw_wheel_link_due(struct htw_wheel *w, struct htw_node *n)
{
	/*
	 * After a rewind an older one of the same tick may be among the
	 * unsorted nodes.
	 */
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
	if (!list_empty(after) && htw_sorted_first_tick(w) <= n->expires) {
		do {
			after = after->prev;
		} while (list_entry(after, struct htw_node, list)->expires > n->expires);
	}
	__htw_list_add_tail(&n->list, after->next);
	return htw_wheel_note_work(w, n->expires);
}

/* A node is the first of its bucket. Return: as htw_wheel_start(). */
static bool htw_level_note_first(struct htw_wheel *w, const struct htw_level *lev,
				 const struct htw_node *n)
{
	u64 start = htw_level_slot_start(lev, n->expires);

	return htw_wheel_note_work(w, htw_level_work_at(w, lev, start));
}

/*
 * Set the bit of a bucket that has got its first node. Return: as
 * htw_wheel_start().
 */
bool htw_level_mark_bucket(struct htw_wheel *w, struct htw_level *lev,
			   struct htw_node *n)
{
	htw_level_set(lev, (u32)(n->list.prev - lev->buckets));
	return htw_level_note_first(w, lev, n);
}

/* htw_wheel_link() for a level without a mask, and for what is no level. */
bool htw_wheel_link_slow(struct htw_wheel *w, struct htw_level *lev,
			 struct htw_node *n)
{
	if (unlikely(n->expires > HTW_LAST_TICK)) {
		__htw_list_add_tail(&n->list, &w->never);
		return false;
	}
	if (htw_wheel_is_sorted(w)) {
		if (likely(w->pending <= HTW_WHEEL_FEW))
			return htw_sorted_link(w, n);
		htw_wheel_spread(w);
		lev = w->level;
	}
	if (lev == w->level + htw_wheel_levels(w)) {
		htw_beyond_add(w, n);
		return htw_level_note_first(w, lev, n);
	}
	return htw_level_append(htw_level_bucket(lev, n->expires), n) &&
	       htw_level_mark_bucket(w, lev, n);
}

/**
 * htw_wheel_make_due() - make way for a node whose deadline came within the
 * present tick
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
	struct list_head *list, *entry, *following;

	/* There is no next tick for which nodes could wait. */
	if (now >= HTW_LAST_TICK)
		return true;
	/*
	 * Linking a node that is made due must not spread the list that is
	 * walked.
	 */
	if (htw_wheel_is_few(w)) {
		list = &w->sorted;
	} else if (!htw_wheel_levels(w)) {
		if (!list_empty(&w->unsorted) || now + 1 < w->base)
			return false;
		list = &w->beyond[htw_beyond_index(w, now + 1)];
	} else {
		if (now + 1 >= w->level[0].end)
			return false;
		list = htw_level_bucket(&w->level[0], now + 1);
	}

	list_for_each_safe(entry, following, list) {
		struct htw_node *n = list_entry(entry, struct htw_node, list);

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
						 htw_level_bucket(lev, n->expires);

		entry = entry->next;
		prefetchw(entry);
		if (htw_level_append(down, n))
			htw_level_set(lev, (u32)(down - to.buckets));
	}
	return entry;
}

/*
 * Move the bucket at the end of level @l down. Return: false if some of it is
 * left.
 */
static bool htw_level_cascade(struct htw_wheel *w, unsigned int l,
			      unsigned int *budget)
{
	struct htw_level *up = &w->level[l + 1];
	u32 index = htw_level_bucket_index(up, htw_level_slot(up, w->level[l].end));
	struct list_head *bucket = &up->buckets[index], *entry;
	unsigned int left = *budget;

	if (!HTW_WHEEL_SMALL && w->level[l].mask)
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
 * Put unsorted nodes where they belong: before @end on the last level, else in
 * a list beyond it. Return: false if the budget was too small.
 */
static bool htw_beyond_sort(struct htw_wheel *w, u64 end, unsigned int *budget)
{
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
			struct htw_level *lev = htw_wheel_last_level(w);
			struct list_head *down = htw_level_bucket(lev, n->expires);

			w->cascades++;
			if (htw_level_append(down, n))
				htw_level_set(lev, (u32)(down - lev->buckets));
		} else {
			htw_beyond_append(w, n);
		}
	}
	w->rewound = false;
	return true;
}

/*
 * Move what is in the window behind the last level down. Return: false if some
 * of it is left.
 */
static bool htw_beyond_cascade(struct htw_wheel *w, unsigned int *budget)
{
	struct htw_level *lev = htw_wheel_last_level(w);
	u64 end = lev->end + lev[1].span;

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

	if (l + 1 < htw_wheel_levels(w))
		filled = htw_level_cascade(w, l, budget);
	else
		filled = htw_beyond_cascade(w, budget);
	if (!filled) {
		/* What is half done is work at once. */
		w->quiet = 0;
		return false;
	}

	htw_level_advance_end(w, l);
	/*
	 * After a rewind levels below end before the cursor, and follow at
	 * once: a level that holds more than its two windows would take one
	 * slot for another.
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
 * To be called when htw_wheel_collect_due() has found nothing that is due.
 * htw_wheel_expire() and htw_wheel_advance() do that.
 *
 * Return: true if nothing is left to do now; false if the budget was too small,
 * then call it again with a new one, or if a node is due.
 */
bool htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget)
{
	if (w->cursor < w->settled)
		return true;
	if (!htw_wheel_levels(w) && !htw_beyond_sort(w, 0, budget))
		return false;
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++) {
		while (w->level[l].end < htw_level_end_wanted(w, l)) {
			if (!htw_wheel_cascade_to(w, l, budget))
				return false;
		}
	}
	if (htw_wheel_levels(w))
		w->settled = w->next_window;
	/* After a rewind, sorting finds nodes that are due. */
	return list_empty(&w->due);
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
	u64 to = min(first, now + 1);
	struct list_head *bucket;

	/* A tick that has come has nodes. */
	if (first <= now && first < lev->end) {
		bucket = htw_level_bucket(lev, first);
		list_splice_tail_init(bucket, &w->due);
		htw_level_clear(lev, (u32)(bucket - lev->buckets));
		htw_wheel_set_cursor(w, first + 1);
		return true;
	}

	/* None that has come does. */
	if (now < lev->end) {
		htw_wheel_set_cursor(w, now + 1);
		return true;
	}

	/*
	 * None before the end does. Skip to the first tick that may have some;
	 * unless that moves the end on, a bucket has to be moved down first.
	 */
	for (unsigned int l = 1; l <= htw_wheel_levels(w); l++)
		to = min(to, htw_wheel_upper_first_tick(w, l));
	htw_wheel_set_cursor(w, max(w->cursor, to));
	return w->cursor < lev->end || htw_wheel_cascade_to(w, 0, budget);
}

/* The same for the sorted list. Return: false if nothing is due. */
static bool htw_sorted_step(struct htw_wheel *w, u64 now)
{
	u64 first = htw_sorted_first_tick(w);
	struct list_head *entry;

	if (first > now) {
		w->cursor = now + 1;
		return false;
	}
	w->cursor = first + 1;
	list_for_each(entry, &w->sorted) {
		if (list_entry(entry, struct htw_node, list)->expires != first)
			break;
	}
	list_cut_before(&w->due, &w->sorted, entry);
	return true;
}

/* The same for the radix heap, if there are no levels. */
static bool htw_beyond_step(struct htw_wheel *w, u64 now, unsigned int *budget)
{
	u64 first;

	if (!htw_beyond_sort(w, 0, budget))
		return false;
	if (!list_empty(&w->due))
		return true;

	first = htw_beyond_first_tick(w, HTW_SHORT_LIST);
	w->cursor = min(first, now + 1);
	if (!w->used)
		w->level = &w->none[!HTW_WHEEL_FEW];
	if (first > now)
		return true;

	/* All nodes of list 0 are of one tick. */
	if (w->used & BIT_ULL(0)) {
		w->cursor++;
		htw_beyond_splice(w, 0, &w->due);
		return true;
	}
	htw_beyond_set_base(w, first);
	return htw_beyond_sort(w, 0, budget);
}

/*
 * Make the nodes of the next tick due, and advance the cursor past it, if that
 * tick has come and is found at once, and no window moves. Return: was it so?
 */
static inline bool htw_wheel_near_step(struct htw_wheel *w, u64 now)
{
	struct htw_level *lev = w->level;
	u64 first = w->next;
	u32 index = (u32)first & lev->mask;

	if (HTW_WHEEL_SMALL || !lev->mask)
		return false;
	/* Mostly that is the tick which htw_wheel_next() has found. */
	if (first < w->cursor || list_empty(&lev->buckets[index])) {
		first = htw_wheel_near_tick(w);
		index = (u32)first & lev->mask;
	}
	if (first > now || first + 1 >= w->settled)
		return false;
	list_replace_init(&lev->buckets[index], &w->due);
	__clear_bit(index, lev->occupied);
	lev->nonempty--;
	w->cursor = first + 1;
	return true;
}

/*
 * htw_wheel_collect_due() if there are more than a few nodes, and none is due
 * yet.
 */
static noinline bool htw_wheel_fill_due(struct htw_wheel *w, u64 now,
					unsigned int *budget)
{
	while (*budget && w->cursor <= now) {
		u64 window = w->next_window;

		if (htw_wheel_levels(w) ? !htw_level_step(w, now, budget) :
				!htw_beyond_step(w, now, budget))
			return false;
		/* All levels have been searched. */
		if (w->next_window != window)
			*budget -= min_t(unsigned int, *budget, w->search);
		if (!list_empty(&w->due))
			return *budget;
	}
	return false;
}

/**
 * htw_wheel_collect_due() - fill the list of due nodes
 * @w: the wheel
 * @now: the present tick; not before that of an earlier call
 * @budget: nodes that may be looked at; decremented for each one, and by a 256th
 *	of the slots of all levels, if these are 1,024 or more, where a window is
 *	entered
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
 * htw_wheel_expire() - take out the next node that is due
 * @w: the wheel
 * @now: the present tick, as for htw_wheel_collect_due()
 * @budget: nodes that may be taken out or looked at; decremented for each one, as
 *	for htw_wheel_collect_due()
 *
 * Before it finds that no node is due, it moves nodes to finer levels ahead of
 * their time, as htw_wheel_advance() does.
 *
 * Return: the node, which is on no list any more; NULL if nothing is left to do
 * before htw_wheel_next(), or the budget is used up, so that there may be.
 */
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now,
				  unsigned int *budget)
{
	struct htw_node *n;

	if (list_empty(&w->due)) {
		if (htw_wheel_pass(w, now))
			return NULL;
		while (!htw_wheel_collect_due(w, now, budget)) {
			if (!*budget)
				return NULL;
			if (htw_wheel_cascade(w, budget)) {
				htw_wheel_set_quiet(w);
				return NULL;
			}
		}
	}
	if (!*budget)
		return NULL;
	n = list_first_entry(&w->due, struct htw_node, list);
	--*budget;
	w->pending--;
	__htw_list_del(&n->list);
	htw_node_init(n);
	return n;
}

/* Append all buckets of a level to @list, in the order of their ticks. */
static void htw_level_splice(struct htw_wheel *w, unsigned int l,
			     struct list_head *list)
{
	struct htw_level *lev = &w->level[l];
	u32 from = htw_level_bucket_index(lev, htw_level_first_slot(w, l));
	u32 first = from / BITS_PER_LONG, words = BITS_TO_LONGS(lev->nr_buckets);
	unsigned long mask = ~0UL << (from % BITS_PER_LONG);

	/* Bits before @from come last, with the first word once more. */
	for (u32 i = first; i <= first + words; i++, mask = ~0UL) {
		u32 word = i % words;
		struct list_head *buckets = &lev->buckets[word * BITS_PER_LONG];
		unsigned long bits = lev->occupied[word] & mask;

		lev->occupied[word] &= ~mask;
		for (; bits; bits &= bits - 1)
			list_splice_tail_init(&buckets[__ffs(bits)], list);
	}
	lev->nonempty = 0;
}

/**
 * htw_wheel_rewind() - restart at an earlier tick, after the clock was set back
 * @w: the wheel
 * @now: the present tick
 *
 * All nodes become unsorted, list by list, in time proportional to the number
 * of slots; htw_wheel_advance(), or htw_wheel_expire() and htw_wheel_cascade(),
 * then put them back within their budgets. Until that is done none of them
 * expires, and nodes that are started join the end of the list, so order is
 * kept. Nodes that were due may have to wait again. &htw_wheel.next becomes
 * zero: the caller has work to do at once. Nothing is done if the wheel was not
 * advanced beyond @now. Not to be called by a function that htw_wheel_advance()
 * calls, as that goes on with the later tick.
 */
void htw_wheel_rewind(struct htw_wheel *w, u64 now)
{
	struct list_head *entry, *following;
	LIST_HEAD(all);

	if (now >= w->cursor - 1)
		return;

	w->next = 0;
	w->quiet = 0;
	list_splice_init(&w->due, &all);
	if (htw_wheel_is_few(w)) {
		w->cursor = now + 1;
		list_for_each_safe(entry, following, &all)
			htw_wheel_link(w, list_entry(entry, struct htw_node, list));
		return;
	}

	for (unsigned int l = 0; l < htw_wheel_levels(w); l++)
		htw_level_splice(w, l, &all);
	htw_beyond_splice(w, HTW_WHEEL_LISTS - 1, &all);
	list_splice(&all, &w->unsorted);
	w->rewound = !list_empty(&w->unsorted);
	w->cursor = now + 1;
	w->base = w->cursor;
	if (htw_wheel_levels(w))
		htw_wheel_reset_ends(w);
}
