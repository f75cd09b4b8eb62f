// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two threads compared with one, by the wall clock, on two CPUs: on one
 * descriptor with ids of their own, on a descriptor each, and, for comparison,
 * with work that shares nothing and makes no calls
 *
 * The speed of a shared machine varies. So runs of one thread and of two, of
 * all kinds, take turns, and the total work of each is compared. The time
 * that the slower of two threads takes would be no measure: it grows with the
 * machine's variation, whatever is shared.
 *
 * QEMU's software TLB, one for each CPU, grows only when it is flushed, and is
 * small on a CPU that was idle; there the second thread could take three times
 * as long. So each pass first makes the kernel flush it, and some passes
 * precede the measurement.
 */
#include <linux/htw.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "report.h"
#include "workloads.h"

#define THREADS		2U
#define TIMERS		65536U
#define WARM_UPS	2U
/* More pages than the kernel flushes one by one. */
#define FLUSHED		(64U * 4096U)
#define RUNS		32U
#define RUN_NS		500000000U
/* Takes about as long as a pass with timers. */
#define STEPS		20000000U

enum shared {
	ONE_FD,
	OWN_FDS,
	NOTHING,
	KINDS,
};

static const struct {
	const char *system;
	const char *op;
} kinds[KINDS] = {
	[ONE_FD] = { "htw-vector", "threads-one-fd" },
	[OWN_FDS] = { "htw-vector", "threads-own-fds" },
	[NOTHING] = { "machine", "threads" },
};

struct worker {
	pthread_t thread;
	struct bench b;
	enum shared shared;
	unsigned int cpu;
	int fd;
	uint64_t sum;
	double rate;	/* passes per second */
};

static pthread_barrier_t barrier;

static void flush_translations(void)
{
	void *pages = mmap(NULL, FLUSHED, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (pages == MAP_FAILED || munmap(pages, FLUSHED))
		die("threads: mmap: %s", strerror(errno));
}

static void work_once(struct worker *w, int fd)
{
	uint32_t i;

	if (w->shared == NOTHING) {
		for (i = 0; i < STEPS; i++)
			w->sum = w->sum * 6364136223846793005ULL + 1442695040888963407ULL;
		return;
	}
	flush_translations();
	htw_vector_add(fd, &w->b);
	htw_vector_rearm(fd, &w->b, TIMERS);
	htw_vector_cancel(fd, &w->b, TIMERS);
}

static void warm_up(struct worker *w)
{
	const int fd = htw_open_device(HTW_FEATURE_MOD, TIMERS);
	uint32_t pass;

	for (pass = 0; pass < WARM_UPS; pass++)
		work_once(w, fd);
	close(fd);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t begin, took;
	uint32_t passes = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("threads: sched_setaffinity: %s", strerror(errno));
	warm_up(w);
	pthread_barrier_wait(&barrier);
	begin = now_ns();
	do {
		work_once(w, w->fd);
		passes++;
		took = now_ns() - begin;
	} while (took < RUN_NS);
	w->rate = passes * 1e9 / took;
	return NULL;
}

/* Passes per second of @count threads together. */
static double run(struct worker *workers, unsigned int count, enum shared shared)
{
	double rate = 0;
	unsigned int i;
	int fd = -1;

	if (pthread_barrier_init(&barrier, NULL, count))
		die("threads: cannot create a barrier");
	for (i = 0; i < count; i++) {
		if (!i || shared != ONE_FD)
			fd = htw_open_device(HTW_FEATURE_MOD, THREADS * TIMERS);
		workers[i].shared = shared;
		workers[i].fd = fd;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("threads: cannot start a thread");
	}
	for (i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		rate += workers[i].rate;
	}
	for (i = 0; i < (shared == ONE_FD ? 1 : count); i++)
		close(workers[i].fd);
	pthread_barrier_destroy(&barrier);
	return rate;
}

static void measure_threads(struct worker *workers)
{
	double one[KINDS] = {}, two[KINDS] = {};
	enum shared kind;
	unsigned int i;

	for (i = 0; i < RUNS; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			const double alone = run(workers, 1, kind);
			const double both = run(workers, THREADS, kind);

			one[kind] += alone;
			two[kind] += both;
			progress("%s %s: %.1f passes per second by one, %.1f by two: %.2f times",
				 kinds[kind].system, kinds[kind].op, alone, both,
				 two[kind] / one[kind]);
		}
	}
	for (kind = 0; kind < KINDS; kind++)
		report(kinds[kind].system, kinds[kind].op, TIMERS, two[kind] / one[kind], "ratio");
}

void workload_threads(void)
{
	const char *why = htw_missing(THREADS * TIMERS);
	struct worker workers[THREADS];
	unsigned int i;

	if (!why && get_nprocs() < (int)THREADS)
		why = "there is only one CPU";
	if (why) {
		for (i = 0; i < KINDS; i++)
			report_missing(kinds[i].system, kinds[i].op, TIMERS, why);
		return;
	}
	for (i = 0; i < THREADS; i++) {
		workers[i].cpu = i;
		workers[i].sum = i;
		bench_init(&workers[i].b, TIMERS);
	}
	measure_threads(workers);
	for (i = 0; i < THREADS; i++)
		bench_exit(&workers[i].b);
}
