// SPDX-License-Identifier: GPL-2.0-only
/* Quiet: hrtimer callbacks in a minute without expirations. */
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "trace.h"
#include "workloads.h"

#define MANY		1000000U
#define MINUTE		(60 * SEC)

static double callbacks_in_a_minute(void)
{
	uint64_t count;

	trace_start();
	sleep_until(now_ns() + MINUTE);
	trace_longest(&count);
	return count;
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
