// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/htw_bench: let htw-bench drive timers in the kernel; for root, in a VM
 */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/uaccess.h>

#include "bench_set.h"
#include "htw_bench.h"

#define BENCH_MAX	(16 * 1024 * 1024)

/* Guards bench_set, except for what the timers' functions write. */
static DEFINE_MUTEX(bench_lock);

static const struct bench_system * const bench_systems[HTW_BENCH_SYSTEMS] = {
	[HTW_BENCH_HTW]		= &bench_htw,
	[HTW_BENCH_TIMER_LIST]	= &bench_timer_list,
	[HTW_BENCH_HRTIMER]	= &bench_hrtimer,
};

static int bench_copy(void *to, u64 from, u32 count, size_t size)
{
	return copy_from_user(to, u64_to_user_ptr(from), array_size(count, size)) ? -EFAULT : 0;
}

static bool bench_orders_fit(const struct bench_set *set)
{
	for (u32 k = 0; k < set->pending; k++)
		if (set->rearm_order[k] >= set->pending || set->cancel_order[k] >= set->pending)
			return false;
	return true;
}

static int bench_ioctl_prepare(struct bench_set *set, const void __user *arg)
{
	struct htw_bench_prepare prepare;
	int ret;

	if (copy_from_user(&prepare, arg, sizeof(prepare)))
		return -EFAULT;
	if (!prepare.pending || prepare.pending > BENCH_MAX)
		return -EINVAL;
	if (set->system)
		return -EBUSY;
	ret = bench_prepare(set, prepare.pending);
	if (ret)
		return ret;
	if (bench_copy(set->rearm_order, prepare.rearm_order, prepare.pending, sizeof(u32)) ||
	    bench_copy(set->cancel_order, prepare.cancel_order, prepare.pending, sizeof(u32)) ||
	    bench_copy(set->delay, prepare.delay, prepare.pending, sizeof(u64)) ||
	    bench_copy(set->later, prepare.later, prepare.pending, sizeof(u64)))
		ret = -EFAULT;
	else if (!bench_orders_fit(set))
		ret = -EINVAL;
	if (ret)
		bench_forget(set);
	return ret;
}

/* Operations on an open set; timers in a wrong state make the operation fail. */
static int bench_operate(struct bench_set *set, unsigned int cmd, unsigned long arg)
{
	u32 wrong;

	if (!set->system || arg > set->pending)
		return -EINVAL;
	switch (cmd) {
	case HTW_BENCH_ADD:
		set->base = ktime_get_ns();
		wrong = set->system->add(set);
		break;
	case HTW_BENCH_REARM:
		wrong = set->system->rearm(set, arg);
		break;
	case HTW_BENCH_CANCEL:
		wrong = set->system->cancel(set, arg);
		break;
	case HTW_BENCH_COLLECT:
		wrong = atomic_read(&set->wrong);
		break;
	default:
		return -ENOTTY;
	}
	if (wrong)
		return -EBADMSG;
	return cmd == HTW_BENCH_COLLECT ? atomic_read(&set->collected) : 0;
}

static long bench_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct bench_set *set = &bench_set;

	guard(mutex)(&bench_lock);
	switch (cmd) {
	case HTW_BENCH_PREPARE:
		return bench_ioctl_prepare(set, (const void __user *)arg);
	case HTW_BENCH_OPEN:
		if (arg >= HTW_BENCH_SYSTEMS || !set->pending)
			return -EINVAL;
		return bench_open(set, bench_systems[arg]);
	case HTW_BENCH_CLOSE:
		bench_close(set);
		return 0;
	default:
		return bench_operate(set, cmd, arg);
	}
}

static int bench_release(struct inode *inode, struct file *file)
{
	guard(mutex)(&bench_lock);
	bench_close(&bench_set);
	bench_forget(&bench_set);
	return 0;
}

static const struct file_operations bench_fops = {
	.owner		= THIS_MODULE,
	.release	= bench_release,
	.unlocked_ioctl	= bench_ioctl,
};

static struct miscdevice bench_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "htw_bench",
	.fops	= &bench_fops,
	.mode	= 0600,
};
module_misc_device(bench_device);

MODULE_DESCRIPTION("In-kernel timers, driven by htw-bench");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
