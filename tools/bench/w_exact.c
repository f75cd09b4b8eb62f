// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact timers: 2,000 deadlines at odd ns on a tick of 10 us, of an unprivileged
 * user, beside a million coarse timers of another one: far away, or due meanwhile
 * and read by a task of ordinary priority; and 200 deadlines at a time, within
 * 10 us. The same with a timerfd for each deadline.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "workloads.h"

#define EXACT		2000U
#define COARSE		1000000U
/* The deadlines are in that time, ... */
#define RANGE		(4 * SEC)
/* ... which begins that much later. */
#define AFTER		(3 * SEC)
#define EXACT_UID	31000U
#define COARSE_UID	31001U

static void become(uid_t uid)
{
	if (setresuid(uid, uid, 0))
		die("exact: cannot become user %u: %s", uid, strerror(errno));
}

static void return_to_root(void)
{
	if (setresuid(0, 0, 0))
		die("exact: cannot return to root: %s", strerror(errno));
}

/**
 * struct shape - how exact timers are measured
 * @name: the operation's name in the report
 * @coarse_due: the coarse timers are due meanwhile
 * @fifo: the reader has SCHED_FIFO 1
 * @together: number of deadlines within 10 us of each other; 0: all are random
 */
struct shape {
	const char *name;
	bool coarse_due;
	bool fifo;
	uint32_t together;
};

static const struct shape shapes[] = {
	{ .name = "exact-ordinary-coarse-far" },
	{ .name = "exact-ordinary-coarse-due", .coarse_due = true },
	{ .name = "exact-fifo-coarse-far", .fifo = true },
	{ .name = "exact-fifo-coarse-due", .coarse_due = true, .fifo = true },
	{ .name = "exact-together", .together = 200 },
};

/* The other user: start a million timers, and read what is due. */
static void read_coarse(uint64_t from, uint64_t range)
{
	uint64_t *due = allocate(COARSE, sizeof(*due)), *ids = allocate(COARSE, sizeof(*ids));
	struct htw_event events[BATCH];
	struct epoll_event ready;
	int fd, epfd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	become(COARSE_UID);
	fd = htw_open_device(COARSE);
	epfd = htw_epoll(fd);
	random_seed(COARSE);
	fill_random(due, COARSE, from, range);
	htw_many_start(fd, (struct htw_vector_args){ .flags = HTW_F_ABS }, due, COARSE, ids);
	if (now_ns() > from)
		die("exact: starting a million timers took too long");
	for (;;) {
		epoll_wait(epfd, &ready, 1, -1);
		while (htw_read(fd, events, BATCH) > 0)
			;
	}
}

/* Open the device as an unprivileged user, with the finest tick that one may have. */
static int open_exact(void)
{
	int fd, ret;

	become(EXACT_UID);
	fd = htw_open_device(EXACT);
	ret = htw_set_up(fd, (struct htw_setup_args){ .flags = HTW_SETUP_EXACT });
	return_to_root();
	if (ret)
		die("exact: HTW_SETUP: %s", strerror(-ret));
	return fd;
}

static void note(uint64_t *late, uint32_t *got, uint32_t *early, uint64_t due, uint64_t now)
{
	*early += now < due;
	late[(*got)++] = now > due ? now - due : 0;
}

static void read_exact(int fd, uint64_t *late, uint32_t *early)
{
	struct htw_event events[BATCH];
	uint32_t got = 0;
	uint64_t now;
	int n, i;

	while (got < EXACT) {
		n = htw_read(fd, events, BATCH);
		now = now_ns();
		if (n < 0)
			die("exact: read: %s", strerror(-n));
		for (i = 0; i < n; i++)
			note(late, &got, early, events[i].deadline, now);
	}
}

static void read_timerfds(const int *fds, const uint64_t *due, int epfd, uint64_t *late,
			  uint32_t *early)
{
	struct epoll_event ready[BATCH];
	uint64_t times;
	uint32_t got = 0;
	int n, i;

	while (got < EXACT) {
		n = epoll_wait(epfd, ready, BATCH, -1);
		if (n <= 0)
			die("exact: epoll_wait: %s", strerror(errno));
		for (i = 0; i < n; i++) {
			if (read(fds[ready[i].data.u64], &times, sizeof(times)) != sizeof(times))
				die("exact: a timerfd: %s", strerror(errno));
			note(late, &got, early, due[ready[i].data.u64], now_ns());
		}
	}
}

static void open_timerfds(int *fds, const uint64_t *due, int epfd)
{
	uint32_t i;

	for (i = 0; i < EXACT; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u64 = i };
		const struct itimerspec when = {
			.it_value = { .tv_sec = due[i] / SEC, .tv_nsec = due[i] % SEC },
		};

		fds[i] = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (fds[i] < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fds[i], &event) ||
		    timerfd_settime(fds[i], TFD_TIMER_ABSTIME, &when, NULL))
			die("exact: timerfd: %s", strerror(errno));
	}
}

static void choose_deadlines(const struct shape *shape, uint64_t *due, uint64_t from)
{
	uint32_t i;

	random_seed(EXACT);
	fill_random(due, EXACT, from, RANGE);
	for (i = 0; i < EXACT; i++) {
		if (shape->together)
			due[i] = from + i / shape->together * (RANGE * shape->together / EXACT) +
				 due[i] % (10 * USEC);
		due[i] |= 1;
	}
}

static void exact(const struct shape *shape, bool timerfd)
{
	const struct sched_param param = { .sched_priority = shape->fifo };
	static uint64_t due[EXACT], ids[EXACT], late[EXACT];
	const char *system = timerfd ? "timerfd" : "htw";
	static int fds[EXACT];
	uint32_t early = 0, i;
	int fd = -1, epfd = -1;
	uint64_t from;
	char op[64];
	pid_t pid;

	settle();
	from = now_ns() + AFTER;
	pid = fork();
	if (pid < 0)
		die("exact: fork: %s", strerror(errno));
	if (!pid)
		read_coarse(shape->coarse_due ? from : from + 3600 * SEC, RANGE);

	choose_deadlines(shape, due, from);
	if (timerfd) {
		epfd = epoll_create1(EPOLL_CLOEXEC);
		open_timerfds(fds, due, epfd);
	} else {
		fd = open_exact();
		if (fcntl(fd, F_SETFL, O_RDWR))
			die("exact: F_SETFL: %s", strerror(errno));
		htw_many_start(fd, (struct htw_vector_args){ .flags = HTW_F_ABS }, due, EXACT, ids);
	}

	if (sched_setscheduler(0, shape->fifo ? SCHED_FIFO : SCHED_OTHER, &param))
		die("exact: sched_setscheduler: %s", strerror(errno));
	if (timerfd)
		read_timerfds(fds, due, epfd, late, &early);
	else
		read_exact(fd, late, &early);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ 0 });

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (timerfd)
		for (i = 0; i < EXACT; i++)
			close(fds[i]);
	close(timerfd ? epfd : fd);

	report_percentiles(system, shape->name, late, EXACT);
	snprintf(op, sizeof(op), "%s-early", shape->name);
	report(system, op, EXACT, early, "count");
}

void workload_exact(void)
{
	const char *why = htw_missing(COARSE);
	unsigned int i;

	if (why) {
		report_missing("htw", "exact", EXACT, why);
		return;
	}
	if (chmod(HTW_DEVICE, 0666))
		die("exact: cannot change the mode of /dev/htw: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(shapes); i++)
		exact(&shapes[i], false);
	for (i = 0; i < ARRAY_SIZE(shapes); i++)
		exact(&shapes[i], true);
}
