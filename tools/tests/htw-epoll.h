/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An epoll set that watches the device
 */
#ifndef HTW_EPOLL_H
#define HTW_EPOLL_H

#include "htw-test.h"

#include <sys/epoll.h>

static inline int htw_watch(int fd, __u32 events)
{
	struct epoll_event event = { .events = events };
	int epfd = epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		return -1;
	return epfd;
}

/* Number of ready descriptors: at once, or within EVENTUALLY. */
static inline int htw_ready_now(int epfd)
{
	struct epoll_event event;

	return epoll_wait(epfd, &event, 1, 0);
}

static inline int htw_ready_soon(int epfd)
{
	struct epoll_event event;

	return epoll_wait(epfd, &event, 1, EVENTUALLY / MSEC);
}

#endif /* HTW_EPOLL_H */
