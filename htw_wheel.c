// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Hierarchical timing wheel: scheme 7 of G. Varghese, T. Lauck, "Hashed and
 * Hierarchical Timing Wheels", SOSP 1987
 *
 * A level is a ring of buckets. A slot of level l spans all slots of level
 * l - 1, so a timer far away sits in a coarse bucket and is moved down, level
 * by level, as its time comes nearer. It expires from level 0 only, where a
 * bucket is exactly one tick: no coarseness ever shows in an expiry.
 *
 *	256,64,64,64,64 at 1 ms	 slot		two windows
 *	level 0			 1 ms		512 ms
 *	level 1			 256 ms		33 s
 *	level 2			 16 s		35 min
 *	level 3			 17 min		37 h
 *	level 4			 19 h		99 d
 *
 * Windows
 * -------
 * A window of level l is what one slot of level l + 1 spans. The ring of a
 * level has room for two of them: the one that holds the cursor, and the next.
 * level[l].end is where the ticks of level l end and those of level l + 1
 * begin, so a tick belongs to the first level whose end lies beyond it:
 *
 *	cursor <= level 0 < end[0] <= level 1 < end[1] <= level 2 ...
 *
 * When the cursor enters a window, the bucket above that holds the window
 * after it is moved down ("cascade"). There is a whole window of time for
 * that, so it can be done some nodes at a time, behind whatever is due. Only
 * when that bucket is empty does end[l] move past it. Until then timers that
 * are started join the bucket's tail and are moved in their turn. So nodes of
 * one tick are always in the order in which they were started, on whatever
 * level each of them was: a list is only ever appended to and taken from the
 * front, and no two lists hold the same tick except while one is moved into
 * the other.
 *
 * Ticks beyond the last level wait in one list, the bucket of the level above
 * the last one. It is looked through when the window of the last level moves
 * on, and not even then while all of it is known to be further away (@overflow_min).
 *
 * Cost
 * ----
 * Start and stop are O(1) (at most one comparison a level). A node is moved at
 * most levels - 1 times within range. Empty ticks and empty windows cost
 * nothing: the bitmaps tell the next tick with work in O(levels), and the
 * cursor jumps there.
 *
 * Ticks up to 2^63 can be advanced to; a node may expire at any u64.
 */

#ifdef __KERNEL__
#include <linux/bitmap.h>
#include <linux/bug.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prefetch.h>
#include <linux/slab.h>
#endif

#include "htw_wheel.h"

/* Two windows of the last level, on top of 2^63 ticks, must fit a u64. */
#define HTW_MAX_SPAN		BIT_ULL(61)

/**
 * htw_geometry_check() - is this a shape that a wheel can have?
 * @geo: the shape
 * @why: out: what is wrong with it, for people
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

/* Which slot of its level @tick falls into, counted from tick 0. */
static u64 htw_slot(const struct htw_wheel *w, const struct htw_level *lev, u64 tick)
{
	return w->pow2 ? tick >> lev->shift : div64_u64(tick, lev->span);
}

/* Where in the level's ring that slot is. */
static u32 htw_ring_index(const struct htw_wheel *w, const struct htw_level *lev, u64 slot)
{
	u32 index;

	if (w->pow2)
		return slot & (lev->ring - 1);
	div_u64_rem(slot, lev->ring, &index);
	return index;
}

/* The bucket of a tick that the level holds. */
static struct list_head *htw_level_bucket(const struct htw_wheel *w, const struct htw_level *lev,
					  u64 tick)
{
	return &lev->buckets[htw_ring_index(w, lev, htw_slot(w, lev, tick))];
}

static u64 htw_slot_start(const struct htw_wheel *w, const struct htw_level *lev, u64 tick)
{
	return htw_slot(w, lev, tick) * lev->span;
}

/*
 * First tick of the first bucket of level @l that holds a node. What level l
 * holds starts where the level below ends.
 */
static u64 htw_level_first(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *lev = &w->level[l];
	u32 from, index;
	u64 slot;

	if (!lev->used)
		return HTW_NEVER;
	slot = htw_slot(w, lev, l ? lev[-1].end : w->cursor);
	from = htw_ring_index(w, lev, slot);
	index = find_next_bit(lev->occupied, lev->ring, from);
	if (index < lev->ring)
		return (slot + index - from) * lev->span;
	index = find_first_bit(lev->occupied, lev->ring);
	return (slot + lev->ring + index - from) * lev->span;
}

