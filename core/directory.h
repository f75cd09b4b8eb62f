/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context's pages by their numbers
 *
 * One array, as long as a power of two: a lookup masks the number that it has
 * compared, so not even a branch that was mispredicted leads out of it. An array
 * that is too short is replaced by a longer one; lookups that began in the old one
 * find what was there.
 */
#ifndef _HTW_DIRECTORY_H
#define _HTW_DIRECTORY_H

#include <linux/bits.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

struct htw_page;

/* Chunks of a context, at most: a power of two. */
#define HTW_DIRECTORY_MAX	BIT(18)

/**
 * struct htw_directory - a context's pages by their numbers
 * @rcu: frees it, once a longer one is in its place
 * @mask: how many entries there are, less one; never changes
 * @pages: the pages; what is none is &htw_no_page
 */
struct htw_directory {
	struct rcu_head rcu;
	u32 mask;
	struct htw_page __rcu *pages[];
};

/* What an entry is that is no page: timers that are free for ever. */
extern const struct htw_page htw_no_page;
extern struct htw_directory htw_no_directory;

struct htw_directory *htw_directory_double(const struct htw_directory *old);
void htw_directory_free(struct htw_directory *dir);

#endif /* _HTW_DIRECTORY_H */
