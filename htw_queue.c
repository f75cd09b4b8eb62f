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

#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/prefetch.h>
#include <linux/sched.h>

#include <trace/events/htw.h>

#include "htw_clockset.h"
#include "htw_context.h"
#include "htw_engine.h"
#include "htw_run.h"

/* Expirations that are moved from the queue into the ring under one lock. */
#define HTW_FLUSH_CHUNK		64u
/* So many an expiration that finds others waiting: it makes up for itself, and one more. */
#define HTW_DELIVER_MOVES	2u

/*
 * Field by field: a compound literal would be cleared first, and the place may be
 * a program's memory. Nothing is read from there.
 */
static __always_inline void htw_event_fill(struct htw_event *ev, const struct htw_timer *t,
					   u64 fired, u64 missed, u32 flags)
{
	ev->id = htw_timer_id(t);
	ev->cookie = t->cookie;
	ev->deadline = t->deadline;
	ev->fired = fired;
	ev->missed = missed;
	ev->flags = flags;
	ev->reserved = 0;
}

/*
 * Does an id live on when its last expiration has been told? One with a word in
 * the table of deadlines does: the program may store there at any time.
 */
static bool htw_timer_is_kept(const struct htw_context *ctx, const struct htw_timer *t)
{
	lockdep_assert_held(&ctx->lock);

	return t->node.flags & HTW_TIMER_KEEP ||
	       (ctx->table && !(t->node.flags & HTW_TIMER_STOPPED));
}

/* Tells an expiration that waits, as of @now. */
static void htw_event_tell(struct htw_event *ev, const struct htw_context *ctx,
			   struct htw_timer *t, u64 now)
{
	const u64 missed = htw_timer_missed(t, now);
	const bool more = htw_timer_is_kept(ctx, t) || htw_timer_goes_on(t, missed);

	/* If it is armed again, then as of this look: none falls between. */
	if (unlikely(t->node.flags & HTW_TIMER_CANCEL_ON_SET))
		htw_clockset_look(ctx, t);
	htw_event_fill(ev, t, t->node.fired, missed,
		       (more ? HTW_EVENT_MORE : 0) |
		       (t->node.flags & HTW_TIMER_CLOCK_SET ? HTW_EVENT_CLOCK_SET : 0));
}

/*
 * A timer's expiration has been told as of @now; it is on no list. The context's
 * lock is held.
 *
 * Return: true if it is to be armed again, by the caller: it is %HTW_REARM and
 * its deadline the next one.
 */
static bool htw_timer_told(struct htw_context *ctx, struct htw_timer *t, u64 now, u32 *freed)
{
	const u64 missed = htw_timer_missed(t, now);
	const u64 spent = htw_timer_spent(t, missed);

	t->node.flags &= ~HTW_TIMER_CLOCK_SET;
	if (htw_timer_goes_on(t, missed)) {
		/* The phase is kept: start + k * interval, the next one ahead. */
		if (spent)
			t->deadline = htw_add_saturated(t->deadline + (spent - 1) * t->interval,
							t->interval);
		if (t->firings)
			t->firings -= spent;
		WRITE_ONCE(t->node.state, HTW_REARM);
		return true;
	}
	if (htw_timer_is_kept(ctx, t)) {
		/* One that has had all its firings is a one-shot timer now. */
		t->interval = 0;
		t->firings = 0;
		WRITE_ONCE(t->node.state, HTW_IDLE);
		return false;
	}
	htw_timer_free(t, htw_context_freed_here(ctx));
	++*freed;
	return false;
}

/* Timers that were told have been freed. The context's lock is held. */
static void htw_context_told(struct htw_context *ctx, u32 freed)
{
	htw_context_count_freed(ctx, freed);
	htw_user_uncharge(ctx->user, freed);
}

/* The ring that takes expirations; NULL where it is not mapped, or there is none. */
static struct htw_completions *htw_context_open_ring(const struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	return ctx->ring && ctx->ring->maps ? ctx->ring : NULL;
}

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

static void htw_delivery_wants_wake(struct htw_delivery *d, struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	if (ctx->wake_queued)
		return;
	ctx->wake_queued = true;
	ctx->wake_next = d->wake;
	d->wake = ctx;
}

/* Goes over to another context. */
static void htw_delivery_turn(struct htw_delivery *d, struct htw_context *ctx)
{
	struct htw_completions *ring;

	htw_delivery_pause(d);
	htw_lock(&ctx->lock);
	ring = htw_context_open_ring(ctx);
	d->context = ctx;
	d->contexts++;
	d->before = d->expired;
	d->room = ring && !ctx->nr_expired ? htw_ring_room(ring) : 0;
	d->freed = 0;
}

