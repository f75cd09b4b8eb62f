/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls for several timers: one by one, or as a HTW_VECTOR; by ioctls, or by io_uring
 */
#ifndef TORTURE_SUBMIT_H
#define TORTURE_SUBMIT_H

#include <linux/htw.h>
#include <stdbool.h>

#define SUBMIT_MOST	64

/**
 * struct submit_op - an operation on one timer
 * @command: HTW_ADD, HTW_CANCEL, HTW_MOD or HTW_QUERY
 * @result: zero or a negative errno
 * @has_output: the fields that the call only writes are valid: a HTW_VECTOR has none of them,
 *	but for the ids
 * @add: the argument, each by its command
 * @cancel: as well
 * @mod: as well
 * @query: as well
 */
struct submit_op {
	unsigned long command;
	int result;
	bool has_output;
	union {
		struct htw_add_args add;
		struct htw_cancel_args cancel;
		struct htw_mod_args mod;
		struct htw_timer_info query;
	};
};

/**
 * struct submit_way - how operations are carried out
 * @vector: as a HTW_VECTOR, which none of HTW_QUERY can be
 * @uring: as commands of io_uring, in one submission, which HTW_QUERY cannot be
 * @sqe_flags: of each SQE
 */
struct submit_way {
	bool vector;
	bool uring;
	unsigned char sqe_flags;
};

/*
 * Carry out operations of one kind, each of which gets its result. In a vector they differ in
 * ids, deadlines and cookies only. Return 0, or the negative errno of a call that failed as a
 * whole.
 */
int submit(int fd, struct submit_op *ops, unsigned int n, const struct submit_way *way);
/* At the end of a thread. */
void submit_exit(void);

#endif /* TORTURE_SUBMIT_H */
