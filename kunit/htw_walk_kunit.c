// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: calls on all timers of a context: HTW_LIST, HTW_HARVEST, HTW_CANCEL_ALL, HTW_NEXT
 *
 * Each page of timers has pending, expired and disarmed ones next to each other, and a call must
 * take only those in the states that it was asked for.
 */
#include <kunit/test.h>

#include "../core/table_enable.h"
#include "htw_kunit.h"

/* A relative deadline that does not expire during a case. */
#define LATER			(3600 * (u64)NSEC_PER_SEC)
/* A few pages of timers. */
#define TIMERS			(3 * HTW_PAGE_TIMERS)
#define STATES			3

/*
 * @ctx: has TIMERS timers; the cookie is a timer's number
 * @ids: their ids
 * @arg: the program's memory for arguments
 * @user: and for entries
 */
struct walk_test {
	struct htw_context *ctx;
	u64 *ids;
	void __user *arg;
	struct htw_query __user *user;
};

static void free_page_action(void *page)
{
	free_page((unsigned long)page);
}

/* Timer @i of walk_mixed() is in this state. */
static u16 walk_state(u64 i)
{
	static const u16 states[STATES] = {
		HTW_STATE_PENDING, HTW_STATE_EXPIRED, HTW_STATE_DISARMED,
	};

	return states[i % STATES];
}

static struct walk_test *walk_test(struct kunit *test)
{
	struct walk_test *w = htw_test_array(test, 1, sizeof(*w));

	w->ctx = htw_test_context(test);
	w->ids = htw_test_array(test, TIMERS, sizeof(*w->ids));
	w->arg = (void __user *)htw_test_user_pages(test, 1);
	w->user = (void __user *)htw_test_user_pages(test, DIV_ROUND_UP(TIMERS * sizeof(*w->user),
									PAGE_SIZE));
	return w;
}

/* Let each timer in state @state expire that is pending now. */
static void walk_expire(struct kunit *test, struct walk_test *w, u16 state)
{
	u32 count = READ_ONCE(w->ctx->nr_expired);

	for (u32 i = 0; i < TIMERS; i++) {
		const struct htw_mod mod = { .id = w->ids[i], .flags = HTW_MOD_DEADLINE };

		if (walk_state(i) != state)
			continue;
		KUNIT_ASSERT_EQ(test, htw_test_mod(w->ctx, &mod), 0);
		count++;
	}
	htw_test_wait(test, w->ctx, count);
}

/* Neighbours are in different states. */
static struct walk_test *walk_mixed(struct kunit *test)
{
	struct walk_test *w = walk_test(test);
	struct htw_event *events = htw_test_array(test, TIMERS, sizeof(*events));
	struct htw_add add = { .deadline = LATER };

	for (u32 i = 0; i < TIMERS; i++) {
		add.cookie = i;
		add.flags = walk_state(i) == HTW_STATE_DISARMED ? HTW_F_KEEP : 0;
		w->ids[i] = htw_test_add(w->ctx, &add);
		KUNIT_ASSERT_NE(test, w->ids[i], 0);
	}
	walk_expire(test, w, HTW_STATE_DISARMED);
	KUNIT_ASSERT_EQ(test, htw_test_read(w->ctx, events, TIMERS), TIMERS / STATES);
	walk_expire(test, w, HTW_STATE_EXPIRED);
	return w;
}

/* HTW_LIST or HTW_HARVEST of all; returns the result, and in @entries what was written. */
static int walk_list(struct kunit *test, struct walk_test *w, struct htw_list *list, bool harvest,
		     struct htw_query *entries)
{
	int ret;

	list->entries = (unsigned long)w->user;
	KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, list, sizeof(*list)), 0);
	ret = htw_op_list(w->ctx, w->arg, harvest);
	KUNIT_ASSERT_EQ(test, copy_from_user(list, w->arg, sizeof(*list)), 0);
	if (!ret)
		KUNIT_ASSERT_EQ(test, copy_from_user(entries, w->user,
						     list->done * sizeof(*entries)), 0);
	return ret;
}