/* How late a timer is, and that it has expired. */
static __always_inline void htw_delivery_note(struct htw_delivery *d, const struct htw_timer *t,
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

	htw_event_tell(ev, ctx, t, htw_context_from_host(ctx, now));
	if (htw_timer_told(ctx, t, htw_context_from_host(ctx, now), &d->freed))
		htw_delivery_arm(d, ctx, t);
}

/*
 * Queues a timer's expiration. Where a ring has become able to take some, it
 * takes two: so the queue becomes shorter, and nobody decides how long this takes.
 */
static void htw_deliver_to_queue(struct htw_delivery *d, struct htw_timer *t, u64 now)
{
	struct htw_context *ctx = d->context;
	struct htw_completions *ring = htw_context_open_ring(ctx);
	u32 room;

	htw_list_append(&t->node.list, &ctx->expired);
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
static bool htw_deliver_later(struct htw_delivery *d, struct htw_context *ctx,
			      struct htw_timer *t, u64 now)
{
	const u64 word = htw_timer_word(t);

	if (word <= t->deadline)
		return false;
	if (word == HTW_DISARMED) {
		if (d->context != ctx)
			htw_delivery_turn(d, ctx);
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

/**
 * htw_deliver_early() - puts a timer back whose deadline is still to come
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
bool htw_deliver_early(struct htw_delivery *d, struct htw_node *n, u64 now)
{
	struct htw_timer *t = container_of(n, struct htw_timer, node);
	struct htw_context *ctx = htw_chunk_of(t)->ctx;

	if (htw_context_to_host(ctx, t->deadline) <= now)
		return false;
	htw_delivery_arm(d, ctx, t);
	return true;
}

/**
 * htw_deliver() - EXPIRY_PROCESSING: puts an expired timer where it is read
 * @d: the run
 * @n: the timer's node, just out of its wheel
 * @now: the base's time at which it fired, in ns; not before its deadline
 *
 * Context: the lock of the node's base is held, bottom halves are off.
 */
void htw_deliver(struct htw_delivery *d, struct htw_node *n, u64 now)
{
	struct htw_timer *t = container_of(n, struct htw_timer, node);
	struct htw_context *ctx = htw_chunk_of(t)->ctx;

	if (unlikely(READ_ONCE(ctx->table)) && htw_deliver_later(d, ctx, t, now))
		return;
	if (d->context != ctx)
		htw_delivery_turn(d, ctx);
	n->fired = htw_context_from_host(ctx, now);
	htw_delivery_note(d, t, n->fired);
	d->expired++;
	if (d->room) {
		d->room--;
		htw_deliver_to_ring(d, t, now);
	} else {
		htw_deliver_to_queue(d, t, now);
	}
}

/* Of that context, and no callout, which is in no chunk. */
static bool htw_node_is_of(const struct htw_node *n, const struct htw_context *ctx)
{
	return likely(!(n->flags & HTW_NODE_CALLOUT)) &&
	       likely(htw_chunk_of(container_of(n, struct htw_timer, node))->ctx == ctx);
}

/* From the front of @due into the ring, while they are plain. */
static u32 htw_deliver_alike_to_ring(struct htw_delivery *d, struct list_head *due, u64 fired,
				     u32 max)
{
	struct htw_context *ctx = d->context;
	struct htw_completions *ring = ctx->ring;
	const u32 mask = ring->entries - 1;
	struct list_head *last = due;
	u32 tail = ring->tail;
	LIST_HEAD(over);
	u32 count;

	for (count = 0; count < max && last->next != due; count++) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		if (!htw_node_is_of(&t->node, ctx) || unlikely(!htw_timer_is_plain(t)))
			break;
		prefetchw(t->node.list.next);
		htw_delivery_note(d, t, fired);
		htw_event_fill(&ring->events[tail++ & mask], t, fired, 0, 0);
		if (likely(htw_timer_end(t)))
			last = &t->node.list;
		else
			list_del(&t->node.list);
	}
	ring->tail = tail;
	list_cut_position(&over, due, last);
	list_splice(&over, htw_context_freed_here(ctx));
	d->room -= count;
	d->freed += count;
	return count;
}

/* From the front of @due to the end of the queue. */
static u32 htw_deliver_alike_to_queue(struct htw_delivery *d, struct list_head *due, u64 fired,
				      u32 max)
{
	struct htw_context *ctx = d->context;
	struct list_head *last = due;
	LIST_HEAD(expired);
	u32 count;

	for (count = 0; count < max && last->next != due; count++) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		if (!htw_node_is_of(&t->node, ctx))
			break;
		prefetchw(t->node.list.next);
		htw_delivery_note(d, t, fired);
		t->node.fired = fired;
		WRITE_ONCE(t->node.state, HTW_EXPIRED);
		last = &t->node.list;
	}
	list_cut_position(&expired, due, last);
	list_splice_tail(&expired, &ctx->expired);
	ctx->nr_expired += count;
	return count;
}

/**
 * htw_deliver_alike() - delivers timers that need nothing but to be delivered
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
u32 htw_deliver_alike(struct htw_delivery *d, struct list_head *due, u64 now,
		      unsigned int *budget)
{
	const struct htw_timer *t = list_first_entry(due, struct htw_timer, node.list);
	struct htw_context *ctx;
	u32 count = 0;
	u64 fired;

	if (!*budget || list_empty(due) || t->node.flags & HTW_NODE_CALLOUT)
		return 0;
	ctx = htw_chunk_of(t)->ctx;
	if (unlikely(READ_ONCE(ctx->table)))
		return 0;
	if (d->context != ctx)
		htw_delivery_turn(d, ctx);
	fired = htw_context_from_host(ctx, now);
	if (unlikely(ctx->table))	/* just now */
		count = 0;
	else if (d->room)
		count = htw_deliver_alike_to_ring(d, due, fired, min(*budget, d->room));
	else if (!htw_context_open_ring(ctx))
		count = htw_deliver_alike_to_queue(d, due, fired, *budget);
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
	struct htw_context *ctx = htw_chunk_of(t)->ctx;
	struct htw_completions *ring = htw_context_open_ring(ctx);

	t->node.fired = now;
	trace_htw_expire(htw_timer_id(t), t->cookie, t->deadline, now);
	list_add_tail(&t->node.list, &ctx->expired);
	ctx->nr_expired++;
	d->expired++;
	WRITE_ONCE(t->node.state, HTW_EXPIRED);
	/* A ring takes it when it is looked at: all but this is seldom enough. */
	if (ring)
		htw_ring_publish(ring, ctx->nr_expired);
	htw_delivery_wants_wake(d, ctx);
}

