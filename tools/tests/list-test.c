// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_LIST, HTW_HARVEST and HTW_CANCEL_ALL, while other threads add and cancel,
 * and when a process hands its timers over
 */
#include "htw-test.h"
#include "../common/pass-fd.h"

#include <pthread.h>

/* Issue the call again if a signal interrupts it. */
static int list_some(int fd, unsigned long cmd, struct htw_list_args *list)
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
	struct htw_timer_info *entries = calloc(room, sizeof(*entries));
	struct htw_list_args list = htw_list_of(entries, room);
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

/*
 * Start @each timers in each state, in turns on two CPUs, so that neighbours are
 * of different wheels. Cookies count up: of the kept ones, which are disarmed,
 * then of those that are due, then of pending ones.
 */
static bool start_in_each_state(int fd, __u64 each)
{
	struct htw_add_args add;
	struct htw_event ev;
	__u64 i;

	for (i = 0; i < 3 * each; i++) {
		htw_pin(i % 2 ? htw_other_cpu() : 0);
		add = htw_rel(i < 2 * each ? 0 : HOUR, i);
		if (i < each)
			add.flags |= HTW_F_KEEP;
		if (!htw_start_as(fd, add))
			return false;
		if (i < each && htw_collect(fd, &ev, 1) != 1)
			return false;
	}
	htw_pin(0);
	return htw_eventually(htw_due(fd) == each);
}

/* Count how many timers in some states a call returns, and whether these are from @first on. */
static __u64 count_in_states(int fd, unsigned long cmd, __u32 flags, __u64 first, __u64 each)
{
	struct htw_timer_info entries[64];
	struct htw_list_args list = htw_list_of(entries, 64);
	__u64 n = 0;

	list.flags = flags;
	while (!list_some(fd, cmd, &list) && list.done)
		for (__u32 i = 0; i < list.done; i++)
			n += entries[i].cookie >= first && entries[i].cookie < first + each;
	return n;
}

HTW_TEST(states)
{
	enum { EACH = 500 };
	const __u32 flags[] = { HTW_LIST_DISARMED, HTW_LIST_DUE, HTW_LIST_PENDING };
	unsigned char seen[3 * EACH];
	int i;

	ASSERT_TRUE(start_in_each_state(self->fd, EACH));
	memset(seen, 0, sizeof(seen));
	EXPECT_EQ(3 * EACH, count_listed(self->fd, HTW_LIST, 7, seen, 3 * EACH));
	for (i = 0; i < 3 * EACH; i++)
		ASSERT_EQ(1, seen[i]);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(EACH, count_in_states(self->fd, HTW_LIST, flags[i], i * EACH, EACH));
		EXPECT_EQ(0, count_in_states(self->fd, HTW_LIST, flags[i], (i + 1) % 3 * EACH,
					     EACH));
	}
	/* A harvest ends those alone that it is for. */
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(EACH, count_in_states(self->fd, HTW_HARVEST, flags[i], i * EACH, EACH));
		EXPECT_EQ((__u64)(2 - i) * EACH, htw_timers(self->fd));
		EXPECT_EQ(i ? 0 : EACH, htw_due(self->fd));
	}
}

HTW_TEST(cursors)
{
	struct htw_timer_info entry;
	struct htw_list_args list = htw_list_of(&entry, 1);

	/* Of a context that has had no timer. */
	EXPECT_EQ(0, htw_call(self->fd, HTW_LIST, &list));
	EXPECT_EQ(0, list.done);
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	list = htw_list_of(&entry, 0);
	EXPECT_EQ(0, htw_call(self->fd, HTW_LIST, &list));
	EXPECT_EQ(0, list.done);
	/* No call leaves one like that. */
	list = htw_list_of(&entry, 1);
	list.cursor = 1ULL << 32;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_LIST, &list));
	list.cursor = ~0ULL;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_HARVEST, &list));
	/* Behind the last timer. */
	list.cursor = ~0U;
	EXPECT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
	EXPECT_EQ(0, list.done);
	EXPECT_EQ(1, htw_timers(self->fd));
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
	if (!c.changes && __test_passed(_metadata))
		SKIP(return, "raced with nothing: the other thread did not run");
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
	struct htw_timer_info *entries = htw_before_page(ROOM * sizeof(*entries), PROT_READ);
	static unsigned char seen[COUNT];
	struct htw_timer_info before[3];
	struct htw_list_args list;
	__u64 ids[COUNT];
	int i;

	ASSERT_NE(NULL, entries);
	ASSERT_EQ(COUNT, htw_start_many(self->fd, deadline, 0, COUNT, ids));
	for (i = 0; i < 3; i++)
		before[i] = htw_query(self->fd, ids[i * 200]);

	/* No entry can be written. */
	list = htw_list_of((void *)((char *)entries + ROOM * sizeof(*entries)), COUNT);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_HARVEST, &list));
	EXPECT_EQ(0, list.done);
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
	struct htw_list_args list;
	int i;

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
	struct htw_list_args list;

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

HTW_TEST(cancel_all_in_any_state)
{
	enum { EACH = 500 };
	struct htw_cancel_all_args all = { .count = POISON };

	ASSERT_TRUE(start_in_each_state(self->fd, EACH));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	EXPECT_EQ(3 * EACH, all.count);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

HTW_TEST(cancel_all)
{
	enum { COUNT = 20000 };
	struct htw_cancel_all_args all = { .count = POISON };
	struct htw_event ev[4];

	ASSERT_EQ(COUNT, htw_start_many(self->fd, now_ns() + HOUR, 0, COUNT, NULL));
	htw_start(self->fd, 0, 1);
	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	EXPECT_EQ(COUNT + 1, all.count);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 4));
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
	struct htw_cancel_all_args all = { 0 };
	pthread_t thread;
	__u64 count = 0;
	int i;

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
