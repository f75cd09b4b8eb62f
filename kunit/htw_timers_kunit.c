// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: what a timer does, and what calls say about it
 *
 * On the manual clock, so that each case knows what time it is.
 */
#include <kunit/test.h>

#include "htw_kunit.h"

#define TICK			1000u

/* Expect the next event, and that it is of this timer. Return: the event. */
static struct htw_event expect_event(struct htw_test_file *f, u64 id)
{
	struct htw_event event = {};

	KUNIT_EXPECT_EQ(f->test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(f->test, event.id, id);
	KUNIT_EXPECT_GE(f->test, event.taken, event.deadline);
	return event;
}

static void expect_no_event(struct htw_test_file *f)
{
	struct htw_event event;

	KUNIT_EXPECT_EQ(f->test, htw_test_take(f, &event, 1), 0);
}

/* Move to a time at which a timer is due that was not due just before. */
static void expect_due_at(struct htw_test_file *f, u64 ns)
{
	KUNIT_EXPECT_EQ_MSG(f->test, htw_test_advance_to(f, ns - 1), 0, "early at %llu", ns - 1);
	KUNIT_EXPECT_EQ_MSG(f->test, htw_test_advance_to(f, ns), 1, "late at %llu", ns);
}

/*
 * When a timer is due
 */

struct due_case {
	u64 tick;
	u64 deadline;
	u64 due;
};

static const struct due_case due_cases[] = {
	{ 1, 1, 1 }, { 1, 2, 2 }, { 1, 12345, 12345 }, { 1, 1ull << 40, 1ull << 40 },
	{ 1000, 1, 1000 }, { 1000, 999, 1000 }, { 1000, 1000, 1000 }, { 1000, 1001, 2000 },
	{ 7, 6, 7 }, { 7, 7, 7 }, { 7, 8, 14 }, { 7, 7000001, 7000007 },
	{ NSEC_PER_SEC, 1, NSEC_PER_SEC }, { NSEC_PER_MSEC, 3599999000001, 3600000000000 },
	{ 1, S64_MAX, S64_MAX },
};

static void get_due_desc(const struct due_case *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "tick %llu, deadline %llu", c->tick, c->deadline);
}

KUNIT_ARRAY_PARAM(due_cases, due_cases, get_due_desc);

/* A timer is due at the first tick that is not before its deadline, with few or many others. */
static void due_at_the_first_tick(struct kunit *test)
{
	const struct due_case *c = test->param_value;

	for (u32 others = 0; others <= 100; others += 100) {
		struct htw_test_file *f = htw_test_manual(test, c->tick);
		u64 id;

		for (u32 i = 0; i < others; i++)
			htw_test_start(f, U64_MAX - i, i);
		id = htw_test_start(f, c->deadline, 1);
		expect_due_at(f, c->due);
		KUNIT_EXPECT_EQ(test, expect_event(f, id).deadline, c->deadline);
		KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, c->due), 0);
		expect_no_event(f);
	}
}

/* What is due at once does not wait for a tick, wherever in a tick, and in the wheel, it is. */
static void due_at_once(struct kunit *test)
{
	for (u32 others = 0; others <= 100; others += 100) {
		struct htw_test_file *f = htw_test_manual(test, TICK);
		const struct htw_add_args relative = {};

		for (u32 i = 0; i < others; i++)
			htw_test_start(f, U64_MAX - i, i);
		for (u64 now = 300; now < 3000 * TICK; now += 700) {
			u64 id;

			htw_test_advance_to(f, now);
			id = htw_test_add(f, &relative);
			KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).state, HTW_STATE_DUE);
			KUNIT_ASSERT_EQ(test, expect_event(f, id).deadline, now);
			id = htw_test_start(f, now, 1);
			KUNIT_ASSERT_EQ(test, expect_event(f, id).deadline, now);
			id = htw_test_start(f, 0, 2);
			KUNIT_ASSERT_EQ(test, expect_event(f, id).deadline, 0);
			id = htw_test_start(f, now - 299, 3);
			KUNIT_ASSERT_EQ(test, expect_event(f, id).taken, now);
		}
	}
}

static const u32 crowds[] = { 1, 31, 32, 33, 63, 64, 100 };

static void get_crowd_desc(const u32 *count, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u", *count);
}

