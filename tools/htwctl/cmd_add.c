// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl add: start timers
 *
 * In a new context, which ends with this program: it prints each expiration and
 * exits after the last. Or in a context that another process or the shell keeps
 * open: it prints the ids and leaves the timers there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "events.h"

/* What htw(4) documents, for messages. */
#define TICK_MIN_NS		(10 * NSEC_PER_USEC)
#define TICK_MAX_NS		NSEC_PER_SEC
#define ROOT_TICK_MIN_NS	NSEC_PER_USEC

static struct {
	struct htw_add_args timer;
	uint64_t *deadlines;
	unsigned int count;
} add;

static void add_deadline(const char *arg, struct argp_state *state)
{
	uint64_t *more = reallocarray(add.deadlines, add.count + 1, sizeof(*more));

	if (!more)
		argp_failure(state, HTWCTL_LIMIT, ENOMEM, "too many delays");
	add.deadlines = more;
	add.deadlines[add.count++] = parse_duration_arg("DELAY", arg, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'e':
		add.timer.interval = parse_duration_arg("--every", arg, state);
		if (!add.timer.interval)
			argp_error(state, "--every: must be more than zero");
		return 0;
	case 'n':
		add.timer.firings = parse_number_arg("--count", arg, 1, UINT32_MAX, state);
		return 0;
	case 's':
		add.timer.slack = parse_duration_arg("--slack", arg, state);
		return 0;
	case 'c':
		add.timer.cookie = parse_number_arg("--cookie", arg, 0, UINT64_MAX, state);
		return 0;
	case 'a':
		add.timer.flags |= HTW_F_ABS;
		return 0;
	case 'k':
		add.timer.flags |= HTW_F_KEEP;
		return 0;
	case ARGP_KEY_ARG:
		add_deadline(arg, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "missing DELAY");
		return 0;
	case ARGP_KEY_SUCCESS:
		if (add.timer.firings && !add.timer.interval)
			argp_error(state, "--count needs --every");
		if (wants_setup() && (opt.pid || opt.fd >= 0))
			argp_error(state,
				   "--clock, --tick, --exact, --ordered and --geometry need a new context: no --pid, no --fd");
		if (add.timer.flags & HTW_F_KEEP && !opt.pid && opt.fd < 0)
			argp_error(state, "--keep needs a descriptor that stays open: --pid or --fd");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "every", 'e', "DURATION", 0,
	  "periodic timer: expire again every DURATION, which is rounded up to a tick", 1 },
	{ "count", 'n', "N", 0, "with --every: expire N times in all (default: without end)", 1 },
	{ "slack", 's', "DURATION", 0, "may expire this much later, to share wakeups", 1 },
	{ "cookie", 'c', "NUMBER", 0,
	  "number returned with each expiration; 0x for hexadecimal", 1 },
	{ "abs", 'a', NULL, 0, "DELAY is an absolute time on the clock", 1 },
	{ "keep", 'k', NULL, 0, "keep the id after the last expiration, until it is cancelled", 1 },
	{ 0 }
};

static void print_added(const struct htw_add_args *timer)
{
	struct json_object *object;

	if (opt.json) {
		object = json_new();
		json_add_str(object, "event", "added");
		json_add_hex(object, "id", timer->id);
		json_add_hex(object, "cookie", timer->cookie);
		json_add_u64(object, "deadline_ns", timer->deadline);
		json_add_bool(object, "absolute", timer->flags & HTW_F_ABS);
		json_add_u64(object, "interval_ns", timer->interval);
		json_add_u64(object, "firings", timer->firings);
		json_print(object);
		return;
	}
	printf("added    %s  %s %s", show_hex(timer->id), timer->flags & HTW_F_ABS ? "at" : "in",
	       show_duration(timer->deadline));
	if (timer->interval)
		printf(", then every %s", show_duration(timer->interval));
	if (timer->firings)
		printf(", %s times in all", show_grouped(timer->firings));
	putchar('\n');
	fflush(stdout);
}

static int add_timers(int fd)
{
	for (unsigned int i = 0; i < add.count; i++) {
		struct htw_add_args timer = add.timer;

		timer.deadline = add.deadlines[i];
		if (ioctl(fd, HTW_ADD, &timer))
			return add_refused(fd, errno);
		print_added(&timer);
	}
	return HTWCTL_OK;
}

static int wait_for_all(int fd)
{
	unsigned int left = add.count, n;
	struct htw_event events[64];

	while (left) {
		int err = wait_events(fd, UINT64_MAX, events, ARRAY_SIZE(events), &n);

		if (err)
			return wait_failed(err);
		for (unsigned int i = 0; i < n; i++) {
			print_event(&events[i]);
			if (!(events[i].flags & HTW_EVENT_MORE))
				left--;
		}
		if (ferror(stdout))
			return HTWCTL_OK;
	}
	return HTWCTL_OK;
}

/*
 * What the kernel refuses is explained in terms of the options. What is allowed
 * is not checked before, because another version of the module may allow more.
 */
static int set_up_failed(int err)
{
	const uint64_t tick = opt.setup.tick_ns;

	switch (err) {
	case ERANGE:
		if (tick && (tick < ROOT_TICK_MIN_NS || tick > TICK_MAX_NS))
			return fail_with(HTWCTL_FAILED, "--tick %s: must be from %s to %s",
					 show_duration(tick), show_duration(TICK_MIN_NS),
					 show_duration(TICK_MAX_NS));
		return fail_with(HTWCTL_FAILED,
				 "--geometry: must be at most %u levels of 2 to 2048 slots, with a product of at most 2^61",
				 HTW_MAX_LEVELS);
	case EPERM:
		return fail_with(HTWCTL_DENIED, "--tick %s: below %s needs CAP_SYS_RESOURCE",
				 show_duration(tick), show_duration(TICK_MIN_NS));
	}
	return fail(err, "cannot set up the context (--clock, --tick, --exact, --ordered, --geometry)");
}

static int set_up(int fd)
{
	if (!wants_setup() || !ioctl(fd, HTW_SETUP, &opt.setup))
		return HTWCTL_OK;
	return set_up_failed(errno);
}

int cmd_add(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &setup_argp, 0, NULL, 0 }, { &target_argp, 0, NULL, 0 },
		{ &format_argp, 0, NULL, 0 }, { &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "DELAY...",
		.doc = "Start a timer for each DELAY. Without --pid and --fd the timers are in a new "
		       "context: htwctl prints each expiration and exits after the last. With them, "
		       "the timers are added to an existing context, the ids are printed, and htwctl "
		       "exits.\v"
		       "Durations: 250us, 10ms, 1.5s, 30m, 2h, 1d; seconds without a unit.\n\n"
		       "Examples:\n"
		       "  htwctl add 5s --every 1s --count 3\n"
		       "  htwctl add 1s 2s 3s --clock=boottime --format=json\n"
		       "  exec 3<>/dev/htw; htwctl add --fd 3 30s --cookie 7; htwctl list --fd 3\n",
		.children = children,
	};
	int fd, code;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	fd = open_target(&code);
	if (fd < 0)
		return code;
	code = set_up(fd);
	if (code == HTWCTL_OK)
		code = add_timers(fd);
	if (code == HTWCTL_OK && !opt.pid && opt.fd < 0)
		code = wait_for_all(fd);
	return code;
}
