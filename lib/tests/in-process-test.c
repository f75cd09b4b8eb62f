// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process backend from inside: states that take too long to reach, and
 * clock changes
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "../process.h"
#include "kselftest_harness.h"
#include <poll.h>

/* Of tests without one of their own: a busy machine, with a sanitizer, is slow. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	240

#define SEC		1000000000ULL
#define HOUR		(3600 * SEC)
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define FOREVER		(~0ULL)

#define GENERATIONS	(ID_GENERATION * ((1ULL << 20) - 1))

/*
 * The library's clocks are ahead by this, or stand still at a time if there is one. The linker
 * redirects clock_gettime() to here (--wrap).
 */
static int64_t ahead;
static uint64_t still;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	const int ret = __real_clock_gettime(clock, ts);
	const uint64_t ns = still ? still : ts->tv_sec * SEC + ts->tv_nsec + ahead;

	ts->tv_sec = ns / SEC;
	ts->tv_nsec = ns % SEC;
	return ret;
}

/* Give all free slots of the chunk where timers are started their last generation. */
static void age(struct process *p)
{
	struct slot *t;

	for (t = p->from->free; t; t = (struct slot *)t->node.list.next)
		t->name |= GENERATIONS;
}

/* A slot whose generations are used up is not reused, and the limit holds. */
TEST(generations_run_out)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL, .limit = 3,
	};
	uint64_t id, ids[3], deadlines[3] = { SEC, SEC, SEC }, cursor = 0;
	int results[3], way, i;
	struct htw_timer_info entry;
	struct htw_event ev;
	struct process *p;
	struct htw *htw;

	for (way = 0; way < 4; way++) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		p = process_of(htw);
		ASSERT_EQ(0, htw_after(htw, SEC, 1, &id));
		ASSERT_EQ(0, htw_stop(htw, id));
		p->from->free->name |= GENERATIONS;
		ASSERT_EQ(0, htw_after(htw, SEC, 1, &id));
		EXPECT_EQ(GENERATIONS, id & GENERATIONS);
		switch (way) {
		case 0:
			EXPECT_EQ(0, htw_stop(htw, id));
			break;
		case 1:
			EXPECT_EQ(0, htw_stop_many(htw, &id, 1, NULL));
			break;
		case 2:
			EXPECT_EQ(1, htw_advance(htw, SEC, 0));
			EXPECT_EQ(1, htw_read(htw, &ev, 1));
			break;
		default:
			EXPECT_EQ(1, htw_harvest(htw, &cursor, &entry, 1));
		}
		EXPECT_EQ(0, p->from->used);
		EXPECT_EQ(-ENOENT, htw_stop(htw, id));
		/* The generation that would come after the last one. */
		EXPECT_EQ(-ENOENT, htw_stop(htw, id & (ID_GENERATION - 1)));
		EXPECT_EQ(-ENOENT, htw_stop(htw, id + ID_GENERATION));
		/* It uses up a slot, but not of the limit. */
		EXPECT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, 3, results));
		for (i = 0; i < 3; i++)
			EXPECT_NE((u32)id, (u32)ids[i]);
		EXPECT_EQ(-ENOSPC, htw_after(htw, SEC, 1, &id));
		EXPECT_EQ(0, htw_stop_many(htw, ids, 3, NULL));
		htw_close(htw);
	}
}

/* When the generations of all slots of a chunk are used up, its memory goes back, for good. */
TEST(generations_of_a_chunk_run_out)
{
	enum { COUNT = 2 * CHUNK_SLOTS };
	uint64_t ids[COUNT], deadlines[COUNT];
	unsigned int i, round, before;
	struct process *p;
	struct htw *htw;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = HOUR;
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	p = process_of(htw);
	for (round = 0; round < 10; round++) {
		/* Each timer is the last of its slot. */
		for (i = 0; i < COUNT; i++) {
			if (p->from->free)
				age(p);
			ASSERT_EQ(0, htw_after(htw, HOUR, i, &ids[i]));
		}
		before = p->nr_numbers;
		EXPECT_EQ(0, htw_stop_many(htw, ids, COUNT, NULL));
		EXPECT_EQ(0, p->nr_timers);
		EXPECT_GE(3, p->nr_chunks);
		for (i = 0; i < COUNT; i++)
			EXPECT_EQ(-ENOENT, htw_stop(htw, ids[i]));
		ASSERT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, COUNT, NULL));
		EXPECT_LE(before, p->nr_numbers);
		EXPECT_EQ(0, htw_stop_many(htw, ids, COUNT, NULL));
	}
	htw_close(htw);
}

