// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bases of an owner, and those of a CPU
 *
 * An owner is a user, or the callouts of other modules. It has a base for each
 * CPU and clock, created when it first starts a timer there; and one for each
 * private wheel.
 *
 * When a CPU goes offline, the pacer of another CPU adopts its bases, and
 * returns them when it is back. No timer is moved, nothing is allocated, and
 * nothing can fail.
 */

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <linux/topology.h>

#include "compat.h"
#include "bases.h"

/*
 * Guards changes of the lists of bases and of sets. A leaf; never taken in
 * softirq, and held for a few instructions. Which pacer serves a CPU's bases
 * changes only during CPU hotplug, which cpus_read_lock() holds off.
 */
static DEFINE_SPINLOCK(htw_bases_lock);
/* The bases of each CPU (htw_bases_lock; read under RCU). */
static DEFINE_PER_CPU(struct list_head, htw_cpu_bases);

static int htw_bases_cpuhp;

/**
 * htw_bases_init_set() - set up an owner's set of bases, without any
 * @set: the set, whose constant fields are set
 * @id: the owner's uid, for tracepoints
 */
void htw_bases_init_set(struct htw_bases *set, u32 id)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		htw_flow_init(per_cpu_ptr(htw_bases_flows(set), cpu),
			      set->class, id);
}

/* Assign a base that is not published yet to a CPU and its pacer. */
static void htw_bases_attach(struct htw_base *base, unsigned int cpu)
{
	htw_assert_cpus_held();
	lockdep_assert_held(&htw_bases_lock);

	base->cpu = cpu;
	base->job.pacer = htw_pacer_for(cpu);
	list_add_tail_rcu(&base->link, per_cpu_ptr(&htw_cpu_bases, cpu));
}

/* Remove a base from its CPU and free it after a grace period. */
static void htw_bases_detach(struct htw_base *base)
{
	htw_assert_cpus_held();

	spin_lock(&htw_bases_lock);
	list_del_rcu(&base->link);
	spin_unlock(&htw_bases_lock);

	htw_base_free(base);
}

/**
 * htw_bases_create_private() - create a base for one context
 * @set: the bases of the context's user
 * @clock: the clock
 * @geo: the geometry, which htw_geometry_error() has passed
 * @tick_ns: the tick
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the base or NULL.
 */
struct htw_base *htw_bases_create_private(struct htw_bases *set, enum htw_clock clock,
					  const struct htw_geometry *geo, u32 tick_ns)
{
	const struct htw_base_init init = {
		.owner = set,
		.clock = clock,
		.geo = geo,
		.tick_ns = tick_ns,
		.private = true,
		.flows = htw_bases_flows(set),
		.serve = set->serve,
		.skew = set->skew,
		.gfp = set->gfp,
		.node = NUMA_NO_NODE,
	};
	struct htw_base *base = htw_base_alloc(&init);

	if (base && clock != HTW_MANUAL) {
		cpus_read_lock();
		spin_lock(&htw_bases_lock);
		htw_bases_attach(base, htw_isolation_target_cpu());
		spin_unlock(&htw_bases_lock);
		cpus_read_unlock();
	}
	return base;
}

/**
 * htw_bases_free_private() - free a private base
 * @base: the base, whose wheel is empty
 *
 * Context: may sleep.
 */
void htw_bases_free_private(struct htw_base *base)
{
	if (base->clock == HTW_MANUAL) {
		htw_base_free(base);
		return;
	}
	cpus_read_lock();
	htw_bases_detach(base);
	cpus_read_unlock();
}

static struct htw_base *htw_bases_alloc(struct htw_bases *set,
					enum htw_clock clock, unsigned int cpu)
{
	const struct htw_base_init init = {
		.owner = set,
		.clock = clock,
		.geo = &htw_geometry,
		.tick_ns = htw_tick_ns,
		.flows = htw_bases_flows(set),
		.serve = set->serve,
		.skew = set->skew,
		.gfp = set->gfp,
		.node = cpu_to_node(cpu),
	};

	return htw_base_alloc(&init);
}

