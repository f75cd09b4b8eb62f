// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mapped deadline table: a store moves or disarms a timer; the kernel reads
 * the entry once, when the old deadline comes
 */
#include "htw-ring.h"

#include <pthread.h>

struct table {
	volatile __u64 *words;
	size_t size;
};

static size_t table_size(__u64 timers)
{
	__u64 pages = (timers + 62) / 63;

	return (pages * 512 + PAGE - 1) & -PAGE;
}

static bool table_map(struct table *t, int fd, size_t size)
{
	long p = ring_mmap(fd, size, MAP_SHARED, HTW_OFF_TABLE);

	*t = (struct table){ (volatile __u64 *)p, size };
	return !(p < 0 && p > -4096);
}

#define WORD(t, id) ((t).words[HTW_ID_SLOT(id)])

/* Open a table for @timers timers on the manual clock. */
#define TABLE(t, timers)						\
	struct table t;							\
									\
	NEEDS(HTW_FEATURE_TABLE | HTW_FEATURE_MANUAL);			\
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));	\
	ASSERT_TRUE(table_map(&(t), self->fd, table_size(timers)))

/* Exactly one event comes: this id, with this deadline. */
static bool just_event(int fd, __u64 id, __u64 deadline)
{
	struct htw_event ev[2];

	return htw_read(fd, ev, 2) == 1 && ev[0].id == id && ev[0].deadline == deadline &&
	       ev[0].fired >= deadline && htw_read(fd, ev, 2) == -EAGAIN;
}

static bool is_sigbus(const volatile __u64 *word)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		(void)*word;
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGBUS;
}

HTW_TEST(mmap_what_is_there)
{
	const size_t all = table_size(self->limit);
	struct table t;
	int fd;

	NEEDS(HTW_FEATURE_TABLE | HTW_FEATURE_SETUP);
	EXPECT_EQ(-EINVAL, ring_mmap(self->fd, all + PAGE, MAP_SHARED, HTW_OFF_TABLE));
	EXPECT_EQ(-EINVAL, ring_mmap(self->fd, PAGE, MAP_PRIVATE, HTW_OFF_TABLE));
	EXPECT_EQ(-EINVAL, ring_mmap(self->fd, PAGE, MAP_SHARED, HTW_OFF_TABLE + PAGE));
	EXPECT_EQ(-EINVAL, ring_mmap(self->fd, PAGE, MAP_SHARED, HTW_OFF_TABLE - PAGE));
	ASSERT_TRUE(table_map(&t, self->fd, all));
	munmap((void *)t.words, all);
	ASSERT_TRUE(table_map(&t, self->fd, PAGE));
	EXPECT_EQ(MAP_FAILED, mremap((void *)t.words, PAGE, 2 * PAGE, MREMAP_MAYMOVE));

	/* A descriptor that is open for reading only: a monitor's. */
	fd = open(HTW_DEVICE, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ASSERT_LE(0, fd);
	ASSERT_NE(0, htw_start(fd, HOUR, 1));
	t.words = (void *)ring_mmap_read_only(fd, PAGE, HTW_OFF_TABLE);
	ASSERT_NE(NULL, t.words);
	EXPECT_EQ(0, t.words[1]);
	munmap((void *)t.words, PAGE);
	close(fd);

	/* The table is no longer than the limit needs. */
	fd = htw_open(O_NONBLOCK);
	ASSERT_EQ(0, htw_set_up(fd, (struct htw_setup){
		.flags = HTW_SETUP_LIMIT, .limit = 8 * 63 + 1 }));
	EXPECT_EQ(-EINVAL, ring_mmap(fd, 3 * PAGE, MAP_SHARED, HTW_OFF_TABLE));
	EXPECT_TRUE(table_map(&t, fd, 2 * PAGE));
	close(fd);
}

/* The table has pages for the timers that exist; they are allocated with the timers. */
HTW_TEST(grows_with_the_timers)
{
	__u64 ids[2000];
	unsigned int i;

	TABLE(t, 4000);
	EXPECT_TRUE(is_sigbus(&t.words[1]));
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = htw_start_abs(self->fd, 100 * self->tick, i);
		ASSERT_NE(0, ids[i]);
		ASSERT_EQ(0, WORD(t, ids[i]));
		if (i % 2)
			WORD(t, ids[i]) = 200 * self->tick;
	}
	EXPECT_FALSE(is_sigbus(&WORD(t, ids[1999])));
	EXPECT_TRUE(is_sigbus(&t.words[t.size / 8 - 1]));
	EXPECT_EQ(1000, htw_advance(self->fd, 199 * self->tick, HTW_F_ABS));
	EXPECT_EQ(1000, htw_advance(self->fd, 200 * self->tick, HTW_F_ABS));
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		struct htw_event ev;

		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
		EXPECT_EQ((i >= 1000 ? 200 : 100) * self->tick, ev.deadline);
		EXPECT_EQ(i >= 1000, ev.cookie % 2);
	}
}

