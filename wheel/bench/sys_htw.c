// SPDX-License-Identifier: GPL-2.0-only
/* The wheel: with levels, or without if LEVELS is 0 */
#include <limits.h>
#include "htw_wheel.h"
#include "bench.h"

#define INSTANCES	4096
#define LEAST		1
#define MOST		UINT32_MAX
#define TIMER_BYTES	sizeof(struct htw_node)
#define HAS_NEXT	1
#define SUBTRACT_PASS	0
#define COUNT_IDLE	1
#define OWN_CLOCK	0

struct timer {
	struct htw_node node;
	uint64_t fired;
};

struct instance {
	struct htw_wheel wheel;
};

static void open_instance(struct instance *s, const struct bench *b);
static void close_instance(struct instance *s);
static void wait_for(uint64_t tick);

static inline void start(struct instance *s, struct timer *t, uint64_t tick)
{
	htw_wheel_start(&s->wheel, &t->node, tick);
}

static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	htw_wheel_restart(&s->wheel, &t->node, tick);
}

static inline void stop(struct instance *s, struct timer *t)
{
	htw_wheel_stop(&s->wheel, &t->node);
}

static inline uint64_t next(struct instance *s)
{
	return htw_wheel_next(&s->wheel);
}

static void expired(struct htw_node *n, void *arg)
{
	struct timer *t = (struct timer *)((char *)n - offsetof(struct timer, node));

	(void)arg;
	t->fired = bench_now;
	bench_fired++;
}

static inline void advance(struct instance *s, uint64_t now)
{
	unsigned int budget = UINT_MAX;

	htw_wheel_advance(&s->wheel, now, &budget, expired, NULL);
}

#include "life.h"

static void open_instance(struct instance *s, const struct bench *b)
{
	struct htw_geometry geo;
	size_t bytes;

	htw_wheel_init(&s->wheel, BENCH_START);
	if (!LEVELS)
		return;
	htw_geometry_default(&geo, 1000000, b->pending);
	bytes = htw_geometry_bytes(&geo);
	htw_wheel_add_levels(&s->wheel, &geo, bench_allocate(1, bytes), bytes);
}

static void close_instance(struct instance *s)
{
	free(htw_wheel_remove_levels(&s->wheel));
}

static void wait_for(uint64_t tick)
{
	(void)tick;
}
