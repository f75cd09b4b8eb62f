// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking who waits for a context
 *
 * The alarm wakes a reader that blocks in read(), and a poll queue with one
 * entry, at once: one task. All else is work items', by the kernel's own calls:
 * longer queues, SIGIO, and what is more than a few wake-ups. There are two,
 * which only wake: of contexts whose last wake-up was short, and of others, so
 * that nobody waits behind a long one. Each takes users in turn. A program that
 * waits for SIGIO makes no call before that comes: for it they also look
 * whether a timer is due.
 */

#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kcov.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/stat.h>

#include <trace/events/htw.h>

#include "wait.h"

/* The period in which wake-ups of softirq are counted. */
#define HTW_WINDOW_NS		(250 * NSEC_PER_USEC)
/* What they may take in it, but for the first of each user. */
#define HTW_WINDOW_SPEND_NS	(50 * NSEC_PER_USEC)
/* How many each user has in it whatever others take. */
#define HTW_WINDOW_WAKES	2u
/* A context whose wake-up took longer goes to the other work item. */
#define HTW_COSTLY_NS		(50 * NSEC_PER_USEC)
/* For which multiple of what it took a long wake-up is remembered. */
#define HTW_LONG_MEMORY		(2 * HTW_LONG_REST)

/*
 * What direct wake-ups have taken on a CPU since @began, of CLOCK_MONOTONIC;
 * softirq of that CPU alone.
 */
struct htw_window {
	u64 began;
	u64 spent;
};

static DEFINE_PER_CPU(struct htw_window, htw_windows);

/* Is a timer of a context due? Moves some buckets down. */
static bool (*htw_wait_look)(struct htw_context *ctx) __ro_after_init;

/*
 * Guards the lanes and &htw_user.waiting. Taken with interrupts off, innermost.
 */
static DEFINE_RAW_SPINLOCK(htw_lanes_lock);
struct htw_lane htw_lanes[HTW_LANES];

/*
 * For how many times as long as a wake-up of a context takes is it not woken
 * again?
 */
u32 htw_wait_rests(const struct htw_context *ctx)
{
	return READ_ONCE(ctx->costly) > HTW_LONG_NS ? HTW_LONG_REST : 1;
}

/* Does anybody wait? After what he waits for has been published. */
bool htw_wait_is_waiting(struct htw_context *ctx)
{
	return wq_has_sleeper(&ctx->readers) || wq_has_sleeper(&ctx->wait) ||
	       READ_ONCE(ctx->fasync);
}

/* How many are in a queue: none, one, or two for more than one. */
static unsigned int htw_wait_count(const wait_queue_head_t *queue)
{
	if (list_empty_careful(&queue->head))
		return 0;
	return list_is_singular(&queue->head) ? 1 : 2;
}

/* Does a reader block? One that has been woken is in the queue no more. */
bool htw_wait_is_blocked(struct htw_context *ctx)
{
	return htw_wait_count(&ctx->readers);
}

/* Does anybody wait beside the one that has been woken? */
bool htw_wait_is_left(struct htw_context *ctx)
{
	return htw_wait_count(&ctx->readers) || htw_wait_count(&ctx->wait) > 1;
}

/* Do more wait than one wake-up is for? Before that. */
bool htw_wait_has_others(struct htw_context *ctx)
{
	return htw_wait_count(&ctx->readers) + htw_wait_count(&ctx->wait) > 1;
}

/**
 * htw_wait_room() - how many readers may be woken directly now
 * @a: the user's alarm on this CPU
 * @now: the time on its clock
 * @until: out: when there are more, on its clock
 */
u32 htw_wait_room(struct htw_alarm *a, u64 now, u64 *until)
{
	struct htw_window *window = raw_cpu_ptr(&htw_windows);
	u64 mono = a->clock == HTW_MONOTONIC ? now : ktime_get_ns();

	if (mono - window->began >= HTW_WINDOW_NS) {
		window->began = mono;
		window->spent = 0;
	}
	if (a->window != window->began) {
		a->window = window->began;
		a->woken = 0;
	}
	*until = now + window->began + HTW_WINDOW_NS - mono;
	if (window->spent < HTW_WINDOW_SPEND_NS)
		return HTW_WINDOW_WAKES + 1;
	return HTW_WINDOW_WAKES - min(a->woken, HTW_WINDOW_WAKES);
}

/*
 * The lane of a context: the second one if its last wake-up was long, or if it
 * has had none and its user's wake-ups are.
 */
