/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits of the kernel that stand in the way of a million of something. */
#ifndef LIMITS_H
#define LIMITS_H

#include <stdint.h>

/* Each returns why it could not be done, or NULL. */
const char *raise_rlimit(int resource, const char *name, uint64_t value);
const char *raise_sysctl(const char *path, uint64_t value);

/* Whether the machine has so much left, in bytes. */
const char *need_memory(uint64_t size);

#endif /* LIMITS_H */
