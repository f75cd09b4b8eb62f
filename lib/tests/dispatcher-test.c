// SPDX-License-Identifier: GPL-2.0-only
/* libhtw's dispatcher, on each backend; see libhtw-test.c. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../../tools/common/patience.h"
#include "../libhtw.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MSEC		1000000ULL
#define SEC		1000000000ULL
#define HOUR		(3600 * SEC)
#define FOREVER		(~0ULL)
#define EVENTUALLY	(patience_seconds() * (int64_t)SEC)
#define TEST_SECONDS	240

FIXTURE(dispatcher) {
	struct htw *htw;
	struct htw_dispatcher *d;
};

FIXTURE_VARIANT(dispatcher) {
	enum htw_backend backend;
};

FIXTURE_VARIANT_ADD(dispatcher, process) {
	.backend = HTW_BACKEND_PROCESS,
};

FIXTURE_VARIANT_ADD(dispatcher, device) {
	.backend = HTW_BACKEND_DEVICE,
};

static int open_as(const FIXTURE_VARIANT(dispatcher) *variant, struct htw **htw, bool manual,
		   uint64_t limit)
{
	const struct htw_setup_args setup = {
		.flags = manual ? HTW_SETUP_CLOCK : 0,
		.clock = manual ? HTW_CLOCK_MANUAL : 0,
		.limit = limit,
	};

	return htw_open(htw, variant->backend, &setup);
}

FIXTURE_SETUP(dispatcher)
{
	ASSERT_EQ(0, open_as(variant, &self->htw, true, 0));
	ASSERT_EQ(0, htw_dispatcher_new(&self->d, self->htw));
}

FIXTURE_TEARDOWN(dispatcher)
{
	struct htw_info_args info;

	htw_dispatcher_free(self->d);
	/* The dispatcher leaves no timer behind. */
	EXPECT_EQ(0, htw_info(self->htw, &info));
	EXPECT_EQ(0, info.timers);
	htw_close(self->htw);
}

#define DISPATCHER_TEST(name)	TEST_F_TIMEOUT(dispatcher, name, TEST_SECONDS)

/* What a function did. */
struct log {
	struct htw *htw;
	unsigned int calls;
	uint64_t at;		/* time of the last call */
	uint64_t call;		/* its handle */
	uint64_t missed;
	uint64_t ns;		/* what to do with another call: one of these */
	uint64_t other;
	int result;
};

static void note(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	log->calls++;
	log->at = htw_now(log->htw);
	log->call = call;
	log->missed = htw_call_missed(d, call);
}

static void again(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->result = htw_call_again(d, call, log->ns);
}

static void stop_itself(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->result = htw_call_stop(d, call);
}

static void stop_other(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->result = htw_call_stop(d, log->other);
}

/* One htw_dispatch() makes at most the number of calls in the manual; a loop makes the others. */
DISPATCHER_TEST(most_calls)
{
	struct log log = { .htw = self->htw };
	int i, n;

	for (i = 0; i < 2000; i++)
		ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &log, NULL));
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(512, htw_dispatch(self->d, 0));
	EXPECT_EQ(512, log.calls);
	while ((n = htw_dispatch(self->d, 0)) > 0)
		EXPECT_GE(512, n);
	EXPECT_EQ(0, n);
	EXPECT_EQ(2000, log.calls);
}

DISPATCHER_TEST(after_and_at)
{
	struct log a = { .htw = self->htw }, b = a;
	uint64_t call_a, call_b;

	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &call_a));
	ASSERT_EQ(0, htw_call_at(self->d, 2 * SEC, note, &b, &call_b));
	EXPECT_NE(call_a, call_b);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, SEC - 1, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, 1, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, a.calls);
	EXPECT_EQ(SEC, a.at);
	EXPECT_EQ(call_a, a.call);
	EXPECT_EQ(0, b.calls);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call_a));
	EXPECT_EQ(-ENOENT, htw_call_again(self->d, call_a, 1));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, b.calls);
	htw_advance(self->htw, HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, 0));
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, FOREVER));
}

DISPATCHER_TEST(every)
{
	struct log a = { .htw = self->htw };
	uint64_t call, i;

	EXPECT_EQ(-EINVAL, htw_call_every(self->d, 0, 0, note, &a, &call));
	EXPECT_EQ(-EINVAL, htw_call_every(self->d, 0, SEC, NULL, &a, &call));
	ASSERT_EQ(0, htw_call_every(self->d, SEC, 2 * SEC, note, &a, &call));
	for (i = 0; i < 10; i++) {
		htw_advance(self->htw, SEC + 2 * i * SEC, HTW_F_ABS);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(i + 1, a.calls);
		EXPECT_EQ(0, a.missed);
	}
	/* All missed firings: one call that reports them, or a call for each. */
	htw_advance(self->htw, 20 * SEC, 0);
	EXPECT_LE(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(10, a.calls - 10 + a.missed);
	EXPECT_EQ(0, htw_call_stop(self->d, call));
	htw_advance(self->htw, HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
}

static uint64_t powers(uint64_t previous, void *arg)
{
	struct log *log = arg;

	log->ns *= 2;
	return log->ns > 64 * SEC ? HTW_NO_MORE : previous + log->ns;
}

DISPATCHER_TEST(schedule)
{
	struct log a = { .htw = self->htw, .ns = SEC };
	uint64_t call, when = 0, ns;

	ASSERT_EQ(0, htw_call_schedule(self->d, powers, note, &a, &call));
	for (ns = 2 * SEC; ns <= 64 * SEC; ns *= 2) {
		when += ns;
		htw_advance(self->htw, when - 1, HTW_F_ABS);
		EXPECT_EQ(0, htw_dispatch(self->d, 0));
		htw_advance(self->htw, when, HTW_F_ABS);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(when, a.at);
		EXPECT_EQ(call, a.call);
	}
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));
	EXPECT_EQ(-EINVAL, htw_call_schedule(self->d, powers, note, &a, &call));
	EXPECT_EQ(-EINVAL, htw_call_schedule(self->d, NULL, note, &a, &call));

	/* Stopped before it ended by itself. */
	a.ns = SEC;
	ASSERT_EQ(0, htw_call_schedule(self->d, powers, note, &a, &call));
	EXPECT_EQ(0, htw_call_stop(self->d, call));
	a.ns = SEC;
	ASSERT_EQ(0, htw_call_schedule(self->d, powers, stop_itself, &a, &call));
	htw_advance(self->htw, 2 * SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(-EALREADY, a.result);
	htw_advance(self->htw, HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
}

DISPATCHER_TEST(again_from_outside)
{
	struct log a = { .htw = self->htw };
	uint64_t call;

	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &call));
	EXPECT_EQ(0, htw_call_again(self->d, call, HOUR));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, htw_call_again(self->d, call, SEC));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, a.calls);

	/* Moved when it was due but not yet dispatched: the event is void. */
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &call));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(0, htw_call_again(self->d, call, SEC));
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(2, a.calls);

	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, note, &a, &call));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(0, htw_call_again(self->d, call, HOUR));
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, HOUR, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, htw_call_stop(self->d, call));
}

DISPATCHER_TEST(again_from_within)
{
	struct log a = { .htw = self->htw, .ns = 3 * SEC };
	uint64_t call, i;

	ASSERT_EQ(0, htw_call_after(self->d, 3 * SEC, again, &a, &call));
	for (i = 1; i <= 20; i++) {
		htw_advance(self->htw, 3 * SEC, 0);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(0, a.result);
		EXPECT_EQ(i, a.calls);
		EXPECT_EQ(call, a.call);
	}
	/*
	 * A call that is due at once comes in the next round, or a round might
	 * never end.
	 */
	a.ns = 0;
	htw_advance(self->htw, 3 * SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, htw_call_stop(self->d, call));
}

