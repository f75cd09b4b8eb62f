// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context from open() to close(), and its bases
 */

#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "alarm.h"
#include "context.h"
#include "user.h"
#include "wait.h"

unsigned int htw_tick_us = 1000;
unsigned int htw_max_timers = 1048576;

/* As of bases. */
static struct kmem_cache *htw_context_cache;

int __init htw_contexts_init(void)
{
	htw_context_cache = KMEM_CACHE(htw_context, SLAB_ACCOUNT);
	return htw_context_cache ? 0 : -ENOMEM;
}

/* There is no context. */
void htw_contexts_exit(void)
{
	kmem_cache_destroy(htw_context_cache);
}

/**
 * htw_context_open() - make a context for a file that is opened
 *
 * Context: may sleep.
 * Return: the context, or NULL without memory.
 */
struct htw_context *htw_context_open(void)
{
	struct htw_context *ctx = kmem_cache_zalloc(htw_context_cache, GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return NULL;
	ctx->user = htw_user_get();
	if (!ctx->user) {
		kmem_cache_free(htw_context_cache, ctx);
		return NULL;
	}
	ctx->tick_ns = htw_tick_us * NSEC_PER_USEC;
	ctx->work = &ctx->one;
	htw_ids_init(&ctx->ids, READ_ONCE(htw_max_timers));
	mutex_init(&ctx->mutex);
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->readers);
	INIT_LIST_HEAD(&ctx->wake);
	return ctx;
}

/* Room for a base of each CPU. */
static int htw_context_make_room(struct htw_context *ctx)
{
	struct htw_base **others;
	unsigned long *work;

	lockdep_assert_held(&ctx->mutex);

	if (ctx->others)
		return 0;
	others = kcalloc(nr_cpu_ids, sizeof(*others), GFP_KERNEL_ACCOUNT);
	work = kcalloc(BITS_TO_LONGS(nr_cpu_ids + 1), sizeof(long), GFP_KERNEL_ACCOUNT);
	if (!others || !work) {
		kfree(others);
		kfree(work);
		return -ENOMEM;
	}
	/*
	 * A bit that is set in the old one meanwhile would be lost: somebody
	 * looks once for nothing.
	 */
	__set_bit(0, work);
	WRITE_ONCE(ctx->work, work);
	/*
	 * Who sees room for others sees the bits for them. Pairs with
	 * htw_context_bits().
	 */
	smp_store_release(&ctx->others, others);
	return 0;
}

/**
 * htw_context_make_base() - make a base for this CPU, or the first one
 * @ctx: the context
 *
 * Context: may sleep.
 * Return: the base, or NULL without memory.
 */
struct htw_base *htw_context_make_base(struct htw_context *ctx)
{
	struct htw_base *base = NULL, **at = &ctx->first;
	unsigned int cpu = raw_smp_processor_id();

	mutex_lock(&ctx->mutex);
	/*
	 * Others may have made it, or this task has moved to another CPU:
	 * indexes differ.
	 */
	base = ctx->first;
	if (base && base->index == cpu)
		goto out;
	base = NULL;
	if (ctx->first) {
		if (htw_context_make_room(ctx))
			goto out;
		at = &ctx->others[cpu];
	}
	base = *at;
	if (base)
		goto out;
	base = htw_base_alloc(ctx, cpu);
	if (!base)
		goto out;
	ctx->nr_bases++;
	/* Pairs with readers of the pointer, by the address dependency. */
	smp_store_release(at, base);
out:
	mutex_unlock(&ctx->mutex);
	return base;
}

bool htw_context_has_work(const struct htw_context *ctx)
{
	const unsigned int bits = htw_context_bits(ctx);

	return !bitmap_empty(READ_ONCE(ctx->work), bits);
}

void htw_context_unpin(struct htw_context *ctx)
{
	atomic_t *pins = &ctx->pins;

	/* The context may be gone after that; the address is only compared. */
	if (atomic_dec_and_test(pins))
		wake_up_var(pins);
}

/**
 * htw_context_close() - the file is closed: free all
 * @ctx: the context
 *
 * No task uses it. An alarm's callback and a work item may, for as long as they
 * have it pinned.
 */
void htw_context_close(struct htw_context *ctx)
{
	const unsigned int bits = htw_context_bits(ctx);

	for (unsigned int bit = 0; bit < bits; bit++) {
		struct htw_base *base = htw_context_at_bit(ctx, bit);

		if (base)
			htw_alarm_take_out(base);
	}
	htw_wait_take_out(ctx);
	wait_var_event(&ctx->pins, !atomic_read(&ctx->pins));

	for (unsigned int bit = 0; bit < bits; bit++) {
		struct htw_base *base = htw_context_at_bit(ctx, bit);

		if (base)
			htw_base_free(base);
	}
	htw_ids_exit(ctx);
	htw_user_put(ctx->user);
	kfree(ctx->others);
	if (ctx->work != &ctx->one)
		kfree(ctx->work);
	kmem_cache_free(htw_context_cache, ctx);
}
