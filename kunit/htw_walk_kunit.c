// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: HTW_CANCEL_ALL, HTW_LIST and HTW_HARVEST
 */
#include <kunit/test.h>

#include "htw_kunit.h"

#define TICK			1000u
/* Several pages of timers. */
#define TIMERS			300u
#define ENTRY			sizeof(struct htw_timer_info)

static const u16 states[] = { HTW_STATE_PENDING, HTW_STATE_DUE, HTW_STATE_DISARMED };
static const u32 flags_of[] = { 0, HTW_LIST_PENDING, HTW_LIST_DUE, HTW_LIST_DISARMED };

/**
 * struct walk - a device with timers in all states, and what a list says of them
 * @f: the device, on the manual clock
 * @id: the timers; cookies are the index
 * @state: what they do
 * @entries: what a call has reported
 * @seen: how often each was
 */
struct walk {
	struct htw_test_file *f;
	u64 id[TIMERS];
	u16 state[TIMERS];
	struct htw_timer_info entries[TIMERS];
	u32 seen[TIMERS];
};

static struct walk *walk_of(struct kunit *test, struct htw_test_file *f)
{
	struct walk *w = htw_test_array(test, 1, sizeof(*w));
	struct htw_event event;

	w->f = f;
	for (u32 i = 0; i < TIMERS; i++) {
		struct htw_add_args add = { .cookie = i, .deadline = HTW_TEST_LATER + i };

		w->state[i] = states[i % 7 % 3];
		if (w->state[i] != HTW_STATE_PENDING)
			add.deadline = 0;
		if (w->state[i] == HTW_STATE_DISARMED)
			add.flags = HTW_F_KEEP;
		if (i % 5 == 0)
			add.interval = w->state[i] == HTW_STATE_DISARMED ? 0 : HTW_TEST_LATER;
		/* What is due now is taken, so those that are due come last. */
		if (w->state[i] != HTW_STATE_DUE)
			w->id[i] = htw_test_add(f, &add);
		if (w->state[i] == HTW_STATE_DISARMED)
			KUNIT_ASSERT_EQ(test, htw_test_take(f, &event, 1), 1);
	}
	for (u32 i = 0; i < TIMERS; i++)
		if (w->state[i] == HTW_STATE_DUE)
			w->id[i] = htw_test_start(f, 0, i);
	return w;
}

static struct walk *walk(struct kunit *test)
{
	return walk_of(test, htw_test_manual(test, TICK));
}

/* Make a call for up to @count entries. Return how many there were, or an error. */
static int call(struct walk *w, unsigned int cmd, struct htw_list_args *list)
{
	int ret;

	list->entries = w->f->to;
	list->done = 0xa5a5a5a5;
	ret = htw_test_call(w->f, cmd, list);
	if (ret)
		return ret;
	htw_test_read(w->f->test, w->entries, w->f->to, list->done * ENTRY);
	return list->done;
}

/* Make calls until there are no more, and count what they report. Return: the calls. */
static u32 call_all(struct walk *w, unsigned int cmd, u32 flags, u32 count)
{
	struct htw_list_args list = { .flags = flags, .count = count };
	struct kunit *test = w->f->test;
	u32 calls = 0;
	int n;

	memset(w->seen, 0, sizeof(w->seen));
	while ((n = call(w, cmd, &list)) > 0) {
		KUNIT_ASSERT_LE(test, n, count);
		for (u32 i = 0; i < n; i++) {
			const struct htw_timer_info *info = &w->entries[i];
			const u64 cookie = info->cookie;

			KUNIT_ASSERT_LT(test, cookie, TIMERS);
			KUNIT_EXPECT_EQ(test, info->id, w->id[cookie]);
			KUNIT_EXPECT_EQ(test, info->state, w->state[cookie]);
			w->seen[cookie]++;
		}
		KUNIT_ASSERT_LT(test, calls++, 2 * TIMERS);
	}
	KUNIT_EXPECT_EQ(test, n, 0);
	return calls;
}

static bool selects(u32 flags, u16 state)
{
	return !flags || flags & BIT(state - 1);
}

/* Expect that those in some states were reported once, and no others. */
static void expect_seen(struct walk *w, u32 flags)
{
	for (u32 i = 0; i < TIMERS; i++)
		KUNIT_EXPECT_EQ_MSG(w->f->test, w->seen[i], selects(flags, w->state[i]),
				    "number %u, state %u", i, w->state[i]);
}

