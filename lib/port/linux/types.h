/* SPDX-License-Identifier: MIT */
/* The kernel's <linux/types.h>, beside that for programs */
#ifndef LIBHTW_PORT_TYPES_H
#define LIBHTW_PORT_TYPES_H

#include_next <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned int gfp_t;

/* A list, or an entry of one */
struct list_head {
	struct list_head *next, *prev;
};

#endif /* LIBHTW_PORT_TYPES_H */
