// SPDX-License-Identifier: GPL-2.0-only
#include "calls.h"

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

static bool set_up(struct scene *s, struct htw_setup setup)
{
	return open_context(s) && !htw_set_up(s->fd, setup);
}

static bool set_up_manual(struct scene *s)
{
	return set_up(s, (struct htw_setup){
			.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL,
		}) && htw_start_many(s->fd, SEC, 1, TIMERS, s->ids) == TIMERS;
}

static bool set_up_ring(struct scene *s)
{
	return set_up(s, (struct htw_setup){
			.flags = HTW_SETUP_RING, .ring_entries = RING_ENTRIES,
		});
}

static bool map(struct scene *s, size_t size, __u64 offset)
{
	s->size = (size + 4095) & -4096UL;
	s->mapped = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, offset);
	return s->mapped != MAP_FAILED;
}

/* A ring that is mapped when events are queued. */
static bool queue_for_ring(struct scene *s)
{
	return set_up_ring(s) && htw_start_many(s->fd, 0, 1, TIMERS, s->ids) == TIMERS &&
	       htw_poll(s->fd, 10000) == POLLIN &&
	       map(s, HTW_RING_SIZE(RING_ENTRIES), HTW_OFF_RING);
}

static bool enable_table(struct scene *s)
{
	return open_context(s) && map(s, 4096, HTW_OFF_TABLE);
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

static int setup_private(struct scene *s)
{
	return htw_set_up(s->fd, (struct htw_setup){
		.flags = HTW_SETUP_PRIVATE, .tick_ns = MSEC, .levels = 3, .slots = { 256, 64, 64 },
	});
}

static int setup_manual(struct scene *s)
{
	return htw_setup_clock(s->fd, HTW_CLOCK_MANUAL);
}

static int setup_ring(struct scene *s)
{
	return htw_set_up(s->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING, .ring_entries = 1024,
	});
}

static int setup_all(struct scene *s)
{
	return htw_set_up(s->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING | HTW_SETUP_PRIVATE | HTW_SETUP_CLOCK | HTW_SETUP_LIMIT,
		.clock = CLOCK_BOOTTIME, .ring_entries = 64, .limit = 100,
		.tick_ns = MSEC, .levels = 2, .slots = { 64, 64 },
	});
}

static int info(struct scene *s)
{
	struct htw_info info;

	return htw_call(s->fd, HTW_INFO, &info);
}

static int add(struct scene *s)
{
	struct htw_add add = htw_abs(now_ns() + HOUR, 1);

	return htw_call(s->fd, HTW_ADD, &add);
}

static int add_special(struct scene *s)
{
	struct htw_add add = htw_abs(now_ns() + HOUR, 1);

	add.slack = SEC;
	add.interval = HOUR;
	return htw_call(s->fd, HTW_ADD, &add);
}

static int cancel(struct scene *s)
{
	struct htw_cancel cancel = htw_cancel_of(s->ids[0], 0);

	return htw_call(s->fd, HTW_CANCEL, &cancel);
}

static int mod(struct scene *s)
{
	return htw_move(s->fd, s->ids[0], now_ns() + 2 * HOUR, HTW_F_ABS);
}

static int mod_special(struct scene *s)
{
	struct htw_mod mod = {
		.id = s->ids[0], .deadline = 2 * HOUR, .interval = HOUR, .slack = SEC, .cookie = 2,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL | HTW_MOD_SLACK | HTW_MOD_COOKIE,
	};

	return htw_call(s->fd, HTW_MOD, &mod);
}

/* Move the deadline of a timer whose event is still queued: the event goes. */
static int take_back(struct scene *s)
{
	return htw_move(s->fd, s->ids[0], now_ns() + HOUR, HTW_F_ABS);
}

static int query(struct scene *s)
{
	struct htw_query query = { .id = s->ids[0] };

	return htw_call(s->fd, HTW_QUERY, &query);
}

/* The result of a call that may be done partly: 0 if it was not done as a whole. */
static int batch(struct scene *s, struct htw_op *ops, unsigned int n)
{
	struct htw_batch batch = htw_batch_of(ops, n);
	int ret = htw_call(s->fd, HTW_BATCH, &batch);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < batch.done; i++)
		if (ops[i].result)
			return ops[i].result;
	return batch.done == n ? 0 : -EFAULT;
}

static int batch_add(struct scene *s)
{
	struct htw_op ops[200];

	for (int i = 0; i < 200; i++)
		ops[i] = htw_op_add(now_ns() + HOUR, i);
	return batch(s, ops, 200);
}

static int batch_mixed(struct scene *s)
{
	struct htw_op ops[4] = {
		htw_op_cancel(s->ids[0], 0),
		htw_op_add(now_ns() + HOUR, 1),
		{ .op = HTW_OP_QUERY, .query.id = s->ids[1] },
		{ .op = HTW_OP_MOD, .mod = { .id = s->ids[2], .deadline = HOUR,
					     .flags = HTW_MOD_DEADLINE } },
	};

	return batch(s, ops, 4);
}

static int vector(struct scene *s, struct htw_vector v)
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
	return vector(s, (struct htw_vector){
		.op = HTW_OP_ADD, .count = count, .ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
	});
}

static int vector_add(struct scene *s)
{
	return vector_add_some(s, 600);
}

/* Long enough for htw_pool_alloc_ahead() to allocate pages before they are needed. */
static int vector_add_many(struct scene *s)
{
	return vector_add_some(s, TIMERS_MOST);
}

