// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clocks: manual, boottime, realtime, and those of a time namespace
 */
#include "htw-test.h"
#include "htw-fault.h"
#include "htw-timens.h"

#include <pthread.h>
#include <sys/epoll.h>

/* Round @deadline up to the tick at which it expires. */
static __u64 tick_up(__u64 deadline, __u64 tick)
{
	return (deadline + tick - 1) / tick * tick;
}

struct expected {
	__u64 tick;
	__u64 order;
	__u64 deadline;
};

static int by_tick_then_order(const void *a, const void *b)
{
	const struct expected *x = a, *y = b;

	if (x->tick != y->tick)
		return x->tick < y->tick ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/*
 * Advance through an hour in steps of @step: each timer expires exactly at its
 * tick, and timers of one tick in the order of their starts.
 */
static void pass_an_hour(struct __test_metadata *_metadata, int fd, __u64 tick, __u64 step,
			 __u64 spread)
{
	enum { COUNT = 20000 };
	struct expected *e = calloc(COUNT, sizeof(*e));
	struct htw_event ev[64];
	__u64 random = 99 + step, now, got = 0;
	int due;
	int i, n;

	ASSERT_NE(NULL, e);
	ASSERT_EQ(0, htw_setup_clock(fd, HTW_CLOCK_MANUAL));
	for (i = 0; i < COUNT; i++) {
		e[i].order = i;
		e[i].deadline = 1 + xorshift64(&random) % spread * (HOUR / spread);
		e[i].tick = tick_up(e[i].deadline, tick);
		ASSERT_NE(0, htw_start_abs(fd, e[i].deadline, i));
	}
	qsort(e, COUNT, sizeof(*e), by_tick_then_order);
	for (now = 0; now < HOUR + step;) {
		now += step;
		due = htw_advance(fd, step, 0);
		ASSERT_LE(0, due);
		ASSERT_EQ(due && got < COUNT, got < COUNT && e[got].tick <= now);
		while ((n = htw_read(fd, ev, ARRAY_SIZE(ev))) > 0) {
			ASSERT_EQ(1, due);
			for (i = 0; i < n; i++, got++) {
				ASSERT_EQ(e[got].order, ev[i].cookie);
				ASSERT_EQ(e[got].deadline, ev[i].deadline);
				ASSERT_EQ(now, ev[i].taken);
				ASSERT_LE(e[got].tick, now);
				ASSERT_GT(e[got].tick + step, now);
			}
		}
		ASSERT_EQ(-EAGAIN, n);
	}
	EXPECT_EQ(COUNT, got);
	EXPECT_EQ(0, htw_timers(fd));
	free(e);
}

HTW_TEST(manual_hour_at_once)
{
	pass_an_hour(_metadata, self->fd, self->tick, 2 * HOUR, HOUR);
}

HTW_TEST(manual_hour_by_seconds)
{
	pass_an_hour(_metadata, self->fd, self->tick, SEC, HOUR);
}

HTW_TEST(manual_hour_by_an_odd_step)
{
	pass_an_hour(_metadata, self->fd, self->tick, 123456789, HOUR);
}

HTW_TEST(manual_hour_of_equal_deadlines)
{
	pass_an_hour(_metadata, self->fd, self->tick, 60 * SEC, 100);
}

static int by_deadline(const void *a, const void *b)
{
	const __u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

/*
 * Deadlines up to the clock's limit of 292 years, around each power of two and
 * each boundary of a level: not a tick early, not a tick late.
 */
HTW_TEST(manual_every_distance)
{
	static __u64 deadlines[1024];
	struct htw_info_args info;
	struct htw_event ev[2];
	__u64 span, now = 0;
	int i, n = 0, off;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	info = htw_info(self->fd);
	span = info.tick_ns;
	for (i = 0; i < 63 + (int)info.levels; i++) {
		if (i >= 63)
			span *= info.slots[i - 63];
		for (off = -1; off <= 1; off++) {
			deadlines[n++] = i < 63 ? (1ULL << i) + off * self->tick : span + off;
			/* The ranges of other wheels end at 2, 10 and 100 years. */
			if (i < 3)
				deadlines[n++] = (i ? i == 1 ? 10 : 100 : 2) * 8766 * HOUR + off;
		}
	}
	/* Deadlines that wrapped below zero are past; the others never come. */
	for (i = 0; i < n; i++) {
		if (deadlines[i] > 1ULL << 62)
			deadlines[i] = 1;
	}
	qsort(deadlines, n, sizeof(*deadlines), by_deadline);
	for (i = 0; i < n; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, deadlines[i], i));
	ASSERT_NE(0, htw_start_abs(self->fd, ~0ULL, POISON));
	for (i = 0; i < n; i++) {
		const __u64 tick = tick_up(deadlines[i], self->tick);

		if (tick > now) {
			ASSERT_EQ(0, htw_advance(self->fd, tick - 1, HTW_F_ABS));
			ASSERT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
			ASSERT_LT(0, htw_advance(self->fd, tick, HTW_F_ABS));
			now = tick;
		}
		ASSERT_EQ(1, htw_read(self->fd, ev, 1));
		ASSERT_EQ(deadlines[i], ev[0].deadline);
		ASSERT_EQ(i, ev[0].cookie);
		ASSERT_EQ(now, ev[0].taken);
	}
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_advance(self->fd, (1ULL << 63) - 1, HTW_F_ABS));
}

