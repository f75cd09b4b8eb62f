// SPDX-License-Identifier: MIT
/*
 * A counter of 32 bits that wraps, and a timer that skips the periods which it has missed
 *
 * The counter here is a number that goes on by itself: 200 ms before it wraps the
 * program begins, and once it is away for a second.
 *
 *	cc counter.c htw_wheel.c -o counter
 */
#include "htw_wheel.h"
#include <stdio.h>

#define PERIOD	100	/* ms */
#define BEATS	5

static struct htw_wheel wheel;
static uint32_t counter = UINT32_MAX - 200;
static uint64_t now, begin;
static int beats;

/* Such as the milliseconds since a controller was switched on. */
static uint32_t read_counter(void)
{
	return counter;
}

/* What the counter has gone on since the last call: less than 2^32. */
static void update_now(void)
{
	now += (uint32_t)(read_counter() - (uint32_t)now);
}

static void beat(struct htw_node *n, void *arg)
{
	uint64_t missed = (now - n->expires) / PERIOD;

	printf("beat at %d ms, %d missed\n", (int)(now - begin), (int)missed);
	if (++beats < BEATS)
		htw_wheel_start(&wheel, n, n->expires + (missed + 1) * PERIOD);
	(void)arg;
}

int main(void)
{
	static struct htw_node node;

	update_now();
	begin = now;
	htw_wheel_init(&wheel, now);
	htw_wheel_start(&wheel, &node, now + PERIOD);

	while (htw_wheel_count(&wheel)) {
		unsigned int budget = 64;

		counter += beats == 2 ? 1030 : 10;
		update_now();
		htw_wheel_advance(&wheel, now, &budget, beat, NULL);
	}
	return now - begin != 1400;
}
