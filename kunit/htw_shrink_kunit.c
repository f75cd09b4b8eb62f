// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: memory of timers is given back, and nothing notices
 *
 * Most cases do by hand what the context's work does, so that what happens
 * between its steps is up to them. Where several CPUs take part, KASAN tells
 * whether somebody read what had been freed.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "htw_kunit.h"

#define CHUNKS			200u
#define TIMERS			(CHUNKS * HTW_PAGE_TIMERS)
#define NEVER			U64_MAX

/* The context's own work stays away: it believes that it has begun. */
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

/* All but those in every @but-th page; none is spared if that is zero. */
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
 * The grace period that the mark began is over. synchronize_rcu() would not do:
 * while the kernel boots it waits for an expedited one, which is another.
 */
static void grace_period(const struct htw_context *ctx)
{
	for (unsigned int i = 0; i < 60000 && !poll_state_synchronize_rcu(ctx->shrink_gp); i++)
		usleep_range(1000, 2000);
}

/* What the work does, without its pauses. */
static int shrink(struct htw_context *ctx)
{
	if (!htw_shrink_mark(ctx))
		return 0;
	grace_period(ctx);
	return htw_shrink_reclaim(ctx);
}

static bool is_hole(const struct htw_context *ctx, u32 page)
{
	return htw_context_page(ctx, page) == &htw_no_page;
}

static u32 holes(const struct htw_context *ctx)
{
	u32 n = 0;

	for (u32 i = 0; i < ctx->nr_pages; i++)
		n += is_hole(ctx, i);
	return n;
}

/* A free timer of the context, or any, with this generation from now on. */
static void set_generation(struct htw_context *ctx, u32 page, u32 generation)
{
	WRITE_ONCE(htw_context_page(ctx, page)->timers[7].generation, generation);
}

/* No operation finds a timer, or does anything. */
static void expect_stale(struct kunit *test, struct htw_context *ctx, u64 id)
{
	struct htw_mod mod = { .id = id, .flags = HTW_MOD_DEADLINE };
	struct htw_query query = { .id = id };
	struct htw_submit s;

	KUNIT_EXPECT_EQ(test, cancel(ctx, id), -ENOENT);
	htw_submit_begin(&s, ctx);
	KUNIT_EXPECT_EQ(test, htw_submit_mod(&s, htw_submit_find(&s, id), &mod), -ENOENT);
	KUNIT_EXPECT_EQ(test, htw_submit_query(&s, &query), -ENOENT);
	htw_submit_end(&s);
}

/* How many timers a list tells. */
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

static void chunks_in_the_middle_go(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	const u32 kept = DIV_ROUND_UP(CHUNKS, 10);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, CHUNKS);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);
	cancel_but(test, ctx, ids, 10);
	/* As many as are in use, and some. */
	KUNIT_EXPECT_EQ(test, shrink(ctx), CHUNKS - 2 * kept - 32);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 2 * kept + 32);
	KUNIT_EXPECT_EQ(test, holes(ctx), CHUNKS - ctx->nr_allocated);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, CHUNKS);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);

	for (u32 i = 0; i < TIMERS; i++) {
		if (i / HTW_PAGE_TIMERS % 10)
			expect_stale(test, ctx, ids[i]);
	}
	KUNIT_EXPECT_EQ(test, count_listed(test, ctx), kept * HTW_PAGE_TIMERS);
	for (u32 page = 0; page < CHUNKS; page++)
		KUNIT_EXPECT_EQ(test, htw_walk_cancel(ctx, page, 0),
				page % 10 ? 0 : HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	htw_test_expect_empty(test);
}

static void holes_are_filled_with_new_ids(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test), *others = new_ids(test);
	u32 highest = 1;

	for (unsigned int round = 0; round < 3; round++) {
		start_all(test, ctx, ids);
		KUNIT_EXPECT_EQ(test, ctx->nr_pages, CHUNKS);
		KUNIT_EXPECT_EQ(test, ctx->nr_allocated, CHUNKS);
		KUNIT_EXPECT_EQ(test, holes(ctx), 0);
		for (u32 i = 0; round && i < TIMERS; i++) {
			/* Above all that there were, in whatever slot. */
			if ((u32)ids[i] / HTW_PAGE_SLOTS >= 32)
				KUNIT_EXPECT_GT(test, ids[i] >> 32, highest);
			expect_stale(test, ctx, others[i]);
		}
		for (u32 i = 0; i < TIMERS; i++)
			highest = max_t(u32, highest, ids[i] >> 32);
		cancel_but(test, ctx, ids, 0);
		KUNIT_EXPECT_EQ(test, shrink(ctx), CHUNKS - 32);
		KUNIT_EXPECT_GT(test, ctx->generation, highest);
		memcpy(others, ids, TIMERS * sizeof(*ids));
	}
}

