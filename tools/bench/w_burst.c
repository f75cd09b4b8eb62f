// SPDX-License-Identifier: GPL-2.0-only
/*
 * A million timers due on one tick
 *
 * First nobody reads them for a second: a task spins meanwhile and records the
 * longest time that it was kept from the CPU; then it reads them. In a second
 * round a task of ordinary priority reads them as they come, beside one with a
 * real-time priority that wakes up again and again and records how late that
 * was: how long the reader's calls kept it waiting, and how long the call did
 * that finds nothing left and gives the timers' memory back. Beside it: a task
 * that unmaps as much memory. That round also traces the durations of the
 * callbacks.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../contain/watcher.h"
#include "bench.h"
#include "htw.h"
#include "measure.h"
#include "report.h"
#include "trace.h"
#include "workloads.h"

#define BURST		1000000U
/* From the first add to the deadline; until timers count as lost. */
#define AFTER		(2 * SEC)
#define LOST		(60 * SEC)
/* When tracing begins before the deadline. */
#define TRACE_AHEAD	(400 * MSEC)
/* How long nobody reads. */
#define UNREAD		SEC

/* Spin until @until; return the longest gap between two rdtsc. */
static uint64_t watch(uint64_t until)
{
	uint64_t last, now, longest = 0;
	unsigned int i;

	do {
		last = instructions();
		for (i = 0; i < 100000; i++) {
			now = instructions();
			if (now - last > longest)
				longest = now - last;
			last = now;
		}
	} while (now_ns() < until);
	return longest;
}

static void add_burst(struct bench *b, int fd)
{
	uint64_t *deadlines = allocate(b->pending, sizeof(*deadlines));
	uint64_t due = now_ns() + AFTER;
	uint32_t i;

	/* Round down to 10 ms, so that all timers are due on one tick. */
	due -= due % (10 * MSEC);
	for (i = 0; i < b->pending; i++)
		deadlines[i] = due;
	htw_many_start(fd, (struct htw_vector_args){ .flags = HTW_F_ABS }, deadlines, b->pending,
		       b->handles);
	if (now_ns() > due)
		die("burst: adding took longer than the time to the deadline");
	release(deadlines, b->pending, sizeof(*deadlines));
	/* For bench_expired(): no timer is due earlier. */
	b->base = due;
}

/* Start the timers; return the deadline. */
static uint64_t begin(struct bench *b)
{
	bench_init(b, BURST);
	fill_random(b->delay, BURST, 0, 1);
	settle();
	system_htw_vector.open(b);
	add_burst(b, htw_vector_fd());
	return b->base;
}

static void end(struct bench *b)
{
	system_htw_vector.close(b);
	bench_exit(b);
}

static void unread(void)
{
	const struct system *s = &system_htw_vector;
	uint64_t from, due;
	struct bench b;

	due = begin(&b);
	report(s->name, "burst-longest-stall", BURST, watch(due + UNREAD), "ns");
	from = instructions();
	while (b.collected < BURST)
		s->collect(&b);
	report(s->name, "burst-collect", BURST, (double)(instructions() - from) / BURST, "insn/op");
	end(&b);
}

/* In a process of its own: wait for the timers, and read all; then once more. */
static void read_burst(int fd)
{
	static struct htw_event events[BATCH];
	const int epfd = htw_epoll(fd);
	struct epoll_event ready;
	uint32_t got = 0;
	int n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (got < BURST) {
		if (epoll_wait(epfd, &ready, 1, LOST / MSEC) != 1)
			die("burst: %u of %u events", got, BURST);
		while (got < BURST && (n = htw_read(fd, events, BATCH)) > 0)
			got += n;
	}
	raise(SIGSTOP);
	if (htw_read(fd, events, BATCH) != -EAGAIN)
		die("burst: more than %u events", BURST);
	raise(SIGSTOP);
	_exit(1);
}

/* In a process of its own: give back as much memory as the timers have. */
static void unmap_memory(void)
{
	const size_t size = BURST * 64;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (memory == MAP_FAILED || madvise(memory, size, MADV_NOHUGEPAGE))
		die("burst: mmap: %s", strerror(errno));
	memset(memory, 1, size);
	raise(SIGSTOP);
	munmap(memory, size);
	raise(SIGSTOP);
	_exit(1);
}

/* Wait until a process has stopped itself. */
static void await_stop(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		die("burst: a process has ended");
}

/* Let a process go on until it stops again; return how long that kept the task waiting. */
static uint64_t watch_process(struct watcher *watcher, pid_t pid)
{
	watcher_begin(watcher);
	kill(pid, SIGCONT);
	await_stop(pid);
	return watcher_longest(watcher);
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static pid_t fork_or_die(void)
{
	const pid_t pid = fork();

	if (pid < 0)
		die("burst: fork: %s", strerror(errno));
	return pid;
}

static void as_read(void)
{
	const char *name = system_htw_vector.name;
	struct watcher *watcher;
	uint64_t due, count;
	pid_t pid, unmapping;
	struct bench b;

	due = begin(&b);
	unmapping = fork_or_die();
	if (!unmapping)
		unmap_memory();
	await_stop(unmapping);
	pid = fork_or_die();
	if (!pid)
		read_burst(htw_vector_fd());
	watcher = watcher_start();
	/* Making room for the trace takes milliseconds. */
	sleep_until(due - TRACE_AHEAD);
	trace_start();
	sleep_until(due - MSEC);
	watcher_begin(watcher);
	await_stop(pid);
	report(name, "burst-longest-wait", BURST, watcher_longest(watcher), "ns");
	report(name, "burst-longest-callback", BURST, trace_longest(&count), "ns");
	report(name, "burst-give-back-wait", BURST, watch_process(watcher, pid), "ns");
	report("munmap", "burst-give-back-wait", BURST, watch_process(watcher, unmapping), "ns");
	watcher_end(watcher);
	end_process(pid);
	end_process(unmapping);
	report(name, "burst-callbacks", BURST, count, "count");
	end(&b);
}

void workload_burst(void)
{
	static const char * const figures[] = {
		"burst-longest-stall", "burst-collect", "burst-longest-wait",
		"burst-longest-callback", "burst-callbacks", "burst-give-back-wait",
	};
	const char *why = system_htw_vector.missing(BURST);
	unsigned int i;

	for (i = 0; why && i < ARRAY_SIZE(figures); i++)
		report_missing(system_htw_vector.name, figures[i], BURST, why);
	if (why)
		return;
	unread();
	as_read();
}
