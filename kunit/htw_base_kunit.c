// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: when timers come on the kernel's clocks, and what that costs
 *
 * With time travel, on ARCH=um, the clock jumps to the next event, so that lateness and
 * interrupts are known exactly.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/sched/debug.h>
#include <linux/sort.h>
#include <linux/timekeeping.h>

#include "htw_kunit.h"

#define US			1000ull
#define MS			1000000ull
#define SEC			1000000000ull
#define HOUR			(3600 * SEC)

static const s32 clocks[] = { CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME };

static void get_clock_desc(const s32 *clock, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "clock %d", *clock);
}

KUNIT_ARRAY_PARAM(clock, clocks, get_clock_desc);

static struct htw_test_file *open_clock(struct kunit *test, s32 clock)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_CLOCK, .clock = clock };
	struct htw_test_file *f = htw_test_open(test);

	htw_test_setup(f, &setup);
	return f;
}

static u64 now_of(const struct htw_test_file *f)
{
	return htw_context_now(f->ctx);
}

/*
 * On any kernel
 */

/* Random timers, started, moved and cancelled while they come. */
#define SLOTS			500u

/**
 * struct race - random timers on a clock that goes on meanwhile
 * @rnd: where they come from
 * @id: their ids, or zero
 * @deadline: when each is due
 * @cookie: their cookies
 * @events: what was read
 */
struct race {
	struct rnd_state rnd;
	u64 id[SLOTS];
	u64 deadline[SLOTS];
	u64 cookie[SLOTS];
	struct htw_event events[SLOTS];
};

static u32 pick(struct race *r, u32 below)
{
	return prandom_u32_state(&r->rnd) % below;
}

static void race_start(struct htw_test_file *f, struct race *r, u32 i, u32 round)
{
	const u64 now = now_of(f);

	/* Some are past. */
	r->deadline[i] = now - min(now, MS) + pick(r, 30 * MS);
	r->cookie[i] = (u64)round << 32 | i;
	r->id[i] = htw_test_start(f, r->deadline[i], r->cookie[i]);
}

/*
 * Read what there is. Each event is of a timer that was started, was not read before, and
 * is not early; none that should have come a while ago is left.
 */
static void race_read(struct htw_test_file *f, struct race *r)
{
	const u64 before = now_of(f);
	const u32 n = htw_test_take(f, r->events, SLOTS);
	struct kunit *test = f->test;

	for (u32 k = 0; k < n; k++) {
		const struct htw_event *event = &r->events[k];
		const u32 i = event->cookie;

		KUNIT_ASSERT_LT(test, i, SLOTS);
		KUNIT_ASSERT_EQ(test, event->id, r->id[i]);
		KUNIT_ASSERT_EQ(test, event->cookie, r->cookie[i]);
		KUNIT_ASSERT_EQ(test, event->deadline, r->deadline[i]);
		KUNIT_ASSERT_GE(test, event->taken, event->deadline);
		KUNIT_ASSERT_LE(test, event->taken, now_of(f));
		r->id[i] = 0;
	}
	/* Elsewhere the alarm's interrupt may be kept from coming. */
	for (u32 i = 0; IS_ENABLED(CONFIG_UML_TIME_TRAVEL_SUPPORT) && i < SLOTS; i++)
		KUNIT_ASSERT_FALSE(test, r->id[i] && r->deadline[i] + 2 * MS <= before);
}

static void timers_come_once_and_not_early(struct kunit *test)
{
	struct htw_test_file *f = open_clock(test, *(const s32 *)test->param_value);
	struct race *r = htw_test_array(test, 1, sizeof(*r));
	u32 left = 0;

	prandom_seed_state(&r->rnd, 7);
	for (u32 round = 1; round < 400; round++) {
		for (u32 k = 0; k < 20; k++) {
			struct htw_cancel_args cancel;
			const u32 i = pick(r, SLOTS);
			struct htw_mod_args mod = {
				.id = r->id[i], .flags = HTW_MOD_DEADLINE | HTW_F_ABS,
				.deadline = now_of(f) + pick(r, 20 * MS),
			};

			if (!r->id[i]) {
				race_start(f, r, i, round);
			} else if (pick(r, 2)) {
				KUNIT_ASSERT_EQ(test, htw_test_mod(f, &mod), 0);
				r->deadline[i] = mod.deadline;
			} else {
				KUNIT_ASSERT_EQ(test, htw_test_cancel(f, r->id[i], &cancel), 0);
				KUNIT_ASSERT_EQ(test, cancel.cookie, r->cookie[i]);
				r->id[i] = 0;
			}
		}
		if (pick(r, 4))
			race_read(f, r);
		else
			htw_test_sleep_until(test, htw_now() + pick(r, 5 * MS));
	}
	htw_test_sleep_until(test, htw_now() + 50 * MS);
	race_read(f, r);
	for (u32 i = 0; i < SLOTS; i++)
		left += r->id[i] != 0;
	KUNIT_EXPECT_EQ(test, left, 0);
	htw_test_expect_nothing(f);
}

/* No alarm is set for an earlier or a later time than there is work. */
static void alarm_is_set_for_the_first(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	const u64 tick_ns = htw_test_info(f).tick_ns;
	u64 first = htw_now() + HOUR;
	const u64 id = htw_test_start(f, first, 1);
	struct htw_base *base = f->ctx->first;
	struct htw_mod_args mod = {
		.id = id, .flags = HTW_MOD_DEADLINE | HTW_F_ABS, .deadline = first + HOUR,
	};

	KUNIT_EXPECT_EQ(test, base->armed, htw_tick_up(first, tick_ns) * tick_ns);
	/* Later: it stays as it is; earlier: it is set. */
	KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
	KUNIT_EXPECT_EQ(test, base->armed, htw_tick_up(first, tick_ns) * tick_ns);
	KUNIT_EXPECT_EQ(test, htw_test_info(f).next,
			htw_tick_up(first + HOUR, tick_ns) * tick_ns);
	for (u32 i = 0; i < 5; i++) {
		first -= HOUR / 100;
		htw_test_start(f, first, i);
		KUNIT_EXPECT_EQ(test, base->armed, htw_tick_up(first, tick_ns) * tick_ns);
		htw_test_start(f, first + 1000 * SEC, i);
		KUNIT_EXPECT_EQ(test, base->armed, htw_tick_up(first, tick_ns) * tick_ns);
		KUNIT_EXPECT_EQ(test, htw_test_info(f).next, base->armed);
	}
}

