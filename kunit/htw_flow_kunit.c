// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: flows as data, with a made-up clock
 *
 * Which flow is served next, for how long it stays new, and how its tokens come and go, to the
 * turn and to the nanosecond. The pacer's suite has what follows from that for users.
 */
#include <kunit/test.h>
#include <linux/slab.h>

#include "../core/flow.h"
#include "htw_kunit.h"

#define US			((u64)NSEC_PER_USEC)
#define MS			((u64)NSEC_PER_MSEC)
#define SEC			((u64)NSEC_PER_SEC)
/* When the cases begin. */
#define START			(1000 * SEC)
#define FLOWS			52u

/* A flow with a job or none. */
struct test_flow {
	struct htw_flow flow;
	struct list_head job;
};

struct flow_test {
	struct htw_flow_sched sched;
	struct test_flow flows[FLOWS];
};

static void flow_reset(struct test_flow *f, enum htw_class class)
{
	htw_flow_init(&f->flow, class, 7);
	f->flow.refilled = START;
	f->flow.stalls.last = START;
	INIT_LIST_HEAD(&f->job);
}

/* All flows are of one class, and without a job. */
static struct flow_test *flow_test(struct kunit *test, enum htw_class class)
{
	struct flow_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	htw_flow_sched_init(&t->sched, 3);
	for (u32 i = 0; i < FLOWS; i++)
		flow_reset(&t->flows[i], class);
	return t;
}

/* Give a flow a job. */
static void give(struct flow_test *t, u32 i, u64 now)
{
	if (list_empty(&t->flows[i].job))
		list_add_tail(&t->flows[i].job, &t->flows[i].flow.jobs);
	htw_flow_activate(&t->sched, &t->flows[i].flow, now);
}

static void expect_next(struct kunit *test, struct flow_test *t, u32 i)
{
	KUNIT_EXPECT_PTR_EQ(test, htw_flow_next(&t->sched), &t->flows[i].flow);
}

/* A turn of the flow that is next, which must be this one. */
static void turn(struct kunit *test, struct flow_test *t, u32 i, u64 ns, u64 now)
{
	expect_next(test, t, i);
	htw_flow_charge(&t->flows[i].flow, ns, now);
	htw_flow_requeue(&t->sched, &t->flows[i].flow, now);
}

/* Its job has been done, and the flow runs dry. */
static void last_turn(struct kunit *test, struct flow_test *t, u32 i, u64 ns, u64 now)
{
	list_del_init(&t->flows[i].job);
	turn(test, t, i, ns, now);
}

static void tokens_are_a_share_of_the_time(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_OTHERS);
	struct htw_flow *flow = &t->flows[0].flow;

	KUNIT_EXPECT_EQ(test, flow->tokens, 50 * MS);
	htw_flow_refill(flow, START + 4 * MS);
	KUNIT_EXPECT_EQ(test, flow->tokens, 51 * MS);
	/* Another CPU's clock was read earlier. */
	htw_flow_refill(flow, START + 3 * MS);
	KUNIT_EXPECT_EQ(test, flow->tokens, 51 * MS);
	htw_flow_refill(flow, START + 8 * MS);
	KUNIT_EXPECT_EQ(test, flow->tokens, 52 * MS);
	/* Up to the burst. */
	htw_flow_refill(flow, START + 8 * MS + 4 * 198 * MS - 4);
	KUNIT_EXPECT_EQ(test, flow->tokens, 250 * MS - 1);
	KUNIT_EXPECT_FALSE(test, htw_flow_is_full(flow));
	htw_flow_refill(flow, START + 8 * MS + 4 * 198 * MS);
	KUNIT_EXPECT_EQ(test, flow->tokens, 250 * MS);
	KUNIT_EXPECT_TRUE(test, htw_flow_is_full(flow));
	htw_flow_refill(flow, START + SEC);
	KUNIT_EXPECT_EQ(test, flow->tokens, 250 * MS);
	/* At most an hour at once: any debt is smaller. */
	flow->tokens = -1000 * (s64)SEC;
	htw_flow_refill(flow, START + 10000 * SEC);
	KUNIT_EXPECT_EQ(test, flow->tokens, -100 * (s64)SEC);
}

