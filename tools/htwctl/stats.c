// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read /sys/kernel/debug/htw
 *
 * Each line is names and values in turn. Fields unknown to this program are
 * kept by their names; missing fields count as zero. What belongs to one context
 * is in its fdinfo.
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

/* Add each line of a file to @records. */
static int read_lines(const char *path, struct records *records)
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
		err = printable ? take_record(records, printable) : ENOMEM;
	}
	fclose(file);
	return err;
}

int read_stats(struct stats *stats)
{
	int err;

	*stats = (struct stats){ .when = now_ns() };
	err = read_lines(DEBUGFS "users", &stats->users);
	if (!err)
		err = read_lines(DEBUGFS "lanes", &stats->lanes);
	if (!err)
		err = find_descriptors(0, &stats->found);
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
	free_records(&stats->users);
	free_records(&stats->lanes);
	free_descriptors(&stats->found);
	*stats = (struct stats){ 0 };
}

/*
 * Add up what all descriptors of @now have counted since @before, which may be
 * NULL; a descriptor that was not there counts from its beginning.
 */
void count_since(struct counts *counts, const struct stats *now, const struct stats *before)
{
	static const struct descriptor none;

	*counts = (struct counts){ 0 };
	for (unsigned int i = 0; i < now->found.count; i++) {
		const struct descriptor *d = &now->found.d[i], *old = NULL;

		if (before)
			old = same_descriptor(&before->found, d);
		if (!old)
			old = &none;
		counts->pending += d->pending;
		if (d->oldest_due > counts->oldest_due)
			counts->oldest_due = d->oldest_due;
		counts->taken += d->taken - old->taken;
		counts->cancelled += d->cancelled - old->cancelled;
		counts->cascades += d->cascades - old->cascades;
		for (unsigned int b = 0; b < LATE_BUCKETS; b++) {
			counts->alarm_late[b] += d->alarm_late[b] - old->alarm_late[b];
			counts->taken_late[b] += d->taken_late[b] - old->taken_late[b];
		}
	}
}

/* Upper bound of a bucket; half of it is the lower bound. The last one has no bound. */
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

/* The line of the same user, CPU and clock, or lane, in another reading, or NULL. */
static const struct fields *same_record(const struct records *before, const struct fields *record)
{
	static const char * const keys[] = { "user", "cpu", "clock", "lane" };

	for (unsigned int i = 0; i < before->count; i++) {
		bool same = true;

		for (unsigned int k = 0; k < ARRAY_SIZE(keys) && same; k++)
			same = same_field(&before->r[i], record, keys[k]);
		if (same)
			return &before->r[i];
	}
	return NULL;
}

/* By how much a field of a line has grown. A module that was reloaded counts from 0 again. */
uint64_t record_since(const struct records *before, const struct fields *record, const char *name)
{
	const struct fields *old = same_record(before, record);
	const uint64_t now = field_u64(record, name), then = old ? field_u64(old, name) : 0;

	return now >= then ? now - then : now;
}

/* The same of all lines. */
uint64_t records_since(const struct records *before, const struct records *now, const char *name)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < now->count; i++)
		sum += record_since(before, &now->r[i], name);
	return sum;
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
