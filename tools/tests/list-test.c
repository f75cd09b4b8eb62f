// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_LIST, HTW_HARVEST and HTW_CANCEL_ALL, while other threads add and cancel,
 * and when a process hands its timers over
 */
#include "htw-test.h"
#include "../common/pass-fd.h"

#include <pthread.h>

/* Issue the call again if a signal interrupts it. */
static int list_some(int fd, unsigned long cmd, struct htw_list *list)
{
	int ret;

	do {
		ret = htw_call(fd, cmd, list);
	} while (ret == -EINTR);
	return ret;
}

/*
 * Page through all timers; count how often each cookie below @count is
 * returned. Return the sum.
 */
static __u64 count_listed(int fd, unsigned long cmd, __u32 room, unsigned char *seen, __u64 count)
{
	struct htw_query *entries = calloc(room, sizeof(*entries));
	struct htw_list list = htw_list_of(entries, room);
	__u64 all = 0;
	__u32 i;

	while (!list_some(fd, cmd, &list) && list.done && list.done <= room) {
		for (i = 0; i < list.done; i++)
			if (entries[i].cookie < count)
				seen[entries[i].cookie]++;
		all += list.done;
	}
	free(entries);
	return all;
}

HTW_TEST(pages)
{
	enum { COUNT = 10000 };
	static const __u32 sizes[] = { 1, 2, 62, 63, 64, 65, 1000, 20000 };
	unsigned char seen[COUNT];
	__u64 i, k;

	NEEDS(HTW_FEATURE_ALL);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, NULL));
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(seen, 0, sizeof(seen));
		EXPECT_EQ(COUNT, count_listed(self->fd, HTW_LIST, sizes[i], seen, COUNT));
		for (k = 0; k < COUNT; k++)
			ASSERT_EQ(1, seen[k]);
	}
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	memset(seen, 0, sizeof(seen));
	EXPECT_EQ(COUNT, count_listed(self->fd, HTW_HARVEST, 100, seen, COUNT));
	for (k = 0; k < COUNT; k++)
		ASSERT_EQ(1, seen[k]);
	EXPECT_EQ(0, htw_timers(self->fd));
}

struct changer {
	int fd;
	__u64 foreign;		/* cookie of the other thread's timers */
	volatile bool stop;
	__u64 changes;
	__u64 lost;
};

static void *change(void *arg)
{
	struct changer *c = arg;
	__u64 ids[512] = { 0 }, random = 4711, i;

	htw_pin(htw_other_cpu());
	while (!c->stop) {
		i = xorshift64(&random) % ARRAY_SIZE(ids);
		if (ids[i])
			c->lost += htw_stop(c->fd, ids[i]) != 0;
		ids[i] = htw_start(c->fd, random % HOUR + HOUR, c->foreign);
		c->changes++;
	}
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		if (ids[i])
			c->lost += htw_stop(c->fd, ids[i]) != 0;
	return NULL;
}

/* Timers that stay pending are listed once, whatever other threads do. */
HTW_TEST(while_another_thread_adds_and_cancels)
{
	enum { COUNT = 3000 };
	struct changer c = { .fd = self->fd, .foreign = ~0ULL };
	unsigned char seen[COUNT];
	pthread_t thread;
	int round, k;

	NEEDS(HTW_FEATURE_ALL);
	/* Leave slots between them for the other thread to use. */
	for (k = 0; k < COUNT; k++) {
		__u64 id = htw_start(self->fd, ~0ULL, ~0ULL);

		ASSERT_NE(0, htw_start(self->fd, ~0ULL, k));
		if (k % 3)
			ASSERT_EQ(0, htw_stop(self->fd, id));
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, change, &c));
	for (round = 0; round < 100; round++) {
		memset(seen, 0, sizeof(seen));
		EXPECT_LE(COUNT, count_listed(self->fd, HTW_LIST, 1 + round * 7, seen, COUNT));
		for (k = 0; k < COUNT; k++)
			ASSERT_EQ(1, seen[k]);
	}
	c.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, c.lost);
	EXPECT_LT(0, c.changes);
}

struct mover {
	int fd;
	const __u64 *ids;
	__u64 count;
	volatile bool stop;
	int wrong;
};

static void *move_about(void *arg)
{
	struct mover *m = arg;
	__u64 random = 4711;

	htw_pin(htw_other_cpu());
	while (!m->stop)
		if (htw_move(m->fd, m->ids[xorshift64(&random) % m->count],
			     HOUR + random % HOUR, 0))
			m->wrong++;
	return NULL;
}

/* A timer that is moved repeatedly stays pending and is listed once. */
HTW_TEST(while_another_thread_moves)
{
	enum { COUNT = 1000 };
	static __u64 ids[COUNT];
	struct mover m = { .fd = self->fd, .ids = ids, .count = COUNT };
	unsigned char seen[COUNT];
	pthread_t thread;
	int round, k;

	NEEDS(HTW_FEATURE_ALL | HTW_FEATURE_MOD);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	ASSERT_EQ(0, pthread_create(&thread, NULL, move_about, &m));
	for (round = 0; round < 200; round++) {
		memset(seen, 0, sizeof(seen));
		EXPECT_EQ(COUNT, count_listed(self->fd, HTW_LIST, 100, seen, COUNT));
		for (k = 0; k < COUNT; k++)
			ASSERT_EQ(1, seen[k]);
	}
	m.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, m.wrong);
}

