// SPDX-License-Identifier: GPL-2.0-only
/*
 * Alarms: which bases of a user ring next, on a CPU and a clock
 *
 * A base's alarm is that of its own CPU, for good. So 100,000 contexts of a user
 * are one hrtimer. That is not pinned: CPU hotplug, isolation and idle are the
 * hrtimer core's affair. The table of docs/waking.md says when a base goes from
 * one place to another.
 */

#include <linux/percpu.h>

#include <trace/events/htw.h>

#include "alarm.h"
#include "compat.h"

/* An alarm rings no sooner than that after its last ring, in ns. */
#define HTW_ALARM_GAP		(10 * NSEC_PER_USEC)

atomic_t htw_alarms_left[HTW_WORKS];

/**
 * htw_alarms_alloc() - make the alarms of a user
 * @user: the user
 * @ring: what they do when they ring
 *
 * Context: may sleep; charged to the caller's cgroup.
 * Return: the alarms, or NULL without memory.
 */
struct htw_alarms __percpu *htw_alarms_alloc(struct htw_user *user,
					     enum hrtimer_restart (*ring)(struct hrtimer *timer))
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
			INIT_LIST_HEAD(&a->held);
			for (unsigned int work = 0; work < HTW_WORKS; work++)
				INIT_LIST_HEAD(&a->left[work]);
			a->user = user;
			a->clock = clock;
			a->programmed = HTW_NEVER;
			hrtimer_setup(&a->timer, ring, htw_clock_id(clock), HRTIMER_MODE_ABS_SOFT);
		}
	return alarms;
}

/* A user's alarms ring no more: no base has one of them, nor will. */
void htw_alarms_stop(struct htw_alarms __percpu *alarms)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		for (unsigned int clock = 0; clock < HTW_CLOCKS; clock++) {
			struct htw_alarm *a = &per_cpu_ptr(alarms, cpu)->on[clock];

			hrtimer_cancel(&a->timer);
			WARN_ON_ONCE(a->queued);
		}
}

/* The alarm of a base; not on the manual clock. */
struct htw_alarm *htw_alarm_of(const struct htw_base *base)
{
	return &per_cpu_ptr(base->alarms, base->index)->on[base->clock];
}

/* The base that is the first one in the queue, or NULL. */
struct htw_base *htw_alarm_first(struct htw_alarm *a)
{
	struct timerqueue_node *node = timerqueue_getnext(&a->queue);

	return node ? container_of(node, struct htw_base, node) : NULL;
}

/*
 * Have the hrtimer ring for the first base, or for those that are held, not too
 * soon after the last ring.
 */
void htw_alarm_program(struct htw_alarm *a)
{
	const struct htw_base *first = htw_alarm_first(a);
	u64 at = first ? first->armed : HTW_NEVER;

	lockdep_assert_held(&a->lock);

	if (!list_empty(&a->held))
		at = min(at, a->held_until);
	if (at == HTW_NEVER || a->ringing)
		return;
	/* A time before the clock was set back means nothing. */
	if (a->clock == HTW_REALTIME && a->rung > htw_clock_now(HTW_REALTIME))
		a->rung = 0;
	at = max(at, a->rung + HTW_ALARM_GAP);
	if (at >= a->programmed)
		return;
	a->programmed = at;
	trace_htw_alarm_program(a, at);
	hrtimer_start(&a->timer, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

/* Take a base out of its place; unless it is closed it is nowhere then. */
void htw_alarm_take(struct htw_alarm *a, struct htw_base *base)
{
	lockdep_assert_held(&a->lock);

	switch (base->place) {
	case HTW_TIMED:
		timerqueue_del(&a->queue, &base->node);
		a->queued--;
		break;
	case HTW_HELD:
		list_del(&base->entry);
		a->queued--;
		break;
	case HTW_SHORT:
	case HTW_LONG:
		list_del(&base->entry);
		atomic_dec(&htw_alarms_left[base->place - HTW_SHORT]);
		break;
	case HTW_NOWHERE:
	case HTW_CLOSED:
		return;
	}
	base->place = HTW_NOWHERE;
	base->owed = 0;
	WRITE_ONCE(base->armed, HTW_NEVER);
}

/* Have a base's time come at @at, in ns of its clock; never, if %HTW_NEVER. */
void htw_alarm_time(struct htw_alarm *a, struct htw_base *base, u64 at)
{
	htw_alarm_take(a, base);
	if (base->place == HTW_CLOSED || at == HTW_NEVER)
		return;
	base->place = HTW_TIMED;
	WRITE_ONCE(base->armed, at);
	timerqueue_init(&base->node);
	base->node.expires = ns_to_ktime(at);
	timerqueue_add(&a->queue, &base->node);
	a->queued++;
}

/*
 * Hold a base, which is nowhere, until softirq may wake a reader: @until, in ns
 * of its clock. They stand in a list, as there may be many: sorted anew in each
 * window, those of 64 users took all of a CPU.
 */
void htw_alarm_hold(struct htw_alarm *a, struct htw_base *base, u64 until)
{
	lockdep_assert_held(&a->lock);

	if (list_empty(&a->held))
		a->held_until = until;
	base->place = HTW_HELD;
	/* Tasks leave the alarm as it is: it rings for the list soon. */
	WRITE_ONCE(base->armed, 0);
	list_add_tail(&base->entry, &a->held);
	a->queued++;
}

/*
 * Leave a base, which is nowhere, to a work item, which is to be queued, with
 * what is owed.
 */
void htw_alarm_leave(struct htw_alarm *a, struct htw_base *base, unsigned int work, u8 owed)
{
	lockdep_assert_held(&a->lock);

	base->place = HTW_SHORT + work;
	base->owed = owed;
	list_add_tail(&base->entry, &a->left[work]);
	atomic_inc(&htw_alarms_left[work]);
}

/* Take a base out of its alarm for good: its file is closed. */
void htw_alarm_close(struct htw_base *base)
{
	struct htw_alarm *a;
	unsigned long flags;

	if (base->clock == HTW_MANUAL)
		return;
	a = htw_alarm_of(base);
	raw_spin_lock_irqsave(&a->lock, flags);
	htw_alarm_take(a, base);
	base->place = HTW_CLOSED;
	/* It is never later than there is work. */
	WRITE_ONCE(base->armed, 0);
	raw_spin_unlock_irqrestore(&a->lock, flags);
}
