/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compatibility of tests and benchmarks with older kernels; see compat.h
 */
#ifndef _HTW_COMPAT_TESTS_H
#define _HTW_COMPAT_TESTS_H

#include <linux/fs_struct.h>
#include <linux/timer.h>

#include "compat.h"

/* Kernel threads have the root of other tasks. */
#ifndef scoped_with_init_fs
#define scoped_with_init_fs()
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

/* Give a command of io_uring its SQE. */
#if defined(HTW_HAS_IO_URING_CMD_H) || defined(HTW_HAS_IO_URING_CMD_SQE)
#define htw_test_set_sqe(command, entry)	((command)->sqe = (entry))
#else
#define htw_test_set_sqe(command, entry)	((command)->cmd = (entry)->cmd)
#endif

#endif /* _HTW_COMPAT_TESTS_H */
