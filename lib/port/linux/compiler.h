/* SPDX-License-Identifier: MIT */
/* <linux/compiler.h> */
#ifndef LIBHTW_PORT_COMPILER_H
#define LIBHTW_PORT_COMPILER_H

#ifdef __GNUC__
#ifndef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#endif
#define noinline		__attribute__((__noinline__))
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#else
#define __always_inline		inline
#define noinline
#define likely(x)		(x)
#define unlikely(x)		(x)
#endif
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))

#endif /* LIBHTW_PORT_COMPILER_H */
