// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl cancel: stop timers of an existing context
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "htwctl.h"

static struct {
	uint64_t *ids;
	unsigned int count;
	bool all;
} cancel;

static void add_id(const char *arg, struct argp_state *state)
{
	uint64_t *more = reallocarray(cancel.ids, cancel.count + 1, sizeof(*more));

	if (!more)
		argp_failure(state, HTWCTL_LIMIT, ENOMEM, "too many ids");
	cancel.ids = more;
	if (!parse_number(arg, &cancel.ids[cancel.count++]))
		argp_error(state, "'%s' is not an id; htwctl list --pid prints ids",
			   show_text(arg));
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'A':
		cancel.all = true;
		return 0;
	case ARGP_KEY_ARG:
		add_id(arg, state);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!opt.pid && opt.fd < 0)
			argp_error(state, "choose a descriptor with --pid or --fd");
		if (cancel.all == !!cancel.count)
			argp_error(state, "give either ids or --all");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "all", 'A', NULL, 0, "all timers of the context", 1 },
	{ 0 }
};

static int cancel_all(int fd)
{
	struct htw_cancel_all_args all = { 0 };
	struct json_object *object;

	if (ioctl(fd, HTW_CANCEL_ALL, &all))
		return call_failed(errno, "writing", "cannot cancel the timers");
	if (opt.json) {
		object = json_new();
		json_add_u64(object, "cancelled", all.count);
		json_print(object);
	} else {
		printf("cancelled %s timers\n", show_grouped(all.count));
	}
	return HTWCTL_OK;
}

static void print_cancelled(const struct htw_cancel_args *one)
{
	struct json_object *object;

	if (opt.json) {
		object = json_new();
		json_add_hex(object, "id", one->id);
		json_add_str(object, "result", "cancelled");
		json_add_hex(object, "cookie", one->cookie);
		json_add_str(object, "state", show_state(one->state));
		json_add_u64(object, "remaining_ns", one->remaining);
		json_add_u64(object, "missed", one->missed);
		json_print(object);
		return;
	}
	printf("cancelled  %s  cookie %s", show_hex(one->id), show_hex(one->cookie));
	if (one->state == HTW_STATE_PENDING)
		printf("  %s left\n", show_duration(one->remaining));
	else
		printf("  was %s\n", show_state(one->state));
}

static void print_unknown(uint64_t id)
{
	struct json_object *object;

	if (opt.json) {
		object = json_new();
		json_add_hex(object, "id", id);
		json_add_str(object, "result", "unknown");
		json_print(object);
	} else {
		printf("unknown    %s\n", show_hex(id));
	}
}

static int cancel_one(int fd, uint64_t id)
{
	struct htw_cancel_args one = { .id = id };

	if (!ioctl(fd, HTW_CANCEL, &one)) {
		print_cancelled(&one);
		return HTWCTL_OK;
	}
	if (errno != ENOENT)
		return call_failed(errno, "writing", "cannot cancel the timer");
	print_unknown(id);
	return HTWCTL_NOT_FOUND;
}

int cmd_cancel(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &target_argp, 0, NULL, 0 }, { &format_argp, 0, NULL, 0 },
		{ &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "ID...\n--all",
		.doc = "Stop timers of another process's descriptor, or of an inherited one.\v"
		       "A timer whose expiration has not been read can be stopped: no expiration "
		       "comes then. If several ids are given, the exit status is that of the "
		       "first failure.\n\n"
		       "Examples:\n"
		       "  htwctl cancel --pid 4711 0x100000001\n"
		       "  htwctl cancel --fd 3 --all\n",
		.children = children,
	};
	int fd, code, result = HTWCTL_OK;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	fd = open_target(&code);
	if (fd < 0)
		return code;
	if (cancel.all)
		return cancel_all(fd);
	for (unsigned int i = 0; i < cancel.count; i++) {
		code = cancel_one(fd, cancel.ids[i]);
		if (result == HTWCTL_OK)
			result = code;
	}
	return result;
}
