/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Count how often CLOCK_REALTIME was set, and whether it was set since a timer
 * was armed
 */
#ifndef _HTW_CLOCK_SETS_H
#define _HTW_CLOCK_SETS_H

#include "context.h"

extern atomic_t htw_clock_sets;

u32 htw_clock_sets_count(void);
u64 htw_clock_sets_stamp(const struct htw_context *ctx, struct htw_timer *t);
bool htw_clock_sets_check(const struct htw_context *ctx, struct htw_timer *t);

#endif /* _HTW_CLOCK_SETS_H */
