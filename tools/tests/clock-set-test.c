// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_F_CANCEL_ON_SET: setting CLOCK_REALTIME expires the timers that have this
 * flag, each exactly once, and no others
 *
 * Each test sets the clock back by as much as it set it forward.
 */
#include <pthread.h>
#include <sys/timex.h>

#include "htw-test.h"

FIXTURE(set) {
	int fd;
	__u64 features;
	__u64 base;
};

FIXTURE_SETUP(set)
{
	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	self->features = htw_info(self->fd).features;
	NEEDS(HTW_FEATURE_CANCEL_ON_SET);
	ASSERT_EQ(0, htw_setup_clock(self->fd, CLOCK_REALTIME));
	self->base = clock_ns(CLOCK_REALTIME);
}

FIXTURE_TEARDOWN(set)
{
	close(self->fd);
}

#define SET_TEST(name) TEST_F_TIMEOUT(set, name, TEST_SECONDS)

/* Step CLOCK_REALTIME by exactly @ns. */
static int set_by(__s64 ns)
{
	struct timex tx = {
		.modes = ADJ_SETOFFSET | ADJ_NANO,
		.time = { .tv_sec = ns / (__s64)SEC, .tv_usec = ns % (__s64)SEC },
	};

	if (tx.time.tv_usec < 0) {
		tx.time.tv_sec--;
		tx.time.tv_usec += SEC;
	}
	return adjtimex(&tx) < 0 ? -errno : 0;
}

#define FORTH	((__s64)HOUR)
#define BACK	(-(__s64)HOUR)

static __u64 start_as(int fd, __u64 deadline, __u64 interval, __u32 firings, __u32 flags,
		      __u64 cookie)
{
	struct htw_add add = htw_abs(deadline, cookie);

	add.interval = interval;
	add.firings = firings;
	add.flags = flags | HTW_F_CANCEL_ON_SET;
	return htw_call(fd, HTW_ADD, &add) ? 0 : add.id;
}

/* Start a timer that is due in 100 hours. */
static __u64 start_far(int fd, __u32 flags, __u64 cookie)
{
	return start_as(fd, clock_ns(CLOCK_REALTIME) + 100 * HOUR, 0, 0, HTW_F_ABS | flags, cookie);
}

/*
 * Wait until the walks for earlier clock changes have visited all timers of a
 * context. A timer that this walk expires shows that the walk has begun, and so
 * that the one before it has ended.
 */
static bool walked(int fd)
{
	struct htw_cancel cancel;
	int i;

	for (i = 0; i < 2; i++) {
		cancel = htw_cancel_of(start_far(fd, 0, SENTINEL), HTW_CANCEL_DISCARD);
		if (set_by(i ? -1 : 1) ||
		    !htw_eventually(htw_query(fd, cancel.id).state == HTW_STATE_EXPIRED) ||
		    htw_call(fd, HTW_CANCEL, &cancel) != -EALREADY)
			return false;
	}
	return true;
}

static void expires_once_on_set(struct __test_metadata *_metadata, int fd, __s64 by)
{
	struct htw_event ev[3];
	__u64 ids[2], before, after;
	int i;

	ids[0] = start_far(fd, HTW_F_ABS, 7);
	ids[1] = start_as(fd, 100 * HOUR, 0, 0, 0, 8);		/* relative */
	ASSERT_NE(0, ids[0]);
	ASSERT_NE(0, ids[1]);
	EXPECT_EQ(0, htw_poll(fd, 0));
	ASSERT_EQ(0, set_by(by));
	before = clock_ns(CLOCK_REALTIME);
	ASSERT_EQ(2, htw_collect(fd, ev, 2));
	after = clock_ns(CLOCK_REALTIME);
	EXPECT_NE(ev[0].id, ev[1].id);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(ev[i].cookie == 7 || ev[i].cookie == 8);
		EXPECT_EQ(ids[ev[i].cookie - 7], ev[i].id);
		EXPECT_EQ(HTW_EVENT_CLOCK_SET, ev[i].flags);
		EXPECT_EQ(0, ev[i].missed);
		/* fired is on the clock as it is set now, long before the deadline. */
		EXPECT_LE(before - SEC, ev[i].fired);
		EXPECT_GE(after, ev[i].fired);
		EXPECT_LT(ev[i].fired, ev[i].deadline);
		EXPECT_EQ(-ENOENT, htw_stop(fd, ids[i]));
	}
	EXPECT_EQ(0, htw_timers(fd));
}