/* Each timer is harvested, read or cancelled, exactly once. */
HTW_TEST(harvest_against_expiry_and_cancel)
{
	enum { COUNT = 5000 };
	static unsigned char seen[COUNT];
	struct changer c = { .fd = self->fd, .foreign = ~0ULL };
	struct htw_event ev[64];
	pthread_t thread;
	__u64 left;
	int k, n;

	NEEDS(HTW_FEATURE_ALL);
	for (k = 0; k < COUNT; k++)
		ASSERT_NE(0, htw_start(self->fd, 300 * MSEC + k * 200 * USEC, k));
	ASSERT_EQ(0, pthread_create(&thread, NULL, change, &c));
	sleep_until(now_ns() + 200 * MSEC);
	while (htw_timers(self->fd) > COUNT / 2) {
		n = htw_read(self->fd, ev, ARRAY_SIZE(ev));
		for (k = 0; k < n; k++)
			seen[ev[k].cookie]++;
	}
	c.stop = true;
	count_listed(self->fd, HTW_HARVEST, 50, seen, COUNT);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	/*
	 * Timers that the other thread could not cancel were harvested, and the
	 * reverse.
	 */
	count_listed(self->fd, HTW_HARVEST, 50, seen, COUNT);
	while ((n = htw_read(self->fd, ev, ARRAY_SIZE(ev))) > 0)
		for (k = 0; k < n; k++)
			seen[ev[k].cookie]++;
	left = htw_timers(self->fd);
	EXPECT_EQ(0, left);
	for (k = 0; k < COUNT; k++)
		ASSERT_EQ(1, seen[k]);
}

HTW_TEST(harvest_with_an_array_that_cannot_be_written)
{
	enum { COUNT = 500, ROOM = 130 };
	const __u64 deadline = now_ns() + 3600 * SEC;
	struct htw_query *entries = htw_before_page(ROOM * sizeof(*entries), PROT_READ);
	static unsigned char seen[COUNT];
	struct htw_query before[3];
	struct htw_list list;
	__u64 ids[COUNT];
	int i;

	NEEDS(HTW_FEATURE_ALL | HTW_FEATURE_MOD);
	ASSERT_NE(NULL, entries);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, deadline, 0, COUNT, ids));
	for (i = 0; i < 3; i++)
		before[i] = htw_query(self->fd, ids[i * 200]);

	/* No entry can be written. */
	list = htw_list_of((void *)((char *)entries + ROOM * sizeof(*entries)), COUNT);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_HARVEST, &list));
	EXPECT_EQ(POISON32, list.done);
	EXPECT_EQ(0, list.cursor);
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, ids[i]).state);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(before[i].deadline, htw_query(self->fd, ids[i * 200]).deadline);
		EXPECT_EQ(before[i].cookie, htw_query(self->fd, ids[i * 200]).cookie);
	}

	/* Some entries can be written. */
	list = htw_list_of(entries, COUNT);
	EXPECT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
	EXPECT_EQ(ROOM, list.done);
	EXPECT_EQ(COUNT - ROOM, htw_timers(self->fd));
	for (i = 0; i < ROOM; i++) {
		EXPECT_EQ(HTW_STATE_PENDING, entries[i].state);
		EXPECT_EQ(deadline, entries[i].deadline);
		EXPECT_LT(0, entries[i].remaining);
		EXPECT_EQ(-ENOENT, htw_stop(self->fd, entries[i].id));
		seen[entries[i].cookie]++;
	}
	/* Continue from the cursor. */
	entries = calloc(COUNT, sizeof(*entries));
	list.entries = (uintptr_t)entries;
	EXPECT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
	EXPECT_EQ(COUNT - ROOM, list.done);
	for (i = 0; i < (int)list.done; i++)
		seen[entries[i].cookie]++;
	for (i = 0; i < COUNT; i++)
		EXPECT_EQ(1, seen[i]);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Timers that stay armed then expire in time, once. */
HTW_TEST(what_could_not_be_harvested_still_expires)
{
	struct htw_event ev[8];
	__u64 deadline = now_ns() + 200 * MSEC;
	struct htw_list list;
	int i;

	NEEDS(HTW_FEATURE_ALL);
	for (i = 0; i < 5; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, deadline, i));
	for (i = 0; i < 100; i++) {
		list = htw_list_of(NULL, 5);
		EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_HARVEST, &list));
	}
	ASSERT_EQ(5, htw_collect(self->fd, ev, 5));
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(i, ev[i].cookie);
		EXPECT_EQ(deadline, ev[i].deadline);
		EXPECT_NOT_EARLY(&ev[i]);
	}
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

