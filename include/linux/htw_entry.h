/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An entry of the module's wheels
 */
#ifndef _LINUX_HTW_ENTRY_H
#define _LINUX_HTW_ENTRY_H

#include <linux/build_bug.h>
#include <linux/htw_node.h>
#include <linux/types.h>

/**
 * struct htw_entry - a node of a wheel, and what a base knows of it; private to htw
 * @node: the wheel's part
 * @list: that of @node
 * @expires: the tick of @node, while it is in a wheel
 * @fired: for the owner's use while the entry is in no wheel
 * @idle_interval: the same
 * @slack: for the owner's use
 * @missed: in place of @slack, for the owner's use
 * @cpu: CPU of the base that the entry was last on
 * @state: for the owner's use
 * @flags: for the owner's use
 * @key: @cpu, @state and @flags, to be read at once
 *
 * The lock of the base guards all fields while the entry is in its wheel; then the owner
 * decides.
 */
struct htw_entry {
	union {
		struct htw_node node;
		struct {
			struct list_head list;
			union {
				u64 expires;
				u64 fired;
				u64 idle_interval;
			};
		};
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

static_assert(sizeof(struct htw_entry) == sizeof(struct htw_node) + 2 * sizeof(u32));
static_assert(offsetof(struct htw_entry, list) == offsetof(struct htw_node, list));
static_assert(offsetof(struct htw_entry, expires) == offsetof(struct htw_node, expires));

#endif /* _LINUX_HTW_ENTRY_H */
