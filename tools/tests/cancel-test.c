// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_CANCEL: in each state of a timer, and with ids that are not valid
 */
#include "htw-test.h"

#define INTERVAL	(4 * MSEC)

HTW_TEST(pending)
{
	__u64 deadline = now_ns() + 3600 * SEC, t0, t1;
	__u64 id = htw_start_abs(self->fd, deadline, 0xfeedfacecafebeefULL);
	struct htw_cancel_args cancel = htw_cancel_of(id);

	ASSERT_NE(0, id);
	t0 = now_ns();
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	t1 = now_ns();
	EXPECT_EQ(id, cancel.id);
	EXPECT_EQ(0xfeedfacecafebeefULL, cancel.cookie);
	EXPECT_GE(deadline - t0, cancel.remaining);
	EXPECT_LE(deadline - t1, cancel.remaining);
	EXPECT_EQ(0, cancel.missed);
	EXPECT_EQ(HTW_STATE_PENDING, cancel.state);
	EXPECT_EQ(0, htw_timers(self->fd));

	cancel = htw_cancel_of(id);
	EXPECT_EQ(-ENOENT, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_TRUE(htw_cancel_untouched(&cancel));
}

HTW_TEST(pending_is_never_read)
{
	__u64 id[2], until;

	id[0] = htw_start(self->fd, 60 * MSEC, 1);
	id[1] = htw_start(self->fd, 60 * MSEC, 2);
	until = now_ns() + 80 * MSEC;
	ASSERT_NE(0, id[0]);
	ASSERT_NE(0, id[1]);
	ASSERT_EQ(0, htw_stop(self->fd, id[0]));
	ASSERT_EQ(0, htw_stop(self->fd, id[1]));
	EXPECT_TRUE(htw_quiet_until(self->fd, until));
}

HTW_TEST(periodic_pending)
{
	struct htw_add_args add = htw_abs(now_ns() + MSEC, 6);
	struct htw_cancel_args cancel;
	struct htw_event ev;

	add.interval = 3600 * SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
	cancel = htw_cancel_of(add.id);
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(6, cancel.cookie);
	EXPECT_EQ(0, cancel.missed);
	EXPECT_LE(add.deadline + 3600 * SEC - now_ns(), cancel.remaining);
	EXPECT_GE(3600 * SEC, cancel.remaining);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
}

HTW_TEST(unread_one_shot)
{
	__u64 id = htw_start(self->fd, MSEC, 7);
	struct htw_cancel_args cancel = htw_cancel_of(id);
	struct htw_event ev;

	ASSERT_NE(0, id);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(7, cancel.cookie);
	EXPECT_EQ(0, cancel.remaining);
	EXPECT_EQ(0, cancel.missed);
	EXPECT_EQ(HTW_STATE_DUE, cancel.state);

	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, id));
}

HTW_TEST(disarmed)
{
	struct htw_add_args add = htw_rel(0, 8);
	struct htw_cancel_args cancel;
	struct htw_event ev;

	add.flags |= HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	cancel = htw_cancel_of(add.id);
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(8, cancel.cookie);
	EXPECT_EQ(0, cancel.remaining);
	EXPECT_EQ(0, cancel.missed);
	EXPECT_EQ(HTW_STATE_DISARMED, cancel.state);
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(unread_in_the_middle)
{
	struct htw_cancel_args cancel;
	struct htw_event ev[8];
	__u64 id[5];
	int i;

	for (i = 0; i < 5; i++) {
		id[i] = htw_start(self->fd, 0, i);
		ASSERT_NE(0, id[i]);
	}
	ASSERT_TRUE(htw_eventually(htw_due(self->fd) == 5));
	for (i = 0; i < 5; i += 2) {
		cancel = htw_cancel_of(id[i]);
		EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	}
	EXPECT_EQ(2, htw_due(self->fd));
	ASSERT_EQ(2, htw_read(self->fd, ev, 8));
	EXPECT_EQ(1, ev[0].cookie);
	EXPECT_EQ(3, ev[1].cookie);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 8));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(unread_periodic)
{
	struct htw_add_args add = htw_abs(now_ns() - 10 * INTERVAL, 10);
	struct htw_cancel_args cancel;
	struct htw_event ev[2];
	__u64 t0, t1;

	add.interval = INTERVAL;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	cancel = htw_cancel_of(add.id);
	t0 = now_ns();
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	t1 = now_ns();
	EXPECT_EQ(HTW_STATE_DUE, cancel.state);
	EXPECT_EQ(10, cancel.cookie);
	EXPECT_EQ(0, cancel.remaining);
	EXPECT_LE((t0 - add.deadline) / INTERVAL, cancel.missed);
	EXPECT_GE((t1 - add.deadline) / INTERVAL, cancel.missed);

	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
	EXPECT_TRUE(htw_quiet_for(self->fd, 5 * INTERVAL));
}

