// SPDX-License-Identifier: GPL-2.0-only
/*
 * The attackers' side of an attack
 *
 * All attackers are one process, which opens the device under each user's uid
 * in turn: timers are charged to the opener. So their work in user space takes
 * next to no CPU time. The process has a real-time priority, so that the time
 * between two looks at a ring does not depend on the scheduler. For longer work
 * it drops that priority: it would otherwise keep softirqs waiting where they
 * run in threads (PREEMPT_RT).
 */
#include <linux/htw.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../common/clock.h"
#include "../common/htw-client.h"
#include "../common/pass-fd.h"
#include "attackers.h"


#define PAGE			4096UL
/* Timers in each call. */
#define BATCH			4096U
/* Rings emptied in each millisecond, and events checked in each of them. */
#define RINGS_AT_ONCE		128U
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

#define WAITERS			10000U
#define NESTED			500U
#define GROUP			500U

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
	struct htw_ring *ring;
	uint32_t head;
	uint64_t *table;
	uint64_t words;
	uint64_t *ids;
};

/**
 * struct attackers - all contexts of an attack
 * @a: the attack
 * @count: number of contexts
 * @each: the contexts
 * @armed: whether timers that are started are due soon
 * @next: the next ring to empty
 * @again: time of the next periodic action (reopening, bursts)
 * @worked: CPU time used so far, in ns
 * @expired: expirations seen
 * @early: expirations that were early
 * @epfds: epoll sets
 * @epfd_count: number of epoll sets
 * @dups: duplicates of the descriptor
 * @dup_count: number of duplicates
 * @group: the process group that gets SIGIO, or 0
 */
struct attackers {
	const struct attack *a;
	unsigned int count;
	struct attacker *each;
	bool armed;
	unsigned int next;
	uint64_t again;
	uint64_t worked;
	uint64_t expired;
	uint64_t early;
	int *epfds;
	unsigned int epfd_count;
	int *dups;
	unsigned int dup_count;
	pid_t group;
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

	/* Blocked: a process that handles the signal would use CPU time of its own. */
	sigemptyset(&sigio);
	sigaddset(&sigio, SIGIO);
	for (i = 0; i < GROUP; i++) {
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
		if (!all->group)
			all->group = pid;
		if (setpgid(pid, all->group))
			die("setpgid: %s", strerror(errno));
	}
}

static void end_group(struct attackers *all)
{
	if (!all->group)
		return;
	kill(-all->group, SIGKILL);
	while (waitpid(-all->group, NULL, 0) > 0)
		;
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
		all->epfds = calloc(all->count + NESTED, sizeof(*all->epfds));
	}
	if (!all || !all->epfds || (all->count && !all->each))
		die("no memory");
	if (setrlimit(RLIMIT_NOFILE, &files))
		die("cannot raise RLIMIT_NOFILE: %s", strerror(errno));
	for (i = 0; i < all->count; i++) {
		struct attacker *at = &all->each[i];

		at->uid = a->users ? FIRST_UID + 100 * (a - attacks) + i / a->contexts : 0;
		at->shape.clock = CLOCK_MONOTONIC;
		if (a->shape)
			at->shape = a->shape[i % a->contexts % a->shapes];
		at->fd = -1;
	}
	if (a->traits & ATTACK_SIGIO)
		start_group(all);
	return all;
}

/* Convert a CLOCK_MONOTONIC time to the attacker's clock. */
static uint64_t on_clock(const struct attacker *at, uint64_t when)
{
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

static void attacker_open(const struct attack *a, struct attacker *at)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK,
		.clock = at->shape.clock,
		.ring_entries = a->ring_entries,
	};

	if (a->ring_entries)
		setup.flags |= HTW_SETUP_RING;
	if (at->shape.tick_ns) {
		setup.flags |= HTW_SETUP_PRIVATE;
		setup.tick_ns = at->shape.tick_ns;
		setup.levels = 2;
		setup.slots[0] = 64;
		setup.slots[1] = 64;
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
	if (a->ring_entries)
		at->ring = map(at->fd, ring_bytes(a->ring_entries), HTW_OFF_RING);
	at->head = 0;
	if (a->traits & ATTACK_TABLE) {
		/* 64 entries for each page of 63 timers. */
		at->words = (a->timers + 62) / 63 * 64;
		at->words = (at->words * 8 + PAGE - 1) / PAGE * PAGE / 8;
		at->table = map(at->fd, at->words * 8, HTW_OFF_TABLE);
	}
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

	if (op == HTW_OP_MOD)
		v.flags |= HTW_MOD_DEADLINE;
	else if (!(a->traits & ATTACK_BURST))
		v.interval = at->shape.tick_ns ? at->shape.tick_ns : MSEC;
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

static void watch(int epfd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll_ctl: %s", strerror(errno));
}

static int new_set(struct attackers *all)
{
	const int epfd = epoll_create1(EPOLL_CLOEXEC);

	if (epfd < 0)
		die("epoll_create1: %s", strerror(errno));
	all->epfds[all->epfd_count++] = epfd;
	return epfd;
}

static void add_waiters(struct attackers *all)
{
	const int epfd = new_set(all), fd = all->each[0].fd;
	unsigned int i;

	all->dups = calloc(WAITERS, sizeof(*all->dups));
	if (!all->dups)
		die("no memory");
	watch(epfd, fd);
	for (i = 1; i < WAITERS; i++) {
		all->dups[i] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (all->dups[i] < 0)
			die("dup: %s", strerror(errno));
		all->dup_count++;
		watch(epfd, all->dups[i]);
	}
}

/* An epoll set for each context, and sets that watch all of these. */
static void add_nested(struct attackers *all)
{
	unsigned int i, k;

	for (i = 0; i < all->count; i++)
		watch(new_set(all), all->each[i].fd);
	for (k = 0; k < NESTED; k++) {
		const int epfd = new_set(all);

		for (i = 0; i < all->count; i++)
			watch(epfd, all->epfds[i]);
	}
}

static void ask_for_sigio(struct attackers *all)
{
	struct attacker *at = &all->each[0];

	become(at->uid);
	if (fcntl(at->fd, F_SETOWN, -all->group) ||
	    fcntl(at->fd, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC))
		die("F_SETOWN or F_SETFL: %s", strerror(errno));
	if (setresuid(0, 0, 0))
		die("cannot return to root: %s", strerror(errno));
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

		attacker_open(a, at);
		if (!(a->traits & ATTACK_REOPEN)) {
			at->ids = calloc(a->timers, sizeof(*at->ids));
			if (!at->ids)
				die("no memory");
			/* Touch all pages before the clock is read. */
			memset(at->ids, 0xff, a->timers * sizeof(*at->ids));
		}
	}
	if (a->traits & ATTACK_WAITERS)
		add_waiters(all);
	if (a->traits & ATTACK_NESTED)
		add_nested(all);
	if (a->traits & ATTACK_SIGIO)
		ask_for_sigio(all);
	/* Leave time for work that the kernel has deferred. */
	due = now_ns() + SETTLE + (uint64_t)all->count * (a->timers * START_NS + 5 * USEC);
	due += MSEC - due % MSEC;
	for (i = 0; i < all->count; i++)
		attacker_vector(a, &all->each[i], HTW_OP_ADD, due);
	if (all->count && now_ns() > due)
		die("starting %u timers took too long", all->count * a->timers);
	all->again = due + attackers_period(all);
	return due;
}

