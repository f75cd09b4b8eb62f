/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What happens to the machine meanwhile: CPUs go off and come back, the clock is set
 */
#ifndef TORTURE_MACHINE_H
#define TORTURE_MACHINE_H

#include <linux/types.h>
#include <stdbool.h>

struct machine {
	__u64 random;
	unsigned int cpus;
	bool hotplug;
	bool set_clock;
	__s64 clock_offset;	/* by how much CLOCK_REALTIME has been set ahead, in ns */
	unsigned int hotplugs;
	unsigned int clock_sets;
};

unsigned int machine_cpus(void);
bool machine_can_hotplug(void);
void machine_step(struct machine *m);
/* The clock is right again. */
void machine_restore_clock(struct machine *m);
/* All CPUs are on again. */
void machine_restore_cpus(struct machine *m);

#endif /* TORTURE_MACHINE_H */