/*
 * What is due and nobody waits for sets no alarm, nor does what comes later, until somebody has
 * taken it.
 */
static void alarm_is_not_set_for_what_is_due(struct kunit *test)
{
	struct htw_test_file *f = htw_test_open(test);
	struct htw_event events[3];
	struct htw_base *base;

	htw_test_start(f, 0, 1);
	base = f->ctx->first;
	KUNIT_EXPECT_EQ(test, base->armed, HTW_NEVER);
	htw_test_start(f, htw_now() + 10 * MS, 2);
	htw_test_start(f, htw_now() + HOUR, 3);
	KUNIT_EXPECT_EQ(test, base->armed, HTW_NEVER);
	KUNIT_EXPECT_EQ(test, base->place, HTW_NOWHERE);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, events, 1), 1);
	htw_test_sleep_until(test, htw_now() + 20 * MS);
	KUNIT_EXPECT_TRUE(test, htw_test_is_readable(f));
	KUNIT_EXPECT_EQ(test, htw_test_take(f, events, 3), 1);
	KUNIT_EXPECT_FALSE(test, base->told);
	KUNIT_EXPECT_EQ(test, base->place, HTW_TIMED);
	KUNIT_EXPECT_EQ(test, base->armed, base->next);
}

/* Whether a timer is due is told by the clock, also behind others that nobody has read. */
static void states_go_by_the_clock(struct kunit *test)
{
	const struct htw_add_args periodic = { .deadline = 10 * MS, .interval = 2 * MS };
	struct htw_test_file *f = htw_test_open(test);
	struct htw_mod_args mod = { .flags = HTW_MOD_COOKIE };
	struct htw_cancel_args cancel;
	u64 id[3];

	for (u32 i = 0; i < ARRAY_SIZE(id) - 1; i++)
		id[i] = htw_test_start(f, htw_now() + (5 + 5 * i) * MS, i);
	id[2] = htw_test_add(f, &periodic);
	htw_test_sleep_until(test, htw_now() + 20 * MS);
	for (u32 i = 0; i < ARRAY_SIZE(id); i++) {
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, id[i]).state, HTW_STATE_DUE);
		mod.id = id[i];
		KUNIT_EXPECT_EQ(test, htw_test_mod(f, &mod), 0);
		KUNIT_EXPECT_EQ(test, mod.state, HTW_STATE_DUE);
		KUNIT_EXPECT_LE(test, htw_test_info(f).next, htw_now());
	}
	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, id[2], &cancel), 0);
	KUNIT_EXPECT_EQ(test, cancel.state, HTW_STATE_DUE);
	KUNIT_EXPECT_GE(test, cancel.missed, 4);
}

/*
 * Several CPUs
 */

/* A thread on a CPU that starts timers. */
struct starter {
	struct file *file;
	unsigned long arg;
	struct mm_struct *mm;
	u64 deadline;
	u32 first;
	u32 count;
	u32 started;
	/* The first error; read when @done is complete. */
	int error;
	struct completion done;
};

static int start_many(void *data)
{
	struct starter *s = data;

	kthread_use_mm(s->mm);
	for (u32 i = 0; i < s->count && !s->error; i++) {
		struct htw_add_args add = {
			.flags = HTW_F_ABS, .deadline = s->deadline, .cookie = s->first + i,
		};

		if (copy_to_user((void __user *)s->arg, &add, sizeof(add)))
			s->error = -EFAULT;
		else
			s->error = s->file->f_op->unlocked_ioctl(s->file, HTW_ADD, s->arg);
		WRITE_ONCE(s->started, i + 1);
	}
	kthread_unuse_mm(s->mm);
	complete(&s->done);
	return 0;
}

/* Start timers from a CPU. */
static void start_on(struct htw_test_file *f, unsigned int cpu, u64 deadline, u32 first, u32 count)
{
	struct starter s = {
		.file = f->file, .arg = f->arg, .mm = current->mm, .deadline = deadline,
		.first = first, .count = count,
		.done = COMPLETION_INITIALIZER_ONSTACK(s.done),
	};
	struct task_struct *task = kthread_create(start_many, &s, "htw_kunit_start");
	u32 before = U32_MAX;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(f->test, task);
	get_task_struct(task);
	kthread_bind(task, cpu);
	wake_up_process(task);
	/* An emulated CPU may get little of the host's time: it is to get on, however slowly. */
	while (!wait_for_completion_timeout(&s.done, 20 * HZ)) {
		const u32 started = READ_ONCE(s.started);

		if (started != before) {
			before = started;
			continue;
		}
		KUNIT_FAIL(f->test, "CPU %u stays at %u of %u timers", cpu, started, count);
		/* The log says where it waits. This stack is its own as long as it runs. */
		sched_show_task(task);
		wait_for_completion(&s.done);
		break;
	}
	put_task_struct(task);
	KUNIT_ASSERT_EQ(f->test, s.error, 0);
}

