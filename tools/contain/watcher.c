// SPDX-License-Identifier: GPL-2.0-only
/* A task that notes how late it runs; see watcher.h. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/huge-pages.h"
#include "contain.h"
#include "watcher.h"

/* It sleeps for so long, which shares no divisor with a tick. */
#define SLEEP		(97 * USEC)
/* Above all others but ksoftirqd. */
#define PRIORITY	60

/**
 * struct watcher - the task and its note; shared with it
 * @pid: the task
 * @longest: the longest wait so far, in ns
 */
struct watcher {
	pid_t pid;
	volatile uint64_t longest;
};

static void watch(struct watcher *w)
{
	uint64_t next, now;

	for (now = now_ns();;) {
		next = now + SLEEP;
		sleep_until(next);
		now = now_ns();
		if (now - next > w->longest)
			w->longest = now - next;
	}
}

struct watcher *watcher_start(void)
{
	const struct sched_param priority = { .sched_priority = PRIORITY };
	struct watcher *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	const pid_t pid = fork();

	if (w == MAP_FAILED || pid < 0 || !stop_khugepaged())
		die("cannot start a task that watches: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (sched_setscheduler(0, SCHED_FIFO, &priority))
			die("sched_setscheduler: %s", strerror(errno));
		watch(w);
	}
	w->pid = pid;
	return w;
}

void watcher_end(struct watcher *w)
{
	kill(w->pid, SIGKILL);
	if (waitpid(w->pid, NULL, 0) != w->pid)
		die("waitpid: %s", strerror(errno));
	munmap(w, sizeof(*w));
}

void watcher_begin(struct watcher *w)
{
	/* Its priority is higher: it does not run meanwhile. */
	w->longest = 0;
}

uint64_t watcher_longest(const struct watcher *w)
{
	return w->longest;
}
