// SPDX-License-Identifier: GPL-2.0-only
/*
 * Expiration: never early, never lost, in order, on all levels of the wheel
 */
#include "htw-test.h"

#define MOST	4096

static struct htw_add_args adds[MOST];
static struct htw_event events[MOST];

/* Read @count events: one for each of @adds, none of them early. */
static void expect_all(struct __test_metadata *_metadata, int fd, unsigned int count)
{
	static bool seen[MOST];
	unsigned int i;

	memset(seen, 0, sizeof(seen));
	ASSERT_EQ(count, htw_collect(fd, events, count));
	for (i = 0; i < count; i++) {
		const struct htw_event *ev = &events[i];

		ASSERT_GT(count, ev->cookie);
		EXPECT_FALSE(seen[ev->cookie]);
		seen[ev->cookie] = true;
		EXPECT_EQ(adds[ev->cookie].id, ev->id);
		if (adds[ev->cookie].flags & HTW_F_ABS)
			EXPECT_EQ(adds[ev->cookie].deadline, ev->deadline);
		EXPECT_NOT_EARLY(ev);
		EXPECT_EQ(0, ev->flags);
	}
	EXPECT_EQ(-EAGAIN, htw_read(fd, events, 1));
	EXPECT_EQ(0, htw_timers(fd));
}

HTW_TEST(around_the_spans_of_the_levels)
{
	static const int around[] = { -2, -1, 0, 1, 2 };
	struct htw_info_args info = htw_info(self->fd);
	__u64 span = self->tick;
	unsigned int level, k, i, n = 0;
	int ns;

	for (level = 0; level < info.levels && span < 4 * SEC; level++) {
		for (k = 1; k <= 4 && k * span < 6 * SEC; k++)
			for (i = 0; i < ARRAY_SIZE(around); i++)
				for (ns = -1; ns <= 1; ns++) {
					__u64 after = k * span + around[i] * self->tick + ns;

					if (after > 6 * SEC)
						continue;
					adds[n] = htw_rel(after, n);
					ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[n]));
					n++;
				}
		span *= info.slots[level];
	}
	expect_all(_metadata, self->fd, n);
}

/*
 * Windows of the levels are aligned to the clock, so deadlines are placed
 * around them.
 */
HTW_TEST(around_the_windows_of_the_levels)
{
	static const int around[] = { -1, 0, 1 };
	struct htw_info_args info = htw_info(self->fd);
	__u64 start = now_ns(), span = self->tick;
	unsigned int level, k, i, n = 0;
	int ns;

	for (level = 0; level < info.levels && span < 4 * SEC; level++) {
		for (k = 1; k <= 3 && k * span < 4 * SEC; k++)
			for (i = 0; i < ARRAY_SIZE(around); i++)
				for (ns = -1; ns <= 1; ns++) {
					__u64 at = (start / span + k) * span;

					at += around[i] * self->tick + ns;
					adds[n] = htw_abs(at, n);
					ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[n]));
					n++;
				}
		span *= info.slots[level];
	}
	expect_all(_metadata, self->fd, n);
}

HTW_TEST(each_millisecond)
{
	static const unsigned int ms[] = {
		1, 2, 3, 127, 128, 129, 255, 256, 257, 258, 511, 512, 513, 767, 768, 769,
		1023, 1024, 1025, 1279, 1280, 1281, 2047, 2048, 2049, 3000, 4095, 4096,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ms); i++) {
		adds[i] = htw_rel(ms[i] * MSEC, i);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
	}
	expect_all(_metadata, self->fd, i);
}

/*
 * Different ticks in their order, equal deadlines in the order of the calls.
 * All are added before the first is due: past deadlines would expire in the
 * order of the calls.
 */
HTW_TEST(order)
{
	__u64 random = 0x2545f4914f6cdd1dULL, margin, start;
	unsigned int i;

	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup_args){ .flags = HTW_SETUP_ORDERED }));
	for (margin = 200 * MSEC; ; margin *= 2) {
		start = now_ns() + margin;
		for (i = 0; i < MOST; i++) {
			adds[i] = htw_abs(start + xorshift64(&random) % 64 * 10 * MSEC, i);
			ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
		}
		if (now_ns() < start)
			break;
		ASSERT_GE(10 * SEC, margin);
		ASSERT_EQ(MOST, htw_collect(self->fd, events, MOST));
	}
	expect_all(_metadata, self->fd, MOST);
	for (i = 1; i < MOST; i++) {
		EXPECT_LE(events[i - 1].taken, events[i].taken);
		EXPECT_LE(events[i - 1].deadline, events[i].deadline);
		if (events[i - 1].deadline == events[i].deadline)
			EXPECT_LT(events[i - 1].cookie, events[i].cookie);
	}
}

/* One timer was moved down a level, the other was added to that level. */
HTW_TEST(order_of_equals_added_far_apart)
{
	const __u64 before[] = { 1500 * MSEC, 700 * MSEC, 300 * MSEC, 100 * MSEC };
	unsigned int i;
	__u64 deadline;

	deadline = now_ns() + 2 * SEC;
	for (i = 0; i < ARRAY_SIZE(before); i++) {
		sleep_until(deadline - before[i]);
		adds[i] = htw_abs(deadline, i);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
	}
	if (now_ns() >= deadline)
		SKIP(return, "the machine was too slow");
	expect_all(_metadata, self->fd, ARRAY_SIZE(before));
	for (i = 0; i < ARRAY_SIZE(before); i++)
		EXPECT_EQ(i, events[i].cookie);
}

HTW_TEST(one_at_each_tick)
{
	unsigned int i;
	__u64 start;

	start = now_ns();
	for (i = 0; i < 2000; i++) {
		adds[i] = htw_abs(start + i * self->tick, i);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
	}
	expect_all(_metadata, self->fd, 2000);
}

/* An empty wheel has no hrtimer running: a new timer must start it. */
HTW_TEST(into_an_idle_wheel)
{
	static const unsigned int idle[] = { 0, 1, 100, 300, 600, 1100 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(idle); i++) {
		sleep_until(now_ns() + idle[i] * MSEC);
		adds[0] = htw_rel(3 * MSEC, 0);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[0]));
		expect_all(_metadata, self->fd, 1);
	}
}

/* Each timer is due before all others, so each must move the hrtimer forward. */
HTW_TEST(ever_earlier)
{
	unsigned int i;
	__u64 start;

	start = now_ns() + SEC;
	for (i = 0; i < 500; i++) {
		adds[i] = htw_abs(start - i * 2 * MSEC, i);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
	}
	expect_all(_metadata, self->fd, 500);
}

HTW_TEST(on_every_cpu)
{
	int cpu, cpus = htw_cpus();
	unsigned int i, n = 0;

	for (cpu = 0; cpu < cpus && n + 100 < MOST; cpu++) {
		ASSERT_EQ(0, htw_pin(cpu));
		for (i = 0; i < 100; i++, n++) {
			adds[n] = htw_rel((i * 7 + 1) * MSEC, n);
			ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[n]));
		}
	}
	expect_all(_metadata, self->fd, n);
}

TEST_HARNESS_MAIN
