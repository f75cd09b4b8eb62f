// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: the ring of events, as a program sees it
 *
 * The cases write to the ring's header as a program does, and set the kernel's own indices where
 * a program would need 2^32 events to get there. Most use a manual clock; on SMP, threads run
 * against each other in real time.
 */
#include <kunit/test.h>
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/prandom.h>

#include "../core/table_enable.h"
#include "htw_kunit.h"

#define RING			8u

KUNIT_DEFINE_ACTION_WRAPPER(unmap_ring, htw_reader_unmap_ring, struct htw_context *);

/* A context with a mapped ring. */
static struct htw_context *ring_context(struct kunit *test, u32 entries, s32 clock)
{
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_setup setup = {
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK,
		.clock = clock,
		.ring_entries = entries,
	};

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	htw_reader_map_ring(ctx);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unmap_ring, ctx), 0);
	return ctx;
}

static struct htw_context *manual_ring(struct kunit *test)
{
	return ring_context(test, RING, HTW_CLOCK_MANUAL);
}

static u32 waiting(const struct htw_context *ctx)
{
	/* As in a program: read the tail before the events. */
	return smp_load_acquire(&ctx->ring->header->tail) - ctx->ring->header->head;
}

static struct htw_event *event_at(const struct htw_context *ctx, u32 nth)
{
	return &ctx->ring->events[(ctx->ring->header->head + nth) & (ctx->ring->entries - 1)];
}

/* Consume @count events, as a program does. */
static void use(struct htw_context *ctx, u32 count)
{
	/* As in a program: the events have been read. */
	smp_store_release(&ctx->ring->header->head, ctx->ring->header->head + count);
}

/* Let @count timers with the cookies @first, ... expire, a tick apart. */
static void expire(struct kunit *test, struct htw_context *ctx, u32 count, u64 first)
{
	const u64 now = htw_context_now(ctx);

	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, now + (i + 1) * htw_tick_ns, first + i);
	KUNIT_ASSERT_EQ(test, htw_advance_context(ctx, now + count * htw_tick_ns), count);
}

static void expect_cookies(struct kunit *test, struct htw_context *ctx, u64 first, u32 count)
{
	KUNIT_EXPECT_EQ(test, waiting(ctx), count);
	for (u32 i = 0; i < count; i++)
		KUNIT_EXPECT_EQ(test, event_at(ctx, i)->cookie, first + i);
	use(ctx, count);
}

/* @good: the last valid head; @head: what the program stored now */
struct room_param {
	const char *name;
	u32 tail;
	u32 good;
	u32 head;
	u32 room;
};

static const struct room_param room_params[] = {
	{ "empty", 0, 0, 0, 8 },
	{ "full", 8, 0, 0, 0 },
	{ "all used", 8, 0, 8, 8 },
	{ "some used", 8, 0, 3, 3 },
	{ "ahead by one", 8, 0, 9, 0 },
	{ "ahead by one, room before", 8, 5, 9, 5 },
	{ "ahead by much", 8, 5, 1u << 31, 5 },
	{ "behind by one too much", 9, 5, 0, 4 },
	{ "behind by much", 8, 5, 8 - (1u << 31), 5 },
	{ "backwards, and possible", 9, 5, 2, 1 },
	{ "backwards, until it is full", 8, 1, 0, 0 },
	{ "across the wrap", 2, -2u, -2u, 4 },
	{ "across the wrap, all used", 2, -2u, 2, 8 },
	{ "across the wrap, ahead", 2, -2u, 3, 4 },
	{ "across the wrap, behind", 2, -2u, -7u, 4 },
	{ "before the wrap, ahead of it", -1u, -3u, 0, 6 },
};

