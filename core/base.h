/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine: on each CPU a wheel, paced by an hrtimer
 */
#ifndef _HTW_BASE_H
#define _HTW_BASE_H

#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/percpu.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>

#include "htw_wheel.h"
#include "pacer.h"
#include "user.h"

/*
 * sparse counts locks by following the code. Where the lock to take or to drop
 * is data, and may be none, it cannot; lockdep looks after those.
 */
#ifdef __CHECKER__
#define htw_lock(lock)		((void)(lock))
#define htw_lock_nested(lock, subclass)	((void)(lock), (void)(subclass))
#define htw_trylock(lock)	((void)(lock), true)
#define htw_unlock(lock)	((void)(lock))
#else
#define htw_lock(lock)		spin_lock(lock)
#define htw_lock_nested(lock, subclass)	spin_lock_nested(lock, subclass)
#define htw_trylock(lock)	spin_trylock(lock)
#define htw_unlock(lock)	spin_unlock(lock)
#endif

#define HTW_LATE_BUCKETS	24

/* The CPU of the base on which callouts wait that are started before htw is there. */
#define HTW_CPU_EARLY		U16_MAX

/**
 * struct htw_base - a wheel and what drives it
 * @wheel: the timers, in ticks since the clock's zero; first, so that its address
 *	is the base's
 * @lock: guards @wheel, the nodes in it and all below; taken with bottom halves
 *	off. Order: a base's lock, then a context's; two bases' locks by
 *	htw_base_double_lock()
 * @expiry_lock: held while the functions of callouts run, so that one can wait
 *	for them; taken before @lock
 * @running: the callout whose function runs, or NULL
 * @job: has the pacer of its CPU deliver what is due
 * @hrtimer: programmed for @wheel.next; without work, and while @job is scheduled,
 *	it is not. Started on the CPU of @job.pacer
 * @clock: which clock; never changes
 * @tick_ns: length of a tick, as wide as what is divided by it; never changes
 * @cpu: where its timers wait: the CPU that started them, or that was asked for.
 *	While that CPU is away another one's pacer serves it. Never changes
 * @private: one context's, and not for all of a user's; never changes
 * @user: whose it is; never changes
 * @link: on the list of its CPU's bases (htw_pacers_mutex)
 * @touched: jiffies when htw_base_touch_now() last brought it up to the present
 * @manual_ns: the time of %HTW_BASE_MANUAL; written under @lock
 * @due_ns: CLOCK_REALTIME only: no node that was due when it was started was
 *	started later than this
 * @callbacks: how often the hrtimer's callback ran
 * @exhausted: turns that ended before the work did
 * @rewinds: how often the clock was found to have been set back
 * @late: expirations by how late they were: below 1, 2, 4, ... times 1024 ns
 * @rcu: frees it
 */
struct htw_base {
	struct htw_wheel wheel;
	spinlock_t lock;	/* order: this, then a context's */
	spinlock_t expiry_lock;	/* order: this, then @lock */
	struct htw_node *running;
	struct htw_job job;
	struct hrtimer hrtimer;
	enum htw_clock clock;
	u64 tick_ns;
	unsigned int cpu;
	bool private;
	struct htw_user *user;
	struct list_head link;
	unsigned long touched;
	atomic64_t manual_ns;
	u64 due_ns;
	u64 callbacks;
	u64 exhausted;
	u64 rewinds;
	u64 late[HTW_LATE_BUCKETS];
	struct rcu_head rcu;
};

/* Set before the first base is made, then never changed. */
extern struct htw_geometry htw_geometry;
extern u32 htw_tick_ns;

/* Each CPU's base for callouts; never NULL. */
DECLARE_PER_CPU(struct htw_base *, htw_callout_bases);
extern struct htw_base htw_early_base;

int htw_bases_init(htw_serve_t *serve);
void htw_bases_exit(void);

struct htw_base *htw_base_alloc_private(struct htw_user *user, enum htw_clock clock,
					const struct htw_geometry *geo, u32 tick_ns);
