// SPDX-License-Identifier: GPL-2.0-only
/*
 * Containment: what an ordinary task loses to users who take as much as they
 * can get, and how late the timers of others are
 *
 * The attacks and the measurement: ../contain/contain.h.
 */
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include "../contain/contain.h"
#include "bench.h"
#include "report.h"
#include "workloads.h"

#define SYSTEM	"htw-contain"
/* In per cent of the CPU. */
#define UNFAIR	2

static uint32_t timers_of(const struct attack *a)
{
	return (a->users ? a->users : 1) * a->contexts * a->timers;
}

static void report_of(const struct attack *a, const char *what, double value, const char *unit)
{
	char op[80];

	snprintf(op, sizeof(op), "%s-%s", a->name, what);
	report(SYSTEM, op, timers_of(a), value, unit);
}

/*
 * The latest timer of the victims, but for modules, those that are exempt, and those that are told
 * by SIGIO.
 */
static uint64_t latest(const struct attack *a, const struct contain_result *r)
{
	const unsigned int apart = a->exempt | 1 << VICTIM_CALLOUT | 1 << VICTIM_SIGNAL;
	uint64_t most = 0;
	unsigned int phase, victim;

	for (phase = PHASE_BESIDE; phase < PHASES; phase++)
		for (victim = 0; victim < VICTIMS; victim++)
			if (!(apart & 1 << victim) && r->late[phase][victim].late > most)
				most = r->late[phase][victim].late;
	return most;
}

static uint64_t latest_of(const struct contain_result *r, enum victim victim)
{
	uint64_t most = 0;
	unsigned int phase;

	for (phase = PHASE_BESIDE; phase < PHASES; phase++)
		if (r->late[phase][victim].late > most)
			most = r->late[phase][victim].late;
	return most;
}

/* The longest time that interrupts were off, or that a system call kept softirqs waiting. */
static uint64_t longest(const struct contain_result *r, bool interrupts)
{
	uint64_t most = 0, off;
	unsigned int phase;

	for (phase = PHASE_BESIDE; phase < PHASES; phase++) {
		off = interrupts ? r->delays[phase].irqs : r->delays[phase].softirqs;
		if (off > most)
			most = off;
	}
	return most;
}

/* Early, lost and repeated expirations, all of which must be zero. */
static uint64_t broken(const struct contain_result *r)
{
	uint64_t sum = r->early + (r->lost ? 1 : 0);
	unsigned int phase, victim;

	for (phase = 0; phase < PHASES; phase++)
		for (victim = 0; victim < VICTIMS; victim++)
			sum += r->late[phase][victim].early + r->late[phase][victim].wrong;
	return sum;
}

/* Whose timers were how late in which phase, in us. */
static void progress_phases(const struct contain_result *r)
{
	unsigned int phase, victim;
	char line[256];
	int n;

	for (phase = 0; phase < PHASES; phase++) {
		n = snprintf(line, sizeof(line), "%s:", phase_names[phase]);
		for (victim = 0; victim < VICTIMS; victim++)
			n += snprintf(line + n, sizeof(line) - n, " %s %llu", victim_names[victim],
				      (unsigned long long)r->late[phase][victim].late / 1000);
		progress("%s", line);
	}
}

/* Two points less than a fair share of what the attackers' own process leaves. */
static double least_left(const struct attack *a, const struct contain_result *r)
{
	const double least = attack_fair(a) * (100 - r->own) / 100 - UNFAIR;

	return least > 0 ? least : 0;
}

static void attack(const struct attack *a)
{
	const char *why = attack_missing(a);
	struct contain_result r;

	progress("%s", a->what);
	if (why) {
		report_missing(SYSTEM, a->name, timers_of(a), why);
		return;
	}
	contain_measure(a, &contain_long, &r);
	progress_phases(&r);
	report_of(a, "loss", r.loss, "%");
	if (a->costly)
		report_of(a, "loss-most", attack_most_loss(a, r.beside), "%");
	report_of(a, "left", r.left, "%");
	report_of(a, "left-disarmed", r.disarmed, "%");
	report_of(a, "left-least", least_left(a, &r), "%");
	report_of(a, "late", latest(a, &r), "ns");
	report_of(a, "late-bound", attack_late_ns(a), "ns");
	report_of(a, "late-signal", latest_of(&r, VICTIM_SIGNAL), "ns");
	report_of(a, "late-callout", latest_of(&r, VICTIM_CALLOUT), "ns");
	report_of(a, "broken", broken(&r), "count");
	report_of(a, "expired", r.expired, "count");
	report_of(a, "interrupts-off", longest(&r, true), "ns");
	report_of(a, "interrupts-alone", r.interrupts, "1/s");
	report_of(a, "interrupts", r.interrupts_beside, "1/s");
	report_of(a, "interrupts-disarmed", r.interrupts_disarmed, "1/s");
	report_of(a, "softirqs-off", longest(&r, false), "ns");
}

static const char *chosen;

void contain_choose(const char *list)
{
	chosen = list;
}

/* Is a name in the list of --attacks, or is there none? */
static bool is_chosen(const char *name)
{
	const size_t length = strlen(name);
	const char *at;

	for (at = chosen; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, name, length) && (!at[length] || at[length] == ','))
			return true;
	return !chosen;
}

void workload_contain(void)
{
	unsigned int i;

	for (i = 0; i < attack_count; i++)
		if (is_chosen(attacks[i].name))
			attack(&attacks[i]);
}

static void meddle(enum meddling how)
{
	struct meddling_result r;
	char op[80];

	progress("meddling from another CPU: %s", meddling_names[how]);
	contain_meddling(how, &r);
	snprintf(op, sizeof(op), "meddling-%s-alone-p99.9", meddling_names[how]);
	report(SYSTEM, op, 0, r.alone, "ns");
	snprintf(op, sizeof(op), "meddling-%s-beside-p99.9", meddling_names[how]);
	report(SYSTEM, op, 0, r.beside, "ns");
	snprintf(op, sizeof(op), "meddling-%s-operations", meddling_names[how]);
	report(SYSTEM, op, 0, r.operations, "1/s");
	snprintf(op, sizeof(op), "meddling-%s-interrupts", meddling_names[how]);
	report(SYSTEM, op, 0, r.interrupts, "1/s");
}

void workload_meddling(void)
{
	unsigned int how;

	for (how = 0; how < MEDDLINGS; how++) {
		if (get_nprocs() < 2)
			report_missing(SYSTEM, meddling_names[how], 0, "there is only one CPU");
		else
			meddle(how);
	}
}
