/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pass a descriptor to another process over a unix socket
 */
#ifndef COMMON_PASS_FD_H
#define COMMON_PASS_FD_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* A message of one byte with room for a descriptor; it points into itself. */
struct htw_fd_message {
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov;
	struct msghdr msg;
};

static inline void htw_fd_message_init(struct htw_fd_message *m)
{
	*m = (struct htw_fd_message){ 0 };
	m->iov = (struct iovec){ &m->byte, 1 };
	m->msg.msg_iov = &m->iov;
	m->msg.msg_iovlen = 1;
	m->msg.msg_control = &m->control;
	m->msg.msg_controllen = sizeof(m->control);
}

static inline bool htw_send_fd(int sock, int fd)
{
	struct htw_fd_message m;

	htw_fd_message_init(&m);
	m.control.head = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(&m.control.head), &fd, sizeof(fd));
	return sendmsg(sock, &m.msg, 0) == 1;
}

static inline int htw_receive_fd(int sock)
{
	struct htw_fd_message m;
	int fd = -1;

	htw_fd_message_init(&m);
	if (recvmsg(sock, &m.msg, MSG_CMSG_CLOEXEC) == 1)
		memcpy(&fd, CMSG_DATA(&m.control.head), sizeof(fd));
	return fd;
}

#endif /* COMMON_PASS_FD_H */
