// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CPU on which a timer waits and expires: the caller's, or the home CPU
 */
#include "htw-cpu.h"

#define COUNT	20
#define CPU1	"/sys/devices/system/cpu/cpu1/online"

#define TWO_CPUS() do {							\
	NEEDS(HTW_FEATURE_SETUP);					\
	if (htw_cpus() < 2)						\
		SKIP(return, "one CPU");				\
	if (access(WHEELS, R_OK) || access(TRACING "events/htw", R_OK))	\
		SKIP(return, "no debugfs or no tracing");		\
} while (0)

/*
 * Start timers on CPU @from and check that they wait and expire on CPU @home.
 * Each timer is on exactly one wheel, so all of them must be found there.
 */
static void wait_on(struct __test_metadata *_metadata, int fd, int from, int home, __u64 cookie)
{
	const __u64 before = pending_on(home);
	struct htw_event ev[COUNT];
	__u64 ids[COUNT];
	int i;

	ASSERT_NE(~0ULL, before);
	ASSERT_EQ(0, htw_pin(from));
	ASSERT_EQ(COUNT, htw_start_many(fd, now_ns() + HOUR, cookie, COUNT, ids));
	EXPECT_EQ(before + COUNT, pending_on(home));
	ASSERT_EQ(COUNT, htw_stop_many(fd, ids, COUNT));
	EXPECT_EQ(before, pending_on(home));

	ASSERT_TRUE(trace_expiries(true));
	for (i = 0; i < COUNT; i++)
		ASSERT_NE(0, htw_start(fd, i * MSEC, cookie + i));
	ASSERT_EQ(COUNT, htw_collect(fd, ev, COUNT));
	ASSERT_TRUE(trace_expiries(false));
	EXPECT_EQ(COUNT, expired_on(home, cookie, COUNT));
	for (i = 0; i < COUNT; i++)
		EXPECT_NOT_EARLY(&ev[i]);
}

HTW_TEST(where_it_is_started)
{
	TWO_CPUS();
	EXPECT_EQ(-1, htw_info(self->fd).home_cpu);
	wait_on(_metadata, self->fd, 0, 0, 100);
	wait_on(_metadata, self->fd, 1, 1, 200);
}

/* A home CPU must be in the caller's affinity mask. */
HTW_TEST(home_is_where_one_may_run)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME };
	int fd;

	TWO_CPUS();
	ASSERT_TRUE(open_to_all());
	ASSERT_EQ(0, htw_pin(0));
	EXPECT_EQ(0, setup_as_nobody(setup));
	setup.home_cpu = 1;
	EXPECT_EQ(-EPERM, setup_as_nobody(setup));
	/* With CAP_SYS_NICE any CPU is allowed. */
	fd = htw_open(O_NONBLOCK);
	EXPECT_EQ(0, htw_set_up(fd, setup));
	ASSERT_EQ(0, htw_pin(1));
	EXPECT_EQ(0, setup_as_nobody(setup));
}

HTW_TEST(at_home)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME };
	int fd;

	TWO_CPUS();
	for (setup.home_cpu = 0; setup.home_cpu < 2; setup.home_cpu++) {
		fd = htw_open(O_NONBLOCK);
		ASSERT_EQ(0, htw_set_up(fd, setup));
		EXPECT_EQ(setup.home_cpu, htw_info(fd).home_cpu);
		wait_on(_metadata, fd, 0, setup.home_cpu, 300 + setup.home_cpu * 200);
		wait_on(_metadata, fd, 1, setup.home_cpu, 400 + setup.home_cpu * 200);
		close(fd);
	}
}

/* On all clocks: the home CPU's wheels are created by HTW_SETUP. */
HTW_TEST(at_home_on_every_clock)
{
	static const int clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };
	struct htw_setup setup = { .flags = HTW_SETUP_HOME | HTW_SETUP_CLOCK, .home_cpu = 1 };
	struct htw_event ev[COUNT];
	unsigned int i, j;

	TWO_CPUS();
	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		int fd = htw_open(O_NONBLOCK);

		setup.clock = clocks[i];
		ASSERT_EQ(0, htw_set_up(fd, setup));
		ASSERT_TRUE(trace_expiries(true));
		for (j = 0; j < COUNT; j++)
			ASSERT_NE(0, htw_start(fd, j * MSEC, 1000 + j));
		ASSERT_EQ(COUNT, htw_collect(fd, ev, COUNT));
		ASSERT_TRUE(trace_expiries(false));
		EXPECT_EQ(COUNT, expired_on(1, 1000, COUNT));
		close(fd);
	}
}

/* Earlier than all that waits there: the home CPU is interrupted, and is in time. */
HTW_TEST(sooner_than_what_waits_at_home)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = 1 };
	struct htw_event ev;
	int i;

	TWO_CPUS();
	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	ASSERT_NE(0, htw_start(self->fd, HOUR, 0));
	for (i = 1; i < 200; i++) {
		ASSERT_NE(0, htw_start(self->fd, i % 3 * MSEC, i));
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(i, ev.cookie);
		EXPECT_NOT_EARLY(&ev);
	}
}

/* The home CPU goes offline: timers wait on another CPU until it is back. */
HTW_TEST(home_goes_and_comes_back)
{
	struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = 1 };
	struct htw_event ev;

	TWO_CPUS();
	if (access(CPU1, W_OK))
		SKIP(return, "CPU 1 cannot go offline");
	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	ASSERT_EQ(0, htw_write_file(CPU1, "0"));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_NOT_EARLY(&ev);
	/* An offline CPU is refused. */
	EXPECT_EQ(-EINVAL, htw_in_child(htw_set_up(htw_open(0), setup) == -EINVAL) ? -EINVAL : 0);
	ASSERT_EQ(0, htw_write_file(CPU1, "1"));
	wait_on(_metadata, self->fd, 0, 1, 2000);
}

/* HTW_MOD leaves a timer on its CPU unless that CPU would have to wake up earlier. */
HTW_TEST(moved_from_another_cpu)
{
	__u64 before, other, id;

	TWO_CPUS();
	ASSERT_EQ(0, htw_pin(1));
	other = pending_on(1);
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	id = htw_start(self->fd, 2 * HOUR, 2);
	EXPECT_EQ(other + 2, pending_on(1));
	ASSERT_EQ(0, htw_pin(0));
	before = pending_on(0);
	ASSERT_EQ(0, htw_move(self->fd, id, 3 * HOUR, 0));
	EXPECT_EQ(other + 2, pending_on(1));
	EXPECT_EQ(before, pending_on(0));
	ASSERT_EQ(0, htw_move(self->fd, id, 60 * SEC, 0));
	EXPECT_EQ(other + 1, pending_on(1));
	EXPECT_EQ(before + 1, pending_on(0));
}

TEST_HARNESS_MAIN
