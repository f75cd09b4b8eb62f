// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context's pages by their numbers: the array, and a longer one
 */

#include <linux/overflow.h>
#include <linux/slab.h>

#include "directory.h"
#include "timer.h"

/* Entries of the first one that is made: a power of two. */
#define HTW_DIRECTORY_FIRST	16u

const struct htw_page htw_no_page __aligned(PAGE_SIZE);

/* What a context begins with; it holds one entry, which is none. */
struct htw_directory htw_no_directory = {
	.pages = { RCU_INITIALIZER((struct htw_page *)&htw_no_page) },
};

/**
 * htw_directory_double() - makes a directory that is longer
 * @old: the one there is, which stays as it is
 *
 * Context: may sleep; charged to the caller's cgroup. No entry of @old is written
 * meanwhile.
 * Return: a directory with all entries of @old, or NULL.
 */
struct htw_directory *htw_directory_double(const struct htw_directory *old)
{
	const u32 held = old == &htw_no_directory ? 0 : old->mask + 1;
	const u32 entries = held ? 2 * held : HTW_DIRECTORY_FIRST;
	struct htw_directory *dir;

	dir = kvmalloc(struct_size(dir, pages, entries), GFP_KERNEL_ACCOUNT);
	if (!dir)
		return NULL;
	dir->mask = entries - 1;
	for (u32 i = 0; i < entries; i++)
		RCU_INIT_POINTER(dir->pages[i], i < held ? rcu_access_pointer(old->pages[i]) :
							    (struct htw_page *)&htw_no_page);
	return dir;
}

/**
 * htw_directory_free() - frees a directory, once lookups that have begun are over
 * @dir: the directory, which nobody finds any more
 */
void htw_directory_free(struct htw_directory *dir)
{
	if (dir != &htw_no_directory)
		kvfree_rcu(dir, rcu);
}
