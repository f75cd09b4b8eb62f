// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: bases and contexts, used as the device uses them
 *
 * Cases for any kernel come first. Then, on ARCH=um with time travel, pacing: the clock
 * stands still while code runs and jumps to the next timer when the machine is idle, so
 * half an hour takes no time and lateness is exact. Last, on SMP, concurrency: each timer
 * has its own cookie, and however the threads interleave, each cookie has to end once.
 *
 * The code under test has no hooks for tests. A case that has to run inside a turn puts an
 * entry with its own function on the context's wait queue.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/sort.h>
#include <linux/workqueue.h>

#include "../compat.h"
#include "../core/callout.h"
#include "htw_kunit.h"

/* Timers that are delivered in a turn at most. */
#define CHUNK			HTW_TURN_UNITS

/* Long enough to start some hundred timers even on a busy host. */
#define ALL_STARTED_NS		(3 * (u64)NSEC_PER_SEC)

static u64 htw_next_tick(void)
{
	return htw_test_tick_up(htw_now() + 1);
}

static struct htw_base *this_base(void)
{
	return htw_test_base(raw_smp_processor_id());
}

static inline struct htw_pacer *this_pacer(void)
{
	return per_cpu_ptr(&htw_pacers, raw_smp_processor_id());
}

/*
 * On any kernel
 */

/* Timers that are started on an isolated CPU wait on one that is isolated in no way. */
static void waits_beside_isolated_cpus(struct kunit *test)
{
	const unsigned int last = cpumask_last(cpu_online_mask);
	struct cpumask *timers = kunit_kzalloc(test, cpumask_size(), GFP_KERNEL);
	struct cpumask *domain = kunit_kzalloc(test, cpumask_size(), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, timers);
	KUNIT_ASSERT_NOT_NULL(test, domain);

	/* No CPU is isolated. */
	cpumask_copy(timers, cpu_possible_mask);
	cpumask_copy(domain, cpu_possible_mask);
	for (unsigned int cpu = 0; cpu <= last; cpu++)
		KUNIT_EXPECT_EQ(test, htw_isolation_cpu_beside_masks(cpu, timers, domain), cpu);

	/* CPU 0 is isolated from timers, the following ones but the last from the scheduler. */
	cpumask_clear_cpu(0, timers);
	for (unsigned int cpu = 1; cpu < last; cpu++)
		cpumask_clear_cpu(cpu, domain);
	for (unsigned int cpu = 0; cpu <= last; cpu++)
		KUNIT_EXPECT_EQ(test, htw_isolation_cpu_beside_masks(cpu, timers, domain), last);

	/* Without a CPU to go to they stay. */
	cpumask_clear(timers);
	for (unsigned int cpu = 0; cpu <= last; cpu++)
		KUNIT_EXPECT_EQ(test, htw_isolation_cpu_beside_masks(cpu, timers, domain), cpu);

	/* The kernels of these tests isolate none. */
	for (unsigned int cpu = 0; cpu <= last; cpu++)
		KUNIT_EXPECT_FALSE(test, htw_isolation_covers(cpu));
}

/* Read one event; without one the case ends. */
static struct htw_event read_one(struct kunit *test, struct htw_context *ctx)
{
	struct htw_event event = {};

	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	return event;
}

static void past_deadline_expires_at_once(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_event event;
	u64 before;

	msleep(20);
	before = htw_now();
	htw_test_start(test, ctx, before - 10 * NSEC_PER_MSEC, 1);
	htw_test_wait(test, ctx, 1);
	event = read_one(test, ctx);
	KUNIT_EXPECT_GE(test, event.fired, before);
	KUNIT_EXPECT_EQ(test, event.deadline, before - 10 * NSEC_PER_MSEC);
}

static void equal_deadlines_expire_in_order(struct kunit *test)
{
	const u32 count = HTW_TEST_MANY;
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_context *ctx = htw_test_context(test);
	const u64 deadline = htw_next_tick() + (u64)count * 20 * NSEC_PER_USEC;

	migrate_disable();
	/* Compared by tick: the order within one does not matter. */
	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, deadline - i % 1000, i);
	migrate_enable();
	htw_test_wait(test, ctx, count);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count), count);
	for (u32 i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(test, events[i].cookie, i);
		KUNIT_ASSERT_GE(test, events[i].fired, deadline);
	}
}

/*
 * A timer that is due when it is moved does not overtake one that came due within the tick,
 * even if delivery is behind: here, because softirqs have to wait.
 */
static void due_timers_stay_in_order_behind_others(struct kunit *test)
{
	const u64 ms = NSEC_PER_MSEC;
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = 20 * ms, .levels = 2, .slots = { 64, 64 },
	};
	struct htw_context *ctx = htw_test_context(test);
	const u64 tick = roundup(htw_now(), setup.tick_ns) + setup.tick_ns;
	/* Delivered too late, waiting for its tick, and due at once. */
	const u64 deadlines[] = { tick, tick + 5 * ms, tick + 6 * ms };
	const u64 moved_at[] = { 0, tick + ms, tick + 7 * ms };
	struct htw_event events[3];
	struct htw_section s;
	u64 ids[3];

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	for (u32 i = 0; i < 3; i++)
		ids[i] = htw_test_start(test, ctx, KTIME_MAX, i);
	local_bh_disable();
	for (u32 i = 0; i < 3; i++) {
		const struct htw_mod mod = {
			.id = ids[i], .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
			.deadline = deadlines[i],
		};

		while (htw_now() < moved_at[i])
			ndelay(1000);
		htw_section_begin(&s, ctx);
		KUNIT_EXPECT_EQ(test, htw_section_mod(&s, htw_section_find(&s, ids[i]), &mod), 0);
		htw_section_end(&s);
	}
	local_bh_enable();
	htw_test_wait(test, ctx, 3);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, 3), 3);
	for (u32 i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, events[i].cookie, i);
		KUNIT_EXPECT_GE(test, events[i].fired, events[i].deadline);
	}
}

static void cancelled_timer_does_not_expire(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 deadline = htw_next_tick() + ALL_STARTED_NS;
	struct htw_cancel cancel = { .id = htw_test_start(test, ctx, deadline, 7) };
	struct htw_event event;

	htw_test_start(test, ctx, deadline + htw_tick_ns, 8);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	KUNIT_EXPECT_EQ(test, cancel.cookie, 7);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -ENOENT);
	htw_test_wait(test, ctx, 1);
	event = read_one(test, ctx);
	KUNIT_EXPECT_EQ(test, event.cookie, 8);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
}

static void closing_stops_timers(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);

	for (unsigned int i = 0; i < 1000; i++)
		htw_test_start(test, ctx, htw_now() + i * i * NSEC_PER_SEC + NSEC_PER_SEC, i);
	kunit_release_action(test, htw_test_close, ctx);
	htw_test_expect_empty(test);
}

/*
 * Uses up time in softirq: a turn that has delivered timers to a context wakes up the
 * context's waiters, and thus calls this.
 */
struct burner {
	wait_queue_entry_t wait;
	u64 usecs;
	unsigned int turns;
	u64 ended[64];	/* of each turn */
};

static int burner_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct burner *b = container_of(wait, struct burner, wait);
	const u64 until = htw_now() + b->usecs * NSEC_PER_USEC;

	/* A delay may be too short by the clock that the pacer reads. */
	udelay(b->usecs);
	while (htw_now() < until)
		udelay(1);
	b->ended[b->turns++ % ARRAY_SIZE(b->ended)] = htw_now();
	return 0;
}

static void burner_add(struct burner *b, struct htw_context *ctx, u64 usecs)
{
	memset(b, 0, sizeof(*b));
	init_waitqueue_func_entry(&b->wait, burner_wake);
	b->usecs = usecs;
	add_wait_queue(&ctx->wait, &b->wait);
}

/* Not through a wake-up of its own: only the burner's may take time. */
static void burner_wait(struct kunit *test, struct htw_context *ctx, u32 count)
{
	for (unsigned int i = 0; i < 10000 && READ_ONCE(ctx->nr_expired) < count; i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, READ_ONCE(ctx->nr_expired), count);
}

/*
 * Turns that take long because of a waiter. The gap for that is divided, and the waiter is not
 * woken again before it is over: waking takes no more than half of the CPU.
 */
static void runs_leave_half_of_the_cpu(struct kunit *test)
{
	const u32 count = 10 * CHUNK;
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_context *ctx = htw_test_context(test);
	const u64 deadline = htw_next_tick() + ALL_STARTED_NS;
	struct burner burner;

	burner_add(&burner, ctx, NSEC_PER_MSEC / NSEC_PER_USEC);
	migrate_disable();
	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, deadline, i);
	migrate_enable();
	burner_wait(test, ctx, count);
	remove_wait_queue(&ctx->wait, &burner.wait);
	KUNIT_ASSERT_LE(test, burner.turns, ARRAY_SIZE(burner.ended));
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count), count);
	for (u32 i = 1; i < burner.turns; i++)
		KUNIT_EXPECT_GE(test, burner.ended[i] - burner.ended[i - 1],
				2 * NSEC_PER_MSEC - HTW_RUN_NS);
	KUNIT_EXPECT_GE(test, burner.turns, 2);
}

/* What is kept of slack has 26 significant bits, and is never more than was given. */
static void slack_is_rounded_down(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, htw_arith_decode_slack(htw_arith_encode_slack(0)), 0);
	for (unsigned int shift = 0; shift <= 64 - 26; shift++) {
		const u64 slack = (BIT_ULL(26) - 1) << shift, more = BIT_ULL(shift) - 1;

		KUNIT_EXPECT_EQ(test, htw_arith_decode_slack(htw_arith_encode_slack(slack)), slack);
		KUNIT_EXPECT_EQ(test, htw_arith_decode_slack(htw_arith_encode_slack(slack | more)),
				slack);
	}
}

/*
 * A timer with slack that is moved waits for the time that ends in most zero bits, as at an add,
 * whether or not others wait for another one. On a manual clock there is no skew.
 */
static void moved_timer_keeps_its_slack(struct kunit *test)
{
	const struct htw_setup setup = { .flags = HTW_SETUP_CLOCK, .clock = HTW_CLOCK_MANUAL };
	const struct htw_add add = { .deadline = 100 * htw_tick_ns, .slack = 30 * htw_tick_ns };
	struct htw_context *ctx = htw_test_context(test);
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE, .deadline = 10 * htw_tick_ns };
	const u64 tick = htw_tick_within(mod.deadline, add.slack, htw_tick_ns);

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	KUNIT_EXPECT_EQ(test, ctx->private_base->skew, 0);
	KUNIT_ASSERT_GT(test, tick, 20);
	htw_test_start(test, ctx, 20 * htw_tick_ns, 1);
	mod.id = htw_test_add(ctx, &add);
	KUNIT_EXPECT_EQ(test, htw_test_mod(ctx, &mod), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, 20 * htw_tick_ns), 1);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, (tick - 1) * htw_tick_ns), 0);
	KUNIT_EXPECT_EQ(test, htw_advance_context(ctx, tick * htw_tick_ns), 1);
}

/* All bases of a user have its skew, on whatever clock they wait; it is no address. */
static void bases_have_their_users_skew(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE, .clock = CLOCK_BOOTTIME,
		.tick_ns = 7 * NSEC_PER_MSEC, .levels = 1, .slots = { 8 },
	};
	struct htw_context *ctx = htw_test_context(test), *other = htw_test_context(test);
	struct htw_timer *t;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	t = htw_test_slot(other, htw_test_start(test, other, KTIME_MAX, 1));
	KUNIT_ASSERT_PTR_EQ(test, ctx->user, other->user);
	KUNIT_EXPECT_EQ(test, ctx->private_base->skew, ctx->user->bases.skew);
	KUNIT_EXPECT_EQ(test, htw_test_base(t->node.cpu)->skew, ctx->user->bases.skew);
	KUNIT_EXPECT_NE(test, ctx->user->bases.skew, 0);
	KUNIT_EXPECT_NE(test, ctx->user->bases.skew, (u64)(unsigned long)ctx->user);
}

/* Of @bits bits at most, all lengths equally likely. */
static u64 random_ns(struct rnd_state *rnd, unsigned int bits)
{
	u64 r = (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);

	return r >> (64 - bits + prandom_u32_state(rnd) % bits);
}

/*
 * The tick of a timer with slack, whatever its user's skew. A wheel whose tick is 1 ns shows the
 * time that is chosen, which other wheels round up.
 */
static void slack_with_a_skew(struct kunit *test)
{
	static const struct htw_geometry geo = { 1, { 8 } };
	static const u32 ticks[] = { 1, 100000, NSEC_PER_MSEC, 7777777, 10 * NSEC_PER_MSEC };
	struct htw_bases *set = &htw_test_context(test)->user->bases;
	struct htw_base *bases[ARRAY_SIZE(ticks)];
	unsigned int apart = 0, tried = 0;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 3);
	for (unsigned int b = 0; b < ARRAY_SIZE(ticks); b++) {
		bases[b] = htw_bases_create_private(set, HTW_MANUAL, &geo, ticks[b]);
		KUNIT_ASSERT_NOT_NULL(test, bases[b]);
	}
	for (unsigned int i = 0; i < HTW_TEST_MANY / 10; i++) {
		const u64 deadline = 1 + random_ns(&rnd, 60), slack = 1 + random_ns(&rnd, 40);
		const u64 skew = i % 8 ? random_ns(&rnd, 64) : i % 16 ? U64_MAX : 0;
		const u64 most = BIT_ULL(ilog2(slack)) / 8, zeros = max(most * 4, 1);
		u64 time = 0, tick, plain;

		for (unsigned int b = 0; b < ARRAY_SIZE(ticks); b++) {
			struct htw_base *base = bases[b];
			const u64 first = htw_tick_up(deadline, ticks[b]);

			base->skew = skew;
			spin_lock_bh(&base->lock);
			tick = htw_base_choose_tick(base, deadline, slack, 0);
			base->skew = 0;
			plain = htw_base_choose_tick(base, deadline, slack, 0);
			spin_unlock_bh(&base->lock);

			KUNIT_ASSERT_EQ(test, plain, htw_tick_within(deadline, slack, ticks[b]));
			if (slack < ticks[b]) {
				KUNIT_ASSERT_EQ(test, tick, first);
				continue;
			}
			/* Never early, never later than allowed. */
			KUNIT_ASSERT_GE(test, tick, first);
			KUNIT_ASSERT_LE(test, tick * ticks[b], deadline + slack);
			if (!b) {
				const u64 part = most ? skew % most : 0;

				/* The time ends in zeros, less the skew: an eighth of the slack. */
				time = tick;
				KUNIT_ASSERT_EQ(test, (time + part) % zeros, 0);
				apart += time != plain;
				tried += part && most;
			}
			KUNIT_ASSERT_EQ(test, tick, min(htw_tick_up(time, ticks[b]),
							div64_u64(deadline + slack, ticks[b])));
		}
	}
	/* Users whose skews differ do not meet. */
	KUNIT_EXPECT_GE(test, apart, tried * 9 / 10);
	KUNIT_EXPECT_GT(test, tried, HTW_TEST_MANY / 20);
	for (unsigned int b = 0; b < ARRAY_SIZE(ticks); b++)
		htw_bases_free_private(bases[b]);
}

