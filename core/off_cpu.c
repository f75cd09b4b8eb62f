// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long the current task has not been running
 */

#include <linux/compiler.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "off_cpu.h"

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
u64 htw_off_cpu_ns(void)
{
	const struct sched_entity *se = &current->se;
	u64 ran, start;

	/* Until both are of the same time: the tick and other CPUs change them. */
	do {
		ran = READ_ONCE(se->sum_exec_runtime);
		start = READ_ONCE(se->exec_start);
	} while (ran != READ_ONCE(se->sum_exec_runtime));
	return start - ran;
}

/*
 * The part of htw_softirq_off_cpu_ns() in which the task was runnable; all of it
 * if that is not counted.
 */
u64 htw_softirq_run_delay_ns(void)
{
#if defined(CONFIG_PREEMPT_RT) && defined(CONFIG_SCHED_INFO)
	return current->sched_info.run_delay;
#else
	return htw_softirq_off_cpu_ns();
#endif
}

/* Read ktime_get_ns() and htw_softirq_off_cpu_ns() of the same time. */
u64 htw_softirq_clock_ns(u64 *off_cpu)
{
	u64 now;

	do {
		*off_cpu = htw_softirq_off_cpu_ns();
		now = ktime_get_ns();
	} while (*off_cpu != htw_softirq_off_cpu_ns());
	return now;
}
