// SPDX-License-Identifier: GPL-2.0-only
/*
 * O_ASYNC: signals for new events
 *
 * The signals are blocked and waited for, so that they are handled at known
 * points.
 */
#include <pthread.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "htw-test.h"

static bool block(int sig)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, sig);
	return !sigprocmask(SIG_BLOCK, &set, NULL);
}

/* Wait for the signal and return its number, or -EAGAIN after @ns. */
static int wait_signal(int sig, siginfo_t *info, __u64 ns)
{
	const struct timespec ts = { .tv_sec = ns / SEC, .tv_nsec = ns % SEC };
	sigset_t set;
	int ret;

	sigemptyset(&set);
	sigaddset(&set, sig);
	do {
		ret = sigtimedwait(&set, info, &ts);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : ret;
}

static int set_async(int fd, bool on)
{
	const int flags = fcntl(fd, F_GETFL);

	return fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC);
}

HTW_TEST(sigio)
{
	struct htw_event ev;
	siginfo_t info;
	int i;

	ASSERT_TRUE(block(SIGIO));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, set_async(self->fd, true));
	for (i = 0; i < 10; i++) {
		const __u64 deadline = now_ns() + i * MSEC;

		ASSERT_NE(0, htw_start_abs(self->fd, deadline, i));
		ASSERT_EQ(SIGIO, wait_signal(SIGIO, &info, EVENTUALLY));
		EXPECT_LE(deadline, now_ns());
		/* There is an event to read. */
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
		EXPECT_EQ(i, ev.cookie);
	}
	EXPECT_EQ(-EAGAIN, wait_signal(SIGIO, &info, 0));
}

/* With F_SETSIG the signal carries the descriptor and the poll events. */
HTW_TEST(setsig)
{
	const int sig = SIGRTMIN + 1;
	siginfo_t info;

	ASSERT_TRUE(block(sig));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, fcntl(self->fd, F_SETSIG, sig));
	ASSERT_EQ(0, set_async(self->fd, true));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	ASSERT_EQ(sig, wait_signal(sig, &info, EVENTUALLY));
	EXPECT_EQ(POLL_IN, info.si_code);
	EXPECT_EQ(self->fd, info.si_fd);
	EXPECT_TRUE(info.si_band & POLLIN);
}

HTW_TEST(off_again)
{
	struct htw_event ev;
	siginfo_t info;

	ASSERT_TRUE(block(SIGIO));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, set_async(self->fd, true));
	ASSERT_EQ(0, set_async(self->fd, false));
	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_TRUE(htw_quiet_for(htw_open(O_NONBLOCK), 10 * MSEC));
	EXPECT_EQ(-EAGAIN, wait_signal(SIGIO, &info, 0));
	/* The signal is for becoming readable. */
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	ASSERT_EQ(0, set_async(self->fd, true));
	ASSERT_NE(0, htw_start(self->fd, 0, 2));
	EXPECT_EQ(SIGIO, wait_signal(SIGIO, &info, EVENTUALLY));
}

HTW_TEST(not_before)
{
	siginfo_t info;

	ASSERT_TRUE(block(SIGIO));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, set_async(self->fd, true));
	ASSERT_NE(0, htw_start(self->fd, 3600 * SEC, 1));
	ASSERT_EQ(0, htw_stop(self->fd, htw_start(self->fd, 20 * MSEC, 2)));
	EXPECT_EQ(-EAGAIN, wait_signal(SIGIO, &info, 60 * MSEC));
}

/* The owner (F_SETOWN) is another process. */
HTW_TEST(to_another_process)
{
	int ready[2], status = -1;
	siginfo_t info;
	char byte = 0;
	pid_t pid;

	ASSERT_TRUE(block(SIGIO));
	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	if (!pid) {
		close(self->fd);
		if (write(ready[1], &byte, 1) != 1)
			_exit(2);
		_exit(wait_signal(SIGIO, &info, EVENTUALLY) == SIGIO ? 0 : 1);
	}
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	ASSERT_EQ(0, fcntl(self->fd, F_SETOWN, pid));
	ASSERT_EQ(0, set_async(self->fd, true));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(-EAGAIN, wait_signal(SIGIO, &info, 0));
}

/* Two descriptors of one context, an owner each; one descriptor is closed. */
HTW_TEST(closed)
{
	int fd = htw_open(O_NONBLOCK);
	siginfo_t info;

	ASSERT_LE(0, fd);
	ASSERT_TRUE(block(SIGIO));
	ASSERT_EQ(0, fcntl(fd, F_SETOWN, getpid()));
	ASSERT_EQ(0, set_async(fd, true));
	ASSERT_NE(0, htw_start(fd, 20 * MSEC, 1));
	close(fd);
	EXPECT_EQ(-EAGAIN, wait_signal(SIGIO, &info, 60 * MSEC));
}

/* How many bases stand in queues of alarms, of all users. */
static __u64 queued_bases(void)
{
	FILE *users = fopen("/sys/kernel/debug/htw/users", "r");
	__u64 sum = 0;
	char line[512];

	if (!users)
		return POISON;
	while (fgets(line, sizeof(line), users)) {
		const char *queued = strstr(line, " queued ");

		if (queued)
			sum += strtoull(queued + strlen(" queued "), NULL, 10);
	}
	fclose(users);
	return sum;
}

/*
 * Closed while the kernel thread looks whether there is to be a signal, and sets an alarm:
 * nothing of what is gone stays in its queue.
 */
HTW_TEST(closed_while_it_is_looked_at)
{
	const __u64 end = now_ns() + 8 * SEC;
	__u64 rounds = 0, before, deadline;
	struct htw_event ev[4];

	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	before = queued_bases();
	if (before == POISON)
		SKIP(return, "no debugfs");
	signal(SIGIO, SIG_IGN);
	for (; now_ns() < end; rounds++) {
		int fd = htw_open(O_NONBLOCK | O_CLOEXEC);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, fcntl(fd, F_SETOWN, getpid()));
		ASSERT_EQ(0, set_async(fd, true));
		ASSERT_NE(0, htw_start(fd, HOUR, 1));
		deadline = now_ns() + MSEC;
		ASSERT_NE(0, htw_start_abs(fd, deadline, 2));
		while (now_ns() < deadline + MSEC + rounds % 16 * 100 * USEC)
			;
		htw_read(fd, ev, 4);
		close(fd);
		ASSERT_EQ(before, queued_bases()) {
			TH_LOG("after %llu rounds", rounds);
		}
	}
}

TEST_HARNESS_MAIN
