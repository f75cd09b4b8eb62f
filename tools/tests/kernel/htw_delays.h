/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The delays of core/delay.h
 */
#ifndef _HTW_DELAYS_H
#define _HTW_DELAYS_H

#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>

#define HTW_DELAYS_ON	true

/* One place in eight waits, so that the others still meet. */
static inline u32 htw_delay_choose(u32 most)
{
	/* get_random_u32() takes a lock that sleeps on PREEMPT_RT. */
	const u32 r = hash_64(local_clock() ^ (unsigned long)current, 32);

	return r % 8 ? 0 : (r >> 8) % most;
}

/* Where preemption may be off: up to 300 us. */
static inline void htw_delay_atomic(void)
{
	const u32 us = htw_delay_choose(300);

	if (us)
		udelay(us);
}

/*
 * Where a task holds no lock: up to 3 ms. One that has queued itself to wait
 * must not sleep here: it would go on as if it had been woken.
 */
static inline void htw_delay(void)
{
	u32 us;

	if (READ_ONCE(current->__state) != TASK_RUNNING) {
		htw_delay_atomic();
		return;
	}
	us = htw_delay_choose(3000);
	if (us)
		usleep_range(us, us + 1);
}

#endif /* _HTW_DELAYS_H */
