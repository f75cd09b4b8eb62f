// SPDX-License-Identifier: GPL-2.0-only
/*
 * read(): whole events, none lost; blocking and not, one event and many
 */
#include "htw-test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>

/* Start @count timers that are due and wait until all have expired. */
static bool expire(int fd, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!htw_start_abs(fd, i, i))
			return false;
	return htw_eventually(htw_due(fd) == count);
}

static bool blocking(int fd, bool on)
{
	return !fcntl(fd, F_SETFL, O_RDWR | (on ? 0 : O_NONBLOCK));
}

HTW_TEST(nothing_to_read)
{
	struct htw_event ev[2];

	memset(ev, 0xa5, sizeof(ev));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	ASSERT_NE(0, htw_start(self->fd, ~0ULL, 1));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	EXPECT_EQ(POISON, ev[0].id);
}

HTW_TEST(buffer_too_small)
{
	static const size_t sizes[] = { 0, 1, 8, sizeof(struct htw_event) - 1 };
	struct htw_event ev;
	unsigned int i, full;

	for (full = 0; full < 2; full++) {
		if (full)
			ASSERT_TRUE(expire(self->fd, 1));
		for (i = 0; i < ARRAY_SIZE(sizes); i++) {
			EXPECT_EQ(-1, read(self->fd, &ev, sizes[i]));
			EXPECT_EQ(EINVAL, errno);
		}
		/*
		 * A buffer too small for an event fails at once, also in
		 * blocking mode.
		 */
		ASSERT_TRUE(blocking(self->fd, true));
		EXPECT_EQ(-1, read(self->fd, &ev, sizeof(ev) - 1));
		EXPECT_EQ(EINVAL, errno);
		ASSERT_TRUE(blocking(self->fd, false));
	}
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
}

HTW_TEST(whole_events_only)
{
	struct htw_event ev[6];
	int i;

	ASSERT_TRUE(expire(self->fd, 8));
	memset(ev, 0xa5, sizeof(ev));
	ASSERT_EQ(5 * sizeof(*ev), read(self->fd, ev, 5 * sizeof(*ev) + sizeof(*ev) / 2));
	for (i = 0; i < 5; i++)
		EXPECT_EQ(i, ev[i].cookie);
	EXPECT_EQ(POISON, ev[5].id);
	EXPECT_EQ(3, htw_due(self->fd));
	ASSERT_EQ(3, htw_read(self->fd, ev, 6));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(5 + i, ev[i].cookie);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 6));
}

HTW_TEST(many_in_one_call)
{
	enum { COUNT = 10000 };
	static struct htw_event ev[COUNT + 1];
	int i;

	ASSERT_TRUE(expire(self->fd, COUNT));
	ASSERT_EQ(COUNT, htw_read(self->fd, ev, COUNT + 1));
	for (i = 0; i < COUNT; i++)
		ASSERT_EQ(i, ev[i].cookie);
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(buffer_partly_unmapped)
{
	static const unsigned int usable[] = { 1, 2, 3, 31, 63, 64, 65, 99 };
	static const size_t partial[] = { 0, 1, 24, sizeof(struct htw_event) - 1 };
	struct htw_event *p, rest[100];
	unsigned int i, j, k;

	for (i = 0; i < ARRAY_SIZE(usable); i++)
		for (j = 0; j < ARRAY_SIZE(partial); j++) {
			ASSERT_TRUE(expire(self->fd, 100));
			p = htw_before_page(usable[i] * sizeof(*p) + partial[j], PROT_NONE);
			ASSERT_NE(NULL, p);
			ASSERT_EQ(usable[i], htw_read(self->fd, p, 100));
			for (k = 0; k < usable[i]; k++)
				ASSERT_EQ(k, p[k].cookie);
			ASSERT_EQ(100 - usable[i], htw_read(self->fd, rest, 100));
			for (k = 0; k < 100 - usable[i]; k++)
				ASSERT_EQ(usable[i] + k, rest[k].cookie);
			EXPECT_EQ(0, htw_timers(self->fd));
		}
}

HTW_TEST(buffer_at_a_bad_address)
{
	struct htw_event ev[10];
	int i;

	ASSERT_TRUE(expire(self->fd, 10));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, NULL, 10));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, htw_before_page(0, PROT_NONE), 10));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, htw_before_page(sizeof(*ev) - 1, PROT_NONE), 10));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, htw_before_page(0, PROT_READ), 10));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, (void *)(1UL << (__LONG_WIDTH__ - 1)), 10));
	EXPECT_EQ(10, htw_due(self->fd));
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	ASSERT_EQ(10, htw_read(self->fd, ev, 10));
	for (i = 0; i < 10; i++)
		EXPECT_EQ(i, ev[i].cookie);
}

