// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: callouts
 */

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/htw.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../core/callout.h"
#include "htw_kunit.h"

#define MS NSEC_PER_MSEC

/**
 * struct probe - a callout that records its calls
 * @callout: the callout
 * @calls: number of calls
 * @due: last deadline, in ns of CLOCK_MONOTONIC
 * @fired: time of the last call, in ns of CLOCK_MONOTONIC
 * @again: number of times that the function starts the callout again
 * @busy_ms: duration of the function
 * @begun: completed when the function begins
 * @done: set at the end of the function
 */
struct probe {
	struct htw_callout callout;
	atomic_t calls;
	u64 due;
	u64 fired;
	unsigned int again;
	unsigned int busy_ms;
	struct completion begun;
	bool done;
};

static void probe_called(struct htw_callout *callout)
{
	struct probe *p = container_of(callout, struct probe, callout);

	p->fired = ktime_get_ns();
	complete(&p->begun);
	mdelay(p->busy_ms);
	atomic_inc(&p->calls);
	if (p->again) {
		p->again--;
		p->due += MS;
		htw_callout_start_at(callout, p->due, 0);
	}
	/* Pairs with cancel_sync_waits_for_the_function(). */
	smp_store_release(&p->done, true);
}

static void probe_stop(void *data)
{
	struct probe *p = data;

	htw_callout_cancel_sync(&p->callout);
}

/* Started and cancelled before htw_init(), as another built-in driver may do. */
static struct probe early_fires, early_slack, early_stopped, early_moved, early_never;
static struct probe early_idle;
static bool early_was_pending;

static int __init start_early(void)
{
	struct probe *const probes[] = {
		&early_fires, &early_slack, &early_stopped, &early_moved, &early_never,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(probes); i++) {
		init_completion(&probes[i]->begun);
		probes[i]->due = ktime_get_ns() + 10 * MS;
		htw_callout_init(&probes[i]->callout, probe_called);
		htw_callout_start_at(&probes[i]->callout, probes[i]->due, 0);
	}
	init_completion(&early_idle.begun);
	htw_callout_init(&early_idle.callout, probe_called);
	early_was_pending = htw_callout_cancel(&early_stopped.callout);
	early_was_pending &= htw_callout_start_at(&early_slack.callout, early_slack.due,
						  10 * NSEC_PER_SEC);
	/* In a hundred years, as in virtual time days may pass before this suite runs. */
	early_moved.due += (u64)NSEC_PER_SEC * 36500 * 86400;
	early_was_pending &= htw_callout_start_at(&early_moved.callout, early_moved.due, 0);
	early_was_pending &= htw_callout_start_at(&early_never.callout, U64_MAX, 0);
	return 0;
}
core_initcall(start_early);

static void callout_may_be_started_before_htw(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, early_was_pending);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&early_fires.begun, 100 * HZ), 0);
	htw_callout_cancel_sync(&early_fires.callout);
	KUNIT_EXPECT_EQ(test, atomic_read(&early_fires.calls), 1);
	KUNIT_EXPECT_GE(test, early_fires.fired, early_fires.due);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&early_slack.begun, 100 * HZ), 0);
	htw_callout_cancel_sync(&early_slack.callout);
	KUNIT_EXPECT_EQ(test, atomic_read(&early_slack.calls), 1);
	KUNIT_EXPECT_GE(test, early_slack.fired, early_slack.due);
	KUNIT_EXPECT_EQ(test, atomic_read(&early_stopped.calls), 0);
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(&early_stopped.callout));
	/* It was moved to a wheel. */
	KUNIT_EXPECT_EQ(test, atomic_read(&early_moved.calls), 0);
	KUNIT_EXPECT_TRUE(test, htw_callout_cancel(&early_moved.callout));
	KUNIT_EXPECT_EQ(test, atomic_read(&early_never.calls), 0);
	KUNIT_EXPECT_TRUE(test, htw_callout_cancel(&early_never.callout));
}

