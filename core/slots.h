/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots: pages of timers, their ids and the limits
 */
#ifndef _HTW_SLOTS_H
#define _HTW_SLOTS_H

#include "context.h"

int htw_slots_grow(struct htw_context *ctx);
int htw_slots_reserve(struct htw_context *ctx, struct list_head *timers, u32 want, u64 *ids);
bool htw_slots_refill(struct htw_context *ctx);
void htw_slots_unreserve(struct htw_context *ctx, struct list_head *timers);

/**
 * htw_slots_alloc() - takes a free timer, if there is one
 * @ctx: the context, whose lock is held and which is not at its limit
 *
 * Return: the timer, reserved and on no list, or NULL.
 */
static inline struct htw_timer *htw_slots_alloc(struct htw_context *ctx)
{
	struct list_head *free = htw_slots_alloc_list(ctx);
	struct htw_timer *t;

	lockdep_assert_held(&ctx->lock);

	if (likely(!list_empty(free))) {
		t = htw_timer_pop(free);
	} else if (likely(ctx->nr_fresh)) {
		t = ctx->fresh++;
		ctx->nr_fresh--;
		WRITE_ONCE(t->generation, ctx->fresh_generation);
	} else if (htw_slots_refill(ctx)) {
		t = htw_timer_pop(free);
	} else {
		return NULL;
	}
	WRITE_ONCE(t->node.state, HTW_RESERVED);
	ctx->nr_timers++;
	return t;
}

#endif /* _HTW_SLOTS_H */
