// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw: timers that are put off by a store, on each backend
 *
 * Where time matters it is the manual clock's, so the expectations are exact.
 * Outside of a VM: put-off-test -v process.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../libhtw.h"
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#define HOUR		(3600 * HTW_SEC)
#define SEC		HTW_SEC

/* A timeout for slow, emulated machines; never a measurement. */
#define EVENTUALLY	(90 * (int64_t)SEC)
#define TEST_SECONDS	240

static struct htw_setup_args manual(void)
{
	return (struct htw_setup_args){ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
}

FIXTURE(put_off) {
	struct htw *htw;
};

FIXTURE_VARIANT(put_off) {
	enum htw_backend backend;
};

FIXTURE_VARIANT_ADD(put_off, process) {
	.backend = HTW_BACKEND_PROCESS,
};

FIXTURE_VARIANT_ADD(put_off, device) {
	.backend = HTW_BACKEND_DEVICE,
};

FIXTURE_SETUP(put_off)
{
	const struct htw_setup_args setup = manual();

	ASSERT_EQ(0, htw_open(&self->htw, variant->backend, &setup));
}

FIXTURE_TEARDOWN(put_off)
{
	htw_close(self->htw);
}

#define PUT_OFF_TEST(name)	TEST_F_TIMEOUT(put_off, name, TEST_SECONDS)

static uint64_t timers(struct htw *htw)
{
	struct htw_info_args info;

	return htw_info(htw, &info) ? ~0ULL : info.timers;
}

static uint64_t start(struct htw *htw, uint64_t ns, uint64_t cookie)
{
	uint64_t id;

	return htw_timeout(htw, ns, cookie, &id) ? 0 : id;
}

/* This is no timer any more, for any call. */
static void expect_ended(struct __test_metadata *_metadata, struct htw *htw, uint64_t id)
{
	const uint64_t when = SEC;
	int result = 0;

	EXPECT_EQ(-ENOENT, htw_put_off(htw, id, HOUR));
	EXPECT_EQ(-ENOENT, htw_put_off_inline(htw, id, HOUR));
	EXPECT_EQ(-ENOENT, htw_query(htw, &(struct htw_timer_info){ .id = id }));
	EXPECT_EQ(-ENOENT, htw_rearm(htw, id, SEC));
	EXPECT_EQ(-ENOENT, htw_mod(htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_COOKIE,
	}));
	EXPECT_EQ(1, htw_rearm_many(htw, &id, &when, 1, 0, &result));
	EXPECT_EQ(-ENOENT, result);
	result = 0;
	EXPECT_EQ(1, htw_stop_many(htw, &id, 1, &result));
	EXPECT_EQ(-ENOENT, result);
	EXPECT_EQ(-ENOENT, htw_cancel(htw, &(struct htw_cancel_args){ .id = id }));
	EXPECT_EQ(-ENOENT, htw_stop(htw, id));
}

/* Exactly one event, the last of this timer. */
static void expect_event(struct __test_metadata *_metadata, struct htw *htw, uint64_t id,
			 uint64_t deadline)
{
	struct htw_event ev[2];

	EXPECT_EQ(1, htw_wait(htw, EVENTUALLY));
	ASSERT_EQ(1, htw_read(htw, ev, 2));
	EXPECT_EQ(id, ev[0].id);
	EXPECT_EQ(deadline, ev[0].deadline);
	EXPECT_LE(deadline, ev[0].taken);
	EXPECT_EQ(0, ev[0].missed);
	EXPECT_EQ(0, ev[0].flags);
	EXPECT_EQ(0, htw_read(htw, ev, 2));
	EXPECT_EQ(0, htw_wait(htw, 0));
}

/* Only what takes events finds out that one has come: until then the last call counts. */
PUT_OFF_TEST(the_last_call_counts_whatever_looks)
{
	enum { ASKS = 9 };
	uint64_t id, other, cursor, when;
	struct htw_timer_info info;
	struct htw_info_args all;
	struct htw_event ev[2];
	unsigned int ask, zero;
	int ret = 0;

	other = start(self->htw, HOUR, 1);
	ASSERT_NE(0, other);
	EXPECT_EQ(0, htw_advance(self->htw, HTW_MSEC / 2, 0));
	for (ask = 0; ask < 2 * ASKS; ask++) {
		zero = ask / ASKS;
		id = start(self->htw, zero ? 0 : SEC, 1);
		ASSERT_NE(0, id);
		if (!zero)
			EXPECT_EQ(1, htw_advance(self->htw, 2 * SEC, 0));
		when = htw_now(self->htw);
		EXPECT_EQ(0, htw_put_off(self->htw, id, when + 100 * SEC));
		info.id = id;
		cursor = 0;
		switch (ask % ASKS) {
		case 0:
			ret = htw_query(self->htw, &info);
			break;
		case 1:
			ret = htw_list(self->htw, &cursor, &info, 1);
			break;
		case 2:
			ret = htw_list_in(self->htw, HTW_LIST_DUE, &cursor, &info, 1);
			break;
		case 3:
			ret = htw_info(self->htw, &all);
			break;
		case 4:
			ret = htw_next_time(self->htw, &when);
			break;
		case 5:
			ret = htw_rearm(self->htw, other, HOUR);
			break;
		case 6:
			ret = htw_mod(self->htw, &(struct htw_mod_args){
				.id = id, .flags = HTW_MOD_COOKIE });
			break;
		case 7:
			ret = htw_reserve(self->htw, 1000);
			break;
		default:
			ret = htw_stop(self->htw, start(self->htw, HOUR, 1));
		}
		EXPECT_LE(0, ret);
		when = htw_now(self->htw);
		EXPECT_EQ(0, htw_put_off(self->htw, id, when + 10 * SEC));
		EXPECT_EQ(1, htw_advance(self->htw, 11 * SEC, 0));
		EXPECT_EQ(1, htw_read(self->htw, ev, 2));
		EXPECT_EQ(when + 10 * SEC, ev[0].deadline);
	}
	EXPECT_EQ(0, htw_stop(self->htw, other));
}

