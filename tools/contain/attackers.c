// SPDX-License-Identifier: GPL-2.0-only
/*
 * The attackers' side of an attack
 *
 * All attackers are one process, which opens the device under each user's uid
 * in turn: timers are charged to the opener. So their work in user space takes
 * next to no CPU time. The process has a real-time priority, so that the time
 * between two reads does not depend on the scheduler. For longer work
 * it drops that priority: it would otherwise keep softirqs waiting where they
 * run in threads (PREEMPT_RT). Tasks that wait for descriptors are in processes
 * of their own (waiting.c), and so are those that read all the time.
 */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/pass-fd.h"
#include "attackers.h"
#include "waiting.h"

/* Timers in each call. */
#define BATCH			4096U
/* Contexts that the attackers' own process reads in each millisecond. */
#define TAKE_AT_ONCE		128U
/* Events of each read(). */
#define READ_EVENTS		1024U
/* More than starting or moving a timer takes, at one instruction per ns. */
#define START_NS		300U
#define SETTLE			(150 * MSEC)
/* Delay of disarmed timers. */
#define FAR			(3600 * SEC)
/*
 * Longer than moving a million timers takes, expired ones included, beside a
 * busy task.
 */
#define BURST_AHEAD		(900 * MSEC)
#define BURST_PERIOD		(1500 * MSEC)
#define REOPEN_PERIOD		(500 * MSEC)
/* Longer than 100,000 contexts are opened, beside a busy task, and closed. */
#define EXIT_PERIOD		(4 * SEC)
/* Also the tick: deadlines come in the middle of it. */
#define STORM_PERIOD		SEC
/* Vectors after that. */
#define STORM_CALLS		64U
#define STORM_BATCH		256U

/* Uids that no other process uses. Each attack has its own. */
#define FIRST_UID		20000U
#define FIRST_SUBUID		100000U

/**
 * struct attacker - a context
 * @uid: the user who opens it
 * @shape: its clock, tick and interval
 * @fd: its descriptor
 * @write_fd: the other end of a pipe, or -1
 * @ids: ids of its timers
 */
struct attacker {
	uid_t uid;
	struct attack_context shape;
	int fd;
	int write_fd;
	uint64_t *ids;
};

/**
 * struct attackers_read - what has been read
 * @expired: expirations
 * @early: expirations that were early
 */
struct attackers_read {
	uint64_t expired;
	uint64_t early;
};

/**
 * struct attackers - all contexts of an attack
 * @a: the attack
 * @count: number of contexts
 * @each: the contexts
 * @armed: whether timers that are started are due soon
 * @manual: whether there is a manual clock to advance
 * @next: the next context to read
 * @again: time of the next periodic action (reopening, bursts)
 * @worked: CPU time that this process has used so far, in ns
 * @waiting: who waits for the contexts
 * @pids: the processes that get SIGIO; the first one leads their group
 * @readers: processes that read, one for each user
 * @reader_count: number of those
 * @holder: the process that has the contexts open (%ATTACK_EXIT)
 * @held_ns: CPU time of those before it
 * @read: what this process and those have read; shared with them
 */
struct attackers {
	const struct attack *a;
	unsigned int count;
	struct attacker *each;
	bool armed;
	bool manual;
	unsigned int next;
	uint64_t again;
	uint64_t worked;
	struct waiting *waiting;
	pid_t *pids;
	pid_t *readers;
	unsigned int reader_count;
	pid_t holder;
	uint64_t held_ns;
	struct attackers_read *read;
};

static void become(uid_t uid)
{
	/* Keep the saved uid, to return to it. No capability is effective meanwhile. */
	if (setresuid(uid, uid, 0))
		die("cannot become user %u: %s", uid, strerror(errno));
}

static void start_group(struct attackers *all)
{
	sigset_t sigio;
	unsigned int i;
	pid_t pid;

	all->pids = calloc(all->a->group + 1, sizeof(*all->pids));
	if (!all->pids)
		die("no memory");
	/* Blocked: a process that handles the signal would use CPU time of its own. */
	sigemptyset(&sigio);
	sigaddset(&sigio, SIGIO);
	for (i = 0; i < all->a->group; i++) {
		pid = fork();
		if (pid < 0)
			die("cannot fork: %s", strerror(errno));
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			sigprocmask(SIG_BLOCK, &sigio, NULL);
			become(all->each[0].uid);
			for (;;)
				pause();
		}
		all->pids[i] = pid;
		if (setpgid(pid, all->pids[0]))
			die("setpgid: %s", strerror(errno));
	}
}