KUNIT_ARRAY_PARAM(crowd, crowds, get_crowd_desc);

/*
 * A timer that is due at once does not overtake those that wait for the tick, and whose
 * deadline has come as well: they come with it; of many, the first ones.
 */
static void due_at_once_overtakes_few(struct kunit *test)
{
	const u32 count = *(const u32 *)test->param_value, with = min(count, 32u);
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_event *events = htw_test_array(test, count + 2, sizeof(*events));
	u64 later;
	u32 n;

	for (u32 i = 0; i < count; i++)
		htw_test_start(f, 10 + i, i);
	later = htw_test_start(f, 900, count + 1);
	htw_test_advance_to(f, 500);
	KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
	htw_test_start(f, 500, count);
	n = htw_test_take(f, events, count + 2);
	KUNIT_ASSERT_EQ(test, n, with + 1);
	KUNIT_EXPECT_EQ(test, events[with].cookie, count);
	htw_test_advance_to(f, TICK);
	KUNIT_ASSERT_EQ(test, n + htw_test_take(f, events + n, count + 2 - n), count + 2);
	/* One whose deadline is later waits on. */
	KUNIT_EXPECT_EQ(test, events[count + 1].id, later);
	for (u32 i = 0; i < count; i++)
		KUNIT_EXPECT_EQ(test, events[i + (i >= with)].cookie, i);
}

/* Equal ticks come in the order in which they were armed, from whatever distance. */
static void equal_ticks_in_order(struct kunit *test)
{
	const u64 tick = 50000ull * TICK;
	const u32 count = 300;
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_mod_args mod = {
		.flags = HTW_MOD_DEADLINE | HTW_MOD_COOKIE | HTW_F_ABS,
		.deadline = tick, .cookie = count - 1,
	};

	for (u32 i = 0; i < count; i++) {
		const u64 id = htw_test_start(f, tick - i % 90, i);

		if (i == 17)
			mod.id = id;
		/* Ever closer: at last it is the next tick. */
		htw_test_advance_to(f, tick - (tick >> (1 + i / 16)) - 1);
	}
	/* One that is armed again is the last. */
	KUNIT_ASSERT_EQ(test, htw_test_mod(f, &mod), 0);
	KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
	expect_due_at(f, tick);
	KUNIT_ASSERT_EQ(test, htw_test_take(f, events, count), count);
	for (u32 i = 0; i < count; i++)
		KUNIT_EXPECT_EQ(test, events[i].cookie, i < 17 ? i : i < count - 1 ? i + 1 : i);
}

/* Levels of a few slots, beyond whose end most of these deadlines are. */
static void far_deadlines(struct kunit *test)
{
	static const struct htw_setup_args setups[] = {
		{ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = 1 },
		{ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = 1,
		  .levels = 1, .slots = { 2 } },
		{ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .tick_ns = 1,
		  .levels = 3, .slots = { 10, 60, 5 } },
	};

	for (u32 i = 0; i < ARRAY_SIZE(setups); i++) {
		struct htw_test_file *f = htw_test_open(test);
		struct htw_event events[4];

		htw_test_setup(f, &setups[i]);
		for (u32 bit = 62; bit > 0; bit--) {
			htw_test_start(f, (1ull << bit) + 1, 3 * bit + 1);
			htw_test_start(f, 1ull << bit, 3 * bit);
			htw_test_start(f, 3ull << (bit - 1), 3 * bit + 2);
		}
		htw_test_advance_to(f, 3);
		KUNIT_ASSERT_EQ(test, htw_test_take(f, events, 4), 3);
		for (u32 bit = 2; bit < 63; bit++) {
			const u64 time[] = { 1ull << bit, (1ull << bit) + 1, 3ull << (bit - 1) };

			for (u32 k = 0; k < ARRAY_SIZE(time); k++) {
				expect_due_at(f, time[k]);
				KUNIT_ASSERT_EQ(test, htw_test_take(f, events, 2), 1);
				KUNIT_EXPECT_EQ(test, events[0].cookie, 3 * bit + k);
			}
		}
		KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, S64_MAX), 0);
		htw_test_expect_nothing(f);
	}
}

