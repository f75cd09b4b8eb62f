// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clocks, and what a time namespace adds to them
 */

#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/time_namespace.h>

#include "clock.h"
#include "htw_arith.h"
#include "htw_wheel.h"

/* A clock as programs name it. */
int htw_clock_id(enum htw_clock clock)
{
	static const int ids[] = {
		[HTW_MONOTONIC]	= CLOCK_MONOTONIC,
		[HTW_BOOTTIME]	= CLOCK_BOOTTIME,
		[HTW_REALTIME]	= CLOCK_REALTIME,
		[HTW_MANUAL]	= HTW_CLOCK_MANUAL,
	};

	return ids[clock];
}

/* What the caller's time namespace adds to a clock, in ns. */
s64 htw_clock_offset(enum htw_clock clock)
{
#ifdef CONFIG_TIME_NS
	const struct timens_offsets *offsets = &current->nsproxy->time_ns->offsets;

	if (clock == HTW_MONOTONIC)
		return timespec64_to_ns(&offsets->monotonic);
	if (clock == HTW_BOOTTIME)
		return timespec64_to_ns(&offsets->boottime);
#endif
	return 0;
}

/* A time that a program with this offset gives. */
u64 htw_clock_from_user(u64 time, s64 offset)
{
	if (offset > 0)
		return time > (u64)offset ? time - offset : 0;
	return htw_arith_sum(time, -offset);
}

/* A time for a program with this offset. */
u64 htw_clock_to_user(u64 time, s64 offset)
{
	if (time == HTW_NEVER)
		return time;
	if (offset >= 0)
		return htw_arith_sum(time, offset);
	return time > (u64)-offset ? time + offset : 0;
}
