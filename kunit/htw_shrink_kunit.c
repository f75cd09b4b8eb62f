// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: free pages of timers are given back, and no operation notices
 *
 * Most cases call the steps of the context's work themselves, to control what happens in
 * between. With several CPUs, KASAN finds reads of freed pages.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "../core/table_enable.h"
#include "htw_debugfs.h"
#include "htw_kunit.h"

#define PAGES			200u
#define TIMERS			(PAGES * HTW_PAGE_TIMERS)
#define NEVER			U64_MAX
/* Pages that a context keeps, at least. */
#define LEAST_PAGES		32u

/* A context whose own work never starts, as it seems to be running. */
static struct htw_context *context_by_hand(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);

	spin_lock_bh(&ctx->lock);
	ctx->shrinking = true;
	spin_unlock_bh(&ctx->lock);
	return ctx;
}

static u64 *new_ids(struct kunit *test)
{
	u64 *ids = kvcalloc(TIMERS, sizeof(*ids), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ids);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, (kunit_action_t *)kvfree, ids), 0);
	return ids;
}

static void start_all(struct kunit *test, struct htw_context *ctx, u64 *ids)
{
	for (u32 i = 0; i < TIMERS; i++) {
		ids[i] = htw_test_start(test, ctx, NEVER, i);
		cond_resched();
	}
}

static int cancel(struct htw_context *ctx, u64 id)
{
	struct htw_cancel cancel = { .id = id };

	return htw_test_cancel(ctx, &cancel);
}

/* Cancel all timers except those in every @but-th page; all of them if @but is 0. */
static void cancel_but(struct kunit *test, struct htw_context *ctx, const u64 *ids, u32 but)
{
	for (u32 i = 0; i < TIMERS; i++) {
		if (but && !(i / HTW_PAGE_TIMERS % but))
			continue;
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
		cond_resched();
	}
}

/*
 * Wait for the grace period of the mark. synchronize_rcu() would not do: during boot it
 * waits for an expedited one, which does not count.
 */
static void grace_period(const struct htw_context *ctx)
{
	for (unsigned int i = 0; i < 60000 && !poll_state_synchronize_rcu(ctx->shrink_gp); i++)
		usleep_range(1000, 2000);
}

/* As the work does, without its delays. */
static int shrink(struct htw_context *ctx)
{
	if (!htw_shrink_mark(ctx))
		return 0;
	grace_period(ctx);
	return htw_shrink_reclaim(ctx);
}

static bool is_empty(const struct htw_context *ctx, u32 page)
{
	return htw_context_page(ctx, page) == &htw_no_page;
}

static u32 nr_empty(const struct htw_context *ctx)
{
	u32 n = 0;

	for (u32 i = 0; i < ctx->nr_pages; i++)
		n += is_empty(ctx, i);
	return n;
}

/* Set the generation of a timer of a page. */
static void set_generation(struct htw_context *ctx, u32 page, u32 generation)
{
	WRITE_ONCE(htw_context_page(ctx, page)->timers[7].generation, generation);
}

/* All operations on the id must fail. */
static void expect_stale(struct kunit *test, struct htw_context *ctx, u64 id)
{
	struct htw_mod mod = { .id = id, .flags = HTW_MOD_DEADLINE };
	struct htw_query query = { .id = id };
	struct htw_section s;

	KUNIT_EXPECT_EQ(test, cancel(ctx, id), -ENOENT);
	htw_section_begin(&s, ctx);
	KUNIT_EXPECT_EQ(test, htw_section_mod(&s, htw_section_find(&s, id), &mod), -ENOENT);
	KUNIT_EXPECT_EQ(test, htw_section_query(&s, &query), -ENOENT);
	htw_section_end(&s);
}

static u32 count_listed(struct kunit *test, struct htw_context *ctx)
{
	struct htw_query *entries = kunit_kcalloc(test, HTW_PAGE_TIMERS, sizeof(*entries),
						  GFP_KERNEL);
	u32 slot = 0, n = 0;

	KUNIT_ASSERT_NOT_NULL(test, entries);
	while (slot / HTW_PAGE_SLOTS < htw_context_pages(ctx))
		n += htw_walk_list(ctx, &slot, entries, HTW_PAGE_TIMERS,
				   HTW_LIST_PENDING);
	kunit_kfree(test, entries);
	return n;
}

