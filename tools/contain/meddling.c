// SPDX-License-Identifier: GPL-2.0-only
/* An attacker on one CPU and its victims on another; see contain.h. */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "contain.h"
#include "victims.h"

#define VICTIM_CPU		0
#define MEDDLER_CPU		1
#define MEDDLER_UID		29000U
#define TIMERS			50000U
#define BATCH			4096U

/* Rounds of each kind, taken in turn. */
#define ROUNDS			20U
#define ROUND			(SEC / 2)
#define SAMPLES			16384U

/* Below the priority of the victims' reader. */
#define PRIORITY		40

/* By then the kernel has finished its boot work. */
#define BOOTED			(10 * SEC)

const char * const meddling_names[MEDDLINGS] = {
	[MEDDLE_NOW] = "now",
	[MEDDLE_LATER] = "later",
	[MEDDLE_VECTORS] = "vectors",
};

static void stay_on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity: %s", strerror(errno));
}

/* Start timers on the victims' CPU, so that they are in its base; then leave it. */
static int start_there(uint64_t *ids, unsigned int count, uint64_t interval)
{
	static uint64_t deadlines[BATCH];
	struct htw_vector_args v = {
		.op = HTW_OP_ADD,
		.deadlines = (uintptr_t)deadlines,
		.interval = interval,
	};
	unsigned int first, i;
	int fd;

	stay_on_cpu(VICTIM_CPU);
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		die("cannot open /dev/htw: %s", strerror(errno));
	for (i = 0; i < BATCH; i++)
		deadlines[i] = MSEC;
	for (first = 0; first < count; first += v.done) {
		v.count = count - first < BATCH ? count - first : BATCH;
		v.ids = (uintptr_t)(ids + first);
		if (ioctl(fd, HTW_VECTOR, &v) || v.failed || !v.done)
			die("HTW_VECTOR: %s", strerror(errno));
	}
	stay_on_cpu(MEDDLER_CPU);
	return fd;
}

/* Move one timer to @ns from now, again and again. */
static void move_one(volatile uint64_t *operations, uint64_t ns)
{
	uint64_t id;
	const int fd = start_there(&id, 1, 0);
	struct htw_mod_args mod = { .id = id, .deadline = ns, .flags = HTW_MOD_DEADLINE };

	for (;;) {
		if (ioctl(fd, HTW_MOD, &mod))
			die("HTW_MOD: %s", strerror(errno));
		++*operations;
	}
}

static void move_to_now(volatile uint64_t *operations)
{
	move_one(operations, 0);
}

static void move_later(volatile uint64_t *operations)
{
	move_one(operations, 10 * MSEC);
}

static void move_vectors(volatile uint64_t *operations)
{
	static uint64_t ids[TIMERS], deadlines[BATCH];
	const int fd = start_there(ids, TIMERS, MSEC);
	struct htw_vector_args v = {
		.op = HTW_OP_MOD,
		.deadlines = (uintptr_t)deadlines,
		.flags = HTW_MOD_DEADLINE,
	};
	uint32_t first, i;

	for (i = 0; i < BATCH; i++)
		deadlines[i] = MSEC;
	for (;;) {
		for (first = 0; first < TIMERS; first += v.done) {
			v.count = TIMERS - first < BATCH ? TIMERS - first : BATCH;
			v.ids = (uintptr_t)(ids + first);
			if (ioctl(fd, HTW_VECTOR, &v) || v.failed || !v.done)
				die("HTW_VECTOR: %s", strerror(errno));
			*operations += v.done;
		}
	}
}

/* Use as much of the own CPU without touching the other. */
static void spin(volatile uint64_t *unused)
{
	(void)unused;
	stay_on_cpu(MEDDLER_CPU);
	for (;;)
		;
}

static pid_t fork_loop(void (*run)(volatile uint64_t *operations), volatile uint64_t *operations)
{
	const struct sched_param ordinary = { 0 };
	const pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_OTHER, &ordinary) ||
	    setresuid(MEDDLER_UID, MEDDLER_UID, MEDDLER_UID))
		die("cannot become an ordinary user: %s", strerror(errno));
	run(operations);
	_exit(1);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static uint64_t percentile_99_9(uint32_t *ns, unsigned int count)
{
	if (!count)
		die("no timer of the victims expired");
	qsort(ns, count, sizeof(*ns), compare);
	return ns[(uint64_t)(count - 1) * 999 / 1000];
}

/* One round beside a process; append the victims' lateness to @ns. */
static unsigned int run_round(struct victims *v, pid_t beside, uint32_t *ns, unsigned int count)
{
	kill(beside, SIGCONT);
	victims_begin(v);
	sleep_until(now_ns() + ROUND);
	count += victims_samples(v, ns + count, SAMPLES - count);
	kill(beside, SIGSTOP);
	/* Let deferred work finish there. */
	sleep_until(now_ns() + ROUND / 5);
	return count;
}

void contain_meddling(enum meddling how, struct meddling_result *result)
{
	static void (* const loops[])(volatile uint64_t *operations) = {
		[MEDDLE_NOW] = move_to_now,
		[MEDDLE_LATER] = move_later,
		[MEDDLE_VECTORS] = move_vectors,
	};
	static uint32_t alone[SAMPLES], beside[SAMPLES];
	const struct sched_param priority = { .sched_priority = PRIORITY }, ordinary = { 0 };
	unsigned int alone_count = 0, beside_count = 0, round;
	volatile uint64_t *operations;
	struct victims *v;
	pid_t meddler, spinner;
	uint64_t before;
	int64_t more = 0;

	operations = mmap(NULL, sizeof(*operations), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (operations == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	if (chmod(HTW_DEVICE, 0666))
		die("cannot change the mode of /dev/htw: %s", strerror(errno));
	stay_on_cpu(VICTIM_CPU);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		die("sched_setscheduler: %s", strerror(errno));
	sleep_until(BOOTED);
	v = victims_start();
	spinner = fork_loop(spin, operations);
	kill(spinner, SIGSTOP);
	meddler = fork_loop(loops[how], operations);
	while (!*operations) {
		if (waitpid(meddler, NULL, WNOHANG))
			die("the meddler has ended");
		sleep_until(now_ns() + MSEC);
	}
	for (round = 0; round < ROUNDS; round++) {
		before = contain_interrupts();
		beside_count = run_round(v, meddler, beside, beside_count);
		more += contain_interrupts() - before;
		before = contain_interrupts();
		alone_count = run_round(v, spinner, alone, alone_count);
		more -= contain_interrupts() - before;
	}
	if (waitpid(meddler, NULL, WNOHANG) || waitpid(spinner, NULL, WNOHANG))
		die("the meddler has ended");
	kill(meddler, SIGKILL);
	kill(spinner, SIGKILL);
	waitpid(meddler, NULL, 0);
	waitpid(spinner, NULL, 0);
	victims_end(v);
	sched_setscheduler(0, SCHED_OTHER, &ordinary);
	*result = (struct meddling_result) {
		.alone = percentile_99_9(alone, alone_count),
		.beside = percentile_99_9(beside, beside_count),
		.count = alone_count < beside_count ? alone_count : beside_count,
		.operations = (double)*operations / ROUNDS * SEC / ROUND,
		.interrupts = (double)more / ROUNDS * SEC / ROUND,
	};
	munmap((void *)operations, sizeof(*operations));
}