/* Is a timer in state @state selected by @flags? */
static bool walk_selects(u32 flags, u16 state)
{
	switch (state) {
	case HTW_STATE_PENDING:
		return !flags || flags & HTW_LIST_PENDING;
	case HTW_STATE_EXPIRED:
		return flags & HTW_LIST_EXPIRED;
	default:
		return flags & HTW_LIST_DISARMED;
	}
}

static void list_selects_states(struct kunit *test)
{
	struct walk_test *w = walk_mixed(test);
	struct htw_query *entries = htw_test_array(test, TIMERS, sizeof(*entries));

	for (u32 flags = 0; flags < 8; flags++) {
		struct htw_list list = { .count = TIMERS, .flags = flags };
		u32 n = 0;

		KUNIT_ASSERT_EQ(test, walk_list(test, w, &list, false, entries), 0);
		for (u32 i = 0; i < TIMERS; i++) {
			const u16 state = walk_state(i);
			const struct htw_query *entry = &entries[n];

			if (!walk_selects(flags, state))
				continue;
			KUNIT_ASSERT_LT(test, n++, list.done);
			KUNIT_ASSERT_EQ(test, entry->id, w->ids[i]);
			KUNIT_EXPECT_EQ(test, entry->cookie, i);
			KUNIT_EXPECT_EQ(test, entry->state, state);
			KUNIT_EXPECT_EQ(test, entry->flags,
					state == HTW_STATE_DISARMED ? HTW_F_KEEP : 0);
			KUNIT_EXPECT_EQ(test, entry->remaining > 0, state == HTW_STATE_PENDING);
		}
		KUNIT_EXPECT_EQ(test, list.done, n);
	}
}

/* In pieces of any size, each timer is listed once. */
static void list_goes_on_at_its_cursor(struct kunit *test)
{
	struct walk_test *w = walk_mixed(test);
	struct htw_query *entries = htw_test_array(test, TIMERS, sizeof(*entries));

	for (u32 size = 1; size < HTW_PAGE_TIMERS + 2; size += 7) {
		struct htw_list list = {
			.flags = HTW_LIST_PENDING | HTW_LIST_EXPIRED | HTW_LIST_DISARMED,
			.count = size,
		};
		u32 n = 0;

		do {
			KUNIT_ASSERT_EQ(test, walk_list(test, w, &list, false, entries), 0);
			for (u32 i = 0; i < list.done; i++)
				KUNIT_ASSERT_EQ(test, entries[i].id, w->ids[n + i]);
			n += list.done;
			KUNIT_ASSERT_EQ(test, list.done, min(size, TIMERS - (n - list.done)));
		} while (n < TIMERS);
		KUNIT_ASSERT_EQ(test, walk_list(test, w, &list, false, entries), 0);
		KUNIT_EXPECT_EQ(test, list.done, 0);
	}
}

/* What has expired is read, and what is kept stays. */
static void harvest_takes_what_is_pending(struct kunit *test)
{
	struct walk_test *w = walk_mixed(test);
	struct htw_query *entries = htw_test_array(test, TIMERS, sizeof(*entries));
	struct htw_event *events = htw_test_array(test, TIMERS, sizeof(*events));
	struct htw_list list = { .count = TIMERS };

	KUNIT_ASSERT_EQ(test, walk_list(test, w, &list, true, entries), 0);
	KUNIT_EXPECT_EQ(test, list.done, TIMERS / STATES);
	for (u32 i = 0; i < list.done; i++) {
		struct htw_query query = { .id = entries[i].id };

		KUNIT_EXPECT_EQ(test, entries[i].id, w->ids[STATES * i]);
		KUNIT_EXPECT_EQ(test, entries[i].state, HTW_STATE_PENDING);
		KUNIT_EXPECT_EQ(test, htw_test_query(w->ctx, &query), -ENOENT);
	}
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(w->ctx), TIMERS - list.done);
	htw_test_expect_empty(test);
	/* All slots that it took out are free. */
	KUNIT_EXPECT_EQ(test, htw_test_nr_free(w->ctx) % HTW_PAGE_TIMERS,
			list.done % HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, htw_test_read(w->ctx, events, TIMERS), TIMERS / STATES);
	list = (struct htw_list) { .count = TIMERS };
	KUNIT_ASSERT_EQ(test, walk_list(test, w, &list, true, entries), 0);
	KUNIT_EXPECT_EQ(test, list.done, 0);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(w->ctx), TIMERS / STATES);
}

