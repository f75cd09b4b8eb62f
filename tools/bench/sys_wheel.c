// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wheel by itself (wheel): htw_wheel.c compiled into the program, which
 * owns the nodes and reads the clock once for a batch of events
 */
#include "../../htw_wheel.h"
#include <time.h>
#include <linux/numa.h>
#include "bench.h"

static const struct htw_geometry geometry = {
	.levels = 5,
	.slots = { 256, 64, 64, 64, 64 },
};

static struct htw_wheel wheel;
static struct htw_node *nodes;

static uint32_t some(uint32_t done, uint32_t count)
{
	return count - done < BATCH ? count - done : BATCH;
}

static uint64_t tick_up(uint64_t ns)
{
	return (ns + MSEC - 1) / MSEC;
}

static void wheel_open(struct bench *b)
{
	if (htw_wheel_init(&wheel, &geometry, now_ns() / MSEC, GFP_KERNEL, NUMA_NO_NODE))
		die("wheel: no memory");
	nodes = allocate(b->pending, sizeof(*nodes));
}

static void wheel_add(struct bench *b)
{
	uint32_t first, n, i;
	uint64_t now;

	for (first = 0; first < b->pending; first += n) {
		n = some(first, b->pending);
		now = now_ns();
		htw_wheel_forward(&wheel, now / MSEC);
		for (i = first; i < first + n; i++) {
			nodes[i].expires = tick_up(now + b->delay[i]);
			htw_wheel_start(&wheel, &nodes[i]);
		}
	}
	if (wheel.pending != b->pending)
		die("wheel: %llu pending", (unsigned long long)wheel.pending);
}

static void wheel_rearm(struct bench *b, uint32_t count)
{
	uint32_t first, n, k;
	uint64_t now;

	for (first = 0; first < count; first += n) {
		n = some(first, count);
		now = now_ns();
		htw_wheel_forward(&wheel, now / MSEC);
		for (k = first; k < first + n; k++) {
			struct htw_node *node = &nodes[b->rearm_order[k]];

			htw_wheel_unlink(&wheel, node);
			node->expires = tick_up(now + b->later[k]);
			htw_wheel_link(&wheel, node);
		}
	}
}

static void wheel_cancel(struct bench *b, uint32_t count)
{
	const uint32_t *const order = b->cancel_order;
	struct htw_node *const all = nodes;
	uint32_t k;

	/* Stop each timer with htw_wheel_stop(). */
	for (k = 0; k < count; k++)
		htw_wheel_unlink(&wheel, &all[order[k]]);
	wheel.pending -= count;
	if (wheel.pending != b->pending - count)
		die("wheel: %llu pending", (unsigned long long)wheel.pending);
}

static void wheel_collect(struct bench *b)
{
	struct htw_node *node;
	unsigned int budget;
	uint64_t now;

	do {
		now = now_ns();
		budget = BATCH;
		while ((node = htw_wheel_expire(&wheel, now / MSEC, &budget)))
			bench_expired(b, node - nodes, now);
		if (budget)
			htw_wheel_cascade(&wheel, &budget);
	} while (!budget);
	wheel.next = htw_wheel_next(&wheel);
}

static void wheel_close(struct bench *b)
{
	while (htw_wheel_evict(&wheel))
		;
	htw_wheel_destroy(&wheel);
	release(nodes, b->pending, sizeof(*nodes));
}

const struct system system_wheel = {
	.name = "wheel",
	.open = wheel_open,
	.add = wheel_add,
	.rearm = wheel_rearm,
	.cancel = wheel_cancel,
	.collect = wheel_collect,
	.close = wheel_close,
};
