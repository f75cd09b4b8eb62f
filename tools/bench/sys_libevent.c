// SPDX-License-Identifier: GPL-2.0-only
/* libevent: a heap of events in the process, one loop. */
#include <event2/event.h>
#include <event2/event_struct.h>
#include "bench.h"

static struct event_base *base;
static struct event *timers;
static struct bench *current;
/*
 * Time of the first expiration in a turn of the loop; not earlier than the
 * loop's time.
 */
static uint64_t collected_at;

static void expired(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	if (unlikely(!(what & EV_TIMEOUT)))
		die("libevent: events %d", what);
	if (unlikely(!collected_at))
		collected_at = now_ns();
	bench_expired(current, (struct event *)arg - timers, collected_at);
}

static void libevent_open(struct bench *b)
{
	base = event_base_new();
	if (!base)
		die("libevent: cannot create a base");
	timers = allocate(b->pending, sizeof(*timers));
	current = b;
}

static struct timeval timeval(uint64_t ns)
{
	/* Round up to microseconds. */
	ns += USEC - 1;
	return (struct timeval) {
		.tv_sec = ns / SEC,
		.tv_usec = ns % SEC / USEC,
	};
}

static void libevent_add(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++) {
		const struct timeval tv = timeval(b->delay[i]);

		if (unlikely(event_assign(&timers[i], base, -1, 0, expired, &timers[i]) ||
			     event_add(&timers[i], &tv)))
			die("libevent: cannot add timer %u", i);
	}
}

static bool pending(uint32_t i)
{
	return event_pending(&timers[i], EV_TIMEOUT, NULL);
}

static void libevent_rearm(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		const struct timeval tv = timeval(b->later[k]);
		const uint32_t i = b->rearm_order[k];

		if (unlikely(!pending(i) || event_add(&timers[i], &tv)))
			die("libevent: cannot re-arm timer %u", i);
	}
}

static void libevent_cancel(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		const uint32_t i = b->cancel_order[k];

		if (unlikely(!pending(i) || event_del(&timers[i])))
			die("libevent: cannot cancel timer %u", i);
	}
}

static void libevent_collect(struct bench *b)
{
	(void)b;
	collected_at = 0;
	if (unlikely(event_base_loop(base, EVLOOP_NONBLOCK) < 0))
		die("libevent: the loop failed");
}

static void libevent_close(struct bench *b)
{
	uint32_t i;

	/* The base does not own its events, and warns of those that are left. */
	for (i = 0; i < b->pending; i++)
		event_del(&timers[i]);
	event_base_free(base);
	release(timers, b->pending, sizeof(*timers));
}

const struct system system_libevent = {
	.name = "libevent",
	.open = libevent_open,
	.add = libevent_add,
	.rearm = libevent_rearm,
	.cancel = libevent_cancel,
	.collect = libevent_collect,
	.close = libevent_close,
};
