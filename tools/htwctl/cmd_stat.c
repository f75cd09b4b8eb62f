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

static struct json_object *wheel_json(const struct wheel *wheel)
{
	struct json_object *object = json_new(), *array = json_new_array(), *entry;

	add_fields(object, &wheel->fields);
	for (unsigned int l = 0; l < wheel->levels; l++) {
		entry = json_new();
		add_fields(entry, &wheel->level[l]);
		json_append(array, entry);
	}
	json_add(object, "levels", array);
	array = json_new_array();
	for (unsigned int b = 0; b < wheel->late_buckets; b++) {
		entry = json_new();
		/* The last bucket has no upper bound. */
		if (b < wheel->late_buckets - 1)
			json_add_u64(entry, "below_ns", late_bucket_ns(b));
		json_add_u64(entry, "count", wheel->late[b]);
		json_append(array, entry);
	}
	json_add(object, "late", array);
	return object;
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

static void print_json(const struct stats *stats, const struct descriptors *found)
{
	struct json_object *root = json_new(), *array = json_new_array();

	json_add_u64(root, "monotonic_ns", stats->when);
	for (unsigned int i = 0; i < stats->count; i++)
		json_append(array, wheel_json(&stats->wheels[i]));
	json_add(root, "wheels", array);
	json_add(root, "pacers", records_json(&stats->pacers));
	json_add(root, "users", records_json(&stats->users));
	array = json_new_array();
	for (unsigned int i = 0; i < found->count; i++)
		json_append(array, descriptor_json(&found->d[i]));
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

static void print_late(const struct stats *stats)
{
	uint64_t late[LATE_BUCKETS], reached = 0;
	const uint64_t sum = sum_late(stats, late);

	if (!sum)
		return;
	puts("\nlateness");
	for (unsigned int b = 0; b < LATE_BUCKETS; b++) {
		if (!late[b])
			continue;
		reached += late[b];
		printf("  below %-9s %14s  %6.2f%%\n", show_rough(late_bucket_ns(b)),
		       show_grouped(late[b]), 100.0 * reached / sum);
	}
}

static void print_text(const struct stats *stats, const struct descriptors *found)
{
	const struct fields **rows = calloc(stats->count + 1, sizeof(*rows));

	printf("%s timers pending, %s callbacks\n", show_grouped(sum_wheels(stats, "pending")),
	       show_grouped(sum_wheels(stats, "callbacks")));
	for (unsigned int i = 0; rows && i < stats->count; i++)
		rows[i] = &stats->wheels[i].fields;
	if (rows)
		print_fields("wheels", rows, stats->count);
	free(rows);
	for (unsigned int i = 0; i < stats->count; i++) {
		const struct wheel *wheel = &stats->wheels[i];

		if (!field_u64(&wheel->fields, "pending"))
			continue;
		printf("\nlevels of CPU %s, %s", field(&wheel->fields, "cpu"),
		       field(&wheel->fields, "clock") ?: "?");
		if (field(&wheel->fields, "user"))
			printf(", user %s", show_user(field(&wheel->fields, "user")));
		puts(": buckets in use");
		for (unsigned int l = 0; l < wheel->levels; l++)
			printf("  %" PRIu64 "  a bucket is %-10s %5s of %s\n",
			       field_u64(&wheel->level[l], "level"),
			       show_duration(field_u64(&wheel->level[l], "span") *
					     field_u64(&wheel->fields, "tick_ns")),
			       show_grouped(field_u64(&wheel->level[l], "occupied")),
			       show_grouped(field_u64(&wheel->level[l], "ring")));
	}
	print_late(stats);
	print_records("pacers", &stats->pacers, true);
	print_records("users", &stats->users, false);
	print_records("users on each CPU", &stats->users, true);
	if (found->count)
		printf("\ndescriptors\n%s\n", descriptor_head());
	for (unsigned int i = 0; i < found->count; i++)
		puts(descriptor_line(&found->d[i]));
}

static int print_once(void)
{
	struct descriptors found;
	struct stats stats;
	int err;

	err = read_stats(&stats);
	if (err)
		return stats_failed(err);
	err = find_descriptors(0, &found);
	if (err) {
		free_stats(&stats);
		return find_failed(0, err);
	}
	if (opt.json)
		print_json(&stats, &found);
	else
		print_text(&stats, &found);
	free_descriptors(&found);
	free_stats(&stats);
	return HTWCTL_OK;
}

/* Counts between two readings. A reloaded module counts from 0 again. */
static uint64_t difference(uint64_t now, uint64_t before)
{
	return now >= before ? now - before : now;
}

static void print_rates(const struct stats *now, const struct stats *before, uint64_t line)
{
	static const char * const names[] = { "callbacks", "cascades" };
	uint64_t late[LATE_BUCKETS], old[LATE_BUCKETS], rates[3], expired = 0, spent;
	const double seconds = (now->when - before->when) / 1e9;
	struct json_object *object;
	unsigned int i;

	sum_late(now, late);
	sum_late(before, old);
	for (i = 0; i < LATE_BUCKETS; i++) {
		late[i] = difference(late[i], old[i]);
		expired += late[i];
	}
	for (i = 0; i < ARRAY_SIZE(names); i++)
		rates[i] = difference(sum_wheels(now, names[i]), sum_wheels(before, names[i])) /
			   seconds;
	rates[i] = difference(sum_exhausted(now), sum_exhausted(before)) / seconds;
	spent = difference(sum_records(&now->pacers, "spent_ns"),
			   sum_records(&before->pacers, "spent_ns"));
	if (opt.json) {
		object = json_new();
		json_add_u64(object, "monotonic_ns", now->when);
		json_add_u64(object, "interval_ns", now->when - before->when);
		json_add_u64(object, "pending", sum_wheels(now, "pending"));
		json_add_u64(object, "expired", expired);
		json_add_u64(object, "expired_per_s", expired / seconds);
		json_add_u64(object, "callbacks_per_s", rates[0]);
		json_add_u64(object, "cascades_per_s", rates[1]);
		json_add_u64(object, "exhausted_per_s", rates[2]);
		if (now->pacers.count)
			json_add_u64(object, "spent_ns", spent);
		json_add_u64(object, "late_p50_below_ns", late_percentile(late, 50));
		json_add_u64(object, "late_p99_below_ns", late_percentile(late, 99));
		json_add_u64(object, "late_max_below_ns", late_percentile(late, 100));
		json_print(object);
		return;
	}
	if (line % 20 == 0)
		printf("%13s %10s %10s %10s %10s %6s %9s %9s %9s\n", "PENDING", "EXPIRED/S",
		       "CALLS/S", "CASCADES/S", "EXHAUST/S", "CPU%", "LATE P50<", "P99<",
		       "MAX<");
	printf("%13s %10s %10s %10s %10s", show_grouped(sum_wheels(now, "pending")),
	       show_grouped(expired / seconds), show_grouped(rates[0]), show_grouped(rates[1]),
	       show_grouped(rates[2]));
	if (now->pacers.count)
		printf(" %6.1f", 100.0 * spent / (now->when - before->when));
	else
		printf(" %6s", "-");
	if (expired)
		printf(" %9s %9s %9s", show_rough(late_percentile(late, 50)),
		       show_rough(late_percentile(late, 99)),
		       show_rough(late_percentile(late, 100)));
	else
		printf(" %9s %9s %9s", "-", "-", "-");
	putchar('\n');
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
		.doc = "Show the module's counters: wheels and their levels, lateness of expirations, "
		       "users, and open descriptors. With --interval, print a line of rates in each "
		       "interval. Needs root.\v"
		       "Examples:\n"
		       "  sudo htwctl stat\n"
		       "  sudo htwctl stat --interval 1s --count 10\n"
		       "  sudo htwctl stat --format=json | jq '.wheels[] | {cpu, pending}'\n",
		.children = children,
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	return stat_opt.interval ? print_at_interval() : print_once();
}
