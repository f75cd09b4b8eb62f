// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine: on each CPU a wheel, paced by an hrtimer
 *
 * A node is started on the wheel of the CPU that asks for it, so the hrtimer
 * that may have to be reprogrammed is the caller's own: pinned, and never
 * programmed from another CPU. It runs in softirq, and stands at the wheel's
 * next tick with work, or not at all. Stopping a node does not touch it: the
 * callback may find nothing to do once, and then does not come back.
 *
 * One callback does a bounded batch. Where more is due it comes back after a
 * gap as long as the batch took, so that half of the CPU is left to others,
 * and the lock is dropped after each few nodes.
 *
 * When a CPU goes away the core moves its hrtimers, ours included, to another
 * one, where the callback goes on with the wheel it belongs to. Then the nodes
 * move to the wheel of a live CPU, in the order of their ticks.
 */

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/slab.h>
#include <linux/topology.h>

#define CREATE_TRACE_POINTS
#include <trace/events/htw.h>

#include "compat.h"
#include "htw_context.h"
#include "htw_engine.h"

/* Nodes in one go under the lock. */
#define HTW_CHUNK		128
/* As many nodes a callout counts for. */
#define HTW_CALLOUT_COST	16u
/* One callback ends with the chunk in which this much time has passed. */
#define HTW_BUDGET_NS		(200 * NSEC_PER_USEC)
/* Nodes moved in one go off a CPU that has gone; two locks are held for it. */
#define HTW_EVICT_CHUNK		256

struct htw_geometry htw_geometry;
u32 htw_tick_ns;

DEFINE_PER_CPU(struct htw_base *, htw_bases[HTW_CLOCKS]);

/* Private wheels leave each CPU alone until then, in ns of CLOCK_MONOTONIC. */
static DEFINE_PER_CPU(u64, htw_quiet_until);

static int htw_cpuhp_prepare;
static int htw_cpuhp_online;

/* Which clocks the CPUs have bases for; written with CPU hotplug locked out. */
static bool htw_clock_used[HTW_CLOCKS];
/* Guards htw_clock_used[] against another writer. */
static DEFINE_MUTEX(htw_clock_mutex);

static const clockid_t htw_clock_ids[HTW_CLOCKS] = {
	[HTW_CLOCK_MONOTONIC]	= CLOCK_MONOTONIC,
	[HTW_CLOCK_BOOTTIME]	= CLOCK_BOOTTIME,
	[HTW_CLOCK_REALTIME]	= CLOCK_REALTIME,
};

/*
 * Programs the hrtimer for the wheel's next tick, but not before @earliest. We
 * are on its CPU, or in its callback, or it has no CPU.
 */
