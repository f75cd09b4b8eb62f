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

static_assert(sizeof(struct htw_add) == 56);
static_assert(sizeof(struct htw_cancel) == 56);
static_assert(sizeof(struct htw_mod) == 56);
static_assert(sizeof(struct htw_query) == 56);

/*
 * Has the deadline of a timer come, which waits for the tick after the present
 * one?
 */
static bool htw_call_has_come(const struct htw_node *n, u64 now)
{
	return container_of(n, struct htw_timer, node)->deadline <= now;
}

/**
 * htw_call_choose_tick() - the tick of a timer that is due at once, or has
 * slack
 * @c: the call; the base is locked
 * @t: the timer, with its deadline, not in the wheel
 * @slack: how much later it may expire, in ns
 *
 * A timer whose deadline has come does not wait for a tick, and nor do those
 * any more that do, and whose deadlines have come as well: it does not overtake
 * them.
 */
u64 htw_call_choose_tick(struct htw_call *c, const struct htw_timer *t, u64 slack)
{
	const u64 tick = htw_base_tick(c->base, c->now);
	bool ahead = false;

	if (t->deadline > c->now)
		return htw_tick_within(t->deadline, slack, c->base->tick_ns);
	c->units -= HTW_CALL_DUE_UNITS;
	if (htw_wheel_make_due(&c->base->wheel, tick, htw_call_has_come, c->now, &ahead))
		return tick;
	return tick + 1;
}

/*
 * Lock the base of an id's timer, instead of the one that is locked, if one is.
 *
 * Return: false if there is no such timer; a base may be locked all the same.
 */
bool htw_call_lock_timer(struct htw_call *c, const struct htw_timer *t, u64 id)
{
	for (;;) {
		/* Pairs with htw_base_start(): the base has been made. */
		const u32 key = smp_load_acquire(&t->key);
		struct htw_base *base;
		u8 state = htw_key_state(key);

		/*
		 * It may be about to be started: then its id is not known to
		 * anybody who may use it.
		 */
		if (state != HTW_PENDING && state != HTW_IDLE)
			return false;
		base = htw_context_base_of(c->ctx, htw_key_base(key));
		if (WARN_ON_ONCE(!base))
			return false;
		if (base != c->base) {
			if (c->base)
				htw_call_unlock(c);
			htw_call_lock(c, base);
		}
		/* If it is of this base now, the lock guards it. */
		state = READ_ONCE(t->state);
		if (READ_ONCE(t->base) != base->index)
			continue;
		return (state == HTW_PENDING || state == HTW_IDLE) &&
		       t->generation == upper_32_bits(id);
	}
}

/* Change a timer, whose base is locked, in any state. */
void htw_call_mod(struct htw_call *c, struct htw_timer *t, const struct htw_mod *mod)
{
	if (mod->flags & HTW_MOD_INTERVAL) {
		t->interval = mod->interval;
		t->firings = mod->firings;
	}
	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		t->flags = (t->flags & ~HTW_TIMER_SLACK) | htw_timer_set_slack(t, mod->slack);
	if (!(mod->flags & HTW_MOD_DEADLINE))
		return;

	if (t->state == HTW_PENDING)
		htw_wheel_stop(&c->base->wheel, &t->node);
	t->deadline = htw_call_deadline(c, mod->deadline, mod->flags);
	htw_base_start(c->base, t, htw_call_choose_tick(c, t, htw_timer_slack(t, t->flags)),
		       t->flags);
}

/*
 * Read an add that has only a deadline and a cookie, as most do; false if it
 * has more or cannot be read. Costs less than copy_from_user().
 */
static bool htw_call_get_simple_add(struct htw_add *add, const struct htw_add __user *arg)
{
	u64 interval, slack, reserved;
	u32 flags, firings;

	if (!user_access_begin(arg, sizeof(*arg)))
		return false;
	unsafe_get_user(add->deadline, &arg->deadline, fault);
	unsafe_get_user(interval, &arg->interval, fault);
	unsafe_get_user(slack, &arg->slack, fault);
	unsafe_get_user(add->cookie, &arg->cookie, fault);
	unsafe_get_user(flags, &arg->flags, fault);
	unsafe_get_user(firings, &arg->firings, fault);
	unsafe_get_user(reserved, &arg->reserved, fault);
	user_access_end();
	add->flags = flags & HTW_F_ABS;
	return !(interval | slack | reserved | firings | (flags & ~HTW_F_ABS));

fault:
	user_access_end();
	return false;
}

/* HTW_ADD */
long htw_call_add_one(struct htw_context *ctx, struct htw_add __user *arg)
{
	struct htw_call c __uninitialized;
	struct htw_base *base;
	struct htw_add add = {};
	struct htw_timer *t;
	LIST_HEAD(reserved);
	void *levels;
	u64 id;
	int ret;

	if (!htw_call_get_simple_add(&add, arg)) {
		if (copy_from_user(&add, arg, sizeof(add)))
			return -EFAULT;
		if (!htw_call_add_is_valid(ctx, &add))
			return -EINVAL;
	}
	base = htw_context_base(ctx);
	if (!base)
		return -ENOMEM;
	t = htw_ids_reserve_one(&ctx->ids, &id);
	if (unlikely(!t)) {
		ret = htw_ids_reserve(ctx, &reserved, 1, &id);
		if (ret < 0)
			return ret;
		t = htw_timer_pop(&reserved);
	}
	/*
	 * The program may use the id from here on: it is -ENOENT until the
	 * timer is started.
	 */
	if (put_user(id, &arg->id)) {
		/* Another thread may have seen it. */
		if (htw_timer_end(t))
			list_add(&t->node.list, &reserved);
		htw_ids_return(&ctx->ids, &reserved, 1);
		return -EFAULT;
	}
	levels = htw_base_alloc_levels(base, 1);
	htw_call_begin(&c, ctx);
	htw_call_lock(&c, base);
	if (unlikely(levels))
		htw_base_add_levels(base, &levels);
	htw_call_add(&c, t, &add);
	htw_call_unlock(&c);
	if (unlikely(levels))
		htw_base_free_levels(base, levels);
	return 0;
}

