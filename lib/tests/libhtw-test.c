// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw: the same tests on each backend
 *
 * Each test runs with timers in the process and on the device; its expectations
 * hold on both. Where time matters it is the manual clock's, so the expectations
 * are exact. Outside of a VM: libhtw-test -v process.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../../tools/common/patience.h"
#include "../libhtw.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#define USEC		1000ULL
#define MSEC		1000000ULL
#define SEC		1000000000ULL
#define HOUR		(3600 * SEC)
#define FOREVER		(~0ULL)
#define POISON		0xa5a5a5a5a5a5a5a5ULL

/* A timeout for slow, emulated machines; never a measurement. */
#define EVENTUALLY	(patience_seconds() * (int64_t)SEC)
#define TEST_SECONDS	240
/* Of tests without a fixture, too. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	TEST_SECONDS

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static struct htw_setup_args manual(void)
{
	return (struct htw_setup_args){
		.flags = HTW_SETUP_CLOCK,
		.clock = HTW_CLOCK_MANUAL,
	};
}

FIXTURE(lib) {
	struct htw *htw;
	uint64_t tick;
};

FIXTURE_VARIANT(lib) {
	enum htw_backend backend;
};

FIXTURE_VARIANT_ADD(lib, process) {
	.backend = HTW_BACKEND_PROCESS,
};

FIXTURE_VARIANT_ADD(lib, device) {
	.backend = HTW_BACKEND_DEVICE,
};

/* Open a handle of the variant's kind; @setup may be NULL for defaults. */
static int open_as(const FIXTURE_VARIANT(lib) *variant, struct htw **htw,
		   const struct htw_setup_args *setup)
{
	return htw_open(htw, variant->backend, setup);
}

FIXTURE_SETUP(lib)
{
	const struct htw_setup_args setup = manual();
	struct htw_info_args info;

	ASSERT_EQ(0, open_as(variant, &self->htw, &setup));
	ASSERT_EQ(variant->backend, htw_backend(self->htw));
	ASSERT_EQ(0, htw_info(self->htw, &info));
	self->tick = info.tick_ns;
}

FIXTURE_TEARDOWN(lib)
{
	htw_close(self->htw);
}

#define LIB_TEST(name)	TEST_F_TIMEOUT(lib, name, TEST_SECONDS)

static uint64_t timers(struct htw *htw)
{
	struct htw_info_args info;

	return htw_info(htw, &info) ? FOREVER : info.timers;
}

static uint64_t start_after(struct htw *htw, uint64_t ns, uint64_t cookie)
{
	uint64_t id;

	return htw_after(htw, ns, cookie, &id) ? 0 : id;
}

static int poll_in(struct htw *htw, int timeout_ms)
{
	struct pollfd pfd = { .fd = htw_fd(htw), .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1 ? pfd.revents : 0;
}

/* Exactly one expiration now: this timer, on time. */
#define EXPECT_EXPIRES(the_id, when, the_cookie, the_flags) do {		\
	struct htw_event __ev[2];						\
										\
	memset(__ev, 0xa5, sizeof(__ev));					\
	EXPECT_EQ(POLLIN, poll_in(self->htw, EVENTUALLY / MSEC));				\
	ASSERT_EQ(1, htw_read(self->htw, __ev, 2));				\
	EXPECT_EQ(the_id, __ev[0].id);						\
	EXPECT_EQ(the_cookie, __ev[0].cookie);					\
	EXPECT_EQ(when, __ev[0].deadline);					\
	EXPECT_EQ(htw_now(self->htw), __ev[0].taken);				\
	EXPECT_EQ(0, __ev[0].missed);						\
	EXPECT_EQ(the_flags, __ev[0].flags);					\
	EXPECT_EQ(0, htw_read(self->htw, __ev, 2));				\
	EXPECT_EQ(0, poll_in(self->htw, 0));					\
} while (0)

/* On each level, at the edges of buckets and windows, and past the last level. */
static const uint64_t ticks[] = {
	1, 2, 255, 256, 257, 511, 512, 16383, 16384, 16385, 32768, 1048575, 1048576, 1048577,
	67108863, 67108864, 67108865, 4294967296, 8589934592ULL, 17179869185ULL,
};

LIB_TEST(expires_at_its_tick)
{
	uint64_t now = 0, id;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		id = start_after(self->htw, ticks[i] * self->tick, i);
		ASSERT_NE(0, id);
		EXPECT_EQ(1, timers(self->htw));
		now += ticks[i] * self->tick;
		EXPECT_EQ(0, htw_advance(self->htw, now - 1, HTW_F_ABS));
		EXPECT_EQ(0, poll_in(self->htw, 0));
		EXPECT_EQ(1, htw_advance(self->htw, 1, 0));
		EXPECT_EQ(now, htw_now(self->htw));
		EXPECT_EXPIRES(id, now, i, 0);
		EXPECT_EQ(0, timers(self->htw));
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, id));
	}
}

/* Between two ticks: not early, and at the next tick. */
LIB_TEST(rounds_up)
{
	const uint64_t rests[] = { 1, self->tick / 2, self->tick - 1 };
	uint64_t id, when;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rests); i++) {
		when = htw_now(self->htw) + 7 * self->tick + rests[i];
		ASSERT_EQ(0, htw_at(self->htw, when, i, &id));
		EXPECT_EQ(0, htw_advance(self->htw, 7 * self->tick, 0));
		EXPECT_EQ(0, htw_advance(self->htw, self->tick - 1, 0));
		EXPECT_EQ(1, htw_advance(self->htw, 1, 0));
		EXPECT_EXPIRES(id, when, i, 0);
	}
}

LIB_TEST(what_has_come_expires_at_once)
{
	const uint64_t past[] = { 0, 1, HOUR - 1, HOUR };
	struct htw_event ev[2];
	unsigned int i;
	uint64_t id;

	EXPECT_EQ(0, htw_advance(self->htw, HOUR, 0));
	for (i = 0; i < ARRAY_SIZE(past); i++) {
		ASSERT_EQ(0, htw_at(self->htw, past[i], i, &id));
		EXPECT_EQ(POLLIN, poll_in(self->htw, EVENTUALLY / MSEC));
		ASSERT_EQ(1, htw_read(self->htw, ev, 2));
		EXPECT_EQ(id, ev[0].id);
		EXPECT_EQ(past[i], ev[0].deadline);
		EXPECT_EQ(HOUR, ev[0].taken);
	}
	id = start_after(self->htw, 0, 9);
	EXPECT_EXPIRES(id, HOUR, 9, 0);
}

LIB_TEST(far_future)
{
	const uint64_t far[] = { FOREVER, FOREVER - 1, 1ULL << 63, (1ULL << 63) - 1 };
	uint64_t ids[ARRAY_SIZE(far)];
	struct htw_event ev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(far); i++) {
		EXPECT_EQ(0, htw_at(self->htw, far[i], i, &ids[i]));
		EXPECT_EQ(0, htw_advance(self->htw, HOUR, 0));
		EXPECT_EQ(0, htw_after(self->htw, far[i], i, &ids[i]));
		EXPECT_EQ(0, htw_advance(self->htw, 100000 * HOUR, 0));
		EXPECT_EQ(0, htw_read(self->htw, &ev, 1));
	}
	EXPECT_EQ(2 * ARRAY_SIZE(far), timers(self->htw));
	for (i = 0; i < ARRAY_SIZE(far); i++)
		EXPECT_EQ(0, htw_stop(self->htw, ids[i]));
}

/* A clock ends within a tick, which never is complete. */
LIB_TEST(end_of_the_clock)
{
	const uint64_t end = (1ULL << 63) - 1, last = end / self->tick * self->tick;
	struct htw_event ev[2];
	uint64_t id, id_end, id_last;

	ASSERT_NE(0, end % self->tick);
	ASSERT_EQ(0, htw_at(self->htw, end, 1, &id_end));
	ASSERT_EQ(0, htw_at(self->htw, last + 1, 2, &id));
	ASSERT_EQ(0, htw_at(self->htw, last, 3, &id_last));
	EXPECT_EQ(1, htw_advance(self->htw, end, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->htw, ev, 2));
	EXPECT_EQ(id_last, ev[0].id);
	EXPECT_EQ(-EINVAL, htw_advance(self->htw, 1, 0));
	EXPECT_EQ(0, htw_stop(self->htw, id));
	/* Unless it has come when it is armed. */
	EXPECT_EQ(0, htw_rearm(self->htw, id_end, 0));
	ASSERT_EQ(1, htw_read(self->htw, ev, 2));
	EXPECT_EQ(id_end, ev[0].id);
}

LIB_TEST(equal_deadlines_in_order)
{
	enum { COUNT = 1000 };
	struct htw_event ev[COUNT];
	uint64_t id;
	int i, n, k;

	/* On different levels: the distant timers are started first. */
	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(0, htw_at(self->htw, HOUR, i, &id));
		if (i % 10 == 9)
			ASSERT_EQ(0, htw_advance(self->htw, HOUR / 101, 0));
	}
	EXPECT_EQ(1, htw_advance(self->htw, HOUR, HTW_F_ABS));
	for (i = 0; i < COUNT; i += n) {
		n = htw_read(self->htw, ev, 7);
		ASSERT_LT(0, n);
		for (k = 0; k < n; k++)
			ASSERT_EQ(i + k, ev[k].cookie);
	}
	EXPECT_EQ(0, htw_read(self->htw, ev, 1));
}

LIB_TEST(rearmed_from_every_tick_to_every_tick)
{
	uint64_t now = 0, id;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		for (j = 0; j < ARRAY_SIZE(ticks); j++) {
			id = start_after(self->htw, ticks[i] * self->tick, j);
			ASSERT_EQ(0, htw_rearm(self->htw, id, ticks[j] * self->tick));
			now += ticks[j] * self->tick;
			EXPECT_EQ(0, htw_advance(self->htw, now - 1, HTW_F_ABS));
			EXPECT_EQ(1, htw_advance(self->htw, now, HTW_F_ABS));
			EXPECT_EXPIRES(id, now, j, 0);
			EXPECT_EQ(-ENOENT, htw_rearm(self->htw, id, SEC));
		}
	}
	EXPECT_EQ(0, timers(self->htw));
}

LIB_TEST(stopped_is_stopped)
{
	struct htw_cancel_args cancel;
	struct htw_event ev;
	unsigned int i;
	uint64_t id;

	for (i = 0; i < ARRAY_SIZE(ticks); i++) {
		id = start_after(self->htw, ticks[i] * self->tick, 77);
		cancel = (struct htw_cancel_args){
			.id = id, .remaining = POISON, .missed = POISON,
		};
		EXPECT_EQ(0, htw_cancel(self->htw, &cancel));
		EXPECT_EQ(ticks[i] * self->tick, cancel.remaining);
		EXPECT_EQ(77, cancel.cookie);
		EXPECT_EQ(0, cancel.missed);
		EXPECT_EQ(-ENOENT, htw_cancel(self->htw, &cancel));
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, id));
	}
	EXPECT_EQ(0, htw_advance(self->htw, ticks[ARRAY_SIZE(ticks) - 1] * self->tick, 0));
	EXPECT_EQ(0, htw_read(self->htw, &ev, 1));
	EXPECT_EQ(0, timers(self->htw));
}

/* What is due and not read is stopped in time, however overdue. */
LIB_TEST(stopped_before_it_is_read)
{
	struct htw_cancel_args cancel;
	struct htw_event ev[2];
	unsigned int way;
	uint64_t id;

	for (way = 0; way < 6; way++) {
		id = start_after(self->htw, SEC, 5);
		EXPECT_EQ(1, htw_advance(self->htw, way * HOUR + SEC, 0));
		EXPECT_EQ(1, htw_wait(self->htw, 0));
		if (way % 2) {
			EXPECT_EQ(0, htw_rearm(self->htw, id, SEC));
			EXPECT_EQ(0, htw_read(self->htw, ev, 2));
			EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		}
		cancel = (struct htw_cancel_args){ .id = id };
		switch (way / 2) {
		case 0:
			EXPECT_EQ(0, htw_stop(self->htw, id));
			break;
		case 1:
			EXPECT_EQ(0, htw_stop_many(self->htw, &id, 1, NULL));
			break;
		default:
			EXPECT_EQ(0, htw_cancel(self->htw, &cancel));
			EXPECT_EQ(0, cancel.remaining);
			EXPECT_EQ(5, cancel.cookie);
		}
		EXPECT_EQ(0, htw_read(self->htw, ev, 2));
		EXPECT_EQ(0, htw_wait(self->htw, 0));
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, id));
		EXPECT_EQ(0, timers(self->htw));
	}
}

