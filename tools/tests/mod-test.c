// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_MOD: to all deadlines, in all states, alone, in a vector, and while the
 * timer expires on another CPU
 */
#include "htw-test.h"

#include <pthread.h>

FIXTURE(mod) {
	int fd;
	__u64 tick;
};

FIXTURE_VARIANT(mod) {
	bool vector;
};

FIXTURE_VARIANT_ADD(mod, single) { .vector = false };
FIXTURE_VARIANT_ADD(mod, vector) { .vector = true };

/* On the manual clock, which starts at zero. */
FIXTURE_SETUP(mod)
{
	struct htw_info_args info;

	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	info = htw_info(self->fd);
	self->tick = info.tick_ns;
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
}

FIXTURE_TEARDOWN(mod)
{
	close(self->fd);
}

#define MOD_TEST(name) TEST_F_TIMEOUT(mod, name, TEST_SECONDS)

/* HTW_MOD alone, or as the only entry of a vector. */
static int carry_out(int fd, bool vector, struct htw_mod_args mod)
{
	struct htw_vector_args v = {
		.op = HTW_OP_MOD,
		.count = 1,
		.ids = (uintptr_t)&mod.id,
		.deadlines = mod.flags & HTW_MOD_DEADLINE ? (uintptr_t)&mod.deadline : 0,
		.cookies = mod.flags & HTW_MOD_COOKIE ? (uintptr_t)&mod.cookie : 0,
		.interval = mod.interval,
		.slack = mod.slack,
		.firings = mod.firings,
		.flags = mod.flags,
	};
	int ret;

	if (!vector)
		return htw_mod(fd, mod);
	ret = htw_call(fd, HTW_VECTOR, &v);
	if (ret || v.done != 1)
		return ret ? ret : -EIO;
	return v.failed ? HTW_ID_ERROR(mod.id) : 0;
}

#define MOD(...)	carry_out(self->fd, variant->vector, (struct htw_mod_args){ __VA_ARGS__ })

/* The timer fires exactly at @when, and then no more. */
#define EXPECT_FIRES_AT(the_id, when, the_cookie) do {			\
	struct htw_event __ev[2];					\
									\
	EXPECT_EQ(0, htw_advance(self->fd, (when) - 1, HTW_F_ABS));	\
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, __ev, 2));		\
	EXPECT_EQ(1, htw_advance(self->fd, when, HTW_F_ABS));		\
	ASSERT_EQ(1, htw_read(self->fd, __ev, 2));			\
	EXPECT_EQ(the_id, __ev[0].id);					\
	EXPECT_EQ(the_cookie, __ev[0].cookie);				\
	EXPECT_EQ(when, __ev[0].deadline);				\
	EXPECT_EQ(when, __ev[0].taken);					\
	EXPECT_EQ(0, __ev[0].missed);					\
} while (0)

