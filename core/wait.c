// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waking the tasks that wait for a context, and what that may take
 *
 * Softirq wakes a reader that blocks in read(), and a poll queue with one entry:
 * one task each. It has little time for that. All else is work items', by the
 * kernel's own calls: longer queues, those whose wake-ups take long, and SIGIO.
 */

#include <linux/fs.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/stat.h>

#include <trace/events/htw.h>

#include "user.h"
#include "wait.h"

/* The period in which wake-ups in softirq are counted, on a CPU. */
#define HTW_WINDOW_NS		(250 * NSEC_PER_USEC)
/* What they may take in it, but for the first of each user. */
#define HTW_WINDOW_SPEND_NS	(50 * NSEC_PER_USEC)
/* For which multiple of what a long wake-up took its user rests. */
#define HTW_LONG_REST		40u
/* For which multiple of what it took a long wake-up is remembered. */
#define HTW_LONG_MEMORY		(2 * HTW_LONG_REST)

/*
 * What wake-ups in softirq have taken on a CPU since @began, by local_clock();
 * softirq of that CPU alone.
 */
struct htw_window {
	u64 began;
	u64 spent;
};

static DEFINE_PER_CPU(struct htw_window, htw_windows);

struct htw_wakes htw_wakes[HTW_WORKS];

/* How many are in a queue: none, one, or two for more than one. */
static unsigned int htw_wait_count(const wait_queue_head_t *queue)
{
	if (list_empty_careful(&queue->head))
		return 0;
	return list_is_singular(&queue->head) ? 1 : 2;
}

/* Do more wait than one wake-up is for? Before that. */
bool htw_wait_has_others(const struct htw_context *ctx)
{
	return htw_wait_count(&ctx->readers) + htw_wait_count(&ctx->wait) > 1;
}

/**
 * htw_wait_has_room() - may softirq wake a task of a user here and now?
 * @user: the user
 * @now: by local_clock()
 * @until: out: if not, when it may, in ns from now
 */
bool htw_wait_has_room(const struct htw_user *user, u64 now, u64 *until)
{
	struct htw_window *window = raw_cpu_ptr(&htw_windows);

	if (now - window->began >= HTW_WINDOW_NS) {
		window->began = now;
		window->spent = 0;
	}
	*until = window->began + HTW_WINDOW_NS - now;
	return window->spent < HTW_WINDOW_SPEND_NS ||
	       raw_cpu_ptr(user->alarms)->window != window->began;
}

/* May softirq wake who polls? @now is by local_clock(). */
bool htw_wait_is_direct(const struct htw_context *ctx, u64 now)
{
	u64 until;

	return list_is_singular(&ctx->wait.head) && !READ_ONCE(ctx->fasync) &&
	       !htw_wait_is_long(ctx, now) && now >= READ_ONCE(ctx->user->rest) &&
	       htw_wait_has_room(ctx->user, now, &until);
}

/*
 * local_clock(), less the time in which this task would have run and others had
 * the CPU: on PREEMPT_RT a task that is woken preempts the one that wakes it.
 * Both are read at one moment; @local: the former as it is.
 */
static u64 htw_wait_clock(u64 *local)
{
	u64 clock;

	preempt_disable();
	*local = local_clock();
	clock = *local;
#ifdef CONFIG_SCHED_INFO
	clock -= current->sched_info.run_delay;
#endif
	preempt_enable();
	return clock;
}

/* What a wake-up that began then has taken; the clocks of two CPUs may differ. */
static u64 htw_wait_since(u64 began, u64 *local)
{
	return max_t(s64, htw_wait_clock(local) - began, 0);
}

/*
 * Note what a wake-up of more than readers has taken. A hypervisor may have
 * taken the CPU meanwhile: the user rests for a multiple of the shorter one of
 * this and the longest of the recent ones before it, and for the first not at
 * all. (A race between two CPUs loses one of two measurements.)
 */
