// SPDX-License-Identifier: GPL-2.0-only
/*
 * Users: limits and CPU shares that all contexts of a user have in common
 *
 * A context is charged to the user who opened it, even after the descriptor was
 * passed on. A user's contexts that were opened with CAP_SYS_RESOURCE belong to
 * a separate struct htw_user, which has no limits and counts nothing.
 *
 * In the initial user namespace a user is a uid. Anybody can create user
 * namespaces with subordinate uids, which would multiply limits and shares. So
 * all uids below the initial namespace count as the owner of the outermost
 * namespace; if that is root, as with container managers, the namespace itself
 * is the user.
 *
 * A user outlives its last context until its token buckets are full: closing
 * and opening again gives no new tokens.
 *
 * All users share one lock, so it is a spinlock that is held for a few
 * instructions: a task that is throttled, or waits for memory, never holds it.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/kcov.h>
#include <linux/minmax.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "user.h"

/*
 * Closed contexts of a user from which on open() waits until one has been
 * freed. Closing only hands them to a work item, and tasks that open and close
 * at once would be ahead of it.
 */
#define HTW_USER_CLOSING_MAX	1024
/* Limit of private wheels of a user. */
#define HTW_USER_WHEELS_MAX	16
/* Entries of a directory that is not counted: it takes no more than the context itself. */
#define HTW_DIRECTORY_SMALL	64u
/* Interval in which to look for users that can be freed: a quarter of what a full bucket takes. */
#define HTW_REAP_DELAY		(HZ / 4)

unsigned int htw_max_user_timers = 4194304;

struct workqueue_struct *htw_wq;

/* Guards the following and the contexts of users. Taken before htw_bases_lock; not in softirq. */
static DEFINE_SPINLOCK(htw_users_lock);
static DEFINE_HASHTABLE(htw_users, 8);		/* by uid */
static LIST_HEAD(htw_unused_users);		/* without contexts */

static void htw_users_reap(struct work_struct *work);
static DECLARE_DELAYED_WORK(htw_users_work, htw_users_reap);

/* Return the outermost user namespace below the initial one; NULL for the initial one. */
static struct user_namespace *htw_user_ns(void)
{
	struct user_namespace *ns = current_user_ns();

	if (ns == &init_user_ns)
		return NULL;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	return ns;
}

/* Find a user and count a context of it. */
static struct htw_user *htw_user_find(kuid_t uid, const struct user_namespace *ns,
				      enum htw_class class)
{
	struct htw_user *user;

	lockdep_assert_held(&htw_users_lock);

	hash_for_each_possible(htw_users, user, node, __kuid_val(uid)) {
		if (!uid_eq(user->uid, uid) || user->ns != ns ||
		    user->bases.class != class)
			continue;
		if (!user->contexts++)
			list_del_init(&user->unused);
		return user;
	}
	return NULL;
}

static void htw_user_free_rcu(struct rcu_head *rcu)
{
	struct htw_user *user = container_of(rcu, struct htw_user, rcu);

	if (user->ns)
		put_user_ns(user->ns);
	free_percpu(user->bases.cpus);
	kfree(user);
}

/* Free a user that is in no list; none of its work is queued again. */
static void htw_user_free(struct htw_user *user)
{
	WARN_ON_ONCE(atomic_read(&user->timers) || atomic_read(&user->entries) ||
		     atomic_read(&user->wheels));
	htw_sigio_sender_exit(&user->sigio);
	cancel_work_sync(&user->clock_work);
	cancel_work_sync(&user->free_work);
	call_rcu(&user->rcu, htw_user_free_rcu);
}

