// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on all timers of a context, a page at a time
 *
 * The pages are walked in order and each slot is looked at once, so a timer
 * that is there all the while is met exactly once, whatever others add, cancel
 * and move meanwhile.
 */

#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "submit.h"
#include "walk.h"

/**
 * htw_walk_cancel() - cancels all timers of a page
 * @ctx: the context
 * @page: which page; below @ctx->nr_pages
 * @flags: as &htw_cancel.flags
 *
 * Return: how many were pending, or kept and disarmed.
 */
u64 htw_walk_cancel(struct htw_context *ctx, u32 page, u32 flags)
{
	struct htw_timer *timers;
	struct htw_submit s;
	u64 count = 0;

	htw_submit_begin(&s, ctx);
	timers = htw_submit_page(&s, page)->timers;
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++) {
		struct htw_cancel cancel = { .flags = flags };

		if (!htw_timer_is_live(&timers[i]))
			continue;
		/* Should the slot change hands now, this id finds nothing. */
		cancel.id = htw_timer_id(&timers[i]);
		count += !htw_submit_cancel(&s, &timers[i], &cancel, false);
	}
	htw_submit_end(&s);
	return count;
}

/* Takes a pending timer out, for htw_walk_harvest(). */
static void htw_walk_take(struct htw_submit *s, struct htw_timer *t,
			  enum htw_timer_state state, struct list_head *taken)
{
	if (state == HTW_PENDING)
		htw_base_stop(s->base, &t->node);
	else
		list_del(&t->node.list);
	WRITE_ONCE(t->node.state, HTW_RESERVED);
	list_add_tail(&t->node.list, taken);
}

/* The bit of &enum htw_list_flag for what a query says. */
static u32 htw_walk_flag(const struct htw_query *query)
{
	switch (query->state) {
	case HTW_STATE_PENDING:
		return HTW_LIST_PENDING;
	case HTW_STATE_EXPIRED:
		return HTW_LIST_EXPIRED;
	default:
		return HTW_LIST_DISARMED;
	}
}

/*
 * Locks the timer of a slot and tells about it; @timers are those of its page.
 *
 * Return: false where there is no timer; then nothing is locked.
 */
static bool htw_walk_lock(struct htw_submit *s, struct htw_timer *timers, u32 slot,
			  enum htw_timer_state *state, struct htw_query *entry)
{
	const u32 index = slot % HTW_PAGE_SLOTS;
	struct htw_timer *t = &timers[index - 1];

	if (!index || !htw_timer_is_live(t))
		return false;
	*state = htw_submit_lock_timer(s, t);
	if (*state == HTW_FREE || *state == HTW_RESERVED) {
		htw_submit_unlock_timer(s, *state);
		return false;
	}
	htw_timer_fill_query(t, *state, htw_context_override(s->ctx, t), s->now, entry);
	return true;
}

/**
 * htw_walk_list() - tells which timers of a page there are
 * @ctx: the context
 * @slot: where to begin; out: where to go on. Its page exists
 * @entries: where to tell them
 * @room: how many entries there is room for, at least 1
 * @which: of &enum htw_list_flag
 *
 * Return: how many were told.
 */
u32 htw_walk_list(struct htw_context *ctx, u32 *slot, struct htw_query *entries, u32 room,
		  u32 which)
{
	const u32 end = round_down(*slot, HTW_PAGE_SLOTS) + HTW_PAGE_SLOTS;
	struct htw_timer *timers;
	struct htw_submit s;
	u32 n = 0;

	htw_submit_begin(&s, ctx);
	timers = htw_submit_page(&s, *slot / HTW_PAGE_SLOTS)->timers;
	for (; *slot < end && n < room; ++*slot) {
		enum htw_timer_state state;

		if (!htw_walk_lock(&s, timers, *slot, &state, &entries[n]))
			continue;
		htw_submit_unlock_timer(&s, state);
		n += !!(htw_walk_flag(&entries[n]) & which);
	}
	htw_submit_end(&s);
	return n;
}

/* Writes an entry where one must not sleep; false where the memory is not there. */
static bool htw_walk_put(struct htw_query __user *to, const struct htw_query *entry)
{
	bool written;

	pagefault_disable();
	written = !copy_to_user(to, entry, sizeof(*entry));
	pagefault_enable();
	return written;
}

