// SPDX-License-Identifier: GPL-2.0-only
/* libevent: a heap with two children of each node, by event_add() and event_del() */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <limits.h>
#include "bench.h"

#define INSTANCES	64
#define LEAST		1
#define MOST		UINT32_MAX
#define TIMER_BYTES	sizeof(struct event)
#define HAS_NEXT	0
#define SUBTRACT_PASS	1
#define OWN_CLOCK	0

struct timer {
	struct event event;
	uint64_t fired;
};

struct instance {
	struct event_base *base;
};

static void open_instance(struct instance *s, const struct bench *b)
{
	(void)b;
	s->base = event_base_new();
	if (!s->base)
		bench_die("libevent: cannot create a base");
}

static void close_instance(struct instance *s)
{
	event_base_free(s->base);
}

static void expired(evutil_socket_t fd, short what, void *arg)
{
	struct timer *t = arg;

	(void)fd;
	(void)what;
	t->fired = bench_now;
	bench_fired++;
}

static inline struct timeval delay(uint64_t tick)
{
	const uint64_t ms = tick - bench_now;
	const struct timeval tv = {
		.tv_sec = ms / 1000,
		.tv_usec = ms % 1000 * 1000,
	};

	return tv;
}

static inline void start(struct instance *s, struct timer *t, uint64_t tick)
{
	const struct timeval tv = delay(tick);

	event_assign(&t->event, s->base, -1, 0, expired, t);
	event_add(&t->event, &tv);
}

static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	const struct timeval tv = delay(tick);

	(void)s;

	event_add(&t->event, &tv);
}

static inline void stop(struct instance *s, struct timer *t)
{
	(void)s;
	event_del(&t->event);
}

static inline uint64_t next(struct instance *s)
{
	(void)s;
	return BENCH_NEVER;
}

static inline void advance(struct instance *s, uint64_t now)
{
	bench_set_clock(now, 0);
	event_base_loop(s->base, EVLOOP_NONBLOCK);
}

static void wait_for(uint64_t tick)
{
	(void)tick;
}

#include "life.h"