/* Timers that were there before have entries, too. */
HTW_TEST(mapped_late)
{
	__u64 ids[700];
	struct table t;
	unsigned int i;

	NEEDS(HTW_FEATURE_TABLE | HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		ids[i] = htw_start_abs(self->fd, 10 * self->tick, i);
	ASSERT_TRUE(table_map(&t, self->fd, table_size(700)));
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		EXPECT_EQ(0, WORD(t, ids[i]));
		WORD(t, ids[i]) = HTW_DISARMED;
	}
	WORD(t, ids[345]) = 20 * self->tick;
	EXPECT_EQ(0, htw_advance(self->fd, 19 * self->tick, 0));
	EXPECT_EQ(1, htw_advance(self->fd, self->tick, 0));
	EXPECT_TRUE(just_event(self->fd, ids[345], 20 * self->tick));
	/* All are kept: slots with a mapped entry are not reused. */
	EXPECT_EQ(700, htw_timers(self->fd));
	EXPECT_EQ(0, htw_stop(self->fd, ids[345]));
	EXPECT_EQ(699, htw_timers(self->fd));
}

HTW_TEST(later)
{
	__u64 id, now = 0, ticks;

	TABLE(t, 10);
	for (ticks = 11; ticks < 1ULL << 34; ticks = 2 * ticks + 3) {
		const __u64 whole = now + ticks * self->tick;

		id = htw_start_abs(self->fd, now + 10 * self->tick, 1);
		WORD(t, id) = whole + 1;
		EXPECT_EQ(0, htw_advance(self->fd, now + 10 * self->tick, HTW_F_ABS));
		EXPECT_EQ(0, htw_poll(self->fd, 0));
		EXPECT_EQ(0, htw_advance(self->fd, whole, HTW_F_ABS));
		now = whole + self->tick;
		EXPECT_EQ(1, htw_advance(self->fd, now, HTW_F_ABS));
		EXPECT_TRUE(just_event(self->fd, id, whole + 1));
		EXPECT_EQ(0, htw_stop(self->fd, id));
	}
}

/* Repeatedly, and always in time, as a busy connection does. */
HTW_TEST(later_over_and_over)
{
	__u64 id, now = 0;
	int i;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	for (i = 0; i < 2000; i++) {
		WORD(t, id) = now + SEC;
		now += SEC / 7;
		ASSERT_EQ(0, htw_advance(self->fd, now, HTW_F_ABS));
	}
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_TRUE(just_event(self->fd, id, now - SEC / 7 + SEC));
}

HTW_TEST(disarmed)
{
	__u64 id;
	int i;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	for (i = 1; i < 10; i++) {
		WORD(t, id) = HTW_DISARMED;
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
		EXPECT_EQ(0, htw_query(self->fd, id).remaining);
		EXPECT_EQ(0, htw_advance(self->fd, HOUR, 0));
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
		EXPECT_EQ(0, htw_poll(self->fd, 0));
		EXPECT_EQ(1, htw_timers(self->fd));
		/* A store does not arm the timer again. */
		WORD(t, id) = i * HOUR + SEC;
		EXPECT_EQ(0, htw_advance(self->fd, 2 * SEC, 0));
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
		ASSERT_EQ(0, htw_move(self->fd, id, i * HOUR + MSEC, HTW_F_ABS));
		EXPECT_EQ(0, WORD(t, id));
		ASSERT_EQ(0, htw_move(self->fd, id, i * HOUR + HOUR, HTW_F_ABS));
	}
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

/* Disarmed and armed again before the kernel reads the entry. */
HTW_TEST(disarmed_for_a_while)
{
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = HTW_DISARMED;
	EXPECT_EQ(0, htw_advance(self->fd, SEC / 2, 0));
	WORD(t, id) = 0;
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
	EXPECT_EQ(1, htw_advance(self->fd, SEC / 2, 0));
	EXPECT_TRUE(just_event(self->fd, id, SEC));
}

/* An earlier deadline takes effect at the old one, and is the one that is reported. */
HTW_TEST(earlier)
{
	const __u64 words[] = { 1, SEC / 2, SEC - 1, SEC };
	unsigned int i;
	__u64 id;

	TABLE(t, 10);
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		id = htw_start_abs(self->fd, i * HOUR + SEC, 1);
		WORD(t, id) = words[i];
		EXPECT_EQ(0, htw_advance(self->fd, i * HOUR + SEC - 1, HTW_F_ABS));
		EXPECT_EQ(1, htw_advance(self->fd, i * HOUR + SEC, HTW_F_ABS));
		EXPECT_TRUE(just_event(self->fd, id, i * HOUR + SEC));
		htw_advance(self->fd, (i + 1) * HOUR, HTW_F_ABS);
		htw_stop(self->fd, id);
	}
}

