// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: when callouts come, and what is said of those that are misused
 *
 * On ARCH=um time is virtual, so that this is exact. What they share with timer_list is in
 * htw_timer_list_kunit.c.
 */

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/htw.h>
#include <linux/interrupt.h>
#include <linux/math64.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "../core/context.h"

#define MS		((u64)NSEC_PER_MSEC)
#define SECOND		((u64)NSEC_PER_SEC)
/* With virtual time, reading the clock takes some, and so does setting an hrtimer. */
#define VIRTUAL		IS_ENABLED(CONFIG_UML_TIME_TRAVEL_SUPPORT)
#define EXACT_NS	(VIRTUAL ? 10 * NSEC_PER_USEC : HZ * SECOND)

/**
 * struct probe - a callout that records its calls
 * @callout: the callout
 * @due: its deadline, in ns of CLOCK_MONOTONIC
 * @fired: when it was called last
 * @calls: how often it was
 * @number: how many others of the case were called before
 * @busy_us: how long its function takes
 * @begun: completed when the function begins
 */
struct probe {
	struct htw_callout callout;
	u64 due;
	u64 fired;
	unsigned int calls;
	unsigned int number;
	unsigned int busy_us;
	struct completion begun;
};

static atomic_t called;

static void probe_called(struct htw_callout *callout)
{
	struct probe *p = container_of(callout, struct probe, callout);

	p->fired = ktime_get_ns();
	p->calls++;
	p->number = atomic_fetch_inc(&called);
	if (p->busy_us)
		mdelay(p->busy_us / 1000);
	udelay(p->busy_us % 1000);
	complete(&p->begun);
}

/**
 * struct probes - what a case uses
 * @count: number of @all
 * @all: the callouts
 */
struct probes {
	u32 count;
	struct probe all[];
};

static void probes_stop(void *data)
{
	struct probes *probes = data;

	for (u32 i = 0; i < probes->count; i++)
		htw_callout_shutdown_sync(&probes->all[i].callout);
}

static struct probe *probes_new(struct kunit *test, u32 count)
{
	struct probes *probes = kunit_kzalloc(test, struct_size(probes, all, count), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, probes);
	probes->count = count;
	for (u32 i = 0; i < count; i++) {
		init_completion(&probes->all[i].begun);
		htw_callout_init(&probes->all[i].callout, probe_called);
	}
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, probes_stop, probes));
	atomic_set(&called, 0);
	return probes->all;
}

static void probe_start_at(struct probe *p, u64 due)
{
	p->due = due;
	htw_callout_start_at(&p->callout, due, 0);
}

static void probe_comes(struct kunit *test, struct probe *p)
{
	KUNIT_ASSERT_NE(test, 0, wait_for_completion_timeout(&p->begun, 3600 * HZ));
}

static u64 tick_ns(void)
{
	return htw_tick_us * NSEC_PER_USEC;
}

/* Has a callout come not before its deadline, and at its tick? */
static void expect_at_tick(struct kunit *test, const struct probe *p)
{
	KUNIT_EXPECT_GE(test, p->fired, p->due);
	KUNIT_EXPECT_LE(test, p->fired, roundup_u64(p->due, tick_ns()) + EXACT_NS);
}

/* Started and cancelled before htw_init(), as by other drivers that are built in. */
static struct probe early_fires, early_stopped, early_moved;
static bool early_was_right;

static int __init start_early(void)
{
	struct probe *const probes[] = { &early_fires, &early_stopped, &early_moved };
	const u64 now = ktime_get_ns();

	for (u32 i = 0; i < ARRAY_SIZE(probes); i++) {
		init_completion(&probes[i]->begun);
		htw_callout_init(&probes[i]->callout, probe_called);
		probe_start_at(probes[i], now + 10 * MS);
	}
	early_was_right = htw_callout_cancel(&early_stopped.callout) &&
			  !htw_callout_cancel(&early_stopped.callout);
	/* In a hundred years: in virtual time days may pass before this suite runs. */
	probe_start_at(&early_moved, now + SECOND * 86400 * 36500);
	return 0;
}
early_initcall(start_early);

