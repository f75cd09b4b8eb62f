/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context's pages by number
 *
 * One array whose length is a power of two: a lookup masks the number after
 * comparing it, so that not even a mispredicted branch reads beyond it. An
 * array that is too short is replaced by a longer one; lookups in the old one
 * still find what was there.
 */
#ifndef _HTW_DIRECTORY_H
#define _HTW_DIRECTORY_H

#include <linux/bits.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

struct htw_page;

/* Entries of a context's first directory; a power of two. */
#define HTW_DIRECTORY_FIRST	16u
/* Maximum number of pages of a context; a power of two. */
#define HTW_DIRECTORY_MAX	BIT(18)

/**
 * struct htw_directory - a context's pages by number
 * @rcu: frees it after it has been replaced
 * @mask: number of entries - 1; constant
 * @pages: the pages; a missing page is &htw_no_page
 */
struct htw_directory {
	struct rcu_head rcu;
	u32 mask;
	struct htw_page __rcu *pages[];
};

/* Stand-in for a missing page: all its timers are free, so lookups need no NULL check. */
extern const struct htw_page htw_no_page;
extern struct htw_directory htw_no_directory;

u32 htw_directory_entries(const struct htw_directory *dir);
struct htw_directory *htw_directory_double(const struct htw_directory *old);
void htw_directory_free(struct htw_directory *dir);

#endif /* _HTW_DIRECTORY_H */
