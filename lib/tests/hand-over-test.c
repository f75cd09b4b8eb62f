// SPDX-License-Identifier: GPL-2.0-only
/*
 * Locks are handed over in order
 *
 * Each time that a call gives way, another thread is made to wait for the lock first, and must have
 * had it when the call goes on. Hand-overs are counted, and no time is measured.
 */
#include <kselftest_harness.h>

#include "../libhtw.h"
#include "../lock.h"
#include <stdio.h>
#include <time.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOUR		(3600 * HTW_SEC)
#define COUNT		20000u

void __real_htw_lock_take(struct htw_lock *lock);
void __real_htw_lock_give_way(struct htw_lock *lock);

/* A thread that asks when it is told to, and whether it has had the lock. */
static struct {
	void (*ask)(void);
	unsigned int wanted, begun, had, done;
	pid_t tid;
	pthread_t thread;
	bool ends;
} asker;

static __thread bool is_asker;
static unsigned int gave_way, handed_over;

static unsigned int load(unsigned int *number)
{
	return __atomic_load_n(number, __ATOMIC_SEQ_CST);
}

void __wrap_htw_lock_take(struct htw_lock *lock)
{
	if (is_asker)
		__atomic_store_n(&asker.begun, asker.done + 1, __ATOMIC_SEQ_CST);
	__real_htw_lock_take(lock);
	if (is_asker)
		__atomic_store_n(&asker.had, asker.done + 1, __ATOMIC_SEQ_CST);
}

static void *be_asker(void *unused)
{
	(void)unused;
	is_asker = true;
	asker.tid = syscall(SYS_gettid);
	for (;;) {
		while (load(&asker.wanted) == asker.done)
			sched_yield();
		if (__atomic_load_n(&asker.ends, __ATOMIC_SEQ_CST))
			return NULL;
		asker.ask();
		__atomic_store_n(&asker.done, asker.done + 1, __ATOMIC_SEQ_CST);
	}
}

