// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a context's timers: pages, their directory, limits
 */

#include <linux/gfp.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "pages.h"

/* Entries of a context's first directory, and of the longest; powers of two. */
#define HTW_DIRECTORY_FIRST	16u
/* Entries that are copied without a point of rescheduling. */
#define HTW_DIRECTORY_STEP	4096u
/* A context of at least this many pages has 2^order allocated at a time. */
#define HTW_SPARE_MIN		64u
#define HTW_SPARE_ORDER		3u
/*
 * Pages that are taken out while the lock is held, and timers that end, for
 * which that is done once.
 */
#define HTW_SHRINK_PAGES	16u
#define HTW_SHRINK_TIMERS	16u
/*
 * A page with a later generation is not given back, but retired: new pages
 * begin with the latest one, and must have enough.
 */
#define HTW_GENERATION_OLD	(3u << 30)

/*
 * What is in the directory where a page was given back: timers that are free
 * for ever.
 */
struct htw_page *htw_pages_hole(void)
{
	return page_address(ZERO_PAGE(0));
}

static struct htw_page *htw_pages_at(const struct htw_context *ctx, u32 nr)
{
	struct htw_directory *dir = rcu_dereference_protected(ctx->ids.dir, true);

	return rcu_dereference_protected(dir->pages[nr - 1], true);
}

/* Memory of a directory, with what the allocator adds. */
static size_t htw_pages_directory_bytes(u32 entries)
{
	return kmalloc_size_roundup(struct_size((struct htw_directory *)NULL, pages, entries));
}

/* Free spare pages. */
static void htw_pages_free_spare(struct htw_context *ctx)
{
	struct htw_ids *ids = &ctx->ids;

	htw_context_uncharge(ctx, ids->nr_spare * PAGE_SIZE);
	while (ids->nr_spare)
		free_page((unsigned long)ids->spare + --ids->nr_spare * PAGE_SIZE);
}

/*
 * Free all pages; timers are not looked at. Nobody uses the context any more.
 */
void htw_pages_exit(struct htw_context *ctx)
{
	struct htw_ids *ids = &ctx->ids;
	struct htw_directory *dir = rcu_dereference_protected(ids->dir, true);

	for (u32 nr = 1; nr < ids->nr_pages; nr++) {
		struct htw_page *page = htw_pages_at(ctx, nr);

		if (page != htw_pages_hole())
			free_page((unsigned long)page);
		cond_resched();
	}
	htw_context_uncharge(ctx, ids->nr_held * PAGE_SIZE);
	htw_pages_free_spare(ctx);
	if (ids->first)
		htw_context_uncharge(ctx, HTW_FIRST_SLOTS * sizeof(struct htw_timer));
	kfree(ids->first);
	if (dir)
		htw_context_uncharge(ctx, htw_pages_directory_bytes(dir->mask + 1));
	kvfree(dir);
}

/* Have room in the directory for page @nr. */
static int htw_pages_extend(struct htw_context *ctx, u32 nr, gfp_t gfp)
{
	struct htw_ids *ids = &ctx->ids;
	struct htw_directory *old = rcu_dereference_protected(ids->dir, true), *dir;
	u32 held = old ? old->mask + 1 : 0, entries = held ? 2 * held : HTW_DIRECTORY_FIRST;

	if (nr <= held)
		return 0;
	if (held == HTW_DIRECTORY_MAX)
		return -ENOSPC;
	if (!htw_context_charge(ctx, htw_pages_directory_bytes(entries)))
		return -EDQUOT;

	dir = kvmalloc(struct_size(dir, pages, entries), gfp);
	if (!dir) {
		htw_context_uncharge(ctx, htw_pages_directory_bytes(entries));
		return htw_no_memory(gfp);
	}

	dir->mask = entries - 1;
	for (u32 i = 0; i < entries; i++) {
		struct htw_page *page = i < held ? rcu_access_pointer(old->pages[i]) : NULL;

		RCU_INIT_POINTER(dir->pages[i], page);
		if (i % HTW_DIRECTORY_STEP == 0)
			cond_resched();
	}

	rcu_assign_pointer(ids->dir, dir);
	if (!old)
		return 0;
	htw_context_uncharge(ctx, htw_pages_directory_bytes(held));
	kvfree_rcu(old, rcu);
	return 0;
}

/*
 * Have spare pages, if the context is large: several at a time cost less. Not
 * if that is hard.
 */
