/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The memory charge of a cgroup, for tests of memory
 *
 * The machine's free memory is not usable: it leaves out the per-CPU page
 * lists, so it changes by tens of MiB, which would hide a leak.
 */
#ifndef HTW_MEMORY_H
#define HTW_MEMORY_H

#include "htw-cgroup.h"

#include <sys/stat.h>

#define MIB		(1ULL << 20)
/* Size of a timer in bytes. */
#define NODE		64
/* Each CPU may hold up to 64 charged pages that are not used. */
#define SLACK		MIB

/* Mount point of cgroup2, with the memory controller enabled for children. */
static inline bool memory_cgroup(char *path, size_t size)
{
	return htw_cgroup_root(path, size, "memory");
}

#endif /* HTW_MEMORY_H */