/* Events that could not be copied out stay unread: in order, and cancellable. */
HTW_TEST(after_a_bad_address)
{
	struct htw_add_args add = htw_abs(0, 1);
	struct htw_event ev[2];

	add.interval = 3600 * SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(-EFAULT, htw_read(self->fd, NULL, 1));
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(readv)
{
	struct htw_event ev[5];
	struct iovec even[] = { { ev, 2 * sizeof(*ev) }, { ev + 2, 3 * sizeof(*ev) } };
	struct iovec odd[] = {
		{ ev, sizeof(*ev) / 2 },
		{ (char *)ev + sizeof(*ev) / 2, 2 * sizeof(*ev) },
		{ (char *)ev + sizeof(*ev) * 5 / 2, sizeof(*ev) * 3 / 2 },
	};
	int i;

	ASSERT_TRUE(expire(self->fd, 5));
	memset(ev, 0xa5, sizeof(ev));
	ASSERT_EQ(5 * sizeof(*ev), readv(self->fd, even, 2));
	for (i = 0; i < 5; i++)
		EXPECT_EQ(i, ev[i].cookie);

	ASSERT_TRUE(expire(self->fd, 5));
	memset(ev, 0xa5, sizeof(ev));
	ASSERT_EQ(4 * sizeof(*ev), readv(self->fd, odd, 3));
	for (i = 0; i < 4; i++)
		EXPECT_EQ(i, ev[i].cookie);
	ASSERT_EQ(1, htw_read(self->fd, ev, 5));
	EXPECT_EQ(4, ev[0].cookie);
}

/* A thread that reads one event. */
struct reader {
	pthread_t thread;
	pid_t tid;
	int fd;
	int ret;
	struct htw_event ev;
};

static void *read_one(void *arg)
{
	struct reader *r = arg;

	__atomic_store_n(&r->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	r->ret = htw_read(r->fd, &r->ev, 1);
	return NULL;
}

static bool start_reader(struct reader *r, int fd)
{
	*r = (struct reader){ .fd = fd };
	return !pthread_create(&r->thread, NULL, read_one, r);
}

static bool reader_waits(struct reader *r)
{
	return htw_eventually(__atomic_load_n(&r->tid, __ATOMIC_ACQUIRE) &&
			      htw_sleeps_in(r->tid, SYS_read, r->fd));
}

HTW_TEST(blocks_until_one_expires)
{
	struct htw_event ev;
	struct reader r;
	__u64 id, deadline;

	ASSERT_TRUE(blocking(self->fd, true));

	deadline = now_ns() + 30 * MSEC;
	id = htw_start_abs(self->fd, deadline, 1);
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_LE(deadline, now_ns());

	ASSERT_TRUE(start_reader(&r, self->fd));
	ASSERT_TRUE(reader_waits(&r));
	id = htw_start(self->fd, 0, 2);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ(1, r.ret);
	EXPECT_EQ(id, r.ev.id);
}

/* A reader that was woken for an event that is cancelled meanwhile keeps waiting. */
HTW_TEST(blocks_on_when_the_event_is_discarded)
{
	struct htw_cancel_args cancel;
	struct reader r;
	__u64 id;
	int i, ret;

	ASSERT_TRUE(blocking(self->fd, true));
	for (i = 0; i < 200; i++) {
		ASSERT_TRUE(start_reader(&r, self->fd));
		ASSERT_TRUE(reader_waits(&r));
		id = htw_start(self->fd, 0, 1);
		cancel = htw_cancel_of(id);
		ret = htw_call(self->fd, HTW_CANCEL, &cancel);
		if (ret == -ENOENT) {
			ASSERT_EQ(0, pthread_join(r.thread, NULL));
			ASSERT_EQ(1, r.ret);
			EXPECT_EQ(id, r.ev.id);
			continue;
		}
		ASSERT_TRUE(reader_waits(&r));
		id = htw_start(self->fd, 0, 2);
		ASSERT_EQ(0, pthread_join(r.thread, NULL));
		ASSERT_EQ(1, r.ret);
		EXPECT_EQ(id, r.ev.id);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

static volatile sig_atomic_t signals;

static void count_signal(int signo)
{
	signals++;
}

HTW_TEST(interrupted)
{
	struct sigaction action = { .sa_handler = count_signal };
	struct reader r;

	ASSERT_TRUE(blocking(self->fd, true));
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_NE(0, htw_start(self->fd, ~0ULL, 1));
	ASSERT_TRUE(start_reader(&r, self->fd));
	ASSERT_TRUE(reader_waits(&r));
	ASSERT_EQ(0, pthread_kill(r.thread, SIGUSR1));
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	EXPECT_EQ(-EINTR, r.ret);
	EXPECT_EQ(1, signals);
	EXPECT_EQ(1, htw_timers(self->fd));
}

HTW_TEST(restarted)
{
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	struct reader r;
	__u64 id;

	ASSERT_TRUE(blocking(self->fd, true));
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_TRUE(start_reader(&r, self->fd));
	ASSERT_TRUE(reader_waits(&r));
	ASSERT_EQ(0, pthread_kill(r.thread, SIGUSR1));
	ASSERT_TRUE(htw_eventually(signals == 1));
	ASSERT_TRUE(reader_waits(&r));
	id = htw_start(self->fd, 0, 1);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ(1, r.ret);
	EXPECT_EQ(id, r.ev.id);
}

HTW_TEST(every_reader_wakes)
{
	enum { READERS = 8 };
	struct reader r[READERS];
	unsigned int i, seen = 0;
	__u64 start;

	ASSERT_TRUE(blocking(self->fd, true));
	for (i = 0; i < READERS; i++)
		ASSERT_TRUE(start_reader(&r[i], self->fd));
	for (i = 0; i < READERS; i++)
		ASSERT_TRUE(reader_waits(&r[i]));
	/* On one tick, so that the readers are woken together. */
	start = now_ns() + 20 * MSEC;
	for (i = 0; i < READERS; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, start, i));
	for (i = 0; i < READERS; i++) {
		ASSERT_EQ(0, pthread_join(r[i].thread, NULL));
		ASSERT_EQ(1, r[i].ret);
		ASSERT_GT(READERS, r[i].ev.cookie);
		seen |= 1U << r[i].ev.cookie;
	}
	EXPECT_EQ((1U << READERS) - 1, seen);
	EXPECT_EQ(0, htw_timers(self->fd));
}

enum { INSTANT = 200 };

/* Descriptors with a blocked reader and a timer of one instant each. */
static bool begin_instant(struct reader *r, __u64 *ids, __u64 instant)
{
	unsigned int i;
	int fd;

	for (i = 0; i < INSTANT; i++) {
		fd = htw_open(0);
		if (fd < 0 || !start_reader(&r[i], fd))
			return false;
	}
	for (i = 0; i < INSTANT; i++) {
		ids[i] = reader_waits(&r[i]) ? htw_start_abs(r[i].fd, instant, 1) : 0;
		if (!ids[i])
			return false;
	}
	return true;
}

/*
 * Readers of more descriptors than softirq wakes at a time: each gets its event, though of some the
 * timer is stopped or moved while they are to be woken, and others are killed with a process.
 */
HTW_TEST(of_many_descriptors_at_an_instant)
{
	static struct reader r[INSTANT];
	static __u64 ids[INSTANT];
	const __u64 instant = now_ns() + SEC, later = instant + 100 * MSEC;
	unsigned int i, stopped = 0, moved = 0;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid) {
		if (begin_instant(r, ids, instant))
			pause();
		_exit(1);
	}
	ASSERT_TRUE(begin_instant(r, ids, instant));
	/* It comes before the readers. */
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 1 }));
	sleep_until(instant + MSEC / 2);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	for (i = INSTANT; i--; ) {
		if (i % 4 == 1 && !htw_move(r[i].fd, ids[i], later, HTW_F_ABS)) {
			ids[i] = 0;
			moved++;
		}
		if (i % 4 == 2 && !htw_stop(r[i].fd, ids[i])) {
			ASSERT_NE(0, htw_start(r[i].fd, 0, 2));
			stopped++;
		}
	}
	TH_LOG("%u moved and %u stopped, of %u each", moved, stopped, INSTANT / 4);
	for (i = 0; i < INSTANT; i++) {
		ASSERT_EQ(0, pthread_join(r[i].thread, NULL));
		ASSERT_EQ(1, r[i].ret);
		EXPECT_LE(ids[i] ? r[i].ev.deadline : later, r[i].ev.taken);
		EXPECT_EQ(0, htw_timers(r[i].fd));
		close(r[i].fd);
	}
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
}

