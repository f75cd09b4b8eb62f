// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw-torture: use /dev/htw in every way at once, and account for every timer
 *
 * Usage: htw-torture --seconds N --seed S [OPTION]...
 *
 * It runs rounds of a few seconds. What a round does follows from the seed and the round's number,
 * as far as the scheduler lets it. The last line is "N passed, N failed", in rounds. Exit status: 1
 * if a round failed, 3 if the machine or this program is at fault.
 *
 *	--seconds N	until so many seconds have gone; default 60
 *	--seed S	default 1
 *	--round R	only this round, for as long as --seconds says
 *	--rounds N	no more than so many
 *	--stop		end after a round that fails
 *	--stalled N	seconds without an event until one counts as lost; default 60
 *	--module FILE	unload htw and load FILE after each round: it must leave nothing behind
 *	--delays FILE	load FILE, htw_delay.ko, in every other round
 *	--callouts FILE	load and unload FILE, htw_sample.ko, in every third round
 *	--no-hotplug	do not switch CPUs off and on
 *	--no-clock-set	do not set the clock
 *	--verbose	print each round's contexts
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/random.h"
#include "account.h"
#include "context.h"
#include "machine.h"
#include "memory.h"
#include "modules.h"
#include "report.h"
#include "round.h"
#include "worker.h"

#define ACCOUNTS	30000

struct options {
	__u64 seconds;
	__u64 seed;
	long round;
	long rounds;
	__u64 stalled;
	const char *module;
	const char *delays;
	const char *callouts;
	bool hotplug;
	bool set_clock;
	bool stop;
	bool verbose;
};

static __u64 number(const char *text, const char *what)
{
	char *end;
	__u64 n = strtoull(text, &end, 0);

	if (end == text || *end) {
		fprintf(stderr, "htw-torture: %s: not a number: %s\n", what, text);
		exit(2);
	}
	return n;
}

static struct options parse(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'S' },
		{ "round", required_argument, NULL, 'r' },
		{ "rounds", required_argument, NULL, 'R' },
		{ "module", required_argument, NULL, 'm' },
		{ "delays", required_argument, NULL, 'd' },
		{ "callouts", required_argument, NULL, 'c' },
		{ "no-hotplug", no_argument, NULL, 'H' },
		{ "no-clock-set", no_argument, NULL, 'C' },
		{ "stalled", required_argument, NULL, 'w' },
		{ "stop", no_argument, NULL, 't' },
		{ "verbose", no_argument, NULL, 'v' },
		{ NULL, 0, NULL, 0 },
	};
	struct options o = {
		.seconds = 60, .stalled = 60, .seed = 1, .round = -1, .rounds = -1, .hotplug = true,
		.set_clock = true,
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 's':
			o.seconds = number(optarg, "--seconds");
			break;
		case 'S':
			o.seed = number(optarg, "--seed");
			break;
		case 'r':
			o.round = number(optarg, "--round");
			break;
		case 'R':
			o.rounds = number(optarg, "--rounds");
			break;
		case 'm':
			o.module = optarg;
			break;
		case 'd':
			o.delays = optarg;
			break;
		case 'c':
			o.callouts = optarg;
			break;
		case 'H':
			o.hotplug = false;
			break;
		case 'C':
			o.set_clock = false;
			break;
		case 'w':
			o.stalled = number(optarg, "--stalled");
			break;
		case 't':
			o.stop = true;
			break;
		case 'v':
			o.verbose = true;
			break;
		default:
			exit(2);
		}
	}
	if (optind != argc) {
		fprintf(stderr, "htw-torture: what is %s?\n", argv[optind]);
		exit(2);
	}
	return o;
}

/* A seed for each round; never zero. */
static __u64 round_seed(__u64 seed, long round)
{
	__u64 state = (seed + 1) * 0x9e3779b97f4a7c15ULL ^ (round + 1) * 0xbf58476d1ce4e5b9ULL;

	state |= !state;
	for (int i = 0; i < 8; i++)
		xorshift64(&state);
	return state;
}

/* The module's parameters: mostly the default, else other ticks. */
static const char *choose_parameters(__u64 *random)
{
	static const char * const parameters[] = {
		"", "", "", "tick_us=100", "tick_us=4000", "tick_us=250",
	};

	return parameters[xorshift64(random) % (sizeof(parameters) / sizeof(*parameters))];
}