static void pages_in_the_middle_are_freed(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	const u32 kept = DIV_ROUND_UP(PAGES, 10);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, PAGES);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);
	cancel_but(test, ctx, ids, 10);
	/* As many free timers stay as are in use, and 32 pages. */
	KUNIT_EXPECT_EQ(test, ctx->charged, (PAGES + ctx->nr_prealloc) * HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, shrink(ctx), PAGES - 2 * kept - 32);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 2 * kept + 32);
	KUNIT_EXPECT_EQ(test, ctx->charged,
			(ctx->nr_allocated + ctx->nr_prealloc) * HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, nr_empty(ctx), PAGES - ctx->nr_allocated);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, PAGES);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);

	for (u32 i = 0; i < TIMERS; i++) {
		if (i / HTW_PAGE_TIMERS % 10)
			expect_stale(test, ctx, ids[i]);
	}
	KUNIT_EXPECT_EQ(test, count_listed(test, ctx), kept * HTW_PAGE_TIMERS);
	for (u32 page = 0; page < PAGES; page++)
		KUNIT_EXPECT_EQ(test, htw_walk_cancel(ctx, page, 0),
				page % 10 ? 0 : HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	htw_test_expect_empty(test);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* Memory is not freed before the grace period since the mark has passed: here none can unseen. */
static void freeing_waits_for_a_grace_period(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	unsigned long unlinked;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_GT(test, htw_shrink_mark(ctx), 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), -EAGAIN);
	KUNIT_EXPECT_EQ(test, nr_empty(ctx), 0);
	grace_period(ctx);
	unlinked = get_state_synchronize_rcu();
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), PAGES - 32);
	/* Nor before lookups are over that found the pages while they were linked. */
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu(unlinked));
}
#endif /* CONFIG_UML_TIME_TRAVEL_SUPPORT */

static void empty_entries_are_filled_with_new_ids(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test), *others = new_ids(test);
	u32 highest = 1;

	for (unsigned int round = 0; round < 3; round++) {
		start_all(test, ctx, ids);
		KUNIT_EXPECT_EQ(test, ctx->nr_pages, PAGES);
		KUNIT_EXPECT_EQ(test, ctx->nr_allocated, PAGES);
		KUNIT_EXPECT_EQ(test, nr_empty(ctx), 0);
		for (u32 i = 0; round && i < TIMERS; i++) {
			/* In pages that were freed, above all generations so far. */
			if ((u32)ids[i] / HTW_PAGE_SLOTS >= 32)
				KUNIT_EXPECT_GT(test, ids[i] >> 32, highest);
			expect_stale(test, ctx, others[i]);
		}
		for (u32 i = 0; i < TIMERS; i++)
			highest = max_t(u32, highest, ids[i] >> 32);
		cancel_but(test, ctx, ids, 0);
		KUNIT_EXPECT_EQ(test, shrink(ctx), PAGES - 32);
		KUNIT_EXPECT_GT(test, ctx->generation, highest);
		memcpy(others, ids, TIMERS * sizeof(*ids));
	}
}

/* The first empty entry is filled first, so that pages gather at the front. */
static void growing_fills_the_first_empty_entry(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	u32 empty = 0;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	shrink(ctx);
	while (!is_empty(ctx, empty))
		empty++;
	KUNIT_EXPECT_EQ(test, empty, 32);
	for (u32 i = 0; i < 32 * HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	KUNIT_EXPECT_TRUE(test, is_empty(ctx, empty));
	for (; empty < PAGES; empty++) {
		const u64 id = htw_test_start(test, ctx, NEVER, empty);

		KUNIT_ASSERT_EQ(test, (u32)id / HTW_PAGE_SLOTS, empty);
		KUNIT_ASSERT_FALSE(test, is_empty(ctx, empty));
		for (u32 i = 1; i < HTW_PAGE_TIMERS; i++)
			htw_test_start(test, ctx, NEVER, i);
	}
	KUNIT_EXPECT_EQ(test, nr_empty(ctx), 0);
	htw_test_start(test, ctx, NEVER, 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, PAGES + 1);
}

/* No page is marked unless there are more than should stay. */
static void pages_that_should_stay_are_not_marked(struct kunit *test)
{
	const u32 in_use = (PAGES - LEAST_PAGES) * HTW_PAGE_TIMERS / 2;
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	u32 i;

	start_all(test, ctx, ids);
	for (i = in_use; i < TIMERS; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), 0);
	for (i = 0; i < HTW_PAGE_TIMERS / 2 + 1; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_GT(test, htw_shrink_mark(ctx), 0);
}

/* A page stays if one timer was used and freed since the mark. */
static void pages_used_since_the_mark_stay(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test), id;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), PAGES);
	grace_period(ctx);
	id = htw_test_start(test, ctx, NEVER, 0);
	KUNIT_EXPECT_EQ(test, cancel(ctx, id), 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), PAGES - 32);
	KUNIT_EXPECT_FALSE(test, is_empty(ctx, (u32)id / HTW_PAGE_SLOTS));
}

