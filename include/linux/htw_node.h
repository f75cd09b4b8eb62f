/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An entry of htw's timing wheels
 */
#ifndef _LINUX_HTW_NODE_H
#define _LINUX_HTW_NODE_H

#include <linux/types.h>

/**
 * struct htw_node - an entry of a wheel; private to htw
 * @list: in a bucket of the wheel; else for the owner's use
 * @expires: tick at which the node expires, while it is in a wheel
 * @fired: for the owner's use while the node is in no wheel
 * @idle_interval: the same
 * @slack: for the owner's use
 * @missed: in place of @slack, for the owner's use
 * @cpu: for the owner's use: CPU of the base that the node was last on
 * @state: for the owner's use
 * @flags: for the owner's use
 * @key: @cpu, @state and @flags, to be read at once
 *
 * The wheel's lock guards all fields while the node is in it; then the owner decides.
 */
struct htw_node {
	struct list_head list;
	union {
		u64 expires;
		u64 fired;
		u64 idle_interval;
	};
	union {
		u32 slack;
		u32 missed;
	};
	union {
		struct {
			u16 cpu;
			u8 state;
			u8 flags;
		};
		u32 key;
	};
};

#endif /* _LINUX_HTW_NODE_H */
