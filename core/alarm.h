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
 * @lock: guards all of it, and of its bases @place, @owed, @armed, @again, and
 *	setting @told. Taken with interrupts off, and innermost but for the
 *	hrtimer's
 * @timer: rings for the first in @queue, and for those in @held
 * @programmed: when @timer rings, in ns; %HTW_NEVER if it does not
 * @ringing: the callback runs, and programs @timer in the end
 * @rung: when it has rung last
 * @queue: the bases that are %HTW_TIMED, by &htw_base.armed
 * @held: those that are %HTW_HELD, in the order in which they were due
 * @held_until: when one of them is looked at next, in ns; if there are some
 * @left: those that are %HTW_SHORT and %HTW_LONG, in the order in which they
 *	were left
 * @user: whose it is; never changes
 * @clock: of @timer and of all its bases; never changes
 * @queued: how many are in @queue and @held
 * @rings: how often it has rung
 * @awaited: bases for which it found tasks to wake, in all rings
 */
struct htw_alarm {
	raw_spinlock_t lock;
	struct hrtimer timer;
	u64 programmed;
	bool ringing;
	u64 rung;
	struct timerqueue_head queue;
	struct list_head held;
	u64 held_until;
	struct list_head left[HTW_WORKS];
	struct htw_user *user;
	enum htw_clock clock;
	u32 queued;
	u64 rings;
	u64 awaited;
};

/**
 * struct htw_alarms - what a user has on a CPU
 * @on: an alarm for each clock
 * @window: when the period began in which its last wake-up was made in softirq
 *	(softirq)
 */
struct htw_alarms {
	struct htw_alarm on[HTW_CLOCKS];
	u64 window;
};

/* Bases that are left to the work items. */
extern atomic_t htw_alarms_left[HTW_WORKS];

struct htw_alarms __percpu *htw_alarms_alloc(struct htw_user *user,
					     enum hrtimer_restart (*ring)(struct hrtimer *timer));
void htw_alarms_stop(struct htw_alarms __percpu *alarms);
struct htw_alarm *htw_alarm_of(const struct htw_base *base);
struct htw_base *htw_alarm_first(struct htw_alarm *a);
void htw_alarm_program(struct htw_alarm *a);
void htw_alarm_take(struct htw_alarm *a, struct htw_base *base);
void htw_alarm_time(struct htw_alarm *a, struct htw_base *base, u64 at);
void htw_alarm_hold(struct htw_alarm *a, struct htw_base *base, u64 until);
void htw_alarm_leave(struct htw_alarm *a, struct htw_base *base, unsigned int work, u8 owed);
void htw_alarm_close(struct htw_base *base);

#endif /* _HTW_ALARM_H */
