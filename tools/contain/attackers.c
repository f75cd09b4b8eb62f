// SPDX-License-Identifier: GPL-2.0-only
/*
 * The attackers' side of an attack
 *
 * All attackers are one process, which opens the device under each user's uid
 * in turn: timers are charged to the opener. So their work in user space takes
 * next to no CPU time. The process has a real-time priority, so that the time
 * between two looks at a ring does not depend on the scheduler. For longer work
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

#define PAGE			4096UL
/* Timers in each call. */
#define BATCH			4096U
/* Rings emptied, or read, in each millisecond, and events checked in each of them. */
#define RINGS_AT_ONCE		128U
/* Events of each read(). */
#define READ_EVENTS		1024U
#define EVENTS_CHECKED		4U
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
/* Also the tick: deadlines come in the middle of it. */
#define STORM_PERIOD		SEC
/* Vectors after that, of as many entries as htw takes at once. */
#define STORM_CALLS		64U
#define STORM_BATCH		256U

/*
 * Uids that no other process uses. Each attack has its own: a user's share may be
 * used up.
 */
#define FIRST_UID		20000U
#define FIRST_SUBUID		100000U

/**
 * struct attacker - a context
 * @uid: the user who opens it
 * @shape: its clock and wheel
 * @fd: its descriptor
 * @write_fd: the other end of a pipe, or -1
 * @ring: its ring, or NULL
 * @head: head of the ring
 * @table: its deadline table, or NULL
 * @words: entries of the table
 * @ids: ids of its timers
 */
struct attacker {
	uid_t uid;
	struct attack_context shape;
	int fd;
	int write_fd;
	struct htw_ring *ring;
	uint32_t head;
	uint64_t *table;
	uint64_t words;
	uint64_t *ids;
};

/**
 * struct attackers_read - what the processes that read have got
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
 * @next: the next ring to empty
 * @again: time of the next periodic action (reopening, bursts)
 * @worked: CPU time that this process has used so far, in ns
 * @expired: expirations seen
 * @early: expirations that were early
 * @waiting: who waits for the contexts
 * @pids: the processes that get SIGIO; the first one leads their group
 * @ring_entries: ring of each context; 0 if this htw has no rings
 * @polled: this process reads in place of emptying a ring
 * @readers: processes that read, one for each user
 * @reader_count: number of those
 * @read: what they have read; shared with them
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
	uint64_t expired;
	uint64_t early;
	struct waiting *waiting;
	pid_t *pids;
	uint32_t ring_entries;
	bool polled;
	pid_t *readers;
	unsigned int reader_count;
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

/* What this htw can do. */
static uint64_t features(void)
{
	const int fd = htw_open(O_NONBLOCK);
	struct htw_info info;

	if (fd < 0)
		die("cannot open /dev/htw: %s", strerror(errno));
	info = htw_info(fd);
	close(fd);
	return info.features;
}

static bool is_prime(uint32_t n)
{
	uint32_t i;

	for (i = 2; i * i <= n; i++)
		if (!(n % i))
			return false;
	return true;
}