LIB_TEST(ids_are_not_used_again)
{
	const uint64_t wild[] = { 0, 1, 2, 0xffffffff, FOREVER, 1ULL << 32, (1ULL << 32) - 1,
				  1ULL << 63, 1ULL << 29, -ENOENT, -EDQUOT };
	uint64_t ids[1000], first, id, random = 1;
	struct htw_timer_info query;
	unsigned int i, round;

	for (i = 0; i < ARRAY_SIZE(wild); i++)
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, wild[i]));
	first = start_after(self->htw, HOUR, 0);
	EXPECT_EQ(0, htw_stop(self->htw, first));
	for (round = 0; round < 100; round++) {
		for (i = 0; i < ARRAY_SIZE(ids); i++) {
			ids[i] = start_after(self->htw, HOUR, i);
			ASSERT_NE(0, ids[i]);
			ASSERT_NE(first, ids[i]);
		}
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, first));
		EXPECT_EQ(-ENOENT, htw_rearm(self->htw, first, 1));
		query = (struct htw_timer_info){ .id = first };
		EXPECT_EQ(-ENOENT, htw_query(self->htw, &query));
		for (i = 0; i < ARRAY_SIZE(wild); i++) {
			EXPECT_EQ(-ENOENT, htw_stop(self->htw, wild[i]));
			EXPECT_EQ(-ENOENT, htw_rearm(self->htw, wild[i], SEC));
		}
		/* Near valid ids, and far from them. */
		for (i = 0; i < 1000; i++) {
			id = ids[i] ^ 1ULL << random_next(&random) % 64;
			if (htw_query(self->htw, &(struct htw_timer_info){ .id = id }) == 0) {
				unsigned int j;

				for (j = 0; j < ARRAY_SIZE(ids) && ids[j] != id; j++)
					;
				EXPECT_GT(ARRAY_SIZE(ids), j);
			}
		}
		EXPECT_EQ(0, htw_stop_many(self->htw, ids, ARRAY_SIZE(ids), NULL));
	}
	EXPECT_EQ(0, timers(self->htw));
}

LIB_TEST(periodic_keeps_its_phase)
{
	const uint64_t interval = 5 * self->tick;
	uint64_t id = POISON, when = SEC;
	struct htw_event ev[2];
	int i;

	EXPECT_EQ(-EINVAL, htw_every(self->htw, SEC, 0, 1, &id));
	EXPECT_EQ(POISON, id);
	ASSERT_EQ(0, htw_every(self->htw, SEC, interval, 1, &id));
	for (i = 0; i < 100; i++, when += interval) {
		EXPECT_EQ(1, htw_advance(self->htw, when, HTW_F_ABS));
		EXPECT_EXPIRES(id, when, 1, HTW_EVENT_MORE);
		EXPECT_EQ(1, timers(self->htw));
	}
	EXPECT_EQ(0, htw_stop(self->htw, id));
	EXPECT_EQ(0, htw_advance(self->htw, HOUR, 0));
	EXPECT_EQ(0, htw_read(self->htw, ev, 1));
}

/* An interval below a tick is a tick. */
LIB_TEST(periodic_at_each_tick)
{
	const uint64_t intervals[] = { 1, self->tick - 1, self->tick };
	struct htw_timer_info query;
	struct htw_event ev[2];
	unsigned int i;
	uint64_t id;

	for (i = 0; i < ARRAY_SIZE(intervals); i++) {
		ASSERT_EQ(0, htw_every(self->htw, self->tick, intervals[i], 1, &id));
		query = (struct htw_timer_info){ .id = id };
		EXPECT_EQ(0, htw_query(self->htw, &query));
		EXPECT_EQ(self->tick, query.interval);
		EXPECT_EQ(1, htw_advance(self->htw, self->tick, 0));
		ASSERT_EQ(1, htw_read(self->htw, ev, 2));
		EXPECT_EQ(1, htw_advance(self->htw, self->tick, 0));
		ASSERT_EQ(1, htw_read(self->htw, ev, 2));
		EXPECT_EQ(0, ev[0].missed);
		EXPECT_EQ(0, htw_stop(self->htw, id));
	}
}

/* Firings that one advance jumps over are reported, one by one or as missed. */
LIB_TEST(periodic_and_late)
{
	const uint64_t interval = 5 * self->tick;
	uint64_t id, firings = 0, when = interval;
	struct htw_event ev[4];
	int n, i;

	ASSERT_EQ(0, htw_every(self->htw, interval, interval, 1, &id));
	EXPECT_LE(1, htw_advance(self->htw, 100 * interval + interval / 2, 0));
	while ((n = htw_read(self->htw, ev, 4))) {
		for (i = 0; i < n; i++) {
			EXPECT_EQ(id, ev[i].id);
			EXPECT_EQ(when, ev[i].deadline);
			EXPECT_EQ(HTW_EVENT_MORE, ev[i].flags);
			firings += 1 + ev[i].missed;
			when += (1 + ev[i].missed) * interval;
		}
	}
	EXPECT_EQ(100, firings);
	EXPECT_EQ(1, htw_advance(self->htw, 101 * interval, HTW_F_ABS));
	EXPECT_EXPIRES(id, 101 * interval, 1, HTW_EVENT_MORE);
}

LIB_TEST(so_many_firings)
{
	struct htw_add_args add = {
		.deadline = SEC, .interval = SEC, .firings = 3, .cookie = 8,
	};
	struct htw_event ev[8];
	uint64_t firings = 0;
	int i, n;

	ASSERT_EQ(0, htw_add(self->htw, &add));
	for (i = 1; i <= 3; i++) {
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		EXPECT_EXPIRES(add.id, i * SEC, 8, i < 3 ? HTW_EVENT_MORE : 0);
	}
	EXPECT_EQ(0, timers(self->htw));

	ASSERT_EQ(0, htw_add(self->htw, &add));
	EXPECT_LE(1, htw_advance(self->htw, 10 * SEC, 0));
	while ((n = htw_read(self->htw, ev, 8)))
		for (i = 0; i < n; i++)
			firings += 1 + ev[i].missed;
	EXPECT_EQ(3, firings);
	EXPECT_EQ(0, timers(self->htw));
}

LIB_TEST(kept)
{
	struct htw_add_args add = { .deadline = SEC, .cookie = 3, .flags = HTW_F_KEEP };
	struct htw_timer_info query;
	int i;

	ASSERT_EQ(0, htw_add(self->htw, &add));
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		EXPECT_EXPIRES(add.id, (i + 1) * SEC, 3, HTW_EVENT_MORE);
		query = (struct htw_timer_info){ .id = add.id };
		EXPECT_EQ(0, htw_query(self->htw, &query));
		EXPECT_EQ(HTW_STATE_DISARMED, query.state);
		EXPECT_EQ(HTW_F_KEEP, query.flags);
		EXPECT_EQ(1, timers(self->htw));
		EXPECT_EQ(0, htw_rearm(self->htw, add.id, SEC));
	}
	EXPECT_EQ(0, htw_stop(self->htw, add.id));
	EXPECT_EQ(-ENOENT, htw_stop(self->htw, add.id));

	/* A disarmed timer can be stopped, too. */
	ASSERT_EQ(0, htw_add(self->htw, &add));
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EXPIRES(add.id, 101 * SEC, 3, HTW_EVENT_MORE);
	EXPECT_EQ(0, htw_stop(self->htw, add.id));
	EXPECT_EQ(0, timers(self->htw));
}

/*
 * A kept timer is due, unread, and is stopped: no event is ever read.
 */
LIB_TEST(no_event_after_its_end)
{
	struct htw_event ev[2];
	uint64_t id;
	int ret, i;

	for (i = 0; i < 10; i++) {
		struct htw_add_args add = { .deadline = SEC, .cookie = i, .flags = HTW_F_KEEP };

		ASSERT_EQ(0, htw_add(self->htw, &add));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		id = add.id;
		if (i % 2) {
			EXPECT_EQ(0, htw_stop_many(self->htw, &id, 1, &ret));
		} else {
			ret = htw_stop(self->htw, id);
		}
		EXPECT_EQ(0, ret);
		EXPECT_EQ(0, htw_read(self->htw, ev, 2));
		EXPECT_EQ(0, timers(self->htw));
	}
}

LIB_TEST(mod)
{
	struct htw_timer_info query;
	uint64_t id = start_after(self->htw, SEC, 1);

	EXPECT_EQ(-EINVAL, htw_mod(self->htw, &(struct htw_mod_args){ .id = id }));
	EXPECT_EQ(-EINVAL, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_COOKIE, .deadline = 1 }));
	EXPECT_EQ(-EINVAL, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_INTERVAL, .firings = 1 }));
	EXPECT_EQ(-EINVAL, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_DEADLINE, .reserved = 1 }));
	EXPECT_EQ(0, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_COOKIE, .cookie = 2 }));
	query = (struct htw_timer_info){ .id = id };
	EXPECT_EQ(0, htw_query(self->htw, &query));
	EXPECT_EQ(SEC, query.deadline);
	EXPECT_EQ(SEC, query.remaining);
	EXPECT_EQ(2, query.cookie);
	EXPECT_EQ(HTW_STATE_PENDING, query.state);

	EXPECT_EQ(0, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_DEADLINE | HTW_F_ABS | HTW_MOD_INTERVAL,
		.deadline = 2 * SEC, .interval = 3 * SEC, .firings = 2 }));
	EXPECT_EQ(1, htw_advance(self->htw, 2 * SEC, HTW_F_ABS));
	EXPECT_EXPIRES(id, 2 * SEC, 2, HTW_EVENT_MORE);
	EXPECT_EQ(1, htw_advance(self->htw, 5 * SEC, HTW_F_ABS));
	EXPECT_EXPIRES(id, 5 * SEC, 2, 0);
	EXPECT_EQ(-ENOENT, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_COOKIE }));
}

LIB_TEST(rearmed_before_it_was_read)
{
	struct htw_event ev[4];
	uint64_t id[3];
	int i;

	for (i = 0; i < 3; i++)
		id[i] = start_after(self->htw, (i + 1) * self->tick, i);
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(0, htw_rearm(self->htw, id[1], SEC));
	ASSERT_EQ(2, htw_read(self->htw, ev, 4));
	EXPECT_EQ(id[0], ev[0].id);
	EXPECT_EQ(id[2], ev[1].id);
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EXPIRES(id[1], 2 * SEC, 1, 0);

	/* The only unread event: then poll() finds nothing. */
	id[0] = start_after(self->htw, 1, 7);
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(POLLIN, poll_in(self->htw, EVENTUALLY / MSEC));
	EXPECT_EQ(0, htw_rearm(self->htw, id[0], FOREVER));
	EXPECT_EQ(0, htw_read(self->htw, ev, 4));
	EXPECT_EQ(0, poll_in(self->htw, 0));
	EXPECT_EQ(0, htw_stop(self->htw, id[0]));
}

LIB_TEST(slack_is_never_early_nor_later_than_that)
{
	uint64_t random = 42, now = 0;
	struct htw_event ev[2];
	unsigned int i;

	for (i = 0; i < 2000; i++) {
		struct htw_add_args add = {
			.deadline = random_next(&random) % (1ULL << random_next(&random) % 40),
			.slack = random_next(&random) % (1ULL << random_next(&random) % 40),
			.cookie = i,
		};

		ASSERT_EQ(0, htw_add(self->htw, &add));
		now = htw_now(self->htw);
		if (add.deadline)
			EXPECT_EQ(0, htw_advance(self->htw, add.deadline - 1, 0));
		htw_advance(self->htw, add.slack + self->tick + (add.deadline ? 1 : 0), 0);
		ASSERT_EQ(1, htw_read(self->htw, ev, 2));
		EXPECT_EQ(now + add.deadline, ev[0].deadline);
	}
}

