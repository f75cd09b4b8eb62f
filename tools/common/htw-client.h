/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A client of /dev/htw: wrapped system calls
 *
 * Calls return a negative errno, as in the kernel, so that one comparison
 * checks failure and reason. Output fields are poisoned before each call.
 */
#ifndef COMMON_HTW_CLIENT_H
#define COMMON_HTW_CLIENT_H

#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define HTW_DEVICE	"/dev/htw"

#define POISON		0xa5a5a5a5a5a5a5a5ULL
#define POISON32	0xa5a5a5a5U

/* Operations in each HTW_BATCH of the functions below. */
#define HTW_CLIENT_BATCH	256U

static inline int htw_call(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

static inline int htw_open(int flags)
{
	return open(HTW_DEVICE, O_RDWR | O_CLOEXEC | flags);
}

/* All bytes are 0xff if the call fails. */
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

/* The id, or zero, which is never a valid id. */
static inline __u64 htw_start_as(int fd, struct htw_add add)
{
	return htw_call(fd, HTW_ADD, &add) ? 0 : add.id;
}

static inline __u64 htw_start(int fd, __u64 ns, __u64 cookie)
{
	return htw_start_as(fd, htw_rel(ns, cookie));
}

static inline __u64 htw_start_abs(int fd, __u64 deadline, __u64 cookie)
{
	return htw_start_as(fd, htw_abs(deadline, cookie));
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

static inline int htw_stop_flags(int fd, __u64 id, __u32 flags)
{
	struct htw_cancel cancel = htw_cancel_of(id, flags);

	return htw_call(fd, HTW_CANCEL, &cancel);
}

static inline int htw_stop(int fd, __u64 id)
{
	return htw_stop_flags(fd, id, 0);
}

static inline int htw_set_up(int fd, struct htw_setup setup)
{
	return htw_call(fd, HTW_SETUP, &setup);
}

static inline int htw_setup_clock(int fd, int clock)
{
	return htw_set_up(fd, (struct htw_setup){ .flags = HTW_SETUP_CLOCK, .clock = clock });
}

/* Return how many timers expired, or a negative errno. */
static inline long long htw_advance(int fd, __u64 ns, __u32 flags)
{
	struct htw_advance advance = { .ns = ns, .expired = POISON, .flags = flags };
	int ret = htw_call(fd, HTW_ADVANCE, &advance);

	return ret ? ret : (long long)advance.expired;
}

/* State is zero, which no timer has, if the id is unknown. */
static inline struct htw_query htw_query(int fd, __u64 id)
{
	struct htw_query query = { .id = id };

	if (htw_call(fd, HTW_QUERY, &query))
		query.state = 0;
	return query;
}

static inline int htw_mod(int fd, struct htw_mod mod)
{
	return htw_call(fd, HTW_MOD, &mod);
}

static inline int htw_move(int fd, __u64 id, __u64 deadline, __u32 flags)
{
	return htw_mod(fd, (struct htw_mod){
		.id = id, .deadline = deadline, .flags = HTW_MOD_DEADLINE | flags,
	});
}

static inline struct htw_list htw_list_of(const struct htw_query *entries, __u32 count)
{
	return (struct htw_list){
		.entries = (uintptr_t)entries,
		.count = count,
		.done = POISON32,
	};
}

/* The poll events; zero if none came within @timeout_ms. */
static inline int htw_poll(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI };
	int ret = poll(&pfd, 1, timeout_ms);

	return ret < 0 ? -errno : ret ? pfd.revents : 0;
}

/* The number of events read. */
static inline int htw_read(int fd, struct htw_event *ev, size_t room)
{
	ssize_t ret;

	/* Hide the buffer from the compiler, which would warn of the invalid ones. */
	__asm__("" : "+r"(ev));
	ret = read(fd, ev, room * sizeof(*ev));
	if (ret < 0)
		return -errno;
	return ret % sizeof(*ev) ? -EIO : (int)(ret / sizeof(*ev));
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

/* Do all operations; continue if a signal interrupts the batch. */
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
 * Start @count timers at @deadline in batches; cookies count up from @cookie,
 * ids go to @ids unless that is NULL. Return the number started before the
 * first failure.
 */
static inline __u64 htw_start_many(int fd, __u64 deadline, __u64 cookie,
				   __u64 count, __u64 *ids)
{
	struct htw_op ops[HTW_CLIENT_BATCH];
	__u64 started = 0;
	unsigned int i, n;

	while (started < count) {
		n = count - started < HTW_CLIENT_BATCH ? count - started : HTW_CLIENT_BATCH;
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

/* Stop all @ids; return how many were pending. */
static inline __u64 htw_stop_many(int fd, const __u64 *ids, __u64 count)
{
	struct htw_op ops[HTW_CLIENT_BATCH];
	__u64 stopped = 0, at = 0;
	unsigned int i, n;

	while (at < count) {
		n = count - at < HTW_CLIENT_BATCH ? count - at : HTW_CLIENT_BATCH;
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

/*
 * Map @size usable bytes that end at a page with protection @prot. NULL without
 * memory.
 */
static inline void *htw_before_page(size_t size, int prot)
{
	const size_t page = sysconf(_SC_PAGESIZE), len = (size + page - 1) / page * page;
	char *p = mmap(NULL, len + page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED || mprotect(p + len, page, prot))
		return NULL;
	return p + len - size;
}

/* A read-only copy of @src, one page at most. */
static inline void *htw_read_only(const void *src, size_t size)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memcpy(p, src, size);
	return mprotect(p, page, PROT_READ) ? NULL : p;
}

#endif /* COMMON_HTW_CLIENT_H */
