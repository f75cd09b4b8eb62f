/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: limits and CPU shares that all contexts of a user have in common
 */
#ifndef _HTW_USER_H
#define _HTW_USER_H

#include <linux/atomic.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "pacer.h"

struct htw_base;
struct user_namespace;

/**
 * enum htw_clock - clocks of wheels
 * @HTW_BASE_MONOTONIC: CLOCK_MONOTONIC
 * @HTW_BASE_BOOTTIME: CLOCK_BOOTTIME
 * @HTW_BASE_REALTIME: CLOCK_REALTIME; it can be set, also backwards
 * @HTW_CLOCKS: number of clocks of which a user has a wheel on each CPU
 * @HTW_BASE_MANUAL: moved only by HTW_ADVANCE; of private wheels
 */
enum htw_clock {
	HTW_BASE_MONOTONIC,
	HTW_BASE_BOOTTIME,
	HTW_BASE_REALTIME,
	HTW_CLOCKS,
	HTW_BASE_MANUAL = HTW_CLOCKS,
};

/**
 * struct htw_user_cpu - a user's part on a CPU
 * @flow: its jobs and share there
 * @bases: its shared wheels there by clock, or NULL (written under htw_pacers_mutex)
 */
struct htw_user_cpu {
	struct htw_flow flow;
	struct htw_base *bases[HTW_CLOCKS];
};

/**
 * struct htw_user - user to whom contexts are charged
 * @link: on the list of users (htw_users_mutex)
 * @uid: the uid, or the owner of @ns, in the initial user namespace; never changes
 * @ns: the outermost user namespace below the initial one if root owns that, else
 *	NULL; never changes
 * @class: of its flows; never changes
 * @contexts: number of contexts; with the last one, @cpus' bases go (htw_users_mutex)
 * @timers: timers of all contexts
 * @wheels: private wheels of all contexts
 * @cpus: its part on each CPU; never changes
 * @first: first base made for each clock; used if another cannot be made (written under
 *	htw_pacers_mutex)
 * @serve: serves its bases; never changes
 */
struct htw_user {
	struct list_head link;
	kuid_t uid;
	struct user_namespace *ns;
	enum htw_class class;
	u32 contexts;
	atomic_t timers;
	atomic_t wheels;
	struct htw_user_cpu __percpu *cpus;
	struct htw_base *first[HTW_CLOCKS];
	htw_serve_t *serve;
};

extern unsigned int htw_max_user_timers;

void htw_users_exit(void);
struct htw_user *htw_user_get(htw_serve_t *serve);
void htw_user_put(struct htw_user *user, void (*free_bases)(struct htw_user *user));
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data), void *data);

/* Is nothing of this user counted or limited? */
static inline bool htw_user_is_unlimited(const struct htw_user *user)
{
	return user->class != HTW_CLASS_OTHERS;
}

bool htw_user_charge_wheel(struct htw_user *user);
void htw_user_uncharge_wheel(struct htw_user *user);
void htw_user_throttled(struct htw_user *user, u64 *times, u64 *ns);

/* Charge a user for up to @want timers; return how many the limit allowed. */
static inline u32 htw_user_charge(struct htw_user *user, u32 want)
{
	const u32 limit = READ_ONCE(htw_max_user_timers);
	u32 timers, excess;

	if (htw_user_is_unlimited(user))
		return want;
	timers = atomic_add_return(want, &user->timers);
	if (timers <= limit)
		return want;
	excess = min(timers - limit, want);
	atomic_sub(excess, &user->timers);
	return want - excess;
}

static inline void htw_user_uncharge(struct htw_user *user, u32 count)
{
	if (count && !htw_user_is_unlimited(user))
		atomic_sub(count, &user->timers);
}

#endif /* _HTW_USER_H */
