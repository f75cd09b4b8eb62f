// SPDX-License-Identifier: GPL-2.0-only
/*
 * The wheel by itself (wheel): htw_wheel.c compiled into the program, which
 * owns the nodes and reads the clock once for a batch of events. It has pointers
 * to the nodes at hand, as others have ids, and gives the wheel levels before it
 * starts timers.
 */
#include "../../htw_wheel.h"
#include <stdlib.h>
#include <time.h>
#include "bench.h"

static struct htw_wheel wheel;
static struct htw_node *nodes, **to_rearm, **to_cancel;

static uint64_t tick_up(uint64_t ns)
{
	return (ns + MSEC - 1) / MSEC;
}

static uint32_t some(uint32_t done, uint32_t count)
{
	return count - done < BATCH ? count - done : BATCH;
}

static void wheel_prepare(struct bench *b)
{
	to_rearm = allocate(b->pending, sizeof(*to_rearm));
	to_cancel = allocate(b->pending, sizeof(*to_cancel));
}

static void wheel_cleanup(struct bench *b)
{
	release(to_rearm, b->pending, sizeof(*to_rearm));
	release(to_cancel, b->pending, sizeof(*to_cancel));
}

static void wheel_open(struct bench *b)
{
	struct htw_geometry geometry;
	void *memory;
	uint32_t i;

	htw_geometry_default(&geometry, MSEC, 0);
	memory = malloc(htw_geometry_bytes(&geometry));
	if (!memory)
		die("wheel: no memory");
	htw_wheel_init(&wheel, now_ns() / MSEC);
	htw_levels_init(&geometry, memory);
	htw_wheel_attach_levels(&wheel, &geometry, memory);
	nodes = allocate(b->pending, sizeof(*nodes));
	for (i = 0; i < b->pending; i++) {
		to_rearm[i] = &nodes[b->rearm_order[i]];
		to_cancel[i] = &nodes[b->cancel_order[i]];
	}
}

/*
 * Not inline, or the compiler would keep the count in a register over the loop before it,
 * which is measured.
 */
static noinline void expect_pending(uint32_t count)
{
	if (htw_wheel_count(&wheel) != count)
		die("wheel: %llu pending", (unsigned long long)htw_wheel_count(&wheel));
}

static void wheel_add(struct bench *b)
{
	uint32_t first, n, i;
	uint64_t now;

	for (first = 0; first < b->pending; first += n) {
		n = some(first, b->pending);
		now = now_ns();
		htw_wheel_forward(&wheel, now / MSEC);
		for (i = first; i < first + n; i++)
			htw_wheel_start(&wheel, &nodes[i], tick_up(now + b->delay[i]));
	}
	expect_pending(b->pending);
}

static void wheel_rearm(struct bench *b, uint32_t count)
{
	uint32_t first, n, k;
	uint64_t now;

	for (first = 0; first < count; first += n) {
		n = some(first, count);
		now = now_ns();
		htw_wheel_forward(&wheel, now / MSEC);
		for (k = first; k < first + n; k++)
			htw_wheel_restart(&wheel, to_rearm[k], tick_up(now + b->later[k]));
	}
}

static void wheel_cancel(struct bench *b, uint32_t count)
{
	struct htw_node *const *const nodes_in_order = to_cancel;
	uint32_t k;

	for (k = 0; k < count; k++)
		htw_wheel_stop(&wheel, nodes_in_order[k]);
	expect_pending(b->pending - count);
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
	htw_wheel_next(&wheel);
}

static void wheel_close(struct bench *b)
{
	uint32_t i;

	for (i = 0; i < b->pending; i++)
		if (htw_node_pending(&nodes[i]))
			htw_wheel_stop(&wheel, &nodes[i]);
	free(htw_wheel_remove_levels(&wheel));
	release(nodes, b->pending, sizeof(*nodes));
}

const struct system system_wheel = {
	.name = "wheel",
	.prepare = wheel_prepare,
	.cleanup = wheel_cleanup,
	.open = wheel_open,
	.add = wheel_add,
	.rearm = wheel_rearm,
	.cancel = wheel_cancel,
	.collect = wheel_collect,
	.close = wheel_close,
};
