// SPDX-License-Identifier: GPL-2.0-only
/*
 * read(): events, their order, their time, and periodic timers
 */
#include "htw-test.h"

HTW_TEST(buffers)
{
	struct htw_event ev[3];
	char *p = read_only_copy(ev, sizeof(ev));

	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 1));
	EXPECT_EQ(-1, read(self->fd, ev, sizeof(*ev) - 1));
	EXPECT_EQ(EINVAL, errno);
	for (unsigned int i = 0; i < 5; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));

	/* What cannot be copied stays. */
	EXPECT_EQ(-EFAULT, htw_read(self->fd, (struct htw_event *)p, 3));
	ASSERT_EQ(3, htw_read(self->fd, ev, 3));
	for (unsigned int i = 0; i < 3; i++)
		EXPECT_EQ(i, ev[i].cookie);
	EXPECT_TRUE(htw_is_readable(self->fd, 0));
	ASSERT_EQ(2, read(self->fd, ev, 3 * sizeof(*ev) - 1) / (int)sizeof(*ev));
	EXPECT_EQ(3, ev[0].cookie);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 1));
}

/* An event that goes to the end of memory, and not beyond. */
HTW_TEST(part_of_a_buffer)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct htw_event *end = (struct htw_event *)(p + page), ev;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, mprotect(end, page, PROT_NONE));
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_NE(0, htw_start(self->fd, 0, i));
	ASSERT_EQ(2, htw_read(self->fd, end - 2, 3));
	EXPECT_EQ(1, end[-1].cookie);
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(2, ev.cookie);
}

/* From less than a window of the wheel to several: none early, each once, in order. */
HTW_TEST(order)
{
	enum { COUNT = 3000 };
	static struct htw_event ev[COUNT];
	static bool seen[COUNT];
	/* Not before all are started, on a slow machine, too. */
	__u64 start = now_ns() + SEC, worst = 0;

	for (unsigned int i = 0; i < COUNT; i++) {
		struct htw_add_args add = {
			.deadline = start + (i * 7919ULL % COUNT / 10) * MSEC, .cookie = i,
			.flags = HTW_F_ABS,
		};

		ASSERT_EQ(0, htw_add(self->fd, &add));
	}
	for (unsigned int got = 0; got < COUNT;) {
		int n = 0;

		ASSERT_TRUE(htw_is_readable(self->fd, PATIENCE));
		n = htw_read(self->fd, ev + got, COUNT - got);
		ASSERT_LT(0, n);
		got += n;
	}
	for (unsigned int i = 0; i < COUNT; i++) {
		ASSERT_GE(ev[i].taken, ev[i].deadline);
		ASSERT_FALSE(seen[ev[i].cookie]);
		seen[ev[i].cookie] = true;
		if (!i)
			continue;
		ASSERT_LE(ev[i - 1].deadline, ev[i].deadline);
		/* On one tick as they were armed. */
		if (ev[i - 1].deadline == ev[i].deadline)
			ASSERT_LT(ev[i - 1].cookie, ev[i].cookie);
	}
	for (unsigned int i = 0; i < COUNT; i++) {
		if (ev[i].taken - ev[i].deadline > worst)
			worst = ev[i].taken - ev[i].deadline;
	}
	TH_LOG("at most %llu us late", (unsigned long long)worst / 1000);
	EXPECT_LT(worst, PATIENCE / 4);
}

HTW_TEST(periodic)
{
	__u64 id = htw_start_periodic(self->fd, 5 * MSEC, 10 * MSEC, 0), first = 0, firings = 0;
	struct htw_event ev;

	for (unsigned int i = 0; i < 20; i++) {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		ASSERT_EQ(id, ev.id);
		ASSERT_EQ(HTW_EVENT_MORE, ev.flags);
		ASSERT_GE(ev.taken, ev.deadline + ev.missed * 10 * MSEC);
		if (!i)
			first = ev.deadline;
		/* In phase, and each firing counts once. */
		ASSERT_EQ(first + firings * 10 * MSEC, ev.deadline);
		firings += 1 + ev.missed;
	}
	EXPECT_EQ(0, htw_stop(self->fd, id));
	EXPECT_FALSE(htw_is_readable(self->fd, 30 * MSEC));
}

/* Firings that were not read are one event, with their number. */
HTW_TEST(missed)
{
	__u64 id = htw_start_periodic(self->fd, 0, 2 * MSEC, 0);
	struct htw_cancel_args cancel = { .id = id };
	struct htw_event ev[2];
	__u64 due;

	sleep_until(now_ns() + 50 * MSEC);
	ASSERT_EQ(1, htw_read(self->fd, ev, 2));
	due = (ev[0].taken - ev[0].deadline) / (2 * MSEC);
	EXPECT_EQ(due, ev[0].missed);
	EXPECT_LE(25, ev[0].missed);

	sleep_until(now_ns() + 50 * MSEC);
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(HTW_STATE_DUE, cancel.state);
	EXPECT_LE(23, cancel.missed);
}

HTW_TEST(firings)
{
	__u64 id = htw_start_periodic(self->fd, 0, 2 * MSEC, 5), firings = 0;
	struct htw_event ev;

	do {
		ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
		firings += 1 + ev.missed;
	} while (ev.flags & HTW_EVENT_MORE);
	EXPECT_EQ(5, firings);
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, id));
	EXPECT_FALSE(htw_is_readable(self->fd, 10 * MSEC));
}

/* An interval below a tick is one. */
HTW_TEST(short_interval)
{
	struct htw_event ev;

	ASSERT_NE(0, htw_start_periodic(self->fd, 0, 1, 0));
	sleep_until(now_ns() + 20 * MSEC);
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ((ev.taken - ev.deadline) / MSEC, ev.missed);
}

TEST_HARNESS_MAIN
