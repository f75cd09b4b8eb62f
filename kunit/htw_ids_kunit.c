// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: ids, limits, and the memory that timers take
 */
#include <kunit/test.h>
#include <linux/cleanup.h>
#include <linux/fs_struct.h>
#include <linux/sizes.h>
#include <linux/user_namespace.h>
#include <linux/xarray.h>

#include "../core/calls.h"
#include "compat_tests.h"
#include "htw_debugfs.h"
#include "htw_kunit.h"

#define USER			4711u
#define OTHER			4712u
/* How many times as many timers as in a page of 4 KiB are in one here. */
#define PAGE_SCALE		((u32)(PAGE_SIZE / SZ_4K))
/* A burst of timers, after which pages are given back. */
#define BURST			(5000u * PAGE_SCALE)
/* Timers of it that stay are so far apart that most pages have none. */
#define APART			(1000u * PAGE_SCALE)

/* Try to start a timer. */
static long try_add(struct htw_test_file *f)
{
	struct htw_add_args add = { .deadline = HTW_TEST_LATER };

	return htw_test_call(f, HTW_ADD, &add);
}

/* Start timers until that fails. Return: how many, and with which error. */
static u32 add_all(struct htw_test_file *f, u32 most, long *ret)
{
	u32 n = 0;

	*ret = 0;
	while (n < most && !(*ret = try_add(f)))
		n++;
	return n;
}

static u64 cancel_all(struct htw_test_file *f)
{
	struct htw_cancel_all_args all = {};

	KUNIT_ASSERT_EQ(f->test, htw_test_call(f, HTW_CANCEL_ALL, &all), 0);
	return all.count;
}

/*
 * The limit of a context
 */

static const u32 limits[] = { 1, 2, 14, 15, 16, 77, 78, 79, 200 };

static void get_limit_desc(const u32 *limit, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u", *limit);
}

KUNIT_ARRAY_PARAM(limit, limits, get_limit_desc);

static void limit_is_exact(struct kunit *test)
{
	const u32 limit = *(const u32 *)test->param_value;
	struct htw_test_file *f = htw_test_limited(test, limit);
	long ret;

	for (u32 round = 0; round < 3; round++) {
		KUNIT_EXPECT_EQ(test, add_all(f, 2 * limit, &ret), limit);
		KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, limit);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).limit, limit);
		KUNIT_EXPECT_EQ(test, cancel_all(f), limit);
	}
}

/* The lists and counts of pages that each base has agree with the pages. */
static void expect_pages_hold(struct htw_test_file *f)
{
	struct kunit *test = f->test;
	struct htw_page *page;
	struct htw_base *base;
	u32 some, none, all = 0;

	htw_context_for_each_base(f->ctx, base) {
		some = 0;
		none = 0;
		spin_lock(&base->lock);
		list_for_each_entry(page, &base->pages, list)
			some += page->used && page->used < HTW_PAGE_TIMERS && page->free;
		list_for_each_entry(page, &base->empty, list)
			none += !page->used && page->free;
		KUNIT_EXPECT_EQ(test, some, list_count_nodes(&base->pages));
		KUNIT_EXPECT_EQ(test, none, list_count_nodes(&base->empty));
		KUNIT_EXPECT_EQ(test, none, base->nr_empty);
		KUNIT_EXPECT_GE(test, base->nr_pages, some + none);
		all += base->nr_pages;
		spin_unlock(&base->lock);
	}
	/* The first page is beside those that are held. */
	KUNIT_EXPECT_EQ(test, all, f->ctx->ids.nr_held + 1);
}

/* Add on all CPUs in turn until that fails. Return: how many, and with which error. */
static u32 add_in_turn(struct htw_test_file *f, u32 most, long *ret)
{
	unsigned int cpu;
	u32 n = 0;

	*ret = 0;
	while (!*ret)
		for_each_online_cpu(cpu) {
			htw_test_go_to(cpu);
			*ret = n < most ? try_add(f) : -EIO;
			if (*ret)
				break;
			n++;
		}
	return n;
}

/*
 * A vector of more adds than a limit allows: those that are beyond fail one by one, with @error.
 * Return: how many.
 */
