// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: the pacer, with jobs that only take time
 *
 * A toy is a job with an amount of work in ns, which notes when each of its turns
 * began and ended. On ARCH=um with time travel, time passes only in turns and while all
 * tasks sleep, so the notes show exactly which job had the CPU when.
 */
#include <kunit/test.h>
#include <linux/cpu.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/workqueue.h>

#include "../core/off_cpu.h"
#include "htw_kunit.h"

#define ENDLESS			U64_MAX
#define MAX_NOTES		20000u
#define MAX_TURNS		4

struct toy;

/* A turn of a toy. */
struct note {
	struct toy *toy;
	bool busy;
	unsigned int units;
	u64 began;
	u64 ended;
};

/* Turns of all toys of a case, in order. */
struct notes {
	u32 nr;
	struct note note[MAX_NOTES];
};

/**
 * struct toy - a job that takes time
 * @job: the job
 * @lock: guards the following
 * @left: work left, in ns
 * @turn: length of a turn, in ns
 * @turns: length of each turn, if not zero
 * @busy: number of turns that find the lock contended
 * @later: number of turns that find the work to be too much for the short turn of a new flow
 * @wakes: its work is to wake tasks
 * @surprises: the tasks that it wakes take long, which was not known
 * @may_be_slow: of its last turn
 * @may_be_unknown: of its last turn
 * @may_forgive: of its last turn
 * @again: number of times that @left is refilled when it reaches zero
 * @refill: work to refill, in ns
 * @calls: number of calls
 * @served: number of turns
 * @spent: ns that the turns took
 * @notes: where to note turns, or NULL
 */
struct toy {
	struct htw_job job;
	spinlock_t lock;	/* guards the job's work, as a wheel's lock does */
	u64 left;
	u64 turn;
	u64 turns[MAX_TURNS];
	u32 busy;
	u32 later;
	bool wakes;
	bool surprises;
	bool may_be_slow;
	bool may_be_unknown;
	bool may_forgive;
	u64 again;
	u64 refill;
	u32 calls;
	u32 served;
	u64 spent;
	struct notes *notes;
};

static void burn(u64 ns)
{
	const u64 until = htw_now() + ns;

	/* udelay() can be too short by the clock that the pacer reads. */
	udelay(div_u64(ns, NSEC_PER_USEC));
	while (htw_now() < until)
		udelay(1);
}

static void toy_note(struct toy *toy, u64 began, struct htw_turn *turn, bool busy)
{
	struct notes *notes = toy->notes;

	if (notes && notes->nr < MAX_NOTES)
		notes->note[notes->nr++] = (struct note) {
			.toy = toy, .busy = busy, .units = turn->units,
			.began = began, .ended = htw_now(),
		};
}

static enum htw_served toy_serve(struct htw_job *job, struct htw_turn *turn)
{
	struct toy *toy = container_of(job, struct toy, job);
	enum htw_served served = HTW_SERVED_MORE;
	const u64 began = htw_now();
	bool again = false;
	u64 ns;

	WRITE_ONCE(toy->calls, toy->calls + 1);
	spin_lock(&toy->lock);
	if (toy->busy) {
		toy->busy--;
		toy_note(toy, began, turn, true);
		spin_unlock(&toy->lock);
		return HTW_SERVED_BUSY;
	}
	if (toy->later) {
		toy->later--;
		spin_unlock(&toy->lock);
		return HTW_SERVED_LATER;
	}
	if (job->pacer == turn->pacer && !job->dead) {
		ns = min(toy->left, toy->turns[toy->served % MAX_TURNS] ?: toy->turn);
		burn(ns);
		toy->spent += htw_now() - began;
		toy->may_be_slow = turn->may_be_slow;
		toy->may_be_unknown = turn->may_be_unknown;
		toy->may_forgive = turn->may_forgive;
		turn->surprised = toy->surprises;
		if (toy->wakes)
			turn->wake_ns = htw_now() - began;
		toy_note(toy, began, turn, false);
		if (toy->left != ENDLESS)
			toy->left -= ns;
		if (!toy->left) {
			again = toy->again;
			if (again) {
				toy->again--;
				toy->left = toy->refill;
			}
			htw_job_done(job);
			served = HTW_SERVED_DONE;
		}
		WRITE_ONCE(toy->served, toy->served + 1);
	}
	spin_unlock(&toy->lock);
	if (again)
		htw_job_schedule(job, 0);
	return served;
}

/* Does a pacer use the flow? */
static bool flow_is_used(struct htw_flow __percpu *flows, unsigned int cpu)
{
	struct htw_flow *flow = per_cpu_ptr(flows, cpu);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	bool used;

	spin_lock_bh(&p->lock);
	used = !list_empty(&flow->link) || flow->throttled || p->serving == flow;
	spin_unlock_bh(&p->lock);
	return used;
}

/* A pacer drops a flow without jobs in its next run, or when the flow is no longer throttled. */
static void toy_user_free(void *data)
{
	struct htw_flow __percpu *flows = (struct htw_flow __force __percpu *)data;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		for (unsigned int i = 0; i < 500 && flow_is_used(flows, cpu); i++)
			msleep(20);
		/* Leak it rather than free what the pacer uses. */
		if (WARN_ON(flow_is_used(flows, cpu)))
			return;
	}
	free_percpu(flows);
}

/* Allocate a user's flows. */
static struct htw_flow __percpu *toy_user(struct kunit *test, enum htw_class class)
{
	struct htw_flow __percpu *flows = alloc_percpu(struct htw_flow);
	unsigned int cpu;

	KUNIT_ASSERT_TRUE(test, !!flows);
	for_each_possible_cpu(cpu)
		htw_flow_init(per_cpu_ptr(flows, cpu), class, 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, toy_user_free,
							(void __force *)flows), 0);
	return flows;
}

/* As contexts and wheels do before they are freed. */
static void toy_cancel_locked(struct toy *toy)
{
	spin_lock_bh(&toy->lock);
	htw_job_kill(&toy->job);
	spin_unlock_bh(&toy->lock);
	htw_job_cancel(&toy->job);
}

static void toy_cancel(struct toy *toy)
{
	cpus_read_lock();
	toy_cancel_locked(toy);
	cpus_read_unlock();
}

static void toy_free(void *data)
{
	struct toy *toy = data;

	toy_cancel(toy);
	synchronize_rcu();
	/* Poison it for anything that still uses it. */
	memset(toy, 0x6b, sizeof(*toy));
	kvfree(toy);
}

/* Make a toy without work, for this CPU's pacer; @turn is in ns. */
static struct toy *toy_make(struct kunit *test, struct htw_flow __percpu *flows, u64 turn,
			    struct notes *notes)
{
	struct toy *toy = kvzalloc(sizeof(*toy), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, toy);
	spin_lock_init(&toy->lock);
	htw_job_init(&toy->job, flows, toy_serve);
	toy->job.pacer = per_cpu_ptr(&htw_pacers, raw_smp_processor_id());
	toy->turn = turn;
	toy->notes = notes;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, toy_free, toy), 0);
	return toy;
}

/* Give a toy work. */
static void toy_give(struct toy *toy, u64 ns)
{
	spin_lock_bh(&toy->lock);
	toy->left = ns == ENDLESS ? ns : toy->left + ns;
	htw_job_schedule(&toy->job, 0);
	spin_unlock_bh(&toy->lock);
}

#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
static void sleep_ns(struct kunit *test, u64 ns)
{
	htw_test_sleep_until(test, htw_now() + ns);
}

/* Take all work from a toy; the next turn ends it. */
static void toy_stop(struct toy *toy)
{
	spin_lock_bh(&toy->lock);
	toy->again = 0;
	toy->left = min_t(u64, toy->left, 1);
	spin_unlock_bh(&toy->lock);
}

static struct notes *notes_make(struct kunit *test)
{
	return htw_test_array(test, 1, sizeof(struct notes));
}

/* Wait until a run may begin; no job of an earlier case is left. */
static struct htw_pacer *idle_pacer(struct kunit *test)
{
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, 0);

	sleep_ns(test, 10 * NSEC_PER_MSEC);
	htw_test_sleep_until(test, p->not_before);
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		KUNIT_ASSERT_TRUE(test, list_empty(&p->sched.queues[c].new_flows));
		KUNIT_ASSERT_TRUE(test, list_empty(&p->sched.queues[c].old_flows));
	}
	KUNIT_ASSERT_TRUE(test, llist_empty(&p->incoming));
	return p;
}

/* Between turns of the same run no time passes. */
static bool is_next_run(const struct note *note)
{
	return note->began - note[-1].ended > 4 * CLOCK_NS;
}

/* After each run the CPU must be left alone for as long as the run took. */
static void expect_gaps(struct kunit *test, const struct notes *notes)
{
	const struct note *first = notes->note;

	KUNIT_ASSERT_GT(test, notes->nr, 0);
	KUNIT_ASSERT_LT(test, notes->nr, MAX_NOTES);
	for (u32 i = 1; i < notes->nr; i++) {
		const struct note *note = &notes->note[i];
		u64 took;

		if (!is_next_run(note))
			continue;
		took = note[-1].ended - first->began;
		KUNIT_ASSERT_GE(test, note->began - note[-1].ended, max(took, HTW_GAP_MIN_NS));
		first = note;
	}
}

#define EACH_CLASS		HTW_CLASSES

struct load {
	const char *name;
	enum htw_class class;
	unsigned int flows;
	u64 turn;
};

static const struct load loads[] = {
	{ "a privileged user", HTW_CLASS_PRIVILEGED, 1, 30000 },
	{ "callouts", HTW_CLASS_CALLOUTS, 1, 30000 },
	{ "two users", HTW_CLASS_OTHERS, 2, 30000 },
	{ "two privileged users", HTW_CLASS_PRIVILEGED, 2, 30000 },
	{ "32 users", HTW_CLASS_OTHERS, 32, 30000 },
	{ "32 privileged users", HTW_CLASS_PRIVILEGED, 32, 30000 },
	{ "32 of each kind", EACH_CLASS, 96, 30000 },
	{ "turns just below the budget", HTW_CLASS_PRIVILEGED, 32, HTW_RUN_NS - 1000 },
	{ "turns just above the budget", HTW_CLASS_PRIVILEGED, 32, HTW_RUN_NS + 1000 },
};

