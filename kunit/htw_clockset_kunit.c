// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: timers that expire when CLOCK_REALTIME is set
 *
 * The cases set the kernel's clock and set it back afterwards. With time travel no time
 * passes meanwhile, so it can be set several times before the work runs.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/pvclock_gtod.h>
#include <linux/sched/task.h>
#include <linux/timekeeping.h>

#include "../core/clock_sets.h"
#include "../core/cancel_on_set.h"
#include "../core/table_enable.h"
#include "htw_kunit.h"

#define HOUR			(3600 * (u64)NSEC_PER_SEC)

/* Accurate to some ns, which is enough for all cases. */
static void set_by(s64 ns)
{
	struct timespec64 ts = ns_to_timespec64(ktime_get_real_ns() + ns);

	WARN_ON_ONCE(do_settimeofday64(&ts));
}

static struct htw_context *realtime_context(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
	struct htw_context *ctx = htw_test_context(test);

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	KUNIT_ASSERT_TRUE(test, htw_context_listens(ctx));
	return ctx;
}

static u64 start_cancel_on_set(struct htw_context *ctx, u64 deadline, u64 interval, u32 firings)
{
	const struct htw_add add = {
		.flags = HTW_F_CANCEL_ON_SET,
		.deadline = deadline,
		.interval = interval,
		.firings = firings,
		.cookie = 7,
	};

	return htw_test_add(ctx, &add);
}

/* Wait until a walk for the present count has ended. */
static void wait_for_walk(struct kunit *test, struct htw_context *ctx)
{
	for (unsigned int i = 0; READ_ONCE(ctx->sets_seen) != htw_clock_sets_count(); i++) {
		KUNIT_ASSERT_LT(test, i, 100 * HZ);
		schedule_timeout_uninterruptible(1);
	}
}

static void listens_on_realtime_only(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_BOOTTIME };
	struct htw_context *monotonic = htw_test_context(test);
	struct htw_context *boottime = htw_test_context(test);

	KUNIT_EXPECT_FALSE(test, htw_context_listens(monotonic));
	KUNIT_ASSERT_EQ(test, htw_setup_context(boottime, &setup), 0);
	KUNIT_EXPECT_FALSE(test, htw_context_listens(boottime));
	KUNIT_EXPECT_TRUE(test, htw_context_listens(realtime_context(test)));
}

static void told_when_the_clock_is_set(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	const struct htw_add plain = { .deadline = 1000 * HOUR, .cookie = 8 };
	struct htw_event events[2];

	for (unsigned int i = 0; i < 4; i++) {
		const s64 by = i % 2 ? -(s64)HOUR : HOUR;
		const u64 id = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);
		u64 set;

		KUNIT_ASSERT_NE(test, htw_test_add(ctx, &plain), 0);
		set = ktime_get_real_ns() + by;
		set_by(by);
		htw_test_wait(test, ctx, 1);
		KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 2), 1);
		KUNIT_EXPECT_EQ(test, events[0].id, id);
		KUNIT_EXPECT_EQ(test, events[0].flags, HTW_EVENT_CLOCK_SET);
		KUNIT_EXPECT_LT(test, events[0].fired, events[0].deadline);
		KUNIT_EXPECT_GE(test, events[0].fired, set);
		KUNIT_EXPECT_LE(test, events[0].fired, ktime_get_real_ns());
		KUNIT_EXPECT_EQ(test, ctx->nr_timers, i + 1);
	}
}

/* Events that were queued before are read before. */
static void told_behind_what_has_expired(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	const struct htw_add plain = { .cookie = 8 };
	struct htw_event events[3];
	u64 id[3];

	id[2] = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);
	for (u32 i = 0; i < 2; i++) {
		id[i] = htw_test_add(ctx, &plain);
		htw_test_wait(test, ctx, i + 1);
	}
	set_by(HOUR);
	htw_test_wait(test, ctx, 3);
	set_by(-(s64)HOUR);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 3), 3);
	for (u32 i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, events[i].id, id[i]);
	KUNIT_EXPECT_EQ(test, events[2].flags, HTW_EVENT_CLOCK_SET);
	KUNIT_EXPECT_GE(test, events[2].fired, events[1].fired);
}

/* All of a context's timers are, in whichever page. */
static void each_timer_is_told(struct kunit *test)
{
	const u32 count = 2 * HTW_PAGE_TIMERS + 1;
	struct htw_event *events = htw_test_array(test, count + 1, sizeof(*events));
	struct htw_context *ctx = realtime_context(test);

	for (u32 i = 0; i < count; i++)
		KUNIT_ASSERT_NE(test, start_cancel_on_set(ctx, 1000 * HOUR, 0, 0), 0);
	set_by(HOUR);
	wait_for_walk(test, ctx);
	set_by(-(s64)HOUR);
	KUNIT_EXPECT_EQ(test, htw_test_read(ctx, events, count + 1), count);
}

