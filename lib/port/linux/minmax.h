/* SPDX-License-Identifier: MIT */
/* <linux/minmax.h> */
#ifndef LIBHTW_PORT_MINMAX_H
#define LIBHTW_PORT_MINMAX_H

#include <linux/types.h>

/* In C99 and C++, which have no statement expressions, these are min() and max() of the wheel. */
static inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* The names differ in each use, as one may be an argument of another (-Wshadow). */
#define __PICK(a, op, b, n) ___PICK(a, op, b, n)
#define ___PICK(a, op, b, n)						\
({									\
	__typeof__(a) _a##n = (a);					\
	__typeof__(b) _b##n = (b);					\
									\
	_a##n op _b##n ? _a##n : _b##n;					\
})
#define min(a, b)		__PICK(a, <, b, __COUNTER__)
#define max(a, b)		__PICK(a, >, b, __COUNTER__)
#define min3(a, b, c)		min(min(a, b), c)
#define min_t(type, a, b)	((type)min((type)(a), (type)(b)))
#define max_t(type, a, b)	((type)max((type)(a), (type)(b)))
/* @to is a power of two. */
#define round_down(n, to)	((n) & ~((__typeof__(n))(to) - 1))

#endif /* LIBHTW_PORT_MINMAX_H */
