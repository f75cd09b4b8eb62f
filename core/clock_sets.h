/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How often CLOCK_REALTIME was set, and as of which setting a timer was armed
 */
#ifndef _HTW_CLOCK_SETS_H
#define _HTW_CLOCK_SETS_H

#include "context.h"

extern atomic_t htw_clock_sets;

u32 htw_clockset_count(void);
u64 htw_clockset_stamp(const struct htw_context *ctx, struct htw_timer *t);
bool htw_clockset_look(const struct htw_context *ctx, struct htw_timer *t);

#endif /* _HTW_CLOCK_SETS_H */
