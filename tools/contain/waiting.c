// SPDX-License-Identifier: GPL-2.0-only
/* Epoll sets and tasks that wait for the contexts of an attack; see contain.h. */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/poll-number.h"
#include "waiting.h"

/* Longer than thousands of tasks need to start, one after the other. */
#define START		(20 * SEC)

/**
 * struct waiting - what waits for the contexts of an attack
 * @how: which sets and tasks
 * @fds: epoll sets and duplicates of descriptors; the inner sets come first
 * @fd_count: number of those
 * @inner: number of inner sets
 * @pids: processes, one for each context that tasks wait for
 * @pid_count: number of those
 * @tids: their tasks, once they have started; shared with the processes
 * @tids_size: bytes of @tids
 * @exchanged: two sets, of which only one watches @exchanged_fd
 * @exchanged_fd: a context
 * @turn: which of the two it is
 */
struct waiting {
	struct attack_waiting how;
	int *fds;
	unsigned int fd_count;
	unsigned int inner;
	pid_t *pids;
	unsigned int pid_count;
	volatile pid_t *tids;
	size_t tids_size;
	int exchanged[2];
	int exchanged_fd;
	unsigned int turn;
};

/**
 * struct waiter - what all tasks of a process wait for
 * @fds: entries of poll()
 * @count: number of those
 * @fd: descriptor to read, or -1
 * @tids: where the tasks put their ids
 * @started: tasks that have done so
 */
struct waiter {
	struct pollfd *fds;
	unsigned int count;
	int fd;
	volatile pid_t *tids;
	unsigned int started;
};

struct waiting *waiting_prepare(const struct attack_waiting *how, unsigned int contexts)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (!w)
		die("no memory");
	w->how = *how;
	if (how->requests)
		w->how.tasks = 1;
	w->fds = calloc(contexts * (1 + how->entries) + how->sets + 2, sizeof(*w->fds));
	w->pids = calloc(contexts + 1, sizeof(*w->pids));
	w->tids_size = (contexts * w->how.tasks + 1) * sizeof(*w->tids);
	w->tids = mmap(NULL, w->tids_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (!w->fds || !w->pids || w->tids == MAP_FAILED)
		die("no memory");
	return w;
}

static void watch(int epfd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl: %s", strerror(errno));
}

static int new_set(void)
{
	const int epfd = epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0)
		die("epoll_create1: %s", strerror(errno));
	return epfd;
}

/* A set with as many entries for a descriptor as there shall be. */
static int add_set(struct waiting *w, int fd)
{
	const int epfd = new_set();
	unsigned int i;
	int copy;

	watch(epfd, fd);
	for (i = 1; i < w->how.entries; i++) {
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (copy < 0)
			die("dup: %s", strerror(errno));
		w->fds[w->fd_count++] = copy;
		watch(epfd, copy);
	}
	/* The inner sets first. */
	w->fds[w->fd_count++] = w->fds[w->inner];
	w->fds[w->inner++] = epfd;
	return epfd;
}

static void take_all(const struct waiter *me)
{
	struct htw_event events[64];

	while (me->fd >= 0 && read(me->fd, events, sizeof(events)) == sizeof(events))
		;
}

static void *wait_forever(void *arg)
{
	struct waiter *me = arg;

	me->tids[__atomic_fetch_add(&me->started, 1, __ATOMIC_RELAXED)] = syscall(SYS_gettid);
	for (;;) {
		if (me->count)
			poll(me->fds, me->count, -1);
		take_all(me);
	}
	return NULL;
}

