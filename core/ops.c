// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_ADD, HTW_CANCEL, HTW_MOD and HTW_QUERY, one by one and in batches
 *
 * HTW_ADD writes the id before the timer is armed, so an add that fails leaves
 * nothing behind. HTW_CANCEL has taken effect even if its result cannot be
 * written. In HTW_BATCH, &htw_batch.done says how many operations took effect
 * and have their results written. It copies some operations in at a time,
 * checks and carries them out, and writes back only the results.
 *
 * An operation on an id of a context in which no timer was ever armed fails
 * with -ENOENT without a section: the context's settings may still change, and
 * with them its bases.
 */

#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "copied.h"
#include "ops.h"
#include "pool.h"
#include "section.h"

/* Operations that are copied in at a time, in most batches for one section. */
#define HTW_OPS_BATCH		64u
/* Operations after which a batch looks at the lock. */
#define HTW_OPS_GROUP		32u

static_assert(sizeof(struct htw_add) == 56);
static_assert(sizeof(struct htw_cancel) == 56);
static_assert(sizeof(struct htw_mod) == 56);
static_assert(sizeof(struct htw_query) == 56);
static_assert(sizeof(struct htw_op) == 64);
static_assert(offsetof(struct htw_op, add) == 8);
static_assert(sizeof(struct htw_batch) == 32);

bool htw_op_interval_is_valid(const struct htw_context *ctx, u64 interval,
			      u32 firings)
{
	return interval ? interval >= htw_context_tick_ns(ctx) : !firings;
}

static bool htw_op_query_is_valid(const struct htw_query *query)
{
	return !(query->deadline | query->remaining | query->interval |
		 query->cookie | query->missed | query->firings | query->state |
		 query->flags);
}

/*
 * Read an add that has only a deadline and a cookie, as most do; false if it
 * has more or cannot be read. Costs less than copy_from_user().
 */
static bool htw_op_get_simple_add(struct htw_add *add,
				  const struct htw_add __user *arg)
{
	u64 interval, slack, reserved;
	u32 flags, firings;

	if (!user_access_begin(arg, sizeof(*arg)))
		return false;
	unsafe_get_user(add->deadline, &arg->deadline, fault);
	unsafe_get_user(interval, &arg->interval, fault);
	unsafe_get_user(slack, &arg->slack, fault);
	unsafe_get_user(add->cookie, &arg->cookie, fault);
	unsafe_get_user(flags, &arg->flags, fault);
	unsafe_get_user(firings, &arg->firings, fault);
	unsafe_get_user(reserved, &arg->reserved, fault);
	user_access_end();
	add->flags = flags & HTW_F_ABS;
	return !(interval | slack | reserved | firings | (flags & ~HTW_F_ABS));

fault:
	user_access_end();
	return false;
}

/* Write an id without sleeping; false if that would fault. */
static bool htw_op_put_id(u64 id, u64 __user *to)
{
	bool written = false;

	pagefault_disable();
	if (user_access_begin(to, sizeof(*to))) {
		unsafe_put_user(id, to, fault);
		written = true;
fault:
		user_access_end();
	}
	pagefault_enable();
	return written;
}

/* Reserve a timer without sleeping; NULL if memory has to be allocated or at the limit. */
static struct htw_timer *htw_op_add_reserve(struct htw_context *ctx)
{
	struct htw_timer *t = NULL;

	spin_lock(&ctx->lock);
	if (ctx->nr_timers < ctx->limit)
		t = htw_pool_alloc(ctx);
	spin_unlock(&ctx->lock);
	return t;
}

/* HTW_ADD with any valid request and in any state of the context. */
static noinline_for_stack
long htw_op_add_slow(struct htw_context *ctx, struct htw_add __user *arg)
{
	LIST_HEAD(reserved);
	struct htw_add add;
	struct htw_timer *t;
	struct htw_section s;
	struct htw_user_wait wait = HTW_USER_WAIT;
	int ret;

	if (copy_from_user(&add, arg, sizeof(add)))
		return -EFAULT;
	if (!htw_op_add_is_valid(ctx, &add))
		return -EINVAL;

	ret = htw_pool_reserve(ctx, &reserved, 1, NULL, &wait);
	if (ret < 0)
		return ret;

	t = list_first_entry(&reserved, struct htw_timer, node.list);
	/* The program may use the id from here on: it is -ENOENT until the timer is armed. */
	if (put_user(htw_timer_id(t), &arg->id)) {
		htw_pool_unreserve(ctx, &reserved);
		return -EFAULT;
	}

	htw_context_settle(ctx);
	htw_section_begin(&s, ctx);
	htw_section_add(&s, t, &add, s.direct);
	htw_section_end(&s);
	return 0;
}

