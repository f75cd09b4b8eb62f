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

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/init.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>

#include "user.h"

unsigned int htw_max_user_timers = 4194304;
/* How often memory was refused to any user. */
atomic_t htw_users_refused;

static DEFINE_SPINLOCK(htw_users_lock);
static DEFINE_HASHTABLE(htw_users, 8);		/* by uid */

static const struct htw_user_calls *htw_user_calls __ro_after_init;
/* Ordered: each takes users in turn. */
static struct workqueue_struct *htw_works[HTW_WORKS];

/* How long it is until a time, by local_clock(), in jiffies; 0 if it has come. */
static unsigned long htw_user_until(u64 time)
{
	u64 now = local_clock();

	return now < time ? nsecs_to_jiffies(time - now) + 1 : 0;
}

/* Queue a work item: that for long wake-ups when the user has rested. */
void htw_user_queue_work(struct htw_user *user, unsigned int work)
{
	queue_delayed_work(htw_works[work], &user->work[work],
			   work ? htw_user_until(READ_ONCE(user->rest)) : 0);
}

/* A user's number, in the initial user namespace. */
u32 htw_user_uid(const struct htw_user *user)
{
	return from_kuid_munged(&init_user_ns, user->uid);
}

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

/* Alarms queue work items. */
static void htw_user_free(struct htw_user *user)
{
	htw_alarms_stop(user->alarms);
	for (unsigned int work = 0; work < HTW_WORKS; work++)
		cancel_delayed_work_sync(&user->work[work]);
	free_percpu(user->alarms);
	WARN_ON_ONCE(atomic64_read(&user->timers));
	if (user->ns)
		put_user_ns(user->ns);
	kfree(user);
}

/*
 * Keep a user without a context for a while? As long as its wake-ups that took
 * long are remembered, which is longer than it rests for them: otherwise the
 * first one of each context that it opens, and closes again, would be its first.
 */
static bool htw_user_stays(struct htw_user *user)
{
	unsigned long delay = htw_user_until(READ_ONCE(user->forget));

	lockdep_assert_held(&htw_users_lock);

	if (delay)
		queue_delayed_work(htw_works[1], &user->end, delay);
	return delay;
}

static void htw_user_end(struct work_struct *work)
{
	struct htw_user *user = container_of(to_delayed_work(work), struct htw_user, end);
	bool last;

	spin_lock(&htw_users_lock);
	/* Without a node it is about to be freed elsewhere. */
	last = !user->contexts && !hlist_unhashed(&user->node) && !htw_user_stays(user);
	if (last)
		hash_del(&user->node);
	spin_unlock(&htw_users_lock);
	if (last)
		htw_user_free(user);
}

static struct htw_user *htw_user_alloc(kuid_t uid, struct user_namespace *ns, bool privileged)
{
	struct htw_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;

	user->alarms = htw_alarms_alloc(user, htw_user_calls->ring);
	if (!user->alarms) {
		kfree(user);
		return NULL;
	}

	for (unsigned int work = 0; work < HTW_WORKS; work++)
		INIT_DELAYED_WORK(&user->work[work], htw_user_calls->work[work]);
	INIT_DELAYED_WORK(&user->end, htw_user_end);

	user->uid = uid;
	user->ns = ns ? get_user_ns(ns) : NULL;
	user->privileged = privileged;
	user->contexts = 1;
	user->skew = get_random_u64();
	user->kcov_handle = kcov_common_handle();
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
 * Drop a context's reference to its user, who goes with the last one, or a
 * while later. May sleep.
 */
void htw_user_put(struct htw_user *user)
{
	bool last;

	spin_lock(&htw_users_lock);
	last = !--user->contexts && !htw_user_stays(user);
	if (last)
		hash_del(&user->node);
	spin_unlock(&htw_users_lock);
	if (!last)
		return;
	cancel_delayed_work_sync(&user->end);
	htw_user_free(user);
}

/**
 * htw_users_init() - make the workqueues of all users
 * @calls: what users have done
 *
 * Return: 0 or -ENOMEM.
 */
int __init htw_users_init(const struct htw_user_calls *calls)
{
	htw_user_calls = calls;
	for (unsigned int work = 0; work < HTW_WORKS; work++) {
		htw_works[work] = alloc_ordered_workqueue("htw_wake%u", 0, work);
		if (!htw_works[work]) {
			htw_users_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

/*
 * The user after @user, which has a reference, or the first one; NULL if there
 * is none. It has a reference then.
 */
static struct htw_user *htw_user_next(const struct htw_user *user)
{
	struct hlist_node *node = NULL;
	unsigned int bucket = 0;

	spin_lock(&htw_users_lock);
	if (user) {
		node = user->node.next;
		bucket = hash_min(__kuid_val(user->uid), HASH_BITS(htw_users)) + 1;
	}
	while (!node && bucket < HASH_SIZE(htw_users))
		node = htw_users[bucket++].first;
	if (node)
		hlist_entry(node, struct htw_user, node)->contexts++;
	spin_unlock(&htw_users_lock);
	return hlist_entry_safe(node, struct htw_user, node);
}

/* No context is left, but perhaps users are. */
void htw_users_exit(void)
{
	struct htw_user *user;

	while ((user = htw_user_next(NULL))) {
		cancel_delayed_work_sync(&user->end);
		hash_del(&user->node);
		htw_user_free(user);
	}
	for (unsigned int work = 0; work < HTW_WORKS; work++) {
		if (htw_works[work])
			destroy_workqueue(htw_works[work]);
	}
}

/**
 * htw_users_for_each() - call a function for each user
 * @fn: the function; no lock is held, and &htw_user.contexts is one too many
 * @data: passed to it
 *
 * Context: may sleep.
 */
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data), void *data)
{
	struct htw_user *user = htw_user_next(NULL), *next;

	for (; user; user = next) {
		fn(user, data);
		next = htw_user_next(user);
		htw_user_put(user);
		cond_resched();
	}
}

/* For how many timers a user may have memory. */
u64 htw_user_limit(const struct htw_user *user)
{
	return user->privileged ? U64_MAX : READ_ONCE(htw_max_user_timers);
}

/* Charge a user for memory of so many slots. Return: false at the limit. */
bool htw_user_charge(struct htw_user *user, u32 slots)
{
	s64 held = atomic64_read(&user->timers);

	/*
	 * Exact: what one call cannot have is not missing to another one
	 * meanwhile.
	 */
	do {
		if (held + (u64)slots > htw_user_limit(user))
			return false;
	} while (!atomic64_try_cmpxchg(&user->timers, &held, held + slots));
	return true;
}

void htw_user_uncharge(struct htw_user *user, u32 slots)
{
	atomic64_sub(slots, &user->timers);
}

/**
 * htw_user_refuse() - a user is refused memory at its limit
 * @user: the user
 *
 * That is counted, and logged now and then.
 */
void htw_user_refuse(struct htw_user *user)
{
	static DEFINE_RATELIMIT_STATE(limit, 60 * HZ, 3);

	atomic_inc(&user->refused);
	atomic_inc(&htw_users_refused);
	/* Lines that are left out are not counted: there is a counter. */
	ratelimit_set_flags(&limit, RATELIMIT_MSG_ON_RELEASE);
	if (__ratelimit(&limit))
		pr_warn("uid %u%s has memory for %lld timers, and may not have more: max_user_timers=%u in /sys/module/htw/parameters/ can be raised\n",
			htw_user_uid(user),
			user->ns ? " (in a user namespace)" : "",
			atomic64_read(&user->timers), READ_ONCE(htw_max_user_timers));
}