/* Some rounds are short: what goes wrong as all begin, or as all end, can do so once in each. */
static __u64 choose_duration(__u64 *random)
{
	__u64 n = xorshift64(random);

	return n % 3 ? (2 + n / 3 % 6) * SEC : (50 + n / 3 % 250) * MSEC;
}

/* The round's processes, in their own cgroup. */
static void run_processes(const struct round_options *options)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		report_broken("fork: %s", strerror(errno));
	if (!pid) {
		memory_join();
		round_run(options);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		report_broken("waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		exit(3);
	if (status)
		report_violation("the round's process ended with status %#x", status);
}

/* Callouts start and run while their module is unloaded. */
static void run_callouts(const char *path)
{
	module_load(path, "sessions=5000 timeout_ms=20");
	sleep_until(now_ns() + 50 * MSEC);
	module_unload("htw_sample");
}

/* All is closed: nothing may be left of the round. */
static void clean_up(const struct options *o, bool delays)
{
	memory_check_users();
	if (delays)
		module_unload("htw_delay");
	if (o->module)
		module_unload("htw");
	memory_end(o->module);
}

static bool run_round(const struct options *o, long round)
{
	__u64 random = round_seed(o->seed, round), start = now_ns();
	const bool delays = o->delays && round % 2;
	struct round_options options = {
		.hotplug = o->hotplug && machine_cpus() > 1 && machine_can_hotplug(),
		.set_clock = o->set_clock,
		.verbose = o->verbose,
		.uring = true,
		.stalled = o->stalled * SEC,
	};
	const char *parameters = choose_parameters(&random);
	char text[64];

	options.ns = choose_duration(&random);
	if (o->round >= 0 && options.ns < o->seconds * SEC)
		options.ns = o->seconds * SEC;
	report_new_round();
	account_new_round();
	memset(worker_counts, 0, sizeof(*worker_counts));
	memset(round_counts, 0, sizeof(*round_counts));
	if (!memory_begin())
		report_broken("no memory cgroups: %s", strerror(errno));
	if (o->module) {
		if (module_is_loaded("htw"))
			module_unload("htw");
		module_load(o->module, parameters);
		if (chmod(HTW_DEVICE, 0666))
			report_broken("%s: %s", HTW_DEVICE, strerror(errno));
	}
	if (delays) {
		snprintf(text, sizeof(text), "seed=%llu",
			 1 + xorshift64(&random) % 1000000);
		module_load(o->delays, text);
	}
	options.seed = xorshift64(&random);
	if (o->callouts && round % 3 == 0)
		run_callouts(o->callouts);
	run_processes(&options);
	/* What is broken may not unload. */
	if (!report_violations() || !o->stop)
		clean_up(o, delays);
	report_say("round %ld of seed %llu: %llu s, %u contexts, %llu adds, %llu mods, %llu cancels, %llu harvested, %llu events, CPUs off and on %u, clock set %u, killed %u%s%s%s: %s",
		   round, o->seed, (now_ns() - start) / SEC, round_counts->contexts,
		   worker_counts->adds, worker_counts->mods, worker_counts->cancels,
		   worker_counts->harvested, round_counts->events,
		   round_counts->hotplugs, round_counts->clock_sets, round_counts->killed,
		   delays ? ", delays" : "", *parameters && o->module ? ", " : "",
		   o->module ? parameters : "", report_violations() ? "FAILED" : "passed");
	return !report_violations();
}

int main(int argc, char **argv)
{
	const struct options o = parse(argc, argv);
	unsigned int passed = 0, failed = 0;
	const __u64 end = now_ns() + o.seconds * SEC;
	long round = o.round >= 0 ? o.round : 0;

	if (!report_init() || !account_init(ACCOUNTS) || !context_init() || !worker_init() ||
	    !round_init())
		report_broken("no memory");
	if (!o.module && chmod(HTW_DEVICE, 0666))
		report_broken("%s: %s", HTW_DEVICE, strerror(errno));
	do {
		if (run_round(&o, round++))
			passed++;
		else
			failed++;
	} while (o.round < 0 && now_ns() < end && round != o.rounds && !(failed && o.stop));
	/* As it was found. */
	if (o.module && !module_is_loaded("htw"))
		module_load(o.module, "");
	if (failed)
		report_say("again: htw-torture --seed %llu --round N with the number of a round that failed",
			   o.seed);
	report_say("%u passed, %u failed", passed, failed);
	return failed ? 1 : 0;
}