/* The same for level[levels], whose only bucket has no place in time. */
static u64 htw_overflow_first(const struct htw_wheel *w)
{
	const struct htw_level *overflow = &w->level[w->levels];

	if (!list_empty(&w->overflow_scan))
		return overflow[-1].end;
	if (list_empty(&w->overflow) || w->overflow_min == HTW_NEVER)
		return HTW_NEVER;
	return htw_slot_start(w, overflow, w->overflow_min);
}

static u64 htw_upper_first(const struct htw_wheel *w, unsigned int l)
{
	return l < w->levels ? htw_level_first(w, l) : htw_overflow_first(w);
}

/* Where level @l should end: after the window that follows the cursor's. */
static u64 htw_level_end_wanted(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *up = &w->level[l + 1];

	return (htw_slot(w, up, w->cursor) + 2) * up->span;
}

static void htw_level_set_end(struct htw_level *lev, u64 end)
{
	lev->end = end;
	/*
	 * While a wheel that was set back to its first ticks looks through its nodes,
	 * levels end at tick 0. No tick must belong there; 0 itself has come.
	 */
	lev->last = max(end, 1ULL) - 1;
}

/* Moves the end of level @l on, as far as no node above has to come down first. */
static void htw_level_advance_end(struct htw_wheel *w, unsigned int l)
{
	u64 end = min(htw_level_end_wanted(w, l), htw_upper_first(w, l + 1));

	htw_level_set_end(&w->level[l], min(end, w->level[l + 1].end));
}

/* The cursor has entered another window of level 0, and maybe of others. */
static void htw_wheel_advance_ends(struct htw_wheel *w)
{
	for (unsigned int l = w->levels; l-- > 0;)
		htw_level_advance_end(w, l);
	w->next_window = htw_slot_start(w, &w->level[1], w->cursor) + w->level[1].span;
}

/* Move the cursor on to a tick before which nothing is due. */
static void htw_wheel_set_cursor(struct htw_wheel *w, u64 cursor)
{
	w->cursor = cursor;
	if (cursor >= w->next_window)
		htw_wheel_advance_ends(w);
}

/**
 * htw_wheel_touch() - bring an idle wheel up to the present, before a start
 * @w: the wheel
 * @now: the present tick
 *
 * Nothing is due before &htw_wheel.next, so the cursor can jump there.
 */
void htw_wheel_touch(struct htw_wheel *w, u64 now)
{
	const u64 idle = min(now + 1, w->next);

	if (idle > w->cursor)
		htw_wheel_set_cursor(w, idle);
}

/*
 * Allocate the buckets of all levels in one piece, and their bitmaps behind them.
 *
 * Return: false if there is no memory.
 */
static bool htw_wheel_alloc_buckets(struct htw_wheel *w, gfp_t gfp, int node)
{
	struct list_head *buckets;
	size_t rings = 0, longs = 0;
	unsigned long *map;

	for (unsigned int l = 0; l < w->levels; l++) {
		rings += w->level[l].ring;
		longs += BITS_TO_LONGS(w->level[l].ring);
	}
	buckets = kvmalloc_node(rings * sizeof(*buckets) + longs * sizeof(*map), gfp, node);
	if (!buckets)
		return false;
	map = (unsigned long *)(buckets + rings);
	memset(map, 0, longs * sizeof(*map));
	for (size_t i = 0; i < rings; i++)
		INIT_LIST_HEAD(&buckets[i]);
	for (unsigned int l = 0; l < w->levels; l++) {
		w->level[l].buckets = buckets;
		w->level[l].occupied = map;
		buckets += w->level[l].ring;
		map += BITS_TO_LONGS(w->level[l].ring);
	}
	return true;
}

/**
 * htw_wheel_init() - initialize an empty wheel and allocate its buckets
 * @w: the wheel
 * @geo: its shape, which htw_geometry_check() has passed
 * @now: the tick to begin at: it and all before it have come
 * @gfp: flags of the allocation
 * @node: the NUMA node, or NUMA_NO_NODE
 *
 * Context: may sleep if @gfp may.
 * Return: 0, and htw_wheel_destroy() frees the buckets; or -ENOMEM.
 */