static void get_load_desc(const struct load *load, char *desc)
{
	strscpy(desc, load->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(loads, loads, get_load_desc);

static void all_together_take_half_of_the_cpu(struct kunit *test)
{
	const struct load *load = test->param_value;
	const u64 time = 50 * NSEC_PER_MSEC;
	struct toy **toys = htw_test_array(test, load->flows, sizeof(*toys));
	struct notes *notes = notes_make(test);
	u64 spent = 0;

	idle_pacer(test);
	for (unsigned int i = 0; i < load->flows; i++) {
		const enum htw_class class = load->class == EACH_CLASS ? i % HTW_CLASSES :
									 load->class;

		toys[i] = toy_make(test, toy_user(test, class), load->turn, notes);
		toy_give(toys[i], ENDLESS);
	}
	sleep_ns(test, time);
	for (unsigned int i = 0; i < load->flows; i++)
		spent += toys[i]->spent;
	for (unsigned int i = 0; i < load->flows; i++)
		toy_stop(toys[i]);
	expect_gaps(test, notes);
	KUNIT_EXPECT_LE(test, spent, time / 2 + 2 * HTW_RUN_NS);
	/* Nor much less, as no share is used up yet. */
	KUNIT_EXPECT_GE(test, spent, 45 * time / 100);
}

/* However small the runs are, and whether a job or a task schedules them. */
static void runs_are_apart(struct kunit *test)
{
	const u64 time = 20 * NSEC_PER_MSEC, pause = 7 * NSEC_PER_USEC;
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct notes *notes = notes_make(test);
	struct toy *by_itself = toy_make(test, flows, 1000, notes);
	struct toy *by_others = toy_make(test, flows, 1000, notes);
	struct htw_pacer *p = idle_pacer(test);
	const u64 runs = p->runs, until = htw_now() + time;

	by_itself->again = ENDLESS;
	by_itself->refill = 1000;
	toy_give(by_itself, 1000);
	while (htw_now() < until) {
		toy_give(by_others, 1000);
		sleep_ns(test, pause);
	}
	toy_stop(by_itself);
	KUNIT_EXPECT_GT(test, by_others->served, 100);
	KUNIT_EXPECT_LE(test, p->runs - runs, time / HTW_GAP_MIN_NS + 1);
	for (u32 i = 1; i < notes->nr; i++) {
		if (is_next_run(&notes->note[i]))
			KUNIT_EXPECT_GE(test, notes->note[i].began - notes->note[i - 1].ended,
					HTW_GAP_MIN_NS);
	}
}

/* Make busy users of a class. */
static void keep_busy(struct kunit *test, enum htw_class class, unsigned int users, u64 turn,
		      struct notes *notes)
{
	while (users--)
		toy_give(toy_make(test, toy_user(test, class), turn, notes), ENDLESS);
}

static const enum htw_class classes[] = { HTW_CLASS_CALLOUTS, HTW_CLASS_PRIVILEGED,
					  HTW_CLASS_OTHERS };

static void get_class_desc(const enum htw_class *class, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "class %d", *class);
}

KUNIT_ARRAY_PARAM(classes, classes, get_class_desc);

/* A flow that was idle is served next, beside 32 busy flows, when it gets work 50 times. */
static void expect_new_is_served_first(struct kunit *test, enum htw_class class,
				       u64 (*pause)(u32 i))
{
	struct notes *notes = notes_make(test);
	struct toy *light = toy_make(test, toy_user(test, class), 5000, notes);

	idle_pacer(test);
	keep_busy(test, class, 32, 60000, notes);
	/* These begin as new flows, too: wait until all are old. */
	sleep_ns(test, 2 * 32 * HTW_NEW_TURNS * 70 * NSEC_PER_USEC);
	for (u32 i = 0; i < 50; i++) {
		const u32 from = notes->nr;

		toy_give(light, 5000);
		sleep_ns(test, pause(i));
		KUNIT_ASSERT_LT(test, from, notes->nr);
		KUNIT_EXPECT_PTR_EQ(test, notes->note[from].toy, light);
	}
	KUNIT_EXPECT_EQ(test, light->served, 50);
}

static u64 longer_each_time(u32 i)
{
	return NSEC_PER_MSEC + i * 37 * NSEC_PER_USEC;
}

static u64 long_and_short(u32 i)
{
	return (i % 2 ? 1400 : 600) * NSEC_PER_USEC;
}

/* It does not matter when it gets work. */
static void new_flow_is_served_first(struct kunit *test)
{
	expect_new_is_served_first(test, *(const enum htw_class *)test->param_value,
				   longer_each_time);
}

/* Nor that a run puts off one of its ticks and not the next. */
static void new_flow_may_be_late(struct kunit *test)
{
	expect_new_is_served_first(test, HTW_CLASS_PRIVILEGED, long_and_short);
}

/* Flows that begin together have short turns at first; one that is alone has not. */
static void new_flows_take_short_turns(struct kunit *test)
{
	const u32 short_turns = 2 * HTW_NEW_TURNS;
	struct notes *notes = notes_make(test);
	struct toy *toys[2];

	for (u32 i = 0; i < 2; i++)
		toys[i] = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 5000, notes);
	idle_pacer(test);
	toy_give(toys[0], 5000);
	sleep_ns(test, 2 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, notes->nr, 1);
	KUNIT_EXPECT_EQ(test, notes->note[0].units, HTW_TURN_UNITS);
	notes->nr = 0;
	local_bh_disable();
	for (u32 i = 0; i < 2; i++)
		toy_give(toys[i], ENDLESS);
	local_bh_enable();
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_ASSERT_GT(test, notes->nr, 2 * short_turns);
	for (u32 i = 0; i < 2 * short_turns; i++) {
		if (i < short_turns)
			KUNIT_EXPECT_PTR_EQ(test, notes->note[i].toy, toys[i % 2]);
		/* The last of them is not short: the other flow is old by then. */
		KUNIT_EXPECT_EQ_MSG(test, notes->note[i].units,
				    i < short_turns - 1 ? HTW_NEW_TURN_UNITS : HTW_TURN_UNITS,
				    "turn %u", i);
	}
}

/* A flow that runs dry after each turn, and at once has work again. */
static void flow_is_new_once_a_millisecond(struct kunit *test)
{
	const u64 time = 100 * NSEC_PER_MSEC, turn = 60 * NSEC_PER_USEC;
	struct notes *notes = notes_make(test);
	struct toy *eager = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), turn, notes);
	u64 all = 0;

	idle_pacer(test);
	keep_busy(test, HTW_CLASS_PRIVILEGED, 8, turn, notes);
	eager->again = ENDLESS;
	eager->refill = turn;
	toy_give(eager, turn);
	sleep_ns(test, time);
	toy_stop(eager);
	for (u32 i = 0; i < notes->nr; i++)
		all += notes->note[i].ended - notes->note[i].began;
	/* Its part, and one turn per millisecond as a new flow. */
	KUNIT_EXPECT_LE(test, eager->spent, (all / 9 + time / NSEC_PER_MSEC * turn) * 110 / 100);
	KUNIT_EXPECT_GE(test, eager->spent, all / 9);
}

/* The same beside a flow that is always busy, with short turns. */
static void flow_that_runs_dry_keeps_its_debt(struct kunit *test)
{
	const u64 time = 100 * NSEC_PER_MSEC, turn = 150 * NSEC_PER_USEC;
	struct toy *eager = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), turn, NULL);
	struct toy *busy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 10000, NULL);
	const u64 ahead = time / NSEC_PER_MSEC * turn;

	idle_pacer(test);
	toy_give(busy, ENDLESS);
	eager->again = ENDLESS;
	eager->refill = turn;
	toy_give(eager, turn);
	sleep_ns(test, time);
	toy_stop(eager);
	toy_stop(busy);
	/* The busy flow has half of all but the turns as a new flow. */
	KUNIT_EXPECT_GE(test, busy->spent, (busy->spent + eager->spent - ahead) / 2 * 85 / 100);
}

/* So many light users that one of them is new at any time leave something to a busy one. */
static void new_flows_do_not_starve_old_ones(struct kunit *test)
{
	const u64 time = 100 * NSEC_PER_MSEC, turn = 20 * NSEC_PER_USEC;
	struct toy *busy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), turn, NULL);
	struct toy *eager[64];

	idle_pacer(test);
	toy_give(busy, ENDLESS);
	sleep_ns(test, NSEC_PER_MSEC);
	for (u32 i = 0; i < ARRAY_SIZE(eager); i++) {
		eager[i] = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), turn, NULL);
		eager[i]->again = ENDLESS;
		eager[i]->refill = turn;
		toy_give(eager[i], turn);
	}
	sleep_ns(test, NSEC_PER_MSEC);
	busy->served = 0;
	sleep_ns(test, time);
	/* Half of the time is theirs together; of 49 turns it has one, and a run may end before. */
	KUNIT_EXPECT_GE(test, busy->served, time / 2 / (49 * turn) / 2);
	KUNIT_EXPECT_LE(test, busy->served, time / 2 / (49 * turn) * 2);
	for (u32 i = 0; i < ARRAY_SIZE(eager); i++)
		toy_stop(eager[i]);
	toy_stop(busy);
}

static void classes_take_turns(struct kunit *test)
{
	const u64 turn = 60 * NSEC_PER_USEC;
	struct notes *notes = notes_make(test);
	u64 spent[HTW_CLASSES] = {}, all = 0;

	idle_pacer(test);
	keep_busy(test, HTW_CLASS_CALLOUTS, 1, turn, notes);
	keep_busy(test, HTW_CLASS_PRIVILEGED, 32, turn, notes);
	keep_busy(test, HTW_CLASS_OTHERS, 8, turn, notes);
	sleep_ns(test, 100 * NSEC_PER_MSEC);
	for (u32 i = 0; i < notes->nr; i++) {
		const struct note *note = &notes->note[i];

		spent[per_cpu_ptr(note->toy->job.flows, 0)->class] += note->ended - note->began;
		all += note->ended - note->began;
	}
	for (unsigned int c = 0; c < HTW_CLASSES; c++) {
		KUNIT_EXPECT_GE(test, spent[c], all / 3 * 95 / 100);
		KUNIT_EXPECT_LE(test, spent[c], all / 3 * 105 / 100);
	}
}

