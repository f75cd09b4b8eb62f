// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that other files have, too
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "runs.h"
#include "scene.h"

static void on_signal(int number)
{
	(void)number;
}

void files_init(void)
{
	static const int ignored[] = { SIGALRM, SIGIO, SIGUSR1 };
	struct sigaction action = { .sa_handler = on_signal };

	for (unsigned int i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		sigaction(ignored[i], &action, NULL);
	sigaction(SIGRTMIN + 1, &action, NULL);
}

long run_open(const __u64 *a)
{
	static const int access[] = { O_RDWR, O_RDWR, O_RDONLY, O_WRONLY };
	unsigned int i = a[0] % FDS;
	int flags = access[a[1] % 4] | (a[2] & 1 ? 0 : O_NONBLOCK);
	int fd;

	if (scene.fds[i].fd >= 0)
		return SKIPPED;
	fd = open(HTW_DEVICE, flags | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	scene.fds[i].fd = fd;
	scene.fds[i].flags = flags;
	scene.fds[i].context = ++scene.nr_contexts;
	scene.contexts[scene.nr_contexts].clock = CLOCK_MONOTONIC;
	return 0;
}

long run_close(const __u64 *a)
{
	int fd = fd_of(a[0]);

	scene.fds[a[0] % FDS].fd = -1;
	return close(fd) ? -errno : 0;
}

long run_dup(const __u64 *a)
{
	unsigned int to = a[1] % FDS;

	if (scene.fds[to].fd >= 0)
		return SKIPPED;
	scene.fds[to] = scene.fds[a[0] % FDS];
	scene.fds[to].fd = dup(fd_of(a[0]));
	return scene.fds[to].fd < 0 ? -errno : 0;
}

static size_t size_of(__u64 arg, size_t right)
{
	return arg == 0 ? right : arg == 1 ? right + 1 : arg == 2 ? right - 1 : (__u32)arg;
}

/* A read that may sleep is interrupted again and again, until it finds that it is over. */
static void interrupt_every(__u64 us)
{
	const struct itimerval timer = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &timer, NULL);
}

static long check_read(const __u64 *a, long ret, const struct htw_event *ev, size_t size)
{
	if (ret > 0 && (ret % sizeof(*ev) || (size_t)ret > size))
		wrong("%ld bytes of %zu", ret, size);
	forget_now();
	for (size_t i = 0; ret > 0 && i < ret / sizeof(*ev); i++) {
		check_event(a[0], &ev[i]);
		if (ev[i].flags & HTW_EVENT_MORE)
			note_id(a[0], ev[i].id);
	}
	return ret;
}

long run_read(const __u64 *a)
{
	size_t size = size_of(a[1], 64 * sizeof(struct htw_event));
	bool blocks = !(scene.fds[a[0] % FDS].flags & O_NONBLOCK);
	void *at;
	long ret;

	if (size > BUFFER_SIZE / 2)
		size = BUFFER_SIZE / 2;
	at = buffer_fill(&array_buffers[0], a[2], array_buffers[1].pages, size);
	if (blocks)
		interrupt_every(5000);
	ret = read(fd_of(a[0]), at, size);
	if (ret < 0)
		ret = -errno;
	if (blocks)
		interrupt_every(0);
	return buffer_is_good(a[2]) ? check_read(a, ret, at, size) : ret;
}

long run_readv(const __u64 *a)
{
	struct htw_event ev[8];
	struct iovec parts[16];
	__u64 seed = a[1] | 1;
	size_t at = 0;
	int n = 0;
	long ret;

	while (at < sizeof(ev) && n < 16) {
		size_t length = one_in(&seed, 4) ? xorshift64(&seed) >> 58 : sizeof(*ev);

		if (length > sizeof(ev) - at)
			length = sizeof(ev) - at;
		parts[n++] = (struct iovec){ (char *)ev + at, length };
		at += length;
	}
	interrupt_every(5000);
	ret = readv(fd_of(a[0]), parts, n);
	if (ret < 0)
		ret = -errno;
	interrupt_every(0);
	return check_read(a, ret, ev, at);
}

long run_poll(const __u64 *a)
{
	return htw_poll(fd_of(a[0]), a[1] % 4);
}

long run_epoll(const __u64 *a)
{
	static const int operations[] = {
		EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL,
	};
	struct epoll_event event = {
		.events = EPOLLIN | (a[2] & 1 ? EPOLLET : 0) | (a[2] & 2 ? EPOLLONESHOT : 0),
	};

	if (scene.epoll < 0)
		scene.epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll_ctl(scene.epoll, operations[a[1] % 4], fd_of(a[0]), &event) ? -errno : 0;
}

long run_epoll_wait(const __u64 *a)
{
	struct epoll_event events[4];
	int ret;

	if (scene.epoll < 0)
		return SKIPPED;
	ret = epoll_wait(scene.epoll, events, 4, a[0] % 4);
	return ret < 0 ? -errno : ret;
}

long run_async(const __u64 *a)
{
	const int owners[] = { getpid(), -getpgrp(), 0, 99999 };
	static const int signals[] = { 0, SIGUSR1, SIGIO, 0 };
	int fd = fd_of(a[0]), flags = fcntl(fd, F_GETFL);

	if (fcntl(fd, F_SETOWN, owners[a[2] % 4]) && errno != ESRCH)
		return -errno;
	if (fcntl(fd, F_SETSIG, a[3] % 4 == 3 ? SIGRTMIN + 1 : signals[a[3] % 4]))
		return -errno;
	return fcntl(fd, F_SETFL, a[1] & 1 ? flags | O_ASYNC : flags & ~O_ASYNC) ? -errno : 0;
}

long run_mmap(const __u64 *a)
{
	void *at = mmap(NULL, 4096, PROT_READ, a[1] & 1 ? MAP_PRIVATE : MAP_SHARED, fd_of(a[0]),
			a[1] / 2 * 4096);

	return at == MAP_FAILED ? -errno : 0;
}

long run_fdinfo(const __u64 *a)
{
	char path[64], buf[1024];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd_of(a[0]));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, sizeof(buf));
	close(fd);
	return n < 0 ? -errno : 0;
}

long run_debugfs(const __u64 *a)
{
	static const char * const paths[] = {
		"/sys/kernel/debug/htw/users", "/sys/kernel/debug/htw/lanes",
	};
	int fd = open(paths[a[0] % 2], O_RDONLY | O_CLOEXEC);
	char buf[4096];

	if (fd < 0)
		return -errno;
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	close(fd);
	return 0;
}

long run_sleep(const __u64 *a)
{
	const struct timespec ts = { .tv_nsec = a[0] % (3 * MSEC) };

	return nanosleep(&ts, NULL) ? -errno : 0;
}

long run_set_clock(const __u64 *a)
{
	static const __s64 by[] = { SEC, -SEC, 5 * MSEC, -5 * MSEC, 3600 * SEC, -3600 * SEC };
	__u64 when = clock_ns(CLOCK_REALTIME) + by[a[0] % 6];
	const struct timespec ts = { .tv_sec = when / SEC, .tv_nsec = when % SEC };

	return clock_settime(CLOCK_REALTIME, &ts) ? -errno : 0;
}

/* Another user from now on, or again the one it was: the saved user id allows that. */
long run_become(const __u64 *a)
{
	uid_t uid = a[0] % 4 ? USERS_FIRST + a[0] % 4 : 0;

	if (setresuid(uid, uid, 0))
		return -errno;
	scene.has_become = uid;
	return 0;
}
