// SPDX-License-Identifier: MIT
/*
 * A thread that runs jobs at their times, on a condition variable
 *
 * The wheel has no lock, so the mutex guards it. A job is taken out under the mutex
 * and runs without, so it may start and stop others, and itself.
 *
 *	cc -pthread thread.c htw_wheel.c -o thread
 */
#include "htw_wheel.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define TICK_NS	1000000ULL	/* a tick is 1 ms */
#define JOBS	5
#define LATEST_NS	(INT32_MAX * 1000000000ULL)

struct job {
	void (*run)(struct job *job);
	struct htw_node node;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t earlier;		/* there is work earlier, or @end is set */
static struct htw_wheel wheel;		/* under the mutex, as all nodes in it */
static bool end;			/* run what is pending, then end */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void job_start(struct job *job, uint64_t delay_ns)
{
	pthread_mutex_lock(&mutex);
	if (htw_wheel_restart(&wheel, &job->node,
			      htw_tick_up(htw_time_after(now_ns(), delay_ns), TICK_NS)))
		pthread_cond_signal(&earlier);
	pthread_mutex_unlock(&mutex);
}

/* Return: true if it was pending; false if it has run, or runs now. */
static bool job_stop(struct job *job)
{
	bool pending;

	pthread_mutex_lock(&mutex);
	pending = htw_node_pending(&job->node);
	if (pending)
		htw_wheel_stop(&wheel, &job->node);
	pthread_mutex_unlock(&mutex);
	return pending;
}

/* Wait for the wheel's next tick with work, or until that has become earlier. */
static void wait_for_work(void)
{
	uint64_t ns = htw_tick_time(htw_wheel_next(&wheel), TICK_NS);
	struct timespec at;

	if (ns == HTW_NEVER) {
		pthread_cond_wait(&earlier, &mutex);
		return;
	}
	if (ns > LATEST_NS)
		ns = LATEST_NS;		/* a time_t may have 32 bits */
	at.tv_sec = (time_t)(ns / 1000000000);
	at.tv_nsec = (long)(ns % 1000000000);
	pthread_cond_timedwait(&earlier, &mutex, &at);
}

static void *run_jobs(void *arg)
{
	pthread_mutex_lock(&mutex);
	while (!end || htw_wheel_next(&wheel) != HTW_NEVER) {
		unsigned int budget = 64;
		struct htw_node *n;

		while ((n = htw_wheel_expire(&wheel, now_ns() / TICK_NS, &budget))) {
			struct job *job = HTW_CONTAINER_OF(n, struct job, node);

			pthread_mutex_unlock(&mutex);
			job->run(job);
			pthread_mutex_lock(&mutex);
		}
		if (budget) {
			if (!end || htw_wheel_next(&wheel) != HTW_NEVER)
				wait_for_work();
			continue;
		}
		/* There may be more: others get the mutex before that. */
		pthread_mutex_unlock(&mutex);
		sched_yield();
		pthread_mutex_lock(&mutex);
	}
	pthread_mutex_unlock(&mutex);
	return arg;
}

static struct job jobs[JOBS];

static void say(struct job *job)
{
	printf("job %d\n", (int)(job - jobs));
}

int main(void)
{
	static const int order[JOBS] = { 3, 1, 4, 0, 2 };
	pthread_condattr_t monotonic;
	pthread_t thread;
	uint64_t begin = now_ns();

	/* The clock of now_ns(): by another one, waits would end too early, again and again. */
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&earlier, &monotonic);

	htw_wheel_init(&wheel, begin / TICK_NS);
	for (int i = 0; i < JOBS; i++)
		jobs[i].run = say;

	/* Before the thread, so that what is printed depends on their ticks alone. */
	for (int i = 0; i < JOBS; i++)
		job_start(&jobs[order[i]], (uint64_t)(50 + 20 * order[i]) * TICK_NS);
	if (job_stop(&jobs[1]))
		printf("job 1 stopped\n");
	if (pthread_create(&thread, NULL, run_jobs, NULL))
		return 1;

	pthread_mutex_lock(&mutex);
	end = true;
	pthread_cond_signal(&earlier);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
	return now_ns() - begin < (50 + 20 * 4) * TICK_NS;
}