/* Add a base to a set, unless that has one for this CPU and clock. Return the set's. */
static struct htw_base *htw_bases_publish(struct htw_bases *set,
					  struct htw_base *made,
					  unsigned int cpu)
{
	struct htw_base **entry = &per_cpu_ptr(set->cpus, cpu)->bases[made->clock];
	struct htw_base **fallback = &set->fallback[made->clock];
	struct htw_base *base;

	htw_assert_cpus_held();

	spin_lock(&htw_bases_lock);
	base = *entry;
	if (!base) {
		base = made;
		htw_bases_attach(base, cpu);
		/* Pairs with htw_bases_on(). */
		smp_store_release(entry, base);
		if (!*fallback) {
			/* Pairs with the address dependency in htw_bases_create(). */
			smp_store_release(fallback, base);
		}
		/*
		 * Before a timer on it is stamped with htw_clock_sets_count(): pairs with
		 * htw_cancel_on_set_wait_for_adds().
		 */
		smp_mb();
	}
	spin_unlock(&htw_bases_lock);

	if (base != made)
		htw_base_destroy(made);
	return base;
}

/**
 * htw_bases_create_cpuslocked() - htw_bases_create() with CPU hotplug held off
 * @set: the set
 * @clock: the clock, not %HTW_MANUAL
 * @cpu: the CPU, online or not
 *
 * Context: may sleep, but waits for no CPU hotplug.
 * Return: the base, or NULL without memory.
 */
struct htw_base *htw_bases_create_cpuslocked(struct htw_bases *set,
					     enum htw_clock clock,
					     unsigned int cpu)
{
	struct htw_base *base = htw_bases_on(htw_bases_by_clock(set, clock), cpu);

	if (base)
		return base;
	base = htw_bases_alloc(set, clock, cpu);
	return base ? htw_bases_publish(set, base, cpu) : NULL;
}

/**
 * htw_bases_create() - return a set's base on a CPU, and allocate it at first use
 * @set: the set
 * @clock: the clock, not %HTW_MANUAL
 * @cpu: the CPU, online or not
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the base; without memory another one of that set and clock, or NULL
 * if there is none.
 */
struct htw_base *htw_bases_create(struct htw_bases *set, enum htw_clock clock,
				  unsigned int cpu)
{
	struct htw_base *base = htw_bases_on(htw_bases_by_clock(set, clock), cpu);

	if (base)
		return base;
	/* Not inside cpus_read_lock(): a task that waits for memory would hold up CPU hotplug. */
	base = htw_bases_alloc(set, clock, cpu);
	if (!base)
		return READ_ONCE(set->fallback[clock]);

	cpus_read_lock();
	base = htw_bases_publish(set, base, cpu);
	cpus_read_unlock();
	return base;
}

/**
 * htw_bases_take() - take all bases, which are empty, off a set
 * @set: the set, which makes new ones from now on
 * @gone: list to put them on, for htw_bases_free()
 *
 * Context: process.
 */
void htw_bases_take(struct htw_bases *set, struct list_head *gone)
{
	unsigned int cpu;

	spin_lock(&htw_bases_lock);
	for_each_possible_cpu(cpu) {
		for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
			struct htw_base **entry = &per_cpu_ptr(set->cpus, cpu)->bases[clock];

			if (*entry)
				list_add_tail(&(*entry)->gone, gone);
			WRITE_ONCE(*entry, NULL);
		}
	}
	memset(set->fallback, 0, sizeof(set->fallback));
	spin_unlock(&htw_bases_lock);
}

/* Free the bases on a list of htw_bases_take(). May sleep. */
void htw_bases_free(struct list_head *gone)
{
	struct htw_base *base, *next;

	cpus_read_lock();
	list_for_each_entry_safe(base, next, gone, gone)
		htw_bases_detach(base);
	cpus_read_unlock();
}

/**
 * htw_bases_for_each() - call a function for each base of a CPU
 * @cpu: the CPU
 * @fn: the function, which must not sleep; bases are not freed while it runs
 * @data: passed to it
 */
void htw_bases_for_each(unsigned int cpu,
			void (*fn)(struct htw_base *base, void *data),
			void *data)
{
	struct list_head *bases = per_cpu_ptr(&htw_cpu_bases, cpu);
	struct htw_base *base;

	rcu_read_lock();
	list_for_each_entry_rcu(base, bases, link)
		fn(base, data);
	rcu_read_unlock();
}

