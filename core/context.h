/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context: what one open() of /dev/htw holds, and what can be done with it
 *
 * Nothing here touches user memory; that is htw_chardev.c's.
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

/* CPUs that keep what they free apart; beyond that, some share. */
#define HTW_FREE_LISTS		8u

/**
 * struct htw_context - what one open() of /dev/htw holds
 * @lock: guards what is said below; taken with bottom halves off, inside a
 *	base's lock
 * @expired: timers that expired and wait to be read, in firing order (@lock)
 * @rearm: timers to be armed again (@lock)
 * @free: timers that can be reserved again, by the CPU that freed them: threads on
 *	CPUs of their own then keep to timers that are in their caches (@lock)
 * @free_cpus: a bit for each of @free that may not be empty (@lock)
 * @unused: first timer of the newest page that was never used (@lock)
 * @nr_unused: number of those (@lock)
 * @unused_generation: generation that they start with (@lock)
 * @nr_expired: how many are on @expired (@lock)
 * @nr_timers: how many are not free (@lock)
 * @shrink_below: if @nr_timers falls below this, memory may be given back (@lock)
 * @limit: the most that @nr_timers may be (settled before the first timer)
 * @wait: poll() and epoll wait here for an expiration
 * @readers: blocked read() calls wait here, exclusively
 * @waking: @wait is being walked (its lock)
 * @wake_again: there were expirations since that began (its lock)
 * @wake_mark: where the walk goes on; on @wait's list meanwhile (its lock)
 * @wake_job: goes on with a walk that was too long; its pacer is whose CPU began it
 * @wake_queued: on the list of a &struct htw_delivery (@lock)
 * @wake_next: the next one there (whoever set @wake_queued)
 * @fasync: whom to send SIGIO (fasync_helper() guards it)
 * @sigio: sends it
 * @grow: serialises growing and giving back; nothing is locked inside but @lock
 * @nr_pages: directory entries that were ever used, including empty ones; never
 *	falls (@grow)
 * @table: its timers have words in a table of deadlines, and are kept, once and
 *	for all (written under @grow and @lock)
 * @table_is_known: and all runs that did not know of it are over (written under @grow)
 * @nr_allocated: number of pages (written under @grow and @lock)
 * @prealloc: pages allocated ahead (@grow)
 * @nr_prealloc: number of those (@grow)
 * @first_empty: no entry of @dir below this one is empty (@grow)
 * @generation: generation that new timers start with; no timer that was freed with its
 *	page had a higher one (@grow)
 * @dir: the pages by number (pointer and entries are written under @grow, read under RCU)
 * @shrinking: @shrink has been queued, and has not come to its end (@lock)
 * @shrink_delay: jiffies from a fall in use to looking for pages (@lock)
 * @shrink_marked: pages have been marked (@shrink's own)
 * @shrink_gp: the grace period that began then (@shrink's own)
 * @shrink: gives pages back, see shrink.c
 * @used: it has had a timer that was armed, or is about to be: its shape is settled
 *	(@lock, or a timer that is reserved)
 * @clock: the clock of all its timers (settled before the first timer, @lock)
 * @own: its private base, or NULL (settled before the first timer)
 * @bases: its user's bases for @clock, by CPU; those that have been made (settled
 *	before the first timer)
 * @cpu: the CPU that its timers wait on, or -1 (settled before the first timer)
 * @ring: the ring that programs can map, or NULL (settled before the first timer)
 * @setup: what of this the program asked for, of &enum htw_setup_flag (@lock)
 * @timens_monotonic: @timens for CLOCK_MONOTONIC; never changes
 * @timens_boottime: @timens for CLOCK_BOOTTIME; never changes
 * @timens: ns that the opener's time namespace is ahead of the clock (settled
 *	before the first timer)
 * @user: whom its timers count for; never changes
 * @listens: it may have timers with %HTW_TIMER_CANCEL_ON_SET: clock_was_set.c
 * @listener: on the list of those that do (that file's mutex)
 * @set_work: walks its timers when CLOCK_REALTIME has been set
 * @sets_seen: as of which htw_clock_sets_count() that was last done (@set_work)
 * @free_work: frees all this a grace period after close
 *
 * A page of which no timer is in use may go at any time; who found a timer
 * without a lock may read it for as long as bottom halves stay off.
 */
struct htw_context {
	spinlock_t lock;	/* order: a base's, then this */
	struct list_head expired;
	struct list_head rearm;
	struct list_head free[HTW_FREE_LISTS];
	unsigned long free_cpus;
	struct htw_timer *unused;
	u32 nr_unused;
	u32 unused_generation;
	u32 nr_expired;
	u32 nr_timers;
	u32 shrink_below;
	u32 limit;
	wait_queue_head_t wait;
	wait_queue_head_t readers;
	bool waking;
	bool wake_again;
	wait_queue_entry_t wake_mark;
	struct htw_job wake_job;
	bool wake_queued;
	struct htw_context *wake_next;
	struct fasync_struct *fasync;
	struct delayed_work sigio;
	struct mutex grow;	/* order: this, then @lock */
	u32 nr_pages;
	bool table;
	bool table_is_known;
	u32 nr_allocated;
	struct htw_page *prealloc;
	u32 nr_prealloc;
	u32 first_empty;
	u32 generation;
	struct htw_directory __rcu *dir;
	bool shrinking;
	int shrink_delay;
	bool shrink_marked;
	unsigned long shrink_gp;
	struct delayed_work shrink;
	bool used;
	enum htw_clock clock;
	struct htw_base *own;
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
	struct work_struct set_work;
	u32 sets_seen;
	struct rcu_work free_work;
};

