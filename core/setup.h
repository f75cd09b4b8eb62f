/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HTW_SETUP
 */
#ifndef _HTW_SETUP_H
#define _HTW_SETUP_H

#include "context.h"

int htw_setup_context(struct htw_context *ctx, const struct htw_setup *setup);
long htw_op_setup(struct htw_context *ctx, const struct htw_setup __user *arg);

#endif /* _HTW_SETUP_H */
