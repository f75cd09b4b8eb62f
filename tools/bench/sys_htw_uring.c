// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw by commands of io_uring, 256 timers in each submission: an SQE for each
 * (htw-uring), or HTW_VECTOR for 16 (htw-uring-16); and reads as SQEs
 */
#include <liburing.h>
#include <sys/uio.h>
#include "bench.h"
#include "htw.h"

/* From the kernel's header; that of liburing 2.3 has no name for it. */
#define SQE_CMD		48

/* Timers of a vector. */
#define SOME		16U

static int fd;
static struct io_uring ring;

static union {
	struct htw_add_args add[BATCH];
	struct htw_mod_args mod[BATCH];
	struct htw_cancel_args cancel[BATCH];
	struct htw_vector_args vector[BATCH / SOME];
} args;
static uint64_t ids[BATCH], deadlines[BATCH], cookies[BATCH];

static const char *uring_missing(uint32_t pending)
{
	const char *why = htw_missing(pending);
	struct htw_info_args info;
	int probe;

	if (why)
		return why;
	probe = htw_open_device(pending);
	info = htw_info(probe);
	close(probe);
	return info.features & HTW_FEATURE_URING ? NULL : "the module has no commands for io_uring";
}

static void uring_open(struct bench *b)
{
	/* As io_uring's authors recommend for a ring of one thread. */
	int ret = io_uring_queue_init(BATCH, &ring, IORING_SETUP_SINGLE_ISSUER |
						    IORING_SETUP_DEFER_TASKRUN);

	if (ret)
		die("io_uring: %s", strerror(-ret));
	fd = htw_open_device(b->pending);
	ret = io_uring_register_files(&ring, &fd, 1);
	if (ret)
		die("io_uring: registering a file: %s", strerror(-ret));
}

static void uring_close(struct bench *b)
{
	(void)b;
	io_uring_queue_exit(&ring);
	close(fd);
}

static uint32_t batch_of(uint32_t done, uint32_t count)
{
	return count - done < BATCH ? count - done : BATCH;
}

static void prep(unsigned int op, const void *arg)
{
	const struct htw_uring_args cmd = { .arg = (uintptr_t)arg };
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (unlikely(!sqe))
		die("io_uring: no room to submit");
	/* A registered descriptor. */
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, 0, NULL, 0, 0);
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->cmd_op = op;
	memcpy((char *)sqe + SQE_CMD, &cmd, sizeof(cmd));
}

/* All complete before the submission returns, unless a worker has taken one over. */
static void submit(uint32_t count)
{
	struct io_uring_cqe *cqes[BATCH];
	unsigned int n, i;
	int ret = io_uring_submit_and_wait(&ring, count);

	if (unlikely(ret != (int)count))
		die("io_uring: submitting %u: %d", count, ret);
	n = io_uring_peek_batch_cqe(&ring, cqes, BATCH);
	if (unlikely(n != count))
		die("io_uring: %u completions of %u", n, count);
	for (i = 0; i < n; i++)
		if (unlikely(cqes[i]->res))
			die("io_uring: result %d", cqes[i]->res);
	io_uring_cq_advance(&ring, n);
}

static void uring_add(struct bench *b)
{
	uint32_t first, n, i;

	for (first = 0; first < b->pending; first += n) {
		n = batch_of(first, b->pending);
		for (i = 0; i < n; i++) {
			args.add[i] = (struct htw_add_args){
				.deadline = b->delay[first + i], .cookie = first + i,
			};
			prep(HTW_ADD, &args.add[i]);
		}
		submit(n);
		for (i = 0; i < n; i++)
			b->handles[first + i] = args.add[i].id;
	}
}

static void uring_rearm(struct bench *b, uint32_t count)
{
	uint32_t first, n, i;

	for (first = 0; first < count; first += n) {
		n = batch_of(first, count);
		for (i = 0; i < n; i++) {
			args.mod[i] = (struct htw_mod_args){
				.id = b->handles[b->rearm_order[first + i]],
				.deadline = b->later[first + i],
				.flags = HTW_MOD_DEADLINE,
			};
			prep(HTW_MOD, &args.mod[i]);
		}
		submit(n);
	}
}

