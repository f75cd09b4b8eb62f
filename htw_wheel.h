/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hierarchical timing wheel: a data structure, and nothing else
 *
 * It knows no clock and takes no lock. Its owner brings both: ticks are plain
 * u64 numbers, and every call on one wheel must be serialised by the owner
 * (the engine holds the wheel's lock; a KUnit case is alone with its wheel).
 */
#ifndef _HTW_WHEEL_H
#define _HTW_WHEEL_H

#include <linux/gfp_types.h>
#include <linux/htw.h>
#include <linux/list.h>
#include <linux/types.h>

#define HTW_WHEEL_MAX_LEVELS	8
/* A level's ring holds two windows, and its index must fit htw_node.bucket. */
#define HTW_WHEEL_MAX_SLOTS	2048

/** HTW_NEVER - the tick that never comes */
#define HTW_NEVER		U64_MAX

/**
 * struct htw_geometry - the shape of a wheel
 * @levels: how many levels, at least 1
 * @slots: slots of each level, finest first, each from 2 to
 *	%HTW_WHEEL_MAX_SLOTS. Mixed radix: they need not be powers of two
 */
struct htw_geometry {
	unsigned int levels;
	unsigned int slots[HTW_WHEEL_MAX_LEVELS];
};

/**
 * struct htw_level - one level of a wheel
 * @buckets: a ring of @ring buckets; NULL until htw_wheel_install()
 * @occupied: a bit for each bucket that holds a node
 * @span: ticks that one slot covers
 * @end: first tick that does not go here yet; a multiple of the span of the
 *	slots of the next level
 * @ring: buckets in the ring: those of two windows
 * @shift: log2 of @span where all spans are powers of two
 * @pending: nodes here
 */
struct htw_level {
	struct list_head *buckets;
	unsigned long *occupied;
	u64 span;
	u64 end;
	u32 ring;
	u32 shift;
	u64 pending;
};

/**
 * struct htw_wheel - a hierarchical timing wheel
 * @cursor: first tick that has not been expired
 * @next: no work before this tick, see htw_wheel_next(); zero while the owner
 *	knows that there is work and does not want to hear of more
 * @turn: the cursor's value at which the windows of level 0 move on
 * @levels: how many levels
 * @pow2: every span is a power of two
 * @due: nodes whose tick has come, in order
 * @scan: nodes that are being looked at: from beyond the last level, or all,
 *	after htw_wheel_rewind()
 * @far: no node in @beyond is earlier; %HTW_NEVER while it is empty
 * @cascades: nodes moved down, counted since the start
 * @level: the levels, finest first; level[levels] is the one bucket of all
 *	that lies beyond the last level
 * @beyond: that bucket
 * @beyond_occupied: its bit
 */
struct htw_wheel {
	u64 cursor;
	u64 next;
	u64 turn;
	unsigned int levels;
	bool pow2;
	struct list_head due;
	struct list_head scan;
	u64 far;
	u64 cascades;
	struct htw_level level[HTW_WHEEL_MAX_LEVELS + 1];
	struct list_head beyond;
	unsigned long beyond_occupied;
};

int htw_geometry_check(const struct htw_geometry *geo, const char **why);

void htw_wheel_init(struct htw_wheel *w, const struct htw_geometry *geo, u64 now);
void htw_wheel_destroy(struct htw_wheel *w);

unsigned int htw_wheel_level_for(const struct htw_wheel *w, u64 expires);
struct list_head *htw_level_alloc(const struct htw_wheel *w, unsigned int level,
				  gfp_t gfp, int node);
void htw_level_free(struct list_head *buckets);
bool htw_wheel_install(struct htw_wheel *w, unsigned int level,
		       struct list_head *buckets);
int htw_wheel_install_all(struct htw_wheel *w, gfp_t gfp, int node);

bool htw_wheel_start(struct htw_wheel *w, struct htw_node *n, u64 now);
bool htw_wheel_is_ahead(const struct htw_wheel *w, u64 expires);
u64 htw_wheel_coalesce(const struct htw_wheel *w, u64 first, u64 last);
void htw_wheel_stop(struct htw_wheel *w, struct htw_node *n);
struct htw_node *htw_wheel_expire(struct htw_wheel *w, u64 now, unsigned int *budget);
bool htw_wheel_cascade(struct htw_wheel *w, unsigned int *budget);
u64 htw_wheel_next(const struct htw_wheel *w);
void htw_wheel_rewind(struct htw_wheel *w, u64 now);
struct htw_node *htw_wheel_evict(struct htw_wheel *w);
u64 htw_wheel_pending(const struct htw_wheel *w);

#endif /* _HTW_WHEEL_H */