/* It is not on the base of any CPU yet. */
static void callout_may_be_initialised_before_htw(struct kunit *test)
{
	const u64 due = ktime_get_ns() + MS;

	KUNIT_EXPECT_FALSE(test, htw_callout_start_at(&early_idle.callout, due, 0));
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&early_idle.begun, 100 * HZ), 0);
	htw_callout_cancel_sync(&early_idle.callout);
	KUNIT_EXPECT_EQ(test, atomic_read(&early_idle.calls), 1);
	KUNIT_EXPECT_GE(test, early_idle.fired, due);
}

static struct probe *probe_new(struct kunit *test)
{
	struct probe *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	init_completion(&p->begun);
	htw_callout_init(&p->callout, probe_called);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, probe_stop, p));
	return p;
}

static void probe_start(struct probe *p, u64 delay)
{
	p->due = ktime_get_ns() + delay;
	htw_callout_start_at(&p->callout, p->due, 0);
}

/* Wait for a call, with a timeout. */
static void probe_wait(struct kunit *test, struct probe *p)
{
	KUNIT_ASSERT_NE(test, 0, wait_for_completion_timeout(&p->begun, 30 * HZ));
}

static void called_once_and_not_early(struct kunit *test)
{
	struct probe *p = probe_new(test);

	probe_start(p, 20 * MS + 1);
	KUNIT_EXPECT_TRUE(test, htw_callout_pending(&p->callout));
	probe_wait(test, p);
	KUNIT_EXPECT_GE(test, p->fired, p->due);
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&p->callout));
	msleep(50);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&p->calls));
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(&p->callout));
}

static void past_is_called_but_not_from_within_start(struct kunit *test)
{
	struct probe *p = probe_new(test);

	local_bh_disable();
	htw_callout_start_at(&p->callout, 0, 0);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&p->calls));
	KUNIT_EXPECT_TRUE(test, htw_callout_pending(&p->callout));
	local_bh_enable();
	probe_wait(test, p);
}

static void start_says_whether_it_was_pending(struct kunit *test)
{
	struct probe *p = probe_new(test);

	KUNIT_EXPECT_FALSE(test, htw_callout_start(&p->callout, 3600 * NSEC_PER_SEC, 0));
	KUNIT_EXPECT_TRUE(test, htw_callout_start(&p->callout, 7200 * NSEC_PER_SEC, 0));
	KUNIT_EXPECT_TRUE(test, htw_callout_cancel(&p->callout));
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel(&p->callout));
	KUNIT_EXPECT_FALSE(test, htw_callout_start(&p->callout, U64_MAX, U64_MAX));
	KUNIT_EXPECT_TRUE(test, htw_callout_cancel_sync(&p->callout));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&p->calls));
}

static void restart_moves_it_both_ways(struct kunit *test)
{
	struct probe *p = probe_new(test);

	probe_start(p, 5 * MS);
	probe_start(p, 80 * MS);
	probe_wait(test, p);
	KUNIT_EXPECT_GE(test, p->fired, p->due);

	reinit_completion(&p->begun);
	probe_start(p, 3600 * NSEC_PER_SEC);
	probe_start(p, 5 * MS);
	probe_wait(test, p);
	KUNIT_EXPECT_GE(test, p->fired, p->due);
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&p->callout));
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&p->calls));
}

static void function_starts_it_again(struct kunit *test)
{
	struct probe *p = probe_new(test);

	p->again = 20;
	probe_start(p, MS);
	for (int i = 0; i < 21; i++)
		probe_wait(test, p);
	KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&p->callout));
	KUNIT_EXPECT_EQ(test, 21, atomic_read(&p->calls));
}

static void cancel_sync_beats_a_function_that_restarts(struct kunit *test)
{
	struct probe *p = probe_new(test);
	int calls;

	p->again = UINT_MAX;
	probe_start(p, MS);
	probe_wait(test, p);
	probe_wait(test, p);
	htw_callout_cancel_sync(&p->callout);
	calls = atomic_read(&p->calls);
	msleep(20);
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&p->calls));
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(&p->callout));
}

static struct completion freed;

static void free_called(struct htw_callout *callout)
{
	kfree(callout);
	complete(&freed);
}