LIB_TEST(slack_shares_a_tick)
{
	struct htw_add_args add = { .slack = 50 * self->tick };
	struct htw_event ev[32];
	unsigned int i;
	int n = 0;

	for (i = 1; i < 20; i++) {
		add.deadline = (90 + i) * self->tick;
		ASSERT_EQ(0, htw_add(self->htw, &add));
	}
	for (i = 0; !n && i < 91 + 50; i++) {
		htw_advance(self->htw, self->tick, 0);
		n = htw_read(self->htw, ev, 32);
	}
	EXPECT_EQ(19, n);
}

/*
 * With slack as without, equal deadlines come in the order in which they were asked for, whenever
 * that was, and whatever else the wheel holds.
 */
LIB_TEST(slack_keeps_order)
{
	enum { COUNT = 40 };
	const uint64_t deadline = 1000 * self->tick + 1, slack = 300 * self->tick;
	struct htw_add_args add = { .deadline = deadline, .slack = slack, .flags = HTW_F_ABS };
	struct htw_event ev[2 * COUNT];
	unsigned int i, k;
	int n;

	if (variant->backend != HTW_BACKEND_PROCESS)
		SKIP(return, "the device expires what is due at once");
	for (i = 0; i < COUNT; i++) {
		add.cookie = i;
		ASSERT_EQ(0, htw_add(self->htw, &add));
		/* The last ones are asked for when they are due. */
		htw_advance(self->htw, 26 * self->tick + self->tick / 2, 0);
		ASSERT_NE(0, start_after(self->htw, (1ULL << i % 12) * self->tick, COUNT));
		n = htw_read(self->htw, ev, COUNT);
		for (k = 0; k < (unsigned int)n; k++)
			ASSERT_EQ(COUNT, ev[k].cookie);
	}
	ASSERT_LT(deadline, htw_now(self->htw));
	htw_advance(self->htw, slack, 0);
	n = htw_read(self->htw, ev, 2 * COUNT);
	for (i = k = 0; k < (unsigned int)n; k++)
		if (ev[k].cookie < COUNT)
			EXPECT_EQ(i++, ev[k].cookie);
	EXPECT_EQ(COUNT, i);
}

LIB_TEST(many_at_once)
{
	enum { COUNT = 1000 };
	uint64_t ids[COUNT], deadlines[COUNT], cookies[COUNT], seen[COUNT] = { };
	struct htw_event ev[64];
	int results[COUNT], i, n;

	for (i = 0; i < COUNT; i++) {
		deadlines[i] = SEC + i * MSEC;
		cookies[i] = i;
	}
	EXPECT_EQ(0, htw_add_many(self->htw, NULL, deadlines, cookies, ids, 0, NULL));
	memset(results, 0x5a, sizeof(results));
	ASSERT_EQ(0, htw_add_many(self->htw, NULL, deadlines, cookies, ids, COUNT, results));
	for (i = 0; i < COUNT; i++) {
		EXPECT_NE(0, ids[i]);
		EXPECT_EQ(0, results[i]);
		deadlines[i] += SEC;
	}
	EXPECT_EQ(COUNT, timers(self->htw));

	/* Every third is stopped; in the next call exactly those fail. */
	for (i = 0; i < COUNT; i += 3)
		EXPECT_EQ(0, htw_stop(self->htw, ids[i]));
	memset(results, 0x5a, sizeof(results));
	EXPECT_EQ((COUNT + 2) / 3, htw_rearm_many(self->htw, ids, deadlines, COUNT, HTW_F_ABS,
						  results));
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(i % 3 ? 0 : -ENOENT, results[i]);
	EXPECT_EQ(0, htw_advance(self->htw, SEC + COUNT * MSEC, HTW_F_ABS));
	EXPECT_LT(0, htw_advance(self->htw, 2 * SEC + 499 * MSEC, HTW_F_ABS));
	memset(results, 0x5a, sizeof(results));
	n = htw_stop_many(self->htw, ids, COUNT, results);
	for (i = 0; i < COUNT; i++) {
		EXPECT_EQ(i % 3 == 0 ? -ENOENT : 0, results[i]);
		n -= !!results[i];
	}
	EXPECT_EQ(0, n);
	while ((n = htw_read(self->htw, ev, 64)))
		for (i = 0; i < n; i++)
			seen[ev[i].cookie]++;
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(0, seen[i]);
	EXPECT_EQ(0, timers(self->htw));

	/* Values that are not valid ids. */
	for (i = 0; i < COUNT; i++)
		ids[i] = i % 2 ? (uint64_t)-i : i;
	EXPECT_EQ(COUNT, htw_stop_many(self->htw, ids, COUNT, results));
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(-ENOENT, results[i]);
	EXPECT_EQ(-EINVAL, htw_add_many(self->htw, &(struct htw_add_args){ .firings = 1 },
					deadlines, NULL, ids, 1, NULL));
	EXPECT_EQ(-EINVAL, htw_rearm_many(self->htw, ids, deadlines, 1, HTW_F_KEEP, NULL));
}

LIB_TEST(limit)
{
	struct htw_setup_args setup = manual();
	uint64_t ids[12], deadlines[12];
	struct htw *htw;
	int results[12], i, round;
	struct htw_event ev;

	setup.limit = 10;
	ASSERT_EQ(0, open_as(variant, &htw, &setup));
	EXPECT_EQ(-ENOSPC, htw_reserve(htw, 11));
	EXPECT_EQ(0, htw_reserve(htw, 10));
	for (i = 0; i < 12; i++)
		deadlines[i] = SEC;
	for (round = 0; round < 3; round++) {
		memset(ids, 0xa5, sizeof(ids));
		EXPECT_EQ(2, htw_add_many(htw, NULL, deadlines, NULL, ids, 12, results));
		for (i = 0; i < 12; i++) {
			EXPECT_EQ(i < 10 ? 0 : -ENOSPC, results[i]);
			EXPECT_EQ(i < 10, !!ids[i]);
		}
		ids[10] = POISON;
		EXPECT_EQ(-ENOSPC, htw_after(htw, SEC, 0, &ids[10]));
		EXPECT_EQ(POISON, ids[10]);
		EXPECT_EQ(10, timers(htw));
		if (round % 2) {
			EXPECT_EQ(0, htw_stop_many(htw, ids, 10, NULL));
		} else {
			EXPECT_EQ(1, htw_advance(htw, SEC, 0));
			for (i = 0; i < 10; i++)
				EXPECT_EQ(1, htw_read(htw, &ev, 1));
		}
	}
	htw_close(htw);
}

/* Nothing is due before it, and whoever sleeps until then, again and again, gets to all of them. */
LIB_TEST(next_time)
{
	static const uint64_t deadlines[] = { HOUR, 100 * HOUR, 3 * SEC, 1000000 * HOUR };
	uint64_t when = POISON, before, due = 0;
	unsigned int i, got = 0, steps = 0;
	struct htw_event ev[4];
	int n;

	EXPECT_EQ(-ENOENT, htw_next_time(self->htw, &when));
	EXPECT_EQ(POISON, when);
	for (i = 0; i < ARRAY_SIZE(deadlines); i++)
		ASSERT_NE(0, start_after(self->htw, deadlines[i], i));
	while (got < ARRAY_SIZE(deadlines)) {
		ASSERT_EQ(0, htw_next_time(self->htw, &when));
		before = htw_now(self->htw);
		ASSERT_GT(1000, ++steps);
		if (when > before) {
			due = FOREVER;
			for (i = 0; i < ARRAY_SIZE(deadlines); i++)
				if (deadlines[i] > before && deadlines[i] < due)
					due = deadlines[i];
			EXPECT_GE(due, when);
			ASSERT_LE(0, htw_advance(self->htw, when, HTW_F_ABS));
		}
		n = htw_read(self->htw, ev, 4);
		ASSERT_LE(0, n);
		got += n;
	}
	EXPECT_EQ(-ENOENT, htw_next_time(self->htw, &when));
}

/*
 * Clocks end at 2^63 - 1: a timer in the tick that is not complete by then, or later, never comes.
 * No time beyond that is given. A wheel that has levels may have something to do before.
 */
LIB_TEST(next_time_never)
{
	static const uint64_t never[] = {
		INT64_MAX, INT64_MAX + 1ULL, INT64_MAX + HOUR, FOREVER - 1, FOREVER
	};
	/* With few timers, and with as many as give a wheel its levels. */
	static const unsigned int counts[] = { 1, 200 };
	struct htw_timer_info query;
	struct htw_info_args info;
	unsigned int i, c, k;
	uint64_t when, id;

	for (c = 0; c < ARRAY_SIZE(counts); c++) {
		for (i = 0; i < ARRAY_SIZE(never); i++) {
			for (k = 0; k < counts[c]; k++)
				ASSERT_EQ(0, htw_at(self->htw, never[i], k, &id));
			when = POISON;
			EXPECT_EQ(0, htw_info(self->htw, &info));
			if (htw_next_time(self->htw, &when)) {
				EXPECT_EQ(-ENOENT, htw_next_time(self->htw, &when));
				EXPECT_EQ(POISON, when);
				EXPECT_EQ(UINT64_MAX, info.next);
			} else {
				EXPECT_LT(1, counts[c]);
				EXPECT_GE(INT64_MAX, when);
				EXPECT_EQ(when, info.next);
			}
			/* It is pending all the same. */
			query = (struct htw_timer_info){ .id = id };
			EXPECT_EQ(0, htw_query(self->htw, &query));
			EXPECT_EQ(HTW_STATE_PENDING, query.state);
			/* Beside another one, that counts. */
			ASSERT_EQ(0, htw_at(self->htw, HOUR, k, NULL));
			EXPECT_EQ(0, htw_next_time(self->htw, &when));
			EXPECT_GE(HOUR, when);
			EXPECT_EQ(counts[c] + 1, htw_cancel_all(self->htw));
		}
	}
}

LIB_TEST(list_and_harvest)
{
	enum { COUNT = 500 };
	struct htw_timer_info entries[64];
	uint64_t cursor = 0, id, seen[COUNT] = { };
	int i, n, got = 0;

	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(0, htw_at(self->htw, (i + 1) * SEC, i, &id));
		if (i % 5 == 0)
			EXPECT_EQ(0, htw_stop(self->htw, id));
	}
	while ((n = htw_list(self->htw, &cursor, entries, 64))) {
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++) {
			seen[entries[i].cookie]++;
			EXPECT_EQ((entries[i].cookie + 1) * SEC, entries[i].deadline);
			EXPECT_EQ(HTW_STATE_PENDING, entries[i].state);
		}
	}
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(i % 5 != 0, seen[i]);
	EXPECT_EQ(0, htw_list(self->htw, &cursor, entries, 64));

	cursor = 0;
	while ((n = htw_harvest(self->htw, &cursor, entries, 64))) {
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++) {
			EXPECT_EQ(1, seen[entries[i].cookie]);
			seen[entries[i].cookie]++;
			EXPECT_EQ(-ENOENT, htw_stop(self->htw, entries[i].id));
		}
		got += n;
	}
	EXPECT_EQ(COUNT / 5 * 4, got);
	EXPECT_EQ(0, timers(self->htw));
	EXPECT_EQ(0, htw_advance(self->htw, HOUR, 0));
}

LIB_TEST(list_of_states)
{
	struct htw_add_args add = { .deadline = SEC, .flags = HTW_F_KEEP, .cookie = 1 };
	struct htw_timer_info entries[8];
	struct htw_event ev;
	uint64_t cursor = 0;

	EXPECT_EQ(-EINVAL, htw_list_in(self->htw, 8, &cursor, entries, 8));
	ASSERT_EQ(0, htw_add(self->htw, &add));
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(1, htw_read(self->htw, &ev, 1));
	ASSERT_NE(0, start_after(self->htw, HOUR, 2));
	EXPECT_EQ(1, htw_list_in(self->htw, HTW_LIST_DISARMED, &cursor, entries, 8));
	EXPECT_EQ(1, entries[0].cookie);
	EXPECT_EQ(HTW_STATE_DISARMED, entries[0].state);
	cursor = 0;
	EXPECT_EQ(1, htw_list_in(self->htw, HTW_LIST_PENDING, &cursor, entries, 8));
	EXPECT_EQ(2, entries[0].cookie);
	cursor = 0;
	EXPECT_EQ(2, htw_list_in(self->htw, HTW_LIST_PENDING | HTW_LIST_DISARMED |
				 HTW_LIST_DUE, &cursor, entries, 8));
	EXPECT_EQ(2, htw_cancel_all(self->htw));
}

