// SPDX-License-Identifier: GPL-2.0-only
/*
 * What programs and administrators can learn about a context: HTW_INFO and
 * fdinfo
 */

#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "info.h"
#include "table.h"

#define HTW_FEATURES		(HTW_FEATURE_ADD | HTW_FEATURE_KEEP | HTW_FEATURE_FIRINGS | \
				 HTW_FEATURE_MOD | HTW_FEATURE_SLACK | HTW_FEATURE_ALL | \
				 HTW_FEATURE_SETUP | HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR | \
				 HTW_FEATURE_RING | HTW_FEATURE_TABLE | \
				 HTW_FEATURE_CANCEL_ON_SET | HTW_FEATURE_RING_TAIL | \
				 HTW_FEATURE_NEXT | HTW_FEATURE_LIST_STATES | \
				 HTW_FEATURE_UNREAD)

static_assert(sizeof(struct htw_info) == 120);

static const __s32 htw_info_clocks[] = {
	[HTW_MONOTONIC]	= CLOCK_MONOTONIC,
	[HTW_BOOTTIME]	= CLOCK_BOOTTIME,
	[HTW_REALTIME]	= CLOCK_REALTIME,
	[HTW_MANUAL]	= HTW_CLOCK_MANUAL,
};

/**
 * htw_op_info() - HTW_INFO
 * @ctx: the context
 * @arg: the program's &struct htw_info
 *
 * Context: may sleep.
 * Return: 0 or -EFAULT.
 */
long htw_op_info(struct htw_context *ctx, struct htw_info __user *arg)
{
	struct htw_info info = { .features = HTW_FEATURES };
	const struct htw_wheel *wheel;

	spin_lock_bh(&ctx->lock);
	wheel = ctx->private_base ? &ctx->private_base->wheel : NULL;
	info.tick_ns = htw_context_tick_ns(ctx);
	info.limit = ctx->limit;
	info.clock = htw_info_clocks[ctx->clock];
	info.home_cpu = ctx->cpu;
	info.flags = ctx->setup;
	info.ring_entries = ctx->ring ? ctx->ring->entries : 0;
	info.timers = ctx->nr_timers;
	info.expired = ctx->nr_expired;
	spin_unlock_bh(&ctx->lock);
	info.table_size = htw_table_size(ctx);

	info.levels = wheel ? wheel->levels : htw_geometry.levels;
	for (unsigned int l = 0; l < info.levels; l++)
		info.slots[l] = wheel ? wheel->level[l].nr_buckets / 2 :
					htw_geometry.slots[l];
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

/**
 * htw_info_show() - write a context's lines of /proc/PID/fdinfo/FD
 * @ctx: the context
 * @m: output
 */
void htw_info_show(struct htw_context *ctx, struct seq_file *m)
{
	u32 timers, expired;
	u64 times, ns;

	spin_lock_bh(&ctx->lock);
	timers = ctx->nr_timers;
	expired = ctx->nr_expired;
	spin_unlock_bh(&ctx->lock);
	seq_printf(m, "htw-clock:\t%d\nhtw-tick-ns:\t%u\n",
		   htw_info_clocks[ctx->clock], htw_context_tick_ns(ctx));
	seq_printf(m, "htw-timers:\t%u\nhtw-expired:\t%u\nhtw-limit:\t%u\n",
		   timers, expired, ctx->limit);
	htw_user_throttled(ctx->user, &times, &ns);
	seq_printf(m, "htw-throttled:\t%llu\nhtw-throttled-ns:\t%llu\n", times, ns);
}
