// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mapped ring: order, free entries, overflow, wakeups, the timers' states,
 * and a program that overwrites the shared page
 */
#include "htw-epoll.h"
#include "htw-ring.h"

#include <pthread.h>

/* Open a ring of @entries on the manual clock. */
#define RING(r, entries)						\
	struct ring r;							\
									\
	NEEDS(HTW_FEATURE_RING);					\
	ASSERT_TRUE(ring_open(&(r), self->fd, entries, HTW_CLOCK_MANUAL))

/* Start timers at ticks 1, 2, ... with the cookies @first, @first + 1, ... */
static bool start_ticks(int fd, __u64 tick, __u64 now, int count, __u64 first)
{
	for (int i = 0; i < count; i++) {
		if (!htw_start_abs(fd, now + (i + 1) * tick, first + i))
			return false;
	}
	return true;
}

/* Take all events; true if they are @count with the cookies @first, @first + 1, ... */
static bool takes_just(struct ring *r, __u64 first, size_t count)
{
	struct htw_event ev;

	for (size_t i = 0; i < count; i++) {
		if (!ring_take(r, &ev, 1) || ev.cookie != first + i)
			return false;
	}
	return !ring_take(r, &ev, 1);
}

HTW_TEST(sizes)
{
	const __u32 good[] = { 1, 2, 64, 4096, 1 << 20 };
	const __u32 bad[] = { 0, 3, 63, 65, (1 << 20) + 1, 1 << 21, 1U << 31, ~0U };
	struct htw_setup setup = { .flags = HTW_SETUP_RING };
	unsigned int i;

	NEEDS(HTW_FEATURE_RING);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		setup.ring_entries = bad[i];
		EXPECT_EQ(bad[i] && bad[i] <= 1U << 20 ? -EINVAL : -ERANGE,
			  htw_set_up(self->fd, setup));
	}
	EXPECT_EQ(-EINVAL, htw_set_up(self->fd, (struct htw_setup){ .ring_entries = 64 }));
	EXPECT_EQ(0, htw_info(self->fd).ring_entries);
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		int fd = htw_open(O_NONBLOCK);
		struct ring r;

		setup.ring_entries = good[i];
		ASSERT_EQ(0, htw_set_up(fd, setup));
		EXPECT_EQ(good[i], htw_info(fd).ring_entries);
		EXPECT_EQ(HTW_SETUP_RING, htw_info(fd).flags);
		EXPECT_EQ(-EBUSY, htw_set_up(fd, setup));
		ASSERT_TRUE(ring_map(&r, fd, good[i]));
		EXPECT_EQ(good[i], r.page->entries);
		EXPECT_EQ(0, r.page->tail);
		EXPECT_EQ(0, r.page->head);
		EXPECT_EQ(0, r.page->flags);
		/* All pages are mapped. */
		memset((void *)r.events, 0xa5, good[i] * sizeof(struct htw_event));
		ring_unmap(&r);
		close(fd);
	}
	/* Not after the first timer. */
	ASSERT_NE(0, htw_start(self->fd, HOUR, 1));
	EXPECT_EQ(-EBUSY, htw_set_up(self->fd, setup));
	EXPECT_EQ(0, htw_info(self->fd).ring_entries);
}

HTW_TEST(mmap_what_is_there)
{
	const size_t size = ring_size(256);
	int fd = htw_open(O_NONBLOCK);
	struct ring r;
	char *p;

	NEEDS(HTW_FEATURE_RING);
	EXPECT_EQ(-ENXIO, ring_mmap(fd, PAGE, MAP_SHARED, HTW_OFF_RING));
	EXPECT_EQ(-ENXIO, htw_call(fd, HTW_FLUSH, NULL));
	ASSERT_EQ(0, htw_set_up(fd, (struct htw_setup){
		.flags = HTW_SETUP_RING, .ring_entries = 256 }));
	EXPECT_EQ(-ENXIO, htw_call(fd, HTW_FLUSH, NULL));
	EXPECT_EQ(-EINVAL, ring_mmap(fd, size - PAGE, MAP_SHARED, HTW_OFF_RING));
	EXPECT_EQ(-EINVAL, ring_mmap(fd, size + PAGE, MAP_SHARED, HTW_OFF_RING));
	EXPECT_EQ(-EINVAL, ring_mmap(fd, size, MAP_PRIVATE, HTW_OFF_RING));
	EXPECT_EQ(-EINVAL, ring_mmap(fd, size - PAGE, MAP_SHARED, HTW_OFF_RING + PAGE));
	EXPECT_EQ(-EINVAL, ring_mmap(fd, size, MAP_SHARED, 1ULL << 40));
	EXPECT_EQ(-ENXIO, htw_call(fd, HTW_FLUSH, NULL));
	/* Read-only. */
	p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, HTW_OFF_RING);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(0, htw_call(fd, HTW_FLUSH, NULL));
	EXPECT_EQ(256, ((struct htw_ring *)p)->entries);
	munmap(p, size);
	/* The mapping cannot grow. */
	ASSERT_TRUE(ring_map(&r, fd, 256));
	EXPECT_EQ(MAP_FAILED, mremap(r.page, r.size, 2 * r.size, MREMAP_MAYMOVE));
	close(fd);
}

