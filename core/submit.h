/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Operations on timers, in runs: bottom halves are off and a lock is held for
 * as many of them as follow each other on the same base
 *
 * An operation on an id finds the timer without a lock. If it is pending on the
 * base whose lock the run holds already, as most are, that is all there is to
 * it, and the code for that is here, to become part of its caller: a call and
 * its registers are a tenth of what an operation takes. Else it takes the lock
 * of the base that the timer was last on, and looks again. Pending there: it stays
 * so while that lock is held. Otherwise the context's lock settles it; found
 * pending after all, it has just been armed on another CPU, and the operation
 * starts over. That is in submit.c.
 */
#ifndef _HTW_SUBMIT_H
#define _HTW_SUBMIT_H

#include <trace/events/htw.h>

#include "clock_sets.h"
#include "expire.h"
#include "shrink.h"
#include "slots.h"

/**
 * struct htw_run - a run of operations, carried out with bottom halves off
 * @ctx: the context that it is on
 * @base: the base whose lock is held
 * @here: the base that timers are to be started on
 * @place: what &htw_node.place is, but for its flags, of a timer that is
 *	pending on @base, if that is @here; else of none. Not set in a run that
 *	finds no timer, like @place_plain, @chunk_mask and @chunks
 * @place_plain: the same where @plain; else of none
 * @nr_chunks: chunks in which it can find timers; none where no timer had been
 *	armed when it began, as the context's shape is not settled then, and none
 *	in a run that is not to find any
 * @chunk_mask: &htw_directory.mask
 * @chunks: &htw_directory.chunks
 * @now: the time as of which operations are done, in ns; not before that of @base
 * @plain: no time namespace shifts deadlines, and no table has words for them;
 *	or no timer can be found
 * @freed: timers that were freed, to be given back at the end
 * @nr_freed: how many
 */
struct htw_run {
	struct htw_context *ctx;
	struct htw_base *base;
	struct htw_base *here;
	u32 place;
	u32 place_plain;
	u32 nr_chunks;
	u32 chunk_mask;
	struct htw_chunk __rcu *const *chunks;
	u64 now;
	bool plain;
	struct list_head freed;
	u32 nr_freed;
};

void htw_run_begin(struct htw_run *run, struct htw_context *ctx);
void htw_run_begin_adds(struct htw_run *run, struct htw_context *ctx);
void htw_run_make_base(struct htw_run *run);
void htw_run_give_back(struct htw_run *run);
void htw_run_switch(struct htw_run *run, struct htw_base *base);
enum htw_timer_state htw_run_lock_timer(struct htw_run *run, const struct htw_timer *t);
void htw_run_unlock_timer(struct htw_run *run, enum htw_timer_state state);
void htw_run_arm(struct htw_run *run, struct htw_timer *t);
int htw_run_cancel_slow(struct htw_run *run, struct htw_timer *t, struct htw_cancel *cancel);
int htw_run_mod_slow(struct htw_run *run, struct htw_timer *t, const struct htw_mod *mod);
int htw_run_query(struct htw_run *run, struct htw_query *query);

/* Makes a base the one whose lock the run holds. */
static inline void htw_run_lock(struct htw_run *run, struct htw_base *base)
{
	if (unlikely(run->base != base))
		htw_run_switch(run, base);
}

static __always_inline void htw_run_touch(struct htw_run *run)
{
	if (likely(run->plain))
		run->now = htw_base_touch(run->base, run->now);
	else
		run->now = htw_context_from_host(run->ctx,
						 htw_base_touch(run->base,
								htw_context_to_host(run->ctx,
										    run->now)));
}

/* Takes the lock of a base; none is held. */
static __always_inline void htw_run_take(struct htw_run *run, struct htw_base *base, bool finds)
{
	run->base = base;
	htw_lock(&base->lock);
	htw_run_touch(run);
	if (!finds)
		return;
	run->place = htw_place(base->cpu, base == run->here ? HTW_PENDING : U8_MAX, 0);
	run->place_plain = run->plain ? run->place : htw_place(base->cpu, U8_MAX, 0);
}

/* Makes the base that timers are to be started on the one whose lock the run holds. */
static inline void htw_run_lock_here(struct htw_run *run)
{
	if (unlikely(run->base != run->here))
		htw_run_switch(run, run->here);
}

/* Was a timer about to be armed once? Then the context has the shape that it keeps. */
static inline bool htw_run_is_settled(const struct htw_context *ctx)
{
	/* Pairs with htw_run_begin_adds(): its shape is seen then. */
	return smp_load_acquire(&ctx->used);
}

