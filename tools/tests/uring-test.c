// SPDX-License-Identifier: GPL-2.0-only
/*
 * io_uring: reads that complete when a timer fires, one-shot and multishot
 * polls
 */
#include <liburing.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include "htw-test.h"

/* From the kernel's header; liburing 2.3 does not have it yet. */
#define OP_READ_MULTISHOT	49

#ifndef RWF_NOWAIT
#define RWF_NOWAIT		0x00000008
#endif

FIXTURE(uring) {
	struct io_uring ring;
	int fd;
	__u64 tick;
};

FIXTURE_VARIANT(uring) {
	int flags;
};

FIXTURE_VARIANT_ADD(uring, blocking) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(uring, nonblocking) {
	.flags = O_NONBLOCK,
};

FIXTURE_SETUP(uring)
{
	int ret;

	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(variant->flags);
	ASSERT_LE(0, self->fd);
	self->tick = htw_info(self->fd).tick_ns;
	ret = io_uring_queue_init(64, &self->ring, 0);
	if (ret == -ENOSYS || ret == -EPERM)
		SKIP(return, "no io_uring");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(uring)
{
	io_uring_queue_exit(&self->ring);
	close(self->fd);
}

#define URING_TEST(name) TEST_F_TIMEOUT(uring, name, TEST_SECONDS)

static struct io_uring_sqe *next_sqe(struct io_uring *ring, __u64 data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_sqe_set_data64(sqe, data);
	return sqe;
}

static void prep_read(struct io_uring *ring, int fd, struct htw_event *ev, unsigned int count,
		      __u64 data)
{
	struct io_uring_sqe *sqe = next_sqe(ring, 0);

	io_uring_prep_read(sqe, fd, ev, count * sizeof(*ev), 0);
	io_uring_sqe_set_data64(sqe, data);
}

/* Wait up to @ns for a completion and consume it. */
static bool completion(struct io_uring *ring, struct io_uring_cqe *cqe, __u64 ns)
{
	struct __kernel_timespec ts = { .tv_sec = ns / SEC, .tv_nsec = ns % SEC };
	struct io_uring_cqe *found;
	int ret;

	do {
		ret = ns ? io_uring_wait_cqe_timeout(ring, &found, &ts) :
			   io_uring_peek_cqe(ring, &found);
	} while (ret == -EINTR);
	if (ret)
		return false;
	*cqe = *found;
	io_uring_cqe_seen(ring, found);
	return true;
}

/* A read waits without a thread of its own, and completes when a timer fires. */
URING_TEST(read_waits_for_a_timer)
{
	struct htw_event ev[4];
	struct io_uring_cqe cqe;
	int i;

	for (i = 0; i < 10; i++) {
		__u64 deadline, id;

		memset(ev, 0xa5, sizeof(ev));
		prep_read(&self->ring, self->fd, ev, 4, i);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		EXPECT_FALSE(completion(&self->ring, &cqe, 0));
		deadline = now_ns() + i * 3 * MSEC;
		id = htw_start_abs(self->fd, deadline, i);
		ASSERT_NE(0, id);
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		EXPECT_LE(deadline, now_ns());
		EXPECT_EQ(i, cqe.user_data);
		ASSERT_EQ(sizeof(*ev), cqe.res);
		EXPECT_EQ(id, ev[0].id);
		EXPECT_EQ(i, ev[0].cookie);
		EXPECT_NOT_EARLY(&ev[0]);
		EXPECT_EQ(POISON, ev[1].id);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

URING_TEST(read_of_what_waits_already)
{
	struct htw_event ev[4];
	struct io_uring_cqe cqe;
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	ASSERT_TRUE(htw_eventually(htw_due(self->fd) == 3));
	prep_read(&self->ring, self->fd, ev, 2, 1);
	prep_read(&self->ring, self->fd, ev + 2, 2, 2);
	ASSERT_EQ(2, io_uring_submit(&self->ring));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(1, cqe.user_data);
	EXPECT_EQ(2 * sizeof(*ev), cqe.res);
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(2, cqe.user_data);
	EXPECT_EQ(sizeof(*ev), cqe.res);
	for (i = 0; i < 3; i++)
		EXPECT_EQ(i, ev[i].cookie);
}

/* IOCB_NOWAIT: EAGAIN whatever the descriptor's flags; available events are read. */
URING_TEST(nowait)
{
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	struct htw_event ev;
	int i;

	for (i = 0; i < 2; i++) {
		sqe = next_sqe(&self->ring, 0);
		io_uring_prep_read(sqe, self->fd, &ev, sizeof(ev), 0);
		sqe->rw_flags = RWF_NOWAIT;
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		EXPECT_EQ(i ? (int)sizeof(ev) : -EAGAIN, cqe.res);
		ASSERT_NE(0, htw_start(self->fd, 0, 1));
		ASSERT_TRUE(htw_wait_readable(self->fd));
	}
}

/* preadv2() with RWF_NOWAIT does the same. */
URING_TEST(preadv2_nowait)
{
	struct htw_event ev;
	struct iovec iov = { &ev, sizeof(ev) };

	EXPECT_EQ(-1, preadv2(self->fd, &iov, 1, -1, RWF_NOWAIT));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(sizeof(ev), preadv2(self->fd, &iov, 1, -1, RWF_NOWAIT));
}

URING_TEST(errors_as_of_read)
{
	struct io_uring_sqe *sqe = next_sqe(&self->ring, 0);
	struct io_uring_cqe cqe;
	struct htw_event ev;

	io_uring_prep_read(sqe, self->fd, &ev, sizeof(ev) - 1, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(-EINVAL, cqe.res);
	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	prep_read(&self->ring, self->fd, (void *)PAGE, 1, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(-EFAULT, cqe.res);
	/* The event is still queued. */
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
}

/* Through io_uring's worker threads, which sleep in read(). */
URING_TEST(read_by_a_worker)
{
	struct io_uring_sqe *sqe = next_sqe(&self->ring, 0);
	struct io_uring_cqe cqe;
	struct htw_event ev;

	io_uring_prep_read(sqe, self->fd, &ev, sizeof(ev), 0);
	sqe->flags |= IOSQE_ASYNC;
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_FALSE(completion(&self->ring, &cqe, 30 * MSEC));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 5));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(sizeof(ev), cqe.res);
	EXPECT_EQ(5, ev.cookie);
}

/* Into registered memory, which is copied differently, and into several buffers. */
URING_TEST(fixed_and_vectored)
{
	static struct htw_event ev[8];
	const size_t half = sizeof(ev[0]) / 2;
	struct iovec whole = { ev, sizeof(ev) }, pieces[3] = {
		{ ev, half }, { (char *)ev + half, 1 },
		{ (char *)ev + half + 1, sizeof(ev) - half - 1 },
	};
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	int i;

	ASSERT_EQ(0, io_uring_register_buffers(&self->ring, &whole, 1));
	for (i = 0; i < 4; i++) {
		memset(ev, 0, sizeof(ev));
		sqe = next_sqe(&self->ring, 0);
		if (i % 2)
			io_uring_prep_readv(sqe, self->fd, pieces, 3, 0);
		else
			io_uring_prep_read_fixed(sqe, self->fd, ev, sizeof(ev), 0, 0);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		ASSERT_NE(0, htw_start(self->fd, i / 2 * MSEC, 70 + i));
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		EXPECT_EQ(sizeof(ev[0]), cqe.res);
		EXPECT_EQ(70 + i, ev[0].cookie);
		EXPECT_NOT_EARLY(&ev[0]);
	}
}

/* Many waiting reads: each event goes to one of them. */
URING_TEST(many_reads)
{
	enum { READS = 50 };
	static struct htw_event ev[READS];
	unsigned char seen[READS] = { 0 };
	struct io_uring_cqe cqe;
	int i;

	for (i = 0; i < READS; i++)
		prep_read(&self->ring, self->fd, &ev[i], 1, i);
	ASSERT_EQ(READS, io_uring_submit(&self->ring));
	for (i = 0; i < READS; i++)
		ASSERT_NE(0, htw_start(self->fd, i % 7 * MSEC, i));
	for (i = 0; i < READS; i++) {
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		ASSERT_EQ(sizeof(ev[0]), cqe.res);
		ASSERT_GT(READS, ev[cqe.user_data].cookie);
		EXPECT_EQ(0, seen[ev[cqe.user_data].cookie]++);
		EXPECT_NOT_EARLY(&ev[cqe.user_data]);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* A cancelled read has consumed nothing. */
URING_TEST(cancelled_read)
{
	struct htw_event ev[2] = { 0 };
	struct io_uring_cqe cqe;
	int i;

	prep_read(&self->ring, self->fd, ev, 1, 1);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	io_uring_prep_cancel64(next_sqe(&self->ring, 0), 1, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		EXPECT_EQ(cqe.user_data == 1 ? -ECANCELED : 0, cqe.res);
	}
	ASSERT_NE(0, htw_start(self->fd, 0, 3));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_FALSE(completion(&self->ring, &cqe, 0));
	ASSERT_EQ(1, htw_read(self->fd, ev, 2));
	EXPECT_EQ(3, ev[0].cookie);
}

/* A waiting read holds the context after the last descriptor is closed. */
URING_TEST(closed_while_a_read_waits)
{
	struct io_uring_cqe cqe;
	struct htw_event ev;

	prep_read(&self->ring, self->fd, &ev, 1, 1);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_NE(0, htw_start(self->fd, 50 * MSEC, 9));
	close(self->fd);
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(sizeof(ev), cqe.res);
	EXPECT_EQ(9, ev.cookie);
	self->fd = htw_open(0);
}

URING_TEST(poll)
{
	struct io_uring_cqe cqe;

	io_uring_prep_poll_add(next_sqe(&self->ring, 0), self->fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_FALSE(completion(&self->ring, &cqe, 20 * MSEC));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(POLLIN, cqe.res);
	EXPECT_FALSE(cqe.flags & IORING_CQE_F_MORE);
	/* A poll of a readable descriptor completes at once. */
	io_uring_prep_poll_add(next_sqe(&self->ring, 0), self->fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	EXPECT_EQ(POLLIN, cqe.res);
}

/* One request, and a completion for each new expiration. */
URING_TEST(poll_multishot)
{
	struct io_uring_cqe cqe;
	struct htw_event ev[8];
	int i, n;

	io_uring_prep_poll_multishot(next_sqe(&self->ring, 0), self->fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_FALSE(completion(&self->ring, &cqe, 20 * MSEC));
	for (i = 0; i < 20; i++) {
		ASSERT_NE(0, htw_start(self->fd, i % 3 * MSEC, i));
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		EXPECT_EQ(POLLIN, cqe.res);
		ASSERT_TRUE(cqe.flags & IORING_CQE_F_MORE);
		n = htw_read(self->fd, ev, ARRAY_SIZE(ev));
		ASSERT_EQ(1, n);
		EXPECT_EQ(i, ev[0].cookie);
		EXPECT_FALSE(completion(&self->ring, &cqe, 0));
	}
}

/* A program that reads until empty at each completion misses no event. */
URING_TEST(poll_multishot_in_time_for_the_last)
{
	enum { COUNT = 2000 };
	const __u64 start = now_ns();
	struct io_uring_cqe cqe;
	struct htw_event ev[16];
	int i, n, got = 0;

	ASSERT_LE(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	io_uring_prep_poll_multishot(next_sqe(&self->ring, 0), self->fd, POLLIN);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	for (i = 0; i < COUNT; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, start + i * 200 * USEC, i));
	while (got < COUNT) {
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0)
			got += n;
		ASSERT_EQ(-EAGAIN, n);
		if (cqe.flags & IORING_CQE_F_MORE)
			continue;
		/* The kernel may end a multishot poll; then submit it again. */
		io_uring_prep_poll_multishot(next_sqe(&self->ring, 0), self->fd, POLLIN);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

enum { RINGS = 5 };

/* Take what has completed; return how many rings have. */
static int complete(struct io_uring *ring)
{
	struct io_uring_cqe cqe;
	int i, count = 0;

	for (i = 0; i < RINGS; i++)
		count += completion(&ring[i], &cqe, 0) && cqe.res & POLLIN;
	return count;
}

/*
 * Have rings poll, start a timer, and return how many of them complete before its event is read;
 * negative if something fails.
 */
static int rings_that_complete(int fd, unsigned int mask, bool multishot, int want)
{
	const __u64 end = now_ns() + EVENTUALLY;
	struct io_uring ring[RINGS];
	struct htw_event ev;
	int i, count = 0;

	for (i = 0; i < RINGS; i++) {
		struct io_uring_sqe *sqe;

		if (io_uring_queue_init(8, &ring[i], 0))
			return -1;
		sqe = next_sqe(&ring[i], 0);
		if (multishot)
			io_uring_prep_poll_multishot(sqe, fd, mask);
		else
			io_uring_prep_poll_add(sqe, fd, mask);
		if (io_uring_submit(&ring[i]) != 1)
			return -1;
	}
	if (!htw_start(fd, 5 * MSEC, 1))
		return -1;
	do {
		sleep_until(now_ns() + MSEC);
		count += complete(ring);
	} while (count < want && now_ns() < end);
	if (htw_read(fd, &ev, 1) != 1)
		count = -RINGS;
	sleep_until(now_ns() + 10 * MSEC);
	count += complete(ring);

	/* The next event is told as well. */
	if (multishot && (!htw_start(fd, MSEC, 2) || !htw_eventually(complete(ring)) ||
			  htw_read(fd, &ev, 1) != 1))
		count = -RINGS;
	for (i = 0; i < RINGS; i++)
		io_uring_queue_exit(&ring[i]);
	return count;
}

URING_TEST(poll_wakes_all_rings)
{
	EXPECT_EQ(RINGS, rings_that_complete(self->fd, POLLIN, false, RINGS));
	EXPECT_EQ(RINGS, rings_that_complete(self->fd, POLLIN, true, RINGS));
}

/* With EPOLLEXCLUSIVE in the SQE's mask; another one if this task is kept from reading. */
URING_TEST(exclusive_poll_wakes_one_ring)
{
	int i, tries, count;

	for (i = 0; i < 2; i++) {
		for (tries = 0, count = 0; tries < 10 && count != 1; tries++)
			count = rings_that_complete(self->fd, POLLIN | EPOLLEXCLUSIVE, i, 1);
		EXPECT_EQ(1, count);
	}
}

static bool has_op(struct io_uring *ring, int op)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool has = probe && io_uring_opcode_supported(probe, op);

	io_uring_free_probe(probe);
	return has;
}

/* One request, and for each expiration a completion with the events. */
URING_TEST(read_multishot)
{
	enum { BUFFERS = 32, EVENTS = 4 };
	static struct htw_event ev[BUFFERS][EVENTS];
	struct io_uring_sqe *sqe;
	struct io_uring_cqe cqe;
	int i, buffer;

	if (!has_op(&self->ring, OP_READ_MULTISHOT))
		SKIP(return, "no IORING_OP_READ_MULTISHOT");
	io_uring_prep_provide_buffers(next_sqe(&self->ring, 0), ev, sizeof(ev[0]), BUFFERS, 1, 0);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
	ASSERT_EQ(0, cqe.res);

	sqe = next_sqe(&self->ring, 0);
	io_uring_prep_rw(OP_READ_MULTISHOT, sqe, self->fd, NULL, 0, -1);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = 1;
	io_uring_sqe_set_data64(sqe, 77);
	ASSERT_EQ(1, io_uring_submit(&self->ring));
	EXPECT_FALSE(completion(&self->ring, &cqe, 20 * MSEC));
	for (i = 0; i < 20; i++) {
		const __u64 id = htw_start(self->fd, i % 3 * MSEC, i);

		ASSERT_NE(0, id);
		ASSERT_TRUE(completion(&self->ring, &cqe, EVENTUALLY));
		EXPECT_EQ(77, cqe.user_data);
		ASSERT_EQ(sizeof(ev[0][0]), cqe.res);
		ASSERT_TRUE(cqe.flags & IORING_CQE_F_MORE);
		ASSERT_TRUE(cqe.flags & IORING_CQE_F_BUFFER);
		buffer = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
		ASSERT_GT(BUFFERS, buffer);
		EXPECT_EQ(id, ev[buffer][0].id);
		EXPECT_EQ(i, ev[buffer][0].cookie);
		EXPECT_NOT_EARLY(&ev[buffer][0]);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* A completion that comes while timers are walked is no signal: none ends the walk. */
URING_TEST(completion_is_no_signal)
{
	enum { TIMERS = 20000, ROUNDS = 200 };
	const int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct htw_timer_info entry;
	unsigned int met = 0;

	ASSERT_LE(0, clock);
	ASSERT_EQ(TIMERS, htw_start_many(self->fd, ~0ULL, 0, TIMERS, NULL));
	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct itimerspec when = { .it_value.tv_nsec = (1 + round) * 10 * USEC };
		struct htw_list_args list = htw_list_of(&entry, 1);
		struct io_uring_cqe cqe;
		uint64_t expirations;
		bool came;

		io_uring_prep_poll_add(next_sqe(&self->ring, 0), clock, POLLIN);
		ASSERT_EQ(1, io_uring_submit(&self->ring));
		ASSERT_EQ(0, timerfd_settime(clock, 0, &when, NULL));
		/* None is, so all are looked at. */
		list.flags = HTW_LIST_DUE;
		ASSERT_EQ(0, htw_call(self->fd, HTW_LIST, &list));
		EXPECT_EQ(0, list.done);
		came = completion(&self->ring, &cqe, 0);
		met += came;
		ASSERT_TRUE(came || completion(&self->ring, &cqe, EVENTUALLY));
		ASSERT_EQ(sizeof(expirations), read(clock, &expirations, sizeof(expirations)));
	}
	close(clock);
	if (!met)
		SKIP(return, "none of %d completions came meanwhile", ROUNDS);
}

TEST_HARNESS_MAIN