MOD_TEST(to_every_time_from_every_time)
{
	/*
	 * On each level, at the edges of buckets and windows, and past the last
	 * level.
	 */
	const __u64 ticks[] = {
		1, 2, 255, 256, 257, 511, 512, 16383, 16384, 16385, 32768, 1048575, 1048576,
		67108864, 4294967296, 8589934592ULL,
	};
	__u64 now = 0, id;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		for (j = 0; j < ARRAY_SIZE(ticks); j++) {
			id = htw_start(self->fd, ticks[i] * self->tick, j);
			ASSERT_NE(0, id);
			ASSERT_EQ(0, MOD(.id = id, .deadline = ticks[j] * self->tick,
					 .flags = HTW_MOD_DEADLINE));
			EXPECT_EQ(ticks[j] * self->tick, htw_query(self->fd, id).remaining);
			now += ticks[j] * self->tick;
			EXPECT_FIRES_AT(id, now, j);
			EXPECT_EQ(-ENOENT, MOD(.id = id, .deadline = 1,
					       .flags = HTW_MOD_DEADLINE));
		}
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

MOD_TEST(to_the_past)
{
	const __u64 past[] = { 0, 1, HOUR - 1, HOUR };
	struct htw_event ev[2];
	unsigned int i;
	__u64 id;

	ASSERT_EQ(0, htw_advance(self->fd, HOUR, 0));
	for (i = 0; i < ARRAY_SIZE(past); i++) {
		id = htw_start(self->fd, SEC, i);
		ASSERT_EQ(0, MOD(.id = id, .deadline = past[i],
				 .flags = HTW_MOD_DEADLINE | HTW_F_ABS));
		/* It has expired, or expires at the next HTW_ADVANCE. */
		EXPECT_LE(0, htw_advance(self->fd, 0, 0));
		ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		EXPECT_EQ(id, ev[0].id);
		EXPECT_EQ(past[i], ev[0].deadline);
		EXPECT_EQ(HOUR, ev[0].taken);
	}
	EXPECT_EQ(0, htw_advance(self->fd, HOUR, 0));
	EXPECT_EQ(0, htw_timers(self->fd));
}

MOD_TEST(far_future_and_back)
{
	const __u64 far[] = { ~0ULL, ~0ULL - 1, 1ULL << 63, (1ULL << 63) - 1, 315360000 * SEC };
	unsigned int i;
	__u64 now = 0, id = htw_start(self->fd, SEC, 1);

	for (i = 0; i < 2 * ARRAY_SIZE(far); i++) {
		ASSERT_EQ(0, MOD(.id = id, .deadline = far[i / 2],
				 .flags = HTW_MOD_DEADLINE | (i % 2 ? HTW_F_ABS : 0)));
		now += HOUR;
		EXPECT_EQ(0, htw_advance(self->fd, now, HTW_F_ABS));
		EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
	}
	ASSERT_EQ(0, MOD(.id = id, .deadline = SEC, .flags = HTW_MOD_DEADLINE));
	EXPECT_FIRES_AT(id, now + SEC, 1);
}

MOD_TEST(to_and_from_periodic)
{
	const __u64 interval = 5 * self->tick;
	struct htw_timer_info query;
	struct htw_event ev[2];
	__u64 now = 0, id;
	int i;

	id = htw_start(self->fd, SEC, 1);
	ASSERT_EQ(0, MOD(.id = id, .interval = interval, .flags = HTW_MOD_INTERVAL));
	EXPECT_EQ(SEC, htw_query(self->fd, id).remaining);
	now = SEC;
	for (i = 0; i < 5; i++, now += interval) {
		EXPECT_FIRES_AT(id, now, 1);
		EXPECT_EQ(interval, htw_query(self->fd, id).remaining);
	}
	/* A new interval counts from the armed deadline. */
	ASSERT_EQ(0, MOD(.id = id, .interval = 3 * interval, .flags = HTW_MOD_INTERVAL));
	EXPECT_FIRES_AT(id, now, 1);
	now += 3 * interval;
	EXPECT_FIRES_AT(id, now, 1);
	now += 3 * interval;
	/* A new deadline starts a new phase. */
	ASSERT_EQ(0, MOD(.id = id, .deadline = 7 * self->tick, .flags = HTW_MOD_DEADLINE));
	now = now - 3 * interval + 7 * self->tick;
	EXPECT_FIRES_AT(id, now, 1);
	now += 3 * interval;
	EXPECT_FIRES_AT(id, now, 1);
	now += 3 * interval;
	/* The timer ends with its next firing. */
	ASSERT_EQ(0, MOD(.id = id, .flags = HTW_MOD_INTERVAL));
	query = htw_query(self->fd, id);
	EXPECT_EQ(0, query.interval);
	EXPECT_EQ(HTW_STATE_PENDING, query.state);
	EXPECT_FIRES_AT(id, now, 1);
	EXPECT_EQ(0, htw_query(self->fd, id).state);
	EXPECT_EQ(0, htw_timers(self->fd));

	/* The number of firings counts from this call. */
	id = htw_start(self->fd, SEC, 2);
	ASSERT_EQ(0, MOD(.id = id, .deadline = interval, .interval = interval, .firings = 3,
			 .flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL));
	for (i = 0; i < 3; i++) {
		now += interval;
		EXPECT_EQ(1, htw_advance(self->fd, now, HTW_F_ABS));
		ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		EXPECT_EQ(now, ev[0].deadline);
		EXPECT_EQ(i < 2 ? HTW_EVENT_MORE : 0, ev[0].flags);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

MOD_TEST(cookie)
{
	struct htw_event ev[2];
	__u64 id = htw_start(self->fd, SEC, 1);

	ASSERT_EQ(0, MOD(.id = id, .cookie = ~0ULL, .flags = HTW_MOD_COOKIE));
	EXPECT_EQ(SEC, htw_query(self->fd, id).remaining);
	EXPECT_FIRES_AT(id, SEC, ~0ULL);

	/* Of an expired timer, too, which stays unread. */
	id = htw_start(self->fd, SEC, 1);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(0, MOD(.id = id, .cookie = 2, .flags = HTW_MOD_COOKIE));
	EXPECT_EQ(HTW_STATE_DUE, htw_query(self->fd, id).state);
	ASSERT_EQ(1, htw_read(self->fd, ev, 2));
	EXPECT_EQ(2, ev[0].cookie);
}

MOD_TEST(expired_and_not_read)
{
	struct htw_event ev[4];
	__u64 id[3], now;
	int i;

	for (i = 0; i < 3; i++)
		id[i] = htw_start(self->fd, (i + 1) * self->tick, i);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, HTW_F_ABS));
	now = SEC;
	ASSERT_EQ(0, MOD(.id = id[1], .deadline = SEC, .flags = HTW_MOD_DEADLINE));
	EXPECT_EQ(2, htw_due(self->fd));
	EXPECT_EQ(3, htw_timers(self->fd));
	ASSERT_EQ(2, htw_read(self->fd, ev, 4));
	EXPECT_EQ(id[0], ev[0].id);
	EXPECT_EQ(id[2], ev[1].id);
	EXPECT_FIRES_AT(id[1], now + SEC, 1);
	now += SEC;

	/* The only unread event is taken back, so poll() finds nothing. */
	id[0] = htw_start(self->fd, 1, 7);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	now += SEC;
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	ASSERT_EQ(0, MOD(.id = id[0], .deadline = ~0ULL, .flags = HTW_MOD_DEADLINE));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(0, htw_stop(self->fd, id[0]));

	/* Cancelled while it was due: the timer is gone. */
	id[0] = htw_start(self->fd, 1, 8);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->fd, id[0]));
	EXPECT_EQ(-ENOENT, MOD(.id = id[0], .deadline = 1, .flags = HTW_MOD_DEADLINE));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 4));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* An unread periodic timer: its expiration and its missed count are dropped. */
