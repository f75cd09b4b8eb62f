/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that are killed at any time, in any call
 *
 * They keep no account: a killed process cannot book its last call. On the descriptors of others
 * they only start timers that are due soon, cancel these, and look; on their own they do all.
 */
#ifndef TORTURE_STRANGER_H
#define TORTURE_STRANGER_H

#include "context.h"

#define STRANGERS_MOST	3

struct strangers {
	struct context *contexts;
	unsigned int nr_contexts;
	__u64 random;
	pid_t pids[STRANGERS_MOST];
	unsigned int killed;
};

/* Start one, or kill one. */
void strangers_step(struct strangers *s);
void strangers_end(struct strangers *s);

#endif /* TORTURE_STRANGER_H */
