/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process that runs programs: those of the corpus, and mutations of them
 */
#ifndef WORKER_H
#define WORKER_H

#include <linux/types.h>
#include <stdbool.h>

/* Shared by the first process and those that run programs. */
struct progress {
	__u64 calls;
	__u64 programs;
	unsigned int loaded;	/* programs of the file that have been run */
	unsigned int to_load;
	unsigned int corpus;
};

extern struct progress *progress;

/* Read the programs of @path, and have those that are kept written to @found. */
void worker_init(__u64 seed, const char *path, const char *found, const char *running);
/* Run @programs of them, but no more than @calls calls in all, or until @stop exists. */
void worker_run(unsigned int programs, __u64 calls, const char *stop);
/* Run each program that was read once, and nothing else. */
void worker_replay(void);
/* Print the program that runs, or was the last. */
void worker_report_program(void);

#endif /* WORKER_H */
