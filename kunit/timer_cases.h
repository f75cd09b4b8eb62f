/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What modules rely on in a timer, as cases that run with timer_list and with callouts
 *
 * Included by a KUnit suite and by a module for kernels without KUnit, as those of
 * distributions are: tools/tests/kernel/htw_timers.c.
 */
#ifndef _HTW_TIMER_CASES_H
#define _HTW_TIMER_CASES_H

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/htw.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/preempt.h>
#include <linux/random.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/stringify.h>
#include <linux/timer.h>
#include <linux/tracepoint.h>
#include <uapi/linux/sched/types.h>

#include "compat_tests.h"

#define MS		((u64)NSEC_PER_MSEC)
#define HOUR		(3600 * (u64)NSEC_PER_SEC)
/* After this, what a case waits for has failed to come. */
#define GIVE_UP_NS	(10 * (u64)NSEC_PER_SEC)
#define PROBES		4u

struct timer_test;

/**
 * struct probe - a timer that records its calls
 * @timer: used by one kind
 * @callout: used by the other
 * @test: the case
 * @fn: called by the timer's function, or NULL
 * @due: its deadline
 * @fired: when its function was called last
 * @ended: when the function has returned; 0 until then
 * @calls: how often it was called
 * @owed: starts less calls and cancels, so that a leaked or doubly dropped reference is seen
 * @begun: completed when the function begins
 */
struct probe {
	union {
		struct timer_list timer;
		struct htw_callout callout;
	};
	struct timer_test *test;
	void (*fn)(struct probe *p);
	u64 due;
	u64 fired;
	u64 ended;
	atomic_t calls;
	atomic_t owed;
	struct completion begun;
};

/**
 * struct timer_kind - a kind of timer
 * @name: in reports
 * @init: initialise it, with probe_called() as its function
 * @start: start or move it; was it pending?
 * @cancel: was it pending?
 * @cancel_sync: the same
 * @shutdown_sync: the same
 * @pending: is it?
 * @is_callout: it is never early, with respect to CLOCK_MONOTONIC; and cancel_sync waits for
 *	no other's function, with PREEMPT_RT as well
 */
struct timer_kind {
	const char *name;
	void (*init)(struct probe *p);
	bool (*start)(struct probe *p, u64 delay);
	bool (*cancel)(struct probe *p);
	bool (*cancel_sync)(struct probe *p);
	bool (*shutdown_sync)(struct probe *p);
	bool (*pending)(struct probe *p);
	bool is_callout;
};

/**
 * struct timer_test - a case that runs
 * @kind: with what timers
 * @probes: the timers; shut down when the case has ended
 * @other: the last CPU; the case runs on the first
 * @stop: functions shall end, and start nothing
 * @ready: completed by each task that will wait for functions
 * @goes_on: completed when the task of the case goes on to wait for one
 * @lock: for what a case needs
 * @crowd: more timers than @probes, in one case
 * @gave_up: a function has waited for too long
 * @wrong: what is wrong, or NULL
 */
struct timer_test {
	const struct timer_kind *kind;
	struct probe probes[PROBES];
	unsigned int other;
	bool stop;
	struct completion ready;
	struct completion goes_on;
	spinlock_t lock;	/* taken by functions, and by tasks that wait for others */
	struct probe *crowd;
	bool gave_up;
	const char *wrong;
};

/* Note the first thing that is wrong; the case goes on. */
#define CHECK(t, condition) \
	timer_test_check(t, condition, "line " __stringify(__LINE__) ": not " #condition)

static void timer_test_check(struct timer_test *t, bool ok, const char *wrong)
{
	if (!ok && !t->wrong)
		t->wrong = wrong;
}

static void probe_called(struct probe *p)
{
	p->fired = ktime_get_ns();
	atomic_inc(&p->calls);
	atomic_dec(&p->owed);
	complete(&p->begun);
	if (p->fn)
		p->fn(p);
	/* Pairs with cancel_sync_waits_for_the_function(). */
	smp_store_release(&p->ended, ktime_get_ns());
}

static bool probe_start(struct probe *p, u64 delay)
{
	bool pending;

	/* Two CPUs may start it. */
	WRITE_ONCE(p->due, ktime_get_ns() + delay);
	pending = p->test->kind->start(p, delay);
	if (!pending)
		atomic_inc(&p->owed);
	return pending;
}

static bool probe_cancelled(struct probe *p, bool pending)
{
	if (pending)
		atomic_dec(&p->owed);
	return pending;
}

static bool probe_cancel(struct probe *p)
{
	return probe_cancelled(p, p->test->kind->cancel(p));
}

static bool probe_cancel_sync(struct probe *p)
{
	return probe_cancelled(p, p->test->kind->cancel_sync(p));
}

static bool probe_shutdown_sync(struct probe *p)
{
	return probe_cancelled(p, p->test->kind->shutdown_sync(p));
}

/* Jiffies may be behind the clock when a timer_list is started. */
static bool probe_is_early(const struct probe *p)
{
	return p->test->kind->is_callout && p->fired < p->due;
}

static bool probe_comes(struct probe *p)
{
	/* After a failure nothing is waited for. */
	return !p->test->wrong &&
	       wait_for_completion_timeout(&p->begun, nsecs_to_jiffies(GIVE_UP_NS));
}

/* Wait until a timer that was started now, for later than others were, has come. */
static bool time_passes(struct timer_test *t, u64 ns)
{
	struct probe *witness = &t->probes[PROBES - 1];

	reinit_completion(&witness->begun);
	probe_start(witness, ns);
	return probe_comes(witness);
}

/* For functions: is it time to give up waiting? */
static bool gives_up(struct timer_test *t, u64 since)
{
	cpu_relax();
	if (ktime_get_ns() - since < GIVE_UP_NS)
		return false;
	t->gave_up = true;
	return true;
}

/*
 * Let none of this CPU's timers expire until timers_resume(), however long that takes: a
 * virtual machine may stand still for longer than the delay of a timer that a case finds pending.
 */
static void timers_suspend(void)
{
	local_bh_disable();
}

static void timers_resume(void)
{
	local_bh_enable();
}

/* What timers are. */

static void comes_once_and_not_early(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	timers_suspend();
	CHECK(t, !probe_start(p, 5 * MS + 1));
	CHECK(t, t->kind->pending(p));
	timers_resume();
	CHECK(t, probe_comes(p));
	CHECK(t, !probe_is_early(p));
	CHECK(t, !t->kind->pending(p));
	CHECK(t, !probe_cancel_sync(p));
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, atomic_read(&p->calls) == 1);
}

