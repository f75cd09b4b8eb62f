// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bases of a context, and their memory
 */

#include <linux/gfp.h>
#include <linux/slab.h>

#include "bases.h"
#include "pages.h"
#include "user.h"

/* A new base for a CPU, or ERR_PTR(-EDQUOT) or that of htw_no_memory(). */
static struct htw_base *htw_base_alloc(struct htw_context *ctx, unsigned int index, gfp_t gfp)
{
	struct htw_base *base;

	if (!htw_context_charge(ctx, sizeof(*base)))
		return ERR_PTR(-EDQUOT);
	base = kmem_cache_zalloc(htw_base_cache, gfp);
	if (!base) {
		htw_context_uncharge(ctx, sizeof(*base));
		return ERR_PTR(htw_no_memory(gfp));
	}

	spin_lock_init(&base->lock);
	INIT_LIST_HEAD(&base->pages);
	INIT_LIST_HEAD(&base->empty);
	base->index = index;
	base->key = index * HTW_TIMER_BASE | HTW_TIMER_LIVE | HTW_TIMER_PENDING;
	base->clock = ctx->clock;
	base->ctx = ctx;
	base->ids = &ctx->ids;
	base->alarms = ctx->user->alarms;
	base->tick_ns = ctx->tick_ns;
	base->next_tick = HTW_NEVER;
	base->next = HTW_NEVER;
	base->first_tick = HTW_NEVER;
	base->first = HTW_NEVER;

	base->armed = HTW_NEVER;
	if (ctx->clock == HTW_MANUAL) {
		base->place = HTW_CLOSED;
		base->armed = 0;
	}
	htw_wheel_init(&base->wheel, htw_base_tick(base, htw_context_now(ctx)));
	return base;
}

/* Memory of a base's levels: whole pages. */
static size_t htw_base_levels_bytes(const struct htw_base *base)
{
	return PAGE_ALIGN(htw_geometry_bytes(&base->ctx->geo));
}

void htw_base_free_levels(const struct htw_base *base, void *levels)
{
	size_t bytes;

	if (!levels)
		return;
	bytes = htw_base_levels_bytes(base);
	free_pages_exact(levels, bytes);
	htw_context_uncharge(base->ctx, bytes);
}

/*
 * A base has become empty. Return: the memory of its levels, for
 * htw_base_free_levels() when the lock has been dropped; NULL if it has none.
 */
void *htw_base_remove_levels(struct htw_base *base)
{
	lockdep_assert_held(&base->lock);

	if (!base->wheel.levels)
		return NULL;
	base->is_stale = true;
	return htw_wheel_remove_levels(&base->wheel);
}

/* Free a base; its timers are not looked at. */
static void htw_base_free(struct htw_base *base)
{
	if (base->wheel.levels)
		htw_base_free_levels(base, base->wheel.level);
	htw_context_uncharge(base->ctx, sizeof(*base));
	kmem_cache_free(htw_base_cache, base);
}

/**
 * __htw_base_alloc_levels() - memory for a base that is about to have many
 * timers
 * @base: the base, not locked
 * @gfp: %HTW_GFP or %HTW_GFP_NOWAIT
 *
 * A wheel works without levels: without memory, or at the user's limit,
 * starting costs more.
 *
 * Context: may sleep if @gfp may; charged to the caller's cgroup.
 * Return: for htw_base_add_levels(), or NULL.
 */
void *__htw_base_alloc_levels(const struct htw_base *base, gfp_t gfp)
{
	size_t bytes = htw_base_levels_bytes(base);
	void *levels;

	if (!htw_context_charge(base->ctx, bytes))
		return NULL;
	levels = alloc_pages_exact(bytes, HTW_GFP_EASY(gfp));
	cond_resched();
	if (levels)
		htw_levels_init(&base->ctx->geo, levels);
	else
		htw_context_uncharge(base->ctx, bytes);
	return levels;
}

