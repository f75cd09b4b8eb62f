/* SPDX-License-Identifier: GPL-2.0-only */
/* Times in ns; on CLOCK_MONOTONIC unless a clock is named. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <linux/types.h>
#include <errno.h>
#include <time.h>

#define USEC	1000ULL
#define MSEC	1000000ULL
#define SEC	1000000000ULL

static inline __u64 clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static inline __u64 now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* Continues after a signal. */
static inline void sleep_until(__u64 when)
{
	struct timespec ts = {
		.tv_sec = when / SEC,
		.tv_nsec = when % SEC,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

#endif /* COMMON_CLOCK_H */