/* CPUs that start many timers have bases of their own; with HTW_SETUP_ORDERED there is one. */
static void order_over_cpus(struct kunit *test)
{
	const struct htw_setup_args setup = { .flags = HTW_SETUP_ORDERED };
	const u32 each = 300;

	for (u32 ordered = 0; ordered < 2; ordered++) {
		struct htw_event *events = htw_test_array(test, 4 * each + 1, sizeof(*events));
		struct htw_test_file *f = htw_test_open(test);
		const u64 deadline = htw_now() + 2 * SEC;
		u32 last[2] = {}, n, cpus = 0;
		unsigned int cpu, on[2];

		for_each_online_cpu(cpu)
			if (cpus < 2)
				on[cpus++] = cpu;
		if (ordered)
			htw_test_setup(f, &setup);
		for (u32 i = 0; i < 4; i++)
			start_on(f, on[i % cpus], deadline, i * each, each);
		KUNIT_EXPECT_EQ(test, f->ctx->nr_bases, ordered ? 1 : cpus);
		htw_test_sleep_until(test, deadline + 2 * MS);
		KUNIT_EXPECT_TRUE(test, htw_test_is_readable(f));
		n = htw_test_take(f, events, 4 * each + 1);
		KUNIT_ASSERT_EQ(test, n, 4 * each);
		for (u32 i = 0; i < n; i++) {
			const u32 part = ordered ? 0 : events[i].cookie / each % cpus;

			/* In the order of the starts, on each CPU. */
			KUNIT_ASSERT_GE(test, events[i].cookie, last[part]);
			last[part] = events[i].cookie;
		}
		htw_test_expect_nothing(f);
	}
}

/* A read that has room for little takes of each base in turn. */
static void bases_take_turns(struct kunit *test)
{
	const u32 each = 300;
	struct htw_test_file *f = htw_test_open(test);
	u32 seen[2] = {}, cpus = 0;
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (cpus < 2) {
			start_on(f, cpu, 0, cpus * each, each);
			cpus++;
		}
	}
	for (u32 i = 0; i < 20; i++) {
		struct htw_event events[5];

		KUNIT_ASSERT_EQ(test, htw_test_take(f, events, 5), 5);
		for (u32 k = 0; k < 5; k++)
			seen[events[k].cookie / each]++;
	}
	for (u32 i = 0; i < cpus; i++)
		KUNIT_EXPECT_GE(test, seen[i], 40);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
/*
 * With time travel
 */

/*
 * How late an event is read, after its tick: the clock is read in steps of 256 ns, and an
 * alarm rings no sooner than 10 us after its last ring.
 */
#define LATE			(20 * US)

/*
 * A thread that reads events one by one, and blocks for each: KUnit has the case's own thread stop
 * after five minutes, virtual ones as well, and wait_woken() does not sleep in one that should.
 */
struct reads {
	struct htw_test_file *f;
	struct htw_event *events;
	u32 count;
	ssize_t ret;
	struct completion done;
};

static int read_thread(void *data)
{
	struct reads *r = data;

	r->ret = sizeof(*r->events);
	for (u32 i = 0; i < r->count && r->ret == sizeof(*r->events); i++)
		r->ret = htw_test_read_one(r->f->file, &r->events[i]);
	complete(&r->done);
	return 0;
}

static void read_blocking(struct htw_test_file *f, struct htw_event *events, u32 count)
{
	struct reads r = { .f = f, .events = events, .count = count };
	struct kunit *test = f->test;

	init_completion(&r.done);
	htw_test_set_nonblock(f, false);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(read_thread, &r, "htw_kunit_read"));
	wait_for_completion(&r.done);
	htw_test_set_nonblock(f, true);
	htw_test_forgive_time(test);
	KUNIT_ASSERT_EQ(test, r.ret, sizeof(*events));
}

static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Start timers for all deadlines, and expect that each is read in its tick, and not before. */
static void expect_all_on_time(struct htw_test_file *f, u64 *deadlines, u32 count)
{
	const u64 tick_ns = htw_test_info(f).tick_ns;
	struct kunit *test = f->test;
	struct htw_event *events = htw_test_array(test, count, sizeof(*events));
	u64 last = 0, late = LATE;

	for (u32 i = 0; i < count; i++)
		htw_test_start(f, deadlines[i], deadlines[i]);
	sort(deadlines, count, sizeof(*deadlines), compare, NULL);
	read_blocking(f, events, count);
	for (u32 i = 0; i < count; i++) {
		const struct htw_event *event = &events[i];
		const u64 tick = htw_tick_up(event->deadline, tick_ns) * tick_ns;

		/* Each read of those of one tick takes a while. */
		late = tick == last ? late + US : LATE;
		last = tick;
		KUNIT_ASSERT_EQ(test, event->cookie, event->deadline);
		KUNIT_ASSERT_EQ(test, tick, htw_tick_up(deadlines[i], tick_ns) * tick_ns);
		KUNIT_ASSERT_GE(test, event->taken, event->deadline);
		KUNIT_ASSERT_GE(test, event->taken, tick);
		KUNIT_ASSERT_LT(test, event->taken, tick + late);
	}
	htw_test_expect_nothing(f);
}

/*
 * The furthest deadlines are one clock's: with time travel the kernel's own interrupts on the way
 * there, one in four seconds, take seconds of real time for each clock.
 */
static bool goes_far(struct kunit *test)
{
	return *(const s32 *)test->param_value == CLOCK_MONOTONIC;
}

/* Powers of two of ticks from now, with one more and less. */
static void powers_of_two_from_now(struct kunit *test)
{
	struct htw_test_file *f = open_clock(test, *(const s32 *)test->param_value);
	const u32 powers = goes_far(test) ? 29 : 20;
	u64 deadlines[3 * 29], now = now_of(f) + MS;

	for (u32 i = 0; i < powers; i++)
		for (u32 k = 0; k < 3; k++)
			deadlines[3 * i + k] = now + (MS << i) + k * MS / 2 - MS / 2;
	expect_all_on_time(f, deadlines, 3 * powers);
}

