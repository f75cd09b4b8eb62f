// SPDX-License-Identifier: MIT
/*
 * htw's dispatcher in libuv's loop: one poll handle for all timers
 *
 * A periodic call, a call that each message in a pipe postpones, and the
 * shutdown.
 */
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define MSEC		1000000ULL

static struct htw_dispatcher *dispatcher;
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
	uv_stop(uv_default_loop());
}

static void on_pipe(uv_poll_t *handle, int status, int events)
{
	char c;

	(void)handle;
	(void)events;
	check(!status && read(pipe_fd[0], &c, 1) == 1, "read");
	words++;
	heard = htw_now(timers);
	failed += htw_call_again(dispatcher, quiet, 50 * MSEC) != 0;
}

static void on_timers(uv_poll_t *handle, int status, int events)
{
	(void)handle;
	(void)events;
	failed += status || htw_dispatch(dispatcher, 0) < 0;
}

int main(void)
{
	uv_loop_t *const loop = uv_default_loop();
	uv_poll_t on_timer, on_word;

	check(!pipe(pipe_fd), "pipe");
	check_htw(htw_open(&timers, HTW_BACKEND_ANY, NULL), "htw_open");
	check_htw(htw_dispatcher_new(&dispatcher, timers), "htw_dispatcher_new");
	check(!uv_poll_init(loop, &on_timer, htw_dispatcher_fd(dispatcher)) &&
	      !uv_poll_init(loop, &on_word, pipe_fd[0]) &&
	      !uv_poll_start(&on_timer, UV_READABLE, on_timers) &&
	      !uv_poll_start(&on_word, UV_READABLE, on_pipe), "uv_poll");

	check_htw(htw_call_every(dispatcher, 10 * MSEC, 10 * MSEC, beat, NULL, NULL),
		  "htw_call_every");
	check_htw(htw_call_after(dispatcher, 50 * MSEC, on_quiet, NULL, &quiet), "htw_call_after");
	uv_run(loop, UV_RUN_DEFAULT);

	printf("libuv: %u periodic calls, %u messages, then quiet\n", beats, words);
	uv_close((uv_handle_t *)&on_timer, NULL);
	uv_close((uv_handle_t *)&on_word, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	uv_loop_close(loop);
	htw_dispatcher_free(dispatcher);
	htw_close(timers);
	return failed || beats != 5 || words != 5;
}
