// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shrinking: free the pages of timers that a burst has left behind
 *
 * When a context uses less than a quarter of its timers, a work item frees
 * pages in two steps, HTW_SHRINK_DELAY_MIN apart. htw_shrink_mark() marks the
 * pages in which no timer is in use. htw_shrink_reclaim() frees those that were
 * not used since, until only as many timers are free as are in use, and
 * HTW_SHRINK_KEEP_PAGES. So a load that comes back within the delay costs
 * nothing, and one that goes up and down costs at most one page freed for each
 * page allocated.
 *
 * In the directory, htw_no_page takes the place of a freed page. All its timers
 * are free for ever, so lookups need no check. htw_pool_grow() fills these
 * empty entries first, and starts new timers above the generation of every id
 * that is gone with its page.
 *
 * A page may go only if all its timers are on lists of &htw_context.free. Their
 * state does not show that: a section keeps the timers that it frees on a
 * private list until it ends. The sum of the page's generations does, as each
 * free adds one to it. The mark records the sum. A page is freed if, under the
 * context's lock, all its timers are %HTW_FREE, the sum is the same, and a
 * grace period has passed since the mark:
 *
 * - No timer was freed since the mark, or the sum would differ (a generation
 *   that is close to wrapping around keeps its page). So none was reserved
 *   since, either: it would not be free again. htw_timer_end_id() writes the
 *   generation, then releases the state; htw_shrink_page_sum() acquires the
 *   state, then reads the generation.
 * - A free before the mark by a section is on &htw_context.free by now: bottom
 *   halves are off in a section, which makes it an RCU read-side section (on
 *   PREEMPT_RT, too), and the grace period has waited for it. All other frees
 *   hold the context's lock.
 *
 * A count of used timers in each page would be simpler, but it costs each
 * cancel and each expiration more (docs/performance.md).
 *
 * Lookups may have found the page before it left the directory. They read only
 * timers that are free, and its memory is freed, and uncharged, after a grace
 * period.
 */

#include <linux/kcov.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "shrink.h"

/* Contexts of up to 256 KiB (with pages of 4 KiB) are never shrunk. */
#define HTW_SHRINK_MIN_PAGES	64u
/* Pages that stay in addition to those for timers in use. */
#define HTW_SHRINK_KEEP_PAGES	32u
/* Jiffies from the fall in use to the mark, and from the mark to freeing. */
#define HTW_SHRINK_DELAY_MIN	(HZ / 2)
/* The delay before a mark doubles up to this while nothing is found. */
#define HTW_SHRINK_DELAY_MAX	(8 * HZ)
/*
 * A page with a higher generation stays: if new timers started above it, their
 * slots would soon be used up.
 */
#define HTW_SHRINK_GENERATION_MAX	(BIT(31) - 1)

/* Of its own: a user with many contexts delays only other scans. */
static struct workqueue_struct *htw_shrink_wq;

/*
 * Return how many pages should stay. A context with a deadline table keeps all:
 * the program may store to any entry of the table at any time.
 */
static u32 htw_shrink_pages_wanted(const struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	if (ctx->table)
		return U32_MAX;
	return HTW_SHRINK_KEEP_PAGES + DIV_ROUND_UP(2 * ctx->nr_timers, HTW_PAGE_TIMERS);
}

/* Set the number of timers in use below which to begin a scan. */
static void htw_shrink_watch(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	if (!ctx->shrinking && ctx->nr_allocated > HTW_SHRINK_MIN_PAGES)
		ctx->shrink_below = ctx->nr_allocated * HTW_PAGE_TIMERS / 4;
	else
		ctx->shrink_below = 0;
}

/* Count a new page. */
void htw_shrink_page_added(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	ctx->nr_allocated++;
	ctx->shrink_delay = HTW_SHRINK_DELAY_MIN;
	htw_shrink_watch(ctx);
}

/* Begin a scan: few timers are left in use. */
void htw_shrink_begin(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	ctx->shrinking = true;
	ctx->shrink_below = 0;
	queue_delayed_work(htw_shrink_wq, &ctx->shrink, ctx->shrink_delay);
}

/* End a scan; begin another one if it freed something and few timers are left, else back off. */
static void htw_shrink_end(struct htw_context *ctx, bool freed)
{
	spin_lock_bh(&ctx->lock);
	ctx->shrinking = false;
	ctx->shrink_delay = freed ? HTW_SHRINK_DELAY_MIN : min(2 * ctx->shrink_delay,
							       HTW_SHRINK_DELAY_MAX);
	htw_shrink_watch(ctx);
	/*
	 * More pages may be without timers since the mark. If no timer is freed
	 * any more, nothing else will look at them.
	 */
	if (freed && ctx->nr_timers < ctx->shrink_below)
		htw_shrink_begin(ctx);
	spin_unlock_bh(&ctx->lock);
}

/* Return the sum of a page's generations, or zero if it cannot be freed. */
static u64 htw_shrink_page_sum(const struct htw_page *page)
{
	u64 sum = 0;

	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++) {
		const struct htw_timer *t = &page->timers[i];
		u32 generation;

		/* Pairs with htw_timer_end_id(). */
		if (smp_load_acquire(&t->node.state) != HTW_FREE)
			return 0;
		generation = READ_ONCE(t->generation);
		/* A slot that was never used, or is used up, is on no list. */
		if (!generation || generation > HTW_SHRINK_GENERATION_MAX)
			return 0;
		sum += generation;
	}
	return sum;
}

