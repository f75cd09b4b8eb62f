// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: the table of deadlines
 *
 * The cases store overrides as a program does, without a lock or a call. Most use a manual
 * clock, so that they know which deadlines have come when the kernel reads them. With time
 * travel the pacing is exact as well. On SMP, a thread stores while timers expire.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/prandom.h>

#include "../core/table_enable.h"
#include "htw_kunit.h"

#define TICK			((u64)htw_tick_ns)

static struct htw_context *table_context(struct kunit *test, s32 clock)
{
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = clock };

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	return ctx;
}

static u64 *override_of(struct htw_context *ctx, u64 id)
{
	const struct htw_timer *t = htw_test_slot(ctx, id);

	return &htw_timer_page(t)->table[htw_timer_index(t)];
}

static int move(struct htw_context *ctx, u64 id, u64 deadline)
{
	const struct htw_mod mod = {
		.id = id, .deadline = deadline, .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
	};

	return htw_test_mod(ctx, &mod);
}

static u16 state(struct htw_context *ctx, u64 id)
{
	struct htw_query query = { .id = id };

	return htw_test_query(ctx, &query) ? 0 : query.state;
}

/*
 * A timer armed for tick 10, with an override: at tick @at, the deadline that has expired or
 * zero, and the timer's state
 */
struct override_param {
	const char *name;
	u64 override;
	u64 at;
	u64 expired;
	u16 state;
};

#define PENDING			HTW_STATE_PENDING
#define DISARMED		HTW_STATE_DISARMED

static const struct override_param override_params[] = {
	{ "as armed, before", 0, 9, 0, PENDING },
	{ "as armed", 0, 10, 10, DISARMED },
	{ "earlier, before the old one", 5, 9, 0, PENDING },
	{ "earlier, at the old one", 5, 10, 10, DISARMED },
	{ "equal", 10, 10, 10, DISARMED },
	{ "later, at the old one", 20, 10, 0, PENDING },
	{ "later, just before", 20, 19, 0, PENDING },
	{ "later, come too", 20, 20, 20, DISARMED },
	{ "later, long past", 20, 1000, 20, DISARMED },
	{ "far", 1ULL << 40, 10, 0, PENDING },
	{ "disarmed, before", HTW_DISARMED, 9, 0, DISARMED },
	{ "disarmed", HTW_DISARMED, 10, 0, DISARMED },
	{ "disarmed, long past", HTW_DISARMED, 1000, 0, DISARMED },
};

static void override_desc(const struct override_param *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(override, override_params, override_desc);

static void override_decides(struct kunit *test)
{
	const struct override_param *p = test->param_value;
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	const u64 id = htw_test_start(test, ctx, 10 * TICK, 1);
	struct htw_event event = {};

	KUNIT_EXPECT_EQ(test, *override_of(ctx, id), 0);
	*override_of(ctx, id) = p->override == HTW_DISARMED ? p->override : p->override * TICK;
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, p->at * TICK), p->expired != 0);
	KUNIT_EXPECT_EQ(test, htw_test_read(ctx, &event, 1), p->expired != 0);
	KUNIT_EXPECT_EQ(test, event.deadline, p->expired * TICK);
	KUNIT_EXPECT_EQ(test, state(ctx, id), p->state);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 1);
	/* No further event comes, unless the timer is pending. */
	if (p->state == PENDING)
		return;
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 5000 * TICK), 0);
	KUNIT_EXPECT_EQ(test, move(ctx, id, 5001 * TICK), 0);
	KUNIT_EXPECT_EQ(test, *override_of(ctx, id), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 5001 * TICK), 1);
}

/* HTW_MOD of a pending timer clears its override. */
static void mod_clears_the_override(struct kunit *test)
{
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	const u64 id = htw_test_start(test, ctx, 10 * TICK, 1);

	*override_of(ctx, id) = 5000 * TICK;
	KUNIT_EXPECT_EQ(test, move(ctx, id, 20 * TICK), 0);
	KUNIT_EXPECT_EQ(test, *override_of(ctx, id), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 19 * TICK), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 20 * TICK), 1);
}

