/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is checked: an open device, calls to it, and the state that a call that
 * failed must leave as it was
 */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <fcntl.h>
#include <linux/htw.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define SEC		1000000000ULL
#define HOUR		(3600 * SEC)
#define POISON		0xa5a5a5a5a5a5a5a5ULL
#define POISON32	0xa5a5a5a5U
#define COOKIE		0xc00c1e0123456789ULL
#define FOREVER_MS	60000

static const char *device = "/dev/htw";
static struct htw_info announced;	/* what HTW_INFO says of a fresh fd */
static size_t page;

static bool has(__u64 feature)
{
	return (announced.features & feature) == feature;
}

/**
 * struct subject - an open device
 * @fd: O_NONBLOCK
 * @manual: its clock stands still
 * @tick: of its wheels, in ns
 * @now: with @manual: the time of its clock
 * @witness: a timer that no check touches, or zero
 * @info: HTW_INFO before the call
 * @query: HTW_QUERY of the witness before the call
 */
struct subject {
	int fd;
	bool manual;
	__u64 tick;
	__u64 now;
	__u64 witness;
	struct htw_info info;
	struct htw_query query;
};

/**
 * struct call - one way to have an operation carried out
 * @name: what it is called
 * @cmd: the command
 * @op: zero, or the operation that @cmd, HTW_BATCH, has in its only entry
 * @size: of the argument, or the entry's part of it
 */
struct call {
	const char *name;
	unsigned long cmd;
	__u16 op;
	size_t size;
};

/* Returns a negative errno, as in the kernel. */
static int call_fd(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

static int perform(const struct subject *s, const struct call *call, void *arg)
{
	struct htw_op op = { .op = call->op, .result = POISON32 };
	struct htw_batch batch = {
		.ops = (uintptr_t)&op,
		.count = 1,
		.done = POISON32,
	};
	int ret;

	if (!call->op)
		return call_fd(s->fd, call->cmd, arg);
	memcpy(&op.add, arg, call->size);
	ret = call_fd(s->fd, HTW_BATCH, &batch);
	if (ret || batch.done != 1)
		return ret ?: -EPROTO;
	memcpy(arg, &op.add, call->size);
	return op.result;
}

static struct htw_info info_of(const struct subject *s)
{
	struct htw_info info;

	memset(&info, 0xa5, sizeof(info));
	if (ioctl(s->fd, HTW_INFO, &info))
		memset(&info, 0xa5, sizeof(info));
	return info;
}

static struct htw_query query_of(const struct subject *s, __u64 id)
{
	struct htw_query query = { .id = id };

	if (ioctl(s->fd, HTW_QUERY, &query))
		query.state = 0;
	/* With a clock that runs it has to differ. */
	if (!s->manual)
		query.remaining = 0;
	return query;
}

static void remember(struct subject *s)
{
	s->info = info_of(s);
	if (s->witness && has(HTW_FEATURE_MOD))
		s->query = query_of(s, s->witness);
}

static void expect_same_state(const struct subject *s, const char *what)
{
	const struct htw_info info = info_of(s);
	struct htw_query query;

	expect(!memcmp(&info, &s->info, sizeof(info)),
	       "%s: HTW_INFO was %llu timers, %llu expired, is %llu, %llu, or differs elsewhere",
	       what, s->info.timers, s->info.expired, info.timers, info.expired);
	if (!s->witness || !has(HTW_FEATURE_MOD))
		return;
	query = query_of(s, s->witness);
	expect(!memcmp(&query, &s->query, sizeof(query)),
	       "%s: HTW_QUERY of another timer differs: state %u, deadline %llu, was %u, %llu",
	       what, query.state, query.deadline, s->query.state, s->query.deadline);
}

/* The call fails, changes nothing of its argument, and leaves nothing behind. */
static void fails(struct subject *s, const struct call *call, void *arg, int error,
		  const char *what)
{
	unsigned char before[256];

	memcpy(before, arg, call->size);
	remember(s);
	expect_result(what, -error, perform(s, call, arg));
	expect(!memcmp(before, arg, call->size), "%s: the argument was written to", what);
	expect_same_state(s, what);
}

/* Each bit of a field that is not known is EINVAL. */
static void fails_with_bits(struct subject *s, const struct call *call, const void *valid,
			    const char *field, size_t offset, size_t size, __u64 known)
{
	unsigned char arg[256];
	char what[64];

	begin("%s: EINVAL for each bit that has no meaning", field);
	for (unsigned int bit = 0; bit < 8 * size; bit++) {
		if (bit < 64 && known >> bit & 1)
			continue;
		memcpy(arg, valid, call->size);
		arg[offset + bit / 8] ^= 1 << bit % 8;
		snprintf(what, sizeof(what), "bit %u", bit);
		fails(s, call, arg, EINVAL, what);
	}
}

#define FAILS_WITH_BITS(s, call, valid, field, known)			\
	fails_with_bits(s, call, valid, #field,				\
			offsetof(__typeof__(*(valid)), field),		\
			sizeof((valid)->field), known)

/* @size bytes, and right behind them memory that cannot be used at all. */
static void *before_hole(size_t size)
{
	const size_t len = (size + page - 1) / page * page;
	char *p = mmap(NULL, len + page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + len, page, PROT_NONE)) {
		perror("mmap");
		exit(1);
	}
	return p + len - size;
}

