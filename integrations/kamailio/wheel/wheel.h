/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * htw_wheel.c for Kamailio's files, whose headers and the kernel's do not go together
 */
#ifndef WHEEL_H
#define WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wheel;

/* Room for a struct htw_node; zero before its first start. */
struct wheel_node {
	_Alignas(8) unsigned char room[24];
};

/* The wheel's memory is from here, shared by all processes. */
void *wheel_alloc(size_t size);
void wheel_free(void *p);

/* Ticks are seconds. Return: NULL without memory. */
struct wheel *wheel_new(uint64_t now);
void wheel_delete(struct wheel *w);
bool wheel_has(const struct wheel_node *n);
void wheel_start(struct wheel *w, struct wheel_node *n, uint64_t now, uint64_t tick);
void wheel_stop(struct wheel *w, struct wheel_node *n);
/* Take nodes out that are due. Return: their number; less than @count if none is left. */
unsigned int wheel_expire(struct wheel *w, uint64_t now, struct wheel_node **nodes,
			  unsigned int count);

#endif /* WHEEL_H */
