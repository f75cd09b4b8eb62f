// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: the wheel against a table of what is pending
 */
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "../htw_wheel.h"

#define NODES		2000
#define ROUNDS		20000

/* A node, whether it is pending, and when it was started. */
struct entry {
	struct htw_node node;
	u64 tick;
	u64 order;
	bool pending;
};

struct world {
	struct htw_wheel wheel;
	struct entry entries[NODES];
	struct rnd_state rnd;
	u64 now;
	u64 started;
	u64 last_tick;
	u64 last_order;
};

static struct world *world_at(struct kunit *test, u64 now)
{
	struct world *w = kvzalloc(sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	htw_wheel_init(&w->wheel, now);
	prandom_seed_state(&w->rnd, now + 1);
	w->now = now;
	return w;
}

static void start(struct world *w, struct entry *e, u64 tick)
{
	htw_wheel_forward(&w->wheel, w->now);
	htw_wheel_start(&w->wheel, &e->node, tick);
	e->tick = max(tick, w->now);
	e->order = w->started++;
	e->pending = true;
}

static void stop(struct world *w, struct entry *e)
{
	htw_wheel_stop(&w->wheel, &e->node);
	e->pending = false;
}

/* The first tick of what is pending. */
static u64 first_tick(const struct world *w)
{
	u64 first = HTW_NEVER;

	for (unsigned int i = 0; i < NODES; i++)
		if (w->entries[i].pending && w->entries[i].tick <= HTW_LAST_TICK)
			first = min(first, w->entries[i].tick);
	return first;
}

/* Take what is due: in order, and not before its tick. Return: how many. */
static unsigned int take(struct kunit *test, struct world *w, unsigned int *budget)
{
	unsigned int count = 0;

	while (htw_wheel_collect_due(&w->wheel, w->now, budget)) {
		struct entry *e = list_first_entry(&w->wheel.due, struct entry, node.list);

		KUNIT_ASSERT_TRUE(test, e->pending);
		KUNIT_ASSERT_LE(test, e->tick, w->now);
		KUNIT_ASSERT_GE(test, e->tick, w->last_tick);
		if (e->tick == w->last_tick && count)
			KUNIT_ASSERT_GT(test, e->order, w->last_order);
		w->last_tick = e->tick;
		w->last_order = e->order;
		stop(w, e);
		count++;
	}
	return count;
}

/* Go to a tick: all that is due comes, with whatever budgets. */
static void go_to(struct kunit *test, struct world *w, u64 now)
{
	unsigned int budget;

	w->now = now;
	do {
		budget = 1 + prandom_u32_state(&w->rnd) % 200;
		take(test, w, &budget);
	} while (!budget || !htw_wheel_cascade(&w->wheel, &budget));
	KUNIT_ASSERT_GT(test, first_tick(w), now);
	/* The work comes no later than the first node. */
	KUNIT_ASSERT_LE(test, htw_wheel_next(&w->wheel), first_tick(w));
	KUNIT_ASSERT_GT(test, htw_wheel_next(&w->wheel), now);
}

static u64 random_delay(struct world *w)
{
	/* Of all sizes, from a tick to beyond the levels. */
	u64 bits = prandom_u32_state(&w->rnd) % 40;
	u64 delay = (u64)prandom_u32_state(&w->rnd) << 32 | prandom_u32_state(&w->rnd);

	return delay & ((1ULL << bits) - 1);
}

static void empty(struct kunit *test)
{
	struct world *w = world_at(test, 0);

	KUNIT_EXPECT_EQ(test, htw_wheel_next(&w->wheel), HTW_NEVER);
	go_to(test, w, 1ULL << 40);
	KUNIT_EXPECT_EQ(test, htw_wheel_next(&w->wheel), HTW_NEVER);
	kvfree(w);
}

/* One node, which is not moved early or late whatever its distance. */
static void one_node(struct kunit *test)
{
	for (unsigned int bits = 0; bits < 62; bits++) {
		struct world *w = world_at(test, 12345);
		u64 tick = w->now + (1ULL << bits), steps = 0;
		struct entry *e = &w->entries[0];

		start(w, e, tick);
		/* From one work to the next: few, and the last one is the node's tick. */
		while (e->pending) {
			u64 next = htw_wheel_next(&w->wheel);

			KUNIT_ASSERT_LE(test, next, tick);
			KUNIT_ASSERT_LT(test, steps++, 100);
			go_to(test, w, max(next, w->now + 1));
		}
		KUNIT_EXPECT_EQ(test, w->now, tick);
		kvfree(w);
	}
}

static void never(struct kunit *test)
{
	struct world *w = world_at(test, HTW_LAST_TICK - 1000);

	start(w, &w->entries[0], HTW_NEVER);
	start(w, &w->entries[1], HTW_LAST_TICK + 1);
	start(w, &w->entries[2], HTW_LAST_TICK);
	go_to(test, w, HTW_LAST_TICK - 1);
	KUNIT_EXPECT_TRUE(test, w->entries[2].pending);
	w->now = HTW_LAST_TICK;
	while (w->entries[2].pending) {
		unsigned int budget = 100;

		take(test, w, &budget);
		htw_wheel_cascade(&w->wheel, &budget);
	}
	KUNIT_EXPECT_TRUE(test, w->entries[0].pending);
	KUNIT_EXPECT_TRUE(test, w->entries[1].pending);
	stop(w, &w->entries[0]);
	stop(w, &w->entries[1]);
	KUNIT_EXPECT_EQ(test, w->wheel.pending, 0);
	kvfree(w);
}

static void random_nodes(struct kunit *test)
{
	const u64 begin = *(const u64 *)test->param_value;
	struct world *w = world_at(test, begin);

	for (unsigned int round = 0; round < ROUNDS; round++) {
		struct entry *e = &w->entries[prandom_u32_state(&w->rnd) % NODES];

		if (e->pending && prandom_u32_state(&w->rnd) % 2)
			stop(w, e);
		if (!e->pending)
			start(w, e, w->now + random_delay(w));
		if (round % 8 == 0)
			go_to(test, w, w->now + random_delay(w) / 1000);
	}
	while (w->wheel.pending)
		go_to(test, w, first_tick(w));
	KUNIT_EXPECT_EQ(test, w->wheel.used, 0);
	for (unsigned int l = 0; l < HTW_LEVELS; l++)
		KUNIT_EXPECT_EQ(test, w->wheel.level[l].nonempty, 0);
	kvfree(w);
}

static const u64 begins[] = { 0, 255, 1ULL << 32, (1ULL << 62) - 7 };

static void begin_desc(const u64 *begin, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "from %llu", *begin);
}