/* A descriptor that is open for reading only: a monitor's. */
HTW_TEST(mmap_read_only)
{
	const size_t size = ring_size(64);
	const struct htw_event *ev;
	struct htw_ring *ring;
	int fd = open(HTW_DEVICE, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	NEEDS(HTW_FEATURE_RING);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, htw_set_up(fd, (struct htw_setup){
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .ring_entries = 64,
		.clock = HTW_CLOCK_MANUAL }));
	ring = (struct htw_ring *)ring_mmap_read_only(fd, size, HTW_OFF_RING);
	ASSERT_NE(NULL, ring);
	ev = (const struct htw_event *)(ring + 1);
	ASSERT_NE(0, htw_start_abs(fd, self->tick, 7));
	EXPECT_EQ(1, htw_advance(fd, 2 * self->tick, 0));
	EXPECT_EQ(1, __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE));
	EXPECT_EQ(7, ev->cookie);
	munmap(ring, size);

	/* One that may be written to starts read-only, too, and is made writable later. */
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING, .ring_entries = 64 }));
	ring = (struct htw_ring *)ring_mmap_as(self->fd, size, PROT_READ, MAP_SHARED,
					       HTW_OFF_RING);
	ASSERT_NE(MAP_FAILED, ring);
	ASSERT_EQ(0, mprotect(ring, size, PROT_READ | PROT_WRITE));
	ring->head = 0;
	munmap(ring, size);
	close(fd);
}

/* poll() moves a part of what is queued, so that a call takes a bounded time. */
HTW_TEST(poll_moves_a_part)
{
	enum { ENTRIES = 16384 };
	struct ring r;
	__u32 moved;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .ring_entries = ENTRIES,
		.clock = HTW_CLOCK_MANUAL }));
	/* Not mapped: all are queued. */
	ASSERT_EQ(ENTRIES, htw_start_many(self->fd, self->tick, 0, ENTRIES, NULL));
	ASSERT_EQ(ENTRIES, htw_advance(self->fd, 2 * self->tick, 0));
	ASSERT_TRUE(ring_map(&r, self->fd, ENTRIES));
	EXPECT_TRUE(ring_overflows(&r));
	EXPECT_EQ(0, ring_waiting(&r));

	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	moved = ring_waiting(&r);
	EXPECT_LT(0, moved);
	EXPECT_GE(1000, moved);
	EXPECT_TRUE(ring_overflows(&r));
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	EXPECT_LT(moved, ring_waiting(&r));
	EXPECT_TRUE(ring_overflows(&r));

	/* HTW_FLUSH moves all. */
	moved = ring_waiting(&r);
	EXPECT_EQ(ENTRIES - moved, ring_flush(&r));
	EXPECT_FALSE(ring_overflows(&r));
	EXPECT_EQ(ENTRIES, ring_waiting(&r));
	EXPECT_EQ(0, htw_info(self->fd).expired);
	ring_unmap(&r);
}

HTW_TEST(records_in_order)
{
	struct htw_event ev[65];
	__u64 ids[64];
	int i;

	RING(r, 64);
	for (i = 0; i < 64; i++)
		ids[i] = htw_start_abs(self->fd, (64 - i) * self->tick, i);
	EXPECT_EQ(64, htw_advance(self->fd, 100 * self->tick, 0));
	EXPECT_EQ(64, ring_waiting(&r));
	EXPECT_FALSE(ring_overflows(&r));
	EXPECT_EQ(0, htw_info(self->fd).expired);
	EXPECT_EQ(0, htw_timers(self->fd));
	ASSERT_EQ(64, ring_take(&r, ev, 65));
	for (i = 0; i < 64; i++) {
		struct htw_cancel cancel = htw_cancel_of(ev[i].id, 0);

		EXPECT_EQ(63 - i, ev[i].cookie);
		EXPECT_EQ(ids[63 - i], ev[i].id);
		EXPECT_EQ((i + 1) * self->tick, ev[i].deadline);
		EXPECT_EQ(100 * self->tick, ev[i].fired);
		EXPECT_EQ(0, ev[i].missed);
		EXPECT_EQ(0, ev[i].flags);
		EXPECT_EQ(0, ev[i].reserved);
		/* An event in the ring counts as read. */
		EXPECT_EQ(-ENOENT, htw_call(self->fd, HTW_CANCEL, &cancel));
		EXPECT_TRUE(htw_cancel_untouched(&cancel));
		EXPECT_EQ(-ENOENT, htw_move(self->fd, ev[i].id, HOUR, 0));
		EXPECT_EQ(0, htw_query(self->fd, ev[i].id).state);
	}
	EXPECT_EQ(0, htw_poll(self->fd, 0));
}

