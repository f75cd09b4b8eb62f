/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on all timers of a context: HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST
 * and HTW_NEXT
 */
#ifndef _HTW_WALK_H
#define _HTW_WALK_H

#include "context.h"

long htw_op_cancel_all(struct htw_context *ctx,
		       struct htw_cancel_all __user *arg);
long htw_op_list(struct htw_context *ctx, struct htw_list __user *arg,
		 bool harvest);
long htw_op_next(struct htw_context *ctx, struct htw_next __user *arg);

/* For KUnit. */
u64 htw_walk_cancel(struct htw_context *ctx, u32 page, u32 flags);
u32 htw_walk_list(struct htw_context *ctx, u32 *slot, struct htw_query *entries,
		  u32 room, u32 which);

#endif /* _HTW_WALK_H */
