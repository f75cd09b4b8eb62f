/* SPDX-License-Identifier: GPL-2.0-only */
/* Who suffers from an attack; see contain.h. */
#ifndef CONTAIN_VICTIMS_H
#define CONTAIN_VICTIMS_H

#include <stdbool.h>
#include <stdint.h>
#include "contain.h"

struct victims;

/* Starts the counting task, the reader with its timers, and the callouts. */
struct victims *victims_start(void);
void victims_end(struct victims *v);

/* The counting task: whether it runs, and how far it is. */
void victims_count(struct victims *v, bool run);
uint64_t victims_counted(const struct victims *v);

/* What comes from now on is noted anew; what is under way and late, as it comes. */
void victims_begin(struct victims *v);
/* What was noted; what is overdue counts as late as it is by now. */
void victims_note(struct victims *v, struct lateness late[VICTIMS]);
/* How late each event was of both users' timers, by when it fired; returns how many. */
unsigned int victims_samples(const struct victims *v, uint32_t *ns, unsigned int room);

#endif /* CONTAIN_VICTIMS_H */