DISPATCHER_TEST(stop)
{
	struct log a = { .htw = self->htw }, b = a;
	uint64_t call, every;

	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &call));
	EXPECT_EQ(0, htw_call_stop(self->d, call));
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));

	/* Due but not dispatched: it is never called. */
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &call));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(0, htw_call_stop(self->d, call));
	EXPECT_EQ(0, htw_dispatch(self->d, 0));

	/* From within: the call itself, and another that is due. */
	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, stop_itself, &a, &every));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(-EALREADY, a.result);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, every));
	ASSERT_EQ(0, htw_call_after(self->d, SEC, stop_other, &a, &call));
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &b, &a.other));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, a.result);
	EXPECT_EQ(0, b.calls);
	ASSERT_EQ(0, htw_call_after(self->d, SEC, stop_other, &a, &call));
	ASSERT_EQ(0, htw_call_after(self->d, HOUR, note, &b, &a.other));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, a.result);
	htw_advance(self->htw, HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, b.calls);
}

/* A function that starts other calls, and is moved while it runs. */
static void breed(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;
	uint64_t made[3];

	note(d, call, arg);
	if (log->calls > 100)
		return;
	log->result |= htw_call_after(d, SEC, breed, arg, &made[0]);
	log->result |= htw_call_every(d, HOUR, HOUR, note, arg, &made[1]);
	log->result |= htw_call_after(d, HOUR, note, arg, &made[2]);
	log->result |= htw_call_again(d, made[0], 2 * SEC);
	log->result |= htw_call_again(d, made[0], SEC);
	log->result |= htw_call_stop(d, made[1]);
	log->result |= htw_call_stop(d, made[2]);
	log->result |= htw_call_stop(d, made[2]) != -ENOENT;
}

DISPATCHER_TEST(calls_that_make_calls)
{
	struct log a = { .htw = self->htw };
	struct htw_info_args info;
	unsigned int i;

	for (i = 0; i < 100; i++)
		ASSERT_EQ(0, htw_call_after(self->d, SEC, breed, &a, NULL));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(100, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, a.result);
	htw_info(self->htw, &info);
	EXPECT_EQ(100, info.timers);
	a.calls = 1000;
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(100, htw_dispatch(self->d, 0));
	htw_advance(self->htw, 2 * HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
}

struct two {
	struct log log;
	uint64_t call[2];
};

static void start_two(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct two *two = arg;

	note(d, call, &two->log);
	two->log.result |= htw_call_after(d, SEC, note, &two->log, &two->call[0]);
	two->log.result |= htw_call_after(d, SEC, note, &two->log, &two->call[1]);
}

/* A deferred request that fails is tried again until it succeeds. */
DISPATCHER_TEST(limit)
{
	struct htw_dispatcher *d;
	struct two two = { };
	struct htw *htw;

	ASSERT_EQ(0, open_as(variant, &htw, true, 1));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	two.log.htw = htw;
	EXPECT_EQ(0, htw_call_after(d, SEC, start_two, &two, NULL));
	EXPECT_EQ(-ENOSPC, htw_call_after(d, SEC, note, &two, NULL));
	htw_advance(htw, SEC, 0);
	EXPECT_EQ(-ENOSPC, htw_dispatch(d, 0));
	EXPECT_EQ(1, two.log.calls);
	EXPECT_EQ(0, two.log.result);
	EXPECT_EQ(-ENOSPC, htw_dispatch(d, 0));
	EXPECT_EQ(0, htw_call_stop(d, two.call[0]));
	EXPECT_EQ(0, htw_dispatch(d, 0));
	htw_advance(htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(d, 0));
	EXPECT_EQ(2, two.log.calls);
	EXPECT_EQ(two.call[1], two.log.call);
	htw_dispatcher_free(d);
	htw_close(htw);
}

DISPATCHER_TEST(shutdown)
{
	struct htw_pending_call pending[300];
	struct log a = { .htw = self->htw };
	bool seen[250] = { };
	uint64_t call[250], cursor = 0;
	unsigned int i, n;

	for (i = 0; i < 250; i++) {
		if (i % 2) {
			ASSERT_EQ(0, htw_call_after(self->d, (i + 1) * SEC, note, &a, &call[i]));
		} else {
			ASSERT_EQ(0, htw_call_every(self->d, (i + 1) * SEC, HOUR, note, &a,
						    &call[i]));
		}
	}
	htw_advance(self->htw, 50 * SEC, 0);
	EXPECT_EQ(50, htw_dispatch(self->d, 0));
	EXPECT_EQ(100, htw_dispatcher_shutdown(self->d, &cursor, pending, 100));
	n = 100 + htw_dispatcher_shutdown(self->d, &cursor, pending + 100, 200);
	EXPECT_EQ(225, n);	/* among those called, the periodic ones go on */
	for (i = 0; i < n; i++) {
		unsigned int k;

		for (k = 0; k < 250 && call[k] != pending[i].call; k++)
			;
		ASSERT_NE(250, k);
		EXPECT_FALSE(seen[k]);
		seen[k] = true;
		EXPECT_TRUE(pending[i].fn == note);
		EXPECT_EQ(&a, pending[i].arg);
		EXPECT_EQ(k % 2 ? 0 : HOUR, pending[i].interval);
		EXPECT_EQ((k + 1) * SEC + (k < 50 ? HOUR : 0), pending[i].deadline);
		EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call[k]));
	}
	htw_advance(self->htw, 2 * HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(50, a.calls);
	/* The dispatcher is usable again. */
	EXPECT_EQ(0, htw_call_after(self->d, 0, note, &a, NULL));
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
}

static void shut_down(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct htw_pending_call pending[4];
	struct log *log = arg;
	uint64_t cursor = 0;

	note(d, call, arg);
	if (log->ns)
		htw_call_again(d, call, log->ns);
	log->other = 0;
	log->result = htw_dispatcher_shutdown(d, &cursor, pending, 4);
	if (log->result == 1 && pending[0].call == call && pending[0].arg == arg)
		log->other = pending[0].deadline;
	else if (log->result)
		log->result = -1;
	/* The function still uses its argument. */
	if (htw_call_stop(d, call) != -EALREADY)
		log->result = -1;
}

/* A call that is running is reported if it would be made again, with the time of that. */
DISPATCHER_TEST(shutdown_from_within)
{
	struct log once = { .htw = self->htw }, moved = { .htw = self->htw, .ns = HOUR };
	struct log periodic = { .htw = self->htw };
	uint64_t call;

	ASSERT_EQ(0, htw_call_after(self->d, 0, shut_down, &once, &call));
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, once.result);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));

	ASSERT_EQ(0, htw_call_after(self->d, 0, shut_down, &moved, &call));
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, moved.result);
	EXPECT_EQ(HOUR, moved.other);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));

	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, shut_down, &periodic, &call));
	htw_advance(self->htw, 7 * SEC / 2, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, periodic.result);
	EXPECT_EQ(4 * SEC, periodic.other);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));

	htw_advance(self->htw, 2 * HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, once.calls);
	EXPECT_EQ(1, moved.calls);
	EXPECT_EQ(1, periodic.calls);
}

static void advance(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->result = htw_advance(log->htw, log->ns, 0);
}

