/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of /dev/htw share
 */
#ifndef HTW_TEST_H
#define HTW_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/htw.h>

#include "kselftest_harness.h"

#define MSEC		1000000ULL
#define SEC		(1000 * MSEC)
#define HOUR		(3600 * SEC)
/* Within that what is due is found, on a busy machine, too. */
#define PATIENCE	(20 * SEC)

static inline __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static inline void sleep_until(__u64 ns)
{
	const struct timespec ts = { ns / SEC, ns % SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static inline int htw_open(int flags)
{
	return open("/dev/htw", O_RDWR | O_CLOEXEC | flags);
}

/* Calls return a negative errno, as in the kernel. */
static inline int htw_call(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

static inline int htw_add(int fd, struct htw_add_args *add)
{
	return htw_call(fd, HTW_ADD, add);
}

/* The id, or zero, which is never one. */
static inline __u64 htw_start(int fd, __u64 ns, __u64 cookie)
{
	struct htw_add_args add = { .deadline = ns, .cookie = cookie };

	return htw_add(fd, &add) ? 0 : add.id;
}

static inline __u64 htw_start_periodic(int fd, __u64 ns, __u64 interval, __u32 firings)
{
	struct htw_add_args add = { .deadline = ns, .interval = interval, .firings = firings };

	return htw_add(fd, &add) ? 0 : add.id;
}

static inline int htw_stop(int fd, __u64 id)
{
	struct htw_cancel_args cancel = { .id = id };

	return htw_call(fd, HTW_CANCEL, &cancel);
}

static inline int htw_move(int fd, __u64 id, __u64 deadline, __u32 flags)
{
	struct htw_mod_args mod = {
		.id = id, .deadline = deadline, .flags = HTW_MOD_DEADLINE | flags,
	};

	return htw_call(fd, HTW_MOD, &mod);
}

/* How many events were read. */
static inline int htw_read(int fd, struct htw_event *events, size_t count)
{
	ssize_t n = read(fd, events, count * sizeof(*events));

	return n < 0 ? -errno : n / (ssize_t)sizeof(*events);
}

static inline bool htw_is_readable(int fd, __u64 ns)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, ns / MSEC) == 1 && pfd.revents == POLLIN;
}

/* Read until @want events have come; fewer if no more come. */
static inline int htw_collect(int fd, struct htw_event *events, int want)
{
	int got = 0, n;

	while (got < want && htw_is_readable(fd, PATIENCE)) {
		n = htw_read(fd, events + got, want - got);
		if (n < 0)
			break;
		got += n;
	}
	return got;
}

/* A page that can only be read, with @size bytes at its end. */
static inline void *read_only_copy(const void *data, size_t size)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memcpy(p + page - size, data, size);
	if (mprotect(p, page, PROT_READ))
		return NULL;
	return p + page - size;
}

FIXTURE(htw) {
	int fd;
};

FIXTURE_SETUP(htw)
{
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd) {
		TH_LOG("/dev/htw: %s", strerror(errno));
	}
}

FIXTURE_TEARDOWN(htw)
{
	close(self->fd);
}

#define HTW_TEST(name) TEST_F_TIMEOUT(htw, name, 240)

#endif /* HTW_TEST_H */
