/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: limits and alarms that all contexts of a user have in common
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/uidgid.h>

#include "alarm.h"

struct user_namespace;

/* Contexts whose wake-ups are short, and those whose last one was long. */
#define HTW_LANES		2

/**
 * struct htw_user - user to whom contexts are charged
 * @node: in the hash of users (htw_users_lock)
 * @uid: the uid, or the owner of @ns, in the initial user namespace; never
 *	changes
 * @ns: the outermost user namespace below the initial one if root owns that,
 *	else NULL; never changes
 * @privileged: opened with CAP_SYS_RESOURCE; never changes
 * @contexts: number of contexts (htw_users_lock)
 * @timers: slots for which there is memory in all contexts
 * @alarms: on each CPU one for each clock
 * @lane: in &htw_lane.users, if @waiting is not empty (htw_lanes_lock)
 * @waiting: contexts to be woken, by lane (htw_lanes_lock)
 * @rest: until then no context is woken whose wake-ups are long, by
 *	local_clock()
 */
struct htw_user {
	struct hlist_node node;
	kuid_t uid;
	struct user_namespace *ns;
	bool privileged;
	u32 contexts;
	atomic_t timers;
	struct htw_alarms __percpu *alarms;
	struct list_head lane[HTW_LANES];
	struct list_head waiting[HTW_LANES];
	u64 rest;
};

struct htw_alarms {
	struct htw_alarm on[HTW_CLOCKS];
};

extern unsigned int htw_max_user_timers;

struct htw_user *htw_user_get(void);
void htw_user_put(struct htw_user *user);
bool htw_user_charge(struct htw_user *user, u32 slots);
void htw_user_uncharge(struct htw_user *user, u32 slots);

#endif /* _HTW_USER_H */