static int compare_ids(const void *a, const void *b)
{
	const uint64_t x = *(uint64_t *)a, y = *(uint64_t *)b;

	return (x > y) - (x < y);
}

/* Chunks are made as needed, and given back; their numbers come again, and no id does. */
TEST(growing_and_shrinking)
{
	enum { COUNT = 50000, ROUNDS = 12 };
	const struct htw_setup_args setup = { .limit = COUNT };
	static uint64_t ids[ROUNDS * COUNT], deadlines[COUNT];
	struct process *p;
	struct htw *htw;
	int i, round;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = HOUR;
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	p = process_of(htw);
	for (round = 0; round < ROUNDS; round++) {
		uint64_t *mine = ids + round * COUNT;

		ASSERT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, mine, COUNT, NULL));
		EXPECT_EQ(COUNT, p->nr_timers);
		EXPECT_GE(COUNT / (CHUNK_SLOTS - 1) + 3, p->nr_chunks);
		/* The numbers are those of the first round. */
		EXPECT_GE(COUNT / (CHUNK_SLOTS - 1) + 4, p->nr_numbers);
		EXPECT_EQ(0, htw_stop_many(htw, mine, COUNT, NULL));
		EXPECT_EQ(0, p->nr_timers);
		EXPECT_EQ(0, p->wheel.pending);
		EXPECT_GE(3, p->nr_chunks);
	}
	htw_close(htw);
	qsort(ids, ROUNDS * COUNT, sizeof(*ids), compare_ids);
	for (i = 1; i < ROUNDS * COUNT; i++) {
		ASSERT_NE(ids[i - 1], ids[i]);
	}
}

/* Handles are more than there are numbers of them, one after the other; no id comes again. */
TEST(more_handles_than_numbers)
{
	enum { COUNT = 2 * HANDLES + 100 };
	static uint64_t ids[COUNT];
	struct htw *htw;
	int i;

	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
		ASSERT_EQ(0, htw_after(htw, HOUR, 1, &ids[i]));
		if (i)
			EXPECT_EQ(-ENOENT, htw_stop(htw, ids[i / 2]));
		htw_close(htw);
	}
	qsort(ids, COUNT, sizeof(*ids), compare_ids);
	for (i = 1; i < COUNT; i++) {
		ASSERT_NE(ids[i - 1], ids[i]);
	}
}

/* A far deadline of CLOCK_REALTIME does not leave the timerfd readable: time_t may be 32 bits. */
TEST(quiet_until_then)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
	struct pollfd pfd = { .events = POLLIN };
	struct htw_event ev;
	int i, readable = 0;
	struct htw *htw;
	uint64_t id;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	ASSERT_EQ(0, htw_after(htw, HOUR, 1, &id));
	pfd.fd = htw_fd(htw);
	for (i = 0; i < 20; i++) {
		readable += poll(&pfd, 1, 5);
		ASSERT_EQ(0, htw_read(htw, &ev, 1));
	}
	/* Cascading may wake it, but not all the time. */
	EXPECT_GE(3, readable);
	htw_close(htw);
}

