// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_NEXT, the timer that expires first; and HTW_LIST by state
 */
#include "htw-ring.h"

static const struct htw_setup shapes[] = {
	{ .flags = 0 },
	{ .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL },
	{ .flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE, .clock = HTW_CLOCK_MANUAL,
	  .tick_ns = 1, .levels = 2, .slots = { 4, 4 } },
	{ .flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE, .clock = HTW_CLOCK_MANUAL,
	  .tick_ns = 7, .levels = 3, .slots = { 60, 60, 12 } },
	{ .flags = HTW_SETUP_PRIVATE, .tick_ns = SEC, .levels = 1, .slots = { 2 } },
};

static int next_of(int fd, struct htw_query *timer)
{
	struct htw_next next = {};
	int ret = htw_call(fd, HTW_NEXT, &next);

	*timer = next.timer;
	return ret;
}

/* The earliest deadline that HTW_LIST reports, or zero if it reports none. */
static __u64 first_listed(int fd, __u64 tick)
{
	struct htw_query entries[64];
	struct htw_list list = htw_list_of(entries, 64);
	__u64 first = ~0ULL;

	while (!htw_call(fd, HTW_LIST, &list) && list.done)
		for (__u32 i = 0; i < list.done; i++)
			if (entries[i].deadline < first)
				first = entries[i].deadline;
	return first / tick + !!(first % tick);
}

/* While timers start, stop and move, near and far, HTW_NEXT agrees with HTW_LIST. */
HTW_TEST(as_a_list_says)
{
	enum { TIMERS = 300, STEPS = 1500 };
	static __u64 ids[TIMERS];
	struct htw_event ev[TIMERS];

	NEEDS(HTW_FEATURE_NEXT | HTW_FEATURE_MANUAL);
	for (unsigned int s = 0; s < ARRAY_SIZE(shapes); s++) {
		const bool manual = shapes[s].clock == HTW_CLOCK_MANUAL;
		const int fd = htw_open(O_NONBLOCK);
		__u64 random = 42 + s, tick;
		struct htw_query next;

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, htw_set_up(fd, shapes[s]));
		tick = htw_info(fd).tick_ns;
		EXPECT_EQ(-ENOENT, next_of(fd, &next));
		memset(ids, 0, sizeof(ids));
		for (unsigned int i = 0; i < STEPS; i++) {
			const __u64 r = xorshift64(&random);
			__u64 *id = &ids[r % TIMERS];
			/*
			 * From a few ticks to a thousand years. On real clocks,
			 * none that expires meanwhile.
			 */
			const __u64 ns = (manual ? 0 : HOUR) +
					 ((xorshift64(&random) >> 1) >> (r >> 32) % 63);

			if (!*id)
				*id = htw_start(fd, ns + 1, r % TIMERS);
			else if (r >> 40 & 1)
				htw_move(fd, *id, ns + 1, 0);
			else if (r >> 41 & 1)
				htw_stop(fd, *id), *id = 0;
			if (manual && !(r >> 42 & 15))
				ASSERT_LE(0, htw_advance(fd, ns % (1000 * tick), 0));
			for (int n = htw_read(fd, ev, TIMERS); n > 0; n--)
				ids[ev[n - 1].cookie] = 0;
			if (next_of(fd, &next)) {
				EXPECT_EQ(-ENOENT, next_of(fd, &next));
				EXPECT_EQ(0, htw_timers(fd));
				continue;
			}
			ASSERT_EQ(first_listed(fd, tick),
				  next.deadline / tick + !!(next.deadline % tick)) {
				TH_LOG("shape %u, step %u", s, i);
			}
			EXPECT_EQ(HTW_STATE_PENDING, next.state);
			EXPECT_EQ(next.id, ids[next.cookie]);
		}
		close(fd);
	}
}

