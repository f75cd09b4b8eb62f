/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A section: a sequence of operations on timers of one context, with bottom
 * halves off and the lock of one base held at a time
 *
 * Softirqs of the CPU wait for a section to end, so it is bounded by what it
 * does, not by its operations, whose cost varies a hundredfold: see
 * &htw_section.units. A loop over operations asks after each that took the slow
 * path, and after each few others, whether to end the section, and begins
 * another one for the rest. Pages and what was found in them are only valid
 * within one.
 *
 * An operation on an id finds the timer without a lock. Most timers are pending
 * on the base that is locked already: the functions below, the fast path,
 * change them at once. Any other timer takes the slow path in section.c: lock
 * the base that the timer was last on and look again. If it is pending there,
 * it stays so while that lock is held. Otherwise take the context's lock as
 * well, which guards the other states. If the timer is pending now, it has just
 * been armed on another CPU: start over.
 *
 * The functions below are inline as parts of the loops of vectors and batches,
 * or because they begin each call for a single operation: see
 * docs/performance.md.
 */
#ifndef _HTW_SECTION_H
#define _HTW_SECTION_H

#include <trace/events/htw.h>

#include "advance.h"
#include "clock_sets.h"
#include "pool.h"
#include "shrink.h"

/*
 * What a section may do, in units of the cost of an operation on the fast path.
 * The slow path counts what it adds to that.
 */
#define HTW_SECTION_UNITS	400
/* Operations after which loops count the units of their fast paths, and look at the lock. */
#define HTW_SECTION_GROUP	32u

/**
 * struct htw_section - a section in progress; on the stack of its task
 * @ctx: the context
 * @base: the base whose lock is held
 * @target: the base on which timers are started
 * @cancel_key: the fast path cancels timers with this &htw_entry.key, flags left
 *	out: those that are pending on @base
 * @mod_key: the fast path of mod changes timers with this one: the same timers
 *	if @base is @target and the section is @direct, else none (%HTW_NO_KEY)
 * @nr_pages: pages in which to look up timers. This and the fields that the
 *	fast paths of cancel and mod use, @cancel_key to @pages, are not set by
 *	htw_section_begin_add()
 * @page_mask: &htw_directory.mask
 * @pages: &htw_directory.pages
 * @units: what is left of HTW_SECTION_UNITS; may become negative
 * @now: the context's time at which the operations take place, in ns; not
 *	before that of @base
 * @made_way: the time for which htw_section_make_way() was last called on
 *	@base, or zero
 * @way: its result
 * @direct: no offset of a time namespace and no table of deadlines
 * @freed: timers that were freed, to be returned at the end
 * @nr_freed: number of those
 */
struct htw_section {
	struct htw_context *ctx;
	struct htw_base *base;
	struct htw_base *target;
	u32 cancel_key;
	u32 mod_key;
	u32 nr_pages;
	u32 page_mask;
	struct htw_page __rcu *const *pages;
	int units;
	u64 now;
	u64 made_way;
	bool way;
	bool direct;
	struct list_head freed;
	u32 nr_freed;
};

void htw_section_begin(struct htw_section *s, struct htw_context *ctx);
void htw_section_create_base(struct htw_section *s);
void htw_section_return_freed(struct htw_section *s);
void htw_section_give_way(struct htw_base *base);
u32 htw_section_limit(const struct htw_context *ctx, u32 most);
void htw_section_stamp(struct htw_section *s, struct htw_timer *t);
void htw_section_switch_base(struct htw_section *s, struct htw_base *base);
enum htw_timer_state htw_section_lock_timer(struct htw_section *s,
					    const struct htw_timer *t);
void htw_section_unlock_timer(struct htw_section *s,
			      enum htw_timer_state state);
bool htw_section_arm(struct htw_section *s, struct htw_timer *t);
int htw_section_cancel_slow(struct htw_section *s, struct htw_timer *t,
			    struct htw_cancel *cancel);
int htw_section_mod_slow(struct htw_section *s, struct htw_timer *t,
			 const struct htw_mod *mod);
int htw_section_query(struct htw_section *s, struct htw_query *query);

/* Bring the base that is locked up to the section's time, which may become later. */
static __always_inline void htw_section_forward_base(struct htw_section *s)
{
	u64 host;

	if (s->direct) {
		s->now = htw_base_forward(s->base, s->now);
		return;
	}

	host = htw_context_to_host(s->ctx, s->now);
	host = htw_base_forward(s->base, host);
	s->now = htw_context_from_host(s->ctx, host);
}

/* Go on with a base that has just been locked; no other one is. */
static __always_inline void htw_section_enter_base(struct htw_section *s,
						   struct htw_base *base)
{
	s->base = base;
	s->made_way = 0;
	htw_section_forward_base(s);
}

/* &htw_section.mod_key that matches no timer: none has this state. */
#define HTW_NO_KEY		htw_timer_key(0, U8_MAX, 0)