SET_TEST(forward)
{
	expires_once_on_set(_metadata, self->fd, FORTH);
	ASSERT_EQ(0, set_by(-FORTH));
}

SET_TEST(back)
{
	expires_once_on_set(_metadata, self->fd, BACK);
	ASSERT_EQ(0, set_by(-BACK));
}

SET_TEST(by_a_nanosecond)
{
	expires_once_on_set(_metadata, self->fd, 1);
	expires_once_on_set(_metadata, self->fd, -1);
}

/* Forward and back again before any walk can have run. */
SET_TEST(to_and_fro)
{
	struct htw_event ev[2];
	__u64 id = start_far(self->fd, 0, 1);

	ASSERT_EQ(0, set_by(FORTH));
	ASSERT_EQ(0, set_by(-FORTH));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(id, ev[0].id);
	EXPECT_EQ(HTW_EVENT_CLOCK_SET, ev[0].flags);
	ASSERT_TRUE(walked(self->fd));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 1));
}

/*
 * A zero offset, another frequency, another TAI offset: none of these sets the
 * clock.
 */
SET_TEST(not_set)
{
	struct timex tai = { .modes = ADJ_TAI, .constant = 37 };
	struct timex freq = { .modes = ADJ_FREQUENCY, .freq = 1000 };
	struct htw_event ev[2];
	__u64 id = start_far(self->fd, 0, 1);

	ASSERT_NE(0, id);
	ASSERT_EQ(0, set_by(0));
	ASSERT_LE(0, adjtimex(&tai));
	ASSERT_LE(0, adjtimex(&freq));
	EXPECT_EQ(0, htw_poll(self->fd, 100));
	tai.constant = 0;
	freq.freq = 0;
	ASSERT_LE(0, adjtimex(&tai));
	ASSERT_LE(0, adjtimex(&freq));
	EXPECT_EQ(0, htw_poll(self->fd, 100));
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
	/* Later changes are still noticed. */
	ASSERT_EQ(0, set_by(1));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(id, ev[0].id);
	ASSERT_EQ(0, set_by(-1));
}

/* Timers without the flag are not touched, in this context and in others. */
SET_TEST(others_are_left_alone)
{
	const __u64 later = clock_ns(CLOCK_REALTIME) + 100 * HOUR;
	int monotonic = htw_open(O_NONBLOCK), deaf = htw_open(O_NONBLOCK);
	struct htw_event ev[8];
	__u64 plain[3], id;
	int i;

	ASSERT_LE(0, monotonic);
	ASSERT_EQ(0, htw_setup_clock(deaf, CLOCK_REALTIME));
	plain[0] = htw_start_abs(self->fd, later, 0);
	id = start_far(self->fd, 0, 1);
	plain[1] = htw_start_abs(self->fd, later, 2);
	plain[2] = htw_start_abs(deaf, later, 3);
	ASSERT_NE(0, htw_start(monotonic, HOUR / 2, 4));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, set_by(i % 2 ? -FORTH : FORTH));
		ASSERT_TRUE(htw_wait_readable(self->fd));
		ASSERT_EQ(1, htw_read(self->fd, ev, 8));
		EXPECT_EQ(id, ev[0].id);
		id = start_far(self->fd, 0, 1);
	}
	ASSERT_TRUE(walked(self->fd));
	ASSERT_EQ(1, htw_read(self->fd, ev, 8));
	EXPECT_EQ(id, ev[0].id);
	for (i = 0; i < 3; i++) {
		const int fd = i == 2 ? deaf : self->fd;

		EXPECT_EQ(HTW_STATE_PENDING, htw_query(fd, plain[i]).state);
		EXPECT_EQ(later, htw_query(fd, plain[i]).deadline);
		EXPECT_EQ(0, htw_query(fd, plain[i]).flags);
		EXPECT_EQ(0, htw_poll(fd, 0));
	}
	EXPECT_EQ(0, htw_poll(monotonic, 0));
	EXPECT_EQ(1, htw_timers(monotonic));
}

