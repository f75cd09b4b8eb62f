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

#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/fs_struct.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/timer.h>
#include <linux/version.h>

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

#ifndef HTW_HAS_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

/* For kunit/: kernel threads have the root of other tasks. */
#ifndef scoped_with_init_fs
#define scoped_with_init_fs()
#endif

/* For kunit/. */
#ifndef HTW_HAS_RCU_GP_SEQ
#define rcu_gp_seq		rcu_gp_oldstate
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

#ifndef HTW_HAS_TIMER_DELETE
static inline int timer_delete(struct timer_list *timer)
{
	return del_timer(timer);
}

static inline int timer_delete_sync(struct timer_list *timer)
{
	return del_timer_sync(timer);
}
#endif

/* Not exported to modules: checked in kernels that have htw built in. */
#ifdef MODULE
#define htw_assert_cpus_held()	do { } while (0)
#else
#define htw_assert_cpus_held()	lockdep_assert_cpus_held()
#endif

#endif /* _HTW_COMPAT_H */