struct contest {
	unsigned int jobs[2];
	u64 turn[2];
};

static const struct contest contests[] = {
	{ { 1, 1 }, { 60000, 60000 } },
	{ { 16, 1 }, { 60000, 60000 } },
	{ { 1, 1 }, { 5000, 150000 } },
	{ { 16, 1 }, { 5000, 150000 } },
	{ { 1, 16 }, { 5000, 150000 } },
};

static void get_contest_desc(const struct contest *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u jobs of %llu ns, %u of %llu", c->jobs[0],
		 c->turn[0], c->jobs[1], c->turn[1]);
}

KUNIT_ARRAY_PARAM(contests, contests, get_contest_desc);

/* Neither the number of jobs nor the length of turns matters. */
static void flows_get_the_same(struct kunit *test)
{
	const struct contest *contest = test->param_value;
	struct toy *toys[2][16];
	u64 spent[2] = {};

	idle_pacer(test);
	for (unsigned int f = 0; f < 2; f++) {
		struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);

		for (unsigned int i = 0; i < contest->jobs[f]; i++) {
			toys[f][i] = toy_make(test, flows, contest->turn[f], NULL);
			toy_give(toys[f][i], ENDLESS);
		}
	}
	sleep_ns(test, 100 * NSEC_PER_MSEC);
	for (unsigned int f = 0; f < 2; f++) {
		for (unsigned int i = 0; i < contest->jobs[f]; i++) {
			spent[f] += toys[f][i]->spent;
			KUNIT_EXPECT_GT(test, toys[f][i]->served, 0);
		}
	}
	/* The cost of a run is charged to its first flow: 10 us of 200. */
	KUNIT_EXPECT_GE(test, spent[0], spent[1] * 90 / 100);
	KUNIT_EXPECT_LE(test, spent[0], spent[1] * 110 / 100);
}

struct saving {
	u64 rest;	/* ns without use */
	u64 tokens;	/* ns that can be used then, in addition to the share */
};

/* 50 ms initially, and 25% of the time, up to 250 ms. */
static const struct saving savings[] = {
	{ 0, 50 * NSEC_PER_MSEC },
	{ 400 * NSEC_PER_MSEC, 150 * NSEC_PER_MSEC },
	{ 800 * NSEC_PER_MSEC, 250 * NSEC_PER_MSEC },
	{ 60 * (u64)NSEC_PER_SEC, 250 * NSEC_PER_MSEC },
};

static void get_saving_desc(const struct saving *saving, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "after %llu ms", saving->rest / NSEC_PER_MSEC);
}

KUNIT_ARRAY_PARAM(savings, savings, get_saving_desc);

/* At any time, a user has used the tokens saved and a quarter of the time. */
static void user_has_a_share(struct kunit *test)
{
	const struct saving *saving = test->param_value;
	const u64 turn = 60 * NSEC_PER_USEC;
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	struct toy *toy = toy_make(test, flows, turn, NULL);
	u64 began, due = 0;

	idle_pacer(test);
	sleep_ns(test, saving->rest);
	began = htw_now();
	toy_give(toy, ENDLESS);
	while (due < 3 * (u64)NSEC_PER_SEC) {
		sleep_ns(test, 10 * NSEC_PER_MSEC);
		due = htw_now() - began;
		/* idle_pacer() took some time, and turns are not interrupted. */
		KUNIT_ASSERT_LE(test, toy->spent,
				saving->tokens + (due + 30 * NSEC_PER_MSEC) / 4 + HTW_RUN_NS);
		/* Interrupts are charged as well: 10 us for each 200. */
		KUNIT_ASSERT_GE(test, toy->spent,
				min(saving->tokens + due / 4, due / 2) * 93 / 100 - HTW_RUN_NS);
	}
	KUNIT_EXPECT_GT(test, per_cpu_ptr(flows, 0)->throttles, 100);
	KUNIT_EXPECT_GT(test, per_cpu_ptr(flows, 0)->throttled_ns, due / 4);
}

/* A throttled flow delays no other. */
static void throttled_flow_delays_no_other(struct kunit *test)
{
	const enum htw_class class = *(const enum htw_class *)test->param_value;
	struct htw_flow __percpu *greedy = toy_user(test, HTW_CLASS_OTHERS);
	struct notes *notes = notes_make(test);
	struct toy *light = toy_make(test, toy_user(test, class), 5000, notes);

	idle_pacer(test);
	toy_give(toy_make(test, greedy, 60000, NULL), ENDLESS);
	sleep_ns(test, NSEC_PER_SEC);
	KUNIT_EXPECT_GT(test, per_cpu_ptr(greedy, 0)->throttles, 0);
	for (u32 i = 0; i < 100; i++) {
		const u64 given = htw_now();

		toy_give(light, 5000);
		sleep_ns(test, 3 * NSEC_PER_MSEC + i * 37 * NSEC_PER_USEC);
		KUNIT_ASSERT_EQ(test, notes->nr, i + 1);
		/* At worst by a gap. */
		KUNIT_EXPECT_LT(test, notes->note[i].began - given, 300 * NSEC_PER_USEC);
	}
	KUNIT_EXPECT_TRUE(test, flow_is_used(greedy, 0));
}

struct stall {
	const char *name;
	bool wakes;
	u64 turn[MAX_TURNS];		/* ns; each turn is a run */
	u64 charged;			/* ns charged, not counting interrupts */
	u64 gap[MAX_TURNS];		/* least gap after each run, in ns; not much more */
};

static const struct stall stalls[] = {
	{ "long work", false, { 390000 }, 390000, { 390000 } },
	{ "a stall", false, { 5000000 }, HTW_RUN_NS, { HTW_RUN_NS } },
	{ "twice in a row", false, { 5000000, 6000000 }, HTW_RUN_NS + 6000000,
	  { HTW_RUN_NS, 6000000 } },
	{ "now and then", false, { 5000000, 210000, 6000000, 210000 },
	  HTW_RUN_NS + 6420000, { HTW_RUN_NS, 210000, 6000000, 210000 } },
	/* The gap for waking is divided. */
	{ "waking", true, { 5000000, 300000, 6000000 }, 11300000,
	  { HTW_WAKE_GAP_NS, HTW_WAKE_GAP_NS, HTW_WAKE_GAP_NS } },
};

static void get_stall_desc(const struct stall *stall, char *desc)
{
	strscpy(desc, stall->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(stalls, stalls, get_stall_desc);

/* A turn longer than any work is taken for a stall, but once a second, and not if it woke tasks. */
static void stall_is_not_doubled(struct kunit *test)
{
	const struct stall *stall = test->param_value;
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	struct notes *notes = notes_make(test);
	struct toy *toy = toy_make(test, flows, 1000, notes);
	struct htw_pacer *p = idle_pacer(test);
	u64 total = 0, charged;
	u32 turns = 0;

	/* Begin with a run that is no stall, when none has been forgiven for a second. */
	sleep_ns(test, NSEC_PER_SEC);
	toy_give(toy, 1000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, toy->served, 1);
	charged = per_cpu_ptr(flows, 0)->spent;
	toy->served = 0;
	notes->nr = 0;

	toy->wakes = stall->wakes;
	for (; turns < MAX_TURNS && stall->turn[turns]; turns++)
		total += toy->turns[turns] = stall->turn[turns];
	toy_give(toy, total);
	sleep_ns(test, 100 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, notes->nr, turns);
	charged = per_cpu_ptr(flows, 0)->spent - charged;
	KUNIT_EXPECT_GE(test, charged, stall->charged);
	KUNIT_EXPECT_LT(test, charged, stall->charged + turns * (HTW_RUN_COST_NS + 4 * CLOCK_NS) +
				       HTW_IRQ_COST_NS);
	for (u32 i = 0; i < turns; i++) {
		u64 next = i + 1 < turns ? notes->note[i + 1].began : p->not_before;
		u64 gap = next - notes->note[i].ended;

		KUNIT_EXPECT_GE(test, gap, stall->gap[i]);
		KUNIT_EXPECT_LT(test, gap, stall->gap[i] + HTW_RUN_COST_NS + HTW_IRQ_COST_NS +
					   4 * CLOCK_NS);
	}
}

/* Wheels that expire at the same time are charged for one interrupt; others for one each. */
static void wheels_share_an_interrupt(struct kunit *test)
{
	const u64 turn = 20 * NSEC_PER_USEC;
	struct notes *notes = notes_make(test);
	struct htw_pacer *p = idle_pacer(test);
	struct toy *toys[8];
	u64 now, cost, gap, took;

	for (unsigned int shared = 0; shared < 2; shared++) {
		notes->nr = 0;
		for (u32 i = 0; i < ARRAY_SIZE(toys); i++) {
			toys[i] = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), turn, notes);
			toys[i]->left = turn;
		}
		now = htw_now();
		local_bh_disable();
		for (u32 i = 0; i < ARRAY_SIZE(toys); i++)
			htw_job_fired(&toys[i]->job, now - (shared ? 1 : i));
		local_bh_enable();
		sleep_ns(test, NSEC_PER_MSEC);

		KUNIT_ASSERT_EQ(test, notes->nr, ARRAY_SIZE(toys));
		took = notes->note[notes->nr - 1].ended - notes->note[0].began;
		gap = p->not_before - notes->note[notes->nr - 1].ended;
		cost = HTW_IRQ_COST_NS + 7 * (shared ? HTW_CALLBACK_COST_NS : HTW_IRQ_COST_NS);
		KUNIT_EXPECT_GE(test, gap, took + HTW_RUN_COST_NS + cost);
		KUNIT_EXPECT_LT(test, gap, took + HTW_RUN_COST_NS + cost + 8 * CLOCK_NS);
		KUNIT_EXPECT_EQ(test, p->owed_work_ns, 0);
	}
}

