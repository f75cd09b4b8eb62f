/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks, reported as TAP through the kernel's kselftest.h
 *
 * A check is one line of TAP. It starts with begin() and lasts until the next
 * begin(), skip() or end(). It passes if all its expectations hold; the first
 * that fails is printed above the line, with the expected and the actual value.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>

#define PRINTF(string, args)	__attribute__((format(printf, string, args)))

void begin_checks(void);
/* Print the plan and the totals; exit with 0 if no check failed, else with 1. */
__attribute__((noreturn)) void finish_checks(void);

/* Set the first part of the names of the checks that follow. */
void group(const char *name);

PRINTF(1, 2) void begin(const char *format, ...);
void end(void);
/* End the current check as skipped, unless it has failed already. */
void skip(const char *why);

/* These return whether the expectation holds. */
PRINTF(2, 3) bool expect(bool right, const char *format, ...);
/* For calls that return a negative errno. */
bool expect_result(const char *what, int expected, int actual);
bool expect_number(const char *what, unsigned long long expected, unsigned long long actual);

/* The name of an errno ("EINVAL" for -EINVAL), else the number. */
const char *result_name(int ret);

#endif /* CHECK_H */