static void start_moves_it_earlier_and_later(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	CHECK(t, !probe_start(p, HOUR));
	CHECK(t, probe_start(p, 2 * HOUR));
	CHECK(t, probe_start(p, 5 * MS));
	CHECK(t, probe_comes(p));
	CHECK(t, !probe_is_early(p));

	timers_suspend();
	CHECK(t, !probe_start(p, 5 * MS));
	CHECK(t, probe_start(p, HOUR));
	timers_resume();
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, atomic_read(&p->calls) == 1);
	CHECK(t, probe_cancel(p));
}

static void cancel_says_what_it_stopped(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	CHECK(t, !probe_cancel(p));
	CHECK(t, !probe_cancel_sync(p));

	timers_suspend();
	probe_start(p, 5 * MS);
	CHECK(t, probe_cancel(p));
	CHECK(t, !t->kind->pending(p));
	CHECK(t, !probe_cancel(p));
	probe_start(p, 5 * MS);
	CHECK(t, probe_cancel_sync(p));
	CHECK(t, !probe_cancel_sync(p));
	timers_resume();
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, !atomic_read(&p->calls));
}

static void shut_down_it_cannot_be_started(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	timers_suspend();
	probe_start(p, 5 * MS);
	CHECK(t, probe_shutdown_sync(p));
	timers_resume();
	CHECK(t, !t->kind->start(p, MS));
	CHECK(t, !t->kind->pending(p));
	CHECK(t, !probe_cancel(p));
	CHECK(t, !probe_shutdown_sync(p));
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, !atomic_read(&p->calls));

	t->kind->init(p);
	CHECK(t, !probe_start(p, MS));
	CHECK(t, probe_comes(p));
}

/* Functions. */

static void start_again(struct probe *p)
{
	if (!READ_ONCE(p->test->stop) && atomic_read(&p->calls) <= 20)
		probe_start(p, MS);
}

static void function_starts_it_again(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = start_again;
	probe_start(p, MS);
	for (int i = 0; i <= 20; i++)
		CHECK(t, probe_comes(p));
	CHECK(t, !probe_cancel_sync(p));
	CHECK(t, atomic_read(&p->calls) == 21);
}

static void start_and_cancel(struct probe *p)
{
	if (probe_start(p, MS) || !probe_start(p, HOUR) || !probe_cancel(p) || probe_cancel(p))
		p->test->gave_up = true;
}

static void function_cancels_it(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = start_and_cancel;
	probe_start(p, MS);
	CHECK(t, probe_comes(p));
	CHECK(t, !probe_cancel_sync(p));
	CHECK(t, atomic_read(&p->calls) == 1);
}

/* The first one, which is due as well by now, but is not running. */
static void cancel_the_first_later(struct probe *p)
{
	const u64 began = ktime_get_ns();

	/* With time travel, cpu_relax() takes a nanosecond. */
	while (ktime_get_ns() - began < 30 * MS)
		udelay(1);
	if (!probe_cancel_sync(&p->test->probes[0]))
		p->test->gave_up = true;
}

static void function_cancels_the_next_one(struct timer_test *t)
{
	t->probes[1].fn = cancel_the_first_later;
	timers_suspend();
	probe_start(&t->probes[1], MS);
	/* In a later jiffy. */
	probe_start(&t->probes[0], 20 * MS);
	timers_resume();
	CHECK(t, probe_comes(&t->probes[1]));
	probe_cancel_sync(&t->probes[1]);
	CHECK(t, !t->kind->pending(&t->probes[0]));
	CHECK(t, time_passes(t, 40 * MS));
	CHECK(t, !atomic_read(&t->probes[0].calls));
}

static void start_at_once(struct probe *p)
{
	/* If nothing stops it, it ends. */
	if (!READ_ONCE(p->test->stop) && !gives_up(p->test, p->due))
		p->test->kind->start(p, 0);
}

static void one_that_starts_itself_at_once_can_be_cancelled(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	int calls;

	p->fn = start_at_once;
	probe_start(p, 0);
	CHECK(t, probe_comes(p) && probe_comes(p));
	t->kind->cancel_sync(p);
	calls = atomic_read(&p->calls);
	CHECK(t, !t->kind->pending(p));
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, atomic_read(&p->calls) == calls);
	CHECK(t, !t->gave_up);
	atomic_set(&p->owed, 0);
}

static void start_neighbour_at_once(struct probe *p)
{
	struct probe *neighbour = p == p->test->probes ? p + 1 : p - 1;

	if (!READ_ONCE(p->test->stop) && !gives_up(p->test, p->test->probes[2].due))
		p->test->kind->start(neighbour, 0);
}

