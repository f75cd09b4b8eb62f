// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: the timing wheel, on a simulated clock
 *
 * Nearly all cases use struct wheel_test, which does what a base does (expire, cascade,
 * compute the next tick with work) and keeps a model beside the wheel: a tree of all
 * pending timers in the order in which they must expire. Each timer that expires is
 * compared with the model's first, so every case asserts that none is early, late, lost
 * or expired twice, that order and counts are right, and that there is no work before
 * the announced tick.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "../wheel/check.h"

/* Kernels for other than ARCH=um run in QEMU, about fifty times slower. */
#define HTW_OPS			(IS_ENABLED(CONFIG_UML) ? 1000000 : 50000)
#define HTW_POOL		(IS_ENABLED(CONFIG_UML) ? 8192 : 1024)
#define HTW_TICK_BY_TICK	(IS_ENABLED(CONFIG_UML) ? 20000 : 1500)

#define MS			((u64)NSEC_PER_MSEC)

/* The budget of one turn. */
#define HTW_BUDGET		128

/* Most nodes in the sorted list; up to how many nodes without levels the next tick is exact. */
#define HTW_FEW			63
#define HTW_EXACT		1024

/*
 * A timer and its part of the model. @due is the tick by which timers are ordered: its
 * own, or if that had passed at the start, the last one that had.
 */
struct timer {
	struct htw_node node;
	struct rb_node rb;
	u64 expires;
	u64 due;
	u64 seq;
	u64 started;
	bool armed;
	u32 fired;
};

struct wheel_test {
	struct kunit *test;
	struct htw_wheel w;
	struct rb_root_cached model;
	u64 now;
	u64 seq;
	u64 count;
	u64 started;
	u64 stopped;
	u64 fired;
	u64 runs;
	bool prompt;	/* the wheel is run in time, so no timer may be late */
};

static bool timer_before(struct rb_node *a, const struct rb_node *b)
{
	const struct timer *x = rb_entry(a, struct timer, rb);
	const struct timer *y = rb_entry(b, struct timer, rb);

	return x->due != y->due ? x->due < y->due : x->seq < y->seq;
}

/* The timer that expires first, or NULL: none does after the last tick. */
static struct timer *model_first(struct wheel_test *t)
{
	struct rb_node *first = rb_first_cached(&t->model);

	if (!first || rb_entry(first, struct timer, rb)->due > HTW_LAST_TICK)
		return NULL;
	return rb_entry(first, struct timer, rb);
}

/* A present after the last tick counts as that. */
static u64 present(u64 now)
{
	return min(now, HTW_LAST_TICK);
}

static bool wheel_start(struct htw_wheel *w, struct htw_node *n, u64 tick, u64 now)
{
	htw_wheel_forward(w, now);
	return htw_wheel_start(w, n, tick);
}

/* Note in the model that a timer was started, and check what the wheel says of its next tick. */
static void timer_started(struct wheel_test *t, struct timer *tm, u64 expires, u64 before,
			  bool earlier)
{
	struct kunit *test = t->test;

	tm->expires = expires;
	tm->due = max(expires, t->w.cursor - 1);
	tm->seq = t->seq++;
	tm->started = t->now;
	tm->armed = true;
	rb_add_cached(&tm->rb, &t->model, timer_before);
	t->count++;
	t->started++;

	KUNIT_ASSERT_EQ(test, earlier, t->w.next < before);
	KUNIT_ASSERT_LE(test, t->w.next, before);
	if (tm->due <= HTW_LAST_TICK)
		KUNIT_ASSERT_LE(test, t->w.next, max(tm->due, t->now));
	KUNIT_ASSERT_LE(test, t->w.cursor - 1, t->now);
	KUNIT_ASSERT_EQ(test, htw_wheel_count(&t->w), t->count);
	KUNIT_ASSERT_TRUE(test, htw_node_pending(&tm->node));
}

static void timer_start(struct wheel_test *t, struct timer *tm, u64 expires)
{
	const u64 before = t->w.next;

	KUNIT_ASSERT_FALSE(t->test, tm->armed);
	KUNIT_ASSERT_FALSE(t->test, htw_node_pending(&tm->node));
	timer_started(t, tm, expires, before, wheel_start(&t->w, &tm->node, expires, t->now));
}

static void timer_gone(struct wheel_test *t, struct timer *tm)
{
	rb_erase_cached(&tm->rb, &t->model);
	tm->armed = false;
	t->count--;
}

static void timer_stop(struct wheel_test *t, struct timer *tm)
{
	KUNIT_ASSERT_TRUE(t->test, tm->armed);
	htw_wheel_stop(&t->w, &tm->node);
	KUNIT_ASSERT_FALSE(t->test, htw_node_pending(&tm->node));
	timer_gone(t, tm);
	t->stopped++;
}

/* Start a timer, or move it: in the model as if it was stopped and started. */
static void timer_restart(struct wheel_test *t, struct timer *tm, u64 expires)
{
	const u64 before = t->w.next;

	if (tm->armed) {
		timer_gone(t, tm);
		t->stopped++;
	}
	htw_wheel_forward(&t->w, t->now);
	timer_started(t, tm, expires, before, htw_wheel_restart(&t->w, &tm->node, expires));
}

static void timer_expired(struct wheel_test *t, struct htw_node *n)
{
	struct timer *tm = container_of(n, struct timer, node);
	struct kunit *test = t->test;

	KUNIT_ASSERT_TRUE(test, tm->armed);
	KUNIT_ASSERT_FALSE(test, htw_node_pending(n));
	KUNIT_ASSERT_GE_MSG(test, t->now, tm->expires, "early");
	if (t->prompt)
		KUNIT_ASSERT_EQ_MSG(test, t->now, max(tm->expires, tm->started), "late");
	KUNIT_ASSERT_PTR_EQ_MSG(test, tm, model_first(t),
				"out of order: tick %llu, number %llu, but first is tick %llu, number %llu",
				tm->due, tm->seq, model_first(t)->due, model_first(t)->seq);
	timer_gone(t, tm);
	tm->fired++;
	t->fired++;
}

/* Expire what is due, and move nodes down. Return: was the budget enough? */
static bool wheel_turn(struct wheel_test *t, u64 now, unsigned int *left)
{
	struct kunit *test = t->test;
	unsigned int before;
	struct timer *first;
	struct htw_node *n;
	bool done;

	for (;;) {
		before = *left;
		n = htw_wheel_expire(&t->w, now, left);
		KUNIT_ASSERT_LE(test, *left, before);
		if (!n)
			break;
		KUNIT_ASSERT_LT(test, *left, before);
		timer_expired(t, n);
	}

	first = model_first(t);
	if (*left) {
		if (first)
			KUNIT_ASSERT_GT_MSG(test, first->due, now, "late or lost");
		KUNIT_ASSERT_EQ(test, t->w.cursor, present(now) + 1);
	}
	KUNIT_ASSERT_LE(test, t->w.cursor - 1, now);

	before = *left;
	done = htw_wheel_cascade(&t->w, left);
	KUNIT_ASSERT_LE(test, *left, before);
	if (!list_empty(&t->w.due)) {
		KUNIT_ASSERT_EQ(test, *left, 0);
		return false;
	}
	return done;
}

/* Do what a base does in a turn. Return: the budget used. */
static unsigned int wheel_run(struct wheel_test *t, u64 now, unsigned int budget)
{
	struct kunit *test = t->test;
	unsigned int left = budget;
	struct timer *first;
	struct htw_node *n;
	bool done;

	t->now = now;
	t->runs++;
	done = wheel_turn(t, now, &left);
	first = model_first(t);

	htw_wheel_next(&t->w);
	if (htw_wheel_first_node(&t->w, 64, &n))
		KUNIT_ASSERT_PTR_EQ(test, n, first ? &first->node : NULL);
	if (!first)
		KUNIT_ASSERT_EQ(test, t->w.next, HTW_NEVER);
	else
		KUNIT_ASSERT_LE(test, t->w.next, max(first->due, now));
	/* The cursor is one tick ahead, so cascades may begin one tick early. */
	if (!done)
		KUNIT_ASSERT_LE(test, t->w.next, max(now, now + 1));
	if (done && left)
		KUNIT_ASSERT_GT(test, t->w.next, present(now));
	else if (list_empty(&t->w.due))
		KUNIT_ASSERT_EQ(test, left, 0);
	/* The levels are where they should be: no start is put on a higher one than it could. */
	if (done && left && t->w.levels)
		KUNIT_ASSERT_GE(test, t->w.level[0].end, t->w.cursor + t->w.level[1].span);
	if (left && first && !t->w.levels && t->count <= HTW_EXACT)
		KUNIT_ASSERT_EQ(test, t->w.next, first->due);
	KUNIT_ASSERT_EQ(test, t->w.pending, t->count);
	if (!(t->runs & 1023))
		cond_resched();
	return budget - left;
}

/* Run the wheel at each announced tick up to @to. */
static void wheel_advance(struct wheel_test *t, u64 to)
{
	while (t->w.next <= to)
		wheel_run(t, max(t->now, t->w.next), HTW_ALL);
	t->now = to;
}

/* Run the wheel at each announced tick until @tm has expired. */
static void wheel_until_fired(struct wheel_test *t, struct timer *tm)
{
	while (tm->armed) {
		KUNIT_ASSERT_NE_MSG(t->test, t->w.next, HTW_NEVER, "lost");
		wheel_run(t, max(t->now, t->w.next), HTW_ALL);
	}
}

static void wheel_until_empty(struct wheel_test *t)
{
	while (t->count)
		wheel_until_fired(t, model_first(t));
}

/* The clock is set back: the model's timers keep their order, but for those that wait again. */
static void wheel_rewind(struct wheel_test *t, u64 now)
{
	const bool back = now < t->w.cursor - 1;
	struct rb_root_cached old = t->model;
	struct rb_node *rb;

	htw_wheel_rewind(&t->w, now);
	t->now = now;
	if (!back)
		return;
	KUNIT_ASSERT_EQ(t->test, t->w.cursor, now + 1);
	t->model = RB_ROOT_CACHED;
	while ((rb = rb_first_cached(&old))) {
		struct timer *tm = rb_entry(rb, struct timer, rb);

		rb_erase_cached(rb, &old);
		tm->due = max(tm->expires, now);
		tm->seq = t->seq++;
		rb_add_cached(rb, &t->model, timer_before);
	}
	if (model_first(t))
		KUNIT_ASSERT_LE(t->test, t->w.next, max(model_first(t)->due, now));
}

/* Check the wheel, and what it holds. */
static void wheel_check(struct wheel_test *t)
{
	const char *error = htw_wheel_check(&t->w);

	KUNIT_ASSERT_TRUE_MSG(t->test, !error, "%s", error ?: "");
	KUNIT_ASSERT_EQ(t->test, t->w.pending, t->count);
}

static u64 list_length(const struct list_head *list)
{
	return list_count_nodes((struct list_head *)list);
}

/* Count the nodes of a level, or beyond the last one; due ones count for level 0. */
static u64 level_count(const struct htw_wheel *w, unsigned int l)
{
	const struct htw_level *lev = &w->level[l];
	u64 count = l ? 0 : list_length(&w->due);

	if (l == w->levels) {
		count = list_length(&w->unsorted) + list_length(&w->never);
		for (unsigned int i = 0; i < HTW_WHEEL_LISTS; i++)
			count += list_length(&w->beyond[i]);
		return count;
	}

	for (unsigned int i = 0; i < lev->nr_buckets; i++)
		count += list_length(&lev->buckets[i]);
	return count;
}

static void wheel_free(void *arg)
{
	struct wheel_test *t = arg;

	kvfree(htw_wheel_remove_levels(&t->w));
}

/* Add levels to a wheel without any. */
static void wheel_add_levels(struct wheel_test *t, const struct htw_geometry *geo)
{
	struct kunit *test = t->test;
	const u64 before = t->w.next;
	void *memory;

	KUNIT_ASSERT_NULL(test, htw_geometry_error(geo));
	memory = kvmalloc(htw_geometry_bytes(geo), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, memory);
	/* What the memory holds does not matter. */
	memset(memory, 0x5a, htw_geometry_bytes(geo));
	htw_levels_init(geo, memory);
	KUNIT_EXPECT_EQ(test, htw_wheel_attach_levels(&t->w, geo, memory), t->w.next < before);
	KUNIT_ASSERT_EQ(test, t->w.levels, geo->levels);
	KUNIT_ASSERT_LE(test, t->w.next, before);
	if (model_first(t))
		KUNIT_ASSERT_LE(test, t->w.next, max(model_first(t)->due, t->now));
	/* Of a budget these cases expect that it counts nodes. */
	t->w.search = 0;
	wheel_check(t);
}

/* Make a wheel, without levels if @geo is NULL. */
static struct wheel_test *wheel_new(struct kunit *test, const struct htw_geometry *geo,
				    u64 now)
{
	struct wheel_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->test = test;
	t->model = RB_ROOT_CACHED;
	t->prompt = true;
	t->now = now;
	memset(&t->w, 0x5a, sizeof(t->w));
	htw_wheel_init(&t->w, now);
	if (geo)
		wheel_add_levels(t, geo);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, wheel_free, t), 0);
	KUNIT_ASSERT_EQ(test, t->w.cursor, min(now, HTW_LAST_TICK) + 1);
	KUNIT_ASSERT_EQ(test, t->w.next, HTW_NEVER);
	KUNIT_ASSERT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
	KUNIT_ASSERT_EQ(test, t->w.pending, 0);
	return t;
}

/* Free a wheel before the end of a case that uses many. */
static void wheel_done(struct wheel_test *t)
{
	struct kunit *test = t->test;

	KUNIT_ASSERT_EQ(test, t->w.pending, 0);
	KUNIT_ASSERT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
	wheel_check(t);
	kunit_release_action(test, wheel_free, t);
	kunit_kfree(test, t);
}

KUNIT_DEFINE_ACTION_WRAPPER(test_kvfree, kvfree, const void *);

static void *test_kvcalloc(struct kunit *test, size_t n, size_t size)
{
	void *p = kvcalloc(n, size, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, test_kvfree, p), 0);
	return p;
}

/* ------------------------------------------------------------------------- */

static const struct htw_geometry geo_default = { 5, { 256, 64, 64, 64, 64 } };
static const struct htw_geometry geo_clock = { 3, { 60, 60, 12 } };
static const struct htw_geometry geo_ch11 = { 3, { 10, 60, 5 } };
static const struct htw_geometry geo_64 = { 4, { 64, 64, 64, 64 } };
static const struct htw_geometry geo_kafka = { 3, { 3, 3, 3 } };
static const struct htw_geometry geo_tiny = { 2, { 2, 2 } };
static const struct htw_geometry geo_one = { 1, { 8 } };
static const struct htw_geometry geo_deep = { 8, { 2, 2, 2, 2, 2, 2, 2, 2 } };
static const struct htw_geometry geo_odd = { 4, { 7, 2, 5, 3 } };

struct wheel_case {
	const struct htw_geometry *geo;
	const char *name;
	unsigned int share;	/* percentage of the random operations */
};

static const struct wheel_case wheel_cases[] = {
	{ &geo_default, "256,64,64,64,64", 100 },
	{ &geo_clock, "60,60,12", 25 },
	{ &geo_ch11, "10,60,5", 25 },
	{ &geo_64, "64,64,64,64", 25 },
	{ &geo_kafka, "3,3,3", 25 },
	{ &geo_tiny, "2,2", 10 },
	{ &geo_one, "8", 10 },
	{ &geo_deep, "2,2,2,2,2,2,2,2", 25 },
	{ &geo_odd, "7,2,5,3", 25 },
};

KUNIT_ARRAY_PARAM_DESC(wheel, wheel_cases, name);

enum start_at {
	START_AT_0,
	START_AT_1,
	START_MID_WINDOW,
	START_ON_LAST_TICK,
	START_ON_FIRST_TICK,
	START_NEAR_2_TO_32,
	START_NEAR_2_TO_63,
	NR_STARTS,
};