static bool sleeps(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

/* Have the asker wait for the lock, which this thread has; give up in the end. */
static unsigned int make_it_wait(void)
{
	const unsigned int number = asker.wanted + 1;
	const time_t end = time(NULL) + 60;

	/* It may be on its way out of the time before. */
	while (load(&asker.done) != asker.wanted)
		sched_yield();
	__atomic_store_n(&asker.wanted, number, __ATOMIC_SEQ_CST);
	while ((load(&asker.begun) != number || !sleeps(asker.tid)) && time(NULL) < end)
		sched_yield();
	return number;
}

void __wrap_htw_lock_give_way(struct htw_lock *lock)
{
	unsigned int number;

	if (is_asker || !asker.ask) {
		__real_htw_lock_give_way(lock);
		return;
	}
	number = make_it_wait();
	__real_htw_lock_give_way(lock);
	gave_way++;
	handed_over += load(&asker.had) == number;
}

static void start_asker(void (*ask)(void))
{
	memset(&asker, 0, sizeof(asker));
	asker.ask = ask;
	gave_way = handed_over = 0;
	if (pthread_create(&asker.thread, NULL, be_asker, NULL))
		abort();
}

static void end_asker(void)
{
	while (load(&asker.done) != load(&asker.wanted))
		sched_yield();
	__atomic_store_n(&asker.ends, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&asker.wanted, asker.wanted + 1, __ATOMIC_SEQ_CST);
	pthread_join(asker.thread, NULL);
	asker.ask = NULL;
}

/* The lock. */

enum { WAITERS = 8 };

static struct {
	struct htw_lock lock;
	unsigned int order[WAITERS + 1], n;
	pid_t tid;
} fair;

static void *wait_for_lock(void *number)
{
	__atomic_store_n(&fair.tid, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	__real_htw_lock_take(&fair.lock);
	fair.order[fair.n++] = (uintptr_t)number;
	htw_lock_give(&fair.lock);
	return NULL;
}

FIXTURE(locks) {
};

FIXTURE_VARIANT(locks) {
	bool inherits;
};

FIXTURE_VARIANT_ADD(locks, plain) {
	.inherits = false,
};

FIXTURE_VARIANT_ADD(locks, inheriting) {
	.inherits = true,
};

FIXTURE_SETUP(locks)
{
}

FIXTURE_TEARDOWN(locks)
{
}

/* Those that wait have it in the order in which they came, then the one that gave way. */
TEST_F_TIMEOUT(locks, handed_over_in_order, 300)
{
	pthread_t threads[WAITERS];
	unsigned int i, round;

	for (round = 0; round < 20; round++) {
		memset(&fair, 0, sizeof(fair));
		ASSERT_EQ(0, htw_lock_init(&fair.lock, variant->inherits));
		/* Numbers that wrap. */
		fair.lock.drawn = fair.lock.served = -round;
		htw_lock_take(&fair.lock);
		for (i = 0; i < WAITERS; i++) {
			fair.tid = 0;
			ASSERT_EQ(0, pthread_create(&threads[i], NULL, wait_for_lock,
						    (void *)(uintptr_t)(i + 1)));
			while (!__atomic_load_n(&fair.tid, __ATOMIC_SEQ_CST) || !sleeps(fair.tid))
				sched_yield();
		}
		__real_htw_lock_give_way(&fair.lock);
		EXPECT_EQ(WAITERS, fair.n);
		htw_lock_give(&fair.lock);
		for (i = 0; i < WAITERS; i++) {
			ASSERT_EQ(0, pthread_join(threads[i], NULL));
			EXPECT_EQ(i + 1, fair.order[i]);
		}
		htw_lock_destroy(&fair.lock);
	}
}

enum { TURNS = 20000, THREADS = 4 };

static unsigned long guarded, turns;

static void *take_turns(void *unused)
{
	unsigned int i;

	for (i = 0; i < TURNS; i++) {
		__real_htw_lock_take(&fair.lock);
		guarded++;
		if (!(i % 16))
			__real_htw_lock_give_way(&fair.lock);
		turns++;
		htw_lock_give(&fair.lock);
	}
	return unused;
}

TEST_F_TIMEOUT(locks, one_at_a_time, 300)
{
	pthread_t threads[THREADS];
	unsigned int i;

	memset(&fair, 0, sizeof(fair));
	ASSERT_EQ(0, htw_lock_init(&fair.lock, variant->inherits));
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, take_turns, NULL));
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_EQ(THREADS * TURNS, guarded);
	EXPECT_EQ(THREADS * TURNS, turns);
	htw_lock_destroy(&fair.lock);
}

/* Calls that are long. */

static struct htw *htw, *other;
static uint64_t ids[COUNT], deadlines[COUNT];
static struct htw_event events[COUNT];
static struct htw_timer_info entries[COUNT];
static uint64_t asked_for;

static void query(void)
{
	struct htw_timer_info info = { .id = asked_for };

	htw_query(htw, &info);
}

static void query_of_other(void)
{
	struct htw_timer_info info = { .id = asked_for };

	htw_query(other, &info);
}

FIXTURE(calls) {
	struct htw *head;
};

FIXTURE_VARIANT(calls) {
	uint32_t flags;
};

FIXTURE_VARIANT_ADD(calls, plain) {
	.flags = 0,
};

FIXTURE_VARIANT_ADD(calls, inheriting) {
	.flags = HTW_SETUP_PI,
};

FIXTURE_SETUP(calls)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK | variant->flags, .clock = HTW_CLOCK_MANUAL,
	};

	ASSERT_EQ(0, htw_open(&self->head, HTW_BACKEND_PROCESS, &setup));
	ASSERT_EQ(0, htw_shard(&htw, self->head));
	ASSERT_EQ(0, htw_shard(&other, self->head));
	ASSERT_EQ(0, htw_after(htw, 100 * HOUR, 0, &asked_for));
}

FIXTURE_TEARDOWN(calls)
{
	htw_close(self->head);
}

static int start_all(uint64_t deadline, uint32_t flags)
{
	const struct htw_add_args common = { .flags = flags };
	unsigned int i;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = deadline;
	return htw_add_many(htw, &common, deadlines, NULL, ids, COUNT, NULL);
}

/* A call gave way at least so many times, and each time the lock was handed over. */
#define EXPECT_HANDED_OVER(least, call) do {			\
	start_asker(query);					\
	call;							\
	end_asker();						\
	EXPECT_LE(least, gave_way);				\
	EXPECT_EQ(gave_way, handed_over);			\
} while (0)

