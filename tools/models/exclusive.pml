/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait with EPOLLEXCLUSIVE, of which an event wakes one (core/wake.c, core/reader.c)
 *
 * Stands for htw_wake_walk_on(), htw_reader_pass_on(), htw_chardev_flush() and the kernel's
 * ep_poll() and ep_poll_callback(): a task looks for events, and sleeps in its epoll set if none
 * is there; its entry stays on the context's list until it ends. A walk calls the entries in order
 * up to the first whose task sleeps, under wait.lock. A task that was woken reads one event, and
 * ends; or it is killed before. The first delivery has two events, and walks once. How a walk is
 * divided into turns is in wake.pml.
 *
 * Promised: when nothing can happen any more, no task sleeps while an event waits.
 *
 * check:
 * check: -DKILL
 * reject: -DKEEP		a task that leaves events behind wakes nobody
 * reject: -DKILL -DKEEP_KILLED	nor does one that is killed
 * reject: -DLATE		that a task was woken alone is noted after it was woken
 * reject: -DFORGET	or forgotten as soon as it is
 */

#define TASKS		3

bool asleep[TASKS], ready[TASKS], gone[TASKS];
bool alone, locked;
byte events;

/* htw_wake_pollers() */
inline walk()
{
	atomic { !locked -> locked = true; i = 0 };
	do
	:: atomic { i == TASKS -> alone = false; locked = false; break }
	:: atomic { i < TASKS && gone[i] -> i++ }
	:: i < TASKS && !gone[i] ->
#ifndef LATE
		alone = true;
#endif
		/* ep_poll_callback() */
		atomic {
			woken = asleep[i];
			asleep[i] = false;
			ready[i] = true;
#ifdef FORGET
			alone = false;
#endif
			i++
		};
		if
		:: atomic { woken ->
#ifdef LATE
			alone = true;
#endif
			locked = false;
			break }
		:: else
		fi
	od
}

/* htw_reader_pass_on() */
inline pass_on()
{
	if
	:: events && alone -> walk()
	:: else
	fi
}

proctype task(byte me)
{
	byte i;
	bool woken, taken;

	do
	:: /* ep_send_events() */
		ready[me] = false;
		if
		:: events ->
#ifdef KILL
			if
			:: break
			:: skip
			fi;
#endif
			atomic {
				taken = events > 0;
				events = events - taken
			};
			if
			:: taken -> break
			:: else
			fi
		:: else
		fi;
		/* ep_poll(), under the lock of the epoll set */
		atomic {
			if
			:: !ready[me] -> asleep[me] = true
			:: else
			fi
		};
end:		!asleep[me]
	od;
	if
#ifdef KEEP
	:: taken -> skip
#endif
#ifdef KEEP_KILLED
	:: !taken -> skip
#endif
	:: else -> pass_on()
	fi;
	gone[me] = true
}

proctype delivery(byte count)
{
	byte i;
	bool woken;

	events = events + count;
	walk()
}

active proctype main()
{
	byte i;

	atomic {
		do
		:: i < TASKS -> run task(i); i++
		:: else -> break
		od;
		run delivery(2);
		run delivery(1)
	}
	timeout -> i = 0;
	do
	:: i < TASKS -> assert(!asleep[i] || !events); i++
	:: else -> break
	od
}