static void flow_resumes_with_tokens_for_a_run(struct kunit *test)
{
	static const struct {
		s64 tokens;
		u64 after;
	} cases[] = {
		{ 0, 4 * HTW_RUN_NS },
		{ -(s64)MS, 4 * (HTW_RUN_NS + MS) },
		{ HTW_RUN_NS / 2, 2 * HTW_RUN_NS },
		{ HTW_RUN_NS - 1, 4 },
		{ HTW_RUN_NS, 0 },
		{ 2 * HTW_RUN_NS, 0 },
	};
	struct flow_test *t = flow_test(test, HTW_CLASS_OTHERS);
	struct htw_flow *flow = &t->flows[0].flow;

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		flow->tokens = cases[i].tokens;
		KUNIT_EXPECT_EQ(test, htw_flow_resume_time(flow), START + cases[i].after);
	}
}

/* Only those without privileges have a share. */
static void work_is_charged(struct kunit *test)
{
	for (enum htw_class class = 0; class < HTW_CLASSES; class++) {
		const u64 used = class == HTW_CLASS_OTHERS ? 300 * US : 0;
		struct flow_test *t = flow_test(test, class);
		struct htw_flow *flow = &t->flows[0].flow;
		const s64 tokens = flow->tokens;

		KUNIT_EXPECT_EQ(test, htw_flow_is_full(flow), class != HTW_CLASS_OTHERS);
		htw_flow_charge(flow, 100 * US, START);
		KUNIT_EXPECT_EQ(test, flow->deficit, -100 * (s64)US);
		htw_flow_charge(flow, 200 * US, START);
		KUNIT_EXPECT_EQ(test, flow->spent, 300 * US);
		KUNIT_EXPECT_EQ(test, flow->tokens, tokens - used);
		/* The debt is that of a run. */
		KUNIT_EXPECT_EQ(test, flow->deficit, -(s64)HTW_RUN_NS);
		flow->deficit = 50 * US;
		htw_flow_charge(flow, SEC, START);
		KUNIT_EXPECT_EQ(test, flow->deficit, 50 * (s64)US - (s64)HTW_RUN_NS);
		KUNIT_EXPECT_EQ(test, flow->spent, 300 * US + SEC);
	}
}

static void stalls_are_forgiven_once_a_second(struct kunit *test)
{
	static const struct {
		u64 took, work;
		u64 since;	/* the last one */
		u64 counts;
	} cases[] = {
		{ 400 * US, 0, SEC, 400 * US },
		{ 400 * US + 1, 0, SEC - 1, 400 * US + 1 },
		{ 400 * US + 1, 0, SEC, 200 * US },
		{ 5 * MS, 0, SEC, 200 * US },
		/* What is known to be work counts. */
		{ 5 * MS, 4 * MS, SEC, 4 * MS + 200 * US },
		{ 5 * MS, 4600 * US, SEC, 5 * MS },
		{ 5 * MS, 6 * MS, SEC, 5 * MS },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		const u64 forgiven = cases[i].took - cases[i].counts;
		struct htw_stalls stalls = { .last = START, .times = 10, .ns = 1000 };

		KUNIT_EXPECT_EQ_MSG(test, htw_stalls_forgive(&stalls, cases[i].took, cases[i].work,
							     START + cases[i].since),
				    cases[i].counts, "number %u", i);
		KUNIT_EXPECT_EQ(test, stalls.times, 10 + !!forgiven);
		KUNIT_EXPECT_EQ(test, stalls.ns, 1000 + forgiven);
		KUNIT_EXPECT_EQ(test, stalls.last, START + !!forgiven * cases[i].since);
	}
}