static u32 add_by_vector(struct htw_test_file *f, u32 count, int error)
{
	struct htw_vector_args v = {
		.ids = f->to, .deadlines = f->to + 2 * PAGE_SIZE, .count = count, .op = HTW_OP_ADD,
		.flags = HTW_F_ABS,
	};
	u64 id, deadline = U64_MAX;

	for (u32 i = 0; i < count; i++)
		htw_test_write(f->test, v.deadlines + i * sizeof(u64), &deadline, sizeof(u64));
	KUNIT_ASSERT_EQ(f->test, htw_test_call(f, HTW_VECTOR, &v), 0);
	KUNIT_ASSERT_EQ(f->test, v.done, count);
	KUNIT_EXPECT_EQ(f->test, htw_test_info(f).timers, count - v.failed);
	for (u32 i = 0; i < count; i++) {
		htw_test_read(f->test, &id, v.ids + i * sizeof(u64), sizeof(id));
		KUNIT_ASSERT_EQ(f->test, HTW_ID_ERROR(id), i < count - v.failed ? 0 : error);
		if (!HTW_ID_ERROR(id))
			KUNIT_ASSERT_EQ(f->test, htw_test_info_of(f, id).state, HTW_STATE_PENDING);
	}
	return v.failed;
}

/* It is that of all CPUs together: a timer that is free is found whosever base it is in. */
static void limit_over_cpus(struct kunit *test)
{
	enum { LIMIT = 400 };
	struct htw_test_file *f = htw_test_limited(test, LIMIT);
	unsigned int cpu;
	long ret;

	for (u32 round = 0; round < 3; round++) {
		KUNIT_EXPECT_EQ(test, add_in_turn(f, 2 * LIMIT, &ret), LIMIT);
		KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, LIMIT);
		KUNIT_EXPECT_EQ(test, cancel_all(f), LIMIT);
		for_each_online_cpu(cpu) {
			htw_test_go_to(cpu);
			KUNIT_EXPECT_EQ(test, add_all(f, 2 * LIMIT, &ret), LIMIT);
			KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
			KUNIT_EXPECT_EQ(test, cancel_all(f), LIMIT);
			KUNIT_EXPECT_EQ(test, add_by_vector(f, LIMIT + 50, -ENOSPC), 50);
			KUNIT_EXPECT_EQ(test, cancel_all(f), LIMIT);
		}
	}
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 0);
	expect_pages_hold(f);
}

/* A few timers do not make a base on each CPU. */
static void few_timers_on_many_cpus(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_cancel_args cancel;
	unsigned int cpu;
	long ret;
	u64 id;

	KUNIT_EXPECT_EQ(test, add_all(f, 16, &ret), 16);
	for_each_online_cpu(cpu) {
		htw_test_go_to(cpu);
		id = htw_test_start(f, HTW_TEST_LATER, 0);
		KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id, &cancel), 0);
	}
	KUNIT_EXPECT_LE(test, f->ctx->nr_bases, 2);
	expect_pages_hold(f);
}

/* Try to start a timer without a sleep, while another task has the mutex. */
static long try_add_nowait(struct htw_test_file *f)
{
	const struct htw_add_args add = { .deadline = HTW_TEST_LATER };
	long ret;

	htw_test_write(f->test, f->arg, &add, sizeof(add));
	mutex_lock(&f->ctx->mutex);
	ret = htw_call_add_one(f->ctx, (void __user *)f->arg, HTW_GFP_NOWAIT);
	mutex_unlock(&f->ctx->mutex);
	return ret;
}

/* At the limit a CPU gets the timers that others do not need, also where it must not sleep. */
static void room_goes_where_it_is_needed(struct kunit *test)
{
	enum { LIMIT = 1000 };
	struct htw_test_file *f = htw_test_limited(test, LIMIT);
	unsigned int cpu;
	long ret;

	for_each_online_cpu(cpu) {
		htw_test_go_to(cpu);
		KUNIT_EXPECT_EQ(test, add_all(f, 2 * LIMIT, &ret), LIMIT);
		KUNIT_EXPECT_EQ(test, cancel_all(f), LIMIT);
		expect_pages_hold(f);
	}
	for_each_online_cpu(cpu) {
		htw_test_go_to(cpu);
		KUNIT_EXPECT_EQ(test, try_add(f), 0);
		for (u32 i = 0; i < 14; i++)
			KUNIT_EXPECT_EQ(test, try_add_nowait(f), 0);
		KUNIT_EXPECT_EQ(test, cancel_all(f), 15);
	}
	expect_pages_hold(f);
}

/* Room for others is also made by a page of another base, whose generations run out. */
static void retired_in_another_base(struct kunit *test)
{
	struct htw_test_file *f = htw_test_limited(test, 15 + HTW_PAGE_TIMERS);
	struct htw_page *page;
	unsigned int cpu;
	long ret;

	/* One timer of each page stays. */
	KUNIT_EXPECT_EQ(test, add_all(f, 16, &ret), 16);
	page = rcu_dereference_protected(f->ctx->ids.dir, true)->pages[0];
	page->generation = U32_MAX;
	for_each_online_cpu(cpu) {
		htw_test_go_to(cpu);
		if (f->ctx->first->index != cpu)
			break;
	}
	KUNIT_EXPECT_EQ(test, add_all(f, 2 * HTW_PAGE_TIMERS, &ret), HTW_PAGE_TIMERS - 1);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	expect_pages_hold(f);
	/* It is retired once more, with what has been free since. */
	cancel_all(f);
	KUNIT_EXPECT_EQ(test, add_all(f, 3 * HTW_PAGE_TIMERS, &ret), 15 + HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, ret, -ENOSPC);
	expect_pages_hold(f);
}

