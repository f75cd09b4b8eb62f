// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots: pages of timers, their ids and the limits
 */

#include <linux/bitops.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "shrink.h"
#include "slots.h"
#include "table.h"

/* From so many pages on, 2^order are made at a time. */
#define HTW_SPARE_FROM		64u
#define HTW_SPARE_ORDER		3u

/**
 * htw_slots_refill() - what another CPU freed becomes this one's
 * @ctx: the context, whose lock is held
 *
 * Return: false if there is none.
 */
bool htw_slots_refill(struct htw_context *ctx)
{
	const unsigned int here = raw_smp_processor_id() % HTW_FREE_LISTS;
	unsigned long others = ctx->free_cpus & ~BIT(here);

	lockdep_assert_held(&ctx->lock);

	while (others) {
		const unsigned int cpu = __ffs(others);

		others &= ~BIT(cpu);
		ctx->free_cpus &= ~BIT(cpu);
		if (list_empty(&ctx->free[cpu]))
			continue;
		list_splice_init(&ctx->free[cpu], htw_slots_free_list(ctx));
		return true;
	}
	return false;
}

/* Takes up to @want timers that this CPU freed; returns how many. */
static u32 htw_slots_alloc_used(struct htw_context *ctx, struct list_head *timers, u32 want,
				u64 *ids)
{
	struct list_head *free = htw_slots_alloc_list(ctx);
	struct list_head *last = free;
	LIST_HEAD(cut);
	u32 got = 0;

	while (got < want && last->next != free) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		last = last->next;
		WRITE_ONCE(t->node.state, HTW_RESERVED);
		if (ids)
			ids[got] = htw_timer_id(t);
		got++;
	}
	list_cut_position(&cut, free, last);
	list_splice_tail(&cut, timers);
	return got;
}

/* The same with timers that have never been used: their ids follow each other. */
static u32 htw_slots_alloc_fresh(struct htw_context *ctx, struct list_head *timers, u32 want,
				 u64 *ids)
{
	const u32 got = min(want, ctx->nr_fresh);
	const u32 generation = ctx->fresh_generation;
	struct list_head *last = timers->prev;
	struct htw_timer *t = ctx->fresh;
	u64 id;

	if (!got)
		return 0;
	id = (u64)generation << 32 | htw_timer_slot(t);
	for (u32 i = 0; ids && i < got; i++)
		ids[i] = id + i;
	for (u32 i = 0; i < got; i++, t++) {
		WRITE_ONCE(t->generation, generation);
		WRITE_ONCE(t->node.state, HTW_RESERVED);
		t->node.list.prev = last;
		last->next = &t->node.list;
		last = last->next;
	}
	last->next = timers;
	timers->prev = last;
	ctx->fresh = t;
	ctx->nr_fresh -= got;
	return got;
}

/* Takes up to @want free timers, as many as there are; returns how many. */
static u32 htw_slots_alloc_bulk(struct htw_context *ctx, struct list_head *timers, u32 want,
				u64 *ids)
{
	u32 got;

	lockdep_assert_held(&ctx->lock);

	got = htw_slots_alloc_used(ctx, timers, want, ids);
	got += htw_slots_alloc_fresh(ctx, timers, want - got, ids ? ids + got : NULL);
	while (got < want && htw_slots_refill(ctx))
		got += htw_slots_alloc_used(ctx, timers, want - got, ids ? ids + got : NULL);
	ctx->nr_timers += got;
	return got;
}

/* Frees timers that were cut; returns how many. */
static u32 htw_slots_free_bulk(struct htw_context *ctx, struct list_head *timers)
{
	u32 freed = 0;

	lockdep_assert_held(&ctx->lock);

	while (!list_empty(timers)) {
		htw_timer_free(htw_timer_pop(timers), htw_slots_free_list(ctx));
		freed++;
	}
	return freed;
}

/*
 * A page is a page, not of a slab: one that is given back need not wait for its
 * neighbours. Where there are many, some are made at a time, and then split.
 */
static struct htw_page *htw_page_alloc(struct htw_context *ctx)
{
	struct page *page = NULL;
	unsigned int order = 0;

	lockdep_assert_held(&ctx->grow);

	if (ctx->nr_spare)
		return ctx->spare + --ctx->nr_spare;
	if (ctx->nr_held >= HTW_SPARE_FROM) {
		order = HTW_SPARE_ORDER;
		page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN,
				   order);
	}
	if (!page) {
		order = 0;
		page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	}
	if (!page)
		return NULL;
	split_page(page, order);
	ctx->spare = page_address(page);
	ctx->nr_spare = BIT(order) - 1;
	return ctx->spare + ctx->nr_spare;
}

/* The place for a page more: the first hole, or else behind all the others. */
static u32 htw_slots_next_page(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->grow);

	if (ctx->nr_held == ctx->nr_pages)
		return ctx->nr_pages;
	while (rcu_access_pointer(*htw_context_entry(ctx, ctx->hole)) != &htw_no_page)
		ctx->hole++;
	return ctx->hole;
}