void htw_base_free(struct htw_base *base);
struct htw_base *htw_base_create(struct htw_user *user, enum htw_clock clock, unsigned int cpu);
void htw_bases_hold(struct htw_user *user);
void htw_bases_drop(struct htw_user *user);
void htw_bases_for_each(unsigned int cpu, void (*fn)(struct htw_base *base, void *data),
			void *data);

void htw_base_double_lock(struct htw_base *a, struct htw_base *b);
void htw_base_double_unlock(struct htw_base *a, struct htw_base *b);

/**
 * htw_clock_now() - reads a clock
 * @clock: which, not %HTW_BASE_MANUAL
 *
 * Return: its time in ns.
 */
static inline u64 htw_clock_now(enum htw_clock clock)
{
	if (likely(clock == HTW_BASE_MONOTONIC))
		return ktime_get_ns();
	return clock == HTW_BASE_BOOTTIME ? ktime_get_boottime_ns() : ktime_get_real_ns();
}

/**
 * htw_target_cpu() - the CPU on which a timer that is started now should wait
 *
 * The one that we are on or, if that one is isolated, one that is not.
 *
 * Return: the CPU.
 */
static inline unsigned int htw_target_cpu(void)
{
	const unsigned int cpu = raw_smp_processor_id();

	if (unlikely(!housekeeping_cpu(cpu, HK_TYPE_TIMER)))
		return housekeeping_any_cpu(HK_TYPE_TIMER);
	return cpu;
}

/**
 * htw_base_now() - the time that a base's deadlines are compared with
 * @base: the base
 *
 * Return: its clock, in ns.
 */
static inline u64 htw_base_now(const struct htw_base *base)
{
	if (base->clock == HTW_BASE_MANUAL)
		return atomic64_read(&base->manual_ns);
	return htw_clock_now(base->clock);
}

void htw_base_wake(struct htw_base *base);
u64 htw_base_check_clock(struct htw_base *base, u64 now);
u64 htw_base_catch_up(struct htw_base *base, u64 now, u64 tick);
u64 htw_base_due_tick(struct htw_base *base, u64 deadline, u64 now);
bool htw_base_begin_turn(struct htw_base *base, const struct htw_turn *turn,
			 enum htw_served *served);
enum htw_served htw_base_end_turn(struct htw_base *base, bool done);

/* A user's base on a CPU; NULL where there is none yet. */
static inline struct htw_base *htw_base_on(struct htw_base *__percpu *bases, unsigned int cpu)
{
	/* Pairs with htw_base_create(). */
	return smp_load_acquire(per_cpu_ptr(bases, cpu));
}

/* Ticks that have come by @ns. */
static inline u64 htw_tick(const struct htw_base *base, u64 ns)
{
	return div64_u64(ns, base->tick_ns);
}

/* The first tick at which a node is not early that is due at @ns, which is not zero. */
static inline u64 htw_tick_up(const struct htw_base *base, u64 ns)
{
	return htw_tick(base, ns - 1) + 1;
}

/*
 * The tick for a node that is due at @deadline, or up to @slack later. One that is due
 * @now does not wait for the end of the tick, nor for others.
 */
static inline u64 htw_base_tick(struct htw_base *base, u64 deadline, u64 slack, u64 now)
{
	u64 first, last;

	if (unlikely(deadline <= now))
		return htw_base_due_tick(base, deadline, now);
	first = htw_tick_up(base, deadline);
	if (likely(!slack) || check_add_overflow(deadline, slack, &last))
		return first;
	return htw_wheel_coalesce(&base->wheel, first, htw_tick(base, last));
}

/**
 * htw_base_touch() - brings a base up to the present
 * @base: the base, whose lock has just been taken to start nodes
 * @now: what htw_base_now() returned a short while ago
 *
 * Return: the time, which is @now unless the base is found to be ahead of that: no node
 * that is due later belongs before the wheel's cursor.
 */
static inline u64 htw_base_touch(struct htw_base *base, u64 now)
{
	u64 tick;

	lockdep_assert_held(&base->lock);

	if (unlikely(base->clock == HTW_BASE_REALTIME))
		now = htw_base_check_clock(base, now);
	tick = htw_tick(base, now);
	if (likely(base->wheel.cursor == tick + 1))
		return now;
	return htw_base_catch_up(base, now, tick);
}