/* After the interrupts of many wheels the next run comes soon; a later gap makes up for them. */
static void gap_for_interrupts_is_divided(struct kunit *test)
{
	const u64 turn = 20 * NSEC_PER_USEC;
	const u32 wheels = 400;
	const u64 rest = HTW_IRQ_COST_NS + (wheels - 1) * HTW_CALLBACK_COST_NS - HTW_IRQ_GAP_NS;
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct notes *notes = notes_make(test);
	struct toy *next = toy_make(test, flows, turn, notes);
	struct htw_pacer *p = idle_pacer(test);
	struct toy **toys = htw_test_array(test, wheels, sizeof(*toys));
	u64 now, gap;

	for (u32 i = 0; i < wheels; i++)
		toys[i] = toy_make(test, flows, turn, notes);
	now = htw_now();
	local_bh_disable();
	for (u32 i = 0; i < wheels; i++)
		htw_job_fired(&toys[i]->job, now - 1);
	local_bh_enable();
	sleep_ns(test, 5 * NSEC_PER_USEC);
	KUNIT_ASSERT_EQ(test, notes->nr, wheels);
	gap = p->not_before - notes->note[notes->nr - 1].ended;
	KUNIT_EXPECT_GE(test, gap, HTW_RUN_COST_NS + HTW_IRQ_GAP_NS);
	KUNIT_EXPECT_LT(test, gap, HTW_RUN_COST_NS + HTW_IRQ_GAP_NS + 8 * CLOCK_NS);
	KUNIT_EXPECT_EQ(test, p->owed_work_ns, rest);

	toy_give(next, turn);
	sleep_ns(test, gap + 2 * turn);
	KUNIT_ASSERT_EQ(test, next->served, 1);
	gap = p->not_before - notes->note[notes->nr - 1].ended;
	KUNIT_EXPECT_GE(test, gap, turn + HTW_RUN_COST_NS + rest);
}

/* Long turns that alternate with short ones use up the share like any others. */
static void alternating_turns_are_charged(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	struct toy *toy = toy_make(test, flows, 1000, NULL);
	const u64 time = 4 * (u64)NSEC_PER_SEC;
	u64 spent;

	idle_pacer(test);
	for (u32 i = 0; i < MAX_TURNS; i++)
		toy->turns[i] = i % 2 ? 1000 : 5 * NSEC_PER_MSEC;
	toy_give(toy, ENDLESS);
	/* Use up the burst. */
	sleep_ns(test, NSEC_PER_SEC);
	spent = toy->spent;
	sleep_ns(test, time);
	spent = toy->spent - spent;
	/* A quarter, a stall each second, and the turn with which the share was overdrawn. */
	KUNIT_EXPECT_LT(test, spent, time / 4 + 6 * 5 * NSEC_PER_MSEC);
	KUNIT_EXPECT_GT(test, spent, time / 5);
}

/* What waking has taken is left alone in the end, and no slow waiter is woken before that. */
static void gap_for_waking_is_divided(struct kunit *test)
{
	struct toy *waker = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 0, NULL);
	struct toy *other = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 5000, NULL);
	struct htw_pacer *p = idle_pacer(test);
	u64 owed;

	sleep_ns(test, 10 * NSEC_PER_MSEC);
	waker->wakes = true;
	waker->turn = 3 * NSEC_PER_MSEC;
	toy_give(waker, waker->turn);
	sleep_ns(test, 100 * NSEC_PER_USEC);
	KUNIT_ASSERT_EQ(test, waker->served, 1);
	KUNIT_EXPECT_GE(test, p->owed_wake_ns, 3 * NSEC_PER_MSEC);

	/* Other work is done soon. */
	owed = p->owed_wake_ns;
	toy_give(other, 5000);
	sleep_ns(test, HTW_WAKE_GAP_NS + 100 * NSEC_PER_USEC);
	KUNIT_EXPECT_EQ(test, other->served, 1);
	KUNIT_EXPECT_FALSE(test, other->may_be_slow);
	KUNIT_EXPECT_LT(test, p->owed_wake_ns, owed);

	sleep_ns(test, 4 * NSEC_PER_MSEC);
	toy_give(other, 5000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, other->served, 2);
	KUNIT_EXPECT_TRUE(test, other->may_be_slow);
	KUNIT_EXPECT_TRUE(test, other->may_be_unknown);
	KUNIT_EXPECT_EQ(test, p->owed_wake_ns, 0);
}

/* Tasks that turn out to take long to wake have a small part of the time. */
static void surprises_are_rare(struct kunit *test)
{
	struct toy *waker = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 0, NULL);
	struct toy *other = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 5000, NULL);

	idle_pacer(test);
	sleep_ns(test, 60 * NSEC_PER_MSEC);
	waker->wakes = true;
	waker->surprises = true;
	waker->turn = NSEC_PER_MSEC;
	toy_give(waker, waker->turn);
	sleep_ns(test, 100 * NSEC_PER_USEC);
	KUNIT_ASSERT_EQ(test, waker->served, 1);
	KUNIT_EXPECT_TRUE(test, waker->may_be_unknown);

	/* What it took has been left alone, but so long a time has not passed. */
	sleep_ns(test, 10 * NSEC_PER_MSEC);
	toy_give(other, 5000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, other->served, 1);
	KUNIT_EXPECT_TRUE(test, other->may_be_slow);
	KUNIT_EXPECT_FALSE(test, other->may_be_unknown);

	sleep_ns(test, 10 * NSEC_PER_MSEC);
	toy_give(other, 5000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, other->served, 2);
	KUNIT_EXPECT_TRUE(test, other->may_be_unknown);
}

/* It counts what a task sleeps, and not what it works. */
static void off_cpu_clock_runs_while_the_task_does_not(struct kunit *test)
{
	u64 began, slept, off_cpu;

	migrate_disable();
	began = htw_now();
	off_cpu = htw_off_cpu_ns();
	msleep(20);
	off_cpu = htw_off_cpu_ns() - off_cpu;
	slept = htw_now() - began;
	/* Some architectures' scheduler clock counts ticks. */
	KUNIT_EXPECT_GE(test, off_cpu, 20 * NSEC_PER_MSEC - TICK_NSEC);
	KUNIT_EXPECT_LE(test, off_cpu, slept + TICK_NSEC);

	preempt_disable();
	off_cpu = htw_off_cpu_ns();
	/* Some ticks, which account for it. */
	mdelay(3 * 1000 / HZ + 1);
	off_cpu = htw_off_cpu_ns() - off_cpu;
	preempt_enable();
	KUNIT_EXPECT_EQ(test, off_cpu, 0);
	migrate_enable();
}

/* Work outside of softirq leaves the CPU alone, and so do runs. */
static void work_leaves_half_of_the_cpu(struct kunit *test)
{
	struct htw_flow __percpu *first = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct htw_flow __percpu *second = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct htw_pacer *p = idle_pacer(test);

	sleep_ns(test, 10 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, htw_pacer_busy_ns(), 0);
	htw_pacer_charge_work(first, NSEC_PER_MSEC);
	/* Some may be owed before it waits. */
	KUNIT_EXPECT_GT(test, htw_pacer_busy_ns(), 700 * NSEC_PER_USEC);
	htw_pacer_charge_work(second, 0);
	KUNIT_EXPECT_GT(test, htw_pacer_busy_ns(), 700 * NSEC_PER_USEC);
	/* Runs leave it alone for as long, too. The time in which it was done counts as work. */
	KUNIT_EXPECT_LE(test, p->owed_work_ns, NSEC_PER_MSEC);
	KUNIT_EXPECT_GT(test, p->owed_work_ns, 900 * NSEC_PER_USEC);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, htw_pacer_busy_ns(), 0);
	/* Whatever waking has taken, it goes on now and then. */
	local_bh_disable();
	htw_pacer_owe_wake(40 * NSEC_PER_MSEC);
	local_bh_enable();
	htw_pacer_charge_work(first, 300 * NSEC_PER_USEC);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_GT(test, htw_pacer_busy_ns(), 900 * NSEC_PER_USEC);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, htw_pacer_busy_ns(), 0);
	/* It leaves the CPU alone for as long as one signal took, which cannot be divided. */
	sleep_ns(test, 60 * NSEC_PER_MSEC);
	htw_pacer_charge_work(first, 6 * NSEC_PER_MSEC);
	sleep_ns(test, 5 * NSEC_PER_MSEC);
	KUNIT_EXPECT_GT(test, htw_pacer_busy_ns(), 700 * NSEC_PER_USEC);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, htw_pacer_busy_ns(), 0);
}

/* A flow that was put off, and has had its turn since, has to wait as long the next time. */
static void waiting_for_slow_waiters_ends_with_a_turn(struct kunit *test)
{
	struct toy *waker = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 5000, NULL);
	struct toy *late = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, NULL);

	idle_pacer(test);
	sleep_ns(test, 60 * NSEC_PER_MSEC);
	waker->wakes = true;
	late->later = 1;
	for (u32 i = 0; i < 3; i++) {
		local_bh_disable();
		/* Not when it is to have its turn: then it is alone. */
		if (i != 1)
			toy_give(waker, 5000);
		/* The first turn of two new flows is short. */
		toy_give(late, 2000);
		local_bh_enable();
		sleep_ns(test, 10 * NSEC_PER_MSEC);
		KUNIT_ASSERT_EQ(test, late->served, 2 * (i + 1));
		KUNIT_EXPECT_EQ_MSG(test, late->may_be_slow, i == 1, "run %u", i);
	}
	KUNIT_EXPECT_EQ(test, waker->served, 2);
}

/* Time in which the CPU was left alone before more work is not forgotten. */
static void time_left_alone_before_work_counts(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct htw_pacer *p = idle_pacer(test);

	sleep_ns(test, 60 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, htw_pacer_busy_ns(), 0);
	htw_pacer_charge_work(flows, NSEC_PER_MSEC);
	sleep_ns(test, 600 * NSEC_PER_USEC);
	htw_pacer_charge_work(flows, 10 * NSEC_PER_USEC);
	KUNIT_EXPECT_LT(test, p->owed_work_ns, 500 * NSEC_PER_USEC);
	KUNIT_EXPECT_GT(test, p->owed_work_ns, 300 * NSEC_PER_USEC);
}

/* What work takes in the gap after a run is left alone later. */
static void work_in_a_gap_is_owed(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *toy = toy_make(test, flows, 210000, NULL);
	struct htw_pacer *p = idle_pacer(test);

	sleep_ns(test, 60 * NSEC_PER_MSEC);
	/* Two runs; a turn each. */
	toy_give(toy, 2 * 210000);
	while (!READ_ONCE(toy->served))
		sleep_ns(test, 20 * NSEC_PER_USEC);
	KUNIT_ASSERT_EQ(test, toy->served, 1);
	burn(100 * NSEC_PER_USEC);
	htw_pacer_charge_work(flows, 100 * NSEC_PER_USEC);
	while (READ_ONCE(toy->served) < 2)
		sleep_ns(test, 20 * NSEC_PER_USEC);
	/* The work itself, and the part of the gap that it took. */
	KUNIT_EXPECT_GT(test, p->owed_work_ns, 190 * NSEC_PER_USEC);
	KUNIT_EXPECT_LT(test, p->owed_work_ns, 215 * NSEC_PER_USEC);
}

