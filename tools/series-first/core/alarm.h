/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The alarm of a base: an hrtimer that wakes the tasks that wait
 */
#ifndef _HTW_ALARM_H
#define _HTW_ALARM_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct htw_base;

/**
 * struct htw_alarm - when a base's waiters are woken
 * @lock: guards @armed and what starts @timer. Taken with interrupts off, inside
 *	the base's lock
 * @timer: rings at @armed
 * @armed: when that is, in ns; %HTW_NEVER if it does not ring
 */
struct htw_alarm {
	raw_spinlock_t lock;
	struct hrtimer timer;
	u64 armed;
};

void htw_alarm_init(struct htw_alarm *a);
void htw_alarm_exit(struct htw_alarm *a);
bool htw_alarm_unlock(struct htw_base *base, u64 now) __releases(&base->lock);

#endif /* _HTW_ALARM_H */