/* Of what was before a timer was armed, up to three times since the last look for timers. */
static void not_told_of_what_was_before(struct kunit *test)
{
	for (u32 times = 1; times <= 3; times++) {
		struct htw_context *ctx = realtime_context(test);
		u64 id;

		wait_for_walk(test, ctx);
		for (u32 i = 0; i < times; i++)
			set_by(i % 2 ? -(s64)HOUR : HOUR);
		id = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);
		KUNIT_ASSERT_NE(test, id, 0);
		wait_for_walk(test, ctx);
		flush_workqueue(htw_wq);
		KUNIT_EXPECT_EQ_MSG(test, ctx->nr_expired, 0, "%u times", times);
		set_by(times % 2 ? -(s64)HOUR : 0);
	}
}

static int ignore_update(struct notifier_block *nb, unsigned long was_set, void *data)
{
	return NOTIFY_DONE;
}

/* Registering a notifier calls all of them as if the clock was set. */
static void not_told_of_what_is_no_setting(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	struct notifier_block nb = { .notifier_call = ignore_update };
	const u32 sets = htw_clock_sets_count();

	KUNIT_ASSERT_NE(test, start_cancel_on_set(ctx, 1000 * HOUR, 0, 0), 0);
	pvclock_gtod_register_notifier(&nb);
	pvclock_gtod_unregister_notifier(&nb);
	KUNIT_EXPECT_EQ(test, htw_clock_sets_count(), sets);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
}

static void times_desc(const int *times, char *desc)
{
	sprintf(desc, "set %d times", *times);
}

static const int times[] = { 1, 2, 3, 4, 5, 8, 9, 16 };
KUNIT_ARRAY_PARAM(times, times, times_desc);

/* A timer has two bits of the count; it expires even if these wrap around. */
static void told_however_often_it_was_set(struct kunit *test)
{
	const int n = *(const int *)test->param_value;
	struct htw_context *ctx = realtime_context(test);
	const u32 sets = htw_clock_sets_count();
	struct htw_event events[2];
	u64 id = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);

	for (int i = 0; i < n; i++)
		set_by(i % 2 ? -(s64)HOUR : HOUR);
	KUNIT_EXPECT_EQ(test, htw_clock_sets_count() - sets, n);
	htw_test_wait(test, ctx, 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 2), 1);
	KUNIT_EXPECT_EQ(test, events[0].id, id);
	KUNIT_EXPECT_EQ(test, events[0].flags, HTW_EVENT_CLOCK_SET);
	/* A timer that is started now expires only when the clock is set again. */
	wait_for_walk(test, ctx);
	id = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	set_by(n % 2 ? -(s64)HOUR : 1000);
	htw_test_wait(test, ctx, 1);
	wait_for_walk(test, ctx);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 2), 1);
	KUNIT_EXPECT_EQ(test, events[0].id, id);
}

/*
 * An expiration of a periodic timer before its deadline, because the clock was set, does not
 * count as one of its firings, and no firing is lost.
 */
static void firings_count_though_the_clock_is_set(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	const u64 interval = HOUR;
	struct htw_event event = { .flags = HTW_EVENT_MORE };
	struct rnd_state rnd;
	u32 firings = 0, written = 0;
	s64 off = 0;
	u64 due;

	prandom_seed_state(&rnd, 3);
	KUNIT_ASSERT_NE(test, start_cancel_on_set(ctx, HOUR, interval, 100), 0);
	do {
		const s64 by = (s64)(prandom_u32_state(&rnd) % 5) * HOUR - HOUR;

		set_by(by);
		off += by;
		htw_test_wait(test, ctx, by ? 1 : 0);
		if (!htw_test_read(ctx, &event, 1))
			continue;
		written += !!(event.flags & HTW_EVENT_CLOCK_SET);
		if (!firings)
			due = event.deadline - firings * interval;
		KUNIT_ASSERT_EQ(test, event.deadline, due + firings * interval);
		firings += event.missed + (event.fired >= event.deadline);
	} while (event.flags & HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, firings, 100);
	KUNIT_EXPECT_GT(test, written, 10);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	set_by(-off);
}