/*
 * The flag is EINVAL on all other clocks, and in HTW_MOD; the failed calls
 * leave no timer.
 */
SET_TEST(only_with_realtime)
{
	static const int clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, HTW_CLOCK_MANUAL };
	__u64 id;
	int i;

	for (i = 0; i < 3; i++) {
		struct htw_add add = htw_rel(HOUR, 1);
		struct htw_op op = htw_op_add(HOUR, 1);
		int fd = htw_open(O_NONBLOCK);

		ASSERT_EQ(0, htw_setup_clock(fd, clocks[i]));
		add.flags = HTW_F_CANCEL_ON_SET;
		EXPECT_EQ(-EINVAL, htw_call(fd, HTW_ADD, &add));
		EXPECT_EQ(POISON, add.id);
		op.add.flags = HTW_F_CANCEL_ON_SET;
		EXPECT_EQ(0, htw_batch_all(fd, &op, 1));
		EXPECT_EQ(-EINVAL, op.result);
		EXPECT_EQ(0, htw_timers(fd));
		close(fd);
	}
	id = start_far(self->fd, 0, 1);
	EXPECT_EQ(-EINVAL, htw_move(self->fd, id, HOUR, HTW_F_CANCEL_ON_SET));
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
}

SET_TEST(query_and_list_tell_the_flag)
{
	struct htw_query q[3];
	struct htw_list list = htw_list_of(q, 3);
	__u64 id = start_far(self->fd, HTW_F_KEEP, 1), plain = htw_start(self->fd, HOUR, 2);
	struct htw_event ev[2];

	EXPECT_EQ(HTW_F_CANCEL_ON_SET | HTW_F_KEEP, htw_query(self->fd, id).flags);
	EXPECT_EQ(0, htw_query(self->fd, plain).flags);
	ASSERT_EQ(0, htw_call(self->fd, HTW_LIST, &list));
	ASSERT_EQ(2, list.done);
	EXPECT_EQ(HTW_F_CANCEL_ON_SET | HTW_F_KEEP, q[0].flags);
	EXPECT_EQ(0, q[1].flags);
	ASSERT_EQ(0, set_by(1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, id).state);
	EXPECT_EQ(HTW_F_CANCEL_ON_SET | HTW_F_KEEP, htw_query(self->fd, id).flags);
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
	EXPECT_EQ(HTW_F_CANCEL_ON_SET | HTW_F_KEEP, htw_query(self->fd, id).flags);
	ASSERT_EQ(0, set_by(-1));
}

/* A kept timer: disarmed it ignores the clock, and HTW_MOD arms it with its flag. */
SET_TEST(kept)
{
	__u64 id = start_far(self->fd, HTW_F_KEEP, 1);
	struct htw_event ev[2];
	int i;

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, set_by(FORTH));
		ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
		EXPECT_EQ(id, ev[0].id);
		EXPECT_EQ(HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE, ev[0].flags);
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
		ASSERT_EQ(0, set_by(-FORTH));
		ASSERT_TRUE(walked(self->fd));
		EXPECT_EQ(0, htw_poll(self->fd, 0));
		/* Its own expiration does not carry HTW_EVENT_CLOCK_SET. */
		ASSERT_EQ(0, htw_move(self->fd, id, MSEC, 0));
		ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
		EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
		EXPECT_NOT_EARLY_BY(CLOCK_REALTIME, &ev[0]);
		ASSERT_EQ(0, htw_move(self->fd, id, 100 * HOUR, 0));
	}
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

