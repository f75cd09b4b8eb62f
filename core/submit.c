// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on timers, in runs: on timers that are not simply pending; see
 * submit.h
 */

#include "submit.h"

/* Timers of the present tick that are looked at for those that are due before its end. */
#define HTW_SUBMIT_LOOKS		32

/**
 * htw_submit_switch() - takes the lock of a base instead of the one that is held
 * @s: the run
 * @base: the base
 */
void htw_submit_switch(struct htw_submit *s, struct htw_base *base)
{
	htw_unlock(&s->base->lock);
	htw_submit_take_lock(s, base, true);
}

/**
 * htw_submit_begin() - begins a run of operations
 * @s: the run
 * @ctx: the context that it is on
 *
 * Context: process. Bottom halves are off until htw_submit_end(), so a run is
 * short: some hundred operations at most.
 */
void htw_submit_begin(struct htw_submit *s, struct htw_context *ctx)
{
	__htw_submit_begin(s, ctx, likely(htw_context_is_settled(ctx)), true);
}

/**
 * htw_submit_begin_adds() - begins a run for which timers have been reserved
 * @s: the run
 * @ctx: the context that it is on
 *
 * Context: as htw_submit_begin().
 */
void htw_submit_begin_adds(struct htw_submit *s, struct htw_context *ctx)
{
	/*
	 * HTW_SETUP looks under the lock, and only if no timer is reserved: what
	 * it did before is seen here. Pairs with htw_context_is_settled().
	 */
	smp_store_release(&ctx->used, true);
	__htw_submit_begin(s, ctx, true, true);
}

/**
 * htw_submit_create_base() - makes the base on which a run's timers are to be started
 * @s: the run, which begins, with bottom halves off and no lock held
 *
 * Memory cannot be had with bottom halves off. They are on meanwhile, so this may
 * come to run on another CPU, where there is none either: then any base will do.
 */
void htw_submit_create_base(struct htw_submit *s)
{
	struct htw_base *made;

	local_bh_enable();
	made = htw_context_create_base(s->ctx);
	local_bh_disable();
	s->target = htw_context_base(s->ctx) ?: made;
}

/**
 * htw_submit_return_freed() - gives back the timers that a run freed
 * @s: the run, at its end
 */
void htw_submit_return_freed(struct htw_submit *s)
{
	struct htw_context *ctx = s->ctx;

	spin_lock(&ctx->lock);
	list_splice(&s->freed, htw_slots_free_list(ctx));
	htw_slots_count_freed(ctx, s->nr_freed);
	spin_unlock(&ctx->lock);
	htw_user_uncharge(ctx->user, s->nr_freed);
}

/**
 * htw_submit_lock_timer() - locks what guards a timer now
 * @s: the run
 * @t: one of its timers, which has been armed before
 *
 * Return: the timer's state, which stays until htw_submit_unlock_timer(), but for
 * %HTW_RESERVED. The lock of @s->base is held: where the state is
 * %HTW_PENDING it is the timer's; where not, the context's lock is held as well.
 */
enum htw_timer_state htw_submit_lock_timer(struct htw_submit *s, const struct htw_timer *t)
{
	enum htw_timer_state state;

	for (;;) {
		htw_submit_lock(s, htw_context_base_of(s->ctx, t));
		if (htw_timer_pending_on(s->base, t))
			return HTW_PENDING;
		htw_lock(&s->ctx->lock);
		state = READ_ONCE(t->node.state);
		if (state != HTW_PENDING)
			return state;
		htw_unlock(&s->ctx->lock);		/* just armed, on another CPU */
	}
}

/**
 * htw_submit_unlock_timer() - ends what htw_submit_lock_timer() began
 * @s: the run
 * @state: what it returned
 *
 * The lock of the run's base stays, for the next operation.
 */
void htw_submit_unlock_timer(struct htw_submit *s, enum htw_timer_state state)
{
	if (state != HTW_PENDING)
		htw_unlock(&s->ctx->lock);
}

/* Has the deadline of a timer come, whosever context it is of? */
static bool htw_node_has_come(const struct htw_node *n, u64 now)
{
	const struct htw_timer *t = container_of(n, struct htw_timer, node);

	return htw_context_to_host(htw_timer_page(t)->ctx, t->deadline) <= now;
}

