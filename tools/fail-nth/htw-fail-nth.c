// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every error path of every call: in turn each allocation and each copy fails
 *
 * A call is made with its first allocation or copy failing, then with its second one, and so on
 * until it is over before a fault has happened. A call that fails must say so with the right error,
 * leave what the interface promises, and succeed when it is made again. In the end nothing is left:
 * no timer, no charge of the user or of the cgroup, no object to which kmemleak finds no pointer.
 *
 * Process 1 of a kernel with fault injection, which it turns off at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/clock.h"
#include "../common/first-process.h"
#include "../common/htw-client.h"
#include "../torture/memory.h"
#include "../torture/report.h"
#include "calls.h"
#include "fault.h"

/* Faults in one call: more than any has. */
#define FAULTS_MOST	400

/* The reason why the present call is wrong. */
#define wrong(format, ...)						\
	report_violation("%s, fault %u: " format, call->name, nth, ##__VA_ARGS__)

/* Timers that a context's wheels hold, according to the module. */
static __u64 pending(int fd)
{
	char path[64], line[256];
	__u64 count = ~0ULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	if (!file)
		report_broken("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file))
		sscanf(line, "htw-pending:\t%llu", &count);
	fclose(file);
	return count;
}

/* And those of them that a context lists. */
static __u64 listed(int fd)
{
	static struct htw_timer_info entries[TIMERS_MOST];
	struct htw_list_args list = htw_list_of(entries, TIMERS_MOST);

	list.flags = HTW_LIST_PENDING | HTW_LIST_DUE;
	return htw_call(fd, HTW_LIST, &list) ? ~0ULL : list.done;
}

static void check_timers(const struct call *call, const struct scene *s, unsigned int nth, int ret,
			 __u64 before)
{
	const struct htw_info_args info = htw_info(s->fd);
	const __u64 low = before < call->timers ? before : call->timers;
	const __u64 high = before > call->timers ? before : call->timers;

	if (!ret && info.timers != call->timers)
		wrong("it succeeded, but there are %llu timers", info.timers);
	if (ret && call->after == UNCHANGED && info.timers != before)
		wrong("it failed, but there are %llu timers instead of %llu", info.timers, before);
	if (info.timers < low || info.timers > high)
		wrong("there are %llu timers", info.timers);
	if (pending(s->fd) != listed(s->fd))
		wrong("%llu timers are pending, %llu are listed", pending(s->fd), listed(s->fd));
}

static void end_scene(struct scene *s)
{
	if (s->other >= 0)
		close(s->other);
	if (s->fd >= 0)
		close(s->fd);
	memory_check_users();
}

/* Make the call with its @nth fault, or without for 0; return whether that has happened. */
static bool make_call(const struct call *call, unsigned int nth)
{
	struct scene s = { .fd = -1, .other = -1 };
	enum fault happened = FAULT_NONE;
	__u64 before = 0;
	int ret;

	if (call->prepare && !call->prepare(&s))
		report_broken("%s: the scene could not be set: %s", call->name, strerror(errno));
	if (s.fd >= 0)
		before = htw_info(s.fd).timers;
	if (nth)
		fault_arm(nth);
	ret = call->call(&s);
	if (nth)
		happened = fault_disarm();
	if (ret && happened == FAULT_NONE)
		wrong("it failed without a fault: %s", strerror(-ret));
	else if (ret && ret != (happened == FAULT_COPY ? -EFAULT : -ENOMEM))
		wrong("the call failed with %s because %s failed", strerror(-ret),
		      happened == FAULT_COPY ? "a copy" : "an allocation");
	if (s.fd >= 0)
		check_timers(call, &s, nth, ret, before);
	if (ret && call->after == UNCHANGED) {
		ret = call->call(&s);
		if (ret)
			wrong("again, without a fault: %s", strerror(-ret));
		else
			check_timers(call, &s, nth, ret, before);
	}
	end_scene(&s);
	return happened != FAULT_NONE;
}

static bool test_call(const struct call *call)
{
	unsigned int nth = 0;

	report_new_round();
	/* Once without a fault, so that all memory of this program is there. */
	make_call(call, 0);
	while (make_call(call, nth + 1) && nth < FAULTS_MOST)
		nth++;
	if (nth < call->least)
		wrong("only so many faults, of at least %u", call->least);
	report_say("%s: %u faults: %s", call->name, nth, report_violations() ? "FAILED" : "passed");
	return !report_violations();
}

static bool test_leaks(void)
{
	report_new_round();
	check_leaks();
	report_say("kmemleak: %s", report_violations() ? "FAILED" : "passed");
	return !report_violations();
}

static bool test_memory(void)
{
	report_new_round();
	memory_end(true);
	report_say("memory: %s", report_violations() ? "FAILED" : "passed");
	return !report_violations();
}

/* In a process of its own, so that with it all memory of its cgroup ends: return how many fail. */
static unsigned int test_calls(void)
{
	unsigned int *failed = mmap(NULL, sizeof(*failed), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	if (failed == MAP_FAILED)
		report_broken("mmap: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		report_broken("fork: %s", strerror(errno));
	if (!pid) {
		if (!fault_init())
			report_broken("this kernel has no fault injection");
		memory_join();
		for (unsigned int i = 0; i < nr_calls; i++)
			*failed += !test_call(&calls[i]);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		report_broken("the calls' process ended with %#x", status);
	return *failed;
}

int main(void)
{
	const unsigned int all = nr_calls + 2;
	unsigned int failed;

	if (!report_init())
		return 3;
	mount_all();
	if (!memory_begin())
		report_broken("this kernel has no memory cgroups");
	failed = test_calls();
	failed += !test_memory();
	failed += !test_leaks();
	report_say("%u passed, %u failed", all - failed, failed);
	sync();
	reboot(RB_POWER_OFF);
	return 3;
}
