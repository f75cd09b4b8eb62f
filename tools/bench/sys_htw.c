// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw by its calls: one ioctl and one read() a timer (htw), many timers at a
 * time (htw-batch), and operations of any kind at a time (htw-mixed)
 */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "bench.h"
#include "htw.h"

static int fd, epfd;

int htw_fd(void)
{
	return fd;
}

static void htw_open(struct bench *b)
{
	fd = htw_open_device(HTW_FEATURE_ADD | HTW_FEATURE_MOD | HTW_FEATURE_VECTOR, b->pending);
	epfd = htw_epoll(fd);
}

static void htw_close(struct bench *b)
{
	(void)b;
	close(epfd);
	close(fd);
}

/* Millions of system calls tell no more than some hundred thousand. */
static uint32_t htw_bound_one(enum op_code op, uint32_t pending)
{
	(void)op;
	return pending > 1000000 ? 200000 : 0;
}

static void htw_add_one(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++) {
		struct htw_add add = {
			.deadline = b->delay[i],
			.cookie = i,
		};

		if (unlikely(ioctl(fd, HTW_ADD, &add) || !add.id))
			die("HTW_ADD number %u: %s", i, strerror(errno));
		b->handles[i] = add.id;
	}
}

static void htw_rearm_one(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		struct htw_mod mod = {
			.id = b->handles[b->rearm_order[k]],
			.deadline = b->later[k],
			.flags = HTW_MOD_DEADLINE,
		};

		if (unlikely(ioctl(fd, HTW_MOD, &mod)))
			die("HTW_MOD number %u: %s", k, strerror(errno));
	}
}

static void htw_cancel_one(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		struct htw_cancel cancel = { .id = b->handles[b->cancel_order[k]] };

		if (unlikely(ioctl(fd, HTW_CANCEL, &cancel) || cancel.cookie != b->cancel_order[k]))
			die("HTW_CANCEL number %u: %s", k, strerror(errno));
	}
}

/* Reads up to @most at a time until there is no more; @now once for each read. */
static void collect(struct bench *b, uint32_t most)
{
	struct htw_event events[BATCH];
	struct epoll_event ready;
	ssize_t n, i;
	uint64_t now;

	if (epoll_wait(epfd, &ready, 1, 0) != 1)
		return;
	for (;;) {
		n = read(fd, events, most * sizeof(events[0]));
		if (n < 0) {
			if (errno == EAGAIN)
				return;
			die("htw: read: %s", strerror(errno));
		}
		n /= sizeof(events[0]);
		now = now_ns();
		for (i = 0; i < n; i++)
			htw_take(b, &events[i], now, false);
		/* What is not full was the last: level-triggered, nothing is lost. */
		if (n < most)
			return;
	}
}

static void htw_collect_one(struct bench *b)
{
	collect(b, 1);
}

static void htw_add_batch(struct bench *b)
{
	htw_add_batches(fd, b);
}

static void htw_rearm_batch(struct bench *b, uint32_t count)
{
	htw_rearm_batches(fd, b, count);
}

static void htw_cancel_batch(struct bench *b, uint32_t count)
{
	htw_cancel_batches(fd, b, count);
}

static void htw_add_ops(struct bench *b)
{
	htw_add_mixed(fd, b);
}

static void htw_rearm_ops(struct bench *b, uint32_t count)
{
	htw_rearm_mixed(fd, b, count);
}

static void htw_cancel_ops(struct bench *b, uint32_t count)
{
	htw_cancel_mixed(fd, b, count);
}

static void htw_collect_batch(struct bench *b)
{
	collect(b, BATCH);
}

const struct system system_htw = {
	.name = "htw",
	.missing = htw_missing,
	.bound = htw_bound_one,
	.open = htw_open,
	.add = htw_add_one,
	.rearm = htw_rearm_one,
	.cancel = htw_cancel_one,
	.collect = htw_collect_one,
	.close = htw_close,
};

const struct system system_htw_batch = {
	.name = "htw-batch",
	.missing = htw_missing,
	.open = htw_open,
	.add = htw_add_batch,
	.rearm = htw_rearm_batch,
	.cancel = htw_cancel_batch,
	.collect = htw_collect_batch,
	.close = htw_close,
};

const struct system system_htw_mixed = {
	.name = "htw-mixed",
	.missing = htw_missing,
	.open = htw_open,
	.add = htw_add_ops,
	.rearm = htw_rearm_ops,
	.cancel = htw_cancel_ops,
	.collect = htw_collect_batch,
	.close = htw_close,
};
