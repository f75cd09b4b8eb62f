// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context from open() to the last close of /dev/htw
 */

#include <linux/slab.h>
#include <linux/time_namespace.h>

#include "clock_was_set.h"
#include "expire.h"
#include "lifecycle.h"
#include "shrink.h"
#include "submit.h"
#include "table.h"
#include "wake.h"

/**
 * htw_context_alloc() - allocate a context
 * @limit: limit of timers, at most %HTW_CONTEXT_MAX
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the context, or NULL without memory.
 */
struct htw_context *htw_context_alloc(u32 limit)
{
	struct htw_context *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	struct timespec64 monotonic = {};
	struct timespec64 boottime = {};

	if (!ctx)
		return NULL;
	ctx->user = htw_user_get(htw_expire_serve);
	if (!ctx->user) {
		kfree(ctx);
		return NULL;
	}
	ctx->bases = &ctx->user->cpus->bases[HTW_BASE_MONOTONIC];
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

static void htw_context_free(struct work_struct *work)
{
	struct htw_context *ctx = container_of(to_rcu_work(work), struct htw_context, free_work);

	htw_wake_exit(ctx);
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
	htw_directory_free(rcu_dereference_protected(ctx->dir, true));
	htw_ring_free(ctx->ring, ctx->user);
	if (ctx->own) {
		htw_base_free(ctx->own);
		htw_user_uncharge_wheel(ctx->user);
	}
	htw_user_uncharge(ctx->user, ctx->nr_timers);
	htw_user_put(ctx->user, htw_bases_free);
	kfree(ctx);
}

/**
 * htw_context_close() - stop all timers of a context and free it
 * @ctx: the context, on the last close
 *
 * The memory is freed after a grace period: a pacer may be waking the context's waiters.
 *
 * Context: may sleep.
 */
void htw_context_close(struct htw_context *ctx)
{
	htw_clock_was_set_leave(ctx);
	for (u32 i = 0; i < ctx->nr_pages; i++) {
		struct htw_timer *timers;
		struct htw_submit s;

		htw_submit_begin(&s, ctx);
		timers = htw_submit_page(&s, i)->timers;
		for (u32 j = 0; j < HTW_PAGE_TIMERS; j++) {
			struct htw_timer *t = &timers[j];

			while (READ_ONCE(t->node.state) == HTW_PENDING) {
				htw_submit_lock_base(&s, htw_context_base_of(ctx, t));
				if (!htw_timer_pending_on(s.base, t))
					continue;
				htw_base_stop(s.base, &t->node);
				/* Not HTW_FREE, as it does not go on a free list. */
				WRITE_ONCE(t->node.state, HTW_RESERVED);
			}
		}
		htw_submit_end(&s);
		cond_resched();
	}
	htw_wake_stop(ctx);
	INIT_RCU_WORK(&ctx->free_work, htw_context_free);
	queue_rcu_work(htw_wq, &ctx->free_work);
}

int htw_context_init(void)
{
	htw_wq = alloc_workqueue("htw", WQ_UNBOUND, 0);
	return htw_wq ? 0 : -ENOMEM;
}

/* Undo htw_context_init(); all contexts have been closed. May sleep. */
void htw_context_exit(void)
{
	htw_clock_was_set_exit();
	rcu_barrier();	/* queues the work of contexts that wait for a grace period */
	destroy_workqueue(htw_wq);
	rcu_barrier();	/* frees their pages and bases */
}