/* The first and last ticks of windows, for a wheel with levels and one without. */
static void ends_of_windows(struct kunit *test)
{
	static const struct htw_setup_args setups[] = {
		{}, { .levels = 3, .slots = { 10, 60, 5 } },
		{ .levels = 8, .slots = { 2, 2, 2, 2, 2, 2, 2, 2 } },
		{ .flags = HTW_SETUP_EXACT },
	};

	for (u32 s = 0; s < ARRAY_SIZE(setups); s++) {
		for (u32 count = 40; count <= 640; count *= 4) {
			u64 *deadlines = htw_test_array(test, count, sizeof(u64)), now, tick;
			struct htw_test_file *f = htw_test_open(test);

			htw_test_setup(f, &setups[s]);
			tick = htw_test_info(f).tick_ns;
			/* Further apart than alarms may be. */
			now = htw_now() / tick + 100;
			for (u32 i = 0; i < count; i++) {
				const u64 span = 4ull << i % 20, k = i / 20;

				deadlines[i] = (now / span + 1 + k) * span * tick -
					       (i % 3 ? 5 * tick : 0);
			}
			expect_all_on_time(f, deadlines, count);
		}
	}
}

static void random_deadlines(struct kunit *test)
{
	const u32 count = 3000;
	u64 *deadlines = htw_test_array(test, count, sizeof(u64));
	struct rnd_state rnd;

	for (u32 seed = 0; seed < 3; seed++) {
		struct htw_test_file *f = open_clock(test, *(const s32 *)test->param_value);
		const u32 shift = goes_far(test) ? 14 : 8;
		const u64 now = now_of(f) + 10 * MS;

		prandom_seed_state(&rnd, seed);
		for (u32 i = 0; i < count; i++)
			deadlines[i] = now + ((u64)prandom_u32_state(&rnd) << shift >>
					      prandom_u32_state(&rnd) % 30);
		expect_all_on_time(f, deadlines, count);
	}
}

/* Counts how often an alarm rings, in place of its function. */
static struct {
	enum hrtimer_restart (*ring)(struct hrtimer *timer);
	u32 count;
	u64 last;
} rings;

static enum hrtimer_restart count_ring(struct hrtimer *timer)
{
	rings.count++;
	rings.last = htw_now();
	return rings.ring(timer);
}

static void count_no_more(void *alarm)
{
	((struct htw_alarm *)alarm)->timer.function = rings.ring;
}

/* Open the device as a user of its own, and count the rings of its alarm. */
static struct htw_test_file *open_counting(struct kunit *test)
{
	/* Its alarm is of this case alone. */
	struct htw_test_file *f = htw_test_open_as(test, 5000);
	struct htw_alarm *a = htw_test_alarm(f, 0);

	rings.ring = a->timer.function;
	rings.count = 0;
	a->timer.function = count_ring;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, count_no_more, a), 0);
	return f;
}

/* How often the alarm rings in some time. */
static u32 rings_in(struct kunit *test, u64 ns)
{
	const u32 before = rings.count;

	htw_test_sleep_until(test, htw_now() + ns);
	return rings.count - before;
}

static void nothing_pending_costs_nothing(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	struct htw_cancel_args cancel;
	struct htw_event event;

	KUNIT_EXPECT_EQ(test, rings_in(test, HOUR), 0);
	htw_test_start(f, 0, 1);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, rings_in(test, HOUR), 0);
	KUNIT_EXPECT_EQ(test, htw_test_cancel(f, htw_test_start(f, U64_MAX, 1), &cancel), 0);
	htw_test_start(f, U64_MAX, 1);
	KUNIT_EXPECT_EQ(test, rings_in(test, HOUR), 0);
}

/* Pending timers cost nothing until they are due; with levels next to nothing. */
static void pending_timers_cost_next_to_nothing(struct kunit *test)
{
	for (u32 count = 1; count <= HTW_TEST_MANY; count *= 10) {
		/* A user's alarms go with the last descriptor. */
		struct htw_test_file *last = open_counting(test);
		struct htw_test_file *f = htw_test_open_as(test, 5000);

		for (u32 i = 0; i < count; i++)
			htw_test_start(f, htw_now() + 2 * HOUR + i * MS, i);
		KUNIT_EXPECT_LE(test, rings_in(test, HOUR), count < 63 ? 0 : 4);
		htw_test_close(f);
		/* For what was first. */
		KUNIT_EXPECT_LE(test, rings_in(test, 4 * HOUR), 1);
		KUNIT_EXPECT_EQ(test, rings_in(test, 4 * HOUR), 0);
		kunit_release_action(test, count_no_more, htw_test_alarm(last, 0));
		htw_test_close(last);
	}
}

/* One ring for what is due on one tick, of however many timers and descriptors. */
static void one_tick_is_one_ring(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test), *g = htw_test_open_as(test, 5000);
	const u64 deadline = htw_now() + 10 * SEC;
	struct htw_event *events = htw_test_array(test, 1000, sizeof(*events));

	for (u32 i = 0; i < 1000; i++)
		htw_test_start(f, deadline - i, i);
	for (u32 i = 0; i < 50; i++)
		htw_test_start(g, deadline - i, i);
	KUNIT_EXPECT_LE(test, rings_in(test, 20 * SEC), 3);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, events, 1000), 1000);
	KUNIT_EXPECT_EQ(test, htw_test_take(g, events, 1000), 50);
}

