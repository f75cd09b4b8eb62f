// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compare timer data structures: wheel-bench [OPTION]...
 *
 * Prints lines of JSON. Under callgrind instructions are counted instead of time: each
 * measurement is a dump, whose trigger names it.
 */
#include <getopt.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>
#include "bench.h"

#define MEAN_MS		30000
#define MOST_COUNTED	1000000
#define LEAST_TIMERS	4096

extern const struct system system_htw, system_htw_plain, system_multimap, system_pqueue;
/* Those that this program was built with. */
extern const struct system system_wahern __attribute__((weak));
extern const struct system system_sysprog21 __attribute__((weak));
extern const struct system system_libev __attribute__((weak));
extern const struct system system_libevent __attribute__((weak));
extern const struct system system_dpdk __attribute__((weak));

static const struct system *const all_systems[] = {
	&system_htw, &system_htw_plain, &system_wahern, &system_sysprog21, &system_libev,
	&system_libevent, &system_multimap, &system_pqueue, &system_dpdk,
};

uint64_t bench_now, bench_fired;
struct timespec bench_clock;

/* The present measurement, of which @spent ns are over. */
static bool running, instrumenting;
static uint64_t began, spent;
static uint64_t random_state;

void bench_die(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

/* The clock of libraries: the linker has their calls come here. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = bench_clock;
	return 0;
}

void bench_set_clock(uint64_t tick, uint32_t ns)
{
	bench_clock.tv_sec = tick / 1000;
	bench_clock.tv_nsec = tick % 1000 * 1000000 + ns;
}

static uint64_t real_ns(void)
{
	struct timespec ts;

	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

void *bench_allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		bench_die("no memory for %zu times %zu bytes", count, size);
	return memory;
}

/* What malloc() has given. */
size_t bench_heap(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Count from here, in addition to what was counted before a pause. */
void bench_begin(void)
{
	running = true;
	if (RUNNING_ON_VALGRIND) {
		if (!instrumenting)
			CALLGRIND_START_INSTRUMENTATION;
		instrumenting = true;
		CALLGRIND_TOGGLE_COLLECT;
		return;
	}
	began = real_ns();
}

void bench_pause(void)
{
	if (!running)
		return;
	if (RUNNING_ON_VALGRIND)
		CALLGRIND_TOGGLE_COLLECT;
	else
		spent += real_ns() - began;
	running = false;
}

static void print_key(const struct bench *b, const char *op)
{
	printf("{\"system\": \"%s\", \"op\": \"%s\", \"pending\": %u, ", b->system, op, b->pending);
	printf("\"delays\": \"%s\", \"mix\": \"%s\"", b->delays, b->mix);
}

/* Report what was counted, of @count operations in @passes turns. */
void bench_end(const struct bench *b, const char *op, uint64_t count, uint64_t passes)
{
	char label[128];

	bench_pause();
	if (RUNNING_ON_VALGRIND) {
		snprintf(label, sizeof(label), "%s %s %u %s %s", b->system, op, b->pending,
			 b->delays, b->mix);
		CALLGRIND_DUMP_STATS_AT(label);
		CALLGRIND_STOP_INSTRUMENTATION;
		instrumenting = false;
	}
	print_key(b, op);
	printf(", \"count\": %llu, \"passes\": %llu, \"ns\": %llu}\n", (unsigned long long)count,
	       (unsigned long long)passes, (unsigned long long)spent);
	fflush(stdout);
	spent = 0;
}

void bench_bytes(const struct bench *b, size_t bytes)
{
	print_key(b, "memory");
	printf(", \"bytes\": %zu}\n", bytes);
}

/* The largest lateness, in ticks. None was early. */
void bench_lateness(const struct bench *b, uint64_t late)
{
	print_key(b, "late");
	printf(", \"ticks\": %llu}\n", (unsigned long long)late);
}

/* splitmix64: the same numbers on each machine. */
static uint64_t random_number(void)
{
	uint64_t z = (random_state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* A delay in ticks of 1 ms, with the same mean in both distributions. */
static uint64_t random_delay(bool exponential)
{
	const double u = (random_number() >> 11) * 0x1p-53;	/* from 0, below 1 */

	return 1 + (uint64_t)(exponential ? -log1p(-u) * MEAN_MS : u * 2 * MEAN_MS);
}

static void shuffle(uint32_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = random_number() % (i + 1);

		order[i] = order[j];
		order[j] = i;
	}
}

static int compare_ticks(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* When the timers of an instance expire, and at which ticks any does. */
static void expect(struct bench *b, uint32_t instance)
{
	const size_t base = (size_t)instance * b->pending;
	uint64_t *expected = b->expected + base, *ticks = b->ticks + base;
	uint32_t n = 0;

	memcpy(expected, b->first + base, b->pending * sizeof(*expected));
	for (uint32_t k = 0; k < b->restarts; k++)
		expected[b->restart_order[base + k]] = b->second[base + k];
	for (uint32_t k = 0; k < b->stops; k++)
		expected[b->stop_order[base + k]] = 0;

	memcpy(ticks, expected, b->pending * sizeof(*ticks));
	qsort(ticks, b->pending, sizeof(*ticks), compare_ticks);
	for (uint32_t k = 0; k < b->pending; k++)
		if (ticks[k] && (!n || ticks[k] != ticks[n - 1]))
			ticks[n++] = ticks[k];
	b->nr_ticks[instance] = n;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Of a timer in twenty, what does not happen to most. */
static void prepare(struct bench *b, bool exponential, bool cancels)
{
	const size_t total = (size_t)b->instances * b->pending;
	uint32_t few = b->pending / 20;

	b->delays = exponential ? "exponential" : "uniform";
	b->mix = cancels ? "cancel" : "expire";
	/* Some are left to expire, and to be stopped, however few there are. */
	if (!few && b->pending > 1)
		few = 1;
	b->stops = cancels ? b->pending - few : few;
	b->restarts = smaller(b->pending, MOST_COUNTED);
	b->first_counted = b->pending - smaller(b->pending, MOST_COUNTED);
	b->first_counted_stop = b->stops - smaller(b->stops, MOST_COUNTED);

	random_state = b->pending * 4 + exponential;
	b->first = bench_allocate(total, sizeof(*b->first));
	b->second = bench_allocate(total, sizeof(*b->second));
	b->restart_order = bench_allocate(total, sizeof(*b->restart_order));
	b->stop_order = bench_allocate(total, sizeof(*b->stop_order));
	b->expected = bench_allocate(total, sizeof(*b->expected));
	b->ticks = bench_allocate(total, sizeof(*b->ticks));
	b->nr_ticks = bench_allocate(b->instances, sizeof(*b->nr_ticks));
	for (size_t i = 0; i < total; i++)
		b->first[i] = BENCH_START + random_delay(exponential);
	for (size_t i = 0; i < total; i++)
		b->second[i] = BENCH_START + random_delay(exponential);
	for (uint32_t i = 0; i < b->instances; i++) {
		shuffle(b->restart_order + (size_t)i * b->pending, b->pending);
		shuffle(b->stop_order + (size_t)i * b->pending, b->pending);
		expect(b, i);
	}
}

static void release(struct bench *b)
{
	free(b->nr_ticks);
	free(b->ticks);
	free(b->expected);
	free(b->stop_order);
	free(b->restart_order);
	free(b->second);
	free(b->first);
}

/* Is a word in a list that is separated by commas? */
static bool listed(const char *list, const char *word)
{
	const size_t length = strlen(word);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (!strncmp(list, word, length) && (!list[length] || list[length] == ','))
			return true;
	}
	return false;
}

/* Measure the named systems with @pending timers, one distribution of delays and one mix. */
static void measure(const char *systems, uint32_t pending, bool exponential, bool cancels,
		    bool counts_starts)
{
	struct bench b = { .pending = pending, .counts_starts = counts_starts };

	for (size_t i = 0; i < sizeof(all_systems) / sizeof(*all_systems); i++) {
		const struct system *s = all_systems[i];
		uint32_t wanted = (LEAST_TIMERS + pending - 1) / pending;

		if (!s || (systems && !listed(systems, s->name)) || pending < s->least_pending ||
		    pending > s->most_pending)
			continue;
		b.system = s->name;
		b.instances = smaller(wanted, s->most_instances);
		prepare(&b, exponential, cancels);
		s->life(&b);
		release(&b);
	}
}

static const char usage[] =
"usage: wheel-bench [OPTION]...\n"
"  --systems NAME,...   measure these (all); --list lists them\n"
"  --pending N,...      with so many timers\n"
"  --delays NAME,...    uniform, exponential\n"
"  --mixes NAME,...     expire: one in twenty is stopped; cancel: all but one in twenty are\n"
"  --repeat N           measure each so often (1)\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "systems", required_argument, NULL, 's' },
		{ "pending", required_argument, NULL, 'p' },
		{ "delays", required_argument, NULL, 'd' },
		{ "mixes", required_argument, NULL, 'm' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "list", no_argument, NULL, 'l' },
		{ }
	};
	const char *systems = NULL, *delays = "uniform,exponential", *mixes = "expire,cancel";
	const char *pending = "1000";
	unsigned long repeat = 1;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			systems = optarg;
			break;
		case 'p':
			pending = optarg;
			break;
		case 'd':
			delays = optarg;
			break;
		case 'm':
			mixes = optarg;
			break;
		case 'r':
			repeat = strtoul(optarg, NULL, 10);
			break;
		case 'l':
			for (size_t i = 0; i < sizeof(all_systems) / sizeof(*all_systems); i++)
				if (all_systems[i])
					puts(all_systems[i]->name);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}

	while (*pending) {
		char *end;
		const unsigned long n = strtoul(pending, &end, 10);

		if (!n || n > UINT32_MAX || (*end && *end != ','))
			bench_die("no number of timers: %s", pending);
		pending = end + (*end == ',');
		for (int mix = 0; mix < 2; mix++)
			for (int exponential = 0; exponential < 2; exponential++)
				for (unsigned long i = 0; i < repeat; i++)
					if (listed(mixes, mix ? "cancel" : "expire") &&
					    listed(delays, exponential ? "exponential" : "uniform"))
						/* Starts are the same in both mixes. */
						measure(systems, n, exponential, mix,
							!mix || !listed(mixes, "expire"));
	}
	return 0;
}