static void htw_pages_alloc_spare(struct htw_context *ctx, gfp_t gfp)
{
	struct htw_ids *ids = &ctx->ids;
	size_t bytes = PAGE_SIZE << HTW_SPARE_ORDER;
	struct page *page;

	lockdep_assert_held(&ctx->mutex);

	if (ids->nr_spare || ids->nr_pages < HTW_SPARE_MIN || !htw_context_try_charge(ctx, bytes))
		return;
	page = alloc_pages(HTW_GFP_EASY(gfp) | __GFP_ZERO, HTW_SPARE_ORDER);
	if (!page) {
		htw_context_uncharge(ctx, bytes);
		return;
	}
	split_page(page, HTW_SPARE_ORDER);
	ids->spare = page_address(page);
	ids->nr_spare = BIT(HTW_SPARE_ORDER);
}

/*
 * Memory of a new page, for which the user is charged; ERR_PTR(-EDQUOT) or
 * that of htw_no_memory().
 */
static struct htw_page *htw_pages_alloc(struct htw_context *ctx, u32 nr, u32 slots, gfp_t gfp)
{
	size_t bytes = slots * sizeof(struct htw_timer);
	struct htw_ids *ids = &ctx->ids;
	void *page;

	lockdep_assert_held(&ctx->mutex);

	htw_pages_alloc_spare(ctx, gfp);
	if (ids->nr_spare)
		return ids->spare + --ids->nr_spare * PAGE_SIZE;
	if (!htw_context_charge(ctx, bytes))
		return ERR_PTR(-EDQUOT);
	if (nr)
		page = (void *)__get_free_page(gfp | __GFP_ZERO);
	else
		page = kzalloc(bytes, gfp);
	if (!page) {
		htw_context_uncharge(ctx, bytes);
		return ERR_PTR(htw_no_memory(gfp));
	}
	return page;
}

/*
 * The number of the next page: that of one that was given back, or a new one.
 */
static u32 htw_pages_next(struct htw_context *ctx)
{
	struct htw_ids *ids = &ctx->ids;

	if (ids->nr_held + 1 >= ids->nr_pages)
		return ids->nr_pages;
	for (; htw_pages_at(ctx, ids->hole) != htw_pages_hole(); ids->hole++) {
		if (ids->hole % HTW_DIRECTORY_STEP == 0)
			cond_resched();
	}
	return ids->hole;
}

/* Have a new page's timers free, in their order. */
static void htw_page_init(const struct htw_ids *ids, struct htw_page *page, u32 nr, u32 slots)
{
	page->slot = nr * HTW_PAGE_SLOTS;
	page->generation = ids->generation;
	/*
	 * Those that the first page does not have count as used: it is never
	 * given back.
	 */
	page->used = HTW_PAGE_SLOTS - slots;
	page->free = &page->timers[0].node.list;
	for (struct htw_timer *t = page->timers; t < &page->header + slots - 1; t++)
		t->node.list.next = &t[1].node.list;
}

/* Add a page of timers. */
static int htw_pages_grow(struct htw_context *ctx, gfp_t gfp)
{
	struct htw_ids *ids = &ctx->ids;
	u32 nr = htw_pages_next(ctx), slots = nr ? HTW_PAGE_SLOTS : HTW_FIRST_SLOTS;
	struct htw_page *page;
	int ret;

	lockdep_assert_held(&ctx->mutex);

	ret = htw_pages_extend(ctx, nr, gfp);
	if (ret)
		return ret;
	page = htw_pages_alloc(ctx, nr, slots, gfp);
	if (IS_ERR(page))
		return PTR_ERR(page);
	htw_page_init(ids, page, nr, slots);
	if (nr)
		rcu_assign_pointer(rcu_dereference_protected(ids->dir, true)->pages[nr - 1],
				   page);
	else
		WRITE_ONCE(ids->first, page);
	WRITE_ONCE(ids->nr_held, ids->nr_held + !!nr);

	spin_lock(&ids->lock);
	WRITE_ONCE(ids->nr_empty, ids->nr_empty + !!nr);
	list_add_tail(&page->list, &ids->pages);
	if (nr == ids->nr_pages)
		smp_store_release(&ids->nr_pages, nr + 1);	/* pairs with htw_ids_pages() */
	spin_unlock(&ids->lock);
	return 0;
}

/**
 * htw_pages_reserve() - reserve timers that are to be started
 * @ctx: the context
 * @timers: out: the timers
 * @want: how many, at least 1
 * @numbers: out: their ids
 * @gfp: %HTW_GFP or %HTW_GFP_NOWAIT
 *
 * Context: may sleep if @gfp may; takes @ctx->mutex. Memory is charged to the
 * caller's cgroup.
 * Return: how many, from 1 to @want; -ENOSPC at the context's limit, -EDQUOT at
 * the user's, -ENOMEM, -EINTR; -EAGAIN if it would have to sleep.
 */
