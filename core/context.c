// SPDX-License-Identifier: GPL-2.0-only
/*
 * A context: what one open of /dev/htw has
 */

#include <linux/init.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "context.h"
#include "user.h"

unsigned int htw_tick_us = 1000;
unsigned int htw_max_timers = 1048576;

/* Both are between the sizes of kmalloc(): a program may have 100,000. */
static struct kmem_cache *htw_context_cache;
struct kmem_cache *htw_base_cache;

int __init htw_contexts_init(void)
{
	htw_context_cache = KMEM_CACHE(htw_context, SLAB_ACCOUNT);
	htw_base_cache = KMEM_CACHE(htw_base, SLAB_ACCOUNT);
	if (htw_context_cache && htw_base_cache)
		return 0;
	htw_contexts_exit();
	return -ENOMEM;
}

/* There is no context, and no base. */
void htw_contexts_exit(void)
{
	kmem_cache_destroy(htw_base_cache);
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
	htw_geometry_default(&ctx->geo, ctx->tick_ns, 0);
	htw_ids_init(&ctx->ids);
	htw_ids_limit(&ctx->ids, READ_ONCE(htw_max_timers));
	mutex_init(&ctx->mutex);
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->readers);
	atomic_set(&ctx->pins, 1);
	return ctx;
}

/* A number of bytes as slots of timers. */
static u32 htw_context_slots(size_t bytes)
{
	return DIV_ROUND_UP(bytes, sizeof(struct htw_timer));
}

/**
 * htw_context_charge() - charge a context's user for memory
 * @ctx: the context
 * @bytes: how much; as many timers as it would have room for
 *
 * Return: false at the user's limit. A caller that fails for that calls
 * htw_user_refuse(), which logs it.
 */
bool htw_context_charge(struct htw_context *ctx, size_t bytes)
{
	if (!htw_user_charge(ctx->user, htw_context_slots(bytes)))
		return false;
	atomic_add(htw_context_slots(bytes), &ctx->charged);
	return true;
}

void htw_context_uncharge(struct htw_context *ctx, size_t bytes)
{
	atomic_sub(htw_context_slots(bytes), &ctx->charged);
	htw_user_uncharge(ctx->user, htw_context_slots(bytes));
}

/* The base of an index that a timer has, or NULL. */
struct htw_base *htw_context_base_of(const struct htw_context *ctx, unsigned int index)
{
	struct htw_base **others = READ_ONCE(ctx->others);

	return others ? READ_ONCE(others[index]) : READ_ONCE(ctx->first);
}

/*
 * The first base from an index on, which becomes its index; NULL if there is
 * none.
 */
struct htw_base *htw_context_base_from(const struct htw_context *ctx, unsigned int *index)
{
	/* Pairs with htw_bases_make_room(): as below. */
	struct htw_base **others = smp_load_acquire(&ctx->others), *base;

	if (!others) {
		/* Pairs with htw_bases_make(): the settings are read after that. */
		base = *index ? NULL : smp_load_acquire(&ctx->first);
		*index = nr_cpu_ids;
		return base;
	}
	for (; *index < nr_cpu_ids; ++*index) {
		base = READ_ONCE(others[*index]);
		if (base)
			return base;
	}
	return NULL;
}

/* Has a base something due, or buckets to be moved down? Perhaps not any more. */
bool htw_context_has_work(const struct htw_context *ctx)
{
	const struct htw_base *base;
	u64 now = 0;

	htw_context_for_each_base(ctx, base) {
		/* With a base the clock is final. */
		now = now ?: htw_context_now(ctx);
		if (htw_base_has_work(base, now))
			return true;
	}
	return false;
}

/*
 * A time before which no timer of a context is due; %HTW_NEVER if none is
 * armed.
 */
u64 htw_context_next(const struct htw_context *ctx)
{
	const struct htw_base *base;
	u64 next = HTW_NEVER;

	htw_context_for_each_base(ctx, base)
		next = min(next, READ_ONCE(base->first));
	return next;
}

/* The live timers of a context; no base is locked. */
u32 htw_context_timers(const struct htw_context *ctx)
{
	struct htw_base *base;
	u32 count = 0;

	htw_context_for_each_base(ctx, base) {
		spin_lock(&base->lock);
		count += base->wheel.pending + base->nr_idle;
		spin_unlock(&base->lock);
	}
	return count;
}

/* Free a context of which bases and pages are gone. */
void htw_context_free(struct htw_context *ctx)
{
	WARN_ON_ONCE(atomic_read(&ctx->charged));
	htw_user_put(ctx->user);
	kmem_cache_free(htw_context_cache, ctx);
}

void htw_context_unpin(struct htw_context *ctx)
{
	atomic_t *pins = &ctx->pins;

	/* The context may be gone after that; the address is only compared. */
	if (atomic_dec_and_test(pins))
		wake_up_var(pins);
}