/* A tick of its own for each context. */
static void choose_primes(struct attackers *all)
{
	uint32_t tick = all->count ? all->each[0].shape.tick_ns : 0;
	unsigned int i;

	for (i = 0; i < all->count; i++) {
		while (!is_prime(++tick))
			;
		all->each[i].shape.tick_ns = tick;
		all->each[i].shape.interval_ns = tick * 1000ULL;
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
	all->ring_entries = features() & HTW_FEATURE_RING ? a->ring_entries : 0;
	all->polled = a->source != ATTACK_HTW || (a->ring_entries && !all->ring_entries);
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

static size_t ring_bytes(uint32_t entries)
{
	return (sizeof(struct htw_ring) + entries * sizeof(struct htw_event) + PAGE - 1) & -PAGE;
}

static void *map(int fd, size_t size, uint64_t offset)
{
	/* Populate the mapping now, not while the attack is measured. */
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);

	if (p == MAP_FAILED)
		die("cannot map %zu bytes of /dev/htw: %s", size, strerror(errno));
	return p;
}

static uint64_t interval_of(const struct attacker *at)
{
	if (at->shape.interval_ns)
		return at->shape.interval_ns;
	return at->shape.tick_ns ? at->shape.tick_ns : MSEC;
}

static void advance(const struct attacker *at)
{
	struct htw_advance to = { .ns = now_ns(), .flags = HTW_F_ABS };

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

static struct htw_setup setup_of(const struct attack_context *shape, uint32_t ring_entries)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK,
		.clock = shape->clock,
		.ring_entries = ring_entries,
	};

	if (ring_entries)
		setup.flags |= HTW_SETUP_RING;
	if (shape->tick_ns) {
		setup.flags |= HTW_SETUP_PRIVATE;
		setup.tick_ns = shape->tick_ns;
		setup.levels = 2;
		setup.slots[0] = 64;
		setup.slots[1] = 64;
	}
	return setup;
}

static void attacker_open(const struct attackers *all, struct attacker *at)
{
	const struct attack *a = all->a;
	struct htw_setup setup = setup_of(&at->shape, all->ring_entries);

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
	if (all->ring_entries)
		at->ring = map(at->fd, ring_bytes(all->ring_entries), HTW_OFF_RING);
	at->head = 0;
	if (a->traits & ATTACK_TABLE) {
		/* 64 entries for each page of 63 timers. */
		at->words = (a->timers + 62) / 63 * 64;
		at->words = (at->words * 8 + PAGE - 1) / PAGE * PAGE / 8;
		at->table = map(at->fd, at->words * 8, HTW_OFF_TABLE);
	}
}

static void arm_timerfd(const struct attacker *at, uint64_t due)
{
	const uint64_t interval = interval_of(at);
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
	struct htw_vector v = {
		.op = op,
		.deadlines = (uintptr_t)deadlines,
		.flags = HTW_F_ABS,
	};
	uint64_t deadline = on_clock(at, due);
	uint32_t first, i;

	if (a->source == ATTACK_TIMERFD)
		arm_timerfd(at, due);
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
			waiting_add(all->waiting, all->each[i].uid, all->each[i].fd,
				    all->each[i].ring);
	waiting_begin(all->waiting);
}

