// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking tasks that wait for events
 *
 * The number of waiters is up to the program, and so is what stands behind
 * each: a descriptor can be in ten thousand epoll sets, one entry can be an
 * epoll set that others poll thousands of times, and SIGIO can go to a process
 * group. wake_up() would walk all of them with interrupts off, at the expense
 * of the task that runs on that CPU. Here a walk stops after some waiters, or
 * when they have taken some time, leaves a mark on the list, and is continued
 * by the pacer as work of the context's user. What one waiter takes cannot be
 * divided, but counts in full.
 *
 * No task owns a walk: the next delivery continues it at the mark. Otherwise a
 * task that is preempted in a walk would keep others' waiters asleep.
 *
 * In the short turns of new flows, which others wait behind, no context is
 * woken whose waiters have proved slow, nor any other of its user
 * (HTW_SLOW_NS). One of which nothing is known is, but until the CPU has been
 * left alone for as long as waking has taken, only those that have proved quick
 * are.
 *
 * Readers wait exclusively on a queue of their own: one is woken. A task that
 * leaves events behind wakes the next one: of readers, and of those that wait in
 * poll() exclusively.
 */

#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/wait.h>

#include "compat.h"
#include "off_cpu.h"
#include "wake.h"

/*
 * Waiters woken in one turn, with interrupts off; in a short turn one. Also the
 * readers that are looked at to find one that sleeps.
 */
#define HTW_WAKE_MAX		64u
/* A walk stops after the waiter with which it has taken so long. One that takes longer is slow. */
#define HTW_WAKE_NS		(20 * NSEC_PER_USEC)
/*
 * So is one that waits for longer, on PREEMPT_RT, for a lock of its own. Two
 * tasks of one user that meet at the lock of an epoll set take less: the one
 * that has it runs at once.
 */
#define HTW_WAKE_BLOCKED_NS	(200 * NSEC_PER_USEC)

/**
 * struct htw_wake_lap - when the last waiter was woken, or a walk went on
 * @at: in ns of CLOCK_MONOTONIC
 * @off_cpu: htw_softirq_off_cpu_ns() at that time
 * @run_delay: htw_softirq_run_delay_ns() at that time
 */
struct htw_wake_lap {
	u64 at;
	u64 off_cpu;
	u64 run_delay;
};

/**
 * struct htw_wake_limit - how much may still be woken in a turn
 * @count: waiters
 * @until: no more once this time has come, in ns of CLOCK_MONOTONIC
 * @woke: the walk has woken some since it went on
 * @slow_ns: the longest time of one that has taken long since then, or zero
 * @lap: time, so that each waiter takes only one look at the clock
 */
struct htw_wake_limit {
	unsigned int count;
	u64 until;
	bool woke;
	u64 slow_ns;
	struct htw_wake_lap lap;
};

static struct htw_wake_lap htw_wake_lap(void)
{
	struct htw_wake_lap lap;

	lap.run_delay = htw_softirq_run_delay_ns();
	lap.at = htw_softirq_clock_ns(&lap.off_cpu);
	return lap;
}

/* The time since a lap began, without that in which others had the CPU. */
static u64 htw_wake_took(const struct htw_wake_lap *lap)
{
	u64 off_cpu, took = htw_softirq_clock_ns(&off_cpu) - lap->at;

	return took - min(took, htw_off_cpu_since(off_cpu, lap->off_cpu));
}

/*
 * Begin the next lap. Return for how long the waiter kept others waiting, if it
 * took long, else zero. That others had the CPU does not count.
 */
static u64 htw_wake_next_lap(struct htw_wake_lap *lap)
{
	const struct htw_wake_lap last = *lap;
	u64 took, delay;

	*lap = htw_wake_lap();
	took = lap->at - last.at;
	delay = lap->run_delay - last.run_delay;
	if (took <= HTW_WAKE_NS + htw_off_cpu_since(lap->off_cpu, last.off_cpu) &&
	    took <= HTW_WAKE_BLOCKED_NS + delay)
		return 0;
	return took - min(took, delay);
}

/* For walks and wake_up(), which may find our own entries: wake no task. */
static int htw_wake_mark_func(wait_queue_entry_t *entry, unsigned int mode,
			      int flags, void *key)
{
	return 0;
}

/* Is a walk of the context's waiters under way? */
static bool htw_wake_is_walking(const struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->wait.lock);

	return !list_empty(&ctx->wake_mark.entry);
}

