// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: HTW_SETUP, and what HTW_INFO says of it
 */
#include <kunit/test.h>

#include "htw_kunit.h"

#define US			1000ull
#define MS			1000000ull
#define SEC			1000000000ull
#define USER			4713u

#define SLOTS(n, ...)		.levels = (n), .slots = { __VA_ARGS__ }
#define CLOCK(id)		.flags = HTW_SETUP_CLOCK, .clock = (id)

/* At the limits, and one beyond them: results for a privileged user and for another one. */
static const struct setup_case {
	const char *name;
	struct htw_setup_args setup;
	int privileged;
	int other;
} setups[] = {
	{ "monotonic", { CLOCK(CLOCK_MONOTONIC) } },
	{ "boottime", { CLOCK(CLOCK_BOOTTIME) } },
	{ "realtime", { CLOCK(CLOCK_REALTIME) } },
	{ "manual", { CLOCK(HTW_CLOCK_MANUAL) } },
	{ "TAI", { CLOCK(CLOCK_TAI) }, -EOPNOTSUPP, -EOPNOTSUPP },
	{ "an alarm clock", { CLOCK(CLOCK_REALTIME_ALARM) }, -EOPNOTSUPP, -EOPNOTSUPP },
	{ "a coarse clock", { CLOCK(CLOCK_MONOTONIC_COARSE) }, -EOPNOTSUPP, -EOPNOTSUPP },
	{ "no clock", { CLOCK(-1) }, -EOPNOTSUPP, -EOPNOTSUPP },
	{ "a clock without its flag", { .clock = CLOCK_BOOTTIME }, -EINVAL, -EINVAL },
	{ "an unknown flag", { .flags = 1 << 3 }, -EINVAL, -EINVAL },
	{ "the last flag", { .flags = 1u << 31 }, -EINVAL, -EINVAL },
	{ "exact", { .flags = HTW_SETUP_EXACT } },
	{ "exact, and a tick", { .flags = HTW_SETUP_EXACT, .tick_ns = MS }, -EINVAL, -EINVAL },
	{ "ordered", { .flags = HTW_SETUP_ORDERED } },
	{ "a limit of one", { .limit = 1 } },
	{ "the highest limit", { .limit = 1048576 } },
	{ "too high a limit", { .limit = 1048577 }, -ERANGE, -ERANGE },
	{ "a limit of all bits", { .limit = U64_MAX }, -ERANGE, -ERANGE },
	{ "a limit of 2^32 + 1", { .limit = (1ull << 32) + 1 }, -ERANGE, -ERANGE },
	{ "a tick of 10 us", { .tick_ns = 10 * US } },
	{ "just less than 10 us", { .tick_ns = 10 * US - 1 }, 0, -EPERM },
	{ "a tick of 1 us", { .tick_ns = US }, 0, -EPERM },
	{ "just less than 1 us", { .tick_ns = US - 1 }, -ERANGE, -ERANGE },
	{ "a tick of 1 s", { .tick_ns = SEC } },
	{ "just more than 1 s", { .tick_ns = SEC + 1 }, -ERANGE, -ERANGE },
	{ "a manual tick of 1 ns", { CLOCK(HTW_CLOCK_MANUAL), .tick_ns = 1 } },
	{ "a manual tick above 1 s", { CLOCK(HTW_CLOCK_MANUAL), .tick_ns = SEC + 1 }, -ERANGE,
	  -ERANGE },
	{ "two slots", { SLOTS(1, 2) } },
	{ "one slot", { SLOTS(1, 1) }, -ERANGE, -ERANGE },
	{ "2048 slots", { SLOTS(2, 2048, 2048) } },
	{ "2049 slots", { SLOTS(2, 2048, 2049) }, -ERANGE, -ERANGE },
	{ "no slots", { SLOTS(2, 64) }, -ERANGE, -ERANGE },
	{ "eight levels", { SLOTS(8, 4, 4, 4, 4, 4, 4, 4, 9) } },
	{ "nine levels", { SLOTS(9, 4, 4, 4, 4, 4, 4, 4, 4) }, -ERANGE, -ERANGE },
	{ "slots without a level", { SLOTS(1, 64, 64) }, -EINVAL, -EINVAL },
	{ "slots without levels", { .slots = { 64 } }, -EINVAL, -EINVAL },
	{ "2^61 ticks", { SLOTS(6, 2048, 2048, 2048, 2048, 2048, 64) } },
	{ "more ticks", { SLOTS(6, 2048, 2048, 2048, 2048, 2048, 65) }, -ERANGE, -ERANGE },
	{ "the size of an event", { .event_size = sizeof(struct htw_event) } },
	{ "a smaller event", { .event_size = sizeof(struct htw_event) - 8 }, -EINVAL, -EINVAL },
	{ "a larger event", { .event_size = sizeof(struct htw_event) + 8 }, -EINVAL, -EINVAL },
	{ "all at once", { .flags = HTW_SETUP_CLOCK | HTW_SETUP_ORDERED, .clock = CLOCK_BOOTTIME,
			   .tick_ns = 2 * MS, .limit = 3, .event_size = sizeof(struct htw_event),
			   SLOTS(8, 3, 5, 7, 2, 2, 2, 2, 3) } },
};