static void htw_base_program(struct htw_base *base, u64 earliest)
{
	u64 ns;

	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_CLOCK_STILL)
		return;
	if (check_mul_overflow(base->wheel.next, base->tick_ns, &ns) || ns > KTIME_MAX)
		ns = KTIME_MAX;
	ns = max(ns, earliest);
	trace_htw_program(base->cpu, ns);
	hrtimer_start(&base->hrtimer, ns_to_ktime(ns),
		      base->private ? HRTIMER_MODE_ABS_SOFT : HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* On the base's CPU, in hardirq: lets the callback run, which then knows more. */
static void htw_base_kicked(void *data)
{
	struct htw_base *base = data;

	hrtimer_start(&base->hrtimer, 0, HRTIMER_MODE_ABS_PINNED_SOFT);
}

/**
 * htw_base_wake() - work has come ahead of what the hrtimer is programmed for
 * @base: the base
 */
void htw_base_wake(struct htw_base *base)
{
	lockdep_assert_held(&base->lock);

	/* A kick that is under way will do for this node as well. */
	if (base->private || base->cpu == raw_smp_processor_id())
		htw_base_program(base, 0);
	else
		smp_call_function_single_async(base->cpu, &base->kick);
}

/**
 * htw_base_lock_two() - locks two bases of a clock, or one that is both
 * @a: a base
 * @b: another one, or the same
 *
 * Order: that of the lower CPU first.
 *
 * Context: bottom halves are off.
 */
void htw_base_lock_two(struct htw_base *a, struct htw_base *b)
{
	if (b->cpu < a->cpu)
		swap(a, b);
	htw_lock(&a->lock);
	if (a != b)
		htw_lock_nested(&b->lock, SINGLE_DEPTH_NESTING);
}

/**
 * htw_base_unlock_two() - unlocks what htw_base_lock_two() locked
 * @a: a base
 * @b: another one, or the same
 */
void htw_base_unlock_two(struct htw_base *a, struct htw_base *b)
{
	if (a != b)
		htw_unlock(&b->lock);
	htw_unlock(&a->lock);
}

/**
 * htw_base_check_clock() - has a clock that can be set been set back?
 * @base: the base
 * @now: what htw_base_now() returned a short while ago
 *
 * A clock that reads earlier than the wheel's cursor was set back: what is
 * started now would count as past. It is read again, under the lock: the
 * caller may have read it before somebody else moved the cursor.
 *
 * Return: what it is now.
 */
u64 htw_base_check_clock(struct htw_base *base, u64 now)
{
	lockdep_assert_held(&base->lock);

	if (likely(htw_tick(base, now) + 1 >= base->wheel.cursor))
		return now;
	now = htw_base_now(base);
	if (htw_tick(base, now) + 1 >= base->wheel.cursor)
		return now;
	htw_wheel_rewind(&base->wheel, htw_tick(base, now));
	base->rewinds++;
	htw_base_wake(base);
	return now;
}

/**
 * htw_base_catch_up() - htw_base_touch() for a cursor that is not next to the present
 * @base: the base
 * @now: as for htw_base_touch()
 * @tick: the tick of @now
 *
 * Return: as htw_base_touch().
 */
u64 htw_base_catch_up(struct htw_base *base, u64 now, u64 tick)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_touch(&base->wheel, tick);
	/* Somebody else has looked at the clock later. */
	return base->wheel.cursor <= tick + 1 ? now : htw_base_now(base);
}

/**
 * htw_base_due_tick() - the tick for a node that is due when it is started
 * @base: the base
 * @deadline: when it was due, in ns of the base's clock
 * @now: the base's time, not before @deadline
 *
 * The tick has come, so the node is delivered next, in the order of deadlines with
 * others that are late.
 *
 * Return: the tick.
 */
u64 htw_base_due_tick(struct htw_base *base, u64 deadline, u64 now)
{
	lockdep_assert_held(&base->lock);

	/* The clock may be set back before it is delivered: htw_base_run(). */
	if (base->clock == HTW_CLOCK_REALTIME)
		base->due_ns = max(base->due_ns, now);
	return deadline ? min(htw_tick_up(base, deadline), htw_tick(base, now)) : 0;
}

/*
 * Delivers what is due, then moves down what will be, a chunk at the most.
 *
 * Return: true if nothing is left to do now.
 */
static bool htw_base_run(struct htw_base *base, struct htw_delivery *delivery)
{
	const u64 cascades = base->wheel.cascades;
	unsigned int budget = HTW_CHUNK;
	u64 now = htw_base_now(base);
	struct htw_node *n;
	bool was_set_back;
	bool done;

	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_CLOCK_REALTIME)
		now = htw_base_check_clock(base, now);
	/* Since a node was started that was due then, and may not be now. */
	was_set_back = now < base->due_ns;
	for (;;) {
		/* What is due is mostly alike, and delivered without a look at the wheel. */
		if (likely(!was_set_back))
			htw_wheel_took(&base->wheel,
				       htw_deliver_alike(delivery, &base->wheel.due, now,
							 &budget));
		n = htw_wheel_expire(&base->wheel, htw_tick(base, now), &budget);
		if (!n)
			break;
		if (unlikely(n->flags & HTW_NODE_CALLOUT)) {
			htw_delivery_pause(delivery);
			htw_callout_run(base, n);
			/* Others' code: look at the clock sooner. */
			budget -= min(budget, HTW_CALLOUT_COST);
		} else if (likely(!was_set_back) || !htw_deliver_early(delivery, n, now)) {
			htw_deliver(delivery, n, now);
		}
	}
	htw_delivery_pause(delivery);
	done = budget && htw_wheel_cascade(&base->wheel, &budget);
	if (base->wheel.cascades != cascades)
		trace_htw_cascade(base->cpu, base->wheel.cascades - cascades);
	return done;
}

