/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The life of a system's timers: included at the end of the system's source, so that the compiler
 * can put the system's functions into the loops.
 *
 * The source defines SYSTEM, a name in C; struct instance and struct timer, with a member fired;
 * and open_instance(), close_instance(), start(), restart(), stop(), next() and advance(). Timers
 * are zeroed. It also defines
 *
 *	NAME		the name in reports
 *	INSTANCES	how many instances there can be
 *	LEAST, MOST	timers with which it is measured
 *	TIMER_BYTES	what the system needs in a timer
 *	HAS_NEXT	whether next() can be asked; otherwise the ticks with timers are given
 *	SUBTRACT_PASS	whether advance() does more than timers need, as the turn of a loop: what it
 *			takes with nothing due is measured, and subtracted
 *	COUNT_IDLE	whether an advance() with nothing due is measured, if it is defined
 *	OWN_CLOCK	whether it has a clock that cannot be set: wait_for() waits
 *	FIRED(t)	the tick at which a timer has expired, if that is not what fired says
 *	PREPARE()	if it has to be called once before all
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PASSES		1000

#ifndef PREPARE
#define PREPARE()	((void)0)
#endif
#ifndef COUNT_IDLE
#define COUNT_IDLE	0
#endif
#ifndef FIRED
#define FIRED(t)	((t)->fired)
#endif

static struct instance *instances;
static struct timer *timers;
/* Pointers to timers, in the order in which they are started, restarted and stopped. */
static struct timer **in_order, **in_restart_order, **in_stop_order;

static __attribute__((__noinline__)) void start_all(struct bench *b, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < b->instances; i++) {
		struct instance *const s = &instances[i];
		struct timer **const at = in_order + (size_t)i * b->pending;
		const uint64_t *const ticks = b->first + (size_t)i * b->pending;

		for (uint32_t k = from; k < to; k++)
			start(s, at[k], ticks[k]);
	}
}

static __attribute__((__noinline__)) void restart_all(struct bench *b)
{
	for (uint32_t i = 0; i < b->instances; i++) {
		struct instance *const s = &instances[i];
		struct timer **const at = in_restart_order + (size_t)i * b->pending;
		const uint64_t *const ticks = b->second + (size_t)i * b->pending;
		const uint32_t restarts = b->restarts;

		for (uint32_t k = 0; k < restarts; k++)
			restart(s, at[k], ticks[k]);
	}
}

static __attribute__((__noinline__)) void stop_all(struct bench *b, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < b->instances; i++) {
		struct instance *const s = &instances[i];
		struct timer **const at = in_stop_order + (size_t)i * b->pending;

		for (uint32_t k = from; k < to; k++)
			stop(s, at[k]);
	}
}

/* Nothing is due. */
static __attribute__((__noinline__)) void pass_all(void)
{
	struct instance *const s = &instances[0];
	const uint64_t now = bench_now;

	for (uint32_t i = 0; i < PASSES; i++) {
		if (OWN_CLOCK)
			bench_begin();
		advance(s, now);
		if (OWN_CLOCK)
			bench_pause();
	}
}

/* From each tick with work to the next one, as the system names them. Return: how many. */
static __attribute__((__noinline__)) uint64_t expire_asked(struct instance *s)
{
	uint64_t passes = 0;

	for (;;) {
		const uint64_t tick = next(s);

		if (tick == BENCH_NEVER)
			return passes;
		if (tick > bench_now)
			bench_now = tick;
		advance(s, bench_now);
		passes++;
	}
}

/* The same, if the ticks with a timer to expire are given. */
static __attribute__((__noinline__)) uint64_t
expire_given(struct instance *s, const uint64_t *ticks, uint32_t nr_ticks)
{
	for (uint32_t i = 0; i < nr_ticks; i++) {
		bench_now = ticks[i];
		if (OWN_CLOCK) {
			wait_for(bench_now);
			bench_begin();
		}
		advance(s, bench_now);
		if (OWN_CLOCK)
			bench_pause();
	}
	return nr_ticks;
}

static __attribute__((__noinline__)) uint64_t expire_all(struct bench *b)
{
	uint64_t passes = 0;

	for (uint32_t i = 0; i < b->instances; i++) {
		bench_now = BENCH_START;
		if (HAS_NEXT)
			passes += expire_asked(&instances[i]);
		else
			passes += expire_given(&instances[i], b->ticks + (size_t)i * b->pending,
					       b->nr_ticks[i]);
	}
	return passes;
}

