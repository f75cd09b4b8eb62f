// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw with timers in the process (libhtw)
 *
 * Ids, cookies and events are as with the device; each call takes many timers.
 */
#include "../../lib/libhtw.h"
#include <poll.h>
#include <string.h>
#include "bench.h"
#include "libhtw_calls.h"

static struct htw *timers;

static void check(int result, const char *what)
{
	if (unlikely(result))
		die("libhtw: %s: %d (%s)", what, result, result < 0 ? strerror(-result) : "failed");
}

static uint32_t some(uint32_t done, uint32_t count)
{
	return count - done < BATCH ? count - done : BATCH;
}

/* Allocate memory for all timers beforehand, as the other libraries' systems do. */
struct htw *libhtw_new(uint32_t pending)
{
	const struct htw_setup_args setup = { .limit = pending };
	struct htw *htw;

	check(htw_open(&htw, HTW_BACKEND_PROCESS, &setup), "htw_open");
	check(htw_reserve(htw, pending), "htw_reserve");
	return htw;
}

struct htw *libhtw_shard(struct htw *htw, uint32_t pending)
{
	struct htw *shard;

	check(htw_shard(&shard, htw), "htw_shard");
	check(htw_reserve(shard, pending), "htw_reserve");
	return shard;
}

void libhtw_free(struct htw *htw)
{
	htw_close(htw);
}

void libhtw_add_to(struct htw *htw, const struct bench *b)
{
	uint64_t cookies[BATCH];
	uint32_t first, n, i;

	for (first = 0; first < b->pending; first += n) {
		n = some(first, b->pending);
		for (i = 0; i < n; i++)
			cookies[i] = first + i;
		check(htw_add_many(htw, NULL, b->delay + first, cookies, b->handles + first, n,
				   NULL), "htw_add_many");
	}
}

void libhtw_rearm_in(struct htw *htw, const struct bench *b, uint32_t count)
{
	const uint64_t *const handles = b->handles;
	uint32_t first, n, i;
	uint64_t ids[BATCH];

	for (first = 0; first < count; first += n) {
		const uint32_t *const order = b->rearm_order + first;

		n = some(first, count);
		for (i = 0; i < n; i++)
			ids[i] = handles[order[i]];
		check(htw_rearm_many(htw, ids, b->later + first, n, 0, NULL), "htw_rearm_many");
	}
}

void libhtw_cancel_in(struct htw *htw, const struct bench *b, uint32_t count)
{
	const uint64_t *const handles = b->handles;
	uint32_t first, n, i;
	uint64_t ids[BATCH];

	for (first = 0; first < count; first += n) {
		const uint32_t *const order = b->cancel_order + first;

		n = some(first, count);
		for (i = 0; i < n; i++)
			ids[i] = handles[order[i]];
		check(htw_stop_many(htw, ids, n, NULL), "htw_stop_many");
	}
}

static void libhtw_open(struct bench *b)
{
	timers = libhtw_new(b->pending);
}

static void libhtw_add(struct bench *b)
{
	libhtw_add_to(timers, b);
}

static void libhtw_rearm(struct bench *b, uint32_t count)
{
	libhtw_rearm_in(timers, b, count);
}

static void libhtw_cancel(struct bench *b, uint32_t count)
{
	libhtw_cancel_in(timers, b, count);
}

static void libhtw_collect(struct bench *b)
{
	struct pollfd pfd = { .fd = htw_fd(timers), .events = POLLIN };
	struct htw_event events[BATCH];
	uint64_t now;
	int n, i;

	if (poll(&pfd, 1, 0) != 1)
		return;
	do {
		n = htw_read(timers, events, BATCH);
		now = now_ns();
		for (i = 0; i < n; i++) {
			const struct htw_event *ev = &events[i];

			if (unlikely(ev->cookie >= b->pending ||
				     ev->id != b->handles[ev->cookie] ||
				     ev->taken < ev->deadline || ev->missed || ev->flags))
				die("libhtw: wrong event: cookie %llu", ev->cookie);
			bench_expired(b, ev->cookie, now);
		}
	} while (n == BATCH);
}

static void libhtw_close(struct bench *b)
{
	(void)b;
	libhtw_free(timers);
}

const struct system system_libhtw = {
	.name = "libhtw",
	.open = libhtw_open,
	.add = libhtw_add,
	.rearm = libhtw_rearm,
	.cancel = libhtw_cancel,
	.collect = libhtw_collect,
	.close = libhtw_close,
};
