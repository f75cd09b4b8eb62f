// SPDX-License-Identifier: GPL-2.0-only
/*
 * A real-time task takes the CPU for 20 ms, repeatedly: timers are as late as
 * that makes them, and not later
 *
 * On PREEMPT_RT softirqs run in threads, which such a task preempts; before
 * Linux 6.4 other kernels, too, leave them to a thread if one is pending
 * already. After a delivery that was preempted for 20 ms the CPU must not be
 * left alone for as long, as if all that time had been spent on timers. Another
 * user's timers keep the CPU busy, so that there is a delivery to preempt.
 *
 * VM options: --icount
 */
#include <pthread.h>
#include <sched.h>
#include "htw-test.h"

#define HOG_NS		(20 * MSEC)
#define PERIOD_NS	(50 * MSEC)
#define PERIODS		20
#define TIMERS		1000
#define LOAD		1000000
/* Time to deliver what came due meanwhile, and the gap after a run. */
#define MARGIN_NS	MSEC

static void *hog(void *begin)
{
	int i;

	for (i = 0; i < PERIODS; i++) {
		const __u64 from = *(const __u64 *)begin + i * PERIOD_NS;

		sleep_until(from);
		while (now_ns() < from + HOG_NS)
			;
	}
	return NULL;
}

/* Open the device as a user without privileges, whose timers are not root's. */
static int open_unprivileged(void)
{
	int fd = -1;

	if (!open_to_all() || seteuid(NOBODY))
		return -1;
	fd = htw_open(O_NONBLOCK);
	return seteuid(0) ? -1 : fd;
}

HTW_TEST(preempted_by_a_realtime_task)
{
	const __u64 most = HOG_NS + self->tick + MARGIN_NS;
	const struct sched_param fifo = { .sched_priority = 50 };
	struct htw_event ev[TIMERS];
	__u64 begin, late, worst = 0;
	pthread_attr_t attr;
	pthread_t thread;
	int load, i;

	ASSERT_EQ(0, htw_pin(0));
	load = open_unprivileged();
	ASSERT_LE(0, load);
	begin = now_ns() + 2 * SEC;
	ASSERT_EQ(LOAD, htw_start_many(load, begin, 0, LOAD, NULL));
	ASSERT_GT(begin, now_ns());
	for (i = 0; i < TIMERS; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, begin + i * MSEC, i));
	ASSERT_EQ(0, pthread_attr_init(&attr));
	ASSERT_EQ(0, pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED));
	ASSERT_EQ(0, pthread_attr_setschedpolicy(&attr, SCHED_FIFO));
	ASSERT_EQ(0, pthread_attr_setschedparam(&attr, &fifo));
	ASSERT_EQ(0, pthread_create(&thread, &attr, hog, &begin));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(TIMERS, htw_collect(self->fd, ev, TIMERS));
	for (i = 0; i < TIMERS; i++) {
		EXPECT_NOT_EARLY(&ev[i]);
		late = ev[i].fired - ev[i].deadline;
		if (late > worst)
			worst = late;
	}
	TH_LOG("late by %llu us at the most, of %llu", worst / USEC, most / USEC);
	EXPECT_LE(worst, most);
}

TEST_HARNESS_MAIN
