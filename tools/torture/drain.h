/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a round: all workers have ended, and each timer has to come to its end
 */
#ifndef TORTURE_DRAIN_H
#define TORTURE_DRAIN_H

#include "context.h"

/*
 * End the timers of all contexts, then their readers; false if something did not come for @stalled
 * ns.
 */
bool drain_all(struct context *contexts, unsigned int n, __u64 stalled);
/* The contexts are about to be closed: that ends what is left, and then all are accounted for. */
void drain_verify(struct context *contexts, unsigned int n);

#endif /* TORTURE_DRAIN_H */
