// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long does a thread wait for a handle that another one reads?
 *
 *   make -C lib O=/tmp/lib /tmp/lib/waits && /tmp/lib/waits [TIMERS]
 *
 * With 4,000,000 timers on a manual clock, in memory in no order, one thread reads what is due for
 * each millisecond of half a minute, while buckets of the wheel move down. Another one asks for a
 * timer every 20 us. It prints the CPU time of the longest reads, and how long the other thread
 * waited. Reported only: it says as much of the machine and what else runs there.
 */
#include "../libhtw.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define HOUR		(3600 * HTW_SEC)
#define FIRST		(8 * HTW_SEC)
#define LAST		(38 * HTW_SEC)
#define EVENTS		256
#define WAITS_MOST	10000000u

static struct htw *htw;
static uint64_t *ids, *waits;
static unsigned int nr_waits;
static atomic_bool over;

static uint64_t time_on(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * HTW_SEC + ts.tv_nsec;
}

static uint64_t below(uint64_t n)
{
	static uint64_t state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

static void *ask(void *unused)
{
	const struct timespec pause = { .tv_nsec = 20000 };

	while (!over && nr_waits < WAITS_MOST) {
		struct htw_timer_info info = { .id = ids[0] };
		const uint64_t then = time_on(CLOCK_MONOTONIC);

		htw_query(htw, &info);
		waits[nr_waits++] = time_on(CLOCK_MONOTONIC) - then;
		nanosleep(&pause, NULL);
	}
	return unused;
}

static int compare(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static double percentile(double part)
{
	const double at = part * nr_waits;

	return waits[at >= nr_waits ? nr_waits - 1 : (unsigned int)at] / 1e6;
}

int main(int argc, char **argv)
{
	const unsigned int timers = argc > 1 ? strtoul(argv[1], NULL, 0) : 4000000;
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .limit = timers + 1,
	};
	static struct htw_event events[EVENTS];
	uint64_t longest = 0, took, read = 0;
	pthread_t thread;
	unsigned int i;
	int n;

	ids = calloc(timers, sizeof(*ids));
	waits = calloc(WAITS_MOST, sizeof(*waits));
	if (!timers || !ids || !waits || htw_open(&htw, HTW_BACKEND_PROCESS, &setup))
		return 1;
	for (i = 0; i < timers; i++)
		if (htw_after(htw, i ? below(HOUR) : 2 * HOUR, i, &ids[i]))
			return 1;
	for (i = 0; i < timers; i++)
		if (htw_rearm(htw, ids[1 + below(timers - 1)], FIRST + below(LAST - FIRST)))
			return 1;

	if (pthread_create(&thread, NULL, ask, NULL))
		return 1;
	while (htw_now(htw) < LAST) {
		htw_advance(htw, HTW_MSEC, 0);
		do {
			took = time_on(CLOCK_THREAD_CPUTIME_ID);
			n = htw_read(htw, events, EVENTS);
			took = time_on(CLOCK_THREAD_CPUTIME_ID) - took;
			longest = took > longest ? took : longest;
			read += n > 0 ? n : 0;
		} while (n == EVENTS || htw_advance(htw, 0, 0) == 1);
	}
	over = true;
	pthread_join(thread, NULL);
	htw_close(htw);

	qsort(waits, nr_waits, sizeof(*waits), compare);
	printf("%u timers, %llu events; longest read %.2f ms of CPU\n", timers,
	       (unsigned long long)read, longest / 1e6);
	printf("%u waits: median %.3f, 99%% %.3f, 99.9%% %.3f, 99.99%% %.3f, longest %.3f ms\n",
	       nr_waits, percentile(0.5), percentile(0.99), percentile(0.999), percentile(0.9999),
	       percentile(1));
	return 0;
}
