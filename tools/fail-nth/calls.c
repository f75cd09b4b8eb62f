// SPDX-License-Identifier: GPL-2.0-only
#include "calls.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"

#define HOUR		(3600 * SEC)

static bool open_context(struct scene *s)
{
	s->fd = htw_open(O_NONBLOCK);
	return s->fd >= 0;
}

static bool add_timers(struct scene *s)
{
	return open_context(s) &&
	       htw_start_many(s->fd, now_ns() + HOUR, 1, TIMERS, s->ids) == TIMERS;
}

static bool expire_timers(struct scene *s)
{
	return open_context(s) && htw_start_many(s->fd, 0, 1, TIMERS, s->ids) == TIMERS &&
	       htw_poll(s->fd, 10000) == POLLIN;
}

static bool set_up(struct scene *s, struct htw_setup_args setup)
{
	return open_context(s) && !htw_set_up(s->fd, setup);
}

static bool set_up_manual(struct scene *s)
{
	return set_up(s, (struct htw_setup_args){
			.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL,
		}) && htw_start_many(s->fd, SEC, 1, TIMERS, s->ids) == TIMERS;
}

static bool run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* So many timers that another CPU is to have a base of its own. */
static bool fill_pages(struct scene *s)
{
	return run_on(0) && open_context(s) &&
	       htw_start_many(s->fd, now_ns() + HOUR, 1, TIMERS_SOME, NULL) == TIMERS_SOME;
}

/* Change only the real uid: the effective one keeps root's capabilities. */
static bool become_new_user(struct scene *s)
{
	static uid_t uid = 1000;

	s->fd = -1;
	return !setresuid(uid++, 0, 0);
}

static int open_it(struct scene *s)
{
	s->fd = htw_open(O_NONBLOCK);
	return s->fd < 0 ? -errno : 0;
}

static int setup_clock(struct scene *s)
{
	return htw_setup_clock(s->fd, CLOCK_REALTIME);
}

static int setup_wheel(struct scene *s)
{
	return htw_set_up(s->fd, (struct htw_setup_args){
		.tick_ns = MSEC, .levels = 3, .slots = { 256, 64, 64 },
	});
}

static int setup_manual(struct scene *s)
{
	return htw_setup_clock(s->fd, HTW_CLOCK_MANUAL);
}

static int setup_all(struct scene *s)
{
	return htw_set_up(s->fd, (struct htw_setup_args){
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_ORDERED, .clock = CLOCK_BOOTTIME, .limit = 100,
		.tick_ns = MSEC, .levels = 2, .slots = { 64, 64 },
	});
}

static int info(struct scene *s)
{
	struct htw_info_args info;

	return htw_call(s->fd, HTW_INFO, &info);
}

static int add(struct scene *s)
{
	struct htw_add_args add = htw_abs(now_ns() + HOUR, 1);

	return htw_call(s->fd, HTW_ADD, &add);
}

static int add_special(struct scene *s)
{
	struct htw_add_args add = htw_abs(now_ns() + HOUR, 1);

	add.slack = SEC;
	add.interval = HOUR;
	return htw_call(s->fd, HTW_ADD, &add);
}

/* On a CPU that has no base: if it cannot have one, the timer goes to another one's. */
static int add_elsewhere(struct scene *s)
{
	int ret;

	if (!run_on(1))
		return -errno;
	ret = add(s);
	/* The fault may come here. */
	return run_on(0) || run_on(0) ? ret : -errno;
}

static int cancel(struct scene *s)
{
	struct htw_cancel_args cancel = htw_cancel_of(s->ids[0]);

	return htw_call(s->fd, HTW_CANCEL, &cancel);
}

static int mod(struct scene *s)
{
	return htw_move(s->fd, s->ids[0], now_ns() + 2 * HOUR, HTW_F_ABS);
}

