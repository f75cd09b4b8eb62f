/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pool of timers of a context: their pages, and the limits
 */
#ifndef _HTW_POOL_H
#define _HTW_POOL_H

#include "context.h"

int htw_pool_grow(struct htw_context *ctx);
int htw_pool_reserve(struct htw_context *ctx, struct list_head *timers,
		     u32 want, u64 *ids, struct htw_user_wait *wait);
void htw_pool_uncharge_all(struct htw_context *ctx);
bool htw_pool_refill(struct htw_context *ctx);
void htw_pool_unreserve(struct htw_context *ctx, struct list_head *timers);
struct list_head *htw_pool_free_list(struct htw_context *ctx);

/* The index in &htw_context.free of a CPU's list of free timers. */
static inline unsigned int htw_pool_group(unsigned int cpu)
{
	return cpu % HTW_FREE_LISTS;
}

/* The list from which this CPU takes free timers. */
static inline struct list_head *htw_pool_alloc_list(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	return &ctx->free[htw_pool_group(raw_smp_processor_id())];
}

/* Reserve one timer of a context that is not at its limit; NULL if none is free. */
static inline struct htw_timer *htw_pool_alloc(struct htw_context *ctx)
{
	struct list_head *free = htw_pool_alloc_list(ctx);
	struct htw_timer *t;

	lockdep_assert_held(&ctx->lock);

	if (!list_empty(free)) {
		t = htw_timer_pop(free);
	} else if (ctx->nr_unused) {
		t = ctx->unused++;
		ctx->nr_unused--;
		WRITE_ONCE(t->generation, ctx->unused_generation);
	} else if (htw_pool_refill(ctx)) {
		t = htw_timer_pop(free);
	} else {
		return NULL;
	}
	WRITE_ONCE(t->node.state, HTW_RESERVED);
	ctx->nr_timers++;
	return t;
}

#endif /* _HTW_POOL_H */
