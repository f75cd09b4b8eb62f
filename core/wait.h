/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking the tasks that wait for a context, and what that may take
 */
#ifndef _HTW_WAIT_H
#define _HTW_WAIT_H

#include "context.h"

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

bool htw_wait_is_waiting(struct htw_context *ctx);
bool htw_wait_is_blocked(struct htw_context *ctx);
bool htw_wait_has_others(struct htw_context *ctx);
bool htw_wait_has_room(struct htw_user *user, u64 *until);
bool htw_wait_is_direct(struct htw_context *ctx);
unsigned int htw_wait_work(const struct htw_context *ctx);
void htw_wait_wake_direct(struct htw_context *ctx, u32 wakes);
u64 htw_wait_wake_left(struct htw_context *ctx, u32 wakes, bool (*look)(struct htw_context *ctx));
void htw_wait_wake_all(struct htw_context *ctx);

#endif /* _HTW_WAIT_H */
