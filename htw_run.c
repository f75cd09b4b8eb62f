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
 *
 * Context: process. Bottom halves are off until htw_run_end(), so a run is
 * short: some tens of operations.
 */
void htw_run_begin(struct htw_run *run)
{
	run->base = NULL;
	run->nr_freed = 0;
	INIT_LIST_HEAD(&run->freed);
	run->now = htw_now();
	local_bh_disable();
}

/**
 * htw_run_end() - ends a run and gives back the timers that it freed
 * @run: the run
 * @ctx: the context that it was on
 */
void htw_run_end(struct htw_run *run, struct htw_context *ctx)
{
	if (run->base)
		htw_unlock(&run->base->lock);
	if (run->nr_freed) {
		spin_lock(&ctx->lock);
		list_splice(&run->freed, &ctx->free);
		ctx->nr_timers -= run->nr_freed;
		spin_unlock(&ctx->lock);
	}
	local_bh_enable();
}

/**
 * htw_run_add() - arms a reserved timer
 * @run: the run
 * @t: the timer, on no list any more
 * @add: what the program asked for, found to be valid
 */
void htw_run_add(struct htw_run *run, struct htw_timer *t, const struct htw_add *add)
{
	htw_run_lock(run, this_cpu_read(htw_bases));
	t->deadline = add->deadline;
	if (!(add->flags & HTW_F_ABS))
		t->deadline = htw_add_saturated(run->now, add->deadline);
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	htw_timer_arm(run->base, t, run->now);
}

static void htw_run_free(struct htw_run *run, struct htw_timer *t)
{
	htw_timer_free(t, &run->freed);
	run->nr_freed++;
}

/* Cancels a timer that is in no wheel. -EAGAIN: it has just been armed. */
static int htw_run_cancel_unarmed(struct htw_run *run, struct htw_context *ctx,
				  struct htw_timer *t, struct htw_cancel *cancel)
{
	const u16 state = READ_ONCE(t->node.state);

	lockdep_assert_held(&ctx->lock);

	if (state == HTW_PENDING)
		return -EAGAIN;
	if (state == HTW_FREE || state == HTW_RESERVED || !htw_timer_is(t, cancel->id))
		return -ENOENT;
	cancel->cookie = t->cookie;
	cancel->remaining = 0;
	cancel->missed = 0;
	if (state != HTW_EXPIRED) {
		if (state == HTW_REARM) {
			cancel->remaining = htw_timer_remaining(t, run->now);
			list_del(&t->node.list);
		}
		htw_run_free(run, t);
		return 0;
	}
	cancel->missed = htw_timer_missed(t, run->now);
	if (cancel->flags & HTW_CANCEL_DISCARD) {
		list_del(&t->node.list);
		ctx->nr_expired--;
		htw_run_free(run, t);
	} else {
		t->interval = cancel->missed;
		t->node.flags = HTW_TIMER_STOPPED;
	}
	return -EALREADY;
}

/**
 * htw_run_cancel() - cancels a timer
 * @run: the run
 * @ctx: the context
 * @cancel: the id and flags, found to be valid; the rest is filled in
 *
 * Return: as &struct htw_cancel tells.
 */
int htw_run_cancel(struct htw_run *run, struct htw_context *ctx, struct htw_cancel *cancel)
{
	struct htw_timer *t = htw_context_find(ctx, cancel->id);
	int ret;

	if (!t)
		return -ENOENT;
	do {
		htw_run_lock(run, htw_base_of(&t->node));
		if (htw_timer_pending_on(run->base, t)) {
			if (!htw_timer_is(t, cancel->id))
				return -ENOENT;
			htw_base_stop(run->base, &t->node);
			cancel->cookie = t->cookie;
			cancel->remaining = htw_timer_remaining(t, run->now);
			cancel->missed = 0;
			htw_run_free(run, t);
			return 0;
		}
		spin_lock(&ctx->lock);
		ret = htw_run_cancel_unarmed(run, ctx, t, cancel);
		spin_unlock(&ctx->lock);
	} while (ret == -EAGAIN);
	return ret;
}
