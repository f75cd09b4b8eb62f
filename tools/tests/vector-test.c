// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_VECTOR: one operation on many timers, the entries that fail, and how many
 * were done
 */
#include "htw-test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

/* Operations that the kernel does in one submission; the tests cross its boundary. */
#define SUBMISSION	128
#define MANY	70000

static const __u32 counts[] = {
	1, SUBMISSION - 1, SUBMISSION, SUBMISSION + 1, 2 * SUBMISSION, 1000, MANY,
};

static struct htw_vector_args vector_of(__u32 op, __u32 flags, const __u64 *ids, __u32 count)
{
	return (struct htw_vector_args){
		.ids = (uintptr_t)ids,
		.count = count,
		.done = POISON32,
		.failed = POISON32,
		.flags = flags,
		.op = op,
	};
}

static struct htw_vector_args add_of(__u32 flags, __u64 *ids, const __u64 *deadlines, __u32 count)
{
	struct htw_vector_args v = vector_of(HTW_OP_ADD, flags, ids, count);

	v.deadlines = (uintptr_t)deadlines;
	return v;
}

static struct htw_vector_args move_of(__u32 flags, __u64 *ids, const __u64 *deadlines, __u32 count)
{
	struct htw_vector_args v = add_of(HTW_MOD_DEADLINE | flags, ids, deadlines, count);

	v.op = HTW_OP_MOD;
	return v;
}

static struct htw_vector_args cancel_of(__u64 *ids, __u32 count)
{
	return vector_of(HTW_OP_CANCEL, 0, ids, count);
}

/*
 * Submit the vector: all of it is done, @failed entries fail, nothing else is
 * written.
 */
static bool carried_out(int fd, struct htw_vector_args v, __u32 failed)
{
	struct htw_vector_args before = v;
	int ret = htw_call(fd, HTW_VECTOR, &v);

	if (ret || v.done != v.count || v.failed != failed) {
		fprintf(stderr, "# returned %d, done %u of %u, failed %u\n", ret, v.done,
			v.count, v.failed);
		return false;
	}
	before.done = v.done;
	before.failed = v.failed;
	return !memcmp(&before, &v, sizeof(v));
}

static void fill(__u64 *array, __u32 count, __u64 value)
{
	for (__u32 i = 0; i < count; i++)
		array[i] = value;
}

/* Start timers that do not expire during the test. */
static bool start_far(int fd, __u64 *ids, __u32 count)
{
	__u64 *far = malloc(count * sizeof(*far));
	bool ok;

	fill(far, count, ~0ULL);
	fill(ids, count, POISON);
	ok = carried_out(fd, add_of(HTW_F_ABS, ids, far, count), 0);
	free(far);
	return ok;
}

HTW_TEST(add_relative)
{
	const __u64 deadlines[] = { HOUR, 3 * HOUR, 2 * HOUR, ~0ULL, ~0ULL - 1 };
	const __u64 cookies[] = { 1, ~0ULL, 0, POISON, 1ULL << 63 };
	__u64 ids[] = { POISON, 0, POISON, ~0ULL, 1 };
	struct htw_vector_args v = add_of(0, ids, deadlines, 5);
	__u64 before = now_ns(), after;

	v.cookies = (uintptr_t)cookies;
	ASSERT_TRUE(carried_out(self->fd, v, 0));
	after = now_ns();
	EXPECT_EQ(5, htw_timers(self->fd));
	for (int i = 0; i < 5; i++) {
		struct htw_timer_info query = htw_query(self->fd, ids[i]);

		EXPECT_EQ(HTW_STATE_PENDING, query.state);
		EXPECT_EQ(cookies[i], query.cookie);
		EXPECT_EQ(0, query.interval | query.firings | query.flags);
		if (i < 3) {
			EXPECT_LE(before + deadlines[i], query.deadline);
			EXPECT_GE(after + deadlines[i], query.deadline);
		} else {
			EXPECT_EQ(~0ULL, query.deadline);
		}
		for (int k = 0; k < i; k++)
			EXPECT_NE(ids[k], ids[i]);
	}
	ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, 5), 0));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(add_absolute_without_cookies)
{
	const __u64 now = now_ns();
	const __u64 deadlines[] = { now + HOUR, now + 2 * HOUR, ~0ULL };
	__u64 ids[3];

	ASSERT_TRUE(carried_out(self->fd, add_of(HTW_F_ABS, ids, deadlines, 3), 0));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(deadlines[i], htw_query(self->fd, ids[i]).deadline);
		EXPECT_EQ(0, htw_query(self->fd, ids[i]).cookie);
	}
}

