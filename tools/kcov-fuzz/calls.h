/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The calls that programs are made of
 */
#ifndef CALLS_H
#define CALLS_H

#include "program.h"

/* Where a structure or an array of a call is. */
enum buffer_kind {
	BUFFER_GOOD,
	BUFFER_LAST,		/* its last byte is the last of a mapping */
	BUFFER_ODD,		/* at an odd address */
	BUFFER_CUT,		/* its second half is not mapped */
	BUFFER_READ_ONLY,
	BUFFER_NULL,
	BUFFER_KERNEL,
	BUFFER_NOT_CANONICAL,
	BUFFER_KINDS,
};

/**
 * struct call_type - a call
 * @name: its name in the text of programs
 * @weight: how often it is drawn
 * @args: its arguments, up to the first of %ARG_NONE
 * @run: makes it; returns a negative errno, or what the system call returned
 * @errors: the errnos that it may return, up to the first zero
 */
struct call_type {
	const char *name;
	unsigned int weight;
	struct arg args[CALL_ARGS];
	long (*run)(const __u64 *args);
	int errors[10];
};

extern const struct call_type call_types[];
extern const unsigned int nr_call_types;

/* Once in each process that runs programs. */
void calls_init(void);
/* Run a program, check what its calls return, and close what it has opened. Return how many. */
unsigned int calls_run(const struct program *p);

#endif /* CALLS_H */
