// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context's pages by number: allocating and replacing the array
 */

#include <linux/overflow.h>
#include <linux/slab.h>

#include "directory.h"
#include "timer.h"

const struct htw_page htw_no_page __aligned(PAGE_SIZE);

/* The directory of a new context: one entry, without a page. */
struct htw_directory htw_no_directory = {
	.pages = { RCU_INITIALIZER((struct htw_page *)&htw_no_page) },
};

/* The number of entries of a directory that was allocated; zero for that of a new context. */
u32 htw_directory_entries(const struct htw_directory *dir)
{
	return dir == &htw_no_directory ? 0 : dir->mask + 1;
}

/**
 * htw_directory_double() - copy a directory into one of twice its length
 * @old: the directory; no entry of it is written meanwhile
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the new directory, or NULL.
 */
struct htw_directory *htw_directory_double(const struct htw_directory *old)
{
	u32 held = htw_directory_entries(old);
	u32 entries = held ? 2 * held : HTW_DIRECTORY_FIRST;
	struct htw_directory *dir;

	dir = kvmalloc(struct_size(dir, pages, entries), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!dir)
		return NULL;
	dir->mask = entries - 1;
	for (u32 i = 0; i < entries; i++)
		RCU_INIT_POINTER(dir->pages[i],
				 i < held ? rcu_access_pointer(old->pages[i]) :
					    (struct htw_page *)&htw_no_page);
	return dir;
}

/* Free a directory that has been replaced, when lookups in it are over. */
void htw_directory_free(struct htw_directory *dir)
{
	if (dir != &htw_no_directory)
		kvfree_rcu(dir, rcu);
}