/*
 * Moved later, but due when the kernel reads the entry: it expires with that
 * deadline.
 */
HTW_TEST(later_and_past)
{
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = 5 * SEC;
	EXPECT_EQ(1, htw_advance(self->fd, 5 * SEC, HTW_F_ABS));
	EXPECT_TRUE(just_event(self->fd, id, 5 * SEC));
}

HTW_TEST(never)
{
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = HTW_DISARMED - 1;
	EXPECT_EQ(0, htw_advance(self->fd, 1000 * 8766 * HOUR / 24, 0));
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
	EXPECT_EQ(HTW_DISARMED - 1, htw_query(self->fd, id).deadline);
	EXPECT_EQ(0, htw_stop(self->fd, id));
	/* U64_MAX as the deadline of an add means never, not disarmed. */
	id = htw_start_abs(self->fd, ~0ULL, 1);
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, id).state);
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

/* After the expiration exactly one event follows, whatever is stored. */
HTW_TEST(too_late)
{
	struct htw_event ev;
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	WORD(t, id) = 2 * SEC;
	EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, id).state);
	EXPECT_EQ(SEC, htw_query(self->fd, id).deadline);
	EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);
	EXPECT_EQ(SEC, ev.deadline);
	WORD(t, id) = 3 * SEC;
	EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
	EXPECT_EQ(0, htw_move(self->fd, id, 4 * SEC, HTW_F_ABS));
	EXPECT_EQ(0, WORD(t, id));
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_TRUE(just_event(self->fd, id, 4 * SEC));
	EXPECT_EQ(0, htw_stop(self->fd, id));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, id));
	EXPECT_EQ(0, htw_timers(self->fd));
}

static int unread(int fd, const struct htw_event *ev)
{
	struct htw_mod mod = {
		.id = ev->id, .deadline = ev->deadline, .firings = ev->missed + 1,
		.flags = HTW_MOD_UNREAD,
	};

	return htw_call(fd, HTW_MOD, &mod);
}

/* HTW_MOD_UNREAD: as if the entry had been there in time. */
HTW_TEST(taken_back)
{
	struct htw_event ev;
	__u64 id;

	NEEDS(HTW_FEATURE_UNREAD);
	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	/* Nothing stored, an earlier deadline, the same one. */
	EXPECT_EQ(-EALREADY, unread(self->fd, &ev));
	WORD(t, id) = SEC / 2;
	EXPECT_EQ(-EALREADY, unread(self->fd, &ev));
	WORD(t, id) = SEC;
	EXPECT_EQ(-EALREADY, unread(self->fd, &ev));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
	/* The entry stays, so that a later store is seen as well. */
	WORD(t, id) = 3 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(3 * SEC, WORD(t, id));
	EXPECT_EQ(3 * SEC, htw_query(self->fd, id).deadline);
	WORD(t, id) = 4 * SEC;
	EXPECT_EQ(0, htw_advance(self->fd, 3 * SEC, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 4 * SEC, HTW_F_ABS));
	EXPECT_TRUE(just_event(self->fd, id, 4 * SEC));

	/* Disarmed; and a deadline that has come meanwhile. */
	ev.deadline = 4 * SEC;
	WORD(t, id) = HTW_DISARMED;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(0, htw_advance(self->fd, 10 * SEC, HTW_F_ABS));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
	WORD(t, id) = 5 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_TRUE(just_event(self->fd, id, 5 * SEC));
	EXPECT_EQ(0, htw_stop(self->fd, id));
	EXPECT_EQ(-ENOENT, unread(self->fd, &ev));
}