/* Others run beside two that start each other at times that have come. */
static void two_that_start_each_other_let_tasks_run(struct timer_test *t)
{
	t->probes[0].fn = start_neighbour_at_once;
	t->probes[1].fn = start_neighbour_at_once;
	t->probes[2].due = ktime_get_ns();
	probe_start(&t->probes[0], 0);
	for (int i = 0; i < 20; i++)
		CHECK(t, probe_comes(&t->probes[1]));
	CHECK(t, time_passes(t, 5 * MS));
	WRITE_ONCE(t->stop, true);
	for (int i = 0; i < 2; i++)
		t->kind->cancel_sync(&t->probes[i]);
	CHECK(t, !t->gave_up);
	atomic_set(&t->probes[0].owed, 0);
	atomic_set(&t->probes[1].owed, 0);
}

static void free_it(struct probe *p)
{
	struct timer_test *t = p->test;

	memset(p, 0x6b, sizeof(*p));
	kfree(p);
	complete(&t->probes[1].begun);
}

static void free_called(struct timer_list *timer)
{
	free_it(container_of(timer, struct probe, timer));
}

static void free_callout_called(struct htw_callout *callout)
{
	free_it(container_of(callout, struct probe, callout));
}

static void function_may_free_it(struct timer_test *t)
{
	struct probe *p = kzalloc(sizeof(*p), GFP_KERNEL);

	CHECK(t, p);
	if (!p)
		return;
	p->test = t;
	if (t->kind->is_callout)
		htw_callout_init(&p->callout, free_callout_called);
	else
		timer_setup(&p->timer, free_called, 0);
	t->kind->start(p, MS);
	CHECK(t, probe_comes(&t->probes[1]));
}

/* Contexts. */

static void softirq_seen(struct tasklet_struct *tasklet)
{
}

static void irqs_stay_off(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	DECLARE_TASKLET(tasklet, softirq_seen);
	bool off = true, waits = true;
	unsigned long flags;

	local_irq_save(flags);
	/* A softirq that is waiting would run if bottom halves were enabled. */
	tasklet_schedule(&tasklet);
	probe_start(p, 0);
	off &= irqs_disabled();
	probe_start(p, HOUR);
	off &= irqs_disabled();
	probe_cancel(p);
	off &= irqs_disabled();
	waits = test_bit(TASKLET_STATE_SCHED, &tasklet.state);
	local_irq_restore(flags);
	tasklet_kill(&tasklet);
	CHECK(t, off);
	CHECK(t, waits);
	CHECK(t, !atomic_read(&p->calls));
}

static void not_called_from_within_start(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	bool called, pending;

	/* Nothing is called on this CPU, nor on others: it is this CPU's. */
	local_bh_disable();
	local_irq_disable();
	probe_start(p, 0);
	called = atomic_read(&p->calls);
	pending = t->kind->pending(p);
	local_irq_enable();
	local_bh_enable();
	CHECK(t, !called);
	CHECK(t, pending);
	CHECK(t, probe_comes(p));
}

/**
 * struct from_hardirq - timers that are used in hardirq
 * @hrtimer: calls that
 * @p: the timer
 * @lock: raw: held meanwhile
 * @ok: all was as it should be
 * @done: completed in the end
 */
struct from_hardirq {
	struct hrtimer hrtimer;
	struct probe *p;
	raw_spinlock_t lock;
	bool ok;
	struct completion done;
};

static enum hrtimer_restart use_in_hardirq(struct hrtimer *hrtimer)
{
	struct from_hardirq *from = container_of(hrtimer, struct from_hardirq, hrtimer);

	raw_spin_lock(&from->lock);
	from->ok = in_hardirq() && !probe_start(from->p, HOUR) && probe_start(from->p, 2 * HOUR) &&
		   probe_cancel(from->p) && !probe_start(from->p, MS) && irqs_disabled();
	raw_spin_unlock(&from->lock);
	complete(&from->done);
	return HRTIMER_NORESTART;
}

static void used_in_hardirq_and_with_a_raw_lock(struct timer_test *t)
{
	static struct from_hardirq from;

	from = (struct from_hardirq) { .p = &t->probes[0] };
	raw_spin_lock_init(&from.lock);
	init_completion(&from.done);
	hrtimer_setup(&from.hrtimer, use_in_hardirq, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&from.hrtimer, ns_to_ktime(MS), HRTIMER_MODE_REL_HARD);
	wait_for_completion(&from.done);
	hrtimer_cancel(&from.hrtimer);
	CHECK(t, from.ok);
	CHECK(t, probe_comes(from.p));
}

#ifdef CONFIG_TRACEPOINTS

/* More than a base has without levels: the next ones ask for them. */
#define MANY		100u

/**
 * struct from_scheduler - timers that are started with the lock of a run queue held
 * @tracepoint: sched_switch
 * @probes: the timers
 * @started: how many of them
 * @ok: all was as it should be
 * @task: the case's
 */
struct from_scheduler {
	struct tracepoint *tracepoint;
	struct probe *probes;
	u32 started;
	bool ok;
	struct task_struct *task;
};

static void find_sched_switch(struct tracepoint *tracepoint, void *data)
{
	struct from_scheduler *from = data;

	if (!strcmp(tracepoint->name, "sched_switch"))
		from->tracepoint = tracepoint;
}

static void start_in_switch(void *data, bool preempt, struct task_struct *prev,
			    struct task_struct *next, unsigned int prev_state)
{
	struct from_scheduler *from = data;

	struct probe *p = &from->probes[from->started];

	/* All switches of one task, so no two at once. */
	if (prev != from->task || from->started == MANY)
		return;
	from->ok &= !probe_start(p, HOUR) && probe_start(p, 2 * HOUR) && probe_cancel(p) &&
		    !probe_cancel(p) && !probe_start(p, HOUR) && irqs_disabled();
	from->started++;
}

