// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: waking tasks that wait for events
 *
 * A waiter is an entry on the context's wait queue whose function counts its calls.
 */
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/sched/task.h>
#include <linux/workqueue.h>

#include "../htw_chardev.h"
#include "htw_kunit.h"

#define WAITERS			1000u
/* More than are woken in a run. */
#define SOME			64u

struct waiters;

/**
 * struct waiter - a waiter on a context
 * @wait: entry on the wait queue
 * @waiters: the array that it is in
 * @woken: number of times it was woken
 * @idle: its task does not sleep, as that of an epoll set in which none waits
 * @last: when it was last woken, in ns
 */
struct waiter {
	wait_queue_entry_t wait;
	struct waiters *waiters;
	u32 woken;
	bool idle;
	u64 last;
};

/**
 * struct waiters - all waiters on a context
 * @ctx: the context
 * @ns: time that waking one of them takes
 * @calls: number of times any was woken
 * @waiter: the waiters
 */
struct waiters {
	struct htw_context *ctx;
	u64 ns;
	u32 calls;
	struct waiter waiter[WAITERS];
};

static int waiter_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct waiter *w = container_of(wait, struct waiter, wait);
	const u64 until = htw_now() + w->waiters->ns;

	while (htw_now() < until)
		udelay(1);
	w->woken++;
	w->last = htw_now();
	WRITE_ONCE(w->waiters->calls, w->waiters->calls + 1);
	if (w->idle)
		return 0;
	/* As a task does: leave the queue when woken. */
	if (wait->flags & WQ_FLAG_EXCLUSIVE)
		list_del_init(&wait->entry);
	return 1;
}

static void waiters_remove(void *data)
{
	struct waiters *all = data;

	spin_lock_irq(&all->ctx->wait.lock);
	for (u32 i = 0; i < WAITERS; i++)
		list_del_init(&all->waiter[i].wait.entry);
	spin_unlock_irq(&all->ctx->wait.lock);
}

/* Remove the waiters if that leaves a walk with none to go on with. Return: whether it does. */
static bool waiters_remove_from_walk(struct waiters *all)
{
	bool walking;

	spin_lock_irq(&all->ctx->wait.lock);
	walking = !list_empty(&all->ctx->wake_mark.entry);
	for (u32 i = 0; walking && i < WAITERS; i++)
		list_del_init(&all->waiter[i].wait.entry);
	spin_unlock_irq(&all->ctx->wait.lock);
	return walking;
}

/* Put @count waiters on a context, in order; waking each takes @ns. */
static struct waiters *waiters_make(struct kunit *test, struct htw_context *ctx, u32 count,
				    unsigned int flags, u64 ns)
{
	struct waiters *all = htw_test_array(test, 1, sizeof(*all));

	all->ctx = ctx;
	all->ns = ns;
	for (u32 i = 0; i < WAITERS; i++) {
		struct waiter *w = &all->waiter[i];

		w->waiters = all;
		init_waitqueue_func_entry(&w->wait, waiter_wake);
		INIT_LIST_HEAD(&w->wait.entry);
		if (i >= count)
			continue;
		if (flags & WQ_FLAG_EXCLUSIVE)
			add_wait_queue_exclusive(&ctx->wait, &w->wait);
	}
	for (u32 i = count; i-- && !(flags & WQ_FLAG_EXCLUSIVE);)
		add_wait_queue(&ctx->wait, &all->waiter[i].wait);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, waiters_remove, all), 0);
	return all;
}

/* Wait until waiters were woken @calls times. */
static void wait_for_calls(struct kunit *test, struct waiters *all, u32 calls)
{
	for (unsigned int i = 0; i < 1000 && READ_ONCE(all->calls) < calls; i++)
		msleep(20);
	KUNIT_ASSERT_GE(test, READ_ONCE(all->calls), calls);
}

/*
 * On any kernel
 */

static void each_waiter_is_woken_once(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, 0);

	htw_test_start(test, ctx, 0, 1);
	wait_for_calls(test, all, WAITERS);
	/* Further wakeups would have come by then. */
	msleep(50);
	for (u32 i = 0; i < WAITERS; i++)
		KUNIT_EXPECT_EQ_MSG(test, all->waiter[i].woken, 1, "waiter %u", i);
}

static void exclusive_waiters_are_woken_one_by_one(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, 10, WQ_FLAG_EXCLUSIVE, 0);

	for (u32 i = 0; i < 10; i++) {
		htw_test_start(test, ctx, 0, i);
		wait_for_calls(test, all, i + 1);
		msleep(20);
		KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), i + 1);
		KUNIT_EXPECT_EQ(test, all->waiter[i].woken, 1);
	}
}