int htw_wheel_init(struct htw_wheel *w, const struct htw_geometry *geo, u64 now, gfp_t gfp,
		   int node)
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
		lev->ring = 2 * geo->slots[l];
		w->pow2 &= is_power_of_2(geo->slots[l]);
		span *= geo->slots[l];
	}
	for (unsigned int l = 0; l < geo->levels && w->pow2; l++)
		w->level[l].mask = w->level[l].ring - 1;
	w->level[w->levels] = (struct htw_level) {
		.buckets = &w->overflow,
		.span = span,
		.shift = ilog2(span),
		.ring = 1,
		.last = HTW_NEVER,
		.end = HTW_NEVER,
	};
	if (!htw_wheel_alloc_buckets(w, gfp, node))
		return -ENOMEM;
	htw_wheel_set_cursor(w, now + 1);
	return 0;
}

/**
 * htw_wheel_destroy() - free the buckets of a wheel
 * @w: the wheel, which holds no node any more
 */
void htw_wheel_destroy(struct htw_wheel *w)
{
	WARN_ON(w->pending);
	kvfree(w->level[0].buckets);	/* those of all levels */
}

static void htw_level_set(struct htw_level *lev, u32 index)
{
	if (!__test_and_set_bit(index, lev->occupied))
		lev->used++;
}

static void htw_level_clear(struct htw_level *lev, u32 index)
{
	if (__test_and_clear_bit(index, lev->occupied))
		lev->used--;
}

/* Makes all of a bucket part of @list. */
static void htw_level_take(struct htw_level *lev, u32 index, struct list_head *list)
{
	list_splice_tail_init(&lev->buckets[index], list);
	htw_level_clear(lev, index);
}

/**
 * htw_level_emptied() - a list has lost its last node
 * @w: the wheel
 * @list: the list's head: a bucket, or another list of the wheel
 */
void htw_level_emptied(struct htw_wheel *w, const struct list_head *list)
{
	for (unsigned int l = 0; l < w->levels; l++) {
		struct htw_level *lev = &w->level[l];

		if (list >= lev->buckets && list < lev->buckets + lev->ring) {
			htw_level_clear(lev, list - lev->buckets);
			return;
		}
	}
}

/*
 * Links a node into the list beyond the last level: behind those that are
 * being looked at, so that it is not overtaken by an older one of its tick.
 */
static void htw_overflow_add(struct htw_wheel *w, struct htw_node *n)
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
 * When a bucket of level @l that starts at tick @first makes work: on level 0
 * then, above it a window ahead, when it is to be moved down.
 */
static u64 htw_work_at(const struct htw_wheel *w, unsigned int l, u64 first)
{
	if (!l || first == HTW_NEVER)
		return first;
	return first - min(first, w->level[l].span);
}

/**
 * htw_wheel_is_ahead() - would a node make work before &htw_wheel.next?
 * @w: the wheel
 * @expires: the node's tick
 *
 * Return: false if starting it leaves &htw_wheel.next as it is.
 */
bool htw_wheel_is_ahead(struct htw_wheel *w, u64 expires)
{
	const struct htw_level *lev = htw_wheel_level(w, expires);

	return htw_work_at(w, lev - w->level, htw_slot_start(w, lev, expires)) < w->next;
}

/**
 * htw_wheel_coalesce() - chooses a tick that a node can share with others
 * @w: the wheel
 * @first: the earliest tick that will do
 * @last: the latest one
 *
 * A tick at which some node expires anyway, as far as level 0 reaches; else the
 * roundest number there is, which others are likely to choose as well (as
 * apply_slack() of kernel/time/timer.c did).
 *
 * Return: a tick from @first to @last; @first if @last is not behind it.
 */
