// SPDX-License-Identifier: GPL-2.0-only
/* hrtimer as a bench_system: precise, kept in a tree. */

#include <linux/hrtimer.h>

#include "bench_set.h"
#include "compat.h"

static enum hrtimer_restart expired(struct hrtimer *timer)
{
	bench_expired(&bench_set, timer - (struct hrtimer *)bench_set.timers);
	return HRTIMER_NORESTART;
}

static void init(struct bench_set *set)
{
	struct hrtimer *timers = set->timers;

	for (u32 i = 0; i < set->pending; i++)
		hrtimer_setup(&timers[i], expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

static u32 add(struct bench_set *set)
{
	struct hrtimer *timers = set->timers;
	const u64 now = ktime_get_ns();
	u32 wrong = 0;

	for (u32 i = 0; i < set->pending; i++) {
		wrong += hrtimer_is_queued(&timers[i]);
		hrtimer_start(&timers[i], ns_to_ktime(now + set->delay_units[i]),
			      HRTIMER_MODE_ABS);
	}
	return wrong;
}

static u32 rearm(struct bench_set *set, u32 count)
{
	struct hrtimer *timers = set->timers;
	const u64 now = ktime_get_ns();
	u32 wrong = 0;

	for (u32 k = 0; k < count; k++) {
		struct hrtimer *timer = &timers[set->rearm_order[k]];

		wrong += !hrtimer_is_queued(timer);
		hrtimer_start(timer, ns_to_ktime(now + set->later_units[k]), HRTIMER_MODE_ABS);
	}
	return wrong;
}

static u32 cancel(struct bench_set *set, u32 count)
{
	struct hrtimer *timers = set->timers;
	u32 wrong = 0;

	for (u32 k = 0; k < count; k++)
		wrong += hrtimer_try_to_cancel(&timers[set->cancel_order[k]]) != 1;
	return wrong;
}

static void drain(struct bench_set *set)
{
	struct hrtimer *timers = set->timers;

	for (u32 i = 0; i < set->pending; i++)
		hrtimer_cancel(&timers[i]);
}

const struct bench_system bench_hrtimer = {
	.name = "hrtimer",
	.size = sizeof(struct hrtimer),
	.init = init,
	.add = add,
	.rearm = rearm,
	.cancel = cancel,
	.drain = drain,
};