/*
 * HTW_MOD_UNREAD disarms a timer in any state, if its override says so: a periodic one that is
 * pending, or has expired again, and a one-shot timer.
 */
static void taken_back_is_disarmed(struct kunit *test)
{
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_mod unread = { .firings = 1, .flags = HTW_MOD_UNREAD };
	struct htw_add add = {};
	struct htw_event event;
	u64 now = 0;

	for (u32 i = 0; i < 3; i++) {
		add.interval = i < 2 ? 10 * TICK : 0;
		unread.id = htw_test_add(ctx, &add);
		KUNIT_ASSERT_NE(test, unread.id, 0);
		KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
		unread.deadline = event.deadline;
		now += 10 * TICK;
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, i % 2 ? now : 0), i % 2);
		*override_of(ctx, unread.id) = HTW_DISARMED;
		KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), 0);
		KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
		/* A store does not arm it. */
		*override_of(ctx, unread.id) = now + 5 * TICK;
		KUNIT_EXPECT_EQ(test, state(ctx, unread.id), HTW_STATE_DISARMED);
		now += 100 * TICK;
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now), 0);
	}
}

/*
 * HTW_MOD_UNREAD: a periodic timer, from tick 10 on each 10 ticks, whose events up to tick @read
 * were read. At tick @now it is taken back to the override.
 */
static const struct unread_param {
	const char *name;
	u32 firings;
	u64 read, now, override;
	int result;
	u64 next;	/* tick at which it expires then */
	u32 left;	/* firings left then */
} unread_params[] = {
	{ "put off", 0, 10, 10, 25, 0, 25, 0 },
	{ "put off by less than the interval", 0, 10, 10, 15, 0, 15, 0 },
	{ "put off, with a limit", 5, 10, 10, 25, 0, 25, 5 },
	{ "after some were missed", 9, 35, 35, 47, 0, 47, 9 },
	{ "after the last firing", 1, 10, 10, 12, 0, 12, 1 },
	{ "after the last that were missed", 3, 35, 35, 50, 0, 50, 3 },
	{ "not later than the event", 0, 10, 10, 10, -EALREADY, 20, 0 },
	{ "earlier", 5, 10, 10, 9, -EALREADY, 20, 4 },
	{ "later by a little", 5, 10, 12, 11, 0, 11, 5 },
	{ "without an override", 5, 10, 10, 0, -EALREADY, 20, 4 },
};

static void unread_desc(const struct unread_param *p, char *desc)
{
	strscpy(desc, p->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(unread, unread_params, unread_desc);

static void taken_back_is_put_off(struct kunit *test)
{
	const struct unread_param *p = test->param_value;
	const struct htw_add add = {
		.deadline = 10 * TICK, .interval = 10 * TICK, .firings = p->firings,
		.flags = HTW_F_KEEP,
	};
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_mod unread = { .id = htw_test_add(ctx, &add), .flags = HTW_MOD_UNREAD };
	struct htw_query query = { .id = unread.id };
	struct htw_event event;
	u64 now;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, p->read * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, p->now * TICK), 0);
	*override_of(ctx, unread.id) = p->override * TICK;
	unread.deadline = event.deadline;
	unread.firings = event.missed + 1;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), p->result);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.firings, p->left);
	KUNIT_EXPECT_EQ(test, *override_of(ctx, unread.id), p->override * TICK);

	now = max(p->now, p->next) * TICK;
	if (p->next > p->now) {
		KUNIT_EXPECT_EQ(test, query.state, HTW_STATE_PENDING);
		KUNIT_EXPECT_EQ(test, query.deadline, p->next * TICK);
		KUNIT_EXPECT_EQ(test, query.interval, add.interval);
		KUNIT_EXPECT_EQ(test, htw_test_slot(ctx, unread.id)->deadline, p->next * TICK);
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now - 1), 0);
		KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, now), 1);
	}
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.deadline, p->next * TICK);
}