/* Timers of a user with about the same slack, and windows that meet, have the same time. */
static void slack_of_a_user_meets(struct kunit *test)
{
	static const struct htw_geometry geo = { 1, { 8 } };
	struct htw_bases *set = &htw_test_context(test)->user->bases;
	struct htw_base *base = htw_bases_create_private(set, HTW_MANUAL, &geo, 1);

	KUNIT_ASSERT_NOT_NULL(test, base);
	for (unsigned int i = 0; i < 64; i++) {
		const u64 common = (i + 100) * BIT_ULL(28), skew = i * 0x123456789abcdef;
		const u64 part = skew % BIT_ULL(24);

		base->skew = skew;
		spin_lock_bh(&base->lock);
		for (u64 k = 0; k < 100; k++) {
			const u64 deadline = common - BIT_ULL(24) - k * NSEC_PER_MSEC;
			const u64 slack = BIT_ULL(27) + k * NSEC_PER_MSEC;

			KUNIT_ASSERT_EQ(test, htw_base_choose_tick(base, deadline, slack, 0),
					common - part);
		}
		spin_unlock_bh(&base->lock);
	}
	htw_bases_free_private(base);
}

/* Levels that are larger than a page, that end in the middle of one, and that are tiny. */
static void base_has_memory_for_its_levels(struct kunit *test)
{
	static const struct htw_geometry geos[] = {
		{ 1, { 2 } }, { 1, { 100 } }, { 2, { 64, 64 } }, { 5, { 256, 64, 64, 64, 64 } },
		{ 3, { 60, 60, 12 } }, { 2, { 2048, 2048 } },
	};
	struct htw_bases *set = &htw_test_context(test)->user->bases;

	for (unsigned int i = 0; i < ARRAY_SIZE(geos); i++) {
		struct htw_base *base = htw_bases_create_private(set, HTW_MANUAL, &geos[i], 1000);
		const struct htw_level *last;
		unsigned long *end;

		KUNIT_ASSERT_NOT_NULL(test, base);
		KUNIT_EXPECT_EQ(test, base->wheel.levels, geos[i].levels);
		KUNIT_EXPECT_EQ(test, base->levels_bytes, htw_geometry_bytes(&geos[i]));
		/* The bitmaps are the end of it. */
		last = &base->wheel.level[geos[i].levels - 1];
		end = last->occupied + BITS_TO_LONGS(last->nr_buckets);
		KUNIT_EXPECT_PTR_EQ(test, (void *)end,
				    (void *)base->wheel.level + base->levels_bytes);
		set_bit(last->nr_buckets - 1, last->occupied);
		htw_bases_free_private(base);
	}
}

/* A level of more bytes than the kernel allocates at once. */
static void base_without_memory_is_not_made(struct kunit *test)
{
	static const struct htw_geometry geo = { .levels = 1, .slots = { BIT(26) } };
	struct htw_bases *set = &htw_test_context(test)->user->bases;

	KUNIT_EXPECT_NULL(test, htw_bases_create_private(set, HTW_MANUAL, &geo, 1000));
}

/*
 * Start a timer and wait until it is due, all of that with bottom halves off: the pacer does not
 * deliver it before due_base_end(). Return the base that it is on.
 */
static struct htw_base *due_base_begin(struct kunit *test, struct htw_context *ctx)
{
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE | HTW_F_ABS };
	struct htw_section s;

	migrate_disable();
	/* A call may sleep; its timer is moved to the present by a section, which does not. */
	mod.id = htw_test_start(test, ctx, KTIME_MAX, 1);
	local_bh_disable();
	mod.deadline = htw_now() + NSEC_PER_MSEC;
	htw_section_begin(&s, ctx);
	KUNIT_EXPECT_EQ(test, htw_section_mod(&s, htw_section_find(&s, mod.id), &mod), 0);
	htw_section_end(&s);
	/* By its own clock: a busy host makes delays shorter than that shows. */
	while (htw_now() < mod.deadline + 2 * htw_tick_ns)
		udelay(1);
	return this_base();
}

static void due_base_end(struct kunit *test, struct htw_context *ctx)
{
	local_bh_enable();
	migrate_enable();
	htw_test_wait(test, ctx, 1);
}

/* Give a base a turn of a pacer. */
static enum htw_served serve_once(struct htw_base *base, struct htw_pacer *pacer)
{
	struct htw_turn turn = { .pacer = pacer, .units = HTW_TURN_UNITS, .began = htw_now() };
	enum htw_served served;

	rcu_read_lock();
	served = base->job.serve(&base->job, &turn);
	rcu_read_unlock();
	return served;
}

/* A base that has been moved to another CPU's pacer is left alone by the one that it was on. */
static void turn_of_a_former_pacer_does_nothing(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_base *base = due_base_begin(test, ctx);

	KUNIT_EXPECT_EQ(test, serve_once(base, NULL), HTW_SERVED_MORE);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	KUNIT_EXPECT_NE(test, base->wheel.next, 0);
	due_base_end(test, ctx);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/* Where a turn may take longer than the waiter says, the next one wakes no one. */
static void turn_delivers_a_batch(struct kunit *test)
{
	const u32 count = 10 * CHUNK;
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_context *ctx = htw_test_context(test);
	const u64 deadline = htw_next_tick() + ALL_STARTED_NS;
	struct burner burner;
	struct htw_pacer *p;
	u64 runs, exhausted;

	burner_add(&burner, ctx, 2 * HTW_RUN_NS / NSEC_PER_USEC);
	migrate_disable();
	p = this_pacer();
	runs = READ_ONCE(p->runs);
	exhausted = READ_ONCE(p->exhausted);
	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, deadline, i);
	migrate_enable();
	burner_wait(test, ctx, count);
	remove_wait_queue(&ctx->wait, &burner.wait);
	/* Each turn has used up the time of a run, so a run delivers no more. */
	KUNIT_EXPECT_GE(test, burner.turns, count / CHUNK);
	KUNIT_EXPECT_GE(test, READ_ONCE(p->runs) - runs, count / CHUNK);
	KUNIT_EXPECT_GE(test, READ_ONCE(p->exhausted) - exhausted, count / CHUNK - 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count), count);
	for (u32 i = CHUNK; i < count; i++)
		KUNIT_EXPECT_LT(test, events[i - CHUNK].fired, events[i].fired);
}

/* Whatever time has passed without work, a section finds the wheel at the present tick. */
static void a_section_brings_the_wheel_to_the_present(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_section s;
	u64 now, seen, cursor, tick;

	htw_test_start(test, ctx, htw_now() + 1000 * (u64)NSEC_PER_SEC, 1);
	for (u64 pause = htw_tick_ns; pause < 300 * (u64)NSEC_PER_SEC; pause *= 10) {
		/* The middle of a tick. */
		now = htw_next_tick() + pause + htw_tick_ns / 2;
		htw_test_sleep_until(test, now);
		htw_section_begin(&s, ctx);
		seen = s.now;
		tick = htw_base_tick(s.base, s.now);
		cursor = s.base->wheel.cursor;
		htw_section_end(&s);
		KUNIT_EXPECT_GE(test, seen, now);
		KUNIT_EXPECT_LT(test, seen, now + 4 * CLOCK_NS);
		KUNIT_EXPECT_EQ(test, cursor, tick + 1);
	}
}

/* Contexts that a turn comes to, and how many timers each has, all at one tick. */
struct turn_load {
	const char *name;
	u32 contexts, each, last;
	u32 delivered;
	enum htw_served served;
};

static const struct turn_load turn_loads[] = {
	{ "fewer timers than units", 0, 0, 100, 100, HTW_SERVED_DONE },
	{ "one context", 0, 0, 200, 128, HTW_SERVED_MORE },
	/* Each context but the first takes 16 units. */
	{ "two contexts", 1, 1, 200, 1 + 127, HTW_SERVED_MORE },
	{ "three contexts", 2, 1, 200, 2 + 128 - 1 - 17, HTW_SERVED_MORE },
	{ "six contexts", 5, 1, 200, 5 + 128 - 1 - 4 * 17, HTW_SERVED_MORE },
	{ "contexts with many", 2, 50, 200, 100 + 128 - 50 - 66, HTW_SERVED_MORE },
	{ "all but the last unit", 7, 1, 8, 7 + 8, HTW_SERVED_DONE },
	{ "all units", 7, 1, 9, 7 + 9, HTW_SERVED_MORE },
};

static void get_turn_load_desc(const struct turn_load *load, char *desc)
{
	strscpy(desc, load->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(turn_loads, turn_loads, get_turn_load_desc);

/* A turn of 128 units: a timer takes one, and a change to another context 16. */
static void turn_has_units(struct kunit *test)
{
	const struct turn_load *load = test->param_value;
	const u64 deadline = htw_next_tick() + 20 * htw_tick_ns;
	struct htw_context *ctx[8] = {};
	enum htw_served served;
	u32 delivered = 0;

	migrate_disable();
	for (u32 i = 0; i <= load->contexts; i++) {
		const u32 count = i < load->contexts ? load->each : load->last;

		ctx[i] = htw_test_context(test);
		for (u32 j = 0; j < count; j++)
			htw_test_start(test, ctx[i], deadline, j);
	}
	local_bh_disable();
	served = htw_test_turn(this_base(), deadline);
	for (u32 i = 0; i <= load->contexts; i++)
		delivered += ctx[i]->nr_expired;
	local_bh_enable();
	migrate_enable();
	KUNIT_EXPECT_EQ(test, served, load->served);
	KUNIT_EXPECT_EQ(test, delivered, load->delivered);
	for (u32 i = 0; i <= load->contexts; i++)
		htw_test_wait(test, ctx[i], i < load->contexts ? load->each : load->last);
}

/*
 * In virtual time
 */

#define DAYS_NS(days)		((days) * 86400 * (u64)NSEC_PER_SEC)
/* The span of a slot of the default geometry's last level: 19 hours. */
#define SLOT_TICKS		(256ULL << (3 * 6))

static void expect_on_time(struct kunit *test, const struct htw_event *event)
{
	const u64 tick = htw_test_tick_up(event->deadline);

	KUNIT_EXPECT_GE_MSG(test, event->fired, event->deadline, "early");
	KUNIT_EXPECT_GE_MSG(test, event->fired, tick, "before its tick");
	KUNIT_EXPECT_LT_MSG(test, event->fired, tick + CLOCK_NS, "late");
}

/* Sleep through the gap after the last run. */
static void let_gap_pass(struct kunit *test)
{
	htw_test_sleep_until(test, this_pacer()->not_before);
}

/* Wait until no callback is left from an earlier case, with the wheel empty. */
static struct htw_base *idle_base(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_base *base;

	htw_test_expect_empty(test);
	htw_test_start(test, ctx, 0, 0);
	base = this_base();
	KUNIT_ASSERT_NOT_NULL(test, base);
	htw_test_wait(test, ctx, 1);
	KUNIT_ASSERT_FALSE(test, hrtimer_active(&base->hrtimer));
	kunit_release_action(test, htw_test_close, ctx);
	let_gap_pass(test);
	return base;
}

static void time_is_virtual(struct kunit *test)
{
	const u64 until = htw_now() + 200 * (u64)NSEC_PER_SEC;
	ktime_t expires = ns_to_ktime(until);
	u64 now;

	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_hrtimeout(&expires, HRTIMER_MODE_ABS);
	now = htw_now();
	KUNIT_EXPECT_GE(test, now, until);
	KUNIT_EXPECT_LT(test, now, until + 2 * CLOCK_NS);
}

static const u64 offsets_in_tick[] = {
	0, 1, 2, 255, 256, 257, 499999, 500000, 500001, 999744, 999998, 999999,
};

static void get_offset_desc(const u64 *offset, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "tick plus %llu ns", *offset);
}

KUNIT_ARRAY_PARAM(offsets_in_tick, offsets_in_tick, get_offset_desc);

static void deadline_is_rounded_up(struct kunit *test)
{
	const u64 *offset = test->param_value;
	struct htw_context *ctx = htw_test_context(test);
	const u64 tick = htw_next_tick() + 10 * htw_tick_ns;
	struct htw_event event;

	htw_test_start(test, ctx, tick + *offset, 1);
	htw_test_wait(test, ctx, 1);
	event = read_one(test, ctx);
	KUNIT_EXPECT_EQ(test, event.deadline, tick + *offset);
	KUNIT_EXPECT_GE(test, event.fired, *offset ? tick + htw_tick_ns : tick);
	expect_on_time(test, &event);
}

/*
 * A context without timers, in a time namespace that is behind the clock: its first
 * call finds nothing and does not move the cursor of the shared wheel.
 */
static void call_before_the_first_add_leaves_the_wheel(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test), *other = htw_test_context(test);
	struct htw_cancel cancel = { .id = BIT_ULL(32) | 1 };
	const u64 tick = htw_next_tick() + 10 * htw_tick_ns;
	struct htw_event event;

	htw_test_start(test, other, tick + 1000 * NSEC_PER_SEC, 1);
	/* As CLOCK_BOOTTIME is after a suspend. */
	ctx->timens = -(s64)(htw_now() + 500 * NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -ENOENT);
	htw_test_start(test, other, tick, 2);
	htw_test_start(test, other, tick + 5 * htw_tick_ns, 3);
	for (u32 i = 0; i < 2; i++) {
		htw_test_wait(test, other, 1);
		event = read_one(test, other);
		KUNIT_EXPECT_EQ(test, event.cookie, i + 2);
		KUNIT_EXPECT_GE(test, event.fired, tick + i * 5 * htw_tick_ns);
	}
}

