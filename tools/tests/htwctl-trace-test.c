// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl trace: however it ends, and whatever it is asked for
 *
 * Slow: two minutes, as the kernel makes, and removes, an instance of its tracing for each run.
 */
#include "htwctl-run.h"

static __u64 traced_id;

static void move_one(int fd)
{
	htw_move(fd, traced_id, 2 * HOUR, 0);
}

/*
 * Start htwctl trace with stdout to a pipe, and do what it traces until it prints. The pipe is
 * small from the start: it cannot shrink once htwctl has printed more than a page.
 */
static pid_t start_trace(int to[2], char *event, void (*do_it)(int fd), int fd)
{
	struct words words = { .argv = { "htwctl", "trace", "--event", event, NULL } };
	struct pollfd from;
	pid_t pid;

	if (pipe2(to, O_CLOEXEC) || fcntl(to[0], F_SETPIPE_SZ, PAGE) < 0)
		return -1;
	pid = start(&words, to[1], 2, false);
	close(to[1]);
	from = (struct pollfd){ .fd = to[0], .events = POLLIN };
	if (!htw_eventually((do_it(fd), poll(&from, 1, 0) == 1)))
		return -1;
	return pid;
}

static int end_trace(pid_t pid)
{
	int status;

	if (!htw_eventually(waitpid(pid, &status, WNOHANG) == pid)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return -1;
	}
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* However it ends, nothing of it stays in the kernel. */
HTW_TEST(trace_ends)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE };
	int to[2];
	pid_t pid;

	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++) {
		pid = start_trace(to, "add", expire_one, self->fd);
		ASSERT_LT(0, pid);
		EXPECT_EQ(1, instances());
		ASSERT_EQ(0, kill(pid, signals[i]));
		EXPECT_EQ(-signals[i], end_trace(pid));
		EXPECT_EQ(0, instances());
		close(to[0]);
	}

	/* Nobody reads: while nothing happens, too, and with SIGPIPE ignored. */
	for (int ignored = 0; ignored < 2; ignored++) {
		signal(SIGPIPE, ignored ? SIG_IGN : SIG_DFL);
		pid = start_trace(to, "add", expire_one, self->fd);
		ASSERT_LT(0, pid);
		close(to[0]);
		EXPECT_EQ(ignored ? FAILED : -SIGPIPE, end_trace(pid));
		EXPECT_EQ(0, instances());
	}
	signal(SIGPIPE, SIG_DFL);

	/* The reader has stopped, and the pipe is full. */
	pid = start_trace(to, "add", expire_one, self->fd);
	ASSERT_LT(0, pid);
	for (int i = 0; i < 1000; i++)
		expire_one(self->fd);
	ASSERT_EQ(0, kill(pid, SIGTERM));
	EXPECT_EQ(-SIGTERM, end_trace(pid));
	EXPECT_EQ(0, instances());
	close(to[0]);

	/* nohup(1) */
	signal(SIGHUP, SIG_IGN);
	pid = start_trace(to, "add", expire_one, self->fd);
	signal(SIGHUP, SIG_DFL);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, kill(pid, SIGHUP));
	ASSERT_EQ(0, kill(pid, SIGTERM));
	EXPECT_EQ(-SIGTERM, end_trace(pid));
	close(to[0]);
}

/* After SIGKILL the next one cleans up, and disturbs none that runs. */
HTW_TEST(trace_left_behind)
{
	int to[2], other[2];
	pid_t pid, killed;

	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	traced_id = htw_start(self->fd, HOUR, 1);
	pid = start_trace(to, "add", expire_one, self->fd);
	ASSERT_LT(0, pid);
	/* From here on that one has nothing to do, and between its looks no file of events open. */
	for (int i = 0; i < 2; i++) {
		killed = start_trace(other, "mod", move_one, self->fd);
		ASSERT_LT(0, killed);
		EXPECT_EQ(2, instances());
		ASSERT_EQ(0, kill(killed, SIGKILL));
		EXPECT_EQ(-SIGKILL, end_trace(killed));
		close(other[0]);
		EXPECT_EQ(2, instances());
	}
	EXPECT_EQ(DONE, run("htwctl trace --duration 1ms"));
	EXPECT_EQ(1, instances());
	EXPECT_EQ(0, waitpid(pid, NULL, WNOHANG));
	ASSERT_EQ(0, kill(pid, SIGTERM));
	EXPECT_EQ(-SIGTERM, end_trace(pid));
	EXPECT_EQ(0, instances());
	close(to[0]);
}

static void move_and_cancel_another(int fd)
{
	__u64 other = htw_start(fd, HOUR, 1);

	htw_move(fd, traced_id, 2 * HOUR, 0);
	htw_move(fd, other, 2 * HOUR, 0);
	htw_stop(fd, other);
}

HTW_TEST(trace_one_timer)
{
	char options[64], text[32];

	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	traced_id = htw_start(self->fd, HOUR, 1);
	snprintf(options, sizeof(options), "--id 0x%llx --count 5", traced_id);
	snprintf(text, sizeof(text), "id 0x%llx ", traced_id);
	ASSERT_EQ(DONE, traced(options, move_and_cancel_another, self->fd));
	ASSERT_EQ(5, count_lines(out));
	for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
		EXPECT_NE(NULL, strstr(line, " mod "));
		EXPECT_NE(NULL, strstr(line, text));
	}
}

HTW_TEST(trace_of_what_is_not_there)
{
	if (access("/sys/kernel/tracing/events/htw", R_OK))
		SKIP(return, "no tracing");
	EXPECT_EQ(7, run("htwctl trace --event explode --count 1"));
	/* Not a regular expression. */
	EXPECT_EQ(7, run("htwctl trace --event ex.ire --count 1"));
	EXPECT_EQ(7, run("htwctl trace --event [ --count 1"));
	EXPECT_EQ(NOT_FOUND, run("htwctl trace --pid 2147483647 --count 1"));
	EXPECT_EQ(DONE, run("htwctl trace --duration 10ms"));
}

TEST_HARNESS_MAIN
