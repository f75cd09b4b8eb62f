// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_ADD, HTW_CANCEL, HTW_MOD and HTW_QUERY
 *
 * HTW_ADD writes the id before the timer is started, so an add that fails
 * leaves nothing behind. HTW_CANCEL has taken effect even if its result cannot
 * be written.
 */

#include <linux/uaccess.h>

#include "calls.h"
#include "compat.h"
#include "user.h"

static_assert(sizeof(struct htw_add_args) == 48);
static_assert(sizeof(struct htw_cancel_args) == 40);
static_assert(sizeof(struct htw_mod_args) == 56);
static_assert(sizeof(struct htw_timer_info) == 56);

/* Are a request's flags and fields ones that HTW_ADD takes? */
bool htw_call_add_is_valid(const struct htw_add_args *add)
{
	return !(add->flags & ~(HTW_F_ABS | HTW_F_KEEP)) && (add->interval || !add->firings);
}

/* Set a timer's slack. Return: the flag that says so. */
u32 htw_timer_set_slack(struct htw_timer *t, u64 slack)
{
	t->slack = htw_arith_encode_slack(slack);
	return t->slack ? HTW_TIMER_SLACK : 0;
}

/* A timer's slack, in ns; @flags: of &enum htw_timer_key. */
static u64 htw_timer_slack(const struct htw_timer *t, u32 flags)
{
	return flags & HTW_TIMER_SLACK ? htw_arith_decode_slack(t->slack) : 0;
}

/* ns to the deadline. */
static u64 htw_timer_remaining(const struct htw_timer *t, u64 now)
{
	return t->deadline > now ? t->deadline - now : 0;
}

/* Of a timer that waits for the tick after the present one: has its deadline come? */
static bool htw_call_has_come(const struct htw_node *n, u64 now)
{
	return container_of(n, struct htw_timer, node)->deadline <= now;
}

/*
 * A tick that timers which may be late can share, on a clock that is ahead of
 * the context's by the user's skew: so those of a user meet, and those of
 * different users do not all come at once. The skew is less than an eighth of
 * the slack; the more slack there is, the more of the same bits it has, so that
 * timers with about the same slack have the same one.
 */
static u64 htw_call_tick_within(const struct htw_call *c, u64 deadline, u64 slack)
{
	u64 tick_ns = c->base->tick_ns;
	u64 skew = 0, last, time;

	if (slack < tick_ns || check_add_overflow(deadline, slack, &last))
		return htw_tick_up(deadline, tick_ns);
	if (c->ctx->clock != HTW_MANUAL)
		skew = c->ctx->user->skew & ((BIT_ULL(ilog2(slack)) - 1) / 8);
	time = htw_coalesce(deadline + skew, last) - skew;
	return min(htw_tick_up(time, tick_ns), htw_base_tick(c->base, last));
}

/**
 * htw_call_choose_tick() - the tick of a timer that is due at once, or has
 * slack
 * @c: the call; the base is locked
 * @t: the timer, with its deadline, not in the wheel
 * @flags: of &enum htw_timer_key
 *
 * A timer whose deadline has come does not wait for a tick, and nor do those
 * any more that do, and whose deadlines have come as well. If they are many, it
 * waits with them; but not if its deadline was before this tick, nor on the manual
 * clock, which may not move before it has come.
 *
 * Return: the tick.
 */
u64 htw_call_choose_tick(struct htw_call *c, const struct htw_timer *t, u32 flags)
{
	struct htw_wheel *w = &c->base->wheel;
	unsigned int budget = HTW_BASE_LOOKS;
	bool ahead = false;

	/* Takes as long as another operation. */
	c->units--;
	if (t->deadline > c->now)
		return htw_call_tick_within(c, t->deadline, htw_timer_slack(t, flags));
	/* It need not wait for those of the next tick, which is a later one. */
	if (t->deadline <= c->tick * c->base->tick_ns)
		return c->tick;

	c->units -= HTW_CALL_DUE_UNITS;
	/*
	 * Some that it must not overtake may still be on an upper level, or not
	 * be found. Those are looked for once while the lock is held.
	 */
	if (c->units > 0 &&
	    (w->cursor <= c->tick || (w->levels && c->tick + 1 >= w->settled))) {
		htw_base_catch_up(c->base, c->now, &budget);
		c->units = 0;
	}

	if (htw_wheel_make_due(w, c->tick, htw_call_has_come, c->now, &ahead) ||
	    c->ctx->clock == HTW_MANUAL)
		return c->tick;
	return c->tick + 1;
}

/**
 * htw_call_lock_slot() - lock the base of a timer, instead of the one that is
 * locked
 * @c: the call; a base is locked
 * @t: the timer
 * @id: its id, or its slot alone
 *
 * Return: the timer in that slot, which is live; NULL if none is. A base is
 * locked all the same.
 */
