// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is shown: a context's lines of /proc/PID/fdinfo/FD, and statistics of
 * users in /sys/kernel/debug/htw/
 *
 * What a context's bases have is added up. Each base's lock is held for as long
 * as it takes to copy some numbers.
 *
 * users: a line for each user, and one for each of its alarms that was used
 * lanes: a line for each of the two workqueues that wake tasks
 *
 * Lines of these consist of names and values. Tools must find fields by name,
 * as more may be added.
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "show.h"
#include "user.h"
#include "wait.h"

/**
 * struct htw_fdinfo - what a context's bases have
 * @bases: how many there are
 * @pending: timers that are armed, those that are due among them
 * @cascades: timers that were moved to finer levels
 * @taken: events that were taken
 * @cancelled: timers that calls have ended
 * @oldest: ns since the first timer that nobody has taken was due
 * @levels: how many there are, if a base has levels
 * @span: ticks of a bucket of each level
 * @buckets: buckets of each level
 * @occupied: how many of those hold a timer
 * @alarm_late: how late the alarm rang
 * @taken_late: how late events were taken
 */
struct htw_fdinfo {
	u32 bases;
	u64 pending;
	u64 cascades;
	u64 taken;
	u64 cancelled;
	u64 oldest;
	unsigned int levels;
	u64 span[HTW_WHEEL_MAX_LEVELS];
	u64 buckets[HTW_WHEEL_MAX_LEVELS];
	u64 occupied[HTW_WHEEL_MAX_LEVELS];
	struct htw_late alarm_late;
	struct htw_late taken_late;
};

static void htw_fdinfo_add_late(struct htw_late *sum, const struct htw_late *late)
{
	for (unsigned int i = 0; i < HTW_LATE_BINS; i++)
		sum->bins[i] += READ_ONCE(late->bins[i]);
}

/*
 * How long a timer has been due, in ns: the first that has been found due, or
 * else the one for which the alarm rings.
 */
static u64 htw_fdinfo_oldest(const struct htw_base *base, u64 now)
{
	const struct htw_wheel *w = &base->wheel;
	u64 due = base->is_guess ? HTW_NEVER : base->first;

	lockdep_assert_held(&base->lock);

	if (!list_empty(&w->due))
		due = list_first_entry(&w->due, struct htw_timer, node.list)->deadline;
	return now - min(now, due);
}

static void htw_fdinfo_add_base(struct htw_fdinfo *info, struct htw_base *base)
{
	u64 now = htw_context_now(base->ctx);
	const struct htw_wheel *w = &base->wheel;

	spin_lock(&base->lock);
	info->bases++;
	info->pending += w->pending;
	info->cascades += w->cascades;
	info->taken += base->taken;
	info->cancelled += base->cancelled;
	info->oldest = max(info->oldest, htw_fdinfo_oldest(base, now));
	info->levels = max(info->levels, w->levels);

	for (unsigned int l = 0; l < w->levels; l++) {
		info->span[l] = w->level[l].span;
		info->buckets[l] += w->level[l].nr_buckets;
		info->occupied[l] += w->level[l].nonempty;
	}

	htw_fdinfo_add_late(&info->taken_late, &base->taken_late);
	spin_unlock(&base->lock);
	htw_fdinfo_add_late(&info->alarm_late, &base->alarm_late);
}

static void htw_fdinfo_show_late(const struct htw_late *late, struct seq_file *m)
{
	for (unsigned int i = 0; i < HTW_LATE_BINS; i++)
		seq_printf(m, "%s%llu", i ? " " : "", late->bins[i]);
	seq_putc(m, '\n');
}

/* Settings, and what HTW_INFO reports as well. */
static void htw_fdinfo_show_context(const struct htw_context *ctx, struct seq_file *m)
{
	seq_printf(m, "htw-clock:\t%d\nhtw-tick-ns:\t%llu\nhtw-flags:\t%u\n",
		   htw_clock_id(ctx->clock), ctx->tick_ns, ctx->setup_flags);
	seq_printf(m, "htw-event-size:\t%zu\nhtw-timers:\t%u\nhtw-limit:\t%u\n",
		   sizeof(struct htw_event), htw_context_timers(ctx),
		   READ_ONCE(ctx->ids.limit));
	seq_printf(m, "htw-bytes:\t%llu\n",
		   (u64)atomic_read(&ctx->charged) * sizeof(struct htw_timer));
	seq_printf(m, "htw-user-timers:\t%lld\nhtw-refused:\t%u\n",
		   atomic64_read(&ctx->user->timers), atomic_read(&ctx->user->refused));
	if (htw_user_limit(ctx->user) != U64_MAX)
		seq_printf(m, "htw-user-limit:\t%llu\n", htw_user_limit(ctx->user));
}