static unsigned int htw_wait_lane(const struct htw_context *ctx)
{
	u32 costly = READ_ONCE(ctx->costly);

	return costly ? costly > HTW_COSTLY_NS : local_clock() < READ_ONCE(ctx->user->rest[1]);
}

/* Have the work item wake a context. */
static void htw_wait_defer(struct htw_context *ctx, enum htw_why ring)
{
	unsigned int nr = htw_wait_lane(ctx);
	struct htw_user *user = ctx->user;
	struct htw_lane *lane = &htw_lanes[nr];
	bool begin = false;
	unsigned long flags;

	raw_spin_lock_irqsave(&htw_lanes_lock, flags);
	ctx->todo |= ring;
	if (list_empty(&ctx->wake) && !ctx->closed) {
		atomic_inc(&ctx->pins);
		list_add_tail(&ctx->wake, &user->waiting[nr]);
		ctx->lane = nr;

		/* Otherwise the work item runs, or will. */
		begin = !lane->waiting++ || lane->rests;
		if (list_empty(&user->lane[nr]))
			list_add_tail(&user->lane[nr], &lane->users);
	}
	raw_spin_unlock_irqrestore(&htw_lanes_lock, flags);

	/* It may stand there for when the first user has rested. */
	if (begin)
		mod_delayed_work(lane->wq, &lane->work, 0);
}

/*
 * Note what a wake-up has taken. A hypervisor may have preempted it, or an
 * interrupt: it is as long as the shorter one of the last two, and the first
 * one is not thought to be longer than what the first work item does.
 */
static void htw_wait_note_cost(struct htw_context *ctx, u64 took)
{
	u32 now = clamp_t(u64, took, 1, U32_MAX), last = READ_ONCE(ctx->took);

	WRITE_ONCE(ctx->took, now);
	WRITE_ONCE(ctx->costly, min(now, last ?: (u32)HTW_COSTLY_NS));
}

/*
 * Note that a wake-up has taken long: the user rests, for a multiple of what it
 * took. One of them may be long because it was preempted. So it counts as the
 * longest of the recent ones before it, and the first not at all. What takes
 * long in the first lane or in softirq, where it was not expected, keeps the
 * second one waiting as well.
 */
static void htw_wait_note_long(struct htw_user *user, unsigned int nr, u64 began, u64 took)
{
	unsigned long flags;
	u64 rest;

	/*
	 * The rest is for those who did not get the CPU meanwhile. If there are
	 * none, it may have been the host's time, as another CPU is interrupted.
	 */
	if (single_task_running())
		return;
	raw_spin_lock_irqsave(&htw_lanes_lock, flags);
	if (began >= user->forget)
		user->longest = 0;
	rest = min(took, user->longest) * HTW_LONG_REST;
	user->longest = max(took, user->longest);
	user->forget = max(user->forget, began + took * HTW_LONG_MEMORY);
	for (; nr < HTW_LANES; nr++)
		user->rest[nr] = max(user->rest[nr], began) + rest;
	raw_spin_unlock_irqrestore(&htw_lanes_lock, flags);
}

/* Wake who polls: all, as the kernel does it. */
static void htw_wait_wake_pollers(struct htw_context *ctx, u32 rings)
{
	/*
	 * Without a key all look again, and are not told that the descriptor is
	 * readable.
	 */
	if (rings & (HTW_WHY_DUE | HTW_WHY_AGAIN))
		wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
	else
		wake_up(&ctx->wait);
}

/*
 * Begin a wake-up whose time is measured: the task that is woken does not run
 * on this CPU before it is over. On PREEMPT_RT it may. Return: for
 * htw_wait_end().
 */
static unsigned long htw_wait_begin(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
	return current->nivcsw;
}

/*
 * What a wake-up took: since *@clock, which is brought up to the present, so
 * that one ends where the next begins. If others ran in between, that says
 * nothing.
 */
static u64 htw_wait_end(u64 *clock, unsigned long preempted)
{
	u64 began = *clock;
	u64 took;

	*clock = local_clock();
	took = *clock - began;
	if (current->nivcsw != preempted)
		took = min_t(u64, took, HTW_LONG_NS);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
	return took;
}

/* Count a wake-up in softirq, which took so long. */
static void htw_wait_count_direct(struct htw_alarm *a, struct htw_context *ctx, u64 took)
{
	raw_cpu_ptr(&htw_windows)->spent += took;
	a->woken++;
	trace_htw_wake(ctx, false, took);
}

