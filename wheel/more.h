/* SPDX-License-Identifier: MIT */
/*
 * More of the wheel: what programs call, and the kernel module does not
 */
#ifndef _HTW_WHEEL_MORE_H
#define _HTW_WHEEL_MORE_H

#include "../htw_wheel.h"

/*
 * Is the code of htw_wheel.c to be small rather than quick, as it is by default if
 * the compiler is told so (-Os, -Oz)? What it does is the same.
 */
#ifndef HTW_WHEEL_SMALL
#ifdef __OPTIMIZE_SIZE__
#define HTW_WHEEL_SMALL	1
#else
#define HTW_WHEEL_SMALL	0
#endif
#endif

/*
 * What the memory of levels takes, for an array: uint64_t words, as many as
 * htw_geometry_bytes() needs, or a few more. @slots is the sum of those of all
 * @levels. A slot takes two lists, and two bits.
 */
#define HTW_GEOMETRY_WORDS(levels, slots)				\
	((sizeof(struct htw_level) +					\
	  (levels) * (sizeof(struct htw_level) + sizeof(long)) +	\
	  (slots) * (8 * sizeof(struct list_head) + 1) / 4 + 7) / 8)

/* A function for each node; @arg is the caller's. */
typedef void htw_node_fn_t(struct htw_node *n, void *arg);

bool htw_wheel_add_levels(struct htw_wheel *w, const struct htw_geometry *geo,
			  void *memory, size_t bytes);
bool htw_wheel_advance(struct htw_wheel *w, u64 now, unsigned int *budget,
		       htw_node_fn_t *expired, void *arg);
bool htw_wheel_first_node(struct htw_wheel *w, unsigned int most,
			  struct htw_node **first);
struct htw_node *htw_wheel_evict(struct htw_wheel *w);
void htw_wheel_walk(struct htw_wheel *w, htw_node_fn_t *visit, void *arg);
bool htw_wheel_is_ahead(const struct htw_wheel *w, u64 tick);

/**
 * htw_tick_time() - the time at which a tick comes
 * @tick: the tick, as htw_wheel_next() returns it
 * @tick_ns: what a tick is, as for htw_tick_up()
 *
 * Return: the time; %HTW_NEVER for a tick whose time is no u64, as for a tick
 * that never comes.
 */
static inline u64 htw_tick_time(u64 tick, u64 tick_ns)
{
	return tick > div64_u64(U64_MAX, tick_ns) ? HTW_NEVER : tick * tick_ns;
}

/**
 * htw_time_after() - the end of a delay
 * @now: the present, a time or a tick
 * @delay: the delay, in the same unit
 *
 * Return: the sum; %HTW_NEVER if it is no u64.
 */
static inline u64 htw_time_after(u64 now, u64 delay)
{
	return delay > U64_MAX - now ? HTW_NEVER : now + delay;
}

/**
 * htw_tick_timeout() - how long poll() and its like are to wait for a tick
 * @tick: the tick, as htw_wheel_next() returns it
 * @tick_ns: what a tick is, in ns
 * @now_ns: the present time, of the clock whose ticks these are
 *
 * Return: ms, rounded up, so that a program is not back too early; 0 if the tick
 * has come; -1, which is "for ever", if it never does.
 */
static inline int htw_tick_timeout(u64 tick, u64 tick_ns, u64 now_ns)
{
	u64 time = htw_tick_time(tick, tick_ns), ms;

	if (time == HTW_NEVER)
		return -1;
	if (time <= now_ns)
		return 0;
	ms = div_u64(time - now_ns - 1, 1000000) + 1;
	return ms < 0x7fffffff ? (int)ms : 0x7fffffff;
}

/* The level of a tick that has not come; the search ends above the last. */
static inline const struct htw_level *htw_wheel_level(const struct htw_wheel *w,
						      u64 tick)
{
	const struct htw_level *lev = w->level;

	while (tick > lev->last)
		lev++;
	return lev;
}

#endif /* _HTW_WHEEL_MORE_H */
