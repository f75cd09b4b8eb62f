/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The walk over the waiters of a context, with its mark (core/wake.c)
 *
 * Stands for htw_wake_contexts(), htw_wake_pollers(), htw_wake_begin(), htw_wake_walk(),
 * htw_wake_walk_on(), htw_wake_schedule() and htw_wake_serve(), and for a program's side: a task
 * in poll() puts itself on the list, then looks for events (htw_chardev_poll()), then sleeps.
 *
 * Two deliveries have events; each wakes at most UNITS waiters itself. The list is a set, and the
 * mark divides it: @ahead are the waiters behind it. Waiters join at the head, exclusive ones at
 * the tail. What is done under wait.lock is one step. An event is never consumed: each waiter
 * wants to be woken for each. With STALL the first delivery stops for good, anywhere outside of
 * wait.lock, as if its task was preempted.
 *
 * Assumed: a job that is scheduled gets its turns (kick.pml).
 *
 * Promised: when nothing can happen any more, nobody who was on the list when an event came has
 * slept through it, unless the delivery that had the event was stopped; for each event an
 * exclusive waiter is woken, and no more of them than there were events; the job is never on two
 * of its pacer's lists.
 *
 * check:
 * check: -DPOLLS=2
 * check: -DSTALL
 * check: -DTHREE -DONE -DEXCLUSIVE=12
 * check: -DTHREE -DONE -DEXCLUSIVE=14
 * reject: -DOWNED -DSTALL	a walk belongs to the task that has begun it
 * reject: -DPOLLS=2 -DNO_AGAIN	events during a walk are forgotten
 * reject: -DPOLLS=2 -DMARK_LOST	a walk that starts over leaves no mark
 * reject: -DNO_JOB	what a delivery leaves is left to the next one
 * reject: -DPOLLS=2 -DDONE_BY_WALKER	the end of the walk, and not its own turn, ends the job
 * reject: -DEARLY_LOOK	the delivery looks for waiters while its event is on its way
 * reject: -DEARLY_POLL	a waiter looks for events while it is on its way to the list
 * reject: -DTHREE -DONE -DEXCLUSIVE=12 -DSTOP_AT_AWAKE	an exclusive waiter ends it, though awake
 * reject: -DTHREE -DONE -DEXCLUSIVE=12 -DWAKE_ALL	the walk wakes all exclusive waiters
 */

#ifndef EXCLUSIVE
#define EXCLUSIVE	0	/* set of exclusive waiters */
#endif
#ifndef UNITS
#define UNITS		1
#endif
#ifndef POLLS
#define POLLS		1	/* of each waiter */
#endif
#define DELIVERIES	2

byte list, ahead;		/* waiters; those behind the mark */
bool walking;			/* the mark is on the list */
bool again;
bool scheduled, queued;		/* the job's bit; on a list of its pacer */

byte events, last;		/* and which delivery had the last one */
byte awake;			/* waiters that were woken and have not looked since */
byte due[DELIVERIES];		/* those who must not sleep through a delivery's event */
bool due_exclusive[DELIVERIES];
byte woken_exclusive;
bool stalled;

#define SLEEPERS	(list & ~awake)

inline wake(w)
{
	due[0] = due[0] & ~w;
	due[1] = due[1] & ~w;
	if
	:: w & EXCLUSIVE & ~awake ->
		woken_exclusive++;
		assert(woken_exclusive <= events);
		due_exclusive[0] = false;
		due_exclusive[1] = false;
#ifndef WAKE_ALL
		ahead = 0;
#endif
	:: else
	fi;
#ifdef STOP_AT_AWAKE
	if
	:: w & EXCLUSIVE -> ahead = 0
	:: else
	fi;
#endif
	awake = awake | w
}

/* Under wait.lock, from the mark. */
inline walk(units, ended)
{
	ended = false;
	do
	:: !ahead && again ->
		again = false;
#ifdef MARK_LOST
		walking = false;
		ended = true;
		break
#else
		ahead = list
#endif
	:: !ahead && !again ->
		walking = false;
		ended = true;
		break
	:: ahead && !units -> break
	:: ahead && units ->
		units--;
		if
		:: ahead & ~EXCLUSIVE & 2 -> w = 2
		:: !(ahead & ~EXCLUSIVE & 2) && ahead & ~EXCLUSIVE & 4 -> w = 4
		:: !(ahead & ~EXCLUSIVE) && ahead & 2 -> w = 2
		:: !(ahead & ~EXCLUSIVE) && ahead & 4 -> w = 4
		:: !(ahead & ~EXCLUSIVE) && ahead & 8 -> w = 8
		fi;
		ahead = ahead & ~w;
		wake(w);
		w = 0
	od
}

