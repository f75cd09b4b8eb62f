/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Looking: two CPUs that each store something, and then look for what the other one stores
 *
 * Each pair is what either of them stores, and looks for after that:
 *
 *	0	a base in its set, and the count of a timer on it		core/bases.c
 *		htw_clock_sets, and the bases to be waited for			core/cancel_on_set.c
 *	1	a context on the list of listeners, and its timers' count	core/cancel_on_set.c
 *		htw_clock_sets, and the lists of listeners			core/cancel_on_set.c
 *	2	a recipient of SIGIO, and events in the ring			htw_chardev.c
 *		events in the ring, and recipients of SIGIO			core/wake.c
 *
 * Stands for the full barrier between the two accesses. Without it, in the broken variants, the
 * store waits in a buffer of its CPU until the other access is over.
 *
 * Promised: one of them sees what the other one has stored.
 *
 * check:
 * reject: -DLATE=0	a timer has the old count while its base is on its way to the set
 * reject: -DLATE=1	bases are looked for while the count is on its way
 * reject: -DLATE=2	a timer has the old count while its context is on its way to the list
 * reject: -DLATE=3	listeners are looked for while the count is on its way
 * reject: -DLATE=4	a program looks at its ring while its wish for SIGIO is on its way
 * reject: -DLATE=5	recipients are looked for while the event is on its way
 */

#define PAIRS	3

bool stored[2 * PAIRS];
byte blind;	/* those that have not seen the other one's store */

#define other(me)	(me % 2 -> me - 1 : me + 1)

proctype look(byte me)
{
	bool seen;

#ifdef LATE
	if
	:: me == LATE -> seen = stored[other(me)]; stored[me] = true
	:: me != LATE -> stored[me] = true; seen = stored[other(me)]
	fi;
#else
	stored[me] = true;
	seen = stored[other(me)];
#endif
	if
	:: seen
	:: !seen -> blind++
	fi;
	assert(blind < 2)
}

init
{
	byte n;

	do
	:: n + 1 < PAIRS -> n++
	:: break
	od;
	atomic {
		run look(2 * n);
		run look(2 * n + 1)
	}
}
