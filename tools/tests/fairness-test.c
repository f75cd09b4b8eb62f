// SPDX-License-Identifier: GPL-2.0-only
/*
 * A million timers due at one tick leave the CPU to its tasks
 *
 * A task increments a counter as fast as it can; its rate while the timers
 * expire is compared with its rate just before. Both only mean something where
 * time is the count of instructions.
 *
 * VM options: --icount
 *
 * Slow: 40 s.
 */
#include "htw-test.h"

#define COUNT	1000000ULL

struct work {
	__u64 count;
	__u64 time;
	__u64 longest;
};

/*
 * Count until @until has come and @expired timers have expired, leaving out
 * what is done before @from. The task must be running at @from: woken later, it
 * would miss the start of the expirations.
 */
static struct work work(__u64 from, __u64 until, int fd, __u64 expired)
{
	__u64 now, last = now_ns(), look = 0;
	struct work w = { 0 };

	for (;;) {
		now = now_ns();
		if (now >= from)
			w.count++;
		if (now - last > w.longest)
			w.longest = now - last;
		last = now;
		if (now < look)
			continue;
		look = now + MSEC;
		/* Both phases make this call, so that both pay for it. */
		if (htw_info(fd).expired >= expired && now >= until)
			break;
	}
	w.time = now - from;
	return w;
}

HTW_TEST(a_million_at_one_tick)
{
	__u64 count = self->limit < COUNT ? self->limit : COUNT;
	__u64 deadline = 0, margin, share, i, left, *ids;
	struct htw_event ev[BATCH];
	struct work alone, beside;
	int n;

	ids = malloc(count * sizeof(*ids));
	ASSERT_NE(NULL, ids);
	for (margin = 10 * SEC; ; margin *= 2) {
		deadline = now_ns() + margin;
		ASSERT_EQ(count, htw_start_many(self->fd, deadline, 0, count, ids));
		if (now_ns() + 3 * SEC < deadline)
			break;
		ASSERT_GE(60 * SEC, margin);
		for (left = count - htw_stop_many(self->fd, ids, count); left; left -= n) {
			n = htw_collect(self->fd, ev, left < BATCH ? left : BATCH);
			ASSERT_LT(0, n);
		}
	}

	alone = work(deadline - 2 * SEC, deadline - SEC, self->fd, 0);
	ASSERT_GT(deadline, now_ns());
	beside = work(deadline, deadline, self->fd, count);

	share = 100 * (beside.count * (alone.time / 1000)) / (alone.count * (beside.time / 1000));
	TH_LOG("the task had %llu%% of the CPU for the %llu ms it took", share,
	       beside.time / MSEC);
	TH_LOG("its longest gap was %llu us, %llu us before", beside.longest / USEC,
	       alone.longest / USEC);
	EXPECT_LE(48, share);
	EXPECT_GE(MSEC, beside.longest);

	for (i = 0; i < count; i += n) {
		n = htw_read(self->fd, ev, BATCH);
		ASSERT_LT(0, n);
		for (left = 0; left < n; left++) {
			ASSERT_EQ(i + left, ev[left].cookie);
			ASSERT_LE(deadline, ev[left].fired);
		}
	}
	EXPECT_EQ(0, htw_timers(self->fd));
	free(ids);
}

/* Another descriptor's timer expires while the million do. */
HTW_TEST(another_context_is_served_meanwhile)
{
	enum { MANY = 200000 };
	int crowd = htw_open(O_NONBLOCK);
	struct htw_event ev;
	__u64 deadline, id;

	ASSERT_LE(0, crowd);
	ASSERT_LE(MANY, self->limit);
	deadline = now_ns() + 3 * SEC;
	ASSERT_EQ(MANY, htw_start_many(crowd, deadline, 0, MANY, NULL));
	id = htw_start_abs(self->fd, deadline + 5 * MSEC, 1);
	ASSERT_EQ(1, htw_collect(self->fd, &ev, 1));
	EXPECT_EQ(id, ev.id);
	EXPECT_NOT_EARLY(&ev);
	EXPECT_TRUE(htw_eventually(htw_info(crowd).expired == MANY));
	close(crowd);
}

TEST_HARNESS_MAIN
