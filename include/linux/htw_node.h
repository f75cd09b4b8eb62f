/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A node of a timing wheel
 */
#ifndef _LINUX_HTW_NODE_H
#define _LINUX_HTW_NODE_H

#include <linux/types.h>

/**
 * struct htw_node - a timer in a wheel, as its owner embeds it
 * @list: in a list of the wheel; @list.next is NULL if the node is in none, by
 *	which the wheel knows it. Not for other lists
 * @expires: the tick at which the node expires, while it is in a wheel; left as
 *	it is when the node expires or is stopped, and then for the owner's use
 *
 * What serializes the calls on the wheel guards both while the node is in it.
 * It must not be moved or copied then, as lists lead to it.
 */
struct htw_node {
	struct list_head list;
	u64 expires;
};

#endif /* _LINUX_HTW_NODE_H */
