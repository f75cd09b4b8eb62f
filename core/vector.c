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

#include "compat.h"
#include "copied.h"
#include "ops.h"
#include "pool.h"
#include "section.h"
#include "vector.h"

/* Operations that are copied in at a time, in most vectors for one section. */
#define HTW_VECTOR_BATCH	256u

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
 * have kmalloc() clear what it returns (init_on_alloc), which takes longer than
 * a short vector. A vector takes it by xchg and then owns it.
 */
static DEFINE_PER_CPU(struct htw_vector_batch *, htw_vector_cache);

/* The request that all entries of a vector share, but for deadline and cookie. */
static struct htw_add htw_vector_add(const struct htw_vector *v)
{
	return (struct htw_add) {
		.interval = v->interval,
		.slack = v->slack,
		.flags = v->flags,
		.firings = v->firings,
	};
}

static struct htw_mod htw_vector_mod(const struct htw_vector *v)
{
	return (struct htw_mod) {
		.interval = v->interval,
		.slack = v->slack,
		.flags = v->flags,
		.firings = v->firings,
	};
}

/* @ring_tail, which has fewer bits than the vector's, is only checked for being zero. */
static struct htw_cancel htw_vector_cancel(const struct htw_vector *v)
{
	return (struct htw_cancel) {
		.flags = v->flags,
		.ring_tail = !!v->ring_tail,
	};
}

/* Check that an array is passed if and only if it is wanted. It may be absent if empty. */
static bool htw_vector_array_is_valid(const struct htw_vector *v, u64 array,
				      bool wanted)
{
	return array ? wanted : !wanted || !v->count;
}

static bool htw_vector_is_valid(const struct htw_context *ctx,
				const struct htw_vector *v)
{
	const struct htw_add add = htw_vector_add(v);
	const struct htw_mod mod = htw_vector_mod(v);
	const struct htw_cancel cancel = htw_vector_cancel(v);

	if (v->reserved0 || (v->reserved && v->op != HTW_OP_CANCEL) ||
	    !htw_vector_array_is_valid(v, v->ids, true))
		return false;

	switch (v->op) {
	case HTW_OP_ADD:
		return htw_vector_array_is_valid(v, v->deadlines, true) &&
		       htw_op_add_is_valid(ctx, &add);
	case HTW_OP_MOD:
		return htw_vector_array_is_valid(v, v->deadlines, v->flags & HTW_MOD_DEADLINE) &&
		       !(v->flags & HTW_MOD_UNREAD) &&
		       (!v->cookies || v->flags & HTW_MOD_COOKIE) && htw_op_mod_is_valid(ctx, &mod);
	case HTW_OP_CANCEL:
		return !v->deadlines && !v->cookies && !v->interval &&
		       !v->slack && !v->firings &&
		       htw_op_cancel_is_valid(ctx, &cancel);
	default:
		return false;
	}
}

/* Is this the error of an operation, in place of its id? */
static bool htw_vector_is_error(u64 id)
{
	return id >= (u64)-MAX_ERRNO;
}

static void __user *htw_vector_at(const struct htw_vector *v, u64 array)
{
	return u64_to_user_ptr(array) + v->done * sizeof(u64);
}

/* Copy in the next entries of an array. Return how many could be read. */
static u32 htw_vector_get(const struct htw_vector *v, u64 *to, u64 array,
			  u32 count)
{
	return htw_copy_in(to, htw_vector_at(v, array), count, sizeof(*to));
}

/* Reserve a timer for each add; each for which there is none fails. Return how many did. */
static u32 htw_vector_reserve(struct htw_context *ctx,
			      struct htw_vector_batch *batch, u32 count,
			      struct list_head *reserved,
			      struct htw_user_wait *wait)
{
	u32 failed = 0;

	for (u32 i = 0; i < count;) {
		int got = htw_pool_reserve(ctx, reserved, count - i,
					   batch->ids + i, wait);

		if (got > 0) {
			i += got;
			continue;
		}
		batch->ids[i++] = got;
		failed++;
	}
	return failed;
}

