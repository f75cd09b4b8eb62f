// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_SETUP: private wheels, the bounds for unprivileged users, and when it is
 * too late
 */
#include "htw-test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#define USER_WHEELS	16
#define USER_SLOTS	4096

/* Hours, minutes and seconds; and 75 buckets for five minutes. */
static const struct htw_setup clock_dial = {
	.flags = HTW_SETUP_PRIVATE,
	.tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
};
static const struct htw_setup five_minutes = {
	.flags = HTW_SETUP_PRIVATE,
	.tick_ns = 100 * MSEC, .levels = 3, .slots = { 10, 60, 5 },
};

static struct htw_setup manual(struct htw_setup setup)
{
	setup.flags |= HTW_SETUP_CLOCK;
	setup.clock = HTW_CLOCK_MANUAL;
	return setup;
}

/*
 * Start a timer within each of these ticks: each expires at the end of its
 * tick, not a tick earlier.
 */
static void expires_exactly(struct __test_metadata *_metadata, int fd, __u64 tick,
			    __u64 from, const __u64 *ticks, unsigned int count)
{
	struct htw_event ev[4];
	unsigned int i;

	for (i = 0; i < count; i++)
		ASSERT_NE(0, htw_start_abs(fd, from + ticks[i] * tick - i % 3, i));
	for (i = 0; i < count; i++) {
		const __u64 when = from + ticks[i] * tick;

		ASSERT_EQ(0, htw_advance(fd, when - 1, HTW_F_ABS));
		EXPECT_EQ(-EAGAIN, htw_read(fd, ev, 4));
		ASSERT_EQ(1, htw_advance(fd, when, HTW_F_ABS));
		ASSERT_EQ(1, htw_read(fd, ev, 4));
		EXPECT_EQ(i, ev[0].cookie);
		EXPECT_EQ(when - i % 3, ev[0].deadline);
		EXPECT_EQ(when, ev[0].fired);
	}
	EXPECT_EQ(0, htw_timers(fd));
}

HTW_TEST(sixty_sixty_twelve)
{
	static const __u64 at[] = {
		1, 2, 58, 59, 60, 61, 119, 120, 121, 179, 3539, 3540, 3599, 3600, 3601, 3659,
		3660, 7199, 7200, 7201, 39599, 43199, 43200, 43201, 86399, 86400, 86401, 1000000,
	};
	__u64 from;

	NEEDS(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_set_up(self->fd, manual(clock_dial)));
	EXPECT_EQ(SEC, htw_info(self->fd).tick_ns);
	/* From zero, and from times that are no multiple of anything. */
	expires_exactly(_metadata, self->fd, SEC, 0, at, ARRAY_SIZE(at));
	from = 1000000 * SEC;
	for (__u64 odd = 1; odd < 100000; odd = odd * 3 + 1) {
		from += odd * SEC;
		ASSERT_EQ(0, htw_advance(self->fd, from, HTW_F_ABS));
		expires_exactly(_metadata, self->fd, SEC, from, at, ARRAY_SIZE(at));
		from += 1000000 * SEC;
	}
}

HTW_TEST(ten_sixty_five)
{
	static const __u64 at[] = {
		1, 9, 10, 11, 19, 20, 21, 99, 100, 101, 599, 600, 601, 1199, 1200, 1201, 2399,
		2400, 2999, 3000, 3001, 5999, 6000, 6001, 123456,
	};
	__u64 from;

	NEEDS(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_set_up(self->fd, manual(five_minutes)));
	EXPECT_EQ(100 * MSEC, htw_info(self->fd).tick_ns);
	expires_exactly(_metadata, self->fd, 100 * MSEC, 0, at, ARRAY_SIZE(at));
	from = 123456 * 100 * MSEC;
	for (__u64 odd = 1; odd < 100000; odd = odd * 3 + 1) {
		from += odd * 100 * MSEC;
		ASSERT_EQ(0, htw_advance(self->fd, from, HTW_F_ABS));
		expires_exactly(_metadata, self->fd, 100 * MSEC, from, at, ARRAY_SIZE(at));
		from += 123456 * 100 * MSEC;
	}
}

