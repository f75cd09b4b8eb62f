/* SPDX-License-Identifier: MIT */
/* There is no input. See libc.c. */
#ifndef UNISTD_H
#define UNISTD_H

#include <stddef.h>

typedef ptrdiff_t ssize_t;
#define STDIN_FILENO	0

ssize_t read(int fd, void *to, size_t size);

#endif /* UNISTD_H */
