// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_QUERY: its result in each state; it changes nothing
 */
#include "htw-test.h"

#include <pthread.h>

#define MANUAL()	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL))

#define EXPECT_QUERY(the_id, ...) do {					\
	const struct htw_timer_info __want = { .id = the_id, __VA_ARGS__ };	\
	const struct htw_timer_info __got = htw_query(self->fd, the_id);	\
									\
	EXPECT_EQ(__want.id, __got.id);					\
	EXPECT_EQ(__want.deadline, __got.deadline);			\
	EXPECT_EQ(__want.remaining, __got.remaining);			\
	EXPECT_EQ(__want.interval, __got.interval);			\
	EXPECT_EQ(__want.cookie, __got.cookie);				\
	EXPECT_EQ(__want.missed, __got.missed);				\
	EXPECT_EQ(__want.firings, __got.firings);			\
	EXPECT_EQ(__want.state, __got.state);				\
	EXPECT_EQ(__want.flags, __got.flags);				\
} while (0)

HTW_TEST(one_shot)
{
	struct htw_event ev;
	__u64 id;

	MANUAL();
	id = htw_start(self->fd, 10 * SEC, 7);
	EXPECT_QUERY(id, .deadline = 10 * SEC, .remaining = 10 * SEC, .cookie = 7,
		     .state = HTW_STATE_PENDING);
	EXPECT_EQ(0, htw_advance(self->fd, 10 * SEC - 1, 0));
	EXPECT_QUERY(id, .deadline = 10 * SEC, .remaining = 1, .cookie = 7,
		     .state = HTW_STATE_PENDING);
	EXPECT_EQ(1, htw_advance(self->fd, 1, 0));
	EXPECT_QUERY(id, .deadline = 10 * SEC, .cookie = 7, .state = HTW_STATE_DUE);
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(0, htw_query(self->fd, id).state);
}

HTW_TEST(periodic)
{
	struct htw_add_args add = htw_rel(10 * SEC, 7);
	struct htw_event ev;

	MANUAL();
	add.interval = SEC;
	add.firings = 10;
	add.flags = HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_QUERY(add.id, .deadline = 10 * SEC, .remaining = 10 * SEC, .interval = SEC,
		     .cookie = 7, .firings = 10, .state = HTW_STATE_PENDING, .flags = HTW_F_KEEP);
	EXPECT_EQ(1, htw_advance(self->fd, 13 * SEC + 5, 0));
	EXPECT_QUERY(add.id, .deadline = 10 * SEC, .interval = SEC, .cookie = 7, .missed = 3,
		     .firings = 10, .state = HTW_STATE_DUE, .flags = HTW_F_KEEP);
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(3, ev.missed);
	EXPECT_QUERY(add.id, .deadline = 14 * SEC, .remaining = SEC - 5, .interval = SEC,
		     .cookie = 7, .firings = 6, .state = HTW_STATE_PENDING, .flags = HTW_F_KEEP);
	/* No more firings are missed than the timer has. */
	EXPECT_EQ(1, htw_advance(self->fd, HOUR, 0));
	EXPECT_EQ(5, htw_query(self->fd, add.id).missed);
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(5, ev.missed);
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
}

/* A kept timer's state after its last firing does not depend on when it is read. */
HTW_TEST(kept_after_its_last_firing)
{
	struct htw_timer_info query[2];
	struct htw_event ev;
	int i, k;

	MANUAL();
	for (i = 0; i < 2; i++) {
		struct htw_add_args add = htw_rel(SEC, 7);

		add.interval = SEC;
		add.firings = 3;
		add.flags = HTW_F_KEEP;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		/*
		 * Each event read in time, or one event that reports two missed
		 * firings.
		 */
		for (k = 0; k < (i ? 1 : 3); k++) {
			EXPECT_EQ(1, htw_advance(self->fd, i ? 3 * SEC : SEC, 0));
			ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
			EXPECT_EQ(i ? 2 : 0, ev.missed);
		}
		query[i] = htw_query(self->fd, add.id);
		EXPECT_EQ(HTW_STATE_DISARMED, query[i].state);
	}
	EXPECT_EQ(query[0].firings, query[1].firings);
}

HTW_TEST(never)
{
	__u64 id;

	MANUAL();
	EXPECT_EQ(0, htw_advance(self->fd, HOUR, 0));
	id = htw_start(self->fd, ~0ULL, 7);
	EXPECT_QUERY(id, .deadline = ~0ULL, .remaining = ~0ULL - HOUR, .cookie = 7,
		     .state = HTW_STATE_PENDING);
	id = htw_start_abs(self->fd, ~0ULL - 1, 7);
	EXPECT_QUERY(id, .deadline = ~0ULL - 1, .remaining = ~0ULL - 1 - HOUR, .cookie = 7,
		     .state = HTW_STATE_PENDING);
}

HTW_TEST(on_a_clock_that_runs)
{
	struct htw_timer_info query;
	__u64 t0, t1, last = ~0ULL, id;
	int i;

	t0 = now_ns();
	id = htw_start(self->fd, HOUR, 1);
	t1 = now_ns();
	for (i = 0; i < 1000; i++) {
		query = htw_query(self->fd, id);
		EXPECT_LE(t0 + HOUR, query.deadline);
		EXPECT_GE(t1 + HOUR, query.deadline);
		EXPECT_GE(query.deadline - t1, query.remaining);
		EXPECT_LE(query.remaining, last);
		last = query.remaining;
	}
	EXPECT_LE(query.deadline - now_ns(), query.remaining);
}

/* HTW_CANCEL reports the time left, as HTW_QUERY does. */
HTW_TEST(cancel_says_the_same)
{
	struct htw_cancel_args cancel;
	struct htw_timer_info query;
	int i;

	MANUAL();
	for (i = 0; i < 64; i++) {
		const __u64 id = htw_start(self->fd, 1ULL << i, i);

		query = htw_query(self->fd, id);
		cancel = htw_cancel_of(id);
		EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_EQ(query.remaining, cancel.remaining);
		EXPECT_EQ(query.cookie, cancel.cookie);
		EXPECT_EQ(1ULL << i, cancel.remaining);
	}
}

struct asker {
	int fd;
	__u64 id;
	volatile bool stop;
	__u64 asked;
	int wrong;
};

static void *ask(void *arg)
{
	struct asker *a = arg;
	struct htw_timer_info query;

	htw_pin(htw_other_cpu());
	while (!a->stop) {
		query = htw_query(a->fd, a->id);
		/* A result never mixes fields of two states. */
		if (query.state == HTW_STATE_PENDING ? query.missed :
		    query.state != HTW_STATE_DUE || query.remaining)
			a->wrong = 1;
		if (query.cookie != 77 || query.interval != MSEC)
			a->wrong = 2;
		a->asked++;
	}
	return NULL;
}

HTW_TEST(while_it_expires_on_another_cpu)
{
	struct asker a = { .fd = self->fd };
	struct htw_add_args add = htw_rel(MSEC, 77);
	struct htw_event ev;
	pthread_t thread;
	__u64 next = 0;
	int i;

	add.interval = MSEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	a.id = add.id;
	ASSERT_EQ(0, pthread_create(&thread, NULL, ask, &a));
	for (i = 0; i < 2000; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_NOT_EARLY(&ev);
		if (next)
			EXPECT_EQ(next, ev.deadline);
		next = ev.deadline + (1 + ev.missed) * MSEC;
	}
	a.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, a.wrong);
	if (!a.asked && __test_passed(_metadata))
		SKIP(return, "raced with nothing: the other thread did not run");
}

TEST_HARNESS_MAIN
