// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queue of expirations: filled in softirq, emptied by readers
 *
 * Where the program has mapped a ring, an expiration goes straight there if
 * there is room and nothing waits: then it has been read, as far as the timer is
 * concerned. Else it waits in the queue, so that none is lost and none overtakes
 * another; what waits is moved into the ring by whoever comes first of poll(),
 * HTW_FLUSH and the next expirations.
 */

#include <linux/prefetch.h>
#include <linux/sched/signal.h>

#include <trace/events/htw.h>

#include "clock_sets.h"
#include "event.h"
#include "expire.h"
#include "wake.h"

/* Timers that HTW_ADVANCE deals with in one go under the lock. */
#define HTW_ADVANCE_UNITS	128u
/* Contexts that are delivered to in one go: each costs as much as some timers. */
#define HTW_DELIVERY_CONTEXTS		8u
/*
 * Queued events that each new expiration moves into the ring: two, so that the backlog
 * shrinks, with bounded work in softirq.
 */
#define HTW_DELIVER_MOVES	2u

/**
 * htw_delivery_begin() - begins a run of expirations
 * @d: the run
 * @base: the base that they come from
 */
void htw_delivery_begin(struct htw_delivery *d, struct htw_base *base)
{
	d->context = NULL;
	d->wake = NULL;
	d->base = base;
	d->contexts = 0;
	d->expired = 0;
}

static void htw_delivery_queue_wake(struct htw_delivery *d, struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	if (ctx->wake_queued)
		return;
	ctx->wake_queued = true;
	ctx->wake_next = d->wake;
	d->wake = ctx;
}

/*
 * htw_delivery_leave() - drops the lock of the context that was delivered to
 * @d: the run, which can go on
 *
 * Context: the lock of the base is held.
 */
static void htw_delivery_leave(struct htw_delivery *d)
{
	struct htw_context *ctx = d->context;
	struct htw_event_ring *ring;

	if (!ctx)
		return;
	if (d->expired != d->before)
		htw_delivery_queue_wake(d, ctx);
	ring = htw_context_open_ring(ctx);
	if (ring) {
		htw_context_consumed(ctx, d->freed);
		htw_ring_publish(ring, ctx->nr_expired);
	}
	htw_unlock(&ctx->lock);
	d->context = NULL;
}

/* Goes over to another context. */
static void htw_delivery_switch(struct htw_delivery *d, struct htw_context *ctx)
{
	struct htw_event_ring *ring;

	htw_delivery_leave(d);
	htw_lock(&ctx->lock);
	ring = htw_context_open_ring(ctx);
	d->context = ctx;
	d->contexts++;
	d->before = d->expired;
	d->room = ring && !ctx->nr_expired ? htw_ring_room(ring) : 0;
	d->freed = 0;
}

/* How late a timer is, and that it has expired. */
static __always_inline void htw_delivery_account(struct htw_delivery *d, const struct htw_timer *t,
						 u64 fired)
{
	d->base->late[min_t(u32, fls64((fired - t->deadline) >> 10), HTW_LATE_BUCKETS - 1)]++;
	trace_htw_expire(htw_timer_id(t), t->cookie, t->deadline, fired);
}

/*
 * Arms a timer on the base that is delivered from, whose lock is held. Its deadline is
 * ahead of the present, or the base comes back for it.
 */
static void htw_delivery_arm(struct htw_delivery *d, struct htw_context *ctx,
			     struct htw_timer *t)
{
	htw_timer_start(d->base, t, htw_context_to_host(ctx, t->deadline), htw_timer_slack(t), 0);
}

/*
 * Puts a timer's expiration into the ring, where there is room. One that goes on
 * is armed on the base that is delivered from, whichever it was on: that lock is
 * held. Its next deadline is ahead of @now, so it does not come back in this run.
 */
static void htw_deliver_to_ring(struct htw_delivery *d, struct htw_timer *t, u64 now)
{
	struct htw_context *ctx = d->context;
	struct htw_event *ev = htw_ring_next(ctx->ring);

	htw_event_report(ev, ctx, t, htw_context_from_host(ctx, now));
	if (htw_timer_consume(ctx, t, htw_context_from_host(ctx, now), &d->freed))
		htw_delivery_arm(d, ctx, t);
}

