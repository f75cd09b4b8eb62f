// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context: what one open() of /dev/htw holds, and what can be done with it
 *
 * Timers live in chunks of one 4 KiB block, 63 and a header. A timer's slot
 * number and its generation make its id, so finding it is arithmetic, and an
 * id that has ended finds a timer of another generation. The same list links
 * take a timer from the free list to the wheel, to the queue of expirations
 * and back: nothing is allocated between the add and the read, so neither an
 * expiry nor a re-arm can fail, and no queue can overflow.
 *
 * Locks: a timer's state says which lock guards it (enum htw_timer_state). The
 * lock of a base is taken before that of a context.
 *
 * An operation on an id finds the timer without a lock, takes the lock of the
 * base that it was last on, and looks again. Pending there: it stays so while
 * that lock is held. Otherwise the context's lock settles it; found pending
 * after all, it has just been armed on another CPU, and the operation starts
 * over.
 */

#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "htw_context.h"
#include "htw_engine.h"

/**
 * struct htw_chunk - 63 timers
 * @ctx: whose they are; never changes
 * @slot: number of the header's slot, which is never an id; never changes
 * @header: the room of a timer
 * @timers: the timers
 *
 * Aligned to its size, so that a timer leads to it.
 */
struct htw_chunk {
	union {
		struct {
			struct htw_context *ctx;
			u32 slot;
		};
		struct htw_timer header;
	};
	struct htw_timer timers[HTW_CHUNK_TIMERS];
};

static_assert(sizeof(struct htw_timer) == 64);
static_assert(sizeof(struct htw_chunk) == 4096);

static struct kmem_cache *htw_chunk_cache;
static struct workqueue_struct *htw_free_wq;

static struct htw_chunk *htw_chunk_of(const struct htw_timer *t)
{
	return (struct htw_chunk *)((unsigned long)t & ~(sizeof(struct htw_chunk) - 1));
}

static u64 htw_add_saturated(u64 a, u64 b)
{
	u64 sum;

	return check_add_overflow(a, b, &sum) ? U64_MAX : sum;
}

/**
 * htw_timer_id() - the id that programs know a timer by
 * @t: the timer, which is not free
 *
 * Return: the id, never zero.
 */
u64 htw_timer_id(const struct htw_timer *t)
{
	const struct htw_chunk *chunk = htw_chunk_of(t);
	const u32 slot = chunk->slot + 1 + (t - chunk->timers);

	return (u64)t->generation << 32 | slot;
}

/* The timer in an id's slot, of whatever generation it is by now. */
static struct htw_timer *htw_context_find(struct htw_context *ctx, u64 id)
{
	const u32 nr_chunks = smp_load_acquire(&ctx->nr_chunks);
	const u32 index = (u32)id % HTW_CHUNK_SLOTS;
	u32 chunk = (u32)id / HTW_CHUNK_SLOTS;

	if (!index || chunk >= nr_chunks)
		return NULL;
	chunk = array_index_nospec(chunk, nr_chunks);
	return &ctx->dir[chunk / HTW_DIR_PAGE][chunk % HTW_DIR_PAGE]->timers[index - 1];
}

static bool htw_timer_is(const struct htw_timer *t, u64 id)
{
	return t->generation == id >> 32;
}

/*
 * Ends a timer's id. The slot goes on @list, but for one whose generations
 * have run out: that would make old ids valid again.
 */
static void htw_timer_free(struct htw_timer *t, struct list_head *list)
{
	WRITE_ONCE(t->node.state, HTW_FREE);
	if (++t->generation)
		list_add(&t->node.list, list);
}

/*
 * A timer becomes pending on this CPU. Whoever sees the state sees the CPU, so
 * it can tell whether the lock it holds is the one that guards the timer.
 */
static void htw_timer_arm(struct htw_base *base, struct htw_timer *t, u64 now)
{
	htw_base_start(base, &t->node, t->deadline, now);
	smp_store_release(&t->node.state, HTW_PENDING);
}

/* Pending on this base, whose lock is held: then it stays so. */
static bool htw_timer_pending_on(const struct htw_base *base, const struct htw_timer *t)
{
	lockdep_assert_held(&base->lock);

	return smp_load_acquire(&t->node.state) == HTW_PENDING &&
	       READ_ONCE(t->node.cpu) == base->cpu;
}

