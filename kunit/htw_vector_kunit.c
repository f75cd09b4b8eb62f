// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: HTW_VECTOR has the effect of its operations one by one
 *
 * Random vectors on one context, and the same operations as single calls on
 * another one: results, timers and events must be the same. On manual clocks
 * they are exactly the same, but there each entry has a section of its own. On
 * CLOCK_MONOTONIC entries share sections; timers expire only with time travel.
 */
#include <kunit/test.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/prandom.h>
#include <linux/uaccess.h>

#include "../core/advance.h"
#include "../core/vector.h"
#include "htw_kunit.h"

#define TIMERS			700u
/* More than two batches of a vector. */
#define ENTRIES			600u
#define ARRAY_SIZE_BYTES	PAGE_ALIGN(ENTRIES * sizeof(u64))
#define TICK			htw_tick_ns

enum { IDS, DEADLINES, COOKIES, ARRAYS };

/*
 * @ctx: the context
 * @array: what is in memory before a call; the ids also after it
 * @user: where that is, and at the end a page for the argument
 */
struct vectors {
	struct htw_context *ctx;
	u64 array[ARRAYS][ENTRIES];
	unsigned long user[ARRAYS + 1];
};

static struct htw_context *manual_context(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct htw_context *ctx = htw_test_context(test);

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	return ctx;
}

/* Each array is followed by a page that can be unmapped. */
static struct vectors *vectors_of(struct kunit *test, struct htw_context *ctx)
{
	struct vectors *t = htw_test_array(test, 1, sizeof(*t));

	t->ctx = ctx;
	for (u32 i = 0; i <= ARRAYS; i++)
		t->user[i] = htw_test_user_pages(test, ARRAY_SIZE_BYTES / PAGE_SIZE + 1);
	return t;
}

static struct vectors *vectors(struct kunit *test)
{
	return vectors_of(test, manual_context(test));
}

/* A vector of @count entries of the arrays from the first one on. */
static struct htw_vector vector(const struct vectors *t, u16 op, u32 flags, u32 count)
{
	struct htw_vector v = {
		.ids = t->user[IDS], .op = op, .flags = flags, .count = count,
		/* The call must not count on from these. */
		.done = 77, .failed = 77,
	};

	if (op == HTW_OP_ADD || flags & HTW_MOD_DEADLINE)
		v.deadlines = t->user[DEADLINES];
	if (op == HTW_OP_ADD || flags & HTW_MOD_COOKIE)
		v.cookies = t->user[COOKIES];
	return v;
}

static long call(struct kunit *test, struct vectors *t, struct htw_vector *v)
{
	void __user *arg = (void __user *)t->user[ARRAYS];
	long ret;

	for (u32 i = 0; i < ARRAYS; i++)
		KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)t->user[i], t->array[i],
						   sizeof(t->array[i])), 0);
	KUNIT_ASSERT_EQ(test, copy_to_user(arg, v, sizeof(*v)), 0);
	ret = htw_op_vector(t->ctx, arg);
	KUNIT_ASSERT_EQ(test, copy_from_user(v, arg, sizeof(*v)), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(t->array[IDS], (void __user *)t->user[IDS],
					     sizeof(t->array[IDS])), 0);
	return ret;
}

/* The same as a single call. Return its result; an add sets @id. */
static long single(struct htw_context *ctx, const struct htw_vector *v, u64 *id, u64 deadline,
		   u64 cookie)
{
	struct htw_add add = {
		.deadline = deadline, .cookie = cookie, .interval = v->interval,
		.slack = v->slack, .flags = v->flags, .firings = v->firings,
	};
	struct htw_mod mod = {
		.id = *id, .deadline = v->flags & HTW_MOD_DEADLINE ? deadline : 0,
		.cookie = v->flags & HTW_MOD_COOKIE ? cookie : 0, .interval = v->interval,
		.slack = v->slack, .flags = v->flags, .firings = v->firings,
	};
	struct htw_cancel cancel = { .id = *id, .flags = v->flags };
	struct htw_test_call c;
	long ret;

	if (v->op == HTW_OP_MOD)
		return htw_test_mod(ctx, &mod);
	if (v->op == HTW_OP_CANCEL)
		return htw_test_cancel(ctx, &cancel);
	htw_test_call_begin(&c, &add, sizeof(add));
	ret = htw_op_add(ctx, c.arg);
	htw_test_call_end(&c, &add, sizeof(add));
	*id = add.id;
	return ret;
}