static void started_by_the_scheduler(struct timer_test *t)
{
	struct from_scheduler from = {
		.probes = kcalloc(MANY, sizeof(*from.probes), GFP_KERNEL),
		.ok = true,
		.task = current,
	};
	const u64 began = ktime_get_ns();
	u32 cancelled = 0;

	for_each_kernel_tracepoint(find_sched_switch, &from);
	CHECK(t, from.probes && from.tracepoint);
	if (t->wrong)
		goto out;
	for (u32 i = 0; i < MANY; i++) {
		from.probes[i].test = t;
		init_completion(&from.probes[i].begun);
		t->kind->init(&from.probes[i]);
	}
	CHECK(t, !tracepoint_probe_register(from.tracepoint, start_in_switch, &from));
	/* A base looks at the clock once a jiffy. A sleep that is over at once is no switch. */
	while (from.started < MANY && !gives_up(t, began))
		usleep_range(200, 300);
	schedule_timeout_uninterruptible(2);
	CHECK(t, !tracepoint_probe_unregister(from.tracepoint, start_in_switch, &from));
	tracepoint_synchronize_unregister();
	for (u32 i = 0; i < MANY; i++)
		cancelled += probe_shutdown_sync(&from.probes[i]);
	CHECK(t, from.ok && from.started == MANY && cancelled == MANY);
out:
	kfree(from.probes);
}

#endif /* CONFIG_TRACEPOINTS */

#ifdef CONFIG_SMP

/* Two CPUs. The other one is busy, so that its timers are not moved to this one. */

static void start_in_an_hour_there(void *data)
{
	probe_start(data, HOUR);
}

static void irqs_stay_off_when_another_cpu_has_it(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	DECLARE_TASKLET(tasklet, softirq_seen);
	bool ok = true, waits = true;
	unsigned long flags;

	/* At first it is moved to this CPU, then cancelled over there. */
	for (int i = 0; i < 2; i++) {
		smp_call_function_single(t->other, start_in_an_hour_there, p, true);
		local_irq_save(flags);
		tasklet_schedule(&tasklet);
		ok &= (i || probe_start(p, 2 * HOUR)) && irqs_disabled() &&
		      probe_cancel(p) && irqs_disabled() && !probe_cancel(p);
		waits &= test_bit(TASKLET_STATE_SCHED, &tasklet.state);
		local_irq_restore(flags);
	}
	tasklet_kill(&tasklet);
	CHECK(t, ok);
	CHECK(t, waits);
}

/* Start a timer on another CPU, in hardirq. */
static void start_there(void *data)
{
	probe_start(data, 2 * MS);
}

static void run_for(u64 ns)
{
	const u64 began = ktime_get_ns();

	while (ktime_get_ns() - began < ns)
		cpu_relax();
}

static void take_30_ms(struct probe *p)
{
	run_for(30 * MS);
}

static void cancel_sync_waits_for_the_function(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = take_30_ms;
	for (int i = 0; i < 3; i++) {
		p->ended = 0;
		smp_call_function_single(t->other, start_there, p, true);
		CHECK(t, probe_comes(p));
		CHECK(t, !probe_cancel_sync(p));
		/* Pairs with probe_called(). */
		CHECK(t, smp_load_acquire(&p->ended));
	}
}

/* Run until the task says so. */
static void run_until_stopped(struct probe *p)
{
	const u64 began = ktime_get_ns();

	while (!READ_ONCE(p->test->stop) && !gives_up(p->test, began))
		;
}

static void start_two_there(void *data)
{
	struct timer_test *t = data;

	/* The second one is due while the first one's function runs. */
	probe_start(&t->probes[0], 2 * MS);
	probe_start(&t->probes[1], 12 * MS);
}

/* The next function ends only when the task has gone on. */
static void cancel_sync_waits_for_no_other_function(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = take_30_ms;
	t->probes[1].fn = run_until_stopped;
	for (int i = 0; i < 3; i++) {
		WRITE_ONCE(t->stop, false);
		smp_call_function_single(t->other, start_two_there, t, true);
		CHECK(t, probe_comes(p));
		probe_cancel_sync(p);
		WRITE_ONCE(t->stop, true);
		probe_cancel_sync(&t->probes[1]);
		CHECK(t, !t->gave_up);
	}
}

static void cancel_the_first(struct probe *p)
{
	struct probe *first = &p->test->probes[0];

	/* Pairs with probe_called(). */
	if (probe_cancel_sync(first) || !smp_load_acquire(&first->ended))
		p->test->gave_up = true;
}

/* The same in softirq: the function of another one waits, on this CPU. */
static void a_function_waits_for_no_other_function(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = take_30_ms;
	t->probes[1].fn = run_until_stopped;
	t->probes[2].fn = cancel_the_first;
	for (int i = 0; i < 3; i++) {
		WRITE_ONCE(t->stop, false);
		p->ended = 0;
		smp_call_function_single(t->other, start_two_there, t, true);
		CHECK(t, probe_comes(p));
		probe_start(&t->probes[2], 0);
		CHECK(t, probe_comes(&t->probes[2]));
		probe_cancel_sync(&t->probes[2]);
		WRITE_ONCE(t->stop, true);
		probe_cancel_sync(&t->probes[1]);
		CHECK(t, !t->gave_up);
	}
}

/* Take the lock, but do not wait for ever. */
static void take_lock(struct probe *p)
{
	const u64 began = ktime_get_ns();

	while (!spin_trylock(&p->test->lock)) {
		if (gives_up(p->test, began))
			return;
	}
	spin_unlock(&p->test->lock);
}

static void cancel_sync_with_a_lock_that_the_next_function_takes(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = take_30_ms;
	t->probes[1].fn = take_lock;
	for (int i = 0; i < 3; i++) {
		smp_call_function_single(t->other, start_two_there, t, true);
		CHECK(t, probe_comes(p));
		spin_lock_bh(&t->lock);
		probe_cancel_sync(p);
		spin_unlock_bh(&t->lock);
		probe_cancel_sync(&t->probes[1]);
		CHECK(t, !t->gave_up);
	}
}

