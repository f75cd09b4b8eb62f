/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context: the timers, queue and settings of one open() of /dev/htw
 */
#ifndef _HTW_CONTEXT_H
#define _HTW_CONTEXT_H

#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/htw.h>

#include "directory.h"
#include "ring.h"
#include "timer.h"
#include "user.h"

#define HTW_CONTEXT_MAX		(HTW_DIRECTORY_MAX * HTW_PAGE_TIMERS)

/* Lists of free timers, one for each group of CPUs. */
#define HTW_FREE_LISTS		8u

/**
 * enum htw_wake_pace - how long waking one of a context's waiters takes
 * @HTW_WAKE_UNKNOWN: none was woken yet
 * @HTW_WAKE_QUICK: none has taken long so far, or in the last whole walk
 * @HTW_WAKE_DOUBTED: one took long for the first time: something else may have had the CPU
 * @HTW_WAKE_SLOW: one took long again, and no whole walk without such followed
 */
enum htw_wake_pace {
	HTW_WAKE_UNKNOWN,
	HTW_WAKE_QUICK,
	HTW_WAKE_DOUBTED,
	HTW_WAKE_SLOW,
};

/**
 * struct htw_context - what one open() of /dev/htw holds
 * @lock: guards the fields marked (@lock); taken with bottom halves off, inside
 *	a base's lock
 * @expired: expired timers that wait to be read, in firing order (@lock)
 * @rearm: timers to be started again (@lock)
 * @free: free timers by the group of CPUs that freed them (CPU modulo
 *	%HTW_FREE_LISTS), so that threads reuse timers in their own caches
 *	(@lock)
 * @free_groups: bitmap of the lists of @free that may not be empty (@lock)
 * @unused: first timer of the newest page that was never used (@lock)
 * @nr_unused: number of those (@lock)
 * @unused_generation: generation that they start with (@lock)
 * @nr_expired: length of @expired (written under @lock)
 * @nr_timers: timers that are not free (@lock)
 * @shrink_below: when @nr_timers falls below this, pages may be given back
 *	(@lock)
 * @limit: upper bound of @nr_timers (settled before the first timer)
 * @wait: wait queue of poll() and epoll
 * @readers: wait queue of blocked read() calls, which wait exclusively
 * @wake_mark: entry on @wait where a walk of its waiters continues; on no list
 *	while none is under way (@wait.lock)
 * @wake_again: events came since the walk began (@wait.lock)
 * @wake_was_slow: in this walk, or in the last one, a waiter took long
 *	(@wait.lock)
 * @wake_rest: entry on @wait behind the waiter that the last walk has woken
 *	alone: others may be asleep there; on no list if there was none (@wait.lock)
 * @wake_alone: is @wake_rest on the list? (written under @wait.lock)
 * @wake_pace: what is known of its waiters (@wait.lock)
 * @wake_job: continues a long walk
 * @sigio: recipients of SIGIO
 * @grow: serialises adding and removing pages; only @lock is taken inside it
 * @nr_pages: directory entries that were ever used, including empty ones; never
 *	falls (@grow)
 * @table: timers have overrides in a table of deadlines and are kept; never
 *	reset (written under @grow and @lock)
 * @table_ready: @table is set, and no section is left that began before
 *	(written under @grow)
 * @nr_allocated: number of pages (written under @grow and @lock)
 * @prealloc: pages allocated ahead (@grow)
 * @nr_prealloc: number of those (@grow)
 * @charged: timers that @user is charged for, by pages (@grow)
 * @partial: one of the pages is charged for fewer timers than it holds (@grow)
 * @first_empty: no entry of @dir below this one is empty (@grow)
 * @generation: generation that new timers start with; no timer that was freed
 *	with its page had a higher one (@grow)
 * @dir: the pages by number (pointer and entries are written under @grow, read
 *	under RCU)
 * @shrinking: @shrink is queued or has not finished (@lock)
 * @shrink_delay: jiffies from a fall in use to the search for unused pages
 *	(@lock)
 * @shrink_marked: pages have been marked (only used by @shrink)
 * @shrink_gp: grace period that started then (only used by @shrink)
 * @shrink: work item that gives pages back, see shrink.c
 * @settled: a timer was or is about to be armed, so the settings are final
 *	(@lock, or by the owner of a reserved timer)
 * @clock: the clock of all its timers (settled before the first timer, @lock)
 * @private_base: its private base, or NULL (settled before the first timer)
 * @bases: its user's bases for @clock, per CPU; an entry is NULL until it is
 *	made (settled before the first timer)
 * @cpu: CPU on which its timers wait, or -1 (settled before the first timer)
 * @ring: the ring for programs to map, or NULL (settled before the first timer)
 * @setup: the &enum htw_setup_flag that were used (@lock)
 * @timens_monotonic: offset of the opener's time namespace for CLOCK_MONOTONIC,
 *	in ns; constant
 * @timens_boottime: the same for CLOCK_BOOTTIME; constant
 * @timens: the offset that applies to @clock (settled before the first timer)
 * @user: user that is charged for the memory; constant
 * @listens: may have timers with %HTW_TIMER_CANCEL_ON_SET
 * @listener: on &htw_user.listeners (&htw_user.listeners_mutex)
 * @sets_seen: htw_clock_sets_count() at the last walk of its timers
 *	(&htw_user.clock_work)
 * @stopped: closed and without timers; to be freed (&htw_user.free_work)
 * @closed: on &htw_user.closed
 * @rcu: puts it there again when it can be freed
 *
 * A page without a timer in use may be freed at any time. Code that found a
 * timer without a lock may read it while bottom halves are off.
 */
