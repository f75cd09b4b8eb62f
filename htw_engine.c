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
#include <linux/math64.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "compat.h"
#include "htw_context.h"
#include "htw_engine.h"

/* Nodes in one go under the lock. */
#define HTW_CHUNK		64
/* One callback ends with the chunk in which this much time has passed. */
#define HTW_BUDGET_NS		(200 * NSEC_PER_USEC)
/* Nodes moved in one go off a CPU that has gone; two locks are held for it. */
#define HTW_EVICT_CHUNK		256

struct htw_geometry htw_geometry;
u64 htw_tick_ns;

DEFINE_PER_CPU(struct htw_base *, htw_bases);

static int htw_cpuhp_state;

/* Ticks that have come by @ns. */
static u64 htw_tick(u64 ns)
{
	return div_u64(ns, htw_tick_ns);
}

/* The tick at which nothing is early that is due at @ns. */
static u64 htw_tick_up(u64 ns)
{
	u32 rest;
	u64 tick = div_u64_rem(ns, htw_tick_ns, &rest);

	return tick + !!rest;
}

/* Programs the hrtimer for the wheel's next tick, but not before @earliest. */
static void htw_base_program(struct htw_base *base, u64 earliest)
{
	u64 ns;

	lockdep_assert_held(&base->lock);

	if (check_mul_overflow(base->wheel.next, htw_tick_ns, &ns) || ns > KTIME_MAX)
		ns = KTIME_MAX;
	hrtimer_start(&base->hrtimer, ns_to_ktime(max(ns, earliest)),
		      HRTIMER_MODE_ABS_PINNED_SOFT);
}

/**
 * htw_base_lock_local() - locks the base of the CPU we are on
 *
 * Context: process or softirq; bottom halves are off until
 *	htw_base_unlock_local().
 * Return: the base.
 */
struct htw_base *htw_base_lock_local(void)
{
	struct htw_base *base;

	local_bh_disable();
	base = this_cpu_read(htw_bases);
	htw_lock(&base->lock);
	return base;
}

/**
 * htw_base_unlock_local() - unlocks what htw_base_lock_local() locked
 * @base: the base
 */
void htw_base_unlock_local(struct htw_base *base)
{
	htw_unlock(&base->lock);
	local_bh_enable();
}

/**
 * htw_base_start() - starts a node on the wheel of this CPU
 * @base: what htw_base_lock_local() returned
 * @n: the node, in no wheel
 * @deadline: when it is due, in ns of CLOCK_MONOTONIC
 * @now: what htw_now() returned a short while ago
 *
 * The node expires at the first tick that is not before its deadline, so never
 * early and at most a tick late. This never fails and never expires the node
 * itself: one that is due already comes back through the hrtimer, at once.
 */
void htw_base_start(struct htw_base *base, struct htw_node *n, u64 deadline, u64 now)
{
	lockdep_assert_held(&base->lock);

	n->expires = htw_tick_up(deadline);
	WRITE_ONCE(n->cpu, base->cpu);
	if (htw_wheel_start(&base->wheel, n, htw_tick(now)))
		htw_base_program(base, 0);
}

/**
 * htw_base_stop() - stops a node
 * @base: the base whose wheel it is in
 * @n: the node
 */
void htw_base_stop(struct htw_base *base, struct htw_node *n)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_stop(&base->wheel, n);
}

/*
 * Delivers what is due, then moves down what will be, a chunk at the most.
 *
 * Return: true if nothing is left to do now.
 */
static bool htw_base_run(struct htw_base *base, u64 now)
{
	const u64 tick = htw_tick(now);
	unsigned int budget = HTW_CHUNK;
	struct htw_delivery delivery;
	struct htw_node *n;

	lockdep_assert_held(&base->lock);

	htw_delivery_begin(&delivery, now);
	while ((n = htw_wheel_expire(&base->wheel, tick, &budget)))
		htw_deliver(&delivery, n);
	htw_delivery_end(&delivery);
	return budget && htw_wheel_cascade(&base->wheel, &budget);
}

static enum hrtimer_restart htw_base_callback(struct hrtimer *hrtimer)
{
	struct htw_base *base = container_of(hrtimer, struct htw_base, hrtimer);
	const u64 began = htw_now();
	u64 now = began;
	bool done;

