// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lateness of callouts: a few periodic ones, each restarted by its own function
 *
 * They are started on the CPU that loads the module and stay there. The results
 * are in /sys/module/htw_pulse/parameters; writing late_max_ns resets them. An
 * overdue callout counts with its lateness so far.
 *
 * On the same CPU an hrtimer expires in hardirq about every half a millisecond. Its
 * lateness is the time for which interrupts were off. If it has interrupted a task that keeps
 * softirqs waiting, a tasklet measures how much longer they wait.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/htw.h>
#include <linux/interrupt.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>

#include "compat.h"

#define PULSES		5u
#define AFTER_TICK_NS	(10 * NSEC_PER_USEC)
#define PERIOD_US_MIN	2000u
#define PERIOD_US_MAX	1000000u
/* Shares no divisor with a tick, to look at all parts of it. */
#define PROBE_NS	(487 * NSEC_PER_USEC)

static unsigned int period_us = 10000;
module_param(period_us, uint, 0444);
MODULE_PARM_DESC(period_us, "Period of each callout in us, 2000 to 1000000 (default 10000)");

/**
 * struct pulse - a periodic callout
 * @callout: the callout
 * @due: next deadline, in ns of CLOCK_MONOTONIC (pulse_lock)
 */
struct pulse {
	struct htw_callout callout;
	u64 due;
};

static struct pulse pulses[PULSES];
static DEFINE_SPINLOCK(pulse_lock);	/* guards all that follows, and @due */
static u64 late_max_ns;
static u64 fired;
static u64 early;
static bool stopping;

/**
 * struct pulse_probe - how long interrupts and softirqs had to wait on a CPU
 * @hrtimer: expires in hardirq each PROBE_NS
 * @tasklet: runs when softirqs do
 * @asked: when @hrtimer has scheduled @tasklet; only one of them runs at a time
 * @irqs_max: longest wait of @hrtimer, in ns; written in hardirq
 * @softirqs_max: longest wait of @tasklet, in ns; written in softirq
 *
 * All is used on one CPU only, except that a reset may come from another and get lost.
 */
struct pulse_probe {
	struct hrtimer hrtimer;
	struct tasklet_struct tasklet;
	u64 asked;
	u64 irqs_max;
	u64 softirqs_max;
};

static struct pulse_probe probe;

static void pulse_softirq(struct tasklet_struct *tasklet)
{
	const u64 waited = ktime_get_ns() - probe.asked;

	if (waited > READ_ONCE(probe.softirqs_max))
		WRITE_ONCE(probe.softirqs_max, waited);
}

static enum hrtimer_restart pulse_interrupt(struct hrtimer *hrtimer)
{
	const u64 now = ktime_get_ns();
	const u64 late = now - ktime_to_ns(hrtimer_get_expires(hrtimer));

	if (late > READ_ONCE(probe.irqs_max))
		WRITE_ONCE(probe.irqs_max, late);
	/* Not while a softirq runs, nor with PREEMPT_RT, where softirqs are preempted. */
	if (!IS_ENABLED(CONFIG_PREEMPT_RT) && softirq_count() && !in_serving_softirq() &&
	    !test_bit(TASKLET_STATE_SCHED, &probe.tasklet.state)) {
		probe.asked = now;
		tasklet_schedule(&probe.tasklet);
	}
	hrtimer_forward_now(hrtimer, ns_to_ktime(PROBE_NS));
	return HRTIMER_RESTART;
}

static int pulse_probe_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(*(u64 *)kp->arg));
}

static const struct kernel_param_ops pulse_probe_ops = { .get = pulse_probe_get };

module_param_cb(irqs_off_max_ns, &pulse_probe_ops, &probe.irqs_max, 0444);
MODULE_PARM_DESC(irqs_off_max_ns, "Longest time that interrupts had to wait since then");
module_param_cb(softirqs_off_max_ns, &pulse_probe_ops, &probe.softirqs_max, 0444);
MODULE_PARM_DESC(softirqs_off_max_ns, "Longest time that a task kept softirqs waiting since then");