/* After the last cancel there is at most one ring; the same if what is first is put off. */
static void what_is_cancelled_costs_one_ring(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	struct htw_mod_args mod = { .flags = HTW_MOD_DEADLINE };
	u64 *ids = htw_test_array(test, 1000, sizeof(*ids)), start = htw_now();
	struct htw_cancel_args cancel;

	for (u32 i = 0; i < 1000; i++)
		ids[i] = htw_test_start(f, start + SEC + i * MS, i);
	for (u32 i = 0; i < 1000; i++)
		KUNIT_EXPECT_EQ(test, htw_test_cancel(f, ids[i], &cancel), 0);
	KUNIT_EXPECT_LE(test, rings_in(test, HOUR), 1);

	/* A program that puts its only timer off, time and again. */
	mod.id = htw_test_start(f, htw_now() + SEC, 1);
	rings.count = 0;
	for (u32 i = 0; i < 10000; i++) {
		mod.deadline = SEC;
		KUNIT_ASSERT_EQ(test, htw_test_mod(f, &mod), 0);
		htw_test_sleep_until(test, htw_now() + MS);
	}
	/* One for each time it would have been due, of those that the alarm was set for. */
	KUNIT_EXPECT_LE(test, rings.count, 11);
	KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
}

/* What nobody reads, and nobody waits for, costs nothing. */
static void what_nobody_reads_costs_nothing(struct kunit *test)
{
	const struct htw_add_args periodic = { .deadline = MS, .interval = MS };
	struct htw_test_file *f = open_counting(test);
	struct htw_event *events = htw_test_array(test, 1000, sizeof(*events));
	u32 n;

	for (u32 i = 0; i < 100; i++)
		htw_test_add(f, &periodic);
	KUNIT_EXPECT_EQ(test, rings_in(test, 2 * MS), 1);
	KUNIT_EXPECT_EQ(test, rings_in(test, HOUR), 0);
	/* A call that finds them due tells nobody again. */
	htw_test_start(f, 0, 1);
	htw_test_start(f, htw_now() + 10 * MS, 1);
	KUNIT_EXPECT_EQ(test, rings_in(test, HOUR), 0);
	n = htw_test_take(f, events, 1000);
	KUNIT_EXPECT_EQ(test, n, 102);
	/* Once it has been read, there is one again. */
	KUNIT_EXPECT_EQ(test, rings_in(test, HOUR), 1);
}

/* An alarm does not ring at a time that has come, over and over. */
static void alarms_keep_a_gap(struct kunit *test)
{
	const struct htw_setup_args setup = { .tick_ns = 10 * US };
	struct htw_test_file *f[40];
	u64 start;

	f[0] = open_counting(test);
	for (u32 i = 0; i < ARRAY_SIZE(f); i++) {
		if (i)
			f[i] = htw_test_open_as(test, 5000);
		htw_test_setup(f[i], &setup);
	}
	start = htw_tick_up(htw_now(), 10 * US) * 10 * US + SEC;
	/* Those of a tick come together, and of two ticks not sooner after each other. */
	for (u32 i = 0; i < ARRAY_SIZE(f); i++)
		htw_test_start(f[i], start + i / 2 * 10 * US, i);
	KUNIT_EXPECT_LE(test, rings_in(test, 2 * SEC), ARRAY_SIZE(f) / 2 + 1);
	for (u32 i = 0; i < ARRAY_SIZE(f); i++)
		KUNIT_EXPECT_TRUE(test, htw_test_is_readable(f[i]));
	/* The last one rang once its time had come. */
	KUNIT_EXPECT_GE(test, rings.last, start + (ARRAY_SIZE(f) - 1) / 2 * 10 * US);
	KUNIT_EXPECT_LT(test, rings.last, start + ARRAY_SIZE(f) * 10 * US + LATE);
}

/*
 * A long bucket
 */

/* Who waits in poll(): looks when woken, as a task does, and notes what it was told. */
struct poller {
	wait_queue_entry_t wait;
	struct htw_test_file *f;
	struct work_struct work;
	u32 calls;
	u32 looks;
	u64 told;		/* when it was first told that the descriptor is readable */
	bool readable;
};

static void poller_look(struct work_struct *work)
{
	struct poller *p = container_of(work, struct poller, work);

	p->looks++;
	if (vfs_poll(p->f->file, NULL) & EPOLLIN && !p->readable) {
		p->readable = true;
		if (!p->told)
			p->told = htw_now();
	}
}

static int poller_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct poller *p = container_of(wait, struct poller, wait);

	p->calls++;
	if (key_to_poll(key) & EPOLLIN && !p->told)
		p->told = htw_now();
	schedule_work(&p->work);
	return 1;
}

static void poller_remove(void *data)
{
	struct poller *p = data;

	remove_wait_queue(&p->f->ctx->wait, &p->wait);
	cancel_work_sync(&p->work);
}

static struct poller *poller(struct htw_test_file *f)
{
	struct poller *p = htw_test_array(f->test, 1, sizeof(*p));

	p->f = f;
	INIT_WORK(&p->work, poller_look);
	init_waitqueue_func_entry(&p->wait, poller_wake);
	add_wait_queue(&f->ctx->wait, &p->wait);
	KUNIT_ASSERT_EQ(f->test, kunit_add_action_or_reset(f->test, poller_remove, p), 0);
	return p;
}

/*
 * A bucket with many timers is moved down by who waits, ahead of its time and a portion at
 * a time, and nobody is told that the descriptor is readable before a timer is due.
 */
