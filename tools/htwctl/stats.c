// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read /sys/kernel/debug/htw
 *
 * Each line is names and values in turn. Fields unknown to this program are
 * kept by their names; missing fields count as zero.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "htwctl.h"

#define DEBUGFS		"/sys/kernel/debug/htw/"
#define PARAMETERS	"/sys/module/htw/parameters"
#define BLANKS		" "

/* Split @line, which becomes part of @fields, into names and values. */
static void cut_fields(struct fields *fields, char *line)
{
	char *name, *value, *save;

	fields->line = line;
	fields->count = 0;
	name = strtok_r(line, BLANKS, &save);
	while (name && fields->count < ARRAY_SIZE(fields->f)) {
		value = strtok_r(NULL, BLANKS, &save);
		if (!value)
			return;
		fields->f[fields->count].name = name;
		fields->f[fields->count].value = value;
		fields->count++;
		name = strtok_r(NULL, BLANKS, &save);
	}
}

const char *field(const struct fields *fields, const char *name)
{
	for (unsigned int i = 0; i < fields->count; i++)
		if (!strcmp(fields->f[i].name, name))
			return fields->f[i].value;
	return NULL;
}

uint64_t field_u64(const struct fields *fields, const char *name)
{
	const char *value = field(fields, name);

	return value ? strtoull(value, NULL, 10) : 0;
}

bool field_is_number(const char *value)
{
	return *value && strspn(value, "0123456789") == strlen(value) && strlen(value) <= 19;
}

static int add_wheel(struct stats *stats, char *line)
{
	struct wheel *more = reallocarray(stats->wheels, stats->count + 1, sizeof(*more));

	if (!more)
		return ENOMEM;
	stats->wheels = more;
	more += stats->count++;
	memset(more, 0, sizeof(*more));
	cut_fields(&more->fields, line);
	return 0;
}

static void cut_late(struct wheel *wheel, const char *at)
{
	char *end;

	for (; wheel->late_buckets < LATE_BUCKETS; at = end) {
		uint64_t count = strtoull(at, &end, 10);

		if (end == at)
			return;
		wheel->late[wheel->late_buckets++] = count;
	}
}

/* Consume @line: keep or free it. Return 0 or an errno. */
static int take_wheel_line(struct stats *stats, char *line)
{
	struct wheel *wheel = stats->count ? &stats->wheels[stats->count - 1] : NULL;
	int err = 0;

	if (!strncmp(line, "cpu ", 4)) {
		err = add_wheel(stats, line);
		if (!err)
			return 0;
	} else if (wheel && !strncmp(line, "level ", 6) && wheel->levels < HTW_MAX_LEVELS) {
		cut_fields(&wheel->level[wheel->levels++], line);
		return 0;
	} else if (wheel && !strncmp(line, "late_us ", 8)) {
		cut_late(wheel, line + 8);
	}
	free(line);
	return err;
}

static int take_record(struct records *records, char *line)
{
	struct fields *more = reallocarray(records->r, records->count + 1, sizeof(*more));

	if (!more) {
		free(line);
		return ENOMEM;
	}
	records->r = more;
	cut_fields(&more[records->count++], line);
	return 0;
}

/* Pass each line of a file to @stats or to @records. */
static int read_lines(const char *path, struct stats *stats, struct records *records)
{
	FILE *file = fopen(path, "re");
	int err = 0;

	if (!file)
		return errno;
	while (!err) {
		char *line = NULL, *printable;
		size_t size = 0;

		if (getline(&line, &size, file) < 0) {
			free(line);
			if (ferror(file))
				err = errno;
			break;
		}
		line[strcspn(line, "\n")] = '\0';
		printable = printable_copy(line);
		free(line);
		if (!printable)
			err = ENOMEM;
		else if (records)
			err = take_record(records, printable);
		else
			err = take_wheel_line(stats, printable);
	}
	fclose(file);
	return err;
}

int read_stats(struct stats *stats)
{
	int err;

	*stats = (struct stats){ .when = now_ns() };
	err = read_lines(DEBUGFS "wheels", stats, NULL);
	if (!err)
		err = read_lines(DEBUGFS "pacers", NULL, &stats->pacers);
	if (!err)
		err = read_lines(DEBUGFS "users", NULL, &stats->users);
	if (err)
		free_stats(stats);
	return err;
}

static void free_records(struct records *records)
{
	for (unsigned int i = 0; i < records->count; i++)
		free(records->r[i].line);
	free(records->r);
}

void free_stats(struct stats *stats)
{
	for (unsigned int i = 0; i < stats->count; i++) {
		struct wheel *wheel = &stats->wheels[i];

		free(wheel->fields.line);
		for (unsigned int l = 0; l < wheel->levels; l++)
			free(wheel->level[l].line);
	}
	free(stats->wheels);
	free_records(&stats->pacers);
	free_records(&stats->users);
	*stats = (struct stats){ 0 };
}

uint64_t sum_wheels(const struct stats *stats, const char *name)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < stats->count; i++)
		sum += field_u64(&stats->wheels[i].fields, name);
	return sum;
}

