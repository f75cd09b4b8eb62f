// SPDX-License-Identifier: GPL-2.0-only
/*
 * Users: limits and CPU shares that all contexts of a user have in common
 *
 * A context is charged to the user who opened it, even after the descriptor was passed
 * on. A user's contexts that were opened with CAP_SYS_RESOURCE belong to a separate struct
 * htw_user, which has no limits and counts nothing.
 *
 * In the initial user namespace a user is a uid. Anybody can create user namespaces with
 * subordinate uids, which would multiply limits and shares. So all uids below the initial
 * namespace count as the owner of the outermost namespace; if that is root, as with
 * container managers, the namespace itself is the user.
 *
 * A user outlives its last context until its token buckets are full: closing and
 * opening again gives no new tokens.
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

/* Limit of private wheels of a user. */
#define HTW_USER_WHEELS_MAX	16
/* Interval in which to look for users that can be freed: a quarter of what a full bucket takes. */
#define HTW_REAP_DELAY		(HZ / 4)

unsigned int htw_max_user_timers = 4194304;

static LIST_HEAD(htw_users);
static DEFINE_MUTEX(htw_users_mutex);	/* guards the list; order: this, then htw_pacers_mutex */

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

static void htw_user_free(struct htw_user *user)
{
	list_del(&user->link);
	if (user->ns)
		put_user_ns(user->ns);
	free_percpu(user->cpus);
	kfree(user);
}

/**
 * htw_user_get() - get the user to whom a context opened by this task is charged
 * @serve: serves the user's bases; the same for all users
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the user, or NULL without memory.
 */
struct htw_user *htw_user_get(htw_serve_t *serve)
{
	/* Nothing is refused without the capability, so that is not logged as a denial. */
	const bool privileged = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	const enum htw_class class = privileged ? HTW_CLASS_PRIVILEGED : HTW_CLASS_OTHERS;
	struct user_namespace *ns = htw_user_ns();
	const kuid_t uid = ns ? ns->owner : current_uid();
	struct htw_user *user;

	/* The owner of the namespace is the user, unless that is root. */
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
 * htw_user_put() - drop a context's reference to its user
 * @user: the user
 * @free_bases: frees the user's bases if this was the last context; called under the
 *	lock that keeps a new context from using them
 *
 * Context: may sleep.
 */
void htw_user_put(struct htw_user *user, void (*free_bases)(struct htw_user *user))
{
	mutex_lock(&htw_users_mutex);
	if (!--user->contexts) {
		free_bases(user);
		schedule_delayed_work(&htw_users_work, HTW_REAP_DELAY);
	}
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

/* Free users without contexts whose token buckets are full; look at the others again later. */
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

/* Call a function for each user; may sleep. */
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data), void *data)
{
	struct htw_user *user;

	mutex_lock(&htw_users_mutex);
	list_for_each_entry(user, &htw_users, link)
		fn(user, data);
	mutex_unlock(&htw_users_mutex);
}

/* Free all users: no context is left, and the pacers, which have their flows, have stopped. */
void htw_users_exit(void)
{
	struct htw_user *user, *next;

	cancel_delayed_work_sync(&htw_users_work);
	list_for_each_entry_safe(user, next, &htw_users, link)
		htw_user_free(user);
}

/* Sum up how often, and for how many ns, a user was throttled on all CPUs. */
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
