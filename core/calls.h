/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on timers: one, those of a vector, or all of a context, with the
 * lock of one base held at a time
 *
 * An operation on an id finds the timer, and mostly it belongs to the base that
 * is locked already. Otherwise the base to which it belongs is locked instead,
 * and it is looked up again: its page may have been given back.
 *
 * The functions below are inline as parts of the loops of vectors, or because
 * they begin each call.
 */
#ifndef _HTW_CALLS_H
#define _HTW_CALLS_H

#include <trace/events/htw.h>

#include "bases.h"
#include "pages.h"
#include "ring.h"

/**
 * struct htw_call - operations in progress; on the stack of their task
 * @ctx: the context
 * @base: the base whose lock is held
 * @now: the time at which they take place, in ns
 * @tick: the tick of that, in the base that is locked
 * @units: what may still be done while the lock is held; a simple operation is
 *	one
 * @relocked: set by htw_call_lock_slot() when it has locked another base;
 *	cleared by the caller before it begins
 */
struct htw_call {
	struct htw_context *ctx;
	struct htw_base *base;
	u64 now;
	u64 tick;
	int units;
	bool relocked;
};

/*
 * What is done while a base's lock is held: less than 50 us. For what is left of
 * it nodes are moved down: how many for an operation.
 */
#define HTW_CALL_UNITS		384
#define HTW_CALL_UNIT_LOOKS	2
/*
 * Timers that are looked at to make way for one that is due at once are as many
 * operations.
 */
#define HTW_CALL_DUE_UNITS	8

long htw_call_add_one(struct htw_context *ctx, struct htw_add_args __user *arg, gfp_t gfp);
long htw_call_cancel_one(struct htw_context *ctx, struct htw_cancel_args __user *arg);
long htw_call_mod_one(struct htw_context *ctx, struct htw_mod_args __user *arg);
long htw_call_query_one(struct htw_context *ctx, struct htw_timer_info __user *arg);
long htw_call_vector(struct htw_context *ctx, struct htw_vector_args __user *arg, gfp_t gfp);
void htw_vector_exit(void);
long htw_walk_cancel_all(struct htw_context *ctx, struct htw_cancel_all_args __user *arg);
long htw_walk_list(struct htw_context *ctx, struct htw_list_args __user *arg, bool harvest);

u32 htw_timer_set_slack(struct htw_timer *t, u64 slack);
bool htw_call_add_is_valid(const struct htw_add_args *add);
u64 htw_call_choose_tick(struct htw_call *c, const struct htw_timer *t, u32 flags);
struct htw_timer *htw_call_lock_slot(struct htw_call *c, struct htw_timer *t, u64 id);
struct htw_timer *htw_call_lock_timer(struct htw_call *c, struct htw_timer *t, u64 id);
void htw_call_mod(struct htw_call *c, struct htw_timer *t, const struct htw_mod_args *mod);
void htw_call_report(const struct htw_call *c, const struct htw_timer *t,
		     struct htw_timer_info *info);

static __always_inline void htw_call_lock(struct htw_call *c, struct htw_base *base)
{
	c->base = base;
	c->units = HTW_CALL_UNITS;
	c->tick = htw_base_lock(base, &c->now);
	/* Which lock it is cannot be seen by sparse. */
	__release(&base->lock);
}

/* Drop the lock, and free the levels of a base that has become empty. */
static __always_inline void htw_call_unlock(struct htw_call *c)
{
	struct htw_base *base = c->base;
	void *levels = NULL;

	if (unlikely(!base->wheel.pending))
		levels = htw_base_remove_levels(base);
	__acquire(&base->lock);	/* see htw_call_lock() */
	htw_ring_unlock(base, c->now, max(c->units, 1) * HTW_CALL_UNIT_LOOKS);
	if (unlikely(levels))
		htw_base_free_levels(base, levels);
}