HTW_TEST(goes_round_many_times)
{
	__u64 now = 0, cookie = 0;
	int i, n;

	RING(r, 8);
	for (i = 0; i < 500; i++) {
		n = 1 + i % 8;
		ASSERT_TRUE(start_ticks(self->fd, self->tick, now, n, cookie));
		now += 8 * self->tick;
		ASSERT_EQ(n, htw_advance(self->fd, now, HTW_F_ABS));
		ASSERT_TRUE(takes_just(&r, cookie, n));
		cookie += n;
	}
	EXPECT_EQ(cookie, ring_tail(&r));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(read_is_busy)
{
	struct htw_event ev[4];

	RING(r, 4);
	EXPECT_EQ(-EBUSY, htw_read(self->fd, ev, 4));
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 0, 6, 0));
	EXPECT_EQ(6, htw_advance(self->fd, 6 * self->tick, 0));
	EXPECT_EQ(-EBUSY, htw_read(self->fd, ev, 4));
	EXPECT_EQ(-EINVAL, syscall(SYS_read, self->fd, ev, 8) < 0 ? -errno : 0);
	ring_unmap(&r);

	/* Queued events can be read; those in the ring stay there. */
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	ASSERT_EQ(2, htw_read(self->fd, ev, 4));
	EXPECT_EQ(4, ev[0].cookie);
	EXPECT_EQ(5, ev[1].cookie);
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 4));
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 6 * self->tick, 3, 6));
	EXPECT_EQ(3, htw_advance(self->fd, 3 * self->tick, 0));
	ASSERT_EQ(3, htw_read(self->fd, ev, 4));

	ASSERT_TRUE(ring_map(&r, self->fd, 4));
	EXPECT_EQ(-EBUSY, htw_read(self->fd, ev, 4));
	EXPECT_EQ(4, ring_tail(&r));
	EXPECT_TRUE(takes_just(&r, 0, 4));
}

/* Events from before the mapping are queued, and the overflow flag is set. */
HTW_TEST(mapped_late)
{
	struct ring r;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .ring_entries = 4,
		.clock = HTW_CLOCK_MANUAL }));
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 0, 3, 0));
	EXPECT_EQ(3, htw_advance(self->fd, 3 * self->tick, 0));
	ASSERT_TRUE(ring_map(&r, self->fd, 4));
	EXPECT_TRUE(ring_overflows(&r));
	EXPECT_EQ(0, ring_waiting(&r));
	EXPECT_EQ(3, ring_flush(&r));
	EXPECT_FALSE(ring_overflows(&r));
	EXPECT_TRUE(takes_just(&r, 0, 3));
}

struct reader {
	pthread_t thread;
	pid_t tid;
	int fd;
	int result;
};

static void *blocking_read(void *arg)
{
	struct reader *reader = arg;
	struct htw_event ev;

	__atomic_store_n(&reader->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	reader->result = htw_read(reader->fd, &ev, 1);
	return NULL;
}

HTW_TEST(mapping_wakes_a_reader)
{
	struct reader reader = { .fd = htw_open(0) };
	struct ring r;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(reader.fd, (struct htw_setup){
		.flags = HTW_SETUP_RING, .ring_entries = 64 }));
	ASSERT_EQ(0, pthread_create(&reader.thread, NULL, blocking_read, &reader));
	ASSERT_TRUE(htw_eventually(__atomic_load_n(&reader.tid, __ATOMIC_ACQUIRE) &&
				   htw_sleeps_in(reader.tid, SYS_read, reader.fd)));
	ASSERT_TRUE(ring_map(&r, reader.fd, 64));
	pthread_join(reader.thread, NULL);
	EXPECT_EQ(-EBUSY, reader.result);
	close(reader.fd);
}

