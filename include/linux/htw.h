/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callouts: htw's timers for other kernel modules
 *
 * The function of a callout is called in softirq at the first tick that is not before its
 * deadline: never early, and at most a tick late. Starting, moving and cancelling are
 * O(1) and cannot fail.
 */
#ifndef _LINUX_HTW_H
#define _LINUX_HTW_H

#include <linux/htw_entry.h>
#include <linux/types.h>

/**
 * struct htw_callout - a function to be called after a delay
 * @node: private to htw
 * @function: set by htw_callout_init()
 *
 * Usually embedded in a larger structure, which @function finds by container_of(). Before
 * that is freed, the callout must be neither pending nor running: see
 * htw_callout_cancel_sync().
 */
struct htw_callout {
	struct htw_entry node;
	void (*function)(struct htw_callout *callout);
};

void htw_callout_init(struct htw_callout *callout,
		      void (*function)(struct htw_callout *callout));
bool htw_callout_start(struct htw_callout *callout, u64 delay_ns, u64 slack_ns);
bool htw_callout_start_at(struct htw_callout *callout, u64 deadline_ns, u64 slack_ns);
bool htw_callout_cancel(struct htw_callout *callout);
bool htw_callout_cancel_sync(struct htw_callout *callout);
bool htw_callout_pending(const struct htw_callout *callout);

#endif /* _LINUX_HTW_H */
