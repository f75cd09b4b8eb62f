// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of deadlines that a program maps: its memory
 *
 * Each slot has an override of 8 bytes. The overrides of a page of timers are
 * 512 bytes (with 4 KiB pages) of a table page that it shares with its
 * neighbours; the header of the page of timers points to them. Table pages live
 * as long as the context, so an override is found without a lock. Delivery
 * applies overrides when a deadline comes, queries show them.
 */

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "table.h"

/* Charge the user for table pages; return false at the limit. */
bool htw_table_charge(struct htw_context *ctx, u32 pages)
{
	u32 count = pages * HTW_PAGE_TIMERS;

	lockdep_assert_held(&ctx->grow);

	if (count && !htw_user_charge(ctx->user, count, count))
		return false;
	ctx->charged += count;
	return true;
}

void htw_table_uncharge(struct htw_context *ctx, u32 pages)
{
	lockdep_assert_held(&ctx->grow);

	ctx->charged -= pages * HTW_PAGE_TIMERS;
	htw_user_uncharge(ctx->user, pages * HTW_PAGE_TIMERS);
}

/**
 * htw_table_assign() - give a page of timers its overrides
 * @ctx: the context
 * @page: the page of timers
 * @nr: its number
 * @table: a new table page if @page is the first to share one, otherwise unused
 */
void htw_table_assign(struct htw_context *ctx, struct htw_page *page, u32 nr,
		      u64 *table)
{
	if (nr % HTW_TABLE_PAGES)
		table = htw_context_page(ctx, nr - 1)->table + HTW_PAGE_SLOTS;
	/* The overrides are zero before they can be found; pairs by the address dependency. */
	smp_store_release(&page->table, table);
}

/**
 * htw_table_add_page() - give a new page of timers its overrides
 * @ctx: the context, which has a table
 * @page: the page of timers, not visible to others yet
 * @nr: its number
 *
 * Context: may sleep, with @ctx->grow held; charged to the caller's cgroup.
 * Return: 0, -EDQUOT or -ENOMEM.
 */
int htw_table_add_page(struct htw_context *ctx, struct htw_page *page, u32 nr)
{
	u64 *table = NULL;

	lockdep_assert_held(&ctx->grow);

	if (nr % HTW_TABLE_PAGES == 0) {
		if (!htw_table_charge(ctx, 1))
			return -EDQUOT;
		table = (u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!table) {
			htw_table_uncharge(ctx, 1);
			return -ENOMEM;
		}
	}
	htw_table_assign(ctx, page, nr, table);
	return 0;
}

/* Free the table of a context that is no longer in use. */
void htw_table_free(struct htw_context *ctx)
{
	for (u32 nr = 0; ctx->table && nr < ctx->nr_pages;
	     nr += HTW_TABLE_PAGES)
		free_page((unsigned long)htw_context_page(ctx, nr)->table);
}

/*
 * The largest size of a mapping, in bytes: HTW_TABLE_SIZE() of the limit in
 * whole pages, which suffices for pages of any size; more if there are pages
 * from before the limit was set.
 */
size_t htw_table_size(const struct htw_context *ctx)
{
	size_t allocated = (size_t)DIV_ROUND_UP(htw_context_pages(ctx), HTW_TABLE_PAGES);

	return max_t(size_t, PAGE_ALIGN(HTW_TABLE_SIZE(READ_ONCE(ctx->limit))),
		     allocated << PAGE_SHIFT);
}

/* The table page at an offset in bytes; NULL if there are no timers yet. */
struct page *htw_table_page(struct htw_context *ctx, u64 offset)
{
	u32 nr_pages = htw_context_pages(ctx);
	u64 nr = (offset >> PAGE_SHIFT) * HTW_TABLE_PAGES;

	if (nr >= nr_pages)
		return NULL;
	/* Pages of a context with a table are never given back. */
	return virt_to_page(htw_context_page(ctx, nr)->table);
}
