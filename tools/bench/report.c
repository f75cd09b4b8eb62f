// SPDX-License-Identifier: GPL-2.0-only
/* Output of htw-bench; see report.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include "report.h"

static bool as_json;
static char kernel[65];

void report_init(bool json)
{
	struct utsname uts;

	as_json = json;
	if (!uname(&uts))
		snprintf(kernel, sizeof(kernel), "%s", uts.release);
}

static void print_key(const char *system, const char *op, uint32_t pending)
{
	if (as_json)
		printf("{\"system\": \"%s\", \"op\": \"%s\", \"pending\": %u, ",
		       system, op, pending);
	else
		printf("%-12s %-26s %8u ", system, op, pending);
}

void report(const char *system, const char *op, uint32_t pending, double value, const char *unit)
{
	print_key(system, op, pending);
	if (as_json)
		printf("\"value\": %.10g, \"unit\": \"%s\", \"kernel\": \"%s\"}\n",
		       value, unit, kernel);
	else
		printf("%14.2f %s\n", value, unit);
	fflush(stdout);
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

void report_percentiles(const char *system, const char *what, uint64_t *ns, uint32_t count)
{
	static const double percents[] = { 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99 };
	char op[64];
	unsigned int i;

	qsort(ns, count, sizeof(*ns), compare);
	for (i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
		snprintf(op, sizeof(op), "%s-p%g", what, percents[i]);
		report(system, op, count, ns[(uint32_t)((count - 1) * percents[i] / 100)], "ns");
	}
	snprintf(op, sizeof(op), "%s-max", what);
	report(system, op, count, ns[count - 1], "ns");
}

void report_missing(const char *system, const char *op, uint32_t pending, const char *why)
{
	print_key(system, op, pending);
	if (as_json)
		printf("\"missing\": \"%s\"}\n", why);
	else
		printf("%14s %s\n", "-", why);
	fflush(stdout);
}

void progress(const char *format, ...)
{
	va_list args;

	fputs("# ", stdout);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("htw-bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}