/*
 * @v: the context of the vectors, and their arrays
 * @singles: the context of the single calls
 * @manual: are their clocks manual?
 * @ids: the ids of each timer, in both; zero before it is added
 * @time: of both clocks, a multiple of GRID ticks; without time travel, far from now
 */
struct pair {
	struct vectors *v;
	struct htw_context *singles;
	bool manual;
	u64 ids[2][TIMERS];
	u32 timer[ENTRIES];
	u64 time;
	struct rnd_state rnd;
};

/* On CLOCK_MONOTONIC timers expire in the middle between two times at which the test looks. */
#define GRID			8u
#define LATER			(3600 * (u64)NSEC_PER_SEC)

static bool expires(const struct pair *p)
{
	return p->manual || IS_ENABLED(CONFIG_UML_TIME_TRAVEL_SUPPORT);
}

static u32 below(struct pair *p, u32 n)
{
	return prandom_u32_state(&p->rnd) % n;
}

static void expect_same_timers(struct kunit *test, struct pair *p)
{
	for (u32 i = 0; i < TIMERS; i++) {
		struct htw_query a = { .id = p->ids[0][i] }, b = { .id = p->ids[1][i] };
		const int ret = htw_test_query(p->v->ctx, &a);

		KUNIT_ASSERT_EQ(test, ret, htw_test_query(p->singles, &b));
		if (ret)
			continue;
		KUNIT_ASSERT_EQ(test, a.state, b.state);
		if (p->manual) {
			KUNIT_ASSERT_EQ(test, a.deadline, b.deadline);
			KUNIT_ASSERT_EQ(test, a.remaining, b.remaining);
		} else {
			/* The clock goes on between the calls. */
			KUNIT_ASSERT_LT(test, abs((s64)(a.deadline - b.deadline)), TICK / 4);
		}
		KUNIT_ASSERT_EQ(test, a.interval, b.interval);
		KUNIT_ASSERT_EQ(test, a.cookie, b.cookie);
		KUNIT_ASSERT_EQ(test, a.missed, b.missed);
		KUNIT_ASSERT_EQ(test, a.firings, b.firings);
		KUNIT_ASSERT_EQ(test, a.flags, b.flags);
	}
	KUNIT_ASSERT_EQ(test, htw_test_nr_timers(p->v->ctx), htw_test_nr_timers(p->singles));
}

/* On a manual clock, read some events of each; there they come in the order of arming. */
static void expect_same_events(struct kunit *test, struct pair *p, u32 most)
{
	struct htw_event a[8], b[8];
	u32 n;

	for (; most; most--) {
		n = htw_test_read(p->v->ctx, a, ARRAY_SIZE(a));
		KUNIT_ASSERT_EQ(test, n, htw_test_read(p->singles, b, ARRAY_SIZE(b)));
		for (u32 i = 0; i < n; i++) {
			KUNIT_ASSERT_EQ(test, a[i].cookie, b[i].cookie);
			KUNIT_ASSERT_EQ(test, a[i].deadline, b[i].deadline);
			KUNIT_ASSERT_EQ(test, a[i].fired, b[i].fired);
			KUNIT_ASSERT_EQ(test, a[i].missed, b[i].missed);
			KUNIT_ASSERT_EQ(test, a[i].flags, b[i].flags);
		}
		if (n < ARRAY_SIZE(a))
			return;
	}
}

/* Read all events. Return a sum in which their order does not matter. */
static u64 sum_of_events(struct htw_context *ctx)
{
	struct htw_event events[8];
	u64 sum = 0;
	u32 n;

	do {
		n = htw_test_read(ctx, events, ARRAY_SIZE(events));
		for (u32 i = 0; i < n; i++)
			sum += hash_64(events[i].cookie ^ events[i].missed << 40 ^
				       (u64)events[i].flags << 56, 64);
	} while (n);
	return sum;
}