/* Has a process a signal pending, which it blocks? */
static bool has_pending(pid_t pid, int signal)
{
	unsigned long long pending = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		die("cannot open %s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file) && sscanf(line, "ShdPnd: %llx", &pending) != 1)
		;
	fclose(file);
	return pending >> (signal - 1) & 1;
}

unsigned int attackers_unsignalled(const struct attackers *all)
{
	unsigned int count = 0, i;

	for (i = 0; i < all->a->group; i++)
		count += !has_pending(all->pids[i], SIGIO);
	return count;
}

static void end_group(struct attackers *all)
{
	if (all->a->group)
		kill(-all->pids[0], SIGKILL);
	while (all->a->group && waitpid(-all->pids[0], NULL, 0) > 0)
		;
	free(all->pids);
}

/* As @at's user, create a user namespace and open the device under each of its uids. */
static void open_by_subuids(struct attackers *all, int sock)
{
	char byte;
	unsigned int i;
	int fd;

	if (setresuid(all->each[0].uid, all->each[0].uid, all->each[0].uid) ||
	    unshare(CLONE_NEWUSER))
		die("cannot create a user namespace: %s", strerror(errno));
	/* The parent maps the uids. */
	if (write(sock, "", 1) != 1 || read(sock, &byte, 1) != 1)
		die("no uid is mapped in the user namespace");
	for (i = 0; i < all->count; i++) {
		if (setresuid(i, i, 0))
			die("cannot become subordinate uid %u: %s", i, strerror(errno));
		fd = htw_open(O_NONBLOCK);
		if (fd < 0 || !htw_send_fd(sock, fd))
			die("subordinate uid %u cannot open /dev/htw: %s", i, strerror(errno));
		close(fd);
		if (setresuid(0, 0, 0))
			die("cannot return to the namespace's root: %s", strerror(errno));
	}
	_exit(0);
}

static void open_subuids(struct attackers *all)
{
	char path[64], map[64], byte;
	int socks[2], fd, len, status;
	unsigned int i;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks))
		die("socketpair: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		die("cannot fork: %s", strerror(errno));
	if (!pid)
		open_by_subuids(all, socks[1]);
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	len = snprintf(map, sizeof(map), "0 %u %u", FIRST_SUBUID, all->count);
	if (read(socks[0], &byte, 1) != 1)
		die("cannot create a user namespace");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, len) != len || write(socks[0], "", 1) != 1)
		die("cannot write %s: %s", path, strerror(errno));
	close(fd);
	for (i = 0; i < all->count; i++) {
		all->each[i].fd = htw_receive_fd(socks[0]);
		if (all->each[i].fd < 0)
			die("the process in the namespace opened %u of %u", i, all->count);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		die("the process in the namespace failed");
	close(socks[0]);
	close(socks[1]);
}

static bool is_manual(const struct attacker *at)
{
	return at->shape.clock == (int)HTW_CLOCK_MANUAL;
}

static bool is_prime(uint32_t n)
{
	uint32_t i;

	for (i = 2; i * i <= n; i++)
		if (!(n % i))
			return false;
	return true;
}

/* A tick of its own for each context of a user, of which one is due in about each tick. */
static void choose_primes(struct attackers *all)
{
	uint32_t tick = 0;
	unsigned int i;

	for (i = 0; i < all->count; i++) {
		struct attack_context *shape = &all->each[i].shape;

		if (!(i % all->a->contexts))
			tick = shape->tick_ns;
		while (!is_prime(++tick))
			;
		shape->tick_ns = tick;
		shape->interval_ns = (uint64_t)tick * all->a->contexts;
	}
}

struct attackers *attackers_prepare(const struct attack *a)
{
	const struct rlimit files = { 1 << 17, 1 << 17 };
	struct attackers *all = calloc(1, sizeof(*all));
	const unsigned int users = a->users ? a->users : 1;
	unsigned int i;

