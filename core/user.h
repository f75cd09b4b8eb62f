/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: limits and CPU shares that all contexts of a user have in common
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/atomic.h>
#include <linux/kcov.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "bases.h"
#include "sigio.h"

struct user_namespace;

/**
 * struct htw_user_ops - what a user's bases and work items do; the same for all users
 * @serve: serves the bases
 * @cancel_on_set: &htw_user.clock_work
 * @free_contexts: &htw_user.free_work
 */
struct htw_user_ops {
	htw_serve_t *serve;
	work_func_t cancel_on_set;
	work_func_t free_contexts;
};

/**
 * struct htw_user - user to whom contexts are charged
 * @node: in the hash of users (htw_users_lock; read under RCU)
 * @unused: on the list of users without contexts (htw_users_lock)
 * @uid: the uid, or the owner of @ns, in the initial user namespace; never
 *	changes
 * @ns: the outermost user namespace below the initial one if root owns that,
 *	else NULL; never changes
 * @contexts: number of contexts; with the last one, its bases go
 *	(htw_users_lock)
 * @timers: timers for which there is memory in all contexts
 * @partial: a page of timers is charged for less than it holds
 * @entries: entries of all contexts' directories, but small ones
 * @wheels: private wheels of all contexts
 * @closing: closed contexts that still hold memory
 * @freed: number of contexts that have been freed since
 * @wait: the task that waits for @freed, which holds @wait_mutex
 * @wait_mutex: makes others queue, so that a wake-up is for one task
 * @bases: its wheels, and its flows on each CPU
 * @ops: never changes
 * @sigio: sends SIGIO
 * @listeners_mutex: guards @listeners
 * @listeners: contexts that may have timers with %HTW_TIMER_CANCEL_ON_SET
 * @clock_work: walks their timers after CLOCK_REALTIME was set
 * @closed: closed contexts, to be stopped or freed
 * @free_work: does that
 * @kcov_handle: to which the coverage of work items is reported, with
 *	CONFIG_KCOV: that of the task which made the user; never changes
 * @rcu: frees it
 *
 * Work is queued for each user and not for each context: whatever number of
 * contexts a user has, the work of others waits for no more than one item of
 * each kind.
 */
struct htw_user {
	struct hlist_node node;
	struct list_head unused;
	kuid_t uid;
	struct user_namespace *ns;
	u32 contexts;
	atomic_t timers;
	atomic_t partial;
	atomic_t entries;
	atomic_t wheels;
	atomic_t closing;
	atomic_t freed;
	wait_queue_head_t wait;
	struct mutex wait_mutex;	/* innermost: nothing is locked inside it */
	struct htw_bases bases;
	const struct htw_user_ops *ops;
	struct htw_sigio_sender sigio;
	struct mutex listeners_mutex;	/* order: this, then a base's lock */
	struct list_head listeners;
	struct work_struct clock_work;
	struct llist_head closed;
	struct work_struct free_work;

	typeof(kcov_common_handle()) kcov_handle;
	struct rcu_head rcu;
};

/* For the work of users and contexts. */
extern struct workqueue_struct *htw_wq;

extern unsigned int htw_max_user_timers;

int htw_users_init(void);
void htw_users_exit(void);
struct htw_user *htw_user_get(const struct htw_user_ops *ops);
void htw_user_put(struct htw_user *user);
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data),
			void *data);

/* Is nothing of this user counted or limited? */
static inline bool htw_user_is_unlimited(const struct htw_user *user)
{
	return user->bases.class != HTW_CLASS_OTHERS;
}

u32 htw_user_charge(struct htw_user *user, u32 least, u32 most);
void htw_user_uncharge(struct htw_user *user, u32 count);
bool htw_user_charge_directory(struct htw_user *user, u32 entries, u32 limit);
void htw_user_uncharge_directory(struct htw_user *user, u32 entries);
bool htw_user_charge_wheel(struct htw_user *user);
void htw_user_uncharge_wheel(struct htw_user *user);
void htw_user_throttled(struct htw_user *user, u64 *times, u64 *ns);

/**
 * struct htw_user_wait - how long a call waits for closed contexts of a user, in all
 * @until: when to give up, in jiffies
 * @user: the user
 * @freed: &htw_user.freed before the last try
 */
struct htw_user_wait {
	unsigned long until;
	struct htw_user *user;
	int freed;
};

/* A multiple of what freeing closed contexts takes. */
#define HTW_USER_WAIT		{ .until = jiffies + 10 * HZ }

void htw_user_closing_begin(struct htw_user *user);
void htw_user_closing_end(struct htw_user *user);
void htw_user_wait_begin(struct htw_user_wait *wait, struct htw_user *user);
bool htw_user_wait_again(struct htw_user_wait *wait);
bool htw_user_wait_for_closing(struct htw_user *user);

#endif /* _HTW_USER_H */