/* The lowest hole first, so that the pages gather at the front. */
static void growing_finds_the_first_hole(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	u32 hole = 0;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	shrink(ctx);
	while (!is_hole(ctx, hole))
		hole++;
	KUNIT_EXPECT_EQ(test, hole, 32);
	for (u32 i = 0; i < 32 * HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	KUNIT_EXPECT_TRUE(test, is_hole(ctx, hole));
	for (; hole < CHUNKS; hole++) {
		const u64 id = htw_test_start(test, ctx, NEVER, hole);

		KUNIT_ASSERT_EQ(test, (u32)id / HTW_PAGE_SLOTS, hole);
		KUNIT_ASSERT_FALSE(test, is_hole(ctx, hole));
		for (u32 i = 1; i < HTW_PAGE_TIMERS; i++)
			htw_test_start(test, ctx, NEVER, i);
	}
	KUNIT_EXPECT_EQ(test, holes(ctx), 0);
	htw_test_start(test, ctx, NEVER, 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, CHUNKS + 1);
}

/* One use of one timer, which is over already, and the page is left alone. */
static void what_was_used_since_stays(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test), id;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), CHUNKS);
	grace_period(ctx);
	id = htw_test_start(test, ctx, NEVER, 0);
	KUNIT_EXPECT_EQ(test, cancel(ctx, id), 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), CHUNKS - 32);
	KUNIT_EXPECT_FALSE(test, is_hole(ctx, (u32)id / HTW_PAGE_SLOTS));
}

static void what_is_reserved_stays(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	LIST_HEAD(reserved);
	struct htw_timer *t;

	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	htw_shrink_mark(ctx);
	KUNIT_ASSERT_EQ(test, htw_slots_reserve(ctx, &reserved, 1, NULL), 1);
	grace_period(ctx);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), CHUNKS - 33);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 0);
	t = list_first_entry(&reserved, struct htw_timer, node.list);
	KUNIT_EXPECT_FALSE(test, is_hole(ctx, htw_timer_page(t)->slot / HTW_PAGE_SLOTS));
	htw_slots_unreserve(ctx, &reserved);
	KUNIT_EXPECT_EQ(test, shrink(ctx), 1);
}

/* A slot that is used up, and one that new timers could not start above. */
static void used_up_generations_stay(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	set_generation(ctx, CHUNKS - 1, U32_MAX);
	ids[(CHUNKS - 1) * HTW_PAGE_TIMERS + 7] |= (u64)U32_MAX << 32;
	set_generation(ctx, CHUNKS - 2, BIT(31));
	ids[(CHUNKS - 2) * HTW_PAGE_TIMERS + 7] |= (u64)BIT(31) << 32;
	ids[(CHUNKS - 2) * HTW_PAGE_TIMERS + 7] &= ~BIT_ULL(32);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, shrink(ctx), CHUNKS - 32);
	KUNIT_EXPECT_FALSE(test, is_hole(ctx, CHUNKS - 1));
	KUNIT_EXPECT_FALSE(test, is_hole(ctx, CHUNKS - 2));
	KUNIT_EXPECT_TRUE(test, is_hole(ctx, CHUNKS - 3));
	KUNIT_EXPECT_EQ(test, ctx->generation, 2);
}

/* Waits for the context's own work, which begins when enough was cancelled. */
static bool comes_to_hold(struct htw_context *ctx, u32 pages)
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

static bool comes_to_rest(struct htw_context *ctx)
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