/* May a poll queue be woken in softirq, at the time @now of local_clock()? */
static bool htw_wait_is_direct(const struct htw_alarm *a, struct htw_context *ctx, u64 now)
{
	return list_is_singular(&ctx->wait.head) && now >= a->rest &&
	       now >= READ_ONCE(ctx->user->rest[0]) && READ_ONCE(ctx->costly) <= HTW_LONG_NS &&
	       (a->woken < HTW_WINDOW_WAKES ||
		raw_cpu_ptr(&htw_windows)->spent < HTW_WINDOW_SPEND_NS);
}

/* Wake a poll queue in softirq. */
static void htw_wait_wake_direct(struct htw_alarm *a, struct htw_context *ctx, enum htw_why ring,
				 u64 *clock)
{
	unsigned long preempted = htw_wait_begin();
	u64 took;

	htw_wait_wake_pollers(ctx, ring);
	took = htw_wait_end(clock, preempted);
	htw_wait_count_direct(a, ctx, took);
	if (took <= HTW_LONG_NS)
		return;
	htw_wait_note_cost(ctx, took);
	a->rest = *clock + took * (HTW_LONG_REST - 1);
	if (took > HTW_COSTLY_NS)
		htw_wait_note_long(ctx->user, 0, *clock - took, took);
}

/**
 * htw_wait_ring() - an alarm has rung for a context
 * @a: the alarm
 * @ctx: the context, pinned
 * @ring: what for
 * @clock: local_clock() as last read, before what this takes
 *
 * Context: softirq; no lock is held.
 */
void htw_wait_ring(struct htw_alarm *a, struct htw_context *ctx, enum htw_why ring, u64 *clock)
{
	bool defer = ring == HTW_WHY_AGAIN;

	if (!defer && wq_has_sleeper(&ctx->readers)) {
		unsigned long preempted = htw_wait_begin();

		wake_up(&ctx->readers);
		htw_wait_count_direct(a, ctx, htw_wait_end(clock, preempted));
	}
	if (ring == HTW_WHY_READER)
		return;
	/*
	 * If nobody else looks before there is a signal, the work item does.
	 * Nor need others do it in time: they may be stopped, or have looked
	 * and not read.
	 */
	if (!defer && READ_ONCE(ctx->fasync) &&
	    (ring != HTW_WHY_LOOK || !wq_has_sleeper(&ctx->wait)))
		defer = true;
	if (!defer && wq_has_sleeper(&ctx->wait)) {
		defer = !htw_wait_is_direct(a, ctx, *clock);
		if (!defer)
			htw_wait_wake_direct(a, ctx, ring, clock);
	}
	if (defer)
		htw_wait_defer(ctx, ring);
}

/**
 * htw_wait_wake() - wake who waits for a context: a task has found, or made, a
 * timer due
 * @ctx: the context; no lock is held
 *
 * Context: process; the caller pays for it.
 */
void htw_wait_wake(struct htw_context *ctx)
{
	u64 began = trace_htw_wake_enabled() ? local_clock() : 0;

	/*
	 * No alarm makes good for a reader that does not run, on the manual
	 * clock.
	 */
	if (wq_has_sleeper(&ctx->readers))
		wake_up_nr(&ctx->readers, ctx->clock != HTW_MANUAL);
	if (wq_has_sleeper(&ctx->wait))
		htw_wait_wake_pollers(ctx, HTW_WHY_DUE);
	if (READ_ONCE(ctx->fasync))
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
	if (began)
		trace_htw_wake(ctx, false, local_clock() - began);
}

/*
 * The first user of a lane whose turn it is. Users rest after a long wake-up:
 * if all do, @until: out: when the first has.
 */
static struct htw_user *htw_lane_first(struct htw_lane *lane, u64 *until)
{
	unsigned int nr = lane - htw_lanes;
	u64 now = local_clock();
	struct htw_user *user;

	lockdep_assert_held(&htw_lanes_lock);

	*until = HTW_NEVER;
	list_for_each_entry(user, &lane->users, lane[nr]) {
		if (user->rest[nr] <= now)
			return user;
		*until = min(*until, user->rest[nr]);
	}
	return NULL;
}

/*
 * Take the next context of a lane, with what is to be done; NULL if there is
 * none before @until.
 */
static struct htw_context *htw_lane_take(struct htw_lane *lane, u32 *todo, u64 *until)
{
	unsigned int nr = lane - htw_lanes;
	struct htw_context *ctx = NULL;
	struct htw_user *user;

	raw_spin_lock_irq(&htw_lanes_lock);