/**
 * htw_walk_harvest() - takes out the timers of a page that are pending
 * @ctx: the context
 * @slot: where to begin; out: where to go on. Its page exists
 * @entries: the program's memory, where to tell them
 * @room: how many entries there is room for, at least 1
 * @taken: the timers are put there: they are stopped, and reserved for the caller
 * @stuck: out: is the memory for the next entry not there?
 *
 * A timer is taken out only once it has been told, and under the same lock: so nobody
 * ever sees one gone that stays.
 *
 * Return: how many were told.
 */
u32 htw_walk_harvest(struct htw_context *ctx, u32 *slot, struct htw_query __user *entries,
		     u32 room, struct list_head *taken, bool *stuck)
{
	const u32 end = round_down(*slot, HTW_PAGE_SLOTS) + HTW_PAGE_SLOTS;
	struct htw_timer *timers;
	struct htw_submit s;
	u32 n = 0;

	*stuck = false;
	htw_submit_begin(&s, ctx);
	timers = htw_submit_page(&s, *slot / HTW_PAGE_SLOTS)->timers;
	for (; *slot < end && n < room; ++*slot) {
		enum htw_timer_state state;
		struct htw_query entry;

		if (!htw_walk_lock(&s, timers, *slot, &state, &entry))
			continue;
		if (entry.state == HTW_STATE_PENDING) {
			*stuck = !htw_walk_put(entries + n, &entry);
			if (!*stuck) {
				htw_walk_take(&s, &timers[*slot % HTW_PAGE_SLOTS - 1], state,
					      taken);
				n++;
			}
		}
		htw_submit_unlock_timer(&s, state);
		if (*stuck)
			break;
	}
	htw_submit_end(&s);
	return n;
}

/* The first timer of a page, if it comes before that in @next. */
static void htw_walk_next_in_page(struct htw_context *ctx, u32 page, struct htw_query *next)
{
	const u32 end = (page + 1) * HTW_PAGE_SLOTS;
	struct htw_timer *timers;
	struct htw_submit s;

	htw_submit_begin(&s, ctx);
	timers = htw_submit_page(&s, page)->timers;
	for (u32 slot = end - HTW_PAGE_TIMERS; slot < end; slot++) {
		enum htw_timer_state state;
		struct htw_query entry;

		if (!htw_walk_lock(&s, timers, slot, &state, &entry))
			continue;
		htw_submit_unlock_timer(&s, state);
		if (entry.state == HTW_STATE_PENDING &&
		    (!next->id || entry.deadline < next->deadline))
			*next = entry;
	}
	htw_submit_end(&s);
}

/*
 * The same by the context's own wheel.
 *
 * Return: false where that cannot tell: it is not a wheel of its own, or the timers would
 * have to be looked at one by one there too.
 */
static bool htw_walk_next_in_wheel(struct htw_context *ctx, struct htw_query *next)
{
	struct htw_node *n;
	struct htw_submit s;
	bool written;

	if (!READ_ONCE(ctx->own) || READ_ONCE(ctx->table))
		return false;
	htw_submit_begin(&s, ctx);
	spin_lock(&ctx->lock);
	/* On the way into the wheel. */
	written = list_empty(&ctx->rearm) && !ctx->table;
	spin_unlock(&ctx->lock);
	written = written && s.base == ctx->own &&
	       htw_wheel_first(&s.base->wheel, HTW_PAGE_TIMERS, &n);
	if (written && n)
		htw_timer_fill_query(container_of(n, struct htw_timer, node), HTW_PENDING, 0, s.now,
				     next);
	htw_submit_end(&s);
	return written;
}

/**
 * htw_walk_next() - tells which pending timer expires first
 * @ctx: the context
 * @next: out: the timer
 *
 * Context: may sleep.
 * Return: 0; -ENOENT where none is pending; -EINTR.
 */
int htw_walk_next(struct htw_context *ctx, struct htw_query *next)
{
	next->id = 0;
	if (!htw_walk_next_in_wheel(ctx, next)) {
		for (u32 page = 0; page < htw_context_pages(ctx); page++) {
			htw_walk_next_in_page(ctx, page, next);
			if (fatal_signal_pending(current))
				return -EINTR;
			cond_resched();
		}
	}
	return next->id ? 0 : -ENOENT;
}