/* A timer that the table has disarmed does not expire; once it is armed again, it does. */
SET_TEST(disarmed_in_the_table)
{
	volatile __u64 *table;
	struct htw_event ev[3];
	__u64 ids[2];

	NEEDS(HTW_FEATURE_TABLE);
	table = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, HTW_OFF_TABLE);
	ASSERT_NE(MAP_FAILED, (void *)table);
	ids[0] = start_far(self->fd, 0, 0);
	ids[1] = start_far(self->fd, 0, 1);
	table[HTW_ID_SLOT(ids[0])] = HTW_DISARMED;
	ASSERT_EQ(0, set_by(FORTH));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(ids[1], ev[0].id);
	ASSERT_TRUE(walked(self->fd));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, ids[0]).state);
	table[HTW_ID_SLOT(ids[0])] = 0;
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, ids[0]).state);
	ASSERT_EQ(0, set_by(BACK));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(ids[0], ev[0].id);
	EXPECT_EQ(HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE, ev[0].flags);
	munmap((void *)table, PAGE);
}

/* HTW_MOD starts anew: changes of the clock before it do not count. */
SET_TEST(moved_after_the_clock_was_set)
{
	__u64 id = start_far(self->fd, 0, 1);
	struct htw_event ev[2];

	ASSERT_EQ(0, set_by(FORTH));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	/* The unread expiration is dropped, and its HTW_EVENT_CLOCK_SET with it. */
	ASSERT_EQ(0, htw_move(self->fd, id, 20 * MSEC, 0));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(id, ev[0].id);
	EXPECT_EQ(0, ev[0].flags);
	EXPECT_NOT_EARLY_BY(CLOCK_REALTIME, &ev[0]);
	ASSERT_EQ(0, set_by(-FORTH));
}

/*
 * A step over the deadline: the timers expire, and those with the flag report
 * the step.
 */
SET_TEST(jumped_over)
{
	const __u64 due = clock_ns(CLOCK_REALTIME) + HOUR / 2;
	struct htw_event ev[2];
	__u64 ids[2];
	int i;

	ids[0] = start_as(self->fd, due, 0, 0, HTW_F_ABS, 0);
	ids[1] = htw_start_abs(self->fd, due, 1);
	ASSERT_EQ(0, set_by(FORTH));
	ASSERT_EQ(2, htw_collect(self->fd, ev, 2));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(ids[ev[i].cookie], ev[i].id);
		EXPECT_EQ(ev[i].cookie ? 0 : HTW_EVENT_CLOCK_SET, ev[i].flags);
		EXPECT_EQ(due, ev[i].deadline);
		EXPECT_GE(ev[i].fired, due);
	}
	ASSERT_EQ(0, set_by(-FORTH));
}

/* An expiration that is unread when the clock is set reports it, too. */
SET_TEST(set_while_unread)
{
	__u64 ids[2] = {
		start_as(self->fd, MSEC, 0, 0, 0, 0),
		start_as(self->fd, 2 * MSEC, 0, 0, 0, 1),
	};
	struct htw_cancel cancel = htw_cancel_of(ids[1], 0);
	struct htw_event ev[3];
	int i;

	ASSERT_TRUE(htw_eventually(htw_info(self->fd).expired == 2));
	/* Cancelling the timer now keeps the event. */
	EXPECT_EQ(-EALREADY, htw_call(self->fd, HTW_CANCEL, &cancel));
	ASSERT_EQ(0, set_by(BACK));
	ASSERT_TRUE(walked(self->fd));
	ASSERT_EQ(2, htw_read(self->fd, ev, 3));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(ids[i], ev[i].id);
		EXPECT_EQ(HTW_EVENT_CLOCK_SET, ev[i].flags);
		EXPECT_GE(ev[i].fired, ev[i].deadline);
	}
	ASSERT_EQ(0, set_by(-BACK));
}

