// SPDX-License-Identifier: GPL-2.0-only
#include "reader.h"

#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "report.h"

#define EVENTS_MOST	64

/* A batch of events and what a reader knows about it. */
struct batch {
	struct htw_event events[EVENTS_MOST];
	struct window window;
};

static __u64 below(struct reader *r, __u64 n)
{
	return xorshift64(&r->random) % n;
}

void reader_send_sentinels(struct context *c, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!htw_start_abs(c->fd, 0, COOKIE_SENTINEL << 56))
			report_broken("context %u: cannot start a sentinel: %s", c->number,
				      strerror(errno));
}

/* Events that are taken one after the other from one wheel. */
static void check_order(const struct context *c, const struct batch *b, unsigned int n)
{
	const bool has_one_wheel = c->clock == (int)HTW_CLOCK_MANUAL ||
				   c->setup.flags & HTW_SETUP_ORDERED;

	if (c->loose || !has_one_wheel)
		return;
	for (unsigned int i = 1; i < n; i++)
		if (b->events[i].taken < b->events[i - 1].taken)
			report_violation("context %u: an event that was taken at %llu is before one that was taken at %llu",
					 c->number, b->events[i - 1].taken, b->events[i].taken);
}

/* Book events. Return the number of sentinels among them. */
static unsigned int book(struct reader *r, struct batch *b, unsigned int n)
{
	struct context *c = r->context;
	unsigned int sentinels = 0;

	check_order(c, b, n);
	for (unsigned int i = 0; i < n; i++) {
		account_event(c->number, &b->events[i], &b->window);
		sentinels += COOKIE_KIND(b->events[i].cookie) == COOKIE_SENTINEL;
	}
	__atomic_fetch_add(&c->state->events, n, __ATOMIC_RELAXED);
	return sentinels;
}

/* A sentinel ends the reader that got it; others are for other readers. */
static bool shall_end(const struct reader *r, unsigned int sentinels)
{
	if (sentinels)
		reader_send_sentinels(r->context, sentinels - 1);
	return sentinels;
}

/* Read to memory that ends before @room events, and may not be present: what does not fit stays. */
static ssize_t read_to_edge(struct reader *r, struct htw_event *ev, unsigned int room)
{
	const size_t most = EVENTS_MOST * sizeof(*ev), fits = below(r, room) * sizeof(*ev);
	ssize_t size;

	if (!r->edge) {
		r->edge = htw_before_page(most, PROT_NONE);
		if (!r->edge)
			report_broken("no memory");
		r->edge += most;
	}
	if (below(r, 2))
		madvise(r->edge - getpagesize(), getpagesize(), MADV_DONTNEED);
	size = read(r->context->fd, r->edge - fits, room * sizeof(*ev));
	if (size > 0 && (size_t)size <= fits)
		memcpy(ev, r->edge - fits, size);
	return size;
}

static ssize_t read_events(struct reader *r, struct htw_event *ev, unsigned int room)
{
	struct iovec parts[2] = {
		{ ev, room / 2 * sizeof(*ev) },
		{ ev + room / 2, (room - room / 2) * sizeof(*ev) },
	};

	if (!below(r, 16))
		return read_to_edge(r, ev, room);
	if (room > 1 && !below(r, 4))
		return readv(r->context->fd, parts, 2);
	return read(r->context->fd, ev, room * sizeof(*ev));
}

/* Book the result of a read; true if the reader shall end. */
static bool book_read(struct reader *r, struct batch *b, ssize_t size, __u64 before)
{
	if (size <= 0 || size % sizeof(*b->events) || size > (ssize_t)sizeof(b->events)) {
		report_violation("context %u: a read returned %zd", r->context->number, size);
		return false;
	}
	b->window = context_window(r->context, before);
	return shall_end(r, book(r, b, size / sizeof(*b->events)));
}

/* Read once. Return 1 if the reader shall end, 0 if there may be more, else -EAGAIN. */
static int read_once(struct reader *r)
{
	__u64 before = context_time_before(r->context);
	struct batch b;
	ssize_t size;

	size = read_events(r, b.events, 1 + below(r, EVENTS_MOST));
	if (size < 0 && errno == EAGAIN && r->context->nonblock)
		return -EAGAIN;
	/* EFAULT if the first event did not fit: it is still there. */
	if (size < 0 && (errno == EINTR || errno == EFAULT))
		return 0;
	if (size < 0) {
		report_violation("context %u: read: %s", r->context->number, strerror(errno));
		return 1;
	}
	return book_read(r, &b, size, before);
}

/* Read until there are no events; true if the reader shall end. */
static bool read_all(struct reader *r)
{
	int ret;

	do {
		ret = read_once(r);
	} while (!ret);
	return ret == 1;
}

