// SPDX-License-Identifier: GPL-2.0-only
/*
 * A timer of a context: functions that are not on the hot path
 */

#include <linux/minmax.h>

#include "timer.h"

/**
 * htw_timer_set_slack() - set how much later a timer may expire
 * @t: the timer
 * @slack: in ns
 */
void htw_timer_set_slack(struct htw_timer *t, u64 slack)
{
	t->node.slack = htw_arith_encode_slack(slack);
	if (slack)
		t->node.flags |= HTW_TIMER_SLACK;
	else
		t->node.flags &= ~HTW_TIMER_SLACK;
}

/**
 * htw_timer_fix_missed() - stop a timer whose expiration is queued
 * @t: the timer
 * @missed: what its event will report as missed
 *
 * It will not be armed again, so the count takes the place of its slack, and
 * without a limit of firings that of their number as well. With one, it is
 * below the limit, and so has 32 bits.
 */
void htw_timer_fix_missed(struct htw_timer *t, u64 missed)
{
	if (!t->firings) {
		t->node.flags |= HTW_TIMER_ENDLESS;
		t->missed_low = lower_32_bits(missed);
		missed = upper_32_bits(missed);
	}
	t->node.missed = missed;
	t->node.flags |= HTW_TIMER_STOPPED;
}

/* The count of htw_timer_fix_missed(). */
u64 htw_timer_fixed_missed(const struct htw_timer *t)
{
	u64 missed = t->node.missed;

	return t->node.flags & HTW_TIMER_ENDLESS ? missed << 32 | t->missed_low : missed;
}

/**
 * htw_timer_fill_query() - describe a timer to a program
 * @t: the timer, locked as &enum htw_timer_state says
 * @state: its state, not %HTW_FREE or %HTW_RESERVED
 * @override: from htw_context_override()
 * @now: the context's time, in ns
 * @query: out: the description
 */
void htw_timer_fill_query(const struct htw_timer *t, enum htw_timer_state state,
			  u64 override, u64 now, struct htw_query *query)
{
	static const u16 states[] = {
		[HTW_PENDING]	= HTW_STATE_PENDING,
		[HTW_EXPIRED]	= HTW_STATE_EXPIRED,
		[HTW_REARM]	= HTW_STATE_PENDING,
		[HTW_IDLE]	= HTW_STATE_DISARMED,
	};
	bool pending = states[state] == HTW_STATE_PENDING;
	bool armed = pending && override != HTW_DISARMED;

	*query = (struct htw_query) {
		.id = htw_timer_id(t),
		.deadline = armed ? max(t->deadline, override) : t->deadline,
		.remaining = armed ? htw_timer_remaining(t, override, now) : 0,
		.interval = t->interval,
		.cookie = t->cookie,
		.missed = state == HTW_EXPIRED ? htw_timer_missed(t, now) : 0,
		.firings = t->node.flags & HTW_TIMER_ENDLESS ? 0 : t->firings,
		.state = pending && !armed ? HTW_STATE_DISARMED : states[state],
		.flags = (t->node.flags & HTW_TIMER_KEEP ? HTW_F_KEEP : 0) |
			 (t->node.flags & HTW_TIMER_CANCEL_ON_SET ? HTW_F_CANCEL_ON_SET : 0),
	};
}
