// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking: nobody who waits sleeps on while a timer is due
 *
 * Processes start, move and cancel timers of one descriptor from several CPUs,
 * others wait for them in every way there is. What the timers should do is
 * known from shared memory alone: a call on the descriptor would hide a lost
 * wake-up. Work comes in bursts, and the next burst begins when all that was
 * due has been read by those who wait, so that a wake-up that is lost is not
 * made good by the calls that follow.
 *
 * Waiters read into memory that they share with the test, which counts what is
 * there: also what was read by a process that was killed, or is stopped, right
 * after.
 *
 * Slow: two minutes.
 *
 * waiters-test [--seed N] [--rounds N] [--ms N] [--late MS] [--kind KIND] [OPTION
 * OF THE HARNESS]...
 */
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "htw-epoll.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT		0x00000008
#endif

#define NEVER			(~0ULL)
#define OWNERS			4U
#define SLOTS			96U
#define WAITERS			16U
#define LOG			16384U
#define ROOM			64U
#define MANY			32U

/*
 * A waiter that sleeps for that long although something is due was not woken. On a host that
 * has more to do than CPUs wake-ups seem long, and their users rest. Where others are told
 * again after half a second, less finds more: --late 300. With delays they are not.
 */
#define LOST_AFTER		(arg_late * MSEC)
/* The same if one that was woken is stopped. */
#define LOST_AFTER_STOP		(LOST_AFTER + SEC)
/* Timers further ahead than that are not waited for. */
#define FAR			(2 * SEC)

enum kind {
	READ,
	POLL,
	LEVEL,
	LEVEL_SHARED,
	EDGE,
	ONESHOT,
	EXCLUSIVE,
	NESTED,
	NESTED_EDGE,
	URING_READ,
	URING_POLL,
	SIGNAL,
	KINDS,
};

static const char *const kind_names[KINDS] = {
	"read", "poll", "level", "level-shared", "edge", "oneshot", "exclusive", "nested",
	"nested-edge", "uring-read", "uring-poll", "signal",
};

/* May be killed: nobody else depends on what it does next. */
#define KILLABLE	(1U << READ | 1U << POLL | 1U << LEVEL | 1U << LEVEL_SHARED | 1U << EDGE | \
			 1U << EXCLUSIVE | 1U << NESTED | 1U << NESTED_EDGE)
/* Must not sleep while another one is busy and has left something. */
#define TRUTHFUL	(1U << READ | 1U << POLL | 1U << LEVEL | 1U << LEVEL_SHARED | 1U << NESTED)

/**
 * struct slot - what is known of a timer
 * @id: as HTW_ADD returned it
 * @due: its next deadline, %NEVER if it is not armed; by its owner before each
 *	call, and by the test for events
 * @earliest: of a relative deadline; 0 if @due is exact
 * @interval: as given to HTW_ADD
 * @firings: as given to HTW_ADD
 * @counted: firings that events have reported
 * @number: upper part of the cookie: which of the timers that the slot has had
 * @busy: its owner is in a call for it
 * @used: there has been a timer
 * @keep: it is kept
 * @gone: a call said that it has ended
 * @cancelled: it ended so
 * @late: events of timers up to that number may still come: the last that was
 *	cancelled, and was kept or periodic
 * @ends: how often it has ended
 * @episode: when it was started
 */
struct slot {
	__u64 id, due, earliest, interval, counted;
	__u32 firings, number, ends, episode, late;
	bool busy, used, keep, gone, cancelled;
};

struct waiter {
	pid_t pid;
	enum kind kind;
	bool waits, stopped;
	__u64 count, seed, continue_at;
	__u32 pos, consumed;
	int epfd;
	struct htw_event *log;
};

struct mix {
	__u64 seed, tick;
	unsigned int owners, waiters, room, ops, vectors, ballast, jobs;
	unsigned int kinds;
	bool kill, stop;
};

static struct stage {
	struct slot slots[OWNERS * SLOTS];
	struct waiter waiters[WAITERS];
	struct mix mix;
	int fd, shared_epfd;
	__u32 episode, done[OWNERS];
	char wrong[200];
	__u64 events, cancels, moves;
	struct htw_event log[WAITERS][LOG];
} *st;

static __u64 arg_seed;
static __u64 arg_late = 3000;
static unsigned int arg_rounds = 2, arg_ms = 1500;
static int arg_kind = -1;

#define load(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)

#define wrong(...) do {								\
	if (!load(&st->wrong[0]))						\
		snprintf(st->wrong, sizeof(st->wrong), __VA_ARGS__);		\
} while (0)

static void nap(__u64 ns)
{
	sleep_until(now_ns() + ns);
}

/* ---- who starts timers ---- */

static __u64 cookie_of(const struct slot *s)
{
	return (__u64)s->number << 16 | (s - st->slots);
}

static bool is_free(const struct slot *s)
{
	if (!s->used)
		return true;
	if (load(&s->ends) != 1)
		return false;
	return s->episode != st->episode || !(s->interval || s->keep);
}

static __u64 choose_deadline(__u64 *r)
{
	const __u64 now = now_ns(), x = xorshift64(r) >> 8;

	switch (xorshift64(r) % 20) {
	case 0: case 1: case 2:
		return now - x % (20 * MSEC);
	case 3: case 4: case 5:
		return now + 5 * MSEC + x % (55 * MSEC);
	case 6:
		return now + HOUR + x % HOUR;
	default:
		return now + 100 * USEC + x % (5 * MSEC);
	}
}

static void prepare(struct slot *s, __u64 due)
{
	if (s->used && s->cancelled && (s->interval || s->keep))
		s->late = s->number;
	s->number++;
	store(&s->busy, true);
	s->used = true;
	s->gone = false;
	s->cancelled = false;
	s->counted = 0;
	s->earliest = 0;
	s->episode = st->episode;
	store(&s->due, due);
	store(&s->ends, 0);
}

static void add_one(struct slot *s, __u64 *r)
{
	struct htw_add_args add = { .flags = HTW_F_ABS };
	__u64 due = choose_deadline(r);
	int ret;

	switch (xorshift64(r) % 5) {
	case 0:
		add.firings = 1 + xorshift64(r) % 8;
		add.interval = st->mix.tick + xorshift64(r) % (2 * MSEC);
		break;
	case 1:
		add.flags |= HTW_F_KEEP;
		break;
	}
	prepare(s, due);
	s->interval = add.interval;
	s->firings = add.firings;
	s->keep = add.flags & HTW_F_KEEP;
	add.cookie = cookie_of(s);
	add.deadline = due;
	if (!s->interval && !s->keep && due > now_ns() && !(xorshift64(r) % 4)) {
		const __u64 before = now_ns();

		add.deadline = due > before ? due - before : 0;
		add.flags = 0;
		s->earliest = before + add.deadline;
		store(&s->due, s->earliest + 20 * MSEC);
	}
	ret = htw_call(st->fd, HTW_ADD, &add);
	if (ret)
		wrong("HTW_ADD: %d", ret);
	s->id = add.id;
	store(&s->busy, false);
}

