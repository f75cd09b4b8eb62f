/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on timers, in runs: bottom halves are off and a lock is held for
 * as many of them as follow each other on the same base
 *
 * An operation on an id finds the timer without a lock. If it is pending on the
 * base whose lock the run holds already, as most are, that is all there is to
 * it, and the code for that is here, to become part of its caller: a call and
 * its registers are a tenth of what an operation takes. Else it takes the lock
 * of the base that the timer was last on, and looks again. Pending there: it stays
 * so while that lock is held. Otherwise the context's lock settles it; found
 * pending after all, it has just been armed on another CPU, and the operation
 * starts over. That is in submit.c.
 */
#ifndef _HTW_SUBMIT_H
#define _HTW_SUBMIT_H

#include <trace/events/htw.h>

#include "clock_sets.h"
#include "expire.h"
#include "shrink.h"
#include "slots.h"

/**
 * struct htw_submit - a run of operations, carried out with bottom halves off
 * @ctx: the context that it is on
 * @base: the base whose lock is held
 * @target: the base that timers are to be started on
 * @place: what &htw_node.place is, but for its flags, of a timer that is
 *	pending on @base, if that is @target; else of none. Not set in a run that
 *	finds no timer, like @place_plain, @page_mask and @pages
 * @place_plain: the same where @plain; else of none
 * @nr_pages: pages in which it can find timers; none where no timer had been
 *	armed when it began, as the context's shape is not settled then, and none
 *	in a run that is not to find any
 * @page_mask: &htw_directory.mask
 * @pages: &htw_directory.pages
 * @now: the time as of which operations are done, in ns; not before that of @base
 * @plain: no time namespace shifts deadlines, and no table has words for them;
 *	or no timer can be found
 * @freed: timers that were freed, to be given back at the end
 * @nr_freed: how many
 */
struct htw_submit {
	struct htw_context *ctx;
	struct htw_base *base;
	struct htw_base *target;
	u32 place;
	u32 place_plain;
	u32 nr_pages;
	u32 page_mask;
	struct htw_page __rcu *const *pages;
	u64 now;
	bool plain;
	struct list_head freed;
	u32 nr_freed;
};

void htw_submit_begin(struct htw_submit *s, struct htw_context *ctx);
void htw_submit_begin_adds(struct htw_submit *s, struct htw_context *ctx);
void htw_submit_create_base(struct htw_submit *s);
void htw_submit_return_freed(struct htw_submit *s);
void htw_submit_switch(struct htw_submit *s, struct htw_base *base);
enum htw_timer_state htw_submit_lock_timer(struct htw_submit *s, const struct htw_timer *t);
void htw_submit_unlock_timer(struct htw_submit *s, enum htw_timer_state state);
void htw_submit_arm(struct htw_submit *s, struct htw_timer *t);
int htw_submit_cancel_slow(struct htw_submit *s, struct htw_timer *t, struct htw_cancel *cancel);
int htw_submit_mod_slow(struct htw_submit *s, struct htw_timer *t, const struct htw_mod *mod);
int htw_submit_query(struct htw_submit *s, struct htw_query *query);

/* Makes a base the one whose lock the run holds. */
static inline void htw_submit_lock(struct htw_submit *s, struct htw_base *base)
{
	if (unlikely(s->base != base))
		htw_submit_switch(s, base);
}

static __always_inline void htw_submit_touch(struct htw_submit *s)
{
	if (likely(s->plain))
		s->now = htw_base_touch(s->base, s->now);
	else
		s->now = htw_context_from_host(s->ctx,
					       htw_base_touch(s->base,
							      htw_context_to_host(s->ctx,
										  s->now)));
}

/* Takes the lock of a base; none is held. */
static __always_inline void htw_submit_take_lock(struct htw_submit *s, struct htw_base *base,
						 bool finds)
{
	s->base = base;
	htw_lock(&base->lock);
	htw_submit_touch(s);
	if (!finds)
		return;
	s->place = htw_place(base->cpu, base == s->target ? HTW_PENDING : U8_MAX, 0);
	s->place_plain = s->plain ? s->place : htw_place(base->cpu, U8_MAX, 0);
}

/* Makes the base that timers are to be started on the one whose lock the run holds. */
static inline void htw_submit_lock_target(struct htw_submit *s)
{
	if (unlikely(s->base != s->target))
		htw_submit_switch(s, s->target);
}

/* Was a timer about to be armed once? Then the context has the shape that it keeps. */
static inline bool htw_context_is_settled(const struct htw_context *ctx)
{
	/* Pairs with htw_submit_begin_adds(): its shape is seen then. */
	return smp_load_acquire(&ctx->used);
}