/* Flags and fields that all entries share, as often as not none. */
static void choose_fields(struct pair *p, struct htw_vector *v)
{
	const bool some = below(p, 2);

	switch (v->op) {
	case HTW_OP_ADD:
		v->flags = some ? below(p, 4) : below(p, 2) ? HTW_F_ABS : 0;
		if (some && below(p, 2))
			v->interval = (1 + below(p, 9)) * GRID * TICK;
		if (v->interval && below(p, 2))
			v->firings = 1 + below(p, 3);
		if (some && below(p, 2))
			v->slack = below(p, 3) * TICK;
		break;
	case HTW_OP_MOD:
		v->flags = some ? (1 + below(p, 15)) * HTW_MOD_DEADLINE : HTW_MOD_DEADLINE;
		if (v->flags & HTW_MOD_DEADLINE && below(p, 2))
			v->flags |= HTW_F_ABS;
		if (v->flags & HTW_MOD_INTERVAL)
			v->interval = (1 + below(p, 9)) * GRID * TICK;
		if (v->flags & HTW_MOD_SLACK)
			v->slack = below(p, 3) * TICK;
		break;
	case HTW_OP_CANCEL:
		v->flags = some ? HTW_CANCEL_DISCARD : 0;
		break;
	}
	if (!expires(p) && (v->op == HTW_OP_ADD || v->flags & HTW_MOD_DEADLINE))
		v->flags |= HTW_F_ABS;
}

/* Within some hundred revolutions of the first level; on a manual clock also now. */
static u64 choose_delay(struct pair *p)
{
	if (p->manual && !below(p, 20))
		return 0;
	return (1 + below(p, 150)) * (u64)GRID * TICK - GRID / 2 * TICK + TICK / 4 +
	       below(p, TICK / 2);
}

/* Most of the timers are known; some were never, and some have ended. */
static void choose_timers(struct pair *p, struct htw_vector *v)
{
	const u64 from = v->flags & HTW_F_ABS ? p->time : 0;

	for (u32 i = 0; i < v->count; i++) {
		p->timer[i] = v->op == HTW_OP_ADD ? (p->timer[0] + i) % TIMERS : below(p, TIMERS);
		p->v->array[IDS][i] = v->op == HTW_OP_ADD ? ~0ULL : p->ids[0][p->timer[i]];
		p->v->array[DEADLINES][i] = from + choose_delay(p);
		p->v->array[COOKIES][i] = prandom_u32_state(&p->rnd);
	}
}

static void random_vector(struct kunit *test, struct pair *p, u16 op)
{
	static const u32 counts[] = { 1, 2, 7, 8, 9, 255, 256, 257, ENTRIES };
	const u32 count = counts[below(p, ARRAY_SIZE(counts))];
	struct htw_vector v = { .op = op };
	struct htw_vector passed;
	u32 failed = 0;

	choose_fields(p, &v);
	passed = vector(p->v, op, v.flags, count);
	passed.interval = v.interval;
	passed.slack = v.slack;
	passed.firings = v.firings;
	if (op != HTW_OP_CANCEL && !below(p, 4))
		passed.cookies = 0;
	p->timer[0] = below(p, TIMERS);
	choose_timers(p, &passed);
	v = passed;
	KUNIT_ASSERT_EQ(test, call(test, p->v, &v), 0);
	KUNIT_ASSERT_EQ(test, v.done, count);
	for (u32 i = 0; i < count; i++) {
		u64 *ids = p->v->array[IDS], *id = &p->ids[1][p->timer[i]];
		const long ret = single(p->singles, &passed, id, p->v->array[DEADLINES][i],
					passed.cookies ? p->v->array[COOKIES][i] : 0);

		failed += !!ret;
		KUNIT_ASSERT_EQ(test, HTW_ID_ERROR(ids[i]), ret);
		if (op == HTW_OP_ADD)
			p->ids[0][p->timer[i]] = ids[i];
		else if (!ret)
			KUNIT_ASSERT_EQ(test, ids[i], p->ids[0][p->timer[i]]);
	}
	KUNIT_ASSERT_EQ(test, v.failed, failed);
	/* Nothing is written behind the entries. */
	if (count < ENTRIES)
		KUNIT_ASSERT_EQ(test, p->v->array[IDS][count], 0);
	memset(p->v->array[IDS], 0, sizeof(p->v->array[IDS]));
}

/* Let timers expire, if they do. */
static void pass_time(struct kunit *test, struct pair *p)
{
	p->time += below(p, 40) * (u64)GRID * TICK;
	if (p->manual)
		KUNIT_ASSERT_EQ(test, htw_advance_context(p->v->ctx, p->time),
				htw_advance_context(p->singles, p->time));
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	else
		htw_test_sleep_until(test, p->time);
#endif
}

