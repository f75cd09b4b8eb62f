// SPDX-License-Identifier: GPL-2.0-only
#include "reader.h"

#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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
	__u32 first;		/* number of the first one in the ring */
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

/* Events that are read one after the other have fired one after the other. */
static void check_order(const struct context *c, const struct batch *b, unsigned int n)
{
	for (unsigned int i = 1; i < n && !c->loose; i++)
		if (b->events[i].fired < b->events[i - 1].fired)
			report_violation("context %u: an event that fired at %llu is before one that fired at %llu",
					 c->number, b->events[i - 1].fired, b->events[i].fired);
}

static int unread(int fd, const struct htw_event *ev)
{
	return htw_mod(fd, (struct htw_mod){
		.id = ev->id, .deadline = ev->deadline, .firings = ev->missed + 1,
		.flags = HTW_MOD_UNREAD,
	});
}

/* Book events. Return the number of sentinels among them. */
static unsigned int book(struct reader *r, struct batch *b, unsigned int n)
{
	struct context *c = r->context;
	unsigned int sentinels = 0;

	check_order(c, b, n);
	for (unsigned int i = 0; i < n; i++) {
		b->window.number = b->first + i;
		b->window.fd = c->fd;
		b->window.unread = c->table && below(r, 2) ? unread : NULL;
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

static unsigned int take(struct context *c, struct batch *b, unsigned int room)
{
	const __u32 entries = c->setup.ring_entries;
	__u32 tail, head = c->ring->head;
	unsigned int n = 0;

	tail = __atomic_load_n(&c->ring->tail, __ATOMIC_ACQUIRE);
	if (tail - head > entries) {
		report_violation("context %u: the ring's tail is %u, its head %u", c->number, tail,
				 head);
		return 0;
	}
	b->first = head;
	for (; head != tail && n < room; head++) {
		struct htw_event *ev = HTW_RING_EVENT(c->ring, entries, head);

		b->events[n++] = *ev;
		/* If the tail came before the entry, what is found has no cookie of ours. */
		memset(ev, 0, sizeof(*ev));
	}
	__atomic_store_n(&c->ring->head, head, __ATOMIC_RELEASE);
	return n;
}

/*
 * The ring has one program's side: readers of all processes take turns. Whoever has come for an
 * edge or a signal waits for its turn, as the one before may have looked before that. Nobody else
 * need have been woken, so nothing is left behind. Return the number of sentinels.
 */
static unsigned int empty_ring(struct reader *r)
{
	struct context *c = r->context;
	unsigned int n, sentinels = 0;
	struct batch b;

	do {
		while (__atomic_exchange_n(&c->state->consumer, 1, __ATOMIC_ACQUIRE))
			sched_yield();
		n = take(c, &b, 1 + below(r, EVENTS_MOST));
		__atomic_store_n(&c->state->consumer, 0, __ATOMIC_RELEASE);
		b.window = context_window(c, 0);
		b.window.in_ring = true;
		sentinels += book(r, &b, n);
	} while (n);
	return sentinels;
}

/* Move what is queued into the ring, of which no reader is told; true if something was. */
static bool flush(const struct context *c)
{
	int ret;

	if (!(__atomic_load_n(&c->ring->flags, __ATOMIC_RELAXED) & HTW_RING_OVERFLOW))
		return false;
	ret = htw_call(c->fd, HTW_FLUSH, NULL);
	if (ret < 0)
		report_violation("context %u: HTW_FLUSH: %s", c->number, strerror(-ret));
	return ret > 0;
}

/* True if the reader shall end. */
static bool take_all(struct reader *r)
{
	unsigned int sentinels = 0;

	do {
		sentinels += empty_ring(r);
	} while (flush(r->context));
	return shall_end(r, sentinels);
}

static ssize_t read_events(struct reader *r, struct htw_event *ev, unsigned int room)
{
	struct iovec parts[2] = {
		{ ev, room / 2 * sizeof(*ev) },
		{ ev + room / 2, (room - room / 2) * sizeof(*ev) },
	};

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

	if (r->context->ring)
		return take_all(r) ? 1 : -EAGAIN;
	size = read_events(r, b.events, 1 + below(r, EVENTS_MOST));
	if (size < 0 && errno == EAGAIN && r->context->nonblock)
		return -EAGAIN;
	if (size < 0 && errno == EINTR)
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
