// SPDX-License-Identifier: GPL-2.0-only
/*
 * A base: a context's wheel on a CPU, with its lock
 */

#include <trace/events/htw.h>

#include "base.h"

/* A time that no clock reaches: hrtimers end there. */
#define HTW_TIME_MAX		((u64)KTIME_MAX)

/**
 * htw_base_bring_up() - bring the wheel of a base up to the present
 * @base: the base, locked
 * @now: the time at which the caller has begun, in ns
 *
 * If CLOCK_REALTIME was set back, the wheel starts again at the present. Else,
 * if the wheel is ahead, another task has read the clock later than the caller,
 * whose time becomes that of the wheel: what it finds or makes due, is.
 *
 * Return: the tick of @now.
 */
u64 htw_base_bring_up(struct htw_base *base, u64 *now)
{
	u64 tick = htw_base_tick(base, *now);

	lockdep_assert_held(&base->lock);

	if (base->wheel.cursor > tick + 1 && base->clock == HTW_REALTIME) {
		*now = htw_clock_now(HTW_REALTIME);
		tick = htw_base_tick(base, *now);
		if (base->wheel.cursor > tick + 1) {
			htw_wheel_rewind(&base->wheel, tick);
			base->is_stale = true;
		}
	}
	if (base->wheel.cursor > tick + 1) {
		tick = base->wheel.cursor - 1;
		*now = tick * base->tick_ns;
	}
	htw_wheel_forward(&base->wheel, tick);
	return tick;
}

/* When a tick begins, in ns. */
static u64 htw_base_time(const struct htw_base *base, u64 tick)
{
	u64 ns;

	return check_mul_overflow(tick, base->tick_ns, &ns) || ns > HTW_TIME_MAX ? HTW_NEVER : ns;
}

/* Publish when the next work is. To be called before the lock is dropped. */
void htw_base_publish(struct htw_base *base)
{
	struct htw_wheel *w = &base->wheel;
	u64 next = htw_wheel_next(w), first = next;
	bool is_guess;

	lockdep_assert_held(&base->lock);

	base->next_tick = next;

	/* Below that, it is a node that expires. */
	is_guess = w->levels && next >= w->settled;
	if (is_guess)
		first = htw_wheel_first_tick(w);
	base->first_tick = first;
	base->is_stale = false;
	WRITE_ONCE(base->is_guess, is_guess);
	WRITE_ONCE(base->first, htw_base_time(base, first));
	WRITE_ONCE(base->next, htw_base_time(base, next));
}

/* htw_wheel_collect_due(); entering windows takes of the budget as well. */
bool htw_base_collect_due(struct htw_base *base, u64 tick, unsigned int *budget)
{
	struct htw_wheel *w = &base->wheel;
	u64 window = w->next_window;
	bool due = htw_wheel_collect_due(w, tick, budget);

	lockdep_assert_held(&base->lock);

	if (w->next_window != window)
		*budget -= min(*budget, HTW_BASE_WINDOW * w->levels);
	return due;
}

/**
 * htw_base_look() - is a timer due? Move buckets down if none is
 * @base: the base, locked
 * @now: the time, in ns
 * @budget: nodes that may be looked at
 *
 * Return: is a timer due? If not, and the budget is used up, more is to be
 * moved down.
 */
bool htw_base_look(struct htw_base *base, u64 now, unsigned int *budget)
{
	u64 tick = htw_base_tick(base, now);
	u64 cascades = base->wheel.cascades;

	lockdep_assert_held(&base->lock);

	if (!htw_wheel_count(&base->wheel))
		return false;
	do {
		if (htw_base_collect_due(base, tick, budget))
			break;
	} while (*budget && !htw_wheel_cascade(&base->wheel, budget) && *budget);
	if (base->wheel.cascades != cascades)
		trace_htw_cascade(base, cascades);
	return !list_empty(&base->wheel.due);
}

/**
 * htw_base_catch_up() - make due all that has come, and move all down that is
 * to be
 * @base: the base, locked
 * @now: the time, in ns
 * @budget: nodes, and ticks with timers, that may be looked at
 *
 * htw_base_look() stops at the first tick with timers that are due. Until these
 * have been taken, a timer that is due at once may have to wait for a tick, as
 * others that it must not overtake may still be on an upper level.
 *
 * Return: has all been done? If not, the budget is used up.
 */
bool htw_base_catch_up(struct htw_base *base, u64 now, unsigned int *budget)
{
	u64 tick = htw_base_tick(base, now);
	struct htw_wheel *w = &base->wheel;
	u64 cascades = w->cascades;
	bool done = false;
	LIST_HEAD(due);

	lockdep_assert_held(&base->lock);

	while (*budget && !done) {
		*budget -= min(*budget, HTW_BASE_STEP);
		list_splice_tail_init(&w->due, &due);
		done = !htw_base_collect_due(base, tick, budget) && *budget &&
		       htw_wheel_cascade(w, budget);
	}
	list_splice(&due, &w->due);
	base->is_stale = true;
	if (base->wheel.cascades != cascades)
		trace_htw_cascade(base, cascades);
	return done;
}
