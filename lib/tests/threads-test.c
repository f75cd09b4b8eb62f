// SPDX-License-Identifier: GPL-2.0-only
/*
 * libhtw and threads: each pair of calls at once, for the detector of data races
 *
 * Two threads make a call each, over and over, on the same handle, and on two shards of one. The
 * results are checked as far as they can be known.
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "kselftest_harness.h"
#include "../libhtw.h"
#include <pthread.h>

#define HOUR		(3600 * HTW_SEC)
#define TEST_SECONDS	240

enum { IDS = 64, ROUNDS = 30, ROUNDS_IN_VM = 4 };

/* What both threads use. */
static struct {
	struct htw *htw[2];	/* each thread's; perhaps the same */
	struct htw_dispatcher *d;
	uint64_t ids[IDS];	/* of timers or calls, perhaps ended; accessed atomically */
	pthread_barrier_t barrier;
} shared;

struct thread {
	struct htw *htw;
	uint64_t random;
	int (*call)(struct thread *t);
	int result;		/* the first that is wrong */
};

static uint64_t below(struct thread *t, uint64_t n)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return (t->random >> 5) % n;
}

static uint64_t some_delay(struct thread *t)
{
	return below(t, 4) ? HOUR : below(t, 3 * HTW_MSEC);
}

static uint64_t some_id(struct thread *t)
{
	return __atomic_load_n(&shared.ids[below(t, IDS)], __ATOMIC_RELAXED);
}

static int publish(struct thread *t, uint64_t id, int ret)
{
	if (!ret)
		__atomic_store_n(&shared.ids[below(t, IDS)], id, __ATOMIC_RELAXED);
	return ret;
}

/* The calls. What may fail because another thread was faster is no error. */

static int unless(int ret, int error)
{
	return ret == error ? 0 : ret;
}

static int ended(int ret)
{
	return unless(ret, -ENOENT);
}

static int do_after(struct thread *t)
{
	uint64_t id;
	int ret = htw_after(t->htw, some_delay(t), 1, &id);

	return publish(t, id, ret);
}

static int do_timeout(struct thread *t)
{
	uint64_t id;
	int ret = htw_timeout(t->htw, some_delay(t), 1, &id);

	return publish(t, id, ret);
}

static int do_at(struct thread *t)
{
	uint64_t id;
	int ret = htw_at(t->htw, some_delay(t), 1, &id);

	return publish(t, id, ret);
}

static int do_every(struct thread *t)
{
	uint64_t id;
	int ret = htw_every(t->htw, some_delay(t), HOUR, 1, &id);

	return publish(t, id, ret);
}

static int do_add(struct thread *t)
{
	struct htw_add_args add = {
		.deadline = some_delay(t), .slack = HTW_MSEC, .flags = HTW_F_KEEP,
	};
	int ret = htw_add(t->htw, &add);

	return publish(t, add.id, ret);
}

static int do_rearm(struct thread *t)
{
	return ended(htw_rearm(t->htw, some_id(t), some_delay(t)));
}

static int do_stop(struct thread *t)
{
	return ended(htw_stop(t->htw, some_id(t)));
}

static int do_cancel(struct thread *t)
{
	struct htw_cancel_args cancel = { .id = some_id(t) };

	return ended(htw_cancel(t->htw, &cancel));
}

static int do_mod(struct thread *t)
{
	struct htw_mod_args mod = { .id = some_id(t), .flags = HTW_MOD_COOKIE, .cookie = 5 };

	return ended(htw_mod(t->htw, &mod));
}

static int do_query(struct thread *t)
{
	struct htw_timer_info query = { .id = some_id(t) };
	uint64_t left;
	int ret = ended(htw_query(t->htw, &query));

	return ret ? ret : ended(htw_remaining(t->htw, query.id, &left));
}

static int do_next_time(struct thread *t)
{
	uint64_t when;

	return ended(htw_next_time(t->htw, &when));
}

static int do_add_many(struct thread *t)
{
	uint64_t ids[8], deadlines[8];
	const struct htw_add_args common = { .flags = below(t, 2) ? HTW_F_PUT_OFF : 0 };
	unsigned int i;
	int ret;

	for (i = 0; i < 8; i++)
		deadlines[i] = some_delay(t);
	ret = htw_add_many(t->htw, &common, deadlines, NULL, ids, 8, NULL);
	for (i = 0; !ret && i < 8; i++)
		publish(t, ids[i], 0);
	return ret;
}

