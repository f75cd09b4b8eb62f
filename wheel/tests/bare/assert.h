/* SPDX-License-Identifier: MIT */
/* In place of a C library's. See libc.c. */
#ifndef ASSERT_H
#define ASSERT_H

#include <stdio.h>
#include <stdlib.h>

#define assert(condition) do {						\
	if (!(condition)) {						\
		printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);	\
		abort();						\
	}								\
} while (0)

#endif /* ASSERT_H */