/* No cookie of an earlier submission or call is used again. */
HTW_TEST(no_cookies_are_zero_in_each_run)
{
	__u64 ids[3 * SUBMISSION], deadlines[3 * SUBMISSION], cookies[3 * SUBMISSION];
	struct htw_vector_args v = add_of(0, ids, deadlines, 3 * SUBMISSION);

	fill(deadlines, 3 * SUBMISSION, HOUR);
	fill(cookies, 3 * SUBMISSION, POISON);
	for (int pass = 0; pass < 2; pass++) {
		v.cookies = pass ? 0 : (uintptr_t)cookies;
		ASSERT_TRUE(carried_out(self->fd, v, 0));
		for (int i = 0; i < 3 * SUBMISSION; i++)
			ASSERT_EQ(pass ? 0 : POISON, htw_query(self->fd, ids[i]).cookie);
	}
	v = vector_of(HTW_OP_MOD, HTW_MOD_COOKIE, ids, 3 * SUBMISSION);
	v.cookies = (uintptr_t)cookies;
	ASSERT_TRUE(carried_out(self->fd, v, 0));
	v.cookies = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < 3 * SUBMISSION; i++)
			ASSERT_EQ(pass ? 0 : POISON, htw_query(self->fd, ids[i]).cookie);
		ASSERT_TRUE(carried_out(self->fd, v, 0));
	}
}

HTW_TEST(add_kept_and_periodic)
{
	const __u64 deadlines[] = { 0, HOUR };
	struct htw_event ev[2];
	struct htw_timer_info query;
	struct htw_vector_args v;
	__u64 ids[2];

	ASSERT_TRUE(carried_out(self->fd, add_of(HTW_F_KEEP, ids, deadlines, 2), 0));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(ids[0], ev[0].id);
	EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
	EXPECT_NOT_EARLY(&ev[0]);
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, ids[0]).state);
	EXPECT_EQ(HTW_F_KEEP, htw_query(self->fd, ids[1]).flags);
	ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, 2), 0));

	v = add_of(0, ids, deadlines, 2);
	v.interval = 2 * HOUR;
	v.firings = 3;
	v.slack = SEC;
	ASSERT_TRUE(carried_out(self->fd, v, 0));
	ASSERT_EQ(1, htw_collect(self->fd, ev, 1));
	EXPECT_EQ(ids[0], ev[0].id);
	EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
	for (int i = 0; i < 2; i++) {
		query = htw_query(self->fd, ids[i]);
		EXPECT_EQ(HTW_STATE_PENDING, query.state);
		EXPECT_EQ(2 * HOUR, query.interval);
		EXPECT_EQ(3 - !i, query.firings);
	}
	EXPECT_EQ(2, htw_timers(self->fd));
}

HTW_TEST(mod_of_each_field)
{
	const __u64 cookies[] = { 7, 8, 9 };
	__u64 deadlines[3], ids[3], kept[3];
	struct htw_timer_info query, before;
	struct htw_vector_args v;

	ASSERT_TRUE(start_far(self->fd, ids, 3));
	memcpy(kept, ids, sizeof(ids));
	for (unsigned int what = 1; what < 16; what++) {
		const __u32 flags = what << 8;
		const bool moves = flags & HTW_MOD_DEADLINE;

		for (int i = 0; i < 3; i++)
			deadlines[i] = now_ns() + (what + i) * HOUR;
		before = htw_query(self->fd, ids[1]);
		v = vector_of(HTW_OP_MOD, flags | (moves ? HTW_F_ABS : 0), ids, 3);
		if (moves)
			v.deadlines = (uintptr_t)deadlines;
		if (flags & HTW_MOD_COOKIE)
			v.cookies = what & 1 ? (uintptr_t)cookies : 0;
		if (flags & HTW_MOD_INTERVAL) {
			v.interval = what * SEC;
			v.firings = what;
		}
		if (flags & HTW_MOD_SLACK)
			v.slack = what * MSEC;
		ASSERT_TRUE(carried_out(self->fd, v, 0)) {
			TH_LOG("flags %#x", flags);
		}
		EXPECT_EQ(0, memcmp(kept, ids, sizeof(ids)));
		for (int i = 0; i < 3; i++) {
			query = htw_query(self->fd, ids[i]);
			EXPECT_EQ(HTW_STATE_PENDING, query.state);
			if (moves)
				EXPECT_EQ(deadlines[i], query.deadline);
			if (flags & HTW_MOD_COOKIE)
				EXPECT_EQ(what & 1 ? cookies[i] : 0, query.cookie);
			if (flags & HTW_MOD_INTERVAL) {
				EXPECT_EQ(what * SEC, query.interval);
				EXPECT_EQ(what, query.firings);
			}
		}
		query = htw_query(self->fd, ids[1]);
		EXPECT_EQ(moves ? deadlines[1] : before.deadline, query.deadline);
		if (!(flags & HTW_MOD_COOKIE))
			EXPECT_EQ(before.cookie, query.cookie);
		if (!(flags & HTW_MOD_INTERVAL))
			EXPECT_EQ(before.interval, query.interval);
	}
}

