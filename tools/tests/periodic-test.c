// SPDX-License-Identifier: GPL-2.0-only
/*
 * Periodic timers: phase, missed firings, number of firings; and kept timers
 */
#include "htw-test.h"

#define INTERVAL	(4 * MSEC)

/*
 * The deadline of firing @nth is start + nth * interval, even if the reader was
 * late.
 */
static void expect_firing(struct __test_metadata *_metadata, const struct htw_event *ev,
			  const struct htw_add_args *add, __u64 nth)
{
	EXPECT_EQ(add->id, ev->id);
	EXPECT_EQ(add->cookie, ev->cookie);
	EXPECT_EQ(add->deadline + nth * add->interval, ev->deadline);
	EXPECT_NOT_EARLY(ev);
}

HTW_TEST(keeps_its_phase)
{
	struct htw_add_args add = htw_abs(now_ns() + 3 * MSEC + 7, 1);
	struct htw_event ev;
	__u64 nth = 0;
	int i;

	add.interval = INTERVAL + 333;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		expect_firing(_metadata, &ev, &add, nth);
		EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
		nth += 1 + ev.missed;
	}
	EXPECT_EQ(1, htw_timers(self->fd));
}

HTW_TEST(relative_start)
{
	struct htw_add_args add = htw_rel(2 * MSEC, 1);
	struct htw_event ev;
	__u64 t0, t1, next;
	int i;

	add.interval = INTERVAL;
	t0 = now_ns();
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	t1 = now_ns();
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_LE(t0 + 2 * MSEC, ev.deadline);
	EXPECT_GE(t1 + 2 * MSEC, ev.deadline);
	for (i = 0; i < 10; i++) {
		next = ev.deadline + (1 + ev.missed) * INTERVAL;
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(next, ev.deadline);
		EXPECT_NOT_EARLY(&ev);
	}
}

HTW_TEST(one_tick_apart)
{
	struct htw_add_args add = htw_abs(now_ns(), 1);
	struct htw_event ev;
	__u64 nth = 0;
	int i;

	add.interval = self->tick;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		expect_firing(_metadata, &ev, &add, nth);
		nth += 1 + ev.missed;
	}
}

/* The read was after t0 and before t1, which bounds the deadlines that had passed. */
#define EXPECT_MISSED(missed, deadline, t0, t1) do {			\
	EXPECT_LE(((t0) - (deadline)) / INTERVAL, missed);		\
	EXPECT_GE(((t1) - (deadline)) / INTERVAL, missed);		\
} while (0)

HTW_TEST(counts_what_a_stalled_reader_missed)
{
	struct htw_add_args add = htw_abs(now_ns() + INTERVAL, 1);
	struct htw_event ev[2];
	__u64 t0, t1, nth = 0;
	int i;

	add.interval = INTERVAL;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 5; i++) {
		sleep_until(add.deadline + nth * INTERVAL + (10 + 10 * i) * INTERVAL +
				INTERVAL / 2);
		ASSERT_TRUE(htw_wait_readable(self->fd));
		t0 = now_ns();
		ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		t1 = now_ns();
		expect_firing(_metadata, &ev[0], &add, nth);
		EXPECT_LE(10, ev[0].missed);
		EXPECT_MISSED(ev[0].missed, ev[0].deadline, t0, t1);
		EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
		nth += 1 + ev[0].missed;
	}
}

HTW_TEST(starts_in_the_past)
{
	/* Soon after boot the clock has not passed a thousand intervals. */
	const __u64 seen = now_ns() / INTERVAL - 1;
	const __u64 back = seen < 1000 ? seen : 1000;
	struct htw_add_args add = htw_abs(now_ns() - back * INTERVAL - INTERVAL / 2, 1);
	struct htw_event ev;
	__u64 t0, t1;

	add.interval = INTERVAL;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	t0 = now_ns();
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	t1 = now_ns();
	expect_firing(_metadata, &ev, &add, 0);
	EXPECT_MISSED(ev.missed, ev.deadline, t0, t1);
	EXPECT_LE(back, ev.missed);

	/*
	 * The phase starts at the clock's zero: there is a firing for each
	 * interval since.
	 */
	EXPECT_NE(-ENOENT, htw_stop(self->fd, add.id));
	while (htw_read(self->fd, &ev, 1) == 1)
		;
	add = htw_abs(0, 2);
	add.interval = INTERVAL;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	t0 = now_ns();
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	t1 = now_ns();
	expect_firing(_metadata, &ev, &add, 0);
	EXPECT_MISSED(ev.missed, ev.deadline, t0, t1);
}

HTW_TEST(huge_interval)
{
	const __u64 intervals[] = { ~0ULL, ~0ULL >> 1, (~0ULL >> 1) + 1, 1ULL << 62 };
	struct htw_event ev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(intervals); i++) {
		struct htw_add_args add = htw_abs(now_ns() - 1, i);

		add.interval = intervals[i];
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		expect_firing(_metadata, &ev, &add, 0);
		EXPECT_EQ(0, ev.missed);
		EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
		EXPECT_TRUE(htw_quiet_for(self->fd, 10 * MSEC));
		EXPECT_EQ(0, htw_stop(self->fd, add.id));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(many_in_step)
{
	enum { COUNT = 500 };
	struct htw_event ev[64];
	__u64 nth[COUNT] = { 0 }, total = 0;
	struct htw_add_args add[COUNT];
	__u64 start = now_ns() + 10 * MSEC;
	int i, n;

	for (i = 0; i < COUNT; i++) {
		add[i] = htw_abs(start + i * 10 * USEC, i);
		add[i].interval = 50 * MSEC + i * 100 * USEC;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add[i]));
	}
	while (total < 5 * COUNT) {
		ASSERT_TRUE(htw_wait_readable(self->fd));
		n = htw_read(self->fd, ev, ARRAY_SIZE(ev));
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++) {
			ASSERT_GT(COUNT, ev[i].cookie);
			expect_firing(_metadata, &ev[i], &add[ev[i].cookie], nth[ev[i].cookie]);
			nth[ev[i].cookie] += 1 + ev[i].missed;
		}
		total += n;
	}
	EXPECT_EQ(COUNT, htw_timers(self->fd));
}

