// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections whose timeout is put off by each event: by htw_put_off(), on both
 * of libhtw's backends, and by hand
 *
 * By hand, a program stores the time of the last activity, and when the timer
 * comes it looks at that and starts the timer again: with kept timers of
 * libhtw's, 256 in a call.
 */
#include "../../lib/libhtw.h"
#include <string.h>
#include "bench.h"
#include "connections.h"
#include "measure.h"
#include "report.h"
#include "workloads.h"

#define REARMS	100U		/* for each timeout, as the row's name says */

static struct htw *timers;
static struct bench b;
static uint64_t *ids;		/* of each event's connection, in random order */
static uint64_t *active;	/* by hand: time of the last activity, by connection */

static void check(int result, const char *what)
{
	if (unlikely(result))
		die("put-off: %s: %d (%s)", what, result,
		    result < 0 ? strerror(-result) : "failed");
}

static void open_timers(enum htw_backend backend, uint32_t flags)
{
	const struct htw_setup_args setup = { .limit = CONNECTIONS + 1024 };
	const struct htw_add_args common = { .flags = flags };
	uint64_t numbers[BATCH];
	uint32_t first, i;

	bench_init(&b, CONNECTIONS);
	fill_random(b.delay, CONNECTIONS, TIMEOUT, 1);
	ids = allocate(CONNECTIONS, sizeof(*ids));
	active = allocate(CONNECTIONS, sizeof(*active));
	check(htw_open(&timers, backend, &setup), "htw_open");
	for (first = 0; first < CONNECTIONS; first += BATCH) {
		for (i = 0; i < BATCH; i++)
			numbers[i] = first + i;
		check(htw_add_many(timers, &common, b.delay + first, numbers, b.handles + first,
				   BATCH, NULL), "htw_add_many");
	}
	for (i = 0; i < CONNECTIONS; i++) {
		ids[i] = b.handles[b.rearm_order[i]];
		active[i] = htw_now(timers);
	}
}

static void close_timers(void)
{
	htw_close(timers);
	release(ids, CONNECTIONS, sizeof(*ids));
	release(active, CONNECTIONS, sizeof(*active));
	bench_exit(&b);
}

static void put_off(uint32_t first, uint32_t count)
{
	const uint64_t deadline = now_ns() + TIMEOUT;
	const uint64_t *const order = ids + first;
	struct htw *const htw = timers;
	uint32_t i;

	for (i = 0; i < count; i++)
		if (unlikely(htw_put_off_inline(htw, order[i], deadline)))
			die("put-off: a connection timed out");
}

static void put_off_by_call(uint32_t first, uint32_t count)
{
	const uint64_t deadline = now_ns() + TIMEOUT;
	const uint64_t *const order = ids + first;
	uint32_t i;

	for (i = 0; i < count; i++)
		if (unlikely(htw_put_off(timers, order[i], deadline)))
			die("put-off: a connection timed out");
}

static void put_off_turn(void)
{
	struct htw_event events[BATCH];

	if (unlikely(htw_read(timers, events, BATCH)))
		die("put-off: a timer that was put off came");
}

static void by_hand(uint32_t first, uint32_t count)
{
	const uint32_t *const order = b.rearm_order + first;
	uint64_t *const field = active;
	const uint64_t now = now_ns();
	uint32_t i;

	for (i = 0; i < count; i++)
		__atomic_store_n(&field[order[i]], now, __ATOMIC_RELAXED);
}

static void by_hand_turn(void)
{
	uint64_t again[BATCH], deadlines[BATCH], now = now_ns();
	struct htw_event events[BATCH];
	int i, n;

	do {
		n = htw_read(timers, events, BATCH);
		if (unlikely(n < 0))
			check(n, "htw_read");
		for (i = 0; i < n; i++) {
			again[i] = events[i].id;
			deadlines[i] = active[events[i].cookie] + TIMEOUT;
			if (unlikely(deadlines[i] <= now))
				die("put-off: a connection timed out by hand");
		}
		check(htw_rearm_many(timers, again, deadlines, n, HTW_F_ABS, NULL),
		      "htw_rearm_many");
	} while (n == BATCH);
}

static const struct {
	enum htw_backend backend;
	const char *name, *by_hand;
} systems[] = {
	{ HTW_BACKEND_PROCESS, "libhtw", "libhtw-by-hand" },
	{ HTW_BACKEND_DEVICE, "libhtw-device", "libhtw-device-by-hand" },
};

static void run(const char *name, enum htw_backend backend, uint32_t flags,
		void (*touch)(uint32_t first, uint32_t count), void (*turn)(void))
{
	double unit_cost;

	settle();
	unit_cost = connections_calibrate();
	open_timers(backend, flags);
	report(name, "put-off-100-a-timeout", CONNECTIONS,
	       connections_run(REARMS, unit_cost, touch, turn), "insn/op");
	close_timers();
}

void workload_put_off(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(systems); i++) {
		run(systems[i].name, systems[i].backend, HTW_F_PUT_OFF, put_off, put_off_turn);
		run(systems[i].by_hand, systems[i].backend, HTW_F_KEEP, by_hand, by_hand_turn);
	}
}

/*
 * The calls alone, with all pages present: a loop of calls, less the same loop
 * without them.
 */
static void report_calls(const char *system, const char *op,
			 void (*touch)(uint32_t first, uint32_t count))
{
	uint64_t begin, calls, rest;
	uint32_t i;

	touch(0, CONNECTIONS);
	begin = instructions();
	touch(0, CONNECTIONS);
	calls = instructions() - begin;
	begin = instructions();
	for (i = 0; i < CONNECTIONS; i++)
		__asm__ volatile("" : : "r"(ids[i]));
	rest = instructions() - begin;
	report(system, op, CONNECTIONS, (double)(calls - rest) / CONNECTIONS, "insn/op");
}

void workload_put_off_calls(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(systems); i++) {
		open_timers(systems[i].backend, HTW_F_PUT_OFF);
		settle();
		report_calls(systems[i].name, "put-off-inline", put_off);
		report_calls(systems[i].name, "put-off", put_off_by_call);
		close_timers();
	}
}