HTW_TEST(mod_in_each_state)
{
	__u64 deadlines[3] = { HOUR, HOUR, HOUR }, ids[4], now;
	struct htw_event ev[2];

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	deadlines[0] = 1;
	deadlines[1] = 1;
	ASSERT_TRUE(carried_out(self->fd, add_of(HTW_F_KEEP, ids, deadlines, 3), 0));
	ASSERT_EQ(1, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	EXPECT_EQ(ids[0], ev[0].id);
	EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, ids[0]).state);
	EXPECT_EQ(HTW_STATE_DUE, htw_query(self->fd, ids[1]).state);
	fill(deadlines, 3, MSEC);
	ASSERT_TRUE(carried_out(self->fd, move_of(0, ids, deadlines, 3), 0));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, ids[i]).state);
		EXPECT_EQ(SEC + MSEC, htw_query(self->fd, ids[i]).deadline);
	}
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	EXPECT_EQ(3, htw_timers(self->fd));
	EXPECT_EQ(1, htw_advance(self->fd, 10 * self->tick + MSEC, 0));
	EXPECT_EQ(2, htw_read(self->fd, ev, 2));
	EXPECT_EQ(1, htw_read(self->fd, ev, 2));
	/* In the past: due at once. */
	now = SEC;
	fill(deadlines, 3, now);
	ASSERT_TRUE(carried_out(self->fd, move_of(HTW_F_ABS, ids, deadlines, 3), 0));
	EXPECT_EQ(3, htw_due(self->fd));
}

HTW_TEST(cancel_in_each_state)
{
	const __u64 deadlines[] = { 1, HOUR, 1, HOUR, 1 };
	__u64 ids[6], before[6];
	struct htw_event ev[4];

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_TRUE(carried_out(self->fd, add_of(0, ids, deadlines, 5), 0));
	ids[5] = ids[3];
	memcpy(before, ids, sizeof(ids));
	ASSERT_EQ(1, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	EXPECT_EQ(ids[0], ev[0].id);
	ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, 6), 2));
	EXPECT_EQ((__u64)-ENOENT, ids[0]);
	for (int i = 1; i < 5; i++)
		EXPECT_EQ(before[i], ids[i]);
	EXPECT_EQ((__u64)-ENOENT, ids[5]);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 4));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Every third id is invalid, in various ways; its neighbours must succeed. */