static void pulse_expired(struct htw_callout *callout)
{
	struct pulse *p = container_of(callout, struct pulse, callout);
	const u64 period = (u64)period_us * NSEC_PER_USEC;
	const u64 now = ktime_get_ns();

	spin_lock(&pulse_lock);
	if (now < p->due)
		early++;
	else
		late_max_ns = max(late_max_ns, now - p->due);
	fired++;
	/* In phase: a late callout does not delay the next one. */
	while (p->due <= now)
		p->due += period;
	if (!stopping)
		htw_callout_start_at(&p->callout, p->due, 0);
	spin_unlock(&pulse_lock);
}

static void pulse_start(struct pulse *p, u64 due)
{
	p->due = due;
	htw_callout_init(&p->callout, pulse_expired);
	htw_callout_start_at(&p->callout, p->due, 0);
}

static void pulse_stop(struct pulse *p)
{
	htw_callout_cancel_sync(&p->callout);
}

static int pulse_count_get(char *buf, const struct kernel_param *kp)
{
	const u64 *count = kp->arg;
	u64 value;

	spin_lock_bh(&pulse_lock);
	value = *count;
	spin_unlock_bh(&pulse_lock);
	return sysfs_emit(buf, "%llu\n", value);
}

static const struct kernel_param_ops pulse_count_ops = { .get = pulse_count_get };

static int pulse_late_get(char *buf, const struct kernel_param *kp)
{
	u64 now, late;

	spin_lock_bh(&pulse_lock);
	late = late_max_ns;
	now = ktime_get_ns();
	for (unsigned int i = 0; i < PULSES; i++) {
		if (now > pulses[i].due)
			late = max(late, now - pulses[i].due);
	}
	spin_unlock_bh(&pulse_lock);
	return sysfs_emit(buf, "%llu\n", late);
}

static int pulse_late_set(const char *val, const struct kernel_param *kp)
{
	u64 zero;
	int ret = kstrtoull(val, 0, &zero);

	if (ret)
		return ret;
	if (zero)
		return -EINVAL;
	spin_lock_bh(&pulse_lock);
	late_max_ns = 0;
	fired = 0;
	early = 0;
	spin_unlock_bh(&pulse_lock);
	WRITE_ONCE(probe.irqs_max, 0);
	WRITE_ONCE(probe.softirqs_max, 0);
	return 0;
}

static const struct kernel_param_ops pulse_late_ops = {
	.set = pulse_late_set,
	.get = pulse_late_get,
};

module_param_cb(fired, &pulse_count_ops, &fired, 0444);
MODULE_PARM_DESC(fired, "Expirations since late_max_ns was set to 0");
module_param_cb(early, &pulse_count_ops, &early, 0444);
MODULE_PARM_DESC(early, "Early expirations since then, of which there should be none");
module_param_cb(late_max_ns, &pulse_late_ops, NULL, 0644);
MODULE_PARM_DESC(late_max_ns, "Largest lateness since then; set it to 0 to start again");

static int __init pulse_init(void)
{
	const u64 period = (u64)period_us * NSEC_PER_USEC;
	u64 first;

	if (period_us < PERIOD_US_MIN || period_us > PERIOD_US_MAX) {
		pr_err("period_us=%u: must be from %u to %u\n", period_us, PERIOD_US_MIN,
		       PERIOD_US_MAX);
		return -EINVAL;
	}
	/* All on this CPU, spread over the period, due just after a tick of 1 ms. */
	local_bh_disable();
	first = ktime_get_ns() + period;
	first = (div_u64(first, NSEC_PER_MSEC) + 1) * NSEC_PER_MSEC + AFTER_TICK_NS;
	for (unsigned int i = 0; i < PULSES; i++)
		pulse_start(&pulses[i], first + i * div_u64(period, PULSES));
	tasklet_setup(&probe.tasklet, pulse_softirq);
	hrtimer_setup(&probe.hrtimer, pulse_interrupt, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	hrtimer_start(&probe.hrtimer, ns_to_ktime(first), HRTIMER_MODE_ABS_PINNED_HARD);
	local_bh_enable();
	return 0;
}

static void __exit pulse_exit(void)
{
	hrtimer_cancel(&probe.hrtimer);
	tasklet_kill(&probe.tasklet);
	spin_lock_bh(&pulse_lock);
	stopping = true;
	spin_unlock_bh(&pulse_lock);
	for (unsigned int i = 0; i < PULSES; i++)
		pulse_stop(&pulses[i]);
}

module_init(pulse_init);
module_exit(pulse_exit);

MODULE_DESCRIPTION("Measures the lateness of htw's callouts");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
