// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking up those who wait for an expiration
 *
 * How many they are is up to the program: a descriptor can be in an epoll set ten
 * thousand times, and a process group can be sent SIGIO. wake_up() walks all
 * waiters with interrupts off, at the cost of whoever runs on that CPU. So here a
 * walk stops after some waiters, with a mark on the list where it is to go on, and
 * is continued by the pacer, as work of the context's user. SIGIO is sent by a work
 * item that is charged to the user.
 *
 * Readers have a queue of their own and wait exclusively: one of them is woken
 * up, and when it leaves events behind it wakes up the next.
 */

#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/sched/clock.h>
#include <linux/wait.h>

#include "wake.h"

/* Waiters that are woken up with interrupts off, and in one turn. */
#define HTW_WAKE_UNITS		64u
/*
 * One waiter may stand for hundreds: an epoll set that others watch. After so much
 * time the waiters of further contexts are left to turns of their own.
 */
#define HTW_WAKE_NS		(20 * NSEC_PER_USEC)

/* The mark on a list of waiters is none of them. */
static int htw_wake_mark_func(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	return 0;
}

/*
 * Goes on with the walk of a context's waiters, @units of them at the most, and as
 * wake_up() does with one that is exclusive. Whoever set @ctx->waking calls this.
 *
 * Return: true at the end of the walk; @ctx->waking is false then.
 */
static bool htw_wake_walk(struct htw_context *ctx, unsigned int *units)
{
	void *key = poll_to_key(EPOLLIN | EPOLLRDNORM);
	wait_queue_head_t *wait = &ctx->wait;
	wait_queue_entry_t *curr, *next;

	lockdep_assert_held(&wait->lock);

again:
	curr = list_next_entry(&ctx->wake_mark, entry);
	list_del_init(&ctx->wake_mark.entry);
	list_for_each_entry_safe_from(curr, next, &wait->head, entry) {
		const unsigned int flags = curr->flags;
		int ret;

		if (!*units) {
			list_add_tail(&ctx->wake_mark.entry, &curr->entry);
			return false;
		}
		--*units;
		ret = curr->func(curr, TASK_NORMAL, 0, key);
		if (ret < 0 || (ret && flags & WQ_FLAG_EXCLUSIVE))
			break;
	}
	if (ctx->wake_again) {
		ctx->wake_again = false;
		list_add(&ctx->wake_mark.entry, &wait->head);
		goto again;
	}
	/* In this order: whoever begins the next walk may schedule the job again. */
	htw_job_done(&ctx->wake_job);
	ctx->waking = false;
	return true;
}

/*
 * Begins a walk; false where one is under way. That one begins again when it has come to
 * its end, and not before, or else nobody would come to the last ones.
 */
static bool htw_wake_begin(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->wait.lock);

	if (ctx->waking) {
		ctx->wake_again = true;
		return false;
	}
	ctx->waking = true;
	ctx->wake_again = false;
	list_add(&ctx->wake_mark.entry, &ctx->wait.head);
	return true;
}

/* The job's turn: the walk of a context with many waiters goes on. */
static enum htw_served htw_wake_serve(struct htw_job *job, const struct htw_turn *turn)
{
	struct htw_context *ctx = container_of(job, struct htw_context, wake_job);
	/* Fewer for a flow that goes ahead of others. */
	unsigned int units = min(HTW_WAKE_UNITS, turn->units);
	unsigned long flags;
	bool ended = false;

	spin_lock_irqsave(&ctx->wait.lock, flags);
	if (!job->dead)
		ended = htw_wake_walk(ctx, &units);
	spin_unlock_irqrestore(&ctx->wait.lock, flags);
	return ended ? HTW_SERVED_DONE : HTW_SERVED_MORE;
}

/* In softirq: wakes up some, and leaves the others to the pacer. */
static void htw_wake_paced(struct htw_context *ctx, unsigned int *units)
{
	unsigned long flags;

	spin_lock_irqsave(&ctx->wait.lock, flags);
	if (!ctx->wake_job.dead && htw_wake_begin(ctx) && !htw_wake_walk(ctx, units)) {
		WRITE_ONCE(ctx->wake_job.pacer, this_cpu_ptr(&htw_pacers));
		htw_job_schedule(&ctx->wake_job, 0);
	}
	spin_unlock_irqrestore(&ctx->wait.lock, flags);
}

