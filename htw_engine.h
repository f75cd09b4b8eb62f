/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine: on each CPU a wheel, paced by an hrtimer
 */
#ifndef _HTW_ENGINE_H
#define _HTW_ENGINE_H

#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>

#include "htw_wheel.h"

/*
 * sparse counts locks by following the code. Where the lock to take or to drop
 * is data, and may be none, it cannot; lockdep looks after those.
 */
#ifdef __CHECKER__
#define htw_lock(lock)		((void)(lock))
#define htw_unlock(lock)	((void)(lock))
#else
#define htw_lock(lock)		spin_lock(lock)
#define htw_unlock(lock)	spin_unlock(lock)
#endif

/**
 * struct htw_base - a CPU's wheel and what drives it
 * @lock: guards all below and the nodes in the wheel; taken with bottom halves
 *	off. Order: a base's lock, then a context's. Two bases' locks are held
 *	together only by htw_engine_cpu_dead(), of which one runs at a time
 * @wheel: the timers, in ticks since the clock's zero
 * @hrtimer: programmed for @wheel.next, started only on the CPU whose wheel
 *	this is, or by its own callback. Without work there is none
 * @cpu: whose wheel this is; never changes
 * @offline: the CPU has gone and its timers have moved
 * @callbacks: how often the hrtimer's callback ran
 * @exhausted: how often it ran out of its budget
 */
struct htw_base {
	spinlock_t lock;
	struct htw_wheel wheel;
	struct hrtimer hrtimer;
	unsigned int cpu;
	bool offline;
	u64 callbacks;
	u64 exhausted;
};

/* Set before the first base is made, then never changed. */
extern struct htw_geometry htw_geometry;
extern u64 htw_tick_ns;

DECLARE_PER_CPU(struct htw_base *, htw_bases);

int htw_engine_init(void);
void htw_engine_exit(void);

struct htw_base *htw_base_lock_local(void);
void htw_base_unlock_local(struct htw_base *base);

/**
 * htw_base_of() - the base whose lock guards a node now
 * @n: a node that was started at least once, or is zeroed
 *
 * Once the lock is taken, &htw_node.cpu has to be looked at again.
 *
 * Return: the base.
 */
static inline struct htw_base *htw_base_of(const struct htw_node *n)
{
	return per_cpu(htw_bases, READ_ONCE(n->cpu));
}

/**
 * htw_now() - the time that deadlines are compared with
 *
 * Return: CLOCK_MONOTONIC in ns.
 */
static inline u64 htw_now(void)
{
	return ktime_get_ns();
}

void htw_base_start(struct htw_base *base, struct htw_node *n, u64 deadline, u64 now);
void htw_base_stop(struct htw_base *base, struct htw_node *n);

#endif /* _HTW_ENGINE_H */
