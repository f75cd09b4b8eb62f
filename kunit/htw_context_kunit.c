// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: what a context may be set up as, what HTW_INFO says of it, and its events on the manual
 * clock, where each has one right answer
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/seq_file.h>
#include <linux/swap.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "../core/info.h"
#include "../core/table_enable.h"
#include "../core/vector.h"
#include "../compat.h"
#include "htw_debugfs.h"
#include "htw_kunit.h"

#define US			((u64)NSEC_PER_USEC)
#define MS			((u64)NSEC_PER_MSEC)
#define SEC			((u64)NSEC_PER_SEC)
#define USER			4711

#define PRIVATE(tick, n, ...)	.flags = HTW_SETUP_PRIVATE, .tick_ns = (tick), .levels = (n), \
				.slots = { __VA_ARGS__ }
#define MANUAL(tick, n, ...)	.flags = HTW_SETUP_PRIVATE | HTW_SETUP_CLOCK, \
				.clock = HTW_CLOCK_MANUAL, .tick_ns = (tick), .levels = (n), \
				.slots = { __VA_ARGS__ }

/* At the limits, and one beyond them: results for a privileged user and for another one. */
static const struct setup_case {
	const char *name;
	struct htw_setup setup;
	int privileged;
	int other;
} setups[] = {
	{ "monotonic", { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_MONOTONIC } },
	{ "boottime", { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_BOOTTIME } },
	{ "realtime", { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME } },
	{ "manual", { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL } },
	{ "a limit of one", { .flags = HTW_SETUP_LIMIT, .limit = 1 } },
	{ "the highest limit", { .flags = HTW_SETUP_LIMIT, .limit = HTW_TEST_LIMIT } },
	{ "too high a limit", { .flags = HTW_SETUP_LIMIT, .limit = HTW_TEST_LIMIT + 1 },
	  -ERANGE, -ERANGE },
	{ "the first CPU", { .flags = HTW_SETUP_HOME } },
	{ "a tick of 10 us", { PRIVATE(10 * US, 1, 60) }, 0, -EPERM },
	{ "a shorter one", { PRIVATE(10 * US - 1, 1, 60) }, -ERANGE, -ERANGE },
	{ "a tick of just less than 100 us", { PRIVATE(100 * US - 1, 1, 60) }, 0, -EPERM },
	{ "a tick of 100 us", { PRIVATE(100 * US, 1, 60) } },
	{ "a tick of 1 s", { PRIVATE(SEC, 1, 60) } },
	{ "a longer one", { PRIVATE(SEC + 1, 1, 60) }, -ERANGE, -ERANGE },
	{ "a manual tick of 1 ns", { MANUAL(1, 1, 60) } },
	{ "a manual tick of 0", { MANUAL(0, 1, 60) }, -ERANGE, -ERANGE },
	{ "two slots", { PRIVATE(MS, 1, 2) } },
	{ "4096 slots", { PRIVATE(MS, 3, 2048, 2046, 2) } },
	{ "4097 slots", { PRIVATE(MS, 3, 2048, 2046, 3) }, 0, -EPERM },
	{ "eight levels", { PRIVATE(MS, 8, 4, 4, 4, 4, 4, 4, 4, 9) } },
	{ "a ring", { .flags = HTW_SETUP_RING, .ring_entries = 16 } },
	{ "all at once", { .flags = HTW_SETUP_PRIVATE | HTW_SETUP_CLOCK | HTW_SETUP_LIMIT |
				    HTW_SETUP_RING,
			   .clock = CLOCK_BOOTTIME, .tick_ns = MS, .limit = 3, .levels = 8,
			   .slots = { 3, 5, 7, 2, 2, 2, 2, 3 }, .ring_entries = 8 } },
};

static void get_setup_desc(const struct setup_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(setups, setups, get_setup_desc);

static struct htw_info info_of(struct kunit *test, struct htw_context *ctx)
{
	struct htw_info __user *arg = (void __user *)htw_test_user_pages(test, 1);
	struct htw_info info = {};

	KUNIT_EXPECT_EQ(test, htw_op_info(ctx, arg), 0);
	KUNIT_EXPECT_EQ(test, copy_from_user(&info, arg, sizeof(info)), 0);
	return info;
}

/* HTW_INFO says what was asked for, and elsewhere what is there without it. */
static void expect_info(struct kunit *test, struct htw_context *ctx, const struct htw_setup *setup)
{
	const bool private = setup->flags & HTW_SETUP_PRIVATE;
	const struct htw_info info = info_of(test, ctx);

	KUNIT_EXPECT_EQ(test, info.flags, setup->flags);
	KUNIT_EXPECT_EQ(test, info.clock,
			setup->flags & HTW_SETUP_CLOCK ? setup->clock : CLOCK_MONOTONIC);
	KUNIT_EXPECT_EQ(test, info.limit,
			setup->flags & HTW_SETUP_LIMIT ? setup->limit : HTW_TEST_LIMIT);
	KUNIT_EXPECT_EQ(test, info.home_cpu, setup->flags & HTW_SETUP_HOME ? 0 : -1);
	KUNIT_EXPECT_EQ(test, info.ring_entries, setup->ring_entries);
	KUNIT_EXPECT_EQ(test, info.tick_ns, private ? setup->tick_ns : htw_tick_ns);
	KUNIT_EXPECT_EQ(test, info.levels, private ? setup->levels : htw_geometry.levels);
	for (u32 l = 0; l < HTW_MAX_LEVELS; l++) {
		const u32 shared = l < info.levels ? htw_geometry.slots[l] : 0;

		KUNIT_EXPECT_EQ(test, info.slots[l], private ? setup->slots[l] : shared);
	}
	KUNIT_EXPECT_EQ(test, info.timers, 0);
	KUNIT_EXPECT_EQ(test, info.expired, 0);
	KUNIT_EXPECT_EQ(test, info.reserved0, 0);
}

static void setup_has_limits(struct kunit *test)
{
	static const struct htw_setup none;
	const struct setup_case *c = test->param_value;

	for (u32 other = 0; other < 2; other++) {
		struct htw_context *ctx = other ? htw_test_context_of(test, USER) :
						  htw_test_context(test);
		const int expected = other ? c->other : c->privileged;
		const struct cred *before = NULL;
		int ret;

		if (other)
			before = htw_test_become(test, USER);
		ret = htw_setup_context(ctx, &c->setup);
		if (other)
			htw_test_become_again(before);
		KUNIT_EXPECT_EQ(test, ret, expected);
		KUNIT_EXPECT_LT(test, htw_context_cpu(ctx), nr_cpu_ids);
		expect_info(test, ctx, ret ? &none : &c->setup);
		/* Once only. */
		if (!ret)
			KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setups[0].setup), -EBUSY);
	}
}

