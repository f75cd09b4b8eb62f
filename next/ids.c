// SPDX-License-Identifier: GPL-2.0-only
/*
 * The timers of a context and their ids: pages, their directory, limits
 */

#include <linux/gfp.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "context.h"
#include "ids.h"
#include "user.h"

/* Entries of a context's first directory, and of the longest; powers of two. */
#define HTW_DIRECTORY_FIRST	16u
#define HTW_DIRECTORY_MAX	BIT(18)
/* A context of at least this many pages has 2^order allocated at a time. */
#define HTW_SPARE_MIN		64u
#define HTW_SPARE_ORDER		3u
/*
 * Memory that is charged as it is held: at the cgroup's limit ENOMEM, not the
 * OOM killer.
 */
#define HTW_GFP			(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

const struct htw_timer htw_no_timer;

void htw_ids_init(struct htw_ids *ids, u32 limit)
{
	spin_lock_init(&ids->lock);
	INIT_LIST_HEAD(&ids->free);
	ids->limit = limit;
	/*
	 * So that an id of another context is not taken for one's own; half of
	 * them are left.
	 */
	ids->generation = get_random_u32() >> 1 | 1;
}

/*
 * Free all pages; timers are not looked at. Nobody uses the context any more.
 */
void htw_ids_exit(struct htw_context *ctx)
{
	struct htw_ids *ids = &ctx->ids;
	struct htw_directory *dir = rcu_dereference_protected(ids->dir, true);

	for (u32 nr = 1; nr < ids->nr_pages; nr++) {
		free_page((unsigned long)rcu_dereference_protected(dir->pages[nr], true));
		cond_resched();
	}
	while (ids->nr_spare)
		free_page((unsigned long)ids->spare + --ids->nr_spare * PAGE_SIZE);
	kfree(ids->first);
	kvfree(dir);
	htw_user_uncharge(ctx->user, ids->charged);
}

/*
 * Take @count timers that were never used, so that their ids are consecutive.
 */
static u32 htw_ids_take_unused(struct htw_ids *ids, struct list_head *timers, u32 count,
			       u64 *numbers)
{
	const u64 first = (u64)ids->generation << 32 | ids->unused_slot;
	struct htw_timer *t = ids->unused;
	struct list_head *last = timers->prev;

	lockdep_assert_held(&ids->lock);

	if (!count)
		return 0;
	for (u32 i = 0; i < count; i++)
		numbers[i] = first + i;
	for (u32 i = 0; i < count; i++, t++) {
		t->generation = ids->generation;
		WRITE_ONCE(t->state, HTW_RESERVED);
		t->node.list.prev = last;
		last->next = &t->node.list;
		last = last->next;
	}
	last->next = timers;
	timers->prev = last;
	ids->unused = t;
	ids->unused_slot += count;
	ids->nr_unused -= count;
	return count;
}

/*
 * Take up to @want timers of the free list and then unused ones, and return how
 * many.
 */
static u32 htw_ids_take(struct htw_ids *ids, struct list_head *timers, u32 want, u64 *numbers)
{
	struct list_head *last = &ids->free;
	u32 got = 0;

	lockdep_assert_held(&ids->lock);

	want = min(want, ids->limit - min(ids->nr_timers, ids->limit));
	while (got < want && last->next != &ids->free) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		last = last->next;
		WRITE_ONCE(t->state, HTW_RESERVED);
		numbers[got++] = htw_ids_number(ids, t);
	}
	if (got) {
		LIST_HEAD(taken);

		list_cut_position(&taken, &ids->free, last);
		list_splice_tail(&taken, timers);
	}

	got += htw_ids_take_unused(ids, timers, min(want - got, ids->nr_unused), numbers + got);
	ids->nr_timers += got;
	return got;
}

/**
 * htw_ids_return() - return timers that have ended
 * @ids: the ids
 * @timers: a list of them; empty on return. Some may be missing that cannot be
 *	used again
 * @count: how many have ended
 */
void htw_ids_return(struct htw_ids *ids, struct list_head *timers, u32 count)
{
	spin_lock(&ids->lock);
	list_splice_init(timers, &ids->free);
	ids->nr_timers -= count;
	spin_unlock(&ids->lock);
}

/* Have room in the directory for page @nr. */
static int htw_ids_extend(struct htw_ids *ids, u32 nr)
{
	struct htw_directory *old = rcu_dereference_protected(ids->dir, true), *dir;
	u32 held = old ? old->mask + 1 : 0, entries = held ? 2 * held : HTW_DIRECTORY_FIRST;

	if (nr < held || !nr)
		return 0;
	if (nr == HTW_DIRECTORY_MAX)
		return -ENOSPC;
	dir = kvmalloc(struct_size(dir, pages, entries), HTW_GFP);
	if (!dir)
		return -ENOMEM;
	dir->mask = entries - 1;
	for (u32 i = 0; i < held; i++)
		RCU_INIT_POINTER(dir->pages[i], rcu_access_pointer(old->pages[i]));
	for (u32 i = held; i < entries; i++)
		RCU_INIT_POINTER(dir->pages[i], NULL);
	rcu_assign_pointer(ids->dir, dir);
	if (old)
		kvfree_rcu(old, rcu);
	return 0;
}

