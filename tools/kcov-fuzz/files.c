// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that other files have, too, and what programs do to mapped memory
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "runs.h"
#include "scene.h"

static sigjmp_buf fault;
static volatile sig_atomic_t may_fault;

static void on_fault(int number)
{
	if (!may_fault) {
		signal(number, SIG_DFL);
		return;
	}
	may_fault = 0;
	siglongjmp(fault, 1);
}

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
	action.sa_handler = on_fault;
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
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
	at = buffer_fill(&array_buffers[0], a[2], array_buffers[1].pages, size, mapped());
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

static long map(const __u64 *a, size_t right, __u64 offset)
{
	static const int protections[] = {
		PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE,
	};
	size_t size = size_of(a[1], right);
	struct mapping *m = scene.mappings;
	char *at;

	while (m->at)
		if (++m == scene.mappings + MAPPINGS)
			return SKIPPED;
	at = mmap(NULL, size, protections[a[2] % 4], a[3] == 7 ? MAP_PRIVATE : MAP_SHARED,
		  fd_of(a[0]), offset + (a[3] == 6 ? 4096 : 0));
	if (at == MAP_FAILED)
		return -errno;
	*m = (struct mapping){ at, size };
	return 0;
}

long run_map_ring(const __u64 *a)
{
	size_t entries = scene.contexts[context_of(a[0])].ring_entries;

	return map(a, HTW_RING_SIZE(entries), HTW_OFF_RING);
}

long run_map_table(const __u64 *a)
{
	return map(a, 4 * 4096, HTW_OFF_TABLE);
}

long run_unmap(const __u64 *a)
{
	struct mapping *m = &scene.mappings[a[0] % MAPPINGS];
	long ret;

	if (!m->at)
		return SKIPPED;
	ret = munmap(m->at, m->size);
	m->at = NULL;
	return ret ? -errno : 0;
}

long run_advise(const __u64 *a)
{
	static const int advice[] = { MADV_DONTNEED, MADV_DONTFORK, MADV_DOFORK, MADV_WILLNEED };
	const struct mapping *m = &scene.mappings[a[0] % MAPPINGS];

	if (!m->at)
		return SKIPPED;
	return madvise(m->at, m->size, advice[a[1] % 4]) ? -errno : 0;
}

/* Memory that may not be there, or not writable. */
static void poke(void *to, __u64 value, bool wide)
{
	if (sigsetjmp(fault, 1))
		return;
	may_fault = 1;
	if (wide)
		__atomic_store_n((__u64 *)to, value, __ATOMIC_RELAXED);
	else
		__atomic_store_n((__u32 *)to, value, __ATOMIC_RELEASE);
	may_fault = 0;
}

long run_store(const __u64 *a)
{
	const struct mapping *m = &scene.mappings[a[0] % MAPPINGS];

	if (!m->at || m->size < 8)
		return SKIPPED;
	poke(m->at + a[1] % (m->size / 8) * 8, a[2], true);
	return 0;
}

/* Let the ring have room, or say that more has been used than there is. */
long run_head(const __u64 *a)
{
	struct htw_ring *ring = (struct htw_ring *)scene.mappings[a[0] % MAPPINGS].at;
	__u32 tail;

	if (!ring)
		return SKIPPED;
	if (sigsetjmp(fault, 1))
		return 0;
	may_fault = 1;
	tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
	may_fault = 0;
	poke(&ring->head, tail - a[1], false);
	return 0;
}

/* Store to the table. */
long run_put(const __u64 *a)
{
	const struct mapping *m = &scene.mappings[a[0] % MAPPINGS];
	__u64 at = HTW_ID_SLOT(id_of(a[1])) * 8ULL;

	if (!m->at || at + 8 > m->size)
		return SKIPPED;
	poke(m->at + at, a[3] & 1 ? time_of(0, a[2], HTW_F_ABS) : a[2], true);
	return 0;
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
		"/sys/kernel/debug/htw/wheels", "/sys/kernel/debug/htw/pacers",
		"/sys/kernel/debug/htw/users",
	};
	int fd = open(paths[a[0] % 3], O_RDONLY | O_CLOEXEC);
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
