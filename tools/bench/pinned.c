// SPDX-License-Identifier: GPL-2.0-only
/* Threads that repeat a pass; see pinned.h. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include "bench.h"
#include "pinned.h"
#include "report.h"

static pthread_barrier_t barrier;

static void *work(void *arg)
{
	struct pinned *p = arg;
	uint64_t begin, took;
	uint32_t passes = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(p->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("threads: sched_setaffinity: %s", strerror(errno));
	p->warm_up(p->arg);
	pthread_barrier_wait(&barrier);
	begin = now_ns();
	do {
		p->pass(p->arg);
		passes++;
		took = now_ns() - begin;
	} while (took < p->run_ns);
	p->rate = passes * 1e9 / took;
	return NULL;
}

double pinned_run(struct pinned *threads, unsigned int count, uint64_t run_ns)
{
	double rate = 0;
	unsigned int i;

	if (pthread_barrier_init(&barrier, NULL, count))
		die("threads: cannot create a barrier");
	for (i = 0; i < count; i++) {
		threads[i].run_ns = run_ns;
		if (pthread_create(&threads[i].thread, NULL, work, &threads[i]))
			die("threads: cannot start a thread");
	}
	for (i = 0; i < count; i++) {
		pthread_join(threads[i].thread, NULL);
		rate += threads[i].rate;
	}
	pthread_barrier_destroy(&barrier);
	return rate;
}

uint64_t pinned_steps(uint64_t value, uint32_t steps)
{
	for (; steps; steps--)
		value = value * 6364136223846793005ULL + 1442695040888963407ULL;
	return value;
}