/* Only HTW_ADVANCE moves the manual clock. */
HTW_TEST(manual_stands_still)
{
	struct htw_event ev;
	__u64 id;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	id = htw_start(self->fd, self->tick, 1);
	sleep_until(now_ns() + 50 * MSEC + 10 * self->tick);
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(self->tick, htw_query(self->fd, id).remaining);
	EXPECT_EQ(1, htw_advance(self->fd, self->tick, 0));
	EXPECT_EQ(1, htw_read(self->fd, &ev, 1));
}

/*
 * A process is killed in HTW_ADVANCE, while that moves timers to finer levels. A task that polls
 * with EPOLLET then gets an event, finds timers due, and after it has read one another event.
 */
HTW_TEST(manual_killed_advance)
{
	enum { MANY = 300000, LATER = 5000, ROUNDS = 8 };
	unsigned int killed = 0;
	struct htw_event ev;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
		int fd = htw_open(O_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC), status;
		pid_t pid;

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, htw_setup_clock(fd, HTW_CLOCK_MANUAL));
		ASSERT_EQ(MANY, htw_start_many(fd, HOUR, 1, MANY, NULL));
		ASSERT_EQ(LATER, htw_start_many(fd, 2 * HOUR, 1, LATER, NULL));
		/* One is due before all others, in a bucket of its own. */
		if (i % 2)
			ASSERT_NE(0, htw_start_abs(fd, SEC, 1));
		ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &edge));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid)
			_exit(htw_advance(fd, 2 * HOUR, 0) < 0);
		sleep_until(now_ns() + (3 + i * 4) * MSEC);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		killed += WIFSIGNALED(status);
		/* Unless it was killed before it had moved the clock. */
		if (htw_poll(fd, 0) == POLLIN) {
			EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, 0));
			EXPECT_EQ(1, htw_read(fd, &ev, 1));
			EXPECT_EQ(1, epoll_wait(epoll, &edge, 1, 0));
		} else {
			EXPECT_EQ(0, htw_advance(fd, 0, 0));
		}
		close(epoll);
		close(fd);
	}
	TH_LOG("killed %u times", killed);
}

/* Periodic timers over an hour: one event for each read, all firings counted. */
HTW_TEST(manual_periodic)
{
	struct htw_add_args add = htw_rel(SEC, 1);
	__u64 random = 5, now = 0, firings = 0;
	struct htw_event ev[2];
	int n;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	add.interval = SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	while (now < HOUR) {
		const __u64 step = xorshift64(&random) % (5 * SEC);

		now += step;
		ASSERT_LE(0, htw_advance(self->fd, step, 0));
		n = htw_read(self->fd, ev, 2);
		if (n == -EAGAIN)
			continue;
		ASSERT_EQ(1, n);
		ASSERT_EQ((firings + 1) * SEC, ev[0].deadline);
		firings += 1 + ev[0].missed;
		ASSERT_EQ(now / SEC, firings);
	}
}

