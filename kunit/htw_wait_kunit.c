// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: who is woken, by whom, and what that may take from others
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/preempt.h>

#include "../core/calls.h"
#include "htw_kunit.h"

#define US			1000ull
#define MS			1000000ull
#define SEC			1000000000ull
#define USER			6000u
#define READERS			8u

/*
 * Tasks that block in read(), on any kernel
 */

/* A thread that reads one event. */
struct reader {
	struct file *file;
	struct task_struct *task;
	struct htw_event event;
	ssize_t ret;
	u64 returned;
	bool done;
	unsigned long switches;
};

static int read_thread(void *data)
{
	struct reader *r = data;

	r->ret = htw_test_read_one(r->file, &r->event);
	r->returned = htw_now();
	/* Pairs with the acquires before @ret, @event and @returned are read. */
	smp_store_release(&r->done, true);
	return 0;
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

static bool reader_is_blocked(struct reader *r)
{
	if (!r->switches)
		r->switches = wait_task_inactive(r->task, TASK_INTERRUPTIBLE);
	return r->switches;
}

/* Start threads that each read one event, and wait until all are blocked. */
static struct reader *readers_make(struct htw_test_file *f)
{
	struct reader *readers = htw_test_array(f->test, READERS, sizeof(*readers));
	struct kunit *test = f->test;

	htw_test_set_nonblock(f, false);
	for (u32 i = 0; i < READERS; i++) {
		struct reader *r = &readers[i];

		r->file = f->file;
		r->task = kthread_create(read_thread, r, "htw_kunit_read/%u", i);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r->task);
		get_task_struct(r->task);
		wake_up_process(r->task);
	}
	for (u32 i = 0; i < READERS; i++) {
		struct reader *r = &readers[i];

		htw_test_wait_for(test, reader_is_blocked(r));
	}
	return readers;
}

/*
 * Has the read() of the event with this cookie ended later than others are left asleep? Its task
 * may have been stopped when it had the event and had not yet said so to the alarm.
 */
static bool reader_was_late(const struct reader *readers, u32 cookie, u64 due)
{
	for (u32 i = 0; i < READERS; i++) {
		/* Pairs with the reader's release. */
		if (smp_load_acquire(&readers[i].done) && readers[i].event.cookie == cookie)
			return readers[i].returned > due + 3 * MS;
	}
	return true;
}

static void readers_end(struct kunit *test, struct reader *readers)
{
	for (u32 i = 0; i < READERS; i++) {
		kthread_stop_put(readers[i].task);
		KUNIT_EXPECT_EQ(test, readers[i].ret, sizeof(struct htw_event));
	}
}

/*
 * A timer wakes one of the blocked readers and no other, by an alarm and by a call; unless that
 * one does not run for 4 ms, as may be where the machine is busy.
 */
static void one_reader_is_woken(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct reader *readers = readers_make(f);

	for (u32 i = 0; i < READERS; i++) {
		const u64 due = htw_now() + (i % 2 ? 0 : 5 * MS);

		htw_test_start(f, i % 2 ? 0 : due, i);
		htw_test_wait_for(test, readers_done(readers) == i + 1);
		msleep(20);
		for (u32 k = 0; k < READERS; k++) {
			struct reader *r = &readers[k];
			unsigned long switches;

			/* Pairs with the reader's release. */
			if (smp_load_acquire(&r->done))
				continue;
			switches = wait_task_inactive(r->task, TASK_INTERRUPTIBLE);
			if (reader_was_late(readers, i, due))
				r->switches = switches;
			KUNIT_EXPECT_EQ(test, switches, r->switches);
		}
	}
	readers_end(test, readers);
}

/* A reader that leaves something due wakes the next: each gets one of those that came at once. */
static void reader_passes_on_what_it_leaves(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct reader *readers = readers_make(f);
	const u64 deadline = htw_now() + 100 * MS;
	u32 seen = 0;

	for (u32 i = 0; i < READERS; i++)
		htw_test_start(f, deadline, i);
	htw_test_wait_for(test, readers_done(readers) == READERS);
	for (u32 i = 0; i < READERS; i++)
		seen |= BIT(readers[i].event.cookie);
	KUNIT_EXPECT_EQ(test, seen, BIT(READERS) - 1);
	readers_end(test, readers);
}

