/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A base: a wheel, its lock and its hrtimer
 */
#ifndef _HTW_BASE_H
#define _HTW_BASE_H

#include <linux/hrtimer.h>
#include <linux/htw_entry.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/overflow.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>

#include "clock.h"
#include "htw_wheel.h"
#include "isolation.h"
#include "pacer.h"

struct htw_bases;

/*
 * Hide locks that are chosen at run time, or tried on PREEMPT_RT, from sparse,
 * which cannot follow them.
 */
#ifdef __CHECKER__
#define htw_lock(lock)		((void)(lock))
#define htw_lock_nested(lock, subclass)	((void)(lock), (void)(subclass))
#define htw_trylock(lock)	((void)(lock), true)
#define htw_unlock(lock)	((void)(lock))
#define htw_trylock_irqsave(lock, flags)	((void)(lock), (flags) = 0, true)
#define htw_unlock_irqrestore(lock, flags)	((void)(lock), (void)(flags))
#else
#define htw_lock(lock)		spin_lock(lock)
#define htw_lock_nested(lock, subclass)	spin_lock_nested(lock, subclass)
#define htw_trylock(lock)	spin_trylock(lock)
#define htw_unlock(lock)	spin_unlock(lock)
#define htw_trylock_irqsave(lock, flags)	spin_trylock_irqsave(lock, flags)
#define htw_unlock_irqrestore(lock, flags)	spin_unlock_irqrestore(lock, flags)
#endif

#define HTW_LATE_BINS	24

/**
 * struct htw_base - a wheel and what drives it
 * @wheel: the timers, in ticks since the clock's zero; first, so that the hot
 *	path needs no offset
 * @lock: guards @wheel, its nodes and all fields below that are not said to be
 *	constant; taken with bottom halves off. Lock order: the base's, then a
 *	context's. Two bases are locked by htw_base_double_lock()
 * @reprogram: the hrtimer has to be reprogrammed when @lock is dropped
 * @wanted: a turn found @lock held and goes on without the base: sections give
 *	way until a turn has had it (set without @lock)
 * @wanted_at: jiffies when @wanted was set (written without @lock)
 * @expiry_lock: held while the functions of callouts run, so that a cancel can
 *	wait for them; taken before @lock
 * @running: the callout whose function runs, or NULL
 * @job: schedules the base with a pacer
 * @hrtimer: programmed for @wheel.next on the CPU of @job.pacer; not running
 *	while there is no work or @job is scheduled
 * @clock: constant
 * @tick_ns: length of a tick; 64 bits, so that no division has to convert it;
 *	constant
 * @cpu: the CPU on which its timers wait; while it is offline, another CPU's
 *	pacer serves the base; constant
 * @private: belongs to one context and not to all of its owner's; constant
 * @owner: the set that it belongs to; constant
 * @levels_bytes: size of the memory of the wheel's levels; constant
 * @skew: its owner's, see htw_base_choose_tick_slow(); zero for %HTW_MANUAL;
 *	constant
 * @link: on the list of its CPU's bases (htw_bases_lock; read under RCU)
 * @gone: on the list of a set's bases that are being freed
 * @forwarded_at: jiffies when a callout's start last brought the base up to the
 *	present
 * @manual_ns: the time of %HTW_MANUAL; written under @lock, read without
 * @due_ns: CLOCK_REALTIME only: the latest time as of which a node was due that
 *	did not wait for its tick
 * @callbacks: runs of the hrtimer's callback, which takes no lock
 * @programs: times that the hrtimer was programmed
 * @exhausted: turns that ended before the work did
 * @rewinds: times that the clock was found to have been set back
 * @late: expirations by how late they were: below 1, 2, 4, ... times 1024 ns
 * @rcu: frees it
 */
struct htw_base {
	struct htw_wheel wheel;
	spinlock_t lock;	/* taken before a context's */
	bool reprogram;
	bool wanted;
	spinlock_t expiry_lock;	/* taken before @lock */
	unsigned long wanted_at;
	struct htw_entry *running;
	struct htw_job job;
	struct hrtimer hrtimer;
	enum htw_clock clock;
	u64 tick_ns;
	unsigned int cpu;
	bool private;
	struct htw_bases *owner;
	size_t levels_bytes;
	u64 skew;
	struct list_head link;
	struct list_head gone;
	unsigned long forwarded_at;
	atomic64_t manual_ns;
	u64 due_ns;
	u64 callbacks;
	u64 programs;
	u64 exhausted;
	u64 rewinds;
	u64 late[HTW_LATE_BINS];
	struct rcu_head rcu;
};

/* The ticks that wheels can have. A manual clock has no hrtimer, so any from 1 ns will do. */
#define HTW_TICK_MIN_NS		(10 * NSEC_PER_USEC)
#define HTW_TICK_MAX_NS		NSEC_PER_SEC

static inline bool htw_tick_is_valid(u64 tick_ns, u64 min_ns)
{
	return tick_ns >= min_ns && tick_ns <= HTW_TICK_MAX_NS;
}