/* Sixteen for a user without privileges, also if some were given back. */
static void private_wheels_are_limited(struct kunit *test)
{
	const struct htw_setup setup = { PRIVATE(MS, 1, 60) };
	struct htw_context *ctx[18];

	for (u32 i = 0; i < ARRAY_SIZE(ctx); i++) {
		ctx[i] = htw_test_context_of(test, USER);
		KUNIT_EXPECT_EQ_MSG(test, htw_setup_context(ctx[i], &setup), i < 16 ? 0 : -EPERM,
				    "number %u", i);
	}
	kunit_release_action(test, htw_test_close, ctx[3]);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx[16], &setup), 0);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx[17], &setup), -EPERM);
	/* One that fails is given back, too: this context is late. */
	kunit_release_action(test, htw_test_close, ctx[4]);
	htw_test_start(test, ctx[17], 0, 1);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx[17], &setup), -EBUSY);
	KUNIT_EXPECT_EQ(test, htw_setup_context(htw_test_context_of(test, USER), &setup), 0);
}

static void restore_user_limit(void *limit)
{
	WRITE_ONCE(htw_max_user_timers, (unsigned long)limit);
}

/* What a setup has allocated that fails counts until it is freed, a grace period later. */
static void failed_setup_waits_for_its_memory(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE | HTW_SETUP_RING, .tick_ns = MS, .levels = 1,
		.slots = { 60 }, .ring_entries = 8,
	};
	struct htw_context *ctx = htw_test_context_of(test, USER + 4);
	struct rcu_gp_seq gp;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	WRITE_ONCE(htw_max_user_timers, 1);
	/* Of expedited grace periods, too: while the kernel boots there may be no others. */
	get_state_synchronize_rcu_full(&gp);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), -EDQUOT);
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu_full(&gp));
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->wheels), 0);
}

static void memory_of_a_user_is_limited(struct kunit *test)
{
	/* Not one whose closed contexts may still be charged. */
	struct htw_user *user = htw_test_context_of(test, USER + 1)->user;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	KUNIT_ASSERT_EQ(test, atomic_read(&user->timers), 0);
	WRITE_ONCE(htw_max_user_timers, 100);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 101, 200), 0);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 63, 63), 63);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 38, 63), 0);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 37, 63), 37);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 1, 1), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->timers), 100);
	htw_user_uncharge(user, 37);
	/* The limit was lowered since. */
	WRITE_ONCE(htw_max_user_timers, 10);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 1, 1), 0);
	htw_user_uncharge(user, 63);
	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 10, 100), 10);
	htw_user_uncharge(user, 10);
}

/* What is left of a limit is used, also if nothing was left the first time. */
static void rest_of_the_limit_is_used(struct kunit *test)
{
	struct htw_context *first = htw_test_context_of(test, USER + 3);
	struct htw_context *second = htw_test_context_of(test, USER + 3);
	const struct htw_add add = { .flags = HTW_F_ABS, .deadline = U64_MAX };

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	WRITE_ONCE(htw_max_user_timers, HTW_PAGE_TIMERS);
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		KUNIT_ASSERT_NE(test, htw_test_add(first, &add), 0);
	KUNIT_EXPECT_EQ(test, htw_test_add(second, &add), 0);
	WRITE_ONCE(htw_max_user_timers, HTW_PAGE_TIMERS + 10);
	for (u32 i = 0; i < 10; i++)
		KUNIT_EXPECT_NE(test, htw_test_add(second, &add), 0);
	KUNIT_EXPECT_EQ(test, htw_test_add(second, &add), 0);
}

static void last_timer_of_the_limit_is_used(struct kunit *test)
{
	const struct htw_add add = { .flags = HTW_F_ABS, .deadline = U64_MAX };
	struct htw_context *ctx = htw_test_context_of(test, USER + 8);

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	WRITE_ONCE(htw_max_user_timers, 1);
	KUNIT_EXPECT_NE(test, htw_test_add(ctx, &add), 0);
	KUNIT_EXPECT_EQ(test, htw_test_add(ctx, &add), 0);
}

/* Neither what was allocated before the user's limit was met, nor a part of a page. */
static void what_is_refused_takes_nothing(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE | HTW_SETUP_RING, .tick_ns = MS, .levels = 1,
		.slots = { 60 }, .ring_entries = 128,
	};
	const struct htw_add add = { .flags = HTW_F_ABS, .deadline = U64_MAX };
	struct htw_context *ctx = htw_test_context_of(test, USER + 4);
	struct htw_context *other = htw_test_context_of(test, USER + 4);
	struct htw_user *user = ctx->user;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	KUNIT_EXPECT_EQ(test, htw_op_setup(ctx, NULL), -EFAULT);
	WRITE_ONCE(htw_max_user_timers, 10);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), -EDQUOT);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->wheels), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->timers), 0);

	/* The first page of timers needs a page of the table, too. */
	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	for (u32 limit = 10; limit <= HTW_PAGE_TIMERS; limit += HTW_PAGE_TIMERS - 10) {
		WRITE_ONCE(htw_max_user_timers, limit);
		KUNIT_EXPECT_EQ(test, htw_test_add(ctx, &add), 0);
		KUNIT_EXPECT_EQ(test, ctx->nr_allocated, 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&user->timers), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&user->partial), 0);
	}
	WRITE_ONCE(htw_max_user_timers, 3 * HTW_PAGE_TIMERS);
	KUNIT_EXPECT_NE(test, htw_test_add(ctx, &add), 0);
	KUNIT_EXPECT_NE(test, htw_test_add(other, &add), 0);
	KUNIT_EXPECT_EQ(test, htw_table_enable(other), -EDQUOT);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->timers), 3 * HTW_PAGE_TIMERS);
	WRITE_ONCE(htw_max_user_timers, 4 * HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, htw_table_enable(other), 0);
}

/* A ring of N entries is charged as N timers, but at least as a page of timers. */
static void rings_are_charged(struct kunit *test)
{
	static const u32 entries[] = { 4, 4096 };

	for (u32 i = 0; i < ARRAY_SIZE(entries); i++) {
		const struct htw_setup setup = {
			.flags = HTW_SETUP_RING, .ring_entries = entries[i],
		};
		struct htw_context *ctx = htw_test_context_of(test, USER + 13 + i);

		KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->timers), i ? 4096 : HTW_PAGE_TIMERS);
	}
}