	if (all) {
		all->a = a;
		all->count = users * a->contexts;
		all->armed = true;
		all->each = calloc(all->count, sizeof(*all->each));
	}
	if (!all || (all->count && !all->each))
		die("no memory");
	all->waiting = waiting_prepare(&a->waiting, all->count);
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("cannot raise RLIMIT_NOFILE: %s", strerror(errno));
	for (i = 0; i < all->count; i++) {
		struct attacker *at = &all->each[i];

		at->uid = a->users ? FIRST_UID + 100 * (a - attacks) + i / a->contexts : 0;
		at->shape.clock = CLOCK_MONOTONIC;
		if (a->shape)
			at->shape = a->shape[i % a->contexts % a->shapes];
		all->manual |= is_manual(at);
		at->fd = -1;
		at->write_fd = -1;
	}
	if (a->traits & ATTACK_PRIMES)
		choose_primes(all);
	all->readers = calloc(users, sizeof(*all->readers));
	all->read = mmap(NULL, sizeof(*all->read), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!all->readers || all->read == MAP_FAILED)
		die("no memory");
	start_group(all);
	return all;
}

/* Convert a CLOCK_MONOTONIC time to the attacker's clock. A manual one is advanced to that. */
static uint64_t on_clock(const struct attacker *at, uint64_t when)
{
	if (is_manual(at))
		return when;
	return clock_ns(at->shape.clock) - now_ns() + when;
}

static uint64_t interval_of(const struct attacker *at)
{
	if (at->shape.interval_ns)
		return at->shape.interval_ns;
	return at->shape.tick_ns ? at->shape.tick_ns : MSEC;
}

static void advance(const struct attacker *at)
{
	struct htw_advance_args to = { .ns = now_ns(), .flags = HTW_F_ABS };

	if (ioctl(at->fd, HTW_ADVANCE, &to))
		die("HTW_ADVANCE: %s", strerror(errno));
}

/* What is measured for comparison. */
static void attacker_open_other(const struct attack *a, struct attacker *at)
{
	int ends[2];

	if (a->source == ATTACK_TIMERFD) {
		at->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	} else if (!pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		at->fd = ends[0];
		at->write_fd = ends[1];
	}
	if (at->fd < 0)
		die("cannot open a timerfd or a pipe: %s", strerror(errno));
}

static void attacker_open(const struct attackers *all, struct attacker *at)
{
	const struct attack *a = all->a;
	struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK,
		.clock = at->shape.clock,
		.tick_ns = at->shape.tick_ns,
	};

	if (a->source != ATTACK_HTW) {
		attacker_open_other(a, at);
		return;
	}
	if (at->uid)
		become(at->uid);
	/* The process in the user namespace has opened it already. */
	if (at->fd < 0)
		at->fd = htw_open(O_NONBLOCK);
	if (at->fd < 0)
		die("user %u cannot open /dev/htw: %s", at->uid, strerror(errno));
	if (ioctl(at->fd, HTW_SETUP, &setup))
		die("HTW_SETUP: %s", strerror(errno));
	if (at->uid && setresuid(0, 0, 0))
		die("cannot return to root: %s", strerror(errno));
	if (is_manual(at))
		advance(at);
}

static void arm_timerfd(const struct attack *a, const struct attacker *at, uint64_t due)
{
	const uint64_t interval = a->traits & ATTACK_LOOP ? 0 : interval_of(at);
	const struct itimerspec when = {
		.it_value = { due / SEC, due % SEC },
		.it_interval = { interval / SEC, interval % SEC },
	};

	if (timerfd_settime(at->fd, TFD_TIMER_ABSTIME, &when, NULL))
		die("timerfd_settime: %s", strerror(errno));
}

