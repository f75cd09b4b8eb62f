/* SPDX-License-Identifier: MIT */
/* Output, in place of a C library's; there are no files. See libc.c. */
#ifndef STDIO_H
#define STDIO_H

#include <stddef.h>

typedef struct file FILE;
#define stdout	((FILE *)0)
#define stderr	((FILE *)0)

int printf(const char *format, ...);
int fprintf(FILE *f, const char *format, ...);
int snprintf(char *to, size_t size, const char *format, ...);
int putchar(int c);
void perror(const char *text);

FILE *fopen(const char *path, const char *mode);
int fclose(FILE *f);
size_t fread(void *to, size_t size, size_t count, FILE *f);
char *fgets(char *to, int size, FILE *f);

#endif /* STDIO_H */