static void htw_vector_begin(struct htw_section *s, struct htw_context *ctx)
{
	htw_section_begin(s, ctx);
	/* Where other wheels shift, these divide: fewer operations for the same cost. */
	if (!s->base->wheel.pow2)
		htw_section_count(s, HTW_SECTION_UNITS / 2);
}

/*
 * Arm reserved timers in order, from entry @i on; @add is what all adds have in
 * common.
 *
 * Return: the first entry that is left to another section; @count if none is.
 */
static __always_inline u32
htw_vector_arm_each(struct htw_section *s, const struct htw_vector_batch *batch,
		    u32 i, u32 count, struct list_head *reserved,
		    struct htw_add add, bool direct, bool some_failed)
{
	struct list_head *entry = reserved->next;

	do {
		u32 end = min(i + HTW_SECTION_GROUP, count);

		while (i < end) {
			struct htw_timer *t = list_entry(entry, struct htw_timer, node.list);

			if (some_failed && htw_vector_is_error(batch->ids[i])) {
				i++;
				continue;
			}
			entry = entry->next;
			add.deadline = batch->deadlines[i];
			add.cookie = batch->cookies[i];
			i++;
			if (!htw_section_add(s, t, &add, direct))
				break;
		}
	} while (i < count && !htw_section_should_end(s, HTW_SECTION_GROUP));
	/* Cut those before @entry off; their links are the wheel's now. */
	reserved->next = entry;
	entry->prev = reserved;
	return i;
}

static void htw_vector_arm(struct htw_context *ctx, const struct htw_vector *v,
			   const struct htw_vector_batch *batch, u32 count,
			   struct list_head *reserved, bool some_failed)
{
	const struct htw_add relative = {}, absolute = { .flags = HTW_F_ABS };
	bool simple = !(v->interval | v->slack | v->firings) && !some_failed;
	struct htw_section s;
	u32 i = 0;

	htw_context_settle(ctx);

	while (i < count) {
		htw_vector_begin(&s, ctx);
		/*
		 * Loops of their own for the most common vectors, with constant
		 * flags and fields that are zero: see docs/performance.md.
		 */
		if (simple && s.direct && v->flags == 0)
			i = htw_vector_arm_each(&s, batch, i, count, reserved,
						relative, true, false);
		else if (simple && s.direct && v->flags == HTW_F_ABS)
			i = htw_vector_arm_each(&s, batch, i, count, reserved,
						absolute, true, false);
		else if (simple && v->flags == 0)
			i = htw_vector_arm_each(&s, batch, i, count, reserved,
						relative, false, false);
		else
			i = htw_vector_arm_each(&s, batch, i, count, reserved,
						htw_vector_add(v), s.direct,
						some_failed);
		htw_section_end(&s);
	}
}

/*
 * Add some timers. As with a single add, ids are written before timers are
 * armed, so that no timer is left behind whose id the program does not have.
 *
 * Return: how many adds were carried out.
 */
static u32 htw_vector_add_batch(struct htw_context *ctx, struct htw_vector *v,
				struct htw_vector_batch *batch, u32 want,
				struct htw_user_wait *wait)
{
	LIST_HEAD(reserved);
	u32 failed = htw_vector_reserve(ctx, batch, want, &reserved, wait);
	u32 count = htw_copy_out(htw_vector_at(v, v->ids), batch->ids, want,
				 sizeof(*batch->ids));

	/* Count only errors that the program has got. */
	if (failed && count < want) {
		failed = 0;
		for (u32 i = 0; i < count; i++)
			failed += htw_vector_is_error(batch->ids[i]);
	}
	v->failed += failed;
	if (count > failed)
		htw_vector_arm(ctx, v, batch, count, &reserved, failed);
	if (!list_empty(&reserved))
		htw_pool_unreserve(ctx, &reserved);
	return count;
}

/*
 * Find some timers and prefetch them all: with millions pending, one cache miss
 * after the other takes longer than everything else.
 */
static __always_inline void htw_vector_find_batch(const struct htw_section *s,
						  const u64 *ids, u32 count,
						  struct htw_timer **found)
{
#pragma GCC unroll 4
	for (u32 i = 0; i < count; i++) {
		found[i] = htw_section_find(s, ids[i]);
		prefetchw(found[i]);
	}
}