/* Firings that came due since the one that waits to be read. */
static u64 htw_timer_missed(const struct htw_timer *t, u64 now)
{
	u64 missed;

	if (t->node.flags & HTW_TIMER_STOPPED)
		return t->interval;
	if (!t->interval)
		return 0;
	/* @now may have been read before the timer fired */
	missed = div64_u64(max(now, t->node.fired) - t->deadline, t->interval);
	return t->firings ? min_t(u64, missed, t->firings - 1) : missed;
}

/* Does a periodic timer go on once the waiting expiration has been read? */
static bool htw_timer_goes_on(const struct htw_timer *t, u64 missed)
{
	return t->interval && !(t->node.flags & HTW_TIMER_STOPPED) &&
	       (!t->firings || t->firings > missed + 1);
}

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

	if (!ctx)
		return NULL;
	spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->expired);
	INIT_LIST_HEAD(&ctx->rearm);
	INIT_LIST_HEAD(&ctx->free);
	ctx->limit = limit;
	init_waitqueue_head(&ctx->wait);
	mutex_init(&ctx->grow);
	return ctx;
}

/* Adds a chunk of free timers. */
static int htw_context_grow(struct htw_context *ctx)
{
	const u32 nr = ctx->nr_chunks;
	struct htw_chunk **page;
	struct htw_chunk *chunk;

	lockdep_assert_held(&ctx->grow);

	if (nr == HTW_DIR_PAGE * HTW_DIR_PAGE)	/* slots retired, all of them */
		return -ENOSPC;
	if (!ctx->dir)
		ctx->dir = kcalloc(HTW_DIR_PAGE, sizeof(*ctx->dir), GFP_KERNEL_ACCOUNT);
	if (!ctx->dir)
		return -ENOMEM;
	page = ctx->dir[nr / HTW_DIR_PAGE];
	if (!page)
		page = kcalloc(HTW_DIR_PAGE, sizeof(*page), GFP_KERNEL_ACCOUNT);
	if (!page)
		return -ENOMEM;
	ctx->dir[nr / HTW_DIR_PAGE] = page;
	chunk = kmem_cache_zalloc(htw_chunk_cache, GFP_KERNEL);
	if (!chunk)
		return -ENOMEM;
	chunk->ctx = ctx;
	chunk->slot = nr * HTW_CHUNK_SLOTS;
	page[nr % HTW_DIR_PAGE] = chunk;
	/* Pairs with htw_context_find(): a chunk that counts is there. */
	smp_store_release(&ctx->nr_chunks, nr + 1);

	spin_lock_bh(&ctx->lock);
	for (u32 i = 0; i < HTW_CHUNK_TIMERS; i++) {
		chunk->timers[i].generation = 1;
		list_add_tail(&chunk->timers[i].node.list, &ctx->free);
	}
	spin_unlock_bh(&ctx->lock);
	return 0;
}

static void htw_context_free(struct work_struct *work)
{
	struct htw_context *ctx = container_of(to_rcu_work(work), struct htw_context, free_work);

	for (u32 i = 0; i < ctx->nr_chunks; i++) {
		kmem_cache_free(htw_chunk_cache, ctx->dir[i / HTW_DIR_PAGE][i % HTW_DIR_PAGE]);
		cond_resched();
	}
	for (u32 i = 0; ctx->dir && i < HTW_DIR_PAGE; i++)
		kfree(ctx->dir[i]);
	kfree(ctx->dir);
	kfree(ctx);
}

/* Makes @base the one whose lock the run holds. */
static void htw_run_lock(struct htw_run *run, struct htw_base *base)
{
	if (run->base == base)
		return;
	if (run->base)
		htw_unlock(&run->base->lock);
	run->base = base;
	htw_lock(&base->lock);
}

/**
 * htw_run_begin() - begins a run of operations
 * @run: the run
 *
 * Context: process. Bottom halves are off until htw_run_end(), so a run is
 * short: some tens of operations.
 */
void htw_run_begin(struct htw_run *run)
{
	run->base = NULL;
	run->nr_freed = 0;
	INIT_LIST_HEAD(&run->freed);
	run->now = htw_now();
	local_bh_disable();
}

