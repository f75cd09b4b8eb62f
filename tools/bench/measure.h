/* SPDX-License-Identifier: GPL-2.0-only */
/* Measures each operation of a system, at one number of pending timers. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include "bench.h"

/* Which operations to report: a bit for each enum op_code. */
void measure(const struct system *s, uint32_t pending, unsigned int ops);
void measure_syscall(void);

/* Waits until the kernel has finished work that earlier rounds have left to it. */
void settle(void);

#endif /* MEASURE_H */
