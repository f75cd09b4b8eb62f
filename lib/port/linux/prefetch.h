/* SPDX-License-Identifier: MIT */
/* <linux/prefetch.h> */
#ifndef LIBHTW_PORT_PREFETCH_H
#define LIBHTW_PORT_PREFETCH_H

#ifdef __GNUC__
#define prefetchw(p)		__builtin_prefetch(p, 1)
#else
#define prefetchw(p)		((void)(p))
#endif

#endif /* LIBHTW_PORT_PREFETCH_H */
