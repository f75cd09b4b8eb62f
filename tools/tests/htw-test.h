/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the real device share
 *
 * Calls return a negative errno, as in the kernel, so that one comparison
 * checks both failure and reason. The fixture's fd is O_NONBLOCK and its task
 * is pinned to CPU 0: there the firing order is the order of the deadlines.
 */
#ifndef HTW_TEST_H
#define HTW_TEST_H

/* The harness and its macros are the kernel's, which builds without -Wextra. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include <linux/htw.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define HTW_DEVICE	"/dev/htw"
#define HTW_MODULE	"/sys/module/htw/parameters/"

#define USEC		1000ULL
#define MSEC		1000000ULL
#define SEC		1000000000ULL

/* What an emulated, overcommitted machine may need; never a measurement. */
#define EVENTUALLY	(90 * SEC)
#define TEST_SECONDS	240

#define POISON		0xa5a5a5a5a5a5a5a5ULL
#define POISON32	0xa5a5a5a5U
#define SENTINEL	0x7e57ed0000000001ULL

#define PAGE		4096UL
#define BATCH		256

static inline __u64 htw_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static inline void htw_sleep_until(__u64 when)
{
	struct timespec ts = {
		.tv_sec = when / SEC,
		.tv_nsec = when % SEC,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Looks again and again; false only where the condition never came. */
#define htw_eventually(cond) ({						\
	__u64 __end = htw_now() + EVENTUALLY;				\
	bool __ok;							\
									\
	while (!(__ok = (cond)) && htw_now() < __end)			\
		htw_sleep_until(htw_now() + MSEC);			\
	__ok;								\
})

static inline int htw_call(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

static inline int htw_open(int flags)
{
	return open(HTW_DEVICE, O_RDWR | O_CLOEXEC | flags);
}

static inline struct htw_info htw_info(int fd)
{
	struct htw_info info;

	memset(&info, 0xff, sizeof(info));
	if (ioctl(fd, HTW_INFO, &info))
		memset(&info, 0xff, sizeof(info));
	return info;
}

static inline __u64 htw_timers(int fd)
{
	return htw_info(fd).timers;
}

static inline struct htw_add htw_abs(__u64 deadline, __u64 cookie)
{
	return (struct htw_add){
		.id = POISON,
		.deadline = deadline,
		.cookie = cookie,
		.flags = HTW_F_ABS,
	};
}

static inline struct htw_add htw_rel(__u64 ns, __u64 cookie)
{
	struct htw_add add = htw_abs(ns, cookie);

	add.flags = 0;
	return add;
}

/* The id, or zero, which is no id. */
static inline __u64 htw_start(int fd, __u64 ns, __u64 cookie)
{
	struct htw_add add = htw_rel(ns, cookie);

	return htw_call(fd, HTW_ADD, &add) ? 0 : add.id;
}

static inline __u64 htw_start_abs(int fd, __u64 deadline, __u64 cookie)
{
	struct htw_add add = htw_abs(deadline, cookie);

	return htw_call(fd, HTW_ADD, &add) ? 0 : add.id;
}

static inline struct htw_cancel htw_cancel_of(__u64 id, __u32 flags)
{
	return (struct htw_cancel){
		.id = id,
		.remaining = POISON,
		.cookie = POISON,
		.missed = POISON,
		.flags = flags,
	};
}

static inline int htw_stop(int fd, __u64 id)
{
	struct htw_cancel cancel = htw_cancel_of(id, 0);

	return htw_call(fd, HTW_CANCEL, &cancel);
}

/* Out fields of a call that failed must be as they were before it. */
static inline bool htw_cancel_untouched(const struct htw_cancel *cancel)
{
	return cancel->remaining == POISON && cancel->cookie == POISON &&
	       cancel->missed == POISON;
}

static inline int htw_poll(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT };
	int ret = poll(&pfd, 1, timeout_ms);

	return ret < 0 ? -errno : ret ? pfd.revents : 0;
}

static inline bool htw_wait_readable(int fd)
{
	return htw_poll(fd, EVENTUALLY / MSEC) == POLLIN;
}