TEST_F_TIMEOUT(calls, between_the_parts_of_each, 300)
{
	uint64_t cursor = 0;
	int n = 0;

	EXPECT_HANDED_OVER(COUNT / 512, n = start_all(HOUR, 0));
	EXPECT_EQ(0, n);
	EXPECT_HANDED_OVER(COUNT / 512,
			   n = htw_rearm_many(htw, ids, deadlines, COUNT, 0, NULL));
	EXPECT_EQ(0, n);
	EXPECT_HANDED_OVER(7, n = htw_list(htw, &cursor, entries, COUNT));
	EXPECT_LT(3000, n);

	/* A bucket of all of them moves down, then they are read. */
	EXPECT_EQ(1, htw_advance(other, HOUR, 0));
	EXPECT_HANDED_OVER(7, n = htw_wait(htw, 0));
	EXPECT_EQ(0, n);
	EXPECT_HANDED_OVER(7, n = htw_read(htw, events, COUNT));
	EXPECT_EQ(0, n);
	while (!htw_wait(htw, 0))
		EXPECT_EQ(1, htw_advance(htw, 0, 0));
	EXPECT_HANDED_OVER(COUNT / 512, n = htw_read(htw, events, COUNT));
	EXPECT_EQ((int)COUNT, n);

	EXPECT_EQ(0, start_all(HOUR, 0));
	EXPECT_HANDED_OVER(COUNT / 512, n = htw_stop_many(htw, ids, COUNT, NULL));
	EXPECT_EQ(0, n);
	EXPECT_EQ(0, start_all(HOUR, 0));
	cursor = 0;
	EXPECT_HANDED_OVER(7, n = htw_harvest(htw, &cursor, entries, COUNT));
	EXPECT_LT(3000, n);
	EXPECT_HANDED_OVER(COUNT / 2 / 512, n = htw_cancel_all(htw));
	EXPECT_LT(0, n);
}

/* Advancing has the lock of all shards, for which those wait that ask for another one's timer. */
TEST_F_TIMEOUT(calls, between_the_parts_of_advancing, 300)
{
	EXPECT_EQ(0, start_all(HOUR, 0));
	start_asker(query_of_other);
	EXPECT_EQ(1, htw_advance(other, HOUR, 0));
	end_asker();
	EXPECT_LE(8, gave_way);
	EXPECT_EQ(gave_way, handed_over);
}

/* Those that were put off are started again in parts as well. */
TEST_F_TIMEOUT(calls, between_the_parts_of_putting_off, 300)
{
	unsigned int i;
	int n = 0;

	EXPECT_EQ(0, start_all(HTW_SEC, HTW_F_PUT_OFF));
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(0, htw_put_off(htw, ids[i], HOUR));
	EXPECT_LE(0, htw_advance(htw, HTW_SEC, 0));
	EXPECT_HANDED_OVER(7, n = htw_read(htw, events, COUNT));
	EXPECT_EQ(0, n);
}

static struct htw_dispatcher *d;

static void missed(void)
{
	htw_call_missed(d, 1);
}

static void nothing(struct htw_dispatcher *of, uint64_t call, void *arg)
{
	(void)of;
	(void)call;
	(void)arg;
}

/* What it asks for is passed on in parts. */
static void start_many(struct htw_dispatcher *of, uint64_t call, void *arg)
{
	unsigned int i;

	(void)call;
	(void)arg;
	for (i = 0; i < 2000; i++)
		htw_call_after(of, HOUR, nothing, NULL, NULL);
}

TEST_F_TIMEOUT(calls, between_the_parts_of_a_dispatch, 300)
{
	ASSERT_EQ(0, htw_dispatcher_new(&d, other));
	ASSERT_EQ(0, htw_call_after(d, 0, start_many, NULL, NULL));
	start_asker(missed);
	EXPECT_EQ(1, htw_dispatch(d, 0));
	end_asker();
	EXPECT_LE(2000 / 64, gave_way);
	EXPECT_EQ(gave_way, handed_over);
	htw_dispatcher_free(d);
}

TEST_HARNESS_MAIN
