/* SPDX-License-Identifier: MIT */
/* Memory, in place of a C library's. See libc.c. */
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void free(void *memory);

unsigned long strtoul(const char *text, char **end, int base);
_Noreturn void exit(int status);
_Noreturn void abort(void);

#endif /* STDLIB_H */
