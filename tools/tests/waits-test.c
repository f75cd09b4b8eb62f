// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each way to wait for the device, one case after the other
 *
 * A process waits in one of the ways of the table, and the test changes what it
 * waits for: before it is woken, or between its wake-up and its read. Nothing
 * but the wake-up that is asked for makes good one that is lost: the test makes
 * no call on the descriptor while it waits for events. waiters-test.c has the
 * same at random.
 */
#include <liburing.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "htw-cgroup.h"
#include "htw-epoll.h"
#include "htw-fault.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT		0x00000008
#endif

#define CROWD			64U
#define ROOM			64U
#define COOKIES			32768U
/* With F_SETSIG. */
#define SIGNAL_NUMBER		(SIGRTMIN + 1)
/* Others read what one that was woken has not read within that time. */
#define READ_BY_OTHERS		SEC
/* The next one that blocks in read() is woken 4 ms after the first one; all, half a second. */
#define READ_BY_NEXT	(400 * MSEC)

enum kind {
	READ,
	POLL,
	LEVEL,
	EDGE,
	ONESHOT,
	EXCLUSIVE,
	NESTED,
	NESTED_EDGE,
	URING_READ,
	URING_POLL,
	URING_MULTISHOT,
	AIO,
	SIGNAL,
	KINDS,
};

/**
 * struct waiter - a process that waits
 * @pid: its id; 0 if there is none
 * @kind: how it waits
 * @waits: it is about to sleep, or sleeps
 * @epfd: the epoll set that it waits for
 * @inner: the epoll set that has the device
 * @ring: its io_uring
 * @armed: a request for that is under way
 * @aio: its aio context
 * @events: what it has read last
 *
 * In memory that it shares with the test: what a process that was killed had
 * read is there.
 */
struct waiter {
	pid_t pid;
	enum kind kind;
	bool waits;
	int epfd, inner;
	struct io_uring ring;
	bool armed;
	aio_context_t aio;
	struct htw_event events[ROOM];
};

/**
 * struct way - a way to wait
 * @begin: called once
 * @wait: sleep until there is something to read. Return: events that have been
 *	read; 0 if they are to be read; or a negative number if a signal came
 * @again: called when they have been read
 * @events: to look for in an epoll set
 * @takes: @wait reads
 * @drains: is told once for all events that there are
 */
struct way {
	bool (*begin)(struct waiter *w);
	int (*wait)(struct waiter *w);
	void (*again)(struct waiter *w);
	__u32 events;
	bool takes, drains;
};

static const struct way ways[KINDS];

/**
 * struct stage - what the test and those who wait share
 * @fd: the descriptor
 * @room: events in a read
 * @clock: of the context
 * @once: who has read something does not come back
 * @hold: who is woken does not go on
 * @stop: the first that is woken stops itself
 * @woken: how often one was woken
 * @empty: how often there was nothing to read
 * @taken: events that have been read
 * @not_before: no event has an earlier deadline
 * @latest: how late an event was read at most
 * @wrong: what has gone wrong first
 * @seen: how often an event with that cookie has been read
 * @waiters: all of them
 */
static struct stage {
	int fd;
	unsigned int room;
	clockid_t clock;
	bool once, hold, stop;
	__u32 woken, empty, taken;
	__u64 not_before, latest;
	char wrong[120];
	__u8 seen[COOKIES];
	struct waiter waiters[CROWD];
} *st;

#define load(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define count(p, n)	__atomic_fetch_add(p, n, __ATOMIC_ACQ_REL)

#define wrong(...) do {								\
	if (!load(&st->wrong[0]))						\
		snprintf(st->wrong, sizeof(st->wrong), __VA_ARGS__);		\
} while (0)

/* ---- those who wait ---- */

static void note_events(const struct waiter *w, int n)
{
	for (int i = 0; i < n; i++) {
		const struct htw_event *ev = &w->events[i];
		const __u64 late = ev->taken - ev->deadline;

		if (ev->taken < ev->deadline || clock_ns(st->clock) < ev->deadline)
			wrong("early by %lld ns", (long long)-late);
		if (ev->deadline < st->not_before)
			wrong("comes at its former deadline");
		if (ev->cookie >= COOKIES || count(&st->seen[ev->cookie], 1))
			wrong("cookie %llu comes twice, or is unknown", ev->cookie);
		if (late > load(&st->latest))
			store(&st->latest, late);
		count(&st->taken, 1);
	}
}