static void room_desc(const struct room_param *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(room, room_params, room_desc);

static void room_ignores_invalid_heads(struct kunit *test)
{
	const struct room_param *p = test->param_value;
	struct htw_ring page = { .head = p->head };
	struct htw_event_ring ring = {
		.header = &page, .entries = RING, .tail = p->tail, .head = p->good,
	};

	KUNIT_EXPECT_EQ(test, htw_ring_room(&ring), p->room);
	page.head = p->tail;
	KUNIT_EXPECT_EQ(test, htw_ring_room(&ring), RING);
}

static void sizes(struct kunit *test)
{
	static const u32 bad[] = { 3, 6, 1000 }, beyond[] = { 0, BIT(20) + 1, BIT(21), U32_MAX };

	for (u32 shift = 0; shift <= 20; shift++)
		KUNIT_EXPECT_EQ(test, htw_ring_check(BIT(shift)), 0);
	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ(test, htw_ring_check(bad[i]), -EINVAL);
	for (u32 i = 0; i < ARRAY_SIZE(beyond); i++)
		KUNIT_EXPECT_EQ(test, htw_ring_check(beyond[i]), -ERANGE);
}

static void numbers_wrap(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);
	struct htw_event_ring *ring = ctx->ring;
	u64 cookie = 0;

	ring->tail = -20u;
	ring->head = -20u;
	ring->header->head = -20u;
	htw_reader_flush(ctx);
	for (u32 i = 0; i < 20; i++) {
		expire(test, ctx, i % 9, cookie);
		expect_cookies(test, ctx, cookie, i % 9);
		cookie += i % 9;
	}
	/* Also with events that do not fit, across the wrap. */
	ring->tail = -3u;
	ring->head = -3u;
	ring->header->head = -3u;
	expire(test, ctx, RING + 5, 100);
	KUNIT_EXPECT_EQ(test, ring->header->flags, HTW_RING_OVERFLOW);
	expect_cookies(test, ctx, 100, RING);
	KUNIT_EXPECT_EQ(test, htw_reader_flush(ctx), 5);
	KUNIT_EXPECT_EQ(test, ring->header->flags, 0);
	expect_cookies(test, ctx, 100 + RING, 5);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
}

static void pushed_is_freed(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);
	const u64 id = htw_test_start(test, ctx, htw_tick_ns, 1);
	struct htw_cancel cancel = { .id = id };

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, htw_tick_ns), 1);
	KUNIT_EXPECT_EQ(test, event_at(ctx, 0)->id, id);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	KUNIT_EXPECT_FALSE(test, htw_timer_is_live(htw_test_slot(ctx, id)));
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -ENOENT);
	/* The next timer has the slot, with another id. */
	KUNIT_EXPECT_EQ(test, HTW_ID_SLOT(htw_test_start(test, ctx, U64_MAX, 2)),
			HTW_ID_SLOT(id));
}

/* A slot whose generations have run out is retired; the event of its timer is delivered. */
static void slot_that_ran_out(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);

	for (u32 i = 0; i < 3; i++) {
		const u64 id = htw_test_start(test, ctx, htw_tick_ns, i);

		if (i == 1)
			htw_test_slot(ctx, id)->generation = U32_MAX;
	}
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, htw_tick_ns), 3);
	expect_cookies(test, ctx, 0, 3);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(ctx), HTW_PAGE_TIMERS - 1);
	KUNIT_EXPECT_EQ(test, ctx->private_base->wheel.pending, 0);
}

/* Whatever was in the memory: events go there directly, and by way of the queue. */
static void events_have_no_remains(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);

	memset(ctx->ring->events, 0xff, RING * sizeof(*ctx->ring->events));
	expire(test, ctx, RING + 1, 0);
	for (u32 i = 0; i < RING; i++) {
		KUNIT_EXPECT_EQ(test, event_at(ctx, i)->flags, 0);
		KUNIT_EXPECT_EQ(test, event_at(ctx, i)->reserved, 0);
	}
	use(ctx, RING);
	memset(ctx->ring->events, 0xff, RING * sizeof(*ctx->ring->events));
	KUNIT_EXPECT_EQ(test, htw_reader_flush(ctx), 1);
	KUNIT_EXPECT_EQ(test, event_at(ctx, 0)->flags, 0);
	KUNIT_EXPECT_EQ(test, event_at(ctx, 0)->reserved, 0);
}