struct witness {
	struct hrtimer hrtimer;
	u64 fired;
};

static enum hrtimer_restart witness_callback(struct hrtimer *hrtimer)
{
	container_of(hrtimer, struct witness, hrtimer)->fired = htw_now();
	return HRTIMER_NORESTART;
}

/* Exact to the nanosecond, as an hrtimer for the tick would be. */
static void expires_with_an_hrtimer_for_its_tick(struct kunit *test)
{
	const unsigned int count = 200;
	struct witness *witnesses = htw_test_array(test, count, sizeof(*witnesses));
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_context *ctx = htw_test_context(test);
	u64 deadline = htw_next_tick() + 10 * htw_tick_ns;

	for (unsigned int i = 0; i < count; i++) {
		struct hrtimer *hrtimer = &witnesses[i].hrtimer;

		deadline += i * i * 77777;
		htw_test_start(test, ctx, deadline, i);
		hrtimer_setup(hrtimer, witness_callback, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
		hrtimer_start(hrtimer, ns_to_ktime(htw_test_tick_up(deadline)),
			      HRTIMER_MODE_ABS_SOFT);
	}
	htw_test_sleep_until(test, deadline + 2 * htw_tick_ns);
	for (unsigned int i = 0; i < count; i++)
		hrtimer_cancel(&witnesses[i].hrtimer);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count), count);
	for (unsigned int i = 0; i < count; i++) {
		KUNIT_EXPECT_EQ(test, events[i].cookie, i);
		KUNIT_EXPECT_EQ(test, events[i].fired, witnesses[i].fired);
		expect_on_time(test, &events[i]);
	}
}

static void past_deadline_expires_now(struct kunit *test)
{
	const u64 deadlines[] = { 0, 1, htw_now() / 2, htw_now() };
	struct htw_context *ctx = htw_test_context(test);

	for (unsigned int i = 0; i < ARRAY_SIZE(deadlines); i++) {
		struct htw_event event;
		u64 before;

		let_gap_pass(test);
		before = htw_now();
		htw_test_start(test, ctx, deadlines[i], i);
		htw_test_wait(test, ctx, 1);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.cookie, i);
		KUNIT_EXPECT_LT(test, event.fired, before + 8 * CLOCK_NS);
	}
}

/* There is a gap between runs; a deadline that comes in it waits for the next run. */
static void past_deadline_waits_for_the_next_run(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	u64 last = 0;

	let_gap_pass(test);
	for (unsigned int i = 0; i < 10; i++) {
		const u64 before = htw_now();
		struct htw_event event;

		htw_test_start(test, ctx, 0, i);
		htw_test_wait(test, ctx, 1);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.cookie, i);
		KUNIT_EXPECT_GE(test, event.fired, last + HTW_GAP_MIN_NS);
		KUNIT_EXPECT_LT(test, event.fired, before + HTW_GAP_MIN_NS + 8 * CLOCK_NS);
		last = event.fired;
	}
}

static const s32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

static void get_clock_desc(const s32 *clock, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "clock %d", *clock);
}

KUNIT_ARRAY_PARAM(clocks, clocks, get_clock_desc);

/* In a tick of a second that has begun; by an add, and by a move from any state. */
static void past_deadline_waits_for_no_tick(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_CLOCK | HTW_SETUP_PRIVATE,
		.clock = *(const s32 *)test->param_value,
		.tick_ns = NSEC_PER_SEC, .levels = 2, .slots = { 64, 64 },
	};
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_add kept = { .deadline = 1000 * (u64)NSEC_PER_SEC, .flags = HTW_F_KEEP };
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE };
	struct htw_event event;
	u64 before;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	htw_test_sleep_until(test, roundup(htw_now(), NSEC_PER_SEC) + 300 * NSEC_PER_MSEC);
	mod.id = htw_test_add(ctx, &kept);
	for (u64 past = 0; past < 4; past++) {
		let_gap_pass(test);
		before = htw_context_now(ctx);
		htw_test_start(test, ctx, before - past * 100 * NSEC_PER_MSEC, past);
		htw_test_wait(test, ctx, 1);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.cookie, past);
		KUNIT_EXPECT_GE(test, event.fired, event.deadline);
		KUNIT_EXPECT_LT(test, event.fired, before + 8 * CLOCK_NS);
		/* First while pending, then while disarmed. */
		let_gap_pass(test);
		before = htw_context_now(ctx);
		KUNIT_ASSERT_EQ(test, htw_test_mod(ctx, &mod), 0);
		htw_test_wait(test, ctx, 1);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.id, mod.id);
		KUNIT_EXPECT_GE(test, event.fired, event.deadline);
		KUNIT_EXPECT_LT(test, event.fired, before + 8 * CLOCK_NS);
	}
}

static const u32 before_it_came[] = { 1, 5, 31, 32, 33, 100, 1000 };

static void get_count_desc(const u32 *count, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u before", *count);
}

KUNIT_ARRAY_PARAM(before_it_came, before_it_came, get_count_desc);

/*
 * Timers for one deadline within a long tick, started before it has come and after,
 * expire in order. If they are few, all expire at once; those with later deadlines in the
 * tick wait for its end and delay no other.
 */
static void one_deadline_before_and_after_it_came(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE,
		.tick_ns = NSEC_PER_SEC, .levels = 2, .slots = { 64, 64 },
	};
	const u32 before = *(const u32 *)test->param_value, after = 3;
	const bool few = before < 32;
	u32 count;
	struct htw_context *ctx = htw_test_context(test);
	struct htw_event *events = htw_test_array(test, before + after + 1, sizeof(*events));
	const u64 tick = roundup(htw_now(), NSEC_PER_SEC) + NSEC_PER_SEC;
	const u64 deadline = tick + 500 * NSEC_PER_MSEC;

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	htw_test_sleep_until(test, tick + 100 * NSEC_PER_MSEC);
	htw_test_start(test, ctx, tick + 900 * NSEC_PER_MSEC, U64_MAX);
	for (u32 i = 0; i < before; i++)
		htw_test_start(test, ctx, deadline, i);
	htw_test_sleep_until(test, deadline + 100 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, ctx->nr_expired, 0);
	for (u32 i = 0; i < after; i++)
		htw_test_start(test, ctx, deadline, before + i);
	if (few)
		htw_test_wait(test, ctx, before + after);
	else
		htw_test_sleep_until(test, tick + 2 * NSEC_PER_SEC);
	count = htw_test_read(ctx, events, before + after + 1);
	KUNIT_ASSERT_EQ(test, count, before + after + !few);
	for (u32 i = 0, next = 0; i < count; i++) {
		/* Its position is not defined. */
		if (events[i].cookie == U64_MAX)
			continue;
		KUNIT_ASSERT_EQ(test, events[i].cookie, next++);
		KUNIT_ASSERT_GE(test, events[i].fired, deadline);
		if (few)
			KUNIT_ASSERT_LT(test, events[i].fired, tick + 700 * NSEC_PER_MSEC);
	}
}

static void earlier_deadline_is_not_held_up(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 now = htw_next_tick();
	struct htw_event event;

	/* Each is earlier than what the hrtimer is programmed for. */
	for (u64 ticks = 1 << 24; ticks; ticks /= 4)
		htw_test_start(test, ctx, now + ticks * htw_tick_ns, ticks);
	for (u64 ticks = 1; ticks < 1 << 16; ticks *= 4) {
		htw_test_wait(test, ctx, 1);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.cookie, ticks);
		expect_on_time(test, &event);
	}
}

/* Start timers that wait on a private wheel with long ticks; return their number. */
static u32 start_on_own_wheel(struct kunit *test, struct htw_context *ctx, u64 *ids, u32 count)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_SEC, .levels = 2,
		.slots = { 256, 64 },
	};

	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	for (u32 i = 0; i < count; i++)
		ids[i] = htw_test_start(test, ctx, KTIME_MAX, i);
	return count;
}

/* Each operation is ahead of all others. */
static void a_section_programs_the_hrtimer_once(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 now = htw_now();
	struct htw_section s;
	u64 programs, ids[100];
	u32 count;

	count = start_on_own_wheel(test, ctx, ids, ARRAY_SIZE(ids));
	programs = ctx->private_base->programs;
	htw_section_begin(&s, ctx);
	for (u32 i = 0; i < count; i++) {
		const struct htw_mod mod = {
			.id = ids[i], .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
			.deadline = now + (200 - i) * (u64)NSEC_PER_SEC,
		};

		KUNIT_EXPECT_EQ(test, htw_section_mod(&s, htw_section_find(&s, ids[i]), &mod), 0);
	}
	htw_section_end(&s);
	KUNIT_EXPECT_EQ(test, ctx->private_base->programs, programs + 1);
	KUNIT_EXPECT_LE(test, ktime_to_ns(hrtimer_get_softexpires(&ctx->private_base->hrtimer)),
			now + (200 - count + 2) * (u64)NSEC_PER_SEC);
}

/* Where there are very many interrupts, those of private wheels may wait for each other. */
static void crowded_private_wheels_share_interrupts(struct kunit *test)
{
	for (u32 crowded = 0; crowded < 2; crowded++) {
		struct htw_context *ctx = htw_test_context(test);
		struct htw_pacer *p;
		ktime_t soft, hard;
		u64 id;

		start_on_own_wheel(test, ctx, &id, 1);
		p = ctx->private_base->job.pacer;
		p->crowded = crowded;
		htw_test_start(test, ctx, htw_now() + 3600 * (u64)NSEC_PER_SEC, 1);
		soft = hrtimer_get_softexpires(&ctx->private_base->hrtimer);
		hard = hrtimer_get_expires(&ctx->private_base->hrtimer);
		p->crowded = false;
		KUNIT_EXPECT_EQ(test, ktime_sub(hard, soft), crowded ? HTW_GAP_MIN_NS : 0);
	}
}

KUNIT_DEFINE_ACTION_WRAPPER(free_private, htw_bases_free_private, struct htw_base *);

/* A timer that has expired moves to another CPU's base, and waits there. */
static void a_timer_moves_to_another_base(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE };
	struct htw_section s;
	struct htw_base *other;

	other = htw_bases_create_private(&ctx->user->bases, HTW_MONOTONIC, &htw_geometry,
					 htw_tick_ns);
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_private, other), 0);

	mod.id = htw_test_start(test, ctx, htw_now(), 7);
	mod.deadline = 10 * NSEC_PER_MSEC;
	htw_test_wait(test, ctx, 1);
	htw_section_begin(&s, ctx);
	s.target = other;
	KUNIT_EXPECT_EQ(test, htw_section_mod(&s, htw_section_find(&s, mod.id), &mod), 0);
	KUNIT_EXPECT_PTR_EQ(test, s.base, other);
	KUNIT_EXPECT_EQ(test, other->wheel.pending, 1);
	htw_section_end(&s);
	KUNIT_EXPECT_EQ(test, READ_ONCE(ctx->nr_expired), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&ctx->rearm));
	htw_test_wait(test, ctx, 1);
	KUNIT_EXPECT_EQ(test, read_one(test, ctx).cookie, 7);
}

/* Only the CPU of a shared base programs its hrtimer, so nothing may be started ahead of it. */
static void start_that_wakes_another_cpu(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_base *base;
	bool ahead, behind, private, own;
	u64 tick, next;

	base = htw_bases_create_private(&ctx->user->bases, HTW_MONOTONIC, &htw_geometry,
					htw_tick_ns);
	KUNIT_ASSERT_NOT_NULL(test, base);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_private, base), 0);

	spin_lock_bh(&base->lock);
	tick = base->wheel.cursor + 10;
	next = base->wheel.next;
	base->private = false;
	base->cpu = raw_smp_processor_id();
	own = htw_base_wakes_remote(base, tick);
	base->cpu++;
	ahead = htw_base_wakes_remote(base, tick);
	base->wheel.next = tick;
	behind = htw_base_wakes_remote(base, tick);
	base->wheel.next = next;
	base->private = true;
	private = htw_base_wakes_remote(base, tick);
	base->cpu--;
	spin_unlock_bh(&base->lock);
	KUNIT_EXPECT_FALSE(test, own);
	KUNIT_EXPECT_TRUE(test, ahead);
	KUNIT_EXPECT_FALSE(test, behind);
	KUNIT_EXPECT_FALSE(test, private);
}

/* Instead the timer is armed on this CPU's base; a private base is in place of another CPU's. */
static void pending_timer_moves_to_this_cpu(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE };
	struct htw_cancel cancel = {};
	struct htw_base *other, *here;
	struct htw_section s;
	struct htw_timer *t;

	htw_test_start(test, htw_test_context(test), KTIME_MAX, 1);
	here = this_base();
	start_on_own_wheel(test, ctx, &cancel.id, 1);
	mod.id = cancel.id;
	mod.deadline = 3600 * (u64)NSEC_PER_SEC;
	other = ctx->private_base;
	htw_section_begin(&s, ctx);
	t = htw_section_find(&s, mod.id);
	other->private = false;
	other->cpu++;
	t->node.cpu = other->cpu;
	s.target = here;
	KUNIT_EXPECT_EQ(test, htw_section_mod(&s, t, &mod), 0);
	KUNIT_EXPECT_PTR_EQ(test, s.base, here);
	KUNIT_EXPECT_EQ(test, t->node.cpu, here->cpu);
	KUNIT_EXPECT_EQ(test, other->wheel.pending, 0);
	other->cpu--;
	other->private = true;
	htw_section_end(&s);
	/* Cancelled where it is. */
	ctx->private_base = NULL;
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	ctx->private_base = other;
}

