/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that start, move, stop and query the timers of a context
 */
#ifndef TORTURE_WORKER_H
#define TORTURE_WORKER_H

#include "context.h"

/* Operations by their number, for the report of progress. */
struct worker_counts {
	__u64 adds;
	__u64 cancels;
	__u64 mods;
	__u64 queries;
	__u64 harvested;
};

/**
 * struct worker - a thread
 * @context: its context
 * @first: first of the accounts that it starts timers for
 * @nr: number of those
 * @random: state of its random numbers
 * @cpus: CPUs between which it moves
 * @next: where to look for a free account
 * @swollen: ids of timers that have ended in pages that may be gone
 */
struct worker {
	struct context *context;
	__u32 first;
	__u32 nr;
	__u64 random;
	unsigned int cpus;
	__u32 next;
	__u64 *swollen;
};

bool worker_init(void);
/* Shared by all processes: counts of the run, and whether workers shall end. */
extern struct worker_counts *worker_counts;
void worker_stop_all(bool stop);
void *worker_run(void *worker);

#endif /* TORTURE_WORKER_H */
