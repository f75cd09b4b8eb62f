/* SPDX-License-Identifier: MIT */
/* <linux/mm.h>: in older kernels kvmalloc_node() is there */
#ifndef LIBHTW_PORT_MM_H
#define LIBHTW_PORT_MM_H

#include <linux/slab.h>

#endif /* LIBHTW_PORT_MM_H */