static void compare_with_single_calls(struct kunit *test, bool manual)
{
	static const u16 ops[] = { HTW_OP_ADD, HTW_OP_MOD, HTW_OP_MOD, HTW_OP_CANCEL };
	const u32 rounds = IS_ENABLED(CONFIG_UML) ? 200 : 30;
	struct pair *p = htw_test_array(test, 1, sizeof(*p));

	p->manual = manual;
	p->v = vectors_of(test, manual ? manual_context(test) : htw_test_context(test));
	p->singles = manual ? manual_context(test) : htw_test_context(test);
	p->time = manual ? 0 : roundup(htw_now() + TICK, (u64)GRID * TICK);
	if (!expires(p))
		p->time += LATER;
	prandom_seed_state(&p->rnd, 1);
	pass_time(test, p);
	random_vector(test, p, HTW_OP_ADD);
	for (u32 round = 0; round < rounds; round++) {
		random_vector(test, p, ops[below(p, ARRAY_SIZE(ops))]);
		expect_same_timers(test, p);
		pass_time(test, p);
		expect_same_timers(test, p);
		/* Expirations that are not read are cancelled and put off as well. */
		if (manual)
			expect_same_events(test, p, below(p, 6));
		else if (!below(p, 3))
			KUNIT_ASSERT_EQ(test, sum_of_events(p->v->ctx), sum_of_events(p->singles));
	}
	KUNIT_EXPECT_EQ(test, sum_of_events(p->v->ctx), sum_of_events(p->singles));
}

static void as_one_by_one(struct kunit *test)
{
	compare_with_single_calls(test, true);
}

static void as_one_by_one_in_sections(struct kunit *test)
{
	compare_with_single_calls(test, false);
}

/*
 * A vector with one thing wrong, if anything; nothing of an invalid one is
 * carried out
 */
struct wrong {
	const char *name;
	struct htw_vector v;	/* an address of one stands for the array */
	long ret;
	bool needs_array;	/* and without entries it is not wrong */
};

static const struct wrong wrongs[] = {
	{ "add", { 1, 1, 1, .op = HTW_OP_ADD }, 0 },
	{ "add without cookies", { 1, 1, .op = HTW_OP_ADD }, 0 },
	{ "add without ids", { 0, 1, 1, .op = HTW_OP_ADD }, -EINVAL, true },
	{ "add without deadlines", { 1, 0, 1, .op = HTW_OP_ADD }, -EINVAL, true },
	{ "add, unknown flag", { 1, 1, 1, .op = HTW_OP_ADD, .flags = 1 << 3 }, -EINVAL },
	{ "add, flag of a mod", { 1, 1, .op = HTW_OP_ADD, .flags = HTW_MOD_DEADLINE }, -EINVAL },
	{ "add, firings without interval", { 1, 1, .op = HTW_OP_ADD, .firings = 1 }, -EINVAL },
	{ "add, reserved", { 1, 1, .op = HTW_OP_ADD, .reserved0 = 1 }, -EINVAL },
	{ "add, a ring's tail", { 1, 1, .op = HTW_OP_ADD, .ring_tail = 1 }, -EINVAL },
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
	{ "mod of what was read", { 1, .op = HTW_OP_MOD, .flags = HTW_MOD_UNREAD }, -EINVAL },
	{ "mod, interval for nothing",
	  { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE, .interval = 1 }, -EINVAL },
	{ "mod, a ring's tail",
	  { 1, 1, .op = HTW_OP_MOD, .flags = HTW_MOD_DEADLINE, .ring_tail = 1 }, -EINVAL },
	{ "cancel", { 1, .op = HTW_OP_CANCEL }, 0 },
	{ "cancel without ids", { .op = HTW_OP_CANCEL }, -EINVAL, true },
	{ "cancel, deadlines", { 1, 1, .op = HTW_OP_CANCEL }, -EINVAL },
	{ "cancel, cookies", { 1, 0, 1, .op = HTW_OP_CANCEL }, -EINVAL },
	{ "cancel, interval", { 1, .op = HTW_OP_CANCEL, .interval = 1 }, -EINVAL },
	{ "cancel, slack", { 1, .op = HTW_OP_CANCEL, .slack = 1 }, -EINVAL },
	{ "cancel, firings", { 1, .op = HTW_OP_CANCEL, .firings = 1 }, -EINVAL },
	{ "cancel, unknown flag", { 1, .op = HTW_OP_CANCEL, .flags = 2 }, -EINVAL },
	{ "cancel, a tail without a ring", { 1, .op = HTW_OP_CANCEL, .ring_tail = 1ULL << 32 },
	  -EINVAL },
	{ "query", { 1, .op = HTW_OP_QUERY }, -EINVAL },
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
	struct htw_vector v = vector(t, HTW_OP_ADD, 0, 2), passed;
	u64 ids[2];

	t->array[DEADLINES][0] = TICK;
	t->array[DEADLINES][1] = TICK;
	KUNIT_ASSERT_EQ(test, call(test, t, &v), 0);
	memcpy(ids, t->array[IDS], sizeof(ids));

	passed = w->v;
	passed.ids = w->v.ids ? t->user[IDS] : 0;
	passed.deadlines = w->v.deadlines ? t->user[DEADLINES] : 0;
	passed.cookies = w->v.cookies ? t->user[COOKIES] : 0;
	passed.count = 1;
	v = passed;
	KUNIT_EXPECT_EQ(test, call(test, t, &v), w->ret);
	if (w->ret) {
		KUNIT_EXPECT_MEMEQ(test, &v, &passed, sizeof(v));
		KUNIT_EXPECT_MEMEQ(test, t->array[IDS], ids, sizeof(ids));
		KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), 2);
	} else {
		KUNIT_EXPECT_EQ(test, v.done, 1);
		KUNIT_EXPECT_EQ(test, v.failed, 0);
	}

	/* Without entries no array is needed, but those that are not taken are still refused. */
	passed.count = 0;
	v = passed;
	KUNIT_EXPECT_EQ(test, call(test, t, &v), w->needs_array ? 0 : w->ret);
}

