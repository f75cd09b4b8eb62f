// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events: the structures that programs read, and what happens to their timers
 * then
 */

#include "clock_sets.h"
#include "event.h"
#include "pool.h"
#include "shrink.h"

/*
 * Does an id stay valid after its last event has been read? If the context has
 * a table of deadlines it does, because the program may store an override at
 * any time.
 */
static bool htw_event_keeps_timer(const struct htw_context *ctx,
				  const struct htw_timer *t)
{
	lockdep_assert_held(&ctx->lock);

	return !(t->node.flags & HTW_TIMER_STOPPED) &&
	       (t->node.flags & HTW_TIMER_KEEP || ctx->table);
}

/**
 * htw_event_report() - fill in the event of an expired timer
 * @ev: the event
 * @ctx: the context, whose lock is held
 * @t: the timer
 * @now: the context's time in ns, up to which missed firings are counted
 */
void htw_event_report(struct htw_event *ev, const struct htw_context *ctx,
		      struct htw_timer *t, u64 now)
{
	u64 missed = htw_timer_missed(t, now);
	bool more = htw_event_keeps_timer(ctx, t) ||
		    htw_timer_continues(t, missed);

	/* If the timer is started again, only later changes of CLOCK_REALTIME expire it. */
	if (t->node.flags & HTW_TIMER_CANCEL_ON_SET)
		htw_clock_sets_check(ctx, t);
	htw_event_fill(ev, t, t->node.fired, missed,
		       (more ? HTW_EVENT_MORE : 0) |
		       (t->node.flags & HTW_TIMER_CLOCK_SET ? HTW_EVENT_CLOCK_SET : 0));
}

/**
 * htw_event_consume() - free, disarm or advance a timer whose event was reported
 * @ctx: the context, whose lock is held
 * @t: the timer, on no list
 * @now: as passed to htw_event_report()
 * @freed: incremented if the timer was freed
 *
 * Return: true if the caller has to start the timer again: its state is
 * %HTW_REARM and its deadline the next one.
 */
bool htw_event_consume(struct htw_context *ctx, struct htw_timer *t, u64 now,
		       u32 *freed)
{
	u64 missed = htw_timer_missed(t, now);
	u64 consumed = htw_timer_firings_consumed(t, missed);

	t->node.flags &= ~HTW_TIMER_CLOCK_SET;

	if (htw_timer_continues(t, missed)) {
		/* Keep the phase: the first start + k * interval after @now. */
		if (consumed)
			t->deadline = htw_arith_next(t->deadline, t->interval, consumed);
		if (t->firings)
			t->firings -= consumed;
		WRITE_ONCE(t->node.state, HTW_REARM);
		return true;
	}

	if (htw_event_keeps_timer(ctx, t)) {
		/*
		 * A kept timer that had all its firings is a one-shot timer
		 * now, unless the program takes the event back:
		 * htw_section_unread_locked() finds the interval.
		 */
		t->node.idle_interval = t->interval;
		t->interval = 0;
		t->firings = 0;
		WRITE_ONCE(t->node.state, HTW_IDLE);
		return false;
	}

	htw_timer_free(t, htw_pool_free_list(ctx));
	++*freed;
	return false;
}

/* Account for @freed timers that htw_event_consume() freed; @ctx->lock is held. */
void htw_event_consumed(struct htw_context *ctx, u32 freed)
{
	htw_shrink_timers_freed(ctx, freed);
}

/*
 * Move up to @max events from the queue into the ring; @ctx->lock is held.
 * Timers that the caller has to start again are put on @rearm, freed ones are
 * counted in *@freed.
 *
 * Return: the number of events moved.
 */
u32 htw_event_move_to_ring(struct htw_context *ctx, struct htw_event_ring *ring,
			   u32 max, u64 now, u32 *freed,
			   struct list_head *rearm)
{
	u32 count = min3(max, ctx->nr_expired, htw_ring_room(ring));

	for (u32 i = 0; i < count; i++) {
		struct htw_timer *t = list_first_entry(&ctx->expired, struct htw_timer, node.list);

		htw_event_report(htw_ring_next(ring), ctx, t, now);
		list_del(&t->node.list);
		if (htw_event_consume(ctx, t, now, freed))
			list_add_tail(&t->node.list, rearm);
	}
	htw_context_add_expired(ctx, -count);
	return count;
}