static void pages_with_reserved_timers_stay(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	LIST_HEAD(reserved);
	struct htw_timer *t;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	htw_shrink_mark(ctx);
	KUNIT_ASSERT_EQ(test, htw_test_reserve(ctx, &reserved, 1), 1);
	grace_period(ctx);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), PAGES - 33);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);
	t = list_first_entry(&reserved, struct htw_timer, node.list);
	KUNIT_EXPECT_FALSE(test, is_empty(ctx, htw_timer_page(t)->slot / HTW_PAGE_SLOTS));
	htw_pool_unreserve(ctx, &reserved);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 1);
}

/* A table of deadlines needs all pages: those that were given back come again, and stay. */
static void table_brings_pages_back(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	int ret;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, shrink(ctx), PAGES - 32);
	htw_test_be_killed();
	ret = htw_table_enable(ctx);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 32);
	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, PAGES);
	KUNIT_EXPECT_EQ(test, nr_empty(ctx), 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, PAGES);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);
	for (u32 i = 0; i < TIMERS; i++)
		expect_stale(test, ctx, ids[i]);
}

/* A slot whose generations are used up, and one above HTW_SHRINK_GENERATION_MAX. */
static void used_up_generations_stay(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	set_generation(ctx, PAGES - 1, U32_MAX);
	ids[(PAGES - 1) * HTW_PAGE_TIMERS + 7] |= (u64)U32_MAX << 32;
	set_generation(ctx, PAGES - 2, BIT(31));
	ids[(PAGES - 2) * HTW_PAGE_TIMERS + 7] |= (u64)BIT(31) << 32;
	ids[(PAGES - 2) * HTW_PAGE_TIMERS + 7] &= ~BIT_ULL(32);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, shrink(ctx), PAGES - 32);
	KUNIT_EXPECT_FALSE(test, is_empty(ctx, PAGES - 1));
	KUNIT_EXPECT_FALSE(test, is_empty(ctx, PAGES - 2));
	KUNIT_EXPECT_TRUE(test, is_empty(ctx, PAGES - 3));
	KUNIT_EXPECT_EQ(test, ctx->generation, 2);
}

/* Wait until the context's own work has freed enough. */
static bool shrinks_to(struct htw_context *ctx, u32 pages)
{
	for (unsigned int i = 0; i < 6000; i++) {
		u32 held;

		spin_lock_bh(&ctx->lock);
		held = ctx->nr_allocated;
		spin_unlock_bh(&ctx->lock);
		if (held <= pages)
			return true;
		msleep(20);
	}
	return false;
}

static bool finishes_work(struct htw_context *ctx)
{
	for (unsigned int i = 0; i < 6000; i++) {
		bool shrinking;

		spin_lock_bh(&ctx->lock);
		shrinking = ctx->shrinking;
		spin_unlock_bh(&ctx->lock);
		if (!shrinking)
			return true;
		msleep(20);
	}
	return false;
}

