// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the users of a machine hold, all their contexts together
 *
 * A context counts for whoever opened it, also after it was passed on. Openers
 * with CAP_SYS_RESOURCE are not limited, and not counted.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "htw_user.h"

/* Private wheels that a user may have. */
#define HTW_USER_WHEELS		16

unsigned int htw_max_user_timers = 4194304;

static LIST_HEAD(htw_users);
static DEFINE_MUTEX(htw_users_mutex);	/* guards the list; innermost */

static struct htw_user *htw_user_find(kuid_t uid)
{
	struct htw_user *user;

	list_for_each_entry(user, &htw_users, link) {
		if (uid_eq(user->uid, uid))
			return user;
	}
	return NULL;
}

/**
 * htw_user_get() - the user whom a context counts for that is opened now
 *
 * Context: may sleep.
 * Return: the user; NULL for one who is not limited; -ENOMEM as a pointer.
 */
struct htw_user *htw_user_get(void)
{
	struct htw_user *user;

	if (capable(CAP_SYS_RESOURCE))
		return NULL;
	mutex_lock(&htw_users_mutex);
	user = htw_user_find(current_uid());
	if (!user) {
		user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
		if (user) {
			user->uid = current_uid();
			list_add(&user->link, &htw_users);
		} else {
			user = ERR_PTR(-ENOMEM);
		}
	}
	if (!IS_ERR(user))
		user->contexts++;
	mutex_unlock(&htw_users_mutex);
	return user;
}

/**
 * htw_user_put() - a context of a user is gone
 * @user: the user, or NULL
 *
 * Context: may sleep.
 */
void htw_user_put(struct htw_user *user)
{
	if (!user)
		return;
	mutex_lock(&htw_users_mutex);
	if (!--user->contexts) {
		list_del(&user->link);
		kfree(user);
	}
	mutex_unlock(&htw_users_mutex);
}

/**
 * htw_user_charge_wheel() - counts a private wheel for a user
 * @user: the user, or NULL
 *
 * Return: false at the limit.
 */
bool htw_user_charge_wheel(struct htw_user *user)
{
	return !user || atomic_add_unless(&user->wheels, 1, HTW_USER_WHEELS);
}

/**
 * htw_user_uncharge_wheel() - a private wheel is gone
 * @user: the user, or NULL
 */
void htw_user_uncharge_wheel(struct htw_user *user)
{
	if (user)
		atomic_dec(&user->wheels);
}