static void attacker_vector(const struct attack *a, const struct attacker *at, unsigned int op,
			    uint64_t due)
{
	static uint64_t deadlines[BATCH], spare[BATCH];
	struct htw_vector_args v = {
		.op = op,
		.deadlines = (uintptr_t)deadlines,
		.flags = HTW_F_ABS,
	};
	uint64_t deadline = on_clock(at, due);
	uint32_t first, i;

	if (a->source == ATTACK_TIMERFD)
		arm_timerfd(a, at, due);
	if (a->source != ATTACK_HTW)
		return;
	if (op == HTW_OP_MOD)
		v.flags |= HTW_MOD_DEADLINE;
	else if (!(a->traits & (ATTACK_BURST | ATTACK_STORM)))
		v.interval = interval_of(at);
	for (i = 0; i < BATCH && i < a->timers; i++)
		deadlines[i] = deadline;
	for (first = 0; first < a->timers; first += v.done) {
		v.count = a->timers - first < BATCH ? a->timers - first : BATCH;
		v.ids = (uintptr_t)(at->ids ? at->ids + first : spare);
		if (ioctl(at->fd, HTW_VECTOR, &v) || v.failed || !v.done)
			die("HTW_VECTOR: %u of %u done, %u failed: %s", v.done, v.count,
			    v.failed, strerror(errno));
	}
}

static void ask_for_sigio(const struct attackers *all)
{
	unsigned int i;

	if (!all->a->group)
		return;
	for (i = 0; i < all->count; i++) {
		const struct attacker *at = &all->each[i];

		/* As root: the group's processes are of the first user. */
		if (fcntl(at->fd, F_SETOWN, -all->pids[0]) ||
		    fcntl(at->fd, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC))
			die("F_SETOWN or F_SETFL: %s", strerror(errno));
	}
}

static void start_waiting(const struct attackers *all)
{
	const struct attack_waiting *how = &all->a->waiting;
	unsigned int i;

	for (i = 0; i < all->count; i++)
		if (!how->contexts || i % all->a->contexts < how->contexts)
			waiting_add(all->waiting, all->each[i].uid, all->each[i].fd);
	waiting_begin(all->waiting);
}

static void note_events(struct attackers_read *read, const struct htw_event *events, int n)
{
	int i;

	read->expired += n;
	for (i = 0; i < n; i++)
		read->early += events[i].taken < events[i].deadline;
}

/* Read a descriptor; is there perhaps more? */
static bool read_once(const struct attackers *all, int fd)
{
	static struct htw_event events[READ_EVENTS];
	const ssize_t got = read(fd, events, sizeof(events));

	if (got < 0 && errno != EAGAIN)
		die("read: %s", strerror(errno));
	if (got <= 0)
		return false;
	if (all->a->source != ATTACK_HTW) {
		all->read->expired++;
		return false;
	}
	note_events(all->read, events, got / sizeof(*events));
	return got == sizeof(events);
}

/*
 * In a process of its own: read contexts @first to @last - 1 whenever they become ready.
 * Edge-triggered: a set of 100,000 level-triggered entries is searched in vain after they were
 * read, which takes 20 ms without a preemption point.
 */
static void read_forever(const struct attackers *all, unsigned int first, unsigned int last)
{
	const struct sched_param none = { 0 };
	const uid_t uid = all->each[first].uid;
	struct epoll_event ready[64];
	const int epfd = epoll_create1(EPOLL_CLOEXEC);
	unsigned int i;
	int n, k;

	for (i = first; i < last; i++) {
		struct epoll_event event = {
			.events = EPOLLIN | EPOLLET, .data.fd = all->each[i].fd,
		};

		if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, all->each[i].fd, &event))
			die("epoll: %s", strerror(errno));
	}
	if (sched_setscheduler(0, SCHED_OTHER, &none) || setresuid(uid, uid, uid))
		die("a reader cannot become ordinary: %s", strerror(errno));
	/* Changing the uid has cleared it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		n = epoll_wait(epfd, ready, 64, -1);
		for (k = 0; k < n; k++)
			while (read_once(all, ready[k].data.fd))
				;
	}
}

/* In a process of its own: let a context become readable, and read it, again and again. */
static void loop_forever(const struct attackers *all, const struct attacker *at)
{
	const struct sched_param none = { 0 };

	if (sched_setscheduler(0, SCHED_OTHER, &none) || setresuid(at->uid, at->uid, at->uid))
		die("a reader cannot become ordinary: %s", strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		if (all->a->source == ATTACK_HTW && !htw_start(at->fd, 0, 0))
			die("HTW_ADD: %s", strerror(errno));
		if (all->a->source == ATTACK_TIMERFD)
			arm_timerfd(all->a, at, 1);
		if (all->a->source == ATTACK_PIPE && write(at->write_fd, "12345678", 8) != 8)
			die("write: %s", strerror(errno));
		read_once(all, at->fd);
	}
}