static void may_be_started_before_htw(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, early_was_right);
	probe_comes(test, &early_fires);
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&early_fires.callout));
	KUNIT_EXPECT_EQ(test, early_fires.calls, 1);
	KUNIT_EXPECT_GE(test, early_fires.fired, early_fires.due);
	KUNIT_EXPECT_EQ(test, early_stopped.calls, 0);
	KUNIT_EXPECT_TRUE(test, htw_callout_cancel(&early_moved.callout));
	KUNIT_EXPECT_EQ(test, early_moved.calls, 0);
}

static void comes_at_its_tick(struct kunit *test)
{
	static const u64 delays[] = {
		0, 1, MS - 1, MS, MS + 1, 255 * MS, 256 * MS, 511 * MS, 512 * MS, 513 * MS,
		16384 * MS, 150 * SECOND,
	};
	const u32 count = ARRAY_SIZE(delays) - (VIRTUAL ? 0 : 2);
	struct probe *p = probes_new(test, 1);

	for (u32 i = 0; i < count; i++) {
		probe_start_at(p, ktime_get_ns() + delays[i]);
		probe_comes(test, p);
		expect_at_tick(test, p);
	}
}

/* So many that the wheel is given levels, and moves them down. */
static void many_come_at_their_ticks(struct kunit *test)
{
	const u64 spread = VIRTUAL ? 100 * SECOND : 3 * SECOND;
	enum { COUNT = 2000 };
	struct probe *probes = probes_new(test, COUNT);
	const u64 now = ktime_get_ns();
	struct rnd_state random;

	prandom_seed_state(&random, 1);
	for (u32 i = 0; i < COUNT; i++)
		probe_start_at(&probes[i], now + prandom_u32_state(&random) % MS * spread / MS);
	/* After a jiffy, each third is moved, later or earlier, and each seventh stopped. */
	msleep(50);
	for (u32 i = 0; i < COUNT; i += 3) {
		probes[i].due = now + SECOND + prandom_u32_state(&random) % MS * spread / MS;
		if (htw_callout_start_at(&probes[i].callout, probes[i].due, 0))
			continue;
		reinit_completion(&probes[i].begun);
		probes[i].calls = 0;
	}
	for (u32 i = 0; i < COUNT; i += 7) {
		if (htw_callout_cancel(&probes[i].callout))
			probes[i].due = U64_MAX;
	}
	for (u32 i = 0; i < COUNT; i++) {
		if (probes[i].due == U64_MAX) {
			KUNIT_EXPECT_EQ(test, probes[i].calls, 0);
			continue;
		}
		probe_comes(test, &probes[i]);
		KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&probes[i].callout));
		KUNIT_EXPECT_EQ(test, probes[i].calls, 1);
		expect_at_tick(test, &probes[i]);
	}
}

static void equal_ticks_come_in_order(struct kunit *test)
{
	enum { COUNT = 100 };
	struct probe *probes = probes_new(test, COUNT);
	const u64 due = ktime_get_ns() + 20 * MS;

	/* All on one CPU. */
	local_bh_disable();
	for (u32 i = 0; i < COUNT; i++)
		probe_start_at(&probes[i], due);
	local_bh_enable();
	for (u32 i = 0; i < COUNT; i++) {
		probe_comes(test, &probes[i]);
		KUNIT_EXPECT_EQ(test, probes[i].number, i);
	}
}

static void far_deadlines_never_come(struct kunit *test)
{
	static const u64 never[] = { U64_MAX, U64_MAX - 1, (u64)S64_MAX + 1, S64_MAX, S64_MAX - 1 };
	struct probe *probes = probes_new(test, ARRAY_SIZE(never) + 2);
	struct probe *delayed = &probes[ARRAY_SIZE(never)], *soon = delayed + 1;

	for (u32 i = 0; i < ARRAY_SIZE(never); i++)
		probe_start_at(&probes[i], never[i]);
	KUNIT_EXPECT_FALSE(test, htw_callout_start(&delayed->callout, U64_MAX, U64_MAX));
	/* One that comes earlier is not held up. */
	probe_start_at(soon, ktime_get_ns() + 5 * MS);
	probe_comes(test, soon);
	expect_at_tick(test, soon);
	for (u32 i = 0; i <= ARRAY_SIZE(never); i++) {
		KUNIT_EXPECT_TRUE(test, htw_callout_cancel(&probes[i].callout));
		KUNIT_EXPECT_EQ(test, probes[i].calls, 0);
	}
}