HTW_TEST(failures_in_the_middle)
{
	static const __u64 none[] = {
		0, ~0ULL, (__u64)-ENOENT, (__u64)-4095, (__u64)-4096, POISON, 1ULL << 63,
		1ULL << 32,
	};
	enum { COUNT = 3 * SUBMISSION + 17 };
	__u64 ids[COUNT], all[COUNT], deadlines[COUNT], cookies[COUNT];
	__u32 bad = 0, failed = 0;
	struct htw_vector_args v;

	ASSERT_TRUE(start_far(self->fd, all, COUNT));
	fill(deadlines, COUNT, HOUR);
	for (__u32 i = 0; i < COUNT; i++) {
		cookies[i] = i;
		bad += i % 3 == 1;
	}
	for (int op = 0; op < 2; op++) {
		memcpy(ids, all, sizeof(ids));
		for (__u32 i = 1; i < COUNT; i += 3)
			ids[i] = none[i / 3 % ARRAY_SIZE(none)];
		v = move_of(HTW_MOD_COOKIE, ids, deadlines, COUNT);
		v.cookies = (uintptr_t)cookies;
		if (op)
			v = cancel_of(ids, COUNT);
		ASSERT_TRUE(carried_out(self->fd, v, bad));
		for (__u32 i = 0; i < COUNT; i++) {
			ASSERT_EQ(i % 3 == 1 ? (__u64)-ENOENT : all[i], ids[i]);
			if (op) {
				failed += i % 3 != 1 && htw_query(self->fd, all[i]).state;
				continue;
			}
			ASSERT_EQ(i % 3 == 1 ? 0 : i, htw_query(self->fd, all[i]).cookie);
		}
	}
	EXPECT_EQ(0, failed);
	EXPECT_EQ(bad, htw_timers(self->fd));
	/* The others, with the ids of ended timers between them. */
	ASSERT_TRUE(carried_out(self->fd, cancel_of(all, COUNT), COUNT - bad));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(limit)
{
	static const __u64 limits[] = { 1, 62, 63, 64, 127, 128, 129, 300 };
	enum { COUNT = 500 };
	__u64 ids[COUNT], deadlines[COUNT];

	fill(deadlines, COUNT, HOUR);
	for (unsigned int k = 0; k < ARRAY_SIZE(limits); k++) {
		const __u64 limit = limits[k];
		int fd = htw_open(O_NONBLOCK);

		ASSERT_EQ(0, htw_set_up(fd, (struct htw_setup_args){
			.limit = limit }));
		for (int again = 0; again < 2; again++) {
			fill(ids, COUNT, POISON);
			ASSERT_TRUE(carried_out(fd, add_of(0, ids, deadlines, COUNT),
						COUNT - limit));
			EXPECT_EQ(limit, htw_timers(fd));
			for (__u32 i = 0; i < limit; i++)
				ASSERT_EQ(HTW_STATE_PENDING, htw_query(fd, ids[i]).state);
			for (__u32 i = limit; i < COUNT; i++)
				ASSERT_EQ((__u64)-ENOSPC, ids[i]);
			/*
			 * Unchanged: failed entries hold an errno, which is no
			 * valid id.
			 */
			ASSERT_TRUE(carried_out(fd, cancel_of(ids, COUNT), COUNT - limit));
			EXPECT_EQ(0, htw_timers(fd));
			for (__u32 i = limit; i < COUNT; i++)
				ASSERT_EQ((__u64)-ENOENT, ids[i]);
		}
		close(fd);
	}
}

HTW_TEST(empty)
{
	__u64 word = POISON;

	for (int pass = 0; pass < 2; pass++) {
		__u64 *p = pass ? &word : NULL;

		EXPECT_TRUE(carried_out(self->fd, add_of(0, p, p, 0), 0));
		EXPECT_TRUE(carried_out(self->fd, move_of(0, p, p, 0), 0));
		EXPECT_TRUE(carried_out(self->fd, cancel_of(p, 0), 0));
	}
	EXPECT_EQ(POISON, word);
	EXPECT_EQ(0, htw_timers(self->fd));
	/* No timer exists yet, so HTW_SETUP is still possible. */
	EXPECT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
}

/* Each entry is done once, and nothing after the last. */
HTW_TEST(counts)
{
	__u64 *ids = calloc(MANY + 1, sizeof(*ids)), *kept = calloc(MANY + 1, sizeof(*ids));
	__u64 *deadlines = calloc(MANY + 1, sizeof(*ids));
	__u64 *cookies = calloc(MANY + 1, sizeof(*ids));
	struct htw_vector_args v;

	ASSERT_TRUE(ids && kept && deadlines && cookies);
	for (unsigned int k = 0; k < ARRAY_SIZE(counts); k++) {
		const __u32 count = counts[k], step = count > 1000 ? 7 : 1;

		for (__u32 i = 0; i <= count; i++) {
			ids[i] = POISON;
			deadlines[i] = ~0ULL - 1 - i;
			cookies[i] = i * 3;
		}
		v = add_of(HTW_F_ABS, ids, deadlines, count);
		v.cookies = (uintptr_t)cookies;
		ASSERT_TRUE(carried_out(self->fd, v, 0));
		ASSERT_EQ(POISON, ids[count]);
		ASSERT_EQ(count, htw_timers(self->fd));
		memcpy(kept, ids, (count + 1) * sizeof(*ids));
		for (__u32 i = 0; i < count; i += step) {
			struct htw_timer_info query = htw_query(self->fd, ids[i]);

			ASSERT_EQ(deadlines[i], query.deadline);
			ASSERT_EQ(cookies[i], query.cookie);
			deadlines[i] -= MANY;
		}
		ASSERT_TRUE(carried_out(self->fd, move_of(HTW_F_ABS, ids, deadlines, count), 0));
		for (__u32 i = 0; i < count; i += step)
			ASSERT_EQ(deadlines[i], htw_query(self->fd, ids[i]).deadline);
		ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, count), 0));
		ASSERT_EQ(0, memcmp(kept, ids, (count + 1) * sizeof(*ids)));
		ASSERT_EQ(0, htw_timers(self->fd));
		ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, count), count));
		for (__u32 i = 0; i < count; i++)
			ASSERT_EQ((__u64)-ENOENT, ids[i]);
		ASSERT_EQ(POISON, ids[count]);
	}
}

