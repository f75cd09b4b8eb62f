// SPDX-License-Identifier: GPL-2.0-only
/*
 * Submissions: what begins and ends them, and operations on timers that are not simply pending
 * on the base that is locked; see submit.h
 */

#include "submit.h"

/**
 * htw_submit_begin() - begin a submission
 * @s: the submission
 * @ctx: the context
 *
 * Context: process. Bottom halves are off until htw_submit_end(), so a submission is at most a
 * few hundred operations.
 */
void htw_submit_begin(struct htw_submit *s, struct htw_context *ctx)
{
	__htw_submit_begin(s, ctx, likely(htw_context_is_settled(ctx)), true);
}

/**
 * htw_submit_begin_adds() - begin a submission for which timers have been reserved
 * @s: the submission
 * @ctx: the context
 *
 * Context: as htw_submit_begin().
 */
void htw_submit_begin_adds(struct htw_submit *s, struct htw_context *ctx)
{
	/*
	 * HTW_SETUP changes nothing once a timer is reserved, which it checks under @ctx->lock;
	 * what it changed before is visible here. Pairs with htw_context_is_settled().
	 */
	smp_store_release(&ctx->used, true);
	__htw_submit_begin(s, ctx, true, true);
}

/*
 * Make the base on which a beginning submission starts timers; no lock is held. Bottom halves
 * are on while memory is allocated, so the task may migrate to a CPU that has no base either;
 * then use the one that was made.
 */
void htw_submit_create_base(struct htw_submit *s)
{
	struct htw_base *made;

	local_bh_enable();
	made = htw_context_create_base(s->ctx);
	local_bh_disable();
	s->target = htw_context_base(s->ctx) ?: made;
}

/* Return the timers that a submission freed, at its end. */
void htw_submit_return_freed(struct htw_submit *s)
{
	struct htw_context *ctx = s->ctx;

	spin_lock(&ctx->lock);
	list_splice(&s->freed, htw_slots_free_list(ctx));
	htw_shrink_timers_freed(ctx, s->nr_freed);
	spin_unlock(&ctx->lock);
	htw_user_uncharge(ctx->user, s->nr_freed);
}

/**
 * htw_submit_limit() - how many operations one submission may hold
 * @ctx: the context
 * @most: upper bound
 *
 * A batch must have the same effect as its operations one by one. On a manual clock a timer
 * that is due has expired when the call that armed it returns, so the next operation must find
 * it expired: each operation is a separate submission.
 */
u32 htw_submit_limit(const struct htw_context *ctx, u32 most)
{
	return unlikely(htw_context_is_manual(ctx)) ? 1 : most;
}

/*
 * Mark a timer as armed at the present setting of the clock. That may be earlier than when the
 * submission began, so check the wheel again, too.
 */
void htw_submit_stamp(struct htw_submit *s, struct htw_timer *t)
{
	s->now = htw_clock_sets_stamp(s->ctx, t);
	htw_submit_touch_base(s);
}

/* Drop the base's lock that is held and lock @base, which may be the same one. */
void htw_submit_switch_base(struct htw_submit *s, struct htw_base *base)
{
	htw_unlock(&s->base->lock);
	htw_submit_enter_base(s, base, true);
}

/**
 * htw_submit_lock_timer() - take the locks that guard a timer
 * @s: the submission
 * @t: one of its timers, which has been armed before
 *
 * The lock of @s->base is held on return. It guards a timer that is %HTW_PENDING; in any other
 * state the context's lock is held as well.
 *
 * Return: the timer's state, which does not change before htw_submit_unlock_timer(), unless it
 * is %HTW_RESERVED.
 */
enum htw_timer_state htw_submit_lock_timer(struct htw_submit *s, const struct htw_timer *t)
{
	enum htw_timer_state state;

	for (;;) {
		htw_submit_lock_base(s, htw_context_base_of(s->ctx, t));
		if (htw_timer_pending_on(s->base, t))
			return HTW_PENDING;
		htw_lock(&s->ctx->lock);
		state = READ_ONCE(t->node.state);
		if (state != HTW_PENDING)
			return state;
		htw_unlock(&s->ctx->lock);	/* it has just been armed on another CPU */
	}
}

/* Undo htw_submit_lock_timer(), which returned @state. The base stays locked. */
void htw_submit_unlock_timer(struct htw_submit *s, enum htw_timer_state state)
{
	if (state != HTW_PENDING)
		htw_unlock(&s->ctx->lock);
}