PUT_OFF_TEST(the_later_deadline_counts)
{
	struct htw_event ev[2];
	uint64_t id = start(self->htw, SEC, 1), left;

	ASSERT_NE(0, id);
	EXPECT_EQ(0, htw_put_off(self->htw, id, 9 * SEC));
	EXPECT_EQ(0, htw_put_off_inline(self->htw, id, 5 * SEC));
	EXPECT_EQ(0, htw_remaining(self->htw, id, &left));
	EXPECT_EQ(5 * SEC, left);
	EXPECT_EQ(0, htw_advance(self->htw, 4 * SEC, HTW_F_ABS));
	EXPECT_EQ(0, htw_remaining(self->htw, id, &left));
	EXPECT_EQ(SEC, left);
	EXPECT_EQ(0, htw_wait(self->htw, 0));
	EXPECT_EQ(0, htw_read(self->htw, ev, 2));
	EXPECT_EQ(1, timers(self->htw));

	/* Again, after it has come for the first time. */
	EXPECT_EQ(0, htw_put_off(self->htw, id, 20 * SEC));
	EXPECT_EQ(0, htw_advance(self->htw, 20 * SEC - 1, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->htw, 1, 0));
	EXPECT_EQ(0, htw_remaining(self->htw, id, &left));
	EXPECT_EQ(0, left);
	expect_event(_metadata, self->htw, id, 20 * SEC);
	expect_ended(_metadata, self->htw, id);
	EXPECT_EQ(0, timers(self->htw));
}

/* Its time has come, and nobody has read its event. */
PUT_OFF_TEST(before_the_event_is_read)
{
	uint64_t id = start(self->htw, SEC, 1), when;
	struct htw_event ev[2];

	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(0, htw_put_off(self->htw, id, 3 * SEC));
	EXPECT_EQ(0, htw_read(self->htw, ev, 2));
	EXPECT_EQ(0, htw_wait(self->htw, 0));
	EXPECT_EQ(0, htw_next_time(self->htw, &when));
	EXPECT_GE(3 * SEC, when);
	EXPECT_LT(SEC, when);
	EXPECT_EQ(0, htw_advance(self->htw, 3 * SEC - 1, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->htw, 1, 0));

	/* To a time that has come, too. */
	EXPECT_EQ(0, htw_advance(self->htw, SEC, 0) < 0);
	EXPECT_EQ(0, htw_put_off(self->htw, id, 3 * SEC + SEC / 2));
	expect_event(_metadata, self->htw, id, 3 * SEC + SEC / 2);
	expect_ended(_metadata, self->htw, id);
}

PUT_OFF_TEST(an_earlier_time_counts_as_the_first)
{
	const uint64_t earlier[] = { 0, 1, SEC - 1, SEC };
	unsigned int i;
	uint64_t id;

	for (i = 0; i < ARRAY_SIZE(earlier); i++) {
		id = start(self->htw, SEC, 1);
		EXPECT_EQ(0, htw_put_off(self->htw, id, HOUR + htw_now(self->htw)));
		EXPECT_EQ(0, htw_put_off(self->htw, id, earlier[i]));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		expect_event(_metadata, self->htw, id, htw_now(self->htw));
	}
}

PUT_OFF_TEST(a_rearm_forgets_it)
{
	struct htw_mod_args mod = { .deadline = SEC, .cookie = 7 };
	const uint64_t when = SEC;
	unsigned int way;
	uint64_t id;

	for (way = 0; way < 8; way++) {
		id = start(self->htw, way & 4 ? 0 : SEC, 1);
		EXPECT_EQ(0, htw_put_off(self->htw, id, 1000 * HOUR));
		mod.id = id;
		mod.flags = HTW_MOD_DEADLINE | HTW_MOD_COOKIE;
		switch (way & 3) {
		case 0:
			EXPECT_EQ(0, htw_rearm(self->htw, id, SEC));
			break;
		case 1:
			EXPECT_EQ(0, htw_rearm_many(self->htw, &id, &when, 1, 0, NULL));
			break;
		default:
			EXPECT_EQ(0, htw_mod(self->htw, &mod));
			break;
		}
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		expect_event(_metadata, self->htw, id, htw_now(self->htw));
		EXPECT_EQ(0, timers(self->htw));
	}

	/* Another cookie does not. */
	id = start(self->htw, SEC, 1);
	EXPECT_EQ(0, htw_put_off(self->htw, id, htw_now(self->htw) + HOUR));
	mod = (struct htw_mod_args){ .id = id, .cookie = 5, .flags = HTW_MOD_COOKIE };
	EXPECT_EQ(0, htw_mod(self->htw, &mod));
	EXPECT_EQ(0, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->htw, id));
}