/* Unless the table disarms it: then nothing is left of its deadline to be told. */
static void not_told_of_what_is_disarmed(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	const u64 id = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);
	const u64 other = start_cancel_on_set(ctx, 1000 * HOUR, 0, 0);
	const struct htw_timer *t = htw_test_slot(ctx, id);
	struct htw_event event;

	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	htw_timer_page(t)->table[htw_timer_index(t)] = HTW_DISARMED;
	set_by(HOUR);
	htw_test_wait(test, ctx, 1);
	wait_for_walk(test, ctx);
	set_by(-(s64)HOUR);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.id, other);
	wait_for_walk(test, ctx);
	KUNIT_EXPECT_EQ(test, htw_test_read(ctx, &event, 1), 0);
}

/* An event that says so is not taken back by HTW_MOD_UNREAD: it stands. */
static void told_though_the_event_before_is_taken_back(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	const u64 id = start_cancel_on_set(ctx, 0, 1000 * HOUR, 0);
	const struct htw_timer *t = htw_test_slot(ctx, id);
	struct htw_mod unread = { .id = id, .flags = HTW_MOD_UNREAD };
	struct htw_event event;

	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	htw_test_wait(test, ctx, 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	unread.deadline = event.deadline;
	unread.firings = event.missed + 1;
	set_by(HOUR);
	htw_test_wait(test, ctx, 1);
	htw_timer_page(t)->table[htw_timer_index(t)] = event.deadline + 2000 * HOUR;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), -EALREADY);
	set_by(-(s64)HOUR);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE);
}

/*
 * If the clock was set before HTW_MOD_UNREAD puts the timer off, it would have expired then, had
 * its entry been there in time: it does so now.
 */
static void told_when_an_event_is_taken_back(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	const u64 id = start_cancel_on_set(ctx, 0, 0, 0);
	const struct htw_timer *t = htw_test_slot(ctx, id);
	struct htw_mod unread = { .id = id, .firings = 1, .flags = HTW_MOD_UNREAD };
	struct htw_event event;
	u64 later;

	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	htw_test_wait(test, ctx, 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
	unread.deadline = event.deadline;
	set_by(HOUR);
	wait_for_walk(test, ctx);
	later = event.deadline + 2000 * HOUR;
	htw_timer_page(t)->table[htw_timer_index(t)] = later;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), 0);
	htw_test_wait(test, ctx, 1);
	set_by(-(s64)HOUR);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, event.deadline, later);
	KUNIT_EXPECT_LT(test, event.fired, later);
}

/* A program that maps a ring is told there that events are queued. */
static void told_by_the_ring(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_RING, .clock = CLOCK_REALTIME,
		.ring_entries = 8,
	};
	struct htw_context *ctx = htw_test_context(test);

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	htw_reader_map_ring(ctx);
	KUNIT_ASSERT_NE(test, start_cancel_on_set(ctx, 1000 * HOUR, 0, 0), 0);
	set_by(HOUR);
	htw_test_wait(test, ctx, 1);
	KUNIT_EXPECT_NE(test, READ_ONCE(ctx->ring->header->flags) & HTW_RING_OVERFLOW, 0);
	KUNIT_EXPECT_EQ(test, htw_reader_flush(ctx), 1);
	KUNIT_EXPECT_EQ(test, ctx->ring->events[0].flags, HTW_EVENT_CLOCK_SET);
	set_by(-(s64)HOUR);
	htw_reader_unmap_ring(ctx);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* All of them, though a turn wants the base, so that each has a section of its own. */
static void told_in_sections(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	struct htw_base *base;

	for (u32 i = 0; i < 5; i++)
		KUNIT_ASSERT_NE(test, start_cancel_on_set(ctx, 1000 * HOUR, 0, 0), 0);
	base = htw_bases_on(ctx->bases, 0);
	WRITE_ONCE(base->wanted_at, jiffies + 1000 * HZ);
	WRITE_ONCE(base->wanted, true);
	set_by(HOUR);
	htw_test_wait(test, ctx, 5);
	WRITE_ONCE(base->wanted, false);
	set_by(-(s64)HOUR);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 5);
}
#endif

#ifdef CONFIG_SMP
static int setter_thread(void *data)
{
	u32 *sets = data;

	while (!kthread_should_stop()) {
		set_by(*sets % 2 ? -(s64)HOUR : HOUR);
		++*sets;
		cond_resched();
	}
	if (*sets % 2)
		set_by(-(s64)HOUR);
	return 0;
}

/*
 * Timers start, move, expire and are cancelled while another CPU sets the clock: each id ends
 * exactly once.
 */