static void ended(struct slot *s)
{
	s->cancelled = true;
	store(&s->due, NEVER);
	if (__atomic_fetch_add(&s->ends, 1, __ATOMIC_ACQ_REL))
		wrong("a timer was cancelled and had ended");
	__atomic_fetch_add(&st->cancels, 1, __ATOMIC_RELAXED);
}

/* A call said ENOENT. */
static void is_gone(struct slot *s, const char *call)
{
	if (s->keep)
		wrong("%s: a kept timer is gone", call);
	s->gone = true;
}

static bool may_change(struct slot *s)
{
	return s->used && !load(&s->ends) && !s->gone;
}

static void cancel_one(struct slot *s)
{
	int ret;

	store(&s->busy, true);
	ret = htw_stop(st->fd, s->id);
	if (!ret)
		ended(s);
	else if (ret == -ENOENT)
		is_gone(s, "cancel");
	else
		wrong("HTW_CANCEL: %d", ret);
	store(&s->busy, false);
}

static void move_one(struct slot *s, __u64 *r)
{
	const __u64 due = choose_deadline(r);
	int ret;

	store(&s->busy, true);
	s->earliest = 0;
	store(&s->due, due);
	ret = htw_move(st->fd, s->id, due, HTW_F_ABS);
	if (ret == -ENOENT)
		is_gone(s, "move");
	else if (ret)
		wrong("HTW_MOD: %d", ret);
	__atomic_fetch_add(&st->moves, 1, __ATOMIC_RELAXED);
	store(&s->busy, false);
}

static void query_one(struct slot *s)
{
	struct htw_timer_info query = { .id = s->id };
	int ret = htw_call(st->fd, HTW_QUERY, &query);

	if (ret && ret != -ENOENT)
		wrong("HTW_QUERY: %d", ret);
	if (!ret && query.cookie != cookie_of(s))
		wrong("HTW_QUERY: another timer's cookie");
}

/* The same on several timers at once. */
static void do_vector(struct slot *own, __u64 *r)
{
	__u64 ids[MANY], deadlines[MANY], cookies[MANY];
	struct htw_vector_args v = { .ids = (uintptr_t)ids };
	const __u64 op = xorshift64(r) % 4, near = now_ns() + xorshift64(r) % (3 * MSEC);
	const bool same = !(xorshift64(r) % 2);
	unsigned int n = 0, want = 1 + xorshift64(r) % MANY;
	struct slot *at[MANY];
	int ret;

	for (unsigned int i = xorshift64(r) % SLOTS, k = 0; k < SLOTS && n < want; k++) {
		struct slot *s = &own[(i + k) % SLOTS];
		const __u64 due = same ? near : choose_deadline(r);

		if (op < 2 ? !is_free(s) : !may_change(s))
			continue;
		if (op < 2) {
			prepare(s, due);
			s->interval = 0;
			s->firings = 0;
			s->keep = false;
			cookies[n] = cookie_of(s);
		} else {
			store(&s->busy, true);
			ids[n] = s->id;
			if (op == 2) {
				s->earliest = 0;
				store(&s->due, due);
			}
		}
		deadlines[n] = due;
		at[n++] = s;
	}
	if (!n)
		return;
	v.count = n;
	if (op < 2) {
		v.op = HTW_OP_ADD;
		v.flags = HTW_F_ABS;
		v.deadlines = (uintptr_t)deadlines;
		v.cookies = (uintptr_t)cookies;
	} else if (op == 2) {
		v.op = HTW_OP_MOD;
		v.flags = HTW_MOD_DEADLINE | HTW_F_ABS;
		v.deadlines = (uintptr_t)deadlines;
	} else {
		v.op = HTW_OP_CANCEL;
	}
	ret = htw_call(st->fd, HTW_VECTOR, &v);
	if (ret || v.done != n || (op < 2 && v.failed))
		wrong("HTW_VECTOR: %d, %u of %u, %u failed", ret, v.done, n, v.failed);
	for (unsigned int i = 0; i < n; i++) {
		struct slot *s = at[i];

		if (op < 2)
			s->id = ids[i];
		else if (ids[i] == (__u64)-ENOENT)
			is_gone(s, "vector");
		else if (op == 3)
			ended(s);
		else if (ids[i] != s->id)
			wrong("HTW_VECTOR: %lld", (long long)ids[i]);
		store(&s->busy, false);
	}
}

/* The next slot from @s on whose timer is pending, or else @s. */
static struct slot *next_pending(struct slot *own, struct slot *s)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct slot *at = &own[(s - own + i) % SLOTS];

		if (may_change(at))
			return at;
	}
	return s;
}

static void burst(struct slot *own, __u64 *r)
{
	const unsigned int ops = 1 + xorshift64(r) % st->mix.ops;
	const __u64 pause = xorshift64(r) % 3 ? 0 : xorshift64(r) % (500 * USEC);

	for (unsigned int i = 0; i < ops && !st->wrong[0]; i++) {
		struct slot *s = &own[xorshift64(r) % SLOTS];

		/*
		 * Those that are far ahead are few, and moved to where nothing
		 * else is due.
		 */
		if (!(xorshift64(r) % 3))
			s = next_pending(own, s);
		if (!(xorshift64(r) % 16))
			htw_pin(xorshift64(r) % htw_cpus());
		if (xorshift64(r) % 100 < st->mix.vectors)
			do_vector(own, r);
		else if (is_free(s))
			add_one(s, r);
		else if (!may_change(s))
			continue;
		else if (!(xorshift64(r) % 8))
			query_one(s);
		else if (xorshift64(r) % 3)
			move_one(s, r);
		else
			cancel_one(s);
		if (pause)
			nap(pause);
	}
}

static void own(unsigned int nr)
{
	__u64 r = (st->mix.seed + nr) * 0x9e3779b97f4a7c15ULL | 1;
	__u32 episode = 0;

	for (;;) {
		while (load(&st->episode) == episode)
			nap(200 * USEC);
		episode = load(&st->episode);
		burst(st->slots + nr * SLOTS, &r);
		store(&st->done[nr], episode);
	}
}

