/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Collecting: the one loop that expires timers, in the task that reads
 */
#ifndef _HTW_COLLECT_H
#define _HTW_COLLECT_H

#include <linux/types.h>
#include <linux/uio.h>

struct htw_context;

ssize_t htw_collect_read(struct htw_context *ctx, struct iov_iter *to, bool nonblock);
bool htw_collect_poll(struct htw_context *ctx);
void htw_collect_pass_on(struct htw_context *ctx);

#endif /* _HTW_COLLECT_H */
