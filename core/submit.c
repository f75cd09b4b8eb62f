// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on timers, in runs: on timers that are not simply pending; see
 * submit.h
 */

#include "submit.h"

/* Timers of the present tick that are looked at for those that are due before its end. */
#define HTW_RUN_LOOKS		32

/**
 * htw_run_switch() - takes the lock of a base instead of the one that is held
 * @run: the run
 * @base: the base
 */
void htw_run_switch(struct htw_run *run, struct htw_base *base)
{
	htw_unlock(&run->base->lock);
	htw_run_take(run, base, true);
}

/**
 * htw_run_begin() - begins a run of operations
 * @run: the run
 * @ctx: the context that it is on
 *
 * Context: process. Bottom halves are off until htw_run_end(), so a run is
 * short: some hundred operations at most.
 */
void htw_run_begin(struct htw_run *run, struct htw_context *ctx)
{
	__htw_run_begin(run, ctx, likely(htw_run_is_settled(ctx)), true);
}

/**
 * htw_run_begin_adds() - begins a run for which timers have been reserved
 * @run: the run
 * @ctx: the context that it is on
 *
 * Context: as htw_run_begin().
 */
void htw_run_begin_adds(struct htw_run *run, struct htw_context *ctx)
{
	/*
	 * HTW_SETUP looks under the lock, and only if no timer is reserved: what
	 * it did before is seen here. Pairs with htw_run_is_settled().
	 */
	smp_store_release(&ctx->used, true);
	__htw_run_begin(run, ctx, true, true);
}

/**
 * htw_run_make_base() - makes the base on which a run's timers are to be started
 * @run: the run, which begins, with bottom halves off and no lock held
 *
 * Memory cannot be had with bottom halves off. They are on meanwhile, so this may
 * come to run on another CPU, where there is none either: then any base will do.
 */
void htw_run_make_base(struct htw_run *run)
{
	struct htw_base *made;

	local_bh_enable();
	made = htw_context_make_base(run->ctx);
	local_bh_disable();
	run->here = htw_context_base(run->ctx) ?: made;
}

/**
 * htw_run_give_back() - gives back the timers that a run freed
 * @run: the run, at its end
 */
void htw_run_give_back(struct htw_run *run)
{
	struct htw_context *ctx = run->ctx;

	spin_lock(&ctx->lock);
	list_splice(&run->freed, htw_context_freed_here(ctx));
	htw_context_count_freed(ctx, run->nr_freed);
	spin_unlock(&ctx->lock);
	htw_user_uncharge(ctx->user, run->nr_freed);
}

/**
 * htw_run_lock_timer() - locks what guards a timer now
 * @run: the run
 * @t: one of its timers, which has been armed before
 *
 * Return: the timer's state, which stays until htw_run_unlock_timer(), but for
 * %HTW_RESERVED. The lock of @run->base is held: where the state is
 * %HTW_PENDING it is the timer's; where not, the context's lock is held as well.
 */
enum htw_timer_state htw_run_lock_timer(struct htw_run *run, const struct htw_timer *t)
{
	enum htw_timer_state state;

	for (;;) {
		htw_run_lock(run, htw_context_base_of(run->ctx, t));
		if (htw_timer_pending_on(run->base, t))
			return HTW_PENDING;
		htw_lock(&run->ctx->lock);
		state = READ_ONCE(t->node.state);
		if (state != HTW_PENDING)
			return state;
		htw_unlock(&run->ctx->lock);		/* just armed, on another CPU */
	}
}

/**
 * htw_run_unlock_timer() - ends what htw_run_lock_timer() began
 * @run: the run
 * @state: what it returned
 *
 * The lock of the run's base stays, for the next operation.
 */
void htw_run_unlock_timer(struct htw_run *run, enum htw_timer_state state)
{
	if (state != HTW_PENDING)
		htw_unlock(&run->ctx->lock);
}

