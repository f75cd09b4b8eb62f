// SPDX-License-Identifier: GPL-2.0-only
/*
 * What was due ends without being read: who waits is told of what comes next,
 * also while a bucket is to be moved down, which is nothing to be read
 */
#include "htw-test.h"
#include "htw-epoll.h"
#include <signal.h>

/* A window of level 0, with a tick of 1 ms. */
#define WINDOW	(256 * MSEC)

enum how { CANCEL, MOD, HARVEST };

/*
 * The first timer is due, and the tasks that wait have been told. Many others are in a bucket that
 * can be moved down one window before its time, which no call did.
 */
struct timers {
	int fd;
	__u64 base;	/* where a window begins */
	__u64 next;	/* the deadline of the others */
	__u64 id;	/* the first one */
};

FIXTURE(told) {
	struct timers t;
};

FIXTURE_VARIANT(told) {
	enum how how;
};

FIXTURE_VARIANT_ADD(told, cancel) { .how = CANCEL };
FIXTURE_VARIANT_ADD(told, mod) { .how = MOD };
FIXTURE_VARIANT_ADD(told, harvest) { .how = HARVEST };

FIXTURE_SETUP(told)
{
	self->t.fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->t.fd);
}

FIXTURE_TEARDOWN(told)
{
	close(self->t.fd);
}

/* After the waiter is there. */
static void start(struct __test_metadata *_metadata, struct timers *t)
{
	t->base = (now_ns() / WINDOW + 2) * WINDOW;
	t->next = t->base + 7 * WINDOW + 20 * MSEC;
	for (unsigned int i = 0; i < 100; i++)
		ASSERT_NE(0, htw_start_abs(t->fd, t->next + i * MSEC, i));
	t->id = htw_start_abs(t->fd, t->base + 10 * MSEC, 1000);
	ASSERT_NE(0, t->id);
}

/*
 * End the first timer before the others are due.
 *
 * Return: false if the machine was too slow, and the others are due as well. Then the descriptor
 * has been readable all the time since the first event, so there is no second edge or signal.
 */
static bool end_first(struct __test_metadata *_metadata, struct timers *t, enum how how)
{
	struct htw_timer_info entry;
	struct htw_list_args list = htw_list_of(&entry, 1);

	sleep_until(t->base + 6 * WINDOW + 50 * MSEC);
	switch (how) {
	case CANCEL:
		ASSERT_EQ(0, htw_stop(t->fd, t->id));
		break;
	case MOD:
		ASSERT_EQ(0, htw_move(t->fd, t->id, t->base + HOUR, HTW_F_ABS));
		break;
	case HARVEST:
		list.flags = HTW_LIST_DUE;
		ASSERT_EQ(0, htw_call(t->fd, HTW_HARVEST, &list));
		ASSERT_EQ(1, list.done);
		break;
	}
	return now_ns() < t->next;
}

TEST_F(told, by_an_edge)
{
	const int epfd = htw_watch(self->t.fd, EPOLLIN | EPOLLET);
	struct epoll_event event;

	start(_metadata, &self->t);
	ASSERT_EQ(1, epoll_wait(epfd, &event, 1, EVENTUALLY / MSEC));
	if (!end_first(_metadata, &self->t, variant->how))
		SKIP(return, "the machine was too slow");
	EXPECT_EQ(1, epoll_wait(epfd, &event, 1, EVENTUALLY / MSEC));
	EXPECT_LE(self->t.next, now_ns());
	close(epfd);
}

TEST_F(told, by_a_signal)
{
	const struct timespec patience = { .tv_sec = EVENTUALLY / SEC };
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGIO);
	ASSERT_EQ(0, sigprocmask(SIG_BLOCK, &signals, NULL));
	ASSERT_EQ(0, fcntl(self->t.fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(self->t.fd, F_SETFL, fcntl(self->t.fd, F_GETFL) | O_ASYNC));
	start(_metadata, &self->t);
	ASSERT_EQ(SIGIO, sigtimedwait(&signals, NULL, &patience));
	if (!end_first(_metadata, &self->t, variant->how))
		SKIP(return, "the machine was too slow");
	EXPECT_EQ(SIGIO, sigtimedwait(&signals, NULL, &patience));
	EXPECT_LE(self->t.next, now_ns());
}

TEST_HARNESS_MAIN