/* On a manual clock the descriptor is readable while something is due, whichever call ends that. */
TEST(readable_while_due)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct pollfd pfd = { .events = POLLIN };
	struct htw *htw;
	uint64_t id;
	int i;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	pfd.fd = htw_fd(htw);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, poll(&pfd, 1, 0));
		ASSERT_EQ(0, htw_after(htw, 0, 1, &id));
		EXPECT_EQ(1, poll(&pfd, 1, 10000));
		switch (i) {
		case 0:
			EXPECT_EQ(0, htw_stop(htw, id));
			break;
		case 1:
			EXPECT_EQ(0, htw_rearm(htw, id, HOUR));
			break;
		default:
			EXPECT_EQ(2, htw_cancel_all(htw));
			break;
		}
		EXPECT_EQ(0, poll(&pfd, 1, 0));
	}
	htw_close(htw);
}

/* Set the clock only in the VM. */
static bool in_vm(void)
{
	return !access("/module-args", F_OK) && !access("/init", F_OK);
}

static uint64_t realtime(void)
{
	return htw_clock_ns(CLOCK_REALTIME);
}

static int set_realtime(uint64_t ns)
{
	const struct timespec ts = { .tv_sec = ns / SEC, .tv_nsec = ns % SEC };

	return clock_settime(CLOCK_REALTIME, &ts);
}

/* Set back by various amounts, some over several hours. */
TEST(clock_set_back)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
	const uint64_t starts[] = { 1000000 * HOUR / 3, 50 * HOUR, 1000000 * HOUR / 3 };
	const uint64_t backs[] = { 2 * HOUR, 49 * HOUR, 1000000 * HOUR / 3 - HOUR };
	uint64_t before, near_id, far_id;
	struct htw_event ev[4];
	struct htw *htw;
	int i;

	if (!in_vm())
		SKIP(return, "sets the clock: only in the VM");
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, set_realtime(starts[i]));
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		before = realtime();
		ASSERT_EQ(0, htw_at(htw, before + HOUR, 1, &far_id));
		ASSERT_EQ(0, htw_read(htw, ev, 4));
		ASSERT_EQ(0, set_realtime(starts[i] - backs[i]));
		/*
		 * A timer started now must not count as past, and the older one
		 * must not be early.
		 */
		ASSERT_EQ(0, htw_after(htw, SEC / 5, 2, &near_id));
		EXPECT_EQ(0, htw_read(htw, ev, 4));
		ASSERT_EQ(1, htw_wait(htw, 60 * (int64_t)SEC));
		ASSERT_EQ(1, htw_read(htw, ev, 4));
		EXPECT_EQ(near_id, ev[0].id);
		EXPECT_LE(ev[0].deadline, ev[0].taken);
		EXPECT_GE(realtime(), ev[0].taken);
		/* And forward over its deadline. */
		ASSERT_EQ(0, set_realtime(before + 2 * HOUR));
		ASSERT_EQ(1, htw_wait(htw, 60 * (int64_t)SEC));
		ASSERT_EQ(1, htw_read(htw, ev, 4));
		EXPECT_EQ(far_id, ev[0].id);
		EXPECT_LE(ev[0].deadline, ev[0].taken);
		EXPECT_EQ(0, htw_wait(htw, SEC / 100));
		htw_close(htw);
	}
}

/*
 * A timer that is due when it is started expires within its tick. It is not early if the clock is
 * set back before it is read.
 */
TEST(clock_set_back_within_a_tick)
{
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK,
		.clock = CLOCK_REALTIME,
		.tick_ns = SEC, .levels = 2, .slots = { 64, 64 },
	};
	uint64_t now, when, id;
	struct htw_event ev[4];
	struct htw *htw;
	int64_t base;
	int i;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	ahead = 0;
	/* Well within a tick. */
	base = SEC + 8 * (int64_t)SEC / 10 - realtime() % SEC;
	for (i = 0; i < 3; i++) {
		ahead = base;
		now = realtime();
		ASSERT_EQ(0, htw_at(htw, now, i, &id));
		/* To the beginning of the tick, and before it. */
		ahead = base - (i < 2 ? (int64_t)(now % SEC) : (int64_t)(now % SEC + SEC / 2));
		when = realtime();
		EXPECT_EQ(0, when < now ? htw_read(htw, ev, 4) : 0);
		if (i)
			EXPECT_EQ(0, htw_wait(htw, 0));
		ahead = 0;
		ASSERT_EQ(1, htw_wait(htw, 60 * (int64_t)SEC));
		ASSERT_EQ(1, htw_read(htw, ev, 4));
		EXPECT_EQ(id, ev[0].id);
		EXPECT_LE(ev[0].deadline, ev[0].taken);
	}
	EXPECT_EQ(0, process_of(htw)->nr_timers);
	htw_close(htw);
}