HTW_TEST(firings_limit)
{
	static const __u32 limits[] = { 1, 2, 3, 10 };
	struct htw_event ev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		struct htw_add_args add = htw_abs(now_ns() + INTERVAL, i);
		__u64 nth = 0;

		add.interval = INTERVAL;
		add.firings = limits[i];
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		while (nth < limits[i]) {
			ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
			expect_firing(_metadata, &ev, &add, nth);
			nth += 1 + ev.missed;
			EXPECT_EQ(nth < limits[i] ? HTW_EVENT_MORE : 0, ev.flags);
		}
		EXPECT_EQ(limits[i], nth);
		EXPECT_EQ(0, htw_timers(self->fd));
		EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
		EXPECT_TRUE(htw_quiet_for(self->fd, 3 * INTERVAL));
	}
}

HTW_TEST(firings_limit_all_missed)
{
	struct htw_add_args add = htw_abs(now_ns() - 100 * INTERVAL, 1);
	struct htw_event ev;

	add.interval = INTERVAL;
	add.firings = 5;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	expect_firing(_metadata, &ev, &add, 0);
	EXPECT_EQ(4, ev.missed);
	EXPECT_EQ(0, ev.flags);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
	EXPECT_TRUE(htw_quiet_for(self->fd, 3 * INTERVAL));
}

HTW_TEST(firings_limit_of_the_largest)
{
	struct htw_add_args add = htw_abs(now_ns() - 10 * INTERVAL, 1);
	struct htw_event ev;

	add.interval = INTERVAL;
	add.firings = ~0U;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_LE(10, ev.missed);
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
	EXPECT_EQ(1, htw_timers(self->fd));
}

HTW_TEST(kept_one_shot)
{
	struct htw_add_args add = htw_rel(MSEC, 77);
	struct htw_cancel_args cancel;
	struct htw_event ev;

	add.flags |= HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(add.id, ev.id);
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
	EXPECT_NOT_EARLY(&ev);
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_due(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));

	cancel = htw_cancel_of(add.id);
	EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(77, cancel.cookie);
	EXPECT_EQ(0, cancel.remaining);
	EXPECT_EQ(0, cancel.missed);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
}

HTW_TEST(kept_and_cancelled_before_it_is_read)
{
	struct htw_add_args add = htw_rel(0, 77);
	struct htw_event ev;

	add.flags |= HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
}

HTW_TEST(kept_after_its_last_firing)
{
	struct htw_add_args add = htw_abs(now_ns() - 10 * INTERVAL, 1);
	struct htw_event ev;

	add.flags |= HTW_F_KEEP;
	add.interval = INTERVAL;
	add.firings = 3;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(2, ev.missed);
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 3 * INTERVAL));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
}

/* One event for each timer, however often it fires. */
HTW_TEST(a_hundred_thousand)
{
	enum { COUNT = 100000, ROUNDS = 3 };
	struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	static struct htw_event ev[1024];
	static unsigned char nth[COUNT];
	__u64 ids[BATCH], deadlines[BATCH], cookies[BATCH];
	int i, j, n, round;

	ASSERT_EQ(0, htw_call(self->fd, HTW_SETUP, &setup));
	for (i = 0; i < COUNT; i += n) {
		n = COUNT - i < BATCH ? COUNT - i : BATCH;
		for (j = 0; j < n; j++) {
			deadlines[j] = 3 * SEC + (i + j) * 10 * USEC;
			cookies[j] = i + j;
		}
		struct htw_vector_args v = htw_vector_add(ids, deadlines, cookies, n);

		v.interval = 3 * SEC;
		v.flags = HTW_F_ABS;
		ASSERT_EQ(0, htw_vector_all(self->fd, v));
	}
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	for (round = 0; round < ROUNDS; round++) {
		struct htw_advance_args advance = { .ns = 3 * SEC + SEC * !round };
		int got = 0;

		ASSERT_EQ(0, htw_call(self->fd, HTW_ADVANCE, &advance));
		EXPECT_EQ(1, advance.due);
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0) {
			for (i = 0; i < n; i++) {
				ASSERT_GT(COUNT, ev[i].cookie);
				ASSERT_EQ(round, nth[ev[i].cookie]++);
				ASSERT_EQ((round + 1) * 3 * SEC + ev[i].cookie * 10 * USEC,
					  ev[i].deadline);
				ASSERT_EQ(0, ev[i].missed);
			}
			got += n;
		}
		EXPECT_EQ(COUNT, got);
		EXPECT_EQ(COUNT, htw_timers(self->fd));
	}
}

TEST_HARNESS_MAIN