/* A section has 400 units. What operations cost beside the fast path is counted. */
static void a_section_counts_what_it_does(struct kunit *test)
{
	const struct htw_setup setup = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = NSEC_PER_SEC, .levels = 2,
		.slots = { 2048, 64 },
	};
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_add add = { .deadline = 1000 * (u64)NSEC_PER_SEC, .slack = NSEC_PER_SEC };
	struct htw_mod mod = { .flags = HTW_MOD_DEADLINE, .deadline = 2 * (u64)NSEC_PER_SEC };
	struct htw_base *here;
	struct htw_section s;
	struct htw_timer *t;

	htw_test_start(test, htw_test_context(test), KTIME_MAX, 1);
	here = this_base();
	KUNIT_ASSERT_EQ(test, htw_setup_context(ctx, &setup), 0);
	mod.id = htw_test_add(ctx, &add);
	htw_section_begin(&s, ctx);
	t = htw_section_find(&s, mod.id);
	KUNIT_EXPECT_EQ(test, s.units, 400);
	/* The slow path takes 2. */
	KUNIT_EXPECT_EQ(test, htw_section_mod(&s, t, &mod), 0);
	KUNIT_EXPECT_EQ(test, s.units, 400 - 2);
	/* The timer is ahead of others, so the hrtimer is programmed: 8, and 4 for the change. */
	KUNIT_EXPECT_TRUE(test, s.base->reprogram);
	htw_section_lock_base(&s, here);
	KUNIT_EXPECT_EQ(test, s.units, 400 - 2 - 12);
	htw_section_lock_base(&s, ctx->private_base);
	KUNIT_EXPECT_EQ(test, s.units, 400 - 2 - 12 - 4);
	KUNIT_EXPECT_FALSE(test, htw_section_should_end(&s, s.units - 1));
	KUNIT_EXPECT_TRUE(test, htw_section_should_end(&s, 1));
	htw_section_end(&s);
}

/*
 * Many timers came due within the tick for whose end they wait. Operations that are due as well
 * look at some of them, once, and the section is used up long before it gets through a vector.
 */
static void a_section_looks_at_a_few_due_timers(struct kunit *test)
{
	const u32 crowd = 5000, looks = 32;
	struct htw_context *ctx = htw_test_context(test);
	const u64 tick = roundup(htw_now(), NSEC_PER_SEC) + NSEC_PER_SEC;
	u64 *ids = htw_test_array(test, 256, sizeof(*ids));
	struct htw_section s;
	u32 ops = 0;

	start_on_own_wheel(test, ctx, ids, 256);
	htw_test_sleep_until(test, tick + NSEC_PER_MSEC);
	for (u32 i = 0; i < crowd; i++)
		htw_test_start(test, ctx, tick + 100 * NSEC_PER_MSEC, i);
	htw_test_sleep_until(test, tick + 101 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, ctx->nr_expired, 0);
	htw_section_begin(&s, ctx);
	while (ops < 256 && !htw_section_is_used_up(&s)) {
		const struct htw_mod mod = { .id = ids[ops++], .flags = HTW_MOD_DEADLINE };

		KUNIT_EXPECT_EQ(test, htw_section_mod(&s, htw_section_find(&s, mod.id), &mod), 0);
	}
	KUNIT_EXPECT_LE(test, list_count_nodes(&ctx->private_base->wheel.due), looks);
	KUNIT_EXPECT_LT(test, ops, 256);
	htw_section_end(&s);
	/* None of those that were moved has overtaken one of the crowd. */
	htw_test_wait(test, ctx, looks);
	for (u32 i = 0; i < looks; i++)
		KUNIT_EXPECT_EQ(test, read_one(test, ctx).cookie, i);
	htw_test_wait(test, ctx, crowd - looks + ops);
	for (u32 i = looks; i < crowd; i++)
		KUNIT_ASSERT_EQ(test, read_one(test, ctx).cookie, i);
}

/* One that is due does not take others with it that come later in the same tick. */
static void a_due_timer_leaves_later_ones_alone(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 tick = roundup(htw_now(), NSEC_PER_SEC) + NSEC_PER_SEC;
	const u64 later = tick + 500 * NSEC_PER_MSEC;
	struct htw_event event;
	u64 id;

	start_on_own_wheel(test, ctx, &id, 1);
	htw_test_sleep_until(test, tick + NSEC_PER_MSEC);
	htw_test_start(test, ctx, later, 1);
	htw_test_start(test, ctx, tick + NSEC_PER_MSEC, 2);
	htw_test_wait(test, ctx, 1);
	KUNIT_EXPECT_EQ(test, read_one(test, ctx).cookie, 2);
	htw_test_wait(test, ctx, 1);
	event = read_one(test, ctx);
	KUNIT_EXPECT_EQ(test, event.cookie, 1);
	KUNIT_EXPECT_GE(test, event.fired, later);
}

/* A base that a turn waits for is left alone, but not for ever. */
static void sections_give_way_to_a_turn(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_cancel cancel = { .id = htw_test_start(test, ctx, KTIME_MAX, 1) };
	struct htw_base *base = this_base();
	u64 began = htw_now();

	WRITE_ONCE(base->wanted_at, jiffies);
	WRITE_ONCE(base->wanted, true);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	KUNIT_EXPECT_GE(test, htw_now() - began, 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_LE(test, htw_now() - began, 150 * NSEC_PER_USEC);
	KUNIT_EXPECT_TRUE(test, base->wanted);
	/* The turn does not come soon: give way once more, then no longer. */
	WRITE_ONCE(base->wanted_at, jiffies - 10);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -ENOENT);
	KUNIT_EXPECT_FALSE(test, base->wanted);
	began = htw_now();
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), -ENOENT);
	KUNIT_EXPECT_LE(test, htw_now() - began, 50 * NSEC_PER_USEC);

	/* A turn that has the base ends it. The call's argument is in memory, so no copy sleeps. */
	WRITE_ONCE(base->wanted, true);
	WRITE_ONCE(base->wanted_at, jiffies);
	local_bh_disable();
	pagefault_disable();
	htw_test_start(test, ctx, 0, 2);
	pagefault_enable();
	local_bh_enable();
	htw_test_wait(test, ctx, 1);
	KUNIT_EXPECT_FALSE(test, base->wanted);
}

static int compare_u64(const void *a, const void *b)
{
	const u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/*
 * Start timers for all @deadlines in the order given, sleep until all have passed, and
 * check that each expired in its turn, on time.
 */
static void expect_all_on_time(struct kunit *test, u64 *deadlines, u32 count)
{
	struct htw_event *events = htw_test_array(test, count + 1, sizeof(*events));
	struct htw_context *ctx = htw_test_context(test);

	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, deadlines[i], deadlines[i]);
	sort(deadlines, count, sizeof(*deadlines), compare_u64, NULL);
	htw_test_sleep_until(test, deadlines[count - 1] + 2 * htw_tick_ns);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count + 1), count);
	for (u32 i = 0; i < count; i++) {
		KUNIT_EXPECT_EQ(test, events[i].cookie, events[i].deadline);
		KUNIT_EXPECT_EQ(test, htw_test_tick_up(events[i].deadline),
				htw_test_tick_up(deadlines[i]));
		expect_on_time(test, &events[i]);
	}
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
}

/* Deadlines on both sides of @ticks from now, and of twice that. */
static u32 add_around(u64 *deadlines, u64 from, u64 ticks)
{
	u32 n = 0;

	for (unsigned int twice = 1; twice <= 2; twice++) {
		for (int off = -1; off <= 1; off++)
			deadlines[n++] = from + (twice * ticks + off) * htw_tick_ns;
	}
	return n;
}

/* Around @ticks from now, 64 times that, and so on. */
static void expect_powers_on_time(struct kunit *test, u64 ticks)
{
	const u64 now = htw_next_tick();
	u64 deadlines[64];
	u32 count = 0;

	for (; ticks <= SLOT_TICKS; ticks *= 64)
		count += add_around(deadlines + count, now, ticks);
	KUNIT_ASSERT_EQ(test, count, 4 * 6);
	expect_all_on_time(test, deadlines, count);
}

static void spans_from_now(struct kunit *test)
{
	expect_powers_on_time(test, 256);
}

static void powers_of_64_from_now(struct kunit *test)
{
	expect_powers_on_time(test, 64);
}

/* Windows are aligned to the clock, so compute where this one ends. */
static void ends_of_windows(struct kunit *test)
{
	const u64 now = htw_next_tick();
	u64 deadlines[64];
	u32 count = 0;

	for (u64 ticks = 256; ticks <= SLOT_TICKS; ticks *= 64)
		count += add_around(deadlines + count,
				    rounddown(now, ticks * htw_tick_ns), ticks);
	KUNIT_ASSERT_EQ(test, count, 4 * 6);
	expect_all_on_time(test, deadlines, count);
}

/* The same, started near the end of the window. */
static void ends_of_windows_from_close_by(struct kunit *test)
{
	for (u64 ticks = 256; ticks <= SLOT_TICKS; ticks *= 64) {
		const u64 window = ticks * htw_tick_ns;
		u64 deadlines[8];
		u64 end;

		end = htw_now() + 3 * htw_tick_ns;
		end = roundup(end, window);
		htw_test_sleep_until(test, end - 2 * htw_tick_ns);
		KUNIT_ASSERT_EQ(test, add_around(deadlines, end - htw_tick_ns, 1), 6);
		expect_all_on_time(test, deadlines, 6);
	}
}

/* A window of the last level is 49 days, and the level has room for two. */
static void ends_of_the_last_level(struct kunit *test)
{
	const u64 now = htw_next_tick();
	u64 deadlines[12];

	add_around(deadlines, now, 64 * SLOT_TICKS);
	add_around(deadlines + 6, rounddown(now, 64 * SLOT_TICKS * htw_tick_ns), 64 * SLOT_TICKS);
	expect_all_on_time(test, deadlines, ARRAY_SIZE(deadlines));
}

static void half_an_hour_and_ten_days(struct kunit *test)
{
	const u64 now = htw_now();
	u64 deadlines[] = {
		now + 1800 * (u64)NSEC_PER_SEC,
		now + DAYS_NS(10),
		htw_next_tick() + 1800 * (u64)NSEC_PER_SEC,
		htw_next_tick() + DAYS_NS(10),
	};

	expect_all_on_time(test, deadlines, ARRAY_SIZE(deadlines));
}

static void random_deadlines(struct kunit *test)
{
	const u32 count = 20000;
	u64 *deadlines = htw_test_array(test, count, sizeof(*deadlines));
	const u64 now = htw_now();
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 20240611);
	for (u32 i = 0; i < count; i++) {
		const u64 range = NSEC_PER_USEC << (prandom_u32_state(&rnd) % 32);

		deadlines[i] = now + 100 * htw_tick_ns +
			       div64_u64(range * prandom_u32_state(&rnd), U32_MAX);
	}
	expect_all_on_time(test, deadlines, count);
}

static void never_is_never(struct kunit *test)
{
	const u64 deadlines[] = { U64_MAX, U64_MAX - 1, KTIME_MAX };
	struct htw_base *base = idle_base(test);
	struct htw_context *ctx = htw_test_context(test);
	struct htw_cancel cancel;
	u64 callbacks;

	for (unsigned int i = 0; i < ARRAY_SIZE(deadlines); i++)
		cancel.id = htw_test_start(test, ctx, deadlines[i], i);
	htw_test_sleep_until(test, htw_now() + NSEC_PER_SEC);
	callbacks = base->callbacks;
	htw_test_sleep_until(test, htw_now() + DAYS_NS(10));
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	KUNIT_EXPECT_LE(test, base->callbacks - callbacks, 1);
	cancel.flags = 0;
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	KUNIT_EXPECT_EQ(test, cancel.cookie, ARRAY_SIZE(deadlines) - 1);
}

static void remaining_is_told(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 deadline = htw_now() + 1800 * (u64)NSEC_PER_SEC;
	struct htw_cancel cancel = { .id = htw_test_start(test, ctx, deadline, 1) };
	u64 now;

	htw_test_sleep_until(test, deadline - 600 * (u64)NSEC_PER_SEC);
	now = htw_now();
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	KUNIT_EXPECT_LE(test, cancel.remaining, deadline - now);
	KUNIT_EXPECT_GT(test, cancel.remaining, deadline - now - CLOCK_NS);
}

static void cancel_says_already_only_once_expired(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const u64 tick = htw_next_tick() + 50 * htw_tick_ns;
	const u64 deadline = tick - htw_tick_ns / 2;
	struct htw_cancel first = { .id = htw_test_start(test, ctx, deadline, 1) };
	struct htw_cancel second = { .id = htw_test_start(test, ctx, deadline, 2) };

	/* The deadline has passed, but its tick has not come. */
	htw_test_sleep_until(test, deadline + htw_tick_ns / 4);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &first), 0);
	KUNIT_EXPECT_EQ(test, first.remaining, 0);
	htw_test_sleep_until(test, tick + 2 * CLOCK_NS);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &second), -EALREADY);
	KUNIT_EXPECT_EQ(test, read_one(test, ctx).cookie, 2);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(ctx, &second), -ENOENT);
}

static const u64 intervals[] = {
	NSEC_PER_MSEC,
	NSEC_PER_MSEC + 1,
	1700000,
	2 * NSEC_PER_MSEC - 1,
	3 * (u64)NSEC_PER_SEC,
	150 * (u64)NSEC_PER_SEC,
	150 * (u64)NSEC_PER_SEC + 333333,
	1800 * (u64)NSEC_PER_SEC,
};

