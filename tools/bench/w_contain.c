// SPDX-License-Identifier: GPL-2.0-only
/*
 * Containment: what users who want as much as they can get take from an ordinary
 * task, and by how much they make the timers of others late
 *
 * The attacks and how they are measured: ../contain/contain.h.
 */
#include <stdio.h>
#include <sys/sysinfo.h>
#include "../contain/contain.h"
#include "bench.h"
#include "report.h"
#include "workloads.h"

#define SYSTEM	"htw-contain"

static void report_of(const struct attack *a, const char *what, double value, const char *unit)
{
	const unsigned int users = a->users ? a->users : 1;
	char op[80];

	snprintf(op, sizeof(op), "%s-%s", a->name, what);
	report(SYSTEM, op, users * a->contexts * a->timers, value, unit);
}

/* Of victims to whom something is promised, with a task that hogs the CPU and without. */
static uint64_t latest(const struct attack *a, const struct contain_result *r, bool read)
{
	uint64_t most = 0, late;
	unsigned int phase, who;

	for (phase = PHASE_BURST; phase < PHASES; phase++)
		for (who = 0; who < VICTIM_CALLOUT; who++) {
			if (a->exempt & 1 << who)
				continue;
			late = read ? r->late[phase][who].read : r->late[phase][who].fired;
			if (late > most)
				most = late;
		}
	return most;
}

static uint64_t latest_callout(const struct contain_result *r)
{
	uint64_t most = 0;
	unsigned int phase;

	for (phase = PHASE_BURST; phase < PHASES; phase++)
		if (r->late[phase][VICTIM_CALLOUT].fired > most)
			most = r->late[phase][VICTIM_CALLOUT].fired;
	return most;
}

/* What must never be: early, lost, told twice. */
static uint64_t broken(const struct contain_result *r)
{
	uint64_t sum = r->early + (r->lost ? 1 : 0);
	unsigned int phase, who;

	for (phase = 0; phase < PHASES; phase++)
		for (who = 0; who < VICTIMS; who++)
			sum += r->late[phase][who].early + r->late[phase][who].wrong;
	return sum;
}

static void attack(const struct attack *a)
{
	struct contain_result r;

	progress("%s", a->what);
	contain_measure(a, &contain_long, &r);
	report_of(a, "loss-burst", r.loss[PHASE_BURST], "%");
	report_of(a, "loss", r.loss[PHASE_SUSTAINED], "%");
	report_of(a, "late", latest(a, &r, false), "ns");
	report_of(a, "late-read", latest(a, &r, true), "ns");
	report_of(a, "late-callout", latest_callout(&r), "ns");
	report_of(a, "broken", broken(&r), "count");
}

void workload_contain(void)
{
	unsigned int i;

	for (i = 0; i < attack_count; i++)
		attack(&attacks[i]);
}

static void meddle(enum meddling how)
{
	struct meddling_result r;
	char op[80];

	progress("from another CPU: %s", meddling_names[how]);
	contain_meddling(how, &r);
	snprintf(op, sizeof(op), "meddling-%s-alone-p99.9", meddling_names[how]);
	report(SYSTEM, op, 0, r.alone, "ns");
	snprintf(op, sizeof(op), "meddling-%s-beside-p99.9", meddling_names[how]);
	report(SYSTEM, op, 0, r.beside, "ns");
	snprintf(op, sizeof(op), "meddling-%s-operations", meddling_names[how]);
	report(SYSTEM, op, 0, r.operations, "1/s");
	snprintf(op, sizeof(op), "meddling-%s-kicks", meddling_names[how]);
	if (r.kicks < 0) {
		report_missing(SYSTEM, op, 0, "debugfs does not tell of them");
		return;
	}
	report(SYSTEM, op, 0, r.kicks, "1/s");
	snprintf(op, sizeof(op), "meddling-%s-lock-misses", meddling_names[how]);
	report(SYSTEM, op, 0, r.misses, "1/s");
}

void workload_meddling(void)
{
	unsigned int how;

	for (how = 0; how < MEDDLINGS; how++) {
		if (get_nprocs() < 2)
			report_missing(SYSTEM, meddling_names[how], 0, "there is but one CPU");
		else
			meddle(how);
	}
}
