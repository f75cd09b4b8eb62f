/* SPDX-License-Identifier: MIT */
/* The kernel's <linux/limits.h>, beside that for programs */
#ifndef LIBHTW_PORT_LIMITS_H
#define LIBHTW_PORT_LIMITS_H

#include_next <linux/limits.h>
#include <limits.h>
#include <stdint.h>

#define U64_MAX			UINT64_MAX

#endif /* LIBHTW_PORT_LIMITS_H */
