/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the current task has waited for a CPU
 */
#ifndef _HTW_RUN_DELAY_H
#define _HTW_RUN_DELAY_H

#include <linux/sched.h>

/*
 * The time for which the current task was runnable and not running, in ns; zero if the kernel does
 * not count it. In softirq it changes only on PREEMPT_RT.
 */
#ifdef CONFIG_SCHED_INFO
#define htw_run_delay_ns()	((u64)current->sched_info.run_delay)
#else
#define htw_run_delay_ns()	((u64)0)
#endif

#endif /* _HTW_RUN_DELAY_H */