/* Set before the first base is allocated; constant from then on. */
extern struct htw_geometry htw_geometry;
extern u32 htw_tick_ns;

/**
 * struct htw_base_init - what a base is to be
 * @owner: see &struct htw_base, as for the other fields of the same names
 * @clock: its clock
 * @geo: geometry of its wheel
 * @tick_ns: its tick
 * @private: belongs to one context
 * @flows: its owner's flows, of which its job is part
 * @serve: serves it
 * @skew: random bits of its owner
 * @gfp: to allocate it with
 * @node: NUMA node to allocate it on
 */
struct htw_base_init {
	struct htw_bases *owner;
	enum htw_clock clock;
	const struct htw_geometry *geo;
	u32 tick_ns;
	bool private;
	struct htw_flow __percpu *flows;
	htw_serve_t *serve;
	u64 skew;
	gfp_t gfp;
	int node;
};

struct htw_base *htw_base_alloc(const struct htw_base_init *init);
void htw_base_destroy(struct htw_base *base);
void htw_base_free(struct htw_base *base);

void htw_base_double_lock(struct htw_base *a, struct htw_base *b);
void htw_base_double_unlock(struct htw_base *a, struct htw_base *b);

u64 htw_base_now(const struct htw_base *base);
u64 htw_base_turn_now(const struct htw_base *base, const struct htw_turn *turn);
u64 htw_base_forward_slow(struct htw_base *base, u64 now);
u64 htw_base_check_clock(struct htw_base *base, u64 now);
void htw_base_note_due(struct htw_base *base, u64 now);
u64 htw_base_choose_tick_slow(struct htw_base *base, u64 deadline, u64 slack,
			      u64 now);
bool htw_base_wakes_remote(struct htw_base *base, u64 tick);
void htw_base_reprogram(struct htw_base *base);
bool htw_base_begin_turn(struct htw_base *base, const struct htw_turn *turn,
			 enum htw_served *served);
enum htw_served htw_base_end_turn(struct htw_base *base, bool done);

/* The tick of the time @ns. */
static inline u64 htw_base_tick(const struct htw_base *base, u64 ns)
{
	return div64_u64(ns, base->tick_ns);
}

/* The first tick that is not earlier than @ns, which is not zero. */
static inline u64 htw_base_tick_up(const struct htw_base *base, u64 ns)
{
	return htw_base_tick(base, ns - 1) + 1;
}

/**
 * htw_base_forward() - bring a base up to the present
 * @base: the base, whose lock has just been taken to start nodes
 * @now: what htw_base_now() returned a short while ago
 *
 * Inline, as each section and each start of a callout calls it.
 *
 * Return: the time: @now, or later if the wheel's cursor is ahead of @now.
 */
static inline u64 htw_base_forward(struct htw_base *base, u64 now)
{
	lockdep_assert_held(&base->lock);

	if (base->wheel.cursor == htw_base_tick(base, now) + 1)
		return now;
	return htw_base_forward_slow(base, now);
}

/*
 * The tick at which a node with this deadline expires: the first one that is
 * not early, or with @slack one that others with slack choose as well. If the
 * deadline is not after @now (zero if unknown), a tick that has come.
 */
static inline u64 htw_base_choose_tick(struct htw_base *base, u64 deadline,
				       u64 slack, u64 now)
{
	if (deadline <= now || slack)
		return htw_base_choose_tick_slow(base, deadline, slack, now);
	return htw_base_tick_up(base, deadline);
}

/*
 * Start an entry, which is in no wheel, at a tick from htw_base_choose_tick().
 * The base has been brought up to the present by htw_base_forward(). This
 * cannot fail and expires nothing: an entry that is due is delivered by the
 * base's pacer.
 *
 * Return: true if the caller has to call htw_base_reprogram() before it drops
 * the lock.
 */
static inline bool __must_check htw_base_start(struct htw_base *base,
					       struct htw_entry *n, u64 tick)
{
	lockdep_assert_held(&base->lock);

	WRITE_ONCE(n->cpu, base->cpu);
	return htw_wheel_start(&base->wheel, &n->node, tick);
}

static inline void htw_base_stop(struct htw_base *base, struct htw_entry *n)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_stop(&base->wheel, &n->node);
}

/*
 * Move a pending entry to a tick that has not come; drop the lock by
 * htw_base_unlock(). Costs less than htw_base_stop() and htw_base_start().
 */
static inline void htw_base_restart(struct htw_base *base, struct htw_entry *n,
				    u64 tick)
{
	lockdep_assert_held(&base->lock);

	htw_wheel_unlink(&base->wheel, &n->node);
	n->expires = tick;
	if (htw_level_link(&base->wheel, htw_wheel_level(&base->wheel, tick), &n->node))
		base->reprogram = true;
}

/*
 * Drop the lock of a base on which timers may have been started. The hrtimer is
 * programmed here, and so only once, however many of them came ahead of all
 * others.
 */
static inline void htw_base_unlock(struct htw_base *base)
{
	if (base->reprogram)
		htw_base_reprogram(base);
	htw_unlock(&base->lock);
}

#endif /* _HTW_BASE_H */