inline begin()
{
	if
	:: walking ->
#ifndef NO_AGAIN
		again = true
#else
		skip
#endif
	:: !walking ->
		again = false;
		walking = true;
		ahead = list
	fi
}

#ifdef STALL
#define MAY_STOP	if :: me == 0 -> stalled = true; goto stop :: skip fi
#else
#define MAY_STOP	skip
#endif

proctype delivery(byte me)
{
	byte n, units, w;
	bool any, ended;

	do
	:: n <= me ->
		n++;
#ifdef EARLY_LOOK
		any = list != 0;
#endif
		atomic {
			events++;
			last = me;
			due[me] = due[me] | (SLEEPERS & ~EXCLUSIVE);
			due_exclusive[me] = due_exclusive[me] || (SLEEPERS & EXCLUSIVE)
		}
		MAY_STOP;
#ifndef EARLY_LOOK
		any = list != 0;
#endif
		if
		:: any ->
#ifdef OWNED
			atomic {
				units = UNITS;
				if
				:: walking -> again = true; ended = true
				:: !walking -> begin(); walk(units, ended)
				fi
			}
			do
			:: ended -> break
			:: !ended ->
				MAY_STOP;
				atomic { units = UNITS; walk(units, ended) }
			od
#else
			atomic {
				units = UNITS;
				begin();
				walk(units, ended);
				if
#ifndef NO_JOB
				:: !ended && !scheduled ->
					scheduled = true;
					assert(!queued);
					queued = true
#endif
#ifdef DONE_BY_WALKER
				:: ended -> scheduled = false
#endif
				:: else
				fi;
				units = 0;
				ended = false
			}
			MAY_STOP
#endif
		:: !any
		fi;
		any = false
	:: n > me -> break
	od;
stop:	n = 0
}

/* The job's turns: htw_wake_serve(), and htw_pacer_serve() around it. */
proctype job()
{
	byte units, w;
	bool ended;

end:	do
	:: atomic { queued -> queued = false }
		atomic {
			units = UNITS;
			if
			:: !walking -> ended = true
			:: walking -> walk(units, ended)
			fi;
			units = 0;
			if
			:: ended -> scheduled = false
			:: !ended
			fi
		}
		atomic {
			if
			:: !ended ->
				assert(!queued);
				queued = true
			:: ended
			fi;
			ended = false
		}
	od
}

/* A task that polls. */
proctype waiter(byte me)
{
	byte seen, now, n;

	do
	:: n < POLLS ->
		atomic { n++; seen = events }	/* has consumed those */
#ifdef EARLY_POLL
		now = events;
#endif
		atomic {
			list = list | me;
			if
			:: me & EXCLUSIVE && walking -> ahead = ahead | me
			:: else
			fi;
			if
			:: events != seen && !(me & EXCLUSIVE) -> due[last] = due[last] | me
			:: else
			fi
		}
#ifndef EARLY_POLL
		now = events;
#endif
		if
		:: now == seen ->
end:			awake & me	/* sleeps */
		:: now != seen
		fi;
		atomic {
			seen = 0;
			now = 0;
			list = list & ~me;
			ahead = ahead & ~me;
			awake = awake & ~me;
			due[0] = due[0] & ~me;
			due[1] = due[1] & ~me;
			if
			:: !(SLEEPERS & EXCLUSIVE) ->
				due_exclusive[0] = false;
				due_exclusive[1] = false
			:: else
			fi
		}
	:: n == POLLS -> break
	od
}

init
{
	atomic {
#ifndef ONE
		run delivery(0);
#endif
		run delivery(1);
		run job();
		run waiter(2);
		run waiter(4)
#ifdef THREE
		;
		run waiter(8)
#endif
	}
	timeout;
	assert(!due[1] && (stalled || !due[0]));
	assert(!due_exclusive[1] && (stalled || !due_exclusive[0]));
	assert(!walking || stalled)
}
