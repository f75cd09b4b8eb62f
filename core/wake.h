/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking up those who wait for an expiration
 */
#ifndef _HTW_WAKE_H
#define _HTW_WAKE_H

#include "context.h"

/**
 * struct htw_delivery - a run of expirations
 * @context: the context whose lock is held, or NULL
 * @wake: contexts whose waiters are to be woken up, linked by
 *	&htw_context.wake_next
 * @base: the base that they come from, whose lock is held; NULL where they come
 *	from none
 * @room: how many go straight into the ring of @context; none where it has no
 *	ring that is mapped, and while some wait in its queue
 * @freed: how many timers of @context were freed, and still count
 * @contexts: how often another context became @context
 * @expired: how many timers were delivered
 * @before: how many when @context became the one
 */
struct htw_delivery {
	struct htw_context *context;
	struct htw_context *wake;
	struct htw_base *base;
	u32 room;
	u32 freed;
	u32 contexts;
	u64 expired;
	u64 before;
};

void htw_wake_init(struct htw_context *ctx);
void htw_wake_stop(struct htw_context *ctx);
void htw_wake_exit(struct htw_context *ctx);
void htw_wake_reader(struct htw_context *ctx);
void htw_delivery_wake(struct htw_delivery *d, bool paced);

#endif /* _HTW_WAKE_H */
