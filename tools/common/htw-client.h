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

/* Operations in each HTW_VECTOR of the functions below. */
#define HTW_CLIENT_MANY		256U

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
static inline struct htw_info_args htw_info(int fd)
{
	struct htw_info_args info;

	memset(&info, 0xff, sizeof(info));
	if (ioctl(fd, HTW_INFO, &info))
		memset(&info, 0xff, sizeof(info));
	return info;
}

static inline __u64 htw_timers(int fd)
{
	return htw_info(fd).timers;
}

static inline struct htw_add_args htw_abs(__u64 deadline, __u64 cookie)
{
	return (struct htw_add_args){
		.id = POISON,
		.deadline = deadline,
		.cookie = cookie,
		.flags = HTW_F_ABS,
	};
}

static inline struct htw_add_args htw_rel(__u64 ns, __u64 cookie)
{
	struct htw_add_args add = htw_abs(ns, cookie);

	add.flags = 0;
	return add;
}

/* The id, or zero, which is never a valid id. */
static inline __u64 htw_start_as(int fd, struct htw_add_args add)
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

static inline struct htw_cancel_args htw_cancel_of(__u64 id)
{
	return (struct htw_cancel_args){
		.id = id,
		.remaining = POISON,
		.cookie = POISON,
		.missed = POISON,
		.state = POISON32,
	};
}

static inline int htw_stop(int fd, __u64 id)
{
	struct htw_cancel_args cancel = htw_cancel_of(id);

	return htw_call(fd, HTW_CANCEL, &cancel);
}

static inline int htw_set_up(int fd, struct htw_setup_args setup)
{
	return htw_call(fd, HTW_SETUP, &setup);
}

static inline int htw_setup_clock(int fd, int clock)
{
	return htw_set_up(fd, (struct htw_setup_args){ .flags = HTW_SETUP_CLOCK, .clock = clock });
}

/* Return whether a timer is due, or a negative errno. */
static inline int htw_advance(int fd, __u64 ns, __u32 flags)
{
	struct htw_advance_args advance = { .ns = ns, .flags = flags, .due = POISON32 };
	int ret = htw_call(fd, HTW_ADVANCE, &advance);

	return ret ? ret : (int)advance.due;
}

/* State is zero, which no timer has, if the id is unknown. */
static inline struct htw_timer_info htw_query(int fd, __u64 id)
{
	struct htw_timer_info query = { .id = id };

	if (htw_call(fd, HTW_QUERY, &query))
		query.state = 0;
	return query;
}

static inline int htw_mod(int fd, struct htw_mod_args mod)
{
	return htw_call(fd, HTW_MOD, &mod);
}

static inline int htw_move(int fd, __u64 id, __u64 deadline, __u32 flags)
{
	return htw_mod(fd, (struct htw_mod_args){
		.id = id, .deadline = deadline, .flags = HTW_MOD_DEADLINE | flags,
	});
}

static inline struct htw_list_args htw_list_of(const struct htw_timer_info *entries, __u32 count)
{
	return (struct htw_list_args){
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

/* A vector of additions; the ids go to @ids. */
static inline struct htw_vector_args htw_vector_add(__u64 *ids, const __u64 *deadlines,
						    const __u64 *cookies, __u32 count)
{
	return (struct htw_vector_args){
		.ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
		.cookies = (uintptr_t)cookies,
		.count = count,
		.done = POISON32,
		.failed = POISON32,
		.op = HTW_OP_ADD,
	};
}

static inline struct htw_vector_args htw_vector_cancel(__u64 *ids, __u32 count)
{
	struct htw_vector_args vector = htw_vector_add(ids, NULL, NULL, count);

	vector.op = HTW_OP_CANCEL;
	return vector;
}

/* Do all of a vector; continue if a signal interrupts it. */
static inline int htw_vector_all(int fd, struct htw_vector_args v)
{
	__u32 left = v.count;
	int ret;

	while (left) {
		v.count = left;
		ret = htw_call(fd, HTW_VECTOR, &v);
		if (ret == -EINTR)
			continue;
		if (ret)
			return ret;
		if (!v.done || v.done > left)
			return -EIO;
		left -= v.done;
		v.ids += v.done * sizeof(__u64);
		v.deadlines += v.deadlines ? v.done * sizeof(__u64) : 0;
		v.cookies += v.cookies ? v.done * sizeof(__u64) : 0;
	}
	return 0;
}

/*
 * Start @count timers at @deadline in vectors; cookies count up from @cookie,
 * ids go to @ids unless that is NULL. Return the number started before the
 * first failure.
 */
static inline __u64 htw_start_many(int fd, __u64 deadline, __u64 cookie,
				   __u64 count, __u64 *ids)
{
	__u64 deadlines[HTW_CLIENT_MANY], cookies[HTW_CLIENT_MANY], new_ids[HTW_CLIENT_MANY];
	__u64 started = 0;
	unsigned int i, n;

	while (started < count) {
		struct htw_vector_args v;

		n = count - started < HTW_CLIENT_MANY ? count - started : HTW_CLIENT_MANY;
		for (i = 0; i < n; i++) {
			deadlines[i] = deadline;
			cookies[i] = cookie + started + i;
		}
		v = htw_vector_add(new_ids, deadlines, cookies, n);
		v.flags = HTW_F_ABS;
		if (htw_vector_all(fd, v))
			return started;
		for (i = 0; i < n; i++) {
			if (HTW_ID_IS_ERROR(new_ids[i]))
				return started;
			if (ids)
				ids[started] = new_ids[i];
			started++;
		}
	}
	return started;
}

/* Stop all @ids; return how many there were. */
static inline __u64 htw_stop_many(int fd, const __u64 *ids, __u64 count)
{
	__u64 some[HTW_CLIENT_MANY], stopped = 0, at = 0;
	unsigned int i, n;

	while (at < count) {
		n = count - at < HTW_CLIENT_MANY ? count - at : HTW_CLIENT_MANY;
		memcpy(some, ids + at, n * sizeof(*some));
		if (htw_vector_all(fd, htw_vector_cancel(some, n)))
			break;
		for (i = 0; i < n; i++)
			stopped += !HTW_ID_IS_ERROR(some[i]);
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