/* Has the deadline of a timer come, whosever context it is of? */
static bool htw_run_has_come(const struct htw_node *n, u64 now)
{
	const struct htw_timer *t = container_of(n, struct htw_timer, node);

	return htw_context_to_host(htw_chunk_of(t)->ctx, t->deadline) <= now;
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
static u64 htw_run_due_time(struct htw_run *run, const struct htw_timer *t)
{
	const u64 now = htw_context_to_host(run->ctx, run->now);
	struct htw_wheel *wheel = &run->base->wheel;
	struct list_head *bucket = htw_wheel_at_cursor(wheel);
	unsigned int looks = HTW_RUN_LOOKS;
	struct htw_node *n, *next;
	bool ahead = false;

	lockdep_assert_held(&run->base->lock);

	if (likely(t->deadline > run->now) || run->base->clock == HTW_CLOCK_STILL ||
	    !bucket || wheel->cursor != htw_tick(run->base, now) + 1)
		return now;
	list_for_each_entry_safe(n, next, bucket, list) {
		if (!looks--)
			break;
		if (htw_run_has_come(n, now))
			ahead |= htw_wheel_hasten(wheel, n);
	}
	if (ahead)
		htw_base_wake(run->base);
	if (&n->list == bucket)
		return now;
	n = list_last_entry(bucket, struct htw_node, list);
	return n != &t->node && htw_run_has_come(n, now) ? 0 : now;
}

/**
 * htw_run_arm() - puts a timer into the wheel of the base whose lock is held
 * @run: the run
 * @t: the timer, on no list
 */
void htw_run_arm(struct htw_run *run, struct htw_timer *t)
{
	htw_timer_start(run->base, t, htw_context_to_host(run->ctx, t->deadline),
			htw_timer_slack(t), htw_run_due_time(run, t));
}

static bool htw_timer_exists(const struct htw_timer *t, enum htw_timer_state state, u64 id)
{
	return state != HTW_FREE && state != HTW_RESERVED && htw_timer_is(t, id);
}

static int htw_run_cancel_locked(struct htw_run *run, struct htw_timer *t,
				 enum htw_timer_state state, struct htw_cancel *cancel)
{
	if (!htw_timer_exists(t, state, cancel->id))
		return -ENOENT;
	cancel->cookie = t->cookie;
	cancel->remaining = 0;
	cancel->missed = 0;
	switch (state) {
	case HTW_PENDING:
		cancel->remaining = htw_timer_remaining(t, htw_context_word(run->ctx, t),
							run->now);
		htw_base_stop(run->base, &t->node);
		break;
	case HTW_REARM:
		cancel->remaining = htw_timer_remaining(t, htw_context_word(run->ctx, t),
							run->now);
		list_del(&t->node.list);
		break;
	case HTW_EXPIRED:
		cancel->missed = htw_timer_missed(t, run->now);
		if (cancel->flags & HTW_CANCEL_DISCARD) {
			list_del(&t->node.list);
			run->ctx->nr_expired--;
			htw_run_free(run, t);
		} else {
			t->interval = cancel->missed;
			t->node.flags &= ~HTW_TIMER_KEEP;
			t->node.flags |= HTW_TIMER_STOPPED;
		}
		return -EALREADY;
	default:
		break;
	}
	htw_run_free(run, t);
	return 0;
}

/**
 * htw_run_cancel_slow() - htw_run_cancel() for a timer in whatever state
 * @run: the run
 * @t: the timer of the id's slot
 * @cancel: as for htw_run_cancel()
 *
 * Return: as &struct htw_cancel tells.
 */
int htw_run_cancel_slow(struct htw_run *run, struct htw_timer *t, struct htw_cancel *cancel)
{
	enum htw_timer_state state;
	int ret;

	if (!htw_timer_is_live(t))
		return -ENOENT;
	state = htw_run_lock_timer(run, t);
	ret = htw_run_cancel_locked(run, t, state, cancel);
	htw_run_unlock_timer(run, state);
	return ret;
}

/*
 * Arms a timer that is on no list, where timers are to be started. The context's lock
 * is held; it is dropped.
 */
static void htw_run_arm_here(struct htw_run *run, struct htw_timer *t)
{
	struct htw_context *ctx = run->ctx;
	const u32 generation = t->generation;

	lockdep_assert_held(&ctx->lock);

	if (likely(run->base == run->here)) {
		htw_run_arm(run, t);
		htw_unlock(&ctx->lock);
		return;
	}
	/* A base's lock comes first, so meanwhile others may arm it, move it or end it. */
	WRITE_ONCE(t->node.state, HTW_REARM);
	list_add_tail(&t->node.list, &ctx->rearm);
	htw_unlock(&ctx->lock);
	htw_run_lock_here(run);
	htw_lock(&ctx->lock);
	if (t->node.state == HTW_REARM && t->generation == generation) {
		list_del(&t->node.list);
		htw_run_arm(run, t);
	}
	htw_unlock(&ctx->lock);
}

/*
 * Arms a timer for its new deadline, whatever state it is in: it is locked by
 * htw_run_lock_timer(), and unlocked here.
 */
static void htw_run_move(struct htw_run *run, struct htw_timer *t, enum htw_timer_state state)
{
	struct htw_context *ctx = run->ctx;

	if (state == HTW_PENDING) {
		if (likely(htw_base_restart(run->base, &t->node,
					    htw_context_to_host(ctx, t->deadline),
					    htw_timer_slack(t), htw_run_due_time(run, t))))
			return;
		htw_lock(&ctx->lock);
	} else if (state != HTW_IDLE) {
		list_del(&t->node.list);
		if (state == HTW_EXPIRED)
			ctx->nr_expired--;
	}
	htw_run_arm_here(run, t);
}

/* Changes a timer, but does not arm it yet. */
static int htw_run_mod_locked(struct htw_run *run, struct htw_timer *t,
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
			run->now = htw_clockset_stamp(run->ctx, t);
		t->deadline = htw_run_deadline(run, mod->deadline, mod->flags);
		htw_context_reset_word(run->ctx, t);
	}
	trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

/**
 * htw_run_mod_slow() - htw_run_mod() for a timer in whatever state
 * @run: the run
 * @t: the timer of the id's slot
 * @mod: as for htw_run_mod()
 *
 * Return: 0 or -ENOENT.
 */
int htw_run_mod_slow(struct htw_run *run, struct htw_timer *t, const struct htw_mod *mod)
{
	enum htw_timer_state state;
	int ret;

	if (!htw_timer_is_live(t))
		return -ENOENT;
	state = htw_run_lock_timer(run, t);
	ret = htw_run_mod_locked(run, t, state, mod);
	if (!ret && mod->flags & HTW_MOD_DEADLINE)
		htw_run_move(run, t, state);
	else
		htw_run_unlock_timer(run, state);
	return ret;
}

/**
 * htw_run_query() - tells about a timer
 * @run: the run
 * @query: the id; the rest is filled in
 *
 * Return: 0 or -ENOENT.
 */
int htw_run_query(struct htw_run *run, struct htw_query *query)
{
	struct htw_timer *t = htw_run_slot(run, query->id);
	enum htw_timer_state state;
	int ret = -ENOENT;

	if (!htw_timer_is_live(t))
		return -ENOENT;
	state = htw_run_lock_timer(run, t);
	if (htw_timer_exists(t, state, query->id)) {
		htw_timer_tell(t, state, htw_context_word(run->ctx, t), run->now, query);
		ret = 0;
	}
	htw_run_unlock_timer(run, state);
	return ret;
}
