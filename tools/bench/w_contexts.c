// SPDX-License-Identifier: GPL-2.0-only
/*
 * 100,000 descriptors of one program, a timer each, all due on one tick, in one
 * epoll set: until the first and until all events are read, memory, and how long
 * the program's exit takes. The same with timerfds.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "limits.h"
#include "measure.h"
#include "memory.h"
#include "report.h"
#include "workloads.h"

#define CONTEXTS	100000U
/* From the last start to the deadline. */
#define AFTER		(2 * SEC)
#define LOST_MS		60000

/**
 * struct way - what there are many of
 * @system: its name in reports
 * @open: open one
 * @start: have it due at a time
 * @take: read it; return whether there was an event, and die if that was early
 */
struct way {
	const char *system;
	int (*open)(void);
	void (*start)(int fd, uint64_t due);
	bool (*take)(int fd, uint64_t due);
};

/* Of the program that has them; shared with who measures. */
struct contexts_times {
	uint64_t first_read;
	uint64_t all_read;
	uint64_t exits;
	double bytes;
	double bytes_watched;
};

static struct contexts_times *times;

static int open_htw(void)
{
	return htw_open_device(1);
}

static void start_htw(int fd, uint64_t due)
{
	if (!htw_start_abs(fd, due, 0))
		die("contexts: HTW_ADD: %s", strerror(errno));
}

static bool take_htw(int fd, uint64_t due)
{
	struct htw_event ev;

	if (read(fd, &ev, sizeof(ev)) != sizeof(ev))
		return false;
	if (ev.taken < due)
		die("contexts: an early event");
	return true;
}

static int open_timerfd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (fd < 0)
		die("contexts: timerfd_create: %s", strerror(errno));
	return fd;
}

static void start_timerfd(int fd, uint64_t due)
{
	const struct itimerspec when = {
		.it_value = { .tv_sec = due / SEC, .tv_nsec = due % SEC },
	};

	if (timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL))
		die("contexts: timerfd_settime: %s", strerror(errno));
}

static bool take_timerfd(int fd, uint64_t due)
{
	uint64_t expirations;

	if (read(fd, &expirations, sizeof(expirations)) != sizeof(expirations))
		return false;
	if (now_ns() < due)
		die("contexts: an early event");
	return true;
}

static const struct way ways[] = {
	{ "htw", open_htw, start_htw, take_htw },
	{ "timerfd", open_timerfd, start_timerfd, take_timerfd },
};

static void watch(int epfd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("contexts: epoll_ctl: %s", strerror(errno));
}

/* Read all; note when the first and the last one has come. */
static void take_all(const struct way *way, int epfd, uint64_t due)
{
	struct epoll_event ready[256];
	uint32_t got = 0;
	int n, i;

	while (got < CONTEXTS) {
		n = epoll_wait(epfd, ready, 256, LOST_MS);
		if (n <= 0)
			die("contexts: %u of %u events", got, CONTEXTS);
		for (i = 0; i < n; i++) {
			if (!way->take(ready[i].data.fd, due))
				continue;
			if (!got++)
				times->first_read = now_ns() - due;
		}
	}
	times->all_read = now_ns() - due;
}

/* The program. */
static void run_program(const struct way *way)
{
	int *fds = allocate(CONTEXTS, sizeof(*fds));
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t memory, due;
	uint32_t i;

	memory = memory_free();
	due = now_ns() + CONTEXTS * 20 * USEC + AFTER;
	due -= due % MSEC;
	for (i = 0; i < CONTEXTS; i++) {
		fds[i] = way->open();
		way->start(fds[i], due);
	}
	times->bytes = (double)(memory - memory_free()) / CONTEXTS;
	for (i = 0; i < CONTEXTS; i++)
		watch(epfd, fds[i]);
	times->bytes_watched = (double)(memory - memory_free()) / CONTEXTS;
	if (now_ns() > due)
		die("contexts: starting took too long");
	take_all(way, epfd, due);
	/* Let work that was deferred finish. */
	sleep_until(now_ns() + SEC);
	times->exits = now_ns();
	_exit(0);
}

static void measure_way(const struct way *way)
{
	int status;
	pid_t pid;

	settle();
	pid = fork();
	if (pid < 0)
		die("contexts: fork: %s", strerror(errno));
	if (!pid)
		run_program(way);
	if (waitpid(pid, &status, 0) != pid || status)
		die("contexts: the program failed");
	report(way->system, "contexts-exit", CONTEXTS, now_ns() - times->exits, "ns");
	report(way->system, "contexts-first-read", CONTEXTS, times->first_read, "ns");
	report(way->system, "contexts-all-read", CONTEXTS, times->all_read, "ns");
	report(way->system, "contexts-memory", CONTEXTS, times->bytes, "bytes");
	report(way->system, "contexts-memory-watched", CONTEXTS, times->bytes_watched, "bytes");
}

void workload_contexts(void)
{
	const char *why = raise_rlimit(RLIMIT_NOFILE, "RLIMIT_NOFILE", CONTEXTS + 64);
	unsigned int i;

	if (!why)
		why = raise_sysctl("/proc/sys/fs/epoll/max_user_watches", CONTEXTS + 64);
	times = mmap(NULL, sizeof(*times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (times == MAP_FAILED)
		die("contexts: mmap: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		const char *missing = why ? why : ways[i].open == open_htw ? htw_missing(1) : NULL;

		if (missing)
			report_missing(ways[i].system, "contexts", CONTEXTS, missing);
		else
			measure_way(&ways[i]);
	}
	munmap(times, sizeof(*times));
}
