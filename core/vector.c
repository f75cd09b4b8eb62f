// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_VECTOR: the same operation on many timers
 *
 * What the operations have in common is checked once; for each, only an id, a
 * deadline and a cookie are copied. The loops contain the operation itself and
 * nothing else.
 */

#include <linux/percpu.h>
#include <linux/prefetch.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"
#include "compat.h"
#include "copied.h"

/* Operations that are copied in at a time. */
#define HTW_VECTOR_BATCH	256u
/* Operations after which a loop looks at the lock. */
#define HTW_VECTOR_GROUP	64u
/* In place of &enum htw_op: each entry by htw_vector_change_slow(). */
#define HTW_VECTOR_SLOW		U16_MAX

static_assert(sizeof(struct htw_vector_args) == 64);

/**
 * struct htw_vector_batch - some entries of a vector
 * @ids: ids, or on return negative errors
 * @deadlines: deadlines, if the vector has any
 * @cookies: cookies, or zeroes
 * @timers: the timers that are added, or that the ids may be of
 */
struct htw_vector_batch {
	u64 ids[HTW_VECTOR_BATCH];
	u64 deadlines[HTW_VECTOR_BATCH];
	u64 cookies[HTW_VECTOR_BATCH];
	struct htw_timer *timers[HTW_VECTOR_BATCH];
};

/*
 * Memory that a CPU keeps for vectors, or NULL before the first one:
 * distributions have kmalloc() clear what it returns, which takes longer than a
 * short vector. It is not charged to a cgroup. While a vector uses it, perhaps
 * asleep, others on that CPU allocate memory that is, and free it.
 */
static DEFINE_PER_CPU(struct htw_vector_batch *, htw_vector_cache);
/* In its place while a vector uses it. */
#define HTW_VECTOR_IN_USE	ERR_PTR(-EBUSY)

/*
 * The request that all entries of a vector share, but for deadline and cookie.
 */
static struct htw_add_args htw_vector_add(const struct htw_vector_args *v)
{
	return (struct htw_add_args){
		.interval = v->interval,
		.slack = v->slack,
		.flags = v->flags,
		.firings = v->firings,
	};
}

static struct htw_mod_args htw_vector_mod(const struct htw_vector_args *v)
{
	return (struct htw_mod_args){
		.interval = v->interval,
		.slack = v->slack,
		.flags = v->flags,
		.firings = v->firings,
	};
}

/*
 * Check that an array is passed if and only if it is wanted. It may be absent
 * if empty.
 */
static bool htw_vector_array_is_valid(const struct htw_vector_args *v, u64 array, bool wanted)
{
	return array ? wanted : !wanted || !v->count;
}

static bool htw_vector_is_valid(const struct htw_vector_args *v)
{
	const struct htw_add_args add = htw_vector_add(v);
	const struct htw_mod_args mod = htw_vector_mod(v);

	if (!htw_vector_array_is_valid(v, v->ids, true))
		return false;

	switch (v->op) {
	case HTW_OP_ADD:
		return htw_vector_array_is_valid(v, v->deadlines, true) &&
		       htw_call_add_is_valid(&add);
	case HTW_OP_MOD:
		return htw_vector_array_is_valid(v, v->deadlines, v->flags & HTW_MOD_DEADLINE) &&
		       (!v->cookies || v->flags & HTW_MOD_COOKIE) &&
		       htw_arith_mod_is_valid(&mod);
	case HTW_OP_CANCEL:
		return !v->deadlines && !v->cookies && !v->interval && !v->slack && !v->firings &&
		       !v->flags;
	default:
		return false;
	}
}

static void __user *htw_vector_at(const struct htw_vector_args *v, u64 array)
{
	return u64_to_user_ptr(array) + v->done * sizeof(u64);
}

/* Copy in the next entries of an array. Return how many could be read. */
static u32 htw_vector_get(const struct htw_vector_args *v, u64 *to, u64 array, u32 count)
{
	return htw_copy_in(to, htw_vector_at(v, array), count, sizeof(*to));
}

/* Has enough been done with the lock held, or does somebody wait for it? */
static bool htw_vector_should_pause(struct htw_call *c, int units)
{
	c->units -= units;
	return c->units <= 0 || spin_is_contended(&c->base->lock);
}

/*
 * Start timers in order, from entry @i on. Return: the first entry that is
 * left.
 */
