// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the wheels hold and have done, for people and tools:
 * /sys/kernel/debug/htw/wheels
 *
 * A line for each CPU's wheel and one for each of its levels, of names and
 * values. Fields may be added; read them by their names.
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "htw_debugfs.h"
#include "htw_engine.h"

static struct dentry *htw_debugfs_dir;

static const char * const htw_clock_names[HTW_CLOCKS] = {
	[HTW_CLOCK_MONOTONIC]	= "monotonic",
	[HTW_CLOCK_BOOTTIME]	= "boottime",
	[HTW_CLOCK_REALTIME]	= "realtime",
};

static void htw_debugfs_show_wheel(struct seq_file *m, struct htw_base *base)
{
	struct htw_wheel *w = &base->wheel;

	spin_lock_bh(&base->lock);
	seq_printf(m, "cpu %u clock %s tick_ns %llu pending %llu ",
		   base->cpu, htw_clock_names[base->clock], base->tick_ns, w->pending);
	seq_printf(m, "callbacks %llu cascades %llu exhausted %llu rewinds %llu\n",
		   base->callbacks, w->cascades, base->exhausted, base->rewinds);
	for (unsigned int l = 0; l < w->levels; l++) {
		const struct htw_level *lev = &w->level[l];

		seq_printf(m, "level %u span %llu ring %u occupied %u\n",
			   l, lev->span, lev->ring, lev->used);
	}
	seq_puts(m, "late_us");
	for (unsigned int i = 0; i < HTW_LATE_BUCKETS; i++)
		seq_printf(m, " %llu", base->late[i]);
	seq_putc(m, '\n');
	spin_unlock_bh(&base->lock);
}

static int htw_wheels_show(struct seq_file *m, void *unused)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++) {
			struct htw_base *base = htw_base_on(clock, cpu);

			if (base)
				htw_debugfs_show_wheel(m, base);
		}
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_wheels);

/**
 * htw_debugfs_init() - makes the files; without debugfs there are none
 *
 * Context: process, may sleep.
 */
void htw_debugfs_init(void)
{
	htw_debugfs_dir = debugfs_create_dir("htw", NULL);
	debugfs_create_file("wheels", 0444, htw_debugfs_dir, NULL, &htw_wheels_fops);
}

/**
 * htw_debugfs_exit() - takes the files away
 *
 * Context: process, may sleep.
 */
void htw_debugfs_exit(void)
{
	debugfs_remove_recursive(htw_debugfs_dir);
}
