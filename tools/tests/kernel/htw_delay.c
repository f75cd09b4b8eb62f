// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random delays in htw's functions, for tests of races
 *
 * On an emulated machine two CPUs seldom meet in a window of a few instructions. A kprobe at a
 * function's entry, or at its return, now and then waits there, so that other CPUs, interrupts
 * and (where the function may be preempted) tasks get ahead of what the function is about to do.
 *
 *	insmod htw_delay.ko [functions=NAME,NAME%return,...] [one_in=N] [max_us=N] [seed=N]
 *
 * A NAME is one of htw's functions. That of a function of the kernel is followed by a colon: its
 * callers outside of htw are not delayed. A function that the compiler inlined, or that may not
 * be traced, cannot have a probe: this is logged, and listed in debugfs with the counts of calls
 * and delays of each function.
 *
 * Only probes that ftrace serves are used. All others are breakpoints in code that other CPUs
 * run, and QEMU's emulation of several CPUs does not always survive these (docs/testing.md). Load
 * and unload this module while htw is idle: the functions are patched then.
 *
 * A delay is a busy loop with preemption disabled, as a probe may not sleep: it is as legal in an
 * interrupt, under a raw spinlock and on PREEMPT_RT as in a task.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

/* Longest delay. */
#define MAX_US		200u
/* Calls of a function that may wait for their return at a time; those beyond are not delayed. */
#define MAX_ACTIVE	64

/*
 * Functions that the compiler cannot inline, because other files call them or they are called
 * by pointer: where wake-ups are passed on, timers change hands, and things end.
 */
static const char *const default_functions[] = {
	/* alarms and waking */
	"htw_alarm_time", "htw_alarm_leave", "htw_alarm_close", "htw_ring",
	"htw_wait_wake_direct", "htw_wait_wake_direct%return", "htw_wait_wake_left",
	"htw_wait_wake_all", "htw_ring_work_short", "htw_ring_work_long",
	/* bases */
	"htw_bases_free", "htw_base_add_levels", "htw_base_publish", "htw_base_publish%return",
	"htw_ring_settle", "htw_ring_unlock_slow", "htw_base_remove_levels", "htw_bases_make",
	/* collecting */
	"htw_collect_read", "htw_collect_poll", "htw_collect_pass_on",
	"htw_wheel_collect_due%return",
	/* operations */
	"htw_call_lock_timer", "htw_call_lock_timer%return", "htw_call_choose_tick",
	"htw_pages_take%return", "htw_page_empty", "__htw_pages_shrink",
	/* close, users, callouts */
	"htw_chardev_release", "htw_context_unpin", "htw_user_get", "htw_user_put",
	"htw_callouts_expire", "htw_callout_start_at", "htw_callout_cancel_sync",
};

static char *functions;

/* The list may be longer than 1,024 characters, the most that a charp takes. */
static int functions_set(const char *value, const struct kernel_param *kp)
{
	char *copy = kstrdup(value, GFP_KERNEL);

	if (!copy)
		return -ENOMEM;
	*(char **)kp->arg = copy;
	return 0;
}

static const struct kernel_param_ops functions_ops = { .set = functions_set };
module_param_cb(functions, &functions_ops, &functions, 0);
MODULE_PARM_DESC(functions, "Functions to delay, separated by commas; NAME%return at the return; NAME: of the kernel if htw calls it");

static unsigned int one_in = 16;
module_param(one_in, uint, 0444);
MODULE_PARM_DESC(one_in, "Delay one call of a function in so many, at random (default 16)");

static unsigned int max_us = 100;
module_param(max_us, uint, 0444);
MODULE_PARM_DESC(max_us, "Longest delay in us, at most 200 (default 100)");

static unsigned long seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the random numbers (default 1)");

static int delays_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%lld\n", (long long)atomic64_read(kp->arg));
}

static const struct kernel_param_ops delays_ops = { .get = delays_get };
static atomic64_t delays = ATOMIC64_INIT(0);
module_param_cb(delays, &delays_ops, &delays, 0444);
MODULE_PARM_DESC(delays, "Calls that were delayed");

/**
 * struct delay_point - a function's entry or return
 * @name: as in the list of functions
 * @symbol: the function; with "htw:" before it if it is htw's
 * @if_called_by_htw: the function is the kernel's
 * @at_return: @ret is used, otherwise @entry
 * @entry: probe at the entry
 * @ret: probe at the return
 * @error: why there is no probe, or 0
 * @calls: calls that the probe has seen
 * @delays: calls that were delayed
 */
struct delay_point {
	const char *name;
	char *symbol;
	bool if_called_by_htw;
	bool at_return;
	struct kprobe entry;
	struct kretprobe ret;
	int error;
	atomic64_t calls;
	atomic64_t delays;
};

static struct delay_point *points;
static unsigned int nr_points;
static struct dentry *debugfs;
static DEFINE_PER_CPU(u64, random_state);

/* xorshift64, of this CPU; an interrupt may come with a probe of its own. */
static u64 delay_random(void)
{
	unsigned long flags;
	u64 *state, x;

	local_irq_save(flags);
	state = this_cpu_ptr(&random_state);
	x = *state;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	local_irq_restore(flags);
	return x;
}

static bool is_in_htw(unsigned long address)
{
	char symbol[KSYM_SYMBOL_LEN];

	sprint_symbol_no_offset(symbol, address);
	return strstr(symbol, "[htw]");
}