/* Before anything has been armed no id is known. */
static void nothing_is_found_in_a_fresh_context(struct kunit *test)
{
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v;

	for (u16 op = HTW_OP_CANCEL; op <= HTW_OP_MOD; op++) {
		for (u32 i = 0; i < ENTRIES; i++)
			t->array[IDS][i] = i ? i : (u64)-EIO;
		v = vector(t, op, op == HTW_OP_MOD ? HTW_MOD_DEADLINE : 0, ENTRIES);
		KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
		KUNIT_EXPECT_EQ(test, v.failed, ENTRIES);
		for (u32 i = 0; i < ENTRIES; i++)
			KUNIT_ASSERT_EQ(test, HTW_ID_ERROR(t->array[IDS][i]), -ENOENT);
	}
}

/* What is beyond a limit fails, entry by entry; the others are armed. */
static void adds_beyond_the_limit_fail(struct kunit *test)
{
	const u32 limit = 300;
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v = vector(t, HTW_OP_ADD, 0, ENTRIES);
	size_t nr_free;

	t->ctx->limit = limit;
	for (u32 i = 0; i < ENTRIES; i++)
		t->array[DEADLINES][i] = LATER;
	KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
	KUNIT_EXPECT_EQ(test, v.failed, ENTRIES - limit);
	for (u32 i = 0; i < ENTRIES; i++)
		KUNIT_ASSERT_EQ(test, HTW_ID_ERROR(t->array[IDS][i]), i < limit ? 0 : -ENOSPC);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), limit);
	nr_free = htw_test_nr_free(t->ctx);

	/* No timer was reserved in vain. */
	v = vector(t, HTW_OP_CANCEL, 0, limit);
	KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(t->ctx), nr_free + limit);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/*
 * A section ends early, and another one goes on, if a turn wants the base: each of them programs
 * the hrtimer, as their deadlines are earlier than all others.
 */
static void vector_makes_way(struct kunit *test)
{
	const u32 count = 256;
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v = vector(t, HTW_OP_ADD, 0, count);
	/* Of a bucket of the third level, and of the window of all of these. */
	const u64 bucket = (TICK << (8 + 6)), window = bucket << 6;
	struct htw_base *base;
	u64 programs;

	htw_test_sleep_until(test, (div64_u64(htw_now(), window) + 1) * window + TICK);
	htw_test_start(test, t->ctx, U64_MAX, 1);
	base = htw_test_base(0);
	for (u32 wanted = 0; wanted < 2; wanted++) {
		for (u32 i = 0; i < count; i++)
			t->array[DEADLINES][i] = (40 - 20 * wanted - i / 32) * bucket;
		WRITE_ONCE(base->wanted_at, jiffies);
		WRITE_ONCE(base->wanted, wanted);
		programs = base->programs;
		KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, count);
		KUNIT_EXPECT_EQ(test, base->programs - programs, 1 + wanted);
		WRITE_ONCE(base->wanted, false);
	}
}

