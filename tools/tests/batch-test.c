// SPDX-License-Identifier: GPL-2.0-only
/*
 * HTW_BATCH: a result for each entry, and the number of entries done
 */
#include "htw-test.h"

#include <signal.h>
#include <sys/time.h>

HTW_TEST(empty)
{
	struct htw_batch batch = htw_batch_of(NULL, 0);

	EXPECT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
	EXPECT_EQ(0, batch.done);
}

HTW_TEST(mixed)
{
	__u64 far = now_ns() + 3600 * SEC;
	__u64 pending = htw_start_abs(self->fd, far, 100);
	__u64 unread = htw_start(self->fd, 0, 101);
	struct htw_op ops[] = {
		htw_op_add(far, 1),
		htw_op_cancel(pending, 0),
		htw_op_cancel(pending, 0),
		htw_op_cancel(unread, 0),
		htw_op_add(far, 2),
		htw_op_cancel(~0ULL, 0),
		htw_op_add(0, 3),
	};
	struct htw_batch batch = htw_batch_of(ops, ARRAY_SIZE(ops));
	struct htw_event ev[3];

	ASSERT_TRUE(htw_wait_readable(self->fd));
	ASSERT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
	EXPECT_EQ(ARRAY_SIZE(ops), batch.done);

	EXPECT_EQ(0, ops[0].result);
	EXPECT_NE(POISON, ops[0].add.id);
	EXPECT_EQ(0, ops[1].result);
	EXPECT_EQ(100, ops[1].cancel.cookie);
	EXPECT_LE(far - now_ns(), ops[1].cancel.remaining);
	EXPECT_GE(3600 * SEC, ops[1].cancel.remaining);
	EXPECT_EQ(0, ops[1].cancel.missed);
	EXPECT_EQ(-ENOENT, ops[2].result);
	EXPECT_TRUE(htw_cancel_untouched(&ops[2].cancel));
	EXPECT_EQ(-EALREADY, ops[3].result);
	EXPECT_EQ(101, ops[3].cancel.cookie);
	EXPECT_EQ(0, ops[3].cancel.remaining);
	EXPECT_EQ(0, ops[4].result);
	EXPECT_EQ(-ENOENT, ops[5].result);
	EXPECT_EQ(0, ops[6].result);

	ASSERT_EQ(2, htw_collect(self->fd, ev, 2));
	EXPECT_EQ(unread, ev[0].id);
	EXPECT_EQ(ops[6].add.id, ev[1].id);
	EXPECT_EQ(3, ev[1].cookie);
	EXPECT_EQ(2, htw_timers(self->fd));
	EXPECT_EQ(0, htw_stop(self->fd, ops[0].add.id));
	EXPECT_EQ(0, htw_stop(self->fd, ops[4].add.id));
}

/* One invalid field at a time; the neighbouring entries must succeed. */
HTW_TEST(bad_entries)
{
	struct htw_op ops[128], before[128];
	unsigned int i, n = 0, good = 0;
	struct htw_batch batch;
	__u64 id = htw_start(self->fd, ~0ULL, 1);

#define BAD(of, field, value) do {					\
	ops[n] = (of);							\
	ops[n++].field = (value);					\
	ops[n++] = htw_op_add(~0ULL, 1);				\
} while (0)

	for (i = 0; i < 16; i++) {
		BAD(htw_op_add(0, 1), reserved, 1U << i);
		BAD(htw_op_cancel(id, 0), reserved, 1U << i);
	}
	BAD(htw_op_add(0, 1), op, 0);
	BAD(htw_op_add(0, 1), op, HTW_OP_QUERY + 1);
	BAD(htw_op_add(0, 1), op, 0x8001);
	BAD(htw_op_add(0, 1), op, 0xffff);
	if (!(self->features & HTW_FEATURE_MOD)) {
		BAD(htw_op_add(0, 1), op, HTW_OP_MOD);
		BAD(htw_op_cancel(id, 0), op, HTW_OP_QUERY);
	}
	BAD(htw_op_add(0, 1), add.flags, 1U << 31);
	BAD(htw_op_add(0, 1), add.reserved, 1);
	BAD(htw_op_add(0, 1), add.interval, 1);
	BAD(htw_op_add(0, 1), add.firings, 1);
	if (!(self->features & HTW_FEATURE_SLACK))
		BAD(htw_op_add(0, 1), add.slack, 1);
	BAD(htw_op_cancel(id, 0), cancel.flags, 1U << 31);
	BAD(htw_op_cancel(id, 0), cancel.reserved0, 1);
	BAD(htw_op_cancel(id, 0), cancel.reserved[0], 1);
	BAD(htw_op_cancel(id, 0), cancel.reserved[1], 1ULL << 63);