/* A timer that is about to be armed relies on what there is. */
static void setup_is_too_late_while_timers_are_added(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE | HTW_SETUP_RING, .tick_ns = MS, .levels = 1,
		.slots = { 60 }, .ring_entries = 16,
	};
	const struct htw_setup ring = { .flags = HTW_SETUP_RING, .ring_entries = 16 };
	struct htw_context *ctx = htw_test_context_of(test, USER + 5);
	LIST_HEAD(reserved);
	int charged;

	KUNIT_ASSERT_EQ(test, htw_test_reserve(ctx, &reserved, 1), 1);
	charged = atomic_read(&ctx->user->timers);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), -EBUSY);
	KUNIT_EXPECT_NULL(test, ctx->private_base);
	KUNIT_EXPECT_NULL(test, ctx->ring);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->wheels), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->timers), charged);
	htw_pool_unreserve(ctx, &reserved);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), 0);
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &ring), -EBUSY);
}

/* At a limit a task waits for closed contexts of its user, but neither in vain nor for ever. */
static void waiting_for_closed_contexts_ends(struct kunit *test)
{
	struct htw_user *user = htw_test_context_of(test, USER + 6)->user;
	struct htw_user_wait wait = HTW_USER_WAIT;

	htw_user_wait_begin(&wait, user);
	KUNIT_EXPECT_FALSE(test, htw_user_wait_again(&wait));
	htw_user_closing_begin(user);
	wait.until = jiffies + 2;
	KUNIT_EXPECT_FALSE(test, htw_user_wait_again(&wait));
	wait.until = jiffies - 1;
	KUNIT_EXPECT_FALSE(test, htw_user_wait_again(&wait));
	/* The time is that of the whole call. */
	htw_user_wait_begin(&wait, user);
	KUNIT_EXPECT_FALSE(test, htw_user_wait_again(&wait));
	wait.until = jiffies + 100 * HZ;
	htw_user_closing_end(user);
	KUNIT_EXPECT_TRUE(test, htw_user_wait_again(&wait));
	KUNIT_EXPECT_FALSE(test, htw_user_wait_again(&wait));
}

/* A call waits once, however many of its entries meet the limit; mmap() waits for a moment only. */
static void limit_is_waited_for_once(struct kunit *test)
{
	const u64 deadlines[3] = { U64_MAX, U64_MAX, U64_MAX };
	char __user *user = (char __user *)htw_test_user_pages(test, 1);
	struct htw_context *ctx = htw_test_context_of(test, USER + 7);
	struct htw_vector v = {
		.op = HTW_OP_ADD, .flags = HTW_F_ABS, .count = ARRAY_SIZE(deadlines),
		.deadlines = (unsigned long)user, .ids = (unsigned long)user + sizeof(deadlines),
	};
	char __user *arg = user + 2 * sizeof(deadlines);
	unsigned long before;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	WRITE_ONCE(htw_max_user_timers, HTW_PAGE_TIMERS);
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, U64_MAX, 1);
	KUNIT_ASSERT_EQ(test, copy_to_user(user, deadlines, sizeof(deadlines)), 0);
	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &v, sizeof(v)), 0);

	htw_user_closing_begin(ctx->user);
	before = jiffies;
	KUNIT_EXPECT_EQ(test, htw_table_enable(ctx), -EDQUOT);
	KUNIT_EXPECT_GE(test, jiffies - before, HZ / 4);
	KUNIT_EXPECT_LT(test, jiffies - before, 5 * HZ);
	before = jiffies;
	KUNIT_EXPECT_EQ(test, htw_op_vector(ctx, (void __user *)arg), 0);
	KUNIT_EXPECT_GE(test, jiffies - before, 10 * HZ);
	KUNIT_EXPECT_LT(test, jiffies - before, IS_ENABLED(CONFIG_SMP) ? 15 * HZ : 11 * HZ);
	htw_user_closing_end(ctx->user);
	KUNIT_ASSERT_EQ(test, copy_from_user(&v, arg, sizeof(v)), 0);
	KUNIT_EXPECT_EQ(test, v.done, 3);
	KUNIT_EXPECT_EQ(test, v.failed, 3);
}

/* Closed contexts of a user that open() leaves behind, at most. */
#define CLOSING			1024

struct freer {
	struct delayed_work work;
	struct htw_user *user;
};

static void free_one(struct work_struct *work)
{
	struct freer *freer = container_of(to_delayed_work(work), struct freer, work);

	htw_user_closing_end(freer->user);
	if (atomic_read(&freer->user->closing) >= CLOSING)
		schedule_delayed_work(&freer->work, 1);
}

static void open_waits_while_very_many_are_closed(struct kunit *test)
{
	struct freer freer = { .user = htw_test_context_of(test, USER + 7)->user };

	for (u32 i = 0; i < CLOSING + 2; i++)
		htw_user_closing_begin(freer.user);
	INIT_DELAYED_WORK_ONSTACK(&freer.work, free_one);
	schedule_delayed_work(&freer.work, 1);
	KUNIT_EXPECT_TRUE(test, htw_user_wait_for_closing(freer.user));
	KUNIT_EXPECT_EQ(test, atomic_read(&freer.user->closing), CLOSING - 1);
	cancel_delayed_work_sync(&freer.work);
	destroy_delayed_work_on_stack(&freer.work);
	for (u32 i = 0; i < CLOSING - 1; i++)
		htw_user_closing_end(freer.user);
}

/* By their uids, also if these have the same hash, and by their privileges. */
static void users_are_told_apart(struct kunit *test)
{
	struct htw_context *one = htw_test_context_of(test, USER), *other, *root;
	uid_t same = USER + 1;

	while (hash_32(same, 8) != hash_32(USER, 8))
		same++;
	other = htw_test_context_of(test, same);
	KUNIT_EXPECT_PTR_NE(test, one->user, other->user);
	KUNIT_EXPECT_PTR_EQ(test, one->user, htw_test_context_of(test, USER)->user);
	KUNIT_EXPECT_PTR_EQ(test, other->user, htw_test_context_of(test, same)->user);

	root = htw_test_context_of(test, 0);
	KUNIT_EXPECT_PTR_NE(test, root->user, htw_test_context(test)->user);
	KUNIT_EXPECT_PTR_EQ(test, root->user, htw_test_context_of(test, 0)->user);
}

/* Free timers on other CPUs' lists are taken, and no more than are wanted. */
static void timers_of_other_lists_are_taken(struct kunit *test)
{
	enum { FREED = 40, UNUSED = 20, WANTED = 30 };
	struct htw_context *ctx = htw_test_context(test);
	u32 in_use = 2 * HTW_PAGE_TIMERS - UNUSED;
	LIST_HEAD(reserved);
	u64 ids[FREED];

	for (u32 i = 0; i < in_use; i++) {
		const u64 id = htw_test_start(test, ctx, HTW_NEVER, i);

		if (i < FREED)
			ids[i] = id;
	}
	for (u32 i = 0; i < FREED; i++) {
		struct htw_cancel cancel = { .id = ids[i] };

		KUNIT_ASSERT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	}
	in_use -= FREED;
	htw_test_free_elsewhere(ctx);
	KUNIT_EXPECT_EQ(test, htw_test_reserve(ctx, &reserved, WANTED), WANTED);
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, 2);
	KUNIT_EXPECT_EQ(test, list_count_nodes(&reserved), WANTED);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, in_use + WANTED);
	htw_pool_unreserve(ctx, &reserved);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, in_use);
}

