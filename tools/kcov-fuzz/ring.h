/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A ring of io_uring, by its system calls alone: one in a program
 */
#ifndef RING_H
#define RING_H

#include <linux/io_uring.h>
#include <linux/types.h>
#include <stdbool.h>

/* Of headers that are newer than Debian 12's. */
#define SETUP_NO_SQARRAY	(1U << 16)
#define SETUP_CQE_MIXED		(1U << 18)
#define SETUP_SQE_MIXED		(1U << 19)
#define OP_URING_CMD128		64
/* &io_uring_sqe.cmd */
#define SQE_CMD			48

/* Not IORING_SETUP_SQPOLL: its thread looks until time has passed, which it does not here. */
#define RING_FLAGS	(IORING_SETUP_IOPOLL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP |	\
			 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |			\
			 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SQE128 |			\
			 IORING_SETUP_CQE32 | IORING_SETUP_SINGLE_ISSUER |			\
			 IORING_SETUP_DEFER_TASKRUN | SETUP_NO_SQARRAY | SETUP_CQE_MIXED |	\
			 SETUP_SQE_MIXED)

/* In each ring: descriptors that can be registered. */
#define RING_FILES	4

bool ring_is_open(void);
/* Return 0 or a negative errno. @entries: 64 at most. */
long ring_open(__u32 flags, unsigned int entries);
/* Completions that have not been waited for are lost. */
void ring_close(void);
/* In a child: the ring is its parent's. */
void ring_forget(void);
/* Flags of the ring that is open. */
__u32 ring_flags(void);

/* Put a descriptor, or -1, into the table of those that are registered. */
void ring_register(unsigned int at, int fd);
/* Credentials of this task, registered when the ring was made. */
__u16 ring_personality(void);

/*
 * An SQE of zeros, whose user data shall not be zero, or NULL if there is no room. @is_large: two
 * slots where an SQE is of 64 bytes.
 */
struct io_uring_sqe *ring_sqe(bool is_large);
/* Submit them; they are the program's again, and overwritten by @byte. Return how many are not. */
unsigned int ring_submit(int byte);
/* Wait until all have completed, and call @on for each. */
void ring_wait(void (*on)(__u64 data, long result));

#endif /* RING_H */