static const char * const start_names[] = {
	"0", "1", "mid_window", "last_tick", "first_tick", "near_2_to_32", "near_2_to_63",
};

struct start_case {
	const struct wheel_case *wheel;
	enum start_at at;
};

/* Each wheel with each start; describe_start() fills it in. */
static struct start_case start_cases[ARRAY_SIZE(wheel_cases) * NR_STARTS];

static void describe_start(struct start_case *c, char *desc)
{
	const unsigned int i = c - start_cases;

	c->wheel = &wheel_cases[i / NR_STARTS];
	c->at = i % NR_STARTS;
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s from %s", c->wheel->name, start_names[c->at]);
}

KUNIT_ARRAY_PARAM(start, start_cases, describe_start);

/* Ticks that @l levels span. */
static u64 geo_span(const struct htw_geometry *geo, unsigned int l)
{
	u64 span = 1;

	while (l-- > 0)
		span *= geo->slots[l];
	return span;
}

static u64 geo_range(const struct htw_geometry *geo)
{
	return geo_span(geo, geo->levels);
}

/* The initial present tick; the cursor is one tick ahead. */
static u64 start_tick(const struct start_case *c)
{
	const u64 range = geo_range(c->wheel->geo);

	switch (c->at) {
	case START_AT_1:
		return 1;
	case START_MID_WINDOW:
		return 5 * range + range / 2;
	case START_ON_LAST_TICK:
		return 6 * range - 2;
	case START_ON_FIRST_TICK:
		return 6 * range - 1;
	case START_NEAR_2_TO_32:
		return BIT_ULL(32) - 3;
	case START_NEAR_2_TO_63:
		/* Up to the end of time. */
		return HTW_LAST_TICK - BIT_ULL(32) - 5 * range - 3;
	default:
		return 0;
	}
}

/*
 * The ticks around all boundaries of slots and windows, of the next and the next but one,
 * both aligned and counted from now; and around once and twice the whole range.
 */
#define MAX_BOUNDARIES	(12 * (HTW_WHEEL_MAX_LEVELS + 1))

static unsigned int boundaries(const struct htw_geometry *geo, u64 now, u64 *ticks)
{
	unsigned int n = 0;

	for (unsigned int l = 0; l <= geo->levels; l++) {
		const u64 span = geo_span(geo, l);
		const u64 slot = div64_u64(now, span) * span;

		for (int d = -1; d <= 1; d++) {
			ticks[n++] = slot + span + d;
			ticks[n++] = slot + 2 * span + d;
			ticks[n++] = now + span + d;
			ticks[n++] = now + 2 * span + d;
		}
	}
	return n;
}

/* A tick on level @l of a wheel, or beyond the last one. */
static u64 tick_on_level(const struct htw_wheel *w, unsigned int l)
{
	return l ? w->level[l - 1].end : w->cursor;
}

/* ----------------------------- each at its tick --------------------------- */

static void boundary_ticks_exact_together(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(c->wheel->geo, t->now, ticks);

	for (unsigned int i = 0; i < n; i++)
		timer_start(t, &tm[i], ticks[i]);
	wheel_check(t);
	wheel_until_empty(t);
	KUNIT_EXPECT_EQ(test, t->fired, n);
	for (unsigned int i = 0; i < n; i++)
		KUNIT_EXPECT_EQ(test, tm[i].fired, 1);
	wheel_done(t);
}

/* Alone in the wheel, as other timers could hide a wrong announcement. */
static void boundary_ticks_exact_alone(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(geo, start_tick(c), ticks);

	for (unsigned int i = 0; i < n; i++) {
		struct wheel_test *t = wheel_new(test, geo, start_tick(c));
		struct timer tm = {};

		timer_start(t, &tm, ticks[i]);
		wheel_until_fired(t, &tm);
		KUNIT_EXPECT_EQ(test, t->now, max(ticks[i], start_tick(c)));
		if (ticks[i] - start_tick(c) < geo_range(geo)) {
			KUNIT_EXPECT_LE(test, t->runs, geo->levels);
			KUNIT_EXPECT_LT(test, t->w.cascades, geo->levels);
		} else {
			KUNIT_EXPECT_LE(test, t->runs, geo->levels + 3);
			KUNIT_EXPECT_LE(test, t->w.cascades, geo->levels);
		}
		wheel_done(t);
	}
}

/* Run at every tick, the wheel only works at ticks that it has announced. */
static void boundary_ticks_exact_tick_by_tick(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	const u64 from = t->now;
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(c->wheel->geo, from, ticks);

	for (unsigned int i = 0; i < n; i++) {
		if (ticks[i] < from + HTW_TICK_BY_TICK)
			timer_start(t, &tm[i], ticks[i]);
	}
	for (u64 now = from; t->count; now++) {
		const u64 next = t->w.next;
		unsigned int used = wheel_run(t, now, HTW_ALL);

		/* The cursor is one tick ahead, so cascades may be as well. */
		if (now + 1 < next)
			KUNIT_ASSERT_EQ(test, used, 0);
		else if (now >= next)
			KUNIT_ASSERT_GT(test, used, 0);
	}
	wheel_done(t);
}

/* The wheel is run every few ticks, whatever it has announced. */
static void boundary_ticks_in_order_when_late(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES, sizeof(*tm));
	const u64 range = geo_range(c->wheel->geo);

	for (unsigned int part = 1; part <= 64; part *= 4) {
		struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
		u64 ticks[MAX_BOUNDARIES];
		unsigned int n = boundaries(c->wheel->geo, t->now, ticks);

		t->prompt = false;
		for (unsigned int i = 0; i < n; i++)
			timer_start(t, &tm[i], ticks[i]);
		while (t->count)
			wheel_run(t, t->now + div_u64(range, part) + 1, HTW_ALL);
		wheel_done(t);
	}
}

/*
 * Kafka's TimingWheel, whose documentation works through an example: u = 1,
 * n = 3, three levels, start time c. Its levels hold c to c + 26; each task
 * expires at its tick, whatever bucket it was in.
 */
static void kafka_worked_example(struct kunit *test)
{
	static const u64 starts[] = { 1, 2, 3, 9, 26, 27, 28, 80, 1000003 };
	struct timer *tm = test_kvcalloc(test, 28, sizeof(*tm));

	for (unsigned int s = 0; s < ARRAY_SIZE(starts); s++) {
		const u64 c = starts[s];
		struct wheel_test *t = wheel_new(test, &geo_kafka, c - 1);

		/* Out of order. */
		for (unsigned int i = 0; i < 27; i++)
			timer_start(t, &tm[i * 10 % 27], c + i * 10 % 27);
		/* "if the task is c + 27, it is an overflow" */
		timer_start(t, &tm[27], c + 27);

		for (unsigned int i = 0; i <= 27; i++) {
			const u64 fired = t->fired;

			KUNIT_ASSERT_TRUE(test, tm[i].armed);
			wheel_advance(t, c + i);
			KUNIT_ASSERT_FALSE(test, tm[i].armed);
			KUNIT_ASSERT_EQ(test, t->fired, fired + 1);
		}
		for (unsigned int i = 0; i <= 27; i++)
			tm[i].fired = 0;
		wheel_done(t);
	}
}

struct example {
	const char *name;
	const struct htw_geometry *geo;
	u64 now;
	u64 after;
	u64 tick;
};

static const struct example examples[] = {
	/* "Real-Time Concepts for Embedded Systems", ch. 11: 100 ms a tick. */
	{ "ch11_2min_4s_300ms", &geo_ch11, 0, (2 * 60 + 4) * 10 + 3, 1243 },
	{ "ch11_2min_4s_300ms_at_4min_59s_900ms", &geo_ch11, 2999, 1243, 4242 },
	{ "ch11_100ms", &geo_ch11, 0, 1, 1 },
	{ "ch11_4min_59s_900ms", &geo_ch11, 0, 2999, 2999 },
	{ "ch11_5min", &geo_ch11, 0, 3000, 3000 },
	{ "clock_1s", &geo_clock, 0, 1, 1 },
	{ "clock_59s", &geo_clock, 0, 59, 59 },
	{ "clock_1min", &geo_clock, 0, 60, 60 },
	{ "clock_59min_59s", &geo_clock, 0, 3599, 3599 },
	{ "clock_1h", &geo_clock, 0, 3600, 3600 },
	{ "clock_10h_20min_30s", &geo_clock, 0, 10 * 3600 + 20 * 60 + 30, 37230 },
	{ "clock_11h_59min_59s", &geo_clock, 0, 43199, 43199 },
	{ "clock_12h", &geo_clock, 0, 43200, 43200 },
	{ "clock_12h_at_11h_59min_59s", &geo_clock, 43199, 43200, 86399 },
};

KUNIT_ARRAY_PARAM_DESC(example, examples, name);

static void example_from_the_book(struct kunit *test)
{
	const struct example *e = test->param_value;
	struct wheel_test *t = wheel_new(test, e->geo, e->now);
	struct timer tm = {};

	timer_start(t, &tm, e->now + e->after);
	wheel_advance(t, e->tick - 1);
	KUNIT_EXPECT_TRUE(test, tm.armed);
	wheel_advance(t, e->tick);
	KUNIT_EXPECT_FALSE(test, tm.armed);
	KUNIT_EXPECT_EQ(test, tm.fired, 1);
	KUNIT_EXPECT_LT(test, t->w.cascades, e->geo->levels);
	wheel_done(t);
}

/* ---------------------------------- due ----------------------------------- */

static void past_tick_due_at_once(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c) + 1);
	const u64 now = t->now;
	struct timer tm[6] = {};

	timer_start(t, &tm[0], now);
	KUNIT_EXPECT_LE(test, t->w.next, now);
	timer_start(t, &tm[1], now - 1);
	timer_start(t, &tm[2], 0);
	timer_start(t, &tm[3], now + 1);
	timer_start(t, &tm[4], now);
	timer_start(t, &tm[5], now / 2);
	KUNIT_EXPECT_LE(test, htw_wheel_next(&t->w), now);
	KUNIT_EXPECT_EQ(test, wheel_run(t, now, 5), 5);
	KUNIT_EXPECT_TRUE(test, tm[3].armed);
	KUNIT_EXPECT_EQ(test, t->w.next, now + 1);
	wheel_run(t, now + 1, HTW_ALL);
	wheel_done(t);
}

/* Due timers that exceed the budget stay ahead of new ones. */
static void due_left_over_stay_first(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->geo, 1000);
	struct timer *tm = test_kvcalloc(test, 20, sizeof(*tm));

	t->prompt = false;
	for (unsigned int i = 0; i < 10; i++)
		timer_start(t, &tm[i], 1001 + (i & 1));
	KUNIT_EXPECT_EQ(test, wheel_run(t, 1002, 3), 3);
	KUNIT_EXPECT_EQ(test, t->fired, 3);
	KUNIT_EXPECT_LE(test, t->w.next, 1002);
	for (unsigned int i = 10; i < 20; i++)
		timer_start(t, &tm[i], 999 + i % 4);
	for (unsigned int i = 4; i <= 20; i++) {
		KUNIT_EXPECT_EQ(test, wheel_run(t, 1002, 1), 1);
		KUNIT_EXPECT_EQ(test, t->fired, i);
		wheel_check(t);
	}
	wheel_done(t);
}

static void no_budget_no_work(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->geo, 1000);
	struct timer tm[3] = {};

	t->prompt = false;
	timer_start(t, &tm[0], 1000);
	timer_start(t, &tm[1], tick_on_level(&t->w, 1));
	timer_start(t, &tm[2], tick_on_level(&t->w, c->geo->levels));
	KUNIT_EXPECT_EQ(test, wheel_run(t, 1000, 0), 0);
	KUNIT_EXPECT_EQ(test, wheel_run(t, 10 * geo_range(c->geo) + 1000, 0), 0);
	KUNIT_EXPECT_EQ(test, t->fired, 0);
	wheel_run(t, t->now, HTW_ALL);
	KUNIT_EXPECT_EQ(test, t->fired, 3);
	wheel_done(t);
}

/* With @next set to 0, a start does not report earlier work. */
static void start_silent_while_owner_works(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, 1000);
	struct timer tm[4] = {};

	t->w.next = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(tm); i++) {
		timer_start(t, &tm[i], 1000 + i);	/* asserts: not earlier */
		KUNIT_EXPECT_EQ(test, t->w.next, 0);
	}
	htw_wheel_next(&t->w);
	wheel_until_empty(t);
	wheel_done(t);
}

static void start_tells_earlier_work_only(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, 1000);
	struct timer tm[5] = {};
	u64 next;

	timer_start(t, &tm[0], 1300);
	KUNIT_EXPECT_LE(test, t->w.next, 1300);
	timer_start(t, &tm[1], 1010);
	KUNIT_EXPECT_EQ(test, t->w.next, 1010);
	next = t->w.next;
	timer_start(t, &tm[2], 1010);
	timer_start(t, &tm[3], 1011);
	timer_start(t, &tm[4], 100000);
	KUNIT_EXPECT_EQ(test, t->w.next, next);
	wheel_until_empty(t);
	wheel_done(t);
}

/* ---------------------------------- order --------------------------------- */

/* Timers of one tick, started ever later, so on ever finer levels. */
static void equal_ticks_in_order_of_start(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct timer *tm = test_kvcalloc(test, 6 * MAX_BOUNDARIES, sizeof(*tm));
	const u64 tick = start_tick(c) + 3 * geo_range(geo);

	/* The wheel is run not at all, at announced ticks, and at each step. */
	for (int l = geo->levels, n = 0; l >= 0; l--) {
		struct wheel_test *t = wheel_new(test, geo, start_tick(c));

		n = 0;
		for (int k = l; k >= 0; k--) {
			for (int back = 2; back > 0; back--) {
				u64 from = tick - min(tick, back * geo_span(geo, k));

				if (from <= t->now)
					continue;
				wheel_advance(t, from);
				timer_start(t, &tm[n++], tick);
				timer_start(t, &tm[n++], tick + 1);
				timer_start(t, &tm[n++], tick);
			}
		}
		wheel_until_empty(t);
		wheel_done(t);
	}
}

/* While a bucket is moved down, a node at a time, nodes are appended to it. */
static void equal_ticks_in_order_while_moving(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const struct htw_geometry *geo = c->geo;
	struct timer *tm = test_kvcalloc(test, 64, sizeof(*tm));

	for (unsigned int l = 1; l <= geo->levels; l++) {
		struct wheel_test *t = wheel_new(test, geo, 7 * geo_range(geo) + 3);
		/* The second window beyond the ring, which was not on the level yet. */
		const u64 tick = tick_on_level(&t->w, l) + t->w.level[l].span;
		unsigned int n = 0;

		while (n < 24) {
			timer_start(t, &tm[n], tick + n % 2);
			n++;
		}
		while (n < 60) {
			wheel_run(t, max(t->now, t->w.next), 1);
			if (!t->count || t->now >= tick - 1)
				break;
			timer_start(t, &tm[n], tick + n % 2);
			n++;
		}
		wheel_check(t);
		wheel_until_empty(t);
		wheel_done(t);
	}
}

/*
 * The wheel is not run while half of a bucket has been moved down, until the bucket's
 * own ticks have passed: nodes that were moved, which are later here, must not overtake
 * those that were not.
 */
static void half_moved_keeps_order_when_late(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const struct htw_geometry *geo = c->geo;
	struct timer *tm = test_kvcalloc(test, 60, sizeof(*tm));

	for (unsigned int l = 1; l <= geo->levels; l++) {
		for (unsigned int budget = 1; budget < 60; budget += 7) {
			struct wheel_test *t = wheel_new(test, geo, 7 * geo_range(geo) + 3);
			const u64 span = t->w.level[l].span;
			const u64 tick = tick_on_level(&t->w, l) + span;

			t->prompt = false;
			for (unsigned int i = 0; i < 60; i++)
				timer_start(t, &tm[i], tick + (59 - i) % (u32)min(span, 60));
			wheel_run(t, t->w.next, budget);
			wheel_check(t);
			wheel_run(t, tick + span - 2, budget);
			while (t->count)
				wheel_run(t, tick + span, budget);
			wheel_done(t);
		}
	}
}