/* Levels. */

static const struct htw_setup_args manual = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };

/* Few timers need no levels, however they are started and however far they are. */
TEST(levels_for_many)
{
	static const uint64_t soon[FEW_TIMERS + 1];
	struct htw_add_args add = { .flags = HTW_F_KEEP };
	uint64_t ids[FEW_TIMERS + 1], id;
	struct htw_event ev[FEW_TIMERS];
	struct htw *htw, *shard;
	struct htw_info_args info;
	unsigned int i, way;
	struct process *p;

	for (way = 0; way < 4; way++) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &manual));
		ASSERT_EQ(0, htw_shard(&shard, htw));
		p = process_of(htw);
		for (i = 0; i < FEW_TIMERS; i++) {
			/* Those that are idle count: they may all be started again. */
			add.deadline = way ? i * HOUR : 0;
			ASSERT_EQ(0, htw_add(htw, &add));
			if (!way)
				ASSERT_EQ(1, htw_read(htw, ev, 2));
			ids[i] = add.id;
		}
		EXPECT_EQ(0, p->wheel.levels);
		for (i = 0; i < FEW_TIMERS; i++)
			ASSERT_EQ(0, htw_rearm(htw, ids[i], SEC));
		EXPECT_EQ(0, p->wheel.levels);

		switch (way) {
		case 0:
		case 1:
			ASSERT_EQ(0, htw_after(htw, HOUR, 1, &id));
			break;
		case 2:
			/* One vector of many. */
			ASSERT_EQ(FEW_TIMERS, htw_cancel_all(htw));
			ASSERT_EQ(0, htw_add_many(htw, NULL, soon, NULL, ids, FEW_TIMERS, NULL));
			EXPECT_EQ(0, p->wheel.levels);
			ASSERT_EQ(FEW_TIMERS, htw_cancel_all(htw));
			ASSERT_EQ(0, htw_add_many(htw, NULL, soon, NULL, ids, FEW_TIMERS + 1,
						  NULL));
			break;
		default:
			ASSERT_EQ(0, htw_add(htw, &(struct htw_add_args){ .deadline = SEC }));
		}
		EXPECT_EQ(5, p->wheel.levels);
		EXPECT_EQ(256, p->wheel.level[0].nr_buckets / 2);
		/* Each handle has its own. */
		EXPECT_EQ(0, process_of(shard)->wheel.levels);
		/* The manual says what a handle has, not what its wheel needs at present. */
		ASSERT_EQ(0, htw_info(shard, &info));
		EXPECT_EQ(5, info.levels);
		EXPECT_EQ(256, info.slots[0]);
		htw_close(htw);
	}
}

/* What is reserved has them as well: adding takes no page faults then. */
TEST(levels_reserved)
{
	struct htw *htw;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	ASSERT_EQ(0, htw_reserve(htw, FEW_TIMERS));
	EXPECT_EQ(0, process_of(htw)->wheel.levels);
	ASSERT_EQ(0, htw_reserve(htw, FEW_TIMERS + 1));
	EXPECT_EQ(5, process_of(htw)->wheel.levels);
	ASSERT_EQ(0, htw_reserve(htw, 2 * FEW_TIMERS));
	htw_close(htw);
}