/* Note that a waiter is woken alone, if it sleeps; @next is the entry behind it. */
static void htw_wake_note_alone(struct htw_context *ctx, wait_queue_entry_t *next)
{
	lockdep_assert_held(&ctx->wait.lock);

	list_move_tail(&ctx->wake_rest.entry, &next->entry);
	WRITE_ONCE(ctx->wake_alone, true);
}

/* No waiter was woken alone, or the walk goes on behind it. */
static void htw_wake_forget_alone(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->wait.lock);

	if (!ctx->wake_alone)
		return;
	list_del_init(&ctx->wake_rest.entry);
	WRITE_ONCE(ctx->wake_alone, false);
}

/* Put the mark behind this entry, or the list's head. No walk is under way. */
static void htw_wake_start(struct htw_context *ctx, struct list_head *behind)
{
	lockdep_assert_held(&ctx->wait.lock);

	ctx->wake_again = false;
	ctx->wake_was_slow = false;
	list_add(&ctx->wake_mark.entry, behind);
	htw_wake_forget_alone(ctx);
}

/*
 * Begin a walk. If one is under way it starts over at its end, not now:
 * otherwise frequent events would keep it from ever reaching the last waiters.
 */
static void htw_wake_begin(struct htw_context *ctx)
{
	if (htw_wake_is_walking(ctx))
		ctx->wake_again = true;
	else
		htw_wake_start(ctx, &ctx->wait.head);
}

/*
 * Walk from the mark to the end of the list, as wake_up() does: to the first
 * exclusive waiter that is woken. Return: false if the limit was reached
 * before; the mark is where to go on.
 */
static bool htw_wake_walk_on(struct htw_context *ctx,
			     struct htw_wake_limit *limit)
{
	void *key = poll_to_key(EPOLLIN | EPOLLRDNORM);
	wait_queue_head_t *wait = &ctx->wait;
	wait_queue_entry_t *curr, *next;

	curr = list_next_entry(&ctx->wake_mark, entry);
	list_del_init(&ctx->wake_mark.entry);
	list_for_each_entry_safe_from(curr, next, &wait->head, entry) {
		unsigned int flags = curr->flags;
		int ret;

		if (!limit->count || limit->lap.at >= limit->until) {
			list_add_tail(&ctx->wake_mark.entry, &curr->entry);
			return false;
		}

		limit->count--;
		/* Before its task runs, which may leave events behind and look for the note. */
		if (flags & WQ_FLAG_EXCLUSIVE)
			htw_wake_note_alone(ctx, next);
		ret = curr->func(curr, TASK_NORMAL, 0, key);
		limit->woke = true;
		limit->slow_ns = max(limit->slow_ns,
				     htw_wake_next_lap(&limit->lap));
		if (ret < 0 || (ret && flags & WQ_FLAG_EXCLUSIVE))
			return true;
	}
	htw_wake_forget_alone(ctx);
	return true;
}

/*
 * A waiter has taken long. That is not held against its user if it is the first
 * time: with a hypervisor this may be so now and then for any. The next time it
 * is.
 */
static void htw_wake_judge(struct htw_context *ctx, struct htw_turn *turn,
			   u64 took, u64 now)
{
	lockdep_assert_held(&ctx->wait.lock);

	if (turn && turn->may_forgive && ctx->wake_pace < HTW_WAKE_DOUBTED) {
		turn->forgiven_ns = took;
		turn->surprised |= ctx->wake_pace == HTW_WAKE_UNKNOWN;
		ctx->wake_pace = HTW_WAKE_DOUBTED;
		return;
	}
	ctx->wake_pace = HTW_WAKE_SLOW;
	if (turn) {
		turn->surprised |= now >= turn->flow->slow_until;
		turn->flow->slow_until = now + HTW_SLOW_NS;
	}
}

/* Learn from what a walk has woken since it went on. */
static void htw_wake_learn(struct htw_context *ctx, struct htw_turn *turn,
			   const struct htw_wake_limit *limit, bool at_end)
{
	lockdep_assert_held(&ctx->wait.lock);

	if (limit->slow_ns) {
		ctx->wake_was_slow = true;
		htw_wake_judge(ctx, turn, limit->slow_ns, limit->lap.at);
		return;
	}
	if (!limit->woke || ctx->wake_was_slow)
		return;
	if (at_end || ctx->wake_pace == HTW_WAKE_UNKNOWN)
		ctx->wake_pace = HTW_WAKE_QUICK;
}

/* Start over if there were events during the walk, which has ended. */
static bool htw_wake_start_over(struct htw_context *ctx)
{
	if (!ctx->wake_again)
		return false;
	htw_wake_start(ctx, &ctx->wait.head);
	return true;
}

