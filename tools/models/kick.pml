/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kick and run: how a job that any CPU schedules gets a run of its pacer (core/pacer.c)
 *
 * Stands for htw_pacer_add(), htw_pacer_kick(), htw_pacer_kicked(), htw_pacer_start(),
 * htw_pacer_run(), htw_pacer_end_run(), htw_pacer_collect() and htw_job_cancel(), for one pacer,
 * that of CPU 0.
 *
 * CPU 0 has three contexts: the kick's function in hardirq, which may interrupt anything there and
 * runs to its end; a run, in softirq; a task that schedules a job. A softirq interrupts the task.
 * With RT it is the other way round: the task preempts the run, unless preemption is off. Other
 * CPUs schedule jobs and cancel one. Each schedules its job again once it has been served.
 *
 * Memory is sequentially consistent, except for stores to @armed, and for the one that clears
 * @kicked: they wait in a store buffer of CPU 0 until a full barrier there, or until any later
 * time. llist_add() and test_and_set_bit() are full barriers.
 *
 * Assumed: the CPU stays online (handover.pml has hotplug); near times come, far ones (a flow gets
 * tokens again) may be too far away to help any other job.
 *
 * Promised: smp_call_function_single_async() is never called for a csd that is still in use; when
 * nothing can happen any more, every job has been served or cancelled, but for those of a
 * throttled flow, for which the hrtimer is queued; the CPU's own jobs are served even if another
 * CPU stops for good in the middle of its kick.
 *
 * check:
 * check: -DRT
 * check: -DSTALL
 * check: -DCANCEL -DREMOTES=1
 * check: -DCANCEL -DNO_TASK
 * check: -DROUNDS=2 -DREMOTES=1 -DMORE_WORK
 * check: -DREMOTES=1 -DTHROTTLE
 * check: -DREMOTES=1 -DTHROTTLE -DRT
 * reject: -DKICK_IF_EMPTY	kick if the list was empty: two CPUs queue the csd
 * reject: -DKICK_IF_EMPTY -DSTALL -DREMOTES=1	the own CPU leaves its start to another's kick
 * reject: -DNO_BARRIER -DREMOTES=1	a run looks at the list while its store to @armed is on its way
 * reject: -DNO_LAST_LOOK -DREMOTES=1	a run ends without another look at the list
 * reject: -DLOOK_UNLOCKED -DCANCEL -DNO_TASK	the last look comes without the lock
 * reject: -DARMED_THROTTLED -DREMOTES=1 -DTHROTTLE	@armed stays set for an hrtimer that is far away
 * reject: -DSTART_IF_IDLE -DREMOTES=1 -DTHROTTLE	an hrtimer that is far away counts as started
 * reject: -DKICKED_BY_RUN	the run, not the kick's function, ends the kick's ownership
 * reject: -DKICKED_FIRST	the kick's owner gives it up when it has sent the kick
 * reject: -DUNLOCK_LATE	the kick's function ends the ownership before the csd is seen unlocked
 */

#ifndef REMOTES
#define REMOTES	2	/* other CPUs that schedule */
#endif
#ifndef ROUNDS
#define ROUNDS	1	/* how often each schedules its job */
#endif

#define NONE	0
#define NEAR	1
#define FAR	2

#define OWN	1	/* the job that the task on CPU 0 schedules */
#define BIT(n)	(1 << (n))

byte incoming;		/* sets of jobs, one bit each */
byte ready;		/* with flows that are queued */
byte throttled;		/* with flows that are not */
byte scheduled;
byte dead;
byte stalled;		/* left to a CPU that has stopped */
bool lock;
bool kicked;		/* as other CPUs see it */
bool clearing;		/* CPU 0 has cleared it */
byte hrtimer;
bool serving;
bool was_throttled, tokens, more_work;

bool armed;		/* as CPU 0 sees it */
bool armed_seen;	/* as others do */

bool csd_locked, csd_queued;

bool in_hardirq, in_softirq, adding;

#ifdef RT
#define TASK_RUNS	(!in_hardirq)
#define SOFTIRQ_RUNS	(!in_hardirq && !adding)
#else
#define TASK_RUNS	(!in_hardirq && !in_softirq)
#define SOFTIRQ_RUNS	(!in_hardirq)
#endif

inline spin_lock()	{ atomic { !lock -> lock = true } }
inline spin_unlock()	{ lock = false }
inline smp_mb()
{
	d_step {
		armed_seen = armed;
		kicked = kicked && !clearing;
		clearing = false
	}
}

/* Atomic, as whoever comes in between on CPU 0 does the same. */
inline start()
{
	atomic {
		armed = true;
		if
#ifdef START_IF_IDLE
		:: hrtimer == NONE -> hrtimer = NEAR
#else
		:: hrtimer != NEAR -> hrtimer = NEAR
#endif
		:: else
		fi
	}
}

inline collect()
{
	d_step {
		ready = ready | (incoming & ~dead);
		scheduled = scheduled & ~(incoming & dead);
		incoming = 0
	}
}

/* smp_call_function_single_async(): its test and its set are plain accesses. */
inline smp_call()
{
#ifdef KICK_IF_EMPTY
	if
	:: csd_locked
	:: !csd_locked ->
		csd_locked = true;
		assert(!csd_queued);
		csd_queued = true
	fi
#else
	assert(!csd_locked);
	csd_locked = true;
	csd_queued = true
#endif
}

#ifdef STALL
#define MAY_STOP(jobs)	if :: id == 1 -> stalled = jobs; goto stop :: skip fi
#else
#define MAY_STOP(jobs)	skip
#endif