/* Wheels whose levels are no powers of two make way after half as many operations. */
static void sections_on_odd_wheels_are_shorter(struct kunit *test)
{
	static const struct htw_setup setups[] = {
		{ .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 3,
		  .slots = { 64, 64, 64 } },
		{ .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 3,
		  .slots = { 60, 60, 60 } },
	};
	u64 programs[ARRAY_SIZE(setups)];

	for (u32 n = 0; n < ARRAY_SIZE(setups); n++) {
		struct vectors *t = vectors_of(test, htw_test_context(test));
		struct htw_vector v = vector(t, HTW_OP_ADD, 0, ENTRIES);

		KUNIT_ASSERT_EQ(test, htw_setup_context(t->ctx, &setups[n]), 0);
		/* Each section programs the hrtimer, once: its entries are ever earlier. */
		for (u32 i = 0; i < ENTRIES; i++)
			t->array[DEADLINES][i] = (ENTRIES + 20 - i) * 300 * (u64)NSEC_PER_MSEC;
		programs[n] = t->ctx->private_base->programs;
		KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
		KUNIT_EXPECT_EQ(test, v.done, ENTRIES);
		programs[n] = t->ctx->private_base->programs - programs[n];
	}
	KUNIT_EXPECT_GE(test, programs[0], 2);
	KUNIT_EXPECT_GE(test, programs[1], 3 * programs[0] / 2);
}

/* It gets the base after 32 operations. */
static void vector_looks_whether_a_turn_waits(struct kunit *test)
{
	const u32 count = 64;
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v = vector(t, HTW_OP_ADD, 0, count);
	struct htw_test_section_end end;

	htw_test_start(test, t->ctx, U64_MAX, 1);
	for (u32 i = 0; i < count; i++)
		t->array[DEADLINES][i] = LATER;
	htw_test_section_end(&end, htw_test_base(0));
	KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
	tasklet_kill(&end.tasklet);
	KUNIT_EXPECT_EQ(test, v.done, count);
	KUNIT_EXPECT_EQ(test, end.started, 32);
}
#endif

static void restore_limit(void *limit)
{
	WRITE_ONCE(htw_max_user_timers, (unsigned long)limit);
}

/* Those for which there is no room yet, as a closed context has not been freed, wait for that. */
static void adds_wait_for_what_is_being_freed(struct kunit *test)
{
	const u32 count = 256, pages = 5;
	struct htw_context *closed = htw_test_context_of(test, 4711);
	struct vectors *t = vectors_of(test, htw_test_context_of(test, 4711));
	struct htw_vector v = vector(t, HTW_OP_ADD, HTW_F_ABS, count);
	const u64 from = htw_now() + LATER;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_limit,
							(void *)(unsigned long)htw_max_user_timers),
			0);
	WRITE_ONCE(htw_max_user_timers, pages * HTW_PAGE_TIMERS);
	for (u32 i = 0; i < 3 * HTW_PAGE_TIMERS; i++)
		htw_test_start(test, closed, from, i);
	for (u32 i = 0; i < count; i++) {
		t->array[DEADLINES][i] = from + i;
		t->array[COOKIES][i] = i;
	}
	kunit_remove_action(test, htw_test_close, closed);
	htw_contexts_close(closed);
	KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
	KUNIT_EXPECT_EQ(test, v.done, count);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), count);
	for (u32 i = 0; i < count; i++) {
		struct htw_query query = { .id = t->array[IDS][i] };

		KUNIT_ASSERT_EQ(test, htw_test_query(t->ctx, &query), 0);
		KUNIT_ASSERT_EQ(test, query.deadline, from + i);
		KUNIT_ASSERT_EQ(test, query.cookie, i);
	}
}

static const u16 all_ops[] = { HTW_OP_ADD, HTW_OP_CANCEL, HTW_OP_MOD };

static void op_desc(const u16 *op, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "operation %u", *op);
}

KUNIT_ARRAY_PARAM(op, all_ops, op_desc);