/*
 * htw_run_begin(), for operations that are a run each: there a call counts, and what
 * is only for finding timers, if there are none to be found.
 */
static __always_inline void __htw_run_begin(struct htw_run *run, struct htw_context *ctx,
					    bool settled, bool finds)
{
	const struct htw_directory *dir;

	run->ctx = ctx;
	run->nr_freed = 0;
	INIT_LIST_HEAD(&run->freed);
	run->nr_chunks = finds && settled ? htw_context_chunks(ctx) : 0;
	run->now = settled ? htw_context_now(ctx) : 0;
	local_bh_disable();
	/* Else HTW_SETUP may be changing it. Any base will do: no timer is found. */
	run->here = settled ? htw_context_base(ctx) : this_cpu_read(htw_callout_bases);
	if (unlikely(!run->here))
		htw_run_make_base(run);
	/* A table that comes now waits for this run to end: htw_table_enable(). */
	run->plain = !settled || likely(!ctx->timens && !READ_ONCE(ctx->table));
	if (finds) {
		/* After the count: all chunks that count are in it. */
		dir = rcu_dereference_bh(ctx->dir);
		run->chunk_mask = dir->mask;
		run->chunks = dir->chunks;
	}
	htw_run_take(run, run->here, finds);
}

/* Lets the softirq, or another thread, have the lock where it waits for it. */
static inline void htw_run_give_way(struct htw_run *run)
{
	if (unlikely(spin_is_contended(&run->base->lock)))
		htw_run_switch(run, run->base);
}

/**
 * htw_run_end() - ends a run and gives back the timers that it freed
 * @run: the run
 *
 * What it made due on a manual clock is delivered when this returns.
 */
static inline void htw_run_end(struct htw_run *run)
{
	htw_unlock(&run->base->lock);
	if (run->nr_freed)
		htw_run_give_back(run);
	local_bh_enable();
	if (unlikely(htw_context_is_still(run->ctx)))
		htw_context_advance(run->ctx, 0);
}

/**
 * htw_run_reserve() - takes a free timer, if one is there
 * @run: the run
 *
 * Return: the timer, on no list; NULL where none is free, and at a limit:
 * htw_context_reserve() then does what can be done.
 */
static inline struct htw_timer *htw_run_reserve(struct htw_run *run)
{
	struct htw_context *ctx = run->ctx;
	struct htw_timer *t = NULL;

	if (!htw_user_charge(ctx->user, 1))
		return NULL;
	spin_lock(&ctx->lock);
	if (likely(ctx->nr_timers < ctx->limit))
		t = htw_context_pop(ctx);
	spin_unlock(&ctx->lock);
	if (unlikely(!t))
		htw_user_uncharge(ctx->user, 1);
	return t;
}

/**
 * htw_run_room() - how many operations go into one run
 * @ctx: the context
 * @most: how many at the most
 *
 * A batch means the same as its operations one by one. On a manual clock a timer that is
 * due has expired when the call returns, so there the next operation is to find it so.
 *
 * Return: how many.
 */
static inline u32 htw_run_room(const struct htw_context *ctx, u32 most)
{
	return unlikely(htw_context_is_still(ctx)) ? 1 : most;
}

static inline u64 htw_run_deadline(const struct htw_run *run, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline : htw_add_saturated(run->now, deadline);
}

/* Has a deadline come already, as it was given? */
static inline bool htw_run_is_due(const struct htw_run *run, u64 deadline, u32 flags)
{
	return flags & HTW_F_ABS ? deadline <= run->now : !deadline;
}

/**
 * htw_run_add() - arms a reserved timer
 * @run: the run, of a context that is settled; the lock of its @here is held, as
 *	when it begins
 * @t: the timer, on no list any more
 * @add: what the program asked for, found to be valid
 * @plain: &htw_run.plain
 */
static __always_inline void htw_run_add(struct htw_run *run, struct htw_timer *t,
					const struct htw_add *add, bool plain)
{
	u64 deadline;

	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	if (unlikely(add->flags & HTW_F_CANCEL_ON_SET)) {
		t->node.flags |= HTW_TIMER_CANCEL_ON_SET;
		run->now = htw_clockset_stamp(run->ctx, t);
	}
	/* After the stamp, which looks at the clock again. */
	deadline = htw_run_deadline(run, add->deadline, add->flags);
	t->deadline = deadline;
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	htw_timer_set_slack(t, add->slack);
	if (trace_htw_add_enabled())
		trace_htw_add(htw_timer_id(t), t->cookie, t->deadline, t->interval);
	if (unlikely(!plain)) {
		htw_context_reset_word(run->ctx, t);
		deadline = htw_context_to_host(run->ctx, deadline);
	}
	if (likely(!add->slack) && likely(!(add->flags & HTW_F_CANCEL_ON_SET)) &&
	    likely(!htw_run_is_due(run, add->deadline, add->flags)))
		htw_timer_start_later(run->base, t, deadline);
	else
		htw_run_arm(run, t);
}