/* Pending, due and kept timers count; what ends makes room. */
static void all_states_count(struct kunit *test)
{
	const struct htw_add_args kept = { .flags = HTW_F_KEEP };
	struct htw_test_file *f = htw_test_limited(test, 3);
	struct htw_cancel_args cancel;
	struct htw_event event;
	u64 id[3];

	id[0] = htw_test_add(f, &kept);
	KUNIT_ASSERT_EQ(test, htw_test_take(f, &event, 1), 1);
	id[1] = htw_test_start(f, 0, 1);
	id[2] = htw_test_start(f, U64_MAX, 2);
	KUNIT_EXPECT_EQ(test, try_add(f), -ENOSPC);
	KUNIT_ASSERT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.id, id[1]);
	KUNIT_EXPECT_EQ(test, try_add(f), 0);
	KUNIT_EXPECT_EQ(test, try_add(f), -ENOSPC);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[0], &cancel), 0);
	KUNIT_EXPECT_EQ(test, try_add(f), 0);
	KUNIT_EXPECT_EQ(test, try_add(f), -ENOSPC);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[2], &cancel), 0);
	KUNIT_EXPECT_EQ(test, try_add(f), 0);
	KUNIT_EXPECT_EQ(test, try_add(f), -ENOSPC);
}

/*
 * Ids
 */

/* Never one that was there before, although slots are used again, and pages given back. */
static void ids_are_never_used_again(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	u64 *ids = htw_test_array(test, BURST, sizeof(*ids));
	struct xarray seen;

	xa_init(&seen);
	for (u32 round = 0; round < 4; round++) {
		const u32 count = round == 2 ? 70 : BURST;

		for (u32 i = 0; i < count; i++) {
			ids[i] = htw_test_start(f, U64_MAX, i);
			KUNIT_ASSERT_EQ_MSG(test, xa_insert(&seen, ids[i], f, GFP_KERNEL), 0,
					    "round %u, number %u: %llx", round, i, ids[i]);
		}
		for (u32 i = 0; i < count; i++) {
			struct htw_cancel_args cancel;

			KUNIT_ASSERT_EQ(test, htw_test_cancel(f, ids[i], &cancel), 0);
			KUNIT_ASSERT_EQ(test, cancel.cookie, i);
		}
		for (u32 i = 0; i < count; i += 7)
			htw_test_expect_no_timer(f, ids[i]);
	}
	xa_destroy(&seen);
}

/* A stale id finds nothing, also when its slot is used again, as the next id it gets. */
static void stale_ids_find_nothing(struct kunit *test)
{
	struct htw_test_file *f = htw_test_limited(test, 1);
	struct htw_cancel_args cancel;
	u64 id[50];

	for (u32 i = 0; i < ARRAY_SIZE(id); i++) {
		id[i] = htw_test_start(f, i % 2 ? 0 : U64_MAX, i);
		for (u32 k = 0; k < i; k++)
			htw_test_expect_no_timer(f, id[k]);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id[i]).cookie, i);
		if (i % 2) {
			struct htw_event event;

			KUNIT_ASSERT_EQ(test, htw_test_take(f, &event, 1), 1);
		} else {
			KUNIT_ASSERT_EQ(test, htw_test_cancel(f, id[i], &cancel), 0);
		}
	}
}

/* Any number may be given for an id. */
static void numbers_that_are_no_ids(struct kunit *test)
{
	static const u32 counts[] = { 0, 1, 20, 100, 2000 };

	for (u32 c = 0; c < ARRAY_SIZE(counts); c++) {
		struct htw_test_file *f = htw_test_open(test);
		u64 id = (u64)1 << 32 | 1;

		for (u32 i = 0; i < counts[c]; i++)
			id = htw_test_start(f, U64_MAX, i);
		for (u32 slot = 0; slot < 4000; slot += HTW_PAGE_SLOTS)
			htw_test_expect_no_timer(f, (id >> 32 << 32) | slot);
		for (u32 bit = 0; bit < 32; bit++) {
			/* Other generations, and slots that there are not. */
			htw_test_expect_no_timer(f, id ^ 1ull << 32 << bit);
			if (bit >= 12)
				htw_test_expect_no_timer(f, id ^ 1ull << bit);
			htw_test_expect_no_timer(f, 1ull << bit);
		}
		htw_test_expect_no_timer(f, 0);
		htw_test_expect_no_timer(f, id & U32_MAX);
		for (int error = 0; error > -4096; error -= 45)
			htw_test_expect_no_timer(f, error - 1);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, counts[c]);
	}
}

