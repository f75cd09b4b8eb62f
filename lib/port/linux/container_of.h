/* SPDX-License-Identifier: MIT */
/* <linux/container_of.h> */
#ifndef LIBHTW_PORT_CONTAINER_OF_H
#define LIBHTW_PORT_CONTAINER_OF_H

#include <stddef.h>
#include <stdint.h>

/*
 * The structure of @type whose @member *@p is. By a number, which has no const that
 * a cast could lose (-Wcast-qual).
 */
#define container_of(p, type, member) \
	((type *)((uintptr_t)(p) - offsetof(type, member)))

#endif /* LIBHTW_PORT_CONTAINER_OF_H */