/**
 * htw_run_chunk() - a chunk, by its number
 * @run: the run, during which it may be used
 * @chunk: what may be the number of a chunk
 *
 * Return: the chunk, or &htw_no_chunk.
 */
static inline struct htw_chunk *htw_run_chunk(const struct htw_run *run, u32 chunk)
{
	if (unlikely(chunk >= run->nr_chunks))
		return (struct htw_chunk *)&htw_no_chunk;
	return rcu_dereference_bh(run->chunks[chunk & run->chunk_mask]);
}

/**
 * htw_run_slot() - the timer of an id's slot, whatever it is by now
 * @run: the run
 * @id: what a program says is an id
 *
 * Return: the timer; where there is no such slot, one that is free for ever.
 */
static inline struct htw_timer *htw_run_slot(const struct htw_run *run, u64 id)
{
	/* The header has the room of a timer, and is none that is armed. */
	return &htw_run_chunk(run, (u32)id / HTW_CHUNK_SLOTS)->header +
	       (u32)id % HTW_CHUNK_SLOTS;
}

/*
 * Is it what nearly all are: an id's timer, pending on the base whose lock the
 * run holds, and that is the one to start timers on; with none of some @flags?
 * Then it stays so. @place is one of the run's.
 */
static __always_inline bool htw_run_holds(const u32 *place, const struct htw_timer *t, u64 id,
					  u8 flags)
{
	/* Pairs with htw_timer_start(). */
	const u32 is = smp_load_acquire(&t->node.place);

	return likely((is & htw_place(U16_MAX, U8_MAX, flags)) == *place) &&
	       likely(htw_timer_is(t, id));
}

/* Ends a timer's id; the timer is on no list. */
static inline void htw_run_free(struct htw_run *run, struct htw_timer *t)
{
	htw_timer_free(t, &run->freed);
	run->nr_freed++;
}

/**
 * htw_run_cancel() - cancels a timer
 * @run: the run
 * @t: htw_run_slot() of the id
 * @cancel: the id and flags, found to be valid; the rest is filled in
 * @tell: is the rest wanted?
 *
 * Return: as &struct htw_cancel tells.
 */
static __always_inline int htw_run_cancel(struct htw_run *run, struct htw_timer *t,
					  struct htw_cancel *cancel, bool tell)
{
	int ret = 0;

	if (likely(htw_run_holds(&run->place, t, cancel->id, HTW_TIMER_CANCEL_ON_SET))) {
		if (tell) {
			cancel->cookie = t->cookie;
			cancel->remaining = htw_timer_remaining(t, htw_context_word(run->ctx, t),
								run->now);
			cancel->missed = 0;
		}
		htw_base_stop(run->base, &t->node);
		htw_run_free(run, t);
	} else {
		struct htw_cancel slow = { .id = cancel->id, .flags = cancel->flags };

		ret = htw_run_cancel_slow(run, t, &slow);
		*cancel = slow;
	}
	trace_htw_cancel(cancel->id, ret);
	return ret;
}

/**
 * htw_run_mod() - changes a timer
 * @run: the run
 * @t: htw_run_slot() of the id
 * @mod: what to change, found to be valid
 *
 * Return: 0 or -ENOENT.
 */
static __always_inline int htw_run_mod(struct htw_run *run, struct htw_timer *t,
				       const struct htw_mod *mod)
{
	if (unlikely(!htw_run_holds(&run->place_plain, t, mod->id,
				    HTW_TIMER_CANCEL_ON_SET | HTW_TIMER_SLACK) ||
		     mod->flags & (HTW_MOD_INTERVAL | HTW_MOD_COOKIE | HTW_MOD_SLACK) ||
		     htw_run_is_due(run, mod->deadline, mod->flags))) {
		const struct htw_mod slow = *mod;

		return htw_run_mod_slow(run, t, &slow);
	}
	t->deadline = htw_run_deadline(run, mod->deadline, mod->flags);
	htw_base_restart_later(run->base, &t->node, t->deadline);
	if (trace_htw_mod_enabled())
		trace_htw_mod(mod->id, t->cookie, t->deadline, t->interval);
	return 0;
}

#endif /* _HTW_SUBMIT_H */