/* What has expired can still be read, unless it is discarded, too. */
static void cancel_all_counts_what_was_not_expired(struct kunit *test)
{
	for (u32 flags = 0; flags <= HTW_CANCEL_DISCARD; flags += HTW_CANCEL_DISCARD) {
		struct walk_test *w = walk_mixed(test);
		struct htw_event *events = htw_test_array(test, TIMERS, sizeof(*events));
		struct htw_cancel_all all = { .flags = flags };
		const u32 expired = flags ? 0 : TIMERS / STATES;

		KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, &all, sizeof(all)), 0);
		KUNIT_ASSERT_EQ(test, htw_op_cancel_all(w->ctx, w->arg), 0);
		KUNIT_ASSERT_EQ(test, copy_from_user(&all, w->arg, sizeof(all)), 0);
		KUNIT_EXPECT_EQ(test, all.count, TIMERS - TIMERS / STATES);
		KUNIT_EXPECT_EQ(test, htw_test_nr_timers(w->ctx), expired);
		KUNIT_EXPECT_EQ(test, htw_test_read(w->ctx, events, TIMERS), expired);
		KUNIT_EXPECT_EQ(test, htw_test_nr_timers(w->ctx), 0);
		htw_test_expect_empty(test);
	}
}

/* Calls whose arguments are valid but for one field do nothing. */
static void invalid_calls_do_nothing(struct kunit *test)
{
	static const struct htw_list lists[] = {
		{ .count = 1, .flags = HTW_LIST_DISARMED << 1 },
		{ .count = 1, .cursor = U32_MAX + 1ull },
		{ .count = 1, .reserved = { 1, 0 } },
		{ .count = 1, .reserved = { 0, 1 } },
		{ .count = 1, .ring_tail = 1 },
	};
	static const struct htw_cancel_all alls[] = {
		{ .flags = HTW_CANCEL_DISCARD << 1 },
		{ .ring_tail = 1 },
		{ .reserved = { 1, 0 } },
		{ .reserved = { 0, 1 } },
	};
	static const struct htw_next nexts[] = {
		{ .flags = 1 },
		{ .reserved0 = 1 },
		{ .reserved = 1 },
	};
	struct walk_test *w = walk_mixed(test);
	struct htw_query *entries = htw_test_array(test, TIMERS, sizeof(*entries));

	for (u32 i = 0; i < ARRAY_SIZE(lists); i++) {
		for (u32 harvest = 0; harvest < 2; harvest++) {
			struct htw_list list = lists[i];

			KUNIT_EXPECT_EQ_MSG(test, walk_list(test, w, &list, harvest, entries),
					    -EINVAL, "number %u", i);
		}
	}
	for (u32 i = 0; i < ARRAY_SIZE(alls); i++) {
		KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, &alls[i], sizeof(alls[i])), 0);
		KUNIT_EXPECT_EQ_MSG(test, htw_op_cancel_all(w->ctx, w->arg), -EINVAL,
				    "number %u", i);
	}
	for (u32 i = 0; i < ARRAY_SIZE(nexts); i++) {
		KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, &nexts[i], sizeof(nexts[i])), 0);
		KUNIT_EXPECT_EQ_MSG(test, htw_op_next(w->ctx, w->arg), -EINVAL, "number %u", i);
	}
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(w->ctx), TIMERS);
}