/*
 * Queues a timer's expiration. Where a ring has become able to take some, it
 * takes two: so the queue becomes shorter, and nobody decides how long this takes.
 */
static void htw_deliver_to_queue(struct htw_delivery *d, struct htw_timer *t, u64 now)
{
	struct htw_context *ctx = d->context;
	struct htw_event_ring *ring = htw_context_open_ring(ctx);
	u32 room;

	__htw_list_add_tail(&t->node.list, &ctx->expired);
	ctx->nr_expired++;
	WRITE_ONCE(t->node.state, HTW_EXPIRED);
	if (!ring)
		return;
	room = htw_ring_room(ring);
	for (u32 i = 0; i < HTW_DELIVER_MOVES && room && ctx->nr_expired; i++) {
		t = list_first_entry(&ctx->expired, struct htw_timer, node.list);
		list_del(&t->node.list);
		ctx->nr_expired--;
		room--;
		htw_deliver_to_ring(d, t, now);
	}
	d->room = ctx->nr_expired ? 0 : room;
}

/*
 * A timer's deadline has come: does its word in the table of deadlines say later,
 * or not at all? This is the one look at it, so what is stored from now on comes
 * too late. A timer is put back at a later tick than the present one, so it costs
 * one move a tick at the most, however fast the program stores.
 *
 * Return: true if it does not expire now.
 */
static bool htw_deliver_defer(struct htw_delivery *d, struct htw_context *ctx,
			      struct htw_timer *t, u64 now)
{
	const u64 word = htw_timer_override(t);

	if (word <= t->deadline)
		return false;
	if (word == HTW_DISARMED) {
		if (d->context != ctx)
			htw_delivery_switch(d, ctx);
		WRITE_ONCE(t->node.state, HTW_IDLE);
		return true;
	}
	t->deadline = word;
	if (word <= htw_context_from_host(ctx, now))
		return false;
	trace_htw_mod(htw_timer_id(t), t->cookie, t->deadline, t->interval);
	htw_delivery_arm(d, ctx, t);
	return true;
}

/*
 * htw_deliver_put_back() - puts a timer back whose deadline is still to come
 * @d: the run
 * @n: the timer's node, just out of its wheel
 * @now: the base's time, in ns
 *
 * That is so where CLOCK_REALTIME was set back after the timer had been started for
 * a deadline that had come then, and so for a tick that had come: the deadline may be
 * later than that tick.
 *
 * Context: as for htw_deliver().
 * Return: true if the timer is in its wheel again.
 */
static bool htw_deliver_put_back(struct htw_delivery *d, struct htw_node *n, u64 now)
{
	struct htw_timer *t = container_of(n, struct htw_timer, node);
	struct htw_context *ctx = htw_timer_page(t)->ctx;

	if (htw_context_to_host(ctx, t->deadline) <= now)
		return false;
	htw_delivery_arm(d, ctx, t);
	return true;
}

/*
 * htw_deliver() - EXPIRY_PROCESSING: puts an expired timer where it is read
 * @d: the run
 * @n: the timer's node, just out of its wheel
 * @now: the base's time at which it fired, in ns; not before its deadline
 *
 * Context: the lock of the node's base is held, bottom halves are off.
 */
static void htw_deliver(struct htw_delivery *d, struct htw_node *n, u64 now)
{
	struct htw_timer *t = container_of(n, struct htw_timer, node);
	struct htw_context *ctx = htw_timer_page(t)->ctx;

	if (unlikely(READ_ONCE(ctx->table)) && htw_deliver_defer(d, ctx, t, now))
		return;
	if (d->context != ctx)
		htw_delivery_switch(d, ctx);
	n->fired = htw_context_from_host(ctx, now);
	htw_delivery_account(d, t, n->fired);
	d->expired++;
	if (d->room) {
		d->room--;
		htw_deliver_to_ring(d, t, now);
	} else {
		htw_deliver_to_queue(d, t, now);
	}
}

static bool htw_timer_belongs_to(const struct htw_timer *t, const struct htw_context *ctx)
{
	return likely(htw_timer_page(t)->ctx == ctx);
}

