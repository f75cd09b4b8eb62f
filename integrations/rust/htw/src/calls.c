// SPDX-License-Identifier: MIT
/*
 * The wheel, with functions in place of those that its header has inline
 *
 * build.rs puts htw_rust_ in the place of htw_ here and in the wheel's two files.
 */

#include "htw_wheel.h"
#include "htw_wheel.c"

size_t htw_size_of_wheel(void)
{
	return sizeof(struct htw_wheel);
}

size_t htw_size_of_node(void)
{
	return sizeof(struct htw_node);
}

void htw_start(struct htw_wheel *w, struct htw_node *n, uint64_t tick)
{
	htw_wheel_start(w, n, tick);
}

void htw_stop(struct htw_wheel *w, struct htw_node *n)
{
	htw_wheel_stop(w, n);
}

void htw_restart(struct htw_wheel *w, struct htw_node *n, uint64_t tick)
{
	htw_wheel_restart(w, n, tick);
}

/* The next node that is due, however many have to be looked at to find it; or NULL. */
struct htw_node *htw_expire(struct htw_wheel *w, uint64_t now)
{
	struct htw_node *n;
	unsigned int budget;

	do {
		budget = 1024;
		n = htw_wheel_expire(w, now, &budget);
	} while (!n && !budget);
	return n;
}