static void who_waits_moves_a_long_bucket(struct kunit *test)
{
	struct htw_event *events = htw_test_array(test, HTW_TEST_MANY, sizeof(*events));
	struct htw_test_file *f = open_counting(test);
	const u64 start = htw_tick_up(htw_now() + HOUR, MS) * MS;
	struct poller *p = poller(f);

	for (u32 i = 0; i < HTW_TEST_MANY; i++)
		htw_test_start(f, start + i % 100 * MS, i);
	poller_look(&p->work);
	htw_test_sleep_until(test, start - SEC);
	KUNIT_EXPECT_EQ(test, p->told, 0);
	KUNIT_EXPECT_FALSE(test, p->readable);
	htw_test_sleep_until(test, start + MS / 2);
	KUNIT_EXPECT_GE(test, p->told, start);
	KUNIT_EXPECT_LT(test, p->told, start + LATE);
	KUNIT_EXPECT_TRUE(test, p->readable);
	/* In portions of 4,096 nodes at most. */
	KUNIT_EXPECT_GE(test, p->looks, HTW_TEST_MANY / 4096);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, events, HTW_TEST_MANY), HTW_TEST_MANY / 100);
	htw_test_sleep_until(test, start + 100 * MS);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, events, HTW_TEST_MANY), HTW_TEST_MANY / 100 * 99);
}

/* If nobody waits, the alarm rings at the bucket's first tick, and once. */
static void nobody_moves_a_long_bucket(struct kunit *test)
{
	struct htw_event *events = htw_test_array(test, HTW_TEST_MANY, sizeof(*events));
	struct htw_test_file *f = open_counting(test);
	const u64 start = htw_tick_up(htw_now() + HOUR, MS) * MS;
	u32 n = 0;

	for (u32 i = 0; i < HTW_TEST_MANY; i++)
		htw_test_start(f, start + i % 100 * MS, i);
	KUNIT_EXPECT_LE(test, rings_in(test, 2 * HOUR), 5);
	KUNIT_EXPECT_EQ(test, rings_in(test, 2 * HOUR), 0);
	/* Each call moves a portion, and has the alarm ring at once for the rest. */
	for (u32 i = 0; n < HTW_TEST_MANY; i++) {
		KUNIT_ASSERT_LT(test, i, HTW_TEST_MANY / 1024);
		n += htw_test_take(f, events + n, HTW_TEST_MANY - n);
		htw_test_sleep_until(test, htw_now() + LATE);
	}
	for (u32 i = 0; i < HTW_TEST_MANY; i++)
		KUNIT_ASSERT_EQ(test, events[i].cookie % 100, i / (HTW_TEST_MANY / 100));
}

/*
 * A blocked reader
 */

/* It gets a long bucket in time as well. */
static void reader_gets_a_long_bucket(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	const u64 start = htw_tick_up(htw_now() + HOUR, MS) * MS;
	struct htw_event event;

	for (u32 i = 0; i < HTW_TEST_MANY; i++)
		htw_test_start(f, start + i % 100 * MS, i);
	read_blocking(f, &event, 1);
	KUNIT_EXPECT_EQ(test, event.cookie, 0);
	KUNIT_EXPECT_GE(test, event.taken, start);
	KUNIT_EXPECT_LT(test, event.taken, start + LATE);
}

/*
 * A task that was woken, and does not run
 */

/* Who waits, notes when it was woken, and does nothing, as if it were stopped. */
struct sleeper {
	wait_queue_entry_t wait;
	struct htw_context *ctx;
	u32 calls;
	u64 at[12];
};

static int sleeper_wake(wait_queue_entry_t *wait, unsigned int mode, int sync, void *key)
{
	struct sleeper *s = container_of(wait, struct sleeper, wait);

	if (s->calls < ARRAY_SIZE(s->at))
		s->at[s->calls] = htw_now();
	s->calls++;
	return 1;
}

static void sleeper_remove(void *data)
{
	struct sleeper *s = data;

	remove_wait_queue(&s->ctx->wait, &s->wait);
}

static struct sleeper *sleeper(struct htw_test_file *f)
{
	struct sleeper *s = htw_test_array(f->test, 1, sizeof(*s));

	s->ctx = f->ctx;
	init_waitqueue_func_entry(&s->wait, sleeper_wake);
	add_wait_queue(&f->ctx->wait, &s->wait);
	KUNIT_ASSERT_EQ(f->test, kunit_add_action_or_reset(f->test, sleeper_remove, s), 0);
	return s;
}

/* Where others wait as well, they are woken again: 0.5 s later, then 1, 2, 4 to 64. */
static void others_are_woken_again(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	struct sleeper *s = sleeper(f), *other = sleeper(f);
	const u64 deadline = htw_now() + SEC;
	struct htw_event event;
	u32 calls;

	htw_test_start(f, deadline, 1);
	htw_test_sleep_until(test, deadline + 260 * SEC);
	KUNIT_ASSERT_GE(test, s->calls, 10);
	KUNIT_EXPECT_EQ(test, s->calls, other->calls);
	KUNIT_EXPECT_LT(test, s->at[0] - deadline, MS + LATE);
	for (u32 i = 1; i < 10; i++) {
		const u64 wait = (SEC / 2) << min(i - 1, 7u);

		KUNIT_EXPECT_GE(test, s->at[i] - s->at[i - 1], wait - LATE);
		KUNIT_EXPECT_LE(test, s->at[i] - s->at[i - 1], wait + LATE);
	}

	/* When the timer has been taken, that ends, and begins anew. */
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 0);
	calls = s->calls;
	htw_test_sleep_until(test, htw_now() + 300 * SEC);
	KUNIT_EXPECT_EQ(test, s->calls, calls);
	s->calls = 0;
	htw_test_start(f, htw_now() + SEC, 1);
	htw_test_sleep_until(test, htw_now() + 2 * SEC + SEC / 4);
	KUNIT_EXPECT_EQ(test, s->calls, 2);
	KUNIT_EXPECT_LE(test, s->at[1] - s->at[0], SEC / 2 + LATE);
}

