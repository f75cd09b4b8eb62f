// SPDX-License-Identifier: GPL-2.0-only
/*
 * Operations on timers, in runs: bottom halves are off and a lock is held for
 * as many of them as follow each other on the same base
 *
 * An operation on an id finds the timer without a lock, takes the lock of the
 * base that it was last on, and looks again. Pending there: it stays so while
 * that lock is held. Otherwise the context's lock settles it; found pending
 * after all, it has just been armed on another CPU, and the operation starts
 * over.
 */

#include <trace/events/htw.h>

#include "htw_context.h"
#include "htw_engine.h"

/**
 * htw_run_lock() - makes a base the one whose lock the run holds
 * @run: the run
 * @base: the base
 */
void htw_run_lock(struct htw_run *run, struct htw_base *base)
{
	if (run->base == base)
		return;
	if (run->base)
		htw_unlock(&run->base->lock);
	run->base = base;
	htw_lock(&base->lock);
}

/**
 * htw_run_begin() - begins a run of operations
 * @run: the run
 * @ctx: the context that it is on
 *
 * Context: process. Bottom halves are off until htw_run_end(), so a run is
 * short: some tens of operations.
 */
void htw_run_begin(struct htw_run *run, struct htw_context *ctx)
{
	run->ctx = ctx;
	run->base = NULL;
	run->nr_freed = 0;
	run->rearm = false;
	INIT_LIST_HEAD(&run->freed);
	run->now = htw_context_now(ctx);
	local_bh_disable();
}

/**
 * htw_run_end() - ends a run and gives back the timers that it freed
 * @run: the run
 */
void htw_run_end(struct htw_run *run)
{
	struct htw_context *ctx = run->ctx;

	if (run->base)
		htw_unlock(&run->base->lock);
	if (run->nr_freed) {
		spin_lock(&ctx->lock);
		list_splice(&run->freed, &ctx->free);
		ctx->nr_timers -= run->nr_freed;
		spin_unlock(&ctx->lock);
		htw_user_uncharge(ctx->user, run->nr_freed);
	}
	local_bh_enable();
	if (run->rearm)
		htw_context_rearm(ctx);
	else if (htw_context_is_still(ctx))
		htw_context_advance(ctx, 0);
}

static u64 htw_run_deadline(const struct htw_run *run, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_add_saturated(run->now, deadline);
}

/**
 * htw_run_lock_here() - locks the base that timers are to be started on now
 * @run: the run
 */
void htw_run_lock_here(struct htw_run *run)
{
	htw_run_lock(run, htw_context_base(run->ctx));
	/* The home CPU may have gone, or not all that are not isolated be there. */
	if (unlikely(run->base->offline))
		htw_run_lock(run, this_cpu_read(htw_bases[run->ctx->clock]));
}

/**
 * htw_timer_arm() - puts a timer into the wheel of the base whose lock is held
 * @run: the run
 * @t: the timer, on no list
 *
 * Whoever sees the state sees the CPU, so it can tell whether the lock it
 * holds is the one that guards the timer.
 */
void htw_timer_arm(struct htw_run *run, struct htw_timer *t)
{
	htw_base_start(run->base, &t->node, htw_context_to_host(run->ctx, t->deadline),
		       htw_slack_unpack(t->node.slack),
		       htw_context_to_host(run->ctx, run->now));
	/* Pairs with htw_timer_pending_on(). */
	smp_store_release(&t->node.state, HTW_PENDING);
}

/**
 * htw_run_arm() - arms a reserved timer for its deadline
 * @run: the run
 * @t: the timer, on no list any more
 */
void htw_run_arm(struct htw_run *run, struct htw_timer *t)
{
	/* The context has a timer, this one: HTW_SETUP looks only if it has none. */
	WRITE_ONCE(run->ctx->used, true);
	htw_run_lock_here(run);
	htw_timer_arm(run, t);
}

/**
 * htw_run_add() - arms a reserved timer
 * @run: the run
 * @t: the timer, on no list any more
 * @add: what the program asked for, found to be valid
 */
void htw_run_add(struct htw_run *run, struct htw_timer *t, const struct htw_add *add)
{
	t->deadline = htw_run_deadline(run, add->deadline, add->flags);
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	t->node.slack = htw_slack_pack(add->slack);
	trace_htw_add(htw_timer_id(t), t->cookie, t->deadline, t->interval);
	htw_run_arm(run, t);
}