static int take(struct waiter *w)
{
	struct iovec iov = { w->events, st->room * sizeof(*w->events) };
	ssize_t n = preadv2(st->fd, &iov, 1, -1, RWF_NOWAIT);

	if (n < 0) {
		if (errno != EAGAIN)
			wrong("read: %s", strerror(errno));
		count(&st->empty, 1);
		return 0;
	}
	n /= sizeof(*w->events);
	note_events(w, n);
	return n;
}

static int wait_read(struct waiter *w)
{
	const int n = htw_read(st->fd, w->events, st->room);

	if (n < 0 && n != -EINTR)
		wrong("read: %s", strerror(-n));
	return n;
}

static int wait_poll(struct waiter *w __attribute__((unused)))
{
	struct pollfd pfd = { .fd = st->fd, .events = POLLIN };

	return poll(&pfd, 1, -1) == 1 ? 0 : -1;
}

static bool begin_epoll(struct waiter *w)
{
	w->inner = htw_watch(st->fd, ways[w->kind].events);
	w->epfd = w->inner;
	return w->epfd >= 0;
}

static bool begin_nested(struct waiter *w)
{
	if (!begin_epoll(w))
		return false;
	w->epfd = htw_watch(w->inner, ways[w->kind].events);
	return w->epfd >= 0;
}

static int wait_epoll(struct waiter *w)
{
	struct epoll_event event;

	return epoll_wait(w->epfd, &event, 1, -1) == 1 ? 0 : -1;
}

static int wait_nested(struct waiter *w)
{
	struct epoll_event event;

	return wait_epoll(w) || epoll_wait(w->inner, &event, 1, 0) != 1 ? -1 : 0;
}

static void again_oneshot(struct waiter *w)
{
	struct epoll_event event = { .events = ways[w->kind].events };

	if (epoll_ctl(w->epfd, EPOLL_CTL_MOD, st->fd, &event))
		wrong("EPOLL_CTL_MOD: %s", strerror(errno));
}

static bool begin_uring(struct waiter *w)
{
	w->armed = false;
	return !io_uring_queue_init(8, &w->ring, 0);
}

static int wait_uring(struct waiter *w)
{
	struct io_uring_cqe *cqe;
	int res;

	if (!w->armed) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&w->ring);

		if (w->kind == URING_READ)
			io_uring_prep_read(sqe, st->fd, w->events, st->room * sizeof(*w->events),
					   -1);
		else if (w->kind == URING_POLL)
			io_uring_prep_poll_add(sqe, st->fd, POLLIN);
		else
			io_uring_prep_poll_multishot(sqe, st->fd, POLLIN);
		io_uring_submit(&w->ring);
		w->armed = true;
	}
	if (io_uring_wait_cqe(&w->ring, &cqe))
		return -1;
	res = cqe->res;
	w->armed = cqe->flags & IORING_CQE_F_MORE;
	io_uring_cqe_seen(&w->ring, cqe);
	if (res < 0 && res != -EINTR)
		wrong("io_uring: %s", strerror(-res));
	if (res < 0)
		return -1;
	return w->kind == URING_READ ? res / (int)sizeof(*w->events) : 0;
}

static bool begin_aio(struct waiter *w)
{
	w->aio = 0;
	w->armed = false;
	return !syscall(SYS_io_setup, 1, &w->aio);
}

static int wait_aio(struct waiter *w)
{
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = st->fd, .aio_buf = POLLIN,
	}, *requests = &request;
	struct io_event event;

	if (!w->armed && syscall(SYS_io_submit, w->aio, 1, &requests) != 1) {
		wrong("io_submit: %s", strerror(errno));
		return -1;
	}
	w->armed = true;
	if (syscall(SYS_io_getevents, w->aio, 1, 1, &event, NULL) != 1)
		return -1;
	w->armed = false;
	return 0;
}