static void get_interval_desc(const u64 *interval, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%llu ns", *interval);
}

KUNIT_ARRAY_PARAM(intervals, intervals, get_interval_desc);

static void periodic_keeps_phase(struct kunit *test)
{
	const u64 interval = *(const u64 *)test->param_value;
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_add add = {
		.flags = HTW_F_ABS,
		.deadline = htw_next_tick() + 12345,
		.interval = interval,
		.cookie = 9,
	};
	const u64 id = htw_test_add(ctx, &add);

	KUNIT_ASSERT_NE(test, id, 0);
	for (unsigned int k = 0; k < 10; k++) {
		struct htw_event event;

		htw_test_sleep_until(test, htw_test_tick_up(add.deadline + k * interval) +
					   2 * CLOCK_NS);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.id, id);
		KUNIT_EXPECT_EQ(test, event.deadline, add.deadline + k * interval);
		KUNIT_EXPECT_EQ(test, event.missed, 0);
		KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
		expect_on_time(test, &event);
	}
}

static void stalled_reader_misses_by_the_phase(struct kunit *test)
{
	const u64 interval = *(const u64 *)test->param_value;
	struct htw_context *ctx = htw_test_context(test);
	struct htw_add add = {
		.flags = HTW_F_ABS,
		.deadline = htw_next_tick() + 12345,
		.interval = interval,
	};

	KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	for (unsigned int missed = 1; missed < 100; missed *= 7) {
		struct htw_event event;

		/* Half an interval after the last missed one. */
		htw_test_sleep_until(test, add.deadline + missed * interval + 3 * interval / 4);
		KUNIT_EXPECT_EQ(test, ctx->nr_expired, 1);
		event = read_one(test, ctx);
		KUNIT_EXPECT_EQ(test, event.deadline, add.deadline);
		KUNIT_EXPECT_EQ(test, event.missed, missed);
		expect_on_time(test, &event);
		add.deadline += (missed + 1) * interval;
	}
}

static void missed_firings_count(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	const struct htw_add add = {
		.flags = HTW_F_ABS,
		.deadline = htw_next_tick(),
		.interval = 10 * htw_tick_ns,
		.firings = 5,
	};
	struct htw_event event;

	KUNIT_ASSERT_NE(test, htw_test_add(ctx, &add), 0);
	htw_test_sleep_until(test, add.deadline + 2 * add.interval + htw_tick_ns);
	event = read_one(test, ctx);
	KUNIT_EXPECT_EQ(test, event.missed, 2);
	KUNIT_EXPECT_EQ(test, event.flags, HTW_EVENT_MORE);
	htw_test_sleep_until(test, add.deadline + 100 * add.interval);
	event = read_one(test, ctx);
	KUNIT_EXPECT_EQ(test, event.missed, 1);
	KUNIT_EXPECT_EQ(test, event.flags, 0);
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	htw_test_expect_empty(test);
}

static void nothing_pending_costs_nothing(struct kunit *test)
{
	struct htw_base *base = idle_base(test);
	const u64 callbacks = base->callbacks;

	htw_test_sleep_until(test, htw_now() + 60 * (u64)NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, base->callbacks, callbacks);
	KUNIT_EXPECT_FALSE(test, hrtimer_active(&base->hrtimer));
}

static void empty_ticks_cost_nothing(struct kunit *test)
{
	struct htw_base *base = idle_base(test);
	struct htw_context *ctx = htw_test_context(test);
	const u64 callbacks = base->callbacks;
	const u64 deadline = htw_now() + 600 * (u64)NSEC_PER_SEC;

	htw_test_start(test, ctx, deadline, 1);
	htw_test_sleep_until(test, deadline + htw_tick_ns);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 1);
	KUNIT_EXPECT_GE(test, base->callbacks - callbacks, 1);
	KUNIT_EXPECT_LE(test, base->callbacks - callbacks, htw_geometry.levels);
	KUNIT_EXPECT_FALSE(test, hrtimer_active(&base->hrtimer));
}

/* Start 100,000 timers that are due in half an hour, or in the minute after. */
static void start_far_timers(struct kunit *test, struct htw_context *ctx, u64 *ids, u32 count)
{
	const u64 from = htw_now() + 1800 * (u64)NSEC_PER_SEC;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 20240612);
	for (u32 i = 0; i < count; i++)
		ids[i] = htw_test_start(test, ctx, from + 14ull * prandom_u32_state(&rnd), i);
}

static void far_timers_cost_next_to_nothing(struct kunit *test)
{
	const u32 count = 100000;
	u64 *ids = htw_test_array(test, count, sizeof(*ids));
	struct htw_base *base = idle_base(test);
	struct htw_context *ctx = htw_test_context(test);
	u64 callbacks;

	start_far_timers(test, ctx, ids, count);
	callbacks = base->callbacks;
	htw_test_sleep_until(test, htw_now() + 60 * (u64)NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, base->callbacks - callbacks, 4);
	/* And none is late. */
	htw_test_sleep_until(test, htw_now() + 1801 * (u64)NSEC_PER_SEC);
	for (u32 n = 0; n < count; n++) {
		struct htw_event event = read_one(test, ctx);

		KUNIT_ASSERT_GE(test, event.fired, event.deadline);
		KUNIT_ASSERT_LT(test, event.fired, htw_test_tick_up(event.deadline) + CLOCK_NS);
	}
}

static void cancelled_timers_cost_one_callback(struct kunit *test)
{
	const u32 count = 100000;
	u64 *ids = htw_test_array(test, count, sizeof(*ids));
	struct htw_base *base = idle_base(test);
	struct htw_context *ctx = htw_test_context(test);
	u64 callbacks;

	start_far_timers(test, ctx, ids, count);
	callbacks = base->callbacks;
	for (u32 i = 0; i < count; i++) {
		struct htw_cancel cancel = { .id = ids[i] };

		KUNIT_ASSERT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
		KUNIT_ASSERT_EQ(test, cancel.cookie, i);
	}
	htw_test_expect_empty(test);
	htw_test_sleep_until(test, htw_now() + 7200 * (u64)NSEC_PER_SEC);
	KUNIT_EXPECT_LE(test, base->callbacks - callbacks, 1);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	KUNIT_EXPECT_FALSE(test, hrtimer_active(&base->hrtimer));
}

static void cancel_leaves_the_hrtimer(struct kunit *test)
{
	struct htw_base *base = idle_base(test);
	struct htw_context *ctx = htw_test_context(test);
	struct htw_cancel cancel = {};
	ktime_t expires;

	cancel.id = htw_test_start(test, ctx, htw_now() + 100 * htw_tick_ns, 1);
	expires = hrtimer_get_expires(&base->hrtimer);
	KUNIT_ASSERT_EQ(test, htw_test_cancel(ctx, &cancel), 0);
	KUNIT_EXPECT_TRUE(test, hrtimer_active(&base->hrtimer));
	KUNIT_EXPECT_EQ(test, hrtimer_get_expires(&base->hrtimer), expires);
}

/* Timers of one tick share a callback, in all contexts. */
static void one_tick_is_one_callback(struct kunit *test)
{
	struct htw_base *base = idle_base(test);
	const u64 tick = htw_next_tick() + 20 * htw_tick_ns;
	const u64 callbacks = base->callbacks, runs = this_pacer()->runs;
	struct htw_context *ctx[5];

	for (unsigned int i = 0; i < ARRAY_SIZE(ctx); i++) {
		ctx[i] = htw_test_context(test);
		for (unsigned int k = 0; k < 100; k++)
			htw_test_start(test, ctx[i], tick - k * 1000, k);
	}
	htw_test_sleep_until(test, tick + htw_tick_ns);
	for (unsigned int i = 0; i < ARRAY_SIZE(ctx); i++)
		KUNIT_EXPECT_EQ(test, ctx[i]->nr_expired, 100);
	KUNIT_EXPECT_EQ(test, base->callbacks - callbacks, 1);
	KUNIT_EXPECT_EQ(test, this_pacer()->runs - runs, 1);
}

/*
 * A million timers due at one tick, in turns of 16 us: 13 turns make a run, followed by a gap of
 * the same length. The waiter that takes the time is not a slow one.
 */
static void a_million_at_one_tick(struct kunit *test)
{
	const u32 count = 615 * 13 * CHUNK;
	const u32 turns = count / CHUNK;
	const u64 turn_ns = 16 * NSEC_PER_USEC;
	const u32 turns_a_run = DIV_ROUND_UP(HTW_RUN_NS, turn_ns);
	const u64 took = turns_a_run * turn_ns;
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	struct htw_context *ctx = htw_test_context(test);
	/* When slow waiters of other cases do not count any more. */
	const u64 tick = htw_next_tick() + HTW_SLOW_NS + NSEC_PER_SEC;
	struct htw_base *base = idle_base(test);
	struct htw_pacer *p = this_pacer();
	u64 callbacks, runs, exhausted, slip = 0;
	struct burner burner;
	u32 run_before = U32_MAX;

	for (u32 i = 0; i < count; i++)
		htw_test_start(test, ctx, tick, i);
	burner_add(&burner, ctx, turn_ns / NSEC_PER_USEC);
	htw_test_sleep_until(test, tick - htw_tick_ns);
	callbacks = base->callbacks;
	runs = p->runs;
	exhausted = p->exhausted;
	burner_wait(test, ctx, count);
	remove_wait_queue(&ctx->wait, &burner.wait);

	KUNIT_EXPECT_EQ(test, burner.turns, turns);
	KUNIT_EXPECT_EQ(test, base->callbacks - callbacks, 1);
	/* The last turn is full as well, so one more run finds nothing left. */
	KUNIT_EXPECT_EQ(test, p->runs - runs, turns / turns_a_run + 1);
	KUNIT_EXPECT_EQ(test, p->exhausted - exhausted, turns / turns_a_run);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, events, count), count);
	for (u32 i = 0; i < count; i++) {
		const u32 run = i / CHUNK / turns_a_run, turn = i / CHUNK % turns_a_run;
		const u64 earliest = tick + run * (2 * took + HTW_RUN_COST_NS) +
				     (run ? HTW_IRQ_COST_NS : 0) + turn * turn_ns;

		/* Lateness by the clock's resolution adds up, turn by turn and gap by gap. */
		KUNIT_ASSERT_EQ(test, events[i].cookie, i);
		KUNIT_ASSERT_GE(test, events[i].fired, earliest + slip);
		if (run != run_before)
			slip = events[i].fired - earliest;
		run_before = run;
		KUNIT_ASSERT_LT(test, slip, (run + 1) * turns_a_run * 4 * CLOCK_NS);
		KUNIT_ASSERT_LT(test, events[i].fired, earliest + slip + (turn + 1) * 2 * CLOCK_NS);
	}
}
#endif /* CONFIG_UML_TIME_TRAVEL_SUPPORT */

#ifdef CONFIG_SMP
/*
 * On several CPUs
 */

#define MAX_THREADS		4
#define SHARED_IDS		256u

/*
 * State shared by the threads of a case. They count failures, which the case checks when
 * they have ended.
 */
struct torture {
	struct htw_context *ctx[3];
	unsigned int contexts;
	u32 cookies;		/* how many timers are started */
	atomic_t next;		/* the next one's cookie */
	atomic_t *ended;	/* by cookie: how often it ended */
	atomic_t *firings;	/* by cookie: events and missed ones */
	u64 ids[3][SHARED_IDS];	/* a sample of timers that any thread started */
	atomic_t failed;
	atomic_t early;
	atomic_t unread;	/* reported as expired, but never read */
	atomic_t cancelled;
	atomic_t expired;
};

struct thread {
	struct torture *torture;
	struct task_struct *task;
	struct completion begun;
	int (*fn)(void *data);
	struct rnd_state rnd;
};

/* Every fourth timer is periodic. */
static u32 torture_firings(u64 cookie)
{
	return cookie % 4 ? 0 : 1 + cookie / 4 % 3;
}

static void torture_add(struct thread *thread, unsigned int c, u32 cookie)
{
	struct torture *torture = thread->torture;
	const u32 firings = torture_firings(cookie);
	const struct htw_add add = {
		.deadline = prandom_u32_state(&thread->rnd) % (8 * NSEC_PER_MSEC),
		.interval = firings ? htw_tick_ns : 0,
		.firings = firings,
		.cookie = cookie,
	};
	const u64 id = htw_test_add(torture->ctx[c], &add);

	if (!id)
		atomic_inc(&torture->failed);
	WRITE_ONCE(torture->ids[c][prandom_u32_state(&thread->rnd) % SHARED_IDS], id);
}

static void torture_cancel(struct thread *thread, unsigned int c)
{
	struct torture *torture = thread->torture;
	struct htw_cancel cancel = {
		.id = READ_ONCE(torture->ids[c][prandom_u32_state(&thread->rnd) % SHARED_IDS]),
		.flags = prandom_u32_state(&thread->rnd) % 2 ? HTW_CANCEL_DISCARD : 0,
	};
	int ret;

	if (!cancel.id)
		return;
	ret = htw_test_cancel(torture->ctx[c], &cancel);
	if (!ret || (ret == -EALREADY && cancel.flags & HTW_CANCEL_DISCARD)) {
		atomic_inc(&torture->ended[cancel.cookie]);
		atomic_inc(&torture->cancelled);
	}
}

static u32 torture_read(struct torture *torture, unsigned int c)
{
	struct htw_event events[8];
	const u32 n = htw_test_read(torture->ctx[c], events, ARRAY_SIZE(events));

	for (u32 i = 0; i < n; i++) {
		if (events[i].fired < events[i].deadline || events[i].fired > htw_now())
			atomic_inc(&torture->early);
		atomic_add(1 + events[i].missed, &torture->firings[events[i].cookie]);
		if (events[i].flags & HTW_EVENT_MORE)
			continue;
		atomic_inc(&torture->ended[events[i].cookie]);
		atomic_inc(&torture->expired);
	}
	return n;
}

