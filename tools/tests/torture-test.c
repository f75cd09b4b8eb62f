// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exactly once: each timer ends in one read or one cancel, while two CPUs
 * cancel and read what expires
 *
 * Each end is counted in a byte indexed by the cookie.
 *
 * Slow: 20 s.
 */
#include "htw-test.h"

#include <pthread.h>

#define MILLION		1000000

struct torture {
	int fd;
	__u64 count;
	unsigned char *ends;
	__u64 *ids;
	__u64 *due;
	__u64 added, chased;
	__u64 ended;
	int reader_cpu;
	/* Every other time that so many have been chased the reader stands by: they stay due. */
	unsigned int burst;
	__u64 read, cancelled, due_cancelled, too_late;
	const char *wrong;
};

static void end_of(struct torture *t, __u64 cookie)
{
	if (cookie >= t->count) {
		t->wrong = "a cookie that was never given";
		return;
	}
	if (__atomic_fetch_add(&t->ends[cookie], 1, __ATOMIC_RELAXED))
		t->wrong = "a timer that ended twice";
	__atomic_fetch_add(&t->ended, 1, __ATOMIC_RELAXED);
}

static bool complete(struct torture *t)
{
	return __atomic_load_n(&t->ended, __ATOMIC_RELAXED) >= t->count;
}

/* Read until all timers have ended, or too long after the last one that did. */
static void *reader(void *arg)
{
	struct htw_event ev[BATCH];
	struct torture *t = arg;
	__u64 now, chased, last = now_ns();
	int i, n;

	htw_pin(t->reader_cpu);
	while (!complete(t) && !t->wrong) {
		chased = __atomic_load_n(&t->chased, __ATOMIC_ACQUIRE);
		if (t->burst && chased < t->count && chased / t->burst % 2) {
			sched_yield();
			last = now_ns();
			continue;
		}
		if (htw_poll(t->fd, 100) != POLLIN) {
			if (now_ns() - last > EVENTUALLY)
				t->wrong = "timers were lost";
			continue;
		}
		n = htw_read(t->fd, ev, BATCH);
		/* What poll() found due was cancelled before the read. */
		if (n == -EAGAIN)
			continue;
		now = now_ns();
		last = now;
		if (n <= 0)
			t->wrong = "read() failed";
		for (i = 0; i < n; i++) {
			if (ev[i].taken < ev[i].deadline || now < ev[i].deadline)
				t->wrong = "a timer fired early";
			if (ev[i].flags)
				t->wrong = "a one-shot timer has more";
			end_of(t, ev[i].cookie);
		}
		t->read += n > 0 ? n : 0;
	}
	return NULL;
}

static void cancel_some(struct torture *t, const __u64 *cookies, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct htw_cancel_args cancel = htw_cancel_of(t->ids[cookies[i]]);
		int ret = htw_call(t->fd, HTW_CANCEL, &cancel);

		if (ret == -ENOENT) {
			t->too_late++;
			continue;
		}
		if (ret) {
			t->wrong = "a cancel failed";
			continue;
		}
		if (cancel.state == HTW_STATE_DUE)
			t->due_cancelled++;
		else if (cancel.state != HTW_STATE_PENDING)
			t->wrong = "a cancel found an armed timer in another state";
		if (cancel.cookie != cookies[i])
			t->wrong = "a cancel returned another timer's cookie";
		t->cancelled++;
		end_of(t, cancel.cookie);
	}
}

static void expect_exactly_once(struct __test_metadata *_metadata, struct torture *t)
{
	__u64 i;

	ASSERT_EQ(NULL, t->wrong) {
		TH_LOG("%s; %llu of %llu ended", t->wrong, t->ended, t->count);
	}
	for (i = 0; i < t->count; i++)
		ASSERT_EQ(1, t->ends[i]);
	EXPECT_EQ(t->count, t->read + t->cancelled);
	EXPECT_EQ(0, htw_timers(t->fd));
	TH_LOG("%llu read, %llu cancelled, of these %llu when they were due, %llu cancels too late",
	       t->read, t->cancelled, t->due_cancelled, t->too_late);
}

static bool prepare(struct torture *t, int fd, __u64 count)
{
	*t = (struct torture){
		.fd = fd,
		.count = count,
		.ends = calloc(count, 1),
		.ids = calloc(count, sizeof(*t->ids)),
		.due = calloc(count, sizeof(*t->due)),
		.reader_cpu = htw_other_cpu(),
	};
	return t->ends && t->ids && t->due;
}

static int add_all(int fd, __u64 *ids, const __u64 *deadlines, const __u64 *cookies, __u32 count)
{
	struct htw_vector_args vector = htw_vector_add(ids, deadlines, cookies, count);

	vector.flags = HTW_F_ABS;
	return htw_vector_all(fd, vector);
}

/*
 * A million timers over several seconds. One CPU cancels a random half in
 * random order; the other expires and reads them.
 */
