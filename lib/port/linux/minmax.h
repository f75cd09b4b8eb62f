/* SPDX-License-Identifier: MIT */
/* <linux/minmax.h> */
#ifndef LIBHTW_PORT_MINMAX_H
#define LIBHTW_PORT_MINMAX_H

#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))

#endif /* LIBHTW_PORT_MINMAX_H */