/* ---- who waits ---- */

static void make_room(struct waiter *w)
{
	if (w->pos + ROOM <= LOG)
		return;
	while (load(&w->consumed) != w->pos)
		nap(200 * USEC);
	memset(w->log, 0, LOG * sizeof(*w->log));
	store(&w->pos, 0);
	store(&w->consumed, 0);
}

static unsigned int room_of(struct waiter *w)
{
	return 1 + xorshift64(&w->seed) % st->mix.room;
}

/* Has what was read to be worked on, which takes a while? */
static void job(struct waiter *w)
{
	if (st->mix.jobs && xorshift64(&w->seed) % 100 < st->mix.jobs)
		nap(400 * MSEC + xorshift64(&w->seed) % (300 * MSEC));
}

static int take(struct waiter *w, int flags)
{
	const unsigned int room = room_of(w);
	struct iovec iov;
	ssize_t n;

	make_room(w);
	iov.iov_base = w->log + w->pos;
	iov.iov_len = room * sizeof(*w->log);
	n = preadv2(st->fd, &iov, 1, -1, flags);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			wrong("read: %d", -errno);
		return -errno;
	}
	n /= sizeof(*w->log);
	store(&w->pos, w->pos + n);
	if (!n)
		wrong("read nothing");
	return n;
}

static void drain(struct waiter *w)
{
	while (take(w, RWF_NOWAIT) > 0)
		;
}

static void begin_wait(struct waiter *w)
{
	store(&w->count, w->count + 1);
	store(&w->waits, true);
}

static void end_wait(struct waiter *w)
{
	store(&w->waits, false);
	store(&w->count, w->count + 1);
}

static int wait_epoll(struct waiter *w, int epfd, int timeout)
{
	struct epoll_event event;
	int ret;

	begin_wait(w);
	ret = epoll_wait(epfd, &event, 1, timeout);
	end_wait(w);
	return ret;
}

static void wait_signal(struct waiter *w)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (fcntl(st->fd, F_SETOWN, getpid()) || fcntl(st->fd, F_SETSIG, SIGRTMIN + 1) ||
	    fcntl(st->fd, F_SETFL, fcntl(st->fd, F_GETFL) | O_ASYNC))
		wrong("no SIGIO");
	drain(w);
	for (;;) {
		begin_wait(w);
		sigwaitinfo(&set, NULL);
		end_wait(w);
		drain(w);
	}
}

static void wait_uring(struct waiter *w, bool poll)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	bool armed = false;
	int res;

	if (io_uring_queue_init(64, &ring, 0)) {
		wrong("no io_uring");
		return;
	}
	for (;;) {
		if (!armed) {
			make_room(w);
			sqe = io_uring_get_sqe(&ring);
			if (poll)
				io_uring_prep_poll_multishot(sqe, st->fd, POLLIN);
			else
				io_uring_prep_read(sqe, st->fd, w->log + w->pos,
						   room_of(w) * sizeof(*w->log), -1);
			io_uring_submit(&ring);
			armed = true;
		}
		begin_wait(w);
		res = io_uring_wait_cqe(&ring, &cqe);
		end_wait(w);
		if (res)
			continue;
		res = cqe->res;
		armed = poll && cqe->flags & IORING_CQE_F_MORE;
		io_uring_cqe_seen(&ring, cqe);
		if (poll)
			drain(w);
		else if (res > 0)
			store(&w->pos, w->pos + res / sizeof(*w->log));
		else if (res != -EAGAIN && res != -EINTR)
			wrong("io_uring read: %d", res);
	}
}

static void wait_in_epoll(struct waiter *w)
{
	static const __u32 events[KINDS] = {
		[LEVEL] = EPOLLIN, [EDGE] = EPOLLIN | EPOLLET, [ONESHOT] = EPOLLIN | EPOLLONESHOT,
		[EXCLUSIVE] = EPOLLIN | EPOLLEXCLUSIVE, [NESTED] = EPOLLIN,
		[NESTED_EDGE] = EPOLLIN | EPOLLET,
	};
	struct epoll_event event = { .events = events[w->kind] };
	const bool nested = w->kind == NESTED || w->kind == NESTED_EDGE;
	int epfd = w->kind == LEVEL_SHARED ? st->shared_epfd : htw_watch(st->fd, event.events);
	int outer = nested ? htw_watch(epfd, event.events) : epfd;

	if (epfd < 0 || outer < 0) {
		wrong("no epoll set");
		return;
	}
	for (;;) {
		if (wait_epoll(w, outer, -1) != 1)
			continue;
		if (nested && epoll_wait(epfd, &event, 1, 0) != 1)
			continue;
		if (w->kind == EDGE || w->kind == NESTED_EDGE) {
			drain(w);
		} else {
			take(w, RWF_NOWAIT);
			job(w);
		}
		if (w->kind == ONESHOT) {
			event.events = events[ONESHOT];
			epoll_ctl(epfd, EPOLL_CTL_MOD, st->fd, &event);
		}
	}
}

static void wait_in_poll(struct waiter *w)
{
	struct pollfd pfd = { .fd = st->fd, .events = POLLIN };

	for (;;) {
		begin_wait(w);
		poll(&pfd, 1, -1);
		end_wait(w);
		take(w, RWF_NOWAIT);
		job(w);
	}
}

static void wait_for_ever(struct waiter *w)
{
	switch (w->kind) {
	case READ:
		for (;;) {
			int n;

			make_room(w);
			begin_wait(w);
			n = take(w, 0);
			end_wait(w);
			if (n > 0)
				job(w);
		}
	case POLL:
		wait_in_poll(w);
		break;
	case URING_READ:
	case URING_POLL:
		wait_uring(w, w->kind == URING_POLL);
		break;
	case SIGNAL:
		wait_signal(w);
		break;
	default:
		wait_in_epoll(w);
	}
}

/* ---- the test itself ---- */

static pid_t start(void (*run)(unsigned int), unsigned int nr)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(nr);
	pause();
	_exit(0);
}

static void run_waiter(unsigned int nr)
{
	struct waiter *w = &st->waiters[nr];

	/*
	 * A child has none of these pages yet. Where one is missing, read() writes a
	 * part of an event that it does not take, and who is killed then leaves that:
	 * with its id, as if it had been read.
	 */
	memset(w->log, 0, LOG * sizeof(*w->log));
	wait_for_ever(w);
}

