// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: HTW_VECTOR
 *
 * What the operations do is compared with single calls in htw_model_kunit.c; here is
 * what only a vector has: arrays, partial progress, and errors in the place of ids.
 */
#include <kunit/test.h>

#include "htw_kunit.h"

#define TICK			1000u
/* More than are copied in at a time. */
#define ENTRIES			700u
#define ARRAY_BYTES		(ENTRIES * sizeof(u64))
#define ARRAY_PAGES		DIV_ROUND_UP(ARRAY_BYTES, PAGE_SIZE)

/* The arrays of a vector. */
enum { IDS, DEADLINES, COOKIES, ARRAYS };

/**
 * struct vectors - a device, and arrays for its vectors
 * @f: the device, on the manual clock
 * @user: the arrays in the program's memory, each followed by memory that is not there
 * @array: the same in the kernel's
 */
struct vectors {
	struct htw_test_file *f;
	unsigned long user[ARRAYS];
	u64 array[ARRAYS][ENTRIES];
};

static struct vectors *vectors_of(struct kunit *test, struct htw_test_file *f)
{
	struct vectors *t = htw_test_array(test, 1, sizeof(*t));

	t->f = f;
	for (u32 i = 0; i < ARRAYS; i++)
		t->user[i] = htw_test_pages_end(test, ARRAY_PAGES) - ARRAY_PAGES * PAGE_SIZE;
	for (u32 i = 0; i < ENTRIES; i++) {
		t->array[DEADLINES][i] = HTW_TEST_LATER;
		t->array[COOKIES][i] = 5000 + i;
	}
	return t;
}

static struct vectors *vectors(struct kunit *test)
{
	return vectors_of(test, htw_test_manual(test, TICK));
}

/* A vector with the arrays that its operation takes. */
static struct htw_vector_args vector(const struct vectors *t, u32 op, u32 flags, u32 count)
{
	const bool add = op == HTW_OP_ADD;

	return (struct htw_vector_args) {
		.ids = t->user[IDS],
		.deadlines = add || flags & HTW_MOD_DEADLINE ? t->user[DEADLINES] : 0,
		.cookies = add || flags & HTW_MOD_COOKIE ? t->user[COOKIES] : 0,
		.count = count, .op = op, .flags = flags,
		.done = 0xa5a5a5a5, .failed = 0xa5a5a5a5,
	};
}

/* Make a call with the arrays as they are here, and have them as it left them. */
static long call(struct vectors *t, struct htw_vector_args *v)
{
	struct kunit *test = t->f->test;
	long ret;

	for (u32 i = 0; i < ARRAYS; i++)
		htw_test_write(test, t->user[i], t->array[i], ARRAY_BYTES);
	ret = htw_test_call(t->f, HTW_VECTOR, v);
	for (u32 i = 0; i < ARRAYS; i++)
		htw_test_read(test, t->array[i], t->user[i], ARRAY_BYTES);
	return ret;
}

/* Start a timer for each entry. */
static void start_all(struct vectors *t)
{
	struct htw_vector_args v = vector(t, HTW_OP_ADD, 0, ENTRIES);

	KUNIT_ASSERT_EQ(t->f->test, call(t, &v), 0);
	KUNIT_ASSERT_EQ(t->f->test, v.done, ENTRIES);
	KUNIT_ASSERT_EQ(t->f->test, v.failed, 0);
	KUNIT_ASSERT_EQ(t->f->test, htw_test_info(t->f).timers, ENTRIES);
}

