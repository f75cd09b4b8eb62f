// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reader's side: read(), and the ring that takes its place while it is
 * mapped
 */

#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait.h>

#include "event.h"
#include "pool.h"
#include "reader.h"
#include "section.h"
#include "wake.h"

static_assert(sizeof(struct htw_event) == 48);

/* Events that are copied to a reader while the context is locked. */
#define HTW_READ_BATCH		32u
/* Events that are moved from the queue into the ring while the context is locked. */
#define HTW_FLUSH_BATCH		64u
/* Events that poll() moves at most: a task may wait for many descriptors, of others, too. */
#define HTW_POLL_EVENTS		(8 * HTW_FLUSH_BATCH)

/* Fill in up to @count queued events and leave them queued. Return how many. */
static u32 htw_reader_peek(struct htw_context *ctx, struct htw_event *events,
			   u32 count, u64 now)
{
	struct htw_timer *t;
	u32 n = 0;

	lockdep_assert_held(&ctx->lock);

	list_for_each_entry(t, &ctx->expired, node.list) {
		if (n == count)
			break;
		if (htw_timer_is_plain(t) && !ctx->table)
			htw_event_fill(&events[n++], t, t->node.fired, 0, 0);
		else
			htw_event_report(&events[n++], ctx, t, now);
	}
	return n;
}

/*
 * Take the first @count events off the queue, after htw_reader_peek() with the
 * same @now. Periodic timers that go on are put on @ctx->rearm; once the lock
 * is dropped, the caller starts them by htw_reader_rearm().
 */
static void htw_reader_take(struct htw_context *ctx, u32 count, u64 now)
{
	struct list_head *last = &ctx->expired;
	LIST_HEAD(ended);
	u32 freed = 0;

	lockdep_assert_held(&ctx->lock);

	htw_context_add_expired(ctx, -count);
	while (count--) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		/* Most timers end here: they stay linked and go to the free list together. */
		if (likely(htw_timer_is_plain(t) && !ctx->table)) {
			freed++;
			if (htw_timer_end_id(t))
				last = &t->node.list;
			else
				list_del(&t->node.list);
			continue;
		}
		list_del(&t->node.list);
		if (htw_event_consume(ctx, t, now, &freed))
			list_add_tail(&t->node.list, &ctx->rearm);
	}
	list_cut_position(&ended, &ctx->expired, last);
	list_splice(&ended, htw_pool_free_list(ctx));
	htw_event_consumed(ctx, freed);
}

/*
 * Start the periodic timers whose events were consumed. A second step, because
 * a base's lock comes before a context's, and is not held while user memory is
 * written.
 */
static void htw_reader_rearm(struct htw_context *ctx)
{
	struct htw_timer *t;
	struct htw_section s;

	while (!list_empty_careful(&ctx->rearm)) {
		htw_section_begin(&s, ctx);
		spin_lock(&ctx->lock);
		do {
			t = list_first_entry_or_null(&ctx->rearm, struct htw_timer, node.list);
			if (!t)
				break;
			list_del(&t->node.list);
		} while (htw_section_arm(&s, t));
		spin_unlock(&ctx->lock);
		htw_section_end(&s);
		cond_resched();
	}
}

/* Do events go to a ring? Without @ctx->lock the answer may be outdated at once. */
bool htw_reader_ring_is_mapped(const struct htw_context *ctx)
{
	const struct htw_event_ring *ring = READ_ONCE(ctx->ring);

	return ring && READ_ONCE(ring->maps);
}

/*
 * Copy @count events, as htw_copy_out() does. Return how many have been copied;
 * @to has advanced by these.
 */
static u32 htw_reader_copy(const struct htw_event *events, u32 count,
			   struct iov_iter *to)
{
	size_t size = sizeof(*events);
	size_t bytes = copy_to_iter(events, count * size, to);
	u32 n = bytes / size;

	iov_iter_revert(to, bytes % size);
	for (; n < count; n++) {
		bytes = copy_to_iter(&events[n], size, to);
		if (bytes < size) {
			iov_iter_revert(to, bytes);
			break;
		}
	}
	return n;
}