static struct htw_user *htw_user_alloc(kuid_t uid, struct user_namespace *ns,
				       enum htw_class class,
				       const struct htw_user_ops *ops)
{
	struct htw_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	user->bases = (struct htw_bases){
		.cpus = alloc_percpu_gfp(struct htw_bases_cpu,
					 GFP_KERNEL_ACCOUNT | __GFP_ZERO),
		.class = class,
		.serve = ops->serve,
		.skew = get_random_u64(),
		.gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN,
	};
	if (!user->bases.cpus) {
		kfree(user);
		return NULL;
	}

	htw_bases_init_set(&user->bases, from_kuid(&init_user_ns, uid));
	user->uid = uid;
	user->ns = ns ? get_user_ns(ns) : NULL;
	user->ops = ops;
	user->contexts = 1;
	INIT_LIST_HEAD(&user->unused);
	htw_sigio_sender_init(&user->sigio, htw_bases_flows(&user->bases));
	mutex_init(&user->listeners_mutex);
	INIT_LIST_HEAD(&user->listeners);
	INIT_WORK(&user->clock_work, ops->cancel_on_set);
	init_llist_head(&user->closed);
	INIT_WORK(&user->free_work, ops->free_contexts);
	init_waitqueue_head(&user->wait);
	mutex_init(&user->wait_mutex);
	user->kcov_handle = kcov_common_handle();
	return user;
}

/**
 * htw_user_get() - get the user to whom a context opened by this task is charged
 * @ops: &htw_user.ops, the same for all users
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the user, or NULL without memory.
 */
struct htw_user *htw_user_get(const struct htw_user_ops *ops)
{
	/* Nothing is refused without the capability, so that is not logged as a denial. */
	bool privileged = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	enum htw_class class = privileged ? HTW_CLASS_PRIVILEGED : HTW_CLASS_OTHERS;
	struct user_namespace *ns = htw_user_ns();
	kuid_t uid = ns ? ns->owner : current_uid();
	struct htw_user *user, *made;

	/* The owner of the namespace is the user, unless that is root. */
	if (ns && !uid_eq(uid, GLOBAL_ROOT_UID))
		ns = NULL;

	spin_lock(&htw_users_lock);
	user = htw_user_find(uid, ns, class);
	spin_unlock(&htw_users_lock);
	if (user)
		return user;

	made = htw_user_alloc(uid, ns, class, ops);
	if (!made)
		return NULL;

	spin_lock(&htw_users_lock);
	user = htw_user_find(uid, ns, class);
	if (!user)
		hash_add_rcu(htw_users, &made->node, __kuid_val(uid));
	spin_unlock(&htw_users_lock);
	if (!user)
		return made;

	/* Another task was faster. */
	htw_user_free(made);
	return user;
}

/* Drop a context's reference, unless it is the last one and the user has bases: take those. */
static bool htw_user_try_put(struct htw_user *user, struct list_head *gone)
{
	lockdep_assert_held(&htw_users_lock);

	if (user->contexts == 1) {
		/* Under the lock: a new context makes bases of its own. */
		htw_bases_take(&user->bases, gone);
		if (!list_empty(gone))
			return false;
		list_add_tail(&user->unused, &htw_unused_users);
		queue_delayed_work(htw_wq, &htw_users_work, HTW_REAP_DELAY);
	}
	user->contexts--;
	return true;
}

/**
 * htw_user_put() - drop a context's reference to its user
 * @user: the user, whose bases are freed if this was its last context
 *
 * Context: may sleep.
 */
void htw_user_put(struct htw_user *user)
{
	for (;;) {
		LIST_HEAD(gone);
		bool done;

		spin_lock(&htw_users_lock);
		done = htw_user_try_put(user, &gone);
		spin_unlock(&htw_users_lock);
		if (done)
			return;
		/* While the user counts as used: the bases refer to its flows. */
		htw_bases_free(&gone);
	}
}

static bool htw_user_is_idle(struct htw_user *user)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (!htw_pacer_flow_is_idle(per_cpu_ptr(htw_bases_flows(&user->bases), cpu), cpu))
			return false;
	}
	return true;
}

static struct htw_user *htw_users_first(struct list_head *users)
{
	lockdep_assert_held(&htw_users_lock);

	return list_first_entry_or_null(users, struct htw_user, unused);
}

