// SPDX-License-Identifier: GPL-2.0-only
#include "submit.h"

#include "../common/htw-client.h"

static int submit_one(int fd, struct htw_op *op)
{
	static const unsigned long commands[] = {
		[HTW_OP_ADD] = HTW_ADD,
		[HTW_OP_CANCEL] = HTW_CANCEL,
		[HTW_OP_MOD] = HTW_MOD,
		[HTW_OP_QUERY] = HTW_QUERY,
	};

	return htw_call(fd, commands[op->op], &op->add);
}

/* What the operations have in common. */
static struct htw_vector vector_of(const struct htw_op *op)
{
	struct htw_vector v = { .op = op->op };

	switch (op->op) {
	case HTW_OP_ADD:
		v.flags = op->add.flags;
		v.interval = op->add.interval;
		v.firings = op->add.firings;
		v.slack = op->add.slack;
		break;
	case HTW_OP_CANCEL:
		v.flags = op->cancel.flags;
		break;
	default:
		v.flags = op->mod.flags;
		v.interval = op->mod.interval;
		v.firings = op->mod.firings;
		v.slack = op->mod.slack;
		break;
	}
	return v;
}

static void take_result(struct htw_op *op, __u64 id, __u64 ring_tail)
{
	op->result = HTW_ID_ERROR(id);
	if (op->op == HTW_OP_ADD)
		op->add.id = id;
	else if (op->op == HTW_OP_CANCEL)
		op->cancel.ring_tail = ring_tail;
}

static int submit_vector(int fd, struct htw_op *ops, unsigned int n)
{
	__u64 ids[SUBMIT_MOST], deadlines[SUBMIT_MOST], cookies[SUBMIT_MOST];
	struct htw_vector all = vector_of(ops), v;
	const bool has_deadlines = all.op == HTW_OP_ADD ||
				   (all.op == HTW_OP_MOD && all.flags & HTW_MOD_DEADLINE);
	const bool has_cookies = all.op == HTW_OP_ADD ||
				 (all.op == HTW_OP_MOD && all.flags & HTW_MOD_COOKIE);
	unsigned int i, done = 0;
	int ret;

	for (i = 0; i < n; i++) {
		ids[i] = all.op == HTW_OP_ADD ? POISON : ops[i].cancel.id;
		deadlines[i] = all.op == HTW_OP_ADD ? ops[i].add.deadline : ops[i].mod.deadline;
		cookies[i] = all.op == HTW_OP_ADD ? ops[i].add.cookie : ops[i].mod.cookie;
	}
	while (done < n) {
		v = all;
		v.ids = (uintptr_t)(ids + done);
		v.deadlines = has_deadlines ? (uintptr_t)(deadlines + done) : 0;
		v.cookies = has_cookies ? (uintptr_t)(cookies + done) : 0;
		v.count = n - done;
		ret = htw_call(fd, HTW_VECTOR, &v);
		if (ret == -EINTR)
			continue;
		if (ret)
			return ret;
		if (!v.done || v.done > n - done)
			return -EIO;
		for (i = done; i < done + v.done; i++)
			take_result(&ops[i], ids[i], v.ring_tail);
		done += v.done;
	}
	return 0;
}

int submit(int fd, struct htw_op *ops, unsigned int n, enum submit_form form)
{
	if (form == SUBMIT_VECTOR && ops->op != HTW_OP_QUERY)
		return submit_vector(fd, ops, n);
	if (form != SUBMIT_SINGLE)
		return htw_batch_all(fd, ops, n);
	for (unsigned int i = 0; i < n; i++)
		ops[i].result = submit_one(fd, &ops[i]);
	return 0;
}
