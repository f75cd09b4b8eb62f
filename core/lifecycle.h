/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context from open() to the last close
 */
#ifndef _HTW_LIFECYCLE_H
#define _HTW_LIFECYCLE_H

#include "context.h"

extern const struct htw_user_ops htw_user_ops;

int htw_context_init(void);
void htw_context_exit(void);
struct htw_context *htw_context_alloc(u32 limit);
void htw_context_close(struct htw_context *ctx);

#endif /* _HTW_LIFECYCLE_H */
