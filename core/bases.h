/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bases of an owner, and those of a CPU
 */
#ifndef _HTW_BASES_H
#define _HTW_BASES_H

#include <linux/percpu.h>

#include "base.h"

/**
 * struct htw_bases_cpu - an owner's part on a CPU
 * @flow: its jobs and share there
 * @bases: its shared wheels there by clock, or NULL (written under
 *	htw_bases_lock)
 */
struct htw_bases_cpu {
	struct htw_flow flow;
	struct htw_base *bases[HTW_CLOCKS];
};

/**
 * struct htw_bases - an owner's set of bases
 * @cpus: its part on each CPU, zeroed; constant
 * @fallback: the first base made for each clock, used if another cannot be made
 *	(written under htw_bases_lock)
 * @class: of its flows; constant
 * @serve: serves its bases; constant
 * @skew: random bits, by which slack is used at other times than by other owners;
 *	constant
 * @gfp: to allocate them with; constant
 */
struct htw_bases {
	struct htw_bases_cpu __percpu *cpus;
	struct htw_base *fallback[HTW_CLOCKS];
	enum htw_class class;
	htw_serve_t *serve;
	u64 skew;
	gfp_t gfp;
};

int htw_bases_init(void);
void htw_bases_exit(void);

void htw_bases_init_set(struct htw_bases *set, u32 id);
struct htw_base *htw_bases_create(struct htw_bases *set, enum htw_clock clock,
				  unsigned int cpu);
int htw_bases_cpu_online(unsigned int cpu);
void htw_bases_adopt(struct htw_pacer *p, struct htw_pacer *adopter);
struct htw_base *htw_bases_create_cpuslocked(struct htw_bases *set,
					     enum htw_clock clock,
					     unsigned int cpu);
struct htw_base *htw_bases_create_private(struct htw_bases *set, enum htw_clock clock,
					  const struct htw_geometry *geo, u32 tick_ns);
void htw_bases_free_private(struct htw_base *base);
void htw_bases_take(struct htw_bases *set, struct list_head *gone);
void htw_bases_free(struct list_head *gone);
void htw_bases_for_each(unsigned int cpu,
			void (*fn)(struct htw_base *base, void *data),
			void *data);

/* An owner's flows, one for each CPU. */
static inline struct htw_flow __percpu *htw_bases_flows(const struct htw_bases *set)
{
	return &set->cpus->flow;
}

/* An owner's bases for a clock: a pointer for each CPU. */
static inline struct htw_base *__percpu *htw_bases_by_clock(const struct htw_bases *set,
							     enum htw_clock clock)
{
	return &set->cpus->bases[clock];
}

/* The base on a CPU, or NULL if there is none yet. */
static inline struct htw_base *htw_bases_on(struct htw_base *__percpu *bases,
					    unsigned int cpu)
{
	/* Pairs with htw_bases_publish(). */
	return smp_load_acquire(per_cpu_ptr(bases, cpu));
}

#endif /* _HTW_BASES_H */
