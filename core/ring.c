// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is due is told to who waits: by an alarm that rings, or by a task that
 * finds it
 */

#include <linux/kcov.h>
#include <linux/sched/clock.h>

#include <trace/events/htw.h>

#include "ring.h"
#include "wait.h"

/* Bases that are taken out of the queue while the lock is held. */
#define HTW_RING_BATCH		16u
/*
 * The first delay after which the alarm rings again for a base, if the task that
 * it woke has not looked at it: another task that blocks in read() is woken. Each
 * further delay is twice the one before.
 */
#define HTW_RING_AGAIN		(NSEC_PER_SEC / 256)
/*
 * The number of these delays, 0.25 s in all. The ring after the next delay wakes
 * all tasks that wait. If no task blocks in read(), the first delay is 0.5 s.
 */
#define HTW_RING_AGAIN_ALL	6u
/* The delay is doubled so often at most: to 64 s. */
#define HTW_RING_AGAIN_MAX	14u

/* Contexts to be woken when the lock has been dropped; each is pinned. */
struct htw_rung {
	struct htw_context *ctx;
	enum htw_why ring;
};

/*
 * Who waits is told that a timer of a base is due. In this order:
 * htw_collect_looked() has the other one.
 */
static void htw_ring_note_told(struct htw_base *base)
{
	WRITE_ONCE(base->told, true);
	htw_delay_atomic();
	htw_base_mark(base);
}

/*
 * Have the alarm ring again for a base with something due that waiters have
 * been woken for: the task that was woken may be stopped or get no CPU, and
 * then another one has to be woken. Each time after twice as long, until a
 * timer of the base is taken.
 */
static void htw_ring_queue_again(struct htw_alarm *a, struct htw_base *base, u64 now)
{
	u8 again = READ_ONCE(base->again);
	u64 at;

	lockdep_assert_held(&a->lock);

	if (!htw_wait_is_blocked(base->ctx))
		again = max(again, HTW_RING_AGAIN_ALL + 1);
	at = now + ((u64)HTW_RING_AGAIN << again);
	if (base->armed <= at)
		return;
	htw_alarm_queue(a, base, at);
	WRITE_ONCE(base->is_again, true);
	base->is_for_all = again >= HTW_RING_AGAIN_ALL;
	WRITE_ONCE(base->again, min(again + 1u, HTW_RING_AGAIN_MAX));
}

/*
 * Have a base's alarm ring again in case the task that was woken does not run:
 * others wait as well.
 */
void htw_ring_again(struct htw_base *base)
{
	struct htw_alarm *a;
	unsigned long flags;

	/*
	 * Mostly it is to ring for that already. If its callback runs just now,
	 * it wakes tasks after this one has looked.
	 */
	if (base->clock == HTW_MANUAL || READ_ONCE(base->is_again))
		return;
	a = htw_alarm_lock(base, &flags);
	htw_ring_queue_again(a, base, htw_clock_now(a->clock));
	htw_alarm_program(a);
	raw_spin_unlock_irqrestore(&a->lock, flags);
}

/*
 * The alarm's time for a base has come: decide why tasks are to be woken.
 * Return: the reason, or zero if no task is to be woken.
 */
static enum htw_why htw_ring_decide(struct htw_alarm *a, struct htw_base *base, u64 now)
{
	struct htw_context *ctx = base->ctx;
	bool is_again = base->is_again, is_for_all = base->is_for_all;
	u64 next, first;

	lockdep_assert_held(&a->lock);

	htw_alarm_unqueue(a, base);
	WRITE_ONCE(base->armed, HTW_NEVER);
	/* Pairs with htw_base_drop_lock(). */
	smp_mb();
	htw_delay_atomic();