/* ------------------------------ quiet and cheap --------------------------- */

static void empty_ticks_cost_nothing(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	struct timer tm = {};

	timer_start(t, &tm, t->now + 1000000);
	wheel_until_fired(t, &tm);
	/* One look at what is beyond the levels, if the tick is there. */
	KUNIT_EXPECT_LE(test, t->runs, geo->levels + (geo_range(geo) <= 1000000));
	wheel_done(t);
}

static void empty_wheel_is_quiet(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	struct timer tm = {};

	/* Each of these asserts that no work is announced. */
	for (unsigned int shift = 0; shift < 30; shift++)
		KUNIT_EXPECT_EQ(test, wheel_run(t, t->now + BIT(shift), HTW_ALL), 0);
	timer_start(t, &tm, t->now + 1);
	wheel_advance(t, t->now + 1);
	KUNIT_EXPECT_EQ(test, tm.fired, 1);
	KUNIT_EXPECT_EQ(test, wheel_run(t, t->now + 1, HTW_ALL), 0);
	wheel_done(t);
}

/* An idle wheel that was not run for long is up to date. */
static void start_after_long_quiet(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	struct timer far = {}, near = {}, past = {};
	const u64 range = geo_range(geo);

	timer_start(t, &far, t->now + range - 1);
	for (unsigned int i = 0; i < 20; i++) {
		const u64 cascades = t->w.cascades;

		if (t->w.next > t->now + 1)
			t->now += (t->w.next - t->now) / 2;
		timer_start(t, &past, t->now - (i & 1));
		timer_start(t, &near, t->now + 1);
		if (t->now + 1 < t->w.level[0].end)
			KUNIT_EXPECT_GE(test, level_count(&t->w, 0), 2);
		wheel_advance(t, t->now + 1);
		KUNIT_ASSERT_FALSE(test, near.armed);
		KUNIT_ASSERT_FALSE(test, past.armed);
		KUNIT_ASSERT_LE(test, t->w.cascades, cascades + geo->levels);
		if (!far.armed)
			break;
	}
	wheel_until_empty(t);
	wheel_done(t);
}

/* Advancing by years costs no more than what is due. */
static void clock_jump_costs_what_is_due(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES + 1, sizeof(*tm));
	u64 jump = c->at == START_NEAR_2_TO_63 ? 4 * geo_range(geo) : BIT_ULL(60);

	for (unsigned int with = 0; with < 4; with++) {
		struct wheel_test *t = wheel_new(test, geo, start_tick(c));
		u64 ticks[MAX_BOUNDARIES];
		unsigned int n = boundaries(geo, t->now, ticks);
		unsigned int inside = 0, beyond = 0;

		t->prompt = false;
		for (unsigned int i = 0; i < n; i++) {
			bool far = ticks[i] >= t->w.level[geo->levels - 1].end;

			if (!(with & (far ? 2 : 1)))
				continue;
			timer_start(t, &tm[i], ticks[i]);
			if (far)
				beyond++;
			else
				inside++;
		}
		KUNIT_EXPECT_LE(test, wheel_run(t, t->now + jump, HTW_ALL),
				inside * geo->levels + beyond * (geo->levels + 1 + 4));
		KUNIT_EXPECT_EQ(test, t->fired, inside + beyond);
		KUNIT_EXPECT_EQ(test, t->count, 0);
		wheel_done(t);
	}
}

static void clock_jump_leaves_the_rest_exact(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	const u64 to = t->now + 3 * geo_range(geo);
	struct timer tm[4] = {};

	timer_start(t, &tm[0], to + 2);
	timer_start(t, &tm[1], to + 1);
	timer_start(t, &tm[2], to + 1 + geo->slots[0]);
	t->prompt = false;
	timer_start(t, &tm[3], to);
	wheel_run(t, to, HTW_ALL);
	KUNIT_EXPECT_EQ(test, t->fired, 1);
	t->prompt = true;
	wheel_until_empty(t);
	wheel_done(t);
}

/* ---------------------------- beyond the last level ----------------------- */

static void beyond_exact(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	const u64 range = geo_range(geo);
	const unsigned int far = c->at == START_NEAR_2_TO_63 ? 4 : 1000;

	for (unsigned int k = 1; k < far; k += 1 + k / 3) {
		for (int d = -1; d <= 1; d++) {
			struct wheel_test *t = wheel_new(test, geo, start_tick(c));
			struct timer tm = {};
			u64 work;

			timer_start(t, &tm, t->now + k * range + d);
			while (tm.armed) {
				KUNIT_ASSERT_NE(test, t->w.next, HTW_NEVER);
				work = wheel_run(t, max(t->now, t->w.next), HTW_ALL);
				KUNIT_EXPECT_LE(test, work, geo->levels + 1);
			}
			KUNIT_EXPECT_LE(test, t->runs, geo->levels + 1);
			KUNIT_EXPECT_LE(test, t->w.cascades, geo->levels);
			wheel_done(t);
		}
	}
}

/* Timers one turn of the last level apart are not looked at in each turn. */
static void beyond_looked_at_few_times(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const struct htw_geometry *geo = c->geo;
	struct timer *tm = test_kvcalloc(test, 50, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, geo, 12345);
	const u64 range = geo_range(geo);
	u64 work = 0;

	for (unsigned int i = 0; i < 50; i++)
		timer_start(t, &tm[i], t->now + (i + 1) * range);
	while (t->count)
		work += wheel_run(t, t->w.next, HTW_ALL);
	/* A look for expiring, one for each level, and two for each digit of the turns. */
	KUNIT_EXPECT_LE(test, work, 50 * (1 + geo->levels + 2 * (DIV_ROUND_UP(fls(50), 2) + 1)));
	wheel_done(t);
}

static void never_expires_but_stops(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	struct timer tm[3] = {};
	unsigned int work = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(tm); i++) {
		timer_start(t, &tm[i], HTW_NEVER);
		KUNIT_EXPECT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
	}
	for (unsigned int i = 0; i < 30; i++)
		work += wheel_run(t, t->now + BIT(i), HTW_ALL);
	KUNIT_EXPECT_LE(test, work, ARRAY_SIZE(tm));
	KUNIT_EXPECT_EQ(test, t->fired, 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(tm); i++)
		timer_stop(t, &tm[i]);
	wheel_done(t);
}

/* Hostile deadlines neither wrap around nor cause endless work. */
static void huge_ticks_wait_quietly(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	static const u64 huge[] = {
		HTW_NEVER - 1, HTW_NEVER - 2, HTW_NEVER - 1000, BIT_ULL(63) + 1,
		BIT_ULL(63), BIT_ULL(63) - 1, 0xfffffffffffff000, HTW_NEVER,
	};
	struct wheel_test *t = wheel_new(test, c->geo, 1000);
	struct timer tm[ARRAY_SIZE(huge)] = {};
	struct timer near = {};
	unsigned int work = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(huge); i++)
		timer_start(t, &tm[i], huge[i]);
	KUNIT_EXPECT_GT(test, htw_wheel_next(&t->w), BIT_ULL(62));
	timer_start(t, &near, 2000);
	wheel_until_fired(t, &near);
	for (unsigned int i = 0; i < 50; i++)
		work += wheel_run(t, t->now + BIT_ULL(i), HTW_ALL);
	KUNIT_EXPECT_EQ(test, t->fired, 1);
	KUNIT_EXPECT_LE(test, work, ARRAY_SIZE(huge));
	wheel_check(t);
	for (unsigned int i = 0; i < ARRAY_SIZE(huge); i++)
		timer_stop(t, &tm[i]);
	wheel_done(t);
}

/* A timer that never comes does not hide one that does, nor the other way round. */
static void never_beside_beyond(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	const u64 range = geo_range(geo);
	struct timer never[2] = {};
	struct timer tm[3] = {};

	timer_start(t, &never[0], HTW_NEVER);
	timer_start(t, &tm[0], t->now + 3 * range);
	timer_start(t, &never[1], HTW_NEVER);
	timer_start(t, &tm[1], t->now + 4 * range);
	timer_start(t, &tm[2], t->now + 2 * range);
	for (unsigned int i = 0; i < ARRAY_SIZE(tm); i++)
		wheel_until_fired(t, &tm[i]);
	KUNIT_EXPECT_EQ(test, t->count, 2);
	KUNIT_EXPECT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
	timer_stop(t, &never[1]);
	timer_stop(t, &never[0]);
	wheel_done(t);
}

/* Sorting what is beyond the levels is interrupted after each node, by starts and stops. */
static void look_beyond_resumes(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const struct htw_geometry *geo = c->geo;
	struct timer *tm = test_kvcalloc(test, 400, sizeof(*tm));

	for (unsigned int budget = 1; budget <= 5; budget++) {
		struct wheel_test *t = wheel_new(test, geo, 3 * geo_range(geo) + 1);
		const u64 range = geo_range(geo);
		const u64 tick = t->w.level[geo->levels - 1].end;
		unsigned int n = 0, scans = 0, victim = 0;

		t->prompt = false;
		for (; n < 100; n++)
			timer_start(t, &tm[n], tick + (n % 4) * range + n % 2);
		wheel_advance(t, t->w.next - 1);
		while (t->w.next <= t->now + 1 && n < 390) {
			wheel_run(t, t->now + (n == 100), budget);
			wheel_check(t);
			if (list_empty(&t->w.unsorted))
				break;
			scans++;
			/* Start more at the same ticks, and stop some of both parts. */
			if (scans % 3 == 0 && n < 200) {
				timer_start(t, &tm[n], tick + (n % 4) * range + n % 2);
				n++;
			}
			victim = (victim + 37) % n;
			if (scans % 5 == 0 && tm[victim].armed)
				timer_stop(t, &tm[victim]);
		}
		KUNIT_EXPECT_GE(test, scans, 10);
		wheel_until_empty(t);
		wheel_done(t);
	}
}

/* All nodes that an interrupted search has not looked at are stopped. */
static void look_beyond_survives_stop_of_all_unseen(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const struct htw_geometry *geo = c->geo;
	struct wheel_test *t = wheel_new(test, geo, 3 * geo_range(geo) + 1);
	struct timer *tm = test_kvcalloc(test, 40, sizeof(*tm));
	const u64 range = geo_range(geo);
	const u64 tick = t->w.level[geo->levels - 1].end;
	struct htw_node *n;

	for (unsigned int i = 0; i < 30; i++)
		timer_start(t, &tm[i], tick + (i % 3) * range);
	wheel_run(t, t->w.next, 10);
	KUNIT_ASSERT_FALSE(test, list_empty(&t->w.unsorted));
	while ((n = list_first_entry_or_null(&t->w.unsorted, struct htw_node, list)))
		timer_stop(t, container_of(n, struct timer, node));
	KUNIT_ASSERT_FALSE(test, t->w.rewound);
	KUNIT_ASSERT_GT(test, t->count, 0);
	wheel_check(t);
	for (unsigned int i = 30; i < 40; i++)
		timer_start(t, &tm[i], tick + (i % 3) * range);
	wheel_until_empty(t);
	wheel_done(t);
}

/* ---------------------------------- stop ---------------------------------- */

enum place {
	PLACE_DUE_AT_START,
	PLACE_DUE_LEFT_OVER,
	PLACE_LEVEL_0,
	PLACE_LEVEL_1,
	PLACE_LAST_LEVEL,
	PLACE_HALF_MOVED,
	PLACE_BEYOND,
	PLACE_NEVER,
	PLACE_SCANNED,
};

struct place_case {
	enum place place;
	const char *name;
};

static const struct place_case place_cases[] = {
	{ PLACE_DUE_AT_START, "due_at_start" },
	{ PLACE_DUE_LEFT_OVER, "due_left_over" },
	{ PLACE_LEVEL_0, "level_0" },
	{ PLACE_LEVEL_1, "level_1" },
	{ PLACE_LAST_LEVEL, "last_level" },
	{ PLACE_HALF_MOVED, "half_moved" },
	{ PLACE_BEYOND, "beyond" },
	{ PLACE_NEVER, "never" },
	{ PLACE_SCANNED, "scanned" },
};

KUNIT_ARRAY_PARAM_DESC(place, place_cases, name);

#define NR_PLACED	4

/* Bring timers to a place in the wheel; false if the wheel has no such place. */
static bool place_timers(struct wheel_test *t, struct timer *tm, enum place place)
{
	const unsigned int levels = t->w.levels;
	struct htw_wheel *w = &t->w;
	struct kunit *test = t->test;
	unsigned int l = 0;
	u64 tick = t->now;

	switch (place) {
	case PLACE_LEVEL_1:
	case PLACE_HALF_MOVED:
		l = 1;
		break;
	case PLACE_LAST_LEVEL:
		l = levels - 1;
		break;
	case PLACE_BEYOND:
	case PLACE_NEVER:
	case PLACE_SCANNED:
		l = levels;
		break;
	default:
		break;
	}
	if (l == 1 && levels == 1)
		return place == PLACE_BEYOND;
	if (place != PLACE_DUE_AT_START)
		tick = tick_on_level(&t->w, l);
	if (place == PLACE_NEVER)
		tick = HTW_NEVER;
	for (unsigned int i = 0; i < NR_PLACED; i++)
		timer_start(t, &tm[i], tick);
	KUNIT_ASSERT_EQ(test, level_count(w, l), NR_PLACED);

	switch (place) {
	case PLACE_DUE_LEFT_OVER:
		wheel_run(t, t->w.next, 1);
		KUNIT_ASSERT_EQ(test, list_count_nodes(&t->w.due), NR_PLACED - 1);
		break;
	case PLACE_HALF_MOVED:
		wheel_run(t, t->w.next, 2);
		KUNIT_ASSERT_EQ(test, level_count(w, 0), 2);
		KUNIT_ASSERT_EQ(test, level_count(w, 1), NR_PLACED - 2);
		break;
	case PLACE_SCANNED:
		wheel_run(t, t->w.next, 1);
		KUNIT_ASSERT_EQ(test, list_count_nodes(&t->w.unsorted), NR_PLACED - 1);
		break;
	default:
		break;
	}
	wheel_check(t);
	return true;
}

/* In each place and order: nothing is left, nothing expires. */
static void stop_in_every_place(struct kunit *test)
{
	const struct place_case *p = test->param_value;

	for (unsigned int g = 0; g < ARRAY_SIZE(wheel_cases); g++) {
		for (unsigned int order = 0; order < 2 * NR_PLACED; order++) {
			const struct htw_geometry *geo = wheel_cases[g].geo;
			struct wheel_test *t = wheel_new(test, geo, 5 * geo_range(geo) + 1);
			struct timer tm[NR_PLACED] = {};
			u64 fired;

			if (place_timers(t, tm, p->place)) {
				fired = t->fired;
				for (unsigned int i = 0; i < NR_PLACED; i++) {
					unsigned int k = (order + i) % NR_PLACED;

					if (order >= NR_PLACED)
						k = NR_PLACED - 1 - k;
					if (!tm[k].armed)
						continue;
					timer_stop(t, &tm[k]);
					wheel_check(t);
				}
				KUNIT_EXPECT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
				wheel_run(t, t->now + 3 * geo_range(geo), HTW_ALL);
				KUNIT_EXPECT_EQ(test, t->fired, fired);
			}
			wheel_done(t);
		}
	}
}