static void uring_cancel(struct bench *b, uint32_t count)
{
	uint32_t first, n, i;

	for (first = 0; first < count; first += n) {
		n = batch_of(first, count);
		for (i = 0; i < n; i++) {
			args.cancel[i] = (struct htw_cancel_args){
				.id = b->handles[b->cancel_order[first + i]],
			};
			prep(HTW_CANCEL, &args.cancel[i]);
		}
		submit(n);
		for (i = 0; i < n; i++)
			if (unlikely(args.cancel[i].cookie != b->cancel_order[first + i]))
				die("HTW_CANCEL: cookie %llu", args.cancel[i].cookie);
	}
}

/* Submit vectors for @n timers, whose ids, deadlines and cookies are filled in. */
static void submit_vectors(struct htw_vector_args v, uint32_t n)
{
	uint32_t count = 0, i;

	for (i = 0; i < n; i += SOME) {
		v.ids = (uintptr_t)(ids + i);
		v.deadlines = v.op == HTW_OP_CANCEL ? 0 : (uintptr_t)(deadlines + i);
		v.cookies = v.op == HTW_OP_ADD ? (uintptr_t)(cookies + i) : 0;
		v.count = n - i < SOME ? n - i : SOME;
		args.vector[count] = v;
		prep(HTW_VECTOR, &args.vector[count++]);
	}
	submit(count);
	for (i = 0; i < count; i++)
		if (unlikely(args.vector[i].done != args.vector[i].count || args.vector[i].failed))
			die("HTW_VECTOR: %u done, %u failed", args.vector[i].done,
			    args.vector[i].failed);
}

static void some_add(struct bench *b)
{
	uint32_t first, n, i;

	for (first = 0; first < b->pending; first += n) {
		n = batch_of(first, b->pending);
		for (i = 0; i < n; i++) {
			deadlines[i] = b->delay[first + i];
			cookies[i] = first + i;
		}
		submit_vectors((struct htw_vector_args){ .op = HTW_OP_ADD }, n);
		memcpy(b->handles + first, ids, n * sizeof(*ids));
	}
}

static void some_rearm(struct bench *b, uint32_t count)
{
	const struct htw_vector_args v = { .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE };
	uint32_t first, n, i;

	for (first = 0; first < count; first += n) {
		n = batch_of(first, count);
		for (i = 0; i < n; i++) {
			ids[i] = b->handles[b->rearm_order[first + i]];
			deadlines[i] = b->later[first + i];
		}
		submit_vectors(v, n);
	}
}

static void some_cancel(struct bench *b, uint32_t count)
{
	uint32_t first, n, i;

	for (first = 0; first < count; first += n) {
		n = batch_of(first, count);
		for (i = 0; i < n; i++)
			ids[i] = b->handles[b->cancel_order[first + i]];
		submit_vectors((struct htw_vector_args){ .op = HTW_OP_CANCEL }, n);
	}
}

static void uring_collect(struct bench *b)
{
	struct htw_event events[BATCH];
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	uint64_t now;
	int ret, i;

	do {
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, fd, events, sizeof(events), 0);
		sqe->rw_flags = RWF_NOWAIT;
		ret = io_uring_submit_and_wait(&ring, 1);
		if (unlikely(ret != 1 || io_uring_peek_cqe(&ring, &cqe)))
			die("io_uring: submitting a read: %d", ret);
		ret = cqe->res;
		io_uring_cqe_seen(&ring, cqe);
		if (ret == -EAGAIN)
			return;
		if (unlikely(ret < 0))
			die("io_uring: read: %s", strerror(-ret));
		now = now_ns();
		for (i = 0; i < (int)(ret / sizeof(*events)); i++)
			htw_take(b, &events[i], now);
	} while (ret == sizeof(events));
}

const struct system system_htw_uring = {
	.name = "htw-uring",
	.missing = uring_missing,
	.open = uring_open,
	.add = uring_add,
	.rearm = uring_rearm,
	.cancel = uring_cancel,
	.collect = uring_collect,
	.close = uring_close,
};

const struct system system_htw_uring_16 = {
	.name = "htw-uring-16",
	.missing = uring_missing,
	.open = uring_open,
	.add = some_add,
	.rearm = some_rearm,
	.cancel = some_cancel,
	.collect = uring_collect,
	.close = uring_close,
};