enum { SHARED = 20000, SHARERS = 4, QUIT = SHARED };

struct sharer {
	pthread_t thread;
	int fd;
	int cpu;
	int room;
	unsigned char *seen;
	const char *wrong;
};

/* Read until a QUIT; a reader that gets more than one starts the others again. */
static void *share(void *arg)
{
	struct htw_event ev[7];
	struct sharer *s = arg;
	int quits = 0, i, n;

	htw_pin(s->cpu);
	while (!quits) {
		n = htw_read(s->fd, ev, s->room);
		if (n <= 0) {
			s->wrong = "read";
			break;
		}
		for (i = 0; i < n; i++) {
			if (ev[i].cookie == QUIT)
				quits++;
			else if (ev[i].cookie > QUIT || ev[i].taken < ev[i].deadline)
				s->wrong = "event";
			else
				__atomic_fetch_add(&s->seen[ev[i].cookie], 1, __ATOMIC_RELAXED);
		}
	}
	while (--quits > 0)
		if (!htw_start(s->fd, 0, QUIT))
			s->wrong = "add";
	return NULL;
}

HTW_TEST(shared_by_several_readers)
{
	static unsigned char seen[SHARED];
	struct sharer s[SHARERS];
	__u64 random = 88172645463325252ULL, start;
	__u64 ids[BATCH], deadlines[BATCH], cookies[BATCH];
	unsigned int i, j;

	ASSERT_TRUE(blocking(self->fd, true));
	for (i = 0; i < SHARERS; i++) {
		s[i] = (struct sharer){
			.fd = self->fd,
			.cpu = i % 2 ? htw_other_cpu() : 0,
			.room = 1 + i * 2,
			.seen = seen,
		};
		ASSERT_EQ(0, pthread_create(&s[i].thread, NULL, share, &s[i]));
	}
	start = now_ns();
	for (i = 0; i < SHARED; i += j) {
		for (j = 0; j < BATCH && i + j < SHARED; j++) {
			deadlines[j] = start + xorshift64(&random) % SEC;
			cookies[j] = i + j;
		}
		struct htw_vector_args v = htw_vector_add(ids, deadlines, cookies, j);

		v.flags = HTW_F_ABS;
		ASSERT_EQ(0, htw_vector_all(self->fd, v));
	}
	ASSERT_TRUE(htw_eventually(!htw_timers(self->fd)));
	for (i = 0; i < SHARERS; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, QUIT));
	for (i = 0; i < SHARERS; i++) {
		ASSERT_EQ(0, pthread_join(s[i].thread, NULL));
		EXPECT_EQ(NULL, s[i].wrong);
	}
	for (i = 0; i < SHARED; i++)
		ASSERT_EQ(1, seen[i]);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* lseek() and write() fail as they do on a timerfd. */
