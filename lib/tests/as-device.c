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

static int set_up(int fd, const struct htw_setup_args *setup)
{
	static const struct htw_setup_args nothing;
	struct htw *htw;
	int ret;

	if (files[fd].settled)
		return -EBUSY;
	ret = htw_open(&htw, HTW_BACKEND_PROCESS, setup);
	if (ret)
		return ret;
	htw_close(files[fd].htw);
	files[fd].htw = htw;
	files[fd].settled = memcmp(setup, &nothing, sizeof(nothing)) != 0;
	return dup2(htw_fd(htw), fd) < 0 ? -errno : 0;
}

/* One operation of a vector, by the single call. */
static int operate(struct htw *htw, const struct htw_vector_args *v, uint64_t *id,
		   uint64_t deadline, uint64_t cookie)
{
	struct htw_cancel_args cancel = { .id = *id, .flags = v->flags };
	struct htw_mod_args mod = {
		.id = *id, .deadline = deadline, .interval = v->interval, .slack = v->slack,
		.cookie = cookie, .flags = v->flags, .firings = v->firings,
	};
	struct htw_add_args add = {
		.deadline = deadline, .interval = v->interval, .slack = v->slack,
		.cookie = cookie, .flags = v->flags, .firings = v->firings,
	};
	int ret;

	switch (v->op) {
	case HTW_OP_ADD:
		ret = htw_add(htw, &add);
		if (!ret)
			*id = add.id;
		return ret;
	case HTW_OP_CANCEL:
		return htw_cancel(htw, &cancel);
	case HTW_OP_MOD:
		return htw_mod(htw, &mod);
	default:
		return -EINVAL;
	}
}

static int vector(struct htw *htw, struct htw_vector_args *v)
{
	const uint64_t *const deadlines = (const uint64_t *)(uintptr_t)v->deadlines;
	const uint64_t *const cookies = (const uint64_t *)(uintptr_t)v->cookies;
	uint64_t *const ids = (uint64_t *)(uintptr_t)v->ids;
	int ret;

	v->failed = 0;
	for (v->done = 0; v->done < v->count; v->done++) {
		ret = operate(htw, v, &ids[v->done], deadlines ? deadlines[v->done] : 0,
			      cookies ? cookies[v->done] : 0);
		if (ret) {
			ids[v->done] = ret;
			v->failed++;
		}
	}
	return 0;
}

static int list(struct htw *htw, struct htw_list_args *l, int harvest)
{
	struct htw_timer_info *const entries = (struct htw_timer_info *)(uintptr_t)l->entries;
	uint64_t cursor = l->cursor;
	int ret;

	if ((harvest && l->flags) || l->reserved)
		return -EINVAL;
	do {
		if (harvest)
			ret = htw_harvest(htw, &cursor, entries, l->count);
		else
			ret = htw_list_in(htw, l->flags, &cursor, entries, l->count);
	} while (ret == -EAGAIN);
	if (ret < 0)
		return ret;
	l->cursor = cursor;
	l->done = ret;
	return 0;
}

static int cancel_all(struct htw *htw, struct htw_cancel_all_args *all)
{
	int64_t ret;

	if (all->flags || all->reserved)
		return -EINVAL;
	ret = htw_cancel_all(htw);
	if (ret < 0)
		return ret;
	all->count = ret;
	return 0;
}

static int advance(struct htw *htw, struct htw_advance_args *a)
{
	int ret;

	ret = htw_advance(htw, a->ns, a->flags);
	if (ret < 0)
		return ret;
	a->due = ret;
	return 0;
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
	case HTW_VECTOR:
		files[fd].settled = 1;
		return vector(htw, arg);
	case HTW_CANCEL_ALL:
		return cancel_all(htw, arg);
	case HTW_LIST:
		return list(htw, arg, 0);
	case HTW_HARVEST:
		return list(htw, arg, 1);
	case HTW_ADVANCE:
		return advance(htw, arg);
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
