// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two threads against one, by the wall clock, on two CPUs: on one descriptor
 * with ids of their own, and on a descriptor each
 *
 * What a run takes depends on what else the machine does; a run of one thread and
 * a run of two take turns, and their ratio's median is told.
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
#define PASSES		12U
/* More pages than the kernel flushes one by one. */
#define FLUSHED		(64U * 4096U)
#define RUNS		9U

struct worker {
	pthread_t thread;
	struct bench b;
	unsigned int cpu;
	int fd;
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
static uint64_t run(struct worker *workers, unsigned int count, bool own_fds)
{
	unsigned int i;
	uint64_t begin;
	int fd = -1;

	if (pthread_barrier_init(&barrier, NULL, count + 1))
		die("threads: no barrier");
	for (i = 0; i < count; i++) {
		if (!i || own_fds)
			fd = htw_open_device(HTW_FEATURE_MOD, THREADS * TIMERS);
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
		if (!i || own_fds)
			close(workers[i].fd);
	}
	pthread_barrier_destroy(&barrier);
	return begin;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void measure_threads(struct worker *workers, bool own_fds, const char *op)
{
	double ratios[RUNS];
	unsigned int i;

	for (i = 0; i < RUNS; i++) {
		const double one = run(workers, 1, own_fds);
		const double two = run(workers, THREADS, own_fds);

		ratios[i] = THREADS * one / two;
		progress("%s: %.1f ms alone, %.1f ms for two: %.2f times the work", op,
			 one / 1e6, two / 1e6, ratios[i]);
	}
	qsort(ratios, RUNS, sizeof(ratios[0]), compare);
	report("htw-batch", op, TIMERS, ratios[RUNS / 2], "ratio");
}

void workload_threads(void)
{
	const char *why = htw_missing(THREADS * TIMERS);
	struct worker workers[THREADS];
	unsigned int i;

	if (!why && get_nprocs() < (int)THREADS)
		why = "there is but one CPU";
	if (why) {
		report_missing("htw-batch", "threads-one-fd", TIMERS, why);
		report_missing("htw-batch", "threads-own-fds", TIMERS, why);
		return;
	}
	for (i = 0; i < THREADS; i++) {
		workers[i].cpu = i;
		bench_init(&workers[i].b, TIMERS);
	}
	measure_threads(workers, false, "threads-one-fd");
	measure_threads(workers, true, "threads-own-fds");
	for (i = 0; i < THREADS; i++)
		bench_exit(&workers[i].b);
}