static void expiration_sends_sigio(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);

	allow_signal(SIGIO);
	KUNIT_EXPECT_EQ(test, f_setown(f->file, task_pid_nr(current), 1), 0);
	KUNIT_EXPECT_GE(test, f->file->f_op->fasync(0, f->file, 1), 0);
	for (u32 i = 0; i < 2; i++) {
		struct htw_event event;

		KUNIT_EXPECT_FALSE(test, signal_pending(current));
		htw_test_start(f, i ? 0 : htw_now() + 10 * MS, 1);
		for (u32 k = 0; k < 500 && !signal_pending(current); k++)
			msleep(20);
		KUNIT_EXPECT_TRUE(test, signal_pending(current));
		flush_signals(current);
		/* Not again for the same. */
		msleep(50);
		KUNIT_EXPECT_FALSE(test, signal_pending(current));
		KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
		KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 0);
	}
	f->file->f_op->fasync(-1, f->file, 0);
	flush_signals(current);
	disallow_signal(SIGIO);
}

/* Who waits, and does not look when woken, as if it were stopped. */
struct stopped {
	wait_queue_entry_t wait;
	u32 calls;
};

static int stopped_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct stopped *s = container_of(wait, struct stopped, wait);

	WRITE_ONCE(s->calls, s->calls + 1);
	return 1;
}

static void stopped_queue(struct htw_test_file *f, struct stopped *s)
{
	s->calls = 0;
	init_waitqueue_func_entry(&s->wait, stopped_wake);
	add_wait_queue(&f->ctx->wait, &s->wait);
}

/* A bucket that comes before somebody has moved it down: one who polls does not do it. */
static void signal_comes_beside_a_stopped_poller(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct stopped poller;
	u64 deadline;

	stopped_queue(f, &poller);
	allow_signal(SIGIO);
	KUNIT_EXPECT_EQ(test, f_setown(f->file, task_pid_nr(current), 1), 0);
	KUNIT_EXPECT_GE(test, f->file->f_op->fasync(0, f->file, 1), 0);
	deadline = htw_now() + 3 * SEC;
	for (u32 i = 0; i < 1000; i++)
		htw_test_start(f, deadline, i);
	for (u32 k = 0; k < 500 && !signal_pending(current); k++)
		msleep(20);
	KUNIT_EXPECT_TRUE(test, signal_pending(current));
	KUNIT_EXPECT_GE(test, htw_now(), deadline);
	f->file->f_op->fasync(-1, f->file, 0);
	flush_signals(current);
	disallow_signal(SIGIO);
	remove_wait_queue(&f->ctx->wait, &poller.wait);
}

/*
 * One who looks just when a timer comes due, as there was something to look at before, does
 * not keep the others from being told.
 */
static void others_are_told_of_what_one_has_seen(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL,
	};
	struct stopped poller;

	htw_test_setup(f, &setup);
	htw_test_start(f, 10 * MS, 1);
	stopped_queue(f, &poller);
	/* As HTW_ADVANCE begins. */
	WRITE_ONCE(f->ctx->manual, 10 * MS);
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL) & EPOLLIN, EPOLLIN);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, 11 * MS), 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(poller.calls), 1);
	remove_wait_queue(&f->ctx->wait, &poller.wait);
}

/* As htw_call_add_one(), until it locks the base. Return: the timer. */
static struct htw_timer *begin_add(struct htw_test_file *f, struct htw_call *c)
{
	struct htw_timer *t;
	u64 id;

	t = htw_ids_take_one(f->ctx->first, &id);
	KUNIT_ASSERT_NOT_NULL(f->test, t);
	*c = (struct htw_call){ .ctx = f->ctx, .now = htw_context_now(f->ctx) };
	return t;
}