static void slack_lets_two_share_a_tick(struct kunit *test)
{
	struct probe *probes = probes_new(test, 2);
	/* 2^28 ns ends in more zero bits than what is between. */
	const u64 shared = roundup_u64(ktime_get_ns() + 10 * MS, BIT_ULL(28));

	for (u32 i = 0; i < 2; i++) {
		probes[i].due = shared - (i + 1) * 5 * MS;
		htw_callout_start_at(&probes[i].callout, probes[i].due, 20 * MS);
	}
	for (u32 i = 0; i < 2; i++) {
		probe_comes(test, &probes[i]);
		KUNIT_EXPECT_GE(test, probes[i].fired, shared);
		KUNIT_EXPECT_LE(test, probes[i].fired, roundup_u64(shared, tick_ns()) + EXACT_NS);
	}
}

/* One that is due while another's function runs comes as soon as that has returned. */
static void comes_after_a_long_function(struct kunit *test)
{
	struct probe *probes = probes_new(test, 2);
	const u64 due = ktime_get_ns() + 10 * MS;

	probes[0].busy_us = 20000;
	local_bh_disable();
	probe_start_at(&probes[0], due);
	probe_start_at(&probes[1], due + 5 * MS);
	local_bh_enable();
	probe_comes(test, &probes[1]);
	KUNIT_EXPECT_GE(test, probes[1].fired, probes[1].due);
	KUNIT_EXPECT_LE(test, probes[1].fired, probes[0].fired + 20 * MS + tick_ns() + EXACT_NS);
}

static unsigned int called_before_tasklet;
static struct tasklet_struct tasklet;

static void tasklet_runs(struct tasklet_struct *unused)
{
	called_before_tasklet = atomic_read(&called);
}

static void schedules_tasklet(struct htw_callout *callout)
{
	tasklet_schedule(&tasklet);
	probe_called(callout);
}

/* Functions take 200 us at a time; then others of the CPU's softirqs run. */
static void other_softirqs_run_between_functions(struct kunit *test)
{
	enum { COUNT = 100 };
	struct probe *probes = probes_new(test, COUNT);
	const u64 due = ktime_get_ns() + 20 * MS;

	called_before_tasklet = COUNT;
	tasklet_setup(&tasklet, tasklet_runs);
	htw_callout_init(&probes[0].callout, schedules_tasklet);
	local_bh_disable();
	for (u32 i = 0; i < COUNT; i++) {
		probes[i].busy_us = 50;
		probe_start_at(&probes[i], due);
	}
	local_bh_enable();
	for (u32 i = 0; i < COUNT; i++)
		probe_comes(test, &probes[i]);
	tasklet_kill(&tasklet);
	KUNIT_EXPECT_LE(test, called_before_tasklet, 5);
}

static void on_the_stack(struct kunit *test)
{
	struct probe p = {};

	init_completion(&p.begun);
	htw_callout_init_on_stack(&p.callout, probe_called);
	probe_start_at(&p, ktime_get_ns() + MS);
	probe_comes(test, &p);
	htw_callout_cancel_sync(&p.callout);
	htw_callout_destroy_on_stack(&p.callout);
	expect_at_tick(test, &p);
}

static struct probe defined = {
	.callout = HTW_CALLOUT_INITIALIZER(probe_called),
	.begun = COMPLETION_INITIALIZER(defined.begun),
};

static void initialised_when_compiled(struct kunit *test)
{
	probe_start_at(&defined, ktime_get_ns() + MS);
	KUNIT_EXPECT_TRUE(test, htw_callout_pending(&defined.callout));
	probe_comes(test, &defined);
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&defined.callout));
	expect_at_tick(test, &defined);
}

/* The kernel has to report this, once, which tools/kernel-log sees to. */
static void will_be_reported(const char *text)
{
	pr_info("htw-test: expects: %s\n", text);
}

