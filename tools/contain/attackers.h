/* SPDX-License-Identifier: GPL-2.0-only */
/* Attackers at work; see contain.h for what they do. */
#ifndef CONTAIN_ATTACKERS_H
#define CONTAIN_ATTACKERS_H

#include <stdbool.h>
#include <stdint.h>
#include "contain.h"

struct attackers;

/* Processes that the attack needs. Before descriptors are opened, so that they hold none. */
struct attackers *attackers_prepare(const struct attack *a);

/* Opens all contexts and starts all timers; returns when the first are due. */
uint64_t attackers_start(struct attackers *all);

/*
 * Does what the attackers do until @until: once a millisecond they store the tails
 * of their rings to the heads, and what their traits say.
 */
void attackers_run(struct attackers *all, uint64_t until);

/* The CPU time that they have used in attackers_run(). */
uint64_t attackers_worked(const struct attackers *all);

/* After so long they do the same again. */
uint64_t attackers_period(const struct attackers *all);

/* From now on all timers are an hour away, and so are those started later. */
void attackers_disarm(struct attackers *all);

/* Expirations that came to rings so far, and how many of those looked at were early. */
uint64_t attackers_expired(const struct attackers *all);
uint64_t attackers_early(const struct attackers *all);

/* Cancels all timers, and ends it; returns how many of those started were not there. */
int64_t attackers_end(struct attackers *all);

#endif /* CONTAIN_ATTACKERS_H */
