/* SPDX-License-Identifier: MIT */
/*
 * What the fuzzer and the KUnit suites of the wheel use of the kernel's names, for the
 * two files, which have none
 */
#ifndef KERNEL_NAMES_H
#define KERNEL_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define U64_MAX			UINT64_MAX
#define NSEC_PER_MSEC		1000000L
#define NSEC_PER_SEC		1000000000L
#define fallthrough		__attribute__((__fallthrough__))
#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))

static inline u64 min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 div64_u64(u64 n, u64 d)
{
	return n / d;
}

static inline u64 div_u64(u64 n, u32 d)
{
	return n / d;
}

/* The number of the highest bit set, from 1. By other means than the wheel's. */
static inline unsigned int fls64(u64 x)
{
	unsigned int bit = 0;

	for (; x; x /= 2)
		bit++;
	return bit;
}

static inline unsigned int fls(u32 x)
{
	return fls64(x);
}

static inline unsigned int __ffs64(u64 x)
{
	return fls64(x & -x) - 1;
}

static inline unsigned int hweight32(u32 x)
{
	unsigned int bits = 0;

	for (; x; x &= x - 1)
		bits++;
	return bits;
}

static inline bool test_bit(unsigned int bit, const unsigned long *map)
{
	const unsigned int bits = 8 * sizeof(*map);

	return map[bit / bits] >> bit % bits & 1;
}

/* Lists */
#define container_of		HTW_CONTAINER_OF
#define list_head		htw_link
#define list_empty(list)	((list)->next == (list))
#define list_entry		HTW_CONTAINER_OF
#define list_first_entry_or_null(list, type, member)			\
	(list_empty(list) ? NULL : list_entry((list)->next, type, member))
#define list_for_each_entry(at, list, member)				\
	for (at = list_entry((list)->next, __typeof__(*at), member);	\
	     &at->member != (list);					\
	     at = list_entry(at->member.next, __typeof__(*at), member))
#define list_count_nodes(list)	({					\
	const struct htw_link *start_ = (list);				\
	u64 count_ = 0;							\
	for (const struct htw_link *at_ = start_->next; at_ != start_; at_ = at_->next)	\
		count_++;						\
	count_;								\
})

#endif /* KERNEL_NAMES_H */
