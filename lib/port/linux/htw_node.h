/* SPDX-License-Identifier: MIT */
/*
 * A timer in a wheel, as a program has it: behind the list and the tick it has a name, where the
 * kernel module keeps the timer's CPU and state
 */
#ifndef LIBHTW_PORT_HTW_NODE_H
#define LIBHTW_PORT_HTW_NODE_H

#include <linux/types.h>

/**
 * struct htw_node - a timer in a wheel
 * @list: the wheel's while the node is in it, else free for the caller
 * @expires: the tick at which the node expires, while it is in a wheel
 * @fired: for the caller, after the node has left the wheel
 * @name: for the caller
 */
struct htw_node {
	struct list_head list;
	union {
		u64 expires;
		u64 fired;
	};
	u64 name;
};

#endif /* LIBHTW_PORT_HTW_NODE_H */