/**
 * htw_run_end() - ends a run and gives back the timers that it freed
 * @run: the run
 * @ctx: the context that it was on
 */
void htw_run_end(struct htw_run *run, struct htw_context *ctx)
{
	if (run->base)
		htw_unlock(&run->base->lock);
	if (run->nr_freed) {
		spin_lock(&ctx->lock);
		list_splice(&run->freed, &ctx->free);
		ctx->nr_timers -= run->nr_freed;
		spin_unlock(&ctx->lock);
	}
	local_bh_enable();
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
	for (u32 i = 0; i < ctx->nr_chunks; i++) {
		struct htw_chunk *chunk = ctx->dir[i / HTW_DIR_PAGE][i % HTW_DIR_PAGE];
		struct htw_run run;

		htw_run_begin(&run);
		for (u32 j = 0; j < HTW_CHUNK_TIMERS; j++) {
			struct htw_timer *t = &chunk->timers[j];

			while (READ_ONCE(t->node.state) == HTW_PENDING) {
				htw_run_lock(&run, htw_base_of(&t->node));
				if (!htw_timer_pending_on(run.base, t))
					continue;
				htw_base_stop(run.base, &t->node);
				WRITE_ONCE(t->node.state, HTW_FREE);
			}
		}
		htw_run_end(&run, ctx);
		cond_resched();
	}
	INIT_RCU_WORK(&ctx->free_work, htw_context_free);
	queue_rcu_work(htw_free_wq, &ctx->free_work);
}

/**
 * htw_context_reserve() - takes free timers for adds to come
 * @ctx: the context
 * @timers: where to put them
 * @want: how many, at least 1
 *
 * Context: may sleep; memory is charged to the caller's cgroup.
 * Return: how many were taken, from 1 to @want; -ENOSPC at the context's
 * limit, -ENOMEM.
 */
int htw_context_reserve(struct htw_context *ctx, struct list_head *timers, u32 want)
{
	int ret;

	for (;;) {
		struct htw_timer *t;
		u32 got = 0;
		bool full;

		spin_lock_bh(&ctx->lock);
		while (got < want && ctx->nr_timers < ctx->limit) {
			t = list_first_entry_or_null(&ctx->free, struct htw_timer, node.list);
			if (!t)
				break;
			WRITE_ONCE(t->node.state, HTW_RESERVED);
			list_move_tail(&t->node.list, timers);
			ctx->nr_timers++;
			got++;
		}
		full = ctx->nr_timers >= ctx->limit;
		spin_unlock_bh(&ctx->lock);
		if (got)
			return got;
		if (full)
			return -ENOSPC;

		ret = mutex_lock_killable(&ctx->grow);
		if (ret)
			return ret;
		ret = list_empty_careful(&ctx->free) ? htw_context_grow(ctx) : 0;
		mutex_unlock(&ctx->grow);
		if (ret)
			return ret;
	}
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
	struct htw_timer *t, *next;

	spin_lock_bh(&ctx->lock);
	list_for_each_entry_safe(t, next, timers, node.list) {
		list_del(&t->node.list);
		htw_timer_free(t, &ctx->free);
		ctx->nr_timers--;
	}
	spin_unlock_bh(&ctx->lock);
}

/**
 * htw_run_add() - arms a reserved timer
 * @run: the run
 * @t: the timer, on no list any more
 * @add: what the program asked for, found to be valid
 */
void htw_run_add(struct htw_run *run, struct htw_timer *t, const struct htw_add *add)
{
	htw_run_lock(run, this_cpu_read(htw_bases));
	t->deadline = add->deadline;
	if (!(add->flags & HTW_F_ABS))
		t->deadline = htw_add_saturated(run->now, add->deadline);
	t->cookie = add->cookie;
	t->interval = add->interval;
	t->firings = add->firings;
	t->node.flags = add->flags & HTW_F_KEEP ? HTW_TIMER_KEEP : 0;
	htw_timer_arm(run->base, t, run->now);
}

static u64 htw_timer_remaining(const struct htw_timer *t, u64 now)
{
	return t->deadline > now ? t->deadline - now : 0;
}