/* After 2^63 - 1 there is no time: such a timer never comes, and counts until it is cancelled. */
static void never_is_never(struct kunit *test)
{
	static const u64 deadlines[] = { U64_MAX, U64_MAX - 1, 1ull << 63, (1ull << 63) + 12345 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const struct htw_add_args sum = { .deadline = U64_MAX - 5 };
	u64 ids[ARRAY_SIZE(deadlines) + 2];
	struct htw_cancel_args cancel;

	htw_test_advance_to(f, 10);
	for (u32 i = 0; i < ARRAY_SIZE(deadlines); i++)
		ids[i] = htw_test_start(f, deadlines[i], i);
	/* In a tick that is not complete by then. */
	ids[ARRAY_SIZE(deadlines)] = htw_test_start(f, S64_MAX - 1, 0);
	/* A sum that does not fit. */
	ids[ARRAY_SIZE(deadlines) + 1] = htw_test_add(f, &sum);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, ids[ARRAY_SIZE(deadlines) + 1]).deadline,
			U64_MAX);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, S64_MAX), 0);
	expect_no_event(f);
	for (u32 i = 0; i < ARRAY_SIZE(ids); i++) {
		KUNIT_EXPECT_EQ(test, htw_test_cancel(f, ids[i], &cancel), 0);
		KUNIT_EXPECT_EQ(test, cancel.state, HTW_STATE_PENDING);
	}
	htw_test_expect_nothing(f);
}

/*
 * States
 */

static void cancel_says_what_it_found(struct kunit *test)
{
	const struct htw_add_args periodic = { .deadline = 5000, .interval = 3000, .cookie = 2 };
	const struct htw_add_args kept = { .flags = HTW_F_KEEP, .cookie = 3 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_cancel_args out;
	u64 id[4];

	id[0] = htw_test_start(f, 20000, 1);
	id[1] = htw_test_add(f, &periodic);
	id[2] = htw_test_add(f, &kept);
	expect_event(f, id[2]);
	id[3] = htw_test_start(f, 10000, 4);
	htw_test_advance_to(f, 12500);

	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[0], &out), 0);
	KUNIT_EXPECT_EQ(test, out.state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, out.remaining, 7500);
	KUNIT_EXPECT_EQ(test, out.cookie, 1);
	KUNIT_EXPECT_EQ(test, out.missed, 0);

	/* It fired at 5000, 8000 and 11000. */
	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[1], &out), 0);
	KUNIT_EXPECT_EQ(test, out.state, HTW_STATE_DUE);
	KUNIT_EXPECT_EQ(test, out.remaining, 0);
	KUNIT_EXPECT_EQ(test, out.cookie, 2);
	KUNIT_EXPECT_EQ(test, out.missed, 2);

	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[2], &out), 0);
	KUNIT_EXPECT_EQ(test, out.state, HTW_STATE_DISARMED);
	KUNIT_EXPECT_EQ(test, out.remaining, 0);
	KUNIT_EXPECT_EQ(test, out.cookie, 3);
	KUNIT_EXPECT_EQ(test, out.missed, 0);

	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[3], &out), 0);
	KUNIT_EXPECT_EQ(test, out.state, HTW_STATE_DUE);
	KUNIT_EXPECT_EQ(test, out.cookie, 4);

	/* No event comes of any, and their ids have ended. */
	htw_test_expect_nothing(f);
	htw_test_advance_to(f, 100000);
	htw_test_expect_nothing(f);
	for (u32 i = 0; i < ARRAY_SIZE(id); i++)
		htw_test_expect_no_timer(f, id[i]);
}

/* A timer's tick decides: one whose deadline has come and that waits for it is pending. */
static void pending_until_the_tick(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_start(f, 500, 1);

	htw_test_advance_to(f, 700);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).remaining, 0);
	expect_no_event(f);
	htw_test_advance_to(f, 1000);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).state, HTW_STATE_DUE);
	expect_event(f, id);
	htw_test_expect_no_timer(f, id);
}

