// SPDX-License-Identifier: MIT
/*
 * More of the wheel: what programs call, and the kernel module does not
 *
 * wheel/amalgamate puts it into the two files for programs, behind htw_wheel.c.
 */

#include <linux/bitops.h>
#include <linux/math64.h>

#include "more.h"

/**
 * htw_wheel_add_levels() - have a wheel work as well with many nodes
 * @w: a wheel without levels
 * @geo: the levels' shape
 * @memory: as for htw_levels_init(); the wheel's until
 *	htw_wheel_remove_levels()
 * @bytes: the size of @memory, at least htw_geometry_bytes()
 *
 * It is htw_levels_init() and htw_wheel_attach_levels(). There may be work
 * before the tick that htw_wheel_next() has returned last.
 *
 * Return: true if the wheel has the levels; false, and nothing is changed, if
 * htw_geometry_error() has an error for the shape, or the memory is too small or
 * NULL.
 */
bool htw_wheel_add_levels(struct htw_wheel *w, const struct htw_geometry *geo,
			  void *memory, size_t bytes)
{
	if (!memory || htw_geometry_error(geo) || bytes < htw_geometry_bytes(geo))
		return false;
	htw_levels_init(geo, memory);
	htw_wheel_attach_levels(w, geo, memory);
	return true;
}

/* htw_wheel_advance() if there may be work. */
static noinline bool htw_wheel_work(struct htw_wheel *w, u64 now,
				    unsigned int *budget,
				    htw_node_fn_t *expired, void *arg)
{
	const unsigned int given = *budget;
	struct htw_node *n;

	do {
		while (htw_wheel_collect_due(w, now, budget)) {
			do {
				n = list_first_entry(&w->due, struct htw_node, list);
				--*budget;
				w->pending--;
				__htw_list_del(&n->list);
				htw_node_init(n);
				expired(n, arg);
			} while (*budget && !list_empty(&w->due));
			if (w->cursor > now)
				break;
		}
		if (!*budget)
			return false;
		/* Mostly there is nothing to move down. */
		if (w->level == w->none || w->cursor < w->settled ||
		    htw_wheel_cascade(w, budget)) {
			if (*budget == given)
				htw_wheel_set_quiet(w);
			return true;
		}
	} while (!list_empty(&w->due));
	return false;
}

/**
 * htw_wheel_advance() - expire what is due, then move nodes to finer levels
 * @w: the wheel
 * @now: the present tick; a later one than %HTW_LAST_TICK counts as that
 * @budget: nodes that may be expired or looked at; decremented for each one, and
 *	where a window of levels with many slots is entered
 * @expired: called for each node that has expired, which is in no wheel any
 *	more
 * @arg: for @expired
 *
 * Ticks go forward: with an earlier one than in a call before, only what is due
 * already expires. htw_wheel_rewind() is for a clock that was set back.
 *
 * @expired may start, stop and free any node, the one that it is called for
 * included, and may call htw_wheel_next(), and this function. It must not
 * rewind the wheel, nor end its life. What it starts for a tick that has come
 * is expired by the same call, within the budget.
 *
 * Return: true if nothing is left to do before htw_wheel_next(), with any budget
 * if there was nothing to do; false if the budget is used up, so that there may
 * be more to do, with a new one. It need not be looked at: htw_wheel_next() is a
 * tick that has come as long as there is work.
 */
bool htw_wheel_advance(struct htw_wheel *w, u64 now, unsigned int *budget,
		       htw_node_fn_t *expired, void *arg)
{
	return htw_wheel_pass(w, now) || htw_wheel_work(w, now, budget, expired, arg);
}

/* The bucket of a tick that the level holds. */
static struct list_head *htw_level_bucket_of(const struct htw_level *lev, u64 tick)
{
	u32 index;

	div_u64_rem(div64_u64(tick, lev->span), lev->nr_buckets, &index);
	return &lev->buckets[index];
}

/*
 * Set @first to a list's earliest node if that is earlier; false if it has more
 * than @most. Unsorted nodes whose tick has come expire in the order of the
 * list.
 */
static bool htw_wheel_earliest(const struct htw_wheel *w,
			       const struct list_head *list, unsigned int *most,
			       struct htw_node **first)
{
	const struct list_head *entry;

