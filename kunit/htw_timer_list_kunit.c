// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: callouts do what timer_list does
 */

#include <kunit/test.h>

#include "timer_cases.h"

static void describe(const struct timer_case *c, char *description)
{
	strscpy(description, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(timer_cases, timer_cases, describe);

static void run(struct kunit *test, const struct timer_kind *kind)
{
	const struct timer_case *c = test->param_value;
	const char *wrong;

	KUNIT_ASSERT_NULL(test, timer_case_skip(c, kind));
	wrong = timer_case_run(c, kind);
	KUNIT_EXPECT_NULL_MSG(test, wrong, "%s", wrong);
}

static void timer_list_does(struct kunit *test)
{
	run(test, &timer_kinds[0]);
}

static void callout_does(struct kunit *test)
{
	run(test, &timer_kinds[1]);
}

static struct kunit_case cases[] = {
	KUNIT_CASE_PARAM(timer_list_does, timer_cases_gen_params),
	KUNIT_CASE_PARAM(callout_does, timer_cases_gen_params),
	{}
};

static struct kunit_suite suite = {
	.name = "htw_timer_list",
	.test_cases = cases,
};

kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit: callouts do what timer_list does");
MODULE_LICENSE("GPL");