/*
 * Copy some queued events to the reader. They are taken off the queue only
 * after they are in its memory, and under the same lock, so that none is lost
 * or read twice. The copy must not sleep: it stops at a page that is not
 * present, which the caller faults in.
 *
 * Return: the number of events read; *waiting says whether there are more.
 */
static u32 htw_reader_batch(struct htw_context *ctx, struct iov_iter *to,
			    bool *waiting)
{
	struct htw_event events[HTW_READ_BATCH];
	u32 room = min_t(size_t, iov_iter_count(to) / sizeof(*events),
			 HTW_READ_BATCH);
	u64 now = htw_context_now(ctx);
	bool rearm;
	u32 n;

	spin_lock_bh(&ctx->lock);
	n = htw_reader_peek(ctx, events, room, now);

	pagefault_disable();
	n = htw_reader_copy(events, n, to);
	pagefault_enable();
	htw_reader_take(ctx, n, now);

	*waiting = ctx->nr_expired;
	rearm = !list_empty(&ctx->rearm);
	spin_unlock_bh(&ctx->lock);

	if (rearm)
		htw_reader_rearm(ctx);
	return n;
}

/*
 * Fault in the memory for an event by writing to it.
 * fault_in_iov_iter_writeable() only checks that there is a page: if the write
 * fails for another reason, such as a wrong MTE tag on arm64, the caller would
 * try for ever.
 */
static bool htw_reader_fault_in(struct iov_iter *to)
{
	static const struct htw_event none;
	size_t written = copy_to_iter(&none, sizeof(none), to);

	iov_iter_revert(to, written);
	return written == sizeof(none);
}

/* Return: bytes read; 0 if no event waits; a negative error if none was read. */
static ssize_t htw_reader_available(struct htw_context *ctx,
				    struct iov_iter *to)
{
	size_t size = sizeof(struct htw_event);
	ssize_t done = 0;
	bool waiting;

	do {
		u32 n = htw_reader_batch(ctx, to, &waiting);

		done += n * size;
		if (!waiting)
			break;
		if (!n && !htw_reader_fault_in(to))
			return done ?: -EFAULT;
		/*
		 * Only a fatal signal ends the read while events are queued: a
		 * program takes less than it asked for as a sign that nothing
		 * is left, and may then wait for the next edge. io_uring
		 * signals its own work to a task, and cannot restart the call.
		 */
		if (fatal_signal_pending(current))
			return done ?: -ERESTARTSYS;
		cond_resched();
	} while (iov_iter_count(to) >= size);
	return done;
}

/* Wake if an event is queued or a ring was mapped. */
static bool htw_reader_can_return(const struct htw_context *ctx)
{
	return READ_ONCE(ctx->nr_expired) || htw_reader_ring_is_mapped(ctx);
}

/**
 * htw_reader_pass_on() - wake another task if events are queued
 * @ctx: the context; no lock is held
 *
 * For a task that may have been woken alone, and does not take all events, or
 * closes its descriptor before it has taken any.
 *
 * Context: process context.
 */
void htw_reader_pass_on(struct htw_context *ctx)
{
	if (!htw_reader_can_return(ctx))
		return;
	htw_wake_reader(ctx);
	if (READ_ONCE(ctx->nr_expired) && READ_ONCE(ctx->wake_alone))
		htw_wake_next_poller(ctx);
}

/**
 * htw_reader_read() - read whole events
 * @ctx: the context
 * @to: destination
 * @nonblock: do not wait for an event
 *
 * Context: may sleep.
 * Return: bytes read; -EAGAIN, -EINVAL if there is no room for an event, -EBUSY
 * while a ring is mapped, -EFAULT or -ERESTARTSYS.
 */
