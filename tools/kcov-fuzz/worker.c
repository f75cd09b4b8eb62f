// SPDX-License-Identifier: GPL-2.0-only
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/random.h"
#include "../torture/report.h"
#include "calls.h"
#include "coverage.h"
#include "program.h"

#define CORPUS_MOST	8192
/* New edges for which a program is kept, and made as short as possible. */
#define EDGES_MOST	64

static struct shared {
	struct progress progress;
	__u64 seed;
	char running[PROGRAM_TEXT];
	struct program loaded[CORPUS_MOST];
	struct program corpus[CORPUS_MOST];
} *shared;

struct progress *progress;
static int found_file, running_file;

static void load(const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	const char *wrong;
	size_t size = 0;

	if (!file)
		report_broken("%s: %s", path, strerror(errno));
	while (getline(&line, &size, file) > 0 && progress->to_load < CORPUS_MOST) {
		if (*line == '#' || *line == '\n')
			continue;
		wrong = program_parse(&shared->loaded[progress->to_load++], line);
		if (wrong)
			report_broken("the corpus has %s: %s", wrong, line);
	}
	free(line);
	fclose(file);
}

void worker_init(__u64 seed, const char *path, const char *found, const char *running)
{
	/* Touched here, so that it is not charged to the cgroup of those who use it. */
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		report_broken("mmap: %s", strerror(errno));
	progress = &shared->progress;
	/* Small seeds differ in few bits, which the generator takes some numbers to spread. */
	shared->seed = seed * 0x9e3779b97f4a7c15UL | 1;
	for (int i = 0; i < 16; i++)
		xorshift64(&shared->seed);
	load(path);
	found_file = open(found, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	running_file = open(running, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (found_file < 0 || running_file < 0)
		report_broken("%s: %s", found, strerror(errno));
}

void worker_report_program(void)
{
	/* Longer than a line of report_say() may be. */
	fprintf(stderr, "PROGRAM %s\n", shared->running);
}

static void run(const struct program *p)
{
	unsigned int before = report_violations();
	size_t length = program_print(p, shared->running);

	/* For the host, if the kernel does not survive it: hostfs writes to the file at once. */
	shared->running[length++] = '\n';
	if (pwrite(running_file, shared->running, length, 0) != (ssize_t)length)
		report_broken("the running program cannot be written: %s", strerror(errno));
	shared->running[length - 1] = '\0';

	coverage_begin();
	progress->calls += calls_run(p);
	progress->programs++;
	if (report_violations() != before)
		worker_report_program();
}

/* Leave out calls without which it reaches these edges, too. Return false if it does not now. */
static bool shorten(struct program *p, const __u32 *edges, unsigned int count)
{
	struct program shorter;

	run(p);
	count = coverage_count(edges, count);
	if (!count)
		return false;
	for (unsigned int at = p->count; at-- && p->count > 1;) {
		shorter = *p;
		program_drop(&shorter, at);
		run(&shorter);
		if (coverage_count(edges, count) == count)
			*p = shorter;
	}
	return true;
}

static void keep(const struct program *p)
{
	char text[PROGRAM_TEXT];
	size_t length = program_print(p, text);

	if (progress->corpus == CORPUS_MOST)
		report_broken("the corpus is full");
	shared->corpus[progress->corpus++] = *p;
	text[length++] = '\n';
	if (write(found_file, text, length) != (ssize_t)length)
		report_broken("the corpus cannot be written: %s", strerror(errno));
}

/* Run a program, and keep it if it reaches what no other one has. */
static void try(struct program *p, bool is_short)
{
	__u32 edges[EDGES_MOST];
	unsigned int count;

	run(p);
	count = coverage_end(edges, EDGES_MOST);
	if (!count)
		return;
	if (is_short || shorten(p, edges, count < EDGES_MOST ? count : EDGES_MOST))
		keep(p);
}

/* Half of the time one of the last: what was found last has been tried least. */
static const struct program *pick(void)
{
	unsigned int count = progress->corpus;
	__u64 number = xorshift64(&shared->seed) >> 16;

	if (number & 1 && count > 64)
		return &shared->corpus[count - 1 - (number >> 1) % 64];
	return &shared->corpus[(number >> 1) % count];
}

static void draw(struct program *p)
{
	if (!progress->corpus || one_in(&shared->seed, 16)) {
		program_draw(p, &shared->seed);
		return;
	}
	*p = *pick();
	program_mutate(p, pick(), &shared->seed);
}

void worker_run(unsigned int programs, __u64 calls, const char *stop)
{
	struct program p;

	calls_init();
	coverage_enable();
	for (unsigned int i = 0; i < programs && progress->calls < calls; i++) {
		if (i % 64 == 0 && !access(stop, F_OK))
			return;
		if (progress->loaded < progress->to_load) {
			p = shared->loaded[progress->loaded++];
			try(&p, true);
		} else {
			draw(&p);
			try(&p, false);
		}
	}
}

void worker_replay(void)
{
	calls_init();
	coverage_enable();
	for (unsigned int i = 0; i < progress->to_load; i++)
		run(&shared->loaded[i]);
}
