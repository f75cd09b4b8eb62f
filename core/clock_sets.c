// SPDX-License-Identifier: GPL-2.0-only
/*
 * How often CLOCK_REALTIME was set, and as of which setting a timer was armed
 *
 * What is done about it is in clock_was_set.c.
 */

#include "clock_sets.h"

#define HTW_SETS_SHIFT		(ffs(HTW_TIMER_SETS) - 1)
#define HTW_SETS_MASK		(HTW_TIMER_SETS >> HTW_SETS_SHIFT)

/* How often the clock was set, since the first context asked. */
atomic_t htw_clock_sets;

/**
 * htw_clockset_count() - how often CLOCK_REALTIME was set
 *
 * Return: the count; only that it differs means something.
 */
u32 htw_clockset_count(void)
{
	return atomic_read(&htw_clock_sets);
}

static void htw_clockset_mark(struct htw_timer *t, u32 sets, u8 written)
{
	t->node.flags &= ~(HTW_TIMER_SETS | HTW_TIMER_CLOCK_SET);
	t->node.flags |= (sets & HTW_SETS_MASK) << HTW_SETS_SHIFT | written;
}

/**
 * htw_clockset_stamp() - a timer is being armed, for the clock as it is set now
 * @ctx: the timer's context; the lock of the base that it will be armed on is held,
 *	or the one that guards the timer
 * @t: the timer, with %HTW_TIMER_CANCEL_ON_SET
 *
 * Return: the time as of which it is armed, in ns of the context's clock.
 */
u64 htw_clockset_stamp(const struct htw_context *ctx, struct htw_timer *t)
{
	htw_clockset_mark(t, htw_clockset_count(), 0);
	/* The count, then the clock: if it is set in between, the timer is told. */
	smp_rmb();
	return htw_context_now(ctx);
}

/**
 * htw_clockset_look() - was the clock set since a timer was armed?
 * @ctx: the timer's context
 * @t: the timer; the lock that guards it is held
 *
 * If so the timer has %HTW_TIMER_CLOCK_SET from now on, and counts as armed
 * since.
 *
 * Return: true if it was: the event has to say %HTW_EVENT_CLOCK_SET.
 */
bool htw_clockset_look(const struct htw_context *ctx, struct htw_timer *t)
{
	const u32 sets = htw_clockset_count();
	const u32 armed = (t->node.flags & HTW_TIMER_SETS) >> HTW_SETS_SHIFT;

	if (!(t->node.flags & HTW_TIMER_CANCEL_ON_SET))
		return false;
	if (armed == (sets & HTW_SETS_MASK) &&
	    sets - READ_ONCE(ctx->sets_seen) <= HTW_SETS_MASK)
		return false;
	htw_clockset_mark(t, sets, HTW_TIMER_CLOCK_SET);
	return true;
}