static void list_reports_each_once(struct kunit *test)
{
	static const u32 counts[] = { 1, 2, 15, 16, 17, 63, 64, TIMERS - 1, TIMERS };
	struct walk *w = walk(test);

	for (u32 k = 0; k < ARRAY_SIZE(counts); k++) {
		for (u32 m = 0; m < 8; m++) {
			call_all(w, HTW_LIST, m, counts[k]);
			expect_seen(w, m);
		}
	}
	KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, TIMERS);
}

/* Entries say what HTW_QUERY does. */
static void entries_tell_all(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, TICK);
	const struct htw_add_args add = {
		.deadline = 5000, .interval = 2500, .firings = 9, .cookie = ~0ull,
		.flags = HTW_F_KEEP,
	};
	struct htw_list_args list = { .entries = f->to, .count = 5 };
	struct htw_timer_info entry, info;
	const u64 id = htw_test_add(f, &add);

	for (u64 now = 1000; now < 30000; now += 7000) {
		htw_test_advance_to(f, now);
		info = htw_test_info_of(f, id);
		list.cursor = 0;
		KUNIT_ASSERT_EQ(test, htw_test_call(f, HTW_LIST, &list), 0);
		KUNIT_ASSERT_EQ(test, list.done, 1);
		htw_test_read(test, &entry, f->to, ENTRY);
		KUNIT_EXPECT_MEMEQ(test, &entry, &info, ENTRY);
	}
	/* And what there was last, where it ends. */
	list.cursor = 0;
	KUNIT_ASSERT_EQ(test, htw_test_call(f, HTW_HARVEST, &list), 0);
	KUNIT_ASSERT_EQ(test, list.done, 1);
	htw_test_read(test, &entry, f->to, ENTRY);
	KUNIT_EXPECT_MEMEQ(test, &entry, &info, ENTRY);
	htw_test_expect_no_timer(f, id);
}

/* Whatever happens to others between two calls. */
static void list_goes_on_while_others_change(struct kunit *test)
{
	struct walk *w = walk(test);
	struct htw_list_args list = { .flags = HTW_LIST_PENDING, .count = 3 };
	struct htw_cancel_args cancel;
	u32 stays = 0, next = 0;
	int n;

	while ((n = call(w, HTW_LIST, &list)) > 0) {
		for (u32 i = 0; i < n; i++)
			if (w->entries[i].cookie < TIMERS)
				w->seen[w->entries[i].cookie]++;
		/* One is started, one ends, one moves, and one becomes due. */
		htw_test_start(w->f, HTW_TEST_LATER, TIMERS);
		while (next < TIMERS && (next % 4 || w->state[next] != HTW_STATE_PENDING))
			next++;
		if (next < TIMERS) {
			KUNIT_EXPECT_EQ(test, htw_test_cancel(w->f, w->id[next], &cancel), 0);
			w->state[next++] = 0;
		}
		htw_test_start(w->f, 0, TIMERS);
	}
	KUNIT_EXPECT_EQ(test, n, 0);
	for (u32 i = 0; i < TIMERS; i++) {
		if (w->state[i] == HTW_STATE_PENDING) {
			KUNIT_EXPECT_EQ_MSG(test, w->seen[i], 1, "number %u", i);
			stays++;
		} else {
			KUNIT_EXPECT_LE(test, w->seen[i], w->state[i] == 0);
		}
	}
	KUNIT_EXPECT_GT(test, stays, 50);
}

static void states_desc(const u32 *flags, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "states %x", *flags);
}

KUNIT_ARRAY_PARAM(flags, flags_of, states_desc);

/* The timers in some states end, and the others go on. */
static void harvest_takes_what_is_asked_for(struct kunit *test)
{
	const u32 flags = *(const u32 *)test->param_value;
	struct walk *w = walk(test);
	u32 left = TIMERS;

	call_all(w, HTW_HARVEST, flags, 50);
	expect_seen(w, flags);
	for (u32 i = 0; i < TIMERS; i++) {
		if (selects(flags, w->state[i])) {
			htw_test_expect_no_timer(w->f, w->id[i]);
			left--;
		} else {
			KUNIT_EXPECT_EQ(test, htw_test_info_of(w->f, w->id[i]).state, w->state[i]);
		}
	}
	KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, left);
	KUNIT_EXPECT_EQ(test, htw_test_is_readable(w->f), flags && !(flags & HTW_LIST_DUE));
	/* There is room for as many again. */
	for (u32 i = 0; i < TIMERS; i++)
		htw_test_start(w->f, HTW_TEST_LATER, i);
}