static void runs_with(struct __test_metadata *_metadata, int fd, clockid_t clock)
{
	struct htw_event ev;
	__u64 t0, t1, id;
	int i;

	ASSERT_EQ(0, htw_setup_clock(fd, clock));
	EXPECT_EQ(clock, htw_info(fd).clock);
	for (i = 0; i < 50; i++) {
		const __u64 when = clock_ns(clock) + i * 100 * USEC;

		id = htw_start_abs(fd, when, i);
		ASSERT_EQ(1, htw_collect(fd, &ev, 1));
		EXPECT_EQ(id, ev.id);
		EXPECT_EQ(when, ev.deadline);
		EXPECT_LE(when, ev.taken);
		EXPECT_GE(clock_ns(clock), ev.taken);

		t0 = clock_ns(clock);
		id = htw_start(fd, i * 100 * USEC, i);
		t1 = clock_ns(clock);
		ASSERT_EQ(1, htw_collect(fd, &ev, 1));
		EXPECT_EQ(id, ev.id);
		EXPECT_LE(t0 + i * 100 * USEC, ev.deadline);
		EXPECT_GE(t1 + i * 100 * USEC, ev.deadline);
		EXPECT_LE(ev.deadline, ev.taken);
		EXPECT_GE(clock_ns(clock), ev.taken);
	}
	EXPECT_EQ(0, htw_timers(fd));
}

HTW_TEST(monotonic)
{
	runs_with(_metadata, self->fd, CLOCK_MONOTONIC);
}

HTW_TEST(boottime)
{
	runs_with(_metadata, self->fd, CLOCK_BOOTTIME);
}

HTW_TEST(realtime)
{
	runs_with(_metadata, self->fd, CLOCK_REALTIME);
}

static int set_realtime(__s64 by)
{
	const __u64 to = clock_ns(CLOCK_REALTIME) + by;
	struct timespec ts = { .tv_sec = to / SEC, .tv_nsec = to % SEC };

	return clock_settime(CLOCK_REALTIME, &ts) ? -errno : 0;
}

#define REALTIME()	ASSERT_EQ(0, htw_setup_clock(self->fd, CLOCK_REALTIME))

HTW_TEST(realtime_set_forward)
{
	const __u64 now = clock_ns(CLOCK_REALTIME);
	struct htw_event ev[8];
	int i;

	REALTIME();
	for (i = 0; i < 5; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, now + (i + 1) * 600 * SEC, i));
	ASSERT_EQ(0, set_realtime(1801 * SEC));
	ASSERT_EQ(3, htw_collect(self->fd, ev, 3));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(i, ev[i].cookie);
		EXPECT_EQ(now + (i + 1) * 600 * SEC, ev[i].deadline);
		EXPECT_LE(now + 1801 * SEC, ev[i].taken);
	}
	EXPECT_EQ(0, htw_poll(self->fd, 50));
	ASSERT_EQ(0, set_realtime(3600 * SEC));
	ASSERT_EQ(2, htw_collect(self->fd, ev, 2));
	EXPECT_EQ(3, ev[0].cookie);
	EXPECT_EQ(4, ev[1].cookie);
	ASSERT_EQ(0, set_realtime(-5401LL * (__s64)SEC));
}

