/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that is passed to calls: good, or inaccessible in some way
 */
#ifndef BUFFER_H
#define BUFFER_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "calls.h"

#define BUFFER_SIZE	(1 << 18)

struct buffer {
	char *pages;		/* BUFFER_SIZE bytes, and pages that cannot be accessed */
	char *read_only;	/* the same memory */
};

void buffer_init(struct buffer *b);
/* Copy @data to where @kind says, as far as possible. Return the address to pass. */
void *buffer_fill(const struct buffer *b, __u64 kind, const void *data, size_t size);
/* Can a call read and write all of it? Then what the call wrote can be checked. */
bool buffer_is_good(__u64 kind);

#endif /* BUFFER_H */
