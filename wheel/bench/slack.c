// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts of many wheels: one alarm is set to the earliest work of all wheels, as the
 * timer of a CPU is. Each time that it fires is an interrupt. Wheels have different ticks, and
 * their timers the slack of htw_tick_within().
 *
 * slack [--json]: print a table, or lines of JSON. Exits with 1 if a timer is early or later
 * than its slack, or if more slack does not save interrupts.
 */
#include "htw_wheel.h"
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHEELS		1000
#define TIMERS		8		/* of each wheel */
#define SECONDS		60
#define NS_IN_SEC	1000000000ULL
#define NS_IN_MS	1000000ULL
/* A wheel in ten has levels, which have to be moved down now and then. */
#define WITH_LEVELS	10

struct timer {
	struct htw_node node;
	uint64_t deadline;	/* in ns */
};

struct clock {
	struct htw_wheel wheel;
	uint64_t tick_ns;
	struct timer timers[TIMERS];
};

/* What was counted with one slack. */
struct result {
	uint64_t interrupts;
	uint64_t expirations;
	uint64_t early;
	uint64_t latest;	/* in ns */
	uint64_t beyond;	/* expirations later than the slack, and a tick */
};

static const uint64_t ticks[] = {
	NS_IN_MS, NS_IN_MS / 4, 10 * NS_IN_MS, 4 * NS_IN_MS, NS_IN_MS / 10
};
static const uint64_t slacks[] = { 0, NS_IN_MS, 100 * NS_IN_MS };

static struct clock *clocks;
static uint64_t random_state;
static uint64_t now, slack;
static struct result result;

/* splitmix64 */
static uint64_t random_number(void)
{
	uint64_t z = (random_state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* From 10 ms to 10 s, to the ns. */
static void start(struct clock *c, struct timer *t)
{
	t->deadline = now + 10 * NS_IN_MS + random_number() % (10 * NS_IN_SEC);
	htw_wheel_start(&c->wheel, &t->node, htw_tick_within(t->deadline, slack, c->tick_ns));
}

/* A timer that has expired is started again. */
static void expired(struct htw_node *n, void *arg)
{
	struct timer *t = (struct timer *)((char *)n - offsetof(struct timer, node));
	struct clock *c = arg;
	uint64_t late = now - t->deadline;

	result.expirations++;
	if (now < t->deadline) {
		result.early++;
	} else {
		if (late > result.latest)
			result.latest = late;
		result.beyond += late > slack && late >= c->tick_ns;
	}
	start(c, t);
}

static void open_clock(struct clock *c, unsigned int i)
{
	struct htw_geometry geo;
	void *memory;

	c->tick_ns = ticks[i % (sizeof(ticks) / sizeof(*ticks))];
	htw_wheel_init(&c->wheel, now / c->tick_ns);
	if (!(i % WITH_LEVELS)) {
		htw_geometry_default(&geo, c->tick_ns, 0);
		memory = malloc(htw_geometry_bytes(&geo));
		if (!htw_wheel_add_levels(&c->wheel, &geo, memory, htw_geometry_bytes(&geo)))
			abort();
	}
	memset(c->timers, 0, sizeof(c->timers));
	for (unsigned int k = 0; k < TIMERS; k++)
		start(c, &c->timers[k]);
}

static void close_clock(struct clock *c)
{
	while (htw_wheel_evict(&c->wheel))
		;
	free(htw_wheel_remove_levels(&c->wheel));
}

/* The time of a wheel's next work. */
static uint64_t next_ns(struct clock *c)
{
	uint64_t tick = htw_wheel_next(&c->wheel);

	return tick == HTW_NEVER ? HTW_NEVER : tick * c->tick_ns;
}

static void simulate(uint64_t with_slack)
{
	static uint64_t next[WHEELS];
	const uint64_t begin = 1000 * NS_IN_SEC;
	uint64_t alarm = 0;

	memset(&result, 0, sizeof(result));
	random_state = 1;
	slack = with_slack;
	now = begin;
	for (unsigned int i = 0; i < WHEELS; i++) {
		open_clock(&clocks[i], i);
		next[i] = next_ns(&clocks[i]);
	}

	while (alarm < begin + SECONDS * NS_IN_SEC) {
		alarm = HTW_NEVER;
		for (unsigned int i = 0; i < WHEELS; i++)
			if (next[i] < alarm)
				alarm = next[i];
		if (alarm > now)
			now = alarm;
		result.interrupts++;

		for (unsigned int i = 0; i < WHEELS; i++) {
			struct clock *c = &clocks[i];
			unsigned int budget = UINT_MAX;

			if (next[i] > now)
				continue;
			htw_wheel_advance(&c->wheel, now / c->tick_ns, &budget, expired, c);
			next[i] = next_ns(c);
		}
	}
	for (unsigned int i = 0; i < WHEELS; i++)
		close_clock(&clocks[i]);
}

static void print(bool json)
{
	const unsigned long long interrupts = result.interrupts, expirations = result.expirations;
	const unsigned long long latest = result.latest, ms = slack / NS_IN_MS;

	if (json) {
		printf("{\"slack_ms\": %llu, \"interrupts\": %llu, ", ms, interrupts);
		printf("\"expirations\": %llu, \"latest_ns\": %llu}\n", expirations, latest);
		return;
	}
	printf("%5llu ms  %10llu  %11llu  %7.3f ms\n", ms, interrupts, expirations,
	       (double)latest / NS_IN_MS);
}

int main(int argc, char **argv)
{
	const bool json = argc == 2 && !strcmp(argv[1], "--json");
	uint64_t fewer_than = UINT64_MAX;
	int status = 0;

	if (argc > 1 && !json) {
		fputs("usage: slack [--json]\n", stderr);
		return 2;
	}
	clocks = calloc(WHEELS, sizeof(*clocks));
	if (!clocks)
		return 1;

	if (!json) {
		printf("%u wheels, %u timers, %u s\n", WHEELS, WHEELS * TIMERS, SECONDS);
		printf("%8s  %10s  %11s  %10s\n", "slack", "interrupts", "expirations", "latest");
	}
	for (unsigned int i = 0; i < sizeof(slacks) / sizeof(*slacks); i++) {
		simulate(slacks[i]);
		print(json);
		if (result.early || result.beyond || !result.expirations) {
			fprintf(stderr, "slack: %llu timers were early, %llu too late\n",
				(unsigned long long)result.early,
				(unsigned long long)result.beyond);
			status = 1;
		}
		if (result.interrupts >= fewer_than) {
			fputs("slack: more slack does not save interrupts\n", stderr);
			status = 1;
		}
		fewer_than = result.interrupts;
	}
	free(clocks);
	return status;
}
