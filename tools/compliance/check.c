// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks; see check.h
 *
 * kselftest_harness.h keeps its tests and counters in static variables and
 * serves programs of a single source. This program has many, so it prints
 * through kselftest.h, which the harness itself prints through.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "check.h"
#include "kselftest.h"

static struct {
	const char *group;
	char what[160];		/* name of the current check, or "" */
	char why[320];		/* its first failed expectation, or "" */
} checks;

void begin_checks(void)
{
	ksft_print_header();
}

void finish_checks(void)
{
	end();
	/*
	 * Only here is the number known. A run that dies prints no plan, and so
	 * fails.
	 */
	ksft_set_plan(ksft_test_num());
	ksft_finished();
}

void end(void)
{
	if (!checks.what[0])
		return;
	if (checks.why[0]) {
		ksft_print_msg("%s\n", checks.why);
		ksft_test_result_fail("%s: %s\n", checks.group, checks.what);
	} else {
		ksft_test_result_pass("%s: %s\n", checks.group, checks.what);
	}
	fflush(stdout);
	checks.what[0] = '\0';
	checks.why[0] = '\0';
}

void skip(const char *why)
{
	if (checks.what[0] && !checks.why[0]) {
		ksft_test_result_skip("%s: %s: %s\n", checks.group, checks.what, why);
		checks.what[0] = '\0';
	}
	end();
}

void group(const char *name)
{
	end();
	checks.group = name;
}

void begin(const char *format, ...)
{
	va_list args;

	end();
	va_start(args, format);
	vsnprintf(checks.what, sizeof(checks.what), format, args);
	va_end(args);
}

bool expect(bool right, const char *format, ...)
{
	va_list args;

	if (right || checks.why[0])
		return right;
	va_start(args, format);
	vsnprintf(checks.why, sizeof(checks.why), format, args);
	va_end(args);
	return false;
}

const char *result_name(int ret)
{
	static char buf[4][24];
	static unsigned int n;
	const char *name = ret < 0 ? strerrorname_np(-ret) : NULL;

	if (name)
		return name;
	n = (n + 1) % 4;
	snprintf(buf[n], sizeof(buf[n]), "%d", ret);
	return buf[n];
}

bool expect_result(const char *what, int expected, int actual)
{
	return expect(expected == actual, "%s: expected %s, got %s", what,
		      result_name(expected), result_name(actual));
}

bool expect_number(const char *what, unsigned long long expected, unsigned long long actual)
{
	return expect(expected == actual, "%s: expected %llu (%#llx), got %llu (%#llx)",
		      what, expected, expected, actual, actual);
}