/* The slow path; @mod is a copy, so that the loop can keep its own in registers. */
static noinline u32 htw_vector_mod_slow(struct htw_section *s,
					struct htw_timer *t, struct htw_mod mod,
					u64 *id)
{
	int ret = htw_section_mod_slow(s, t, &mod);

	if (!ret)
		return 0;
	*id = ret;
	return 1;
}

/*
 * Change timers, from entry @i on; @mod is what all have in common. Add the
 * number of those that failed to @failed.
 *
 * Return: the first entry that is left to another section; @count if none is.
 */
static __always_inline u32 htw_vector_mod_each(struct htw_section *s,
					       struct htw_vector_batch *batch,
					       u32 i, u32 count,
					       struct htw_mod mod, u32 *failed)
{
	struct htw_timer *found[HTW_SECTION_GROUP] __uninitialized;

	do {
		u32 end = min(i + HTW_SECTION_GROUP, count);
		struct htw_timer **t = found;

		htw_vector_find_batch(s, batch->ids + i, end - i, found);
		for (; i < end; i++, t++) {
			mod.id = batch->ids[i];
			if (mod.flags & HTW_MOD_DEADLINE)
				mod.deadline = batch->deadlines[i];
			if (mod.flags & HTW_MOD_COOKIE)
				mod.cookie = batch->cookies[i];
			if (htw_section_mod_fast(s, *t, &mod))
				continue;
			*failed += htw_vector_mod_slow(s, *t, mod, &batch->ids[i]);
			if (htw_section_is_used_up(s)) {
				i++;
				break;
			}
		}
	} while (i < count && !htw_section_should_end(s, HTW_SECTION_GROUP));
	return i;
}

/* Return how many failed. */
static u32 htw_vector_mod_batch(struct htw_context *ctx,
				const struct htw_vector *v,
				struct htw_vector_batch *batch, u32 count)
{
	const struct htw_mod relative = { .flags = HTW_MOD_DEADLINE };
	const struct htw_mod absolute = { .flags = HTW_MOD_DEADLINE | HTW_F_ABS };
	struct htw_section s;
	u32 failed = 0, i = 0;

	while (i < count) {
		htw_vector_begin(&s, ctx);
		/*
		 * Constant flags for re-arming, as in htw_vector_arm().
		 */
		if (v->flags == relative.flags)
			i = htw_vector_mod_each(&s, batch, i, count, relative, &failed);
		else if (v->flags == absolute.flags)
			i = htw_vector_mod_each(&s, batch, i, count, absolute, &failed);
		else
			i = htw_vector_mod_each(&s, batch, i, count,
						htw_vector_mod(v), &failed);
		htw_section_end(&s);
	}
	return failed;
}

/* The slow path, as htw_vector_mod_slow(). */
static noinline u32 htw_vector_cancel_slow(struct htw_section *s,
					   struct htw_timer *t, u32 flags,
					   u64 *id)
{
	struct htw_cancel cancel = { .id = *id, .flags = flags };
	int ret = htw_section_cancel_slow(s, t, &cancel);

	if (!ret)
		return 0;
	*id = ret;
	return 1;
}

/* As htw_vector_mod_each(). */
static u32 htw_vector_cancel_each(struct htw_section *s, const struct htw_vector *v,
				  struct htw_vector_batch *batch, u32 i, u32 count, u32 *failed)
{
	struct htw_timer *found[HTW_SECTION_GROUP] __uninitialized;
	struct htw_cancel cancel = {};

	do {
		u32 end = min(i + HTW_SECTION_GROUP, count);
		struct htw_timer **t = found;

		htw_vector_find_batch(s, batch->ids + i, end - i, found);
		for (; i < end; i++, t++) {
			cancel.id = batch->ids[i];
			if (htw_section_cancel_fast(s, *t, &cancel, false))
				continue;
			*failed += htw_vector_cancel_slow(s, *t, v->flags, &batch->ids[i]);
			if (htw_section_is_used_up(s)) {
				i++;
				break;
			}
		}
	} while (i < count && !htw_section_should_end(s, HTW_SECTION_GROUP));
	return i;
}