/* Where an array's memory ends, so does the vector, and goes on from there when called again. */
static void memory_that_ends_ends_the_vector(struct kunit *test)
{
	const u16 op = *(const u16 *)test->param_value;
	const u32 flags = op == HTW_OP_MOD ? HTW_MOD_DEADLINE | HTW_MOD_COOKIE : 0;
	const u32 last = 5, fit = ENTRIES - last;

	for (u32 array = 0; array < ARRAYS; array++) {
		struct vectors *t = vectors_of(test, htw_test_context(test));
		struct htw_vector v = vector(t, HTW_OP_ADD, 0, ENTRIES), passed;
		u64 *entries[] = { &passed.ids, &passed.deadlines, &passed.cookies };
		const unsigned long end = t->user[array] + ARRAY_SIZE_BYTES;
		u32 before;

		for (u32 i = 0; i < ENTRIES; i++)
			t->array[DEADLINES][i] = LATER;
		KUNIT_ASSERT_EQ(test, call(test, t, &v), 0);
		before = htw_test_nr_timers(t->ctx);

		passed = vector(t, op, flags, ENTRIES);
		if (!*entries[array])
			continue;
		/* So that the array's last entries are in memory that is not mapped. */
		KUNIT_ASSERT_EQ(test, vm_munmap(end, PAGE_SIZE), 0);
		*entries[array] = end - fit * sizeof(u64);
		KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)(unsigned long)*entries[array],
						   t->array[array], fit * sizeof(u64)), 0);
		KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)t->user[ARRAYS], &passed,
						   sizeof(passed)), 0);
		KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, (void __user *)t->user[ARRAYS]), 0);
		KUNIT_ASSERT_EQ(test, copy_from_user(&v, (void __user *)t->user[ARRAYS],
						     sizeof(v)), 0);
		KUNIT_EXPECT_EQ(test, v.done, fit);
		KUNIT_EXPECT_EQ(test, v.failed, 0);
		KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx),
				op == HTW_OP_ADD ? before + fit :
				op == HTW_OP_CANCEL ? before - fit : before);

		/* The rest alone: nothing of it can be done. */
		passed.ids += fit * sizeof(u64);
		*entries[array] = end;
		passed.count = last;
		KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)t->user[ARRAYS], &passed,
						   sizeof(passed)), 0);
		before = htw_test_nr_timers(t->ctx);
		KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, (void __user *)t->user[ARRAYS]),
				-EFAULT);
		KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), before);
	}
}

/* Adds that fail count only if the program gets their errors; then the vector can go on there. */
static void failed_adds_count_where_memory_ends(struct kunit *test)
{
	const u32 limit = 10, fit = 12, count = 20;
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v = vector(t, HTW_OP_ADD, 0, count);
	void __user *arg = (void __user *)t->user[ARRAYS];
	const unsigned long end = t->user[IDS] + ARRAY_SIZE_BYTES;

	t->ctx->limit = limit;
	KUNIT_ASSERT_EQ(test, vm_munmap(end, PAGE_SIZE), 0);
	v.ids = end - fit * sizeof(u64);
	for (u32 i = 0; i < count; i++)
		t->array[DEADLINES][i] = LATER;
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)t->user[DEADLINES], t->array[DEADLINES],
					   sizeof(t->array[DEADLINES])), 0);
	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &v, sizeof(v)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, arg), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&v, arg, sizeof(v)), 0);
	KUNIT_EXPECT_EQ(test, v.done, fit);
	KUNIT_EXPECT_EQ(test, v.failed, fit - limit);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), limit);
}

/* Errors are written in the same way: what follows one that cannot be is not counted as done. */
static void failed_cancels_end_where_memory_is_read_only(struct kunit *test)
{
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v = vector(t, HTW_OP_CANCEL, 0, 3);
	void __user *arg = (void __user *)t->user[ARRAYS];
	const unsigned long page = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ,
						 MAP_ANONYMOUS | MAP_PRIVATE, 0);

	KUNIT_ASSERT_NE(test, page, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(page));
	htw_test_start(test, t->ctx, U64_MAX, 1);
	/* Zeroes, which are no ids. */
	v.ids = page;
	KUNIT_ASSERT_EQ(test, copy_to_user(arg, &v, sizeof(v)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, arg), -EFAULT);
	KUNIT_ASSERT_EQ(test, copy_from_user(&v, arg, sizeof(v)), 0);
	KUNIT_EXPECT_EQ(test, v.done, 0);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(t->ctx), 1);
}

/* The argument itself. */
static void argument_that_is_not_there(struct kunit *test)
{
	struct vectors *t = vectors(test);
	const unsigned long end = t->user[ARRAYS] + ARRAY_SIZE_BYTES;

	KUNIT_ASSERT_EQ(test, vm_munmap(end, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, (void __user *)end), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, (void __user *)(end - 8)), -EFAULT);
}