	list_for_each(entry, list) {
		struct htw_node *n = list_entry(entry, struct htw_node, list);
		u64 tick;

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
 * @first: out: the node, which stays in the wheel, or NULL if none in it
 *	expires
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
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++) {
		const struct htw_level *lev = &w->level[l];
		u64 tick = htw_level_first_tick(w, l);
		struct list_head *bucket;

		if (tick == HTW_NEVER || (*first && (*first)->expires < tick))
			continue;

		bucket = htw_level_bucket_of(lev, tick);
		if (!l)
			*first = list_first_entry(bucket, struct htw_node, list);
		else if (!htw_wheel_earliest(w, bucket, &most, first))
			return false;
	}

	if (*first && (*first)->expires < htw_beyond_first_tick(w, 0))
		return true;
	/* Of one tick, unsorted nodes were started last. */
	if (w->used &&
	    !htw_wheel_earliest(w, &w->beyond[__ffs64(w->used)], &most, first))
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
	for (unsigned int l = 0; l < htw_wheel_levels(w) && !from; l++) {
		const struct htw_level *lev = &w->level[l];
		u64 first = htw_level_first_tick(w, l);

		if (first != HTW_NEVER)
			from = htw_level_bucket_of(lev, first);
	}
	if (!from && w->used)
		from = &w->beyond[__ffs64(w->used)];
	else if (!from)
		from = list_empty(&w->unsorted) ? &w->never : &w->unsorted;

	n = list_first_entry_or_null(from, struct htw_node, list);
	if (n)
		htw_wheel_stop(w, n);
	return n;
}

static void htw_list_walk(struct list_head *list, htw_node_fn_t *visit, void *arg)
{
	struct list_head *entry, *following;

	list_for_each_safe(entry, following, list)
		visit(list_entry(entry, struct htw_node, list), arg);
}

/**
 * htw_wheel_walk() - look at all nodes
 * @w: the wheel
 * @visit: called for each node, in no order; it may stop that node, and free it,
 *	but not change the wheel in other ways
 * @arg: for @visit
 */
void htw_wheel_walk(struct htw_wheel *w, htw_node_fn_t *visit, void *arg)
{
	htw_list_walk(&w->due, visit, arg);
	htw_list_walk(&w->sorted, visit, arg);
	htw_list_walk(&w->unsorted, visit, arg);
	htw_list_walk(&w->never, visit, arg);
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++)
		for (u32 i = 0; i < w->level[l].nr_buckets; i++)
			htw_list_walk(&w->level[l].buckets[i], visit, arg);
	for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++)
		htw_list_walk(&w->beyond[i], visit, arg);
}

/* Is this the head of one of the wheel's lists? */
static bool htw_wheel_has_list(const struct htw_wheel *w, const struct list_head *list)
{
	if (list == &w->due || list == &w->sorted || list == &w->unsorted || list == &w->never ||
	    (list >= w->beyond && list < w->beyond + HTW_WHEEL_LISTS))
		return true;
	for (unsigned int l = 0; l < htw_wheel_levels(w); l++) {
		const struct htw_level *lev = &w->level[l];

		if (list >= lev->buckets && list < lev->buckets + lev->nr_buckets)
			return true;
	}
	return false;
}

/**
 * htw_wheel_holds() - is a node in this wheel?
 * @w: the wheel
 * @n: a node, after htw_node_init()
 *
 * For assertions and tests: it looks at the nodes beside it until it comes to the
 * end of their list.
 *
 * Return: true if it is; false if it is in no wheel, or in another one.
 */
bool htw_wheel_holds(const struct htw_wheel *w, const struct htw_node *n)
{
	const struct list_head *forward = n->list.next, *back = n->list.prev;

	if (!htw_node_pending(n))
		return false;
	for (;;) {
		if (htw_wheel_has_list(w, forward) || htw_wheel_has_list(w, back))
			return true;
		/* From both sides they have met. */
		if (forward == back || forward->next == back)
			return false;
		forward = forward->next;
		back = back->prev;
	}
}

/**
 * htw_wheel_is_ahead() - could a start make &htw_wheel.next earlier?
 * @w: the wheel
 * @tick: that of the node
 *
 * A bucket above level 0 is work a window before it starts, when it can be
 * moved down.
 *
 * Return: false if it could not, nor if the tick never comes.
 */
bool htw_wheel_is_ahead(const struct htw_wheel *w, u64 tick)
{
	const struct htw_level *lev = htw_wheel_level(w, tick);
	u64 work = div64_u64(tick, lev->span) * lev->span;

	if (lev != w->level)
		work -= min(work, lev->span);
	return tick <= HTW_LAST_TICK && work < w->next;
}
