// SPDX-License-Identifier: GPL-2.0-only
/*
 * io_uring timeouts, 256 in each submission
 *
 * io_uring finds a timeout by walking the list of all timeouts, so only some
 * are re-armed and cancelled.
 */
#include <liburing.h>
#include <errno.h>
#include <string.h>
#include "bench.h"

/* List entries to walk in all, and the fewest operations. */
#define WALKS		50000000U
#define FEWEST		16U

/* The maximum: a completion that does not fit costs an allocation. */
#define CQ_ENTRIES	65536U

/* Marks completions of updates and removals. */
#define REQUEST		(1ULL << 63)

static struct io_uring ring;
static struct __kernel_timespec when[BATCH];

static uint32_t io_uring_bound(enum op_code op, uint32_t pending)
{
	(void)op;
	return WALKS / pending > FEWEST ? WALKS / pending : FEWEST;
}

static const char *io_uring_missing(uint32_t pending)
{
	struct io_uring probe;
	int ret = io_uring_queue_init(1, &probe, 0);

	(void)pending;
	if (ret)
		return strerror(-ret);
	io_uring_queue_exit(&probe);
	return NULL;
}

static void ring_open(struct bench *b)
{
	/* The flags that io_uring's authors recommend for a single-threaded ring. */
	struct io_uring_params params = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER |
			 IORING_SETUP_DEFER_TASKRUN,
		.cq_entries = CQ_ENTRIES,
	};
	int ret = io_uring_queue_init_params(BATCH, &ring, &params);

	(void)b;
	if (ret)
		die("io_uring: %s", strerror(-ret));
}

static uint32_t batch_of(uint32_t done, uint32_t count)
{
	return count - done < BATCH ? count - done : BATCH;
}

static struct io_uring_sqe *next_sqe(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (unlikely(!sqe))
		die("io_uring: no room to submit");
	return sqe;
}

static void submit(uint32_t count)
{
	int ret = io_uring_submit(&ring);

	if (unlikely(ret != (int)count))
		die("io_uring: submitting %u: %d", count, ret);
}

static void set_time(struct __kernel_timespec *ts, uint64_t ns)
{
	ts->tv_sec = ns / SEC;
	ts->tv_nsec = ns % SEC;
}

static void ring_add(struct bench *b)
{
	uint32_t first, n, i;

	for (first = 0; first < b->pending; first += n) {
		n = batch_of(first, b->pending);
		for (i = 0; i < n; i++) {
			struct io_uring_sqe *sqe = next_sqe();

			set_time(&when[i], b->delay[first + i]);
			io_uring_prep_timeout(sqe, &when[i], 0, 0);
			io_uring_sqe_set_data64(sqe, first + i);
		}
		submit(n);
		/* A timeout that is refused completes at once. */
		if (unlikely(io_uring_cq_ready(&ring)))
			die("io_uring: a timeout was refused");
	}
}

/* Check @requests updates or removals, and @cancelled completions of timeouts. */
static void take_results(uint32_t requests, uint32_t cancelled)
{
	struct io_uring_cqe *cqe;
	int ret;

	while (requests + cancelled) {
		ret = io_uring_wait_cqe(&ring, &cqe);
		if (unlikely(ret))
			die("io_uring: waiting: %s", strerror(-ret));
		if (cqe->user_data & REQUEST && !cqe->res && requests)
			requests--;
		else if (!(cqe->user_data & REQUEST) && cqe->res == -ECANCELED && cancelled)
			cancelled--;
		else
			die("io_uring: result %d of %llx", cqe->res, cqe->user_data);
		io_uring_cqe_seen(&ring, cqe);
	}
}

static void ring_rearm(struct bench *b, uint32_t count)
{
	uint32_t first, n, i;

	for (first = 0; first < count; first += n) {
		n = batch_of(first, count);
		for (i = 0; i < n; i++) {
			struct io_uring_sqe *sqe = next_sqe();

			set_time(&when[i], b->later[first + i]);
			io_uring_prep_timeout_update(sqe, &when[i], b->rearm_order[first + i], 0);
			io_uring_sqe_set_data64(sqe, REQUEST);
		}
		submit(n);
		take_results(n, 0);
	}
}

static void ring_cancel(struct bench *b, uint32_t count)
{
	uint32_t first, n, i;

	for (first = 0; first < count; first += n) {
		n = batch_of(first, count);
		for (i = 0; i < n; i++) {
			struct io_uring_sqe *sqe = next_sqe();

			io_uring_prep_timeout_remove(sqe, b->cancel_order[first + i], 0);
			io_uring_sqe_set_data64(sqe, REQUEST);
		}
		submit(n);
		take_results(n, n);
	}
}

static void ring_collect(struct bench *b)
{
	struct io_uring_cqe *cqes[BATCH];
	unsigned int n, i;
	uint64_t now;
	int ret = io_uring_get_events(&ring);

	if (unlikely(ret < 0 && ret != -EBUSY))
		die("io_uring: getting events: %s", strerror(-ret));
	while ((n = io_uring_peek_batch_cqe(&ring, cqes, BATCH))) {
		now = now_ns();
		for (i = 0; i < n; i++) {
			if (unlikely(cqes[i]->res != -ETIME))
				die("io_uring: result %d of %llu", cqes[i]->res,
				    cqes[i]->user_data);
			bench_expired(b, cqes[i]->user_data, now);
		}
		io_uring_cq_advance(&ring, n);
	}
}

static void ring_close(struct bench *b)
{
	(void)b;
	io_uring_queue_exit(&ring);
}

const struct system system_io_uring = {
	.name = "io_uring",
	.missing = io_uring_missing,
	.bound = io_uring_bound,
	.open = ring_open,
	.add = ring_add,
	.rearm = ring_rearm,
	.cancel = ring_cancel,
	.collect = ring_collect,
	.close = ring_close,
};