/* Plain, periodic and kept timers that expire together are each treated as they should. */
static void mixed(struct kunit *test)
{
	struct htw_context *ctx = ring_context(test, 64, HTW_CLOCK_MANUAL);

	for (u32 i = 0; i < 60; i++) {
		const struct htw_add add = {
			.deadline = htw_tick_ns,
			.interval = i % 3 == 1 ? 10 * htw_tick_ns : 0,
			.flags = i % 3 == 2 ? HTW_F_KEEP : 0,
			.cookie = i,
		};

		KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	}
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, htw_tick_ns), 60);
	for (u32 i = 0; i < 60; i++)
		KUNIT_EXPECT_EQ(test, event_at(ctx, i)->flags, i % 3 ? HTW_EVENT_MORE : 0);
	expect_cookies(test, ctx, 0, 60);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 40);
	KUNIT_EXPECT_EQ(test, ctx->private_base->wheel.pending, 20);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 20 * htw_tick_ns), 20);
	KUNIT_EXPECT_EQ(test, event_at(ctx, 7)->cookie, 22);
	KUNIT_EXPECT_EQ(test, event_at(ctx, 7)->deadline, 11 * htw_tick_ns);
}

/* An expiration that finds events queued moves two of them, and never overtakes any. */
static void expiry_moves_two(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);

	expire(test, ctx, RING + 6, 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 6);
	expect_cookies(test, ctx, 0, RING);
	for (u32 i = 0; i < 5; i++) {
		expire(test, ctx, 1, RING + 6 + i);
		KUNIT_EXPECT_EQ(test, ctx->nr_expired, 5 - i);
		expect_cookies(test, ctx, RING + 2 * i, 2);
	}
	/* Once the queue is empty, expirations go straight to the ring again. */
	expire(test, ctx, 3, RING + 11);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	expect_cookies(test, ctx, RING + 10, 4);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* Timers of several contexts in a turn: each event goes where its context has it. */
static void each_context_has_its_own_ring(struct kunit *test)
{
	struct htw_context *ctx[6];
	u64 tick;

	for (u32 i = 0; i < ARRAY_SIZE(ctx); i++)
		ctx[i] = i % 3 == 1 ? ring_context(test, RING, CLOCK_MONOTONIC) :
				      htw_test_context(test);
	tick = htw_test_tick_up(htw_now() + 10 * NSEC_PER_MSEC);
	for (u32 i = 0; i < ARRAY_SIZE(ctx); i++)
		htw_test_start(test, ctx[i], tick, i);
	htw_test_sleep_until(test, tick + NSEC_PER_MSEC);
	for (u32 i = 0; i < ARRAY_SIZE(ctx); i++) {
		KUNIT_EXPECT_EQ(test, ctx[i]->nr_expired, i % 3 != 1);
		if (i % 3 == 1)
			expect_cookies(test, ctx[i], i, 1);
	}
}

/* Moving an event counts as much in a turn as delivering one. */
static void moved_events_take_of_a_turn(struct kunit *test)
{
	const u32 entries = 1024, queued = 300, more = 200;
	struct htw_context *ctx = ring_context(test, entries, CLOCK_MONOTONIC);
	struct htw_base *base;
	u64 tick, pending;

	for (u32 i = 0; i < entries + queued; i++)
		htw_test_start(test, ctx, 0, i);
	htw_test_wait(test, ctx, queued);
	use(ctx, entries);
	tick = htw_test_tick_up(htw_now() + 10 * NSEC_PER_MSEC);
	for (u32 i = 0; i < more; i++)
		htw_test_start(test, ctx, tick, i);
	base = htw_test_base(0);
	local_bh_disable();
	pending = base->wheel.pending;
	KUNIT_EXPECT_EQ(test, htw_test_turn(base, tick), HTW_SERVED_MORE);
	pending -= base->wheel.pending;
	local_bh_enable();
	KUNIT_EXPECT_GT(test, pending, 0);
	KUNIT_EXPECT_LE(test, pending, DIV_ROUND_UP(HTW_TURN_UNITS, 3));
}
#endif

