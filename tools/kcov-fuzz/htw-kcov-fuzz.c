// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fuzzer that is guided by coverage: which of htw's code do these calls reach?
 *
 * Programs of some calls each are drawn at random, or are mutations of those that have reached new
 * code: in their own calls, or behind them, in softirq when timers expire and in work items. After
 * each call is checked what htw.h promises whatever a program does: the error is one that is
 * documented, nothing is early, an id that has ended does not come back. The programs of a round
 * are run by one process, every other time that of a user without privileges. After it nothing may
 * be left open or charged.
 *
 * Process 1 of a kernel with KCOV, which it turns off at the end. Its parameters are in the
 * environment, where the kernel puts those of its command line that it does not know.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/first-process.h"
#include "../common/htw-client.h"
#include "../torture/memory.h"
#include "../torture/report.h"
#include "coverage.h"
#include "program.h"
#include "scene.h"
#include "worker.h"

#define ROUND_PROGRAMS	1000
/* A program takes less than a second; its children have none of this to wait for. */
#define STUCK_NS	(120 * SEC)

static unsigned int passed, failed;

static void count(const char *what)
{
	bool is_ok = !report_violations();

	if (!is_ok)
		report_say("%s: FAILED", what);
	passed += is_ok;
	failed += !is_ok;
	report_new_round();
}

static __u64 parameter(const char *name, __u64 otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void become_user(unsigned int number)
{
	if (!number)
		return;
	if (setgroups(0, NULL) || setgid(USERS_FIRST) || setuid(USERS_FIRST + number))
		report_broken("setuid: %s", strerror(errno));
}

/* Wait until the process has ended, as long as it gets on. */
static void wait_for(pid_t pid)
{
	__u64 programs = progress->programs, since = now_ns();
	int status = 0;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (programs != progress->programs) {
			programs = progress->programs;
			since = now_ns();
		}
		if (now_ns() - since > STUCK_NS) {
			report_violation("STUCK: a program takes more than %llu s", STUCK_NS / SEC);
			worker_report_program();
			kill(-pid, SIGKILL);
			since = now_ns() + STUCK_NS;
		}
		/* Much longer than a program takes: each look costs as much as some calls. */
		sleep_until(now_ns() + SEC);
	}
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return;
	report_violation("the process ended with status %x", status);
	worker_report_program();
}

/* Every other round of users has a limit that programs meet. */
static bool is_limited(unsigned int round)
{
	return round % 4 == 3;
}

static void limit_timers(unsigned int round)
{
	write_to("/sys/module/htw/parameters/max_user_timers",
		 is_limited(round) ? "1000" : "4194304");
}

static void run_round(unsigned int round, __u64 calls, bool only_replay)
{
	char what[32];
	pid_t pid;

	limit_timers(round);
	pid = fork();
	if (pid < 0)
		report_broken("fork: %s", strerror(errno));
	if (!pid) {
		setpgid(0, 0);
		memory_join();
		/* Every other time, one of three users. */
		become_user(round % 2 ? 1 + round / 2 % 3 : 0);
		if (only_replay)
			worker_replay();
		else
			worker_run(ROUND_PROGRAMS, calls, "/stop");
		exit(0);
	}
	wait_for(pid);
	memory_check_users();
	snprintf(what, sizeof(what), "round %u", round);
	count(what);
}

static void report_progress(void)
{
	report_say("%llu calls, %llu programs, corpus %u, places %u, behind calls %u",
		   progress->calls, progress->programs, progress->corpus, coverage_places(false),
		   coverage_places(true));
}

static FILE *places;

static void print_place(unsigned long place, bool is_behind)
{
	fprintf(places, "%s %lx\n", is_behind ? "behind" : "call", place);
}

/* That nothing is found because nothing is traced must not pass. */
static void check_coverage(void)
{
	places = fopen("/places", "we");
	if (!places)
		report_broken("/places: %s", strerror(errno));
	coverage_list(print_place);
	fclose(places);
	if (!coverage_places(false))
		report_violation("no call has reached any code");
	count("coverage of calls");
	if (!coverage_places(true))
		report_violation("no code was reached in softirq or work items");
	count("coverage behind calls");
}

static void check_memory(void)
{
	write_to("/sys/fs/cgroup/cgroup.procs", "1");
	memory_end(true);
	count("memory");
	check_leaks();
	count("kmemleak");
}

int main(void)
{
	const struct timespec date = { .tv_sec = 1800000000 };
	const __u64 calls = parameter("fuzz_calls", 100000);
	const bool only_replay = parameter("fuzz_replay", 0);
	unsigned int round = 0;

	if (!report_init())
		return 3;
	setvbuf(stderr, NULL, _IOLBF, PROGRAM_TEXT);
	mount_all();
	if (!memory_begin())
		report_broken("this kernel has no memory cgroups");
	if (chmod(HTW_DEVICE, 0666) || clock_settime(CLOCK_REALTIME, &date))
		report_broken("%s: %s", HTW_DEVICE, strerror(errno));
	coverage_init();
	worker_init(parameter("fuzz_seed", 1), "/corpus", "/found", "/running");
	do {
		run_round(round++, calls, only_replay);
		report_progress();
	} while (progress->calls < calls && access("/stop", F_OK) && !failed &&
		 (!only_replay || round < 4));
	if (!only_replay)
		check_coverage();
	check_memory();
	report_say("corpus read: %s", progress->loaded < progress->to_load ? "no" : "yes");
	report_say("%u passed, %u failed", passed, failed);
	sync();
	reboot(RB_POWER_OFF);
	return 3;
}
