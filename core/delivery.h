/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delivery: from the wheel to where a program reads
 */
#ifndef _HTW_DELIVERY_H
#define _HTW_DELIVERY_H

#include "context.h"

/* A turn ends once it has switched contexts more often: that costs as much as several timers. */
#define HTW_DELIVERY_CONTEXTS	8u

/**
 * struct htw_delivery - a delivery in progress; on the stack of its task or softirq
 * @context: the context that is delivered to and whose lock is held, or NULL
 * @turn: the turn that it is part of, or NULL in process context
 * @base: the base that the timers come from, whose lock is held; NULL if from
 *	none
 * @room: room in the ring of @context; zero if that is not mapped, or events
 *	are queued
 * @freed: timers of @context that were freed and not accounted for yet
 * @contexts: number of times that @context changed
 * @fired: when @context was locked, in its time: so what other CPUs have
 *	delivered to it before does not have a later time
 * @expired: number of timers delivered
 * @moved: queued events that were moved into the ring and not counted yet
 * @before: value of @expired when @context was set
 * @busy: the lock of a context was contended, so the turn has to end
 * @nr_wake: number of contexts in @wake
 * @wake: contexts whose waiters are to be woken. Each delivery wakes for
 *	itself: it may be preempted before it does, and the events of another
 *	one must not wait for that
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
	u32 moved;
	bool busy;
	u32 nr_wake;
	struct htw_context *wake[HTW_DELIVERY_CONTEXTS + 1];
};

void htw_delivery_begin(struct htw_delivery *d, struct htw_base *base,
			struct htw_turn *turn);
void htw_delivery_clock_set(struct htw_delivery *d, struct htw_timer *t);
enum htw_served htw_delivery_serve(struct htw_job *job, struct htw_turn *turn);
void htw_delivery_wake(struct htw_delivery *d);
bool htw_delivery_advance(struct htw_base *base, u64 now, u64 *expired);

#endif /* _HTW_DELIVERY_H */
