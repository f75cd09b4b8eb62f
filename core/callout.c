// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callouts: functions of other kernel modules, called after a delay
 *
 * A callout is guarded by the lock of the base that it was last on
 * (&htw_entry.cpu). Starting it moves it to the caller's CPU under the locks of
 * both bases, so it is always in one wheel or in none. A callout whose function
 * is running stays on its base, so that the function never runs on two CPUs at
 * once.
 */

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/export.h>
#include <linux/htw.h>
#include <linux/sched.h>

#include "bases.h"
#include "callout.h"
#include "timer.h"

/* Units of a turn for a callout's function, which may run for longer than a delivery takes. */
#define HTW_CALLOUT_UNITS	4u

/* &htw_entry.cpu of callouts that were started before htw_callouts_init(). */
#define HTW_CPU_EARLY		U16_MAX

/*
 * Holds the callouts that are started before htw_callouts_init(), which takes
 * them over; only kernels with htw built in have any. Its wheel has no levels.
 * Its tick is 1 ns, and it has no hrtimer: nothing expires there. Before it is
 * used, htw_callouts_init_early() has been called.
 */
struct htw_base htw_early_base = {
	.lock = __SPIN_LOCK_UNLOCKED(htw_early_base.lock),
	.expiry_lock = __SPIN_LOCK_UNLOCKED(htw_early_base.expiry_lock),
	.tick_ns = 1,
	.clock = HTW_MONOTONIC,
	.cpu = HTW_CPU_EARLY,
};

/* Each CPU's base for callouts; never NULL. */
DEFINE_PER_CPU(struct htw_base *, htw_callout_bases) = &htw_early_base;

static enum htw_served htw_callout_serve(struct htw_job *job,
					 struct htw_turn *turn);

static DEFINE_PER_CPU(struct htw_bases_cpu, htw_callout_cpus);
static struct htw_bases htw_callout_set = {
	.cpus = &htw_callout_cpus,
	.class = HTW_CLASS_CALLOUTS,
	.serve = htw_callout_serve,
	.gfp = GFP_KERNEL,
};

static int htw_callouts_cpuhp;

/* Initialize the wheel of #htw_early_base, unless that has been done. */
static noinline void htw_callouts_init_early(void)
{
	spin_lock_bh(&htw_early_base.lock);
	if (!htw_early_base.wheel.level)
		htw_wheel_init(&htw_early_base.wheel, 0);
	spin_unlock_bh(&htw_early_base.lock);
}

static struct htw_base *htw_callout_base(const struct htw_callout *callout)
{
	unsigned int cpu = READ_ONCE(callout->node.cpu);

	if (cpu == HTW_CPU_EARLY)
		return &htw_early_base;
	/* Pairs with htw_callouts_cpu_prepare(). */
	return smp_load_acquire(per_cpu_ptr(&htw_callout_bases, cpu));
}

/* Disable bottom halves and lock the base that guards a callout. */
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
 * htw_callout_init() - initialise a callout
 * @callout: the callout, not pending
 * @function: called in softirq with no lock held; may start the callout again,
 *	or free it
 *
 * Context: any but hardirq and NMI.
 */
void htw_callout_init(struct htw_callout *callout,
		      void (*function)(struct htw_callout *callout))
{
	callout->node = (struct htw_entry) {
		/* HTW_CPU_EARLY until htw_callouts_init() has run. */
		.cpu = raw_cpu_read(htw_callout_bases)->cpu,
		.state = HTW_IDLE,
	};
	if (unlikely(callout->node.cpu == HTW_CPU_EARLY))
		htw_callouts_init_early();
	callout->function = function;
}
EXPORT_SYMBOL_GPL(htw_callout_init);

static void htw_callout_link(struct htw_base *base, struct htw_entry *n,
			     u64 deadline, u64 slack)
{
	/* Reading the clock takes as long as all the rest, and once a jiffy is accurate enough. */
	if (time_before(base->forwarded_at, jiffies)) {
		base->forwarded_at = jiffies;
		htw_base_forward(base, htw_base_now(base));
	}
	if (htw_base_start(base, n,
			   htw_base_choose_tick(base, deadline, slack, 0)))
		htw_base_reprogram(base);
	WRITE_ONCE(n->state, HTW_PENDING);
}

/*
 * Start a callout on @target if it was last there, as most were; else return
 * false. This takes one lock instead of two in order.
 */