LIB_TEST(cancel_all)
{
	struct htw_event ev[4];
	int i;

	for (i = 0; i < 4; i++)
		start_after(self->htw, (i + 1) * SEC, i);
	EXPECT_EQ(1, htw_advance(self->htw, 2 * SEC, 0));
	EXPECT_EQ(4, htw_cancel_all(self->htw));
	EXPECT_EQ(0, htw_read(self->htw, ev, 4));
	EXPECT_EQ(0, timers(self->htw));
	EXPECT_EQ(0, poll_in(self->htw, 0));
	EXPECT_EQ(0, htw_advance(self->htw, HOUR, 0));
}

LIB_TEST(setup_that_is_wrong)
{
	struct htw_setup_args good = manual();
	struct htw *htw = (struct htw *)self;
	const struct {
		int error;
		struct htw_setup_args setup;
	} bad[] = {
		{ -EINVAL, { .flags = 1 << 9 } },
		{ -EOPNOTSUPP, { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_TAI } },
		{ -EOPNOTSUPP, { .flags = HTW_SETUP_CLOCK, .clock = 4711 } },
		{ -EINVAL, { .clock = CLOCK_BOOTTIME } },
		{ -ERANGE, { .limit = 1ULL << 40 } },
		{ -EINVAL, { .flags = HTW_SETUP_EXACT, .tick_ns = SEC } },
		{ -EINVAL, { .slots = { 4 } } },
		{ -EINVAL, { .event_size = 1 } },
		{ -EINVAL, { .event_size = sizeof(struct htw_event) + 8 } },
		{ -ERANGE, { .levels = 1 } },
		{ -ERANGE, { .tick_ns = 1, .levels = 1, .slots = { 8 } } },
		{ -ERANGE, { .tick_ns = 2 * SEC, .levels = 1, .slots = { 8 } } },
		{ -ERANGE, { .tick_ns = MSEC, .levels = 1, .slots = { 1 } } },
		{ -EINVAL, { .tick_ns = MSEC, .levels = 1, .slots = { 8, 8 } } },
		{ -ERANGE, { .tick_ns = MSEC, .levels = 9, .slots = { 8 } } },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(bad[i].error, htw_open(&htw, variant->backend, &bad[i].setup))
			TH_LOG("setup %u", i);
		EXPECT_EQ((struct htw *)self, htw);
	}
	EXPECT_EQ(-EINVAL, htw_open(&htw, 0, &good));
	EXPECT_EQ(-EINVAL, htw_open(&htw, 4, &good));
	EXPECT_EQ(-EINVAL, htw_advance(self->htw, 1, 1 << 5));
	EXPECT_EQ(0, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(-EINVAL, htw_advance(self->htw, SEC - 1, HTW_F_ABS));
	EXPECT_EQ(0, htw_add(self->htw, &(struct htw_add_args){ .deadline = 1 }));
	EXPECT_EQ(-EINVAL, htw_add(self->htw, &(struct htw_add_args){ .flags = 1 << 7 }));
	EXPECT_EQ(-EINVAL, htw_add(self->htw, &(struct htw_add_args){ .firings = 1 }));
	EXPECT_EQ(-EINVAL, htw_add(self->htw, &(struct htw_add_args){ .flags = 1 << 2 }));
	EXPECT_EQ(-EINVAL, htw_cancel(self->htw, &(struct htw_cancel_args){ .flags = 1 }));
}

/* A tick of 10 us, on any clock: a timer comes with the first that is not before its deadline. */
LIB_TEST(exact)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_EXACT,
		.clock = HTW_CLOCK_MANUAL,
	};
	const struct htw_setup_args now = { .flags = HTW_SETUP_EXACT };
	struct htw_info_args info;
	struct htw_event ev;
	struct htw *htw;

	ASSERT_EQ(0, open_as(variant, &htw, &setup));
	EXPECT_EQ(0, htw_info(htw, &info));
	EXPECT_EQ(10 * USEC, info.tick_ns);
	EXPECT_EQ(HTW_SETUP_CLOCK | HTW_SETUP_EXACT, info.flags);
	EXPECT_EQ(0, htw_at(htw, 5 * USEC, 1, NULL));
	EXPECT_EQ(0, htw_at(htw, 10 * USEC + 1, 2, NULL));
	EXPECT_EQ(0, htw_advance(htw, 10 * USEC - 1, 0));
	EXPECT_EQ(0, htw_read(htw, &ev, 1));
	EXPECT_EQ(1, htw_advance(htw, 1, 0));
	EXPECT_EQ(1, htw_read(htw, &ev, 1));
	EXPECT_EQ(1, ev.cookie);
	EXPECT_EQ(0, htw_advance(htw, 10 * USEC - 1, 0));
	EXPECT_EQ(1, htw_advance(htw, 1, 0));
	EXPECT_EQ(1, htw_read(htw, &ev, 1));
	EXPECT_EQ(2, ev.cookie);
	htw_close(htw);

	ASSERT_EQ(0, open_as(variant, &htw, &now));
	EXPECT_EQ(0, htw_info(htw, &info));
	EXPECT_EQ(10 * USEC, info.tick_ns);
	EXPECT_EQ(CLOCK_MONOTONIC, info.clock);
	EXPECT_EQ(0, htw_after(htw, 50 * USEC, 3, NULL));
	EXPECT_EQ(1, htw_wait(htw, EVENTUALLY));
	ASSERT_EQ(1, htw_read(htw, &ev, 1));
	EXPECT_EQ(3, ev.cookie);
	EXPECT_LE(ev.deadline, ev.taken);
	htw_close(htw);
}

/*
 * The model: an array of pending timers. All operations are checked against it,
 * on several wheel geometries.
 */
#define MODEL		300

struct model {
	uint64_t id[MODEL];		/* zero: no timer */
	uint64_t deadline[MODEL];	/* FOREVER: expired and unread */
	uint64_t serial[MODEL];		/* order of arming */
	uint64_t now, serials, tick;
};

static uint64_t model_tick(const struct model *m, uint64_t deadline)
{
	return deadline / m->tick + !!(deadline % m->tick);
}

static bool model_before(const struct model *m, unsigned int a, unsigned int b)
{
	const uint64_t tick_a = model_tick(m, m->deadline[a]);
	const uint64_t tick_b = model_tick(m, m->deadline[b]);

	return tick_a < tick_b || (tick_a == tick_b && m->serial[a] < m->serial[b]);
}

/* The next timer to expire by now, or MODEL. */
static unsigned int model_next(const struct model *m)
{
	unsigned int i, best = MODEL;

	for (i = 0; i < MODEL; i++) {
		if (!m->id[i] || model_tick(m, m->deadline[i]) > m->now / m->tick)
			continue;
		if (best == MODEL || model_before(m, i, best))
			best = i;
	}
	return best;
}

static void run_model(struct __test_metadata *_metadata, struct htw *htw, struct model *m,
		      uint64_t seed, unsigned int steps, unsigned int range)
{
	uint64_t random = seed, when;
	struct htw_event ev[8];
	unsigned int step, i;
	int n, k;

	for (step = 0; step < steps; step++) {
		i = random_next(&random) % MODEL;
		when = random_next(&random) % (m->tick << random_next(&random) % range);
		switch (random_next(&random) % 8) {
		case 0 ... 2:
			if (m->id[i]) {
				ASSERT_EQ(0, htw_rearm(htw, m->id[i], when));
			} else {
				ASSERT_EQ(0, htw_after(htw, when, i, &m->id[i]));
				ASSERT_NE(0, m->id[i]);
			}
			m->deadline[i] = m->now + when;
			m->serial[i] = m->serials++;
			break;
		case 3:
			ASSERT_EQ(m->id[i] ? 0 : -ENOENT, htw_stop(htw, m->id[i]));
			m->id[i] = 0;
			break;
		case 4:
			if (!m->id[i])
				break;
			{
				struct htw_timer_info query = { .id = m->id[i] };

				ASSERT_EQ(0, htw_query(htw, &query));
				ASSERT_EQ(m->deadline[i], query.deadline);
				ASSERT_EQ(i, query.cookie);
			}
			break;
		default:
			/* Whole ticks: between two ticks nothing expires. */
			when = when / m->tick * m->tick;
			m->now += when;
			ASSERT_LE(0, htw_advance(htw, when, 0));
		}
		/* Timers armed in the past have expired, all others have not. */
		do {
			n = htw_read(htw, ev, 1 + random_next(&random) % 8);
			for (k = 0; k < n; k++) {
				i = model_next(m);
				ASSERT_NE(MODEL, i);
				ASSERT_EQ(i, ev[k].cookie);
				ASSERT_EQ(m->id[i], ev[k].id);
				ASSERT_EQ(m->deadline[i], ev[k].deadline);
				ASSERT_EQ(m->now, ev[k].taken);
				m->id[i] = 0;
			}
		} while (n);
		ASSERT_EQ(MODEL, model_next(m));
	}
}

LIB_TEST(held_against_a_model)
{
	static const struct {
		uint32_t levels, slots[4];
		unsigned int range;
	} shapes[] = {
		{ 3, { 4, 4, 4 }, 10 },
		{ 1, { 2 }, 8 },
		{ 3, { 10, 60, 5 }, 16 },
		{ 4, { 256, 64, 64, 64 }, 30 },
		{ 3, { 60, 60, 12 }, 20 },
	};
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct htw_setup_args setup = manual();
		struct model m = { .tick = 1000 };
		struct htw *htw;

		setup.tick_ns = m.tick;
		setup.levels = shapes[i].levels;
		for (j = 0; j < shapes[i].levels; j++)
			setup.slots[j] = shapes[i].slots[j];
		ASSERT_EQ(0, open_as(variant, &htw, &setup));
		run_model(_metadata, htw, &m, i + 1, 4000, shapes[i].range);
		htw_close(htw);
	}
}

/* Running clocks. */

static void expect_on_time(struct __test_metadata *_metadata, const struct htw_event *ev)
{
	EXPECT_LE(ev->deadline, ev->taken);
}

LIB_TEST(real_clocks)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };
	enum { COUNT = 200 };
	struct htw_event ev[32];
	uint64_t random = 5, id;
	unsigned int c;
	int i, n, got;

	for (c = 0; c < ARRAY_SIZE(clocks); c++) {
		const struct htw_setup_args setup = {
			.flags = HTW_SETUP_CLOCK, .clock = clocks[c],
		};
		bool seen[COUNT] = { };
		uint64_t last = 0;
		struct htw *htw;

		ASSERT_EQ(0, open_as(variant, &htw, &setup));
		for (i = 0; i < COUNT; i++)
			ASSERT_EQ(0, htw_after(htw, random_next(&random) % (100 * MSEC), i, &id));
		for (got = 0; got < COUNT; got += n) {
			ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
			n = htw_read(htw, ev, 32);
			for (i = 0; i < n; i++) {
				expect_on_time(_metadata, &ev[i]);
				EXPECT_GE(htw_now(htw), ev[i].taken);
				EXPECT_FALSE(seen[ev[i].cookie]);
				seen[ev[i].cookie] = true;
				last = ev[i].taken;
			}
		}
		EXPECT_LE(last, htw_now(htw));
		EXPECT_EQ(0, htw_wait(htw, 5 * MSEC));
		EXPECT_EQ(0, timers(htw));
		htw_close(htw);
	}
}

/* A tick of a second: what is due does not wait for it, and the rest is not early. */
LIB_TEST(at_once_with_a_coarse_tick)
{
	const struct htw_setup_args setup = {
		.tick_ns = SEC, .levels = 2, .slots = { 60, 60 },
	};
	struct htw_event ev[2];
	struct htw *htw;
	uint64_t id;

	ASSERT_EQ(0, open_as(variant, &htw, &setup));
	ASSERT_EQ(0, htw_after(htw, 0, 1, &id));
	ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
	ASSERT_EQ(1, htw_read(htw, ev, 2));
	expect_on_time(_metadata, &ev[0]);
	ASSERT_EQ(0, htw_after(htw, MSEC, 2, &id));
	ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
	ASSERT_EQ(1, htw_read(htw, ev, 2));
	expect_on_time(_metadata, &ev[0]);
	EXPECT_EQ(2, ev[0].cookie);
	htw_close(htw);
}

