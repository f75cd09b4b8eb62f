/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HTW_ADVANCE: move a context's manual clock
 */
#ifndef _HTW_ADVANCE_H
#define _HTW_ADVANCE_H

#include "context.h"

u64 htw_advance_context(struct htw_context *ctx, u64 to);
long htw_op_advance(struct htw_context *ctx, struct htw_advance __user *arg);

#endif /* _HTW_ADVANCE_H */
