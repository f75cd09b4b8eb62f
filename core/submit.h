/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A submission: a sequence of operations on timers of one context, with bottom halves off and
 * the lock of one base held at a time
 *
 * An operation on an id finds the timer without a lock. Most timers are pending on the base
 * that is locked already: the functions below, the fast path, change them at once. Any other
 * timer takes the slow path in submit.c: lock the base that the timer was last on and look
 * again. If it is pending there, it stays so while that lock is held. Otherwise take the
 * context's lock as well, which guards the other states. If the timer is pending now, it has
 * just been armed on another CPU: start over.
 *
 * In a vector the fast path takes 70 instructions for a cancel and 90 for a re-arm, the slow
 * path 166 and 256. The functions below are inline as parts of those loops, or because they
 * begin each call for a single operation: out of line they cost an add 31 of 983 instructions.
 */
#ifndef _HTW_SUBMIT_H
#define _HTW_SUBMIT_H

#include <trace/events/htw.h>

#include "advance.h"
#include "clock_sets.h"
#include "shrink.h"
#include "slots.h"

/**
 * struct htw_submit - a submission in progress; on the stack of its task
 * @ctx: the context
 * @base: the base whose lock is held
 * @target: the base on which timers are started
 * @cancel_place: &htw_node.place, without flags, of timers that the fast path may cancel:
 *	pending on @base. Matches none unless @base is @target. Only set, like @mod_place,
 *	@page_mask and @pages, if the submission looks up timers
 * @mod_place: the same for the fast path of mod; matches none unless @plain
 * @nr_pages: pages in which to look up timers; zero if it looks up none, or if none had been
 *	armed when it began, because the context's settings may still change
 * @page_mask: &htw_directory.mask
 * @pages: &htw_directory.pages
 * @now: the context's time at which the operations take place, in ns; not before that of @base
 * @plain: no offset of a time namespace and no table of deadlines, or no timer to look up
 * @freed: timers that were freed, to be returned at the end
 * @nr_freed: number of those
 */