/* What others may do with the handle of a dispatcher. */
DISPATCHER_TEST(handle_used_by_others)
{
	struct log a = { .htw = self->htw, .ns = SEC }, b = a;
	uint64_t call, every;
	struct htw_timer_info query;
	uint64_t next;

	/* Ask, wait and advance the clock, also from within a call. */
	ASSERT_EQ(0, htw_call_after(self->d, SEC, advance, &a, NULL));
	ASSERT_EQ(0, htw_call_after(self->d, 2 * SEC, note, &b, NULL));
	EXPECT_EQ(0, htw_next_time(self->htw, &next));
	EXPECT_GE(SEC, next);
	EXPECT_EQ(1, htw_advance(self->htw, SEC, 0));
	EXPECT_EQ(1, htw_wait(self->htw, -1));
	EXPECT_LE(1, htw_dispatch(self->d, 0));
	EXPECT_LE(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, a.calls);
	EXPECT_EQ(1, a.result);
	EXPECT_EQ(1, b.calls);

	/* Calls whose timers others have taken are not made, unless they are moved. */
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &b, &call));
	next = 0;
	EXPECT_EQ(1, htw_harvest(self->htw, &next, &query, 1));
	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, note, &b, &every));
	EXPECT_EQ(1, htw_cancel_all(self->htw));
	htw_advance(self->htw, 2 * SEC, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, htw_call_again(self->d, call, SEC));
	EXPECT_EQ(0, htw_call_again(self->d, every, SEC));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(2, htw_dispatch(self->d, 0));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(every, b.call);
}

/* Calls that are due, in the order in which they were started. */
static void start_due(struct __test_metadata *_metadata, struct htw_dispatcher *d, struct log *log,
		      unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		ASSERT_EQ(0, htw_call_after(d, SEC, note, log, NULL));
}

static void move_other(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	if (log->calls == 1)
		log->result = htw_call_again(d, log->other, log->ns);
}

/* A call that is due, and that another one moves to the present, is made once. */
DISPATCHER_TEST(moved_to_the_present_from_within)
{
	struct log a = { .htw = self->htw }, b = a;
	uint64_t call;

	ASSERT_EQ(0, htw_call_after(self->d, SEC, move_other, &a, &call));
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &b, &a.other));
	htw_advance(self->htw, SEC, 0);
	/* A zero delay within a call is for the next dispatch. */
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, a.result);
	EXPECT_EQ(0, b.calls);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, b.calls);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, a.other));
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, HOUR, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, b.calls);
}

static void move_other_and_wait(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	move_other(d, call, arg);
	htw_advance(log->htw, 3 * SEC, 0);
}

/* The same with a call whose old time comes while the dispatch goes on. */
DISPATCHER_TEST(moved_forward_while_its_time_comes)
{
	struct log a = { .htw = self->htw }, b = a, c = a;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		const bool periodic = i;

		a.calls = b.calls = 0;
		a.ns = 0;
		ASSERT_EQ(0, htw_call_after(self->d, SEC, move_other_and_wait, &a, NULL));
		start_due(_metadata, self->d, &c, 63);
		if (periodic) {
			ASSERT_EQ(0, htw_call_every(self->d, 2 * SEC, HOUR, note, &b, &a.other));
		} else {
			ASSERT_EQ(0, htw_call_after(self->d, 2 * SEC, note, &b, &a.other));
		}
		htw_advance(self->htw, SEC, 0);
		EXPECT_EQ(64, htw_dispatch(self->d, 0));
		EXPECT_EQ(0, a.result);
		EXPECT_EQ(0, b.calls);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(1, b.calls);
		EXPECT_EQ(0, htw_dispatch(self->d, 0));
		EXPECT_EQ(periodic ? 0 : -ENOENT, htw_call_stop(self->d, a.other));
	}
}

/* A periodic call that moves itself has its new phase, also if its old next time has come. */
static void move_itself_and_wait(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	if (log->calls > 1)
		return;
	log->result = htw_call_again(d, call, SEC / 4);
	htw_advance(log->htw, SEC, 0);
}

DISPATCHER_TEST(periodic_call_that_moves_itself)
{
	struct log a = { .htw = self->htw }, c = a;
	uint64_t call;

	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, move_itself_and_wait, &a, &call));
	start_due(_metadata, self->d, &c, 63);
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(64, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, a.result);
	/* It is 2 s now. Due at 1.25 s, then 2.25, 3.25, ... */
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(2, a.calls);
	EXPECT_EQ(0, a.missed);
	htw_advance(self->htw, SEC / 4 - 1, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, 1, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	htw_advance(self->htw, SEC - 1, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, 1, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, htw_call_stop(self->d, call));
}

static void *again_in_a_thread(void *arg)
{
	void **args = arg;
	struct log *log = args[1];

	log->result = htw_call_again(args[0], log->other, 0);
	return NULL;
}

static void move_other_by_a_thread(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	void *args[] = { d, arg };
	pthread_t thread;

	note(d, call, arg);
	if (!pthread_create(&thread, NULL, again_in_a_thread, args))
		pthread_join(thread, NULL);
}

/* The event of the old time has been read already when another thread moves the call. */
DISPATCHER_TEST(moved_by_a_thread_when_its_event_was_read)
{
	struct log a = { .htw = self->htw }, b = a;
	int periodic;

	for (periodic = 0; periodic < 2; periodic++) {
		b.calls = 0;
		ASSERT_EQ(0, htw_call_after(self->d, SEC, move_other_by_a_thread, &a, NULL));
		if (periodic) {
			ASSERT_EQ(0, htw_call_every(self->d, SEC, HOUR, note, &b, &a.other));
		} else {
			ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &b, &a.other));
		}
		htw_advance(self->htw, SEC, 0);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(0, a.result);
		EXPECT_EQ(0, b.calls);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(0, htw_dispatch(self->d, 0));
		EXPECT_EQ(1, b.calls);
		EXPECT_EQ(periodic ? 0 : -ENOENT, htw_call_stop(self->d, a.other));
	}
}

struct many {
	struct log log;
	uint64_t calls[2400];
	unsigned int stopped;
};

/* The others expire, unread, and are stopped. */
static void wait_and_stop_others(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct many *many = arg;
	unsigned int i;

	note(d, call, &many->log);
	htw_advance(many->log.htw, SEC, 0);
	for (i = 0; i < 2400; i++)
		many->stopped += !htw_call_stop(d, many->calls[i]);
}

/* Events of calls that were stopped from within a call go with the dispatcher. */
DISPATCHER_TEST(free_leaves_no_event)
{
	static struct many many;
	struct htw_dispatcher *d;
	struct htw_info_args info;
	struct htw_event ev;
	unsigned int i;

	many = (struct many){ .log = { .htw = self->htw } };
	EXPECT_EQ(-EBUSY, htw_dispatcher_new(&d, self->htw));
	htw_dispatcher_free(self->d);
	self->d = NULL;
	ASSERT_EQ(0, htw_dispatcher_new(&d, self->htw));
	ASSERT_EQ(0, htw_call_after(d, SEC, wait_and_stop_others, &many, NULL));
	for (i = 0; i < 2400; i++)
		ASSERT_EQ(0, htw_call_after(d, 2 * SEC, note, &many.log, &many.calls[i]));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(d, 0));
	EXPECT_EQ(2400, many.stopped);
	htw_dispatcher_free(d);
	EXPECT_EQ(0, htw_info(self->htw, &info));
	EXPECT_EQ(0, info.timers);
	EXPECT_EQ(0, htw_read(self->htw, &ev, 1));
}