/* One is stopped; its neighbours expire at their ticks. */
static void stop_leaves_the_others(struct kunit *test)
{
	const struct place_case *p = test->param_value;

	for (unsigned int g = 0; g < ARRAY_SIZE(wheel_cases); g++) {
		for (unsigned int k = 0; k < NR_PLACED; k++) {
			const struct htw_geometry *geo = wheel_cases[g].geo;
			struct wheel_test *t = wheel_new(test, geo, 5 * geo_range(geo) + 1);
			struct timer tm[NR_PLACED] = {};

			if (place_timers(t, tm, p->place)) {
				if (tm[k].armed)
					timer_stop(t, &tm[k]);
				wheel_check(t);
				for (unsigned int i = 0; i < NR_PLACED; i++) {
					if (tm[i].armed && tm[i].expires == HTW_NEVER)
						timer_stop(t, &tm[i]);
				}
				wheel_until_empty(t);
			}
			wheel_done(t);
		}
	}
}

/* A stopped timer can be started again in any other place. */
static void restart_from_every_place(struct kunit *test)
{
	const struct place_case *p = test->param_value;

	for (unsigned int g = 0; g < ARRAY_SIZE(wheel_cases); g++) {
		const struct htw_geometry *geo = wheel_cases[g].geo;

		for (unsigned int l = 0; l <= geo->levels; l++) {
			struct wheel_test *t = wheel_new(test, geo, 5 * geo_range(geo) + 1);
			struct timer tm[NR_PLACED] = {};

			t->prompt = p->place != PLACE_DUE_LEFT_OVER;
			if (place_timers(t, tm, p->place)) {
				for (unsigned int k = 0; k < NR_PLACED; k++) {
					if (tm[k].armed)
						timer_stop(t, &tm[k]);
					timer_start(t, &tm[k], tick_on_level(&t->w, l) + (k & 1));
				}
				wheel_check(t);
				wheel_until_empty(t);
			}
			wheel_done(t);
		}
	}
}

/* After a stop, the announced tick is that of the other timer alone. */
static void stop_moves_next_on(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(geo, start_tick(c), ticks);

	const u64 beyond = t->w.level[geo->levels - 1].end;
	struct timer one = {}, other = {};
	u64 alone;

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int k = 0; k < n; k++) {
			/* Beyond the levels only a lower bound is known. */
			if (max(ticks[i], ticks[k]) >= beyond)
				continue;
			timer_start(t, &other, ticks[k]);
			alone = htw_wheel_next(&t->w);
			timer_start(t, &one, ticks[i]);
			timer_stop(t, &one);
			KUNIT_ASSERT_EQ(test, htw_wheel_next(&t->w), alone);
			timer_stop(t, &other);
		}
	}
	wheel_done(t);
}

/* After the last stop the wheel is run once in vain, then never. */
static void stop_costs_one_empty_run(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(geo, start_tick(c), ticks);

	for (unsigned int i = 0; i < n; i++) {
		struct wheel_test *t = wheel_new(test, geo, start_tick(c));
		struct timer tm = {};

		timer_start(t, &tm, ticks[i]);
		timer_stop(t, &tm);
		if (t->w.next != HTW_NEVER)
			wheel_run(t, max(t->now, t->w.next), HTW_ALL);
		KUNIT_EXPECT_EQ(test, t->w.next, HTW_NEVER);
		wheel_done(t);
	}
}

/* ---------------------------------- evict --------------------------------- */

static void evict_all(struct wheel_test *t)
{
	struct kunit *test = t->test;
	struct htw_node *n;

	while ((n = htw_wheel_evict(&t->w))) {
		struct timer *tm = container_of(n, struct timer, node);

		KUNIT_ASSERT_TRUE_MSG(test, tm->armed, "evicted twice");
		KUNIT_ASSERT_FALSE(test, htw_node_pending(n));
		/* Nodes of one tick come in order. */
		for (struct rb_node *rb = rb_prev(&tm->rb); rb; rb = rb_prev(rb)) {
			if (rb_entry(rb, struct timer, rb)->due == tm->due)
				KUNIT_FAIL_AND_ABORT(test, "tick %llu out of order", tm->due);
			break;
		}
		timer_gone(t, tm);
		KUNIT_ASSERT_EQ(test, t->w.pending, t->count);
	}
	KUNIT_ASSERT_EQ(test, t->count, 0);
	KUNIT_ASSERT_NULL(test, htw_wheel_evict(&t->w));
}

static void evict_empties(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES + 2, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(geo, t->now, ticks);

	for (unsigned int i = 0; i < n; i++)
		timer_start(t, &tm[i], ticks[i]);
	timer_start(t, &tm[n], HTW_NEVER);
	timer_start(t, &tm[n + 1], t->now);
	evict_all(t);
	KUNIT_EXPECT_EQ(test, t->fired, 0);
	/* The empty wheel can be used again. */
	for (unsigned int i = 0; i < n; i++)
		timer_start(t, &tm[i], ticks[i]);
	htw_wheel_next(&t->w);
	wheel_until_empty(t);
	wheel_done(t);
}

static void evict_from_every_place(struct kunit *test)
{
	const struct place_case *p = test->param_value;

	for (unsigned int g = 0; g < ARRAY_SIZE(wheel_cases); g++) {
		const struct htw_geometry *geo = wheel_cases[g].geo;
		struct wheel_test *t = wheel_new(test, geo, 5 * geo_range(geo) + 1);
		struct timer tm[NR_PLACED] = {};

		place_timers(t, tm, p->place);
		evict_all(t);
		wheel_done(t);
	}
}

static void evict_empty(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->geo, 77);

	KUNIT_EXPECT_NULL(test, htw_wheel_evict(&t->w));
	wheel_done(t);
}

/* --------------------------------- levels --------------------------------- */

/* Geometries of powers of two use shifts and masks. */
static void powers_of_two_are_seen(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->geo, 0);
	bool span_pow2 = true;

	for (unsigned int l = 0; l < c->geo->levels; l++) {
		const struct htw_level *lev = &t->w.level[l];
		const bool slots_pow2 = hweight32(c->geo->slots[l]) == 1;

		KUNIT_EXPECT_EQ(test, lev->mask, span_pow2 && slots_pow2 ? lev->nr_buckets - 1 : 0);
		if (lev->mask)
			KUNIT_EXPECT_EQ(test, BIT_ULL(lev->shift), lev->span);
		span_pow2 = span_pow2 && slots_pow2;
	}
	wheel_done(t);
}

/* The level of a tick that has not come; beyond all of them, the number of levels. */
static unsigned int level_of(struct htw_wheel *w, u64 tick)
{
	return htw_wheel_level(w, tick) - w->level;
}

static void level_by_distance(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct wheel_test *t = wheel_new(test, geo, start_tick(c));
	struct htw_wheel *w = &t->w;

	KUNIT_EXPECT_EQ(test, level_of(w, t->now + 1), 0);
	KUNIT_EXPECT_EQ(test, level_of(w, HTW_NEVER), geo->levels);
	for (unsigned int l = 0; l < geo->levels; l++) {
		/* A level covers at least the next window and at most two. */
		const u64 window = geo_span(geo, l + 1);
		const u64 near = t->now + 1 + window;
		const u64 far = t->now + 1 + 2 * window;

		KUNIT_EXPECT_LE(test, level_of(w, near), l);
		KUNIT_EXPECT_GT(test, level_of(w, far), l);
		KUNIT_EXPECT_EQ(test, level_of(w, w->level[l].end - 1), l);
		KUNIT_EXPECT_EQ(test, level_of(w, w->level[l].end), l + 1);
	}
	wheel_done(t);
}

/* ---------------------------- a million timers ---------------------------- */

struct million_case {
	const char *name;
	unsigned int level;	/* the one bucket of this level ... */
	unsigned int spread;	/* ... over this many of its ticks */
	unsigned int calls;	/* turns in a tick */
	bool exact;		/* all can be moved and delivered in time */
};

static const struct million_case million_cases[] = {
	{ "bucket_of_level_2", 2, 16384, 1, true },
	{ "bucket_of_level_1", 1, 256, 40, true },
	{ "bucket_of_level_3", 3, 1048576, 1, true },
	{ "one_tick", 2, 1, 1, false },
};

KUNIT_ARRAY_PARAM_DESC(million, million_cases, name);

/*
 * A full upper bucket beside single timers that are due meanwhile, on a clock that goes
 * on while the wheel works. The single ones expire in the turn in which their tick comes,
 * between two parts of the cascade; and as that ends ahead of time, so do the million.
 */
static void million_in_one_bucket_due_first(struct kunit *test)
{
	const struct million_case *c = test->param_value;
	const unsigned int n = HTW_OPS;
	struct htw_node *nodes = test_kvcalloc(test, n, sizeof(*nodes));
	struct wheel_test *t = wheel_new(test, &geo_default, 5 * BIT_ULL(32) + 100);
	struct htw_wheel *w = &t->w;
	const u64 first = tick_on_level(w, c->level);
	u64 last = 0, fired = 0, calls = 0, trickled = 0, amid = 0;
	struct htw_node trickle = {};
	struct htw_node *prev = NULL;
	bool done = true;

	for (unsigned int i = 0; i < n; i++) {
		/* In scattered order. */
		wheel_start(w, &nodes[i], first + i * 919 % c->spread, t->now);
	}
	KUNIT_ASSERT_EQ(test, level_count(w, c->level), n);
	wheel_start(w, &trickle, t->now + 1, t->now);

	for (u64 now = t->now; fired < n; calls++) {
		unsigned int left = HTW_BUDGET;
		struct htw_node *node;

		if (w->next > now) {
			KUNIT_ASSERT_NE(test, w->next, HTW_NEVER);
			now = w->next;
			calls = 0;
		} else if (calls >= c->calls) {
			now++;
			calls = 0;
		}
		while ((node = htw_wheel_expire(w, now, &left))) {
			KUNIT_ASSERT_GE(test, now, node->expires);
			KUNIT_ASSERT_GE(test, node->expires, last);
			if (node == &trickle) {
				if (c->exact || node->expires < first)
					KUNIT_ASSERT_EQ_MSG(test, node->expires, now, "late");
				trickled++;
				amid += !done;
				if (now < first)
					wheel_start(w, node, now + 3, now);
				continue;
			}
			if (c->exact)
				KUNIT_ASSERT_EQ_MSG(test, node->expires, now, "late");
			/* In a tick, in the order in which they were started: that of the array. */
			if (node->expires == last && prev)
				KUNIT_ASSERT_TRUE(test, node > prev);
			last = node->expires;
			prev = node;
			fired++;
		}
		done = htw_wheel_cascade(w, &left);
		htw_wheel_next(w);
		if (done && left)
			KUNIT_ASSERT_GT(test, w->next, now);
		if (!done)
			KUNIT_ASSERT_LE(test, w->next, now + 1);
		if (!(calls & 255))
			cond_resched();
	}
	KUNIT_EXPECT_EQ(test, fired, n);
	/* One every third tick of the cascade. */
	KUNIT_EXPECT_GT(test, amid, n / HTW_BUDGET / c->calls / 5);
	KUNIT_EXPECT_LE(test, w->cascades, (u64)c->level * n + 4 * trickled);
	KUNIT_EXPECT_EQ(test, w->pending, 0);
	wheel_check(t);
	t->w.next = HTW_NEVER;
}

/*
 * Half of a bucket has been moved down when the rest of it is stopped and time jumps past
 * all of it: the half that was moved must not be skipped.
 */
static void half_moved_and_the_rest_stopped(struct kunit *test)
{
	static const struct htw_geometry geo = { 2, { 4, 4 } };
	struct wheel_test *t = wheel_new(test, &geo, 0);
	struct htw_wheel *w = &t->w;
	struct htw_node nodes[4] = {};
	unsigned int budget = 2;

	for (int i = 0; i < ARRAY_SIZE(nodes); i++)
		wheel_start(w, &nodes[i], 9, 0);
	KUNIT_ASSERT_NULL(test, htw_wheel_expire(w, 4, &budget));
	KUNIT_ASSERT_EQ(test, budget, 0);
	KUNIT_ASSERT_EQ(test, level_count(w, 0), 2);
	htw_wheel_stop(w, &nodes[2]);
	htw_wheel_stop(w, &nodes[3]);
	budget = UINT_MAX;
	KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(w, 10, &budget), &nodes[0]);
	KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(w, 10, &budget), &nodes[1]);
	KUNIT_EXPECT_NULL(test, htw_wheel_expire(w, 10, &budget));
	KUNIT_EXPECT_EQ(test, htw_wheel_next(w), HTW_NEVER);
	wheel_check(t);
}

static bool is_due(const struct htw_node *n, u64 time)
{
	return n->expires <= time;
}

/* At the end of the first level, nodes of the next tick may still be on an upper one. */
static void no_way_is_made_at_the_end_of_a_level(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, 0);
	const u64 last = t->w.level[0].end - 1;
	struct timer tm = {};
	bool ahead = false;

	timer_start(t, &tm, last + 1);
	KUNIT_EXPECT_FALSE(test, htw_wheel_make_due(&t->w, last, is_due, last, &ahead));
	KUNIT_EXPECT_TRUE(test, htw_wheel_make_due(&t->w, last - 1, is_due, last, &ahead));
	KUNIT_EXPECT_FALSE(test, ahead);
	wheel_until_empty(t);
	wheel_done(t);
}

/* --------------------------------- set back ------------------------------- */

#define REWIND_NODES		4000

/*
 * The clock goes back by @back: pending timers keep their ticks, as do those that were due
 * and have not been taken out, and timers started from then on may expire before them.
 */
static void rewind_by(struct kunit *test, u64 back, unsigned int budget)
{
	struct htw_node *nodes = test_kvcalloc(test, REWIND_NODES, sizeof(*nodes));
	const u64 from = 5 * BIT_ULL(32) + 100;
	struct wheel_test *t = wheel_new(test, &geo_default, from);
	struct htw_wheel *w = &t->w;
	unsigned int fired = 0;
	u64 now = from, last = 0;

	for (unsigned int i = 0; i < REWIND_NODES / 2; i++) {
		/* Some on each level, some beyond, some due. */
		wheel_start(w, &nodes[i], from - 5 + ((u64)i * 7919 << i % 28), now);
	}
	now -= back;
	htw_wheel_rewind(w, now);
	for (unsigned int i = REWIND_NODES / 2; i < REWIND_NODES; i++)
		wheel_start(w, &nodes[i], now + 1 + ((u64)i * 7919 << i % 24), now);
	KUNIT_ASSERT_EQ(test, w->pending, REWIND_NODES);

	while (fired < REWIND_NODES) {
		unsigned int left = budget;
		struct htw_node *n;

		while ((n = htw_wheel_expire(w, now, &left))) {
			KUNIT_ASSERT_GE(test, now, n->expires);
			KUNIT_ASSERT_GE(test, n->expires, last);
			if (budget == UINT_MAX)
				KUNIT_ASSERT_EQ(test, now, n->expires);
			last = n->expires;
			fired++;
		}
		htw_wheel_next(w);
		/* Time stands still while more is to be done. */
		if (left)
			now = max(now, w->next);
	}
	KUNIT_EXPECT_EQ(test, w->pending, 0);
	KUNIT_EXPECT_EQ(test, htw_wheel_next(w), HTW_NEVER);
	wheel_check(t);
}

static void rewind_keeps_every_tick(struct kunit *test)
{
	/* The last one is a rewind to the first ticks. */
	static const u64 backs[] = {
		6, 300, 70000, BIT_ULL(30), 4 * BIT_ULL(32), 5 * BIT_ULL(32) + 90,
	};

	for (int i = 0; i < ARRAY_SIZE(backs); i++)
		rewind_by(test, backs[i], UINT_MAX);
}

