// SPDX-License-Identifier: GPL-2.0-only
/*
 * Alarms: which bases of a user ring next, on a CPU and a clock
 *
 * A base joins the alarm of the CPU from which it is queued, and stays there as
 * long as it is queued. So 100,000 contexts of a user are one hrtimer. That is
 * not pinned: CPU hotplug, isolation and idle are the hrtimer core's affair.
 */

#include <linux/init.h>
#include <linux/percpu.h>

#include <trace/events/htw.h>

#include "alarm.h"
#include "compat.h"

/* An alarm rings no sooner than that after its last ring, in ns. */
#define HTW_ALARM_GAP		(10 * NSEC_PER_USEC)

/* What an alarm does when it rings. */
static enum hrtimer_restart (*htw_alarm_ring)(struct hrtimer *timer) __ro_after_init;

void __init htw_alarms_init(enum hrtimer_restart (*ring)(struct hrtimer *timer))
{
	htw_alarm_ring = ring;
}

/**
 * htw_alarms_alloc() - make the alarms of a user
 * @user: the user
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the alarms, or NULL without memory.
 */
struct htw_alarms __percpu *htw_alarms_alloc(const struct htw_user *user)
{
	struct htw_alarms __percpu *alarms;
	unsigned int cpu;

	alarms = alloc_percpu_gfp(struct htw_alarms, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!alarms)
		return NULL;
	for_each_possible_cpu(cpu)
		for (unsigned int clock = 0; clock < HTW_CLOCKS; clock++) {
			struct htw_alarm *a = &per_cpu_ptr(alarms, cpu)->on[clock];

			raw_spin_lock_init(&a->lock);
			timerqueue_init_head(&a->queue);
			a->user = user;
			a->clock = clock;
			a->programmed = HTW_NEVER;
			hrtimer_setup(&a->timer, htw_alarm_ring, htw_clock_id(clock),
				      HRTIMER_MODE_ABS_SOFT);
		}
	return alarms;
}

/* Free a user's alarms: no base is in a queue, nor will be. */
void htw_alarms_free(struct htw_alarms __percpu *alarms)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		for (unsigned int clock = 0; clock < HTW_CLOCKS; clock++) {
			struct htw_alarm *a = &per_cpu_ptr(alarms, cpu)->on[clock];

			hrtimer_cancel(&a->timer);
			WARN_ON_ONCE(!RB_EMPTY_ROOT(&a->queue.rb_root.rb_root));
		}
	free_percpu(alarms);
}

/* The base that is the first one in the queue, or NULL. */
struct htw_base *htw_alarm_first(struct htw_alarm *a)
{
	struct timerqueue_node *node = timerqueue_getnext(&a->queue);

	return node ? container_of(node, struct htw_base, node) : NULL;
}

/*
 * Have the hrtimer ring for the first base, not too soon after the last ring.
 */
void htw_alarm_program(struct htw_alarm *a)
{
	const struct htw_base *first = htw_alarm_first(a);
	u64 at;

	lockdep_assert_held(&a->lock);

	if (!first || a->ringing)
		return;
	/*
	 * Times before the clock was set back mean nothing. @hold may be in the
	 * future, by less than a window.
	 */
	if (a->clock == HTW_REALTIME && a->rung > htw_clock_now(HTW_REALTIME)) {
		a->rung = 0;
		a->hold = 0;
	}
	at = max3(first->armed, a->rung + HTW_ALARM_GAP, a->hold);
	if (at >= a->programmed)
		return;
	a->programmed = at;
	trace_htw_alarm_program(a, at);
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
struct htw_alarm *htw_alarm_lock(struct htw_base *base, unsigned long *flags)
	__acquires(htw_alarm_lock)
{
	for (;;) {
		struct htw_alarm *a = READ_ONCE(base->alarm);
		struct htw_alarm *mine =
			&raw_cpu_ptr(base->alarms)->on[base->clock];

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

/* Take a base out of the queue. */
void htw_alarm_unqueue(struct htw_alarm *a, struct htw_base *base)
{
	lockdep_assert_held(&a->lock);

	WRITE_ONCE(base->is_again, false);
	base->is_for_all = false;
	timerqueue_del(&a->queue, &base->node);
	a->queued--;
}

/* Queue a base, or move it in the queue. */
void htw_alarm_queue(struct htw_alarm *a, struct htw_base *base, u64 at)
{
	lockdep_assert_held(&a->lock);

	if (htw_base_is_queued(base))
		htw_alarm_unqueue(a, base);
	WRITE_ONCE(base->armed, at);
	base->node.expires = ns_to_ktime(at);
	timerqueue_add(&a->queue, &base->node);
	a->queued++;
}

/**
 * htw_alarm_set() - have a base's alarm ring when there is work
 * @base: the base; its lock need not be held
 *
 * An alarm that rings earlier stays as it is: when it rings and there is no
 * work yet, htw_ring_decide() queues the base for its work and wakes no task.
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

/* Take a base out of its alarm's queue for good: its file is closed. */
void htw_alarm_take_out(struct htw_base *base)
{
	struct htw_alarm *a = READ_ONCE(base->alarm);
	unsigned long flags;

	if (!a)
		return;
	raw_spin_lock_irqsave(&a->lock, flags);
	if (htw_base_is_queued(base)) {
		htw_alarm_unqueue(a, base);
		WRITE_ONCE(base->armed, HTW_NEVER);
	}
	raw_spin_unlock_irqrestore(&a->lock, flags);
}
