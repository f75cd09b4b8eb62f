// SPDX-License-Identifier: GPL-2.0-only
/*
 * Delivery: from the wheel to where a program reads
 *
 * While a ring is mapped, has room and no event is queued, the event of an
 * expired timer goes straight into the ring and counts as read. Otherwise the
 * timer is put on its context's queue, so that no event is lost or overtakes
 * another. Queued events are moved into the ring by poll(), HTW_FLUSH and later
 * expirations.
 *
 * Timers are taken from the front of the wheel's list of due nodes. Neighbours
 * that belong to one context change lists together, by one cut and one splice.
 */

#include <linux/prefetch.h>

#include <trace/events/htw.h>

#include "delivery.h"
#include "event.h"
#include "pool.h"
#include "wake.h"

/* Timers that HTW_ADVANCE handles before it drops the base's lock. */
#define HTW_ADVANCE_UNITS	64u
/* Units of a turn for a context other than the first. */
#define HTW_CONTEXT_UNITS	16u
/* Queued events that each new expiration moves into the ring: two, so that the backlog shrinks. */
#define HTW_DELIVERY_MOVES	2u

/**
 * htw_delivery_begin() - begin a delivery
 * @d: the delivery
 * @base: the base that the timers come from, or NULL
 * @turn: the turn that it is part of, or NULL in process context
 */
void htw_delivery_begin(struct htw_delivery *d, struct htw_base *base,
			struct htw_turn *turn)
{
	d->context = NULL;
	d->turn = turn;
	d->base = base;
	d->contexts = 0;
	d->expired = 0;
	d->moved = 0;
	d->busy = false;
	d->nr_wake = 0;
}

static void htw_delivery_queue_wake(struct htw_delivery *d,
				    struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	for (u32 i = 0; i < d->nr_wake; i++) {
		if (d->wake[i] == ctx)
			return;
	}
	d->wake[d->nr_wake++] = ctx;
}

/* Publish what was delivered to the current context, if any, and drop its lock. */
static void htw_delivery_leave(struct htw_delivery *d)
{
	struct htw_context *ctx = d->context;
	struct htw_event_ring *ring;

	if (!ctx)
		return;
	if (d->expired != d->before)
		htw_delivery_queue_wake(d, ctx);
	ring = htw_event_open_ring(ctx);
	if (ring) {
		htw_event_consumed(ctx, d->freed);
		htw_ring_publish(ring, ctx->nr_expired);
	}
	htw_unlock(&ctx->lock);
	d->context = NULL;
}

/*
 * Lock another context and deliver to it from now on; @now was read before. In
 * a turn, only try: the user's tasks on other CPUs can hold the lock again and
 * again, and other users would wait.
 * Return: false if the lock is contended.
 */
static bool htw_delivery_switch(struct htw_delivery *d, struct htw_context *ctx,
				u64 now)
{
	struct htw_event_ring *ring;

	htw_delivery_leave(d);
	if (!d->turn) {
		htw_lock(&ctx->lock);
	} else if (!htw_trylock(&ctx->lock)) {
		d->busy = true;
		return false;
	}

	ring = htw_event_open_ring(ctx);
	d->context = ctx;
	d->contexts++;
	d->before = d->expired;
	d->fired = htw_context_from_host(ctx, max(now, htw_base_now(d->base)));
	d->room = ring && !ctx->nr_expired ? htw_ring_room(ring) : 0;
	d->freed = 0;
	return true;
}

/* Account the expiration of a timer: lateness and tracepoint. */
static __always_inline void htw_delivery_account(struct htw_delivery *d,
						 const struct htw_timer *t,
						 u64 fired)
{
	d->base->late[min_t(u32, fls64((fired - t->deadline) >> 10),
			    HTW_LATE_BINS - 1)]++;
	/* Tested first: the compiler computes the arguments of a disabled tracepoint. */
	if (trace_htw_expire_enabled())
		trace_htw_expire(htw_timer_id(t), t->cookie, t->deadline, fired);
}

/*
 * Start a timer on the base that is delivered from, whichever base it was on
 * before: that lock is held. It cannot come back in this turn, since its
 * deadline is in the future.
 */