	user = htw_lane_first(lane, until);
	lane->rests = !user && lane->waiting;
	if (user) {
		ctx = list_first_entry(&user->waiting[nr], struct htw_context, wake);
		list_del_init(&ctx->wake);
		lane->waiting--;
		if (list_empty(&user->waiting[nr]))
			list_del_init(&user->lane[nr]);
		else if (!list_is_singular(&lane->users))
			list_move_tail(&user->lane[nr], &lane->users);

		*todo = ctx->todo;
		ctx->todo = 0;
	}
	raw_spin_unlock_irq(&htw_lanes_lock);
	return ctx;
}

/* Wake all that a work item is for. Return: what that took, in ns. */
static u64 htw_lane_wake(struct htw_context *ctx, u32 todo)
{
	unsigned long preempted = htw_wait_begin();
	u64 clock = local_clock(), took;

	if (todo & HTW_WHY_AGAIN)
		wake_up_all(&ctx->readers);
	if (wq_has_sleeper(&ctx->wait))
		htw_wait_wake_pollers(ctx, todo);
	took = htw_wait_end(&clock, preempted);
	/*
	 * What is moved down for a signal is so once, and was paid for by who
	 * started it.
	 */
	if (todo & ~HTW_WHY_AGAIN && READ_ONCE(ctx->fasync) && htw_wait_look(ctx)) {
		preempted = htw_wait_begin();
		clock = local_clock();
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
		took += htw_wait_end(&clock, preempted);
	}
	return took;
}

/* Wake contexts until none is left; the lane's pin of each ends. */
static void htw_lane_work(struct work_struct *work)
{
	struct htw_lane *lane = container_of(to_delayed_work(work), struct htw_lane, work);
	struct htw_context *ctx;
	u64 until, took;
	u32 todo;

	while ((ctx = htw_lane_take(lane, &todo, &until))) {
		htw_delay();
		kcov_remote_start_common(ctx->user->kcov_handle);
		took = htw_lane_wake(ctx, todo);
		htw_wait_note_cost(ctx, took);

		/* Each lane is one work item's. */
		WRITE_ONCE(lane->wakes, lane->wakes + 1);
		WRITE_ONCE(lane->spent, lane->spent + took);
		trace_htw_wake(ctx, true, took);
		if (took > HTW_COSTLY_NS)
			htw_wait_note_long(ctx->user, lane - htw_lanes, local_clock() - took,
					   took);

		kcov_remote_stop();
		htw_context_unpin(ctx);
		cond_resched();
	}

	if (until != HTW_NEVER)
		queue_delayed_work(lane->wq, &lane->work,
				   nsecs_to_jiffies(until - min(until, local_clock())) + 1);
}

/* Take a context out of its lane: its file is closed. */
void htw_wait_take_out(struct htw_context *ctx)
{
	struct htw_user *user = ctx->user;
	bool queued;

	raw_spin_lock_irq(&htw_lanes_lock);
	/* A callback that has the context pinned may come now. */
	ctx->closed = true;
	queued = !list_empty(&ctx->wake);
	if (queued) {
		list_del_init(&ctx->wake);
		htw_lanes[ctx->lane].waiting--;
		if (list_empty(&user->waiting[ctx->lane]))
			list_del_init(&user->lane[ctx->lane]);
	}
	raw_spin_unlock_irq(&htw_lanes_lock);
	if (queued)
		htw_context_unpin(ctx);
}

/**
 * htw_wait_init() - make the work items
 * @look: moves some buckets down, and says whether a timer is due, for programs
 *	that wait for SIGIO
 *
 * Return: 0 or -ENOMEM.
 */
int __init htw_wait_init(bool (*look)(struct htw_context *ctx))
{
	htw_wait_look = look;
	for (unsigned int nr = 0; nr < HTW_LANES; nr++) {
		struct htw_lane *lane = &htw_lanes[nr];

		INIT_LIST_HEAD(&lane->users);
		INIT_DELAYED_WORK(&lane->work, htw_lane_work);
		lane->wq = alloc_ordered_workqueue("htw_wake%u", 0, nr);
		if (!lane->wq) {
			htw_wait_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

/* No context is left. */
void htw_wait_exit(void)
{
	for (unsigned int nr = 0; nr < HTW_LANES; nr++) {
		struct htw_lane *lane = &htw_lanes[nr];

		if (!lane->wq)
			continue;
		cancel_delayed_work_sync(&lane->work);
		destroy_workqueue(lane->wq);
		lane->wq = NULL;
	}
}
