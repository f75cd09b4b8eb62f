/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory that is not there until a test says so: userfaultfd
 */
#ifndef HTW_FAULT_H
#define HTW_FAULT_H

#include "htw-test.h"

#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* A userfaultfd, or a negative number where there is none. */
static inline int htw_fault_open(void)
{
	return syscall(SYS_userfaultfd, O_CLOEXEC);
}

/* Have a task that touches one of these new pages wait for htw_fault_resolve(). Return: 0 or -1. */
static inline int htw_fault_register(int uffd, void *pages, size_t size)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)pages, .len = size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	return ioctl(uffd, UFFDIO_API, &api) ?: ioctl(uffd, UFFDIO_REGISTER, &reg);
}

/* Wait until a task has touched such a page. */
static inline bool htw_fault_comes(int uffd)
{
	struct pollfd pfd = { .fd = uffd, .events = POLLIN };
	struct uffd_msg fault;

	return poll(&pfd, 1, EVENTUALLY / MSEC) == 1 &&
	       read(uffd, &fault, sizeof(fault)) == sizeof(fault) &&
	       fault.event == UFFD_EVENT_PAGEFAULT;
}

/* Let the page be there. Return: 0 or -1. */
static inline int htw_fault_resolve(int uffd, void *page, size_t size)
{
	struct uffdio_zeropage zero = { .range = { .start = (uintptr_t)page, .len = size } };

	return ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
}

#endif /* HTW_FAULT_H */
