/* SPDX-License-Identifier: GPL-2.0-only */
/* Duration of htw's hrtimer callbacks, from the kernel's tracepoints. */
#ifndef TRACE_H
#define TRACE_H

#include <stdint.h>

void trace_start(void);
/* Stop tracing; return the longest callback in ns and set @count to their number. */
uint64_t trace_longest(uint64_t *count);

#endif /* TRACE_H */
