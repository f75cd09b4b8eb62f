// SPDX-License-Identifier: GPL-2.0-or-later
#include "wheel.h"

#include "../../../htw_wheel.h"

/* No bound: it is seconds between two expirations, and a bucket is a second or more. */
#define BUDGET	(~0u)

_Static_assert(sizeof(struct htw_node) == sizeof(struct wheel_node), "a node fits its room");

struct wheel {
	struct htw_wheel wheel;
};

/* The node's name says whether it is in the wheel. */
static struct htw_node *node_of(struct wheel_node *n)
{
	return (struct htw_node *)n;
}

struct wheel *wheel_new(uint64_t now)
{
	static const struct htw_geometry geometry = { .levels = 4, .slots = { 256, 64, 64, 64 } };
	struct wheel *w = wheel_alloc(sizeof(*w));

	if (w && htw_wheel_init(&w->wheel, &geometry, now, GFP_KERNEL, 0)) {
		wheel_free(w);
		return NULL;
	}
	return w;
}

void wheel_delete(struct wheel *w)
{
	while (htw_wheel_evict(&w->wheel))
		;
	htw_wheel_destroy(&w->wheel);
	wheel_free(w);
}

bool wheel_has(const struct wheel_node *n)
{
	return ((const struct htw_node *)n)->name;
}

void wheel_start(struct wheel *w, struct wheel_node *node, uint64_t now, uint64_t tick)
{
	struct htw_node *n = node_of(node);

	htw_wheel_forward(&w->wheel, now);
	n->expires = tick;
	n->name = 1;
	htw_wheel_start(&w->wheel, n);
}

void wheel_stop(struct wheel *w, struct wheel_node *node)
{
	struct htw_node *n = node_of(node);

	htw_wheel_stop(&w->wheel, n);
	n->name = 0;
}

unsigned int wheel_expire(struct wheel *w, uint64_t now, struct wheel_node **nodes,
			  unsigned int count)
{
	unsigned int budget = BUDGET, got = 0;
	struct htw_node *n;

	w->wheel.next = 0;
	while (got < count && (n = htw_wheel_expire(&w->wheel, now, &budget))) {
		n->name = 0;
		nodes[got++] = (struct wheel_node *)n;
	}
	htw_wheel_cascade(&w->wheel, &budget);
	w->wheel.next = htw_wheel_next(&w->wheel);
	return got;
}