/**
 * htw_base_touch_now() - as htw_base_touch(), for who does not know the time
 * @base: the base, on CLOCK_MONOTONIC
 *
 * Reading the clock takes as long as all else that starting a node takes, and
 * some ticks more or less do not matter to where a node is put: so once a jiffy.
 */
static inline void htw_base_touch_now(struct htw_base *base)
{
	lockdep_assert_held(&base->lock);

	if (likely(!time_before(base->touched, jiffies)))
		return;
	base->touched = jiffies;
	htw_base_touch(base, htw_base_now(base));
}

/**
 * htw_base_start() - starts a node
 * @base: the base, after htw_base_touch()
 * @n: the node, in no wheel
 * @deadline: when it is due, in ns of the base's clock
 * @slack: how much later it may expire if it shares a tick then, in ns
 * @now: what htw_base_now() returned a short while ago; zero if unknown
 *
 * The node expires at the first tick that is not before its deadline, so never
 * early and at most a tick late; one whose deadline has come by @now expires at
 * once. This never fails and never expires the node itself: one that is due
 * already comes back through the hrtimer.
 */
static inline void htw_base_start(struct htw_base *base, struct htw_node *n, u64 deadline,
				  u64 slack, u64 now)
{
	lockdep_assert_held(&base->lock);

	n->expires = htw_base_tick(base, deadline, slack, now);
	WRITE_ONCE(n->cpu, base->cpu);
	if (unlikely(htw_wheel_start(&base->wheel, n)))
		htw_base_wake(base);
}

/**
 * htw_base_start_later() - starts a node that is not due yet, and has no slack
 * @base: the base, whose CPU has not gone
 * @n: the node, in no wheel
 * @deadline: after what htw_base_touch() has returned
 */
static inline void htw_base_start_later(struct htw_base *base, struct htw_node *n, u64 deadline)
{
	lockdep_assert_held(&base->lock);

	n->expires = htw_tick_up(base, deadline);
	WRITE_ONCE(n->cpu, base->cpu);
	if (unlikely(htw_wheel_start_later(&base->wheel, n)))
		htw_base_wake(base);
}

/**
 * htw_base_stop() - stops a node
 * @base: the base whose wheel it is in
 * @n: the node
 */
static inline void htw_base_stop(struct htw_base *base, struct htw_node *n)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_stop(&base->wheel, n);
}

/**
 * htw_base_restart() - moves a node to another deadline
 * @base: the base whose wheel it is in, after htw_base_touch()
 * @n: the node
 * @deadline: as for htw_base_start()
 * @slack: as for htw_base_start()
 * @now: as for htw_base_start()
 *
 * Return: true if the node is started again, on the same wheel. False if it is
 * stopped, and has to be started on the wheel of this CPU: it is due before
 * @base, another CPU's, would come back, and we do not program that hrtimer.
 */
static inline bool htw_base_restart(struct htw_base *base, struct htw_node *n, u64 deadline,
				    u64 slack, u64 now)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_unlink(&base->wheel, n);
	n->expires = htw_base_tick(base, deadline, slack, now);
	if (unlikely(base->cpu != raw_smp_processor_id()) && !base->private &&
	    htw_wheel_is_ahead(&base->wheel, n->expires)) {
		base->wheel.pending--;
		return false;
	}
	if (unlikely(htw_wheel_link(&base->wheel, n)))
		htw_base_wake(base);
	return true;
}

/**
 * htw_base_restart_later() - moves a node to another deadline, where it is
 * @base: the base whose wheel it is in and on which it would be started now
 * @n: the node, without slack
 * @deadline: after what htw_base_touch() has returned
 */
static inline void htw_base_restart_later(struct htw_base *base, struct htw_node *n, u64 deadline)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_unlink(&base->wheel, n);
	n->expires = htw_tick_up(base, deadline);
	if (unlikely(htw_wheel_link_later(&base->wheel, n)))
		htw_base_wake(base);
}

#endif /* _HTW_BASE_H */