static void *read_only(const void *src, size_t size)
{
	char *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	memcpy(p, src, size);
	mprotect(p, page, PROT_READ);
	return p;
}

/* Addresses that no program can use; some have a right low half. */
static const uintptr_t bad_addresses[] = {
	0, 1, -1UL, -4096UL, 1UL << 63, (1UL << 47) - 8, 0xffff888000000000UL,
};

/* The argument is somewhere where it cannot be read. */
static void fails_with_pointers(struct subject *s, const struct call *call, const void *valid)
{
	char what[64], *p = before_hole(call->size - 1);

	begin("argument: EFAULT at NULL and at other addresses that cannot be used");
	remember(s);
	for (size_t i = 0; i < sizeof(bad_addresses) / sizeof(*bad_addresses); i++) {
		snprintf(what, sizeof(what), "at %#lx", (unsigned long)bad_addresses[i]);
		expect_result(what, -EFAULT,
			      call_fd(s->fd, call->cmd, (void *)bad_addresses[i]));
		expect_same_state(s, what);
	}
	begin("argument: EFAULT where its last byte cannot be used");
	memcpy(p, valid, call->size - 1);
	expect_result("the call", -EFAULT, call_fd(s->fd, call->cmd, p));
	expect(!memcmp(p, valid, call->size - 1), "the argument was written to");
	expect_same_state(s, "after it");
}

/* EFAULT where the argument cannot be written, and nothing has happened. */
static void fails_read_only(struct subject *s, const struct call *call, const void *valid)
{
	begin("argument: EFAULT where it cannot be written, and nothing has happened");
	remember(s);
	expect_result("the call", -EFAULT,
		      call_fd(s->fd, call->cmd, read_only(valid, call->size)));
	expect_same_state(s, "after it");
}

static __u64 started(const struct subject *s, struct htw_add add)
{
	return call_fd(s->fd, HTW_ADD, &add) ? 0 : add.id;
}

/* A timer an hour away. */
static __u64 start(const struct subject *s, __u32 flags)
{
	return started(s, (struct htw_add){
		.deadline = HOUR, .cookie = COOKIE, .flags = flags,
	});
}

static int stop(const struct subject *s, __u64 id, __u32 flags)
{
	struct htw_cancel cancel = { .id = id, .flags = flags };

	return call_fd(s->fd, HTW_CANCEL, &cancel);
}

static int poll_fd(const struct subject *s, int timeout)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN | POLLOUT | POLLPRI };
	int n = poll(&p, 1, timeout);

	return n > 0 ? p.revents : n;
}

/* Moves a manual clock; another moves by itself. */
static bool pass(struct subject *s, __u64 ns)
{
	struct htw_advance advance = { .ns = ns, .expired = POISON };

	if (!s->manual)
		return poll_fd(s, FOREVER_MS) > 0;
	s->now += ns;
	return !call_fd(s->fd, HTW_ADVANCE, &advance);
}

/* How many events came, or a negative errno; the buffer is poisoned before. */
static int get(const struct subject *s, struct htw_event *ev, size_t room)
{
	long n;

	memset(ev, 0xa5, room * sizeof(*ev));
	n = syscall(SYS_read, s->fd, ev, room * sizeof(*ev));
	if (n < 0)
		return -errno;
	return n % sizeof(*ev) ? -EPROTO : (int)(n / sizeof(*ev));
}

/* A timer that has expired and waits to be read; zero if that failed. */
static __u64 start_expired(struct subject *s, struct htw_add add)
{
	const __u64 expired = info_of(s).expired;
	__u64 id = started(s, add);

	if (!id || !pass(s, s->manual ? s->tick : 0))
		return 0;
	for (int i = 0; i < FOREVER_MS && info_of(s).expired == expired; i++)
		usleep(1000);
	return info_of(s).expired > expired ? id : 0;
}

static struct subject open_subject(void)
{
	struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct subject s = { .fd = open(device, O_RDWR | O_CLOEXEC | O_NONBLOCK) };
	struct htw_query query;
	__u64 id;

	if (s.fd < 0) {
		fprintf(stderr, "%s: %s\n", device, strerror(errno));
		exit(1);
	}
	if (has(HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL))
		s.manual = !call_fd(s.fd, HTW_SETUP, &setup);
	s.tick = info_of(&s).tick_ns;
	if (!s.manual)
		return s;
	/* Where a manual clock begins is nowhere said. */
	id = start(&s, 0);
	query = query_of(&s, id);
	s.now = query.deadline - HOUR;
	stop(&s, id, 0);
	return s;
}

/* With a timer that is to stay as it is. */
static struct subject open_witnessed(void)
{
	struct subject s = open_subject();

	s.witness = started(&s, (struct htw_add){
		.deadline = 1000 * HOUR, .interval = HOUR, .cookie = ~COOKIE,
	});
	return s;
}

static void close_subject(struct subject *s)
{
	end();
	close(s->fd);
}

#endif /* SUBJECT_H */
