/* SPDX-License-Identifier: MIT */
/* What a machine without an operating system gives to libc.c, and what that gives to it */
#ifndef BARE_H
#define BARE_H

#include <stddef.h>

/* The machine's: where output goes, how a program ends, and the memory for malloc(). */
void bare_write(const char *text, size_t length);
_Noreturn void bare_exit(int status);
void *bare_memory(size_t *size);

/* Run the program; return its exit status. */
int bare_main(void);

#endif /* BARE_H */
