// SPDX-License-Identifier: GPL-2.0-only
/* libuv: a heap of handles in the process, one loop, milliseconds. */
#include <uv.h>
#include "bench.h"

static uv_loop_t loop;
static uv_timer_t *timers;
static struct bench *current;
/*
 * Time of the first expiration in a turn of the loop; not earlier than the
 * loop's time.
 */
static uint64_t collected_at;

static void expired(uv_timer_t *timer)
{
	if (unlikely(!collected_at))
		collected_at = now_ns();
	bench_expired(current, timer - timers, collected_at);
}

static void check(int ret, const char *doing)
{
	if (unlikely(ret))
		die("libuv: %s: %s", doing, uv_strerror(ret));
}

static void libuv_open(struct bench *b)
{
	check(uv_loop_init(&loop), "cannot create a loop");
	timers = allocate(b->pending, sizeof(*timers));
	current = b;
}

/* Round up and add 1 ms: libuv rounds its own time down, and may be early by that. */
static uint64_t milliseconds(uint64_t ns)
{
	return (ns + MSEC - 1) / MSEC + 1;
}

static void libuv_add(struct bench *b)
{
	uint32_t i;

	uv_update_time(&loop);
	for (i = 0; i < b->pending; i++) {
		check(uv_timer_init(&loop, &timers[i]), "uv_timer_init");
		check(uv_timer_start(&timers[i], expired, milliseconds(b->delay[i]), 0),
		      "uv_timer_start");
	}
}

static void must_be_active(uint32_t i)
{
	if (unlikely(!uv_is_active((uv_handle_t *)&timers[i])))
		die("libuv: timer %u is not active", i);
}

static void libuv_rearm(struct bench *b, uint32_t count)
{
	uint32_t k;

	uv_update_time(&loop);
	for (k = 0; k < count; k++) {
		uv_timer_t *timer = &timers[b->rearm_order[k]];

		must_be_active(b->rearm_order[k]);
		check(uv_timer_start(timer, expired, milliseconds(b->later[k]), 0), "re-arming");
	}
}

static void libuv_cancel(struct bench *b, uint32_t count)
{
	uint32_t k;

	for (k = 0; k < count; k++) {
		must_be_active(b->cancel_order[k]);
		check(uv_timer_stop(&timers[b->cancel_order[k]]), "uv_timer_stop");
	}
}

static void libuv_collect(struct bench *b)
{
	(void)b;
	uv_update_time(&loop);
	collected_at = 0;
	uv_run(&loop, UV_RUN_NOWAIT);
}

static void libuv_close(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++)
		uv_close((uv_handle_t *)&timers[i], NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	check(uv_loop_close(&loop), "closing");
	release(timers, b->pending, sizeof(*timers));
}

const struct system system_libuv = {
	.name = "libuv",
	.open = libuv_open,
	.add = libuv_add,
	.rearm = libuv_rearm,
	.cancel = libuv_cancel,
	.collect = libuv_collect,
	.close = libuv_close,
};
