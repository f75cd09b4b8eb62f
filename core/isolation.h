/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Isolated CPUs, on which no timers wait
 */
#ifndef _HTW_ISOLATION_H
#define _HTW_ISOLATION_H

#include <linux/jump_label.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>

struct cpumask;

bool htw_isolation_covers(unsigned int cpu);
unsigned int htw_isolation_cpu_beside_masks(unsigned int cpu,
					    const struct cpumask *timers,
					    const struct cpumask *domain);
unsigned int htw_isolation_cpu_beside(unsigned int cpu);

/* Is any CPU isolated? Costs nothing while none is. */
#ifdef CONFIG_CPU_ISOLATION
#define htw_isolation_is_used()	static_branch_unlikely(&housekeeping_overridden)
#else
#define htw_isolation_is_used()	false
#endif

/*
 * The CPU on which a timer that is started now waits: this one, unless it is
 * isolated. The task may migrate meanwhile, as it may do right after.
 */
static inline unsigned int htw_isolation_target_cpu(void)
{
	unsigned int cpu = raw_smp_processor_id();

	return htw_isolation_is_used() ? htw_isolation_cpu_beside(cpu) : cpu;
}

#endif /* _HTW_ISOLATION_H */
