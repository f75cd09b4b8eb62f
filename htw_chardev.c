// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/htw: open, release, ioctl, read, poll
 *
 * Each call is one function of core/, which checks all that comes from user
 * space before it uses any of it. All structures are the same for 32- and
 * 64-bit programs: without padding, and a multiple of 8 bytes long.
 */

#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/wait_bit.h>

#include "core/alarm.h"
#include "core/calls.h"
#include "core/collect.h"
#include "core/setup.h"
#include "core/show.h"
#include "compat.h"
#include "htw_chardev.h"

static long htw_chardev_call(struct file *file, unsigned int cmd, void __user *arg, gfp_t gfp);

/*
 * A command of a newer header, whose structure is larger than the one that this
 * kernel knows: what is beyond that must be zero, or becomes zero if the
 * command only writes.
 */
static noinline long htw_chardev_larger(struct file *file, unsigned int cmd, void __user *arg,
					gfp_t gfp)
{
	static const unsigned int commands[] = {
		HTW_SETUP, HTW_INFO, HTW_ADD, HTW_CANCEL, HTW_MOD, HTW_QUERY, HTW_VECTOR,
		HTW_CANCEL_ALL, HTW_LIST, HTW_HARVEST, HTW_ADVANCE,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(commands); i++) {
		unsigned int known = commands[i], size = _IOC_SIZE(known);
		int ret;

		if (((cmd ^ known) & ~IOCSIZE_MASK) || _IOC_SIZE(cmd) <= size)
			continue;
		if (_IOC_DIR(known) & _IOC_WRITE)
			ret = check_zeroed_user(arg + size, _IOC_SIZE(cmd) - size);
		else
			ret = clear_user(arg + size, _IOC_SIZE(cmd) - size) ? -EFAULT : 1;
		if (ret <= 0)
			return ret ?: -E2BIG;
		return htw_chardev_call(file, known, arg, gfp);
	}
	return -ENOTTY;
}

static __always_inline long __htw_chardev_call(struct file *file, unsigned int cmd,
					       void __user *arg, gfp_t gfp)
{
	bool reads = file->f_mode & FMODE_READ, writes = file->f_mode & FMODE_WRITE;
	struct htw_context *ctx = file->private_data;

	switch (cmd) {
	case HTW_ADD:
		return writes ? htw_call_add_one(ctx, arg, gfp) : -EBADF;
	case HTW_CANCEL:
		return writes ? htw_call_cancel_one(ctx, arg) : -EBADF;
	case HTW_MOD:
		return writes ? htw_call_mod_one(ctx, arg) : -EBADF;
	case HTW_VECTOR:
		return writes ? htw_call_vector(ctx, arg, gfp) : -EBADF;
	case HTW_SETUP:
		return writes ? htw_setup(ctx, arg) : -EBADF;
	case HTW_ADVANCE:
		return writes ? htw_setup_advance(ctx, arg) : -EBADF;
	case HTW_CANCEL_ALL:
		return writes ? htw_walk_cancel_all(ctx, arg) : -EBADF;
	case HTW_HARVEST:
		return writes ? htw_walk_list(ctx, arg, true) : -EBADF;
	case HTW_LIST:
		return reads ? htw_walk_list(ctx, arg, false) : -EBADF;
	case HTW_QUERY:
		return reads ? htw_call_query_one(ctx, arg) : -EBADF;
	case HTW_INFO:
		return reads ? htw_setup_info(ctx, arg) : -EBADF;
	default:
		return htw_chardev_larger(file, cmd, arg, gfp);
	}
}

static long htw_chardev_ioctl(struct file *file, unsigned int cmd, unsigned long parm)
{
	return __htw_chardev_call(file, cmd, (void __user *)parm, HTW_GFP);
}

static long htw_chardev_call(struct file *file, unsigned int cmd, void __user *arg, gfp_t gfp)
{
	return __htw_chardev_call(file, cmd, arg, gfp);
}

/* Flags that a program can set in an SQE; those above are the kernel's. */
#define HTW_URING_FLAGS		GENMASK(23, 0)

/*
 * Commands of io_uring, for which a task waits that also submits others. It is
 * asked first not to sleep; after EAGAIN a worker makes the call.
 */
