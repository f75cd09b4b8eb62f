// SPDX-License-Identifier: GPL-2.0-only
/* Duration of htw's hrtimer callbacks; see trace.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "bench.h"
#include "trace.h"

#define TRACING		"/sys/kernel/tracing/"

/* Tracing adds several hundred instructions to a callback. */
static void put(const char *file, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), TRACING "%s", file);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		die("%s: %s", path, strerror(errno));
}

void trace_start(void)
{
	put("tracing_on", "0");
	put("trace", "");
	put("buffer_size_kb", "8192");
	/* Under icount this clock counts instructions. */
	put("trace_clock", "x86-tsc");
	put("events/timer/hrtimer_expire_entry/enable", "1");
	put("events/timer/hrtimer_expire_exit/enable", "1");
	put("tracing_on", "1");
}

/*
 * Lines of the trace:
 *   <task>-<pid> [cpu] flags <time>: hrtimer_expire_entry: hrtimer=<p> function=htw_... now=..
 *   <task>-<pid> [cpu] flags <time>: hrtimer_expire_exit: hrtimer=<p>
 */
uint64_t trace_longest(uint64_t *count)
{
	uint64_t longest = 0, entered = 0;
	unsigned long long time;
	char line[512];
	const char *at;
	FILE *f;

	put("tracing_on", "0");
	put("events/timer/hrtimer_expire_entry/enable", "0");
	put("events/timer/hrtimer_expire_exit/enable", "0");
	*count = 0;
	f = fopen(TRACING "trace", "r");
	if (!f)
		die(TRACING "trace: %s", strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		at = strstr(line, ": hrtimer_expire_");
		if (!at)
			continue;
		while (at > line && at[-1] != ' ')
			at--;
		if (sscanf(at, "%llu:", &time) != 1)
			die("cannot read the trace: %s", line);
		if (strstr(at, "_entry:") && strstr(at, "function=htw_")) {
			entered = time;
		} else if (strstr(at, "_exit:") && entered) {
			if (time - entered > longest)
				longest = time - entered;
			entered = 0;
			(*count)++;
		}
	}
	fclose(f);
	return longest;
}
