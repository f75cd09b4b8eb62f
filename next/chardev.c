// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/htw: open, release, ioctl, read, poll; the module's parameters, init and
 * exit
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/poll.h>
#include <linux/uaccess.h>

#include "calls.h"
#include "collect.h"
#include "compat.h"
#include "context.h"
#include "delay.h"
#include "user.h"
#include "wait.h"

#define HTW_FEATURES	(HTW_FEATURE_ADD | HTW_FEATURE_KEEP | HTW_FEATURE_FIRINGS |	\
			 HTW_FEATURE_MOD | HTW_FEATURE_SLACK | HTW_FEATURE_SETUP |	\
			 HTW_FEATURE_VECTOR)
#define HTW_TICK_MIN_NS	(10 * NSEC_PER_USEC)
#define HTW_TICK_MAX_NS	NSEC_PER_SEC

module_param_named(tick_us, htw_tick_us, uint, 0444);
MODULE_PARM_DESC(tick_us, "Tick in microseconds, 10 to 1000000 (default 1000)");
module_param_named(max_timers, htw_max_timers, uint, 0644);
MODULE_PARM_DESC(max_timers, "Timers that one open of /dev/htw may hold (default 1048576)");
module_param_named(max_user_timers, htw_max_user_timers, uint, 0644);
MODULE_PARM_DESC(max_user_timers, "Timers that a user without CAP_SYS_RESOURCE may have memory for (default 4194304)");

static bool htw_setup_is_valid(const struct htw_setup *setup)
{
	return !(setup->flags & ~(HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE | HTW_SETUP_LIMIT)) &&
	       !(setup->reserved0 | setup->reserved[0] | setup->reserved[1] | setup->reserved[2] |
		 setup->home_cpu | setup->ring_entries);
}

static int htw_setup_apply(struct htw_context *ctx, const struct htw_setup *setup)
{
	lockdep_assert_held(&ctx->mutex);

	if (ctx->first || ctx->ids.nr_pages || ctx->setup)
		return -EBUSY;
	if (setup->flags & HTW_SETUP_CLOCK && setup->clock != CLOCK_MONOTONIC)
		return -EOPNOTSUPP;
	if (setup->flags & HTW_SETUP_PRIVATE &&
	    (setup->tick_ns < HTW_TICK_MIN_NS || setup->tick_ns > HTW_TICK_MAX_NS))
		return -ERANGE;
	if (setup->flags & HTW_SETUP_LIMIT &&
	    (!setup->limit || setup->limit > READ_ONCE(htw_max_timers)))
		return -ERANGE;
	if (setup->flags & HTW_SETUP_PRIVATE)
		ctx->tick_ns = setup->tick_ns;
	if (setup->flags & HTW_SETUP_LIMIT)
		ctx->ids.limit = setup->limit;
	ctx->setup = setup->flags;
	return 0;
}

static long htw_setup(struct htw_context *ctx, const struct htw_setup __user *arg)
{
	struct htw_setup setup;
	int ret;

	if (copy_from_user(&setup, arg, sizeof(setup)))
		return -EFAULT;
	if (!htw_setup_is_valid(&setup))
		return -EINVAL;
	mutex_lock(&ctx->mutex);
	ret = htw_setup_apply(ctx, &setup);
	mutex_unlock(&ctx->mutex);
	return ret;
}

static long htw_info(struct htw_context *ctx, struct htw_info __user *arg)
{
	struct htw_info info = {
		.features = HTW_FEATURES,
		.tick_ns = ctx->tick_ns,
		.clock = CLOCK_MONOTONIC,
		.home_cpu = -1,
	};

	spin_lock(&ctx->ids.lock);
	info.limit = ctx->ids.limit;
	info.timers = ctx->ids.nr_timers;
	spin_unlock(&ctx->ids.lock);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static long htw_ioctl(struct file *file, unsigned int cmd, unsigned long parm)
{
	struct htw_context *ctx = file->private_data;
	void __user *arg = (void __user *)parm;

	switch (cmd) {
	case HTW_ADD:
		return htw_call_add_one(ctx, arg);
	case HTW_CANCEL:
		return htw_call_cancel_one(ctx, arg);
	case HTW_MOD:
		return htw_call_mod_one(ctx, arg);
	case HTW_QUERY:
		return htw_call_query_one(ctx, arg);
	case HTW_VECTOR:
		return htw_call_vector(ctx, arg);
	case HTW_SETUP:
		return htw_setup(ctx, arg);
	case HTW_INFO:
		return htw_info(ctx, arg);
	default:
		return -ENOTTY;
	}
}

static ssize_t htw_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;

	return htw_collect_read(file->private_data, to,
				file->f_flags & O_NONBLOCK || iocb->ki_flags & IOCB_NOWAIT);
}

