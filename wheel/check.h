/* SPDX-License-Identifier: MIT */
/*
 * Does a wheel hold together? For tests.
 *
 * wheel/amalgamate makes htw_wheel_check.h of it, beside the two files.
 */
#ifndef _HTW_WHEEL_CHECK_H
#define _HTW_WHEEL_CHECK_H

#include "more.h"

/**
 * struct htw_check - what a check has found so far
 * @w: the wheel
 * @error: what is wrong, or NULL
 * @left: nodes that are still to be found
 * @first: the earliest tick at which a node is to expire
 */
struct htw_check {
	const struct htw_wheel *w;
	const char *error;
	u64 left;
	u64 first;
};

static inline void htw_check_that(struct htw_check *c, bool condition, const char *error)
{
	if (!condition && !c->error)
		c->error = error;
}

static inline u64 htw_check_tick(const struct list_head *at)
{
	return container_of(at, struct htw_node, list)->expires;
}

/*
 * Look at a list, of ticks from @from to @last. Ends in any case: after as many
 * nodes as the wheel has.
 */
static inline void htw_check_list(struct htw_check *c, const struct list_head *list,
				  u64 from, u64 last)
{
	const struct list_head *at = list;

	do {
		const struct list_head *next = at->next;
		u64 tick;

		if (!next || next->prev != at) {
			htw_check_that(c, false, "a list is broken");
			return;
		}
		at = next;
		if (at == list)
			return;
		tick = htw_check_tick(at);
		htw_check_that(c, tick >= from && tick <= last, "a node is in the wrong list");
		if (tick < c->w->cursor)
			tick = c->w->cursor - 1;
		if (tick < c->first)
			c->first = tick;
	} while (c->left--);
	htw_check_that(c, false, "there are more nodes than are counted");
	c->left = 0;
}

static inline bool htw_check_is_empty(const struct list_head *list)
{
	return list->next == list;
}

/* Look at the slots of a bucket's nodes. */
static inline void htw_check_bucket(struct htw_check *c, const struct htw_level *lev, u32 i)
{
	const struct list_head *bucket = &lev->buckets[i], *at;

	for (at = bucket->next; at != bucket && !c->error; at = at->next) {
		u64 slot = div64_u64(htw_check_tick(at), lev->span);
		u64 turns = div64_u64(slot, lev->nr_buckets);

		htw_check_that(c, slot - turns * lev->nr_buckets == i,
			       "a node is in the wrong bucket");
	}
}

static inline void htw_check_level(struct htw_check *c, unsigned int l)
{
	const struct htw_level *lev = &c->w->level[l];
	/* Nodes on it are not for a tick that a level below holds, nor one that has come. */
	u64 from = l && lev[-1].end > c->w->cursor ? lev[-1].end : c->w->cursor;
	u32 used = 0;

	htw_check_that(c, !l || lev[-1].end <= lev->end, "a level ends before the one below");
	for (u32 i = 0; i < lev->nr_buckets; i++) {
		const struct list_head *bucket = &lev->buckets[i];
		const unsigned int bits = 8 * sizeof(*lev->occupied);
		bool marked = lev->occupied[i / bits] >> (i % bits) & 1;

		htw_check_list(c, bucket, from, HTW_LAST_TICK);
		htw_check_that(c, marked == !htw_check_is_empty(bucket),
			       "the bit of a bucket does not say whether it is empty");
		used += marked;
		htw_check_bucket(c, lev, i);
	}
	htw_check_that(c, used == lev->nonempty, "a level's count of buckets is wrong");
}

/* The list of &htw_wheel.beyond for a tick: digits up to the last one that differs from @base. */
static inline unsigned int htw_check_digits(u64 tick, u64 base)
{
	u64 differs = tick ^ base;
	unsigned int digits = 0;

	for (; differs; differs >>= HTW_DIGIT_BITS)
		digits++;
	return digits;
}

static inline void htw_check_beyond(struct htw_check *c)
{
	const struct htw_wheel *w = c->w;
	const unsigned int levels = htw_wheel_levels(w);
	const u64 end = levels ? w->level[levels - 1].end : w->cursor;
	const u64 from = w->base > end ? w->base : end;

	for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++) {
		const struct list_head *list = &w->beyond[i], *at;

		htw_check_list(c, list, from, HTW_LAST_TICK);
		htw_check_that(c, (w->used >> i & 1) == !htw_check_is_empty(list),
			       "the bit of a list does not say whether it is empty");
		for (at = list->next; at != list && !c->error; at = at->next)
			htw_check_that(c, htw_check_digits(htw_check_tick(at), w->base) == i,
				       "a node is in the wrong list beyond the levels");
	}
}

static inline void htw_check_sorted(struct htw_check *c)
{
	const struct list_head *list = &c->w->sorted, *at;
	u64 last = c->w->cursor;

	htw_check_list(c, list, c->w->cursor, HTW_LAST_TICK);
	htw_check_that(c, htw_check_is_empty(list) || c->w->level == c->w->none,
		       "there is a sorted list beside others");
	for (at = list->next; at != list && !c->error; at = at->next) {
		htw_check_that(c, htw_check_tick(at) >= last, "the sorted list is not sorted");
		last = htw_check_tick(at);
	}
}

/**
 * htw_wheel_check() - does a wheel hold together?
 * @w: the wheel, between two calls on it
 *
 * Looks at all nodes and slots, and follows no list further than there are
 * nodes. So it finds memory of a node that was freed or zeroed while it was
 * pending, a tick that was written by others, calls that were not serialized:
 * where these have left traces, and nothing if they have not.
 *
 * Return: NULL if it does, else what is wrong as text.
 */
static inline const char *htw_wheel_check(const struct htw_wheel *w)
{
	struct htw_check c = { w, NULL, w->pending, HTW_NEVER };

	htw_check_that(&c, w->cursor && w->cursor <= HTW_LAST_TICK + 1, "there is no such present");
	if (c.error)
		return c.error;
	htw_check_list(&c, &w->due, 0, w->cursor - 1);
	htw_check_list(&c, &w->unsorted, 0, HTW_LAST_TICK);
	htw_check_sorted(&c);
	htw_check_beyond(&c);
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++)
		htw_check_level(&c, l);

	htw_check_that(&c, w->next <= c.first, "a node expires before the next tick with work");
	htw_check_that(&c, w->quiet <= c.first, "a node expires while the wheel is quiet");
	htw_check_list(&c, &w->never, HTW_LAST_TICK + 1, HTW_NEVER);
	htw_check_that(&c, !c.left, "there are fewer nodes than are counted");
	return c.error;
}

#endif /* _HTW_WHEEL_CHECK_H */
