/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands of io_uring
 */
#ifndef HTW_URING_H
#define HTW_URING_H

#include "htw-test.h"

#include <liburing.h>

/* From the kernel's header; that of liburing 2.3 has no name for it. */
#define SQE_CMD		48

/* The next SQE, as a command, by default without flags. */
static inline struct io_uring_sqe *prep(struct io_uring *ring, int fd, unsigned int op,
					const void *arg)
{
	const struct htw_uring_args args = { .arg = (uintptr_t)arg };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = op;
	memcpy((char *)sqe + SQE_CMD, &args, sizeof(args));
	sqe->user_data = (uintptr_t)arg;
	return sqe;
}

/* The result of the next completion, whichever it is. */
static inline int result(struct io_uring *ring)
{
	struct __kernel_timespec ts = { .tv_sec = EVENTUALLY / SEC };
	struct io_uring_cqe *cqe;
	int ret;

	do {
		ret = io_uring_wait_cqe_timeout(ring, &cqe, &ts);
	} while (ret == -EINTR);
	if (ret)
		return -ETIME;
	ret = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

/* Make one command, and return its result. */
static inline int submit(struct io_uring *ring, struct io_uring_sqe *sqe, unsigned int flags)
{
	io_uring_sqe_set_flags(sqe, flags);
	/*
	 * With IORING_SETUP_SQPOLL earlier ones may be counted again, and this one may be gone
	 * before it is counted.
	 */
	return io_uring_submit(ring) >= 0 ? result(ring) : -EIO;
}

#endif /* HTW_URING_H */