HTW_TEST(overflow_waits_in_the_queue)
{
	struct htw_cancel cancel;
	struct htw_event ev[8];
	__u64 ids[12];
	int i;

	RING(r, 4);
	for (i = 0; i < 12; i++)
		ids[i] = htw_start_abs(self->fd, (i + 1) * self->tick, i);
	EXPECT_EQ(12, htw_advance(self->fd, 12 * self->tick, 0));
	EXPECT_EQ(4, ring_waiting(&r));
	EXPECT_TRUE(ring_overflows(&r));
	EXPECT_EQ(8, htw_info(self->fd).expired);
	EXPECT_EQ(8, htw_timers(self->fd));
	EXPECT_EQ(0, ring_flush(&r));
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	EXPECT_EQ(8, htw_info(self->fd).expired);

	/* A timer queued behind the ring has expired and is unread. */
	EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, ids[5]).state);
	cancel = htw_cancel_of(ids[5], 0);
	EXPECT_EQ(-EALREADY, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(5, cancel.cookie);
	cancel = htw_cancel_of(ids[6], HTW_CANCEL_DISCARD);
	EXPECT_EQ(-EALREADY, htw_call(self->fd, HTW_CANCEL, &cancel));
	EXPECT_EQ(0, htw_move(self->fd, ids[8], 100 * self->tick, HTW_F_ABS));

	/* In order, as many as fit. */
	ASSERT_EQ(2, ring_take(&r, ev, 2));
	EXPECT_EQ(2, ring_flush(&r));
	EXPECT_TRUE(ring_overflows(&r));
	EXPECT_TRUE(takes_just(&r, 2, 4));
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	EXPECT_FALSE(ring_overflows(&r));
	ASSERT_EQ(4, ring_take(&r, ev, 8));
	EXPECT_EQ(7, ev[0].cookie);
	EXPECT_EQ(9, ev[1].cookie);
	EXPECT_EQ(10, ev[2].cookie);
	EXPECT_EQ(11, ev[3].cookie);
	EXPECT_EQ(0, htw_poll(self->fd, 0));
	EXPECT_EQ(0, ring_flush(&r));
	EXPECT_EQ(1, htw_advance(self->fd, 100 * self->tick, HTW_F_ABS));
	EXPECT_TRUE(takes_just(&r, 8, 1));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* An expiration moves queued events into the ring first, and keeps the order. */
HTW_TEST(next_expiry_moves_the_queue)
{
	struct htw_event ev[8];
	__u64 cookie = 0;
	int i, n;

	RING(r, 4);
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 0, 40, 0));
	EXPECT_EQ(10, htw_advance(self->fd, 10 * self->tick, 0));
	EXPECT_EQ(6, htw_info(self->fd).expired);
	for (i = 0; i < 30; i++) {
		ASSERT_LT(0, n = ring_take(&r, ev, 8));
		for (int k = 0; k < n; k++)
			EXPECT_EQ(cookie++, ev[k].cookie);
		ASSERT_EQ(1, htw_advance(self->fd, self->tick, 0));
	}
	/* The queue was emptied without a flush. */
	EXPECT_EQ(0, htw_info(self->fd).expired);
	EXPECT_FALSE(ring_overflows(&r));
	EXPECT_EQ(40, ring_tail(&r));
}

HTW_TEST(poll_agrees)
{
	int level, edge;

	RING(r, 2);
	level = htw_watch(self->fd, EPOLLIN);
	edge = htw_watch(self->fd, EPOLLIN | EPOLLET);
	ASSERT_TRUE(level >= 0 && edge >= 0);
	EXPECT_EQ(0, htw_poll(self->fd, 0) | htw_ready_now(level) | htw_ready_now(edge));
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 0, 5, 0));
	EXPECT_EQ(0, htw_poll(self->fd, 0) | htw_ready_now(level) | htw_ready_now(edge));

	/* Two expirations at once make one edge. */
	EXPECT_EQ(2, htw_advance(self->fd, 2 * self->tick, 0));
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	EXPECT_EQ(1, htw_ready_soon(level));
	EXPECT_EQ(1, htw_ready_soon(level));
	EXPECT_EQ(1, htw_ready_soon(edge));
	EXPECT_EQ(0, htw_ready_now(edge));
	/* Events queued behind a full ring make an edge, too. */
	EXPECT_EQ(3, htw_advance(self->fd, 3 * self->tick, 0));
	EXPECT_EQ(1, htw_ready_soon(edge));
	EXPECT_EQ(0, htw_ready_now(edge));
	EXPECT_EQ(2, ring_waiting(&r));
	EXPECT_TRUE(takes_just(&r, 0, 2));
	EXPECT_TRUE(ring_overflows(&r));
	EXPECT_EQ(1, htw_ready_soon(level));
	EXPECT_EQ(2, ring_waiting(&r));
	EXPECT_TRUE(takes_just(&r, 2, 2));
	EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
	EXPECT_TRUE(takes_just(&r, 4, 1));
	EXPECT_EQ(0, htw_poll(self->fd, 0) | htw_ready_now(level) | htw_ready_now(edge));
}

