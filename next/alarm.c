// SPDX-License-Identifier: GPL-2.0-only
/*
 * Alarms: which bases of a user ring next, on a CPU and a clock
 *
 * A base joins the alarm of the CPU from which it is queued, and stays there as
 * long as it is queued. So 100,000 contexts of a user are one hrtimer. That is
 * not pinned: CPU hotplug, isolation and idle are the hrtimer core's affair.
 */

#include <linux/interrupt.h>

#include "alarm.h"
#include "base.h"
#include "compat.h"
#include "context.h"
#include "delay.h"
#include "user.h"
#include "wait.h"

/* An alarm rings no sooner than that after its last ring, in ns. */
#define HTW_ALARM_GAP		(10 * NSEC_PER_USEC)
/* Bases that are taken out of the queue while the lock is held. */
#define HTW_ALARM_BATCH		16u
/*
 * After that a base that has rung, and was not looked at, rings again; then
 * twice that.
 */
#define HTW_ALARM_AGAIN		(NSEC_PER_SEC / 2)
#define HTW_ALARM_AGAIN_MAX	7u

static enum hrtimer_restart htw_alarm_ring(struct hrtimer *timer);

void htw_alarm_init(struct htw_alarm *a, enum htw_clock clock)
{
	raw_spin_lock_init(&a->lock);
	timerqueue_init_head(&a->queue);
	a->clock = clock;
	a->programmed = HTW_NEVER;
	hrtimer_setup(&a->timer, htw_alarm_ring, htw_clock_id(clock), HRTIMER_MODE_ABS_SOFT);
}

/* No base is in the queue, nor will be. */
void htw_alarm_exit(struct htw_alarm *a)
{
	hrtimer_cancel(&a->timer);
	WARN_ON_ONCE(!RB_EMPTY_ROOT(&a->queue.rb_root.rb_root));
}

static struct htw_base *htw_alarm_first(struct htw_alarm *a)
{
	struct timerqueue_node *node = timerqueue_getnext(&a->queue);

	return node ? container_of(node, struct htw_base, node) : NULL;
}

/*
 * Have the hrtimer ring for the first base, not too soon after the last ring.
 */
