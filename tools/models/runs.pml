/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiting for the function of a callout on PREEMPT_RT (core/callout.c)
 *
 * Stands for htw_callout_enter(), htw_callouts_serve(), htw_callout_leave() and
 * htw_callout_stop_sync(). A base calls the functions of two callouts, of which the second takes a lock, and
 * either may start itself once more. Tasks stop the first one with that lock held, or without, and the
 * second one. Any task may get no CPU at any point, and whoever comes to a lock that is free gets it: so the
 * thread that calls functions may take one again before a task that was woken for it.
 *
 * Promised: nobody waits for ever, and a callout that was stopped does not run, nor will it.
 *
 * check:
 * check: -DRUNS=3 -DOTHERS
 * reject: -DONE_LOCK		all functions run with the same lock
 * reject: -DGATE		and it is taken with another one, which who waits keeps until he has it
 * reject: -DNOTED_LATE		a task says that it waits when it has dropped the base's lock
 * reject: -DGONE_EARLY		it says that it has gone before it has waited
 */

#ifndef RUNS
#define RUNS	2
#endif

bool lock;			/* the second function's, and of one task */
bool gate;			/* only with GATE */
byte running;			/* a callout, from 1 on, or 0 */
byte now;			/* of the function that runs */
bool held[RUNS];
byte waiters[RUNS];
bool pending[3];
bool again[3];			/* it may start itself */

#define TAKE(l)	atomic { !l -> l = true }

/* htw_callout_enter() */
inline enter()
{
#ifdef GATE
	TAKE(gate);
	TAKE(held[0]);
	gate = false
#else
#ifdef ONE_LOCK
	now = 0;
#else
	/* If there is none, at the next tick. */
	atomic {
		if
		:: !waiters[0] -> now = 0
		:: waiters[0] && !waiters[1] -> now = 1
#if RUNS > 2
		:: waiters[0] && waiters[1] && !waiters[2] -> now = 2
#endif
		fi
	};
#endif
	TAKE(held[now])
#endif
}

proctype softirq()
{
end:	do
	:: pending[1] || pending[2] ->
		enter();
		atomic {
			if
			:: pending[1] -> pending[1] = false; running = 1
			:: pending[2] -> pending[2] = false; running = 2
			:: else
			fi
		};
		if
		:: running == 2 -> TAKE(lock); lock = false
		:: else
		fi;
		if
		:: running && again[running] ->
			atomic { again[running] = false; pending[running] = true }
		:: true
		fi;
		running = 0;
		held[now] = false
	od
}

/* htw_callout_wait() */
inline wait()
{
#ifdef GATE
	TAKE(gate);
	if
	:: running == callout -> TAKE(held[0]); gate = false; held[0] = false
	:: else -> gate = false
	fi
#else
#ifdef NOTED_LATE
	waiters[mine]++;
#endif
#ifdef GONE_EARLY
	waiters[mine]--;
#endif
	TAKE(held[mine]);
	held[mine] = false;
#ifndef GONE_EARLY
	waiters[mine]--
#endif
#endif
}

/* htw_callout_stop_sync() */
proctype task(byte callout; bool locks)
{
	byte mine;
	bool waits;

	if
	:: locks -> TAKE(lock)
	:: !locks
	fi;
	do
	:: atomic {
			waits = running == callout;
			if
			:: waits ->
				mine = now;
#ifndef NOTED_LATE
				waiters[mine]++
#endif
			:: !waits -> pending[callout] = false
			fi
		};
		if
		:: waits -> wait()
		:: !waits -> break
		fi
	od;
	assert(running != callout && !pending[callout]);
	if
	:: locks -> lock = false
	:: !locks
	fi
}

init
{
	atomic {
		pending[1] = true;
		pending[2] = true;
		again[1] = true;
		again[2] = true;
		run softirq();
		run task(1, true);
		run task(2, false);
#ifdef OTHERS
		run task(1, false)
#endif
	}
}