static void sleep_for_lock(struct probe *p)
{
	spin_lock(&p->test->lock);
	spin_unlock(&p->test->lock);
}

/* The same, where the function sleeps until it has the lock, and lends its priority. */
static void cancel_sync_with_a_lock_for_which_the_next_one_sleeps(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = take_30_ms;
	t->probes[1].fn = sleep_for_lock;
	for (int i = 0; i < 20; i++) {
		reinit_completion(&p->begun);
		smp_call_function_single(t->other, start_two_there, t, true);
		CHECK(t, probe_comes(p));
		spin_lock_bh(&t->lock);
		probe_cancel_sync(p);
		spin_unlock_bh(&t->lock);
		probe_cancel_sync(&t->probes[1]);
	}
}

/* The other task finds it running before it lends its priority. */
static void sleep_for_lock_in_10_ms(struct probe *p)
{
	run_for(10 * MS);
	sleep_for_lock(p);
}

static int wait_for_the_first(void *data)
{
	struct timer_test *t = data;

	sched_set_fifo(current);
	complete(&t->ready);
	wait_for_completion(&t->goes_on);
	probe_cancel_sync(&t->probes[0]);
	return 0;
}

static int wait_for_the_second(void *data)
{
	struct timer_test *t = data;
	struct probe *p = &t->probes[1];
	const u64 began = ktime_get_ns();

	sched_set_fifo_low(current);
	complete(&t->ready);
	wait_for_completion(&t->goes_on);
	/* Until the task of the case waits as well; it has bottom halves off. */
	usleep_range(10000, 11000);
	while (!atomic_read(&p->calls) && !gives_up(t, began))
		;
	probe_cancel_sync(p);
	return 0;
}

/*
 * The same beside two tasks of higher priorities: one that waits for the same function, and one,
 * on this CPU, for the next. None may wait for a function because another one does.
 */
static void cancel_sync_with_that_lock_beside_tasks_that_wait(struct timer_test *t)
{
	int (* const waits[])(void *data) = { wait_for_the_first, wait_for_the_second };
	struct task_struct *tasks[2];
	struct probe *p = &t->probes[0];

	for (u32 i = 0; i < 2; i++) {
		tasks[i] = kthread_create(waits[i], t, "htw_timers/%u", i);
		CHECK(t, !IS_ERR(tasks[i]));
		if (IS_ERR(tasks[i]))
			continue;
		get_task_struct(tasks[i]);
		kthread_bind(tasks[i], i ? raw_smp_processor_id() : t->other);
		wake_up_process(tasks[i]);
		wait_for_completion(&t->ready);
	}
	p->fn = take_30_ms;
	t->probes[1].fn = sleep_for_lock_in_10_ms;
	smp_call_function_single(t->other, start_two_there, t, true);
	CHECK(t, probe_comes(p));
	complete_all(&t->goes_on);
	/* Until the first task waits. */
	run_for(2 * MS);
	spin_lock_bh(&t->lock);
	probe_cancel_sync(p);
	spin_unlock_bh(&t->lock);
	for (u32 i = 0; i < 2; i++) {
		if (IS_ERR(tasks[i]))
			continue;
		kthread_stop(tasks[i]);
		put_task_struct(tasks[i]);
	}
}

#ifdef CONFIG_PREEMPT_RT

static void set_priority(u32 priority)
{
	const struct sched_attr attr = { .sched_policy = SCHED_FIFO, .sched_priority = priority };

	WARN_ON(sched_setattr_nocheck(current, &attr));
}

/* Keep all of less priority from the CPU until the other task has gone on. */
static int hog(void *data)
{
	struct timer_test *t = data;
	const u64 began = ktime_get_ns();

	set_priority(20);
	complete(&t->ready);
	while (!READ_ONCE(t->stop) && !gives_up(t, began))
		;
	return 0;
}

static int wait_beside_the_hog(void *data)
{
	struct timer_test *t = data;

	set_priority(30);
	/* Until the hog runs. */
	wait_for_completion(&t->ready);
	probe_cancel_sync(&t->probes[0]);
	WRITE_ONCE(t->stop, true);
	return 0;
}

static void cancel_sync_lends_its_priority(struct timer_test *t)
{
	int (* const does[])(void *data) = { hog, wait_beside_the_hog };
	struct task_struct *tasks[2];
	struct probe *p = &t->probes[0];

	for (u32 i = 0; i < 2; i++) {
		tasks[i] = kthread_create(does[i], t, "htw_timers/%u", i);
		CHECK(t, !IS_ERR(tasks[i]));
		if (IS_ERR(tasks[i]))
			continue;
		get_task_struct(tasks[i]);
		kthread_bind(tasks[i], i ? raw_smp_processor_id() : t->other);
	}
	p->fn = take_30_ms;
	if (!t->wrong)
		smp_call_function_single(t->other, start_there, p, true);
	CHECK(t, probe_comes(p));
	for (u32 i = 0; i < 2; i++) {
		if (IS_ERR(tasks[i]))
			continue;
		if (!t->wrong)
			wake_up_process(tasks[i]);
		kthread_stop(tasks[i]);
		put_task_struct(tasks[i]);
	}
}

#endif /* CONFIG_PREEMPT_RT */

/* More than once in a call: what cancels one of them has to leave the next, or say so. */
static void start_again_slowly(struct probe *p)
{
	for (int i = 0; i < 10; i++) {
		run_for(5 * NSEC_PER_USEC);
		if (!READ_ONCE(p->test->stop))
			probe_start(p, 0);
	}
	run_for(20 * NSEC_PER_USEC);
}