/* Waiters on a context of a manual clock, of which @timers have expired: some have been woken. */
static struct waiters *waiters_woken(struct kunit *test, u32 count, unsigned int flags, u32 timers)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	all = waiters_make(test, ctx, count, flags, 0);
	for (u32 i = 0; i < timers; i++)
		htw_test_start(test, ctx, htw_tick_ns, i);
	KUNIT_ASSERT_EQ(test, htw_advance_context(ctx, htw_tick_ns), timers);
	return all;
}

/* A task that was woken alone has the next one woken if it reads only some events, or closes. */
static void exclusive_waiters_pass_on_what_they_leave(struct kunit *test)
{
	struct waiters *all = waiters_woken(test, 10, WQ_FLAG_EXCLUSIVE, 4);
	struct htw_event ev[2];

	KUNIT_EXPECT_EQ(test, all->calls, 1);
	KUNIT_EXPECT_EQ(test, htw_test_read(all->ctx, ev, 2), 2);
	wait_for_calls(test, all, 2);
	/* Not at the expense of this task. */
	local_bh_disable();
	htw_reader_pass_on(all->ctx);
	KUNIT_EXPECT_EQ(test, all->calls, 2);
	local_bh_enable();
	wait_for_calls(test, all, 3);
	KUNIT_EXPECT_EQ(test, htw_test_read(all->ctx, ev, 1), 1);
	wait_for_calls(test, all, 4);
	/* Nothing is left. */
	KUNIT_EXPECT_EQ(test, htw_test_read(all->ctx, ev, 2), 1);
	htw_reader_pass_on(all->ctx);
	msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), 4);
	for (u32 i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ_MSG(test, all->waiter[i].woken, 1, "waiter %u", i);
}

/* Waiters that are not exclusive, or before the one that left events, are not woken again. */
static void only_those_behind_are_woken(struct kunit *test)
{
	struct waiters *all = waiters_woken(test, 10, WQ_FLAG_EXCLUSIVE, 2);
	struct waiters *others = waiters_make(test, all->ctx, 10, 0, 0);
	struct htw_event ev;

	/* As if it had gone to sleep since. */
	add_wait_queue(&all->ctx->wait, &all->waiter[0].wait);
	all->waiter[1].idle = true;
	KUNIT_EXPECT_EQ(test, htw_test_read(all->ctx, &ev, 1), 1);
	wait_for_calls(test, all, 3);
	msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), 3);
	KUNIT_EXPECT_EQ(test, all->waiter[0].woken, 1);
	KUNIT_EXPECT_EQ(test, all->waiter[2].woken, 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(others->calls), 0);
}

/* A waiter whose task does not sleep does not end the walk, and does not count as woken alone. */
static void idle_waiters_are_passed_over(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, 10, WQ_FLAG_EXCLUSIVE, 0);

	for (u32 i = 0; i < 9; i++)
		all->waiter[i].idle = true;
	htw_test_start(test, ctx, 0, 1);
	wait_for_calls(test, all, 10);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(ctx->wake_alone));
	htw_test_start(test, ctx, 0, 2);
	wait_for_calls(test, all, 19);
	msleep(20);
	KUNIT_EXPECT_EQ(test, all->calls, 19);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(ctx->wake_alone));
}

/* Waiters that are not exclusive have all been woken by the expiration. */
static void only_exclusive_waiters_are_woken_again(struct kunit *test)
{
	struct waiters *all = waiters_woken(test, 10, 0, 4);
	struct htw_event ev;

	wait_for_calls(test, all, 10);
	KUNIT_EXPECT_EQ(test, htw_test_read(all->ctx, &ev, 1), 1);
	htw_reader_pass_on(all->ctx);
	msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), 10);
}

/* The walk's mark is on a list that is freed with the context. */
static void context_is_closed_in_the_middle_of_a_walk(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, 100 * NSEC_PER_USEC);
	bool removed = false;
	u32 calls;

	/* On a busy host a walk may have ended before this task runs again. */
	for (u64 i = 0; i < 100 && !removed; i++) {
		calls = READ_ONCE(all->calls);
		htw_test_start(test, ctx, 0, i);
		wait_for_calls(test, all, calls + 2 * SOME);
		removed = waiters_remove_from_walk(all);
	}
	KUNIT_ASSERT_TRUE(test, removed);
	/* It would be done after the context has been freed. */
	kunit_remove_action(test, waiters_remove, all);
	calls = READ_ONCE(all->calls);
	kunit_release_action(test, htw_test_close, ctx);
	/* KASAN reports if the pacer still uses the context. */
	msleep(300);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), calls);
}

