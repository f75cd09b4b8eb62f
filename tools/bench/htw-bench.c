// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw-bench - the cost of timeouts, of htw and of other systems
 *
 * Runs in a VM whose time-stamp counter counts instructions, booted by
 * tools/bench/run. Exit status: 0; 1 if a system gave a wrong result or no
 * result; 2 for wrong usage.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "measure.h"
#include "report.h"
#include "workloads.h"

/* By then the kernel has finished its boot work. */
#define BOOTED		(5 * SEC)

static const struct system * const systems[] = {
	&system_htw, &system_htw_vector, &system_htw_uring, &system_htw_uring_16,
	&system_timerfd, &system_posix, &system_io_uring,
	&system_libevent, &system_libev, &system_libuv, &system_libhtw, &system_wheel,
	&system_rte_timer, &system_htw_kernel, &system_timer_list, &system_hrtimer,
};

static const char usage[] =
"Usage: htw-bench [OPTION]...\n"
"\n"
"Measure the cost of timers, in htw and in other systems, and print a line for each\n"
"figure. Run it in a VM that counts instructions, e.g.:\n"
"\n"
"  tools/vm/run --icount --mem 3G -- htw-bench --systems htw-vector,libev --ops add,rearm\n"
"  tools/vm/run --icount --mem 3G -- htw-bench --workload burst\n"
"\n"
"  --systems LIST   systems to measure, separated by commas (default: all)\n"
"  --ops LIST       add, rearm, cancel, expire, memory, close, syscall (default: all)\n"
"  --pending LIST   numbers of pending timers (default: 1000,100000,1000000)\n"
"  --workload NAME  run a workload; may be repeated. Without --systems and --ops,\n"
"                   only workloads are run\n"
"  --attacks LIST   of --workload contain only these (../contain/attacks.c)\n"
"  --json           print each figure as a JSON object\n"
"  --list           list the systems and workloads\n"
"  --help           print this help\n"
"\n"
"Exit status: 0; 1 if a system gave a wrong result or no result; 2 for wrong usage.\n";

static void wrong(const char *what, const char *word) __attribute__((noreturn));

static void wrong(const char *what, const char *word)
{
	fprintf(stderr, "htw-bench: %s '%s'; see --help\n", what, word);
	exit(2);
}

/* Call @each for each word of a comma-separated list. */
static void each_word(char *list, void (*each)(const char *word))
{
	char *word, *save;

	for (word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save))
		each(word);
}

static const struct system *chosen[ARRAY_SIZE(systems)];
static unsigned int chosen_count;
static unsigned int ops;
static uint32_t pendings[16];
static unsigned int pending_count;
static const struct workload *workloads[16];
static unsigned int workload_count;

#define OP_SYSCALL	(1U << OPS)

static void choose_all_systems(void)
{
	for (chosen_count = 0; chosen_count < ARRAY_SIZE(systems); chosen_count++)
		chosen[chosen_count] = systems[chosen_count];
}

static void choose_system(const char *word)
{
	unsigned int i;

	if (!strcmp(word, "all")) {
		choose_all_systems();
		return;
	}
	for (i = 0; i < ARRAY_SIZE(systems); i++)
		if (!strcmp(systems[i]->name, word))
			break;
	if (i == ARRAY_SIZE(systems) || chosen_count == ARRAY_SIZE(chosen))
		wrong("unknown system, or too many:", word);
	chosen[chosen_count++] = systems[i];
}

static void choose_op(const char *word)
{
	unsigned int op;

	if (!strcmp(word, "all")) {
		ops = (OP_SYSCALL << 1) - 1;
		return;
	}
	if (!strcmp(word, "syscall")) {
		ops |= OP_SYSCALL;
		return;
	}
	for (op = 0; op < OPS; op++)
		if (!strcmp(op_names[op], word))
			break;
	if (op == OPS)
		wrong("unknown operation", word);
	ops |= 1U << op;
}

static void choose_pending(const char *word)
{
	char *end;
	unsigned long n = strtoul(word, &end, 10);

	if (*end || !n || n > 1U << 24 || pending_count == ARRAY_SIZE(pendings))
		wrong("not a number of timers, or too many numbers:", word);
	pendings[pending_count++] = n;
}

static void choose_workload(const char *word)
{
	const struct workload *w = workload_find(word);

	if (!w || workload_count == ARRAY_SIZE(workloads))
		wrong("unknown workload, or too many:", word);
	workloads[workload_count++] = w;
}

static void choose_defaults(void)
{
	if (!chosen_count)
		choose_all_systems();
	if (!ops)
		choose_op("all");
	if (!pending_count) {
		choose_pending("1000");
		choose_pending("100000");
		choose_pending("1000000");
	}
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "systems", required_argument, NULL, 's' },
		{ "ops", required_argument, NULL, 'o' },
		{ "pending", required_argument, NULL, 'p' },
		{ "workload", required_argument, NULL, 'w' },
		{ "attacks", required_argument, NULL, 'a' },
		{ "json", no_argument, NULL, 'j' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	bool json = false;
	unsigned int i, j;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			each_word(optarg, choose_system);
			break;
		case 'o':
			each_word(optarg, choose_op);
			break;
		case 'p':
			each_word(optarg, choose_pending);
			break;
		case 'w':
			choose_workload(optarg);
			break;
		case 'a':
			contain_choose(optarg);
			break;
		case 'j':
			json = true;
			break;
		case 'l':
			for (i = 0; i < ARRAY_SIZE(systems); i++)
				printf("  %s\n", systems[i]->name);
			workload_list();
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (optind < argc)
		wrong("unexpected argument", argv[optind]);
	if (!workload_count || chosen_count || ops)
		choose_defaults();
	report_init(json);
	sleep_until(BOOTED);
	if (ops & OP_SYSCALL)
		measure_syscall();
	for (i = 0; i < chosen_count; i++)
		for (j = 0; j < pending_count && ops & (OP_SYSCALL - 1); j++)
			measure(chosen[i], pendings[j], ops);
	for (i = 0; i < workload_count; i++)
		workloads[i]->run();
	return 0;
}
