// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two threads against one, by the wall clock, on two CPUs: on one descriptor
 * with ids of their own, on a descriptor each, and, for what the machine itself
 * gives, with work that shares nothing and calls nothing
 *
 * Whatever else the machine does makes a run longer and none shorter, so the runs are
 * short and many, all kinds take turns, and the fastest of each are compared.
 *
 * QEMU's table of translated addresses, one for each CPU, grows only as it is flushed,
 * and is small where a CPU was idle: there the second thread would now and then need
 * three times as long, whatever it does. So each pass begins with what has the kernel
 * flush it, and some passes are made before the time is taken.
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
#define PASSES		3U
/* More pages than the kernel flushes one by one. */
#define FLUSHED		(64U * 4096U)
#define RUNS		25U
/* About what a pass takes. */
#define STEPS		20000000U

enum shared {
	ONE_FD,
	NO_FD,		/* a descriptor each */
	NOTHING,
	KINDS,
};

static const struct {
	const char *system;
	const char *op;
} kinds[KINDS] = {
	[ONE_FD] = { "htw-batch", "threads-one-fd" },
	[NO_FD] = { "htw-batch", "threads-own-fds" },
	[NOTHING] = { "machine", "threads" },
};

struct worker {
	pthread_t thread;
	struct bench b;
	enum shared shared;
	unsigned int cpu;
	int fd;
	uint64_t sum;
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
	htw_add_batches(fd, &w->b);
	htw_rearm_batches(fd, &w->b, TIMERS);
	htw_cancel_batches(fd, &w->b, TIMERS);
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
	cpu_set_t set;
	uint32_t pass;

	CPU_ZERO(&set);
	CPU_SET(w->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("threads: sched_setaffinity: %s", strerror(errno));
	warm_up(w);
	pthread_barrier_wait(&barrier);
	for (pass = 0; pass < PASSES; pass++)
		work_once(w, w->fd);
	pthread_barrier_wait(&barrier);
	return NULL;
}

/* How long so many threads take, each for the same work. */
static uint64_t run(struct worker *workers, unsigned int count, enum shared shared)
{
	unsigned int i;
	uint64_t begin;
	int fd = -1;

	if (pthread_barrier_init(&barrier, NULL, count + 1))
		die("threads: no barrier");
	for (i = 0; i < count; i++) {
		if (!i || shared != ONE_FD)
			fd = htw_open_device(HTW_FEATURE_MOD, THREADS * TIMERS);
		workers[i].shared = shared;
		workers[i].fd = fd;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("threads: cannot start one");
	}
	pthread_barrier_wait(&barrier);
	begin = now_ns();
	pthread_barrier_wait(&barrier);
	begin = now_ns() - begin;
	for (i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		if (!i || shared != ONE_FD)
			close(workers[i].fd);
	}
	pthread_barrier_destroy(&barrier);
	return begin;
}

static void measure_threads(struct worker *workers)
{
	uint64_t one[KINDS], two[KINDS];
	enum shared kind;
	unsigned int i;

	memset(one, 0xff, sizeof(one));
	memset(two, 0xff, sizeof(two));
	for (i = 0; i < RUNS; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			const uint64_t alone = run(workers, 1, kind);
			const uint64_t both = run(workers, THREADS, kind);

			one[kind] = alone < one[kind] ? alone : one[kind];
			two[kind] = both < two[kind] ? both : two[kind];
			progress("%s %s: %.1f ms alone, %.1f ms for two; fastest %.1f, %.1f",
				 kinds[kind].system, kinds[kind].op, alone / 1e6, both / 1e6,
				 one[kind] / 1e6, two[kind] / 1e6);
		}
	}
	for (kind = 0; kind < KINDS; kind++)
		report(kinds[kind].system, kinds[kind].op, TIMERS,
		       (double)THREADS * one[kind] / two[kind], "ratio");
}

void workload_threads(void)
{
	const char *why = htw_missing(THREADS * TIMERS);
	struct worker workers[THREADS];
	unsigned int i;

	if (!why && get_nprocs() < (int)THREADS)
		why = "there is but one CPU";
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