static void wait_until(struct htw *htw, uint64_t when)
{
	while (htw_now(htw) < when)
		usleep(1000);
}

/*
 * A deadline that has come does not overtake those that came before within the tick, however
 * many are still to be read.
 */
LIB_TEST(due_deadlines_stay_in_order)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_ORDERED,
		.tick_ns = 20 * MSEC, .levels = 2, .slots = { 60, 60 },
	};
	const unsigned int before[] = { 1, 32, 33, 100 };
	struct htw_event ev[102];
	unsigned int i, round;
	uint64_t when, id;

	for (round = 0; round < ARRAY_SIZE(before); round++) {
		const unsigned int count = before[round];
		struct htw *htw;
		unsigned int got = 0;
		int n;

		ASSERT_EQ(0, open_as(variant, &htw, &setup));
		ASSERT_EQ(0, htw_after(htw, 1, 0, &id));
		when = (htw_now(htw) / setup.tick_ns + 2) * setup.tick_ns + 5 * MSEC;
		wait_until(htw, when - 4 * MSEC);
		for (i = 1; i <= count; i++)
			ASSERT_EQ(0, htw_at(htw, when, i, &id));
		wait_until(htw, when + MSEC);
		ASSERT_EQ(0, htw_after(htw, 0, i, &id));
		while (got < count + 2) {
			ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
			n = htw_read(htw, ev + got, ARRAY_SIZE(ev) - got);
			ASSERT_LE(0, n);
			got += n;
		}
		for (i = 0; i < got; i++) {
			EXPECT_EQ(i, ev[i].cookie);
			EXPECT_GE(ev[i].taken, ev[i].deadline);
		}
		htw_close(htw);
	}
}

LIB_TEST(what_is_left_stays_readable)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct htw_event ev[16];
	struct htw *htw;
	uint64_t id;
	int i, n, ep, got;

	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, htw_fd(htw), &event));
	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, htw_after(htw, MSEC, i, &id));
	/* Level-triggered: one event at a time. */
	for (i = 0; i < 50; i += n) {
		ASSERT_EQ(1, epoll_wait(ep, &event, 1, EVENTUALLY / MSEC));
		n = htw_read(htw, ev, 1);
		ASSERT_LE(0, n);
	}
	/* Edge-triggered: until empty, then wait for the next. */
	event.events = EPOLLIN | EPOLLET;
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_MOD, htw_fd(htw), &event));
	for (got = 50; got < 100; ) {
		ASSERT_EQ(1, epoll_wait(ep, &event, 1, EVENTUALLY / MSEC));
		do {
			n = htw_read(htw, ev, 16);
			got += n;
		} while (n == 16);
	}
	EXPECT_EQ(0, htw_read(htw, ev, 16));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, htw_after(htw, 2 * MSEC, i, &id));
		do {
			ASSERT_EQ(1, epoll_wait(ep, &event, 1, EVENTUALLY / MSEC));
			n = htw_read(htw, ev, 16);
		} while (!n);
		EXPECT_EQ(1, n);
		EXPECT_EQ(id, ev[0].id);
	}
	close(ep);
	htw_close(htw);
}

/* A timer that is due before what the descriptor waits for. */
LIB_TEST(earlier_than_all)
{
	struct htw_event ev[2];
	struct htw *htw;
	uint64_t id;
	int i;

	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, htw_after(htw, HOUR / (i + 1), 7, &id));
		ASSERT_EQ(0, htw_after(htw, 3 * MSEC, i, &id));
		ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
		ASSERT_EQ(1, htw_read(htw, ev, 2));
		EXPECT_EQ(i, ev[0].cookie);
		expect_on_time(_metadata, &ev[0]);
		/* By moving an existing timer. */
		ASSERT_EQ(0, htw_after(htw, HOUR, i, &id));
		ASSERT_EQ(0, htw_rearm(htw, id, 2 * MSEC));
		ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
		ASSERT_EQ(1, htw_read(htw, ev, 2));
		EXPECT_EQ(id, ev[0].id);
	}
	EXPECT_EQ(5, htw_cancel_all(htw));
	htw_close(htw);
}

LIB_TEST(wait_ends)
{
	struct htw *htw;
	uint64_t begin, id;

	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	EXPECT_EQ(0, htw_wait(htw, 0));
	begin = monotonic();
	EXPECT_EQ(0, htw_wait(htw, 20 * MSEC));
	EXPECT_LE(begin + 20 * MSEC, monotonic());
	begin = htw_now(htw);
	ASSERT_EQ(0, htw_after(htw, 10 * MSEC, 0, &id));
	EXPECT_EQ(1, htw_wait(htw, -1));
	EXPECT_LE(begin + 10 * MSEC, htw_now(htw));
	EXPECT_EQ(1, htw_wait(htw, 0));
	EXPECT_EQ(0, htw_stop(htw, id));
	EXPECT_EQ(0, htw_wait(htw, 0));
	htw_close(htw);
}

/* Longer than a time_t of 32 bits has seconds: negative there, and zero. */
LIB_TEST(wait_for_a_century)
{
	const int64_t lengths[] = { 3LL << 30, 1LL << 32, INT64_MAX / SEC };
	struct htw_event event;
	struct htw *htw;
	size_t i;

	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		ASSERT_EQ(0, htw_after(htw, 10 * MSEC, 0, NULL));
		EXPECT_EQ(1, htw_wait(htw, lengths[i] * SEC));
		EXPECT_EQ(1, htw_read(htw, &event, 1));
	}
	htw_close(htw);
}

struct worker {
	struct htw *htw;
	uint64_t seed, added, stopped, late, read;
	int wrong;
};

/* Start, stop and read; each timer ends in one of two ways. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct htw_event ev[16];
	uint64_t ids[32];
	unsigned int round, i;
	int ret;

	for (round = 0; round < 400; round++) {
		for (i = 0; i < ARRAY_SIZE(ids); i++) {
			ret = htw_after(w->htw, random_next(&w->seed) % (4 * MSEC), w->seed,
					&ids[i]);
			w->wrong |= ret;
			w->added++;
		}
		for (i = 0; i < ARRAY_SIZE(ids); i += 2) {
			ret = htw_stop(w->htw, ids[i]);
			if (!ret)
				w->stopped++;
			else if (ret != -ENOENT)
				w->wrong |= ret;
		}
		ret = htw_read(w->htw, ev, 16);
		if (ret < 0)
			w->wrong |= ret;
		for (i = 0; (int)i < ret; i++) {
			w->read++;
			w->late += ev[i].taken < ev[i].deadline;
		}
	}
	return NULL;
}

LIB_TEST(threads)
{
	enum { THREADS = 4 };
	struct worker w[THREADS] = { };
	uint64_t added = 0, stopped = 0, read = 0;
	pthread_t thread[THREADS];
	struct htw_event ev[64];
	struct htw *htw;
	int i, n;

	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	for (i = 0; i < THREADS; i++) {
		w[i].htw = htw;
		w[i].seed = i + 1;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, work, &w[i]));
	}
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		EXPECT_EQ(0, w[i].wrong);
		EXPECT_EQ(0, w[i].late);
		added += w[i].added;
		stopped += w[i].stopped;
		read += w[i].read;
	}
	while (read + stopped < added) {
		ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
		n = htw_read(htw, ev, 64);
		ASSERT_LE(0, n);
		read += n;
	}
	EXPECT_EQ(added, read + stopped);
	EXPECT_EQ(0, htw_wait(htw, 10 * MSEC));
	EXPECT_EQ(0, timers(htw));
	htw_close(htw);
}

/* Enough timers that the process backend's array grows. */
LIB_TEST(a_hundred_thousand)
{
	enum { COUNT = 100000 };
	uint64_t *ids = calloc(COUNT, sizeof(*ids)), *deadlines = calloc(COUNT, sizeof(*ids));
	struct htw_event ev[256];
	uint64_t random = 3, before = 0;
	int i, n, got = 0;

	ASSERT_NE(NULL, ids);
	ASSERT_NE(NULL, deadlines);
	EXPECT_EQ(0, htw_reserve(self->htw, COUNT / 2));
	for (i = 0; i < COUNT; i++)
		deadlines[i] = random_next(&random) % HOUR;
	ASSERT_EQ(0, htw_add_many(self->htw, NULL, deadlines, deadlines, ids, COUNT, NULL));
	EXPECT_EQ(COUNT, timers(self->htw));
	EXPECT_EQ(1, htw_advance(self->htw, HOUR, 0));
	while (got < COUNT && POLLIN == poll_in(self->htw, EVENTUALLY / MSEC)) {
		n = htw_read(self->htw, ev, 256);
		ASSERT_LE(0, n);
		for (i = 0; i < n; i++) {
			EXPECT_EQ(ev[i].cookie, ev[i].deadline);
			EXPECT_LE(before / self->tick,
				  (ev[i].deadline + self->tick - 1) / self->tick);
			before = ev[i].deadline;
		}
		got += n;
	}
	EXPECT_EQ(COUNT, got);
	EXPECT_EQ(0, timers(self->htw));
	free(ids);
	free(deadlines);
}

/* What there is no descriptor for fails, and does not fall back to the process. */
LIB_TEST(no_more_descriptors)
{
	struct htw *none = (struct htw *)self;
	struct rlimit most, saved;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &saved));
	most = saved;
	most.rlim_cur = dup(STDOUT_FILENO);	/* the lowest that is free */
	ASSERT_EQ(0, close(most.rlim_cur));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &most));
	EXPECT_EQ(-EMFILE, htw_open(&none, variant->backend, NULL));
	if (variant->backend == HTW_BACKEND_DEVICE) {
		EXPECT_EQ(-EMFILE, htw_open(&none, HTW_BACKEND_ANY, NULL));
	} else {
		EXPECT_EQ(-EMFILE, htw_shard(&none, self->htw));
	}
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &saved));
	EXPECT_EQ((struct htw *)self, none);
}

/* Shards: a thread's own timers, and those of others by their ids. */

