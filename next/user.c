// SPDX-License-Identifier: GPL-2.0-only
/*
 * Users: limits and alarms that all contexts of a user have in common
 *
 * A context is charged to the user who opened it, even after the descriptor was
 * passed on. In the initial user namespace a user is a uid. Anybody can create
 * user namespaces with subordinate uids, which would multiply limits. So all
 * uids below the initial namespace count as the owner of the outermost
 * namespace; if that is root, as with container managers, the namespace itself
 * is the user.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "user.h"

unsigned int htw_max_user_timers = 4194304;

static DEFINE_SPINLOCK(htw_users_lock);
static DEFINE_HASHTABLE(htw_users, 8);		/* by uid */

/*
 * The outermost user namespace below the initial one; NULL for the initial one.
 */
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
static struct htw_user *htw_user_find(kuid_t uid, const struct user_namespace *ns, bool privileged)
{
	struct htw_user *user;

	lockdep_assert_held(&htw_users_lock);

	hash_for_each_possible(htw_users, user, node, __kuid_val(uid)) {
		if (!uid_eq(user->uid, uid) || user->ns != ns || user->privileged != privileged)
			continue;
		user->contexts++;
		return user;
	}
	return NULL;
}

static void htw_user_free(struct htw_user *user)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		for (unsigned int clock = 0; clock < HTW_CLOCKS; clock++)
			htw_alarm_exit(&per_cpu_ptr(user->alarms, cpu)->on[clock]);
	WARN_ON_ONCE(atomic_read(&user->timers));
	free_percpu(user->alarms);
	if (user->ns)
		put_user_ns(user->ns);
	kfree(user);
}

static struct htw_user *htw_user_alloc(kuid_t uid, struct user_namespace *ns, bool privileged)
{
	struct htw_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
	unsigned int cpu;

	if (!user)
		return NULL;
	user->alarms = alloc_percpu_gfp(struct htw_alarms, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!user->alarms) {
		kfree(user);
		return NULL;
	}
	for_each_possible_cpu(cpu)
		for (unsigned int clock = 0; clock < HTW_CLOCKS; clock++)
			htw_alarm_init(&per_cpu_ptr(user->alarms, cpu)->on[clock], clock);
	for (unsigned int nr = 0; nr < HTW_LANES; nr++) {
		INIT_LIST_HEAD(&user->lane[nr]);
		INIT_LIST_HEAD(&user->waiting[nr]);
	}
	user->uid = uid;
	user->ns = ns ? get_user_ns(ns) : NULL;
	user->privileged = privileged;
	user->contexts = 1;
	return user;
}

/**
 * htw_user_get() - get the user to whom a context opened by this task is
 * charged
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the user, or NULL without memory.
 */
struct htw_user *htw_user_get(void)
{
	/*
	 * Nothing is refused without the capability, so that is not logged as a
	 * denial.
	 */
	bool privileged = ns_capable_noaudit(&init_user_ns, CAP_SYS_RESOURCE);
	struct user_namespace *ns = htw_user_ns();
	kuid_t uid = ns ? ns->owner : current_uid();
	struct htw_user *user, *made;

	/* The owner of the namespace is the user, unless that is root. */
	if (ns && !uid_eq(uid, GLOBAL_ROOT_UID))
		ns = NULL;

	spin_lock(&htw_users_lock);
	user = htw_user_find(uid, ns, privileged);
	spin_unlock(&htw_users_lock);
	if (user)
		return user;

	made = htw_user_alloc(uid, ns, privileged);
	if (!made)
		return NULL;
	spin_lock(&htw_users_lock);
	user = htw_user_find(uid, ns, privileged);
	if (!user)
		hash_add(htw_users, &made->node, __kuid_val(uid));
	spin_unlock(&htw_users_lock);
	if (!user)
		return made;
	/* Another task was faster. */
	htw_user_free(made);
	return user;
}

/*
 * Drop a context's reference to its user, who goes with the last one. May
 * sleep.
 */
void htw_user_put(struct htw_user *user)
{
	bool last;

	spin_lock(&htw_users_lock);
	last = !--user->contexts;
	if (last)
		hash_del(&user->node);
	spin_unlock(&htw_users_lock);
	if (last)
		htw_user_free(user);
}

/* Charge a user for memory of so many slots. Return: false at the limit. */
bool htw_user_charge(struct htw_user *user, u32 slots)
{
	int held = atomic_read(&user->timers);

	/*
	 * Exact: what one call cannot have is not missing to another one
	 * meanwhile.
	 */
	do {
		if (!user->privileged && held + slots > READ_ONCE(htw_max_user_timers))
			return false;
	} while (!atomic_try_cmpxchg(&user->timers, &held, held + slots));
	return true;
}

void htw_user_uncharge(struct htw_user *user, u32 slots)
{
	atomic_sub(slots, &user->timers);
}
