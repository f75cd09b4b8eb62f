// SPDX-License-Identifier: MIT
/*
 * Fuzz target: the library, in the process, against its model (lib/tests/model.c), for afl++
 * (tools/fuzz)
 *
 * The first byte of an input says whether there are shards; all that follow are the choices of
 * which steps consist. See input.h for what the arguments are.
 */
#include "../tests/model.h"
#include "input.h"

#include <stdlib.h>

static const struct model_mode modes[] = {
	{ .name = "process", .backend = HTW_BACKEND_PROCESS },
	{ .name = "shards", .backend = HTW_BACKEND_PROCESS, .shards = true },
};

static struct input choices;

uint64_t any(void)
{
	return number(&choices, 64);
}

/* As many bytes as it takes for the largest one. */
uint64_t below(uint64_t n)
{
	uint64_t value = 0, most;

	for (most = n - 1; most; most >>= 8)
		value = value << 8 | byte(&choices);
	return value % n;
}

static void run(const uint8_t *data, size_t size)
{
	bool same;

	choices = (struct input){ .data = data, .size = size };
	same = model_open(&modes[byte(&choices) % 2]);
	while (same && choices.at < choices.size)
		same = model_step();
	if (!same) {
		fflush(stdout);
		abort();
	}
	model_close();
}

int main(int argc, char **argv)
{
	return run_inputs(argc, argv);
}
