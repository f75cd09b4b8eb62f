// SPDX-License-Identifier: GPL-2.0-only
/*
 * Isolated CPUs: timers started on one wait on another CPU
 *
 * Needs a kernel that was booted with two isolated CPUs: CPU 1 from timers, CPU 2 from the
 * scheduler.
 *
 * VM options: --cpus 4 --append 'nohz_full=1 isolcpus=domain,2'
 */
#include "htw-cpu.h"

#define COUNT	20

#define ISOLATED() do {							\
	char __list[64];						\
									\
	if (htw_read_file("/sys/devices/system/cpu/nohz_full", __list, sizeof(__list)) ||\
	    strcmp(__list, "1\n"))					\
		SKIP(return, "CPU 1 is not isolated: boot with nohz_full=1");	\
	if (access(WHEELS, R_OK) || access(TRACING "events/htw", R_OK))	\
		SKIP(return, "no debugfs or no tracing");		\
	ASSERT_EQ(0, htw_pin(1));					\
} while (0)

/* CPU 2 is isolated from the scheduler; a program can pin itself there nevertheless. */
#define DOMAIN_ISOLATED() do {						\
	char __list[64];						\
									\
	if (htw_read_file("/sys/devices/system/cpu/isolated", __list, sizeof(__list)) ||\
	    strcmp(__list, "2\n"))					\
		SKIP(return, "CPU 2 is not isolated: boot with isolcpus=domain,2");	\
	if (access(WHEELS, R_OK) || access(TRACING "events/htw", R_OK))	\
		SKIP(return, "no debugfs or no tracing");		\
	ASSERT_EQ(0, htw_pin(2));					\
} while (0)

HTW_TEST(waits_on_a_housekeeping_cpu)
{
	__u64 ids[COUNT], before, other;
	struct htw_event ev[COUNT];
	int i;

	ISOLATED();
	before = pending_on(1);
	other = pending_on(0);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, now_ns() + HOUR, 1, COUNT, ids));
	EXPECT_EQ(before, pending_on(1));
	EXPECT_EQ(other + COUNT, pending_on(0));
	ASSERT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));

	ASSERT_TRUE(trace_expiries(true));
	for (i = 0; i < COUNT; i++)
		ASSERT_NE(0, htw_start(self->fd, i * MSEC, 100 + i));
	ASSERT_EQ(COUNT, htw_collect(self->fd, ev, COUNT));
	ASSERT_TRUE(trace_expiries(false));
	EXPECT_EQ(COUNT, expired_on(0, 100, COUNT));
	for (i = 0; i < COUNT; i++)
		EXPECT_NOT_EARLY(&ev[i]);
}

/* A CPU that is not isolated keeps its timers. */
HTW_TEST(the_others_are_as_ever)
{
	__u64 before;

	ISOLATED();
	ASSERT_EQ(0, htw_pin(0));
	before = pending_on(0);
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	EXPECT_EQ(before + 1, pending_on(0));
}

/* A home CPU that is isolated is accepted when named. */
HTW_TEST(home_on_an_isolated_cpu)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = 1 };
	struct htw_event ev;
	__u64 before;

	ISOLATED();
	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	before = pending_on(1);
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	EXPECT_EQ(before + 1, pending_on(1));
	ASSERT_TRUE(trace_expiries(true));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 300));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	ASSERT_TRUE(trace_expiries(false));
	EXPECT_EQ(1, expired_on(1, 300, 1));
}

/* An isolated home CPU needs CAP_SYS_NICE, also from a caller that may run there. */
HTW_TEST(home_on_an_isolated_cpu_is_privileged)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = 1 };

	ISOLATED();
	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_TRUE(open_to_all());
	ASSERT_EQ(0, htw_pin(1));
	EXPECT_EQ(-EPERM, setup_as_nobody(setup));
}

/* Moving a timer and re-arming it by a read there do not bring it back, either. */
HTW_TEST(moved_and_read_there)
{
	struct htw_add add = htw_rel(HOUR, 500);
	struct htw_event ev;
	__u64 before;
	int i;

	ISOLATED();
	before = pending_on(1);
	add.interval = 5 * MSEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(0, htw_move(self->fd, add.id, 2 * HOUR, 0));
	EXPECT_EQ(before, pending_on(1));
	ASSERT_EQ(0, htw_move(self->fd, add.id, MSEC, 0));
	EXPECT_EQ(before, pending_on(1));
	ASSERT_TRUE(trace_expiries(true));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(before, pending_on(1));
	}
	ASSERT_TRUE(trace_expiries(false));
	EXPECT_EQ(0, expired_on(1, 500, 1));
}

/*
 * A thread that was pinned to a CPU isolated from the scheduler leaves nothing there: neither
 * timers, nor a private wheel.
 */
HTW_TEST(isolated_from_the_scheduler)
{
	const struct htw_setup private = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = MSEC, .levels = 2, .slots = { 64, 64 },
	};
	struct htw_add add = htw_rel(MSEC, 700);
	__u64 ids[COUNT], before, all;
	struct htw_event ev;
	int own, i;

	DOMAIN_ISOLATED();
	NEEDS(HTW_FEATURE_SETUP);
	before = pending_on(2);
	all = pending_on(0);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, now_ns() + HOUR, 1, COUNT, ids));
	EXPECT_EQ(before, pending_on(2));
	EXPECT_EQ(all + COUNT, pending_on(0));
	ASSERT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));

	own = htw_open(O_NONBLOCK);
	ASSERT_EQ(0, htw_set_up(own, private));
	ASSERT_NE(0, htw_start(own, HOUR, 1));
	EXPECT_EQ(before, pending_on(2));
	ASSERT_TRUE(trace_expiries(true));
	add.interval = MSEC;
	ASSERT_EQ(0, htw_call(own, HTW_ADD, &add));
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(1, htw_collect(own, &ev, 1));
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	}
	ASSERT_TRUE(trace_expiries(false));
	EXPECT_EQ(0, expired_on(1, 700, 1));
	EXPECT_EQ(0, expired_on(2, 700, 1));
	close(own);
}

/* Neither kind of isolated CPU serves as a home without a privilege. */
HTW_TEST(home_isolated_from_the_scheduler_is_privileged)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = 2 };

	DOMAIN_ISOLATED();
	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_TRUE(open_to_all());
	EXPECT_EQ(-EPERM, setup_as_nobody(setup));
	EXPECT_EQ(0, htw_set_up(self->fd, setup));
}

TEST_HARNESS_MAIN