/*
 * Ids are in the order of the timers, wherever these come from: freed ones, also by other CPUs, a
 * page, new pages.
 */
static void ids_are_those_of_the_timers(struct kunit *test)
{
	const u32 count = 3 * HTW_PAGE_TIMERS, freed = 5;

	for (u32 elsewhere = 0; elsewhere < 2; elsewhere++) {
		struct htw_context *ctx = htw_test_context(test);
		/* With room in front that is not to be touched. */
		u64 *ids = htw_test_array(test, 2 * count, sizeof(*ids));
		struct htw_user_wait wait = HTW_USER_WAIT;
		LIST_HEAD(reserved);
		struct htw_timer *t;
		u32 i = 0, first;
		int got;

		KUNIT_ASSERT_EQ(test, htw_test_reserve(ctx, &reserved, freed), freed);
		htw_pool_unreserve(ctx, &reserved);
		for (first = 0; first < count; first += got) {
			if (elsewhere)
				htw_test_free_elsewhere(ctx);
			INIT_LIST_HEAD(&reserved);
			got = htw_pool_reserve(ctx, &reserved, count - first, &ids[count + first],
					       &wait);
			KUNIT_ASSERT_GT(test, got, 0);
			list_for_each_entry(t, &reserved, node.list)
				KUNIT_EXPECT_EQ(test, ids[count + i++], htw_timer_id(t));
			KUNIT_EXPECT_EQ(test, i, first + got);
			htw_pool_unreserve(ctx, &reserved);
		}
		for (i = 0; i < count; i++)
			KUNIT_ASSERT_EQ(test, ids[i], 0);
	}
}

/* A part of a page, at the user's limit, is one context's alone. */
static void one_page_is_charged_in_part(struct kunit *test)
{
	const struct htw_add add = { .flags = HTW_F_ABS, .deadline = U64_MAX };
	struct htw_context *ctx = htw_test_context_of(test, USER + 12);
	struct htw_context *other = htw_test_context_of(test, USER + 12);
	const u32 some = HTW_PAGE_TIMERS / 2;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_user_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	WRITE_ONCE(htw_max_user_timers, some);
	KUNIT_EXPECT_NE(test, htw_test_add(ctx, &add), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->timers), some);
	KUNIT_EXPECT_EQ(test, atomic_read(&ctx->user->partial), 1);
	/* There is room for more timers now, but no page for them. */
	WRITE_ONCE(htw_max_user_timers, 2 * some);
	KUNIT_EXPECT_EQ(test, htw_test_add(other, &add), 0);
	KUNIT_EXPECT_EQ(test, other->nr_allocated, 0);
	WRITE_ONCE(htw_max_user_timers, some + HTW_PAGE_TIMERS);
	KUNIT_EXPECT_NE(test, htw_test_add(other, &add), 0);
}

/* Memory is allocated with bottom halves on, though a section has them off. */
static void sections_make_bases(struct kunit *test)
{
	struct htw_section s = { .ctx = htw_test_context_of(test, USER) };

	local_bh_disable();
	htw_section_create_base(&s);
	KUNIT_EXPECT_TRUE(test, softirq_count());
	local_bh_enable();
	KUNIT_EXPECT_NOT_NULL(test, s.target);
}

#if defined(CONFIG_USER_NS) && !defined(MODULE)
/* A context that is opened in a new user namespace, which the user @uid has made. */
static struct htw_context *context_in_namespace_of(struct kunit *test, uid_t uid)
{
	const struct cred *outer = htw_test_become(test, uid), *before;
	struct cred *inner = prepare_creds();
	struct htw_context *ctx = NULL;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, inner);
	/* The root of a kernel thread may be one of its own, as in a chroot, where none is made. */
	scoped_with_init_fs()
		ret = create_user_ns(inner);
	if (!ret) {
		before = override_creds(inner);
		ctx = htw_contexts_create(HTW_TEST_LIMIT);
		revert_creds(before);
	}
	put_cred(inner);
	htw_test_become_again(outer);
	KUNIT_ASSERT_EQ(test, ret, 0);
	return htw_test_own(test, ctx);
}

/*
 * In a user namespace a task counts as the user who made it, so that more namespaces give no higher
 * limits. Those that root makes, as for containers, are a user each.
 */
static void namespaces_belong_to_users(struct kunit *test)
{
	struct htw_context *one = htw_test_context_of(test, USER);
	struct htw_context *root = htw_test_context_of(test, 0), *container;

	KUNIT_EXPECT_PTR_EQ(test, context_in_namespace_of(test, USER)->user, one->user);
	KUNIT_EXPECT_PTR_EQ(test, context_in_namespace_of(test, USER)->user, one->user);
	container = context_in_namespace_of(test, 0);
	KUNIT_EXPECT_PTR_NE(test, container->user, root->user);
	KUNIT_EXPECT_PTR_NE(test, context_in_namespace_of(test, 0)->user, container->user);
}
#endif

/* A privileged user has no limit. */
static void memory_of_a_privileged_user_is_not(struct kunit *test)
{
	struct htw_user *user = htw_test_context(test)->user;

	KUNIT_EXPECT_EQ(test, htw_user_charge(user, 1, U32_MAX), U32_MAX);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->timers), 0);
	htw_user_uncharge(user, U32_MAX);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->timers), 0);
}

/* A directory has room for 2^18 pages. */
static void pages_are_numbered(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	u32 pages, allocated;

	mutex_lock(&ctx->grow);
	pages = ctx->nr_pages;
	allocated = ctx->nr_allocated;
	ctx->nr_pages = BIT(18);
	ctx->nr_allocated = BIT(18);
	KUNIT_EXPECT_EQ(test, htw_pool_grow(ctx), -ENOSPC);
	ctx->nr_pages = pages;
	ctx->nr_allocated = allocated;
	mutex_unlock(&ctx->grow);
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
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_page *page;

	mutex_lock(&ctx->grow);
	/* One page at a time, until several are allocated together. */
	do {
		for (unsigned int order = 0; order <= PAGE_ALLOC_COSTLY_ORDER; order++)
			leave_dirty_memory(order);
		if (htw_pool_grow(ctx))
			break;
		page = htw_context_page(ctx, ctx->nr_pages - 1);
		KUNIT_EXPECT_NULL(test, memchr_inv(page->timers, 0, sizeof(page->timers)));
	} while (!ctx->nr_prealloc);
	KUNIT_EXPECT_NE(test, ctx->nr_prealloc, 0);
	mutex_unlock(&ctx->grow);
}

