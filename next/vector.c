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
#include "core/copied.h"

/* Operations that are copied in at a time. */
#define HTW_VECTOR_BATCH	256u
/* Operations after which a loop looks at the lock. */
#define HTW_VECTOR_GROUP	32u

static_assert(sizeof(struct htw_vector) == 72);

/**
 * struct htw_vector_batch - some entries of a vector
 * @ids: ids, or on return negative errors
 * @deadlines: deadlines, if the vector has any
 * @cookies: cookies, or zeroes
 */
struct htw_vector_batch {
	u64 ids[HTW_VECTOR_BATCH];
	u64 deadlines[HTW_VECTOR_BATCH];
	u64 cookies[HTW_VECTOR_BATCH];
};

/*
 * Memory of the last vector on a CPU, for the next one, or NULL: distributions
 * have kmalloc() clear what it returns, which takes longer than a short vector.
 * A vector takes it by xchg and then owns it.
 */
static DEFINE_PER_CPU(struct htw_vector_batch *, htw_vector_cache);

/*
 * The request that all entries of a vector share, but for deadline and cookie.
 */
static struct htw_add htw_vector_add(const struct htw_vector *v)
{
	return (struct htw_add){
		.interval = v->interval,
		.slack = v->slack,
		.flags = v->flags,
		.firings = v->firings,
	};
}

