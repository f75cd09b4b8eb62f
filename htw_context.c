// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context: what one open() of /dev/htw holds, from open to close
 *
 * Locks: a timer's state says which lock guards it (enum htw_timer_state). The
 * lock of a base is taken before that of a context.
 */

#include <linux/bitops.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/time_namespace.h>

#include "htw_clockset.h"
#include "htw_context.h"
#include "htw_engine.h"
#include "htw_run.h"

/* From so many chunks on, 2^order are made at a time. */
#define HTW_SPARE_FROM		64u
#define HTW_SPARE_ORDER		3u

struct workqueue_struct *htw_wq;

/**
 * htw_context_alloc() - makes a context
 * @limit: how many timers it may hold, at most %HTW_CONTEXT_MAX
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the context or NULL.
 */
struct htw_context *htw_context_alloc(u32 limit)
{
	struct htw_context *ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	struct timespec64 monotonic = {};
	struct timespec64 boottime = {};

	if (!ctx)
		return NULL;
	ctx->user = htw_user_get();
	if (!ctx->user) {
		kfree(ctx);
		return NULL;
	}
	ctx->bases = &ctx->user->cpus->bases[HTW_CLOCK_MONOTONIC];
	timens_add_monotonic(&monotonic);
	timens_add_boottime(&boottime);
	ctx->timens_monotonic = timespec64_to_ns(&monotonic);
	ctx->timens_boottime = timespec64_to_ns(&boottime);
	ctx->timens = ctx->timens_monotonic;
	ctx->home = -1;
	spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->expired);
	INIT_LIST_HEAD(&ctx->rearm);
	for (u32 i = 0; i < HTW_FREE_LISTS; i++)
		INIT_LIST_HEAD(&ctx->free[i]);
	ctx->limit = limit;
	RCU_INIT_POINTER(ctx->dir, &htw_no_directory);
	htw_wake_init(ctx);
	mutex_init(&ctx->grow);
	htw_shrink_init(ctx);
	return ctx;
}

/**
 * htw_chunk_free() - frees a chunk
 * @chunk: the chunk, which nobody can find any more
 */
void htw_chunk_free(struct htw_chunk *chunk)
{
	free_page((unsigned long)chunk);
}

/**
 * htw_context_steal() - what another CPU freed becomes this one's
 * @ctx: the context, whose lock is held
 *
 * Return: false if there is none.
 */
bool htw_context_steal(struct htw_context *ctx)
{
	const unsigned int here = raw_smp_processor_id() % HTW_FREE_LISTS;
	unsigned long others = ctx->free_cpus & ~BIT(here);

	lockdep_assert_held(&ctx->lock);

	while (others) {
		const unsigned int cpu = __ffs(others);

		others &= ~BIT(cpu);
		ctx->free_cpus &= ~BIT(cpu);
		if (list_empty(&ctx->free[cpu]))
			continue;
		list_splice_init(&ctx->free[cpu], htw_context_freed_here(ctx));
		return true;
	}
	return false;
}

/* Takes up to @want timers that this CPU freed; returns how many. */
static u32 htw_context_cut_used(struct htw_context *ctx, struct list_head *timers, u32 want,
				u64 *ids)
{
	struct list_head *free = htw_context_free_here(ctx);
	struct list_head *last = free;
	LIST_HEAD(cut);
	u32 got = 0;

	while (got < want && last->next != free) {
		struct htw_timer *t = list_entry(last->next, struct htw_timer, node.list);

		last = last->next;
		WRITE_ONCE(t->node.state, HTW_RESERVED);
		if (ids)
			ids[got] = htw_timer_id(t);
		got++;
	}
	list_cut_position(&cut, free, last);
	list_splice_tail(&cut, timers);
	return got;
}