#undef BAD

	ASSERT_NE(0, id);
	memcpy(before, ops, sizeof(ops));
	batch = htw_batch_of(ops, n);
	ASSERT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
	EXPECT_EQ(n, batch.done);
	for (i = 0; i < n; i++) {
		if (i % 2) {
			EXPECT_EQ(0, ops[i].result);
			good += !ops[i].result;
			continue;
		}
		EXPECT_EQ(-EINVAL, ops[i].result) {
			TH_LOG("entry %u, op %u", i, ops[i].op);
		}
		before[i].result = ops[i].result;
		EXPECT_EQ(0, memcmp(&before[i], &ops[i], sizeof(ops[i])));
	}
	EXPECT_EQ(1 + good, htw_timers(self->fd));
	EXPECT_TRUE(htw_quiet_for(self->fd, 20 * MSEC));
	EXPECT_EQ(0, htw_stop(self->fd, id));
}

HTW_TEST(large)
{
	enum { COUNT = 10000 };
	static struct htw_op ops[COUNT];
	struct htw_batch batch = htw_batch_of(ops, COUNT);
	unsigned int i;

	for (i = 0; i < COUNT; i++)
		ops[i] = htw_op_add(~0ULL, i);
	ASSERT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
	ASSERT_EQ(COUNT, batch.done);
	for (i = 0; i < COUNT; i++)
		ASSERT_EQ(0, ops[i].result);
	EXPECT_EQ(COUNT, htw_timers(self->fd));
	for (i = 0; i < COUNT; i++)
		ops[i] = htw_op_cancel(ops[i].add.id, 0);
	batch = htw_batch_of(ops, COUNT);
	ASSERT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
	ASSERT_EQ(COUNT, batch.done);
	for (i = 0; i < COUNT; i++) {
		ASSERT_EQ(0, ops[i].result);
		ASSERT_EQ(i, ops[i].cancel.cookie);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * Submit @count entries of which only the first @usable are in accessible
 * memory. Continuing at ops + done must end exactly there.
 */
static void expect_progress(struct __test_metadata *_metadata, int fd,
			    struct htw_op *ops, __u32 count, __u32 usable)
{
	__u64 timers = htw_timers(fd);
	struct htw_batch batch;
	__u32 at = 0, i;
	int ret;

	for (i = 0; i < usable; i++)
		ops[i] = htw_op_add(~0ULL, i);
	for (;;) {
		batch = htw_batch_of(ops + at, count - at);
		ret = htw_call(fd, HTW_BATCH, &batch);
		if (ret)
			break;
		ASSERT_LT(0, batch.done);
		ASSERT_GE(usable - at, batch.done);
		for (i = at; i < at + batch.done; i++)
			ASSERT_EQ(0, ops[i].result);
		at += batch.done;
	}
	EXPECT_EQ(-EFAULT, ret);
	EXPECT_TRUE(batch.done == POISON32 || batch.done == 0);
	EXPECT_EQ(usable, at);
	EXPECT_EQ(timers + usable, htw_timers(fd));
	for (i = 0; i < usable; i++)
		EXPECT_EQ(0, htw_stop(fd, ops[i].add.id));
	EXPECT_EQ(timers, htw_timers(fd));
}

HTW_TEST(array_that_ends_before_its_count)
{
	static const __u32 usable[] = { 0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 500 };
	static const size_t partial[] = { 0, 1, 4, 8, 16, sizeof(struct htw_op) - 1 };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(usable); i++)
		for (j = 0; j < ARRAY_SIZE(partial); j++) {
			size_t size = usable[i] * sizeof(struct htw_op) + partial[j];
			void *p = htw_before_page(size, PROT_NONE);

			ASSERT_NE(NULL, p);
			expect_progress(_metadata, self->fd, p, usable[i] + 100, usable[i]);
			expect_progress(_metadata, self->fd, p, usable[i] + 1, usable[i]);
		}
}

HTW_TEST(huge_count)
{
	struct htw_op *high = htw_before_page(300 * sizeof(*high), PROT_NONE);
	struct htw_op *low = mmap((void *)0x10000000, 5 * PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	__u32 usable = 4 * PAGE / sizeof(*low);

	ASSERT_NE(NULL, high);
	ASSERT_NE(MAP_FAILED, low);
	ASSERT_EQ(0, mprotect((char *)low + 4 * PAGE, PAGE, PROT_NONE));
	expect_progress(_metadata, self->fd, low, ~0U, usable);
	expect_progress(_metadata, self->fd, high, ~0U, 300);
}

HTW_TEST(array_at_a_bad_address)
{
	static const __u64 addresses[] = {
		0, 1, PAGE - 1, 1ULL << 47, 1ULL << 63, 0xffff888000000000ULL, ~0ULL,
		~0ULL - sizeof(struct htw_op) + 1,
	};
	struct htw_batch batch;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		batch = htw_batch_of(NULL, 3);
		batch.ops = addresses[i];
		EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_BATCH, &batch));
		EXPECT_TRUE(batch.done == POISON32 || batch.done == 0);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * Entries that can be read but not written: they may have been carried out, but
 * must not be counted in done.
 */
HTW_TEST(array_that_cannot_be_written)
{
	unsigned int i, n = PAGE / sizeof(struct htw_op);
	struct htw_op ops[PAGE / sizeof(struct htw_op)];
	struct htw_batch batch;

	for (i = 0; i < n; i++)
		ops[i] = htw_op_add(~0ULL, i);
	batch = htw_batch_of(htw_read_only(ops, sizeof(ops)), n);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_BATCH, &batch));
	EXPECT_TRUE(batch.done == POISON32 || batch.done == 0);
	EXPECT_GE(n, htw_timers(self->fd));
}

