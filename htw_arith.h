/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Arithmetic and rules of timers that do not depend on where they are kept:
 * used by the module and, with lib/port, by libhtw's timers in the process
 */
#ifndef _HTW_ARITH_H
#define _HTW_ARITH_H

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <uapi/linux/htw.h>

/* The sum of two times; what would be later than U64_MAX, never, is that. */
static inline u64 htw_arith_sum(u64 a, u64 b)
{
	u64 sum;

	return __builtin_add_overflow(a, b, &sum) ? U64_MAX : sum;
}

/**
 * htw_arith_missed() - count the firings that came due after the one that is
 * reported
 * @deadline: deadline of that one
 * @interval: the timer's interval, not zero
 * @firings: firings that it has left, that one included; zero for no limit
 * @now: up to when to count
 * @ahead: it is no firing, as its event was reported before @deadline
 */
static inline u64 htw_arith_missed(u64 deadline, u64 interval, u32 firings,
				   u64 now, bool ahead)
{
	u64 missed;

	if (now < deadline)
		return 0;
	missed = div64_u64(now - deadline, interval) + ahead;
	return firings ? min_t(u64, missed, firings - !ahead) : missed;
}

/* Does a timer with this interval go on after @consumed of its firings? */
static inline bool htw_arith_continues(u64 interval, u32 firings, u64 consumed)
{
	return interval && (!firings || firings > consumed);
}

/*
 * The deadline @consumed periods, at least one, after @deadline: in phase with
 * it.
 */
static inline u64 htw_arith_next(u64 deadline, u64 interval, u64 consumed)
{
	/* The product does not overflow: up to here, time has passed. */
	return htw_arith_sum(deadline + (consumed - 1) * interval, interval);
}

/*
 * Slack as a floating-point number of 31 bits: 6 of the exponent, and 25 digits
 * behind the first one, which is not stored. Zero is zero.
 */
#define HTW_SLACK_DIGITS	25

/* Encode slack, rounded down to 26 significant bits. */
static inline u32 htw_arith_encode_slack(u64 slack)
{
	u32 exponent = max_t(u32, fls64(slack), HTW_SLACK_DIGITS) - HTW_SLACK_DIGITS;
	u32 digits = exponent ? slack >> (exponent - 1) : slack;

	return exponent << HTW_SLACK_DIGITS |
	       (digits & (BIT(HTW_SLACK_DIGITS) - 1));
}

static inline u64 htw_arith_decode_slack(u32 code)
{
	u32 exponent = code >> HTW_SLACK_DIGITS;
	u64 digits = code & (BIT(HTW_SLACK_DIGITS) - 1);

	return exponent ? (digits | BIT(HTW_SLACK_DIGITS)) << (exponent - 1) : digits;
}

/*
 * Has a request only fields that its flags name? The period is to be checked as
 * well.
 */
static __always_inline bool htw_arith_mod_is_valid(const struct htw_mod_args *mod)
{
	const u32 fields = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL |
			   HTW_MOD_COOKIE | HTW_MOD_SLACK;

	if (mod->flags & ~(fields | HTW_F_ABS) || !(mod->flags & fields) ||
	    mod->reserved)
		return false;

	if (!(mod->flags & HTW_MOD_DEADLINE) &&
	    (mod->deadline || mod->flags & HTW_F_ABS))
		return false;
	if (!(mod->flags & HTW_MOD_INTERVAL) && (mod->interval || mod->firings))
		return false;
	if (mod->firings && !mod->interval)
		return false;

	if (!(mod->flags & HTW_MOD_COOKIE) && mod->cookie)
		return false;
	if (!(mod->flags & HTW_MOD_SLACK) && mod->slack)
		return false;
	return true;
}

#endif /* _HTW_ARITH_H */
