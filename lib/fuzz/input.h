/* SPDX-License-Identifier: MIT */
/*
 * Inputs of a fuzz target: where they come from, and numbers from their bytes
 *
 *	target FILE...		runs each file
 *	target -c FILE		runs each line of a file, an input in hexadecimal
 *	target			as called by afl-fuzz; without it, runs one input from stdin
 */
#ifndef INPUT_H
#define INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX	4096

struct input {
	const uint8_t *data;
	size_t size;
	size_t at;
};

/* What the target does with an input. A finding ends in abort(). */
static void run(const uint8_t *data, size_t size);

/* After the end of the input, zero. */
static inline uint8_t byte(struct input *in)
{
	return in->at < in->size ? in->data[in->at++] : 0;
}

/* A number of up to @most bits; the input says how many. */
static inline uint64_t number(struct input *in, unsigned int most)
{
	const unsigned int bits = byte(in) % (most + 1);
	uint64_t value = 0;
	unsigned int i;

	for (i = 0; i < bits; i += 8)
		value = value << 8 | byte(in);
	return bits < 64 ? value & ((1ULL << bits) - 1) : value;
}

static int run_file(const char *path)
{
	static uint8_t data[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	size_t size;

	if (!f) {
		perror(path);
		return 1;
	}
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	run(data, size);
	return 0;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Run each line of a file that is not a comment. */
static int run_lines(const char *path)
{
	static char line[2 * INPUT_MAX + 2];
	static uint8_t data[INPUT_MAX];
	FILE *f = fopen(path, "r");
	unsigned int count = 0;
	size_t n;

	if (!f) {
		perror(path);
		return 1;
	}
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#')
			continue;
		for (n = 0; digit(line[2 * n]) >= 0 && digit(line[2 * n + 1]) >= 0; n++)
			data[n] = digit(line[2 * n]) << 4 | digit(line[2 * n + 1]);
		if (line[2 * n] != '\n') {
			fprintf(stderr, "%s: not an input: %s", path, line);
			fclose(f);
			return 1;
		}
		run(data, n);
		count++;
	}
	fclose(f);
	printf("%u inputs\n", count);
	return !count;
}

#ifdef __AFL_FUZZ_TESTCASE_LEN
__AFL_FUZZ_INIT();

static int run_input(void)
{
	const uint8_t *data;

	__AFL_INIT();
	data = __AFL_FUZZ_TESTCASE_BUF;
	while (__AFL_LOOP(10000))
		run(data, __AFL_FUZZ_TESTCASE_LEN);
	return 0;
}
#else
static int run_input(void)
{
	static uint8_t data[INPUT_MAX];
	ssize_t size = read(STDIN_FILENO, data, sizeof(data));

	if (size < 0)
		return 1;
	run(data, size);
	return 0;
}
#endif

/* What main() does. */
static int run_inputs(int argc, char **argv)
{
	int i, failed = 0;

	if (argc < 2)
		return run_input();
	if (argc == 3 && !strcmp(argv[1], "-c"))
		return run_lines(argv[2]);
	for (i = 1; i < argc; i++)
		failed |= run_file(argv[i]);
	if (!failed)
		printf("%d inputs\n", argc - 1);
	return failed;
}

#endif