static void htw_run_free(struct htw_run *run, struct htw_timer *t)
{
	htw_timer_free(t, &run->freed);
	run->nr_freed++;
}

/* Cancels a timer that is in no wheel. -EAGAIN: it has just been armed. */
static int htw_run_cancel_unarmed(struct htw_run *run, struct htw_context *ctx,
				  struct htw_timer *t, struct htw_cancel *cancel)
{
	const u16 state = READ_ONCE(t->node.state);

	lockdep_assert_held(&ctx->lock);

	if (state == HTW_PENDING)
		return -EAGAIN;
	if (state == HTW_FREE || state == HTW_RESERVED || !htw_timer_is(t, cancel->id))
		return -ENOENT;
	cancel->cookie = t->cookie;
	cancel->remaining = 0;
	cancel->missed = 0;
	if (state != HTW_EXPIRED) {
		if (state == HTW_REARM) {
			cancel->remaining = htw_timer_remaining(t, run->now);
			list_del(&t->node.list);
		}
		htw_run_free(run, t);
		return 0;
	}
	cancel->missed = htw_timer_missed(t, run->now);
	if (cancel->flags & HTW_CANCEL_DISCARD) {
		list_del(&t->node.list);
		ctx->nr_expired--;
		htw_run_free(run, t);
	} else {
		t->interval = cancel->missed;
		t->node.flags = HTW_TIMER_STOPPED;
	}
	return -EALREADY;
}

/**
 * htw_run_cancel() - cancels a timer
 * @run: the run
 * @ctx: the context
 * @cancel: the id and flags, found to be valid; the rest is filled in
 *
 * Return: as &struct htw_cancel tells.
 */
int htw_run_cancel(struct htw_run *run, struct htw_context *ctx, struct htw_cancel *cancel)
{
	struct htw_timer *t = htw_context_find(ctx, cancel->id);
	int ret;

	if (!t)
		return -ENOENT;
	do {
		htw_run_lock(run, htw_base_of(&t->node));
		if (htw_timer_pending_on(run->base, t)) {
			if (!htw_timer_is(t, cancel->id))
				return -ENOENT;
			htw_base_stop(run->base, &t->node);
			cancel->cookie = t->cookie;
			cancel->remaining = htw_timer_remaining(t, run->now);
			cancel->missed = 0;
			htw_run_free(run, t);
			return 0;
		}
		spin_lock(&ctx->lock);
		ret = htw_run_cancel_unarmed(run, ctx, t, cancel);
		spin_unlock(&ctx->lock);
	} while (ret == -EAGAIN);
	return ret;
}

/**
 * htw_context_peek() - tells the expirations that wait, and leaves them there
 * @ctx: the context, whose lock is held
 * @events: where to
 * @count: how many at the most
 * @now: the time, in ns
 *
 * Return: how many.
 */
u32 htw_context_peek(struct htw_context *ctx, struct htw_event *events, u32 count, u64 now)
{
	struct htw_timer *t;
	u32 n = 0;

	lockdep_assert_held(&ctx->lock);

	list_for_each_entry(t, &ctx->expired, node.list) {
		const u64 missed = htw_timer_missed(t, now);
		const bool more = t->node.flags & HTW_TIMER_KEEP || htw_timer_goes_on(t, missed);

		if (n == count)
			break;
		events[n++] = (struct htw_event) {
			.id = htw_timer_id(t),
			.cookie = t->cookie,
			.deadline = t->deadline,
			.fired = t->node.fired,
			.missed = missed,
			.flags = more ? HTW_EVENT_MORE : 0,
		};
	}
	return n;
}

/**
 * htw_context_take() - takes out expirations that have been read
 * @ctx: the context, whose lock is held
 * @count: how many, in the order in which htw_context_peek() told them
 * @now: what htw_context_peek() was given
 *
 * Periodic timers that go on are then on @ctx->rearm: the caller drops the
 * lock and calls htw_context_rearm().
 */
