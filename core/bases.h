/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bases of a context, and their memory
 */
#ifndef _HTW_BASES_H
#define _HTW_BASES_H

#include "context.h"

bool htw_bases_may_add(const struct htw_context *ctx);
struct htw_base *htw_bases_make(struct htw_context *ctx, gfp_t gfp);
void htw_bases_free(struct htw_context *ctx);
void *__htw_base_alloc_levels(const struct htw_base *base, gfp_t gfp);
void htw_base_add_levels(struct htw_base *base, void **levels);
void htw_base_free_levels(const struct htw_base *base, void *levels);
void *htw_base_remove_levels(struct htw_base *base);

/*
 * The base on which a timer should be started: that of this CPU, if it has one;
 * ERR_PTR() if there is none.
 */
static inline struct htw_base *htw_bases_get(struct htw_context *ctx, gfp_t gfp)
{
	/* Before the settings, which are final then. Pairs with htw_bases_make(). */
	struct htw_base *first = smp_load_acquire(&ctx->first);
	unsigned int cpu = raw_smp_processor_id();
	struct htw_base **others;

	if (!first)
		return htw_bases_make(ctx, gfp);
	if (first->index == cpu)
		return first;
	others = READ_ONCE(ctx->others);
	if (others && READ_ONCE(others[cpu]))
		return others[cpu];
	return htw_bases_may_add(ctx) ? htw_bases_make(ctx, gfp) : first;
}

/* Timers of a base beyond which it has levels: those of the sorted list. */
#define HTW_BASE_FEW		63u

/*
 * Memory for a base that has no levels, and is about to need some; NULL if it
 * does not.
 */
static inline void *htw_base_alloc_levels(const struct htw_base *base, u32 more, gfp_t gfp)
{
	/* Not locked: a guess. */
	if (data_race(base->wheel.levels || base->wheel.pending + more <= HTW_BASE_FEW))
		return NULL;
	return __htw_base_alloc_levels(base, gfp);
}

#endif /* _HTW_BASES_H */
