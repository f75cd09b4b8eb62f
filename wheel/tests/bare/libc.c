// SPDX-License-Identifier: MIT
/*
 * As much of a C library as the wheel's tests need on a machine that has none
 *
 * BARE_ARGS are the program's arguments, as "-r", "200"; without it main() has none.
 */
#include "bare.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of volatile, lest a compiler make calls of memset() and memcpy() of these loops. */
void *memset(void *to, int c, size_t size)
{
	volatile unsigned char *at = to;

	while (size--)
		*at++ = (unsigned char)c;
	return to;
}

void *memcpy(void *to, const void *from, size_t size)
{
	volatile unsigned char *at = to;
	const unsigned char *source = from;

	while (size--)
		*at++ = *source++;
	return to;
}

int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (unsigned char)*a - (unsigned char)*b;
}

size_t strlen(const char *text)
{
	size_t length = 0;

	while (text[length])
		length++;
	return length;
}

char *strstr(const char *text, const char *part)
{
	for (;; text++) {
		size_t same = 0;

		while (part[same] && text[same] == part[same])
			same++;
		if (!part[same])
			return (char *)(uintptr_t)text;
		if (!*text)
			return NULL;
	}
}

unsigned long strtoul(const char *text, char **end, int base)
{
	unsigned long value = 0;

	(void)end;
	while (*text >= '0' && *text <= '9')
		value = value * (unsigned long)base + (unsigned long)(*text++ - '0');
	return value;
}

/* Output: what is printed is collected up to the end of a line. */
static char line[200];
static size_t used;

int putchar(int c)
{
	line[used++] = (char)c;
	if (c == '\n' || used == sizeof(line)) {
		bare_write(line, used);
		used = 0;
	}
	return c;
}

/* Where formatted text goes: @to, up to @size, or with NULL to the output. */
struct sink {
	char *to;
	size_t size, length;
};

static void put(struct sink *sink, char c)
{
	if (!sink->to)
		putchar(c);
	else if (sink->length + 1 < sink->size)
		sink->to[sink->length] = c;
	sink->length++;
}

static void put_number(struct sink *sink, uint64_t value, unsigned int base)
{
	char digits[24];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (n)
		put(sink, digits[--n]);
}

/* %c %d %s %u %x, with # and the lengths l, ll and z. */
static void format_to(struct sink *sink, const char *format, va_list *args)
{
	for (; *format; format++) {
		bool prefix = false;
		const char *text;
		size_t bytes = sizeof(int);
		int64_t number;
		uint64_t value;

		if (*format != '%') {
			put(sink, *format);
			continue;
		}
		for (format++; *format == '#'; format++)
			prefix = true;
		for (; *format == 'l' || *format == 'z'; format++)
			bytes = bytes == sizeof(long) && *format == 'l' && format[-1] == 'l' ?
				sizeof(long long) : sizeof(long);

		switch (*format) {
		case 'c':
			put(sink, (char)va_arg(*args, int));
			break;
		case 's':
			for (text = va_arg(*args, const char *); *text; text++)
				put(sink, *text);
			break;
		case 'd':
			number = bytes == sizeof(long long) ? va_arg(*args, long long) :
				 va_arg(*args, int);
			if (number < 0)
				put(sink, '-');
			put_number(sink, number < 0 ? -(uint64_t)number : (uint64_t)number, 10);
			break;
		case 'u':
		case 'x':
			value = bytes == sizeof(long long) ? va_arg(*args, unsigned long long) :
				va_arg(*args, unsigned int);
			if (prefix) {
				put(sink, '0');
				put(sink, 'x');
			}
			put_number(sink, value, *format == 'x' ? 16 : 10);
			break;
		default:
			put(sink, '%');
			put(sink, *format);
		}
	}
	if (sink->to && sink->size)
		sink->to[sink->length < sink->size ? sink->length : sink->size - 1] = 0;
}

int printf(const char *format, ...)
{
	struct sink sink = { NULL, 0, 0 };
	va_list args;

	va_start(args, format);
	format_to(&sink, format, &args);
	va_end(args);
	return (int)sink.length;
}

int fprintf(FILE *f, const char *format, ...)
{
	struct sink sink = { NULL, 0, 0 };
	va_list args;

	(void)f;
	va_start(args, format);
	format_to(&sink, format, &args);
	va_end(args);
	return (int)sink.length;
}

int snprintf(char *to, size_t size, const char *format, ...)
{
	struct sink sink = { to, size, 0 };
	va_list args;

	va_start(args, format);
	format_to(&sink, format, &args);
	va_end(args);
	return (int)sink.length;
}

void perror(const char *text)
{
	printf("%s: there are no files\n", text);
}

FILE *fopen(const char *path, const char *mode)
{
	(void)path;
	(void)mode;
	return NULL;
}

int fclose(FILE *f)
{
	(void)f;
	return 0;
}

size_t fread(void *to, size_t size, size_t count, FILE *f)
{
	(void)to;
	(void)size;
	(void)count;
	(void)f;
	return 0;
}

char *fgets(char *to, int size, FILE *f)
{
	(void)to;
	(void)size;
	(void)f;
	return NULL;
}

ssize_t read(int fd, void *to, size_t size)
{
	(void)fd;
	(void)to;
	(void)size;
	return -1;
}

/* Memory: a list of all parts, free or not, in the order of their addresses */
struct part {
	struct part *next;
	size_t size;	/* of what is behind this */
	uint64_t free;	/* so that what is behind this is aligned */
};

static struct part *parts;

void *malloc(size_t size)
{
	if (!parts) {
		size_t all;

		parts = bare_memory(&all);
		*parts = (struct part){ NULL, all - sizeof(*parts), 1 };
	}
	size = (size + 7) / 8 * 8;
	for (struct part *at = parts; at; at = at->next) {
		while (at->free && at->next && at->next->free) {
			at->size += sizeof(*at) + at->next->size;
			at->next = at->next->next;
		}
		if (!at->free || at->size < size)
			continue;
		/* Leave the rest, if it is enough for another one. */
		if (at->size >= size + sizeof(*at) + 8) {
			struct part *rest = (struct part *)((char *)(at + 1) + size);

			*rest = (struct part){ at->next, at->size - size - sizeof(*at), 1 };
			at->next = rest;
			at->size = size;
		}
		at->free = 0;
		return at + 1;
	}
	return NULL;
}

void free(void *memory)
{
	if (memory)
		((struct part *)memory - 1)->free = 1;
}

void *calloc(size_t count, size_t size)
{
	void *memory = malloc(count * size);

	return memory ? memset(memory, 0, count * size) : NULL;
}

void exit(int status)
{
	if (used)
		putchar('\n');
	bare_exit(status);
}

void abort(void)
{
	exit(134);
}

#ifdef BARE_ARGS
typedef char *argument;

int main(int argc, argument *argv);

int bare_main(void)
{
	argument args[] = { "program", BARE_ARGS, NULL };

	return main(sizeof(args) / sizeof(*args) - 1, args);
}
#else
int main(void);

int bare_main(void)
{
	return main();
}
#endif