static void cancel_all_ends_all(struct kunit *test)
{
	struct walk *w = walk(test);
	struct htw_cancel_all_args all = { .count = HTW_TEST_POISON };

	KUNIT_EXPECT_EQ(test, htw_test_call(w->f, HTW_CANCEL_ALL, &all), 0);
	KUNIT_EXPECT_EQ(test, all.count, TIMERS);
	htw_test_expect_nothing(w->f);
	for (u32 i = 0; i < TIMERS; i++)
		htw_test_expect_no_timer(w->f, w->id[i]);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(w->f, 10 * HTW_TEST_LATER), 0);
	KUNIT_EXPECT_EQ(test, htw_test_call(w->f, HTW_CANCEL_ALL, &all), 0);
	KUNIT_EXPECT_EQ(test, all.count, 0);
}

/* Before the first timer. */
static void nothing_in_a_fresh_context(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_cancel_all_args all = { .count = HTW_TEST_POISON };
	struct htw_list_args list = { .entries = f->to, .count = 5, .done = 5 };

	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_CANCEL_ALL, &all), 0);
	KUNIT_EXPECT_EQ(test, all.count, 0);
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_LIST, &list), 0);
	KUNIT_EXPECT_EQ(test, list.done, 0);
	KUNIT_EXPECT_EQ(test, htw_test_call(f, HTW_HARVEST, &list), 0);
	KUNIT_EXPECT_EQ(test, list.done, 0);
}

static void invalid_calls_do_nothing(struct kunit *test)
{
	static const struct htw_list_args lists[] = {
		{ .count = 9, .flags = 1 << 3 }, { .count = 9, .flags = 1u << 31 },
		{ .count = 9, .reserved = 1 }, { .count = 9, .cursor = U64_MAX },
		{ .count = 9, .cursor = 1ull << 40 },
	};
	static const struct htw_cancel_all_args alls[] = { { .flags = 1 }, { .reserved = 1 } };
	struct walk *w = walk(test);

	for (u32 i = 0; i < ARRAY_SIZE(lists); i++) {
		struct htw_list_args list = lists[i];

		list.entries = w->f->to;
		list.done = 5;
		KUNIT_EXPECT_EQ_MSG(test, htw_test_call(w->f, HTW_LIST, &list), -EINVAL,
				    "number %u", i);
		KUNIT_EXPECT_EQ(test, htw_test_call(w->f, HTW_HARVEST, &list), -EINVAL);
		KUNIT_EXPECT_EQ(test, list.done, 5);
	}
	for (u32 i = 0; i < ARRAY_SIZE(alls); i++) {
		struct htw_cancel_all_args all = alls[i];

		KUNIT_EXPECT_EQ(test, htw_test_call(w->f, HTW_CANCEL_ALL, &all), -EINVAL);
	}
	call_all(w, HTW_LIST, 0, 100);
	expect_seen(w, 0);
}

/* An array without room for entries is one of none. */
static void no_room_for_entries(struct kunit *test)
{
	struct walk *w = walk(test);
	struct htw_list_args list = {};

	KUNIT_EXPECT_EQ(test, call(w, HTW_LIST, &list), 0);
	KUNIT_EXPECT_EQ(test, call(w, HTW_HARVEST, &list), 0);
	KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, TIMERS);
}

/* Entries that fit before the memory ends. */
#define THERE			20u

/*
 * Where memory ends, the call does, and goes on from there; a harvest takes those whose
 * entries were written, and leaves the others.
 */
static void walk_ends_with_the_memory(struct kunit *test, unsigned int cmd)
{
	struct walk *w = walk(test);
	const unsigned long end = htw_test_pages_end(test, 1);
	struct htw_list_args list = { .count = 200 };
	u64 timers = TIMERS;

	for (u32 reported = 0; reported < TIMERS; reported += THERE) {
		list.entries = end - THERE * ENTRY - ENTRY / 2;
		KUNIT_ASSERT_EQ(test, htw_test_call(w->f, cmd, &list), 0);
		KUNIT_ASSERT_EQ(test, list.done, THERE);
		for (u32 i = 0; i < THERE; i++) {
			struct htw_timer_info entry;

			htw_test_read(test, &entry, list.entries + i * ENTRY, ENTRY);
			KUNIT_ASSERT_LT(test, entry.cookie, TIMERS);
			w->seen[entry.cookie]++;
		}
		if (cmd == HTW_HARVEST)
			timers -= THERE;
		KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, timers);

		/* No room for any entry: no timer is touched, also if the memory is read-only. */
		if (reported)
			continue;
		for (u32 k = 0; k < 2; k++) {
			struct htw_list_args none = { .count = 200, .cursor = list.cursor };
			const unsigned long page = htw_test_user_pages(test, 1);

			htw_test_protect(test, page, PROT_READ);
			none.entries = k ? page : end;
			KUNIT_EXPECT_EQ(test, htw_test_call(w->f, cmd, &none), -EFAULT);
			KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, timers);
		}
	}
	for (u32 i = 0; i < TIMERS; i++)
		KUNIT_EXPECT_EQ(test, w->seen[i], 1);
}

