// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU hotplug: timers of a CPU that goes offline expire once, and not early
 */
#include "htw-ring.h"

#define CPU1	"/sys/devices/system/cpu/cpu1/online"
#define COUNT	10000

static struct htw_event events[COUNT];
static unsigned char seen[COUNT];

static bool add_spread(int fd, __u64 start, __u64 spread)
{
	struct htw_op ops[BATCH];
	unsigned int i, n;

	for (i = 0; i < COUNT; i += n) {
		for (n = 0; n < BATCH && i + n < COUNT; n++)
			ops[n] = htw_op_add(start + (i + n) * (spread / COUNT), i + n);
		if (htw_batch_all(fd, ops, n))
			return false;
	}
	return htw_timers(fd) == COUNT;
}

static void expect_all(struct __test_metadata *_metadata, int fd)
{
	unsigned int i;

	memset(seen, 0, sizeof(seen));
	ASSERT_EQ(COUNT, htw_collect(fd, events, COUNT));
	for (i = 0; i < COUNT; i++) {
		ASSERT_GT(COUNT, events[i].cookie);
		ASSERT_EQ(0, seen[events[i].cookie]++);
		ASSERT_LE(events[i].deadline, events[i].fired);
	}
	EXPECT_LE(events[COUNT - 1].deadline, now_ns());
	EXPECT_EQ(0, htw_timers(fd));
}

HTW_TEST(cpu_goes_and_comes_back)
{
	__u64 spread, last;
	int round;

	if (htw_cpus() < 2 || access(CPU1, W_OK))
		SKIP(return, "no second CPU that can go offline");

	for (spread = 3 * SEC; ; spread *= 2) {
		ASSERT_EQ(0, htw_pin(1));
		last = now_ns() + spread;
		ASSERT_TRUE(add_spread(self->fd, last - spread + 20 * MSEC, spread));
		ASSERT_EQ(0, htw_pin(0));
		ASSERT_EQ(0, htw_write_file(CPU1, "0"));
		if (now_ns() + spread / 4 < last)
			break;
		/*
		 * This took so long that all timers had expired. Use a longer
		 * spread.
		 */
		expect_all(_metadata, self->fd);
		ASSERT_EQ(0, htw_write_file(CPU1, "1"));
		ASSERT_GE(30 * SEC, spread);
	}
	EXPECT_EQ(-EINVAL, htw_pin(1));
	expect_all(_metadata, self->fd);

	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, htw_write_file(CPU1, "1"));
		ASSERT_EQ(0, htw_pin(1));
		ASSERT_TRUE(add_spread(self->fd, now_ns(), SEC));
		if (round % 2) {
			expect_all(_metadata, self->fd);
			ASSERT_EQ(0, htw_pin(0));
		} else {
			ASSERT_EQ(0, htw_pin(0));
			ASSERT_EQ(0, htw_write_file(CPU1, "0"));
			expect_all(_metadata, self->fd);
		}
	}
	EXPECT_EQ(0, htw_write_file(CPU1, "1"));
}

/* Timers that were migrated are still found by their ids. */
HTW_TEST(cancel_what_a_gone_cpu_left)
{
	static __u64 ids[COUNT];

	if (htw_cpus() < 2 || access(CPU1, W_OK))
		SKIP(return, "no second CPU that can go offline");
	ASSERT_EQ(0, htw_pin(1));
	ASSERT_EQ(COUNT / 2, htw_start_many(self->fd, ~0ULL, 0, COUNT / 2, ids));
	ASSERT_EQ(COUNT / 2, htw_start_many(self->fd, now_ns() + 3600 * SEC, 0, COUNT / 2,
					    ids + COUNT / 2));
	ASSERT_EQ(0, htw_pin(0));
	ASSERT_EQ(0, htw_write_file(CPU1, "0"));
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	EXPECT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(0, htw_write_file(CPU1, "1"));
}

HTW_TEST(close_what_a_gone_cpu_left)
{
	int fd = htw_open(O_NONBLOCK);

	ASSERT_LE(0, fd);
	if (htw_cpus() < 2 || access(CPU1, W_OK))
		SKIP(return, "no second CPU that can go offline");
	ASSERT_EQ(0, htw_pin(1));
	ASSERT_TRUE(add_spread(fd, now_ns(), 2 * SEC));
	ASSERT_EQ(0, htw_pin(0));
	ASSERT_EQ(0, htw_write_file(CPU1, "0"));
	close(fd);
	EXPECT_TRUE(htw_quiet_for(self->fd, 50 * MSEC));
	EXPECT_EQ(0, htw_write_file(CPU1, "1"));
}

/*
 * Timers that delivery itself arms again, on the wheel it empties: periodic
 * timers with a ring, and timers moved through the deadline table.
 */
HTW_TEST(armed_again_on_a_cpu_that_goes)
{
	enum { TIMERS = 200, RECORDS = 20 };
	static unsigned int records[2 * TIMERS];
	static __u64 ids[2 * TIMERS], next[2 * TIMERS];
	unsigned int i, done = 0;
	struct htw_event ev[64];
	volatile __u64 *words;
	struct ring r;
	size_t n;
	long p;

	NEEDS(HTW_FEATURE_RING | HTW_FEATURE_TABLE);
	if (htw_cpus() < 2 || access(CPU1, W_OK))
		SKIP(return, "no second CPU that can go offline");
	ASSERT_TRUE(ring_open(&r, self->fd, 1 << 14, CLOCK_MONOTONIC));
	p = ring_mmap(self->fd, PAGE, MAP_SHARED, HTW_OFF_TABLE);
	ASSERT_FALSE(p < 0 && p > -4096);
	words = (volatile __u64 *)p;
	ASSERT_EQ(0, htw_pin(1));
	for (i = 0; i < 2 * TIMERS; i++) {
		struct htw_add add = htw_abs(now_ns() + 30 * MSEC, i);

		add.interval = i < TIMERS ? 5 * MSEC : 0;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		ids[i] = add.id;
		next[i] = add.deadline;
		if (i < TIMERS)
			continue;
		next[i] = add.deadline + 500 * MSEC;
		words[HTW_ID_SLOT(add.id)] = next[i];
	}
	ASSERT_EQ(0, htw_pin(0));
	sleep_until(now_ns() + 50 * MSEC);
	ASSERT_EQ(0, htw_write_file(CPU1, "0"));
	while (done < 2 * TIMERS && htw_wait_readable(self->fd)) {
		n = ring_take(&r, ev, 64);
		for (size_t k = 0; k < n; k++) {
			i = ev[k].cookie;
			ASSERT_GT(2 * TIMERS, i);
			EXPECT_EQ(ids[i], ev[k].id);
			EXPECT_NOT_EARLY(&ev[k]);
			EXPECT_EQ(next[i], ev[k].deadline);
			next[i] = ev[k].deadline + (1 + ev[k].missed) * 5 * MSEC;
			done += ++records[i] == (i < TIMERS ? RECORDS : 1);
			if (i >= TIMERS)
				EXPECT_EQ(1, records[i]);
		}
	}
	EXPECT_EQ(2 * TIMERS, done);
	EXPECT_EQ(0, htw_write_file(CPU1, "1"));
}

TEST_HARNESS_MAIN