static void query_tells_all(struct kunit *test)
{
	const struct htw_add_args add = {
		.deadline = 5000, .interval = 2500, .firings = 9, .slack = 100, .cookie = ~0ull,
		.flags = HTW_F_KEEP,
	};
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_timer_info info;
	u64 id;

	htw_test_advance_to(f, 100);
	id = htw_test_add(f, &add);
	htw_test_advance_to(f, 1100);
	info = htw_test_info_of(f, id);
	KUNIT_EXPECT_EQ(test, info.deadline, 5100);
	KUNIT_EXPECT_EQ(test, info.remaining, 4000);
	KUNIT_EXPECT_EQ(test, info.interval, 2500);
	KUNIT_EXPECT_EQ(test, info.cookie, ~0ull);
	KUNIT_EXPECT_EQ(test, info.missed, 0);
	KUNIT_EXPECT_EQ(test, info.firings, 9);
	KUNIT_EXPECT_EQ(test, info.state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, info.flags, HTW_F_KEEP);

	/* At 5100, 7600, 10100 and 12600. */
	htw_test_advance_to(f, 13000);
	info = htw_test_info_of(f, id);
	KUNIT_EXPECT_EQ(test, info.deadline, 5100);
	KUNIT_EXPECT_EQ(test, info.remaining, 0);
	KUNIT_EXPECT_EQ(test, info.missed, 3);
	KUNIT_EXPECT_EQ(test, info.firings, 9);
	KUNIT_EXPECT_EQ(test, info.state, HTW_STATE_DUE);
	expect_event(f, id);
	info = htw_test_info_of(f, id);
	KUNIT_EXPECT_EQ(test, info.deadline, 15100);
	KUNIT_EXPECT_EQ(test, info.remaining, 2100);
	KUNIT_EXPECT_EQ(test, info.missed, 0);
	KUNIT_EXPECT_EQ(test, info.firings, 5);
	KUNIT_EXPECT_EQ(test, info.state, HTW_STATE_PENDING);

	/* Its firings come to an end: a disarmed one-shot timer. */
	htw_test_advance_to(f, 1000000);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).missed, 4);
	KUNIT_EXPECT_EQ(test, expect_event(f, id).missed, 4);
	info = htw_test_info_of(f, id);
	KUNIT_EXPECT_EQ(test, info.state, HTW_STATE_DISARMED);
	KUNIT_EXPECT_EQ(test, info.remaining, 0);
	KUNIT_EXPECT_EQ(test, info.interval, 0);
	KUNIT_EXPECT_EQ(test, info.firings, 0);
	KUNIT_EXPECT_EQ(test, info.missed, 0);
	KUNIT_EXPECT_EQ(test, info.cookie, ~0ull);
	KUNIT_EXPECT_EQ(test, info.flags, HTW_F_KEEP);
}

/* A kept timer's id survives; it is armed again, with the same id, and goes when cancelled. */
static void kept_timer_comes_again(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1000, .flags = HTW_F_KEEP, .cookie = 7 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_add(f, &add);
	struct htw_mod_args mod = { .id = id, .flags = HTW_MOD_DEADLINE, .deadline = 1000 };
	struct htw_event event;

	for (u32 i = 1; i <= 5; i++) {
		expect_due_at(f, i * 1000);
		event = expect_event(f, id);
		KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
		KUNIT_EXPECT_EQ(test, event.deadline, i * 1000);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 1);
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
		KUNIT_EXPECT_EQ(test, mod.state, HTW_STATE_DISARMED);
	}
	/* Disarmed, its interval makes it periodic when it is armed. */
	htw_test_advance_to(f, 6000);
	expect_event(f, id);
	mod = (struct htw_mod_args) {
		.id = id, .flags = HTW_MOD_INTERVAL, .interval = 2000, .firings = 2,
	};
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, 50000), 0);
	mod = (struct htw_mod_args) { .id = id, .flags = HTW_MOD_DEADLINE, .deadline = 1000 };
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	expect_due_at(f, 51000);
	expect_event(f, id);
	expect_due_at(f, 53000);
	KUNIT_EXPECT_EQ(test, expect_event(f, id).flags, HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).state, HTW_STATE_DISARMED);
}

/*
 * Periodic timers
 */

static void periodic_keeps_its_phase(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1500, .interval = 2345, .cookie = 7 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_add(f, &add);

	for (u32 k = 0; k < 200; k++) {
		const u64 deadline = 1500 + k * 2345ull;
		struct htw_event event;

		expect_due_at(f, htw_tick_up(deadline, TICK) * TICK);
		event = expect_event(f, id);
		KUNIT_EXPECT_EQ(test, event.deadline, deadline);
		KUNIT_EXPECT_EQ(test, event.missed, 0);
		KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
		KUNIT_EXPECT_EQ(test, event.cookie, 7);
		expect_no_event(f);
	}
}

