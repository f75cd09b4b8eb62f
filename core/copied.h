/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arrays that are copied from or to a program as far as possible
 */
#ifndef _HTW_COPIED_H
#define _HTW_COPIED_H

#include <linux/math.h>
#include <linux/types.h>

/*
 * How many of @count elements of @size bytes have been copied as a whole.
 * @left: the bytes that have not, as copy_from_user() and copy_to_user() return
 */
static inline u32 htw_copied(u32 count, size_t size, unsigned long left)
{
	return count - DIV_ROUND_UP(left, size);
}

#endif /* _HTW_COPIED_H */