struct htw_timer *htw_call_lock_slot(struct htw_call *c, struct htw_timer *t, u64 id)
{
	/* Pairs with htw_pages_add(): a base is made before its pages. */
	u32 key = smp_load_acquire(&t->key);
	struct htw_base *base;

	/* One that is about to be started has an id that nobody may use yet. */
	if (!(key & HTW_TIMER_LIVE))
		return NULL;
	base = htw_context_base_of(c->ctx, key / HTW_TIMER_BASE);
	if (base != c->base) {
		htw_call_unlock(c);
		htw_call_lock(c, base);
		c->relocked = true;
		t = htw_call_look_up(c, id);
	}
	/* If its page was given back meanwhile, the slot may be another base's. */
	return htw_base_has(base, t) ? t : NULL;
}

/* htw_call_lock_slot() for the timer of an id. */
struct htw_timer *htw_call_lock_timer(struct htw_call *c, struct htw_timer *t, u64 id)
{
	t = htw_call_lock_slot(c, t, id);
	return t && t->generation == upper_32_bits(id) ? t : NULL;
}

/* Change a timer, whose base is locked, in any state. */
void htw_call_mod(struct htw_call *c, struct htw_timer *t, const struct htw_mod_args *mod)
{
	u32 flags = t->key & HTW_TIMER_FLAGS;

	if (mod->flags & HTW_MOD_INTERVAL) {
		t->interval = htw_call_interval(c, mod->interval);
		t->firings = mod->firings;
		flags = (flags & ~HTW_TIMER_PERIODIC) | (t->interval ? HTW_TIMER_PERIODIC : 0);
	}
	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		flags = (flags & ~HTW_TIMER_SLACK) | htw_timer_set_slack(t, mod->slack);
	if (!(mod->flags & HTW_MOD_DEADLINE)) {
		WRITE_ONCE(t->key, (t->key & ~HTW_TIMER_FLAGS) | flags);
		return;
	}

	if (t->key & HTW_TIMER_PENDING)
		htw_wheel_stop(&c->base->wheel, &t->node);
	else
		c->base->nr_idle--;
	t->deadline = htw_call_deadline(c, mod->deadline, mod->flags);
	htw_base_start(c->base, t, htw_call_choose_tick(c, t, flags), flags);
}