/* A reader that is late gets one event with a count, and the next ones in phase. */
static void late_reader_misses_by_the_phase(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1000, .interval = 3000 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_add(f, &add);
	struct htw_event event;

	/* Of 1000, 4000, ..., 28000. */
	htw_test_advance_to(f, 30999);
	event = expect_event(f, id);
	KUNIT_EXPECT_EQ(test, event.deadline, 1000);
	KUNIT_EXPECT_EQ(test, event.taken, 30999);
	KUNIT_EXPECT_EQ(test, event.missed, 9);
	expect_no_event(f);
	expect_due_at(f, 31000);
	event = expect_event(f, id);
	KUNIT_EXPECT_EQ(test, event.deadline, 31000);
	KUNIT_EXPECT_EQ(test, event.missed, 0);
	/* More than 2^32. */
	htw_test_advance_to(f, 31000 + 3000 * (1ull << 40));
	KUNIT_EXPECT_EQ(test, expect_event(f, id).missed, (1ull << 40) - 1);
}

/* Missed ones are firings as well. */
static void firings_come_to_an_end(struct kunit *test)
{
	static const struct {
		u64 read_at[4];
		u64 missed[4];
		u32 events;
	} cases[] = {
		{ { 1000, 2000, 3000, 4000 }, { 0, 0, 0, 0 }, 4 },
		{ { 2500, 4000 }, { 1, 1 }, 2 },
		{ { 3000, 100000 }, { 2, 0 }, 2 },
		{ { 4999 }, { 3 }, 1 }, { { 1ull << 50 }, { 3 }, 1 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct htw_add_args add = {
			.deadline = 1000, .interval = 1000, .firings = 4,
		};
		struct htw_test_file *f = htw_test_manual(test, TICK);
		const u64 id = htw_test_add(f, &add);

		for (u32 k = 0; k < cases[i].events; k++) {
			const bool last = k == cases[i].events - 1;
			struct htw_event event;

			htw_test_advance_to(f, cases[i].read_at[k]);
			event = expect_event(f, id);
			KUNIT_EXPECT_EQ(test, event.missed, cases[i].missed[k]);
			KUNIT_EXPECT_EQ(test, event.flags, last ? 0 : HTW_EVENT_MORE);
		}
		htw_test_expect_no_timer(f, id);
		htw_test_expect_nothing(f);
	}
}

static void interval_is_at_least_a_tick(struct kunit *test)
{
	static const struct {
		u64 asked;
		u64 is;
	} intervals[] = { { 0, 0 }, { 1, TICK }, { TICK - 1, TICK }, { TICK, TICK },
			  { TICK + 1, TICK + 1 }, { U64_MAX, U64_MAX } };
	struct htw_test_file *f = htw_test_manual(test, TICK);

	for (u32 i = 0; i < ARRAY_SIZE(intervals); i++) {
		const struct htw_add_args add = { .deadline = 1, .interval = intervals[i].asked };
		struct htw_mod_args mod = {
			.id = htw_test_start(f, U64_MAX, 1), .interval = intervals[i].asked,
			.flags = HTW_MOD_INTERVAL,
		};

		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, htw_test_add(f, &add)).interval,
				intervals[i].is);
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, mod.id).interval, intervals[i].is);
	}
}

/* One whose next time is never stays pending, and wraps nowhere. */
static void endless_interval(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1000, .interval = U64_MAX };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_add(f, &add);

	htw_test_advance_to(f, 1000);
	KUNIT_EXPECT_EQ(test, expect_event(f, id).flags, HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).deadline, U64_MAX);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, S64_MAX), 0);
	expect_no_event(f);
}

/*
 * HTW_MOD
 */