static void a_fall_in_use_starts_the_work(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	/* With a quarter in use, nothing happens. */
	for (u32 i = TIMERS / 4; i < TIMERS; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
	KUNIT_EXPECT_EQ(test, cancel(ctx, ids[0]), 0);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(ctx->shrinking));
	KUNIT_EXPECT_TRUE(test, shrinks_to(ctx, 2 * PAGES / 4 + 32));
	KUNIT_EXPECT_TRUE(test, finishes_work(ctx));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
	for (u32 i = 1; i < TIMERS / 4; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_TRUE(test, shrinks_to(ctx, 64));
	KUNIT_EXPECT_TRUE(test, finishes_work(ctx));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
}

/* A scan that frees nothing is repeated only after a cancel, with increasing delays. */
static void scans_in_vain_back_off(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	u64 *ids = new_ids(test);
	int least = 0;

	start_all(test, ctx, ids);
	for (u32 i = 0; i < TIMERS; i++) {
		if (i % HTW_PAGE_TIMERS)
			KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
		least = least ?: ctx->shrink_delay;
	}
	KUNIT_EXPECT_TRUE(test, finishes_work(ctx));
	for (unsigned int i = 0; i < 3; i++) {
		const u64 id = htw_test_start(test, ctx, NEVER, 0);
		const int delay = ctx->shrink_delay;

		KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
		KUNIT_EXPECT_EQ(test, cancel(ctx, id), 0);
		KUNIT_EXPECT_TRUE(test, READ_ONCE(ctx->shrinking));
		KUNIT_EXPECT_TRUE(test, finishes_work(ctx));
		KUNIT_EXPECT_EQ(test, ctx->nr_allocated, PAGES);
		KUNIT_EXPECT_EQ(test, ctx->shrink_delay, min(2 * delay, 8 * HZ));
	}
	/* A single page is not in vain: the next scan, which is, begins with the least delay. */
	KUNIT_ASSERT_EQ(test, cancel(ctx, ids[TIMERS - HTW_PAGE_TIMERS]), 0);
	KUNIT_EXPECT_TRUE(test, finishes_work(ctx));
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, PAGES - 1);
	KUNIT_EXPECT_EQ(test, ctx->shrink_delay, 2 * least);
	for (u32 i = 0; i < TIMERS - HTW_PAGE_TIMERS; i += HTW_PAGE_TIMERS)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_TRUE(test, shrinks_to(ctx, 64));
}

/* Close a context in different stages of its work: four, in more rounds if pages are small. */
static void close_while_pages_are_freed(struct kunit *test)
{
	const unsigned int rounds = max(4u, 12 * 63 / HTW_PAGE_TIMERS);
	u64 *ids = new_ids(test);

	for (unsigned int i = 0; i < rounds; i++) {
		struct htw_context *ctx = htw_contexts_create(HTW_TEST_LIMIT);

		KUNIT_ASSERT_NOT_NULL(test, ctx);
		start_all(test, ctx, ids);
		cancel_but(test, ctx, ids, i % 2 ? 7 : 0);
		spin_lock_bh(&ctx->lock);
		if (ctx->shrinking)
			mod_delayed_work(htw_wq, &ctx->shrink, 0);
		spin_unlock_bh(&ctx->lock);
		if (i % 4 > 1) {
			flush_delayed_work(&ctx->shrink);
			mod_delayed_work(htw_wq, &ctx->shrink, 0);
		}
		usleep_range(100 * i, 100 * i + 200);
		htw_contexts_close(ctx);
	}
	/* Wait until all is freed. */
	rcu_barrier();
	htw_test_expect_empty(test);
}

#ifdef CONFIG_SMP
/* A section that goes on until @end is set. */
struct long_section {
	struct htw_context *ctx;
	u64 id;
	int ret;
	struct completion found;
	atomic_t end;
};

static int long_section_thread(void *data)
{
	struct long_section *r = data;
	struct htw_cancel cancel = { .id = r->id };
	struct htw_section s;

	htw_section_begin(&s, r->ctx);
	r->ret = htw_section_cancel(&s, htw_section_find(&s, cancel.id), &cancel, true);
	complete(&r->found);
	while (!atomic_read(&r->end))
		cpu_relax();
	htw_section_end(&s);
	return 0;
}

/*
 * Read a timer over and over; KASAN finds it if its memory is freed. As in a section, but
 * without a base's lock, which the case may need.
 */
static int long_read_thread(void *data)
{
	struct long_section *r = data;
	const struct htw_timer *t;

	local_bh_disable();
	t = &htw_context_page(r->ctx, (u32)r->id / HTW_PAGE_SLOTS)->header +
	    (u32)r->id % HTW_PAGE_SLOTS;
	complete(&r->found);
	while (!atomic_read(&r->end)) {
		r->ret |= htw_timer_is_live(t);
		cpu_relax();
	}
	local_bh_enable();
	return 0;
}

/*
 * Start @fn on another CPU, which then runs nothing else. The case must not need that CPU, so
 * it stays on its own CPU until end_long_section().
 */