/* Before the nodes are back in place, a timer whose tick has come is due behind older ones. */
static void rewind_then_start_past(struct kunit *test)
{
	const u64 from = 5 * BIT_ULL(32) + 100;
	struct wheel_test *t = wheel_new(test, &geo_default, from);
	struct htw_node due = {}, far = {}, past = {};
	unsigned int left = HTW_ALL;

	wheel_start(&t->w, &far, from + 1000, from);
	wheel_start(&t->w, &due, from - 60, from);
	htw_wheel_rewind(&t->w, from - 50);
	wheel_start(&t->w, &past, from - 60, from - 50);
	KUNIT_EXPECT_EQ(test, t->w.next, 0);
	/* Older ones of its tick may be unsorted; one is. */
	KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(&t->w, from - 50, &left), &due);
	KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(&t->w, from - 50, &left), &past);
	KUNIT_EXPECT_NULL(test, htw_wheel_expire(&t->w, from - 50, &left));

	/* With nothing unsorted left it is due at once. */
	wheel_start(&t->w, &past, from - 60, from - 50);
	KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(&t->w, from - 50, &left), &past);
	htw_wheel_stop(&t->w, &far);
	wheel_done(t);
}

/* What was left of the nodes that were due, and is still due after the clock has been set back. */
static void rewind_with_due_left_over(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, 0);
	struct htw_wheel *w = &t->w;
	struct htw_node nodes[6] = {};
	unsigned int left = 1;

	for (unsigned int i = 0; i < ARRAY_SIZE(nodes); i++)
		wheel_start(w, &nodes[i], i < 4 ? 100 : 200, 0);
	KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(w, 300, &left), &nodes[0]);
	KUNIT_ASSERT_FALSE(test, list_empty(&w->due));
	htw_wheel_rewind(w, 150);
	left = HTW_ALL;
	KUNIT_EXPECT_FALSE(test, htw_wheel_cascade(w, &left));
	for (unsigned int i = 1; i < 4; i++)
		KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(w, 150, &left), &nodes[i]);
	KUNIT_EXPECT_NULL(test, htw_wheel_expire(w, 199, &left));
	for (unsigned int i = 4; i < 6; i++)
		KUNIT_EXPECT_PTR_EQ(test, htw_wheel_expire(w, 200, &left), &nodes[i]);
	wheel_done(t);
}

/* Nodes wait in the order of their ticks, also where the buckets wrap around. */
static void rewind_keeps_the_order(struct kunit *test)
{
	static const struct htw_geometry geo = { 2, { 30, 30 } };
	enum { NODES = 25 };
	struct htw_node *nodes = test_kvcalloc(test, NODES, sizeof(*nodes));
	const u64 from = 60 * 1000 + 40;
	struct htw_wheel *w = &wheel_new(test, &geo, from)->w;
	struct htw_node *n;
	unsigned int i;

	for (i = NODES; i--;)
		wheel_start(w, &nodes[i], from + 1 + i, from);
	htw_wheel_rewind(w, from - 5);
	i = 0;
	list_for_each_entry(n, &w->unsorted, list)
		KUNIT_EXPECT_PTR_EQ(test, n, &nodes[i++]);
	KUNIT_EXPECT_EQ(test, i, NODES);
	while (i--)
		htw_wheel_stop(w, &nodes[i]);
}

static void rewind_within_budgets(struct kunit *test)
{
	rewind_by(test, 300, 7);
	rewind_by(test, BIT_ULL(33), 64);
	rewind_by(test, 5 * BIT_ULL(32) + 90, 64);
}

/* --------------------------------- at random ------------------------------ */

enum owner {
	OWNER_PROMPT,		/* runs the wheel at each announced tick */
	OWNER_LATE,		/* runs it at random ticks */
	OWNER_BUDGETED,		/* the same, with a small budget */
	OWNER_CHANGING,		/* the same; adds and removes levels, and sets its clock back */
};

static const char * const owner_names[] = { "prompt", "late", "budgeted", "changing" };

struct random_case {
	const struct wheel_case *wheel;
	enum owner owner;
	u64 seed;
};

/* Each wheel with each owner; describe_random() fills it in. */
static struct random_case random_cases[ARRAY_SIZE(wheel_cases) * ARRAY_SIZE(owner_names)];

static void describe_random(struct random_case *c, char *desc)
{
	const unsigned int i = c - random_cases;

	c->wheel = &wheel_cases[i / ARRAY_SIZE(owner_names)];
	c->owner = i % ARRAY_SIZE(owner_names);
	c->seed = 0x6874770000ULL + i;
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s %s", c->wheel->name, owner_names[c->owner]);
}

KUNIT_ARRAY_PARAM(random, random_cases, describe_random);

/* Of up to @bits bits, all lengths equally likely. */
static u64 random_distance(struct rnd_state *rnd, unsigned int bits)
{
	u64 r = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);

	return r >> (63 - prandom_u32_state(rnd) % bits);
}

static u64 random_tick(struct wheel_test *t, struct rnd_state *rnd,
		       const struct htw_geometry *geo, u64 last)
{
	const unsigned int bits = fls64(geo_range(geo)) + 2;
	const u32 r = prandom_u32_state(rnd);
	u64 span;

	switch (r % 16) {
	case 0:
	case 1:
		return t->now + (r >> 4) % 4;
	case 2:
	case 3:
	case 4:		/* some of one tick, started from different distances */
		return last;
	case 5:
	case 6:
	case 7:		/* around a boundary */
		span = geo_span(geo, (r >> 4) % (geo->levels + 1));
		return (div64_u64(t->now, span) + 1 + (r >> 8) % 3) * span + (r >> 12) % 3 - 1;
	case 8:
		return t->now - min(t->now, random_distance(rnd, 12));
	case 9:
		return (r >> 4) % 8 ? t->now + random_distance(rnd, 45) : HTW_NEVER;
	default:
		return t->now + random_distance(rnd, bits);
	}
}

static u64 random_advance(struct wheel_test *t, struct rnd_state *rnd,
			  const struct htw_geometry *geo)
{
	const u32 r = prandom_u32_state(rnd);

	switch (r % 16) {
	case 0:
	case 1:
	case 2:
	case 3:
		return t->now + (r >> 4) % 4;
	case 4:
	case 5:
	case 6:
		if (t->w.next > t->now && t->w.next != HTW_NEVER)
			return t->w.next - 1 + (r >> 4) % 3;
		fallthrough;
	case 7:
	case 8:
		return t->now + (r >> 4) % (2 * geo->slots[0]);
	case 9:
		if ((r >> 4) % 64 == 0)
			return t->now + random_distance(rnd, 46);
		fallthrough;
	default:
		return t->now + random_distance(rnd, fls64(geo_range(geo)) / 2 + 1);
	}
}

/* Add levels to a wheel without any, remove them, or set the clock back; all of that seldom. */
static void random_change(struct wheel_test *t, struct rnd_state *rnd,
			  const struct htw_geometry *geo, struct timer *tm)
{
	const u32 r = prandom_u32_state(rnd);

	if (r % 256 == 0) {
		wheel_rewind(t, t->now - min(t->now, random_distance(rnd, 1 + (r >> 8) % 40)));
	} else if (r % 256 == 1 && !t->w.levels) {
		wheel_add_levels(t, geo);
	} else if (r % 2048 == 2) {
		/* Sometimes before there are levels, sometimes with them. */
		for (unsigned int i = 0; i < HTW_POOL; i++) {
			if (tm[i].armed)
				timer_stop(t, &tm[i]);
		}
		kvfree(htw_wheel_remove_levels(&t->w));
	}
}

static void random_against_model(struct kunit *test)
{
	const struct random_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	const unsigned int ops = HTW_OPS / 100 * c->wheel->share;
	struct timer *tm = test_kvcalloc(test, HTW_POOL, sizeof(*tm));
	u64 last = 0, start;
	struct rnd_state rnd;
	struct wheel_test *t;

	kunit_info(test, "seed %#llx, %u operations", c->seed, ops);
	prandom_seed_state(&rnd, c->seed);
	start = random_distance(&rnd, 62);
	t = wheel_new(test, c->owner == OWNER_CHANGING ? NULL : geo, start);
	t->prompt = c->owner == OWNER_PROMPT;

	for (unsigned int i = 0; i < ops; i++) {
		const u32 r = prandom_u32_state(&rnd);
		struct timer *one = &tm[(r >> 8) % HTW_POOL];
		u64 to;

		if (r % 8 < 6) {
			if (r % 8 < 5)
				last = random_tick(t, &rnd, geo, last);
			if (r % 8 < 2) {
				timer_restart(t, one, last);
			} else {
				if (one->armed)
					timer_stop(t, one);
				if (r % 8 < 5)
					timer_start(t, one, last);
			}
		} else {
			to = random_advance(t, &rnd, geo);
			if (c->owner == OWNER_CHANGING)
				random_change(t, &rnd, geo, tm);
			if (c->owner == OWNER_CHANGING)
				to = max(t->now, to);
			if (c->owner == OWNER_PROMPT)
				wheel_advance(t, to);
			else if (c->owner == OWNER_LATE)
				wheel_run(t, to, HTW_ALL);
			else
				wheel_run(t, to, 1 + (r >> 8) % 256);
		}
		if (i % 4096 == 0)
			wheel_check(t);
	}
	KUNIT_EXPECT_EQ(test, t->started, t->stopped + t->fired + t->count);
	KUNIT_EXPECT_GT(test, t->fired, ops / 50);
	KUNIT_EXPECT_GT(test, t->stopped, ops / 100);

	/* Expire all timers within reach and stop the others. */
	t->prompt = false;
	for (unsigned int i = 0; i < HTW_POOL; i++) {
		if (tm[i].armed && tm[i].expires == HTW_NEVER)
			timer_stop(t, &tm[i]);
	}
	htw_wheel_next(&t->w);
	wheel_until_empty(t);
	wheel_done(t);
}

/* ------------------------------ without levels ---------------------------- */

/* Numbers of nodes around what the sorted list takes, and around where the next tick is exact. */
struct crowd_case {
	const char *name;
	unsigned int count;
};

static const struct crowd_case crowd_cases[] = {
	{ "1", 1 }, { "2", 2 }, { "63", HTW_FEW }, { "64", HTW_FEW + 1 }, { "65", HTW_FEW + 2 },
	{ "1024", HTW_EXACT }, { "5000", 5000 },
};

KUNIT_ARRAY_PARAM_DESC(crowd, crowd_cases, name);

/* Ticks of which some are equal, some adjacent, and some very far. */
static u64 crowd_tick(u64 now, struct rnd_state *rnd)
{
	const u32 r = prandom_u32_state(rnd);

	switch (r % 4) {
	case 0:
		return now + 1 + (r >> 4) % 8;
	case 1:
		return now + 1 + (r >> 4) % 1000;
	default:
		return now + 1 + random_distance(rnd, 50);
	}
}

/* However many there are, each expires at its tick, equal ticks in the order of their starts. */
static void without_levels_exact(struct kunit *test)
{
	const struct crowd_case *c = test->param_value;
	struct timer *tm = test_kvcalloc(test, c->count, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, NULL, 1000);
	struct rnd_state rnd;
	u64 work = 0;

	prandom_seed_state(&rnd, c->count);
	for (unsigned int i = 0; i < c->count; i++)
		timer_start(t, &tm[i], crowd_tick(t->now, &rnd));
	wheel_check(t);
	KUNIT_EXPECT_PTR_EQ(test, t->w.level, &t->w.none[c->count > HTW_FEW]);
	KUNIT_EXPECT_EQ(test, t->w.levels, 0);

	while (t->count)
		work += wheel_run(t, t->w.next, HTW_ALL);
	KUNIT_EXPECT_EQ(test, t->fired, c->count);
	/* In the sorted list nothing is looked at twice; in the heap, twice for each digit. */
	if (c->count <= HTW_FEW)
		KUNIT_EXPECT_EQ(test, work, c->count);
	else
		KUNIT_EXPECT_LE(test, work, (u64)c->count * (1 + 2 * DIV_ROUND_UP(51, 2)));
	KUNIT_EXPECT_EQ(test, t->w.cascades, 0);
	wheel_done(t);
}

/* The list is sorted again as soon as the heap has become empty, and has been run. */
static void without_levels_sorted_again(struct kunit *test)
{
	struct timer *tm = test_kvcalloc(test, 2 * HTW_FEW, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, NULL, 1000);

	t->prompt = false;
	for (unsigned int round = 0; round < 3; round++) {
		KUNIT_ASSERT_PTR_EQ(test, t->w.level, &t->w.none[0]);
		for (unsigned int i = 0; i < 2 * HTW_FEW; i++)
			timer_start(t, &tm[i], t->now + 1 + i * i % 301);
		KUNIT_ASSERT_PTR_EQ(test, t->w.level, &t->w.none[1]);
		/* Stopped, or expired. */
		for (unsigned int i = 0; round && i < 2 * HTW_FEW; i += round)
			timer_stop(t, &tm[i]);
		wheel_run(t, t->now + 400, HTW_ALL);
		wheel_run(t, t->now + 1, HTW_ALL);
		KUNIT_ASSERT_EQ(test, t->count, 0);
	}
	wheel_done(t);
}

/* The next tick is that of the first timer, however far, after each start and each stop. */
static void without_levels_next_exact(struct kunit *test)
{
	const struct crowd_case *c = test->param_value;
	const unsigned int count = min(c->count, HTW_EXACT);
	struct timer *tm = test_kvcalloc(test, count, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, NULL, 1000);
	struct rnd_state rnd;

	prandom_seed_state(&rnd, c->count);
	for (unsigned int i = 0; i < count; i++) {
		timer_start(t, &tm[i], i % 100 == 7 ? HTW_NEVER : crowd_tick(t->now, &rnd));
		KUNIT_ASSERT_EQ(test, htw_wheel_next(&t->w), model_first(t)->due);
	}
	for (unsigned int i = 0; i < count; i++) {
		timer_stop(t, &tm[(i * 919ULL) % count]);
		KUNIT_ASSERT_EQ(test, htw_wheel_next(&t->w),
				model_first(t) ? model_first(t)->due : HTW_NEVER);
	}
	wheel_done(t);
}

/* Sorting the heap is interrupted after each node, by starts at ticks that are in it. */
static void without_levels_in_parts(struct kunit *test)
{
	struct timer *tm = test_kvcalloc(test, 3000, sizeof(*tm));

	for (unsigned int budget = 1; budget <= 64; budget *= 4) {
		struct wheel_test *t = wheel_new(test, NULL, 12345);
		unsigned int n = 0, unsorted = 0;

		t->prompt = false;
		for (; n < 1000; n++)
			timer_start(t, &tm[n], 12346 + n * n % 512);
		while (t->count) {
			wheel_run(t, max(t->now, t->w.next), budget);
			unsorted += !list_empty(&t->w.unsorted);
			/* At half of the turns, so that they have an end. */
			if (n < 3000 && t->runs % 2) {
				timer_start(t, &tm[n], 12346 + n * n % 512);
				n++;
			}
			if (t->runs % 64 == 0)
				wheel_check(t);
		}
		KUNIT_EXPECT_GT(test, unsorted, 10);
		wheel_done(t);
	}
}

/* --------------------------- levels come and go --------------------------- */

/* What there is when levels are added. */
enum held {
	HELD_NOTHING,
	HELD_ONE_FAR,
	HELD_FEW,
	HELD_MANY,
	HELD_DUE,
	HELD_UNSORTED,
	HELD_REWOUND,
	NR_HELD,
};

static const char * const held_names[] = {
	"nothing", "one_far", "few", "many", "due", "unsorted", "rewound",
};

struct adding_case {
	const struct wheel_case *wheel;
	enum held held;
};

/* Each wheel with each of them; describe_adding() fills it in. */
static struct adding_case adding_cases[ARRAY_SIZE(wheel_cases) * NR_HELD];

static void describe_adding(struct adding_case *c, char *desc)
{
	const unsigned int i = c - adding_cases;

	c->wheel = &wheel_cases[i / NR_HELD];
	c->held = i % NR_HELD;
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s to %s", c->wheel->name, held_names[c->held]);
}

