// SPDX-License-Identifier: GPL-2.0-only
/*
 * When may the memory behind a cookie be freed? Events of timers that have ended may still
 * stand in the ring: whatever ends a timer says up to where. And what a ring that is mapped
 * means to a child.
 */
#include "htw-ring.h"

#include <sys/wait.h>

#define RING	16

/* The part of a position that no call fills in. */
#define NO_TAIL	0x5eed5eed

static bool manual_ring(struct ring *r, int fd)
{
	return ring_open(r, fd, RING, HTW_CLOCK_MANUAL);
}

/* Starts a timer that is kept and has been pushed, so that it is disarmed. */
static __u64 pushed(int fd, __u64 cookie)
{
	struct htw_add add = { .cookie = cookie, .flags = HTW_F_KEEP };

	return htw_call(fd, HTW_ADD, &add) ? 0 : add.id;
}

/* Does any event of these cookies, from @first on, stand at @position or behind it? */
static bool stands_behind(const struct ring *r, __u32 position, __u64 first)
{
	for (__u32 n = r->page->head; n != ring_tail(r); n++) {
		const struct htw_event *ev = HTW_RING_EVENT(r->page, RING, n);

		if (ev->cookie >= first && HTW_RING_PASSED(n, position))
			return true;
	}
	return false;
}

HTW_TEST(cancel_says_how_far)
{
	struct htw_event ev[RING];
	struct ring r;

	NEEDS(HTW_FEATURE_RING_TAIL | HTW_FEATURE_MANUAL);
	ASSERT_TRUE(manual_ring(&r, self->fd));
	for (__u64 i = 1; i < 200; i++) {
		const __u64 id = pushed(self->fd, i);
		struct htw_cancel cancel = htw_cancel_of(id, 0);

		ASSERT_NE(0, id);
		cancel.ring_tail = NO_TAIL;
		ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_EQ(ring_tail(&r), cancel.ring_tail);
		EXPECT_FALSE(HTW_RING_PASSED(r.page->head, cancel.ring_tail));
		/* What comes later is another's. */
		ASSERT_NE(0, htw_start(self->fd, 0, 0));
		EXPECT_FALSE(stands_behind(&r, cancel.ring_tail, i));
		ASSERT_EQ(1, ring_take(&r, ev, 1));
		EXPECT_EQ(i, ev[0].cookie);
		EXPECT_TRUE(HTW_RING_PASSED(r.page->head, cancel.ring_tail));
		ASSERT_EQ(1, ring_take(&r, ev, RING));
	}
}

/* A periodic timer that is pending has been pushed before. */
HTW_TEST(cancel_of_a_periodic_timer)
{
	struct htw_add add = { .deadline = SEC, .interval = SEC, .cookie = 1 };
	struct htw_event ev[RING];
	struct ring r;

	NEEDS(HTW_FEATURE_RING_TAIL | HTW_FEATURE_MANUAL);
	ASSERT_TRUE(manual_ring(&r, self->fd));
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(1, htw_advance(self->fd, SEC, 0));

	struct htw_cancel cancel = htw_cancel_of(add.id, 0);

	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(3, cancel.ring_tail);
	ASSERT_EQ(2, ring_take(&r, ev, 2));
	EXPECT_FALSE(HTW_RING_PASSED(r.page->head, cancel.ring_tail));
	ASSERT_EQ(1, ring_take(&r, ev, RING));
	EXPECT_TRUE(HTW_RING_PASSED(r.page->head, cancel.ring_tail));
}

