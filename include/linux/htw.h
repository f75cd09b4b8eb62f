/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Callouts: htw's timers for other kernel modules
 *
 * The function of a callout is called in softirq at the first tick that is not before its
 * deadline: never early, and at most a tick late, plus the time that the CPU and the
 * functions of callouts due no later take. Starting, moving and cancelling are O(1),
 * allocate nothing and cannot fail. They may be called from any context but NMI, with
 * interrupts off as well, which stay off, and with any lock held that no caller of theirs
 * takes in NMI and the hrtimer core does not take.
 *
 * They work before htw has been initialised, for drivers that are built in.
 */
#ifndef _LINUX_HTW_H
#define _LINUX_HTW_H

#include <linux/htw_node.h>
#include <linux/lockdep.h>
#include <linux/poison.h>
#include <linux/stringify.h>
#include <linux/types.h>

/**
 * struct htw_callout - a function to be called after a delay
 * @node: in a wheel while the callout is pending
 * @function: what is called; NULL after htw_callout_shutdown_sync(), or if the callout was
 *	not initialised
 * @cpu: of the wheel in which it is, or was last
 * @shut_down: htw_callout_shutdown_sync() has been called
 * @lockdep_map: held while @function runs
 *
 * Usually embedded in a larger structure, which @function finds by container_of(). Before
 * that is freed, the callout must be neither pending nor running: see
 * htw_callout_shutdown_sync(). @function itself may free it, if nothing else can start or
 * cancel it any more. All fields are private to htw.
 */
struct htw_callout {
	struct htw_node node;
	void (*function)(struct htw_callout *callout);
	u32 cpu;
	bool shut_down;
#ifdef CONFIG_LOCKDEP
	struct lockdep_map lockdep_map;
#endif
};

#ifdef CONFIG_LOCKDEP
#define __HTW_CALLOUT_PLACE	__FILE__ ":" __stringify(__LINE__)
#define __HTW_CALLOUT_LOCKDEP_MAP					\
	.lockdep_map = STATIC_LOCKDEP_MAP_INIT(__HTW_CALLOUT_PLACE, &__HTW_CALLOUT_PLACE),
#else
#define __HTW_CALLOUT_LOCKDEP_MAP
#endif

/**
 * HTW_CALLOUT_INITIALIZER() - initialiser of a callout with static storage
 * @fn: the function to be called
 *
 * In place of htw_callout_init().
 */
#define HTW_CALLOUT_INITIALIZER(fn) {					\
	.node = { .list = { .prev = TIMER_ENTRY_STATIC } },		\
	.function = (fn),						\
	__HTW_CALLOUT_LOCKDEP_MAP					\
}

/**
 * DEFINE_HTW_CALLOUT() - define a callout with static storage
 * @name: its name
 * @fn: the function to be called
 */
#define DEFINE_HTW_CALLOUT(name, fn)					\
	struct htw_callout name = HTW_CALLOUT_INITIALIZER(fn)

void __htw_callout_init(struct htw_callout *callout,
			void (*function)(struct htw_callout *callout), bool on_stack,
			const char *name, struct lock_class_key *key);

#define __htw_callout_init_key(callout, fn, on_stack)			\
do {									\
	static struct lock_class_key __key;				\
									\
	__htw_callout_init(callout, fn, on_stack, #callout, &__key);	\
} while (0)

/**
 * htw_callout_init() - initialise a callout
 * @callout: the callout, neither pending nor running
 * @fn: called in softirq, with no lock held and interrupts on; may start, cancel or free
 *	the callout
 *
 * Must be called once before all others, but for a callout of DEFINE_HTW_CALLOUT(); and
 * again to use one that was shut down.
 *
 * Context: any but NMI.
 */
#define htw_callout_init(callout, fn)	__htw_callout_init_key(callout, fn, false)

/**
 * htw_callout_init_on_stack() - initialise a callout on the stack
 * @callout: as for htw_callout_init()
 * @fn: as for htw_callout_init()
 *
 * Before the function returns in which @callout is, it has to call
 * htw_callout_cancel_sync() and htw_callout_destroy_on_stack().
 *
 * Context: process.
 */
#define htw_callout_init_on_stack(callout, fn) __htw_callout_init_key(callout, fn, true)

void htw_callout_destroy_on_stack(struct htw_callout *callout);
bool htw_callout_start(struct htw_callout *callout, u64 delay_ns, u64 slack_ns);
bool htw_callout_start_at(struct htw_callout *callout, u64 deadline_ns, u64 slack_ns);
bool htw_callout_cancel(struct htw_callout *callout);
bool htw_callout_cancel_sync(struct htw_callout *callout);
bool htw_callout_shutdown_sync(struct htw_callout *callout);
bool htw_callout_pending(const struct htw_callout *callout);

#endif /* _LINUX_HTW_H */