/* From the front of @due into the ring, while they are plain. */
static u32 htw_deliver_batch_to_ring(struct htw_delivery *d, struct list_head *due, u64 fired,
				     u32 max)
{
	struct htw_context *ctx = d->context;
	struct htw_event_ring *ring = ctx->ring;
	const u32 mask = ring->entries - 1;
	struct list_head *last = due;
	u32 tail = ring->tail;
	LIST_HEAD(over);
	u32 count;

	for (count = 0; count < max && last->next != due; count++) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		if (!htw_timer_belongs_to(t, ctx) || unlikely(!htw_timer_is_plain(t)))
			break;
		prefetchw(t->node.list.next);
		htw_delivery_account(d, t, fired);
		htw_event_fill(&ring->events[tail++ & mask], t, fired, 0, 0);
		if (likely(htw_timer_end_id(t)))
			last = &t->node.list;
		else
			list_del(&t->node.list);
	}
	ring->tail = tail;
	list_cut_position(&over, due, last);
	list_splice(&over, htw_slots_free_list(ctx));
	d->room -= count;
	d->freed += count;
	return count;
}

/* From the front of @due to the end of the queue. */
static u32 htw_deliver_batch_to_queue(struct htw_delivery *d, struct list_head *due, u64 fired,
				      u32 max)
{
	struct htw_context *ctx = d->context;
	struct list_head *last = due;
	LIST_HEAD(expired);
	u32 count;

	for (count = 0; count < max && last->next != due; count++) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		if (!htw_timer_belongs_to(t, ctx))
			break;
		prefetchw(t->node.list.next);
		htw_delivery_account(d, t, fired);
		t->node.fired = fired;
		WRITE_ONCE(t->node.state, HTW_EXPIRED);
		last = &t->node.list;
	}
	list_cut_position(&expired, due, last);
	list_splice_tail(&expired, &ctx->expired);
	ctx->nr_expired += count;
	return count;
}

/*
 * htw_deliver_batch() - delivers timers that need nothing but to be delivered
 * @d: the run
 * @due: nodes of one wheel whose ticks have come, in order
 * @now: as for htw_deliver()
 * @budget: how many may be taken; what was used is taken off
 *
 * From the front of the list, as long as they are of one context and there is
 * room for them: together they change hands by one cut and one splice. Those that
 * need more are for htw_deliver().
 *
 * Context: as for htw_deliver().
 * Return: how many were taken off @due.
 */
static u32 htw_deliver_batch(struct htw_delivery *d, struct list_head *due, u64 now,
			     unsigned int *budget)
{
	const struct htw_timer *t = list_first_entry(due, struct htw_timer, node.list);
	struct htw_context *ctx;
	u32 count = 0;
	u64 fired;

	if (!*budget || list_empty(due))
		return 0;
	ctx = htw_timer_page(t)->ctx;
	if (unlikely(READ_ONCE(ctx->table)))
		return 0;
	if (d->context != ctx)
		htw_delivery_switch(d, ctx);
	fired = htw_context_from_host(ctx, now);
	if (unlikely(ctx->table))	/* just now */
		count = 0;
	else if (d->room)
		count = htw_deliver_batch_to_ring(d, due, fired, min(*budget, d->room));
	else if (!htw_context_open_ring(ctx))
		count = htw_deliver_batch_to_queue(d, due, fired, *budget);
	d->expired += count;
	*budget -= count;
	return count;
}

/**
 * htw_deliver_clock_set() - queues a timer that expires because CLOCK_REALTIME
 * was set
 * @d: the run, which has no context's lock
 * @t: the timer, in no wheel and on no list; the lock of its context is held
 * @now: the context's time, in ns; may be before the timer's deadline
 *
 * Context: bottom halves are off.
 */
void htw_deliver_clock_set(struct htw_delivery *d, struct htw_timer *t, u64 now)
{
	struct htw_context *ctx = htw_timer_page(t)->ctx;
	struct htw_event_ring *ring = htw_context_open_ring(ctx);

	t->node.fired = now;
	trace_htw_expire(htw_timer_id(t), t->cookie, t->deadline, now);
	list_add_tail(&t->node.list, &ctx->expired);
	ctx->nr_expired++;
	d->expired++;
	WRITE_ONCE(t->node.state, HTW_EXPIRED);
	/* A ring takes it when it is looked at: all but this is seldom enough. */
	if (ring)
		htw_ring_publish(ring, ctx->nr_expired);
	htw_delivery_queue_wake(d, ctx);
}