/*
 * htw_submit_begin(), for operations that are a run each: there a call counts, and what
 * is only for finding timers, if there are none to be found.
 */
static __always_inline void __htw_submit_begin(struct htw_submit *s, struct htw_context *ctx,
					       bool settled, bool finds)
{
	const struct htw_directory *dir;

	s->ctx = ctx;
	s->nr_freed = 0;
	INIT_LIST_HEAD(&s->freed);
	s->nr_pages = finds && settled ? htw_context_pages(ctx) : 0;
	s->now = settled ? htw_context_now(ctx) : 0;
	local_bh_disable();
	/* Else HTW_SETUP may be changing it. Any base will do: no timer is found. */
	s->target = settled ? htw_context_base(ctx) : this_cpu_read(htw_callout_bases);
	if (unlikely(!s->target))
		htw_submit_create_base(s);
	/* A table that comes now waits for this run to end: htw_table_enable(). */
	s->plain = !settled || likely(!ctx->timens && !READ_ONCE(ctx->table));
	if (finds) {
		/* After the count: all pages that count are in it. */
		dir = rcu_dereference_bh(ctx->dir);
		s->page_mask = dir->mask;
		s->pages = dir->pages;
	}
	htw_submit_take_lock(s, s->target, finds);
}

/* Lets the softirq, or another thread, have the lock where it waits for it. */
static inline void htw_submit_yield(struct htw_submit *s)
{
	if (unlikely(spin_is_contended(&s->base->lock)))
		htw_submit_switch(s, s->base);
}

/**
 * htw_submit_end() - ends a run and gives back the timers that it freed
 * @s: the run
 *
 * What it made due on a manual clock is delivered when this returns.
 */
static inline void htw_submit_end(struct htw_submit *s)
{
	htw_unlock(&s->base->lock);
	if (s->nr_freed)
		htw_submit_return_freed(s);
	local_bh_enable();
	if (unlikely(htw_context_is_manual(s->ctx)))
		htw_context_advance(s->ctx, 0);
}

/**
 * htw_submit_reserve() - takes a free timer, if one is there
 * @s: the run
 *
 * Return: the timer, on no list; NULL where none is free, and at a limit:
 * htw_slots_reserve() then does what can be done.
 */
static inline struct htw_timer *htw_submit_reserve(struct htw_submit *s)
{
	struct htw_context *ctx = s->ctx;
	struct htw_timer *t = NULL;

	if (!htw_user_charge(ctx->user, 1))
		return NULL;
	spin_lock(&ctx->lock);
	if (likely(ctx->nr_timers < ctx->limit))
		t = htw_slots_alloc(ctx);
	spin_unlock(&ctx->lock);
	if (unlikely(!t))
		htw_user_uncharge(ctx->user, 1);
	return t;
}

/**
 * htw_submit_max() - how many operations go into one run
 * @ctx: the context
 * @most: how many at the most
 *
 * A batch means the same as its operations one by one. On a manual clock a timer that is
 * due has expired when the call returns, so there the next operation is to find it so.
 *
 * Return: how many.
 */
static inline u32 htw_submit_max(const struct htw_context *ctx, u32 most)
{
	return unlikely(htw_context_is_manual(ctx)) ? 1 : most;
}

static inline u64 htw_submit_deadline(const struct htw_submit *s, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_add_saturated(s->now, deadline);
}

/* Has a deadline come already, as it was given? */
static inline bool htw_submit_is_due(const struct htw_submit *s, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline <= s->now : !deadline;
}

/**
 * htw_submit_add() - arms a reserved timer
 * @s: the run, of a context that is settled; the lock of its @target is held, as
 *	when it begins
 * @t: the timer, on no list any more
 * @add: what the program asked for, found to be valid
 * @plain: &htw_submit.plain
 */
static __always_inline void htw_submit_add(struct htw_submit *s, struct htw_timer *t,
					   const struct htw_add *add, bool plain)
{
	u64 deadline;

	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	if (unlikely(add->flags & HTW_F_CANCEL_ON_SET)) {
		t->node.flags |= HTW_TIMER_CANCEL_ON_SET;
		s->now = htw_clock_sets_stamp(s->ctx, t);
	}
	/* After the stamp, which looks at the clock again. */
	deadline = htw_submit_deadline(s, add->deadline, add->flags);
	t->deadline = deadline;
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	htw_timer_set_slack(t, add->slack);
	if (trace_htw_add_enabled())
		trace_htw_add(htw_timer_id(t), t->cookie, t->deadline, t->interval);
	if (unlikely(!plain)) {
		htw_context_clear_override(s->ctx, t);
		deadline = htw_context_to_host(s->ctx, deadline);
	}
	if (likely(!add->slack) && likely(!(add->flags & HTW_F_CANCEL_ON_SET)) &&
	    likely(!htw_submit_is_due(s, add->deadline, add->flags)))
		htw_timer_start(s->base, t, htw_tick_up(s->base, deadline));
	else
		htw_submit_arm(s, t);
}