/* The same with timers that have never been used: their ids follow each other. */
static u32 htw_context_cut_fresh(struct htw_context *ctx, struct list_head *timers, u32 want,
				 u64 *ids)
{
	const u32 got = min(want, ctx->nr_fresh);
	const u32 generation = ctx->fresh_generation;
	struct list_head *last = timers->prev;
	struct htw_timer *t = ctx->fresh;
	u64 id;

	if (!got)
		return 0;
	id = (u64)generation << 32 | htw_timer_slot(t);
	for (u32 i = 0; ids && i < got; i++)
		ids[i] = id + i;
	for (u32 i = 0; i < got; i++, t++) {
		WRITE_ONCE(t->generation, generation);
		WRITE_ONCE(t->node.state, HTW_RESERVED);
		t->node.list.prev = last;
		last->next = &t->node.list;
		last = last->next;
	}
	last->next = timers;
	timers->prev = last;
	ctx->fresh = t;
	ctx->nr_fresh -= got;
	return got;
}

/* Takes up to @want free timers, as many as there are; returns how many. */
static u32 htw_context_cut(struct htw_context *ctx, struct list_head *timers, u32 want,
			   u64 *ids)
{
	u32 got;

	lockdep_assert_held(&ctx->lock);

	got = htw_context_cut_used(ctx, timers, want, ids);
	got += htw_context_cut_fresh(ctx, timers, want - got, ids ? ids + got : NULL);
	while (got < want && htw_context_steal(ctx))
		got += htw_context_cut_used(ctx, timers, want - got, ids ? ids + got : NULL);
	ctx->nr_timers += got;
	return got;
}

/* Frees timers that were cut; returns how many. */
static u32 htw_context_uncut(struct htw_context *ctx, struct list_head *timers)
{
	u32 freed = 0;

	lockdep_assert_held(&ctx->lock);

	while (!list_empty(timers)) {
		htw_timer_free(htw_timer_pop(timers), htw_context_freed_here(ctx));
		freed++;
	}
	return freed;
}

/*
 * A chunk is a page, not of a slab: one that is given back need not wait for its
 * neighbours. Where there are many, some are made at a time, and then split.
 */
static struct htw_chunk *htw_chunk_alloc(struct htw_context *ctx)
{
	struct page *page = NULL;
	unsigned int order = 0;

	lockdep_assert_held(&ctx->grow);

	if (ctx->nr_spare)
		return ctx->spare + --ctx->nr_spare;
	if (ctx->nr_held >= HTW_SPARE_FROM) {
		order = HTW_SPARE_ORDER;
		page = alloc_pages(GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NORETRY | __GFP_NOWARN,
				   order);
	}
	if (!page) {
		order = 0;
		page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	}
	if (!page)
		return NULL;
	split_page(page, order);
	ctx->spare = page_address(page);
	ctx->nr_spare = BIT(order) - 1;
	return ctx->spare + ctx->nr_spare;
}

/* The place for a chunk more: the first hole, or else behind all the others. */
static u32 htw_context_place(struct htw_context *ctx)
{
	lockdep_assert_held(&ctx->grow);

	if (ctx->nr_held == ctx->nr_chunks)
		return ctx->nr_chunks;
	while (rcu_access_pointer(*htw_context_entry(ctx, ctx->hole)) != &htw_no_chunk)
		ctx->hole++;
	return ctx->hole;
}

/* Makes room in the directory for a chunk of that number. */
static int htw_context_make_room(struct htw_context *ctx, u32 nr)
{
	struct htw_directory *old = rcu_dereference_protected(ctx->dir,
							      lockdep_is_held(&ctx->grow));
	struct htw_directory *dir;

	if (likely(old != &htw_no_directory && nr <= old->mask))
		return 0;
	if (nr == HTW_DIRECTORY_MAX)	/* slots retired, all of them */
		return -ENOSPC;
	dir = htw_directory_longer(old);
	if (!dir)
		return -ENOMEM;
	rcu_assign_pointer(ctx->dir, dir);
	htw_directory_free(old);
	return 0;
}

