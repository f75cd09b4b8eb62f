/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A context: what one open of /dev/htw has
 */
#ifndef _HTW_CONTEXT_H
#define _HTW_CONTEXT_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include "base.h"
#include "clock.h"
#include "ids.h"

struct htw_user;

/**
 * struct htw_context - what one open of /dev/htw has
 * @user: to whom it is charged; never changes
 * @clock: of all deadlines; final with the first base
 * @tick_ns: of all bases; final with the first base
 * @first: the base that was made first, or NULL; set once (@mutex; read
 *	without)
 * @others: bases by the CPU, or NULL as long as @first is the only one; set
 *	once, and each entry once (@mutex; read without)
 * @nr_bases: how many there are
 * @work: a bit for each base at which somebody should look; with others than
 *	@first an array
 * @one: @work of @first alone
 * @turn: the base from which the next read goes on
 * @ids: the timers and their ids
 * @mutex: taken to make a base or a page, and to set up. Outermost
 * @setup: HTW_SETUP has succeeded (@mutex)
 * @wait: who polls
 * @readers: tasks that block in read()
 * @fasync: who is to get SIGIO
 * @pins: holders other than the file: the alarm's callback and the work item
 * @todo: what the work item is to do, of &enum htw_why (htw_lanes_lock)
 * @wake: in &htw_user.waiting (htw_lanes_lock)
 * @took: what the last wake-up of its poll queue took, in ns
 * @costly: what one takes, by the last two
 * @closed: it is woken no more (htw_lanes_lock)
 */
struct htw_context {
	struct htw_user *user;
	enum htw_clock clock;
	u64 tick_ns;
	struct htw_base *first;
	struct htw_base **others;
	u32 nr_bases;
	unsigned long *work;
	unsigned long one;
	u32 turn;
	struct htw_ids ids;
	struct mutex mutex;	/* outermost */
	bool setup;
	wait_queue_head_t wait;
	wait_queue_head_t readers;
	struct fasync_struct *fasync;
	atomic_t pins;
	u32 todo;
	struct list_head wake;
	u32 took;
	u32 costly;
	bool closed;
};

extern unsigned int htw_tick_us;
extern unsigned int htw_max_timers;

int htw_contexts_init(void);
void htw_contexts_exit(void);
struct htw_context *htw_context_open(void);
void htw_context_close(struct htw_context *ctx);
struct htw_base *htw_context_make_base(struct htw_context *ctx);
void htw_context_unpin(struct htw_context *ctx);

/* The base of an index that a timer had, or NULL. */
static inline struct htw_base *htw_context_base_of(const struct htw_context *ctx, u16 index)
{
	struct htw_base *first = READ_ONCE(ctx->first);
	struct htw_base **others;

	if (!first || first->index == index)
		return first;
	others = READ_ONCE(ctx->others);
	return others ? READ_ONCE(others[index]) : NULL;
}

/* The bit of a base in &htw_context.work. */
static inline unsigned int htw_base_bit(const struct htw_base *base)
{
	return base == base->ctx->first ? 0 : base->index + 1;
}

/*
 * Somebody should look at a base: before who waits is woken, and after
 * &htw_base.told is set.
 */
static inline void htw_base_mark(struct htw_base *base)
{
	smp_mb__before_atomic();	/* see htw_collect_looked() */
	set_bit(htw_base_bit(base), READ_ONCE(base->ctx->work));
}

/* Is there a base at which somebody should look? */
bool htw_context_has_work(const struct htw_context *ctx);

/*
 * The base on which a timer should be started: that of this CPU, if it has one.
 */
static inline struct htw_base *htw_context_base(struct htw_context *ctx)
{
	struct htw_base *first = READ_ONCE(ctx->first);
	unsigned int cpu = raw_smp_processor_id();
	struct htw_base **others;

	if (!first)
		return htw_context_make_base(ctx);
	if (first->index == cpu)
		return first;
	others = READ_ONCE(ctx->others);
	if (others && READ_ONCE(others[cpu]))
		return others[cpu];
	if (htw_ids_pages(&ctx->ids) <= READ_ONCE(ctx->nr_bases))
		return first;
	return htw_context_make_base(ctx) ?: first;
}

/* The base in which a timer probably is; NULL if there is none. */
static inline struct htw_base *htw_context_guess(const struct htw_context *ctx)
{
	struct htw_base *first = READ_ONCE(ctx->first);
	unsigned int cpu = raw_smp_processor_id();
	struct htw_base **others = READ_ONCE(ctx->others);

	if (likely(!others) || first->index == cpu)
		return first;
	return READ_ONCE(others[cpu]) ?: first;
}

/* The number of bits in &htw_context.work. */
static inline unsigned int htw_context_bits(const struct htw_context *ctx)
{
	/* Before the bits. Pairs with htw_context_make_room(). */
	return smp_load_acquire(&ctx->others) ? nr_cpu_ids + 1 : 1;
}

/* The base of a bit in &htw_context.work, or NULL. */
static inline struct htw_base *htw_context_at_bit(const struct htw_context *ctx, unsigned int bit)
{
	return bit ? READ_ONCE(ctx->others[bit - 1]) : READ_ONCE(ctx->first);
}

#endif /* _HTW_CONTEXT_H */