SET_TEST(cancelled_while_unread)
{
	__u64 id = start_far(self->fd, HTW_F_KEEP, 5);
	struct htw_cancel cancel = htw_cancel_of(id, 0);
	struct htw_event ev[2];

	ASSERT_EQ(0, set_by(1));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(-EALREADY, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(0, cancel.remaining);
	EXPECT_EQ(0, cancel.missed);
	EXPECT_EQ(5, cancel.cookie);
	ASSERT_EQ(1, htw_read(self->fd, ev, 2));
	EXPECT_EQ(HTW_EVENT_CLOCK_SET, ev[0].flags);
	EXPECT_EQ(0, htw_timers(self->fd));
	ASSERT_EQ(0, set_by(-1));
}

/*
 * A periodic timer reports the change at once, though no firing is due. Then it
 * goes on in phase, with the deadline that it was waiting for; no firing is
 * lost or counted twice.
 */
SET_TEST(periodic)
{
	const __u64 due = clock_ns(CLOCK_REALTIME) + 10 * HOUR, interval = HOUR / 4;
	__u64 id = start_as(self->fd, due, interval, 50, HTW_F_ABS, 1);
	struct htw_query q;
	struct htw_event ev[2];

	/* Set back: no firing is due. */
	ASSERT_EQ(0, set_by(BACK));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE, ev[0].flags);
	EXPECT_EQ(due, ev[0].deadline);
	EXPECT_LT(ev[0].fired, due);
	EXPECT_EQ(0, ev[0].missed);
	q = htw_query(self->fd, id);
	EXPECT_EQ(HTW_STATE_PENDING, q.state);
	EXPECT_EQ(due, q.deadline);
	EXPECT_EQ(50, q.firings);

	/* Step over the first firing and four more. */
	ASSERT_EQ(0, set_by(HOUR + 10 * HOUR + HOUR + 10 * SEC));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE, ev[0].flags);
	EXPECT_EQ(due, ev[0].deadline);
	EXPECT_GE(ev[0].fired, due);
	EXPECT_EQ(4, ev[0].missed);
	q = htw_query(self->fd, id);
	EXPECT_EQ(due + 5 * interval, q.deadline);
	EXPECT_EQ(45, q.firings);

	/*
	 * The event is queued ahead of the deadline, and read only after two
	 * more firings are due.
	 */
	ASSERT_EQ(0, set_by(-(__s64)SEC));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_TRUE(walked(self->fd));
	ASSERT_EQ(0, set_by(3 * interval));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(due + 5 * interval, ev[0].deadline);
	EXPECT_EQ(3, ev[0].missed);
	q = htw_query(self->fd, id);
	EXPECT_EQ(due + 8 * interval, q.deadline);
	EXPECT_EQ(42, q.firings);
	EXPECT_EQ(0, htw_stop(self->fd, id));
	ASSERT_EQ(0, set_by(-(__s64)(11 * HOUR + 9 * SEC + 3 * interval)));
}

/* The change is reported once; later firings are ordinary. */
SET_TEST(periodic_goes_on_as_ever)
{
	struct htw_event ev;
	int i;

	ASSERT_NE(0, start_as(self->fd, HOUR, 5 * MSEC, 0, 0, 1));
	ASSERT_EQ(0, set_by(FORTH + MSEC));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE, ev.flags);
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
		EXPECT_NOT_EARLY_BY(CLOCK_REALTIME, &ev);
	}
	ASSERT_EQ(0, set_by(-FORTH - (__s64)MSEC));
}

/*
 * All remaining firings are stepped over while the early event is unread: they
 * are counted, and the timer ends.
 */
