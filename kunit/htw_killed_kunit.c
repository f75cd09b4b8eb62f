// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: calls of a task that is being killed
 *
 * What could take long ends, and what it has done until then holds.
 */
#include <kunit/test.h>

#include "../core/table_enable.h"
#include "htw_kunit.h"

/* A few pages of timers. */
#define PAGES			3u
#define TIMERS			(PAGES * HTW_PAGE_TIMERS)
#define USER			4713

static struct htw_context *context_with_timers(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);

	for (u32 i = 0; i < TIMERS; i++)
		htw_test_start(test, ctx, U64_MAX - i, i);
	return ctx;
}

static void add_takes_no_more_memory(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	LIST_HEAD(reserved);
	int ret;

	htw_test_be_killed();
	ret = htw_test_reserve(ctx, &reserved, 1);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	KUNIT_EXPECT_TRUE(test, list_empty(&reserved));
	KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 0);
	htw_test_start(test, ctx, U64_MAX, 1);
}

static void cancel_all_ends_after_a_page(struct kunit *test)
{
	struct htw_context *ctx = context_with_timers(test);
	struct htw_cancel_all __user *arg = (void __user *)htw_test_user_pages(test, 1);
	struct htw_cancel_all all = {};
	long ret;

	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &all, sizeof(all)), 0);
	htw_test_be_killed();
	ret = htw_op_cancel_all(ctx, arg);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(ctx), TIMERS - HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, htw_op_cancel_all(ctx, arg), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&all, arg, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, all.count, TIMERS - HTW_PAGE_TIMERS);
}

/* One that has entries returns them. */
static void list_ends_after_a_page(struct kunit *test)
{
	struct htw_context *ctx = context_with_timers(test);
	struct htw_list __user *arg = (void __user *)htw_test_user_pages(test, 1);
	const unsigned long entries = htw_test_user_pages(test, TIMERS * sizeof(struct htw_query) /
								PAGE_SIZE + 1);
	struct htw_list list = {
		.entries = entries, .count = TIMERS, .flags = HTW_LIST_EXPIRED,
	};
	long ret;

	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &list, sizeof(list)), 0);
	htw_test_be_killed();
	ret = htw_op_list(ctx, arg, false);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);

	list.flags = HTW_LIST_PENDING;
	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &list, sizeof(list)), 0);
	KUNIT_ASSERT_EQ(test, clear_user((void __user *)entries, TIMERS * sizeof(struct htw_query)),
			0);
	htw_test_be_killed();
	ret = htw_op_list(ctx, arg, false);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&list, arg, sizeof(list)), 0);
	KUNIT_EXPECT_GT(test, list.done, 0);
	KUNIT_EXPECT_LE(test, list.done, HTW_PAGE_TIMERS);
	KUNIT_EXPECT_LE(test, list.cursor, HTW_PAGE_SLOTS);
}

/* HTW_NEXT, which looks at all timers of a shared wheel. */
static void next_ends_after_a_page(struct kunit *test)
{
	struct htw_context *ctx = context_with_timers(test);
	struct htw_next __user *arg = (void __user *)htw_test_user_pages(test, 1);
	const struct htw_next next = {};
	long ret;

	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &next, sizeof(next)), 0);
	htw_test_be_killed();
	ret = htw_op_next(ctx, arg);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	KUNIT_EXPECT_EQ(test, htw_op_next(ctx, arg), 0);
}

static ssize_t read_events(struct htw_context *ctx, unsigned long to, u32 count)
{
	struct iov_iter iter;

	iov_iter_ubuf(&iter, ITER_DEST, (void __user *)to, count * sizeof(struct htw_event));
	return htw_reader_read(ctx, &iter, true);
}

/* Events that are not read stay queued: a batch was read, or none as the memory was not there. */
static void read_ends_after_a_batch(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_context *ctx = htw_test_context(test);
	const unsigned long memory = htw_test_user_pages(test, 3);
	const u32 count = 50;
	ssize_t ret;
	u32 read;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, htw_tick_ns, i);
	KUNIT_ASSERT_EQ(test, htw_advance_context(ctx, htw_tick_ns), count);
	KUNIT_ASSERT_EQ(test, clear_user((void __user *)memory, PAGE_SIZE), 0);

	htw_test_be_killed();
	ret = read_events(ctx, memory + PAGE_SIZE, count);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -ERESTARTSYS);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, count);

	htw_test_be_killed();
	ret = read_events(ctx, memory, count);
	htw_test_spare();
	KUNIT_ASSERT_GT(test, ret, 0);
	read = ret / sizeof(struct htw_event);
	KUNIT_EXPECT_LT(test, read, count);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, count - read);
	KUNIT_EXPECT_EQ(test, read_events(ctx, memory, count),
			(count - read) * sizeof(struct htw_event));
}

/* What has been allocated for a table is given back. */
static void table_is_not_enabled(struct kunit *test)
{
	const struct cred *before = htw_test_become(test, USER);
	struct htw_context *ctx = htw_test_context(test);
	int charged, ret;

	htw_test_become_again(before);
	for (u32 i = 0; i < TIMERS; i++)
		htw_test_start(test, ctx, U64_MAX, i);
	charged = atomic_read(&ctx->user->timers);
	KUNIT_ASSERT_GT(test, charged, 0);
	htw_test_be_killed();
	ret = htw_table_enable(ctx);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	KUNIT_EXPECT_FALSE(test, ctx->table);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->timers), charged);
	KUNIT_EXPECT_EQ(test, htw_table_enable(ctx), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&ctx->user->timers), charged);
}

/* Nor does the task wait for what others close. */
static void limit_is_not_waited_for(struct kunit *test)
{
	const struct cred *before = htw_test_become(test, USER + 1);
	struct htw_context *ctx = htw_test_context(test);
	struct htw_context *other;
	struct htw_user_wait wait = HTW_USER_WAIT;
	bool again, few;

	/* As if more contexts were being closed than are left alone. */
	atomic_add(5000, &ctx->user->closing);
	htw_test_be_killed();
	htw_user_wait_begin(&wait, ctx->user);
	again = htw_user_wait_again(&wait);
	few = htw_user_wait_for_closing(ctx->user);
	other = htw_contexts_create(1);
	htw_test_spare();
	atomic_sub(5000, &ctx->user->closing);
	htw_test_become_again(before);
	KUNIT_EXPECT_FALSE(test, again);
	KUNIT_EXPECT_FALSE(test, few);
	KUNIT_EXPECT_NULL(test, other);
	KUNIT_EXPECT_EQ(test, ctx->user->contexts, 1);
}

static struct kunit_case htw_killed_cases[] = {
	KUNIT_CASE(add_takes_no_more_memory),
	KUNIT_CASE(cancel_all_ends_after_a_page),
	KUNIT_CASE(list_ends_after_a_page),
	KUNIT_CASE(next_ends_after_a_page),
	KUNIT_CASE(read_ends_after_a_batch),
	KUNIT_CASE(table_is_not_enabled),
	KUNIT_CASE(limit_is_not_waited_for),
	{}
};

static struct kunit_suite htw_killed_suite = {
	.name = "htw_killed",
	.init = htw_test_init,
	.test_cases = htw_killed_cases,
};

kunit_test_suite(htw_killed_suite);

MODULE_DESCRIPTION("KUnit: calls of a task that is being killed");
MODULE_LICENSE("GPL");