/* Work that is too long for a short turn waits until other new flows have had theirs. */
static void work_for_an_old_flow_delays_no_new_one(struct kunit *test)
{
	struct notes *notes = notes_make(test);
	struct toy *slow = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 65000, notes);
	struct toy *a = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, notes);
	struct toy *b = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, notes);
	struct toy *const order[] = { a, b, slow };

	idle_pacer(test);
	slow->later = 1;
	local_bh_disable();
	toy_give(slow, 65000);
	toy_give(a, 1000);
	toy_give(b, 1000);
	local_bh_enable();
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, notes->nr, ARRAY_SIZE(order));
	for (u32 i = 0; i < ARRAY_SIZE(order); i++)
		KUNIT_EXPECT_PTR_EQ_MSG(test, notes->note[i].toy, order[i], "turn %u", i);
}

/* Other flows are served while a job's lock is contended. */
static void busy_lock_is_tried_later(struct kunit *test)
{
	struct notes *notes = notes_make(test);
	struct toy *busy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, notes);
	struct toy *other = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, notes);
	struct toy *const order[] = { busy, other, busy, busy, busy };

	idle_pacer(test);
	busy->busy = 3;
	local_bh_disable();
	toy_give(busy, 1000);
	toy_give(other, 1000);
	local_bh_enable();
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, notes->nr, ARRAY_SIZE(order));
	for (u32 i = 0; i < ARRAY_SIZE(order); i++)
		KUNIT_EXPECT_PTR_EQ_MSG(test, notes->note[i].toy, order[i], "turn %u", i);
	KUNIT_EXPECT_TRUE(test, notes->note[3].busy);
	KUNIT_EXPECT_FALSE(test, notes->note[4].busy);
}

/* A run ends that finds locks contended all the time, and the next one tries again. */
static void busy_lock_ends_the_run(struct kunit *test)
{
	struct notes *notes = notes_make(test);
	struct toy *busy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, notes);
	struct htw_pacer *p = idle_pacer(test);
	u64 misses = p->misses, runs = p->runs;

	busy->busy = 80;
	toy_give(busy, 1000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, p->misses - misses, 80);
	KUNIT_EXPECT_EQ(test, p->runs - runs, 11);
	KUNIT_EXPECT_EQ(test, notes->nr, 81);
	KUNIT_EXPECT_EQ(test, busy->left, 0);
}

/* So do jobs that are not to be served yet. */
static void later_turns_end_the_run(struct kunit *test)
{
	struct toy *later = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, NULL);
	struct htw_pacer *p = idle_pacer(test);
	u64 runs = p->runs;

	later->later = 3 * 32 + 1;
	toy_give(later, 1000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, p->runs - runs, 4);
	KUNIT_EXPECT_EQ(test, later->served, 1);
}

/* The next run begins with the end of the gap, and not before. */
static void run_begins_when_the_gap_is_over(struct kunit *test)
{
	struct htw_pacer *p = idle_pacer(test);
	u64 runs;

	/* The clock stands still. */
	local_bh_disable();
	runs = p->runs;
	p->not_before = htw_now() + 1;
	KUNIT_EXPECT_EQ(test, p->hrtimer.function(&p->hrtimer), HRTIMER_NORESTART);
	KUNIT_EXPECT_EQ(test, p->runs, runs);
	p->not_before = htw_now();
	KUNIT_EXPECT_EQ(test, p->hrtimer.function(&p->hrtimer), HRTIMER_NORESTART);
	KUNIT_EXPECT_EQ(test, p->runs, runs + 1);
	local_bh_enable();
}

/* Private wheels share interrupts once there were more than 16,000 in a second. */
static void interrupts_of_a_jiffy_are_a_crowd(struct kunit *test)
{
	struct toy *toy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, NULL);
	struct htw_pacer *p = idle_pacer(test);

	for (u32 more = 0; more < 2; more++) {
		local_bh_disable();
		p->window = jiffies - 1;
		p->interrupts = 16000 / HZ + more;
		p->fired_at = 0;
		htw_job_fired(&toy->job, htw_now());
		KUNIT_EXPECT_EQ(test, p->crowded, more);
		KUNIT_EXPECT_EQ(test, p->interrupts, 1);
		local_bh_enable();
		sleep_ns(test, NSEC_PER_MSEC);
	}
	p->crowded = false;
}

/* A job that another CPU has added but not kicked for delays none of this CPU's. */
static void kick_that_does_not_come_delays_nobody(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *added = toy_make(test, flows, 1000, NULL);
	struct toy *local = toy_make(test, flows, 1000, NULL);
	struct htw_pacer *p = idle_pacer(test);

	/* As far as htw_pacer_add() comes on a CPU that is preempted in it. */
	set_bit(0, &added->job.scheduled);
	added->left = 1000;
	llist_add(&added->job.incoming, &p->incoming);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, added->served, 0);
	toy_give(local, 1000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, local->served, 1);
	KUNIT_EXPECT_EQ(test, added->served, 1);
}

/* What a run takes in the middle of work is the run's, and not charged as work as well. */
static void work_is_charged_without_runs_in_it(struct kunit *test)
{
	const u64 work_ns = NSEC_PER_MSEC, turn = 100 * NSEC_PER_USEC;
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *toy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), turn, NULL);
	struct htw_pacer *p = idle_pacer(test);
	struct htw_pacer_work work;
	u64 charged, took;

	migrate_disable();
	htw_pacer_begin_work(&work);
	KUNIT_EXPECT_EQ(test, p->working_since, work.began);
	toy_give(toy, turn);
	burn(work_ns);
	KUNIT_EXPECT_EQ(test, toy->served, 1);
	took = htw_pacer_work_ns(&work);
	KUNIT_EXPECT_GE(test, took, work_ns);
	htw_pacer_end_work(&work, flows);
	migrate_enable();
	KUNIT_EXPECT_EQ(test, p->working_since, 0);
	charged = per_cpu_ptr(flows, 0)->spent;
	KUNIT_EXPECT_LE(test, charged, took - turn + HTW_WORK_COST_NS);
	KUNIT_EXPECT_GE(test, charged, took - turn + HTW_WORK_COST_NS - HTW_RUN_COST_NS -
				       HTW_IRQ_COST_NS - 4 * CLOCK_NS);
}

/* For a user one part in 32 of the time, for all together one in 16, and no more than was noted. */
static void forgiven_wakes_are_forgotten(struct kunit *test)
{
	static const struct {
		u64 user, all;
	} noted[] = {
		{ 0, 0 }, { 1, 1 },
		{ 10 * NSEC_PER_MSEC, 20 * NSEC_PER_MSEC },
		{ 10100 * NSEC_PER_USEC, 20 * NSEC_PER_MSEC },
		{ 10 * NSEC_PER_MSEC, 20200 * NSEC_PER_USEC },
	};
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct htw_flow *flow = per_cpu_ptr(flows, 0);
	struct toy *toy = toy_make(test, flows, 1000, NULL);
	struct htw_pacer *p = idle_pacer(test);

	for (u32 i = 0; i < ARRAY_SIZE(noted); i++) {
		u64 before, time;

		toy_give(toy, 1000);
		sleep_ns(test, NSEC_PER_MSEC);
		before = flow->forgiven.at;
		KUNIT_EXPECT_EQ(test, p->forgiven.at, before);
		flow->forgiven.ns = noted[i].user;
		p->forgiven.ns = noted[i].all;
		toy_give(toy, 1000);
		sleep_ns(test, NSEC_PER_MSEC);
		time = flow->forgiven.at - before;
		KUNIT_EXPECT_GT(test, time, 900 * NSEC_PER_USEC);
		KUNIT_EXPECT_EQ(test, flow->forgiven.ns,
				noted[i].user - min(noted[i].user, time / 32));
		KUNIT_EXPECT_EQ(test, p->forgiven.ns, noted[i].all - min(noted[i].all, time / 16));
		KUNIT_EXPECT_EQ(test, toy->may_forgive, i < 3);
	}
	p->forgiven.ns = 0;
}

/*
 * The pacer of a CPU that has gone, which another one adopts; or has come back, and other pacers'
 * jobs are still on its lists.
 */
static struct htw_pacer *other_pacer(struct kunit *test)
{
	struct htw_pacer *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	spin_lock_init(&p->lock);
	init_llist_head(&p->incoming);
	htw_flow_sched_init(&p->sched, 0);
	/* It waits for a run that does not come. */
	p->armed = true;
	return p;
}

enum place { ON_INCOMING, OF_NEW_FLOW, OF_OLD_FLOW, OF_THROTTLED_FLOW, PLACES };

/* Take a flow off the lists of a pacer that does not run. */
static void take(struct htw_pacer *p, struct htw_flow *flow)
{
	if (flow->throttled)
		timerqueue_del(&p->sched.throttled, &flow->throttle_node);
	flow->throttled = false;
	list_del_init(&flow->link);
}

/* Put a toy's job on a list of a pacer that does not run. */
static void put(struct htw_pacer *p, struct toy *toy, enum place place)
{
	struct htw_flow *flow = per_cpu_ptr(toy->job.flows, 0);

	toy->job.pacer = p;
	toy->left = toy->turn;
	if (place == ON_INCOMING) {
		htw_job_schedule(&toy->job, 0);
		return;
	}
	set_bit(0, &toy->job.scheduled);
	list_add_tail(&toy->job.ready, &flow->jobs);
	if (place == OF_THROTTLED_FLOW) {
		flow->throttle_node.expires = ns_to_ktime(htw_now() + NSEC_PER_SEC);
		flow->throttled = true;
		timerqueue_add(&p->sched.throttled, &flow->throttle_node);
	} else {
		list_add_tail(&flow->link, place == OF_NEW_FLOW ?
					   &p->sched.queues[flow->class].new_flows :
					   &p->sched.queues[flow->class].old_flows);
	}
}

