// SPDX-License-Identifier: GPL-2.0-only
/*
 * Options that several subcommands have
 *
 * main() sets argp's exit status for wrong usage to HTWCTL_USAGE.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "htwctl.h"

struct htwctl_options opt = {
	.device = "/dev/htw",
	.fd = -1,
};

uint64_t parse_duration_arg(const char *what, const char *text, struct argp_state *state)
{
	uint64_t ns = 0;

	if (!parse_duration(text, &ns))
		argp_error(state, "%s: '%s' is not a duration; examples: 250us, 10ms, 1.5s, 30m, 2h",
			   what, show_text(text));
	return ns;
}

/* A duration of a limited range, so that a time plus it is one, too. */
uint64_t parse_interval_arg(const char *text, uint64_t min, uint64_t max, struct argp_state *state)
{
	const uint64_t ns = parse_duration_arg("--interval", text, state);

	if (ns < min || ns > max)
		argp_error(state, "--interval: '%s' is not from %s to %s", show_text(text),
			   show_duration(min), show_duration(max));
	return ns;
}

uint64_t parse_number_arg(const char *what, const char *text, uint64_t min, uint64_t max,
			  struct argp_state *state)
{
	uint64_t number = 0;

	if (!parse_number(text, &number) || number < min || number > max)
		argp_error(state, "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64,
			   what, show_text(text), min, max);
	return number;
}

static error_t parse_help(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != 'h')
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
	return 0;
}

/* argp has --help and -?, but what people try first is -h. */
const struct argp help_argp = {
	.options = (const struct argp_option[]){
		{ NULL, 'h', NULL, 0, "the same as --help", -1 },
		{ 0 }
	},
	.parser = parse_help,
};

static error_t parse_format(int key, char *arg, struct argp_state *state)
{
	if (key != 'f')
		return ARGP_ERR_UNKNOWN;
	opt.json = !strcmp(arg, "json");
	if (!opt.json && strcmp(arg, "text"))
		argp_error(state, "--format: '%s' is neither text nor json", show_text(arg));
	return 0;
}

const struct argp format_argp = {
	.options = (const struct argp_option[]){
		{ "format", 'f', "FORMAT", 0,
		  "text (default) or json: one document on each line; ids and times in ns are strings",
		  90 },
		{ 0 }
	},
	.parser = parse_format,
};

static error_t parse_target(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		opt.pid = parse_number_arg("--pid", arg, 1, INT32_MAX, state);
		return 0;
	case 'd':
		opt.fd = parse_number_arg("--fd", arg, 0, INT32_MAX, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp target_argp = {
	.options = (const struct argp_option[]){
		{ "pid", 'p', "PID", 0,
		  "use a descriptor of this process; needs permission to trace it", 10 },
		{ "fd", 'd', "N", 0,
		  "use this descriptor: of PID, or without --pid one inherited from the shell "
		  "(exec 3<>/dev/htw)", 10 },
		{ 0 }
	},
	.parser = parse_target,
};

static void parse_clock(const char *arg, struct argp_state *state)
{
	static const int clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

	for (unsigned int i = 0; i < ARRAY_SIZE(clocks); i++) {
		if (!strcmp(arg, show_clock(clocks[i]))) {
			opt.setup.clock = clocks[i];
			opt.setup.flags |= HTW_SETUP_CLOCK;
			return;
		}
	}
	argp_error(state, "--clock: '%s' is not monotonic, boottime or realtime",
		   show_text(arg));
}

static void parse_geometry(char *arg, struct argp_state *state)
{
	unsigned int levels = 0;
	char *slots, *save;

	for (slots = strtok_r(arg, ",", &save); slots; slots = strtok_r(NULL, ",", &save)) {
		if (levels == HTW_MAX_LEVELS)
			argp_error(state, "--geometry: more than %u levels", HTW_MAX_LEVELS);
		opt.setup.slots[levels++] = parse_number_arg("--geometry", slots, 2, 2048, state);
	}
	if (!levels)
		argp_error(state, "--geometry: no levels");
	opt.setup.levels = levels;
}

static error_t parse_setup(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'C':
		parse_clock(arg, state);
		return 0;
	case 'T':
		opt.setup.tick_ns = parse_duration_arg("--tick", arg, state);
		if (!opt.setup.tick_ns)
			argp_error(state, "--tick: must be from 10us to 1s");
		return 0;
	case 'G':
		parse_geometry(arg, state);
		return 0;
	case 'X':
		opt.setup.flags |= HTW_SETUP_EXACT;
		return 0;
	case 'O':
		opt.setup.flags |= HTW_SETUP_ORDERED;
		return 0;
	case ARGP_KEY_END:
		if (opt.setup.flags & HTW_SETUP_EXACT && opt.setup.tick_ns)
			argp_error(state, "--exact and --tick exclude each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Has any of these options been given? */
bool wants_setup(void)
{
	return opt.setup.flags || opt.setup.tick_ns || opt.setup.levels;
}

const struct argp setup_argp = {
	.options = (const struct argp_option[]){
		{ "clock", 'C', "CLOCK", 0,
		  "monotonic (default), boottime or realtime", 20 },
		{ "tick", 'T', "DURATION", 0,
		  "the tick, 10us to 1s; from 1us with CAP_SYS_RESOURCE (default: the module's)",
		  20 },
		{ "exact", 'X', NULL, 0, "the finest tick that needs no privilege, 10us", 20 },
		{ "ordered", 'O', NULL, 0,
		  "one wheel for all CPUs, so that expirations come in order", 20 },
		{ "geometry", 'G', "SLOTS,...", 0,
		  "slots of each level, finest first (default: as suits the tick)", 20 },
		{ 0 }
	},
	.parser = parse_setup,
};
