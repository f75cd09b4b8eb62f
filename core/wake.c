// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking tasks that wait for events
 *
 * The number of waiters is up to the program: a descriptor can be in ten thousand epoll sets,
 * and SIGIO can go to a process group. wake_up() would walk all of them with interrupts off, at
 * the expense of the task that runs on that CPU. Here a walk stops after some waiters, leaves a
 * mark on the list, and is continued by the pacer as work of the context's user. SIGIO is sent
 * by a work item that is charged to the user.
 *
 * Readers wait exclusively on a queue of their own: one is woken, and wakes the next if it
 * leaves events behind.
 */

#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/sched/clock.h>
#include <linux/wait.h>

#include "wake.h"

/* Waiters woken in one turn, with interrupts off. */
#define HTW_WAKE_UNITS		64u
/*
 * A waiter can be an epoll set that hundreds of others watch. When waking has taken this long,
 * the waiters of further contexts are left to turns of their own.
 */
#define HTW_WAKE_NS		(20 * NSEC_PER_USEC)

/* For wake_up(), which may find the mark: wake no task. */
static int htw_wake_mark_func(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	return 0;
}

/*
 * Continue the walk of a context's waiters, which htw_wake_begin() began: at most *@units of
 * them, and as in wake_up() one that is exclusive.
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
	/* In this order: once @waking is false, the next walk may begin and schedule the job. */
	htw_job_done(&ctx->wake_job);
	ctx->waking = false;
	return true;
}

/*
 * Begin a walk, or return false if one is under way. The latter starts over at its end, not now:
 * otherwise frequent events would keep it from ever reaching the last waiters.
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

/* The job's turn: continue the walk of a context with many waiters. */
static enum htw_served htw_wake_serve(struct htw_job *job, const struct htw_turn *turn)
{
	struct htw_context *ctx = container_of(job, struct htw_context, wake_job);
	/* A new flow has shorter turns. */
	unsigned int units = min(HTW_WAKE_UNITS, turn->units);
	unsigned long flags;
	bool ended = false;

	spin_lock_irqsave(&ctx->wait.lock, flags);
	if (!job->dead)
		ended = htw_wake_walk(ctx, &units);
	spin_unlock_irqrestore(&ctx->wait.lock, flags);
	return ended ? HTW_SERVED_DONE : HTW_SERVED_MORE;
}

/* In softirq: wake some waiters and leave the others to the pacer. */
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

/* In process context: wake all waiters, at the caller's expense. */
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

/* Wake one task that waits in read(). */
void htw_wake_reader(struct htw_context *ctx)
{
	if (wq_has_sleeper(&ctx->readers))
		wake_up_interruptible(&ctx->readers);
}

/**
 * htw_delivery_wake() - wake tasks that wait for what was delivered
 * @d: the delivery
 * @paced: this is softirq, so leave long walks to the pacer
 *
 * Context: no lock is held. With @paced, in an RCU read-side critical section that began before
 * the delivery, because contexts may have been closed since.
 */
void htw_delivery_wake(struct htw_delivery *d, bool paced)
{
	unsigned int units = HTW_WAKE_UNITS;
	u64 began = 0;

	while (d->wake) {
		struct htw_context *ctx = d->wake;

		/* A delivery that begins after this queues the context again. */
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

/* Send SIGIO once the user's share of the CPU allows it, and charge the time to the user. */
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

/* Set up a new context, whose user is set. */
void htw_wake_init(struct htw_context *ctx)
{
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->readers);
	init_waitqueue_func_entry(&ctx->wake_mark, htw_wake_mark_func);
	INIT_LIST_HEAD(&ctx->wake_mark.entry);
	htw_job_init(&ctx->wake_job, &ctx->user->cpus->flow, htw_wake_serve);
	INIT_DELAYED_WORK(&ctx->sigio, htw_wake_sigio);
}

/*
 * Stop waking on behalf of a context that is being closed and has no waiters. A walk that is
 * under way may go on for a grace period. May sleep.
 */
void htw_wake_stop(struct htw_context *ctx)
{
	mutex_lock(&htw_pacers_mutex);
	spin_lock_irq(&ctx->wait.lock);
	htw_job_kill(&ctx->wake_job);
	spin_unlock_irq(&ctx->wait.lock);
	htw_job_cancel(&ctx->wake_job);
	mutex_unlock(&htw_pacers_mutex);
}

/* Undo htw_wake_init() before the context is freed. May sleep. */
void htw_wake_exit(struct htw_context *ctx)
{
	cancel_delayed_work_sync(&ctx->sigio);
}