static void start_waiter(unsigned int nr)
{
	struct waiter *w = &st->waiters[nr];

	memset(w->log, 0, LOG * sizeof(*w->log));
	w->pos = w->consumed = 0;
	w->waits = w->stopped = false;
	w->seed = (st->mix.seed + 100 + nr + w->count) * 0x9e3779b97f4a7c15ULL | 1;
	w->pid = start(run_waiter, nr);
}

/* An event was read. */
static void count_event(const struct htw_event *ev)
{
	const unsigned int nr = ev->cookie & 0xffff;
	const __u32 number = ev->cookie >> 16;
	const bool more = ev->flags & HTW_EVENT_MORE;
	struct slot *s = &st->slots[nr];
	__u64 due, next;

	st->events++;
	if (nr >= OWNERS * SLOTS || !s->used || number > s->number) {
		wrong("an event of no timer: cookie %llx", ev->cookie);
		return;
	}
	if (ev->taken < ev->deadline || now_ns() < ev->deadline)
		wrong("early: %lld ns", (long long)(ev->deadline - ev->taken));
	if (number != s->number) {
		if (number > s->late)
			wrong("an event after the end: slot %u", nr);
		return;
	}
	s->counted += 1 + ev->missed;
	due = load(&s->due);
	if (s->interval) {
		/*
		 * Of events that several have read, the last one may be seen
		 * first.
		 */
		if (s->counted > s->firings)
			wrong("%llu of %u firings", s->counted, s->firings);
		next = ev->deadline + (ev->missed + 1) * s->interval;
		if (more) {
			if (due == ev->deadline)
				__atomic_compare_exchange_n(&s->due, &due, next, false,
							    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
			return;
		}
	} else if (s->keep) {
		if (!more)
			wrong("a kept timer ended");
		if (due == ev->deadline)
			__atomic_compare_exchange_n(&s->due, &due, NEVER, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
		return;
	} else if (more) {
		wrong("a one-shot timer has more");
	} else if (!load(&s->busy) && !s->gone && !s->cancelled &&
		   (s->earliest ? ev->deadline < s->earliest : ev->deadline != due)) {
		wrong("slot %u: deadline %llu is not %llu", nr, ev->deadline, due);
	}
	store(&s->due, NEVER);
	if (__atomic_fetch_add(&s->ends, 1, __ATOMIC_ACQ_REL))
		wrong("a timer ended twice: slot %u", nr);
}

static void consume(struct waiter *w, bool all)
{
	__u32 pos = load(&w->pos);

	while (w->consumed < pos || (all && w->consumed < LOG && w->log[w->consumed].id)) {
		count_event(&w->log[w->consumed]);
		store(&w->consumed, w->consumed + 1);
	}
}

/*
 * How far all are: 0 if everything that is due soon has been read, or else for
 * how long the oldest has been due, at least 1.
 */
static __u64 overdue(__u64 now, struct slot **oldest)
{
	__u64 most = 0;

	for (unsigned int i = 0; i < st->mix.owners; i++)
		if (load(&st->done[i]) != st->episode)
			most = 1;
	for (unsigned int i = 0; i < OWNERS * SLOTS; i++) {
		struct slot *s = &st->slots[i];
		__u64 due = load(&s->due);

		if (!s->used)
			continue;
		if (load(&s->ends)) {
			if (s->interval && !s->cancelled && s->counted < s->firings)
				most = most ?: 1;
			continue;
		}
		if (load(&s->busy) || s->gone) {
			most = most ?: 1;
			continue;
		}
		if (due == NEVER || due > now + FAR)
			continue;
		if (most < 1)
			most = 1;
		if (due < now && now - due > most) {
			most = now - due;
			*oldest = s;
		}
	}
	return most;
}

/* Do all who wait sleep, and nobody else is to be waited for? */
static bool all_sleep(__u64 *counts, bool first)
{
	bool busy = false, truthful = false, any = false;

	for (unsigned int i = 0; i < st->mix.waiters; i++) {
		struct waiter *w = &st->waiters[i];
		const __u64 count = load(&w->count);

		if (!w->pid || w->stopped)
			continue;
		if (first)
			counts[i] = count;
		else if (counts[i] != count)
			return false;
		if (!load(&w->waits)) {
			if (!st->mix.jobs || htw_state_of(w->pid) != 'S')
				return false;
			busy = true;
			continue;
		}
		if (htw_state_of(w->pid) != 'S')
			return false;
		any = true;
		truthful |= 1U << w->kind & TRUTHFUL;
	}
	return any && (!busy || truthful);
}

static void consume_all(void)
{
	for (unsigned int i = 0; i < st->mix.waiters; i++)
		if (st->waiters[i].pid)
			consume(&st->waiters[i], st->waiters[i].stopped);
}

/*
 * Something has been due for long: is there somebody who should have been
 * woken?
 */
static bool is_lost(__u64 limit)
{
	__u64 counts[WAITERS], late;
	struct slot *oldest = NULL;
	char text[160] = "";

	for (int i = 0; i < 5; i++) {
		consume_all();
		late = overdue(now_ns(), &oldest);
		if (late < limit || !all_sleep(counts, !i))
			return false;
		nap(25 * MSEC);
	}
	for (unsigned int i = 0; i < st->mix.waiters; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s%s",
			 kind_names[st->waiters[i].kind],
			 !st->waiters[i].pid ? "-killed" : st->waiters[i].stopped ? "-stopped" :
			 st->waiters[i].waits ? "" : "-busy");
	wrong("LOST WAKE-UP: slot %td due for %llu ms;%.120s", oldest - st->slots, late / MSEC,
	      text);
	return true;
}

/* Kill or stop one of several, at a random moment. */
static void disturb(__u64 *r)
{
	const unsigned int nr = xorshift64(r) % st->mix.waiters;
	struct waiter *w = &st->waiters[nr];
	unsigned int left = 0;

	for (unsigned int i = 0; i < st->mix.waiters; i++)
		left += st->waiters[i].pid && !st->waiters[i].stopped;
	if (left < 2 || !w->pid || w->stopped)
		return;
	if (st->mix.kill && 1U << w->kind & KILLABLE) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
		consume(w, true);
		w->pid = 0;
	} else if (st->mix.stop) {
		kill(w->pid, SIGSTOP);
		waitpid(w->pid, NULL, WUNTRACED);
		w->stopped = true;
		w->continue_at = now_ns() + 2 * SEC;
	}
}

/* All is read: start again who was killed, and look at what has ended. */
static void between_episodes(void)
{
	for (unsigned int i = 0; i < st->mix.waiters; i++) {
		struct waiter *w = &st->waiters[i];

		if (!w->pid)
			start_waiter(i);
	}
	for (unsigned int i = 0; i < OWNERS * SLOTS; i++) {
		const struct slot *s = &st->slots[i];

		if (s->used && s->ends && s->interval && !s->cancelled && s->counted != s->firings)
			wrong("slot %u: %llu of %u firings", i, s->counted, s->firings);
	}
}

static void play(__u64 until)
{
	const __u64 limit = st->mix.stop ? LOST_AFTER_STOP : LOST_AFTER;
	__u64 r = st->mix.seed * 0x9e3779b97f4a7c15ULL | 1, disturb_at = NEVER, stuck = 0;

	while (!load(&st->wrong[0])) {
		struct slot *oldest = NULL;
		__u64 now = now_ns(), late;

		consume_all();
		for (unsigned int i = 0; i < st->mix.waiters; i++) {
			struct waiter *w = &st->waiters[i];

			if (w->stopped && now > w->continue_at) {
				w->stopped = false;
				kill(w->pid, SIGCONT);
			}
		}
		late = overdue(now, &oldest);
		if (!late) {
			between_episodes();
			if (now > until)
				return;
			stuck = now + 20 * SEC;
			disturb_at = st->mix.kill || st->mix.stop ?
				     now + xorshift64(&r) % (8 * MSEC) : NEVER;
			store(&st->episode, st->episode + 1);
		} else if (late > limit && is_lost(limit)) {
			return;
		} else if (stuck && now > stuck) {
			wrong("stuck: the oldest is due for %llu ms", late / MSEC);
			return;
		}
		if (now > disturb_at) {
			disturb(&r);
			disturb_at = xorshift64(&r) % 2 ? NEVER : now + xorshift64(&r) % (4 * MSEC);
		}
		nap(500 * USEC);
	}
}

static void kill_and_wait(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* What is left when all have been killed: each id must have ended once. */
static void finish(void)
{
	for (unsigned int i = 0; i < OWNERS * SLOTS && !st->wrong[0]; i++) {
		struct slot *s = &st->slots[i];

		if (!s->used || s->ends)
			continue;
		if (s->gone) {
			wrong("slot %u: gone, but nobody has its event", i);
			return;
		}
		cancel_one(s);
		if (s->gone)
			wrong("slot %u: lost", i);
	}
	if (!st->wrong[0] && htw_timers(st->fd) != st->mix.ballast)
		wrong("%llu timers are left", htw_timers(st->fd) - st->mix.ballast);
}

/* Far timers, so that there are levels. */
static void add_ballast(void)
{
	__u64 ids[256], deadlines[256];

	for (unsigned int done = 0; done < st->mix.ballast; done += 256) {
		struct htw_vector_args v = {
			.ids = (uintptr_t)ids, .deadlines = (uintptr_t)deadlines,
			.count = 256, .op = HTW_OP_ADD,
		};

		for (unsigned int i = 0; i < 256; i++)
			deadlines[i] = 2 * HOUR + (done + i) * MSEC;
		if (htw_call(st->fd, HTW_VECTOR, &v) || v.failed)
			wrong("no ballast");
	}
}

static void print_mix(struct __test_metadata *_metadata, const char *why)
{
	const struct mix *m = &st->mix;
	char text[200] = "";

	for (unsigned int i = 0; i < KINDS; i++)
		if (m->kinds & 1U << i)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s",
				 kind_names[i]);
	TH_LOG("%s: --seed %llu: %u owners, %u waiters (%s ), tick %llu us, room %u", why, m->seed,
	       m->owners, m->waiters, text, m->tick / USEC, m->room);
	TH_LOG("ops %u, vectors %u%%, ballast %u, jobs %u%%%s%s", m->ops, m->vectors, m->ballast,
	       m->jobs, m->kill ? ", kill" : "", m->stop ? ", stop" : "");
}

/* Return: was nothing wrong? */
static bool run_round(struct __test_metadata *_metadata, const struct mix *mix, unsigned int ms)
{
	pid_t owners[OWNERS];
	const __u64 began = now_ns();
	struct htw_setup_args setup = { .tick_ns = mix->tick };
	bool ok;

	memset(st, 0, offsetof(struct stage, log));
	st->mix = *mix;
	if (arg_kind >= 0)
		st->mix.kinds = 1U << arg_kind;
	mix = &st->mix;
	st->fd = htw_open(0);
	if (mix->tick != MSEC && htw_set_up(st->fd, setup)) {
		/* The wheels of the other core are given by their slots. */
		setup.levels = 3;
		setup.slots[0] = 2048;
		setup.slots[1] = setup.slots[2] = 256;
		if (htw_set_up(st->fd, setup))
			wrong("HTW_SETUP failed");
	}
	add_ballast();
	st->shared_epfd = htw_watch(st->fd, EPOLLIN);
	if (!(mix->kinds & 1U << LEVEL_SHARED)) {
		close(st->shared_epfd);
		st->shared_epfd = -1;
	}
	for (unsigned int i = 0, kind = 0; i < mix->waiters; i++, kind++) {
		while (!(mix->kinds & 1U << kind % KINDS))
			kind++;
		st->waiters[i].kind = kind % KINDS;
		st->waiters[i].log = st->log[i];
		start_waiter(i);
	}
	for (unsigned int i = 0; i < mix->owners; i++)
		owners[i] = start(own, i);
	nap(20 * MSEC);

	play(now_ns() + ms * MSEC);

	for (unsigned int i = 0; i < mix->owners; i++)
		kill_and_wait(owners[i]);
	for (unsigned int i = 0; i < mix->waiters; i++) {
		kill_and_wait(st->waiters[i].pid);
		if (st->waiters[i].pid)
			consume(&st->waiters[i], true);
	}
	finish();
	ok = !st->wrong[0];
	if (!ok) {
		print_mix(_metadata, "FAILED");
		TH_LOG("after %llu ms: %s", (now_ns() - began) / MSEC, st->wrong);
	}
	TH_LOG("seed %llu: %u episodes, %llu events, %llu cancels, %llu moves", mix->seed,
	       st->episode, st->events, st->cancels, st->moves);
	if (st->shared_epfd >= 0)
		close(st->shared_epfd);
	close(st->fd);
	return ok;
}

FIXTURE(waiters) {
	__u64 seed;
};

FIXTURE_SETUP(waiters)
{
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)st);
	self->seed = arg_seed;
}

