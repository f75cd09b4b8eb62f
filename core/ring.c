// SPDX-License-Identifier: GPL-2.0-only
/*
 * An alarm rings, and a task leaves a base: the table of docs/waking.md
 *
 * Only the callback and the work items announce what is due, and wake tasks that
 * sleep; tasks take that back. (On the manual clock, which has no alarm, the
 * task does that makes a timer due.)
 */

#include <linux/init.h>
#include <linux/kcov.h>
#include <linux/sched/clock.h>

#include <trace/events/htw.h>

#include "ring.h"
#include "user.h"
#include "wait.h"

/* Bases of which a ring, or a turn of a work item, wakes tasks. */
#define HTW_RING_BATCH		16u
/*
 * Bases that a ring is for. To leave one to a work item, or to time it again,
 * takes a quarter of the time of a wake-up; another ring would take as long as
 * many of these.
 */
#define HTW_RING_BASES		(4 * HTW_RING_BATCH)
/* What a turn may take, in ns. */
#define HTW_RING_TURN_NS	(50 * NSEC_PER_USEC)
/*
 * If nothing is taken of what was announced, another task that blocks in read()
 * is woken after that, the next one after twice that, and so on.
 */
#define HTW_RING_AGAIN		(NSEC_PER_SEC / 256)
/* The first so many of these delays, 0.25 s in all, are each for one task; the next is for all. */
#define HTW_RING_AGAIN_ALL	6u
/* The delay is doubled so often at most: to 64 s. */
#define HTW_RING_AGAIN_MAX	14u

/* Is a timer of a context due? Moves some buckets down. */
static bool (*htw_ring_look)(struct htw_context *ctx) __ro_after_init;

/*
 * Have a base's alarm ring once more: other tasks wait than those that are
 * woken now, which may be stopped, or get no CPU.
 */
static void htw_ring_time_again(struct htw_alarm *a, struct htw_base *base, u64 now)
{
	u8 again = READ_ONCE(base->again);

	lockdep_assert_held(&a->lock);

	/* If no reader blocks, all are woken, after 0.5 s. */
	if (!htw_wait_is_blocked(base->ctx))
		again = max(again, HTW_RING_AGAIN_ALL + 1);
	htw_alarm_time(a, base, now + ((u64)HTW_RING_AGAIN << again));
	WRITE_ONCE(base->again, min(again + 1u, HTW_RING_AGAIN_MAX));
}

/* Leave a base to a work item, which is queued by the caller. */
static void htw_ring_leave(struct htw_alarm *a, struct htw_base *base, u8 owed, u64 local,
			   unsigned long *works)
{
	unsigned int work = htw_wait_is_long(base->ctx, local);

	htw_alarm_leave(a, base, work, owed);
	*works |= BIT(work);
}

/*
 * Hold a base until softirq may wake a reader. The time of a clock that may be
 * set back is one that tasks correct: that of a base in the queue.
 */
static void htw_ring_hold(struct htw_alarm *a, struct htw_base *base, u64 until)
{
	if (a->clock == HTW_REALTIME)
		htw_alarm_time(a, base, until);
	else
		htw_alarm_hold(a, base, until);
}

/*
 * Is the alarm to ring for what is due in a base? If a task waits; and on
 * CLOCK_REALTIME always. Where that is set back before a task begins to wait,
 * the task finds nothing due: it needs an alarm that is set.
 */
static bool htw_ring_announces(const struct htw_base *base)
{
	return base->clock == HTW_REALTIME || htw_wait_who(base->ctx);
}

/*
 * A base's time has come, and not all was taken of what had been announced: wake
 * one more reader, or leave all who wait to a work item. Return: as
 * htw_ring_decide().
 */
static u32 htw_ring_decide_again(struct htw_alarm *a, struct htw_base *base, u64 now, u64 local,
				 unsigned long *works)
{
	const u32 all = HTW_WAKE_READERS | HTW_WAKE_POLLERS | HTW_WAKE_IN;
	struct htw_context *ctx = base->ctx;
	u64 until;

	/*
	 * With delays nothing shall make good for a lost wake-up; the rest of a
	 * read is told of.
	 */
	if ((HTW_DELAYS_ON && READ_ONCE(base->again)) || !htw_wait_who(ctx))
		return 0;

	if (READ_ONCE(base->again) > HTW_RING_AGAIN_ALL || !htw_wait_is_blocked(ctx)) {
		htw_ring_leave(a, base, all, local, works);
		return 0;
	}
	if (!htw_wait_has_room(ctx->user, local, &until)) {
		htw_ring_hold(a, base, now + until);
		return 0;
	}
	if (htw_wait_has_others(ctx))
		htw_ring_time_again(a, base, now);
	return HTW_WAKE_READER;
}