/* A timer that has expired at its override since the event is not armed for that once more. */
static void override_that_has_come_is_not_taken_back(struct kunit *test)
{
	const struct htw_add add = { .deadline = 10 * TICK, .interval = 10 * TICK };
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_query query = { .id = htw_test_add(ctx, &add) };
	struct htw_mod unread = {
		.id = query.id, .deadline = 10 * TICK, .firings = 1, .flags = HTW_MOD_UNREAD,
	};
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 10 * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	*override_of(ctx, query.id) = 25 * TICK;
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 25 * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.deadline, 25 * TICK);
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), -EALREADY);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.deadline, 35 * TICK);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);

	/* After more firings than that number holds its deadline does not show it. */
	unread.firings = U32_MAX;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), 0);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.deadline, 25 * TICK);
}

/* What the program has changed since the last firing is not given back. */
static void interval_changed_since_is_not_given_back(struct kunit *test)
{
	const struct htw_add add = { .deadline = 10 * TICK, .interval = 10 * TICK, .firings = 1 };
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_mod mod = { .id = htw_test_add(ctx, &add), .flags = HTW_MOD_INTERVAL };
	struct htw_query query = { .id = mod.id };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 10 * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &mod), 0);
	*override_of(ctx, mod.id) = 50 * TICK;
	mod.flags = HTW_MOD_UNREAD;
	mod.deadline = event.deadline;
	mod.firings = 1;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &mod), 0);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.deadline, 50 * TICK);
	KUNIT_EXPECT_EQ(test, query.interval, 0);
	KUNIT_EXPECT_EQ(test, query.firings, 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 100 * TICK), 1);
}

/*
 * No event can be taken back of a timer that has ended, or was cancelled while its next event is
 * queued.
 */
static void ended_is_not_taken_back(struct kunit *test)
{
	const struct htw_add add = { .deadline = 10 * TICK, .interval = 10 * TICK };
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_cancel cancel = { .id = htw_test_add(ctx, &add) };
	struct htw_mod unread = {
		.id = cancel.id, .deadline = 10 * TICK, .firings = 1, .flags = HTW_MOD_UNREAD,
	};
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 10 * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 20 * TICK), 1);
	*override_of(ctx, cancel.id) = 50 * TICK;
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -EALREADY);
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), -ENOENT);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	/* The slot has another timer. */
	cancel.id = htw_test_start(test, ctx, U64_MAX, 1);
	KUNIT_ASSERT_EQ(test, HTW_ID_SLOT(cancel.id), HTW_ID_SLOT(unread.id));
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), -ENOENT);
}

/* One that its override has disarmed can be: it has its interval still. */
static void disarmed_is_taken_back(struct kunit *test)
{
	const struct htw_add add = { .deadline = 10 * TICK, .interval = 10 * TICK, .firings = 5 };
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_query query = { .id = htw_test_add(ctx, &add) };
	const struct htw_mod unread = {
		.id = query.id, .deadline = 10 * TICK, .firings = 1, .flags = HTW_MOD_UNREAD,
	};
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 10 * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	*override_of(ctx, query.id) = HTW_DISARMED;
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 20 * TICK), 0);
	KUNIT_EXPECT_EQ(test, state(ctx, query.id), DISARMED);
	*override_of(ctx, query.id) = 50 * TICK;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), 0);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.state, PENDING);
	KUNIT_EXPECT_EQ(test, query.deadline, 50 * TICK);
	KUNIT_EXPECT_EQ(test, query.interval, add.interval);
	KUNIT_EXPECT_EQ(test, query.firings, 5);
}

/* What HTW_MOD_UNREAD gives back does not wrap around, whatever firings HTW_MOD has set since. */
static void firings_given_back_are_limited(struct kunit *test)
{
	const struct htw_add add = {
		.deadline = 10 * TICK, .interval = 10 * TICK, .firings = 9, .flags = HTW_F_KEEP,
	};
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	struct htw_query query = { .id = htw_test_add(ctx, &add) };
	const struct htw_mod more = {
		.id = query.id, .flags = HTW_MOD_INTERVAL, .interval = 10 * TICK,
		.firings = U32_MAX - 2,
	};
	struct htw_mod unread = { .id = query.id, .flags = HTW_MOD_UNREAD };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 35 * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_ASSERT_EQ(test, event.missed, 2);
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &more), 0);
	*override_of(ctx, query.id) = 55 * TICK;
	unread.deadline = event.deadline;
	unread.firings = event.missed + 1;
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &unread), 0);
	KUNIT_ASSERT_EQ(test, htw_test_query(ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.firings, U32_MAX);
	KUNIT_EXPECT_EQ(test, query.deadline, 55 * TICK);
}