/* Each start is either called or cancelled, and cancel says which. */
static void every_start_is_accounted_for(struct timer_test *t)
{
	struct probe *p = &t->probes[0];

	p->fn = start_again_slowly;
	for (int i = 0; i < 200; i++) {
		reinit_completion(&p->begun);
		smp_call_function_single(t->other, start_there, p, true);
		CHECK(t, probe_comes(p));
		probe_cancel_sync(p);
		CHECK(t, !t->kind->pending(p));
		CHECK(t, !atomic_read(&p->owed));
	}
}

static void shutdown_beats_a_function_that_starts_it(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	int calls;

	p->fn = start_again_slowly;
	for (int i = 0; i < 50; i++) {
		t->kind->init(p);
		reinit_completion(&p->begun);
		smp_call_function_single(t->other, start_there, p, true);
		CHECK(t, probe_comes(p));
		t->kind->shutdown_sync(p);
		calls = atomic_read(&p->calls);
		CHECK(t, !t->kind->pending(p));
		CHECK(t, !t->kind->start(p, 0));
		CHECK(t, !t->kind->pending(p));
		CHECK(t, calls == atomic_read(&p->calls));
	}
	atomic_set(&p->owed, 0);
}

static int start_and_cancel_at_random(void *data)
{
	struct probe *p = data;
	u32 random = hash_ptr(current, 32) | 1;

	while (!kthread_should_stop()) {
		random ^= random << 13;
		random ^= random >> 17;
		random ^= random << 5;
		switch (random % 16) {
		case 0:
			probe_cancel(p);
			break;
		case 1:
			probe_cancel_sync(p);
			break;
		case 2:
			probe_start(p, HOUR);
			break;
		case 3:
			/* Sometimes both let it come. */
			schedule_timeout_uninterruptible(3);
			break;
		default:
			probe_start(p, random % (2 * MS));
		}
		cond_resched();
	}
	return 0;
}

static void all_cpus_start_and_cancel_it(struct timer_test *t)
{
	struct task_struct *tasks[2] = {};
	struct probe *p = &t->probes[0];
	int error = 0, calls;

	for (int i = 0; i < 2; i++) {
		tasks[i] = kthread_create(start_and_cancel_at_random, p, "htw_timers/%d", i);
		CHECK(t, !IS_ERR(tasks[i]));
		if (IS_ERR(tasks[i]))
			continue;
		kthread_bind(tasks[i], i ? t->other : raw_smp_processor_id());
		wake_up_process(tasks[i]);
	}
	while (!error && atomic_read(&p->calls) < 50)
		error = !probe_comes(p);
	for (int i = 0; i < 2; i++) {
		if (!IS_ERR(tasks[i]))
			kthread_stop(tasks[i]);
	}
	CHECK(t, !error);
	probe_cancel_sync(p);
	calls = atomic_read(&p->calls);
	CHECK(t, !t->kind->pending(p));
	CHECK(t, !atomic_read(&p->owed));
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, atomic_read(&p->calls) == calls);
}

static int start_in_hours_until_stopped(void *data)
{
	struct probe *p = data;

	for (u32 i = 0; !kthread_should_stop(); i++) {
		p->test->kind->start(p, (i % 2 + 1) * HOUR);
		if (i % 64 == 0)
			cond_resched();
	}
	return 0;
}

/* It is moved within a CPU's timers, and now and then to those of the other CPU. */
static void pending_while_another_cpu_moves_it(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	struct task_struct *task;
	u32 pending = 0;

	probe_start(p, HOUR);
	task = kthread_create(start_in_hours_until_stopped, p, "htw_timers");
	CHECK(t, !IS_ERR(task));
	if (IS_ERR(task))
		return;
	kthread_bind(task, t->other);
	wake_up_process(task);
	for (u32 i = 0; i < 20000; i++) {
		if (i % 64 == 0 && !probe_start(p, 3 * HOUR))
			break;
		pending += t->kind->pending(p);
	}
	kthread_stop(task);
	CHECK(t, pending == 20000);
	CHECK(t, probe_cancel(p));
}

static u32 random_below(u32 bound)
{
	return get_random_u32() % bound;
}

static int start_until_stopped(void *data)
{
	struct probe *p = data;

	while (!kthread_should_stop()) {
		/* One that is moved all the time never comes. */
		if (!p->test->kind->pending(p))
			p->test->kind->start(p, random_below(MS));
		cond_resched();
	}
	return 0;
}

/* Others may go on to start it, in vain. */
static void shutdown_beats_another_cpu_that_starts_it(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	struct task_struct *task;
	int calls;

	for (int i = 0; i < 10; i++) {
		t->kind->init(p);
		reinit_completion(&p->begun);
		task = kthread_create(start_until_stopped, p, "htw_timers");
		CHECK(t, !IS_ERR(task));
		if (IS_ERR(task))
			return;
		kthread_bind(task, t->other);
		wake_up_process(task);
		/* It may have come, or be pending, or be moved back and forth. */
		for (int k = 0; k < i; k++)
			t->kind->start(p, MS);
		t->kind->start(p, 0);
		CHECK(t, probe_comes(p));
		t->kind->shutdown_sync(p);
		calls = atomic_read(&p->calls);
		CHECK(t, time_passes(t, 5 * MS));
		kthread_stop(task);
		CHECK(t, !t->kind->pending(p));
		CHECK(t, calls == atomic_read(&p->calls));
	}
	atomic_set(&p->owed, 0);
}

#define CROWD		16u

/* Each call starts and cancels others, which may be running on the other CPU. */
static void use_another_one(struct probe *p)
{
	struct probe *crowd = p->test->crowd;

	for (int i = 0; i < 3 && !READ_ONCE(p->test->stop); i++) {
		struct probe *other = &crowd[random_below(CROWD)];

		if (random_below(4))
			probe_start(other, random_below(2 * MS));
		else
			probe_cancel(other);
	}
}

