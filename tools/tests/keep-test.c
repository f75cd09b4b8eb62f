// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_F_KEEP: one id fires many times, re-armed by HTW_MOD without a new
 * HTW_ADD
 */
#include "htw-test.h"

/* In real time, moved from both CPUs. */
HTW_TEST(many_firings_of_one_id)
{
	struct htw_add_args add = htw_rel(0, 1);
	struct htw_event ev[2];
	__u64 t0;
	int i;

	add.flags = HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 500; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
		EXPECT_EQ(add.id, ev[0].id);
		EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
		EXPECT_NOT_EARLY(&ev[0]);
		EXPECT_EQ(1, htw_timers(self->fd));
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
		ASSERT_EQ(0, htw_pin(i % 2 ? htw_other_cpu() : 0));
		t0 = now_ns();
		ASSERT_EQ(0, htw_move(self->fd, add.id, i * 10 * USEC, 0));
		EXPECT_LE(t0 + i * 10 * USEC, htw_query(self->fd, add.id).deadline);
	}
	EXPECT_NE(-ENOENT, htw_stop(self->fd, add.id));
}

/* A kept timer's slot is not reused, and counts for the limit. */
HTW_TEST(many_ids)
{
	enum { COUNT = 500 };
	struct htw_event ev[COUNT];
	__u64 ids[COUNT];
	int i, n, got, round;

	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup_args){
		.limit = COUNT }));
	for (i = 0; i < COUNT; i++) {
		struct htw_add_args add = htw_rel(0, i);

		add.flags = HTW_F_KEEP;
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		ids[i] = add.id;
	}
	for (round = 0; round < 20; round++) {
		for (got = 0; got < COUNT; got += n) {
			ASSERT_TRUE(htw_wait_readable(self->fd));
			n = htw_read(self->fd, ev, COUNT);
			ASSERT_LT(0, n);
			for (i = 0; i < n; i++)
				EXPECT_EQ(ids[ev[i].cookie], ev[i].id);
		}
		EXPECT_EQ(COUNT, htw_timers(self->fd));
		EXPECT_EQ(0, htw_due(self->fd));
		EXPECT_EQ(0, htw_start(self->fd, 0, 1));
		EXPECT_EQ(ENOSPC, errno);
		for (i = 0; i < COUNT; i++)
			ASSERT_EQ(0, htw_move(self->fd, ids[i], i % 7 * MSEC, 0));
	}
}

/* A kept periodic timer goes on without HTW_MOD. */
HTW_TEST(periodic)
{
	struct htw_add_args add = htw_rel(MSEC, 1);
	struct htw_event ev[2];
	__u64 next = 0;
	int i;

	add.flags = HTW_F_KEEP;
	add.interval = 2 * MSEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 100; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
		if (next)
			EXPECT_EQ(next, ev[0].deadline);
		next = ev[0].deadline + (1 + ev[0].missed) * add.interval;
		EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
	}
	/* Its last firing disarms it; its id stays valid. */
	ASSERT_EQ(0, htw_mod(self->fd, (struct htw_mod_args){
		.id = add.id,
		.deadline = MSEC,
		.flags = HTW_MOD_DEADLINE | HTW_MOD_INTERVAL,
	}));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
}

TEST_HARNESS_MAIN
