/* SPDX-License-Identifier: MIT */
/* <linux/bug.h> */
#ifndef LIBHTW_PORT_BUG_H
#define LIBHTW_PORT_BUG_H

#include <stdio.h>
#include <stdlib.h>

#include <linux/compiler.h>

/* With a corrupt wheel timers would expire at wrong times: abort. */
#define WARN_ON(condition) do {						\
	if (unlikely(condition)) {					\
		fprintf(stderr, "libhtw: %s\n", #condition);		\
		abort();						\
	}								\
} while (0)

#endif /* LIBHTW_PORT_BUG_H */