static const struct kind {
	const char *name;
	struct htw_setup setup;
} kinds[] = {
	{ "shared wheel" },
	{ "private wheel", { .flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_MSEC, .levels = 2,
			     .slots = { 64, 64 } } },
	{ "manual clock", { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL } },
};

static void get_kind_desc(const struct kind *kind, char *desc)
{
	strscpy(desc, kind->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kinds, kinds, get_kind_desc);

/* HTW_NEXT */
static int walk_next(struct kunit *test, struct walk_test *w, struct htw_query *timer)
{
	struct htw_next next = {};
	int ret;

	KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, &next, sizeof(next)), 0);
	ret = htw_op_next(w->ctx, w->arg);
	KUNIT_ASSERT_EQ(test, copy_from_user(&next, w->arg, sizeof(next)), 0);
	*timer = next.timer;
	return ret;
}

/* Start timers in another order than that of their deadlines, then cancel each that is next. */
static void next_is_the_first_to_expire(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	struct walk_test *w = walk_test(test);
	struct htw_query next;
	u64 from;

	KUNIT_ASSERT_EQ(test, htw_setup_context(w->ctx, &kind->setup), 0);
	KUNIT_EXPECT_EQ(test, walk_next(test, w, &next), -ENOENT);
	from = htw_context_now(w->ctx) + LATER;
	/* 100 has no divisor in common with TIMERS. */
	for (u32 i = 0; i < TIMERS; i++) {
		const u32 nth = i * 100 % TIMERS;

		w->ids[nth] = htw_test_start(test, w->ctx, from + nth * NSEC_PER_SEC, nth);
	}
	for (u32 nth = 0; nth < TIMERS; nth++) {
		struct htw_cancel cancel = {};

		KUNIT_ASSERT_EQ(test, walk_next(test, w, &next), 0);
		KUNIT_ASSERT_EQ(test, next.id, w->ids[nth]);
		KUNIT_EXPECT_EQ(test, next.cookie, nth);
		KUNIT_EXPECT_EQ(test, next.deadline, from + nth * NSEC_PER_SEC);
		KUNIT_EXPECT_EQ(test, next.state, HTW_STATE_PENDING);
		KUNIT_EXPECT_GT(test, next.remaining, LATER / 2);
		cancel.id = next.id;
		KUNIT_ASSERT_EQ(test, htw_test_cancel(w->ctx, &cancel), 0);
	}
	KUNIT_EXPECT_EQ(test, walk_next(test, w, &next), -ENOENT);
}

/* The first of many that wait for the same ticks of a wheel. */
static void next_is_found_in_a_crowd(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	struct walk_test *w = walk_test(test);
	struct htw_query next;
	u64 from;

	KUNIT_ASSERT_EQ(test, htw_setup_context(w->ctx, &kind->setup), 0);
	from = htw_context_now(w->ctx) + LATER;
	for (u32 i = 0; i < TIMERS; i++)
		w->ids[i] = htw_test_start(test, w->ctx, from + NSEC_PER_SEC - i, i);
	w->ids[5] = htw_test_start(test, w->ctx, from, TIMERS);
	KUNIT_ASSERT_EQ(test, walk_next(test, w, &next), 0);
	KUNIT_EXPECT_EQ(test, next.id, w->ids[5]);
	KUNIT_EXPECT_EQ(test, next.deadline, from);
}

