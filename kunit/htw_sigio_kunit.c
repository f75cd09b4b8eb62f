// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: whose turn it is to send SIGIO
 *
 * Contexts here have no recipients: a signal has been sent when its context has left the list.
 */
#include <kunit/test.h>
#include <linux/delay.h>

#include "../core/pacer.h"
#include "../core/sigio.h"
#include "htw_kunit.h"

#define CONTEXTS		8u

/* A user whose contexts have recipients of SIGIO. */
struct asker {
	struct htw_flow __percpu *flows;
	struct htw_sigio_sender sender;
	struct htw_sigio sigio[CONTEXTS];
	bool exited;
};

static void asker_exit(struct asker *asker)
{
	for (u32 i = 0; i < CONTEXTS && !asker->exited; i++)
		htw_sigio_stop(&asker->sigio[i]);
	if (!asker->exited)
		htw_sigio_sender_exit(&asker->sender);
	asker->exited = true;
}

static void asker_free(void *data)
{
	struct asker *asker = data;

	asker_exit(asker);
	free_percpu(asker->flows);
}

static struct asker *asker_make(struct kunit *test, enum htw_class class)
{
	struct asker *asker = htw_test_array(test, 1, sizeof(*asker));
	unsigned int cpu;

	asker->flows = alloc_percpu(struct htw_flow);
	KUNIT_ASSERT_TRUE(test, !!asker->flows);
	for_each_possible_cpu(cpu)
		htw_flow_init(per_cpu_ptr(asker->flows, cpu), class, 0);
	htw_sigio_sender_init(&asker->sender, asker->flows);
	for (u32 i = 0; i < CONTEXTS; i++)
		htw_sigio_init(&asker->sigio[i]);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, asker_free, asker), 0);
	return asker;
}

static void ask(struct asker *asker)
{
	for (u32 i = 0; i < CONTEXTS; i++)
		htw_sigio_send(&asker->sigio[i], &asker->sender);
}

/* Number of signals that have not been sent. */
static u32 missing(const struct asker *asker)
{
	u32 nr = 0;

	for (u32 i = 0; i < CONTEXTS; i++)
		nr += !list_empty_careful(&asker->sigio[i].entry);
	return nr;
}

static void expect_sent(struct kunit *test, const struct asker *asker)
{
	for (unsigned int i = 0; i < 500 && missing(asker); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, missing(asker), 0);
}

/* Let a user owe its share of all CPUs for @ns. */
static void overdraw(struct asker *asker, u64 ns)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

		spin_lock_bh(&p->lock);
		htw_flow_charge(per_cpu_ptr(asker->flows, cpu), ns, htw_now());
		spin_unlock_bh(&p->lock);
	}
}

/* Let all CPUs owe 40 ms for work, so that the sender whose turn it is waits before it sends. */
static void keep_busy(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);

		spin_lock_bh(&p->lock);
		p->taken_back = htw_now();
		p->worked_at = p->taken_back;
		p->owed_work_ns = 40 * NSEC_PER_MSEC;
		spin_unlock_bh(&p->lock);
	}
}

static void each_signal_is_sent(struct kunit *test)
{
	struct asker *asker = asker_make(test, HTW_CLASS_OTHERS);

	for (u32 i = 0; i < 3; i++) {
		ask(asker);
		expect_sent(test, asker);
	}
}

static void throttled_user_delays_no_other(struct kunit *test)
{
	struct asker *greedy = asker_make(test, HTW_CLASS_OTHERS);
	struct asker *other = asker_make(test, HTW_CLASS_OTHERS);

	/* More than the case takes. */
	overdraw(greedy, 100 * (u64)NSEC_PER_SEC);
	ask(greedy);
	msleep(50);
	ask(other);
	expect_sent(test, other);
	KUNIT_EXPECT_EQ(test, missing(greedy), CONTEXTS);
}

static void throttled_user_is_not_forgotten(struct kunit *test)
{
	struct asker *asker = asker_make(test, HTW_CLASS_OTHERS);
	struct htw_flow *flow = per_cpu_ptr(asker->flows, raw_smp_processor_id());

	/* A quarter of a second of its share, and all that it has. */
	overdraw(asker, flow->tokens + NSEC_PER_SEC / 16);
	ask(asker);
	msleep(50);
	KUNIT_EXPECT_EQ(test, missing(asker), CONTEXTS);
	expect_sent(test, asker);
}

/* Whatever is freed meanwhile, with or without its turn, others get theirs. */
static void sender_is_freed_while_it_waits(struct kunit *test)
{
	for (u32 i = 0; i < 50; i++) {
		struct asker *first = asker_make(test, HTW_CLASS_OTHERS);
		struct asker *second = asker_make(test, HTW_CLASS_OTHERS);
		struct asker *third = asker_make(test, HTW_CLASS_OTHERS);
		struct asker *throttled = asker_make(test, HTW_CLASS_OTHERS);

		overdraw(throttled, 100 * (u64)NSEC_PER_SEC);
		ask(throttled);
		keep_busy();
		ask(first);
		ask(second);
		ask(third);
		if (i % 2)
			usleep_range(100, 200);
		asker_exit(second);
		asker_exit(first);
		asker_exit(throttled);
		expect_sent(test, third);
	}
}