/*
 * Submit @v as often as needed; only @usable entries are in accessible memory.
 * Continuing at done must end exactly there.
 */
static void expect_progress(struct __test_metadata *_metadata, int fd, struct htw_vector_args v,
			    __u32 usable)
{
	__u32 at = 0;
	int ret;

	for (;;) {
		v.done = POISON32;
		v.failed = POISON32;
		ret = htw_call(fd, HTW_VECTOR, &v);
		if (ret)
			break;
		ASSERT_LT(0, v.done);
		ASSERT_GE(usable - at, v.done);
		ASSERT_EQ(0, v.failed);
		at += v.done;
		v.count -= v.done;
		v.ids += v.done * sizeof(__u64);
		if (v.deadlines)
			v.deadlines += v.done * sizeof(__u64);
		if (v.cookies)
			v.cookies += v.done * sizeof(__u64);
	}
	EXPECT_EQ(-EFAULT, ret);
	EXPECT_EQ(usable, at);
	EXPECT_TRUE(v.done == 0 || v.done == POISON32);
	EXPECT_TRUE(v.failed == 0 || v.failed == POISON32);
}

HTW_TEST(arrays_that_end_before_their_count)
{
	static const __u32 usable[] = {
		0, 1, 2, SUBMISSION - 1, SUBMISSION, SUBMISSION + 1, 300, 512, 513,
	};
	static const size_t partial[] = { 0, 1, 4, 7 };
	enum { COUNT = 700 };
	static __u64 whole[3][COUNT];

	for (unsigned int k = 0; k < ARRAY_SIZE(usable) * ARRAY_SIZE(partial) * 3; k++) {
		const __u32 n = usable[k / 3 / ARRAY_SIZE(partial)];
		const size_t size = n * sizeof(__u64) + partial[k / 3 % ARRAY_SIZE(partial)];
		__u64 *a[3], *ids = whole[0];
		struct htw_vector_args v;

		for (unsigned int i = 0; i < 3; i++) {
			a[i] = whole[i];
			if (i == k % 3) {
				a[i] = htw_before_page(size, PROT_NONE);
				ASSERT_NE(NULL, a[i]);
			}
			fill(a[i], a[i] == whole[i] ? COUNT : n, i ? ~0ULL : POISON);
		}
		v = add_of(HTW_F_ABS, a[0], a[1], COUNT);
		v.cookies = (uintptr_t)a[2];
		expect_progress(_metadata, self->fd, v, n);
		ASSERT_EQ(n, htw_timers(self->fd));
		memcpy(whole[0], a[0], n * sizeof(__u64));

		ASSERT_TRUE(start_far(self->fd, ids + n, COUNT - n));
		memcpy(a[0], whole[0], a[0] == whole[0] ? sizeof(whole[0]) : n * sizeof(__u64));
		fill(a[1], n, HOUR);
		v = move_of(HTW_MOD_COOKIE, a[0], a[1], COUNT);
		v.cookies = (uintptr_t)a[2];
		expect_progress(_metadata, self->fd, v, n);
		for (__u32 i = 0; i < COUNT; i += 13)
			ASSERT_EQ(i < n, htw_query(self->fd, ids[i]).deadline != ~0ULL);
		if (k % 3 == 0) {
			expect_progress(_metadata, self->fd, cancel_of(a[0], COUNT), n);
			EXPECT_EQ(COUNT - n, htw_timers(self->fd));
			ids += n;
		} else {
			munmap((void *)((uintptr_t)a[k % 3] & ~(PAGE - 1)), size + PAGE);
		}
		ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, COUNT - (ids - whole[0])), 0));
		ASSERT_EQ(0, htw_timers(self->fd));
	}
}

