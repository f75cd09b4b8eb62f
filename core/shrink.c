// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of timers, given back when a burst is over
 *
 * When a context is found to use less than a quarter of its timers, its pages
 * are looked through a moment later, and those of which no timer is in use are
 * marked. What is still marked and untouched some time after that is given
 * back, until as many free timers are left as are in use, and some. So a load
 * that comes and goes within that time costs nothing, and one that goes up and
 * down costs at most a page given back for a page that it had made.
 *
 * The directory's entry of a page that was given back leads to htw_no_page,
 * so a lookup needs no check of its own: it finds a timer that is free. Growing
 * fills such holes first, with timers that start above every generation that
 * the context has used, so that an id of those that went never hits.
 *
 * Which timers are on a list of &htw_context.free, and can be taken off? One that
 * is free may also be on the private list of a run that has not ended, and a run
 * must not pay for our question. Its generation, which goes up with each use,
 * and RCU answer it:
 *
 * - A page is marked with the sum of its generations, all of its timers being
 *   free. htw_timer_free() writes the generation, then releases the state; the
 *   state is acquired, then the generation read. So what is summed up is what
 *   the last frees wrote, or older.
 * - A grace period begins after that, and ends before the page is taken. A run
 *   is an RCU read-side section, as bottom halves are off (and on PREEMPT_RT
 *   local_bh_disable() includes rcu_read_lock()). So a run of which the mark saw
 *   a free has ended by then, its list has been spliced to the free list, and
 *   that is seen here.
 * - The page is taken under the context's lock, if all timers are free still
 *   and the sum is the same. As none of them can wrap around to zero without
 *   being kept for ever, sums are equal only if each generation is: none was
 *   freed since the mark, or the state that the free released was not seen to
 *   be free. So the last free of each is one that the mark saw. And none can be
 *   reserved now, as that takes the lock.
 *
 * Other frees put the timer on the free list under the lock that is held here.
 *
 * Lookups that began before may still read the page, but find only timers that
 * are free, and those nobody writes to; the memory goes after a grace period.
 */

#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "shrink.h"

/* Up to so many pages nobody minds. */
#define HTW_SHRINK_FROM		64u
/* So many stay in any case. */
#define HTW_SHRINK_LEAST	32u
/* From the fall to the mark, and from there to giving back. */
#define HTW_SHRINK_DELAY	(HZ / 2)
/* After looking in vain the first of these doubles, up to this. */
#define HTW_SHRINK_DELAY_MOST	(8 * HZ)
/*
 * From there on a generation is too high to make new timers start at: they too
 * are to last. Such a timer's page stays.
 */
#define HTW_SHRINK_GENERATION	BIT(31)

/*
 * How many pages should stay for what is in use: all of a context that has a
 * table of deadlines, as its words are the program's.
 */
static u32 htw_shrink_pages_wanted(const struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	if (ctx->table)
		return U32_MAX;
	return HTW_SHRINK_LEAST + DIV_ROUND_UP(2 * ctx->nr_timers, HTW_PAGE_TIMERS);
}

/* From now on a fall in use is acted on. */
static void htw_shrink_watch(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	if (!ctx->shrinking && ctx->nr_held > HTW_SHRINK_FROM)
		ctx->shrink_below = ctx->nr_held * HTW_PAGE_TIMERS / 4;
	else
		ctx->shrink_below = 0;
}

/**
 * htw_shrink_grown() - a context has a page more
 * @ctx: the context, whose lock is held
 */
void htw_shrink_grown(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	ctx->nr_held++;
	ctx->shrink_delay = HTW_SHRINK_DELAY;
	htw_shrink_watch(ctx);
}

/**
 * htw_shrink_begin() - a context's use fell below &htw_context.shrink_below
 * @ctx: the context, whose lock is held
 */
void htw_shrink_begin(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	ctx->shrinking = true;
	ctx->shrink_below = 0;
	queue_delayed_work(htw_wq, &ctx->shrink, ctx->shrink_delay);
}

/* What has been looked for is over; gave it anything? */
static void htw_shrink_end(struct htw_context *ctx, bool gave)
{
	spin_lock_bh(&ctx->lock);
	ctx->shrinking = false;
	ctx->shrink_delay = gave ? HTW_SHRINK_DELAY : min(2 * ctx->shrink_delay,
							  HTW_SHRINK_DELAY_MOST);
	htw_shrink_watch(ctx);
	spin_unlock_bh(&ctx->lock);
}

/* The sum of a page's generations; zero if it cannot be given back. */
static u64 htw_page_sum(const struct htw_page *page)
{
	u64 sum = 0;

	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++) {
		const struct htw_timer *t = &page->timers[i];
		u32 generation;

		/* Pairs with htw_timer_free(). */
		if (smp_load_acquire(&t->node.state) != HTW_FREE)
			return 0;
		generation = READ_ONCE(t->generation);
		/* Zero is a slot that is used up, or was never used: on no list. */
		if (!generation || generation >= HTW_SHRINK_GENERATION)
			return 0;
		sum += generation;
	}
	return sum;
}

