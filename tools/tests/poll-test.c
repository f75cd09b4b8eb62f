// SPDX-License-Identifier: GPL-2.0-only
/*
 * poll() and epoll: readable if read() would return an event, and only then
 */
#include "../common/poll-number.h"
#include "htw-epoll.h"

#include <pthread.h>

HTW_TEST(agrees_with_read)
{
	struct htw_event ev;
	int i;

	EXPECT_EQ(0, htw_poll(self->fd, 0));
	for (i = 0; i < 5; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	ASSERT_TRUE(htw_eventually(htw_due(self->fd) == 5));
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	}
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
}

HTW_TEST(pending_is_not_readable)
{
	struct htw_event ev;
	__u64 deadline = now_ns() + 200 * MSEC;
	int revents;

	ASSERT_NE(0, htw_start_abs(self->fd, deadline, 1));
	do {
		revents = htw_poll(self->fd, 0);
		if (now_ns() < deadline)
			ASSERT_EQ(0, revents);
	} while (!revents && now_ns() < deadline + EVENTUALLY);
	EXPECT_EQ(POLLIN, revents);
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
}

HTW_TEST(poll_waits)
{
	__u64 deadline = now_ns() + 20 * MSEC;
	struct htw_event ev;

	ASSERT_NE(0, htw_start_abs(self->fd, deadline, 1));
	EXPECT_TRUE(htw_wait_readable(self->fd));
	EXPECT_LE(deadline, now_ns());
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
}

HTW_TEST(level_triggered)
{
	int epfd = htw_watch(self->fd, EPOLLIN), i;
	struct htw_event ev[2];

	ASSERT_LE(0, epfd);
	EXPECT_EQ(0, htw_ready_now(epfd));
	ASSERT_NE(0, htw_start(self->fd, 5 * MSEC, 1));
	ASSERT_NE(0, htw_start(self->fd, 5 * MSEC, 2));
	ASSERT_EQ(1, htw_ready_soon(epfd));
	ASSERT_TRUE(htw_eventually(htw_due(self->fd) == 2));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(1, htw_ready_now(epfd));
	ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	EXPECT_EQ(1, htw_ready_now(epfd));
	ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	EXPECT_EQ(0, htw_ready_now(epfd));
}

HTW_TEST(edge_triggered)
{
	int epfd = htw_watch(self->fd, EPOLLIN | EPOLLET), i;
	struct htw_event ev[64];

	ASSERT_LE(0, epfd);
	EXPECT_EQ(0, htw_ready_now(epfd));
	for (i = 0; i < 50; i++) {
		ASSERT_NE(0, htw_start(self->fd, i % 3 * MSEC, i));
		ASSERT_EQ(1, htw_ready_soon(epfd));
		EXPECT_EQ(0, htw_ready_now(epfd));
		/* What comes before the last one has been read is no edge. */
		if (i % 2) {
			ASSERT_NE(0, htw_start(self->fd, 0, i));
			EXPECT_EQ(0, htw_ready_now(epfd));
			ASSERT_TRUE(htw_eventually(htw_due(self->fd) == 2));
		}
		EXPECT_EQ(1 + i % 2, htw_read(self->fd, ev, ARRAY_SIZE(ev)));
	}
}

/* There is one again when all has been read, of however many, by a call with room for more. */
HTW_TEST(edge_for_one_more_behind_many)
{
	enum { COUNT = 1000 };
	int epfd = htw_watch(self->fd, EPOLLIN | EPOLLET), i;
	static struct htw_event ev[COUNT + 1];
	static __u64 ids[COUNT];

	ASSERT_LE(0, epfd);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(COUNT, htw_start_many(self->fd, 0, 0, COUNT, ids));
		ASSERT_EQ(1, htw_ready_soon(epfd));
		/* Of the rest there may be one a tick later. */
		ASSERT_EQ(1, htw_read(self->fd, ev, 1));
		ASSERT_EQ(1, htw_read(self->fd, ev, 1));
		ASSERT_NE(0, htw_start(self->fd, 0, 1));
		ASSERT_TRUE(htw_eventually(htw_due(self->fd) == COUNT - 1));
		ASSERT_EQ(COUNT - 1, htw_read(self->fd, ev, COUNT + 1));
	}
}

HTW_TEST(edge_triggered_in_time_for_the_last)
{
	int epfd = htw_watch(self->fd, EPOLLIN | EPOLLET), n;
	struct htw_event ev[16];
	unsigned int got = 0;
	__u64 start;

	ASSERT_LE(0, epfd);
	start = now_ns();
	for (n = 0; n < 2000; n++)
		ASSERT_NE(0, htw_start_abs(self->fd, start + n * 200 * USEC, n));
	/* Read until empty at each edge: the last edge must not be missing. */
	while (got < 2000) {
		ASSERT_EQ(1, htw_ready_soon(epfd));
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0)
			got += n;
		ASSERT_EQ(-EAGAIN, n);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(one_shot_watch)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	int epfd = htw_watch(self->fd, event.events);

	ASSERT_LE(0, epfd);
	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_EQ(1, htw_ready_soon(epfd));
	EXPECT_EQ(0, htw_ready_now(epfd));
	ASSERT_EQ(0, epoll_ctl(epfd, EPOLL_CTL_MOD, self->fd, &event));
	EXPECT_EQ(1, htw_ready_now(epfd));
}