/**
 * htw_delivery_pause() - drops the lock of the context that was delivered to
 * @d: the run, which can go on
 *
 * Context: the lock of the base is held.
 */
void htw_delivery_pause(struct htw_delivery *d)
{
	struct htw_context *ctx = d->context;
	struct htw_completions *ring;

	if (!ctx)
		return;
	if (d->expired != d->before)
		htw_delivery_wants_wake(d, ctx);
	ring = htw_context_open_ring(ctx);
	if (ring) {
		htw_context_told(ctx, d->freed);
		htw_ring_publish(ring, ctx->nr_expired);
	}
	htw_unlock(&ctx->lock);
	d->context = NULL;
}

/**
 * htw_context_peek() - tells the expirations that wait, and leaves them there
 * @ctx: the context, whose lock is held
 * @events: where to
 * @count: how many at the most
 * @now: the time, in ns
 *
 * Return: how many.
 */
u32 htw_context_peek(struct htw_context *ctx, struct htw_event *events, u32 count, u64 now)
{
	struct htw_timer *t;
	u32 n = 0;

	lockdep_assert_held(&ctx->lock);

	list_for_each_entry(t, &ctx->expired, node.list) {
		if (n == count)
			break;
		if (likely(htw_timer_is_plain(t) && !ctx->table))
			htw_event_fill(&events[n++], t, t->node.fired, 0, 0);
		else
			htw_event_tell(&events[n++], ctx, t, now);
	}
	return n;
}

/**
 * htw_context_take() - takes out expirations that have been read
 * @ctx: the context, whose lock is held
 * @count: how many, in the order in which htw_context_peek() told them
 * @now: what htw_context_peek() was given
 *
 * Periodic timers that go on are then on @ctx->rearm: the caller drops the
 * lock and calls htw_context_rearm().
 */
void htw_context_take(struct htw_context *ctx, u32 count, u64 now)
{
	struct list_head *last = &ctx->expired;
	LIST_HEAD(over);
	u32 freed = 0;

	lockdep_assert_held(&ctx->lock);

	ctx->nr_expired -= count;
	while (count--) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		/* Most end here, and go to the free list all together. */
		if (likely(htw_timer_is_plain(t) && !ctx->table)) {
			freed++;
			if (likely(htw_timer_end(t)))
				last = &t->node.list;
			else
				list_del(&t->node.list);
			continue;
		}
		list_del(&t->node.list);
		if (htw_timer_told(ctx, t, now, &freed))
			list_add_tail(&t->node.list, &ctx->rearm);
	}
	list_cut_position(&over, &ctx->expired, last);
	list_splice(&over, htw_context_freed_here(ctx));
	htw_context_told(ctx, freed);
}

/**
 * htw_context_rearm() - arms the periodic timers that have been read
 * @ctx: the context; no lock is held
 *
 * This takes a second step because a base's lock comes before a context's, and
 * is not held while user memory is written.
 */
