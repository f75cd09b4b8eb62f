/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An alarm rings, and a task leaves a base: the table of docs/waking.md
 */
#ifndef _HTW_RING_H
#define _HTW_RING_H

#include "alarm.h"
#include "context.h"

int htw_ring_init(bool (*look)(struct htw_context *ctx));
void htw_ring_settle(struct htw_base *base, u64 now, bool due) __releases(&base->lock);
void htw_ring_rest(struct htw_base *base, u64 now);
void htw_ring_unlock_slow(struct htw_base *base, u64 now, unsigned int budget)
	__releases(&base->lock);

/*
 * Unlock a base after operations on its timers, at the time @now. @budget: nodes
 * that may be moved down, while the lock is held.
 */
static inline void htw_ring_unlock(struct htw_base *base, u64 now, unsigned int budget)
	__releases(&base->lock)
{
	if (unlikely(base->is_stale || READ_ONCE(base->told) || base->next <= now ||
		     htw_wheel_next_is_stale(&base->wheel, base->next_tick))) {
		htw_ring_unlock_slow(base, now, budget);
		return;
	}
	spin_unlock(&base->lock);
}

#endif /* _HTW_RING_H */
