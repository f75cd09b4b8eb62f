// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print descriptors as text and as JSON
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "descriptors.h"

#define LINE_SIZE	256

/*
 * 65 columns before the name of 15, so that nothing of it is missing on a
 * terminal of 80. The name is last: what a process has chosen as its own moves
 * or hides no other column.
 */
#define LINE		"%7s %3s %-8s %-9s %6s %9s %6s %5s %3s %s"

const char *descriptor_head(void)
{
	static char line[LINE_SIZE];

	snprintf(line, sizeof(line), LINE, "PID", "FD", "USER", "CLOCK", "TICK", "TIMERS",
		 "OLDEST", "LIMIT", "FDS", "COMMAND");
	return line;
}

static const char *show_uid(uid_t uid)
{
	static char number[16];

	snprintf(number, sizeof(number), "%u", uid);
	return show_user(number);
}

const char *descriptor_line(const struct descriptor *d)
{
	static char line[LINE_SIZE];
	char pid[16], fd[16];

	snprintf(pid, sizeof(pid), "%d", d->pid);
	snprintf(fd, sizeof(fd), "%d", d->fd);
	snprintf(line, sizeof(line), LINE, pid, fd, show_uid(d->uid), show_clock(d->clock),
		 show_duration(d->tick_ns), show_grouped(d->timers),
		 d->oldest_due ? show_rough(d->oldest_due) : "-", show_short(d->limit),
		 show_short(d->holders), d->comm);
	return line;
}

static struct json_object *late_json(const uint64_t late[LATE_BUCKETS])
{
	struct json_object *array = json_new_array();

	for (unsigned int b = 0; b < LATE_BUCKETS; b++) {
		struct json_object *entry = json_new();

		/* The last bucket has no upper bound. */
		if (b < LATE_BUCKETS - 1)
			json_add_u64(entry, "below_ns", late_bucket_ns(b));
		json_add_u64(entry, "count", late[b]);
		json_append(array, entry);
	}
	return array;
}

static struct json_object *levels_json(const struct descriptor *d)
{
	struct json_object *array = json_new_array();

	for (unsigned int l = 0; l < d->levels; l++) {
		struct json_object *entry = json_new();

		json_add_u64(entry, "span", d->level[l].span);
		json_add_u64(entry, "buckets", d->level[l].buckets);
		json_add_u64(entry, "occupied", d->level[l].occupied);
		json_append(array, entry);
	}
	return array;
}

struct json_object *descriptor_json(const struct descriptor *d)
{
	struct json_object *object = json_new();

	json_add_i64(object, "pid", d->pid);
	json_add_i64(object, "fd", d->fd);
	json_add_u64(object, "shared", d->holders);
	json_add_str(object, "command", d->comm);
	json_add_u64(object, "uid", d->uid);
	json_add_str(object, "user", show_uid(d->uid));
	json_add_str(object, "clock", show_clock(d->clock));
	json_add_u64(object, "tick_ns", d->tick_ns);
	json_add_u64(object, "timers", d->timers);
	json_add_u64(object, "limit", d->limit);
	json_add_u64(object, "bytes", d->bytes);
	json_add_u64(object, "refused", d->refused);
	json_add_u64(object, "pending", d->pending);
	json_add_u64(object, "oldest_due_ns", d->oldest_due);
	json_add_u64(object, "taken", d->taken);
	json_add_u64(object, "cancelled", d->cancelled);
	json_add_u64(object, "cascades", d->cascades);
	json_add_u64(object, "flags", d->flags);
	for (unsigned int i = 0; i < d->nr_counters; i++)
		json_add_u64(object, d->counters[i].name, d->counters[i].value);
	json_add(object, "levels", levels_json(d));
	json_add(object, "alarm_late", late_json(d->alarm_late));
	json_add(object, "taken_late", late_json(d->taken_late));
	return object;
}
