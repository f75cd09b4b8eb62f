/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait with EPOLLEXCLUSIVE, of which an event wakes one (core/wake.c, core/reader.c)
 *
 * Stands for htw_wake_pollers(), htw_wake_walk_on(), htw_wake_next_poller(), htw_wake_serve(),
 * htw_reader_pass_on(), htw_chardev_flush() and the kernel's ep_poll() and ep_poll_callback(). A
 * task looks for events, and sleeps in its epoll set if none is there; its entry stays on the
 * context's list until it ends. A walk calls the entries in order, up to the first whose task
 * sleeps, and leaves a note behind it. A task that was woken reads one event, and ends; or it is
 * killed before. If it leaves events, the pacer walks on from the note. The first delivery has two
 * events. What is done under wait.lock cannot be divided, but tasks that were woken run beside it.
 * How a walk is divided into turns is in wake.pml.
 *
 * Promised: when nothing can happen any more, no task sleeps while an event waits.
 *
 * check:
 * check: -DKILL
 * reject: -DKEEP		a task that leaves events behind wakes nobody
 * reject: -DKILL -DKEEP_KILLED	nor does one that is killed
 * reject: -DLATE		the note is left after the task was woken
 * reject: -DNO_JOB		the walk is left to the next delivery
 */

#define TASKS		3
#define NONE		9

bool asleep[TASKS], ready[TASKS], gone[TASKS];
bool locked, job, again;
byte events, mark = NONE, rest = NONE;

inline lock()
{
	atomic { !locked -> locked = true }
}

/* htw_wake_walk(), from the mark */
inline walk()
{
	do
	:: atomic { mark == TASKS || mark == NONE -> rest = NONE; mark = NONE; woken = true };
		atomic {
			if
			:: again -> again = false; mark = 0; woken = false
			:: else
			fi
		};
		if
		:: woken -> break
		:: else
		fi
	:: atomic { mark < TASKS && gone[mark] -> mark++ }
	:: mark < TASKS && !gone[mark] ->
#ifndef LATE
		rest = mark + 1;
#endif
		/* ep_poll_callback() */
		atomic {
			woken = asleep[mark];
			asleep[mark] = false;
			ready[mark] = true;
			mark++
		};
		if
		:: woken ->
#ifdef LATE
			rest = mark;
#endif
			atomic {
				mark = NONE;
				woken = false;
				if
				:: again -> again = false; mark = 0; rest = NONE
				:: else -> woken = true
				fi
			};
			if
			:: woken -> break
			:: else
			fi
		:: else
		fi
	od
}

/* htw_reader_pass_on(): the first look is without the lock. */
inline pass_on()
{
	if
	:: events ->
		if
		:: rest != NONE ->
			lock();
			atomic {
				if
				:: mark == NONE && rest != NONE ->
					mark = rest;
					rest = NONE;
#ifndef NO_JOB
					job = true
#endif
				:: else
				fi;
				locked = false
			}
		:: else
		fi
	:: else
	fi
}

proctype task(byte me)
{
	bool taken;

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

/* htw_wake_pollers() */
proctype delivery(byte count)
{
	bool woken;

	events = events + count;
	lock();
	atomic {
		if
		:: mark == NONE -> mark = 0; rest = NONE
		:: else -> again = true
		fi
	};
	walk();
	locked = false
}

/* htw_wake_serve() */
proctype pacer()
{
	bool woken;

	do
	:: atomic { job -> job = false };
		lock();
		if
		:: mark != NONE -> walk()
		:: else
		fi;
		locked = false
	:: timeout -> break
	od
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
		run delivery(1);
		run pacer()
	}
	timeout -> i = 0;
	do
	:: i < TASKS -> assert(!asleep[i] || !events); i++
	:: else -> break
	od
}