/*
 * Find a timer and lock its base. Return: NULL if there is none; a base is
 * locked all the same, if there is one.
 */
static __always_inline struct htw_timer *htw_call_find(struct htw_call *c, struct htw_context *ctx,
						       u64 id)
{
	struct htw_base *base = htw_context_guess(ctx);
	struct htw_timer *t;

	if (unlikely(!base))
		return NULL;
	htw_call_begin(c, ctx);
	htw_call_lock(c, base);
	t = htw_lookup_find(&c->lookup, id);
	if (htw_call_is_at(c->key, t, id, 0) || htw_call_lock_timer(c, t, id))
		return t;
	htw_call_unlock(c);
	return NULL;
}

/* HTW_CANCEL */
long htw_call_cancel_one(struct htw_context *ctx, struct htw_cancel __user *arg)
{
	struct htw_call c __uninitialized;
	u64 id, r0, r1, remaining = 0, cookie, missed = 0;
	struct htw_timer *t;
	u32 flags, tail;

	if (!user_access_begin(arg, sizeof(*arg)))
		return -EFAULT;
	unsafe_get_user(id, &arg->id, fault);
	unsafe_get_user(flags, &arg->flags, fault);
	unsafe_get_user(tail, &arg->ring_tail, fault);
	unsafe_get_user(r0, &arg->reserved[0], fault);
	unsafe_get_user(r1, &arg->reserved[1], fault);
	user_access_end();
	if ((flags & ~HTW_CANCEL_DISCARD) | tail | r0 | r1)
		return -EINVAL;

	t = htw_call_find(&c, ctx, id);
	if (!t)
		return -ENOENT;
	cookie = t->cookie;
	if (likely(t->state == HTW_PENDING)) {
		remaining = htw_timer_remaining(t, c.now);
		missed = htw_timer_missed(t, c.now);
		htw_wheel_stop(&c.base->wheel, &t->node);
	}
	if (likely(htw_timer_end(t)))
		htw_ids_return_one(&ctx->ids, t);
	else
		c.nr_freed++;
	htw_call_unlock(&c);
	if (!user_access_begin(arg, sizeof(*arg)))
		return -EFAULT;
	unsafe_put_user(remaining, &arg->remaining, fault);
	unsafe_put_user(cookie, &arg->cookie, fault);
	unsafe_put_user(missed, &arg->missed, fault);
	user_access_end();
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/* HTW_MOD */
long htw_call_mod_one(struct htw_context *ctx, const struct htw_mod __user *arg)
{
	struct htw_mod mod __uninitialized;
	struct htw_call c __uninitialized;
	struct htw_timer *t;

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
	if (!htw_call_mod_is_valid(ctx, &mod))
		return -EINVAL;
	t = htw_call_find(&c, ctx, mod.id);
	if (!t)
		return -ENOENT;
	if (!htw_call_is_at(c.key, t, mod.id, HTW_TIMER_SLACK) ||
	    !htw_call_move(c.base, t, c.now, mod.deadline, mod.flags))
		htw_call_mod(&c, t, &mod);
	htw_call_unlock(&c);
	return 0;

fault:
	user_access_end();
	return -EFAULT;
}

/* HTW_QUERY */
long htw_call_query_one(struct htw_context *ctx, struct htw_query __user *arg)
{
	struct htw_query query;
	struct htw_timer *t;
	struct htw_call c;
	bool pending;

	if (copy_from_user(&query, arg, sizeof(query)))
		return -EFAULT;
	if (query.deadline | query.remaining | query.interval | query.cookie | query.missed |
	    query.firings | query.state | query.flags)
		return -EINVAL;
	t = htw_call_find(&c, ctx, query.id);
	if (!t)
		return -ENOENT;
	pending = t->state == HTW_PENDING;
	query = (struct htw_query){
		.id = query.id,
		.deadline = t->deadline,
		.remaining = pending ? htw_timer_remaining(t, c.now) : 0,
		.interval = t->interval,
		.cookie = t->cookie,
		.missed = pending ? htw_timer_missed(t, c.now) : 0,
		.firings = t->firings,
		.state = !pending		 ? HTW_STATE_DISARMED :
			 t->deadline <= c.now	 ? HTW_STATE_EXPIRED : HTW_STATE_PENDING,
		.flags = t->flags & HTW_TIMER_KEEP ? HTW_F_KEEP : 0,
	};
	htw_call_unlock(&c);
	return copy_to_user(arg, &query, sizeof(query)) ? -EFAULT : 0;
}