/* An add whose id cannot be written does not happen: no timer, no expiration. */
HTW_TEST(add_whose_ids_cannot_be_written)
{
	enum { WRITABLE = SUBMISSION + 40, ALL = WRITABLE + 60 };
	__u64 *ids = htw_before_page(WRITABLE * sizeof(*ids), PROT_READ | PROT_WRITE);
	__u64 now[ALL] = { 0 }, one = POISON;
	struct htw_event ev[ALL];
	struct htw_vector_args v;

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_NE(NULL, ids);
	fill(ids, ALL, POISON);
	ASSERT_EQ(0, mprotect(ids + WRITABLE, PAGE, PROT_READ));

	v = add_of(0, htw_read_only(&one, sizeof(one)), now, ALL);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(0, htw_timers(self->fd));

	v = add_of(0, ids, now, ALL);
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(WRITABLE, v.done);
	EXPECT_EQ(0, v.failed);
	EXPECT_EQ(WRITABLE, htw_timers(self->fd));
	EXPECT_EQ(WRITABLE, htw_read(self->fd, ev, ALL));
	for (__u32 i = 0; i < WRITABLE; i++)
		ASSERT_EQ(ids[i], ev[i].id);
	for (__u32 i = WRITABLE; i < ALL; i++)
		ASSERT_EQ(POISON, ids[i]);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Where it could not be said how many operations were carried out, none is. */
HTW_TEST(result_that_cannot_be_written)
{
	__u64 deadlines[4] = { HOUR, HOUR, HOUR, HOUR }, ids[4];
	struct htw_vector_args v = add_of(0, ids, deadlines, 4);
	struct htw_vector_args *fixed = htw_read_only(&v, sizeof(v));

	fill(ids, 4, POISON);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, fixed));
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(POISON, ids[0]);
}

/* Ids are written only for entries that failed. */
HTW_TEST(ids_that_need_not_be_written)
{
	enum { COUNT = 2 * SUBMISSION };
	__u64 ids[COUNT], deadlines[COUNT], *fixed;
	struct htw_vector_args v;

	fill(deadlines, COUNT, HOUR);
	ASSERT_TRUE(start_far(self->fd, ids, COUNT));
	fixed = htw_read_only(ids, sizeof(ids));
	ASSERT_NE(NULL, fixed);
	EXPECT_TRUE(carried_out(self->fd, move_of(0, fixed, deadlines, COUNT), 0));

	/* One entry in the middle of the second submission fails. */
	ASSERT_EQ(0, htw_stop(self->fd, ids[SUBMISSION + 5]));
	v = move_of(HTW_F_ABS, fixed, deadlines, COUNT);
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(SUBMISSION + 5, v.done);
	EXPECT_EQ(0, v.failed);
	v = move_of(0, fixed + v.done, deadlines, COUNT - v.done);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_TRUE(v.done == 0 || v.done == POISON32);

	v = cancel_of(fixed, COUNT);
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(SUBMISSION + 5, v.done);
	v = cancel_of(ids, COUNT);
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(COUNT, v.done);
	EXPECT_LE(SUBMISSION + 6, v.failed);
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(arrays_at_bad_addresses)
{
	static const __u64 addresses[] = {
		1, PAGE - 1, 1ULL << 47, 1ULL << 63, 0xffff888000000000ULL, ~0ULL, ~0ULL - 7,
	};
	__u64 ids[3], deadlines[3] = { 0 };
	struct htw_vector_args v, good[2] = { add_of(0, ids, deadlines, 3), };

	good[0].cookies = (uintptr_t)deadlines;
	good[1] = good[0];
	good[1].op = HTW_OP_MOD;
	good[1].flags = HTW_MOD_DEADLINE | HTW_MOD_COOKIE;
	for (unsigned int i = 0; i < ARRAY_SIZE(addresses) * 6; i++) {
		v = good[i % 2];
		(&v.ids)[i / 2 % 3] = addresses[i / 6];
		EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &v));
		EXPECT_TRUE(v.done == POISON32 || v.done == 0);
		EXPECT_TRUE(v.failed == POISON32 || v.failed == 0);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, NULL));
}