/* In a table of deadlines a program may have put off what is first in a private wheel. */
static void next_is_the_first_by_the_table(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	struct walk_test *w = walk_test(test);
	const struct htw_timer *t;
	struct htw_query next;

	KUNIT_ASSERT_EQ(test, htw_setup_context(w->ctx, &setup), 0);
	for (u32 i = 0; i < 3; i++)
		w->ids[i] = htw_test_start(test, w->ctx, LATER + i * NSEC_PER_SEC, i);
	KUNIT_ASSERT_EQ(test, htw_table_enable(w->ctx), 0);
	t = htw_test_slot(w->ctx, w->ids[0]);
	htw_timer_page(t)->table[htw_timer_index(t)] = 2 * LATER;
	KUNIT_EXPECT_EQ(test, walk_next(test, w, &next), 0);
	KUNIT_EXPECT_EQ(test, next.id, w->ids[1]);
	htw_timer_page(t)->table[htw_timer_index(t)] = 0;
	KUNIT_EXPECT_EQ(test, walk_next(test, w, &next), 0);
	KUNIT_EXPECT_EQ(test, next.id, w->ids[0]);
}

/* What has expired, or is disarmed, does not expire next. */
static void next_is_pending(struct kunit *test)
{
	struct walk_test *w = walk_mixed(test);
	struct htw_query next;

	KUNIT_ASSERT_EQ(test, walk_next(test, w, &next), 0);
	KUNIT_EXPECT_EQ(test, next.state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, next.id, w->ids[0]);
}

/*
 * What follows a page in memory is left alone, even if it looks like one of the context's timers.
 */
static void page_ends_with_its_last_timer(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct page *pages = alloc_pages(GFP_KERNEL | __GFP_ZERO, 1);
	struct htw_timer *behind;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, pages);
	split_page(pages, 1);
	behind = page_address(pages + 1);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_page_action, behind), 0);
	mutex_lock(&ctx->grow);
	ctx->prealloc = page_address(pages);
	ctx->nr_prealloc = 1;
	ret = htw_pool_grow(ctx);
	mutex_unlock(&ctx->grow);
	KUNIT_ASSERT_EQ(test, ret, 0);
	for (u32 i = 0; i < HTW_PAGE_TIMERS; i++)
		htw_test_start(test, ctx, U64_MAX, i);
	behind->generation = 1;
	behind->node.cpu = raw_smp_processor_id();
	behind->node.state = HTW_IDLE;
	KUNIT_EXPECT_EQ(test, htw_walk_cancel(ctx, 0, 0), HTW_PAGE_TIMERS);
	KUNIT_EXPECT_EQ(test, behind->node.state, HTW_IDLE);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	/* Closing stops what is pending. */
	behind->node.state = HTW_PENDING;
	INIT_LIST_HEAD(&behind->node.list);
	kunit_release_action(test, htw_test_close, ctx);
	KUNIT_EXPECT_EQ(test, behind->node.state, HTW_PENDING);
}

/* With a ring the calls say up to where events of the timers that they end may be in it. */
static void ring_tail_comes_after_the_events(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_RING | HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL,
		.ring_entries = 8,
	};
	struct walk_test *w = walk_test(test);
	struct htw_list list = { .count = 1 };
	struct htw_cancel_all all = {};
	struct htw_query entry;

	KUNIT_ASSERT_EQ(test, htw_setup_context(w->ctx, &setup), 0);
	htw_reader_map_ring(w->ctx);
	for (u64 i = 1; i <= 5; i++)
		htw_test_start(test, w->ctx, i, i);
	KUNIT_ASSERT_EQ(test, htw_advance_context(w->ctx, htw_tick_ns), 5);
	for (u64 i = 0; i < 2; i++)
		htw_test_start(test, w->ctx, U64_MAX, i);
	KUNIT_EXPECT_EQ(test, walk_list(test, w, &list, true, &entry), 0);
	KUNIT_EXPECT_EQ(test, list.done, 1);
	KUNIT_EXPECT_EQ(test, list.ring_tail, 5);
	KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, &all, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_cancel_all(w->ctx, w->arg), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&all, w->arg, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, all.count, 1);
	KUNIT_EXPECT_EQ(test, all.ring_tail, 5);
	htw_reader_unmap_ring(w->ctx);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* While a turn wants the base, each timer has a section of its own, and each section makes way. */
