// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sample user of callouts: a session table with idle timeouts
 *
 * Each session has a callout as its deadline. Traffic moves the deadline; a session without
 * traffic is closed. Here one session in four has traffic once, when its
 * neighbour times out. The counts are in /sys/module/htw_sample/parameters.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/htw.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>

static unsigned int sessions = 1000;
module_param(sessions, uint, 0444);
MODULE_PARM_DESC(sessions, "Number of sessions (default 1000)");

static unsigned int timeout_ms = 100;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "Idle timeout of a session in ms (default 100)");

static int count_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read(kp->arg));
}

static const struct kernel_param_ops count_ops = { .get = count_get };

static atomic_t closed = ATOMIC_INIT(0);
module_param_cb(closed, &count_ops, &closed, 0444);
MODULE_PARM_DESC(closed, "Sessions that timed out");

static atomic_t moved = ATOMIC_INIT(0);
module_param_cb(moved, &count_ops, &moved, 0444);
MODULE_PARM_DESC(moved, "Sessions whose deadline was moved by traffic");

static atomic_t early = ATOMIC_INIT(0);
module_param_cb(early, &count_ops, &early, 0444);
MODULE_PARM_DESC(early, "Sessions that timed out early; always 0");

/**
 * struct session - a session with an idle timeout
 * @deadline: closes the session
 * @due: deadline in ns of CLOCK_MONOTONIC; written before the callout is started
 */
struct session {
	struct htw_callout deadline;
	u64 due;
};

static struct session *table;

static void session_touch(struct session *s)
{
	s->due = ktime_get_ns() + (u64)timeout_ms * NSEC_PER_MSEC;
	htw_callout_start_at(&s->deadline, s->due, 0);
}

/* Called in softirq, with no lock held. */
static void session_expired(struct htw_callout *callout)
{
	struct session *s = container_of(callout, struct session, deadline);
	const unsigned int i = s - table;

	if (ktime_get_ns() < s->due)
		atomic_inc(&early);
	atomic_inc(&closed);
	/* Traffic for the neighbour, unless that has timed out, too. */
	if (i % 4 == 0 && i + 1 < sessions && htw_callout_cancel(&s[1].deadline)) {
		session_touch(&s[1]);
		atomic_inc(&moved);
	}
}

static int __init htw_sample_init(void)
{
	table = vcalloc(sessions, sizeof(*table));
	if (!table)
		return -ENOMEM;
	for (unsigned int i = 0; i < sessions; i++)
		htw_callout_init(&table[i].deadline, session_expired);
	for (unsigned int i = 0; i < sessions; i++)
		session_touch(&table[i]);
	pr_info("%u sessions, each closed after %u ms without traffic\n", sessions, timeout_ms);
	return 0;
}

static void __exit htw_sample_exit(void)
{
	/* The function of a session may still try to start the next one. */
	for (unsigned int i = 0; i < sessions; i++)
		htw_callout_shutdown_sync(&table[i].deadline);
	vfree(table);
}

module_init(htw_sample_init);
module_exit(htw_sample_exit);

MODULE_DESCRIPTION("Sample user of htw's callouts");
MODULE_AUTHOR("The htw developers");
MODULE_LICENSE("GPL");
