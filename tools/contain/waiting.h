/* SPDX-License-Identifier: GPL-2.0-only */
/* Who waits for the contexts of an attack; see contain.h. */
#ifndef CONTAIN_WAITING_H
#define CONTAIN_WAITING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "contain.h"

struct waiting;

/* Room for what waits for @contexts contexts; no memory is needed later. */
struct waiting *waiting_prepare(const struct attack_waiting *how, unsigned int contexts);

/* Let epoll sets and tasks of user @uid wait for a descriptor. */
void waiting_add(struct waiting *w, uid_t uid, int fd);

/* Let the outer epoll sets watch the others; return when all tasks wait. */
void waiting_begin(struct waiting *w);

/*
 * Has the set that watches been woken, if sets are exchanged? To be asked before the context is
 * read.
 */
bool waiting_is_woken(const struct waiting *w);
/* Let the other one watch. */
void waiting_exchange(struct waiting *w);

/*
 * CPU time that the tasks have used, in ns; zero if they are idle, as they get next to none. It
 * includes softirqs that have interrupted them.
 */
uint64_t waiting_worked(const struct waiting *w);

void waiting_end(struct waiting *w);

#endif /* CONTAIN_WAITING_H */
