// SPDX-License-Identifier: MIT
/*
 * htw's dispatcher in libevent's loop: one event for all timers
 *
 * A periodic call, a call that each message in a pipe postpones, and the
 * shutdown.
 */
#include <event2/event.h>
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MSEC		1000000ULL

static struct event_base *base;
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
	event_base_loopbreak(base);
}

static void on_pipe(evutil_socket_t fd, short what, void *arg)
{
	char c;

	(void)what;
	check(read(fd, &c, 1) == 1, "read");
	words++;
	heard = htw_now(timers);
	failed += htw_call_again(arg, quiet, 50 * MSEC) != 0;
}

static void on_timers(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	failed += htw_dispatch(arg, 0) < 0;
}

int main(void)
{
	struct htw_dispatcher *d;
	struct event *on_timer, *on_word;

	check(!pipe(pipe_fd), "pipe");
	check_htw(htw_open(&timers, HTW_BACKEND_ANY, NULL), "htw_open");
	check_htw(htw_dispatcher_new(&d, timers), "htw_dispatcher_new");
	base = event_base_new();
	check(base != NULL, "event_base_new");
	on_timer = event_new(base, htw_dispatcher_fd(d), EV_READ | EV_PERSIST, on_timers, d);
	on_word = event_new(base, pipe_fd[0], EV_READ | EV_PERSIST, on_pipe, d);
	check(on_timer && on_word && !event_add(on_timer, NULL) && !event_add(on_word, NULL),
	      "event_add");

	check_htw(htw_call_every(d, 10 * MSEC, 10 * MSEC, beat, NULL, NULL), "htw_call_every");
	check_htw(htw_call_after(d, 50 * MSEC, on_quiet, NULL, &quiet), "htw_call_after");
	event_base_dispatch(base);

	printf("libevent: %u periodic calls, %u messages, then quiet\n", beats, words);
	event_free(on_timer);
	event_free(on_word);
	event_base_free(base);
	htw_dispatcher_free(d);
	htw_close(timers);
	return failed || beats != 5 || words != 5;
}