/* After each read of a part of what is due, who polls is woken for the rest a tick later. */
static void rest_of_a_read_is_told(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	const u64 tick_ns = htw_test_info(f).tick_ns;
	struct sleeper *s = sleeper(f);
	const u64 deadline = htw_now() + SEC;
	struct htw_event event;

	for (u32 i = 0; i < 4; i++)
		htw_test_start(f, deadline, i);
	htw_test_sleep_until(test, deadline + 10 * MS);
	KUNIT_EXPECT_EQ(test, s->calls, 1);
	for (u32 i = 0; i < 3; i++) {
		const u64 read = htw_now();

		KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
		htw_test_sleep_until(test, read + 3 * SEC);
		KUNIT_ASSERT_EQ(test, s->calls, 2 + i);
		KUNIT_EXPECT_GE(test, s->at[1 + i] - read, tick_ns);
		KUNIT_EXPECT_LE(test, s->at[1 + i] - read, tick_ns + LATE);
	}
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	htw_test_sleep_until(test, htw_now() + SEC);
	KUNIT_EXPECT_EQ(test, s->calls, 4);
}

/* The same on the manual clock, by the call that reads. */
static void rest_of_a_read_is_told_by_hand(struct kunit *test)
{
	struct htw_test_file *f = htw_test_manual(test, MS);
	struct sleeper *s = sleeper(f);
	struct htw_event event;

	for (u32 i = 0; i < 3; i++)
		htw_test_start(f, MS, i);
	KUNIT_EXPECT_EQ(test, htw_test_advance_to(f, MS), 1);
	KUNIT_EXPECT_EQ(test, s->calls, 1);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, s->calls, 2);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, s->calls, 3);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	KUNIT_EXPECT_EQ(test, s->calls, 3);
}

/* As htw_collect_wake() does it: one that has been woken is in the queue no more. */
static int reader_wake(struct wait_queue_entry *wait, unsigned int mode, int flags, void *key)
{
	list_del_init_careful(&wait->entry);
	return sleeper_wake(wait, mode, flags, key);
}

/* Of those that block one is woken, another one 1/256 s later, then after twice that. */
static void readers_are_woken_one_by_one(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	const u64 deadline = htw_now() + SEC;
	struct sleeper *s[5];
	u64 due = deadline;

	for (u32 i = 0; i < ARRAY_SIZE(s); i++) {
		s[i] = htw_test_array(test, 1, sizeof(**s));
		s[i]->ctx = f->ctx;
		init_waitqueue_func_entry(&s[i]->wait, reader_wake);
		add_wait_queue_exclusive(&f->ctx->readers, &s[i]->wait);
	}
	htw_test_start(f, deadline, 1);
	htw_test_sleep_until(test, deadline + SEC / 4);
	for (u32 i = 0; i < ARRAY_SIZE(s); i++) {
		KUNIT_EXPECT_EQ(test, s[i]->calls, 1);
		KUNIT_EXPECT_GE(test, s[i]->at[0], due);
		KUNIT_EXPECT_LT(test, s[i]->at[0] - due, MS + (i + 1) * LATE);
		due += (SEC / 256) << i;
	}
}

/* A single one that waits is woken once: nobody else could do it. */
static void single_one_is_woken_once(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	struct sleeper *s = sleeper(f);

	htw_test_start(f, htw_now() + SEC, 1);
	htw_test_start(f, htw_now() + 2 * SEC, 2);
	htw_test_sleep_until(test, htw_now() + HOUR);
	KUNIT_EXPECT_EQ(test, s->calls, 1);
}

/* A timer that is due as it is started is announced, once until somebody has taken it. */
static void starting_what_is_due_wakes(struct kunit *test)
{
	struct htw_test_file *f = open_counting(test);
	struct sleeper *s = sleeper(f);
	struct htw_event event;

	htw_test_start(f, htw_now() + HOUR, 1);
	htw_test_sleep_until(test, htw_now() + MS);
	KUNIT_EXPECT_EQ(test, s->calls, 0);
	for (u32 i = 1; i <= 3; i++) {
		htw_test_start(f, 0, 2);
		htw_test_sleep_until(test, htw_now() + LATE);
		KUNIT_EXPECT_EQ(test, s->calls, i);
		htw_test_start(f, 0, 3);
		htw_test_sleep_until(test, htw_now() + MS);
		KUNIT_EXPECT_EQ(test, s->calls, i);
		KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
		KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
		KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 0);
	}
}

/*
 * CLOCK_REALTIME is set
 */

static void set_by(s64 ns)
{
	struct timespec64 ts = ns_to_timespec64(ktime_get_real_ns() + ns);

	WARN_ON_ONCE(do_settimeofday64(&ts));
}

/* Forward: what it has passed is due, at once. */
static void realtime_is_set_forward(struct kunit *test)
{
	struct htw_test_file *f = open_clock(test, CLOCK_REALTIME);
	struct htw_event events[3];
	u64 now = now_of(f);

	htw_test_start(f, now + HOUR / 2, 1);
	htw_test_start(f, now + 2 * HOUR, 2);
	set_by(HOUR);
	now = htw_now();
	read_blocking(f, &events[0], 1);
	KUNIT_EXPECT_EQ(test, events[0].cookie, 1);
	KUNIT_EXPECT_LT(test, htw_now(), now + 10 * MS);
	read_blocking(f, &events[0], 1);
	KUNIT_EXPECT_EQ(test, events[0].cookie, 2);
	KUNIT_EXPECT_GT(test, htw_now(), now + HOUR - SEC);
	KUNIT_EXPECT_LT(test, htw_now(), now + HOUR + SEC);
	set_by(-(s64)HOUR);
}

