// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections whose timeout is moved by each event, in the module's table
 *
 * With htw's table that is a store. libev's manual recommends to store the time
 * of the last activity and to look at it when the timer expires ("Be smart about
 * timeouts"): also a store, and a callback for each timeout.
 */
#include <ev.h>
#include <stdio.h>
#include <string.h>
#include "bench.h"
#include "connections.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "workloads.h"

static struct bench b;
static uint64_t *table;		/* htw's table, by slot */
static uint32_t *slots;		/* slot of each event's connection, in random order */

static void htw_touch(uint32_t first, uint32_t count)
{
	const uint64_t deadline = now_ns() + TIMEOUT;
	const uint32_t *const order = slots + first;
	uint64_t *const words = table;	/* in a register: stores might change the global */
	uint32_t i;

	for (i = 0; i < count; i++)
		__atomic_store_n(&words[order[i]], deadline, __ATOMIC_RELAXED);
}

static void htw_loop(void)
{
	system_htw_table.collect(&b);
	if (b.collected)
		die("table: a moved timeout expired");
}

static struct ev_loop *loop;
static ev_timer *timers;
static ev_tstamp *active;

static void libev_due(struct ev_loop *l, ev_timer *w, int revents)
{
	const ev_tstamp left = active[w - timers] + TIMEOUT / 1e9 - ev_now(l);

	(void)revents;
	if (left <= 0)
		die("table: a connection of libev timed out");
	ev_timer_set(w, left, 0.);
	ev_timer_start(l, w);
}

static void libev_touch(uint32_t first, uint32_t count)
{
	ev_tstamp now;
	uint32_t i;

	ev_now_update(loop);
	now = ev_now(loop);
	for (i = 0; i < count; i++)
		active[b.rearm_order[first + i]] = now;
}

static void libev_loop(void)
{
	ev_run(loop, EVRUN_NOWAIT);
}

static void report_run(const char *system, unsigned int rearms, double value)
{
	char op[32];

	snprintf(op, sizeof(op), "rearm-%u-a-timeout", rearms);
	report(system, op, CONNECTIONS, value, "insn/op");
}

/*
 * The stores alone, with all pages present: a loop of stores, less the same
 * loop without the store.
 */
static void report_store(const char *system)
{
	const uint32_t *const order = slots;
	uint64_t begin, stores, rest;
	static bool done;
	uint32_t i;

	if (done)
		return;
	done = true;
	htw_touch(0, CONNECTIONS);
	begin = instructions();
	htw_touch(0, CONNECTIONS);
	stores = instructions() - begin;
	begin = instructions();
	for (i = 0; i < CONNECTIONS; i++)
		__asm__ volatile("" : : "r"(order[i]));
	rest = instructions() - begin;
	report(system, "store", CONNECTIONS, (double)(stores - rest) / CONNECTIONS, "insn/op");
	report(system, "store-in-a-loop", CONNECTIONS, (double)stores / CONNECTIONS, "insn/op");
}

static void htw_table(unsigned int rearms)
{
	const struct system *s = &system_htw_table;
	double unit_cost;
	uint32_t i;

	bench_init(&b, CONNECTIONS);
	fill_random(b.delay, CONNECTIONS, TIMEOUT, 1);
	slots = allocate(CONNECTIONS, sizeof(*slots));
	settle();
	unit_cost = connections_calibrate();
	s->open(&b);
	b.base = now_ns();
	s->add(&b);
	table = htw_mapped_table();
	for (i = 0; i < CONNECTIONS; i++)
		slots[i] = HTW_ID_SLOT(b.handles[b.rearm_order[i]]);
	report_store(s->name);
	report_run(s->name, rearms, connections_run(rearms, unit_cost, htw_touch, htw_loop));
	s->close(&b);
	release(slots, CONNECTIONS, sizeof(*slots));
	bench_exit(&b);
}

static void libev_activity(unsigned int rearms)
{
	double unit_cost;
	uint32_t i;

	bench_init(&b, CONNECTIONS);
	timers = allocate(CONNECTIONS, sizeof(*timers));
	active = allocate(CONNECTIONS, sizeof(*active));
	settle();
	unit_cost = connections_calibrate();
	loop = ev_loop_new(EVBACKEND_EPOLL);
	if (!loop)
		die("table: libev cannot create a loop");
	ev_now_update(loop);
	for (i = 0; i < CONNECTIONS; i++) {
		active[i] = ev_now(loop);
		ev_timer_init(&timers[i], libev_due, TIMEOUT / 1e9, 0.);
		ev_timer_start(loop, &timers[i]);
	}
	report_run("libev", rearms, connections_run(rearms, unit_cost, libev_touch, libev_loop));
	ev_loop_destroy(loop);
	release(timers, CONNECTIONS, sizeof(*timers));
	release(active, CONNECTIONS, sizeof(*active));
	bench_exit(&b);
}

void workload_table(void)
{
	static const unsigned int rearms[] = { 10, 100, 1000 };
	const char *why = system_htw_table.missing(CONNECTIONS);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rearms); i++) {
		if (why) {
			char op[32];

			snprintf(op, sizeof(op), "rearm-%u-a-timeout", rearms[i]);
			report_missing("htw-table", op, CONNECTIONS, why);
		} else {
			htw_table(rearms[i]);
		}
		libev_activity(rearms[i]);
	}
}