/**
 * htw_submit_page() - a page, by its number
 * @s: the run, during which it may be used
 * @page: what may be the number of a page
 *
 * Return: the page, or &htw_no_page.
 */
static inline struct htw_page *htw_submit_page(const struct htw_submit *s, u32 page)
{
	if (unlikely(page >= s->nr_pages))
		return (struct htw_page *)&htw_no_page;
	return rcu_dereference_bh(s->pages[page & s->page_mask]);
}

/**
 * htw_submit_find() - the timer of an id's slot, whatever it is by now
 * @s: the run
 * @id: what a program says is an id
 *
 * Return: the timer; where there is no such slot, one that is free for ever.
 */
static inline struct htw_timer *htw_submit_find(const struct htw_submit *s, u64 id)
{
	/* The header has the room of a timer, and is none that is armed. */
	return &htw_submit_page(s, (u32)id / HTW_PAGE_SLOTS)->header +
	       (u32)id % HTW_PAGE_SLOTS;
}

/*
 * Is it what nearly all are: an id's timer, pending on the base whose lock the
 * run holds, and that is the one to start timers on; with none of some @flags?
 * Then it stays so. @place is one of the run's.
 */
static __always_inline bool htw_submit_holds(const u32 *place, const struct htw_timer *t, u64 id,
					     u8 flags)
{
	/* Pairs with htw_timer_start(). */
	const u32 is = smp_load_acquire(&t->node.place);

	return likely((is & htw_place(U16_MAX, U8_MAX, flags)) == *place) &&
	       likely(htw_timer_matches(t, id));
}

/* Ends a timer's id; the timer is on no list. */
static inline void htw_submit_free(struct htw_submit *s, struct htw_timer *t)
{
	htw_timer_free(t, &s->freed);
	s->nr_freed++;
}

/**
 * htw_submit_cancel() - cancels a timer
 * @s: the run
 * @t: htw_submit_find() of the id
 * @cancel: the id and flags, found to be valid; the rest is filled in
 * @fill: is the rest wanted?
 *
 * Return: as &struct htw_cancel tells.
 */
static __always_inline int htw_submit_cancel(struct htw_submit *s, struct htw_timer *t,
					     struct htw_cancel *cancel, bool fill)
{
	int ret = 0;

	if (likely(htw_submit_holds(&s->place, t, cancel->id, HTW_TIMER_CANCEL_ON_SET))) {
		if (fill) {
			cancel->cookie = t->cookie;
			cancel->remaining = htw_timer_remaining(t, htw_context_override(s->ctx, t),
								s->now);
			cancel->missed = 0;
		}
		htw_base_stop(s->base, &t->node);
		htw_submit_free(s, t);
	} else {
		struct htw_cancel slow = { .id = cancel->id, .flags = cancel->flags };

		ret = htw_submit_cancel_slow(s, t, &slow);
		*cancel = slow;
	}
	trace_htw_cancel(cancel->id, ret);
	return ret;
}

/**
 * htw_submit_mod() - changes a timer
 * @s: the run
 * @t: htw_submit_find() of the id
 * @mod: what to change, found to be valid
 *
 * Return: 0 or -ENOENT.
 */
static __always_inline int htw_submit_mod(struct htw_submit *s, struct htw_timer *t,
					  const struct htw_mod *mod)
{
	if (unlikely(!htw_submit_holds(&s->place_plain, t, mod->id,
				       HTW_TIMER_CANCEL_ON_SET | HTW_TIMER_SLACK) ||
		     mod->flags & (HTW_MOD_INTERVAL | HTW_MOD_COOKIE | HTW_MOD_SLACK) ||
		     htw_submit_is_due(s, mod->deadline, mod->flags))) {
		const struct htw_mod slow = *mod;

		return htw_submit_mod_slow(s, t, &slow);
	}
	t->deadline = htw_submit_deadline(s, mod->deadline, mod->flags);
	htw_base_restart(s->base, &t->node, htw_tick_up(s->base, t->deadline));
	if (trace_htw_mod_enabled())
		trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

#endif /* _HTW_SUBMIT_H */
