// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_SETUP: set clock, wheel, CPU, limit and ring of a context before its
 * first timer
 */

#include <linux/capability.h>
#include <linux/cpu.h>
#include <linux/uaccess.h>

#include "cancel_on_set.h"
#include "contexts.h"
#include "ring.h"
#include "setup.h"

static_assert(sizeof(struct htw_setup) == 96);

/* Limits of a private wheel without CAP_SYS_RESOURCE. */
#define HTW_USER_TICK_MIN_NS	(100 * NSEC_PER_USEC)
#define HTW_USER_SLOTS_MAX	4096

/**
 * struct htw_settings - the settings that HTW_SETUP asks for
 * @clock: clock of all its timers
 * @private_base: base with the private wheel, or NULL
 * @cpu: home CPU, or -1
 * @limit: limit of timers
 * @ring: ring of expirations, or NULL
 */
struct htw_settings {
	enum htw_clock clock;
	struct htw_base *private_base;
	int cpu;
	u32 limit;
	struct htw_event_ring *ring;
};

static int htw_setup_clock(const struct htw_setup *setup,
			   struct htw_settings *new)
{
	if (!(setup->flags & HTW_SETUP_CLOCK))
		return setup->clock ? -EINVAL : 0;
	switch (setup->clock) {
	case CLOCK_MONOTONIC:
		new->clock = HTW_MONOTONIC;
		return 0;
	case CLOCK_BOOTTIME:
		new->clock = HTW_BOOTTIME;
		return 0;
	case CLOCK_REALTIME:
		new->clock = HTW_REALTIME;
		return 0;
	case HTW_CLOCK_MANUAL:
		new->clock = HTW_MANUAL;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int htw_setup_limit(const struct htw_setup *setup,
			   struct htw_settings *new)
{
	if (!(setup->flags & HTW_SETUP_LIMIT))
		return setup->limit ? -EINVAL : 0;
	if (!setup->limit || setup->limit > READ_ONCE(htw_max_timers))
		return -ERANGE;
	new->limit = setup->limit;
	return 0;
}

static int htw_setup_home(const struct htw_setup *setup,
			  struct htw_settings *new)
{
	if (!(setup->flags & HTW_SETUP_HOME))
		return setup->home_cpu ? -EINVAL : 0;
	/* A private wheel stays on the CPU that sets it up. */
	if (setup->flags & HTW_SETUP_PRIVATE || new->clock == HTW_MANUAL)
		return -EINVAL;
	if (setup->home_cpu < 0 || setup->home_cpu >= nr_cpu_ids ||
	    !cpu_online(setup->home_cpu))
		return -EINVAL;
	/* Work on a CPU outside of the affinity mask, or on an isolated one, needs a privilege. */
	if ((!cpumask_test_cpu(setup->home_cpu, current->cpus_ptr) ||
	     htw_isolation_covers(setup->home_cpu)) && !capable(CAP_SYS_NICE))
		return -EPERM;
	new->cpu = setup->home_cpu;
	return 0;
}

/* Check and get geometry and tick of a private wheel; those of the module if not given. */
static int htw_setup_geometry(const struct htw_setup *setup,
			      const struct htw_settings *new,
			      struct htw_geometry *geo, u32 *tick_ns)
{
	bool manual = new->clock == HTW_MANUAL;
	u64 slots = 0;

	*geo = htw_geometry;
	*tick_ns = htw_tick_ns;

	if (!(setup->flags & HTW_SETUP_PRIVATE)) {
		if (setup->tick_ns || setup->levels)
			return -EINVAL;
		for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++) {
			if (setup->slots[l])
				return -EINVAL;
		}
		return 0;
	}

	geo->levels = setup->levels;
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++) {
		geo->slots[l] = setup->slots[l];
		slots += setup->slots[l];
		if (l >= setup->levels && setup->slots[l])
			return -EINVAL;
	}

	if (!htw_tick_is_valid(setup->tick_ns, manual ? 1 : HTW_TICK_MIN_NS) ||
	    setup->levels > HTW_MAX_LEVELS)
		return -ERANGE;
	if (htw_geometry_error(geo))
		return -ERANGE;

	*tick_ns = setup->tick_ns;
	if ((slots > HTW_USER_SLOTS_MAX ||
	     (!manual && *tick_ns < HTW_USER_TICK_MIN_NS)) &&
	    !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	return 0;
}

/* Check before allocating, so that a late setup fails with -EBUSY, not with a quota error. */
static bool htw_setup_is_late(const struct htw_context *ctx)
{
	return READ_ONCE(ctx->settled) || READ_ONCE(ctx->setup);
}

/* Charge a user for a private wheel; return false at the limit. */
static bool htw_setup_charge_wheel(struct htw_user *user)
{
	struct htw_user_wait wait = HTW_USER_WAIT;

	htw_user_wait_begin(&wait, user);
	do {
		if (htw_user_charge_wheel(user))
			return true;
	} while (htw_user_wait_again(&wait));
	return false;
}

static int htw_setup_wheel(const struct htw_setup *setup,
			   struct htw_context *ctx, struct htw_settings *new)
{
	struct htw_geometry geo;
	u32 tick_ns;
	int ret;

