/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef COMMON_RANDOM_H
#define COMMON_RANDOM_H

#include <linux/types.h>

/*
 * Marsaglia's xorshift64. @state must not be zero; equal states give equal
 * sequences.
 */
static inline __u64 xorshift64(__u64 *state)
{
	__u64 x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

#endif /* COMMON_RANDOM_H */