/*
 * A timer that is due when it is armed does not wait for the end of the tick. Others whose
 * deadlines came within the tick do; as they were armed before, they now go before it. Where
 * they are too many to look for, it waits as they do if the last one is among them: so timers
 * of one deadline that are armed one after the other stay in order.
 *
 * The manual clock stands within a tick for long, and there nothing but HTW_ADVANCE expires
 * what was pending.
 *
 * Return: the time as of which it may be armed, for htw_base_start().
 */
static u64 htw_submit_due_time(struct htw_submit *s, const struct htw_timer *t)
{
	const u64 now = htw_context_to_host(s->ctx, s->now);
	struct htw_wheel *wheel = &s->base->wheel;
	struct list_head *bucket = htw_wheel_at_cursor(wheel);
	unsigned int looks = HTW_SUBMIT_LOOKS;
	struct htw_node *n, *next;
	bool ahead = false;

	lockdep_assert_held(&s->base->lock);

	if (likely(t->deadline > s->now) || s->base->clock == HTW_BASE_MANUAL ||
	    !bucket || wheel->cursor != htw_tick(s->base, now) + 1)
		return now;
	list_for_each_entry_safe(n, next, bucket, list) {
		if (!looks--)
			break;
		if (htw_node_has_come(n, now))
			ahead |= htw_wheel_make_due(wheel, n);
	}
	if (ahead)
		htw_base_wake(s->base);
	if (&n->list == bucket)
		return now;
	n = list_last_entry(bucket, struct htw_node, list);
	return n != &t->node && htw_node_has_come(n, now) ? 0 : now;
}

/**
 * htw_submit_arm() - puts a timer into the wheel of the base whose lock is held
 * @s: the run
 * @t: the timer, on no list
 */
void htw_submit_arm(struct htw_submit *s, struct htw_timer *t)
{
	const u64 now = htw_submit_due_time(s, t);

	htw_timer_start(s->base, t,
			htw_base_tick(s->base, htw_context_to_host(s->ctx, t->deadline),
				      htw_timer_slack(t), now));
}

static bool htw_timer_exists(const struct htw_timer *t, enum htw_timer_state state, u64 id)
{
	return state != HTW_FREE && state != HTW_RESERVED && htw_timer_matches(t, id);
}

static int htw_submit_cancel_locked(struct htw_submit *s, struct htw_timer *t,
				    enum htw_timer_state state, struct htw_cancel *cancel)
{
	if (!htw_timer_exists(t, state, cancel->id))
		return -ENOENT;
	cancel->cookie = t->cookie;
	cancel->remaining = 0;
	cancel->missed = 0;
	switch (state) {
	case HTW_PENDING:
		cancel->remaining = htw_timer_remaining(t, htw_context_override(s->ctx, t),
							s->now);
		htw_base_stop(s->base, &t->node);
		break;
	case HTW_REARM:
		cancel->remaining = htw_timer_remaining(t, htw_context_override(s->ctx, t),
							s->now);
		list_del(&t->node.list);
		break;
	case HTW_EXPIRED:
		cancel->missed = htw_timer_missed(t, s->now);
		if (cancel->flags & HTW_CANCEL_DISCARD) {
			list_del(&t->node.list);
			s->ctx->nr_expired--;
			htw_submit_free(s, t);
		} else {
			t->interval = cancel->missed;
			t->node.flags &= ~HTW_TIMER_KEEP;
			t->node.flags |= HTW_TIMER_STOPPED;
		}
		return -EALREADY;
	default:
		break;
	}
	htw_submit_free(s, t);
	return 0;
}

/**
 * htw_submit_cancel_slow() - htw_submit_cancel() for a timer in whatever state
 * @s: the run
 * @t: the timer of the id's slot
 * @cancel: as for htw_submit_cancel()
 *
 * Return: as &struct htw_cancel tells.
 */
int htw_submit_cancel_slow(struct htw_submit *s, struct htw_timer *t, struct htw_cancel *cancel)
{
	enum htw_timer_state state;
	int ret;

	if (!htw_timer_is_live(t))
		return -ENOENT;
	state = htw_submit_lock_timer(s, t);
	ret = htw_submit_cancel_locked(s, t, state, cancel);
	htw_submit_unlock_timer(s, state);
	return ret;
}

/*
 * Arms a timer that is on no list, where timers are to be started. The context's lock
 * is held; it is dropped.
 */