	/* Contexts that timers are delivered to go after a grace period. */
	rcu_read_lock();
	spin_lock(&base->lock);
	base->callbacks++;
	/* Until we know ourselves when to come back, nobody else shall say so. */
	base->wheel.next = 0;
	for (;;) {
		done = htw_base_run(base, now);
		now = htw_now();
		if (done || now - began >= HTW_BUDGET_NS)
			break;
		spin_unlock(&base->lock);
		cpu_relax();
		spin_lock(&base->lock);
	}
	if (base->offline) {
		/* The nodes are moving; whoever moves them starts an hrtimer. */
	} else if (done) {
		base->wheel.next = htw_wheel_next(&base->wheel);
		if (base->wheel.next != HTW_NEVER)
			htw_base_program(base, now + (now - began));
	} else {
		/*
		 * next stays 0: no start brings us back before the gap is over.
		 * An expiry at or before now would run in this very softirq.
		 */
		base->exhausted++;
		htw_base_program(base, now + (now - began));
	}
	spin_unlock(&base->lock);
	rcu_read_unlock();
	return HRTIMER_NORESTART;
}

static void htw_base_free(struct htw_base *base)
{
	hrtimer_cancel(&base->hrtimer);
	htw_wheel_destroy(&base->wheel);
	kfree(base);
}

static struct htw_base *htw_base_alloc(unsigned int cpu)
{
	struct htw_base *base = kzalloc_node(sizeof(*base), GFP_KERNEL, cpu_to_node(cpu));

	if (!base)
		return NULL;
	spin_lock_init(&base->lock);
	base->cpu = cpu;
	hrtimer_setup(&base->hrtimer, htw_base_callback, CLOCK_MONOTONIC,
		      HRTIMER_MODE_ABS_PINNED_SOFT);
	htw_wheel_init(&base->wheel, &htw_geometry, htw_tick(htw_now()));
	if (htw_wheel_install_all(&base->wheel, GFP_KERNEL, cpu_to_node(cpu))) {
		htw_base_free(base);
		return NULL;
	}
	return base;
}

/* A CPU is about to come up, for the first time or again. */
static int htw_engine_cpu_prepare(unsigned int cpu)
{
	struct htw_base *base = per_cpu(htw_bases, cpu);

	if (!base) {
		base = htw_base_alloc(cpu);
		if (!base)
			return -ENOMEM;
		per_cpu(htw_bases, cpu) = base;
		return 0;
	}
	spin_lock_bh(&base->lock);
	base->offline = false;
	base->wheel.next = HTW_NEVER;
	spin_unlock_bh(&base->lock);
	return 0;
}

static bool htw_base_is_empty(struct htw_base *base)
{
	bool empty;

	spin_lock_bh(&base->lock);
	empty = !htw_wheel_pending(&base->wheel);
	spin_unlock_bh(&base->lock);
	return empty;
}

/* Moves some nodes of a CPU that has gone to the one we are on. */
static void htw_base_evict(struct htw_base *from)
{
	struct htw_base *to = htw_base_lock_local();
	const u64 tick = htw_tick(htw_now());
	bool ahead = false;

	spin_lock_nested(&from->lock, SINGLE_DEPTH_NESTING);
	for (unsigned int i = 0; i < HTW_EVICT_CHUNK; i++) {
		struct htw_node *n = htw_wheel_evict(&from->wheel);

		if (!n)
			break;
		WRITE_ONCE(n->cpu, to->cpu);
		ahead |= htw_wheel_start(&to->wheel, n, tick);
	}
	spin_unlock(&from->lock);
	if (ahead)
		htw_base_program(to, 0);
	htw_base_unlock_local(to);
}

/*
 * A CPU has gone; we run on another one. Nobody can start a node on its wheel
 * any more, but some may still be stopping them, and its hrtimer may run here.
 */
static int htw_engine_cpu_dead(unsigned int cpu)
{
	struct htw_base *base = per_cpu(htw_bases, cpu);

	spin_lock_bh(&base->lock);
	base->offline = true;
	spin_unlock_bh(&base->lock);
	hrtimer_cancel(&base->hrtimer);
	while (!htw_base_is_empty(base)) {
		htw_base_evict(base);
		cond_resched();
	}
	return 0;
}

/**
 * htw_engine_init() - makes the base of each CPU, with #htw_geometry and
 * #htw_tick_ns
 *
 * Context: process, may sleep.
 * Return: 0 or a negative error.
 */
int htw_engine_init(void)
{
	int ret = cpuhp_setup_state(CPUHP_BP_PREPARE_DYN, "htw:prepare",
				    htw_engine_cpu_prepare, htw_engine_cpu_dead);

	if (ret < 0) {
		htw_engine_exit();
		return ret;
	}
	htw_cpuhp_state = ret;
	return 0;
}

/**
 * htw_engine_exit() - undoes htw_engine_init(); no node is in any wheel
 *
 * Context: process, may sleep.
 */
void htw_engine_exit(void)
{
	unsigned int cpu;

	if (htw_cpuhp_state)
		cpuhp_remove_state_nocalls(htw_cpuhp_state);
	for_each_possible_cpu(cpu) {
		if (per_cpu(htw_bases, cpu))
			htw_base_free(per_cpu(htw_bases, cpu));
		per_cpu(htw_bases, cpu) = NULL;
	}
}