/* Another CPU. @scheduled is tested and set under the lock of the job's work, as is @dead. */
proctype remote(byte id)
{
	byte rounds;
	bool first;

end:	do
	:: atomic {
		rounds < ROUNDS && !((scheduled | dead) & BIT(id)) ->
		rounds++;
		scheduled = scheduled | BIT(id);
		first = !incoming;
		incoming = incoming | BIT(id)
	   }
		MAY_STOP(BIT(id));
#ifdef KICK_IF_EMPTY
		if
		:: first -> smp_call()
		:: else
		fi;
#else
		if
		:: armed_seen
		:: !armed_seen ->
			if
			:: kicked
			:: atomic { !kicked -> kicked = true }
				MAY_STOP(~OWN);	/* others rely on this kick, too */
				smp_call();
#ifdef KICKED_FIRST
				kicked = false
#endif
			fi
		fi;
#endif
		first = false
	:: rounds == ROUNDS || dead & BIT(id) -> break
	od;
stop:	first = false
}

/* The task on CPU 0. */
proctype task() provided (TASK_RUNS)
{
	byte rounds;
	bool first;

end:	do
	:: atomic {
		rounds < ROUNDS && !(scheduled & OWN) ->
		scheduled = scheduled | OWN;
		rounds++;
		adding = true;
		first = !incoming;
		incoming = incoming | OWN
	   }
		if
#ifdef KICK_IF_EMPTY
		:: first && !serving -> start()
#else
		:: !armed -> start()
#endif
		:: else
		fi;
		atomic { first = false; adding = false }
	:: rounds == ROUNDS -> break
	od
}

/* The interrupt on CPU 0: the core has taken the csd off its queue, and unlocks it. */
proctype hardirq()
{
end:	do
	:: atomic { csd_queued -> in_hardirq = true; csd_queued = false }
#ifdef UNLOCK_LATE
		kicked = false;
		csd_locked = false;
#else
		csd_locked = false;
#endif
#if !defined(KICKED_BY_RUN) && !defined(KICKED_FIRST) && !defined(UNLOCK_LATE)
		clearing = true;
#endif
		start();
		in_hardirq = false
	od
}

/* The turn of a job, without the lock. */
inline serve(job, more)
{
	atomic {
		if
		:: ready & BIT(0) -> job = BIT(0)
		:: ready & BIT(1) && !(ready & BIT(0)) -> job = BIT(1)
		:: ready == BIT(2) -> job = BIT(2)
		fi;
		ready = ready & ~job;
		serving = true;
		spin_unlock()
	}
	if
	:: scheduled = scheduled & ~job		/* no work is left */
#ifdef MORE_WORK
	:: !more_work -> atomic { more_work = true; more = true }
#endif
	:: dead & job -> more = true
	fi;
	atomic {
		spin_lock();
		serving = false;
		if
		:: more && !(dead & job) -> ready = ready | job
		:: more && dead & job -> scheduled = scheduled & ~job
		:: !more
		fi;
		job = 0;
		more = false;
		collect()
	}
}

/* The hrtimer's callback on CPU 0, and the run in it. */
proctype softirq() provided (SOFTIRQ_RUNS)
{
	byte job;
	bool more;

end:	do
	:: atomic { hrtimer == NEAR -> hrtimer = NONE; in_softirq = true }
#ifndef KICK_IF_EMPTY
		armed = true;
#endif
#ifdef KICKED_BY_RUN
		kicked = false;
#endif
		atomic {
			spin_lock();
			if
			:: tokens -> ready = ready | throttled; throttled = 0
			:: !tokens
			fi;
			collect()
		}
		do
		:: ready ->
			serve(job, more)
#ifdef THROTTLE
		:: atomic {
			ready && !was_throttled ->	/* a flow is out of tokens */
			was_throttled = true;
			throttled = ready;
			ready = 0
		   }
#endif
		:: break	/* no job is left, or the time is up */
		od;
		if
		:: ready -> hrtimer = NEAR
		:: else ->
			if
			:: throttled -> hrtimer = FAR
			:: !throttled
			fi;
#ifdef KICK_IF_EMPTY
#elif defined(ARMED_THROTTLED)
			armed = throttled != 0;
#else
			armed = false;
#endif
#ifndef NO_BARRIER
			smp_mb();
#endif
		fi;
#ifdef LOOK_UNLOCKED
		spin_unlock();
#endif
#ifndef NO_LAST_LOOK
		if
		:: incoming -> start()
		:: else
		fi;
#endif
#ifndef LOOK_UNLOCKED
		spin_unlock();
#endif
		in_softirq = false
	od
}

/* htw_job_cancel(), on another CPU: of the last CPU's job. */
proctype cancel()
{
	dead = BIT(REMOTES);
	atomic {
		spin_lock();
		collect();
		scheduled = scheduled & ~((ready | throttled) & dead);
		ready = ready & ~dead;
		throttled = throttled & ~dead;
		spin_unlock()
	}
}

proctype store_buffer()
{
end:	do
	:: armed_seen != armed -> armed_seen = armed
	:: atomic { clearing -> kicked = false; clearing = false }
	od
}

/* The far time comes, or does not come soon enough for anyone else. */
proctype clock()
{
	if
	:: atomic { hrtimer == FAR -> hrtimer = NEAR; tokens = true }
	:: skip
	fi
}

init
{
	byte id = 1;

	atomic {
		run softirq();
		run hardirq();
#ifndef NO_TASK
		run task();
#endif
		do
		:: id <= REMOTES -> run remote(id); id++
		:: else -> break
		od;
#ifdef CANCEL
		run cancel();
#endif
		run store_buffer();
#ifdef THROTTLE
		run clock()
#endif
	}
	id = 0;
	timeout;
	assert(!(scheduled & ~stalled & ~(hrtimer == FAR -> throttled : 0)))
}