/* The ids of two contexts differ, so that one is not taken for the other's. */
static void ids_of_contexts_differ(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test), *g = htw_test_open(test);
	const u64 id = htw_test_start(f, U64_MAX, 1), other = htw_test_start(g, U64_MAX, 2);

	htw_test_expect_no_timer(f, other);
	htw_test_expect_no_timer(g, id);
}

/* A page whose generations run out is not used again; others take its place, and none is lost. */
static void generations_run_out(struct kunit *test)
{
	static const u32 ends[] = { 0, 1, 2 };	/* cancelled; taken; by a vector */
	struct htw_vector_args v;

	for (u32 e = 0; e < ARRAY_SIZE(ends); e++) {
		struct htw_test_file *f = htw_test_limited(test, 5);
		struct xarray seen;

		xa_init(&seen);
		/* As if each page had been used very often. */
		f->ctx->ids.generation = U32_MAX - 1;
		for (u32 i = 0; i < 400; i++) {
			u64 id = htw_test_start(f, ends[e] == 1 ? 0 : U64_MAX, i);
			struct htw_cancel_args cancel;
			struct htw_event event;

			KUNIT_ASSERT_EQ_MSG(test, xa_insert(&seen, id, f, GFP_KERNEL), 0,
					    "number %u: %llx", i, id);
			KUNIT_ASSERT_GE(test, id >> 32, U32_MAX - 1);
			switch (ends[e]) {
			case 0:
				KUNIT_ASSERT_EQ(test, htw_test_cancel(f, id, &cancel), 0);
				break;
			case 1:
				KUNIT_ASSERT_EQ(test, htw_test_take(f, &event, 1), 1);
				KUNIT_ASSERT_EQ(test, event.id, id);
				break;
			default:
				htw_test_write(test, f->to, &id, sizeof(id));
				v = (struct htw_vector_args) {
					.ids = f->to, .count = 1, .op = HTW_OP_CANCEL,
				};
				KUNIT_ASSERT_EQ(test, htw_test_call(f, HTW_VECTOR, &v), 0);
				KUNIT_ASSERT_EQ(test, v.failed, 0);
			}
			htw_test_expect_no_timer(f, id);
			KUNIT_ASSERT_EQ(test, htw_test_info(f).timers, 0);
		}
		xa_destroy(&seen);
	}
}

/* A page that has been used very often is not given back: new ones would begin where it ended. */
static void old_page_makes_no_others_old(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const u32 old = U32_MAX - 10;
	struct htw_page *page;
	u64 id;

	for (u32 i = 0; i < BURST; i++)
		htw_test_start(f, U64_MAX, i);
	page = rcu_dereference_protected(f->ctx->ids.dir, true)->pages[BURST / HTW_PAGE_SLOTS / 2];
	page->generation = old;
	KUNIT_EXPECT_EQ(test, cancel_all(f), BURST);
	for (u32 i = 0; i < BURST; i++) {
		id = htw_test_start(f, U64_MAX, i);
		KUNIT_ASSERT_LT_MSG(test, id >> 32, old, "number %u: %llx", i, id);
	}
	KUNIT_EXPECT_PTR_EQ(test, page, rcu_dereference_protected(f->ctx->ids.dir, true)->
			    pages[BURST / HTW_PAGE_SLOTS / 2]);
	KUNIT_EXPECT_EQ(test, cancel_all(f), BURST);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 0);
}

static void leave_dirty_memory(unsigned int order)
{
	struct page *page = alloc_pages(GFP_KERNEL, order);

	if (!page)
		return;
	memset(page_address(page), 0xff, PAGE_SIZE << order);
	__free_pages(page, order);
}

/* What is left in the memory of new timers would be taken for their state. */
static void memory_of_new_timers_is_cleared(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);

	for (u32 i = 0; i < BURST; i++) {
		const u64 id = htw_test_start(f, U64_MAX, i);

		if (i % HTW_PAGE_TIMERS)
			continue;
		for (u32 k = 1; k < HTW_PAGE_TIMERS; k += 9) {
			htw_test_expect_no_timer(f, (u32)id + k);
			htw_test_expect_no_timer(f, (u64)U32_MAX << 32 | ((u32)id + k));
		}
		for (unsigned int order = 0; order <= PAGE_ALLOC_COSTLY_ORDER; order++)
			leave_dirty_memory(order);
	}
	KUNIT_EXPECT_EQ(test, cancel_all(f), BURST);
}

/*
 * Memory that is given back
 */

