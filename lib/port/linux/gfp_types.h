/* SPDX-License-Identifier: MIT */
/* <linux/gfp_types.h>: programs have one kind of memory */
#ifndef LIBHTW_PORT_GFP_TYPES_H
#define LIBHTW_PORT_GFP_TYPES_H

#include <linux/types.h>

#define GFP_KERNEL		0

#endif /* LIBHTW_PORT_GFP_TYPES_H */