static void note_events(struct attackers_read *read, const struct htw_event *events, int n)
{
	int i;

	read->expired += n;
	for (i = 0; i < n; i++)
		read->early += events[i].fired < events[i].deadline;
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

/* Who reads all the time: a process for each user. */
static void start_readers(struct attackers *all)
{
	const struct attack *a = all->a;
	const bool waited = a->waiting.entries || a->waiting.tasks || a->waiting.requests ||
			    a->group;
	unsigned int first;
	pid_t pid;

	/* A reader would keep what is closed and opened again: nobody reads that. */
	if (a->traits & ATTACK_REOPEN)
		all->polled = false;
	if (!(a->traits & ATTACK_READ) &&
	    (!a->ring_entries || all->ring_entries || waited || a->traits & ATTACK_REOPEN))
		return;
	all->polled = false;
	for (first = 0; first < all->count; first += a->contexts) {
		pid = fork();
		if (pid < 0)
			die("cannot fork: %s", strerror(errno));
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
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
	munmap(all->read, sizeof(*all->read));
	free(all->readers);
}

static uint64_t readers_worked(const struct attackers *all)
{
	uint64_t sum = 0;
	clockid_t clock;
	unsigned int i;

	for (i = 0; i < all->reader_count; i++) {
		if (clock_getcpuclockid(all->readers[i], &clock))
			die("a reader has ended");
		sum += clock_ns(clock);
	}
	return sum;
}

unsigned int attackers_readers(const struct attackers *all)
{
	return all->reader_count;
}

/* Can a user set up contexts of these shapes, as many as there are, but not more than 32? */
static const char *shape_missing(const struct attack *a)
{
	static char why[128];
	int fds[32], ret = 0;
	unsigned int n, i;

	if (chmod(HTW_DEVICE, 0666))
		die("cannot change the mode of /dev/htw: %s", strerror(errno));
	if (a->users)
		become(FIRST_UID - 1);
	for (n = 0; n < a->contexts && n < 32 && !ret; n++) {
		const struct htw_setup setup = setup_of(&a->shape[n % a->shapes], 0);

		fds[n] = htw_open(O_NONBLOCK);
		if (fds[n] < 0)
			die("cannot open /dev/htw: %s", strerror(errno));
		ret = htw_set_up(fds[n], setup);
	}
	for (i = 0; i < n; i++)
		close(fds[i]);
	if (a->users && setresuid(0, 0, 0))
		die("cannot return to root: %s", strerror(errno));
	if (!ret)
		return NULL;
	snprintf(why, sizeof(why), "a user cannot set up context %u: %s", n, strerror(-ret));
	return why;
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
	const unsigned long long slots = a->contexts * 64ULL;

	if (a->source != ATTACK_HTW)
		return NULL;
	if (a->traits & ATTACK_TABLE && !(features() & HTW_FEATURE_TABLE))
		return "this htw has no table of deadlines";
	if (max_user_timers() < slots) {
		snprintf(why, sizeof(why), "needs max_user_timers=%llu", slots);
		return why;
	}
	return a->shape ? shape_missing(a) : NULL;
}

uint64_t attackers_start(struct attackers *all)
{
	const struct attack *a = all->a;
	uint64_t due;
	unsigned int i;

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
				(a->traits & ATTACK_STORM ? due + FAR : due) + i * a->stagger_ns);
	if (all->count && now_ns() > due)
		die("starting %u timers took too long", all->count * a->timers);
	all->again = a->traits & ATTACK_STORM ? due : due + attackers_period(all);
	return due;
}

/* For comparison: write to a pipe, and empty it, or a timerfd. */
static void take_other(const struct attackers *all, const struct attacker *at)
{
	char bytes[8];

	if (at->write_fd >= 0 && all->armed && write(at->write_fd, "", 1) != 1)
		die("write: %s", strerror(errno));
	if (read(at->fd, bytes, sizeof(bytes)) < 0 && errno != EAGAIN)
		die("read: %s", strerror(errno));
}

/* In place of emptying a ring: read once. */
static void take_events(struct attackers *all, struct attacker *at)
{
	static struct htw_event events[READ_EVENTS];
	struct attackers_read got = { 0 };
	const int n = htw_read(at->fd, events, READ_EVENTS);

	if (n < 0 && n != -EAGAIN)
		die("read: %s", strerror(-n));
	if (n > 0)
		note_events(&got, events, n);
	all->expired += got.expired;
	all->early += got.early;
}

static void take_ring(struct attackers *all, struct attacker *at)
{
	const uint32_t tail = __atomic_load_n(&at->ring->tail, __ATOMIC_ACQUIRE);
	const struct htw_event *events = (const struct htw_event *)(at->ring + 1);
	uint32_t i;

	all->expired += tail - at->head;
	for (i = at->head; i != tail && i - at->head < EVENTS_CHECKED; i++) {
		const struct htw_event *ev = &events[i & (all->ring_entries - 1)];

		all->early += ev->fired < ev->deadline;
	}
	at->head = tail;
	__atomic_store_n(&at->ring->head, tail, __ATOMIC_RELEASE);
}

/* Make all timers due at the next tick. */
static void store_table(struct attacker *at, uint64_t now)
{
	typedef uint64_t words __attribute__((vector_size(64), aligned(8), may_alias));
	const uint64_t due = now - now % MSEC + 2 * MSEC;
	const words all_due = { due, due, due, due, due, due, due, due };
	uint64_t i;

	for (i = 0; i < at->words; i += 8)
		*(volatile words *)(at->table + i) = all_due;
}

static void reopen(struct attackers *all)
{
	struct attacker *at = &all->each[0];

	if (at->ring)
		munmap(at->ring, ring_bytes(all->ring_entries));
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
		struct htw_vector v = {
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
	if (all->a->traits & ATTACK_REOPEN)
		reopen(all);
	else if (all->a->traits & ATTACK_STORM)
		storm(all, now);
	else
		attacker_vector(all->a, &all->each[0], HTW_OP_MOD,
				now + (all->armed ? BURST_AHEAD : FAR));
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
	const struct attack *a = all->a;
	unsigned int rings = all->count < RINGS_AT_ONCE ? all->count : RINGS_AT_ONCE;
	unsigned int i;

	/* Tasks that wait, and are not idle, do this themselves. */
	if (!a->ring_entries || (a->waiting.tasks && !a->waiting.idle) || a->waiting.requests)
		rings = 0;
	if (!all->ring_entries && !(all->polled && a->source == ATTACK_HTW))
		rings = 0;
	for (; rings; rings--) {
		if (all->ring_entries)
			take_ring(all, &all->each[all->next]);
		else
			take_events(all, &all->each[all->next]);
		all->next = all->next + 1 == all->count ? 0 : all->next + 1;
	}
	for (i = 0; i < all->count; i++) {
		if (a->source != ATTACK_HTW && all->polled)
			take_other(all, &all->each[i]);
		if (a->traits & ATTACK_TABLE)
			store_table(&all->each[i], now);
	}
	if (all->manual || (attackers_period(all) && now >= all->again))
		run_slowly(all, now);
}

uint64_t attackers_worked(const struct attackers *all)
{
	return all->worked + waiting_worked(all->waiting) + readers_worked(all);
}

uint64_t attackers_period(const struct attackers *all)
{
	if (all->a->traits & ATTACK_BURST)
		return BURST_PERIOD;
	if (all->a->traits & ATTACK_STORM)
		return STORM_PERIOD;
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
	for (i = 0; i < all->count; i++) {
		if (all->a->traits & ATTACK_REOPEN)
			continue;
		attacker_vector(all->a, &all->each[i], HTW_OP_MOD, now_ns() + FAR);
	}
	if (all->a->traits & ATTACK_REOPEN)
		reopen(all);
}

uint64_t attackers_expired(const struct attackers *all)
{
	return all->expired + all->read->expired;
}

uint64_t attackers_early(const struct attackers *all)
{
	return all->early + all->read->early;
}

/* Cancel all of a context's timers, if this htw can do that by one call; return how many it had. */
static uint64_t attacker_stop(const struct attack *a, const struct attacker *at)
{
	struct htw_cancel_all cancel = { 0 };

	if (a->source != ATTACK_HTW)
		return a->timers;
	if (!ioctl(at->fd, HTW_CANCEL_ALL, &cancel))
		return cancel.count;
	if (errno != ENOTTY)
		die("HTW_CANCEL_ALL: %s", strerror(errno));
	return htw_timers(at->fd);
}

int64_t attackers_end(struct attackers *all)
{
	int64_t lost = (int64_t)all->count * all->a->timers;
	unsigned int i;

	end_group(all);
	waiting_end(all->waiting);
	end_readers(all);
	for (i = 0; i < all->count; i++) {
		struct attacker *at = &all->each[i];

		lost -= attacker_stop(all->a, at);
		if (at->ring)
			munmap(at->ring, ring_bytes(all->ring_entries));
		if (at->table)
			munmap(at->table, at->words * 8);
		close(at->fd);
		if (at->write_fd >= 0)
			close(at->write_fd);
		free(at->ids);
	}
	free(all->each);
	free(all);
	return lost;
}