/* All jobs of a CPU that goes offline are served by its adopter, but for those that have died. */
static void jobs_of_an_offline_cpu_are_adopted(struct kunit *test)
{
	struct htw_pacer *gone = other_pacer(test), *p = idle_pacer(test);
	struct toy *toys[PLACES], *dead;

	for (enum place place = 0; place < PLACES; place++) {
		toys[place] = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);
		put(gone, toys[place], place);
	}
	dead = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);
	put(gone, dead, ON_INCOMING);
	htw_job_kill(&dead->job);
	gone->adopter = p;
	htw_pacer_migrate(gone);
	KUNIT_EXPECT_TRUE(test, llist_empty(&gone->incoming));
	KUNIT_EXPECT_FALSE(test, htw_flow_sched_has_work(&gone->sched));
	KUNIT_EXPECT_EQ(test, htw_flow_sched_resume_time(&gone->sched), U64_MAX);
	sleep_ns(test, NSEC_PER_MSEC);
	for (enum place place = 0; place < PLACES; place++) {
		KUNIT_EXPECT_EQ_MSG(test, toys[place]->served, 1, "place %d", place);
		KUNIT_EXPECT_PTR_EQ(test, toys[place]->job.pacer, p);
	}
	KUNIT_EXPECT_EQ(test, dead->calls, 0);
	dead->job.pacer = p;
}

/* One that has come back passes on the jobs that are others' by now, and keeps its own. */
static void jobs_are_passed_on_to_their_pacers(struct kunit *test)
{
	struct htw_pacer *back = other_pacer(test), *p = idle_pacer(test);
	struct toy *toys[PLACES], *own[PLACES];

	for (enum place place = OF_NEW_FLOW; place < PLACES; place++) {
		toys[place] = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);
		own[place] = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);
		put(back, toys[place], place);
		put(back, own[place], place);
		toys[place]->job.pacer = p;
	}
	toys[ON_INCOMING] = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);
	put(back, toys[ON_INCOMING], ON_INCOMING);
	toys[ON_INCOMING]->job.pacer = p;
	htw_pacer_migrate(back);
	/* Another CPU's flow would not be throttled. */
	take(back, per_cpu_ptr(toys[OF_THROTTLED_FLOW]->job.flows, 0));
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toys[ON_INCOMING]->served, 1);
	for (enum place place = OF_NEW_FLOW; place < PLACES; place++) {
		KUNIT_EXPECT_EQ_MSG(test, toys[place]->served, 1, "place %d", place);
		KUNIT_EXPECT_EQ(test, own[place]->calls, 0);
		KUNIT_EXPECT_PTR_EQ(test, own[place]->job.pacer, back);
		KUNIT_EXPECT_FALSE(test, list_empty(&own[place]->job.ready));
		list_del_init(&own[place]->job.ready);
		take(back, per_cpu_ptr(own[place]->job.flows, 0));
		own[place]->job.pacer = p;
	}
	KUNIT_EXPECT_FALSE(test, htw_flow_sched_has_work(&back->sched));
}

/*
 * The wheels of a CPU that goes offline are served by another one's pacer, which here never runs;
 * when the CPU is back, by its own again.
 */
static void wheels_are_adopted_and_come_back(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);
	struct htw_pacer *adopter = other_pacer(test), *unrelated = other_pacer(test);
	struct htw_pacer *p = idle_pacer(test);
	const u64 due = htw_now() + 20 * NSEC_PER_MSEC;
	struct htw_base *base;

	htw_test_start(test, ctx, due, 1);
	base = htw_test_base(0);
	cpus_read_lock();
	htw_bases_adopt(unrelated, adopter);
	KUNIT_EXPECT_PTR_EQ(test, htw_pacer_for(0), p);
	KUNIT_EXPECT_PTR_EQ(test, base->job.pacer, p);

	htw_bases_adopt(p, adopter);
	KUNIT_EXPECT_PTR_EQ(test, htw_pacer_for(0), adopter);
	KUNIT_EXPECT_PTR_EQ(test, base->job.pacer, adopter);
	KUNIT_EXPECT_FALSE(test, llist_empty(&adopter->incoming));
	htw_test_sleep_until(test, due + NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, ctx->nr_expired, 0);

	KUNIT_EXPECT_EQ(test, htw_bases_cpu_online(0), 0);
	KUNIT_EXPECT_PTR_EQ(test, htw_pacer_for(0), p);
	KUNIT_EXPECT_PTR_EQ(test, base->job.pacer, p);
	KUNIT_EXPECT_TRUE(test, llist_empty(&adopter->incoming));
	cpus_read_unlock();
	htw_test_wait(test, ctx, 1);
}

/* One that its CPU has not looked at yet is passed on when it does. */
static void incoming_jobs_are_passed_on(struct kunit *test)
{
	struct htw_pacer *back = other_pacer(test), *p = idle_pacer(test);
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	struct toy *toy = toy_make(test, flows, 1000, NULL);
	struct toy *idle = toy_make(test, flows, 1000, NULL);

	put(back, toy, ON_INCOMING);
	toy->job.pacer = p;
	/* Cancelling another job makes a pacer look at its incoming ones. */
	idle->job.pacer = back;
	htw_job_cancel(&idle->job);
	idle->job.pacer = p;
	KUNIT_EXPECT_TRUE(test, llist_empty(&back->incoming));
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->served, 1);
}

static struct htw_pacer *moves_to;

/* As when the job's CPU goes offline meanwhile. */
static enum htw_served serve_and_move(struct htw_job *job, struct htw_turn *turn)
{
	WRITE_ONCE(job->pacer, moves_to);
	job->serve = toy_serve;
	return HTW_SERVED_MORE;
}

static void job_that_moves_in_its_turn_is_passed_on(struct kunit *test)
{
	struct htw_pacer *other = other_pacer(test), *p = idle_pacer(test);
	struct toy *toy = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);

	moves_to = other;
	toy->job.serve = serve_and_move;
	toy_give(toy, 1000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_FALSE(test, llist_empty(&other->incoming));
	KUNIT_EXPECT_EQ(test, toy->served, 0);
	toy->job.pacer = p;
	htw_pacer_migrate(other);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->served, 1);
}

static void count_kick(void *data)
{
	struct htw_pacer *p = data;

	p->kicks++;
	clear_bit(0, &p->kicked);
}

/* A CPU has gone, and its hrtimer expires on another one: the run that it was for does not come. */
static void hrtimer_of_another_cpu_starts_no_run(struct kunit *test)
{
	struct htw_pacer *gone = other_pacer(test), *p = idle_pacer(test);
	struct toy *toy = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, NULL);

	gone->cpu = p->cpu + 1;
	INIT_CSD(&gone->csd, count_kick, gone);
	put(gone, toy, ON_INCOMING);
	gone->adopter = p;
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, p->hrtimer.function(&gone->hrtimer), HRTIMER_NORESTART);
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, gone->armed);
	KUNIT_EXPECT_EQ(test, gone->runs, 0);
	KUNIT_EXPECT_EQ(test, gone->kicks, 1);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->served, 1);

	/* Its CPU is back: it is up to that one. */
	gone->adopter = NULL;
	gone->armed = true;
	local_bh_disable();
	KUNIT_EXPECT_EQ(test, p->hrtimer.function(&gone->hrtimer), HRTIMER_NORESTART);
	local_bh_enable();
	KUNIT_EXPECT_FALSE(test, gone->armed);
	KUNIT_EXPECT_EQ(test, gone->kicks, 2);
}

/* The time from which on the CPU may be used may become later when a run has been announced. */
static void run_waits_for_a_gap_that_has_grown(struct kunit *test)
{
	struct notes *notes = htw_test_array(test, 1, sizeof(*notes));
	struct toy *toy = toy_make(test, toy_user(test, HTW_CLASS_OTHERS), 1000, notes);
	struct htw_pacer *p = idle_pacer(test);
	u64 not_before;

	local_bh_disable();
	toy_give(toy, 1000);
	not_before = htw_now() + NSEC_PER_MSEC;
	WRITE_ONCE(p->not_before, not_before);
	local_bh_enable();
	sleep_ns(test, 2 * NSEC_PER_MSEC);
	KUNIT_ASSERT_EQ(test, notes->nr, 1);
	KUNIT_EXPECT_GE(test, notes->note[0].began, not_before);
	KUNIT_EXPECT_LE(test, notes->note[0].began, not_before + 100 * NSEC_PER_USEC);
}

/* What a job's interrupt has cost, 1 us, is charged once, however often the job is passed on. */
static void interrupt_is_charged_once(struct kunit *test)
{
	struct htw_pacer *first = other_pacer(test), *second = other_pacer(test);
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct htw_flow *flow = per_cpu_ptr(flows, 0);
	struct toy *toy = toy_make(test, flows, 1000, NULL);
	struct toy *idle = toy_make(test, flows, 1000, NULL);
	struct htw_pacer *p = idle_pacer(test);

	put(first, toy, ON_INCOMING);
	toy->job.irq_ns = HTW_IRQ_COST_NS;
	/* Cancelling another job makes a pacer look at its incoming ones. */
	idle->job.pacer = first;
	htw_job_cancel(&idle->job);
	KUNIT_EXPECT_EQ(test, flow->spent, NSEC_PER_USEC);
	first->adopter = second;
	htw_pacer_migrate(first);
	idle->job.pacer = second;
	htw_job_cancel(&idle->job);
	KUNIT_EXPECT_FALSE(test, list_empty(&toy->job.ready));
	KUNIT_EXPECT_EQ(test, flow->spent, HTW_IRQ_COST_NS);
	second->adopter = p;
	htw_pacer_migrate(second);
	idle->job.pacer = p;
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->served, 1);
}

enum stage { INCOMING, READY, THROTTLED };

static const enum stage stages[] = { INCOMING, READY, THROTTLED };

