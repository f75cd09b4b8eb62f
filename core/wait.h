/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking the tasks that wait for a context, and what that may take
 */
#ifndef _HTW_WAIT_H
#define _HTW_WAIT_H

#include "context.h"
#include "user.h"

/* A wake-up that takes longer is long: its user rests for a multiple of it. */
#define HTW_LONG_NS		(50 * NSEC_PER_USEC)

/**
 * struct htw_wakes - what a work item has done for all users
 * @wakes: bases for which it has woken tasks
 * @spent: what that took, in ns
 */
struct htw_wakes {
	u64 wakes;
	u64 spent;
};

/* Each work item's queue is ordered. */
extern struct htw_wakes htw_wakes[HTW_WORKS];

/* Does a reader block? One that has been woken is in the queue no more. */
static inline bool htw_wait_is_blocked(const struct htw_context *ctx)
{
	return !list_empty_careful(&ctx->readers.head);
}

/*
 * Who waits: %HTW_WAKE_READER, %HTW_WAKE_POLLERS. What they wait for has been
 * published, with a full barrier after it.
 */
static inline u32 htw_wait_who(const struct htw_context *ctx)
{
	u32 who = htw_wait_is_blocked(ctx) ? HTW_WAKE_READER : 0;

	if (!list_empty_careful(&ctx->wait.head) || READ_ONCE(ctx->fasync))
		who |= HTW_WAKE_POLLERS;
	return who;
}

/*
 * Does a context's next wake-up take long? As the last one did; if it has had
 * none, as its user's recent ones. @now is by local_clock().
 */
static inline bool htw_wait_is_long(const struct htw_context *ctx, u64 now)
{
	u32 cost = READ_ONCE(ctx->cost);

	return cost ? cost > HTW_LONG_NS : now < READ_ONCE(ctx->user->forget);
}

bool htw_wait_has_others(const struct htw_context *ctx);
bool htw_wait_has_room(const struct htw_user *user, u64 now, u64 *until);
bool htw_wait_is_direct(const struct htw_context *ctx, u64 now);
u64 htw_wait_wake_direct(struct htw_context *ctx, u32 wakes);
u64 htw_wait_wake_left(struct htw_context *ctx, u32 wakes, bool (*look)(struct htw_context *ctx));
void htw_wait_wake_all(struct htw_context *ctx);

#endif /* _HTW_WAIT_H */