static void htw_delivery_arm(struct htw_delivery *d, struct htw_context *ctx,
			     struct htw_timer *t)
{
	htw_timer_start(d->base, t,
			htw_base_choose_tick(d->base, htw_context_to_host(ctx, t->deadline),
					     htw_timer_slack(t), 0));
}

static bool htw_delivery_is_of(const struct htw_timer *t,
			       const struct htw_context *ctx)
{
	return htw_timer_page(t)->ctx == ctx;
}

/* Take a timer off the list of due nodes if it does not expire now. */
static bool htw_delivery_defer_one(struct htw_delivery *d, struct htw_timer *t,
				   u64 now)
{
	struct htw_context *ctx = d->context;
	u64 override = htw_context_override(ctx, t);
	bool moved = override > t->deadline;

	if (override == HTW_DISARMED) {
		list_del(&t->node.list);
		t->node.idle_interval = 0;	/* @interval stays */
		WRITE_ONCE(t->node.state, HTW_IDLE);
		return true;
	}
	if (t->node.flags & HTW_TIMER_CLOCK_SET) {
		list_del(&t->node.list);
		htw_delivery_clock_set(d, t);
		d->room = 0;
		return true;
	}
	if (moved)
		t->deadline = override;
	if (t->deadline <= htw_context_from_host(ctx, now))
		return false;
	if (moved)
		trace_htw_mod(htw_timer_id(t), t->cookie, t->deadline,
			      t->interval);
	list_del(&t->node.list);
	htw_delivery_arm(d, ctx, t);
	return true;
}

/*
 * Look at up to @max timers at the front of @due and take those off that do not
 * expire now:
 *
 * - Their override in the table of deadlines names a later time, or disarms
 *   them. A store that comes after the timer was delivered has no effect on
 *   that expiration. The timer goes back into a later tick, so it is moved once
 *   a tick at most, however often the program stores.
 * - They were started for a tick that had come, and CLOCK_REALTIME has been set
 *   back since.
 * - They expire because the clock was set before they were armed once more:
 *   these are queued here, as their deadlines may be in the future.
 *
 * Return: how many timers were taken off.
 */
static u32 htw_delivery_defer(struct htw_delivery *d, struct list_head *due,
			      u64 now, u32 max)
{
	struct htw_timer *t, *next;
	u32 seen = 0, deferred = 0;

	list_for_each_entry_safe(t, next, due, node.list) {
		if (seen++ == max || !htw_delivery_is_of(t, d->context))
			break;
		deferred += htw_delivery_defer_one(d, t, now);
	}
	return deferred;
}

/* Fill in @ev for a timer that is not plain; start the timer again if it is periodic. */
static noinline void htw_delivery_special(struct htw_delivery *d,
					  struct htw_timer *t, u64 fired,
					  struct htw_event *ev)
{
	list_del(&t->node.list);
	t->node.fired = fired;
	htw_event_report(ev, d->context, t, fired);
	if (htw_event_consume(d->context, t, fired, &d->freed))
		htw_delivery_arm(d, d->context, t);
}

/*
 * Deliver up to @max timers from the front of @due to the context's ring, which
 * has room for them. Plain timers end: they stay linked to each other and go to
 * the free list together.
 *
 * Return: how many timers were delivered.
 */
static u32 htw_delivery_to_ring(struct htw_delivery *d, struct list_head *due,
				u64 fired, u32 max)
{
	struct htw_context *ctx = d->context;
	struct htw_event_ring *ring = ctx->ring;
	u32 mask = ring->entries - 1;
	bool table = ctx->table;
	struct list_head *last = due;
	u32 tail = ring->tail;
	u32 count, special = 0;
	LIST_HEAD(ended);

	for (count = 0; count < max && last->next != due; count++) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);
		struct htw_event *ev = &ring->events[tail & mask];

		if (!htw_delivery_is_of(t, ctx))
			break;
		prefetchw(t->node.list.next);
		htw_delivery_account(d, t, fired);
		tail++;
		if (unlikely(table || !htw_timer_is_plain(t))) {
			htw_delivery_special(d, t, fired, ev);
			special++;
			continue;
		}
		htw_event_fill(ev, t, fired, 0, 0);
		if (likely(htw_timer_end_id(t)))
			last = &t->node.list;
		else
			list_del(&t->node.list);
	}
	ring->tail = tail;
	list_cut_position(&ended, due, last);
	list_splice(&ended, htw_pool_free_list(ctx));
	d->freed += count - special;
	d->room -= count;
	return count;
}