/*
 * A base's time has come: give it its place, and say who is to be woken. @local
 * is the time by local_clock().
 *
 * Return: what softirq is to wake, of &enum htw_wake; @works: the work items
 * that are to be queued.
 */
static u32 htw_ring_decide(struct htw_alarm *a, struct htw_base *base, u64 now, u64 local,
			   unsigned long *works)
{
	struct htw_context *ctx = base->ctx;
	u64 next, first, until;
	u32 wakes;

	lockdep_assert_held(&a->lock);

	htw_alarm_take(a, base);
	/* Pairs with htw_ring_settle(). */
	smp_mb();
	htw_delay_atomic();

	if (READ_ONCE(base->told))
		return htw_ring_decide_again(a, base, now, local, works);

	first = READ_ONCE(base->first);
	next = READ_ONCE(base->next);
	if (next > now) {
		htw_alarm_time(a, base, next);
		return 0;
	}
	if (htw_wait_is_blocked(ctx) && !htw_wait_has_room(ctx->user, local, &until)) {
		htw_ring_hold(a, base, now + until);
		return 0;
	}

	htw_late_count(&base->alarm_late, now - next, 1);
	if (first <= now) {
		WRITE_ONCE(base->told, true);
		htw_delay_atomic();
	}
	/* Pairs with whoever queues itself, and then looks. */
	smp_mb();
	wakes = htw_wait_who(ctx);
	/* Of a bucket it is not known whether one of its timers is due. */
	if (wakes && first <= now && !READ_ONCE(base->is_guess))
		wakes |= HTW_WAKE_IN;
	if ((wakes & HTW_WAKE_POLLERS) && !htw_wait_is_direct(ctx, local)) {
		htw_ring_leave(a, base, wakes & ~HTW_WAKE_READER, local, works);
		return wakes & HTW_WAKE_READER;
	}
	if (first > now)
		htw_alarm_time(a, base, first);
	else if (wakes && htw_wait_has_others(ctx))
		htw_ring_time_again(a, base, now);
	return wakes;
}

/*
 * The next base whose time has come: one that is held, if softirq may wake a
 * reader. Or NULL.
 */
static struct htw_base *htw_ring_next(struct htw_alarm *a, u64 now, u64 local)
{
	struct htw_base *base = list_first_entry_or_null(&a->held, struct htw_base, entry);
	u64 until;

	if (base && a->held_until <= now) {
		if (htw_wait_has_room(a->user, local, &until))
			return base;
		a->held_until = now + until;
	}
	base = htw_alarm_first(a);
	return base && base->armed <= now ? base : NULL;
}

/*
 * An alarm rings: the function of its hrtimer. Context: softirq, on PREEMPT_RT a
 * thread's.
 */
static enum hrtimer_restart htw_ring(struct hrtimer *timer)
{
	struct htw_alarm *a = container_of(timer, struct htw_alarm, timer);
	u64 now = htw_clock_now(a->clock), local = local_clock(), late;
	unsigned long flags, works = 0;
	u32 count = 0, woken = 0;

	kcov_remote_start_common(a->user->kcov_handle);
	raw_spin_lock_irqsave(&a->lock, flags);
	a->ringing = true;
	a->rings++;
	late = now - min(now, a->programmed);

	for (u32 i = 1; i <= HTW_RING_BASES && woken < HTW_RING_BATCH; i++) {
		struct htw_base *base = htw_ring_next(a, now, local);
		struct htw_context *ctx;
		u32 wakes;

		if (!base)
			break;
		ctx = base->ctx;
		wakes = htw_ring_decide(a, base, now, local, &works);
		count += wakes || base->owed;
		if (wakes) {
			atomic_inc(&ctx->pins);
			raw_spin_unlock_irqrestore(&a->lock, flags);
			htw_delay_atomic();
			local = htw_wait_wake_direct(ctx, wakes);
			htw_context_unpin(ctx);
			raw_spin_lock_irqsave(&a->lock, flags);
			woken++;
		} else if (i % HTW_RING_BATCH == 0) {
			/* Interrupts are not off for longer than that. */
			raw_spin_unlock_irqrestore(&a->lock, flags);
			raw_spin_lock_irqsave(&a->lock, flags);
		}
	}

	a->awaited += count;
	a->ringing = false;
	a->programmed = HTW_NEVER;
	/* The gap is one of time for others, so it begins here. */
	a->rung = htw_clock_now(a->clock);
	htw_alarm_program(a);
	raw_spin_unlock_irqrestore(&a->lock, flags);