static int torture_thread(void *data)
{
	struct thread *thread = data;
	struct torture *torture = thread->torture;

	for (;;) {
		const u32 random = prandom_u32_state(&thread->rnd);
		const unsigned int c = random % torture->contexts;
		const u32 cookie = atomic_fetch_inc(&torture->next);

		if (cookie >= torture->cookies)
			break;
		torture_add(thread, c, cookie);
		if (random & BIT(16))
			torture_cancel(thread, c);
		if (random & BIT(17))
			torture_read(torture, c);
		if (!(random >> 18 & 63))
			usleep_range(500, 1500);
		cond_resched();
	}
	return 0;
}

static struct torture *torture_init(struct kunit *test, unsigned int contexts, u32 cookies)
{
	struct torture *torture = htw_test_array(test, 1, sizeof(*torture));

	for (unsigned int c = 0; c < contexts; c++)
		torture->ctx[c] = htw_test_context(test);
	torture->contexts = contexts;
	torture->cookies = cookies;
	torture->ended = htw_test_array(test, cookies, sizeof(*torture->ended));
	torture->firings = htw_test_array(test, cookies, sizeof(*torture->firings));
	return torture;
}

/* Run a thread on each CPU and wait for all. */
/* A kthread that is stopped before it has begun never runs its function. */
static int thread_begin(void *data)
{
	struct thread *thread = data;

	complete(&thread->begun);
	return thread->fn(thread);
}

static void run_threads(struct kunit *test, struct torture *torture, int (*fn)(void *data))
{
	struct thread *threads = htw_test_array(test, MAX_THREADS, sizeof(*threads));
	unsigned int cpu, n = 0;

	for_each_online_cpu(cpu) {
		struct thread *thread = &threads[n];

		thread->torture = torture;
		thread->fn = fn;
		init_completion(&thread->begun);
		prandom_seed_state(&thread->rnd, n + 1);
		thread->task = kthread_create_on_cpu(thread_begin, thread, cpu, "htw_kunit/%u");
		if (IS_ERR(thread->task))
			break;
		get_task_struct(thread->task);
		if (++n == MAX_THREADS)
			break;
	}
	KUNIT_EXPECT_GE(test, n, 2);
	for (unsigned int i = 0; i < n; i++)
		wake_up_process(threads[i].task);
	for (unsigned int i = 0; i < n; i++) {
		wait_for_completion(&threads[i].begun);
		kthread_stop_put(threads[i].task);
	}
}

/* Read the remaining events and check that each cookie has ended once. */
static void torture_check(struct kunit *test, struct torture *torture)
{
	for (unsigned int c = 0; c < torture->contexts; c++) {
		for (unsigned int i = 0; i < 1000 && htw_test_nr_timers(torture->ctx[c]); i++) {
			while (torture_read(torture, c))
				;
			msleep(20);
		}
		KUNIT_EXPECT_EQ_MSG(test, torture->ctx[c]->nr_timers, 0, "lost");
		KUNIT_EXPECT_EQ(test, torture->ctx[c]->nr_expired, 0);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&torture->failed), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&torture->early), 0);
	for (u32 i = 0; i < torture->cookies; i++)
		KUNIT_ASSERT_EQ_MSG(test, atomic_read(&torture->ended[i]), 1, "cookie %u", i);
	htw_test_expect_empty(test);
	/* Both sides won sometimes, so they did race. */
	KUNIT_EXPECT_GT(test, atomic_read(&torture->cancelled), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&torture->expired), 0);
}

static void threads_on_one_context(struct kunit *test)
{
	struct torture *torture = torture_init(test, 1, 40000);

	run_threads(test, torture, torture_thread);
	torture_check(test, torture);
	for (u32 i = 0; i < torture->cookies; i++)
		KUNIT_ASSERT_LE(test, atomic_read(&torture->firings[i]),
				torture_firings(i) ?: 1);
}

static void threads_on_several_contexts(struct kunit *test)
{
	struct torture *torture = torture_init(test, 3, 40000);

	run_threads(test, torture, torture_thread);
	torture_check(test, torture);
}

/*
 * All threads go through the same sets of timers: each set is started by one thread and
 * cancelled by all of them just as it is about to expire.
 */
static int cancel_thread(void *data)
{
	struct thread *thread = data;
	struct torture *torture = thread->torture;

	while (atomic_read(&torture->next) < torture->cookies) {
		const u32 cookie = atomic_fetch_add(64, &torture->next);
		const u64 deadline = htw_now() + 2 * htw_tick_ns;
		u64 ids[64], until;

		if (cookie >= torture->cookies)
			break;
		for (u32 i = 0; i < ARRAY_SIZE(ids); i++) {
			const struct htw_add add = {
				.flags = HTW_F_ABS,
				.deadline = deadline,
				.cookie = cookie + i,
			};

			ids[i] = htw_test_add(torture->ctx[0], &add);
			WRITE_ONCE(torture->ids[0][(cookie + i) % SHARED_IDS], ids[i]);
		}
		until = htw_test_tick_up(deadline) + prandom_u32_state(&thread->rnd) % 65536;
		while (htw_now() < until)
			cond_resched();
		for (u32 i = 0; i < ARRAY_SIZE(ids); i++) {
			struct htw_cancel cancel = { .id = ids[i] };

			if (!htw_test_cancel(torture->ctx[0], &cancel)) {
				atomic_inc(&torture->ended[cookie + i]);
				atomic_inc(&torture->cancelled);
			}
			torture_cancel(thread, 0);
		}
		torture_read(torture, 0);
	}
	return 0;
}

static void cancel_races_with_expiry(struct kunit *test)
{
	struct torture *torture = torture_init(test, 1, 64 * 256);

	run_threads(test, torture, cancel_thread);
	torture_check(test, torture);
}

/*
 * Periodic timers that all threads read, so that they are re-armed on changing CPUs, while
 * one thread cancels them one by one.
 */
#define PERIODIC		512

struct rearm {
	struct torture torture;	/* first member: passed to the threads */
	u64 ids[PERIODIC];
	atomic_t seq;
	u32 stopped[PERIODIC];	/* @seq when a cancel had returned 0 */
	u32 already[PERIODIC];	/* the cancel returned EALREADY */
	atomic_t done;
	spinlock_t lock;	/* guards the fields below */
	u32 last[PERIODIC];	/* number of events that said to be the last */
	u64 last_at[PERIODIC];	/* its deadline */
	u64 latest[PERIODIC];	/* the latest deadline of any event */
	u32 events;
	u32 after_stop;
};

static u32 rearm_read(struct rearm *rearm)
{
	const u32 seq = atomic_read_acquire(&rearm->seq);
	struct htw_event events[4];
	const u32 n = htw_test_read(rearm->torture.ctx[0], events, ARRAY_SIZE(events));

	/* Threads get here in another order than that of their reads. */
	spin_lock(&rearm->lock);
	for (u32 i = 0; i < n; i++) {
		const u64 cookie = events[i].cookie;
		const u32 stopped = READ_ONCE(rearm->stopped[cookie]);

		if (stopped && stopped <= seq)
			rearm->after_stop++;
		if (!(events[i].flags & HTW_EVENT_MORE)) {
			rearm->last[cookie]++;
			rearm->last_at[cookie] = events[i].deadline;
		}
		rearm->latest[cookie] = max(rearm->latest[cookie], events[i].deadline);
		WRITE_ONCE(rearm->events, rearm->events + 1);
	}
	spin_unlock(&rearm->lock);
	return n;
}

static int rearm_thread(void *data)
{
	struct thread *thread = data;
	struct rearm *rearm = container_of(thread->torture, struct rearm, torture);
	unsigned long end;
	u32 i;

	/* The first thread cancels, the others read. */
	if (atomic_fetch_inc(&rearm->torture.next)) {
		while (!atomic_read(&rearm->done)) {
			rearm_read(rearm);
			cond_resched();
		}
		return 0;
	}
	/* Until some have been armed again, or for 60 s. */
	end = jiffies + 60 * HZ;
	while (READ_ONCE(rearm->events) <= PERIODIC && time_before(jiffies, end))
		msleep(20);
	for (i = 0; i < PERIODIC; i++) {
		struct htw_cancel cancel = { .id = rearm->ids[i] };
		int ret;

		if (prandom_u32_state(&thread->rnd) % 4 == 0)
			usleep_range(100, 1200);
		ret = htw_test_cancel(rearm->torture.ctx[0], &cancel);
		if (!ret)
			WRITE_ONCE(rearm->stopped[i], atomic_inc_return(&rearm->seq));
		else if (ret == -EALREADY)
			rearm->already[i] = 1;
		else
			atomic_inc(&rearm->torture.failed);
		cond_resched();
	}
	atomic_set(&rearm->done, 1);
	return 0;
}

static void periodic_rearm_races_with_cancel(struct kunit *test)
{
	struct rearm *rearm = htw_test_array(test, 1, sizeof(*rearm));
	struct htw_context *ctx = htw_test_context(test);

	spin_lock_init(&rearm->lock);
	rearm->torture.ctx[0] = ctx;
	for (u32 i = 0; i < PERIODIC; i++) {
		const struct htw_add add = {
			.deadline = i * 10000,
			.interval = htw_tick_ns,
			.cookie = i,
		};

		rearm->ids[i] = htw_test_add(ctx, &add);
		KUNIT_ASSERT_NE(test, rearm->ids[i], 0);
	}
	run_threads(test, &rearm->torture, rearm_thread);
	msleep(50);
	while (rearm_read(rearm))
		;
	KUNIT_EXPECT_GT(test, rearm->events, PERIODIC);
	KUNIT_EXPECT_EQ(test, atomic_read(&rearm->torture.failed), 0);
	KUNIT_EXPECT_EQ(test, rearm->after_stop, 0);
	for (u32 i = 0; i < PERIODIC; i++) {
		KUNIT_EXPECT_EQ(test, rearm->last[i], rearm->already[i]);
		if (rearm->last[i])
			KUNIT_EXPECT_EQ(test, rearm->latest[i], rearm->last_at[i]);
	}
	KUNIT_EXPECT_EQ(test, ctx->nr_timers, 0);
	htw_test_expect_empty(test);
}

/* Contexts are closed while their timers and those of others expire. */
static int close_thread(void *data)
{
	struct thread *thread = data;
	struct torture *torture = thread->torture;

	while (atomic_fetch_inc(&torture->next) < torture->cookies) {
		struct htw_context *ctx = htw_contexts_create(HTW_TEST_LIMIT);
		const u64 now = htw_now();
		const u64 until = now + prandom_u32_state(&thread->rnd) % (4 * NSEC_PER_MSEC);

		if (!ctx) {
			atomic_inc(&torture->failed);
			break;
		}
		for (u32 i = 0; i < 100; i++) {
			const struct htw_add add = {
				.flags = HTW_F_ABS,
				.deadline = now + i * 40 * NSEC_PER_USEC,
				.interval = i % 2 ? htw_tick_ns : 0,
			};

			if (!htw_test_add(ctx, &add))
				atomic_inc(&torture->failed);
		}
		while (htw_now() < until)
			cond_resched();
		if (READ_ONCE(ctx->nr_expired))
			atomic_inc(&torture->expired);
		htw_contexts_close(ctx);
	}
	return 0;
}

static void close_races_with_expiry(struct kunit *test)
{
	struct torture *torture = torture_init(test, 0, 400);

	run_threads(test, torture, close_thread);
	KUNIT_EXPECT_EQ(test, atomic_read(&torture->failed), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&torture->expired), 0);
	htw_test_expect_empty(test);
}

/* A waiter whose wake function blocks inside the turn. */
struct slow_waiter {
	wait_queue_entry_t wait;
	struct completion woken;
	bool closing;
};

static int slow_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct slow_waiter *w = container_of(wait, struct slow_waiter, wait);

	list_del_init(&wait->entry);
	complete(&w->woken);
	for (unsigned int i = 0; i < 5000 && !READ_ONCE(w->closing); i++)
		mdelay(1);
	/* The close waits for the lock held here; then both go on. */
	mdelay(20);
	return 1;
}

static long start_one(void *ctx)
{
	const struct htw_add add = { .deadline = 10 * NSEC_PER_MSEC };

	return !htw_test_add(ctx, &add);
}

/* The context must not be freed while a turn wakes up its waiters. */
static void close_while_a_callback_wakes_up(struct kunit *test)
{
	struct slow_waiter *w = htw_test_array(test, 1, sizeof(*w));
	const unsigned int cpu = raw_smp_processor_id();
	struct htw_context *ctx = htw_test_context(test);
	unsigned int other = cpumask_any_but(cpu_online_mask, cpu);

	init_completion(&w->woken);
	init_waitqueue_func_entry(&w->wait, slow_wake);
	add_wait_queue(&ctx->wait, &w->wait);
	KUNIT_ASSERT_EQ(test, work_on_cpu(other, start_one, ctx), 0);
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&w->woken, 10 * HZ), 0);
	/* KASAN reports a use after free. */
	WRITE_ONCE(w->closing, true);
	kunit_release_action(test, htw_test_close, ctx);
	msleep(300);
	htw_test_expect_empty(test);
}

struct start_many {
	struct htw_context *ctx;
	u64 from;
	u64 step;
	u32 first;
	u32 count;
	u64 *ids;
};

static long start_many(void *data)
{
	struct start_many *m = data;

	for (u32 i = 0; i < m->count; i++) {
		const struct htw_add add = {
			.flags = HTW_F_ABS,
			.deadline = m->from + i * m->step,
			.cookie = m->first + i,
		};

		m->ids[i] = htw_test_add(m->ctx, &add);
		if (!m->ids[i])
			return -ENOMEM;
	}
	return 0;
}

/* Start @count timers on a CPU, due from @from on, @step ns apart. */
static struct start_many *start_on_cpu(struct kunit *test, unsigned int cpu, u32 count,
				       u64 from, u64 step)
{
	struct start_many *m = htw_test_array(test, 1, sizeof(*m));

	*m = (struct start_many) {
		.ctx = htw_test_context(test),
		.from = htw_now() + from,
		.step = step,
		.count = count,
		.ids = htw_test_array(test, count, sizeof(*m->ids)),
	};
	KUNIT_ASSERT_EQ(test, work_on_cpu(cpu, start_many, m), 0);
	return m;
}