FIXTURE_TEARDOWN(waiters)
{
	munmap(st, sizeof(*st));
}

#define WAITERS_TEST(name) TEST_F_TIMEOUT(waiters, name, 1200)

static struct mix random_mix(__u64 seed)
{
	static const __u64 ticks[] = { 10 * USEC, 100 * USEC, MSEC };
	static const unsigned int rooms[] = { 1, 2, 8, 64 };
	__u64 r = seed * 0x9e3779b97f4a7c15ULL | 1;

	for (int i = 0; i < 8; i++)
		xorshift64(&r);
	return (struct mix){
		.seed = seed,
		.tick = ticks[xorshift64(&r) % ARRAY_SIZE(ticks)],
		.owners = 1 + xorshift64(&r) % OWNERS,
		.waiters = 1 + xorshift64(&r) % (xorshift64(&r) % 3 ? 4 : WAITERS),
		.room = rooms[xorshift64(&r) % ARRAY_SIZE(rooms)],
		.ops = xorshift64(&r) % 2 ? 4 : 150,
		.vectors = xorshift64(&r) % 2 * 40,
		.ballast = xorshift64(&r) % 2 * 2048,
		.kinds = 1U << xorshift64(&r) % KINDS,
	};
}

/* One kind of waiters after the other. */
WAITERS_TEST(of_one_kind)
{
	for (unsigned int round = 0; round < arg_rounds; round++) {
		for (unsigned int kind = 0; kind < KINDS; kind++) {
			struct mix mix = random_mix(self->seed + round * KINDS + kind);

			if (arg_kind >= 0 && kind != (unsigned int)arg_kind)
				continue;
			mix.kinds = 1U << kind;
			/* One process at a time gets the signal. */
			if (kind == SIGNAL)
				mix.waiters = 1;
			ASSERT_TRUE(run_round(_metadata, &mix, arg_ms / 2));
		}
	}
}