/* Pages of timers from before and after the table was enabled, and the table pages of both. */
static void every_page_has_overrides(struct kunit *test)
{
	const u32 pages = PAGE_SIZE / (HTW_PAGE_SLOTS * sizeof(u64));
	const u32 page = pages * HTW_PAGE_TIMERS;
	const u32 count = 5 * page + page / 2;
	struct htw_context *ctx = htw_test_context(test);
	u64 *ids = kunit_kcalloc(test, count, sizeof(*ids), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ids);
	for (u32 i = 0; i < count; i++) {
		if (i == 2 * page + page / 3) {
			KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
			KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
		}
		ids[i] = htw_test_start(test, ctx, U64_MAX - 1, i);
	}
	for (u32 i = 0; i < count; i++) {
		const u64 offset = (u64)HTW_ID_SLOT(ids[i]) * sizeof(u64);
		struct page *there = htw_table_page(ctx, offset);

		KUNIT_ASSERT_NOT_NULL(test, there);
		KUNIT_ASSERT_PTR_EQ(test, (void *)override_of(ctx, ids[i]),
				    page_address(there) + offset % PAGE_SIZE);
		KUNIT_ASSERT_EQ(test, *override_of(ctx, ids[i]), 0);
		*override_of(ctx, ids[i]) = ids[i];
	}
	for (u32 i = 0; i < count; i++)
		KUNIT_ASSERT_EQ(test, *override_of(ctx, ids[i]), ids[i]);
	KUNIT_EXPECT_NOT_NULL(test, htw_table_page(ctx, 5 * PAGE_SIZE));
	KUNIT_EXPECT_NULL(test, htw_table_page(ctx, 6 * PAGE_SIZE));
	KUNIT_EXPECT_NULL(test, htw_table_page(ctx, U64_MAX));
}

/*
 * No more pages than HTW_TABLE_SIZE() needs, by which programs map the table: one for 504 timers,
 * or for 8064 where it has 64 KiB.
 */
static void size_is_that_of_the_limit(struct kunit *test)
{
	static const struct {
		unsigned long page;
		u32 limit;
		u32 pages;
	} params[] = {
		{ 4096, 1, 1 },
		{ 4096, 504, 1 },
		{ 4096, 505, 2 },
		{ 4096, 1008, 2 },
		{ 4096, 1048576, 2081 },
		{ 65536, 1, 1 },
		{ 65536, 8064, 1 },
		{ 65536, 8065, 2 },
		{ 65536, 16128, 2 },
		{ 65536, 1048576, 131 },
	};
	u32 tested = 0;

	for (u32 i = 0; i < ARRAY_SIZE(params); i++) {
		const struct htw_context ctx = { .limit = params[i].limit };

		if (params[i].page != PAGE_SIZE)
			continue;
		KUNIT_EXPECT_EQ(test, htw_table_size(&ctx), params[i].pages * PAGE_SIZE);
		tested++;
	}
	KUNIT_EXPECT_EQ_MSG(test, tested, ARRAY_SIZE(params) / 2, "pages of %lu bytes", PAGE_SIZE);
}

/* HTW_TABLE_SIZE() suffices for any page size, and exceeds the need only a little. */
static void size_does_not_depend_on_pages(struct kunit *test)
{
	for (u64 page = 4096; page <= 65536; page *= 2) {
		const u64 timers = page / sizeof(struct htw_timer) - 1;
		const u64 pages = page / ((timers + 1) * sizeof(u64));

		for (u64 limit = 1; limit <= 64 * 1048576; limit += 1 + limit / 3) {
			const u64 needs = DIV64_U64_ROUND_UP(DIV64_U64_ROUND_UP(limit, timers),
							     pages) * page;
			const u64 says = round_up(HTW_TABLE_SIZE(limit), page);

			KUNIT_ASSERT_GE_MSG(test, says, needs, "%llu timers, pages of %llu", limit,
					    page);
			KUNIT_ASSERT_LE(test, says, needs + needs / 50 + page);
		}
	}
}

