/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory of a context's timers: pages, their directory, limits
 */
#ifndef _HTW_PAGES_H
#define _HTW_PAGES_H

#include "context.h"

struct htw_page *htw_pages_hole(void);
void htw_pages_exit(struct htw_context *ctx);
int htw_pages_reserve(struct htw_context *ctx, struct htw_timer **timers, u32 want, u64 *numbers,
		      gfp_t gfp);
void htw_pages_unlock(struct htw_context *ctx);
void __htw_pages_shrink(struct htw_context *ctx, u32 ended);

/* Pages without a used timer that a context keeps: 64 KiB. */
#define HTW_PAGES_KEPT		16u

/*
 * Are many pages empty? A third as many as others, so that steady load gives
 * none back.
 */
static inline bool htw_pages_are_empty(const struct htw_ids *ids)
{
	u32 nr_empty = READ_ONCE(ids->nr_empty);

	return nr_empty > HTW_PAGES_KEPT && nr_empty > READ_ONCE(ids->nr_held) / 4;
}

/*
 * Give pages back if many are empty. No lock is held; @ended: timers that the
 * caller has ended.
 */
static inline void htw_pages_shrink(struct htw_context *ctx, u32 ended)
{
	if (unlikely(htw_pages_are_empty(&ctx->ids)))
		__htw_pages_shrink(ctx, ended);
}

#endif /* _HTW_PAGES_H */
