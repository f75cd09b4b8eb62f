// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_ADVANCE: move a context's manual clock
 */

#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "advance.h"
#include "delivery.h"

static_assert(sizeof(struct htw_advance) == 32);

/**
 * htw_advance_context() - move a context's manual clock on
 * @ctx: the context, on %HTW_MANUAL
 * @to: the new time in ns; 0 only delivers what is due
 *
 * Only a fatal signal ends this early: a program could not make sense of a
 * partial step.
 *
 * Context: may sleep.
 * Return: how many timers expired.
 */
u64 htw_advance_context(struct htw_context *ctx, u64 to)
{
	u64 expired = 0;

	while (!htw_delivery_advance(ctx->private_base, to, &expired) &&
	       !fatal_signal_pending(current))
		cond_resched();
	return expired;
}

/**
 * htw_op_advance() - HTW_ADVANCE
 * @ctx: the context
 * @arg: the program's &struct htw_advance
 *
 * Context: may sleep.
 * Return: as described at &struct htw_advance.
 */
long htw_op_advance(struct htw_context *ctx, struct htw_advance __user *arg)
{
	struct htw_advance advance;
	u64 now, to;

	if (copy_from_user(&advance, arg, sizeof(advance)))
		return -EFAULT;
	if (!htw_context_is_manual(ctx) || advance.flags & ~HTW_F_ABS ||
	    advance.reserved0 || advance.reserved)
		return -EINVAL;
	now = htw_base_now(ctx->private_base);
	to = advance.flags & HTW_F_ABS ? advance.ns : htw_arith_sum(now, advance.ns);
	if (to < now || to > KTIME_MAX)
		return -EINVAL;
	/* Fail before the clock moves if the result cannot be written. */
	if (put_user(advance.expired, &arg->expired))
		return -EFAULT;
	return put_user(htw_advance_context(ctx, to), &arg->expired) ? -EFAULT : 0;
}
