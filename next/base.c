// SPDX-License-Identifier: GPL-2.0-only
/*
 * A base: a context's wheel on a CPU, with its lock
 */

#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/slab.h>

#include "alarm.h"
#include "base.h"
#include "context.h"
#include "delay.h"
#include "wait.h"

/* Between the sizes of kmalloc(): a program may have 100,000 of them. */
static struct kmem_cache *htw_base_cache;

/* A time that no clock reaches: hrtimers end there. */
#define HTW_TIME_MAX		((u64)KTIME_MAX)

int __init htw_bases_init(void)
{
	htw_base_cache = KMEM_CACHE(htw_base, SLAB_ACCOUNT);
	return htw_base_cache ? 0 : -ENOMEM;
}

/* There is no base. */
void htw_bases_exit(void)
{
	kmem_cache_destroy(htw_base_cache);
}

/**
 * htw_base_alloc() - make a base
 * @ctx: the context, whose settings are final
 * @index: of the CPU
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the base, or NULL.
 */
struct htw_base *htw_base_alloc(struct htw_context *ctx, unsigned int index)
{
	struct htw_base *base = kmem_cache_zalloc(htw_base_cache,
						  GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL);

	if (!base)
		return NULL;
	spin_lock_init(&base->lock);
	base->index = index;
	base->ctx = ctx;
	base->tick_ns = ctx->tick_ns;
	base->next_tick = HTW_NEVER;
	base->next = HTW_NEVER;
	base->first_tick = HTW_NEVER;
	base->first = HTW_NEVER;
	base->armed = HTW_NEVER;
	timerqueue_init(&base->node);
	htw_wheel_init(&base->wheel, htw_base_tick(base, htw_clock_now(ctx->clock)));
	return base;
}

static struct htw_geometry htw_base_geometry(const struct htw_base *base)
{
	struct htw_geometry geo;

	htw_geometry_default(&geo, base->tick_ns, 0);
	return geo;
}

void htw_base_free_levels(const struct htw_base *base, void *levels)
{
	const struct htw_geometry geo = htw_base_geometry(base);

	if (levels)
		free_pages_exact(levels, htw_geometry_bytes(&geo));
}

/* Free a base that nothing refers to; its timers are not looked at. */
void htw_base_free(struct htw_base *base)
{
	if (base->wheel.levels)
		htw_base_free_levels(base, base->wheel.level);
	kmem_cache_free(htw_base_cache, base);
}

/**
 * __htw_base_alloc_levels() - memory for a base that is about to have many
 * timers
 * @base: the base, not locked
 *
 * A wheel works without levels: without memory, starting costs more.
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: for htw_base_add_levels(), or NULL.
 */
void *__htw_base_alloc_levels(const struct htw_base *base)
{
	struct htw_geometry geo;

	geo = htw_base_geometry(base);
	return alloc_pages_exact(htw_geometry_bytes(&geo),
				 GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN);
}

/* Give a base levels, unless it has some: then *@levels stays. */
void htw_base_add_levels(struct htw_base *base, void **levels)
{
	const struct htw_geometry geo = htw_base_geometry(base);

	lockdep_assert_held(&base->lock);

	if (base->wheel.levels)
		return;
	htw_wheel_add_levels(&base->wheel, &geo, *levels);
	*levels = NULL;
}

/* When a tick begins, in ns. */
static u64 htw_base_time(const struct htw_base *base, u64 tick)
{
	u64 ns;

	return check_mul_overflow(tick, base->tick_ns, &ns) || ns > HTW_TIME_MAX ? HTW_NEVER : ns;
}

/* Publish when the next work is. To be called before the lock is dropped. */
void htw_base_publish(struct htw_base *base)
{
	struct htw_wheel *w = &base->wheel;
	u64 next = htw_wheel_next(w), first = next;

	lockdep_assert_held(&base->lock);

	base->next_tick = next;

	/* Below that, it is a node that expires. */
	if (w->levels && next >= w->settled)
		first = htw_wheel_first_tick(w);
	base->first_tick = first;
	base->is_stale = false;
	WRITE_ONCE(base->first, htw_base_time(base, first));
	WRITE_ONCE(base->next, htw_base_time(base, next));
}

/**
 * htw_base_look() - is a timer due? Move buckets down if none is
 * @base: the base, locked
 * @now: the time, in ns
 * @budget: nodes that may be looked at
 *
 * Return: is a timer due? If not, and the budget is used up, more is to be
 * moved down.
 */
bool htw_base_look(struct htw_base *base, u64 now, unsigned int *budget)
{
	const u64 tick = htw_base_tick(base, now);

	lockdep_assert_held(&base->lock);

	do {
		if (htw_wheel_collect_due(&base->wheel, tick, budget))
			break;
	} while (*budget && !htw_wheel_cascade(&base->wheel, budget) && *budget);
	return !list_empty(&base->wheel.due);
}

/* htw_base_unlock() if there is something to do. */
void htw_base_tell(struct htw_base *base, u64 now)
{
	unsigned int budget = HTW_BASE_LOOKS;
	const bool tell = htw_base_look(base, now, &budget);

	htw_base_publish(base);
	if (tell) {
		/* In this order: htw_collect_looked() has the other one. */
		WRITE_ONCE(base->told, true);
		htw_delay_atomic();
		htw_base_mark(base);
	}
	htw_base_drop_lock(base);
	if (tell) {
		htw_delay();
		htw_wait_wake(base->ctx);
		if (htw_wait_is_left(base->ctx))
			htw_alarm_again(base);
	}
	htw_base_check_alarm(base);
}