	trace_htw_alarm_ring(a, late, count);
	/* The user stays until this has returned. */
	for (unsigned int work = 0; work < HTW_WORKS; work++) {
		if (works & BIT(work))
			htw_user_queue_work(a->user, work);
	}
	kcov_remote_stop();
	return HRTIMER_NORESTART;
}

/* Do some wait whom a work item does not wake? */
static bool htw_ring_leaves_some(const struct htw_context *ctx, u32 wakes)
{
	return htw_wait_has_others(ctx) ||
	       (!(wakes & HTW_WAKE_READERS) && htw_wait_is_blocked(ctx));
}

/*
 * Take the next base that was left to a work item. Return: its context, pinned,
 * or NULL; @wakes: what is owed.
 */
static struct htw_context *htw_ring_take(struct htw_alarm *a, unsigned int work, u32 *wakes)
{
	struct htw_context *ctx = NULL;
	struct htw_base *base;
	u64 now, next, first;
	unsigned long flags;

	raw_spin_lock_irqsave(&a->lock, flags);
	base = list_first_entry_or_null(&a->left[work], struct htw_base, entry);
	if (!base)
		goto out;
	ctx = base->ctx;
	atomic_inc(&ctx->pins);
	*wakes = base->owed;
	htw_alarm_take(a, base);
	/* Pairs with htw_ring_settle(). */
	smp_mb();
	htw_delay_atomic();

	now = htw_clock_now(a->clock);
	first = READ_ONCE(base->first);
	next = READ_ONCE(base->next);
	if (!READ_ONCE(base->told))
		/* At @next alone it would ring, and be left, without end. */
		htw_alarm_time(a, base, next > now ? next : first);
	else if (!HTW_DELAYS_ON && htw_ring_leaves_some(ctx, *wakes))
		htw_ring_time_again(a, base, now);
	htw_alarm_program(a);
out:
	raw_spin_unlock_irqrestore(&a->lock, flags);
	return ctx;
}

/* May a work item go on? Otherwise it has been queued again, behind others. */
static bool htw_ring_goes_on(struct htw_user *user, unsigned int work, u32 count, u64 spent)
{
	bool rests = work == HTW_LONG - HTW_SHORT && local_clock() < READ_ONCE(user->rest);

	if (!rests && count < HTW_RING_BATCH && spent < HTW_RING_TURN_NS)
		return true;
	htw_user_queue_work(user, work);
	return false;
}

/*
 * Wake what was left to a work item of a user, of all its alarms in turn, each of
 * a CPU and a clock: one that is never empty keeps none of the others waiting.
 */
static void htw_ring_wake_left(struct htw_user *user, unsigned int work)
{
	const u32 begin = user->turn[work], alarms = nr_cpu_ids * HTW_CLOCKS;
	struct htw_wakes *wakes = &htw_wakes[work];
	u32 count = 0, owed;
	u64 spent = 0, took;

	for (u32 i = begin; i < begin + alarms; i++) {
		unsigned int cpu = i % alarms / HTW_CLOCKS;
		struct htw_context *ctx;
		struct htw_alarm *a;

		if (!cpu_possible(cpu))
			continue;
		a = &per_cpu_ptr(user->alarms, cpu)->on[i % HTW_CLOCKS];
		user->turn[work] = i % alarms;
		/* Who leaves one queues the work item after that. */
		while (!list_empty_careful(&a->left[work])) {
			if (!htw_ring_goes_on(user, work, count, spent))
				return;
			ctx = htw_ring_take(a, work, &owed);
			if (!ctx)
				break;
			/* The next turn does not begin with who has had his in this one. */
			user->turn[work] = (i + 1) % alarms;

			htw_delay();
			took = htw_wait_wake_left(ctx, owed, htw_ring_look);
			htw_context_unpin(ctx);
			count++;
			spent += took;
			WRITE_ONCE(wakes->wakes, wakes->wakes + 1);
			WRITE_ONCE(wakes->spent, wakes->spent + took);
			cond_resched();
		}
	}
}

static void htw_ring_work_short(struct work_struct *work)
{
	struct htw_user *user = container_of(to_delayed_work(work), struct htw_user, work[0]);

	kcov_remote_start_common(user->kcov_handle);
	htw_ring_wake_left(user, 0);
	kcov_remote_stop();
}

static void htw_ring_work_long(struct work_struct *work)
{
	struct htw_user *user = container_of(to_delayed_work(work), struct htw_user, work[1]);

	kcov_remote_start_common(user->kcov_handle);
	htw_ring_wake_left(user, 1);
	kcov_remote_stop();
}

/**
 * htw_ring_init() - have users' alarms ring, and their work items wake tasks
 * @look: moves some buckets down, and says whether a timer is due, for programs
 *	that wait for SIGIO
 *
 * Return: 0 or -ENOMEM.
 */
