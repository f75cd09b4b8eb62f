/* SPDX-License-Identifier: MIT */
/*
 * More of the wheel: what programs call, and the kernel module does not
 */
#ifndef _HTW_WHEEL_MORE_H
#define _HTW_WHEEL_MORE_H

#include "../htw_wheel.h"

/*
 * Is the code of htw_wheel.c to be small rather than quick, as it is by default if
 * the compiler is told so (-Os, -Oz)? What it does is the same.
 */
#ifndef HTW_WHEEL_SMALL
#ifdef __OPTIMIZE_SIZE__
#define HTW_WHEEL_SMALL	1
#else
#define HTW_WHEEL_SMALL	0
#endif
#endif

/*
 * What the memory of levels takes, for an array: uint64_t words, as many as
 * htw_geometry_bytes() needs, or a few more. @slots is the sum of those of all
 * @levels. A slot takes two lists, and two bits.
 */
#define HTW_GEOMETRY_WORDS(levels, slots)				\
	((sizeof(struct htw_level) +					\
	  (levels) * (sizeof(struct htw_level) + sizeof(long)) +	\
	  (slots) * (8 * sizeof(struct list_head) + 1) / 4 + 7) / 8)

/* A function for each node; @arg is the caller's. */
typedef void htw_node_fn_t(struct htw_node *n, void *arg);

bool htw_wheel_advance(struct htw_wheel *w, u64 now, unsigned int *budget,
		       htw_node_fn_t *expired, void *arg);
bool htw_wheel_first_node(struct htw_wheel *w, unsigned int most,
			  struct htw_node **first);
struct htw_node *htw_wheel_evict(struct htw_wheel *w);
void htw_wheel_walk(struct htw_wheel *w, htw_node_fn_t *visit, void *arg);
bool htw_wheel_is_ahead(const struct htw_wheel *w, u64 tick);

/* The level of a tick that has not come; the search ends above the last. */
static inline const struct htw_level *htw_wheel_level(const struct htw_wheel *w,
						      u64 tick)
{
	const struct htw_level *lev = w->level;

	while (tick > lev->last)
		lev++;
	return lev;
}

#endif /* _HTW_WHEEL_MORE_H */
