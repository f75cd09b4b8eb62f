// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process backend from inside: states that take too long to reach, and
 * clock changes
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wclobbered"

#include "../process.c"
#include "kselftest_harness.h"

#define SEC		1000000000ULL
#define HOUR		(3600 * SEC)
#define FOREVER		(~0ULL)

/* A slot whose generations are used up is not reused, and the limit holds. */
TEST(generations_run_out)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_LIMIT, .clock = HTW_CLOCK_MANUAL, .limit = 3,
	};
	uint64_t id, ids[3], deadlines[3] = { SEC, SEC, SEC };
	int results[3], way, i;
	struct htw_event ev;
	struct process *p;
	struct htw *htw;

	for (way = 0; way < 3; way++) {
		ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
		p = process_of(htw);
		ASSERT_EQ(0, htw_after(htw, SEC, 1, &id));
		ASSERT_EQ(0, htw_stop(htw, id));
		/* The last generation of a free slot. */
		p->free->node.name |= 0xffffffffULL << 32;
		ASSERT_EQ(0, htw_after(htw, SEC, 1, &id));
		EXPECT_EQ(0xffffffff, id >> 32);
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
		}
		EXPECT_EQ(1, p->nr_retired);
		EXPECT_EQ(-ENOENT, htw_stop(htw, id));
		EXPECT_EQ(-ENOENT, htw_stop(htw, (u32)id));
		/*
		 * It uses up a slot of the array, but not of the limit while
		 * there is room.
		 */
		EXPECT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids, 3, results));
		for (i = 0; i < 3; i++)
			EXPECT_NE((u32)id, (u32)ids[i]);
		EXPECT_EQ(-ENOSPC, htw_after(htw, SEC, 1, &id));
		EXPECT_EQ(0, htw_stop_many(htw, ids, 3, NULL));
		htw_close(htw);
	}
}

/* The array grows in steps, and its slots do not move. */
TEST(growing)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 200000 };
	uint64_t deadlines[1000], *ids = calloc(200000, sizeof(*ids));
	struct process *p;
	struct htw *htw;
	int i, usable;

	ASSERT_NE(NULL, ids);
	for (i = 0; i < 1000; i++)
		deadlines[i] = HOUR;
	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	p = process_of(htw);
	for (i = 0; i < 200000; i += 1000) {
		usable = p->nr_usable;
		ASSERT_EQ(0, htw_add_many(htw, NULL, deadlines, NULL, ids + i, 1000, NULL));
		EXPECT_LE(usable, p->nr_usable);
		/* At most an eighth, or one step, more than needed. */
		EXPECT_GE(i + 1000 + (i + 1000) / 8 + 2 * GROW_MIN / sizeof(struct slot),
			  p->nr_usable);
	}
	EXPECT_EQ(200000, p->nr_timers);
	EXPECT_EQ(0, htw_stop_many(htw, ids, 200000, NULL));
	EXPECT_EQ(0, p->nr_timers);
	EXPECT_EQ(0, p->wheel.pending);
	htw_close(htw);
	free(ids);
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
	uint64_t now, id, ids[2];
	struct htw_event ev[4];
	struct process *p;
	struct htw *htw;
	bool idle, done;
	int i;

	ASSERT_EQ(0, htw_open(&htw, HTW_BACKEND_PROCESS, &setup));
	p = process_of(htw);
	for (i = 0; i < 2; i++) {
		now = realtime();
		ASSERT_EQ(0, htw_at(htw, now, i, &ids[i]));
		/* As if the clock had been set back to the beginning of the tick. */
		ASSERT_EQ(0, read_wheel(p, ev, 4, now - now % SEC, &idle, &done));
		if (i) {
			EXPECT_EQ(true, expire(p, now - now % SEC));
			EXPECT_EQ(0, p->nr_expired);
		}
		id = 0;
		while (!id) {
			ASSERT_EQ(1, htw_wait(htw, 60 * (int64_t)SEC));
			if (htw_read(htw, ev, 4) == 1)
				id = ev[0].id;
		}
		EXPECT_EQ(ids[i], id);
		EXPECT_LE(ev[0].deadline, ev[0].fired);
	}
	EXPECT_EQ(0, p->nr_timers);
	htw_close(htw);
}

TEST_HARNESS_MAIN