/* Return how many failed. */
static u32 htw_vector_cancel_batch(struct htw_context *ctx,
				   const struct htw_vector *v,
				   struct htw_vector_batch *batch, u32 count)
{
	struct htw_section s;
	u32 failed = 0, i = 0;

	while (i < count) {
		htw_vector_begin(&s, ctx);
		i = htw_vector_cancel_each(&s, v, batch, i, count, &failed);
		htw_section_end(&s);
	}
	return failed;
}

/* Cancel or change timers of a context in which none has been armed. Return how many failed. */
static u32 htw_vector_find_none(struct htw_vector_batch *batch, u32 count)
{
	for (u32 i = 0; i < count; i++)
		batch->ids[i] = -ENOENT;
	return count;
}

/*
 * Write errors in place of the ids of operations that failed. An entry that was
 * an error when it was passed in is not a valid id, so it has failed as well.
 *
 * Return: the number of entries up to the first error that could not be
 * written.
 */
static u32 htw_vector_write_errors(struct htw_vector *v,
				   const struct htw_vector_batch *batch,
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
 * Carry out some entries, as far as they can be read and their results can be
 * written.
 *
 * Return: 0 if that was all of them, else -EFAULT.
 */
static int htw_vector_submit(struct htw_context *ctx, struct htw_vector *v,
			     struct htw_vector_batch *batch, u32 want,
			     struct htw_user_wait *wait)
{
	u32 count = want;

	/* Deadlines have an array if they are wanted; cookies are zero without one. */
	if (v->deadlines)
		count = htw_vector_get(v, batch->deadlines, v->deadlines, count);
	if (v->cookies)
		count = htw_vector_get(v, batch->cookies, v->cookies, count);
	else if (v->op == HTW_OP_ADD ||
		 (v->op == HTW_OP_MOD && v->flags & HTW_MOD_COOKIE))
		memset(batch->cookies, 0, count * sizeof(*batch->cookies));
	if (v->op == HTW_OP_ADD) {
		count = htw_vector_add_batch(ctx, v, batch, count, wait);
	} else {
		u32 failed;

		count = htw_vector_get(v, batch->ids, v->ids, count);
		if (!htw_context_is_settled(ctx))
			failed = htw_vector_find_none(batch, count);
		else if (v->op == HTW_OP_MOD)
			failed = htw_vector_mod_batch(ctx, v, batch, count);
		else
			failed = htw_vector_cancel_batch(ctx, v, batch, count);
		if (failed)
			count = htw_vector_write_errors(v, batch, count);
	}
	v->done += count;
	return count == want ? 0 : -EFAULT;
}

/**
 * htw_op_vector() - HTW_VECTOR
 * @ctx: the context
 * @arg: the program's vector
 *
 * Context: may sleep.
 * Return: as described at &struct htw_vector.
 */
long htw_op_vector(struct htw_context *ctx, struct htw_vector __user *arg)
{
	struct htw_user_wait wait = HTW_USER_WAIT;
	struct htw_vector_batch *batch;
	struct htw_vector v;
	int ret = 0;

	if (copy_from_user(&v, arg, sizeof(v)))
		return -EFAULT;
	if (!htw_vector_is_valid(ctx, &v))
		return -EINVAL;

	batch = this_cpu_xchg(htw_vector_cache, NULL) ?:
			kmalloc(sizeof(*batch), GFP_KERNEL);
	if (!batch)
		return -ENOMEM;

	v.done = 0;
	v.failed = 0;

	while (v.done < v.count && !ret) {
		if (v.done && signal_pending(current))
			break;
		ret = htw_vector_submit(ctx, &v, batch,
					min(v.count - v.done,
					    htw_section_limit(ctx, HTW_VECTOR_BATCH)),
					&wait);
		cond_resched();
	}

	kfree(this_cpu_xchg(htw_vector_cache, batch));

	if (put_user(v.done, &arg->done) || put_user(v.failed, &arg->failed))
		return -EFAULT;
	if (v.op == HTW_OP_CANCEL &&
	    put_user((u64)htw_context_ring_tail(ctx), &arg->ring_tail))
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
