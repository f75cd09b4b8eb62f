// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slack: never early, never later than allowed, and at the time that others choose as well
 */
#include "htw-test.h"

/*
 * The tick that is chosen on a manual clock: of the times allowed the one that ends in most zero
 * bits, rounded up.
 */
static __u64 slack_tick(__u64 deadline, __u64 slack, __u64 tick)
{
	__u64 bit = 1ULL << 63, time;

	do {
		time = deadline & ~(bit - 1);
		time += time < deadline ? bit : 0;
		bit >>= 1;
	} while (time < deadline || time > deadline + slack);
	return (time + tick - 1) / tick;
}

/* Round @ns down to its tick. */
static __u64 tick_down(__u64 ns, __u64 tick)
{
	return ns / tick * tick;
}

/*
 * With the clock advanced tick by tick, each timer fires within its window:
 * from its deadline to deadline + slack, or to the deadline's tick if that is
 * later.
 */
HTW_TEST(within_its_window)
{
	enum { COUNT = 2000 };
	static struct htw_add_args adds[COUNT];
	static bool due[4001];
	const __u64 tick = self->tick;
	struct htw_event ev[64];
	__u64 random = 31, now, got = 0, wakeups = 0, without = 0;
	int i, n, any;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	for (i = 0; i < COUNT; i++) {
		adds[i] = htw_abs(xorshift64(&random) % (4000 * tick), i);
		adds[i].slack = xorshift64(&random) % (1ULL << xorshift64(&random) % 31);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
		without += !due[(adds[i].deadline + tick - 1) / tick];
		due[(adds[i].deadline + tick - 1) / tick] = true;
	}
	for (now = tick; got < COUNT && now < 10000 * tick; now += tick) {
		any = htw_advance(self->fd, now, HTW_F_ABS);
		ASSERT_LE(0, any);
		wakeups += any;
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0) {
			ASSERT_EQ(1, any);
			for (i = 0; i < n; i++, got++) {
				const struct htw_add_args *add = &adds[ev[i].cookie];
				const __u64 first = tick_down(add->deadline + tick - 1, tick);
				const __u64 last = tick_down(add->deadline + add->slack, tick);

				ASSERT_EQ(add->deadline, ev[i].deadline);
				ASSERT_EQ(now, ev[i].taken);
				ASSERT_LE(add->deadline, now);
				ASSERT_GE(first > last ? first : last, now > tick ? now : 0);
			}
		}
	}
	EXPECT_EQ(COUNT, got);
	TH_LOG("%d timers, %llu ticks, %llu wake-ups", COUNT, without, wakeups);
	EXPECT_GT(without, wakeups);
}

/* All windows have the time in common that ends in most zero bits: one wakeup. */
HTW_TEST(windows_that_meet_share_a_time)
{
	enum { COUNT = 100 };
	/* No window is as long as that, and the skew of a user is less than their overlap. */
	const __u64 step = 1ULL << 28, common = (now_ns() + 300 * MSEC) / step * step + step;
	struct htw_event ev[COUNT];
	__u64 last = 0, different = 0;
	int i;

	for (i = 0; i < COUNT; i++) {
		struct htw_add_args add = htw_abs(common - (60 + i) * MSEC, i);

		add.slack = (140 + i) * MSEC;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	}
	ASSERT_EQ(COUNT, htw_collect(self->fd, ev, COUNT));
	for (i = 0; i < COUNT; i++) {
		EXPECT_NOT_EARLY(&ev[i]);
		different += ev[i].taken != last;
		last = ev[i].taken;
	}
	/* Each 32, and each read, have a time of their own. */
	EXPECT_GE(10, different);
}

/* The time depends on no other timer, and on a manual clock on no user: expire alone. */
HTW_TEST(asks_no_other_timer)
{
	const __u64 tick = self->tick, chosen = slack_tick(20 * tick, 30 * tick, tick);
	struct htw_event ev[4];
	struct htw_add_args add;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_LE(20, chosen);
	ASSERT_GE(50, chosen);
	ASSERT_NE(0, htw_start_abs(self->fd, (chosen - 1) * tick, 1));
	ASSERT_NE(0, htw_start_abs(self->fd, (chosen + 1) * tick, 1));
	add = htw_abs(20 * tick, 2);
	add.slack = 30 * tick;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, chosen * tick - 1, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, chosen * tick, HTW_F_ABS));
	EXPECT_EQ(2, htw_read(self->fd, ev, 4));
	EXPECT_EQ(2, ev[1].cookie);
	EXPECT_EQ(1, htw_advance(self->fd, (chosen + 1) * tick, HTW_F_ABS));
}