int __init htw_ring_init(bool (*look)(struct htw_context *ctx))
{
	static const struct htw_user_calls calls = {
		.ring = htw_ring,
		.work = { htw_ring_work_short, htw_ring_work_long },
	};

	htw_ring_look = look;
	return htw_users_init(&calls);
}

/* Is there something to do under the alarm's lock, as a task leaves a base? */
static bool htw_ring_needs_alarm(const struct htw_base *base, u64 now, bool due)
{
	if (READ_ONCE(base->told))
		return !due;
	return READ_ONCE(base->armed) > base->next &&
	       (base->next > now || htw_ring_announces(base));
}

/* htw_ring_settle() with the alarm's lock held. */
static void htw_ring_settle_locked(struct htw_alarm *a, struct htw_base *base, u64 now, bool due)
{
	bool stays;

	lockdep_assert_held(&base->lock);
	lockdep_assert_held(&a->lock);

	/*
	 * A base that is left to a work item, to have a bucket moved down, has
	 * no alarm. It stays there, unless a reader blocks: that must not depend
	 * on when the work item runs.
	 */
	stays = (base->place == HTW_SHORT || base->place == HTW_LONG) && !base->told &&
		!htw_wait_is_blocked(base->ctx);
	if (due) {
		if (!base->told && !stays && base->armed > base->next)
			htw_alarm_time(a, base, base->next);
		return;
	}
	if (stays && base->next <= now)
		return;
	WRITE_ONCE(base->told, false);
	WRITE_ONCE(base->again, 0);
	if (base->next > now || htw_ring_announces(base))
		htw_alarm_time(a, base, base->next);
	else
		htw_alarm_take(a, base);
}

/**
 * htw_ring_settle() - a task leaves a base as it was published, and unlocks it
 * @base: the base; its lock is held, and dropped
 * @now: the time at which the task has looked, or changed it
 * @due: a timer stays due
 *
 * Sets the alarm, or takes back that something was announced. A deadline that
 * has moved later does not touch the alarm. The manual clock has no alarm: the
 * task wakes all who wait, unless they were woken before for what is due.
 */
void htw_ring_settle(struct htw_base *base, u64 now, bool due) __releases(&base->lock)
{
	bool announce = false;
	struct htw_alarm *a;
	unsigned long flags;

	lockdep_assert_held(&base->lock);

	/* Pairs with htw_ring_decide(), and with whoever queues itself and looks. */
	smp_mb();
	htw_delay_atomic();
	if (base->clock == HTW_MANUAL) {
		/*
		 * A bucket whose first tick has come may hold a timer that is
		 * due. Who is woken moves the bucket down, and finds out.
		 */
		due |= base->first <= now;
		announce = due && !base->told;
		WRITE_ONCE(base->told, due);
	} else if (htw_ring_needs_alarm(base, now, due)) {
		a = htw_alarm_of(base);
		raw_spin_lock_irqsave(&a->lock, flags);
		htw_ring_settle_locked(a, base, now, due);
		htw_alarm_program(a);
		raw_spin_unlock_irqrestore(&a->lock, flags);
	}
	spin_unlock(&base->lock);
	if (announce)
		htw_wait_wake_all(base->ctx);
}

/**
 * htw_ring_rest() - a call has returned some of what is due
 * @base: a base of the context; its lock is not held
 * @now: the time
 *
 * A task that polls, waits for edges and does not read on has not heard of the
 * rest: it is announced again, a tick later.
 */
void htw_ring_rest(struct htw_base *base, u64 now)
{
	u64 at = now + base->tick_ns;
	struct htw_alarm *a;
	unsigned long flags;

	if (!READ_ONCE(base->told) || list_empty_careful(&base->ctx->wait.head))
		return;
	if (base->clock == HTW_MANUAL) {
		/* Its time may stay as it is. */
		htw_wait_wake_all(base->ctx);
		return;
	}
	if (READ_ONCE(base->armed) <= at)
		return;

	a = htw_alarm_of(base);
	raw_spin_lock_irqsave(&a->lock, flags);
	if (base->told && base->armed > at &&
	    (base->place == HTW_NOWHERE || base->place == HTW_TIMED))
		htw_alarm_time(a, base, at);
	htw_alarm_program(a);
	raw_spin_unlock_irqrestore(&a->lock, flags);
}

/* htw_ring_unlock() if there is something to do. */
void htw_ring_unlock_slow(struct htw_base *base, u64 now, unsigned int budget)
	__releases(&base->lock)
{
	bool due = !list_empty(&base->wheel.due);

	htw_base_publish(base);
	if (!due && base->next <= now) {
		due = htw_base_look(base, now, &budget);
		htw_base_publish(base);
	}
	htw_ring_settle(base, now, due);
}