/* How a burst ends. */
enum ending { CANCELLED, IN_VECTORS, TAKEN, CANCELLED_ALL, HARVESTED, ENDINGS };

static void end_burst(struct htw_test_file *f, enum ending how, u64 *ids)
{
	struct htw_event *events = htw_test_array(f->test, BURST, sizeof(*events));
	struct kunit *test = f->test;
	struct htw_cancel_args cancel;

	switch (how) {
	case CANCELLED:
		for (u32 i = 0; i < BURST; i++)
			KUNIT_ASSERT_EQ(test, htw_test_cancel(f, ids[i], &cancel), 0);
		break;
	case IN_VECTORS:
		for (u32 i = 0; i < BURST; i += 100) {
			struct htw_vector_args v = {
				.ids = f->to, .count = 100, .op = HTW_OP_CANCEL,
			};

			htw_test_write(test, f->to, ids + i, 100 * sizeof(u64));
			KUNIT_ASSERT_EQ(test, htw_test_call(f, HTW_VECTOR, &v), 0);
			KUNIT_ASSERT_EQ(test, v.failed, 0);
		}
		break;
	case TAKEN:
		htw_test_advance_to(f, HTW_TEST_LATER);
		KUNIT_ASSERT_EQ(test, htw_test_take(f, events, BURST), BURST);
		break;
	case CANCELLED_ALL:
		KUNIT_ASSERT_EQ(test, cancel_all(f), BURST);
		break;
	default:
		for (u32 done = 0; done < BURST;) {
			struct htw_list_args list = { .entries = f->to, .count = 200 };

			KUNIT_ASSERT_EQ(test, htw_test_call(f, HTW_HARVEST, &list), 0);
			KUNIT_ASSERT_GT(test, list.done, 0);
			done += list.done;
		}
	}
}

static void memory_of_a_burst_is_given_back(struct kunit *test)
{
	u64 *ids = htw_test_array(test, BURST, sizeof(*ids));

	for (enum ending how = CANCELLED; how < ENDINGS; how++) {
		struct htw_test_file *f = htw_test_manual(test, 1000);
		u64 before, most;

		htw_test_start(f, U64_MAX, 0);
		before = htw_test_info(f).bytes;
		KUNIT_EXPECT_GT(test, before, 0);
		cancel_all(f);
		for (u32 i = 0; i < BURST; i++)
			ids[i] = htw_test_start(f, HTW_TEST_LATER, i);
		most = htw_test_info(f).bytes;
		KUNIT_EXPECT_GE(test, most, BURST * sizeof(struct htw_timer));
		end_burst(f, how, ids);
		htw_test_expect_nothing(f);
		/* Some pages are kept, for the next. */
		KUNIT_EXPECT_LE_MSG(test, htw_test_info(f).bytes, before + 24 * PAGE_SIZE,
				    "ending %d", how);
		for (u32 i = 0; i < BURST; i += 111)
			htw_test_expect_no_timer(f, ids[i]);
		/* There is room for it again. */
		for (u32 i = 0; i < BURST; i++)
			htw_test_start(f, HTW_TEST_LATER, i);
		KUNIT_EXPECT_EQ(test, cancel_all(f), BURST);
	}
}

/* Where some timers stay, they stay what they are. */
static void timers_stay_while_memory_goes(struct kunit *test)
{
	u64 *ids = htw_test_array(test, BURST, sizeof(*ids));
	struct htw_test_file *f = htw_test_manual(test, 1000);
	struct htw_cancel_args cancel;
	u64 most;

	for (u32 i = 0; i < BURST; i++)
		ids[i] = htw_test_start(f, HTW_TEST_LATER + i, i);
	most = htw_test_info(f).bytes;
	for (u32 i = 0; i < BURST; i++)
		if (i % APART)
			KUNIT_ASSERT_EQ(test, htw_test_cancel(f, ids[i], &cancel), 0);
	for (u32 i = 0; i < BURST; i++) {
		if (i % APART) {
			htw_test_expect_no_timer(f, ids[i]);
		} else {
			KUNIT_EXPECT_EQ(test, htw_test_info_of(f, ids[i]).cookie, i);
			KUNIT_EXPECT_EQ(test, htw_test_info_of(f, ids[i]).deadline,
					HTW_TEST_LATER + i);
		}
	}
	KUNIT_EXPECT_LT(test, htw_test_info(f).bytes, most / 2);
	KUNIT_EXPECT_EQ(test, cancel_all(f), DIV_ROUND_UP(BURST, APART));
}

/*
 * Users
 */

static void restore_user_limit(void *limit)
{
	WRITE_ONCE(htw_max_user_timers, (unsigned long)limit);
}