/*
 * Continue the walk that is under way, in a turn or, without one, in process
 * context. Return: true at its end.
 */
static bool htw_wake_walk(struct htw_context *ctx, struct htw_turn *turn,
			  struct htw_wake_limit *limit)
{
	bool at_end;

	do {
		limit->woke = false;
		limit->slow_ns = 0;
		at_end = htw_wake_walk_on(ctx, limit);
		htw_wake_learn(ctx, turn, limit, at_end);
	} while (at_end && htw_wake_start_over(ctx));
	return at_end;
}

/* Would waking the context's tasks in this turn, or in process context, keep others waiting? */
static bool htw_wake_has_to_wait(const struct htw_context *ctx,
				 const struct htw_turn *turn, u64 now)
{
	lockdep_assert_held(&ctx->wait.lock);

	/* Here the task that has the events pays; but only once for what proves slow. */
	if (!turn)
		return ctx->wake_pace == HTW_WAKE_SLOW;
	if (turn->may_be_slow)
		return false;
	if (ctx->wake_pace == HTW_WAKE_SLOW || now < turn->flow->slow_until)
		return true;
	return ctx->wake_pace != HTW_WAKE_QUICK && !turn->may_be_unknown;
}

static struct htw_wake_limit htw_wake_limit(const struct htw_turn *turn,
					    const struct htw_wake_lap *began)
{
	return (struct htw_wake_limit) {
		.count = turn && htw_turn_is_short(turn) ? 1 : HTW_WAKE_MAX,
		.until = began->at + HTW_WAKE_NS,
		.lap = *began,
	};
}

/* Have the pacer of this CPU continue a walk. */
static void htw_wake_schedule(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->wait.lock);

	if (htw_job_is_scheduled(&ctx->wake_job))
		return;
	WRITE_ONCE(ctx->wake_job.pacer, raw_cpu_ptr(&htw_pacers));
	htw_job_schedule(&ctx->wake_job, 0);
}

/* The job's turn: continue the walk of a context with many waiters. */
static enum htw_served htw_wake_serve(struct htw_job *job,
				      struct htw_turn *turn)
{
	struct htw_context *ctx = container_of(job, struct htw_context,
					       wake_job);
	enum htw_served served = HTW_SERVED_MORE;
	struct htw_wake_limit limit;
	struct htw_wake_lap began;
	unsigned long flags;

	if (!htw_trylock_irqsave(&ctx->wait.lock, flags))
		return HTW_SERVED_BUSY;

	began = htw_wake_lap();
	limit = htw_wake_limit(turn, &began);
	if (job->dead) {
		/* It is on no list any more, or htw_job_cancel() takes it off. */
	} else if (htw_wake_is_walking(ctx) &&
		   htw_wake_has_to_wait(ctx, turn, began.at)) {
		served = HTW_SERVED_LATER;
	} else if (!htw_wake_is_walking(ctx) ||
		   htw_wake_walk(ctx, turn, &limit)) {
		htw_job_done(job);
		served = HTW_SERVED_DONE;
	}
	htw_unlock_irqrestore(&ctx->wait.lock, flags);
	turn->wake_ns = htw_wake_took(&began);
	return served;
}

/* Wake some tasks that wait in poll(), and leave the others to the pacer. */
static void htw_wake_pollers(struct htw_context *ctx, struct htw_turn *turn,
			     struct htw_wake_limit *limit)
{
	unsigned long flags;

	if (!htw_trylock_irqsave(&ctx->wait.lock, flags)) {
		spin_lock_irqsave(&ctx->wait.lock, flags);
		limit->lap = htw_wake_lap();
	}
	if (!ctx->wake_job.dead) {
		bool has_to_wait = htw_wake_has_to_wait(ctx, turn, limit->lap.at);

		htw_wake_begin(ctx);
		if (has_to_wait || !htw_wake_walk(ctx, turn, limit))
			htw_wake_schedule(ctx);
	}
	htw_unlock_irqrestore(&ctx->wait.lock, flags);
}

/* Is there anybody to wake? Events have been queued before. */
static bool htw_wake_is_wanted(struct htw_context *ctx)
{
	/* The first has the barrier that pairs with that of tasks that begin to wait. */
	return wq_has_sleeper(&ctx->readers) || wq_has_sleeper(&ctx->wait) ||
	       READ_ONCE(ctx->sigio.fasync);
}

/*
 * Wake one task that waits in read(): the first on the queue that sleeps. Those
 * before it have been woken already, as by a signal, and have yet to run. There
 * may be thousands, which wake_up() would look at with interrupts off, so no
 * more than HTW_WAKE_MAX are passed over: each of them looks for events before
 * it sleeps again, and wakes the next reader if it leaves some.
 */
