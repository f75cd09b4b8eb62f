// SPDX-License-Identifier: GPL-2.0-only
/* Quiet: hrtimer callbacks in a minute without expirations. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "trace.h"
#include "workloads.h"

#define MANY		1000000U
#define MINUTE		(60 * SEC)

#define WHEELS		"/sys/kernel/debug/htw/wheels"

static uint64_t wheels_callbacks(void)
{
	FILE *f = fopen(WHEELS, "r");
	unsigned long long n, sum = 0;
	char line[512];
	const char *at;

	if (!f)
		die("cannot open " WHEELS);
	while (fgets(line, sizeof(line), f)) {
		at = strstr(line, " callbacks ");
		if (at && sscanf(at, " callbacks %llu", &n) == 1)
			sum += n;
	}
	fclose(f);
	return sum;
}

/* Without debugfs they are traced. */
static double traced_in_a_minute(void)
{
	uint64_t count;

	trace_start();
	sleep_until(now_ns() + MINUTE);
	trace_longest(&count);
	return count;
}

static double callbacks_in_a_minute(void)
{
	uint64_t before;

	if (access(WHEELS, F_OK))
		return traced_in_a_minute();
	before = wheels_callbacks();
	sleep_until(now_ns() + MINUTE);
	return wheels_callbacks() - before;
}

void workload_quiet(void)
{
	const struct system *s = &system_htw_vector;
	const char *why = s->missing(MANY);
	struct bench b;

	if (why) {
		report_missing(s->name, "callbacks-in-60s", MANY, why);
		return;
	}
	bench_init(&b, MANY);
	fill_random(b.delay, MANY, 1800 * SEC, 60 * SEC);
	settle();
	s->open(&b);
	report(s->name, "callbacks-in-60s", 0, callbacks_in_a_minute(), "count");
	b.base = now_ns();
	s->add(&b);
	report(s->name, "callbacks-in-60s", MANY, callbacks_in_a_minute(), "count");
	s->close(&b);
	bench_exit(&b);
}