KUNIT_ARRAY_PARAM(adding, adding_cases, describe_adding);

#define NR_ADDING	400

/*
 * Levels are added to what is there. All timers expire at their ticks, also those that are
 * started then for the ticks of older ones, at whatever distance, and come behind them.
 */
static void levels_added(struct kunit *test, const struct htw_geometry *geo, enum held held,
			 unsigned int budget)
{
	static const unsigned int counts[NR_HELD] = {
		[HELD_ONE_FAR] = 1, [HELD_FEW] = HTW_FEW, [HELD_MANY] = NR_ADDING, [HELD_DUE] = 20,
		[HELD_UNSORTED] = NR_ADDING, [HELD_REWOUND] = NR_ADDING,
	};
	struct timer *tm = test_kvcalloc(test, 2 * NR_ADDING, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, NULL, 7 * geo_range(geo) + 3);
	const u64 range = geo_range(geo), from = t->now;
	const unsigned int count = counts[held];
	unsigned int n = 0;

	/* Up to the sixth window beyond the last level, and a hundred times as far. */
	for (; n < count; n++)
		timer_start(t, &tm[n], from + 2 + (n % 8 ? n * range / 67 : n * 25 * range));
	if (held == HELD_ONE_FAR) {
		timer_stop(t, &tm[0]);
		timer_start(t, &tm[0], from + 1000 * range);
	}
	t->prompt = budget == HTW_ALL;
	switch (held) {
	case HELD_DUE:
		t->prompt = false;
		wheel_run(t, from + 10 * range, 3);
		KUNIT_ASSERT_FALSE(test, list_empty(&t->w.due));
		break;
	case HELD_UNSORTED:
		t->prompt = false;
		while (list_empty(&t->w.unsorted))
			wheel_run(t, from + range, 5);
		KUNIT_ASSERT_FALSE(test, list_empty(&t->w.unsorted));
		break;
	case HELD_REWOUND:
		t->prompt = false;
		wheel_run(t, from + range, HTW_ALL);
		wheel_rewind(t, from - range / 2);
		KUNIT_ASSERT_TRUE(test, t->w.rewound);
		wheel_run(t, t->now, 10);
		KUNIT_ASSERT_FALSE(test, list_empty(&t->w.unsorted));
		break;
	default:
		break;
	}
	wheel_check(t);
	wheel_add_levels(t, geo);
	/* Nothing has been moved. */
	for (unsigned int l = 0; l < geo->levels; l++)
		KUNIT_ASSERT_EQ(test, t->w.level[l].nonempty, 0);
	htw_wheel_next(&t->w);

	for (unsigned int i = 0; i < count; i++) {
		if (!tm[i].armed)
			continue;
		timer_start(t, &tm[n++], tm[i].expires);
		if (i % 3 == 0)
			wheel_run(t, max(t->now, min(t->w.next, t->now + range / 8)), budget);
	}
	wheel_check(t);
	while (t->count)
		wheel_run(t, max(t->now, t->w.next), budget);
	KUNIT_EXPECT_EQ(test, t->fired, n);
	/* The bounds of the levels are right at last. */
	wheel_check(t);
	wheel_done(t);
	kunit_release_action(test, test_kvfree, tm);
}

static void levels_added_keep_order(struct kunit *test)
{
	const struct adding_case *c = test->param_value;

	levels_added(test, c->wheel->geo, c->held, HTW_ALL);
	levels_added(test, c->wheel->geo, c->held, 1);
	levels_added(test, c->wheel->geo, c->held, 7);
}

static void levels_removed_and_added_again(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	struct timer *tm = test_kvcalloc(test, 100, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, NULL, 1000);
	void *memory;

	KUNIT_EXPECT_NULL(test, htw_wheel_remove_levels(&t->w));
	for (unsigned int round = 0; round < ARRAY_SIZE(wheel_cases); round++) {
		const struct htw_geometry *geo = round ? wheel_cases[round].geo : c->geo;

		/* Some before there are levels, some with them, some after. */
		for (unsigned int i = 0; i < 40; i++)
			timer_start(t, &tm[i], t->now + 1 + i * i * geo_range(geo) / 500);
		wheel_add_levels(t, geo);
		for (unsigned int i = 40; i < 80; i++)
			timer_start(t, &tm[i], t->now + 1 + (80 - i) * geo_range(geo) / 9);
		wheel_until_empty(t);

		memory = htw_wheel_remove_levels(&t->w);
		KUNIT_ASSERT_NOT_NULL(test, memory);
		memset(memory, 0x5a, htw_geometry_bytes(geo));
		kvfree(memory);
		KUNIT_EXPECT_NULL(test, htw_wheel_remove_levels(&t->w));
		KUNIT_EXPECT_EQ(test, t->w.levels, 0);
		KUNIT_EXPECT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
		for (unsigned int i = 0; i < 100; i++)
			timer_start(t, &tm[i], t->now + 1 + i * i % 64);
		wheel_until_empty(t);
	}
	wheel_done(t);
}

/* Levels of a wheel whose timers were all stopped can be removed, whatever the cursor. */
static void levels_removed_after_stops(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES, sizeof(*tm));
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(c->wheel->geo, t->now, ticks);

	t->prompt = false;
	for (unsigned int i = 0; i < n; i++)
		timer_start(t, &tm[i], ticks[i]);
	wheel_run(t, t->now + 1, 2);
	for (unsigned int i = 0; i < n; i++) {
		if (tm[i].armed)
			timer_stop(t, &tm[i]);
		tm[i].fired = 0;
	}
	kvfree(htw_wheel_remove_levels(&t->w));
	for (unsigned int i = 0; i < n; i++)
		timer_start(t, &tm[i], t->now + 1 + i / 2);
	htw_wheel_next(&t->w);
	wheel_until_empty(t);
	wheel_done(t);
}

/* ------------------------------ order, far away --------------------------- */

enum shape { SHAPE_LEVELS, SHAPE_NONE, SHAPE_ADDED };

/* Make a wheel with levels, or without; SHAPE_ADDED gets them from the case. */
static struct wheel_test *wheel_of(struct kunit *test, enum shape shape,
				   const struct htw_geometry *geo, u64 now)
{
	return wheel_new(test, shape == SHAPE_LEVELS ? geo : NULL, now);
}

/*
 * Timers of a few ticks, which are years away at first, started ever later: relative to ever
 * other bases, in ever other lists, and at last on the levels.
 */
static void far_ticks_in_order_of_start(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const u64 range = geo_range(c->geo), tick = 3 * BIT_ULL(45) + 12345 * range;
	struct timer *tm = test_kvcalloc(test, 1000, sizeof(*tm));

	for (enum shape shape = SHAPE_LEVELS; shape <= SHAPE_ADDED; shape++) {
		for (unsigned int more = 0; more <= 100; more += 100) {
			struct wheel_test *t = wheel_of(test, shape, c->geo, 3);
			u64 distance = tick - t->now;
			unsigned int n = 0;

			/* More than the sorted list takes. */
			for (; n < more; n++)
				timer_start(t, &tm[n], tick + 2 + n % 3);
			for (; distance; distance -= distance / 3 + 1) {
				wheel_advance(t, tick - distance);
				for (unsigned int i = 0; i < 3; i++)
					timer_start(t, &tm[n++], tick + i % 2);
				if (shape == SHAPE_ADDED && !t->w.levels && distance < 100 * range)
					wheel_add_levels(t, c->geo);
			}
			KUNIT_EXPECT_GT(test, n, 150);
			wheel_check(t);
			wheel_until_empty(t);
			wheel_done(t);
		}
	}
}

/* The same while lists are sorted a few nodes at a time, and the clock is set back meanwhile. */
static void far_ticks_in_order_when_set_back(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const u64 range = geo_range(c->geo);
	struct timer *tm = test_kvcalloc(test, 1000, sizeof(*tm));

	for (enum shape shape = SHAPE_LEVELS; shape <= SHAPE_ADDED; shape++) {
		struct wheel_test *t = wheel_of(test, shape, c->geo, 100 * range);
		const u64 from = t->now;
		unsigned int n = 0, started = 0;

		t->prompt = false;
		for (; n < 200; n++)
			timer_start(t, &tm[n], from + 1 + n % 5 * range * 20 + n % 3);
		for (unsigned int turn = 0; turn < 40; turn++) {
			wheel_run(t, t->now + range, 3);
			wheel_rewind(t, t->now - range * (turn % 4) - 1);
			/* During the rewind: a passed tick, the present one, an older timer's. */
			for (unsigned int i = 0; i < 3; i++)
				wheel_run(t, t->now, 3);
			started += t->w.rewound;
			timer_start(t, &tm[n++], t->now - 1);
			timer_start(t, &tm[n++], t->now);
			timer_start(t, &tm[n++], from + 1 + turn % 5 * range * 20 + turn % 3);
			if (turn == 20 && shape == SHAPE_ADDED)
				wheel_add_levels(t, c->geo);
		}
		KUNIT_EXPECT_GT(test, started, 10);
		wheel_check(t);
		while (t->count)
			wheel_run(t, max(t->now, t->w.next), 5);
		KUNIT_EXPECT_EQ(test, t->fired, n);
		wheel_done(t);
	}
}

/* A tick at the end of its range, or near the present. */
#define NR_ENDS		8
static u64 end_tick(const struct wheel_test *t, unsigned int i)
{
	const u64 ticks[NR_ENDS] = {
		0, t->w.cursor - 1, t->w.cursor,
		HTW_LAST_TICK - 1, HTW_LAST_TICK, HTW_LAST_TICK + 1,
		HTW_NEVER - 1, HTW_NEVER,
	};

	return ticks[i];
}

/* Nothing was advanced beyond the time, so it was not set back for the wheel. */
static void rewind_without_need_does_nothing(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, 1000);
	struct timer tm[4] = {};
	u64 next;

	timer_start(t, &tm[0], 1001);
	timer_start(t, &tm[1], 1000);
	timer_start(t, &tm[2], 5000);
	timer_start(t, &tm[3], HTW_NEVER - 1);
	next = t->w.next;
	htw_wheel_rewind(&t->w, 1000);
	htw_wheel_rewind(&t->w, 1001);
	htw_wheel_rewind(&t->w, BIT_ULL(40));
	for (unsigned int i = 2; i < NR_ENDS; i++)
		htw_wheel_rewind(&t->w, end_tick(t, i));
	KUNIT_EXPECT_EQ(test, t->w.next, next);
	KUNIT_EXPECT_EQ(test, t->w.cursor, 1001);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->w.unsorted));
	wheel_check(t);
	timer_stop(t, &tm[3]);
	wheel_until_empty(t);
	wheel_done(t);
}

static bool nothing_is_due(const struct htw_node *n, u64 time)
{
	return false;
}

static void node_counted(struct htw_node *n, void *count)
{
	++*(unsigned int *)count;
}

/* An advance expires what sorting after a rewind has found. */
static void rewind_then_advance(struct kunit *test)
{
	static const struct htw_geometry geo = { .levels = 2, .slots = { 4, 4 } };
	struct wheel_test *t = wheel_new(test, &geo, 100);
	struct htw_node due = {}, far = {};
	unsigned int left = HTW_ALL, count = 0;

	wheel_start(&t->w, &far, 1000, 100);
	wheel_start(&t->w, &due, 50, 100);
	htw_wheel_rewind(&t->w, 80);
	KUNIT_EXPECT_TRUE(test, htw_wheel_advance(&t->w, 80, &left, node_counted, &count));
	KUNIT_EXPECT_EQ(test, count, 1);
	KUNIT_EXPECT_FALSE(test, htw_node_pending(&due));
	htw_wheel_stop(&t->w, &far);
	wheel_done(t);
}

/*
 * Where a list is too long to be searched for its first node, the next work is not before the
 * cursor: a caller that goes by it makes progress.
 */
static void next_is_not_passed(struct kunit *test)
{
	const unsigned int many = 1100;
	struct wheel_test *t = wheel_new(test, NULL, 0);
	struct htw_node *nodes = test_kvcalloc(test, many, sizeof(*nodes));
	unsigned int left, count = 0;
	u64 now = 500000;

	for (unsigned int i = 0; i < many; i++)
		wheel_start(&t->w, &nodes[i], 1000000 + i, 0);
	htw_wheel_forward(&t->w, now);
	for (unsigned int turns = 0; count < many; turns++) {
		left = HTW_ALL;
		KUNIT_ASSERT_TRUE(test, htw_wheel_advance(&t->w, now, &left, node_counted, &count));
		if (count < many)
			KUNIT_ASSERT_GT(test, htw_wheel_next(&t->w), now);
		KUNIT_ASSERT_LT(test, turns, many + 100);
		now = t->w.next;
	}
	wheel_done(t);
}

/* Expire all that ever does; stop the rest. */
static void wheel_until_the_end(struct wheel_test *t, struct timer *tm, unsigned int n)
{
	while (t->w.next != HTW_NEVER)
		wheel_run(t, max(t->now, t->w.next), HTW_ALL);
	for (unsigned int i = 0; i < n; i++) {
		KUNIT_ASSERT_EQ(t->test, tm[i].armed, tm[i].armed && tm[i].expires > HTW_LAST_TICK);
		if (tm[i].armed)
			timer_stop(t, &tm[i]);
	}
	wheel_done(t);
}

/* A wheel may begin at any tick, whatever is started then. */
static void begin_at_any_tick(struct kunit *test)
{
	static const u64 begins[] = {
		0, 1, HTW_LAST_TICK - 1, HTW_LAST_TICK, HTW_LAST_TICK + 1, HTW_NEVER - 1, HTW_NEVER,
	};
	const struct wheel_case *c = test->param_value;

	for (unsigned int at = 0; at < 2 * ARRAY_SIZE(begins); at++) {
		struct wheel_test *t = wheel_new(test, at % 2 ? NULL : c->geo, begins[at / 2]);
		struct timer tm[NR_ENDS] = {};

		for (unsigned int i = 0; i < NR_ENDS; i++)
			timer_start(t, &tm[i], end_tick(t, i));
		wheel_check(t);
		wheel_until_the_end(t, tm, NR_ENDS);
	}
}

/*
 * Any tick in the place of any other, on a wheel whose levels have moved: the present, a start, a
 * restart, a time that was set back.
 */
static void any_tick_anywhere(struct kunit *test)
{
	const struct wheel_case *c = test->param_value;
	const u64 range = geo_range(c->geo);

	for (unsigned int at = 0; at < 2 * 4 * NR_ENDS * NR_ENDS; at++) {
		const unsigned int first = at / 2 % NR_ENDS, second = at / 2 / NR_ENDS % NR_ENDS;
		struct wheel_test *t = wheel_new(test, at % 2 ? NULL : c->geo, 1000);
		const unsigned int call = at / 2 / NR_ENDS / NR_ENDS;
		struct timer tm[12 + NR_ENDS] = {};
		unsigned int n = 0;

		for (; n < 10; n++)
			timer_start(t, &tm[n], t->now + 1 + n * n * range / 20);
		for (unsigned int i = 0; i < NR_ENDS; i++)
			timer_start(t, &tm[n++], end_tick(t, i));
		t->prompt = false;
		wheel_run(t, t->now + range / 3, HTW_ALL);

		wheel_run(t, max(t->now, end_tick(t, first)), call & 1 ? 3 : HTW_ALL);
		wheel_check(t);
		switch (call) {
		case 0:
			timer_start(t, &tm[n++], end_tick(t, second));
			break;
		case 1:
			timer_restart(t, &tm[2], end_tick(t, second));
			timer_restart(t, &tm[9], end_tick(t, second));
			break;
		case 2:
			wheel_rewind(t, end_tick(t, second));
			break;
		case 3:
			timer_start(t, &tm[n++], end_tick(t, second));
			wheel_rewind(t, end_tick(t, first));
			htw_wheel_forward(&t->w, max(t->now, end_tick(t, second)));
			t->now = max(t->now, end_tick(t, second));
			break;
		}
		wheel_check(t);
		wheel_run(t, t->now, 1);
		timer_start(t, &tm[n++], HTW_NEVER);
		wheel_until_the_end(t, tm, n);
	}
}

