// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl trace: print the module's tracepoints, decoded
 *
 * In a tracing instance of its own, so that other users of tracing are not
 * disturbed. Its events cost every timer something as long as it exists, so it
 * is removed however this program ends: also by a signal, and when nobody reads
 * the output any more. What is left after SIGKILL the next one removes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <traceevent/event-parse.h>
#include <tracefs/tracefs.h>
#include <unistd.h>

#include "htwctl.h"

#define SYSTEM		"htw"

/* Instances are called so, and the process's number. */
#define INSTANCE	"htwctl-"

/* Attempts to create one, if others remove it each time before it is in use. */
#define TRIES		10

/* How to print a field. */
enum kind {
	NUMBER,
	HEX,
	DURATION,		/* a duration */
	TIME,		/* a time on the context's clock */
	RESULT,		/* zero or a negative errno */
};

static const struct {
	const char *name;
	const char *json;
	enum kind kind;
} fields[] = {
	{ "id", "id", HEX },
	{ "cookie", "cookie", HEX },
	{ "deadline", "deadline_ns", TIME },
	{ "interval", "interval_ns", DURATION },
	{ "late", "late_ns", DURATION },
	{ "result", "result", RESULT },
	{ "context", "context", HEX },
	{ "expires", "expires_ns", TIME },
	{ "took", "took_ns", DURATION },
};

static struct {
	const char *events;
	uint64_t count;
	uint64_t duration;
	uint64_t id;
	pid_t pid;
} trace_opt = {
	.count = UINT64_MAX,
	.duration = UINT64_MAX,
};

/* The signal that asks this program to end, or 0. */
static volatile sig_atomic_t interrupted;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'e':
		trace_opt.events = arg;
		if (strspn(arg, ",") == strlen(arg))
			argp_error(state, "--event: no name of an event");
		return 0;
	case 'n':
		trace_opt.count = parse_number_arg("--count", arg, 1, UINT64_MAX - 1, state);
		return 0;
	case 't':
		trace_opt.duration = parse_duration_arg("--duration", arg, state);
		return 0;
	case 'I':
		trace_opt.id = parse_number_arg("--id", arg, 1, UINT64_MAX, state);
		return 0;
	case 'p':
		trace_opt.pid = parse_number_arg("--pid", arg, 1, INT32_MAX, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "event", 'e', "NAME,...", 0,
	  "events to print: add, mod, cancel, expire, cascade, alarm_ring, wake, ... "
	  "(default: all)", 1 },
	{ "id", 'I', "ID", 0, "only events of this timer", 1 },
	{ "pid", 'p', "PID", 0, "only events in this task; alarms ring in whichever task the interrupt hit",
	  1 },
	{ "count", 'n', "N", 0, "exit after N events", 1 },
	{ "duration", 't', "DURATION", 0, "exit after DURATION", 1 },
	{ 0 }
};

static void on_signal(int number)
{
	interrupted = number;
}

static const int signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM };

static void catch_signals(void)
{
	/* Without SA_RESTART, so that a write to a full pipe ends, too. */
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction before;

	/* nohup(1) and shells ignore some for the programs that they start. */
	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++)
		if (!sigaction(signals[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
}

/* End by a signal that was caught, so that the parent sees which it was. */
static void release_signals(void)
{
	struct sigaction now;

	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++)
		if (!sigaction(signals[i], NULL, &now) && now.sa_handler == on_signal)
			signal(signals[i], SIG_DFL);
	if (interrupted)
		raise(interrupted);
}

static bool shall_end(uint64_t begin, uint64_t left)
{
	return interrupted || !left || ferror(stdout) ||
	       now_ns() - begin >= trace_opt.duration;
}

static void field_text(enum kind kind, const char *name, unsigned long long value)
{
	const long long number = value;

	switch (kind) {
	case HEX:
		printf("  %s %s", name, show_hex(value));
		break;
	case DURATION:
		if (number < 0)
			printf("  %s -%s", name, show_duration(-number));
		else if (value)
			printf("  %s %s", name, show_duration(value));
		break;
	case TIME:
		printf("  %s %llu.%09llu", name, value / NSEC_PER_SEC, value % NSEC_PER_SEC);
		break;
	case RESULT:
		printf("  %s", number ? strerror(-number) : "stopped");
		break;
	case NUMBER:
		printf("  %s %llu", name, value);
		break;
	}
}

/* Print the event's other fields under their own names. */
static void print_fields(struct tep_event *event, struct tep_record *record,
			 struct json_object *object)
{
	struct tep_format_field **all = tep_event_fields(event);
	unsigned long long value;

	for (unsigned int i = 0; all && all[i]; i++) {
		const char *name = show_text(all[i]->name), *json = name;
		enum kind kind = NUMBER;

		if (tep_read_number_field(all[i], record->data, &value))
			continue;
		for (unsigned int f = 0; f < ARRAY_SIZE(fields); f++) {
			if (!strcmp(fields[f].name, all[i]->name)) {
				kind = fields[f].kind;
				json = fields[f].json;
			}
		}
		/* Fields narrower than a long are returned without sign extension. */
		if (all[i]->flags & TEP_FIELD_IS_SIGNED && all[i]->size == 4)
			value = (int32_t)value;
		if (!object)
			field_text(kind, name, value);
		else if (kind == HEX)
			json_add_hex(object, json, value);
		else if (all[i]->flags & TEP_FIELD_IS_SIGNED)
			json_add_i64(object, json, value);
		else
			json_add_u64(object, json, value);
	}
	free(all);
}

struct following {
	uint64_t begin;
	uint64_t left;		/* events to print */
};

static int print_event(struct tep_event *event, struct tep_record *record, int cpu, void *context)
{
	const char *name = show_text(event->name);
	struct following *following = context;
	struct json_object *object;

	/* Where events come faster than they are printed, nobody else asks. */
	if (shall_end(following->begin, following->left))
		return -1;
	following->left--;
	/* Drop the common prefix. */
	if (!strncmp(name, SYSTEM "_", strlen(SYSTEM "_")))
		name += strlen(SYSTEM "_");
	if (opt.json) {
		object = json_new();
		json_add_str(object, "event", name);
		json_add_u64(object, "trace_ns", record->ts);
		json_add_u64(object, "cpu", cpu);
		json_add_u64(object, "pid", tep_data_pid(event->tep, record));
		print_fields(event, record, object);
		json_print(object);
	} else {
		printf("%llu.%06llu  cpu %-3d %7d  %-8s", record->ts / NSEC_PER_SEC,
		       record->ts % NSEC_PER_SEC / 1000, cpu, tep_data_pid(event->tep, record),
		       name);
		print_fields(event, record, NULL);
		putchar('\n');
		fflush(stdout);
	}
	return shall_end(following->begin, following->left) ? -1 : 0;
}

/* Enable the @events of a list without prefixes. */
static int enable_events(struct tracefs_instance *instance, struct tep_handle *tep,
			 const char *events)
{
	char *list = strdup(events), *name, *save;
	int code = HTWCTL_OK;
	char full[64];

	if (!list)
		return fail(ENOMEM, "--event");
	for (name = strtok_r(list, ",", &save); name && code == HTWCTL_OK;
	     name = strtok_r(NULL, ",", &save)) {
		snprintf(full, sizeof(full), SYSTEM "_%s", name);
		/* libtracefs takes names as regular expressions, and crashes at some. */
		if (!tep_find_event_by_name(tep, SYSTEM, full) ||
		    tracefs_event_enable(instance, SYSTEM, full))
			code = fail_with(HTWCTL_UNSUPPORTED, "no event %s; see --help",
					 show_text(name));
	}
	free(list);
	return code;
}

/* Let the kernel drop unwanted events. */
static int set_filter(struct tracefs_instance *instance, const char *event, const char *text)
{
	char file[96];

	snprintf(file, sizeof(file), "events/" SYSTEM "/%s/filter", event);
	if (tracefs_instance_file_write(instance, file, text) < 0)
		return fail(errno, "cannot filter %s", event);
	return HTWCTL_OK;
}

static int set_filters(struct tracefs_instance *instance)
{
	static const char * const with_id[] = {
		"htw_add", "htw_mod", "htw_cancel", "htw_expire",
	};
	int code = HTWCTL_OK;
	char text[64];

	if (trace_opt.pid) {
		if (kill(trace_opt.pid, 0) && errno == ESRCH)
			return fail_with(HTWCTL_NOT_FOUND, "no process %d", trace_opt.pid);
		snprintf(text, sizeof(text), "%d", trace_opt.pid);
		if (tracefs_instance_file_write(instance, "set_event_pid", text) < 0)
			return fail(errno, "cannot filter by pid");
	}
	if (!trace_opt.id)
		return HTWCTL_OK;
	snprintf(text, sizeof(text), "id == %" PRIu64, trace_opt.id);
	for (unsigned int i = 0; i < ARRAY_SIZE(with_id) && code == HTWCTL_OK; i++)
		code = set_filter(instance, with_id[i], text);
	return code;
}

static int follow(struct tracefs_instance *instance, struct tep_handle *tep)
{
	struct following following = { .begin = now_ns(), .left = trace_opt.count };
	/*
	 * The raw trace pipes cannot be polled for all CPUs at once: look again
	 * soon, or at once when nobody reads the output any more.
	 */
	struct pollfd out = { .fd = STDOUT_FILENO };

	while (!shall_end(following.begin, following.left)) {
		if (tracefs_iterate_raw_events(tep, instance, NULL, 0, print_event,
					       &following) < 0 &&
		    !shall_end(following.begin, following.left))
			return fail(errno ?: EIO, "cannot read the trace");
		if (following.left && poll(&out, 1, 50) > 0)
			break;
	}
	return HTWCTL_OK;
}

static int trace_in(struct tracefs_instance *instance, struct tep_handle *tep)
{
	const char *events = trace_opt.events;
	int code;

	if (trace_opt.id && !events)
		events = "add,mod,cancel,expire";
	code = set_filters(instance);
	/* The clock of most deadlines, so that times and deadlines can be compared. */
	if (code == HTWCTL_OK &&
	    tracefs_instance_file_write(instance, "trace_clock", "mono") < 0)
		code = fail(errno, "cannot set the trace clock");
	if (code == HTWCTL_OK) {
		if (events)
			code = enable_events(instance, tep, events);
		else if (tracefs_event_enable(instance, SYSTEM, NULL))
			code = fail(errno, "cannot enable the events");
	}
	if (code == HTWCTL_OK)
		code = follow(instance, tep);
	tracefs_event_disable(instance, SYSTEM, NULL);
	return code;
}

/*
 * Remove instances of other runs that were killed. Those in use, whose process
 * has a file of it open, cannot be removed. The number in the name says less: it
 * may be of another PID namespace, or have been given to another process.
 */
static void remove_left_behind(void)
{
	char *path = tracefs_get_tracing_file("instances");
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, INSTANCE, strlen(INSTANCE)))
			unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	if (dir)
		closedir(dir);
	tracefs_put_tracing_file(path);
}

