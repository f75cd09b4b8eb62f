// SPDX-License-Identifier: GPL-2.0-only
/*
 * Deadlines that have passed expire at once, on any tick and by any call
 *
 * A timer that is due when a call returns has expired by then: it does not wait
 * for a tick, for another call or for the rest of its vector. Tested on the
 * manual clock, where time is exact.
 */
#include "htw-test.h"

#define TICK	(10 * MSEC)
/* The present, between two ticks. */
#define NOW	(100 * TICK + TICK * 6 / 10)

enum form { SINGLE, IN_VECTOR };
enum before { NEW, PENDING, DUE, DISARMED };

static const struct htw_setup_args between_ticks = {
	.flags = HTW_SETUP_CLOCK,
	.clock = HTW_CLOCK_MANUAL,
	.tick_ns = TICK, .levels = 3, .slots = { 16, 16, 16 },
};

static int add(int fd, enum form form, struct htw_add_args *add)
{
	struct htw_vector_args v = {
		.op = HTW_OP_ADD, .count = 1, .ids = (uintptr_t)&add->id,
		.deadlines = (uintptr_t)&add->deadline, .cookies = (uintptr_t)&add->cookie,
		.flags = add->flags, .slack = add->slack,
	};

	if (form == SINGLE)
		return htw_call(fd, HTW_ADD, add);
	return htw_call(fd, HTW_VECTOR, &v) ?: HTW_ID_ERROR(add->id);
}

static int move(int fd, enum form form, __u64 id, __u64 deadline, __u32 flags)
{
	struct htw_vector_args v = {
		.op = HTW_OP_MOD, .count = 1, .ids = (uintptr_t)&id,
		.deadlines = (uintptr_t)&deadline, .flags = HTW_MOD_DEADLINE | flags,
	};

	if (form == SINGLE)
		return htw_move(fd, id, deadline, flags);
	return htw_call(fd, HTW_VECTOR, &v) ?: HTW_ID_ERROR(id);
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

	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	ASSERT_EQ(0, htw_advance(self->fd, NOW, HTW_F_ABS));
	for (int form = SINGLE; form <= IN_VECTOR; form++) {
		for (unsigned int i = 0; i < 2 * ARRAY_SIZE(past); i++) {
			struct htw_add_args a = {
				.deadline = past[i / 2].deadline, .flags = past[i / 2].flags,
				.cookie = i, .slack = i % 2 * SEC,
			};

			ASSERT_EQ(0, add(self->fd, form, &a));
			EXPECT_EQ(HTW_STATE_DUE, htw_query(self->fd, a.id).state) {
				TH_LOG("form %d, deadline %llu, flags %u, slack %llu", form,
				       past[i / 2].deadline, past[i / 2].flags, a.slack);
			}
			EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
			ASSERT_EQ(1, htw_read(self->fd, ev, 2));
			EXPECT_EQ(a.id, ev[0].id);
			EXPECT_EQ(past[i / 2].flags ? past[i / 2].deadline : NOW, ev[0].deadline);
			EXPECT_EQ(NOW, ev[0].taken);
		}
	}
}

HTW_TEST(a_mod_whose_deadline_has_come)
{
	struct htw_event ev[2];

	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	ASSERT_EQ(0, htw_advance(self->fd, NOW, HTW_F_ABS));
	for (int form = SINGLE; form <= IN_VECTOR; form++) {
		for (int before = PENDING; before <= DISARMED; before++) {
			for (unsigned int i = 0; i < ARRAY_SIZE(past); i++) {
				struct htw_add_args a = {
					.deadline = before == PENDING ? HOUR : 0,
					.flags = HTW_F_KEEP,
				};

				ASSERT_EQ(0, add(self->fd, SINGLE, &a));
				if (before == DISARMED)
					ASSERT_EQ(1, htw_read(self->fd, ev, 2));
				ASSERT_EQ(0, move(self->fd, form, a.id, past[i].deadline,
						  past[i].flags));
				EXPECT_EQ(HTW_STATE_DUE, htw_query(self->fd, a.id).state) {
					TH_LOG("form %d, before %d, deadline %llu, flags %u", form,
					       before, past[i].deadline, past[i].flags);
				}
				ASSERT_EQ(1, htw_read(self->fd, ev, 2));
				EXPECT_EQ(NOW, ev[0].taken);
				ASSERT_EQ(0, htw_stop(self->fd, a.id));
			}
		}
	}
}