static bool htw_callout_start_on_target(struct htw_base *target,
					struct htw_entry *n, u64 deadline,
					u64 slack, bool *pending)
{
	bool on_target;

	htw_lock(&target->lock);
	on_target = READ_ONCE(n->cpu) == target->cpu;
	if (likely(on_target)) {
		*pending = n->state == HTW_PENDING;
		if (*pending)
			htw_base_stop(target, n);
		htw_callout_link(target, n, deadline, slack);
	}
	htw_unlock(&target->lock);
	return on_target;
}

/* Start a callout that was last on another base, under the locks of both. */
static noinline bool htw_callout_start_migrating(struct htw_base *target,
						 struct htw_callout *callout,
						 u64 deadline, u64 slack)
{
	struct htw_entry *n = &callout->node;
	struct htw_base *source;
	bool pending;

	for (;;) {
		source = htw_callout_base(callout);
		htw_base_double_lock(target, source);
		if (READ_ONCE(n->cpu) == source->cpu)
			break;
		htw_base_double_unlock(target, source);
	}
	pending = n->state == HTW_PENDING;
	if (pending)
		htw_base_stop(source, n);
	/* While its function runs, it stays on its base. */
	htw_callout_link(source->running == n ? source : target, n, deadline, slack);
	htw_base_double_unlock(target, source);
	return pending;
}

/**
 * htw_callout_start_at() - start or move a callout, with an absolute deadline
 * @callout: the callout, pending or not
 * @deadline_ns: when to call its function, in ns of CLOCK_MONOTONIC. If this
 *	has passed, the function is called soon, but never from within this call
 * @slack_ns: how much later it may be called in order to share an interrupt
 *
 * Context: process or softirq; sleeps only on PREEMPT_RT.
 * Return: true if it was pending.
 */
bool htw_callout_start_at(struct htw_callout *callout, u64 deadline_ns,
			  u64 slack_ns)
{
	struct htw_base *target;
	bool pending;

	WARN_ON_ONCE(in_hardirq() || in_nmi());
	local_bh_disable();
	/* Pairs with htw_callouts_cpu_prepare(). */
	target = smp_load_acquire(per_cpu_ptr(&htw_callout_bases, htw_isolation_target_cpu()));
	if (!htw_callout_start_on_target(target, &callout->node, deadline_ns,
					 slack_ns, &pending))
		pending = htw_callout_start_migrating(target, callout,
						      deadline_ns, slack_ns);
	local_bh_enable();
	return pending;
}
EXPORT_SYMBOL_GPL(htw_callout_start_at);

/**
 * htw_callout_start() - start or move a callout, with a delay
 * @callout: the callout, pending or not
 * @delay_ns: time from now, in ns
 * @slack_ns: as for htw_callout_start_at()
 *
 * Context: as for htw_callout_start_at().
 * Return: true if it was pending.
 */
bool htw_callout_start(struct htw_callout *callout, u64 delay_ns, u64 slack_ns)
{
	u64 now = ktime_get_ns();

	return htw_callout_start_at(callout, htw_arith_sum(now, delay_ns), slack_ns);
}
EXPORT_SYMBOL_GPL(htw_callout_start);

static bool htw_callout_try_cancel(struct htw_callout *callout,
				   struct htw_base **running)
{
	struct htw_base *base = htw_callout_lock(callout);
	bool pending = callout->node.state == HTW_PENDING;

	if (pending) {
		htw_base_stop(base, &callout->node);
		WRITE_ONCE(callout->node.state, HTW_IDLE);
	}
	*running = base->running == &callout->node ? base : NULL;
	htw_callout_unlock(base);
	return pending;
}

/**
 * htw_callout_cancel() - cancel a callout
 * @callout: the callout, pending or not
 *
 * Its function may still be running on another CPU.
 *
 * Context: process or softirq; sleeps only on PREEMPT_RT.
 * Return: true if it was pending.
 */
bool htw_callout_cancel(struct htw_callout *callout)
{
	struct htw_base *running;

	return htw_callout_try_cancel(callout, &running);
}
EXPORT_SYMBOL_GPL(htw_callout_cancel);

