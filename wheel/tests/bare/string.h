/* SPDX-License-Identifier: MIT */
/* In place of a C library's. See libc.c. */
#ifndef STRING_H
#define STRING_H

#include <stddef.h>

void *memset(void *to, int c, size_t size);
void *memcpy(void *to, const void *from, size_t size);
int strcmp(const char *a, const char *b);
size_t strlen(const char *text);
char *strstr(const char *text, const char *part);

#endif /* STRING_H */
