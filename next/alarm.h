/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Alarms: which bases of a user ring next, on a CPU and a clock
 */
#ifndef _HTW_ALARM_H
#define _HTW_ALARM_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/timerqueue.h>
#include <linux/types.h>

#include "clock.h"

struct htw_base;

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
};

void htw_alarm_init(struct htw_alarm *a, enum htw_clock clock);
void htw_alarm_exit(struct htw_alarm *a);
void htw_alarm_again(struct htw_base *base);
void htw_alarm_take_out(struct htw_base *base);

#endif /* _HTW_ALARM_H */