static void htw_submit_arm_on_target(struct htw_submit *s, struct htw_timer *t)
{
	struct htw_context *ctx = s->ctx;
	const u32 generation = t->generation;

	lockdep_assert_held(&ctx->lock);

	if (likely(s->base == s->target)) {
		htw_submit_arm(s, t);
		htw_unlock(&ctx->lock);
		return;
	}
	/* A base's lock comes first, so meanwhile others may arm it, move it or end it. */
	WRITE_ONCE(t->node.state, HTW_REARM);
	list_add_tail(&t->node.list, &ctx->rearm);
	htw_unlock(&ctx->lock);
	htw_submit_lock_target(s);
	htw_lock(&ctx->lock);
	if (t->node.state == HTW_REARM && t->generation == generation) {
		list_del(&t->node.list);
		htw_submit_arm(s, t);
	}
	htw_unlock(&ctx->lock);
}

/*
 * Arms a timer for its new deadline, whatever state it is in: it is locked by
 * htw_submit_lock_timer(), and unlocked here.
 */
static void htw_submit_move(struct htw_submit *s, struct htw_timer *t, enum htw_timer_state state)
{
	struct htw_context *ctx = s->ctx;
	u64 now, tick;

	if (state == HTW_PENDING) {
		now = htw_submit_due_time(s, t);
		htw_base_stop(s->base, &t->node);
		tick = htw_base_tick(s->base, htw_context_to_host(ctx, t->deadline),
				     htw_timer_slack(t), now);
		if (!htw_base_is_remote(s->base, tick)) {
			htw_timer_start(s->base, t, tick);
			return;
		}
		htw_lock(&ctx->lock);
	} else if (state != HTW_IDLE) {
		list_del(&t->node.list);
		if (state == HTW_EXPIRED)
			ctx->nr_expired--;
	}
	htw_submit_arm_on_target(s, t);
}

/* Changes a timer, but does not arm it yet. */
static int htw_submit_mod_locked(struct htw_submit *s, struct htw_timer *t,
				 enum htw_timer_state state, const struct htw_mod *mod)
{
	/* One that was cancelled is over, though its last expiration waits. */
	if (!htw_timer_exists(t, state, mod->id) || t->node.flags & HTW_TIMER_STOPPED)
		return -ENOENT;
	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		htw_timer_set_slack(t, mod->slack);
	if (mod->flags & HTW_MOD_INTERVAL) {
		t->interval = mod->interval;
		t->firings = mod->firings;
	}
	if (mod->flags & HTW_MOD_DEADLINE) {
		if (unlikely(t->node.flags & HTW_TIMER_CANCEL_ON_SET))
			s->now = htw_clock_sets_stamp(s->ctx, t);
		t->deadline = htw_submit_deadline(s, mod->deadline, mod->flags);
		htw_context_clear_override(s->ctx, t);
	}
	trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

/**
 * htw_submit_mod_slow() - htw_submit_mod() for a timer in whatever state
 * @s: the run
 * @t: the timer of the id's slot
 * @mod: as for htw_submit_mod()
 *
 * Return: 0 or -ENOENT.
 */
int htw_submit_mod_slow(struct htw_submit *s, struct htw_timer *t, const struct htw_mod *mod)
{
	enum htw_timer_state state;
	int ret;

	if (!htw_timer_is_live(t))
		return -ENOENT;
	state = htw_submit_lock_timer(s, t);
	ret = htw_submit_mod_locked(s, t, state, mod);
	if (!ret && mod->flags & HTW_MOD_DEADLINE)
		htw_submit_move(s, t, state);
	else
		htw_submit_unlock_timer(s, state);
	return ret;
}

/**
 * htw_submit_query() - tells about a timer
 * @s: the run
 * @query: the id; the rest is filled in
 *
 * Return: 0 or -ENOENT.
 */
int htw_submit_query(struct htw_submit *s, struct htw_query *query)
{
	struct htw_timer *t = htw_submit_find(s, query->id);
	enum htw_timer_state state;
	int ret = -ENOENT;

	if (!htw_timer_is_live(t))
		return -ENOENT;
	state = htw_submit_lock_timer(s, t);
	if (htw_timer_exists(t, state, query->id)) {
		htw_timer_fill_query(t, state, htw_context_override(s->ctx, t), s->now, query);
		ret = 0;
	}
	htw_submit_unlock_timer(s, state);
	return ret;
}