TEST(levels_as_asked_for)
{
	const struct htw_setup_args setup = {
		.tick_ns = SEC, .levels = 3, .slots = { 60, 60, 12 },
	};
	struct htw_info_args info;
	struct process *p;
	struct htw *htw;
	unsigned int i;
	uint64_t id;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	p = process_of(htw);
	ASSERT_EQ(0, htw_info(htw, &info));
	EXPECT_EQ(3, info.levels);
	for (i = 0; i <= FEW_TIMERS; i++)
		ASSERT_EQ(0, htw_after(htw, HOUR, i, &id));
	ASSERT_EQ(3, p->wheel.levels);
	for (i = 0; i < 3; i++)
		EXPECT_EQ(2 * setup.slots[i], p->wheel.level[i].nr_buckets);
	htw_close(htw);
}

/* Without memory for levels, the wheel's sorted list stays short, however many start at once. */
TEST(many_without_levels)
{
	enum { COUNT = 1000 };
	uint64_t ids[COUNT], deadlines[COUNT];
	const struct list_head *entry;
	unsigned int i, sorted = 0;
	struct process *p;
	struct htw *htw;

	for (i = 0; i < COUNT; i++)
		deadlines[i] = HOUR + (COUNT - i) * SEC;
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &manual));
	p = process_of(htw);
	p->levels_wait = COUNT;
	ASSERT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, COUNT, NULL));
	EXPECT_EQ(COUNT, p->wheel.pending);
	EXPECT_EQ(0, p->wheel.levels);
	list_for_each(entry, &p->wheel.sorted)
		sorted++;
	EXPECT_GE(FEW_TIMERS, sorted);
	htw_close(htw);
}

/* Levels may have work before the first timer: the descriptor wakes the program in time for it. */
TEST(levels_are_in_time)
{
	const uint64_t beyond = 20 * SEC;
	struct pollfd pfd = { .events = POLLIN };
	struct htw_event ev[2];
	struct process *p;
	struct htw *htw;
	unsigned int i;
	uint64_t id;

	still = 1000 * HOUR;
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, NULL));
	p = process_of(htw);
	for (i = 0; i < FEW_TIMERS; i++)
		ASSERT_EQ(0, htw_after(htw, beyond, i, &id));
	EXPECT_EQ(still + beyond, p->armed);
	ASSERT_EQ(0, htw_after(htw, HOUR, i, &id));
	ASSERT_EQ(5, p->wheel.levels);
	/* Not later than the wheel's next work, and that is not later than the first timer. */
	EXPECT_LE(p->armed, p->wheel.next * p->tick_ns);
	pfd.fd = htw_fd(htw);
	EXPECT_EQ(1, poll(&pfd, 1, 10000));
	/* Once, without an event. */
	EXPECT_EQ(0, htw_read(htw, ev, 2));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	EXPECT_GE(still + beyond, p->armed);
	EXPECT_LT(still, p->armed);
	still += beyond;
	EXPECT_EQ(2, htw_read(htw, ev, 2));
	EXPECT_EQ(0, ev[0].cookie);
	still = 0;
	htw_close(htw);
}

/* Order. */

/* Start a timer, whose cookie says in which order they were asked for. */
static uint64_t serial;

static int ask(struct htw *htw, uint64_t deadline)
{
	return htw_at(htw, deadline, serial++, NULL);
}

/* Read all that has come. Those of equal deadlines must be in order. Return: how many. */
static unsigned int read_in_order(struct __test_metadata *_metadata, struct htw *htw)
{
	enum { MOST = 1000 };
	static struct htw_event ev[MOST];
	unsigned int got = 0, i, k;
	int n;

	do {
		n = htw_read(htw, ev + got, MOST - got);
		got += n < 0 ? 0 : n;
	} while (n > 0 || (got < MOST && htw_wait(htw, 0) == 1));
	for (i = 0; i < got; i++)
		for (k = 0; k < i; k++)
			if (ev[k].deadline == ev[i].deadline)
				EXPECT_LT(ev[k].cookie, ev[i].cookie);
	return got;
}

