// SPDX-License-Identifier: GPL-2.0-only
/*
 * DPDK's rte_timer: a skip list, by rte_timer_reset(), _stop() and _manage(). It reads the
 * processor's counter, so time passes here: a tick is some microseconds, for which wait_for()
 * waits while nothing is counted.
 */
#include <rte_eal.h>
#include <rte_timer.h>
#include <valgrind/valgrind.h>
#include "bench.h"

#define INSTANCES	1
#define LEAST		1000
#define MOST		100000
#define TIMER_BYTES	sizeof(struct rte_timer)
#define HAS_NEXT	0
#define SUBTRACT_PASS	0
#define OWN_CLOCK	1
#define PREPARE()	prepare()
#define FIRED(t)	fired_tick(t)

struct timer {
	struct rte_timer timer;
	uint64_t fired;
};

struct instance {
	uint64_t base;		/* the counter at BENCH_START */
	uint64_t tick;		/* of the counter */
};

static struct instance *instances;

static void prepare(void)
{
	/* No memory but malloc()'s, no devices, and quiet. */
	static char arguments[][32] = {
		"wheel-bench", "--no-huge", "--no-shconf", "-l", "0", "--no-pci", "--no-telemetry",
		"--log-level=lib.eal:error"
	};
	enum { COUNT = sizeof(arguments) / sizeof(*arguments) };
	char *pointers[COUNT + 1] = { NULL };
	static bool ready;

	for (int i = 0; i < COUNT; i++)
		pointers[i] = arguments[i];
	if (!ready && (rte_eal_init(COUNT, pointers) < 0 || rte_timer_subsystem_init()))
		bench_die("dpdk: cannot be initialized");
	ready = true;
}

static void open_instance(struct instance *s, const struct bench *b)
{
	/* How many ns a tick needs, and the starts, restarts and stops before the first one. */
	const bool slow = RUNNING_ON_VALGRIND;
	const uint64_t tick_ns = slow ? 20000 + b->pending / 2 : 3000 + b->pending / 50;
	const uint64_t lead_ns = 100000000 + b->pending * (slow ? 300000ULL : 60000ULL);

	s->tick = rte_get_timer_hz() * tick_ns / 1000000000;
	s->base = rte_rdtsc() + rte_get_timer_hz() / 1000 * (lead_ns / 1000000);
}

static void close_instance(struct instance *s)
{
	(void)s;
}

static void expired(struct rte_timer *timer, void *arg)
{
	struct timer *t = (struct timer *)((char *)timer - offsetof(struct timer, timer));

	(void)arg;
	t->fired = rte_rdtsc();
	bench_fired++;
}

static inline uint64_t delay(const struct instance *s, uint64_t tick)
{
	return s->base + (tick - BENCH_START) * s->tick - rte_rdtsc();
}

static inline void restart(struct instance *s, struct timer *t, uint64_t tick)
{
	rte_timer_reset(&t->timer, delay(s, tick), SINGLE, 0, expired, NULL);
}

static inline void start(struct instance *s, struct timer *t, uint64_t tick)
{
	rte_timer_init(&t->timer);
	restart(s, t, tick);
}

static inline void stop(struct instance *s, struct timer *t)
{
	(void)s;
	rte_timer_stop(&t->timer);
}

static inline uint64_t next(struct instance *s)
{
	(void)s;
	return BENCH_NEVER;
}

static inline void advance(struct instance *s, uint64_t now)
{
	(void)s;
	(void)now;
	rte_timer_manage();
}

/* Half a tick more than needed. */
static void wait_for(uint64_t tick)
{
	const struct instance *s = instances;
	uint64_t now;

	do {
		now = rte_rdtsc();
	} while (now < s->base || now - s->base < (tick - BENCH_START) * s->tick + s->tick / 2);
}

/* Timers note the counter. */
static uint64_t fired_tick(const struct timer *t)
{
	if (!t->fired)
		return 0;
	return BENCH_START + (int64_t)(t->fired - instances->base) / (int64_t)instances->tick;
}

#include "life.h"
