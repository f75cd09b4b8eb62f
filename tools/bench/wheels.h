/* SPDX-License-Identifier: GPL-2.0-only */
/* What the module tells of its wheels, in /sys/kernel/debug/htw/wheels. */
#ifndef WHEELS_H
#define WHEELS_H

#include <stdint.h>

/* How many callbacks have run, on all CPUs and clocks. */
uint64_t wheels_callbacks(void);

#endif /* WHEELS_H */