int htw_pages_reserve(struct htw_context *ctx, struct htw_timer **timers, u32 want, u64 *numbers,
		      gfp_t gfp)
{
	struct htw_ids *ids = &ctx->ids;
	bool growing = false;
	u32 got = 0;
	int ret = 0;

	for (;;) {
		spin_lock(&ids->lock);
		got += htw_ids_take(ids, timers + got, want - got, numbers + got);
		if (got < want && ids->nr_timers >= ids->limit)
			ret = -ENOSPC;
		spin_unlock(&ids->lock);
		if (got == want || ret)
			break;

		if (growing) {
			ret = fatal_signal_pending(current) ? -EINTR : htw_pages_grow(ctx, gfp);
			cond_resched();
		} else {
			/*
			 * Look once more with the mutex held: no page is added
			 * while a timer is free, so there are never more pages
			 * than the limit needs.
			 */
			if (gfpflags_allow_blocking(gfp))
				ret = mutex_lock_killable(&ctx->mutex);
			else
				ret = mutex_trylock(&ctx->mutex) ? 0 : -EAGAIN;
			growing = !ret;
		}
		if (ret)
			break;
	}
	if (growing)
		htw_pages_unlock(ctx);
	return got ?: ret;
}

/* Take some empty pages out of the directory. */
static void htw_pages_unhook(struct htw_context *ctx, struct list_head *pages)
{
	struct htw_directory *dir = rcu_dereference_protected(ctx->ids.dir, true);
	struct htw_ids *ids = &ctx->ids;

	lockdep_assert_held(&ctx->mutex);

	spin_lock(&ids->lock);
	for (u32 n = 0; n < HTW_SHRINK_PAGES && htw_pages_are_empty(ids); n++) {
		struct htw_page *page = list_last_entry(&ids->pages, struct htw_page, list);
		u32 nr = page->slot / HTW_PAGE_SLOTS;

		if (page->generation > HTW_GENERATION_OLD) {
			htw_page_retire(ids, page);
			continue;
		}
		list_move(&page->list, pages);
		WRITE_ONCE(ids->nr_empty, ids->nr_empty - 1);
		ids->generation = max(ids->generation, page->generation);
		ids->hole = ids->nr_held + 1 < ids->nr_pages ? min(ids->hole, nr) : nr;
		rcu_assign_pointer(dir->pages[nr - 1], htw_pages_hole());
		WRITE_ONCE(ids->nr_held, ids->nr_held - 1);
	}
	spin_unlock(&ids->lock);
}

/*
 * Give some empty pages back: each is taken out of the directory, and freed
 * when the lock of each base has been taken once. Timers are looked up with one
 * of these held.
 */
static void htw_pages_shrink_some(struct htw_context *ctx)
{
	struct htw_page *page, *next;
	struct htw_base *base;
	LIST_HEAD(pages);

	htw_pages_free_spare(ctx);
	htw_pages_unhook(ctx, &pages);

	/* Calls in progress go on to another lock: then none has found a page. */
	htw_context_for_each_base(ctx, base) {
		spin_lock(&base->lock);
		spin_unlock(&base->lock);
	}

	list_for_each_entry_safe(page, next, &pages, list) {
		free_page((unsigned long)page);
		htw_context_uncharge(ctx, PAGE_SIZE);
	}
}

/**
 * htw_pages_unlock() - drop a context's mutex
 * @ctx: the context
 *
 * Who has ended timers meanwhile could not give pages back, and left it to this
 * task.
 */
void htw_pages_unlock(struct htw_context *ctx)
{
	mutex_unlock(&ctx->mutex);
	smp_mb();	/* as in __htw_pages_shrink() */
	htw_pages_shrink(ctx, 0);
}

/**
 * __htw_pages_shrink() - htw_pages_shrink() if there is something to do
 * @ctx: the context
 * @ended: timers that the caller has ended; it does as much as is in proportion
 *	to that, and all that is left if no timer is
 *
 * Context: may sleep; tries to take @ctx->mutex.
 */
void __htw_pages_shrink(struct htw_context *ctx, u32 ended)
{
	int steps = DIV_ROUND_UP(ended, HTW_SHRINK_TIMERS);
	struct htw_ids *ids = &ctx->ids;

	/*
	 * The caller has ended timers: it gets the mutex, or who holds it sees
	 * that.
	 */
	smp_mb();
	do {
		if (!mutex_trylock(&ctx->mutex))
			return;
		htw_pages_shrink_some(ctx);
		mutex_unlock(&ctx->mutex);
		cond_resched();
		/*
		 * Who ends the last timer now sees that the mutex is free, or
		 * is seen here.
		 */
		smp_mb();
	} while (htw_pages_are_empty(ids) && !fatal_signal_pending(current) &&
		 (--steps > 0 || !READ_ONCE(ids->nr_timers)));
}
