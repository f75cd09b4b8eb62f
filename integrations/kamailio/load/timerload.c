// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module for Kamailio: load on dlg_timer.c alone, without SIP
 *
 * It is built with one implementation of dlg_timer.c. Several processes call it
 * in the order in which the dialog module does for a call: start the timer when
 * the call is answered, update it at the ACK, update it at a request within the
 * dialog, and remove it at the BYE.
 *
 *   load   calls one after the other while TIMERS are pending; then, among those, timers of 1 to
 *          10 s, and how late they are
 *   races  timers of 1 s that are removed and moved at about the time they expire
 *
 * Each timer counts its starts, removals and expirations, as each start must end
 * exactly once. The report is lines of "name value ..."; Kamailio ends after it.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../core/dprint.h"
#include "../../core/mem/shm_mem.h"
#include "../../core/pt.h"
#include "../../core/sr_module.h"
#include "../../core/timer_proc.h"
#include "dlg_timer.h"
#include "lockwait.h"

MODULE_VERSION

#define SECOND		1000000000ULL
#define MAX_WORKERS	64
/* Sample of a latency: 16 for each power of two. */
#define SAMPLES		(64 * 16)

enum { INSERT, UPDATE, REMOVE, OPS };
static const char *const op_names[OPS] = { "insert", "update", "remove" };

/* As many bytes as a dialog of Kamailio's, of which the timer is a small part. */
struct dialog {
	struct dlg_tl tl;
	uint64_t due;		/* when it should expire */
	unsigned int started;	/* by its worker */
	unsigned int removed;	/* the same */
	unsigned int fired;
	char rest[400];
};

enum phase { WAITING, FILLING, LOADING, ENDING };

/* Of one worker. */
struct result {
	struct lock_waits waits;
	uint64_t calls;
	uint64_t count[OPS];
	uint64_t ns[OPS];
	uint32_t sample[OPS][SAMPLES];
	unsigned int errors;
	volatile enum phase finished;
};

struct shared {
	volatile enum phase phase;
	struct result result[MAX_WORKERS];
	/* Lateness in units of 100 us; written by the process that runs the timers. */
	uint32_t late[200000];
	uint64_t fired;
	uint64_t early;
	uint64_t latest;
	uint64_t earliest;
	struct dialog dialogs[];
};

/* Parameters. */
static int workers = 2;
static int timers = 60000;
static int seconds = 5;
static int probes = 10000;
static int one_timeout;		/* the timeout of all; zero: from 10 min to 2 h */
static char *kind = "load";	/* or races */
static char *report_name = "/dev/stderr";

static struct shared *shared;
static FILE *report;
static struct lock_waits not_reported;
struct lock_waits *lock_waits = &not_reported;

static uint64_t seed;