/* Added to an epoll set that already watches, and to one that is created afterwards. */
HTW_TEST(watched_after_it_expired)
{
	int epfd;

	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	epfd = htw_watch(self->fd, EPOLLIN | EPOLLET);
	ASSERT_LE(0, epfd);
	EXPECT_EQ(1, htw_ready_now(epfd));
}

HTW_TEST(cancelled_while_readable)
{
	int level = htw_watch(self->fd, EPOLLIN);
	struct htw_cancel_args cancel;

	ASSERT_LE(0, level);
	cancel = htw_cancel_of(htw_start(self->fd, 0, 1));
	ASSERT_EQ(1, htw_ready_soon(level));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(0, htw_ready_now(level));
}

/*
 * An event that HTW_MOD takes back is neither polled nor read until the timer
 * expires again.
 */
HTW_TEST(taken_back)
{
	int level = htw_watch(self->fd, EPOLLIN), i;
	struct htw_event ev;
	__u64 id;

	ASSERT_LE(0, level);
	id = htw_start(self->fd, 0, 1);
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(1, htw_ready_soon(level));
		ASSERT_EQ(0, htw_move(self->fd, id, HOUR, 0));
		EXPECT_EQ(0, htw_poll(self->fd, 0));
		EXPECT_EQ(0, htw_ready_now(level));
		EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
		ASSERT_EQ(0, htw_move(self->fd, id, i % 2 * MSEC, 0));
	}
	ASSERT_EQ(1, htw_ready_soon(level));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(0, htw_ready_now(level));
}

HTW_TEST(periodic)
{
	int epfd = htw_watch(self->fd, EPOLLIN | EPOLLET), i;
	struct htw_add_args add = htw_rel(0, 1);
	struct htw_event ev;

	ASSERT_LE(0, epfd);
	add.interval = 2 * MSEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(1, htw_ready_soon(epfd));
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	}
}

struct waiter {
	pthread_t thread;
	pid_t tid;
	int fd;
	int epfd;
	int revents;
	int got;
};

static void *wait_readable(void *arg)
{
	struct waiter *w = arg;

	__atomic_store_n(&w->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	w->revents = htw_poll(w->fd, EVENTUALLY / MSEC);
	return NULL;
}

/*
 * /proc shows poll()'s first argument as an address, so compare only the call's
 * number.
 */
static bool polls(const struct waiter *w)
{
	char path[64], buf[256];

	snprintf(path, sizeof(path), "/proc/%d/syscall", w->tid);
	return !htw_read_file(path, buf, sizeof(buf)) && atol(buf) == SYS_OF_POLL &&
	       buf[0] != 'r';
}

/* Start threads that wait, until all of them sleep. */
static bool start_waiters(struct waiter *w, unsigned int count, int fd, void *(*wait)(void *arg),
			  bool (*sleeps)(const struct waiter *w))
{
	for (unsigned int i = 0; i < count; i++) {
		w[i] = (struct waiter){ .fd = fd };
		if (pthread_create(&w[i].thread, NULL, wait, &w[i]))
			return false;
	}
	for (unsigned int i = 0; i < count; i++)
		if (!htw_eventually(__atomic_load_n(&w[i].tid, __ATOMIC_ACQUIRE) && sleeps(&w[i])))
			return false;
	return true;
}

HTW_TEST(every_waiter_wakes)
{
	struct waiter w[6];
	unsigned int i;

	ASSERT_TRUE(start_waiters(w, ARRAY_SIZE(w), self->fd, wait_readable, polls));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(POLLIN, w[i].revents);
	}
}

static void *wait_exclusively(void *arg)
{
	struct waiter *w = arg;
	struct epoll_event event;
	struct htw_event ev;

	w->epfd = htw_watch(w->fd, EPOLLIN | EPOLLEXCLUSIVE);
	__atomic_store_n(&w->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	w->revents = epoll_pwait(w->epfd, &event, 1, EVENTUALLY / MSEC, NULL);
	/* Leave the other events unread. */
	w->got = htw_read(w->fd, &ev, 1);
	return NULL;
}

static bool waits_in_epoll(const struct waiter *w)
{
	return htw_sleeps_in(w->tid, SYS_epoll_pwait, w->epfd);
}

/*
 * Of tasks that wait with EPOLLEXCLUSIVE, one is woken; if it leaves events and does not come
 * back, the next is, half a second later.
 */
HTW_TEST(exclusive_waiters_that_leave_events)
{
	struct waiter w[6];
	__u64 deadline;
	unsigned int i;

	ASSERT_TRUE(start_waiters(w, ARRAY_SIZE(w), self->fd, wait_exclusively, waits_in_epoll));
	/* All expire together, most of them before any task runs. */
	deadline = now_ns() + 20 * MSEC;
	for (i = 0; i < ARRAY_SIZE(w); i++)
		ASSERT_NE(0, htw_start_abs(self->fd, deadline, i));
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		EXPECT_EQ(1, w[i].revents);
		EXPECT_EQ(1, w[i].got);
		close(w[i].epfd);
	}
}

HTW_TEST(closed_while_watched)
{
	int fd = htw_open(O_NONBLOCK), epfd;

	ASSERT_LE(0, fd);
	epfd = htw_watch(fd, EPOLLIN);
	ASSERT_LE(0, epfd);
	ASSERT_NE(0, htw_start(fd, 30 * MSEC, 1));
	close(fd);
	EXPECT_TRUE(htw_quiet_for(self->fd, 60 * MSEC));
	EXPECT_EQ(0, htw_ready_now(epfd));
}

TEST_HARNESS_MAIN
