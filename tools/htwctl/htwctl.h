/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * htwctl - what the subcommands share
 *
 * Each subcommand is a function that parses its own arguments, does its work,
 * prints errors to stderr and returns one of the exit codes below.
 */
#ifndef HTWCTL_H
#define HTWCTL_H

#include <argp.h>
#include <json-c/json.h>
#include <linux/htw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "../common/clock.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define NSEC_PER_USEC	1000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL

/* Exit codes. They are documented in htwctl(1); scripts rely on them. */
enum htwctl_exit {
	HTWCTL_OK		= 0,
	HTWCTL_FAILED		= 1,	/* a failure without a code of its own */
	HTWCTL_USAGE		= 2,	/* wrong arguments; nothing was done */
	HTWCTL_NO_DEVICE	= 3,	/* no device: the module is not loaded */
	HTWCTL_DENIED		= 4,	/* permission denied */
	HTWCTL_NOT_FOUND	= 5,	/* no such timer, process or descriptor */
	HTWCTL_LIMIT		= 6,	/* a limit was reached, or no memory */
	HTWCTL_UNSUPPORTED	= 7,	/* not supported by this kernel */
};

/* Options that several subcommands have. */
struct htwctl_options {
	const char *device;
	bool json;
	pid_t pid;			/* 0 if not given */
	int fd;				/* -1 if not given */
	struct htw_setup_args setup;
};

extern struct htwctl_options opt;

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

int cmd_info(int argc, char **argv);
int cmd_add(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_cancel(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_bench(int argc, char **argv);

/* options.c: argp children for the subcommands, and parsing of option values. */
extern const struct argp help_argp;
extern const struct argp format_argp;
extern const struct argp target_argp;
extern const struct argp setup_argp;
bool wants_setup(void);

uint64_t parse_duration_arg(const char *what, const char *text, struct argp_state *state);
uint64_t parse_interval_arg(const char *text, uint64_t min, uint64_t max, struct argp_state *state);
uint64_t parse_number_arg(const char *what, const char *text, uint64_t min, uint64_t max,
			  struct argp_state *state);

/* text.c: text from outside, made printable. */
void make_printable(char *to, size_t size, const char *from);
char *printable_copy(const char *from);

/* units.c: parse and print durations and numbers. */
bool parse_duration(const char *text, uint64_t *ns);
bool parse_number(const char *text, uint64_t *number);
const char *show_duration(uint64_t ns);
const char *show_rough(uint64_t ns);
const char *show_grouped(uint64_t number);
const char *show_short(uint64_t number);
const char *show_hex(uint64_t number);
const char *show_clock(int clock);
const char *show_state(unsigned int state);
const char *show_slots(const uint32_t *slots, unsigned int levels);
const char *show_user(const char *user);
const char *show_text(const char *text);
const char *show_features(uint64_t features, const char *separator);
const char *feature_name(unsigned int bit);

/* output.c: JSON, one document on each line; messages to stderr. */
int fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_with(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
int exit_code_of(int err);
void json_add(struct json_object *to, const char *key, struct json_object *value);
void json_add_u64(struct json_object *to, const char *key, uint64_t value);
void json_add_i64(struct json_object *to, const char *key, int64_t value);
void json_add_bool(struct json_object *to, const char *key, bool value);
void json_add_hex(struct json_object *to, const char *key, uint64_t value);
void json_add_str(struct json_object *to, const char *key, const char *value);
struct json_object *json_new(void);
struct json_object *json_new_array(void);
void json_append(struct json_object *to, struct json_object *value);
void json_append_str(struct json_object *to, const char *value);
void json_append_u64(struct json_object *to, uint64_t value);
void json_print(struct json_object *object);
bool output_lost(void);
int end_without_output(void);
void check_output(int code, void *unused);

/* device.c: descriptors of /dev/htw, own and other processes'. */
int open_device(void);
int open_target(int *code);
int take_descriptor(pid_t pid, int fd, int *code);
int get_info(int fd, struct htw_info_args *info);
int call_failed(int err, const char *mode, const char *what);
int add_refused(int fd, int err);
int list_timers(int fd, int (*each)(const struct htw_timer_info *timer, void *arg), void *arg);

/* Buckets of a histogram of lateness in fdinfo. */
#define LATE_BUCKETS	20

/* An open file of /dev/htw, from /proc; numbers are those of its fdinfo, see htw(4). */
struct descriptor {
	pid_t pid;
	int fd;
	unsigned int holders;	/* descriptors of the same open file, this one included */
	uid_t uid;
	char comm[4 * 15 + 1];	/* printable */
	int clock;
	unsigned int flags;
	uint64_t tick_ns;
	uint64_t timers;
	uint64_t limit;
	uint64_t bytes;
	uint64_t refused;
	uint64_t pending;
	uint64_t oldest_due;	/* ns; 0 if none is due */
	uint64_t taken;
	uint64_t cancelled;
	uint64_t cascades;
	uint64_t alarm_late[LATE_BUCKETS];
	uint64_t taken_late[LATE_BUCKETS];
	unsigned int levels;
	struct level {
		uint64_t span;
		uint64_t buckets;
		uint64_t occupied;
	} level[HTW_MAX_LEVELS];
	unsigned int nr_counters;
	struct counter {
		char name[32];
		uint64_t value;
	} counters[16];		/* other lines of fdinfo, by their keys in JSON */
};

struct descriptors {
	struct descriptor *d;
	unsigned int count;
	unsigned int hidden;	/* processes without permission to look into */
};

/*
 * Find the open files of /dev/htw that @pid holds; 0 stands for all processes.
 * Return 0 or an errno. Free the result with free_descriptors().
 */
int find_descriptors(pid_t pid, struct descriptors *found);
/* Print why find_descriptors() failed; return the exit code. */
int find_failed(pid_t pid, int err);
const struct descriptor *same_descriptor(const struct descriptors *before,
					 const struct descriptor *d);
void free_descriptors(struct descriptors *found);

/* stats.c: /sys/kernel/debug/htw, whose lines are names and values in turn, made printable. */
struct fields {
	unsigned int count;
	char *line;
	struct {
		const char *name;
		const char *value;
	} f[32];
};

struct records {
	struct fields *r;
	unsigned int count;
};

struct stats {
	uint64_t when;		/* CLOCK_MONOTONIC */
	struct records users;	/* users, and their alarms, which have a cpu */
	struct records lanes;
	struct descriptors found;
};

/* What all descriptors have counted, or what they have since another reading. */
struct counts {
	uint64_t pending;
	uint64_t oldest_due;
	uint64_t taken;
	uint64_t cancelled;
	uint64_t cascades;
	uint64_t alarm_late[LATE_BUCKETS];
	uint64_t taken_late[LATE_BUCKETS];
};

/* Both return 0 or an errno. */
int read_stats(struct stats *stats);
int stats_failed(int err);
void free_stats(struct stats *stats);
const char *field(const struct fields *fields, const char *name);
uint64_t field_u64(const struct fields *fields, const char *name);
bool field_is_number(const char *value);
void count_since(struct counts *counts, const struct stats *now, const struct stats *before);
uint64_t late_bucket_ns(unsigned int bucket);
uint64_t late_percentile(const uint64_t late[LATE_BUCKETS], double percent);
uint64_t record_since(const struct records *before, const struct fields *record, const char *name);
uint64_t records_since(const struct records *before, const struct records *now, const char *name);
int each_parameter(void (*each)(const char *name, const char *value, void *arg), void *arg);
bool read_module_file(const char *name, char *buf, size_t size);

#endif /* HTWCTL_H */