HTW_TEST(periodic_is_armed_again_at_once)
{
	struct htw_event ev[8];
	struct htw_add add;
	__u64 next = SEC;
	int i;

	RING(r, 4);
	add = htw_rel(SEC, 7);
	add.interval = SEC;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	/* Without a reader: one event for each firing. */
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
		EXPECT_EQ(HTW_STATE_PENDING, htw_query(self->fd, add.id).state);
		EXPECT_EQ((i + 2) * SEC, htw_query(self->fd, add.id).deadline);
	}
	/* The ring is full: one event is queued, and counts the firings after it. */
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(0, htw_advance(self->fd, 10 * SEC, 0));
	EXPECT_EQ(HTW_STATE_EXPIRED, htw_query(self->fd, add.id).state);
	EXPECT_EQ(10, htw_query(self->fd, add.id).missed);
	EXPECT_TRUE(ring_overflows(&r));
	ASSERT_EQ(4, ring_take(&r, ev, 8));
	EXPECT_EQ(1, ring_flush(&r));
	EXPECT_EQ(16 * SEC, htw_query(self->fd, add.id).deadline);
	ASSERT_EQ(1, ring_take(&r, ev + 4, 8));
	EXPECT_EQ(10, ev[4].missed);
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(next, ev[i].deadline);
		EXPECT_EQ(HTW_EVENT_MORE, ev[i].flags);
		next += SEC * (1 + ev[i].missed);
	}
	/* The clock leaps: one event with a count, in phase. */
	EXPECT_EQ(1, htw_advance(self->fd, 100 * SEC + SEC / 2, 0));
	ASSERT_EQ(1, ring_take(&r, ev, 8));
	EXPECT_EQ(16 * SEC, ev[0].deadline);
	EXPECT_EQ(99, ev[0].missed);
	EXPECT_EQ(116 * SEC, htw_query(self->fd, add.id).deadline);
	/* An event in the ring counts as read, so the timer is pending. */
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(0, htw_advance(self->fd, HOUR, 0));
	EXPECT_EQ(0, ring_waiting(&r));
	EXPECT_EQ(0, htw_timers(self->fd));
}

HTW_TEST(firings_end)
{
	struct htw_event ev[8];
	struct htw_add add;
	int i;

	RING(r, 8);
	NEEDS(HTW_FEATURE_FIRINGS);
	add = htw_rel(SEC, 7);
	add.interval = SEC;
	add.firings = 3;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 5; i++)
		EXPECT_EQ(i < 3, htw_advance(self->fd, SEC, 0));
	ASSERT_EQ(3, ring_take(&r, ev, 8));
	EXPECT_EQ(HTW_EVENT_MORE, ev[1].flags);
	EXPECT_EQ(0, ev[2].flags);
	EXPECT_EQ(0, htw_timers(self->fd));
	EXPECT_EQ(-ENOENT, htw_stop(self->fd, add.id));
}

HTW_TEST(kept_is_disarmed)
{
	struct htw_event ev[8];
	struct htw_add add;
	int i;

	RING(r, 8);
	add = htw_rel(SEC, 7);
	add.flags = HTW_F_KEEP;
	ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
		ASSERT_EQ(1, ring_take(&r, ev, 8));
		EXPECT_EQ(add.id, ev[0].id);
		EXPECT_EQ(HTW_EVENT_MORE, ev[0].flags);
		EXPECT_EQ(HTW_STATE_DISARMED, htw_query(self->fd, add.id).state);
		EXPECT_EQ(0, htw_advance(self->fd, SEC, 0));
		EXPECT_EQ(1, htw_timers(self->fd));
		ASSERT_EQ(0, htw_move(self->fd, add.id, SEC, 0));
	}
	EXPECT_EQ(1, htw_advance(self->fd, SEC, 0));
	EXPECT_EQ(0, htw_stop(self->fd, add.id));
	EXPECT_EQ(0, htw_timers(self->fd));
}

/*
 * With an impossible head the kernel continues from the last valid one: it
 * overwrites nothing and loses nothing.
 */