/* All who wait for the signal are a process group, which the first one leads. */
static bool begin_signal(struct waiter *w)
{
	const pid_t group = w == st->waiters ? 0 : st->waiters[0].pid;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGNAL_NUMBER);
	sigaddset(&set, SIGIO);
	return !sigprocmask(SIG_BLOCK, &set, NULL) && !setpgid(0, group) &&
	       !fcntl(st->fd, F_SETOWN, -getpgrp()) && !fcntl(st->fd, F_SETSIG, SIGNAL_NUMBER) &&
	       !fcntl(st->fd, F_SETFL, fcntl(st->fd, F_GETFL) | O_ASYNC);
}

static int wait_signal(struct waiter *w __attribute__((unused)))
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGNAL_NUMBER);
	sigaddset(&set, SIGIO);
	return sigwaitinfo(&set, NULL) < 0 ? -1 : 0;
}

static const struct way ways[KINDS] = {
	[READ] = { .wait = wait_read, .takes = true },
	[POLL] = { .wait = wait_poll },
	[LEVEL] = { begin_epoll, wait_epoll, .events = EPOLLIN },
	[EDGE] = { begin_epoll, wait_epoll, .events = EPOLLIN | EPOLLET, .drains = true },
	[ONESHOT] = { begin_epoll, wait_epoll, again_oneshot, EPOLLIN | EPOLLONESHOT },
	[EXCLUSIVE] = { begin_epoll, wait_epoll, .events = EPOLLIN | EPOLLEXCLUSIVE },
	[NESTED] = { begin_nested, wait_nested, .events = EPOLLIN },
	[NESTED_EDGE] = { begin_nested, wait_nested, .events = EPOLLIN | EPOLLET, .drains = true },
	[URING_READ] = { begin_uring, wait_uring, .takes = true },
	[URING_POLL] = { begin_uring, wait_uring },
	[URING_MULTISHOT] = { begin_uring, wait_uring, .drains = true },
	[AIO] = { begin_aio, wait_aio },
	[SIGNAL] = { begin_signal, wait_signal, .drains = true },
};

static void wait_for_ever(struct waiter *w)
{
	const struct way *way = &ways[w->kind];

	if (way->begin && !way->begin(w))
		wrong("cannot wait: %s", strerror(errno));
	for (;;) {
		int n;

		store(&w->waits, true);
		n = way->wait(w);
		store(&w->waits, false);
		if (n < 0)
			continue;
		count(&st->woken, 1);
		if (__atomic_exchange_n(&st->stop, false, __ATOMIC_ACQ_REL))
			raise(SIGSTOP);
		while (load(&st->hold))
			sleep_until(now_ns() + MSEC);
		if (way->takes) {
			note_events(w, n);
		} else {
			do {
				n = take(w);
			} while (n && way->drains && !st->once);
		}
		while (n && st->once)
			pause();
		if (way->again)
			way->again(w);
	}
}

/* ---- the test itself ---- */

static bool sleeps(const struct waiter *w)
{
	return load(&w->waits) && htw_state_of(w->pid) == 'S';
}

/* Start a process that waits. Return: false if it does not come to that. */
static bool start_waiter(unsigned int nr, enum kind kind)
{
	struct waiter *w = &st->waiters[nr];
	const pid_t parent = getpid();
	pid_t pid;

	w->kind = kind;
	w->waits = false;
	memset(w->events, 0, sizeof(w->events));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		w->pid = getpid();
		wait_for_ever(w);
	}
	w->pid = pid;
	return pid > 0 && htw_eventually(sleeps(w)) && !st->wrong[0];
}

static void end_waiter(struct waiter *w)
{
	kill(w->pid, SIGKILL);
	waitpid(w->pid, NULL, 0);
	w->pid = 0;
}

static bool stop_waiter(const struct waiter *w)
{
	return !kill(w->pid, SIGSTOP) && waitpid(w->pid, NULL, WUNTRACED) == w->pid;
}

static bool set_stage(int flags)
{
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (st == MAP_FAILED || htw_pin(0))
		return false;
	st->room = ROOM;
	st->clock = CLOCK_MONOTONIC;
	st->fd = htw_open(flags);
	return st->fd >= 0;
}

static void clear_stage(void)
{
	for (unsigned int i = 0; i < CROWD; i++)
		if (st->waiters[i].pid)
			end_waiter(&st->waiters[i]);
	close(st->fd);
	munmap(st, sizeof(*st));
}