/* One invalid field at a time, and nothing is done. */
HTW_TEST(invalid)
{
	__u64 ids[2], before[2], deadlines[2] = { 0, 0 };
	struct htw_vector_args v, add, mod, cancel, was;

#define BAD(of, field, value) do {						\
	v = (of);								\
	v.field = (value);							\
	was = v;								\
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_VECTOR, &v)) {		\
		TH_LOG(#of ": " #field " = " #value);				\
	}									\
	EXPECT_EQ(0, memcmp(&was, &v, sizeof(v)));				\
	EXPECT_EQ(0, memcmp(before, ids, sizeof(ids)));				\
	EXPECT_EQ(2, htw_timers(self->fd));					\
} while (0)

	ASSERT_TRUE(start_far(self->fd, ids, 2));
	memcpy(before, ids, sizeof(ids));
	add = add_of(0, ids, deadlines, 2);
	mod = move_of(0, ids, deadlines, 2);
	cancel = cancel_of(ids, 2);

	BAD(add, op, 0);
	BAD(add, op, HTW_OP_MOD + 1);
	BAD(add, op, 0x80000001);
	BAD(add, op, 0x10001);
	BAD(add, op, HTW_OP_CANCEL);
	BAD(add, op, HTW_OP_MOD);
	BAD(mod, op, HTW_OP_ADD);
	BAD(mod, op, HTW_OP_CANCEL);
	for (unsigned int i = 0; i < 32; i++) {
		if (1U << i & ~(HTW_F_ABS | HTW_F_KEEP))
			BAD(add, flags, 1U << i);
		if (1U << i & ~(HTW_F_ABS | HTW_MOD_COOKIE | HTW_MOD_SLACK))
			BAD(mod, flags, HTW_MOD_DEADLINE ^ (1U << i) ^
			    (i == 9 ? HTW_MOD_SLACK | 1U << 31 : 0));
		BAD(cancel, flags, 1U << i);
	}
	BAD(add, firings, 1);
	BAD(mod, interval, HOUR);
	BAD(mod, firings, 1);
	BAD(mod, slack, 1);
	BAD(cancel, interval, HOUR);
	BAD(cancel, firings, 1);
	BAD(cancel, slack, 1);

	/* A missing array, and a superfluous one. */
	BAD(add, ids, 0);
	BAD(mod, ids, 0);
	BAD(cancel, ids, 0);
	BAD(add, deadlines, 0);
	BAD(mod, deadlines, 0);
	BAD(mod, flags, HTW_MOD_COOKIE);
	BAD(mod, cookies, (uintptr_t)deadlines);
	BAD(cancel, deadlines, (uintptr_t)deadlines);
	BAD(cancel, cookies, (uintptr_t)deadlines);
	mod.flags |= HTW_MOD_INTERVAL;
	BAD(mod, firings, 1);
	add.count = 0;
	mod.count = 0;
	cancel.count = 0;
	BAD(cancel, deadlines, (uintptr_t)deadlines);
	BAD(mod, cookies, (uintptr_t)deadlines);
	BAD(add, flags, 1U << 31);
#undef BAD
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
}

/*
 * Past deadlines expire during the call, in the array's order, over several
 * submissions.
 */
HTW_TEST(manual_clock_and_past_deadlines)
{
	enum { COUNT = 2 * SUBMISSION + 44 };
	__u64 ids[COUNT], deadlines[COUNT];
	struct htw_event ev[COUNT];

	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_EQ(0, htw_advance(self->fd, HOUR, 0));
	for (__u32 i = 0; i < COUNT; i++)
		deadlines[i] = i % 2 ? HOUR : i;
	ASSERT_TRUE(carried_out(self->fd, add_of(HTW_F_ABS, ids, deadlines, COUNT), 0));
	EXPECT_EQ(COUNT, htw_due(self->fd));
	ASSERT_EQ(COUNT, htw_read(self->fd, ev, COUNT));
	for (__u32 i = 0; i < COUNT; i++) {
		ASSERT_EQ(ids[i], ev[i].id);
		ASSERT_EQ(deadlines[i], ev[i].deadline);
		ASSERT_EQ(HOUR, ev[i].taken);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* A stale id does not reach the timer that uses its slot now. */
HTW_TEST(stale_ids)
{
	enum { COUNT = 1000 };
	static __u64 old[COUNT], ids[COUNT], copy[COUNT], deadlines[COUNT];
	struct htw_timer_info *list = calloc(COUNT, sizeof(*list));
	struct htw_list_args all = htw_list_of(list, COUNT);
	__u32 reused = 0;

	ASSERT_NE(NULL, list);
	ASSERT_TRUE(start_far(self->fd, old, COUNT));
	ASSERT_TRUE(carried_out(self->fd, cancel_of(old, COUNT), 0));
	ASSERT_TRUE(start_far(self->fd, ids, COUNT));
	for (__u32 i = 0; i < COUNT; i++)
		for (__u32 k = 0; k < COUNT; k++)
			reused += (__u32)(ids[i]) == (__u32)(old[k]);
	EXPECT_LT(0, reused);
	memcpy(copy, old, sizeof(old));
	ASSERT_TRUE(carried_out(self->fd, move_of(0, copy, deadlines, COUNT), COUNT));
	memcpy(copy, old, sizeof(old));
	ASSERT_TRUE(carried_out(self->fd, cancel_of(copy, COUNT), COUNT));
	ASSERT_EQ(0, htw_call(self->fd, HTW_LIST, &all));
	EXPECT_EQ(COUNT, all.done);
	for (__u32 i = 0; i < COUNT; i++)
		ASSERT_EQ(~0ULL, list[i].deadline);
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
	ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, COUNT), 0));
}

