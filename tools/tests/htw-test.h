/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the device tests share
 *
 * The fixture's descriptor is O_NONBLOCK and its task pinned to CPU 0, where
 * timers expire in the order of their deadlines.
 */
#ifndef HTW_TEST_H
#define HTW_TEST_H

/* Headers of the kernel, which is built without -Wextra. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/patience.h"
#include "../common/random.h"

#define HTW_MODULE	"/sys/module/htw/parameters/"

#define EVENTUALLY	(patience_seconds() * SEC)
#define TEST_SECONDS	240
/* Of tests with other fixtures, too. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	TEST_SECONDS

#define HOUR		(3600 * SEC)

#define SENTINEL	0x7e57ed0000000001ULL

#define PAGE		4096UL
#define BATCH		256

/* Evaluate the condition until it holds; false after EVENTUALLY. */
#define htw_eventually(cond) ({						\
	__u64 __end = now_ns() + EVENTUALLY;				\
	bool __ok;							\
									\
	while (!(__ok = (cond)) && now_ns() < __end)			\
		sleep_until(now_ns() + MSEC);				\
	__ok;								\
})

/* The output fields of a failed call are unchanged. */
static inline bool htw_cancel_untouched(const struct htw_cancel_args *cancel)
{
	return cancel->remaining == POISON && cancel->cookie == POISON &&
	       cancel->missed == POISON && cancel->state == POISON32;
}

/* How many timers are due. */
static inline __u64 htw_due(int fd)
{
	struct htw_timer_info entries[64];
	struct htw_list_args list = htw_list_of(entries, 64);
	__u64 due = 0;

	list.flags = HTW_LIST_DUE;
	do {
		if (htw_call(fd, HTW_LIST, &list))
			return POISON;
		due += list.done;
	} while (list.done);
	return due;
}

static inline bool htw_wait_readable(int fd)
{
	return htw_poll(fd, EVENTUALLY / MSEC) == POLLIN;
}

/* Read until @want events came; fewer if no more come within EVENTUALLY. */
static inline size_t htw_collect(int fd, struct htw_event *ev, size_t want)
{
	size_t got = 0;
	int n;

	while (got < want && htw_wait_readable(fd)) {
		n = htw_read(fd, ev + got, want - got);
		if (n < 0)
			break;
		got += n;
	}
	return got;
}

/*
 * Whether nothing expires before @until: anything due earlier would be read
 * before the timer that is started here. The task must stay pinned.
 */
static inline bool htw_quiet_until(int fd, __u64 until)
{
	struct htw_event ev[2];
	__u64 id = htw_start_abs(fd, until, SENTINEL);

	return id && htw_wait_readable(fd) && htw_read(fd, ev, 2) == 1 &&
	       ev[0].id == id && ev[0].cookie == SENTINEL &&
	       htw_read(fd, ev, 2) == -EAGAIN;
}

static inline bool htw_quiet_for(int fd, __u64 ns)
{
	return htw_quiet_until(fd, now_ns() + ns);
}

static inline int htw_pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

static inline int htw_cpus(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN);
}

/* CPU 1 if it exists, so that the other thread has a CPU of its own. */
static inline int htw_other_cpu(void)
{
	return htw_cpus() > 1 ? 1 : 0;
}

static inline int htw_read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return -EIO;
	buf[n] = '\0';
	return 0;
}

static inline int htw_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* The number in a file; U64_MAX if it cannot be read. */
static inline __u64 htw_file_number(const char *path)
{
	char buf[64], *end;
	__u64 n;

	if (htw_read_file(path, buf, sizeof(buf)))
		return ~0ULL;
	n = strtoull(buf, &end, 10);
	return end == buf ? ~0ULL : n;
}

/* Whether the task sleeps in this system call with @fd as its first argument. */
static inline bool htw_sleeps_in(pid_t tid, long nr, int fd)
{
	char path[64], buf[256];
	long number;
	unsigned long arg;

	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	if (htw_read_file(path, buf, sizeof(buf)))
		return false;
	return sscanf(buf, "%ld 0x%lx", &number, &arg) == 2 &&
	       number == nr && (int)arg == fd;
}

/* What a process is doing, as ps(1) has it: R, S, T, ... */
static inline char htw_state_of(pid_t pid)
{
	char path[40], buf[300], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (htw_read_file(path, buf, sizeof(buf)))
		return '?';
	at = strrchr(buf, ')');
	return at ? at[2] : '?';
}

/* Run the expression in a child; true if it was true there. */
#define htw_in_child(condition) ({					\
	int __status = -1;						\
	pid_t __pid = fork();						\
									\
	if (!__pid)							\
		_exit((condition) ? 0 : 1);				\
	__pid > 0 && waitpid(__pid, &__status, 0) == __pid && !__status;\
})

#define NOBODY		65534

static inline bool as_nobody(void)
{
	return !setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY);
}

/* Let all users open the device, as a udev rule could. */
static inline bool open_to_all(void)
{
	return !chmod(HTW_DEVICE, 0666);
}

/* The result of HTW_SETUP for a user without privileges. */
static inline int setup_as_nobody(struct htw_setup_args setup)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd;

		if (!as_nobody())
			_exit(255);
		fd = htw_open(O_NONBLOCK);
		if (fd < 0)
			_exit(254);
		_exit(-htw_set_up(fd, setup));
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* Two promises that each event can show. */
#define EXPECT_NOT_EARLY_BY(clock, event) do {				\
	EXPECT_GE((event)->taken, (event)->deadline);			\
	EXPECT_GE(clock_ns(clock), (event)->taken);			\
} while (0)

#define EXPECT_NOT_EARLY(event)	EXPECT_NOT_EARLY_BY(CLOCK_MONOTONIC, event)

FIXTURE(htw) {
	int fd;
	__u64 tick;
	__u64 limit;
};

FIXTURE_SETUP(htw)
{
	struct htw_info_args info;

	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd) {
		TH_LOG("%s: %s", HTW_DEVICE, strerror(errno));
	}
	ASSERT_EQ(0, ioctl(self->fd, HTW_INFO, &info));
	self->tick = info.tick_ns;
	self->limit = info.limit;
}

FIXTURE_TEARDOWN(htw)
{
	close(self->fd);
}

#define HTW_TEST(name) TEST_F_TIMEOUT(htw, name, TEST_SECONDS)

#endif /* HTW_TEST_H */