/* A dispatch that makes no call has left none that is due, and one that makes many is bounded. */
DISPATCHER_TEST(dispatched_until_nothing_is_due)
{
	static struct many many;
	struct log last = { .htw = self->htw };
	unsigned int i, made = 0;
	int n;

	many = (struct many){ .log = { .htw = self->htw } };
	start_due(_metadata, self->d, &many.log, 3000);
	htw_advance(self->htw, SEC, 0);
	while ((n = htw_dispatch(self->d, 0)) > 0) {
		EXPECT_GE(1024, n);
		made += n;
	}
	EXPECT_EQ(0, n);
	EXPECT_EQ(3000, made);

	/* Behind the events of calls that have ended. */
	many.log.calls = 0;
	ASSERT_EQ(0, htw_call_after(self->d, SEC, wait_and_stop_others, &many, NULL));
	for (i = 0; i < 63; i++)
		ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &many.log, NULL));
	for (i = 0; i < 2400; i++)
		ASSERT_EQ(0, htw_call_after(self->d, 2 * SEC, note, &many.log, &many.calls[i]));
	ASSERT_EQ(0, htw_call_after(self->d, 2 * SEC, note, &last, NULL));
	htw_advance(self->htw, SEC, 0);
	for (made = 0; (n = htw_dispatch(self->d, 0)) > 0; made += n)
		;
	EXPECT_EQ(0, n);
	EXPECT_EQ(65, made);
	EXPECT_EQ(2400, many.stopped);
	EXPECT_EQ(64, many.log.calls);
	EXPECT_EQ(1, last.calls);
}

/* A limit that is in the way of one call does not hide that others are due. */
DISPATCHER_TEST(due_beside_a_limit)
{
	struct htw_dispatcher *d;
	struct log log, other;
	struct two two = { };
	unsigned int made = 0, i;
	struct htw *htw;
	uint64_t call;
	int n;

	ASSERT_EQ(0, open_as(variant, &htw, true, 1500));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	log = other = (struct log){ .htw = htw };
	two.log.htw = htw;
	ASSERT_EQ(0, htw_call_every(d, SEC, SEC, start_two, &two, &call));
	for (i = 0; i < 1499; i++)
		ASSERT_EQ(0, htw_call_every(d, SEC, SEC, note, &log, NULL));
	htw_advance(htw, SEC, 0);
	while ((n = htw_dispatch(d, 0)) > 0)
		made += n;
	/* Those of the first round count, whose dispatch reported the error. */
	EXPECT_EQ(-ENOSPC, n);
	EXPECT_EQ(1499, log.calls);
	EXPECT_EQ(0, two.log.result);
	EXPECT_EQ(0, htw_call_stop(d, call));
	htw_dispatcher_free(d);
	htw_close(htw);
}

static void stop_itself_twice(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	stop_itself(d, call, arg);
	log->result += htw_call_stop(d, call) == -EALREADY;
	log->result += htw_call_stop(d, call) == -EALREADY;
	/* It cannot be made again. */
	log->result += htw_call_again(d, call, 0) == -ENOENT;
}

/* A call that runs still uses its argument, however often it is stopped. */
DISPATCHER_TEST(stopped_twice_while_it_runs)
{
	struct log a = { .htw = self->htw };
	uint64_t call;

	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, stop_itself_twice, &a, &call));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(-EALREADY + 3, a.result);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));
}

static uint64_t just_once(uint64_t previous, void *arg)
{
	struct log *log = arg;

	return log->ns++ ? HTW_NO_MORE : previous + SEC;
}

static void again_once(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	if (log->calls < 3)
		log->result |= htw_call_again(d, call, SEC);
}

/* Once a schedule has ended it is not asked again, also if its last call moves itself. */
DISPATCHER_TEST(schedule_whose_last_call_moves_itself)
{
	struct log a = { .htw = self->htw };
	uint64_t call;
	int i;

	ASSERT_EQ(0, htw_call_schedule(self->d, just_once, again_once, &a, &call));
	for (i = 1; i <= 3; i++) {
		htw_advance(self->htw, SEC, 0);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(i, a.calls);
		EXPECT_EQ(2, a.ns);
	}
	EXPECT_EQ(0, a.result);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));
}

struct moved_schedule {
	struct log log;
	struct htw_dispatcher *d;
	void *args[2];
	pthread_t thread;
};

/* Another thread moves the call while the schedule is asked. */
static uint64_t moved_meanwhile(uint64_t previous, void *arg)
{
	struct moved_schedule *m = arg;

	if (!m->log.other)
		return previous + SEC;
	m->args[0] = m->d;
	m->args[1] = &m->log;
	if (!pthread_create(&m->thread, NULL, again_in_a_thread, m->args))
		pthread_join(m->thread, NULL);
	m->log.other = 0;
	return previous + SEC;
}

static void note_moved(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct moved_schedule *m = arg;

	note(d, call, &m->log);
}

DISPATCHER_TEST(schedule_moved_while_it_is_asked)
{
	struct moved_schedule m = { .log = { .htw = self->htw }, .d = self->d };
	uint64_t call;
	int i;

	ASSERT_EQ(0, htw_call_schedule(self->d, moved_meanwhile, note_moved, &m, &call));
	m.log.other = call;
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, m.log.result);
	for (i = 2; i < 5; i++) {
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(i, m.log.calls);
		EXPECT_EQ(0, htw_dispatch(self->d, 0));
		htw_advance(self->htw, SEC, 0);
	}
	EXPECT_EQ(0, htw_call_stop(self->d, call));
}

static void nested(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->result = htw_dispatch(d, 0);
}

DISPATCHER_TEST(not_from_within)
{
	struct log a = { .htw = self->htw };

	ASSERT_EQ(0, htw_call_after(self->d, 0, nested, &a, NULL));
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(-EBUSY, a.result);
}

DISPATCHER_TEST(slack)
{
	struct log a = { .htw = self->htw };
	int i, n = 0;

	htw_dispatcher_set_slack(self->d, 50 * MSEC);
	for (i = 0; i < 10; i++)
		ASSERT_EQ(0, htw_call_after(self->d, (100 + i) * MSEC, note, &a, NULL));
	htw_advance(self->htw, 99 * MSEC, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	for (i = 0; !n && i <= 51; i++) {
		htw_advance(self->htw, MSEC, 0);
		n = htw_dispatch(self->d, 0);
	}
	EXPECT_EQ(10, n);
}

struct ticker {
	struct htw *htw;
	unsigned int left;
	uint64_t due, early;
};

static void tick(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct ticker *t = arg;
	const uint64_t now = htw_now(t->htw);

	t->early += now < t->due;
	t->due = now + MSEC;
	if (--t->left)
		htw_call_again(d, call, MSEC);
}

/* Real time, in another event loop. */
DISPATCHER_TEST(in_a_loop)
{
	struct epoll_event event = { .events = EPOLLIN };
	struct htw_dispatcher *d;
	struct ticker t[20] = { };
	unsigned int i, left;
	struct htw *htw;
	int ep;

	ASSERT_EQ(0, open_as(variant, &htw, false, 0));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, htw_dispatcher_fd(d), &event));
	for (i = 0; i < 20; i++) {
		t[i].htw = htw;
		t[i].left = 20;
		t[i].due = htw_now(htw) + MSEC;
		ASSERT_EQ(0, htw_call_after(d, MSEC, tick, &t[i], NULL));
	}
	do {
		ASSERT_EQ(1, epoll_wait(ep, &event, 1, EVENTUALLY / MSEC));
		ASSERT_LE(0, htw_dispatch(d, 0));
		for (i = 0, left = 0; i < 20; i++)
			left += t[i].left;
	} while (left);
	for (i = 0; i < 20; i++)
		EXPECT_EQ(0, t[i].early);
	/* In its own loop. */
	t[0].left = 5;
	t[0].due = htw_now(htw) + MSEC;
	ASSERT_EQ(0, htw_call_after(d, MSEC, tick, &t[0], NULL));
	while (t[0].left)
		ASSERT_LT(0, htw_dispatch(d, EVENTUALLY));
	EXPECT_EQ(0, htw_dispatch(d, 5 * MSEC));
	close(ep);
	htw_dispatcher_free(d);
	htw_close(htw);
}

