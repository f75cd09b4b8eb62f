/* SPDX-License-Identifier: MIT */
/* <linux/slab.h> */
#ifndef LIBHTW_PORT_SLAB_H
#define LIBHTW_PORT_SLAB_H

#include <stdlib.h>

#include <linux/gfp_types.h>

static inline void *kvmalloc_node(size_t size, gfp_t gfp, int node)
{
	(void)gfp;
	(void)node;
	/* Wheels of different threads do not share a cache line. */
	return aligned_alloc(128, (size + 127) / 128 * 128);
}

static inline void kvfree(void *p)
{
	free(p);
}

#endif /* LIBHTW_PORT_SLAB_H */