/* Pages that failed calls left behind may exceed a limit that is set later. */
static void pages_beyond_a_lower_limit_have_overrides(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 1 };
	const u32 page = PAGE_SIZE / (HTW_PAGE_SLOTS * sizeof(u64)) * HTW_PAGE_TIMERS;
	struct htw_context *ctx = htw_test_context(test);
	LIST_HEAD(reserved);
	u64 id;

	KUNIT_ASSERT_EQ(test, htw_test_reserve(ctx, &reserved, page + 1), page + 1);
	htw_pool_unreserve(ctx, &reserved);
	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	id = htw_test_start(test, ctx, U64_MAX - 1, 7);
	KUNIT_EXPECT_LT(test, HTW_ID_SLOT(id) * sizeof(u64), htw_table_size(ctx));
	KUNIT_EXPECT_EQ(test, htw_table_size(ctx), 2 * PAGE_SIZE);
}

static void slot_stays_the_programs(struct kunit *test)
{
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	const u64 id = htw_test_start(test, ctx, TICK, 1);
	struct htw_cancel cancel = { .id = id };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, TICK), 1);
	KUNIT_EXPECT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
	for (u32 i = 1; i < HTW_PAGE_TIMERS; i++)
		KUNIT_EXPECT_NE(test, HTW_ID_SLOT(htw_test_start(test, ctx, U64_MAX, i)),
				HTW_ID_SLOT(id));
	*override_of(ctx, id) = HTW_DISARMED;
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	/* The next timer in the slot starts without an override. */
	cancel.id = htw_test_start(test, ctx, 2 * TICK, 1);
	KUNIT_EXPECT_EQ(test, HTW_ID_SLOT(cancel.id), HTW_ID_SLOT(id));
	KUNIT_EXPECT_EQ(test, *override_of(ctx, cancel.id), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 2 * TICK), 1);
}

/* Timers that are moved by their overrides wake no one. */
static void moves_wake_no_one(struct kunit *test)
{
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	DEFINE_WAIT(wait);

	for (u32 i = 0; i < 20; i++) {
		const u64 id = htw_test_start(test, ctx, TICK, i);

		*override_of(ctx, id) = i % 2 ? HTW_DISARMED : 5 * TICK;
	}
	prepare_to_wait(&ctx->wait, &wait, TASK_UNINTERRUPTIBLE);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, TICK), 0);
	/* autoremove_wake_function() would have removed it. */
	KUNIT_EXPECT_FALSE(test, list_empty(&wait.entry));
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 5 * TICK), 10);
	/* At once, or by the pacer where that takes too long. */
	for (unsigned int i = 0; i < 1000 && !list_empty_careful(&wait.entry); i++)
		fsleep(5000);
	KUNIT_EXPECT_TRUE(test, list_empty_careful(&wait.entry));
	finish_wait(&ctx->wait, &wait);
}

/*
 * A timer is moved once a tick at most, even if its override is always a little later than
 * the tick at which it is read.
 */
static void always_a_little_later(struct kunit *test)
{
	struct htw_context *ctx = table_context(test, HTW_CLOCK_MANUAL);
	const u64 id = htw_test_start(test, ctx, TICK, 1);

	for (u32 i = 1; i < 2000; i++) {
		*override_of(ctx, id) = i * TICK + 1;
		KUNIT_ASSERT_EQ(test, htw_advance_context(ctx, i * TICK), 0);
		KUNIT_ASSERT_EQ(test, ctx->private_base->wheel.pending, 1);
		KUNIT_ASSERT_EQ(test, htw_test_slot(ctx, id)->node.expires, i + 1);
	}
}