/**
 * struct reader - a thread that reads one event
 * @file: file to read from
 * @task: the thread
 * @switches: result of wait_task_inactive() once the thread was blocked
 * @ret: result of the read
 * @event: the event
 * @done: the read has returned
 */
struct reader {
	struct file *file;
	struct task_struct *task;
	unsigned long switches;
	ssize_t ret;
	struct htw_event event;
	bool done;
};

#define READERS			16u

static int read_thread(void *data)
{
	struct reader *r = data;
	loff_t pos = 0;

	r->ret = kernel_read(r->file, &r->event, sizeof(r->event), &pos);
	/* Pairs with the acquires before @ret and @event are read. */
	smp_store_release(&r->done, true);
	return 0;
}

KUNIT_DEFINE_ACTION_WRAPPER(close_file, __fput_sync, struct file *);

static struct file *file_of_context(struct kunit *test)
{
	struct htw_context *ctx = htw_contexts_create(HTW_TEST_LIMIT);
	struct file *file;

	KUNIT_ASSERT_NOT_NULL(test, ctx);
	/* Does not call ->open. From here on the file owns the context. */
	file = anon_inode_getfile("[htw]", &htw_fops, ctx, O_RDWR);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, close_file, file), 0);
	return file;
}

static u32 readers_done(const struct reader *readers)
{
	u32 done = 0;

	for (u32 i = 0; i < READERS; i++) {
		/* Pairs with the reader's release. */
		done += smp_load_acquire(&readers[i].done);
	}
	return done;
}

static void wait_for_readers(struct kunit *test, const struct reader *readers, u32 count)
{
	for (unsigned int i = 0; i < 1000 && readers_done(readers) < count; i++)
		msleep(20);
	KUNIT_ASSERT_EQ(test, readers_done(readers), count);
}

/* Start threads that each read one event, and wait until all are blocked. */
static struct reader *readers_make(struct kunit *test, struct file *file)
{
	struct reader *readers = htw_test_array(test, READERS, sizeof(*readers));

	for (u32 i = 0; i < READERS; i++) {
		struct reader *r = &readers[i];

		r->file = file;
		r->task = kthread_create(read_thread, r, "htw_kunit_read/%u", i);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r->task);
		get_task_struct(r->task);
		wake_up_process(r->task);
	}
	for (u32 i = 0; i < READERS; i++) {
		struct reader *r = &readers[i];

		for (unsigned int k = 0; k < 1000 && !r->switches; k++) {
			r->switches = wait_task_inactive(r->task, TASK_INTERRUPTIBLE);
			msleep(20);
		}
		KUNIT_ASSERT_NE(test, r->switches, 0);
	}
	return readers;
}

static void readers_end(struct kunit *test, struct reader *readers)
{
	for (u32 i = 0; i < READERS; i++) {
		kthread_stop_put(readers[i].task);
		KUNIT_EXPECT_EQ(test, readers[i].ret, sizeof(struct htw_event));
	}
}

/* An expiration wakes one of the blocked readers and no other. */
static void one_reader_is_woken(struct kunit *test)
{
	struct file *file = file_of_context(test);
	struct reader *readers = readers_make(test, file);

	for (u32 i = 0; i < READERS; i++) {
		htw_test_start(test, file->private_data, 0, i);
		wait_for_readers(test, readers, i + 1);
		msleep(20);
		for (u32 k = 0; k < READERS; k++) {
			const struct reader *r = &readers[k];

			/* Pairs with the reader's release. */
			if (!smp_load_acquire(&r->done))
				KUNIT_EXPECT_EQ(test, wait_task_inactive(r->task,
									 TASK_INTERRUPTIBLE),
						r->switches);
		}
	}
	readers_end(test, readers);
}

/* A reader that leaves events behind wakes the next: each gets one of those that came at once. */
static void reader_passes_on_what_it_leaves(struct kunit *test)
{
	struct file *file = file_of_context(test);
	struct reader *readers = readers_make(test, file);
	u32 seen = 0;

	for (u32 i = 0; i < READERS; i++)
		htw_test_start(test, file->private_data,
			       htw_test_tick_up(htw_now()) + 100 * NSEC_PER_MSEC, i);
	wait_for_readers(test, readers, READERS);
	for (u32 i = 0; i < READERS; i++)
		seen |= BIT(readers[i].event.cookie);
	KUNIT_EXPECT_EQ(test, seen, BIT(READERS) - 1);
	readers_end(test, readers);
}

/**
 * struct awake - readers that a signal has woken, and that have not run yet
 * @ctx: the context
 * @calls: number of times any was found on the queue
 * @entry: entries on the queue of readers
 */