/* What programs do with deadlines and ticks does not wrap. */
static void sums_do_not_wrap(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, htw_tick_up(U64_MAX, 1), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_tick_up(U64_MAX, MS), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_tick_up(U64_MAX - 1, MS), div64_u64(U64_MAX, MS) + 1);
	KUNIT_EXPECT_EQ(test, htw_tick_up(0, MS), 0);
	KUNIT_EXPECT_EQ(test, htw_tick_within(U64_MAX, 0, MS), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_tick_within(U64_MAX, 5 * MS, MS), HTW_NEVER);

	KUNIT_EXPECT_EQ(test, htw_tick_time(0, MS), 0);
	KUNIT_EXPECT_EQ(test, htw_tick_time(7, MS), 7 * MS);
	KUNIT_EXPECT_EQ(test, htw_tick_time(HTW_NEVER, MS), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_tick_time(HTW_NEVER, 1), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_tick_time(div64_u64(U64_MAX, MS), MS),
			div64_u64(U64_MAX, MS) * MS);
	KUNIT_EXPECT_EQ(test, htw_tick_time(div64_u64(U64_MAX, MS) + 1, MS), HTW_NEVER);

	KUNIT_EXPECT_EQ(test, htw_time_after(5, 6), 11);
	KUNIT_EXPECT_EQ(test, htw_time_after(U64_MAX - 5, 5), U64_MAX);
	KUNIT_EXPECT_EQ(test, htw_time_after(U64_MAX - 5, 6), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_time_after(1, U64_MAX), HTW_NEVER);

	KUNIT_EXPECT_EQ(test, htw_tick_timeout(HTW_NEVER, MS, 0), -1);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(HTW_LAST_TICK, MS, 5), -1);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(7, MS, 7 * MS), 0);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(7, MS, U64_MAX), 0);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(7, MS, 7 * MS - 1), 1);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(7, MS, 6 * MS), 1);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(7, MS, 6 * MS - 1), 2);
	KUNIT_EXPECT_EQ(test, htw_tick_timeout(BIT_ULL(44), MS, 0), INT_MAX);
}

/* A loop that takes nodes out and sleeps until the next work ends, and is not back for nothing. */
static void expire_does_all_work(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	const u64 range = geo_range(c->wheel->geo), from = t->now;
	struct htw_node nodes[20] = {};
	unsigned int count = 0;
	u64 now = from;

	for (unsigned int i = 0; i < ARRAY_SIZE(nodes); i++)
		wheel_start(&t->w, &nodes[i], from + 1 + i * range / 7, from);
	for (unsigned int turns = 0; count < ARRAY_SIZE(nodes); turns++) {
		unsigned int left = HTW_ALL;
		struct htw_node *n;

		now = htw_wheel_next(&t->w);
		while ((n = htw_wheel_expire(&t->w, now, &left))) {
			KUNIT_ASSERT_EQ(test, n->expires, now);
			count++;
		}
		KUNIT_ASSERT_GT(test, htw_wheel_next(&t->w), now);
		KUNIT_ASSERT_LT(test, turns, 20 * ARRAY_SIZE(nodes));
	}
	wheel_done(t);
}

/* An advance that has nothing to do looks at nothing, and is no reason to be late. */
static void quiet_until_work(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	const u64 from = t->now;
	struct htw_node nodes[2] = {};
	unsigned int left, count = 0;

	wheel_start(&t->w, &nodes[0], from + 500, from);
	for (u64 now = from; now < from + 500; now++) {
		left = HTW_ALL;
		KUNIT_ASSERT_TRUE(test, htw_wheel_advance(&t->w, now, &left, node_counted, &count));
		KUNIT_ASSERT_EQ(test, count, 0);
		KUNIT_ASSERT_EQ(test, t->w.cursor, now + 1);
		/* What is started meanwhile is not passed. */
		if (now == from + 200)
			htw_wheel_start(&t->w, &nodes[1], from + 203);
		if (now == from + 202) {
			left = HTW_ALL;
			htw_wheel_advance(&t->w, now + 1, &left, node_counted, &count);
			KUNIT_ASSERT_EQ(test, count, 1);
			KUNIT_ASSERT_FALSE(test, htw_node_pending(&nodes[1]));
			count = 0;
			now++;
		}
	}
	left = HTW_ALL;
	htw_wheel_advance(&t->w, from + 500, &left, node_counted, &count);
	KUNIT_EXPECT_EQ(test, count, 1);
	wheel_done(t);
}

/* Nodes that never expire are neither due nor next, and are found by all that look at nodes. */
static void never_is_counted(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	struct wheel_test *t = wheel_new(test, c->wheel->geo, start_tick(c));
	unsigned int left = HTW_ALL, count = 0;
	struct timer tm[4] = {};
	struct htw_node *n;

	for (unsigned int i = 0; i < 3; i++)
		timer_start(t, &tm[i], HTW_LAST_TICK + 1 + i);
	timer_start(t, &tm[3], HTW_LAST_TICK);
	KUNIT_EXPECT_LE(test, htw_wheel_next(&t->w), HTW_LAST_TICK);
	timer_stop(t, &tm[3]);
	KUNIT_EXPECT_EQ(test, htw_wheel_next(&t->w), HTW_NEVER);
	KUNIT_EXPECT_EQ(test, htw_wheel_first_tick(&t->w), HTW_NEVER);
	KUNIT_EXPECT_TRUE(test, htw_wheel_first_node(&t->w, 0, &n));
	KUNIT_EXPECT_NULL(test, n);

	KUNIT_EXPECT_TRUE(test, htw_wheel_advance(&t->w, HTW_NEVER, &left, node_counted, &count));
	KUNIT_EXPECT_EQ(test, count, 0);
	htw_wheel_walk(&t->w, node_counted, &count);
	KUNIT_EXPECT_EQ(test, count, 3);
	KUNIT_EXPECT_EQ(test, htw_wheel_count(&t->w), 3);
	for (unsigned int i = 0; i < 3; i++) {
		KUNIT_EXPECT_PTR_EQ(test, htw_wheel_evict(&t->w), &tm[i].node);
		timer_gone(t, &tm[i]);
	}
	KUNIT_EXPECT_NULL(test, htw_wheel_evict(&t->w));
	wheel_done(t);
}

/* There is no tick after the last for which another node could wait. */
static void way_is_made_at_the_end(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, HTW_LAST_TICK - 1);
	struct timer tm[2] = {};
	bool ahead = false;

	timer_start(t, &tm[0], HTW_LAST_TICK + 1);
	for (unsigned int i = 4; i < NR_ENDS; i++) {
		htw_wheel_forward(&t->w, end_tick(t, i));
		KUNIT_EXPECT_TRUE(test, htw_wheel_make_due(&t->w, end_tick(t, i), nothing_is_due, 0,
							   &ahead));
	}
	KUNIT_EXPECT_FALSE(test, ahead);
	timer_stop(t, &tm[0]);
	wheel_done(t);
}

/* Time ends, whatever the caller says. */
static void time_ends(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_default, 0);
	struct htw_node last = {}, never = {};
	unsigned int left = HTW_ALL, count = 0;

	wheel_start(&t->w, &last, HTW_LAST_TICK, 0);
	wheel_start(&t->w, &never, HTW_LAST_TICK + 1, 0);
	KUNIT_EXPECT_TRUE(test, htw_wheel_advance(&t->w, HTW_NEVER, &left, node_counted, &count));
	KUNIT_EXPECT_EQ(test, count, 1);
	KUNIT_EXPECT_TRUE(test, htw_node_pending(&never));
	htw_wheel_stop(&t->w, &never);
	wheel_done(t);
}

/* --------------------------- looks, years ahead --------------------------- */

#define YEARS_24	(24 * 365 * 86400ULL)
#define NR_YEARS	(HTW_OPS / 10)

/*
 * Timers over 24 years, on a wheel of twelve hours: what is looked at is counted, as the budget
 * does. Each node goes through the lists of the 15 digits of its distance at most, at most twice
 * each; if all that is beyond were looked at in each turn of the last level, it were thousands.
 */
static void years_ahead_cost_few_looks(struct kunit *test)
{
	struct timer *tm = test_kvcalloc(test, NR_YEARS, sizeof(*tm));
	const unsigned int digits = DIV_ROUND_UP(fls64(YEARS_24), 2);

	for (enum shape shape = SHAPE_LEVELS; shape <= SHAPE_ADDED; shape++) {
		struct wheel_test *t = wheel_of(test, shape, &geo_clock, 999);
		struct timer near = {};
		struct rnd_state rnd;
		u64 work = 0, most;

		prandom_seed_state(&rnd, 24);
		for (unsigned int i = 0; i < NR_YEARS; i++) {
			const u64 tick = (u64)prandom_u32_state(&rnd) * YEARS_24 >> 32;

			timer_start(t, &tm[i], t->now + 1 + tick);
		}
		if (shape == SHAPE_ADDED)
			wheel_add_levels(t, &geo_clock);
		/* One that comes every hour, as the owner's own would. */
		while (t->count) {
			if (!near.armed && t->now < YEARS_24)
				timer_start(t, &near, t->now + 3600);
			work += wheel_run(t, max(t->now, t->w.next), HTW_ALL);
		}
		kunit_info(test, "%llu looks for %llu expirations", work, t->fired);
		/* Each is expired, and goes through all levels, and through the lists. */
		most = t->fired * (1 + geo_clock.levels) + (u64)NR_YEARS * 2 * digits;
		if (shape == SHAPE_NONE)
			most += near.fired * 2 * DIV_ROUND_UP(fls64(3600), 2);
		KUNIT_EXPECT_LE(test, work, most);
		if (shape == SHAPE_LEVELS)
			KUNIT_EXPECT_LE(test, t->w.cascades, t->fired * geo_clock.levels);
		wheel_done(t);
	}
}

/* ---------------------------------- slack --------------------------------- */

struct coalesce_case {
	const char *name;
	u64 first, last, expected;
};

static const struct coalesce_case coalesce_cases[] = {
	{ "in_between", 100, 200, 128 },
	{ "the_first", 128, 200, 128 },
	{ "the_last", 100, 128, 128 },
	{ "beyond_the_first", 129, 200, 192 },
	{ "next_to_each_other", 7, 8, 8 },
	{ "next_to_each_other_odd_last", 8, 9, 8 },
	{ "one_time", 100, 100, 100 },
	{ "none", 100, 99, 100 },
	{ "none_at_all", 100, 0, 100 },
	{ "from_zero", 0, 1000, 0 },
	{ "from_one", 1, U64_MAX, BIT_ULL(63) },
	{ "above_32_bits", 100, 10 * (u64)NSEC_PER_SEC, BIT_ULL(33) },
	{ "the_upper_half", BIT_ULL(63) + 1, U64_MAX, BIT_ULL(63) + BIT_ULL(62) },
	{ "the_end", U64_MAX - 1, U64_MAX, U64_MAX - 1 },
	{ "the_very_end", U64_MAX, U64_MAX, U64_MAX },
};

KUNIT_ARRAY_PARAM_DESC(coalesce, coalesce_cases, name);

static void coalesce_most_zero_bits(struct kunit *test)
{
	const struct coalesce_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, htw_coalesce(c->first, c->last), c->expected);
}

/* All that is allowed is looked at, of all ranges of small numbers. */
static void coalesce_finds_the_best(struct kunit *test)
{
	for (u64 first = 1; first < 130; first++) {
		u64 best = first;

		for (u64 last = first; last < 300; last++) {
			if (__ffs64(last) > __ffs64(best))
				best = last;
			KUNIT_ASSERT_EQ(test, htw_coalesce(first, last), best);
		}
	}
}

struct within_case {
	const char *name;
	u64 deadline, slack, tick_ns, expected;
};

static const struct within_case within_cases[] = {
	/* 2^27 ns are 134.2 ms, 2^28 are 268.4. */
	{ "time_of_most_zeros_rounded_up", 100 * MS, 50 * MS, MS, 135 },
	{ "another_tick", 100 * MS, 50 * MS, 10 * MS, 14 },
	{ "a_tick_of_1_ns", 100 * MS, 50 * MS, 1, BIT_ULL(27) },
	{ "a_tick_that_is_not_decimal", 100 * MS, 50 * MS, 7 * MS + 1, 20 },
	{ "not_after_the_last_tick", 100 * MS, 35 * MS - 1, MS, 134 },
	{ "the_last_tick", 100 * MS, 35 * MS, MS, 135 },
	{ "at_the_deadline", BIT_ULL(27), 3 * MS, MS, 135 },
	{ "less_than_a_tick", 100 * MS + 1, MS - 1, MS, 101 },
	{ "a_tick", 100 * MS + 1, MS, MS, 101 },
	{ "none", 100 * MS + 1, 0, MS, 101 },
	{ "none_on_a_tick", 100 * MS, 0, MS, 100 },
	{ "deadline_zero", 0, 50 * MS, MS, 0 },
	{ "sum_beyond_the_end", 100 * MS + 1, U64_MAX, MS, 101 },
	{ "up_to_the_end", 1, U64_MAX - 1, MS, 9223372036855 },
};

KUNIT_ARRAY_PARAM_DESC(within, within_cases, name);

static void tick_within_slack(struct kunit *test)
{
	const struct within_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, htw_tick_within(c->deadline, c->slack, c->tick_ns), c->expected);
}

/* Never early, never later than allowed. */
static void tick_within_bounds(struct kunit *test)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 7);
	for (unsigned int i = 0; i < HTW_OPS / 10; i++) {
		const u64 tick_ns = 1 + random_distance(&rnd, 30);
		const u64 deadline = random_distance(&rnd, 60), slack = random_distance(&rnd, 40);
		const u64 tick = htw_tick_within(deadline, slack, tick_ns);
		const u64 first = htw_tick_up(deadline, tick_ns);

		KUNIT_ASSERT_GE(test, tick * tick_ns, deadline);
		if (slack < tick_ns)
			KUNIT_ASSERT_EQ(test, tick, first);
		else
			KUNIT_ASSERT_LE(test, tick * tick_ns, deadline + slack);
	}
}

/* ---------------------- other operations on the wheel --------------------- */

struct advance_test {
	struct kunit *test;
	struct htw_wheel *w;
	u64 now;
	struct htw_node nodes[4];
	unsigned int calls[4];
};

static void advance_called(struct htw_node *n, void *arg)
{
	struct advance_test *a = arg;
	struct kunit *test = a->test;
	const unsigned int i = n - a->nodes;

	KUNIT_ASSERT_LT(test, i, 4);
	KUNIT_EXPECT_FALSE(test, htw_node_pending(n));
	KUNIT_EXPECT_LE(test, n->expires, a->now);
	switch (i) {
	case 0:		/* starts itself, twice for a tick that has come, then ahead */
		htw_wheel_start(a->w, n, a->now + (a->calls[0] < 2 ? 0 : 100));
		break;
	case 1:		/* stops another that is due as well */
		htw_wheel_stop(a->w, &a->nodes[2]);
		break;
	case 3:		/* is freed */
		memset(n, 0x5a, sizeof(*n));
		break;
	}
	a->calls[i]++;
}