/*
 * Deliver up to @max timers from the front of @due to the end of the context's
 * queue.
 *
 * Return: how many timers were delivered.
 */
static u32 htw_delivery_to_queue(struct htw_delivery *d, struct list_head *due,
				 u64 fired, u32 max)
{
	struct htw_context *ctx = d->context;
	struct list_head *last = due;
	LIST_HEAD(expired);
	u32 count;

	for (count = 0; count < max && last->next != due; count++) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		if (!htw_delivery_is_of(t, ctx))
			break;
		prefetchw(t->node.list.next);
		htw_delivery_account(d, t, fired);
		t->node.fired = fired;
		WRITE_ONCE(t->node.state, HTW_EXPIRED);
		last = &t->node.list;
	}
	list_cut_position(&expired, due, last);
	list_splice_tail(&expired, &ctx->expired);
	htw_context_add_expired(ctx, count);
	return count;
}

/* Move up to @max queued events into the ring, if that is mapped and has room again. */
static void htw_delivery_refill_ring(struct htw_delivery *d, u64 fired, u32 max)
{
	struct htw_context *ctx = d->context;
	struct htw_event_ring *ring = htw_event_open_ring(ctx);
	LIST_HEAD(rearm);

	if (!ring)
		return;
	d->moved += htw_event_move_to_ring(ctx, ring, max, fired, &d->freed, &rearm);
	while (!list_empty(&rearm))
		htw_delivery_arm(d, ctx, htw_timer_pop(&rearm));
	d->room = ctx->nr_expired ? 0 : htw_ring_room(ring);
}

/*
 * Deliver up to @max timers from the front of @due, all of one context and all
 * to the ring or all to the queue. @now is the base's time in ns; with
 * @was_set_back some of the timers may be due later than that.
 *
 * Return: how many timers were taken off @due: at least one, unless @d->busy is
 * set.
 */
static u32 htw_delivery_to_context(struct htw_delivery *d,
				   struct list_head *due, u64 now,
				   bool was_set_back, u32 max)
{
	struct htw_timer *first = list_first_entry(due, struct htw_timer, node.list);
	struct htw_context *ctx = htw_timer_page(first)->ctx;
	u32 deferred = 0, count;
	u64 fired;

	if (d->context != ctx && !htw_delivery_switch(d, ctx, now))
		return 0;
	fired = d->fired;
	if (ctx->table || was_set_back)
		deferred = htw_delivery_defer(d, due, now, max);
	if (d->room) {
		count = htw_delivery_to_ring(d, due, fired,
					     min(max - deferred, d->room));
	} else {
		max -= deferred;
		/* For each one so many others move, which takes as long. */
		if (ctx->ring)
			max = DIV_ROUND_UP(max, 1 + HTW_DELIVERY_MOVES);
		count = htw_delivery_to_queue(d, due, fired, max);
		htw_delivery_refill_ring(d, fired, HTW_DELIVERY_MOVES * count);
	}
	d->expired += count;
	return deferred + count;
}

/**
 * htw_delivery_clock_set() - queue a timer that expires because CLOCK_REALTIME was set
 * @d: a delivery that has delivered to no context
 * @t: the timer, in no wheel and on no list; its deadline may be in the future
 *
 * Context: bottom halves are off, the caller holds the lock of the timer's
 * context.
 */
void htw_delivery_clock_set(struct htw_delivery *d, struct htw_timer *t)
{
	struct htw_context *ctx = htw_timer_page(t)->ctx;
	struct htw_event_ring *ring = htw_event_open_ring(ctx);
	/* Under the lock: events queued before, by other CPUs, do not have a later time. */
	u64 now = htw_context_now(ctx);

	t->node.fired = now;
	trace_htw_expire(htw_timer_id(t), t->cookie, t->deadline, now);
	list_add_tail(&t->node.list, &ctx->expired);
	htw_context_add_expired(ctx, 1);
	WRITE_ONCE(t->node.state, HTW_EXPIRED);
	/* These events are rare: leave it to poll() and HTW_FLUSH to move them. */
	if (ring)
		htw_ring_publish(ring, ctx->nr_expired);
	htw_delivery_queue_wake(d, ctx);
}