static __always_inline u32
htw_vector_start(struct htw_call *c, const struct htw_vector_batch *batch, u32 i, u32 count,
		 struct htw_add_args add)
{
	do {
		u32 end = min(i + HTW_VECTOR_GROUP, count);

		for (; i < end; i++) {
			add.deadline = batch->deadlines[i];
			add.cookie = batch->cookies[i];
			htw_call_add(c, batch->timers[i], &add);
		}
	} while (i < count && !htw_vector_should_pause(c, HTW_VECTOR_GROUP));
	return i;
}

/*
 * Start timers. The most common vectors have loops of their own, with constant
 * flags and zeroes.
 */
static void htw_vector_start_all(struct htw_context *ctx, struct htw_base *base,
				 const struct htw_vector_args *v,
				 const struct htw_vector_batch *batch, u32 count, gfp_t gfp)
{
	const struct htw_add_args relative = {}, absolute = { .flags = HTW_F_ABS };
	bool simple = !(v->interval | v->slack | v->firings);
	void *levels = htw_base_alloc_levels(base, count, gfp);
	u32 i = 0, traced;
	struct htw_call c;

	while (i < count) {
		htw_call_begin(&c, ctx, base);
		if (levels)
			htw_base_add_levels(base, &levels);

		traced = i;
		if (simple && !v->flags)
			i = htw_vector_start(&c, batch, i, count, relative);
		else if (simple && v->flags == HTW_F_ABS)
			i = htw_vector_start(&c, batch, i, count, absolute);
		else
			i = htw_vector_start(&c, batch, i, count, htw_vector_add(v));
		for (; trace_htw_add_enabled() && traced < i; traced++)
			trace_htw_add(ctx, batch->timers[traced]);

		htw_call_unlock(&c);
		cond_resched();
	}
	htw_base_free_levels(base, levels);
}

/* Return timers that were taken, from one on. The program may have seen their ids. */
static void htw_vector_give_up(struct htw_base *base, const struct htw_vector_batch *batch,
			       u32 from, u32 count)
{
	while (count-- > from)
		htw_ids_give_up(base, batch->timers[count]);
}

/*
 * Add some timers, as many as one base has: *@want. As with a single add, ids
 * are written before timers are started, so that no timer is left behind whose id
 * the program does not have.
 *
 * Return: how many adds were carried out, those that failed included; -EAGAIN,
 * and none was, if that would have to sleep.
 */
static int htw_vector_add_batch(struct htw_context *ctx, struct htw_base *base,
				struct htw_vector_args *v, struct htw_vector_batch *batch,
				u32 *want, gfp_t gfp)
{
	int got = PTR_ERR_OR_ZERO(base);
	u32 written, started;

	if (!got)
		got = htw_pages_take(&base, batch->timers, *want, batch->ids, gfp);
	/* A worker that may sleep makes the call again from the beginning: nothing is done yet. */
	if (got < (int)*want && !gfpflags_allow_blocking(gfp)) {
		htw_vector_give_up(base, batch, 0, max(got, 0));
		return -EAGAIN;
	}
	if (got > 0) {
		*want = got;
	} else {
		for (u32 n = 0; n < *want; n++)
			batch->ids[n] = got;
		got = 0;
	}

	written = htw_copy_out(htw_vector_at(v, v->ids), batch->ids, *want, sizeof(*batch->ids));
	started = min_t(u32, written, got);
	v->failed += written - started;
	if (started)
		htw_vector_start_all(ctx, base, v, batch, started, gfp);
	htw_vector_give_up(base, batch, started, got);
	return written;
}

/*
 * Find timers and prefetch them: with millions, one cache miss after the other
 * takes longest.
 */
static __always_inline void htw_vector_find(const struct htw_ids *ids,
					    struct htw_vector_batch *batch, u32 i, u32 end)
{
	const struct htw_lookup lookup = htw_ids_lookup(ids);

#pragma GCC unroll 4
	for (; i < end; i++) {
		batch->timers[i] = htw_lookup_find(&lookup, batch->ids[i]);
		prefetchw(batch->timers[i]);
	}
}

/*
 * Cancel or change a timer in any state, of any base. Return: false if there is
 * none.
 */
static noinline bool htw_vector_change_slow(struct htw_call *c, const struct htw_vector_args *v,
					    const struct htw_vector_batch *batch, u32 i)
{
	struct htw_mod_args mod = htw_vector_mod(v);
	struct htw_timer *t;

	c->units -= HTW_CALL_DUE_UNITS;
	t = htw_call_lock_timer(c, batch->timers[i], batch->ids[i]);
	if (v->op == HTW_OP_CANCEL)
		trace_htw_cancel(c->ctx, batch->ids[i], t ? 0 : -ENOENT);
	if (!t)
		return false;
	if (v->op == HTW_OP_CANCEL) {
		htw_call_cancel(c, t);
		return true;
	}

	if (v->flags & HTW_MOD_DEADLINE)
		mod.deadline = batch->deadlines[i];
	if (v->flags & HTW_MOD_COOKIE)
		mod.cookie = batch->cookies[i];
	htw_call_mod(c, t, &mod);
	trace_htw_mod(c->ctx, t);
	return true;
}