/*
 * Let six users ask, then a privileged one for one signal, for which one turn
 * is enough on any machine. Return: whether it was sent before the last of the
 * others had a turn.
 */
static bool privileged_user_is_early(struct asker *const *others, u32 nr,
				     struct asker *privileged)
{
	/* Each turn waits for 2 ms after the one before. */
	keep_busy();
	for (u32 i = 0; i < nr; i++)
		ask(others[i]);
	htw_sigio_send(&privileged->sigio[0], &privileged->sender);
	for (u32 i = 0; i < 20000 && missing(privileged); i++)
		usleep_range(50, 100);
	return !missing(privileged) && missing(others[nr - 1]) == CONTEXTS;
}

/*
 * Privileged users wait for a turn of one other, not of all. All turns pass if
 * this task is kept from its CPU for long, so once in some attempts must do;
 * if classes took no turns, none would.
 */
static void classes_take_turns(struct kunit *test)
{
	struct asker *others[6], *privileged;
	bool early = false;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = asker_make(test, HTW_CLASS_OTHERS);
	privileged = asker_make(test, HTW_CLASS_PRIVILEGED);
	for (u32 attempt = 0; attempt < 50 && !early; attempt++) {
		early = privileged_user_is_early(others, ARRAY_SIZE(others),
						 privileged);
		for (i = 0; i < ARRAY_SIZE(others); i++)
			expect_sent(test, others[i]);
	}
	KUNIT_EXPECT_TRUE(test, early);
}

/* The one that asked first is first. */
static void users_wait_in_order(struct kunit *test)
{
	struct asker *askers[4];

	for (u32 i = 0; i < ARRAY_SIZE(askers); i++)
		askers[i] = asker_make(test, HTW_CLASS_OTHERS);
	keep_busy();
	/* A turn is long enough for one signal. */
	for (u32 i = 0; i < ARRAY_SIZE(askers); i++)
		htw_sigio_send(&askers[i]->sigio[0], &askers[i]->sender);
	for (u32 i = 0; i < 400000 && missing(askers[ARRAY_SIZE(askers) - 1]); i++)
		usleep_range(50, 100);
	for (u32 i = 0; i < ARRAY_SIZE(askers); i++)
		KUNIT_EXPECT_EQ_MSG(test, missing(askers[i]), 0, "number %u", i);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* More signals than are sent in a turn: their user queues again, behind others. */
static void turn_ends_though_signals_are_left(struct kunit *test)
{
	const u32 many = 4000;
	struct htw_sigio *sigio = htw_test_array(test, many, sizeof(*sigio));
	struct asker *greedy = asker_make(test, HTW_CLASS_OTHERS);
	struct asker *other = asker_make(test, HTW_CLASS_OTHERS);
	u32 left = 0;

	for (u32 i = 0; i < many; i++) {
		htw_sigio_init(&sigio[i]);
		htw_sigio_send(&sigio[i], &greedy->sender);
	}
	ask(other);
	while (missing(other))
		usleep_range(10, 20);
	for (u32 i = many; i--;) {
		const bool sent = list_empty_careful(&sigio[i].entry);

		left += !sent;
		/* Those that were to be sent first have been. More may be sent meanwhile. */
		KUNIT_EXPECT_TRUE(test, sent || left == many - i);
	}
	KUNIT_EXPECT_GT(test, left, 0);
	KUNIT_EXPECT_LT(test, left, many);
	for (u32 i = 0; i < many; i++) {
		for (u32 j = 0; j < 500 && !list_empty_careful(&sigio[i].entry); j++)
			msleep(20);
		KUNIT_EXPECT_TRUE(test, list_empty_careful(&sigio[i].entry));
		htw_sigio_stop(&sigio[i]);
	}
}
#endif

/* A delivery may have found recipients just before they went. */
static void closed_context_is_not_queued_again(struct kunit *test)
{
	struct asker *asker = asker_make(test, HTW_CLASS_OTHERS);

	htw_sigio_stop(&asker->sigio[0]);
	htw_sigio_send(&asker->sigio[0], &asker->sender);
	KUNIT_EXPECT_TRUE(test, list_empty(&asker->sigio[0].entry));
	KUNIT_EXPECT_FALSE(test, asker->sender.scheduled);
	ask(asker);
	expect_sent(test, asker);
}

static struct kunit_case htw_sigio_cases[] = {
	KUNIT_CASE(each_signal_is_sent),
	KUNIT_CASE(throttled_user_delays_no_other),
	KUNIT_CASE(throttled_user_is_not_forgotten),
	KUNIT_CASE(sender_is_freed_while_it_waits),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(turn_ends_though_signals_are_left),
#endif
	KUNIT_CASE(classes_take_turns),
	KUNIT_CASE(users_wait_in_order),
	KUNIT_CASE(closed_context_is_not_queued_again),
	{}
};

static struct kunit_suite htw_sigio_suite = {
	.name = "htw_sigio",
	.test_cases = htw_sigio_cases,
};

kunit_test_suite(htw_sigio_suite);

MODULE_DESCRIPTION("KUnit: whose turn it is to send SIGIO");
MODULE_LICENSE("GPL");