/**
 * htw_fdinfo_show() - write a context's lines of /proc/PID/fdinfo/FD
 * @m: output
 * @file: the context's
 *
 * Context: may sleep.
 */
void htw_fdinfo_show(struct seq_file *m, struct file *file)
{
	const struct htw_context *ctx = file->private_data;
	struct htw_fdinfo info = {};
	struct htw_base *base;

	htw_context_for_each_base(ctx, base) {
		htw_fdinfo_add_base(&info, base);
		cond_resched();
	}

	htw_fdinfo_show_context(ctx, m);
	seq_printf(m, "htw-wheels:\t%u\nhtw-pending:\t%llu\nhtw-oldest-due-ns:\t%llu\n",
		   info.bases, info.pending, info.oldest);
	seq_printf(m, "htw-taken:\t%llu\nhtw-cancelled:\t%llu\nhtw-cascades:\t%llu\n",
		   info.taken, info.cancelled, info.cascades);

	for (unsigned int l = 0; l < info.levels; l++)
		seq_printf(m, "htw-level-%u:\tspan %llu buckets %llu occupied %llu\n", l,
			   info.span[l], info.buckets[l], info.occupied[l]);

	seq_puts(m, "htw-alarm-late:\t");
	htw_fdinfo_show_late(&info.alarm_late, m);
	seq_puts(m, "htw-taken-late:\t");
	htw_fdinfo_show_late(&info.taken_late, m);
}

static struct dentry *htw_debugfs_dir;

static const char * const htw_clock_names[HTW_CLOCKS] = {
	[HTW_MONOTONIC]	= "monotonic",
	[HTW_BOOTTIME]	= "boottime",
	[HTW_REALTIME]	= "realtime",
};

static void htw_debugfs_name(struct seq_file *m, const struct htw_user *user)
{
	if (user->ns)
		seq_printf(m, "user ns:%u", user->ns->ns.inum);
	else
		seq_printf(m, "user %u", htw_user_uid(user));
	seq_puts(m, user->privileged ? ":privileged " : " ");
}

static void htw_debugfs_show_alarm(struct seq_file *m, const struct htw_user *user,
				   unsigned int cpu, enum htw_clock clock)
{
	struct htw_alarm *a = &per_cpu_ptr(user->alarms, cpu)->on[clock];

	/* Printing takes no lock, and about as long as setting the alarm. */
	raw_spin_lock_irq(&a->lock);
	if (a->rings || a->queued) {
		htw_debugfs_name(m, user);
		seq_printf(m, "cpu %u clock %s queued %u ", cpu, htw_clock_names[clock],
			   a->queued);
		if (a->programmed != HTW_NEVER)
			seq_printf(m, "rings_at_ns %llu ", a->programmed);
		seq_printf(m, "rang_at_ns %llu rings %llu wakes %llu\n", a->rung, a->rings,
			   a->awaited);
	}
	raw_spin_unlock_irq(&a->lock);
}

static void htw_debugfs_show_user(struct htw_user *user, void *data)
{
	struct seq_file *m = data;
	unsigned int cpu;

	htw_debugfs_name(m, user);
	seq_printf(m, "contexts %u timers %lld refused %u\n", READ_ONCE(user->contexts) - 1,
		   atomic64_read(&user->timers), atomic_read(&user->refused));
	for_each_possible_cpu(cpu)
		for (enum htw_clock clock = 0; clock < HTW_CLOCKS; clock++)
			htw_debugfs_show_alarm(m, user, cpu, clock);
}

static int htw_debugfs_users_show(struct seq_file *m, void *unused)
{
	htw_users_for_each(htw_debugfs_show_user, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_debugfs_users);

static int htw_debugfs_lanes_show(struct seq_file *m, void *unused)
{
	for (unsigned int work = 0; work < HTW_WORKS; work++)
		seq_printf(m, "lane %u waiting %u wakes %llu spent_ns %llu\n", work,
			   atomic_read(&htw_alarms_left[work]), READ_ONCE(htw_wakes[work].wakes),
			   READ_ONCE(htw_wakes[work].spent));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_debugfs_lanes);

/* Create the files. Errors are ignored: without debugfs there are none. */
void htw_debugfs_init(void)
{
	htw_debugfs_dir = debugfs_create_dir("htw", NULL);
	debugfs_create_file("users", 0444, htw_debugfs_dir, NULL, &htw_debugfs_users_fops);
	debugfs_create_file("lanes", 0444, htw_debugfs_dir, NULL, &htw_debugfs_lanes_fops);
}

void htw_debugfs_exit(void)
{
	debugfs_remove_recursive(htw_debugfs_dir);
}
