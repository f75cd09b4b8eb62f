// SPDX-License-Identifier: MIT
/*
 * A program that calls little of the wheel, to see what that takes (documented_code in common.sh)
 *
 * SMALL: start, stop and advance. LEVELS: the same, with levels. EVERYTHING: each function. The
 * objects whose size is looked at have names.
 */
#include "htw_wheel.h"

/* Where the program gets its time is not counted. */
volatile uint64_t now;
struct htw_wheel wheel;
struct htw_node node;

static void expired(struct htw_node *n, void *arg)
{
	(void)n;
	(void)arg;
}

int main(void)
{
#ifndef SMALL
	static const struct htw_geometry geometry = { 3, { 10, 60, 5 } };
	static uint64_t memory[HTW_GEOMETRY_WORDS(3, 10 + 60 + 5)];
#endif
	unsigned int budget = 10;

	htw_wheel_init(&wheel, now);
#ifndef SMALL
	htw_wheel_add_levels(&wheel, &geometry, memory, sizeof(memory));
#endif
	htw_wheel_start(&wheel, &node, now + 1);
	htw_wheel_stop(&wheel, &node);
	return htw_wheel_advance(&wheel, now, &budget, expired, NULL);
}
