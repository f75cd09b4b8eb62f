// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run the device tests without a device, on timers in the process
 *
 * The linker redirects open(), ioctl(), read() and so on to this file (--wrap),
 * so the tests that define what the device does also check libhtw's process
 * backend. tools/lib-tests lists those that test more than that.
 */
#include "../libhtw.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS	1024

int __real_open(const char *path, int flags, ...);
int __real_ioctl(int fd, unsigned long command, ...);
int __real_close(int fd);
ssize_t __real_read(int fd, void *buf, size_t size);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
long __real_syscall(long number, ...);

static struct {
	struct htw *htw;
	int wait;	/* not O_NONBLOCK */
	int settled;	/* HTW_SETUP is no longer possible */
} files[FDS];

static struct htw *of(int fd)
{
	return fd >= 0 && fd < FDS ? files[fd].htw : NULL;
}

static int failed(int result)
{
	if (result >= 0)
		return result;
	errno = -result;
	return -1;
}

int __wrap_open(const char *path, int flags, ...)
{
	struct htw *htw;
	va_list args;
	int mode, fd;

	if (strcmp(path, "/dev/htw")) {
		va_start(args, flags);
		mode = va_arg(args, int);
		va_end(args);
		return __real_open(path, flags, mode);
	}
	if (failed(htw_open(&htw, HTW_BACKEND_PROCESS, NULL)))
		return -1;
	/* A descriptor that stays the same if the handle is replaced. */
	fd = fcntl(htw_fd(htw), F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || fd >= FDS) {
		htw_close(htw);
		return -1;
	}
	files[fd].htw = htw;
	files[fd].wait = !(flags & O_NONBLOCK);
	files[fd].settled = 0;
	return fd;
}

int __wrap_close(int fd)
{
	if (of(fd)) {
		htw_close(files[fd].htw);
		files[fd].htw = NULL;
	}
	return __real_close(fd);
}

static int set_up(int fd, const struct htw_setup *setup)
{
	struct htw *htw;
	int ret;

	ret = htw_open(&htw, HTW_BACKEND_PROCESS, setup);
	if (ret)
		return ret;
	if (files[fd].settled || !setup->flags) {
		htw_close(htw);
		return setup->flags ? -EBUSY : 0;
	}
	htw_close(files[fd].htw);
	files[fd].htw = htw;
	files[fd].settled = 1;
	return dup2(htw_fd(htw), fd) < 0 ? -errno : 0;
}

static int batch(struct htw *htw, struct htw_batch *b)
{
	int ret;

	if (b->flags || b->reserved0 || b->reserved)
		return -EINVAL;
	ret = htw_batch(htw, (struct htw_op *)(uintptr_t)b->ops, b->count);
	b->done = b->count;
	return ret < 0 ? ret : 0;
}

/* Leave out what is due: in the process it is pending as well. */
static int without_due(struct htw_query *entries, int count)
{
	int i, left = 0;

	for (i = 0; i < count; i++)
		if (entries[i].state != HTW_STATE_EXPIRED)
			entries[left++] = entries[i];
	return left;
}

static int list_in(struct htw *htw, unsigned int states, uint64_t *cursor,
		   struct htw_query *entries, unsigned int count)
{
	int ret, got;

	do {
		ret = htw_list_in(htw, states, cursor, entries, count);
		got = ret > 0 && !(states & HTW_LIST_EXPIRED) ? without_due(entries, ret) : ret;
	} while (ret == -EAGAIN || (ret && !got));
	return got;
}

static int list(struct htw *htw, struct htw_list *l, int harvest)
{
	struct htw_query *const entries = (struct htw_query *)(uintptr_t)l->entries;
	uint64_t cursor = l->cursor;
	int ret;

	if ((harvest && l->flags) || l->reserved0 || l->reserved[0] || l->reserved[1])
		return -EINVAL;
	if (harvest)
		ret = htw_harvest(htw, &cursor, entries, l->count);
	else
		ret = list_in(htw, l->flags ? l->flags : HTW_LIST_PENDING, &cursor, entries,
			      l->count);
	if (ret < 0)
		return ret;
	l->cursor = cursor;
	l->done = ret;
	return 0;
}

static int cancel_all(struct htw *htw, struct htw_cancel_all *all)
{
	int64_t ret;

	if (all->reserved0 || all->reserved[0] || all->reserved[1])
		return -EINVAL;
	ret = htw_cancel_all(htw, all->flags);
	if (ret < 0)
		return ret;
	all->count = ret;
	return 0;
}

