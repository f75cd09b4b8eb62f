// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arrays that are copied from or to a program as far as possible
 */

#include <linux/math.h>
#include <linux/uaccess.h>

#include "copied.h"

/*
 * These copy @count elements of @size bytes and return how many have been
 * copied as a whole. Where memory ends, arm64 stops at the widest access that
 * does not fit, before bytes that would: from there on, each element is copied
 * alone.
 */
u32 htw_copy_in(void *to, const void __user *from, u32 count, size_t size)
{
	unsigned long left = copy_from_user(to, from, count * size);
	u32 n = count - DIV_ROUND_UP(left, size);

	while (n < count && !copy_from_user(to + n * size, from + n * size, size))
		n++;
	return n;
}

u32 htw_copy_out(void __user *to, const void *from, u32 count, size_t size)
{
	unsigned long left = copy_to_user(to, from, count * size);
	u32 n = count - DIV_ROUND_UP(left, size);

	while (n < count && !copy_to_user(to + n * size, from + n * size, size))
		n++;
	return n;
}
