/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context from open() to the last close
 */
#ifndef _HTW_CONTEXTS_H
#define _HTW_CONTEXTS_H

#include "context.h"

extern unsigned int htw_max_timers;

extern const struct htw_user_ops htw_user_ops;

int htw_contexts_init(void);
void htw_contexts_exit(void);
struct htw_context *htw_contexts_create(u32 limit);
void htw_contexts_close(struct htw_context *ctx);

#endif /* _HTW_CONTEXTS_H */
