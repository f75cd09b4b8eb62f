/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is due is told to who waits: by an alarm that rings, or by a task that
 * finds it
 */
#ifndef _HTW_RING_H
#define _HTW_RING_H

#include "alarm.h"
#include "context.h"

enum hrtimer_restart htw_ring(struct hrtimer *timer);
void htw_ring_again(struct htw_base *base);
void htw_ring_tell(struct htw_base *base, u64 now, unsigned int budget) __releases(&base->lock);
void htw_ring_unlock_told(struct htw_base *base, u64 now) __releases(&base->lock);

/*
 * Unlock a base after operations on its timers, at the time @now. Tells who
 * waits if something is due, and sets the alarm for what is not. @budget: nodes
 * that may be looked at for that, while the lock is held.
 */
static inline void htw_ring_unlock(struct htw_base *base, u64 now, unsigned int budget)
	__releases(&base->lock)
{
	if (unlikely(READ_ONCE(base->told))) {
		htw_ring_unlock_told(base, now);
		return;
	}
	if (unlikely(base->is_stale || htw_wheel_next_is_stale(&base->wheel, base->next_tick)))
		htw_base_publish(base);
	if (unlikely(base->next <= now)) {
		htw_ring_tell(base, now, budget);
		return;
	}
	htw_base_drop_lock(base);
	htw_alarm_check(base);
}

#endif /* _HTW_RING_H */
