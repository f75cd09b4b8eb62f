// SPDX-License-Identifier: GPL-2.0-only
/*
 * The users of a machine: what all contexts of one hold together
 *
 * A context counts for whoever opened it, also after it was passed on. Openers
 * with CAP_SYS_RESOURCE are not limited, and not counted; a user's privileged
 * contexts are kept apart from the others.
 *
 * Who is a user? In the initial user namespace a uid. Anybody may make user
 * namespaces with subordinate uids, so below it all count as the user who made the
 * outermost one, or else limits and shares would multiply. Where root made it, as
 * container managers do, the namespace itself is the user.
 *
 * A user outlives its last context until its share of each CPU is whole again:
 * closing and opening again must not give a new one.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "user.h"

/* Private wheels that a user may have. */
#define HTW_USER_WHEELS		16
/* How often to look whether users without contexts can go. */
#define HTW_REAP_DELAY		(HZ / 4)

unsigned int htw_max_user_timers = 4194304;

static LIST_HEAD(htw_users);
static DEFINE_MUTEX(htw_users_mutex);	/* guards the list */

static void htw_users_reap(struct work_struct *work);
static DECLARE_DELAYED_WORK(htw_users_work, htw_users_reap);

/* The outermost user namespace below the initial one; NULL for the initial one. */
static struct user_namespace *htw_user_ns(void)
{
	struct user_namespace *ns = current_user_ns();

	if (ns == &init_user_ns)
		return NULL;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	return ns;
}

static struct htw_user *htw_user_find(kuid_t uid, const struct user_namespace *ns,
				      enum htw_class class)
{
	struct htw_user *user;

	lockdep_assert_held(&htw_users_mutex);

	list_for_each_entry(user, &htw_users, link) {
		if (uid_eq(user->uid, uid) && user->ns == ns && user->class == class)
			return user;
	}
	return NULL;
}

static struct htw_user *htw_user_create(kuid_t uid, struct user_namespace *ns,
					enum htw_class class, htw_serve_t *serve)
{
	struct htw_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	unsigned int cpu;

	if (!user)
		return NULL;
	user->cpus = alloc_percpu_gfp(struct htw_user_cpu, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!user->cpus) {
		kfree(user);
		return NULL;
	}
	user->uid = uid;
	user->ns = ns ? get_user_ns(ns) : NULL;
	user->class = class;
	user->serve = serve;
	for_each_possible_cpu(cpu)
		htw_flow_init(&per_cpu_ptr(user->cpus, cpu)->flow, class,
			      from_kuid(&init_user_ns, uid));
	list_add(&user->link, &htw_users);
	return user;
}

/* Frees a user who has nothing any more. */
static void htw_user_free(struct htw_user *user)
{
	list_del(&user->link);
	if (user->ns)
		put_user_ns(user->ns);
	free_percpu(user->cpus);
	kfree(user);
}

/**
 * htw_user_get() - the user whom a context counts for that is opened now
 * @serve: delivers what the user's bases have due, always the same
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the user or NULL.
 */
struct htw_user *htw_user_get(htw_serve_t *serve)
{
	const enum htw_class class = capable(CAP_SYS_RESOURCE) ? HTW_CLASS_PRIVILEGED :
								 HTW_CLASS_OTHERS;
	struct user_namespace *ns = htw_user_ns();
	const kuid_t uid = ns ? ns->owner : current_uid();
	struct htw_user *user;

	/* Whoever owns the namespace is the user, unless that is root. */
	if (ns && !uid_eq(uid, GLOBAL_ROOT_UID))
		ns = NULL;
	mutex_lock(&htw_users_mutex);
	user = htw_user_find(uid, ns, class) ?: htw_user_create(uid, ns, class, serve);
	if (user)
		user->contexts++;
	mutex_unlock(&htw_users_mutex);
	return user;
}

/**
 * htw_user_put() - a context of a user is gone
 * @user: the user
 *
 * Context: may sleep.
 */
void htw_user_put(struct htw_user *user)
{
	mutex_lock(&htw_users_mutex);
	if (!--user->contexts)
		schedule_delayed_work(&htw_users_work, HTW_REAP_DELAY);
	mutex_unlock(&htw_users_mutex);
}

static bool htw_user_is_idle(struct htw_user *user)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (!htw_flow_is_idle(&per_cpu_ptr(user->cpus, cpu)->flow, cpu))
			return false;
	}
	return true;
}

/* Frees users without contexts whose shares are whole; comes back for the others. */
static void htw_users_reap(struct work_struct *work)
{
	struct htw_user *user, *next;
	bool again = false;

	mutex_lock(&htw_users_mutex);
	list_for_each_entry_safe(user, next, &htw_users, link) {
		if (user->contexts)
			continue;
		if (htw_user_is_idle(user))
			htw_user_free(user);
		else
			again = true;
	}
	if (again)
		schedule_delayed_work(&htw_users_work, HTW_REAP_DELAY);
	mutex_unlock(&htw_users_mutex);
}

/**
 * htw_users_for_each() - calls a function for each user
 * @fn: the function
 * @data: passed on to it
 *
 * Context: may sleep; users stay meanwhile.
 */
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data), void *data)
{
	struct htw_user *user;

	mutex_lock(&htw_users_mutex);
	list_for_each_entry(user, &htw_users, link)
		fn(user, data);
	mutex_unlock(&htw_users_mutex);
}

/**
 * htw_users_exit() - frees the users that are left; no context is
 *
 * Context: process, may sleep. The pacers have stopped: a flow may be parked there.
 */
void htw_users_exit(void)
{
	struct htw_user *user, *next;

	cancel_delayed_work_sync(&htw_users_work);
	list_for_each_entry_safe(user, next, &htw_users, link)
		htw_user_free(user);
}

/**
 * htw_user_throttled() - how a user's timers had to wait for its share
 * @user: the user
 * @times: out: how often, on all CPUs
 * @ns: out: how long, on all CPUs
 */
void htw_user_throttled(struct htw_user *user, u64 *times, u64 *ns)
{
	unsigned int cpu;

	*times = 0;
	*ns = 0;
	for_each_possible_cpu(cpu) {
		struct htw_flow_info info;

		htw_flow_get_info(&per_cpu_ptr(user->cpus, cpu)->flow, cpu, &info);
		*times += info.throttles;
		*ns += info.throttled_ns;
	}
}

/**
 * htw_user_charge_wheel() - counts a private wheel for a user
 * @user: the user
 *
 * Return: false at the limit.
 */
bool htw_user_charge_wheel(struct htw_user *user)
{
	return htw_user_is_unlimited(user) ||
	       atomic_add_unless(&user->wheels, 1, HTW_USER_WHEELS);
}

/**
 * htw_user_uncharge_wheel() - a private wheel is gone
 * @user: the user
 */
void htw_user_uncharge_wheel(struct htw_user *user)
{
	if (!htw_user_is_unlimited(user))
		atomic_dec(&user->wheels);
}