/* A deadline arms a timer in any state; of one that was due no event comes for that. */
static void mod_arms_in_any_state(struct kunit *test)
{
	const struct htw_add_args kept = { .flags = HTW_F_KEEP, .cookie = 3 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_mod_args mod = { .flags = HTW_MOD_DEADLINE, .deadline = 5000 };
	static const u32 states[] = { HTW_STATE_PENDING, HTW_STATE_DUE, HTW_STATE_DISARMED };
	struct htw_event events[4];
	u64 id[3];

	id[2] = htw_test_add(f, &kept);
	expect_event(f, id[2]);
	id[0] = htw_test_start(f, 20000, 1);
	id[1] = htw_test_start(f, 1000, 2);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, 2000), 1);
	for (u32 i = 0; i < ARRAY_SIZE(id); i++) {
		mod.id = id[i];
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
		KUNIT_EXPECT_EQ(test, mod.state, states[i]);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id[i]).deadline, 7000);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id[i]).state, HTW_STATE_PENDING);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id[i]).cookie, i + 1);
	}
	expect_no_event(f);
	expect_due_at(f, 7000);
	KUNIT_ASSERT_EQ(test, htw_test_take(f, events, 4), 3);
	for (u32 i = 0; i < ARRAY_SIZE(id); i++)
		KUNIT_EXPECT_EQ(test, events[i].id, id[i]);
}

/* Earlier, later, at once, and for ever. */
static void mod_moves_both_ways(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_mod_args mod = {
		.id = htw_test_start(f, 50000, 1), .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
	};
	static const u64 deadlines[] = { 90000, 20000, 1, U64_MAX, 30000, 0, 40000 };

	for (u32 i = 0; i < ARRAY_SIZE(deadlines); i++) {
		mod.deadline = deadlines[i];
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
		KUNIT_EXPECT_EQ(test, mod.state,
				i && !deadlines[i - 1] ? HTW_STATE_DUE : HTW_STATE_PENDING);
		KUNIT_EXPECT_EQ(test, htw_test_is_readable(f), !deadlines[i]);
	}
	expect_due_at(f, 40000);
	KUNIT_EXPECT_EQ(test, expect_event(f, mod.id).deadline, 40000);
}

/* Without a deadline it stays due, and is the first of the new firings. */
static void mod_of_what_is_due(struct kunit *test)
{
	const struct htw_add_args add = {
		.deadline = 1000, .interval = 1000, .firings = 2, .cookie = 1,
	};
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_add(f, &add);
	struct htw_mod_args mod = {
		.id = id, .flags = HTW_MOD_COOKIE | HTW_MOD_INTERVAL,
		.cookie = 5, .interval = 2000, .firings = 3,
	};
	struct htw_event event;

	htw_test_advance_to(f, 1500);
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	KUNIT_EXPECT_EQ(test, mod.state, HTW_STATE_DUE);
	event = expect_event(f, id);
	KUNIT_EXPECT_EQ(test, event.cookie, 5);
	KUNIT_EXPECT_EQ(test, event.deadline, 1000);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).firings, 2);
	expect_due_at(f, 3000);
	expect_event(f, id);
	expect_due_at(f, 5000);
	KUNIT_EXPECT_EQ(test, expect_event(f, id).flags, 0);
	htw_test_expect_no_timer(f, id);
}

/* That a due timer is moved is no firing. */
static void moved_timer_has_not_fired(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1000, .interval = 1000, .firings = 2 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_mod_args mod = {
		.id = htw_test_add(f, &add), .flags = HTW_MOD_DEADLINE, .deadline = 5000,
	};

	htw_test_advance_to(f, 1000);
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, mod.id).firings, 2);
	expect_due_at(f, 6000);
	KUNIT_EXPECT_EQ(test, expect_event(f, mod.id).flags, HTW_EVENT_MORE);
	expect_due_at(f, 7000);
	KUNIT_EXPECT_EQ(test, expect_event(f, mod.id).flags, 0);
}

/* A periodic timer becomes a one-shot timer, pending or due. */
static void interval_of_zero_ends_a_period(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1000, .interval = 1000 };

	for (u32 due = 0; due < 2; due++) {
		struct htw_test_file *f = htw_test_manual(test, TICK);
		struct htw_mod_args mod = {
			.id = htw_test_add(f, &add), .flags = HTW_MOD_INTERVAL,
		};
		struct htw_event event;

		htw_test_advance_to(f, due * 1000);
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
		htw_test_advance_to(f, 5000);
		event = expect_event(f, mod.id);
		KUNIT_EXPECT_EQ(test, event.missed, 0);
		KUNIT_EXPECT_EQ(test, event.flags, 0);
		htw_test_expect_no_timer(f, mod.id);
	}
}

/*
 * Slack
 */