/*
 * Many wait for the next tick, which the level that holds the present may end
 * before: on a clock that may stand still, what is due does not wait with them.
 */
HTW_TEST(a_deadline_that_has_come_beside_many_of_the_next_tick)
{
	static const __u64 ticks[] = { 100, 111 };
	struct htw_event ev[2];

	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	for (unsigned int k = 0; k < ARRAY_SIZE(ticks); k++) {
		const __u64 now = ticks[k] * TICK + NOW % TICK;

		ASSERT_EQ(0, htw_advance(self->fd, now, HTW_F_ABS));
		for (int i = 0; i < 100; i++)
			ASSERT_NE(0, htw_start_abs(self->fd, now + 1, 0));
		for (int form = SINGLE; form <= IN_VECTOR; form++) {
			for (unsigned int i = 0; i < ARRAY_SIZE(past); i++) {
				struct htw_add_args a = {
					.deadline = past[i].deadline, .flags = past[i].flags,
				};

				if (a.flags)
					a.deadline += now - NOW;
				ASSERT_EQ(0, add(self->fd, form, &a));
				EXPECT_EQ(HTW_STATE_DUE, htw_query(self->fd, a.id).state) {
					TH_LOG("form %d, tick %llu, deadline %llu", form, ticks[k],
					       a.deadline);
				}
				ASSERT_EQ(1, htw_read(self->fd, ev, 2));
				EXPECT_EQ(a.id, ev[0].id);
			}
		}
		EXPECT_EQ(1, htw_advance(self->fd, TICK, 0));
		for (int i = 0; i < 100; i++)
			ASSERT_EQ(1, htw_read(self->fd, ev, 1));
	}
}

/* A deadline one nanosecond ahead waits for its tick. */
HTW_TEST(a_deadline_to_come_waits_for_its_tick)
{
	struct htw_event ev[2];

	ASSERT_EQ(0, htw_set_up(self->fd, between_ticks));
	ASSERT_EQ(0, htw_advance(self->fd, NOW, HTW_F_ABS));
	for (int form = SINGLE; form <= IN_VECTOR; form++) {
		for (int moved = 0; moved < 2; moved++) {
			struct htw_add_args a = { .deadline = moved ? HOUR : 1 };
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
	struct htw_vector_args v = {
		.op = HTW_OP_MOD, .count = 4, .ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)deadlines, .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
	};
	struct htw_event ev[8];
	bool in_time;

	for (int i = 0; i < 4; i++) {
		struct htw_add_args a = htw_rel(i % 2 || before == PENDING ? HOUR : 0, i);

		a.flags |= HTW_F_KEEP;
		ASSERT_EQ(0, htw_call(fd, HTW_ADD, &a));
		ids[i] = a.id;
	}
	if (before != PENDING)
		ASSERT_TRUE(htw_eventually(htw_due(fd) == 2));
	if (before == DISARMED)
		ASSERT_EQ(2, htw_read(fd, ev, 8));
	when = now_ns() + 50 * MSEC;
	for (int i = 0; i < 4; i++) {
		deadlines[i] = when;
		if (form == SINGLE)
			ASSERT_EQ(0, htw_move(fd, ids[i], when, HTW_F_ABS));
	}
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
	for (int form = SINGLE; form <= IN_VECTOR; form++)
		for (int before = PENDING; before <= DISARMED; before++)
			ASSERT_TRUE(htw_eventually(moved_in_order(_metadata, self->fd, form,
								  before)));
}

TEST_HARNESS_MAIN