static void htw_alarm_program(struct htw_alarm *a)
{
	const struct htw_base *first = htw_alarm_first(a);
	u64 at;

	lockdep_assert_held(&a->lock);

	if (!first || a->ringing)
		return;
	at = max3(first->armed, a->rung + HTW_ALARM_GAP, a->hold);
	if (at >= a->programmed)
		return;
	a->programmed = at;
	hrtimer_start(&a->timer, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

static bool htw_base_is_queued(const struct htw_base *base)
{
	return !RB_EMPTY_NODE(&base->node.node);
}

/*
 * Lock the alarm in which a base is, or else that of this CPU, to which it then
 * belongs.
 */
static struct htw_alarm *htw_alarm_lock(struct htw_base *base, unsigned long *flags)
{
	for (;;) {
		struct htw_alarm *a = READ_ONCE(base->alarm);
		struct htw_alarm *mine =
			&raw_cpu_ptr(base->ctx->user->alarms)->on[base->ctx->clock];

		if (!a)
			a = cmpxchg(&base->alarm, NULL, mine) ?: mine;
		raw_spin_lock_irqsave(&a->lock, *flags);
		if (base->alarm == a) {
			if (a == mine || htw_base_is_queued(base))
				return a;
			/* Its alarm changes under the old one's lock. */
			WRITE_ONCE(base->alarm, mine);
		}
		raw_spin_unlock_irqrestore(&a->lock, *flags);
	}
}

/* Queue a base, or move it in the queue. */
static void htw_alarm_queue(struct htw_alarm *a, struct htw_base *base, u64 at)
{
	lockdep_assert_held(&a->lock);

	if (htw_base_is_queued(base))
		timerqueue_del(&a->queue, &base->node);
	WRITE_ONCE(base->armed, at);
	base->is_again = false;
	base->node.expires = ns_to_ktime(at);
	timerqueue_add(&a->queue, &base->node);
}

/**
 * htw_alarm_set() - have a base's alarm ring when there is work
 * @base: the base; its lock need not be held
 *
 * An alarm that rings earlier stays as it is: when it rings and there is no
 * work yet, htw_alarm_decide() queues the base for its work and wakes no task.
 */
void htw_alarm_set(struct htw_base *base)
{
	unsigned long flags;
	struct htw_alarm *a = htw_alarm_lock(base, &flags);
	u64 next = READ_ONCE(base->next);

	if (base->armed > next) {
		htw_alarm_queue(a, base, next);
		htw_alarm_program(a);
	}
	raw_spin_unlock_irqrestore(&a->lock, flags);
}

/*
 * Have the alarm ring again for a base with something due that waiters have
 * been woken for: the task that was woken may be stopped or get no CPU, and then
 * another one has to be woken. Each time after twice as long, until a timer of
 * the base is taken.
 */
static void htw_alarm_queue_again(struct htw_alarm *a, struct htw_base *base, u64 now)
{
	const u8 again = READ_ONCE(base->again);
	const u64 at = now + ((u64)HTW_ALARM_AGAIN << again);

	lockdep_assert_held(&a->lock);

	if (base->armed <= at)
		return;
	htw_alarm_queue(a, base, at);
	base->is_again = true;
	WRITE_ONCE(base->again, min(again + 1u, HTW_ALARM_AGAIN_MAX));
}

/*
 * Have a base's alarm ring again in case the task that was woken does not run:
 * others wait as well.
 */
void htw_alarm_again(struct htw_base *base)
{
	unsigned long flags;
	struct htw_alarm *a = htw_alarm_lock(base, &flags);

	htw_alarm_queue_again(a, base, htw_clock_now(a->clock));
	htw_alarm_program(a);
	raw_spin_unlock_irqrestore(&a->lock, flags);
}

/* Take a base out of its alarm's queue for good: its file is closed. */
void htw_alarm_take_out(struct htw_base *base)
{
	struct htw_alarm *a = READ_ONCE(base->alarm);
	unsigned long flags;

	if (!a)
		return;
	raw_spin_lock_irqsave(&a->lock, flags);
	if (htw_base_is_queued(base)) {
		timerqueue_del(&a->queue, &base->node);
		WRITE_ONCE(base->armed, HTW_NEVER);
	}
	raw_spin_unlock_irqrestore(&a->lock, flags);
}

/* Contexts to be woken when the lock has been dropped; each is pinned. */
struct htw_rung {
	struct htw_context *ctx;
	enum htw_why ring;
};

/*
 * The alarm's time for a base has come: decide why tasks are to be woken.
 * Return: the reason, or zero if no task is to be woken.
 */
static enum htw_why htw_alarm_decide(struct htw_alarm *a, struct htw_base *base, u64 now)
{
	struct htw_context *ctx = base->ctx;
	const bool is_again = base->is_again;
	u64 next, first;

	lockdep_assert_held(&a->lock);

	timerqueue_del(&a->queue, &base->node);
	WRITE_ONCE(base->armed, HTW_NEVER);
	/* Pairs with htw_base_unlock(). */
	smp_mb();
	htw_delay_atomic();

	if (READ_ONCE(base->told)) {
		/*
		 * With delays nothing shall make good for a wake-up that was
		 * lost.
		 */
		if (HTW_DELAYS_ON || !htw_wait_is_left(ctx))
			return 0;
		htw_alarm_queue_again(a, base, now);
		return is_again ? HTW_WHY_AGAIN : 0;
	}
	next = READ_ONCE(base->next);
	if (next > now) {
		if (next != HTW_NEVER)
			htw_alarm_queue(a, base, next);
		return 0;
	}
	first = READ_ONCE(base->first);
	if (first > now) {
		if (first != HTW_NEVER)
			htw_alarm_queue(a, base, first);
		if (!htw_wait_is_waiting(ctx))
			return 0;
		htw_base_mark(base);
		return HTW_WHY_MOVE;
	}
	/* In this order: htw_collect_looked() has the other one. */
	WRITE_ONCE(base->told, true);
	htw_delay_atomic();
	htw_base_mark(base);
	/*
	 * Pairs with htw_wait_is_waiting()'s callers that queue themselves, and
	 * then look.
	 */
	smp_mb();
	if (htw_wait_has_others(ctx))
		htw_alarm_queue_again(a, base, now);
	return HTW_WHY_DUE;
}

/* The hrtimer's function: softirq, on PREEMPT_RT a thread's. */
static enum hrtimer_restart htw_alarm_ring(struct hrtimer *timer)
{
	struct htw_alarm *a = container_of(timer, struct htw_alarm, timer);
	const u64 now = htw_clock_now(a->clock);
	struct htw_rung rung[HTW_ALARM_BATCH];
	u32 count = 0, looked = 0, room;
	struct htw_base *base;
	unsigned long flags;
	u64 later;

	room = htw_wait_room(a, now, &later);
	raw_spin_lock_irqsave(&a->lock, flags);
	a->ringing = true;
	while (looked++ < HTW_ALARM_BATCH && (base = htw_alarm_first(a)) && base->armed <= now) {
		const bool reads = !list_empty_careful(&base->ctx->readers.head);
		enum htw_why ring;

		if (reads && !room) {
			a->hold = later;
			break;
		}
		ring = htw_alarm_decide(a, base, now);
		if (!ring)
			continue;
		room -= reads;
		atomic_inc(&base->ctx->pins);
		rung[count++] = (struct htw_rung){ base->ctx, ring };
	}
	raw_spin_unlock_irqrestore(&a->lock, flags);

	for (u32 i = 0; i < count; i++) {
		htw_delay_atomic();
		htw_wait_ring(a, rung[i].ctx, rung[i].ring);
		htw_context_unpin(rung[i].ctx);
	}

	/* The gap is one of time for others, so it begins here. */
	raw_spin_lock_irqsave(&a->lock, flags);
	a->ringing = false;
	a->programmed = HTW_NEVER;
	a->rung = htw_clock_now(a->clock);
	htw_alarm_program(a);
	raw_spin_unlock_irqrestore(&a->lock, flags);
	return HRTIMER_NORESTART;
}
