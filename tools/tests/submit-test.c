// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a call keeps softirqs waiting, whatever its operations are
 *
 * Calls are made whose operations cost as much as they can, see htw-softirqs.h. Only
 * means something where time is the count of instructions.
 *
 * VM options: --icount --mem 2G
 */
#include "htw-softirqs.h"

#define CROWD		200000
#define COUNT		1024

#define SLOW_TICK	SEC

enum form { BATCH_FORM, VECTOR_FORM };

static const struct htw_setup slow_ticks = {
	.flags = HTW_SETUP_PRIVATE, .tick_ns = SLOW_TICK, .levels = 2, .slots = { 64, 64 },
};
static const struct htw_setup many_slots = {
	.flags = HTW_SETUP_PRIVATE, .tick_ns = 100 * USEC, .levels = 3, .slots = { 2048, 64, 64 },
};
/* No powers of two: divisions in place of shifts. */
static const struct htw_setup odd_slots = {
	.flags = HTW_SETUP_PRIVATE, .tick_ns = 100 * USEC, .levels = 8,
	.slots = { 2047, 131, 3, 3, 3, 3, 3, 3 },
};

/*
 * The calls that are measured: an HTW_BATCH or HTW_VECTOR with the same operation on all of
 * @ids, with @deadlines.
 */
struct calls {
	int fd;
	enum form form;
	struct htw_vector v;
	__u64 ids[COUNT];
	__u64 deadlines[COUNT];
	struct htw_op ops[COUNT];
};

static struct calls calls;

static void calls_init(int fd, enum form form, __u16 op, __u32 flags)
{
	memset(&calls, 0, sizeof(calls));
	calls.fd = fd;
	calls.form = form;
	calls.v = (struct htw_vector){
		.op = op, .flags = flags, .count = COUNT, .ids = (uintptr_t)calls.ids,
		.deadlines = (uintptr_t)calls.deadlines,
	};
}

static int calls_make(void)
{
	struct htw_batch batch = htw_batch_of(calls.ops, COUNT);

	if (calls.form == VECTOR_FORM)
		return htw_call(calls.fd, HTW_VECTOR, &calls.v) ?:
		       calls.v.done == COUNT && !calls.v.failed ? 0 : -EIO;
	for (unsigned int i = 0; i < COUNT; i++) {
		calls.ops[i] = (struct htw_op){ .op = calls.v.op };
		if (calls.v.op == HTW_OP_ADD)
			calls.ops[i].add = (struct htw_add){
				.deadline = calls.deadlines[i], .flags = calls.v.flags,
				.slack = calls.v.slack,
			};
		else
			calls.ops[i].mod = (struct htw_mod){
				.id = calls.ids[i], .deadline = calls.deadlines[i],
				.flags = calls.v.flags, .slack = calls.v.slack,
			};
	}
	return htw_call(calls.fd, HTW_BATCH, &batch) ?: batch.done == COUNT ? 0 : -EIO;
}

static void add_all(struct __test_metadata *_metadata, int fd, __u64 deadline)
{
	ASSERT_EQ(COUNT, htw_start_many(fd, deadline, 0, COUNT, calls.ids));
}

/*
 * Many timers wait for the end of the present tick, and have come due within it. Operations
 * whose deadline has come, too, must not overtake them.
 */
static void storm(struct __test_metadata *_metadata, int fd, enum form form, __u16 op)
{
	__u64 tick, made = 0;
	int other;

	ASSERT_EQ(0, htw_set_up(fd, slow_ticks));
	calls_init(fd, form, op, HTW_F_ABS | (op == HTW_OP_MOD ? HTW_MOD_DEADLINE : 0));
	if (op == HTW_OP_MOD)
		add_all(_metadata, fd, now_ns() + HOUR);
	tick = now_ns() / SLOW_TICK * SLOW_TICK + SLOW_TICK;
	ASSERT_EQ(CROWD, htw_start_many(fd, tick + 1, 0, CROWD, NULL));
	ASSERT_GT(tick, now_ns());
	sleep_until(tick + 10 * MSEC);
	other = interrupts_start();
	ASSERT_LE(0, other);
	for (unsigned int i = 0; i < COUNT; i++)
		calls.deadlines[i] = tick + 2;
	ASSERT_TRUE(trace_softirqs(true));
	/* Adds fill the queue: no more of them than there is memory for. */
	while (now_ns() < tick + SLOW_TICK - 50 * MSEC && (op == HTW_OP_MOD || made < 100)) {
		ASSERT_EQ(0, calls_make());
		made++;
	}
	TH_LOG("%llu calls", made);
	expect_short_waits(_metadata, other);
}