/* Equal deadlines come in order, though levels are added in between, and wherever they are. */
TEST(order_as_levels_are_added)
{
	static const uint64_t deadlines[] = {
		10 * HTW_MSEC, 300 * HTW_MSEC, 20 * SEC, HOUR, 10000 * HOUR,
	};
	static const struct htw_add_args absolute = { .flags = HTW_F_ABS };
	uint64_t ids[100], many[100], cookies[100];
	unsigned int i, k, before, round, asked;
	struct htw *htw;

	for (round = 0; round < 5 * ARRAY_SIZE(deadlines); round++) {
		const uint64_t deadline = deadlines[round % ARRAY_SIZE(deadlines)];

		asked = 0;
		before = round / ARRAY_SIZE(deadlines) * 15;
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &manual));
		for (i = 0; i < before; i++, asked++) {
			ASSERT_EQ(0, ask(htw, deadline));
			if (i == before / 2)
				htw_advance(htw, deadline / 2, HTW_F_ABS);
		}
		EXPECT_EQ(0, process_of(htw)->wheel.levels);
		for (k = 0; k < 3; k++, asked += 100) {
			for (i = 0; i < 100; i++) {
				many[i] = deadline;
				cookies[i] = serial++;
			}
			ASSERT_EQ(0, htw_add_many(htw, &absolute, many, cookies, ids, 100, NULL));
			EXPECT_EQ(5, process_of(htw)->wheel.levels);
			htw_advance(htw, deadline - (3 - k) * HTW_MSEC, HTW_F_ABS);
		}
		ASSERT_EQ(0, ask(htw, deadline));
		htw_advance(htw, deadline, HTW_F_ABS);
		EXPECT_EQ(asked + 1, read_in_order(_metadata, htw));
		htw_close(htw);
	}
}

/*
 * A timer that is due as it is started, within a tick for which others wait, does not overtake
 * those of its deadline on a manual clock either, if they are few.
 */
TEST(order_on_a_manual_clock)
{
	struct htw_setup_args setup = manual;
	unsigned int i, others;
	uint64_t last;
	struct htw_event ev;
	struct htw *htw;

	setup.tick_ns = 1000;
	setup.levels = 1;
	setup.slots[0] = 64;
	for (others = 0; others < 100; others += 33) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		for (i = 0; i < others; i++)
			ASSERT_EQ(0, ask(htw, 1900));
		ASSERT_EQ(0, ask(htw, 1500));
		ASSERT_EQ(0, ask(htw, 1900));
		EXPECT_EQ(0, htw_advance(htw, 1600, HTW_F_ABS));
		EXPECT_EQ(0, htw_read(htw, &ev, 1));
		/* It is due at once, and takes the one of its deadline along. */
		if (!others) {
			ASSERT_EQ(0, ask(htw, 1500));
			EXPECT_EQ(2, read_in_order(_metadata, htw));
		}
		/* If they are many it goes alone. */
		ASSERT_EQ(0, htw_at(htw, 1500, 0, &last));
		EXPECT_EQ(1, htw_read(htw, &ev, 1));
		EXPECT_EQ(last, ev.id);
		EXPECT_EQ(0, htw_read(htw, &ev, 1));
		htw_advance(htw, 2000, HTW_F_ABS);
		EXPECT_EQ(others + (others ? 2 : 1), read_in_order(_metadata, htw));
		htw_close(htw);
	}
}

/*
 * A deadline of zero is at once on a manual clock, which may stand still for ever, whatever else
 * waits, and however far the wheel is behind.
 */