MOD_TEST(expired_periodic)
{
	struct htw_add_args add = htw_abs(self->tick, 1);
	struct htw_event ev[2];

	add.interval = self->tick;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, 100 * self->tick, HTW_F_ABS));
	EXPECT_EQ(99, htw_query(self->fd, add.id).missed);
	ASSERT_EQ(0, MOD(.id = add.id, .deadline = 10 * self->tick, .flags = HTW_MOD_DEADLINE));
	EXPECT_EQ(0, htw_query(self->fd, add.id).missed);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	EXPECT_FIRES_AT(add.id, 110 * self->tick, 1);
	EXPECT_FIRES_AT(add.id, 111 * self->tick, 1);
}

MOD_TEST(kept)
{
	struct htw_add_args add = htw_rel(SEC, 1);
	struct htw_event ev[2];
	__u64 now = 0;
	int i;

	add.flags |= HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	now = SEC;
	EXPECT_FIRES_AT(add.id, now, 1);
	for (i = 0; i < 1000; i++) {
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
		EXPECT_EQ(1, htw_timers(self->fd));
		ASSERT_EQ(0, MOD(.id = add.id, .deadline = SEC + i, .cookie = i,
				 .flags = HTW_MOD_DEADLINE | HTW_MOD_COOKIE));
		EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, add.id).state);
		now += SEC + i;
		EXPECT_EQ(0, htw_advance(self->fd, now - 1, HTW_F_ABS));
		now += self->tick;
		EXPECT_EQ(1, htw_advance(self->fd, now, HTW_F_ABS));
		ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		EXPECT_EQ(add.id, ev[0].id);
		EXPECT_EQ(i, ev[0].cookie);
		EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
	}
	/* Without a deadline the timer stays disarmed. */
	ASSERT_EQ(0, MOD(.id = add.id, .interval = SEC, .flags = HTW_MOD_INTERVAL));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
	EXPECT_EQ(0, htw_advance(self->fd, HOUR, 0));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* On a kept timer, HTW_MOD_FIRINGS starts a new count. */
