// SPDX-License-Identifier: GPL-2.0-only
#include "submit.h"

#include <liburing.h>
#include <stdlib.h>

#include "../common/htw-client.h"
#include "report.h"

/* &io_uring_sqe.cmd, which the header of liburing 2.3 does not name. */
#define SQE_CMD		48

/* This thread's, once it has made a command. */
static __thread struct io_uring *ring;

static void make_ring(void)
{
	int ret;

	if (ring)
		return;
	ring = calloc(1, sizeof(*ring));
	ret = ring ? io_uring_queue_init(SUBMIT_MOST, ring, 0) : -ENOMEM;
	if (ret)
		report_broken("io_uring_queue_init: %s", strerror(-ret));
}

void submit_exit(void)
{
	if (!ring)
		return;
	io_uring_queue_exit(ring);
	free(ring);
	ring = NULL;
}

static void prepare(int fd, unsigned long command, void *arg, int *result, unsigned char flags)
{
	const struct htw_uring_args args = { .arg = (uintptr_t)arg };
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, fd, NULL, 0, 0);
	sqe->cmd_op = command;
	memcpy((char *)sqe + SQE_CMD, &args, sizeof(args));
	sqe->flags = flags;
	io_uring_sqe_set_data(sqe, result);
}

/* Submit what has been prepared, and store each result. */
static void complete(unsigned int n)
{
	while (n) {
		struct io_uring_cqe *cqe;
		int ret = io_uring_submit_and_wait(ring, 1);

		if (ret < 0 && ret != -EINTR)
			report_broken("io_uring: %s", strerror(-ret));
		while (!io_uring_peek_cqe(ring, &cqe)) {
			*(int *)io_uring_cqe_get_data(cqe) = cqe->res;
			io_uring_cqe_seen(ring, cqe);
			if (!n--)
				report_broken("io_uring: more completions than commands");
		}
	}
}

static int call(int fd, unsigned long command, void *arg, const struct submit_way *way)
{
	int ret;

	if (!way->uring)
		return htw_call(fd, command, arg);
	make_ring();
	prepare(fd, command, arg, &ret, way->sqe_flags);
	complete(1);
	return ret;
}

/* What the operations have in common. */
static struct htw_vector_args vector_of(const struct submit_op *op)
{
	switch (op->command) {
	case HTW_ADD:
		return (struct htw_vector_args){
			.op = HTW_OP_ADD,
			.flags = op->add.flags,
			.interval = op->add.interval,
			.firings = op->add.firings,
			.slack = op->add.slack,
		};
	case HTW_CANCEL:
		return (struct htw_vector_args){ .op = HTW_OP_CANCEL, .flags = op->cancel.flags };
	default:
		return (struct htw_vector_args){
			.op = HTW_OP_MOD,
			.flags = op->mod.flags,
			.interval = op->mod.interval,
			.firings = op->mod.firings,
			.slack = op->mod.slack,
		};
	}
}

static int submit_vector(int fd, struct submit_op *ops, unsigned int n,
			 const struct submit_way *way)
{
	__u64 ids[SUBMIT_MOST], deadlines[SUBMIT_MOST], cookies[SUBMIT_MOST];
	const struct htw_vector_args all = vector_of(ops);
	const bool adds = all.op == HTW_OP_ADD, mods = all.op == HTW_OP_MOD;
	const bool has_deadlines = adds || (mods && all.flags & HTW_MOD_DEADLINE);
	const bool has_cookies = adds || (mods && all.flags & HTW_MOD_COOKIE);
	unsigned int i, done = 0;

	for (i = 0; i < n; i++) {
		/* The id is the first field of all arguments. */
		ids[i] = adds ? POISON : ops[i].cancel.id;
		deadlines[i] = adds ? ops[i].add.deadline : ops[i].mod.deadline;
		cookies[i] = adds ? ops[i].add.cookie : ops[i].mod.cookie;
	}
	while (done < n) {
		struct htw_vector_args v = all;
		int ret;

		v.ids = (uintptr_t)(ids + done);
		v.deadlines = has_deadlines ? (uintptr_t)(deadlines + done) : 0;
		v.cookies = has_cookies ? (uintptr_t)(cookies + done) : 0;
		v.count = n - done;
		v.done = POISON32;
		v.failed = POISON32;
		ret = call(fd, HTW_VECTOR, &v, way);
		if (ret == -EINTR)
			continue;
		if (ret)
			return ret;
		if (!v.done || v.done > n - done)
			return -EIO;
		for (i = done; i < done + v.done; i++) {
			ops[i].result = HTW_ID_ERROR(ids[i]);
			v.failed -= !!ops[i].result;
			if (adds)
				ops[i].add.id = ids[i];
		}
		if (v.failed)
			return -EBADMSG;
		done += v.done;
	}
	return 0;
}

int submit(int fd, struct submit_op *ops, unsigned int n, const struct submit_way *way)
{
	const bool uring = way->uring && ops->command != HTW_QUERY;
	unsigned int i;

	if (way->vector && ops->command != HTW_QUERY)
		return submit_vector(fd, ops, n, way);
	if (uring)
		make_ring();
	for (i = 0; i < n; i++) {
		if (uring)
			prepare(fd, ops[i].command, &ops[i].add, &ops[i].result, way->sqe_flags);
		else
			ops[i].result = htw_call(fd, ops[i].command, &ops[i].add);
	}
	if (uring)
		complete(n);
	for (i = 0; i < n; i++)
		ops[i].has_output = !ops[i].result;
	return 0;
}
