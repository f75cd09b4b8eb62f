/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HTW_ADD, HTW_CANCEL, HTW_MOD, HTW_QUERY and HTW_BATCH
 */
#ifndef _HTW_OPS_H
#define _HTW_OPS_H

#include <linux/types.h>
#include <uapi/linux/htw.h>

#include "context.h"

long htw_op_add(struct htw_context *ctx, struct htw_add __user *arg);
long htw_op_cancel(struct htw_context *ctx, struct htw_cancel __user *arg);
long htw_op_mod(struct htw_context *ctx, const struct htw_mod __user *arg);
long htw_op_query(struct htw_context *ctx, struct htw_query __user *arg);
long htw_op_batch(struct htw_context *ctx, struct htw_batch __user *arg);

bool htw_op_interval_is_valid(const struct htw_context *ctx, u64 interval,
			      u32 firings);

/* Inline in the loops of batches (docs/performance.md). */

static inline bool htw_op_add_is_valid(const struct htw_context *ctx,
				       const struct htw_add *add)
{
	if (add->flags & ~(HTW_F_ABS | HTW_F_KEEP | HTW_F_CANCEL_ON_SET) ||
	    add->reserved)
		return false;
	if (add->flags & HTW_F_CANCEL_ON_SET && !htw_context_listens(ctx))
		return false;
	return htw_op_interval_is_valid(ctx, add->interval, add->firings);
}

/* With a ring, the field is output only and its value on entry is ignored; else it must be zero. */
static inline bool htw_op_ring_tail_is_valid(const struct htw_context *ctx,
					     u64 ring_tail)
{
	return !ring_tail || READ_ONCE(ctx->ring);
}

static inline bool htw_op_cancel_is_valid(const struct htw_context *ctx,
					  const struct htw_cancel *cancel)
{
	return !(cancel->flags & ~HTW_CANCEL_DISCARD) &&
	       !(cancel->reserved[0] | cancel->reserved[1]) &&
	       htw_op_ring_tail_is_valid(ctx, cancel->ring_tail);
}

static inline bool htw_op_mod_is_valid(const struct htw_context *ctx,
				       const struct htw_mod *mod)
{
	/* Nearly all calls set a new deadline and nothing else. */
	if ((mod->flags & ~HTW_F_ABS) == HTW_MOD_DEADLINE)
		return !(mod->interval | mod->slack | mod->cookie |
			 mod->firings | mod->reserved);
	if (mod->flags == HTW_MOD_UNREAD)
		return !(mod->interval | mod->slack | mod->cookie |
			 mod->reserved) &&
		       mod->firings && READ_ONCE(ctx->table);
	if (!htw_arith_mod_is_valid(mod))
		return false;
	return htw_op_interval_is_valid(ctx, mod->interval, mod->firings);
}

#endif /* _HTW_OPS_H */