#define EXPECT_TAKEN(n) do {							\
	EXPECT_TRUE(htw_eventually(load(&st->taken) >= (n))) {			\
		TH_LOG("LOST WAKE-UP: %u of %u read", load(&st->taken), (n));	\
	}									\
	EXPECT_EQ((n), load(&st->taken));					\
	EXPECT_STREQ("", st->wrong);						\
} while (0)

/* ---- the same in each way ---- */

FIXTURE(waits) {
	__s64 offset;
};

FIXTURE_VARIANT(waits) {
	enum kind kind;
};

FIXTURE_VARIANT_ADD(waits, read) { .kind = READ };
FIXTURE_VARIANT_ADD(waits, poll) { .kind = POLL };
FIXTURE_VARIANT_ADD(waits, level) { .kind = LEVEL };
FIXTURE_VARIANT_ADD(waits, edge) { .kind = EDGE };
FIXTURE_VARIANT_ADD(waits, oneshot) { .kind = ONESHOT };
FIXTURE_VARIANT_ADD(waits, exclusive) { .kind = EXCLUSIVE };
FIXTURE_VARIANT_ADD(waits, nested) { .kind = NESTED };
FIXTURE_VARIANT_ADD(waits, nested_edge) { .kind = NESTED_EDGE };
FIXTURE_VARIANT_ADD(waits, uring_read) { .kind = URING_READ };
FIXTURE_VARIANT_ADD(waits, uring_poll) { .kind = URING_POLL };
FIXTURE_VARIANT_ADD(waits, uring_multishot) { .kind = URING_MULTISHOT };
FIXTURE_VARIANT_ADD(waits, aio) { .kind = AIO };
FIXTURE_VARIANT_ADD(waits, signal) { .kind = SIGNAL };

static __s64 realtime_offset(void)
{
	return clock_ns(CLOCK_REALTIME) - now_ns();
}

/* Set CLOCK_REALTIME so that it is so far ahead of CLOCK_MONOTONIC. */
static int set_realtime_offset(__s64 offset)
{
	const __u64 time = now_ns() + offset;
	const struct timespec ts = { .tv_sec = time / SEC, .tv_nsec = time % SEC };

	return clock_settime(CLOCK_REALTIME, &ts) ? -errno : 0;
}

FIXTURE_SETUP(waits)
{
	self->offset = realtime_offset();
	ASSERT_TRUE(set_stage(0));
}

FIXTURE_TEARDOWN(waits)
{
	clear_stage();
}

#define WAITS_TEST(name) TEST_F_TIMEOUT(waits, name, TEST_SECONDS)

/*
 * Have the first process woken for timers that are due at @due, and keep it
 * from reading: in its program, or stopped where a call waits and reads.
 */
static bool wake_and_hold(__u64 due)
{
	struct waiter *w = &st->waiters[0];

	if (!ways[w->kind].takes)
		return htw_eventually(load(&st->woken));
	sleep_until(due + 20 * MSEC);
	return true;
}

static bool hold(void)
{
	const struct waiter *w = &st->waiters[0];

	store(&st->hold, true);
	return !ways[w->kind].takes || stop_waiter(w);
}

static bool release(void)
{
	const struct waiter *w = &st->waiters[0];

	store(&st->hold, false);
	return !ways[w->kind].takes || !kill(w->pid, SIGCONT);
}

/*
 * Cancelled long before it is due, just before, and about then. If it has been
 * read by then, that was one more event.
 */
WAITS_TEST(earlier_of_two_is_cancelled)
{
	static const __u64 before[] = { 40 * MSEC, 10 * MSEC, 2 * MSEC, MSEC, 500 * USEC, 0 };
	unsigned int want = 0;

	ASSERT_TRUE(start_waiter(0, variant->kind));
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(before); i++) {
		const __u64 due = now_ns() + 50 * MSEC;
		__u64 id;
		int ret;

		ASSERT_TRUE(htw_eventually(sleeps(&st->waiters[0])));
		id = htw_start_abs(st->fd, due, 2 * i);
		ASSERT_NE(0, id);
		ASSERT_NE(0, htw_start_abs(st->fd, due + 30 * MSEC, 2 * i + 1));
		/* Also from another CPU than that of the alarm. */
		ASSERT_EQ(0, htw_pin(i % 2 ? htw_other_cpu() : 0));
		sleep_until(due - before[i / 2]);
		ret = htw_stop(st->fd, id);
		ASSERT_TRUE(ret == 0 || ret == -ENOENT);
		ASSERT_EQ(0, htw_pin(0));
		want += ret ? 2 : 1;
		EXPECT_TAKEN(want);
	}
	EXPECT_EQ(0, htw_timers(st->fd));
}

