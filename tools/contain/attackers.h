/* SPDX-License-Identifier: GPL-2.0-only */
/* The attackers' side of an attack; see contain.h. */
#ifndef CONTAIN_ATTACKERS_H
#define CONTAIN_ATTACKERS_H

#include <stdbool.h>
#include <stdint.h>
#include "contain.h"

struct attackers;

/* Fork the processes that the attack needs, before any descriptor is open. */
struct attackers *attackers_prepare(const struct attack *a);

/* Open all contexts and start all timers; return when the first are due. */
uint64_t attackers_start(struct attackers *all);

/* Act until @until: do each millisecond what the attack's traits ask for. */
void attackers_run(struct attackers *all, uint64_t until);

/* CPU time used in attackers_run(), in ns. */
uint64_t attackers_own(const struct attackers *all);
/* The same with that of all other processes of the attack. */
uint64_t attackers_worked(const struct attackers *all);

/* Period of the periodic action, in ns; 0 if there is none. */
uint64_t attackers_period(const struct attackers *all);

/* Move all timers, and those started from now on, an hour ahead. */
void attackers_disarm(struct attackers *all);

/* Expirations read so far, and how many of those were early. */
uint64_t attackers_expired(const struct attackers *all);
uint64_t attackers_early(const struct attackers *all);

/* Processes of the attack's group that have got no SIGIO so far. */
unsigned int attackers_unsignalled(const struct attackers *all);

/* Cancel all timers and close; return how many of those started were missing. */
int64_t attackers_end(struct attackers *all);

#endif /* CONTAIN_ATTACKERS_H */