/* In turns, six each while both are new; each but the last is short. */
static void new_flows_have_six_turns(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);

	KUNIT_EXPECT_FALSE(test, htw_flow_sched_has_work(&t->sched));
	KUNIT_EXPECT_NULL(test, htw_flow_next(&t->sched));
	give(t, 0, START);
	KUNIT_EXPECT_TRUE(test, htw_flow_sched_has_work(&t->sched));
	KUNIT_EXPECT_EQ(test, htw_flow_turn_units(&t->sched, &t->flows[0].flow), 128);
	give(t, 1, START);
	for (u32 i = 0; i < 12; i++) {
		KUNIT_EXPECT_EQ(test, htw_flow_turn_units(&t->sched, &t->flows[i % 2].flow),
				i < 11 ? 4 : 128);
		turn(test, t, i % 2, US, START);
	}
	/* Both are old now, and have used less than their quantum of 20 us. */
	KUNIT_EXPECT_EQ(test, t->flows[0].flow.new_turns, 0);
	turn(test, t, 0, 13 * US, START);
	turn(test, t, 0, US, START);
	turn(test, t, 1, 14 * US, START);
	turn(test, t, 0, 20 * US, START);
	turn(test, t, 1, 20 * US, START);
	/* A flow that is new now goes ahead of them, once. */
	give(t, 2, START);
	KUNIT_EXPECT_EQ(test, htw_flow_turn_units(&t->sched, &t->flows[2].flow), 128);
	last_turn(test, t, 2, US, START);
	turn(test, t, 0, US, START);
	last_turn(test, t, 0, US, START);
	last_turn(test, t, 1, US, START);
	KUNIT_EXPECT_FALSE(test, htw_flow_sched_has_work(&t->sched));
}

/* Give a flow a job that is done at once. Is it new then? */
static bool is_new_at(struct flow_test *t, u32 i, u64 now)
{
	bool new;

	give(t, i, now);
	new = t->flows[i].flow.new_turns;
	list_del_init(&t->flows[i].job);
	htw_flow_requeue(&t->sched, &t->flows[i].flow, now);
	return new;
}

/* On average; one that was late may be early the next time. */
static void flow_is_new_each_900_us(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);

	/* The first time is for free. */
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START));
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START));
	KUNIT_EXPECT_FALSE(test, is_new_at(t, 0, START + 900 * US - 1));
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START + 900 * US));
	KUNIT_EXPECT_FALSE(test, is_new_at(t, 0, START + 1800 * US - 1));
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START + 2600 * US));
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START + 2700 * US));
	KUNIT_EXPECT_FALSE(test, is_new_at(t, 0, START + 3600 * US - 1));
	/* What it was idle for before that does not count. */
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START + SEC));
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START + SEC));
	KUNIT_EXPECT_FALSE(test, is_new_at(t, 0, START + SEC + 900 * US - 1));
}

/* A flow that is new again begins with a quantum; an old one keeps what it owes. */
static void new_flow_owes_nothing(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);
	struct htw_flow *flow = &t->flows[0].flow;

	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START));
	htw_flow_charge(flow, 150 * US, START);
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 0, START));
	KUNIT_EXPECT_EQ(test, flow->deficit, 20 * US);
	htw_flow_charge(flow, 150 * US, START);
	KUNIT_EXPECT_FALSE(test, is_new_at(t, 0, START + US));
	KUNIT_EXPECT_EQ(test, flow->deficit, -130 * (s64)US);
}

/* One that ran dry while it was new, and soon has a job again, is old in all of its turns. */
static void old_flows_take_turns(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);

	give(t, 0, START);
	for (u32 i = 0; i < 6; i++)
		turn(test, t, 0, US, START);
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 1, START));
	KUNIT_EXPECT_TRUE(test, is_new_at(t, 1, START));
	give(t, 1, START);
	for (u32 i = 0; i < 20; i++)
		turn(test, t, i % 2, 20 * US, START);
}

/* After 48 turns of new flows an old one has its turn. */
static void old_flow_has_one_turn_of_49(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);

	give(t, 0, START);
	for (u32 i = 0; i < 6; i++)
		turn(test, t, 0, US, START);
	turn(test, t, 0, 20 * US, START);
	for (u32 i = 1; i < FLOWS; i++)
		give(t, i, START);
	for (u32 round = 0; round < 3; round++) {
		for (u32 i = 0; i < 48; i++) {
			struct htw_flow *flow = htw_flow_next(&t->sched);

			KUNIT_ASSERT_PTR_NE(test, flow, &t->flows[0].flow);
			htw_flow_requeue(&t->sched, flow, START);
		}
		turn(test, t, 0, 20 * US, START);
	}
}