/* The timer in an id's slot, valid as long as the lock is held. */
static __always_inline struct htw_timer *htw_call_look_up(const struct htw_call *c, u64 id)
{
	const struct htw_lookup lookup = htw_ids_lookup(&c->ctx->ids);

	return htw_lookup_find(&lookup, id);
}

/* Begin with the lock of a base. */
static __always_inline void htw_call_begin(struct htw_call *c, struct htw_context *ctx,
					   struct htw_base *base)
{
	c->ctx = ctx;
	c->now = htw_context_now(ctx);
	htw_call_lock(c, base);
}

/* An interval as it is kept: not below a tick. */
static inline u64 htw_call_interval(const struct htw_call *c, u64 interval)
{
	return interval ? max(interval, c->base->tick_ns) : 0;
}

/* What a timer is doing, of &enum htw_state; its base is locked. */
static inline u32 htw_call_state(const struct htw_call *c, const struct htw_timer *t)
{
	if (unlikely(!(t->key & HTW_TIMER_PENDING)))
		return HTW_STATE_DISARMED;
	/*
	 * The cursor stops at the first tick with due timers; it may be ahead
	 * of this call.
	 */
	return t->node.expires <= c->tick || t->node.expires < c->base->wheel.cursor ?
		HTW_STATE_DUE : HTW_STATE_PENDING;
}

static inline u64 htw_call_deadline(const struct htw_call *c, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_arith_sum(c->now, deadline);
}

/* Start a timer that was taken; its base is locked. */
static __always_inline void htw_call_add(struct htw_call *c, struct htw_timer *t,
					 const struct htw_add_args *add)
{
	u64 deadline = htw_call_deadline(c, add->deadline, add->flags), tick;
	u32 flags = (add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0) |
		    (add->interval ? HTW_TIMER_PERIODIC : 0);

	t->deadline = deadline;
	t->cookie = add->cookie;
	t->interval = htw_call_interval(c, add->interval);
	t->firings = add->firings;
	if (unlikely(add->slack))
		flags |= htw_timer_set_slack(t, add->slack);
	if (likely(!add->slack) && likely(deadline > c->now))
		tick = htw_base_tick_up(c->base, deadline);
	else
		tick = htw_call_choose_tick(c, t, flags);
	htw_base_start(c->base, t, tick, flags);
}

/*
 * Is @t the timer of @id, pending in the base that is locked, and without
 * @flags, of &enum htw_timer_key?
 */
static __always_inline bool htw_call_is_at(const struct htw_call *c, const struct htw_timer *t,
					   u64 id, u32 flags)
{
	u32 bits = HTW_TIMER_OWNER | HTW_TIMER_PENDING | flags;

	return likely((READ_ONCE(t->key) & bits) == c->base->key) &&
	       likely(t->generation == upper_32_bits(id));
}

/* End a timer, whose base is locked. */
static __always_inline void htw_call_cancel(struct htw_call *c, struct htw_timer *t)
{
	if (likely(t->key & HTW_TIMER_PENDING))
		htw_wheel_stop(&c->base->wheel, &t->node);
	else
		c->base->nr_idle--;
	htw_ids_return(c->base, &c->ctx->ids, t);
	c->base->cancelled++;
}

/*
 * Give a timer, which is pending, without slack, and whose base is locked,
 * another deadline. @flags are a constant where that counts.
 *
 * Return: false if there is more to it, for which htw_call_mod() is.
 */
static __always_inline bool htw_call_move(struct htw_base *base, struct htw_timer *t, u64 now,
					  u64 deadline, u32 flags)
{
	u64 tick;

	if (flags & ~(HTW_MOD_DEADLINE | HTW_F_ABS))
		return false;
	/* A sum that is too large comes out as one that has passed. */
	if (!(flags & HTW_F_ABS))
		deadline += now;
	if (unlikely(deadline <= now))
		return false;
	t->deadline = deadline;
	tick = htw_base_tick_up(base, deadline);
	htw_base_move(base, t, tick);
	return true;
}

#endif /* _HTW_CALLS_H */
