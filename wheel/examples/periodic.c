// SPDX-License-Identifier: MIT
/*
 * A timer with a period, in a loop with poll()
 *
 * It starts itself from the tick at which it was due, which the node still has, and
 * not from the present. So what one call is late by does not add up.
 *
 *	cc periodic.c htw_wheel.c -o periodic
 */
#include "htw_wheel.h"
#include <poll.h>
#include <stdio.h>
#include <time.h>

#define TICK_NS	1000000	/* a tick is 1 ms */
#define BEATS	5
#define PERIOD	20	/* ticks */

static struct htw_wheel wheel;
static uint64_t begin;
static int beats;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void beat(struct htw_node *n, void *arg)
{
	printf("beat at %d ms\n", (int)(n->expires - begin));
	if (++beats < BEATS)
		htw_wheel_start(&wheel, n, n->expires + PERIOD);
	(void)arg;
}

int main(void)
{
	struct htw_node node;

	begin = now_ns() / TICK_NS;
	htw_wheel_init(&wheel, begin);
	htw_node_init(&node);
	htw_wheel_start(&wheel, &node, begin + PERIOD);

	while (htw_wheel_count(&wheel)) {
		unsigned int budget = 64;

		/* Other programs have descriptors here. */
		poll(NULL, 0, htw_tick_timeout(htw_wheel_next(&wheel), TICK_NS, now_ns()));
		htw_wheel_advance(&wheel, now_ns() / TICK_NS, &budget, beat, NULL);
	}
	return now_ns() / TICK_NS < begin + BEATS * PERIOD;
}
