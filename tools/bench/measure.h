/* SPDX-License-Identifier: GPL-2.0-only */
/* Measure each operation of a system with one number of pending timers. */
#ifndef MEASURE_H
#define MEASURE_H

#include <stdint.h>
#include "bench.h"

/* @ops: operations to report, a bit for each enum op_code. */
void measure(const struct system *s, uint32_t pending, unsigned int ops);
void measure_syscall(void);

/* Wait until the kernel has finished work deferred by earlier rounds. */
void settle(void);

#endif /* MEASURE_H */