struct awake {
	struct htw_context *ctx;
	u32 calls;
	wait_queue_entry_t entry[WAITERS];
};

static int awake_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct awake *all = wait->private;

	WRITE_ONCE(all->calls, all->calls + 1);
	return 0;
}

static void awake_remove(void *data)
{
	struct awake *all = data;

	for (u32 i = 0; i < WAITERS; i++)
		remove_wait_queue(&all->ctx->readers, &all->entry[i]);
}

/* Readers that are awake are passed over, but not thousands of them. */
static void readers_that_are_awake_are_passed_over(struct kunit *test)
{
	struct awake *all = htw_test_array(test, 1, sizeof(*all));
	struct file *file = file_of_context(test);
	struct reader *readers = readers_make(test, file);

	all->ctx = file->private_data;
	for (u32 i = 0; i < WAITERS; i++) {
		init_waitqueue_func_entry(&all->entry[i], awake_wake);
		INIT_LIST_HEAD(&all->entry[i].entry);
		all->entry[i].private = all;
	}
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, awake_remove, all), 0);

	/* Some at the front of the queue: the first reader behind them is woken. */
	for (u32 i = 0; i < SOME - 1; i++)
		add_wait_queue(&all->ctx->readers, &all->entry[i]);
	htw_test_start(test, all->ctx, 0, 1);
	wait_for_readers(test, readers, 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), SOME - 1);

	/* More: the event is left to them. */
	for (u32 i = SOME - 1; i < WAITERS; i++)
		add_wait_queue(&all->ctx->readers, &all->entry[i]);
	WRITE_ONCE(all->calls, 0);
	htw_test_start(test, all->ctx, 0, 2);
	for (unsigned int i = 0; i < 1000 && READ_ONCE(all->calls) < SOME; i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), SOME);
	KUNIT_EXPECT_EQ(test, readers_done(readers), 1);

	kunit_release_action(test, awake_remove, all);
	for (u32 i = 1; i < READERS; i++)
		htw_test_start(test, all->ctx, 0, 2 + i);
	wait_for_readers(test, readers, READERS);
	readers_end(test, readers);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
static int waiter_fails(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct waiter *w = container_of(wait, struct waiter, wait);

	WRITE_ONCE(w->woken, w->woken + 1);
	return -EIO;
}

/* A waiter whose function fails is the last one, as for wake_up(). */
static void failing_waiter_ends_the_walk(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, 2, 0, 0);

	all->waiter[0].wait.func = waiter_fails;
	htw_test_start(test, ctx, 0, 1);
	for (unsigned int i = 0; i < 1000 && !READ_ONCE(all->waiter[0].woken); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->waiter[0].woken), 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), 0);
	spin_lock_irq(&ctx->wait.lock);
	KUNIT_EXPECT_TRUE(test, list_empty(&ctx->wake_mark.entry));
	spin_unlock_irq(&ctx->wait.lock);
}

/* Others may wake the queue while a walk's mark is on it. */
static void mark_is_no_waiter(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, 2, 0, 0);

	spin_lock_irq(&ctx->wait.lock);
	list_add(&ctx->wake_mark.entry, &all->waiter[0].wait.entry);
	spin_unlock_irq(&ctx->wait.lock);
	wake_up(&ctx->wait);
	KUNIT_EXPECT_EQ(test, all->waiter[0].woken, 1);
	KUNIT_EXPECT_EQ(test, all->waiter[1].woken, 1);
	spin_lock_irq(&ctx->wait.lock);
	KUNIT_EXPECT_FALSE(test, list_empty(&ctx->wake_mark.entry));
	list_del_init(&ctx->wake_mark.entry);
	spin_unlock_irq(&ctx->wait.lock);
}

/* Events that are delivered while a context is being closed wake no one. */
static void closing_context_wakes_no_one(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, 1, 0, 0);

	htw_wake_stop(ctx);
	htw_test_start(test, ctx, 0, 1);
	for (unsigned int i = 0; i < 1000 && !READ_ONCE(ctx->nr_expired); i++)
		msleep(20);
	KUNIT_ASSERT_EQ(test, READ_ONCE(ctx->nr_expired), 1);
	flush_workqueue(htw_wq);
	KUNIT_EXPECT_EQ(test, READ_ONCE(all->calls), 0);
}

/*
 * In virtual time: waking all waiters takes 4 ms, and 8 ms with gaps
 */

#define WAKE_NS			4000u
#define WALK_NS			(2 * WAITERS * WAKE_NS)

/* Wait until the slow waiters of other cases do not count any more. */
static void forget_slow_waiters(struct kunit *test)
{
	htw_test_sleep_until(test, htw_now() + HTW_SLOW_NS);
}

