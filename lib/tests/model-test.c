// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw against a model, in random steps
 *
 *   model-test [-s SEED] [-n STEPS] [MODE]...
 *
 * The modes are the same steps with timers in the process (process, shards) and on the device
 * (device). TAP; a failure says which seed and step repeat it.
 */
#include "model.h"
#include "kselftest.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct model_mode modes[] = {
	{ .name = "process", .backend = HTW_BACKEND_PROCESS },
	{ .name = "shards", .backend = HTW_BACKEND_PROCESS, .shards = true },
	{ .name = "device", .backend = HTW_BACKEND_DEVICE },
};

static uint64_t seed, random_state;

uint64_t any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dULL;
}

uint64_t below(uint64_t n)
{
	return (any() >> 11) % n;
}

static bool run(const struct model_mode *mode, uint64_t steps)
{
	bool same = true;
	uint64_t step;

	random_state = seed * 0x9e3779b97f4a7c15ULL | 1;
	for (step = 0; same && step < steps; step++) {
		if (step % 20000 == 0) {
			model_close();
			same = model_open(mode);
		}
		same = same && model_step();
	}
	if (!same)
		ksft_print_msg("seed %" PRIu64 ", step %" PRIu64 "\n", seed, step - 1);
	model_close();
	return same;
}

static bool wanted(const struct model_mode *mode, int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++)
		if (!strcmp(argv[i], mode->name))
			return true;
	return !argc;
}

int main(int argc, char **argv)
{
	uint64_t steps = 20000;
	unsigned int i, plan = 0;
	int option;

	seed = 1;
	while ((option = getopt(argc, argv, "s:n:")) != -1) {
		switch (option) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			steps = strtoull(optarg, NULL, 0);
			break;
		default:
			fprintf(stderr, "usage: %s [-s SEED] [-n STEPS] [MODE]...\n", argv[0]);
			return 2;
		}
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < ARRAY_SIZE(modes); i++)
		plan += wanted(&modes[i], argc - optind, argv + optind);
	ksft_print_header();
	ksft_set_plan(plan);
	for (i = 0; i < ARRAY_SIZE(modes); i++)
		if (wanted(&modes[i], argc - optind, argv + optind))
			ksft_test_result(run(&modes[i], steps), "%s\n", modes[i].name);
	ksft_finished();
}