HTW_TEST(read_already)
{
	__u64 id = htw_start(self->fd, 0, 12);
	struct htw_cancel_args cancel = htw_cancel_of(id);
	struct htw_event ev;

	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	ASSERT_EQ(id, ev.id);
	EXPECT_EQ(-ENOENT, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_TRUE(htw_cancel_untouched(&cancel));
}

HTW_TEST(argument_that_cannot_be_read)
{
	struct htw_cancel_args cancel = htw_cancel_of(htw_start(self->fd, 3600 * SEC, 1));
	const size_t size = offsetof(struct htw_cancel_args, flags);
	void *p = htw_before_page(size, PROT_NONE);

	ASSERT_NE(NULL, p);
	memcpy(p, &cancel, size);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_CANCEL, p));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_CANCEL, NULL));
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
}

HTW_TEST(argument_that_cannot_be_written)
{
	__u64 deadline = now_ns() + 500 * MSEC;
	struct htw_cancel_args cancel;
	struct htw_event ev;
	__u64 id;

	id = htw_start_abs(self->fd, deadline, 1);
	cancel = htw_cancel_of(id);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_CANCEL, htw_read_only(&cancel, sizeof(cancel))));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, id));
	EXPECT_TRUE(htw_quiet_until(self->fd, deadline + 20 * MSEC));

	id = htw_start(self->fd, 0, 2);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	cancel = htw_cancel_of(id);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_CANCEL, htw_read_only(&cancel, sizeof(cancel))));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, &ev, 1));
}

/* A stale id must not stop the timer that uses the same slot now. */
HTW_TEST(stale_after_its_slot_was_reused)
{
	enum { COUNT = 2000, ROUNDS = 5 };
	static __u64 ids[ROUNDS][COUNT];
	unsigned int round, i, j, reused = 0;

	for (round = 0; round < ROUNDS; round++) {
		ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids[round]));
		for (j = 0; j < round; j++)
			for (i = 0; i < COUNT; i++)
				ASSERT_EQ(-ENOENT, htw_stop(self->fd, ids[j][i]));
		for (i = 0; round && i < COUNT; i++)
			for (j = 0; j < COUNT; j++)
				if ((__u32)(ids[round][i]) == (__u32)(ids[round - 1][j])) {
					ASSERT_NE(ids[round - 1][j], ids[round][i]);
					reused++;
					break;
				}
		EXPECT_EQ(COUNT, htw_timers(self->fd));
		ASSERT_EQ(COUNT, htw_stop_many(self->fd, ids[round], COUNT));
	}
	/* At least one slot was reused, or the loop above tested nothing. */
	EXPECT_LT(0, reused);
}

