// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU hotplug: timers of a CPU that goes offline expire once, and not early
 */
#include "htw-test.h"

#define CPU1	"/sys/devices/system/cpu/cpu1/online"
#define COUNT	10000

static struct htw_event events[COUNT];
static unsigned char seen[COUNT];

static bool add_spread(int fd, __u64 start, __u64 spread)
{
	static __u64 ids[COUNT], deadlines[COUNT], cookies[COUNT];
	struct htw_vector_args v = htw_vector_add(ids, deadlines, cookies, COUNT);
	unsigned int i;

	for (i = 0; i < COUNT; i++) {
		deadlines[i] = start + i * (spread / COUNT);
		cookies[i] = i;
	}
	v.flags = HTW_F_ABS;
	if (htw_vector_all(fd, v))
		return false;
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
		ASSERT_LE(events[i].deadline, events[i].taken);
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

/* Timers of a CPU that has gone are still found by their ids. */
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

TEST_HARNESS_MAIN