/* While there is no old flow, turns of new ones do not count. */
static void old_flow_waits_for_48_turns(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);

	for (u32 i = 1; i < 20; i++)
		give(t, i, START);
	for (u32 i = 0; i < 40; i++)
		htw_flow_requeue(&t->sched, htw_flow_next(&t->sched), START);
	t->flows[0].flow.new_from = START + 1;
	give(t, 0, START);
	/* The last turn before it had a job is the first of them. */
	for (u32 i = 0; i < 47; i++) {
		struct htw_flow *flow = htw_flow_next(&t->sched);

		KUNIT_ASSERT_PTR_NE(test, flow, &t->flows[0].flow);
		htw_flow_requeue(&t->sched, flow, START);
	}
	expect_next(test, t, 0);
}

static void classes_are_served_in_rotation(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_PRIVILEGED);

	for (u32 i = 0; i < 6; i++)
		flow_reset(&t->flows[i], i % HTW_CLASSES);
	for (u32 i = 0; i < 6; i++)
		give(t, i, START);
	for (u32 i = 0; i < 6; i++)
		turn(test, t, i, US, START);
	/* A class without work is left out. */
	for (u32 i = 0; i < 6; i++) {
		if (i % HTW_CLASSES)
			turn(test, t, i, US, START);
		else
			last_turn(test, t, i, US, START);
	}
	for (u32 i = 0; i < 6; i++) {
		if (i % HTW_CLASSES)
			turn(test, t, i, US, START);
	}
}

/* One whose lock is contended lets those go first that wait with it. */
static void contended_flow_goes_behind_others(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_OTHERS);

	for (u32 i = 0; i < 3; i++)
		give(t, i, START);
	expect_next(test, t, 0);
	htw_flow_rotate(&t->sched, &t->flows[0].flow, START);
	KUNIT_EXPECT_EQ(test, t->flows[0].flow.new_turns, 6);
	turn(test, t, 1, US, START);
	turn(test, t, 2, US, START);
	expect_next(test, t, 0);
	/* With the old ones in the same way. */
	for (u32 i = 0; i < 3; i++)
		htw_flow_demote(&t->sched, &t->flows[i].flow, START);
	KUNIT_EXPECT_EQ(test, t->flows[1].flow.new_turns, 0);
	expect_next(test, t, 0);
	htw_flow_rotate(&t->sched, &t->flows[0].flow, START);
	expect_next(test, t, 1);
	htw_flow_rotate(&t->sched, &t->flows[1].flow, START);
	expect_next(test, t, 2);
	htw_flow_rotate(&t->sched, &t->flows[2].flow, START);
	expect_next(test, t, 0);
}

enum way { REQUEUED, ROTATED, DEMOTED, ACTIVATED };

/* The tracepoint's arguments. */
struct throttle {
	u32 times;
	unsigned int cpu;
	u32 owner;
	u64 ns;
};

static void note_throttle(void *data, unsigned int cpu, u32 owner, u64 ns)
{
	struct throttle *seen = data;

	*seen = (struct throttle) { seen->times + 1, cpu, owner, ns };
}