/* Times of a namespace are later or earlier than the host's; zero and never have their limits. */
static void time_is_shifted(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(100, 0), 100);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(100, 30), 130);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(100, -30), 70);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(30, -30), 0);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(10, -30), 0);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(U64_MAX - 1, -30), U64_MAX - 31);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(U64_MAX, -30), U64_MAX);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(U64_MAX - 30, 30), U64_MAX);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(U64_MAX - 29, 30), U64_MAX);
	KUNIT_EXPECT_EQ(test, htw_context_shift_time(U64_MAX, 30), U64_MAX);
}

static const s64 offsets[] = { -30 * (s64)NSEC_PER_MSEC, 100000 * (s64)NSEC_PER_SEC };

static void get_offset_desc(const s64 *offset, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%lld ns", *offset);
}

KUNIT_ARRAY_PARAM(offsets, offsets, get_offset_desc);

/* As in a time namespace: all times of the program are shifted by an offset. */
static void times_have_the_offset_of_the_namespace(struct kunit *test)
{
	const s64 offset = *(const s64 *)test->param_value;
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_add add = { .deadline = 2 * SEC, .interval = 1000 * SEC };
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE | HTW_F_ABS };
	struct htw_query query = {};
	struct htw_event events[3];
	u64 now;

	/* The time in a namespace is not before its zero. */
	msleep(50);
	ctx->timens = offset;
	now = htw_now() + offset;
	KUNIT_EXPECT_GE(test, htw_context_now(ctx), now);
	KUNIT_EXPECT_LT(test, htw_context_now(ctx), now + 10 * SEC);
	htw_test_start(test, ctx, now + SEC, 1);
	query.id = htw_test_add(ctx, &add);
	mod.id = htw_test_start(test, ctx, now + 5000 * SEC, 3);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_GE(test, query.deadline, now + 2 * SEC);
	KUNIT_EXPECT_LE(test, query.remaining, 2 * SEC);
	query = (struct htw_query) { .id = mod.id };
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.deadline, now + 5000 * SEC);
	KUNIT_EXPECT_GT(test, query.remaining, 4000 * SEC);
	mod.deadline = now + 3 * SEC;
	KUNIT_ASSERT_EQ(test, htw_test_mod(ctx, &mod), 0);
	htw_test_wait(test, ctx, 3);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 3), 3);
	KUNIT_EXPECT_EQ(test, events[0].deadline, now + SEC);
	KUNIT_EXPECT_GE(test, events[1].deadline, now + 2 * SEC);
	KUNIT_EXPECT_EQ(test, events[2].deadline, now + 3 * SEC);
	for (u32 i = 0; i < 3; i++) {
		KUNIT_EXPECT_GE(test, events[i].fired, events[i].deadline);
		KUNIT_EXPECT_LE(test, events[i].fired, htw_now() + offset);
		KUNIT_EXPECT_EQ(test, events[i].missed, 0);
	}
}

/* A context with the manual clock, and ticks of 1 ns. */
static struct htw_context *manual(struct kunit *test)
{
	const struct htw_setup setup = { MANUAL(1, 3, 64, 64, 64) };
	struct htw_context *ctx = htw_test_context(test);

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	return ctx;
}

/* By which debugfs names a wheel's user. */
static void wheels_belong_to_users(struct kunit *test)
{
	struct htw_context *private = manual(test), *shared = htw_test_context(test);

	htw_test_start(test, shared, U64_MAX, 1);
	KUNIT_EXPECT_PTR_EQ(test, private->private_base->owner, &private->user->bases);
	KUNIT_EXPECT_TRUE(test, private->private_base->private);
	migrate_disable();
	KUNIT_EXPECT_PTR_EQ(test, htw_test_base(raw_smp_processor_id())->owner,
			    &shared->user->bases);
	KUNIT_EXPECT_FALSE(test, htw_test_base(raw_smp_processor_id())->private);
	migrate_enable();
}

struct wheels {
	const struct htw_bases *owner;
	u32 count;
};

static void count_wheel(struct htw_base *base, void *data)
{
	struct wheels *wheels = data;

	wheels->count += base->owner == wheels->owner;
}

static u32 nr_wheels(const struct htw_bases *owner)
{
	struct wheels wheels = { .owner = owner };
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		htw_bases_for_each(cpu, count_wheel, &wheels);
	return wheels.count;
}

/* A user has a wheel for each clock and CPU, until its last context is closed. */
static void wheels_go_with_the_last_context(struct kunit *test)
{
	static const s32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };
	struct htw_context *ctx[ARRAY_SIZE(clocks)];
	const struct htw_bases *owner;

	migrate_disable();
	for (u32 i = 0; i < ARRAY_SIZE(clocks); i++) {
		const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = clocks[i] };

		ctx[i] = htw_test_context_of(test, USER + 5);
		KUNIT_ASSERT_EQ(test, htw_setup_context(ctx[i], &setup), 0);
		htw_test_start(test, ctx[i], U64_MAX, i);
	}
	migrate_enable();
	owner = &ctx[0]->user->bases;
	KUNIT_EXPECT_EQ(test, nr_wheels(owner), ARRAY_SIZE(clocks));
	for (u32 i = 0; i < ARRAY_SIZE(clocks); i++)
		kunit_release_action(test, htw_test_close, ctx[i]);
	for (u32 i = 0; i < 500 && nr_wheels(owner); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, nr_wheels(owner), 0);
}

#if defined(CONFIG_UML_TIME_TRAVEL_SUPPORT) && !defined(MODULE)
/* Use some pages of timers, and have more allocated. Closing has ended on return. */
static void use_and_close(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);

	for (u32 i = 0; i < 66 * HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, U64_MAX, i);
	KUNIT_EXPECT_GT(test, ctx->nr_prealloc, 0);
	kunit_release_action(test, htw_test_close, ctx);
	/* Two steps, each after a grace period. */
	for (u32 i = 0; i < 2; i++) {
		rcu_barrier();
		flush_workqueue(htw_wq);
	}
}

static unsigned long nr_free(void)
{
	/* There is one CPU. */
	drain_local_pages(NULL);
	return global_zone_page_state(NR_FREE_PAGES);
}

/* All memory of a context is given back, also what it has not used yet. */
static void closing_gives_memory_back(struct kunit *test)
{
	const u32 rounds = 20, some = 50;
	unsigned long before;

	use_and_close(test);
	before = nr_free();
	for (u32 i = 0; i < rounds; i++)
		use_and_close(test);
	KUNIT_EXPECT_GT(test, nr_free() + some, before);
}
#endif

