/* SPDX-License-Identifier: MIT */
/* <linux/bits.h> */
#ifndef LIBHTW_PORT_BITS_H
#define LIBHTW_PORT_BITS_H

#define BIT(n)			(1UL << (n))
#define BIT_ULL(n)		(1ULL << (n))

#endif /* LIBHTW_PORT_BITS_H */
