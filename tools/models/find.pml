/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding: what others look at without a lock, once they see that it is there
 *
 * Each pair is something that is prepared, and the store that shows it to others:
 *
 *	0	settings of a context		@settled	core/context.h, core/setup.c
 *	1	&htw_context.sets_seen		@listens	core/cancel_on_set.c, core/context.c
 *	2	a base				the set's entry	core/bases.c
 *	3	an entry of the directory	@nr_pages	core/pool.c, core/context.h
 *	4	overrides that are zero		the page's @table	core/table.c, core/timer.h
 *	5	a timer's CPU and deadline	its state	core/timer.h, core/section.h
 *	6	timers that are uncharged	&htw_user.freed	core/user.c
 *	7	CLOCK_REALTIME			htw_clock_sets	core/clock_sets.c
 *	8	a private base			@clock		core/setup.c, core/context.h
 *
 * Stands for the stores that release, and the loads that acquire or on whose result the address
 * of the next one depends. Without that, in the broken variants, two accesses change their order.
 *
 * Promised: who sees that it is there finds it as it was prepared.
 *
 * check:
 * reject: -DEARLY=0	a context is settled before its settings are there
 * reject: -DEARLY=1	it listens before the count is there
 * reject: -DEARLY=2	a set has a base before that is initialised
 * reject: -DEARLY=3	a page is counted before it is in the directory
 * reject: -DEARLY=4	a page has overrides before they are zero
 * reject: -DEARLY=5	a timer is pending before it has its CPU
 * reject: -DEARLY=6	a closed context counts as freed before its timers are uncharged
 * reject: -DEARLY=7	the clock counts as set before it is
 * reject: -DEARLY=8	a context is on a manual clock before it has a base
 * reject: -DLATE=0	settings are read before the context is seen to be settled
 * reject: -DLATE=1	the count is read before the context is seen to listen
 * reject: -DLATE=3	the directory is read before the page is seen to be counted
 * reject: -DLATE=5	a timer's CPU is read before it is seen to be pending
 * reject: -DLATE=6	the limit is tried before a context is seen to be freed
 * reject: -DLATE=7	the clock is read before the count
 */

#define PAIRS	9

bool prepared[PAIRS], shown[PAIRS];

proctype publish()
{
	byte n;

	do
	:: n < PAIRS ->
#ifdef EARLY
		if
		:: n == EARLY -> shown[n] = true
		:: n != EARLY
		fi;
#endif
		prepared[n] = true;
		shown[n] = true;
		n++
	:: n == PAIRS -> break
	od
}

proctype find(byte n)
{
	bool seen, found;

#ifdef LATE
	if
	:: n == LATE -> found = prepared[n]; seen = shown[n]
	:: n != LATE -> seen = shown[n]; found = prepared[n]
	fi;
#else
	seen = shown[n];
	found = prepared[n];
#endif
	assert(found || !seen)
}

init
{
	byte n;

	do
	:: n + 1 < PAIRS -> n++
	:: break
	od;
	atomic {
		run publish();
		run find(n)
	}
}