static void functions_on_all_cpus_use_each_other(struct timer_test *t)
{
	struct probe *crowd = kcalloc(CROWD, sizeof(*crowd), GFP_KERNEL);
	const u64 began = ktime_get_ns();
	int calls = 0, owed = 0;

	CHECK(t, crowd);
	if (!crowd)
		return;
	t->crowd = crowd;
	for (u32 i = 0; i < CROWD; i++) {
		crowd[i].test = t;
		crowd[i].fn = use_another_one;
		init_completion(&crowd[i].begun);
		t->kind->init(&crowd[i]);
	}
	for (u32 rounds = 0; (calls < 300 || rounds < 50) && !gives_up(t, began); rounds++) {
		/* A task as well, from both CPUs, and with waiting. */
		probe_cancel_sync(&crowd[random_below(CROWD)]);
		probe_start(&crowd[random_below(CROWD)], MS);
		smp_call_function_single(t->other, start_there,
					 &crowd[random_below(CROWD)], true);
		/* Those that are moved all the time never come. */
		schedule_timeout_uninterruptible(3);
		calls = 0;
		for (u32 i = 0; i < CROWD; i++)
			calls += atomic_read(&crowd[i].calls);
	}
	WRITE_ONCE(t->stop, true);
	/* One that runs may start one that is shut down already. */
	for (u32 i = 0; i < CROWD; i++)
		probe_cancel_sync(&crowd[i]);
	for (u32 i = 0; i < CROWD; i++) {
		probe_shutdown_sync(&crowd[i]);
		owed |= atomic_read(&crowd[i].owed);
	}
	CHECK(t, !owed);
	kfree(crowd);
}

static void start_later_there(void *data)
{
	probe_start(data, 300 * MS);
}

static void comes_though_its_cpu_has_gone(struct timer_test *t)
{
	struct probe *p = &t->probes[0];
	int removed, added;
	bool came;

	smp_call_function_single(t->other, start_later_there, p, true);
	removed = remove_cpu(t->other);
	came = probe_comes(p);
	added = add_cpu(t->other);
	CHECK(t, !removed && !added);
	CHECK(t, came);
	CHECK(t, !probe_is_early(p));
	CHECK(t, !probe_cancel_sync(p));
	CHECK(t, atomic_read(&p->calls) == 1);
}

/* Its timers move, in use, to a CPU that stays. */
static void a_cpu_comes_and_goes_while_it_is_used(struct timer_test *t)
{
	struct task_struct *task = kthread_run(start_and_cancel_at_random, &t->probes[0],
					       "htw_timers");
	bool moved = true;
	int calls;

	CHECK(t, !IS_ERR(task));
	if (IS_ERR(task))
		return;
	for (int i = 0; i < 5; i++) {
		smp_call_function_single(t->other, start_there, &t->probes[0], true);
		moved &= !remove_cpu(t->other);
		reinit_completion(&t->probes[0].begun);
		CHECK(t, probe_comes(&t->probes[0]));
		moved &= !add_cpu(t->other);
	}
	kthread_stop(task);
	CHECK(t, moved);
	probe_cancel_sync(&t->probes[0]);
	calls = atomic_read(&t->probes[0].calls);
	CHECK(t, !atomic_read(&t->probes[0].owed));
	CHECK(t, time_passes(t, 20 * MS));
	CHECK(t, atomic_read(&t->probes[0].calls) == calls);
}

#endif /* CONFIG_SMP */

/**
 * struct timer_case - a case
 * @name: of its function
 * @run: what it does
 * @two_cpus: it needs another CPU
 * @busy: that has to be busy
 * @alone: it must wait for no other's function
 */
struct timer_case {
	const char *name;
	void (*run)(struct timer_test *t);
	bool two_cpus;
	bool busy;
	bool alone;
};

#define CASE(function, ...) { .name = #function, .run = function, __VA_ARGS__ }

static const struct timer_case timer_cases[] = {
	CASE(comes_once_and_not_early),
	CASE(start_moves_it_earlier_and_later),
	CASE(cancel_says_what_it_stopped),
	CASE(shut_down_it_cannot_be_started),
	CASE(function_starts_it_again),
	CASE(function_cancels_it),
	CASE(function_cancels_the_next_one),
	CASE(one_that_starts_itself_at_once_can_be_cancelled),
	CASE(two_that_start_each_other_let_tasks_run),
	CASE(function_may_free_it),
	CASE(irqs_stay_off),
	CASE(not_called_from_within_start),
	CASE(used_in_hardirq_and_with_a_raw_lock),
#ifdef CONFIG_TRACEPOINTS
	CASE(started_by_the_scheduler),
#endif
#ifdef CONFIG_SMP
	CASE(irqs_stay_off_when_another_cpu_has_it, .two_cpus = true),
	CASE(cancel_sync_waits_for_the_function, .two_cpus = true, .busy = true),
	CASE(cancel_sync_waits_for_no_other_function, .two_cpus = true, .busy = true,
	     .alone = true),
	CASE(a_function_waits_for_no_other_function, .two_cpus = true, .busy = true,
	     .alone = true),
	CASE(cancel_sync_with_a_lock_that_the_next_function_takes, .two_cpus = true, .busy = true,
	     .alone = true),
	CASE(cancel_sync_with_a_lock_for_which_the_next_one_sleeps, .two_cpus = true, .busy = true,
	     .alone = true),
	CASE(cancel_sync_with_that_lock_beside_tasks_that_wait, .two_cpus = true, .busy = true,
	     .alone = true),
#ifdef CONFIG_PREEMPT_RT
	CASE(cancel_sync_lends_its_priority, .two_cpus = true),
#endif
	CASE(every_start_is_accounted_for, .two_cpus = true, .busy = true),
	CASE(shutdown_beats_a_function_that_starts_it, .two_cpus = true, .busy = true),
	CASE(pending_while_another_cpu_moves_it, .two_cpus = true),
	CASE(shutdown_beats_another_cpu_that_starts_it, .two_cpus = true),
	CASE(all_cpus_start_and_cancel_it, .two_cpus = true),
	CASE(functions_on_all_cpus_use_each_other, .two_cpus = true),
	CASE(comes_though_its_cpu_has_gone, .two_cpus = true),
	CASE(a_cpu_comes_and_goes_while_it_is_used, .two_cpus = true),
#endif
};