/* In real time: never early, on any tick. */
HTW_TEST(on_a_clock_that_runs)
{
	static const __u64 ticks[] = { 100 * USEC, MSEC, 7777777, 100 * MSEC };
	struct htw_setup setup = five_minutes;
	struct htw_event ev[64];
	unsigned int i, k;
	__u64 now;

	NEEDS(HTW_FEATURE_SETUP);
	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		int fd = htw_open(O_NONBLOCK);

		setup.tick_ns = ticks[i];
		ASSERT_EQ(0, htw_set_up(fd, setup));
		EXPECT_EQ(ticks[i], htw_info(fd).tick_ns);
		now = now_ns();
		for (k = 0; k < 64; k++)
			ASSERT_NE(0, htw_start_abs(fd, now + k * 3 * MSEC, k));
		ASSERT_EQ(64, htw_collect(fd, ev, 64));
		for (k = 0; k < 64; k++) {
			EXPECT_EQ(k, ev[k].cookie);
			EXPECT_EQ(now + k * 3 * MSEC, ev[k].deadline);
			EXPECT_NOT_EARLY(&ev[k]);
		}
		close(fd);
	}
}

/* One wheel for all CPUs: equal ticks expire in the order of the calls. */
HTW_TEST(one_wheel_for_all_cpus)
{
	struct htw_setup setup = five_minutes;
	struct htw_event ev[100];
	__u64 when;
	int i;

	NEEDS(HTW_FEATURE_SETUP);
	setup.tick_ns = SEC;
	ASSERT_EQ(0, htw_set_up(self->fd, setup));
	/*
	 * On a tick; if starting them takes longer, the late ones expire with
	 * the others.
	 */
	when = (now_ns() / SEC + 2) * SEC;
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(0, htw_pin(i % 2 ? htw_other_cpu() : 0));
		ASSERT_NE(0, htw_start_abs(self->fd, when, i));
	}
	ASSERT_EQ(100, htw_collect(self->fd, ev, 100));
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(i, ev[i].cookie);
		EXPECT_NOT_EARLY(&ev[i]);
	}
}

HTW_TEST(too_late)
{
	const int other = htw_open(O_NONBLOCK);
	__u64 id;

	NEEDS(HTW_FEATURE_SETUP);
	/* A setup that changes nothing may be repeated; any other is accepted once. */
	EXPECT_EQ(0, htw_set_up(self->fd, (struct htw_setup){ .flags = 0 }));
	EXPECT_EQ(self->tick, htw_info(self->fd).tick_ns);
	EXPECT_EQ(0, htw_set_up(self->fd, five_minutes));
	EXPECT_EQ(-EBUSY, htw_set_up(self->fd, clock_dial));
	EXPECT_EQ(-EBUSY, htw_set_up(self->fd, (struct htw_setup){ .flags = 0 }));
	EXPECT_EQ(100 * MSEC, htw_info(self->fd).tick_ns);
	id = htw_start(self->fd, HOUR, 1);
	EXPECT_EQ(0, htw_stop(self->fd, id));
	EXPECT_EQ(-EBUSY, htw_set_up(self->fd, clock_dial));
	EXPECT_EQ(100 * MSEC, htw_info(self->fd).tick_ns);

	/* It is too late after the first timer, even if that has ended. */
	id = htw_start(other, HOUR, 1);
	EXPECT_EQ(-EBUSY, htw_set_up(other, five_minutes));
	EXPECT_EQ(0, htw_stop(other, id));
	EXPECT_EQ(-EBUSY, htw_set_up(other, five_minutes));
	EXPECT_EQ(self->tick, htw_info(other).tick_ns);
}

HTW_TEST(unprivileged_tick)
{
	struct htw_setup setup = five_minutes;

	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_TRUE(open_to_all());
	setup.tick_ns = 100 * USEC;
	EXPECT_EQ(0, setup_as_nobody(setup));
	setup.tick_ns = 100 * USEC - 1;
	EXPECT_EQ(-EPERM, setup_as_nobody(setup));
	EXPECT_EQ(0, htw_set_up(self->fd, setup));
	/* Manual clocks have no hrtimer and are not limited. */
	if (self->features & HTW_FEATURE_MANUAL)
		EXPECT_EQ(0, setup_as_nobody(manual(setup)));
}

HTW_TEST(unprivileged_slots)
{
	struct htw_setup setup = five_minutes;

	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_TRUE(open_to_all());
	setup.slots[0] = 2048;
	setup.slots[1] = USER_SLOTS - 2048 - 2;
	setup.slots[2] = 2;
	EXPECT_EQ(0, setup_as_nobody(setup));
	setup.slots[2] = 3;
	EXPECT_EQ(-EPERM, setup_as_nobody(setup));
	EXPECT_EQ(-EPERM, setup_as_nobody(manual(setup)));
	EXPECT_EQ(0, htw_set_up(self->fd, setup));
}

