// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context: functions that several files use
 */

#include "context.h"

u32 htw_context_tick_ns(const struct htw_context *ctx)
{
	return ctx->private_base ? ctx->private_base->tick_ns : htw_tick_ns;
}

/* Add the offset of a time namespace; U64_MAX (never) stays. */
u64 htw_context_shift_time(u64 ns, s64 by)
{
	if (by < 0)
		return ns == U64_MAX ? ns : ns - min(ns, (u64)-by);
	return htw_arith_sum(ns, by);
}

/* May the context have timers with %HTW_TIMER_CANCEL_ON_SET? */
bool htw_context_listens(const struct htw_context *ctx)
{
	/* Pairs with htw_cancel_on_set_listen(). */
	return smp_load_acquire(&ctx->listens);
}

/* The directory's entry for a page below htw_context_pages(); @ctx->grow is held. */
struct htw_page __rcu **htw_context_entry(const struct htw_context *ctx,
					  u32 page)
{
	return &rcu_dereference_protected(ctx->dir, lockdep_is_held(&ctx->grow))->pages[page];
}

/* A page below htw_context_pages(), or &htw_no_page. The caller keeps the page from being freed. */
struct htw_page *htw_context_page(const struct htw_context *ctx, u32 page)
{
	const struct htw_directory *dir;
	struct htw_page *found;

	/* htw_pool_grow() may replace the directory at any time. */
	rcu_read_lock();
	dir = rcu_dereference(ctx->dir);
	found = rcu_dereference(dir->pages[page & dir->mask]);
	rcu_read_unlock();
	return found;
}

/*
 * Return the base on which a timer should be started, and make it if there is
 * none; without memory another base of the user's, or NULL. May sleep.
 */
struct htw_base *htw_context_create_base(const struct htw_context *ctx)
{
	return ctx->private_base ?:
	       htw_bases_create(&ctx->user->bases, ctx->clock, htw_context_cpu(ctx));
}

/*
 * The base whose lock guards a timer while it is pending. Check with
 * htw_timer_pending_on() once the lock is held: the timer may have moved.
 */
struct htw_base *htw_context_base_of(const struct htw_context *ctx,
				     const struct htw_timer *t)
{
	return ctx->private_base ?: READ_ONCE(*per_cpu_ptr(ctx->bases, READ_ONCE(t->node.cpu)));
}