/* An add has read the manual clock before HTW_ADVANCE, and locks the base after it. */
static void adds_beside_an_advance_are_told_of(struct kunit *test)
{
	struct htw_add_args add = { .flags = HTW_F_ABS, .deadline = 50 };
	struct htw_test_file *f = htw_test_manual(test, 1);
	struct htw_event event;
	struct stopped poller;
	struct htw_timer *t;
	struct htw_call c;

	/* The base is made. */
	htw_test_start(f, 1000 * MS, 1);
	stopped_queue(f, &poller);
	t = begin_add(f, &c);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, 100), 0);
	htw_call_lock(&c, f->ctx->first);
	htw_call_add(&c, t, &add);
	htw_call_unlock(&c);

	KUNIT_EXPECT_EQ(test, READ_ONCE(poller.calls), 1);
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL) & EPOLLIN, EPOLLIN);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	remove_wait_queue(&f->ctx->wait, &poller.wait);
}

/*
 * What has been told of ends without being read, by a harvest, a cancel, or as it is put off:
 * the next timer is told of, edge-triggered as well.
 */
static const char * const unread_ends[] = { "harvest", "cancel", "mod" };

static void get_end_desc(const char * const *end, char *desc)
{
	strscpy(desc, *end, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(unread_end, unread_ends, get_end_desc);

static void next_is_told_of_after(struct kunit *test)
{
	const char *end = *(const char * const *)test->param_value;
	struct htw_list_args list = { .count = 8, .flags = HTW_LIST_DUE };
	struct htw_mod_args mod = { .flags = HTW_MOD_DEADLINE, .deadline = 3600 * SEC };
	struct htw_test_file *f = htw_test_open(test);
	struct htw_cancel_args cancel;
	struct stopped poller;

	stopped_queue(f, &poller);
	mod.id = htw_test_start(f, htw_now() + 5 * MS, 1);
	htw_test_wait_for(test, READ_ONCE(poller.calls) == 1);
	/* As epoll looks, before it reports it. */
	KUNIT_EXPECT_EQ(test, vfs_poll(f->file, NULL) & EPOLLIN, EPOLLIN);
	list.entries = f->to;
	if (!strcmp(end, "harvest"))
		KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_HARVEST, &list), 0);
	else if (!strcmp(end, "cancel"))
		KUNIT_EXPECT_EQ(test, htw_test_cancel(f, mod.id, &cancel), 0);
	else
		KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_MOD, &mod), 0);

	htw_test_start(f, htw_now() + 5 * MS, 2);
	htw_test_sleep_until(test, htw_now() + SEC);
	KUNIT_EXPECT_EQ(test, READ_ONCE(poller.calls), 2);
	remove_wait_queue(&f->ctx->wait, &poller.wait);
}

/* A file that is closed while its alarm is set, or its waiters are about to be woken. */
static void closed_before_it_rings(struct kunit *test)
{
	for (u32 i = 0; i < 50; i++) {
		struct htw_test_file *f = htw_test_open_as(test, USER);

		htw_test_start(f, htw_now() + MS + i * 50 * US, 1);
		htw_test_sleep_until(test, htw_now() + i * 50 * US);
		htw_test_close(f);
	}
	htw_test_sleep_until(test, htw_now() + 10 * MS);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/*
 * With time travel: how long a wake-up takes is known. local_clock() counts jiffies there,
 * so long ones take several.
 */

#define LONG			(3 * NSEC_PER_SEC / HZ)

/**
 * struct waiter - one that waits, and notes its wake-ups
 * @wait: entry on a wait queue
 * @queue: that queue
 * @f: the device
 * @ns: how long waking it takes
 * @calls: number of times it was woken
 * @direct: of these in softirq
 * @first: when it was woken first
 * @last: and last
 * @spent: time that this has taken
 */
struct waiter {
	wait_queue_entry_t wait;
	wait_queue_head_t *queue;
	struct htw_test_file *f;
	u64 ns;
	u32 calls;
	u32 direct;
	u64 first;
	u64 last;
	u64 spent;
};

static int waiter_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct waiter *w = container_of(wait, struct waiter, wait);
	const u64 began = htw_now();

	if (!w->calls++)
		w->first = began;
	w->last = began;
	w->direct += !!in_serving_softirq();
	/* In no more than a thousand steps, each of which takes real time. */
	while (htw_now() < began + w->ns)
		udelay(w->ns / (1000 * US) + 1);
	w->spent += htw_now() - began;
	/* As a task that blocks in read() does: leave the queue when woken. */
	if (wait->flags & WQ_FLAG_EXCLUSIVE)
		list_del_init(&wait->entry);
	return 1;
}

