// SPDX-License-Identifier: GPL-2.0-only
/* Open /dev/htw, and operations on many timers; see htw.h. */
#include <stdio.h>
#include <sys/epoll.h>
#include "bench.h"
#include "htw.h"

/* Return -1 if the device cannot be opened. */
static int open_device(struct htw_info_args *info)
{
	int fd = htw_open(O_NONBLOCK), ret;

	if (fd < 0)
		return -1;
	ret = htw_call(fd, HTW_INFO, info);
	if (ret)
		die("HTW_INFO: %s", strerror(-ret));
	return fd;
}

const char *htw_missing(uint32_t pending)
{
	static char why[128];
	struct htw_info_args info;
	int fd = open_device(&info);

	if (fd < 0) {
		snprintf(why, sizeof(why), "cannot open /dev/htw: %s", strerror(errno));
		return why;
	}
	close(fd);
	if (info.limit < pending) {
		snprintf(why, sizeof(why), "the module's max_timers is %llu", info.limit);
		return why;
	}
	return NULL;
}

int htw_open_device(uint32_t pending)
{
	struct htw_info_args info;
	int fd = open_device(&info);

	if (fd < 0)
		die("cannot open /dev/htw: %s", strerror(errno));
	if (info.limit < pending)
		die("the module's max_timers is %llu", info.limit);
	return fd;
}

int htw_epoll(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	int epfd = epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll: %s", strerror(errno));
	return epfd;
}

static uint32_t batch_of(uint32_t done, uint32_t count)
{
	return count - done < BATCH ? count - done : BATCH;
}

static void run_vector(int fd, struct htw_vector_args *v)
{
	int ret = htw_call(fd, HTW_VECTOR, v);

	if (unlikely(ret || v->done != v->count || v->failed))
		die("HTW_VECTOR: %u of %u done, %u failed: %s", v->done, v->count, v->failed,
		    strerror(-ret));
}

void htw_many_start(int fd, struct htw_vector_args v, const uint64_t *deadlines, uint32_t count,
		    uint64_t *ids)
{
	uint64_t entries[BATCH], cookies[BATCH];
	uint32_t first, i;

	v.op = HTW_OP_ADD;
	v.deadlines = (uintptr_t)entries;
	v.cookies = (uintptr_t)cookies;
	for (first = 0; first < count; first += v.count) {
		v.count = batch_of(first, count);
		v.ids = (uintptr_t)(ids + first);
		for (i = 0; i < v.count; i++) {
			entries[i] = deadlines[first + i];
			cookies[i] = first + i;
		}
		run_vector(fd, &v);
	}
}

void htw_many_add(int fd, const struct bench *b)
{
	htw_many_start(fd, (struct htw_vector_args){}, b->delay, b->pending, b->handles);
}

void htw_many_rearm(int fd, const struct bench *b, uint32_t count)
{
	uint64_t ids[BATCH], deadlines[BATCH];
	struct htw_vector_args v = {
		.op = HTW_OP_MOD,
		.flags = HTW_MOD_DEADLINE,
		.ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
	};
	uint32_t first, i;

	for (first = 0; first < count; first += v.count) {
		v.count = batch_of(first, count);
		for (i = 0; i < v.count; i++) {
			ids[i] = b->handles[b->rearm_order[first + i]];
			deadlines[i] = b->later[first + i];
		}
		run_vector(fd, &v);
	}
}

void htw_many_cancel(int fd, const struct bench *b, uint32_t count)
{
	uint64_t ids[BATCH];
	struct htw_vector_args v = {
		.op = HTW_OP_CANCEL,
		.ids = (uintptr_t)ids,
	};
	uint32_t first, i;

	for (first = 0; first < count; first += v.count) {
		v.count = batch_of(first, count);
		for (i = 0; i < v.count; i++)
			ids[i] = b->handles[b->cancel_order[first + i]];
		run_vector(fd, &v);
	}
}