static void get_stage_desc(const enum stage *stage, char *desc)
{
	static const char *const names[] = { "incoming", "ready", "throttled" };

	strscpy(desc, names[*stage], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(stages, stages, get_stage_desc);

/* In any stage: the job is not served any more, and its flow's other jobs are. */
static void cancelled_job_is_not_served(struct kunit *test)
{
	const enum stage stage = *(const enum stage *)test->param_value;
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	struct htw_flow *flow = per_cpu_ptr(flows, 0);
	struct toy *toy = toy_make(test, flows, 60000, NULL);
	struct toy *other = toy_make(test, flows, 60000, NULL);
	struct htw_pacer *p = idle_pacer(test);
	u32 calls, others;

	local_bh_disable();
	toy_give(toy, ENDLESS);
	toy_give(other, ENDLESS);
	if (stage == INCOMING) {
		KUNIT_EXPECT_PTR_EQ(test, p->incoming.first->next, &toy->job.incoming);
		toy_cancel_locked(toy);
		KUNIT_EXPECT_TRUE(test, llist_empty(&p->incoming));
	}
	local_bh_enable();
	if (stage != INCOMING) {
		sleep_ns(test, stage == READY ? NSEC_PER_MSEC : NSEC_PER_SEC);
		/* It may have got tokens just now; it uses them up soon. */
		for (u32 i = 0; i < 100 && stage == THROTTLED && !flow->throttled; i++)
			sleep_ns(test, 50 * NSEC_PER_USEC);
		KUNIT_ASSERT_EQ(test, flow->throttled, stage == THROTTLED);
		KUNIT_EXPECT_FALSE(test, list_empty(&toy->job.ready));
		toy_cancel(toy);
	}
	calls = toy->calls;
	others = other->calls;
	KUNIT_EXPECT_TRUE(test, list_empty(&toy->job.ready));
	synchronize_rcu();
	sleep_ns(test, 100 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->calls, calls);
	KUNIT_EXPECT_GT(test, other->calls, others);
}

/* One that dies before it is cancelled is not served either, and costs its user nothing. */
static void dead_job_is_not_served(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	struct toy *toy = toy_make(test, flows, 1000, NULL);

	idle_pacer(test);
	local_bh_disable();
	toy_give(toy, 1000);
	spin_lock(&toy->lock);
	htw_job_kill(&toy->job);
	spin_unlock(&toy->lock);
	local_bh_enable();
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->calls, 0);
	KUNIT_EXPECT_EQ(test, per_cpu_ptr(flows, 0)->spent, 0);
}

static enum htw_served toy_dies(struct htw_job *job, struct htw_turn *turn)
{
	struct toy *toy = container_of(job, struct toy, job);

	toy->calls++;
	toy_cancel_locked(toy);
	return HTW_SERVED_MORE;
}

/* As if another CPU cancelled it in its turn: it is on no list after that. */
static void job_that_dies_in_its_turn_is_not_queued(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *toy = toy_make(test, flows, 1000, NULL);

	idle_pacer(test);
	toy->job.serve = toy_dies;
	toy_give(toy, 1000);
	sleep_ns(test, NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->calls, 1);
	KUNIT_EXPECT_TRUE(test, list_empty(&toy->job.ready));
	KUNIT_EXPECT_FALSE(test, flow_is_used(flows, 0));
}

/* A job that schedules itself in its turn: no work is lost or done twice. */
static void job_can_be_scheduled_while_it_is_served(struct kunit *test)
{
	struct toy *toy = toy_make(test, toy_user(test, HTW_CLASS_PRIVILEGED), 1000, NULL);

	idle_pacer(test);
	toy->again = 5;
	toy->refill = 3000;
	toy_give(toy, 1000);
	sleep_ns(test, 10 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, toy->served, 1 + 5 * 3);
	KUNIT_EXPECT_EQ(test, toy->left, 0);
	KUNIT_EXPECT_FALSE(test, htw_job_is_scheduled(&toy->job));
}

#define TEST_UID		54321

struct count {
	unsigned int users;
	unsigned int contexts;
};

static void count_user(struct htw_user *user, void *data)
{
	struct count *count = data;

	if (!uid_eq(user->uid, KUIDT_INIT(TEST_UID)))
		return;
	count->users++;
	count->contexts += user->contexts;
}

static struct count count_test_user(void)
{
	struct count count = {};

	htw_users_for_each(count_user, &count);
	return count;
}

static s64 tokens_of(struct htw_user *user)
{
	struct htw_flow_info info;

	htw_pacer_flow_info(per_cpu_ptr(htw_bases_flows(&user->bases), 0), 0, &info);
	return info.tokens;
}

/* A debt of 50 ms takes 200 ms with a share of 25%. */
static void reopening_gives_no_new_share(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context_of(test, TEST_UID);
	struct htw_event event;
	u64 before;

	idle_pacer(test);
	htw_pacer_charge_work(htw_bases_flows(&ctx->user->bases),
			      tokens_of(ctx->user) + 50 * NSEC_PER_MSEC);
	before = htw_now();
	kunit_release_action(test, htw_test_close, ctx);
	sleep_ns(test, 20 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, count_test_user().users, 1);
	KUNIT_EXPECT_EQ(test, count_test_user().contexts, 0);
	ctx = htw_test_context_of(test, TEST_UID);
	KUNIT_EXPECT_EQ(test, count_test_user().users, 1);
	KUNIT_EXPECT_LT(test, tokens_of(ctx->user), -44 * (s64)NSEC_PER_MSEC);
	htw_test_start(test, ctx, htw_now(), 1);
	htw_test_wait(test, ctx, 1);
	KUNIT_ASSERT_EQ(test, htw_test_read(ctx, &event, 1), 1);
	KUNIT_EXPECT_GE(test, event.fired - before, 200 * NSEC_PER_MSEC);
	KUNIT_EXPECT_LT(test, event.fired - before, 202 * NSEC_PER_MSEC);
}

/*
 * Work outside of softirq costs tokens, but does not add up to a deficit that would take the flow
 * many rounds to work off once it has a job.
 */
static void spending_without_a_job_leaves_a_bounded_deficit(struct kunit *test)
{
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_OTHERS);
	const struct htw_flow *flow;

	migrate_disable();
	flow = this_cpu_ptr(flows);
	for (u32 i = 0; i < 1000; i++)
		htw_pacer_charge_work(flows, HTW_RUN_NS);
	KUNIT_EXPECT_EQ(test, flow->spent, 1000 * HTW_RUN_NS);
	KUNIT_EXPECT_LT(test, flow->tokens, 0);
	KUNIT_EXPECT_GE(test, flow->deficit, -(s64)HTW_RUN_NS);
	migrate_enable();
}

static void user_stays_until_its_tokens_are_full(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context_of(test, TEST_UID);

	idle_pacer(test);
	/* No tokens are left; the bucket is full in a second. */
	htw_pacer_charge_work(htw_bases_flows(&ctx->user->bases), tokens_of(ctx->user));
	kunit_release_action(test, htw_test_close, ctx);
	sleep_ns(test, 980 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, count_test_user().users, 1);
	KUNIT_EXPECT_EQ(test, count_test_user().contexts, 0);
	sleep_ns(test, 800 * NSEC_PER_MSEC);
	KUNIT_EXPECT_EQ(test, count_test_user().users, 0);
}

/* Openers with CAP_SYS_RESOURCE are a separate user. */
static void privileged_opener_has_no_share(struct kunit *test)
{
	struct htw_context *ctx = htw_test_context(test);

	KUNIT_EXPECT_EQ(test, ctx->user->bases.class, HTW_CLASS_PRIVILEGED);
	KUNIT_EXPECT_PTR_NE(test, ctx->user, htw_test_context_of(test, TEST_UID)->user);
}
#endif /* CONFIG_UML_TIME_TRAVEL_SUPPORT */

#ifdef CONFIG_SMP
#define TOYS			100u

/* A thread that disables softirqs on a CPU until it is released. */
struct holder {
	struct completion holds;
	struct completion done;
	bool release;
};

static int hold_softirqs(void *data)
{
	struct holder *h = data;

	local_bh_disable();
	complete(&h->holds);
	while (!READ_ONCE(h->release))
		cpu_relax();
	local_bh_enable();
	complete(&h->done);
	return 0;
}

static unsigned int other_cpu(struct kunit *test)
{
	const unsigned int cpu = cpumask_last(cpu_online_mask);

	/* The case runs on the first CPU. */
	KUNIT_ASSERT_NE(test, cpu, cpumask_first(cpu_online_mask));
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current,
						   cpumask_of(cpumask_first(cpu_online_mask))), 0);
	return cpu;
}

static struct holder *hold(struct kunit *test, unsigned int cpu)
{
	struct holder *h = htw_test_array(test, 1, sizeof(*h));
	struct task_struct *task;

	init_completion(&h->holds);
	init_completion(&h->done);
	task = kthread_create_on_cpu(hold_softirqs, h, cpu, "htw_kunit_hold/%u");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	wake_up_process(task);
	wait_for_completion(&h->holds);
	return h;
}

static void unhold(struct holder *h)
{
	WRITE_ONCE(h->release, true);
	wait_for_completion(&h->done);
}

/* Wait until a toy has had @turns turns. */
static void wait_for_turns(struct kunit *test, struct toy *toy, u32 turns)
{
	for (unsigned int i = 0; i < 1000 && READ_ONCE(toy->served) < turns; i++)
		msleep(20);
	KUNIT_ASSERT_GE(test, READ_ONCE(toy->served), turns);
}

static struct toy *toy_make_on(struct kunit *test, unsigned int cpu,
			       struct htw_flow __percpu *flows, u64 turn)
{
	struct toy *toy = toy_make(test, flows, turn, NULL);

	toy->job.pacer = per_cpu_ptr(&htw_pacers, cpu);
	return toy;
}

/* However many jobs other CPUs schedule until the pacer has run. */
static void pacer_is_interrupted_once(struct kunit *test)
{
	const unsigned int cpu = other_cpu(test);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *toys[TOYS];
	struct holder *h;
	u64 kicks, runs;

	for (u32 i = 0; i < TOYS; i++)
		toys[i] = toy_make_on(test, cpu, flows, 1000);
	h = hold(test, cpu);
	/* Earlier runs have ended. */
	KUNIT_ASSERT_FALSE(test, READ_ONCE(p->armed));
	kicks = READ_ONCE(p->kicks);
	runs = READ_ONCE(p->runs);
	for (u32 i = 0; i < TOYS; i++) {
		toy_give(toys[i], 1000);
		/* Wait for a kick in flight, which would hide further ones. */
		while (test_bit(0, &p->kicked))
			cpu_relax();
	}
	/* Give further kicks time to arrive. */
	msleep(100);
	KUNIT_EXPECT_EQ(test, READ_ONCE(p->kicks) - kicks, 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(p->runs), runs);
	unhold(h);
	for (u32 i = 0; i < TOYS; i++) {
		wait_for_turns(test, toys[i], 1);
		KUNIT_EXPECT_EQ(test, READ_ONCE(toys[i]->calls), 1);
	}
}

