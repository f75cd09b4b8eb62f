// SPDX-License-Identifier: GPL-2.0-only
/*
 * htw-compliance - check a device against include/uapi/linux/htw.h
 *
 * Each call and each field is tried with one valid input, then with one invalid
 * input at a time. Output fields are poisoned before a call and checked after
 * it. A call that fails must not change its argument, HTW_INFO or an unrelated
 * timer. Time is that of a manual clock.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include "areas.h"
#include "subject.h"

static const struct area {
	const char *name;
	void (*check)(void);
} areas[] = {
	{ "commands", check_commands },
	{ "info", check_info },
	{ "setup", check_setup },
	{ "add", check_add },
	{ "cancel", check_cancel },
	{ "mod", check_mod },
	{ "query", check_query },
	{ "vector", check_vector },
	{ "list", check_list },
	{ "advance", check_advance },
	{ "read", check_read },
	{ "uring", check_uring },
};

static void usage(FILE *to)
{
	fprintf(to, "Usage: htw-compliance [OPTION]... [AREA]...\n"
		"Check that a device behaves as linux/htw.h documents it: all areas of the\n"
		"interface, or only those named. The report is TAP.\n\n"
		"  -d, --device PATH   the device (default " HTW_DEVICE ")\n"
		"  -l, --list          list the areas\n"
		"  -h, --help          print this help\n\n"
		"Exit status: 0 if all checks passed; 1 if one failed or the device cannot\n"
		"be opened; 2 for wrong usage.\n");
}

static const struct area *area_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(areas); i++) {
		if (!strcmp(areas[i].name, name))
			return &areas[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "list", no_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 }
	};
	const char *path = HTW_DEVICE;
	int c;

	while ((c = getopt_long(argc, argv, "d:lh", options, NULL)) != -1) {
		switch (c) {
		case 'd':
			path = optarg;
			break;
		case 'l':
			for (size_t i = 0; i < ARRAY_SIZE(areas); i++)
				puts(areas[i].name);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	for (int i = optind; i < argc; i++) {
		if (!area_of(argv[i])) {
			fprintf(stderr, "htw-compliance: unknown area %s; see --list\n",
				argv[i]);
			return 2;
		}
	}
	if (!choose_device(path))
		return 1;

	begin_checks();
	for (int i = optind; i < argc; i++)
		area_of(argv[i])->check();
	for (size_t i = 0; optind == argc && i < ARRAY_SIZE(areas); i++)
		areas[i].check();
	finish_checks();
}