SET_TEST(periodic_with_few_firings)
{
	const __u64 due = clock_ns(CLOCK_REALTIME) + HOUR;
	struct htw_event ev[2];

	ASSERT_NE(0, start_as(self->fd, due, SEC, 3, HTW_F_ABS, 1));
	ASSERT_EQ(0, set_by(BACK));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(0, set_by(3 * HOUR));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(HTW_EVENT_CLOCK_SET, ev[0].flags);
	EXPECT_EQ(3, ev[0].missed);
	EXPECT_EQ(0, htw_timers(self->fd));
	ASSERT_EQ(0, set_by(-2LL * (__s64)HOUR));
}

SET_TEST(private_wheel)
{
	struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
		.clock = CLOCK_REALTIME, .tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
	};
	int fd = htw_open(O_NONBLOCK);

	ASSERT_EQ(0, htw_set_up(fd, setup));
	expires_once_on_set(_metadata, fd, FORTH);
	expires_once_on_set(_metadata, fd, -FORTH);
}

/* A blocked read() or poll() returns when the clock is set. */
SET_TEST(wakes_a_reader)
{
	pid_t pid;
	int status = -1;

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	ASSERT_NE(0, start_far(self->fd, 0, 1));
	pid = fork();
	if (!pid) {
		struct htw_event ev;

		_exit(htw_read(self->fd, &ev, 1) == 1 && ev.flags == HTW_EVENT_CLOCK_SET ? 0 : 1);
	}
	ASSERT_TRUE(htw_eventually(htw_sleeps_in(pid, SYS_read, self->fd)));
	ASSERT_EQ(0, set_by(FORTH));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, set_by(-FORTH));
}

/* Thousands of timers at all distances, every second one without the flag. */
SET_TEST(thousands)
{
	enum { COUNT = 20000 };
	static unsigned char seen[COUNT];
	static struct htw_event ev[COUNT];
	const __u64 now = clock_ns(CLOCK_REALTIME);
	struct htw_op ops[BATCH];
	__u64 random = 3;
	int i, n, j;

	for (i = 0; i < COUNT; i += n) {
		n = COUNT - i < BATCH ? COUNT - i : BATCH;
		for (j = 0; j < n; j++) {
			const __u64 later = HOUR + xorshift64(&random) % (1000 * HOUR);

			ops[j] = htw_op_add(now + later, i + j);
			if ((i + j) % 2)
				ops[j].add.flags |= HTW_F_CANCEL_ON_SET;
		}
		ASSERT_EQ(0, htw_batch_all(self->fd, ops, n));
	}
	ASSERT_EQ(0, set_by(BACK));
	ASSERT_EQ(COUNT / 2, htw_collect(self->fd, ev, COUNT / 2));
	for (i = 0; i < COUNT / 2; i++) {
		ASSERT_GT(COUNT, ev[i].cookie);
		EXPECT_EQ(1, ev[i].cookie % 2);
		EXPECT_EQ(0, seen[ev[i].cookie]++);
		EXPECT_EQ(HTW_EVENT_CLOCK_SET, ev[i].flags);
	}
	ASSERT_TRUE(walked(self->fd));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 1));
	EXPECT_EQ(COUNT / 2, htw_timers(self->fd));
	ASSERT_EQ(0, set_by(-BACK));
}

/* HTW_HARVEST while the clock is set: each timer ends in the one or in the other. */
SET_TEST(harvested_meanwhile)
{
	enum { COUNT = 3000, ROUNDS = 20 };
	static struct htw_query q[COUNT];
	static struct htw_event ev[COUNT];
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		struct htw_list list = htw_list_of(q, COUNT);
		__u64 harvested = 0, read = 0;
		int n;

		for (i = 0; i < COUNT; i++)
			ASSERT_NE(0, start_far(self->fd, 0, i));
		ASSERT_EQ(0, set_by(round % 2 ? -FORTH : FORTH));
		do {
			list.count = 100;
			ASSERT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
			harvested += list.done;
		} while (list.done);
		while ((n = htw_read(self->fd, ev, COUNT)) > 0)
			read += n;
		EXPECT_EQ(COUNT, harvested + read);
		EXPECT_EQ(0, htw_timers(self->fd));
	}
}