/* Note which timers the fast paths may change now that another base is locked. */
static __always_inline void htw_section_set_keys(struct htw_section *s)
{
	s->cancel_key = htw_timer_key(s->base->cpu, HTW_PENDING, 0);
	s->mod_key = s->direct && s->base == s->target ? s->cancel_key : HTW_NO_KEY;
}

/* Make @base the one whose lock is held. */
static inline void htw_section_lock_base(struct htw_section *s,
					 struct htw_base *base)
{
	if (s->base != base)
		htw_section_switch_base(s, base);
}

/* Pages in which a timer may have been armed. */
static inline u32 htw_section_pages(const struct htw_context *ctx)
{
	return htw_context_is_settled(ctx) ? htw_context_pages(ctx) : 0;
}

/*
 * Begin a section that looks up no timer: one add. Inline, as it begins calls
 * for a single operation.
 */
static __always_inline void htw_section_begin_add(struct htw_section *s,
						  struct htw_context *ctx)
{
	s->ctx = ctx;
	s->nr_freed = 0;
	INIT_LIST_HEAD(&s->freed);
	s->units = HTW_SECTION_UNITS;
	s->now = htw_context_now(ctx);
	local_bh_disable();
	s->target = htw_context_base(ctx);
	if (!s->target)
		htw_section_create_base(s);
	/* htw_table_enable() waits for sections that have not seen the table. */
	s->direct = !ctx->timens && !READ_ONCE(ctx->table);
	htw_lock(&s->target->lock);
	htw_section_enter_base(s, s->target);
}

/* htw_section_begin(), inline for the same reason. */
static __always_inline void __htw_section_begin(struct htw_section *s,
						struct htw_context *ctx)
{
	const struct htw_directory *dir;

	htw_section_begin_add(s, ctx);
	htw_section_set_keys(s);
	s->nr_pages = htw_context_pages(ctx);
	/* After reading the count, so that the directory holds all pages below it. */
	dir = rcu_dereference_bh(ctx->dir);
	s->page_mask = dir->mask;
	s->pages = dir->pages;
}

/**
 * htw_section_end() - end a section and return the timers that it freed
 * @s: the section
 *
 * On a manual clock, timers that it made due are delivered before this returns.
 */
static inline void htw_section_end(struct htw_section *s)
{
	struct htw_base *base = s->base;
	/* Before the lock is dropped, with which the cache line may go to another CPU. */
	const bool wanted = READ_ONCE(base->wanted);

	htw_base_unlock(base);
	if (s->nr_freed)
		htw_section_return_freed(s);
	local_bh_enable();
	if (wanted)
		htw_section_give_way(base);
	if (htw_context_is_manual(s->ctx))
		htw_advance_context(s->ctx, 0);
}

/* Count work that is not on the fast path, and that of loops by the group. */
static inline void htw_section_count(struct htw_section *s, int units)
{
	s->units -= units;
}

/* Has the section done all that it may? If so, it ends after the present operation. */
static inline bool htw_section_is_used_up(const struct htw_section *s)
{
	return s->units <= 0;
}

/*
 * Count a group of operations. Should the section end, because it is used up or
 * because others wait for the base's lock? To be asked when it has carried out
 * some.
 */
static inline bool htw_section_should_end(struct htw_section *s, int units)
{
	htw_section_count(s, units);
	return htw_section_is_used_up(s) || READ_ONCE(s->base->wanted) ||
	       spin_is_contended(&s->base->lock);
}

static inline u64 htw_section_deadline(const struct htw_section *s,
				       u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_arith_sum(s->now, deadline);
}

/* Is a request's deadline due? With constant @flags one instruction less than comparing the sum. */
static inline bool htw_section_is_due(const struct htw_section *s, u64 deadline,
				      u32 flags)
{
	return flags & HTW_F_ABS ? deadline <= s->now : !deadline;
}

/**
 * htw_section_add() - arm a reserved timer
 * @s: the section; @s->target is locked
 * @t: the timer, on no list
 * @add: a valid request
 * @direct: &htw_section.direct, constant where the caller knows it
 *
 * Return: false if the section is used up; true without a look on the fast
 * path.
 */
static __always_inline bool htw_section_add(struct htw_section *s, struct htw_timer *t,
					    const struct htw_add *add, bool direct)
{
	u64 deadline;

	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	if (add->flags & HTW_F_CANCEL_ON_SET) {
		t->node.flags |= HTW_TIMER_CANCEL_ON_SET;
		htw_section_stamp(s, t);
	}
	/* After the stamp, which reads the clock again. */
	deadline = htw_section_deadline(s, add->deadline, add->flags);
	t->deadline = deadline;
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->node.slack = 0;
	if (add->slack)
		htw_timer_set_slack(t, add->slack);
	if (trace_htw_add_enabled())
		trace_htw_add(htw_timer_id(t), t->cookie, t->deadline,
			      t->interval);
	if (!direct) {
		htw_context_clear_override(s->ctx, t);
		deadline = htw_context_to_host(s->ctx, deadline);
	}
	if (likely(!add->slack) &&
	    likely(!(add->flags & HTW_F_CANCEL_ON_SET)) &&
	    likely(!htw_section_is_due(s, add->deadline, add->flags))) {
		htw_timer_start(s->base, t,
				htw_base_tick_up(s->base, deadline));
		return true;
	}
	return htw_section_arm(s, t);
}

