// SPDX-License-Identifier: GPL-2.0-only
/*
 * The clocks of wheels
 */

#include <linux/ktime.h>

#include "clock.h"

/* Read a clock other than %HTW_MANUAL. Return: its time in ns. */
u64 htw_clock_now(enum htw_clock clock)
{
	switch (clock) {
	case HTW_BOOTTIME:
		return ktime_get_boottime_ns();
	case HTW_REALTIME:
		return ktime_get_real_ns();
	default:
		return ktime_get_ns();
	}
}
