// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callouts: functions of other kernel modules, called after a delay
 *
 * Each CPU has a base: a wheel, a lock and an hrtimer that expires in softirq
 * at the wheel's next tick with work. A start puts the callout into the base of
 * the CPU that it runs on. The hrtimer core moves hrtimers away from CPUs that
 * are idle, isolated or go offline, so a base's functions may be called on any
 * CPU, but never two of them at once. A base outlives its CPU's going offline.
 *
 * &htw_callout.cpu names the base whose lock guards the callout. It changes
 * under both locks, taken one after the other: in between the callout is in no
 * wheel, and @cpu is %HTW_CALLOUT_MOVING, for which others wait. While its
 * function runs it stays where it is, so that the function does not run on two
 * CPUs.
 *
 * A base is set up when it is first used, so that drivers may start callouts
 * before htw_init().
 */

#include <linux/export.h>
#include <linux/hrtimer.h>
#include <linux/htw.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#define CREATE_TRACE_POINTS
#include <trace/events/htw_callout.h>

#include "callout.h"
#include "callout_debug.h"
#include "compat.h"
#include "context.h"
#include "setup.h"

/*
 * A softirq calls functions for this long; what is left is due at once, in
 * another one.
 */
#define HTW_CALLOUT_BUDGET_NS	(200 * NSEC_PER_USEC)
/* Nodes that are looked at while interrupts are off. */
#define HTW_CALLOUT_LOOKS	256u
/*
 * Callouts beyond which a base is given levels: those of the wheel's sorted
 * list.
 */
#define HTW_CALLOUT_FEW		63u

/* &htw_callout.cpu on its way from one base to another. */
#define HTW_CALLOUT_MOVING	U32_MAX

/* Functions of a base that tasks can be waiting for, on PREEMPT_RT. */
#define HTW_CALLOUT_RUNS	8u

/**
 * struct htw_callout_run - what is held while a function runs, on PREEMPT_RT
 * @lock: the lock
 * @waiters: tasks that wait, or are about to, for what ran when they looked
 *	(&htw_callout_base.lock)
 *
 * Functions can be preempted on PREEMPT_RT, by the task that waits for one as
 * well, so that has to sleep, and to lend the function its priority. The task
 * may hold a lock that the next function takes, so it must not wait for that
 * one, too, not even if it gets no CPU between finding its callout running and
 * taking @lock. Therefore the next function runs with another lock as long as
 * there are waiters. If no lock is left, functions wait for the next tick: the
 * tasks need nothing but a CPU.
 */
struct htw_callout_run {
	spinlock_t lock;	/* order: before htw_callout_base.lock */
	unsigned int waiters;
};

/**
 * struct htw_callout_base - the callouts of a CPU
 * @lock: guards all that follows, and the callouts; as that of a timer_list's
 *	base
 * @tick_ns: a tick of @wheel; zero until the base is set up
 * @updated: when the wheel was last brought up to the present, in jiffies
 * @running: whose function is being called
 * @hrtimer: expires at &htw_wheel.next
 * @add_levels: work that gives @wheel its levels
 * @wheel: the callouts, in ticks of CLOCK_MONOTONIC
 * @runs: see &struct htw_callout_run
 * @run: the one of the function that runs
 */
struct htw_callout_base {
	raw_spinlock_t lock;
	u64 tick_ns;
	unsigned long updated;
	struct htw_callout *running;
	struct hrtimer hrtimer;
	struct work_struct add_levels;
	struct htw_wheel wheel;
	struct htw_callout_run runs[HTW_CALLOUT_RUNS];
	struct htw_callout_run *run;
};

static DEFINE_PER_CPU(struct htw_callout_base, htw_callout_bases) = {
	.lock = __RAW_SPIN_LOCK_UNLOCKED(htw_callout_bases.lock),
};

static enum hrtimer_restart htw_callouts_expire(struct hrtimer *hrtimer);
static void htw_callouts_add_levels(struct work_struct *work);

/* The tick that a time is in. */
static u64 htw_callout_tick(const struct htw_callout_base *base, u64 now)
{
	return div64_u64(now, base->tick_ns);
}