/**
 * htw_op_add() - HTW_ADD
 * @ctx: the context
 * @arg: the program's &struct htw_add
 *
 * Most adds are simple, find a free timer, and @arg is in memory: those take
 * one section. If any of this does not hold, htw_op_add_slow() starts over,
 * which can do all adds, but costs a third more.
 *
 * Context: may sleep.
 * Return: as described at &struct htw_add.
 */
long htw_op_add(struct htw_context *ctx, struct htw_add __user *arg)
{
	struct htw_section s __uninitialized;
	struct htw_add add = {};
	struct htw_timer *t;
	bool added = false;

	if (!htw_op_get_simple_add(&add, arg) || !htw_context_is_settled(ctx))
		return htw_op_add_slow(ctx, arg);
	htw_section_begin_add(&s, ctx);
	t = htw_op_add_reserve(ctx);
	if (t) {
		/* The program may use the id from here on. */
		added = htw_op_put_id(htw_timer_id(t), &arg->id);
		if (added)
			htw_section_add(&s, t, &add, s.direct);
		else
			htw_section_free(&s, t);
	}
	htw_section_end(&s);
	return added ? 0 : htw_op_add_slow(ctx, arg);
}

/**
 * htw_op_cancel() - HTW_CANCEL
 * @ctx: the context
 * @arg: the program's &struct htw_cancel
 *
 * Context: may sleep.
 * Return: as described at &struct htw_cancel.
 */
long htw_op_cancel(struct htw_context *ctx, struct htw_cancel __user *arg)
{
	struct htw_cancel cancel __uninitialized;
	struct htw_section s __uninitialized;
	int ret;

	if (copy_from_user(&cancel, arg, sizeof(cancel)))
		return -EFAULT;
	if (!htw_op_cancel_is_valid(ctx, &cancel))
		return -EINVAL;
	if (!htw_context_is_settled(ctx))
		return -ENOENT;
	__htw_section_begin(&s, ctx);
	ret = htw_section_cancel(&s, htw_section_find(&s, cancel.id), &cancel, true);
	htw_section_end(&s);
	if (ret && ret != -EALREADY)
		return ret;
	cancel.ring_tail = htw_context_ring_tail(ctx);
	return copy_to_user(arg, &cancel, sizeof(cancel)) ? -EFAULT : ret;
}

/**
 * htw_op_mod() - HTW_MOD
 * @ctx: the context
 * @arg: the program's &struct htw_mod
 *
 * Context: may sleep.
 * Return: as described at &struct htw_mod.
 */
long htw_op_mod(struct htw_context *ctx, const struct htw_mod __user *arg)
{
	struct htw_mod mod __uninitialized;
	struct htw_section s __uninitialized;
	int ret;

	if (copy_from_user(&mod, arg, sizeof(mod)))
		return -EFAULT;
	if (!htw_op_mod_is_valid(ctx, &mod))
		return -EINVAL;
	if (!htw_context_is_settled(ctx))
		return -ENOENT;
	__htw_section_begin(&s, ctx);
	ret = htw_section_mod(&s, htw_section_find(&s, mod.id), &mod);
	htw_section_end(&s);
	return ret;
}

/**
 * htw_op_query() - HTW_QUERY
 * @ctx: the context
 * @arg: the program's &struct htw_query
 *
 * Context: may sleep.
 * Return: as described at &struct htw_query.
 */
long htw_op_query(struct htw_context *ctx, struct htw_query __user *arg)
{
	struct htw_query query;
	struct htw_section s;
	int ret;

	if (copy_from_user(&query, arg, sizeof(query)))
		return -EFAULT;
	if (!htw_op_query_is_valid(&query))
		return -EINVAL;
	if (!htw_context_is_settled(ctx))
		return -ENOENT;
	htw_section_begin(&s, ctx);
	ret = htw_section_query(&s, &query);
	htw_section_end(&s);
	if (!ret && copy_to_user(arg, &query, sizeof(query)))
		return -EFAULT;
	return ret;
}

/*
 * Compare the code and the reserved field, which must be zero, at once.
 */
static inline bool htw_op_is(const struct htw_op *op, enum htw_op_code code)
{
	const union {
		struct {
			__u16 op;
			__u16 reserved;
		};
		u32 word;
	} valid = { .op = code };

	return *(const u32 *)op == valid.word;
}