struct shared {
	struct htw_dispatcher *d;
	unsigned int made, stopped, late, wrong;
	unsigned int calls;		/* calls in the dispatching thread */
};

static void count(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct shared *s = arg;

	__atomic_fetch_add(&s->calls, 1, __ATOMIC_RELAXED);
}

static void *make(void *arg)
{
	struct shared *s = arg;
	unsigned int i;
	uint64_t call;
	int ret;

	for (i = 0; i < 3000; i++) {
		s->wrong += htw_call_after(s->d, (i % 4) * MSEC, count, s, &call) != 0;
		s->made++;
		if (i % 3)
			continue;
		ret = htw_call_stop(s->d, call);
		if (!ret)
			s->stopped++;
		else if (ret == -EALREADY || ret == -ENOENT)
			s->late++;
		else
			s->wrong++;
	}
	return NULL;
}

/* Other threads start and stop while one dispatches: each call is made or stopped. */
DISPATCHER_TEST(threads)
{
	struct shared s[3] = { };
	struct htw_dispatcher *d;
	unsigned int i, left;
	pthread_t thread[3];
	struct htw *htw;

	ASSERT_EQ(0, open_as(variant, &htw, false, 0));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	for (i = 0; i < 3; i++) {
		s[i].d = d;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, make, &s[i]));
	}
	for (i = 0; i < 3000; i++)
		ASSERT_LE(0, htw_dispatch(d, MSEC));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	do {
		ASSERT_LE(0, htw_dispatch(d, 10 * MSEC));
		for (i = 0, left = 0; i < 3; i++)
			left += s[i].made - s[i].stopped - s[i].calls;
	} while (left);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, s[i].wrong);
		EXPECT_EQ(s[i].made, s[i].stopped + s[i].calls);
	}
	EXPECT_EQ(0, htw_dispatch(d, 10 * MSEC));
	htw_dispatcher_free(d);
	htw_close(htw);
}

/* Whatever number is given for a call, it is a live one or there is none. */
DISPATCHER_TEST(numbers_that_are_no_call)
{
	struct log a = { .htw = self->htw };
	uint64_t live[3], ended, number;
	struct htw_pending_call pending;
	unsigned int i, k;

	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, 1));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, htw_call_after(self->d, HOUR, note, &a, &live[i]));
	ASSERT_EQ(0, htw_call_after(self->d, HOUR, note, &a, &ended));
	EXPECT_EQ(0, htw_call_stop(self->d, ended));
	srandom(1);
	for (i = 0; i < 100000; i++) {
		number = i % 2 ? live[i % 3] : ended;
		if (i < 128)
			number += 1ULL << i / 2;
		else if (i < 256)
			number -= 1ULL << i / 2 % 64;
		else if (i < 100256)
			number = (uint64_t)random() << 33 ^ (uint64_t)random() << i % 34;
		for (k = 0; k < 3; k++)
			if (number == live[k])
				number = 0;
		ASSERT_EQ(-ENOENT, htw_call_again(self->d, number, 0));
		ASSERT_EQ(-ENOENT, htw_call_stop(self->d, number));
		ASSERT_EQ(-ENOENT, htw_call_stop_wait(self->d, number));
		ASSERT_EQ(0, htw_call_missed(self->d, number));
		number |= 1 << 20;	/* a cursor behind all */
		ASSERT_EQ(0, htw_dispatcher_shutdown(self->d, &number, &pending, 1));
	}
	for (k = 0; k < 3; k++)
		EXPECT_EQ(0, htw_call_stop(self->d, live[k]));
}

/* Calls of equal deadlines are made in the order in which they were asked for, however that was. */
struct order {
	struct htw *htw;
	uint64_t call[16];
	unsigned int asked[64], nr_asked;	/* who was asked for, in order */
	unsigned int made[64], nr_made;
	unsigned int seed;
	int result;
};

struct in_order {
	struct order *order;
	unsigned int who;
};

static void note_order(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct in_order *in = arg;

	if (in->order->nr_made < 64)
		in->order->made[in->order->nr_made++] = in->who;
	htw_call_stop(d, call);
}

static void asks_in_order(struct order *o, unsigned int who)
{
	unsigned int i, kept = 0;

	for (i = 0; i < o->nr_asked; i++)
		if (o->asked[i] != who)
			o->asked[kept++] = o->asked[i];
	o->asked[kept++] = who;
	o->nr_asked = kept;
}

static struct in_order ins[16];

static void ask_for_equal_deadlines(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct order *o = arg;
	unsigned int i;

	for (i = 0; i < 40; i++) {
		const unsigned int who = rand_r(&o->seed) % 16;

		if (o->call[who]) {
			if (rand_r(&o->seed) % 4) {
				o->result |= htw_call_again(d, o->call[who], SEC);
				asks_in_order(o, who);
			}
			continue;
		}
		switch (rand_r(&o->seed) % 3) {
		case 0:
			o->result |= htw_call_after(d, SEC, note_order, &ins[who], &o->call[who]);
			break;
		case 1:
			o->result |= htw_call_every(d, SEC, HOUR, note_order, &ins[who],
						    &o->call[who]);
			break;
		case 2:
			/* Slack that has no effect: no other deadline is near. */
			htw_dispatcher_set_slack(d, 1);
			o->result |= htw_call_after(d, SEC, note_order, &ins[who], &o->call[who]);
			htw_dispatcher_set_slack(d, 0);
			break;
		}
		asks_in_order(o, who);
	}
}

DISPATCHER_TEST(order_asked_for_from_within)
{
	unsigned int round, i;
	struct order o;

	for (round = 0; round < 300; round++) {
		o = (struct order){ .htw = self->htw, .seed = round };
		for (i = 0; i < 16; i++) {
			ins[i] = (struct in_order){ &o, i };
			/* Some are there already. */
			if (i % 3 == 0) {
				ASSERT_EQ(0, htw_call_after(self->d, 2 * SEC, note_order, &ins[i],
							    &o.call[i]));
				asks_in_order(&o, i);
			}
		}
		ASSERT_EQ(0, htw_call_after(self->d, SEC, ask_for_equal_deadlines, &o, NULL));
		htw_advance(self->htw, SEC, 0);
		EXPECT_EQ(1, htw_dispatch(self->d, 0));
		EXPECT_EQ(0, o.result);
		htw_advance(self->htw, SEC, 0);
		EXPECT_EQ(o.nr_asked, htw_dispatch(self->d, 0));
		ASSERT_EQ(o.nr_asked, o.nr_made);
		for (i = 0; i < o.nr_made; i++)
			ASSERT_EQ(o.asked[i], o.made[i]) {
				TH_LOG("round %u, call %u", round, i);
			}
	}
}

/* How a call may be left, other than by returning. C++ exceptions: exceptions.cc. */
enum leave { BY_EXIT, BY_CANCEL, BY_LONGJMP, BY_LONGJMP_AND_THREAD_END, LEAVES };

struct leaving {
	struct htw_dispatcher *d;
	struct htw *htw;
	enum leave how;
	pid_t tid;
	jmp_buf env;
	unsigned int made[40], nr_made, leaves_at;
	uint64_t asked;			/* by the one that leaves */
	int again;
};

static struct leaving leaving;

/* pthread_join() comes back a little earlier than the thread is gone for the system. */
static void wait_until_gone(pid_t tid)
{
	while (!syscall(SYS_tgkill, getpid(), tid, 0))
		sched_yield();
}

static void note_asked(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	leaving.made[leaving.nr_made++] = 100;
}

