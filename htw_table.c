// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table of deadlines that a program maps: its memory
 *
 * The words of a chunk's 64 slots are 512 bytes of a page that it shares with
 * its neighbours, and the chunk's header tells where. The page is there for as
 * long as the context, so a word is found with no lock. What the words mean is
 * with those who look at them: the delivery, in htw_queue.c, when a deadline
 * comes, and whoever tells a program about a timer.
 */

#include <linux/gfp.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "htw_context.h"
#include "htw_table.h"

/* Chunks whose words share a page. */
#define HTW_TABLE_CHUNKS	((u32)(PAGE_SIZE / (HTW_CHUNK_SLOTS * sizeof(u64))))

/* Gives a chunk its words: the first ones of a new @page, or those that follow. */
static void htw_table_give(struct htw_context *ctx, struct htw_chunk *chunk, u32 nr,
			   u64 *page)
{
	u64 *table = page;

	if (nr % HTW_TABLE_CHUNKS)
		table = htw_context_chunk(ctx, nr - 1)->table + HTW_CHUNK_SLOTS;
	/* Who finds the words finds zeroes: the address depends on this. */
	smp_store_release(&chunk->table, table);
}

/**
 * htw_table_add_chunk() - gives a new chunk its words
 * @ctx: the context, which has a table
 * @chunk: the chunk, which nobody sees yet
 * @nr: its number
 *
 * Context: may sleep, with @ctx->grow held; charged to the caller's cgroup.
 * Return: 0 or -ENOMEM.
 */
int htw_table_add_chunk(struct htw_context *ctx, struct htw_chunk *chunk, u32 nr)
{
	u64 *page = NULL;

	lockdep_assert_held(&ctx->grow);

	if (nr % HTW_TABLE_CHUNKS == 0) {
		page = (u64 *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!page)
			return -ENOMEM;
	}
	htw_table_give(ctx, chunk, nr, page);
	return 0;
}

static void htw_table_free_list(struct list_head *pages)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, pages, lru)
		__free_page(page);
}

/* All pages that the chunks there are need, so that nothing can fail later. */
static int htw_table_alloc_list(const struct htw_context *ctx, struct list_head *pages)
{
	for (u32 nr = 0; nr < ctx->nr_chunks; nr += HTW_TABLE_CHUNKS) {
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

/**
 * htw_table_enable() - gives a context a table, if it has none yet
 * @ctx: the context
 *
 * From now on, and for good, its timers are as if %HTW_F_KEEP were set.
 *
 * Context: may sleep, the first time for a grace period; charged to the caller's cgroup.
 * Return: 0, -ENOMEM or -EINTR.
 */
int htw_table_enable(struct htw_context *ctx)
{
	struct page *page = NULL;
	LIST_HEAD(pages);
	int ret;

	/* Pairs with the release below: on already, and known to all. */
	if (smp_load_acquire(&ctx->table_is_known))
		return 0;
	ret = mutex_lock_killable(&ctx->grow);
	if (ret)
		return ret;
	/* What was given back is made again: then no chunk is without words. */
	while (!ret && !ctx->table && ctx->nr_held < ctx->nr_chunks)
		ret = fatal_signal_pending(current) ? -EINTR : htw_context_grow(ctx);
	if (!ret && !ctx->table)
		ret = htw_table_alloc_list(ctx, &pages);
	for (u32 nr = 0; !ret && !ctx->table && nr < ctx->nr_chunks; nr++) {
		if (nr % HTW_TABLE_CHUNKS == 0) {
			page = list_first_entry(&pages, struct page, lru);
			list_del(&page->lru);
		}
		htw_table_give(ctx, htw_context_chunk(ctx, nr), nr, page_address(page));
		cond_resched();
	}
	htw_table_free_list(&pages);
	if (!ret && !ctx->table_is_known) {
		/* Not between telling an expiration and doing what was told. */
		spin_lock_bh(&ctx->lock);
		WRITE_ONCE(ctx->table, true);
		spin_unlock_bh(&ctx->lock);
		/* Runs that do not know of it end before anybody can store into it. */
		synchronize_rcu();
		/* Pairs with the acquire above. */
		smp_store_release(&ctx->table_is_known, true);
	}
	mutex_unlock(&ctx->grow);
	return ret;
}

/**
 * htw_table_free() - frees a context's table
 * @ctx: the context, which nobody uses any more
 */
void htw_table_free(struct htw_context *ctx)
{
	for (u32 nr = 0; ctx->table && nr < ctx->nr_chunks; nr += HTW_TABLE_CHUNKS)
		free_page((unsigned long)htw_context_chunk(ctx, nr)->table);
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
	const size_t made = (size_t)DIV_ROUND_UP(htw_context_chunks(ctx), HTW_TABLE_CHUNKS);

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
	const u32 nr_chunks = htw_context_chunks(ctx);
	const u64 nr = (offset >> PAGE_SHIFT) * HTW_TABLE_CHUNKS;

	if (nr >= nr_chunks)
		return NULL;
	/* Chunks of a context with a table stay. */
	return virt_to_page(htw_context_chunk(ctx, nr)->table);
}