struct setter {
	bool stop;
	__u64 sets;
};

static void *sets_to_and_fro(void *arg)
{
	struct setter *s = arg;

	htw_pin(htw_other_cpu());
	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		if (!set_by(s->sets % 2 ? -FORTH : FORTH))
			s->sets++;
		sched_yield();
	}
	if (s->sets % 2)
		set_by(-FORTH);
	return NULL;
}

/*
 * Adds, moves, cancels, periodic re-arms, expirations, closes and harvests
 * while another CPU keeps setting the clock: each id ends exactly once, and no
 * timer is left that was started before the last change.
 */
SET_TEST(all_at_once)
{
	enum { ROUNDS = 400, EACH = 64 };
	static struct htw_event ev[EACH * 4];
	struct setter setter = { 0 };
	__u64 random = 11, cancelled = 0, read = 0, added = 0, seen = 0, id;
	pthread_t thread;
	int round, i, n, fd;

	ASSERT_EQ(0, pthread_create(&thread, NULL, sets_to_and_fro, &setter));
	for (round = 0; round < ROUNDS; round++) {
		__u64 ids[EACH];

		for (i = 0; i < EACH; i++, added++) {
			/*
			 * Some soon, some late; no timer goes on after its
			 * event was read.
			 */
			const __u64 after = i % 8 ? 100 * HOUR : xorshift64(&random) % MSEC;

			ids[i] = start_as(self->fd, after, 0, 0, 0, i);
			ASSERT_NE(0, ids[i]);
		}
		for (i = 0; i < EACH; i += 3) {
			if (i % 2)
				htw_move(self->fd, ids[i], 200 * HOUR, 0);
			else
				cancelled += !htw_stop(self->fd, ids[i]);
		}
		while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0) {
			for (i = 0; i < n; i++)
				seen += ev[i].flags == HTW_EVENT_CLOCK_SET;
			read += n;
		}
		fd = htw_open(O_NONBLOCK);
		ASSERT_EQ(0, htw_setup_clock(fd, CLOCK_REALTIME));
		for (i = 0; i < 200; i++) {
			id = start_as(fd, i % 2 ? HOUR : MSEC, i % 3 ? HOUR : 0, 0, 0, i);
			ASSERT_NE(0, id);
		}
		close(fd);		/* sometimes during a walk */
	}
	__atomic_store_n(&setter.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_LT(2, setter.sets);
	/* Set the clock once more, for all timers that are left. */
	ASSERT_EQ(0, set_by(1));
	while (read + cancelled < added) {
		ASSERT_TRUE(htw_wait_readable(self->fd));
		n = htw_read(self->fd, ev, ARRAY_SIZE(ev));
		ASSERT_LT(0, n);
		for (i = 0; i < n; i++)
			seen += ev[i].flags == HTW_EVENT_CLOCK_SET;
		read += n;
	}
	EXPECT_EQ(added, read + cancelled);
	EXPECT_LT(0, seen);
	EXPECT_EQ(0, htw_timers(self->fd));
	ASSERT_EQ(0, set_by(-1));
}

/* Close a context while a walk visits thousands of its timers. */
SET_TEST(closed_while_walked)
{
	int round, i, fd;

	for (round = 0; round < 30; round++) {
		fd = htw_open(O_NONBLOCK);
		ASSERT_EQ(0, htw_setup_clock(fd, CLOCK_REALTIME));
		for (i = 0; i < 1000; i++)
			ASSERT_NE(0, start_far(fd, 0, i));
		ASSERT_EQ(0, set_by(round % 2 ? -FORTH : FORTH));
		close(fd);
	}
}

TEST_HARNESS_MAIN