/* How many timers in these states there are, and the earliest one of them. */
static unsigned int count_in(struct htw *htw, unsigned int states, struct htw_query *first)
{
	struct htw_query entry;
	unsigned int count = 0;
	uint64_t cursor = 0;

	while (list_in(htw, states, &cursor, &entry, 1) > 0) {
		if (first && (!count || entry.deadline < first->deadline))
			*first = entry;
		count++;
	}
	return count;
}

static int advance(struct htw *htw, struct htw_advance *a)
{
	const unsigned int before = count_in(htw, HTW_LIST_EXPIRED, NULL);
	int64_t ret;

	if (a->reserved0 || a->reserved)
		return -EINVAL;
	ret = htw_advance(htw, a->ns, a->flags);
	if (ret < 0)
		return ret;
	a->expired = count_in(htw, HTW_LIST_EXPIRED, NULL) - before;
	return 0;
}

static int next(struct htw *htw, struct htw_next *n)
{
	if (n->flags || n->reserved0 || n->reserved)
		return -EINVAL;
	return count_in(htw, HTW_LIST_PENDING, &n->timer) ? 0 : -ENOENT;
}

static int command(int fd, unsigned long number, void *arg)
{
	struct htw *htw = files[fd].htw;
	int ret;

	switch (number) {
	case HTW_SETUP:
		return set_up(fd, arg);
	case HTW_INFO:
		return htw_info(htw, arg);
	case HTW_ADD:
		ret = htw_add(htw, arg);
		files[fd].settled |= !ret;
		return ret;
	case HTW_CANCEL:
		return htw_cancel(htw, arg);
	case HTW_MOD:
		return htw_mod(htw, arg);
	case HTW_QUERY:
		return htw_query(htw, arg);
	case HTW_BATCH:
		files[fd].settled = 1;
		return batch(htw, arg);
	case HTW_CANCEL_ALL:
		return cancel_all(htw, arg);
	case HTW_LIST:
		return list(htw, arg, 0);
	case HTW_HARVEST:
		return list(htw, arg, 1);
	case HTW_ADVANCE:
		return advance(htw, arg);
	case HTW_NEXT:
		return next(htw, arg);
	case HTW_FLUSH:
		return -ENXIO;
	default:
		return -ENOTTY;
	}
}

int __wrap_ioctl(int fd, unsigned long number, ...)
{
	va_list args;
	void *arg;

	va_start(args, number);
	arg = va_arg(args, void *);
	va_end(args);
	return of(fd) ? failed(command(fd, number, arg)) : __real_ioctl(fd, number, arg);
}

/* Read until there is nothing more, or no more room: a read may end where a bucket is long. */
static int read_all(struct htw *htw, struct htw_event *events, int room)
{
	int total = 0, n = 0;
	uint64_t when;

	do {
		n = htw_read(htw, events + total, room - total);
		total += n > 0 ? n : 0;
	} while (n >= 0 && total < room && !htw_next_time(htw, &when) && when <= htw_now(htw));
	return total ? total : n;
}

static long read_events(int fd, void *buf, size_t size)
{
	int n;

	if (size < sizeof(struct htw_event))
		return failed(-EINVAL);
	do {
		n = read_all(files[fd].htw, buf, size / sizeof(struct htw_event));
	} while (!n && files[fd].wait && htw_wait(files[fd].htw, -1) > 0);
	return n > 0 ? n * (long)sizeof(struct htw_event) : failed(n ? n : -EAGAIN);
}

long __wrap_syscall(long number, ...)
{
	long arg[6];
	va_list args;
	int i;

	va_start(args, number);
	for (i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_read && of(arg[0]))
		return read_events(arg[0], (void *)arg[1], arg[2]);
	return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

ssize_t __wrap_read(int fd, void *buf, size_t size)
{
	return of(fd) ? read_events(fd, buf, size) : __real_read(fd, buf, size);
}

/* Let due timers expire while waiting, as they do on the device. */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	int64_t ns = timeout < 0 ? -1 : timeout * 1000000LL;
	int ret;

	/* The library's descriptor differs from the program's. */
	if (count != 1 || !of(fds->fd))
		return __real_poll(fds, count, timeout);
	ret = htw_wait(files[fds->fd].htw, ns);
	fds->revents = ret > 0 ? POLLIN & fds->events : 0;
	return failed(ret);
}
