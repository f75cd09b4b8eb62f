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

static inline unsigned int find_first_bit(const unsigned long *map, unsigned int size)
{
	return find_next_bit(map, size, 0);
}

#endif /* LIBHTW_PORT_BITMAP_H */
