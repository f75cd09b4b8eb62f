// SPDX-License-Identifier: GPL-2.0-only
/*
 * Count how often CLOCK_REALTIME was set, and whether it was set since a timer
 * was armed
 *
 * A timer with HTW_TIMER_CANCEL_ON_SET keeps the low bits of the count at which
 * it was armed. cancel_on_set.c expires timers that were armed before the clock
 * was set.
 */

#include "clock_sets.h"

#define HTW_SETS_SHIFT		(ffs(HTW_TIMER_SETS) - 1)
#define HTW_SETS_MASK		(HTW_TIMER_SETS >> HTW_SETS_SHIFT)

/* Incremented by the timekeeper's notifier, once a context listens. */
atomic_t htw_clock_sets;

/* Return how often the clock was set; only differences mean something. */
u32 htw_clock_sets_count(void)
{
	return atomic_read(&htw_clock_sets);
}

static void htw_clock_sets_mark(struct htw_timer *t, u32 sets, u8 clock_set)
{
	t->node.flags &= ~(HTW_TIMER_SETS | HTW_TIMER_CLOCK_SET);
	t->node.flags |= (sets & HTW_SETS_MASK) << HTW_SETS_SHIFT | clock_set;
}

/*
 * Mark a timer as armed at the present count. The lock of the base that it will
 * be armed on is held, or the lock that guards the timer. Return the time from
 * which a relative deadline counts, in ns of the context's clock.
 */
u64 htw_clock_sets_stamp(const struct htw_context *ctx, struct htw_timer *t)
{
	htw_clock_sets_mark(t, htw_clock_sets_count(), 0);
	/* Read the count before the clock: if it is set in between, the timer expires. */
	smp_rmb();
	return htw_context_now(ctx);
}

/*
 * Was the clock set since a timer was armed? If so, set HTW_TIMER_CLOCK_SET for
 * its event, and count the timer as armed now. The lock that guards the timer
 * is held.
 */
bool htw_clock_sets_check(const struct htw_context *ctx, struct htw_timer *t)
{
	u32 sets = htw_clock_sets_count();
	u32 armed = (t->node.flags & HTW_TIMER_SETS) >> HTW_SETS_SHIFT;

	if (!(t->node.flags & HTW_TIMER_CANCEL_ON_SET))
		return false;
	if (armed == (sets & HTW_SETS_MASK) &&
	    sets - READ_ONCE(ctx->sets_seen) <= HTW_SETS_MASK)
		return false;
	htw_clock_sets_mark(t, sets, HTW_TIMER_CLOCK_SET);
	return true;
}
