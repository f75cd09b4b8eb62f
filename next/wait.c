// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking who waits for a context
 *
 * The alarm wakes a reader that blocks in read(), and a poll queue with one
 * entry, at once: one task. All else is work items', by the kernel's own calls:
 * longer queues, SIGIO, and what is more than a few wake-ups. There are two,
 * which only wake and never sleep: of contexts whose last wake-up was short,
 * and of others, so that nobody waits behind a long one. Each takes users in
 * turn.
 */

#include <linux/fs.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/sched/clock.h>
#include <linux/workqueue.h>

#include "delay.h"
#include "user.h"
#include "wait.h"

/* The period in which wake-ups of softirq are counted. */
#define HTW_WINDOW_NS		(250 * NSEC_PER_USEC)
/* What they may take in it, but for the first of each user. */
#define HTW_WINDOW_SPEND_NS	(50 * NSEC_PER_USEC)
/* How many each user has in it whatever others take. */
#define HTW_WINDOW_WAKES	2u
/*
 * A wake-up of a poll queue that took longer is not repeated for a multiple of
 * it.
 */
#define HTW_LONG_NS		(10 * NSEC_PER_USEC)
#define HTW_LONG_REST		32u
/* A context whose wake-up took longer goes to the other work item. */
#define HTW_COSTLY_NS		(50 * NSEC_PER_USEC)

/* What direct wake-ups have taken on a CPU; softirq of that CPU alone. */
struct htw_window {
	u64 began;
	u64 spent;
};

static DEFINE_PER_CPU(struct htw_window, htw_windows);

/**
 * struct htw_lane - contexts that a work item wakes
 * @users: with contexts to be woken, in turn (htw_lanes_lock)
 * @wq: ordered, for @work alone
 * @work: wakes them
 */
struct htw_lane {
	struct list_head users;
	struct workqueue_struct *wq;
	struct delayed_work work;
};

/* Guards the lanes and &htw_user.waiting. Taken with interrupts off, innermost. */
static DEFINE_RAW_SPINLOCK(htw_lanes_lock);
static struct htw_lane htw_lanes[HTW_LANES];

/**
 * htw_wait_room() - how many readers may be woken directly now
 * @a: the user's alarm on this CPU
 * @now: the time
 * @until: out: when there are more
 */
u32 htw_wait_room(struct htw_alarm *a, u64 now, u64 *until)
{
	struct htw_window *window = raw_cpu_ptr(&htw_windows);

	if (now - window->began >= HTW_WINDOW_NS) {
		window->began = now;
		window->spent = 0;
	}
	if (a->window != window->began) {
		a->window = window->began;
		a->woken = 0;
	}
	*until = window->began + HTW_WINDOW_NS;
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
	const u32 costly = READ_ONCE(ctx->costly);

	return costly ? costly > HTW_COSTLY_NS : local_clock() < READ_ONCE(ctx->user->rest);
}

/* Have the work item wake a context. */
static void htw_wait_defer(struct htw_context *ctx, enum htw_why ring)
{
	const unsigned int nr = htw_wait_lane(ctx);
	struct htw_user *user = ctx->user;
	struct htw_lane *lane = &htw_lanes[nr];
	unsigned long flags;

	raw_spin_lock_irqsave(&htw_lanes_lock, flags);
	ctx->todo |= ring;
	if (list_empty(&ctx->wake) && !ctx->closed) {
		atomic_inc(&ctx->pins);
		list_add_tail(&ctx->wake, &user->waiting[nr]);
		if (list_empty(&user->lane[nr]))
			list_add_tail(&user->lane[nr], &lane->users);
	}
	raw_spin_unlock_irqrestore(&htw_lanes_lock, flags);
	queue_delayed_work(lane->wq, &lane->work, 0);
}

/*
 * Note what a wake-up has taken. It may have been preempted, by a hypervisor as
 * well: it is as long as the shorter one of the last two, and the first one is
 * not thought to be longer than what the first work item does.
 */
