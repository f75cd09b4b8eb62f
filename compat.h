/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compatibility with older kernels
 *
 * The sources use the interfaces of the newest kernel; what an older one lacks is added
 * here. Kbuild probes for each interface by compiling a line, as distributions backport
 * interfaces and version numbers say little. Only the oldest version is compared.
 */
#ifndef _HTW_COMPAT_H
#define _HTW_COMPAT_H

#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/version.h>
#ifdef HTW_HAS_IO_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "htw needs Linux 6.1 or newer"
#endif

/* Skip INIT_STACK_ALL_ZERO for variables that are always written before they are read. */
#ifndef __uninitialized
#if __has_attribute(__uninitialized__) && !defined(__CHECKER__)
#define __uninitialized		__attribute__((__uninitialized__))
#else
#define __uninitialized
#endif
#endif

#ifndef HTW_HAS_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* It takes one argument; before, it had the owner as another one. */
#ifndef HTW_HAS_CLASS_CREATE
#undef class_create
#define class_create(name)						\
({									\
	static struct lock_class_key __key;				\
									\
	__class_create(THIS_MODULE, name, &__key);			\
})
#endif

/* The part of an SQE that is the command's own; Linux 6.1 has no pointer to the SQE. */
#if defined(HTW_HAS_IO_URING_CMD_H) || defined(HTW_HAS_IO_URING_CMD_SQE)
#define htw_uring_cmd(ioucmd)		((const void *)(ioucmd)->sqe->cmd)
#else
#define htw_uring_cmd(ioucmd)		((ioucmd)->cmd)
#endif

/* Set when a worker takes a command over, by kernels that have it as well. */
#ifndef IORING_URING_CMD_REISSUE
#define IORING_URING_CMD_REISSUE	BIT(31)
#endif

#endif /* _HTW_COMPAT_H */