void htw_context_rearm(struct htw_context *ctx)
{
	struct htw_timer *t;
	struct htw_run run;

	while (!list_empty_careful(&ctx->rearm)) {
		htw_run_begin(&run, ctx);
		spin_lock(&ctx->lock);
		for (u32 i = 0; i < HTW_CHUNK_TIMERS; i++) {
			t = list_first_entry_or_null(&ctx->rearm, struct htw_timer, node.list);
			if (!t)
				break;
			list_del(&t->node.list);
			htw_run_arm(&run, t);
		}
		spin_unlock(&ctx->lock);
		htw_run_end(&run);
		cond_resched();
	}
}

/**
 * htw_context_ring_is_mapped() - do expirations go to a ring now?
 * @ctx: the context
 *
 * Without its lock the answer may be stale at once.
 *
 * Return: true if there is a ring and it is mapped.
 */
bool htw_context_ring_is_mapped(const struct htw_context *ctx)
{
	const struct htw_completions *ring = READ_ONCE(ctx->ring);

	return ring && READ_ONCE(ring->maps);
}

/**
 * htw_context_map_ring() - the ring is mapped once more
 * @ctx: the context, which has a ring
 */
void htw_context_map_ring(struct htw_context *ctx)
{
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->ring->maps, ctx->ring->maps + 1);
	/* What had expired before waits in the queue. */
	htw_ring_publish(ctx->ring, ctx->nr_expired);
	spin_unlock_bh(&ctx->lock);
}

/**
 * htw_context_unmap_ring() - the ring is mapped once less
 * @ctx: the context, which has a ring
 *
 * Once it is not mapped at all, expirations wait to be read, by read(); what is in
 * the ring stays there for who maps it again.
 */
void htw_context_unmap_ring(struct htw_context *ctx)
{
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->ring->maps, ctx->ring->maps - 1);
	spin_unlock_bh(&ctx->lock);
}

/* Moves some of the queue into a ring, as far as there is room. */
static u32 htw_flush_some(struct htw_context *ctx, struct htw_completions *ring, u32 count)
{
	const u64 now = htw_context_now(ctx);
	u32 freed = 0, n;

	count = min3(count, ctx->nr_expired, htw_ring_room(ring));
	for (n = 0; n < count; n++) {
		struct htw_timer *t = list_first_entry(&ctx->expired, struct htw_timer, node.list);

		htw_event_tell(htw_ring_next(ring), ctx, t, now);
		list_del(&t->node.list);
		if (htw_timer_told(ctx, t, now, &freed))
			list_add_tail(&t->node.list, &ctx->rearm);
	}
	ctx->nr_expired -= n;
	htw_context_told(ctx, freed);
	htw_ring_publish(ring, ctx->nr_expired);
	return n;
}

/**
 * htw_context_flush() - moves what waits in the queue into the ring
 * @ctx: the context; no lock is held
 *
 * As much as there is room for, and no more than the ring holds: a program that
 * reads as fast as this writes cannot keep it going.
 *
 * Context: may sleep.
 * Return: how many; -ENXIO where no ring is mapped.
 */
int htw_context_flush(struct htw_context *ctx)
{
	struct htw_completions *ring;
	u32 moved = 0, n, want;
	bool rearm;

	do {
		spin_lock_bh(&ctx->lock);
		ring = htw_context_open_ring(ctx);
		if (!ring) {
			spin_unlock_bh(&ctx->lock);
			return moved ?: -ENXIO;
		}
		want = min(ring->entries - moved, HTW_FLUSH_CHUNK);
		n = htw_flush_some(ctx, ring, want);
		rearm = !list_empty(&ctx->rearm);
		spin_unlock_bh(&ctx->lock);
		if (rearm)
			htw_context_rearm(ctx);
		moved += n;
		cond_resched();
	} while (n && n == want);
	return moved;
}

/**
 * htw_context_is_readable() - does an expiration wait for the program?
 * @ctx: the context; no lock is held
 *
 * Where a ring is mapped the queue is moved into it first.
 *
 * Context: may sleep.
 * Return: true if one is in the ring, or in the queue.
 */
bool htw_context_is_readable(struct htw_context *ctx)
{
	struct htw_completions *ring;
	bool readable;

	if (!htw_context_ring_is_mapped(ctx))
		return READ_ONCE(ctx->nr_expired);
	htw_context_flush(ctx);
	spin_lock_bh(&ctx->lock);
	ring = htw_context_open_ring(ctx);
	readable = ctx->nr_expired ||
		   (ring && ring->tail != READ_ONCE(ring->page->head));
	spin_unlock_bh(&ctx->lock);
	return readable;
}