static void get_setup_desc(const struct setup_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(setups, setups, get_setup_desc);

/* HTW_INFO says what was asked for, and elsewhere what is there without it. */
static void expect_info(struct htw_test_file *f, const struct htw_setup_args *setup,
			const struct htw_info_args *fresh)
{
	const struct htw_info_args info = htw_test_info(f);
	struct kunit *test = f->test;

	KUNIT_EXPECT_EQ(test, info.features, HTW_FEATURE_FIRST | HTW_FEATURE_URING);
	KUNIT_EXPECT_EQ(test, info.flags, setup->flags);
	KUNIT_EXPECT_EQ(test, info.clock, setup->flags & HTW_SETUP_CLOCK ? setup->clock :
									  CLOCK_MONOTONIC);
	KUNIT_EXPECT_EQ(test, info.limit, setup->limit ?: fresh->limit);
	KUNIT_EXPECT_EQ(test, info.event_size, sizeof(struct htw_event));
	if (setup->flags & HTW_SETUP_EXACT)
		KUNIT_EXPECT_EQ(test, info.tick_ns, 10 * US);
	else
		KUNIT_EXPECT_EQ(test, info.tick_ns, setup->tick_ns ?: fresh->tick_ns);
	if (setup->levels) {
		KUNIT_EXPECT_EQ(test, info.levels, setup->levels);
		KUNIT_EXPECT_MEMEQ(test, info.slots, setup->slots, sizeof(info.slots));
	} else {
		KUNIT_EXPECT_GT(test, info.levels, 0);
		KUNIT_EXPECT_LE(test, info.levels, HTW_MAX_LEVELS);
		for (u32 l = 0; l < HTW_MAX_LEVELS; l++)
			KUNIT_EXPECT_EQ(test, info.slots[l] != 0, l < info.levels);
	}
	KUNIT_EXPECT_EQ(test, info.timers, 0);
	KUNIT_EXPECT_EQ(test, info.next, U64_MAX);
}

static void setup_has_limits(struct kunit *test)
{
	static const struct htw_setup_args none;
	const struct setup_case *c = test->param_value;

	for (u32 other = 0; other < 2; other++) {
		struct htw_test_file *f = other ? htw_test_open_as(test, USER) :
						  htw_test_open(test);
		const struct htw_info_args fresh = htw_test_info(f);
		const int expected = other ? c->other : c->privileged;
		const struct cred *before = NULL;
		struct htw_setup_args arg = c->setup;
		int ret;

		if (other)
			before = htw_test_become(test, USER);
		ret = htw_test_call(f, HTW_SETUP, &arg);
		if (other)
			htw_test_become_again(before);
		KUNIT_EXPECT_EQ(test, ret, expected);
		expect_info(f, ret ? &none : &c->setup, &fresh);

		/* A call that fails changes nothing: another one may follow. */
		arg = setups[0].setup;
		KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &arg), ret ? 0 : -EBUSY);
		htw_test_start(f, U64_MAX, 1);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).timers, 1);
	}
}

/* With nothing asked for, nothing is settled. */
static void nothing_is_asked_for(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_setup_args none = {}, limit = { .limit = 7 };

	for (u32 i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &none), 0);
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &limit), 0);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).limit, 7);
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &none), 0);
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &limit), -EBUSY);
}

/* A context that has had a timer is what it is, also when that has ended. */
static void too_late_after_a_timer(struct kunit *test)
{
	struct htw_setup_args setup = { .limit = 7 }, invalid = { .tick_ns = 1 };

	for (u32 ended = 0; ended < 2; ended++) {
		struct htw_test_file *f = htw_test_open(test);
		const u64 id = htw_test_start(f, U64_MAX, 1);
		struct htw_cancel_args cancel;

		if (ended)
			KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id, &cancel), 0);
		KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &setup), -EBUSY);
		KUNIT_EXPECT_LT(test, htw_test_call(f, HTW_SETUP, &invalid), 0);
		KUNIT_EXPECT_NE(test, htw_test_info(f).limit, 7);
	}
}

/* What looks, and what fails, settles nothing. */
static void not_too_late_before_a_timer(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_setup_args setup = { .limit = 7 };
	struct htw_add_args add = { .firings = 1 };
	struct htw_event event;

	htw_test_expect_no_timer(f, 12345);
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_ADD, &add), -EINVAL);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 0);
	KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_SETUP, &setup), 0);
}

/* Each clock is the one that it says. */
static void clocks_are_told_apart(struct kunit *test)
{
	static const s32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME,
				      HTW_CLOCK_MANUAL };

	for (u32 i = 0; i < ARRAY_SIZE(clocks); i++) {
		const struct htw_setup_args setup = { CLOCK(clocks[i]) };
		const struct htw_add_args add = { .deadline = 1000 * SEC };
		struct htw_test_file *f = htw_test_open(test);
		u64 before, after, deadline;

		htw_test_setup(f, &setup);
		before = i == 3 ? 0 : i == 2 ? ktime_get_real_ns() :
			 i == 1 ? ktime_get_boottime_ns() : ktime_get_ns();
		deadline = htw_test_info_of(f, htw_test_add(f, &add)).deadline;
		after = i == 3 ? 0 : i == 2 ? ktime_get_real_ns() :
			i == 1 ? ktime_get_boottime_ns() : ktime_get_ns();
		KUNIT_EXPECT_GE(test, deadline, before + 1000 * SEC);
		KUNIT_EXPECT_LE(test, deadline, after + 1000 * SEC);
	}
}

static struct kunit_case htw_setup_cases[] = {
	KUNIT_CASE_PARAM(setup_has_limits, setups_gen_params),
	KUNIT_CASE(nothing_is_asked_for),
	KUNIT_CASE(too_late_after_a_timer),
	KUNIT_CASE(not_too_late_before_a_timer),
	KUNIT_CASE(clocks_are_told_apart),
	{}
};

static struct kunit_suite htw_setup_suite = {
	.name = "htw_setup",
	.test_cases = htw_setup_cases,
};

kunit_test_suite(htw_setup_suite);

MODULE_DESCRIPTION("KUnit: HTW_SETUP and HTW_INFO");
MODULE_LICENSE("GPL");