	ret = htw_setup_geometry(setup, new, &geo, &tick_ns);
	if (ret)
		return ret;
	if (!(setup->flags & HTW_SETUP_PRIVATE) && new->clock != HTW_MANUAL)
		return 0;
	if (htw_setup_is_late(ctx))
		return -EBUSY;
	if (!htw_setup_charge_wheel(ctx->user))
		return -EPERM;
	new->private_base = htw_bases_create_private(&ctx->user->bases,
						     new->clock, &geo, tick_ns);
	if (!new->private_base) {
		htw_user_uncharge_wheel(ctx->user);
		return -ENOMEM;
	}
	return 0;
}

static int htw_setup_ring(const struct htw_setup *setup,
			  struct htw_context *ctx, struct htw_settings *new)
{
	struct htw_event_ring *ring;

	if (!(setup->flags & HTW_SETUP_RING))
		return 0;
	if (htw_setup_is_late(ctx))
		return -EBUSY;
	ring = htw_ring_alloc(ctx->user, setup->ring_entries);
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	new->ring = ring;
	return 0;
}

static s64 htw_setup_timens(const struct htw_context *ctx, enum htw_clock clock)
{
	switch (clock) {
	case HTW_MONOTONIC:
		return ctx->timens_monotonic;
	case HTW_BOOTTIME:
		return ctx->timens_boottime;
	default:	/* the other clocks have no offset in time namespaces */
		return 0;
	}
}

/* Publish the settings; other threads may be reading them at the same time. */
static int htw_setup_publish(struct htw_context *ctx,
			     const struct htw_settings *new, u32 flags)
{
	lockdep_assert_held(&ctx->lock);

	if (ctx->settled || ctx->nr_timers || ctx->setup)
		return -EBUSY;

	/* Pairs with the address dependency in htw_context_now(). */
	smp_store_release(&ctx->private_base, new->private_base);
	/* Pairs with htw_mmap_ring() and htw_context_ring_tail(). */
	smp_store_release(&ctx->ring, new->ring);

	ctx->cpu = new->cpu;
	if (!new->private_base)
		ctx->bases = htw_bases_by_clock(&ctx->user->bases, new->clock);
	ctx->limit = new->limit;
	ctx->timens = htw_setup_timens(ctx, new->clock);
	ctx->setup = flags;

	/* Pairs with htw_context_is_manual(), which expects @private_base to be set. */
	smp_store_release(&ctx->clock, new->clock);
	return 0;
}

/**
 * htw_setup_context() - HTW_SETUP
 * @ctx: the context
 * @setup: the program's request, not yet validated
 *
 * Context: may sleep.
 * Return: 0 or an error of &struct htw_setup.
 */
int htw_setup_context(struct htw_context *ctx, const struct htw_setup *setup)
{
	u32 known = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE | HTW_SETUP_LIMIT |
		    HTW_SETUP_HOME | HTW_SETUP_RING;
	struct htw_settings new = { .cpu = -1, .limit = ctx->limit };
	int ret;

	if (setup->flags & ~known || setup->reserved0 ||
	    memchr_inv(setup->reserved, 0, sizeof(setup->reserved)))
		return -EINVAL;

	if (setup->ring_entries && !(setup->flags & HTW_SETUP_RING))
		return -EINVAL;

	ret = setup->flags & HTW_SETUP_RING ? htw_ring_check(setup->ring_entries) : 0;
	if (!ret)
		ret = htw_setup_clock(setup, &new);
	if (!ret)
		ret = htw_setup_limit(setup, &new);
	if (!ret)
		ret = htw_setup_home(setup, &new);
	if (!ret)
		ret = htw_setup_wheel(setup, ctx, &new);
	if (!ret)
		ret = htw_setup_ring(setup, ctx, &new);
	if (!ret) {
		spin_lock_bh(&ctx->lock);
		ret = htw_setup_publish(ctx, &new, setup->flags);
		spin_unlock_bh(&ctx->lock);
	}

	if (ret) {
		htw_ring_free(new.ring, ctx->user);
		if (new.private_base) {
			htw_bases_free_private(new.private_base);
			/* Its memory is given back after a grace period, and counts until then. */
			synchronize_rcu();
			htw_user_uncharge_wheel(ctx->user);
		}
		return ret;
	}

	/* For timers with HTW_F_CANCEL_ON_SET. */
	if (new.clock == HTW_REALTIME)
		htw_cancel_on_set_listen(ctx);
	return 0;
}

/**
 * htw_op_setup() - HTW_SETUP
 * @ctx: the context
 * @arg: the program's &struct htw_setup
 *
 * Context: may sleep.
 * Return: as described at &struct htw_setup.
 */
long htw_op_setup(struct htw_context *ctx, const struct htw_setup __user *arg)
{
	struct htw_setup setup;

	if (copy_from_user(&setup, arg, sizeof(setup)))
		return -EFAULT;
	return htw_setup_context(ctx, &setup);
}
