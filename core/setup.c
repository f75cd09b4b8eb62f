// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_SETUP and HTW_INFO: a context's settings, which are final with its first
 * base or page; and HTW_ADVANCE: its manual clock
 */

#include <linux/capability.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "pages.h"
#include "ring.h"
#include "setup.h"
#include "user.h"
#include "wait.h"

static_assert(sizeof(struct htw_setup_args) == 64);
static_assert(sizeof(struct htw_info_args) == 112);
static_assert(sizeof(struct htw_advance_args) == 16);

/* The clock that a program asks for; HTW_MONOTONIC if it does not. */
static int htw_setup_clock(const struct htw_setup_args *setup, enum htw_clock *clock)
{
	*clock = HTW_MONOTONIC;
	if (!(setup->flags & HTW_SETUP_CLOCK))
		return setup->clock ? -EINVAL : 0;
	for (*clock = 0; *clock <= HTW_MANUAL; ++*clock) {
		if (htw_clock_id(*clock) == setup->clock)
			return 0;
	}
	return -EOPNOTSUPP;
}

static int htw_setup_tick(const struct htw_setup_args *setup, enum htw_clock clock, u64 *tick_ns)
{
	u64 least = clock == HTW_MANUAL ? 1 : HTW_TICK_MIN_PRIVILEGED_NS;

	*tick_ns = htw_tick_us * NSEC_PER_USEC;
	if (setup->flags & HTW_SETUP_EXACT) {
		*tick_ns = HTW_TICK_MIN_NS;
		return setup->tick_ns ? -EINVAL : 0;
	}
	if (!setup->tick_ns)
		return 0;
	if (setup->tick_ns < least || setup->tick_ns > HTW_TICK_MAX_NS)
		return -ERANGE;
	if (clock != HTW_MANUAL && setup->tick_ns < HTW_TICK_MIN_NS && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	*tick_ns = setup->tick_ns;
	return 0;
}

/* Slot counts, if a program gives some; else @geo->levels is zero. */
static int htw_setup_geometry(const struct htw_setup_args *setup, struct htw_geometry *geo)
{
	*geo = (struct htw_geometry){ .levels = setup->levels };
	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++) {
		geo->slots[l] = setup->slots[l];
		if (l >= setup->levels && setup->slots[l])
			return -EINVAL;
	}
	if (setup->levels && (setup->levels > HTW_MAX_LEVELS || htw_geometry_error(geo)))
		return -ERANGE;
	return 0;
}

static int htw_setup_apply(struct htw_context *ctx, const struct htw_setup_args *setup,
			   enum htw_clock clock, u64 tick_ns, const struct htw_geometry *geo)
{
	lockdep_assert_held(&ctx->mutex);

	if (ctx->first || ctx->ids.nr_pages || ctx->is_set_up)
		return -EBUSY;

	ctx->clock = clock;
	ctx->tick_ns = tick_ns;
	if (geo->levels)
		ctx->geo = *geo;
	else
		htw_geometry_default(&ctx->geo, tick_ns, 0);
	if (setup->limit)
		htw_ids_limit(&ctx->ids, setup->limit);
	ctx->setup_flags = setup->flags;
	ctx->is_set_up = true;
	return 0;
}

/**
 * htw_setup() - HTW_SETUP
 * @ctx: the context
 * @arg: what the program asks for
 *
 * Context: may sleep.
 * Return: as described at &struct htw_setup_args.
 */
