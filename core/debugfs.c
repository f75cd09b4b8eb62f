// SPDX-License-Identifier: GPL-2.0-only
/*
 * Statistics in /sys/kernel/debug/htw/
 *
 * wheels: a line per wheel, one for each of its levels, and a lateness histogram
 * pacers: a line per online CPU
 * users: a line per user, and one for each CPU that it has used
 *
 * Each line consists of names and values. Tools must find fields by name, as
 * more may be added.
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "debugfs.h"
#include "user.h"

static struct dentry *htw_debugfs_dir;

static const char * const htw_clock_names[HTW_CLOCKS] = {
	[HTW_MONOTONIC]	= "monotonic",
	[HTW_BOOTTIME]	= "boottime",
	[HTW_REALTIME]	= "realtime",
};

/* Copy of a base's statistics, so that printing does not hold its lock. */
struct htw_debugfs_wheel {
	u64 pending;
	u64 cascades;
	u64 callbacks;
	u64 exhausted;
	u64 rewinds;
	unsigned int levels;
	u64 span[HTW_WHEEL_MAX_LEVELS];
	u32 nr_buckets[HTW_WHEEL_MAX_LEVELS];
	u32 nonempty[HTW_WHEEL_MAX_LEVELS];
	u64 late[HTW_LATE_BINS];
};

static void htw_debugfs_copy_levels(struct htw_debugfs_wheel *copy,
				    const struct htw_base *base)
{
	const struct htw_wheel *w = &base->wheel;

	lockdep_assert_held(&base->lock);

	copy->levels = w->levels;
	for (unsigned int l = 0; l < w->levels; l++) {
		copy->span[l] = w->level[l].span;
		copy->nr_buckets[l] = w->level[l].nr_buckets;
		copy->nonempty[l] = w->level[l].nonempty;
	}
}

static void htw_debugfs_copy_wheel(struct htw_debugfs_wheel *copy,
				   struct htw_base *base)
{
	const struct htw_wheel *w = &base->wheel;

	spin_lock_bh(&base->lock);
	copy->pending = w->pending;
	copy->cascades = w->cascades;
	copy->callbacks = base->callbacks;
	copy->exhausted = base->exhausted;
	copy->rewinds = base->rewinds;
	htw_debugfs_copy_levels(copy, base);
	memcpy(copy->late, base->late, sizeof(copy->late));
	spin_unlock_bh(&base->lock);
}

static const char *htw_debugfs_user(const struct htw_user *user, char *buf,
				    size_t size)
{
	u32 uid = from_kuid_munged(&init_user_ns, user->uid);

	if (user->ns)
		scnprintf(buf, size, "ns:%u", user->ns->ns.inum);
	else
		scnprintf(buf, size, "%u%s", uid,
			  htw_user_is_unlimited(user) ? ":privileged" : "");
	return buf;
}

static const char *htw_debugfs_owner(const struct htw_bases *set, char *buf,
				     size_t size)
{
	if (set->class == HTW_CLASS_CALLOUTS)
		return "callouts";
	return htw_debugfs_user(container_of(set, struct htw_user, bases), buf, size);
}

static void htw_debugfs_show_wheel(struct htw_base *base, void *data)
{
	struct htw_debugfs_wheel w;
	struct seq_file *m = data;
	char owner[32];

	htw_debugfs_copy_wheel(&w, base);
	seq_printf(m, "cpu %u clock %s tick_ns %llu pending %llu ", base->cpu,
		   htw_clock_names[base->clock], base->tick_ns, w.pending);
	seq_printf(m, "callbacks %llu cascades %llu exhausted %llu rewinds %llu ",
		   w.callbacks, w.cascades, w.exhausted, w.rewinds);
	seq_printf(m, "user %s private %u\n",
		   htw_debugfs_owner(base->owner, owner, sizeof(owner)),
		   base->private);
	for (unsigned int l = 0; l < w.levels; l++)
		seq_printf(m, "level %u span %llu ring %u occupied %u\n",
			   l, w.span[l], w.nr_buckets[l], w.nonempty[l]);
	seq_puts(m, "late_us");
	for (unsigned int i = 0; i < HTW_LATE_BINS; i++)
		seq_printf(m, " %llu", w.late[i]);
	seq_putc(m, '\n');
}

static int htw_debugfs_wheels_show(struct seq_file *m, void *unused)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		htw_bases_for_each(cpu, htw_debugfs_show_wheel, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_debugfs_wheels);

static int htw_debugfs_pacers_show(struct seq_file *m, void *unused)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
		struct htw_pacer copy;

		spin_lock_bh(&p->lock);
		copy = *p;
		spin_unlock_bh(&p->lock);
		seq_printf(m, "cpu %u callbacks %llu runs %llu exhausted %llu stalls %llu ",
			   cpu, copy.callbacks, copy.runs, copy.exhausted, copy.stalls.times);
		seq_printf(m, "stalled_ns %llu kicks %llu lock_misses %llu spent_ns %llu\n",
			   copy.stalls.ns, copy.kicks, copy.misses, copy.spent);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_debugfs_pacers);

static void htw_debugfs_show_user(struct htw_user *user, void *data)
{
	struct seq_file *m = data;
	unsigned int cpu;
	char owner[32];

	htw_debugfs_user(user, owner, sizeof(owner));
	seq_printf(m, "user %s contexts %u timers %d private_wheels %d\n",
		   owner, user->contexts, atomic_read(&user->timers),
		   atomic_read(&user->wheels));
	for_each_possible_cpu(cpu) {
		struct htw_flow_info info;

		htw_pacer_flow_info(per_cpu_ptr(htw_bases_flows(&user->bases), cpu), cpu, &info);
		if (!info.spent)
			continue;
		seq_printf(m, "user %s cpu %u spent_ns %llu ", owner, cpu,
			   info.spent);
		if (!htw_user_is_unlimited(user))
			seq_printf(m, "tokens_ns %lld ", info.tokens);
		seq_printf(m, "throttled %llu throttled_ns %llu stalls %llu stalled_ns %llu\n",
			   info.throttles, info.throttled_ns, info.stalls.times, info.stalls.ns);
	}
}

static int htw_debugfs_users_show(struct seq_file *m, void *unused)
{
	htw_users_for_each(htw_debugfs_show_user, m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(htw_debugfs_users);

/* Create the files. Errors are ignored: without debugfs there are none. */
void htw_debugfs_init(void)
{
	htw_debugfs_dir = debugfs_create_dir("htw", NULL);
	debugfs_create_file("wheels", 0444, htw_debugfs_dir, NULL,
			    &htw_debugfs_wheels_fops);
	debugfs_create_file("pacers", 0444, htw_debugfs_dir, NULL,
			    &htw_debugfs_pacers_fops);
	debugfs_create_file("users", 0444, htw_debugfs_dir, NULL,
			    &htw_debugfs_users_fops);
}

void htw_debugfs_exit(void)
{
	debugfs_remove_recursive(htw_debugfs_dir);
}
