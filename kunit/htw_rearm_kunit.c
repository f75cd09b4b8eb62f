// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: periodic timers between their event and their wheel
 *
 * A reader takes an event, drops the context's lock, and then starts the timer again. Calls that
 * come in between, on other CPUs, find the timer in neither. Here the cases read by the first of
 * the two steps, and make the calls before the second.
 */
#include <kunit/test.h>
#include <linux/timekeeping.h>

#include "../core/event.h"
#include "../core/table_enable.h"
#include "htw_kunit.h"

#define TICK			((u64)htw_tick_ns)
#define HOUR			(3600 * (u64)NSEC_PER_SEC)
#define COOKIE			7

/*
 * @ctx: its clock stands at tick 10
 * @id: a timer that is due at tick 20, and then each 10 ticks; its first event has been read
 * @arg: the program's memory for arguments
 */
struct rearm_test {
	struct htw_context *ctx;
	u64 id;
	void __user *arg;
};

/* Take the only event that is queued, as a reader does before it starts the timer again. */
static void read_first_step(struct kunit *test, struct htw_context *ctx)
{
	const u64 now = htw_context_now(ctx);
	struct htw_event event;
	struct htw_timer *t;
	u32 freed = 0;

	spin_lock_bh(&ctx->lock);
	t = list_first_entry(&ctx->expired, struct htw_timer, node.list);
	htw_event_report(&event, ctx, t, now);
	list_del(&t->node.list);
	htw_context_add_expired(ctx, -1);
	if (htw_event_consume(ctx, t, now, &freed))
		list_add_tail(&t->node.list, &ctx->rearm);
	spin_unlock_bh(&ctx->lock);
	KUNIT_ASSERT_EQ(test, freed, 0);
	KUNIT_ASSERT_FALSE(test, list_empty(&ctx->rearm));
}

static struct rearm_test *rearm_test(struct kunit *test, bool table)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	const struct htw_add add = {
		.deadline = 10 * TICK, .interval = 10 * TICK, .cookie = COOKIE,
	};
	struct rearm_test *r = htw_test_array(test, 1, sizeof(*r));

	r->ctx = htw_test_context(test);
	r->arg = (void __user *)htw_test_user_pages(test, 1);
	KUNIT_ASSERT_EQ(test, htw_setup_context(r->ctx, &setup), 0);
	if (table)
		KUNIT_ASSERT_EQ(test, htw_table_enable(r->ctx), 0);
	r->id = htw_test_add(r->ctx, &add);
	KUNIT_ASSERT_NE(test, r->id, 0);
	KUNIT_ASSERT_EQ(test, htw_advance_context(r->ctx, 10 * TICK), 1);
	read_first_step(test, r->ctx);
	return r;
}

/* The timer is gone, and comes back in no way. */
static void expect_gone(struct kunit *test, struct rearm_test *r)
{
	struct htw_query query = { .id = r->id };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_test_query(r->ctx, &query), -ENOENT);
	KUNIT_EXPECT_EQ(test, htw_test_nr_timers(r->ctx), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&r->ctx->rearm));
	KUNIT_EXPECT_EQ(test, htw_test_read(r->ctx, &event, 1), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(r->ctx, 100 * TICK), 0);
}

/* The timer expires at a tick, once. */
static void expect_at(struct kunit *test, struct rearm_test *r, u64 tick)
{
	struct htw_event event;

	KUNIT_EXPECT_TRUE(test, list_empty(&r->ctx->rearm));
	KUNIT_EXPECT_EQ(test, htw_advance_context(r->ctx, tick * TICK - 1), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(r->ctx, tick * TICK), 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(r->ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.id, r->id);
	KUNIT_EXPECT_EQ(test, event.deadline, tick * TICK);
}

static void cancelled(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	struct htw_cancel cancel = { .id = r->id };

	KUNIT_EXPECT_EQ(test, htw_test_cancel(r->ctx, &cancel), 0);
	KUNIT_EXPECT_EQ(test, cancel.remaining, 10 * TICK);
	KUNIT_EXPECT_EQ(test, cancel.cookie, COOKIE);
	expect_gone(test, r);
}

static void cancelled_with_all(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	struct htw_cancel_all all = {};

	KUNIT_ASSERT_EQ(test, copy_to_user(r->arg, &all, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_cancel_all(r->ctx, r->arg), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&all, r->arg, sizeof(all)), 0);
	KUNIT_EXPECT_EQ(test, all.count, 1);
	expect_gone(test, r);
}

static void harvested(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	struct htw_query __user *entries = r->arg + sizeof(struct htw_list);
	struct htw_list list = { .entries = (unsigned long)entries, .count = 2 };
	struct htw_query entry;

	KUNIT_ASSERT_EQ(test, copy_to_user(r->arg, &list, sizeof(list)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_list(r->ctx, r->arg, true), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&list, r->arg, sizeof(list)), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&entry, entries, sizeof(entry)), 0);
	KUNIT_ASSERT_EQ(test, list.done, 1);
	KUNIT_EXPECT_EQ(test, entry.id, r->id);
	KUNIT_EXPECT_EQ(test, entry.deadline, 20 * TICK);
	KUNIT_EXPECT_EQ(test, entry.interval, 10 * TICK);
	expect_gone(test, r);
}

