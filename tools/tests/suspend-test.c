// SPDX-License-Identifier: GPL-2.0-only
/*
 * Suspend to RAM: CLOCK_BOOTTIME and CLOCK_REALTIME go on, so what came due is
 * delivered when the machine resumes; CLOCK_MONOTONIC stands still
 *
 * While the machine is suspended all CPUs but the first are offline.
 *
 * Slow: 30 s.
 */
#include <pthread.h>

#include "htw-test.h"

/*
 * Where it can, the kernel does all of it but enter the firmware, and comes back
 * after some seconds: SeaBIOS crashes now and then on the way back. Otherwise an
 * alarm wakes the machine, and the kernel's log says where that may happen:
 * tools/emulator-killed.
 */
#define PM_STATE "/sys/power/state"
#define PM_TEST "/sys/power/pm_test"
#define PM_DELAY "/sys/module/suspend/parameters/pm_test_delay"
#define ALARM	"/sys/class/rtc/rtc0/wakealarm"
#define KERNEL_LOG "/dev/kmsg"

/* How long the machine is suspended; by then all deadlines but one have passed. */
#define ASLEEP	(8 * SEC)
#define SPREAD	(7 * SEC)
#define COUNT	1000u
#define TICK	(10 * MSEC)

/* Far less than what is left of the deadlines if the time asleep were not noticed. */
#define AT_ONCE	(4 * SEC)

static __u64 asleep_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME) - now_ns();
}

/* Say how the machine sleeps, and when it wakes. Return: 0 or a negative error. */
static int prepare(void)
{
	char seconds[32];
	int ret;

	if (!access(PM_TEST, F_OK)) {
		snprintf(seconds, sizeof(seconds), "%llu", ASLEEP / SEC);
		return htw_write_file(PM_DELAY, seconds) ?: htw_write_file(PM_TEST, "core");
	}
	snprintf(seconds, sizeof(seconds), "+%llu", ASLEEP / SEC);
	ret = htw_write_file(ALARM, "0") ?: htw_write_file(ALARM, seconds);
	return ret ?: htw_write_file(KERNEL_LOG, "htw-test: enters the firmware");
}

/* Suspend the machine for ASLEEP. Return: false if it cannot. */
static bool suspend(void)
{
	__u64 before = asleep_ns();
	int ret;

	/* Whatever wakes it early, such as an interrupt on the way, ends the attempt. */
	for (int i = 0; i < 10; i++) {
		if (prepare())
			return false;
		ret = htw_write_file(PM_STATE, "mem");
		if (htw_write_file(KERNEL_LOG, "htw-test: is back"))
			return false;
		if (ret && ret != -EBUSY)
			return false;
		/* The real-time clock counts seconds. */
		if (asleep_ns() - before >= ASLEEP - 2 * SEC)
			return true;
	}
	return false;
}

static bool can_suspend(void)
{
	char states[64];

	return !htw_read_file(PM_STATE, states, sizeof(states)) && strstr(states, "mem") &&
	       !htw_read_file("/sys/power/mem_sleep", states, sizeof(states)) &&
	       strstr(states, "deep") && (!access(PM_TEST, W_OK) || !access(ALARM, W_OK));
}

#define CAN_SUSPEND() do {						\
	if (!can_suspend())						\
		SKIP(return, "the machine cannot be suspended to RAM");	\
} while (0)

struct owner {
	int clock;
	int fd;
	__u64 added;
};

static int owner_open(struct owner *o)
{
	struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = o->clock };

	o->fd = htw_open(O_NONBLOCK);
	return o->fd < 0 ? o->fd : htw_set_up(o->fd, setup);
}

/* COUNT timers that are due while the machine sleeps, and one that is not. */
static bool owner_add(struct owner *o)
{
	o->added = clock_ns(o->clock);
	/* Not before it is suspended, which takes part of a second. */
	for (unsigned int i = 0; i < COUNT; i++) {
		if (!htw_start_abs(o->fd, o->added + 2 * SEC + i * (SPREAD - 2 * SEC) / COUNT, i))
			return false;
	}
	return htw_start_abs(o->fd, o->added + HOUR, COUNT);
}

