/* SPDX-License-Identifier: GPL-2.0-only */
/* How long htw's hrtimer callbacks run, by the kernel's own tracepoints. */
#ifndef TRACE_H
#define TRACE_H

#include <stdint.h>

void trace_start(void);
/* Stops; the longest callback in ns, and how many there were. */
uint64_t trace_longest(uint64_t *count);

#endif /* TRACE_H */
