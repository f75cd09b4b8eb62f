// SPDX-License-Identifier: MIT
/*
 * An echo server that closes idle connections: epoll, and one descriptor for
 * all timeouts
 *
 * The clients are in this program, too: each sends a few words and then falls
 * silent. The server must close its connection, not earlier than the timeout.
 */
#include <libhtw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MSEC		1000000ULL
#define IDLE		(50 * MSEC)
#define CLIENTS		200
#define WORDS		5

struct connection {
	int server, client;	/* the two ends */
	uint64_t timer;
	uint64_t heard;		/* time of the last word */
	unsigned int words;	/* words that the client has yet to send */
};

static struct connection connections[CLIENTS];

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

/* The client sends a word, or nothing any more. */
static void client_says(struct connection *c)
{
	if (c->words && c->words--)
		check(write(c->client, "word", 4) == 4, "write");
}

/* A word came: restart the timeout. One call moves it. */
static void serve(struct htw *timers, struct connection *c)
{
	char buf[64], answer[64];
	ssize_t n = read(c->server, buf, sizeof(buf));

	check(n > 0, "read");
	c->heard = htw_now(timers);
	check_htw(htw_rearm(timers, c->timer, IDLE), "htw_rearm");
	check(write(c->server, buf, n) == n, "write");
	/* The client reads the echo and continues. */
	check(read(c->client, answer, sizeof(answer)) == n && !memcmp(buf, answer, n), "echo");
	client_says(c);
}

int main(void)
{
	struct epoll_event event, ready[64];
	unsigned int open = CLIENTS, early = 0, i;
	struct htw_event expired[64];
	struct htw *timers;
	int ep, n;

	/* With the module if it is loaded, else with timers in this process. */
	check_htw(htw_open(&timers, HTW_BACKEND_ANY, NULL), "htw_open");
	ep = epoll_create1(EPOLL_CLOEXEC);
	check(ep >= 0, "epoll_create1");
	event = (struct epoll_event){ .events = EPOLLIN, .data.ptr = NULL };
	check(!epoll_ctl(ep, EPOLL_CTL_ADD, htw_fd(timers), &event), "epoll_ctl");

	for (i = 0; i < CLIENTS; i++) {
		struct connection *c = &connections[i];
		int pair[2];

		check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
		c->server = pair[0];
		c->client = pair[1];
		c->words = i % WORDS;
		c->heard = htw_now(timers);
		/* The cookie is returned when the timer expires. */
		check_htw(htw_after(timers, IDLE, HTW_COOKIE(c), &c->timer), "htw_after");
		event = (struct epoll_event){ .events = EPOLLIN, .data.ptr = c };
		check(!epoll_ctl(ep, EPOLL_CTL_ADD, c->server, &event), "epoll_ctl");
		client_says(c);
	}

	while (open) {
		n = epoll_wait(ep, ready, 64, -1);
		check(n > 0, "epoll_wait");
		for (i = 0; i < (unsigned int)n; i++)
			if (ready[i].data.ptr)
				serve(timers, ready[i].data.ptr);
		/* Last, so that a client that has just sent something is not closed. */
		n = htw_read(timers, expired, 64);
		check_htw(n < 0 ? n : 0, "htw_read");
		for (i = 0; i < (unsigned int)n; i++) {
			struct connection *c = HTW_POINTER(expired[i].cookie);

			early += htw_now(timers) < c->heard + IDLE;
			close(c->server);
			close(c->client);
			open--;
		}
	}
	printf("%d clients served, closed when idle, %u too early; timers kept by %s\n", CLIENTS,
	       early, htw_backend(timers) == HTW_BACKEND_DEVICE ? "the module" : "this process");
	htw_close(timers);
	close(ep);
	return early ? 1 : 0;
}