struct htw_context {
	spinlock_t lock;	/* order: a base's, then this */
	struct list_head expired;
	struct list_head rearm;
	struct list_head free[HTW_FREE_LISTS];
	unsigned long free_groups;
	struct htw_timer *unused;
	u32 nr_unused;
	u32 unused_generation;
	u32 nr_expired;
	u32 nr_timers;
	u32 shrink_below;
	u32 limit;
	wait_queue_head_t wait;
	wait_queue_head_t readers;
	wait_queue_entry_t wake_mark;
	wait_queue_entry_t wake_rest;
	bool wake_again;
	bool wake_was_slow;
	bool wake_alone;
	enum htw_wake_pace wake_pace;
	struct htw_job wake_job;
	struct htw_sigio sigio;
	struct mutex grow;	/* order: this, then @lock */
	u32 nr_pages;
	bool table;
	bool table_ready;
	u32 nr_allocated;
	struct htw_page *prealloc;
	u32 nr_prealloc;
	u32 charged;
	bool partial;
	u32 first_empty;
	u32 generation;
	struct htw_directory __rcu *dir;
	bool shrinking;
	int shrink_delay;
	bool shrink_marked;
	unsigned long shrink_gp;
	struct delayed_work shrink;
	bool settled;
	enum htw_clock clock;
	struct htw_base *private_base;
	struct htw_base *__percpu *bases;
	int cpu;
	struct htw_event_ring *ring;
	u32 setup;
	s64 timens_monotonic;
	s64 timens_boottime;
	s64 timens;
	struct htw_user *user;
	bool listens;
	struct list_head listener;
	u32 sets_seen;
	bool stopped;
	struct llist_node closed;
	struct rcu_head rcu;
};

u32 htw_context_tick_ns(const struct htw_context *ctx);
u64 htw_context_shift_time(u64 ns, s64 by);
bool htw_context_listens(const struct htw_context *ctx);
struct htw_page __rcu **htw_context_entry(const struct htw_context *ctx,
					  u32 page);
struct htw_page *htw_context_page(const struct htw_context *ctx, u32 page);
struct htw_base *htw_context_create_base(const struct htw_context *ctx);
struct htw_base *htw_context_base_of(const struct htw_context *ctx,
				     const struct htw_timer *t);