/* In bins of powers of two of 1024 ns. */
static void lateness_is_counted(struct kunit *test)
{
	static const struct {
		u64 late;
		u32 bin;
	} cases[] = {
		{ 0, 0 }, { 1023, 0 }, { 1024, 1 }, { 2047, 1 }, { 2048, 2 }, { 4095, 2 },
		{ 4096, 3 }, { 1024ull << 21, 22 }, { (1024ull << 22) - 1, 22 },
		{ 1024ull << 22, 23 }, { 1024ull << 30, 23 },
	};
	const u64 now = 1024ull << 31;
	struct htw_context *ctx = manual(test);
	u64 expected[HTW_LATE_BINS] = {};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		htw_test_start(test, ctx, now - cases[i].late, i);
		expected[cases[i].bin]++;
	}
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now), ARRAY_SIZE(cases));
	KUNIT_EXPECT_MEMEQ(test, ctx->private_base->late, expected, sizeof(expected));
}

/* A count that was fixed by a cancel is read as it was, however large it is. */
static void cancelled_event_keeps_its_count(struct kunit *test)
{
	static const u64 counts[] = { 0, 1, U32_MAX, 1ull << 32, (3ull << 32) + 5, 1ull << 40 };
	struct htw_context *ctx = manual(test);

	for (u32 i = 0; i < ARRAY_SIZE(counts); i++) {
		const u64 now = htw_context_now(ctx);
		const struct htw_add add = { .deadline = 1, .interval = 1 };
		struct htw_cancel cancel = { .id = htw_test_add(ctx, &add) };
		struct htw_query query = { .id = cancel.id };
		struct htw_event event;

		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now + 1 + counts[i]), 1);
		KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -EALREADY);
		KUNIT_EXPECT_EQ(test, cancel.missed, counts[i]);
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now + 100 + 2 * counts[i]), 0);
		KUNIT_EXPECT_EQ(test, htw_test_query(ctx, &query), 0);
		KUNIT_EXPECT_EQ(test, query.missed, counts[i]);
		KUNIT_EXPECT_EQ(test, query.state, HTW_STATE_EXPIRED);
		KUNIT_EXPECT_EQ(test, query.firings, 0);
		KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -EALREADY);
		KUNIT_EXPECT_EQ(test, cancel.missed, counts[i]);
		KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
		KUNIT_EXPECT_EQ(test, event.missed, counts[i]);
		KUNIT_EXPECT_EQ(test, htw_test_nr_timers(ctx), 0);
	}
}

/* With a limit of firings as well. */
static void cancelled_event_keeps_its_firings(struct kunit *test)
{
	struct htw_context *ctx = manual(test);
	const struct htw_add add = { .deadline = 1, .interval = 10, .firings = 5 };
	struct htw_cancel cancel = { .id = htw_test_add(ctx, &add) };
	struct htw_query query = { .id = cancel.id };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 25), 1);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -EALREADY);
	KUNIT_EXPECT_EQ(test, cancel.missed, 2);
	htw_advance_context(ctx, 1000);
	KUNIT_EXPECT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.missed, 2);
	KUNIT_EXPECT_EQ(test, query.firings, 5);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.missed, 2);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(ctx), 0);
}

/* A step of the clock delivers all that is due, in many turns, and in order. */
/* A slot whose generations have run out is not used again, whatever is read together with it. */
static void slot_that_ran_out_is_read(struct kunit *test)
{
	struct htw_context *ctx = manual(test);
	struct htw_event events[3];
	u64 ids[3];

	for (u32 i = 0; i < 3; i++)
		ids[i] = htw_test_start(test, ctx, htw_tick_ns, i);
	htw_test_slot(ctx, ids[1])->generation = U32_MAX;
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, htw_tick_ns), 3);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 3), 3);
	KUNIT_EXPECT_EQ(test, events[1].id, (u64)U32_MAX << 32 | HTW_ID_SLOT(ids[1]));
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(ctx), 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), HTW_PAGE_TIMERS - 1);
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		KUNIT_EXPECT_NE(test, HTW_ID_SLOT(htw_test_start(test, ctx, U64_MAX, i)),
				HTW_ID_SLOT(ids[1]));
	KUNIT_EXPECT_EQ(test, ctx->nr_pages, 2);
}

static void advance_delivers_all(struct kunit *test)
{
	const u32 count = 1000;
	struct htw_context *ctx = manual(test);
	struct htw_event *events = htw_test_array(test, count + 1, sizeof(*events));

	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, 1 + i * 7919 % count, i);
	htw_test_start(test, ctx, count + 1, count);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, count), count);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count + 1), count);
	for (u32 i = 0; i < count; i++) {
		KUNIT_EXPECT_EQ(test, events[i].deadline, i + 1);
		KUNIT_EXPECT_EQ(test, events[i].fired, count);
	}
	/* The clock does not go back. */
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 5), 0);
	KUNIT_EXPECT_EQ(test, htw_context_now(ctx), count);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, count + 1), 1);
}

/* Periodic timers with the same deadlines keep their order from one period to the next. */
static void periodic_timers_stay_in_order(struct kunit *test)
{
	const struct htw_add add = { .deadline = 10, .interval = 10 };
	struct htw_context *ctx = manual(test);
	struct htw_event events[5];
	u64 ids[5];

	for (u32 i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = htw_test_add(ctx, &add);
	for (u64 now = 10; now < 60; now += 10) {
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now), ARRAY_SIZE(ids));
		KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 5), 5);
		for (u32 i = 0; i < ARRAY_SIZE(ids); i++) {
			KUNIT_EXPECT_EQ(test, events[i].id, ids[i]);
			KUNIT_EXPECT_EQ(test, events[i].deadline, now);
			KUNIT_EXPECT_EQ(test, events[i].missed, 0);
		}
	}
}

/* It has no interval any more, and no limit of firings, which a new deadline would use up. */
static void kept_timer_without_firings_is_a_one_shot_timer(struct kunit *test)
{
	const struct htw_add add = {
		.deadline = 10, .interval = 10, .firings = 2, .flags = HTW_F_KEEP,
	};
	struct htw_context *ctx = manual(test);
	struct htw_query query = { .id = htw_test_add(ctx, &add) };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.firings, 2);
	for (u64 now = 10; now <= 20; now += 10) {
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now), 1);
		KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	}
	query = (struct htw_query) { .id = query.id };
	KUNIT_EXPECT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.state, HTW_STATE_DISARMED);
	KUNIT_EXPECT_EQ(test, query.interval, 0);
	KUNIT_EXPECT_EQ(test, query.firings, 0);
}

