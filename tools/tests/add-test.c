// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_ADD: all kinds of deadlines, the results, and each error
 */
#include "htw-test.h"

static const __u64 cookies[] = {
	0, 1, 0x80000000ULL, 0xffffffffULL, 0x100000000ULL,
	0x0123456789abcdefULL, 1ULL << 63, ~0ULL,
};

HTW_TEST(relative)
{
	struct htw_add_args add = htw_rel(5 * MSEC, 42), before = add;
	struct htw_event ev;
	__u64 t0, t1;

	t0 = now_ns();
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	t1 = now_ns();
	EXPECT_NE(0, add.id);
	EXPECT_NE(POISON, add.id);
	before.id = add.id;
	EXPECT_EQ(0, memcmp(&before, &add, sizeof(add)));

	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(add.id, ev.id);
	EXPECT_EQ(42, ev.cookie);
	EXPECT_LE(t0 + 5 * MSEC, ev.deadline);
	EXPECT_GE(t1 + 5 * MSEC, ev.deadline);
	EXPECT_NOT_EARLY(&ev);
	EXPECT_EQ(0, ev.missed);
	EXPECT_EQ(0, ev.flags);
	EXPECT_EQ(0, ev.reserved);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(absolute)
{
	struct htw_add_args add = htw_abs(now_ns() + 5 * MSEC + 1, 43);
	struct htw_event ev;

	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(add.id, ev.id);
	EXPECT_EQ(43, ev.cookie);
	EXPECT_EQ(add.deadline, ev.deadline);
	EXPECT_NOT_EARLY(&ev);
	EXPECT_EQ(0, ev.flags);
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(past_and_zero)
{
	struct htw_add_args adds[] = {
		htw_rel(0, 0),
		htw_abs(0, 1),
		htw_abs(1, 2),
		htw_abs(now_ns() - 1, 3),
		htw_abs(now_ns() / 2, 4),
		htw_rel(1, 5),
	};
	struct htw_event ev;
	unsigned int i;
	__u64 t0, t1;

	for (i = 0; i < ARRAY_SIZE(adds); i++) {
		t0 = now_ns();
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
		t1 = now_ns();
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(adds[i].id, ev.id);
		EXPECT_EQ(i, ev.cookie);
		if (adds[i].flags & HTW_F_ABS) {
			EXPECT_EQ(adds[i].deadline, ev.deadline);
		} else {
			EXPECT_LE(t0 + adds[i].deadline, ev.deadline);
			EXPECT_GE(t1 + adds[i].deadline, ev.deadline);
		}
		EXPECT_NOT_EARLY(&ev);
		EXPECT_LE(t0, ev.taken);
		EXPECT_EQ(-ENOENT, htw_stop(self->fd, adds[i].id));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Deadlines so large that adding to them or multiplying them overflows. */
HTW_TEST(never)
{
	const __u64 s64_max = ~0ULL >> 1;
	struct htw_add_args adds[] = {
		htw_abs(~0ULL, 0),
		htw_abs(~0ULL - 1, 1),
		htw_abs(s64_max, 2),
		htw_abs(s64_max + 1, 3),
		htw_rel(~0ULL, 4),
		htw_rel(~0ULL - 1, 5),
		htw_rel(~0ULL - now_ns(), 6),
		htw_rel(s64_max, 7),
		htw_rel(s64_max + 1, 8),
		htw_rel(s64_max - now_ns(), 9),
		htw_rel(365 * 24 * 3600 * SEC, 10),
	};
	struct htw_cancel_args cancel;
	unsigned int i;
	__u64 t0;

	t0 = now_ns();
	for (i = 0; i < ARRAY_SIZE(adds); i++)
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &adds[i]));
	EXPECT_EQ(ARRAY_SIZE(adds), htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 50 * MSEC));

	for (i = 0; i < ARRAY_SIZE(adds); i++) {
		cancel = htw_cancel_of(adds[i].id);
		EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_EQ(i, cancel.cookie);
		EXPECT_EQ(0, cancel.missed);
		if (adds[i].flags & HTW_F_ABS) {
			EXPECT_GE(adds[i].deadline - t0, cancel.remaining);
			EXPECT_LE(adds[i].deadline - now_ns(), cancel.remaining);
		} else {
			EXPECT_LE(364 * 24 * 3600 * SEC, cancel.remaining);
			EXPECT_GE(adds[i].deadline, cancel.remaining);
		}
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(never_periodic)
{
	struct htw_add_args add = htw_abs(~0ULL, 1);

	add.interval = ~0ULL;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(cookies_of_64_bits)
{
	struct htw_event ev;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cookies); i++) {
		ASSERT_NE(0, htw_start(self->fd, 0, cookies[i]));
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		EXPECT_EQ(cookies[i], ev.cookie);
	}
}

HTW_TEST(ids_differ)
{
	__u64 ids[1000];
	unsigned int i, j;

	ASSERT_EQ(ARRAY_SIZE(ids), htw_start_many(self->fd, ~0ULL, 0, ARRAY_SIZE(ids), ids));
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		ASSERT_NE(0, ids[i]);
		for (j = 0; j < i; j++)
			ASSERT_NE(ids[j], ids[i]);
	}
	EXPECT_EQ(ARRAY_SIZE(ids), htw_timers(self->fd));
}

HTW_TEST(unreadable_argument)
{
	struct htw_add_args add = htw_rel(0, 1);
	void *p = htw_before_page(sizeof(add) - 1, PROT_NONE);

	ASSERT_NE(NULL, p);
	memcpy(p, &add, sizeof(add) - 1);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_ADD, p));
	EXPECT_EQ(0, memcmp(p, &add, sizeof(add) - 1));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_ADD, NULL));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_ADD, (void *)~0UL));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