static void a_fall_in_use_begins_it(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	/* A quarter is left, and nothing happens. */
	for (u32 i = TIMERS / 4; i < TIMERS; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
	KUNIT_EXPECT_EQ(test, cancel(ctx, ids[0]), 0);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(ctx->shrinking));
	KUNIT_EXPECT_TRUE(test, comes_to_hold(ctx, 2 * CHUNKS / 4 + 32));
	KUNIT_EXPECT_TRUE(test, comes_to_rest(ctx));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
	for (u32 i = 1; i < TIMERS / 4; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_TRUE(test, comes_to_hold(ctx, 64));
	KUNIT_EXPECT_TRUE(test, comes_to_rest(ctx));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
}

/* Looking in vain is not repeated while nothing changes, and ever less often. */
static void looking_in_vain_gets_rare(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	u64 *ids = new_ids(test);

	start_all(test, ctx, ids);
	for (u32 i = 0; i < TIMERS; i++) {
		if (i % HTW_PAGE_TIMERS)
			KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	}
	KUNIT_EXPECT_TRUE(test, comes_to_rest(ctx));
	for (unsigned int i = 0; i < 3; i++) {
		const u64 id = htw_test_start(test, ctx, NEVER, 0);
		const int delay = ctx->shrink_delay;

		KUNIT_EXPECT_FALSE(test, delayed_work_pending(&ctx->shrink));
		KUNIT_EXPECT_EQ(test, cancel(ctx, id), 0);
		KUNIT_EXPECT_TRUE(test, READ_ONCE(ctx->shrinking));
		KUNIT_EXPECT_TRUE(test, comes_to_rest(ctx));
		KUNIT_EXPECT_EQ(test, ctx->nr_allocated, CHUNKS);
		KUNIT_EXPECT_EQ(test, ctx->shrink_delay, min(2 * delay, 8 * HZ));
	}
	for (u32 i = 0; i < TIMERS; i += HTW_PAGE_TIMERS)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	KUNIT_EXPECT_TRUE(test, comes_to_hold(ctx, 64));
}

/* What the work is doing when the context is closed differs from case to case. */
static void close_while_it_is_given_back(struct kunit *test)
{
	u64 *ids = new_ids(test);

	for (unsigned int i = 0; i < 12; i++) {
		struct htw_context *ctx = htw_context_alloc(HTW_TEST_LIMIT);

		KUNIT_ASSERT_NOT_NULL(test, ctx);
		start_all(test, ctx, ids);
		cancel_but(test, ctx, ids, i % 2 ? 7 : 0);
		spin_lock_bh(&ctx->lock);
		if (ctx->shrinking)
			mod_delayed_work(system_unbound_wq, &ctx->shrink, 0);
		spin_unlock_bh(&ctx->lock);
		if (i % 4 > 1) {
			flush_delayed_work(&ctx->shrink);
			mod_delayed_work(system_unbound_wq, &ctx->shrink, 0);
		}
		usleep_range(100 * i, 100 * i + 200);
		htw_context_close(ctx);
	}
	/* All of it is freed before the next case looks. */
	rcu_barrier();
	htw_test_expect_empty(test);
}

#ifdef CONFIG_SMP
/*
 * On several CPUs
 */

/* A run that has found a timer, and does not end before it is told to. */
struct long_run {
	struct htw_context *ctx;
	u64 id;
	int ret;
	struct completion found;
	atomic_t end;
};

static int long_run_thread(void *data)
{
	struct long_run *r = data;
	struct htw_cancel cancel = { .id = r->id };
	struct htw_submit s;

	htw_submit_begin(&s, r->ctx);
	r->ret = htw_submit_cancel(&s, htw_submit_find(&s, cancel.id), &cancel, true);
	complete(&r->found);
	while (!atomic_read(&r->end))
		cpu_relax();
	htw_submit_end(&s);
	return 0;
}

/*
 * Looks at a timer again and again; with KASAN, that is memory that is there. As
 * within a run, but with no lock that the case may need.
 */
static int long_look_thread(void *data)
{
	struct long_run *r = data;
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
 * On another CPU, which then runs nothing else: so that it cannot be the one that
 * wakes the case up, the case stays on its own until end_long_run().
 */
static struct task_struct *begin_long_run(struct kunit *test, struct long_run *r,
					  int (*fn)(void *data))
{
	struct task_struct *task;

	migrate_disable();
	task = kthread_create_on_cpu(fn, r, cpumask_any_but(cpu_online_mask, smp_processor_id()),
				     "htw_kunit_run/%u");
	if (IS_ERR(task))
		migrate_enable();
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	init_completion(&r->found);
	get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&r->found);
	return task;
}

static void end_long_run(struct kunit *test, struct long_run *r, struct task_struct *task)
{
	atomic_set(&r->end, 1);
	kthread_stop_put(task);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, r->ret, 0);
}

