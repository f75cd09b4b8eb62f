// SPDX-License-Identifier: GPL-2.0-only
/*
 * Deadlines that have passed expire at once, on any tick and by any call
 *
 * A timer that is due when a call returns has expired by then: it does not wait
 * for a tick, for another call or for the rest of its batch. Tested on the
 * manual clock, where time is exact.
 */
#include "htw-ring.h"

#define TICK	(10 * MSEC)
/* The present, between two ticks. */
#define NOW	(100 * TICK + TICK * 6 / 10)

enum form { SINGLE, IN_BATCH, IN_VECTOR };
enum before { NEW, PENDING, EXPIRED, DISARMED };

static const struct htw_setup between_ticks = {
	.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
	.clock = HTW_CLOCK_MANUAL,
	.tick_ns = TICK, .levels = 3, .slots = { 16, 16, 16 },
};

static int add(int fd, enum form form, struct htw_add *add)
{
	struct htw_op op = { .op = HTW_OP_ADD, .add = *add };
	struct htw_batch batch = htw_batch_of(&op, 1);
	struct htw_vector v = {
		.op = HTW_OP_ADD, .count = 1, .ids = (uintptr_t)&add->id,
		.deadlines = (uintptr_t)&add->deadline, .cookies = (uintptr_t)&add->cookie,
		.flags = add->flags, .slack = add->slack,
	};
	int ret;

	switch (form) {
	case SINGLE:
		return htw_call(fd, HTW_ADD, add);
	case IN_BATCH:
		ret = htw_call(fd, HTW_BATCH, &batch);
		add->id = op.add.id;
		return ret ?: op.result;
	default:
		ret = htw_call(fd, HTW_VECTOR, &v);
		return ret ?: v.failed ? (int)add->id : 0;
	}
}

static int move(int fd, enum form form, __u64 id, __u64 deadline, __u32 flags)
{
	struct htw_op op = {
		.op = HTW_OP_MOD,
		.mod = { .id = id, .deadline = deadline, .flags = HTW_MOD_DEADLINE | flags },
	};
	struct htw_batch batch = htw_batch_of(&op, 1);
	struct htw_vector v = {
		.op = HTW_OP_MOD, .count = 1, .ids = (uintptr_t)&id,
		.deadlines = (uintptr_t)&deadline, .flags = HTW_MOD_DEADLINE | flags,
	};

	switch (form) {
	case SINGLE:
		return htw_move(fd, id, deadline, flags);
	case IN_BATCH:
		return htw_call(fd, HTW_BATCH, &batch) ?: op.result;
	default:
		return htw_call(fd, HTW_VECTOR, &v) ?: v.failed ? (int)id : 0;
	}
}

static const struct {
	__u64 deadline;
	__u32 flags;
} past[] = {
	{ 0, 0 }, { 0, HTW_F_ABS }, { 1, HTW_F_ABS }, { NOW, HTW_F_ABS }, { NOW - 1, HTW_F_ABS },
	{ 100 * TICK + 1, HTW_F_ABS }, { 100 * TICK, HTW_F_ABS }, { 100 * TICK - 1, HTW_F_ABS },
};


HTW_TEST(an_add_whose_deadline_has_come)
{
	struct htw_event ev[2];

	NEEDS(HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR);
	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	ASSERT_EQ(0, htw_advance(self->fd, NOW, HTW_F_ABS));
	for (int form = SINGLE; form <= IN_VECTOR; form++) {
		for (unsigned int i = 0; i < 2 * ARRAY_SIZE(past); i++) {
			struct htw_add a = {
				.deadline = past[i / 2].deadline, .flags = past[i / 2].flags,
				.cookie = i, .slack = i % 2 * SEC,
			};

			ASSERT_EQ(0, add(self->fd, form, &a));
			EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, a.id).state) {
				TH_LOG("form %d, deadline %llu, flags %u, slack %llu", form,
				       past[i / 2].deadline, past[i / 2].flags, a.slack);
			}
			EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
			ASSERT_EQ(1, htw_read(self->fd, ev, 2));
			EXPECT_EQ(a.id, ev[0].id);
			EXPECT_EQ(past[i / 2].flags ? past[i / 2].deadline : NOW, ev[0].deadline);
			EXPECT_EQ(NOW, ev[0].fired);
		}
	}
}