HTW_TEST(heads_that_cannot_be)
{
	const __u32 off[] = {
		1, 2, 3, 7, 8, 9, 100, 1U << 20, (1U << 31) - 1, 1U << 31, (1U << 31) + 1,
		-9U, -10U, -100U, -(1U << 20),
	};
	__u64 cookie = 0, now = 0;
	unsigned int i, n;

	RING(r, 8);
	for (i = 0; i < ARRAY_SIZE(off); i++) {
		__u32 head = r.page->head;

		ASSERT_TRUE(start_ticks(self->fd, self->tick, now, 11, cookie));
		for (n = 0; n < 11; n++) {
			r.page->head = ring_tail(&r) + off[i];
			now += self->tick;
			ASSERT_EQ(1, htw_advance(self->fd, now, HTW_F_ABS));
			r.page->head = ring_tail(&r) + off[i];
			EXPECT_EQ(n < 8 ? 0 : ring_flush(&r), 0);
			EXPECT_EQ(POLLIN, htw_poll(self->fd, 0));
		}
		EXPECT_EQ(3, htw_info(self->fd).expired);
		EXPECT_TRUE(ring_overflows(&r));
		r.page->head = head;
		ASSERT_TRUE(takes_just(&r, cookie, 8));
		EXPECT_EQ(3, ring_flush(&r));
		ASSERT_TRUE(takes_just(&r, cookie + 8, 3));
		EXPECT_FALSE(ring_overflows(&r));
		/* Make this head the last valid one. */
		EXPECT_EQ(0, ring_flush(&r));
		cookie += 11;
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* The kernel does not read the page's other fields, and rewrites them. */
HTW_TEST(scribbled_over)
{
	static const __u32 junk[] = { 0, 1, 7, 16, 1U << 31, ~0U };
	__u64 cookie = 0, now = 0;
	unsigned int i;

	RING(r, 8);
	for (i = 0; i < ARRAY_SIZE(junk); i++) {
		__u32 head = r.page->head;

		memset(r.page, 0xff, r.size);
		r.page->tail = junk[i];
		r.page->entries = junk[i];
		r.page->flags = junk[i];
		r.page->head = head;
		ASSERT_TRUE(start_ticks(self->fd, self->tick, now, 10, cookie));
		now += 10 * self->tick;
		EXPECT_EQ(10, htw_advance(self->fd, now, HTW_F_ABS));
		EXPECT_EQ(8, r.page->entries);
		EXPECT_EQ(HTW_RING_OVERFLOW, r.page->flags);
		EXPECT_TRUE(takes_just(&r, cookie, 8));
		EXPECT_EQ(2, ring_flush(&r));
		EXPECT_EQ(0, r.page->flags);
		EXPECT_TRUE(takes_just(&r, cookie + 8, 2));
		cookie += 10;
	}
}

/*
 * A head that is wrong but possible costs the program its own events, and
 * nothing else.
 */
HTW_TEST(heads_that_lie)
{
	__u64 seed = 7, now = 0;
	struct htw_event ev[16];
	int i;

	RING(r, 8);
	for (i = 0; i < 3000; i++) {
		r.page->head = ring_tail(&r) - xorshift64(&seed) % 9;
		ASSERT_TRUE(start_ticks(self->fd, self->tick, now, 3, i));
		now += 3 * self->tick;
		ASSERT_EQ(3, htw_advance(self->fd, now, HTW_F_ABS));
		EXPECT_GE(3 * (i + 1), htw_info(self->fd).expired);
	}
	do
		ring_take(&r, ev, 16);
	while (ring_flush(&r));
	EXPECT_EQ(0, htw_timers(self->fd));
	ASSERT_TRUE(start_ticks(self->fd, self->tick, now, 5, 99));
	EXPECT_EQ(5, htw_advance(self->fd, 5 * self->tick, 0));
	EXPECT_TRUE(takes_just(&r, 99, 5));
}

HTW_TEST(children_and_copies)
{
	struct htw_event ev[4];
	int copy;

	RING(r, 4);
	copy = dup(self->fd);
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 0, 4, 0));
	EXPECT_TRUE(htw_in_child(htw_advance(self->fd, 2 * self->tick, 0) == 2 &&
				 takes_just(&r, 0, 2)));
	EXPECT_EQ(2, r.page->head);
	EXPECT_EQ(2, htw_advance(copy, 2 * self->tick, 0));
	EXPECT_TRUE(takes_just(&r, 2, 2));
	EXPECT_EQ(-EBUSY, htw_read(copy, ev, 4));
	/* A child's mapping counts as well. */
	EXPECT_TRUE(htw_in_child(({
		ring_unmap(&r);
		htw_read(self->fd, ev, 4) == -EBUSY;
	})));
	ring_unmap(&r);
	EXPECT_EQ(-EAGAIN, htw_read(copy, ev, 4));
}

/* Split and moved: the ring is mapped while any part of it is left. */
HTW_TEST(pieces)
{
	struct htw_event ev[4];
	char *p, *moved;

	RING(r, 1024);
	p = (char *)r.page;
	ASSERT_EQ(0, munmap(p + PAGE, PAGE));
	EXPECT_EQ(-EBUSY, htw_read(self->fd, ev, 4));
	ASSERT_EQ(0, munmap(p + 2 * PAGE, r.size - 2 * PAGE));
	moved = mremap(p, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + 8 * PAGE);
	ASSERT_NE(MAP_FAILED, moved);
	EXPECT_EQ(-EBUSY, htw_read(self->fd, ev, 4));
	ASSERT_TRUE(start_ticks(self->fd, self->tick, 0, 1, 3));
	EXPECT_EQ(1, htw_advance(self->fd, self->tick, 0));
	r.page = (struct htw_ring *)moved;
	EXPECT_EQ(1, ring_waiting(&r));
	ASSERT_EQ(0, munmap(moved, PAGE));
	EXPECT_EQ(-EAGAIN, htw_read(self->fd, ev, 4));
}

