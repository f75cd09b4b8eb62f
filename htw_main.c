// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw: millions of timeouts behind one file descriptor
 *
 * Module parameters, init and exit.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/moduleparam.h>

#include "core/base.h"
#include "core/callout.h"
#include "core/contexts.h"
#include "core/debugfs.h"
#include "core/pacer.h"
#include "core/user.h"
#include "core/vector.h"
#include "htw_chardev.h"

static unsigned int tick_us = 1000;
module_param(tick_us, uint, 0444);
MODULE_PARM_DESC(tick_us, "Tick of the wheels in microseconds, 10 to 1000000 (default 1000)");

static unsigned int geometry[HTW_WHEEL_MAX_LEVELS] = { 256, 64, 64, 64, 64 };
static unsigned int geometry_levels = 5;
module_param_array(geometry, uint, &geometry_levels, 0444);
MODULE_PARM_DESC(geometry, "Slots of each level of the wheels, finest first (default 256,64,64,64,64)");

/* Limits can be changed through sysfs; timers that exceed a lower limit stay. */
static int htw_main_set_limit(const char *val, const struct kernel_param *kp,
			      unsigned int max)
{
	int ret = param_set_uint_minmax(val, kp, 1, max);

	if (ret)
		pr_err("%s=%.*s: must be from 1 to %u\n", kp->name,
		       (int)strcspn(val, "\n"), val, max);
	return ret;
}

static int htw_main_set_max_timers(const char *val,
				   const struct kernel_param *kp)
{
	return htw_main_set_limit(val, kp, HTW_CONTEXT_MAX);
}

static int htw_main_set_max_user_timers(const char *val,
					const struct kernel_param *kp)
{
	return htw_main_set_limit(val, kp, INT_MAX / 2);
}

static const struct kernel_param_ops htw_max_timers_ops = {
	.set = htw_main_set_max_timers,
	.get = param_get_uint,
};

static const struct kernel_param_ops htw_max_user_timers_ops = {
	.set = htw_main_set_max_user_timers,
	.get = param_get_uint,
};

module_param_cb(max_timers, &htw_max_timers_ops, &htw_max_timers, 0644);
MODULE_PARM_DESC(max_timers, "Timers that one open of /dev/htw may hold (default 1048576)");

static int htw_main_set_user_share(const char *val,
				   const struct kernel_param *kp)
{
	return htw_main_set_limit(val, kp, 100);
}

static int htw_main_set_user_burst(const char *val,
				   const struct kernel_param *kp)
{
	return htw_main_set_limit(val, kp, 60 * MSEC_PER_SEC);
}

static const struct kernel_param_ops htw_user_share_ops = {
	.set = htw_main_set_user_share,
	.get = param_get_uint,
};

static const struct kernel_param_ops htw_user_burst_ops = {
	.set = htw_main_set_user_burst,
	.get = param_get_uint,
};

module_param_cb(user_share, &htw_user_share_ops, &htw_share_percent, 0644);
MODULE_PARM_DESC(user_share, "Share of softirq time of a user without CAP_SYS_RESOURCE, in percent of each CPU (default 25)");

module_param_cb(user_burst_ms, &htw_user_burst_ops, &htw_burst_ms, 0644);
MODULE_PARM_DESC(user_burst_ms, "Burst of softirq time of such a user, in ms on each CPU (default 250)");

module_param_cb(max_user_timers, &htw_max_user_timers_ops, &htw_max_user_timers,
		0644);
MODULE_PARM_DESC(max_user_timers, "Timers that a user without CAP_SYS_RESOURCE may have memory for (default 4194304)");

static const char * __init
htw_main_print_geometry(const struct htw_geometry *geo, char *buf, size_t size)
{
	int len = 0;

	for (unsigned int l = 0; l < geo->levels; l++)
		len += scnprintf(buf + len, size - len, "%s%u", l ? "," : "",
				 geo->slots[l]);
	return buf;
}

static int __init htw_main_check_params(void)
{
	struct htw_geometry geo = { .levels = geometry_levels };
	char buf[HTW_WHEEL_MAX_LEVELS * sizeof("4294967295")];
	const char *error;

	if (!htw_tick_is_valid((u64)tick_us * NSEC_PER_USEC, HTW_TICK_MIN_NS)) {
		pr_err("tick_us=%u: must be from %lu to %lu (10 us to 1 s)\n", tick_us,
		       HTW_TICK_MIN_NS / NSEC_PER_USEC, HTW_TICK_MAX_NS / NSEC_PER_USEC);
		return -EINVAL;
	}
	htw_tick_ns = tick_us * NSEC_PER_USEC;

	for (unsigned int l = 0; l < geometry_levels; l++)
		geo.slots[l] = geometry[l];
	error = htw_geometry_error(&geo);
	if (error) {
		pr_err("geometry=%s: %s\n",
		       htw_main_print_geometry(&geo, buf, sizeof(buf)), error);
		return -EINVAL;
	}
	htw_geometry = geo;
	return 0;
}

static int __init htw_init(void)
{
	int ret;

	ret = htw_main_check_params();
	if (ret)
		return ret;
	ret = htw_bases_init();
	if (ret)
		goto err_params;
	ret = htw_callouts_init();
	if (ret)
		goto err_bases;
	ret = htw_users_init();
	if (ret)
		goto err_callouts;
	ret = htw_contexts_init();
	if (ret)
		goto err_users;
	htw_debugfs_init();
	ret = htw_chardev_init();
	if (ret)
		goto err_debugfs;
	return 0;

err_debugfs:
	htw_debugfs_exit();
	htw_contexts_exit();
err_users:
	htw_users_exit();
err_callouts:
	/* Callouts of other built-in drivers may be pending, and do not need /dev/htw. */
	if (!__is_defined(MODULE))
		goto err_params;
	htw_callouts_exit();
err_bases:
	htw_bases_exit();
err_params:
	pr_err("cannot start: error %d\n", ret);
	return ret;
}

static void __exit htw_exit(void)
{
	htw_chardev_exit();
	htw_vector_exit();
	htw_debugfs_exit();
	htw_contexts_exit();
	htw_callouts_exit();
	htw_bases_exit();
	htw_users_exit();
}

module_init(htw_init);
module_exit(htw_exit);

MODULE_DESCRIPTION("Hierarchical timing wheels for user space");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
MODULE_VERSION(HTW_VERSION);
