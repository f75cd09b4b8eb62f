/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context: what one open of /dev/htw has
 */
#ifndef _HTW_CONTEXT_H
#define _HTW_CONTEXT_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include "base.h"
#include "ids.h"

struct htw_user;

/*
 * Memory that is charged as it is held: at the cgroup's limit ENOMEM, not the
 * OOM killer. And for a call that must not sleep, which does not wait for
 * &htw_context.mutex either: EAGAIN if there is none.
 */
#define HTW_GFP			(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)
#define HTW_GFP_NOWAIT		(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)
/* The same as @gfp for memory that a call can do without: do not try hard. */
#define HTW_GFP_EASY(gfp)	(((gfp) & ~__GFP_RETRY_MAYFAIL) | __GFP_NORETRY)

/**
 * struct htw_context - what one open of /dev/htw has
 * @user: to whom it is charged; never changes
 * @clock: of all deadlines; final with the first base
 * @tick_ns: of all bases; final with the first base
 * @manual: the time on the manual clock, in ns (written under @mutex)
 * @first: the base that was made first, or NULL; set once (@mutex; read
 *	without)
 * @others: bases by the CPU, @first as well, or NULL as long as that is the
 *	only one; set once, and each entry once (@mutex; read without)
 * @nr_bases: how many there are
 * @turn: the base from which the next read goes on
 * @ids: the timers and their ids
 * @charged: for what its user is charged, in slots of timers
 * @mutex: taken to make a base or a page, to give pages back, to set up, and to
 *	advance a manual clock. Outermost
 * @geo: geometry of its wheels, when they have levels; final with the first
 *	base
 * @setup_flags: those of HTW_SETUP; final with the first base (@mutex)
 * @is_set_up: it has succeeded (@mutex)
 * @wait: who polls
 * @readers: tasks that block in read()
 * @fasync: who is to get SIGIO
 * @pins: holders: the file, alarms' callbacks and work items (taken under the
 *	alarm's lock)
 * @cost: what the last wake-up of its poll queue took, in ns; zero if it has had
 *	none
 */
struct htw_context {
	struct htw_user *user;
	enum htw_clock clock;
	u64 tick_ns;
	u64 manual;
	struct htw_base *first;
	struct htw_base **others;
	u32 nr_bases;
	u32 turn;
	struct htw_ids ids;
	atomic_t charged;
	struct mutex mutex;	/* outermost */
	struct htw_geometry geo;
	u32 setup_flags;
	bool is_set_up;
	wait_queue_head_t wait;
	wait_queue_head_t readers;
	struct fasync_struct *fasync;
	atomic_t pins;
	u32 cost;
};

extern struct kmem_cache *htw_base_cache;
extern unsigned int htw_tick_us;
extern unsigned int htw_max_timers;

int htw_contexts_init(void);
void htw_contexts_exit(void);
struct htw_context *htw_context_open(void);
void htw_context_free(struct htw_context *ctx);
void htw_context_unpin(struct htw_context *ctx);
u64 htw_context_next(const struct htw_context *ctx);
u32 htw_context_timers(const struct htw_context *ctx);
bool htw_context_has_work(const struct htw_context *ctx);
struct htw_base *htw_context_base_of(const struct htw_context *ctx, unsigned int index);
struct htw_base *htw_context_base_from(const struct htw_context *ctx, unsigned int *index);
bool htw_context_charge(struct htw_context *ctx, size_t bytes);
void htw_context_uncharge(struct htw_context *ctx, size_t bytes);

/*
 * Take a context's mutex; htw_pages_unlock() drops it. Return: 0; -EINTR if the
 * task is killed; -EAGAIN if it would have to sleep, and @gfp says no.
 */
static inline int htw_context_lock(struct htw_context *ctx, gfp_t gfp)
{
	if (gfpflags_allow_blocking(gfp))
		return mutex_lock_killable(&ctx->mutex);
	return mutex_trylock(&ctx->mutex) ? 0 : -EAGAIN;
}

/* The error of a call that got no memory. */
static inline int htw_no_memory(gfp_t gfp)
{
	return gfpflags_allow_blocking(gfp) ? -ENOMEM : -EAGAIN;
}

/* The time on a context's clock, in ns. */
static inline u64 htw_context_now(const struct htw_context *ctx)
{
	return likely(ctx->clock != HTW_MANUAL) ? htw_clock_now(ctx->clock) :
						  READ_ONCE(ctx->manual);
}

/* The base in which a timer probably is; NULL if there is none. */
static inline struct htw_base *htw_context_guess(const struct htw_context *ctx)
{
	/* Pairs with htw_bases_make(): the settings are read after that. */
	struct htw_base *first = smp_load_acquire(&ctx->first);
	unsigned int cpu = raw_smp_processor_id();
	struct htw_base **others;

	if (unlikely(!first))
		return NULL;
	others = READ_ONCE(ctx->others);
	if (likely(!others))
		return first;
	return READ_ONCE(others[cpu]) ?: first;
}

/* Walk over the bases of a context; one that is added meanwhile may be met. */
#define htw_context_for_each_base(ctx, base)				\
	for (unsigned int __index = 0;					\
	     ((base) = htw_context_base_from(ctx, &__index)); __index++)

#endif /* _HTW_CONTEXT_H */