u64 htw_wheel_coalesce(const struct htw_wheel *w, u64 first, u64 last)
{
	const struct htw_level *lev = &w->level[0];
	u64 reach;

	if (last <= first)
		return first;
	/* A level 0 bucket is a tick, and the ring from the cursor on is in order. */
	for (reach = max(first, w->cursor); reach < min(last + 1, lev->end);) {
		u32 from = htw_ring_index(w, lev, reach);
		u32 index = find_next_bit(lev->occupied, lev->ring, from);

		reach += index - from;
		if (index < lev->ring && reach <= last)
			return reach;
	}
	return last & ~(BIT_ULL(fls64(first ^ last) - 1) - 1);
}

/* There is work at a tick, maybe ahead of what the owner knows of. */
static bool htw_wheel_work(struct htw_wheel *w, u64 work)
{
	if (work >= w->next)
		return false;
	w->next = work;
	return true;
}

/**
 * htw_wheel_link_due() - htw_wheel_link() for a tick that has come
 * @w: the wheel
 * @n: the node
 *
 * Return: as htw_wheel_start().
 */
bool htw_wheel_link_due(struct htw_wheel *w, struct htw_node *n)
{
	__htw_list_add_tail(&n->list, &w->due);
	return htw_wheel_work(w, n->expires);
}

/**
 * htw_wheel_at_cursor() - the nodes of the tick that comes next
 * @w: the wheel
 *
 * Return: their bucket; NULL where some may be elsewhere.
 */
struct list_head *htw_wheel_at_cursor(struct htw_wheel *w)
{
	struct htw_level *lev = &w->level[0];

	if (w->cursor >= lev->end)
		return NULL;
	return htw_level_bucket(w, lev, w->cursor);
}

/**
 * htw_wheel_make_due() - makes a node due before its tick
 * @w: the wheel
 * @n: the node, which is in it
 *
 * Return: as htw_wheel_start().
 */
bool htw_wheel_make_due(struct htw_wheel *w, struct htw_node *n)
{
	htw_wheel_unlink(w, n);
	__htw_list_add_tail(&n->list, &w->due);
	return htw_wheel_work(w, w->cursor - 1);
}

/**
 * htw_wheel_link_slow() - htw_wheel_link() without shifts and masks
 * @w: the wheel
 * @lev: the level where the node belongs
 * @n: the node
 *
 * Return: as htw_wheel_start().
 */
bool htw_wheel_link_slow(struct htw_wheel *w, struct htw_level *lev, struct htw_node *n)
{
	const unsigned int l = lev - w->level;

	if (l == w->levels) {
		htw_overflow_add(w, n);
		return htw_wheel_work(w, htw_work_at(w, l, htw_overflow_first(w)));
	}
	return htw_bucket_append(htw_level_bucket(w, lev, n->expires), n) &&
	       htw_level_mark_bucket(w, lev, n);
}

/**
 * htw_level_mark_bucket() - a bucket has got its first node
 * @w: the wheel
 * @lev: the bucket's level
 * @n: the node
 *
 * Return: as htw_wheel_start().
 */
bool htw_level_mark_bucket(struct htw_wheel *w, struct htw_level *lev, struct htw_node *n)
{
	htw_level_set(lev, n->list.prev - lev->buckets);
	return htw_wheel_work(w, htw_work_at(w, lev - w->level,
					     htw_slot_start(w, lev, n->expires)));
}

/*
 * Moves nodes of a bucket down to level @l until no more are @left to be moved;
 * @masks: it has shifts and masks.
 *
 * Return: the bucket's first node that stays, or its head.
 */
static __always_inline struct list_head *
htw_bucket_cascade(struct htw_wheel *w, unsigned int l, struct list_head *bucket,
		   unsigned int *left, bool masks)
{
	struct htw_level *lev = &w->level[l];
	const struct htw_level to = *lev;	/* what the loop reads stays in registers */
	struct list_head *entry = bucket->next;

	for (; entry != bucket && *left; --*left) {
		struct htw_node *n = list_entry(entry, struct htw_node, list);
		struct list_head *down = masks ? &to.buckets[(n->expires >> to.shift) & to.mask] :
						 htw_level_bucket(w, lev, n->expires);

		entry = entry->next;
		prefetchw(entry);
		if (unlikely(htw_bucket_append(down, n)))
			htw_level_set(lev, down - to.buckets);
	}
	return entry;
}

