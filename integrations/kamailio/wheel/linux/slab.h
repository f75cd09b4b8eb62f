/* SPDX-License-Identifier: GPL-2.0-or-later */
/* <linux/slab.h> for htw_wheel.c: memory that processes share */
#ifndef WHEEL_SLAB_H
#define WHEEL_SLAB_H

#include <linux/gfp_types.h>

#include "../wheel.h"

static inline void *kvmalloc_node(size_t size, gfp_t gfp, int node)
{
	(void)gfp;
	(void)node;
	return wheel_alloc(size);
}

static inline void kvfree(void *p)
{
	if (p)
		wheel_free(p);
}

#endif /* WHEEL_SLAB_H */