/* Waking goes on for as long as a run may take; then the CPU is left alone. */
static void waiters_are_woken_in_runs(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, WAKE_NS);
	u32 group = 1, groups = 1;

	forget_slow_waiters(test);
	htw_test_start(test, ctx, 0, 1);
	htw_test_sleep_until(test, htw_now() + 2 * WALK_NS);
	KUNIT_ASSERT_EQ(test, all->calls, WAITERS);
	for (u32 i = 1; i < WAITERS; i++) {
		u64 apart = all->waiter[i].last - all->waiter[i - 1].last;

		/* Waiters are woken in order, with gaps. */
		KUNIT_ASSERT_GT(test, all->waiter[i].last, all->waiter[i - 1].last);
		if (apart < HTW_RUN_NS) {
			KUNIT_ASSERT_LT(test, apart, 2 * WAKE_NS);
			KUNIT_ASSERT_LE(test, ++group * WAKE_NS, HTW_RUN_NS + 30000);
			continue;
		}
		group = 1;
		groups++;
	}
	KUNIT_EXPECT_GE(test, groups, WAITERS * WAKE_NS / (HTW_RUN_NS + 30000));
}

/* One that stands for many others cannot be divided, but the next one is left to another run. */
static void slow_waiters_are_woken_one_in_a_run(struct kunit *test)
{
	const u64 slow_ns = 500 * NSEC_PER_USEC;
	struct htw_context *ctx = htw_test_context(test);
	struct htw_flow *flow = per_cpu_ptr(htw_bases_flows(&ctx->user->bases), 0);
	struct waiters *all = waiters_make(test, ctx, 10, 0, slow_ns);
	u64 spent = flow->spent;

	htw_test_start(test, ctx, 0, 1);
	htw_test_sleep_until(test, htw_now() + 60 * slow_ns);
	KUNIT_ASSERT_EQ(test, all->calls, 10);
	for (u32 i = 1; i < 10; i++)
		KUNIT_EXPECT_GE(test, all->waiter[i].last - all->waiter[i - 1].last,
				slow_ns + HTW_WAKE_GAP_NS);
	/* And half of the CPU is left to others all the same. */
	KUNIT_EXPECT_GE(test, all->waiter[9].last - all->waiter[0].last,
			9 * 2 * slow_ns - HTW_RUN_NS);
	/* Nothing is taken for a stall. */
	KUNIT_EXPECT_GE(test, flow->spent - spent, 10 * slow_ns);
	KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_SLOW);
}

/* As if others had used up what is forgiven, for a second and more. */
static void forgive_no_more(struct htw_pacer *p)
{
	p->forgiven.ns = NSEC_PER_SEC;
	p->forgiven.at = htw_now();
}

/* Have all waiters woken once, which takes @ns for each. */
static void wake_all(struct kunit *test, struct waiters *all, u64 ns)
{
	all->ns = ns;
	htw_test_start(test, all->ctx, 0, 1);
	/* Longer than slow waiters ever wait. */
	htw_test_sleep_until(test, htw_now() + 50 * NSEC_PER_MSEC);
}

/* With a hypervisor a wake-up can take long that is quick. A user is judged by the second. */
static void one_long_wake_is_forgiven(struct kunit *test)
{
	const u64 slow_ns = 500 * NSEC_PER_USEC;
	struct htw_context *ctx = htw_test_context(test);
	struct htw_flow *flow = per_cpu_ptr(htw_bases_flows(&ctx->user->bases), 0);
	struct waiters *all = waiters_make(test, ctx, 1, 0, 0);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, 0);
	u32 i;

	forget_slow_waiters(test);
	for (i = 0; i < 3; i++) {
		wake_all(test, all, 0);
		KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_QUICK);
		wake_all(test, all, slow_ns);
		KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_DOUBTED);
		KUNIT_EXPECT_LE(test, flow->slow_until, htw_now());
	}
	wake_all(test, all, slow_ns);
	KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_SLOW);
	/* For ten seconds. */
	KUNIT_EXPECT_GT(test, flow->slow_until, htw_now() + 9 * (u64)NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, flow->slow_until, htw_now() + 10 * (u64)NSEC_PER_SEC);

	/* All together only for some time. */
	wake_all(test, all, 0);
	KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_QUICK);
	forget_slow_waiters(test);
	forgive_no_more(p);
	wake_all(test, all, slow_ns);
	KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_SLOW);
	/* It is given back with time. */
	wake_all(test, all, 0);
	forget_slow_waiters(test);
	forget_slow_waiters(test);
	wake_all(test, all, slow_ns);
	KUNIT_EXPECT_EQ(test, ctx->wake_pace, HTW_WAKE_DOUBTED);
	KUNIT_EXPECT_EQ(test, all->calls, 11);
}