/* Sum of all wheels' histograms; return the number of expirations in it. */
uint64_t sum_late(const struct stats *stats, uint64_t late[LATE_BUCKETS])
{
	uint64_t sum = 0;

	memset(late, 0, LATE_BUCKETS * sizeof(*late));
	for (unsigned int i = 0; i < stats->count; i++) {
		for (unsigned int b = 0; b < stats->wheels[i].late_buckets; b++) {
			late[b] += stats->wheels[i].late[b];
			sum += stats->wheels[i].late[b];
		}
	}
	return sum;
}

/* Upper bound of a bucket; half of it is the lower bound. */
uint64_t late_bucket_ns(unsigned int bucket)
{
	return 1024ULL << bucket;
}

/* Upper bound of the lateness of @percent per cent of the expirations. */
uint64_t late_percentile(const uint64_t late[LATE_BUCKETS], double percent)
{
	uint64_t sum = 0, reached = 0, wanted;
	unsigned int b;

	for (b = 0; b < LATE_BUCKETS; b++)
		sum += late[b];
	if (!sum)
		return 0;
	wanted = (uint64_t)(sum * percent / 100);
	if (wanted >= sum)
		wanted = sum - 1;
	for (b = 0; b < LATE_BUCKETS - 1; b++) {
		reached += late[b];
		if (reached > wanted)
			break;
	}
	return late_bucket_ns(b);
}

static bool same_field(const struct fields *a, const struct fields *b, const char *name)
{
	const char *left = field(a, name), *right = field(b, name);

	return left && right ? !strcmp(left, right) : left == right;
}

static bool same_key(const struct fields *a, const struct fields *b)
{
	return same_field(a, b, "cpu") && same_field(a, b, "clock") &&
	       same_field(a, b, "user") && same_field(a, b, "private") &&
	       same_field(a, b, "tick_ns");
}

/*
 * Wheel number @number of @now as it was in @before, or NULL. A user's private
 * wheels have no names; their order identifies them.
 */
const struct wheel *same_wheel(const struct stats *before, const struct stats *now,
			       unsigned int number)
{
	const struct fields *key = &now->wheels[number].fields;
	unsigned int skip = 0;

	for (unsigned int i = 0; i < number; i++)
		skip += same_key(&now->wheels[i].fields, key);
	for (unsigned int i = 0; i < before->count; i++)
		if (same_key(&before->wheels[i].fields, key) && !skip--)
			return &before->wheels[i];
	return NULL;
}

/* The line of the same user and CPU in another reading, or NULL. */
const struct fields *same_record(const struct records *before, const struct fields *record)
{
	for (unsigned int i = 0; i < before->count; i++)
		if (same_field(&before->r[i], record, "user") &&
		    same_field(&before->r[i], record, "cpu"))
			return &before->r[i];
	return NULL;
}

uint64_t sum_records(const struct records *records, const char *name)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < records->count; i++)
		sum += field_u64(&records->r[i], name);
	return sum;
}

/* Times that the budget of a run was used up. Modules with pacers count it there. */
uint64_t sum_exhausted(const struct stats *stats)
{
	return stats->pacers.count ? sum_records(&stats->pacers, "exhausted") :
				     sum_wheels(stats, "exhausted");
}

/* Read a file of /sys/module/htw, without its newline, and make it printable. */
bool read_module_file(const char *name, char *buf, size_t size)
{
	char path[512], line[256];
	bool read;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/htw/%s", name);
	file = fopen(path, "re");
	if (!file)
		return false;
	read = fgets(line, sizeof(line), file);
	fclose(file);
	if (!read)
		return false;
	line[strcspn(line, "\n")] = '\0';
	make_printable(buf, size, line);
	return true;
}

/* Call @each for each of the module's parameters, in order. Return 0 or an errno. */
int each_parameter(void (*each)(const char *name, const char *value, void *arg), void *arg)
{
	char name[4 * NAME_MAX + 1], value[256];
	struct dirent **names;
	int count;

	count = scandir(PARAMETERS, &names, NULL, alphasort);
	if (count < 0)
		return errno;
	for (int i = 0; i < count; i++) {
		char file[sizeof("parameters/") + sizeof(names[i]->d_name)];

		snprintf(file, sizeof(file), "parameters/%s", names[i]->d_name);
		make_printable(name, sizeof(name), names[i]->d_name);
		if (names[i]->d_name[0] != '.' && read_module_file(file, value, sizeof(value)))
			each(name, value, arg);
		free(names[i]);
	}
	free(names);
	return 0;
}

/* Print why read_stats() failed; return the exit code. */
int stats_failed(int err)
{
	char value[8];

	switch (err) {
	case EACCES:
	case EPERM:
		return fail_with(HTWCTL_DENIED,
				 "/sys/kernel/debug/htw: permission denied; needs root");
	case ENOENT:
		if (!read_module_file("parameters/tick_us", value, sizeof(value)))
			return fail_with(HTWCTL_NO_DEVICE,
					 "the module is not loaded (modprobe htw)");
		return fail_with(HTWCTL_UNSUPPORTED,
				 "no /sys/kernel/debug/htw: the kernel has no debugfs, or it is not mounted");
	default:
		return fail(err, "/sys/kernel/debug/htw");
	}
}