static void function_may_free_it(struct kunit *test)
{
	struct htw_callout *callout = kzalloc(sizeof(*callout), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, callout);
	init_completion(&freed);
	htw_callout_init(callout, free_called);
	htw_callout_start(callout, MS, 0);
	KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(&freed, 30 * HZ));
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* One that is pending where callouts are before htw starts stands for one on another CPU's base. */
static void restart_moves_it_to_this_cpu(struct kunit *test)
{
	struct htw_base *base = per_cpu(htw_callout_bases, 0);
	struct probe *p = probe_new(test);

	per_cpu(htw_callout_bases, 0) = &htw_early_base;
	htw_callout_init(&p->callout, probe_called);
	KUNIT_EXPECT_FALSE(test, htw_callout_start_at(&p->callout, U64_MAX, 0));
	per_cpu(htw_callout_bases, 0) = base;
	KUNIT_EXPECT_EQ(test, htw_early_base.wheel.pending, 1);
	p->due = ktime_get_ns() + MS;
	KUNIT_EXPECT_TRUE(test, htw_callout_start_at(&p->callout, p->due, 0));
	KUNIT_EXPECT_EQ(test, htw_early_base.wheel.pending, 0);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&p->begun, 100 * HZ), 0);
	htw_callout_cancel_sync(&p->callout);
	KUNIT_EXPECT_EQ(test, atomic_read(&p->calls), 1);
	KUNIT_EXPECT_GE(test, p->fired, p->due);
}

static void function_returns(struct tasklet_struct *tasklet)
{
	per_cpu(htw_callout_bases, 0)->running = NULL;
}

/*
 * As if the function had started it again, and returned on another CPU only after it was first
 * looked at: a softirq comes when that drops the lock.
 */
static void cancel_sync_says_that_a_running_one_was_pending(struct kunit *test)
{
	DECLARE_TASKLET(tasklet, function_returns);
	struct probe *p = probe_new(test);

	probe_start(p, 3600 * NSEC_PER_SEC);
	per_cpu(htw_callout_bases, 0)->running = &p->callout.node;
	tasklet_schedule(&tasklet);
	KUNIT_EXPECT_TRUE(test, htw_callout_cancel_sync(&p->callout));
	KUNIT_EXPECT_NULL(test, per_cpu(htw_callout_bases, 0)->running);
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(&p->callout));
}

static u32 called;

static void count_call(struct htw_callout *callout)
{
	called++;
}

/* A turn of 128 units: a callout takes one, and its function four. */
static void turn_has_units(struct kunit *test)
{
	struct htw_callout *callouts = kunit_kcalloc(test, 100, sizeof(*callouts), GFP_KERNEL);
	struct htw_base *base = per_cpu(htw_callout_bases, 0);
	const u64 due = ktime_get_ns() + 10 * MS;
	u32 in_turn;

	KUNIT_ASSERT_NOT_NULL(test, callouts);
	called = 0;
	for (u32 i = 0; i < 100; i++) {
		htw_callout_init(&callouts[i], count_call);
		htw_callout_start_at(&callouts[i], due, 0);
	}
	local_bh_disable();
	htw_test_turn(base, due + MS);
	in_turn = called;
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, in_turn, DIV_ROUND_UP(128, 1 + 4));
	msleep(50);
	KUNIT_EXPECT_EQ(test, called, 100);
	for (u32 i = 0; i < 100; i++)
		KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&callouts[i]));
}

static void at_its_tick(struct kunit *test)
{
	static const u64 delays[] = {
		1, MS - 1, MS, MS + 1, 255 * MS, 256 * MS, 511 * MS, 512 * MS, 513 * MS,
		16384 * MS, 150 * NSEC_PER_SEC,
	};
	struct probe *p = probe_new(test);

	for (int i = 0; i < ARRAY_SIZE(delays); i++) {
		reinit_completion(&p->begun);
		probe_start(p, delays[i]);
		wait_for_completion(&p->begun);
		/* With time travel, only reading the clock takes time. */
		KUNIT_EXPECT_GE(test, p->fired, roundup_u64(p->due, htw_tick_ns));
		KUNIT_EXPECT_LT(test, p->fired, roundup_u64(p->due, htw_tick_ns) + NSEC_PER_USEC);
	}
}
#endif

#ifdef CONFIG_SMP
static long probe_start_soon(void *data)
{
	probe_start(data, 2 * MS);
	return 0;
}

