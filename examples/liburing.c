// SPDX-License-Identifier: MIT
/*
 * An echo server whose only system call is io_uring_enter(): each connection
 * has a timeout in /dev/htw, which is started, moved and cancelled by commands
 * of io_uring, in the submissions that are made anyway
 *
 * Expirations come by a multishot poll, and reads into provided buffers. A
 * seccomp filter ends the server if it makes another call. Where the module has
 * no such commands, or with --ioctl, ioctls take their place.
 *
 * Its clients are in another process: those with even numbers fall silent, and
 * are closed; the others hang up.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/htw.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MSEC		1000000ULL
#define IDLE		(2000 * MSEC)
#define CLIENTS		64
#define ROUNDS		8	/* messages of the most talkative client */
#define EVENTS		16	/* in each buffer */
#define BUFFERS		4
#define SQE_CMD		48	/* &io_uring_sqe.cmd, which old headers do not name */

/* What a completion is of; the connection is in the upper half. */
enum what { RECV, SEND, ADD, MOVE, CANCEL, SHUTDOWN, CLOSE, POLL, READ, PROVIDE, REPORT };

struct connection {
	int fd;
	char message;
	bool is_idle;		/* its timeout has expired */
	unsigned int replies;	/* requests of the last message that have not completed */
	struct htw_add_args add;
	struct htw_mod_args move;
	struct htw_cancel_args cancel;
};

static struct connection connections[CLIENTS];
static struct htw_event events[BUFFERS][EVENTS];
static struct io_uring ring;
static int timers = -1;
static bool by_ioctl, reading, readable;
static unsigned int echoed, idle, hung_up, closed, failed;

static void check(int ok, const char *doing)
{
	if (ok)
		return;
	perror(doing);
	exit(1);
}

static struct io_uring_sqe *get_sqe(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe) {
		io_uring_submit(&ring);
		sqe = io_uring_get_sqe(&ring);
	}
	return sqe;
}

static void mark(struct io_uring_sqe *sqe, enum what what, const struct connection *c)
{
	const __u64 number = c ? c - connections : 0;

	io_uring_sqe_set_data64(sqe, number << 32 | what);
}

static void receive(struct connection *c)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_recv(sqe, c->fd, &c->message, 1, 0);
	mark(sqe, RECV, c);
}

static void hang_up(struct connection *c)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_close(sqe, c->fd);
	mark(sqe, CLOSE, c);
}

static void called(enum what what, struct connection *c, int result)
{
	/* After ENOENT the timeout has expired, and its event is in a buffer. */
	if (result && (result != -ENOENT || what == ADD))
		failed++;
	if (what == MOVE && !--c->replies)
		receive(c);
	if (what == CANCEL)
		hang_up(c);
}

/* Have the kernel make a call for a timer. @arg must stay until it is complete. */
static void call(enum what what, unsigned int number, void *arg, struct connection *c)
{
	const struct htw_uring_args args = { .arg = (uintptr_t)arg };
	struct io_uring_sqe *sqe;

	if (by_ioctl) {
		called(what, c, ioctl(timers, number, arg) ? -errno : 0);
		return;
	}
	sqe = get_sqe();
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, timers, NULL, 0, 0);
	sqe->cmd_op = number;
	memcpy((char *)sqe + SQE_CMD, &args, sizeof(args));
	mark(sqe, what, c);
}

static void watch(void)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_poll_multishot(sqe, timers, POLLIN);
	mark(sqe, POLL, NULL);
}

/* The kernel chooses one of the buffers. */
static void read_events(void)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_read(sqe, timers, NULL, sizeof(events[0]), 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = 0;
	mark(sqe, READ, NULL);
	reading = true;
	readable = false;
}

static void provide(unsigned int first, unsigned int count)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_provide_buffers(sqe, events[first], sizeof(events[0]), count, 0, first);
	mark(sqe, PROVIDE, NULL);
}

static void expired(const struct htw_event *event)
{
	struct connection *c = &connections[event->cookie];
	struct io_uring_sqe *sqe = get_sqe();

	c->is_idle = true;
	idle++;
	/* Ends its recv(), which closes it. */
	io_uring_prep_shutdown(sqe, c->fd, SHUT_RDWR);
	mark(sqe, SHUTDOWN, c);
}

static void have_read(int result, unsigned int flags)
{
	unsigned int buffer = flags >> IORING_CQE_BUFFER_SHIFT, i;

	reading = false;
	if (result < 0 && result != -EAGAIN)
		failed++;
	if (flags & IORING_CQE_F_BUFFER) {
		for (i = 0; result > 0 && i < result / sizeof(events[0][0]); i++)
			expired(&events[buffer][i]);
		provide(buffer, 1);
	}
	/* The poll is edge-triggered: read until less comes than fits. */
	if (readable || result == sizeof(events[0]))
		read_events();
}