/* How many whole events came, or a negative errno. */
static inline int htw_read(int fd, struct htw_event *ev, size_t room)
{
	/* Not read(): the compiler knows better than to pass it a bad buffer. */
	long ret = syscall(SYS_read, fd, ev, room * sizeof(*ev));

	if (ret < 0)
		return -errno;
	return ret % sizeof(*ev) ? -EIO : (int)(ret / sizeof(*ev));
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
	return htw_quiet_until(fd, htw_now() + ns);
}

static inline struct htw_op htw_op_add(__u64 deadline, __u64 cookie)
{
	return (struct htw_op){
		.op = HTW_OP_ADD,
		.result = POISON32,
		.add = htw_abs(deadline, cookie),
	};
}

static inline struct htw_op htw_op_cancel(__u64 id, __u32 flags)
{
	return (struct htw_op){
		.op = HTW_OP_CANCEL,
		.result = POISON32,
		.cancel = htw_cancel_of(id, flags),
	};
}

static inline struct htw_batch htw_batch_of(const struct htw_op *ops, __u32 count)
{
	return (struct htw_batch){
		.ops = (uintptr_t)ops,
		.count = count,
		.done = POISON32,
	};
}

/* Goes on where a signal cut the batch short; the errno of what ends it. */
static inline int htw_batch_all(int fd, struct htw_op *ops, __u32 count)
{
	struct htw_batch batch;
	int ret;

	while (count) {
		batch = htw_batch_of(ops, count);
		ret = htw_call(fd, HTW_BATCH, &batch);
		if (ret == -EINTR)
			continue;
		if (ret)
			return ret;
		if (!batch.done || batch.done > count)
			return -EIO;
		ops += batch.done;
		count -= batch.done;
	}
	return 0;
}

/*
 * Starts @count timers at @deadline in batches and stores their ids where
 * @ids is given; cookies count up from @cookie. Returns how many could be
 * started before one could not.
 */
static inline __u64 htw_start_many(int fd, __u64 deadline, __u64 cookie,
				   __u64 count, __u64 *ids)
{
	struct htw_op ops[BATCH];
	__u64 started = 0;
	unsigned int i, n;

	while (started < count) {
		n = count - started < BATCH ? count - started : BATCH;
		for (i = 0; i < n; i++)
			ops[i] = htw_op_add(deadline, cookie + started + i);
		if (htw_batch_all(fd, ops, n))
			return started;
		for (i = 0; i < n; i++) {
			if (ops[i].result)
				return started;
			if (ids)
				ids[started] = ops[i].add.id;
			started++;
		}
	}
	return started;
}

/* How many of @ids were pending, and are not any more. */
static inline __u64 htw_stop_many(int fd, const __u64 *ids, __u64 count)
{
	struct htw_op ops[BATCH];
	__u64 stopped = 0, at = 0;
	unsigned int i, n;

	while (at < count) {
		n = count - at < BATCH ? count - at : BATCH;
		for (i = 0; i < n; i++)
			ops[i] = htw_op_cancel(ids[at + i], 0);
		if (htw_batch_all(fd, ops, n))
			break;
		for (i = 0; i < n; i++)
			stopped += !ops[i].result;
		at += n;
	}
	return stopped;
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

/*
 * @size bytes that can be used, and right behind them a page that has only
 * @prot. NULL where there is no memory.
 */
static inline void *htw_before_page(size_t size, int prot)
{
	size_t len = (size + PAGE - 1) & ~(PAGE - 1);
	char *p = mmap(NULL, len + PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED || mprotect(p + len, PAGE, prot))
		return NULL;
	return p + len - size;
}

/* A copy of @src that the kernel can read and not write. */
static inline void *htw_read_only(const void *src, size_t size)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memcpy(p, src, size);
	return mprotect(p, PAGE, PROT_READ) ? NULL : p;
}

static inline __u64 htw_random(__u64 *state)
{
	__u64 x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/* The two promises about time that each event shows. */
#define EXPECT_NOT_EARLY(event) do {					\
	EXPECT_GE((event)->fired, (event)->deadline);			\
	EXPECT_GE(htw_now(), (event)->fired);				\
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
