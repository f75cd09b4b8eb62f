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

#define PACERS			"/sys/kernel/debug/htw/pacers"

const char * const meddling_names[MEDDLINGS] = {
	[MEDDLE_KICKS] = "kicks",
	[MEDDLE_VECTORS] = "vectors",
};

static void allow_cpus(int first, int last)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(first, &set);
	CPU_SET(last, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity: %s", strerror(errno));
}

/* Open a context whose timers wait on the victims' CPU. */
static int open_on_victim_cpu(void)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_HOME,
		.home_cpu = VICTIM_CPU,
	};
	int fd;

	/* A home CPU must be in the affinity mask. */
	allow_cpus(VICTIM_CPU, MEDDLER_CPU);
	fd = htw_open(O_NONBLOCK);
	if (fd < 0 || ioctl(fd, HTW_SETUP, &setup))
		die("HTW_SETUP_HOME: %s", strerror(errno));
	allow_cpus(MEDDLER_CPU, MEDDLER_CPU);
	return fd;
}

static void kick(volatile uint64_t *operations)
{
	const int fd = open_on_victim_cpu();
	struct htw_add add = { .deadline = SEC };
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE | HTW_F_ABS };

	if (ioctl(fd, HTW_ADD, &add))
		die("HTW_ADD: %s", strerror(errno));
	mod.id = add.id;
	for (;;) {
		if (ioctl(fd, HTW_MOD, &mod))
			die("HTW_MOD: %s", strerror(errno));
		++*operations;
	}
}

static void move(volatile uint64_t *operations)
{
	static uint64_t ids[TIMERS], deadlines[BATCH];
	const int fd = open_on_victim_cpu();
	struct htw_vector v = {
		.op = HTW_OP_ADD,
		.deadlines = (uintptr_t)deadlines,
		.interval = MSEC,
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
		v.op = HTW_OP_MOD;
		v.flags = HTW_MOD_DEADLINE;
		v.interval = 0;
	}
}

/* Use as much of the own CPU without touching the other. */
static void spin(volatile uint64_t *unused)
{
	(void)unused;
	allow_cpus(MEDDLER_CPU, MEDDLER_CPU);
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

/* A counter of the pacer of the victims' CPU; negative if debugfs does not show it. */
static double pacer_number(const char *name)
{
	char line[1024], *at, key[64];
	unsigned long long value;
	double found = -1;
	unsigned int cpu;
	FILE *file = fopen(PACERS, "re");

	snprintf(key, sizeof(key), " %s ", name);
	while (file && fgets(line, sizeof(line), file)) {
		at = strstr(line, key);
		if (sscanf(line, "cpu %u ", &cpu) == 1 && cpu == VICTIM_CPU && at &&
		    sscanf(at + strlen(key), "%llu", &value) == 1)
			found = value;
	}
	if (file)
		fclose(file);
	return found;
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

const char *meddling_missing(void)
{
	const int fd = htw_open(O_NONBLOCK);
	struct htw_setup setup = { .flags = HTW_SETUP_HOME, .home_cpu = VICTIM_CPU };
	int ret;

	if (fd < 0)
		return "cannot open /dev/htw";
	ret = htw_set_up(fd, setup);
	close(fd);
	return ret ? "this htw has no home CPUs: timers of one CPU cannot be put on another" : NULL;
}

void contain_meddling(enum meddling how, struct meddling_result *result)
{
	static uint32_t alone[SAMPLES], beside[SAMPLES];
	const struct sched_param priority = { .sched_priority = PRIORITY }, ordinary = { 0 };
	double kicks = 0, misses = 0, begun_kicks, begun_misses;
	unsigned int alone_count = 0, beside_count = 0, round;
	volatile uint64_t *operations;
	struct victims *v;
	pid_t meddler, spinner;

	operations = mmap(NULL, sizeof(*operations), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (operations == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	if (chmod(HTW_DEVICE, 0666))
		die("cannot change the mode of /dev/htw: %s", strerror(errno));
	allow_cpus(VICTIM_CPU, VICTIM_CPU);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		die("sched_setscheduler: %s", strerror(errno));
	sleep_until(BOOTED);
	v = victims_start();
	spinner = fork_loop(spin, operations);
	kill(spinner, SIGSTOP);
	meddler = fork_loop(how == MEDDLE_KICKS ? kick : move, operations);
	while (!*operations) {
		if (waitpid(meddler, NULL, WNOHANG))
			die("the meddler has ended");
		sleep_until(now_ns() + MSEC);
	}
	for (round = 0; round < ROUNDS; round++) {
		begun_kicks = pacer_number("kicks");
		begun_misses = pacer_number("lock_misses");
		beside_count = run_round(v, meddler, beside, beside_count);
		kicks += pacer_number("kicks") - begun_kicks;
		misses += pacer_number("lock_misses") - begun_misses;
		alone_count = run_round(v, spinner, alone, alone_count);
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
		.kicks = pacer_number("kicks") < 0 ? -1 : kicks / ROUNDS * SEC / ROUND,
		.misses = misses / ROUNDS * SEC / ROUND,
	};
	munmap((void *)operations, sizeof(*operations));
}
