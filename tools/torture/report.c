// SPDX-License-Identifier: GPL-2.0-only
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shared by all processes. */
static unsigned int *violations;

bool report_init(void)
{
	violations = mmap(NULL, sizeof(*violations), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return violations != MAP_FAILED;
}

void report_new_round(void)
{
	__atomic_store_n(violations, 0, __ATOMIC_RELAXED);
}

unsigned int report_violations(void)
{
	return __atomic_load_n(violations, __ATOMIC_RELAXED);
}

/* One write() a line, so that the lines of several processes do not mix. */
static void say(const char *before, const char *format, va_list args)
{
	char line[1024];
	int n, length;

	n = snprintf(line, sizeof(line), "%s", before);
	length = vsnprintf(line + n, sizeof(line) - n - 1, format, args);
	n += length < (int)sizeof(line) - n - 1 ? length : (int)sizeof(line) - n - 2;
	line[n++] = '\n';
	if (write(STDOUT_FILENO, line, n) != n)
		_exit(3);
}

void report_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("", format, args);
	va_end(args);
}

void report_violation(const char *format, ...)
{
	va_list args;

	if (__atomic_fetch_add(violations, 1, __ATOMIC_RELAXED) >= REPORT_MOST)
		return;
	va_start(args, format);
	say("VIOLATION: ", format, args);
	va_end(args);
}

void report_broken(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("htw-torture: ", format, args);
	va_end(args);
	_exit(3);
}