static void limit_users(struct kunit *test, unsigned int limit)
{
	void *before = (void *)(unsigned long)htw_max_user_timers;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit, before), 0);
	WRITE_ONCE(htw_max_user_timers, limit);
}

/* All that a user's contexts take counts, up to the limit and never beyond. */
static void memory_of_a_user_is_limited(struct kunit *test)
{
	const u32 limit = 1000 * PAGE_SCALE, refused = atomic_read(&htw_users_refused);
	struct htw_test_file *f = htw_test_open_as(test, USER), *g = htw_test_open_as(test, USER);
	struct htw_test_file *other = htw_test_open_as(test, OTHER);
	struct htw_info_args info;
	long ret;
	u32 n;

	limit_users(test, limit);
	n = add_all(f, 2 * limit, &ret);
	KUNIT_EXPECT_EQ(test, ret, -EDQUOT);
	KUNIT_EXPECT_LT(test, n, limit);
	/* Most of it is for timers. */
	KUNIT_EXPECT_GT(test, n, limit / 2);
	info = htw_test_info(f);
	KUNIT_EXPECT_EQ(test, info.user_limit, limit);
	KUNIT_EXPECT_LE(test, info.user_timers, limit);
	KUNIT_EXPECT_GE(test, info.user_timers, n);
	KUNIT_EXPECT_EQ(test, info.bytes, info.user_timers * sizeof(struct htw_timer));
	KUNIT_EXPECT_GT(test, atomic_read(&htw_users_refused), refused);

	/* A call that fails takes nothing, however often. */
	for (u32 i = 0; i < 50; i++) {
		KUNIT_EXPECT_EQ(test, try_add(f), -EDQUOT);
		add_all(g, 100, &ret);
		KUNIT_EXPECT_EQ(test, ret, -EDQUOT);
	}
	KUNIT_EXPECT_LE(test, htw_test_info(g).user_timers, limit);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, n);

	/* Others do not notice. */
	KUNIT_EXPECT_GT(test, add_all(other, 100, &ret), 99);

	/* What is closed has been given back at once. */
	cancel_all(g);
	htw_test_close(f);
	KUNIT_EXPECT_LT(test, htw_test_info(g).user_timers, 100 * PAGE_SCALE);
	KUNIT_EXPECT_EQ(test, htw_test_info(g).user_timers * sizeof(struct htw_timer),
			htw_test_info(g).bytes);
	KUNIT_EXPECT_GT(test, add_all(g, 2 * limit, &ret), limit / 2);
}

/* The same where it was one on each CPU, and the last timer ends on one of them. */
static void memory_of_all_cpus_is_given_back(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	unsigned int cpus = num_online_cpus(), cpu;
	u64 before;
	long ret;

	KUNIT_ASSERT_EQ(test, add_in_turn(f, 200 * cpus, &ret), 200 * cpus);
	KUNIT_EXPECT_EQ(test, cancel_all(f), 200 * cpus);
	before = htw_test_info(f).bytes;
	for (u32 round = 0; round < 2; round++) {
		for_each_online_cpu(cpu) {
			htw_test_go_to(cpu);
			KUNIT_EXPECT_EQ(test, add_all(f, BURST, &ret), BURST);
		}
		KUNIT_EXPECT_EQ(test, cancel_all(f), BURST * cpus);
		KUNIT_EXPECT_LE(test, htw_test_info(f).bytes, before + (cpus + 24) * PAGE_SIZE);
		expect_pages_hold(f);
	}
}

/* At the limit a vector fails entry by entry. */
static void vectors_at_the_limit(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER);

	limit_users(test, 400);
	KUNIT_EXPECT_GT(test, add_by_vector(f, 700, -EDQUOT), 300);
}

static void privileged_users_have_no_limit(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	long ret;

	limit_users(test, 50);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).user_limit, U64_MAX);
	KUNIT_EXPECT_EQ(test, add_all(f, 500, &ret), 500);
}

/* A limit that is lowered takes nothing away. */
static void lower_limit(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER);
	unsigned int cpu;
	u32 count = 0;
	long ret;

	for_each_online_cpu(cpu) {
		htw_test_go_to(cpu);
		count += add_all(f, 500 * PAGE_SCALE / num_online_cpus(), &ret);
	}
	limit_users(test, 100 * PAGE_SCALE);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, count);
	add_all(f, 100 * PAGE_SCALE, &ret);
	KUNIT_EXPECT_EQ(test, ret, -EDQUOT);
	/* Free timers can be used, by each CPU those of all. */
	count = cancel_all(f);
	for_each_online_cpu(cpu) {
		htw_test_go_to(cpu);
		for (u32 i = 0; i < count / num_online_cpus() / 2; i++)
			KUNIT_EXPECT_EQ(test, try_add(f), 0);
	}
	for (u32 i = 0; i < count / 4; i++)
		KUNIT_EXPECT_EQ(test, try_add(f), 0);
}