/* An entry that the timer has expired at since does not arm it once more. */
HTW_TEST(not_taken_back_twice)
{
	struct htw_event ev, later;
	struct htw_add add;

	NEEDS(HTW_FEATURE_UNREAD);
	TABLE(t, 10);
	/* A periodic timer, with the later event unread and read. */
	add = htw_abs(10 * SEC, 1);
	add.interval = 10 * SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, 10 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	WORD(t, add.id) = 25 * SEC;
	EXPECT_EQ(1, htw_advance(self->fd, 25 * SEC, HTW_F_ABS));
	EXPECT_EQ(-EALREADY, unread(self->fd, &ev));
	EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, add.id).state);
	ASSERT_EQ(1, htw_read(self->fd, &later, 1));
	EXPECT_EQ(25 * SEC, later.deadline);
	EXPECT_EQ(-EALREADY, unread(self->fd, &ev));
	EXPECT_EQ(35 * SEC, htw_query(self->fd, add.id).deadline);
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	/* While the entry is to come, more than one event can be taken back. */
	WORD(t, add.id) = 40 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(0, unread(self->fd, &later));
	EXPECT_EQ(40 * SEC, htw_query(self->fd, add.id).deadline);
	EXPECT_EQ(0, htw_stop(self->fd, add.id));

	/* A one-shot timer. */
	add = htw_abs(26 * SEC, 2);
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, 26 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	WORD(t, add.id) = 27 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(1, htw_advance(self->fd, 27 * SEC, HTW_F_ABS));
	EXPECT_TRUE(just_event(self->fd, add.id, 27 * SEC));
	EXPECT_EQ(-EALREADY, unread(self->fd, &ev));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
}

