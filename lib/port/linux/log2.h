/* SPDX-License-Identifier: MIT */
/* <linux/log2.h> */
#ifndef LIBHTW_PORT_LOG2_H
#define LIBHTW_PORT_LOG2_H

#include <linux/bitops.h>

static inline unsigned int ilog2(u64 x)
{
	return fls64(x) - 1;
}

static inline bool is_power_of_2(u64 x)
{
	return x && !(x & (x - 1));
}

#endif /* LIBHTW_PORT_LOG2_H */
