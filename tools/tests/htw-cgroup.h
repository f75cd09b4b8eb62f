/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Control groups, version 2
 */
#ifndef HTW_CGROUP_H
#define HTW_CGROUP_H

#include "htw-test.h"

#include <mntent.h>

/* Mount point of cgroup2, with a controller enabled for children. */
static inline bool htw_cgroup_root(char *path, size_t size, const char *controller)
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
	if (htw_read_file(file, buf, sizeof(buf)) || !strstr(buf, controller))
		return false;
	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", path);
	snprintf(buf, sizeof(buf), "+%s", controller);
	return !htw_write_file(file, buf);
}

/* Write to a file of a group. */
static inline int htw_cgroup_write(const char *group, const char *name, const char *text)
{
	char file[256];

	snprintf(file, sizeof(file), "%s/%s", group, name);
	return htw_write_file(file, text);
}

/* Move a process to a group. */
static inline int htw_cgroup_move(const char *group, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return htw_cgroup_write(group, "cgroup.procs", text);
}

#endif /* HTW_CGROUP_H */
