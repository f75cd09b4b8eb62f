/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waking tasks that wait for events
 */
#ifndef _HTW_WAKE_H
#define _HTW_WAKE_H

#include "context.h"

/* A turn ends once it has switched contexts more often: that costs as much as several timers. */
#define HTW_DELIVERY_CONTEXTS	8u

/**
 * struct htw_delivery - a delivery in progress; on the stack of its task or softirq
 * @context: the context that is delivered to and whose lock is held, or NULL
 * @turn: the turn that it is part of, or NULL in process context
 * @base: the base that the timers come from, whose lock is held; NULL if from none
 * @room: room in the ring of @context; zero if that is not mapped, or events are queued
 * @freed: timers of @context that were freed and not accounted for yet
 * @contexts: number of times that @context changed
 * @fired: when @context was locked, in its time: so what other CPUs have delivered to it before
 *	does not have a later time
 * @expired: number of timers delivered
 * @before: value of @expired when @context was set
 * @busy: the lock of a context was contended, so the turn has to end
 * @nr_wake: number of contexts in @wake
 * @wake: contexts whose waiters are to be woken. Each delivery wakes for itself: it may be
 *	preempted before it does, and the events of another one must not wait for that
 */
struct htw_delivery {
	struct htw_context *context;
	struct htw_turn *turn;
	struct htw_base *base;
	u32 room;
	u32 freed;
	u32 contexts;
	u64 fired;
	u64 expired;
	u64 before;
	bool busy;
	u32 nr_wake;
	struct htw_context *wake[HTW_DELIVERY_CONTEXTS + 1];
};

void htw_wake_init(struct htw_context *ctx);
void htw_wake_stop(struct htw_context *ctx);
void htw_wake_reader(struct htw_context *ctx);
void htw_wake_send_signals(struct work_struct *work);
void htw_delivery_wake(struct htw_delivery *d);

#endif /* _HTW_WAKE_H */