static int do_rearm_many(struct thread *t)
{
	uint64_t ids[8], deadlines[8];
	unsigned int i;
	int ret;

	for (i = 0; i < 8; i++) {
		ids[i] = some_id(t);
		deadlines[i] = some_delay(t);
	}
	ret = htw_rearm_many(t->htw, ids, deadlines, 8, 0, NULL);
	return ret > 0 ? 0 : ret;
}

static int do_stop_many(struct thread *t)
{
	uint64_t ids[4];
	unsigned int i;
	int ret;

	for (i = 0; i < 4; i++)
		ids[i] = some_id(t);
	ret = htw_stop_many(t->htw, ids, 4, NULL);
	return ret > 0 ? 0 : ret;
}

static int do_read(struct thread *t)
{
	struct htw_event ev[16];
	int n = htw_read(t->htw, ev, 16), i;

	for (i = 0; i < n; i++)
		if (ev[i].taken < ev[i].deadline)
			return -ETIME;
	return n;
}

static int do_wait(struct thread *t)
{
	return htw_wait(t->htw, below(t, 4) ? 0 : 100 * HTW_USEC);
}

static int do_info(struct thread *t)
{
	struct htw_info_args info;

	htw_fd(t->htw);
	htw_backend(t->htw);
	htw_now(t->htw);
	return htw_info(t->htw, &info);
}

static int do_reserve(struct thread *t)
{
	return htw_reserve(t->htw, below(t, 5000));
}

static int do_cancel_all(struct thread *t)
{
	return htw_cancel_all(t->htw);
}

static int do_list(struct thread *t)
{
	struct htw_timer_info entries[8];
	uint64_t cursor = 0;

	return htw_list(t->htw, &cursor, entries, 8);
}

static int do_list_in(struct thread *t)
{
	struct htw_timer_info entries[8];
	uint64_t cursor = 0;

	return unless(htw_list_in(t->htw, 1 + below(t, 7), &cursor, entries, 8), -EAGAIN);
}

static int do_harvest(struct thread *t)
{
	struct htw_timer_info entries[8];
	uint64_t cursor = 0;

	return htw_harvest(t->htw, &cursor, entries, 8);
}

static int do_advance(struct thread *t)
{
	/* -EINVAL on other clocks. */
	return unless(htw_advance(t->htw, below(t, HTW_MSEC), 0), -EINVAL);
}

static int do_put_off(struct thread *t)
{
	return ended(htw_put_off(t->htw, some_id(t), HOUR + below(t, HOUR)));
}

static int do_put_off_inline(struct thread *t)
{
	return ended(htw_put_off_inline(t->htw, some_id(t), HOUR + below(t, HOUR)));
}

static int do_shard(struct thread *t)
{
	struct htw *shard;
	uint64_t id;
	int ret = htw_shard(&shard, t->htw);

	if (ret)
		return unless(ret, -ENOTSUP);
	ret = htw_timeout(shard, HOUR, 1, &id);
	publish(t, id, ret);
	htw_close(shard);
	return ret;
}

static int do_open(struct thread *t)
{
	struct htw *htw;
	uint64_t id;
	int ret = htw_open(&htw, htw_backend(t->htw), NULL);

	if (ret)
		return ret;
	ret = htw_after(htw, HOUR, 1, &id);
	/* In the process, no id of the others. */
	if (htw_backend(htw) == HTW_BACKEND_PROCESS)
		publish(t, id, ret);
	htw_close(htw);
	return ret;
}

static int (*const calls[])(struct thread *t) = {
	do_after, do_timeout, do_at, do_every, do_add, do_rearm, do_stop, do_cancel, do_mod,
	do_query, do_next_time, do_add_many, do_rearm_many, do_stop_many, do_read,
	do_wait, do_info, do_reserve, do_cancel_all, do_list, do_list_in, do_harvest, do_advance,
	do_put_off, do_put_off_inline, do_shard, do_open,
};

/* The dispatcher's. */

static void called(struct htw_dispatcher *d, uint64_t call, void *arg)
{
	htw_call_missed(d, call);
}

static uint64_t schedule(uint64_t previous, void *arg)
{
	return previous + HTW_MSEC;
}

static int do_call_after(struct thread *t)
{
	uint64_t call;
	int ret = htw_call_after(shared.d, some_delay(t), called, NULL, &call);

	return publish(t, call, ret);
}

static int do_call_at(struct thread *t)
{
	uint64_t call;
	int ret = htw_call_at(shared.d, some_delay(t), called, NULL, &call);

	return publish(t, call, ret);
}

static int do_call_every(struct thread *t)
{
	uint64_t call;
	int ret = htw_call_every(shared.d, some_delay(t), HTW_MSEC, called, NULL, &call);

	return publish(t, call, ret);
}