static void slack_is_used(struct kunit *test)
{
	static const u64 ticks[] = { 1, 7, 1000 };
	static const u64 slacks[] = {
		0, 1, 6, 7, 999, 1000, 1001, 1024, 12345, 65535, (1 << 26) - 1, (1 << 26) + 1,
		(1ull << 33) + 12345, (1ull << 40) - 1,
	};

	for (u32 t = 0; t < ARRAY_SIZE(ticks); t++) {
		struct htw_test_file *f = htw_test_manual(test, ticks[t]);
		u64 now = 0;

		for (u32 s = 0; s < ARRAY_SIZE(slacks); s++) {
			for (u32 i = 0; i < 5; i++) {
				const struct htw_add_args add = {
					.deadline = now + 3000 + 777 * i, .slack = slacks[s],
					.flags = HTW_F_ABS,
				};
				const u64 id = htw_test_add(f, &add);

				now = htw_test_due_with_slack(add.deadline, add.slack, ticks[t]);
				KUNIT_EXPECT_GE(test, now, add.deadline);
				expect_due_at(f, now);
				KUNIT_EXPECT_EQ(test, expect_event(f, id).deadline, add.deadline);
			}
		}
	}
}

/* The phase is that of the deadline without slack. */
static void periodic_with_slack(struct kunit *test)
{
	const struct htw_add_args add = { .deadline = 1001, .interval = 10000, .slack = 5000 };
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_add(f, &add);

	expect_due_at(f, htw_test_due_with_slack(1001, 5000, TICK));
	KUNIT_EXPECT_EQ(test, expect_event(f, id).deadline, 1001);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).deadline, 11001);
	/* At latest. */
	htw_test_advance_to(f, 16001);
	KUNIT_EXPECT_EQ(test, expect_event(f, id).deadline, 11001);
}

/* It takes effect when the timer is armed next. */
static void slack_changes(struct kunit *test)
{
	const u64 deadline = 1000001;
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_start(f, deadline, 1);
	struct htw_mod_args mod = { .id = id, .flags = HTW_MOD_SLACK, .slack = 100000 };

	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	expect_due_at(f, htw_tick_up(deadline, TICK) * TICK);
	mod.flags |= HTW_MOD_DEADLINE | HTW_F_ABS;
	mod.deadline = 2 * deadline;
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	/* Slack stays where it is not named. */
	for (u32 i = 0; i < 2; i++) {
		expect_due_at(f, htw_test_due_with_slack(mod.deadline, 100000, TICK));
		mod.flags = HTW_MOD_DEADLINE | HTW_F_ABS;
		mod.slack = 0;
		mod.deadline += deadline;
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	}
	mod.flags = HTW_MOD_DEADLINE | HTW_MOD_SLACK | HTW_F_ABS;
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	expect_due_at(f, htw_tick_up(mod.deadline, TICK) * TICK);
}

/*
 * HTW_ADVANCE
 */

static int advance(struct htw_test_file *f, u64 ns, u32 flags, u32 *due)
{
	struct htw_advance_args arg = { .ns = ns, .flags = flags, .due = 77 };
	const int ret = htw_test_call(f, HTW_ADVANCE, &arg);

	*due = arg.due;
	return ret;
}

static void advance_moves_the_clock(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const u64 id = htw_test_start(f, 5000, 1);
	u32 due;

	KUNIT_EXPECT_EQ(test, advance(f, 0, 0, &due), 0);
	KUNIT_EXPECT_EQ(test, due, 0);
	KUNIT_EXPECT_EQ(test, advance(f, 3000, 0, &due), 0);
	KUNIT_EXPECT_EQ(test, advance(f, 1999, 0, &due), 0);
	KUNIT_EXPECT_EQ(test, due, 0);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id).remaining, 1);
	KUNIT_EXPECT_EQ(test, advance(f, 1, 0, &due), 0);
	KUNIT_EXPECT_EQ(test, due, 1);
	/* As long as nobody takes it. */
	KUNIT_EXPECT_EQ(test, advance(f, 0, 0, &due), 0);
	KUNIT_EXPECT_EQ(test, due, 1);
	KUNIT_EXPECT_EQ(test, advance(f, 7000, HTW_F_ABS, &due), 0);
	KUNIT_EXPECT_EQ(test, due, 1);
	KUNIT_EXPECT_EQ(test, expect_event(f, id).taken, 7000);

	/* Not back, nor beyond the end. */
	KUNIT_EXPECT_EQ(test, advance(f, 6999, HTW_F_ABS, &due), -EINVAL);
	KUNIT_EXPECT_EQ(test, advance(f, 1ull << 63, HTW_F_ABS, &due), -EINVAL);
	KUNIT_EXPECT_EQ(test, advance(f, U64_MAX, HTW_F_ABS, &due), -EINVAL);
	KUNIT_EXPECT_EQ(test, advance(f, U64_MAX, 0, &due), -EINVAL);
	KUNIT_EXPECT_EQ(test, advance(f, S64_MAX - 6999, 0, &due), -EINVAL);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(f, htw_test_start(f, 8000, 2)).remaining, 1000);
	KUNIT_EXPECT_EQ(test, advance(f, S64_MAX - 7000, 0, &due), 0);
	KUNIT_EXPECT_EQ(test, advance(f, S64_MAX, HTW_F_ABS, &due), 0);
	KUNIT_EXPECT_EQ(test, advance(f, 1, 0, &due), -EINVAL);
}

