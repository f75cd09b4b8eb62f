/* SPDX-License-Identifier: GPL-2.0-only */
/* Keep khugepaged from copying huge pages. */
#ifndef COMMON_HUGE_PAGES_H
#define COMMON_HUGE_PAGES_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/*
 * khugepaged copies a page for 1.4 ms without a preemption point: what waits meanwhile would be
 * late because of the kernel. Return false if it cannot be stopped.
 */
static inline bool stop_khugepaged(void)
{
	const int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY | O_CLOEXEC);
	bool stopped;

	/* Such a kernel has none. */
	if (fd < 0)
		return errno == ENOENT;
	stopped = write(fd, "never", 5) == 5;
	close(fd);
	return stopped;
}

#endif /* COMMON_HUGE_PAGES_H */