/* One that goes on all the same is slow, and others are forgiven as before. */
static void users_do_not_live_on_forgiving(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_context *other = htw_test_context_of(test, 54324);
	struct waiters *all = waiters_make(test, ctx, 1, 0, 0);
	struct waiters *others = waiters_make(test, other, 1, 0, 0);
	u32 forgiven;

	forget_slow_waiters(test);
	wake_all(test, others, 0);
	for (forgiven = 0; forgiven < 20; forgiven++) {
		wake_all(test, all, 0);
		wake_all(test, all, 6 * NSEC_PER_MSEC);
		if (ctx->wake_pace == HTW_WAKE_SLOW)
			break;
	}
	KUNIT_EXPECT_LE(test, forgiven, 8);
	wake_all(test, others, NSEC_PER_MSEC / 2);
	KUNIT_EXPECT_EQ(test, other->wake_pace, HTW_WAKE_DOUBTED);
}

/* A walk that waits for its turn does not prove slow again and again. */
static void only_waking_proves_slow(struct kunit *test)
{
	const u64 slow_ns = 500 * NSEC_PER_USEC;
	struct htw_context *ctx = htw_test_context(test);
	struct htw_flow *flow = per_cpu_ptr(htw_bases_flows(&ctx->user->bases), 0);
	struct waiters *all = waiters_make(test, ctx, 5, 0, slow_ns);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, 0);
	u64 slow_until;
	u32 calls;

	forget_slow_waiters(test);
	forgive_no_more(p);
	htw_test_start(test, ctx, 0, 1);
	for (u32 i = 0; i < 100 && !all->calls; i++)
		htw_test_sleep_until(test, htw_now() + slow_ns / 5);
	/* For so long none is woken that may be slow. */
	p->owed_wake_ns = 40 * NSEC_PER_MSEC;
	calls = all->calls;
	slow_until = flow->slow_until;
	KUNIT_ASSERT_GT(test, calls, 0);
	KUNIT_ASSERT_LT(test, calls, 5);
	htw_test_sleep_until(test, htw_now() + 5 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, all->calls, calls);
	KUNIT_EXPECT_EQ(test, flow->slow_until, slow_until);
	p->owed_wake_ns = 0;
	forget_slow_waiters(test);
}

/* A walk that a preempted task began is continued by the next delivery. */
static void walk_is_continued_by_whoever_comes(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, 3, 0, 0);

	/* As if a task had been preempted after it woke the first. */
	spin_lock_irq(&ctx->wait.lock);
	list_add(&ctx->wake_mark.entry, &all->waiter[0].wait.entry);
	spin_unlock_irq(&ctx->wait.lock);
	htw_test_start(test, ctx, 0, 1);
	htw_test_sleep_until(test, htw_now() + WALK_NS);
	for (u32 i = 0; i < 3; i++)
		KUNIT_EXPECT_GE_MSG(test, all->waiter[i].woken, 1, "waiter %u", i);
	KUNIT_EXPECT_TRUE(test, list_empty(&ctx->wake_mark.entry));
}

/* Waiters that had been woken already are woken again. */
static void expiration_in_a_walk_wakes_up_all_again(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, WAKE_NS);
	u64 second;

	forget_slow_waiters(test);
	htw_test_start(test, ctx, 0, 1);
	htw_test_sleep_until(test, htw_now() + WALK_NS / 2);
	KUNIT_ASSERT_GT(test, all->calls, WAITERS / 4);
	KUNIT_ASSERT_LT(test, all->calls, WAITERS * 3 / 4);
	second = htw_now();
	htw_test_start(test, ctx, 0, 2);
	htw_test_sleep_until(test, htw_now() + 3 * WALK_NS);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 2);
	for (u32 i = 0; i < WAITERS; i++) {
		KUNIT_EXPECT_GT_MSG(test, all->waiter[i].last, second, "waiter %u", i);
		KUNIT_EXPECT_LE(test, all->waiter[i].woken, 2);
	}
	KUNIT_EXPECT_TRUE(test, list_empty(&ctx->wake_mark.entry));
}

/* A walk that ends at a waiter that it wakes alone starts over as well. */
static void expiration_in_a_walk_wakes_another_one_alone(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *alone = waiters_make(test, ctx, 10, WQ_FLAG_EXCLUSIVE, 0);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, WAKE_NS);

	forget_slow_waiters(test);
	htw_test_start(test, ctx, 0, 1);
	htw_test_sleep_until(test, htw_now() + WALK_NS / 2);
	KUNIT_ASSERT_GT(test, all->calls, WAITERS / 4);
	KUNIT_ASSERT_EQ(test, alone->calls, 0);
	htw_test_start(test, ctx, 0, 2);
	htw_test_sleep_until(test, htw_now() + 3 * WALK_NS);
	KUNIT_EXPECT_EQ(test, alone->calls, 2);
}