static void other_clocks_go_by_themselves(struct kunit *test)
{
	static const s32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

	for (u32 i = 0; i < ARRAY_SIZE(clocks); i++) {
		const struct htw_setup_args setup = {
			.flags = HTW_SETUP_CLOCK, .clock = clocks[i],
		};
		struct htw_test_file *f = htw_test_open(test);
		u32 due;

		htw_test_setup(f, &setup);
		KUNIT_EXPECT_EQ(test, advance(f, 0, 0, &due), -EINVAL);
		htw_test_start(f, U64_MAX, 1);
		KUNIT_EXPECT_EQ(test, advance(f, 1, 0, &due), -EINVAL);
	}
}

/* A long bucket, and then many due at once, all by one call. */
static void advance_moves_any_number(struct kunit *test)
{
	const u32 count = 20000;
	struct htw_test_file *f = htw_test_manual(test, TICK);
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));

	for (u32 i = 0; i < count; i++)
		htw_test_start(f, 100000000000ull - i % TICK, i);
	expect_due_at(f, 100000000000ull);
	KUNIT_ASSERT_EQ(test, htw_test_take(f, events, count), count);
	for (u32 i = 0; i < count; i++)
		KUNIT_ASSERT_EQ(test, events[i].cookie, i);
	htw_test_expect_nothing(f);
}

static struct kunit_case htw_timers_cases[] = {
	KUNIT_CASE_PARAM(due_at_the_first_tick, due_cases_gen_params),
	KUNIT_CASE(due_at_once),
	KUNIT_CASE_PARAM(due_at_once_overtakes_few, crowd_gen_params),
	KUNIT_CASE(equal_ticks_in_order),
	KUNIT_CASE(far_deadlines),
	KUNIT_CASE(never_is_never),
	KUNIT_CASE(cancel_says_what_it_found),
	KUNIT_CASE(pending_until_the_tick),
	KUNIT_CASE(query_tells_all),
	KUNIT_CASE(kept_timer_comes_again),
	KUNIT_CASE(periodic_keeps_its_phase),
	KUNIT_CASE(late_reader_misses_by_the_phase),
	KUNIT_CASE(firings_come_to_an_end),
	KUNIT_CASE(interval_is_at_least_a_tick),
	KUNIT_CASE(endless_interval),
	KUNIT_CASE(mod_arms_in_any_state),
	KUNIT_CASE(mod_moves_both_ways),
	KUNIT_CASE(mod_of_what_is_due),
	KUNIT_CASE(moved_timer_has_not_fired),
	KUNIT_CASE(interval_of_zero_ends_a_period),
	KUNIT_CASE(slack_is_used),
	KUNIT_CASE(periodic_with_slack),
	KUNIT_CASE(slack_changes),
	KUNIT_CASE(advance_moves_the_clock),
	KUNIT_CASE(other_clocks_go_by_themselves),
	KUNIT_CASE(advance_moves_any_number),
	{}
};

static struct kunit_suite htw_timers_suite = {
	.name = "htw_timers",
	.test_cases = htw_timers_cases,
};

kunit_test_suite(htw_timers_suite);

MODULE_DESCRIPTION("KUnit: what a timer does");
MODULE_LICENSE("GPL");