/* A timer whose id cannot be written must not be started: nothing could stop it. */
HTW_TEST(unwritable_id)
{
	struct htw_add_args adds[] = {
		htw_rel(0, 1), htw_rel(5 * MSEC, 2), htw_abs(0, 3), htw_rel(~0ULL, 4),
	};
	unsigned int i, round;

	for (i = 0; i < ARRAY_SIZE(adds); i++) {
		struct htw_add_args *p = htw_read_only(&adds[i], sizeof(adds[i]));

		ASSERT_NE(NULL, p);
		for (round = 0; round < 100; round++)
			ASSERT_EQ(-EFAULT, htw_call(self->fd, HTW_ADD, p));
		EXPECT_EQ(0, memcmp(p, &adds[i], sizeof(adds[i])));
		EXPECT_EQ(0, htw_timers(self->fd));
		EXPECT_EQ(0, htw_due(self->fd));
	}
	EXPECT_TRUE(htw_quiet_for(self->fd, 30 * MSEC));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* It is rounded up to one. */
HTW_TEST(interval_below_a_tick)
{
	const __u64 below[] = { 1, self->tick / 2, self->tick - 1, self->tick };
	struct htw_add_args add;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(below); i++) {
		add = htw_rel(HOUR, 1);
		add.interval = below[i];
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		EXPECT_EQ(self->tick, htw_query(self->fd, add.id).interval);
		ASSERT_EQ(0, htw_mod(self->fd, (struct htw_mod_args){
			.id = add.id, .interval = 2 * self->tick, .flags = HTW_MOD_INTERVAL }));
		ASSERT_EQ(0, htw_mod(self->fd, (struct htw_mod_args){
			.id = add.id, .interval = below[i], .flags = HTW_MOD_INTERVAL }));
		EXPECT_EQ(self->tick, htw_query(self->fd, add.id).interval);
		EXPECT_EQ(0, htw_stop(self->fd, add.id));
	}
}

HTW_TEST(firings_of_a_one_shot)
{
	struct htw_add_args add = htw_rel(0, 1);

	add.firings = 1;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add));
	add.firings = ~0U;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(POISON, add.id);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

TEST_HARNESS_MAIN