MOD_TEST(kept_after_its_last_firing)
{
	struct htw_add_args add = htw_rel(SEC, 1);
	struct htw_event ev[2];
	int i, round;

	add.flags |= HTW_F_KEEP;
	add.interval = SEC;
	add.firings = 3;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (round = 0; round < 3; round++) {
		for (i = 0; i < 3; i++) {
			EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
			ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		}
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
		ASSERT_EQ(0, MOD(.id = add.id, .deadline = SEC, .interval = SEC, .firings = 3,
				 .flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL));
	}
}

/* Each timer fires once, at the deadline it was last moved to. */
MOD_TEST(equal_deadlines_in_the_order_they_were_moved)
{
	enum { COUNT = 1000 };
	struct htw_event ev[COUNT + 1];
	__u64 ids[COUNT];
	int i;

	for (i = 0; i < COUNT; i++)
		ids[i] = htw_start(self->fd, (i + 1) * SEC, i);
	for (i = COUNT; i-- > 0;)
		ASSERT_EQ(0, MOD(.id = ids[i], .deadline = 100 * SEC, .flags = HTW_MOD_DEADLINE));
	EXPECT_EQ(1, htw_advance(self->fd, 100 * SEC, 0));
	for (i = 0; i < COUNT;) {
		int n = htw_read(self->fd, ev, COUNT + 1);

		ASSERT_LT(0, n);
		for (int k = 0; k < n; k++)
			ASSERT_EQ(COUNT - 1 - i++, ev[k].cookie);
	}
}

/* What the timer was doing. */
HTW_TEST(says_what_it_found)
{
	struct htw_mod_args mod = { .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	struct htw_add_args add = htw_rel(0, 1);
	struct htw_event ev;

	add.flags |= HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	mod.id = add.id;
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(0, htw_call(self->fd, HTW_MOD, &mod));
	EXPECT_EQ(HTW_STATE_DUE, mod.state);
	mod.deadline = 0;
	mod.state = POISON32;
	ASSERT_EQ(0, htw_call(self->fd, HTW_MOD, &mod));
	EXPECT_EQ(HTW_STATE_PENDING, mod.state);
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	ASSERT_EQ(0, htw_call(self->fd, HTW_MOD, &mod));
	EXPECT_EQ(HTW_STATE_DISARMED, mod.state);
}

/* Started on one CPU, moved on the other, earlier and later. */
HTW_TEST(from_another_cpu)
{
	struct htw_event ev;
	__u64 id, when;
	int i;

	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, htw_pin(0));
		id = htw_start(self->fd, i % 2 ? HOUR : 5 * MSEC, i);
		ASSERT_EQ(0, htw_pin(htw_other_cpu()));
		when = now_ns() + 10 * MSEC;
		/* If the short deadline has passed, its expiration is taken back. */
		ASSERT_EQ(0, htw_move(self->fd, id, when, HTW_F_ABS));
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(id, ev.id);
		EXPECT_EQ(when, ev.deadline);
		EXPECT_NOT_EARLY(&ev);
		EXPECT_EQ(0, htw_timers(self->fd));
	}
}

struct racer {
	int fd;
	__u64 *ids;
	unsigned int count;
	unsigned int seed;
	__u64 moved;
	volatile bool stop;
	int wrong;
};

/* Move timers to about the present, so that many expire meanwhile. */
static void *race(void *arg)
{
	struct racer *r = arg;
	__u64 random = r->seed;

	htw_pin(htw_other_cpu());
	while (!r->stop) {
		const __u64 id = r->ids[xorshift64(&random) % r->count];
		const __u64 when = xorshift64(&random) % (4 * MSEC);
		int ret = htw_move(r->fd, id, when, 0);

		if (ret)
			r->wrong = ret;
		r->moved++;
	}
	return NULL;
}