/* Moves the bucket of level @l + 1 at the end of level @l down. */
static bool htw_level_cascade(struct htw_wheel *w, unsigned int l, unsigned int *budget)
{
	struct htw_level *up = &w->level[l + 1];
	const u32 index = htw_ring_index(w, up, htw_slot(w, up, w->level[l].end));
	struct list_head *bucket = &up->buckets[index], *entry;
	unsigned int left = *budget;

	if (likely(w->level[l].mask))
		entry = htw_bucket_cascade(w, l, bucket, &left, true);
	else
		entry = htw_bucket_cascade(w, l, bucket, &left, false);
	/* Those that were moved are cut off the front of the bucket all together. */
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
 * Looks at what lies beyond the last level: what belongs to the level's next
 * window moves down, the rest goes back. A look can be broken off; then those
 * not seen yet are on @overflow_scan.
 */
static bool htw_overflow_cascade(struct htw_wheel *w, unsigned int *budget)
{
	struct htw_level *lev = &w->level[w->levels - 1];
	const u64 end = lev->end + w->level[w->levels].span;
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
			if (htw_bucket_append(down, n))
				htw_level_set(lev, down - lev->buckets);
		} else {
			list_move_tail(&n->list, &w->overflow);
			w->overflow_min = min(w->overflow_min, n->expires);
		}
	}
	return true;
}

/*
 * Level @l has to go on and a bucket above has to come down for it. Where the
 * level above ends at the same tick, that level has to go on first.
 *
 * Return: false when the budget is used up; true when some level's end has
 * moved on.
 */
static bool htw_wheel_cascade_to(struct htw_wheel *w, unsigned int l, unsigned int *budget)
{
	bool filled;

	while (w->level[l].end == w->level[l + 1].end)
		l++;
	if (l + 1 < w->levels)
		filled = htw_level_cascade(w, l, budget);
	else
		filled = htw_overflow_cascade(w, budget);
	if (filled)
		htw_level_advance_end(w, l);
	return filled;
}

/**
 * htw_wheel_cascade() - moves nodes down that will be needed there in time
 * @w: the wheel
 * @budget: how many nodes may be looked at; what was used is taken off
 *
 * To be called when htw_wheel_expire() has nothing that is due.
 *
 * Return: true when all is done for now, false when the budget is used up.
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

/* First tick, up to and with @limit, at which any level above 0 has a bucket. */
static u64 htw_wheel_first_above(const struct htw_wheel *w, u64 limit)
{
	for (unsigned int l = 1; l <= w->levels; l++)
		limit = min(limit, htw_upper_first(w, l));
	return limit;
}

/*
 * Moves the cursor on to the next tick that has nodes, at most past @now, and
 * makes those due.
 *
 * Return: false when the budget is used up.
 */
static bool htw_wheel_step(struct htw_wheel *w, u64 now, unsigned int *budget)
{
	struct htw_level *lev = &w->level[0];
	u64 first = htw_level_first(w, 0);
	u32 index;
	u64 to;

	/*
	 * What has come down of a bucket that is not empty yet lies past the
	 * level's end: what is still above may be earlier, so it has to wait.
	 */
	if (first <= now && first < lev->end) {
		index = htw_ring_index(w, lev, first);
		htw_level_take(lev, index, &w->due);
		htw_wheel_set_cursor(w, first + 1);
		return true;
	}
	if (now < lev->end) {
		htw_wheel_set_cursor(w, now + 1);
		return true;
	}
	/*
	 * All of level 0 has passed, and is empty but for what came down of a
	 * bucket that is half moved, or whose rest was stopped: on to that, or
	 * to what is above.
	 */
	to = min(first, htw_wheel_first_above(w, now + 1));
	htw_wheel_set_cursor(w, max(w->cursor, to));
	return w->cursor < lev->end || htw_wheel_cascade_to(w, 0, budget);
}