/* Periodic ones are started again. */
static void expiry_moves_periodic_ones(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);
	const struct htw_add add = {
		.deadline = htw_tick_ns, .interval = 100 * htw_tick_ns, .cookie = RING,
	};
	struct htw_query query = {};

	expire(test, ctx, RING, 0);
	query.id = htw_test_add(ctx, &add);
	KUNIT_ASSERT_NE(test, query.id, 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, (RING + 1) * (u64)htw_tick_ns), 1);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 1);
	expect_cookies(test, ctx, 0, RING);
	expire(test, ctx, 1, RING + 1);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	expect_cookies(test, ctx, RING, 2);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, query.deadline, (RING + 101) * (u64)htw_tick_ns);
	KUNIT_EXPECT_EQ(test, ctx->private_base->wheel.pending, 1);
}

/* More of them than are started in one section, and in their order. */
static void flush_starts_periodic_ones_again(struct kunit *test)
{
	const u32 count = 2 * HTW_PAGE_TIMERS;
	struct htw_context *ctx = ring_context(test, roundup_pow_of_two(count), HTW_CLOCK_MANUAL);
	struct htw_add add = { .deadline = htw_tick_ns, .interval = 100 * htw_tick_ns };

	htw_reader_unmap_ring(ctx);
	for (add.cookie = 0; add.cookie < count; add.cookie++)
		KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, htw_tick_ns), count);
	htw_reader_map_ring(ctx);
	KUNIT_EXPECT_EQ(test, htw_reader_flush(ctx), count);
	expect_cookies(test, ctx, 0, count);
	KUNIT_EXPECT_TRUE(test, list_empty(&ctx->rearm));
	KUNIT_EXPECT_EQ(test, ctx->private_base->wheel.pending, count);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 101 * (u64)htw_tick_ns), count);
	expect_cookies(test, ctx, 0, count);
}

/* With a table of deadlines a timer stays, though its event goes straight to the ring. */
static void table_keeps_timers(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);

	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	expire(test, ctx, 2, 0);
	for (u32 i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, event_at(ctx, i)->flags, HTW_EVENT_MORE);
	expect_cookies(test, ctx, 0, 2);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 2);
}

/* A flush is bounded, however many events are queued and however fast they are consumed. */
static void flush_is_bounded(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);
	u32 moved = 0;

	expire(test, ctx, 10 * RING, 0);
	while (ctx->nr_expired) {
		int n;

		use(ctx, waiting(ctx));
		n = htw_reader_flush(ctx);
		KUNIT_ASSERT_EQ(test, n, RING);
		moved += n;
	}
	KUNIT_EXPECT_EQ(test, moved, 9 * RING);
}

/* poll() moves some, as the task may wait for many descriptors. */
static void poll_is_bounded(struct kunit *test)
{
	const u32 entries = 1024, most = 512;
	struct htw_context *ctx = ring_context(test, entries, HTW_CLOCK_MANUAL);

	expire(test, ctx, entries + most + 10, 0);
	KUNIT_EXPECT_TRUE(test, htw_reader_is_readable(ctx));
	KUNIT_EXPECT_EQ(test, waiting(ctx), entries);
	use(ctx, entries);
	KUNIT_EXPECT_TRUE(test, htw_reader_is_readable(ctx));
	KUNIT_EXPECT_EQ(test, waiting(ctx), most);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 10);
}

static void unmapped_ring_takes_nothing(struct kunit *test)
{
	struct htw_context *ctx = manual_ring(test);
	struct htw_event events[4];

	expire(test, ctx, 2, 0);
	htw_reader_unmap_ring(ctx);
	expire(test, ctx, 2, 2);
	KUNIT_EXPECT_EQ(test, waiting(ctx), 2);
	KUNIT_EXPECT_EQ(test, htw_reader_flush(ctx), -ENXIO);
	KUNIT_EXPECT_EQ(test, htw_test_read(ctx, events, 4), 2);
	expire(test, ctx, 2, 4);
	htw_reader_map_ring(ctx);
	KUNIT_EXPECT_EQ(test, ctx->ring->header->flags, HTW_RING_OVERFLOW);
	expect_cookies(test, ctx, 0, 2);
	KUNIT_EXPECT_TRUE(test, htw_reader_is_readable(ctx));
	expect_cookies(test, ctx, 4, 2);
	KUNIT_EXPECT_FALSE(test, htw_reader_is_readable(ctx));
}