/* Is a timer due, whichever context it belongs to? */
static bool htw_node_is_due(const struct htw_node *n, u64 now)
{
	const struct htw_timer *t = container_of(n, struct htw_timer, node);

	return htw_context_to_host(htw_timer_page(t)->ctx, t->deadline) <= now;
}

/*
 * Deliver timers that wait for the end of the present tick, but are due @now, a host's time, ahead
 * of one that is to be armed and is due, too. Return: false if it has to wait for the tick like
 * them, to stay in order.
 */
static bool htw_submit_make_due(struct htw_submit *s, u64 now)
{
	struct htw_base *base = s->base;
	bool ahead = false, all;

	lockdep_assert_held(&base->lock);

	htw_base_note_due(base, now);
	all = htw_wheel_make_due(&base->wheel, htw_tick(base, now), htw_node_is_due, now, &ahead);
	if (ahead)
		htw_base_wake(base);
	return all;
}

/*
 * Choose the tick of a timer on the base that is locked. A timer that is due when it is armed is
 * delivered at once, not at the end of the tick. If it would overtake timers with earlier
 * deadlines in the tick, it waits like them, and without slack.
 *
 * On a manual clock only HTW_ADVANCE expires pending timers, so they go on waiting.
 */
static u64 htw_submit_choose_tick(struct htw_submit *s, const struct htw_timer *t)
{
	const u64 deadline = htw_context_to_host(s->ctx, t->deadline);
	const u64 now = htw_context_to_host(s->ctx, s->now);

	if (unlikely(t->deadline <= s->now) && s->base->clock != HTW_BASE_MANUAL &&
	    !htw_submit_make_due(s, now))
		return htw_base_tick(s->base, deadline, 0, 0);
	return htw_base_tick(s->base, deadline, htw_timer_slack(t), now);
}

/* Put a timer that is on no list into the wheel of the base that is locked. */
void htw_submit_arm(struct htw_submit *s, struct htw_timer *t)
{
	htw_timer_start(s->base, t, htw_submit_choose_tick(s, t));
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

/* htw_submit_cancel() for a timer in any state. */
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
 * Lock @s->target instead of another base, to arm a timer there that is on no list. The
 * context's lock is held, and dropped meanwhile, as a base's comes first: the timer waits on
 * @ctx->rearm, from where another CPU may arm, change or cancel it.
 *
 * Return: true if it is still to be armed, and on no list.
 */
static bool htw_submit_enter_target(struct htw_submit *s, struct htw_timer *t)
{
	struct htw_context *ctx = s->ctx;
	const u32 generation = t->generation;

	lockdep_assert_held(&ctx->lock);

	WRITE_ONCE(t->node.state, HTW_REARM);
	list_add_tail(&t->node.list, &ctx->rearm);
	htw_unlock(&ctx->lock);
	htw_submit_lock_base(s, s->target);
	htw_lock(&ctx->lock);
	if (t->node.state != HTW_REARM || t->generation != generation)
		return false;
	list_del(&t->node.list);
	return true;
}

/* Arm a timer in any state for its new deadline, and undo htw_submit_lock_timer(). */
static void htw_submit_move(struct htw_submit *s, struct htw_timer *t, enum htw_timer_state state)
{
	struct htw_context *ctx = s->ctx;
	u64 tick;

	if (state == HTW_PENDING) {
		htw_base_stop(s->base, &t->node);
		tick = htw_submit_choose_tick(s, t);
		if (!htw_base_wakes_remote(s->base, tick)) {
			htw_timer_start(s->base, t, tick);
			return;
		}
		/* Only its own CPU programs an hrtimer: arm the timer on this CPU's base. */
		htw_lock(&ctx->lock);
	} else if (state != HTW_IDLE) {
		list_del(&t->node.list);
		if (state == HTW_EXPIRED)
			ctx->nr_expired--;
	}
	if (likely(s->base == s->target) || htw_submit_enter_target(s, t))
		htw_submit_arm(s, t);
	htw_unlock(&ctx->lock);
}

/* Change a timer without arming it for its new deadline. */
static int htw_submit_mod_locked(struct htw_submit *s, struct htw_timer *t,
				 enum htw_timer_state state, const struct htw_mod *mod)
{
	/* A timer that was cancelled after it expired cannot go on; only its event remains. */
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
			htw_submit_stamp(s, t);
		t->deadline = htw_submit_deadline(s, mod->deadline, mod->flags);
		htw_context_clear_override(s->ctx, t);
	}
	trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

/* htw_submit_mod() for a timer in any state. */
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

/* Describe the timer of @query->id. Return 0 or -ENOENT. */
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
