// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw: millions of timeouts behind one file descriptor
 *
 * Module parameters, init and exit.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>

#include "core/calls.h"
#include "core/callout.h"
#include "core/collect.h"
#include "core/setup.h"
#include "core/show.h"
#include "core/ring.h"
#include "core/user.h"
#include "htw_chardev.h"

module_param_named(tick_us, htw_tick_us, uint, 0444);
MODULE_PARM_DESC(tick_us, "Tick in microseconds, 10 to 1000000 (default 1000)");

/*
 * Limits can be changed through sysfs; timers that exceed a lower limit stay.
 */
static int htw_main_set_limit(const char *val, const struct kernel_param *kp)
{
	unsigned int max = kp->arg == &htw_max_timers ? HTW_CONTEXT_MAX : INT_MAX / 2;
	int ret = param_set_uint_minmax(val, kp, 1, max);

	if (ret)
		pr_err("%s=%.*s: must be from 1 to %u\n", kp->name,
		       (int)strcspn(val, "\n"), val, max);
	return ret;
}

static const struct kernel_param_ops htw_limit_ops = {
	.set = htw_main_set_limit,
	.get = param_get_uint,
};

module_param_cb(max_timers, &htw_limit_ops, &htw_max_timers, 0644);
MODULE_PARM_DESC(max_timers, "Timers that one open of /dev/htw may hold (default 1048576)");
module_param_cb(max_user_timers, &htw_limit_ops, &htw_max_user_timers, 0644);
MODULE_PARM_DESC(max_user_timers, "Timers that a user without CAP_SYS_RESOURCE may have memory for (default 4194304)");

/* One counter for all users: those of each are in fdinfo. */
module_param_named(refused, htw_users_refused.counter, int, 0444);
MODULE_PARM_DESC(refused, "How often a user was refused memory at max_user_timers");

static int __init htw_init(void)
{
	int ret;

	if (htw_tick_us < HTW_TICK_MIN_NS / NSEC_PER_USEC ||
	    htw_tick_us > HTW_TICK_MAX_NS / NSEC_PER_USEC) {
		pr_err("tick_us=%u: must be from 10 to 1000000 (10 us to 1 s)\n", htw_tick_us);
		return -EINVAL;
	}
	ret = htw_contexts_init();
	if (ret)
		goto err;
	ret = htw_ring_init(htw_collect_poll);
	if (ret)
		goto err_contexts;
	ret = htw_chardev_init();
	if (ret)
		goto err_users;
	htw_debugfs_init();
	return 0;

err_users:
	htw_users_exit();
err_contexts:
	htw_contexts_exit();
err:
	pr_err("cannot start: error %d\n", ret);
	return ret;
}

static void __exit htw_exit(void)
{
	htw_debugfs_exit();
	htw_chardev_exit();
	htw_vector_exit();
	htw_users_exit();
	htw_contexts_exit();
	htw_callouts_exit();
}

module_init(htw_init);
module_exit(htw_exit);

MODULE_DESCRIPTION("Hierarchical timing wheels for user space");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
MODULE_VERSION(HTW_VERSION);
