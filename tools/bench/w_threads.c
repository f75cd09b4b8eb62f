// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads compared with one, by the wall clock, on a CPU each: on one
 * descriptor with ids of their own, on a descriptor each, and, for comparison,
 * with work that shares nothing and makes no calls
 *
 * The speed of a shared machine varies. So runs of one thread and of many, of
 * all kinds, take turns, and the total work of each is compared. The time
 * that the slowest thread takes would be no measure: it grows with the
 * machine's variation, whatever is shared.
 *
 * QEMU's software TLB, one for each CPU, grows only when it is flushed, and is
 * small on a CPU that was idle; there the second thread could take three times
 * as long. So each pass first makes the kernel flush it, and some passes
 * precede the measurement.
 */
#include <linux/htw.h>
#include <errno.h>
#include <stdio.h>
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
#define THREADS_MAX	256U
#define TIMERS		65536U
#define SCALE_TIMERS	16384U
#define WARM_UPS	2U
/* More pages than the kernel flushes one by one. */
#define FLUSHED		(64U * 4096U)
#define RUNS		32U
#define SCALE_RUNS	8U
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
	htw_many_add(fd, &w->b);
	htw_many_rearm(fd, &w->b, w->b.pending);
	htw_many_cancel(fd, &w->b, w->b.pending);
}

static void pass(void *arg)
{
	struct worker *w = arg;

	work_once(w, w->fd);
}

static void warm_up(void *arg)
{
	struct worker *w = arg;
	const int fd = htw_open_device(w->b.pending);
	uint32_t i;

	for (i = 0; i < WARM_UPS; i++)
		work_once(w, fd);
	close(fd);
}

/* Passes per second of @count threads together. */
static double run_shared(struct pinned *threads, unsigned int count, enum shared shared)
{
	unsigned int i;
	double rate;
	int fd = -1;

	for (i = 0; i < count; i++) {
		struct worker *w = threads[i].arg;

		if (!i || shared != ONE_FD)
			fd = htw_open_device(count * w->b.pending);
		w->shared = shared;
		w->fd = fd;
	}
	rate = pinned_run(threads, count, RUN_NS);
	for (i = 0; i < (shared == ONE_FD ? 1 : count); i++)
		close(((struct worker *)threads[i].arg)->fd);
	return rate;
}

/* Compare @count threads with one, @runs times in turn; @ratio gets a figure for each kind. */
static void compare_in_turns(struct pinned *threads, unsigned int count, unsigned int runs,
			     double *ratio)
{
	double one[KINDS] = {}, many[KINDS] = {};
	enum shared kind;
	unsigned int i;

	for (i = 0; i < runs; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			const double alone = run_shared(threads, 1, kind);
			const double together = run_shared(threads, count, kind);

			one[kind] += alone;
			many[kind] += together;
			ratio[kind] = many[kind] / one[kind];
			progress("%s %s: %.1f passes per second by one, %.1f by %u: %.2f times",
				 kinds[kind].system, kinds[kind].op, alone, together, count,
				 ratio[kind]);
		}
	}
}

/* @count threads of @pending timers; or NULL, and why that is not possible. */
static struct pinned *make_threads(unsigned int count, uint32_t pending, const char **why)
{
	struct worker *workers;
	struct pinned *threads;
	unsigned int i;

	*why = htw_missing(count * pending);
	if (!*why && get_nprocs() < (int)count)
		*why = "there are too few CPUs";
	if (*why)
		return NULL;
	workers = calloc(count, sizeof(*workers));
	threads = calloc(count, sizeof(*threads));
	if (!workers || !threads)
		die("threads: out of memory");
	for (i = 0; i < count; i++) {
		threads[i] = (struct pinned) {
			.cpu = i,
			.warm_up = warm_up,
			.pass = pass,
			.arg = &workers[i],
		};
		workers[i].sum = i;
		bench_init(&workers[i].b, pending);
	}
	return threads;
}

static void free_threads(struct pinned *threads, unsigned int count)
{
	struct worker *workers = threads[0].arg;

	while (count--)
		bench_exit(&workers[count].b);
	free(workers);
	free(threads);
}

void workload_threads(void)
{
	double ratio[KINDS];
	const char *why;
	struct pinned *threads = make_threads(THREADS, TIMERS, &why);
	enum shared kind;

	if (threads) {
		compare_in_turns(threads, THREADS, RUNS, ratio);
		free_threads(threads, THREADS);
	}
	for (kind = 0; kind < KINDS; kind++) {
		if (threads)
			report(kinds[kind].system, kinds[kind].op, TIMERS, ratio[kind], "ratio");
		else
			report_missing(kinds[kind].system, kinds[kind].op, TIMERS, why);
	}
}

/* Double, but not without having been at @most; from there on beyond it. */
static unsigned int next_count(unsigned int count, unsigned int most)
{
	return count < most && 2 * count > most ? most : 2 * count;
}

/* The same with 2, 4, 8 ... threads, and with one on each CPU. */
void workload_scale(void)
{
	const unsigned int cpus = get_nprocs();
	const unsigned int most = cpus < THREADS_MAX ? cpus : THREADS_MAX;
	const char *why;
	struct pinned *threads = make_threads(most, SCALE_TIMERS, &why);
	double ratio[KINDS];
	unsigned int count;
	enum shared kind;
	char op[64];

	if (!threads)
		die("scale: %s", why);
	for (count = THREADS; count <= most; count = next_count(count, most)) {
		compare_in_turns(threads, count, SCALE_RUNS, ratio);
		for (kind = 0; kind < KINDS; kind++) {
			snprintf(op, sizeof(op), "scale%s", strchr(kinds[kind].op, '-') ?: "");
			report(kinds[kind].system, op, count, ratio[kind], "ratio");
		}
	}
	free_threads(threads, most);
}