HTW_TEST(a_mod_whose_deadline_has_come)
{
	struct htw_event ev[2];

	NEEDS(HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR | HTW_FEATURE_KEEP);
	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	ASSERT_EQ(0, htw_advance(self->fd, NOW, HTW_F_ABS));
	for (int form = SINGLE; form <= IN_VECTOR; form++) {
		for (int before = PENDING; before <= DISARMED; before++) {
			for (unsigned int i = 0; i < ARRAY_SIZE(past); i++) {
				struct htw_add a = {
					.deadline = before == PENDING ? HOUR : 0,
					.flags = HTW_F_KEEP,
				};

				ASSERT_EQ(0, add(self->fd, SINGLE, &a));
				if (before == DISARMED)
					ASSERT_EQ(1, htw_read(self->fd, ev, 2));
				ASSERT_EQ(0, move(self->fd, form, a.id, past[i].deadline,
						  past[i].flags));
				EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, a.id).state) {
					TH_LOG("form %d, before %d, deadline %llu, flags %u", form,
					       before, past[i].deadline, past[i].flags);
				}
				ASSERT_EQ(1, htw_read(self->fd, ev, 2));
				EXPECT_EQ(NOW, ev[0].fired);
				ASSERT_EQ(0, htw_stop(self->fd, a.id));
			}
		}
	}
}

/* A deadline one nanosecond ahead waits for its tick. */
HTW_TEST(a_deadline_to_come_waits_for_its_tick)
{
	struct htw_event ev[2];

	NEEDS(HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR);
	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	ASSERT_EQ(0, htw_advance(self->fd, NOW, HTW_F_ABS));
	for (int form = SINGLE; form <= IN_VECTOR; form++) {
		for (int moved = 0; moved < 2; moved++) {
			struct htw_add a = { .deadline = moved ? HOUR : 1 };
			const __u64 now = NOW + (2 * form + moved) * TICK;

			ASSERT_EQ(0, add(self->fd, form, &a));
			if (moved)
				ASSERT_EQ(0, move(self->fd, form, a.id, 1, 0));
			EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, a.id).state);
			EXPECT_EQ(0, htw_advance(self->fd, TICK * 4 / 10 - 1, 0));
			EXPECT_EQ(1, htw_advance(self->fd, 1, 0));
			ASSERT_EQ(1, htw_read(self->fd, ev, 2));
			EXPECT_EQ(now + 1, ev[0].deadline);
			ASSERT_EQ(0, htw_advance(self->fd, TICK * 6 / 10, 0));
		}
	}
}

HTW_TEST(batch_that_takes_back_what_it_moved)
{
	struct htw_event ev[2];
	__u64 a;

	NEEDS(HTW_FEATURE_MANUAL);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_EQ(0, htw_advance(self->fd, SEC, 0));
	a = htw_start(self->fd, HOUR, 1);
	ASSERT_NE(0, a);

	struct htw_op ops[] = {
		{ .op = HTW_OP_MOD, .mod = { .id = a, .flags = HTW_MOD_DEADLINE } },
		htw_op_add(0, 2),
		{ .op = HTW_OP_MOD,
		  .mod = { .id = a, .deadline = HOUR, .flags = HTW_MOD_DEADLINE } },
		htw_op_cancel(a, 0),
	};

	ASSERT_EQ(0, htw_batch_all(self->fd, ops, 4));
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(0, ops[i].result);
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	ASSERT_EQ(1, htw_read(self->fd, ev, 2));
	EXPECT_EQ(ops[1].add.id, ev[0].id);
}

/* A batch that names a timer twice gives the results of two single calls. */
HTW_TEST(one_timer_twice_in_a_batch)
{
	struct htw_event ev[2];
	__u64 a, b;

	NEEDS(HTW_FEATURE_MANUAL | HTW_FEATURE_MOD);
	ASSERT_EQ(0, htw_setup_clock(self->fd, HTW_CLOCK_MANUAL));
	ASSERT_EQ(0, htw_advance(self->fd, SEC, 0));
	for (int others = 0; others < 3; others++) {
		a = htw_start(self->fd, HOUR, 1);
		b = htw_start(self->fd, HOUR, 2);
		ASSERT_NE(0, a);
		ASSERT_NE(0, b);

		struct htw_op ops[] = {
			{ .op = HTW_OP_MOD, .mod = { .id = a, .flags = HTW_MOD_DEADLINE } },
			{ .op = HTW_OP_QUERY, .query = { .id = a } },
			htw_op_cancel(a, 0),
			htw_op_cancel(a, 0),
			htw_op_cancel(b, 0),
			{ .op = HTW_OP_MOD, .mod = { .id = b, .flags = HTW_MOD_DEADLINE } },
		};

		ASSERT_EQ(0, htw_batch_all(self->fd, ops, 4 + others));
		EXPECT_EQ(0, ops[0].result);
		EXPECT_EQ(0, ops[1].result);
		EXPECT_EQ(HTW_STATE_EXPIRED, ops[1].query.state);
		EXPECT_EQ(-EALREADY, ops[2].result);
		EXPECT_EQ(-EALREADY, ops[3].result);
		EXPECT_EQ(1, ops[3].cancel.cookie);
		if (others == 2)
			EXPECT_EQ(-ENOENT, ops[5].result);
		ASSERT_EQ(1, htw_read(self->fd, ev, 2));
		EXPECT_EQ(a, ev[0].id);
		htw_stop(self->fd, b);
		EXPECT_EQ(0, htw_timers(self->fd));
	}
}