/* Return the number of the step that failed, or zero. */
static int use_all_wheels(void)
{
	int fd[USER_WHEELS], more, i;
	__u64 end;

	if (!as_nobody())
		return 1;
	for (i = 0; i < USER_WHEELS; i++) {
		fd[i] = htw_open(O_NONBLOCK);
		if (fd[i] < 0 || htw_set_up(fd[i], five_minutes))
			return 2;
	}
	more = htw_open(O_NONBLOCK);
	if (htw_set_up(more, five_minutes) != -EPERM)
		return 3;
	/* The descriptor is still usable without a private wheel. */
	if (htw_info(more).flags || !htw_start(more, HOUR, 1))
		return 4;
	close(more);
	more = htw_open(O_NONBLOCK);
	/* Soon after a descriptor is closed, its wheel is available again. */
	close(fd[0]);
	for (end = now_ns() + 30 * SEC; htw_set_up(more, five_minutes);) {
		if (now_ns() > end)
			return 5;
		sched_yield();
	}
	return 0;
}

HTW_TEST(unprivileged_wheels)
{
	int status, round;
	pid_t pid;

	NEEDS(HTW_FEATURE_SETUP);
	ASSERT_TRUE(open_to_all());
	/* Soon after the process has ended, its wheels are available again. */
	for (round = 0; round < 3; round++) {
		sleep_until(now_ns() + SEC);
		pid = fork();
		if (!pid)
			_exit(use_all_wheels());
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFEXITED(status));
		EXPECT_EQ(0, WEXITSTATUS(status));
	}
	/* Root's wheels are not limited. */
	for (round = 0; round < 2 * USER_WHEELS; round++) {
		int fd = htw_open(O_NONBLOCK);

		EXPECT_EQ(0, htw_set_up(fd, five_minutes));
	}
}

/* All their memory is freed, after which the module can be unloaded. */
HTW_TEST(come_and_go)
{
	int i;

	NEEDS(HTW_FEATURE_SETUP);
	for (i = 0; i < 500; i++) {
		int fd = htw_open(O_NONBLOCK);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, htw_set_up(fd, i % 2 ? clock_dial : five_minutes));
		ASSERT_NE(0, htw_start(fd, i % 3 ? 0 : HOUR, 1));
		close(fd);
	}
}

struct shaper {
	int fd;
	int result;
	volatile bool done;
};

static void *shape(void *arg)
{
	struct shaper *s = arg;

	htw_pin(htw_other_cpu());
	s->result = htw_set_up(s->fd, manual(clock_dial));
	s->done = true;
	return NULL;
}

/* HTW_INFO during HTW_SETUP reports the old geometry or the new one, never a mix. */
HTW_TEST(shaped_while_it_is_used)
{
	const struct htw_info before = htw_info(self->fd);
	struct htw_cancel cancel;
	pthread_t thread;
	int i, advanced;

	NEEDS(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL);
	for (i = 0; i < 300; i++) {
		struct shaper s = { .fd = htw_open(O_NONBLOCK) };

		ASSERT_EQ(0, pthread_create(&thread, NULL, shape, &s));
		while (!s.done) {
			const struct htw_info info = htw_info(s.fd);

			if (info.tick_ns == SEC) {
				ASSERT_EQ(HTW_CLOCK_MANUAL, info.clock);
				ASSERT_EQ(clock_dial.levels, info.levels);
				ASSERT_EQ(0, memcmp(clock_dial.slots, info.slots,
						    sizeof(info.slots)));
			} else {
				ASSERT_EQ(before.tick_ns, info.tick_ns);
				ASSERT_EQ(before.clock, info.clock);
				ASSERT_EQ(0, memcmp(before.slots, info.slots,
						    sizeof(info.slots)));
			}
			cancel = htw_cancel_of(1ULL << 32 | 1, 0);
			ASSERT_EQ(-ENOENT, htw_call(s.fd, HTW_CANCEL, &cancel));
			advanced = htw_advance(s.fd, 0, 0);
			ASSERT_TRUE(!advanced || advanced == -EINVAL);
		}
		ASSERT_EQ(0, pthread_join(thread, NULL));
		ASSERT_EQ(0, s.result);
		ASSERT_EQ(0, htw_advance(s.fd, 0, 0));
		close(s.fd);
	}
}

TEST_HARNESS_MAIN
