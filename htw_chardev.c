// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/htw: open, release, ioctl, read, poll, mmap
 *
 * Each call is one function of core/, which checks all that comes from user
 * space before it uses any of it: unknown flags and non-zero reserved fields
 * are -EINVAL, so that they can be given a meaning later. All structures are
 * the same for 32- and 64-bit programs: without padding, and a multiple of 8
 * bytes long.
 */

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/uio.h>

#include "core/advance.h"
#include "core/contexts.h"
#include "core/info.h"
#include "core/mmap.h"
#include "core/ops.h"
#include "core/reader.h"
#include "core/setup.h"
#include "core/vector.h"
#include "core/walk.h"
#include "compat.h"
#include "htw_chardev.h"

static long htw_chardev_ioctl(struct file *file, unsigned int cmd,
			      unsigned long parm)
{
	struct htw_context *ctx = file->private_data;
	void __user *arg = (void __user *)parm;

	switch (cmd) {
	case HTW_ADD:
		return htw_op_add(ctx, arg);
	case HTW_CANCEL:
		return htw_op_cancel(ctx, arg);
	case HTW_MOD:
		return htw_op_mod(ctx, arg);
	case HTW_QUERY:
		return htw_op_query(ctx, arg);
	case HTW_BATCH:
		return htw_op_batch(ctx, arg);
	case HTW_VECTOR:
		return htw_op_vector(ctx, arg);
	case HTW_CANCEL_ALL:
		return htw_op_cancel_all(ctx, arg);
	case HTW_LIST:
		return htw_op_list(ctx, arg, false);
	case HTW_HARVEST:
		return htw_op_list(ctx, arg, true);
	case HTW_NEXT:
		return htw_op_next(ctx, arg);
	case HTW_SETUP:
		return htw_op_setup(ctx, arg);
	case HTW_ADVANCE:
		return htw_op_advance(ctx, arg);
	case HTW_INFO:
		return htw_op_info(ctx, arg);
	case HTW_FLUSH:
		return htw_reader_flush(ctx);
	default:
		return -ENOTTY;
	}
}

static ssize_t htw_chardev_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;

	return htw_reader_read(file->private_data, to,
			       file->f_flags & O_NONBLOCK ||
				       iocb->ki_flags & IOCB_NOWAIT);
}

static __poll_t htw_chardev_poll(struct file *file, poll_table *wait)
{
	struct htw_context *ctx = file->private_data;

	poll_wait(file, &ctx->wait, wait);
	/* Pairs with wq_has_sleeper() in htw_wake_contexts(). */
	smp_mb();
	return htw_reader_is_readable(ctx) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int htw_chardev_open(struct inode *inode, struct file *file)
{
	struct htw_context *ctx = htw_contexts_create(READ_ONCE(htw_max_timers));

	if (!ctx)
		return -ENOMEM;
	file->private_data = ctx;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

/* A process closes a descriptor, perhaps because it was killed: others may wait for the events. */
static int htw_chardev_flush(struct file *file, fl_owner_t id)
{
	htw_reader_pass_on(file->private_data);
	return 0;
}

static int htw_chardev_fasync(int fd, struct file *file, int on)
{
	struct htw_context *ctx = file->private_data;
	int ret = fasync_helper(fd, file, on, &ctx->sigio.fasync);

	/* A program may now look at its ring: pairs with htw_wake_is_wanted(). */
	smp_mb();
	return ret;
}

static void htw_chardev_show_fdinfo(struct seq_file *m, struct file *file)
{
	htw_info_show(file->private_data, m);
}

static int htw_chardev_release(struct inode *inode, struct file *file)
{
	htw_contexts_close(file->private_data);
	return 0;
}

const struct file_operations htw_fops = {
	.owner		= THIS_MODULE,
	.open		= htw_chardev_open,
	.flush		= htw_chardev_flush,
	.release	= htw_chardev_release,
	.read_iter	= htw_chardev_read_iter,
	.poll		= htw_chardev_poll,
	.mmap		= htw_mmap,
	.fasync		= htw_chardev_fasync,
	.show_fdinfo	= htw_chardev_show_fdinfo,
	.unlocked_ioctl	= htw_chardev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

/*
 * Not a misc device: misc_open() holds a mutex of all misc devices while it
 * calls the driver's open(), and ours allocates memory, in tasks of any
 * priority.
 */
static dev_t htw_devt;
/*
 * Allocated, as its kobject may be released only after the module is unloaded, with
 * CONFIG_DEBUG_KOBJECT_RELEASE: a cdev in the module's own memory would be gone by then.
 */
static struct cdev *htw_cdev;
static struct class *htw_class;

/**
 * htw_chardev_init() - register /dev/htw, which programs can open from then on
 *
 * Context: process, may sleep.
 * Return: 0 or a negative error.
 */
int htw_chardev_init(void)
{
	struct device *device;
	int ret;

	ret = alloc_chrdev_region(&htw_devt, 0, 1, "htw");
	if (ret)
		return ret;

	htw_class = class_create("htw");
	if (IS_ERR(htw_class)) {
		ret = PTR_ERR(htw_class);
		goto err_region;
	}

	htw_cdev = cdev_alloc();
	if (!htw_cdev) {
		ret = -ENOMEM;
		goto err_class;
	}
	htw_cdev->ops = &htw_fops;
	htw_cdev->owner = THIS_MODULE;
	ret = cdev_add(htw_cdev, htw_devt, 1);
	if (ret)
		goto err_cdev;

	device = device_create(htw_class, NULL, htw_devt, NULL, "htw");
	if (IS_ERR(device)) {
		ret = PTR_ERR(device);
		goto err_cdev;
	}
	return 0;

err_cdev:
	cdev_del(htw_cdev);
err_class:
	class_destroy(htw_class);
err_region:
	unregister_chrdev_region(htw_devt, 1);
	return ret;
}

/**
 * htw_chardev_exit() - unregister /dev/htw, which no one has open
 *
 * Context: process, may sleep.
 */
void htw_chardev_exit(void)
{
	device_destroy(htw_class, htw_devt);
	cdev_del(htw_cdev);
	class_destroy(htw_class);
	unregister_chrdev_region(htw_devt, 1);
}
