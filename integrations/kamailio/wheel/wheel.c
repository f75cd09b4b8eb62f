// SPDX-License-Identifier: GPL-2.0-or-later
#include "wheel.h"

#include "../../../wheel/more.h"

/* No bound: it is seconds between two expirations, and a bucket is a second or more. */
#define BUDGET	(~0u)

_Static_assert(sizeof(struct htw_node) == sizeof(struct wheel_node), "a node fits its room");

/* With levels from the beginning, as it is one wheel for all dialogs. */
struct wheel {
	struct htw_wheel wheel;
	void *levels;
};

static struct htw_node *node_of(struct wheel_node *n)
{
	return (struct htw_node *)n;
}

struct wheel *wheel_new(uint64_t now)
{
	static const struct htw_geometry geometry = { .levels = 4, .slots = { 256, 64, 64, 64 } };
	const size_t bytes = htw_geometry_bytes(&geometry);
	struct wheel *w = wheel_alloc(sizeof(*w));

	if (!w)
		return NULL;
	w->levels = wheel_alloc(bytes);
	htw_wheel_init(&w->wheel, now);
	if (!htw_wheel_add_levels(&w->wheel, &geometry, w->levels, bytes)) {
		wheel_free(w);
		return NULL;
	}
	return w;
}

void wheel_delete(struct wheel *w)
{
	while (htw_wheel_evict(&w->wheel))
		;
	wheel_free(w->levels);
	wheel_free(w);
}

bool wheel_has(const struct wheel_node *n)
{
	return htw_node_pending((const struct htw_node *)n);
}

void wheel_start(struct wheel *w, struct wheel_node *n, uint64_t now, uint64_t tick)
{
	htw_wheel_forward(&w->wheel, now);
	htw_wheel_start(&w->wheel, node_of(n), tick);
}

void wheel_stop(struct wheel *w, struct wheel_node *n)
{
	htw_wheel_stop(&w->wheel, node_of(n));
}

unsigned int wheel_expire(struct wheel *w, uint64_t now, struct wheel_node **nodes,
			  unsigned int count)
{
	unsigned int budget = BUDGET, got = 0;
	struct htw_node *n;

	while (got < count && (n = htw_wheel_expire(&w->wheel, now, &budget)))
		nodes[got++] = (struct wheel_node *)n;
	htw_wheel_cascade(&w->wheel, &budget);
	htw_wheel_next(&w->wheel);
	return got;
}