static void users_are_told_apart(struct kunit *test)
{
	struct htw_test_file *one = htw_test_open_as(test, USER);
	struct htw_test_file *root = htw_test_open_as(test, 0), *privileged = htw_test_open(test);

	KUNIT_EXPECT_PTR_EQ(test, htw_test_open_as(test, USER)->ctx->user, one->ctx->user);
	KUNIT_EXPECT_PTR_NE(test, htw_test_open_as(test, OTHER)->ctx->user, one->ctx->user);
	/* The same uid, with and without the capability. */
	KUNIT_EXPECT_PTR_NE(test, root->ctx->user, privileged->ctx->user);
	KUNIT_EXPECT_PTR_EQ(test, htw_test_open(test)->ctx->user, privileged->ctx->user);
}

#ifdef CONFIG_USER_NS
/* A device that is opened in a new user namespace, which the user @uid has made. */
static struct htw_test_file *open_in_namespace_of(struct kunit *test, uid_t uid)
{
	const struct cred *outer = htw_test_become(test, uid), *before;
	struct cred *inner = prepare_creds();
	struct htw_test_file *f = NULL;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, inner);
	/* The root of a kernel thread may be one of its own, as in a chroot, where none is made. */
	scoped_with_init_fs()
		ret = create_user_ns(inner);
	if (!ret) {
		before = override_creds(inner);
		f = htw_test_open(test);
		revert_creds(before);
	}
	put_cred(inner);
	htw_test_become_again(outer);
	KUNIT_ASSERT_EQ(test, ret, 0);
	return f;
}

/*
 * In a user namespace a task counts as the user who made it, so that more namespaces give no
 * higher limits. Those that root makes, as for containers, are a user each.
 */
static void namespaces_belong_to_users(struct kunit *test)
{
	struct htw_user *one = htw_test_open_as(test, USER)->ctx->user;
	struct htw_user *root = htw_test_open_as(test, 0)->ctx->user, *container;

	KUNIT_EXPECT_PTR_EQ(test, open_in_namespace_of(test, USER)->ctx->user, one);
	KUNIT_EXPECT_PTR_EQ(test, open_in_namespace_of(test, USER)->ctx->user, one);
	container = open_in_namespace_of(test, 0)->ctx->user;
	KUNIT_EXPECT_PTR_NE(test, container, root);
	KUNIT_EXPECT_PTR_NE(test, open_in_namespace_of(test, 0)->ctx->user, container);
}
#endif

/*
 * Allocations that fail
 */

#if defined(CONFIG_FAILSLAB) && defined(CONFIG_FAIL_PAGE_ALLOC)
/* Whether fault injection leaves alone what may wait for memory, and single pages. */
static void leave_alone(struct kunit *test, bool leaves)
{
	htw_test_debugfs_set(test, "failslab/ignore-gfp-wait", leaves ? "Y" : "N");
	htw_test_debugfs_set(test, "failslab/verbose", leaves ? "2" : "0");
	htw_test_debugfs_set(test, "fail_page_alloc/ignore-gfp-wait", leaves ? "Y" : "N");
	htw_test_debugfs_set(test, "fail_page_alloc/min-order", leaves ? "1" : "0");
	htw_test_debugfs_set(test, "fail_page_alloc/verbose", leaves ? "2" : "0");
}

/* Open the device in the kernel's own way. Return: 0 or an error. */
static int open_and_close(void)
{
	struct file *file = kzalloc(sizeof(*file), GFP_KERNEL);
	int ret;

	if (!file)
		return -ENOMEM;
	ret = htw_fops.open(NULL, file);
	if (!ret)
		htw_fops.release(NULL, file);
	kfree(file);
	return ret;
}

/* Calls that need memory. */
enum needy { OPEN, ADD, VECTOR, NEEDY };

/* Make a call with its @nth fault, if it has one: then @left is zero. */
static long call_with_fault(struct htw_test_file *f, enum needy what, u32 nth, u32 *left)
{
	static const unsigned int cmds[] = {
		[ADD] = HTW_ADD, [VECTOR] = HTW_VECTOR,
	};
	long ret;

	/* What a vector is worked on with is kept from one call to the next. */
	htw_vector_exit();
	current->fail_nth = nth;
	ret = what == OPEN ? open_and_close() : htw_test_ioctl(f, cmds[what], f->arg);
	*left = current->fail_nth;
	current->fail_nth = 0;
	return ret;
}