/* A periodic timer that its entry disarms is disarmed, though it was armed when it was read. */
HTW_TEST(taken_back_and_disarmed)
{
	struct htw_event ev;
	struct htw_add add;
	unsigned int unread_too;

	NEEDS(HTW_FEATURE_UNREAD);
	TABLE(t, 10);
	add = htw_abs(10 * SEC, 1);
	add.interval = 10 * SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (unread_too = 0; unread_too < 2; unread_too++) {
		EXPECT_EQ(0, htw_move(self->fd, add.id, 10 * SEC, 0));
		EXPECT_EQ(1, htw_advance(self->fd, 10 * SEC, 0));
		ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
		EXPECT_EQ(unread_too, htw_advance(self->fd, unread_too * 10 * SEC, 0));
		WORD(t, add.id) = HTW_DISARMED;
		EXPECT_EQ(0, unread(self->fd, &ev));
		EXPECT_EQ(0, htw_poll(self->fd, 0));
		/* A store has no effect until HTW_MOD arms it. */
		WORD(t, add.id) = ev.deadline + 15 * SEC;
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
		EXPECT_EQ(10 * SEC, htw_query(self->fd, add.id).interval);
		EXPECT_EQ(0, htw_advance(self->fd, 100 * SEC, 0));
	}
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* The firings of an event that is taken back are given back. */
HTW_TEST(taken_back_with_its_firings)
{
	struct htw_event ev;
	struct htw_add add;

	NEEDS(HTW_FEATURE_UNREAD);
	TABLE(t, 10);
	add = htw_abs(10 * SEC, 1);
	add.interval = 10 * SEC;
	add.firings = 4;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, 25 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(1, ev.missed);
	EXPECT_EQ(2, htw_query(self->fd, add.id).firings);
	WORD(t, add.id) = 27 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(4, htw_query(self->fd, add.id).firings);
	EXPECT_EQ(27 * SEC, htw_query(self->fd, add.id).deadline);
	EXPECT_EQ(10 * SEC, htw_query(self->fd, add.id).interval);
	EXPECT_EQ(1, htw_advance(self->fd, 28 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(27 * SEC, ev.deadline);

	/* Expired again, unread: that expiration is withdrawn as well. */
	EXPECT_EQ(1, htw_advance(self->fd, 38 * SEC, HTW_F_ABS));
	WORD(t, add.id) = 50 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(4, htw_query(self->fd, add.id).firings);
	EXPECT_EQ(0, htw_info(self->fd).expired);
	EXPECT_EQ(1, htw_advance(self->fd, 90 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(3, ev.missed);
	EXPECT_EQ(HTW_EVENT_MORE, ev.flags);

	/* After the last firing it is a one-shot timer, and now periodic again. */
	EXPECT_EQ(0, htw_query(self->fd, add.id).interval);
	WORD(t, add.id) = 100 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(4, htw_query(self->fd, add.id).firings);
	EXPECT_EQ(10 * SEC, htw_query(self->fd, add.id).interval);
	EXPECT_EQ(1, htw_advance(self->fd, 200 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(100 * SEC, ev.deadline);
	EXPECT_EQ(3, ev.missed);
	EXPECT_EQ(0, htw_advance(self->fd, 250 * SEC, HTW_F_ABS));
	/* Armed by HTW_MOD it is a one-shot timer, whose event is one firing. */
	EXPECT_EQ(0, htw_move(self->fd, add.id, 260 * SEC, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 260 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	WORD(t, add.id) = 270 * SEC;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(0, htw_query(self->fd, add.id).interval);
	EXPECT_EQ(1, htw_advance(self->fd, 270 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));

	/* A limit near the end of its range. */
	add = htw_abs(300 * SEC, 1);
	add.interval = 10 * SEC;
	add.firings = ~0U;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, 300 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	WORD(t, add.id) = 400 * SEC;
	ev.missed = 100;
	EXPECT_EQ(0, unread(self->fd, &ev));
	EXPECT_EQ(~0U, htw_query(self->fd, add.id).firings);
}

/* What was stopped has ended, and its last event stands. */
HTW_TEST(not_taken_back)
{
	struct htw_mod mod = { .flags = HTW_MOD_UNREAD, .firings = 1, .deadline = 10 * SEC };
	struct htw_vector v = {
		.op = HTW_OP_MOD,
		.flags = HTW_MOD_UNREAD,
		.firings = 1,
		.count = 1,
	};
	struct htw_event ev;
	struct htw_add add;

	NEEDS(HTW_FEATURE_UNREAD);
	TABLE(t, 10);
	add = htw_abs(10 * SEC, 1);
	add.interval = 10 * SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	EXPECT_EQ(1, htw_advance(self->fd, 10 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(1, htw_advance(self->fd, 20 * SEC, HTW_F_ABS));
	EXPECT_EQ(-EALREADY, htw_stop(self->fd, add.id));
	WORD(t, add.id) = 50 * SEC;
	EXPECT_EQ(-ENOENT, unread(self->fd, &ev));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(20 * SEC, ev.deadline);
	EXPECT_EQ(0, ev.flags);
	EXPECT_EQ(0, htw_timers(self->fd));

	mod.id = add.id;
	EXPECT_EQ(-ENOENT, htw_call(self->fd, HTW_MOD, &mod));
	mod.firings = 0;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_MOD, &mod));
	mod.firings = 1;
	mod.cookie = 1;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_MOD, &mod));
	mod.cookie = 0;
	mod.flags |= HTW_MOD_DEADLINE;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_MOD, &mod));
	v.ids = (__u64)(unsigned long)&add.id;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_VECTOR, &v));
}

/* A new timer in the slot starts with a cleared entry. */
HTW_TEST(add_begins_anew)
{
	__u64 id, slots = 0;
	int i;

	TABLE(t, 63);
	for (i = 0; i < 200; i++) {
		id = htw_start_abs(self->fd, SEC, i);
		slots |= 1ULL << HTW_ID_SLOT(id);
		ASSERT_EQ(0, WORD(t, id));
		WORD(t, id) = HTW_DISARMED;
		ASSERT_EQ(0, htw_stop(self->fd, id));
	}
	EXPECT_NE(0, slots);
	for (i = 0; i < 63; i++)
		ASSERT_NE(0, htw_start_abs(self->fd, SEC, i));
	EXPECT_EQ(63, htw_advance(self->fd, SEC, 0));
}

/* HTW_MOD of other fields does not change the entry. */
HTW_TEST(mod_of_the_cookie)
{
	struct htw_event ev;
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = 2 * SEC;
	ASSERT_EQ(0, htw_mod(self->fd, (struct htw_mod){
		.id = id, .cookie = 9, .flags = HTW_MOD_COOKIE }));
	EXPECT_EQ(2 * SEC, WORD(t, id));
	EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(9, ev.cookie);
}

/* A batch holds one base's lock; a timer on another base takes the slow path. */
HTW_TEST(batches)
{
	struct htw_op ops[8];
	unsigned int i;

	TABLE(t, 10);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = htw_op_add(SEC, i);
	ASSERT_EQ(0, htw_batch_all(self->fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		const __u64 id = ops[i].add.id;

		WORD(t, id) = i % 2 ? HTW_DISARMED : 9 * SEC;
		ops[i] = (struct htw_op){
			.op = HTW_OP_MOD,
			.mod = {
				.id = id, .deadline = 2 * SEC,
				.flags = HTW_MOD_DEADLINE | HTW_F_ABS,
			},
		};
	}
	ASSERT_EQ(0, htw_batch_all(self->fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		const __u64 id = ops[i].mod.id;

		EXPECT_EQ(0, ops[i].result);
		EXPECT_EQ(0, WORD(t, id));
		EXPECT_EQ(2 * SEC, htw_query(self->fd, id).deadline);
		WORD(t, id) = i % 2 ? HTW_DISARMED : 5 * SEC;
		ops[i] = htw_op_cancel(id, 0);
	}
	ASSERT_EQ(0, htw_batch_all(self->fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		EXPECT_EQ(0, ops[i].result);
		EXPECT_EQ(i % 2 ? 0 : 5 * SEC, ops[i].cancel.remaining);
		ops[i] = htw_op_add(SEC, i);
	}
	/* Slots whose entries have been used, all in one batch. */
	ASSERT_EQ(0, htw_batch_all(self->fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		EXPECT_EQ(0, WORD(t, ops[i].add.id));
	EXPECT_EQ(ARRAY_SIZE(ops), htw_advance(self->fd, SEC, 0));
}

HTW_TEST(cancelled)
{
	struct htw_cancel cancel;
	struct htw_event ev;
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = 3 * SEC;
	cancel = htw_cancel_of(id, 0);
	EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(3 * SEC, cancel.remaining);
	EXPECT_EQ(0, htw_advance(self->fd, 10 * SEC, 0));

	id = htw_start_abs(self->fd, 11 * SEC, 1);
	WORD(t, id) = HTW_DISARMED;
	cancel = htw_cancel_of(id, 0);
	EXPECT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(0, cancel.remaining);

	/* Expired and unread: after its last event the slot is free. */
	id = htw_start_abs(self->fd, 11 * SEC, 1);
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(-EALREADY, htw_stop(self->fd, id));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(0, ev.flags);
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(periodic_moves_its_phase)
{
	struct htw_event ev;
	struct htw_add add;

	TABLE(t, 10);
	add = htw_abs(10 * SEC, 1);
	add.interval = 10 * SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	WORD(t, add.id) = 13 * SEC;
	EXPECT_EQ(0, htw_advance(self->fd, 12 * SEC, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 13 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(13 * SEC, ev.deadline);
	EXPECT_EQ(0, ev.missed);
	EXPECT_EQ(0, htw_advance(self->fd, 22 * SEC, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 23 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(23 * SEC, ev.deadline);
	/* Disarmed through the table, and armed again with all its attributes. */
	WORD(t, add.id) = HTW_DISARMED;
	EXPECT_EQ(0, htw_advance(self->fd, 50 * SEC, HTW_F_ABS));
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
	EXPECT_EQ(10 * SEC, htw_query(self->fd, add.id).interval);
	ASSERT_EQ(0, htw_move(self->fd, add.id, 51 * SEC, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, 55 * SEC, HTW_F_ABS));
	ASSERT_EQ(1, htw_read(self->fd, &ev, 1));
	EXPECT_EQ(51 * SEC, ev.deadline);
	EXPECT_EQ(61 * SEC, htw_query(self->fd, add.id).deadline);
}

/* HTW_QUERY, HTW_LIST and HTW_CANCEL report the entry's deadline. */
HTW_TEST(told)
{
	__u64 later, disarmed, plain;
	struct htw_query entries[4];
	struct htw_list list;

	TABLE(t, 10);
	NEEDS(HTW_FEATURE_ALL);
	later = htw_start_abs(self->fd, SEC, 1);
	disarmed = htw_start_abs(self->fd, SEC, 2);
	plain = htw_start_abs(self->fd, SEC, 3);
	WORD(t, later) = 7 * SEC;
	WORD(t, disarmed) = HTW_DISARMED;
	WORD(t, plain) = SEC / 2;
	EXPECT_EQ(7 * SEC, htw_query(self->fd, later).deadline);
	EXPECT_EQ(7 * SEC, htw_query(self->fd, later).remaining);
	EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, later).state);
	EXPECT_EQ(SEC, htw_query(self->fd, plain).deadline);

	/* Whether or not the kernel has read the entry makes no difference. */
	for (int i = 0; i < 2; i++) {
		list = htw_list_of(entries, 4);
		ASSERT_EQ(0, htw_call(self->fd, HTW_LIST, &list));
		ASSERT_EQ(2 - i, list.done);
		EXPECT_EQ(later, entries[0].id);
		EXPECT_EQ(7 * SEC, entries[0].deadline);
		EXPECT_EQ(i ? 6 * SEC : 7 * SEC, entries[0].remaining);
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, disarmed).state);
		EXPECT_EQ(1 - i, htw_advance(self->fd, i ? 0 : SEC, 0));
	}
	list = htw_list_of(entries, 4);
	ASSERT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
	ASSERT_EQ(1, list.done);
	EXPECT_EQ(7 * SEC, entries[0].deadline);
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, later));
	EXPECT_EQ(0, htw_stop(self->fd, disarmed));
}

HTW_TEST(with_a_ring)
{
	struct htw_event ev[4];
	struct table t;
	struct ring r;
	__u64 id;

	NEEDS(HTW_FEATURE_TABLE | HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, 4, HTW_CLOCK_MANUAL));
	ASSERT_TRUE(table_map(&t, self->fd, PAGE));
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = 2 * SEC;
	EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(0, ring_take(&r, ev, 4));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(1, ring_take(&r, ev, 4));
	EXPECT_EQ(2 * SEC, ev[0].deadline);
	EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, id).state);
	EXPECT_EQ(0, htw_move(self->fd, id, 3 * SEC, HTW_F_ABS));
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

HTW_TEST(children_store_too)
{
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	EXPECT_TRUE(htw_in_child(({ WORD(t, id) = 2 * SEC; true; })));
	EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_TRUE(just_event(self->fd, id, 2 * SEC));
}

/* Once enabled the table stays in use, mapped or not. */
HTW_TEST(unmapped)
{
	__u64 id;

	TABLE(t, 10);
	id = htw_start_abs(self->fd, SEC, 1);
	WORD(t, id) = 2 * SEC;
	munmap((void *)t.words, t.size);
	EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_TRUE(just_event(self->fd, id, 2 * SEC));
	EXPECT_EQ(1, htw_timers(self->fd));
	ASSERT_TRUE(table_map(&t, self->fd, PAGE));
	EXPECT_EQ(2 * SEC, WORD(t, id));
}

/* The mapping holds the file, and works after the descriptor is closed. */
HTW_TEST(closed_while_mapped)
{
	int fd = htw_open(O_NONBLOCK), i;
	struct table t;
	__u64 ids[100];

	NEEDS(HTW_FEATURE_TABLE);
	ASSERT_TRUE(table_map(&t, fd, PAGE));
	for (i = 0; i < 100; i++)
		ids[i] = htw_start(fd, i * MSEC, i);
	close(fd);
	for (i = 0; i < 100; i++)
		WORD(t, ids[i]) = now_ns() + i * MSEC;
	sleep_until(now_ns() + 50 * MSEC);
	munmap((void *)t.words, t.size);
}

/* Each running clock, and a private wheel: never early. */
static void real_time(struct __test_metadata *_metadata, struct htw_setup setup)
{
	const int clock = setup.flags & HTW_SETUP_CLOCK ? setup.clock : CLOCK_MONOTONIC;
	int fd = htw_open(O_NONBLOCK), i;
	struct htw_event ev;
	struct table t;
	__u64 start, id;

	ASSERT_EQ(0, htw_set_up(fd, setup));
	ASSERT_TRUE(table_map(&t, fd, PAGE));
	for (i = 0; i < 10; i++) {
		start = clock_ns(clock);
		id = htw_start_abs(fd, start + 20 * MSEC, i);
		WORD(t, id) = start + 40 * MSEC;
		if (clock_ns(clock) >= start + 20 * MSEC) {
			/* The test was stalled, and may have had either deadline expire. */
			ASSERT_EQ(1, htw_collect(fd, &ev, 1));
			EXPECT_EQ(0, htw_stop(fd, id));
			continue;
		}
		ASSERT_EQ(1, htw_collect(fd, &ev, 1));
		EXPECT_EQ(start + 40 * MSEC, ev.deadline);
		EXPECT_LE(ev.deadline, ev.fired);
		EXPECT_LE(ev.deadline, clock_ns(clock));
		EXPECT_EQ(-EAGAIN, htw_read(fd, &ev, 1));
		EXPECT_EQ(0, htw_stop(fd, id));
	}
	close(fd);
}

HTW_TEST(clocks)
{
	NEEDS(HTW_FEATURE_TABLE | HTW_FEATURE_SETUP);
	real_time(_metadata, (struct htw_setup){ 0 });
	real_time(_metadata, (struct htw_setup){
		.flags = HTW_SETUP_CLOCK, .clock = CLOCK_BOOTTIME });
	real_time(_metadata, (struct htw_setup){
		.flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME });
	real_time(_metadata, (struct htw_setup){
		.flags = HTW_SETUP_PRIVATE, .tick_ns = MSEC / 2, .levels = 2,
		.slots = { 10, 60 } });
}

/*
 * Stores race with expirations on the other CPU: a deadline stored before the
 * old one comes is honoured, one stored at about that time may be, and each
 * arming has one event.
 */
enum { RACERS = 200, ROUNDS = 30 };

struct race {
	struct table t;
	__u64 ids[RACERS];
	_Atomic __u64 certain[RACERS];	/* no event before this time */
	_Atomic bool run[RACERS];	/* stores are allowed */
	_Atomic bool stop;
	__u64 stores;
};

static void *extend(void *arg)
{
	struct race *race = arg;
	__u64 seed = 5;

	htw_pin(htw_other_cpu());
	while (!race->stop) {
		const unsigned int i = xorshift64(&seed) % RACERS;
		const __u64 certain = race->certain[i];
		__u64 word;

		if (!race->run[i])
			continue;
		word = certain + 1 + xorshift64(&seed) % (4 * MSEC);
		WORD(race->t, race->ids[i]) = word;
		/* The store is visible before the clock is read. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (now_ns() < certain)
			race->certain[i] = word;
		else
			race->run[i] = false;
		/* Now and then let the timer expire. */
		if (xorshift64(&seed) % 16 == 0)
			race->run[i] = false;
		race->stores++;
	}
	return NULL;
}

HTW_TEST(race_with_the_expiry)
{
	static struct race race;
	unsigned int events[RACERS] = { 0 }, done = 0, i;
	struct htw_event ev[64];
	__u64 seed = 3;
	pthread_t thread;
	int n;

	NEEDS(HTW_FEATURE_TABLE | HTW_FEATURE_MOD);
	ASSERT_TRUE(table_map(&race.t, self->fd, table_size(RACERS)));
	for (i = 0; i < RACERS; i++) {
		__u64 deadline = now_ns() + 5 * MSEC + i * 100 * USEC;

		race.ids[i] = htw_start_abs(self->fd, deadline, i);
		ASSERT_NE(0, race.ids[i]);
		race.certain[i] = deadline;
		race.run[i] = true;
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, extend, &race));
	while (done < RACERS) {
		ASSERT_TRUE(htw_wait_readable(self->fd));
		n = htw_read(self->fd, ev, 64);
		ASSERT_LT(0, n);
		for (int k = 0; k < n; k++) {
			__u64 deadline;

			i = ev[k].cookie;
			ASSERT_GT(RACERS, i);
			ASSERT_EQ(race.ids[i], ev[k].id);
			EXPECT_NOT_EARLY(&ev[k]);
			EXPECT_LE(race.certain[i], ev[k].deadline);
			/* Later stores do not bring it back. */
			EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, ev[k].id).state);
			race.run[i] = false;
			done += ++events[i] == ROUNDS;
			ASSERT_GE(ROUNDS, events[i]);
			if (events[i] == ROUNDS)
				continue;
			/*
			 * The other thread may still store a deadline that has
			 * passed.
			 */
			deadline = now_ns() + xorshift64(&seed) % (5 * MSEC);
			ASSERT_EQ(0, htw_move(self->fd, race.ids[i], deadline, HTW_F_ABS));
			race.certain[i] = deadline;
			if (events[i] % 4)
				race.run[i] = true;
		}
	}
	race.stop = true;
	pthread_join(thread, NULL);
	EXPECT_LT(0, race.stores);
	EXPECT_TRUE(htw_quiet_for(self->fd, 50 * MSEC));
}

/* A program that keeps all deadlines just ahead of the present delays no others. */
static bool stop_hostile;

static void *always_a_little_later(void *arg)
{
	const struct table *t = arg;

	htw_pin(htw_other_cpu());
	while (!__atomic_load_n(&stop_hostile, __ATOMIC_RELAXED)) {
		const __u64 soon = now_ns() + USEC;

		for (size_t i = 0; i < 4000; i++)
			t->words[i] = soon;
	}
	return NULL;
}

HTW_TEST(always_a_little_later)
{
	int other = htw_open(O_NONBLOCK), i;
	struct htw_event ev;
	pthread_t thread;
	struct table t;

	NEEDS(HTW_FEATURE_TABLE);
	ASSERT_TRUE(table_map(&t, self->fd, table_size(4500)));
	ASSERT_EQ(4500, htw_start_many(self->fd, now_ns() + MSEC, 0, 4500, NULL));
	ASSERT_EQ(0, pthread_create(&thread, NULL, always_a_little_later, &t));
	for (i = 0; i < 100; i++) {
		ASSERT_NE(0, htw_start(other, MSEC, i));
		ASSERT_EQ(1, htw_collect(other, &ev, 1));
		EXPECT_NOT_EARLY(&ev);
	}
	__atomic_store_n(&stop_hostile, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_TRUE(htw_eventually(htw_info(self->fd).expired == 4500));
	close(other);
}

TEST_HARNESS_MAIN