struct harvester {
	int fd;
	volatile bool stop;
	__u64 calls;
	int wrong;
};

static void *harvest_nothing(void *arg)
{
	struct harvester *h = arg;
	struct htw_list list;

	htw_pin(htw_other_cpu());
	while (!h->stop) {
		list = htw_list_of(NULL, 64);
		if (list_some(h->fd, HTW_HARVEST, &list) != -EFAULT)
			h->wrong = 1;
		h->calls++;
	}
	return NULL;
}

/* A harvest that fails takes no timer out of any other call's sight. */
HTW_TEST(harvest_that_fails_is_not_seen)
{
	enum { COUNT = 40 };
	struct harvester h = { .fd = self->fd };
	unsigned char seen[COUNT];
	__u64 ids[COUNT], moves = 0, gone = 0, missing = 0, end;
	pthread_t thread;
	int k;

	NEEDS(HTW_FEATURE_ALL | HTW_FEATURE_MOD);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, ~0ULL, 0, COUNT, ids));
	ASSERT_EQ(0, pthread_create(&thread, NULL, harvest_nothing, &h));
	for (end = now_ns() + 3 * SEC; now_ns() < end;) {
		for (k = 0; k < COUNT; k++, moves++)
			gone += htw_move(self->fd, ids[k], HOUR, 0) != 0;
		memset(seen, 0, sizeof(seen));
		missing += count_listed(self->fd, HTW_LIST, COUNT, seen, COUNT) != COUNT;
	}
	h.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	TH_LOG("%llu harvests, %llu moves", h.calls, moves);
	EXPECT_EQ(0, h.wrong);
	EXPECT_EQ(0, gone);
	EXPECT_EQ(0, missing);
	EXPECT_EQ(COUNT, htw_timers(self->fd));
}

HTW_TEST(cancel_all)
{
	enum { COUNT = 20000 };
	struct htw_cancel_all all = { .count = POISON };
	struct htw_event ev[4];

	NEEDS(HTW_FEATURE_ALL);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, now_ns() + HOUR, 0, COUNT, NULL));
	htw_start(self->fd, 0, 1);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	EXPECT_EQ(COUNT, all.count);
	EXPECT_EQ(1, htw_timers(self->fd));
	ASSERT_EQ(1, htw_read(self->fd, ev, 4));
	EXPECT_EQ(0, ev[0].flags);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

/*
 * Each of the other thread's timers is stopped by its HTW_CANCEL or by
 * HTW_CANCEL_ALL.
 */
HTW_TEST(cancel_all_against_add_and_cancel)
{
	struct changer c = { .fd = self->fd, .foreign = 1 };
	struct htw_cancel_all all = { 0 };
	pthread_t thread;
	__u64 count = 0;
	int i;

	NEEDS(HTW_FEATURE_ALL);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change, &c));
	for (i = 0; i < 2000; i++) {
		ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
		count += all.count;
	}
	c.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	/* Each failed HTW_CANCEL matches a timer stopped here; ids are not reused. */
	EXPECT_EQ(c.lost, count + all.count);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * A process that hands its timers over is killed; its successor lists them,
 * reads those that expire and harvests the rest.
 */
HTW_TEST(handed_over)
{
	enum { COUNT = 1000 };
	static unsigned char seen[COUNT];
	struct htw_event ev[64];
	int pair[2], fd, status, n, k, got;
	__u64 deadline = now_ns() + 2 * SEC;
	pid_t pid;

	NEEDS(HTW_FEATURE_ALL);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		bool sent;

		fd = htw_open(O_NONBLOCK);
		sent = htw_start_many(fd, deadline, 0, COUNT / 2, NULL) == COUNT / 2 &&
		       htw_start_many(fd, deadline + HOUR, COUNT / 2, COUNT / 2, NULL) ==
			       COUNT / 2 &&
		       htw_send_fd(pair[0], fd);
		if (sent)
			pause();
		_exit(1);
	}
	fd = htw_receive_fd(pair[1]);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_LE(0, fd);

	EXPECT_EQ(COUNT, htw_timers(fd));
	if (now_ns() < deadline)
		EXPECT_LT(0, count_listed(fd, HTW_LIST, 128, seen, COUNT));
	memset(seen, 0, sizeof(seen));
	for (got = 0; got < COUNT / 2; got += n) {
		ASSERT_TRUE(htw_wait_readable(fd));
		n = htw_read(fd, ev, ARRAY_SIZE(ev));
		ASSERT_LT(0, n);
		for (k = 0; k < n; k++) {
			EXPECT_NOT_EARLY(&ev[k]);
			seen[ev[k].cookie]++;
		}
	}
	EXPECT_EQ(COUNT / 2, count_listed(fd, HTW_HARVEST, 128, seen, COUNT));
	for (k = 0; k < COUNT; k++)
		EXPECT_EQ(1, seen[k]);
	EXPECT_EQ(0, htw_timers(fd));
	close(fd);
}

TEST_HARNESS_MAIN
