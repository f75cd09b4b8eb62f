/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Alarms: which bases of a user ring next, on a CPU and a clock
 */
#ifndef _HTW_ALARM_H
#define _HTW_ALARM_H

#include <linux/hrtimer.h>

#include "base.h"

struct htw_user;

/**
 * struct htw_alarm - the bases of a user that ring next, with one hrtimer
 * @lock: guards all of it, &htw_base.alarm of the bases in @queue, and their
 *	&htw_base.armed. Taken with interrupts off, and innermost but for the
 *	hrtimer's
 * @timer: rings for the first in @queue
 * @programmed: when @timer rings, in ns; %HTW_NEVER if it does not
 * @ringing: the callback runs, and programs @timer in the end
 * @rung: when it has rung last
 * @hold: it does not ring before that: no direct wake-up is left for the first
 *	in @queue
 * @queue: bases by &htw_base.armed
 * @clock: of @timer and of all bases in @queue; never changes
 * @window: the period of direct wake-ups in which @woken were made (softirq of
 *	one CPU at a time)
 * @woken: direct wake-ups in @window
 * @rest: until then no poll queue of this user is woken directly
 * @user: whose it is; never changes
 * @queued: how many are in @queue
 * @rings: how often it has rung
 * @awaited: contexts for which it found tasks to wake, in all rings
 */
struct htw_alarm {
	raw_spinlock_t lock;
	struct hrtimer timer;
	u64 programmed;
	bool ringing;
	u64 rung;
	u64 hold;
	struct timerqueue_head queue;
	enum htw_clock clock;
	u64 window;
	u32 woken;
	u64 rest;
	const struct htw_user *user;
	u32 queued;
	u64 rings;
	u64 awaited;
};

/* The alarms of a user on a CPU. */
struct htw_alarms {
	struct htw_alarm on[HTW_CLOCKS];
};

void htw_alarms_init(enum hrtimer_restart (*ring)(struct hrtimer *timer));
struct htw_alarms __percpu *htw_alarms_alloc(const struct htw_user *user);
void htw_alarms_free(struct htw_alarms __percpu *alarms);
void htw_alarm_set(struct htw_base *base);
struct htw_alarm *htw_alarm_lock(struct htw_base *base, unsigned long *flags)
	__acquires(htw_alarm_lock);
void htw_alarm_take_out(struct htw_base *base);
struct htw_base *htw_alarm_first(struct htw_alarm *a);
void htw_alarm_program(struct htw_alarm *a);
void htw_alarm_unqueue(struct htw_alarm *a, struct htw_base *base);
void htw_alarm_queue(struct htw_alarm *a, struct htw_base *base, u64 at);

/*
 * Set the alarm if it rings later than there is work, unless the tasks that
 * wait have already been woken for it (@told).
 */
static inline void htw_alarm_check(struct htw_base *base)
{
	if (unlikely(READ_ONCE(base->armed) > READ_ONCE(base->next)) && !READ_ONCE(base->told)) {
		htw_delay();
		htw_alarm_set(base);
	}
}

#endif /* _HTW_ALARM_H */
