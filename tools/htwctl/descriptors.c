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
		 "UNREAD", "LIMIT", "FDS", "COMMAND");
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
		 show_duration(d->tick_ns), show_grouped(d->timers), show_short(d->expired),
		 show_short(d->limit), show_short(d->holders), d->comm);
	return line;
}

/* A counter's key is its name in fdinfo, with underscores. */
static void add_counter(struct json_object *object, const struct counter *c)
{
	char key[sizeof(c->name)];

	for (size_t i = 0; i < sizeof(key); i++)
		key[i] = c->name[i] == '-' ? '_' : c->name[i];
	json_add_u64(object, key, c->value);
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
	json_add_u64(object, "expired", d->expired);
	json_add_u64(object, "limit", d->limit);
	for (unsigned int i = 0; i < d->nr_counters; i++)
		add_counter(object, &d->counters[i]);
	return object;
}
