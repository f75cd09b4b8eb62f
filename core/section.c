// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sections: what begins and ends them, and operations on timers that are not
 * simply pending on the base that is locked; see section.h
 */

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "section.h"

/* What the slow path adds to the cost of an operation, in units of a section. */
#define HTW_UNITS_SLOW		2
#define HTW_UNITS_SWITCH	4
#define HTW_UNITS_PROGRAM	8
#define HTW_UNITS_MAKE_DUE	32

/* How long a section at most gives way to a turn: longer than most gaps between two runs. */
#define HTW_GIVE_WAY_NS		(100 * NSEC_PER_USEC)

/**
 * htw_section_begin() - begin a section
 * @s: the section
 * @ctx: the context, settled: before that there is nothing to look up
 *
 * Context: process. Bottom halves are off until htw_section_end().
 */
void htw_section_begin(struct htw_section *s, struct htw_context *ctx)
{
	__htw_section_begin(s, ctx);
}

/*
 * Make the base on which a beginning section starts timers; no lock is held.
 * Bottom halves are on while memory is allocated, so the task may migrate to a
 * CPU that has no base either; then use the one that was made.
 */
void htw_section_create_base(struct htw_section *s)
{
	struct htw_base *made;

	local_bh_enable();
	made = htw_context_create_base(s->ctx);
	local_bh_disable();
	s->target = htw_context_base(s->ctx) ?: made;
}

/* Return the timers that a section freed, at its end. */
void htw_section_return_freed(struct htw_section *s)
{
	struct htw_context *ctx = s->ctx;

	spin_lock(&ctx->lock);
	list_splice(&s->freed, htw_pool_free_list(ctx));
	htw_shrink_timers_freed(ctx, s->nr_freed);
	spin_unlock(&ctx->lock);
}

/*
 * Leave a base alone until a turn has had it, for HTW_GIVE_WAY_NS at most.
 * Turns only try the lock, so that a user whose tasks hold it all the time
 * delays nobody else; without this its own timers might never be delivered. The
 * base is the caller's user's, and stays while the context is open.
 */
void htw_section_give_way(struct htw_base *base)
{
	const u64 until = ktime_get_ns() + HTW_GIVE_WAY_NS;

	/* Some callers keep bottom halves off for longer than the section. */
	if (softirq_count())
		return;

	do {
		if (!READ_ONCE(base->wanted))
			return;
		cpu_relax();
		cond_resched();
	} while (ktime_get_ns() < until);

	/* The next turn is not near: perhaps it waits for the user's share. */
	if (time_after(jiffies, READ_ONCE(base->wanted_at) + 1))
		WRITE_ONCE(base->wanted, false);
}

/**
 * htw_section_limit() - how many operations one section may hold
 * @ctx: the context
 * @most: upper bound
 *
 * A batch must have the same effect as its operations one by one. On a manual
 * clock a timer that is due has expired when the call that armed it returns, so
 * the next operation must find it expired: each operation is a separate
 * section.
 */
u32 htw_section_limit(const struct htw_context *ctx, u32 most)
{
	return htw_context_is_manual(ctx) ? 1 : most;
}

/*
 * Mark a timer as armed at the present setting of the clock. That may be
 * earlier than when the section began, so check the wheel again, too.
 */
void htw_section_stamp(struct htw_section *s, struct htw_timer *t)
{
	s->now = htw_clock_sets_stamp(s->ctx, t);
	htw_section_forward_base(s);
}

/* Take a lock. If that has to wait, it may take long: the section ends after the operation. */
static void htw_section_lock(struct htw_section *s, spinlock_t *lock)
{
	if (htw_trylock(lock))
		return;
	s->units = 0;
	htw_lock(lock);
}

/* Drop the base's lock that is held and lock another one. */
void htw_section_switch_base(struct htw_section *s, struct htw_base *base)
{
	htw_section_count(s, HTW_UNITS_SWITCH + (s->base->reprogram ? HTW_UNITS_PROGRAM : 0));
	htw_base_unlock(s->base);
	htw_section_lock(s, &base->lock);
	htw_section_enter_base(s, base);
	htw_section_set_keys(s);
}

/**
 * htw_section_lock_timer() - take the locks that guard a timer
 * @s: the section
 * @t: one of its timers, which has been armed before
 *
 * The lock of @s->base is held on return. It guards a timer that is
 * %HTW_PENDING; in any other state the context's lock is held as well.
 *
 * Return: the timer's state, which does not change before
 * htw_section_unlock_timer(), unless it is %HTW_RESERVED.
 */