/*
 * The csd is not queued again while it is in use, also if the list of jobs was emptied meanwhile,
 * as by cancelling another job.
 */
static void csd_has_one_owner(struct kunit *test)
{
	const unsigned int cpu = other_cpu(test);
	struct htw_pacer *p = per_cpu_ptr(&htw_pacers, cpu);
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *first = toy_make_on(test, cpu, flows, 1000);
	struct toy *second = toy_make_on(test, cpu, flows, 1000);
	struct holder *h = hold(test, cpu);
	u64 kicks;

	KUNIT_ASSERT_FALSE(test, READ_ONCE(p->armed));
	/* As if another CPU were about to queue the csd for a job of its own. */
	KUNIT_ASSERT_FALSE(test, test_and_set_bit(0, &p->kicked));
	kicks = READ_ONCE(p->kicks);
	toy_give(first, 1000);
	toy_cancel(first);
	KUNIT_EXPECT_TRUE(test, llist_empty(&p->incoming));
	toy_give(second, 1000);
	msleep(100);
	KUNIT_EXPECT_EQ(test, READ_ONCE(p->kicks), kicks);
	/* That CPU goes on. */
	preempt_disable();
	KUNIT_EXPECT_EQ(test, smp_call_function_single_async(cpu, &p->csd), 0);
	preempt_enable();
	unhold(h);
	wait_for_turns(test, second, 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(p->kicks), kicks + 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(first->calls), 0);
}

/* Cancel a job that another CPU's pacer has not collected yet. */
static void job_is_cancelled_before_another_cpu_has_seen_it(struct kunit *test)
{
	const unsigned int cpu = other_cpu(test);
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *toy = toy_make_on(test, cpu, flows, 1000);
	struct toy *other = toy_make_on(test, cpu, flows, 1000);
	struct holder *h = hold(test, cpu);

	toy_give(toy, 1000);
	toy_give(other, 1000);
	toy_cancel(toy);
	KUNIT_EXPECT_TRUE(test, list_empty(&toy->job.ready));
	KUNIT_EXPECT_TRUE(test, llist_empty(&per_cpu_ptr(&htw_pacers, cpu)->incoming));
	unhold(h);
	wait_for_turns(test, other, 1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(toy->calls), 0);
}

/* A job whose turn lasts until @end is set. */
struct long_turn {
	struct htw_job job;
	struct completion begun;
	bool end;
	bool ended;
};

static enum htw_served long_turn_serve(struct htw_job *job, struct htw_turn *turn)
{
	struct long_turn *l = container_of(job, struct long_turn, job);

	if (completion_done(&l->begun))
		return HTW_SERVED_MORE;
	complete(&l->begun);
	while (!READ_ONCE(l->end))
		cpu_relax();
	WRITE_ONCE(l->ended, true);
	return HTW_SERVED_MORE;
}

/* Cancelling does not wait for a turn in progress; a grace period does. */
static void job_is_cancelled_in_its_turn(struct kunit *test)
{
	const unsigned int cpu = other_cpu(test);
	struct htw_flow __percpu *flows = toy_user(test, HTW_CLASS_PRIVILEGED);
	struct toy *other = toy_make_on(test, cpu, flows, 1000);
	struct long_turn *l = kzalloc(sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	init_completion(&l->begun);
	htw_job_init(&l->job, flows, long_turn_serve);
	l->job.pacer = per_cpu_ptr(&htw_pacers, cpu);
	local_bh_disable();
	htw_job_schedule(&l->job, 0);
	local_bh_enable();
	wait_for_completion(&l->begun);

	WRITE_ONCE(l->job.dead, true);
	htw_job_cancel(&l->job);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(l->ended));
	WRITE_ONCE(l->end, true);
	synchronize_rcu();
	KUNIT_EXPECT_TRUE(test, READ_ONCE(l->ended));
	KUNIT_EXPECT_TRUE(test, list_empty(&l->job.ready));
	memset(l, 0x6b, sizeof(*l));
	kfree(l);
	toy_give(other, 1000);
	wait_for_turns(test, other, 1);
}

/* Threads that give a toy work while it is being served. */
struct giver {
	struct toy *toy;
	struct task_struct *task;
	struct completion done;
	u32 given;
};

static int give_thread(void *data)
{
	struct giver *g = data;

	while (g->given < 5000) {
		toy_give(g->toy, 100);
		g->given++;
		if (!(g->given % 64))
			usleep_range(10, 200);
	}
	complete(&g->done);
	return 0;
}

static void nothing_is_lost_while_a_job_is_served(struct kunit *test)
{
	const unsigned int cpu = other_cpu(test);
	struct toy *toy = toy_make_on(test, cpu, toy_user(test, HTW_CLASS_PRIVILEGED), 100);
	struct giver *givers = htw_test_array(test, nr_cpu_ids, sizeof(*givers));
	u64 given = 0;
	unsigned int c;

	for_each_online_cpu(c) {
		struct giver *g = &givers[c];

		g->toy = toy;
		init_completion(&g->done);
		g->task = kthread_create_on_cpu(give_thread, g, c, "htw_kunit_give/%u");
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, g->task);
		wake_up_process(g->task);
	}
	for_each_online_cpu(c)
		wait_for_completion(&givers[c].done);
	for_each_online_cpu(c)
		given += givers[c].given;
	for (unsigned int i = 0; i < 1000 && READ_ONCE(toy->left); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, toy->left, 0);
	/* A turn is as long as the work that is given at a time. */
	KUNIT_EXPECT_EQ(test, toy->served, given);
	KUNIT_EXPECT_FALSE(test, htw_job_is_scheduled(&toy->job));
}
#endif /* CONFIG_SMP */

static struct kunit_case htw_pacer_cases[] = {
#ifdef CONFIG_UML_TIME_TRAVEL_SUPPORT
	KUNIT_CASE_PARAM(all_together_take_half_of_the_cpu, loads_gen_params),
	KUNIT_CASE(runs_are_apart),
	KUNIT_CASE_PARAM(new_flow_is_served_first, classes_gen_params),
	KUNIT_CASE(new_flow_may_be_late),
	KUNIT_CASE(new_flows_take_short_turns),
	KUNIT_CASE(flow_is_new_once_a_millisecond),
	KUNIT_CASE(new_flows_do_not_starve_old_ones),
	KUNIT_CASE(flow_that_runs_dry_keeps_its_debt),
	KUNIT_CASE(classes_take_turns),
	KUNIT_CASE_PARAM(flows_get_the_same, contests_gen_params),
	KUNIT_CASE_PARAM(user_has_a_share, savings_gen_params),
	KUNIT_CASE_PARAM(throttled_flow_delays_no_other, classes_gen_params),
	KUNIT_CASE_PARAM(stall_is_not_doubled, stalls_gen_params),
	KUNIT_CASE(busy_lock_is_tried_later),
	KUNIT_CASE(busy_lock_ends_the_run),
	KUNIT_CASE(later_turns_end_the_run),
	KUNIT_CASE(run_begins_when_the_gap_is_over),
	KUNIT_CASE(interrupts_of_a_jiffy_are_a_crowd),
	KUNIT_CASE(wheels_share_an_interrupt),
	KUNIT_CASE(gap_for_interrupts_is_divided),
	KUNIT_CASE(alternating_turns_are_charged),
	KUNIT_CASE(work_for_an_old_flow_delays_no_new_one),
	KUNIT_CASE(gap_for_waking_is_divided),
	KUNIT_CASE(surprises_are_rare),
	KUNIT_CASE(off_cpu_clock_runs_while_the_task_does_not),
	KUNIT_CASE(work_leaves_half_of_the_cpu),
	KUNIT_CASE(waiting_for_slow_waiters_ends_with_a_turn),
	KUNIT_CASE(time_left_alone_before_work_counts),
	KUNIT_CASE(work_in_a_gap_is_owed),
	KUNIT_CASE(kick_that_does_not_come_delays_nobody),
	KUNIT_CASE(work_is_charged_without_runs_in_it),
	KUNIT_CASE(forgiven_wakes_are_forgotten),
	KUNIT_CASE(jobs_of_an_offline_cpu_are_adopted),
	KUNIT_CASE(jobs_are_passed_on_to_their_pacers),
	KUNIT_CASE(wheels_are_adopted_and_come_back),
	KUNIT_CASE(incoming_jobs_are_passed_on),
	KUNIT_CASE(job_that_moves_in_its_turn_is_passed_on),
	KUNIT_CASE(hrtimer_of_another_cpu_starts_no_run),
	KUNIT_CASE(run_waits_for_a_gap_that_has_grown),
	KUNIT_CASE(interrupt_is_charged_once),
	KUNIT_CASE_PARAM(cancelled_job_is_not_served, stages_gen_params),
	KUNIT_CASE(dead_job_is_not_served),
	KUNIT_CASE(job_that_dies_in_its_turn_is_not_queued),
	KUNIT_CASE(job_can_be_scheduled_while_it_is_served),
	KUNIT_CASE(reopening_gives_no_new_share),
	KUNIT_CASE(spending_without_a_job_leaves_a_bounded_deficit),
	KUNIT_CASE(user_stays_until_its_tokens_are_full),
	KUNIT_CASE(privileged_opener_has_no_share),
#endif
#ifdef CONFIG_SMP
	KUNIT_CASE(pacer_is_interrupted_once),
	KUNIT_CASE(csd_has_one_owner),
	KUNIT_CASE(job_is_cancelled_before_another_cpu_has_seen_it),
	KUNIT_CASE(job_is_cancelled_in_its_turn),
	KUNIT_CASE_SLOW(nothing_is_lost_while_a_job_is_served),
#endif
	{}
};

static struct kunit_suite htw_pacer_suite = {
	.name = "htw_pacer",
	.test_cases = htw_pacer_cases,
};

kunit_test_suite(htw_pacer_suite);

MODULE_DESCRIPTION("KUnit: the pacer, and the shares of users");
MODULE_LICENSE("GPL");