/* All expire, in order, none early. */
static void expect_all(struct kunit *test, const struct start_many *m)
{
	struct htw_event *events = htw_test_array(test, m->count + 1, sizeof(*events));

	htw_test_wait(test, m->ctx, m->count);
	KUNIT_ASSERT_EQ(test, htw_test_read(m->ctx, events, m->count + 1), m->count);
	for (u32 i = 0; i < m->count; i++) {
		KUNIT_ASSERT_EQ(test, events[i].cookie, i);
		KUNIT_ASSERT_EQ(test, events[i].deadline, m->from + i * m->step);
		KUNIT_ASSERT_GE(test, events[i].fired, events[i].deadline);
	}
	KUNIT_EXPECT_EQ(test, m->ctx->nr_timers, 0);
}

/* A CPU that can go offline; without one the case ends. */
static unsigned int secondary_cpu(struct kunit *test)
{
	const unsigned int cpu = cpumask_last(cpu_online_mask);

	KUNIT_ASSERT_GT(test, cpu, 0);
	return cpu;
}

KUNIT_DEFINE_ACTION_WRAPPER(bring_back, add_cpu, unsigned long);

static void timers_wait_on_the_cpu_that_starts_them(struct kunit *test)
{
	unsigned int cpu, other;

	for_each_online_cpu(cpu) {
		const struct start_many *m = start_on_cpu(test, cpu, 100, ALL_STARTED_NS, 0);

		for_each_online_cpu(other)
			KUNIT_EXPECT_EQ(test, htw_test_pending(other), other == cpu ? 100 : 0);
		expect_all(test, m);
	}
}

static void timers_are_cancelled_from_any_cpu(struct kunit *test)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		const struct start_many *m;

		m = start_on_cpu(test, cpu, 100, 3600 * (u64)NSEC_PER_SEC, htw_tick_ns);
		for (u32 i = 0; i < m->count; i++) {
			struct htw_cancel cancel = { .id = m->ids[i] };

			KUNIT_EXPECT_EQ(test, htw_test_cancel(m->ctx, &cancel), 0);
		}
		KUNIT_EXPECT_EQ(test, m->ctx->nr_timers, 0);
	}
	htw_test_expect_empty(test);
}

/* Take a CPU offline until the end of the case. */
static void take_away(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, bring_back, (void *)(unsigned long)cpu), 0);
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
}

/* The CPU that serves the timers waiting on @cpu. */
static unsigned int serving_cpu(unsigned int cpu)
{
	return htw_test_base(cpu)->job.pacer->cpu;
}

static void timers_survive_their_cpu(struct kunit *test)
{
	const unsigned int cpu = secondary_cpu(test);
	const struct start_many *m = start_on_cpu(test, cpu, 1000, 10 * (u64)NSEC_PER_SEC, 54321);

	take_away(test, cpu);
	/* They stay on their base, which another CPU serves. */
	KUNIT_EXPECT_EQ(test, htw_test_pending(cpu), m->count);
	KUNIT_EXPECT_TRUE(test, cpu_online(serving_cpu(cpu)));
	expect_all(test, m);
	htw_test_expect_empty(test);
}

/* From the next tick on, for longer than the CPU takes to go offline. */
static void timers_expire_while_their_cpu_goes(struct kunit *test)
{
	const unsigned int cpu = secondary_cpu(test);
	const struct start_many *m = start_on_cpu(test, cpu, 5000, 0, htw_tick_ns - 1);

	take_away(test, cpu);
	KUNIT_EXPECT_GT_MSG(test, htw_test_pending(cpu), 0, "the CPU took too long to go");
	KUNIT_EXPECT_TRUE(test, cpu_online(serving_cpu(cpu)));
	expect_all(test, m);
	htw_test_expect_empty(test);
}

static void timers_of_one_tick_keep_order_when_their_cpu_goes(struct kunit *test)
{
	const unsigned int cpu = secondary_cpu(test);
	const struct start_many *m = start_on_cpu(test, cpu, 2000, 10 * (u64)NSEC_PER_SEC, 0);

	take_away(test, cpu);
	KUNIT_EXPECT_EQ(test, htw_test_pending(cpu), m->count);
	expect_all(test, m);
}

static void timers_are_cancelled_after_their_cpu_went(struct kunit *test)
{
	const unsigned int cpu = secondary_cpu(test);
	const struct start_many *m = start_on_cpu(test, cpu, 1000, 3600 * (u64)NSEC_PER_SEC,
						  10 * (u64)NSEC_PER_SEC);

	take_away(test, cpu);
	for (u32 i = 0; i < m->count; i++) {
		struct htw_cancel cancel = { .id = m->ids[i] };

		KUNIT_ASSERT_EQ(test, htw_test_cancel(m->ctx, &cancel), 0);
		KUNIT_ASSERT_EQ(test, cancel.cookie, i);
	}
	KUNIT_EXPECT_EQ(test, m->ctx->nr_timers, 0);
	htw_test_expect_empty(test);
}

static void cpu_that_came_back_keeps_timers(struct kunit *test)
{
	const unsigned int cpu = secondary_cpu(test);
	const struct start_many *before, *after;

	before = start_on_cpu(test, cpu, 100, 15 * (u64)NSEC_PER_SEC, htw_tick_ns);
	take_away(test, cpu);
	kunit_release_action(test, bring_back, (void *)(unsigned long)cpu);
	KUNIT_ASSERT_TRUE(test, cpu_online(cpu));
	KUNIT_EXPECT_EQ(test, serving_cpu(cpu), cpu);
	after = start_on_cpu(test, cpu, 100, ALL_STARTED_NS, htw_tick_ns);
	KUNIT_EXPECT_EQ(test, htw_test_pending(cpu), 200);
	expect_all(test, after);
	expect_all(test, before);
	htw_test_expect_empty(test);
}

/*
 * Timers wait on another CPU and are changed from this one just as they expire there.
 */
#define CAUGHT			round_down(HTW_TEST_MANY / 6, CAUGHT_AT_ONCE)
#define CAUGHT_AT_ONCE		8u

struct catch {
	struct htw_context *ctx;
	unsigned int other;
	struct rnd_state rnd;
	u64 deadline;			/* of the timers below */
	u64 ids[CAUGHT_AT_ONCE];
};

static struct catch *catch_init(struct kunit *test)
{
	const unsigned int first = cpumask_first(cpu_online_mask);
	struct catch *c = htw_test_array(test, 1, sizeof(*c));

	c->ctx = htw_test_context(test);
	c->other = secondary_cpu(test);
	/* A timer that is moved here has to be found here. */
	KUNIT_ASSERT_NE(test, c->other, first);
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(first)), 0);
	KUNIT_ASSERT_NOT_NULL(test, htw_context_create_base(c->ctx));
	prandom_seed_state(&c->rnd, 5);
	return c;
}

/* At any time, each timer is either pending on one of the CPUs or waiting to be read. */
static void expect_exact_count(struct kunit *test, struct htw_context *ctx, unsigned int other)
{
	/* The thread is bound to this CPU. */
	struct htw_base *here = this_base(), *there = htw_test_base(other);
	u64 found, held;

	local_bh_disable();
	htw_base_double_lock(here, there);
	spin_lock(&ctx->lock);
	found = there->wheel.pending + ctx->nr_expired;
	if (here != there)
		found += here->wheel.pending;
	held = ctx->nr_timers;
	spin_unlock(&ctx->lock);
	htw_base_double_unlock(here, there);
	local_bh_enable();
	KUNIT_ASSERT_EQ(test, found, held);
}

/* Start some on the other CPU and wait until about their tick. */
static void catch_some(struct kunit *test, struct catch *c, u32 first)
{
	struct start_many m = {
		.ctx = c->ctx,
		.from = htw_now() + 4 * htw_tick_ns,
		.first = first,
		.count = CAUGHT_AT_ONCE,
		.ids = c->ids,
	};
	u64 until;

	KUNIT_ASSERT_EQ(test, work_on_cpu(c->other, start_many, &m), 0);
	c->deadline = m.from;
	until = htw_test_tick_up(m.from) - 100000 + prandom_u32_state(&c->rnd) % 262144;
	while (htw_now() < until)
		cpu_relax();
}

static u16 state_of(struct htw_context *ctx, u64 id)
{
	struct htw_query query = { .id = id };

	htw_test_query(ctx, &query);
	return query.state;
}

/* HTW_MOD races with the expiry: one event, for the deadline that was set last. */
static void mod_races_with_expiry(struct kunit *test)
{
	struct catch *c = catch_init(test);
	u64 *wanted = htw_test_array(test, CAUGHT, sizeof(*wanted));
	u32 *events = htw_test_array(test, CAUGHT, sizeof(*events));
	u32 pending = 0, expired = 0, gone = 0, total = 0;
	struct htw_event event;

	for (u32 i = 0; i < CAUGHT; i++) {
		struct htw_mod mod = { .flags = HTW_MOD_DEADLINE | HTW_F_ABS };
		u16 state;
		int ret;

		if (!(i % CAUGHT_AT_ONCE))
			catch_some(test, c, i);
		mod.id = c->ids[i % CAUGHT_AT_ONCE];
		/* Past, soon, or later: the timer moves to this CPU, or stays. */
		mod.deadline = htw_now() - NSEC_PER_MSEC +
			       prandom_u32_state(&c->rnd) % (8 * NSEC_PER_MSEC);
		state = state_of(c->ctx, mod.id);
		ret = htw_test_mod(c->ctx, &mod);
		KUNIT_ASSERT_TRUE(test, !ret || ret == -ENOENT);
		KUNIT_ASSERT_EQ(test, ret == -ENOENT, !!events[i]);
		wanted[i] = ret ? c->deadline : mod.deadline;
		pending += !ret && state == HTW_STATE_PENDING;
		expired += !ret && state == HTW_STATE_EXPIRED;
		gone += !!ret;
		expect_exact_count(test, c->ctx, c->other);
		/* So that some have been read before they are modified. */
		if (i % CAUGHT_AT_ONCE != 1 || !htw_test_read(c->ctx, &event, 1))
			continue;
		events[event.cookie]++;
		total++;
		if (event.cookie <= i)
			KUNIT_ASSERT_EQ(test, event.deadline, wanted[event.cookie]);
		KUNIT_ASSERT_GE(test, event.fired, event.deadline);
		cond_resched();
	}
	for (; total < CAUGHT; total++) {
		htw_test_wait(test, c->ctx, 1);
		KUNIT_ASSERT_EQ(test, htw_test_read(c->ctx, &event, 1), 1);
		events[event.cookie]++;
		KUNIT_ASSERT_EQ(test, event.deadline, wanted[event.cookie]);
		KUNIT_ASSERT_GE(test, event.fired, event.deadline);
	}
	for (u32 i = 0; i < CAUGHT; i++)
		KUNIT_ASSERT_EQ_MSG(test, events[i], 1, "cookie %u", i);
	KUNIT_EXPECT_EQ(test, c->ctx->nr_timers, 0);
	htw_test_expect_empty(test);
	/* Both sides won sometimes, so they did race. */
	KUNIT_EXPECT_GT(test, pending, 0);
	KUNIT_EXPECT_GT(test, expired, 0);
	kunit_info(test, "pending %u, taken back %u, read already %u", pending, expired, gone);
}

/* The count of pending timers is exact at any time while cancels race with expiry. */
static void count_is_exact_when_cancel_races_expiry(struct kunit *test)
{
	struct catch *c = catch_init(test);
	u32 stopped = 0, dropped = 0, already = 0, read = 0;
	struct htw_event events[8];

	for (u32 i = 0; i < CAUGHT; i++) {
		struct htw_cancel cancel = { .flags = i % 2 ? HTW_CANCEL_DISCARD : 0 };
		int ret;

		if (!(i % CAUGHT_AT_ONCE))
			catch_some(test, c, i);
		cancel.id = c->ids[i % CAUGHT_AT_ONCE];
		ret = htw_test_cancel(c->ctx, &cancel);
		KUNIT_ASSERT_TRUE(test, !ret || ret == -EALREADY);
		stopped += !ret;
		dropped += ret && i % 2;
		already += ret && !(i % 2);
		KUNIT_ASSERT_EQ(test, htw_test_nr_timers(c->ctx),
				round_up(i + 1, CAUGHT_AT_ONCE) - stopped - dropped);
		expect_exact_count(test, c->ctx, c->other);
		cond_resched();
	}
	KUNIT_EXPECT_EQ(test, c->ctx->nr_expired, already);
	for (u32 n; (n = htw_test_read(c->ctx, events, ARRAY_SIZE(events)));)
		read += n;
	KUNIT_EXPECT_EQ(test, read, already);
	KUNIT_EXPECT_EQ(test, c->ctx->nr_timers, 0);
	htw_test_expect_empty(test);
	KUNIT_EXPECT_GT(test, stopped, 0);
	KUNIT_EXPECT_GT(test, already, 0);
	KUNIT_EXPECT_GT(test, dropped, 0);
	kunit_info(test, "stopped %u, dropped %u, already %u", stopped, dropped, already);
}

struct toggler {
	unsigned int cpu;
	unsigned int times;
	int failed;
};

static int toggle_thread(void *data)
{
	struct toggler *t = data;

	while (!kthread_should_stop()) {
		t->failed |= remove_cpu(t->cpu);
		msleep(20);
		t->failed |= add_cpu(t->cpu);
		msleep(20);
		t->times++;
	}
	return 0;
}

/* Run threads while a CPU goes offline and online. */
static void run_threads_and_toggle(struct kunit *test, struct torture *torture,
				   int (*fn)(void *data))
{
	struct toggler toggler = { .cpu = secondary_cpu(test) };
	struct task_struct *task = kthread_create(toggle_thread, &toggler, "htw_kunit_toggle");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	get_task_struct(task);
	wake_up_process(task);
	run_threads(test, torture, fn);
	kthread_stop_put(task);
	KUNIT_EXPECT_EQ(test, toggler.failed, 0);
	KUNIT_EXPECT_GE(test, toggler.times, 1);
}

