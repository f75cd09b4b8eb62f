/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The users of a machine: what all contexts of one hold together
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
 * enum htw_clock - the clocks that wheels run on
 * @HTW_BASE_MONOTONIC: CLOCK_MONOTONIC
 * @HTW_BASE_BOOTTIME: CLOCK_BOOTTIME
 * @HTW_BASE_REALTIME: CLOCK_REALTIME; it can be set, also backwards
 * @HTW_CLOCKS: how many of them drive wheels on the CPUs
 * @HTW_BASE_MANUAL: moves only by htw_base_advance()
 */
enum htw_clock {
	HTW_BASE_MONOTONIC,
	HTW_BASE_BOOTTIME,
	HTW_BASE_REALTIME,
	HTW_CLOCKS,
	HTW_BASE_MANUAL = HTW_CLOCKS,
};

/**
 * struct htw_user_cpu - what a user has on a CPU
 * @flow: its jobs there, and its share
 * @bases: its wheels there, by clock; NULL where it has none yet. Written under
 *	htw_pacers_mutex
 */
struct htw_user_cpu {
	struct htw_flow flow;
	struct htw_base *bases[HTW_CLOCKS];
};

/**
 * struct htw_user - whom contexts count for
 * @link: on the list of users (its mutex)
 * @uid: who, in the initial user namespace; else who made @ns. Never changes
 * @ns: the outermost user namespace below the initial one, where root made that;
 *	else NULL. Never changes
 * @class: how the pacers serve it; never changes
 * @contexts: contexts that hold this (the list's mutex)
 * @timers: timers of all of them
 * @wheels: private wheels of all of them
 * @cpus: its part on each CPU; never changes
 * @first: of each clock the first of its bases, which will do where another
 *	cannot be made (written under htw_pacers_mutex)
 * @serve: delivers what its bases have due; never changes
 * @holds: contexts that its bases are there for (htw_pacers_mutex)
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
	u32 holds;
};

extern unsigned int htw_max_user_timers;

void htw_users_exit(void);
struct htw_user *htw_user_get(htw_serve_t *serve);
void htw_user_put(struct htw_user *user);
void htw_users_for_each(void (*fn)(struct htw_user *user, void *data), void *data);

/* Not limited, and not counted. */
static inline bool htw_user_is_unlimited(const struct htw_user *user)
{
	return user->class != HTW_CLASS_OTHERS;
}

bool htw_user_charge_wheel(struct htw_user *user);
void htw_user_throttled(struct htw_user *user, u64 *times, u64 *ns);
void htw_user_uncharge_wheel(struct htw_user *user);

/**
 * htw_user_charge() - counts timers for a user
 * @user: the user
 * @want: how many
 *
 * Return: how many were counted: as many of @want as the limit lets.
 */
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

/**
 * htw_user_uncharge() - timers that were counted are free again
 * @user: the user
 * @count: how many
 */
static inline void htw_user_uncharge(struct htw_user *user, u32 count)
{
	if (count && !htw_user_is_unlimited(user))
		atomic_sub(count, &user->timers);
}

#endif /* _HTW_USER_H */