/* Free users without contexts whose token buckets are full; look at the others again later. */
static void htw_users_reap(struct work_struct *work)
{
	struct htw_user *user;
	LIST_HEAD(users);
	bool again;

	spin_lock(&htw_users_lock);
	list_splice_init(&htw_unused_users, &users);
	while ((user = htw_users_first(&users))) {
		bool idle;

		/*
		 * Only this work item frees users. One that is found meanwhile
		 * leaves the list. It may be unused again, but what was looked
		 * at says nothing of it any more: its flows may be throttled.
		 */
		spin_unlock(&htw_users_lock);
		idle = htw_user_is_idle(user);
		cond_resched();
		spin_lock(&htw_users_lock);

		if (htw_users_first(&users) != user)
			continue;
		if (!idle) {
			list_move_tail(&user->unused, &htw_unused_users);
			continue;
		}
		list_del(&user->unused);
		hash_del_rcu(&user->node);
		spin_unlock(&htw_users_lock);
		htw_user_free(user);
		spin_lock(&htw_users_lock);
	}
	again = !list_empty(&htw_unused_users);
	spin_unlock(&htw_users_lock);
	if (again)
		queue_delayed_work(htw_wq, &htw_users_work, HTW_REAP_DELAY);
}

/* Call a function, which must not sleep, for each user. */
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data),
			void *data)
{
	struct htw_user *user;
	int i;

	rcu_read_lock();
	hash_for_each_rcu(htw_users, i, user, node)
		fn(user, data);
	rcu_read_unlock();
}

int htw_users_init(void)
{
	int ret = htw_sigio_init_queues();

	if (ret)
		return ret;

	htw_wq = alloc_workqueue("htw", WQ_UNBOUND, 0);
	if (!htw_wq) {
		htw_sigio_exit_queues();
		return -ENOMEM;
	}
	return 0;
}

/*
 * Free all users and the work queue: no context is left, and the pacers, which
 * have their flows, have stopped. May sleep.
 */
void htw_users_exit(void)
{
	struct hlist_node *next;
	struct htw_user *user;
	int i;

	cancel_delayed_work_sync(&htw_users_work);
	hash_for_each_safe(htw_users, i, next, user, node) {
		hash_del_rcu(&user->node);
		htw_user_free(user);
	}
	destroy_workqueue(htw_wq);
	htw_sigio_exit_queues();
	rcu_barrier();	/* for htw_user_free_rcu() */
}

/* Sum up how often, and for how many ns, a user was throttled on all CPUs. */
void htw_user_throttled(struct htw_user *user, u64 *times, u64 *ns)
{
	unsigned int cpu;

	*times = 0;
	*ns = 0;
	for_each_possible_cpu(cpu) {
		struct htw_flow_info info;

		htw_pacer_flow_info(per_cpu_ptr(htw_bases_flows(&user->bases), cpu), cpu, &info);
		*times += info.throttles;
		*ns += info.throttled_ns;
	}
}

/**
 * htw_user_charge() - charge a user for timers
 * @user: the user
 * @least: charge for at least as many, or for none
 * @most: charge for as many if the limit allows
 *
 * What is charged is memory, in units of a timer: a page of timers, a page of
 * the table of deadlines, a ring.
 *
 * Return: the number, or zero at the limit.
 */
u32 htw_user_charge(struct htw_user *user, u32 least, u32 most)
{
	u32 limit = READ_ONCE(htw_max_user_timers);
	int timers = atomic_read(&user->timers);
	u32 count;

	if (htw_user_is_unlimited(user))
		return most;
	do {
		count = min(most, limit - min_t(u32, timers, limit));
		if (count < least)
			return 0;
	} while (!atomic_try_cmpxchg(&user->timers, &timers, timers + count));
	return count;
}

void htw_user_uncharge(struct htw_user *user, u32 count)
{
	if (!htw_user_is_unlimited(user))
		atomic_sub(count, &user->timers);
}

/* Is a directory not counted, as one that each context may have? */
static bool htw_user_ignores_directory(const struct htw_user *user, u32 entries)
{
	return htw_user_is_unlimited(user) || entries <= HTW_DIRECTORY_SMALL;
}

/**
 * htw_user_charge_directory() - charge a user for the directory of a context
 * @user: the user
 * @entries: its length
 * @limit: most entries of a user
 *
 * Return: false at the limit.
 */