static void leave(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	const unsigned int who = (uintptr_t)arg;

	leaving.made[leaving.nr_made++] = who;
	if (who != leaving.leaves_at)
		return;
	leaving.again |= htw_call_after(d, SEC, note_asked, NULL, &leaving.asked);
	switch (leaving.how) {
	case BY_EXIT:
		pthread_exit(NULL);
	case BY_CANCEL:
		pthread_cancel(pthread_self());
		pthread_testcancel();
		abort();
	default:
		longjmp(leaving.env, 1);
	}
}

static void *dispatch_and_leave(void *arg)
{
	leaving.tid = gettid();
	if (!setjmp(leaving.env))
		htw_dispatch(leaving.d, -1);
	else if (leaving.how == BY_LONGJMP)
		leaving.again |= htw_call_stop(leaving.d, leaving.asked) ||
				 htw_call_after(leaving.d, SEC, note_asked, NULL, NULL);
	return NULL;
}

DISPATCHER_TEST(left_from_within)
{
	unsigned int at, i;
	pthread_t thread;

	for (leaving.how = 0; leaving.how < LEAVES; leaving.how++) {
		for (at = 0; at < 21; at += 5) {
			leaving.d = self->d;
			leaving.htw = self->htw;
			leaving.leaves_at = at;
			leaving.nr_made = 0;
			for (i = 0; i < 21; i++)
				ASSERT_EQ(0, htw_call_after(self->d, SEC, leave,
							    (void *)(uintptr_t)i, NULL));
			htw_advance(self->htw, SEC, 0);
			ASSERT_EQ(0, pthread_create(&thread, NULL, dispatch_and_leave, NULL));
			ASSERT_EQ(0, pthread_join(thread, NULL));
			wait_until_gone(leaving.tid);
			EXPECT_EQ(at + 1, leaving.nr_made);
			EXPECT_EQ(0, leaving.again);
			/* What was read is made, and nothing twice. */
			EXPECT_EQ(20 - at, htw_dispatch(self->d, 0));
			EXPECT_EQ(21, leaving.nr_made);
			for (i = 0; i < leaving.nr_made; i++)
				EXPECT_EQ(i, leaving.made[i]);
			/* What was asked for is done. */
			htw_advance(self->htw, SEC, 0);
			EXPECT_EQ(1, htw_dispatch(self->d, 0));
			EXPECT_EQ(100, leaving.made[21]);
			EXPECT_EQ(0, htw_dispatch(self->d, 0));
		}
	}
}

struct jump {
	jmp_buf env;
	struct htw_dispatcher *d;
	uint64_t call;
	unsigned int jumps;
	int nested, stop;
};

static void jump_out(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct jump *j = arg;

	j->call = call;
	j->jumps++;
	j->nested = htw_dispatch(d, 0);
	longjmp(j->env, 1);
}

/* Dispatch from so many functions below. */
static __attribute__((noinline)) int dispatch_deeper(struct htw_dispatcher *d, int depth)
{
	volatile int ret;	/* not a tail call */

	ret = depth ? dispatch_deeper(d, depth - 1) : htw_dispatch(d, 0);
	return ret;
}

/* The thread that has left by longjmp() dispatches on, from deeper in the stack or not. */
DISPATCHER_TEST(left_by_longjmp)
{
	struct log a = { .htw = self->htw };
	struct htw_info_args info;
	static struct jump j;
	volatile int depth;
	uint64_t call;

	for (depth = 0; depth < 20; depth++) {
		memset(&j, 0, sizeof(j));
		a.calls = 0;
		ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, jump_out, &j, NULL));
		ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, NULL));
		htw_advance(self->htw, SEC, 0);
		if (!setjmp(j.env))
			dispatch_deeper(self->d, 10);
		EXPECT_EQ(1, j.jumps);
		EXPECT_EQ(-EBUSY, j.nested);
		if (depth < 10) {
			/* It is not running any more, and this is not within a call. */
			EXPECT_EQ(0, htw_call_after(self->d, HOUR, note, &a, &call));
			EXPECT_EQ(0, htw_info(self->htw, &info));
			EXPECT_EQ(3 - 1, info.timers);
			EXPECT_EQ(0, htw_call_stop(self->d, call));
		}
		EXPECT_EQ(1, dispatch_deeper(self->d, depth));
		EXPECT_EQ(1, a.calls);
		EXPECT_EQ(0, htw_call_stop(self->d, j.call));
		EXPECT_EQ(0, dispatch_deeper(self->d, depth));
	}
}

static void *dispatch_for_ever(void *arg)
{
	while (htw_dispatch(arg, -1) >= 0)
		;
	return NULL;
}

/* A thread that waits, or that is in a call, is cancelled; the lock is not held then. */
DISPATCHER_TEST(cancelled)
{
	struct log a = { };
	struct htw_dispatcher *d;
	struct htw *htw;
	pthread_t thread;
	unsigned int i;
	uint64_t call;

	ASSERT_EQ(0, open_as(variant, &htw, false, 0));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	a.htw = htw;
	ASSERT_EQ(0, htw_call_every(d, 0, MSEC, note, &a, &call));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(0, pthread_create(&thread, NULL, dispatch_for_ever, d));
		if (i % 2)
			usleep(rand() % 3000);	/* at whatever it does then */
		ASSERT_EQ(0, pthread_cancel(thread));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_EQ(0, htw_call_again(d, call, 0));
		EXPECT_LE(0, htw_dispatch(d, EVENTUALLY));
	}
	EXPECT_LE(300, a.calls);
	EXPECT_EQ(0, htw_call_stop(d, call));
	htw_dispatcher_free(d);
	htw_close(htw);
}

/* A call that runs until it is let go, or its thread is cancelled. */
struct held {
	struct htw_dispatcher *d;
	uint64_t call;
	sem_t runs, go;
	bool over;
	int dispatched;
};

static void hold(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct held *h = arg;

	sem_post(&h->runs);
	/* Not cancelled in sem_wait(): TSan would miss locks that the thread takes afterwards. */
	while (sem_trywait(&h->go)) {
		pthread_testcancel();
		sched_yield();
	}
	__atomic_store_n(&h->over, true, __ATOMIC_RELAXED);
}

static void *dispatch_held(void *arg)
{
	struct held *h = arg;

	h->dispatched = htw_dispatch(h->d, EVENTUALLY);
	return NULL;
}

static void *wait_for_held(void *arg)
{
	struct held *h = arg;
	intptr_t ret = htw_call_stop_wait(h->d, h->call);

	if (!__atomic_load_n(&h->over, __ATOMIC_RELAXED))
		ret = 1;
	return (void *)ret;
}

static void stop_wait_within(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->result = htw_call_stop_wait(d, call) == -EDEADLK &&
		      htw_call_stop_wait(d, log->other) == 0 &&
		      htw_call_stop_wait(d, log->other) == -ENOENT;
}

