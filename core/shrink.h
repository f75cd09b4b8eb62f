/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shrinking: free the pages of timers that a burst has left behind
 */
#ifndef _HTW_SHRINK_H
#define _HTW_SHRINK_H

#include "context.h"

void htw_shrink_init(struct htw_context *ctx);
void htw_shrink_exit(struct htw_context *ctx);
int htw_shrink_init_queue(void);
void htw_shrink_exit_queue(void);
void htw_shrink_page_added(struct htw_context *ctx);
void htw_shrink_begin(struct htw_context *ctx);
u32 htw_shrink_mark(struct htw_context *ctx);
int htw_shrink_reclaim(struct htw_context *ctx);

/* Subtract freed timers from those in use, and begin to shrink if few are left. */
static inline void htw_shrink_timers_freed(struct htw_context *ctx, u32 freed)
{
	lockdep_assert_held(&ctx->lock);

	ctx->nr_timers -= freed;
	if (ctx->nr_timers < ctx->shrink_below)
		htw_shrink_begin(ctx);
}

#endif /* _HTW_SHRINK_H */
