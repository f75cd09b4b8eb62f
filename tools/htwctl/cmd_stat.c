// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl stat: the module's counters, once, or as rates in each interval
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "descriptors.h"

static struct {
	uint64_t interval;
	uint64_t count;
} stat_opt = {
	.count = UINT64_MAX,
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'i':
		stat_opt.interval = parse_interval_arg(arg, NSEC_PER_MSEC, 86400 * NSEC_PER_SEC,
						       state);
		return 0;
	case 'n':
		stat_opt.count = parse_number_arg("--count", arg, 1, UINT64_MAX - 1, state);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (stat_opt.count != UINT64_MAX && !stat_opt.interval)
			argp_error(state, "--count needs --interval");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "interval", 'i', "DURATION", 0, "print a line of rates every DURATION, 1ms to 1d",
	  1 },
	{ "count", 'n', "N", 0, "with --interval: exit after N lines", 1 },
	{ 0 }
};

static void add_fields(struct json_object *to, const struct fields *fields)
{
	for (unsigned int i = 0; i < fields->count; i++) {
		const char *value = fields->f[i].value;

		if (field_is_number(value))
			json_add_u64(to, fields->f[i].name, strtoull(value, NULL, 10));
		else if (*value == '-' && field_is_number(value + 1))
			json_add_i64(to, fields->f[i].name, strtoll(value, NULL, 10));
		else
			json_add_str(to, fields->f[i].name, value);
	}
}

static struct json_object *records_json(const struct records *records)
{
	struct json_object *array = json_new_array();

	for (unsigned int i = 0; i < records->count; i++) {
		struct json_object *entry = json_new();

		add_fields(entry, &records->r[i]);
		json_append(array, entry);
	}
	return array;
}

static void print_json(const struct stats *stats)
{
	struct json_object *root = json_new(), *array = json_new_array();

	json_add_u64(root, "monotonic_ns", stats->when);
	json_add(root, "users", records_json(&stats->users));
	json_add(root, "lanes", records_json(&stats->lanes));
	for (unsigned int i = 0; i < stats->found.count; i++)
		json_append(array, descriptor_json(&stats->found.d[i]));
	json_add(root, "descriptors", array);
	json_print(root);
}

#define MAX_COLUMNS	32

/* Collect the names of all columns that appear in any row. */
static unsigned int collect_names(const struct fields **rows, unsigned int count,
				  const char *names[MAX_COLUMNS])
{
	unsigned int columns = 0, c;

	for (unsigned int r = 0; r < count; r++) {
		for (unsigned int i = 0; i < rows[r]->count; i++) {
			for (c = 0; c < columns; c++)
				if (!strcmp(names[c], rows[r]->f[i].name))
					break;
			if (c == columns && columns < MAX_COLUMNS)
				names[columns++] = rows[r]->f[i].name;
		}
	}
	return columns;
}

static const char *cell(const struct fields *row, const char *name)
{
	const char *value = field(row, name);

	return !value ? "-" : strcmp(name, "user") ? value : show_user(value);
}

static void print_fields(const char *title, const struct fields **rows, unsigned int count)
{
	const char *names[MAX_COLUMNS];
	unsigned int columns = collect_names(rows, count, names);
	int width[MAX_COLUMNS];

	if (!count)
		return;
	printf("\n%s\n", title);
	for (unsigned int c = 0; c < columns; c++) {
		width[c] = strlen(names[c]);
		for (unsigned int r = 0; r < count; r++)
			if ((int)strlen(cell(rows[r], names[c])) > width[c])
				width[c] = strlen(cell(rows[r], names[c]));
		printf("  %*s", width[c], names[c]);
	}
	putchar('\n');
	for (unsigned int r = 0; r < count; r++) {
		for (unsigned int c = 0; c < columns; c++)
			printf("  %*s", width[c], cell(rows[r], names[c]));
		putchar('\n');
	}
}

/* Print the records that belong to a CPU, or those that do not. */
static void print_records(const char *title, const struct records *records, bool of_cpu)
{
	const struct fields **rows = calloc(records->count + 1, sizeof(*rows));
	unsigned int count = 0;

	for (unsigned int i = 0; rows && i < records->count; i++)
		if (!field(&records->r[i], "cpu") != of_cpu)
			rows[count++] = &records->r[i];
	if (rows)
		print_fields(title, rows, count);
	free(rows);
}

static void print_late(const char *title, const uint64_t late[LATE_BUCKETS])
{
	uint64_t sum = 0, reached = 0;

	for (unsigned int b = 0; b < LATE_BUCKETS; b++)
		sum += late[b];
	if (!sum)
		return;
	printf("\n%s\n", title);
	for (unsigned int b = 0; b < LATE_BUCKETS; b++) {
		if (!late[b])
			continue;
		reached += late[b];
		printf("  %s %-9s %14s  %6.2f%%\n", b < LATE_BUCKETS - 1 ? "below" : "from ",
		       show_rough(late_bucket_ns(b) >> (b == LATE_BUCKETS - 1)),
		       show_grouped(late[b]), 100.0 * reached / sum);
	}
}