/* In a process of its own: start the tasks. */
static void wait_in_tasks(const struct attack_waiting *how, struct waiter *me, uid_t uid, int fd)
{
	const struct sched_param none = { 0 };
	pthread_attr_t attr;
	pthread_t thread;
	unsigned int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, how->idle ? SCHED_IDLE : SCHED_OTHER, &none) ||
	    setresuid(uid, uid, uid))
		die("a waiting process cannot become ordinary: %s", strerror(errno));
	/* Changing the uid has cleared it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	me->fds = calloc(how->polls + 1, sizeof(*me->fds));
	if (!me->fds)
		die("no memory");
	if (!how->polls && fcntl(fd, F_SETFL, 0))
		die("cannot have a descriptor block: %s", strerror(errno));
	for (i = 0; i < how->polls; i++)
		me->fds[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
	me->count = how->polls;
	if (pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN))
		die("pthread_attr_setstacksize failed");
	for (i = 1; i < how->tasks; i++)
		if (pthread_create(&thread, &attr, wait_forever, me))
			die("cannot start %u threads", how->tasks);
	wait_forever(me);
}

/* In a process of its own: watch the descriptor by as many requests as there shall be. */
static void wait_by_requests(const struct waiter *me, uid_t uid, int fd, unsigned int requests)
{
	const struct sched_param none = { 0 };
	struct io_uring uring;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	unsigned int i;
	int ret;

	if (sched_setscheduler(0, SCHED_OTHER, &none) || setresuid(uid, uid, uid))
		die("a waiting process cannot become ordinary: %s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret = io_uring_queue_init(requests, &uring, 0);
	if (ret)
		die("io_uring_queue_init: %s", strerror(-ret));
	for (i = 0; i < requests; i++) {
		sqe = io_uring_get_sqe(&uring);
		if (!sqe)
			die("no room for request %u", i);
		io_uring_prep_poll_multishot(sqe, fd, POLLIN);
	}
	ret = io_uring_submit(&uring);
	if (ret != (int)requests)
		die("io_uring_submit: %d of %u", ret, requests);
	/* They are watching now. */
	me->tids[0] = syscall(SYS_gettid);
	for (;;) {
		ret = io_uring_wait_cqe(&uring, &cqe);
		if (ret)
			die("io_uring_wait_cqe: %s", strerror(-ret));
		take_all(me);
		if (cqe->res < 0)
			die("a poll request failed: %s", strerror(-cqe->res));
		/* The kernel ends requests for which it has no room in the completion queue. */
		if (!(cqe->flags & IORING_CQE_F_MORE)) {
			io_uring_prep_poll_multishot(io_uring_get_sqe(&uring), fd, POLLIN);
			io_uring_submit(&uring);
		}
		io_uring_cqe_seen(&uring, cqe);
	}
}

bool waiting_is_woken(const struct waiting *w)
{
	struct epoll_event event;

	return w->how.exchanged && epoll_wait(w->exchanged[w->turn], &event, 1, 0) == 1;
}

void waiting_exchange(struct waiting *w)
{
	if (epoll_ctl(w->exchanged[w->turn], EPOLL_CTL_DEL, w->exchanged_fd, NULL))
		die("epoll_ctl: %s", strerror(errno));
	w->turn = !w->turn;
	watch(w->exchanged[w->turn], w->exchanged_fd);
}

void waiting_add(struct waiting *w, uid_t uid, int fd)
{
	struct waiter me = { .fd = w->how.idle || w->how.deaf ? -1 : fd };
	pid_t pid;

	if (w->how.exchanged)
		w->exchanged_fd = fd;
	if (w->how.entries)
		fd = add_set(w, fd);
	if (w->how.exchanged) {
		w->exchanged[0] = fd;
		w->exchanged[1] = new_set();
		w->fds[w->fd_count++] = w->exchanged[1];
	}
	if (!w->how.tasks)
		return;
	me.tids = w->tids + w->pid_count * w->how.tasks;
	pid = fork();
	if (pid < 0)
		die("cannot fork: %s", strerror(errno));
	if (!pid) {
		if (w->how.requests)
			wait_by_requests(&me, uid, fd, w->how.requests);
		wait_in_tasks(&w->how, &me, uid, fd);
		_exit(1);
	}
	w->pids[w->pid_count++] = pid;
}

/* Does a task sleep in poll() or read(), or until a request completes? */
static bool waits(pid_t tid)
{
	char path[64];
	long number;
	bool sleeps;
	FILE *file;

	if (!tid)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	file = fopen(path, "re");
	sleeps = file && fscanf(file, "%ld", &number) == 1 &&
		 (number == SYS_OF_POLL || number == SYS_read || number == SYS_io_uring_enter);
	if (file)
		fclose(file);
	return sleeps;
}

void waiting_begin(struct waiting *w)
{
	const uint64_t deadline = now_ns() + START;
	const unsigned int tasks = w->pid_count * w->how.tasks;
	unsigned int i, k;

	for (k = 0; k < w->how.sets; k++) {
		const int epfd = new_set();

		w->fds[w->fd_count++] = epfd;
		for (i = 0; i < w->inner; i++)
			watch(epfd, w->fds[i]);
	}
	for (i = 0; i < tasks; ) {
		if (waits(w->tids[i])) {
			i++;
			continue;
		}
		if (now_ns() > deadline)
			die("%u of %u tasks do not wait", tasks - i, tasks);
		sleep_until(now_ns() + MSEC);
	}
}

uint64_t waiting_worked(const struct waiting *w)
{
	uint64_t sum = 0;
	clockid_t clock;
	unsigned int i;

	for (i = 0; i < w->pid_count && !w->how.idle; i++) {
		if (clock_getcpuclockid(w->pids[i], &clock))
			die("a waiting process has ended");
		sum += clock_ns(clock);
	}
	return sum;
}

void waiting_end(struct waiting *w)
{
	unsigned int i;

	for (i = 0; i < w->pid_count; i++)
		kill(w->pids[i], SIGKILL);
	for (i = 0; i < w->pid_count; i++)
		waitpid(w->pids[i], NULL, 0);
	for (i = 0; i < w->fd_count; i++)
		close(w->fds[i]);
	munmap((void *)w->tids, w->tids_size);
	free(w->pids);
	free(w->fds);
	free(w);
}
