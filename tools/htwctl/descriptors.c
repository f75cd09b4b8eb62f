// SPDX-License-Identifier: GPL-2.0-only
/*
 * Print descriptors as text and as JSON
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "descriptors.h"

#define LINE_SIZE	256

const char *descriptor_head(void)
{
	static char line[LINE_SIZE];

	snprintf(line, sizeof(line), "%7s %4s %-15s %-10s %-9s %7s %10s %7s %10s %6s", "PID", "FD",
		 "COMMAND", "USER", "CLOCK", "TICK", "TIMERS", "UNREAD", "LIMIT", "SHARED");
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

	snprintf(line, sizeof(line),
		 "%7d %4d %-15s %-10s %-9s %7s %10s %7s %10s %6u", d->pid, d->fd, d->comm,
		 show_uid(d->uid), show_clock(d->clock), show_duration(d->tick_ns),
		 show_grouped(d->timers), show_grouped(d->expired), show_grouped(d->limit),
		 d->holders);
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

	json_add(object, "pid", json_object_new_int64(d->pid));
	json_add(object, "fd", json_object_new_int64(d->fd));
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