/* In each way to stop it, before and after the first time, it was in time: there is no event. */
PUT_OFF_TEST(stopped)
{
	struct htw_timer_info entries[4];
	struct htw_cancel_args cancel;
	unsigned int way, late;
	struct htw_event ev[2];
	uint64_t id, cursor;
	int result;

	for (way = 0; way < 10; way++) {
		late = way & 1;
		id = start(self->htw, SEC, 6);
		EXPECT_EQ(late, htw_advance(self->htw, late ? 2 * SEC : 0, 0));
		EXPECT_EQ(0, htw_put_off(self->htw, id, htw_now(self->htw) + HOUR));
		cancel = (struct htw_cancel_args){ .id = id };
		cursor = 0;
		switch (way / 2) {
		case 0:
			EXPECT_EQ(0, htw_stop(self->htw, id));
			break;
		case 1:
			EXPECT_EQ(0, htw_cancel(self->htw, &cancel));
			EXPECT_EQ(HOUR, cancel.remaining);
			EXPECT_EQ(6, cancel.cookie);
			EXPECT_EQ(0, cancel.flags);
			break;
		case 2:
			result = 1;
			EXPECT_EQ(0, htw_stop_many(self->htw, &id, 1, &result));
			EXPECT_EQ(0, result);
			break;
		case 3:
			EXPECT_EQ(1, htw_cancel_all(self->htw));
			break;
		case 4:
			ASSERT_EQ(1, htw_harvest(self->htw, &cursor, entries, 4));
			EXPECT_EQ(id, entries[0].id);
			EXPECT_EQ(htw_now(self->htw) + HOUR, entries[0].deadline);
			EXPECT_EQ(HOUR, entries[0].remaining);
			EXPECT_EQ(HTW_STATE_PENDING, entries[0].state);
			EXPECT_EQ(0, entries[0].flags);
			EXPECT_EQ(0, htw_harvest(self->htw, &cursor, entries, 4));
			break;
		}
		EXPECT_EQ(0, htw_wait(self->htw, 0));
		EXPECT_EQ(0, htw_read(self->htw, ev, 2));
		expect_ended(_metadata, self->htw, id);
		EXPECT_EQ(0, timers(self->htw));
	}
}

/* Not put off, and its time has come: as other timers. */
PUT_OFF_TEST(stopped_when_due)
{
	struct htw_event ev[2];
	uint64_t id;

	id = start(self->htw, SEC, 6);
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->htw, id));
	EXPECT_EQ(-ENOENT, htw_put_off(self->htw, id, HOUR));
	EXPECT_EQ(0, htw_read(self->htw, ev, 2));
	expect_ended(_metadata, self->htw, id);
}

/* A cancel that is refused leaves the timer as it was. */
PUT_OFF_TEST(refused)
{
	uint64_t id = start(self->htw, SEC, 6), ids[2] = { 1, 2 }, deadlines[2] = { SEC, SEC };
	const uint32_t with = HTW_F_PUT_OFF;
	struct htw_add_args wrong[] = {
		{ .deadline = SEC, .interval = SEC, .flags = with },
		{ .deadline = SEC, .flags = with | HTW_F_KEEP },
		{ .deadline = SEC, .flags = with, .firings = 2 },
		{ .deadline = SEC, .flags = with | 1 << 9 },
	};
	unsigned int i;

	EXPECT_EQ(0, htw_put_off(self->htw, id, 2 * SEC));
	EXPECT_EQ(-EINVAL, htw_cancel(self->htw, &(struct htw_cancel_args){
		.id = id, .flags = 2,
	}));
	EXPECT_EQ(-EINVAL, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_INTERVAL, .interval = HOUR }));
	/* None is what it has. */
	EXPECT_EQ(0, htw_mod(self->htw, &(struct htw_mod_args){
		.id = id, .flags = HTW_MOD_INTERVAL }));
	EXPECT_EQ(0, htw_put_off(self->htw, id, 2 * SEC));
	EXPECT_EQ(0, htw_advance(self->htw, SEC, 0));

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		wrong[i].id = 4711;
		EXPECT_EQ(-EINVAL, htw_add(self->htw, &wrong[i]));
		EXPECT_EQ(4711, wrong[i].id);
		EXPECT_EQ(-EINVAL, htw_add_many(self->htw, &wrong[i], deadlines, NULL, ids, 2,
						NULL));
		EXPECT_EQ(1, ids[0]);
		EXPECT_EQ(2, ids[1]);
	}
	EXPECT_EQ(1, timers(self->htw));

	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	expect_event(_metadata, self->htw, id, 2 * SEC);
}

/* Timers without the flag, and what is no id at all. */
PUT_OFF_TEST(others)
{
	const uint64_t wild[] = {
		0, 1, 64, 1ULL << 32, 7ULL << 32 | 77, 500, 5000, 50000, 0xffffffff, ~0ULL,
		(uint64_t)-ENOENT, (uint64_t)-1024, (uint64_t)-1025, 1ULL << 31, 1ULL << 63,
	};
	uint64_t plain[70], every, one = 0;
	struct htw_event ev[80];
	unsigned int i, round;

	for (i = 0; i < ARRAY_SIZE(plain); i++)
		ASSERT_EQ(0, htw_after(self->htw, SEC, 1, &plain[i]));
	ASSERT_EQ(0, htw_every(self->htw, SEC, HOUR, 1, &every));
	/* Before there is any timer that can be put off, and afterwards. */
	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_SIZE(wild); i++) {
			EXPECT_EQ(-ENOENT, htw_put_off(self->htw, wild[i], HOUR));
			EXPECT_EQ(-ENOENT, htw_put_off_inline(self->htw, wild[i], HOUR));
		}
		for (i = 0; i < ARRAY_SIZE(plain); i++) {
			EXPECT_EQ(-ENOENT, htw_put_off(self->htw, plain[i], HOUR));
			EXPECT_EQ(-ENOENT, htw_put_off_inline(self->htw, plain[i], HOUR));
		}
		EXPECT_EQ(-ENOENT, htw_put_off(self->htw, every, HOUR));
		if (!round)
			ASSERT_NE(0, one = start(self->htw, 2 * SEC, 3));
	}
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(ARRAY_SIZE(plain) + 1, htw_read(self->htw, ev, ARRAY_SIZE(ev)));
	for (i = 0; i < ARRAY_SIZE(plain) + 1; i++)
		EXPECT_EQ(ev[i].id == every ? HTW_EVENT_MORE : 0, ev[i].flags);
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	expect_event(_metadata, self->htw, one, 2 * SEC);
}