static void flow_without_tokens_is_throttled(struct kunit *test)
{
	/* Kernels for ARCH=um have tracepoints only if lock debugging selects them. */
	const bool traced = IS_ENABLED(CONFIG_TRACEPOINTS);
	struct throttle seen = {};

	if (traced)
		KUNIT_ASSERT_EQ(test, register_trace_htw_throttle(note_throttle, &seen), 0);
	for (enum way way = REQUEUED; way <= ACTIVATED; way++) {
		struct flow_test *t = flow_test(test, HTW_CLASS_OTHERS);
		struct htw_flow *flow = &t->flows[0].flow;
		const u64 ns = 4 * HTW_RUN_NS - (way == ACTIVATED ? 0 : US);

		if (way != ACTIVATED) {
			/* One nanosecond is enough. */
			flow->tokens = 1;
			give(t, 0, START);
			KUNIT_EXPECT_FALSE(test, flow->throttled);
			expect_next(test, t, 0);
		}
		flow->tokens = 0;
		switch (way) {
		case REQUEUED:
			htw_flow_requeue(&t->sched, flow, START + US);
			break;
		case ROTATED:
			htw_flow_rotate(&t->sched, flow, START + US);
			break;
		case DEMOTED:
			htw_flow_demote(&t->sched, flow, START + US);
			break;
		case ACTIVATED:
			flow->tokens = -250;
			give(t, 0, START + US);
			KUNIT_EXPECT_EQ(test, flow->tokens, 0);
			/* Once. */
			give(t, 0, START + US);
		}
		if (traced) {
			KUNIT_EXPECT_EQ(test, seen.times, way + 1);
			KUNIT_EXPECT_EQ(test, seen.cpu, 3);
			KUNIT_EXPECT_EQ(test, seen.owner, 7);
			KUNIT_EXPECT_EQ(test, seen.ns, ns);
		}
		KUNIT_EXPECT_TRUE(test, flow->throttled);
		KUNIT_EXPECT_EQ(test, flow->throttles, 1);
		KUNIT_EXPECT_EQ(test, flow->new_turns, 0);
		KUNIT_EXPECT_NULL(test, htw_flow_next(&t->sched));
		KUNIT_EXPECT_FALSE(test, htw_flow_sched_has_work(&t->sched));

		/* Until it has tokens again. */
		htw_flow_unthrottle(&t->sched, htw_flow_sched_resume_time(&t->sched) - 1);
		KUNIT_EXPECT_TRUE(test, flow->throttled);
		htw_flow_unthrottle(&t->sched, htw_flow_sched_resume_time(&t->sched) + MS);
		KUNIT_EXPECT_FALSE(test, flow->throttled);
		KUNIT_EXPECT_EQ(test, htw_flow_sched_resume_time(&t->sched), U64_MAX);
		/* It was not throttled for the time that it waited for the run. */
		KUNIT_EXPECT_EQ(test, flow->throttled_ns, ns);
		expect_next(test, t, 0);
		KUNIT_EXPECT_EQ(test, htw_flow_turn_units(&t->sched, flow), 128);
	}
	if (traced) {
		unregister_trace_htw_throttle(note_throttle, &seen);
		tracepoint_synchronize_unregister();
	}
}

/* Flows resume in the order of time, those without a job not at all. */
static void throttled_flows_resume_in_order(struct kunit *test)
{
	struct flow_test *t = flow_test(test, HTW_CLASS_OTHERS);

	for (u32 i = 0; i < 4; i++) {
		t->flows[i].flow.tokens = -(s64)((3 - i) * MS);
		give(t, i, START);
		KUNIT_EXPECT_TRUE(test, t->flows[i].flow.throttled);
		KUNIT_EXPECT_EQ(test, htw_flow_sched_resume_time(&t->sched),
				START + 4 * (HTW_RUN_NS + (3 - i) * MS));
	}
	list_del_init(&t->flows[2].job);
	htw_flow_unthrottle(&t->sched, START + 4 * (HTW_RUN_NS + 2 * MS));
	expect_next(test, t, 3);
	list_del_init(&t->flows[3].job);
	htw_flow_requeue(&t->sched, &t->flows[3].flow, START + 4 * (HTW_RUN_NS + 2 * MS));
	KUNIT_EXPECT_FALSE(test, t->flows[2].flow.throttled);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->flows[2].flow.link));
	expect_next(test, t, 1);
	KUNIT_EXPECT_EQ(test, htw_flow_sched_resume_time(&t->sched),
			START + 4 * (HTW_RUN_NS + 3 * MS));
}

static struct kunit_case htw_flow_cases[] = {
	KUNIT_CASE(tokens_are_a_share_of_the_time),
	KUNIT_CASE(flow_resumes_with_tokens_for_a_run),
	KUNIT_CASE(work_is_charged),
	KUNIT_CASE(stalls_are_forgiven_once_a_second),
	KUNIT_CASE(new_flows_have_six_turns),
	KUNIT_CASE(flow_is_new_each_900_us),
	KUNIT_CASE(new_flow_owes_nothing),
	KUNIT_CASE(old_flows_take_turns),
	KUNIT_CASE(old_flow_has_one_turn_of_49),
	KUNIT_CASE(old_flow_waits_for_48_turns),
	KUNIT_CASE(classes_are_served_in_rotation),
	KUNIT_CASE(contended_flow_goes_behind_others),
	KUNIT_CASE(flow_without_tokens_is_throttled),
	KUNIT_CASE(throttled_flows_resume_in_order),
	{}
};

static struct kunit_suite htw_flow_suite = {
	.name = "htw_flow",
	.test_cases = htw_flow_cases,
};

kunit_test_suite(htw_flow_suite);

MODULE_DESCRIPTION("KUnit: flows");
MODULE_LICENSE("GPL");
