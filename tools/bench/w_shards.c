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
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "libhtw_calls.h"
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
	pthread_t thread;
	struct bench few, many;
	const struct bench *b;	/* the one in use */
	void (*pass)(struct worker *w);
	unsigned int cpu;
	struct htw *shard;
	uint64_t *memory;
	uint64_t sum;
	double rate;	/* passes per second */
};

static pthread_barrier_t barrier;

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
	uint64_t sum = w->sum;
	uint32_t i;

	for (i = 0; i < STEPS; i++)
		sum = sum * 6364136223846793005ULL + 1442695040888963407ULL;
	w->sum = sum;
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

static void stay_on(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("shards: sched_setaffinity: %s", strerror(errno));
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t begin, took;
	uint32_t done;

	stay_on(w->cpu);
	for (done = 0; done < WARM_UPS; done++)
		w->pass(w);
	pthread_barrier_wait(&barrier);
	begin = now_ns();
	done = 0;
	do {
		w->pass(w);
		done++;
		took = now_ns() - begin;
	} while (took < RUN_NS);
	w->rate = done * 1e9 / took;
	return NULL;
}

/* Passes per second of @count threads together. */
static double run(struct worker *workers, unsigned int count, unsigned int kind)
{
	const uint32_t pending = kinds[kind].pending;
	struct htw *timers = libhtw_new(pending);
	double rate = 0;
	unsigned int i;

	if (pthread_barrier_init(&barrier, NULL, count))
		die("shards: cannot create a barrier");
	for (i = 0; i < count; i++) {
		workers[i].pass = kinds[kind].pass;
		workers[i].b = pending == FEW ? &workers[i].few : &workers[i].many;
		workers[i].shard = libhtw_shard(timers, pending);
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("shards: cannot start a thread");
	}
	for (i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		rate += workers[i].rate;
	}
	libhtw_free(timers);
	pthread_barrier_destroy(&barrier);
	return rate;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_shards(struct worker *workers)
{
	static double ratio[KINDS][ROUNDS];
	unsigned int round, kind;

	for (round = 0; round < ROUNDS; round++) {
		for (kind = 0; kind < KINDS; kind++) {
			const double first = run(workers, 1, kind);
			const double both = run(workers, THREADS, kind);
			const double second = run(workers + 1, 1, kind);

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

/* Put each worker on a CPU that this process may use. Return: false if there is only one. */
static bool choose_cpus(struct worker *workers)
{
	unsigned int cpu, found = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		die("shards: sched_getaffinity: %s", strerror(errno));
	for (cpu = 0; cpu < CPU_SETSIZE && found < THREADS; cpu++)
		if (CPU_ISSET(cpu, &set))
			workers[found++].cpu = cpu;
	return found == THREADS;
}

void workload_shards(void)
{
	struct worker workers[THREADS] = {};
	unsigned int i;

	if (!choose_cpus(workers)) {
		for (i = 0; i < KINDS; i++)
			report_missing(kinds[i].system, kinds[i].op, kinds[i].pending,
				       "there is only one CPU");
		return;
	}
	for (i = 0; i < THREADS; i++) {
		workers[i].sum = i;
		workers[i].memory = allocate(MANY, TIMER_BYTES);
		bench_init(&workers[i].few, FEW);
		bench_init(&workers[i].many, MANY);
	}
	measure_shards(workers);
	for (i = 0; i < THREADS; i++) {
		bench_exit(&workers[i].many);
		bench_exit(&workers[i].few);
		release(workers[i].memory, MANY, TIMER_BYTES);
	}
}