/* A store for a timer that was stopped does not move the one that has its slot now. */
PUT_OFF_TEST(not_another_timer)
{
	uint64_t old[3000], id;
	struct htw_event ev[2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(old); i++) {
		ASSERT_NE(0, old[i] = start(self->htw, HOUR, i));
		ASSERT_EQ(0, htw_stop(self->htw, old[i]));
	}
	ASSERT_NE(0, id = start(self->htw, SEC, 1));
	for (i = 0; i < ARRAY_SIZE(old); i++) {
		EXPECT_EQ(-ENOENT, htw_put_off(self->htw, old[i], HOUR));
		EXPECT_EQ(-ENOENT, htw_put_off_inline(self->htw, old[i], HOUR));
	}
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	ASSERT_EQ(1, htw_read(self->htw, ev, 2));
	EXPECT_EQ(id, ev[0].id);
}

static bool is_listed(struct htw *htw, unsigned int states, uint64_t id,
		      struct htw_timer_info *entry)
{
	uint64_t cursor = 0;
	int got;

	do {
		got = htw_list_in(htw, states, &cursor, entry, 1);
		if (got == 1 && entry->id == id)
			return true;
	} while (got == 1 || got == -EAGAIN);
	return false;
}

PUT_OFF_TEST(reported)
{
	struct htw_timer_info query, entry;
	uint64_t id, plain, when;
	unsigned int late;

	for (late = 0; late < 2; late++) {
		id = start(self->htw, SEC, 6);
		ASSERT_EQ(0, htw_after(self->htw, SEC, 7, &plain));
		EXPECT_EQ(late, htw_advance(self->htw, late ? 2 * SEC : 0, 0));
		when = htw_now(self->htw) + 5 * SEC;
		EXPECT_EQ(0, htw_put_off(self->htw, id, when));
		query = (struct htw_timer_info){ .id = id };
		ASSERT_EQ(0, htw_query(self->htw, &query));
		EXPECT_EQ(when, query.deadline);
		EXPECT_EQ(5 * SEC, query.remaining);
		EXPECT_EQ(HTW_STATE_PENDING, query.state);
		EXPECT_EQ(0, query.flags);
		EXPECT_EQ(0, query.interval);
		EXPECT_EQ(0, query.missed);
		EXPECT_EQ(6, query.cookie);

		memset(&entry, 0, sizeof(entry));
		EXPECT_TRUE(is_listed(self->htw, HTW_LIST_PENDING, id, &entry));
		EXPECT_EQ(0, memcmp(&query, &entry, sizeof(query)));
		EXPECT_FALSE(is_listed(self->htw, HTW_LIST_DUE, id, &entry));
		EXPECT_FALSE(is_listed(self->htw, HTW_LIST_DISARMED, id, &entry));
		EXPECT_EQ(late, is_listed(self->htw, HTW_LIST_DUE, plain, &entry));
		EXPECT_EQ(0, htw_stop(self->htw, id));
		htw_cancel_all(self->htw);
	}
}

/* An event that was read ends the timer, for all calls that report or count. */
PUT_OFF_TEST(what_was_read_has_ended)
{
	enum { COUNT = 700 };
	struct htw_timer_info entries[10];
	struct htw_event ev[COUNT];
	uint64_t cursor, when;
	unsigned int room, i;
	int n, got, expected;

	for (room = 1; room <= 400; room = room * 3 + 1) {
		for (i = 0; i < COUNT; i++)
			ASSERT_NE(0, start(self->htw, SEC, i));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		for (got = 0; got < COUNT; got += n) {
			n = htw_read(self->htw, ev, room);
			expected = COUNT - got < room ? COUNT - got : room;
			ASSERT_EQ(expected, n);
			EXPECT_EQ(COUNT - got - n, timers(self->htw));
			EXPECT_EQ(0, ev[0].flags);
			if (got % 100 == 0)
				expect_ended(_metadata, self->htw, ev[0].id);
		}
		cursor = 0;
		EXPECT_EQ(0, htw_list_in(self->htw, HTW_LIST_PENDING | HTW_LIST_DUE |
					 HTW_LIST_DISARMED, &cursor, entries, 10));
		EXPECT_EQ(-ENOENT, htw_next_time(self->htw, &when));
		EXPECT_EQ(0, htw_cancel_all(self->htw));
	}
}

/* They do not count against the limit either. */
PUT_OFF_TEST(at_the_limit)
{
	enum { COUNT = 100 };
	struct htw_setup_args setup = manual();
	uint64_t ids[COUNT], deadlines[COUNT], id;
	struct htw_event ev[COUNT];
	unsigned int round, i;
	struct htw *htw;

	setup.limit = COUNT;
	ASSERT_EQ(0, htw_open(&htw, variant->backend, &setup));
	for (round = 0; round < 4; round++) {
		for (i = 0; i < COUNT; i++)
			deadlines[i] = SEC;
		if (round & 1) {
			ASSERT_EQ(0, htw_add_many(htw,
						  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
						  deadlines, NULL, ids, COUNT, NULL));
		} else {
			for (i = 0; i < COUNT; i++)
				ASSERT_EQ(0, htw_timeout(htw, SEC, 1, &ids[i]));
		}
		id = 4711;
		EXPECT_EQ(-ENOSPC, htw_timeout(htw, SEC, 1, &id));
		EXPECT_EQ(-ENOSPC, htw_after(htw, SEC, 1, &id));
		EXPECT_EQ(4711, id);
		EXPECT_EQ(1, htw_advance(htw, SEC, 0));
		EXPECT_EQ(COUNT, htw_read(htw, ev, COUNT));
		/* Timers of another kind find room as well. */
		if (round == 2)
			EXPECT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, COUNT, NULL));
		for (i = 0; round == 3 && i < COUNT; i++)
			EXPECT_EQ(0, htw_after(htw, SEC, 1, &ids[i]));
		if (round >= 2)
			EXPECT_EQ(COUNT, htw_cancel_all(htw));
	}
	htw_close(htw);
}