static void each_entry_is_a_timer(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_event *events = htw_test_array(test, ENTRIES, sizeof(*events));
	struct htw_vector_args v;

	htw_test_advance_to(t->f, 12345);
	for (u32 i = 0; i < ENTRIES; i++)
		t->array[DEADLINES][i] = 1 + i * TICK;
	start_all(t);
	for (u32 i = 0; i < ENTRIES; i++) {
		const struct htw_timer_info info = htw_test_info_of(t->f, t->array[IDS][i]);

		KUNIT_ASSERT_EQ(test, info.deadline, 12345 + 1 + i * TICK);
		KUNIT_ASSERT_EQ(test, info.cookie, 5000 + i);
		KUNIT_ASSERT_EQ(test, info.state, HTW_STATE_PENDING);
	}
	/* The other way round. */
	for (u32 i = 0; i < ENTRIES; i++) {
		t->array[DEADLINES][i] = 100000 + (ENTRIES - i) * TICK;
		t->array[COOKIES][i] = i;
	}
	v = vector(t, HTW_OP_MOD, HTW_MOD_DEADLINE | HTW_MOD_COOKIE | HTW_F_ABS, ENTRIES);
	KUNIT_ASSERT_EQ(test, call(t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	htw_test_advance_to(t->f, 100000 + ENTRIES * TICK);
	KUNIT_ASSERT_EQ(test, htw_test_take(t->f, events, ENTRIES), ENTRIES);
	for (u32 i = 0; i < ENTRIES; i++) {
		KUNIT_ASSERT_EQ(test, events[i].cookie, ENTRIES - 1 - i);
		KUNIT_ASSERT_EQ(test, events[i].id, t->array[IDS][ENTRIES - 1 - i]);
	}
	htw_test_expect_nothing(t->f);
}

/* The fields that all have in common, and cookies of zero where there is no array. */
static void entries_share_fields(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector_args v = vector(t, HTW_OP_ADD, HTW_F_KEEP, 2);

	v.cookies = 0;
	v.interval = 5000;
	v.firings = 7;
	v.slack = 50000;
	KUNIT_ASSERT_EQ(test, call(t, &v), 0);
	for (u32 i = 0; i < 2; i++) {
		const struct htw_timer_info info = htw_test_info_of(t->f, t->array[IDS][i]);

		KUNIT_EXPECT_EQ(test, info.interval, 5000);
		KUNIT_EXPECT_EQ(test, info.firings, 7);
		KUNIT_EXPECT_EQ(test, info.cookie, 0);
		KUNIT_EXPECT_EQ(test, info.flags, HTW_F_KEEP);
	}
	/* The time in their slack that ends in most zero bits is not the first. */
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(t->f, HTW_TEST_LATER), 0);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(t->f, HTW_TEST_LATER + 50000), 1);

	v = vector(t, HTW_OP_MOD, HTW_MOD_INTERVAL | HTW_MOD_COOKIE, 2);
	v.cookies = 0;
	v.interval = 1;
	v.firings = 3;
	KUNIT_ASSERT_EQ(test, call(t, &v), 0);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(t->f, t->array[IDS][1]).interval, TICK);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(t->f, t->array[IDS][1]).firings, 3);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(t->f, t->array[IDS][1]).state, HTW_STATE_DUE);
}