void htw_context_take(struct htw_context *ctx, u32 count, u64 now)
{
	lockdep_assert_held(&ctx->lock);

	ctx->nr_expired -= count;
	while (count--) {
		struct htw_timer *t = list_first_entry(&ctx->expired, struct htw_timer,
						       node.list);
		const u64 missed = htw_timer_missed(t, now);

		if (htw_timer_goes_on(t, missed)) {
			/* The phase is kept: start + k * interval, the next one ahead. */
			t->deadline = htw_add_saturated(t->deadline + missed * t->interval,
							t->interval);
			if (t->firings)
				t->firings -= missed + 1;
			WRITE_ONCE(t->node.state, HTW_REARM);
			list_move_tail(&t->node.list, &ctx->rearm);
		} else if (t->node.flags & HTW_TIMER_KEEP) {
			WRITE_ONCE(t->node.state, HTW_IDLE);
			list_del(&t->node.list);
		} else {
			list_del(&t->node.list);
			htw_timer_free(t, &ctx->free);
			ctx->nr_timers--;
		}
	}
}

/**
 * htw_context_rearm() - arms the periodic timers that have been read
 * @ctx: the context; no lock is held
 *
 * This takes a second step because a base's lock comes before a context's, and
 * is not held while user memory is written.
 */
void htw_context_rearm(struct htw_context *ctx)
{
	const u64 now = htw_now();
	struct htw_base *base;
	struct htw_timer *t;

	while (!list_empty_careful(&ctx->rearm)) {
		base = htw_base_lock_local();
		spin_lock(&ctx->lock);
		for (u32 i = 0; i < HTW_CHUNK_TIMERS; i++) {
			t = list_first_entry_or_null(&ctx->rearm, struct htw_timer, node.list);
			if (!t)
				break;
			list_del(&t->node.list);
			htw_timer_arm(base, t, now);
		}
		spin_unlock(&ctx->lock);
		htw_base_unlock_local(base);
	}
}

/**
 * htw_delivery_begin() - begins a run of expirations
 * @d: the run
 * @now: the time at which the timers fired, in ns; not before any deadline
 */
void htw_delivery_begin(struct htw_delivery *d, u64 now)
{
	d->context = NULL;
	d->now = now;
}

/**
 * htw_deliver() - EXPIRY_PROCESSING: queues an expired timer to be read
 * @d: the run
 * @n: the timer's node, just out of its wheel
 *
 * Context: softirq, with the lock of the node's base held.
 */
void htw_deliver(struct htw_delivery *d, struct htw_node *n)
{
	struct htw_timer *t = container_of(n, struct htw_timer, node);
	struct htw_context *ctx = htw_chunk_of(t)->ctx;

	if (d->context != ctx) {
		htw_delivery_end(d);
		d->context = ctx;
		htw_lock(&ctx->lock);
	}
	n->fired = d->now;
	list_add_tail(&n->list, &ctx->expired);
	ctx->nr_expired++;
	WRITE_ONCE(n->state, HTW_EXPIRED);
}

/**
 * htw_delivery_end() - ends a run of expirations: wakes up who waits for them
 * @d: the run
 *
 * Context: softirq, in an RCU read-side section that began before the first
 * htw_deliver(): once its lock is dropped, the context may be closed.
 */
void htw_delivery_end(struct htw_delivery *d)
{
	struct htw_context *ctx = d->context;

	if (!ctx)
		return;
	d->context = NULL;
	htw_unlock(&ctx->lock);
	if (wq_has_sleeper(&ctx->wait))
		wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
}

/**
 * htw_context_init() - what all contexts need
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM.
 */
int htw_context_init(void)
{
	htw_chunk_cache = kmem_cache_create("htw_chunk", sizeof(struct htw_chunk),
					    sizeof(struct htw_chunk), SLAB_ACCOUNT, NULL);
	if (!htw_chunk_cache)
		return -ENOMEM;
	htw_free_wq = alloc_workqueue("htw", WQ_UNBOUND, 0);
	if (!htw_free_wq) {
		kmem_cache_destroy(htw_chunk_cache);
		return -ENOMEM;
	}
	return 0;
}

/**
 * htw_context_exit() - undoes htw_context_init(); all contexts have been closed
 *
 * Context: process, may sleep.
 */
void htw_context_exit(void)
{
	rcu_barrier();	/* those that wait for a grace period are then queued */
	destroy_workqueue(htw_free_wq);
	kmem_cache_destroy(htw_chunk_cache);
}