/* A read fills the array, in order, and less than that means that nothing is left. */
PUT_OFF_TEST(many_and_read_in_portions)
{
	enum { COUNT = 900 };
	static const unsigned int rooms[] = { 1, 7, 256, COUNT };
	uint64_t ids[COUNT], deadlines[COUNT], numbers[COUNT], base, before;
	struct htw_event ev[COUNT];
	struct htw_info_args info;
	unsigned int i, r;
	int n, got;

	ASSERT_EQ(0, htw_info(self->htw, &info));
	for (r = 0; r < ARRAY_SIZE(rooms); r++) {
		base = htw_now(self->htw);
		for (i = 0; i < COUNT; i++) {
			deadlines[i] = (1 + i) * info.tick_ns;
			numbers[i] = i;
		}
		ASSERT_EQ(0, htw_add_many(self->htw,
					  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
					  deadlines, numbers, ids, COUNT, NULL));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		/* A whole part of the array is put off, and some of the others. */
		for (i = 0; i < COUNT; i++)
			if (i < 256 || i % 3 == 0)
				EXPECT_EQ(0, htw_put_off(self->htw, ids[i], base + HOUR + i));
		before = 0;
		for (got = 0; (n = htw_read(self->htw, ev, rooms[r])) > 0; got += n) {
			for (i = 0; i < n; i++) {
				EXPECT_NE(0, ev[i].cookie % 3);
				EXPECT_LT(before, ev[i].cookie);
				before = ev[i].cookie;
			}
			if (n < rooms[r])
				EXPECT_EQ(430, got + n);
		}
		EXPECT_EQ(430, got);
		EXPECT_EQ(COUNT - 430, timers(self->htw));
		EXPECT_EQ(1, htw_advance(self->htw, base + HOUR + SEC, HTW_F_ABS));
		EXPECT_EQ(COUNT - 430, htw_read(self->htw, ev, COUNT));
		for (i = 0; i < COUNT - 430; i++)
			EXPECT_EQ(base + HOUR + ev[i].cookie, ev[i].deadline);
		EXPECT_EQ(0, timers(self->htw));
	}
}

/* Where timers of all kinds are mixed, each is treated as its own. */
PUT_OFF_TEST(mixed)
{
	uint64_t ids[6], deadlines[6] = { SEC, SEC, SEC, SEC, SEC, SEC }, cursor = 0;
	struct htw_timer_info entries[8];
	struct htw_event ev[8];
	int results[7];
	unsigned int i;

	for (i = 0; i < 6; i++) {
		struct htw_add_args add = { .deadline = SEC, .cookie = i,
			.flags = i & 1 ? HTW_F_PUT_OFF : HTW_F_KEEP };

		ASSERT_EQ(0, htw_add(self->htw, &add));
		ids[i] = add.id;
		EXPECT_EQ(i & 1 ? HTW_F_PUT_OFF : HTW_F_KEEP, add.flags);
		EXPECT_EQ(i & 1 ? 0 : -ENOENT, htw_put_off(self->htw, ids[i], 3 * SEC));
	}
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	ASSERT_EQ(3, htw_read(self->htw, ev, 8));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(HTW_EVENT_MORE, ev[i].flags);
	EXPECT_EQ(0, htw_rearm_many(self->htw, ids, deadlines, 3, 0, results));
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	/* Two were re-armed as kept ones, one forgot that it was put off. */
	ASSERT_EQ(3, htw_read(self->htw, ev, 8));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(ev[i].id == ids[1] ? 0 : HTW_EVENT_MORE, ev[i].flags);
	ASSERT_EQ(2, htw_list_in(self->htw, HTW_LIST_PENDING, &cursor, entries, 8));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(3 * SEC, entries[i].deadline);
	memcpy(deadlines, ids, sizeof(ids));
	deadlines[4] = ids[3];		/* twice */
	EXPECT_EQ(2, htw_stop_many(self->htw, deadlines, 6, results));
	EXPECT_EQ(0, results[0]);
	EXPECT_EQ(-ENOENT, results[1]);
	EXPECT_EQ(0, results[2]);
	EXPECT_EQ(0, results[3]);
	EXPECT_EQ(-ENOENT, results[4]);
	EXPECT_EQ(0, results[5]);
	EXPECT_EQ(0, htw_stop(self->htw, ids[4]));
	EXPECT_EQ(0, timers(self->htw));
}

/* The same array for deadlines or cookies, and for ids. */
PUT_OFF_TEST(one_array)
{
	enum { COUNT = 600 };
	uint64_t array[COUNT], other[COUNT];
	struct htw_event ev[COUNT + 1];
	unsigned int way, i;

	for (way = 0; way < 4; way++) {
		const struct htw_add_args common = { .flags = way & 2 ? HTW_F_PUT_OFF : 0 };

		for (i = 0; i < COUNT; i++) {
			array[i] = way & 1 ? i : SEC;
			other[i] = way & 1 ? SEC : i;
		}
		ASSERT_EQ(0, way & 1 ?
			  htw_add_many(self->htw, &common, other, array, array, COUNT, NULL) :
			  htw_add_many(self->htw, &common, array, other, array, COUNT, NULL));
		EXPECT_EQ(0, htw_advance(self->htw, SEC - 1, 0));
		EXPECT_EQ(1, htw_advance(self->htw, 1, 0));
		ASSERT_EQ(COUNT, htw_read(self->htw, ev, COUNT + 1));
		for (i = 0; i < COUNT; i++) {
			EXPECT_EQ(i, ev[i].cookie);
			EXPECT_EQ(array[i], ev[i].id);
		}
	}
}

