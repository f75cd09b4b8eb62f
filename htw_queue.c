// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queue of expirations: filled in softirq, emptied by readers
 */

#include <linux/fs.h>
#include <linux/poll.h>

#include <trace/events/htw.h>

#include "htw_context.h"
#include "htw_engine.h"

/**
 * htw_delivery_begin() - begins a run of expirations
 * @d: the run
 * @late: the counters of &htw_base.late
 */
void htw_delivery_begin(struct htw_delivery *d, u64 *late)
{
	d->context = NULL;
	d->wake = NULL;
	d->late = late;
	d->expired = 0;
}

/**
 * htw_deliver() - EXPIRY_PROCESSING: queues an expired timer to be read
 * @d: the run
 * @n: the timer's node, just out of its wheel
 * @now: the base's time at which it fired, in ns; not before its deadline
 *
 * Context: the lock of the node's base is held, bottom halves are off.
 */
void htw_deliver(struct htw_delivery *d, struct htw_node *n, u64 now)
{
	struct htw_timer *t = container_of(n, struct htw_timer, node);
	struct htw_context *ctx = htw_chunk_of(t)->ctx;

	if (d->context != ctx) {
		htw_delivery_pause(d);
		d->context = ctx;
		htw_lock(&ctx->lock);
		if (!ctx->wake_queued) {
			ctx->wake_queued = true;
			ctx->wake_next = d->wake;
			d->wake = ctx;
		}
	}
	n->fired = htw_context_from_host(ctx, now);
	d->late[min(fls64((n->fired - t->deadline) >> 10), HTW_LATE_BUCKETS - 1)]++;
	trace_htw_expire(htw_timer_id(t), t->cookie, t->deadline, n->fired);
	list_add_tail(&n->list, &ctx->expired);
	ctx->nr_expired++;
	d->expired++;
	WRITE_ONCE(n->state, HTW_EXPIRED);
}

/**
 * htw_delivery_pause() - drops the lock of the context that was delivered to
 * @d: the run, which can go on
 *
 * Context: the lock of the base is held.
 */
void htw_delivery_pause(struct htw_delivery *d)
{
	if (d->context)
		htw_unlock(&d->context->lock);
	d->context = NULL;
}

/**
 * htw_delivery_wake() - wakes up who waits for what was delivered
 * @d: the run
 *
 * How long this takes is up to those who wait, and how many they are, so no
 * lock is held that others need.
 *
 * Context: no lock held; in an RCU read-side section that began before the
 * first htw_deliver(), as a context may be closed by now.
 */
void htw_delivery_wake(struct htw_delivery *d)
{
	while (d->wake) {
		struct htw_context *ctx = d->wake;

		/* Who delivers to it from now on sees to the waking himself. */
		spin_lock_bh(&ctx->lock);
		d->wake = ctx->wake_next;
		ctx->wake_queued = false;
		spin_unlock_bh(&ctx->lock);
		if (wq_has_sleeper(&ctx->wait))
			wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
	}
}

/**
 * htw_context_peek() - tells the expirations that wait, and leaves them there
 * @ctx: the context, whose lock is held
 * @events: where to
 * @count: how many at the most
 * @now: the time, in ns
 *
 * Return: how many.
 */
u32 htw_context_peek(struct htw_context *ctx, struct htw_event *events, u32 count, u64 now)
{
	struct htw_timer *t;
	u32 n = 0;

	lockdep_assert_held(&ctx->lock);

	list_for_each_entry(t, &ctx->expired, node.list) {
		const u64 missed = htw_timer_missed(t, now);
		const bool more = t->node.flags & HTW_TIMER_KEEP || htw_timer_goes_on(t, missed);

		if (n == count)
			break;
		events[n++] = (struct htw_event) {
			.id = htw_timer_id(t),
			.cookie = t->cookie,
			.deadline = t->deadline,
			.fired = t->node.fired,
			.missed = missed,
			.flags = more ? HTW_EVENT_MORE : 0,
		};
	}
	return n;
}

/**
 * htw_context_take() - takes out expirations that have been read
 * @ctx: the context, whose lock is held
 * @count: how many, in the order in which htw_context_peek() told them
 * @now: what htw_context_peek() was given
 *
 * Periodic timers that go on are then on @ctx->rearm: the caller drops the
 * lock and calls htw_context_rearm().
 */
void htw_context_take(struct htw_context *ctx, u32 count, u64 now)
{
	u32 freed = 0;

	lockdep_assert_held(&ctx->lock);

	ctx->nr_expired -= count;
	while (count--) {
		struct htw_timer *t = list_first_entry(&ctx->expired, struct htw_timer,
						       node.list);
		const u64 missed = htw_timer_missed(t, now);

		if (htw_timer_goes_on(t, missed)) {
			/* The phase is kept: start + k * interval, the next one ahead. */
			t->deadline = htw_add_saturated(t->deadline + missed * t->interval,
							t->interval);
			if (t->firings)
				t->firings -= missed + 1;
			WRITE_ONCE(t->node.state, HTW_REARM);
			list_move_tail(&t->node.list, &ctx->rearm);
		} else if (t->node.flags & HTW_TIMER_KEEP) {
			/* One that has had all its firings is a one-shot timer now. */
			t->interval = 0;
			t->firings = 0;
			WRITE_ONCE(t->node.state, HTW_IDLE);
			list_del(&t->node.list);
		} else {
			list_del(&t->node.list);
			htw_timer_free(t, &ctx->free);
			freed++;
		}
	}
	ctx->nr_timers -= freed;
	htw_user_uncharge(ctx->user, freed);
}

/**
 * htw_context_rearm() - arms the periodic timers that have been read
 * @ctx: the context; no lock is held
 *
 * This takes a second step because a base's lock comes before a context's, and
 * is not held while user memory is written.
 */
void htw_context_rearm(struct htw_context *ctx)
{
	struct htw_timer *t;
	struct htw_run run;

	while (!list_empty_careful(&ctx->rearm)) {
		htw_run_begin(&run, ctx);
		htw_run_lock_here(&run);
		spin_lock(&ctx->lock);
		for (u32 i = 0; i < HTW_CHUNK_TIMERS; i++) {
			t = list_first_entry_or_null(&ctx->rearm, struct htw_timer, node.list);
			if (!t)
				break;
			list_del(&t->node.list);
			htw_timer_arm(&run, t);
		}
		spin_unlock(&ctx->lock);
		htw_run_end(&run);
	}
}