/* Its timers are free, and on no list that could be looked at. */
static void a_run_that_goes_on_is_waited_for(struct kunit *test)
{
	struct long_run *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, r);
	start_all(test, ctx, ids);
	for (u32 i = 0; i < TIMERS - 1; i++)
		KUNIT_ASSERT_EQ(test, cancel(ctx, ids[i]), 0);
	r->ctx = ctx;
	r->id = ids[TIMERS - 1];
	task = begin_long_run(test, r, long_run_thread);

	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), CHUNKS);
	for (unsigned int i = 0; i < 20; i++) {
		KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), -EAGAIN);
		msleep(20);
	}
	end_long_run(test, r, task);
	grace_period(ctx);
	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), CHUNKS - 32);
	KUNIT_EXPECT_TRUE(test, is_hole(ctx, CHUNKS - 1));
}

/* Who found a timer just before its page was taken reads on. */
static void what_was_found_stays_memory(struct kunit *test)
{
	struct long_run *r = kunit_kzalloc(test, sizeof(*r), GFP_KERNEL);
	struct htw_context *ctx = context_by_hand(test);
	u64 *ids = new_ids(test);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, r);
	start_all(test, ctx, ids);
	cancel_but(test, ctx, ids, 0);
	KUNIT_EXPECT_EQ(test, htw_shrink_mark(ctx), CHUNKS);
	grace_period(ctx);
	r->ctx = ctx;
	r->id = ids[TIMERS - 1];
	task = begin_long_run(test, r, long_look_thread);

	KUNIT_EXPECT_EQ(test, htw_shrink_reclaim(ctx), CHUNKS - 32);
	KUNIT_EXPECT_TRUE(test, is_hole(ctx, CHUNKS - 1));
	msleep(100);
	end_long_run(test, r, task);
}

#define MAX_THREADS		4
#define SHARED			8192u
/* Chunks given back: what emptying once gives, and more. */
#define ENOUGH			80

/*
 * All threads use the same ids: slots that hold an id are filled and emptied by
 * whoever comes, so an id is cancelled, moved and queried by one thread while
 * another has just cancelled it, or its page is given back.
 */
struct shrink_torture {
	struct htw_context *ctx;
	atomic64_t ids[SHARED];
	atomic_t added;
	atomic_t cancelled;
	atomic_t reclaimed;
	atomic_t failed;
	atomic_t empties;	/* that is what threads do; else they fill */
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
	struct htw_submit s;

	htw_submit_begin(&s, to->ctx);
	if (random & BIT(20))
		htw_submit_mod(&s, htw_submit_find(&s, id), &mod);
	if (!htw_submit_query(&s, &query) && (query.id != id || query.cookie != 1))
		atomic_inc(&to->failed);
	htw_submit_end(&s);
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
			const int gave = shrink(to->ctx);

			if (gave > 0)
				atomic_add(gave, &to->reclaimed);
			else if (READ_ONCE(to->ctx->nr_timers) < SHARED / 32)
				atomic_set(&to->empties, 0);	/* all that can go has gone */
			continue;
		}
		if (READ_ONCE(to->ctx->nr_timers) > SHARED * 3 / 4)
			atomic_set(&to->empties, 1);
		/* Emptying goes through all; now and then one is still added. */
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

static void threads_use_what_is_given_back(struct kunit *test)
{
	struct shrink_thread *threads = kunit_kcalloc(test, MAX_THREADS, sizeof(*threads),
						      GFP_KERNEL);
	struct shrink_torture *to = kunit_kzalloc(test, sizeof(*to), GFP_KERNEL);
	unsigned int n;
	u32 left = 0;

	KUNIT_ASSERT_NOT_NULL(test, threads);
	KUNIT_ASSERT_NOT_NULL(test, to);
	to->ctx = context_by_hand(test);
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
	/* Until enough was given back, or it looks as if that will not come. */
	for (unsigned int i = 0; i < 10000 && atomic_read(&to->reclaimed) < ENOUGH; i++)
		msleep(20);
	atomic_set(&to->stop, 1);
	while (n--) {
		wait_for_completion(&threads[n].begun);
		kthread_stop_put(threads[n].task);
	}
	kunit_info(test, "%d started, %d cancelled, %d pages given back\n",
		   atomic_read(&to->added), atomic_read(&to->cancelled),
		   atomic_read(&to->reclaimed));
	KUNIT_EXPECT_EQ(test, atomic_read(&to->failed), 0);
	KUNIT_EXPECT_GE(test, atomic_read(&to->reclaimed), ENOUGH);
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

/* A page comes while timers of the last one have never been used: they still are. */
static void growing_early_loses_none(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);

	htw_test_start(test, ctx, NEVER, 0);
	mutex_lock(&ctx->grow);
	KUNIT_EXPECT_EQ(test, htw_slots_grow(ctx), 0);
	mutex_unlock(&ctx->grow);
	for (u32 i = 1; i < 2 * HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 2);
}

