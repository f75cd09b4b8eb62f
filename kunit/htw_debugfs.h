/* SPDX-License-Identifier: GPL-2.0-only */
/* KUnit: files of /sys/kernel/debug, which the cases open without its being mounted. */
#ifndef HTW_DEBUGFS_H
#define HTW_DEBUGFS_H

#include <kunit/test.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "htw_kunit.h"

static inline struct file *htw_test_debugfs_open(struct kunit *test, const char *name, int flags)
{
	struct vfsmount *mnt = kern_mount(get_fs_type("debugfs"));
	struct file *file;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mnt);
	file = file_open_root_mnt(mnt, name, flags, 0);
	kern_unmount(mnt);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	return file;
}

/* Write a word to a file. */
static inline void htw_test_debugfs_set(struct kunit *test, const char *name, const char *value)
{
	const size_t length = strlen(value);
	char __user *from = (char __user *)htw_test_user_pages(test, 1);
	struct file *file = htw_test_debugfs_open(test, name, O_WRONLY);
	loff_t pos = 0;

	KUNIT_ASSERT_EQ(test, copy_to_user(from, value, length), 0);
	KUNIT_EXPECT_EQ(test, file->f_op->write(file, from, length, &pos), length);
	__fput_sync(file);
}

#endif
