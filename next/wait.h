/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking who waits for a context
 */
#ifndef _HTW_WAIT_H
#define _HTW_WAIT_H

#include "alarm.h"
#include "context.h"

/**
 * enum htw_why - what an alarm rings for
 * @HTW_WHY_DUE: a timer is due: one reader, and all that poll() as they do
 * @HTW_WHY_MOVE: a bucket is to be moved down: the same, but nobody is told
 *	that the descriptor is readable
 * @HTW_WHY_AGAIN: who was woken has not looked: all readers, and who polls
 */
enum htw_why {
	HTW_WHY_DUE	= BIT(0),
	HTW_WHY_MOVE	= BIT(1),
	HTW_WHY_AGAIN	= BIT(2),
};

int htw_wait_init(void);
void htw_wait_exit(void);
u32 htw_wait_room(struct htw_alarm *a, u64 now, u64 *until);
void htw_wait_ring(struct htw_alarm *a, struct htw_context *ctx, enum htw_why ring);
void htw_wait_wake(struct htw_context *ctx);
void htw_wait_take_out(struct htw_context *ctx);

/* Does anybody wait? After what he waits for has been published. */
static inline bool htw_wait_is_waiting(struct htw_context *ctx)
{
	return wq_has_sleeper(&ctx->readers) || wq_has_sleeper(&ctx->wait) ||
	       READ_ONCE(ctx->fasync);
}

/*
 * Does anybody wait beside the one that has been woken? A reader that was is in
 * the queue no more.
 */
static inline bool htw_wait_is_left(struct htw_context *ctx)
{
	const struct list_head *pollers = &ctx->wait.head;

	return !list_empty_careful(&ctx->readers.head) ||
	       (!list_empty_careful(pollers) && !list_is_singular(pollers));
}

/* Do more wait than one wake-up is for? Before that. */
static inline bool htw_wait_has_others(struct htw_context *ctx)
{
	const struct list_head *readers = &ctx->readers.head, *pollers = &ctx->wait.head;

	return (!list_empty_careful(readers) && !list_is_singular(readers)) ||
	       (!list_empty_careful(pollers) && !list_is_singular(pollers)) ||
	       (!list_empty_careful(readers) && !list_empty_careful(pollers));
}

#endif /* _HTW_WAIT_H */
