// SPDX-License-Identifier: MIT
/*
 * htw's dispatcher in libev's loop: one watcher for all timers
 *
 * A periodic call, a call that each message in a pipe postpones, and the
 * shutdown.
 */
#include <ev.h>
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MSEC		1000000ULL

static struct ev_loop *loop;
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
	ev_break(loop, EVBREAK_ALL);
}

static void on_pipe(struct ev_loop *l, ev_io *w, int events)
{
	char c;

	(void)l;
	(void)events;
	check(read(w->fd, &c, 1) == 1, "read");
	words++;
	heard = htw_now(timers);
	failed += htw_call_again(dispatcher, quiet, 50 * MSEC) != 0;
}

static void on_timers(struct ev_loop *l, ev_io *w, int events)
{
	(void)l;
	(void)w;
	(void)events;
	failed += htw_dispatch(dispatcher, 0) < 0;
}

int main(void)
{
	ev_io on_timer, on_word;

	check(!pipe(pipe_fd), "pipe");
	check_htw(htw_open(&timers, HTW_BACKEND_ANY, NULL), "htw_open");
	check_htw(htw_dispatcher_new(&dispatcher, timers), "htw_dispatcher_new");
	loop = ev_default_loop(0);
	check(loop != NULL, "ev_default_loop");
	ev_io_init(&on_timer, on_timers, htw_dispatcher_fd(dispatcher), EV_READ);
	ev_io_init(&on_word, on_pipe, pipe_fd[0], EV_READ);
	ev_io_start(loop, &on_timer);
	ev_io_start(loop, &on_word);

	check_htw(htw_call_every(dispatcher, 10 * MSEC, 10 * MSEC, beat, NULL, NULL),
		  "htw_call_every");
	check_htw(htw_call_after(dispatcher, 50 * MSEC, on_quiet, NULL, &quiet), "htw_call_after");
	ev_run(loop, 0);

	printf("libev: %u periodic calls, %u messages, then quiet\n", beats, words);
	ev_loop_destroy(loop);
	htw_dispatcher_free(dispatcher);
	htw_close(timers);
	return failed || beats != 5 || words != 5;
}