/*
 * Create an instance that stays ours, as *@in_use is an open file of it. Return
 * NULL with errno set if that is not possible.
 */
static struct tracefs_instance *create_instance(int *in_use)
{
	struct tracefs_instance *instance;
	char name[32];

	for (int i = 0; i < TRIES; i++) {
		remove_left_behind();
		snprintf(name, sizeof(name), INSTANCE "%d.%d", getpid(), i);
		instance = tracefs_instance_create(name);
		if (!instance)
			return NULL;
		*in_use = -1;
		/* Unless it is of a process with this number in another namespace. */
		if (tracefs_instance_is_new(instance))
			*in_use = tracefs_instance_file_open(instance, "tracing_on", O_RDONLY);
		if (*in_use >= 0)
			return instance;
		/* Or another run has removed it, as if it had been left behind. */
		tracefs_instance_free(instance);
	}
	errno = EAGAIN;
	return NULL;
}

static int trace_failed(void)
{
	char value[8];

	if (!read_module_file("parameters/tick_us", value, sizeof(value)))
		return fail_with(HTWCTL_NO_DEVICE, "the module is not loaded (modprobe htw)");
	if (geteuid())
		return fail_with(HTWCTL_DENIED, "tracefs: permission denied; needs root");
	return fail_with(HTWCTL_UNSUPPORTED,
			 "no tracepoints: the kernel has no tracing, or tracefs is not mounted");
}

int cmd_trace(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &format_argp, 0, NULL, 0 }, { &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Print the module's tracepoints as they occur: time (CLOCK_MONOTONIC, s), "
		       "CPU, task, event and its fields. Timers are identified by their ids, which "
		       "are unique only within a context. Needs root.\v"
		       "Examples:\n"
		       "  sudo htwctl trace --event expire --count 10\n"
		       "  sudo htwctl trace --id 0x100000001 --duration 1m --format=json\n",
		.children = children,
	};
	static const char * const systems[] = { SYSTEM, NULL };
	struct tracefs_instance *instance;
	struct tep_handle *tep;
	int code, in_use;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	/* libtraceevent would print its own messages to stderr. */
	tep_set_loglevel(TEP_LOG_NONE);
	tracefs_set_loglevel(TEP_LOG_NONE);
	tep = tracefs_local_events_system(NULL, systems);
	if (!tep || !tep_get_event(tep, 0)) {
		tep_free(tep);
		return trace_failed();
	}
	catch_signals();
	instance = create_instance(&in_use);
	if (!instance) {
		code = errno == ENOENT || errno == EACCES ? trace_failed() :
			fail(errno, "cannot create a tracing instance");
		tep_free(tep);
		return code;
	}
	code = trace_in(instance, tep);
	close(in_use);
	/* By now another run may have removed it. */
	if (tracefs_instance_destroy(instance) && errno != ENOENT && code == HTWCTL_OK)
		code = fail(errno, "cannot remove the tracing instance %s",
			    tracefs_instance_get_name(instance));
	tracefs_instance_free(instance);
	tep_free(tep);
	release_signals();
	return output_lost() ? end_without_output() : code;
}