enum htw_timer_state htw_section_lock_timer(struct htw_section *s,
					    const struct htw_timer *t)
{
	enum htw_timer_state state;

	htw_section_count(s, HTW_UNITS_SLOW);
	for (;;) {
		htw_section_lock_base(s, htw_context_base_of(s->ctx, t));
		if (htw_timer_pending_on(s->base, t))
			return HTW_PENDING;

		htw_section_lock(s, &s->ctx->lock);
		state = READ_ONCE(t->node.state);
		if (state != HTW_PENDING)
			return state;
		htw_unlock(&s->ctx->lock);	/* it has just been armed on another CPU */
	}
}

/* Undo htw_section_lock_timer(), which returned @state. The base stays locked. */
void htw_section_unlock_timer(struct htw_section *s, enum htw_timer_state state)
{
	if (state != HTW_PENDING)
		htw_unlock(&s->ctx->lock);
}

/* Is a timer due, whichever context it belongs to? */
static bool htw_section_node_is_due(const struct htw_node *n, u64 now)
{
	const struct htw_timer *t = container_of(n, struct htw_timer, node.node);

	return htw_context_to_host(htw_timer_page(t)->ctx, t->deadline) <= now;
}

/*
 * Deliver timers that wait for the end of the present tick, but are due @now
 * (the base's time, not a time namespace's), ahead of those that are to be
 * armed and are due, too. Once for all of these: what is armed under the same
 * lock is either delivered behind them, or due later.
 *
 * Return: false if those to be armed have to wait for the tick like others, to
 * stay in order.
 */
static bool htw_section_make_way(struct htw_section *s, u64 now)
{
	struct htw_base *base = s->base;

	lockdep_assert_held(&base->lock);

	if (s->made_way == now)
		return s->way;

	s->made_way = now;
	htw_section_count(s, HTW_UNITS_MAKE_DUE);
	htw_base_note_due(base, now);

	s->way = htw_wheel_make_due(&base->wheel, htw_base_tick(base, now),
				    htw_section_node_is_due, now,
				    &base->reprogram);
	return s->way;
}

/*
 * Choose the tick of a timer on the base that is locked. A timer that is due
 * when it is armed is delivered at once, not at the end of the tick. If it
 * would overtake timers with earlier deadlines in the tick, it waits like them,
 * and without slack.
 *
 * On a manual clock only HTW_ADVANCE expires pending timers, so they go on
 * waiting.
 */
static u64 htw_section_choose_tick(struct htw_section *s,
				   const struct htw_timer *t)
{
	const u64 deadline = htw_context_to_host(s->ctx, t->deadline);
	const u64 now = htw_context_to_host(s->ctx, s->now);

	/* Delivery finds it: htw_section_unread_locked(). */
	if (t->node.flags & HTW_TIMER_CLOCK_SET)
		return htw_base_choose_tick(s->base, now, 0, now);

	if (t->deadline <= s->now && s->base->clock != HTW_MANUAL &&
	    !htw_section_make_way(s, now))
		return htw_base_choose_tick(s->base, deadline, 0, 0);

	return htw_base_choose_tick(s->base, deadline, htw_timer_slack(t), now);
}

/*
 * Put a timer that is on no list into the wheel of the base that is locked.
 * Return: false if the section is used up.
 */
bool htw_section_arm(struct htw_section *s, struct htw_timer *t)
{
	htw_section_count(s, HTW_UNITS_SLOW);
	htw_timer_start(s->base, t, htw_section_choose_tick(s, t));
	return !htw_section_is_used_up(s);
}

static bool htw_section_timer_exists(const struct htw_timer *t,
				     enum htw_timer_state state, u64 id)
{
	return state != HTW_FREE && state != HTW_RESERVED &&
	       htw_timer_matches(t, id);
}

static int htw_section_cancel_locked(struct htw_section *s, struct htw_timer *t,
				     enum htw_timer_state state,
				     struct htw_cancel *cancel)
{
	if (!htw_section_timer_exists(t, state, cancel->id))
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
			htw_context_add_expired(s->ctx, -1);
			htw_section_free(s, t);
		} else if (!(t->node.flags & HTW_TIMER_STOPPED)) {
			htw_timer_fix_missed(t, cancel->missed);
		}
		return -EALREADY;
	default:
		break;
	}

	htw_section_free(s, t);
	return 0;
}