/* Wheels with other ticks choose the same time, and round it up. */
HTW_TEST(meets_on_any_tick)
{
	static const __u32 ticks[] = { 1, 1000, 250000, 1000000, 7000000, 10000000 };
	const __u64 deadline = 12345 * MSEC + 678, slack = 90 * MSEC;
	struct htw_event ev[2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		const __u64 expires = slack_tick(deadline, slack, ticks[i]) * ticks[i];
		struct htw_setup_args setup = {
			.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL,
			.tick_ns = ticks[i], .levels = 2, .slots = { 16, 16 },
		};
		struct htw_add_args add = htw_abs(deadline, i);
		int fd = htw_open(O_NONBLOCK);

		add.slack = slack;
		ASSERT_LE(0, fd);
		ASSERT_EQ(0, htw_call(fd, HTW_SETUP, &setup));
		ASSERT_EQ(0, htw_call(fd, HTW_ADD, &add));
		EXPECT_EQ(0, htw_advance(fd, expires - 1, HTW_F_ABS));
		EXPECT_EQ(1, htw_advance(fd, expires, HTW_F_ABS));
		EXPECT_EQ(1, htw_read(fd, ev, 2));
		EXPECT_EQ(deadline, ev[0].deadline);
		close(fd);
	}
}

/* Slack below a tick is none: there may be no tick in it. */
HTW_TEST(less_than_a_tick_is_none)
{
	const __u64 tick = self->tick;
	struct htw_add_args add = htw_abs(10 * tick + 1, 1);

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	add.slack = tick - 2;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(0, htw_advance(self->fd, 11 * tick - 1, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 11 * tick, HTW_F_ABS));
}

/* A slack beyond the end of time is unlimited and does not wrap. */
HTW_TEST(huge)
{
	struct htw_add_args add;
	__u64 now = 0;
	int i;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	for (i = 0; i < 64; i++) {
		add = htw_abs(now + 5 * self->tick, i);
		add.slack = ~0ULL >> i;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		EXPECT_EQ(0, htw_advance(self->fd, now + 5 * self->tick - 1, HTW_F_ABS));
		now += 10 * self->tick;
		EXPECT_LE(0, htw_advance(self->fd, now, HTW_F_ABS));
		ASSERT_EQ(0, htw_stop(self->fd, add.id));
	}
}

/* A periodic timer has its slack at each firing, and keeps the phase of its deadlines. */
HTW_TEST(periodic)
{
	const __u64 tick = self->tick;
	struct htw_add_args add;
	struct htw_event ev[2];
	__u64 now, nth = 0;
	int n;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	add = htw_abs(100 * tick, 1);
	add.interval = 101 * tick;
	add.slack = 30 * tick;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (now = tick; nth < 50; now += tick) {
		ASSERT_LE(0, htw_advance(self->fd, now, HTW_F_ABS));
		n = htw_read(self->fd, ev, 2);
		if (n == -EAGAIN)
			continue;
		ASSERT_EQ(1, n);
		ASSERT_EQ(0, ev[0].missed);
		ASSERT_EQ(add.deadline + nth * add.interval, ev[0].deadline);
		ASSERT_GE(ev[0].deadline + add.slack, ev[0].taken);
		nth++;
	}
}

/* HTW_MOD sets and clears slack. */
HTW_TEST(modified)
{
	const __u64 tick = self->tick, chosen = slack_tick(30 * tick, 32 * tick, tick);
	struct htw_event ev[2];
	__u64 id;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_LT(30, chosen);
	ASSERT_NE(0, htw_start_abs(self->fd, chosen * tick, 1));
	id = htw_start_abs(self->fd, 10 * tick, 2);
	ASSERT_EQ(0, htw_mod(self->fd, (struct htw_mod_args){
		.id = id, .deadline = 30 * tick, .slack = 32 * tick,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_SLACK | HTW_F_ABS }));
	EXPECT_EQ(0, htw_advance(self->fd, chosen * tick - 1, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, chosen * tick, HTW_F_ABS));
	EXPECT_EQ(2, htw_read(self->fd, ev, 2));
	ASSERT_NE(0, htw_start_abs(self->fd, 100 * tick, 1));
	id = htw_start_abs(self->fd, 110 * tick, 2);
	ASSERT_EQ(0, htw_mod(self->fd, (struct htw_mod_args){
		.id = id, .deadline = 80 * tick, .flags = HTW_MOD_DEADLINE | HTW_MOD_SLACK |
		HTW_F_ABS }));
	EXPECT_EQ(0, htw_advance(self->fd, 80 * tick - 1, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 80 * tick, HTW_F_ABS));
}

TEST_HARNESS_MAIN
