/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Output of all processes of a run, and the count of violations
 */
#ifndef TORTURE_REPORT_H
#define TORTURE_REPORT_H

#include <stdbool.h>

/* Violations after which no more are printed in a round. */
#define REPORT_MOST	20

bool report_init(void);
void report_new_round(void);
unsigned int report_violations(void);
void __attribute__((format(printf, 1, 2))) report_say(const char *format, ...);
void __attribute__((format(printf, 1, 2))) report_violation(const char *format, ...);

/* End the process: the machine or this program is at fault, not htw. */
void __attribute__((format(printf, 1, 2), noreturn)) report_broken(const char *format, ...);

#endif /* TORTURE_REPORT_H */