/* Is a private wheel to wait, because others have used up this CPU's half? */
static bool htw_base_must_wait(struct htw_base *base, u64 began)
{
	const u64 quiet_until = this_cpu_read(htw_quiet_until);

	if (!base->private || began >= quiet_until)
		return false;
	spin_lock(&base->lock);
	htw_base_program(base, htw_base_now(base) + (quiet_until - began));
	spin_unlock(&base->lock);
	return true;
}

static enum hrtimer_restart htw_base_callback(struct hrtimer *hrtimer)
{
	struct htw_base *base = container_of(hrtimer, struct htw_base, hrtimer);
	const u64 began = ktime_get_ns();
	struct htw_delivery delivery;
	u64 spent;
	bool done;

	if (htw_base_must_wait(base, began))
		return HRTIMER_NORESTART;

	/* Contexts that timers are delivered to go after a grace period. */
	rcu_read_lock();
	htw_delivery_begin(&delivery, base);
	do {
		spin_lock(&base->expiry_lock);
		spin_lock(&base->lock);
		/* Until we know when to come back, nobody else shall say so. */
		base->wheel.next = 0;
		done = htw_base_run(base, &delivery);
		spin_unlock(&base->lock);
		spin_unlock(&base->expiry_lock);
		htw_delivery_wake(&delivery);
		spent = ktime_get_ns() - began;
	} while (!done && spent < HTW_BUDGET_NS);