/* Nor one of which a part cannot be written. */
static void argument_that_is_read_only(struct kunit *test)
{
	const struct htw_vector v = { .op = HTW_OP_CANCEL };
	struct vectors *t = vectors(test);
	const unsigned long first = htw_test_user_pages(test, 3);
	const unsigned long middle = first + PAGE_SIZE, last = middle + PAGE_SIZE;
	unsigned long from;

	KUNIT_ASSERT_EQ(test, middle,
			kunit_vm_mmap(test, NULL, middle, PAGE_SIZE, PROT_READ,
				      MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, 0));
	/* What precedes @failed is in the read-only page, whose zeroes are valid. */
	from = last - offsetof(struct htw_vector, failed);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)last, &v.failed,
					   sizeof(v) - offsetof(struct htw_vector, failed)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, (void __user *)from), -EFAULT);
	/* @ring_tail is. */
	from = middle - offsetof(struct htw_vector, ring_tail);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)from, &v,
					   offsetof(struct htw_vector, ring_tail)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_vector(t->ctx, (void __user *)from), -EFAULT);
}

/* Relative deadlines count from the call, of each entry. */
static void relative_deadlines_are_from_now(struct kunit *test)
{
	struct vectors *t = vectors(test);
	struct htw_vector v = vector(t, HTW_OP_ADD, 0, 3);

	KUNIT_ASSERT_EQ(test, htw_advance_context(t->ctx, 1000 * (u64)TICK), 0);
	for (u32 i = 0; i < 3; i++)
		t->array[DEADLINES][i] = i * TICK + 1;
	KUNIT_ASSERT_EQ(test, call(test, t, &v), 0);
	for (u32 i = 1; i < 3; i++) {
		struct htw_query query = { .id = t->array[IDS][i] };

		KUNIT_ASSERT_EQ(test, htw_test_query(t->ctx, &query), 0);
		KUNIT_EXPECT_EQ(test, query.deadline, (1000 + i) * (u64)TICK + 1);
		KUNIT_EXPECT_EQ(test, query.remaining, i * TICK + 1);
	}
}

/* It says how much was done. */
static void signal_ends_a_vector(struct kunit *test)
{
	struct vectors *t = vectors_of(test, htw_test_context(test));
	struct htw_vector v = vector(t, HTW_OP_ADD, HTW_F_ABS, ENTRIES);

	for (u32 i = 0; i < ENTRIES; i++)
		t->array[DEADLINES][i] = U64_MAX;
	set_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_EQ(test, call(test, t, &v), 0);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_GT(test, v.done, 0);
	KUNIT_EXPECT_LT(test, v.done, ENTRIES);
	KUNIT_EXPECT_EQ(test, v.failed, 0);
	KUNIT_EXPECT_EQ(test, t->ctx->nr_timers, v.done);
}

static struct kunit_case htw_vector_cases[] = {
	KUNIT_CASE_SLOW(as_one_by_one),
	KUNIT_CASE_SLOW(as_one_by_one_in_sections),
	KUNIT_CASE_PARAM(arguments_are_checked, wrong_gen_params),
	KUNIT_CASE(nothing_is_found_in_a_fresh_context),
	KUNIT_CASE(adds_beyond_the_limit_fail),
	KUNIT_CASE(adds_wait_for_what_is_being_freed),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(vector_makes_way),
	KUNIT_CASE(sections_on_odd_wheels_are_shorter),
	KUNIT_CASE(vector_looks_whether_a_turn_waits),
#endif
	KUNIT_CASE_PARAM(memory_that_ends_ends_the_vector, op_gen_params),
	KUNIT_CASE(failed_adds_count_where_memory_ends),
	KUNIT_CASE(failed_cancels_end_where_memory_is_read_only),
	KUNIT_CASE(argument_that_is_not_there),
	KUNIT_CASE(argument_that_is_read_only),
	KUNIT_CASE(relative_deadlines_are_from_now),
	KUNIT_CASE(signal_ends_a_vector),
	{}
};

static struct kunit_suite htw_vector_suite = {
	.name = "htw_vector",
	.init = htw_test_init,
	.test_cases = htw_vector_cases,
};

kunit_test_suite(htw_vector_suite);

MODULE_DESCRIPTION("KUnit: HTW_VECTOR");
MODULE_LICENSE("GPL");