static bool tail_is_at(const struct htw_context *ctx, u32 tail)
{
	return (s32)(READ_ONCE(ctx->ring->header->tail) - tail) >= 0;
}

/* In real time: an event for each firing, in phase, until the ring is full. */
static void periodic_by_callback(struct kunit *test)
{
	struct htw_context *ctx = ring_context(test, 64, CLOCK_MONOTONIC);
	const struct htw_add add = {
		.deadline = 5 * NSEC_PER_MSEC,
		.interval = 5 * NSEC_PER_MSEC,
		.cookie = 1,
	};
	u64 next = 0;

	KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	KUNIT_ASSERT_NE(test, wait_event_timeout(ctx->wait, tail_is_at(ctx, 64), 100 * HZ), 0);
	for (u32 i = 0; i < 64; i++) {
		const struct htw_event *ev = event_at(ctx, i);

		KUNIT_EXPECT_GE(test, ev->fired, ev->deadline);
		KUNIT_EXPECT_EQ(test, ev->flags, HTW_EVENT_MORE);
		if (next)
			KUNIT_EXPECT_EQ(test, ev->deadline, next);
		next = ev->deadline + (1 + ev->missed) * add.interval;
	}
	htw_test_wait(test, ctx, 1);
	msleep(30);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 1);
	KUNIT_EXPECT_EQ(test, htw_test_pending(raw_smp_processor_id()), 0);
	use(ctx, 64);
	KUNIT_EXPECT_EQ(test, htw_reader_flush(ctx), 1);
	KUNIT_EXPECT_EQ(test, event_at(ctx, 0)->deadline, next);
	KUNIT_EXPECT_GE(test, event_at(ctx, 0)->missed, 4);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 1);
}

#ifdef CONFIG_SMP
#define MEET_ADDERS		3u

struct meeting {
	struct htw_context *ctx;
	atomic_t next;
	u32 count;
	u8 *ends;
	atomic_t failed;
};

/* Add timers with unique cookies, and cancel some of them. */
static int meet_add(void *arg)
{
	struct meeting *m = arg;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, (unsigned long)current);
	for (;;) {
		const u32 cookie = atomic_inc_return(&m->next) - 1;
		const struct htw_add add = {
			.deadline = prandom_u32_state(&rnd) % (3 * NSEC_PER_MSEC),
			.cookie = cookie,
		};
		struct htw_cancel cancel = {};

		if (cookie >= m->count)
			break;
		cancel.id = htw_test_add(m->ctx, &add);
		if (!cancel.id)
			atomic_inc(&m->failed);
		if (cookie % 4)
			continue;
		udelay(cookie / 4 % 32);
		cancel.flags = cookie % 8 ? 0 : HTW_CANCEL_DISCARD;
		switch (htw_test_cancel(m->ctx, &cancel)) {
		case 0:
			m->ends[cookie]++;
			break;
		case -EALREADY:
			m->ends[cookie] += cookie % 8 == 0;
			break;
		}
	}
	while (!kthread_should_stop())
		usleep_range(1000, 2000);
	return 0;
}

/* Overwrite all of the header but the head. */
static int meet_scribble(void *arg)
{
	struct meeting *m = arg;
	struct htw_ring *page = m->ctx->ring->header;

	while (!kthread_should_stop()) {
		WRITE_ONCE(page->entries, U32_MAX);
		WRITE_ONCE(page->reserved0[0], U32_MAX);
		usleep_range(50, 100);
	}
	return 0;
}

static u32 all_ends(const struct meeting *m)
{
	u32 ends = 0;

	for (u32 i = 0; i < m->count; i++)
		ends += READ_ONCE(m->ends[i]);
	return ends;
}