WAITERS_TEST(of_many_kinds)
{
	for (unsigned int round = 0; round < 3 * arg_rounds; round++) {
		struct mix mix = random_mix(self->seed + 1000 + round);
		__u64 r = mix.seed | 1;

		for (int i = 0; i < 4; i++)
			mix.kinds |= 1U << (xorshift64(&r) >> 7) % SIGNAL;
		if (mix.waiters < 4)
			mix.waiters += 4;
		mix.kinds &= ~(1U << SIGNAL);
		if (!mix.kinds)
			mix.kinds = 1U << READ;
		ASSERT_TRUE(run_round(_metadata, &mix, arg_ms));
	}
}

/* What is killed passes on what it was woken for. */
WAITERS_TEST(that_are_killed)
{
	static const unsigned int kinds[] = {
		1U << READ, 1U << EXCLUSIVE, 1U << LEVEL, 1U << LEVEL_SHARED, 1U << EDGE,
		1U << READ | 1U << LEVEL, 1U << READ | 1U << EDGE, KILLABLE,
	};

	for (unsigned int round = 0; round < 2 * arg_rounds; round++) {
		struct mix mix = random_mix(self->seed + 2000 + round);

		mix.kinds = kinds[round % ARRAY_SIZE(kinds)];
		mix.waiters += 1 + (mix.waiters < 4) * 2;
		if (mix.waiters > WAITERS)
			mix.waiters = WAITERS;
		mix.kill = true;
		ASSERT_TRUE(run_round(_metadata, &mix, arg_ms));
	}
}

/* Others are told again of what one who was stopped has not taken. */
WAITERS_TEST(that_are_stopped)
{
	static const unsigned int kinds[] = {
		1U << READ, 1U << EXCLUSIVE, 1U << LEVEL, 1U << READ | 1U << LEVEL,
	};

	for (unsigned int round = 0; round < arg_rounds; round++) {
		struct mix mix = random_mix(self->seed + 3000 + round);

		mix.kinds = kinds[round % ARRAY_SIZE(kinds)];
		mix.waiters = 4;
		mix.stop = true;
		ASSERT_TRUE(run_round(_metadata, &mix, 2 * arg_ms));
	}
}

/*
 * Keep a CPU from all others, for less than what the kernel gives to
 * SCHED_FIFO.
 */
static void hog(unsigned int cpu)
{
	const struct sched_param priority = { .sched_priority = 50 };

	if (htw_pin(cpu) || sched_setscheduler(0, SCHED_FIFO, &priority))
		_exit(1);
	for (const __u64 end = now_ns() + 850 * MSEC; now_ns() < end;)
		;
	_exit(0);
}

static void run_on_last_cpu(unsigned int nr)
{
	htw_pin(htw_cpus() - 1);
	wait_for_ever(&st->waiters[nr]);
}

static void run_on_first_cpu(unsigned int nr)
{
	htw_pin(0);
	wait_for_ever(&st->waiters[nr]);
}

/*
 * The first in the queue is woken, and does not get its CPU: others are woken
 * later, all of them after half a second. Also for what is due as it is started.
 */
