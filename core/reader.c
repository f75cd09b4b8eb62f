// SPDX-License-Identifier: GPL-2.0-only
/*
 * The reader's side: expirations that wait, and the ring that takes them
 */

#include <linux/sched.h>

#include "event.h"
#include "reader.h"
#include "slots.h"
#include "submit.h"

/* Expirations that are moved from the queue into the ring under one lock. */
#define HTW_FLUSH_BATCH		64u

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
			htw_event_report(&events[n++], ctx, t, now);
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
			if (likely(htw_timer_end_id(t)))
				last = &t->node.list;
			else
				list_del(&t->node.list);
			continue;
		}
		list_del(&t->node.list);
		if (htw_timer_consume(ctx, t, now, &freed))
			list_add_tail(&t->node.list, &ctx->rearm);
	}
	list_cut_position(&over, &ctx->expired, last);
	list_splice(&over, htw_slots_free_list(ctx));
	htw_context_consumed(ctx, freed);
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
	struct htw_submit s;

	while (!list_empty_careful(&ctx->rearm)) {
		htw_submit_begin(&s, ctx);
		spin_lock(&ctx->lock);
		for (u32 i = 0; i < HTW_PAGE_TIMERS; i++) {
			t = list_first_entry_or_null(&ctx->rearm, struct htw_timer, node.list);
			if (!t)
				break;
			list_del(&t->node.list);
			htw_submit_arm(&s, t);
		}
		spin_unlock(&ctx->lock);
		htw_submit_end(&s);
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
	const struct htw_event_ring *ring = READ_ONCE(ctx->ring);

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
static u32 htw_flush_some(struct htw_context *ctx, struct htw_event_ring *ring, u32 count)
{
	u32 freed = 0, n;

	n = htw_event_move_to_ring(ctx, ring, count, htw_context_now(ctx), &freed, &ctx->rearm);
	htw_context_consumed(ctx, freed);
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
	struct htw_event_ring *ring;
	u32 moved = 0, n, want;
	bool rearm;

	do {
		spin_lock_bh(&ctx->lock);
		ring = htw_context_open_ring(ctx);
		if (!ring) {
			spin_unlock_bh(&ctx->lock);
			return moved ?: -ENXIO;
		}
		want = min(ring->entries - moved, HTW_FLUSH_BATCH);
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
	struct htw_event_ring *ring;
	bool readable;

	if (!htw_context_ring_is_mapped(ctx))
		return READ_ONCE(ctx->nr_expired);
	htw_context_flush(ctx);
	spin_lock_bh(&ctx->lock);
	ring = htw_context_open_ring(ctx);
	readable = ctx->nr_expired ||
		   (ring && ring->tail != READ_ONCE(ring->header->head));
	spin_unlock_bh(&ctx->lock);
	return readable;
}
