// SPDX-License-Identifier: GPL-2.0-only
/*
 * Text from outside, made printable
 *
 * Names of processes and users are chosen by others, who may put escape
 * sequences for root's terminal, line breaks or invalid UTF-8 into them. So
 * whatever this program has not written itself (names, lines of debugfs and
 * sysfs, words of the command line) passes through here where it is read, and
 * the rest of the program may print it, also as JSON. Only printable ASCII
 * stays: whether a terminal takes another byte for a control depends on the
 * terminal, and what JSON contains shall not depend on the locale.
 */
#include <stdlib.h>
#include <string.h>

#include "htwctl.h"

/* Bytes that a byte of the input takes: \ooo */
#define LONGEST		4

/*
 * Copy @from to @to, of @size bytes, with each byte that is not printable ASCII
 * as \ooo and each backslash as \\, as printf(1) reads them. What does not fit
 * is cut off, but no escape in its middle.
 */
void make_printable(char *to, size_t size, const char *from)
{
	char *end = to + size - 1;

	for (; *from; from++) {
		const unsigned char byte = *from;

		if (byte == '\\') {
			if (end - to < 2)
				break;
			*to++ = '\\';
			*to++ = '\\';
		} else if (byte >= ' ' && byte <= '~') {
			if (end == to)
				break;
			*to++ = byte;
		} else {
			if (end - to < LONGEST)
				break;
			*to++ = '\\';
			*to++ = '0' + (byte >> 6);
			*to++ = '0' + (byte >> 3 & 7);
			*to++ = '0' + (byte & 7);
		}
	}
	*to = '\0';
}

/* The same in new memory, for the caller to free; NULL if there is none. */
char *printable_copy(const char *from)
{
	const size_t size = LONGEST * strlen(from) + 1;
	char *to = malloc(size);

	if (to)
		make_printable(to, size, from);
	return to;
}