static void htw_run_free(struct htw_run *run, struct htw_timer *t)
{
	htw_timer_free(t, &run->freed);
	run->nr_freed++;
}

/**
 * htw_run_lock_timer() - locks what guards a timer now
 * @run: the run
 * @t: one of its timers
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
		cancel->remaining = htw_timer_remaining(t, run->now);
		htw_base_stop(run->base, &t->node);
		break;
	case HTW_REARM:
		cancel->remaining = htw_timer_remaining(t, run->now);
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
			t->node.flags = HTW_TIMER_STOPPED;
		}
		return -EALREADY;
	default:
		break;
	}
	htw_run_free(run, t);
	return 0;
}

/**
 * htw_run_cancel() - cancels a timer
 * @run: the run
 * @cancel: the id and flags, found to be valid; the rest is filled in
 *
 * Return: as &struct htw_cancel tells.
 */
int htw_run_cancel(struct htw_run *run, struct htw_cancel *cancel)
{
	struct htw_timer *t = htw_context_find(run->ctx, cancel->id);
	enum htw_timer_state state;
	int ret;

	if (!t)
		return -ENOENT;
	state = htw_run_lock_timer(run, t);
	ret = htw_run_cancel_locked(run, t, state, cancel);
	htw_run_unlock_timer(run, state);
	trace_htw_cancel(cancel->id, ret);
	return ret;
}

/* The timer is in no wheel: it goes into one when the run has ended. */
static void htw_run_rearm(struct htw_run *run, struct htw_timer *t)
{
	lockdep_assert_held(&run->ctx->lock);

	WRITE_ONCE(t->node.state, HTW_REARM);
	list_add_tail(&t->node.list, &run->ctx->rearm);
	run->rearm = true;
}

/* Arms a timer for its new deadline, from whatever state it is in. */
static void htw_run_restart(struct htw_run *run, struct htw_timer *t,
			    enum htw_timer_state state)
{
	if (state == HTW_PENDING) {
		if (htw_base_restart(run->base, &t->node,
				     htw_context_to_host(run->ctx, t->deadline),
				     htw_slack_unpack(t->node.slack),
				     htw_context_to_host(run->ctx, run->now)))
			return;
		/* Its base's lock comes first, the context's second, as always. */
		spin_lock(&run->ctx->lock);
		htw_run_rearm(run, t);
		spin_unlock(&run->ctx->lock);
		return;
	}
	if (state != HTW_IDLE)
		list_del(&t->node.list);
	if (state == HTW_EXPIRED)
		run->ctx->nr_expired--;
	htw_run_rearm(run, t);
}

static int htw_run_mod_locked(struct htw_run *run, struct htw_timer *t,
			      enum htw_timer_state state, const struct htw_mod *mod)
{
	/* One that was cancelled is over, though its last expiration waits. */
	if (!htw_timer_exists(t, state, mod->id) || t->node.flags & HTW_TIMER_STOPPED)
		return -ENOENT;
	if (mod->flags & HTW_MOD_COOKIE)
		t->cookie = mod->cookie;
	if (mod->flags & HTW_MOD_SLACK)
		t->node.slack = htw_slack_pack(mod->slack);
	if (mod->flags & HTW_MOD_INTERVAL) {
		t->interval = mod->interval;
		t->firings = mod->firings;
	}
	if (mod->flags & HTW_MOD_DEADLINE) {
		t->deadline = htw_run_deadline(run, mod->deadline, mod->flags);
		htw_run_restart(run, t, state);
	}
	trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

/**
 * htw_run_mod() - changes a timer
 * @run: the run
 * @mod: what to change, found to be valid
 *
 * Return: 0 or -ENOENT.
 */
int htw_run_mod(struct htw_run *run, const struct htw_mod *mod)
{
	struct htw_timer *t = htw_context_find(run->ctx, mod->id);
	enum htw_timer_state state;
	int ret;

	if (!t)
		return -ENOENT;
	state = htw_run_lock_timer(run, t);
	ret = htw_run_mod_locked(run, t, state, mod);
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
	struct htw_timer *t = htw_context_find(run->ctx, query->id);
	enum htw_timer_state state;
	int ret = -ENOENT;

	if (!t)
		return -ENOENT;
	state = htw_run_lock_timer(run, t);
	if (htw_timer_exists(t, state, query->id)) {
		htw_timer_tell(t, state, run->now, query);
		ret = 0;
	}
	htw_run_unlock_timer(run, state);
	return ret;
}
