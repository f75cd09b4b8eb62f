/* SPDX-License-Identifier: GPL-2.0-only */
/* Raise limits of the kernel that are too low for a million timers. */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdint.h>

/* These return NULL, or why they failed. */
const char *raise_rlimit(int resource, const char *name, uint64_t value);
const char *raise_sysctl(const char *path, uint64_t value);

/* Check that @size bytes of memory are free. */
const char *need_memory(uint64_t size);

#endif /* LIMITS_H */
