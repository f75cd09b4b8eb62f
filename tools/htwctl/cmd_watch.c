// SPDX-License-Identifier: GPL-2.0-only
/*
 * htwctl watch: read the expirations of a descriptor
 *
 * Each expiration goes to one reader, so this takes them away from another
 * process that reads the descriptor; --take must allow it.
 */
#include <inttypes.h>
#include <stdio.h>

#include "events.h"

static struct {
	uint64_t count;
	uint64_t timeout;
	bool take;
} watch = {
	.count = UINT64_MAX,
	.timeout = UINT64_MAX,
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'n':
		watch.count = parse_number_arg("--count", arg, 1, UINT64_MAX - 1, state);
		return 0;
	case 't':
		watch.timeout = parse_duration_arg("--timeout", arg, state);
		return 0;
	case 'x':
		watch.take = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!opt.pid && opt.fd < 0)
			argp_error(state, "choose a descriptor with --fd or --pid");
		if (opt.pid && !watch.take)
			argp_error(state,
				   "this takes expirations away from process %d: allow it with --take, or use trace",
				   opt.pid);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "count", 'n', "N", 0, "exit after N expirations", 1 },
	{ "timeout", 't', "DURATION", 0, "exit if none comes within DURATION; 0: only read what is "
	  "there", 1 },
	{ "take", 'x', NULL, 0, "with --pid: take the expirations away from that process", 1 },
	{ 0 }
};

int cmd_watch(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{ &target_argp, 0, NULL, 0 }, { &format_argp, 0, NULL, 0 },
		{ &help_argp, 0, NULL, 0 }, { 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Read expirations from a descriptor and print them, until interrupted.\v"
		       "Examples:\n"
		       "  exec 3<>/dev/htw; htwctl add --fd 3 1s 2s; htwctl watch --fd 3 --count 2\n"
		       "  htwctl watch --pid 4711 --take --timeout 0\n",
		.children = children,
	};
	struct htw_event events[64];
	struct htw_info_args info;
	uint64_t left;
	int fd, code;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	fd = open_target(&code);
	if (fd < 0)
		return code;
	/* Before it waits for what it cannot read. */
	code = get_info(fd, &info);
	if (code)
		return call_failed(code, "reading", "cannot read expirations");
	for (left = watch.count; left && !ferror(stdout); ) {
		uint64_t end, now = now_ns();
		unsigned int n;
		int err;

		/* Events that are read are gone: read no more than will be printed. */
		n = left < ARRAY_SIZE(events) ? left : ARRAY_SIZE(events);
		end = watch.timeout < UINT64_MAX - now ? now + watch.timeout : UINT64_MAX;
		err = wait_events(fd, end, events, n, &n);
		if (err)
			return wait_failed(err);
		if (!n)
			return HTWCTL_OK;
		for (unsigned int i = 0; i < n; i++)
			print_event(&events[i]);
		left -= n;
	}
	return HTWCTL_OK;
}
