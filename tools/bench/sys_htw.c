// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw through its calls: one ioctl and one read() for each timer (htw),
 * HTW_VECTOR (htw-vector)
 */
#include <sys/epoll.h>
#include "bench.h"
#include "htw.h"

static int fd, epfd;

int htw_vector_fd(void)
{
	return fd;
}

static void open_context(struct bench *b)
{
	fd = htw_open_device(b->pending);
	epfd = htw_epoll(fd);
}

static void close_device(struct bench *b)
{
	(void)b;
	close(epfd);
	close(fd);
}

/* 200,000 system calls give as good a mean as millions. */
static uint32_t bound_one(enum op_code op, uint32_t pending)
{
	(void)op;
	return pending > 1000000 ? 200000 : 0;
}

static void add_one(struct bench *b)
{
	uint32_t i;
	int ret;

	for (i = 0; i < b->pending; i++) {
		struct htw_add_args add = {
			.deadline = b->delay[i],
			.cookie = i,
		};

		ret = htw_call(fd, HTW_ADD, &add);
		if (unlikely(ret || !add.id))
			die("HTW_ADD number %u: %s", i, strerror(-ret));
		b->handles[i] = add.id;
	}
}

static void rearm_one(struct bench *b, uint32_t count)
{
	uint32_t k;
	int ret;

	for (k = 0; k < count; k++) {
		struct htw_mod_args mod = {
			.id = b->handles[b->rearm_order[k]],
			.deadline = b->later[k],
			.flags = HTW_MOD_DEADLINE,
		};

		ret = htw_call(fd, HTW_MOD, &mod);
		if (unlikely(ret))
			die("HTW_MOD number %u: %s", k, strerror(-ret));
	}
}

static void cancel_one(struct bench *b, uint32_t count)
{
	uint32_t k;
	int ret;

	for (k = 0; k < count; k++) {
		struct htw_cancel_args cancel = { .id = b->handles[b->cancel_order[k]] };

		ret = htw_call(fd, HTW_CANCEL, &cancel);
		if (unlikely(ret || cancel.cookie != b->cancel_order[k]))
			die("HTW_CANCEL number %u: %s", k, strerror(-ret));
	}
}

/* Read up to @most events at a time until none are left. */
static void collect(struct bench *b, uint32_t most)
{
	struct htw_event events[BATCH];
	struct epoll_event ready;
	uint64_t now;
	int n, i;

	if (epoll_wait(epfd, &ready, 1, 0) != 1)
		return;
	for (;;) {
		n = htw_read(fd, events, most);
		if (n == -EAGAIN)
			return;
		if (n < 0)
			die("htw: read: %s", strerror(-n));
		now = now_ns();
		for (i = 0; i < n; i++)
			htw_take(b, &events[i], now);
		/* A short read was the last one: epoll is level-triggered. */
		if (n < (int)most)
			return;
	}
}

static void collect_one(struct bench *b)
{
	collect(b, 1);
}

static void vector_add(struct bench *b)
{
	htw_many_add(fd, b);
}

static void vector_rearm(struct bench *b, uint32_t count)
{
	htw_many_rearm(fd, b, count);
}

static void vector_cancel(struct bench *b, uint32_t count)
{
	htw_many_cancel(fd, b, count);
}

static void collect_many(struct bench *b)
{
	collect(b, BATCH);
}

const struct system system_htw = {
	.name = "htw",
	.missing = htw_missing,
	.bound = bound_one,
	.open = open_context,
	.add = add_one,
	.rearm = rearm_one,
	.cancel = cancel_one,
	.collect = collect_one,
	.close = close_device,
};

const struct system system_htw_vector = {
	.name = "htw-vector",
	.missing = htw_missing,
	.open = open_context,
	.add = vector_add,
	.rearm = vector_rearm,
	.cancel = vector_cancel,
	.collect = collect_many,
	.close = close_device,
};
