/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking tasks that wait for events
 */
#ifndef _HTW_WAKE_H
#define _HTW_WAKE_H

#include "context.h"

void htw_wake_init(struct htw_context *ctx);
void htw_wake_stop(struct htw_context *ctx);
void htw_wake_reader(struct htw_context *ctx);
void htw_wake_next_poller(struct htw_context *ctx);
void htw_wake_contexts(struct htw_context *const *contexts, u32 nr,
		       struct htw_turn *turn);

#endif /* _HTW_WAKE_H */
