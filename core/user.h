/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: limits and alarms that all contexts of a user have in common
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/atomic.h>
#include <linux/kcov.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "alarm.h"

/**
 * struct htw_user - user to whom contexts are charged
 * @node: in the hash of users (htw_users_lock)
 * @uid: the uid, or the owner of @ns, in the initial user namespace; never
 *	changes
 * @ns: the outermost user namespace below the initial one if root owns that,
 *	else NULL; never changes
 * @privileged: opened with CAP_SYS_RESOURCE; never changes
 * @contexts: number of contexts (htw_users_lock)
 * @skew: random bits, by which timers with slack of different users differ;
 *	never changes
 * @timers: slots for which there is memory in all contexts
 * @refused: how often memory was refused at the limit
 * @alarms: on each CPU one for each clock
 * @work: wake tasks for the bases that are %HTW_SHORT, and %HTW_LONG
 * @turn: the alarm with which they go on: of %HTW_CLOCKS for each CPU
 * @rest: until then no poll queue is woken directly, nor one whose wake-ups
 *	take long, by local_clock()
 * @longest: the longest of its recent wake-ups that took long, in ns
 * @forget: when those are not recent any more, by local_clock()
 * @end: frees the user, when it has had no context until @forget
 * @kcov_handle: to which the coverage of alarms and wake-ups is reported, with
 *	CONFIG_KCOV: of the program that opened the first context
 */
struct htw_user {
	struct hlist_node node;
	kuid_t uid;
	struct user_namespace *ns;
	bool privileged;
	u32 contexts;
	u64 skew;
	atomic64_t timers;
	atomic_t refused;
	struct htw_alarms __percpu *alarms;
	struct delayed_work work[HTW_WORKS];
	u32 turn[HTW_WORKS];
	u64 rest;
	u64 longest;
	u64 forget;
	struct delayed_work end;

	typeof(kcov_common_handle()) kcov_handle;
};

extern unsigned int htw_max_user_timers;
extern atomic_t htw_users_refused;

/**
 * struct htw_user_calls - what users have done that is not their affair
 * @ring: the function of their alarms
 * @work: those of their work items
 */
struct htw_user_calls {
	enum hrtimer_restart (*ring)(struct hrtimer *timer);
	work_func_t work[HTW_WORKS];
};

int htw_users_init(const struct htw_user_calls *calls);
void htw_users_exit(void);
void htw_user_queue_work(struct htw_user *user, unsigned int work);
u32 htw_user_uid(const struct htw_user *user);
struct htw_user *htw_user_get(void);
void htw_user_put(struct htw_user *user);
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data), void *data);
bool htw_user_charge(struct htw_user *user, u32 slots);
void htw_user_uncharge(struct htw_user *user, u32 slots);
u64 htw_user_limit(const struct htw_user *user);
void htw_user_refuse(struct htw_user *user);

#endif /* _HTW_USER_H */
