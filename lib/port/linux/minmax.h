/* SPDX-License-Identifier: MIT */
/* <linux/minmax.h> */
#ifndef LIBHTW_PORT_MINMAX_H
#define LIBHTW_PORT_MINMAX_H

#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })
#define min3(a, b, c)		min(min(a, b), c)
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
/* @to is a power of two. */
#define round_down(n, to)	((n) & -(to))

#endif /* LIBHTW_PORT_MINMAX_H */
