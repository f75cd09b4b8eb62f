// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lateness on an idle guest, whose clock stands still while nothing runs: from
 * the deadline to the event being read
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "workloads.h"

#define SPREAD_COUNT	100000U
#define SPREAD		(10 * SEC)
#define BUCKET_COUNT	1000000U

/* An event that is later than this is lost. */
#define LOST		(60 * SEC)

struct lateness {
	uint64_t *ns;
	uint64_t *due;
	uint32_t count;
	uint32_t got;
	uint32_t early;
};

static void report_lateness(struct lateness *l, const char *system, const char *what)
{
	char op[64];

	snprintf(op, sizeof(op), "%s-early", what);
	report(system, op, l->count, l->early, "count");
	report_percentiles(system, what, l->ns, l->count);
}

static void lateness_init(struct lateness *l, uint32_t count)
{
	*l = (struct lateness) {
		.ns = allocate(count, sizeof(*l->ns)),
		.due = allocate(count, sizeof(*l->due)),
		.count = count,
	};
}

static void lateness_exit(struct lateness *l)
{
	release(l->ns, l->count, sizeof(*l->ns));
	release(l->due, l->count, sizeof(*l->due));
}

static void note(struct lateness *l, uint64_t timer, uint64_t taken, uint64_t now)
{
	if (timer >= l->count || l->got == l->count || !l->due[timer])
		die("lateness: timer %llu expired twice, or is unknown", (unsigned long long)timer);
	if (taken < l->due[timer] || now < l->due[timer])
		l->early++;
	l->ns[l->got++] = now > l->due[timer] ? now - l->due[timer] : 0;
	l->due[timer] = 0;
}

static void wait_for(int epfd)
{
	struct epoll_event ready;
	int n;

	do {
		n = epoll_wait(epfd, &ready, 1, LOST / MSEC);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		die("lateness: timers are lost");
}

static void read_all(struct lateness *l, int fd, int epfd)
{
	struct htw_event events[BATCH];
	uint64_t now;
	int n, i;

	while (l->got < l->count) {
		wait_for(epfd);
		n = htw_read(fd, events, BATCH);
		if (n < 0)
			die("lateness: read: %s", strerror(-n));
		now = now_ns();
		for (i = 0; i < n; i++)
			note(l, events[i].cookie, events[i].taken, now);
	}
}

/* With @range zero all timers are in one bucket of level 2. */
static void htw_lateness(uint32_t count, uint64_t range, const char *what)
{
	int fd = htw_open_device(count);
	int epfd = htw_epoll(fd);
	uint64_t *ids = allocate(count, sizeof(*ids));
	struct htw_info_args info;
	struct lateness l;
	uint64_t from;
	int ret;

	ret = htw_call(fd, HTW_INFO, &info);
	if (ret)
		die("HTW_INFO: %s", strerror(-ret));
	lateness_init(&l, count);
	random_seed(count);
	settle();
	from = now_ns() + SEC;
	if (!range) {
		if (info.levels < 2)
			die("HTW_INFO: %u levels", info.levels);
		range = info.tick_ns * info.slots[0] * info.slots[1];
		from = (from / range + 2) * range;
	}
	fill_random(l.due, count, from, range);
	htw_many_start(fd, (struct htw_vector_args){ .flags = HTW_F_ABS }, l.due, count, ids);
	read_all(&l, fd, epfd);
	report_lateness(&l, "htw-vector", what);
	lateness_exit(&l);
	release(ids, count, sizeof(*ids));
	close(epfd);
	close(fd);
}

static void timerfd_start(const struct lateness *l, struct bench *b, int epfd)
{
	uint32_t i;

	for (i = 0; i < l->count; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.u64 = i };
		const struct itimerspec when = {
			.it_value = {
				.tv_sec = l->due[i] / SEC,
				.tv_nsec = l->due[i] % SEC,
			},
		};
		int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

		if (fd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) ||
		    timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL))
			die("lateness: timerfd number %u: %s", i, strerror(errno));
		b->handles[i] = fd;
	}
}

static void timerfd_lateness(uint32_t count, uint64_t range, const char *what)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ready;
	struct lateness l;
	uint64_t times;
	struct bench b;
	uint32_t i;

	if (epfd < 0)
		die("epoll_create1: %s", strerror(errno));
	bench_init(&b, count);
	lateness_init(&l, count);
	random_seed(count);
	settle();
	fill_random(l.due, count, now_ns() + 2 * SEC, range);
	timerfd_start(&l, &b, epfd);
	while (l.got < count) {
		if (epoll_wait(epfd, &ready, 1, LOST / MSEC) != 1)
			die("lateness: timerfds are lost");
		if (read(b.handles[ready.data.u64], &times, sizeof(times)) != sizeof(times))
			die("lateness: reading a timerfd: %s", strerror(errno));
		times = now_ns();
		note(&l, ready.data.u64, times, times);
	}
	report_lateness(&l, "timerfd", what);
	for (i = 0; i < count; i++)
		close(b.handles[i]);
	lateness_exit(&l);
	bench_exit(&b);
	close(epfd);
}

void workload_lateness(void)
{
	const char *why = htw_missing(BUCKET_COUNT);

	if (why) {
		report_missing("htw-vector", "lateness", BUCKET_COUNT, why);
	} else {
		htw_lateness(SPREAD_COUNT, SPREAD, "lateness");
		htw_lateness(BUCKET_COUNT, 0, "lateness-bucket");
	}
	why = system_timerfd.missing(SPREAD_COUNT);
	if (why)
		report_missing("timerfd", "lateness", SPREAD_COUNT, why);
	else
		timerfd_lateness(SPREAD_COUNT, SPREAD, "lateness");
}
