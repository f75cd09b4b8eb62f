// SPDX-License-Identifier: GPL-2.0-only
/* Runs an attack beside its victims, and measures what they lose; see contain.h. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include "../common/clock.h"
#include "attackers.h"
#include "contain.h"
#include "victims.h"

/* Below the reader's, above all that counts. */
#define ATTACKER_PRIORITY	40
/* The kernel's own start-up work is over then. */
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
	.idle = 3 * SEC,
	.disarmed = 3 * SEC,
};

/* Counts of the counting task in a second. */
static double count_for(struct victims *v, struct attackers *all, uint64_t ns)
{
	const uint64_t begin = now_ns(), from = victims_counted(v);

	attackers_run(all, begin + ns);
	return (victims_counted(v) - from) * (double)SEC / (now_ns() - begin);
}

void contain_measure(const struct attack *a, const struct contain_times *times,
		     struct contain_result *result)
{
	const struct sched_param priority = { .sched_priority = ATTACKER_PRIORITY };
	const struct sched_param none = { 0 };
	double alone, disarmed, rate[PHASES] = { 0 };
	struct attackers *all;
	struct victims *v;
	uint64_t begin, expired;
	cpu_set_t set;

	*result = (struct contain_result){ 0 };
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, SCHED_FIFO, &priority))
		die("cannot take a real-time priority on CPU 0: %s", strerror(errno));
	if (chmod("/dev/htw", 0666))
		die("cannot change the mode of /dev/htw: %s", strerror(errno));

	sleep_until(BOOTED);
	v = victims_start();
	all = attackers_prepare(a);

	victims_count(v, true);
	victims_begin(v);
	begin = now_ns();
	alone = victims_counted(v);
	sleep_until(begin + times->alone);
	alone = (victims_counted(v) - alone) * SEC / (now_ns() - begin);
	victims_note(v, result->late[PHASE_ALONE]);
	victims_count(v, false);

	begin = attackers_start(all);
	sleep_until(begin);
	victims_count(v, true);
	victims_begin(v);
	rate[PHASE_BURST] = count_for(v, all, times->burst);
	victims_note(v, result->late[PHASE_BURST]);

	attackers_run(all, begin + times->settle);

	victims_begin(v);
	expired = attackers_expired(all);
	rate[PHASE_SUSTAINED] = count_for(v, all, times->sustained);
	result->expired = attackers_expired(all) - expired;
	victims_note(v, result->late[PHASE_SUSTAINED]);

	victims_count(v, false);
	victims_begin(v);
	attackers_run(all, now_ns() + times->idle);
	victims_note(v, result->late[PHASE_IDLE]);

	attackers_disarm(all);
	attackers_run(all, now_ns() + 10 * MSEC);
	victims_count(v, true);
	disarmed = count_for(v, all, times->disarmed);

	result->loss[PHASE_BURST] = 100 - 100 * rate[PHASE_BURST] / disarmed;
	result->loss[PHASE_SUSTAINED] = 100 - 100 * rate[PHASE_SUSTAINED] / disarmed;
	result->disarmed = 100 * disarmed / alone;
	result->early = attackers_early(all);
	result->lost = attackers_end(all);
	victims_end(v);
	sched_setscheduler(0, SCHED_OTHER, &none);
}
