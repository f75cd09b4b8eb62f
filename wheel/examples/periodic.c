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
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>

#define BEATS	5
#define PERIOD	20	/* ticks, of 1 ms */

static struct htw_wheel wheel;
static uint64_t begin;
static int beats;

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The timeout for poll() or epoll_wait(), in ms, until a tick of 1 ms. */
static int timeout_until(uint64_t tick)
{
	uint64_t now = now_ms();

	if (tick == HTW_NEVER)
		return -1;
	if (tick <= now)
		return 0;
	return tick - now < INT_MAX ? (int)(tick - now) : INT_MAX;
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

	begin = now_ms();
	htw_wheel_init(&wheel, begin);
	htw_node_init(&node);
	htw_wheel_start(&wheel, &node, begin + PERIOD);

	while (htw_wheel_count(&wheel)) {
		unsigned int budget = 64;

		/* Other programs have descriptors here. */
		poll(NULL, 0, timeout_until(htw_wheel_next(&wheel)));
		htw_wheel_advance(&wheel, now_ms(), &budget, beat, NULL);
	}
	return now_ms() < begin + BEATS * PERIOD;
}
