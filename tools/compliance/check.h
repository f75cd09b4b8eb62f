/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks, reported as TAP with the kernel's kselftest.h
 *
 * A check is one test line. It lasts from begin() to the next begin(), skip()
 * or end(), and passes where all its expectations hold; the first that does not
 * is printed before the line: what was expected, and what came.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>

#define PRINTF(string, args)	__attribute__((format(printf, string, args)))

void begin_checks(void);
/* Prints the plan and the totals. Exits with 0 where no check failed, else 1. */
__attribute__((noreturn)) void finish_checks(void);

/* The call or area that the following checks' names begin with. */
void group(const char *name);
/* A comment in the output. */
void note(const char *what);

PRINTF(1, 2) void begin(const char *format, ...);
void end(void);
/* Ends the check that is under way; it is skipped unless it has failed already. */
void skip(const char *why);

/* All return whether the expectation holds. */
PRINTF(2, 3) bool expect(bool right, const char *format, ...);
/* Of calls that return a negative errno. */
bool expect_result(const char *what, int expected, int came);
bool expect_number(const char *what, unsigned long long expected, unsigned long long came);

/* "-EINVAL" is "EINVAL"; what is no error is a number. */
const char *result_name(int ret);

#endif /* CHECK_H */
