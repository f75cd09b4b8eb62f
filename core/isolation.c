// SPDX-License-Identifier: GPL-2.0-only
/*
 * Isolated CPUs, on which no timers wait
 *
 * A CPU is isolated from timers (nohz_full), or from the scheduler's load
 * balancing (isolcpus=domain; since Linux 7.0 isolated partitions of cpusets,
 * too). A timer that is started there waits on another CPU: the thread that
 * started it may end or leave, and its timers would take the CPU's time for as
 * long as they recur.
 *
 * housekeeping_any_cpu() does not serve: it returns a CPU that may be isolated
 * in the other way, and must not be called while the task can migrate.
 */

#include <linux/cpumask.h>
#include <linux/rcupdate.h>
#include <linux/topology.h>

#include "isolation.h"

/* Is a CPU isolated from timers or from the scheduler? Context: any. */
bool htw_isolation_covers(unsigned int cpu)
{
	bool isolated;

	/* A mask is freed a grace period after a cpuset's partition has changed it. */
	rcu_read_lock();
	isolated = !housekeeping_cpu(cpu, HK_TYPE_TIMER) ||
		   !housekeeping_cpu(cpu, HK_TYPE_DOMAIN);
	rcu_read_unlock();
	return isolated;
}

/**
 * htw_isolation_cpu_beside_masks() - find a CPU that is in two masks
 * @cpu: the CPU to be replaced if it is not
 * @timers: CPUs that are not isolated from timers
 * @domain: CPUs that are not isolated from the scheduler
 *
 * Context: any; the caller keeps the masks from being freed.
 * Return: @cpu if it is in both masks, else an online CPU that is, if possible
 * of @cpu's node. If there is none, @cpu.
 */
unsigned int htw_isolation_cpu_beside_masks(unsigned int cpu,
					    const struct cpumask *timers,
					    const struct cpumask *domain)
{
	unsigned int other;

	if (cpumask_test_cpu(cpu, timers) && cpumask_test_cpu(cpu, domain))
		return cpu;
	for_each_cpu_and(other, timers, cpumask_of_node(cpu_to_node(cpu))) {
		if (cpumask_test_cpu(other, domain) && cpu_online(other))
			return other;
	}
	for_each_cpu_and(other, timers, domain) {
		if (cpu_online(other))
			return other;
	}
	return cpu;
}

/* Return a CPU, or if it is isolated one that is not and is near. Context: any. */
unsigned int htw_isolation_cpu_beside(unsigned int cpu)
{
	/* As in htw_isolation_covers(). */
	rcu_read_lock();
	cpu = htw_isolation_cpu_beside_masks(cpu, housekeeping_cpumask(HK_TYPE_TIMER),
					     housekeeping_cpumask(HK_TYPE_DOMAIN));
	rcu_read_unlock();
	return cpu;
}