/* All that were not stopped have expired, once, and not early. */
static void check_life(struct bench *b)
{
	const size_t total = (size_t)b->instances * b->pending;
	uint64_t late = 0, expected = 0;

	for (size_t i = 0; i < total; i++) {
		const uint64_t fired = FIRED(&timers[i]), tick = b->expected[i];

		if (!tick && fired)
			bench_die("%s: timer %zu was stopped, and has expired", NAME, i);
		if (!tick)
			continue;
		expected++;
		if (!fired)
			bench_die("%s: timer %zu has not expired", NAME, i);
		if (fired < tick)
			bench_die("%s: timer %zu is early by %llu ticks", NAME, i,
				  (unsigned long long)(tick - fired));
		if (fired - tick > late)
			late = fired - tick;
	}
	if (bench_fired != expected)
		bench_die("%s: %llu timers instead of %llu have expired", NAME,
			  (unsigned long long)bench_fired, (unsigned long long)expected);
	bench_lateness(b, late);
}

static void order(struct bench *b)
{
	for (uint32_t i = 0; i < b->instances; i++) {
		const size_t base = (size_t)i * b->pending;

		for (uint32_t k = 0; k < b->pending; k++) {
			in_order[base + k] = &timers[base + k];
			in_restart_order[base + k] = &timers[base + b->restart_order[base + k]];
			in_stop_order[base + k] = &timers[base + b->stop_order[base + k]];
		}
	}
}

static void life(struct bench *b)
{
	const size_t total = (size_t)b->instances * b->pending;
	uint64_t passes;
	size_t heap;

	timers = (struct timer *)bench_allocate(total, sizeof(*timers));
	in_order = (struct timer **)bench_allocate(total, sizeof(*in_order));
	in_restart_order = (struct timer **)bench_allocate(total, sizeof(*in_order));
	in_stop_order = (struct timer **)bench_allocate(total, sizeof(*in_order));
	instances = (struct instance *)bench_allocate(b->instances, sizeof(*instances));
	order(b);
	bench_now = BENCH_START;
	bench_fired = 0;
	bench_set_clock(BENCH_START, 0);

	PREPARE();
	heap = bench_heap();
	for (uint32_t i = 0; i < b->instances; i++)
		open_instance(&instances[i], b);
	start_all(b, 0, b->first_counted);
	if (b->counts_starts)
		bench_begin();
	start_all(b, b->first_counted, b->pending);
	if (b->counts_starts)
		bench_end(b, "start",
			  (uint64_t)b->instances * (b->pending - b->first_counted), 0);
	heap = bench_heap() - heap + b->instances * sizeof(*instances);
	if (b->counts_starts)
		bench_bytes(b, TIMER_BYTES + (heap + total - 1) / total);

	if (b->counts_starts)
		bench_begin();
	restart_all(b);
	if (b->counts_starts)
		bench_end(b, "restart", (uint64_t)b->instances * b->restarts, 0);

	stop_all(b, 0, b->first_counted_stop);
	if (b->stops > b->first_counted_stop)
		bench_begin();
	stop_all(b, b->first_counted_stop, b->stops);
	if (b->stops > b->first_counted_stop)
		bench_end(b, "stop",
			  (uint64_t)b->instances * (b->stops - b->first_counted_stop), 0);

	if (SUBTRACT_PASS || COUNT_IDLE) {
		if (!OWN_CLOCK)
			bench_begin();
		pass_all();
		bench_end(b, COUNT_IDLE ? "idle" : "pass", PASSES, 0);
	}

	if (!OWN_CLOCK)
		bench_begin();
	passes = expire_all(b);
	bench_end(b, "expire", (uint64_t)b->instances * (b->pending - b->stops), passes);
	check_life(b);

	for (uint32_t i = 0; i < b->instances; i++)
		close_instance(&instances[i]);
	free(instances);
	free(in_stop_order);
	free(in_restart_order);
	free(in_order);
	free(timers);
}

#define LIFE_SYSTEM_(system)	system_##system
#define LIFE_SYSTEM(system)	LIFE_SYSTEM_(system)

#ifdef __cplusplus
extern "C"
#endif
const struct system LIFE_SYSTEM(SYSTEM);
const struct system LIFE_SYSTEM(SYSTEM) = {
	NAME, INSTANCES, LEAST, MOST, life
};
