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

#define SEC		1000000000ULL
#define HOUR		(3600 * SEC)
#define FOREVER		(~0ULL)

#define GENERATIONS	(ID_GENERATION * ((1ULL << 20) - 1))

/* The library's clocks are ahead by this. The linker redirects clock_gettime() to here (--wrap). */
static int64_t ahead;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	const int ret = __real_clock_gettime(clock, ts);
	const uint64_t ns = ts->tv_sec * SEC + ts->tv_nsec + ahead;

	ts->tv_sec = ns / SEC;
	ts->tv_nsec = ns % SEC;
	return ret;
}

/* Give all free slots of the chunk where timers are started their last generation. */
static void age(struct process *p)
{
	struct slot *t;

	for (t = p->from->free; t; t = (struct slot *)t->node.list.next)
		t->node.name |= GENERATIONS;
}

/* A slot whose generations are used up is not reused, and the limit holds. */
TEST(generations_run_out)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_LIMIT, .clock = HTW_CLOCK_MANUAL, .limit = 3,
	};
	uint64_t id, ids[3], deadlines[3] = { SEC, SEC, SEC }, cursor = 0;
	int results[3], way, i;
	struct htw_query entry;
	struct htw_event ev;
	struct process *p;
	struct htw *htw;

	for (way = 0; way < 4; way++) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		p = process_of(htw);
		ASSERT_EQ(0, htw_after(htw, SEC, 1, &id));
		ASSERT_EQ(0, htw_stop(htw, id));
		p->from->free->node.name |= GENERATIONS;
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
	const struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = COUNT };
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
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
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
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
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
			EXPECT_EQ(2, htw_cancel_all(htw, 0));
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
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
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
		EXPECT_LE(ev[0].deadline, ev[0].fired);
		EXPECT_GE(realtime(), ev[0].fired);
		/* And forward over its deadline. */
		ASSERT_EQ(0, set_realtime(before + 2 * HOUR));
		ASSERT_EQ(1, htw_wait(htw, 60 * (int64_t)SEC));
		ASSERT_EQ(1, htw_read(htw, ev, 4));
		EXPECT_EQ(far_id, ev[0].id);
		EXPECT_LE(ev[0].deadline, ev[0].fired);
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
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
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
		EXPECT_LE(ev[0].deadline, ev[0].fired);
	}
	EXPECT_EQ(0, process_of(htw)->nr_timers);
	htw_close(htw);
}

TEST_HARNESS_MAIN