static inline bool __htw_wheel_collect_due(struct htw_wheel *w, u64 now, unsigned int *budget)
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
 * htw_wheel_collect_due() - PER_TICK_BOOKKEEPING: fill the list of due nodes
 * @w: the wheel
 * @now: the present tick; not before that of any earlier call
 * @budget: how many nodes may be looked at; what was used is taken off
 *
 * The owner takes nodes off the front of &htw_wheel.due, and their number off
 * &htw_wheel.pending. They are in the order of their ticks, those of one tick in the order in
 * which they were started. None is there before its tick.
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
 * @budget: how many nodes may be taken out or looked at; what was used is taken off
 *
 * Return: the node, whose &htw_node.list is no longer the wheel's; NULL when
 * none is due or the budget is used up.
 */
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now, unsigned int *budget)
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
 * Work is a node to expire, or a bucket to move down. The owner stores the
 * answer in &htw_wheel.next once it has programmed its timer.
 *
 * Return: the tick, which has come already where something is left to do now;
 * %HTW_NEVER where there will never be work.
 */
u64 htw_wheel_next(const struct htw_wheel *w)
{
	u64 next;

	if (!list_empty(&w->due))
		return w->cursor - 1;
	next = htw_level_first(w, 0);
	for (unsigned int l = 1; l <= w->levels; l++)
		next = min(next, htw_work_at(w, l, htw_upper_first(w, l)));
	return next;
}

/* The first of a list's nodes and @first to expire; false where @most are too few to tell. */
static bool htw_list_earliest(const struct list_head *list, unsigned int *most,
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
 * htw_wheel_first() - which node is the next to expire?
 * @w: the wheel
 * @most: how many nodes may be looked at
 * @first: out: the node, which stays where it is; NULL where there is none
 *
 * Return: false where the nodes that would have to be looked at are more.
 */
bool htw_wheel_first(struct htw_wheel *w, unsigned int most, struct htw_node **first)
{
	*first = list_first_entry_or_null(&w->due, struct htw_node, list);
	if (*first)
		return true;
	/* A level's first bucket may be half moved down, so levels overlap. */
	for (unsigned int l = 0; l < w->levels; l++) {
		const struct htw_level *lev = &w->level[l];
		const u64 tick = htw_level_first(w, l);
		struct list_head *bucket;

		if (tick == HTW_NEVER || (*first && (*first)->expires < tick))
			continue;
		bucket = htw_level_bucket(w, lev, tick);
		if (!l)
			*first = list_first_entry(bucket, struct htw_node, list);
		else if (!htw_list_earliest(bucket, &most, first))
			return false;
	}
	if (*first && (*first)->expires < htw_overflow_first(w))
		return true;
	return htw_list_earliest(&w->overflow_scan, &most, first) &&
	       htw_list_earliest(&w->overflow, &most, first);
}

/**
 * htw_wheel_evict() - takes out any node, as when a CPU goes away
 * @w: the wheel
 *
 * Nodes of one tick come in the order in which they were started.
 *
 * Return: the node, or NULL when the wheel is empty.
 */
struct htw_node *htw_wheel_evict(struct htw_wheel *w)
{
	struct list_head *from = NULL;
	struct htw_node *n;

	if (!list_empty(&w->due))
		from = &w->due;
	for (unsigned int l = 0; l < w->levels && !from; l++) {
		u64 first = htw_level_first(w, l);
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

/* Appends all of a level's buckets, in the order of their ticks, to @list. */
static void htw_level_splice(struct htw_wheel *w, unsigned int l, struct list_head *list)
{
	struct htw_level *lev = &w->level[l];
	u64 first;

	while ((first = htw_level_first(w, l)) != HTW_NEVER) {
		u32 index = htw_ring_index(w, lev, htw_slot(w, lev, first));

		htw_level_take(lev, index, list);
	}
}

/**
 * htw_wheel_rewind() - begins again at an earlier tick: the clock was set back
 * @w: the wheel
 * @now: the present tick; it and all before it have come
 *
 * Everything becomes a list to be looked at, as if it came from beyond the last
 * level: that takes a splice a bucket, and the rest is done within the budgets
 * of htw_wheel_expire() and htw_wheel_cascade(). Until it is done nothing
 * expires, and what is started joins the list's tail, so order is kept.
 * Nodes that were due may have to wait again. &htw_wheel.next is then zero: the owner
 * has to come back at once.
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
		htw_level_set_end(&w->level[l], htw_slot_start(w, overflow, w->cursor));
	w->next_window = 0;
	w->next = 0;
	htw_wheel_set_cursor(w, w->cursor);
}