/* htw_section_cancel() for a timer in any state. */
int htw_section_cancel_slow(struct htw_section *s, struct htw_timer *t,
			    struct htw_cancel *cancel)
{
	enum htw_timer_state state;
	int ret = -ENOENT;

	if (htw_timer_is_live(t)) {
		state = htw_section_lock_timer(s, t);
		ret = htw_section_cancel_locked(s, t, state, cancel);
		htw_section_unlock_timer(s, state);
	}
	trace_htw_cancel(cancel->id, ret);
	return ret;
}

/*
 * Lock @s->target instead of another base, to arm a timer there that is on no
 * list. The context's lock is held, and dropped meanwhile, as a base's comes
 * first: the timer waits on @ctx->rearm, from where another CPU may arm, change
 * or cancel it.
 *
 * Return: true if it is still to be armed, and on no list.
 */
static bool htw_section_enter_target(struct htw_section *s, struct htw_timer *t)
{
	struct htw_context *ctx = s->ctx;
	const u32 generation = t->generation;

	lockdep_assert_held(&ctx->lock);

	WRITE_ONCE(t->node.state, HTW_REARM);
	list_add_tail(&t->node.list, &ctx->rearm);
	htw_unlock(&ctx->lock);

	htw_section_lock_base(s, s->target);
	htw_section_lock(s, &s->ctx->lock);

	if (t->node.state != HTW_REARM || t->generation != generation)
		return false;
	list_del(&t->node.list);
	return true;
}

/* Take a timer that is not pending off the context's list that it is on, if any. */
static void htw_section_unqueue(struct htw_context *ctx, struct htw_timer *t,
				enum htw_timer_state state)
{
	lockdep_assert_held(&ctx->lock);

	if (state == HTW_IDLE)
		return;
	list_del(&t->node.list);
	if (state == HTW_EXPIRED)
		htw_context_add_expired(ctx, -1);
}

/* Arm a timer in any state for its new deadline, and undo htw_section_lock_timer(). */
static void htw_section_move(struct htw_section *s, struct htw_timer *t,
			     enum htw_timer_state state)
{
	struct htw_context *ctx = s->ctx;
	u64 tick;

	if (state == HTW_PENDING) {
		htw_base_stop(s->base, &t->node);
		tick = htw_section_choose_tick(s, t);
		if (!htw_base_wakes_remote(s->base, tick)) {
			htw_timer_start(s->base, t, tick);
			return;
		}
		/* Only its own CPU programs an hrtimer: arm the timer on this CPU's base. */
		htw_section_lock(s, &s->ctx->lock);
	} else {
		htw_section_unqueue(ctx, t, state);
	}

	if (s->base == s->target || htw_section_enter_target(s, t))
		htw_section_arm(s, t);
	htw_unlock(&ctx->lock);
}

/* Disarm a timer in any state, as its override says, and undo htw_section_lock_timer(). */
static void htw_section_park(struct htw_section *s, struct htw_timer *t,
			     enum htw_timer_state state)
{
	struct htw_context *ctx = s->ctx;

	if (state == HTW_PENDING) {
		htw_base_stop(s->base, &t->node);
		htw_section_lock(s, &ctx->lock);
	} else {
		htw_section_unqueue(ctx, t, state);
	}

	t->node.idle_interval = 0;	/* @interval stays */
	WRITE_ONCE(t->node.state, HTW_IDLE);
	htw_unlock(&ctx->lock);
}