static long probe_start_later(void *data)
{
	probe_start(data, 300 * MS);
	return 0;
}

static void cancel_sync_waits_for_the_function(struct kunit *test)
{
	struct probe *p = probe_new(test);

	p->busy_ms = 50;
	for (int i = 0; i < 5; i++) {
		p->done = false;
		reinit_completion(&p->begun);
		work_on_cpu(cpumask_last(cpu_online_mask), probe_start_soon, p);
		probe_wait(test, p);
		KUNIT_EXPECT_FALSE(test, htw_callout_cancel_sync(&p->callout));
		/* Pairs with probe_called(). */
		KUNIT_EXPECT_TRUE(test, smp_load_acquire(&p->done));
	}
}

/* kthread_stop() would keep a thread that has not begun from running its function. */
static DECLARE_COMPLETION(thread_begun);

static int start_and_cancel(void *data)
{
	struct probe *p = data;
	u64 delay = (u64)raw_smp_processor_id() * 500 * NSEC_PER_USEC;

	complete(&thread_begun);
	for (int i = 0; i < 5000; i++) {
		htw_callout_start(&p->callout, delay, 0);
		if (i % 3 == 0)
			htw_callout_cancel(&p->callout);
		if (i % 501 == 0)
			htw_callout_cancel_sync(&p->callout);
		cond_resched();
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void started_from_all_cpus_at_once(struct kunit *test)
{
	static struct task_struct *tasks[NR_CPUS];
	struct probe *p = probe_new(test);
	unsigned int cpu;
	int calls;

	for_each_online_cpu(cpu) {
		tasks[cpu] = kthread_create(start_and_cancel, p, "htw_kunit/%u", cpu);
		KUNIT_ASSERT_FALSE(test, IS_ERR(tasks[cpu]));
		kthread_bind(tasks[cpu], cpu);
		wake_up_process(tasks[cpu]);
	}
	for_each_online_cpu(cpu)
		wait_for_completion(&thread_begun);
	for_each_online_cpu(cpu)
		KUNIT_EXPECT_EQ(test, 0, kthread_stop(tasks[cpu]));
	htw_callout_cancel_sync(&p->callout);
	calls = atomic_read(&p->calls);
	msleep(20);
	KUNIT_EXPECT_EQ(test, calls, atomic_read(&p->calls));
	KUNIT_EXPECT_FALSE(test, htw_callout_pending(&p->callout));
}

static void called_though_its_cpu_has_gone(struct kunit *test)
{
	unsigned int cpu = cpumask_last(cpu_online_mask);
	struct probe *p = probe_new(test);

	work_on_cpu(cpu, probe_start_later, p);
	KUNIT_ASSERT_EQ(test, 0, remove_cpu(cpu));
	probe_wait(test, p);
	KUNIT_EXPECT_GE(test, p->fired, p->due);
	KUNIT_EXPECT_EQ(test, 0, add_cpu(cpu));
	htw_callout_cancel_sync(&p->callout);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&p->calls));
}
#endif

static struct kunit_case cases[] = {
	KUNIT_CASE(callout_may_be_started_before_htw),
	KUNIT_CASE(callout_may_be_initialised_before_htw),
	KUNIT_CASE(called_once_and_not_early),
	KUNIT_CASE(past_is_called_but_not_from_within_start),
	KUNIT_CASE(start_says_whether_it_was_pending),
	KUNIT_CASE(restart_moves_it_both_ways),
	KUNIT_CASE(function_starts_it_again),
	KUNIT_CASE(cancel_sync_beats_a_function_that_restarts),
	KUNIT_CASE(function_may_free_it),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(restart_moves_it_to_this_cpu),
	KUNIT_CASE(cancel_sync_says_that_a_running_one_was_pending),
	KUNIT_CASE(turn_has_units),
	KUNIT_CASE(at_its_tick),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE(cancel_sync_waits_for_the_function),
	KUNIT_CASE(started_from_all_cpus_at_once),
	KUNIT_CASE(called_though_its_cpu_has_gone),
#endif
	{}
};

static struct kunit_suite suite = {
	.name = "htw_callout",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit: callouts");
MODULE_LICENSE("GPL");