/*
 * Delivers what is due, then moves down what will be: @budget nodes, and to
 * %HTW_DELIVERY_CONTEXTS contexts, at the most.
 *
 * Return: true if nothing is left to do now.
 */
static bool htw_expire_some(struct htw_base *base, struct htw_delivery *delivery,
			    unsigned int budget)
{
	const u64 cascades = base->wheel.cascades;
	u64 now = htw_base_now(base);
	struct htw_node *n;
	bool was_set_back;
	bool done;

	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_BASE_REALTIME)
		now = htw_base_check_clock(base, now);
	/* Since a node was started that was due then, and may not be now. */
	was_set_back = now < base->due_ns;
	while (delivery->contexts <= HTW_DELIVERY_CONTEXTS) {
		/* What is due is mostly alike, and delivered without a look at the wheel. */
		if (likely(!was_set_back))
			base->wheel.pending -= htw_deliver_batch(delivery, &base->wheel.due,
								 now, &budget);
		n = htw_wheel_expire(&base->wheel, htw_tick(base, now), &budget);
		if (!n)
			break;
		if (likely(!was_set_back) || !htw_deliver_put_back(delivery, n, now))
			htw_deliver(delivery, n, now);
	}
	htw_delivery_leave(delivery);
	done = budget && delivery->contexts <= HTW_DELIVERY_CONTEXTS &&
	       htw_wheel_cascade(&base->wheel, &budget);
	if (base->wheel.cascades != cascades)
		trace_htw_cascade(base->cpu, base->wheel.cascades - cascades);
	return done;
}

/**
 * htw_expire_serve() - delivers what is due of a user's base
 * @job: the base's
 * @turn: how much may be done
 *
 * Context: see &htw_job.serve.
 * Return: how the turn has ended.
 */
enum htw_served htw_expire_serve(struct htw_job *job, const struct htw_turn *turn)
{
	struct htw_base *base = container_of(job, struct htw_base, job);
	struct htw_delivery delivery;
	enum htw_served served;

	if (unlikely(!htw_base_begin_turn(base, turn, &served)))
		return served;
	htw_delivery_begin(&delivery, base);
	served = htw_base_end_turn(base, htw_expire_some(base, &delivery, turn->units));
	htw_delivery_wake(&delivery, true);
	return served;
}

/*
 * htw_expire_advance() - moves %HTW_BASE_MANUAL on and delivers what is due then
 * @base: the base, a private one on that clock
 * @now: the time it is then; an earlier one than before leaves it as it is
 * @expired: what was delivered is added to it
 *
 * Context: process; some of the nodes that are due are dealt with.
 * Return: true if nothing is left to do.
 */
static bool htw_expire_advance(struct htw_base *base, u64 now, u64 *expired)
{
	struct htw_delivery delivery;
	bool done;

	htw_delivery_begin(&delivery, base);
	rcu_read_lock();
	spin_lock_bh(&base->lock);
	atomic64_set(&base->manual_ns, max_t(u64, now, atomic64_read(&base->manual_ns)));
	done = htw_expire_some(base, &delivery, HTW_ADVANCE_UNITS);
	spin_unlock_bh(&base->lock);
	rcu_read_unlock();
	htw_delivery_wake(&delivery, false);
	*expired += delivery.expired;
	return done;
}

/**
 * htw_context_advance() - moves a context's clock that stands still
 * @ctx: the context, on %HTW_BASE_MANUAL
 * @to: the time it is then; 0 only delivers what is due
 *
 * Once begun this is carried through, but for a process that is killed: half a
 * step would be no time at all.
 *
 * Context: may sleep.
 * Return: how many timers expired.
 */
u64 htw_context_advance(struct htw_context *ctx, u64 to)
{
	u64 expired = 0;

	while (!htw_expire_advance(ctx->own, to, &expired) && !fatal_signal_pending(current))
		cond_resched();
	return expired;
}