static void threads_go_on_while_a_cpu_comes_and_goes(struct kunit *test)
{
	struct torture *torture = torture_init(test, 2, 40000);

	run_threads_and_toggle(test, torture, torture_thread);
	torture_check(test, torture);
}

/* Each has its own wheels, and two of them a share of each CPU. */
static void users_go_on_while_a_cpu_comes_and_goes(struct kunit *test)
{
	struct torture *torture = torture_init(test, 3, 40000);

	for (u32 c = 1; c < 3; c++) {
		kunit_release_action(test, htw_test_close, torture->ctx[c]);
		torture->ctx[c] = htw_test_context_of(test, 50000 + c);
	}
	run_threads_and_toggle(test, torture, torture_thread);
	torture_check(test, torture);
}

/* A user's wheels are freed with the last context, whichever CPU serves them. */
static int open_and_close_thread(void *data)
{
	struct thread *thread = data;
	struct torture *torture = thread->torture;
	u32 nr;

	while ((nr = atomic_fetch_inc(&torture->next)) < torture->cookies) {
		struct cred *cred = prepare_creds();
		const struct cred *before;
		struct htw_context *ctx;

		if (!cred) {
			atomic_inc(&torture->failed);
			break;
		}
		cred->uid = KUIDT_INIT(60000 + nr);
		cap_clear(cred->cap_effective);
		before = override_creds(cred);
		ctx = htw_contexts_create(HTW_TEST_LIMIT);
		revert_creds(before);
		put_cred(cred);
		if (!ctx) {
			atomic_inc(&torture->failed);
			break;
		}
		for (u32 i = 0; i < 50; i++) {
			const struct htw_add add = {
				.deadline = i * 40 * NSEC_PER_USEC,
				.interval = i % 2 ? htw_tick_ns : 0,
			};

			if (!htw_test_add(ctx, &add))
				atomic_inc(&torture->failed);
			/* So that the user has wheels on several CPUs. */
			if (!(i % 10))
				usleep_range(50, 500);
		}
		if (READ_ONCE(ctx->nr_expired))
			atomic_inc(&torture->expired);
		htw_contexts_close(ctx);
	}
	return 0;
}

static void users_come_and_go_while_a_cpu_does(struct kunit *test)
{
	struct torture *torture = torture_init(test, 0, 1000);

	run_threads_and_toggle(test, torture, open_and_close_thread);
	KUNIT_EXPECT_EQ(test, atomic_read(&torture->failed), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&torture->expired), 0);
}

static int refuse(unsigned int cpu)
{
	return -EIO;
}

static void remove_state(void *state)
{
	cpuhp_remove_state_nocalls((unsigned long)state);
}

/* A step after htw fails while a CPU comes online: the CPU goes down again. */
static void cpu_that_fails_to_come_up_is_served(struct kunit *test)
{
	const unsigned int cpu = secondary_cpu(test);
	const struct start_many *m;
	struct htw_base *base;
	int state;

	m = start_on_cpu(test, cpu, 1000, 3 * (u64)NSEC_PER_SEC, 54321);
	take_away(test, cpu);
	state = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "htw:kunit", refuse, NULL);
	KUNIT_ASSERT_GT(test, state, 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, remove_state,
							(void *)(unsigned long)state), 0);
	for (unsigned int i = 0; i < 3; i++) {
		KUNIT_EXPECT_NE(test, add_cpu(cpu), 0);
		KUNIT_ASSERT_FALSE(test, cpu_online(cpu));
		KUNIT_EXPECT_TRUE(test, cpu_online(serving_cpu(cpu)));
	}
	/* Callouts as well. */
	base = per_cpu(htw_callout_bases, cpu);
	KUNIT_EXPECT_TRUE(test, cpu_online(base->job.pacer->cpu));
	KUNIT_EXPECT_EQ(test, htw_test_pending(cpu), m->count);
	expect_all(test, m);
}

/* A turn goes on without a base that is locked, and leaves a note. */
static void a_turn_wants_a_locked_base(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	enum htw_served served = HTW_SERVED_DONE;
	struct htw_turn turn = { .units = 1 };
	struct htw_base *base;

	htw_test_start(test, ctx, KTIME_MAX, 1);
	migrate_disable();
	base = this_base();
	turn.pacer = base->job.pacer;
	spin_lock_bh(&base->lock);
	KUNIT_EXPECT_FALSE(test, base->wanted);
	KUNIT_EXPECT_FALSE(test, htw_base_begin_turn(base, &turn, &served));
	KUNIT_EXPECT_EQ(test, served, HTW_SERVED_BUSY);
	KUNIT_EXPECT_TRUE(test, base->wanted);
	spin_unlock_bh(&base->lock);
	/* As if it were another CPU's, so that this ends with the lock released. */
	turn.pacer = NULL;
	local_bh_disable();
	KUNIT_EXPECT_FALSE(test, htw_base_begin_turn(base, &turn, &served));
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, served, HTW_SERVED_MORE);
	KUNIT_EXPECT_FALSE(test, base->wanted);
	migrate_enable();
}

/* A turn ends at a context that is locked, and delivers nothing. */
static void a_turn_ends_at_a_locked_context(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_base *base = due_base_begin(test, ctx);
	enum htw_served served;

	spin_lock(&ctx->lock);
	served = serve_once(base, base->job.pacer);
	spin_unlock(&ctx->lock);
	KUNIT_EXPECT_EQ(test, served, HTW_SERVED_BUSY);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);
	due_base_end(test, ctx);
}

/* Calls on a context without timers, from another CPU. */
struct fresh_calls {
	struct htw_context *ctx;
	struct completion done;
	int cancel, query;
};

static int make_fresh_calls(void *data)
{
	struct htw_cancel cancel = { .id = 1ULL << 32 | 1 };
	struct htw_query query = { .id = cancel.id };
	struct fresh_calls *c = data;

	c->cancel = htw_test_cancel(c->ctx, &cancel);
	c->query = htw_test_query(c->ctx, &query);
	complete(&c->done);
	return 0;
}

/* Where no timer was ever armed there is nothing to look up, and no lock to take for it. */
static void a_fresh_context_locks_no_base(struct kunit *test)
{
	const unsigned int cpu = cpumask_next(cpumask_first(cpu_online_mask), cpu_online_mask);
	struct htw_base *base = per_cpu(htw_callout_bases, cpu);
	struct fresh_calls c = { .ctx = htw_test_context(test) };
	struct task_struct *task;
	bool done;

	init_completion(&c.done);
	KUNIT_ASSERT_LT(test, cpu, nr_cpu_ids);
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current,
						   cpumask_of(cpumask_first(cpu_online_mask))), 0);
	task = kthread_create(make_fresh_calls, &c, "htw-fresh");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	kthread_bind(task, cpu);
	spin_lock_bh(&base->lock);
	wake_up_process(task);
	for (unsigned int ms = 0; ms < 3000 && !completion_done(&c.done); ms++)
		mdelay(1);
	done = completion_done(&c.done);
	spin_unlock_bh(&base->lock);
	wait_for_completion(&c.done);
	KUNIT_EXPECT_TRUE(test, done);
	KUNIT_EXPECT_EQ(test, c.cancel, -ENOENT);
	KUNIT_EXPECT_EQ(test, c.query, -ENOENT);
}
#endif /* CONFIG_SMP */

static struct kunit_case htw_base_cases[] = {
	KUNIT_CASE(waits_beside_isolated_cpus),
	KUNIT_CASE(past_deadline_expires_at_once),
	KUNIT_CASE(slack_is_rounded_down),
	KUNIT_CASE(moved_timer_keeps_its_slack),
	KUNIT_CASE(bases_have_their_users_skew),
	KUNIT_CASE(slack_with_a_skew),
	KUNIT_CASE(slack_of_a_user_meets),
	KUNIT_CASE(base_has_memory_for_its_levels),
	KUNIT_CASE(base_without_memory_is_not_made),
	KUNIT_CASE(turn_of_a_former_pacer_does_nothing),
	KUNIT_CASE_SLOW(equal_deadlines_expire_in_order),
	KUNIT_CASE(due_timers_stay_in_order_behind_others),
	KUNIT_CASE_SLOW(cancelled_timer_does_not_expire),
	KUNIT_CASE(closing_stops_timers),
	KUNIT_CASE_SLOW(runs_leave_half_of_the_cpu),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE_SLOW(turn_delivers_a_batch),
	KUNIT_CASE_PARAM(turn_has_units, turn_loads_gen_params),
	KUNIT_CASE(a_section_brings_the_wheel_to_the_present),
	KUNIT_CASE_SLOW(time_is_virtual),
	KUNIT_CASE_PARAM(deadline_is_rounded_up, offsets_in_tick_gen_params),
	KUNIT_CASE_SLOW(call_before_the_first_add_leaves_the_wheel),
	KUNIT_CASE_SLOW(expires_with_an_hrtimer_for_its_tick),
	KUNIT_CASE(past_deadline_expires_now),
	KUNIT_CASE(past_deadline_waits_for_the_next_run),
	KUNIT_CASE_PARAM(past_deadline_waits_for_no_tick, clocks_gen_params),
	KUNIT_CASE_PARAM(one_deadline_before_and_after_it_came, before_it_came_gen_params),
	KUNIT_CASE_SLOW(earlier_deadline_is_not_held_up),
	KUNIT_CASE(a_section_programs_the_hrtimer_once),
	KUNIT_CASE(crowded_private_wheels_share_interrupts),
	KUNIT_CASE(a_timer_moves_to_another_base),
	KUNIT_CASE(start_that_wakes_another_cpu),
	KUNIT_CASE(pending_timer_moves_to_this_cpu),
	KUNIT_CASE(a_section_counts_what_it_does),
	KUNIT_CASE_SLOW(a_section_looks_at_a_few_due_timers),
	KUNIT_CASE(a_due_timer_leaves_later_ones_alone),
	KUNIT_CASE(sections_give_way_to_a_turn),
	KUNIT_CASE_SLOW(spans_from_now),
	KUNIT_CASE_ATTR(powers_of_64_from_now, {.speed = KUNIT_SPEED_VERY_SLOW}),
	KUNIT_CASE_ATTR(ends_of_windows, {.speed = KUNIT_SPEED_VERY_SLOW}),
	KUNIT_CASE_ATTR(ends_of_windows_from_close_by, {.speed = KUNIT_SPEED_VERY_SLOW}),
	KUNIT_CASE_ATTR(ends_of_the_last_level, {.speed = KUNIT_SPEED_VERY_SLOW}),
	KUNIT_CASE_ATTR(half_an_hour_and_ten_days, {.speed = KUNIT_SPEED_VERY_SLOW}),
	KUNIT_CASE_ATTR(random_deadlines, {.speed = KUNIT_SPEED_VERY_SLOW}),
	KUNIT_CASE_SLOW(never_is_never),
	KUNIT_CASE_SLOW(remaining_is_told),
	KUNIT_CASE(cancel_says_already_only_once_expired),
	KUNIT_CASE_PARAM_ATTR(periodic_keeps_phase, intervals_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(stalled_reader_misses_by_the_phase, intervals_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE(missed_firings_count),
	KUNIT_CASE_SLOW(nothing_pending_costs_nothing),
	KUNIT_CASE_SLOW(empty_ticks_cost_nothing),
	KUNIT_CASE_SLOW(far_timers_cost_next_to_nothing),
	KUNIT_CASE_SLOW(cancelled_timers_cost_one_callback),
	KUNIT_CASE(cancel_leaves_the_hrtimer),
	KUNIT_CASE(one_tick_is_one_callback),
	KUNIT_CASE_SLOW(a_million_at_one_tick),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE(a_turn_wants_a_locked_base),
	KUNIT_CASE(a_turn_ends_at_a_locked_context),
	KUNIT_CASE_SLOW(a_fresh_context_locks_no_base),
	KUNIT_CASE_SLOW(threads_on_one_context),
	KUNIT_CASE_SLOW(threads_on_several_contexts),
	KUNIT_CASE_SLOW(cancel_races_with_expiry),
	KUNIT_CASE_SLOW(periodic_rearm_races_with_cancel),
	KUNIT_CASE_SLOW(close_races_with_expiry),
	KUNIT_CASE_SLOW(close_while_a_callback_wakes_up),
	KUNIT_CASE_SLOW(mod_races_with_expiry),
	KUNIT_CASE_SLOW(count_is_exact_when_cancel_races_expiry),
	KUNIT_CASE_SLOW(timers_wait_on_the_cpu_that_starts_them),
	KUNIT_CASE_SLOW(timers_are_cancelled_from_any_cpu),
	KUNIT_CASE_SLOW(timers_survive_their_cpu),
	KUNIT_CASE_SLOW(timers_expire_while_their_cpu_goes),
	KUNIT_CASE_SLOW(timers_of_one_tick_keep_order_when_their_cpu_goes),
	KUNIT_CASE_SLOW(timers_are_cancelled_after_their_cpu_went),
	KUNIT_CASE_SLOW(cpu_that_came_back_keeps_timers),
	KUNIT_CASE_SLOW(cpu_that_fails_to_come_up_is_served),
	KUNIT_CASE_SLOW(threads_go_on_while_a_cpu_comes_and_goes),
	KUNIT_CASE_SLOW(users_go_on_while_a_cpu_comes_and_goes),
	KUNIT_CASE_SLOW(users_come_and_go_while_a_cpu_does),
#endif
	{}
};

static struct kunit_suite htw_base_suite = {
	.name = "htw_base",
	.init = htw_test_init,
	.test_cases = htw_base_cases,
};

kunit_test_suite(htw_base_suite);

MODULE_DESCRIPTION("KUnit: the engine and its contexts");
MODULE_LICENSE("GPL");