static uint64_t number_below(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static int any_timeout(void)
{
	return one_timeout ? one_timeout : 600 + (int)number_below(6600);
}

static unsigned int sample_of(uint64_t ns)
{
	const unsigned int shift = ns < 16 ? 0 : 59 - __builtin_clzll(ns);

	return ns < 16 ? ns : (shift + 1) * 16 + (ns >> shift & 15);
}

static uint64_t sample_ns(unsigned int sample)
{
	return sample < 16 ? sample : (16ULL + sample % 16) << (sample / 16 - 1);
}

/* Make a call and note how long it took. */
static int timed(struct result *r, unsigned int op, struct dialog *d, int timeout)
{
	uint64_t ns = monotonic_ns();
	int ret;

	switch (op) {
	case INSERT:
		ret = insert_dlg_timer(&d->tl, timeout);
		break;
	case UPDATE:
		ret = update_dlg_timer(&d->tl, timeout);
		break;
	default:
		ret = remove_dialog_timer(&d->tl);
	}
	ns = monotonic_ns() - ns;
	r->count[op]++;
	r->ns[op] += ns;
	r->sample[op][sample_of(ns)]++;
	return ret;
}

/* The handler of the timers. */
static void on_timeout(struct dlg_tl *tl)
{
	struct dialog *d = (struct dialog *)tl;
	const uint64_t now = monotonic_ns();
	const int64_t late = now - d->due;

	shared->fired++;
	if (late < 0) {
		shared->early++;
		if ((uint64_t)-late > shared->earliest)
			shared->earliest = -late;
	} else {
		shared->late[late / 100000 < 199999 ? late / 100000 : 199999]++;
		if ((uint64_t)late > shared->latest)
			shared->latest = late;
	}
	__atomic_fetch_add(&d->fired, 1, __ATOMIC_RELEASE);
}

static void start(struct result *r, struct dialog *d, int timeout)
{
	d->due = monotonic_ns() + timeout * SECOND;
	if (timed(r, INSERT, d, timeout))
		r->errors++;
	else
		d->started++;
}

static bool ended(const struct dialog *d)
{
	return d->started == d->removed + __atomic_load_n(&d->fired, __ATOMIC_ACQUIRE);
}

static void wait_for(enum phase phase)
{
	while (shared->phase < phase)
		usleep(1000);
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Start the timers that are pending throughout: the earliest first, as a list likes it best. */
static void fill(struct result *r, struct dialog *d, unsigned int count)
{
	int *timeouts = malloc(count * sizeof(*timeouts));
	unsigned int i;

	for (i = 0; i < count; i++)
		timeouts[i] = any_timeout();
	qsort(timeouts, count, sizeof(*timeouts), by_number);
	for (i = 0; i < count; i++)
		start(r, &d[i], timeouts[i]);
	free(timeouts);
}

/* Calls that end as others begin: the number of timers stays. */
static void load(struct result *r, struct dialog *dialogs, unsigned int count)
{
	while (shared->phase == LOADING) {
		struct dialog *d = &dialogs[number_below(count)];
		int timeout = any_timeout();

		if (timed(r, REMOVE, d, 0))
			r->errors++;
		else
			d->removed++;
		start(r, d, timeout);
		d = &dialogs[number_below(count)];
		/* The first one's ACK, and a request within another one. */
		if (timed(r, UPDATE, d, any_timeout()) || timed(r, UPDATE, d, any_timeout()))
			r->errors++;
		r->calls++;
	}
}

/* Timers that expire, evenly over the time. */
static void probe(struct result *r, struct dialog *d, unsigned int count)
{
	const uint64_t begin = monotonic_ns();
	unsigned int i;

	for (i = 0; i < count; i++) {
		while (monotonic_ns() < begin + i * 10 * SECOND / count)
			usleep(500);
		start(r, &d[i], 1 + number_below(10));
	}
	for (i = 0; i < count; i++)
		while (!ended(&d[i]))
			usleep(1000);
}

/* Remove or move timers at about the time at which they expire. */
static void race(struct result *r, struct dialog *dialogs, unsigned int count)
{
	while (shared->phase == LOADING) {
		struct dialog *d = &dialogs[number_below(count)];

		if (ended(d)) {
			start(r, d, 1);
		} else if (monotonic_ns() + SECOND / 1000 < d->due) {
			usleep(20);
		} else if (number_below(2)) {
			/* Only 1 is right if it has expired: then it is counted there. */
			if (!timed(r, REMOVE, d, 0))
				d->removed++;
		} else {
			const uint64_t due = monotonic_ns() + SECOND;

			/* It must not expire before its new time now. */
			if (!timed(r, UPDATE, d, 1))
				d->due = due;
		}
	}
}

static void work(unsigned int number)
{
	struct result *r = &shared->result[number];
	const unsigned int count = timers / workers, more = probes / workers;
	struct dialog *mine = shared->dialogs + number * (count + more);
	unsigned int i;

	seed = 0x9e3779b97f4a7c15 * (number + 1);
	wait_for(FILLING);
	if (!strcmp(kind, "load"))
		fill(r, mine, count);
	memset(r, 0, sizeof(*r));
	r->finished = FILLING;

	wait_for(LOADING);
	lock_waits = &r->waits;
	if (!strcmp(kind, "load"))
		load(r, mine, count);
	else
		race(r, mine, count);
	lock_waits = &not_reported;
	r->finished = LOADING;

	wait_for(ENDING);
	if (!strcmp(kind, "load"))
		probe(r, mine + count, more);
	else
		for (i = 0; i < count; i++)
			while (!ended(&mine[i]))
				usleep(1000);
	r->finished = ENDING;
	for (;;)
		pause();
}

static void all_finished(enum phase phase)
{
	int w;

	for (w = 0; w < workers; w++)
		while (shared->result[w].finished < phase)
			usleep(1000);
}

/* The time that @share of all calls of an operation did not exceed. */
static uint64_t percentile(unsigned int op, double share)
{
	uint64_t all = 0, sum = 0;
	unsigned int w, i;

	for (w = 0; w < (unsigned int)workers; w++)
		all += shared->result[w].count[op];
	for (i = 0; i < SAMPLES; i++) {
		for (w = 0; w < (unsigned int)workers; w++)
			sum += shared->result[w].sample[op][i];
		if (sum >= all * share)
			break;
	}
	return sample_ns(i);
}

static void report_load(uint64_t ns)
{
	struct lock_waits waits = { };
	uint64_t calls = 0, errors = 0;
	unsigned int op, w;

	for (w = 0; w < (unsigned int)workers; w++) {
		const struct result *r = &shared->result[w];

		calls += r->calls;
		errors += r->errors;
		waits.count += r->waits.count;
		waits.ns += r->waits.ns;
		if (r->waits.longest > waits.longest)
			waits.longest = r->waits.longest;
	}
	fprintf(report, "calls %.0f\n", calls * 1e9 / ns);
	fprintf(report, "errors %lu\n", errors);
	for (op = 0; op < OPS; op++) {
		uint64_t count = 0, sum = 0;

		for (w = 0; w < (unsigned int)workers; w++) {
			count += shared->result[w].count[op];
			sum += shared->result[w].ns[op];
		}
		fprintf(report, "%s %lu %lu %lu\n", op_names[op], count ? sum / count : 0,
			percentile(op, 0.5), percentile(op, 0.999));
	}
	/* Of the workers' time, in percent. */
	fprintf(report, "waits %lu %.2f %lu\n", waits.count, waits.ns * 100.0 / ns / workers,
		waits.longest);
}

static void report_late(void)
{
	uint64_t late = shared->fired - shared->early, sum = 0;
	double shares[] = { 0.5, 0.99 };
	unsigned int i, s;

	fprintf(report, "expired %lu\n", shared->fired);
	fprintf(report, "early %lu %.1f\n", shared->early, shared->earliest / 1e6);
	fprintf(report, "late");
	for (i = s = 0; s < 2 && i < 200000; i++) {
		sum += shared->late[i];
		while (s < 2 && sum >= late * shares[s]) {
			fprintf(report, " %.1f", i / 10.0);
			s++;
		}
	}
	fprintf(report, " %.1f\n", shared->latest / 1e6);
}

static void report_ends(void)
{
	const unsigned int all = (timers / workers + probes / workers) * workers;
	uint64_t started = 0, removed = 0, fired = 0, wrong = 0;
	unsigned int i;

	for (i = 0; i < all; i++) {
		const struct dialog *d = &shared->dialogs[i];

		started += d->started;
		removed += d->removed;
		fired += d->fired;
		wrong += d->started - d->removed - d->fired > 1;
	}
	fprintf(report, "started %lu\nremoved %lu\nfired %lu\nwrong %lu\n", started, removed,
		fired, wrong);
}

static void control(void)
{
	uint64_t ns;

	report = fopen(report_name, "w");
	if (!report) {
		LM_ERR("cannot write %s\n", report_name);
		exit(1);
	}
	/* The kernel has work of its own after its start. */
	sleep(3);
	shared->phase = FILLING;
	all_finished(FILLING);
	ns = monotonic_ns();
	shared->phase = LOADING;
	sleep(seconds);
	shared->phase = ENDING;
	ns = monotonic_ns() - ns;
	all_finished(LOADING);
	if (!strcmp(kind, "load"))
		report_load(ns);
	all_finished(ENDING);
	report_late();
	report_ends();
	fclose(report);
	kill(getppid(), SIGTERM);
	for (;;)
		pause();
}

static int mod_init(void)
{
	const size_t size = sizeof(*shared) + (timers + probes) * sizeof(struct dialog);

	if (workers < 1 || workers > MAX_WORKERS || timers < workers) {
		LM_ERR("wrong parameters\n");
		return -1;
	}
	shared = shm_malloc(size);
	if (!shared) {
		LM_ERR("no shared memory: %zu bytes\n", size);
		return -1;
	}
	memset(shared, 0, size);
	register_sync_timers(1);
	register_procs(workers + 1);
	return init_dlg_timer(on_timeout);
}

static int child_init(int rank)
{
	int i, pid;

	if (rank != PROC_MAIN)
		return 0;
	if (fork_sync_timer(PROC_TIMER, "Dialog Main Timer", 1, dlg_timer_routine, NULL, 1) < 0)
		return -1;
	for (i = 0; i <= workers; i++) {
		pid = fork_process(PROC_NOCHLDINIT, "timerload", 0);
		if (pid < 0)
			return -1;
		if (!pid) {
			if (i == workers)
				control();
			else
				work(i);
		}
	}
	return 0;
}

static param_export_t params[] = {
	{ "workers", INT_PARAM, &workers },
	{ "timers", INT_PARAM, &timers },
	{ "seconds", INT_PARAM, &seconds },
	{ "probes", INT_PARAM, &probes },
	{ "one_timeout", INT_PARAM, &one_timeout },
	{ "kind", PARAM_STRING, &kind },
	{ "report", PARAM_STRING, &report_name },
	{ 0, 0, 0 }
};

struct module_exports exports = {
	.name = "timerload",
	.dlflags = DEFAULT_DLFLAGS,
	.params = params,
	.init_mod_f = mod_init,
	.init_child_f = child_init,
	.destroy_mod_f = destroy_dlg_timer,
};
