/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clocks that alarms are on
 */
#ifndef _HTW_CLOCK_H
#define _HTW_CLOCK_H

#include <linux/ktime.h>
#include <linux/timekeeping.h>

/**
 * enum htw_clock - clocks that alarms are on
 * @HTW_MONOTONIC: CLOCK_MONOTONIC
 * @HTW_CLOCKS: their number
 */
enum htw_clock {
	HTW_MONOTONIC,
	HTW_CLOCKS,
};

/* Read a clock. Return: its time in ns. */
static inline u64 htw_clock_now(enum htw_clock clock)
{
	return ktime_get_ns();
}

static inline clockid_t htw_clock_id(enum htw_clock clock)
{
	return CLOCK_MONOTONIC;
}

#endif /* _HTW_CLOCK_H */
