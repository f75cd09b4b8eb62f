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
/*
 * More than a work item of a context takes, and waking one entry of a poll(), twice and with the
 * wait for the user's share.
 */
#define WORK_NS			(20 * USEC)
#define WAKE_NS			1200ULL
/* By then the kernel has finished its boot work. */
#define BOOTED			(6 * SEC)

const char * const phase_names[PHASES] = {
	[PHASE_ALONE] = "alone",
	[PHASE_BURST] = "burst",
	[PHASE_SUSTAINED] = "sustained",
	[PHASE_IDLE] = "idle",
};

const struct contain_times contain_long = {
	.alone = SEC,
	.burst = SEC / 2,
	.settle = 2 * SEC,
	.sustained = 3 * SEC,
	.idle = SEC,
	.disarmed = 3 * SEC,
};

/**
 * struct share - use of the CPU during a phase
 * @counted: counts per second of the counting task
 * @attackers: the attackers' part of the time
 */
struct share {
	double counted;
	double attackers;
};

static struct share count_for(struct victims *v, struct attackers *all, uint64_t ns)
{
	const uint64_t period = attackers_period(all);
	const uint64_t begin = now_ns(), from = victims_counted(v), worked = attackers_worked(all);
	uint64_t took;

	if (period)
		ns = (ns + period - 1) / period * period;
	attackers_run(all, begin + ns);
	took = now_ns() - begin;
	return (struct share){
		.counted = (double)(victims_counted(v) - from) * SEC / took,
		.attackers = (double)(attackers_worked(all) - worked) / took,
	};
}

/* CPU time in per cent that neither side got, less the same with the disarmed attack. */
static double loss(const struct share *s, const struct share *disarmed, double alone)
{
	return 100 * ((disarmed->counted - s->counted) / alone +
		      (disarmed->attackers - s->attackers));
}

static void note(struct victims *v, struct contain_result *result, enum phase phase)
{
	victims_note(v, result->late[phase], &result->delays[phase]);
}

void contain_measure(const struct attack *a, const struct contain_times *times,
		     struct contain_result *result)
{
	const struct sched_param priority = { .sched_priority = ATTACKER_PRIORITY };
	const struct sched_param none = { 0 };
	struct share burst, sustained, disarmed;
	double alone;
	struct attackers *all;
	struct victims *v;
	uint64_t begin, expired;
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

	sleep_until(BOOTED);
	v = victims_start();
	all = attackers_prepare(a);
	result->callouts = victims_have_callouts();
	/* Let deferred work of the kernel finish. */
	sleep_until(now_ns() + SEC / 4);

	victims_count(v, true);
	victims_begin(v);
	begin = now_ns();
	alone = victims_counted(v);
	sleep_until(begin + times->alone);
	alone = (victims_counted(v) - alone) * SEC / (now_ns() - begin);
	note(v, result, PHASE_ALONE);
	victims_count(v, false);

	begin = attackers_start(all);
	result->readers = attackers_readers(all);
	sleep_until(begin);
	victims_count(v, true);
	victims_begin(v);
	burst = count_for(v, all, times->burst);
	note(v, result, PHASE_BURST);

	attackers_run(all, begin + times->settle);

	victims_begin(v);
	expired = attackers_expired(all);
	sustained = count_for(v, all, times->sustained);
	result->expired = attackers_expired(all) - expired;
	note(v, result, PHASE_SUSTAINED);

	victims_count(v, false);
	victims_begin(v);
	attackers_run(all, now_ns() + times->idle);
	note(v, result, PHASE_IDLE);

	attackers_disarm(all);
	/* Let work items finish, and walks of waiters. */
	attackers_run(all, now_ns() + 10 * MSEC + a->contexts * WORK_NS +
		      a->waiting.entries * a->waiting.tasks * a->waiting.polls * WAKE_NS);
	victims_count(v, true);
	disarmed = count_for(v, all, times->disarmed);

	result->loss[PHASE_BURST] = loss(&burst, &disarmed, alone);
	result->loss[PHASE_SUSTAINED] = loss(&sustained, &disarmed, alone);
	result->left[PHASE_BURST] = 100 * burst.counted / alone;
	result->left[PHASE_SUSTAINED] = 100 * sustained.counted / alone;
	result->disarmed = 100 * disarmed.counted / alone;
	result->early = attackers_early(all);
	result->unsignalled = attackers_unsignalled(all);
	result->lost = attackers_end(all);
	victims_end(v);
	sched_setscheduler(0, SCHED_OTHER, &none);
}