/* All that is free was freed by another CPU. */
static void free_elsewhere(struct htw_context *ctx)
{
	LIST_HEAD(all);
	u32 there;

	spin_lock_bh(&ctx->lock);
	there = (raw_smp_processor_id() + 1) % HTW_FREE_LISTS;
	for (u32 i = 0; i < HTW_FREE_LISTS; i++)
		list_splice_init(&ctx->free[i], &all);
	list_splice(&all, &ctx->free[there]);
	ctx->free_cpus = BIT(there);
	spin_unlock_bh(&ctx->lock);
}

/* No memory is made for one CPU while there is some that another has freed. */
static void what_other_cpus_freed_is_used(struct kunit *test)
{
	struct htw_context *ctx = context_by_hand(test);
	LIST_HEAD(reserved);

	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, NEVER, i);
	KUNIT_EXPECT_EQ(test, htw_walk_cancel(ctx, 0, 0), HTW_PAGE_TIMERS);
	free_elsewhere(ctx);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), HTW_PAGE_TIMERS);

	/* Several at a time, and one. */
	KUNIT_EXPECT_EQ(test, htw_slots_reserve(ctx, &reserved, HTW_PAGE_TIMERS - 1, NULL),
			HTW_PAGE_TIMERS - 1);
	free_elsewhere(ctx);
	htw_test_start(test, ctx, NEVER, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 1);
	htw_slots_unreserve(ctx, &reserved);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), HTW_PAGE_TIMERS - 1);
}

/* An add that finds no timer. */
struct late_add {
	struct htw_context *ctx;
	struct list_head reserved;
	int ret;
};

static int late_add_thread(void *data)
{
	struct late_add *add = data;

	add->ret = htw_slots_reserve(add->ctx, &add->reserved, 1, NULL);
	return 0;
}

/* Who waited to make memory looks again: a table has words for as many as may be needed. */
static void what_was_freed_meanwhile_is_used(struct kunit *test)
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
	free_elsewhere(ctx);
	mutex_unlock(&ctx->grow);
	kthread_stop_put(task);
	KUNIT_EXPECT_EQ(test, add->ret, 1);
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 1);
	htw_slots_unreserve(ctx, &add->reserved);
}

static struct kunit_case htw_shrink_cases[] = {
	KUNIT_CASE(growing_early_loses_none),
	KUNIT_CASE(what_other_cpus_freed_is_used),
	KUNIT_CASE(what_was_freed_meanwhile_is_used),
	KUNIT_CASE_SLOW(chunks_in_the_middle_go),
	KUNIT_CASE_SLOW(holes_are_filled_with_new_ids),
	KUNIT_CASE_SLOW(growing_finds_the_first_hole),
	KUNIT_CASE_SLOW(what_was_used_since_stays),
	KUNIT_CASE_SLOW(what_is_reserved_stays),
	KUNIT_CASE_SLOW(used_up_generations_stay),
	KUNIT_CASE_SLOW(a_fall_in_use_begins_it),
	KUNIT_CASE_SLOW(looking_in_vain_gets_rare),
	KUNIT_CASE_SLOW(close_while_it_is_given_back),
#ifdef CONFIG_SMP
	KUNIT_CASE_SLOW(a_run_that_goes_on_is_waited_for),
	KUNIT_CASE_SLOW(what_was_found_stays_memory),
	KUNIT_CASE_SLOW(threads_use_what_is_given_back),
#endif
	{}
};

static struct kunit_suite htw_shrink_suite = {
	.name = "htw_shrink",
	.init = htw_test_init,
	.test_cases = htw_shrink_cases,
};

kunit_test_suite(htw_shrink_suite);

MODULE_DESCRIPTION("KUnit: memory of timers is given back");
MODULE_LICENSE("GPL");