static void write_needy(struct htw_test_file *f, enum needy what)
{
	const struct htw_add_args add = { .flags = HTW_F_ABS, .deadline = U64_MAX };
	const struct htw_vector_args vector = {
		.ids = f->to, .deadlines = f->to + PAGE_SIZE, .count = 500, .op = HTW_OP_ADD,
	};
	struct kunit *test = f->test;
	const u64 later = HTW_TEST_LATER;

	/* So that no fault is of the program's memory. */
	KUNIT_ASSERT_EQ(test, clear_user((void __user *)f->to, HTW_TEST_PAGES * PAGE_SIZE), 0);
	for (u32 i = 0; i < vector.count; i++)
		htw_test_write(test, vector.deadlines + i * sizeof(u64), &later, sizeof(later));
	if (what == ADD)
		htw_test_write(test, f->arg, &add, sizeof(add));
	else if (what == VECTOR)
		htw_test_write(test, f->arg, &vector, sizeof(vector));
}

/*
 * In turn each allocation fails. Then the call fails with ENOMEM, or goes on without; a
 * vector marks what it could not start. Nothing is left behind, and the next call works.
 */
static void calls_say_that_memory_is_missing(struct kunit *test)
{
	/* There copies fail as well: tools/fail-nth looks at all of it. */
	if (IS_ENABLED(CONFIG_FAULT_INJECTION_USERCOPY))
		kunit_skip(test, "copies fail as well");
	leave_alone(test, false);
	for (enum needy what = OPEN; what < NEEDY; what++) {
		u32 missing = 0, left = 0;

		for (u32 nth = 1; !left && nth < 100; nth++) {
			struct htw_test_file *f = htw_test_open(test);
			struct htw_vector_args v = {};
			u64 timers;
			long ret;

			write_needy(f, what);
			ret = call_with_fault(f, what, nth, &left);
			KUNIT_EXPECT_TRUE_MSG(test, !ret || ret == -ENOMEM, "%d, %u: %ld", what,
					      nth, ret);
			missing += ret == -ENOMEM;
			if (what == VECTOR)
				htw_test_read(test, &v, f->arg, sizeof(v));
			timers = htw_test_info(f).timers;
			if (what == VECTOR && !ret) {
				KUNIT_EXPECT_EQ(test, v.done, 500);
				KUNIT_EXPECT_EQ(test, timers, v.done - v.failed);
				missing += v.failed > 0;
				KUNIT_EXPECT_FALSE(test, left && v.failed);
			} else {
				KUNIT_EXPECT_EQ(test, timers, what == ADD && !ret);
			}
			if (what != OPEN && ret)
				KUNIT_EXPECT_EQ(test, try_add(f), 0);
			htw_test_close(f);
		}
		KUNIT_EXPECT_GT_MSG(test, missing, 0, "%d", what);
		KUNIT_EXPECT_GT_MSG(test, left, 0, "%d", what);
	}
	leave_alone(test, true);
}
#endif

static struct kunit_case htw_ids_cases[] = {
	KUNIT_CASE_PARAM(limit_is_exact, limit_gen_params),
	KUNIT_CASE(limit_over_cpus),
	KUNIT_CASE(few_timers_on_many_cpus),
	KUNIT_CASE(room_goes_where_it_is_needed),
	KUNIT_CASE(retired_in_another_base),
	KUNIT_CASE(all_states_count),
	KUNIT_CASE_SLOW(ids_are_never_used_again),
	KUNIT_CASE(stale_ids_find_nothing),
	KUNIT_CASE(numbers_that_are_no_ids),
	KUNIT_CASE(ids_of_contexts_differ),
	KUNIT_CASE(generations_run_out),
	KUNIT_CASE(old_page_makes_no_others_old),
	KUNIT_CASE(memory_of_new_timers_is_cleared),
	KUNIT_CASE_SLOW(memory_of_a_burst_is_given_back),
	KUNIT_CASE_SLOW(memory_of_all_cpus_is_given_back),
	KUNIT_CASE(timers_stay_while_memory_goes),
	KUNIT_CASE(memory_of_a_user_is_limited),
	KUNIT_CASE(vectors_at_the_limit),
	KUNIT_CASE(privileged_users_have_no_limit),
	KUNIT_CASE(lower_limit),
	KUNIT_CASE(users_are_told_apart),
#ifdef CONFIG_USER_NS
	KUNIT_CASE(namespaces_belong_to_users),
#endif
#if defined(CONFIG_FAILSLAB) && defined(CONFIG_FAIL_PAGE_ALLOC)
	KUNIT_CASE(calls_say_that_memory_is_missing),
#endif
	{}
};

static struct kunit_suite htw_ids_suite = {
	.name = "htw_ids",
	.test_cases = htw_ids_cases,
};

kunit_test_suite(htw_ids_suite);

MODULE_DESCRIPTION("KUnit: ids, limits and memory");
MODULE_LICENSE("GPL");