/* Makes room in the directory for a page of that number. */
static int htw_slots_extend_directory(struct htw_context *ctx, u32 nr)
{
	struct htw_directory *old = rcu_dereference_protected(ctx->dir,
							      lockdep_is_held(&ctx->grow));
	struct htw_directory *dir;

	if (likely(old != &htw_no_directory && nr <= old->mask))
		return 0;
	if (nr == HTW_DIRECTORY_MAX)	/* slots retired, all of them */
		return -ENOSPC;
	dir = htw_directory_double(old);
	if (!dir)
		return -ENOMEM;
	rcu_assign_pointer(ctx->dir, dir);
	htw_directory_free(old);
	return 0;
}

/* Adds a page of free timers. */
int htw_slots_grow(struct htw_context *ctx)
{
	const u32 generation = ctx->generation;
	const u32 nr = htw_slots_next_page(ctx);
	struct htw_page *page;
	LIST_HEAD(left);
	int ret;

	lockdep_assert_held(&ctx->grow);

	ret = htw_slots_extend_directory(ctx, nr);
	if (ret)
		return ret;
	page = htw_page_alloc(ctx);
	if (!page)
		return -ENOMEM;
	page->ctx = ctx;
	page->slot = nr * HTW_PAGE_SLOTS;
	if (ctx->table && htw_table_add_page(ctx, page, nr)) {
		htw_page_free(page);
		return -ENOMEM;
	}
	rcu_assign_pointer(*htw_context_entry(ctx, nr), page);
	if (nr == ctx->nr_pages) {
		/* Pairs with htw_context_pages(). */
		smp_store_release(&ctx->nr_pages, nr + 1);
	}

	spin_lock_bh(&ctx->lock);
	/* As a rule none is left of the page before. */
	htw_slots_alloc_fresh(ctx, &left, ctx->nr_fresh, NULL);
	htw_slots_free_bulk(ctx, &left);
	ctx->fresh = page->timers;
	ctx->fresh_generation = generation;
	ctx->nr_fresh = HTW_PAGE_TIMERS;
	htw_shrink_grown(ctx);
	spin_unlock_bh(&ctx->lock);
	return 0;
}

/**
 * htw_slots_reserve() - takes free timers for adds to come
 * @ctx: the context
 * @timers: where to put them, behind what is there
 * @want: how many, at least 1
 * @ids: NULL, or where to tell their ids
 *
 * Context: may sleep; takes @ctx->grow; memory is charged to the caller's cgroup.
 * Return: how many were taken, from 1 to @want; -ENOSPC at the context's
 * limit, -EDQUOT at the user's, -ENOMEM, -EINTR.
 */
int htw_slots_reserve(struct htw_context *ctx, struct list_head *timers, u32 want, u64 *ids)
{
	const u32 granted = htw_user_charge(ctx->user, want);
	int ret = granted ? 0 : -EDQUOT;
	bool growing = false;
	u32 got = 0;

	/* What is granted counts meanwhile, so others of that user may see less. */
	for (;;) {
		u32 room;

		spin_lock_bh(&ctx->lock);
		room = ctx->limit - min(ctx->nr_timers, ctx->limit);
		got += htw_slots_alloc_bulk(ctx, timers, min(granted - got, room),
					    ids ? ids + got : NULL);
		if (unlikely(ctx->nr_timers >= ctx->limit))
			ret = -ENOSPC;
		spin_unlock_bh(&ctx->lock);
		if (got == granted || ret)
			break;
		if (growing) {
			ret = fatal_signal_pending(current) ? -EINTR : htw_slots_grow(ctx);
			cond_resched();
		} else {
			/*
			 * For all that is wanted. Then look again: others may have grown it
			 * or freed some. A page is made only where that look, with this lock
			 * held, finds none free below the limit: so there are no more
			 * pages than the limit needs.
			 */
			ret = mutex_lock_killable(&ctx->grow);
			growing = !ret;
		}
		if (ret)
			break;
	}
	if (growing)
		mutex_unlock(&ctx->grow);
	/* What is reserved needs a base to be started on: then arming it cannot fail. */
	if (likely(got) && unlikely(!htw_context_create_base(ctx))) {
		htw_user_uncharge(ctx->user, granted - got);
		htw_slots_unreserve(ctx, timers);
		return -ENOMEM;
	}
	htw_user_uncharge(ctx->user, granted - got);
	return got ?: ret;
}

/**
 * htw_slots_unreserve() - gives back timers that no add has used
 * @ctx: the context
 * @timers: they
 *
 * Their ids have ended, as a program may have seen them.
 */
void htw_slots_unreserve(struct htw_context *ctx, struct list_head *timers)
{
	u32 freed;

	spin_lock_bh(&ctx->lock);
	freed = htw_slots_free_bulk(ctx, timers);
	htw_slots_count_freed(ctx, freed);
	spin_unlock_bh(&ctx->lock);
	htw_user_uncharge(ctx->user, freed);
}