static void walks_make_way(struct kunit *test)
{
	struct walk_test *w = walk_mixed(test);
	struct htw_query *entries = htw_test_array(test, TIMERS, sizeof(*entries)), next;
	struct htw_list list = {
		.flags = HTW_LIST_PENDING | HTW_LIST_EXPIRED | HTW_LIST_DISARMED, .count = TIMERS,
	};
	struct htw_cancel_all all = {};
	struct htw_base *base = htw_test_base(0);
	u64 times[5];

	WRITE_ONCE(base->wanted_at, jiffies + 1000 * HZ);
	WRITE_ONCE(base->wanted, true);
	times[0] = htw_now();
	KUNIT_EXPECT_EQ(test, walk_list(test, w, &list, false, entries), 0);
	KUNIT_EXPECT_EQ(test, list.done, TIMERS);
	for (u32 i = 0; i < TIMERS; i++)
		KUNIT_ASSERT_EQ(test, entries[i].id, w->ids[i]);
	times[1] = htw_now();
	KUNIT_EXPECT_EQ(test, walk_next(test, w, &next), 0);
	KUNIT_EXPECT_EQ(test, next.id, w->ids[0]);
	times[2] = htw_now();
	list = (struct htw_list) { .count = TIMERS };
	KUNIT_EXPECT_EQ(test, walk_list(test, w, &list, true, entries), 0);
	KUNIT_EXPECT_EQ(test, list.done, TIMERS / STATES);
	times[3] = htw_now();
	KUNIT_ASSERT_EQ(test, copy_to_user(w->arg, &all, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_cancel_all(w->ctx, w->arg), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&all, w->arg, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, all.count, TIMERS / STATES);
	times[4] = htw_now();
	WRITE_ONCE(base->wanted, false);
	for (u32 i = 0; i < ARRAY_SIZE(times) - 1; i++)
		KUNIT_EXPECT_GT_MSG(test, times[i + 1] - times[i],
				    TIMERS / STATES * 50 * NSEC_PER_USEC, "call %u", i);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(w->ctx), TIMERS / STATES);
}

/* So does closing a context. */
static void close_makes_way(struct kunit *test)
{
	struct walk_test *w = walk_mixed(test);
	struct htw_base *base = htw_test_base(0);
	const u64 began = htw_now();

	WRITE_ONCE(base->wanted_at, jiffies + 1000 * HZ);
	WRITE_ONCE(base->wanted, true);
	kunit_release_action(test, htw_test_close, w->ctx);
	WRITE_ONCE(base->wanted, false);
	KUNIT_EXPECT_GT(test, htw_now() - began, TIMERS * 50 * NSEC_PER_USEC);
	htw_test_expect_empty(test);
}
#endif

static struct kunit_case htw_walk_cases[] = {
	KUNIT_CASE(list_selects_states),
	KUNIT_CASE(list_goes_on_at_its_cursor),
	KUNIT_CASE(harvest_takes_what_is_pending),
	KUNIT_CASE(cancel_all_counts_what_was_not_expired),
	KUNIT_CASE(invalid_calls_do_nothing),
	KUNIT_CASE_PARAM(next_is_the_first_to_expire, kinds_gen_params),
	KUNIT_CASE_PARAM(next_is_found_in_a_crowd, kinds_gen_params),
	KUNIT_CASE(next_is_the_first_by_the_table),
	KUNIT_CASE(next_is_pending),
	KUNIT_CASE(page_ends_with_its_last_timer),
	KUNIT_CASE(ring_tail_comes_after_the_events),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(walks_make_way),
	KUNIT_CASE(close_makes_way),
#endif
	{}
};

static struct kunit_suite htw_walk_suite = {
	.name = "htw_walk",
	.init = htw_test_init,
	.test_cases = htw_walk_cases,
};

kunit_test_suite(htw_walk_suite);

MODULE_DESCRIPTION("KUnit: calls on all timers of a context");
MODULE_LICENSE("GPL");