/* Adds a chunk of free timers. */
int htw_context_grow(struct htw_context *ctx)
{
	const u32 generation = ctx->generation;
	const u32 nr = htw_context_place(ctx);
	struct htw_chunk *chunk;
	LIST_HEAD(left);
	int ret;

	lockdep_assert_held(&ctx->grow);

	ret = htw_context_make_room(ctx, nr);
	if (ret)
		return ret;
	chunk = htw_chunk_alloc(ctx);
	if (!chunk)
		return -ENOMEM;
	chunk->ctx = ctx;
	chunk->slot = nr * HTW_CHUNK_SLOTS;
	if (ctx->table && htw_table_add_chunk(ctx, chunk, nr)) {
		htw_chunk_free(chunk);
		return -ENOMEM;
	}
	rcu_assign_pointer(*htw_context_entry(ctx, nr), chunk);
	if (nr == ctx->nr_chunks) {
		/* Pairs with htw_context_chunks(). */
		smp_store_release(&ctx->nr_chunks, nr + 1);
	}

	spin_lock_bh(&ctx->lock);
	/* As a rule none is left of the chunk before. */
	htw_context_cut_fresh(ctx, &left, ctx->nr_fresh, NULL);
	htw_context_uncut(ctx, &left);
	ctx->fresh = chunk->timers;
	ctx->fresh_generation = generation;
	ctx->nr_fresh = HTW_CHUNK_TIMERS;
	htw_shrink_grown(ctx);
	spin_unlock_bh(&ctx->lock);
	return 0;
}

static void htw_context_free(struct work_struct *work)
{
	struct htw_context *ctx = container_of(to_rcu_work(work), struct htw_context, free_work);

	htw_wake_exit(ctx);
	htw_table_free(ctx);
	htw_shrink_exit(ctx);
	for (u32 i = 0; i < ctx->nr_chunks; i++) {
		struct htw_chunk *chunk = htw_context_chunk(ctx, i);

		if (chunk != &htw_no_chunk)
			htw_chunk_free(chunk);
		cond_resched();
	}
	while (ctx->nr_spare)
		htw_chunk_free(ctx->spare + --ctx->nr_spare);
	htw_directory_free(rcu_dereference_protected(ctx->dir, true));
	htw_ring_free(ctx->ring, ctx->user);
	if (ctx->own) {
		htw_base_free(ctx->own);
		htw_user_uncharge_wheel(ctx->user);
	}
	htw_user_uncharge(ctx->user, ctx->nr_timers);
	htw_user_put(ctx->user);
	kfree(ctx);
}

/**
 * htw_context_close() - stops all timers and lets go of the context
 * @ctx: the context, which nobody but a callback uses any more
 *
 * Context: may sleep. The memory is given back a grace period later: a
 * callback may be waking up the context's waiters right now.
 */
void htw_context_close(struct htw_context *ctx)
{
	htw_clockset_leave(ctx);
	for (u32 i = 0; i < ctx->nr_chunks; i++) {
		struct htw_timer *timers;
		struct htw_run run;

		htw_run_begin(&run, ctx);
		timers = htw_run_chunk(&run, i)->timers;
		for (u32 j = 0; j < HTW_CHUNK_TIMERS; j++) {
			struct htw_timer *t = &timers[j];

			while (READ_ONCE(t->node.state) == HTW_PENDING) {
				htw_run_lock(&run, htw_context_base_of(ctx, t));
				if (!htw_timer_pending_on(run.base, t))
					continue;
				htw_base_stop(run.base, &t->node);
				/* Not free, as it is not on the free list. */
				WRITE_ONCE(t->node.state, HTW_RESERVED);
			}
		}
		htw_run_end(&run);
		cond_resched();
	}
	htw_wake_stop(ctx);
	INIT_RCU_WORK(&ctx->free_work, htw_context_free);
	queue_rcu_work(htw_wq, &ctx->free_work);
}