WAITERS_TEST(that_do_not_run)
{
	static const enum kind kinds[] = { READ, EXCLUSIVE };

	if (htw_cpus() < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(0, htw_pin(0));
	for (unsigned int round = 0; round < 4; round++) {
		__u64 due;
		pid_t pid;

		memset(st, 0, offsetof(struct stage, log));
		st->mix.room = 1;
		st->fd = htw_open(0);
		for (unsigned int i = 0; i < 2; i++) {
			struct waiter *w = &st->waiters[i];

			w->kind = kinds[round / 2];
			w->log = st->log[i];
			memset(w->log, 0, sizeof(*w->log));
			w->pid = start(i ? run_on_first_cpu : run_on_last_cpu, i);
			nap(50 * MSEC);
		}
		pid = start(hog, htw_cpus() - 1);
		nap(50 * MSEC);
		due = now_ns() + (round % 2 ? 0 : 20 * MSEC);
		ASSERT_NE(0, htw_start_abs(st->fd, due, 1));
		sleep_until(due + 700 * MSEC);
		EXPECT_EQ(1, load(&st->waiters[0].pos) + load(&st->waiters[1].pos)) {
			TH_LOG("LOST WAKE-UP: round %u", round);
		}
		kill_and_wait(pid);
		kill_and_wait(st->waiters[0].pid);
		kill_and_wait(st->waiters[1].pid);
		EXPECT_STREQ("", st->wrong);
		close(st->fd);
	}
}

/* While one works on what it has read, others take what it has left. */
WAITERS_TEST(that_are_busy_for_long)
{
	static const unsigned int kinds[] = {
		1U << READ, 1U << POLL, 1U << LEVEL, 1U << READ | 1U << LEVEL,
	};

	for (unsigned int round = 0; round < 2 * arg_rounds; round++) {
		struct mix mix = random_mix(self->seed + 4000 + round);

		mix.kinds = kinds[round % ARRAY_SIZE(kinds)];
		mix.waiters = 2 + round % 3;
		mix.room = 1 + round % 2;
		mix.jobs = 2 + round % 4;
		ASSERT_TRUE(run_round(_metadata, &mix, 2 * arg_ms));
	}
}

/*
 * A long bucket is moved down by those who wait, level by level, and nothing
 * but it: the program waits in epoll_wait(), and a timer that is due meanwhile
 * comes. A machine that is slow to add the timers may be as slow to move them.
 */
WAITERS_TEST(beside_a_long_bucket)
{
	enum { COUNT = 200000, GROUP = 250 };
	static __u64 ids[GROUP], deadlines[GROUP], cookies[GROUP];
	static unsigned char seen[COUNT];
	static struct htw_event ev[256];
	struct htw_setup_args setup = { .tick_ns = 10 * USEC };
	const int fd = htw_open(O_NONBLOCK);
	unsigned int got = 0, probes = 0, kind;
	__u64 due, first = 0, latest = 0, slowest = 0, began, bound;
	int epfd, n;

	if (htw_set_up(fd, setup)) {
		setup.levels = 3;
		setup.slots[0] = 2048;
		setup.slots[1] = setup.slots[2] = 256;
		ASSERT_EQ(0, htw_set_up(fd, setup));
	}
	for (kind = 0; kind < 3; kind++) {
		memset(seen, 0, sizeof(seen));
		got = probes = 0;
		first = latest = slowest = 0;
		began = now_ns();
		due = began + 8 * SEC;
		for (unsigned int i = 0; i < GROUP; i++)
			deadlines[i] = due;
		for (unsigned int at = 0; at < COUNT; at += GROUP) {
			struct htw_vector_args v = {
				.ids = (uintptr_t)ids, .deadlines = (uintptr_t)deadlines,
				.cookies = (uintptr_t)cookies, .count = GROUP,
				.op = HTW_OP_ADD, .flags = HTW_F_ABS,
			};

			htw_pin(at / GROUP % htw_cpus());
			for (unsigned int i = 0; i < GROUP; i++)
				cookies[i] = at + i;
			ASSERT_EQ(0, htw_call(fd, HTW_VECTOR, &v));
			ASSERT_EQ(GROUP, v.done);
		}
		bound = now_ns() - began > LOST_AFTER ? now_ns() - began : LOST_AFTER;
		/* Probes: due one after the other meanwhile, 37 ms apart. */
		for (__u64 at = now_ns() + 50 * MSEC; at < due - 5 * MSEC; at += 37 * MSEC) {
			ASSERT_NE(0, htw_start_abs(fd, at, SENTINEL));
			probes++;
		}
		if (now_ns() > due - 3 * SEC)
			SKIP(return, "the machine is too slow");
		epfd = htw_watch(fd, kind == 0 ? EPOLLIN : kind == 1 ? EPOLLIN | EPOLLET :
				 EPOLLIN | EPOLLEXCLUSIVE);
		while (got < COUNT || probes) {
			struct epoll_event event;

			n = epoll_wait(epfd, &event, 1, 10000);
			ASSERT_EQ(1, n) {
				TH_LOG("LOST WAKE-UP: %u of %u, %u probes left", got, COUNT,
				       probes);
			}
			while ((n = htw_read(fd, ev, 256)) > 0) {
				const __u64 now = now_ns();

				for (int i = 0; i < n; i++) {
					const __u64 late = now - ev[i].deadline;

					ASSERT_LE(ev[i].deadline, ev[i].taken);
					ASSERT_LE(ev[i].taken, now);
					if (ev[i].cookie == SENTINEL) {
						slowest = late > slowest ? late : slowest;
						probes--;
						continue;
					}
					ASSERT_EQ(0, seen[ev[i].cookie]++);
					first = first ?: late;
					latest = late;
					got++;
				}
				if (kind != 1)
					break;
			}
		}
		TH_LOG("kind %u: slowest probe %llu us, first %llu us, last %llu ms, bound %llu ms",
		       kind, slowest / USEC, first / USEC, latest / MSEC, bound / MSEC);
		EXPECT_EQ(0, htw_timers(fd));
		EXPECT_GT(bound, slowest);
		EXPECT_GT(bound, first);
		close(epfd);
	}
	close(fd);
}

/*
 * Who waits for SIGIO is not woken to move buckets down: a timer comes in time
 * that was started when a later one was known, whose bucket is to be moved down
 * before. Signals may come early.
 */
WAITERS_TEST(by_signal_of_a_far_bucket)
{
	enum { PAIRS = 5, BEHIND = 5 };
	struct htw_setup_args setup = { .tick_ns = 10 * USEC };
	const __u64 began = now_ns() + 100 * MSEC;
	__u64 due[PAIRS];
	unsigned int early = 0;
	sigset_t set;
	int fds[PAIRS];

	sigemptyset(&set);
	ASSERT_EQ(0, htw_pin(0));
	for (int i = 0; i < PAIRS + BEHIND; i++) {
		sleep_until(began + i * 200 * MSEC);
		if (i >= BEHIND)
			ASSERT_NE(0, htw_start_abs(fds[i - BEHIND], due[i - BEHIND], 2));
		if (i >= PAIRS)
			continue;
		fds[i] = st->fd = htw_open(O_NONBLOCK);
		if (htw_set_up(fds[i], setup)) {
			setup.levels = 3;
			setup.slots[0] = 2048;
			setup.slots[1] = setup.slots[2] = 256;
			ASSERT_EQ(0, htw_set_up(fds[i], setup));
		}
		st->mix.ballast = 256;
		add_ballast();
		sigaddset(&set, SIGRTMIN + 1 + i);
		ASSERT_EQ(0, sigprocmask(SIG_BLOCK, &set, NULL));
		ASSERT_EQ(0, fcntl(fds[i], F_SETOWN, getpid()));
		ASSERT_EQ(0, fcntl(fds[i], F_SETSIG, SIGRTMIN + 1 + i));
		ASSERT_EQ(0, fcntl(fds[i], F_SETFL, O_NONBLOCK | O_ASYNC));
		due[i] = began + i * 200 * MSEC + 2 * SEC;
		ASSERT_NE(0, htw_start_abs(fds[i], due[i] + 900 * MSEC, 1));
	}
	for (int left = 2 * PAIRS; left;) {
		const struct timespec limit = { .tv_sec = 4 };
		int i = sigtimedwait(&set, NULL, &limit) - (SIGRTMIN + 1);
		struct htw_event ev;

		ASSERT_LE(0, i) {
			TH_LOG("LOST WAKE-UP: no signal for %d", left);
		}
		if (htw_read(fds[i], &ev, 1) != 1) {
			early++;
			continue;
		}
		/* If one is lost, that of the far timer comes 900 ms later. */
		EXPECT_GT(ev.deadline + 850 * MSEC, now_ns()) {
			TH_LOG("LOST WAKE-UP: a signal %llu ms late",
			       (now_ns() - ev.deadline) / MSEC);
		}
		left--;
	}
	TH_LOG("%u signals too early", early);
	for (int i = 0; i < PAIRS; i++)
		close(fds[i]);
}

/*
 * An alarm rings for what was cancelled, on one CPU, while a timer is started
 * on another for a little later: the alarm sets itself anew from what it has
 * read, or the task does.
 */
WAITERS_TEST(while_an_alarm_rings)
{
	struct htw_setup_args setup = { .tick_ns = 10 * USEC };
	struct waiter *w = &st->waiters[0];
	__u64 r = self->seed * 0x9e3779b97f4a7c15ULL | 1;

	if (htw_cpus() < 2)
		SKIP(return, "needs two CPUs");
	st->mix.room = ROOM;
	st->fd = htw_open(0);
	if (htw_set_up(st->fd, setup)) {
		setup.levels = 3;
		setup.slots[0] = 2048;
		setup.slots[1] = setup.slots[2] = 256;
		ASSERT_EQ(0, htw_set_up(st->fd, setup));
	}
	w->kind = READ;
	w->log = st->log[0];
	start_waiter(0);
	nap(20 * MSEC);
	for (unsigned int i = 1; i <= arg_rounds * 100; i++) {
		__u64 due, id;

		ASSERT_EQ(0, htw_pin(0));
		due = now_ns() + 1500 * USEC;
		id = htw_start_abs(st->fd, due, 1);
		ASSERT_NE(0, id);
		/* Where the machine is slow it may be due already. */
		if (!htw_stop(st->fd, id)) {
			ASSERT_EQ(0, htw_pin(1));
			due += xorshift64(&r) % (400 * USEC);
			while (now_ns() < due)
				;
			due = now_ns() + 500 * USEC + xorshift64(&r) % MSEC;
			ASSERT_NE(0, htw_start_abs(st->fd, due, i));
		}
		while (load(&w->count) < 2ULL * i && now_ns() < due + LOST_AFTER)
			nap(100 * USEC);
		/* It counts when it begins to wait, and when it ends. */
		ASSERT_LE(2ULL * i, load(&w->count)) {
			TH_LOG("LOST WAKE-UP: the %uth", i);
			kill_and_wait(w->pid);
		}
		store(&w->consumed, load(&w->pos));
	}
	kill_and_wait(w->pid);
	ASSERT_STREQ("", st->wrong);
	close(st->fd);
}

/* The wheels of a descriptor. */
static unsigned int wheels_of(int fd)
{
	char path[64], line[256];
	unsigned int wheels = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "htw-wheels:\t%u", &wheels);
	if (file)
		fclose(file);
	return wheels;
}

