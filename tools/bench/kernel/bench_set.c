// SPDX-License-Identifier: GPL-2.0-only
/* A set of timers of one kind; see bench_set.h. */

#include <linux/errno.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "bench_set.h"

struct bench_set bench_set;

/* Free what bench_prepare() has allocated. The set is closed. May sleep. */
void bench_forget(struct bench_set *set)
{
	vfree(set->rearm_order);
	vfree(set->cancel_order);
	vfree(set->delay);
	vfree(set->later);
	vfree(set->delay_units);
	vfree(set->later_units);
	vfree(set->seen);
	memset(set, 0, sizeof(*set));
}

/* Allocate the arrays of a set, which the caller then fills. May sleep. */
int bench_prepare(struct bench_set *set, u32 pending)
{
	bench_forget(set);
	set->pending = pending;
	set->rearm_order = vmalloc_array(pending, sizeof(*set->rearm_order));
	set->cancel_order = vmalloc_array(pending, sizeof(*set->cancel_order));
	set->delay = vmalloc_array(pending, sizeof(*set->delay));
	set->later = vmalloc_array(pending, sizeof(*set->later));
	set->delay_units = vmalloc_array(pending, sizeof(*set->delay_units));
	set->later_units = vmalloc_array(pending, sizeof(*set->later_units));
	set->seen = vmalloc_array(pending, sizeof(*set->seen));
	if (set->rearm_order && set->cancel_order && set->delay && set->later &&
	    set->delay_units && set->later_units && set->seen)
		return 0;
	bench_forget(set);
	return -ENOMEM;
}

static void bench_convert(const struct bench_system *system, const u64 *ns, u64 *units, u32 count)
{
	for (u32 i = 0; i < count; i++)
		units[i] = system->units ? system->units(ns[i]) : ns[i];
}

/* Allocate and initialise the timers of a prepared, closed set. May sleep. */
int bench_open(struct bench_set *set, const struct bench_system *system)
{
	if (set->system)
		return -EBUSY;
	set->timers = vcalloc(set->pending, system->size);
	if (!set->timers)
		return -ENOMEM;
	bench_convert(system, set->delay, set->delay_units, set->pending);
	bench_convert(system, set->later, set->later_units, set->pending);
	memset(set->seen, 0, set->pending);
	atomic_set(&set->collected, 0);
	atomic_set(&set->wrong, 0);
	set->system = system;
	system->init(set);
	return 0;
}

/* Stop and free the timers of a set, open or not. May sleep. */
void bench_close(struct bench_set *set)
{
	if (!set->system)
		return;
	set->system->drain(set);
	vfree(set->timers);
	set->timers = NULL;
	set->system = NULL;
}