/**
 * htw_callout_cancel_sync() - cancel a callout and wait until its function has returned
 * @callout: the callout, pending or not
 *
 * Afterwards the callout is neither pending nor running, and can be freed,
 * provided that it is not started again concurrently; only its own function may
 * do that. The caller must hold no lock that the function takes, and must not
 * be the function. On PREEMPT_RT the function inherits the priority of the
 * caller while it waits.
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
 * htw_callout_pending() - check whether a callout is pending
 * @callout: the callout
 *
 * Context: any. The answer may be stale at once unless the caller serialises
 * this with starting and cancelling.
 * Return: true if it is pending.
 */
bool htw_callout_pending(const struct htw_callout *callout)
{
	return READ_ONCE(callout->node.state) == HTW_PENDING;
}
EXPORT_SYMBOL_GPL(htw_callout_pending);

/* Call the function of an expired callout; the base's lock is dropped meanwhile. */
static void htw_callout_call(struct htw_base *base, struct htw_entry *n)
{
	struct htw_callout *callout = container_of(n, struct htw_callout, node);
	void (*function)(struct htw_callout *callout) = callout->function;

	lockdep_assert_held(&base->expiry_lock);

	WRITE_ONCE(n->state, HTW_IDLE);
	base->running = n;
	htw_unlock(&base->lock);
	function(callout);
	/* The function may have freed the callout. */
	htw_lock(&base->lock);
	base->running = NULL;
}

/* Call the functions of callouts that are due; see &htw_job.serve. */
static enum htw_served htw_callout_serve(struct htw_job *job,
					 struct htw_turn *turn)
{
	struct htw_base *base = container_of(job, struct htw_base, job);
	unsigned int units = turn->units;
	enum htw_served served;
	struct htw_node *n;
	u64 now;

	spin_lock(&base->expiry_lock);
	if (htw_base_begin_turn(base, turn, &served)) {
		now = htw_base_tick(base, htw_base_turn_now(base, turn));
		while ((n = htw_wheel_expire(&base->wheel, now, &units))) {
			htw_callout_call(base, container_of(n, struct htw_entry, node));
			units -= min(units, HTW_CALLOUT_UNITS);
		}
		served = htw_base_end_turn(base, units && htw_wheel_cascade(&base->wheel, &units));
	}
	spin_unlock(&base->expiry_lock);
	return served;
}

/* A CPU is about to come online: create its base for callouts, at the first time. */
static int htw_callouts_cpu_prepare(unsigned int cpu)
{
	struct htw_base *base = htw_bases_create_cpuslocked(&htw_callout_set,
							    HTW_MONOTONIC, cpu);

	if (!base)
		return -ENOMEM;
	/* Pairs with htw_callout_base(). */
	smp_store_release(per_cpu_ptr(&htw_callout_bases, cpu), base);
	return 0;
}

/* Move the callouts that were started before htw_callouts_init(). */
static void __init htw_callouts_take_early(void)
{
	struct htw_base *base;
	struct htw_node *n;

	htw_callouts_init_early();
	local_bh_disable();
	base = this_cpu_read(htw_callout_bases);
	htw_base_double_lock(base, &htw_early_base);
	while ((n = htw_wheel_evict(&htw_early_base.wheel))) {
		htw_base_forward(base, htw_base_now(base));
		if (htw_base_start(base, container_of(n, struct htw_entry, node),
				   htw_base_choose_tick(base, n->expires, 0, 0)))
			htw_base_reprogram(base);
	}
	htw_base_double_unlock(base, &htw_early_base);
	local_bh_enable();
}

/**
 * htw_callouts_init() - make the bases for callouts, and take over early ones
 *
 * Context: process, may sleep; htw_bases_init() has been called.
 * Return: 0 or a negative error.
 */
int __init htw_callouts_init(void)
{
	int ret;

	htw_bases_init_set(&htw_callout_set, 0);
	ret = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "htw:prepare",
				htw_callouts_cpu_prepare, NULL);
	if (ret < 0) {
		htw_callouts_exit();
		return ret;
	}
	htw_callouts_cpuhp = ret;
	htw_callouts_take_early();
	return 0;
}

/* Undo htw_callouts_init(). No callout is left. May sleep. */
void htw_callouts_exit(void)
{
	unsigned int cpu;
	LIST_HEAD(gone);

	if (htw_callouts_cpuhp)
		cpuhp_remove_state_nocalls(htw_callouts_cpuhp);
	/* If htw is built in and htw_callouts_init() has failed, callouts can still be started. */
	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(htw_callout_bases, cpu), &htw_early_base);
	htw_bases_take(&htw_callout_set, &gone);
	htw_bases_free(&gone);
}