/* A page by its number, usable during the section; &htw_no_page if there is none. */
static inline struct htw_page *htw_section_page(const struct htw_section *s,
						u32 page)
{
	if (unlikely(page >= s->nr_pages))
		return (struct htw_page *)&htw_no_page;
	return rcu_dereference_bh(s->pages[page & s->page_mask]);
}

/*
 * The timer in an id's slot, in any state and of any generation. For an id
 * without a slot, or with the slot of a page's header, a timer that is free for
 * ever.
 */
static inline struct htw_timer *htw_section_find(const struct htw_section *s,
						 u64 id)
{
	return &htw_section_page(s, (u32)id / HTW_PAGE_SLOTS)->header +
	       (u32)id % HTW_PAGE_SLOTS;
}

/*
 * May the fast path change @t: is it the timer of @id, with *@key, which is the
 * section's @cancel_key or @mod_key, and none of @flags? Then the lock that is
 * held guards it.
 *
 * By reference: read behind the barrier, the key is an operand of the
 * comparison.
 */
static __always_inline bool
htw_section_is_at(const u32 *key, const struct htw_timer *t, u64 id, u8 flags)
{
	/*
	 * Pairs with htw_timer_start(). A timer that is not there may get
	 * other flags meanwhile, from the add that is about to arm it.
	 */
	u32 found = data_race(smp_load_acquire(&t->node.key));

	return likely((found & htw_timer_key(U16_MAX, U8_MAX, flags)) == *key) &&
	       likely(htw_timer_matches(t, id));
}

/* Free a timer that is on no list. */
static inline void htw_section_free(struct htw_section *s, struct htw_timer *t)
{
	htw_timer_free(t, &s->freed);
	s->nr_freed++;
}

/**
 * htw_section_cancel_fast() - cancel a timer that is pending on the base that is locked
 * @s: the section
 * @t: result of htw_section_find() for the id
 * @cancel: a valid request; also the result
 * @fill: fill in the result
 *
 * Return: true if that was possible; else htw_section_cancel_slow() does it.
 */
static __always_inline bool htw_section_cancel_fast(struct htw_section *s, struct htw_timer *t,
						    struct htw_cancel *cancel, bool fill)
{
	if (unlikely(!htw_section_is_at(&s->cancel_key, t, cancel->id,
					HTW_TIMER_CANCEL_ON_SET)))
		return false;
	if (fill) {
		cancel->cookie = t->cookie;
		cancel->remaining = htw_timer_remaining(t, htw_context_override(s->ctx, t),
							s->now);
		cancel->missed = 0;
	}
	htw_base_stop(s->base, &t->node);
	htw_section_free(s, t);
	trace_htw_cancel(cancel->id, 0);
	return true;
}

/* Cancel a timer. Return: as described at &struct htw_cancel. */
static __always_inline int htw_section_cancel(struct htw_section *s, struct htw_timer *t,
					      struct htw_cancel *cancel, bool fill)
{
	if (htw_section_cancel_fast(s, t, cancel, fill))
		return 0;
	return htw_section_cancel_slow(s, t, cancel);
}

/**
 * htw_section_mod_fast() - give a timer on the base that is locked a later or earlier deadline
 * @s: the section
 * @t: result of htw_section_find() for the id
 * @mod: a valid request
 *
 * Return: true if that was possible; else htw_section_mod_slow() does it.
 */
static __always_inline bool htw_section_mod_fast(struct htw_section *s,
						 struct htw_timer *t,
						 const struct htw_mod *mod)
{
	if (unlikely(!htw_section_is_at(&s->mod_key, t, mod->id,
					HTW_TIMER_CANCEL_ON_SET | HTW_TIMER_SLACK) ||
		     mod->flags & (HTW_MOD_INTERVAL | HTW_MOD_COOKIE |
				   HTW_MOD_SLACK | HTW_MOD_UNREAD) ||
		     htw_section_is_due(s, mod->deadline, mod->flags)))
		return false;

	t->deadline = htw_section_deadline(s, mod->deadline, mod->flags);
	htw_base_restart(s->base, &t->node,
			 htw_base_tick_up(s->base, t->deadline));
	if (trace_htw_mod_enabled())
		trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return true;
}

/* Change a timer. Return: 0 or -ENOENT. */
static __always_inline int htw_section_mod(struct htw_section *s,
					   struct htw_timer *t,
					   const struct htw_mod *mod)
{
	if (htw_section_mod_fast(s, t, mod))
		return 0;
	return htw_section_mod_slow(s, t, mod);
}

#endif /* _HTW_SECTION_H */