static void take_ring(struct attackers *all, struct attacker *at)
{
	const uint32_t tail = __atomic_load_n(&at->ring->tail, __ATOMIC_ACQUIRE);
	const struct htw_event *events = (const struct htw_event *)(at->ring + 1);
	uint32_t i;

	all->expired += tail - at->head;
	for (i = at->head; i != tail && i - at->head < EVENTS_CHECKED; i++) {
		const struct htw_event *ev = &events[i & (all->a->ring_entries - 1)];

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

	munmap(at->ring, ring_bytes(all->a->ring_entries));
	close(at->fd);
	at->fd = -1;
	attacker_open(all->a, at);
	attacker_vector(all->a, at, HTW_OP_ADD, all->armed ? now_ns() + MSEC : now_ns() + FAR);
}

/* The periodic action, at normal priority. */
static void repeat(struct attackers *all, uint64_t now)
{
	struct sched_param priority, none = { 0 };
	const int policy = sched_getscheduler(0);

	if (policy < 0 || sched_getparam(0, &priority) || sched_setscheduler(0, SCHED_OTHER, &none))
		die("cannot drop the priority: %s", strerror(errno));
	if (all->a->traits & ATTACK_REOPEN)
		reopen(all);
	else
		attacker_vector(all->a, &all->each[0], HTW_OP_MOD,
				now + (all->armed ? BURST_AHEAD : FAR));
	if (sched_setscheduler(0, policy, &priority))
		die("cannot restore the priority: %s", strerror(errno));
}

static void run_once(struct attackers *all, uint64_t now)
{
	const struct attack *a = all->a;
	unsigned int rings = all->count < RINGS_AT_ONCE ? all->count : RINGS_AT_ONCE;
	unsigned int i;

	for (; rings && a->ring_entries; rings--) {
		take_ring(all, &all->each[all->next]);
		all->next = all->next + 1 == all->count ? 0 : all->next + 1;
	}
	for (i = 0; i < all->count && a->traits & ATTACK_TABLE; i++)
		store_table(&all->each[i], now);
	if (attackers_period(all) && now >= all->again) {
		all->again += attackers_period(all);
		repeat(all, now);
	}
}

uint64_t attackers_worked(const struct attackers *all)
{
	return all->worked;
}

uint64_t attackers_period(const struct attackers *all)
{
	if (all->a->traits & ATTACK_BURST)
		return BURST_PERIOD;
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
	return all->expired;
}

uint64_t attackers_early(const struct attackers *all)
{
	return all->early;
}

int64_t attackers_end(struct attackers *all)
{
	int64_t lost = (int64_t)all->count * all->a->timers;
	unsigned int i;

	end_group(all);
	for (i = 0; i < all->epfd_count; i++)
		close(all->epfds[i]);
	for (i = 0; i < all->dup_count; i++)
		close(all->dups[1 + i]);
	for (i = 0; i < all->count; i++) {
		struct htw_cancel_all cancel = { 0 };
		struct attacker *at = &all->each[i];

		if (ioctl(at->fd, HTW_CANCEL_ALL, &cancel))
			die("HTW_CANCEL_ALL: %s", strerror(errno));
		lost -= cancel.count;
		if (at->ring)
			munmap(at->ring, ring_bytes(all->a->ring_entries));
		if (at->table)
			munmap(at->table, at->words * 8);
		close(at->fd);
		free(at->ids);
	}
	free(all->epfds);
	free(all->dups);
	free(all->each);
	free(all);
	return lost;
}
