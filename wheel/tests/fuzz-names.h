/* SPDX-License-Identifier: MIT */
/* What lib/fuzz/wheel-fuzz.c uses of the kernel's names, for the two files, which have none */
#ifndef FUZZ_NAMES_H
#define FUZZ_NAMES_H

#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define U64_MAX			UINT64_MAX
#define container_of		HTW_CONTAINER_OF
#define list_empty(list)	((list)->next == (list))

static inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

#endif /* FUZZ_NAMES_H */
