// SPDX-License-Identifier: GPL-2.0-only
/* libev: a heap of timers in the process, one loop. */
#include <ev.h>
#include "bench.h"

static struct ev_loop *loop;
static ev_timer *timers;
static struct bench *current;
/*
 * Time of the first expiration in a turn of the loop; not earlier than the
 * loop's time.
 */
static uint64_t collected_at;

static void expired(struct ev_loop *l, ev_timer *w, int revents)
{
	(void)l;
	if (unlikely(!(revents & EV_TIMER)))
		die("libev: events %d", revents);
	if (unlikely(!collected_at))
		collected_at = now_ns();
	bench_expired(current, w - timers, collected_at);
}

static void libev_open(struct bench *b)
{
	loop = ev_loop_new(EVBACKEND_EPOLL);
	if (!loop)
		die("libev: cannot create a loop");
	timers = allocate(b->pending, sizeof(*timers));
	current = b;
}

static void libev_add(struct bench *b)
{
	uint32_t i;

	/* Delays count from the loop's time. */
	ev_now_update(loop);
	for (i = 0; i < b->pending; i++) {
		ev_timer_init(&timers[i], expired, b->delay[i] / 1e9, 0.);
		ev_timer_start(loop, &timers[i]);
		if (unlikely(!ev_is_active(&timers[i])))
			die("libev: timer %u did not start", i);
	}
}

/*
 * As libev's manual recommends for idle timeouts: the repeat value and
 * ev_timer_again().
 */
static void libev_rearm(struct bench *b, uint32_t count)
{
	uint32_t k;

	ev_now_update(loop);
	for (k = 0; k < count; k++) {
		ev_timer *w = &timers[b->rearm_order[k]];

		if (unlikely(!ev_is_active(w)))
			die("libev: timer %u is not active", b->rearm_order[k]);
		w->repeat = b->later[k] / 1e9;
		ev_timer_again(loop, w);
		if (unlikely(!ev_is_active(w)))
			die("libev: timer %u was not re-armed", b->rearm_order[k]);
	}
}

static void libev_cancel(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		ev_timer *w = &timers[b->cancel_order[k]];

		if (unlikely(!ev_is_active(w)))
			die("libev: timer %u is not active", b->cancel_order[k]);
		ev_timer_stop(loop, w);
		if (unlikely(ev_is_active(w)))
			die("libev: timer %u did not stop", b->cancel_order[k]);
	}
}

static void libev_collect(struct bench *b)
{
	(void)b;
	ev_now_update(loop);
	collected_at = 0;
	ev_run(loop, EVRUN_NOWAIT);
}

static void libev_close(struct bench *b)
{
	ev_loop_destroy(loop);
	release(timers, b->pending, sizeof(*timers));
}

const struct system system_libev = {
	.name = "libev",
	.open = libev_open,
	.add = libev_add,
	.rearm = libev_rearm,
	.cancel = libev_cancel,
	.collect = libev_collect,
	.close = libev_close,
};
