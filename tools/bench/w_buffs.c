// SPDX-License-Identifier: GPL-2.0-only
/* Buffs: 100,000 periodic timers of 3 s, in htw and in libev. */
#include <ev.h>
#include <string.h>
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "spin.h"
#include "workloads.h"

#define BUFFS		100000U
#define INTERVAL	(3 * SEC)
#define PERIODS		2U
/* Interval of collecting events. */
#define LOOK		MSEC

static uint64_t start;
static uint64_t phase[BUFFS];
static uint8_t fired[BUFFS];
static uint64_t firings;

/* Firing k of a timer is due k intervals after its phase. */
static void buff_fired(uint64_t buff, uint64_t now)
{
	if (unlikely(buff >= BUFFS || now < start + phase[buff] + fired[buff] * INTERVAL))
		die("buffs: timer %llu fired early, or is unknown", (unsigned long long)buff);
	fired[buff]++;
	firings++;
}

/* Collect for some periods; return instructions for each firing, less the waiting. */
static double look(void (*collect)(void))
{
	const double unit_cost = spin_calibrate(SEC);
	const uint64_t until = start + INTERVAL + PERIODS * INTERVAL;
	uint64_t begin, before, units = 0, next;
	unsigned int i;

	/* Start counting after all timers have fired once. */
	for (next = start + INTERVAL; now_ns() < next;) {
		spin_until(now_ns() + LOOK);
		collect();
	}
	before = firings;
	begin = instructions();
	for (; next < until; next += LOOK) {
		units += spin_until(next);
		collect();
	}
	begin = instructions() - begin - (uint64_t)(units * unit_cost);
	for (i = 0; i < BUFFS; i++)
		if (fired[i] < PERIODS)
			die("buffs: timer %u fired %u times", i, fired[i]);
	return (double)begin / (firings - before);
}

static void buffs_init(void)
{
	random_seed(BUFFS);
	fill_random(phase, BUFFS, SEC + SEC / 2, INTERVAL / 3);
	memset(fired, 0, sizeof(fired));
	firings = 0;
	settle();
}

static int fd;

static void htw_look(void)
{
	struct htw_event events[BATCH];
	uint64_t now;
	int n, i;

	do {
		n = htw_read(fd, events, BATCH);
		if (n == -EAGAIN)
			return;
		if (n < 0)
			die("buffs: read: %s", strerror(-n));
		now = now_ns();
		for (i = 0; i < n; i++) {
			if (unlikely(events[i].missed || events[i].taken < events[i].deadline))
				die("buffs: %llu missed, or an early one", events[i].missed);
			buff_fired(events[i].cookie, now);
		}
	} while (n == (int)BATCH);
}

static void htw_buffs(void)
{
	const struct htw_vector_args periodic = { .interval = INTERVAL, .flags = HTW_F_ABS };
	uint64_t *deadlines = allocate(BUFFS, sizeof(*deadlines));
	uint64_t *ids = allocate(BUFFS, sizeof(*ids));
	uint32_t i;

	buffs_init();
	fd = htw_open_device(BUFFS);
	start = now_ns();
	for (i = 0; i < BUFFS; i++)
		deadlines[i] = start + phase[i];
	htw_many_start(fd, periodic, deadlines, BUFFS, ids);
	report("htw-vector", "buffs", BUFFS, look(htw_look), "insn/op");
	close(fd);
	release(ids, BUFFS, sizeof(*ids));
	release(deadlines, BUFFS, sizeof(*deadlines));
}

static struct ev_loop *loop;
static ev_timer timers[BUFFS];
static uint64_t now_of_loop;

static void libev_fired(struct ev_loop *l, ev_timer *w, int revents)
{
	(void)l;
	(void)revents;
	if (unlikely(!now_of_loop))
		now_of_loop = now_ns();
	buff_fired(w - timers, now_of_loop);
}

static void libev_look(void)
{
	ev_now_update(loop);
	now_of_loop = 0;
	ev_run(loop, EVRUN_NOWAIT);
}

static void libev_buffs(void)
{
	uint32_t i;

	buffs_init();
	loop = ev_loop_new(EVBACKEND_EPOLL);
	if (!loop)
		die("buffs: libev cannot create a loop");
	start = now_ns();
	ev_now_update(loop);
	for (i = 0; i < BUFFS; i++) {
		ev_timer_init(&timers[i], libev_fired, phase[i] / 1e9, INTERVAL / 1e9);
		ev_timer_start(loop, &timers[i]);
	}
	report("libev", "buffs", BUFFS, look(libev_look), "insn/op");
	ev_loop_destroy(loop);
}

void workload_buffs(void)
{
	const char *why = htw_missing(BUFFS);

	if (why)
		report_missing("htw-vector", "buffs", BUFFS, why);
	else
		htw_buffs();
	libev_buffs();
}