static void set_races_with_everything(struct kunit *test)
{
	struct htw_context *ctx = realtime_context(test);
	u32 sets = 0, cancelled = 0, read = 0, written = 0, n;
	struct task_struct *task = kthread_create(setter_thread, &sets, "htw_kunit_set");
	struct htw_event events[16];
	struct rnd_state rnd;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	get_task_struct(task);
	wake_up_process(task);
	prandom_seed_state(&rnd, 9);
	for (u32 i = 0; i < HTW_TEST_MANY; i++) {
		const u32 random = prandom_u32_state(&rnd);
		const u64 id = start_cancel_on_set(ctx, random % 4 ? 1000 * HOUR :
							     random % NSEC_PER_MSEC, 0, 0);
		struct htw_cancel cancel = { .id = id };
		struct htw_mod mod = {
			.id = id, .flags = HTW_MOD_DEADLINE, .deadline = 2000 * HOUR,
		};

		KUNIT_ASSERT_NE(test, id, 0);
		if (random & BIT(16))
			htw_test_mod(ctx, &mod);
		if (random & BIT(17) && random & BIT(18))
			cancelled += !htw_test_cancel(ctx, &cancel);
		if (random & BIT(19)) {
			n = htw_test_read(ctx, events, ARRAY_SIZE(events));
			for (u32 j = 0; j < n; j++)
				written += events[j].flags == HTW_EVENT_CLOCK_SET;
			read += n;
		}
		cond_resched();
	}
	kthread_stop_put(task);
	set_by(1000);
	while (read + cancelled < HTW_TEST_MANY) {
		htw_test_wait(test, ctx, 1);
		n = htw_test_read(ctx, events, ARRAY_SIZE(events));
		for (u32 j = 0; j < n; j++)
			written += events[j].flags == HTW_EVENT_CLOCK_SET;
		read += n;
	}
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	KUNIT_EXPECT_GT(test, sets, 2);
	KUNIT_EXPECT_GT(test, written, 0);
	KUNIT_EXPECT_GT(test, cancelled, 0);
	kunit_info(test, "set %u times, written %u, cancelled %u", sets, written, cancelled);
}

/* KASAN finds a walk that outlives its context. */
static void close_races_with_walk(struct kunit *test)
{
	for (unsigned int i = 0; i < 100; i++) {
		struct htw_context *ctx = realtime_context(test);

		for (unsigned int j = 0; j < 200; j++)
			KUNIT_ASSERT_NE(test, start_cancel_on_set(ctx, 1000 * HOUR, 0, 0), 0);
		set_by(i % 2 ? -(s64)HOUR : HOUR);
		kunit_release_action(test, htw_test_close, ctx);
		cond_resched();
	}
}
#endif /* CONFIG_SMP */

/*
 * Timers that are due when they are started wait for the pacer, as in the gap after a run.
 * The clock is set back meanwhile, by less than a tick or more: none expires early.
 */
static void set_back_before_what_was_due_is_delivered(struct kunit *test)
{
	static const u64 back[] = {
		100 * NSEC_PER_MSEC, 900 * NSEC_PER_MSEC, 5 * (u64)NSEC_PER_SEC,
	};
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
		.clock = CLOCK_REALTIME,
		.tick_ns = NSEC_PER_SEC, .levels = 2, .slots = { 64, 64 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(back); i++) {
		struct htw_context *ctx = htw_test_context(test);
		struct htw_event events[8];
		u64 now;

		KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
		/* Set the clock to the middle of a tick. */
		set_by(NSEC_PER_SEC / 2 - (s64)(ktime_get_real_ns() % NSEC_PER_SEC));
		spin_lock_bh(&ctx->private_base->lock);
		ctx->private_base->wheel.next = 0;
		spin_unlock_bh(&ctx->private_base->lock);
		now = ktime_get_real_ns();
		for (u32 j = 0; j < ARRAY_SIZE(events); j++) {
			const struct htw_add add = {
				.flags = HTW_F_ABS,
				.deadline = now - j * 100 * NSEC_PER_MSEC,
			};

			KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
		}
		set_by(-(s64)back[i]);
		/*
		 * A turn leaves them to their time, and has no more to do. To
		 * go back by a tick takes one of its own. On another CPU the
		 * pacer may be taking them.
		 */
		if (!IS_ENABLED(CONFIG_SMP) && back[i] > NSEC_PER_SEC / 2)
			KUNIT_EXPECT_EQ(test, htw_test_turn(ctx->private_base, 0), HTW_SERVED_MORE);
		if (!IS_ENABLED(CONFIG_SMP))
			KUNIT_EXPECT_EQ(test, htw_test_turn(ctx->private_base, 0), HTW_SERVED_DONE);
		spin_lock_bh(&ctx->private_base->lock);
		ctx->private_base->wheel.next = htw_wheel_next(&ctx->private_base->wheel);
		htw_base_reprogram(ctx->private_base);
		spin_unlock_bh(&ctx->private_base->lock);
		htw_test_wait(test, ctx, ARRAY_SIZE(events));
		KUNIT_EXPECT_EQ(test, htw_test_read(ctx, events, 8), 8);
		for (u32 j = 0; j < ARRAY_SIZE(events); j++)
			KUNIT_EXPECT_GE(test, events[j].fired, events[j].deadline);
		set_by(back[i]);
		kunit_release_action(test, htw_test_close, ctx);
	}
}