/*
 * Cancel or change timers, from entry @i on. @op and @flags, those of @v, are
 * constants in the most common vectors; others, and those that are traced, have
 * %HTW_VECTOR_SLOW for @op. Return: the first entry that is left.
 */
static __always_inline u32
htw_vector_change(struct htw_call *c, const struct htw_vector_args *v,
		  struct htw_vector_batch *batch, u32 i, u32 count, u16 op, u32 flags, u32 *failed)
{
	u64 now = c->now;

	do {
		u32 end = min(i + HTW_VECTOR_GROUP, count);

		htw_vector_find(&c->ctx->ids, batch, i, end);
		for (; i < end; i++) {
			struct htw_timer *t = batch->timers[i];
			u64 id = batch->ids[i];

			if (op == HTW_OP_CANCEL && htw_call_is_at(c, t, id, 0)) {
				htw_call_cancel(c, t);
				continue;
			}
			if (op == HTW_OP_MOD && htw_call_is_at(c, t, id, HTW_TIMER_SLACK) &&
			    htw_call_move(c->base, t, now, batch->deadlines[i], flags))
				continue;

			c->relocked = false;
			if (!htw_vector_change_slow(c, v, batch, i)) {
				batch->ids[i] = -ENOENT;
				++*failed;
			}
			/*
			 * What was found was valid as long as the lock was
			 * held, and taking another may have moved nodes down:
			 * let others run.
			 */
			if (c->relocked)
				return i + 1;
		}
	} while (i < count && !htw_vector_should_pause(c, HTW_VECTOR_GROUP));
	return i;
}

/* Return how many failed. */
static u32 htw_vector_change_batch(struct htw_context *ctx, const struct htw_vector_args *v,
				   struct htw_vector_batch *batch, u32 count)
{
	u32 relative = HTW_MOD_DEADLINE, absolute = HTW_MOD_DEADLINE | HTW_F_ABS;
	u16 cancel = HTW_OP_CANCEL, mod = HTW_OP_MOD;
	struct htw_base *base = htw_context_guess(ctx);
	struct htw_call c;
	u32 failed = 0, i = 0;
	bool traced;

	if (!base) {
		for (i = 0; i < count; i++)
			batch->ids[i] = -ENOENT;
		return count;
	}

	while (i < count) {
		htw_call_begin(&c, ctx, base);
		traced = trace_htw_cancel_enabled() || trace_htw_mod_enabled();
		if (!traced && v->op == cancel)
			i = htw_vector_change(&c, v, batch, i, count, cancel, 0, &failed);
		else if (!traced && v->flags == relative)
			i = htw_vector_change(&c, v, batch, i, count, mod, relative, &failed);
		else if (!traced && v->flags == absolute)
			i = htw_vector_change(&c, v, batch, i, count, mod, absolute, &failed);
		else
			i = htw_vector_change(&c, v, batch, i, count, HTW_VECTOR_SLOW, 0, &failed);

		/* Those that follow are probably there as well. */
		base = c.base;
		htw_call_unlock(&c);
		cond_resched();
	}
	return failed;
}

/*
 * Write errors in place of the ids of what failed. Return: entries up to one
 * that could not be written.
 */
static u32 htw_vector_write_errors(struct htw_vector_args *v, const struct htw_vector_batch *batch,
				   u32 count)
{
	u64 __user *ids = htw_vector_at(v, v->ids);

	for (u32 i = 0; i < count; i++) {
		if (!HTW_ID_IS_ERROR(batch->ids[i]))
			continue;
		if (put_user(batch->ids[i], ids + i))
			return i;
		v->failed++;
	}
	return count;
}

/*
 * Carry out some entries, as far as they can be read. Return: 0 if that was all
 * of them, -EFAULT, or that of htw_vector_add_batch().
 */
static int htw_vector_submit(struct htw_context *ctx, struct htw_vector_args *v,
			     struct htw_vector_batch *batch, u32 want, gfp_t gfp)
{
	struct htw_base *base = v->op == HTW_OP_ADD ? htw_bases_get(ctx, gfp) : NULL;
	/* With a base the clock is final. */
	s64 offset = v->flags & HTW_F_ABS ? htw_clock_offset(ctx->clock) : 0;
	u32 count = want;
	int ret;