static int htw_chardev_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	const struct htw_uring_args *args = htw_uring_cmd(cmd);
	bool nowait = issue_flags & IO_URING_F_NONBLOCK;
	u64 *saved = (u64 *)cmd->pdu, arg;
	int ret;

	static_assert(sizeof(*args) == 16);

	/* Of any size: see htw_chardev_larger(). */
	switch (cmd->cmd_op & ~IOCSIZE_MASK) {
	case HTW_ADD & ~IOCSIZE_MASK:
	case HTW_CANCEL & ~IOCSIZE_MASK:
	case HTW_MOD & ~IOCSIZE_MASK:
	case HTW_VECTOR & ~IOCSIZE_MASK:
		break;
	default:
		return -ENOTTY;
	}

	/*
	 * The program can write to the SQE at any time: it is read once. What
	 * the kernel gives the worker may still be the SQE in the ring, where
	 * there is another one meanwhile.
	 */
	if (cmd->flags & IORING_URING_CMD_REISSUE) {
		arg = *saved;
	} else {
		arg = READ_ONCE(args->arg);
		if (READ_ONCE(args->reserved) || cmd->flags & HTW_URING_FLAGS)
			return -EINVAL;
		if (issue_flags & IO_URING_F_SQE128 &&
		    memchr_inv(args + 1, 0, sizeof(struct io_uring_sqe)))
			return -EINVAL;
	}

	ret = htw_chardev_call(cmd->file, cmd->cmd_op, u64_to_user_ptr(arg),
			       nowait ? HTW_GFP_NOWAIT : HTW_GFP);
	if (ret == -EAGAIN) {
		*saved = arg;
		cmd->flags |= IORING_URING_CMD_REISSUE;
	}
	/* There may be thousands in a submission, between which io_uring does not look. */
	cond_resched();
	return ret;
}

static ssize_t htw_chardev_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *file = iocb->ki_filp;

	return htw_collect_read(file->private_data, to,
				file->f_flags & O_NONBLOCK || iocb->ki_flags & IOCB_NOWAIT);
}

static __poll_t htw_chardev_poll(struct file *file, poll_table *wait)
{
	struct htw_context *ctx = file->private_data;

	poll_wait(file, &ctx->wait, wait);
	if (!(poll_requested_events(wait) & (EPOLLIN | EPOLLRDNORM)))
		return 0;
	/* Pairs with wq_has_sleeper(): who waits is queued, and then looks. */
	smp_mb();
	htw_delay();
	if (htw_collect_poll(ctx))
		return EPOLLIN | EPOLLRDNORM;
	htw_pages_shrink(ctx, 0);
	return 0;
}

static int htw_chardev_open(struct inode *inode, struct file *file)
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
static int htw_chardev_flush(struct file *file, fl_owner_t id)
{
	struct htw_context *ctx = file->private_data;

	htw_collect_pass_on(ctx);
	/* Without a key: they look, as nothing may be due. */
	if (htw_context_has_work(ctx) && wq_has_sleeper(&ctx->wait))
		wake_up(&ctx->wait);
	return 0;
}

static int htw_chardev_fasync(int fd, struct file *file, int on)
{
	struct htw_context *ctx = file->private_data;
	int ret = fasync_helper(fd, file, on, &ctx->fasync);

	/* Who waits for SIGIO is queued, and then looks. */
	smp_mb();
	htw_collect_poll(ctx);
	return ret;
}

/*
 * The file is closed: no task uses the context. An alarm's callback and a work
 * item may, for as long as they have it pinned.
 */
static int htw_chardev_release(struct inode *inode, struct file *file)
{
	struct htw_context *ctx = file->private_data;
	struct htw_base *base;

	/* Nobody pins it after that. */
	htw_context_for_each_base(ctx, base)
		htw_alarm_close(base);
	htw_context_unpin(ctx);
	wait_var_event(&ctx->pins, !atomic_read(&ctx->pins));

	htw_bases_free(ctx);
	htw_pages_exit(ctx);
	htw_context_free(ctx);
	return 0;
}

const struct file_operations htw_fops = {
	.owner		= THIS_MODULE,
	.open		= htw_chardev_open,
	.flush		= htw_chardev_flush,
	.release	= htw_chardev_release,
	.read_iter	= htw_chardev_read_iter,
	.poll		= htw_chardev_poll,
	.fasync		= htw_chardev_fasync,
	.show_fdinfo	= htw_fdinfo_show,
	.unlocked_ioctl	= htw_chardev_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= htw_chardev_uring_cmd,
};

/*
 * Not a misc device: misc_open() holds a mutex of all misc devices while it
 * calls the driver's open(), and ours allocates memory, in tasks of any
 * priority.
 */
static unsigned int htw_major;
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

	ret = __register_chrdev(0, 0, 1, "htw", &htw_fops);
	if (ret < 0)
		return ret;
	htw_major = ret;

	htw_class = class_create("htw");
	if (IS_ERR(htw_class)) {
		ret = PTR_ERR(htw_class);
		goto err_chrdev;
	}

	device = device_create(htw_class, NULL, MKDEV(htw_major, 0), NULL, "htw");
	if (IS_ERR(device)) {
		ret = PTR_ERR(device);
		goto err_class;
	}
	return 0;

err_class:
	class_destroy(htw_class);
err_chrdev:
	__unregister_chrdev(htw_major, 0, 1, "htw");
	return ret;
}

/**
 * htw_chardev_exit() - unregister /dev/htw, which no one has open
 *
 * Context: process, may sleep.
 */
void htw_chardev_exit(void)
{
	device_destroy(htw_class, MKDEV(htw_major, 0));
	class_destroy(htw_class);
	__unregister_chrdev(htw_major, 0, 1, "htw");
}
