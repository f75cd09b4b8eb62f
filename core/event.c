// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events: the records that programs read, and what happens to a timer afterwards
 */

#include "clock_sets.h"
#include "event.h"
#include "shrink.h"
#include "slots.h"

/*
 * Does an id stay valid after its last expiration has been read? With a word in the
 * table of deadlines it does: the program may store to that word at any time.
 */
static bool htw_timer_is_kept(const struct htw_context *ctx, const struct htw_timer *t)
{
	lockdep_assert_held(&ctx->lock);

	return t->node.flags & HTW_TIMER_KEEP ||
	       (ctx->table && !(t->node.flags & HTW_TIMER_STOPPED));
}

/**
 * htw_event_report() - fills in the event of an expiration that waits
 * @ev: the event
 * @ctx: the context, whose lock is held
 * @t: the timer
 * @now: as of when, in ns of the context's clock
 */
void htw_event_report(struct htw_event *ev, const struct htw_context *ctx, struct htw_timer *t,
		      u64 now)
{
	const u64 missed = htw_timer_missed(t, now);
	const bool more = htw_timer_is_kept(ctx, t) || htw_timer_continues(t, missed);

	/* If it is armed again, then as of this look: none falls between. */
	if (unlikely(t->node.flags & HTW_TIMER_CANCEL_ON_SET))
		htw_clock_sets_check(ctx, t);
	htw_event_fill(ev, t, t->node.fired, missed,
		       (more ? HTW_EVENT_MORE : 0) |
		       (t->node.flags & HTW_TIMER_CLOCK_SET ? HTW_EVENT_CLOCK_SET : 0));
}

/**
 * htw_timer_consume() - what comes after an expiration that has been reported
 * @ctx: the context, whose lock is held
 * @t: the timer, on no list
 * @now: as of when it was reported, in ns of the context's clock
 * @freed: incremented where the timer was freed
 *
 * Return: true if it is to be armed again, by the caller: it is %HTW_REARM and
 * its deadline the next one.
 */
bool htw_timer_consume(struct htw_context *ctx, struct htw_timer *t, u64 now, u32 *freed)
{
	const u64 missed = htw_timer_missed(t, now);
	const u64 spent = htw_timer_spent(t, missed);

	t->node.flags &= ~HTW_TIMER_CLOCK_SET;
	if (htw_timer_continues(t, missed)) {
		/* The phase is kept: start + k * interval, the next one ahead. */
		if (spent)
			t->deadline = htw_add_saturated(t->deadline + (spent - 1) * t->interval,
							t->interval);
		if (t->firings)
			t->firings -= spent;
		WRITE_ONCE(t->node.state, HTW_REARM);
		return true;
	}
	if (htw_timer_is_kept(ctx, t)) {
		/* One that has had all its firings is a one-shot timer now. */
		t->interval = 0;
		t->firings = 0;
		WRITE_ONCE(t->node.state, HTW_IDLE);
		return false;
	}
	htw_timer_free(t, htw_slots_free_list(ctx));
	++*freed;
	return false;
}

/**
 * htw_context_consumed() - timers have been freed by htw_timer_consume()
 * @ctx: the context, whose lock is held
 * @freed: how many
 */
void htw_context_consumed(struct htw_context *ctx, u32 freed)
{
	htw_shrink_timers_freed(ctx, freed);
	htw_user_uncharge(ctx->user, freed);
}

/**
 * htw_event_move_to_ring() - move events from the queue into the ring
 * @ctx: the context, whose lock is held
 * @ring: its ring
 * @max: how many at most
 * @now: the context's time, in ns
 * @freed: incremented for each timer that was freed
 * @rearm: where to put timers that are to be started again, by the caller
 *
 * Return: how many were moved.
 */
u32 htw_event_move_to_ring(struct htw_context *ctx, struct htw_event_ring *ring, u32 max, u64 now,
			   u32 *freed, struct list_head *rearm)
{
	const u32 count = min3(max, ctx->nr_expired, htw_ring_room(ring));

	for (u32 i = 0; i < count; i++) {
		struct htw_timer *t = list_first_entry(&ctx->expired, struct htw_timer, node.list);

		htw_event_report(htw_ring_next(ring), ctx, t, now);
		list_del(&t->node.list);
		if (htw_timer_consume(ctx, t, now, freed))
			list_add_tail(&t->node.list, rearm);
	}
	ctx->nr_expired -= count;
	return count;
}
