/* SPDX-License-Identifier: MIT */
/* <linux/prefetch.h> */
#ifndef LIBHTW_PORT_PREFETCH_H
#define LIBHTW_PORT_PREFETCH_H

#define prefetchw(p)		__builtin_prefetch(p, 1)

#endif /* LIBHTW_PORT_PREFETCH_H */
