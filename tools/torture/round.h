/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A round: contexts, the processes that use them, and how it ends
 */
#ifndef TORTURE_ROUND_H
#define TORTURE_ROUND_H

#include <linux/types.h>
#include <stdbool.h>

struct round_options {
	__u64 seed;
	__u64 ns;		/* how long its workers run */
	__u64 stalled;		/* ns after which what does not come is lost */
	bool hotplug;
	bool set_clock;
	bool uring;
	bool verbose;
};

/* What happened in it, for the report of progress; shared by all processes. */
struct round_counts {
	unsigned int contexts;
	unsigned int hotplugs;
	unsigned int clock_sets;
	unsigned int killed;
	__u64 events;
};

bool round_init(void);
extern struct round_counts *round_counts;
/* Run it in this process and its children. What is wrong is reported as violations. */
void round_run(const struct round_options *options);

#endif /* TORTURE_ROUND_H */
