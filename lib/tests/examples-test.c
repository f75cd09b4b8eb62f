// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run the programs of examples/ on the device; a stand-in for systemd starts
 * fdstore
 *
 * Slow: 40 s.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST_SECONDS	280
#define EVENTUALLY_MS	90000

FIXTURE(example) {
	int unused;
};

FIXTURE_SETUP(example)
{
}

FIXTURE_TEARDOWN(example)
{
}

/* Run a program from the search path, with an argument or NULL; return its exit status. */
static int run_with(const char *program, const char *argument)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execlp(program, program, argument, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define EXAMPLE_WITH(test, name, argument)					\
TEST_F_TIMEOUT(example, test, TEST_SECONDS)					\
{										\
	EXPECT_EQ(0, run_with("example-" name, argument));			\
}
#define EXAMPLE_NAMED(test, name) EXAMPLE_WITH(test, name, NULL)
#define EXAMPLE(name)	EXAMPLE_NAMED(name, #name)

EXAMPLE(epoll)
EXAMPLE(pacing)
EXAMPLE_NAMED(put_off, "put-off")
EXAMPLE(libevent)
EXAMPLE(libev)
EXAMPLE(libuv)
EXAMPLE(liburing)
EXAMPLE_WITH(liburing_by_ioctl, "liburing", "--ioctl")
EXAMPLE(prefork)
EXAMPLE(handover)

/* The part of a service manager that the example needs. */
struct manager {
	int notify;
	char path[64];
	pid_t pid;
	int out;		/* the service's output */
	int stored;		/* the descriptor it has stored, or -1 */
};

static pid_t start_service(struct manager *m)
{
	int out[2];
	char pid[16];

	if (pipe(out))
		return -1;
	m->pid = fork();
	if (!m->pid) {
		setenv("NOTIFY_SOCKET", m->path, 1);
		if (m->stored >= 0) {
			dup2(m->stored, 3);
			snprintf(pid, sizeof(pid), "%d", getpid());
			setenv("LISTEN_PID", pid, 1);
			setenv("LISTEN_FDS", "1", 1);
			setenv("LISTEN_FDNAMES", "timers", 1);
		}
		dup2(out[1], STDOUT_FILENO);
		execlp("example-fdstore", "example-fdstore", NULL);
		_exit(127);
	}
	close(out[1]);
	m->out = out[0];
	return m->pid;
}

/* Receive messages until one contains @text. */
static bool received(struct manager *m, const char *text)
{
	char control[CMSG_SPACE(sizeof(int))], buf[128];
	struct pollfd pfd = { .fd = m->notify, .events = POLLIN };
	const struct cmsghdr *c;

	while (poll(&pfd, 1, EVENTUALLY_MS) == 1) {
		struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) - 1 };
		struct msghdr message = {
			.msg_iov = &iov, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof(control),
		};
		ssize_t n = recvmsg(m->notify, &message, MSG_CMSG_CLOEXEC);

		if (n < 0)
			return false;
		buf[n] = '\0';
		c = CMSG_FIRSTHDR(&message);
		if (c && !strcmp(buf, "FDSTORE=1\nFDNAME=timers"))
			memcpy(&m->stored, CMSG_DATA(c), sizeof(m->stored));
		if (!strcmp(buf, text))
			return true;
	}
	return false;
}

/* Read a line of the service's output. */
static bool line(struct manager *m, char *buf, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && read(m->out, buf + n, 1) == 1) {
		if (buf[n] == '\n') {
			buf[n] = '\0';
			return true;
		}
		n++;
	}
	return false;
}

TEST_F_TIMEOUT(example, fdstore, TEST_SECONDS)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	unsigned int seen[100] = { }, job, twice = 0, crashes, n;
	struct manager m = { .stored = -1 };
	char buf[64];

	snprintf(m.path, sizeof(m.path), "/tmp/notify.%d", getpid());
	strcpy(address.sun_path, m.path);
	m.notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(0, bind(m.notify, (struct sockaddr *)&address, sizeof(address)));
	ASSERT_LT(0, start_service(&m));
	ASSERT_TRUE(received(&m, "READY=1"));
	ASSERT_LE(0, m.stored);
	ASSERT_TRUE(line(&m, buf, sizeof(buf)));
	EXPECT_EQ(0, strcmp(buf, "started 100 timers"));
	/* The service crashes before and after some of its jobs. */
	for (crashes = 0; crashes < 4; crashes++) {
		for (n = 0; n < 20 * crashes; n++) {
			ASSERT_TRUE(line(&m, buf, sizeof(buf)));
			if (!strcmp(buf, "all done"))
				break;
			ASSERT_EQ(1, sscanf(buf, "job %u", &job));
			EXPECT_EQ(NULL, strstr(buf, "early"));
			ASSERT_GT(100, job);
			seen[job]++;
		}
		if (!strcmp(buf, "all done"))
			break;
		ASSERT_EQ(0, kill(m.pid, SIGKILL));
		ASSERT_EQ(m.pid, waitpid(m.pid, NULL, 0));
		while (line(&m, buf, sizeof(buf)) && sscanf(buf, "job %u", &job) == 1)
			seen[job]++;
		close(m.out);
		if (!strcmp(buf, "all done"))
			break;
		ASSERT_LT(0, start_service(&m));
		ASSERT_TRUE(received(&m, "READY=1"));
		ASSERT_TRUE(line(&m, buf, sizeof(buf)));
		EXPECT_EQ(0, strncmp(buf, "got back ", 9));
	}
	while (strcmp(buf, "all done") && line(&m, buf, sizeof(buf)) &&
	       sscanf(buf, "job %u", &job) == 1)
		seen[job]++;
	EXPECT_EQ(0, strcmp(buf, "all done"));
	/* Each job was done; one that a crash interrupted was done again. */
	for (job = 0; job < 100; job++) {
		EXPECT_LT(0, seen[job]);
		twice += seen[job] - 1;
	}
	EXPECT_GE(crashes, twice);
	kill(m.pid, SIGKILL);
	waitpid(m.pid, NULL, 0);
	unlink(m.path);
	if (!crashes)
		SKIP(return, "the service was done before it could be killed");
}

TEST_HARNESS_MAIN