static void waiter_queue(struct waiter *w)
{
	if (w->queue == &w->f->ctx->readers)
		add_wait_queue_exclusive(w->queue, &w->wait);
	else
		add_wait_queue(w->queue, &w->wait);
}

static void waiter_remove(void *data)
{
	struct waiter *w = data;

	remove_wait_queue(w->queue, &w->wait);
}

static struct waiter *waiter(struct htw_test_file *f, wait_queue_head_t *queue, u64 ns)
{
	struct waiter *w = htw_test_array(f->test, 1, sizeof(*w));

	w->queue = queue;
	w->f = f;
	w->ns = ns;
	init_waitqueue_func_entry(&w->wait, waiter_wake);
	waiter_queue(w);
	KUNIT_ASSERT_EQ(f->test, kunit_add_action_or_reset(f->test, waiter_remove, w), 0);
	return w;
}

static void take_all(struct htw_test_file *f)
{
	struct htw_event event;

	while (htw_test_take(f, &event, 1))
		;
}

/* A single poller, and a reader, are woken by the alarm itself. */
static void one_task_is_woken_directly(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER), *g = htw_test_open_as(test, USER);
	struct waiter *poller = waiter(f, &f->ctx->wait, US);
	struct waiter *reader = waiter(g, &g->ctx->readers, US);

	for (u32 i = 1; i <= 10; i++) {
		const u64 deadline = htw_tick_up(htw_now() + 10 * MS, MS) * MS;

		htw_test_start(f, deadline, 1);
		htw_test_start(g, deadline, 1);
		htw_test_sleep_until(test, deadline + MS);
		KUNIT_EXPECT_EQ(test, poller->calls, i);
		KUNIT_EXPECT_EQ(test, poller->direct, i);
		KUNIT_EXPECT_LT(test, poller->last, deadline + 20 * US);
		KUNIT_EXPECT_EQ(test, reader->calls, i);
		KUNIT_EXPECT_EQ(test, reader->direct, i);
		take_all(f);
		take_all(g);
		waiter_queue(reader);
	}
}

/* A longer queue is woken by a kernel thread, all of it. */
static void long_queues_are_woken_by_a_thread(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER);
	struct waiter *w[20];

	for (u32 i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = waiter(f, &f->ctx->wait, US);
	htw_test_start(f, htw_now() + 10 * MS, 1);
	htw_test_sleep_until(test, htw_now() + 20 * MS);
	for (u32 i = 0; i < ARRAY_SIZE(w); i++) {
		KUNIT_EXPECT_EQ(test, w[i]->calls, 1);
		KUNIT_EXPECT_EQ(test, w[i]->direct, 0);
	}
}

/* What takes long in softirq takes at most 3% of the time there, for the user as a whole. */
static void long_wake_ups_rest(struct kunit *test)
{
	struct htw_test_file *f[2];
	const u64 start = htw_now();
	struct waiter *w[2];

	for (u32 i = 0; i < 2; i++) {
		f[i] = htw_test_open_as(test, USER + 1);
		w[i] = waiter(f[i], &f[i]->ctx->wait, LONG);
	}
	while (htw_now() < start + 100 * SEC) {
		for (u32 i = 0; i < 2; i++)
			htw_test_start(f[i], htw_now() + MS, 1);
		htw_test_sleep_until(test, htw_now() + SEC / 10);
		for (u32 i = 0; i < 2; i++)
			take_all(f[i]);
	}
	KUNIT_EXPECT_GE(test, w[0]->calls, 10);
	KUNIT_EXPECT_GE(test, w[1]->calls, 10);
	KUNIT_EXPECT_GE(test, w[0]->direct + w[1]->direct, 1);
	KUNIT_EXPECT_LE(test, (w[0]->direct + w[1]->direct) * LONG, 100 * SEC * 3 / 100 + LONG);
}