/* The entry of a timer, where htw_put_off_inline() has it. */
static struct htw_deadline *entry_of(struct htw *htw, uint64_t id)
{
	const struct htw_deadlines *d = *(struct htw_deadlines **)htw;

	return &d->blocks[((uint32_t)id >> 10) - d->first][(uint32_t)id & 1023];
}

/*
 * A store stops half-way, as its thread loses the CPU: its slot is given to no
 * other timer, and the timer it is for does not expire.
 */
PUT_OFF_TEST(a_store_on_its_way)
{
	uint64_t id = start(self->htw, SEC, 1), other, ids[300], deadlines[300], plain;
	struct htw_deadline *to = entry_of(self->htw, id);
	struct htw_event ev[2];
	unsigned int i;

	__atomic_fetch_add(&to->tag, 1, __ATOMIC_ACQUIRE);
	EXPECT_LE(0, htw_advance(self->htw, SEC, 0));
	ASSERT_EQ(0, htw_after(self->htw, 0, 4, &plain));
	for (i = 0; i < 20; i++) {
		int n = htw_read(self->htw, ev, 2);

		EXPECT_LE(0, n);
		EXPECT_GE(1, n);
		if (n)
			EXPECT_EQ(plain, ev[0].id);
		EXPECT_LE(0, htw_advance(self->htw, 100 * HTW_MSEC, 0));
	}
	__atomic_store_n(&to->when, HOUR, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&to->tag, 1, __ATOMIC_RELEASE);
	EXPECT_EQ(0, htw_read(self->htw, ev, 2));
	EXPECT_EQ(0, htw_advance(self->htw, HOUR - 1, HTW_F_ABS));

	/* Stopped meanwhile: other timers have other slots, as long as it lasts. */
	__atomic_fetch_add(&to->tag, 1, __ATOMIC_ACQUIRE);
	EXPECT_EQ(0, htw_stop(self->htw, id));
	for (i = 0; i < 300; i++) {
		ASSERT_NE(0, other = start(self->htw, 2 * HOUR, 1));
		EXPECT_NE(to, entry_of(self->htw, other));
		EXPECT_EQ(0, htw_stop(self->htw, other));
		deadlines[i] = 2 * HOUR;
	}
	ASSERT_EQ(0, htw_add_many(self->htw,
				  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
				  deadlines, NULL, ids, 300, NULL));
	for (i = 0; i < 300; i++)
		EXPECT_NE(to, entry_of(self->htw, ids[i]));
	__atomic_store_n(&to->when, 9 * HOUR, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&to->tag, 1, __ATOMIC_RELEASE);
	EXPECT_EQ(300, timers(self->htw));
	EXPECT_EQ(0, htw_stop_many(self->htw, ids, 300, NULL));
	EXPECT_EQ(0, timers(self->htw));
	EXPECT_EQ(0, htw_advance(self->htw, 10 * HOUR, 0));
}

/* The memory of its entry goes back meanwhile: the next timers there keep their deadlines. */
PUT_OFF_TEST(a_store_on_its_way_as_memory_goes_back)
{
	enum { COUNT = 1023 * 40, SAMPLE = 1023 };
	static uint64_t ids[COUNT], deadlines[COUNT];
	struct htw_deadline *to[COUNT / SAMPLE];
	struct htw_event ev[64];
	unsigned int i, came = 0;
	int n;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = HOUR;
	ASSERT_EQ(0, htw_add_many(self->htw,
				  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
				  deadlines, NULL, ids, COUNT, NULL));
	for (i = 0; i < COUNT / SAMPLE; i++) {
		to[i] = entry_of(self->htw, ids[i * SAMPLE + 7]);
		__atomic_fetch_add(&to[i]->tag, 1, __ATOMIC_ACQUIRE);
	}
	EXPECT_EQ(0, htw_stop_many(self->htw, ids, COUNT, NULL));

	for (i = 0; i < COUNT; i++)
		deadlines[i] = SEC;
	ASSERT_EQ(0, htw_add_many(self->htw,
				  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
				  deadlines, NULL, ids, COUNT, NULL));
	for (i = 0; i < COUNT / SAMPLE; i++) {
		__atomic_store_n(&to[i]->when, 9 * HOUR, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&to[i]->tag, 1, __ATOMIC_RELEASE);
	}

	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	/* A long bucket is moved down in several calls. */
	do {
		n = htw_read(self->htw, ev, 64);
		came += n > 0 ? n : 0;
	} while (n > 0 || (!n && htw_advance(self->htw, 0, 0) == 1));
	EXPECT_EQ(0, n);
	EXPECT_EQ(COUNT, came);
	EXPECT_EQ(0, timers(self->htw));
}

