// SPDX-License-Identifier: MIT
/*
 * Packets paced at 50 us, among connections' timeouts: an exact and a coarse
 * handle in one epoll loop
 *
 * A periodic timer of the exact handle, whose tick is 10 us, sends a packet to
 * each connection in turn. A connection's timeout, on the coarse handle, is put
 * off by each packet that it gets. When the packets end, all connections time
 * out.
 */
#include <libhtw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define GAP		(50 * HTW_USEC)		/* between two packets */
#define PACKETS		4000
#define CONNECTIONS	100
#define IDLE		(100 * HTW_MSEC)	/* without a packet for that long, it is closed */

struct connection {
	int sender, receiver;
	uint64_t timeout;	/* id of its timer; zero: the connection is closed */
	uint64_t heard;		/* time of the last packet */
};

static struct connection connections[CONNECTIONS];
static uint64_t began, late[PACKETS];
static unsigned int sent, open, early;

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

static void watch(int ep, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	check(!epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void open_connection(struct htw *coarse, struct connection *c, int ep)
{
	int pair[2];

	check(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "socketpair");
	c->sender = pair[0];
	c->receiver = pair[1];
	c->heard = htw_now(coarse);
	check_htw(htw_timeout(coarse, IDLE, HTW_COOKIE(c), &c->timeout), "htw_timeout");
	watch(ep, c->receiver, c);
	open++;
}

static void send_packet(struct htw *exact, uint64_t due)
{
	const struct connection *c = &connections[sent % CONNECTIONS];
	const uint64_t now = htw_now(exact);

	early += now < began + (sent + 1) * GAP;
	late[sent] = now - due;
	if (c->timeout)
		check(write(c->sender, &sent, sizeof(sent)) == sizeof(sent), "write");
	sent++;
}

/* One event is one packet, and those that were missed as the program had no CPU. */
static void send_packets(struct htw *exact, uint64_t stream)
{
	struct htw_event event;
	int n = htw_read(exact, &event, 1);
	uint64_t i;

	check_htw(n < 0 ? n : 0, "htw_read");
	for (i = 0; n && i <= event.missed && sent < PACKETS; i++)
		send_packet(exact, event.deadline + i * GAP);
	if (n && sent == PACKETS)
		check_htw(htw_stop(exact, stream), "htw_stop");
}

/* A packet came: put the timeout off, which is a store. */
static void receive(struct htw *coarse, struct connection *c)
{
	unsigned int packet;

	check(read(c->receiver, &packet, sizeof(packet)) == sizeof(packet), "read");
	c->heard = htw_now(coarse);
	check_htw(htw_put_off(coarse, c->timeout, c->heard + IDLE), "htw_put_off");
}

static void close_idle(struct htw *coarse)
{
	struct htw_event events[64];
	int i, n = htw_read(coarse, events, 64);

	check_htw(n < 0 ? n : 0, "htw_read");
	for (i = 0; i < n; i++) {
		struct connection *c = HTW_POINTER(events[i].cookie);

		early += htw_now(coarse) < c->heard + IDLE;
		close(c->sender);
		close(c->receiver);
		c->timeout = 0;
		open--;
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int main(void)
{
	const struct htw_setup_args exactly = { .flags = HTW_SETUP_EXACT };
	struct epoll_event ready[16];
	struct htw *exact, *coarse;
	uint64_t stream;
	int ep, n, i;

	/* With the module if it is loaded, else with timers in this process. */
	check_htw(htw_open(&exact, HTW_BACKEND_ANY, &exactly), "htw_open");
	check_htw(htw_open(&coarse, HTW_BACKEND_ANY, NULL), "htw_open");
	ep = epoll_create1(EPOLL_CLOEXEC);
	check(ep >= 0, "epoll_create1");
	watch(ep, htw_fd(exact), exact);
	watch(ep, htw_fd(coarse), coarse);

	for (i = 0; i < CONNECTIONS; i++)
		open_connection(coarse, &connections[i], ep);
	began = htw_now(exact);
	check_htw(htw_every(exact, GAP, GAP, 0, &stream), "htw_every");

	while (open || sent < PACKETS) {
		bool timeouts = false;

		n = epoll_wait(ep, ready, 16, -1);
		check(n > 0, "epoll_wait");
		for (i = 0; i < n; i++) {
			if (ready[i].data.ptr == exact)
				send_packets(exact, stream);
			else if (ready[i].data.ptr == coarse)
				timeouts = true;
			else
				receive(coarse, ready[i].data.ptr);
		}
		/* Last, so that a connection that has just got a packet is not closed. */
		if (timeouts)
			close_idle(coarse);
	}

	qsort(late, PACKETS, sizeof(*late), compare);
	printf("%u packets, 50 us apart: half at most %.0f us late, 99 in 100 at most %.0f; "
	       "%u packets or timeouts too early; timers kept by %s\n", PACKETS,
	       late[PACKETS / 2] / 1e3, late[PACKETS * 99 / 100] / 1e3, early,
	       htw_backend(exact) == HTW_BACKEND_DEVICE ? "the module" : "this process");
	htw_close(exact);
	htw_close(coarse);
	close(ep);
	return early ? 1 : 0;
}