/* After the clock is set back, new timers expire first and older ones wait. */
HTW_TEST(realtime_set_back)
{
	const __u64 now = clock_ns(CLOCK_REALTIME);
	struct htw_event ev[8];
	__u64 old, new, when;
	int early;

	REALTIME();
	/* An expiration brings the wheel up to the present. */
	ASSERT_NE(0, htw_start(self->fd, MSEC, 0));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	old = htw_start_abs(self->fd, now + 3 * SEC, 1);
	ASSERT_EQ(0, set_realtime(-3600LL * (__s64)SEC));
	when = clock_ns(CLOCK_REALTIME) + 100 * MSEC;
	new = htw_start_abs(self->fd, when, 2);
	early = htw_poll(self->fd, 20);
	if (clock_ns(CLOCK_REALTIME) < when)
		EXPECT_EQ(0, early);
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev + 1, 1));
	EXPECT_EQ(new, ev[0].id);
	EXPECT_EQ(when, ev[0].deadline);
	EXPECT_LE(when, ev[0].taken);
	EXPECT_GE(clock_ns(CLOCK_REALTIME), ev[0].taken);
	/* Past the older timer's deadline, had the clock not been set. */
	sleep_until(now_ns() + 3 * SEC);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 8));
	ASSERT_EQ(0, set_realtime(3600 * SEC));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev + 1, 1));
	EXPECT_EQ(old, ev[0].id);
	EXPECT_EQ(now + 3 * SEC, ev[0].deadline);
	EXPECT_LE(now + 3 * SEC, ev[0].taken);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * Timers at all distances while the clock is set back and forth: none is early
 * by the clock as it was read, none expires twice, none is lost.
 */
HTW_TEST(realtime_set_to_and_fro)
{
	enum { COUNT = 4000 };
	static unsigned char seen[COUNT];
	static __u64 deadline[COUNT];
	static bool was_past[COUNT];
	struct htw_event ev[64];
	__u64 random = 17, got = 0, early = 0, early_past = 0;
	__s64 off = 0, by;
	int i, n, started = 0, round;

	REALTIME();
	for (round = 0; round < 200; round++) {
		const __u64 now = clock_ns(CLOCK_REALTIME);

		for (i = 0; i < COUNT / 200; i++, started++) {
			/* From the past through one tick to days ahead. */
			deadline[started] = now + (1ULL << xorshift64(&random) % 48) - 10 * MSEC;
			was_past[started] = deadline[started] <= now;
			ASSERT_NE(0, htw_start_abs(self->fd, deadline[started], started));
		}
		by = (__s64)(xorshift64(&random) % (2 * HOUR)) - (__s64)HOUR;
		ASSERT_EQ(0, set_realtime(by));
		off += by;
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0) {
			for (i = 0; i < n; i++) {
				ASSERT_GT(started, ev[i].cookie);
				EXPECT_EQ(deadline[ev[i].cookie], ev[i].deadline);
				if (ev[i].taken < ev[i].deadline)
					++*(was_past[ev[i].cookie] ? &early_past : &early);
				EXPECT_EQ(0, seen[ev[i].cookie]++);
			}
			got += n;
		}
		sleep_until(now_ns() + xorshift64(&random) % (5 * MSEC));
	}
	/* Past all deadlines. */
	ASSERT_EQ(0, set_realtime(400 * HOUR));
	off += 400 * HOUR;
	while (got < COUNT) {
		ASSERT_TRUE(htw_wait_readable(self->fd));
		n = htw_read(self->fd, ev, ARRAY_SIZE(ev));
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++) {
			if (ev[i].taken < ev[i].deadline)
				++*(was_past[ev[i].cookie] ? &early_past : &early);
			EXPECT_EQ(0, seen[ev[i].cookie]++);
		}
		got += n;
	}
	EXPECT_EQ(0, early);
	/*
	 * Due when they were started, and the clock was set back before the
	 * wheel ran.
	 */
	EXPECT_EQ(0, early_past);
	EXPECT_EQ(COUNT, got);
	EXPECT_EQ(0, htw_timers(self->fd));
	ASSERT_EQ(0, set_realtime(-off));
}

struct reader {
	int fd;
	int ret;
	struct htw_event *to;
	__u64 at;
};

static void *read_two(void *arg)
{
	struct reader *r = arg;

	r->ret = htw_read(r->fd, r->to, 2);
	r->at = clock_ns(CLOCK_REALTIME);
	return NULL;
}

/*
 * A read sleeps in a page fault while the clock is set back, and a timer is started that is due
 * later on the clock as it is then: it goes by that clock.
 */