/* A sanitizer's own memory counts as the program's, and does not come back. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED	1
#else
#define SANITIZED	0
#endif

static uint64_t resident(void)
{
	unsigned long all = 0, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu %lu", &all, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

/* After a burst, the program's memory is not what it was at its peak. */
PUT_OFF_TEST(memory_comes_back)
{
	enum { COUNT = 500000 };
	uint64_t *ids = calloc(COUNT, sizeof(*ids)), before, most;
	uint64_t id = start(self->htw, HOUR, 1);
	unsigned int i;

	if (SANITIZED)
		SKIP(return, "the sanitizer needs memory itself");
	ASSERT_NE(NULL, ids);
	for (i = 0; i < COUNT; i++)
		ids[i] = HOUR;
	before = resident();
	ASSERT_NE(0, before);
	ASSERT_EQ(0, htw_add_many(self->htw,
				  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
				  ids, NULL, ids, COUNT, NULL));
	most = resident();
	EXPECT_LE(before + COUNT * 15, most);
	EXPECT_EQ(0, htw_stop_many(self->htw, ids, COUNT, NULL));
	EXPECT_EQ(0, htw_stop(self->htw, id));
	/* On the device, each call gives a part back. */
	for (i = 0; i < COUNT / 1024; i++)
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, id));
	EXPECT_GE(before + (most - before) / 4, resident());
	for (i = 0; i < COUNT; i += 1000)
		EXPECT_EQ(-ENOENT, htw_put_off(self->htw, ids[i], HOUR));
	ASSERT_NE(0, id = start(self->htw, HOUR, 1));
	EXPECT_EQ(0, htw_put_off(self->htw, id, 2 * HOUR));
	EXPECT_EQ(0, htw_stop(self->htw, id));
	free(ids);
}

/* A descriptor that something else has closed. */
PUT_OFF_TEST(closed_by_others)
{
	struct htw_event ev[2];
	unsigned int round;
	struct htw *htw;
	uint64_t id;

	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, htw_open(&htw, variant->backend, NULL));
		if (round)
			ASSERT_EQ(0, htw_timeout(htw, 0, 1, &id));
		ASSERT_EQ(0, close(htw_fd(htw)));
		if (variant->backend == HTW_BACKEND_DEVICE) {
			EXPECT_EQ(-EBADF, htw_read(htw, ev, 2));
			id = 4711;
			EXPECT_EQ(-EBADF, htw_timeout(htw, SEC, 1, &id));
			EXPECT_EQ(4711, id);
			EXPECT_EQ(-EBADF, htw_wait(htw, 0));
			EXPECT_EQ(-EBADF, htw_next_time(htw, &id));
		}
		if (!round)
			EXPECT_EQ(-EBADF, htw_wait(htw, EVENTUALLY));
		htw_close(htw);
	}
}

/*
 * Threads: storers, a reader, and threads that start timers and stop them. Each
 * timer is either stopped or read, no timer comes before the time to which it
 * was put off, and a store to one that has ended is an error.
 */
#define SLOTS	64

struct race {
	struct htw *htw;
	pthread_barrier_t *barrier;
	bool over;
	/* Aligned for i386 as well, where an unaligned atomic access may lock the bus, or trap. */
	uint64_t started __attribute__((__aligned__(8))), stopped, stores, bad;
	/* By the timers' cookies. */
	uint64_t id[SLOTS];
};