/* Who reads all the time: a process for each user. */
static void start_readers(struct attackers *all)
{
	const struct attack *a = all->a;
	unsigned int first;
	pid_t pid;

	if (!(a->traits & (ATTACK_READ | ATTACK_LOOP)))
		return;
	for (first = 0; first < all->count; first += a->contexts) {
		pid = fork();
		if (pid < 0)
			die("cannot fork: %s", strerror(errno));
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (a->traits & ATTACK_LOOP)
				loop_forever(all, &all->each[first]);
			read_forever(all, first, first + a->contexts);
		}
		all->readers[all->reader_count++] = pid;
	}
}

static void end_readers(struct attackers *all)
{
	unsigned int i;

	for (i = 0; i < all->reader_count; i++)
		kill(all->readers[i], SIGKILL);
	for (i = 0; i < all->reader_count; i++)
		waitpid(all->readers[i], NULL, 0);
	free(all->readers);
}

static uint64_t process_worked(pid_t pid)
{
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock))
		die("a process of the attack has ended");
	return clock_ns(clock);
}

static uint64_t readers_worked(const struct attackers *all)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < all->reader_count; i++)
		sum += process_worked(all->readers[i]);
	return sum;
}

/* The module's parameter, or 0. */
static unsigned long long max_user_timers(void)
{
	FILE *file = fopen("/sys/module/htw/parameters/max_user_timers", "re");
	unsigned long long value = 0;

	if (file) {
		if (fscanf(file, "%llu", &value) != 1)
			value = 0;
		fclose(file);
	}
	return value;
}

const char *attack_missing(const struct attack *a)
{
	static char why[128];
	/* A context's first page of timers, or what all of its timers take. */
	const unsigned long long each = a->timers < 16 ? 16 : a->timers / 63 * 64 + 64;
	const unsigned long long slots = a->contexts * each;

	if (a->source != ATTACK_HTW)
		return NULL;
	if (max_user_timers() < slots) {
		snprintf(why, sizeof(why), "needs max_user_timers=%llu", slots);
		return why;
	}
	return NULL;
}

/* In a process of its own: open all contexts, start their timers, and keep them. */
static void hold_forever(struct attackers *all, int tell)
{
	const struct sched_param none = { 0 };
	unsigned int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_OTHER, &none))
		die("cannot become ordinary: %s", strerror(errno));
	for (i = 0; i < all->count; i++) {
		attacker_open(all, &all->each[i]);
		attacker_vector(all->a, &all->each[i], HTW_OP_ADD,
				now_ns() + (all->armed ? SEC : FAR));
	}
	if (write(tell, "", 1) != 1)
		die("write: %s", strerror(errno));
	for (;;)
		pause();
}

/* Start the process that holds the contexts; with @wait return when it has opened them. */
static void start_holder(struct attackers *all, bool wait)
{
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	all->holder = fork();
	if (all->holder < 0)
		die("cannot fork: %s", strerror(errno));
	if (!all->holder)
		hold_forever(all, ends[1]);
	close(ends[1]);
	if (wait && read(ends[0], &byte, 1) != 1)
		die("the process that holds the contexts has ended");
	close(ends[0]);
}

