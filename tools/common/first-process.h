/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A test that is the first process of a kernel built for it
 */
#ifndef COMMON_FIRST_PROCESS_H
#define COMMON_FIRST_PROCESS_H

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../torture/report.h"
#include "clock.h"

#define DEBUGFS		"/sys/kernel/debug/"

static inline void mount_all(void)
{
	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("debugfs", DEBUGFS, "debugfs", 0, NULL) ||
	    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) ||
	    (mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) && errno != EBUSY))
		report_broken("mount: %s", strerror(errno));
}

static inline void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		report_broken("%s: %s", path, strerror(errno));
	close(fd);
}

/* Report what kmemleak does not find a pointer to: it looks at objects that are older than 5 s. */
static inline void check_leaks(void)
{
	char buf[4096];
	ssize_t n = 0;
	int fd;

	for (int i = 0; i < 2; i++) {
		sleep_until(now_ns() + 6 * SEC);
		write_to(DEBUGFS "kmemleak", "scan");
	}
	fd = open(DEBUGFS "kmemleak", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, buf, sizeof(buf) - 1);
	if (fd < 0 || n < 0)
		report_broken("kmemleak: %s", strerror(errno));
	close(fd);
	buf[n] = '\0';
	if (n)
		report_violation("LEAK:\n%s", buf);
}

#endif /* COMMON_FIRST_PROCESS_H */
