// SPDX-License-Identifier: GPL-2.0-only
/*
 * fork(), dup(), descriptors passed on, close(): the context lives until its
 * last user closes it
 */
#include "../common/pass-fd.h"
#include "htw-epoll.h"

#include <pthread.h>
#include <signal.h>

HTW_TEST(shared_over_fork)
{
	struct htw_event ev;
	__u64 id;

	/* Added by the parent, read by the child. */
	id = htw_start(self->fd, MSEC, 1);
	EXPECT_TRUE(htw_in_child(htw_collect(self->fd, &ev, 1) == 1 && ev.id == id));
	EXPECT_EQ(0, htw_timers(self->fd));

	/* Added by a child that exits before the deadline. */
	EXPECT_TRUE(htw_in_child(htw_start(self->fd, 50 * MSEC, 2)));
	EXPECT_EQ(1, htw_timers(self->fd));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(2, ev.cookie);
	EXPECT_NOT_EARLY(&ev);

	/* Cancelled by a child. */
	id = htw_start(self->fd, ~0ULL, 3);
	EXPECT_TRUE(htw_in_child(!htw_stop(self->fd, id)));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, id));
}

HTW_TEST(survives_the_opener)
{
	struct htw_event ev;
	int pair[2], fd;
	pid_t pid;

	/*
	 * The child opens the device, starts a timer and exits; the parent has
	 * the descriptor.
	 */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = htw_open(O_NONBLOCK);
		_exit(!htw_start(fd, 50 * MSEC, 9) || !htw_start(fd, ~0ULL, 10) ||
		      !htw_send_fd(pair[0], fd));
	}
	fd = htw_receive_fd(pair[1]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	EXPECT_EQ(2, htw_timers(fd));
	ASSERT_EQ(1, htw_collect(fd, &ev, 1));
	EXPECT_EQ(9, ev.cookie);
	EXPECT_NE(0, htw_start(fd, 0, 11));
	ASSERT_EQ(1, htw_collect(fd, &ev, 1));
	EXPECT_EQ(11, ev.cookie);
	EXPECT_EQ(1, htw_timers(fd));
	close(fd);
}

