/* SPDX-License-Identifier: MIT */
/* <linux/math64.h> */
#ifndef LIBHTW_PORT_MATH64_H
#define LIBHTW_PORT_MATH64_H

#include <linux/types.h>

static inline u64 div64_u64(u64 a, u64 b)
{
	return a / b;
}

static inline u64 div_u64(u64 a, u32 b)
{
	return a / b;
}

static inline u64 div_u64_rem(u64 a, u32 b, u32 *rest)
{
	*rest = (u32)(a % b);
	return a / b;
}

#endif /* LIBHTW_PORT_MATH64_H */