ssize_t htw_reader_read(struct htw_context *ctx, struct iov_iter *to,
			bool nonblock)
{
	ssize_t ret;

	if (iov_iter_count(to) < sizeof(struct htw_event))
		return -EINVAL;

	for (;;) {
		if (htw_reader_ring_is_mapped(ctx)) {
			ret = -EBUSY;
			break;
		}

		ret = htw_reader_available(ctx, to);
		if (ret)
			break;
		if (nonblock)
			return -EAGAIN;

		ret = wait_event_interruptible_exclusive(ctx->readers, htw_reader_can_return(ctx));
		if (ret)
			break;
	}

	htw_reader_pass_on(ctx);
	return ret;
}

/* Count a mapping of the ring. */
void htw_reader_map_ring(struct htw_context *ctx)
{
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->ring->maps, ctx->ring->maps + 1);
	/* Says whether events are queued, so that the program calls HTW_FLUSH. */
	htw_ring_publish(ctx->ring, ctx->nr_expired);
	spin_unlock_bh(&ctx->lock);
}

/*
 * Count down when a mapping of the ring goes. After the last one, new events
 * are queued for read(); those in the ring stay there until it is mapped again.
 */
void htw_reader_unmap_ring(struct htw_context *ctx)
{
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->ring->maps, ctx->ring->maps - 1);
	spin_unlock_bh(&ctx->lock);
}

/* Move up to @count queued events into the ring and publish them. Return how many. */
static u32 htw_reader_flush_some(struct htw_context *ctx,
				 struct htw_event_ring *ring, u32 count)
{
	u32 freed = 0, n;

	n = htw_event_move_to_ring(ctx, ring, count, htw_context_now(ctx),
				   &freed, &ctx->rearm);
	htw_event_consumed(ctx, freed);
	htw_ring_publish(ring, ctx->nr_expired);
	return n;
}

/*
 * Move up to @most queued events into the ring, and no more than it holds; no
 * lock is held.
 *
 * Return: the number of events moved; -ENXIO if no ring is mapped.
 */
static int htw_reader_flush_events(struct htw_context *ctx, u32 most)
{
	struct htw_event_ring *ring;
	u32 moved = 0, n, want;
	bool rearm;

	do {
		spin_lock_bh(&ctx->lock);
		ring = htw_event_open_ring(ctx);
		if (!ring) {
			spin_unlock_bh(&ctx->lock);
			return moved ?: -ENXIO;
		}

		want = min3(ring->entries - moved, most - moved,
			    HTW_FLUSH_BATCH);
		n = htw_reader_flush_some(ctx, ring, want);
		rearm = !list_empty(&ctx->rearm);
		spin_unlock_bh(&ctx->lock);

		if (rearm)
			htw_reader_rearm(ctx);
		moved += n;
		cond_resched();
	} while (n && n == want);
	return moved;
}

/**
 * htw_reader_flush() - HTW_FLUSH: move queued events into the ring
 * @ctx: the context; no lock is held
 *
 * Moves no more than the ring holds: a program that reads as fast as this
 * writes cannot keep it going.
 *
 * Context: may sleep.
 * Return: the number of events moved; -ENXIO if no ring is mapped.
 */
int htw_reader_flush(struct htw_context *ctx)
{
	return htw_reader_flush_events(ctx, U32_MAX);
}

/**
 * htw_reader_is_readable() - is there an event for the program?
 * @ctx: the context; no lock is held
 *
 * If a ring is mapped, some of the queued events are moved into it first. If
 * more are queued, the ring says so.
 *
 * Context: may sleep.
 * Return: true if an event is queued or in the ring.
 */
bool htw_reader_is_readable(struct htw_context *ctx)
{
	struct htw_event_ring *ring;
	bool readable;

	if (!htw_reader_ring_is_mapped(ctx))
		return READ_ONCE(ctx->nr_expired);
	htw_reader_flush_events(ctx, HTW_POLL_EVENTS);
	spin_lock_bh(&ctx->lock);
	ring = htw_event_open_ring(ctx);
	readable = ctx->nr_expired ||
		   (ring && ring->tail != READ_ONCE(ring->header->head));
	spin_unlock_bh(&ctx->lock);
	return readable;
}
