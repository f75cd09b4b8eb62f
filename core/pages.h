/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of a context's timers: pages, their directory, limits
 */
#ifndef _HTW_PAGES_H
#define _HTW_PAGES_H

#include "context.h"

struct htw_page *htw_pages_hole(void);
void htw_pages_exit(struct htw_context *ctx);
int htw_pages_take(struct htw_base **base, struct htw_timer **timers, u32 want, u64 *numbers,
		   gfp_t gfp);
void htw_pages_unlock(struct htw_context *ctx);
void __htw_pages_shrink(struct htw_context *ctx, u32 ended);

/*
 * Give pages back if many are empty. No lock is held; @ended: timers that the
 * caller has ended.
 */
static inline void htw_pages_shrink(struct htw_context *ctx, u32 ended)
{
	if (unlikely(READ_ONCE(ctx->ids.is_sparse)))
		__htw_pages_shrink(ctx, ended);
}

#endif /* _HTW_PAGES_H */