HTW_TEST(a_million)
{
	__u64 random = 0x9e3779b97f4a7c15ULL, start, i, n, k;
	__u64 count = self->limit < MILLION ? self->limit : MILLION;
	__u64 deadlines[BATCH], cookies[BATCH];
	struct torture t;
	pthread_t thread;
	__u64 *order;

	ASSERT_TRUE(prepare(&t, self->fd, count));
	order = malloc(count * sizeof(*order));
	ASSERT_NE(NULL, order);
	for (i = 0; i < count; i++) {
		n = xorshift64(&random) % (i + 1);
		order[i] = order[n];
		order[n] = i;
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, reader, &t));

	for (i = 0; i < count && !t.wrong; i += n) {
		/* From the present, so that some are left to cancel on a slow machine, too. */
		start = now_ns() + 500 * MSEC;
		for (n = 0; n < BATCH && i + n < count; n++) {
			deadlines[n] = start + xorshift64(&random) % (6 * SEC);
			cookies[n] = i + n;
		}
		ASSERT_EQ(0, add_all(self->fd, t.ids + i, deadlines, cookies, n));
		for (k = 0; k < n; k++)
			ASSERT_FALSE(HTW_ID_IS_ERROR(t.ids[i + k]));
	}
	for (i = 0; i < count / 2 && !t.wrong; i += n) {
		n = count / 2 - i < BATCH ? count / 2 - i : BATCH;
		cancel_some(&t, order + i, n);
	}
	ASSERT_EQ(0, pthread_join(thread, NULL));
	expect_exactly_once(_metadata, &t);
	if (!t.cancelled && __test_passed(_metadata))
		SKIP(return, "raced with nothing: none was there to be cancelled");
}

struct canceller {
	pthread_t thread;
	struct torture *t;
};

/*
 * Cancel each timer just before or after its tick: the timers of a tick expire
 * on one CPU while they are cancelled on the other.
 */
static void *chase(void *arg)
{
	struct torture *t = ((struct canceller *)arg)->t;
	__u64 random = 0xa0761d6478bd642fULL, at = 0, cookies[8], when, n;

	htw_pin(htw_other_cpu());
	while (at < t->count && !t->wrong) {
		for (n = 0; n < ARRAY_SIZE(cookies) && at + n < t->count; n++) {
			if (__atomic_load_n(&t->added, __ATOMIC_ACQUIRE) <= at + n)
				break;
			cookies[n] = at + n;
		}
		if (!n) {
			sched_yield();
			continue;
		}
		when = t->due[at] + xorshift64(&random) % (400 * USEC) - 200 * USEC;
		while (now_ns() < when)
			;
		cancel_some(t, cookies, n);
		at += n;
		__atomic_store_n(&t->chased, at, __ATOMIC_RELEASE);
	}
	return NULL;
}

HTW_TEST(cancel_races_expiry)
{
	enum { COUNT = 64000, STEP = 32 };
	__u64 deadlines[STEP], cookies[STEP];
	struct torture t;
	struct canceller c = { .t = &t };
	pthread_t thread;
	__u64 i, n, tick;

	ASSERT_TRUE(prepare(&t, self->fd, COUNT));
	t.reader_cpu = 0;
	t.burst = 300;
	ASSERT_EQ(0, pthread_create(&thread, NULL, reader, &t));
	ASSERT_EQ(0, pthread_create(&c.thread, NULL, chase, &c));
	for (i = 0; i < COUNT && !t.wrong; i += STEP) {
		/*
		 * Do not get far ahead of the chase, or all its cancels would
		 * be too late.
		 */
		while (i > __atomic_load_n(&t.chased, __ATOMIC_ACQUIRE) + STEP && !t.wrong)
			sched_yield();
		tick = (now_ns() / self->tick + 2) * self->tick;
		for (n = 0; n < STEP; n++) {
			t.due[i + n] = tick;
			deadlines[n] = tick;
			cookies[n] = i + n;
		}
		ASSERT_EQ(0, add_all(self->fd, t.ids + i, deadlines, cookies, STEP));
		for (n = 0; n < STEP; n++)
			ASSERT_FALSE(HTW_ID_IS_ERROR(t.ids[i + n]));
		__atomic_store_n(&t.added, i + STEP, __ATOMIC_RELEASE);
	}
	ASSERT_EQ(0, pthread_join(c.thread, NULL));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	expect_exactly_once(_metadata, &t);
	if ((t.cancelled == t.due_cancelled || !t.due_cancelled || !t.too_late) &&
	    __test_passed(_metadata))
		SKIP(return, "races not met: %llu cancelled, %llu of them due, %llu too late",
		     t.cancelled, t.due_cancelled, t.too_late);
}

/* Two threads cancel the same id: exactly one of them finds it pending. */
struct rival {
	pthread_t thread;
	pthread_barrier_t *barrier;
	int fd;
	int rounds;
	const __u64 *id;
	int *results;
	int cpu;
};

static void *cancel_in_step(void *arg)
{
	struct rival *r = arg;
	int i;

	htw_pin(r->cpu);
	for (i = 0; i < r->rounds; i++) {
		pthread_barrier_wait(r->barrier);
		r->results[i] = htw_stop(r->fd, r->id[i]);
	}
	return NULL;
}

HTW_TEST(cancel_races_cancel)
{
	enum { ROUNDS = 5000 };
	static __u64 ids[ROUNDS];
	static int results[2][ROUNDS];
	pthread_barrier_t barrier;
	struct rival r[2];
	int i;

	ASSERT_EQ(ROUNDS, htw_start_many(self->fd, ~0ULL, 0, ROUNDS, ids));
	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, 2));
	for (i = 0; i < 2; i++) {
		r[i] = (struct rival){
			.barrier = &barrier,
			.fd = self->fd,
			.rounds = ROUNDS,
			.id = ids,
			.results = results[i],
			.cpu = i ? htw_other_cpu() : 0,
		};
		ASSERT_EQ(0, pthread_create(&r[i].thread, NULL, cancel_in_step, &r[i]));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(r[i].thread, NULL));
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(-ENOENT, results[0][i] + results[1][i]);
		ASSERT_TRUE(!results[0][i] || !results[1][i]);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

TEST_HARNESS_MAIN
