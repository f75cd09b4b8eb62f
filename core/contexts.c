// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context from open() to the last close of /dev/htw
 */

#include <linux/kcov.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>

#include "cancel_on_set.h"
#include "contexts.h"
#include "delivery.h"
#include "pool.h"
#include "section.h"
#include "shrink.h"
#include "table.h"
#include "wake.h"

/* The limit of a context that is opened, and the highest that HTW_SETUP takes. */
unsigned int htw_max_timers = 1048576;

/* One submission's part of a page, from index @i on. Return: the index to go on with. */
static u32 htw_contexts_stop_some(struct htw_context *ctx, u32 page, u32 i)
{
	struct htw_timer *timers;
	struct htw_section s;

	htw_section_begin(&s, ctx);
	timers = htw_section_page(&s, page)->timers;
	do {
		struct htw_timer *t = &timers[i];

		while (READ_ONCE(t->node.state) == HTW_PENDING) {
			htw_section_lock_base(&s, htw_context_base_of(ctx, t));
			if (!htw_timer_pending_on(s.base, t))
				continue;
			htw_base_stop(s.base, &t->node);
			/* Not HTW_FREE, as it does not go on a free list. */
			WRITE_ONCE(t->node.state, HTW_RESERVED);
		}
	} while (++i < HTW_PAGE_TIMERS && !htw_section_should_end(&s, 1));
	htw_section_end(&s);
	return i;
}

/* Stop all timers of a closed context. */
static void htw_contexts_stop_timers(struct htw_context *ctx)
{
	for (u32 page = 0; page < htw_section_pages(ctx); page++) {
		for (u32 i = 0; i < HTW_PAGE_TIMERS;) {
			i = htw_contexts_stop_some(ctx, page, i);
			cond_resched();
		}
	}
}

/* Hand a closed context to its user's work item. */
static void htw_contexts_queue_free(struct htw_context *ctx)
{
	if (llist_add(&ctx->closed, &ctx->user->closed))
		queue_work(htw_wq, &ctx->user->free_work);
}

static void htw_contexts_queue_free_rcu(struct rcu_head *rcu)
{
	htw_contexts_queue_free(container_of(rcu, struct htw_context, rcu));
}

/* The first step: stop all that refers to the context. A pacer may still be waking its waiters. */
static void htw_contexts_stop(struct htw_context *ctx)
{
	htw_cancel_on_set_leave(ctx);
	htw_contexts_stop_timers(ctx);
	htw_wake_stop(ctx);
	ctx->stopped = true;
	call_rcu(&ctx->rcu, htw_contexts_queue_free_rcu);
}

/* The second step, after a grace period. */
static void htw_contexts_free(struct htw_context *ctx)
{
	struct htw_user *user = ctx->user;
	struct htw_directory *dir;

	htw_table_free(ctx);
	htw_shrink_exit(ctx);
	for (u32 i = 0; i < ctx->nr_pages; i++) {
		struct htw_page *page = htw_context_page(ctx, i);

		if (page != &htw_no_page)
			htw_page_free(page);
		cond_resched();
	}
	while (ctx->nr_prealloc)
		htw_page_free(ctx->prealloc + --ctx->nr_prealloc);
	dir = rcu_dereference_protected(ctx->dir, true);
	htw_user_uncharge_directory(user, htw_directory_entries(dir));
	htw_directory_free(dir);
	htw_ring_free(ctx->ring, user);
	if (ctx->private_base) {
		htw_bases_free_private(ctx->private_base);
		htw_user_uncharge_wheel(user);
	}
	htw_pool_uncharge_all(ctx);
	kfree(ctx);
	htw_user_closing_end(user);
	htw_user_put(user);
}

/* &htw_user.free_work: stop and free a user's closed contexts. */
static void htw_contexts_free_closed(struct work_struct *work)
{
	struct htw_user *user = container_of(work, struct htw_user, free_work);
	struct htw_context *ctx, *next;
	struct llist_node *closed;

	/* The user is not freed before this work has ended. */
	kcov_remote_start_common(user->kcov_handle);
	closed = llist_reverse_order(llist_del_all(&user->closed));
	llist_for_each_entry_safe(ctx, next, closed, closed) {
		if (ctx->stopped)
			htw_contexts_free(ctx);
		else
			htw_contexts_stop(ctx);
		cond_resched();
	}
	kcov_remote_stop();
}

/* What the users of contexts do. */
const struct htw_user_ops htw_user_ops = {
	.serve		= htw_delivery_serve,
	.cancel_on_set	= htw_cancel_on_set_walk_user,
	.free_contexts	= htw_contexts_free_closed,
};

/**
 * htw_contexts_create() - allocate a context
 * @limit: limit of timers, at most %HTW_CONTEXT_MAX
 *
 * Context: may sleep; charged to the caller's cgroup. Waits while very many of
 * the user's closed contexts are being freed.
 * Return: the context, or NULL without memory.
 */
struct htw_context *htw_contexts_create(u32 limit)
{
	struct htw_context *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	struct timespec64 monotonic = {};
	struct timespec64 boottime = {};

	if (!ctx)
		return NULL;

	ctx->user = htw_user_get(&htw_user_ops);
	if (!ctx->user) {
		kfree(ctx);
		return NULL;
	}
	if (!htw_user_wait_for_closing(ctx->user)) {
		htw_user_put(ctx->user);
		kfree(ctx);
		return NULL;
	}

	ctx->bases = htw_bases_by_clock(&ctx->user->bases, HTW_MONOTONIC);
	timens_add_monotonic(&monotonic);
	timens_add_boottime(&boottime);
	ctx->timens_monotonic = timespec64_to_ns(&monotonic);
	ctx->timens_boottime = timespec64_to_ns(&boottime);
	ctx->timens = ctx->timens_monotonic;

	ctx->cpu = -1;
	spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->expired);
	INIT_LIST_HEAD(&ctx->rearm);
	for (u32 i = 0; i < HTW_FREE_LISTS; i++)
		INIT_LIST_HEAD(&ctx->free[i]);
	ctx->limit = limit;
	RCU_INIT_POINTER(ctx->dir, &htw_no_directory);
	htw_wake_init(ctx);
	mutex_init(&ctx->grow);
	htw_shrink_init(ctx);

	return ctx;
}

/**
 * htw_contexts_close() - stop all timers of a context and free it
 * @ctx: the context, on the last close
 *
 * Done by a work item of the opener: the last close may be that of a task which
 * was passed the descriptor, and does not know how many timers there are.
 *
 * Context: any but hardirq and NMI.
 */
void htw_contexts_close(struct htw_context *ctx)
{
	htw_user_closing_begin(ctx->user);
	htw_contexts_queue_free(ctx);
}

/* May sleep. */
int htw_contexts_init(void)
{
	int ret = htw_shrink_init_queue();

	if (!ret)
		htw_cancel_on_set_init();
	return ret;
}

/* Undo htw_contexts_init(); all contexts have been closed. May sleep. */
void htw_contexts_exit(void)
{
	htw_cancel_on_set_exit();
	/* Contexts are stopped, wait for a grace period, and are freed, as are their pages then. */
	flush_workqueue(htw_wq);
	rcu_barrier();
	flush_workqueue(htw_wq);
	rcu_barrier();
	htw_shrink_exit_queue();
}