static void spin(struct reader *r)
{
	while (!read_all(r))
		sleep_until(now_ns() + below(r, MSEC));
}

static void wait_in_poll(struct reader *r)
{
	int events;

	do {
		events = htw_poll(r->context->fd, -1);
		if (events != POLLIN && events != -EINTR)
			report_violation("context %u: poll: %d", r->context->number, events);
	} while (read_once(r) != 1);
}

static void wait_in_read(struct reader *r)
{
	while (read_once(r) != 1)
		;
}

static void wait_in_epoll(struct reader *r, __u32 flags)
{
	struct epoll_event event = { .events = EPOLLIN | flags };
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, r->context->fd, &event))
		report_broken("epoll: %s", strerror(errno));
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) < 0 && errno != EINTR)
			report_broken("epoll_wait: %s", strerror(errno));
		if (flags & EPOLLET ? read_all(r) : read_once(r) == 1)
			break;
	}
	close(epoll);
}

static void wait_for_signal(struct reader *r)
{
	const struct f_owner_ex owner = { F_OWNER_TID, syscall(SYS_gettid) };
	const int fd = r->context->fd, flags = fcntl(fd, F_GETFL);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	if (flags < 0 || fcntl(fd, F_SETOWN_EX, &owner) || fcntl(fd, F_SETFL, flags | O_ASYNC))
		report_broken("O_ASYNC: %s", strerror(errno));
	while (!read_all(r))
		sigwaitinfo(&set, NULL);
	fcntl(fd, F_SETFL, flags);
}

/* The result of the operation that is queued. */
static int uring_result(struct io_uring *ring, __u32 *flags)
{
	struct io_uring_cqe *cqe;
	int ret;

	do {
		ret = io_uring_submit_and_wait(ring, 1);
	} while (ret == -EINTR);
	if (ret < 0)
		report_broken("io_uring: %s", strerror(-ret));
	ret = io_uring_peek_cqe(ring, &cqe);
	if (ret)
		report_broken("io_uring: %s", strerror(-ret));
	ret = cqe->res;
	*flags = cqe->flags;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

static void uring_read(struct reader *r, struct io_uring *ring)
{
	bool end = false;
	struct batch b;
	__u32 flags;

	while (!end) {
		__u64 before = context_time_before(r->context);
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
		int ret;

		io_uring_prep_read(sqe, r->context->fd, b.events,
				   (1 + below(r, EVENTS_MOST)) * sizeof(*b.events), 0);
		ret = uring_result(ring, &flags);
		if (ret == -EAGAIN && r->context->nonblock) {
			io_uring_prep_poll_add(io_uring_get_sqe(ring), r->context->fd, POLLIN);
			ret = uring_result(ring, &flags);
			if (ret < 0)
				report_violation("context %u: io_uring poll: %s",
						 r->context->number, strerror(-ret));
		} else if (ret != -EINTR) {
			end = book_read(r, &b, ret, before);
		}
	}
}

static void uring_poll(struct reader *r, struct io_uring *ring)
{
	__u32 flags = 0;
	int ret;

	do {
		if (!(flags & IORING_CQE_F_MORE))
			io_uring_prep_poll_multishot(io_uring_get_sqe(ring), r->context->fd,
						     POLLIN);
		ret = uring_result(ring, &flags);
		if (ret < 0)
			report_violation("context %u: io_uring multishot poll: %s",
					 r->context->number, strerror(-ret));
	} while (!read_all(r));
}

static void wait_in_uring(struct reader *r)
{
	struct io_uring ring;
	int ret = io_uring_queue_init(8, &ring, 0);

	if (ret)
		report_broken("io_uring_queue_init: %s", strerror(-ret));
	if (r->kind == READER_URING_READ)
		uring_read(r, &ring);
	else
		uring_poll(r, &ring);
	io_uring_queue_exit(&ring);
}

void *reader_run(void *arg)
{
	struct reader *r = arg;

	switch (r->kind) {
	case READER_POLL:
		wait_in_poll(r);
		break;
	case READER_BLOCKING:
		wait_in_read(r);
		break;
	case READER_EPOLL:
		wait_in_epoll(r, 0);
		break;
	case READER_EPOLL_EDGE:
		wait_in_epoll(r, EPOLLET);
		break;
	case READER_EPOLL_EXCLUSIVE:
		wait_in_epoll(r, EPOLLEXCLUSIVE);
		break;
	case READER_SIGIO:
		wait_for_signal(r);
		break;
	case READER_URING_READ:
	case READER_URING_POLL:
		wait_in_uring(r);
		break;
	default:
		spin(r);
		break;
	}
	__atomic_fetch_add(&r->context->state->readers_ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}
