// SPDX-License-Identifier: GPL-2.0-only
/* libev: a heap with four children of each node, by ev_timer_start(), _again() and _stop() */
#include <ev.h>
#include <limits.h>
#include "bench.h"

#define INSTANCES	64
#define LEAST		1
#define MOST		UINT32_MAX
#define TIMER_BYTES	sizeof(ev_timer)
#define HAS_NEXT	0
#define SUBTRACT_PASS	1
#define OWN_CLOCK	0

struct timer {
	ev_timer timer;
	uint64_t fired;
};

struct instance {
	struct ev_loop *loop;
};

static void open_instance(struct instance *s, const struct bench *b)
{
	(void)b;
	s->loop = ev_loop_new(EVBACKEND_EPOLL);
	if (!s->loop)
		bench_die("libev: cannot create a loop");
}

static void close_instance(struct instance *s)
{
	ev_loop_destroy(s->loop);
}

static void expired(struct ev_loop *l, ev_timer *w, int revents)
{
	struct timer *t = (struct timer *)((char *)w - offsetof(struct timer, timer));

	(void)l;
	(void)revents;
	t->fired = bench_now;
	bench_fired++;
}

static inline double delay(uint64_t tick)
{
	return (double)(tick - bench_now) * 1e-3;
}

static inline void start(struct instance *s, struct timer *t, uint64_t tick)
{
	ev_timer_init(&t->timer, expired, delay(tick), 0.);
	ev_timer_start(s->loop, &t->timer);
}

/* As its manual recommends. The timer does not repeat: its next tick is as far away as it was. */
static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	t->timer.repeat = delay(tick);
	ev_timer_again(s->loop, &t->timer);
	t->timer.repeat = 0.;
}

static inline void stop(struct instance *s, struct timer *t)
{
	ev_timer_stop(s->loop, &t->timer);
}

static inline uint64_t next(struct instance *s)
{
	(void)s;
	return BENCH_NEVER;
}

/* A timer expires after its time, and not at it. */
static inline void advance(struct instance *s, uint64_t now)
{
	bench_set_clock(now, now > BENCH_START ? 1000 : 0);
	ev_run(s->loop, EVRUN_NOWAIT);
}

static void wait_for(uint64_t tick)
{
	(void)tick;
}

#include "life.h"
