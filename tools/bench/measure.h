/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations of a system at a number of pending timers. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include "bench.h"

/* Which operations to report: a bit for each enum op_code. */
void measure(const struct system *s, uint32_t pending, unsigned int ops);
void measure_syscall(void);

/* Waits for what earlier rounds have left to the kernel to be over. */
void settle(void);

#endif /* MEASURE_H */
