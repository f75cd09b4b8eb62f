// SPDX-License-Identifier: GPL-2.0-only
/*
 * 64 processes that wait for one descriptor: how many of them wake up for an
 * expiration each 10 ms, of which one gets the event
 *
 * Voluntary context switches of the processes are counted: how often they went
 * to sleep again. For comparison, a timerfd for each process, and a pipe to
 * which one process writes a byte: what a server with 64 workers can do without
 * htw.
 */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "workloads.h"

#define PROCESSES	64U
#define PERIOD		(10 * MSEC)
#define FIRINGS		200U
/* Time to get ready, and to go to sleep after the last expiration. */
#define AFTER		(SEC / 2)

/**
 * struct way - a way to wait
 * @system: system in reports
 * @op: operation in reports
 * @open: in the parent: open what is waited for
 * @wait: in a child: wait; return whether there was something to get
 */
struct way {
	const char *system;
	const char *op;
	int (*open)(void);
	bool (*wait)(int fd);
};

static volatile uint32_t *got;

static int open_waiting(bool blocking)
{
	int fd = htw_open_device(1);
	struct htw_add_args add = {
		.deadline = AFTER,
		.interval = PERIOD,
		.firings = FIRINGS,
	};

	if (blocking && fcntl(fd, F_SETFL, O_RDWR))
		die("waiters: F_SETFL: %s", strerror(errno));
	if (ioctl(fd, HTW_ADD, &add))
		die("waiters: HTW_ADD: %s", strerror(errno));
	return fd;
}

static int open_blocking(void)
{
	return open_waiting(true);
}

static int open_nonblocking(void)
{
	return open_waiting(false);
}

/* When the processes are started: all timerfds count from there. */
static uint64_t begin;

static int open_timerfd(int flags)
{
	const uint64_t first = begin + AFTER;
	const struct itimerspec when = {
		.it_value = { .tv_sec = first / SEC, .tv_nsec = first % SEC },
		.it_interval.tv_nsec = PERIOD,
	};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | flags);

	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL))
		die("waiters: timerfd: %s", strerror(errno));
	return fd;
}

static int open_shared_timerfd(void)
{
	return open_timerfd(TFD_NONBLOCK);
}

static int nothing(void)
{
	return -1;
}

static int pipe_ends[2];

/* The parent is the process that writes. */
static int open_pipe(void)
{
	if (pipe2(pipe_ends, O_CLOEXEC))
		die("waiters: pipe: %s", strerror(errno));
	return pipe_ends[0];
}

static bool wait_htw(int fd)
{
	struct htw_event ev;

	return read(fd, &ev, sizeof(ev)) == sizeof(ev);
}

static bool take_timerfd(int fd)
{
	uint64_t times;

	return read(fd, &times, sizeof(times)) == sizeof(times);
}

static bool wait_timerfd(int fd)
{
	static int own = -1;

	(void)fd;
	if (own < 0)
		own = open_timerfd(0);
	return take_timerfd(own);
}

static bool wait_pipe(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

static void wait_epoll(int fd, uint32_t events)
{
	static int epfd = -1;
	struct epoll_event event = { .events = events };

	if (epfd < 0) {
		epfd = epoll_create1(EPOLL_CLOEXEC);
		if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
			die("waiters: epoll: %s", strerror(errno));
	}
	if (epoll_wait(epfd, &event, 1, -1) != 1)
		die("waiters: epoll_wait: %s", strerror(errno));
}

static bool wait_exclusive(int fd)
{
	wait_epoll(fd, EPOLLIN | EPOLLEXCLUSIVE);
	return wait_htw(fd);
}

static bool wait_exclusive_timerfd(int fd)
{
	wait_epoll(fd, EPOLLIN | EPOLLEXCLUSIVE);
	return take_timerfd(fd);
}

static const struct way ways[] = {
	{ "htw", "waiters-read", open_blocking, wait_htw },
	{ "htw", "waiters-epollexclusive", open_nonblocking, wait_exclusive },
	{ "timerfd", "waiters-read", nothing, wait_timerfd },
	{ "timerfd", "waiters-epollexclusive", open_shared_timerfd, wait_exclusive_timerfd },
	{ "pipe", "waiters-read", open_pipe, wait_pipe },
};

static pid_t start(const struct way *way, int fd)
{
	const pid_t pid = fork();

	if (pid < 0)
		die("waiters: fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		if (way->wait(fd))
			__atomic_fetch_add(got, 1, __ATOMIC_RELAXED);
}

static uint64_t switches_of(const pid_t *pids)
{
	unsigned long long switches, sum = 0;
	char path[64], line[128];
	unsigned int i;
	bool found;
	FILE *f;

	for (i = 0; i < PROCESSES; i++) {
		snprintf(path, sizeof(path), "/proc/%d/status", pids[i]);
		f = fopen(path, "re");
		for (found = false; f && !found && fgets(line, sizeof(line), f); )
			found = sscanf(line, "voluntary_ctxt_switches: %llu", &switches) == 1;
		if (!found)
			die("waiters: cannot read %s", path);
		fclose(f);
		sum += switches;
	}
	return sum;
}

static void write_pipe(uint64_t first)
{
	unsigned int i;

	for (i = 0; i < FIRINGS; i++) {
		sleep_until(first + i * PERIOD);
		if (write(pipe_ends[1], "", 1) != 1)
			die("waiters: write: %s", strerror(errno));
	}
}

static void measure_way(const struct way *way)
{
	const bool all_get_it = way->wait == wait_timerfd;
	pid_t pids[PROCESSES];
	uint64_t before;
	unsigned int i;
	int fd;

	settle();
	*got = 0;
	begin = now_ns();
	fd = way->open();
	for (i = 0; i < PROCESSES; i++)
		pids[i] = start(way, fd);
	sleep_until(begin + AFTER - 2 * PERIOD);
	if (*got)
		die("waiters: %s %s: an early event", way->system, way->op);
	before = switches_of(pids);
	if (way->wait == wait_pipe)
		write_pipe(begin + AFTER);
	/* Timerfds that keep firing are watched for this time. */
	sleep_until(begin + AFTER + FIRINGS * PERIOD - PERIOD / 2);
	report(way->system, way->op, PROCESSES, (double)(switches_of(pids) - before) / FIRINGS,
	       "switches");
	if (*got < (all_get_it ? (FIRINGS - 1) * PROCESSES : FIRINGS))
		die("waiters: %s %s: %u events", way->system, way->op, *got);
	for (i = 0; i < PROCESSES; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < PROCESSES; i++)
		waitpid(pids[i], NULL, 0);
	if (fd >= 0)
		close(fd);
	if (way->wait == wait_pipe)
		close(pipe_ends[1]);
}

void workload_waiters(void)
{
	const char *why = htw_missing(1);
	unsigned int i;

	got = mmap(NULL, sizeof(*got), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (got == MAP_FAILED)
		die("waiters: mmap: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		if (why && !strcmp(ways[i].system, "htw"))
			report_missing(ways[i].system, ways[i].op, PROCESSES, why);
		else
			measure_way(&ways[i]);
	}
	munmap((void *)got, sizeof(*got));
}
