// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pool of timers of a context: their pages, and the limits
 */

#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "pool.h"
#include "shrink.h"
#include "table.h"

/* Contexts with at least this many pages allocate 2^order at a time. */
#define HTW_PREALLOC_MIN_PAGES	64u
#define HTW_PREALLOC_ORDER	3u
/* Entries of directories that a user may have, for each page of its limit. */
#define HTW_DIRECTORY_ENTRIES	32u

/* The list to which this CPU returns timers that were freed. */
struct list_head *htw_pool_free_list(struct htw_context *ctx)
{
	unsigned int group = htw_pool_group(raw_smp_processor_id());

	lockdep_assert_held(&ctx->lock);

	ctx->free_groups |= BIT(group);
	return &ctx->free[group];
}

/* Take over the free timers of another group of CPUs; return false if none has any. */
bool htw_pool_refill(struct htw_context *ctx)
{
	unsigned int group = htw_pool_group(raw_smp_processor_id());
	unsigned long others = ctx->free_groups & ~BIT(group);

	lockdep_assert_held(&ctx->lock);

	while (others) {
		unsigned int other = __ffs(others);

		others &= ~BIT(other);
		ctx->free_groups &= ~BIT(other);
		if (list_empty(&ctx->free[other]))
			continue;
		list_splice_init(&ctx->free[other], htw_pool_free_list(ctx));
		return true;
	}
	return false;
}

/* Take up to @want timers of this CPU's free list, and return how many. */
static u32 htw_pool_alloc_freed(struct htw_context *ctx,
				struct list_head *timers, u32 want, u64 *ids)
{
	struct list_head *free = htw_pool_alloc_list(ctx);
	struct list_head *last = free;
	LIST_HEAD(taken);
	u32 got = 0;

	while (got < want && last->next != free) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		last = last->next;
		WRITE_ONCE(t->node.state, HTW_RESERVED);
		if (ids)
			ids[got] = htw_timer_id(t);
		got++;
	}
	list_cut_position(&taken, free, last);
	list_splice_tail(&taken, timers);
	return got;
}

/* The same with timers that were never used, so that their ids are consecutive. */
static u32 htw_pool_alloc_unused(struct htw_context *ctx,
				 struct list_head *timers, u32 want, u64 *ids)
{
	u32 got = min(want, ctx->nr_unused);
	u32 generation = ctx->unused_generation;
	struct list_head *last = timers->prev;
	struct htw_timer *t = ctx->unused;
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

	ctx->unused = t;
	ctx->nr_unused -= got;
	return got;
}

/* Take up to @want free timers, and return how many. */
static u32 htw_pool_alloc_bulk(struct htw_context *ctx,
			       struct list_head *timers, u32 want, u64 *ids)
{
	u32 got;

	lockdep_assert_held(&ctx->lock);

	got = htw_pool_alloc_freed(ctx, timers, want, ids);
	got += htw_pool_alloc_unused(ctx, timers, want - got,
				     ids ? ids + got : NULL);
	while (got < want && htw_pool_refill(ctx))
		got += htw_pool_alloc_freed(ctx, timers, want - got,
					    ids ? ids + got : NULL);
	ctx->nr_timers += got;
	return got;
}

/* Free reserved timers, and return how many. */
static u32 htw_pool_free_bulk(struct htw_context *ctx, struct list_head *timers)
{
	u32 freed = 0;

	lockdep_assert_held(&ctx->lock);

	while (!list_empty(timers)) {
		htw_timer_free(htw_timer_pop(timers), htw_pool_free_list(ctx));
		freed++;
	}
	return freed;
}

/*
 * Charge the user for all timers of 2^order pages that are about to be
 * allocated. At the user's limit one page is charged for the timers that are
 * left, and no more of its timers are used. No user has two such pages, so
 * charges correspond to the memory that is held.
 *
 * Return: how many timers were charged, or zero.
 */
static u32 htw_pool_charge_pages(struct htw_context *ctx, unsigned int order)
{
	u32 all = HTW_PAGE_TIMERS << order;
	u32 charged = htw_user_charge(ctx->user, all, all);

	lockdep_assert_held(&ctx->grow);

	if (!charged && !order && !atomic_cmpxchg(&ctx->user->partial, 0, 1)) {
		charged = htw_user_charge(ctx->user, 1, all);
		ctx->partial = charged && charged < all;
		if (!ctx->partial)
			atomic_set(&ctx->user->partial, 0);
	}
	ctx->charged += charged;
	return charged;
}

