// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exact timers: 2,000 deadlines at odd ns on a tick of 10 us, of an unprivileged
 * user, beside a million coarse timers of another one: far away, or due meanwhile
 * and read by a task of ordinary priority. The same with a timerfd for each
 * deadline.
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
#define TICK		(10 * USEC)
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

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The other user: start a million timers, and read what is due. */
static void read_coarse(uint64_t from, uint64_t range)
{
	uint64_t *due = allocate(COARSE, sizeof(*due)), *ids = allocate(COARSE, sizeof(*ids));
	struct htw_event events[BATCH];
	struct epoll_event ready;
	int fd, epfd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	become(COARSE_UID);
	fd = htw_open_device(HTW_FEATURE_VECTOR, COARSE);
	epfd = htw_epoll(fd);
	random_seed(COARSE);
	fill_random(due, COARSE, from, range);
	htw_vector_start(fd, (struct htw_vector){ .flags = HTW_F_ABS }, due, COARSE, ids);
	if (now_ns() > from)
		die("exact: starting a million timers took too long");
	for (;;) {
		epoll_wait(epfd, &ready, 1, -1);
		while (htw_read(fd, events, BATCH) > 0)
			;
	}
}

/* Open the device with a tick of 10 us; *@as is who could. */
static int open_exact(const char **as)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = TICK,
		.levels = 5, .slots = { 2048, 64, 64, 64, 64 },
	};
	int fd, ret;

	*as = "user";
	become(EXACT_UID);
	fd = htw_open_device(HTW_FEATURE_SETUP, EXACT);
	ret = htw_set_up(fd, setup);
	return_to_root();
	if (ret != -EPERM)
		goto out;
	close(fd);
	*as = "root";
	fd = htw_open_device(HTW_FEATURE_SETUP, EXACT);
	ret = htw_set_up(fd, setup);
out:
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
	struct htw_event events[16];
	uint32_t got = 0;
	uint64_t now;
	int n, i;

	while (got < EXACT) {
		n = htw_read(fd, events, 16);
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
	struct epoll_event ready;
	uint64_t times;
	uint32_t got = 0;

	while (got < EXACT) {
		if (epoll_wait(epfd, &ready, 1, -1) != 1 ||
		    read(fds[ready.data.u64], &times, sizeof(times)) != sizeof(times))
			die("exact: a timerfd: %s", strerror(errno));
		note(late, &got, early, due[ready.data.u64], now_ns());
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

static void exact(bool timerfd, bool coarse_due, bool fifo)
{
	const struct sched_param param = { .sched_priority = fifo };
	static uint64_t due[EXACT], ids[EXACT], late[EXACT];
	static int fds[EXACT];
	const char *as = "user";
	uint32_t early = 0, i;
	int fd = -1, epfd = -1;
	char what[64], op[96];
	uint64_t from;
	pid_t pid;

	settle();
	from = now_ns() + AFTER;
	pid = fork();
	if (pid < 0)
		die("exact: fork: %s", strerror(errno));
	if (!pid)
		read_coarse(coarse_due ? from : from + 3600 * SEC, RANGE);
	random_seed(EXACT);
	fill_random(due, EXACT, from, RANGE);
	for (i = 0; i < EXACT; i++)
		due[i] |= 1;
	if (timerfd) {
		epfd = epoll_create1(EPOLL_CLOEXEC);
		open_timerfds(fds, due, epfd);
	} else {
		fd = open_exact(&as);
		if (fcntl(fd, F_SETFL, O_RDWR))
			die("exact: F_SETFL: %s", strerror(errno));
		htw_vector_start(fd, (struct htw_vector){ .flags = HTW_F_ABS }, due, EXACT, ids);
	}
	if (sched_setscheduler(0, fifo ? SCHED_FIFO : SCHED_OTHER, &param))
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

	qsort(late, EXACT, sizeof(*late), compare);
	snprintf(what, sizeof(what), "exact-%s-%s-%s", as, fifo ? "fifo" : "ordinary",
		 coarse_due ? "coarse-due" : "coarse-far");
	snprintf(op, sizeof(op), "%s-median", what);
	report(timerfd ? "timerfd" : "htw", op, EXACT, late[EXACT / 2], "ns");
	snprintf(op, sizeof(op), "%s-p99.9", what);
	report(timerfd ? "timerfd" : "htw", op, EXACT, late[(EXACT - 1) * 999 / 1000], "ns");
	snprintf(op, sizeof(op), "%s-max", what);
	report(timerfd ? "timerfd" : "htw", op, EXACT, late[EXACT - 1], "ns");
	snprintf(op, sizeof(op), "%s-early", what);
	report(timerfd ? "timerfd" : "htw", op, EXACT, early, "count");
}

void workload_exact(void)
{
	const char *why = htw_missing_feature(HTW_FEATURE_SETUP | HTW_FEATURE_VECTOR, "HTW_SETUP",
					      COARSE);
	unsigned int how;

	if (why) {
		report_missing("htw", "exact", EXACT, why);
		return;
	}
	if (chmod(HTW_DEVICE, 0666))
		die("exact: cannot change the mode of /dev/htw: %s", strerror(errno));
	for (how = 0; how < 8; how++)
		exact(how & 4, how & 1, how & 2);
}
