/* SPDX-License-Identifier: GPL-2.0-only */
/* The victims of an attack; see contain.h. */
#ifndef CONTAIN_VICTIMS_H
#define CONTAIN_VICTIMS_H

#include <stdbool.h>
#include <stdint.h>
#include "contain.h"

struct victims;

/* Start the counting task, the reader with its timers, and the callouts. */
struct victims *victims_start(void);
void victims_end(struct victims *v);

/* Stop or continue the counting task; return its progress. */
void victims_count(struct victims *v, bool run);
uint64_t victims_counted(const struct victims *v);

/* Start new notes. Events that are overdue already count when they come. */
void victims_begin(struct victims *v);
/* Return the notes. Overdue timers count with their lateness so far. */
void victims_note(struct victims *v, struct lateness late[VICTIMS], struct delays *delays);
/* Lateness of each event of all users; return their number. */
unsigned int victims_samples(const struct victims *v, uint32_t *ns, unsigned int room);

#endif /* CONTAIN_VICTIMS_H */