	if (READ_ONCE(base->told)) {
		/*
		 * With delays nothing shall make good for a wake-up that was
		 * lost.
		 */
		if (HTW_DELAYS_ON)
			return 0;
		/*
		 * The only one who polls may not be the one that was woken, and
		 * has read a part: he is told once.
		 */
		if (is_for_all ? htw_wait_is_left(ctx) : htw_wait_is_waiting(ctx))
			htw_ring_queue_again(a, base, now);
		if (!is_again)
			return 0;
		return is_for_all ? HTW_WHY_AGAIN : HTW_WHY_READER;
	}
	next = READ_ONCE(base->next);
	if (next > now) {
		if (next != HTW_NEVER)
			htw_alarm_queue(a, base, next);
		return 0;
	}
	htw_late_count(&base->alarm_late, now - next, 1);
	first = READ_ONCE(base->first);
	if (first > now) {
		if (first != HTW_NEVER)
			htw_alarm_queue(a, base, first);
		if (!htw_wait_is_waiting(ctx))
			return 0;
		htw_base_mark(base);
		return HTW_WHY_LOOK;
	}
	htw_ring_note_told(base);
	/*
	 * Pairs with htw_wait_is_waiting()'s callers that queue themselves, and
	 * then look.
	 */
	smp_mb();
	if (htw_wait_has_others(ctx))
		htw_ring_queue_again(a, base, now);
	return READ_ONCE(base->is_guess) ? HTW_WHY_COME : HTW_WHY_DUE;
}

/**
 * htw_ring() - an alarm rings: the function of its hrtimer
 * @timer: the hrtimer
 *
 * Context: softirq, on PREEMPT_RT a thread's.
 * Return: %HRTIMER_NORESTART; it has been started again if it is to ring.
 */
enum hrtimer_restart htw_ring(struct hrtimer *timer)
{
	struct htw_alarm *a = container_of(timer, struct htw_alarm, timer);
	u64 now = htw_clock_now(a->clock);
	struct htw_rung rung[HTW_RING_BATCH];
	u32 count = 0, looked = 0, room;
	struct htw_base *base;
	unsigned long flags;
	u64 later, clock, late;

	kcov_remote_start_common(a->user->kcov_handle);
	room = htw_wait_room(a, now, &later);
	raw_spin_lock_irqsave(&a->lock, flags);
	a->ringing = true;
	late = now - min(now, a->programmed);
	while (looked++ < HTW_RING_BATCH && (base = htw_alarm_first(a)) && base->armed <= now) {
		bool reads = htw_wait_is_blocked(base->ctx);
		enum htw_why ring;

		if (reads && !room) {
			a->hold = later;
			break;
		}
		ring = htw_ring_decide(a, base, now);
		if (!ring)
			continue;
		room -= reads;
		atomic_inc(&base->ctx->pins);
		rung[count++] = (struct htw_rung){ base->ctx, ring };
	}
	a->rings++;
	a->awaited += count;
	raw_spin_unlock_irqrestore(&a->lock, flags);
	trace_htw_alarm_ring(a, late, count);

	clock = local_clock();
	for (u32 i = 0; i < count; i++) {
		htw_delay_atomic();
		htw_wait_ring(a, rung[i].ctx, rung[i].ring, &clock);
		htw_context_unpin(rung[i].ctx);
	}

	/* The gap is one of time for others, so it begins here. */
	raw_spin_lock_irqsave(&a->lock, flags);
	a->ringing = false;
	a->programmed = HTW_NEVER;
	a->rung = htw_clock_now(a->clock);
	htw_alarm_program(a);
	raw_spin_unlock_irqrestore(&a->lock, flags);
	kcov_remote_stop();
	return HRTIMER_NORESTART;
}

/* htw_ring_unlock() if there is something to do. */
void htw_ring_tell(struct htw_base *base, u64 now, unsigned int budget) __releases(&base->lock)
{
	bool tell = htw_base_look(base, now, &budget);

	htw_base_publish(base);
	if (tell)
		htw_ring_note_told(base);
	htw_base_drop_lock(base);
	if (tell) {
		htw_delay();
		htw_wait_wake(base->ctx);
		if (htw_wait_is_left(base->ctx))
			htw_ring_again(base);
	}
	htw_alarm_check(base);
}

/*
 * htw_ring_unlock() if who waits has been told of something. If that has ended
 * without being read, or was put off, he is to be told of the next.
 */
void htw_ring_unlock_told(struct htw_base *base, u64 now) __releases(&base->lock)
{
	htw_base_publish(base);
	/* A bucket that is to be moved down is nothing to be read. */
	if (list_empty(&base->wheel.due) && (base->first > now || base->is_guess))
		WRITE_ONCE(base->told, false);
	htw_base_drop_lock(base);
	htw_alarm_check(base);
}
