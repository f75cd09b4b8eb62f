/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HTW_VECTOR: the same operation on many timers
 */
#ifndef _HTW_VECTOR_H
#define _HTW_VECTOR_H

#include "context.h"

long htw_op_vector(struct htw_context *ctx, struct htw_vector __user *arg);
void htw_vector_exit(void);

#endif /* _HTW_VECTOR_H */