HTW_TEST(nowhere_to_seek_or_write)
{
	struct htw_event ev;

	ASSERT_NE(0, htw_start(self->fd, 0, 1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(-1, lseek(self->fd, 0, SEEK_SET));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pread(self->fd, &ev, sizeof(ev), 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pwrite(self->fd, &ev, sizeof(ev), 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, write(self->fd, &ev, sizeof(ev)));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
}

/* Less than there was room for means that nothing is left, also when signals come all the time. */
HTW_TEST(signals_do_not_shorten_a_read)
{
	enum { COUNT = 50000 };
	const struct itimerval often = { .it_value.tv_usec = 100, .it_interval.tv_usec = 100 };
	struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	const struct itimerval never = { };
	struct htw_event *ev = calloc(COUNT + 1, sizeof(*ev));
	unsigned int round;

	ASSERT_NE(NULL, ev);
	memset(ev, 1, (COUNT + 1) * sizeof(*ev));	/* without page faults */
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	for (round = 0; round < 5; round++) {
		ASSERT_TRUE(expire(self->fd, COUNT));
		signals = 0;
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
		while (!signals)
			;
		EXPECT_EQ(COUNT, htw_read(self->fd, ev, COUNT + 1));
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
	}
	free(ev);
}

struct starter {
	int fd, other;
	bool ended;
};

/* On the first CPU: timers that expire at the same tick, those of another descriptor first. */
static void *start_behind_others(void *arg)
{
	enum { ROUNDS = 1000, OTHERS = 100, OWN = 4 };
	struct htw_event ev[OTHERS];
	struct starter *s = arg;
	unsigned int round, i;
	__u64 due;

	htw_pin(0);
	for (round = 0; round < ROUNDS; round++) {
		due = clock_ns(CLOCK_MONOTONIC) + 2 * MSEC;
		for (i = 0; i < OTHERS; i++)
			htw_start_abs(s->other, due, 0);
		for (i = 0; i < OWN; i++)
			htw_start_abs(s->fd, due, 1);
		htw_collect(s->other, ev, OTHERS);
	}
	__atomic_store_n(&s->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * Events of several CPUs are read in the order of their times. Here, one CPU expires timers of two
 * descriptors in one go, so that its time is old when it comes to the second one's, for which the
 * other CPU delivers all the time.
 */
HTW_TEST(fired_never_goes_back)
{
	struct starter s = { .fd = self->fd };
	struct htw_event ev[64];
	__u64 last = 0, back = 0, others = 0;
	pthread_t thread;
	bool ended;
	int i, n;

	if (get_nprocs() < 2)
		SKIP(return, "needs two CPUs");
	s.other = htw_open(O_NONBLOCK);
	ASSERT_LE(0, s.other);
	ASSERT_EQ(0, pthread_create(&thread, NULL, start_behind_others, &s));
	ASSERT_EQ(0, htw_pin(1));
	do {
		ended = __atomic_load_n(&s.ended, __ATOMIC_ACQUIRE);
		for (i = 0; i < 16; i++)
			ASSERT_NE(0, htw_start(self->fd, 0, 0));
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0) {
			for (i = 0; i < n; i++) {
				back += ev[i].taken < last;
				last = ev[i].taken;
				others += ev[i].cookie;
			}
		}
	} while (!ended || htw_timers(self->fd));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(4000, others);
	EXPECT_EQ(0, back);
	close(s.other);
}

TEST_HARNESS_MAIN