/* HTW_ADD; @gfp: %HTW_GFP, or with %HTW_GFP_NOWAIT also -EAGAIN. */
long htw_call_add_one(struct htw_context *ctx, struct htw_add_args __user *arg, gfp_t gfp)
{
	struct htw_call c __uninitialized;
	struct htw_base *base;
	struct htw_add_args add __uninitialized;
	struct htw_timer *t __uninitialized;
	u64 id __uninitialized;
	void *levels;
	int ret;

	if (!user_access_begin(arg, sizeof(*arg)))
		return -EFAULT;
	unsafe_get_user(add.deadline, &arg->deadline, fault);
	unsafe_get_user(add.interval, &arg->interval, fault);
	unsafe_get_user(add.slack, &arg->slack, fault);
	unsafe_get_user(add.cookie, &arg->cookie, fault);
	unsafe_get_user(add.flags, &arg->flags, fault);
	unsafe_get_user(add.firings, &arg->firings, fault);
	user_access_end();
	if (!htw_call_add_is_valid(&add))
		return -EINVAL;
	base = htw_bases_get(ctx, gfp);
	if (IS_ERR(base))
		return PTR_ERR(base);
	/* With a base the clock is final. */
	if (add.flags & HTW_F_ABS)
		add.deadline = htw_clock_from_user(add.deadline, htw_clock_offset(ctx->clock));
	t = htw_ids_take_one(base, &id);
	if (unlikely(!t)) {
		ret = htw_pages_take(&base, &t, 1, &id, gfp);
		if (ret < 0)
			return ret;
	}

	/*
	 * The program may use the id from here on: it is -ENOENT until the
	 * timer is started.
	 */
	if (put_user(id, &arg->id)) {
		/* Another thread may have seen it. */
		htw_ids_give_up(base, t);
		htw_pages_shrink(ctx, 1);
		return -EFAULT;
	}

	levels = htw_base_alloc_levels(base, 1, gfp);
	htw_call_begin(&c, ctx, base);
	if (levels)
		htw_base_add_levels(base, &levels);

	htw_call_add(&c, t, &add);
	trace_htw_add(ctx, t);
	htw_call_unlock(&c);
	if (levels)
		htw_base_free_levels(base, levels);
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/* A timer as it is, for the calling process; its base is locked. */
void htw_call_report(const struct htw_call *c, const struct htw_timer *t,
		     struct htw_timer_info *info)
{
	u32 state = htw_call_state(c, t);

	*info = (struct htw_timer_info){
		.id = htw_ids_number(&c->ctx->ids, t),
		.deadline = htw_clock_to_user(t->deadline, htw_clock_offset(c->ctx->clock)),
		.remaining = state == HTW_STATE_DISARMED ? 0 : htw_timer_remaining(t, c->now),
		.interval = t->interval,
		.cookie = t->cookie,
		.missed = state == HTW_STATE_DUE ? htw_timer_missed(t, c->now) : 0,
		.firings = t->firings,
		.state = state,
		.flags = t->key & HTW_TIMER_KEEP ? HTW_F_KEEP : 0,
	};
}

/* Find a timer and lock its base. Return: NULL, and no lock is held, if there is none. */
static __always_inline struct htw_timer *htw_call_find(struct htw_call *c, struct htw_context *ctx,
						       u64 id)
{
	struct htw_base *base = htw_context_guess(ctx);
	struct htw_timer *t;

	if (!base)
		return NULL;
	htw_call_begin(c, ctx, base);
	t = htw_call_look_up(c, id);
	if (htw_call_is_at(c, t, id, 0))
		return t;
	t = htw_call_lock_timer(c, t, id);
	if (!t)
		htw_call_unlock(c);
	return t;
}

/* HTW_CANCEL */
long htw_call_cancel_one(struct htw_context *ctx, struct htw_cancel_args __user *arg)
{
	struct htw_call c __uninitialized;
	u64 id, remaining, cookie, missed;
	struct htw_timer *t;
	u32 flags, state;

	if (!user_access_begin(arg, sizeof(*arg)))
		return -EFAULT;
	unsafe_get_user(id, &arg->id, fault);
	unsafe_get_user(flags, &arg->flags, fault);
	user_access_end();
	if (flags)
		return -EINVAL;

	t = htw_call_find(&c, ctx, id);
	if (trace_htw_cancel_enabled())
		trace_htw_cancel(ctx, id, t ? 0 : -ENOENT);
	if (!t)
		return -ENOENT;
	cookie = t->cookie;
	state = htw_call_state(&c, t);
	remaining = state == HTW_STATE_DISARMED ? 0 : htw_timer_remaining(t, c.now);
	missed = state == HTW_STATE_DUE ? htw_timer_missed(t, c.now) : 0;
	htw_call_cancel(&c, t);
	htw_call_unlock(&c);
	htw_pages_shrink(ctx, 1);
	if (!user_access_begin(arg, sizeof(*arg)))
		return -EFAULT;
	unsafe_put_user(remaining, &arg->remaining, fault);
	unsafe_put_user(cookie, &arg->cookie, fault);
	unsafe_put_user(missed, &arg->missed, fault);
	unsafe_put_user(state, &arg->state, fault);
	user_access_end();
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/* HTW_MOD */
long htw_call_mod_one(struct htw_context *ctx, struct htw_mod_args __user *arg)
{
	struct htw_mod_args mod __uninitialized;
	struct htw_call c __uninitialized;
	struct htw_timer *t;
	u32 state;

	if (!user_access_begin(arg, sizeof(*arg)))
		return -EFAULT;
	unsafe_get_user(mod.id, &arg->id, fault);
	unsafe_get_user(mod.deadline, &arg->deadline, fault);
	unsafe_get_user(mod.interval, &arg->interval, fault);
	unsafe_get_user(mod.slack, &arg->slack, fault);
	unsafe_get_user(mod.cookie, &arg->cookie, fault);
	unsafe_get_user(mod.flags, &arg->flags, fault);
	unsafe_get_user(mod.firings, &arg->firings, fault);
	unsafe_get_user(mod.reserved, &arg->reserved, fault);
	user_access_end();
	if (!htw_arith_mod_is_valid(&mod))
		return -EINVAL;
	if (mod.flags & HTW_F_ABS)
		mod.deadline = htw_clock_from_user(mod.deadline, htw_clock_offset(ctx->clock));
	t = htw_call_find(&c, ctx, mod.id);
	if (!t)
		return -ENOENT;
	state = htw_call_state(&c, t);
	if (!htw_call_is_at(&c, t, mod.id, HTW_TIMER_SLACK) ||
	    !htw_call_move(c.base, t, c.now, mod.deadline, mod.flags))
		htw_call_mod(&c, t, &mod);
	trace_htw_mod(ctx, t);
	htw_call_unlock(&c);
	return put_user(state, &arg->state) ? -EFAULT : 0;

fault:
	user_access_end();
	return -EFAULT;
}

/* HTW_QUERY */
long htw_call_query_one(struct htw_context *ctx, struct htw_timer_info __user *arg)
{
	struct htw_timer_info info;
	struct htw_timer *t;
	struct htw_call c;
	u64 id;

	if (get_user(id, &arg->id))
		return -EFAULT;
	t = htw_call_find(&c, ctx, id);
	if (!t)
		return -ENOENT;
	htw_call_report(&c, t, &info);
	htw_call_unlock(&c);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}