HTW_TEST(shared_over_dup)
{
	int dup1 = dup(self->fd), dup2 = dup(self->fd);
	struct htw_event ev;
	__u64 id[3];

	ASSERT_LE(0, dup1);
	ASSERT_LE(0, dup2);
	id[0] = htw_start(self->fd, ~0ULL, 1);
	id[1] = htw_start(dup1, ~0ULL, 2);
	id[2] = htw_start(dup2, MSEC, 3);
	EXPECT_EQ(3, htw_timers(dup1));
	EXPECT_EQ(0, htw_stop(dup2, id[0]));

	/* Not the last descriptor: no timer may be touched. */
	close(dup2);
	EXPECT_EQ(2, htw_timers(self->fd));
	ASSERT_EQ(1, htw_collect(dup1, &ev, 1));
	EXPECT_EQ(id[2], ev.id);
	close(dup1);
	EXPECT_EQ(0, htw_stop(self->fd, id[1]));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(one_context_for_each_open)
{
	int other = htw_open(O_NONBLOCK);
	struct htw_event ev;

	ASSERT_LE(0, other);
	ASSERT_NE(0, htw_start(other, 0, 1));
	ASSERT_TRUE(htw_wait_readable(other));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(1, htw_read(other, &ev, 1));
	close(other);
}

/* The last close removes timers that are due at the same moment, in whatever state. */
HTW_TEST(close_while_timers_expire)
{
	struct htw_add_args add;
	int round, i, fd;

	for (round = 0; round < 100; round++) {
		fd = htw_open(O_NONBLOCK);
		ASSERT_LE(0, fd);
		for (i = 0; i < 50; i++) {
			add = htw_rel(i * 40 * USEC, i);
			add.interval = i % 2 ? self->tick : 0;
			ASSERT_EQ(0, htw_call(fd, HTW_ADD, &add));
		}
		ASSERT_EQ(0, htw_pin(round % 2 ? htw_other_cpu() : 0));
		close(fd);
	}
	ASSERT_EQ(0, htw_pin(0));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

struct blocked {
	int fd;
	pid_t tid;
	int ret;
};

static void *read_blocked(void *arg)
{
	struct blocked *b = arg;
	struct htw_event ev;

	__atomic_store_n(&b->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	b->ret = htw_read(b->fd, &ev, 1);
	return NULL;
}

/* As with any file, the blocked read keeps the file open and is not woken. */
HTW_TEST(close_under_a_blocked_reader)
{
	struct blocked b = { .fd = htw_open(0) };
	pthread_t thread;

	ASSERT_LE(0, b.fd);
	ASSERT_NE(0, htw_start(b.fd, 300 * MSEC, 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_blocked, &b));
	ASSERT_TRUE(htw_eventually(__atomic_load_n(&b.tid, __ATOMIC_ACQUIRE) &&
				   (htw_sleeps_in(b.tid, SYS_read, b.fd) ||
				    __atomic_load_n(&b.ret, __ATOMIC_ACQUIRE))));
	close(b.fd);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, b.ret);
}

/*
 * A process that writes the number of its epoll set and waits there. Once woken, it says so and
 * does not read.
 */
static pid_t start_idler(int fd, int to)
{
	struct epoll_event event;
	pid_t pid = fork();
	int epfd;

	if (pid)
		return pid;
	epfd = htw_watch(fd, EPOLLIN | EPOLLEXCLUSIVE);
	if (epfd < 0 || write(to, &epfd, sizeof(epfd)) != sizeof(epfd) ||
	    epoll_pwait(epfd, &event, 1, -1, NULL) != 1 || write(to, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void *wait_in_epoll(void *arg)
{
	struct blocked *b = arg;
	struct epoll_event event;

	__atomic_store_n(&b->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	b->ret = epoll_pwait(b->fd, &event, 1, EVENTUALLY / MSEC, NULL);
	return NULL;
}

/* The event that a process was woken for is not left unread: another one is woken for it. */
HTW_TEST(killed_before_it_reads)
{
	struct blocked b = { 0 };
	struct htw_event ev;
	pthread_t thread;
	int to[2], epfd;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(to));
	pid = start_idler(self->fd, to[1]);
	ASSERT_LT(0, pid);
	ASSERT_EQ(sizeof(epfd), read(to[0], &epfd, sizeof(epfd)));
	ASSERT_TRUE(htw_eventually(htw_sleeps_in(pid, SYS_epoll_pwait, epfd)));
	/* Behind the other one on the queue. */
	b.fd = htw_watch(self->fd, EPOLLIN | EPOLLEXCLUSIVE);
	ASSERT_LE(0, b.fd);
	ASSERT_EQ(0, pthread_create(&thread, NULL, wait_in_epoll, &b));
	ASSERT_TRUE(htw_eventually(__atomic_load_n(&b.tid, __ATOMIC_ACQUIRE) &&
				   htw_sleeps_in(b.tid, SYS_epoll_pwait, b.fd)));
	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_EQ(1, read(to[0], &c, 1));
	EXPECT_TRUE(htw_sleeps_in(b.tid, SYS_epoll_pwait, b.fd));

	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, b.ret);
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
	close(b.fd);
	close(to[0]);
	close(to[1]);
}

HTW_TEST(open_by_many)
{
	enum { COUNT = 200 };
	int fds[COUNT], i;
	struct htw_event ev;

	for (i = 0; i < COUNT; i++) {
		fds[i] = htw_open(O_NONBLOCK);
		ASSERT_LE(0, fds[i]);
		ASSERT_NE(0, htw_start(fds[i], (1 + i % 7) * MSEC, i));
	}
	for (i = COUNT - 1; i >= 0; i--) {
		ASSERT_EQ(1, htw_collect(fds[i], &ev, 1));
		EXPECT_EQ(i, ev.cookie);
		EXPECT_NOT_EARLY(&ev);
		close(fds[i]);
	}
}

TEST_HARNESS_MAIN