/* With debug objects each is reported by these first. */
static void not_initialised_will_be_reported(void)
{
	if (IS_ENABLED(CONFIG_DEBUG_OBJECTS))
		will_be_reported("ODEBUG: assert_init not available");
	will_be_reported("is not initialised");
}

static void zeroed_is_reported_and_not_started(struct kunit *test)
{
	struct htw_callout *zeroed = kunit_kzalloc(test, sizeof(*zeroed), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, zeroed);
	not_initialised_will_be_reported();
	KUNIT_EXPECT_FALSE(test, htw_callout_start(zeroed, 0, 0));
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(zeroed));
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel(zeroed));
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(zeroed));
	KUNIT_EXPECT_FALSE(test, htw_callout_shutdown_sync(zeroed));
}

static void without_a_function_is_reported_and_not_started(struct kunit *test)
{
	struct htw_callout *callout = kunit_kzalloc(test, sizeof(*callout), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, callout);
	htw_callout_init(callout, NULL);
	will_be_reported("is not initialised");
	KUNIT_EXPECT_FALSE(test, htw_callout_start_at(callout, 0, 0));
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(callout));
	/* Once it was shut down there is nothing to report. */
	KUNIT_EXPECT_FALSE(test, htw_callout_shutdown_sync(callout));
	KUNIT_EXPECT_FALSE(test, htw_callout_start_at(callout, 0, 0));
}

#ifdef CONFIG_DEBUG_OBJECTS

static void initialised_while_pending_is_reported(struct kunit *test)
{
	struct probe *p = probes_new(test, 1);

	probe_start_at(p, ktime_get_ns() + 3600 * SECOND);
	will_be_reported("ODEBUG: init active");
	htw_callout_init(&p->callout, probe_called);
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(&p->callout));
	/* And was taken out, so that it can be started. */
	probe_start_at(p, ktime_get_ns() + MS);
	probe_comes(test, p);
}

#endif

#ifdef CONFIG_DEBUG_OBJECTS_FREE

static void freed_while_pending_is_reported(struct kunit *test)
{
	struct probe *neighbours = probes_new(test, 2);
	struct probe *freed = kzalloc(sizeof(*freed), GFP_KERNEL);
	/* Not while it is reported, before it is taken out: that takes long on a slow console. */
	const u64 later = ktime_get_ns() + 3600 * SECOND;

	KUNIT_ASSERT_NOT_NULL(test, freed);
	htw_callout_init(&freed->callout, probe_called);
	probe_start_at(&neighbours[0], later);
	probe_start_at(freed, later);
	probe_start_at(&neighbours[1], later);
	will_be_reported("ODEBUG: free active");
	kfree(freed);
	/* It was taken out from between these, which can be moved. */
	for (u32 i = 0; i < 2; i++) {
		probe_start_at(&neighbours[i], ktime_get_ns() + MS);
		probe_comes(test, &neighbours[i]);
	}
}

#endif

static struct kunit_case cases[] = {
	KUNIT_CASE(may_be_started_before_htw),
	KUNIT_CASE(comes_at_its_tick),
	KUNIT_CASE(many_come_at_their_ticks),
	KUNIT_CASE(equal_ticks_come_in_order),
	KUNIT_CASE(far_deadlines_never_come),
	KUNIT_CASE(slack_lets_two_share_a_tick),
	KUNIT_CASE(comes_after_a_long_function),
	KUNIT_CASE(other_softirqs_run_between_functions),
	KUNIT_CASE(on_the_stack),
	KUNIT_CASE(initialised_when_compiled),
	KUNIT_CASE(zeroed_is_reported_and_not_started),
	KUNIT_CASE(without_a_function_is_reported_and_not_started),
#ifdef CONFIG_DEBUG_OBJECTS
	KUNIT_CASE(initialised_while_pending_is_reported),
#endif
#ifdef CONFIG_DEBUG_OBJECTS_FREE
	KUNIT_CASE(freed_while_pending_is_reported),
#endif
	{}
};

static struct kunit_suite suite = {
	.name = "htw_callout",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit: when callouts come");
MODULE_LICENSE("GPL");