/* Each of the COUNT timers expires once, not early. */
static void owner_expect_all(struct __test_metadata *_metadata, const struct owner *o)
{
	static struct htw_event ev[COUNT];
	unsigned char seen[COUNT] = {};

	ASSERT_EQ(COUNT, htw_collect(o->fd, ev, COUNT));
	for (unsigned int i = 0; i < COUNT; i++) {
		ASSERT_GT(COUNT, ev[i].cookie);
		EXPECT_EQ(0, seen[ev[i].cookie]++);
		EXPECT_LE(ev[i].deadline, ev[i].taken);
		EXPECT_LE(ev[i].taken, clock_ns(o->clock));
	}
	EXPECT_EQ(1, htw_timers(o->fd));
}

HTW_TEST(each_clock)
{
	struct owner owners[] = {
		{ CLOCK_BOOTTIME, -1 }, { CLOCK_BOOTTIME, 1 },
		{ CLOCK_REALTIME, -1 }, { CLOCK_REALTIME, 1 },
		{ CLOCK_MONOTONIC, -1 }, { CLOCK_MONOTONIC, 1 },
	};
	__u64 resumed;
	unsigned int i;

	CAN_SUSPEND();
	if (htw_cpus() < 2)
		SKIP(return, "one CPU");
	for (i = 0; i < ARRAY_SIZE(owners); i++) {
		ASSERT_EQ(0, owner_open(&owners[i]));
		ASSERT_TRUE(owner_add(&owners[i]));
	}
	ASSERT_TRUE(suspend());

	resumed = now_ns();
	for (i = 0; i < 4; i++)
		owner_expect_all(_metadata, &owners[i]);
	EXPECT_GT(resumed + AT_ONCE, now_ns());
	for (; i < ARRAY_SIZE(owners); i++) {
		owner_expect_all(_metadata, &owners[i]);
		EXPECT_LE(owners[i].added + SPREAD - 2 * SEC, now_ns());
	}
	for (i = 0; i < ARRAY_SIZE(owners); i++)
		close(owners[i].fd);
}

/* A periodic timer counts what it missed; afterwards it keeps its rhythm. */
HTW_TEST(periodic)
{
	struct htw_add_args add;
	struct htw_event ev;
	__u64 start, next, expired = 0;

	CAN_SUSPEND();
	ASSERT_EQ(0, htw_setup_clock(self->fd, CLOCK_BOOTTIME));
	start = clock_ns(CLOCK_BOOTTIME) + TICK;
	add = htw_abs(start, 1);
	add.interval = TICK;
	ASSERT_NE(0, htw_start_as(self->fd, add));
	ASSERT_TRUE(suspend());

	do {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_LE(ev.deadline, ev.taken);
		expired += 1 + ev.missed;
		next = ev.deadline + (ev.missed + 1) * TICK;
	} while (ev.taken < start + ASLEEP);
	EXPECT_EQ(start + expired * TICK, next);
}

static void *read_one(void *fd)
{
	struct htw_event ev = {};

	if (read((long)fd, &ev, sizeof(ev)) != sizeof(ev))
		return NULL;
	return (void *)(unsigned long)ev.cookie;
}

/* Tasks are frozen while they wait, and go on waiting without an error. */
HTW_TEST(waiting_reader)
{
	const int fd = htw_open(0);
	pthread_t reader;
	__u64 resumed;
	void *cookie;

	CAN_SUSPEND();
	ASSERT_EQ(0, htw_setup_clock(fd, CLOCK_BOOTTIME));
	ASSERT_EQ(0, pthread_create(&reader, NULL, read_one, (void *)(long)fd));
	ASSERT_NE(0, htw_start_abs(fd, clock_ns(CLOCK_BOOTTIME) + SPREAD, 77));
	ASSERT_TRUE(suspend());

	resumed = now_ns();
	ASSERT_EQ(0, pthread_join(reader, &cookie));
	EXPECT_GT(resumed + AT_ONCE, now_ns());
	EXPECT_EQ(77, (unsigned long)cookie);
	close(fd);
}

TEST_HARNESS_MAIN