/* Between the wake-up and the read; a later one is still ahead. */
WAITS_TEST(due_one_is_cancelled)
{
	struct htw_cancel_args cancel;
	const __u64 due = now_ns() + 100 * MSEC;

	ASSERT_TRUE(start_waiter(0, variant->kind));
	ASSERT_TRUE(hold());
	cancel = htw_cancel_of(htw_start_abs(st->fd, due, 0));
	ASSERT_NE(0, htw_start_abs(st->fd, due + 400 * MSEC, 1));
	ASSERT_TRUE(wake_and_hold(due));
	ASSERT_EQ(0, htw_call(st->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(HTW_STATE_DUE, cancel.state);
	ASSERT_TRUE(release());
	EXPECT_TAKEN(1);
	EXPECT_EQ(1, st->seen[1]);
	EXPECT_EQ(0, htw_timers(st->fd));
}

/* Between the wake-up and the read, twice. */
WAITS_TEST(everything_due_is_put_off)
{
	enum { COUNT = 100 };
	__u64 ids[COUNT], deadlines[COUNT], due = now_ns() + 100 * MSEC;

	ASSERT_TRUE(start_waiter(0, variant->kind));
	ASSERT_TRUE(hold());
	ASSERT_EQ(COUNT, htw_start_many(st->fd, due, 0, COUNT, ids));
	ASSERT_TRUE(wake_and_hold(due));
	for (int round = 0; round < 2; round++) {
		struct htw_vector_args v = {
			.ids = (uintptr_t)ids, .deadlines = (uintptr_t)deadlines, .count = COUNT,
			.op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
		};

		due = now_ns() + 200 * MSEC;
		for (int i = 0; i < COUNT; i++)
			deadlines[i] = due;
		store(&st->not_before, due);
		ASSERT_EQ(0, htw_call(st->fd, HTW_VECTOR, &v));
		ASSERT_EQ(COUNT, v.done);
		ASSERT_EQ(0, v.failed);
	}
	EXPECT_EQ(0, load(&st->taken));
	ASSERT_TRUE(release());
	EXPECT_TAKEN(COUNT);
	EXPECT_EQ(0, htw_timers(st->fd));
}

/* Between the wake-up and the read. The event comes when the clock is there again. */
WAITS_TEST(clock_is_set_back)
{
	const __s64 offset = self->offset;
	__u64 due;
	int ret;

	ASSERT_EQ(0, htw_setup_clock(st->fd, CLOCK_REALTIME));
	st->clock = CLOCK_REALTIME;
	ASSERT_TRUE(start_waiter(0, variant->kind));
	ASSERT_TRUE(hold());
	due = now_ns() + 100 * MSEC;
	ASSERT_NE(0, htw_start_abs(st->fd, due + offset, 0));
	ASSERT_TRUE(wake_and_hold(due));
	ret = set_realtime_offset(offset - 2 * SEC);
	ASSERT_TRUE(release());
	EXPECT_TAKEN(1U);
	EXPECT_LE(due + 2 * SEC, now_ns());
	set_realtime_offset(offset);
	ASSERT_EQ(0, ret);
}

/* The buffer holds one event: there is something left after each read but the last. */
WAITS_TEST(one_event_a_read)
{
	enum { COUNT = 20 };

	st->room = 1;
	ASSERT_TRUE(start_waiter(0, variant->kind));
	ASSERT_EQ(COUNT, htw_start_many(st->fd, now_ns() + 20 * MSEC, 0, COUNT, NULL));
	EXPECT_TAKEN(COUNT);
}

/* Each reads one of several that are due, and does not come back. */
WAITS_TEST(others_read_what_one_leaves)
{
	enum { COUNT = 3 };

	st->room = 1;
	st->once = true;
	for (int i = 0; i < COUNT; i++)
		ASSERT_TRUE(start_waiter(i, variant->kind));
	ASSERT_EQ(COUNT, htw_start_many(st->fd, now_ns() + 20 * MSEC, 0, COUNT, NULL));
	EXPECT_TAKEN(COUNT);
}

/*
 * While the program waits, a bucket of an upper level is moved down, in several
 * portions. To have it done, the program is not told that it can read.
 */
WAITS_TEST(long_bucket_is_moved_down)
{
	enum { COUNT = 20000 };
	const struct htw_setup_args setup = {
		.tick_ns = 10 * USEC, .levels = 3, .slots = { 2048, 64, 64 },
	};
	const __u64 due = now_ns() + 3 * SEC;
	unsigned int woken;

	ASSERT_EQ(0, htw_set_up(st->fd, setup));
	ASSERT_EQ(COUNT, htw_start_many(st->fd, due, 0, COUNT, NULL));
	ASSERT_TRUE(start_waiter(0, variant->kind));
	ASSERT_GT(due, now_ns() + 100 * MSEC);
	sleep_until(due - MSEC);
	woken = load(&st->woken);
	/* This task may have slept for longer. */
	if (now_ns() < due)
		EXPECT_EQ(0, woken);
	EXPECT_TAKEN(COUNT);
	TH_LOG("%u times woken, %u times nothing to read, %llu us late", st->woken, st->empty,
	       st->latest / USEC);
	if (!ways[variant->kind].drains)
		EXPECT_EQ(0, st->empty);
}

/* ---- all ways at once ---- */

FIXTURE(together) {
};

FIXTURE_SETUP(together)
{
	ASSERT_TRUE(set_stage(0));
}

FIXTURE_TEARDOWN(together)
{
	clear_stage();
}

/* The earlier of two is cancelled while all wait; then the later one is put off. */
TEST_F_TIMEOUT(together, cancelled_and_put_off, TEST_SECONDS)
{
	unsigned int want = 0;

	/* The first one leads the group that gets the signal. */
	for (unsigned int i = 0; i < KINDS; i++)
		ASSERT_TRUE(start_waiter(i, (SIGNAL + i) % KINDS));
	for (unsigned int round = 0; round < 10; round++) {
		const __u64 due = now_ns() + 50 * MSEC;
		__u64 first, second;
		int ret;

		for (unsigned int i = 0; i < KINDS; i++)
			ASSERT_TRUE(htw_eventually(sleeps(&st->waiters[i])));
		first = htw_start_abs(st->fd, due, 2 * round);
		second = htw_start_abs(st->fd, due + 20 * MSEC, 2 * round + 1);
		ASSERT_NE(0, first);
		ASSERT_NE(0, second);
		ret = htw_stop(st->fd, first);
		ASSERT_TRUE(ret == 0 || ret == -ENOENT);
		want += ret ? 2 : 1;
		/* About when it is due. */
		sleep_until(due + 20 * MSEC - round * 100 * USEC);
		ret = htw_move(st->fd, second, due + 100 * MSEC, HTW_F_ABS);
		ASSERT_TRUE(ret == 0 || ret == -ENOENT);
		EXPECT_TAKEN(want);
	}
	EXPECT_EQ(0, htw_timers(st->fd));
}

/* ---- a crowd, of which those who are woken do not run ---- */

FIXTURE(crowd) {
	char group[200];
};

FIXTURE_VARIANT(crowd) {
	enum kind kind;
};

FIXTURE_VARIANT_ADD(crowd, read) { .kind = READ };
FIXTURE_VARIANT_ADD(crowd, exclusive) { .kind = EXCLUSIVE };

/* Let those who are in it run, so that they can end. */
static void let_run(const char *group)
{
	if (!group[0])
		return;
	htw_cgroup_write(group, "cgroup.freeze", "0");
	htw_cgroup_write(group, "cpu.max", "max");
}

/* All that were in it have ended. */
static bool leave_group(const char *group)
{
	return !group[0] || htw_eventually(!rmdir(group));
}

FIXTURE_SETUP(crowd)
{
	ASSERT_TRUE(set_stage(0));
	self->group[0] = '\0';
	for (unsigned int i = 0; i < CROWD; i++)
		ASSERT_TRUE(start_waiter(i, variant->kind));
}

FIXTURE_TEARDOWN(crowd)
{
	let_run(self->group);
	clear_stage();
	EXPECT_TRUE(leave_group(self->group));
}

#define CROWD_TEST(name) TEST_F_TIMEOUT(crowd, name, TEST_SECONDS)

/* The event of a timer that has been started is read soon. */
static void expect_read_soon(struct __test_metadata *_metadata)
{
	EXPECT_TAKEN(1U);
	EXPECT_GT(READ_BY_OTHERS, st->latest);
	TH_LOG("read %llu ms late", st->latest / MSEC);
}

/* That of a timer is read by others soon. */
static void expect_read_by_others(struct __test_metadata *_metadata)
{
	ASSERT_NE(0, htw_start_abs(st->fd, now_ns() + 20 * MSEC, 0));
	expect_read_soon(_metadata);
}

/* Where a call waits and reads, nothing is between: those are stopped before. */
CROWD_TEST(woken_one_is_stopped)
{
	if (variant->kind == READ) {
		ASSERT_TRUE(stop_waiter(&st->waiters[0]));
	} else {
		store(&st->stop, true);
	}
	expect_read_by_others(_metadata);
	EXPECT_FALSE(load(&st->stop));
}

CROWD_TEST(all_but_the_last_are_stopped)
{
	for (unsigned int i = 0; i < CROWD - 1; i++)
		ASSERT_TRUE(stop_waiter(&st->waiters[i]));
	expect_read_by_others(_metadata);
}

/* Put the first @count into a control group. */
static bool into_group(char *group, size_t size, const char *controller, unsigned int count)
{
	char root[100];

	if (!htw_cgroup_root(root, sizeof(root), controller))
		return false;
	snprintf(group, size, "%s/htw-waits-test-%d", root, getpid());
	if (mkdir(group, 0755))
		return false;
	for (unsigned int i = 0; i < count; i++)
		if (htw_cgroup_move(group, st->waiters[i].pid))
			return false;
	return true;
}

static bool is_frozen(const char *group)
{
	char file[256], text[100];

	snprintf(file, sizeof(file), "%s/cgroup.events", group);
	return !htw_read_file(file, text, sizeof(text)) && strstr(text, "frozen 1");
}

CROWD_TEST(all_but_the_last_are_frozen)
{
	if (!into_group(self->group, sizeof(self->group), "memory", CROWD - 1))
		SKIP(return, "no cgroup2");
	ASSERT_EQ(0, htw_cgroup_write(self->group, "cgroup.freeze", "1"));
	ASSERT_TRUE(htw_eventually(is_frozen(self->group)));
	expect_read_by_others(_metadata);
}

static bool be_idle(pid_t pid, int cpu)
{
	const struct sched_param param = { 0 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(pid, sizeof(set), &set) &&
	       !sched_setscheduler(pid, SCHED_IDLE, &param);
}

/*
 * Has one of the first @count waiters read an event? Since Linux 6.18 a task that
 * is throttled runs on until it returns to user space. So read() may take the
 * event, and the task is stopped before it counts it.
 */
static bool is_read_by_one(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (load(&st->waiters[i].events[0].id))
			return true;
	return false;
}

/*
 * Those who are first in the queue share 1 ms a second with another process,
 * which uses it up.
 */
static void throttle_and_expect(struct __test_metadata *_metadata, char *group, size_t size,
				unsigned int throttled)
{
	const int cpu = htw_other_cpu();
	pid_t pid;

	if (!into_group(group, size, "cpu", throttled) ||
	    htw_cgroup_write(group, "cpu.max", "1000 1000000"))
		SKIP(return, "no cgroup2 CPU controller with bandwidth");
	for (unsigned int i = 0; i < throttled; i++)
		ASSERT_TRUE(be_idle(st->waiters[i].pid, cpu));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (htw_pin(cpu))
			_exit(1);
		for (;;)
			;
	}
	ASSERT_EQ(0, htw_cgroup_move(group, pid));
	sleep_until(now_ns() + 100 * MSEC);
	ASSERT_NE(0, htw_start_abs(st->fd, now_ns() + 20 * MSEC, 0));
	EXPECT_TRUE(htw_eventually(load(&st->taken) || is_read_by_one(throttled))) {
		TH_LOG("LOST WAKE-UP");
	}
	if (!load(&st->taken))
		TH_LOG("read by one that is throttled before it returns");
	kill(pid, SIGKILL);
	let_run(group);
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
	expect_read_soon(_metadata);
}

CROWD_TEST(woken_one_is_throttled)
{
	throttle_and_expect(_metadata, self->group, sizeof(self->group), 1);
	if (variant->kind == READ)
		EXPECT_GT(READ_BY_NEXT, st->latest);
}

/* ---- readers that are throttled, die, or sleep in a page fault ---- */

FIXTURE(readers) {
	char group[200];
};

FIXTURE_SETUP(readers)
{
	self->group[0] = '\0';
	ASSERT_TRUE(set_stage(0));
}

FIXTURE_TEARDOWN(readers)
{
	let_run(self->group);
	clear_stage();
	EXPECT_TRUE(leave_group(self->group));
}

/* All that block are woken again; of an exclusive queue it would be one. */
TEST_F_TIMEOUT(readers, that_are_throttled_but_one, TEST_SECONDS)
{
	for (unsigned int i = 0; i < CROWD; i++)
		ASSERT_TRUE(start_waiter(i, READ));
	throttle_and_expect(_metadata, self->group, sizeof(self->group), CROWD - 1);
}

/*
 * A reader is killed about when its timer is due: either it has read the event,
 * or that can be read by others.
 */
TEST_F_TIMEOUT(readers, that_are_killed, TEST_SECONDS)
{
	enum { ROUNDS = 150 };
	struct waiter *w = &st->waiters[0];
	unsigned int read = 0, left = 0;
	__u64 random = now_ns() | 1;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct htw_event ev;
		__u64 due;

		ASSERT_TRUE(start_waiter(0, i % 2 ? READ : URING_READ));
		due = now_ns() + 3 * MSEC;
		ASSERT_NE(0, htw_start_abs(st->fd, due, i));
		sleep_until(due - 200 * USEC + xorshift64(&random) % (2 * MSEC));
		end_waiter(w);
		if (w->events[0].id) {
			ASSERT_EQ(i, w->events[0].cookie);
			ASSERT_EQ(0, htw_timers(st->fd));
			read++;
			continue;
		}
		ASSERT_TRUE(htw_wait_readable(st->fd)) {
			TH_LOG("the event of round %u is lost", i);
		}
		ASSERT_EQ(1, htw_read(st->fd, &ev, 1));
		ASSERT_EQ(i, ev.cookie);
		left++;
	}
	TH_LOG("%u read by those who were killed, %u left", read, left);
	EXPECT_NE(0, left);
}

struct reader {
	pthread_t thread;
	pid_t tid;
	struct htw_event *buffer;
	int ret;
};

static void *read_one(void *arg)
{
	struct reader *r = arg;

	store(&r->tid, syscall(SYS_gettid));
	r->ret = htw_read(st->fd, r->buffer, 1);
	return NULL;
}

/*
 * The page that a reader's buffer is in does not come: the event is read by the
 * next one. Once the page is there, the first one waits for another event.
 */
TEST_F_TIMEOUT(readers, in_a_page_fault, TEST_SECONDS)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	const int uffd = htw_fault_open();
	struct reader first = { 0 };

	if (uffd < 0)
		SKIP(return, "no userfaultfd");
	first.buffer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	ASSERT_NE(MAP_FAILED, (void *)first.buffer);
	ASSERT_EQ(0, htw_fault_register(uffd, first.buffer, page));

	ASSERT_EQ(0, pthread_create(&first.thread, NULL, read_one, &first));
	ASSERT_TRUE(htw_eventually(load(&first.tid) &&
				   htw_sleeps_in(first.tid, SYS_read, st->fd)));
	ASSERT_TRUE(start_waiter(0, READ));
	ASSERT_NE(0, htw_start(st->fd, 20 * MSEC, 0));
	ASSERT_TRUE(htw_fault_comes(uffd));
	EXPECT_TAKEN(1U);
	EXPECT_EQ(1, st->seen[0]);

	end_waiter(&st->waiters[0]);
	ASSERT_NE(0, htw_start(st->fd, 20 * MSEC, 1));
	close(uffd);
	ASSERT_EQ(0, pthread_join(first.thread, NULL));
	ASSERT_EQ(1, first.ret);
	EXPECT_EQ(1, first.buffer->cookie);
}

TEST_HARNESS_MAIN
