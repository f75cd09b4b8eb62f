/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The readers of a context, of which an event wakes one (core/wake.c, core/reader.c)
 *
 * Stands for htw_wake_reader(), htw_reader_read() and wait_event_interruptible_exclusive(): a
 * reader looks for events, queues, looks again, and sleeps. A signal wakes a reader, which then
 * stays on the queue until it has run. Who wakes a reader looks at LOOKS of the queue, up to the
 * first that sleeps. Which ones come first is left open. What is done under the lock of the queue
 * is one step.
 *
 * Promised: when nothing can happen any more, no reader sleeps while an event waits.
 *
 * check:
 * check: -DLOOKS=2
 * reject: -DKEEP		a reader that leaves an event behind wakes nobody
 * reject: -DEARLY_LOOK	a reader looks for events while it is on its way to the queue
 */

#ifndef LOOKS
#define LOOKS		1	/* HTW_WAKE_MAX */
#endif
#ifndef SIGNALS
#define SIGNALS		1
#endif
#ifndef EVENTS
#define EVENTS		2
#endif

byte queued, asleep, signalled;	/* sets of readers */
byte events;

inline wake_reader()
{
	atomic {
		do
		:: looks < LOOKS && queued & ~passed ->
			looks++;
			if
			:: queued & ~passed & 1 -> r = 1
			:: queued & ~passed & 2 -> r = 2
			:: queued & ~passed & 4 -> r = 4
			fi;
			if
			:: asleep & r ->
				asleep = asleep & ~r;
				queued = queued & ~r;
				break
			:: else -> passed = passed | r
			fi
		:: else -> break
		od;
		looks = 0;
		passed = 0;
		r = 0
	}
}

/* htw_reader_available(): its buffer has room for one event. */
inline take()
{
	atomic {
		if
		:: events -> events--; taken = true
		:: else
		fi
	}
}

/* At the end of htw_reader_read(). */
inline pass_on()
{
#ifndef KEEP
	if
	:: events -> wake_reader()
	:: else
	fi
#else
	skip
#endif
}

proctype reader(byte me)
{
	byte looks, passed, r;
	bool taken, found, interrupted;

	do
	:: take();
		if
		:: taken -> break
		:: else
		fi;
		do
		::
#ifdef EARLY_LOOK
			found = events > 0;
#endif
			/* prepare_to_wait_event() */
			atomic {
				interrupted = signalled & me;
				if
				:: interrupted -> queued = queued & ~me
				:: else -> queued = queued | me; asleep = asleep | me
				fi
			}
#ifndef EARLY_LOOK
			found = events > 0;
#endif
			if
			:: found -> interrupted = false; break
			:: interrupted && !found -> break
			:: else
			fi;
			/* schedule() */
end:			!(asleep & me)
		od;
		/* finish_wait() */
		atomic { queued = queued & ~me; asleep = asleep & ~me };
		if
		:: interrupted -> break
		:: else
		fi
	od;
	pass_on()
}

proctype delivery()
{
	byte n, looks, passed, r;

	do
	:: n < EVENTS ->
		n++;
		events++;
		wake_reader()
	:: else -> break
	od
}

proctype signals()
{
	byte n, r;

	do
	:: n < SIGNALS ->
		atomic {
			n++;
			if
			:: r = 1
			:: r = 2
			:: r = 4
			fi;
			signalled = signalled | r;
			asleep = asleep & ~r
		}
	:: else -> break
	od
}

active proctype main()
{
	atomic {
		run reader(1);
		run reader(2);
		run reader(4);
		run delivery();
		run signals()
	}
	timeout -> assert(!asleep || !events)
}