static void htw_pool_uncharge_pages(struct htw_context *ctx, u32 charged)
{
	lockdep_assert_held(&ctx->grow);

	ctx->charged -= charged;
	if (ctx->partial && charged < HTW_PAGE_TIMERS) {
		ctx->partial = false;
		atomic_set(&ctx->user->partial, 0);
	}
	htw_user_uncharge(ctx->user, charged);
}

/* Uncharge all pages of a context, when they have been freed. */
void htw_pool_uncharge_all(struct htw_context *ctx)
{
	if (ctx->partial)
		atomic_set(&ctx->user->partial, 0);
	htw_user_uncharge(ctx->user, ctx->charged);
}

/* Allocate several pages at a time, which costs less for each; return false if that fails. */
static bool htw_pool_alloc_ahead(struct htw_context *ctx)
{
	u32 charged = htw_pool_charge_pages(ctx, HTW_PREALLOC_ORDER);
	struct page *page;

	lockdep_assert_held(&ctx->grow);

	if (!charged)
		return false;
	page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NORETRY |
				   __GFP_NOWARN,
			   HTW_PREALLOC_ORDER);
	if (!page) {
		htw_pool_uncharge_pages(ctx, charged);
		return false;
	}
	split_page(page, HTW_PREALLOC_ORDER);
	ctx->prealloc = page_address(page);
	ctx->nr_prealloc = BIT(HTW_PREALLOC_ORDER);
	return true;
}

/*
 * Allocate from the page allocator: memory of a slab would stay until all its
 * objects are free. @charged: out: how many of its timers may be used.
 *
 * Return: the page, ERR_PTR(-EDQUOT) or ERR_PTR(-ENOMEM).
 */
static struct htw_page *htw_pool_alloc_page(struct htw_context *ctx,
					    u32 *charged)
{
	struct page *page;

	lockdep_assert_held(&ctx->grow);

	if (ctx->nr_prealloc || (ctx->nr_allocated >= HTW_PREALLOC_MIN_PAGES &&
				 htw_pool_alloc_ahead(ctx))) {
		*charged = HTW_PAGE_TIMERS;
		return ctx->prealloc + --ctx->nr_prealloc;
	}
	*charged = htw_pool_charge_pages(ctx, 0);
	if (!*charged)
		return ERR_PTR(-EDQUOT);
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!page) {
		htw_pool_uncharge_pages(ctx, *charged);
		return ERR_PTR(-ENOMEM);
	}
	return page_address(page);
}

/* Return the directory index for a new page: the first empty entry, else the end. */
static u32 htw_pool_next_page(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->grow);

	if (ctx->nr_allocated == ctx->nr_pages)
		return ctx->nr_pages;
	while (rcu_access_pointer(*htw_context_entry(ctx, ctx->first_empty)) != &htw_no_page)
		ctx->first_empty++;
	return ctx->first_empty;
}

/*
 * Make room in the directory for index @nr. Directories outlive pages that are
 * given back, so a user could have many long ones.
 */
static int htw_pool_extend_directory(struct htw_context *ctx, u32 nr)
{
	struct htw_directory *old = rcu_dereference_protected(ctx->dir,
							      lockdep_is_held(&ctx->grow));
	u32 held = htw_directory_entries(old);
	struct htw_directory *dir;
	u32 charged, limit;

	if (nr < held)
		return 0;

	/* Full of pages in which the generations of too many slots are used up. */
	if (nr == HTW_DIRECTORY_MAX)
		return -ENOSPC;

	charged = max(2 * held, HTW_DIRECTORY_FIRST);
	limit = HTW_DIRECTORY_ENTRIES * DIV_ROUND_UP(READ_ONCE(htw_max_user_timers),
						     HTW_PAGE_TIMERS);
	if (!htw_user_charge_directory(ctx->user, charged, limit))
		return -EDQUOT;

	dir = htw_directory_double(old);
	if (!dir) {
		htw_user_uncharge_directory(ctx->user, charged);
		return -ENOMEM;
	}

	rcu_assign_pointer(ctx->dir, dir);
	htw_directory_free(old);
	htw_user_uncharge_directory(ctx->user, held);
	return 0;
}

