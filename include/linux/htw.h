/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * htw for other kernel modules: functions to be called later
 *
 * A callout is started for a point in time and then calls its function, in
 * softirq, at the first tick that is not before it: never early, at most a
 * tick late. Starting, moving and cancelling are O(1), and cannot fail.
 */
#ifndef _LINUX_HTW_H
#define _LINUX_HTW_H

#include <linux/list.h>
#include <linux/types.h>

/**
 * struct htw_node - a timer, as a wheel sees it; nobody else looks inside
 * @list: the wheel's while the node is in one; else its owner's, to queue it
 * @expires: the tick the node expires at, while it is in a wheel
 * @fired: the owner's, once the node has left the wheel
 * @slack: the owner's
 * @cpu: the owner's: whose wheel it was last in
 * @state: the owner's
 * @flags: the owner's
 * @place: @cpu, @state and @flags in one
 *
 * All fields are guarded by the lock that serialises the wheel, or by what
 * the owner says once the node has left it.
 */
struct htw_node {
	struct list_head list;
	union {
		u64 expires;
		u64 fired;
	};
	u32 slack;
	union {
		struct {
			u16 cpu;
			u8 state;
			u8 flags;
		};
		u32 place;
	};
};

/**
 * struct htw_callout - a function to be called later
 * @node: htw's
 * @function: what to call; set by htw_callout_init(), then left alone
 *
 * Usually part of a larger structure, which @function finds by container_of().
 * It must stay until the callout is neither pending nor running: see
 * htw_callout_cancel_sync().
 */
struct htw_callout {
	struct htw_node node;
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