/* Make another pacer serve all bases of a CPU. It serves each once, to program its hrtimer. */
static void htw_bases_move(unsigned int cpu, struct htw_pacer *to)
{
	struct htw_base *base;

	htw_assert_cpus_held();

	list_for_each_entry(base, per_cpu_ptr(&htw_cpu_bases, cpu), link) {
		spin_lock_bh(&base->lock);
		WRITE_ONCE(base->job.pacer, to);
		/* If it is scheduled already, its former pacer passes it on. */
		htw_job_schedule(&base->job, 0);
		spin_unlock_bh(&base->lock);
	}
}

/*
 * Wait until the former pacer of moved bases has passed on their jobs. After
 * that each job is with its own pacer, on which htw_job_cancel() relies.
 */
static void htw_bases_finish_move(struct htw_pacer *from)
{
	htw_assert_cpus_held();

	/* Wait for CPUs that have read the old &htw_job.pacer to schedule the job there. */
	synchronize_rcu();
	htw_pacer_migrate(from);
	/* Wait for a run that took a job before that; it passes the job on itself. */
	synchronize_rcu();
}

/* A CPU has come online: its pacer serves its bases; runs on it. CPU hotplug is held off. */
int htw_bases_cpu_online(unsigned int cpu)
{
	struct htw_pacer *adopter;

	adopter = htw_pacer_for(cpu);
	htw_pacer_online(cpu);
	htw_bases_move(cpu, per_cpu_ptr(&htw_pacers, cpu));
	htw_bases_finish_move(adopter);
	return 0;
}

/* An online CPU other than @cpu, preferably not an isolated one. */
static unsigned int htw_bases_other_cpu(unsigned int cpu)
{
	unsigned int other;

	for_each_online_cpu(other) {
		if (other != cpu && !htw_isolation_covers(other))
			return other;
	}
	return cpumask_any_but(cpu_online_mask, cpu);
}

/**
 * htw_bases_adopt() - make a pacer serve all bases that another one serves
 * @p: the other one: serves the bases of its CPU, and those that it has adopted
 * @adopter: the pacer, of an online CPU
 *
 * Context: may sleep; CPU hotplug is held off.
 */
void htw_bases_adopt(struct htw_pacer *p, struct htw_pacer *adopter)
{
	unsigned int away;

	for_each_possible_cpu(away) {
		if (htw_pacer_for(away) != p)
			continue;
		htw_pacer_adopt(away, adopter);
		htw_bases_move(away, adopter);
	}
	htw_bases_finish_move(p);
}

/* A CPU goes offline; runs on it. */
static int htw_bases_cpu_offline(unsigned int cpu)
{
	htw_bases_adopt(per_cpu_ptr(&htw_pacers, cpu),
			per_cpu_ptr(&htw_pacers, htw_bases_other_cpu(cpu)));
	return 0;
}

/**
 * htw_bases_init() - set up the pacers, and have them serve the bases of all CPUs
 *
 * Context: process, may sleep; #htw_geometry and #htw_tick_ns are set.
 * Return: 0 or a negative error.
 */
int __init htw_bases_init(void)
{
	unsigned int cpu;
	int ret;

	htw_pacers_init();
	cpus_read_lock();
	for_each_possible_cpu(cpu) {
		INIT_LIST_HEAD(per_cpu_ptr(&htw_cpu_bases, cpu));
		/* Until it comes online; online CPUs do so below. */
		htw_pacer_adopt(cpu, per_cpu_ptr(&htw_pacers, cpumask_first(cpu_online_mask)));
	}
	ret = cpuhp_setup_state_cpuslocked(CPUHP_AP_ONLINE_DYN, "htw:online",
					   htw_bases_cpu_online,
					   htw_bases_cpu_offline);
	cpus_read_unlock();
	if (ret < 0)
		return ret;

	htw_bases_cpuhp = ret;
	return 0;
}

/* Undo htw_bases_init(). No set has a base. May sleep. */
void htw_bases_exit(void)
{
	cpuhp_remove_state_nocalls(htw_bases_cpuhp);
	htw_pacers_exit();
	rcu_barrier();		/* for htw_base_free() */
}