/* Perhaps wait. In any context; the probe has disabled preemption. */
static void delay_point_hit(struct delay_point *p, struct pt_regs *regs)
{
	u64 random, calls;

	/* At the entry, the return address is on top of the stack. */
	if (p->if_called_by_htw && !is_in_htw(regs_get_kernel_stack_nth(regs, 0)))
		return;

	/* The first calls are delayed more often, for functions that are rarely called. */
	calls = atomic64_inc_return(&p->calls);
	random = delay_random();
	if ((u32)random % min_t(u64, one_in, 1 + calls / 8))
		return;

	udelay(1 + (random >> 32) % max_us);
	atomic64_inc(&p->delays);
	atomic64_inc(&delays);
}

static int delay_at_entry(struct kprobe *kp, struct pt_regs *regs)
{
	delay_point_hit(container_of(kp, struct delay_point, entry), regs);
	return 0;
}

static int delay_at_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	delay_point_hit(container_of(get_kretprobe(ri), struct delay_point, ret), regs);
	return 0;
}

static void delay_point_unregister(struct delay_point *p)
{
	if (p->at_return)
		unregister_kretprobe(&p->ret);
	else
		unregister_kprobe(&p->entry);
}

static int delay_point_register(struct delay_point *p)
{
	struct kprobe *kp = p->at_return ? &p->ret.kp : &p->entry;
	int ret;

	kp->symbol_name = p->symbol;
	if (p->at_return) {
		p->ret.handler = delay_at_return;
		p->ret.maxactive = MAX_ACTIVE;
		ret = register_kretprobe(&p->ret);
	} else {
		p->entry.pre_handler = delay_at_entry;
		ret = register_kprobe(&p->entry);
	}
	if (ret)
		return ret;
	if (kprobe_ftrace(kp))
		return 0;

	/* A breakpoint: the function is notrace. */
	delay_point_unregister(p);
	return -EOPNOTSUPP;
}

/* Put a probe on the function called @name, which stays; report failure. */
static int delay_point_init(struct delay_point *p, const char *name)
{
	size_t length = strcspn(name, "%:");
	const char *rest = name + length;

	p->name = name;
	p->at_return = !strcmp(rest, "%return");
	p->if_called_by_htw = !strcmp(rest, ":");
	if (!length || (*rest && !p->at_return && !p->if_called_by_htw)) {
		pr_err("not a function's name: '%s'\n", name);
		return -EINVAL;
	}
	p->symbol = kasprintf(GFP_KERNEL, "%s%.*s", p->if_called_by_htw ? "" : "htw:",
			      (int)length, name);
	if (!p->symbol)
		return -ENOMEM;

	p->error = delay_point_register(p);
	if (p->error)
		pr_notice("no delays in %s, which is %s (%d)\n", name,
			  p->error == -ENOENT ? "inlined, renamed or gone" : "not traceable",
			  p->error);
	return 0;
}

static void delay_points_free(void)
{
	for (unsigned int i = 0; i < nr_points; i++) {
		if (points[i].symbol && !points[i].error)
			delay_point_unregister(&points[i]);
		kfree(points[i].symbol);
	}
	kvfree(points);
	kfree(functions);
}

static int delay_points_init(void)
{
	unsigned int count = ARRAY_SIZE(default_functions);
	char *rest = functions;

	if (functions) {
		count = 1;
		for (const char *c = functions; *c; c++)
			count += *c == ',';
	}
	points = kvcalloc(count, sizeof(*points), GFP_KERNEL);
	if (!points)
		return -ENOMEM;

	while (nr_points < count) {
		const char *next = rest ? strsep(&rest, ",") : default_functions[nr_points];
		int ret = delay_point_init(&points[nr_points++], next);

		if (ret)
			return ret;
	}
	return 0;
}

/* One line for a function: its name, its calls and delays, or why it has no probe. */
static int htw_delay_show(struct seq_file *m, void *unused)
{
	for (unsigned int i = 0; i < nr_points; i++) {
		struct delay_point *p = &points[i];

		if (p->error)
			seq_printf(m, "%s error %d\n", p->name, p->error);
		else
			seq_printf(m, "%s calls %lld delays %lld\n", p->name,
				   (long long)atomic64_read(&p->calls),
				   (long long)atomic64_read(&p->delays));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_delay);

static int __init htw_delay_init(void)
{
	unsigned int cpu;
	int ret;

	if (!one_in || !max_us || max_us > MAX_US || !seed) {
		pr_err("one_in=%u, max_us=%u, seed=%lu: must be at least 1, and max_us at most %u\n",
		       one_in, max_us, seed, MAX_US);
		ret = -EINVAL;
		goto err_functions;
	}
	for_each_possible_cpu(cpu)
		per_cpu(random_state, cpu) = (cpu + 1) * GOLDEN_RATIO_64 ^ seed;

	ret = delay_points_init();
	if (ret)
		goto err_functions;
	debugfs = debugfs_create_file("htw_delay", 0400, NULL, NULL, &htw_delay_fops);
	return 0;

err_functions:
	delay_points_free();
	return ret;
}

static void __exit htw_delay_exit(void)
{
	debugfs_remove(debugfs);
	delay_points_free();
}

module_init(htw_delay_init);
module_exit(htw_delay_exit);

MODULE_DESCRIPTION("Random delays in htw's functions");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