/* A task that never sleeps: for others the CPU is never free. */
static int busy_thread(void *data)
{
	while (!kthread_should_stop()) {
		mdelay(1);
		cond_resched();
	}
	return 0;
}

static void busy_end(void *task)
{
	kthread_stop(task);
}

static void keep_busy(struct kunit *test)
{
	struct task_struct *task = kthread_create(busy_thread, NULL, "htw_kunit_busy");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	set_user_nice(task, MAX_NICE);
	wake_up_process(task);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, busy_end, task), 0);
}

/*
 * Wake-ups that take long take at most a 32nd of a CPU from others, also by a kernel thread,
 * and others' come meanwhile.
 */
static void costly_waiters_rest(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER + 2);
	struct htw_test_file *other = htw_test_open_as(test, USER + 3);
	struct waiter *w[3], *cheap[2];
	const u64 start = htw_now();
	u64 spent = 0, latest = 0;
	u32 fired = 0;

	keep_busy(test);
	for (u32 i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = waiter(f, &f->ctx->wait, LONG);
	for (u32 i = 0; i < ARRAY_SIZE(cheap); i++)
		cheap[i] = waiter(other, &other->ctx->wait, US);
	for (; htw_now() < start + 200 * SEC; fired++) {
		const u64 deadline = htw_tick_up(htw_now() + 2 * MS, MS) * MS;

		htw_test_start(f, deadline, 1);
		htw_test_start(other, deadline, 1);
		htw_test_sleep_until(test, deadline + SEC / 5);
		latest = max(latest, cheap[0]->last - min(cheap[0]->last, deadline));
		take_all(f);
		take_all(other);
	}
	for (u32 i = 0; i < ARRAY_SIZE(w); i++)
		spent += w[i]->spent;
	KUNIT_EXPECT_GE(test, w[0]->calls, 10);
	/* The first wake-ups are not known to be long. */
	KUNIT_EXPECT_LE(test, spent, 200 * SEC / 32 + 2 * ARRAY_SIZE(w) * LONG);
	KUNIT_EXPECT_EQ(test, cheap[0]->calls, fired);
	KUNIT_EXPECT_EQ(test, cheap[1]->calls, fired);
	/* Not later than the one wake-up that is in progress, and a turn of the other task. */
	KUNIT_EXPECT_LE(test, latest, ARRAY_SIZE(w) * LONG + NSEC_PER_SEC / HZ);
}

/*
 * The same if a wake-up that takes long and a short one take turns: what the last one took
 * says nothing of the next.
 */
static void exchanged_waiters_rest(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER + 8);
	const u64 start = htw_now();
	struct waiter *w[2];
	u32 calls = 0;

	keep_busy(test);
	for (u32 i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = waiter(f, &f->ctx->wait, US);
	while (htw_now() < start + 200 * SEC) {
		htw_test_start(f, htw_now() + MS, 1);
		htw_test_sleep_until(test, htw_now() + LONG);
		take_all(f);
		if (w[0]->calls != calls)
			w[0]->ns = w[0]->ns == US ? LONG : US;
		calls = w[0]->calls;
	}
	KUNIT_EXPECT_GE(test, calls, 10);
	/* The first two follow each other. */
	KUNIT_EXPECT_LE(test, w[0]->spent, 200 * SEC / 32 + 2 * LONG);
}

/* A user whose wake-ups take long does not wait while another one rests. */
static void rests_alone(struct kunit *test)
{
	struct htw_test_file *f[2];
	struct waiter *w[2][2];
	u64 deadline;
	u32 calls;

	keep_busy(test);
	for (u32 i = 0; i < 2; i++) {
		f[i] = htw_test_open_as(test, USER + 9 + i);
		for (u32 k = 0; k < 2; k++)
			w[i][k] = waiter(f[i], &f[i]->ctx->wait, LONG);
	}
	/* After these it is known that both take long, and only the second one rests. */
	for (u32 i = 0; i < 2; i++) {
		for (u32 round = 0; round < 4; round++) {
			htw_test_start(f[i], htw_now() + MS, 1);
			htw_test_sleep_until(test, htw_now() + 4 * LONG);
			take_all(f[i]);
			/* The first one has rested then. */
			if (!i)
				htw_test_sleep_until(test, htw_now() + 4 * SEC);
		}
		KUNIT_EXPECT_GE(test, w[i][0]->calls, 2);
	}
	KUNIT_EXPECT_LT(test, w[1][0]->calls, 4);
	calls = w[0][0]->calls;
	deadline = htw_tick_up(htw_now() + MS, MS) * MS;
	htw_test_start(f[0], deadline, 1);
	htw_test_sleep_until(test, deadline + 8 * LONG);
	KUNIT_EXPECT_EQ(test, w[0][0]->calls, calls + 1);
	KUNIT_EXPECT_LT(test, w[0][0]->last, deadline + 3 * LONG);
}