static struct task_struct *begin_long_section(struct kunit *test, struct long_section *r,
					      int (*fn)(void *data))
{
	struct task_struct *task;

	migrate_disable();
	task = kthread_create_on_cpu(fn, r, cpumask_any_but(cpu_online_mask, smp_processor_id()),
				     "htw_kunit_long/%u");
	if (IS_ERR(task))
		migrate_enable();
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	init_completion(&r->found);
	get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&r->found);
	return task;
}

/*
 * Sleep beside a long section. Its CPU handles no softirq, and may be the one that has to expire
 * the timers of all idle CPUs: msleep() would last as long as the section. An hrtimer expires.
 */
static void sleep_beside_long_section(unsigned int ms)
{
	usleep_range(ms * USEC_PER_MSEC, (ms + 1) * USEC_PER_MSEC);
}

static void end_long_section(struct kunit *test, struct long_section *r, struct task_struct *task)
{
	atomic_set(&r->end, 1);
	kthread_stop_put(task);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, r->ret, 0);
}

/* While a section goes on, the timers that it freed are on its private list. */
static void a_section_is_waited_for(struct kunit *test)
{
	struct long_section *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, r);
	start_all(test, ctx, ids);
	for (u32 i = 0; i < TIMERS - 1; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	r->ctx = ctx;
	r->id = ids[TIMERS - 1];
	task = begin_long_section(test, r, long_section_thread);

	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), PAGES);
	for (unsigned int i = 0; i < 20; i++) {
		KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), -EAGAIN);
		sleep_beside_long_section(20);
	}
	end_long_section(test, r, task);
	grace_period(ctx);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), PAGES - 32);
	KUNIT_EXPECT_TRUE(test, is_empty(ctx, PAGES - 1));
}

struct reclaim {
	struct work_struct work;
	struct htw_context *ctx;
	int freed;
};

static void reclaim_work(struct work_struct *work)
{
	struct reclaim *reclaim = container_of(work, struct reclaim, work);

	reclaim->freed = htw_shrink_reclaim(reclaim->ctx);
}

/* A lookup from before the page was removed may still read it. */
static void a_page_that_was_found_stays_readable(struct kunit *test)
{
	struct long_section *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct reclaim *reclaim = kunit_kzalloc(test, sizeof(*reclaim), GFP_KERNEL);
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, r);
	KUNIT_ASSERT_NOT_NULL(test, reclaim);
	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), PAGES);
	grace_period(ctx);
	r->ctx = ctx;
	r->id = ids[TIMERS - 1];
	task = begin_long_section(test, r, long_read_thread);

	/* It waits for the reader before it frees the pages. */
	reclaim->ctx = ctx;
	INIT_WORK(&reclaim->work, reclaim_work);
	queue_work(system_unbound_wq, &reclaim->work);
	for (unsigned int i = 0; i < 1000 && !is_empty(ctx, PAGES - 1); i++)
		sleep_beside_long_section(20);
	KUNIT_EXPECT_TRUE(test, is_empty(ctx, PAGES - 1));
	sleep_beside_long_section(100);
	KUNIT_EXPECT_NE(test, work_busy(&reclaim->work), 0);
	end_long_section(test, r, task);
	flush_work(&reclaim->work);
	KUNIT_EXPECT_EQ(test, reclaim->freed, PAGES - 32);
}

#define MAX_THREADS		4
/* Far more pages of them than a context keeps. */
#define SHARED			((IS_ENABLED(CONFIG_KCSAN) ? 64 : 128) * HTW_PAGE_SLOTS)
/* Pages to be freed: more than emptying the context once frees. A larger page holds more timers. */
#define ENOUGH			(IS_ENABLED(CONFIG_KCSAN) || PAGE_SIZE > SZ_4K ? 20 : 80)

/*
 * All threads share the array of ids, so a thread moves, queries or cancels an id that another one
 * has just cancelled, or whose page is being freed.
 */
struct shrink_torture {
	struct htw_context *ctx;
	atomic64_t ids[SHARED];
	atomic_t added;
	atomic_t cancelled;
	atomic_t reclaimed;
	atomic_t failed;
	atomic_t empties;	/* threads cancel; else they add */
	atomic_t stop;
};

struct shrink_thread {
	struct shrink_torture *torture;
	struct task_struct *task;
	struct completion begun;
	struct rnd_state rnd;
	bool shrinks;
};