/* May the delivery go on to other timers? */
static bool htw_delivery_may_go_on(const struct htw_delivery *d)
{
	return !d->busy && d->contexts <= HTW_DELIVERY_CONTEXTS;
}

/*
 * Deliver what is due, then cascade: at most @budget units, and no more once
 * the delivery has switched contexts more often than HTW_DELIVERY_CONTEXTS, or
 * finds one locked.
 *
 * Return: true if nothing is left to do now.
 */
static bool htw_delivery_expire(struct htw_base *base,
				struct htw_delivery *delivery,
				unsigned int budget)
{
	struct htw_wheel *w = &base->wheel;
	u64 cascades = w->cascades;
	u64 rewinds = base->rewinds;
	u64 now = htw_base_turn_now(base, delivery->turn);
	bool was_set_back;
	bool done;

	lockdep_assert_held(&base->lock);

	if (base->clock == HTW_REALTIME)
		now = htw_base_check_clock(base, now);
	/* That took as long as a turn may. */
	if (base->rewinds != rewinds)
		budget = 0;
	/* Nodes that were due when they were started may be due later now. */
	was_set_back = now < base->due_ns;

	while (htw_delivery_may_go_on(delivery) &&
	       htw_wheel_collect_due(w, htw_base_tick(base, now), &budget)) {
		u32 contexts = delivery->contexts;
		u32 taken = htw_delivery_to_context(delivery, &w->due, now,
						    was_set_back, budget);

		w->pending -= taken;
		budget -= min(budget, taken + delivery->moved);
		delivery->moved = 0;
		if (contexts && delivery->contexts != contexts)
			budget -= min(budget, HTW_CONTEXT_UNITS);
	}
	htw_delivery_leave(delivery);
	done = budget && htw_delivery_may_go_on(delivery) &&
	       htw_wheel_cascade(w, &budget);
	if (w->cascades != cascades)
		trace_htw_cascade(base->cpu, w->cascades - cascades);
	return done;
}

/* Wake tasks that wait for what was delivered. Context: as for htw_wake_contexts(). */
void htw_delivery_wake(struct htw_delivery *d)
{
	if (d->nr_wake)
		htw_wake_contexts(d->wake, d->nr_wake, d->turn);
}

/**
 * htw_delivery_serve() - deliver what is due on a user's base
 * @job: &htw_base.job
 * @turn: how much may be done
 *
 * Context: see &htw_job.serve.
 * Return: how the turn ended.
 */
enum htw_served htw_delivery_serve(struct htw_job *job, struct htw_turn *turn)
{
	struct htw_base *base = container_of(job, struct htw_base, job);
	struct htw_delivery delivery;
	enum htw_served served;

	if (!htw_base_begin_turn(base, turn, &served))
		return served;
	htw_delivery_begin(&delivery, base, turn);
	served = htw_base_end_turn(base, htw_delivery_expire(base, &delivery,
							     turn->units));
	htw_delivery_wake(&delivery);
	return delivery.busy && !delivery.expired ? HTW_SERVED_BUSY : served;
}

/**
 * htw_delivery_advance() - move a manual clock forward and deliver some of what is due
 * @base: a base on %HTW_MANUAL
 * @now: the new time in ns, unless the clock is past it
 * @expired: increased by the number of expirations
 *
 * Context: may sleep.
 * Return: true if nothing is left to do.
 */
bool htw_delivery_advance(struct htw_base *base, u64 now, u64 *expired)
{
	struct htw_delivery delivery;
	bool done;

	htw_delivery_begin(&delivery, base, NULL);
	/* Until the waiters are woken, which sleep on if this task is preempted before. */
	local_bh_disable();
	rcu_read_lock();
	spin_lock(&base->lock);
	atomic64_set(&base->manual_ns,
		     max_t(u64, now, atomic64_read(&base->manual_ns)));
	done = htw_delivery_expire(base, &delivery, HTW_ADVANCE_UNITS);
	spin_unlock(&base->lock);
	htw_delivery_wake(&delivery);
	rcu_read_unlock();
	local_bh_enable();
	*expired += delivery.expired;
	return done;
}
