// SPDX-License-Identifier: MIT
/*
 * Hand over a million timers: a server is replaced by its next version, and no
 * timeout is lost or restarted
 *
 * The old process sends the descriptor over a socket and exits. Meanwhile the
 * timers go on in the kernel; the new process lists them and reads the
 * expirations.
 *
 * handover [COUNT]		start both processes
 * handover --successor FD COUNT	executed by the old process
 */
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEC		1000000000ULL
#define SOON		1000	/* one timer in SOON expires during the hand-over or soon after */
#define SOME		4096

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

static int send_fd(int socket, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { }, byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static int receive_fd(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	const struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* One in SOON within a second, the others in an hour; the cookie says which. */
static void predecessor(int socket, unsigned int count)
{
	static uint64_t deadlines[SOME], cookies[SOME], ids[SOME];
	const struct htw_setup_args setup = { .limit = count };
	unsigned int first, n, i;
	struct htw *timers;

	check(htw_open(&timers, HTW_BACKEND_DEVICE, &setup), "htw_open");
	for (first = 0; first < count; first += n) {
		n = count - first < SOME ? count - first : SOME;
		for (i = 0; i < n; i++) {
			cookies[i] = first + i;
			deadlines[i] = (first + i) % SOON ? 3600 * SEC : SEC;
		}
		check(htw_add_many(timers, NULL, deadlines, cookies, ids, n, NULL), "htw_add_many");
	}
	if (send_fd(socket, htw_fd(timers)))
		exit(1);
	/* The descriptor is in the socket: closing ours ends nothing. */
	htw_close(timers);
}

static int successor(int socket, unsigned int count)
{
	unsigned char *seen = calloc(count, 1);
	static struct htw_timer_info entries[SOME];
	unsigned int soon = (count + SOON - 1) / SOON, came = 0, wrong = 0, kept = 0;
	struct htw_event events[256];
	uint64_t cursor = 0;
	struct htw *timers;
	int n, i, fd = receive_fd(socket);

	if (!seen || fd < 0)
		return 1;
	check(htw_open_fd(&timers, fd), "htw_open_fd");
	/* The early ones: none is lost, none expires twice. */
	while (came < soon) {
		if (htw_wait(timers, 60 * (int64_t)SEC) != 1)
			break;
		n = htw_read(timers, events, 256);
		check(n < 0 ? n : 0, "htw_read");
		for (i = 0; i < n; i++, came++)
			wrong += events[i].cookie % SOON || seen[events[i].cookie]++ ||
				 events[i].taken < events[i].deadline;
	}
	/* Harvest the others to count them. */
	while ((n = htw_harvest(timers, &cursor, entries, SOME)) > 0)
		for (i = 0; i < n; i++, kept++)
			wrong += entries[i].cookie >= count || seen[entries[i].cookie]++ ||
				 entries[i].remaining > 3600 * SEC;
	check(n, "htw_harvest");
	printf("taken over: %u timers, %u of which have expired; %u wrong\n", came + kept,
	       came, wrong);
	htw_close(timers);
	free(seen);
	return wrong || came != soon || came + kept != count;
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 1 ? strtoul(argv[argc - 1], NULL, 10) : 1000000;
	int pair[2], status;
	char fd[16], number[16];
	pid_t pid;

	if (argc == 4 && !strcmp(argv[1], "--successor"))
		return successor(atoi(argv[2]), count);
	if (!count || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return 2;
	pid = fork();
	if (!pid) {
		snprintf(fd, sizeof(fd), "%d", pair[1]);
		snprintf(number, sizeof(number), "%u", count);
		close(pair[0]);
		execl("/proc/self/exe", argv[0], "--successor", fd, number, NULL);
		_exit(127);
	}
	close(pair[1]);
	predecessor(pair[0], count);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