/*
 * Kept timers are moved on one CPU while they expire on both. Each arming ends
 * in one event or in the next arming: a timer has a new event only after it was
 * armed again, and at the end each timer expires once more.
 */
HTW_TEST(against_expiry_on_another_cpu)
{
	enum { COUNT = 64 };
	struct htw_event ev[16];
	__u64 ids[COUNT], end, i, records = 0, last[COUNT] = { 0 };
	struct racer r = { .fd = self->fd, .ids = ids, .count = COUNT, .seed = 12345 };
	pthread_t thread;
	int n, k;

	for (i = 0; i < COUNT; i++) {
		struct htw_add_args add = htw_rel(0, i);

		add.flags |= HTW_F_KEEP;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		ids[i] = add.id;
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, race, &r));
	for (end = now_ns() + 3 * SEC; now_ns() < end;) {
		htw_poll(self->fd, 1);
		n = htw_read(self->fd, ev, 16);
		if (n == -EAGAIN)
			continue;
		ASSERT_LT(0, n);
		records += n;
		for (k = 0; k < n; k++) {
			ASSERT_GT(COUNT, ev[k].cookie);
			EXPECT_EQ(ids[ev[k].cookie], ev[k].id);
			EXPECT_NOT_EARLY(&ev[k]);
			/* Each arming has a different deadline. */
			EXPECT_NE(last[ev[k].cookie], ev[k].deadline);
			last[ev[k].cookie] = ev[k].deadline;
		}
	}
	r.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, r.wrong);
	EXPECT_LT(0, records);
	TH_LOG("%llu armings, %llu records", r.moved, records);

	/* Wait until all armed timers have expired, then arm each once more. */
	for (i = 0; i < COUNT; i++)
		ASSERT_EQ(0, htw_move(self->fd, ids[i], ~0ULL, 0));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 1));
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	EXPECT_EQ(0, htw_due(self->fd));
	for (i = 0; i < COUNT; i++)
		ASSERT_EQ(0, htw_move(self->fd, ids[i], MSEC, 0));
	for (i = 0; i < COUNT; i += n) {
		ASSERT_TRUE(htw_wait_readable(self->fd));
		n = htw_read(self->fd, ev, 16);
		ASSERT_LT(0, n);
		for (k = 0; k < n; k++) {
			EXPECT_NE(0, ids[ev[k].cookie]);
			ids[ev[k].cookie] = 0;
		}
	}
	EXPECT_EQ(COUNT, i);
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	if (!r.moved && __test_passed(_metadata))
		SKIP(return, "raced with nothing: the other thread did not run");
}

/*
 * Exactly one event for each arming: a one-shot timer's id ends with its event,
 * so a successful move is one arming, and a failed one came too late.
 */
HTW_TEST(each_arming_has_one_record)
{
	enum { ROUNDS = 1000 };
	struct htw_event ev[2];
	__u64 id, found = 0, late = 0, when;
	int i, ret, cpu;

	for (i = 0; i < ROUNDS; i++) {
		cpu = i % 2 ? htw_other_cpu() : 0;
		ASSERT_EQ(0, htw_pin(cpu));
		when = now_ns() + MSEC / 2;
		id = htw_start_abs(self->fd, when, i);
		ASSERT_NE(0, id);
		ASSERT_EQ(0, htw_pin(cpu ? 0 : htw_other_cpu()));
		/* Just when the other CPU expires the timer. */
		while (now_ns() < when + (i % 16) * 100 * USEC)
			;
		when = now_ns() + 100 * USEC;
		ret = htw_move(self->fd, id, when, HTW_F_ABS);
		ASSERT_EQ(0, ret);	/* an unread event can always be taken back */
		ASSERT_TRUE(htw_wait_readable(self->fd));
		ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		ASSERT_EQ(id, ev[0].id);
		ASSERT_EQ(when, ev[0].deadline);
		EXPECT_NOT_EARLY(&ev[0]);
		ret = htw_move(self->fd, id, 0, 0);
		found += !ret;
		late += ret == -ENOENT;
	}
	EXPECT_EQ(0, found);
	EXPECT_EQ(ROUNDS, late);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

TEST_HARNESS_MAIN
