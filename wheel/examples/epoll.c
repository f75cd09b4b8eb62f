// SPDX-License-Identifier: MIT
/*
 * An event loop with epoll and one timerfd for all timeouts
 *
 * Connections that are silent for 400 ms are closed. One of them hears something
 * every 20 ms, ten times, so its timeout moves each time, and comes last. The
 * timerfd is set once in each round of the loop; outside of it, only if the next
 * tick with work has become earlier.
 *
 *	cc epoll.c htw_wheel.c -o epoll
 */
#include "htw_wheel.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS		1000000ULL		/* a tick is 1 ms */
#define SILENCE_NS	(400 * TICK_NS)
#define BEAT_NS		(20 * TICK_NS)
#define CONNECTIONS	3
#define LATEST_NS	(INT32_MAX * 1000000000ULL)
#define MOST		256			/* expirations before other events get their turn */

struct connection {
	int fd, peer;		/* to keep this in one program, the other end is ours */
	int received;
	uint64_t deadline;
	struct htw_node timeout;
};

static struct connection connections[CONNECTIONS];
static struct htw_node beat;
static struct htw_wheel wheel;
static int epoll_fd, timer_fd, beats, early;

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Have the timerfd wake us at a tick; not at all if its time never comes. */
static void set_timer(uint64_t tick)
{
	struct itimerspec at = { { 0, 0 }, { 0, 0 } };
	uint64_t ns = htw_tick_time(tick, TICK_NS);

	if (ns != HTW_NEVER) {
		if (ns > LATEST_NS)
			ns = LATEST_NS;		/* a time_t may have 32 bits */
		at.it_value.tv_sec = (time_t)(ns / 1000000000);
		at.it_value.tv_nsec = (long)(ns % 1000000000);
		if (!ns)
			at.it_value.tv_nsec = 1;	/* zero would stop it */
	}
	if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL))
		die("timerfd_settime");
}

/* Start a timer, or move it. Rounded up to a tick, so that it is not early. */
static void set_timeout(struct htw_node *n, uint64_t deadline)
{
	if (htw_wheel_restart(&wheel, n, htw_tick_up(deadline, TICK_NS)))
		set_timer(htw_wheel_next(&wheel));
}

static void set_silence(struct connection *c)
{
	c->deadline = now_ns() + SILENCE_NS;
	set_timeout(&c->timeout, c->deadline);
}

static void expired(struct htw_node *n, void *arg)
{
	struct connection *c;
	int *open = (int *)arg;
	char unread;

	if (n == &beat) {
		if (write(connections[1].peer, "x", 1) != 1)
			die("write");
		if (++beats < 10)
			set_timeout(&beat, now_ns() + BEAT_NS);
		return;
	}
	c = HTW_CONTAINER_OF(n, struct connection, timeout);
	early |= now_ns() < c->deadline;
	/* If we are late ourselves, something may have come in the meantime. */
	if (recv(c->fd, &unread, 1, MSG_PEEK | MSG_DONTWAIT) > 0) {
		set_silence(c);
		return;
	}
	printf("connection %d closed after %d messages\n", (int)(c - connections), c->received);
	close(c->fd);
	--*open;
}

static void receive(struct connection *c)
{
	char buffer[64];

	if (read(c->fd, buffer, sizeof(buffer)) <= 0)
		die("read");
	c->received++;
	set_silence(c);
}

int main(void)
{
	int open = CONNECTIONS;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (epoll_fd < 0 || timer_fd < 0)
		die("epoll or timerfd");
	htw_wheel_init(&wheel, now_ns() / TICK_NS);
	for (int i = -1; i < CONNECTIONS; i++) {
		struct epoll_event event;
		int fds[2] = { timer_fd, -1 };

		event.events = EPOLLIN;
		event.data.ptr = NULL;
		if (i >= 0) {
			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
				die("socketpair");
			connections[i].fd = fds[0];
			connections[i].peer = fds[1];
			event.data.ptr = &connections[i];
			set_silence(&connections[i]);
		}
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[0], &event))
			die("epoll_ctl");
	}
	set_timeout(&beat, now_ns() + BEAT_NS);

	while (open) {
		struct epoll_event events[16];
		unsigned int budget = MOST;
		int n = epoll_wait(epoll_fd, events, 16, -1);

		/* Starts need not set the timerfd until it is set below. */
		wheel.next = 0;
		for (int i = 0; i < n; i++) {
			struct connection *c = (struct connection *)events[i].data.ptr;
			uint64_t count;

			if (c)
				receive(c);
			else if (read(timer_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				die("timerfd");
		}

		htw_wheel_advance(&wheel, now_ns() / TICK_NS, &budget, expired, &open);
		/* If the budget was too small, that tick has come, and we are back at once. */
		set_timer(htw_wheel_next(&wheel));
	}
	return early;
}
