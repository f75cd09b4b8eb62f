// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: which shapes of a wheel are allowed, and why others are not
 */
#include <kunit/test.h>
#include <linux/string.h>

#include "../htw_wheel.h"

struct geometry_case {
	const char *name;
	struct htw_geometry geo;
};

static const struct geometry_case good_geometries[] = {
	{ "default", { 5, { 256, 64, 64, 64, 64 } } },
	{ "seconds_minutes_hours", { 3, { 60, 60, 12 } } },
	{ "ch11", { 3, { 10, 60, 5 } } },
	{ "kafka", { 3, { 3, 3, 3 } } },
	{ "fewest_slots", { 1, { 2 } } },
	{ "most_slots", { 1, { HTW_WHEEL_MAX_SLOTS } } },
	{ "most_levels", { HTW_WHEEL_MAX_LEVELS, { 2, 2, 2, 2, 2, 2, 2, 2 } } },
	{ "prime", { 4, { 2039, 2029, 3, 7 } } },
	{ "span_2_to_55", { 5, { 2048, 2048, 2048, 2048, 2048 } } },
	{ "span_2_to_61", { 6, { 2048, 2048, 2048, 2048, 2048, 64 } } },
	{ "slots_above_the_last_level_ignored", { 2, { 4, 4, 0, 1, 99999 } } },
};

KUNIT_ARRAY_PARAM_DESC(good_geometries, good_geometries, name);

static void geometry_good(struct kunit *test)
{
	const struct geometry_case *c = test->param_value;

	KUNIT_EXPECT_NULL(test, htw_geometry_error(&c->geo));
}

struct bad_geometry {
	const char *name;
	const char *why;	/* what the reason given is about */
	struct htw_geometry geo;
};

/* Each of these is a good one with one thing wrong. */
static const struct bad_geometry bad_geometries[] = {
	{ "no_level", "1 to 8",
	  { 0, { 64, 64 } } },
	{ "one_level_too_many", "1 to 8",
	  { HTW_WHEEL_MAX_LEVELS + 1, { 2, 2, 2, 2, 2, 2, 2, 2 } } },
	{ "levels_uint_max", "1 to 8",
	  { UINT_MAX, { 2, 2, 2, 2, 2, 2, 2, 2 } } },
	{ "first_slots_0", "slots",
	  { 3, { 0, 60, 12 } } },
	{ "first_slots_1", "slots",
	  { 3, { 1, 60, 12 } } },
	{ "middle_slots_0", "slots",
	  { 3, { 60, 0, 12 } } },
	{ "middle_slots_1", "slots",
	  { 3, { 60, 1, 12 } } },
	{ "last_slots_0", "slots",
	  { 3, { 60, 60, 0 } } },
	{ "last_slots_1", "slots",
	  { 3, { 60, 60, 1 } } },
	{ "one_slot_too_many", "slots",
	  { 1, { HTW_WHEEL_MAX_SLOTS + 1 } } },
	{ "slots_uint_max", "slots",
	  { 2, { 2, UINT_MAX } } },
	{ "slots_sign_bit", "slots",
	  { 2, { 2, 0x80000000 } } },
	{ "eighth_slots_1", "slots",
	  { 8, { 2, 2, 2, 2, 2, 2, 2, 1 } } },
	{ "span_above_2_to_61", "span",
	  { 6, { 2048, 2048, 2048, 2048, 2048, 65 } } },
	{ "span_2_to_62", "span",
	  { 6, { 2048, 2048, 2048, 2048, 2048, 128 } } },
	{ "span_2_to_64", "span",
	  { 6, { 2048, 2048, 2048, 2048, 2048, 512 } } },
	{ "span_2_to_66_is_small_modulo_2_to_64", "span",
	  { 6, { 2048, 2048, 2048, 2048, 2048, 2048 } } },
	{ "span_2_to_88", "span",
	  { 8, { 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048 } } },
};

KUNIT_ARRAY_PARAM_DESC(bad_geometries, bad_geometries, name);

static void geometry_bad(struct kunit *test)
{
	const struct bad_geometry *c = test->param_value;
	const char *error = htw_geometry_error(&c->geo);

	KUNIT_ASSERT_NOT_NULL(test, error);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(error, c->why), "%s", error);
}

static struct kunit_case htw_geometry_cases[] = {
	KUNIT_CASE_PARAM(geometry_good, good_geometries_gen_params),
	KUNIT_CASE_PARAM(geometry_bad, bad_geometries_gen_params),
	{ }
};

static struct kunit_suite htw_geometry_suite = {
	.name = "htw_geometry",
	.test_cases = htw_geometry_cases,
};

kunit_test_suite(htw_geometry_suite);

MODULE_DESCRIPTION("KUnit tests of the timing wheel's geometry");
MODULE_LICENSE("GPL");
