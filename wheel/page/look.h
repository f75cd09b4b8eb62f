/* SPDX-License-Identifier: MIT */
/*
 * Where each node of a wheel is: the one place in the page and the pictures that
 * knows how the wheel is laid out.
 */
#ifndef HTW_LOOK_H
#define HTW_LOOK_H

#include "htw_wheel.h"

/* In place of a level, for nodes that are on none. */
enum place {
	PLACE_DUE = -1,		/* its tick has come */
	PLACE_SORTED = -2,	/* few nodes without levels */
	PLACE_UNSORTED = -3,	/* to be put where it belongs */
	PLACE_BEYOND = -4,	/* in a list of the radix heap, told by the bucket */
};

/* A node, in the order of its list: the level or a place, and the bucket. */
typedef void look_fn_t(struct htw_node *n, int level, unsigned int bucket, void *arg);

static void look_at_list(struct htw_link *list, int level, unsigned int bucket, look_fn_t *look,
			 void *arg)
{
	struct htw_link *entry;

	for (entry = list->next; entry != list; entry = entry->next)
		look(HTW_CONTAINER_OF(entry, struct htw_node, list), level, bucket, arg);
}

static void look_at_all(struct htw_wheel *w, look_fn_t *look, void *arg)
{
	unsigned int l, i;

	look_at_list(&w->due, PLACE_DUE, 0, look, arg);
	look_at_list(&w->sorted, PLACE_SORTED, 0, look, arg);
	for (l = 0; l < w->levels; l++)
		for (i = 0; i < w->level[l].nr_buckets; i++)
			look_at_list(&w->level[l].buckets[i], (int)l, i, look, arg);
	look_at_list(&w->unsorted, PLACE_UNSORTED, 0, look, arg);
	for (i = 0; i < HTW_WHEEL_LISTS; i++)
		look_at_list(&w->beyond[i], PLACE_BEYOND, i, look, arg);
}

/* The first tick that level @l holds no more: those after it are on levels above. */
static uint64_t look_at_end(const struct htw_wheel *w, unsigned int l)
{
	return w->level[l].end;
}

#endif /* HTW_LOOK_H */