/* Give a base levels, unless it has some: then *@levels stays. */
void htw_base_add_levels(struct htw_base *base, void **levels)
{
	lockdep_assert_held(&base->lock);

	if (base->wheel.levels)
		return;
	htw_wheel_attach_levels(&base->wheel, &base->ctx->geo, *levels);
	*levels = NULL;
}

/* Memory for the addresses of each CPU's base, with what the allocator adds. */
static size_t htw_bases_room(void)
{
	return kmalloc_size_roundup(nr_cpu_ids * sizeof(struct htw_base *));
}

static int htw_bases_make_room(struct htw_context *ctx, gfp_t gfp)
{
	struct htw_base **others;

	lockdep_assert_held(&ctx->mutex);

	if (ctx->others)
		return 0;
	if (!htw_context_charge(ctx, htw_bases_room()))
		return -EDQUOT;
	others = kzalloc(htw_bases_room(), gfp);
	if (!others) {
		htw_context_uncharge(ctx, htw_bases_room());
		return htw_no_memory(gfp);
	}
	others[ctx->first->index] = ctx->first;
	/* Pairs with readers of the pointer, by the address dependency. */
	smp_store_release(&ctx->others, others);
	return 0;
}

/* May a CPU have a base beside the first one? */
bool htw_bases_may_add(const struct htw_context *ctx)
{
	/* Each base may have a page; one is added when there are as many pages besides. */
	return ctx->clock != HTW_MANUAL && !(ctx->setup_flags & HTW_SETUP_ORDERED) &&
	       htw_ids_pages(&ctx->ids) >= 2 * READ_ONCE(ctx->nr_bases);
}

/**
 * htw_bases_make() - make a base for this CPU, or the first one
 * @ctx: the context
 * @gfp: %HTW_GFP or %HTW_GFP_NOWAIT
 *
 * Context: may sleep if @gfp may.
 * Return: the base, or another one if there is no memory for it;
 * ERR_PTR(-EDQUOT), ERR_PTR(-ENOMEM), ERR_PTR(-EINTR) if the task is killed, or
 * ERR_PTR(-EAGAIN) if it would have to sleep, if there is none.
 */
struct htw_base *htw_bases_make(struct htw_context *ctx, gfp_t gfp)
{
	struct htw_base *base, **at = &ctx->first;
	unsigned int cpu = raw_smp_processor_id();
	int ret;

	htw_delay();
	ret = htw_context_lock(ctx, gfp);
	if (ret)
		/* As htw_bases_get(). */
		return smp_load_acquire(&ctx->first) ?: ERR_PTR(ret);

	if (ctx->first && htw_bases_may_add(ctx) && !htw_bases_make_room(ctx, gfp))
		at = &ctx->others[cpu];
	/*
	 * Others may have made it, or this task has moved to the CPU of the
	 * first one: indexes differ.
	 */
	base = *at;
	if (base)
		goto out;

	/* Who has a base need not have another one. */
	base = htw_base_alloc(ctx, cpu, ctx->first ? HTW_GFP_EASY(gfp) : gfp);
	if (IS_ERR(base)) {
		if (ctx->first)
			base = ctx->first;
		else if (PTR_ERR(base) == -EDQUOT)
			htw_user_refuse(ctx->user);
		goto out;
	}

	ctx->nr_bases++;
	htw_ids_share(&ctx->ids, ctx->nr_bases);
	/* Pairs with readers of the pointer, by the address dependency. */
	smp_store_release(at, base);
out:
	htw_pages_unlock(ctx);
	return base;
}

/* Free all bases of a context, to which nothing refers any more. */
void htw_bases_free(struct htw_context *ctx)
{
	struct htw_base *base;

	htw_context_for_each_base(ctx, base)
		htw_base_free(base);
	if (!ctx->others)
		return;
	htw_context_uncharge(ctx, htw_bases_room());
	kfree(ctx->others);
}