static void htw_wait_note_cost(struct htw_context *ctx, u64 took)
{
	const u32 now = clamp_t(u64, took, 1, U32_MAX), last = READ_ONCE(ctx->took);

	WRITE_ONCE(ctx->took, now);
	WRITE_ONCE(ctx->costly, min(now, last ?: (u32)HTW_COSTLY_NS));
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

/**
 * htw_wait_ring() - an alarm has rung for a context
 * @a: the alarm
 * @ctx: the context, pinned
 * @ring: what for
 *
 * Context: softirq; no lock is held.
 */
void htw_wait_ring(struct htw_alarm *a, struct htw_context *ctx, enum htw_why ring)
{
	struct htw_window *window = raw_cpu_ptr(&htw_windows);
	bool defer = ring == HTW_WHY_AGAIN;
	u64 began, took;

	if (!defer && wq_has_sleeper(&ctx->readers)) {
		began = local_clock();
		wake_up(&ctx->readers);
		window->spent += local_clock() - began;
		a->woken++;
	}
	if (!defer && ring == HTW_WHY_DUE && READ_ONCE(ctx->fasync))
		defer = true;
	if (!defer && wq_has_sleeper(&ctx->wait)) {
		began = local_clock();
		if (!list_is_singular(&ctx->wait.head) || began < a->rest ||
		    READ_ONCE(ctx->costly) > HTW_LONG_NS ||
		    (a->woken >= HTW_WINDOW_WAKES && window->spent >= HTW_WINDOW_SPEND_NS)) {
			defer = true;
		} else {
			htw_wait_wake_pollers(ctx, ring);
			took = local_clock() - began;
			window->spent += took;
			a->woken++;
			if (took > HTW_LONG_NS) {
				htw_wait_note_cost(ctx, took);
				a->rest = began + took * HTW_LONG_REST;
			}
		}
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
	if (wq_has_sleeper(&ctx->readers))
		wake_up(&ctx->readers);
	if (wq_has_sleeper(&ctx->wait))
		htw_wait_wake_pollers(ctx, HTW_WHY_DUE);
	if (READ_ONCE(ctx->fasync))
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
}

/*
 * The first user of a lane whose turn it is. In the second lane users rest
 * after a long wake-up: if all do, @until: out: when the first has.
 */
static struct htw_user *htw_lane_first(struct htw_lane *lane, u64 *until)
{
	const unsigned int nr = lane - htw_lanes;
	const u64 now = local_clock();
	struct htw_user *user;

	lockdep_assert_held(&htw_lanes_lock);

	*until = HTW_NEVER;
	list_for_each_entry(user, &lane->users, lane[nr]) {
		if (!nr || user->rest <= now)
			return user;
		*until = min(*until, user->rest);
	}
	return NULL;
}

/*
 * Take the next context of a lane, with what is to be done; NULL if there is
 * none before @until.
 */
static struct htw_context *htw_lane_take(struct htw_lane *lane, u32 *todo, u64 *until)
{
	const unsigned int nr = lane - htw_lanes;
	struct htw_context *ctx = NULL;
	struct htw_user *user;

	raw_spin_lock_irq(&htw_lanes_lock);
	user = htw_lane_first(lane, until);
	if (user) {
		ctx = list_first_entry(&user->waiting[nr], struct htw_context, wake);
		list_del_init(&ctx->wake);
		if (list_empty(&user->waiting[nr]))
			list_del_init(&user->lane[nr]);
		else
			list_move_tail(&user->lane[nr], &lane->users);
		*todo = ctx->todo;
		ctx->todo = 0;
	}
	raw_spin_unlock_irq(&htw_lanes_lock);
	return ctx;
}

/* Wake all that a work item is for. */
static void htw_lane_wake(struct htw_context *ctx, u32 todo)
{
	if (todo & HTW_WHY_AGAIN)
		wake_up_all(&ctx->readers);
	if (wq_has_sleeper(&ctx->wait))
		htw_wait_wake_pollers(ctx, todo);
	if (todo & HTW_WHY_DUE && READ_ONCE(ctx->fasync))
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
}

/* Wake contexts until none is left; the lane's pin of each ends. */
static void htw_lane_work(struct work_struct *work)
{
	struct htw_lane *lane = container_of(to_delayed_work(work), struct htw_lane, work);
	struct htw_context *ctx;
	u64 until, began, took;
	u32 todo;

	while ((ctx = htw_lane_take(lane, &todo, &until))) {
		htw_delay();
		began = local_clock();
		htw_lane_wake(ctx, todo);
		took = local_clock() - began;
		htw_wait_note_cost(ctx, took);
		if (READ_ONCE(ctx->costly) > HTW_COSTLY_NS)
			WRITE_ONCE(ctx->user->rest, began + (u64)ctx->costly * HTW_LONG_REST);
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
		for (unsigned int nr = 0; nr < HTW_LANES; nr++)
			if (list_empty(&user->waiting[nr]))
				list_del_init(&user->lane[nr]);
	}
	raw_spin_unlock_irq(&htw_lanes_lock);
	if (queued)
		htw_context_unpin(ctx);
}

int htw_wait_init(void)
{
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
