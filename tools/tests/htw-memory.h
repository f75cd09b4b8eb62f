/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a cgroup is charged for, for tests of memory
 *
 * The machine's free memory would not do: what lies on the CPUs' own lists is
 * not in it, and moves it by tens of MiB, which would hide a leak.
 */
#ifndef HTW_MEMORY_H
#define HTW_MEMORY_H

#include "htw-test.h"

#include <mntent.h>
#include <sys/stat.h>

#define MIB		(1ULL << 20)
/* What a pending timer takes. */
#define NODE		64
/* Each CPU may hold up to 64 pages that were charged and are not used. */
#define SLACK		MIB

/* Where cgroup2 is mounted, with its memory controller on for children. */
static inline bool memory_cgroup(char *path, size_t size)
{
	FILE *mounts = setmntent("/proc/mounts", "r");
	char file[256], buf[256];
	struct mntent *m;
	bool found = false;

	while (mounts && !found && (m = getmntent(mounts))) {
		found = !strcmp(m->mnt_type, "cgroup2");
		if (found)
			snprintf(path, size, "%s", m->mnt_dir);
	}
	if (mounts)
		endmntent(mounts);
	if (!found)
		return false;
	snprintf(file, sizeof(file), "%s/cgroup.controllers", path);
	if (htw_read_file(file, buf, sizeof(buf)) || !strstr(buf, "memory"))
		return false;
	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", path);
	return !htw_write_file(file, "+memory");
}

#endif /* HTW_MEMORY_H */