static int mod_special(struct scene *s)
{
	struct htw_mod_args mod = {
		.id = s->ids[0], .deadline = 2 * HOUR, .interval = HOUR, .slack = SEC, .cookie = 2,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_SLACK | HTW_MOD_COOKIE,
	};

	return htw_call(s->fd, HTW_MOD, &mod);
}

/* Put off a timer that is due. */
static int put_off(struct scene *s)
{
	return htw_move(s->fd, s->ids[0], now_ns() + HOUR, HTW_F_ABS);
}

static int query(struct scene *s)
{
	struct htw_timer_info query = { .id = s->ids[0] };

	return htw_call(s->fd, HTW_QUERY, &query);
}

/* The result of a call that may be done partly: an error if it was not done as a whole. */
static int vector(struct scene *s, struct htw_vector_args v)
{
	__u64 *ids = (__u64 *)(uintptr_t)v.ids;
	int ret = htw_call(s->fd, HTW_VECTOR, &v);

	if (ret)
		return ret;
	for (__u32 i = 0; v.failed && i < v.done; i++)
		if (HTW_ID_IS_ERROR(ids[i]))
			return HTW_ID_ERROR(ids[i]);
	return v.done == v.count ? 0 : -EFAULT;
}

static int vector_add_some(struct scene *s, __u32 count)
{
	static __u64 ids[TIMERS_MOST], deadlines[TIMERS_MOST];

	for (__u32 i = 0; i < count; i++)
		deadlines[i] = HOUR + i;
	return vector(s, (struct htw_vector_args){
		.op = HTW_OP_ADD, .count = count, .ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
	});
}

static int vector_add(struct scene *s)
{
	return vector_add_some(s, 600);
}

/* So many that pages are allocated several at a time. */
static int vector_add_many(struct scene *s)
{
	return vector_add_some(s, TIMERS_MOST);
}

static int vector_cancel(struct scene *s)
{
	__u64 ids[TIMERS];

	memcpy(ids, s->ids, sizeof(ids));
	return vector(s, (struct htw_vector_args){
		.op = HTW_OP_CANCEL, .count = TIMERS, .ids = (uintptr_t)ids,
	});
}

static int vector_mod(struct scene *s)
{
	__u64 ids[TIMERS], deadlines[TIMERS];

	memcpy(ids, s->ids, sizeof(ids));
	for (int i = 0; i < TIMERS; i++)
		deadlines[i] = 2 * HOUR;
	return vector(s, (struct htw_vector_args){
		.op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE, .count = TIMERS,
		.ids = (uintptr_t)ids, .deadlines = (uintptr_t)deadlines,
	});
}

static int cancel_all(struct scene *s)
{
	struct htw_cancel_all_args all = { 0 };

	return htw_call(s->fd, HTW_CANCEL_ALL, &all);
}

static int list_as(struct scene *s, unsigned long command)
{
	struct htw_timer_info entries[TIMERS];
	struct htw_list_args list = htw_list_of(entries, TIMERS);
	int ret = htw_call(s->fd, command, &list);

	return ret ? ret : list.done == TIMERS ? 0 : -EFAULT;
}

static int list(struct scene *s)
{
	return list_as(s, HTW_LIST);
}

static int harvest(struct scene *s)
{
	return list_as(s, HTW_HARVEST);
}

static int advance(struct scene *s)
{
	struct htw_advance_args advance = { .ns = 2 * SEC };

	return htw_call(s->fd, HTW_ADVANCE, &advance);
}

static int read_all(struct scene *s)
{
	struct htw_event ev[TIMERS];
	int n = htw_read(s->fd, ev, TIMERS);

	return n < 0 ? n : n == TIMERS ? 0 : -EFAULT;
}

static int readv_all(struct scene *s)
{
	struct htw_event ev[TIMERS];
	struct iovec parts[TIMERS];
	ssize_t n;

	for (int i = 0; i < TIMERS; i++)
		parts[i] = (struct iovec){ &ev[i], sizeof(ev[i]) };
	n = readv(s->fd, parts, TIMERS);
	return n < 0 ? -errno : n == sizeof(ev) ? 0 : -EFAULT;
}