bool htw_user_charge_directory(struct htw_user *user, u32 entries, u32 limit)
{
	int charged = atomic_read(&user->entries);

	if (htw_user_ignores_directory(user, entries))
		return true;
	do {
		if (charged + entries > limit)
			return false;
	} while (!atomic_try_cmpxchg(&user->entries, &charged,
				     charged + entries));
	return true;
}

void htw_user_uncharge_directory(struct htw_user *user, u32 entries)
{
	if (!htw_user_ignores_directory(user, entries))
		atomic_sub(entries, &user->entries);
}

/* Charge a user for a private wheel; return false at the limit. */
bool htw_user_charge_wheel(struct htw_user *user)
{
	return htw_user_is_unlimited(user) ||
	       atomic_add_unless(&user->wheels, 1, HTW_USER_WHEELS_MAX);
}

void htw_user_uncharge_wheel(struct htw_user *user)
{
	if (!htw_user_is_unlimited(user))
		atomic_dec(&user->wheels);
}

/*
 * Closing
 *
 * Pages, rings and private wheels are freed, and uncharged, a grace period
 * after the last close. A program that closes a descriptor and opens another
 * one must not fail at a limit meanwhile, so an open() or add at the limit
 * waits for what is being freed.
 */

/* A context has been closed, and will be freed. */
void htw_user_closing_begin(struct htw_user *user)
{
	atomic_inc(&user->closing);
}

/* What it held has been uncharged. */
void htw_user_closing_end(struct htw_user *user)
{
	/* In this order, with full barriers: see htw_user_may_try(). */
	atomic_inc_return(&user->freed);
	atomic_dec_return(&user->closing);
	if (wq_has_sleeper(&user->wait))
		wake_up(&user->wait);
}

/**
 * htw_user_wait_begin() - begin to wait for closed contexts of a user
 * @wait: the wait of the call, which may have waited before; begins as %HTW_USER_WAIT
 * @user: the user
 *
 * Call this after a limit was met, and try again before htw_user_wait_again().
 */
void htw_user_wait_begin(struct htw_user_wait *wait, struct htw_user *user)
{
	wait->user = user;
	wait->freed = atomic_read_acquire(&user->freed);
}

/* Has something been freed since the last try, or is nothing left to wait for? */
static bool htw_user_may_try(const struct htw_user_wait *wait)
{
	/* The one before the other: the last context counts as freed before it is not closing. */
	bool closing = atomic_read_acquire(&wait->user->closing);

	return !closing || atomic_read(&wait->user->freed) != wait->freed;
}

/**
 * htw_user_wait_again() - wait until a closed context of the user has been freed
 * @wait: the wait
 *
 * Context: may sleep; no lock is held that freeing a context takes.
 * Return: true if another try may succeed; false if no context is being freed,
 * ten seconds after the call began, or if the task is being killed.
 */
bool htw_user_wait_again(struct htw_user_wait *wait)
{
	struct htw_user *user = wait->user;
	int freed = wait->freed;
	long left;

	/* Other threads may go on closing, without leaving room. */
	if (time_after(jiffies, wait->until))
		return false;
	if (!htw_user_may_try(wait)) {
		if (mutex_lock_killable(&user->wait_mutex))
			return false;
		left = max_t(long, wait->until - jiffies, 0);
		left = wait_event_killable_timeout(user->wait, htw_user_may_try(wait), left);
		mutex_unlock(&user->wait_mutex);
		if (left <= 0)
			return false;
	}
	wait->freed = atomic_read_acquire(&user->freed);
	return wait->freed != freed;
}

/**
 * htw_user_wait_for_closing() - wait while many closed contexts of the user are not freed yet
 * @user: the user
 *
 * Context: may sleep; no lock is held.
 * Return: false after ten seconds, or if the task is being killed.
 */
bool htw_user_wait_for_closing(struct htw_user *user)
{
	struct htw_user_wait wait = HTW_USER_WAIT;

	htw_user_wait_begin(&wait, user);
	while (atomic_read(&user->closing) >= HTW_USER_CLOSING_MAX) {
		if (!htw_user_wait_again(&wait))
			return atomic_read(&user->closing) <
			       HTW_USER_CLOSING_MAX;
	}
	return true;
}
