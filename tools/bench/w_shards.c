// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two threads compared with one, each on a shard of a handle in the process,
 * at the machine's own speed, on two of its CPUs
 *
 * What the CPUs have in common, memory and caches, limits this as well, and on a
 * machine of many guests others use it, too. So the same is measured of work that
 * shares no data: loops over memory as large as the timers', and over registers;
 * and of timers that fit into the cache of one CPU, and of more.
 *
 * Each round has runs of one thread, on either CPU, around one of two. A
 * figure is the median of the rounds' ratios, so that a round in which the
 * machine did other work does not count.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "libhtw_calls.h"
#include "pinned.h"
#include "report.h"
#include "workloads.h"

#define THREADS		2U
#define FEW		8192U
#define MANY		65536U
#define TIMER_BYTES	64U
#define WARM_UPS	2U
#define ROUNDS		21U
#define RUN_NS		200000000U
#define STEPS		100000U

struct worker {
	struct bench few, many;
	const struct bench *b;	/* the one in use */
	void (*pass)(struct worker *w);
	struct htw *shard;
	uint64_t *memory;
	uint64_t sum;
};

static void pass_shard(struct worker *w)
{
	libhtw_add_to(w->shard, w->b);
	libhtw_rearm_in(w->shard, w->b, w->b->pending);
	libhtw_cancel_in(w->shard, w->b, w->b->pending);
}

static void pass_memory(struct worker *w)
{
	const uint32_t words = TIMER_BYTES / sizeof(*w->memory);
	uint32_t i;

	for (i = 0; i < w->b->pending; i++) {
		w->memory[w->b->rearm_order[i] * words] += i;
		w->sum += w->memory[w->b->cancel_order[i] * words];
	}
}

static void pass_registers(struct worker *w)
{
	w->sum = pinned_steps(w->sum, STEPS);
}

static const struct {
	const char *system;
	const char *op;
	void (*pass)(struct worker *w);
	uint32_t pending;
} kinds[] = {
	{ "libhtw", "threads-own-shards", pass_shard, FEW },
	{ "libhtw", "threads-own-shards", pass_shard, MANY },
	{ "machine", "threads-memory-native", pass_memory, FEW },
	{ "machine", "threads-memory-native", pass_memory, MANY },
	{ "machine", "threads-native", pass_registers, FEW },
};

#define KINDS		ARRAY_SIZE(kinds)

static void pass(void *arg)
{
	struct worker *w = arg;

	w->pass(w);
}

static void warm_up(void *arg)
{
	unsigned int i;

	for (i = 0; i < WARM_UPS; i++)
		pass(arg);
}

/* Passes per second of @count threads together. */
static double run_kind(struct pinned *threads, unsigned int count, unsigned int kind)
{
	const uint32_t pending = kinds[kind].pending;
	struct htw *timers = libhtw_new(pending);
	unsigned int i;
	double rate;

	for (i = 0; i < count; i++) {
		struct worker *w = threads[i].arg;

		w->pass = kinds[kind].pass;
		w->b = pending == FEW ? &w->few : &w->many;
		w->shard = libhtw_shard(timers, pending);
	}
	rate = pinned_run(threads, count, RUN_NS);
	libhtw_free(timers);
	return rate;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_shards(struct pinned *threads)
{
	static double ratio[KINDS][ROUNDS];
	unsigned int round, kind;

	for (round = 0; round < ROUNDS; round++) {
		for (kind = 0; kind < KINDS; kind++) {
			const double first = run_kind(threads, 1, kind);
			const double both = run_kind(threads, THREADS, kind);
			const double second = run_kind(threads + 1, 1, kind);

			ratio[kind][round] = 2 * both / (first + second);
			progress("%s %s at %u: %.1f and %.1f passes/s by one, %.1f by two: %.2f",
				 kinds[kind].system, kinds[kind].op, kinds[kind].pending, first,
				 second, both, ratio[kind][round]);
		}
	}
	for (kind = 0; kind < KINDS; kind++) {
		qsort(ratio[kind], ROUNDS, sizeof(ratio[kind][0]), by_size);
		report(kinds[kind].system, kinds[kind].op, kinds[kind].pending,
		       ratio[kind][ROUNDS / 2], "ratio");
	}
}

/* Put each thread on a CPU that this process may use. Return: false if there is only one. */
static bool choose_cpus(struct pinned *threads)
{
	unsigned int cpu, found = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		die("shards: sched_getaffinity: %s", strerror(errno));
	for (cpu = 0; cpu < CPU_SETSIZE && found < THREADS; cpu++)
		if (CPU_ISSET(cpu, &set))
			threads[found++].cpu = cpu;
	return found == THREADS;
}

void workload_shards(void)
{
	struct worker workers[THREADS] = {};
	struct pinned threads[THREADS] = {};
	unsigned int i;

	if (!choose_cpus(threads)) {
		for (i = 0; i < KINDS; i++)
			report_missing(kinds[i].system, kinds[i].op, kinds[i].pending,
				       "there is only one CPU");
		return;
	}
	for (i = 0; i < THREADS; i++) {
		threads[i].warm_up = warm_up;
		threads[i].pass = pass;
		threads[i].arg = &workers[i];
		workers[i].sum = i;
		workers[i].memory = allocate(MANY, TIMER_BYTES);
		bench_init(&workers[i].few, FEW);
		bench_init(&workers[i].many, MANY);
	}
	measure_shards(threads);
	for (i = 0; i < THREADS; i++) {
		bench_exit(&workers[i].many);
		bench_exit(&workers[i].few);
		release(workers[i].memory, MANY, TIMER_BYTES);
	}
}