/* Of a user's clocks none waits for another one, where long wake-ups are always due on each. */
static void clocks_take_turns(struct kunit *test)
{
	static const u32 clocks[] = {
		CLOCK_MONOTONIC, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME,
	};
	const struct htw_add_args add = { .deadline = MS };
	struct htw_test_file *f[ARRAY_SIZE(clocks)];
	struct waiter *w[ARRAY_SIZE(clocks)][2];
	const u64 start = htw_now();

	keep_busy(test);
	for (u32 i = 0; i < ARRAY_SIZE(clocks); i++) {
		const struct htw_setup_args setup = {
			.flags = HTW_SETUP_CLOCK, .clock = clocks[i],
		};

		f[i] = htw_test_open_as(test, USER + 12);
		htw_test_setup(f[i], &setup);
		for (u32 k = 0; k < 2; k++)
			w[i][k] = waiter(f[i], &f[i]->ctx->wait, LONG);
		htw_test_add(f[i], &add);
	}
	for (u32 woken[ARRAY_SIZE(clocks)] = {}; htw_now() < start + 200 * SEC;) {
		for (u32 i = 0; i < ARRAY_SIZE(clocks); i++) {
			if (w[i][0]->calls == woken[i])
				continue;
			woken[i] = w[i][0]->calls;
			take_all(f[i]);
			htw_test_add(f[i], &add);
		}
		htw_test_sleep_until(test, htw_now() + LONG);
	}
	KUNIT_EXPECT_GE(test, w[0][0]->calls, 10);
	for (u32 i = 1; i < ARRAY_SIZE(clocks); i++)
		KUNIT_EXPECT_GE(test, 3 * w[i][0]->calls, w[0][0]->calls);
}

/* Where no other task wants the CPU, long wake-ups keep nobody from it, and none has to wait. */
static void nobody_rests_for_an_idle_cpu(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open_as(test, USER + 7);
	struct waiter *w[2];

	for (u32 i = 0; i < ARRAY_SIZE(w); i++)
		w[i] = waiter(f, &f->ctx->wait, LONG);
	for (u32 i = 1; i <= 20; i++) {
		const u64 deadline = htw_tick_up(htw_now() + 2 * MS, MS) * MS;

		htw_test_start(f, deadline, 1);
		htw_test_sleep_until(test, deadline + SEC / 5);
		KUNIT_EXPECT_EQ(test, w[1]->calls, i);
		take_all(f);
	}
}

/* All who wait for an instant are woken, each once, readers by the alarm. */
static void all_of_an_instant_are_woken(struct kunit *test)
{
	const u64 deadline = htw_tick_up(htw_now() + 100 * MS, MS) * MS;
	struct htw_test_file *f;
	struct waiter *w[100];

	for (u32 i = 0; i < ARRAY_SIZE(w); i++) {
		f = htw_test_open_as(test, USER + 4 + i % 2);
		w[i] = waiter(f, i % 3 ? &f->ctx->readers : &f->ctx->wait, US);
		htw_test_start(f, deadline, i);
	}
	htw_test_sleep_until(test, deadline + 10 * MS);
	for (u32 i = 0; i < ARRAY_SIZE(w); i++) {
		KUNIT_ASSERT_EQ(test, w[i]->calls, 1);
		if (i % 3)
			KUNIT_EXPECT_EQ(test, w[i]->direct, 1);
		KUNIT_EXPECT_GE(test, w[i]->first, deadline);
		KUNIT_EXPECT_LT(test, w[i]->first, deadline + 5 * MS);
	}
}

