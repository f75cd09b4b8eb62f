/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events: the structures that programs read
 */
#ifndef _HTW_EVENT_H
#define _HTW_EVENT_H

#include "context.h"

/*
 * Fill in an event field by field. @ev may be in memory that a program maps: a
 * compound literal would be cleared first and then written, or be read back.
 */
static __always_inline void htw_event_fill(struct htw_event *ev,
					   const struct htw_timer *t, u64 fired,
					   u64 missed, u32 flags)
{
	ev->id = htw_timer_id(t);
	ev->cookie = t->cookie;
	ev->deadline = t->deadline;
	ev->fired = fired;
	ev->missed = missed;
	ev->flags = flags;
	ev->reserved = 0;
}

/* The ring that takes events: NULL if there is none, or it is not mapped. */
static inline struct htw_event_ring *htw_event_open_ring(const struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	return ctx->ring && ctx->ring->maps ? ctx->ring : NULL;
}

void htw_event_report(struct htw_event *ev, const struct htw_context *ctx,
		      struct htw_timer *t, u64 now);
bool htw_event_consume(struct htw_context *ctx, struct htw_timer *t, u64 now,
		       u32 *freed);
u32 htw_event_move_to_ring(struct htw_context *ctx, struct htw_event_ring *ring,
			   u32 max, u64 now, u32 *freed,
			   struct list_head *rearm);
void htw_event_consumed(struct htw_context *ctx, u32 freed);

#endif /* _HTW_EVENT_H */