TEST(zero_on_a_manual_clock)
{
	static const unsigned int others[] = { 0, 1, 31, 33, 100, 3000 };
	static const uint64_t steps[] = { 1, 100, 100000 };
	static struct htw_event ev[4000];
	unsigned int i, k, step, zeros;
	uint64_t id;
	struct htw *htw;

	for (i = 0; i < ARRAY_SIZE(others) * ARRAY_SIZE(steps) * 2; i++) {
		const unsigned int waiting = others[i / 2 % ARRAY_SIZE(others)];

		step = steps[i / 2 / ARRAY_SIZE(others)];
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &manual));
		for (k = 0; k < waiting; k++)
			ASSERT_EQ(0, htw_after(htw, (1 + k * step) * HTW_MSEC + k, 1, &id));
		/* All of them have come, or none; within a tick. */
		htw_advance(htw, (i % 2 ? waiting * step + 2 : 0) * HTW_MSEC + HTW_MSEC / 2, 0);
		for (zeros = 0; zeros < 50; zeros++) {
			ASSERT_EQ(0, htw_after(htw, 0, 2, &id));
			EXPECT_EQ(1, htw_wait(htw, 0));
			EXPECT_EQ(1, htw_advance(htw, 0, 0));
		}
		for (k = 0; htw_advance(htw, 0, 0) == 1 && k <= waiting + zeros; )
			k += htw_read(htw, ev, 4000);
		EXPECT_EQ(zeros + (i % 2 ? waiting : 0), k);
		htw_close(htw);
	}
}

/* The same on another clock, where many wait for the tick, and not the last of them is due. */
TEST(order_among_many_that_wait)
{
	const struct htw_setup_args setup = {
		.tick_ns = SEC, .levels = 2, .slots = { 64, 64 },
	};
	const uint64_t start = 1000 * HOUR, deadline = start + SEC / 2;
	unsigned int i, others;
	struct htw *htw;

	for (others = 0; others < 100; others += 20) {
		still = start + SEC / 4;
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		for (i = 0; i < others; i++)
			ASSERT_EQ(0, ask(htw, start + SEC - 1));
		ASSERT_EQ(0, ask(htw, deadline));
		ASSERT_EQ(0, ask(htw, start + SEC - 1));
		still = deadline + 1;
		ASSERT_EQ(0, ask(htw, deadline));
		still = start + SEC;
		EXPECT_EQ(others + 3, read_in_order(_metadata, htw));
		htw_close(htw);
	}
	still = 0;
}

/*
 * The clock is set back after timers were started that were due, which wait for it then. One of
 * their tick whose deadline comes earlier does not wait for them.
 */
TEST(not_late_after_the_clock_was_set_back)
{
	static const unsigned int others[] = { 1, 40, 400 };
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME,
		.tick_ns = SEC, .levels = 2, .slots = { 64, 64 },
	};
	const uint64_t start = 1000 * HOUR;
	static struct htw_event ev[4000];
	unsigned int i, k;
	uint64_t id;
	struct htw *htw;

	for (i = 0; i < ARRAY_SIZE(others); i++) {
		still = start + SEC * 9 / 10;
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		for (k = 0; k < others[i]; k++)
			ASSERT_EQ(0, htw_at(htw, still - k, 1, NULL));
		still = start - SEC * 3 / 2;
		EXPECT_EQ(0, htw_read(htw, ev, 4000));
		ASSERT_EQ(0, htw_at(htw, start - SEC / 3, 2, &id));
		still = start;
		EXPECT_EQ(1, htw_wait(htw, 0));
		EXPECT_EQ(1, htw_read(htw, ev, 4000));
		EXPECT_EQ(id, ev[0].id);
		/* It is woken for the first of the others. */
		EXPECT_EQ(0, htw_wait(htw, 0));
		EXPECT_EQ(start + SEC * 9 / 10 - (others[i] - 1), process_of(htw)->armed);
		still = start + SEC * 9 / 10;
		EXPECT_EQ(others[i], htw_read(htw, ev, 4000));
		htw_close(htw);
	}
	still = 0;
}

/*
 * The clock is set back, within a tick or further, after timers were started that were due. Until
 * its deadline comes again such a timer waits, and others of that deadline that are started
 * meanwhile come behind it; as do those that are due all the time.
 */
