// SPDX-License-Identifier: GPL-2.0-only
/*
 * A timerfd for each timer, in an epoll set. An add is create, epoll_ctl and
 * settime.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "bench.h"
#include "limits.h"

/* The program's other files. */
#define OTHERS		64

/* Kernel memory of each, about, in bytes. */
#define EACH		950ULL

static int epfd;

static const char *timerfd_missing(uint32_t pending)
{
	const char *why = need_memory(pending * EACH);

	if (!why)
		why = raise_sysctl("/proc/sys/fs/nr_open", pending + OTHERS);
	if (!why)
		why = raise_rlimit(RLIMIT_NOFILE, "RLIMIT_NOFILE", pending + OTHERS);
	if (!why)
		why = raise_sysctl("/proc/sys/fs/epoll/max_user_watches", pending + OTHERS);
	return why;
}

static void timerfd_open(struct bench *b)
{
	(void)b;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epfd < 0)
		die("timerfd: epoll_create1: %s", strerror(errno));
}

static void set(int fd, uint64_t ns)
{
	const struct itimerspec when = {
		.it_value = {
			.tv_sec = ns / SEC,
			.tv_nsec = ns % SEC,
		},
	};

	if (unlikely(timerfd_settime(fd, 0, &when, NULL)))
		die("timerfd_settime: %s", strerror(errno));
}

static void timerfd_add(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++) {
		struct epoll_event event = {
			.events = EPOLLIN,
			.data.u64 = i,
		};
		int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

		if (unlikely(fd < 0))
			die("timerfd_create number %u: %s", i, strerror(errno));
		if (unlikely(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event)))
			die("epoll_ctl number %u: %s", i, strerror(errno));
		set(fd, b->delay[i]);
		b->handles[i] = fd;
	}
}

static void timerfd_rearm(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++)
		set(b->handles[b->rearm_order[k]], b->later[k]);
}

static void timerfd_cancel(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++)
		set(b->handles[b->cancel_order[k]], 0);
}

static void timerfd_collect(struct bench *b)
{
	struct epoll_event ready[BATCH];
	int n = epoll_wait(epfd, ready, BATCH, 0), i;
	uint64_t now, times;

	if (unlikely(n < 0))
		die("timerfd: epoll_wait: %s", strerror(errno));
	now = now_ns();
	for (i = 0; i < n; i++) {
		const uint64_t timer = ready[i].data.u64;

		if (unlikely(read(b->handles[timer], &times, sizeof(times)) != sizeof(times) ||
			     times != 1))
			die("timerfd: reading timer %llu failed", (unsigned long long)timer);
		bench_expired(b, timer, now);
	}
}

static void timerfd_close(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++)
		if (unlikely(close(b->handles[i])))
			die("timerfd: close: %s", strerror(errno));
	close(epfd);
}

const struct system system_timerfd = {
	.name = "timerfd",
	.missing = timerfd_missing,
	.open = timerfd_open,
	.add = timerfd_add,
	.rearm = timerfd_rearm,
	.cancel = timerfd_cancel,
	.collect = timerfd_collect,
	.close = timerfd_close,
	.closes = true,
};
