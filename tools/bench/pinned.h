/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads that repeat a pass, each on a CPU of its own, by the wall clock. */
#ifndef BENCH_PINNED_H
#define BENCH_PINNED_H

#include <pthread.h>
#include <stdint.h>

/**
 * struct pinned - a thread
 * @cpu: where it stays
 * @warm_up: called first
 * @pass: what is measured
 * @arg: passed to both
 * @rate: out: passes per second
 * @thread: used by pinned_run()
 * @run_ns: used by pinned_run()
 */
struct pinned {
	unsigned int cpu;
	void (*warm_up)(void *arg);
	void (*pass)(void *arg);
	void *arg;
	double rate;
	pthread_t thread;
	uint64_t run_ns;
};

/*
 * Let @count threads work at the same time, once all of them are warm, each
 * for @run_ns. Return their passes per second together.
 */
double pinned_run(struct pinned *threads, unsigned int count, uint64_t run_ns);

/* Work on registers that shares nothing with anybody. Return a value that depends on it. */
uint64_t pinned_steps(uint64_t value, uint32_t steps);

#endif /* BENCH_PINNED_H */