struct beginner {
	pthread_barrier_t *barrier;
	int fd;
	unsigned int cpu;
	bool ok;
};

static void *begin(void *arg)
{
	struct beginner *b = arg;

	b->ok = !htw_pin(b->cpu);
	pthread_barrier_wait(b->barrier);
	b->ok &= htw_start(b->fd, 3600 * SEC, 0) != 0;
	return NULL;
}

/*
 * The first timers of a descriptor, which threads start at the same time: it has one wheel for
 * them, as a wheel for a second CPU is for many timers, and for those of no order.
 */
static void start_first_timers(struct __test_metadata *_metadata,
			       const struct htw_setup_args *setup, unsigned int cpus)
{
	enum { THREADS = 4 };

	for (unsigned int round = 0; round < 20 * arg_rounds; round++) {
		struct beginner b[THREADS];
		pthread_t threads[THREADS];
		pthread_barrier_t barrier;
		int fd = htw_open(0);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, htw_set_up(fd, *setup));
		ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, THREADS));
		for (int i = 0; i < THREADS; i++) {
			b[i] = (struct beginner){ .barrier = &barrier, .fd = fd, .cpu = i % cpus };
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, begin, &b[i]));
		}
		for (int i = 0; i < THREADS; i++) {
			ASSERT_EQ(0, pthread_join(threads[i], NULL));
			ASSERT_TRUE(b[i].ok);
		}
		pthread_barrier_destroy(&barrier);
		ASSERT_EQ(1, wheels_of(fd));
		close(fd);
	}
}

static const struct htw_setup_args first_setups[] = {
	{ 0 },
	{ .flags = HTW_SETUP_ORDERED },
	{ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL },
};

WAITERS_TEST(that_start_the_first_timers)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(first_setups); i++)
		start_first_timers(_metadata, &first_setups[i], 1);
}

WAITERS_TEST(that_start_the_first_timers_on_all_cpus)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(first_setups); i++)
		start_first_timers(_metadata, &first_setups[i], htw_cpus());
}

static int kind_of(const char *name)
{
	for (int kind = 0; kind < KINDS; kind++)
		if (!strcmp(name, kind_names[kind]))
			return kind;
	fprintf(stderr, "no kind %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	int to = 1;

	arg_seed = now_ns() % 1000000;
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && !strcmp(argv[i], "--seed"))
			arg_seed = strtoull(argv[++i], NULL, 0);
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			arg_rounds = atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--ms"))
			arg_ms = atoi(argv[++i]);
		else if (i + 1 < argc && !strcmp(argv[i], "--late"))
			arg_late = strtoull(argv[++i], NULL, 0);
		else if (i + 1 < argc && !strcmp(argv[i], "--kind"))
			arg_kind = kind_of(argv[++i]);
		else
			argv[to++] = argv[i];
	}
	argv[to] = NULL;
	printf("# waiters-test --seed %llu --rounds %u --ms %u\n", arg_seed, arg_rounds, arg_ms);
	return test_harness_run(to, argv);
}