/*
 * A timer that is due when it is started takes along those whose deadlines came within the tick.
 * There are more of them than it looks at, so it waits for the tick itself. The clock is set back
 * before any is delivered, by less than a tick: none expires early.
 */
static void set_back_before_what_came_within_the_tick_is_delivered(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
		.clock = CLOCK_REALTIME,
		.tick_ns = NSEC_PER_SEC, .levels = 2, .slots = { 64, 64 },
	};
	struct htw_context *ctx = htw_test_context(test);
	const u32 count = 48;
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_add add = { .flags = HTW_F_ABS };

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	/* Set the clock to the middle of a tick. */
	set_by(NSEC_PER_SEC / 2 - (s64)(ktime_get_real_ns() % NSEC_PER_SEC));
	spin_lock_bh(&ctx->private_base->lock);
	ctx->private_base->wheel.next = 0;
	spin_unlock_bh(&ctx->private_base->lock);
	add.deadline = ktime_get_real_ns() + 200 * NSEC_PER_MSEC;
	for (u32 i = 0; i < count - 1; i++)
		KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	set_by(300 * NSEC_PER_MSEC);
	KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	KUNIT_EXPECT_FALSE(test, list_empty(&ctx->private_base->wheel.due));
	set_by(-300 * (s64)NSEC_PER_MSEC);
	spin_lock_bh(&ctx->private_base->lock);
	ctx->private_base->wheel.next = htw_wheel_next(&ctx->private_base->wheel);
	htw_base_reprogram(ctx->private_base);
	spin_unlock_bh(&ctx->private_base->lock);
	htw_test_wait(test, ctx, count);
	KUNIT_EXPECT_EQ(test, htw_test_read(ctx, events, count), count);
	for (u32 i = 0; i < count; i++)
		KUNIT_EXPECT_GE(test, events[i].fired, events[i].deadline);
}

static struct kunit_case htw_clockset_cases[] = {
	KUNIT_CASE_SLOW(set_back_before_what_was_due_is_delivered),
	KUNIT_CASE_SLOW(set_back_before_what_came_within_the_tick_is_delivered),
	KUNIT_CASE(listens_on_realtime_only),
	KUNIT_CASE(told_when_the_clock_is_set),
	KUNIT_CASE(told_behind_what_has_expired),
	KUNIT_CASE(each_timer_is_told),
	KUNIT_CASE(not_told_of_what_is_no_setting),
	KUNIT_CASE(not_told_of_what_was_before),
	KUNIT_CASE_PARAM(told_however_often_it_was_set, times_gen_params),
	KUNIT_CASE(firings_count_though_the_clock_is_set),
	KUNIT_CASE(not_told_of_what_is_disarmed),
	KUNIT_CASE(told_though_the_event_before_is_taken_back),
	KUNIT_CASE(told_when_an_event_is_taken_back),
	KUNIT_CASE(told_by_the_ring),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(told_in_sections),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE_SLOW(set_races_with_everything),
	KUNIT_CASE_SLOW(close_races_with_walk),
#endif
	{}
};

/* Without a clock that runs while it is off, a machine boots in 1970: no time to set back to. */
static int clock_can_be_set_back(struct kunit_suite *suite)
{
	const struct timespec64 year = { .tv_sec = 365 * 24 * 3600 };

	return ktime_get_real_seconds() < year.tv_sec ? do_settimeofday64(&year) : 0;
}

static struct kunit_suite htw_clockset_suite = {
	.name = "htw_clockset",
	.suite_init = clock_can_be_set_back,
	.test_cases = htw_clockset_cases,
};

kunit_test_suite(htw_clockset_suite);

MODULE_DESCRIPTION("KUnit: timers that expire when the clock is set");
MODULE_LICENSE("GPL");