static void *start_and_stop(void *arg)
{
	struct race *r = arg;
	uint64_t random = 88172645463325252ULL, cookie, id;
	const uint64_t end = htw_now(r->htw) + 3 * SEC;
	unsigned int i, k;
	int ret;

	pthread_barrier_wait(r->barrier);
	for (i = 0; htw_now(r->htw) < end; i++) {
		/* Timers that are due at once, too: the reader may be faster than the start. */
		for (k = 0; k < SLOTS; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			cookie = k;
			if (__atomic_load_n(&r->id[k], __ATOMIC_ACQUIRE))
				continue;
			if (htw_timeout(r->htw, random % 3 * HTW_MSEC, cookie, &id)) {
				r->bad++;
				continue;
			}
			r->started++;
			__atomic_store_n(&r->id[k], id, __ATOMIC_RELEASE);
		}
		for (k = 0; k < SLOTS; k++) {
			id = __atomic_load_n(&r->id[k], __ATOMIC_ACQUIRE);
			if (!id || (k ^ i) % 256)
				continue;
			ret = htw_stop(r->htw, id);
			r->stopped += !ret;
			if (ret && ret != -ENOENT)
				r->bad++;
			if (!ret && htw_put_off(r->htw, id, 1) != -ENOENT)
				r->bad++;
			/* Its event is the reader's to wait for. */
			if (!ret)
				__atomic_store_n(&r->id[k], 0, __ATOMIC_RELEASE);
			else
				__atomic_compare_exchange_n(&r->id[k], &id, 0, false,
							    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static void *store(void *arg)
{
	struct race *r = arg;
	unsigned int k, random = 0;
	uint64_t id, when;

	pthread_barrier_wait(r->barrier);
	while (!__atomic_load_n(&r->over, __ATOMIC_ACQUIRE)) {
		for (k = 0; k < SLOTS; k++) {
			id = __atomic_load_n(&r->id[k], __ATOMIC_ACQUIRE);
			/* Some are put off by a little, and some now and then. */
			if (!id || (k % 4 && random++ % 1024))
				continue;
			when = htw_now(r->htw) + k * HTW_MSEC / 8;
			if (!(k & 1 ? htw_put_off(r->htw, id, when) :
			      htw_put_off_inline(r->htw, id, when)))
				__atomic_fetch_add(&r->stores, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

PUT_OFF_TEST(threads)
{
	static struct htw_event ev[100];
	struct race *r = calloc(1, sizeof(*r));
	uint64_t got = 0, stores, end, now;
	pthread_t threads[3];
	pthread_barrier_t barrier;
	struct timespec ts;
	unsigned int i;
	int n;

	ASSERT_NE(NULL, r);
	ASSERT_EQ(0, htw_open(&r->htw, variant->backend, NULL));
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, 4));
	r->barrier = &barrier;
	ASSERT_EQ(0, pthread_create(&threads[0], NULL, start_and_stop, r));
	ASSERT_EQ(0, pthread_create(&threads[1], NULL, store, r));
	ASSERT_EQ(0, pthread_create(&threads[2], NULL, store, r));
	pthread_barrier_wait(&barrier);
	for (;;) {
		n = htw_read(r->htw, ev, ARRAY_SIZE(ev));
		ASSERT_LE(0, n);
		now = htw_now(r->htw);
		for (i = 0; i < n; i++) {
			ASSERT_EQ(0, ev[i].flags);
			EXPECT_LE(ev[i].deadline, ev[i].taken);
			EXPECT_LE(ev[i].taken, now);
			EXPECT_EQ(-ENOENT, htw_put_off(r->htw, ev[i].id, HOUR));
			EXPECT_EQ(-ENOENT, htw_stop(r->htw, ev[i].id));
			__atomic_compare_exchange_n(&r->id[ev[i].cookie], &ev[i].id, 0, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
		}
		got += n;
		if (pthread_tryjoin_np(threads[0], NULL) == 0)
			break;
	}
	__atomic_store_n(&r->over, true, __ATOMIC_RELEASE);
	pthread_join(threads[1], NULL);
	pthread_join(threads[2], NULL);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	end = ts.tv_sec + EVENTUALLY / SEC;
	while (timers(r->htw) && ts.tv_sec < end) {
		EXPECT_LE(0, htw_wait(r->htw, 100 * HTW_MSEC));
		n = htw_read(r->htw, ev, ARRAY_SIZE(ev));
		ASSERT_LE(0, n);
		got += n;
		clock_gettime(CLOCK_MONOTONIC, &ts);
	}
	stores = r->stores;
	EXPECT_EQ(0, r->bad);
	EXPECT_EQ(r->started, got + r->stopped);
	EXPECT_EQ(0, timers(r->htw));
	TH_LOG("%llu started, %llu read, %llu stores", (unsigned long long)r->started,
	       (unsigned long long)got, (unsigned long long)r->stores);
	htw_close(r->htw);
	pthread_barrier_destroy(&barrier);
	free(r);
	if (!stores && __test_passed(_metadata))
		SKIP(return, "neither of the two threads has put a timer off");
}

/* An edge-triggered loop that goes to sleep on a short read, while timers are put off. */
PUT_OFF_TEST(edges)
{
	enum { COUNT = 20000 };
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	static uint64_t deadlines[COUNT], ids[COUNT], numbers[COUNT];
	static unsigned char times[COUNT];
	static struct htw_event ev[1000];
	int ep, i, n, got, room;
	struct htw *htw;
	uint64_t now;

	for (room = 1000; room; room = room > 100 ? 10 : 0) {
		ASSERT_EQ(0, htw_open(&htw, variant->backend, NULL));
		ep = epoll_create1(EPOLL_CLOEXEC);
		ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, htw_fd(htw), &event));
		for (i = 0; i < COUNT; i++) {
			deadlines[i] = i % 7 * 3 * HTW_MSEC;
			numbers[i] = i;
			times[i] = 0;
		}
		ASSERT_EQ(0, htw_add_many(htw,
					  &(struct htw_add_args){ .flags = HTW_F_PUT_OFF },
					  deadlines, numbers, ids, COUNT, NULL));
		/* More than a read re-arms at once; some are due again when it does. */
		now = htw_now(htw);
		for (i = 0; i < COUNT; i++)
			if (i % 4)
				htw_put_off(htw, ids[i], now + i % 4 * 15 * HTW_MSEC);
		for (got = 0; got < COUNT; ) {
			n = epoll_wait(ep, &event, 1, EVENTUALLY / HTW_MSEC);
			ASSERT_EQ(1, n);
			do {
				n = htw_read(htw, ev, room);
				ASSERT_LE(0, n);
				for (i = 0; i < n; i++)
					EXPECT_EQ(1, ++times[ev[i].cookie]);
				got += n;
			} while (n == room);
		}
		EXPECT_EQ(COUNT, got);
		EXPECT_EQ(0, timers(htw));
		close(ep);
		htw_close(htw);
	}
}

/* Timers that another process, or another handle of the descriptor, ends. */
PUT_OFF_TEST(two_handles_of_one_descriptor)
{
	struct htw_event ev[2];
	struct htw *other;
	uint64_t id, next;
	unsigned int i;

	if (variant->backend != HTW_BACKEND_DEVICE)
		SKIP(return, "the process backend has no descriptor to pass on");
	ASSERT_EQ(0, htw_open_fd(&other, dup(htw_fd(self->htw))));
	for (i = 0; i < 4; i++) {
		id = start(self->htw, SEC, 4);
		EXPECT_EQ(-ENOENT, htw_put_off(other, id, HOUR));
		EXPECT_EQ(1, timers(other));
		EXPECT_EQ(0, htw_stop(other, id));
		/* Its slot, and its entry, are the next one's. */
		next = start(self->htw, SEC, 5);
		EXPECT_EQ(-ENOENT, htw_stop(self->htw, id));
		EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
		expect_event(_metadata, self->htw, next, htw_now(self->htw));
		/* It has ended for this handle, which then ends it for others. */
		EXPECT_EQ(0, timers(self->htw));
		EXPECT_EQ(0, timers(other));
	}
	/* What has been read and not been ended yet does not stay with the others. */
	id = start(self->htw, 0, 4);
	EXPECT_EQ(1, htw_read(self->htw, ev, 2));
	htw_close(self->htw);
	EXPECT_EQ(0, timers(other));
	self->htw = other;
}

TEST_HARNESS_MAIN