/* The mapping holds the file, also after the descriptor is closed. */
HTW_TEST(closed_while_mapped)
{
	int fd = htw_open(O_NONBLOCK);
	struct htw_event ev;
	struct htw_add add;
	struct ring r;
	__u64 next = 0;
	int i;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, fd, 4, CLOCK_MONOTONIC));
	add = htw_rel(0, 7);
	add.interval = 2 * MSEC;
	ASSERT_EQ(0, htw_call(fd, HTW_ADD, &add));
	close(fd);
	for (i = 0; i < 20; i++) {
		ASSERT_TRUE(htw_eventually(ring_waiting(&r)));
		ASSERT_EQ(1, ring_take(&r, &ev, 1));
		EXPECT_NOT_EARLY(&ev);
		if (next)
			EXPECT_EQ(next, ev.deadline);
		next = ev.deadline + (1 + ev.missed) * add.interval;
		if (ring_overflows(&r))		/* without a descriptor nothing can flush */
			break;
	}
	ring_unmap(&r);
}

/* Timers of private and shared wheels, from both CPUs, each exactly once. */
enum { TORTURE = 40000 };

struct adder {
	pthread_t thread;
	int fd;
	int cpu;
	__u64 seed;
	bool failed;
};

static void *add_many(void *arg)
{
	struct adder *adder = arg;

	htw_pin(adder->cpu);
	for (int i = 0; i < TORTURE / 2; i++) {
		__u64 ns = xorshift64(&adder->seed) % (20 * MSEC);

		if (!htw_start(adder->fd, ns, adder->cpu * TORTURE / 2 + i))
			adder->failed = true;
	}
	return NULL;
}

static void torture(struct __test_metadata *_metadata, int fd, __u32 entries)
{
	static unsigned char seen[TORTURE];
	struct adder adders[2];
	struct htw_event ev[64];
	size_t got = 0, n, i;
	struct ring r;
	int epfd;

	memset(seen, 0, sizeof(seen));
	ASSERT_TRUE(ring_map(&r, fd, entries));
	epfd = htw_watch(fd, EPOLLIN | EPOLLET);
	for (i = 0; i < 2; i++) {
		adders[i] = (struct adder){
			.fd = fd, .cpu = i, .seed = i + 1,
		};
		ASSERT_EQ(0, pthread_create(&adders[i].thread, NULL, add_many, &adders[i]));
	}
	while (got < TORTURE) {
		struct epoll_event event;

		/*
		 * Read until both ring and queue are empty; then the next event
		 * makes an edge.
		 */
		while ((n = ring_take(&r, ev, 64)) || (ring_overflows(&r) && ring_flush(&r) > 0)) {
			for (i = 0; i < n; i++) {
				ASSERT_LE(ev[i].deadline, ev[i].fired);
				ASSERT_GT(TORTURE, ev[i].cookie);
				ASSERT_EQ(0, seen[ev[i].cookie]++);
			}
			got += n;
		}
		if (got < TORTURE)
			ASSERT_EQ(1, epoll_wait(epfd, &event, 1, EVENTUALLY / MSEC));
	}
	for (i = 0; i < 2; i++) {
		pthread_join(adders[i].thread, NULL);
		EXPECT_FALSE(adders[i].failed);
	}
	EXPECT_EQ(TORTURE, got);
	EXPECT_EQ(0, htw_timers(fd));
	ring_unmap(&r);
	close(epfd);
}

HTW_TEST(torture_shared_wheels)
{
	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING, .ring_entries = 1024 }));
	torture(_metadata, self->fd, 1024);
}

HTW_TEST(torture_a_small_ring)
{
	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING, .ring_entries = 4 }));
	torture(_metadata, self->fd, 4);
}

HTW_TEST(torture_a_private_wheel)
{
	NEEDS(HTW_FEATURE_RING);
	ASSERT_EQ(0, htw_set_up(self->fd, (struct htw_setup){
		.flags = HTW_SETUP_RING | HTW_SETUP_PRIVATE, .ring_entries = 64,
		.tick_ns = 200 * USEC, .levels = 2, .slots = { 60, 60 } }));
	torture(_metadata, self->fd, 64);
}

static void *add_waves(void *arg)
{
	struct adder *adder = arg;

	htw_pin(adder->cpu);
	for (int i = 0; i < TORTURE; i += BATCH) {
		__u64 left = TORTURE - i < BATCH ? TORTURE - i : BATCH;

		if (htw_start_many(adder->fd, now_ns() + MSEC, i, left, NULL) != left)
			adder->failed = true;
	}
	return NULL;
}