/* /proc/PID/fdinfo/FD */
static void fdinfo_counts(struct kunit *test)
{
	struct htw_context *ctx = manual(test);
	struct seq_file m = { .size = 512 };
	char expected[512];

	m.buf = kunit_kzalloc(test, m.size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m.buf);
	for (u32 i = 0; i < 5; i++)
		htw_test_start(test, ctx, 1 + i, i);
	htw_advance_context(ctx, 2);
	htw_info_show(ctx, &m);
	snprintf(expected, sizeof(expected),
		 "htw-clock:\t%d\nhtw-tick-ns:\t1\nhtw-timers:\t5\nhtw-expired:\t2\n"
		 "htw-limit:\t%d\nhtw-throttled:\t0\nhtw-throttled-ns:\t0\n",
		 HTW_CLOCK_MANUAL, HTW_TEST_LIMIT);
	KUNIT_EXPECT_STREQ(test, m.buf, expected);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
static void wheels_give_their_memory_back(struct kunit *test)
{
	const struct htw_setup setup = { PRIVATE(MS, 2, 2048, 2048) };
	/* Of a wheel's pages, all but a few. */
	const long rounds = 100, pages = 4096 * sizeof(struct list_head) / PAGE_SIZE - 4;
	long before = 0;

	/* What is allocated in the first round may stay. */
	for (long i = 0; i <= rounds; i++) {
		struct htw_context *ctx = htw_contexts_create(HTW_TEST_LIMIT);

		KUNIT_ASSERT_NOT_NULL(test, ctx);
		KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), 0);
		htw_test_close(ctx);
		rcu_barrier();
		if (!i)
			before = nr_free_pages();
	}
	KUNIT_EXPECT_LT(test, before - (long)nr_free_pages(), rounds * pages);
}
#endif

/* A throttle that has not ended counts up to now. */
static void throttled_time_counts_meanwhile(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context_of(test, USER + 9);
	const unsigned int cpu = cpumask_first(cpu_possible_mask);
	struct htw_flow *flow = per_cpu_ptr(htw_bases_flows(&ctx->user->bases), cpu);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	struct htw_flow_info info;
	u64 times, ns;

	spin_lock_bh(&p->lock);
	flow->throttled = true;
	flow->throttled_at = ktime_get_ns() - MS;
	flow->throttled_ns = 7;
	flow->throttles = 3;
	spin_unlock_bh(&p->lock);
	htw_pacer_flow_info(flow, cpu, &info);
	htw_user_throttled(ctx->user, &times, &ns);
	spin_lock_bh(&p->lock);
	flow->throttled = false;
	flow->throttled_ns = 0;
	flow->throttles = 0;
	spin_unlock_bh(&p->lock);
	/* On all CPUs together; this user has used no other. */
	KUNIT_EXPECT_EQ(test, times, 3);
	KUNIT_EXPECT_GE(test, ns, info.throttled_ns);
	KUNIT_EXPECT_LT(test, ns, 100 * SEC);
	KUNIT_EXPECT_GE(test, info.throttled_ns, MS + 7);
	KUNIT_EXPECT_LT(test, info.throttled_ns, 100 * SEC);
}

/* A timer need not be pending for that. */
static void slack_of_an_expired_timer_changes(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_add add = { .deadline = SEC };
	struct htw_mod mod = { .flags = HTW_MOD_SLACK, .slack = 64 * MS };

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	mod.id = htw_test_add(ctx, &add);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, SEC), 1);
	KUNIT_EXPECT_EQ(test, htw_timer_slack(htw_test_slot(ctx, mod.id)), 0);
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &mod), 0);
	/* It is rounded down to what fits. */
	KUNIT_EXPECT_GT(test, htw_timer_slack(htw_test_slot(ctx, mod.id)), 60 * MS);
	KUNIT_EXPECT_LE(test, htw_timer_slack(htw_test_slot(ctx, mod.id)), 64 * MS);
}

#ifdef CONFIG_DEBUG_FS
static __printf(3, 4)
void expect_text(struct kunit *test, const char *text, const char *format, ...)
{
	char expected[128];
	va_list args;

	va_start(args, format);
	vsnprintf(expected, sizeof(expected), format, args);
	va_end(args);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, expected), "no %sin %s", expected, text);
}

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

/* Make a call, whose argument is in the program's memory, with its @nth fault if it has one. */
static int call_with_fault(struct htw_context *ctx, void __user *arg, bool is_vector, u32 nth)
{
	/* What a vector is worked on with is kept from one call to the next. */
	htw_vector_exit();
	current->fail_nth = nth;
	return is_vector ? htw_op_vector(ctx, arg) : htw_op_add(ctx, arg);
}

/* In turn each allocation fails. Copies may, too, where the kernel injects that. */
static void calls_say_that_memory_is_missing(struct kunit *test)
{
	const struct htw_add add = { .flags = HTW_F_ABS, .deadline = U64_MAX };
	const struct htw_vector vector = { .op = HTW_OP_ADD };
	void __user *arg = (void __user *)htw_test_user_pages(test, 1);

	leave_alone(test, false);
	for (u32 i = 0; i < 2; i++) {
		u32 missing = 0, left = 0;

		KUNIT_ASSERT_EQ(test, i ? copy_to_user(arg, &vector, sizeof(vector)) :
					  copy_to_user(arg, &add, sizeof(add)), 0);
		for (u32 nth = 1; !left && nth < 100; nth++) {
			int ret = 0;

			/* The kernel's debugging, which does without, may have the fault once. */
			for (u32 tries = 0; !ret && !left && tries < 3; tries++) {
				/* A call that fails may leave to the next what it has allocated. */
				struct htw_context *ctx = htw_test_context(test);

				KUNIT_EXPECT_EQ(test, htw_table_enable(ctx), 0);
				ret = call_with_fault(ctx, arg, i, nth);
				left = current->fail_nth;
				current->fail_nth = 0;
			}
			missing += ret == -ENOMEM;
			KUNIT_EXPECT_EQ_MSG(test, ret != 0, !left, "call %u, fault %u: %d", i, nth,
					    ret);
		}
		KUNIT_EXPECT_GT(test, missing, 0);
		KUNIT_EXPECT_GT(test, left, 0);
	}
	leave_alone(test, true);
}
#endif

