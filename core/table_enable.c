// SPDX-License-Identifier: GPL-2.0-only
/*
 * Giving a context its table of deadlines, when a program first asks for it
 */

#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "pool.h"
#include "table.h"
#include "table_enable.h"

/*
 * How long to wait for closed contexts, in jiffies: not longer, as mmap() holds
 * the address space's lock, for which others wait who look at the process.
 */
#define HTW_TABLE_WAIT		(HZ / 4)

static void htw_table_enable_free(struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru)
		__free_page(page);
}

/* Allocate the table pages for all pages of timers, so that assigning them cannot fail. */
static int htw_table_enable_alloc(const struct htw_context *ctx,
				  struct list_head *pages)
{
	for (u32 nr = 0; nr < ctx->nr_pages; nr += HTW_TABLE_PAGES) {
		struct page *page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);

		if (!page)
			return -ENOMEM;
		list_add(&page->lru, pages);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Give every page of timers its overrides; pages that have been freed are allocated again. */
static int htw_table_enable_pages(struct htw_context *ctx)
{
	u32 table_pages = DIV_ROUND_UP(ctx->nr_pages, HTW_TABLE_PAGES);
	struct page *page = NULL;
	LIST_HEAD(pages);
	int ret;

	lockdep_assert_held(&ctx->grow);

	while (ctx->nr_allocated < ctx->nr_pages) {
		ret = fatal_signal_pending(current) ? -EINTR : htw_pool_grow(ctx);
		if (ret)
			return ret;
	}
	if (!htw_table_charge(ctx, table_pages))
		return -EDQUOT;
	ret = htw_table_enable_alloc(ctx, &pages);
	for (u32 nr = 0; !ret && nr < ctx->nr_pages; nr++) {
		if (nr % HTW_TABLE_PAGES == 0) {
			page = list_first_entry(&pages, struct page, lru);
			list_del(&page->lru);
		}
		htw_table_assign(ctx, htw_context_page(ctx, nr), nr,
				 page_address(page));
		cond_resched();
	}
	htw_table_enable_free(&pages);
	if (ret)
		htw_table_uncharge(ctx, table_pages);
	return ret;
}

static int htw_table_enable_slow(struct htw_context *ctx)
{
	int ret;

	ret = mutex_lock_killable(&ctx->grow);
	if (ret)
		return ret;

	/* Another task may have enabled it meanwhile. */
	if (!ctx->table)
		ret = htw_table_enable_pages(ctx);

	if (!ret && !ctx->table) {
		/* Not between reporting an event and htw_event_consume(), which must agree. */
		spin_lock_bh(&ctx->lock);
		WRITE_ONCE(ctx->table, true);
		spin_unlock_bh(&ctx->lock);

		/* Sections that have not seen it end before a program can store to it. */
		synchronize_rcu();
		/* Pairs with htw_table_enable(). */
		smp_store_release(&ctx->table_ready, true);
	}

	mutex_unlock(&ctx->grow);
	return ret;
}

/**
 * htw_table_enable() - give a context a table of deadlines, if it has none yet
 * @ctx: the context
 *
 * From then on, all its timers are treated as if %HTW_F_KEEP were set.
 *
 * Context: may sleep, the first time for a grace period; charged to the
 * caller's cgroup. At the user's limit, waits a moment for closed contexts to be
 * freed.
 * Return: 0, -EDQUOT, -ENOMEM or -EINTR.
 */
int htw_table_enable(struct htw_context *ctx)
{
	const unsigned long until = jiffies + HTW_TABLE_WAIT;
	int ret;

	/* Enabled, and seen by all sections; pairs with htw_table_enable_slow(). */
	if (smp_load_acquire(&ctx->table_ready))
		return 0;
	do {
		ret = htw_table_enable_slow(ctx);
	} while (ret == -EDQUOT && atomic_read(&ctx->user->closing) &&
		 time_before(jiffies, until) && !schedule_timeout_killable(1));
	return ret;
}