static void torture_fill(struct shrink_torture *to, atomic64_t *slot)
{
	const struct htw_add add = { .flags = HTW_F_ABS, .deadline = NEVER, .cookie = 1 };
	const u64 id = htw_test_add(to->ctx, &add);

	if (!id) {
		atomic_inc(&to->failed);
		return;
	}
	atomic_inc(&to->added);
	if (atomic64_cmpxchg(slot, 0, id)) {
		if (cancel(to->ctx, id))
			atomic_inc(&to->failed);
		else
			atomic_inc(&to->cancelled);
	}
}

static void torture_use(struct shrink_torture *to, atomic64_t *slot, u32 random)
{
	const u64 id = atomic64_read(slot);
	struct htw_mod mod = { .id = id, .flags = HTW_MOD_DEADLINE | HTW_F_ABS, .deadline = NEVER };
	struct htw_query query = { .id = id };
	struct htw_section s;

	htw_section_begin(&s, to->ctx);
	if (random & BIT(20))
		htw_section_mod(&s, htw_section_find(&s, id), &mod);
	if (!htw_section_query(&s, &query) && (query.id != id || query.cookie != 1))
		atomic_inc(&to->failed);
	htw_section_end(&s);
}

static int torture_thread(void *data)
{
	struct shrink_thread *thread = data;
	struct shrink_torture *to = thread->torture;
	struct htw_query entries[4];

	complete(&thread->begun);
	for (u32 n = 0; !atomic_read(&to->stop); n++) {
		const u32 random = prandom_u32_state(&thread->rnd);
		atomic64_t *slot = &to->ids[random % SHARED];

		if (thread->shrinks) {
			const int freed = shrink(to->ctx);

			if (freed > 0)
				atomic_add(freed, &to->reclaimed);
			else if (htw_test_nr_timers(to->ctx) < 2 * SHARED / HTW_PAGE_SLOTS)
				atomic_set(&to->empties, 0);	/* nothing left to free */
			continue;
		}
		if (htw_test_nr_timers(to->ctx) > SHARED * 3 / 4)
			atomic_set(&to->empties, 1);
		/* Cancel in order, with an add now and then. */
		if (atomic_read(&to->empties) && random >> 22) {
			const u64 id = atomic64_read(&to->ids[n % SHARED]);

			if (id && !cancel(to->ctx, id)) {
				atomic_inc(&to->cancelled);
				atomic64_cmpxchg(&to->ids[n % SHARED], id, 0);
			}
		} else if (!atomic64_read(slot)) {
			torture_fill(to, slot);
		}
		if (!(random & BIT(21)))
			torture_use(to, &to->ids[random >> 8 & (SHARED - 1)], random);
		if (!(random >> 24)) {
			u32 from = random % (htw_context_pages(to->ctx) ?: 1) * HTW_PAGE_SLOTS;

			if (from < htw_context_pages(to->ctx) * HTW_PAGE_SLOTS)
				htw_walk_list(to->ctx, &from, entries, ARRAY_SIZE(entries),
					      HTW_LIST_PENDING);
		}
		cond_resched();
	}
	return 0;
}

static void threads_race_with_freeing(struct kunit *test)
{
	struct shrink_thread *threads = kunit_kcalloc(test, MAX_THREADS, sizeof(*threads),
						      GFP_KERNEL);
	struct shrink_torture *to = kunit_kzalloc(test, sizeof(*to), GFP_KERNEL);
	unsigned long end;
	unsigned int n;
	u32 left = 0;

	KUNIT_ASSERT_NOT_NULL(test, threads);
	KUNIT_ASSERT_NOT_NULL(test, to);
	to->ctx = context_by_hand(test);
	/* Begin with so many that some are cancelled: adding them in a race takes long. */
	for (n = 0; n <= SHARED * 3 / 4; n++)
		torture_fill(to, &to->ids[n]);
	for (n = 0; n < MAX_THREADS; n++) {
		threads[n].torture = to;
		threads[n].shrinks = !n;
		init_completion(&threads[n].begun);
		prandom_seed_state(&threads[n].rnd, n + 1);
		threads[n].task = kthread_create(torture_thread, &threads[n], "htw_kunit/%u", n);
		if (IS_ERR(threads[n].task))
			break;
		get_task_struct(threads[n].task);
		wake_up_process(threads[n].task);
	}
	KUNIT_EXPECT_EQ(test, n, MAX_THREADS);
	/* Until enough was freed, or for 200 s, in which a busy host does less. */
	end = jiffies + 200 * HZ;
	while (atomic_read(&to->reclaimed) < ENOUGH && time_before(jiffies, end))
		msleep(20);
	atomic_set(&to->stop, 1);
	while (n--) {
		wait_for_completion(&threads[n].begun);
		kthread_stop_put(threads[n].task);
	}
	kunit_info(test, "%d started, %d cancelled, %d pages freed\n",
		   atomic_read(&to->added), atomic_read(&to->cancelled),
		   atomic_read(&to->reclaimed));
	KUNIT_EXPECT_EQ(test, atomic_read(&to->failed), 0);
	KUNIT_EXPECT_GE(test, atomic_read(&to->reclaimed), ENOUGH / 4);
	for (u32 i = 0; i < SHARED; i++) {
		const u64 id = atomic64_read(&to->ids[i]);

		if (id && !cancel(to->ctx, id))
			left++;
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&to->added), atomic_read(&to->cancelled) + left);
	KUNIT_EXPECT_EQ(test, to->ctx->nr_timers, 0);
	htw_test_expect_empty(test);
}
#endif /* CONFIG_SMP */