static void received(struct connection *c, int result)
{
	struct io_uring_sqe *sqe;

	if (result == 1 && !c->is_idle) {
		echoed++;
		c->replies = 2;
		sqe = get_sqe();
		io_uring_prep_send(sqe, c->fd, &c->message, 1, MSG_NOSIGNAL);
		mark(sqe, SEND, c);
		c->move = (struct htw_mod_args){
			.id = c->add.id, .deadline = IDLE, .flags = HTW_MOD_DEADLINE,
		};
		call(MOVE, HTW_MOD, &c->move, c);
		return;
	}
	if (c->is_idle) {
		hang_up(c);
		return;
	}
	hung_up++;
	c->cancel = (struct htw_cancel_args){ .id = c->add.id };
	call(CANCEL, HTW_CANCEL, &c->cancel, c);
}

static void complete(const struct io_uring_cqe *cqe)
{
	struct connection *c = &connections[cqe->user_data >> 32];
	enum what what = cqe->user_data & 0xffffffff;

	switch (what) {
	case RECV:
		received(c, cqe->res);
		break;
	case SEND:
		if (!--c->replies)
			receive(c);
		break;
	case ADD:
	case MOVE:
	case CANCEL:
		called(what, c, cqe->res);
		break;
	case CLOSE:
		closed++;
		break;
	case POLL:
		failed += cqe->res < 0;
		readable = true;
		/* The kernel may end a multishot poll; submit it again. */
		if (!(cqe->flags & IORING_CQE_F_MORE))
			watch();
		if (!reading)
			read_events();
		break;
	case READ:
		have_read(cqe->res, cqe->flags);
		break;
	case PROVIDE:
		failed += cqe->res < 0;
		break;
	case SHUTDOWN:
	case REPORT:
		break;
	}
}

/* From here on the process may make no system call but these. */
static void allow_only_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0), "PR_SET_SECCOMP");
}

static void serve(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	char line[128];
	int i, n;

	if (!by_ioctl)
		allow_only_io_uring();
	provide(0, BUFFERS);
	watch();
	for (i = 0; i < CLIENTS; i++) {
		connections[i].add = (struct htw_add_args){ .deadline = IDLE, .cookie = i };
		call(ADD, HTW_ADD, &connections[i].add, &connections[i]);
		receive(&connections[i]);
	}
	while (closed < CLIENTS) {
		n = io_uring_submit_and_wait(&ring, 1);
		if (n < 0 && n != -EINTR)
			_exit(1);
		while (!io_uring_peek_cqe(&ring, &cqe)) {
			struct io_uring_cqe done = *cqe;

			io_uring_cqe_seen(&ring, cqe);
			complete(&done);
		}
	}

	n = snprintf(line, sizeof(line), "io_uring: %u messages, %u idle, %u hung up, %s\n", echoed,
		     idle, hung_up, by_ioctl ? "timers by ioctl()" : "only io_uring_enter()");
	sqe = get_sqe();
	io_uring_prep_write(sqe, STDOUT_FILENO, line, n, -1);
	mark(sqe, REPORT, NULL);
	io_uring_submit_and_wait(&ring, 1);
	_exit(failed || echoed != CLIENTS * (ROUNDS + 1) / 2);
}

/* Return whether each message is echoed, and then the server hangs up. */
static bool talk(const int *fds)
{
	const struct timespec pause = { .tv_nsec = 10 * MSEC };
	char c;

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < CLIENTS; i++) {
			if (i / 2 % ROUNDS < round)
				continue;
			c = 'a' + round;
			if (write(fds[i], &c, 1) != 1 || read(fds[i], &c, 1) != 1 ||
			    c != 'a' + round)
				return false;
		}
		nanosleep(&pause, NULL);
	}
	for (int i = 1; i < CLIENTS; i += 2)
		close(fds[i]);
	for (int i = 0; i < CLIENTS; i += 2)
		if (read(fds[i], &c, 1))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	int fds[CLIENTS], pair[2], status;
	struct htw_info_args info;
	bool right;
	pid_t pid;

	by_ioctl = argc > 1 && !strcmp(argv[1], "--ioctl");
	timers = open("/dev/htw", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	check(timers >= 0, "/dev/htw");
	check(!ioctl(timers, HTW_INFO, &info), "HTW_INFO");
	if (!(info.features & HTW_FEATURE_URING)) {
		fprintf(stderr, "htw has no commands for io_uring here: timers by ioctl()\n");
		by_ioctl = true;
	}
	for (int i = 0; i < CLIENTS; i++) {
		check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
		connections[i].fd = pair[0];
		fds[i] = pair[1];
	}

	pid = fork();
	check(pid >= 0, "fork");
	if (!pid) {
		for (int i = 0; i < CLIENTS; i++)
			close(fds[i]);
		errno = -io_uring_queue_init(256, &ring, 0);
		check(!errno, "io_uring_queue_init");
		serve();
	}
	for (int i = 0; i < CLIENTS; i++)
		close(connections[i].fd);
	right = talk(fds);
	check(waitpid(pid, &status, 0) == pid, "waitpid");
	if (WIFSIGNALED(status))
		fprintf(stderr, "the server made another system call\n");
	return !right || status;
}