static void end_holder(struct attackers *all)
{
	struct rusage used;

	kill(all->holder, SIGKILL);
	if (wait4(all->holder, NULL, 0, &used) != all->holder)
		die("wait4: %s", strerror(errno));
	all->held_ns += (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * SEC +
			(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * USEC;
}

uint64_t attackers_start(struct attackers *all)
{
	const struct attack *a = all->a;
	uint64_t due;
	unsigned int i;

	if (a->traits & ATTACK_EXIT) {
		start_holder(all, true);
		all->again = now_ns() + EXIT_PERIOD;
		return now_ns();
	}
	if (a->traits & ATTACK_SUBUIDS)
		open_subuids(all);
	for (i = 0; i < all->count; i++) {
		struct attacker *at = &all->each[i];

		attacker_open(all, at);
		if (!(a->traits & ATTACK_REOPEN)) {
			at->ids = calloc(a->timers, sizeof(*at->ids));
			if (!at->ids)
				die("no memory");
			/* Touch all pages before the clock is read. */
			memset(at->ids, 0xff, a->timers * sizeof(*at->ids));
		}
	}
	ask_for_sigio(all);
	if (a->waiting.entries || a->waiting.tasks || a->waiting.requests)
		start_waiting(all);
	start_readers(all);
	/* Leave time for work that the kernel has deferred. */
	due = now_ns() + SETTLE + (uint64_t)all->count * (a->timers * START_NS + 5 * USEC);
	due += MSEC - due % MSEC;
	if (a->traits & ATTACK_STORM)
		due += STORM_PERIOD - due % STORM_PERIOD;
	for (i = 0; i < all->count; i++)
		attacker_vector(a, &all->each[i], HTW_OP_ADD,
				(a->traits & ATTACK_STORM ? due + FAR : due) +
				i % a->contexts * a->stagger_ns);
	if (all->count && now_ns() > due)
		die("starting %u timers took too long", all->count * a->timers);
	all->again = a->traits & ATTACK_STORM ? due : due + attackers_period(all);
	return due;
}

/* Read a context once. A pipe is written to first. */
static void take(const struct attackers *all, const struct attacker *at)
{
	if (at->write_fd >= 0 && all->armed && write(at->write_fd, "", 1) != 1)
		die("write: %s", strerror(errno));
	read_once(all, at->fd);
}

static void reopen(struct attackers *all)
{
	struct attacker *at = &all->each[0];

	close(at->fd);
	at->fd = -1;
	attacker_open(all, at);
	attacker_vector(all->a, at, HTW_OP_ADD, all->armed ? now_ns() + MSEC : now_ns() + FAR);
}

/*
 * Let the deadlines of all timers come in the middle of a tick, whose end they wait for unless
 * another is started that must not overtake them. Then start others, in vectors.
 */
static void storm(const struct attackers *all, uint64_t now)
{
	static uint64_t deadlines[STORM_BATCH];
	const struct attacker *at = &all->each[0];
	const uint64_t due = now - now % STORM_PERIOD + STORM_PERIOD / 2;
	unsigned int i;

	attacker_vector(all->a, at, HTW_OP_MOD, all->armed ? due : now + FAR);
	if (all->armed && now_ns() > due)
		die("moving %u timers took too long", all->a->timers);
	sleep_until(due);
	for (i = 0; i < STORM_CALLS && all->armed; i++) {
		struct htw_vector_args v = {
			.op = HTW_OP_MOD,
			.ids = (uintptr_t)at->ids,
			.deadlines = (uintptr_t)deadlines,
			.count = STORM_BATCH,
			.flags = HTW_MOD_DEADLINE,
		};

		if (ioctl(at->fd, HTW_VECTOR, &v) || v.failed || v.done != STORM_BATCH)
			die("HTW_VECTOR: %u failed: %s", v.failed, strerror(errno));
	}
}

/* The periodic action. */
static void repeat(struct attackers *all, uint64_t now)
{
	if (all->a->traits & ATTACK_REOPEN) {
		reopen(all);
	} else if (all->a->traits & ATTACK_EXIT) {
		end_holder(all);
		start_holder(all, false);
	} else if (all->a->traits & ATTACK_STORM) {
		storm(all, now);
	} else {
		attacker_vector(all->a, &all->each[0], HTW_OP_MOD,
				now + (all->armed ? BURST_AHEAD : FAR));
	}
}

/* What may take long, at normal priority. */
static void run_slowly(struct attackers *all, uint64_t now)
{
	struct sched_param priority, none = { 0 };
	const int policy = sched_getscheduler(0);
	unsigned int i;

	if (policy < 0 || sched_getparam(0, &priority) || sched_setscheduler(0, SCHED_OTHER, &none))
		die("cannot drop the priority: %s", strerror(errno));
	for (i = 0; i < all->count; i++)
		if (is_manual(&all->each[i]))
			advance(&all->each[i]);
	if (attackers_period(all) && now >= all->again) {
		all->again += attackers_period(all);
		repeat(all, now);
	}
	if (sched_setscheduler(0, policy, &priority))
		die("cannot restore the priority: %s", strerror(errno));
}

static void run_once(struct attackers *all, uint64_t now)
{
	unsigned int count = all->count < TAKE_AT_ONCE ? all->count : TAKE_AT_ONCE;
	const bool is_woken = waiting_is_woken(all->waiting);

	if (!(all->a->traits & ATTACK_TAKE))
		count = 0;
	for (; count; count--) {
		take(all, &all->each[all->next]);
		all->next = all->next + 1 == all->count ? 0 : all->next + 1;
	}
	if (is_woken)
		waiting_exchange(all->waiting);
	if (all->manual || (attackers_period(all) && now >= all->again))
		run_slowly(all, now);
}

uint64_t attackers_own(const struct attackers *all)
{
	return all->worked;
}

uint64_t attackers_worked(const struct attackers *all)
{
	return all->worked + waiting_worked(all->waiting) + readers_worked(all) + all->held_ns +
	       (all->holder ? process_worked(all->holder) : 0);
}

uint64_t attackers_period(const struct attackers *all)
{
	if (all->a->traits & ATTACK_BURST)
		return BURST_PERIOD;
	if (all->a->traits & ATTACK_STORM)
		return STORM_PERIOD;
	if (all->a->traits & ATTACK_EXIT)
		return EXIT_PERIOD;
	return all->a->traits & ATTACK_REOPEN ? REOPEN_PERIOD : 0;
}

void attackers_run(struct attackers *all, uint64_t until)
{
	uint64_t begin, now;

	for (now = now_ns(); now < until; now = now_ns()) {
		begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		run_once(all, now);
		all->worked += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
		now = now_ns();
		/* Wake up between two ticks, when no timers are due. */
		sleep_until(now - now % MSEC + MSEC + MSEC / 2);
	}
}

void attackers_disarm(struct attackers *all)
{
	unsigned int i;

	all->armed = false;
	for (i = 0; i < all->reader_count && all->a->traits & ATTACK_LOOP; i++)
		kill(all->readers[i], SIGSTOP);
	if (all->a->traits & ATTACK_REOPEN) {
		reopen(all);
	} else if (!(all->a->traits & ATTACK_EXIT)) {
		for (i = 0; i < all->count; i++)
			attacker_vector(all->a, &all->each[i], HTW_OP_MOD, now_ns() + FAR);
	}
}

uint64_t attackers_expired(const struct attackers *all)
{
	return all->read->expired;
}

uint64_t attackers_early(const struct attackers *all)
{
	return all->read->early;
}

/* Cancel all of a context's timers; return how many it had. */
static uint64_t attacker_stop(const struct attack *a, const struct attacker *at)
{
	struct htw_cancel_all_args cancel = { 0 };

	if (a->source != ATTACK_HTW)
		return a->timers;
	if (ioctl(at->fd, HTW_CANCEL_ALL, &cancel))
		die("HTW_CANCEL_ALL: %s", strerror(errno));
	return cancel.count;
}

int64_t attackers_end(struct attackers *all)
{
	int64_t lost = all->holder ? 0 : (int64_t)all->count * all->a->timers;
	unsigned int i;

	end_group(all);
	waiting_end(all->waiting);
	end_readers(all);
	if (all->holder)
		end_holder(all);
	for (i = 0; i < all->count && !all->holder; i++) {
		struct attacker *at = &all->each[i];

		/* What was started and not read when its reader ended. */
		if (all->a->traits & ATTACK_LOOP)
			read_once(all, at->fd);
		lost -= attacker_stop(all->a, at);
		close(at->fd);
		if (at->write_fd >= 0)
			close(at->write_fd);
		free(at->ids);
	}
	munmap(all->read, sizeof(*all->read));
	free(all->each);
	free(all);
	return lost;
}
