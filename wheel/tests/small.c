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

#ifdef EVERYTHING
/* More than the program calls itself. */
static void (*const all[])(void) = {
#define FUNCTION(name)	(void (*)(void))(name)
	FUNCTION(htw_wheel_walk), FUNCTION(htw_wheel_evict), FUNCTION(htw_wheel_rewind),
	FUNCTION(htw_wheel_next), FUNCTION(htw_wheel_expire), FUNCTION(htw_wheel_cascade),
	FUNCTION(htw_wheel_forward), FUNCTION(htw_wheel_first_node),
	FUNCTION(htw_geometry_default), FUNCTION(htw_geometry_error), FUNCTION(htw_geometry_bytes),
	FUNCTION(htw_levels_init), FUNCTION(htw_wheel_attach_levels),
	FUNCTION(htw_wheel_remove_levels), FUNCTION(htw_tick_up), FUNCTION(htw_tick_within),
	FUNCTION(htw_coalesce), FUNCTION(htw_wheel_is_ahead), FUNCTION(htw_wheel_collect_due),
	FUNCTION(htw_wheel_make_due), FUNCTION(htw_wheel_restart),
};
#endif

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
#ifdef EVERYTHING
	all[now]();
#endif
	htw_wheel_start(&wheel, &node, now + 1);
	htw_wheel_stop(&wheel, &node);
	return htw_wheel_advance(&wheel, now, &budget, expired, NULL);
}
