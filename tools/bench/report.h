/* SPDX-License-Identifier: GPL-2.0-only */
/* Output of htw-bench: one line for each figure, as text or JSON. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

void report_init(bool json);
void report(const char *system, const char *op, uint32_t pending, double value, const char *unit);
/* Times in ns, which are sorted: WHAT-p50 and other percentiles, and WHAT-max. */
void report_percentiles(const char *system, const char *what, uint64_t *ns, uint32_t count);
/* A figure that cannot be measured, and why. */
void report_missing(const char *system, const char *op, uint32_t pending, const char *why);
/* Progress messages; not part of the report. */
__attribute__((format(printf, 1, 2)))
void progress(const char *format, ...);
/* End the program, because a result is wrong or missing. */
__attribute__((format(printf, 1, 2), noreturn))
void die(const char *format, ...);

#endif /* REPORT_H */