static void htw_wait_note(struct htw_context *ctx, u64 took, u64 now)
{
	struct htw_user *user = ctx->user;
	u64 longest = READ_ONCE(user->longest);

	WRITE_ONCE(ctx->cost, clamp_t(u64, took, 1, U32_MAX));
	/*
	 * The rest is for those who did not get the CPU meanwhile. If there are
	 * none, it may have been the host's time.
	 */
	if (took <= HTW_LONG_NS || single_task_running())
		return;
	if (now >= READ_ONCE(user->forget))
		longest = 0;
	WRITE_ONCE(user->rest,
		   max(READ_ONCE(user->rest), now + min(took, longest) * HTW_LONG_REST));
	WRITE_ONCE(user->longest, max(took, longest));
	WRITE_ONCE(user->forget,
		   max(READ_ONCE(user->forget), now + took * HTW_LONG_MEMORY));
}

/* Wake who polls: all, as the kernel does it. */
static void htw_wait_wake_pollers(struct htw_context *ctx, u32 wakes)
{
	/*
	 * Without a key all call the descriptor's poll() again, and report
	 * nothing if that returns no event.
	 */
	if (wakes & HTW_WAKE_IN)
		wake_up_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
	else
		wake_up(&ctx->wait);
}

/**
 * htw_wait_wake_direct() - wake what softirq may wake
 * @ctx: the context, pinned
 * @wakes: of &enum htw_wake
 *
 * Context: softirq; no lock is held.
 * Return: the time after it, by local_clock().
 */
u64 htw_wait_wake_direct(struct htw_context *ctx, u32 wakes)
{
	struct htw_window *window = raw_cpu_ptr(&htw_windows);
	u64 now, began = htw_wait_clock(&now), took;

	if (wakes & HTW_WAKE_READER)
		wake_up(&ctx->readers);
	if (wakes & HTW_WAKE_POLLERS)
		htw_wait_wake_pollers(ctx, wakes);

	took = htw_wait_since(began, &now);
	raw_cpu_ptr(ctx->user->alarms)->window = window->began;
	window->spent += took;
	if (wakes & HTW_WAKE_POLLERS)
		htw_wait_note(ctx, took, now);
	trace_htw_wake(ctx, false, took);
	return now;
}

/**
 * htw_wait_wake_left() - wake what was left to a work item
 * @ctx: the context, pinned
 * @wakes: of &enum htw_wake
 * @look: is a timer due? Moves some buckets down
 *
 * A program that waits for SIGIO makes no call before that comes: for it the
 * work item looks. What is moved down for that is so once, and was paid for by
 * who started it.
 *
 * Return: what all of it took, in ns: others wait for that.
 */
u64 htw_wait_wake_left(struct htw_context *ctx, u32 wakes, bool (*look)(struct htw_context *ctx))
{
	u64 now, turn = htw_wait_clock(&now), began, took;

	if (wakes & HTW_WAKE_READERS)
		wake_up_all(&ctx->readers);
	if (wq_has_sleeper(&ctx->wait))
		htw_wait_wake_pollers(ctx, wakes);
	took = htw_wait_since(turn, &now);

	/* There is one signal for what is due. */
	if (!(wakes & HTW_WAKE_READERS) && READ_ONCE(ctx->fasync) && look(ctx)) {
		began = htw_wait_clock(&now);
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
		took += htw_wait_since(began, &now);
	}
	htw_wait_note(ctx, took, now);
	trace_htw_wake(ctx, true, took);
	return htw_wait_since(turn, &now);
}

/**
 * htw_wait_wake_all() - wake all who wait, on the manual clock
 * @ctx: the context; no lock is held
 *
 * No alarm makes good for a reader that does not run.
 *
 * Context: process; the caller pays for it.
 */
void htw_wait_wake_all(struct htw_context *ctx)
{
	if (wq_has_sleeper(&ctx->readers))
		wake_up_all(&ctx->readers);
	if (wq_has_sleeper(&ctx->wait))
		htw_wait_wake_pollers(ctx, HTW_WAKE_IN);
	if (READ_ONCE(ctx->fasync))
		kill_fasync(&ctx->fasync, SIGIO, POLL_IN);
}