static void moved(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	const struct htw_mod mod = {
		.id = r->id, .flags = HTW_MOD_DEADLINE | HTW_F_ABS, .deadline = 50 * TICK,
	};

	KUNIT_EXPECT_EQ(test, htw_test_mod(r->ctx, &mod), 0);
	expect_at(test, r, 50);
	expect_at(test, r, 60);
}

/* A change of anything else leaves it to the reader to start the timer. */
static void changed(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	const struct htw_mod mod = { .id = r->id, .flags = HTW_MOD_COOKIE, .cookie = 8 };
	struct htw_query query = { .id = r->id };
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, htw_test_mod(r->ctx, &mod), 0);
	KUNIT_EXPECT_EQ(test, htw_test_query(r->ctx, &query), 0);
	KUNIT_EXPECT_EQ(test, query.state, HTW_STATE_PENDING);
	KUNIT_EXPECT_EQ(test, query.deadline, 20 * TICK);
	KUNIT_EXPECT_EQ(test, query.remaining, 10 * TICK);
	KUNIT_EXPECT_EQ(test, query.cookie, 8);
	KUNIT_EXPECT_FALSE(test, list_empty(&r->ctx->rearm));
	/* Any reader does that. */
	KUNIT_EXPECT_EQ(test, htw_test_read(r->ctx, &event, 1), 0);
	expect_at(test, r, 20);
}

/* HTW_NEXT looks only at the wheel where it may. */
static void comes_next(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	struct htw_next next = {};

	htw_test_start(test, r->ctx, 21 * TICK, 1);
	KUNIT_ASSERT_EQ(test, copy_to_user(r->arg, &next, sizeof(next)), 0);
	KUNIT_EXPECT_EQ(test, htw_op_next(r->ctx, r->arg), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&next, r->arg, sizeof(next)), 0);
	KUNIT_EXPECT_EQ(test, next.timer.id, r->id);
	KUNIT_EXPECT_EQ(test, next.timer.deadline, 20 * TICK);
}

/* HTW_MOD_UNREAD: for an override that is later than the event. */
static void taken_back(struct kunit *test)
{
	for (u64 override = 10; override <= 15; override += 5) {
		struct rearm_test *r = rearm_test(test, true);
		const struct htw_timer *t = htw_test_slot(r->ctx, r->id);
		const struct htw_mod unread = {
			.id = r->id, .flags = HTW_MOD_UNREAD, .deadline = 10 * TICK, .firings = 1,
		};
		struct htw_event event;

		htw_timer_page(t)->table[htw_timer_index(t)] = override * TICK;
		KUNIT_EXPECT_EQ(test, htw_test_mod(r->ctx, &unread),
				override > 10 ? 0 : -EALREADY);
		if (override == 10)
			KUNIT_EXPECT_EQ(test, htw_test_read(r->ctx, &event, 1), 0);
		expect_at(test, r, override > 10 ? override : 20);
	}
}

/* A context is closed while one of its timers is in no wheel. */
static void closed(struct kunit *test)
{
	struct rearm_test *r = rearm_test(test, false);
	struct htw_user *user = htw_test_user(test);

	kunit_release_action(test, htw_test_close, r->ctx);
	rcu_barrier();
	flush_workqueue(htw_wq);
	KUNIT_EXPECT_EQ(test, atomic_read(&user->closing), 0);
	htw_test_expect_empty(test);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
static void set_by(s64 ns)
{
	struct timespec64 ts = ns_to_timespec64(ktime_get_real_ns() + ns);

	WARN_ON_ONCE(do_settimeofday64(&ts));
}

/* HTW_F_CANCEL_ON_SET: the clock is set once more before the timer is started again. */
static void clock_is_set(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = CLOCK_REALTIME };
	const struct htw_add add = {
		.flags = HTW_F_CANCEL_ON_SET, .deadline = 1000 * HOUR, .interval = 1000 * HOUR,
	};
	struct htw_context *ctx = htw_test_context(test);
	struct htw_event event;
	u64 id;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	id = htw_test_add(ctx, &add);
	set_by(HOUR);
	htw_test_wait(test, ctx, 1);
	read_first_step(test, ctx);
	set_by(-(s64)HOUR);
	htw_test_wait(test, ctx, 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&ctx->rearm));
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, event.id, id);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_CLOCK_SET | HTW_EVENT_MORE);
	KUNIT_EXPECT_LT(test, event.fired, event.deadline);
}
#endif

static struct kunit_case htw_rearm_cases[] = {
	KUNIT_CASE(cancelled),
	KUNIT_CASE(cancelled_with_all),
	KUNIT_CASE(harvested),
	KUNIT_CASE(moved),
	KUNIT_CASE(changed),
	KUNIT_CASE(comes_next),
	KUNIT_CASE(taken_back),
	KUNIT_CASE(closed),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE(clock_is_set),
#endif
	{}
};

static struct kunit_suite htw_rearm_suite = {
	.name = "htw_rearm",
	.init = htw_test_init,
	.test_cases = htw_rearm_cases,
};

kunit_test_suite(htw_rearm_suite);

MODULE_DESCRIPTION("KUnit: periodic timers between their event and their wheel");
MODULE_LICENSE("GPL");