TEST(order_after_the_clock_was_set_back)
{
	static const uint64_t back[] = { SEC / 4, SEC * 3 / 4, 100 * SEC };
	static const unsigned int others[] = { 0, 100, 3000 };
	const struct htw_setup_args setup = {
		.flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME,
		.tick_ns = SEC, .levels = 2, .slots = { 64, 64 },
	};
	const uint64_t start = 1000 * HOUR, deadline = start + SEC / 2, past = start - 150 * SEC;
	unsigned int i, k, read_between;
	struct htw_event ev;
	struct htw *htw;

	for (i = 0; i < ARRAY_SIZE(back) * ARRAY_SIZE(others) * 2; i++) {
		const unsigned int filled = others[i / 2 % ARRAY_SIZE(others)];
		const uint64_t by = back[i / 2 / ARRAY_SIZE(others)];

		read_between = i % 2;
		still = deadline + 1;
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		for (k = 0; k < filled; k++)
			ASSERT_EQ(0, ask(htw, start + HOUR + k * SEC));
		EXPECT_EQ(filled ? 2 : 0, process_of(htw)->wheel.levels);
		if (!read_between)
			ASSERT_EQ(0, ask(htw, past));
		ASSERT_EQ(0, ask(htw, deadline));
		ASSERT_EQ(0, ask(htw, deadline));

		still -= by;
		ASSERT_EQ(0, ask(htw, deadline));
		if (!read_between)
			ASSERT_EQ(0, ask(htw, past));
		if (read_between) {
			EXPECT_EQ(0, htw_read(htw, &ev, 1));
			/* The program is woken at the deadline, if that is within the tick. */
			if (by < SEC / 2)
				EXPECT_EQ(deadline, process_of(htw)->armed);
			EXPECT_EQ(0, htw_wait(htw, 0));
		}
		ASSERT_EQ(0, ask(htw, deadline));

		still = deadline + 2;
		ASSERT_EQ(0, ask(htw, deadline));
		still = start + SEC;
		EXPECT_EQ(read_between ? 5 : 7, read_in_order(_metadata, htw));
		htw_close(htw);
	}
	still = 0;
}

/*
 * Timers far beyond what the levels span are looked at a few times each: the calls that it takes
 * to expire them are counted, each of which looks at a bounded number.
 */
TEST(years_beyond_the_levels)
{
	enum { COUNT = 100000, MONTHS = 24 * 12 };
	static const struct htw_setup_args setups[] = {
		{ .levels = 1, .slots = { 2 } },
		{ .levels = 3, .slots = { 60, 60, 12 } },
	};
	/* At most two rounds in each of the heap's lists. */
	const unsigned int most = 2 * HTW_WHEEL_LISTS * (COUNT / PORTION + 1) + 4 * MONTHS;
	const uint64_t month = 30 * 24 * HOUR;
	static uint64_t ids[COUNT], deadlines[COUNT];
	static struct htw_event ev[PORTION];
	unsigned int i, k, month_nr, got, calls;
	struct htw_setup_args setup;
	struct htw *htw;
	int n;

	for (k = 0; k < ARRAY_SIZE(setups); k++) {
		setup = setups[k];
		setup.flags = HTW_SETUP_CLOCK;
		setup.clock = HTW_CLOCK_MANUAL;
		setup.tick_ns = SEC;
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		for (i = 0; i < COUNT; i++)
			deadlines[i] = i * 7919ULL % COUNT * (MONTHS * month / COUNT);
		ASSERT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, COUNT, NULL));
		EXPECT_EQ(setup.levels, process_of(htw)->wheel.levels);

		got = calls = 0;
		for (month_nr = 1; month_nr <= MONTHS; month_nr++) {
			htw_advance(htw, month_nr * month, HTW_F_ABS);
			do {
				calls++;
				n = htw_read(htw, ev, PORTION);
				got += n;
			} while ((n || htw_advance(htw, 0, 0)) && calls < most);
		}
		EXPECT_EQ(COUNT, got);
		EXPECT_GT(most, calls) TH_LOG("%u of at most %u calls", calls, most);
		htw_close(htw);
	}
}

TEST_HARNESS_MAIN