/* Return a page, or NULL if the entry is empty. Only the caller removes pages. */
static struct htw_page *htw_shrink_page(const struct htw_context *ctx,
					u32 index)
{
	struct htw_page *page = htw_context_page(ctx, index);

	return page == &htw_no_page ? NULL : page;
}

/**
 * htw_shrink_mark() - mark the pages in which no timer is in use
 * @ctx: the context
 *
 * Context: may sleep; not concurrently with itself or htw_shrink_reclaim().
 * Return: the number of marked pages.
 */
u32 htw_shrink_mark(struct htw_context *ctx)
{
	u32 nr_pages = htw_context_pages(ctx);
	u32 marked = 0;
	bool enough;

	spin_lock_bh(&ctx->lock);
	enough = ctx->nr_allocated <= htw_shrink_pages_wanted(ctx);
	spin_unlock_bh(&ctx->lock);
	if (enough)
		return 0;
	for (u32 i = 0; i < nr_pages; i++) {
		struct htw_page *page = htw_shrink_page(ctx, i);

		if (!page)
			continue;
		page->sum = htw_shrink_page_sum(page);
		marked += !!page->sum;
		cond_resched();
	}
	ctx->shrink_gp = start_poll_synchronize_rcu();
	return marked;
}

/* Take a page's timers off the free lists, if all of them are there. */
static bool htw_shrink_take(struct htw_context *ctx, struct htw_page *page)
{
	lockdep_assert_held(&ctx->lock);

	if (htw_shrink_page_sum(page) != page->sum)
		return false;
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		__htw_list_del(&page->timers[i].node.list);
	ctx->nr_allocated--;
	return true;
}

/* Remove a page from the directory. */
static void htw_shrink_unlink(struct htw_context *ctx, u32 index,
			      const struct htw_page *page)
{
	lockdep_assert_held(&ctx->grow);

	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		ctx->generation = max(ctx->generation, page->timers[i].generation);
	ctx->first_empty = min(ctx->first_empty, index);
	ctx->charged -= HTW_PAGE_TIMERS;
	/* The cast is safe: free timers are never written. */
	rcu_assign_pointer(*htw_context_entry(ctx, index),
			   (struct htw_page *)&htw_no_page);
}

/*
 * Free pages that have left the directory, once no lookup is in them, and then
 * uncharge the user: it cannot have more memory than its limit while they wait
 * for that.
 */
static void htw_shrink_free(struct htw_context *ctx, struct htw_page *gone,
			    u32 count)
{
	synchronize_rcu();
	while (gone) {
		struct htw_page *page = gone;

		gone = page->gone;
		htw_page_free(page);
		cond_resched();
	}
	htw_user_uncharge(ctx->user, count * HTW_PAGE_TIMERS);
}

/**
 * htw_shrink_reclaim() - free the marked pages that were not used since
 * @ctx: the context
 *
 * The last pages go first, so that timers in use gather in the first ones.
 *
 * Context: may sleep, for a grace period; not concurrently with itself or
 * htw_shrink_mark().
 * Return: the number of freed pages; -EAGAIN if no grace period has passed
 * since the mark.
 */
int htw_shrink_reclaim(struct htw_context *ctx)
{
	struct htw_page *gone = NULL;
	bool enough = false;
	int freed = 0;

	if (!poll_state_synchronize_rcu(ctx->shrink_gp))
		return -EAGAIN;
	for (u32 i = htw_context_pages(ctx); i-- && !enough; cond_resched()) {
		struct htw_page *page = htw_shrink_page(ctx, i);
		bool taken = false;

		if (!page || !page->sum)
			continue;
		mutex_lock(&ctx->grow);
		spin_lock_bh(&ctx->lock);
		enough = ctx->nr_allocated <= htw_shrink_pages_wanted(ctx);
		if (!enough)
			taken = htw_shrink_take(ctx, page);
		spin_unlock_bh(&ctx->lock);
		if (taken)
			htw_shrink_unlink(ctx, i, page);
		mutex_unlock(&ctx->grow);
		if (taken) {
			page->gone = gone;
			gone = page;
			freed++;
		}
	}
	if (gone)
		htw_shrink_free(ctx, gone, freed);
	return freed;
}

static void htw_shrink_work(struct work_struct *work)
{
	struct htw_context *ctx = container_of(to_delayed_work(work), struct htw_context, shrink);
	int freed = 0;

	kcov_remote_start_common(ctx->user->kcov_handle);
	if (ctx->shrink_marked) {
		freed = htw_shrink_reclaim(ctx);
		ctx->shrink_marked = freed == -EAGAIN;
	} else {
		ctx->shrink_marked = htw_shrink_mark(ctx) > 0;
	}
	if (ctx->shrink_marked)
		queue_delayed_work(htw_shrink_wq, &ctx->shrink,
				   HTW_SHRINK_DELAY_MIN);
	else
		htw_shrink_end(ctx, freed > 0);
	kcov_remote_stop();
}

void htw_shrink_init(struct htw_context *ctx)
{
	ctx->generation = 1;
	INIT_DELAYED_WORK(&ctx->shrink, htw_shrink_work);
}

/* Stop the work of a context that is about to be freed; may sleep. */
void htw_shrink_exit(struct htw_context *ctx)
{
	cancel_delayed_work_sync(&ctx->shrink);
}

/* Allocate the work queue of scans. May sleep. */
int htw_shrink_init_queue(void)
{
	htw_shrink_wq = alloc_workqueue("htw_shrink", WQ_UNBOUND, 0);
	return htw_shrink_wq ? 0 : -ENOMEM;
}

/* All contexts have been freed. May sleep. */
void htw_shrink_exit_queue(void)
{
	destroy_workqueue(htw_shrink_wq);
}