/* The same timer more than once. */
static void entries_are_in_order(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector_args v;
	u64 id;

	start_all(t);
	id = t->array[IDS][0];
	t->array[IDS][1] = id;
	for (u32 i = 0; i < 2; i++)
		t->array[DEADLINES][i] = 2000 + i;
	v = vector(t, HTW_OP_MOD, HTW_MOD_DEADLINE, 2);
	KUNIT_EXPECT_EQ(test, call(t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, htw_test_info_of(t->f, id).deadline, 2001);
	v = vector(t, HTW_OP_CANCEL, 0, 2);
	KUNIT_EXPECT_EQ(test, call(t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, 2);
	KUNIT_EXPECT_EQ(test, v.failed, 1);
	KUNIT_EXPECT_EQ(test, t->array[IDS][0], id);
	KUNIT_EXPECT_EQ(test, HTW_ID_ERROR(t->array[IDS][1]), -ENOENT);
	KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, ENTRIES - 1);
}

/* Of timers in each state. */
static void cancels_in_any_state(struct kunit *test)
{
	const struct htw_add_args kept = { .flags = HTW_F_KEEP };
	struct vectors *t = vectors(test);
	struct htw_vector_args v = vector(t, HTW_OP_CANCEL, 0, 3);
	struct htw_event event;

	t->array[IDS][0] = htw_test_add(t->f, &kept);
	KUNIT_ASSERT_EQ(test, htw_test_take(t->f, &event, 1), 1);
	t->array[IDS][1] = htw_test_start(t->f, 0, 1);
	t->array[IDS][2] = htw_test_start(t->f, HTW_TEST_LATER, 2);
	KUNIT_EXPECT_EQ(test, call(t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, 3);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	htw_test_expect_nothing(t->f);
}

/*
 * A vector with one thing wrong, if anything; nothing of an invalid one is
 * carried out
 */
struct wrong {
	const char *name;
	struct htw_vector_args v;	/* an address of one stands for the array */
	long ret;
	bool needs_array;		/* and without entries it is not wrong */
};

static const struct wrong wrongs[] = {
	{ "add", { 1, 1, 1, .op = HTW_OP_ADD }, 0 },
	{ "add without cookies", { 1, 1, .op = HTW_OP_ADD }, 0 },
	{ "add without ids", { 0, 1, 1, .op = HTW_OP_ADD }, -EINVAL, true },
	{ "add without deadlines", { 1, 0, 1, .op = HTW_OP_ADD }, -EINVAL, true },
	{ "add, unknown flag", { 1, 1, 1, .op = HTW_OP_ADD, .flags = 1 << 3 }, -EINVAL },
	{ "add, flag of a mod", { 1, 1, .op = HTW_OP_ADD, .flags = HTW_MOD_DEADLINE }, -EINVAL },
	{ "add, firings without interval", { 1, 1, .op = HTW_OP_ADD, .firings = 1 }, -EINVAL },
	{ "mod", { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE }, 0 },
	{ "mod of the cookie", { 1, 0, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_COOKIE }, 0 },
	{ "mod to a cookie of zero", { 1, .op = HTW_OP_MOD, .flags = HTW_MOD_COOKIE }, 0 },
	{ "mod of nothing", { 1, .op = HTW_OP_MOD }, -EINVAL },
	{ "mod without ids", { 0, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE }, -EINVAL,
	  true },
	{ "mod without deadlines", { 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE }, -EINVAL,
	  true },
	{ "mod, deadlines for nothing", { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_COOKIE },
	  -EINVAL },
	{ "mod, cookies for nothing", { 1, 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE },
	  -EINVAL },
	{ "mod, kept", { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE | HTW_F_KEEP },
	  -EINVAL },
	{ "mod, absolute cookies", { 1, .op = HTW_OP_MOD, .flags = HTW_MOD_COOKIE | HTW_F_ABS },
	  -EINVAL },
	{ "mod, interval for nothing",
	  { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE, .interval = 1 }, -EINVAL },
	{ "mod, slack for nothing",
	  { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE, .slack = 1 }, -EINVAL },
	{ "cancel", { 1, .op = HTW_OP_CANCEL }, 0 },
	{ "cancel without ids", { .op = HTW_OP_CANCEL }, -EINVAL, true },
	{ "cancel, deadlines", { 1, 1, .op = HTW_OP_CANCEL }, -EINVAL },
	{ "cancel, cookies", { 1, 0, 1, .op = HTW_OP_CANCEL }, -EINVAL },
	{ "cancel, interval", { 1, .op = HTW_OP_CANCEL, .interval = 1 }, -EINVAL },
	{ "cancel, slack", { 1, .op = HTW_OP_CANCEL, .slack = 1 }, -EINVAL },
	{ "cancel, firings", { 1, .op = HTW_OP_CANCEL, .firings = 1 }, -EINVAL },
	{ "cancel, unknown flag", { 1, .op = HTW_OP_CANCEL, .flags = 1 }, -EINVAL },
	{ "unknown operation", { 1, .op = HTW_OP_MOD + 1 }, -EINVAL },
	{ "no operation", { 1 }, -EINVAL },
};

static void wrong_desc(const struct wrong *w, char *desc)
{
	strscpy(desc, w->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(wrong, wrongs, wrong_desc);

static void arguments_are_checked(struct kunit *test)
{
	const struct wrong *w = test->param_value;
	struct vectors *t = vectors(test);
	struct htw_vector_args v, passed;
	u64 ids[2];

	start_all(t);
	memcpy(ids, t->array[IDS], sizeof(ids));
	passed = w->v;
	passed.ids = w->v.ids ? t->user[IDS] : 0;
	passed.deadlines = w->v.deadlines ? t->user[DEADLINES] : 0;
	passed.cookies = w->v.cookies ? t->user[COOKIES] : 0;
	passed.done = 77;
	passed.failed = 88;
	passed.count = 1;
	v = passed;
	KUNIT_EXPECT_EQ(test, call(t, &v), w->ret);
	if (w->ret) {
		KUNIT_EXPECT_MEMEQ(test, &v, &passed, sizeof(v));
		KUNIT_EXPECT_MEMEQ(test, t->array[IDS], ids, sizeof(ids));
		KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, ENTRIES);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(t->f, ids[0]).cookie, 5000);
		KUNIT_EXPECT_EQ(test, htw_test_info_of(t->f, ids[0]).deadline, HTW_TEST_LATER);
	} else {
		KUNIT_EXPECT_EQ(test, v.done, 1);
		KUNIT_EXPECT_EQ(test, v.failed, 0);
	}

	/* Without entries no array is needed, but those that are not taken are still refused. */
	passed.count = 0;
	v = passed;
	KUNIT_EXPECT_EQ(test, call(t, &v), w->needs_array ? 0 : w->ret);
}

/* Before anything has been armed no id is known. */
static void nothing_is_found_in_a_fresh_context(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector_args v;

	for (u32 op = HTW_OP_CANCEL; op <= HTW_OP_MOD; op++) {
		for (u32 i = 0; i < ENTRIES; i++)
			t->array[IDS][i] = i ? i : (u64)-EIO;
		v = vector(t, op, op == HTW_OP_MOD ? HTW_MOD_DEADLINE : 0, ENTRIES);
		KUNIT_EXPECT_EQ(test, call(t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
		KUNIT_EXPECT_EQ(test, v.failed, ENTRIES);
		for (u32 i = 0; i < ENTRIES; i++)
			KUNIT_ASSERT_EQ(test, HTW_ID_ERROR(t->array[IDS][i]), -ENOENT);
	}
	htw_test_expect_nothing(t->f);
}

/* Failing entries are marked, and nothing else is written; those behind are carried out. */
static void what_fails_does_not_end_a_vector(struct kunit *test)
{
	struct vectors *t = vectors(test);
	u64 *ids = htw_test_array(test, ENTRIES, sizeof(*ids));
	struct htw_cancel_args cancel;
	struct htw_vector_args v;
	u32 gone = 0;

	start_all(t);
	memcpy(ids, t->array[IDS], ARRAY_BYTES);
	for (u32 i = 0; i < ENTRIES; i += 1 + i % 7, gone++)
		KUNIT_ASSERT_EQ(test, htw_test_cancel(t->f, ids[i], &cancel), 0);
	for (u32 op = HTW_OP_MOD; op >= HTW_OP_CANCEL; op--) {
		u32 next = 0;

		memcpy(t->array[IDS], ids, ARRAY_BYTES);
		v = vector(t, op, op == HTW_OP_MOD ? HTW_MOD_DEADLINE : 0, ENTRIES);
		KUNIT_EXPECT_EQ(test, call(t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
		KUNIT_EXPECT_EQ(test, v.failed, gone);
		for (u32 i = 0; i < ENTRIES; i++) {
			const bool fails = i == next;

			if (fails)
				next += 1 + i % 7;
			KUNIT_ASSERT_EQ(test, t->array[IDS][i], fails ? (u64)-ENOENT : ids[i]);
		}
	}
	htw_test_expect_nothing(t->f);
}

/* What is beyond a limit fails, entry by entry; the others are armed, and none is lost. */
static void adds_beyond_the_limit_fail(struct kunit *test)
{
	const u32 limit = 300;
	struct vectors *t = vectors_of(test, htw_test_limited(test, limit));
	struct htw_vector_args v;

	for (u32 round = 0; round < 3; round++) {
		v = vector(t, HTW_OP_ADD, 0, ENTRIES);
		KUNIT_EXPECT_EQ(test, call(t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
		KUNIT_EXPECT_EQ(test, v.failed, ENTRIES - limit);
		for (u32 i = 0; i < ENTRIES; i++)
			KUNIT_ASSERT_EQ(test, HTW_ID_ERROR(t->array[IDS][i]),
					i < limit ? 0 : -ENOSPC);
		KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, limit);
		v = vector(t, HTW_OP_CANCEL, 0, limit);
		KUNIT_EXPECT_EQ(test, call(t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.failed, 0);
		htw_test_expect_nothing(t->f);
	}
}

static const u32 all_ops[] = { HTW_OP_ADD, HTW_OP_CANCEL, HTW_OP_MOD };

static void op_desc(const u32 *op, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "operation %u", *op);
}

KUNIT_ARRAY_PARAM(op, all_ops, op_desc);

/* Where an array's memory ends, so does the vector, and goes on from there when called again. */
static void memory_that_ends_ends_the_vector(struct kunit *test)
{
	const u32 op = *(const u32 *)test->param_value;
	const u32 flags = op == HTW_OP_MOD ? HTW_MOD_DEADLINE | HTW_MOD_COOKIE : 0;
	const u32 last = 5, fit = ENTRIES - last;

	for (u32 array = 0; array < ARRAYS; array++) {
		struct vectors *t = vectors(test);
		const unsigned long end = t->user[array] + ARRAY_PAGES * PAGE_SIZE;
		struct htw_vector_args v;
		u64 *entries[] = { &v.ids, &v.deadlines, &v.cookies };
		u64 before;

		start_all(t);
		before = ENTRIES;
		v = vector(t, op, flags, ENTRIES);
		if (!*entries[array])
			continue;
		/* So that the array's last entries are in memory that is not mapped. */
		*entries[array] = end - fit * sizeof(u64);
		htw_test_write(test, *entries[array], t->array[array], fit * sizeof(u64));
		KUNIT_EXPECT_EQ(test, htw_test_call(t->f, HTW_VECTOR, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, fit);
		KUNIT_EXPECT_EQ(test, v.failed, 0);
		if (op == HTW_OP_ADD)
			before += fit;
		else if (op == HTW_OP_CANCEL)
			before -= fit;
		KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, before);

		/* The rest alone: nothing of it can be done. */
		v.ids += fit * sizeof(u64);
		*entries[array] = end;
		v.count = last;
		KUNIT_EXPECT_EQ(test, htw_test_call(t->f, HTW_VECTOR, &v), -EFAULT);
		KUNIT_EXPECT_EQ(test, v.done, 0);
		KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, before);
	}
}

/* No timer is armed whose id could not be written: each that there is has its id in the array. */
static void adds_end_where_ids_cannot_be_written(struct kunit *test)
{
	static const u32 fits[] = { 1, 31, 32, 33, 255, 256, 257, 512, ENTRIES - 1 };

	for (u32 i = 0; i < ARRAY_SIZE(fits); i++) {
		struct vectors *t = vectors(test);
		struct htw_vector_args v = vector(t, HTW_OP_ADD, 0, ENTRIES);
		u32 found = 0;
		u64 id;

		htw_test_write(test, t->user[DEADLINES], t->array[DEADLINES], ARRAY_BYTES);
		/* Half of one more. */
		v.ids = t->user[IDS] + ARRAY_PAGES * PAGE_SIZE - fits[i] * sizeof(u64) - 4;
		KUNIT_EXPECT_EQ(test, htw_test_call(t->f, HTW_VECTOR, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, fits[i]);
		KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, fits[i]);
		for (u32 k = 0; k < fits[i]; k++) {
			struct htw_cancel_args cancel;

			htw_test_read(test, &id, v.ids + k * sizeof(u64), sizeof(id));
			found += !htw_test_cancel(t->f, id, &cancel);
		}
		KUNIT_EXPECT_EQ(test, found, fits[i]);
		htw_test_expect_nothing(t->f);
	}
}

/* Adds that fail count only if the program gets their errors; then the vector can go on there. */
static void failed_adds_count_where_memory_ends(struct kunit *test)
{
	const u32 limit = 10, fit = 12, count = 20;
	struct vectors *t = vectors_of(test, htw_test_limited(test, limit));
	struct htw_vector_args v = vector(t, HTW_OP_ADD, 0, count);

	v.ids = t->user[IDS] + ARRAY_PAGES * PAGE_SIZE - fit * sizeof(u64);
	htw_test_write(test, t->user[DEADLINES], t->array[DEADLINES], ARRAY_BYTES);
	KUNIT_EXPECT_EQ(test, htw_test_call(t->f, HTW_VECTOR, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, fit);
	KUNIT_EXPECT_EQ(test, v.failed, fit - limit);
	KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, limit);
}

/* Errors are written in the same way: what follows one that cannot be is not counted as done. */
static void failed_cancels_end_where_memory_is_read_only(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector_args v = vector(t, HTW_OP_CANCEL, 0, 3);
	const unsigned long page = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ,
						 MAP_ANONYMOUS | MAP_PRIVATE, 0);

	KUNIT_ASSERT_NE(test, page, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(page));
	htw_test_start(t->f, U64_MAX, 1);
	/* Zeroes, which are no ids. */
	v.ids = page;
	KUNIT_EXPECT_EQ(test, htw_test_call(t->f, HTW_VECTOR, &v), -EFAULT);
	KUNIT_EXPECT_EQ(test, v.done, 0);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, 1);
}

/* Where no operation fails, the ids stay as they are. */
static void ids_of_cancels_stay(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector_args v = vector(t, HTW_OP_CANCEL, 0, ENTRIES);

	start_all(t);
	htw_test_write(test, t->user[IDS], t->array[IDS], ARRAY_BYTES);
	KUNIT_EXPECT_EQ(test, htw_test_call(t->f, HTW_VECTOR, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	htw_test_read(test, t->array[COOKIES], t->user[IDS], ARRAY_BYTES);
	KUNIT_EXPECT_MEMEQ(test, t->array[COOKIES], t->array[IDS], ARRAY_BYTES);
}

/* @done and @failed are in memory that cannot be written. */
static void argument_that_is_read_only(struct kunit *test)
{
	const struct htw_vector_args v = { .op = HTW_OP_CANCEL };
	struct vectors *t = vectors(test);
	const unsigned long first = htw_test_user_pages(test, 2), second = first + PAGE_SIZE;
	const unsigned long arg = second - offsetof(struct htw_vector_args, failed);
	const size_t rest = sizeof(v) - offsetof(struct htw_vector_args, failed);

	/* What precedes @failed is in the read-only page, whose zeroes are valid. */
	KUNIT_ASSERT_EQ(test, first,
			kunit_vm_mmap(test, NULL, first, PAGE_SIZE, PROT_READ,
				      MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, 0));
	htw_test_write(test, second, &v.failed, rest);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(t->f, HTW_VECTOR, arg), -EFAULT);
}

/* A signal ends it behind what was done; the program goes on from there. */
static void signal_ends_a_vector(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector_args v = vector(t, HTW_OP_ADD, HTW_F_ABS, ENTRIES);
	long ret;

	set_thread_flag(TIF_SIGPENDING);
	ret = call(t, &v);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, ret, 0);
	KUNIT_EXPECT_GT(test, v.done, 0);
	KUNIT_EXPECT_LT(test, v.done, ENTRIES);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, htw_test_info(t->f).timers, v.done);
}

static struct kunit_case htw_vector_cases[] = {
	KUNIT_CASE(each_entry_is_a_timer),
	KUNIT_CASE(entries_share_fields),
	KUNIT_CASE(entries_are_in_order),
	KUNIT_CASE(cancels_in_any_state),
	KUNIT_CASE_PARAM(arguments_are_checked, wrong_gen_params),
	KUNIT_CASE(nothing_is_found_in_a_fresh_context),
	KUNIT_CASE(what_fails_does_not_end_a_vector),
	KUNIT_CASE(adds_beyond_the_limit_fail),
	KUNIT_CASE_PARAM(memory_that_ends_ends_the_vector, op_gen_params),
	KUNIT_CASE(adds_end_where_ids_cannot_be_written),
	KUNIT_CASE(failed_adds_count_where_memory_ends),
	KUNIT_CASE(failed_cancels_end_where_memory_is_read_only),
	KUNIT_CASE(ids_of_cancels_stay),
	KUNIT_CASE(argument_that_is_read_only),
	KUNIT_CASE(signal_ends_a_vector),
	{}
};

static struct kunit_suite htw_vector_suite = {
	.name = "htw_vector",
	.test_cases = htw_vector_cases,
};

kunit_test_suite(htw_vector_suite);

MODULE_DESCRIPTION("KUnit: HTW_VECTOR");
MODULE_LICENSE("GPL");