/* Change the length of @ctx->expired, at which others look without the lock. */
static inline void htw_context_add_expired(struct htw_context *ctx, s32 nr)
{
	lockdep_assert_held(&ctx->lock);

	WRITE_ONCE(ctx->nr_expired, ctx->nr_expired + nr);
}

/* Each operation and delivery calls these: inline for that (docs/performance.md). */

/* Convert from the time of the opener's time namespace to the clock's. U64_MAX (never) stays. */
static inline u64 htw_context_to_host(const struct htw_context *ctx, u64 ns)
{
	return likely(!ctx->timens) ? ns : htw_context_shift_time(ns, -ctx->timens);
}

static inline u64 htw_context_from_host(const struct htw_context *ctx, u64 ns)
{
	return likely(!ctx->timens) ? ns : htw_context_shift_time(ns, ctx->timens);
}

static inline u64 htw_context_now(const struct htw_context *ctx)
{
	const struct htw_base *base = READ_ONCE(ctx->private_base);

	return htw_context_from_host(ctx, base ? htw_base_now(base) :
						 htw_clock_now(ctx->clock));
}

static inline u32 htw_context_pages(const struct htw_context *ctx)
{
	/* Pairs with htw_pool_grow(): a page below the count is in the directory. */
	return smp_load_acquire(&ctx->nr_pages);
}

/* Are the context's settings final, because a timer has been or is about to be armed? */
static inline bool htw_context_is_settled(const struct htw_context *ctx)
{
	/* Pairs with htw_context_settle(): the settings are visible. */
	return smp_load_acquire(&ctx->settled);
}

/*
 * Make the settings final; a timer has been reserved. HTW_SETUP changes nothing
 * from then on, which it checks under @ctx->lock; what it changed before is
 * visible here.
 */
static inline void htw_context_settle(struct htw_context *ctx)
{
	/* Pairs with htw_context_is_settled(). */
	smp_store_release(&ctx->settled, true);
}

/* Is the context on a manual clock? Then @private_base is set. */
static inline bool htw_context_is_manual(const struct htw_context *ctx)
{
	/* Pairs with htw_setup_publish(). */
	return smp_load_acquire(&ctx->clock) == HTW_MANUAL;
}

/* A timer's override in the table of deadlines; zero where there is none. */
static inline u64 htw_context_override(const struct htw_context *ctx,
				       const struct htw_timer *t)
{
	return unlikely(READ_ONCE(ctx->table)) ? htw_timer_override(t) : 0;
}

/* Clear it before the timer is armed for a new deadline. */
static inline void htw_context_clear_override(const struct htw_context *ctx,
					      const struct htw_timer *t)
{
	if (READ_ONCE(ctx->table))
		htw_timer_clear_override(t);
}

/* The CPU on which a timer that is started now should wait. */
static inline unsigned int htw_context_cpu(const struct htw_context *ctx)
{
	return ctx->cpu == -1 ? htw_isolation_target_cpu() : ctx->cpu;
}

/*
 * The base on which a timer should be started, or NULL until
 * htw_context_create_base() has made it. Bottom halves are off.
 */
static inline struct htw_base *htw_context_base(const struct htw_context *ctx)
{
	/* Pairs with htw_bases_publish(), by the address dependency. */
	return ctx->private_base ?: READ_ONCE(*per_cpu_ptr(ctx->bases, htw_context_cpu(ctx)));
}

/*
 * The number of the ring's next event, or zero without a ring. Events of timers
 * that have been cancelled come before it.
 */
static inline u32 htw_context_ring_tail(struct htw_context *ctx)
{
	/* Pairs with htw_setup_publish(). */
	const struct htw_event_ring *ring = smp_load_acquire(&ctx->ring);
	u32 tail;

	if (!ring)
		return 0;
	spin_lock_bh(&ctx->lock);
	tail = ring->tail;
	spin_unlock_bh(&ctx->lock);
	return tail;
}

#endif /* _HTW_CONTEXT_H */