/* This CPU's &htw_context.free, to take timers from. */
static inline struct list_head *htw_slots_alloc_list(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->lock);

	return &ctx->free[raw_smp_processor_id() % HTW_FREE_LISTS];
}

/* The same, to put timers there. */
static inline struct list_head *htw_slots_free_list(struct htw_context *ctx)
{
	const unsigned int here = raw_smp_processor_id() % HTW_FREE_LISTS;

	lockdep_assert_held(&ctx->lock);

	ctx->free_cpus |= BIT(here);
	return &ctx->free[here];
}

static inline u32 htw_context_tick_ns(const struct htw_context *ctx)
{
	return ctx->own ? ctx->own->tick_ns : htw_tick_ns;
}

/*
 * A context's times are those of its opener's time namespace; its base's are
 * the clock's own. U64_MAX is never, in both.
 */
static inline u64 htw_shift_time(u64 ns, s64 by)
{
	if (likely(!by))
		return ns;
	if (by < 0)
		return ns == U64_MAX ? ns : ns - min(ns, (u64)-by);
	return htw_add_saturated(ns, by);
}

static inline u64 htw_context_to_host(const struct htw_context *ctx, u64 ns)
{
	return htw_shift_time(ns, -ctx->timens);
}

static inline u64 htw_context_from_host(const struct htw_context *ctx, u64 ns)
{
	return htw_shift_time(ns, ctx->timens);
}

static inline u64 htw_context_now(const struct htw_context *ctx)
{
	const struct htw_base *own = READ_ONCE(ctx->own);

	return htw_context_from_host(ctx, own ? htw_base_now(own) : htw_clock_now(ctx->clock));
}

static inline u32 htw_context_pages(const struct htw_context *ctx)
{
	/* Pairs with htw_slots_grow(): a page that counts is there. */
	return smp_load_acquire(&ctx->nr_pages);
}

/* A page's place in the directory; it has been seen to count, and @grow is held. */
static inline struct htw_page __rcu **htw_context_entry(const struct htw_context *ctx, u32 page)
{
	return &rcu_dereference_protected(ctx->dir, lockdep_is_held(&ctx->grow))->pages[page];
}

/*
 * A page or &htw_no_page, for whoever knows by other means that the page stays;
 * its number has been seen to count.
 */
static inline struct htw_page *htw_context_page(const struct htw_context *ctx, u32 page)
{
	const struct htw_directory *dir;
	struct htw_page *found;

	/* Growing may replace the directory at any time. */
	rcu_read_lock();
	dir = rcu_dereference(ctx->dir);
	found = rcu_dereference(dir->pages[page & dir->mask]);
	rcu_read_unlock();
	return found;
}

/* May it have timers with %HTW_TIMER_CANCEL_ON_SET? */
static inline bool htw_context_listens(const struct htw_context *ctx)
{
	/* Pairs with htw_clock_was_set_listen(). */
	return smp_load_acquire(&ctx->listens);
}

/* On a manual clock? If so, the context's own base is there. */
static inline bool htw_context_is_manual(const struct htw_context *ctx)
{
	/* Pairs with htw_setup_publish(). */
	return smp_load_acquire(&ctx->clock) == HTW_BASE_MANUAL;
}

/* A timer's word in the table of deadlines; zero, as armed, where there is none. */
static inline u64 htw_context_override(const struct htw_context *ctx, const struct htw_timer *t)
{
	return unlikely(READ_ONCE(ctx->table)) ? htw_timer_override(t) : 0;
}

/* A timer is about to be armed for a new deadline. */
static inline void htw_context_clear_override(const struct htw_context *ctx,
					      const struct htw_timer *t)
{
	if (unlikely(READ_ONCE(ctx->table)))
		htw_timer_clear_override(t);
}

/*
 * How far events of timers that have been cancelled may stand in the ring: none that is
 * pushed from now on is one of theirs. Zero where there is no ring.
 */
static inline u32 htw_context_ring_tail(struct htw_context *ctx)
{
	/* Pairs with htw_setup_publish(). */
	const struct htw_event_ring *ring = smp_load_acquire(&ctx->ring);
	u32 tail;

	if (likely(!ring))
		return 0;
	spin_lock_bh(&ctx->lock);
	tail = ring->tail;
	spin_unlock_bh(&ctx->lock);
	return tail;
}

/* The CPU on which a timer that is started now should wait. */
static inline unsigned int htw_context_cpu(const struct htw_context *ctx)
{
	return unlikely(ctx->cpu >= 0) ? ctx->cpu : htw_target_cpu();
}

/*
 * The base that a timer should be started on; bottom halves are off. NULL where it
 * has to be made first, by htw_context_create_base().
 */
static inline struct htw_base *htw_context_base(const struct htw_context *ctx)
{
	/* Pairs with htw_base_create(), by the address. */
	return ctx->own ?: READ_ONCE(*per_cpu_ptr(ctx->bases, htw_context_cpu(ctx)));
}

/*
 * Makes the base that a timer should be started on, if it is not there. Returns that
 * one, or where it cannot be made any other that will do. May sleep.
 */
static inline struct htw_base *htw_context_create_base(const struct htw_context *ctx)
{
	return ctx->own ?: htw_base_create(ctx->user, ctx->clock, htw_context_cpu(ctx));
}

/*
 * The base whose lock guards a timer, if it is pending. Once the lock is taken,
 * check with htw_timer_pending_on() that the timer has not moved meanwhile.
 */
static inline struct htw_base *htw_context_base_of(const struct htw_context *ctx,
						   const struct htw_timer *t)
{
	return ctx->own ?: READ_ONCE(*per_cpu_ptr(ctx->bases, READ_ONCE(t->node.cpu)));
}

/* For work of contexts that may take long. */
extern struct workqueue_struct *htw_wq;

#endif /* _HTW_CONTEXT_H */