DISPATCHER_TEST(stop_wait)
{
	struct log a = { .htw = self->htw };
	pthread_t dispatching, waiting[3];
	struct held h = { .d = self->d };
	unsigned int way, i;
	uint64_t call;
	void *result;

	/* Not running. */
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &call));
	EXPECT_EQ(0, htw_call_stop_wait(self->d, call));
	EXPECT_EQ(-ENOENT, htw_call_stop_wait(self->d, call));

	/* From within: itself, when nothing is changed, and others. */
	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, stop_wait_within, &a, &call));
	ASSERT_EQ(0, htw_call_after(self->d, SEC, note, &a, &a.other));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, a.result);
	EXPECT_EQ(0, htw_call_stop(self->d, call));

	/* Running: it returns; its thread is cancelled; a waiting one is. */
	for (way = 0; way < 3; way++) {
		sem_init(&h.runs, 0, 0);
		sem_init(&h.go, 0, 0);
		h.over = way == 1;
		ASSERT_EQ(0, htw_call_every(self->d, 0, SEC, hold, &h, &h.call));
		ASSERT_EQ(0, pthread_create(&dispatching, NULL, dispatch_held, &h));
		sem_wait(&h.runs);
		EXPECT_EQ(-EALREADY, htw_call_stop(self->d, h.call));
		ASSERT_EQ(0, pthread_create(&waiting[0], NULL, wait_for_held, &h));
		usleep(10000);		/* it probably waits then; either way is right */
		if (way == 2) {
			pthread_cancel(waiting[0]);
			ASSERT_EQ(0, pthread_join(waiting[0], &result));
			EXPECT_EQ(PTHREAD_CANCELED, result);
		}
		/* Nobody holds the lock. */
		EXPECT_EQ(-ENOENT, htw_call_stop(self->d, 1));
		if (way == 1)
			pthread_cancel(dispatching);
		else
			sem_post(&h.go);
		ASSERT_EQ(0, pthread_join(dispatching, NULL));
		if (way != 2) {
			ASSERT_EQ(0, pthread_join(waiting[0], &result));
			EXPECT_TRUE(!result || (intptr_t)result == -ENOENT);
		}
		EXPECT_EQ(-ENOENT, htw_call_stop_wait(self->d, h.call));
		EXPECT_EQ(0, htw_dispatch(self->d, 0));
	}

	/* Several wait at once, also for one that is not made again anyway. */
	h.over = false;
	ASSERT_EQ(0, htw_call_after(self->d, 0, hold, &h, &h.call));
	ASSERT_EQ(0, pthread_create(&dispatching, NULL, dispatch_held, &h));
	sem_wait(&h.runs);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&waiting[i], NULL, wait_for_held, &h));
	sem_post(&h.go);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, pthread_join(waiting[i], &result));
		EXPECT_TRUE(!result || (intptr_t)result == -ENOENT);
	}
	ASSERT_EQ(0, pthread_join(dispatching, NULL));
}

/* A schedule with a period, that can skip what has passed. */
struct scheduled {
	struct log log;
	uint64_t period, asked, most;
	bool skips;
};

static uint64_t each_period(uint64_t previous, void *arg)
{
	struct scheduled *s = arg;

	s->asked++;
	if (s->most && s->asked > s->most)
		return HTW_NO_MORE;
	if (s->skips && previous + s->period <= htw_now(s->log.htw))
		return htw_now(s->log.htw) + 1;
	return previous + s->period;
}

static void note_scheduled(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct scheduled *s = arg;

	note(d, call, &s->log);
}

/* One call for all times that have passed, as of a periodic call. */
DISPATCHER_TEST(schedule_after_a_stall)
{
	struct scheduled s = { .log = { .htw = self->htw }, .period = MSEC };
	uint64_t call, asked;

	ASSERT_EQ(0, htw_call_schedule(self->d, each_period, note_scheduled, &s, &call));
	htw_advance(self->htw, MSEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, s.log.missed);
	htw_advance(self->htw, 10 * SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(2, s.log.calls);
	EXPECT_EQ(9999, s.log.missed);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	/* It keeps its phase. */
	htw_advance(self->htw, MSEC - 1, 0);
	EXPECT_EQ(0, htw_dispatch(self->d, 0));
	htw_advance(self->htw, 1, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, s.log.missed);
	EXPECT_EQ(0, htw_call_stop(self->d, call));

	/* One that skips misses nothing. */
	s = (struct scheduled){ .log = { .htw = self->htw }, .period = MSEC, .skips = true };
	ASSERT_EQ(0, htw_call_schedule(self->d, each_period, note_scheduled, &s, &call));
	htw_advance(self->htw, 10 * SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(0, s.log.missed);
	EXPECT_EQ(0, htw_call_stop(self->d, call));

	/* One that ends meanwhile: all its times have passed. */
	s = (struct scheduled){ .log = { .htw = self->htw }, .period = MSEC, .most = 5 };
	ASSERT_EQ(0, htw_call_schedule(self->d, each_period, note_scheduled, &s, &call));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(4, s.log.missed);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call));

	/* Times that never reach the present do not keep a dispatch from returning. */
	for (s.period = 0; s.period < 2; s.period++) {
		s.log.calls = s.most = s.skips = 0;
		htw_advance(self->htw, SEC, 0);
		ASSERT_EQ(0, htw_call_schedule(self->d, each_period, note_scheduled, &s, &call));
		htw_advance(self->htw, HOUR, 0);
		asked = s.asked;
		EXPECT_EQ(1, htw_dispatch(self->d, -1));
		EXPECT_EQ(s.period ? 65536 : 0, s.log.missed);
		EXPECT_EQ(1 + s.log.missed, s.asked - asked);
		EXPECT_EQ(1, htw_dispatch(self->d, -1));
		EXPECT_EQ(0, htw_call_stop(self->d, call));
	}
}

struct stopper {
	struct htw_dispatcher *d;
	uint64_t call;
};

static void *stop_soon(void *arg)
{
	struct stopper *s = arg;

	usleep(100000);
	return (void *)(intptr_t)htw_call_stop(s->d, s->call);
}

/* How often this thread has slept. */
static long sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* At a limit it waits, and tells why once. */
DISPATCHER_TEST(waits_at_a_limit)
{
	struct htw_dispatcher *d;
	struct stopper stopper;
	struct two two = { };
	uint64_t start;
	long slept;
	struct htw_info_args info;
	struct htw *htw;
	pthread_t thread;
	void *result;

	ASSERT_EQ(0, open_as(variant, &htw, false, 2));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	two.log.htw = htw;
	ASSERT_EQ(0, htw_call_after(d, 0, start_two, &two, NULL));
	stopper.d = d;
	ASSERT_EQ(0, htw_call_after(d, HOUR, note, &two.log, &stopper.call));
	EXPECT_EQ(-ENOSPC, htw_dispatch(d, -1));
	EXPECT_EQ(1, two.log.calls);
	/* One of the two has a timer. The other is tried again, and a timeout tells the error. */
	htw_call_again(d, two.call[0], HOUR);
	htw_call_again(d, two.call[1], 0);
	start = htw_now(htw);
	slept = sleeps();
	EXPECT_EQ(-ENOSPC, htw_dispatch(d, 200 * MSEC));
	EXPECT_LE(start + 200 * MSEC, htw_now(htw));
	slept = sleeps() - slept;
	EXPECT_LE(2, slept);
	EXPECT_GE(100, slept);
	/* Without a timeout it waits until there is room, and then makes the call. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, stop_soon, &stopper));
	start = htw_now(htw);
	EXPECT_EQ(1, htw_dispatch(d, -1));
	EXPECT_EQ(2, two.log.calls);
	EXPECT_EQ(two.call[1], two.log.call);
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(NULL, result);
	EXPECT_EQ(0, htw_dispatch(d, 0));

	/* A stop makes room at once. */
	ASSERT_EQ(0, htw_call_after(d, 0, start_two, &two, NULL));
	stopper.call = two.call[0];
	EXPECT_EQ(-ENOSPC, htw_dispatch(d, -1));
	EXPECT_EQ(0, htw_call_stop(d, stopper.call));
	EXPECT_EQ(0, htw_info(htw, &info));
	EXPECT_EQ(2, info.timers);
	EXPECT_EQ(0, htw_dispatch(d, 0));
	htw_dispatcher_free(d);
	htw_close(htw);
}