/* In real time: the timer expires at the tick of its last override. */
static void moved_is_in_time(struct kunit *test)
{
	struct htw_context *ctx = table_context(test, CLOCK_MONOTONIC);
	const u64 start = htw_test_tick_up(htw_now() + 200 * NSEC_PER_MSEC);
	struct htw_event event;
	u64 id;

	id = htw_test_start(test, ctx, start, 1);
	for (u32 i = 1; i <= 5; i++) {
		WRITE_ONCE(*override_of(ctx, id), start + i * 300 * NSEC_PER_MSEC);
		/* Sleep past the previous deadline, but not past the new one. */
		msleep(300);
	}
	htw_test_wait(test, ctx, 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_GE(test, event.fired, event.deadline);
	if (IS_ENABLED(CONFIG_UML_TIME_TRAVEL_SUPPORT)) {
		KUNIT_EXPECT_EQ(test, event.deadline, start + 5 * 300 * NSEC_PER_MSEC);
		KUNIT_EXPECT_LT(test, event.fired, event.deadline + TICK);
	}
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* Those that are put off count like those that are delivered: a turn has 128 units. */
static void turn_puts_off_a_batch(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 due = htw_test_tick_up(htw_now()) + 100 * TICK;
	struct htw_base *base;
	u32 left;

	KUNIT_ASSERT_EQ(test, htw_table_enable(ctx), 0);
	for (u32 i = 0; i < 300; i++)
		*override_of(ctx, htw_test_start(test, ctx, due, i)) = due + 1000 * TICK;
	base = htw_test_base(0);
	local_bh_disable();
	htw_test_turn(base, due + TICK);
	left = list_count_nodes(&base->wheel.due);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, left, 300 - 128);
	htw_test_sleep_until(test, due + 100 * TICK);
	KUNIT_EXPECT_TRUE(test, list_empty(&base->wheel.due));
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
}

/* Timers of several contexts come due together: one with a table, one with a ring, and another. */
static void neighbours_have_other_contexts(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_RING, .ring_entries = 32 };
	struct htw_context *table = htw_test_context(test), *ring = htw_test_context(test);
	struct htw_context *plain = htw_test_context(test);
	const u64 due = htw_test_tick_up(htw_now()) + 100 * TICK;

	KUNIT_ASSERT_EQ(test, htw_table_enable(table), 0);
	KUNIT_ASSERT_EQ(test, htw_setup_context(ring, &setup), 0);
	htw_reader_map_ring(ring);
	for (u32 i = 0; i < 20; i++) {
		const u64 id = htw_test_start(test, table, due, i);

		if (i % 2)
			*override_of(table, id) = due + 50 * TICK;
		htw_test_start(test, ring, due, i);
		htw_test_start(test, plain, due, i);
	}
	htw_test_sleep_until(test, due + 40 * TICK);
	KUNIT_EXPECT_EQ(test, table->nr_expired, 10);
	KUNIT_EXPECT_EQ(test, ring->ring->tail, 20);
	KUNIT_EXPECT_EQ(test, ring->nr_expired, 0);
	KUNIT_EXPECT_EQ(test, plain->nr_expired, 20);
	htw_test_sleep_until(test, due + 60 * TICK);
	KUNIT_EXPECT_EQ(test, table->nr_expired, 20);
	for (u32 i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, ring->ring->events[i].cookie, i);
	htw_reader_unmap_ring(ring);
}
#endif

#ifdef CONFIG_SMP
#define RACERS			200u
#define RACE_ROUNDS		10u

struct race {
	struct htw_context *ctx;
	u64 ids[RACERS];
	u64 certain[RACERS];	/* no expiration is valid before this time */
	bool run[RACERS];	/* the thread may store overrides */
};

static int race_store(void *arg)
{
	struct race *race = arg;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 7);
	while (!kthread_should_stop()) {
		const u32 i = prandom_u32_state(&rnd) % RACERS;
		const u64 certain = READ_ONCE(race->certain[i]);
		u64 later;

		cond_resched();
		/* Pairs with race_begin(). */
		if (!smp_load_acquire(&race->run[i]))
			continue;
		later = certain + 1 + prandom_u32_state(&rnd) % (4 * NSEC_PER_MSEC);
		WRITE_ONCE(*override_of(race->ctx, race->ids[i]), later);
		/* Store before reading the clock. */
		smp_mb();
		if (htw_now() < certain)
			WRITE_ONCE(race->certain[i], later);
		else
			WRITE_ONCE(race->run[i], false);
		if (prandom_u32_state(&rnd) % 8 == 0)
			WRITE_ONCE(race->run[i], false);
	}
	return 0;
}

