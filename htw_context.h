/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context: what one open() of /dev/htw holds, and what can be done with it
 *
 * Nothing here touches user memory; that is htw_chardev.c's.
 */
#ifndef _HTW_CONTEXT_H
#define _HTW_CONTEXT_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/htw.h>

#include "htw_timer.h"
#include "htw_user.h"

/**
 * struct htw_context - what one open() of /dev/htw holds
 * @lock: guards what is said below; taken with bottom halves off, inside a
 *	base's lock
 * @expired: timers that expired and wait to be read, in firing order (@lock)
 * @rearm: timers to be armed again (@lock)
 * @free: timers that can be reserved (@lock)
 * @nr_expired: how many are on @expired (@lock)
 * @nr_timers: how many are not free (@lock)
 * @limit: the most that @nr_timers may be; never changes
 * @wait: for an expiration
 * @wake_queued: on the list of a &struct htw_delivery (@lock)
 * @wake_next: the next one there (whoever set @wake_queued)
 * @fasync: whom to send SIGIO (fasync_helper() guards it)
 * @grow: serialises growing; nothing is locked inside but @lock
 * @nr_chunks: how many chunks there are (@grow)
 * @dir: the chunks, in pages of pointers (written under @grow, read without)
 * @used: it has had a timer that was armed (@lock, or a timer of its own)
 * @clock: the clock of all its timers (settled before the first timer, @lock)
 * @own: its private base, or NULL (settled before the first timer)
 * @home: the CPU that its timers wait on, or -1 (settled before the first timer)
 * @setup: what of this the program asked for, of &enum htw_setup_flag (@lock)
 * @timens_monotonic: @timens for CLOCK_MONOTONIC; never changes
 * @timens_boottime: @timens for CLOCK_BOOTTIME; never changes
 * @timens: ns that the opener's time namespace is ahead of the clock (settled
 *	before the first timer)
 * @user: whom its timers count for; never changes
 * @free_work: frees all this a grace period after close
 *
 * Chunks are added, and go with the context only, so a timer that was found
 * stays memory of the same kind for as long as the file is held.
 */
struct htw_context {
	spinlock_t lock;	/* order: a base's, then this */
	struct list_head expired;
	struct list_head rearm;
	struct list_head free;
	u32 nr_expired;
	u32 nr_timers;
	u32 limit;
	wait_queue_head_t wait;
	bool wake_queued;
	struct htw_context *wake_next;
	struct fasync_struct *fasync;
	struct mutex grow;	/* order: this, then @lock */
	u32 nr_chunks;
	struct htw_chunk ***dir;
	bool used;
	enum htw_clock clock;
	struct htw_base *own;
	int home;
	u32 setup;
	s64 timens_monotonic;
	s64 timens_boottime;
	s64 timens;
	struct htw_user *user;
	struct rcu_work free_work;
};

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

static inline u32 htw_context_chunks(const struct htw_context *ctx)
{
	/* Pairs with htw_context_grow(): a chunk that counts is there. */
	return smp_load_acquire(&ctx->nr_chunks);
}

/* On a manual clock? If so, the context's own base is there. */
static inline bool htw_context_is_still(const struct htw_context *ctx)
{
	/* Pairs with htw_setup_publish(). */
	return smp_load_acquire(&ctx->clock) == HTW_CLOCK_STILL;
}

/* The base that a timer should be started on; bottom halves are off. */
static inline struct htw_base *htw_context_base(const struct htw_context *ctx)
{
	return ctx->own ?: htw_base_here(ctx->clock, ctx->home);
}

/*
 * The base whose lock guards a timer, if it is pending. Once the lock is taken,
 * htw_timer_pending_on() tells whether that was right.
 */
static inline struct htw_base *htw_context_base_of(const struct htw_context *ctx,
						   const struct htw_timer *t)
{
	return ctx->own ?: per_cpu(htw_bases[ctx->clock], READ_ONCE(t->node.cpu));
}

/**
 * struct htw_run - a run of operations, carried out with bottom halves off
 * @ctx: the context that it is on
 * @base: the base whose lock is held, or NULL
 * @now: the time as of which all of the run is done, in ns
 * @freed: timers that were freed, to be given back at the end
 * @nr_freed: how many
 * @rearm: some timers are on &htw_context.rearm because of this run
 */
struct htw_run {
	struct htw_context *ctx;
	struct htw_base *base;
	u64 now;
	struct list_head freed;
	u32 nr_freed;
	bool rearm;
};

/**
 * struct htw_delivery - a run of expirations
 * @context: the context whose lock is held, or NULL
 * @wake: contexts whose waiters are to be woken up, linked by
 *	&htw_context.wake_next
 * @late: the counters of &htw_base.late
 * @expired: how many timers were delivered
 */
struct htw_delivery {
	struct htw_context *context;
	struct htw_context *wake;
	u64 *late;
	u64 expired;
};

#define HTW_DIR_PAGE		512u
#define HTW_CONTEXT_MAX		(HTW_DIR_PAGE * HTW_DIR_PAGE * HTW_CHUNK_TIMERS)

extern unsigned int htw_max_timers;

int htw_context_init(void);
void htw_context_exit(void);

struct htw_context *htw_context_alloc(u32 limit);
int htw_context_setup(struct htw_context *ctx, const struct htw_setup *setup);
void htw_context_close(struct htw_context *ctx);

int htw_context_reserve(struct htw_context *ctx, struct list_head *timers, u32 want);
void htw_context_unreserve(struct htw_context *ctx, struct list_head *timers);
struct htw_timer *htw_context_find(struct htw_context *ctx, u64 id);

void htw_run_begin(struct htw_run *run, struct htw_context *ctx);
void htw_run_lock(struct htw_run *run, struct htw_base *base);
void htw_run_lock_here(struct htw_run *run);
void htw_run_arm(struct htw_run *run, struct htw_timer *t);
void htw_timer_arm(struct htw_run *run, struct htw_timer *t);
u64 htw_context_advance(struct htw_context *ctx, u64 to);
void htw_run_add(struct htw_run *run, struct htw_timer *t, const struct htw_add *add);
int htw_run_cancel(struct htw_run *run, struct htw_cancel *cancel);
int htw_run_mod(struct htw_run *run, const struct htw_mod *mod);
int htw_run_query(struct htw_run *run, struct htw_query *query);
enum htw_timer_state htw_run_lock_timer(struct htw_run *run, const struct htw_timer *t);
void htw_run_unlock_timer(struct htw_run *run, enum htw_timer_state state);
void htw_run_end(struct htw_run *run);

u64 htw_sweep_cancel(struct htw_context *ctx, u32 chunk, u32 flags);
u32 htw_sweep_pending(struct htw_context *ctx, u32 *slot, struct htw_query *entries,
		      u32 room, struct list_head *taken);
void htw_sweep_put_back(struct htw_context *ctx, struct list_head *taken);

u32 htw_context_peek(struct htw_context *ctx, struct htw_event *events, u32 count, u64 now);
void htw_context_take(struct htw_context *ctx, u32 count, u64 now);
void htw_context_rearm(struct htw_context *ctx);

void htw_delivery_begin(struct htw_delivery *d, u64 *late);
void htw_deliver(struct htw_delivery *d, struct htw_node *n, u64 now);
void htw_delivery_pause(struct htw_delivery *d);
void htw_delivery_wake(struct htw_delivery *d);

#endif /* _HTW_CONTEXT_H */
