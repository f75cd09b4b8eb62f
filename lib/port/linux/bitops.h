/* SPDX-License-Identifier: MIT */
/* <linux/bitops.h> */
#ifndef LIBHTW_PORT_BITOPS_H
#define LIBHTW_PORT_BITOPS_H

#include <linux/bits.h>
#include <linux/types.h>

#define BITS_PER_LONG		((unsigned int)(8 * sizeof(long)))
#define BITS_TO_LONGS(n)	(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)

#ifdef __GNUC__
static inline unsigned int fls64(u64 x)
{
	return x ? 64 - (unsigned int)__builtin_clzll(x) : 0;
}

static inline unsigned int __ffs64(u64 word)
{
	return (unsigned int)__builtin_ctzll(word);
}

static inline unsigned int __ffs(unsigned long word)
{
	return (unsigned int)__builtin_ctzl(word);
}
#else
static inline unsigned int fls64(u64 x)
{
	unsigned int bits = 0;

	for (unsigned int half = 32; half; half /= 2) {
		if (x >> half) {
			x >>= half;
			bits += half;
		}
	}
	return bits + (unsigned int)x;
}

static inline unsigned int __ffs64(u64 word)
{
	return fls64(word & (~word + 1)) - 1;
}

static inline unsigned int __ffs(unsigned long word)
{
	return __ffs64(word);
}
#endif

static inline void __set_bit(unsigned int bit, unsigned long *map)
{
	map[bit / BITS_PER_LONG] |= 1UL << bit % BITS_PER_LONG;
}

static inline void __clear_bit(unsigned int bit, unsigned long *map)
{
	map[bit / BITS_PER_LONG] &= ~(1UL << bit % BITS_PER_LONG);
}

static inline bool __test_and_clear_bit(unsigned int bit, unsigned long *map)
{
	unsigned long *word = &map[bit / BITS_PER_LONG];
	const unsigned long mask = 1UL << bit % BITS_PER_LONG;
	const bool was = *word & mask;

	*word &= ~mask;
	return was;
}

#endif /* LIBHTW_PORT_BITOPS_H */