/* A user that closes its file and opens it again rests all the same. */
static void rests_over_a_close(struct kunit *test)
{
	const u64 start = htw_now();
	u64 spent = 0;
	u32 calls = 0;

	keep_busy(test);
	while (htw_now() < start + 200 * SEC) {
		struct htw_test_file *f = htw_test_open_as(test, USER + 30);
		struct waiter *w[2];

		for (u32 i = 0; i < ARRAY_SIZE(w); i++)
			w[i] = waiter(f, &f->ctx->wait, LONG);
		htw_test_start(f, htw_now() + MS, 1);
		htw_test_sleep_until(test, htw_now() + 3 * LONG);
		for (u32 i = 0; i < ARRAY_SIZE(w); i++) {
			kunit_release_action(test, waiter_remove, w[i]);
			spent += w[i]->spent;
			calls += w[i]->calls;
		}
		htw_test_close(f);
	}
	KUNIT_EXPECT_GE(test, calls, 2);
	/* The first ones are not known to be long. */
	KUNIT_EXPECT_LE(test, spent, 200 * SEC / 32 + 6 * LONG);
}

/* Closed while its waiters stand in a queue of the kernel thread's. */
static void closed_while_it_is_to_be_woken(struct kunit *test)
{
	struct htw_test_file *f[10];
	struct waiter *w[10][2];

	for (u32 i = 0; i < ARRAY_SIZE(f); i++) {
		f[i] = htw_test_open_as(test, USER + 6);
		for (u32 k = 0; k < 2; k++)
			w[i][k] = waiter(f[i], &f[i]->ctx->wait, LONG);
	}
	/* Again and again, until their user rests. */
	for (u32 round = 0; round < 5; round++) {
		for (u32 i = 0; i < ARRAY_SIZE(f); i++)
			htw_test_start(f[i], htw_now() + MS, 1);
		htw_test_sleep_until(test, htw_now() + SEC);
		for (u32 i = 0; i < ARRAY_SIZE(f); i++)
			take_all(f[i]);
	}
	for (u32 i = 0; i < ARRAY_SIZE(f); i++) {
		for (u32 k = 0; k < 2; k++)
			kunit_release_action(test, waiter_remove, w[i][k]);
		htw_test_close(f[i]);
	}
	htw_test_sleep_until(test, htw_now() + 100 * SEC);
}
#endif

static struct kunit_case htw_wait_cases[] = {
	KUNIT_CASE(one_reader_is_woken),
	KUNIT_CASE(reader_passes_on_what_it_leaves),
	KUNIT_CASE(expiration_sends_sigio),
	KUNIT_CASE_SLOW(signal_comes_beside_a_stopped_poller),
	KUNIT_CASE(others_are_told_of_what_one_has_seen),
	KUNIT_CASE(closed_before_it_rings),
	KUNIT_CASE(adds_beside_an_advance_are_told_of),
	KUNIT_CASE_PARAM(next_is_told_of_after, unread_end_gen_params),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(one_task_is_woken_directly),
	KUNIT_CASE(long_queues_are_woken_by_a_thread),
	KUNIT_CASE_SLOW(long_wake_ups_rest),
	KUNIT_CASE_SLOW(costly_waiters_rest),
	KUNIT_CASE_SLOW(exchanged_waiters_rest),
	KUNIT_CASE_SLOW(rests_alone),
	KUNIT_CASE_SLOW(clocks_take_turns),
	KUNIT_CASE(nobody_rests_for_an_idle_cpu),
	KUNIT_CASE(all_of_an_instant_are_woken),
	KUNIT_CASE_SLOW(rests_over_a_close),
	KUNIT_CASE(closed_while_it_is_to_be_woken),
#endif
	{}
};

static struct kunit_suite htw_wait_suite = {
	.name = "htw_wait",
	.test_cases = htw_wait_cases,
};

kunit_test_suite(htw_wait_suite);

MODULE_DESCRIPTION("KUnit: who is woken");
MODULE_LICENSE("GPL");