LIB_TEST(shards)
{
	uint64_t when = POISON;
	struct htw_timer_info query, entries[4];
	struct htw_cancel_args cancel = { };
	uint64_t ids[4], deadlines[4], mixed[4], own[4], cursor = 0;
	struct htw *a, *b, *none = (struct htw *)self;
	struct htw_event ev[4];
	int results[4];

	if (variant->backend == HTW_BACKEND_DEVICE) {
		EXPECT_EQ(-ENOTSUP, htw_shard(&none, self->htw));
		EXPECT_EQ((struct htw *)self, none);
		return;
	}
	ASSERT_EQ(0, htw_advance(self->htw, SEC, 0));
	ASSERT_EQ(0, htw_shard(&a, self->htw));
	ASSERT_EQ(0, htw_shard(&b, a));
	EXPECT_EQ(SEC, htw_now(b));
	EXPECT_EQ(HTW_BACKEND_PROCESS, htw_backend(a));
	EXPECT_NE(htw_fd(a), htw_fd(b));
	EXPECT_NE(htw_fd(a), htw_fd(self->htw));

	/* Each shard reports and reads its own. */
	own[0] = start_after(self->htw, 3 * SEC, 1);
	own[1] = start_after(a, 2 * SEC, 2);
	own[2] = start_after(b, SEC, 3);
	EXPECT_EQ(1, timers(a));
	EXPECT_EQ(0, htw_next_time(a, &when));
	EXPECT_LT(SEC, when);
	EXPECT_GE(3 * SEC, when);
	EXPECT_EQ(1, htw_list(b, &cursor, entries, 4));
	EXPECT_EQ(own[2], entries[0].id);
	EXPECT_EQ(1, htw_advance(a, SEC, 0));
	EXPECT_EQ(2 * SEC, htw_now(self->htw));
	EXPECT_EQ(0, htw_wait(a, 0));
	EXPECT_EQ(1, htw_wait(b, 0));
	EXPECT_EQ(0, htw_read(a, ev, 4));
	EXPECT_EQ(1, htw_read(b, ev, 4));
	EXPECT_EQ(own[2], ev[0].id);

	/* By an id, each finds those of all. */
	query = (struct htw_timer_info){ .id = own[1] };
	EXPECT_EQ(0, htw_query(b, &query));
	EXPECT_EQ(2, query.cookie);
	EXPECT_EQ(SEC, query.remaining);
	EXPECT_EQ(0, htw_rearm(b, own[1], 5 * SEC));
	EXPECT_EQ(0, htw_rearm(b, own[0], 4 * SEC));
	EXPECT_EQ(1, htw_advance(self->htw, 4 * SEC, 0));
	EXPECT_EQ(1, htw_read(self->htw, ev, 4));
	cancel.id = own[1];
	EXPECT_EQ(0, htw_cancel(self->htw, &cancel));
	EXPECT_EQ(SEC, cancel.remaining);
	EXPECT_EQ(-ENOENT, htw_stop(b, own[1]));
	EXPECT_EQ(-ENOENT, htw_stop(a, own[1]));

	/* Many at once, of several shards, and an id twice. */
	deadlines[0] = deadlines[1] = deadlines[2] = deadlines[3] = SEC;
	ASSERT_EQ(0, htw_add_many(a, NULL, deadlines, NULL, ids, 2, NULL));
	ASSERT_EQ(0, htw_add_many(b, NULL, deadlines, NULL, ids + 2, 2, NULL));
	mixed[0] = ids[2];
	mixed[1] = ids[0];
	mixed[2] = ids[1];
	mixed[3] = ids[2];
	deadlines[0] = deadlines[3] = 2 * SEC;
	EXPECT_EQ(0, htw_rearm_many(a, mixed, deadlines, 4, 0, results));
	EXPECT_EQ(1, htw_advance(a, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->htw, ids[0]));
	EXPECT_EQ(2, htw_stop_many(a, mixed, 4, results));
	EXPECT_EQ(0, results[0]);
	EXPECT_EQ(-ENOENT, results[1]);
	EXPECT_EQ(0, results[2]);
	EXPECT_EQ(-ENOENT, results[3]);
	EXPECT_EQ(0, htw_read(a, ev, 4));
	EXPECT_EQ(1, htw_read(b, ev, 4));
	EXPECT_EQ(ids[3], ev[0].id);

	/* A limit of its own; ids of a shard that was closed do not come back. */
	ids[0] = start_after(b, HOUR, 1);
	htw_close(b);
	EXPECT_EQ(-ENOENT, htw_stop(a, ids[0]));
	ASSERT_EQ(0, htw_shard(&b, self->htw));
	EXPECT_EQ(-ENOENT, htw_stop(a, ids[0]));
	EXPECT_EQ(-ENOENT, htw_stop(b, ids[0]));
	ids[1] = start_after(b, HOUR, 1);
	EXPECT_NE(ids[0], ids[1]);
	EXPECT_EQ(-ENOENT, htw_rearm(a, ids[0], 1));
	EXPECT_EQ(0, htw_stop(a, ids[1]));
}

/* As many as the process can have, whatever their limits; those that are closed make room. */
LIB_TEST(so_many_shards)
{
	static const uint64_t limits[] = { 1, 1 << 26 };
	enum { MOST = 4094 };
	struct htw_setup_args setup = manual();
	struct htw *htw, **shard = calloc(MOST + 1, sizeof(*shard));
	uint64_t id, *ids = calloc(MOST + 1, sizeof(*ids));
	struct rlimit saved, most;
	unsigned int i, k, opened, own = 1;	/* self->htw */

	if (variant->backend == HTW_BACKEND_DEVICE)
		SKIP(return, "the device has no shards");
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &saved));
	most = saved;
	if (most.rlim_max > 2 * MOST)
		most.rlim_cur = 2 * MOST;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &most));
	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		setup.limit = limits[i];
		ASSERT_EQ(0, open_as(variant, &htw, &setup));
		for (opened = 0; opened <= MOST; opened++) {
			shard[opened] = NULL;
			if (htw_shard(&shard[opened], htw))
				break;
			ids[opened] = start_after(shard[opened], SEC, opened);
			ASSERT_NE(0, ids[opened]);
			if (limits[i] == 1)
				EXPECT_EQ(-ENOSPC, htw_after(shard[opened], 1, 1, &id));
		}
		if (most.rlim_cur == 2 * MOST)
			EXPECT_EQ(MOST - own - 1, opened);
		EXPECT_EQ(-EMFILE, htw_shard(&shard[opened], htw));
		EXPECT_EQ(NULL, shard[opened]);
		EXPECT_EQ(-EMFILE, open_as(variant, &shard[opened], &setup));
		EXPECT_EQ(1, htw_advance(htw, SEC, 0));
		for (k = 0; k < opened; k += 7)
			EXPECT_EQ(0, htw_stop(htw, ids[k]));
		htw_close(shard[3]);
		EXPECT_EQ(0, htw_shard(&shard[3], htw));
		EXPECT_EQ(-ENOENT, htw_stop(htw, ids[3]));
		htw_close(htw);
	}
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &saved));
	free(shard);
	free(ids);
}

enum { SHARD_THREADS = 4, SHARD_TIMERS = 64, SHARD_ROUNDS = 1500 };

struct shard_thread {
	struct htw *htw, *shard;
	uint64_t seed, added, stopped, read, moved;
	uint64_t ids[SHARD_TIMERS];	/* for others to stop; accessed atomically */
	struct shard_thread *all;
	pthread_barrier_t *barrier;
	int wrong;
};

/* Each timer is started in the thread's own shard, and stopped by whichever thread. */
static void *use_shard(void *arg)
{
	struct shard_thread *t = arg, *other;
	struct htw_event ev[16];
	unsigned int round, i;
	uint64_t id;
	int ret;

	t->wrong |= htw_shard(&t->shard, t->htw);
	pthread_barrier_wait(t->barrier);
	for (round = 0; round < SHARD_ROUNDS && !t->wrong; round++) {
		i = random_next(&t->seed) % SHARD_TIMERS;
		other = t;
		if (random_next(&t->seed) % 4 == 0)
			other = &t->all[random_next(&t->seed) % SHARD_THREADS];
		t->wrong |= htw_after(t->shard, random_next(&t->seed) % (3 * MSEC), 1, &id);
		t->added++;
		__atomic_store_n(&t->ids[i], id, __ATOMIC_RELAXED);
		id = __atomic_load_n(&other->ids[random_next(&t->seed) % SHARD_TIMERS],
				     __ATOMIC_RELAXED);
		if (round % 3 == 0) {
			ret = htw_rearm(t->shard, id, random_next(&t->seed) % (3 * MSEC));
			t->moved += !ret;
		} else {
			ret = round % 2 ? htw_stop(t->shard, id) :
					  (htw_stop_many(t->shard, &id, 1, &ret), ret);
			t->stopped += !ret;
		}
		if (ret && ret != -ENOENT)
			t->wrong |= ret;
		ret = htw_read(t->shard, ev, ARRAY_SIZE(ev));
		t->wrong |= ret < 0;
		t->read += ret;
		while (ret--)
			t->wrong |= ev[ret].taken < ev[ret].deadline;
	}
	pthread_barrier_wait(t->barrier);
	while (!t->wrong && timers(t->shard)) {
		t->wrong |= htw_wait(t->shard, EVENTUALLY) != 1;
		t->read += htw_read(t->shard, ev, ARRAY_SIZE(ev));
	}
	/* No thread waits for a timer any more that another one stops here. */
	pthread_barrier_wait(t->barrier);
	/* Others may still use ids of this shard. */
	for (round = 0; round < 100; round++) {
		id = __atomic_load_n(&t->all[round % SHARD_THREADS].ids[round % SHARD_TIMERS],
				     __ATOMIC_RELAXED);
		t->stopped += !htw_stop(t->shard, id);
	}
	htw_close(t->shard);
	return NULL;
}

LIB_TEST(a_shard_for_each_thread)
{
	static struct shard_thread t[SHARD_THREADS];
	uint64_t added = 0, stopped = 0, read = 0, moved = 0;
	pthread_t thread[SHARD_THREADS];
	pthread_barrier_t barrier;
	struct htw *htw;
	unsigned int i;

	if (variant->backend == HTW_BACKEND_DEVICE)
		SKIP(return, "the device has no shards");
	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, SHARD_THREADS));
	for (i = 0; i < SHARD_THREADS; i++) {
		t[i] = (struct shard_thread){ .htw = htw, .seed = i + 1, .all = t,
					      .barrier = &barrier };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, use_shard, &t[i]));
	}
	for (i = 0; i < SHARD_THREADS; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	for (i = 0; i < SHARD_THREADS; i++) {
		EXPECT_EQ(0, t[i].wrong);
		moved += t[i].moved;
		added += t[i].added;
		stopped += t[i].stopped;
		read += t[i].read;
	}
	EXPECT_EQ(added, stopped + read);
	EXPECT_EQ(0, timers(htw));
	pthread_barrier_destroy(&barrier);
	htw_close(htw);
	if (!moved)
		SKIP(return, "no timer of another thread was met while it was pending");
}

/* A timer that is due keeps what it was started with, and says what it has missed. */
LIB_TEST(due_and_queried)
{
	static const struct {
		uint64_t interval;
		uint32_t firings, flags;
		uint64_t late, missed;
	} cases[] = {
		{ 0, 0, 0, SEC, 0 },
		{ 0, 0, HTW_F_KEEP, SEC, 0 },
		{ SEC, 0, 0, 3 * SEC, 3 },
		{ SEC, 0, HTW_F_KEEP, 3 * SEC, 3 },
		{ SEC, 10, HTW_F_KEEP, 3 * SEC, 3 },
		{ SEC, 3, 0, 10 * SEC, 2 },
		{ 1, 0, HTW_F_KEEP, 5000000 * SEC, 5000000 * SEC },
		{ 1, ~0U, 0, 5000000 * SEC, ~0U - 1 },
		{ 1, 1U << 31, HTW_F_KEEP, 5000000 * SEC, (1U << 31) - 1 },
	};
	struct htw_setup_args setup = manual();
	struct htw_event ev[2];
	struct htw_timer_info query;
	struct htw_cancel_args cancel;
	unsigned int i, round;
	struct htw *htw;

	setup.tick_ns = 1;
	setup.levels = 3;
	setup.slots[0] = setup.slots[1] = setup.slots[2] = 64;
	ASSERT_EQ(0, open_as(variant, &htw, &setup));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct htw_add_args add = {
			.deadline = SEC, .interval = cases[i].interval, .slack = 12345,
			.cookie = i, .flags = cases[i].flags, .firings = cases[i].firings,
		};
		uint64_t due = htw_now(htw) + SEC;

		ASSERT_EQ(0, htw_add(htw, &add));
		EXPECT_EQ(1, htw_advance(htw, 2 * SEC, 0));
		EXPECT_EQ(1, htw_advance(htw, due + cases[i].late, HTW_F_ABS));
		for (round = 0; round < 2; round++) {
			query = (struct htw_timer_info){ .id = add.id };
			EXPECT_EQ(0, htw_query(htw, &query));
			EXPECT_EQ(HTW_STATE_DUE, query.state);
			EXPECT_EQ(due, query.deadline);
			EXPECT_EQ(0, query.remaining);
			EXPECT_EQ(cases[i].interval, query.interval);
			EXPECT_EQ(cases[i].firings, query.firings);
			EXPECT_EQ(cases[i].flags, query.flags);
			EXPECT_EQ(cases[i].missed, query.missed);
			EXPECT_EQ(i, query.cookie);
		}
		cancel = (struct htw_cancel_args){ .id = add.id, .remaining = POISON,
						   .missed = POISON, .cookie = POISON };
		EXPECT_EQ(0, htw_cancel(htw, &cancel));
		EXPECT_EQ(HTW_STATE_DUE, cancel.state);
		EXPECT_EQ(cases[i].missed, cancel.missed);
		EXPECT_EQ(0, cancel.remaining);
		EXPECT_EQ(i, cancel.cookie);
		EXPECT_EQ(-ENOENT, htw_rearm(htw, add.id, SEC));
		EXPECT_EQ(0, htw_read(htw, ev, 2));
		EXPECT_EQ(-ENOENT, htw_stop(htw, add.id));
		EXPECT_EQ(0, timers(htw));
	}
	htw_close(htw);
}