static bool htw_op_is_valid(const struct htw_context *ctx,
			    const struct htw_op *op)
{
	if (htw_op_is(op, HTW_OP_ADD))
		return htw_op_add_is_valid(ctx, &op->add);
	if (htw_op_is(op, HTW_OP_MOD))
		return htw_op_mod_is_valid(ctx, &op->mod);
	if (htw_op_is(op, HTW_OP_CANCEL))
		return htw_op_cancel_is_valid(ctx, &op->cancel);
	return htw_op_is(op, HTW_OP_QUERY) && htw_op_query_is_valid(&op->query);
}

/* What became of an operation of a batch. */
enum htw_batch_done {
	HTW_BATCH_FAST,		/* carried out on the fast path, or not valid */
	HTW_BATCH_SLOW,		/* carried out; the section may be used up */
	HTW_BATCH_NO_TIMER,	/* not carried out: no timer is reserved for it */
};

/* Inline, so that the loop need not compare what this returns. */
static __always_inline
enum htw_batch_done htw_op_batch_one(struct htw_section *s, struct htw_op *op,
				     struct list_head *reserved)
{
	struct htw_timer *t;

	op->result = -EINVAL;
	if (htw_op_is(op, HTW_OP_ADD)) {
		if (!htw_op_add_is_valid(s->ctx, &op->add))
			return HTW_BATCH_FAST;
		if (list_empty(reserved))
			return HTW_BATCH_NO_TIMER;

		t = htw_timer_pop(reserved);
		op->result = 0;
		op->add.id = htw_timer_id(t);
		htw_section_lock_base(s, s->target);
		return htw_section_add(s, t, &op->add, s->direct) ? HTW_BATCH_FAST : HTW_BATCH_SLOW;
	}

	if (htw_op_is(op, HTW_OP_MOD)) {
		if (!htw_op_mod_is_valid(s->ctx, &op->mod))
			return HTW_BATCH_FAST;
		t = htw_section_find(s, op->mod.id);
		op->result = 0;
		if (htw_section_mod_fast(s, t, &op->mod))
			return HTW_BATCH_FAST;
		op->result = htw_section_mod_slow(s, t, &op->mod);
	} else if (htw_op_is(op, HTW_OP_CANCEL)) {
		if (!htw_op_cancel_is_valid(s->ctx, &op->cancel))
			return HTW_BATCH_FAST;
		t = htw_section_find(s, op->cancel.id);
		op->result = 0;
		if (htw_section_cancel_fast(s, t, &op->cancel, true))
			return HTW_BATCH_FAST;
		op->result = htw_section_cancel_slow(s, t, &op->cancel);
	} else if (htw_op_is(op, HTW_OP_QUERY)) {
		if (htw_op_query_is_valid(&op->query))
			op->result = htw_section_query(s, &op->query);
	}
	return HTW_BATCH_SLOW;
}

/*
 * Carry out operations in one section, up to an add for which no timer is
 * reserved. The first one is none.
 *
 * Return: how many were carried out, at least one.
 */
static u32 htw_op_batch_submit(struct htw_context *ctx, struct htw_op *ops,
			       u32 count, struct list_head *reserved)
{
	struct htw_op *op = ops;
	struct htw_section s;

	htw_section_begin(&s, ctx);
	do {
		const struct htw_op *end = min(op + HTW_OPS_GROUP, ops + count);

		while (op < end) {
			enum htw_batch_done done = htw_op_batch_one(&s, op, reserved);

			if (done == HTW_BATCH_NO_TIMER)
				goto out;
			op++;
			if (done == HTW_BATCH_SLOW &&
			    htw_section_is_used_up(&s))
				goto out;
		}
	} while (op < ops + count &&
		 !htw_section_should_end(&s, HTW_OPS_GROUP));
out:
	htw_section_end(&s);
	return op - ops;
}

static u32 htw_op_batch_count_adds(const struct htw_op *ops, u32 count)
{
	u32 adds = 0;

	while (adds < count && htw_op_is(&ops[adds], HTW_OP_ADD))
		adds++;
	return adds;
}

/*
 * Make sure that the first operation can be carried out: reserve timers for the
 * adds that @ops begins with, unless some are left.
 *
 * Return: 0, or the error with which the first operation fails.
 */
static int htw_op_batch_prepare(struct htw_context *ctx,
				const struct htw_op *ops, u32 count,
				struct list_head *reserved,
				struct htw_user_wait *wait)
{
	u32 adds = 0;
	int got;