HTW_TEST(stale_while_its_slot_waits_to_be_read)
{
	enum { TRIES = 5000 };
	__u64 old = htw_start(self->fd, ~0ULL, 1), id = 0;
	struct htw_event ev;
	int i;

	ASSERT_EQ(0, htw_stop(self->fd, old));
	for (i = 0; i < TRIES && (__u32)(id) != (__u32)(old); i++) {
		if (id)
			ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		id = htw_start(self->fd, 0, 2);
		ASSERT_NE(0, id);
	}
	ASSERT_GT(TRIES, i);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, old));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_EQ(0, ev.flags);
}

HTW_TEST(forged)
{
	enum { COUNT = 1000 };
	static __u64 ids[COUNT];
	static const __u32 generations[] = { 0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff };
	struct htw_cancel_args cancel;
	unsigned int i, j;
	__u64 slot;

	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));

	for (i = 0; i < COUNT; i++) {
		const __u64 near[] = {
			ids[i] + (1ULL << 32), ids[i] - (1ULL << 32), ids[i] ^ (1ULL << 63),
			ids[i] & 0xffffffff, ids[i] | 0xffffffff, ids[i] << 32, ~ids[i],
		};

		for (j = 0; j < ARRAY_SIZE(near); j++) {
			if (near[j] == ids[i])
				continue;
			cancel = htw_cancel_of(near[j]);
			ASSERT_EQ(-ENOENT, htw_call(self->fd, HTW_CANCEL, &cancel)) {
				TH_LOG("%#llx near %#llx", near[j], ids[i]);
			}
			ASSERT_TRUE(htw_cancel_untouched(&cancel));
		}
	}

	/*
	 * All slots of the first pages, their headers included, and samples far
	 * beyond.
	 */
	for (slot = 0; slot < 0x100000000ULL; slot += slot < 4096 ? 1 : slot / 3)
		for (j = 0; j < ARRAY_SIZE(generations); j++) {
			__u64 id = (__u64)generations[j] << 32 | slot;
			bool mine = false;

			for (i = 0; i < COUNT && !mine; i++)
				mine = ids[i] == id;
			if (!mine)
				ASSERT_EQ(-ENOENT, htw_stop(self->fd, id)) {
					TH_LOG("%#llx", id);
				}
		}
	for (j = 0; j < ARRAY_SIZE(generations); j++)
		EXPECT_EQ(-ENOENT, htw_stop(self->fd, (__u64)generations[j] << 32 | 0xffffffff));

	EXPECT_EQ(COUNT, htw_timers(self->fd));
	EXPECT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));
}

/* No timer was ever added, so there is no page. */
HTW_TEST(forged_in_an_empty_context)
{
	__u64 slot;

	for (slot = 0; slot < 0x100000000ULL; slot += slot < 256 ? 1 : slot / 3) {
		EXPECT_EQ(-ENOENT, htw_stop(self->fd, slot));
		EXPECT_EQ(-ENOENT, htw_stop(self->fd, 1ULL << 32 | slot));
	}
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, ~0ULL));
}

HTW_TEST(of_another_context)
{
	int other = htw_open(O_NONBLOCK);
	__u64 id[2];

	ASSERT_LE(0, other);
	id[0] = htw_start(self->fd, ~0ULL, 1);
	EXPECT_EQ(-ENOENT, htw_stop(other, id[0]));
	EXPECT_EQ(1, htw_timers(self->fd));
	EXPECT_EQ(0, htw_timers(other));

	id[1] = htw_start(other, ~0ULL, 2);
	EXPECT_EQ(0, htw_stop(self->fd, id[0]));
	EXPECT_EQ(1, htw_timers(other));
	EXPECT_EQ(0, htw_stop(other, id[1]));
	close(other);
}

HTW_TEST(added_on_another_cpu)
{
	enum { COUNT = 500 };
	__u64 ids[COUNT];

	ASSERT_EQ(0, htw_pin(htw_other_cpu()));
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	ASSERT_EQ(0, htw_pin(0));
	EXPECT_EQ(COUNT, htw_stop_many(self->fd, ids, COUNT));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(0, htw_stop_many(self->fd, ids, COUNT));
}

TEST_HARNESS_MAIN
