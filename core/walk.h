/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on all timers of a context
 */
#ifndef _HTW_WALK_H
#define _HTW_WALK_H

#include "context.h"

u64 htw_walk_cancel(struct htw_context *ctx, u32 page, u32 flags);
u32 htw_walk_list(struct htw_context *ctx, u32 *slot, struct htw_query *entries, u32 room,
		  u32 which);
u32 htw_walk_harvest(struct htw_context *ctx, u32 *slot, struct htw_query __user *entries,
		     u32 room, struct list_head *taken, bool *stuck);
int htw_walk_next(struct htw_context *ctx, struct htw_query *next);

#endif /* _HTW_WALK_H */