/* Slack has 26 significant bits, on each backend. */
LIB_TEST(slack_is_rounded_alike)
{
	static const uint64_t slacks[] = {
		0x3ffffff, 0x3fffffe, 0x7fffffe, 0x7ffffff, 0x3ffffff000, 0x3fffffff000,
		0x200000000001, 0x3ffffffULL << 34,
	};
	struct htw_setup_args setup = manual();
	struct htw_event ev[2];
	unsigned int i;

	setup.tick_ns = 1;
	setup.levels = 7;
	for (i = 0; i < 7; i++)
		setup.slots[i] = 256;
	for (i = 0; i < ARRAY_SIZE(slacks); i++) {
		const uint64_t slack = slacks[i];
		const unsigned int bits = 64 - __builtin_clzll(slack);
		const uint64_t kept = bits > 26 ? slack >> (bits - 26) << (bits - 26) : slack;
		/* The last tick that the slack allows is the roundest. */
		const uint64_t round = 1ULL << (bits + 1);
		struct htw_add_args add = {
			.deadline = round - kept,
			.slack = slack,
			.flags = HTW_F_ABS,
		};
		struct htw *htw;

		ASSERT_EQ(0, open_as(variant, &htw, &setup));
		ASSERT_EQ(0, htw_add(htw, &add));
		EXPECT_EQ(0, htw_advance(htw, round - 1, HTW_F_ABS)) TH_LOG("slack %u", i);
		EXPECT_EQ(1, htw_advance(htw, round, HTW_F_ABS));
		EXPECT_EQ(1, htw_read(htw, ev, 2));
		htw_close(htw);
	}
}

/* Fields that the documentation says are ignored; and counts of zero. */
LIB_TEST(ignored_and_empty)
{
	struct htw_add_args common = {
		.id = 1, .deadline = 2, .interval = SEC, .cookie = 3, .firings = 2,
	};
	uint64_t deadline = SEC, id = POISON, cursor = 0;
	struct htw_timer_info query;
	int result = 77;

	EXPECT_EQ(0, htw_add_many(self->htw, &common, &deadline, NULL, &id, 1, &result));
	EXPECT_EQ(0, result);
	query = (struct htw_timer_info){ .id = id };
	EXPECT_EQ(0, htw_query(self->htw, &query));
	EXPECT_EQ(SEC, query.deadline);
	EXPECT_EQ(SEC, query.interval);
	EXPECT_EQ(0, query.cookie);
	EXPECT_EQ(2, query.firings);

	EXPECT_EQ(0, htw_add_many(self->htw, NULL, NULL, NULL, NULL, 0, NULL));
	EXPECT_EQ(0, htw_add_many(self->htw, &common, NULL, NULL, NULL, 0, NULL));
	EXPECT_EQ(0, htw_rearm_many(self->htw, NULL, NULL, 0, 0, NULL));
	EXPECT_EQ(0, htw_stop_many(self->htw, NULL, 0, NULL));
	EXPECT_EQ(0, htw_read(self->htw, NULL, 0));
	EXPECT_EQ(0, htw_list(self->htw, &cursor, NULL, 0));
	cursor = 0;
	EXPECT_EQ(0, htw_harvest(self->htw, &cursor, NULL, 0));
	/* What is invalid for any count. */
	common.interval = 0;
	EXPECT_EQ(-EINVAL, htw_add_many(self->htw, &common, NULL, NULL, NULL, 0, NULL));
	EXPECT_EQ(-EINVAL, htw_rearm_many(self->htw, NULL, NULL, 0, HTW_F_KEEP, NULL));
	EXPECT_EQ(1, timers(self->htw));

	for (cursor = 1ULL << 32; cursor; cursor <<= 1) {
		const uint64_t before = cursor;

		EXPECT_EQ(-EINVAL, htw_list(self->htw, &cursor, &query, 1));
		EXPECT_EQ(-EINVAL, htw_list_in(self->htw, HTW_LIST_PENDING, &cursor, &query, 1));
		EXPECT_EQ(-EINVAL, htw_harvest(self->htw, &cursor, &query, 1));
		EXPECT_EQ(before, cursor);
	}
	cursor = ~0U;
	EXPECT_EQ(0, htw_list(self->htw, &cursor, &query, 1));
}

static void interrupt(int signal)
{
}

/* Errors are results; errno stays as it was. */
LIB_TEST(errno_is_left_alone)
{
	const struct htw_setup_args wrong = { .event_size = 1 };
	const struct sigaction act = { .sa_handler = interrupt };
	const struct itimerval soon = { .it_value.tv_usec = 1000, .it_interval.tv_usec = 1000 };
	const struct itimerval never = { };
	struct htw *htw = NULL, *real;
	struct htw_setup_args small = manual();
	uint64_t ids[2] = { 1, 2 }, deadlines[2] = { }, cursor = 1ULL << 40, id;
	struct htw_timer_info query = { .id = 1 };
	struct htw_dispatcher *d;
	struct htw_event ev[2];
	struct htw_info_args info;
	int fd[2], ret;

	ASSERT_EQ(0, pipe(fd));
	ASSERT_EQ(0, open_as(variant, &real, NULL));
	small.limit = 1;
#define EXPECT_LEAVES_ERRNO(call) do {	\
	errno = 4711;			\
	(void)(call);			\
	EXPECT_EQ(4711, errno);		\
} while (0)
	EXPECT_LEAVES_ERRNO(htw_open(&htw, variant->backend, &wrong));
	EXPECT_LEAVES_ERRNO(htw_open(&htw, HTW_BACKEND_ANY, &wrong));
	EXPECT_LEAVES_ERRNO(htw_open_fd(&htw, -1));
	EXPECT_LEAVES_ERRNO(htw_open_fd(&htw, fd[0]));
	EXPECT_EQ(NULL, htw);
	EXPECT_LEAVES_ERRNO(open_as(variant, &htw, &small));
	EXPECT_LEAVES_ERRNO(htw_reserve(htw, 1));
	EXPECT_LEAVES_ERRNO(htw_after(htw, SEC, 1, &id));
	EXPECT_LEAVES_ERRNO(htw_after(htw, SEC, 1, &ids[0]));
	EXPECT_LEAVES_ERRNO(htw_every(htw, SEC, 1, 1, &ids[0]));
	ids[0] = 5;
	EXPECT_LEAVES_ERRNO(htw_add_many(htw, &(struct htw_add_args){ .flags = 1 << 9 }, deadlines,
					 NULL, ids, 2, NULL));
	EXPECT_LEAVES_ERRNO(htw_add_many(htw, NULL, deadlines, NULL, ids, 2, NULL));
	EXPECT_LEAVES_ERRNO(htw_rearm_many(htw, ids, deadlines, 2, 0, NULL));
	EXPECT_LEAVES_ERRNO(htw_stop_many(htw, ids, 2, NULL));
	EXPECT_LEAVES_ERRNO(htw_stop(htw, 5));
	EXPECT_LEAVES_ERRNO(htw_rearm(htw, 5, 1));
	EXPECT_LEAVES_ERRNO(htw_query(htw, &query));
	EXPECT_LEAVES_ERRNO(htw_next_time(htw, &id));
	EXPECT_LEAVES_ERRNO(htw_list(htw, &cursor, &query, 1));
	EXPECT_LEAVES_ERRNO(htw_harvest(htw, &cursor, &query, 1));
	EXPECT_LEAVES_ERRNO(htw_cancel_all(htw));
	EXPECT_LEAVES_ERRNO(htw_advance(htw, 0, 99));
	EXPECT_LEAVES_ERRNO(htw_advance(real, 1, 0));
	EXPECT_LEAVES_ERRNO(htw_info(htw, &info));
	EXPECT_LEAVES_ERRNO(htw_read(htw, ev, 2));
	EXPECT_LEAVES_ERRNO(htw_wait(htw, 0));
	EXPECT_LEAVES_ERRNO(htw_put_off(htw, id, 1));
	EXPECT_LEAVES_ERRNO(htw_close(htw));

	ASSERT_EQ(0, htw_dispatcher_new(&d, real));
	EXPECT_LEAVES_ERRNO(htw_dispatch(d, 0));
	EXPECT_LEAVES_ERRNO(htw_call_stop(d, 5));
	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &soon, NULL));
	EXPECT_LEAVES_ERRNO(ret = htw_wait(real, EVENTUALLY));
	EXPECT_EQ(-EINTR, ret);
	EXPECT_LEAVES_ERRNO(ret = htw_dispatch(d, EVENTUALLY));
	EXPECT_EQ(-EINTR, ret);
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
	EXPECT_LEAVES_ERRNO(htw_dispatcher_free(d));
	EXPECT_LEAVES_ERRNO(htw_close(real));
	close(fd[0]);
	close(fd[1]);
}

/* On a running clock: the timer is due when its time has come, whether or not it was read. */
static void wait_overdue(struct __test_metadata *_metadata, struct htw *htw, uint64_t id)
{
	struct htw_timer_info query = { .id = id };
	uint64_t end = monotonic() + EVENTUALLY;

	ASSERT_EQ(0, htw_query(htw, &query));
	while (htw_now(htw) < query.deadline + 3 * MSEC)
		usleep(1000);
	/* The kernel may be late. */
	do {
		query = (struct htw_timer_info){ .id = id };
		if (htw_query(htw, &query))
			return;
	} while (htw_backend(htw) == HTW_BACKEND_DEVICE && query.state == HTW_STATE_PENDING &&
		 monotonic() < end);
}

LIB_TEST(overdue_is_due)
{
	struct htw_timer_info query, entries[4];
	uint64_t cursor = 0, id, other;
	struct htw_event ev[4];
	struct htw *htw;
	uint64_t when;
	bool listed;
	int way, n;

	for (way = 0; way < 6; way++) {
		ASSERT_EQ(0, open_as(variant, &htw, NULL));
		ASSERT_EQ(0, htw_after(htw, 2 * HOUR, 2, &other));
		ASSERT_EQ(0, htw_after(htw, 1 * MSEC, 1, &id));
		if (way && variant->backend == HTW_BACKEND_DEVICE)
			wait_overdue(_metadata, htw, id);
		wait_until(htw, htw_now(htw) + 5 * MSEC);
		switch (way) {
		case 0:
			wait_overdue(_metadata, htw, id);
			query = (struct htw_timer_info){ .id = id };
			EXPECT_EQ(0, htw_query(htw, &query));
			EXPECT_EQ(HTW_STATE_DUE, query.state);
			EXPECT_EQ(0, query.remaining);
			break;
		case 1:
			cursor = 0;
			n = htw_list(htw, &cursor, entries, 4);
			ASSERT_EQ(2, n);
			for (listed = false; n--; )
				listed |= entries[n].id == id &&
					  entries[n].state == HTW_STATE_DUE;
			EXPECT_TRUE(listed);
			cursor = 0;
			ASSERT_EQ(1, htw_list_in(htw, HTW_LIST_DUE, &cursor, entries, 4));
			EXPECT_EQ(id, entries[0].id);
			cursor = 0;
			ASSERT_EQ(1, htw_list_in(htw, HTW_LIST_PENDING, &cursor, entries, 4));
			EXPECT_EQ(other, entries[0].id);
			break;
		case 2:
			cursor = 0;
			n = htw_harvest(htw, &cursor, entries, 4);
			ASSERT_EQ(2, n);
			break;
		case 3:
			ASSERT_EQ(0, htw_next_time(htw, &when));
			EXPECT_GE(htw_now(htw), when);
			break;
		case 4:
			ASSERT_EQ(0, htw_stop(htw, id));
			break;
		case 5:
			EXPECT_EQ(2, htw_cancel_all(htw));
			break;
		}
		if (way == 2 || way == 4 || way == 5) {
			EXPECT_EQ(0, htw_read(htw, ev, 4));
			htw_close(htw);
			continue;
		}
		/* Its event is still to be read, and says so. */
		EXPECT_EQ(POLLIN, poll_in(htw, EVENTUALLY / MSEC));
		ASSERT_EQ(1, htw_read(htw, ev, 4));
		EXPECT_EQ(id, ev[0].id);
		EXPECT_EQ(0, htw_read(htw, ev, 4));
		EXPECT_EQ(0, poll_in(htw, 0));
		htw_close(htw);
	}
}

