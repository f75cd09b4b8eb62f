/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the current task has not been running
 */
#ifndef _HTW_OFF_CPU_H
#define _HTW_OFF_CPU_H

#include <linux/compiler.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

/**
 * htw_off_cpu_ns() - a clock that runs while the current task does not
 *
 * Waiting for the CPU counts, and so does waiting for a lock. Only differences
 * have a meaning, and only while the task stays on its CPU.
 *
 * Whenever the scheduler adds to a task's run time, it sets @exec_start forward
 * by as much; when the task is switched in, to the present. So the difference
 * of both grows by the time in between.
 *
 * Return: ns.
 */
static inline u64 htw_off_cpu_ns(void)
{
	const struct sched_entity *se = &current->se;
	u64 ran, start;

	/* Until both are of the same time: the tick and other CPUs change them. */
	do {
		ran = READ_ONCE(se->sum_exec_runtime);
		barrier();
		start = READ_ONCE(se->exec_start);
		barrier();
	} while (ran != READ_ONCE(se->sum_exec_runtime));
	return start - ran;
}

/*
 * The time between two readings. Not negative: a CPU that updates one of the
 * two values may be preempted before it updates the other.
 */
static inline u64 htw_off_cpu_since(u64 now, u64 then)
{
	s64 ns = now - then;

	return ns > 0 ? ns : 0;
}

/*
 * The same in softirq, or with bottom halves off: only on PREEMPT_RT a task is
 * preempted there.
 */
static inline u64 htw_softirq_off_cpu_ns(void)
{
	return IS_ENABLED(CONFIG_PREEMPT_RT) ? htw_off_cpu_ns() : 0;
}

/* The part of it in which the task was runnable; all of it if that is not counted. */
static inline u64 htw_softirq_run_delay_ns(void)
{
#if defined(CONFIG_PREEMPT_RT) && defined(CONFIG_SCHED_INFO)
	return current->sched_info.run_delay;
#else
	return htw_softirq_off_cpu_ns();
#endif
}

/* Read ktime_get_ns() and htw_softirq_off_cpu_ns() of the same time. */
static inline u64 htw_softirq_clock_ns(u64 *off_cpu)
{
	u64 now;

	do {
		*off_cpu = htw_softirq_off_cpu_ns();
		now = ktime_get_ns();
	} while (*off_cpu != htw_softirq_off_cpu_ns());
	return now;
}

#endif /* _HTW_OFF_CPU_H */