/* In process context: wakes up all, at the caller's cost. */
static void htw_wake_all(struct htw_context *ctx)
{
	unsigned long flags;
	bool ended;

	spin_lock_irqsave(&ctx->wait.lock, flags);
	ended = !htw_wake_begin(ctx);
	while (!ended) {
		unsigned int units = HTW_WAKE_UNITS;

		ended = htw_wake_walk(ctx, &units);
		if (ended)
			break;
		spin_unlock_irqrestore(&ctx->wait.lock, flags);
		cond_resched();
		spin_lock_irqsave(&ctx->wait.lock, flags);
	}
	spin_unlock_irqrestore(&ctx->wait.lock, flags);
}

/**
 * htw_wake_reader() - wakes up one of those who wait in read()
 * @ctx: the context
 */
void htw_wake_reader(struct htw_context *ctx)
{
	if (wq_has_sleeper(&ctx->readers))
		wake_up_interruptible(&ctx->readers);
}

/**
 * htw_delivery_wake() - wakes up those who wait for what was delivered
 * @d: the delivery
 * @paced: in softirq: leaves to the pacer what takes long
 *
 * Context: no lock held; with @paced in an RCU read-side section that began before
 * the first htw_deliver(), as a context may be closed by now.
 */
void htw_delivery_wake(struct htw_delivery *d, bool paced)
{
	unsigned int units = HTW_WAKE_UNITS;
	u64 began = 0;

	while (d->wake) {
		struct htw_context *ctx = d->wake;

		/* Whoever delivers to it from now on sees to the waking himself. */
		spin_lock_bh(&ctx->lock);
		d->wake = ctx->wake_next;
		ctx->wake_queued = false;
		spin_unlock_bh(&ctx->lock);
		htw_wake_reader(ctx);
		if (wq_has_sleeper(&ctx->wait)) {
			if (!paced)
				htw_wake_all(ctx);
			else if (!began)
				began = ktime_get_ns();
			else if (ktime_get_ns() - began > HTW_WAKE_NS)
				units = 0;
			if (paced)
				htw_wake_paced(ctx, &units);
		}
		if (READ_ONCE(ctx->fasync))
			queue_delayed_work(htw_wq, &ctx->sigio, 0);
	}
}

/* Sends SIGIO, to as many as the program says, when its user has the time for it. */
static void htw_wake_sigio(struct work_struct *work)
{
	struct htw_context *ctx = container_of(to_delayed_work(work), struct htw_context, sigio);
	const u64 wait = htw_flow_throttled_for(ctx->wake_job.flows);
	u64 began;

	if (wait) {
		queue_delayed_work(htw_wq, &ctx->sigio, nsecs_to_jiffies(wait) + 1);
		return;
	}
	began = local_clock();
	kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
	htw_flow_spend(ctx->wake_job.flows, local_clock() - began);
}

/**
 * htw_wake_init() - of a new context
 * @ctx: the context, which has its user
 */
void htw_wake_init(struct htw_context *ctx)
{
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->readers);
	init_waitqueue_func_entry(&ctx->wake_mark, htw_wake_mark_func);
	INIT_LIST_HEAD(&ctx->wake_mark.entry);
	htw_job_init(&ctx->wake_job, &ctx->user->cpus->flow, htw_wake_serve);
	INIT_DELAYED_WORK(&ctx->sigio, htw_wake_sigio);
}

/**
 * htw_wake_stop() - of a context that is being closed
 * @ctx: the context; nobody waits on it any more
 *
 * A walk that is under way may go on for a grace period.
 *
 * Context: may sleep.
 */
void htw_wake_stop(struct htw_context *ctx)
{
	mutex_lock(&htw_pacers_mutex);
	spin_lock_irq(&ctx->wait.lock);
	WRITE_ONCE(ctx->wake_job.dead, true);
	spin_unlock_irq(&ctx->wait.lock);
	htw_job_cancel(&ctx->wake_job);
	mutex_unlock(&htw_pacers_mutex);
}

/**
 * htw_wake_exit() - of a context that is about to be freed
 * @ctx: the context, which nobody uses any more
 *
 * Context: may sleep.
 */
void htw_wake_exit(struct htw_context *ctx)
{
	cancel_delayed_work_sync(&ctx->sigio);
}
