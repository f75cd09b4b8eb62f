// SPDX-License-Identifier: GPL-2.0-only
/*
 * A million timers due on one tick
 *
 * A task spins meanwhile and records the longest time that it was kept from the
 * CPU; then it collects the events. A second round traces the durations of the
 * callbacks; tracing would lengthen the stalls.
 */
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "spin.h"
#include "trace.h"
#include "workloads.h"

#define BURST		1000000U
/* From the first add to the deadline; from the deadline until timers count as lost. */
#define AFTER		(2 * SEC)
#define LOST		(60 * SEC)

/* Have all expired? Without rings timers expire as they are read: then after a second. */
static bool have_expired(int fd, uint64_t due)
{
	struct htw_info info;
	int ret = htw_call(fd, HTW_INFO, &info);

	if (ret)
		die("HTW_INFO: %s", strerror(-ret));
	if (!(info.features & HTW_FEATURE_RING))
		return now_ns() > due + SEC;
	return info.expired == BURST;
}

/* Spin until all timers have expired; return the longest gap between two rdtsc. */
static uint64_t watch(int fd, uint64_t due)
{
	const uint64_t deadline = now_ns() + AFTER + LOST;
	uint64_t last, now, longest = 0;
	unsigned int i;

	do {
		last = instructions();
		for (i = 0; i < 100000; i++) {
			now = instructions();
			if (now - last > longest)
				longest = now - last;
			last = now;
		}
		if (now_ns() > deadline)
			die("burst: timers are lost");
	} while (!have_expired(fd, due));
	return longest;
}

static void add_burst(struct bench *b, int fd)
{
	uint64_t *deadlines = allocate(b->pending, sizeof(*deadlines));
	uint64_t due = now_ns() + AFTER;
	uint32_t i;

	/* Round down to 10 ms, so that all timers are due on one tick. */
	due -= due % (10 * MSEC);
	for (i = 0; i < b->pending; i++)
		deadlines[i] = due;
	htw_vector_start(fd, (struct htw_vector){ .flags = HTW_F_ABS }, deadlines, b->pending,
			 b->handles);
	if (now_ns() > due)
		die("burst: adding took longer than the time to the deadline");
	release(deadlines, b->pending, sizeof(*deadlines));
	/* For bench_expired(): no timer is due earlier. */
	b->base = due;
}

static void burst(bool traced)
{
	const struct system *s = &system_htw_vector;
	uint64_t longest, count, begin;
	struct bench b;
	int fd;

	bench_init(&b, BURST);
	fill_random(b.delay, BURST, 0, 1);
	settle();
	s->open(&b);
	fd = htw_vector_fd();
	add_burst(&b, fd);
	if (traced)
		trace_start();
	longest = watch(fd, b.base);
	if (traced) {
		longest = trace_longest(&count);
		report(s->name, "burst-callbacks", BURST, count, "count");
		report(s->name, "burst-longest-callback", BURST, longest, "ns");
	} else {
		report(s->name, "burst-longest-stall", BURST, longest, "ns");
	}
	begin = instructions();
	while (b.collected < BURST)
		s->collect(&b);
	if (!traced)
		report(s->name, "burst-collect", BURST,
		       (double)(instructions() - begin) / BURST, "insn/op");
	s->close(&b);
	bench_exit(&b);
}

void workload_burst(void)
{
	const char *why = system_htw_vector.missing(BURST);

	if (why) {
		report_missing("htw-vector", "burst-longest-callback", BURST, why);
		report_missing("htw-vector", "burst-longest-stall", BURST, why);
		return;
	}
	burst(false);
	burst(true);
}
