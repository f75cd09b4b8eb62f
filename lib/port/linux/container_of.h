/* SPDX-License-Identifier: MIT */
/* <linux/container_of.h> */
#ifndef LIBHTW_PORT_CONTAINER_OF_H
#define LIBHTW_PORT_CONTAINER_OF_H

#include <stddef.h>

#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))

#endif /* LIBHTW_PORT_CONTAINER_OF_H */