/* The walk reaches the last waiters, however fast expirations follow each other. */
static void expirations_do_not_starve_the_last_waiters(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, WAKE_NS);
	u64 began;

	forget_slow_waiters(test);
	began = htw_now();
	for (u32 i = 0; htw_now() < began + 3 * WALK_NS; i++) {
		htw_test_start(test, ctx, 0, i);
		htw_test_sleep_until(test, htw_now() + 300 * NSEC_PER_USEC);
	}
	for (u32 i = 0; i < WAITERS; i++)
		KUNIT_EXPECT_GE_MSG(test, all->waiter[i].woken, 2, "waiter %u", i);
	htw_test_sleep_until(test, htw_now() + 2 * WALK_NS);
}

/* The work is charged to the context's user and waits when the share is used up. */
static void walk_is_charged_to_the_user(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context_of(test, 54322);
	struct htw_flow *flow = per_cpu_ptr(htw_bases_flows(&ctx->user->bases), 0);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, WAKE_NS);
	const u64 spent = flow->spent;

	htw_test_start(test, ctx, 0, 1);
	htw_test_sleep_until(test, htw_now() + 2 * WALK_NS);
	KUNIT_EXPECT_EQ(test, all->calls, WAITERS);
	KUNIT_EXPECT_GE(test, flow->spent - spent, WAITERS * WAKE_NS);
	for (u32 i = 0; i < 100; i++) {
		htw_test_start(test, ctx, 0, 1);
		htw_test_sleep_until(test, htw_now() + WALK_NS);
	}
	KUNIT_EXPECT_GT(test, flow->throttles, 0);
	/* A quarter of the time, after an initial 50 ms. */
	KUNIT_EXPECT_LE(test, (u64)all->calls * WAKE_NS,
			102 * (u64)WALK_NS / 4 + 55 * NSEC_PER_MSEC);
}

/*
 * The task that moves a manual clock wakes a slow waiter once. After that the pacer does, which
 * leaves the CPU alone in between: the task would come with the next expiration at once.
 */
static void advance_leaves_slow_waiters_to_the_pacer(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	const u64 slow_ns = 500 * NSEC_PER_USEC;
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all;
	u64 expired = 0;
	u32 calls;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	all = waiters_make(test, ctx, 3, 0, slow_ns);
	for (u32 i = 1; i <= 10; i++) {
		htw_test_start(test, ctx, i * htw_tick_ns, i);
		/* Without a softirq in between, which would wake them as well. */
		local_bh_disable();
		calls = all->calls;
		htw_delivery_advance(ctx->private_base, i * htw_tick_ns, &expired);
		KUNIT_EXPECT_EQ(test, all->calls - calls, i == 1);
		local_bh_enable();
		/* In every other round before the walk has come to its end. */
		htw_test_sleep_until(test, htw_now() + (i % 2 ? 1 : 20) * slow_ns);
	}
	KUNIT_EXPECT_EQ(test, expired, 10);
	for (u32 i = 0; i < 3; i++)
		KUNIT_EXPECT_GE_MSG(test, all->waiter[i].woken, 6, "waiter %u", i);
}

/* The task wakes waiters for 20 us, and leaves the others to the pacer. */
static void advance_wakes_for_a_while(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all;
	u64 expired = 0;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	all = waiters_make(test, ctx, 10, 0, 5 * NSEC_PER_USEC);
	htw_test_start(test, ctx, htw_tick_ns, 1);
	local_bh_disable();
	htw_delivery_advance(ctx->private_base, htw_tick_ns, &expired);
	KUNIT_EXPECT_EQ(test, all->calls, 4);
	local_bh_enable();
	wait_for_calls(test, all, 10);
}

/* Longest time for which a user with little to do waits for others. */
#define LATE_NS			(2 * NSEC_PER_MSEC)

/*
 * A task that wakes its own waiters all the time delays others' wake-ups, but does not keep them
 * from ever coming: not even of a context of which nothing is known yet.
 */