/* Less than there was room for means that nothing is left, or that the descriptor is readable. */
LIB_TEST(a_short_read_leaves_nothing)
{
	enum { COUNT = 30000 };
	static struct htw_event ev[COUNT + 1];
	static uint64_t deadlines[COUNT], ids[COUNT];
	struct htw_setup_args setup = {
		.limit = COUNT,
		.tick_ns = 100 * USEC, .levels = 6, .slots = { 4, 4, 4, 4, 4, 4 },
	};
	unsigned int room[] = { COUNT + 1, 1000, 257, 20000 }, i, r;
	struct htw *htw;
	int n, got;

	for (r = 0; r < ARRAY_SIZE(room); r++) {
		ASSERT_EQ(0, open_as(variant, &htw, &setup));
		/* In an upper level; all on one tick and moved down together. */
		deadlines[0] = htw_now(htw) + 400 * MSEC;
		for (i = 1; i < COUNT; i++)
			deadlines[i] = deadlines[0];
		ASSERT_EQ(0, htw_add_many(htw, &(struct htw_add_args){ .flags = HTW_F_ABS },
					  deadlines, NULL, ids, COUNT, NULL));
		wait_until(htw, deadlines[0] + 10 * MSEC);
		for (got = 0; got < COUNT; got += n) {
			n = htw_read(htw, ev, room[r]);
			ASSERT_LE(0, n);
			/* Nothing is left; or the descriptor says that there may be more. */
			if (n < room[r] && got + n < COUNT)
				EXPECT_EQ(POLLIN, poll_in(htw, 10000));
		}
		EXPECT_EQ(COUNT, got);
		htw_close(htw);
	}
}

/* No event of a timer that was stopped is left. */
LIB_TEST(stopped_with_earlier_events)
{
	struct htw_cancel_args cancel = { };
	enum { OTHERS = 67 };
	struct htw_event ev[2 * OTHERS];
	int round, i, n, ret;
	uint64_t id;

	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, htw_every(self->htw, SEC, SEC, 7, &id));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		for (i = 0; i < OTHERS; i++)
			ASSERT_NE(0, start_after(self->htw, 0, i % 5));
		htw_advance(self->htw, SEC, 0);
		cancel.id = id;
		if (round) {
			EXPECT_EQ(0, htw_stop_many(self->htw, &id, 1, &ret));
		} else {
			ret = htw_cancel(self->htw, &cancel);
		}
		EXPECT_EQ(0, ret);
		n = htw_read(self->htw, ev, ARRAY_SIZE(ev));
		EXPECT_EQ(OTHERS, n);
		for (i = 0; i < n; i++)
			EXPECT_NE(id, ev[i].id);
		EXPECT_EQ(0, timers(self->htw));
	}
}

/* Zero is no id, whatever there is to be read. */
LIB_TEST(no_id)
{
	struct htw_cancel_args cancel = { };
	uint64_t ids[2] = { };
	struct htw_event ev;
	int results[2];

	ASSERT_EQ(0, htw_every(self->htw, SEC, SEC, 7, &ids[1]));
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->htw, ids[1]));
	EXPECT_EQ(-ENOENT, htw_stop(self->htw, 0));
	EXPECT_EQ(-ENOENT, htw_cancel(self->htw, &cancel));
	EXPECT_EQ(0, cancel.cookie);
	ids[1] = 0;
	EXPECT_EQ(2, htw_stop_many(self->htw, ids, 2, results));
	EXPECT_EQ(-ENOENT, results[0]);
	EXPECT_EQ(-ENOENT, results[1]);
	EXPECT_EQ(0, htw_read(self->htw, &ev, 1));
}

/* htw_cancel_all() leaves no event. */
LIB_TEST(cancelled_with_earlier_events)
{
	enum { OTHERS = 64 };
	struct htw_event ev[2 * OTHERS];
	struct htw_add_args add;
	unsigned int round;
	int i;

	for (round = 0; round < 2; round++) {
		/* It ends by itself in the second round. */
		add = (struct htw_add_args){
			.deadline = SEC, .interval = SEC, .firings = 2 * round,
		};
		ASSERT_EQ(0, htw_add(self->htw, &add));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		for (i = 0; i < OTHERS && !round; i++)
			ASSERT_NE(0, start_after(self->htw, 0, i));
		htw_advance(self->htw, SEC, 0);
		EXPECT_LE(1, htw_cancel_all(self->htw));
		EXPECT_EQ(0, htw_read(self->htw, ev, ARRAY_SIZE(ev)));
		EXPECT_EQ(0, timers(self->htw));
	}
}

/* An edge-triggered loop that goes to sleep on a short read, with signals. */
LIB_TEST(edges_and_signals)
{
	enum { COUNT = 20000 };
	const struct itimerval often = { .it_value.tv_usec = 200, .it_interval.tv_usec = 200 };
	const struct sigaction act = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	const struct itimerval never = { };
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	static uint64_t deadlines[COUNT], ids[COUNT];
	static struct htw_event ev[1000];
	int ep, n, got;
	struct htw *htw;
	unsigned int i;

	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	ASSERT_EQ(0, open_as(variant, &htw, NULL));
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, htw_fd(htw), &event));
	for (i = 0; i < COUNT; i++)
		deadlines[i] = i % 7 * 3 * MSEC;
	ASSERT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, COUNT, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
	for (got = 0; got < COUNT; ) {
		n = epoll_wait(ep, &event, 1, EVENTUALLY / MSEC);
		if (n < 0 && errno == EINTR)
			continue;
		ASSERT_EQ(1, n);
		do {
			n = htw_read(htw, ev, ARRAY_SIZE(ev));
			got += n;
		} while (n == ARRAY_SIZE(ev));
	}
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
	EXPECT_EQ(COUNT, got);
	close(ep);
	htw_close(htw);
}

/* What is refused as a whole leaves the arrays as they were. */
LIB_TEST(refused_as_a_whole)
{
	const struct htw_add_args wrong[] = {
		{ .flags = 1 << 9 }, { .firings = 1 },
	};
	const uint64_t deadlines[2] = { SEC, SEC };
	uint64_t ids[2] = { POISON, POISON };
	int results[2] = { 4711, 4711 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++)
		EXPECT_EQ(-EINVAL, htw_add_many(self->htw, &wrong[i], deadlines, NULL, ids, 2,
						results));
	EXPECT_EQ(-EINVAL, htw_rearm_many(self->htw, ids, deadlines, 2, 2, results));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(POISON, ids[i]);
		EXPECT_EQ(4711, results[i]);
	}
	EXPECT_EQ(0, timers(self->htw));
}

LIB_TEST(two_handles_of_one_descriptor)
{
	struct htw_event ev[2];
	struct htw *other;
	uint64_t id;

	if (variant->backend != HTW_BACKEND_DEVICE)
		SKIP(return, "the process backend has no descriptor to pass on");
	ASSERT_EQ(0, htw_open_fd(&other, dup(htw_fd(self->htw))));
	EXPECT_EQ(HTW_BACKEND_DEVICE, htw_backend(other));
	id = start_after(self->htw, SEC, 4);
	EXPECT_EQ(1, timers(other));
	EXPECT_EQ(0, htw_rearm(other, id, 2 * SEC));
	EXPECT_EQ(1, htw_advance(other, 2 * SEC, 0));
	EXPECT_EQ(1, htw_read(other, ev, 2));
	EXPECT_EQ(0, htw_read(self->htw, ev, 2));
	EXPECT_EQ(id, ev[0].id);
	id = start_after(self->htw, SEC, 5);
	htw_close(other);
	EXPECT_EQ(1, timers(self->htw));
	EXPECT_EQ(0, htw_stop(self->htw, id));
}

/* The ids may take the place of the deadlines, or of the cookies; and nobody needs to have one. */
LIB_TEST(arrays_that_are_the_same)
{
	enum { COUNT = 700 };
	const struct htw_add_args commons[] = {
		{ }, { .flags = HTW_F_PUT_OFF }, { .interval = HOUR }, { .slack = SEC },
		{ .flags = HTW_F_ABS },
	};
	uint64_t ids[COUNT], others[COUNT];
	struct htw_setup_args setup = manual();
	struct htw_timer_info query;
	unsigned int i, c, way;
	int results[COUNT];
	struct htw *htw;

	setup.limit = COUNT - 20;
	for (c = 0; c < ARRAY_SIZE(commons); c++) {
		for (way = 0; way < 3; way++) {
			ASSERT_EQ(0, open_as(variant, &htw, &setup));
			for (i = 0; i < COUNT; i++) {
				ids[i] = HOUR + i;
				others[i] = way == 1 ? HOUR + i : i;
			}
			/* As deadlines; as cookies; as both. */
			EXPECT_EQ(20, htw_add_many(htw, &commons[c], way == 1 ? others : ids,
						   way == 0 ? others : ids, ids, COUNT, results));
			for (i = 0; i < COUNT; i++) {
				EXPECT_EQ(i < COUNT - 20 ? 0 : -ENOSPC, results[i]);
				EXPECT_EQ(i < COUNT - 20, !!ids[i]);
				if (!ids[i])
					continue;
				query = (struct htw_timer_info){ .id = ids[i] };
				ASSERT_EQ(0, htw_query(htw, &query));
				EXPECT_EQ(HOUR + i, query.deadline);
				EXPECT_EQ(way ? HOUR + i : i, query.cookie);
			}
			htw_close(htw);
		}
	}
	EXPECT_EQ(0, htw_after(self->htw, HOUR, 1, NULL));
	EXPECT_EQ(0, htw_at(self->htw, HOUR, 1, NULL));
	EXPECT_EQ(0, htw_every(self->htw, HOUR, HOUR, 1, NULL));
	EXPECT_EQ(0, htw_timeout(self->htw, HOUR, 1, NULL));
	EXPECT_EQ(4, timers(self->htw));
}

/* A read returns what was due when it began, so that a loop over it ends. */
LIB_TEST(a_read_ends)
{
	struct htw_event ev[64];
	unsigned int i, round;
	struct htw *htw;
	int n;

	for (round = 0; round < 2; round++) {
		htw = self->htw;
		if (round)
			ASSERT_EQ(0, open_as(variant, &htw, NULL));
		for (i = 0; i < 64; i++)
			ASSERT_NE(0, start_after(htw, 0, i));
		/* Each of them starts another one, at once. */
		for (i = 0; i < 10; i++) {
			ASSERT_EQ(1, htw_wait(htw, EVENTUALLY));
			n = htw_read(htw, ev, 64);
			EXPECT_GE(64, n);
			while (n-- > 0)
				ASSERT_NE(0, start_after(htw, 0, n));
			EXPECT_EQ(64, timers(htw));
		}
		if (round)
			htw_close(htw);
	}
}

TEST(versions_and_choices)
{
	struct htw_event ev;
	uint64_t when;
	struct htw *htw;
	int fd[2];

	EXPECT_EQ(0, strncmp(htw_version(), "0.", 2));
	htw_close(NULL);
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_ANY, NULL));
	EXPECT_EQ(access("/dev/htw", R_OK | W_OK) ? HTW_BACKEND_PROCESS : HTW_BACKEND_DEVICE,
		  htw_backend(htw));
	htw_close(htw);
	EXPECT_EQ(-EBADF, htw_open_fd(&htw, -1));
	ASSERT_EQ(0, pipe(fd));
	EXPECT_EQ(-EINVAL, htw_open_fd(&htw, fd[0]));
	EXPECT_EQ(0, close(fd[0]));	/* fd[0] is still ours */
	close(fd[1]);
	if (!access("/dev/htw", R_OK | W_OK)) {
		fd[0] = open("/dev/htw", O_WRONLY | O_CLOEXEC);
		EXPECT_EQ(-EBADF, htw_open_fd(&htw, fd[0]));
		EXPECT_EQ(0, close(fd[0]));
		ASSERT_EQ(0, htw_open_fd(&htw, open("/dev/htw", O_RDONLY | O_CLOEXEC)));
		EXPECT_EQ(-EBADF, htw_after(htw, 0, 1, NULL));
		EXPECT_EQ(-EBADF, htw_stop(htw, 1));
		EXPECT_EQ(-ENOENT, htw_next_time(htw, &when));
		EXPECT_EQ(0, htw_wait(htw, 0));
		EXPECT_EQ(0, htw_read(htw, &ev, 1));
		htw_close(htw);
	}
	/* An error is returned, without falling back to the process backend. */
	if (!access("/dev/htw", R_OK | W_OK))
		EXPECT_EQ(-EINVAL, htw_open(&htw, HTW_BACKEND_ANY,
					    &(struct htw_setup_args){ .clock = CLOCK_BOOTTIME }));
}

TEST_HARNESS_MAIN
