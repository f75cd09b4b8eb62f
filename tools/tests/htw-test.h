/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the real device share
 *
 * The fixture's fd is O_NONBLOCK and its task is pinned to CPU 0: there the
 * firing order is the order of the deadlines.
 */
#ifndef HTW_TEST_H
#define HTW_TEST_H

/* The harness and its macros are the kernel's, which builds without -Wextra. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include <sched.h>
#include <sys/syscall.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"

#define HTW_MODULE	"/sys/module/htw/parameters/"

/* What an emulated, overcommitted machine may need; never a measurement. */
#define EVENTUALLY	(90 * SEC)
#define TEST_SECONDS	240

#define SENTINEL	0x7e57ed0000000001ULL

#define PAGE		4096UL
#define BATCH		256

/* Looks again and again; false only where the condition never came. */
#define htw_eventually(cond) ({						\
	__u64 __end = now_ns() + EVENTUALLY;				\
	bool __ok;							\
									\
	while (!(__ok = (cond)) && now_ns() < __end)			\
		sleep_until(now_ns() + MSEC);				\
	__ok;								\
})

/* Out fields of a call that failed must be as they were before it. */
static inline bool htw_cancel_untouched(const struct htw_cancel *cancel)
{
	return cancel->remaining == POISON && cancel->cookie == POISON &&
	       cancel->missed == POISON;
}

static inline bool htw_wait_readable(int fd)
{
	return htw_poll(fd, EVENTUALLY / MSEC) == POLLIN;
}

/* Reads until @want events came; fewer only where nothing more did. */
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
 * Whether nothing expires up to @until: what was due before then would come
 * out of the queue before the timer that is due then. Needs the fixture's pin.
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

/* CPU 1 where there is one, so that the other side is on a CPU of its own. */
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

/* The number in a file of one number; U64_MAX where there is none. */
static inline __u64 htw_file_number(const char *path)
{
	char buf[64], *end;
	__u64 n;

	if (htw_read_file(path, buf, sizeof(buf)))
		return ~0ULL;
	n = strtoull(buf, &end, 10);
	return end == buf ? ~0ULL : n;
}

/* Whether that task sleeps in this system call with this first argument. */
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

/* The two promises about time that each event shows. */
#define EXPECT_NOT_EARLY(event) do {					\
	EXPECT_GE((event)->fired, (event)->deadline);			\
	EXPECT_GE(now_ns(), (event)->fired);				\
} while (0)

FIXTURE(htw) {
	int fd;
	__u64 tick;
	__u64 limit;
	__u64 features;
};

FIXTURE_SETUP(htw)
{
	struct htw_info info;

	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd) {
		TH_LOG("%s: %s", HTW_DEVICE, strerror(errno));
	}
	ASSERT_EQ(0, ioctl(self->fd, HTW_INFO, &info));
	self->tick = info.tick_ns;
	self->limit = info.limit;
	self->features = info.features;
}

FIXTURE_TEARDOWN(htw)
{
	close(self->fd);
}

#define HTW_TEST(name) TEST_F_TIMEOUT(htw, name, TEST_SECONDS)

#endif /* HTW_TEST_H */
