/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking tasks that wait for events
 */
#ifndef _HTW_WAKE_H
#define _HTW_WAKE_H

#include "context.h"

/**
 * struct htw_delivery - a delivery in progress; on the stack of its task or softirq
 * @context: the context that is delivered to and whose lock is held, or NULL
 * @wake: contexts whose waiters are to be woken, linked by &htw_context.wake_next
 * @base: the base that the timers come from, whose lock is held; NULL if from none
 * @room: room in the ring of @context; zero if that is not mapped, or events are queued
 * @freed: timers of @context that were freed and not accounted for yet
 * @contexts: number of times that @context changed
 * @expired: number of timers delivered
 * @before: value of @expired when @context was set
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
