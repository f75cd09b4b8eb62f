// SPDX-License-Identifier: GPL-2.0-only
/*
 * The alarm of a base: an hrtimer that wakes the tasks that wait
 *
 * Its callback does nothing else. A task that is woken looks, takes what is due
 * and moves buckets down, and sets the alarm for what comes next.
 *
 * Whenever a base's lock is dropped, its alarm is set for the next work or
 * earlier. The exception is work whose time has come: then the alarm has rung and
 * woken tasks, and rings again only for further tasks that block in read(). So a
 * task queues itself before it checks for work under the lock. If it finds some,
 * it does not sleep, or moves buckets down and sets the alarm:
 *
 *	task				alarm
 *	queue itself			READ the next work's time, under its lock
 *	full barrier			full barrier
 *	look, under the base's lock	does anybody wait?
 */

#include <linux/ktime.h>
#include <linux/poll.h>

#include "context.h"

/*
 * As long as something is due, the next one of those that block in read() is
 * woken after that: the one before may get no CPU.
 */
#define HTW_ALARM_AGAIN		HTW_TICK_NS

/* When the alarm rings again, after it has rung for a timer that is due. */
static u64 htw_alarm_again(struct htw_context *ctx, u64 now)
{
	/* Who has been woken is in this queue no more. */
	return waitqueue_active(&ctx->readers) ? now + HTW_ALARM_AGAIN : HTW_NEVER;
}

/* Wake one of those that block, and all that poll. Has a full barrier before. */
static void htw_alarm_wake(struct htw_context *ctx)
{
	if (wq_has_sleeper(&ctx->readers))
		wake_up(&ctx->readers);
	if (wq_has_sleeper(&ctx->wait))
		wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
}

static void htw_alarm_start(struct htw_alarm *a, u64 at)
{
	lockdep_assert_held(&a->lock);

	a->armed = at;
	if (at != HTW_NEVER)
		hrtimer_start(&a->timer, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

/* An alarm rings. Context: softirq, on PREEMPT_RT a thread's. */
static enum hrtimer_restart htw_alarm_ring(struct hrtimer *timer)
{
	struct htw_alarm *a = container_of(timer, struct htw_alarm, timer);
	struct htw_context *ctx = container_of(a, struct htw_context, base.alarm);
	u64 now = ktime_get_ns(), next;
	unsigned long flags;
	bool wake = false;

	raw_spin_lock_irqsave(&a->lock, flags);
	/* Who writes a later one takes the lock then. */
	next = READ_ONCE(ctx->base.next);
	if (next <= now) {
		wake = true;
		/* See above. */
		smp_mb();
		next = htw_alarm_again(ctx, now);
	}
	htw_alarm_start(a, next);
	raw_spin_unlock_irqrestore(&a->lock, flags);

	if (wake)
		htw_alarm_wake(ctx);
	return HRTIMER_NORESTART;
}

/**
 * htw_alarm_unlock() - drop a base's lock after operations on its timers
 * @base: the base
 * @now: the time, in ns
 *
 * Wakes the tasks that wait if a timer is due for which they have not been woken
 * yet, and sets the alarm for the next work. Moves some buckets down if that is
 * due.
 *
 * Return: is a timer due?
 */
bool htw_alarm_unlock(struct htw_base *base, u64 now) __releases(&base->lock)
{
	struct htw_context *ctx = container_of(base, struct htw_context, base);
	bool publish = htw_wheel_next_is_stale(&base->wheel, base->next_tick);
	unsigned int budget = HTW_BASE_LOOKS;
	struct htw_alarm *a = &base->alarm;
	bool due = false, tell;
	unsigned long flags;
	u64 at;

	if (publish)
		htw_base_publish(base);
	if (base->next <= now) {
		due = htw_base_look(base, now, &budget);
		htw_base_publish(base);
		publish = true;
	}
	tell = due && !base->told;
	base->told = due;

	if (publish) {
		at = due ? htw_alarm_again(ctx, now) : base->next;
		raw_spin_lock_irqsave(&a->lock, flags);
		if (a->armed > at)
			htw_alarm_start(a, at);
		raw_spin_unlock_irqrestore(&a->lock, flags);
	}
	spin_unlock(&base->lock);

	if (tell)
		htw_alarm_wake(ctx);
	return due;
}

void htw_alarm_init(struct htw_alarm *a)
{
	raw_spin_lock_init(&a->lock);
	a->armed = HTW_NEVER;
	hrtimer_setup(&a->timer, htw_alarm_ring, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/* It does not ring any more. */
void htw_alarm_exit(struct htw_alarm *a)
{
	hrtimer_cancel(&a->timer);
}
