/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clocks, and what a time namespace adds to them
 */
#ifndef _HTW_CLOCK_H
#define _HTW_CLOCK_H

#include <linux/ktime.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

/**
 * enum htw_clock - the clock of a context
 * @HTW_MONOTONIC: CLOCK_MONOTONIC
 * @HTW_BOOTTIME: CLOCK_BOOTTIME
 * @HTW_REALTIME: CLOCK_REALTIME
 * @HTW_CLOCKS: number of those that have alarms
 * @HTW_MANUAL: %HTW_CLOCK_MANUAL
 */
enum htw_clock {
	HTW_MONOTONIC,
	HTW_BOOTTIME,
	HTW_REALTIME,
	HTW_CLOCKS,
	HTW_MANUAL = HTW_CLOCKS,
};

/* Read a clock, but the manual one. Return: its time in ns. */
static inline u64 htw_clock_now(enum htw_clock clock)
{
	/* Most contexts have that. */
	if (likely(clock == HTW_MONOTONIC))
		return ktime_get_ns();
	return clock == HTW_BOOTTIME ? ktime_get_boottime_ns() : ktime_get_real_ns();
}

int htw_clock_id(enum htw_clock clock);
s64 htw_clock_offset(enum htw_clock clock);
u64 htw_clock_from_user(u64 time, s64 offset);
u64 htw_clock_to_user(u64 time, s64 offset);

#endif /* _HTW_CLOCK_H */