HTW_TEST(array_that_cannot_be_written_from_the_middle)
{
	enum { WRITABLE = 40, ALL = WRITABLE + 40 };
	struct htw_op *ops = htw_before_page(WRITABLE * sizeof(*ops), PROT_READ | PROT_WRITE);
	struct htw_batch batch = htw_batch_of(ops, ALL);
	unsigned int i;

	ASSERT_NE(NULL, ops);
	for (i = 0; i < ALL; i++)
		ops[i] = htw_op_add(~0ULL, i);
	ASSERT_EQ(0, mprotect(ops + WRITABLE, PAGE, PROT_READ));
	ASSERT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
	EXPECT_EQ(WRITABLE, batch.done);
	for (i = 0; i < ALL; i++)
		EXPECT_EQ(i < WRITABLE ? 0 : (__s32)POISON32, ops[i].result);
	EXPECT_LE(WRITABLE, htw_timers(self->fd));
	EXPECT_GE(ALL, htw_timers(self->fd));
	for (i = 0; i < WRITABLE; i++)
		EXPECT_EQ(0, htw_stop(self->fd, ops[i].add.id));
}

HTW_TEST(argument_that_cannot_be_used)
{
	struct htw_op op = htw_op_add(~0ULL, 1);
	struct htw_batch batch = htw_batch_of(&op, 1);
	void *p = htw_before_page(sizeof(batch) - 1, PROT_NONE);

	ASSERT_NE(NULL, p);
	memcpy(p, &batch, sizeof(batch) - 1);
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_BATCH, p));
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_BATCH, NULL));
	EXPECT_EQ(0, htw_timers(self->fd));

	/* done cannot be written here; the entry's own result can. */
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_BATCH, htw_read_only(&batch, sizeof(batch))));
	EXPECT_EQ(op.result == 0, htw_timers(self->fd));
	if (!op.result)
		EXPECT_EQ(0, htw_stop(self->fd, op.add.id));
}

static volatile sig_atomic_t signals;

static void count_signal(int signo)
{
	signals++;
}

HTW_TEST(cut_short_by_signals)
{
	enum { COUNT = 100000 };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	struct sigaction action = { .sa_handler = count_signal };
	struct htw_op *ops = calloc(COUNT, sizeof(*ops));
	struct htw_batch batch;
	__u32 at, cuts = 0;
	__u64 end = now_ns() + EVENTUALLY;
	int i, ret;

	ASSERT_NE(NULL, ops);
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	while (!cuts && now_ns() < end) {
		for (i = 0; i < COUNT; i++)
			ops[i] = htw_op_add(~0ULL, i);
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
		for (at = 0; at < COUNT; at += batch.done) {
			batch = htw_batch_of(ops + at, COUNT - at);
			ret = htw_call(self->fd, HTW_BATCH, &batch);
			if (ret == -EINTR) {
				cuts++;
				batch.done = 0;
				continue;
			}
			ASSERT_EQ(0, ret);
			ASSERT_LT(0, batch.done);
			ASSERT_GE(COUNT - at, batch.done);
			cuts += at + batch.done < COUNT;
		}
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &off, NULL));
		EXPECT_EQ(COUNT, htw_timers(self->fd));
		for (i = 0; i < COUNT; i++) {
			ASSERT_EQ(0, ops[i].result);
			ops[i] = htw_op_cancel(ops[i].add.id, 0);
		}
		ASSERT_EQ(0, htw_batch_all(self->fd, ops, COUNT));
		for (i = 0; i < COUNT; i++) {
			ASSERT_EQ(0, ops[i].result);
			ASSERT_EQ(i, ops[i].cancel.cookie);
		}
		EXPECT_EQ(0, htw_timers(self->fd));
	}
	EXPECT_LT(0, cuts);
	TH_LOG("%u signals cut %u batches short", (unsigned int)signals, cuts);
	free(ops);
}

TEST_HARNESS_MAIN
