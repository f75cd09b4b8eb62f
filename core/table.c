// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of deadlines that a program maps: its memory
 *
 * The words of a page's 64 slots are 512 bytes of a page that it shares with
 * its neighbours, and the page's header tells where. The page is there for as
 * long as the context, so a word is found with no lock. What the words mean is
 * with those who look at them: the delivery, in expire.c, when a deadline
 * comes, and whoever tells a program about a timer.
 */

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "table.h"

/**
 * htw_table_assign() - gives a page its words
 * @ctx: the context
 * @page: the page
 * @nr: its number
 * @words: where that is the first of those that share a page: the page
 */
void htw_table_assign(struct htw_context *ctx, struct htw_page *page, u32 nr, u64 *words)
{
	u64 *table = words;

	if (nr % HTW_TABLE_PAGES)
		table = htw_context_page(ctx, nr - 1)->table + HTW_PAGE_SLOTS;
	/* Who finds the words finds zeroes: the address depends on this. */
	smp_store_release(&page->table, table);
}

/**
 * htw_table_add_page() - gives a new page its words
 * @ctx: the context, which has a table
 * @page: the page, which nobody sees yet
 * @nr: its number
 *
 * Context: may sleep, with @ctx->grow held; charged to the caller's cgroup.
 * Return: 0 or -ENOMEM.
 */
int htw_table_add_page(struct htw_context *ctx, struct htw_page *page, u32 nr)
{
	u64 *words = NULL;

	lockdep_assert_held(&ctx->grow);

	if (nr % HTW_TABLE_PAGES == 0) {
		words = (u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!words)
			return -ENOMEM;
	}
	htw_table_assign(ctx, page, nr, words);
	return 0;
}

/**
 * htw_table_free() - frees a context's table
 * @ctx: the context, which nobody uses any more
 */
void htw_table_free(struct htw_context *ctx)
{
	for (u32 nr = 0; ctx->table && nr < ctx->nr_pages; nr += HTW_TABLE_PAGES)
		free_page((unsigned long)htw_context_page(ctx, nr)->table);
}

/**
 * htw_table_size() - how large a mapping may be
 * @ctx: the context
 *
 * Return: bytes, whole pages: the words of as many slots as its limit needs, by what
 * HTW_TABLE_SIZE() says of pages of any size; of more where calls that failed had made them
 * before the limit was set.
 */
size_t htw_table_size(const struct htw_context *ctx)
{
	const size_t made = (size_t)DIV_ROUND_UP(htw_context_pages(ctx), HTW_TABLE_PAGES);

	return max_t(size_t, PAGE_ALIGN(HTW_TABLE_SIZE(READ_ONCE(ctx->limit))),
		     made << PAGE_SHIFT);
}

/**
 * htw_table_page() - the page at an offset into the table
 * @ctx: the context, which has a table
 * @offset: the offset, in bytes
 *
 * Return: the page; NULL where there are no timers yet.
 */
struct page *htw_table_page(struct htw_context *ctx, u64 offset)
{
	const u32 nr_pages = htw_context_pages(ctx);
	const u64 nr = (offset >> PAGE_SHIFT) * HTW_TABLE_PAGES;

	if (nr >= nr_pages)
		return NULL;
	/* Chunks of a context with a table stay. */
	return virt_to_page(htw_context_page(ctx, nr)->table);
}
