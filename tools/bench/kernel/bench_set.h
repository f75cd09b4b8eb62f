/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A set of timers of one kind, and what is done with them
 *
 * Each result is checked: that a timer is pending before it is re-armed or
 * stopped, that it expires once, and not early. A timer_list without a function is
 * never pending, and looks twice as fast.
 */
#ifndef _HTW_BENCH_SET_H
#define _HTW_BENCH_SET_H

#include <linux/atomic.h>
#include <linux/ktime.h>
#include <linux/types.h>

struct bench_set;

/**
 * struct bench_system - a kind of timer
 * @name: as reports call it
 * @size: of one, with nothing besides
 * @units: converts ns to what the system counts in, rounded so that none is
 *	early; NULL for ns
 * @init: prepares all
 * @add: starts all, with their delays
 * @rearm: gives the first @count in random order their new delay
 * @cancel: stops the first @count in random order
 * @drain: stops what is left, and waits for what runs
 *
 * @add, @rearm and @cancel return how many they have found in the wrong state.
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
 * struct bench_set - timers and what is done with them
 * @system: NULL while closed
 * @timers: array of the system's own
 * @pending: how many
 * @rearm_order: the order to re-arm them
 * @cancel_order: the order to stop them
 * @delay: in ns, from @base or later
 * @later: in ns, for re-arming
 * @delay_units: @delay in the system's units
 * @later_units: @later in the system's units
 * @seen: which have expired
 * @base: CLOCK_MONOTONIC before the first was started
 * @collected: how many have expired
 * @wrong: how many expired early, or again
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

/* Timer functions find it here: it would be each timer's own cost otherwise. */
extern struct bench_set bench_set;

/* To be called by a timer's function. */
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
