// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit on timers: exact, and lowered again by each way a timer can end
 *
 * Slow: 40 s.
 */
#include "htw-test.h"

static __u64 *ids;

/* Fill the context: every further add fails. */
static bool fill(int fd, __u64 limit)
{
	__u64 room = limit - htw_timers(fd);

	if (!ids)
		ids = malloc(limit * sizeof(*ids));
	return ids && htw_start_many(fd, ~0ULL, 0, room, ids) == room;
}

static int add_one(int fd, __u64 *id)
{
	struct htw_add_args add = htw_abs(~0ULL, 1);
	int ret = htw_call(fd, HTW_ADD, &add);

	if (id)
		*id = add.id;
	return ret;
}

#define EXPECT_ROOM_FOR_ONE(fd) do {					\
	EXPECT_EQ(0, add_one(fd, NULL));				\
	EXPECT_EQ(-ENOSPC, add_one(fd, NULL));				\
} while (0)

HTW_TEST(is_exact)
{
	__u64 deadlines[3] = { ~0ULL, ~0ULL, ~0ULL }, got[3];
	struct htw_vector_args v = htw_vector_add(got, deadlines, NULL, 3);
	__u64 id;
	int i;

	ASSERT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(self->limit, htw_timers(self->fd));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, &id));
	EXPECT_EQ(POISON, id);

	/* Of three, the one that fits. */
	ASSERT_EQ(0, htw_stop(self->fd, ids[0]));
	ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(3, v.done);
	EXPECT_EQ(2, v.failed);
	EXPECT_EQ(0, HTW_ID_ERROR(got[0]));
	EXPECT_EQ(-ENOSPC, HTW_ID_ERROR(got[1]));
	EXPECT_EQ(-ENOSPC, HTW_ID_ERROR(got[2]));

	for (i = 0; i < 3; i++)
		EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
	EXPECT_EQ(self->limit, htw_timers(self->fd));
}

HTW_TEST(recovers_after_cancel)
{
	unsigned int i;

	ASSERT_TRUE(fill(self->fd, self->limit));
	for (i = 0; i < 5; i++)
		ASSERT_EQ(0, htw_stop(self->fd, ids[i]));
	for (i = 0; i < 5; i++)
		EXPECT_EQ(0, add_one(self->fd, NULL));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
	EXPECT_EQ(self->limit, htw_timers(self->fd));
}

HTW_TEST(recovers_after_reading)
{
	struct htw_event ev[10];
	unsigned int i;

	for (i = 0; i < 10; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	ASSERT_TRUE(htw_eventually(htw_due(self->fd) == 10));
	ASSERT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));

	/* An event that could not be copied out is still unread. */
	EXPECT_EQ(-EFAULT, htw_read(self->fd, NULL, 10));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));

	ASSERT_EQ(3, htw_read(self->fd, ev, 3));
	for (i = 0; i < 3; i++)
		EXPECT_EQ(0, add_one(self->fd, NULL));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));

	ASSERT_EQ(7, htw_read(self->fd, ev, 10));
	for (i = 0; i < 7; i++)
		EXPECT_EQ(0, add_one(self->fd, NULL));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
}

/* A timer that is due counts until its event is taken, or it is cancelled. */
HTW_TEST(recovers_after_cancel_of_what_is_due)
{
	__u64 id = htw_start(self->fd, 0, 1);

	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
	ASSERT_EQ(0, htw_stop(self->fd, id));
	EXPECT_ROOM_FOR_ONE(self->fd);
}

HTW_TEST(recovers_after_harvest)
{
	struct htw_timer_info entry;
	struct htw_list_args list = htw_list_of(&entry, 1);

	ASSERT_TRUE(fill(self->fd, self->limit));
	ASSERT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
	ASSERT_EQ(1, list.done);
	EXPECT_ROOM_FOR_ONE(self->fd);
}

HTW_TEST(recovers_after_cancel_all)
{
	struct htw_cancel_all_args all = { 0 };

	ASSERT_TRUE(fill(self->fd, self->limit));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	EXPECT_EQ(self->limit, all.count);
	EXPECT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
}

/* A timer that lives on after its event was read counts as one, until it is cancelled. */
static void expect_counts_once(struct __test_metadata *_metadata, int fd, __u64 limit,
			       struct htw_add_args *add)
{
	struct htw_event ev;

	ASSERT_EQ(0, htw_call(fd, HTW_ADD, add));
	ASSERT_TRUE(htw_wait_readable(fd));
	ASSERT_TRUE(fill(fd, limit));
	ASSERT_EQ(1, htw_read(fd, &ev, 1));
	EXPECT_EQ(-ENOSPC, add_one(fd, NULL));
	ASSERT_EQ(0, htw_stop(fd, add->id));
	EXPECT_ROOM_FOR_ONE(fd);
}

HTW_TEST(counts_periodic_once)
{
	struct htw_add_args add = htw_abs(0, 1);

	add.interval = HOUR;
	expect_counts_once(_metadata, self->fd, self->limit, &add);
}

HTW_TEST(counts_kept)
{
	struct htw_add_args add = htw_abs(0, 1);

	add.flags |= HTW_F_KEEP;
	expect_counts_once(_metadata, self->fd, self->limit, &add);
}

/* A failed call leaves no timer, so it must not use up the limit, either. */
HTW_TEST(spared_by_failed_calls)
{
	struct htw_add_args good = htw_rel(0, 1), bad = good, *unwritable;
	int i;

	bad.flags = 1U << 31;
	unwritable = htw_read_only(&good, sizeof(good));
	ASSERT_NE(NULL, unwritable);
	for (i = 0; i < 1000; i++) {
		ASSERT_EQ(-EFAULT, htw_call(self->fd, HTW_ADD, unwritable));
		ASSERT_EQ(-EINVAL, htw_call(self->fd, HTW_ADD, &bad));
	}
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
}

/* A timer that ends on one CPU makes room on the other. */
HTW_TEST(is_one_for_all_cpus)
{
	int other = htw_other_cpu();

	ASSERT_TRUE(fill(self->fd, self->limit));
	ASSERT_EQ(self->limit, htw_stop_many(self->fd, ids, self->limit));
	ASSERT_EQ(0, htw_pin(other));
	ASSERT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
	ASSERT_EQ(0, htw_pin(0));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
	ASSERT_EQ(0, htw_stop(self->fd, ids[0]));
	ASSERT_EQ(0, htw_pin(other));
	EXPECT_ROOM_FOR_ONE(self->fd);
}

HTW_TEST(is_of_each_context)
{
	int other = htw_open(O_NONBLOCK);

	ASSERT_LE(0, other);
	ASSERT_TRUE(fill(self->fd, self->limit));
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
	EXPECT_EQ(0, add_one(other, NULL));
	EXPECT_EQ(1, htw_timers(other));
	close(other);
	EXPECT_EQ(-ENOSPC, add_one(self->fd, NULL));
}

TEST_HARNESS_MAIN