static struct htw_mod htw_vector_mod(const struct htw_vector *v)
{
	return (struct htw_mod){
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
static bool htw_vector_array_is_valid(const struct htw_vector *v, u64 array, bool wanted)
{
	return array ? wanted : !wanted || !v->count;
}

static bool htw_vector_is_valid(const struct htw_context *ctx, const struct htw_vector *v)
{
	const struct htw_add add = htw_vector_add(v);
	const struct htw_mod mod = htw_vector_mod(v);

	if (v->reserved0 || v->reserved || !htw_vector_array_is_valid(v, v->ids, true))
		return false;
	switch (v->op) {
	case HTW_OP_ADD:
		return htw_vector_array_is_valid(v, v->deadlines, true) &&
		       htw_call_add_is_valid(ctx, &add);
	case HTW_OP_MOD:
		return htw_vector_array_is_valid(v, v->deadlines, v->flags & HTW_MOD_DEADLINE) &&
		       (!v->cookies || v->flags & HTW_MOD_COOKIE) &&
		       htw_call_mod_is_valid(ctx, &mod);
	case HTW_OP_CANCEL:
		return !v->deadlines && !v->cookies && !v->interval && !v->slack && !v->firings &&
		       !(v->flags & ~HTW_CANCEL_DISCARD);
	default:
		return false;
	}
}

static bool htw_vector_is_error(u64 id)
{
	return id >= (u64)-MAX_ERRNO;
}

static void __user *htw_vector_at(const struct htw_vector *v, u64 array)
{
	return u64_to_user_ptr(array) + v->done * sizeof(u64);
}

/* Copy in the next entries of an array. Return how many could be read. */
static u32 htw_vector_get(const struct htw_vector *v, u64 *to, u64 array, u32 count)
{
	return htw_copy_in(to, htw_vector_at(v, array), count, sizeof(*to));
}

/*
 * Start reserved timers in order, from entry @i on. Return: the first entry
 * that is left.
 */
static __always_inline u32
htw_vector_start(struct htw_call *c, const struct htw_vector_batch *batch, u32 i, u32 count,
		 struct list_head *reserved, struct htw_add add)
{
	struct list_head *entry = reserved->next;

	do {
		const u32 end = min(i + HTW_VECTOR_GROUP, count);

		for (; i < end; i++) {
			struct htw_timer *t = list_entry(entry, struct htw_timer, node.list);

			entry = entry->next;
			add.deadline = batch->deadlines[i];
			add.cookie = batch->cookies[i];
			htw_call_add(c, t, &add);
		}
	} while (i < count && !htw_call_should_pause(c, HTW_VECTOR_GROUP));
	/* Cut those before @entry off; their links are the wheel's now. */
	reserved->next = entry;
	entry->prev = reserved;
	return i;
}

/*
 * Add some timers. As with a single add, ids are written before timers are
 * started, so that no timer is left behind whose id the program does not have.
 *
 * Return: how many adds were carried out, those that failed included.
 */
static u32 htw_vector_add_batch(struct htw_context *ctx, struct htw_vector *v,
				struct htw_vector_batch *batch, u32 want)
{
	const struct htw_add relative = {}, absolute = { .flags = HTW_F_ABS };
	const bool simple = !(v->interval | v->slack | v->firings);
	struct htw_base *base = htw_context_base(ctx);
	u32 got = 0, written, started, i = 0;
	LIST_HEAD(reserved);
	struct htw_call c;
	void *levels;
	int ret = base ? 0 : -ENOMEM;

	while (got < want && !ret) {
		ret = htw_ids_reserve(ctx, &reserved, want - got, batch->ids + got);
		if (ret > 0) {
			got += ret;
			ret = 0;
		}
	}
	for (u32 n = got; n < want; n++)
		batch->ids[n] = ret;
	written = htw_copy_out(htw_vector_at(v, v->ids), batch->ids, want, sizeof(*batch->ids));
	started = min(written, got);
	v->failed += written - started;
	if (started) {
		levels = htw_base_alloc_levels(base, started);
		while (i < started) {
			htw_call_begin(&c, ctx);
			htw_call_lock(&c, base);
			if (unlikely(levels))
				htw_base_add_levels(base, &levels);
			/*
			 * Loops of their own for the most common vectors, with
			 * constant flags and zeroes.
			 */
			if (simple && !v->flags)
				i = htw_vector_start(&c, batch, i, started, &reserved, relative);
			else if (simple && v->flags == HTW_F_ABS)
				i = htw_vector_start(&c, batch, i, started, &reserved, absolute);
			else
				i = htw_vector_start(&c, batch, i, started, &reserved,
						     htw_vector_add(v));
			htw_call_unlock(&c);
			cond_resched();
		}
		htw_base_free_levels(base, levels);
	}
	if (got > started) {
		struct htw_timer *t;
		LIST_HEAD(ended);

		/* The program may have seen their ids. */
		while (!list_empty(&reserved)) {
			t = htw_timer_pop(&reserved);
			if (htw_timer_end(t))
				list_add(&t->node.list, &ended);
		}
		htw_ids_return(&ctx->ids, &ended, got - started);
	}
	return written;
}

/*
 * Find timers and prefetch them: with millions, one cache miss after the other
 * takes longest.
 */
static __always_inline void htw_vector_find(const struct htw_lookup *lookup, const u64 *ids,
					    u32 count, struct htw_timer **found)
{
#pragma GCC unroll 4
	for (u32 i = 0; i < count; i++) {
		found[i] = htw_lookup_find(lookup, ids[i]);
		prefetchw(found[i]);
	}
}

/*
 * Cancel or change a timer that is not simply pending in the base that is
 * locked.
 */
static noinline bool htw_vector_change_slow(struct htw_call *c, struct htw_timer *t, u64 id,
					    const struct htw_vector *v, u64 deadline, u64 cookie)
{
	struct htw_mod mod;

	c->units -= HTW_CALL_DUE_UNITS;
	if (!htw_call_lock_timer(c, t, id))
		return false;
	if (v->op == HTW_OP_CANCEL) {
		htw_call_cancel(c, t);
		return true;
	}
	mod = htw_vector_mod(v);
	mod.deadline = deadline;
	mod.cookie = cookie;
	htw_call_mod(c, t, &mod);
	return true;
}

/*
 * Cancel or change timers, from entry @i on; @op and @flags, those of @v, are
 * constants in the most common vectors. Return: the first entry that is left.
 */
static __always_inline u32
htw_vector_change(struct htw_call *c, const struct htw_vector *v, struct htw_vector_batch *batch,
		  u32 i, u32 count, u16 op, u32 flags, u32 *failed)
{
	struct htw_timer *found[HTW_VECTOR_GROUP] __uninitialized;
	const u64 now = c->now;

	do {
		const u32 end = min(i + HTW_VECTOR_GROUP, count);
		struct htw_timer **at = found;

		htw_vector_find(&c->lookup, batch->ids + i, end - i, found);
		for (; i < end; i++, at++) {
			struct htw_timer *t = *at;
			const u64 id = batch->ids[i];
			u64 deadline = 0, cookie = 0;

			if (op == HTW_OP_MOD && flags & HTW_MOD_DEADLINE)
				deadline = batch->deadlines[i];
			if (op == HTW_OP_MOD && flags & HTW_MOD_COOKIE)
				cookie = batch->cookies[i];
			if (op == HTW_OP_CANCEL && htw_call_is_at(c->key, t, id, 0)) {
				htw_call_cancel(c, t);
				continue;
			}
			if (op == HTW_OP_MOD && htw_call_is_at(c->key, t, id, HTW_TIMER_SLACK) &&
			    htw_call_move(c->base, t, now, deadline, flags))
				continue;
			if (!htw_vector_change_slow(c, t, id, v, deadline, cookie)) {
				batch->ids[i] = -ENOENT;
				++*failed;
			}
		}
	} while (i < count && !htw_call_should_pause(c, HTW_VECTOR_GROUP));
	return i;
}

/* Return how many failed. */
static u32 htw_vector_change_batch(struct htw_context *ctx, const struct htw_vector *v,
				   struct htw_vector_batch *batch, u32 count)
{
	const u32 relative = HTW_MOD_DEADLINE, absolute = HTW_MOD_DEADLINE | HTW_F_ABS;
	const u16 cancel = HTW_OP_CANCEL, mod = HTW_OP_MOD;
	struct htw_base *base = htw_context_guess(ctx);
	struct htw_call c;
	u32 failed = 0, i = 0;

	if (!base) {
		for (i = 0; i < count; i++)
			batch->ids[i] = -ENOENT;
		return count;
	}
	while (i < count) {
		htw_call_begin(&c, ctx);
		htw_call_lock(&c, base);
		if (v->op == cancel)
			i = htw_vector_change(&c, v, batch, i, count, cancel, 0, &failed);
		else if (v->flags == relative)
			i = htw_vector_change(&c, v, batch, i, count, mod, relative, &failed);
		else if (v->flags == absolute)
			i = htw_vector_change(&c, v, batch, i, count, mod, absolute, &failed);
		else
			i = htw_vector_change(&c, v, batch, i, count, mod, v->flags, &failed);
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
static u32 htw_vector_write_errors(struct htw_vector *v, const struct htw_vector_batch *batch,
				   u32 count)
{
	u64 __user *ids = htw_vector_at(v, v->ids);

	for (u32 i = 0; i < count; i++) {
		if (!htw_vector_is_error(batch->ids[i]))
			continue;
		if (put_user(batch->ids[i], ids + i))
			return i;
		v->failed++;
	}
	return count;
}

/*
 * Carry out some entries, as far as they can be read. Return: 0 if that was all
 * of them, or -EFAULT.
 */
static int htw_vector_submit(struct htw_context *ctx, struct htw_vector *v,
			     struct htw_vector_batch *batch, u32 want)
{
	u32 count = want;

	/*
	 * Deadlines have an array if they are wanted; cookies are zero without
	 * one.
	 */
	if (v->deadlines)
		count = htw_vector_get(v, batch->deadlines, v->deadlines, count);
	if (v->cookies)
		count = htw_vector_get(v, batch->cookies, v->cookies, count);
	else if (v->op == HTW_OP_ADD || (v->op == HTW_OP_MOD && v->flags & HTW_MOD_COOKIE))
		memset(batch->cookies, 0, count * sizeof(*batch->cookies));
	if (v->op == HTW_OP_ADD) {
		count = htw_vector_add_batch(ctx, v, batch, count);
	} else {
		count = htw_vector_get(v, batch->ids, v->ids, count);
		if (htw_vector_change_batch(ctx, v, batch, count))
			count = htw_vector_write_errors(v, batch, count);
	}
	v->done += count;
	return count == want ? 0 : -EFAULT;
}

/**
 * htw_call_vector() - HTW_VECTOR
 * @ctx: the context
 * @arg: the program's vector
 *
 * Context: may sleep.
 * Return: as described at &struct htw_vector.
 */
long htw_call_vector(struct htw_context *ctx, struct htw_vector __user *arg)
{
	struct htw_vector_batch *batch;
	struct htw_vector v;
	int ret = 0;

	if (copy_from_user(&v, arg, sizeof(v)))
		return -EFAULT;
	if (!htw_vector_is_valid(ctx, &v))
		return -EINVAL;
	batch = this_cpu_xchg(htw_vector_cache, NULL) ?: kmalloc(sizeof(*batch), GFP_KERNEL);
	if (!batch)
		return -ENOMEM;
	v.done = 0;
	v.failed = 0;
	while (v.done < v.count && !ret) {
		if (v.done && signal_pending(current))
			break;
		ret = htw_vector_submit(ctx, &v, batch, min(v.count - v.done, HTW_VECTOR_BATCH));
		cond_resched();
	}
	kfree(this_cpu_xchg(htw_vector_cache, batch));
	if (put_user(v.done, &arg->done) || put_user(v.failed, &arg->failed))
		return -EFAULT;
	return v.done ? 0 : ret;
}

/* Free the memory that vectors have left for the next one. */
void htw_vector_exit(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		kfree(per_cpu(htw_vector_cache, cpu));
}