/* Back: nothing is early by the clock, neither what is pending nor what was due. */
static void realtime_is_set_back(struct kunit *test)
{
	for (u32 count = 2; count <= 2000; count *= 10) {
		struct htw_event *events = htw_test_array(test, count + 1, sizeof(*events));
		struct htw_test_file *f = open_clock(test, CLOCK_REALTIME);
		const u64 now = now_of(f), mono = htw_now();
		u64 due;

		due = htw_test_start(f, now + SEC, 0);
		for (u32 i = 1; i < count; i++)
			htw_test_start(f, now + (1 + i) * SEC, i);
		htw_test_sleep_until(test, mono + SEC + 2 * MS);
		KUNIT_EXPECT_TRUE(test, htw_test_is_readable(f));
		set_by(-(s64)HOUR);
		/* It was due, and is not. */
		KUNIT_EXPECT_EQ(test, htw_test_take(f, events, count), 0);
		KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
		KUNIT_EXPECT_EQ(test, htw_test_info_of(f, due).state, HTW_STATE_PENDING);
		KUNIT_EXPECT_GT(test, htw_test_info_of(f, due).remaining, HOUR - SEC);
		htw_test_sleep_until(test, mono + HOUR);
		KUNIT_EXPECT_EQ(test, htw_test_take(f, events, count), 0);

		/* An hour later each comes, once, in order, and in time. */
		for (u32 i = 0; i < count; i++) {
			read_blocking(f, &events[0], 1);
			KUNIT_ASSERT_EQ(test, events[0].cookie, i);
			KUNIT_ASSERT_GE(test, events[0].taken, events[0].deadline);
			KUNIT_ASSERT_GE(test, htw_now(), mono + HOUR + (1 + i) * SEC - MS);
			KUNIT_ASSERT_LT(test, htw_now(), mono + HOUR + (1 + i) * SEC + 3 * MS);
		}
		htw_test_expect_nothing(f);
		set_by(HOUR);
	}
}

/* Timers that are started after that are in order with those from before. */
static void starts_after_realtime_was_set_back(struct kunit *test)
{
	struct htw_test_file *f = open_clock(test, CLOCK_REALTIME);
	struct htw_event event;
	u64 now = now_of(f);

	for (u32 i = 0; i < 100; i++)
		htw_test_start(f, now + HOUR + i * MS, i);
	set_by(-(s64)HOUR);
	now = now_of(f);
	htw_test_start(f, now + 10 * MS, 1000);
	htw_test_start(f, now, 1001);
	read_blocking(f, &event, 1);
	KUNIT_EXPECT_EQ(test, event.cookie, 1001);
	read_blocking(f, &event, 1);
	KUNIT_EXPECT_EQ(test, event.cookie, 1000);
	read_blocking(f, &event, 1);
	KUNIT_EXPECT_EQ(test, event.cookie, 0);
	KUNIT_EXPECT_GE(test, event.taken, event.deadline);
	set_by(HOUR);
}

/*
 * What is due, and nobody waits for it, is not any more when the clock is set back: who begins to
 * wait then is woken when it is due again.
 */
static void who_waits_after_realtime_was_set_back(struct kunit *test)
{
	struct htw_test_file *f = open_clock(test, CLOCK_REALTIME);
	struct htw_event event;
	struct sleeper *s;

	htw_test_start(f, now_of(f) - MS, 1);
	htw_test_sleep_until(test, htw_now() + MS);
	set_by(-2 * (s64)SEC);
	s = sleeper(f);
	KUNIT_EXPECT_FALSE(test, htw_test_is_readable(f));
	htw_test_sleep_until(test, htw_now() + 3 * SEC);
	KUNIT_EXPECT_EQ(test, s->calls, 1);
	KUNIT_EXPECT_EQ(test, htw_test_take(f, &event, 1), 1);
	set_by(2 * SEC);
}
#endif

static struct kunit_case htw_base_cases[] = {
	KUNIT_CASE_PARAM(timers_come_once_and_not_early, clock_gen_params),
	KUNIT_CASE(alarm_is_set_for_the_first),
	KUNIT_CASE(alarm_is_not_set_for_what_is_due),
	KUNIT_CASE(states_go_by_the_clock),
	KUNIT_CASE(order_over_cpus),
	KUNIT_CASE(bases_take_turns),
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE_PARAM(powers_of_two_from_now, clock_gen_params),
	KUNIT_CASE(ends_of_windows),
	KUNIT_CASE_PARAM(random_deadlines, clock_gen_params),
	KUNIT_CASE(nothing_pending_costs_nothing),
	KUNIT_CASE(pending_timers_cost_next_to_nothing),
	KUNIT_CASE(one_tick_is_one_ring),
	KUNIT_CASE(what_is_cancelled_costs_one_ring),
	KUNIT_CASE(what_nobody_reads_costs_nothing),
	KUNIT_CASE(alarms_keep_a_gap),
	KUNIT_CASE(who_waits_moves_a_long_bucket),
	KUNIT_CASE(nobody_moves_a_long_bucket),
	KUNIT_CASE(reader_gets_a_long_bucket),
	KUNIT_CASE(others_are_woken_again),
	KUNIT_CASE(rest_of_a_read_is_told),
	KUNIT_CASE(rest_of_a_read_is_told_by_hand),
	KUNIT_CASE(readers_are_woken_one_by_one),
	KUNIT_CASE(single_one_is_woken_once),
	KUNIT_CASE(starting_what_is_due_wakes),
	KUNIT_CASE(realtime_is_set_forward),
	KUNIT_CASE(realtime_is_set_back),
	KUNIT_CASE(starts_after_realtime_was_set_back),
	KUNIT_CASE(who_waits_after_realtime_was_set_back),
#endif
	{}
};

static struct kunit_suite htw_base_suite = {
	.name = "htw_base",
	.test_cases = htw_base_cases,
};

kunit_test_suite(htw_base_suite);

MODULE_DESCRIPTION("KUnit: when timers come");
MODULE_LICENSE("GPL");