static void tasks_that_wake_do_not_starve_others(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_context *ctx = htw_test_context(test);
	struct htw_context *other;
	struct waiters *all, *others;
	u64 began, expired = 0;
	u32 i = 0;

	forget_slow_waiters(test);
	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	/* None is slow, but all together take longer than one is to take. */
	all = waiters_make(test, ctx, 3, 0, 15 * NSEC_PER_USEC);
	for (began = htw_now(); htw_now() < began + 100 * NSEC_PER_MSEC;) {
		i++;
		htw_test_start(test, ctx, i * htw_tick_ns, i);
		htw_delivery_advance(ctx->private_base, i * htw_tick_ns, &expired);
	}
	KUNIT_EXPECT_GT(test, all->calls, 1000);

	other = htw_test_context_of(test, 54323);
	others = waiters_make(test, other, 1, 0, 0);
	began = htw_now();
	htw_test_start(test, other, 0, 1);
	while (htw_now() < began + 100 * NSEC_PER_MSEC) {
		i++;
		htw_test_start(test, ctx, i * htw_tick_ns, i);
		htw_delivery_advance(ctx->private_base, i * htw_tick_ns, &expired);
	}
	KUNIT_ASSERT_EQ(test, others->calls, 1);
	KUNIT_EXPECT_LE(test, others->waiter[0].last - began, LATE_NS);
}
#endif /* CONFIG_UML_TIME_TRAVEL_SUPPORT */

#ifdef CONFIG_SMP
static long start_now(void *ctx)
{
	const struct htw_add add = {};

	return htw_test_add(ctx, &add) ? 0 : -ENOMEM;
}

KUNIT_DEFINE_ACTION_WRAPPER(bring_back, add_cpu, unsigned long);

/* When the CPU whose pacer continues the walk goes offline, another CPU's pacer goes on. */
static void walk_survives_its_cpu(struct kunit *test)
{
	const unsigned int cpu = cpumask_last(cpu_online_mask);
	struct htw_context *ctx = htw_test_context(test);
	struct waiters *all = waiters_make(test, ctx, WAITERS, 0, 500 * NSEC_PER_USEC);

	KUNIT_ASSERT_GT(test, cpu, 0);
	KUNIT_ASSERT_EQ(test, work_on_cpu(cpu, start_now, ctx), 0);
	wait_for_calls(test, all, 1);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, bring_back, (void *)(unsigned long)cpu), 0);
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
	KUNIT_EXPECT_LT_MSG(test, READ_ONCE(all->calls), WAITERS, "the CPU took too long to go");
	wait_for_calls(test, all, WAITERS);
	KUNIT_EXPECT_NE(test, ctx->wake_job.pacer->cpu, cpu);
}
#endif /* CONFIG_SMP */

static struct kunit_case htw_wake_cases[] = {
	KUNIT_CASE(each_waiter_is_woken_once),
	KUNIT_CASE(exclusive_waiters_are_woken_one_by_one),
	KUNIT_CASE(exclusive_waiters_pass_on_what_they_leave),
	KUNIT_CASE(only_those_behind_are_woken),
	KUNIT_CASE(idle_waiters_are_passed_over),
	KUNIT_CASE(only_exclusive_waiters_are_woken_again),
	KUNIT_CASE_SLOW(context_is_closed_in_the_middle_of_a_walk),
	KUNIT_CASE(one_reader_is_woken),
	KUNIT_CASE(reader_passes_on_what_it_leaves),
	KUNIT_CASE(readers_that_are_awake_are_passed_over),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(failing_waiter_ends_the_walk),
	KUNIT_CASE(mark_is_no_waiter),
	KUNIT_CASE(closing_context_wakes_no_one),
	KUNIT_CASE(waiters_are_woken_in_runs),
	KUNIT_CASE(slow_waiters_are_woken_one_in_a_run),
	KUNIT_CASE(one_long_wake_is_forgiven),
	KUNIT_CASE(users_do_not_live_on_forgiving),
	KUNIT_CASE(only_waking_proves_slow),
	KUNIT_CASE(walk_is_continued_by_whoever_comes),
	KUNIT_CASE(expiration_in_a_walk_wakes_up_all_again),
	KUNIT_CASE(expiration_in_a_walk_wakes_another_one_alone),
	KUNIT_CASE(expirations_do_not_starve_the_last_waiters),
	KUNIT_CASE(walk_is_charged_to_the_user),
	KUNIT_CASE(advance_leaves_slow_waiters_to_the_pacer),
	KUNIT_CASE(advance_wakes_for_a_while),
	KUNIT_CASE(tasks_that_wake_do_not_starve_others),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE_SLOW(walk_survives_its_cpu),
#endif
	{}
};

static struct kunit_suite htw_wake_suite = {
	.name = "htw_wake",
	.init = htw_test_init,
	.test_cases = htw_wake_cases,
};

kunit_test_suite(htw_wake_suite);

MODULE_DESCRIPTION("KUnit: waking tasks that wait for events");
MODULE_LICENSE("GPL");