struct htw_submit {
	struct htw_context *ctx;
	struct htw_base *base;
	struct htw_base *target;
	u32 cancel_place;
	u32 mod_place;
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
u32 htw_submit_limit(const struct htw_context *ctx, u32 most);
void htw_submit_stamp(struct htw_submit *s, struct htw_timer *t);
void htw_submit_switch_base(struct htw_submit *s, struct htw_base *base);
enum htw_timer_state htw_submit_lock_timer(struct htw_submit *s, const struct htw_timer *t);
void htw_submit_unlock_timer(struct htw_submit *s, enum htw_timer_state state);
void htw_submit_arm(struct htw_submit *s, struct htw_timer *t);
int htw_submit_cancel_slow(struct htw_submit *s, struct htw_timer *t, struct htw_cancel *cancel);
int htw_submit_mod_slow(struct htw_submit *s, struct htw_timer *t, const struct htw_mod *mod);
int htw_submit_query(struct htw_submit *s, struct htw_query *query);

static __always_inline void htw_submit_touch_base(struct htw_submit *s)
{
	if (likely(s->plain))
		s->now = htw_base_touch(s->base, s->now);
	else
		s->now = htw_context_from_host(s->ctx,
					       htw_base_touch(s->base,
							      htw_context_to_host(s->ctx,
										  s->now)));
}

/* Lock a base, while none is locked. */
static __always_inline void htw_submit_enter_base(struct htw_submit *s, struct htw_base *base,
						  bool lookups)
{
	s->base = base;
	htw_lock(&base->lock);
	htw_submit_touch_base(s);
	if (!lookups)
		return;
	/* No timer has state U8_MAX. */
	s->cancel_place = htw_place(base->cpu, base == s->target ? HTW_PENDING : U8_MAX, 0);
	s->mod_place = s->plain ? s->cancel_place : htw_place(base->cpu, U8_MAX, 0);
}

/* Make @base the one whose lock is held. */
static inline void htw_submit_lock_base(struct htw_submit *s, struct htw_base *base)
{
	if (unlikely(s->base != base))
		htw_submit_switch_base(s, base);
}

/* Are the context's settings final, because a timer has been or is about to be armed? */
static inline bool htw_context_is_settled(const struct htw_context *ctx)
{
	/* Pairs with htw_submit_begin_adds(): the settings are visible. */
	return smp_load_acquire(&ctx->used);
}

/* htw_submit_begin(), inline for calls with a single operation. */
static __always_inline void __htw_submit_begin(struct htw_submit *s, struct htw_context *ctx,
					       bool settled, bool lookups)
{
	const struct htw_directory *dir;

	s->ctx = ctx;
	s->nr_freed = 0;
	INIT_LIST_HEAD(&s->freed);
	s->nr_pages = lookups && settled ? htw_context_pages(ctx) : 0;
	s->now = settled ? htw_context_now(ctx) : 0;
	local_bh_disable();
	/* Until settled, HTW_SETUP may change @bases; there are no timers, so any base will do. */
	s->target = settled ? htw_context_base(ctx) : this_cpu_read(htw_callout_bases);
	if (unlikely(!s->target))
		htw_submit_create_base(s);
	/* htw_table_enable() waits for submissions that have not seen the table. */
	s->plain = !settled || likely(!ctx->timens && !READ_ONCE(ctx->table));
	if (lookups) {
		/* After reading the count, so that the directory holds all pages below it. */
		dir = rcu_dereference_bh(ctx->dir);
		s->page_mask = dir->mask;
		s->pages = dir->pages;
	}
	htw_submit_enter_base(s, s->target, lookups);
}

/**
 * htw_submit_end() - end a submission and return the timers that it freed
 * @s: the submission
 *
 * On a manual clock, timers that it made due are delivered before this returns.
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

static inline u64 htw_submit_deadline(const struct htw_submit *s, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_add_saturated(s->now, deadline);
}

/* Is a request's deadline due? With constant @flags one instruction less than comparing the sum. */
static inline bool htw_submit_is_due(const struct htw_submit *s, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline <= s->now : !deadline;
}

/**
 * htw_submit_add() - arm a reserved timer
 * @s: the submission; @s->target is locked
 * @t: the timer, on no list
 * @add: a valid request
 * @plain: &htw_submit.plain, constant where the caller knows it
 */
static __always_inline void htw_submit_add(struct htw_submit *s, struct htw_timer *t,
					   const struct htw_add *add, bool plain)
{
	u64 deadline;

	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	if (unlikely(add->flags & HTW_F_CANCEL_ON_SET)) {
		t->node.flags |= HTW_TIMER_CANCEL_ON_SET;
		htw_submit_stamp(s, t);
	}
	/* After the stamp, which reads the clock again. */
	deadline = htw_submit_deadline(s, add->deadline, add->flags);
	t->deadline = deadline;
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->node.slack = 0;
	if (unlikely(add->slack))
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

/* A page by its number, usable during the submission; &htw_no_page if there is none. */
static inline struct htw_page *htw_submit_page(const struct htw_submit *s, u32 page)
{
	if (unlikely(page >= s->nr_pages))
		return (struct htw_page *)&htw_no_page;
	return rcu_dereference_bh(s->pages[page & s->page_mask]);
}

/*
 * The timer in an id's slot, in any state and of any generation. For an id without a slot, or
 * with the slot of a page's header, a timer that is free for ever.
 */
static inline struct htw_timer *htw_submit_find(const struct htw_submit *s, u64 id)
{
	return &htw_submit_page(s, (u32)id / HTW_PAGE_SLOTS)->header +
	       (u32)id % HTW_PAGE_SLOTS;
}

/*
 * May the fast path be taken: is @t the timer of @id, at @place (@cancel_place or @mod_place of
 * the submission), and has none of @flags? Then the lock that is held guards it.
 */
static __always_inline bool htw_submit_is_at(const u32 *place, const struct htw_timer *t, u64 id,
					     u8 flags)
{
	/* Pairs with htw_timer_start(). */
	const u32 is = smp_load_acquire(&t->node.place);

	return likely((is & htw_place(U16_MAX, U8_MAX, flags)) == *place) &&
	       likely(htw_timer_matches(t, id));
}

/* Free a timer that is on no list. */
static inline void htw_submit_free(struct htw_submit *s, struct htw_timer *t)
{
	htw_timer_free(t, &s->freed);
	s->nr_freed++;
}

/**
 * htw_submit_cancel() - cancel a timer
 * @s: the submission
 * @t: result of htw_submit_find() for the id
 * @cancel: a valid request; also the result
 * @fill: fill in the result on the fast path, too
 *
 * Return: as described at &struct htw_cancel.
 */
static __always_inline int htw_submit_cancel(struct htw_submit *s, struct htw_timer *t,
					     struct htw_cancel *cancel, bool fill)
{
	int ret = 0;

	if (likely(htw_submit_is_at(&s->cancel_place, t, cancel->id, HTW_TIMER_CANCEL_ON_SET))) {
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
 * htw_submit_mod() - change a timer
 * @s: the submission
 * @t: result of htw_submit_find() for the id
 * @mod: a valid request
 *
 * Return: 0 or -ENOENT.
 */
static __always_inline int htw_submit_mod(struct htw_submit *s, struct htw_timer *t,
					  const struct htw_mod *mod)
{
	if (unlikely(!htw_submit_is_at(&s->mod_place, t, mod->id,
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
