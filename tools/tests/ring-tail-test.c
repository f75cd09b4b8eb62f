// SPDX-License-Identifier: GPL-2.0-only
/*
 * When the memory behind a cookie may be freed, and rings mapped by a child
 *
 * Events of a timer that has ended may still be in the ring: each call that
 * ends a timer returns the position up to which they can be.
 */
#include "htw-ring.h"

#include <sys/wait.h>

#define RING	16

/* A value for the low half of a position that no call returns. */
#define NO_TAIL	0x5eed5eed

static bool manual_ring(struct ring *r, int fd)
{
	return ring_open(r, fd, RING, HTW_CLOCK_MANUAL);
}

/* Start a kept timer and wait until its event is in the ring; it is then disarmed. */
static __u64 pushed(int fd, __u64 cookie)
{
	struct htw_add add = { .cookie = cookie, .flags = HTW_F_KEEP };

	return htw_call(fd, HTW_ADD, &add) ? 0 : add.id;
}

/*
 * Whether the ring has an event, at @position or later, whose cookie is @first
 * or more.
 */
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
		/* Later events are other timers'. */
		ASSERT_NE(0, htw_start(self->fd, 0, 0));
		EXPECT_FALSE(stands_behind(&r, cancel.ring_tail, i));
		ASSERT_EQ(1, ring_take(&r, ev, 1));
		EXPECT_EQ(i, ev[0].cookie);
		EXPECT_TRUE(HTW_RING_PASSED(r.page->head, cancel.ring_tail));
		ASSERT_EQ(1, ring_take(&r, ev, RING));
	}
}

/* A pending periodic timer may have events in the ring. */
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

/*
 * The result is the same while the ring is not mapped: its events are still to
 * be read.
 */
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

/* Fork a child that waits for a byte and then exits. */
static pid_t idle_child(int pipes[2])
{
	char byte;
	pid_t pid;

	if (pipe(pipes))
		return -1;
	pid = fork();
	if (!pid)
		_exit(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
	return pid;
}

/*
 * fork() copies the mapping unless MADV_DONTFORK is set. If it is, read() gets
 * the events as soon as the parent unmaps the ring, however long the child
 * lives.
 */
HTW_TEST(a_child_keeps_it_mapped_unless_told)
{
	NEEDS(HTW_FEATURE_RING);
	for (int copied = 0; copied < 2; copied++) {
		const int fd = htw_open(O_NONBLOCK);
		struct htw_event ev[2];
		int pipes[2];
		struct ring r;
		pid_t pid;

		ASSERT_LE(0, fd);
		ASSERT_TRUE(ring_open(&r, fd, RING, CLOCK_MONOTONIC));
		if (!copied)
			ASSERT_EQ(0, madvise(r.page, r.size, MADV_DONTFORK));
		pid = idle_child(pipes);
		ASSERT_LE(0, pid);
		EXPECT_EQ(-EBUSY, htw_read(fd, ev, 2));
		ring_unmap(&r);
		EXPECT_EQ(copied ? -EBUSY : -EAGAIN, htw_read(fd, ev, 2));
		ASSERT_EQ(1, write(pipes[1], "x", 1));
		ASSERT_EQ(pid, waitpid(pid, NULL, 0));
		EXPECT_EQ(-EAGAIN, htw_read(fd, ev, 2));
		ASSERT_NE(0, htw_start(fd, 0, 7));
		ASSERT_TRUE(htw_wait_readable(fd));
		EXPECT_EQ(1, htw_read(fd, ev, 2));
		close(fd);
	}
}

TEST_HARNESS_MAIN
