/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arrays that are copied from or to a program as far as possible
 */
#ifndef _HTW_COPIED_H
#define _HTW_COPIED_H

#include <linux/compiler_types.h>
#include <linux/types.h>

u32 htw_copy_in(void *to, const void __user *from, u32 count, size_t size);
u32 htw_copy_out(void __user *to, const void *from, u32 count, size_t size);

#endif /* _HTW_COPIED_H */
