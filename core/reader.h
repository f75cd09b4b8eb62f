/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reader's side: expirations that wait, and the ring that takes them
 */
#ifndef _HTW_READER_H
#define _HTW_READER_H

#include "context.h"

u32 htw_context_peek(struct htw_context *ctx, struct htw_event *events, u32 count, u64 now);
void htw_context_take(struct htw_context *ctx, u32 count, u64 now);
void htw_context_rearm(struct htw_context *ctx);

bool htw_context_ring_is_mapped(const struct htw_context *ctx);
void htw_context_map_ring(struct htw_context *ctx);
void htw_context_unmap_ring(struct htw_context *ctx);
int htw_context_flush(struct htw_context *ctx);
bool htw_context_is_readable(struct htw_context *ctx);

#endif /* _HTW_READER_H */