#define SET	400
#define ROUNDS	150

struct half {
	int fd, cpu;
	__u64 ids[SET];
	struct half *other;
	pthread_barrier_t *barrier;
	unsigned int wrong;
};

/*
 * Add timers, move the other thread's to this CPU, and cancel the own ones from
 * there.
 */
static void *work(void *arg)
{
	struct half *half = arg;
	__u64 deadlines[SET];

	half->wrong += htw_pin(half->cpu) != 0;
	for (int round = 0; round < ROUNDS; round++) {
		half->wrong += !start_far(half->fd, half->ids, SET);
		fill(deadlines, SET, HOUR + round);
		half->wrong += !carried_out(half->fd, move_of(0, half->ids, deadlines, SET), 0);
		pthread_barrier_wait(half->barrier);
		half->wrong += !carried_out(half->fd, move_of(0, half->other->ids, deadlines, SET),
					    0);
		half->wrong += !carried_out(half->fd, move_of(0, half->other->ids, deadlines, SET),
					    0);
		pthread_barrier_wait(half->barrier);
		half->wrong += !carried_out(half->fd, cancel_of(half->ids, SET), 0);
		pthread_barrier_wait(half->barrier);
	}
	return NULL;
}

HTW_TEST(threads)
{
	static struct half halves[2];
	pthread_barrier_t barrier;
	pthread_t threads[2];

	ASSERT_EQ(0, pthread_barrier_init(&barrier, NULL, 2));
	for (int i = 0; i < 2; i++) {
		halves[i].fd = self->fd;
		halves[i].cpu = i ? htw_other_cpu() : 0;
		halves[i].other = &halves[!i];
		halves[i].barrier = &barrier;
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, work, &halves[i]));
	}
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
		EXPECT_EQ(0, halves[i].wrong);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(argument_that_cannot_be_written)
{
	__u64 id = POISON, deadline = HOUR;
	struct htw_vector_args v = add_of(0, &id, &deadline, 1);
	char *p = htw_before_page(sizeof(v) - 1, PROT_NONE);

	ASSERT_NE(NULL, p);
	memcpy(p, &v, sizeof(v) - 1);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, p));
	EXPECT_EQ(POISON, id);
	EXPECT_EQ(0, htw_timers(self->fd));
	/* done cannot be written here; the ids array can. */
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, htw_read_only(&v, sizeof(v))));
	EXPECT_EQ(id != POISON, htw_timers(self->fd));
	if (id != POISON)
		EXPECT_EQ(0, htw_stop(self->fd, id));
}

static volatile sig_atomic_t signals;

static void count_signal(int signo)
{
	signals++;
}

HTW_TEST(cut_short_by_signals)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	struct sigaction action = { .sa_handler = count_signal };
	__u64 *ids = calloc(MANY, sizeof(*ids)), *far = calloc(MANY, sizeof(*far));
	__u64 end = now_ns() + EVENTUALLY;
	struct htw_vector_args v;
	__u32 at, cuts = 0;
	int ret;

	ASSERT_TRUE(ids && far);
	fill(far, MANY, ~0ULL);
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	while (!cuts && now_ns() < end) {
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
		for (at = 0; at < MANY; at += v.done) {
			v = add_of(HTW_F_ABS, ids + at, far + at, MANY - at);
			ret = htw_call(self->fd, HTW_VECTOR, &v);
			ASSERT_EQ(0, ret);
			ASSERT_LT(0, v.done);
			ASSERT_GE(MANY - at, v.done);
			ASSERT_EQ(0, v.failed);
			cuts += at + v.done < MANY;
		}
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &off, NULL));
		EXPECT_EQ(MANY, htw_timers(self->fd));
		ASSERT_TRUE(carried_out(self->fd, cancel_of(ids, MANY), 0));
		EXPECT_EQ(0, htw_timers(self->fd));
	}
	if (!cuts && __test_passed(_metadata))
		SKIP(return, "%u signals, and none came during a vector", (unsigned int)signals);
	TH_LOG("%u signals cut %u vectors short", (unsigned int)signals, cuts);
}

TEST_HARNESS_MAIN
