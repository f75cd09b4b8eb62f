// SPDX-License-Identifier: MIT
/*
 * A service whose timers survive its restarts and crashes: systemd keeps the
 * descriptor
 *
 * On its first start the service opens the device and passes the descriptor to
 * the service manager. When it starts again, for whatever reason, it gets the
 * descriptor back: its timers go on, and expirations from the meantime can be
 * read. Timers are kept (HTW_F_KEEP) until their job is done, so a job whose
 * expiration was read but not dealt with is repeated. See fdstore.service.
 *
 * The two messages to the manager are written out here; libsystemd has them as
 * sd_pid_notify_with_fds() and sd_listen_fds_with_names().
 */
#include <libhtw.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SEC		1000000000ULL
#define JOBS		100

static void check(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

/* The descriptor that the manager has stored under this name, or -1. */
static int stored_fd(const char *name)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	const size_t length = strlen(name);
	int i;

	if (!pid || !count || !names || atoi(pid) != getpid())
		return -1;
	/* Descriptors from 3 on, and their names, separated by colons. */
	for (i = 0; i < atoi(count); i++) {
		if (!strncmp(names, name, length) && (!names[length] || names[length] == ':'))
			return 3 + i;
		names = strchr(names, ':');
		if (!names++)
			break;
	}
	return -1;
}

/* Send a message to the manager, with a descriptor. */
static int notify(const char *text, int fd)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char control[CMSG_SPACE(sizeof(fd))] = { };
	struct iovec iov = { .iov_base = (char *)text, .iov_len = strlen(text) };
	struct msghdr message = {
		.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1,
	};
	struct cmsghdr *c;
	ssize_t sent;
	int s;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return -1;
	strcpy(to.sun_path, path);
	message.msg_namelen = offsetof(struct sockaddr_un, sun_path) + strlen(path);
	if (path[0] == '@')
		to.sun_path[0] = '\0';	/* abstract socket */
	if (fd >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -1;
	sent = sendmsg(s, &message, MSG_NOSIGNAL);
	close(s);
	return sent < 0 ? -1 : 0;
}

/* A job's cookie is its number; each has another deadline. */
static void start_jobs(struct htw *timers)
{
	uint64_t job;

	for (job = 0; job < JOBS; job++) {
		struct htw_add_args add = {
			.deadline = 2 * SEC + job * SEC / JOBS,
			.cookie = job,
			.flags = HTW_F_KEEP,
		};

		check(htw_add(timers, &add), "htw_add");
	}
}

/* A disarmed timer was read by a process that died before the job was done. */
static void arm_unfinished_jobs(struct htw *timers)
{
	struct htw_timer_info job;
	uint64_t cursor = 0;

	while (htw_list_in(timers, HTW_LIST_DISARMED, &cursor, &job, 1) > 0)
		check(htw_rearm(timers, job.id, 0), "htw_rearm");
}

int main(void)
{
	struct htw_event events[16];
	struct htw_info_args info;
	struct htw *timers;
	int n, i, fd = stored_fd("timers");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (fd >= 0) {
		check(htw_open_fd(&timers, fd), "htw_open_fd");
		arm_unfinished_jobs(timers);
	} else {
		check(htw_open(&timers, HTW_BACKEND_DEVICE, NULL), "htw_open");
		start_jobs(timers);
		if (notify("FDSTORE=1\nFDNAME=timers", htw_fd(timers)))
			fprintf(stderr, "no service manager: the timers end with this process\n");
	}
	check(htw_info(timers, &info), "htw_info");
	printf("%s %llu timers\n", fd >= 0 ? "got back" : "started",
	       (unsigned long long)info.timers);
	notify("READY=1", -1);

	while (info.timers) {
		if (htw_wait(timers, -1) < 0)
			break;
		n = htw_read(timers, events, 16);
		for (i = 0; i < n; i++) {
			printf("job %llu%s\n", (unsigned long long)events[i].cookie,
			       events[i].taken < events[i].deadline ? " too early" : "");
			check(htw_stop(timers, events[i].id), "htw_stop");
		}
		check(htw_info(timers, &info), "htw_info");
	}
	printf("all done\n");
	/* Remove the descriptor from the store: there is nothing left to do. */
	notify("FDSTOREREMOVE=1\nFDNAME=timers", -1);
	htw_close(timers);
	return 0;
}
