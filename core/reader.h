/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reader's side: read(), and the ring that takes its place while it is
 * mapped
 */
#ifndef _HTW_READER_H
#define _HTW_READER_H

#include "context.h"

struct iov_iter;

ssize_t htw_reader_read(struct htw_context *ctx, struct iov_iter *to,
			bool nonblock);
void htw_reader_pass_on(struct htw_context *ctx);
bool htw_reader_ring_is_mapped(const struct htw_context *ctx);
void htw_reader_map_ring(struct htw_context *ctx);
void htw_reader_unmap_ring(struct htw_context *ctx);
int htw_reader_flush(struct htw_context *ctx);
bool htw_reader_is_readable(struct htw_context *ctx);

#endif /* _HTW_READER_H */