KUNIT_ARRAY_PARAM(begins, begins, begin_desc);

/* A full bucket is moved down in parts, ahead of its time, and delays nothing. */
static void parts(struct kunit *test)
{
	struct world *w = world_at(test, 0);
	unsigned int budget;

	for (unsigned int i = 0; i < NODES; i++)
		start(w, &w->entries[i], 16384 + i % 256);
	/* One window before: a node at a time, while others come and are due. */
	w->now = htw_wheel_next(&w->wheel);
	KUNIT_EXPECT_LE(test, w->now, 16384 - 256);
	for (unsigned int i = 0; i < NODES / 2; i++) {
		struct entry *e = &w->entries[i];

		stop(w, e);
		start(w, e, w->now);
		budget = 1;
		KUNIT_ASSERT_EQ(test, take(test, w, &budget), 1);
		budget = 1;
		htw_wheel_cascade(&w->wheel, &budget);
	}
	for (u64 tick = 16383; tick < 16384 + 256; tick++)
		go_to(test, w, tick);
	KUNIT_EXPECT_EQ(test, w->wheel.pending, 0);
	kvfree(w);
}

static struct kunit_case wheel_cases[] = {
	KUNIT_CASE(empty),
	KUNIT_CASE(one_node),
	KUNIT_CASE(never),
	KUNIT_CASE(parts),
	KUNIT_CASE_PARAM(random_nodes, begins_gen_params),
	{}
};

static struct kunit_suite wheel_suite = {
	.name = "htw_wheel",
	.test_cases = wheel_cases,
};

kunit_test_suite(wheel_suite);

MODULE_DESCRIPTION("KUnit tests of the timing wheel");
MODULE_LICENSE("GPL");
