/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands of io_uring, in place of ioctls
 */
#ifndef URING_H
#define URING_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/* How commands are made while a ring is open. */
#define WAY_RING	(1U << 0)	/* else as ioctls */
#define WAY_ASYNC	(1U << 1)
#define WAY_FIXED	(1U << 2)	/* with the descriptor registered */
#define WAY_DRAIN	(1U << 3)
#define WAY_LINKED	(1U << 4)	/* behind another command */
#define WAY_HARDLINKED	(1U << 5)
#define WAY_FAILED	(1U << 6)	/* first once behind one that fails: it is not made */
#define WAY_RESERVED	(1U << 7)	/* first once with what must be zero: the same */
#define WAY_PERSONALITY	(1U << 8)
#define WAY_LARGE	(1U << 9)	/* in an SQE of 128 bytes */
#define WAYS		((1U << 10) - 1)

/*
 * Make a call, by an ioctl or as a command. @room: how many bytes of @arg it may write; zero if
 * they cannot be read, and compared.
 */
long uring_call(__u64 fd, unsigned int command, void *arg, size_t room);
void uring_init(void);
void uring_begin(void);

#endif /* URING_H */
