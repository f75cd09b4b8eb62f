/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What programs and administrators can learn about a context
 */
#ifndef _HTW_INFO_H
#define _HTW_INFO_H

#include "context.h"

struct seq_file;

long htw_op_info(struct htw_context *ctx, struct htw_info __user *arg);
void htw_info_show(struct htw_context *ctx, struct seq_file *m);

#endif /* _HTW_INFO_H */