static void print_text(const struct stats *stats)
{
	struct counts counts;

	count_since(&counts, stats, NULL);
	printf("%s timers pending, %s expirations taken, %s timers cancelled\n",
	       show_grouped(counts.pending), show_grouped(counts.taken),
	       show_grouped(counts.cancelled));
	if (counts.oldest_due)
		printf("the oldest expiration that nobody has taken is %s late\n",
		       show_rough(counts.oldest_due));
	print_late("lateness of alarms, which is the kernel's", counts.alarm_late);
	print_late("lateness of expirations as taken by programs", counts.taken_late);
	print_records("users", &stats->users, false);
	print_records("alarms of users", &stats->users, true);
	print_records("wake-ups by the kernel threads", &stats->lanes, false);
	if (stats->found.count)
		printf("\ndescriptors\n%s\n", descriptor_head());
	for (unsigned int i = 0; i < stats->found.count; i++)
		puts(descriptor_line(&stats->found.d[i]));
}

static int print_once(void)
{
	struct stats stats;
	int err;

	err = read_stats(&stats);
	if (err)
		return stats_failed(err);
	if (opt.json)
		print_json(&stats);
	else
		print_text(&stats);
	free_stats(&stats);
	return HTWCTL_OK;
}

/* A bound of lateness, or a dash if nothing has expired. */
static const char *show_late(const uint64_t late[LATE_BUCKETS], double percent)
{
	const uint64_t ns = late_percentile(late, percent);

	return ns ? show_rough(ns) : "-";
}

static void print_rates(const struct stats *now, const struct stats *before, uint64_t line)
{
	const double seconds = (now->when - before->when) / 1e9;
	const uint64_t rings = records_since(&before->users, &now->users, "rings");
	const uint64_t wakes = records_since(&before->lanes, &now->lanes, "wakes");
	struct json_object *object;
	struct counts counts;

	count_since(&counts, now, before);
	if (opt.json) {
		object = json_new();
		json_add_u64(object, "monotonic_ns", now->when);
		json_add_u64(object, "interval_ns", now->when - before->when);
		json_add_u64(object, "pending", counts.pending);
		json_add_u64(object, "oldest_due_ns", counts.oldest_due);
		json_add_u64(object, "taken", counts.taken);
		json_add_u64(object, "taken_per_s", counts.taken / seconds);
		json_add_u64(object, "cancelled_per_s", counts.cancelled / seconds);
		json_add_u64(object, "cascades_per_s", counts.cascades / seconds);
		json_add_u64(object, "rings_per_s", rings / seconds);
		json_add_u64(object, "deferred_wakes_per_s", wakes / seconds);
		json_add_u64(object, "alarm_late_p99_below_ns",
			     late_percentile(counts.alarm_late, 99));
		json_add_u64(object, "late_p50_below_ns", late_percentile(counts.taken_late, 50));
		json_add_u64(object, "late_p99_below_ns", late_percentile(counts.taken_late, 99));
		json_add_u64(object, "late_max_below_ns", late_percentile(counts.taken_late, 100));
		json_print(object);
		return;
	}
	if (line % 20 == 0)
		printf("%13s %10s %10s %10s %10s %9s %9s %9s %9s\n", "PENDING", "TAKEN/S",
		       "CANCEL/S", "CASCADES/S", "RINGS/S", "ALARM99<", "TAKEN50<", "99<",
		       "MAX<");
	printf("%13s %10s %10s %10s %10s", show_grouped(counts.pending),
	       show_grouped(counts.taken / seconds), show_grouped(counts.cancelled / seconds),
	       show_grouped(counts.cascades / seconds), show_grouped(rings / seconds));
	printf(" %9s %9s %9s %9s\n", show_late(counts.alarm_late, 99),
	       show_late(counts.taken_late, 50), show_late(counts.taken_late, 99),
	       show_late(counts.taken_late, 100));
	fflush(stdout);
}

static int print_at_interval(void)
{
	struct stats before, now;
	struct timespec until;
	uint64_t next;
	int err;

	err = read_stats(&before);
	if (err)
		return stats_failed(err);
	next = before.when;
	for (uint64_t line = 0; line < stat_opt.count && !ferror(stdout); line++) {
		next += stat_opt.interval;
		until.tv_sec = next / NSEC_PER_SEC;
		until.tv_nsec = next % NSEC_PER_SEC;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		err = read_stats(&now);
		if (err)
			break;
		print_rates(&now, &before, line);
		free_stats(&before);
		before = now;
	}
	free_stats(&before);
	return err ? stats_failed(err) : HTWCTL_OK;
}

int cmd_stat(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &format_argp, 0, NULL, 0 }, { &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Show the module's counters: how late alarms rang and expirations were taken, "
		       "users and their alarms, and open descriptors. With --interval, print a line of rates in each "
		       "interval. Needs root.\v"
		       "Examples:\n"
		       "  sudo htwctl stat\n"
		       "  sudo htwctl stat --interval 1s --count 10\n"
		       "  sudo htwctl stat --format=json | jq '.descriptors[] | {pid, fd, pending}'\n",
		.children = children,
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	return stat_opt.interval ? print_at_interval() : print_once();
}
