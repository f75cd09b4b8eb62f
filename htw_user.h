/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the users of a machine hold, all their contexts together
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/atomic.h>
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
u32 htw_user_charge(struct htw_user *user, u32 want);
void htw_user_uncharge(struct htw_user *user, u32 count);
bool htw_user_charge_wheel(struct htw_user *user);
void htw_user_uncharge_wheel(struct htw_user *user);

#endif /* _HTW_USER_H */