/*
 * Have spare pages, if the context is large: several at a time cost less. Not
 * if that is hard.
 */
static void htw_ids_alloc_spare(struct htw_context *ctx)
{
	struct htw_ids *ids = &ctx->ids;
	const u32 slots = HTW_PAGE_SLOTS << HTW_SPARE_ORDER;
	struct page *page;

	lockdep_assert_held(&ctx->mutex);

	if (ids->nr_spare || ids->nr_pages < HTW_SPARE_MIN || !htw_user_charge(ctx->user, slots))
		return;
	page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN,
			   HTW_SPARE_ORDER);
	if (!page) {
		htw_user_uncharge(ctx->user, slots);
		return;
	}
	split_page(page, HTW_SPARE_ORDER);
	ids->spare = page_address(page);
	ids->nr_spare = BIT(HTW_SPARE_ORDER);
	ids->charged += slots;
}

/*
 * Memory of a new page, for which the user is charged; ERR_PTR(-EDQUOT) or
 * ERR_PTR(-ENOMEM).
 */
static struct htw_page *htw_ids_alloc_page(struct htw_context *ctx, u32 nr, u32 slots)
{
	struct htw_ids *ids = &ctx->ids;
	void *page;

	lockdep_assert_held(&ctx->mutex);

	htw_ids_alloc_spare(ctx);
	if (ids->nr_spare)
		return ids->spare + --ids->nr_spare * PAGE_SIZE;
	if (!htw_user_charge(ctx->user, slots))
		return ERR_PTR(-EDQUOT);
	if (nr)
		page = (void *)__get_free_page(HTW_GFP | __GFP_ZERO);
	else
		page = kzalloc(slots * sizeof(struct htw_timer), HTW_GFP);
	if (!page) {
		htw_user_uncharge(ctx->user, slots);
		return ERR_PTR(-ENOMEM);
	}
	ids->charged += slots;
	return page;
}

/* Add a page of timers. */
static int htw_ids_grow(struct htw_context *ctx)
{
	struct htw_ids *ids = &ctx->ids;
	const u32 nr = ids->nr_pages, slots = nr ? HTW_PAGE_SLOTS : HTW_FIRST_SLOTS;
	struct htw_page *page;
	int ret;

	lockdep_assert_held(&ctx->mutex);

	ret = htw_ids_extend(ids, nr);
	if (ret)
		return ret;
	page = htw_ids_alloc_page(ctx, nr, slots);
	if (IS_ERR(page))
		return PTR_ERR(page);
	page->slot = nr * HTW_PAGE_SLOTS;
	if (nr)
		rcu_assign_pointer(rcu_dereference_protected(ids->dir, true)->pages[nr], page);
	else
		WRITE_ONCE(ids->first, page);

	spin_lock(&ids->lock);
	ids->unused = page->timers;
	ids->unused_slot = page->slot + 1;
	ids->nr_unused = slots - 1;
	spin_unlock(&ids->lock);
	/* Pairs with htw_ids_pages(). */
	smp_store_release(&ids->nr_pages, nr + 1);
	return 0;
}

/**
 * htw_ids_reserve() - reserve timers that are to be started
 * @ctx: the context
 * @timers: list to append them to
 * @want: how many, at least 1
 * @numbers: out: their ids
 *
 * Context: may sleep; takes @ctx->mutex. Memory is charged to the caller's
 * cgroup.
 * Return: how many, from 1 to @want; -ENOSPC at the context's limit, -EDQUOT at
 * the user's, -ENOMEM, -EINTR.
 */
int htw_ids_reserve(struct htw_context *ctx, struct list_head *timers, u32 want, u64 *numbers)
{
	struct htw_ids *ids = &ctx->ids;
	bool growing = false;
	u32 got = 0;
	int ret = 0;

	for (;;) {
		spin_lock(&ids->lock);
		got += htw_ids_take(ids, timers, want - got, numbers + got);
		if (got < want && ids->nr_timers >= ids->limit)
			ret = -ENOSPC;
		spin_unlock(&ids->lock);
		if (got == want || ret)
			break;
		if (growing) {
			ret = fatal_signal_pending(current) ? -EINTR : htw_ids_grow(ctx);
			cond_resched();
		} else {
			/*
			 * Look once more with the mutex held: no page is added
			 * while a timer is free, so there are never more pages
			 * than the limit needs.
			 */
			ret = mutex_lock_killable(&ctx->mutex);
			growing = !ret;
		}
		if (ret)
			break;
	}
	if (growing)
		mutex_unlock(&ctx->mutex);
	return got ?: ret;
}