static int vector_cancel(struct scene *s)
{
	__u64 ids[TIMERS];

	memcpy(ids, s->ids, sizeof(ids));
	return vector(s, (struct htw_vector){
		.op = HTW_OP_CANCEL, .count = TIMERS, .ids = (uintptr_t)ids,
	});
}

static int vector_mod(struct scene *s)
{
	__u64 ids[TIMERS], deadlines[TIMERS];

	memcpy(ids, s->ids, sizeof(ids));
	for (int i = 0; i < TIMERS; i++)
		deadlines[i] = 2 * HOUR;
	return vector(s, (struct htw_vector){
		.op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE, .count = TIMERS,
		.ids = (uintptr_t)ids, .deadlines = (uintptr_t)deadlines,
	});
}

static int cancel_all(struct scene *s)
{
	struct htw_cancel_all all = { 0 };

	return htw_call(s->fd, HTW_CANCEL_ALL, &all);
}

static int list_as(struct scene *s, unsigned long command)
{
	struct htw_query entries[TIMERS];
	struct htw_list list = htw_list_of(entries, TIMERS);
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

static int next(struct scene *s)
{
	struct htw_next next = { 0 };

	return htw_call(s->fd, HTW_NEXT, &next);
}

static int advance(struct scene *s)
{
	struct htw_advance advance = { .ns = 2 * SEC };

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

static int map_ring(struct scene *s)
{
	return map(s, HTW_RING_SIZE(RING_ENTRIES), HTW_OFF_RING) ? 0 : -errno;
}

static int map_table(struct scene *s)
{
	return map(s, 4096, HTW_OFF_TABLE) ? 0 : -errno;
}

static int flush(struct scene *s)
{
	int ret = htw_call(s->fd, HTW_FLUSH, NULL);

	return ret < 0 ? ret : ret == TIMERS ? 0 : -EIO;
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

const struct call calls[] = {
	{ "open", NULL, open_it, 0, UNCHANGED, 3 },
	{ "setup of a clock", open_context, setup_clock, 0, UNCHANGED, 1 },
	{ "setup of a private wheel", open_context, setup_private, 0, UNCHANGED, 2 },
	{ "setup of a manual clock", open_context, setup_manual, 0, UNCHANGED, 2 },
	{ "setup of a ring", open_context, setup_ring, 0, UNCHANGED, 3 },
	{ "setup of all", open_context, setup_all, 0, UNCHANGED, 4 },
	{ "info", open_context, info, 0, UNCHANGED, 1 },
	{ "first add", open_context, add, 1, UNCHANGED, 2 },
	{ "first special add", open_context, add_special, 1, UNCHANGED, 3 },
	{ "add", add_timers, add, TIMERS + 1, UNCHANGED, 0 },
	{ "special add", add_timers, add_special, TIMERS + 1, UNCHANGED, 1 },
	{ "first add with a table", enable_table, add, 1, UNCHANGED, 3 },
	{ "cancel", add_timers, cancel, TIMERS - 1, PARTLY, 2 },
	{ "mod", add_timers, mod, TIMERS, UNCHANGED, 1 },
	{ "special mod", add_timers, mod_special, TIMERS, UNCHANGED, 1 },
	{ "taking back", expire_timers, take_back, TIMERS, UNCHANGED, 1 },
	{ "query", add_timers, query, TIMERS, UNCHANGED, 2 },
	{ "batch of adds", open_context, batch_add, 200, PARTLY, 5 },
	{ "mixed batch", add_timers, batch_mixed, TIMERS, PARTLY, 3 },
	{ "vector of adds", open_context, vector_add, 600, PARTLY, 5 },
	{ "vector of many adds", open_context, vector_add_many, TIMERS_MOST, PARTLY, 100 },
	{ "vector of cancels", add_timers, vector_cancel, 0, PARTLY, 2 },
	{ "vector of mods", add_timers, vector_mod, TIMERS, PARTLY, 3 },
	{ "cancel all", add_timers, cancel_all, 0, PARTLY, 1 },
	{ "list", add_timers, list, TIMERS, UNCHANGED, 4 },
	{ "harvest", add_timers, harvest, 0, PARTLY, 2 },
	{ "next", add_timers, next, TIMERS, UNCHANGED, 2 },
	{ "advance", set_up_manual, advance, TIMERS, PARTLY, 1 },
	{ "read", expire_timers, read_all, 0, PARTLY, 1 },
	{ "readv", expire_timers, readv_all, 0, PARTLY, 2 },
	{ "mmap of the ring", set_up_ring, map_ring, 0, UNCHANGED, 1 },
	{ "mmap of the table", add_timers, map_table, TIMERS, UNCHANGED, 2 },
	{ "flush", queue_for_ring, flush, 0, UNCHANGED, 0 },
	{ "O_ASYNC", add_timers, async, TIMERS, UNCHANGED, 1 },
	{ "poll", expire_timers, poll_it, TIMERS, UNCHANGED, 1 },
	{ "epoll", add_timers, epoll, TIMERS, UNCHANGED, 2 },
	{ "fdinfo", add_timers, fdinfo, TIMERS, UNCHANGED, 1 },
	/* One of the faults is that of an allocation for each CPU. */
	{ "open by a new user", become_new_user, open_it, 0, UNCHANGED, 11 },
};

const unsigned int nr_calls = sizeof(calls) / sizeof(*calls);
