// SPDX-License-Identifier: GPL-2.0-only
/* timer_list as a bench_system: the kernel's own timing wheel, up to 12.5% late. */

#include <linux/timer.h>

#include "bench_set.h"
#include "kunit/compat_tests.h"

static u64 units(u64 ns)
{
	/* Round up and add one: the present jiffy has begun already. */
	return nsecs_to_jiffies64(ns + TICK_NSEC - 1) + 1;
}

static void expired(struct timer_list *timer)
{
	bench_expired(&bench_set, timer - (struct timer_list *)bench_set.timers);
}

static void init(struct bench_set *set)
{
	struct timer_list *timers = set->timers;

	for (u32 i = 0; i < set->pending; i++)
		timer_setup(&timers[i], expired, 0);
}

static u32 add(struct bench_set *set)
{
	struct timer_list *timers = set->timers;
	u32 wrong = 0;

	for (u32 i = 0; i < set->pending; i++)
		wrong += mod_timer(&timers[i], jiffies + set->delay_units[i]) != 0;
	return wrong;
}

static u32 rearm(struct bench_set *set, u32 count)
{
	struct timer_list *timers = set->timers;
	u32 wrong = 0;

	for (u32 k = 0; k < count; k++)
		wrong += mod_timer(&timers[set->rearm_order[k]],
				   jiffies + set->later_units[k]) != 1;
	return wrong;
}

static u32 cancel(struct bench_set *set, u32 count)
{
	struct timer_list *timers = set->timers;
	u32 wrong = 0;

	for (u32 k = 0; k < count; k++)
		wrong += timer_delete(&timers[set->cancel_order[k]]) != 1;
	return wrong;
}

static void drain(struct bench_set *set)
{
	struct timer_list *timers = set->timers;

	for (u32 i = 0; i < set->pending; i++)
		timer_delete_sync(&timers[i]);
}

const struct bench_system bench_timer_list = {
	.name = "timer_list",
	.size = sizeof(struct timer_list),
	.units = units,
	.init = init,
	.add = add,
	.rearm = rearm,
	.cancel = cancel,
	.drain = drain,
};