/* Without a system call: all events below the tail are valid. */
HTW_TEST(reader_that_only_looks)
{
	struct adder adder = { .fd = self->fd };
	struct htw_event ev[64];
	size_t got = 0, n, i;
	struct ring r;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, 1 << 16, CLOCK_MONOTONIC));
	ASSERT_EQ(0, pthread_create(&adder.thread, NULL, add_waves, &adder));
	htw_pin(htw_other_cpu());
	while (got < TORTURE) {
		/* Check the event at the tail first: it was written last. */
		const __u32 tail = ring_tail(&r);
		const __u64 id = __atomic_load_n(&r.events[(tail - 1) % r.entries].id,
						 __ATOMIC_RELAXED);

		if (tail)
			ASSERT_NE(0, id);
		n = ring_take(&r, ev, 64);
		for (i = 0; i < n; i++) {
			ASSERT_EQ(got + i, ev[i].cookie);
			ASSERT_NE(0, ev[i].id);
			ASSERT_LE(ev[i].deadline, ev[i].fired);
			ASSERT_NE(0, ev[i].deadline);
		}
		got += n;
	}
	pthread_join(adder.thread, NULL);
	EXPECT_FALSE(adder.failed);
	EXPECT_EQ(0, htw_timers(self->fd));
}

/* Periodic timers, cancelled and moved while another CPU pushes their events. */
HTW_TEST(cancel_against_push)
{
	struct htw_event ev[64];
	__u64 gone[64] = { 0 }, id;
	unsigned int i, k, n, round;
	struct ring r;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, 64, CLOCK_MONOTONIC));
	for (round = 0; round < 300; round++) {
		struct htw_add add = htw_rel(MSEC, round);

		add.interval = MSEC;
		htw_pin(0);
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		id = add.id;
		htw_pin(htw_other_cpu());
		sleep_until(now_ns() + MSEC + round % 10 * 100 * USEC);
		if (round % 3 == 0)
			ASSERT_EQ(0, htw_move(self->fd, id, round % 7 * 100 * USEC, 0));
		n = htw_stop(self->fd, id);
		ASSERT_TRUE(n == 0 || n == (unsigned int)-EALREADY);
		EXPECT_EQ(-ENOENT, htw_move(self->fd, id, 0, 0));
		/* New events of this timer can only be one that was queued. */
		while ((k = ring_take(&r, ev, 64))) {
			for (i = 0; i < k; i++) {
				for (unsigned int g = 0; g < 64; g++)
					EXPECT_NE(gone[g], ev[i].id);
			}
		}
		if (!n && !ring_overflows(&r))
			gone[round % 64] = id;
	}
	EXPECT_EQ(0, htw_timers(self->fd) - htw_info(self->fd).expired);
}

static bool stop_scribbling;

static void *scribble(void *arg)
{
	struct ring *r = arg;
	__u64 seed = 99;

	htw_pin(htw_other_cpu());
	while (!__atomic_load_n(&stop_scribbling, __ATOMIC_RELAXED)) {
		__u32 *word = (__u32 *)r->page + xorshift64(&seed) % (r->size / 4);

		__atomic_store_n(word, xorshift64(&seed), __ATOMIC_RELAXED);
		__atomic_store_n(&r->page->head, r->page->tail - xorshift64(&seed) % 80,
				 __ATOMIC_RELAXED);
		__atomic_store_n(&r->page->tail, xorshift64(&seed), __ATOMIC_RELAXED);
		__atomic_store_n(&r->page->entries, xorshift64(&seed), __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Another thread keeps overwriting the shared page. */
HTW_TEST(hostile_writer)
{
	__u64 end = now_ns() + 3 * SEC;
	struct htw_event ev;
	pthread_t thread;
	struct ring r;
	int other;

	NEEDS(HTW_FEATURE_RING);
	ASSERT_TRUE(ring_open(&r, self->fd, 64, CLOCK_MONOTONIC));
	ASSERT_EQ(0, pthread_create(&thread, NULL, scribble, &r));
	for (int i = 0; now_ns() < end; i++) {
		struct htw_add add = htw_rel(i % 5 * 500 * USEC, i);

		if (i % 16 == 0) {
			add.interval = 5 * MSEC;
			add.firings = 3;
		}
		ASSERT_EQ(0, htw_call(self->fd, HTW_ADD, &add));
		htw_poll(self->fd, 0);
		if (i % 8 == 0)
			ring_flush(&r);
	}
	__atomic_store_n(&stop_scribbling, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	/* The kernel's own state is intact: each timer ends. */
	EXPECT_TRUE(htw_eventually(({
		r.page->head = r.page->tail;
		ring_flush(&r);
		htw_timers(self->fd) == 0;
	})));
	/* Other descriptors are not affected. */
	other = htw_open(O_NONBLOCK);
	ASSERT_NE(0, htw_start(other, 0, 5));
	ASSERT_EQ(1, htw_collect(other, &ev, 1));
	EXPECT_EQ(5, ev.cookie);
	close(other);
}

TEST_HARNESS_MAIN