long htw_setup(struct htw_context *ctx, const struct htw_setup_args __user *arg)
{
	struct htw_setup_args setup;
	struct htw_geometry geo;
	enum htw_clock clock;
	u64 tick_ns;
	int ret;

	if (copy_from_user(&setup, arg, sizeof(setup)))
		return -EFAULT;
	if (!memchr_inv(&setup, 0, sizeof(setup)))
		return 0;
	if (setup.flags & ~(HTW_SETUP_CLOCK | HTW_SETUP_EXACT | HTW_SETUP_ORDERED))
		return -EINVAL;
	if (setup.event_size && setup.event_size != sizeof(struct htw_event))
		return -EINVAL;
	if (setup.limit > READ_ONCE(htw_max_timers))
		return -ERANGE;

	ret = htw_setup_clock(&setup, &clock);
	if (!ret)
		ret = htw_setup_geometry(&setup, &geo);
	if (!ret)
		ret = htw_setup_tick(&setup, clock, &tick_ns);
	if (ret)
		return ret;

	mutex_lock(&ctx->mutex);
	ret = htw_setup_apply(ctx, &setup, clock, tick_ns, &geo);
	htw_pages_unlock(ctx);
	return ret;
}

/**
 * htw_setup_info() - HTW_INFO
 * @ctx: the context
 * @arg: where to write it
 *
 * Context: may sleep.
 * Return: 0 or -EFAULT.
 */
long htw_setup_info(struct htw_context *ctx, struct htw_info_args __user *arg)
{
	struct htw_info_args info = {
		.features = HTW_FEATURE_FIRST | HTW_FEATURE_URING,
		.bytes = (u64)atomic_read(&ctx->charged) * sizeof(struct htw_timer),
		.user_limit = htw_user_limit(ctx->user),
		.user_timers = atomic64_read(&ctx->user->timers),
		.next = htw_clock_to_user(htw_context_next(ctx), htw_clock_offset(ctx->clock)),
		.limit = READ_ONCE(ctx->ids.limit),
		.timers = htw_context_timers(ctx),
		.tick_ns = ctx->tick_ns,
		.clock = htw_clock_id(ctx->clock),
		.flags = ctx->setup_flags,
		.event_size = sizeof(struct htw_event),
		.levels = ctx->geo.levels,
	};

	for (unsigned int l = 0; l < HTW_MAX_LEVELS; l++)
		info.slots[l] = ctx->geo.slots[l];

	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/*
 * Bring a base up to the present, and wake the tasks that wait if a timer is
 * due. Return: is a timer due?
 */
static int htw_setup_advance_base(struct htw_base *base, u64 now)
{
	for (;;) {
		unsigned int budget = HTW_BASE_LOOKS;
		bool due, done;

		htw_base_lock(base, &now);
		done = htw_base_catch_up(base, now, &budget);
		due = !list_empty(&base->wheel.due);
		htw_ring_unlock(base, now, budget);
		if (done)
			return due;
		if (fatal_signal_pending(current)) {
			/* The clock has moved: others go on. */
			htw_wait_wake_all(base->ctx);
			return -EINTR;
		}
		cond_resched();
	}
}

/**
 * htw_setup_advance() - HTW_ADVANCE
 * @ctx: the context
 * @arg: by how much, or to when
 *
 * Context: may sleep.
 * Return: as described at &struct htw_advance_args.
 */
long htw_setup_advance(struct htw_context *ctx, struct htw_advance_args __user *arg)
{
	struct htw_advance_args advance;
	struct htw_base *base;
	u64 time;
	int ret;

	if (copy_from_user(&advance, arg, sizeof(advance)))
		return -EFAULT;
	if (ctx->clock != HTW_MANUAL || advance.flags & ~HTW_F_ABS)
		return -EINVAL;
	if (put_user(0, &arg->due))
		return -EFAULT;

	ret = mutex_lock_killable(&ctx->mutex);
	if (ret)
		return ret;
	time = advance.flags & HTW_F_ABS ? advance.ns : htw_arith_sum(ctx->manual, advance.ns);
	if (time < ctx->manual || time > KTIME_MAX)
		ret = -EINVAL;
	else
		WRITE_ONCE(ctx->manual, time);
	base = ctx->first;
	htw_pages_unlock(ctx);

	/* Another call may overtake this one: the base goes on to the later time. */
	if (!ret && base)
		ret = htw_setup_advance_base(base, time);
	if (ret < 0)
		return ret;
	return put_user(ret, &arg->due) ? -EFAULT : 0;
}
