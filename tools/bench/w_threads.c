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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "pinned.h"
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
	struct bench b;
	enum shared shared;
	int fd;
	uint64_t sum;
};

static void flush_translations(void)
{
	void *pages = mmap(NULL, FLUSHED, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (pages == MAP_FAILED || munmap(pages, FLUSHED))
		die("threads: mmap: %s", strerror(errno));
}

static void work_once(struct worker *w, int fd)
{
	if (w->shared == NOTHING) {
		w->sum = pinned_steps(w->sum, STEPS);
		return;
	}
	flush_translations();
	htw_vector_add(fd, &w->b);
	htw_vector_rearm(fd, &w->b, TIMERS);
	htw_vector_cancel(fd, &w->b, TIMERS);
}

static void pass(void *arg)
{
	struct worker *w = arg;

	work_once(w, w->fd);
}

static void warm_up(void *arg)
{
	const int fd = htw_open_device(HTW_FEATURE_MOD, TIMERS);
	uint32_t i;

	for (i = 0; i < WARM_UPS; i++)
		work_once(arg, fd);
	close(fd);
}

/* Passes per second of @count threads together. */
static double run(struct pinned *threads, unsigned int count, enum shared shared)
{
	unsigned int i;
	double rate;
	int fd = -1;

	for (i = 0; i < count; i++) {
		struct worker *w = threads[i].arg;

		if (!i || shared != ONE_FD)
			fd = htw_open_device(HTW_FEATURE_MOD, THREADS * TIMERS);
		w->shared = shared;
		w->fd = fd;
	}
	rate = pinned_run(threads, count, RUN_NS);
	for (i = 0; i < (shared == ONE_FD ? 1 : count); i++)
		close(((struct worker *)threads[i].arg)->fd);
	return rate;
}

static void measure_threads(struct pinned *threads)
{
	double one[KINDS] = {}, two[KINDS] = {};
	enum shared kind;
	unsigned int i;

	for (i = 0; i < RUNS; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			const double alone = run(threads, 1, kind);
			const double both = run(threads, THREADS, kind);

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
	struct pinned threads[THREADS];
	unsigned int i;

	if (!why && get_nprocs() < (int)THREADS)
		why = "there is only one CPU";
	if (why) {
		for (i = 0; i < KINDS; i++)
			report_missing(kinds[i].system, kinds[i].op, TIMERS, why);
		return;
	}
	for (i = 0; i < THREADS; i++) {
		threads[i] = (struct pinned) {
			.cpu = i,
			.warm_up = warm_up,
			.pass = pass,
			.arg = &workers[i],
		};
		workers[i].sum = i;
		bench_init(&workers[i].b, TIMERS);
	}
	measure_threads(threads);
	for (i = 0; i < THREADS; i++)
		bench_exit(&workers[i].b);
}