/**
 * htw_context_reserve() - takes free timers for adds to come
 * @ctx: the context
 * @timers: where to put them, behind what is there
 * @want: how many, at least 1
 * @ids: NULL, or where to tell their ids
 *
 * Context: may sleep; takes @ctx->grow; memory is charged to the caller's cgroup.
 * Return: how many were taken, from 1 to @want; -ENOSPC at the context's
 * limit, -EDQUOT at the user's, -ENOMEM, -EINTR.
 */
int htw_context_reserve(struct htw_context *ctx, struct list_head *timers, u32 want, u64 *ids)
{
	const u32 granted = htw_user_charge(ctx->user, want);
	int ret = granted ? 0 : -EDQUOT;
	bool growing = false;
	u32 got = 0;

	/* What is granted counts meanwhile, so others of that user may see less. */
	for (;;) {
		u32 room;

		spin_lock_bh(&ctx->lock);
		room = ctx->limit - min(ctx->nr_timers, ctx->limit);
		got += htw_context_cut(ctx, timers, min(granted - got, room),
				       ids ? ids + got : NULL);
		if (unlikely(ctx->nr_timers >= ctx->limit))
			ret = -ENOSPC;
		spin_unlock_bh(&ctx->lock);
		if (got == granted || ret)
			break;
		if (growing) {
			ret = fatal_signal_pending(current) ? -EINTR : htw_context_grow(ctx);
			cond_resched();
		} else {
			/*
			 * For all that is wanted. Then look again: others may have grown it
			 * or freed some. A chunk is made only where that look, with this lock
			 * held, finds none free below the limit: so there are no more
			 * chunks than the limit needs.
			 */
			ret = mutex_lock_killable(&ctx->grow);
			growing = !ret;
		}
		if (ret)
			break;
	}
	if (growing)
		mutex_unlock(&ctx->grow);
	/* What is reserved needs a base to be started on: then arming it cannot fail. */
	if (likely(got) && unlikely(!htw_context_make_base(ctx))) {
		htw_user_uncharge(ctx->user, granted - got);
		htw_context_unreserve(ctx, timers);
		return -ENOMEM;
	}
	htw_user_uncharge(ctx->user, granted - got);
	return got ?: ret;
}

/**
 * htw_context_unreserve() - gives back timers that no add has used
 * @ctx: the context
 * @timers: they
 *
 * Their ids have ended, as a program may have seen them.
 */
void htw_context_unreserve(struct htw_context *ctx, struct list_head *timers)
{
	u32 freed;

	spin_lock_bh(&ctx->lock);
	freed = htw_context_uncut(ctx, timers);
	htw_context_count_freed(ctx, freed);
	spin_unlock_bh(&ctx->lock);
	htw_user_uncharge(ctx->user, freed);
}

/**
 * htw_context_advance() - moves a context's clock that stands still
 * @ctx: the context, on %HTW_CLOCK_STILL
 * @to: the time it is then; 0 only delivers what is due
 *
 * Once begun this is carried through, but for a process that is killed: half a
 * step would be no time at all.
 *
 * Context: may sleep.
 * Return: how many timers expired.
 */
u64 htw_context_advance(struct htw_context *ctx, u64 to)
{
	u64 expired = 0;

	while (!htw_base_advance(ctx->own, to, &expired) && !fatal_signal_pending(current))
		cond_resched();
	return expired;
}

/**
 * htw_context_init() - what all contexts need
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int htw_context_init(void)
{
	htw_wq = alloc_workqueue("htw", WQ_UNBOUND, 0);
	return htw_wq ? 0 : -ENOMEM;
}

/**
 * htw_context_exit() - undoes htw_context_init(); all contexts have been closed
 *
 * Context: process, may sleep.
 */
void htw_context_exit(void)
{
	htw_clockset_exit();
	rcu_barrier();	/* those that wait for a grace period are then queued */
	destroy_workqueue(htw_wq);
	rcu_barrier();	/* chunks and bases that were given back until then */
}
