/* SPDX-License-Identifier: MIT */
/* <linux/bitmap.h> */
#ifndef LIBHTW_PORT_BITMAP_H
#define LIBHTW_PORT_BITMAP_H

#include <linux/bitops.h>

static inline unsigned int find_next_bit(const unsigned long *map, unsigned int size,
					 unsigned int from)
{
	unsigned int word = from / BITS_PER_LONG;
	unsigned long bits;

	if (from >= size)
		return size;
	bits = map[word] & ~0UL << from % BITS_PER_LONG;
	while (!bits) {
		if (++word >= BITS_TO_LONGS(size))
			return size;
		bits = map[word];
	}
	from = word * BITS_PER_LONG + __ffs(bits);
	return from < size ? from : size;
}

/* The same; behind the last bit the search goes on with the first. */
static inline unsigned int find_next_bit_wrap(const unsigned long *map, unsigned int size,
					      unsigned int from)
{
	unsigned int bit = find_next_bit(map, size, from);

	if (bit < size)
		return bit;
	bit = find_next_bit(map, from, 0);
	return bit < from ? bit : size;
}

#endif /* LIBHTW_PORT_BITMAP_H */