static void race_begin(struct race *race, u32 i, u64 deadline)
{
	WRITE_ONCE(race->certain[i], deadline);
	/* Pairs with race_store(). */
	smp_store_release(&race->run[i], true);
}

static void stores_against_expiry(struct kunit *test)
{
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	u32 events[RACERS] = {}, done = 0;
	struct task_struct *thread;
	struct htw_event event;

	KUNIT_ASSERT_NOT_NULL(test, race);
	race->ctx = table_context(test, CLOCK_MONOTONIC);
	for (u32 i = 0; i < RACERS; i++) {
		const u64 deadline = htw_now() + 20 * NSEC_PER_MSEC;

		race->ids[i] = htw_test_start(test, race->ctx, deadline, i);
		race_begin(race, i, deadline);
	}
	thread = kthread_run(race_store, race, "htw_store");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	while (done < RACERS) {
		u64 deadline;
		u32 i;

		if (!wait_event_timeout(race->ctx->wait, READ_ONCE(race->ctx->nr_expired), 60 * HZ))
			break;
		if (!htw_test_read(race->ctx, &event, 1))
			continue;
		i = event.cookie;
		KUNIT_EXPECT_GE(test, event.fired, event.deadline);
		KUNIT_EXPECT_GE(test, event.deadline, READ_ONCE(race->certain[i]));
		KUNIT_EXPECT_EQ(test, state(race->ctx, event.id), DISARMED);
		WRITE_ONCE(race->run[i], false);
		if (++events[i] == RACE_ROUNDS) {
			done++;
			continue;
		}
		KUNIT_EXPECT_LT(test, events[i], RACE_ROUNDS);
		deadline = htw_now() + 10 * NSEC_PER_MSEC;
		KUNIT_EXPECT_EQ(test, move(race->ctx, race->ids[i], deadline), 0);
		race_begin(race, i, deadline);
	}
	kthread_stop(thread);
	KUNIT_EXPECT_EQ(test, done, RACERS);
	msleep(50);
	KUNIT_EXPECT_EQ(test, race->ctx->nr_expired, 0);
	htw_test_expect_empty(test);
}
#endif

static struct kunit_case htw_table_cases[] = {
	KUNIT_CASE_PARAM(override_decides, override_gen_params),
	KUNIT_CASE(mod_clears_the_override),
	KUNIT_CASE(taken_back_is_disarmed),
	KUNIT_CASE_PARAM(taken_back_is_put_off, unread_gen_params),
	KUNIT_CASE(override_that_has_come_is_not_taken_back),
	KUNIT_CASE(interval_changed_since_is_not_given_back),
	KUNIT_CASE(ended_is_not_taken_back),
	KUNIT_CASE(disarmed_is_taken_back),
	KUNIT_CASE(firings_given_back_are_limited),
	KUNIT_CASE(every_page_has_overrides),
	KUNIT_CASE(size_is_that_of_the_limit),
	KUNIT_CASE(size_does_not_depend_on_pages),
	KUNIT_CASE(pages_beyond_a_lower_limit_have_overrides),
	KUNIT_CASE(slot_stays_the_programs),
	KUNIT_CASE(moves_wake_no_one),
	KUNIT_CASE(always_a_little_later),
	KUNIT_CASE(moved_is_in_time),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(turn_puts_off_a_batch),
	KUNIT_CASE(neighbours_have_other_contexts),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE_SLOW(stores_against_expiry),
#endif
	{}
};

static struct kunit_suite htw_table_suite = {
	.name = "htw_table",
	.init = htw_test_init,
	.test_cases = htw_table_cases,
};

kunit_test_suite(htw_table_suite);

MODULE_DESCRIPTION("KUnit: the table of deadlines");
MODULE_LICENSE("GPL");
