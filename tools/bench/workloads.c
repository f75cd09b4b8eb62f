// SPDX-License-Identifier: GPL-2.0-only
/* The list of workloads, and those that run on any system. */
#include <stdio.h>
#include <string.h>
#include "bench.h"
#include "measure.h"
#include "report.h"
#include "spin.h"
#include "workloads.h"

#define CONNECTIONS	65536U
#define IDLE_PASSES	10U
#define IDLE_TIMEOUT	(30 * SEC)

#define ORDERS		1000000U
#define HALF_HOUR	(1800 * SEC)

/* Systems that re-arm and cancel without walking all timers. */
static const struct system * const candidates[] = {
	&system_htw_vector, &system_timerfd, &system_libevent, &system_libev, &system_libuv,
};

static bool can(const struct system *s, const char *op, uint32_t pending)
{
	const char *why = s->missing ? s->missing(pending) : NULL;

	if (why)
		report_missing(s->name, op, pending, why);
	return !why;
}

static void fill(uint64_t *values, uint32_t count, uint64_t value)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		values[i] = value;
}

/* Armed once, then re-armed in random order; none expires. */
static void idle_connections_of(const struct system *s)
{
	uint64_t begin, sum = 0;
	struct bench b;
	uint32_t pass;

	bench_init(&b, CONNECTIONS);
	fill(b.delay, CONNECTIONS, IDLE_TIMEOUT);
	fill(b.later, CONNECTIONS, IDLE_TIMEOUT);
	settle();
	s->open(&b);
	b.base = now_ns();
	s->add(&b);
	for (pass = 0; pass < IDLE_PASSES; pass++) {
		begin = instructions();
		s->rearm(&b, CONNECTIONS);
		sum += instructions() - begin;
		shuffle(b.rearm_order, CONNECTIONS);
	}
	s->collect(&b);
	if (b.collected)
		die("%s: an idle connection's timeout expired", s->name);
	s->close(&b);
	bench_exit(&b);
	report(s->name, "idle-connections", CONNECTIONS,
	       (double)sum / IDLE_PASSES / CONNECTIONS, "insn/op");
}

static void idle_connections(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(candidates); i++)
		if (can(candidates[i], "idle-connections", CONNECTIONS))
			idle_connections_of(candidates[i]);
}

/*
 * Each order has a timeout of half an hour, and 99% are settled. The result is
 * one add and one cancel for each order. The other timers must expire, while
 * the guest sleeps.
 */
static void reconciliations_of(const struct system *s)
{
	const uint32_t settled = ORDERS / 100 * 99;
	uint64_t begin, sum;
	struct bench b;

	bench_init(&b, ORDERS);
	fill_random(b.delay, ORDERS, HALF_HOUR, 60 * SEC);
	settle();
	s->open(&b);
	b.base = now_ns();
	begin = instructions();
	s->add(&b);
	s->cancel(&b, settled);
	sum = instructions() - begin;
	sleep_until(now_ns() + HALF_HOUR + 61 * SEC);
	while (b.collected < ORDERS - settled) {
		uint64_t before = b.collected;

		s->collect(&b);
		if (b.collected == before && now_ns() > b.base + 2 * HALF_HOUR)
			die("%s: lost %llu orders", s->name,
			    (unsigned long long)(ORDERS - settled - b.collected));
	}
	s->close(&b);
	bench_exit(&b);
	report(s->name, "reconciliations", ORDERS, (double)sum / ORDERS, "insn/op");
}

static void reconciliations(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(candidates); i++)
		if (can(candidates[i], "reconciliations", ORDERS))
			reconciliations_of(candidates[i]);
}

static const struct workload workloads[] = {
	{ "idle-connections", "65,536 timers, re-armed again and again", idle_connections },
	{ "reconciliations", "a million timers of half an hour, 99% cancelled", reconciliations },
	{ "buffs", "100,000 periodic timers of 3 s", workload_buffs },
	{ "burst", "a million timers due on one tick", workload_burst },
	{ "quiet", "hrtimer callbacks in a minute without expirations", workload_quiet },
	{ "lateness", "time from deadline to expiration and to the read", workload_lateness },
	{ "exact", "2,000 deadlines on a tick of 10 us beside a million timers", workload_exact },
	{ "contexts", "100,000 descriptors, a timer each on one tick", workload_contexts },
	{ "locks", "what is done under each lock; needs the plugin that tools/bench/run loads",
	  workload_locks },
	{ "scale", "threads on all CPUs compared with one; no --icount", workload_scale },
	{ "shards", "two threads in the process, at the machine's own speed", workload_shards },
	{ "put-off", "65,536 connections, put off by htw_put_off() and by hand", workload_put_off },
	{ "put-off-calls", "htw_put_off() alone", workload_put_off_calls },
	{ "contain", "what users who take all they can cost others", workload_contain },
	{ "meddling", "a user on one CPU, others' timers on another; needs two CPUs",
	  workload_meddling },
	{ "waiters", "64 processes that wait for one descriptor", workload_waiters },
	{ "threads", "two threads compared with one; needs two CPUs, no --icount",
	  workload_threads },
};

const struct workload *workload_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(workloads); i++)
		if (!strcmp(workloads[i].name, name))
			return &workloads[i];
	return NULL;
}

void workload_list(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(workloads); i++)
		printf("  %-18s %s\n", workloads[i].name, workloads[i].what);
}