	/*
	 * Deadlines have an array if they are wanted; cookies are zero without
	 * one.
	 */
	if (v->deadlines)
		count = htw_vector_get(v, batch->deadlines, v->deadlines, count);
	if (offset)
		for (u32 i = 0; i < count; i++)
			batch->deadlines[i] = htw_clock_from_user(batch->deadlines[i], offset);

	if (v->cookies)
		count = htw_vector_get(v, batch->cookies, v->cookies, count);
	else if (v->op == HTW_OP_ADD || (v->op == HTW_OP_MOD && v->flags & HTW_MOD_COOKIE))
		memset(batch->cookies, 0, count * sizeof(*batch->cookies));

	if (v->op == HTW_OP_ADD) {
		/* One base may have fewer free timers: the next batch takes the rest of another. */
		want -= count;
		ret = htw_vector_add_batch(ctx, base, v, batch, &count, gfp);
		if (ret < 0)
			return ret;
		want += count;
		count = ret;
	} else {
		count = htw_vector_get(v, batch->ids, v->ids, count);
		if (htw_vector_change_batch(ctx, v, batch, count))
			count = htw_vector_write_errors(v, batch, count);
	}

	v->done += count;
	return count == want ? 0 : -EFAULT;
}

/*
 * Get memory for a vector. @home: out: where the CPU keeps it; NULL if it is
 * charged, and to be freed.
 */
static struct htw_vector_batch *htw_vector_alloc(struct htw_vector_batch ***home, gfp_t gfp)
{
	struct htw_vector_batch *batch;

	*home = raw_cpu_ptr(&htw_vector_cache);
	batch = xchg(*home, HTW_VECTOR_IN_USE);
	if (batch == HTW_VECTOR_IN_USE) {
		*home = NULL;
		return kmalloc(sizeof(*batch), gfp);
	}

	if (!batch)
		batch = kmalloc(sizeof(*batch), gfp & ~__GFP_ACCOUNT);
	if (!batch)
		WRITE_ONCE(**home, NULL);
	return batch;
}

static void htw_vector_free(struct htw_vector_batch *batch, struct htw_vector_batch **home)
{
	if (home)
		/* Pairs with the xchg() in htw_vector_alloc(). */
		smp_store_release(home, batch);
	else
		kfree(batch);
}

/**
 * htw_call_vector() - HTW_VECTOR
 * @ctx: the context
 * @arg: the program's vector
 * @gfp: %HTW_GFP or %HTW_GFP_NOWAIT
 *
 * Context: may sleep if @gfp may.
 * Return: as described at &struct htw_vector_args; -EAGAIN, and nothing was
 * done, if it would have to sleep.
 */
long htw_call_vector(struct htw_context *ctx, struct htw_vector_args __user *arg, gfp_t gfp)
{
	struct htw_vector_batch *batch, **home;
	struct htw_vector_args v;
	int ret = 0;

	if (copy_from_user(&v, arg, sizeof(v)))
		return -EFAULT;
	if (!htw_vector_is_valid(&v))
		return -EINVAL;
	/* Of several batches one that is not the first may need memory. */
	if (v.op == HTW_OP_ADD && v.count > HTW_VECTOR_BATCH && !gfpflags_allow_blocking(gfp))
		return -EAGAIN;
	/* Before an operation is carried out. */
	if (put_user(0, &arg->done) || put_user(0, &arg->failed))
		return -EFAULT;

	batch = htw_vector_alloc(&home, gfp);
	if (!batch)
		return htw_no_memory(gfp);

	v.done = 0;
	v.failed = 0;
	while (v.done < v.count && !ret) {
		if (v.done && signal_pending(current))
			break;
		ret = htw_vector_submit(ctx, &v, batch, min(v.count - v.done, HTW_VECTOR_BATCH),
					gfp);
		htw_pages_shrink(ctx, HTW_VECTOR_BATCH);
		cond_resched();
	}

	htw_vector_free(batch, home);
	if (put_user(v.done, &arg->done) || put_user(v.failed, &arg->failed))
		return -EFAULT;
	return v.done ? 0 : ret;
}

/* Free the memory that vectors have left for the next one. */
void htw_vector_exit(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		kfree(per_cpu(htw_vector_cache, cpu));
		per_cpu(htw_vector_cache, cpu) = NULL;
	}
}