	/*
	 * While more is left, next stays 0, so that no start brings us back
	 * before the gap is over. The gap also keeps the expiry from being at
	 * or before now: that would run in this very softirq.
	 */
	spin_lock(&base->lock);
	base->callbacks++;
	if (done)
		base->wheel.next = htw_wheel_next(&base->wheel);
	else
		base->exhausted++;
	if (base->private)
		this_cpu_write(htw_quiet_until, began + 2 * spent);
	/* Off a CPU that has gone the nodes are moved, to another's hrtimer. */
	if (base->wheel.next != HTW_NEVER && !base->offline)
		htw_base_program(base, htw_base_now(base) + spent);
	spin_unlock(&base->lock);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

/**
 * htw_base_advance() - moves %HTW_CLOCK_STILL on and delivers what is due then
 * @base: the base, a private one on that clock
 * @now: the time it is then; an earlier one than before leaves it as it is
 * @expired: what was delivered is added to it
 *
 * Context: process; one chunk of nodes is done.
 * Return: true if nothing is left to do.
 */
bool htw_base_advance(struct htw_base *base, u64 now, u64 *expired)
{
	struct htw_delivery delivery;
	bool done;

	htw_delivery_begin(&delivery, base);
	rcu_read_lock();
	spin_lock_bh(&base->lock);
	atomic64_set(&base->still_ns, max_t(u64, now, atomic64_read(&base->still_ns)));
	done = htw_base_run(base, &delivery);
	spin_unlock_bh(&base->lock);
	htw_delivery_wake(&delivery);
	rcu_read_unlock();
	*expired += delivery.expired;
	return done;
}

/**
 * htw_base_free() - frees a base
 * @base: the base, whose wheel is empty
 *
 * Context: may sleep.
 */
void htw_base_free(struct htw_base *base)
{
	if (base->clock != HTW_CLOCK_STILL)
		hrtimer_cancel(&base->hrtimer);
	htw_wheel_destroy(&base->wheel);
	kfree(base);
}

static struct htw_base *htw_base_alloc(enum htw_clock clock, const struct htw_geometry *geo,
				       u32 tick_ns, gfp_t gfp, int node)
{
	struct htw_base *base = kzalloc_node(sizeof(*base), gfp, node);

	if (!base)
		return NULL;
	spin_lock_init(&base->lock);
	spin_lock_init(&base->expiry_lock);
	base->clock = clock;
	base->tick_ns = tick_ns;
	base->touched = jiffies - 1;
	INIT_CSD(&base->kick, htw_base_kicked, base);
	if (clock != HTW_CLOCK_STILL)
		hrtimer_setup(&base->hrtimer, htw_base_callback, htw_clock_ids[clock],
			      HRTIMER_MODE_ABS_SOFT);
	htw_wheel_init(&base->wheel, geo, htw_tick(base, htw_base_now(base)));
	if (htw_wheel_install_all(&base->wheel, gfp, node)) {
		htw_base_free(base);
		return NULL;
	}
	return base;
}

/**
 * htw_base_alloc_private() - makes a base for one context
 * @clock: its clock
 * @geo: its geometry, which htw_geometry_check() has passed
 * @tick_ns: its tick
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the base or NULL.
 */
struct htw_base *htw_base_alloc_private(enum htw_clock clock, const struct htw_geometry *geo,
					u32 tick_ns)
{
	struct htw_base *base = htw_base_alloc(clock, geo, tick_ns, GFP_KERNEL_ACCOUNT,
					       NUMA_NO_NODE);

	if (base)
		base->private = true;
	return base;
}

/* Makes a CPU's base for a clock, or takes it into use again. */
static int htw_base_prepare(unsigned int cpu, enum htw_clock clock)
{
	struct htw_base *base = per_cpu(htw_bases[clock], cpu);

	if (!base) {
		base = htw_base_alloc(clock, &htw_geometry, htw_tick_ns, GFP_KERNEL,
				      cpu_to_node(cpu));
		if (!base)
			return -ENOMEM;
		base->cpu = cpu;
		/* Pairs with those who look without a lock, as debugfs does. */
		smp_store_release(per_cpu_ptr(&htw_bases[clock], cpu), base);
		return 0;
	}
	spin_lock_bh(&base->lock);
	base->offline = false;
	base->wheel.next = HTW_NEVER;
	spin_unlock_bh(&base->lock);
	return 0;
}

/* A CPU is about to come up, for the first time or again. */
static int htw_engine_cpu_prepare(unsigned int cpu)
{
	for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
		int ret = htw_clock_used[clock] ? htw_base_prepare(cpu, clock) : 0;

		if (ret)
			return ret;
	}
	return 0;
}

static bool htw_base_is_empty(struct htw_base *base)
{
	bool empty;

	spin_lock_bh(&base->lock);
	empty = !base->wheel.pending;
	spin_unlock_bh(&base->lock);
	return empty;
}

/* Moves some nodes of a CPU that has gone to the one we are on. */
static void htw_base_evict(struct htw_base *from)
{
	struct htw_base *to;
	bool ahead = false;

	local_bh_disable();
	to = this_cpu_read(htw_bases[from->clock]);
	htw_base_lock_two(to, from);
	htw_wheel_touch(&to->wheel, htw_tick(to, htw_base_now(to)));
	for (unsigned int i = 0; i < HTW_EVICT_CHUNK; i++) {
		struct htw_node *n = htw_wheel_evict(&from->wheel);

		if (!n)
			break;
		WRITE_ONCE(n->cpu, to->cpu);
		ahead |= htw_wheel_start(&to->wheel, n);
	}
	if (ahead)
		htw_base_program(to, 0);
	htw_base_unlock_two(to, from);
	local_bh_enable();
}