/* What it says of a user and its wheels. */
static void debugfs_counts(struct kunit *test)
{
	const u32 uid = USER + 6;
	const struct htw_setup setup = { PRIVATE(MS, 8, 60, 50, 2, 2, 2, 2, 2, 2) };
	struct htw_context *ctx = htw_test_context_of(test, uid);
	const unsigned int cpu = cpumask_first(cpu_possible_mask);
	struct htw_flow *flow = per_cpu_ptr(htw_bases_flows(&ctx->user->bases), cpu);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	char line[64];
	char *text;

	/* Or the wheel's CPU would be told of the timer, which takes time. */
	migrate_disable();
	KUNIT_EXPECT_EQ(test, htw_setup_context(ctx, &setup), 0);
	htw_test_start(test, ctx, U64_MAX, 1);
	migrate_enable();
	snprintf(line, sizeof(line), "user %u cpu ", uid);
	text = htw_test_debugfs_text(test, "htw/users");
	expect_text(test, text, "user %u contexts 1 timers %u private_wheels 1\n", uid,
		    HTW_PAGE_TIMERS);
	/* Only of CPUs that it has used. */
	KUNIT_EXPECT_NULL(test, strstr(text, line));

	spin_lock_bh(&p->lock);
	flow->spent = 12345;
	flow->throttles = 3;
	flow->throttled_ns = 4;
	flow->stalls.times = 5;
	flow->stalls.ns = 6;
	spin_unlock_bh(&p->lock);
	text = htw_test_debugfs_text(test, "htw/users");
	text = strstr(text, line);
	KUNIT_ASSERT_NOT_NULL(test, text);
	*strchrnul(text, '\n') = 0;
	expect_text(test, text, "user %u cpu %u spent_ns 12345 tokens_ns ", uid, cpu);
	expect_text(test, text, " throttled 3 throttled_ns 4 stalls 5 stalled_ns 6");

	text = htw_test_debugfs_text(test, "htw/wheels");
	snprintf(line, sizeof(line), "user %u private 1\n", uid);
	text = strstr(text, line);
	KUNIT_ASSERT_NOT_NULL(test, text);
	snprintf(line, sizeof(line), "user %u private 1\nlevel 0 span 1 ring 120 occupied ", uid);
	KUNIT_EXPECT_EQ(test, strncmp(text, line, strlen(line)), 0);
	text = strstr(text, "\nlevel 1 span 60 ring 100 occupied ");
	KUNIT_ASSERT_NOT_NULL(test, text);
	text = strstr(text, "\nlevel 7 span 96000 ring 4 occupied ");
	KUNIT_ASSERT_NOT_NULL(test, text);
	/* It has eight levels. */
	text = strchr(text + 1, '\n');
	KUNIT_ASSERT_NOT_NULL(test, text);
	KUNIT_EXPECT_EQ(test, strncmp(text, "\nlate_us ", 9), 0);
}

/* A line for each CPU, of what its pacer has done. */
static void debugfs_counts_of_pacers(struct kunit *test)
{
	const u64 many = 1000000000000ULL;
	unsigned int cpu, lines = 0;
	char *text;

	for_each_online_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

		spin_lock_bh(&p->lock);
		p->misses += many;
		spin_unlock_bh(&p->lock);
	}
	text = htw_test_debugfs_text(test, "htw/pacers");
	for_each_online_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
		char line[32];
		char *at;

		snprintf(line, sizeof(line), "cpu %u callbacks ", cpu);
		at = strstr(text, line);
		KUNIT_ASSERT_NOT_NULL(test, at);
		expect_text(test, at, " lock_misses 10000000");
		spin_lock_bh(&p->lock);
		p->misses -= many;
		spin_unlock_bh(&p->lock);
	}
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	KUNIT_EXPECT_EQ(test, lines, num_online_cpus());
}
#endif

static struct kunit_case htw_context_cases[] = {
	KUNIT_CASE_PARAM(setup_has_limits, setups_gen_params),
	KUNIT_CASE(private_wheels_are_limited),
	KUNIT_CASE(failed_setup_waits_for_its_memory),
	KUNIT_CASE(memory_of_a_user_is_limited),
	KUNIT_CASE(rest_of_the_limit_is_used),
	KUNIT_CASE(last_timer_of_the_limit_is_used),
	KUNIT_CASE(what_is_refused_takes_nothing),
	KUNIT_CASE(rings_are_charged),
	KUNIT_CASE(setup_is_too_late_while_timers_are_added),
	KUNIT_CASE(waiting_for_closed_contexts_ends),
	KUNIT_CASE_SLOW(limit_is_waited_for_once),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(wheels_give_their_memory_back),
#endif
	KUNIT_CASE(throttled_time_counts_meanwhile),
	KUNIT_CASE(slack_of_an_expired_timer_changes),
	KUNIT_CASE(open_waits_while_very_many_are_closed),
	KUNIT_CASE(users_are_told_apart),
#if defined(CONFIG_USER_NS) && !defined(MODULE)
	KUNIT_CASE(namespaces_belong_to_users),
#endif
	KUNIT_CASE(timers_of_other_lists_are_taken),
	KUNIT_CASE(ids_are_those_of_the_timers),
	KUNIT_CASE(one_page_is_charged_in_part),
	KUNIT_CASE(sections_make_bases),
	KUNIT_CASE(memory_of_a_privileged_user_is_not),
	KUNIT_CASE(pages_are_numbered),
	KUNIT_CASE(memory_of_new_timers_is_cleared),
	KUNIT_CASE(time_is_shifted),
	KUNIT_CASE_PARAM(times_have_the_offset_of_the_namespace, offsets_gen_params),
	KUNIT_CASE(wheels_belong_to_users),
	KUNIT_CASE(wheels_go_with_the_last_context),
#if defined(CONFIG_UML_TIME_TRAVEL_SUPPORT) && !defined(MODULE)
	KUNIT_CASE(closing_gives_memory_back),
#endif
	KUNIT_CASE(lateness_is_counted),
	KUNIT_CASE(cancelled_event_keeps_its_count),
	KUNIT_CASE(cancelled_event_keeps_its_firings),
	KUNIT_CASE(slot_that_ran_out_is_read),
	KUNIT_CASE(advance_delivers_all),
	KUNIT_CASE(periodic_timers_stay_in_order),
	KUNIT_CASE(kept_timer_without_firings_is_a_one_shot_timer),
	KUNIT_CASE(fdinfo_counts),
#ifdef CONFIG_DEBUG_FS
	KUNIT_CASE(debugfs_counts),
	KUNIT_CASE(debugfs_counts_of_pacers),
#if defined(CONFIG_FAILSLAB) && defined(CONFIG_FAIL_PAGE_ALLOC)
	KUNIT_CASE(calls_say_that_memory_is_missing),
#endif
#endif
	{}
};

static struct kunit_suite htw_context_suite = {
	.name = "htw_context",
	.init = htw_test_init,
	.test_cases = htw_context_cases,
};

kunit_test_suite(htw_context_suite);

MODULE_DESCRIPTION("KUnit: contexts and their settings");
MODULE_LICENSE("GPL");