void htw_wake_reader(struct htw_context *ctx)
{
	unsigned int looks = HTW_WAKE_MAX;
	wait_queue_entry_t *curr, *next;
	unsigned long flags;

	if (!wq_has_sleeper(&ctx->readers))
		return;

	spin_lock_irqsave(&ctx->readers.lock, flags);
	list_for_each_entry_safe(curr, next, &ctx->readers.head, entry) {
		if (curr->func(curr, TASK_INTERRUPTIBLE, 0, NULL) || !--looks)
			break;
	}
	spin_unlock_irqrestore(&ctx->readers.lock, flags);
}

/**
 * htw_wake_contexts() - wake tasks that wait for events of some contexts
 * @contexts: the contexts
 * @nr: number of those
 * @turn: the turn that has delivered to them, or NULL in process context
 *
 * Context: no lock is held. Bottom halves have been off, in an RCU read-side
 * critical section, since before the delivery: contexts may be closed
 * meanwhile.
 */
void htw_wake_contexts(struct htw_context *const *contexts, u32 nr,
		       struct htw_turn *turn)
{
	struct htw_wake_limit limit;
	struct htw_wake_lap began;
	u64 took;

	/* Busy programs look for events without being woken: read no clock for them. */
	for (; nr && !htw_wake_is_wanted(*contexts); nr--)
		contexts++;
	if (!nr)
		return;

	began = htw_wake_lap();
	limit = htw_wake_limit(turn, &began);
	for (u32 i = 0; i < nr; i++) {
		struct htw_context *ctx = contexts[i];

		if (i)
			limit.lap = htw_wake_lap();
		if (wq_has_sleeper(&ctx->wait))
			htw_wake_pollers(ctx, turn, &limit);
		htw_wake_reader(ctx);
		if (READ_ONCE(ctx->sigio.fasync))
			htw_sigio_send(&ctx->sigio, &ctx->user->sigio);
	}

	took = htw_wake_took(&began);
	if (turn)
		turn->wake_ns = took;
	else if (took > HTW_WAKE_NS)
		htw_pacer_owe_wake(took);
}

/**
 * htw_wake_next_poller() - wake the next of the tasks in poll() that are woken alone
 * @ctx: the context, which the calling task keeps open
 *
 * For a task that was woken alone and leaves events unread. The pacer walks on to
 * the waiters behind it on the queue and charges the context's user, not the
 * calling task: that may belong to another user, who was passed the descriptor
 * and only closes it. The waiters before it were awake, and look for events
 * before they sleep.
 *
 * Context: process context, without a lock.
 */
void htw_wake_next_poller(struct htw_context *ctx)
{
	unsigned long flags;

	local_bh_disable();
	spin_lock_irqsave(&ctx->wait.lock, flags);
	/* A walk that is under way will wake one of them. */
	if (!htw_wake_is_walking(ctx) && ctx->wake_alone) {
		htw_wake_start(ctx, &ctx->wake_rest.entry);
		htw_wake_schedule(ctx);
	}
	spin_unlock_irqrestore(&ctx->wait.lock, flags);
	local_bh_enable();
}

/* Set up a new context, whose user is set. */
void htw_wake_init(struct htw_context *ctx)
{
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->readers);
	init_waitqueue_func_entry(&ctx->wake_mark, htw_wake_mark_func);
	INIT_LIST_HEAD(&ctx->wake_mark.entry);
	init_waitqueue_func_entry(&ctx->wake_rest, htw_wake_mark_func);
	INIT_LIST_HEAD(&ctx->wake_rest.entry);
	htw_job_init(&ctx->wake_job, htw_bases_flows(&ctx->user->bases),
		     htw_wake_serve);
	htw_sigio_init(&ctx->sigio);
}

/* Neither htw_wake_pollers() nor the job begins or continues a walk from now on. */
static void htw_wake_kill(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->wait.lock);

	htw_job_kill(&ctx->wake_job);
}

/*
 * Stop waking on behalf of a context that is being closed and has neither
 * waiters nor recipients of SIGIO. What is under way goes on for up to a grace
 * period.
 */
void htw_wake_stop(struct htw_context *ctx)
{
	spin_lock_irq(&ctx->wait.lock);
	htw_wake_kill(ctx);
	spin_unlock_irq(&ctx->wait.lock);
	htw_job_cancel(&ctx->wake_job);
	htw_sigio_stop(&ctx->sigio);
}
