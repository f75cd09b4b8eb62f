/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations on many timers in the process, for files that use the device's as well. */
#ifndef BENCH_LIBHTW_CALLS_H
#define BENCH_LIBHTW_CALLS_H

#include <stdint.h>
#include "bench.h"

struct htw;

/* A handle, or a shard of one, with room for @pending timers. */
struct htw *libhtw_new(uint32_t pending);
struct htw *libhtw_shard(struct htw *htw, uint32_t pending);
void libhtw_free(struct htw *htw);

/* In calls of 256; each entry must succeed. */
void libhtw_add_to(struct htw *htw, const struct bench *b);
void libhtw_rearm_in(struct htw *htw, const struct bench *b, uint32_t count);
void libhtw_cancel_in(struct htw *htw, const struct bench *b, uint32_t count);

#endif /* BENCH_LIBHTW_CALLS_H */