static void list_ends_with_the_memory(struct kunit *test)
{
	walk_ends_with_the_memory(test, HTW_LIST);
}

static void harvest_ends_with_the_memory(struct kunit *test)
{
	walk_ends_with_the_memory(test, HTW_HARVEST);
}

/* The results cannot be written: nothing ends. */
static void walks_without_room_for_the_answer(struct kunit *test)
{
	struct walk *w = walk(test);
	const unsigned long first = htw_test_user_pages(test, 2), second = first + PAGE_SIZE;
	struct htw_list_args list = { .entries = w->f->to, .count = 9 };
	unsigned long arg;

	/* Zeroes, which are valid. */
	htw_test_protect(test, second, PROT_READ);
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(w->f, HTW_CANCEL_ALL, second), -EFAULT);
	arg = second - offsetof(struct htw_list_args, done);
	htw_test_write(test, arg, &list, offsetof(struct htw_list_args, done));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(w->f, HTW_HARVEST, arg), -EFAULT);
	/* The cursor is in a page that is read-only, and @done in one that is not. */
	htw_test_protect(test, first, PROT_READ);
	htw_test_protect(test, second, PROT_READ | PROT_WRITE);
	list.entries = 0;
	arg = second - offsetof(struct htw_list_args, count);
	htw_test_write(test, second, &list.count,
		       sizeof(list) - offsetof(struct htw_list_args, count));
	KUNIT_EXPECT_EQ(test, htw_test_ioctl(w->f, HTW_HARVEST, arg), -EFAULT);
	KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, TIMERS);
	call_all(w, HTW_LIST, 0, 100);
	expect_seen(w, 0);
}

/* A signal ends a walk that has entries, a fatal one each; what was done holds. */
static void signals_end_walks(struct kunit *test)
{
	struct walk *w = walk(test);
	struct htw_cancel_all_args all = {};
	struct htw_list_args list = { .count = 100 };
	u32 done;
	int ret;

	set_thread_flag(TIF_SIGPENDING);
	ret = call(w, HTW_HARVEST, &list);
	clear_thread_flag(TIF_SIGPENDING);
	KUNIT_EXPECT_GT(test, ret, 0);
	KUNIT_EXPECT_LT(test, ret, 100);
	done = ret;
	KUNIT_EXPECT_EQ(test, htw_test_info(w->f).timers, TIMERS - done);

	htw_test_be_killed();
	ret = htw_test_call(w->f, HTW_CANCEL_ALL, &all);
	htw_test_spare();
	KUNIT_EXPECT_EQ(test, ret, -EINTR);
	done = TIMERS - htw_test_info(w->f).timers;
	KUNIT_EXPECT_LT(test, done, TIMERS);

	KUNIT_EXPECT_EQ(test, htw_test_call(w->f, HTW_CANCEL_ALL, &all), 0);
	KUNIT_EXPECT_EQ(test, all.count, TIMERS - done);
	htw_test_expect_nothing(w->f);
}

static struct kunit_case htw_walk_cases[] = {
	KUNIT_CASE(list_reports_each_once),
	KUNIT_CASE(entries_tell_all),
	KUNIT_CASE(list_goes_on_while_others_change),
	KUNIT_CASE_PARAM(harvest_takes_what_is_asked_for, flags_gen_params),
	KUNIT_CASE(cancel_all_ends_all),
	KUNIT_CASE(nothing_in_a_fresh_context),
	KUNIT_CASE(invalid_calls_do_nothing),
	KUNIT_CASE(no_room_for_entries),
	KUNIT_CASE(list_ends_with_the_memory),
	KUNIT_CASE(harvest_ends_with_the_memory),
	KUNIT_CASE(walks_without_room_for_the_answer),
	KUNIT_CASE(signals_end_walks),
	{}
};

static struct kunit_suite htw_walk_suite = {
	.name = "htw_walk",
	.test_cases = htw_walk_cases,
};

kunit_test_suite(htw_walk_suite);

MODULE_DESCRIPTION("KUnit: calls that walk over all timers");
MODULE_LICENSE("GPL");