/*
 * A one-shot timer pushed into the ring has ended: the next operation can use
 * its slot.
 */
HTW_TEST(a_push_in_the_middle_of_a_batch)
{
	__u64 deadlines[] = { 0, 0, HOUR }, ids[3];
	struct htw_vector v = {
		.op = HTW_OP_ADD, .count = 3, .ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines,
	};
	struct htw_op ops[] = { htw_op_add(0, 1), htw_op_add(0, 2), htw_op_add(HOUR, 3) };
	struct htw_event ev[8];
	struct ring r;

	NEEDS(HTW_FEATURE_MANUAL | HTW_FEATURE_RING | HTW_FEATURE_VECTOR);
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK | HTW_SETUP_LIMIT,
		.ring_entries = 8, .clock = HTW_CLOCK_MANUAL, .limit = 1,
	}));
	ASSERT_TRUE(ring_map(&r, self->fd, 8));
	ASSERT_EQ(0, htw_batch_all(self->fd, ops, 3));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, ops[i].result);
	EXPECT_EQ(2, ring_take(&r, ev, 8));
	ASSERT_EQ(0, htw_stop(self->fd, ops[2].add.id));

	ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
	EXPECT_EQ(3, v.done);
	EXPECT_EQ(0, v.failed);
	EXPECT_EQ(2, ring_take(&r, ev, 8));
	EXPECT_EQ(ids[0], ev[0].id);
	EXPECT_EQ(ids[1], ev[1].id);
}

/*
 * Move four timers to one deadline; before that, the first and the third are in
 * state @before. They must expire in the order of the moves. Return false if
 * the deadline passed before all of them were moved: then the order means
 * nothing.
 */
static bool moved_in_order(struct __test_metadata *_metadata, int fd, enum form form,
			   enum before before)
{
	__u64 ids[4], deadlines[4], when;
	struct htw_vector v = {
		.op = HTW_OP_MOD, .count = 4, .ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines, .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
	};
	struct htw_op ops[4] = {};
	struct htw_event ev[8];
	bool in_time;

	for (int i = 0; i < 4; i++) {
		struct htw_add a = htw_rel(i % 2 || before == PENDING ? HOUR : 0, i);

		a.flags |= HTW_F_KEEP;
		ASSERT_EQ(0, htw_call(fd, HTW_ADD, &a));
		ids[i] = a.id;
	}
	if (before != PENDING)
		ASSERT_TRUE(htw_eventually(htw_info(fd).expired == 2));
	if (before == DISARMED)
		ASSERT_EQ(2, htw_read(fd, ev, 8));
	when = now_ns() + 50 * MSEC;
	for (int i = 0; i < 4; i++) {
		deadlines[i] = when;
		ops[i].op = HTW_OP_MOD;
		ops[i].mod.id = ids[i];
		ops[i].mod.deadline = when;
		ops[i].mod.flags = HTW_MOD_DEADLINE | HTW_F_ABS;
		if (form == SINGLE)
			ASSERT_EQ(0, htw_mod(fd, ops[i].mod));
	}
	if (form == IN_BATCH)
		ASSERT_EQ(0, htw_batch_all(fd, ops, 4));
	if (form == IN_VECTOR)
		ASSERT_EQ(0, htw_call(fd, HTW_VECTOR, &v));
	in_time = now_ns() < when;
	ASSERT_EQ(4, htw_collect(fd, ev, 4));
	for (int i = 0; i < 4; i++) {
		if (in_time)
			EXPECT_EQ(i, ev[i].cookie) {
				TH_LOG("form %d, before %d", form, before);
			}
		ASSERT_EQ(0, htw_stop(fd, ids[i]));
	}
	return in_time;
}

HTW_TEST(order_of_what_was_moved)
{
	NEEDS(HTW_FEATURE_VECTOR | HTW_FEATURE_KEEP | HTW_FEATURE_MOD);
	for (int form = SINGLE; form <= IN_VECTOR; form++)
		for (int before = PENDING; before <= DISARMED; before++)
			ASSERT_TRUE(htw_eventually(moved_in_order(_metadata, self->fd, form,
								  before)));
}

TEST_HARNESS_MAIN