static int do_call_schedule(struct thread *t)
{
	uint64_t call;
	int ret = htw_call_schedule(shared.d, schedule, called, NULL, &call);

	return publish(t, call, ret);
}

static int do_call_again(struct thread *t)
{
	return ended(htw_call_again(shared.d, some_id(t), some_delay(t)));
}

static int do_call_stop(struct thread *t)
{
	return ended(htw_call_stop(shared.d, some_id(t)));
}

static int do_call_stop_wait(struct thread *t)
{
	return ended(htw_call_stop_wait(shared.d, some_id(t)));
}

static int do_dispatch(struct thread *t)
{
	return unless(htw_dispatch(shared.d, below(t, 4) ? 0 : 100 * HTW_USEC), -EBUSY);
}

static int do_set_slack(struct thread *t)
{
	htw_dispatcher_set_slack(shared.d, below(t, 2) * HTW_MSEC);
	return htw_dispatcher_fd(shared.d) < 0;
}

static int do_shutdown(struct thread *t)
{
	struct htw_pending_call pending[4];
	uint64_t cursor = 0;

	return htw_dispatcher_shutdown(shared.d, &cursor, pending, 4) > 4 ? -ERANGE : 0;
}

static int (*const dispatcher_calls[])(struct thread *t) = {
	do_call_after, do_call_at, do_call_every, do_call_schedule, do_call_again, do_call_stop,
	do_call_stop_wait, do_dispatch, do_set_slack, do_shutdown,
	/* What may be asked beside. */
	do_info, do_next_time, do_query, do_list, do_wait, do_advance,
};

static void *repeat(void *arg)
{
	/* An emulated machine is slow, and without the detector of data races. */
	const unsigned int rounds = access("/module-args", F_OK) ? ROUNDS : ROUNDS_IN_VM;
	struct thread *t = arg;
	unsigned int round;
	int ret;

	pthread_barrier_wait(&shared.barrier);
	for (round = 0; round < rounds && !t->result; round++) {
		ret = t->call(t);
		if (ret < 0)
			t->result = ret;
	}
	return NULL;
}

FIXTURE(threads) {
	int none;
};

FIXTURE_VARIANT(threads) {
	enum htw_backend backend;
	bool shards, manual;
};

FIXTURE_VARIANT_ADD(threads, process) {
	.backend = HTW_BACKEND_PROCESS,
};

FIXTURE_VARIANT_ADD(threads, process_manual) {
	.backend = HTW_BACKEND_PROCESS,
	.manual = true,
};

FIXTURE_VARIANT_ADD(threads, shards) {
	.backend = HTW_BACKEND_PROCESS,
	.shards = true,
};

FIXTURE_VARIANT_ADD(threads, shards_manual) {
	.backend = HTW_BACKEND_PROCESS,
	.shards = true,
	.manual = true,
};

FIXTURE_VARIANT_ADD(threads, device) {
	.backend = HTW_BACKEND_DEVICE,
};

static int open_shared(const FIXTURE_VARIANT(threads) *variant)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	int ret;

	memset(shared.ids, 0, sizeof(shared.ids));
	ret = htw_open(&shared.htw[0], variant->backend, variant->manual ? &setup : NULL);
	shared.htw[1] = shared.htw[0];
	if (!ret && variant->shards)
		ret = htw_shard(&shared.htw[1], shared.htw[0]);
	return ret;
}

FIXTURE_SETUP(threads)
{
	ASSERT_EQ(0, open_shared(variant));
	ASSERT_EQ(0, pthread_barrier_init(&shared.barrier, NULL, 2));
}

FIXTURE_TEARDOWN(threads)
{
	pthread_barrier_destroy(&shared.barrier);
	htw_close(shared.htw[0]);
}

static void run_pair(struct __test_metadata *_metadata, int (*a)(struct thread *t),
		     int (*b)(struct thread *t), unsigned int i, unsigned int k)
{
	struct thread t[2] = {
		{ .htw = shared.htw[0], .random = 1 + i, .call = a },
		{ .htw = shared.htw[1], .random = 1001 + k, .call = b },
	};
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, repeat, &t[1]));
	repeat(&t[0]);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, t[0].result) TH_LOG("call %u beside %u", i, k);
	EXPECT_EQ(0, t[1].result) TH_LOG("call %u beside %u", k, i);
}

/* Something for the others to find. */
static void fill(struct thread *t)
{
	unsigned int i;

	for (i = 0; i < 16; i++) {
		do_after(t);
		do_timeout(t);
	}
}