/* For whoever takes pages out: then one that is seen stays. NULL is a hole. */
static struct htw_page *htw_shrink_page(const struct htw_context *ctx, u32 index)
{
	struct htw_page *page = htw_context_page(ctx, index);

	return page == &htw_no_page ? NULL : page;
}

/**
 * htw_shrink_mark() - marks the pages that are not in use
 * @ctx: the context
 *
 * Context: may sleep; one task at a time calls this and htw_shrink_reclaim().
 * Return: how many pages were marked.
 */
u32 htw_shrink_mark(struct htw_context *ctx)
{
	const u32 nr_pages = htw_context_pages(ctx);
	u32 marked = 0;
	bool enough;

	spin_lock_bh(&ctx->lock);
	enough = ctx->nr_held <= htw_shrink_pages_wanted(ctx);
	spin_unlock_bh(&ctx->lock);
	if (enough)
		return 0;
	for (u32 i = 0; i < nr_pages; i++) {
		struct htw_page *page = htw_shrink_page(ctx, i);

		if (!page)
			continue;
		page->sum = htw_page_sum(page);
		marked += !!page->sum;
		cond_resched();
	}
	ctx->shrink_gp = start_poll_synchronize_rcu();
	return marked;
}

static void htw_page_free_rcu(struct rcu_head *rcu)
{
	htw_page_free(container_of(rcu, struct htw_page, rcu));
}

/* Takes a page's timers off the free list, if all are there. */
static bool htw_shrink_take(struct htw_context *ctx, struct htw_page *page)
{
	lockdep_assert_held(&ctx->lock);

	if (htw_page_sum(page) != page->sum)
		return false;
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		__htw_list_del(&page->timers[i].node.list);
	ctx->nr_held--;
	return true;
}

/* A page that was taken is out of the directory from now on. */
static void htw_shrink_unlink(struct htw_context *ctx, u32 index, const struct htw_page *page)
{
	lockdep_assert_held(&ctx->grow);

	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		ctx->generation = max(ctx->generation, page->timers[i].generation);
	ctx->hole = min(ctx->hole, index);
	/* It is never written to, as its timers stay free. */
	rcu_assign_pointer(*htw_context_entry(ctx, index), (struct htw_page *)&htw_no_page);
}

/**
 * htw_shrink_reclaim() - gives back what was marked and not used since
 * @ctx: the context
 *
 * The pages at the end go first, so that what is in use gathers at the front.
 *
 * Context: may sleep; one task at a time calls this and htw_shrink_mark().
 * Return: how many pages were given back; -EAGAIN where no grace period has
 * passed since they were marked.
 */
int htw_shrink_reclaim(struct htw_context *ctx)
{
	bool enough = false;
	int gave = 0;

	if (!poll_state_synchronize_rcu(ctx->shrink_gp))
		return -EAGAIN;
	for (u32 i = htw_context_pages(ctx); i-- && !enough; cond_resched()) {
		struct htw_page *page = htw_shrink_page(ctx, i);
		bool taken = false;

		if (!page || !page->sum)
			continue;
		mutex_lock(&ctx->grow);
		spin_lock_bh(&ctx->lock);
		enough = ctx->nr_held <= htw_shrink_pages_wanted(ctx);
		if (!enough)
			taken = htw_shrink_take(ctx, page);
		spin_unlock_bh(&ctx->lock);
		if (taken)
			htw_shrink_unlink(ctx, i, page);
		mutex_unlock(&ctx->grow);
		if (taken) {
			call_rcu(&page->rcu, htw_page_free_rcu);
			gave++;
		}
	}
	return gave;
}

static void htw_shrink_work(struct work_struct *work)
{
	struct htw_context *ctx = container_of(to_delayed_work(work), struct htw_context, shrink);
	int gave = 0;

	if (ctx->shrink_marked) {
		gave = htw_shrink_reclaim(ctx);
		ctx->shrink_marked = gave == -EAGAIN;
	} else {
		ctx->shrink_marked = htw_shrink_mark(ctx);
	}
	if (ctx->shrink_marked)
		queue_delayed_work(htw_wq, &ctx->shrink, HTW_SHRINK_DELAY);
	else
		htw_shrink_end(ctx, gave);
}

/**
 * htw_shrink_init() - of a new context
 * @ctx: the context
 */
void htw_shrink_init(struct htw_context *ctx)
{
	ctx->generation = 1;
	INIT_DELAYED_WORK(&ctx->shrink, htw_shrink_work);
}

/**
 * htw_shrink_exit() - of a context that is about to be freed
 * @ctx: the context, which nobody uses any more, no callback either
 *
 * Context: may sleep.
 */
void htw_shrink_exit(struct htw_context *ctx)
{
	cancel_delayed_work_sync(&ctx->shrink);
}