static void each_ends_once(struct kunit *test)
{
	struct meeting m = { .count = HTW_TEST_MANY / 4 };
	struct task_struct *threads[MEET_ADDERS + 1];
	unsigned long end;

	m.ctx = ring_context(test, 32, CLOCK_MONOTONIC);
	m.ends = kunit_kzalloc(test, m.count, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m.ends);
	for (u32 i = 0; i <= MEET_ADDERS; i++) {
		threads[i] = kthread_run(i < MEET_ADDERS ? meet_add : meet_scribble, &m,
					 "htw_meet/%u", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(threads[i]));
	}
	for (end = jiffies + 100 * HZ; time_before(jiffies, end);) {
		u32 n = waiting(m.ctx);

		KUNIT_EXPECT_LE(test, n, 32);
		for (u32 i = 0; i < n; i++)
			m.ends[event_at(m.ctx, i)->cookie]++;
		use(m.ctx, n);
		if (!htw_reader_is_readable(m.ctx) && atomic_read(&m.next) >= m.count &&
		    !htw_test_nr_timers(m.ctx) && all_ends(&m) >= m.count)
			break;
		cond_resched();
	}
	for (u32 i = 0; i <= MEET_ADDERS; i++)
		kthread_stop(threads[i]);
	KUNIT_EXPECT_EQ(test, atomic_read(&m.failed), 0);
	for (u32 i = 0; i < m.count; i++)
		KUNIT_EXPECT_EQ_MSG(test, m.ends[i], 1, "cookie %u", i);
	htw_test_expect_empty(test);
}
#endif

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
struct eager_program {
	struct tasklet_struct tasklet;
	struct htw_context *ctx;
};

static void read_all(struct tasklet_struct *tasklet)
{
	struct eager_program *program = from_tasklet(program, tasklet, tasklet);

	use(program->ctx, waiting(program->ctx));
}

/* As if the program read on another CPU: a softirq comes when the call drops a lock. */
static void flush_ends_though_the_program_reads(struct kunit *test)
{
	struct eager_program program = { .ctx = manual_ring(test) };

	expire(test, program.ctx, 4 * RING, 0);
	expect_cookies(test, program.ctx, 0, RING);
	tasklet_setup(&program.tasklet, read_all);
	tasklet_schedule(&program.tasklet);
	KUNIT_EXPECT_EQ(test, htw_reader_flush(program.ctx), RING);
	KUNIT_EXPECT_EQ(test, waiting(program.ctx), 0);
	KUNIT_EXPECT_EQ(test, program.ctx->nr_expired, 2 * RING);
}
#endif

static struct kunit_case htw_ring_cases[] = {
	KUNIT_CASE_PARAM(room_ignores_invalid_heads, room_gen_params),
	KUNIT_CASE(sizes),
	KUNIT_CASE(numbers_wrap),
	KUNIT_CASE(pushed_is_freed),
	KUNIT_CASE(slot_that_ran_out),
	KUNIT_CASE(events_have_no_remains),
	KUNIT_CASE(mixed),
	KUNIT_CASE(expiry_moves_two),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(each_context_has_its_own_ring),
	KUNIT_CASE(moved_events_take_of_a_turn),
#endif
	KUNIT_CASE(expiry_moves_periodic_ones),
	KUNIT_CASE(flush_starts_periodic_ones_again),
	KUNIT_CASE(table_keeps_timers),
	KUNIT_CASE(flush_is_bounded),
	KUNIT_CASE(poll_is_bounded),
	KUNIT_CASE(unmapped_ring_takes_nothing),
	KUNIT_CASE(periodic_by_callback),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(flush_ends_though_the_program_reads),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE_SLOW(each_ends_once),
#endif
	{}
};

static struct kunit_suite htw_ring_suite = {
	.name = "htw_ring",
	.init = htw_test_init,
	.test_cases = htw_ring_cases,
};

kunit_test_suite(htw_ring_suite);

MODULE_DESCRIPTION("KUnit: the ring of expirations");
MODULE_LICENSE("GPL");