static int async(struct scene *s)
{
	return fcntl(s->fd, F_SETFL, O_NONBLOCK | O_ASYNC) ? -errno : 0;
}

static int epoll(struct scene *s)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (s->other < 0)
		s->other = epoll_create1(EPOLL_CLOEXEC);
	return s->other < 0 || epoll_ctl(s->other, EPOLL_CTL_ADD, s->fd, &event) ? -errno : 0;
}

static int fdinfo(struct scene *s)
{
	char path[64], buf[1024];
	int fd, ret;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", s->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = read(fd, buf, sizeof(buf)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static int poll_it(struct scene *s)
{
	struct pollfd pfd = { .fd = s->fd, .events = POLLIN };
	int n = poll(&pfd, 1, 0);

	return n < 0 ? -errno : n == 1 ? 0 : -EIO;
}

/* What a call gets field by field meets no fault. */
const struct call calls[] = {
	{ "open", NULL, open_it, 0, UNCHANGED, 3 },
	{ "setup of a clock", open_context, setup_clock, 0, UNCHANGED, 1 },
	{ "setup of a wheel", open_context, setup_wheel, 0, UNCHANGED, 1 },
	{ "setup of a manual clock", open_context, setup_manual, 0, UNCHANGED, 1 },
	{ "setup of all", open_context, setup_all, 0, UNCHANGED, 1 },
	{ "info", open_context, info, 0, UNCHANGED, 1 },
	{ "first add", open_context, add, 1, UNCHANGED, 2 },
	{ "first special add", open_context, add_special, 1, UNCHANGED, 3 },
	{ "add", add_timers, add, TIMERS + 1, UNCHANGED, 0 },
	{ "special add", add_timers, add_special, TIMERS + 1, UNCHANGED, 0 },
	{ "add on another CPU", fill_pages, add_elsewhere, TIMERS_SOME + 1, UNCHANGED, 3 },
	{ "cancel", add_timers, cancel, TIMERS - 1, PARTLY, 0 },
	{ "mod", add_timers, mod, TIMERS, UNCHANGED, 0 },
	{ "special mod", add_timers, mod_special, TIMERS, UNCHANGED, 0 },
	{ "putting off", expire_timers, put_off, TIMERS, UNCHANGED, 0 },
	{ "query", add_timers, query, TIMERS, UNCHANGED, 1 },
	{ "vector of adds", open_context, vector_add, 600, PARTLY, 5 },
	{ "vector of many adds", open_context, vector_add_many, TIMERS_MOST, PARTLY, 100 },
	{ "vector of cancels", add_timers, vector_cancel, 0, PARTLY, 2 },
	{ "vector of mods", add_timers, vector_mod, TIMERS, PARTLY, 3 },
	{ "cancel all", add_timers, cancel_all, 0, PARTLY, 1 },
	{ "list", add_timers, list, TIMERS, UNCHANGED, 2 },
	{ "harvest", add_timers, harvest, 0, PARTLY, 2 },
	{ "advance", set_up_manual, advance, TIMERS, PARTLY, 1 },
	{ "read", expire_timers, read_all, 0, PARTLY, 1 },
	{ "readv", expire_timers, readv_all, 0, PARTLY, 2 },
	{ "O_ASYNC", add_timers, async, TIMERS, UNCHANGED, 1 },
	{ "poll", expire_timers, poll_it, TIMERS, UNCHANGED, 1 },
	{ "epoll", add_timers, epoll, TIMERS, UNCHANGED, 2 },
	{ "fdinfo", add_timers, fdinfo, TIMERS, UNCHANGED, 1 },
	/* One of the faults is that of an allocation for each CPU. */
	{ "open by a new user", become_new_user, open_it, 0, UNCHANGED, 11 },
};

const unsigned int nr_calls = sizeof(calls) / sizeof(*calls);