static __poll_t htw_poll(struct file *file, poll_table *wait)
{
	struct htw_context *ctx = file->private_data;

	poll_wait(file, &ctx->wait, wait);
	/* Pairs with wq_has_sleeper(): who waits is queued, and then looks. */
	smp_mb();
	htw_delay();
	return htw_collect_poll(ctx) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int htw_open(struct inode *inode, struct file *file)
{
	struct htw_context *ctx = htw_context_open();

	if (!ctx)
		return -ENOMEM;
	file->private_data = ctx;
	file->f_mode |= FMODE_NOWAIT;
	return stream_open(inode, file);
}

/*
 * A process closes a descriptor, perhaps because it was killed: others may wait
 * for the events.
 */
static int htw_flush(struct file *file, fl_owner_t id)
{
	struct htw_context *ctx = file->private_data;

	htw_collect_pass_on(ctx);
	if (htw_context_has_work(ctx) && wq_has_sleeper(&ctx->wait))
		wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
	return 0;
}

static int htw_fasync(int fd, struct file *file, int on)
{
	struct htw_context *ctx = file->private_data;
	int ret = fasync_helper(fd, file, on, &ctx->fasync);

	/*
	 * Who waits for SIGIO is queued, and has the alarm set that others did
	 * not get to set.
	 */
	smp_mb();
	htw_collect_poll(ctx);
	return ret;
}

static int htw_release(struct inode *inode, struct file *file)
{
	htw_context_close(file->private_data);
	return 0;
}

static const struct file_operations htw_fops = {
	.owner		= THIS_MODULE,
	.open		= htw_open,
	.flush		= htw_flush,
	.release	= htw_release,
	.read_iter	= htw_read_iter,
	.poll		= htw_poll,
	.fasync		= htw_fasync,
	.unlocked_ioctl	= htw_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
};

static dev_t htw_devt;
static struct cdev *htw_cdev;
static struct class *htw_class;

static int __init htw_chardev_init(void)
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

static int __init htw_init(void)
{
	int ret;

	if (htw_tick_us < HTW_TICK_MIN_NS / NSEC_PER_USEC ||
	    htw_tick_us > HTW_TICK_MAX_NS / NSEC_PER_USEC) {
		pr_err("tick_us=%u: must be from 10 to 1000000 (10 us to 1 s)\n", htw_tick_us);
		return -EINVAL;
	}
	ret = htw_bases_init();
	if (ret)
		return ret;
	ret = htw_contexts_init();
	if (ret)
		goto err_bases;
	ret = htw_wait_init();
	if (ret)
		goto err_contexts;
	ret = htw_chardev_init();
	if (ret)
		goto err_wait;
	return 0;

err_wait:
	htw_wait_exit();
err_contexts:
	htw_contexts_exit();
err_bases:
	htw_bases_exit();
	return ret;
}

static void __exit htw_exit(void)
{
	device_destroy(htw_class, htw_devt);
	cdev_del(htw_cdev);
	class_destroy(htw_class);
	unregister_chrdev_region(htw_devt, 1);
	htw_vector_exit();
	htw_wait_exit();
	htw_contexts_exit();
	htw_bases_exit();
}

module_init(htw_init);
module_exit(htw_exit);

MODULE_DESCRIPTION("Hierarchical timing wheels for user space");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
MODULE_VERSION(HTW_VERSION);