TEST_F_TIMEOUT(threads, each_pair, TEST_SECONDS)
{
	struct thread t[2] = {
		{ .htw = shared.htw[0], .random = 7 }, { .htw = shared.htw[1], .random = 9 },
	};
	struct htw_info_args info;
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		/* On two shards, the one and the other are not the same. */
		for (k = variant->shards ? 0 : i; k < ARRAY_SIZE(calls); k++) {
			fill(&t[0]);
			fill(&t[1]);
			run_pair(_metadata, calls[i], calls[k], i, k);
			htw_cancel_all(shared.htw[0]);
			htw_cancel_all(shared.htw[1]);
			EXPECT_EQ(0, htw_info(shared.htw[1], &info));
			EXPECT_EQ(0, info.timers);
		}
	}
}

TEST_F_TIMEOUT(threads, each_pair_of_the_dispatcher, TEST_SECONDS)
{
	struct htw_info_args info;
	unsigned int i, k;

	ASSERT_EQ(0, htw_dispatcher_new(&shared.d, shared.htw[1]));
	for (i = 0; i < ARRAY_SIZE(dispatcher_calls); i++) {
		for (k = i; k < ARRAY_SIZE(dispatcher_calls); k++) {
			struct thread t = { .htw = shared.htw[1], .random = 1 + k };
			unsigned int n;

			for (n = 0; n < 16; n++)
				do_call_after(&t);
			run_pair(_metadata, dispatcher_calls[i], dispatcher_calls[k], i, k);
		}
	}
	htw_dispatcher_free(shared.d);
	EXPECT_EQ(0, htw_info(shared.htw[1], &info));
	EXPECT_EQ(0, info.timers);
}

/* Stores beside the end of their timer, and the start of another in its place. */
static int end_and_start(struct thread *t)
{
	uint64_t id;
	int ret;

	do_stop(t);
	do_read(t);
	ret = htw_timeout(t->htw, below(t, 2) ? HOUR : 0, 1, &id);
	if (ret)
		return ret;
	/* Nobody has its id yet. */
	if (below(t, 2)) {
		struct htw_timer_info query = { .id = id };

		ret = htw_query(t->htw, &query);
		if (!ret && query.remaining > HOUR)
			return -ERANGE;
	}
	return publish(t, id, ret == -ENOENT ? 0 : ret);
}

TEST_F_TIMEOUT(threads, stores_beside_the_end, TEST_SECONDS)
{
	unsigned int round;

	for (round = 0; round < 300; round++)
		run_pair(_metadata, end_and_start, round % 2 ? do_put_off : do_put_off_inline,
			 round, round);
}

/* A manual clock does not go back, whenever the first shard is made. */
static struct {
	struct htw *htw;
	pthread_barrier_t barrier;
} clock_test;

static void *advance(void *arg)
{
	unsigned int i;

	pthread_barrier_wait(&clock_test.barrier);
	for (i = 0; i < 200; i++)
		if (htw_advance(clock_test.htw, 1, 0) < 0)
			return arg;
	return NULL;
}

TEST_F_TIMEOUT(threads, first_shard_beside_the_clock, TEST_SECONDS)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	unsigned int round, i;

	if (variant->backend == HTW_BACKEND_DEVICE || variant->manual || variant->shards)
		SKIP(return, "once is enough");
	ASSERT_EQ(0, pthread_barrier_init(&clock_test.barrier, NULL, 2));
	for (round = 0; round < 500; round++) {
		struct htw *shard[3];
		uint64_t now, last = 0;
		pthread_t thread;
		void *failed;

		ASSERT_EQ(0, htw_open(&clock_test.htw, HTW_BACKEND_PROCESS, &setup));
		ASSERT_EQ(0, pthread_create(&thread, NULL, advance, &clock_test));
		pthread_barrier_wait(&clock_test.barrier);
		for (i = 0; i < 3; i++) {
			last = htw_now(clock_test.htw);
			ASSERT_EQ(0, htw_shard(&shard[i], clock_test.htw));
			now = htw_now(shard[i]);
			EXPECT_LE(last, now);
			last = htw_now(clock_test.htw);
			EXPECT_LE(now, last);
		}
		ASSERT_EQ(0, pthread_join(thread, &failed));
		EXPECT_EQ(NULL, failed);
		EXPECT_EQ(200, htw_now(clock_test.htw));
		for (i = 0; i < 3; i++)
			EXPECT_EQ(200, htw_now(shard[i]));
		htw_close(clock_test.htw);
	}
	pthread_barrier_destroy(&clock_test.barrier);
}

TEST_HARNESS_MAIN