/* Unused timers of a page are not lost when another page is added. */
static void growing_early_loses_no_timer(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);

	htw_test_start(test, ctx, NEVER, 0);
	mutex_lock(&ctx->grow);
	KUNIT_EXPECT_EQ(test, htw_pool_grow(ctx), 0);
	mutex_unlock(&ctx->grow);
	for (u32 i = 1; i < 2 * HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 2);
}

/* CPUs beside each other have lists of their own, and all have one. */
static void lists_are_divided_among_the_cpus(struct kunit *test)
{
	unsigned long lists = 0;

	for (unsigned int cpu = 0; cpu < HTW_FREE_LISTS; cpu++)
		lists |= BIT(htw_pool_group(cpu));
	KUNIT_EXPECT_EQ(test, lists, BIT(HTW_FREE_LISTS) - 1);
	for (unsigned int cpu = HTW_FREE_LISTS; cpu < 1000; cpu++)
		KUNIT_EXPECT_LT(test, htw_pool_group(cpu), HTW_FREE_LISTS);
}

/* No page is added while another CPU's list has free timers. */
static void timers_freed_by_other_cpus_are_used(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	LIST_HEAD(reserved);

	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	KUNIT_EXPECT_EQ(test, htw_walk_cancel(ctx, 0, 0), HTW_PAGE_TIMERS);
	htw_test_free_elsewhere(ctx);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), HTW_PAGE_TIMERS);

	/* In bulk, and one alone. */
	KUNIT_EXPECT_EQ(test, htw_test_reserve(ctx, &reserved, HTW_PAGE_TIMERS - 1),
			HTW_PAGE_TIMERS - 1);
	htw_test_free_elsewhere(ctx);
	htw_test_start(test, ctx, NEVER, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 1);
	htw_pool_unreserve(ctx, &reserved);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), HTW_PAGE_TIMERS - 1);
}

struct late_add {
	struct htw_context *ctx;
	struct list_head reserved;
	int ret;
};

static int late_add_thread(void *data)
{
	struct late_add *add = data;

	add->ret = htw_test_reserve(add->ctx, &add->reserved, 1);
	return 0;
}

/* After waiting for @grow, an add looks for freed timers before it adds a page. */
static void timers_freed_meanwhile_are_used(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	struct late_add *add = kunit_kzalloc(test, sizeof(*add), GFP_KERNEL);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, add);
	add->ctx = ctx;
	INIT_LIST_HEAD(&add->reserved);
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	mutex_lock(&ctx->grow);
	task = kthread_create(late_add_thread, add, "htw_kunit_add");
	if (IS_ERR(task))
		mutex_unlock(&ctx->grow);
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	while (READ_ONCE(task->__state) != TASK_KILLABLE)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, htw_walk_cancel(ctx, 0, 0), HTW_PAGE_TIMERS);
	htw_test_free_elsewhere(ctx);
	mutex_unlock(&ctx->grow);
	kthread_stop_put(task);
	KUNIT_EXPECT_EQ(test, add->ret, 1);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 1);
	htw_pool_unreserve(ctx, &add->reserved);
}

