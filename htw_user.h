/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the users of a machine hold, all their contexts together
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/atomic.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <linux/uidgid.h>

/**
 * struct htw_user - what a user holds
 * @link: on the list of users (its mutex)
 * @uid: who; never changes
 * @contexts: contexts that hold this (the list's mutex)
 * @timers: timers of all of them
 * @wheels: private wheels of all of them
 */
struct htw_user {
	struct list_head link;
	kuid_t uid;
	u32 contexts;
	atomic_t timers;
	atomic_t wheels;
};

extern unsigned int htw_max_user_timers;

struct htw_user *htw_user_get(void);
void htw_user_put(struct htw_user *user);
bool htw_user_charge_wheel(struct htw_user *user);
void htw_user_uncharge_wheel(struct htw_user *user);

/**
 * htw_user_charge() - counts timers for a user
 * @user: the user, or NULL for one without a limit
 * @want: how many
 *
 * Return: how many were counted: as many of @want as the limit lets.
 */
static inline u32 htw_user_charge(struct htw_user *user, u32 want)
{
	const u32 limit = READ_ONCE(htw_max_user_timers);
	u32 timers, excess;

	if (!user)
		return want;
	timers = atomic_add_return(want, &user->timers);
	if (timers <= limit)
		return want;
	excess = min(timers - limit, want);
	atomic_sub(excess, &user->timers);
	return want - excess;
}

/**
 * htw_user_uncharge() - timers that were counted are free again
 * @user: the user, or NULL
 * @count: how many
 */
static inline void htw_user_uncharge(struct htw_user *user, u32 count)
{
	if (user && count)
		atomic_sub(count, &user->timers);
}

#endif /* _HTW_USER_H */