	if (list_empty(reserved))
		adds = htw_op_batch_count_adds(ops, count);
	if (!adds)
		return htw_context_is_settled(ctx) ? 0 : -ENOENT;

	got = htw_pool_reserve(ctx, reserved, adds, NULL, wait);
	if (got < 0)
		return got;
	htw_context_settle(ctx);
	return 0;
}

/*
 * Carry out operations in order. An add for which no timer can be reserved
 * fails, and the next one is tried: a cancel between them may have made room.
 */
static void htw_op_batch_submit_all(struct htw_context *ctx, struct htw_op *ops,
				    u32 count, struct list_head *reserved,
				    struct htw_user_wait *wait)
{
	u32 i = 0;

	while (i < count) {
		int error = htw_op_batch_prepare(ctx, ops + i, count - i, reserved, wait);

		if (error) {
			ops[i].result = htw_op_is_valid(ctx, &ops[i]) ? error : -EINVAL;
			i++;
		} else {
			i += htw_op_batch_submit(ctx, ops + i, count - i, reserved);
		}
	}
}

/*
 * Write back results; @ring_tail goes to each cancel.
 *
 * Return: the number of operations whose results were written.
 */
static u32 htw_op_batch_write_results(struct htw_op __user *user,
				      const struct htw_op *op, u32 count,
				      u32 ring_tail)
{
	u32 i;

	if (!user_access_begin(user, count * sizeof(*user)))
		return 0;

	for (i = 0; i < count; i++, op++, user++) {
		unsafe_put_user(op->result, &user->result, out);
		if (op->op == HTW_OP_MOD ||
		    (op->result && op->result != -EALREADY))
			continue;

		if (op->op == HTW_OP_ADD) {
			unsafe_put_user(op->add.id, &user->add.id, out);
		} else if (op->op == HTW_OP_CANCEL) {
			unsafe_put_user(op->cancel.remaining,
					&user->cancel.remaining, out);
			unsafe_put_user(op->cancel.cookie, &user->cancel.cookie, out);
			unsafe_put_user(op->cancel.missed, &user->cancel.missed, out);
			unsafe_put_user(ring_tail, &user->cancel.ring_tail, out);
		} else {
			unsafe_copy_to_user((char __user *)&user->query,
					    (const char *)&op->query,
					    sizeof(op->query), out);
		}
	}
out:
	user_access_end();
	return i;
}

/*
 * Carry out a batch, as far as it can be read and its results can be written.
 *
 * Return: 0 if all was done; else -EFAULT or -EINTR, with *done operations
 * done.
 */
static int htw_op_batch_all(struct htw_context *ctx, struct htw_op __user *user,
			    u32 count, struct htw_op *ops, u32 *done)
{
	struct htw_user_wait wait = HTW_USER_WAIT;
	LIST_HEAD(reserved);
	int ret = 0;

	for (*done = 0; *done < count;) {
		u32 want = min(count - *done,
			       htw_section_limit(ctx, HTW_OPS_BATCH));
		u32 n, written;

		if (*done && signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		n = htw_copy_in(ops, user + *done, want, sizeof(*ops));
		htw_op_batch_submit_all(ctx, ops, n, &reserved, &wait);
		written = htw_op_batch_write_results(user + *done, ops, n,
						     htw_context_ring_tail(ctx));
		*done += written;
		if (written < want) {
			ret = -EFAULT;
			break;
		}
		cond_resched();
	}
	if (!list_empty(&reserved))
		htw_pool_unreserve(ctx, &reserved);
	return ret;
}

/**
 * htw_op_batch() - HTW_BATCH
 * @ctx: the context
 * @arg: the program's batch
 *
 * Context: may sleep.
 * Return: as described at &struct htw_batch.
 */
long htw_op_batch(struct htw_context *ctx, struct htw_batch __user *arg)
{
	struct htw_batch batch;
	struct htw_op *ops;
	int ret;

	if (copy_from_user(&batch, arg, sizeof(batch)))
		return -EFAULT;
	if (batch.flags || batch.reserved0 || batch.reserved)
		return -EINVAL;
	ops = kmalloc_array(min(batch.count, HTW_OPS_BATCH), sizeof(*ops),
			    GFP_KERNEL);
	if (!ops)
		return -ENOMEM;
	ret = htw_op_batch_all(ctx, u64_to_user_ptr(batch.ops), batch.count,
			       ops, &batch.done);
	kfree(ops);
	if (put_user(batch.done, &arg->done))
		return -EFAULT;
	return batch.done ? 0 : ret;
}