/* Change a timer without arming it for its new deadline. */
static int htw_section_mod_locked(struct htw_section *s, struct htw_timer *t,
				  enum htw_timer_state state,
				  const struct htw_mod *mod)
{
	/* A timer that was cancelled after it expired cannot go on; only its event remains. */
	if (!htw_section_timer_exists(t, state, mod->id) ||
	    t->node.flags & HTW_TIMER_STOPPED)
		return -ENOENT;

	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		htw_timer_set_slack(t, mod->slack);
	if (mod->flags & HTW_MOD_INTERVAL) {
		t->interval = mod->interval;
		t->firings = mod->firings;
		/* What it was started with is not to be given back any more. */
		if (state == HTW_IDLE)
			t->node.idle_interval = 0;
	}

	if (mod->flags & HTW_MOD_DEADLINE) {
		if (t->node.flags & HTW_TIMER_CANCEL_ON_SET)
			htw_section_stamp(s, t);
		t->deadline = htw_section_deadline(s, mod->deadline, mod->flags);
		htw_context_clear_override(s->ctx, t);
	}

	trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

/*
 * Has a timer expired at its override since the event that HTW_MOD_UNREAD is
 * about? One that is armed for a later time has, unless it was armed for that
 * when the event was read: then the override came too late, but before the
 * call.
 */
static bool htw_section_override_has_come(const struct htw_section *s, const struct htw_timer *t,
					  enum htw_timer_state state, const struct htw_mod *mod,
					  u64 override)
{
	if (state != HTW_PENDING && state != HTW_REARM)
		return override <= t->deadline;
	/* U32_MAX firings may be more. */
	return override < t->deadline && override <= htw_context_now(s->ctx) &&
	       mod->firings != U32_MAX &&
	       t->deadline - mod->deadline != mod->firings * t->interval;
}

/*
 * HTW_MOD_UNREAD: set the deadline to the timer's override if that is later
 * than the deadline of an event that was read. The override is not cleared: a
 * program may store a later one at any time, which counts when this one comes.
 * So it can also be one that the timer has expired at since: then its firing
 * has been delivered, and the timer is not armed for it once more.
 *
 * Return: 0, and the timer is to be armed, or to be disarmed if its override is
 * %HTW_DISARMED; -EALREADY; -ENOENT.
 */
static int htw_section_unread_locked(struct htw_section *s, struct htw_timer *t,
				     enum htw_timer_state state,
				     const struct htw_mod *mod, u64 override)
{
	if (!htw_section_timer_exists(t, state, mod->id) ||
	    t->node.flags & HTW_TIMER_STOPPED)
		return -ENOENT;

	if (override <= mod->deadline ||
	    htw_section_override_has_come(s, t, state, mod, override))
		return -EALREADY;

	/* What is queued says that the clock was set. */
	if (state == HTW_EXPIRED && t->node.flags & HTW_TIMER_CLOCK_SET)
		return -EALREADY;

	/* Give the firings back, and after the last one what it was started with. */
	if (state == HTW_IDLE && !t->interval && t->node.idle_interval) {
		t->interval = t->node.idle_interval;
		t->firings = mod->firings;
	} else if (t->firings &&
		   check_add_overflow(t->firings, mod->firings, &t->firings)) {
		t->firings = U32_MAX;
	}

	if (override != HTW_DISARMED)
		t->deadline = override;
	/* If the clock was set since, the timer would have expired then: it does now. */
	htw_clock_sets_check(s->ctx, t);
	trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

/* htw_section_mod() for a timer in any state. */
int htw_section_mod_slow(struct htw_section *s, struct htw_timer *t,
			 const struct htw_mod *mod)
{
	enum htw_timer_state state;
	u64 override = 0;
	int ret;

	if (!htw_timer_is_live(t))
		return -ENOENT;

	state = htw_section_lock_timer(s, t);

	if (mod->flags & HTW_MOD_UNREAD) {
		override = htw_context_override(s->ctx, t);
		ret = htw_section_unread_locked(s, t, state, mod, override);
	} else {
		ret = htw_section_mod_locked(s, t, state, mod);
	}

	if (!ret && override == HTW_DISARMED)
		htw_section_park(s, t, state);
	else if (!ret && mod->flags & (HTW_MOD_DEADLINE | HTW_MOD_UNREAD))
		htw_section_move(s, t, state);
	else
		htw_section_unlock_timer(s, state);
	return ret;
}

/* Describe the timer of @query->id. Return 0 or -ENOENT. */
int htw_section_query(struct htw_section *s, struct htw_query *query)
{
	struct htw_timer *t = htw_section_find(s, query->id);
	enum htw_timer_state state;
	int ret = -ENOENT;

	if (!htw_timer_is_live(t))
		return -ENOENT;

	state = htw_section_lock_timer(s, t);
	if (htw_section_timer_exists(t, state, query->id)) {
		htw_timer_fill_query(t, state, htw_context_override(s->ctx, t),
				     s->now, query);
		ret = 0;
	}
	htw_section_unlock_timer(s, state);
	return ret;
}
