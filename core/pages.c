// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of a context's timers: pages, their directory, limits
 */

#include <linux/gfp.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "pages.h"
#include "user.h"

/* Entries of a context's first directory, and of the longest; powers of two. */
#define HTW_DIRECTORY_FIRST	16u
/* Entries that are copied without a point of rescheduling. */
#define HTW_DIRECTORY_STEP	4096u
/* A context of at least this many pages gets 2^order at a time. */
#define HTW_GROW_MIN		64u
#define HTW_GROW_ORDER		3u
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
 * Memory of the first page, or of 2^@order others, for which the user is charged.
 * Return: that, ERR_PTR(-EDQUOT), or that of htw_no_memory().
 */
static void *htw_pages_alloc(struct htw_context *ctx, unsigned int order, gfp_t gfp)
{
	bool is_first = !ctx->ids.nr_pages;
	size_t bytes = is_first ? HTW_FIRST_SLOTS * sizeof(struct htw_timer) : PAGE_SIZE << order;
	void *memory = NULL;
	struct page *pages;

	if (!htw_context_charge(ctx, bytes))
		return ERR_PTR(-EDQUOT);
	if (is_first) {
		memory = kzalloc(bytes, gfp);
	} else {
		pages = alloc_pages(gfp | __GFP_ZERO, order);
		if (pages) {
			split_page(pages, order);
			memory = page_address(pages);
		}
	}
	if (!memory) {
		htw_context_uncharge(ctx, bytes);
		return ERR_PTR(htw_no_memory(gfp));
	}
	return memory;
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

/*
 * Have @count timers of a new page free, in their order. Those that it has not,
 * as the first page or at the limit, count as used: it is never given back.
 */
static void htw_page_init(const struct htw_base *base, struct htw_page *page, u32 nr, u32 count)
{
	page->slot = nr * HTW_PAGE_SLOTS;
	page->generation = base->ids->generation;
	page->used = HTW_PAGE_TIMERS - count;
	page->free = &page->timers[0].node.list;
	for (struct htw_timer *t = page->timers; t < page->timers + count - 1; t++)
		t->node.list.next = &t[1].node.list;
}

/* Add a page of timers to a base; the directory has room for it. */
static void htw_pages_add(struct htw_base *base, struct htw_page *page)
{
	struct htw_context *ctx = base->ctx;
	struct htw_ids *ids = &ctx->ids;
	u32 nr = htw_pages_next(ctx), slots = nr ? HTW_PAGE_SLOTS : HTW_FIRST_SLOTS;
	u32 count = min_t(u32, slots - 1, atomic_read(&ids->room));

	lockdep_assert_held(&ctx->mutex);

	atomic_sub(count, &ids->room);
	htw_page_init(base, page, nr, count);
	/* Pairs with htw_call_lock_slot(). */
	if (nr)
		rcu_assign_pointer(rcu_dereference_protected(ids->dir, true)->pages[nr - 1],
				   page);
	else
		smp_store_release(&ids->first, page);	/* pairs with htw_ids_lookup() */
	ids->nr_held += !!nr;
	if (nr == ids->nr_pages)
		smp_store_release(&ids->nr_pages, nr + 1);	/* pairs with htw_ids_pages() */

	spin_lock(&base->lock);
	list_add_tail(&page->list, page->used ? &base->pages : &base->empty);
	base->nr_pages++;
	base->nr_empty += !page->used;
	spin_unlock(&base->lock);
}

/*
 * Add a page of timers to a base, or some if the context is large and that is
 * easy. Return: 0 or an error of htw_pages_take().
 */
static int htw_pages_grow(struct htw_base *base, gfp_t gfp)
{
	struct htw_context *ctx = base->ctx;
	u32 room = atomic_read(&ctx->ids.room), held = ctx->ids.nr_held;
	bool some = base->nr_pages >= HTW_GROW_MIN && room >= HTW_PAGE_TIMERS << HTW_GROW_ORDER;
	unsigned int order = some ? HTW_GROW_ORDER : 0;
	void *memory;
	int ret = 0;

	lockdep_assert_held(&ctx->mutex);

	if (!room)
		return -ENOSPC;
	/* Numbers of pages that were given back come first. */
	if (order && htw_pages_extend(ctx, held + BIT(order), gfp))
		order = 0;
	if (!order && ctx->ids.nr_pages)
		ret = htw_pages_extend(ctx, held + 1, gfp);
	if (ret)
		return ret;
	memory = htw_pages_alloc(ctx, order, order ? HTW_GFP_EASY(gfp) : gfp);
	if (order && IS_ERR(memory)) {
		order = 0;
		memory = htw_pages_alloc(ctx, order, gfp);
	}
	if (IS_ERR(memory))
		return PTR_ERR(memory);
	for (u32 i = 0; i < BIT(order); i++)
		htw_pages_add(base, memory + i * PAGE_SIZE);
	return 0;
}

/*
 * Take empty pages of a base out of the directory, up to *@most, as long as many
 * are. Return: has it as few as that now?
 */
static bool htw_pages_unhook(struct htw_base *base, struct list_head *pages, u32 *most)
{
	struct htw_ids *ids = base->ids;
	struct htw_directory *dir = rcu_dereference_protected(ids->dir, true);
	bool done;

	lockdep_assert_held(&base->ctx->mutex);

	spin_lock(&base->lock);
	for (; *most && htw_ids_are_sparse(base); --*most) {
		struct htw_page *page = list_last_entry(&base->empty, struct htw_page, list);
		u32 nr = page->slot / HTW_PAGE_SLOTS;

		if (page->generation > HTW_GENERATION_OLD) {
			htw_page_retire(base, page);
			continue;
		}
		list_move(&page->list, pages);
		base->nr_empty--;
		base->nr_pages--;
		atomic_add(HTW_PAGE_TIMERS, &ids->room);
		ids->generation = max(ids->generation, page->generation);
		ids->hole = ids->nr_held + 1 < ids->nr_pages ? min(ids->hole, nr) : nr;
		rcu_assign_pointer(dir->pages[nr - 1], htw_pages_hole());
		ids->nr_held--;
	}
	done = !htw_ids_are_sparse(base);
	spin_unlock(&base->lock);
	return done;
}

/*
 * Give some empty pages back where many are: each is taken out of the directory,
 * and freed when the lock of each base has been taken once. Timers are looked up
 * with one of these held.
 */
static void htw_pages_shrink_some(struct htw_context *ctx)
{
	u32 most = HTW_SHRINK_PAGES;
	struct htw_page *page, *next;
	struct htw_base *base;
	LIST_HEAD(pages);

	lockdep_assert_held(&ctx->mutex);

	/* Who has many more after its base was looked at sets it again. */
	WRITE_ONCE(ctx->ids.is_sparse, false);
	htw_context_for_each_base(ctx, base) {
		if (!htw_pages_unhook(base, &pages, &most))
			WRITE_ONCE(ctx->ids.is_sparse, true);
	}
	if (list_empty(&pages))
		return;

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

/* Take free timers of a base, which is not locked. Return: how many. */
static u32 htw_pages_take_of(struct htw_base *base, struct htw_timer **timers, u32 want,
			     u64 *numbers)
{
	u32 got;

	spin_lock(&base->lock);
	got = htw_ids_take(base, timers, want, numbers);
	spin_unlock(&base->lock);
	return got;
}

/* Take free timers of the first base that has some: @base. Return: how many. */
static u32 htw_pages_take_any(struct htw_context *ctx, struct htw_base **base,
			      struct htw_timer **timers, u32 want, u64 *numbers)
{
	struct htw_base *other;
	u32 got;

	htw_context_for_each_base(ctx, other) {
		got = htw_pages_take_of(other, timers, want, numbers);
		if (got) {
			*base = other;
			return got;
		}
	}
	return 0;
}

/**
 * htw_pages_take() - take timers that are to be started
 * @base: the base in which they should be; out: the one in which they are
 * @timers: out: the timers
 * @want: how many, at least 1
 * @numbers: out: their ids
 * @gfp: %HTW_GFP or %HTW_GFP_NOWAIT
 *
 * Context: may sleep if @gfp may; takes the context's mutex. Memory is charged
 * to the caller's cgroup.
 * Return: how many, from 1 to @want; -ENOSPC at the context's limit, -EDQUOT at
 * the user's, -ENOMEM, -EINTR; -EAGAIN if it would have to sleep.
 */
int htw_pages_take(struct htw_base **base, struct htw_timer **timers, u32 want, u64 *numbers,
		   gfp_t gfp)
{
	u32 got = htw_pages_take_of(*base, timers, want, numbers);
	struct htw_context *ctx = (*base)->ctx;
	int ret, room;

	if (got == want)
		return got;
	ret = htw_context_lock(ctx, gfp);
	if (ret)
		return got ?: ret;

	/* Look once more with the mutex held: others may have added a page. */
	for (;;) {
		got += htw_pages_take_of(*base, timers + got, want - got, numbers + got);
		if (got == want)
			break;
		room = atomic_read(&ctx->ids.room);
		ret = htw_pages_grow(*base, gfp);
		if (!ret)
			continue;
		if (got)
			break;
		got = htw_pages_take_any(ctx, base, timers, want, numbers);
		/* Pages that are retired meanwhile make room as well. */
		if (got || atomic_read(&ctx->ids.room) == room)
			break;
	}
	htw_pages_unlock(ctx);
	if (!got && ret == -EDQUOT)
		htw_user_refuse(ctx->user);
	return got ?: ret;
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
	} while (READ_ONCE(ctx->ids.is_sparse) && !fatal_signal_pending(current) &&
		 (--steps > 0 || !htw_context_timers(ctx)));
}