HTW_TEST(all_others_say_how_far)
{
	struct htw_query entries[4];
	struct htw_event ev[RING];
	struct ring r;

	NEEDS(HTW_FEATURE_RING_TAIL | HTW_FEATURE_MANUAL | HTW_FEATURE_VECTOR);
	ASSERT_TRUE(manual_ring(&r, self->fd));
	for (__u32 round = 0; round < 100; round++) {
		__u64 ids[2] = { pushed(self->fd, 1), pushed(self->fd, 2) };
		struct htw_op ops[2] = { htw_op_cancel(ids[0], 0), htw_op_cancel(ids[1], 0) };
		struct htw_batch batch = htw_batch_of(ops, 2);
		struct htw_vector v = {
			.op = HTW_OP_CANCEL, .count = 2, .ids = (uintptr_t)ids,
			.ring_tail = NO_TAIL,
		};
		struct htw_cancel_all all = { .ring_tail = NO_TAIL };
		struct htw_list list = htw_list_of(entries, 4);

		ASSERT_NE(0, ids[0]);
		ASSERT_NE(0, ids[1]);
		list.ring_tail = NO_TAIL;
		switch (round % 4) {
		case 0:
			ASSERT_EQ(0, htw_call(self->fd, HTW_BATCH, &batch));
			EXPECT_EQ(0, ops[0].result);
			EXPECT_EQ(0, ops[1].result);
			EXPECT_EQ(ring_tail(&r), ops[0].cancel.ring_tail);
			EXPECT_EQ(ring_tail(&r), ops[1].cancel.ring_tail);
			break;
		case 1:
			ASSERT_EQ(0, htw_call(self->fd, HTW_VECTOR, &v));
			EXPECT_EQ(0, v.failed);
			EXPECT_EQ(ring_tail(&r), v.ring_tail);
			break;
		case 2:
			ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
			EXPECT_EQ(2, all.count);
			EXPECT_EQ(ring_tail(&r), all.ring_tail);
			break;
		default:
			ASSERT_EQ(0, htw_move(self->fd, ids[0], HOUR, 0));
			ASSERT_EQ(0, htw_call(self->fd, HTW_HARVEST, &list));
			ASSERT_EQ(1, list.done);
			EXPECT_EQ(ids[0], entries[0].id);
			EXPECT_EQ(ring_tail(&r), list.ring_tail);
			ASSERT_EQ(0, htw_stop(self->fd, ids[1]));
		}
		EXPECT_EQ(0, htw_timers(self->fd));
		ASSERT_EQ(2, ring_take(&r, ev, RING));
	}
}

/* It says the same while nothing has the ring mapped: what is in it comes later. */
HTW_TEST(positions_outlive_the_mapping)
{
	struct htw_event ev[RING];
	struct ring r;
	__u64 id;

	NEEDS(HTW_FEATURE_RING_TAIL | HTW_FEATURE_MANUAL);
	ASSERT_TRUE(manual_ring(&r, self->fd));
	id = pushed(self->fd, 7);
	ASSERT_NE(0, id);
	ring_unmap(&r);

	struct htw_cancel cancel = htw_cancel_of(id, 0);

	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(1, cancel.ring_tail);
	ASSERT_TRUE(ring_map(&r, self->fd, RING));
	EXPECT_FALSE(HTW_RING_PASSED(r.page->head, cancel.ring_tail));
	ASSERT_EQ(1, ring_take(&r, ev, RING));
	EXPECT_EQ(7, ev[0].cookie);
}

HTW_TEST(reserved_without_a_ring)
{
	struct htw_cancel cancel = htw_cancel_of(htw_start(self->fd, HOUR, 1), 0);
	struct htw_cancel_all all = { .ring_tail = NO_TAIL };

	NEEDS(HTW_FEATURE_RING_TAIL);
	cancel.ring_tail = NO_TAIL;
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL, &cancel));
	cancel.ring_tail = 0;
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(0, cancel.ring_tail);
	EXPECT_EQ(-EINVAL, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	all.ring_tail = 0;
	ASSERT_EQ(0, htw_call(self->fd, HTW_CANCEL_ALL, &all));
	EXPECT_EQ(0, all.ring_tail);
}

/*
 * A child has no part in the ring: as soon as the parent has unmapped it, expirations are
 * for read() again, however long the child lives.
 */
HTW_TEST(a_child_does_not_keep_it_mapped)
{
	struct htw_event ev[2];
	int pipes[2];
	struct ring r;
	char byte;
	pid_t pid;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, RING, CLOCK_MONOTONIC));
	ASSERT_EQ(0, pipe(pipes));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(pipes[1]);
		/* Until the parent has looked. */
		_exit(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
	}
	EXPECT_EQ(-EBUSY, htw_read(self->fd, ev, 2));
	ring_unmap(&r);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
	ASSERT_NE(0, htw_start(self->fd, 0, 7));
	ASSERT_TRUE(htw_wait_readable(self->fd));
	EXPECT_EQ(1, htw_read(self->fd, ev, 2));
	ASSERT_EQ(1, write(pipes[1], "x", 1));
	ASSERT_EQ(pid, waitpid(pid, NULL, 0));
}

/* One that wants it calls mmap() itself, and then is one of those who have it mapped. */
HTW_TEST(a_child_can_map_it)
{
	struct htw_event ev[2];
	struct ring r;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, RING, CLOCK_MONOTONIC));
	ring_unmap(&r);
	EXPECT_TRUE(htw_in_child(ring_map(&r, self->fd, RING) &&
				 htw_read(self->fd, ev, 2) == -EBUSY &&
				 htw_start(self->fd, 0, 7) && htw_wait_readable(self->fd) &&
				 ring_take(&r, ev, 2) == 1 && ev[0].cookie == 7));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 2));
}

TEST_HARNESS_MAIN