static void timer_called(struct timer_list *timer)
{
	probe_called(container_of(timer, struct probe, timer));
}

static void timer_init(struct probe *p)
{
	/* Pinned, as otherwise another CPU may be chosen. Two classes: see callout_init(). */
	if (p == p->test->probes)
		timer_setup(&p->timer, timer_called, TIMER_PINNED);
	else
		timer_setup(&p->timer, timer_called, TIMER_PINNED);
}

static bool timer_start(struct probe *p, u64 delay)
{
	/* Round up, and add one as the present jiffy has begun. */
	return mod_timer(&p->timer, jiffies + nsecs_to_jiffies(delay + TICK_NSEC - 1) + 1);
}

static bool timer_cancel(struct probe *p)
{
	return timer_delete(&p->timer);
}

static bool timer_cancel_sync(struct probe *p)
{
	return timer_delete_sync(&p->timer);
}

static bool timer_shut_down(struct probe *p)
{
	return timer_shutdown_sync(&p->timer);
}

static bool timer_is_pending(struct probe *p)
{
	return timer_pending(&p->timer);
}

static void callout_called(struct htw_callout *callout)
{
	probe_called(container_of(callout, struct probe, callout));
}

static void callout_init(struct probe *p)
{
	/* Each place is a class of lockdep: others take locks that the first one does not. */
	if (p == p->test->probes)
		htw_callout_init(&p->callout, callout_called);
	else
		htw_callout_init(&p->callout, callout_called);
}

static bool callout_start(struct probe *p, u64 delay)
{
	return htw_callout_start(&p->callout, delay, 0);
}

static bool callout_cancel(struct probe *p)
{
	return htw_callout_cancel(&p->callout);
}

static bool callout_cancel_sync(struct probe *p)
{
	return htw_callout_cancel_sync(&p->callout);
}

static bool callout_shut_down(struct probe *p)
{
	return htw_callout_shutdown_sync(&p->callout);
}

static bool callout_is_pending(struct probe *p)
{
	return htw_callout_pending(&p->callout);
}

static const struct timer_kind timer_kinds[] = {
	{
		.name = "timer_list",
		.init = timer_init,
		.start = timer_start,
		.cancel = timer_cancel,
		.cancel_sync = timer_cancel_sync,
		.shutdown_sync = timer_shut_down,
		.pending = timer_is_pending,
	}, {
		.name = "callout",
		.init = callout_init,
		.start = callout_start,
		.cancel = callout_cancel,
		.cancel_sync = callout_cancel_sync,
		.shutdown_sync = callout_shut_down,
		.pending = callout_is_pending,
		.is_callout = true,
	},
};

static int keep_busy(void *unused)
{
	while (!kthread_should_stop())
		cond_resched();
	return 0;
}

/* Why a case cannot run, or NULL. */
static const char *timer_case_skip(const struct timer_case *c, const struct timer_kind *kind)
{
	if (c->two_cpus && num_online_cpus() < 2)
		return "needs two CPUs";
	/* On PREEMPT_RT a timer_list's lock may be taken again before the waiting task has it. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && c->alone && !kind->is_callout)
		return "may wait for others' functions on PREEMPT_RT";
	return NULL;
}

/* Run a case, on one CPU. Return: NULL, or what is wrong. */
static const char *timer_case_run(const struct timer_case *c, const struct timer_kind *kind)
{
	struct timer_test *t = kzalloc(sizeof(*t), GFP_KERNEL);
	struct task_struct *busy = NULL;
	cpumask_var_t allowed;
	const char *wrong;

	if (!t || !alloc_cpumask_var(&allowed, GFP_KERNEL)) {
		kfree(t);
		return "no memory";
	}
	t->kind = kind;
	spin_lock_init(&t->lock);
	init_completion(&t->ready);
	init_completion(&t->goes_on);
	for (u32 i = 0; i < PROBES; i++) {
		t->probes[i].test = t;
		init_completion(&t->probes[i].begun);
		kind->init(&t->probes[i]);
	}

	/* The last CPU can go offline, the first one perhaps not. */
	cpumask_copy(allowed, current->cpus_ptr);
	set_cpus_allowed_ptr(current, cpumask_of(cpumask_first(cpu_online_mask)));
	t->other = cpumask_last(cpu_online_mask);
	if (c->busy) {
		busy = kthread_create(keep_busy, NULL, "htw_timers_busy");
		if (!IS_ERR(busy)) {
			kthread_bind(busy, t->other);
			wake_up_process(busy);
		}
	}
	c->run(t);
	WRITE_ONCE(t->stop, true);
	for (u32 i = 0; i < PROBES; i++) {
		probe_shutdown_sync(&t->probes[i]);
		CHECK(t, !kind->pending(&t->probes[i]));
		CHECK(t, !atomic_read(&t->probes[i].owed));
	}
	if (busy && !IS_ERR(busy))
		kthread_stop(busy);
	set_cpus_allowed_ptr(current, allowed);
	free_cpumask_var(allowed);

	CHECK(t, !t->gave_up);
	wrong = t->wrong;
	kfree(t);
	return wrong;
}

#endif /* _HTW_TIMER_CASES_H */
