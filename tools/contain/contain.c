// SPDX-License-Identifier: GPL-2.0-only
/* Run an attack beside its victims and measure what they lose; see contain.h. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/ksoftirqd.h"
#include "attackers.h"
#include "contain.h"
#include "victims.h"

/* Below the reader's priority, above the counting task's. */
#define ATTACKER_PRIORITY	40
/* More than a work item of a context takes. */
#define WORK_NS			(20 * USEC)
/* For how many wakeups of costly waiters a phase has time: they rest for 32 after each. */
#define COSTLY_WAKEUPS		64
/* The same of the time before, for the first two. */
#define COSTLY_FIRST		4

const char * const phase_names[PHASES] = {
	[PHASE_ALONE] = "alone",
	[PHASE_BESIDE] = "beside",
	[PHASE_IDLE] = "idle",
};

const struct contain_times contain_long = {
	.alone = SEC,
	.settle = SEC,
	.beside = 3 * SEC,
	.idle = SEC,
	.disarmed = 3 * SEC,
};

uint64_t contain_interrupts(void)
{
	unsigned long long value, sum = 0;
	char line[1024], name[64];
	FILE *file = fopen("/proc/interrupts", "re");

	if (!file)
		die("/proc/interrupts: %s", strerror(errno));
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " %63[^:]: %llu", name, &value) == 2)
			sum += value;
	fclose(file);
	return sum;
}

/**
 * struct share - use of the CPU during a phase
 * @counted: counts per second of the counting task
 * @attackers: the attackers' part of the time
 * @own: that of their own process
 * @interrupts: interrupts per second
 */
struct share {
	double counted;
	double attackers;
	double own;
	double interrupts;
};

static struct share count_for(struct victims *v, struct attackers *all, uint64_t ns)
{
	const uint64_t period = attackers_period(all), interrupts = contain_interrupts();
	const uint64_t begin = now_ns(), from = victims_counted(v), worked = attackers_worked(all);
	const uint64_t own = attackers_own(all);
	uint64_t took;

	if (period)
		ns = (ns + period - 1) / period * period;
	attackers_run(all, begin + ns);
	took = now_ns() - begin;
	return (struct share){
		.counted = (double)(victims_counted(v) - from) * SEC / took,
		.attackers = (double)(attackers_worked(all) - worked) / took,
		.own = (double)(attackers_own(all) - own) / took,
		.interrupts = (double)(contain_interrupts() - interrupts) * SEC / took,
	};
}

/* CPU time in per cent that neither side got, less the same with the disarmed attack. */
static double loss(const struct share *s, const struct share *disarmed, double alone)
{
	return 100 * ((disarmed->counted - s->counted) / alone +
		      (disarmed->attackers - s->attackers));
}

static uint64_t longer(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Timers that nobody reads are due once. Where they are staggered, the phase in which the counting
 * task runs lies between the first of them and the last. Where waiters cost much it
 * begins when the first wakeups are over, after which there is no rest yet, and is long enough for
 * several.
 */
static struct contain_times adapted(const struct attack *a, const struct contain_times *times)
{
	const uint64_t all = a->contexts * a->stagger_ns, wakeup = attack_wakeup_ns(a);
	struct contain_times t = *times;

	if (all) {
		t.settle = all / 4;
		t.beside = all / 2;
	}
	if (a->costly) {
		t.settle = longer(t.settle, COSTLY_FIRST * wakeup);
		t.beside = longer(t.beside, COSTLY_WAKEUPS * wakeup);
	}
	return t;
}

static void note(struct victims *v, struct contain_result *result, enum phase phase)
{
	victims_note(v, result->late[phase], &result->delays[phase]);
}

void contain_measure(const struct attack *a, const struct contain_times *usual,
		     struct contain_result *result)
{
	const struct sched_param priority = { .sched_priority = ATTACKER_PRIORITY };
	const struct sched_param none = { 0 };
	const struct contain_times times = adapted(a, usual);
	struct share beside, disarmed;
	double alone;
	struct attackers *all;
	struct victims *v;
	uint64_t begin, interrupts, expired;
	cpu_set_t set;

	*result = (struct contain_result){ 0 };
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, SCHED_FIFO, &priority))
		die("cannot take a real-time priority on CPU 0: %s", strerror(errno));
	/* Else the attackers would keep it from the CPU. */
	if (!raise_ksoftirqd(ATTACKER_PRIORITY + 1))
		die("cannot give ksoftirqd a real-time priority");
	if (chmod(HTW_DEVICE, 0666))
		die("cannot change the mode of /dev/htw: %s", strerror(errno));

	sleep_until(CONTAIN_BOOTED);
	v = victims_start();
	all = attackers_prepare(a);
	/* Let deferred work of the kernel finish. */
	sleep_until(now_ns() + SEC / 4);

	victims_count(v, true);
	victims_begin(v);
	interrupts = contain_interrupts();
	begin = now_ns();
	alone = victims_counted(v);
	sleep_until(begin + times.alone);
	alone = (victims_counted(v) - alone) * SEC / (now_ns() - begin);
	result->interrupts = (double)(contain_interrupts() - interrupts) * SEC / times.alone;
	note(v, result, PHASE_ALONE);
	victims_count(v, false);

	begin = attackers_start(all);
	sleep_until(begin);
	victims_count(v, true);
	attackers_run(all, begin + times.settle);

	victims_begin(v);
	expired = attackers_expired(all);
	beside = count_for(v, all, times.beside);
	result->expired = attackers_expired(all) - expired;
	result->beside = times.beside;
	note(v, result, PHASE_BESIDE);

	victims_count(v, false);
	victims_begin(v);
	attackers_run(all, now_ns() + times.idle);
	note(v, result, PHASE_IDLE);

	attackers_disarm(all);
	/* Let work items finish, and wakeups. */
	attackers_run(all, now_ns() + 10 * MSEC +
		      (a->users ? a->users : 1) * a->contexts * WORK_NS + 2 * attack_wakeup_ns(a));
	victims_count(v, true);
	disarmed = count_for(v, all, times.disarmed);

	result->loss = loss(&beside, &disarmed, alone);
	result->left = 100 * beside.counted / alone;
	result->own = 100 * beside.own;
	result->disarmed = 100 * disarmed.counted / alone;
	result->interrupts_beside = beside.interrupts;
	result->interrupts_disarmed = disarmed.interrupts;
	result->early = attackers_early(all);
	result->unsignalled = attackers_unsignalled(all);
	result->lost = attackers_end(all);
	victims_end(v);
	sched_setscheduler(0, SCHED_OTHER, &none);
}