static void htw_callout_setup_base(struct htw_callout_base *base)
{
	/* htw_init() may not have checked it yet. */
	base->tick_ns = clamp_t(u64, (u64)htw_tick_us * NSEC_PER_USEC, HTW_TICK_MIN_NS,
				HTW_TICK_MAX_NS);
	hrtimer_setup(&base->hrtimer, htw_callouts_expire, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	INIT_WORK(&base->add_levels, htw_callouts_add_levels);
	for (unsigned int i = 0; i < HTW_CALLOUT_RUNS; i++)
		spin_lock_init(&base->runs[i].lock);
	htw_wheel_init(&base->wheel, htw_callout_tick(base, ktime_get_ns()));
}

static bool htw_callout_needs_levels(const struct htw_callout_base *base)
{
	return base->wheel.pending > HTW_CALLOUT_FEW && !base->wheel.levels;
}

/*
 * Bring a base up to the present, so that a start finds the right level. Once a
 * jiffy is often enough; reading the clock takes as long as all the rest.
 */
static noinline void htw_callout_update(struct htw_callout_base *base)
{
	lockdep_assert_held(&base->lock);

	if (!base->tick_ns)
		htw_callout_setup_base(base);
	base->updated = jiffies;
	htw_wheel_forward(&base->wheel, htw_callout_tick(base, ktime_get_ns()));
	/*
	 * The hrtimer's function asks for levels: a start may be made with locks
	 * of the scheduler or of workqueues held, so it does not queue work.
	 */
	if (htw_callout_needs_levels(base))
		hrtimer_start(&base->hrtimer, 0, HRTIMER_MODE_ABS_SOFT);
}

/* Have the hrtimer expire at &htw_wheel.next, but not before a time. */
static noinline void htw_callout_program(struct htw_callout_base *base, u64 earliest)
{
	u64 next;

	lockdep_assert_held(&base->lock);

	/* hrtimers end at KTIME_MAX; so does the clock. */
	if (check_mul_overflow(base->wheel.next, base->tick_ns, &next) || next >= KTIME_MAX)
		return;
	hrtimer_start(&base->hrtimer, ns_to_ktime(max(next, earliest)), HRTIMER_MODE_ABS_SOFT);
}

/*
 * Give a base levels, as it has many callouts. Without memory, a later start
 * asks again.
 */
static void htw_callouts_add_levels(struct work_struct *work)
{
	struct htw_callout_base *base = container_of(work, struct htw_callout_base, add_levels);
	struct htw_geometry geo;
	void *memory;

	/* Asked for again before it had been done. */
	if (base->wheel.levels)
		return;
	htw_geometry_default(&geo, base->tick_ns, 0);
	memory = kvzalloc(htw_geometry_bytes(&geo), GFP_KERNEL | __GFP_NOWARN);
	if (!memory)
		return;

	htw_levels_init(&geo, memory);

	raw_spin_lock_irq(&base->lock);
	if (htw_wheel_attach_levels(&base->wheel, &geo, memory))
		htw_callout_program(base, 0);
	raw_spin_unlock_irq(&base->lock);
}

/* Lock the base that guards a callout. */
static struct htw_callout_base *htw_callout_lock(const struct htw_callout *callout,
						 unsigned long *flags)
	__acquires(&htw_callout_bases.lock)
{
	struct htw_callout_base *base;
	u32 cpu;

	for (;;) {
		cpu = READ_ONCE(callout->cpu);
		if (cpu != HTW_CALLOUT_MOVING) {
			base = per_cpu_ptr(&htw_callout_bases, cpu);
			raw_spin_lock_irqsave(&base->lock, *flags);
			if (READ_ONCE(callout->cpu) == cpu)
				return base;
			raw_spin_unlock_irqrestore(&base->lock, *flags);
		}
		cpu_relax();
	}
}

/*
 * Take a callout out of the wheel that it is in, if it is pending. Return: was
 * it? For htw_callout_pending() it is until htw_node_init(), so that it is all
 * the time if it is started again.
 */
static bool htw_callout_unlink(struct htw_callout_base *base, struct htw_callout *callout)
{
	lockdep_assert_held(&base->lock);

	if (!htw_node_pending(&callout->node))
		return false;
	base->wheel.pending--;
	htw_wheel_unlink(&base->wheel, &callout->node);
	debug_object_deactivate(callout, &htw_callout_debug_descr);
	trace_htw_callout_cancel(callout);
	return true;
}

/*
 * Move a callout, which is in no wheel and not running, from the base that is
 * locked to this CPU's, which is locked instead. Return: that one.
 */
static noinline struct htw_callout_base *
htw_callout_move(struct htw_callout_base *from, struct htw_callout *callout)
{
	struct htw_callout_base *to = this_cpu_ptr(&htw_callout_bases);

	WRITE_ONCE(callout->cpu, HTW_CALLOUT_MOVING);
	raw_spin_unlock(&from->lock);
	htw_delay_atomic();
	raw_spin_lock(&to->lock);
	WRITE_ONCE(callout->cpu, smp_processor_id());
	return to;
}

/**
 * htw_callout_start_at() - start or move a callout, with an absolute deadline
 * @callout: the callout, pending or not
 * @deadline_ns: when to call its function, in ns of CLOCK_MONOTONIC. If that
 *	has passed, the function is called soon, but never from within this
 *	call, and while it is running not before the next tick
 * @slack_ns: how much later it may be called in order to share an interrupt;
 *	see &htw_add_args.slack
 *
 * The function is called once for each start that finds the callout not
 * pending, unless it is cancelled.
 *
 * Context: any but NMI.
 * Return: true if it was pending; false also if it was shut down, and nothing
 * has been done.
 */
bool htw_callout_start_at(struct htw_callout *callout, u64 deadline_ns, u64 slack_ns)
{
	struct htw_callout_base *base;
	bool pending, running;
	unsigned long flags;
	u64 tick;

	debug_object_assert_init(callout, &htw_callout_debug_descr);
	base = htw_callout_lock(callout, &flags);
	if (!callout->function) {
		bool shut_down = callout->shut_down;

		raw_spin_unlock_irqrestore(&base->lock, flags);
		WARN_RATELIMIT(!shut_down, "htw: callout %p is not initialised\n", callout);
		return false;
	}
	pending = htw_callout_unlink(base, callout);
	running = READ_ONCE(base->running) == callout;
	if (!running && base != this_cpu_ptr(&htw_callout_bases))
		base = htw_callout_move(base, callout);
	if (time_before(base->updated, jiffies) || !base->tick_ns)
		htw_callout_update(base);

	tick = htw_tick_within(deadline_ns, slack_ns, base->tick_ns);
	/*
	 * One that keeps starting itself lets others run, and can be cancelled.
	 */
	if (running)
		tick = max(tick, htw_callout_tick(base, ktime_get_ns()) + 1);
	debug_object_activate(callout, &htw_callout_debug_descr);
	trace_htw_callout_start(callout, deadline_ns, slack_ns, tick * base->tick_ns);
	if (htw_wheel_start(&base->wheel, &callout->node, tick))
		htw_callout_program(base, 0);
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return pending;
}
EXPORT_SYMBOL_GPL(htw_callout_start_at);

/**
 * htw_callout_start() - start or move a callout, with a delay
 * @callout: the callout, pending or not
 * @delay_ns: time from now, in ns
 * @slack_ns: as for htw_callout_start_at()
 *
 * Context: any but NMI.
 * Return: as htw_callout_start_at().
 */
bool htw_callout_start(struct htw_callout *callout, u64 delay_ns, u64 slack_ns)
{
	return htw_callout_start_at(callout, htw_arith_sum(ktime_get_ns(), delay_ns), slack_ns);
}
EXPORT_SYMBOL_GPL(htw_callout_start);

/**
 * htw_callout_cancel() - cancel a callout
 * @callout: the callout, pending or not
 *
 * Its function may still be running on another CPU.
 *
 * Context: any but NMI.
 * Return: true if it was pending, and its function is not called for that
 * start.
 */
bool htw_callout_cancel(struct htw_callout *callout)
{
	struct htw_callout_base *base;
	unsigned long flags;
	bool pending;

	debug_object_assert_init(callout, &htw_callout_debug_descr);
	base = htw_callout_lock(callout, &flags);
	pending = htw_callout_unlink(base, callout);
	htw_node_init(&callout->node);
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return pending;
}
EXPORT_SYMBOL_GPL(htw_callout_cancel);

/*
 * Wait for the function that runs, or at least give up the base's lock: the
 * caller looks again.
 */
static void htw_callout_wait(struct htw_callout_base *base, unsigned long flags)
	__releases(&base->lock)
{
	struct htw_callout_run *run = base->run;

	lockdep_assert_held(&base->lock);

	if (!IS_ENABLED(CONFIG_PREEMPT_RT)) {
		raw_spin_unlock_irqrestore(&base->lock, flags);
		cpu_relax();
		return;
	}
	run->waiters++;
	raw_spin_unlock_irqrestore(&base->lock, flags);
	/*
	 * Not with bottom halves disabled: those of this CPU may be the ones
	 * that call functions, the next as well. Lockdep has the callout's map.
	 */
	lockdep_off();
	spin_lock(&run->lock);
	spin_unlock(&run->lock);
	lockdep_on();
	raw_spin_lock_irq(&base->lock);
	run->waiters--;
	raw_spin_unlock_irq(&base->lock);
}

/*
 * Cancel a callout, and wait until its function does not run. With @shut_down
 * it cannot be started again, by its function neither, so it is cancelled in
 * any case; else when its function is not running.
 */
static bool htw_callout_stop_sync(struct htw_callout *callout, bool shut_down)
{
	struct htw_callout_base *base;
	bool pending = false, running;
	unsigned long flags;

	WARN_ON_ONCE(in_hardirq());
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		lockdep_assert_preemption_enabled();
	debug_object_assert_init(callout, &htw_callout_debug_descr);
	htw_callout_lockdep_wait(callout);

	for (;;) {
		base = htw_callout_lock(callout, &flags);
		/* Pairs with htw_callouts_serve(). */
		running = smp_load_acquire(&base->running) == callout;
		if (shut_down) {
			callout->function = NULL;
			callout->shut_down = true;
		}
		if (!running || shut_down) {
			pending |= htw_callout_unlink(base, callout);
			htw_node_init(&callout->node);
		}
		if (!running)
			break;
		htw_callout_wait(base, flags);
	}
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return pending;
}

/**
 * htw_callout_cancel_sync() - cancel a callout and wait until its function has
 * returned
 * @callout: the callout, pending or not
 *
 * Waits for no other function than that of @callout, so the caller may hold a
 * lock that others take. Must not be called by the function itself, nor with a
 * lock held that it takes.
 *
 * Afterwards the callout is neither pending nor running, provided that nothing
 * but its own function starts it meanwhile. If the callout is to be freed, and
 * others may start it, htw_callout_shutdown_sync() makes sure of that.
 *
 * Context: process or softirq; on PREEMPT_RT it may sleep, and lends the
 * function the caller's priority.
 * Return: true if it was pending once the function did not run, so that exactly
 * one start has been cancelled.
 */
bool htw_callout_cancel_sync(struct htw_callout *callout)
{
	return htw_callout_stop_sync(callout, false);
}
EXPORT_SYMBOL_GPL(htw_callout_cancel_sync);

/**
 * htw_callout_shutdown_sync() - cancel a callout for ever
 * @callout: the callout, pending or not
 *
 * As htw_callout_cancel_sync(), and from the beginning of this call on,
 * starting the callout does nothing and returns false, until it is initialised
 * again. So it can be freed although others, its function as well, may still
 * try to start it.
 *
 * Context: as htw_callout_cancel_sync().
 * Return: true if it was pending, so that exactly one start has been cancelled.
 */
bool htw_callout_shutdown_sync(struct htw_callout *callout)
{
	return htw_callout_stop_sync(callout, true);
}
EXPORT_SYMBOL_GPL(htw_callout_shutdown_sync);

/**
 * htw_callout_pending() - check whether a callout is pending
 * @callout: the callout
 *
 * Context: any. The answer may be out of date at once, unless the caller
 * serialises this with starting and cancelling. One that is pending stays so
 * while it is started again.
 * Return: true if it is pending.
 */
bool htw_callout_pending(const struct htw_callout *callout)
{
	/* The answer may be out of date anyhow. */
	return data_race(htw_node_pending(&callout->node));
}
EXPORT_SYMBOL_GPL(htw_callout_pending);

/* See htw_callout_init() and htw_callout_init_on_stack(). */
void __htw_callout_init(struct htw_callout *callout,
			void (*function)(struct htw_callout *callout), bool on_stack,
			const char *name, struct lock_class_key *key)
{
	if (on_stack)
		debug_object_init_on_stack(callout, &htw_callout_debug_descr);
	else
		debug_object_init(callout, &htw_callout_debug_descr);
	htw_node_init(&callout->node);
	callout->function = function;
	callout->cpu = raw_smp_processor_id();
	callout->shut_down = false;
	lockdep_init_map(&callout->lockdep_map, name, key, 0);
	trace_htw_callout_init(callout);
}
EXPORT_SYMBOL_GPL(__htw_callout_init);

/**
 * htw_callout_destroy_on_stack() - end the life of a callout on the stack
 * @callout: the callout, after htw_callout_cancel_sync()
 *
 * Context: process.
 */
void htw_callout_destroy_on_stack(struct htw_callout *callout)
{
	debug_object_free(callout, &htw_callout_debug_descr);
}
EXPORT_SYMBOL_GPL(htw_callout_destroy_on_stack);

/*
 * Choose what is held while the next function runs: a lock that no task waits
 * for. Return: NULL if there is none.
 */
static struct htw_callout_run *htw_callout_choose_run(struct htw_callout_base *base)
{
	struct htw_callout_run *run = base->runs, *end = run + HTW_CALLOUT_RUNS;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		return run;
	raw_spin_lock_irq(&base->lock);
	while (run < end && run->waiters)
		run++;
	base->run = run;
	raw_spin_unlock_irq(&base->lock);
	return run < end ? run : NULL;
}

/*
 * Call the function of the next callout that is due, or move others to finer
 * levels. Return: false if there was nothing to do.
 */
static bool htw_callouts_serve(struct htw_callout_base *base, u64 now)
{
	unsigned int looks = HTW_CALLOUT_LOOKS;
	void (*function)(struct htw_callout *callout);
	int count = preempt_count();
	struct htw_callout *callout;
	struct htw_node *n;

	raw_spin_lock_irq(&base->lock);
	/* What is started from now on is seen when this is set again. */
	base->wheel.next = 0;
	n = htw_wheel_expire(&base->wheel, htw_callout_tick(base, now), &looks);
	if (!n) {
		raw_spin_unlock_irq(&base->lock);
		return !looks;
	}
	callout = container_of(n, struct htw_callout, node);
	function = callout->function;
	WRITE_ONCE(base->running, callout);
	debug_object_deactivate(callout, &htw_callout_debug_descr);
	raw_spin_unlock_irq(&base->lock);

	trace_htw_callout_expire_entry(callout, function, now);
	htw_callout_lockdep_call(callout, function);
	/* From here on the callout may not exist any more. */
	trace_htw_callout_expire_exit(callout);
	htw_delay_atomic();
	if (count != preempt_count()) {
		WARN_ONCE(1, "htw: %pS changed the preempt count from %08x to %08x\n", function,
			  count, preempt_count());
		preempt_count_set(count);
	}
	/*
	 * Pairs with htw_callout_stop_sync(): then all is seen that the function
	 * has done.
	 */
	smp_store_release(&base->running, NULL);
	return true;
}

static enum hrtimer_restart htw_callouts_expire(struct hrtimer *hrtimer)
{
	struct htw_callout_base *base = container_of(hrtimer, struct htw_callout_base, hrtimer);
	u64 now = ktime_get_ns(), end = now + HTW_CALLOUT_BUDGET_NS;
	struct htw_callout_run *run;
	bool more, needs_levels;

	do {
		run = htw_callout_choose_run(base);
		if (!run) {
			now += base->tick_ns;
			break;
		}
		if (IS_ENABLED(CONFIG_PREEMPT_RT))
			spin_lock(&run->lock);
		more = htw_callouts_serve(base, now);
		if (IS_ENABLED(CONFIG_PREEMPT_RT))
			spin_unlock(&run->lock);
		now = ktime_get_ns();
	} while (more && now < end);

	raw_spin_lock_irq(&base->lock);
	htw_wheel_next(&base->wheel);
	/*
	 * For an earlier time the hrtimer core would call this again before all
	 * others.
	 */
	htw_callout_program(base, now);
	needs_levels = htw_callout_needs_levels(base);
	raw_spin_unlock_irq(&base->lock);
	if (needs_levels)
		schedule_work(&base->add_levels);
	return HRTIMER_NORESTART;
}

/**
 * htw_callouts_exit() - free the bases
 *
 * No callout is pending: modules that use them hold a reference to this one.
 *
 * Context: process, may sleep.
 */
void htw_callouts_exit(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct htw_callout_base *base = per_cpu_ptr(&htw_callout_bases, cpu);

		if (!base->tick_ns)
			continue;
		hrtimer_cancel(&base->hrtimer);
		cancel_work_sync(&base->add_levels);
		if (!WARN_ON(base->wheel.pending))
			kvfree(htw_wheel_remove_levels(&base->wheel));
	}
}
