/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A set of timers of one kind, and operations on them
 *
 * Each result is checked: a timer is pending before it is re-armed or stopped,
 * and expires once, not early. (A timer_list without a function is never
 * pending, and looks twice as fast.)
 */
#ifndef _HTW_BENCH_SET_H
#define _HTW_BENCH_SET_H

#include <linux/atomic.h>
#include <linux/ktime.h>
#include <linux/types.h>

struct bench_set;

/**
 * struct bench_system - a kind of timer
 * @name: name in reports
 * @size: bytes of one timer
 * @units: convert ns to the system's unit, rounding up; NULL for ns
 * @init: initialise all timers
 * @add: start all timers with their delays
 * @rearm: move the first @count in random order
 * @cancel: stop the first @count in random order
 * @drain: stop all that are left, and wait for running functions
 *
 * @add, @rearm and @cancel return how many timers were in a wrong state.
 */
struct bench_system {
	const char *name;
	size_t size;
	u64 (*units)(u64 ns);
	void (*init)(struct bench_set *set);
	u32 (*add)(struct bench_set *set);
	u32 (*rearm)(struct bench_set *set, u32 count);
	u32 (*cancel)(struct bench_set *set, u32 count);
	void (*drain)(struct bench_set *set);
};

extern const struct bench_system bench_htw, bench_timer_list, bench_hrtimer;

/**
 * struct bench_set - timers and their delays
 * @system: NULL while closed
 * @timers: array of the system's timers
 * @pending: number of timers
 * @rearm_order: numbers of the timers in the order to re-arm them
 * @cancel_order: the same for stopping
 * @delay: in ns, from @base or later
 * @later: in ns, for re-arming
 * @delay_units: @delay in the system's unit
 * @later_units: @later in the system's unit
 * @seen: timers that have expired
 * @base: CLOCK_MONOTONIC before the first start
 * @collected: number of expirations
 * @wrong: early or repeated expirations
 */
struct bench_set {
	const struct bench_system *system;
	void *timers;
	u32 pending;
	u32 *rearm_order;
	u32 *cancel_order;
	u64 *delay;
	u64 *later;
	u64 *delay_units;
	u64 *later_units;
	u8 *seen;
	u64 base;
	atomic_t collected;
	atomic_t wrong;
};

/* Global, so that the timers need no pointer to it. */
extern struct bench_set bench_set;

/* Call this from a timer's function. */
static inline void bench_expired(struct bench_set *set, u32 timer)
{
	if (set->seen[timer] || ktime_get_ns() < set->base + set->delay[timer])
		atomic_inc(&set->wrong);
	set->seen[timer] = 1;
	atomic_inc(&set->collected);
}

int bench_prepare(struct bench_set *set, u32 pending);
int bench_open(struct bench_set *set, const struct bench_system *system);
void bench_close(struct bench_set *set);
void bench_forget(struct bench_set *set);

#endif /* _HTW_BENCH_SET_H */
