/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on timers: one, or those of a vector, with the lock of one base
 * held at a time
 *
 * An operation on an id finds the timer without a lock, and mostly it belongs
 * to the base that is locked already. Otherwise the base to which it belongs is
 * locked instead, and looked at again: only a timer that has ended, and was
 * started anew, can be elsewhere then.
 *
 * The functions below are inline as parts of the loops of vectors, or because
 * they begin each call.
 */
#ifndef _HTW_CALLS_H
#define _HTW_CALLS_H

#include "context.h"

/**
 * struct htw_call - operations in progress; on the stack of their task
 * @ctx: the context
 * @base: the base whose lock is held, or NULL
 * @key: &htw_timer.key of timers that are pending there, flags left out
 * @now: the time at which they take place, in ns
 * @units: what may still be done while the lock is held; a simple operation is
 *	one
 * @lookup: for finding timers, as long as @base is locked
 * @freed: timers that have ended
 * @nr_freed: number of those, and of others that cannot be used again
 */
struct htw_call {
	struct htw_context *ctx;
	struct htw_base *base;
	u32 key;
	u64 now;
	int units;
	struct htw_lookup lookup;
	struct list_head freed;
	u32 nr_freed;
};

/* &htw_call.key that matches no timer: none has this state. */
#define HTW_NO_KEY		htw_timer_key(0, U8_MAX, 0)
/* What is done while a base's lock is held: less than 50 us. */
#define HTW_CALL_UNITS		384
/*
 * Timers that are looked at to make way for one that is due at once are as many
 * operations.
 */
#define HTW_CALL_DUE_UNITS	8

long htw_call_add_one(struct htw_context *ctx, struct htw_add __user *arg);
long htw_call_cancel_one(struct htw_context *ctx, struct htw_cancel __user *arg);
long htw_call_mod_one(struct htw_context *ctx, const struct htw_mod __user *arg);
long htw_call_query_one(struct htw_context *ctx, struct htw_query __user *arg);
long htw_call_vector(struct htw_context *ctx, struct htw_vector __user *arg);
void htw_vector_exit(void);

u64 htw_call_choose_tick(struct htw_call *c, const struct htw_timer *t, u64 slack);
bool htw_call_lock_timer(struct htw_call *c, const struct htw_timer *t, u64 id);
void htw_call_mod(struct htw_call *c, struct htw_timer *t, const struct htw_mod *mod);

static __always_inline void htw_call_lock(struct htw_call *c, struct htw_base *base)
{
	c->base = base;
	c->units = HTW_CALL_UNITS;
	c->key = htw_timer_key(base->index, HTW_PENDING, 0);
	htw_base_lock(base, c->now);
	c->lookup = htw_ids_lookup(&c->ctx->ids);
}

/* Drop the lock, after which timers that have ended can be used again. */
static __always_inline void htw_call_unlock(struct htw_call *c)
{
	if (c->nr_freed) {
		htw_ids_return(&c->ctx->ids, &c->freed, c->nr_freed);
		c->nr_freed = 0;
	}
	htw_base_unlock(c->base, c->now);
	c->base = NULL;
	c->key = HTW_NO_KEY;
}

static __always_inline void htw_call_begin(struct htw_call *c, struct htw_context *ctx)
{
	c->ctx = ctx;
	c->base = NULL;
	c->key = HTW_NO_KEY;
	c->nr_freed = 0;
	INIT_LIST_HEAD(&c->freed);
	c->now = htw_clock_now(ctx->clock);
}

/* Has enough been done with the lock held, or does somebody wait for it? */
static inline bool htw_call_should_pause(struct htw_call *c, int units)
{
	c->units -= units;
	return c->units <= 0 || spin_is_contended(&c->base->lock);
}

/* Are a request's flags and fields ones that HTW_ADD takes? */
static inline bool htw_call_add_is_valid(const struct htw_context *ctx, const struct htw_add *add)
{
	if (add->flags & ~(HTW_F_ABS | HTW_F_KEEP) || add->reserved)
		return false;
	return add->interval ? add->interval >= ctx->tick_ns : !add->firings;
}

static inline bool htw_call_mod_is_valid(const struct htw_context *ctx, const struct htw_mod *mod)
{
	if (!htw_arith_mod_is_valid(mod))
		return false;
	return mod->interval ? mod->interval >= ctx->tick_ns : !mod->firings;
}

static inline u64 htw_call_deadline(const struct htw_call *c, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_arith_sum(c->now, deadline);
}

/* Start a reserved timer, which is on no list; its base is locked. */
static __always_inline void htw_call_add(struct htw_call *c, struct htw_timer *t,
					 const struct htw_add *add)
{
	u64 deadline = htw_call_deadline(c, add->deadline, add->flags), tick;
	u8 flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;

	t->deadline = deadline;
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	if (unlikely(add->slack))
		flags |= htw_timer_set_slack(t, add->slack);
	if (likely(!add->slack) && likely(deadline > c->now))
		tick = htw_base_tick_up(c->base, deadline);
	else
		tick = htw_call_choose_tick(c, t, htw_timer_slack(t, flags));
	htw_base_start(c->base, t, tick, flags);
}

/*
 * Is @t the timer of @id, without any of @flags, and pending in the base whose
 * &htw_call.key is @key, that is, in the one that is locked?
 */
static __always_inline bool htw_call_is_at(u32 key, const struct htw_timer *t, u64 id, u8 flags)
{
	/* Pairs with htw_base_start(). */
	return likely((smp_load_acquire(&t->key) & htw_timer_key(U16_MAX, U8_MAX, flags)) == key) &&
	       likely(t->generation == upper_32_bits(id));
}

/* End a timer, whose base is locked. */
static __always_inline void htw_call_cancel(struct htw_call *c, struct htw_timer *t)
{
	if (likely(t->state == HTW_PENDING))
		htw_wheel_stop(&c->base->wheel, &t->node);
	c->nr_freed++;
	if (likely(htw_timer_end(t)))
		__htw_list_add(&t->node.list, &c->freed);
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

	if (flags & ~(HTW_MOD_DEADLINE | HTW_F_ABS) ||
	    unlikely(flags & HTW_F_ABS ? deadline <= now : !deadline))
		return false;
	if (!(flags & HTW_F_ABS))
		deadline = htw_arith_sum(now, deadline);
	t->deadline = deadline;
	tick = htw_base_tick_up(base, deadline);
	htw_wheel_restart(&base->wheel, &t->node, tick);
	htw_base_note_tick(base, tick);
	return true;
}

#endif /* _HTW_CALLS_H */
