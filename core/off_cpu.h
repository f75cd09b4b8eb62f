/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the current task has not been running
 */
#ifndef _HTW_OFF_CPU_H
#define _HTW_OFF_CPU_H

#include <linux/kconfig.h>
#include <linux/types.h>

u64 htw_off_cpu_ns(void);
u64 htw_softirq_run_delay_ns(void);
u64 htw_softirq_clock_ns(u64 *off_cpu);

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
 * htw_off_cpu_ns() in softirq, or with bottom halves off: only on PREEMPT_RT a
 * task is preempted there.
 */
static inline u64 htw_softirq_off_cpu_ns(void)
{
	return IS_ENABLED(CONFIG_PREEMPT_RT) ? htw_off_cpu_ns() : 0;
}

#endif /* _HTW_OFF_CPU_H */