/* Advance from event to event, as a simulation does. */
HTW_TEST(from_one_to_the_next)
{
	__u64 random = 7, before = 0, tick = self->tick;
	struct htw_query next;
	struct htw_event ev[2];

	NEEDS(HTW_FEATURE_NEXT | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	for (int i = 0; i < 500; i++)
		ASSERT_NE(0, htw_start(self->fd, (i + 1) * (xorshift64(&random) % HOUR / 500), i));
	for (int i = 0; i < 500; i++) {
		if (next_of(self->fd, &next))
			break;
		EXPECT_LE(before, next.deadline / tick);
		before = next.deadline / tick;
		ASSERT_LE(1, htw_advance(self->fd, (next.deadline + tick - 1) / tick * tick,
					 HTW_F_ABS));
		while (htw_read(self->fd, ev, 1) == 1)
			EXPECT_EQ(next.deadline / tick, ev[0].deadline / tick);
	}
	EXPECT_EQ(-ENOENT, next_of(self->fd, &next));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(what_expired_or_is_disarmed_is_not_next)
{
	struct htw_query next;
	struct htw_event ev[2];
	__u64 id;

	NEEDS(HTW_FEATURE_NEXT | HTW_FEATURE_KEEP | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));

	struct htw_add add = { .flags = HTW_F_KEEP };

	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(-ENOENT, next_of(self->fd, &next));
	ASSERT_EQ(1, htw_read(self->fd, ev, 2));
	EXPECT_EQ(-ENOENT, next_of(self->fd, &next));
	id = htw_start(self->fd, ~0ULL, 5);
	ASSERT_NE(0, id);
	ASSERT_EQ(0, next_of(self->fd, &next));
	EXPECT_EQ(id, next.id);
	EXPECT_EQ(~0ULL, next.deadline);
	EXPECT_EQ(5, next.cookie);
}

/* Deadlines in the table count, as they do for HTW_LIST. */
HTW_TEST(next_by_the_table)
{
	struct htw_query next;
	volatile __u64 *table;
	__u64 a, b;

	NEEDS(HTW_FEATURE_NEXT | HTW_FEATURE_TABLE | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	table = mmap(NULL, HTW_TABLE_SIZE(63), PROT_READ | PROT_WRITE, MAP_SHARED, self->fd,
		     HTW_OFF_TABLE);
	ASSERT_NE(MAP_FAILED, (void *)table);
	a = htw_start(self->fd, SEC, 1);
	b = htw_start(self->fd, 2 * SEC, 2);
	ASSERT_NE(0, a);
	ASSERT_NE(0, b);
	ASSERT_EQ(0, next_of(self->fd, &next));
	EXPECT_EQ(a, next.id);
	table[HTW_ID_SLOT(a)] = HOUR;
	ASSERT_EQ(0, next_of(self->fd, &next));
	EXPECT_EQ(b, next.id);
	table[HTW_ID_SLOT(b)] = HTW_DISARMED;
	ASSERT_EQ(0, next_of(self->fd, &next));
	EXPECT_EQ(a, next.id);
	EXPECT_EQ(HOUR, next.deadline);
	table[HTW_ID_SLOT(a)] = HTW_DISARMED;
	EXPECT_EQ(-ENOENT, next_of(self->fd, &next));
}

HTW_TEST(next_that_is_invalid)
{
	struct htw_next next = {}, invalid;

	NEEDS(HTW_FEATURE_NEXT);
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	for (unsigned int bit = 0; bit < 128; bit++) {
		memset(&invalid, 0, sizeof(invalid));
		((unsigned char *)&invalid.flags)[bit / 8] |= 1 << bit % 8;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_NEXT, &invalid));
		EXPECT_EQ(0, invalid.timer.id);
	}
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_NEXT, NULL));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_NEXT, htw_read_only(&next, sizeof(next))));
	/* The contents on entry do not matter. */
	memset(&next.timer, 0xa5, sizeof(next.timer));
	EXPECT_EQ(0, htw_call(self->fd, HTW_NEXT, &next));
	EXPECT_EQ(1, next.timer.cookie);
}

static __u32 count_listed(int fd, __u32 flags, struct htw_query *entries)
{
	struct htw_list list = htw_list_of(entries, 64);

	list.flags = flags;
	return htw_call(fd, HTW_LIST, &list) ? ~0U : list.done;
}

/* Each timer is in one of three states and listed by that state's bit. */
HTW_TEST(lists_by_state)
{
	static const __u16 states[] = {
		HTW_STATE_PENDING, HTW_STATE_EXPIRED, HTW_STATE_DISARMED,
	};
	struct htw_query entries[64];
	struct htw_event ev[8];

	NEEDS(HTW_FEATURE_LIST_STATES | HTW_FEATURE_KEEP | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	/*
	 * One is pending, two are disarmed, four have expired, of which one is
	 * cancelled.
	 */
	for (int i = 0; i < 7; i++) {
		struct htw_add add = {
			.deadline = i ? 0 : HOUR, .flags = HTW_F_KEEP, .cookie = i,
		};

		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		if (i == 2)
			ASSERT_EQ(2, htw_read(self->fd, ev, 8));
		if (i == 6)
			ASSERT_EQ(-EALREADY, htw_stop(self->fd, add.id));
	}
	EXPECT_EQ(1, count_listed(self->fd, 0, entries));
	for (__u32 flags = 1; flags < 8; flags++) {
		const __u32 count = count_listed(self->fd, flags, entries);

		EXPECT_EQ((flags & HTW_LIST_PENDING ? 1 : 0) + (flags & HTW_LIST_DISARMED ? 2 : 0) +
			  (flags & HTW_LIST_EXPIRED ? 4 : 0), count);
		for (__u32 i = 0; i < count && i < 64; i++) {
			__u32 bit = 0;

			while (bit < 2 && states[bit] != entries[i].state)
				bit++;
			EXPECT_TRUE(flags & 1U << bit);
			EXPECT_EQ(entries[i].cookie == 0, entries[i].state == HTW_STATE_PENDING);
			EXPECT_EQ(entries[i].cookie > 2, entries[i].state == HTW_STATE_EXPIRED);
		}
	}
	for (__u32 bit = 3; bit < 32; bit++)
		EXPECT_EQ(~0U, count_listed(self->fd, 1U << bit, entries));
	for (__u32 bit = 0; bit < 32; bit++) {
		struct htw_list list = htw_list_of(entries, 64);

		list.flags = 1U << bit;
		EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_HARVEST, &list));
	}
	EXPECT_EQ(7, htw_timers(self->fd));
}

/* Events in the ring count as read, so their timers have ended. */
HTW_TEST(lists_nothing_that_is_in_the_ring)
{
	struct htw_query entries[64];
	struct ring r;

	NEEDS(HTW_FEATURE_LIST_STATES | HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, 2, HTW_CLOCK_MANUAL));
	for (int i = 0; i < 5; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	EXPECT_EQ(3, count_listed(self->fd, HTW_LIST_EXPIRED, entries));
	EXPECT_EQ(2, entries[0].cookie);
}

TEST_HARNESS_MAIN
