// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callouts: functions that other kernel modules want to be called later
 *
 * A callout is guarded by the lock of the base that it was last on. Starting
 * one moves it to the CPU that asks, under the locks of both, so it is in one
 * wheel or in none at any time, and never on its way. One whose function runs
 * at that moment stays where it is, so that it never runs on two CPUs.
 */

#include <linux/export.h>
#include <linux/htw.h>
#include <linux/sched.h>

#include "base.h"
#include "callout.h"
#include "timer.h"

/* As many timers a callout counts for: it is others' code. */
#define HTW_CALLOUT_UNITS	4u

static struct htw_base *htw_callout_base(const struct htw_callout *callout)
{
	const unsigned int cpu = READ_ONCE(callout->node.cpu);

	if (unlikely(cpu == HTW_CPU_EARLY))
		return &htw_early_base;
	/* Pairs with htw_bases_cpu_prepare(). */
	return smp_load_acquire(per_cpu_ptr(&htw_callout_bases, cpu));
}

/* Locks the base that guards a callout; bottom halves are off afterwards. */
static struct htw_base *htw_callout_lock(const struct htw_callout *callout)
{
	struct htw_base *base;

	local_bh_disable();
	for (;;) {
		base = htw_callout_base(callout);
		htw_lock(&base->lock);
		if (likely(READ_ONCE(callout->node.cpu) == base->cpu))
			return base;
		htw_unlock(&base->lock);
	}
}

static void htw_callout_unlock(struct htw_base *base)
{
	htw_unlock(&base->lock);
	local_bh_enable();
}

/**
 * htw_callout_init() - prepares a callout
 * @callout: the callout, not pending
 * @function: what to call, in softirq with no lock held; it may start the
 *	callout again, and may free it
 *
 * Context: any but hardirq and NMI.
 */
void htw_callout_init(struct htw_callout *callout,
		      void (*function)(struct htw_callout *callout))
{
	callout->node = (struct htw_node) {
		/* Not this CPU where there are no bases yet. */
		.cpu = raw_cpu_read(htw_callout_bases)->cpu,
		.state = HTW_IDLE,
	};
	callout->function = function;
}
EXPORT_SYMBOL_GPL(htw_callout_init);

/* Starts a callout that is in no wheel. */
static void htw_callout_link(struct htw_base *base, struct htw_node *n, u64 deadline, u64 slack)
{
	/*
	 * Reading the clock takes as long as all the rest, and some ticks more or less do
	 * not matter to where a node is put: once a jiffy is enough.
	 */
	if (unlikely(time_before(base->touched, jiffies))) {
		base->touched = jiffies;
		htw_base_touch(base, htw_base_now(base));
	}
	htw_base_start(base, n, htw_base_tick(base, deadline, slack, 0));
	WRITE_ONCE(n->state, HTW_PENDING);
}

/*
 * Starts a callout that was last on the base where it is to be started. Nearly
 * all are: then there is one lock to take.
 *
 * Return: false where it is not; nothing has happened then.
 */
static bool htw_callout_start_on_target(struct htw_base *target, struct htw_node *n, u64 deadline,
					u64 slack, bool *pending)
{
	bool mine;

	htw_lock(&target->lock);
	mine = READ_ONCE(n->cpu) == target->cpu;
	if (likely(mine)) {
		*pending = n->state == HTW_PENDING;
		if (*pending)
			htw_base_stop(target, n);
		htw_callout_link(target, n, deadline, slack);
	}
	htw_unlock(&target->lock);
	return mine;
}

/* Starts a callout that was last on another CPU's base: under the locks of both. */
static noinline bool htw_callout_start_migrating(struct htw_base *target,
						 struct htw_callout *callout, u64 deadline,
						 u64 slack)
{
	struct htw_node *n = &callout->node;
	struct htw_base *there;
	bool pending;

	for (;;) {
		there = htw_callout_base(callout);
		htw_base_double_lock(target, there);
		if (READ_ONCE(n->cpu) == there->cpu)
			break;
		htw_base_double_unlock(target, there);
	}
	pending = n->state == HTW_PENDING;
	if (pending)
		htw_base_stop(there, n);
	/* While its function runs it stays where it is. */
	htw_callout_link(there->running == n ? there : target, n, deadline, slack);
	htw_base_double_unlock(target, there);
	return pending;
}

/**
 * htw_callout_start_at() - has a callout's function called at a point in time
 * @callout: the callout, pending or not
 * @deadline_ns: when, in ns of CLOCK_MONOTONIC; at once where that has passed,
 *	but never from within this call
 * @slack_ns: how much later it may be called so that it can share a wake-up
 *
 * One that is pending is moved to the new point in time. That cannot fail.
 *
 * Context: process or softirq; does not sleep but on PREEMPT_RT.
 * Return: true if it was pending.
 */