/*
 * A CPU has gone; we run on another one. Nobody starts a node on its wheel any
 * more, but some may still be stopping them, and its hrtimer may run here.
 */
static void htw_base_dead(struct htw_base *base)
{
	spin_lock_bh(&base->lock);
	base->offline = true;
	spin_unlock_bh(&base->lock);
	hrtimer_cancel(&base->hrtimer);
	while (!htw_base_is_empty(base)) {
		htw_base_evict(base);
		cond_resched();
	}
}

static int htw_engine_cpu_dead(unsigned int cpu)
{
	for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
		if (per_cpu(htw_bases[clock], cpu))
			htw_base_dead(per_cpu(htw_bases[clock], cpu));
	}
	return 0;
}

/*
 * A CPU has come up; we run on it. What was started on its base since it was
 * prepared could not wake it yet.
 */
static int htw_engine_cpu_online(unsigned int cpu)
{
	for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
		struct htw_base *base = per_cpu(htw_bases[clock], cpu);

		if (!base)
			continue;
		spin_lock_bh(&base->lock);
		if (base->wheel.next != HTW_NEVER)
			htw_base_program(base, 0);
		spin_unlock_bh(&base->lock);
	}
	return 0;
}

static void htw_base_wait_for_kick(struct htw_base *base)
{
	while (base && READ_ONCE(base->kick.node.u_flags) & CSD_FLAG_LOCK)
		cpu_relax();
}

/**
 * htw_engine_use_clock() - sees to it that the CPUs have bases for a clock
 * @clock: the clock, not %HTW_CLOCK_STILL
 *
 * They are made when somebody first wants them, and stay.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int htw_engine_use_clock(enum htw_clock clock)
{
	unsigned int cpu;
	int ret = 0;

	mutex_lock(&htw_clock_mutex);
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		if (htw_clock_used[clock])
			break;
		ret = htw_base_prepare(cpu, clock);
		if (ret)
			break;
	}
	if (!ret)
		htw_clock_used[clock] = true;
	cpus_read_unlock();
	mutex_unlock(&htw_clock_mutex);
	return ret;
}

/**
 * htw_engine_init() - makes the bases, with #htw_geometry and #htw_tick_ns
 *
 * Context: process, may sleep.
 * Return: 0 or a negative error.
 */
int htw_engine_init(void)
{
	int ret;

	htw_clock_used[HTW_CLOCK_MONOTONIC] = true;
	ret = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "htw:prepare",
				htw_engine_cpu_prepare, htw_engine_cpu_dead);
	if (ret < 0)
		goto err;
	htw_cpuhp_prepare = ret;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "htw:online", htw_engine_cpu_online, NULL);
	if (ret < 0)
		goto err;
	htw_cpuhp_online = ret;
	return 0;

err:
	htw_engine_exit();
	return ret;
}

/**
 * htw_engine_exit() - undoes htw_engine_init(); no node is in any wheel
 *
 * Context: process, may sleep.
 */
void htw_engine_exit(void)
{
	unsigned int cpu;

	if (htw_cpuhp_online)
		cpuhp_remove_state_nocalls(htw_cpuhp_online);
	if (htw_cpuhp_prepare)
		cpuhp_remove_state_nocalls(htw_cpuhp_prepare);
	/* A kick that is under way would start an hrtimer after its cancel. */
	for_each_possible_cpu(cpu) {
		for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++)
			htw_base_wait_for_kick(per_cpu(htw_bases[clock], cpu));
	}
	synchronize_rcu();	/* kicks unlock their data before they run, in hardirq */
	for_each_possible_cpu(cpu) {
		for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
			if (per_cpu(htw_bases[clock], cpu))
				htw_base_free(per_cpu(htw_bases[clock], cpu));
			per_cpu(htw_bases[clock], cpu) = NULL;
		}
	}
}