HTW_TEST(realtime_set_back_in_a_read)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	const int uffd = htw_fault_open();
	struct reader r = { .fd = self->fd };
	pthread_t thread;
	char *mem;

	if (uffd < 0)
		SKIP(return, "no userfaultfd");
	mem = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	mem[0] = 1;
	ASSERT_EQ(0, htw_fault_register(uffd, mem + page, page));
	/* One event fits before the page that is not there. */
	r.to = (void *)(mem + page - sizeof(struct htw_event));

	ASSERT_EQ(0, htw_setup_clock(self->fd, CLOCK_REALTIME));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 1));
	ASSERT_NE(0, htw_start(self->fd, MSEC, 2));
	sleep_until(now_ns() + 20 * MSEC);
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_two, &r));
	ASSERT_TRUE(htw_fault_comes(uffd));

	ASSERT_EQ(0, set_realtime(-(__s64)HOUR));
	ASSERT_NE(0, htw_start_abs(self->fd, clock_ns(CLOCK_REALTIME) + HOUR / 2, 3));
	ASSERT_EQ(0, htw_fault_resolve(uffd, mem + page, page));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, set_realtime(HOUR));

	/* The first was read before the clock was set. */
	EXPECT_LE(1, r.ret);
	for (int i = 1; i < r.ret; i++)
		EXPECT_LE(r.to[i].deadline, r.at);
	close(uffd);
}

/* Setting the clock does not touch relative timers on the other clocks. */
HTW_TEST(monotonic_is_not_set)
{
	struct htw_event ev[2];
	__u64 t0 = now_ns(), id = htw_start(self->fd, 500 * MSEC, 1);
	int early;

	ASSERT_EQ(0, set_realtime(HOUR));
	early = htw_poll(self->fd, 50);
	if (now_ns() < t0 + 500 * MSEC)
		EXPECT_EQ(0, early);
	ASSERT_EQ(0, set_realtime(-(__s64)HOUR));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(id, ev[0].id);
	EXPECT_LE(t0 + 500 * MSEC, now_ns());
	EXPECT_NOT_EARLY(&ev[0]);
}

#define CHECK(cond) do {						\
	if (!(cond)) {							\
		TH_LOG("not so: %s", #cond);				\
		return false;						\
	}								\
} while (0)

/* Check events against the clock as this process reads it. */
static bool check_by_clock(struct __test_metadata *_metadata, int fd, clockid_t clock)
{
	struct htw_event ev;
	int i;

	for (i = 0; i < 20; i++) {
		const __u64 now = clock_ns(clock), when = now + i * MSEC;
		const __u64 id = htw_start_abs(fd, when, i);

		CHECK(id);
		CHECK(htw_query(fd, id).deadline == when);
		CHECK(htw_query(fd, id).remaining <= 20 * MSEC);
		CHECK(htw_collect(fd, &ev, 1) == 1);
		CHECK(ev.id == id);
		CHECK(ev.deadline == when);
		CHECK(ev.taken >= when);
		CHECK(ev.taken <= clock_ns(clock));
		/* A relative timer's deadline is reported on that clock, too. */
		CHECK(htw_start(fd, 0, i));
		CHECK(htw_collect(fd, &ev, 1) == 1);
		CHECK(ev.deadline >= now && ev.deadline <= clock_ns(clock));
		CHECK(ev.taken >= ev.deadline);
	}
	return true;
}

static bool opened_here(struct __test_metadata *_metadata, clockid_t clock)
{
	int fd = htw_open(O_NONBLOCK);
	bool right;

	CHECK(fd >= 0);
	if (clock != CLOCK_MONOTONIC)
		CHECK(!htw_setup_clock(fd, clock));
	right = check_by_clock(_metadata, fd, clock);
	close(fd);
	return right;
}

#define EXPECT_IN_NAMESPACE(monotonic, boottime, body) do {		\
	int __ret = in_namespace(monotonic, boottime, body);		\
									\
	if (__ret == 77)						\
		SKIP(return, "cannot create a time namespace");		\
	EXPECT_EQ(0, __ret);						\
} while (0)

