/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks, and what they say
 *
 * A check is one line of what is printed. It begins with begin(), lasts until
 * the next one begins, and passes where none of its expectations is wrong: the
 * first that is says what was expected and what came.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PRINTF(string, args)	__attribute__((format(printf, string, args)))

static struct {
	bool quiet;
	const char *group;
	bool heading_due;	/* of a group that has printed nothing yet */
	char what[160];		/* the check that is under way, or "" */
	char why[320];		/* what is wrong with it, or "" */
	unsigned int passed;
	unsigned int failed;
} checks;

static void say_heading(void)
{
	if (checks.heading_due)
		printf("%s:\n", checks.group);
	checks.heading_due = false;
}

/* Ends the check that is under way. */
static void end(void)
{
	if (!checks.what[0])
		return;
	if (checks.why[0]) {
		checks.failed++;
		say_heading();
		printf("  FAIL %s: %s\n", checks.what, checks.why);
	} else {
		checks.passed++;
		if (!checks.quiet) {
			say_heading();
			printf("  ok   %s\n", checks.what);
		}
	}
	fflush(stdout);
	checks.what[0] = checks.why[0] = '\0';
}

static void group(const char *name)
{
	end();
	checks.group = name;
	checks.heading_due = true;
}

/* What is neither right nor wrong. */
static void note(const char *what)
{
	end();
	if (checks.quiet)
		return;
	say_heading();
	printf("  %s\n", what);
}

PRINTF(1, 2) static void begin(const char *format, ...)
{
	va_list args;

	end();
	va_start(args, format);
	vsnprintf(checks.what, sizeof(checks.what), format, args);
	va_end(args);
}

PRINTF(2, 3) static bool expect(bool right, const char *format, ...)
{
	va_list args;

	if (right || checks.why[0])
		return right;
	va_start(args, format);
	vsnprintf(checks.why, sizeof(checks.why), format, args);
	va_end(args);
	return false;
}

/* The name of what a call returned, with negative errors. */
static const char *result_name(int ret)
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

static bool expect_result(const char *what, int expected, int came)
{
	return expect(expected == came, "%s: expected %s, came %s", what,
		      result_name(expected), result_name(came));
}

static bool expect_number(const char *what, unsigned long long expected,
			  unsigned long long came)
{
	return expect(expected == came, "%s: expected %llu (%#llx), came %llu (%#llx)",
		      what, expected, expected, came, came);
}

#endif /* CHECK_H */