/* What expires may start, stop and free any node. */
static void advance_calls_for_each(struct kunit *test)
{
	for (enum shape shape = SHAPE_LEVELS; shape <= SHAPE_NONE; shape++) {
		struct wheel_test *t = wheel_of(test, shape, &geo_ch11, 1000);
		struct advance_test a = { .test = test, .w = &t->w, .now = 5000 };
		unsigned int budget = 100;

		for (unsigned int i = 0; i < 4; i++) {
			htw_node_init(&a.nodes[i]);
			htw_wheel_start(&t->w, &a.nodes[i], 1001 + i);
		}
		KUNIT_EXPECT_TRUE(test, htw_wheel_advance(&t->w, 5000, &budget,
							  advance_called, &a));
		KUNIT_EXPECT_EQ(test, a.calls[0], 3);
		KUNIT_EXPECT_EQ(test, a.calls[1], 1);
		KUNIT_EXPECT_EQ(test, a.calls[2], 0);
		KUNIT_EXPECT_EQ(test, a.calls[3], 1);
		KUNIT_EXPECT_LE(test, budget, 100 - 5);
		KUNIT_EXPECT_EQ(test, htw_wheel_count(&t->w), 1);
		KUNIT_EXPECT_GT(test, htw_wheel_next(&t->w), 5000);
		KUNIT_EXPECT_TRUE(test, htw_node_pending(&a.nodes[0]));
		htw_wheel_stop(&t->w, &a.nodes[0]);
		wheel_done(t);
	}
}

static void advance_counted(struct htw_node *n, void *arg)
{
	++*(unsigned int *)arg;
}

/* It says whether its budget was enough, and never expires more than that. */
static void advance_within_budget(struct kunit *test)
{
	struct timer *tm = test_kvcalloc(test, 200, sizeof(*tm));

	for (enum shape shape = SHAPE_LEVELS; shape <= SHAPE_NONE; shape++) {
		for (unsigned int count = 20; count <= 200; count *= 10) {
			struct wheel_test *t = wheel_of(test, shape, &geo_64, 0);
			unsigned int expired = 0, turns = 0, budget;

			for (unsigned int i = 0; i < count; i++)
				wheel_start(&t->w, &tm[i].node, 100 + i % 2, 0);
			budget = 0;
			KUNIT_EXPECT_FALSE(test, htw_wheel_advance(&t->w, 200, &budget,
								   advance_counted, &expired));
			KUNIT_EXPECT_EQ(test, expired, 0);
			for (;;) {
				bool done;

				budget = 7;
				done = htw_wheel_advance(&t->w, 200, &budget, advance_counted,
							 &expired);
				KUNIT_ASSERT_LE(test, expired, 7 * ++turns);
				if (done)
					break;
				KUNIT_ASSERT_EQ(test, budget, 0);
				KUNIT_ASSERT_LE(test, htw_wheel_next(&t->w), 201);
			}
			KUNIT_EXPECT_EQ(test, expired, count);
			wheel_done(t);
		}
	}
}

/* After a rewind, what is due again is expired by the same call. */
static void advance_after_a_rewind(struct kunit *test)
{
	struct wheel_test *t = wheel_new(test, &geo_64, 1000);
	unsigned int expired = 0, budget = 100;
	struct htw_node past = {}, far = {};

	wheel_start(&t->w, &far, 5000, 1000);
	wheel_start(&t->w, &past, 900, 1000);
	htw_wheel_rewind(&t->w, 950);
	while (!htw_wheel_advance(&t->w, 950, &budget, advance_counted, &expired))
		KUNIT_ASSERT_GT(test, budget, 0);
	KUNIT_EXPECT_EQ(test, expired, 1);
	KUNIT_EXPECT_FALSE(test, htw_node_pending(&past));
	KUNIT_EXPECT_GT(test, htw_wheel_next(&t->w), 950);
	htw_wheel_stop(&t->w, &far);
	wheel_done(t);
}

static void walk_visited(struct htw_node *n, void *arg)
{
	container_of(n, struct timer, node)->fired++;
	++*(u64 *)arg;
}

static void expect_all_visited(struct wheel_test *t, struct timer *tm, unsigned int count)
{
	struct kunit *test = t->test;
	u64 visited = 0;

	htw_wheel_walk(&t->w, walk_visited, &visited);
	KUNIT_ASSERT_EQ(test, visited, t->count);
	for (unsigned int i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(test, tm[i].fired, tm[i].armed);
		KUNIT_ASSERT_EQ(test, htw_node_pending(&tm[i].node), tm[i].armed);
		tm[i].fired = 0;
	}
}

/* A walk finds each node once, in whatever list it is, and those alone are pending. */
static void walk_visits_all(struct kunit *test)
{
	const struct start_case *c = test->param_value;
	const struct htw_geometry *geo = c->wheel->geo;
	struct timer *tm = test_kvcalloc(test, MAX_BOUNDARIES + 2, sizeof(*tm));
	u64 ticks[MAX_BOUNDARIES];
	unsigned int n = boundaries(geo, start_tick(c), ticks);

	for (enum shape shape = SHAPE_LEVELS; shape <= SHAPE_ADDED; shape++) {
		struct wheel_test *t = wheel_of(test, shape, geo, start_tick(c));

		t->prompt = false;
		for (unsigned int i = 0; i < n; i++) {
			timer_start(t, &tm[i], ticks[i]);
			expect_all_visited(t, tm, n + 2);
		}
		timer_start(t, &tm[n], HTW_NEVER);
		timer_start(t, &tm[n + 1], t->now);
		if (shape == SHAPE_ADDED)
			wheel_add_levels(t, geo);
		expect_all_visited(t, tm, n + 2);
		/* Some due, some half moved, some unsorted. */
		for (u64 now = t->now; t->count > n / 2; now += geo_range(geo) / 4 + 1) {
			wheel_run(t, now, 5);
			for (unsigned int i = 0; i < n + 2; i++)
				tm[i].fired = 0;
			expect_all_visited(t, tm, n + 2);
		}
		for (unsigned int i = 0; i < n + 2; i++) {
			if (tm[i].armed)
				timer_stop(t, &tm[i]);
			expect_all_visited(t, tm, n + 2);
		}
		wheel_done(t);
	}
}

/* Moved from each place, or started, a node comes behind the others of its tick. */
static void restart_comes_last(struct kunit *test)
{
	const struct place_case *p = test->param_value;

	for (unsigned int g = 0; g < ARRAY_SIZE(wheel_cases); g++) {
		const struct htw_geometry *geo = wheel_cases[g].geo;

		for (unsigned int l = 0; l <= geo->levels; l++) {
			struct wheel_test *t = wheel_new(test, geo, 5 * geo_range(geo) + 1);
			struct timer tm[NR_PLACED + 1] = {};
			u64 tick;

			t->prompt = p->place != PLACE_DUE_LEFT_OVER;
			place_timers(t, tm, p->place);
			tick = tick_on_level(&t->w, l);
			timer_restart(t, &tm[NR_PLACED], tick);
			for (unsigned int k = 0; k < NR_PLACED; k++)
				timer_restart(t, &tm[k], tick);
			timer_restart(t, &tm[1], tick);
			wheel_check(t);
			wheel_until_empty(t);
			wheel_done(t);
		}
	}
}

/* The same without levels, for few and for many. */
static void restart_without_levels(struct kunit *test)
{
	const struct crowd_case *c = test->param_value;
	struct timer *tm = test_kvcalloc(test, c->count, sizeof(*tm));
	struct wheel_test *t = wheel_new(test, NULL, 1000);
	struct rnd_state rnd;

	prandom_seed_state(&rnd, c->count);
	for (unsigned int i = 0; i < 3 * c->count; i++)
		timer_restart(t, &tm[i * 919ULL % c->count], crowd_tick(t->now, &rnd));
	wheel_check(t);
	wheel_until_empty(t);
	wheel_done(t);
}

static void node_is_small(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, sizeof(struct htw_node), IS_ENABLED(CONFIG_64BIT) ? 24 : 16);
}

/* Of more than 32 nodes in the next tick none is made due ahead of others that are not. */
static void way_is_made_for_few(struct kunit *test)
{
	struct timer *tm = test_kvcalloc(test, 100, sizeof(*tm));

	for (unsigned int count = 31; count <= 34; count++) {
		for (unsigned int shape = 0; shape < 3; shape++) {
			struct wheel_test *t = wheel_new(test, shape ? NULL : &geo_default, 1000);
			const bool few = count <= 32;
			unsigned int left = HTW_ALL;
			bool ahead = false, made;
			struct htw_node *n;

			for (unsigned int i = 0; i < count; i++)
				wheel_start(&t->w, &tm[i].node, 1001, 1000);
			/* More than the sorted list takes, at other ticks. */
			for (unsigned int i = count; shape == 2 && i < 100; i++)
				wheel_start(&t->w, &tm[i].node, 100000 + i, 1000);
			htw_wheel_next(&t->w);

			/* None of them is due: nothing is overtaken, where all can be looked at. */
			made = htw_wheel_make_due(&t->w, 1000, is_due, 1000, &ahead);
			KUNIT_EXPECT_EQ(test, made, few);
			KUNIT_EXPECT_FALSE(test, ahead);
			KUNIT_EXPECT_TRUE(test, list_empty(&t->w.due));
			/* All are: as many as were looked at become due, in their order. */
			made = htw_wheel_make_due(&t->w, 1000, is_due, 1001, &ahead);
			KUNIT_EXPECT_EQ(test, made, few);
			KUNIT_EXPECT_TRUE(test, ahead);
			KUNIT_EXPECT_EQ(test, list_count_nodes(&t->w.due), min(count, 32));
			for (unsigned int i = 0; i < min(count, 32); i++) {
				n = htw_wheel_expire(&t->w, 1000, &left);
				KUNIT_EXPECT_PTR_EQ(test, n, &tm[i].node);
			}
			KUNIT_EXPECT_NULL(test, htw_wheel_expire(&t->w, 1000, &left));
			while (htw_wheel_evict(&t->w))
				;
			wheel_done(t);
		}
	}
}

static struct kunit_case htw_wheel_cases[] = {
	KUNIT_CASE_PARAM(boundary_ticks_exact_together, start_gen_params),
	KUNIT_CASE_PARAM(boundary_ticks_exact_alone, start_gen_params),
	KUNIT_CASE_PARAM(boundary_ticks_exact_tick_by_tick, start_gen_params),
	KUNIT_CASE_PARAM(boundary_ticks_in_order_when_late, start_gen_params),
	KUNIT_CASE(kafka_worked_example),
	KUNIT_CASE_PARAM(example_from_the_book, example_gen_params),
	KUNIT_CASE_PARAM(past_tick_due_at_once, start_gen_params),
	KUNIT_CASE_PARAM(due_left_over_stay_first, wheel_gen_params),
	KUNIT_CASE_PARAM(no_budget_no_work, wheel_gen_params),
	KUNIT_CASE(start_silent_while_owner_works),
	KUNIT_CASE(start_tells_earlier_work_only),
	KUNIT_CASE_PARAM(equal_ticks_in_order_of_start, start_gen_params),
	KUNIT_CASE_PARAM(equal_ticks_in_order_while_moving, wheel_gen_params),
	KUNIT_CASE_PARAM(half_moved_keeps_order_when_late, wheel_gen_params),
	KUNIT_CASE_PARAM(empty_ticks_cost_nothing, start_gen_params),
	KUNIT_CASE_PARAM(empty_wheel_is_quiet, start_gen_params),
	KUNIT_CASE_PARAM(start_after_long_quiet, start_gen_params),
	KUNIT_CASE_PARAM(clock_jump_costs_what_is_due, start_gen_params),
	KUNIT_CASE_PARAM(clock_jump_leaves_the_rest_exact, start_gen_params),
	KUNIT_CASE_PARAM(beyond_exact, start_gen_params),
	KUNIT_CASE_PARAM(beyond_looked_at_few_times, wheel_gen_params),
	KUNIT_CASE_PARAM(never_expires_but_stops, start_gen_params),
	KUNIT_CASE_PARAM(huge_ticks_wait_quietly, wheel_gen_params),
	KUNIT_CASE_PARAM(never_beside_beyond, start_gen_params),
	KUNIT_CASE_PARAM(look_beyond_resumes, wheel_gen_params),
	KUNIT_CASE_PARAM(look_beyond_survives_stop_of_all_unseen, wheel_gen_params),
	KUNIT_CASE_PARAM(stop_in_every_place, place_gen_params),
	KUNIT_CASE_PARAM(stop_leaves_the_others, place_gen_params),
	KUNIT_CASE_PARAM(restart_from_every_place, place_gen_params),
	KUNIT_CASE_PARAM(stop_moves_next_on, start_gen_params),
	KUNIT_CASE_PARAM(stop_costs_one_empty_run, start_gen_params),
	KUNIT_CASE_PARAM(evict_empties, start_gen_params),
	KUNIT_CASE_PARAM(evict_from_every_place, place_gen_params),
	KUNIT_CASE_PARAM(evict_empty, wheel_gen_params),
	KUNIT_CASE_PARAM(powers_of_two_are_seen, wheel_gen_params),
	KUNIT_CASE_PARAM(level_by_distance, start_gen_params),
	KUNIT_CASE_PARAM(million_in_one_bucket_due_first, million_gen_params),
	KUNIT_CASE(half_moved_and_the_rest_stopped),
	KUNIT_CASE(no_way_is_made_at_the_end_of_a_level),
	KUNIT_CASE(rewind_keeps_every_tick),
	KUNIT_CASE(rewind_then_start_past),
	KUNIT_CASE(rewind_with_due_left_over),
	KUNIT_CASE(rewind_keeps_the_order),
	KUNIT_CASE(rewind_within_budgets),
	KUNIT_CASE_PARAM(random_against_model, random_gen_params),
	KUNIT_CASE_PARAM(without_levels_exact, crowd_gen_params),
	KUNIT_CASE(without_levels_sorted_again),
	KUNIT_CASE_PARAM(without_levels_next_exact, crowd_gen_params),
	KUNIT_CASE(without_levels_in_parts),
	KUNIT_CASE_PARAM(levels_added_keep_order, adding_gen_params),
	KUNIT_CASE_PARAM(levels_removed_and_added_again, wheel_gen_params),
	KUNIT_CASE_PARAM(levels_removed_after_stops, start_gen_params),
	KUNIT_CASE_PARAM(far_ticks_in_order_of_start, wheel_gen_params),
	KUNIT_CASE_PARAM(far_ticks_in_order_when_set_back, wheel_gen_params),
	KUNIT_CASE(rewind_without_need_does_nothing),
	KUNIT_CASE(rewind_then_advance),
	KUNIT_CASE(next_is_not_passed),
	KUNIT_CASE(time_ends),
	KUNIT_CASE_PARAM(begin_at_any_tick, wheel_gen_params),
	KUNIT_CASE_PARAM(any_tick_anywhere, wheel_gen_params),
	KUNIT_CASE_PARAM(never_is_counted, start_gen_params),
	KUNIT_CASE(sums_do_not_wrap),
	KUNIT_CASE_PARAM(expire_does_all_work, start_gen_params),
	KUNIT_CASE_PARAM(quiet_until_work, start_gen_params),
	KUNIT_CASE(way_is_made_at_the_end),
	KUNIT_CASE(years_ahead_cost_few_looks),
	KUNIT_CASE_PARAM(coalesce_most_zero_bits, coalesce_gen_params),
	KUNIT_CASE(coalesce_finds_the_best),
	KUNIT_CASE_PARAM(tick_within_slack, within_gen_params),
	KUNIT_CASE(tick_within_bounds),
	KUNIT_CASE(advance_calls_for_each),
	KUNIT_CASE(advance_within_budget),
	KUNIT_CASE(advance_after_a_rewind),
	KUNIT_CASE_PARAM(walk_visits_all, start_gen_params),
	KUNIT_CASE_PARAM(restart_comes_last, place_gen_params),
	KUNIT_CASE_PARAM(restart_without_levels, crowd_gen_params),
	KUNIT_CASE(node_is_small),
	KUNIT_CASE(way_is_made_for_few),
	{ }
};

static struct kunit_suite htw_wheel_suite = {
	.name = "htw_wheel",
	.test_cases = htw_wheel_cases,
};

kunit_test_suite(htw_wheel_suite);

MODULE_DESCRIPTION("KUnit tests of the timing wheel");
MODULE_LICENSE("GPL");
