// SPDX-License-Identifier: MIT
/*
 * htw's dispatcher in an io_uring loop: one multishot poll for all timers
 *
 * A periodic call, a call that each message in a pipe postpones, and the
 * shutdown.
 */
#include <errno.h>
#include <libhtw.h>
#include <liburing.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MSEC		1000000ULL

static struct io_uring uring;
static bool over;
static struct htw *timers;
static uint64_t quiet;		/* the call for when the pipe has been quiet */
static uint64_t heard;
static unsigned int beats, words, failed;
static int pipe_fd[2];

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* For functions of libhtw, which leave errno alone. */
static void check_htw(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-result));
	exit(1);
}

/* Five times, each with a message into the pipe. */
static void beat(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	(void)arg;
	check(write(pipe_fd[1], "x", 1) == 1, "write");
	if (++beats == 5)
		htw_call_stop(d, call);
}

/* No message for 50 ms, or none that the loop had time to read. */
static void on_quiet(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	(void)arg;
	failed += htw_now(timers) < heard + 50 * MSEC;
	if (words < 5) {
		htw_call_again(d, call, 50 * MSEC);
		return;
	}
	over = true;
}

static void on_pipe(struct htw_dispatcher *d)
{
	char c;

	check(read(pipe_fd[0], &c, 1) == 1, "read");
	words++;
	heard = htw_now(timers);
	failed += htw_call_again(d, quiet, 50 * MSEC) != 0;
}

/* Submit a multishot poll: a completion each time the descriptor becomes readable. */
static void watch(int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring);

	check(sqe != NULL, "io_uring_get_sqe");
	io_uring_prep_poll_multishot(sqe, fd, POLLIN);
	io_uring_sqe_set_data64(sqe, fd);
}

int main(void)
{
	struct htw_dispatcher *d;
	struct io_uring_cqe *cqe;

	check(!pipe(pipe_fd), "pipe");
	check_htw(htw_open(&timers, HTW_BACKEND_ANY, NULL), "htw_open");
	check_htw(htw_dispatcher_new(&d, timers), "htw_dispatcher_new");
	errno = -io_uring_queue_init(8, &uring, 0);
	check(!errno, "io_uring_queue_init");
	watch(htw_dispatcher_fd(d));
	watch(pipe_fd[0]);

	check_htw(htw_call_every(d, 10 * MSEC, 10 * MSEC, beat, NULL, NULL), "htw_call_every");
	check_htw(htw_call_after(d, 50 * MSEC, on_quiet, NULL, &quiet), "htw_call_after");
	while (!over) {
		int fd;

		errno = -io_uring_submit_and_wait(&uring, 1);
		check(errno <= 0, "io_uring_submit_and_wait");
		if (io_uring_peek_cqe(&uring, &cqe))
			continue;
		fd = cqe->user_data;
		check(cqe->res >= 0, "poll");
		/* The kernel may end a multishot poll; submit it again. */
		if (!(cqe->flags & IORING_CQE_F_MORE))
			watch(fd);
		io_uring_cqe_seen(&uring, cqe);
		if (fd == pipe_fd[0])
			on_pipe(d);
		else
			/* The poll is edge-triggered: dispatch until nothing is due. */
			while (!over && (errno = htw_dispatch(d, 0)) > 0)
				;
		failed += errno < 0;
	}

	printf("io_uring: %u periodic calls, %u messages, then quiet\n", beats, words);
	io_uring_queue_exit(&uring);
	htw_dispatcher_free(d);
	htw_close(timers);
	return failed || beats != 5 || words != 5;
}
