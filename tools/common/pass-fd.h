/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pass a descriptor to another process over a unix socket
 */
#ifndef COMMON_PASS_FD_H
#define COMMON_PASS_FD_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

static inline bool htw_send_fd(int sock, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	control.head = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1;
}

static inline int htw_receive_fd(int sock)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) == 1)
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

#endif /* COMMON_PASS_FD_H */
