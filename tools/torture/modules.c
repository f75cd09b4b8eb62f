// SPDX-License-Identifier: GPL-2.0-only
#include "modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/clock.h"
#include "report.h"

#define EVENTUALLY	(60 * SEC)

void module_load(const char *path, const char *parameters)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, parameters, 0))
		report_broken("cannot load %s %s: %s", path, parameters, strerror(errno));
	close(fd);
}

void module_unload(const char *name)
{
	const __u64 end = now_ns() + EVENTUALLY;

	while (syscall(SYS_delete_module, name, O_NONBLOCK)) {
		if ((errno != EAGAIN && errno != EBUSY) || now_ns() > end) {
			report_violation("cannot unload %s: %s", name, strerror(errno));
			return;
		}
		sleep_until(now_ns() + 10 * MSEC);
	}
}

bool module_is_loaded(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/module/%s/refcnt", name);
	return !access(path, F_OK);
}