HTW_TEST(namespace_of_the_opener)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(clocks); i++) {
		EXPECT_IN_NAMESPACE(1000, 2000000, opened_here(_metadata, clocks[i]));
		EXPECT_IN_NAMESPACE(-1, -2, opened_here(_metadata, clocks[i]));
		EXPECT_IN_NAMESPACE(0, 0, opened_here(_metadata, clocks[i]));
	}
}

/* Whoever opened it: times are those of the process that makes the call. */
HTW_TEST(namespace_of_the_user)
{
	EXPECT_IN_NAMESPACE(1000, 2000, check_by_clock(_metadata, self->fd, CLOCK_MONOTONIC));
}

/* What is queried, listed or told as the next time there can be set there again. */
static bool settable_here(struct __test_metadata *_metadata, int fd, __u64 id, __u64 deadline)
{
	__u64 deadlines[2];
	__u64 ids[2] = { id, id };
	struct htw_timer_info entry;
	struct htw_list_args list = htw_list_of(&entry, 1);
	struct htw_vector_args v = htw_vector_add(ids, deadlines, NULL, 2);
	const __u64 here = htw_query(fd, id).deadline;

	CHECK(here == deadline + 1000 * SEC);
	CHECK(!htw_call(fd, HTW_LIST, &list) && list.done == 1 && entry.deadline == here);
	CHECK(htw_info(fd).next > here - HOUR && htw_info(fd).next <= here + 10 * MSEC);
	CHECK(!htw_move(fd, id, here, HTW_F_ABS));
	CHECK(htw_query(fd, id).deadline == here);
	deadlines[0] = here + 1;
	deadlines[1] = here;
	v.op = HTW_OP_MOD;
	v.flags = HTW_MOD_DEADLINE | HTW_F_ABS;
	CHECK(!htw_call(fd, HTW_VECTOR, &v) && v.done == 2 && !v.failed);
	CHECK(htw_query(fd, id).deadline == here);
	return true;
}

HTW_TEST(namespace_of_who_looks)
{
	const __u64 deadline = now_ns() + HOUR, id = htw_start_abs(self->fd, deadline, 1);

	EXPECT_IN_NAMESPACE(1000, 2000, settable_here(_metadata, self->fd, id, deadline));
	EXPECT_EQ(deadline, htw_query(self->fd, id).deadline);
}

static bool manual_here(struct __test_metadata *_metadata)
{
	int fd = htw_open(O_NONBLOCK);
	struct htw_event ev;

	CHECK(!htw_setup_clock(fd, HTW_CLOCK_MANUAL));
	CHECK(htw_start_abs(fd, SEC, 1));
	CHECK(htw_advance(fd, SEC, HTW_F_ABS) == 1);
	CHECK(htw_read(fd, &ev, 1) == 1);
	CHECK(ev.deadline == SEC);
	CHECK(ev.taken == SEC);
	return true;
}

HTW_TEST(namespace_and_the_manual_clock)
{
	EXPECT_IN_NAMESPACE(1000, 2000, manual_here(_metadata));
}

/* Deadlines before boot, which exist on the namespace's clock. */
static bool long_past_here(struct __test_metadata *_metadata)
{
	int fd = htw_open(O_NONBLOCK);
	struct htw_add_args add = htw_abs(5, 1);
	struct htw_event ev;

	CHECK(fd >= 0);
	CHECK(htw_start_abs(fd, 3, 1));
	CHECK(htw_collect(fd, &ev, 1) == 1);
	/* As with a timerfd, nothing is before the machine's own boot. */
	CHECK(ev.deadline == 1000 * SEC);
	add.interval = 7777777;
	CHECK(!htw_call(fd, HTW_ADD, &add));
	CHECK(htw_collect(fd, &ev, 1) == 1);
	CHECK(ev.deadline == 1000 * SEC);
	CHECK(htw_collect(fd, &ev, 1) == 1);
	CHECK((ev.deadline - 1000 * SEC) % 7777777 == 0);
	return true;
}

HTW_TEST(namespace_and_what_is_long_past)
{
	EXPECT_IN_NAMESPACE(1000, 2000, long_past_here(_metadata));
}

TEST_HARNESS_MAIN