HTW_TEST(a_storm_of_due_timers_and_adds_in_vectors)
{
	storm(_metadata, self->fd, VECTOR_FORM, HTW_OP_ADD);
}

HTW_TEST(a_storm_of_due_timers_and_adds_in_batches)
{
	storm(_metadata, self->fd, BATCH_FORM, HTW_OP_ADD);
}

HTW_TEST(a_storm_of_due_timers_and_moves_in_vectors)
{
	storm(_metadata, self->fd, VECTOR_FORM, HTW_OP_MOD);
}

HTW_TEST(a_storm_of_due_timers_and_moves_in_batches)
{
	storm(_metadata, self->fd, BATCH_FORM, HTW_OP_MOD);
}

/*
 * Each operation's deadline is earlier than that of every timer that waits. Then all go back to
 * where they were, until the next round.
 */
static void decreasing(struct __test_metadata *_metadata, int fd, enum form form,
		       const struct htw_setup *setup)
{
	unsigned int round, i;
	__u64 from;
	int other;

	ASSERT_EQ(0, htw_set_up(fd, *setup));
	calls_init(fd, form, HTW_OP_MOD, HTW_F_ABS | HTW_MOD_DEADLINE);
	add_all(_metadata, fd, now_ns() + HOUR);
	other = interrupts_start();
	ASSERT_LE(0, other);
	ASSERT_TRUE(trace_softirqs(true));
	for (round = 0; round < 5; round++) {
		from = now_ns() + setup->slots[0] * setup->tick_ns * 9 / 10;
		for (i = 0; i < COUNT; i++)
			calls.deadlines[i] = from - i * setup->tick_ns;
		ASSERT_EQ(0, calls_make());
		for (i = 0; i < COUNT; i++)
			calls.deadlines[i] = from + HOUR + i;
		ASSERT_EQ(0, calls_make());
		/* The wheel wakes up for the last deadline, and finds nothing. */
		sleep_until(from - (COUNT - 2) * setup->tick_ns);
	}
	expect_short_waits(_metadata, other);
}

HTW_TEST(decreasing_deadlines_in_vectors)
{
	decreasing(_metadata, self->fd, VECTOR_FORM, &many_slots);
}

HTW_TEST(decreasing_deadlines_in_batches)
{
	decreasing(_metadata, self->fd, BATCH_FORM, &many_slots);
}

HTW_TEST(decreasing_deadlines_on_odd_slots)
{
	decreasing(_metadata, self->fd, VECTOR_FORM, &odd_slots);
}

/* What each call does to a timer, and the timer's buckets, cost as much as they can. */
static void costly(struct __test_metadata *_metadata, int fd, enum form form, __u32 flags,
		   __u64 slack, const struct htw_setup *setup)
{
	unsigned int round, i;
	__u64 random = 88172645463325252ULL, deadline;
	int other;

	ASSERT_EQ(0, htw_set_up(fd, *setup));
	calls_init(fd, form, HTW_OP_MOD, HTW_F_ABS | HTW_MOD_DEADLINE | flags);
	calls.v.slack = slack;
	add_all(_metadata, fd, now_ns() + HOUR);
	other = interrupts_start();
	ASSERT_LE(0, other);
	ASSERT_TRUE(trace_softirqs(true));
	for (round = 0; round < 300; round++) {
		/* In a bucket of the last level; most of them are empty. */
		for (i = 0; i < COUNT; i++) {
			deadline = now_ns() + HOUR + xorshift64(&random) % (4 * HOUR);
			calls.deadlines[i] = deadline;
		}
		ASSERT_EQ(0, calls_make());
	}
	expect_short_waits(_metadata, other);
}

HTW_TEST(moves_among_odd_slots)
{
	costly(_metadata, self->fd, VECTOR_FORM, 0, 0, &odd_slots);
}

HTW_TEST(moves_with_slack)
{
	costly(_metadata, self->fd, VECTOR_FORM, HTW_MOD_SLACK, HOUR, &odd_slots);
}

HTW_TEST(moves_with_slack_in_batches)
{
	costly(_metadata, self->fd, BATCH_FORM, HTW_MOD_SLACK, HOUR, &odd_slots);
}

TEST_HARNESS_MAIN
