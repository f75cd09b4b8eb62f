// SPDX-License-Identifier: GPL-2.0-only
/*
 * William Ahern's timing wheel, and sysprog21's fork of it, from the directory of the
 * include path; without what they can be compiled without. TIMEOUT_PUBLIC and the like are
 * left to them: the Makefile keeps all names but the system's local.
 */
#define TIMEOUT_DISABLE_CALLBACKS
#define TIMEOUT_DISABLE_INTERVALS
#define TIMEOUT_DISABLE_RELATIVE_ACCESS
#include "timeout.c"
#include "bench.h"

#define INSTANCES	4096
#define LEAST		1
#define MOST		UINT32_MAX
#define TIMER_BYTES	sizeof(struct timeout)
#define HAS_NEXT	1
#define SUBTRACT_PASS	0
#define OWN_CLOCK	0

struct timer {
	struct timeout timeout;
	uint64_t fired;
};

struct instance {
	struct timeouts *timeouts;
};

static void open_instance(struct instance *s, const struct bench *b)
{
	int error;

	(void)b;
	s->timeouts = timeouts_open(TIMEOUT_mHZ, &error);
	if (!s->timeouts)
		bench_die("%s: no memory", NAME);
	timeouts_update(s->timeouts, BENCH_START);
}

static void close_instance(struct instance *s)
{
	timeouts_close(s->timeouts);
}

static inline void start(struct instance *s, struct timer *t, uint64_t tick)
{
	t->timeout.flags = TIMEOUT_ABS;
	timeouts_add(s->timeouts, &t->timeout, tick);
}

static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	timeouts_add(s->timeouts, &t->timeout, tick);
}

static inline void stop(struct instance *s, struct timer *t)
{
	timeouts_del(s->timeouts, &t->timeout);
}

static inline uint64_t next(struct instance *s)
{
	const timeout_t left = timeouts_timeout(s->timeouts);

	return left == ~TIMEOUT_C(0) ? BENCH_NEVER : bench_now + left;
}

static inline void advance(struct instance *s, uint64_t now)
{
	struct timeout *to;

	timeouts_update(s->timeouts, now);
	while ((to = timeouts_get(s->timeouts))) {
		struct timer *t = (struct timer *)((char *)to - offsetof(struct timer, timeout));

		t->fired = bench_now;
		bench_fired++;
	}
}

static void wait_for(uint64_t tick)
{
	(void)tick;
}

#include "life.h"
