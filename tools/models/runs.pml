/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waiting for the function of a callout on PREEMPT_RT (core/callout.c)
 *
 * Stands for htw_callout_choose_run(), htw_callouts_expire(), htw_callouts_serve() and
 * htw_callout_stop_sync(). A base calls the functions of two callouts, of which the second takes a lock, and
 * either may start itself AGAIN times. Tasks stop the first one with that lock held, or without, and the
 * second one. Any task may get no CPU at any point, and whoever comes to a lock that is free gets it: so the
 * thread that calls functions may take one again before a task that was woken for it.
 *
 * Promised: nobody waits for ever, and a callout that was stopped does not run, nor will it; who stops it
 * cancels at most one start, and so can say whether it was one. With SHUT_DOWN nothing starts it again.
 *
 * check:
 * check: -DRUNS=3 -DOTHERS
 * check: -DAGAIN=2
 * check: -DAGAIN=2 -DSHUT_DOWN
 * reject: -DONE_LOCK		all functions run with the same lock
 * reject: -DGATE		and it is taken with another one, which who waits keeps until he has it
 * reject: -DNOTED_LATE		a task says that it waits when it has dropped the base's lock
 * reject: -DGONE_EARLY		it says that it has gone before it has waited
 * reject: -DTWICE -DAGAIN=2	it cancels a start each time it looks, though the function may make another
 */

#ifndef RUNS
#define RUNS	2
#endif
#ifndef AGAIN
#define AGAIN	1
#endif

bool lock;			/* the second function's, and of one task */
bool gate;			/* only with GATE */
byte running;			/* a callout, from 1 on, or 0 */
byte now;			/* of the function that runs */
bool held[RUNS];
byte waiters[RUNS];
bool pending[3];
byte again[3];			/* how often it may start itself */

#define TAKE(l)	atomic { !l -> l = true }

/* htw_callout_choose_run(), and take what that returns */
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
		do
		:: atomic {
				running && again[running] ->
				again[running]--;
				pending[running] = true
			}
		:: break
		od;
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

/* htw_callout_unlink(), and it is no longer pending */
inline detach()
{
	assert(!(cancelled && pending[callout]));
	cancelled = cancelled || pending[callout];
	pending[callout] = false
}

/* htw_callout_stop_sync() */
proctype task(byte callout; bool locks)
{
	byte mine;
	bool waits, cancelled;

	if
	:: locks -> TAKE(lock)
	:: !locks
	fi;
	do
	:: atomic {
			waits = running == callout;
#ifdef SHUT_DOWN
			again[callout] = 0;
			detach();
#endif
			if
			:: waits ->
				mine = now;
#ifdef TWICE
				detach();
#endif
#ifndef NOTED_LATE
				waiters[mine]++
#endif
			:: !waits -> detach()
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
		again[1] = AGAIN;
		again[2] = AGAIN;
		run softirq();
		run task(1, true);
		run task(2, false);
#ifdef OTHERS
		run task(1, false)
#endif
	}
}
