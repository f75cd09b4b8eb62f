// SPDX-License-Identifier: GPL-2.0-only
/* htw's callouts as a bench_system. */

#include <linux/htw.h>

#include "bench_set.h"

static void expired(struct htw_callout *callout)
{
	bench_expired(&bench_set, callout - (struct htw_callout *)bench_set.timers);
}

static void init(struct bench_set *set)
{
	struct htw_callout *timers = set->timers;

	for (u32 i = 0; i < set->pending; i++)
		htw_callout_init(&timers[i], expired);
}

static u32 add(struct bench_set *set)
{
	struct htw_callout *timers = set->timers;
	const u64 now = ktime_get_ns();
	u32 wrong = 0;

	for (u32 i = 0; i < set->pending; i++)
		wrong += htw_callout_start_at(&timers[i], now + set->delay_units[i], 0);
	return wrong;
}

static u32 rearm(struct bench_set *set, u32 count)
{
	struct htw_callout *timers = set->timers;
	const u64 now = ktime_get_ns();
	u32 wrong = 0;

	for (u32 k = 0; k < count; k++)
		wrong += !htw_callout_start_at(&timers[set->rearm_order[k]],
					       now + set->later_units[k], 0);
	return wrong;
}

static u32 cancel(struct bench_set *set, u32 count)
{
	struct htw_callout *timers = set->timers;
	u32 wrong = 0;

	for (u32 k = 0; k < count; k++)
		wrong += !htw_callout_cancel(&timers[set->cancel_order[k]]);
	return wrong;
}

static void drain(struct bench_set *set)
{
	struct htw_callout *timers = set->timers;

	for (u32 i = 0; i < set->pending; i++)
		htw_callout_cancel_sync(&timers[i]);
}

const struct bench_system bench_htw = {
	.name = "htw-kernel",
	.size = sizeof(struct htw_callout),
	.init = init,
	.add = add,
	.rearm = rearm,
	.cancel = cancel,
	.drain = drain,
};