/* Shutting down in portions, while others start calls. */
DISPATCHER_TEST(shutdown_in_portions)
{
	static uint64_t calls[10000];
	static unsigned char seen[10000];
	struct htw_pending_call pending[64];
	struct log a = { .htw = self->htw };
	unsigned int i, n, found = 0;
	uint64_t cursor = 0, call;

	memset(seen, 0, sizeof(seen));
	for (i = 0; i < 10000; i++)
		ASSERT_EQ(0, htw_call_after(self->d, HOUR, note, (void *)(uintptr_t)i, &calls[i]));
	for (i = 0; i < 10000; i += 3)
		EXPECT_EQ(0, htw_call_stop(self->d, calls[i]));
	while ((n = htw_dispatcher_shutdown(self->d, &cursor, pending, 64))) {
		for (i = 0; i < n; i++)
			if (pending[i].arg != &a)
				seen[(uintptr_t)pending[i].arg]++;
		found += n;
		if (found < 640)
			ASSERT_EQ(0, htw_call_after(self->d, HOUR, note, &a, &call));
	}
	for (i = 0; i < 10000; i++)
		EXPECT_EQ(i % 3 ? 1 : 0, seen[i]);
	/* Those that were started behind the cursor are left. */
	cursor = 0;
	n = htw_dispatcher_shutdown(self->d, &cursor, pending, 64);
	EXPECT_GE(10, n);
	EXPECT_EQ(0, htw_dispatcher_shutdown(self->d, &cursor, pending, 64));
}

static void *use_and_use(void *arg)
{
	struct shared *s = arg;
	uint64_t call;

	while (!__atomic_load_n(&s->wrong, __ATOMIC_RELAXED)) {
		htw_call_after(s->d, 0, count, s, &call);
		htw_call_after(s->d, HOUR, count, s, &call);
		htw_call_stop_wait(s->d, call);
	}
	return NULL;
}

/* Not cancelled: TSan would miss the locks of a thread that is cancelled in poll(). */
static void *dispatch_until_told(void *arg)
{
	struct shared *s = arg;

	while (!__atomic_load_n(&s->wrong, __ATOMIC_RELAXED))
		htw_dispatch(s->d, 10 * MSEC);
	return NULL;
}

/* What a child of fork() may do with its copy. Exits with the number of the first fault. */
static void be_a_child(struct htw_dispatcher *d, struct htw *htw, uint64_t call)
{
	struct htw_pending_call pending;
	uint64_t cursor = 0;
	int fault = 0;

	alarm(TEST_SECONDS / 2);
	if (htw_call_stop(d, call) != -EPERM)
		fault = 1;
	else if (htw_call_stop_wait(d, call) != -EPERM)
		fault = 2;
	else if (htw_call_again(d, call, 0) != -EPERM)
		fault = 3;
	else if (htw_call_after(d, 0, note, NULL, NULL) != -EPERM)
		fault = 4;
	else if (htw_call_every(d, 0, SEC, note, NULL, NULL) != -EPERM)
		fault = 5;
	else if (htw_call_schedule(d, each_period, note, NULL, NULL) != -EPERM)
		fault = 6;
	else if (htw_dispatch(d, 0) != -EPERM)
		fault = 7;
	else if (htw_dispatcher_shutdown(d, &cursor, &pending, 1))
		fault = 8;
	else if (htw_call_missed(d, call))
		fault = 9;
	htw_dispatcher_set_slack(d, 1);
	htw_dispatcher_free(d);
	_exit(fault);
}

static void fork_within(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	struct log *log = arg;

	note(d, call, arg);
	log->other = fork();
}

DISPATCHER_TEST(forked)
{
	struct htw_dispatcher *d;
	struct shared s = { };
	struct log a = { };
	struct htw *htw;
	pthread_t user, dispatching;
	unsigned int i;
	uint64_t call;
	int status;
	pid_t pid, parent;

	ASSERT_EQ(0, open_as(variant, &htw, false, 0));
	ASSERT_EQ(0, htw_dispatcher_new(&d, htw));
	a.htw = htw;
	s.d = d;
	ASSERT_EQ(0, htw_call_after(d, HOUR, note, &a, &call));
	ASSERT_EQ(0, pthread_create(&user, NULL, use_and_use, &s));
	ASSERT_EQ(0, pthread_create(&dispatching, NULL, dispatch_until_told, &s));
	/* Others hold the lock, or wait, at some of the forks. */
	for (i = 0; i < 100; i++) {
		pid = fork();
		if (!pid)
			be_a_child(d, htw, call);
		ASSERT_LT(0, pid);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	__atomic_store_n(&s.wrong, 1, __ATOMIC_RELAXED);
	pthread_join(user, NULL);
	pthread_join(dispatching, NULL);
	/* The parent's calls are as before. */
	EXPECT_EQ(0, htw_call_stop(d, call));
	while (htw_dispatch(d, 0) > 0)
		;

	/*
	 * Forked from within a call: htw_dispatch() comes back in the child as well. Calls of the
	 * threads may be left, so that an htw_dispatch() makes these, or none.
	 */
	ASSERT_EQ(0, htw_call_after(d, 0, fork_within, &a, NULL));
	ASSERT_EQ(0, htw_call_after(d, 0, note, &a, NULL));
	parent = getpid();
	do {
		status = htw_dispatch(d, EVENTUALLY);
	} while (status >= 0 && getpid() == parent && !a.other);
	if (getpid() != parent)
		_exit(status == -EPERM && a.calls == 1 ? 0 : 1);
	ASSERT_LE(1, status);
	ASSERT_EQ(a.other, waitpid(a.other, &status, 0));
	EXPECT_EQ(0, status);
	htw_dispatcher_free(d);
	htw_close(htw);
}

static unsigned int released[8];
static struct htw *released_on;

static void release(void *arg)
{
	released[(uintptr_t)arg]++;
}

static void once_more(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	/* Its second run is at the time that the first one asked for. */
	if (htw_now(released_on) < 2 * SEC)
		htw_call_again(d, call, SEC);
	(void)arg;
}

static void stop_self(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	(void)arg;
	htw_call_stop(d, call);
}

static void nothing(struct htw_dispatcher *d, uint64_t call, void *arg)
{
}

/* An argument is released once, when the call has ended, however it ends. */
DISPATCHER_TEST(release)
{
	uint64_t call[8], cursor = 0;
	struct htw_pending_call pending;
	int i;

	released_on = self->htw;
	memset(released, 0, sizeof(released));
	htw_dispatcher_set_release(self->d, release);
	EXPECT_EQ(-EINVAL, htw_call_every(self->d, SEC, 0, nothing, NULL, NULL));
	ASSERT_EQ(0, htw_call_after(self->d, SEC, nothing, NULL, &call[0]));
	ASSERT_EQ(0, htw_call_after(self->d, SEC, once_more, (void *)1, &call[1]));
	ASSERT_EQ(0, htw_call_every(self->d, SEC, SEC, stop_self, (void *)2, &call[2]));
	for (i = 3; i < 6; i++)
		ASSERT_EQ(0, htw_call_after(self->d, HOUR, nothing, HTW_POINTER(i), &call[i]));
	EXPECT_EQ(0, htw_call_stop(self->d, call[3]));
	EXPECT_EQ(1, released[3]);
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(3, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, released[0]);
	EXPECT_EQ(0, released[1]);
	EXPECT_EQ(1, released[2]);
	EXPECT_EQ(-ENOENT, htw_call_stop(self->d, call[2]));
	htw_advance(self->htw, SEC, 0);
	EXPECT_EQ(1, htw_dispatch(self->d, 0));
	EXPECT_EQ(1, released[1]);
	EXPECT_EQ(1, htw_dispatcher_shutdown(self->d, &cursor, &pending, 1));
	EXPECT_EQ(1, released[4] + released[5]);
	htw_dispatcher_free(self->d);
	for (i = 0; i < 6; i++)
		EXPECT_EQ(1, released[i]);
	ASSERT_EQ(0, htw_dispatcher_new(&self->d, self->htw));
}

TEST_HARNESS_MAIN