/* Add a page of free timers; @grow is held. */
int htw_pool_grow(struct htw_context *ctx)
{
	u32 generation = ctx->generation;
	u32 nr = htw_pool_next_page(ctx);
	struct htw_page *page;
	LIST_HEAD(left);
	u32 charged;
	int ret;

	lockdep_assert_held(&ctx->grow);

	ret = htw_pool_extend_directory(ctx, nr);
	if (ret)
		return ret;
	page = htw_pool_alloc_page(ctx, &charged);
	if (IS_ERR(page))
		return PTR_ERR(page);
	page->ctx = ctx;
	page->slot = nr * HTW_PAGE_SLOTS;
	ret = ctx->table ? htw_table_add_page(ctx, page, nr) : 0;
	if (ret) {
		htw_page_free(page);
		htw_pool_uncharge_pages(ctx, charged);
		return ret;
	}
	rcu_assign_pointer(*htw_context_entry(ctx, nr), page);
	if (nr == ctx->nr_pages) {
		/* Pairs with htw_context_pages(). */
		smp_store_release(&ctx->nr_pages, nr + 1);
	}

	spin_lock_bh(&ctx->lock);
	/* Free what was never used of the previous page, usually nothing. */
	htw_pool_alloc_unused(ctx, &left, ctx->nr_unused, NULL);
	htw_pool_free_bulk(ctx, &left);
	ctx->unused = page->timers;
	ctx->unused_generation = generation;
	/* The others of a page that is charged for fewer stay as they are: free and on no list. */
	ctx->nr_unused = charged;
	htw_shrink_page_added(ctx);
	spin_unlock_bh(&ctx->lock);
	return 0;
}

/*
 * Take up to @want free timers, and add pages until there are enough; see
 * htw_pool_reserve(). One loop, which takes timers in one place: with two, an
 * add costs more.
 */
static int htw_pool_take(struct htw_context *ctx, struct list_head *timers,
			 u32 want, u64 *ids)
{
	bool growing = false;
	u32 got = 0;
	int ret = 0;

	for (;;) {
		u32 room;

		spin_lock_bh(&ctx->lock);
		room = ctx->limit - min(ctx->nr_timers, ctx->limit);
		got += htw_pool_alloc_bulk(ctx, timers, min(want - got, room),
					   ids ? ids + got : NULL);
		if (ctx->nr_timers >= ctx->limit)
			ret = -ENOSPC;
		spin_unlock_bh(&ctx->lock);
		if (got == want || ret)
			break;

		if (growing) {
			ret = fatal_signal_pending(current) ? -EINTR :
							      htw_pool_grow(ctx);
			cond_resched();
		} else {
			/*
			 * Look once more with @grow held, as others may have
			 * added pages or freed timers meanwhile: no page is
			 * added while a timer is free, so there are never more
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
	return got ?: ret;
}

/**
 * htw_pool_reserve() - reserve timers that are to be added
 * @ctx: the context
 * @timers: list to append them to
 * @want: how many, at least 1
 * @ids: array for their ids, or NULL
 * @wait: how long the call may wait at the user's limit
 *
 * Makes sure that there is a base to start them on, so that arming them cannot
 * fail.
 *
 * Context: may sleep; takes @ctx->grow. Memory is charged to the caller's
 * cgroup. At the user's limit, waits until closed contexts have been freed.
 * Return: the number of reserved timers, from 1 to @want; -ENOSPC at the
 * context's limit, or when too many ids have been used up; -EDQUOT at the
 * user's limit, -ENOMEM, -EINTR.
 */
int htw_pool_reserve(struct htw_context *ctx, struct list_head *timers,
		     u32 want, u64 *ids, struct htw_user_wait *wait)
{
	int got = htw_pool_take(ctx, timers, want, ids);

	if (got == -EDQUOT) {
		htw_user_wait_begin(wait, ctx->user);
		do {
			got = htw_pool_take(ctx, timers, want, ids);
		} while (got == -EDQUOT && htw_user_wait_again(wait));
	}
	if (got > 0 && !htw_context_create_base(ctx)) {
		htw_pool_unreserve(ctx, timers);
		return -ENOMEM;
	}
	return got;
}

/* Free reserved timers that were not added. Their ids end: the program may have seen them. */
void htw_pool_unreserve(struct htw_context *ctx, struct list_head *timers)
{
	u32 freed;

	spin_lock_bh(&ctx->lock);
	freed = htw_pool_free_bulk(ctx, timers);
	htw_shrink_timers_freed(ctx, freed);
	spin_unlock_bh(&ctx->lock);
}