static void set_limit(unsigned long timers)
{
	WRITE_ONCE(htw_max_user_timers, timers);
}

KUNIT_DEFINE_ACTION_WRAPPER(restore_limit, set_limit, unsigned long);

/* Directories of pages that were given back count, so that a user cannot collect them. */
static void directories_of_freed_pages_count(struct kunit *test)
{
	/*
	 * More than half of a directory of 2,048 entries, of which a context keeps about 40 pages:
	 * so directories meet their limit first.
	 */
	const u32 pages = 1025, limit = 8192;
	u32 entries = 0;
	int got = 0;

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_limit,
					       (void *)(unsigned long)htw_max_user_timers), 0);
	set_limit(limit * HTW_PAGE_TIMERS);
	for (u32 i = 0; i < limit / LEAST_PAGES && got >= 0; i++) {
		struct htw_context *ctx = htw_test_context_of(test, 54324);
		LIST_HEAD(reserved);

		spin_lock_bh(&ctx->lock);
		ctx->shrinking = true;
		spin_unlock_bh(&ctx->lock);
		for (u32 n = 0; n < pages && got >= 0; n++)
			got = htw_test_reserve(ctx, &reserved, HTW_PAGE_TIMERS);
		htw_pool_unreserve(ctx, &reserved);
		shrink(ctx);
		rcu_read_lock();
		entries += rcu_dereference(ctx->dir)->mask + 1;
		rcu_read_unlock();
	}
	KUNIT_EXPECT_EQ(test, got, -EDQUOT);
	/* As many as fit, and those that are too small to be counted. */
	KUNIT_EXPECT_LE(test, entries, 32 * limit + limit);
	KUNIT_EXPECT_GE(test, entries, 30 * limit);
}

#ifdef CONFIG_DEBUG_KMEMLEAK
/*
 * Nothing points to what kmemleak reports. An object has to be 5 s old, and unchanged since the
 * scan before. The last suite's last case: all others are over.
 */
static void no_memory_is_lost(struct kunit *test)
{
	msleep(6000);
	htw_test_debugfs_set(test, "kmemleak", "scan");
	htw_test_debugfs_set(test, "kmemleak", "scan");
	KUNIT_EXPECT_STREQ(test, htw_test_debugfs_text(test, "kmemleak"), "");
}
#endif

static struct kunit_case htw_shrink_cases[] = {
	KUNIT_CASE(growing_early_loses_no_timer),
	KUNIT_CASE(lists_are_divided_among_the_cpus),
	KUNIT_CASE(timers_freed_by_other_cpus_are_used),
	KUNIT_CASE(timers_freed_meanwhile_are_used),
	KUNIT_CASE_SLOW(pages_in_the_middle_are_freed),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE_SLOW(freeing_waits_for_a_grace_period),
#endif
	KUNIT_CASE_SLOW(empty_entries_are_filled_with_new_ids),
	KUNIT_CASE_SLOW(growing_fills_the_first_empty_entry),
	KUNIT_CASE_SLOW(pages_that_should_stay_are_not_marked),
	KUNIT_CASE_SLOW(pages_used_since_the_mark_stay),
	KUNIT_CASE_SLOW(pages_with_reserved_timers_stay),
	KUNIT_CASE_SLOW(table_brings_pages_back),
	KUNIT_CASE_SLOW(used_up_generations_stay),
	KUNIT_CASE_SLOW(a_fall_in_use_starts_the_work),
	KUNIT_CASE_SLOW(scans_in_vain_back_off),
	KUNIT_CASE_SLOW(close_while_pages_are_freed),
	KUNIT_CASE_SLOW(directories_of_freed_pages_count),
#ifdef CONFIG_SMP
	KUNIT_CASE_SLOW(a_section_is_waited_for),
	KUNIT_CASE_SLOW(a_page_that_was_found_stays_readable),
	KUNIT_CASE_SLOW(threads_race_with_freeing),
#endif
#ifdef CONFIG_DEBUG_KMEMLEAK
	KUNIT_CASE_SLOW(no_memory_is_lost),
#endif
	{}
};

static struct kunit_suite htw_shrink_suite = {
	.name = "htw_shrink",
	.init = htw_test_init,
	.test_cases = htw_shrink_cases,
};

kunit_test_suite(htw_shrink_suite);

MODULE_DESCRIPTION("KUnit: free pages of timers are given back");
MODULE_LICENSE("GPL");