bool htw_callout_start_at(struct htw_callout *callout, u64 deadline_ns, u64 slack_ns)
{
	struct htw_base *target;
	bool pending;

	WARN_ON_ONCE(in_hardirq() || in_nmi());
	local_bh_disable();
	/* Pairs with htw_bases_cpu_prepare(). */
	target = smp_load_acquire(per_cpu_ptr(&htw_callout_bases, htw_target_cpu()));
	if (unlikely(!htw_callout_start_on_target(target, &callout->node, deadline_ns, slack_ns,
						  &pending)))
		pending = htw_callout_start_migrating(target, callout, deadline_ns, slack_ns);
	local_bh_enable();
	return pending;
}
EXPORT_SYMBOL_GPL(htw_callout_start_at);

/**
 * htw_callout_start() - has a callout's function called after some time
 * @callout: the callout, pending or not
 * @delay_ns: how long from now, in ns
 * @slack_ns: as for htw_callout_start_at()
 *
 * Context: as for htw_callout_start_at().
 * Return: true if it was pending.
 */
bool htw_callout_start(struct htw_callout *callout, u64 delay_ns, u64 slack_ns)
{
	const u64 now = ktime_get_ns();

	return htw_callout_start_at(callout, htw_add_saturated(now, delay_ns), slack_ns);
}
EXPORT_SYMBOL_GPL(htw_callout_start);

static bool htw_callout_try_cancel(struct htw_callout *callout, struct htw_base **running)
{
	struct htw_base *base = htw_callout_lock(callout);
	const bool pending = callout->node.state == HTW_PENDING;

	if (pending) {
		htw_base_stop(base, &callout->node);
		WRITE_ONCE(callout->node.state, HTW_IDLE);
	}
	*running = base->running == &callout->node ? base : NULL;
	htw_callout_unlock(base);
	return pending;
}

/**
 * htw_callout_cancel() - has a callout's function not be called
 * @callout: the callout, pending or not
 *
 * The function may still be running, on another CPU.
 *
 * Context: process or softirq; does not sleep but on PREEMPT_RT.
 * Return: true if it was pending, and now is not.
 */
bool htw_callout_cancel(struct htw_callout *callout)
{
	struct htw_base *running;

	return htw_callout_try_cancel(callout, &running);
}
EXPORT_SYMBOL_GPL(htw_callout_cancel);

/**
 * htw_callout_cancel_sync() - has a callout's function not be called, and waits
 * for it to return where it runs
 * @callout: the callout, pending or not
 *
 * Afterwards it is neither pending nor running, so it can be freed, provided
 * that nobody starts it again; its function may, and is then cancelled as well.
 * The caller must hold no lock that the function takes, and not be the
 * function. On PREEMPT_RT the wait lends the caller's priority to the function.
 *
 * Context: process.
 * Return: true if it was pending.
 */
bool htw_callout_cancel_sync(struct htw_callout *callout)
{
	struct htw_base *running;
	bool pending = false;

	WARN_ON_ONCE(in_interrupt());
	for (;;) {
		pending |= htw_callout_try_cancel(callout, &running);
		if (!running)
			return pending;
		spin_lock_bh(&running->expiry_lock);
		spin_unlock_bh(&running->expiry_lock);
	}
}
EXPORT_SYMBOL_GPL(htw_callout_cancel_sync);

/**
 * htw_callout_pending() - is a callout pending?
 * @callout: the callout
 *
 * Context: any. Without something that keeps others from starting and
 * cancelling it, the answer may be stale at once.
 * Return: true if it is.
 */
bool htw_callout_pending(const struct htw_callout *callout)
{
	return READ_ONCE(callout->node.state) == HTW_PENDING;
}
EXPORT_SYMBOL_GPL(htw_callout_pending);

/* Calls the function of a callout that has expired; the base's lock is dropped meanwhile. */
static void htw_callout_call(struct htw_base *base, struct htw_node *n)
{
	struct htw_callout *callout = container_of(n, struct htw_callout, node);
	void (*function)(struct htw_callout *callout) = callout->function;

	lockdep_assert_held(&base->expiry_lock);

	WRITE_ONCE(n->state, HTW_IDLE);
	base->running = n;
	htw_unlock(&base->lock);
	function(callout);
	/* It may be freed by now. */
	htw_lock(&base->lock);
	base->running = NULL;
}

/**
 * htw_callout_serve() - calls the functions of callouts that are due
 * @job: of a base for callouts
 * @turn: how much may be done
 *
 * Context: see &htw_job.serve.
 * Return: how the turn has ended.
 */
enum htw_served htw_callout_serve(struct htw_job *job, const struct htw_turn *turn)
{
	struct htw_base *base = container_of(job, struct htw_base, job);
	unsigned int units = turn->units;
	enum htw_served served;
	struct htw_node *n;
	u64 now;

	spin_lock(&base->expiry_lock);
	if (htw_base_begin_turn(base, turn, &served)) {
		now = htw_tick(base, htw_base_now(base));
		while ((n = htw_wheel_expire(&base->wheel, now, &units))) {
			htw_callout_call(base, n);
			units -= min(units, HTW_CALLOUT_UNITS);
		}
		served = htw_base_end_turn(base, units && htw_wheel_cascade(&base->wheel, &units));
	}
	spin_unlock(&base->expiry_lock);
	return served;
}
