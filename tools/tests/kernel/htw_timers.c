// SPDX-License-Identifier: GPL-2.0-only
/*
 * Callouts and timer_list on kernels without KUnit: the cases of kunit/timer_cases.h
 *
 * They run when /sys/kernel/debug/htw_timers is read, which is TAP then.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "kunit/timer_cases.h"

static struct dentry *file;

/* A static callout, which needs no call to be initialised. */
static void static_called(struct htw_callout *callout);
static DEFINE_HTW_CALLOUT(static_callout, static_called);
static DECLARE_COMPLETION(static_done);

static void static_called(struct htw_callout *callout)
{
	complete(&static_done);
}

static const char *static_callout_comes(void)
{
	bool came;

	htw_callout_start(&static_callout, MS, 0);
	came = wait_for_completion_timeout(&static_done, nsecs_to_jiffies(GIVE_UP_NS));
	if (htw_callout_cancel_sync(&static_callout))
		return "it was pending";
	return came ? NULL : "it did not come";
}

static const char *callout_on_the_stack_comes(void)
{
	struct htw_callout callout;
	bool came;

	reinit_completion(&static_done);
	htw_callout_init_on_stack(&callout, static_called);
	htw_callout_start(&callout, MS, 0);
	came = wait_for_completion_timeout(&static_done, nsecs_to_jiffies(GIVE_UP_NS));
	htw_callout_cancel_sync(&callout);
	htw_callout_destroy_on_stack(&callout);
	return came ? NULL : "it did not come";
}

static void report(struct seq_file *m, int number, const char *kind, const char *name,
		   const char *wrong)
{
	seq_printf(m, "%sok %d %s: %s\n", wrong ? "not " : "", number, kind, name);
	if (wrong)
		seq_printf(m, "# %s\n", wrong);
}

static void run_case(struct seq_file *m, int number, const struct timer_case *c,
		     const struct timer_kind *kind)
{
	const char *skip = timer_case_skip(c, kind);

	if (skip) {
		seq_printf(m, "ok %d %s: %s # SKIP %s\n", number, kind->name, c->name, skip);
		return;
	}
	pr_info("%s: %s\n", kind->name, c->name);
	report(m, number, kind->name, c->name, timer_case_run(c, kind));
}

static int htw_timers_show(struct seq_file *m, void *unused)
{
	int number = 0;

	seq_printf(m, "TAP version 13\n1..%zu\n",
		   ARRAY_SIZE(timer_kinds) * ARRAY_SIZE(timer_cases) + 2);
	for (u32 k = 0; k < ARRAY_SIZE(timer_kinds); k++) {
		for (u32 i = 0; i < ARRAY_SIZE(timer_cases); i++)
			run_case(m, ++number, &timer_cases[i], &timer_kinds[k]);
	}
	report(m, ++number, "callout", "static", static_callout_comes());
	report(m, ++number, "callout", "on_the_stack", callout_on_the_stack_comes());
	return 0;
}

static int htw_timers_open(struct inode *inode, struct file *opened)
{
	/* One call shall do: a second one, with a larger buffer, would run all again. */
	return single_open_size(opened, htw_timers_show, NULL, 16 * PAGE_SIZE);
}

static const struct file_operations htw_timers_fops = {
	.owner = THIS_MODULE,
	.open = htw_timers_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init htw_timers_init(void)
{
	file = debugfs_create_file("htw_timers", 0400, NULL, NULL, &htw_timers_fops);
	return PTR_ERR_OR_ZERO(file);
}

static void __exit htw_timers_exit(void)
{
	debugfs_remove(file);
}

module_init(htw_timers_init);
module_exit(htw_timers_exit);

MODULE_DESCRIPTION("Test of callouts beside timer_list");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
