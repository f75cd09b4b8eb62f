/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hand-over: a job changes its pacer while a CPU goes offline and comes back (core/base.c,
 * core/pacer.c)
 *
 * Stands for htw_bases_cpu_offline(), htw_bases_cpu_online(), htw_bases_move(),
 * htw_bases_finish_move(), htw_pacer_migrate(), htw_pacer_migrate_job(), htw_pacer_callback() on another
 * CPU, htw_pacer_run(), htw_pacer_collect(), htw_pacer_serve(), htw_job_schedule(), htw_job_kill()
 * and htw_job_cancel(), for one job: a wheel's, or with WAKE that of a walk of waiters. CPU 0 goes
 * offline and comes back; CPU 1 adopts it meanwhile. The job is scheduled a few times, on either
 * CPU, and may be cancelled, and freed a grace period later, at any time.
 *
 * A wheel's job changes its pacer by hotplug, which cancelling holds off. A walk's gets the pacer
 * of the CPU that schedules it, and the adopter's when it is found on the lists of an offline
 * CPU's.
 *
 * Assumed: a kick serialises itself (kick.pml), and orders memory; a CPU goes offline between two
 * softirqs and with preemption on, and its hrtimers go to CPU 1 then; they may still be there when
 * it is back. RCU readers are runs, hrtimers' callbacks and sections that schedule a job.
 *
 * Promised: a job is on one list at most; nobody has it when it is freed, nor gets it afterwards;
 * when nothing can happen any more, a job that is scheduled and not dead has been served, and a
 * wheel's is with its own CPU's pacer.
 *
 * check:
 * check: -DWAKE -DROUNDS=2
 * check: -DCANCEL
 * check: -DCANCEL -DWAKE
 * reject: -DCANCEL -DWAKE -DCANCEL_ONCE	htw_job_cancel() does not look whether the pacer changed
 * reject: -DCANCEL -DWAKE -DPASS_UNLOCKED	a job has its pacer before it is on its list
 * reject: -DCANCEL -DKILL_UNLOCKED	a job is killed in the middle of its turn
 * reject: -DCANCEL -DNO_HOTPLUG_LOCK	a wheel's job is cancelled during hotplug
 * reject: -DCANCEL -DNO_FIRST_GP	a CPU may still add the job to its former pacer
 * reject: -DCANCEL -DNO_SECOND_GP	a run may still pass the job on when hotplug is over
 * reject: -DSTALE_ADOPTER	an hrtimer's callback takes a wheel back to the former adopter
 * reject: -DWAKE -DADOPTER_OR_KICK	the callback does not kick, and finds no adopter any more
 * reject: -DWAKE -DROUNDS=2 -DKEEP_ARMED	@armed stays set when the hrtimer was migrated
 * reject: -DROUNDS=2 -DKEEP_KICKED	@kicked stays set when the CPU is offline
 */

#ifndef ROUNDS
#define ROUNDS	1
#endif

#define NOBODY	2

/* By pacer: 0 and 1. */
bool incoming[2], ready[2];	/* the job is there */
bool lock[2];
bool armed[2];
bool hrtimer[2], kick[2];
byte adopter = NOBODY;		/* of CPU 0 */
bool migrated;			/* the hrtimer of pacer 0 is on CPU 1 */
bool online = true;
bool softirq0, preempt0;	/* CPU 0 is in a run, or schedules */

/* The job. */
byte pacer;
bool scheduled, dead, freed;
bool work;			/* the lock that guards its work */
bool callback;			/* the wheel's hrtimer's */

bool hotplug;			/* the lock */

/* RCU: readers, and those of them that each grace period waits for. */
byte readers, gp_hotplug, gp_cancel;

#define spin_lock(l)	atomic { !l -> l = true }
#define spin_unlock(l)	l = false

inline rcu_lock(me)	{ readers = readers | me }
inline rcu_unlock(me)
{
	atomic {
		readers = readers & ~me;
		gp_hotplug = gp_hotplug & ~me;
		gp_cancel = gp_cancel & ~me
	}
}
inline synchronize(gp)	{ gp = readers; !gp }

/* Each has a statement of its own, as the job is looked at. */
#define on_lists	(incoming[0] || incoming[1] || ready[0] || ready[1])

inline start(which)
{
	atomic {
		armed[which] = true;
		if
		:: !hrtimer[which] -> hrtimer[which] = true
		:: else
		fi
	}
}

/* htw_pacer_kick(), on CPU 1 for CPU 0 */
#ifdef KEEP_KICKED
bool kicked;

#define CAN_KICK	(online && !kicked)
#define refused		kicked = true
#else
#define CAN_KICK	online
#define refused		skip
#endif

/* htw_pacer_add() */
inline add(which, here)
{
	atomic {
		assert(!freed && !on_lists);
		incoming[which] = true
	}
	if
	:: armed[which]
	:: !armed[which] && which == here -> start(which)
	:: !armed[which] && which != here && (which == 1 || CAN_KICK) -> kick[which] = true
	:: !armed[which] && which != here && which == 0 && !CAN_KICK -> refused
	fi
}

inline collect(which, here, other)
{
	if
	:: atomic { incoming[which] -> incoming[which] = false; assert(!freed) }
		if
		:: dead
		:: !dead ->
			other = pacer;
			if
			:: other == which -> atomic { assert(!on_lists); ready[which] = true }
			:: else -> add(other, here)
			fi;
			other = 0
		fi
	:: !incoming[which]
	fi
}

/* htw_pacer_migrate_job(), of a job that was taken off the lists of @from. */
inline migrate_job(from, here, other)
{
	assert(!freed);
	if
	:: dead
	:: !dead ->
		if
		:: other != NOBODY && pacer == from ->
#ifdef PASS_UNLOCKED
			pacer = other;
			add(other, here)
#else
			spin_lock(lock[other]);
			pacer = other;
			add(other, here);
			spin_unlock(lock[other])
#endif
		:: else -> other = pacer; add(other, here)
		fi
	fi
}

inline migrate(from, here, other)
{
#ifdef STALE_ADOPTER
	other = (from == 0 -> adopter : NOBODY);
	spin_lock(lock[from]);
#else
	spin_lock(lock[from]);
	other = (from == 0 -> adopter : NOBODY);
#endif
	if
	:: atomic { incoming[from] -> incoming[from] = false } migrate_job(from, here, other)
	:: atomic {
		ready[from] && (pacer != from || other != NOBODY) -> ready[from] = false
	   }
		migrate_job(from, here, other)
	:: else
	fi;
	spin_unlock(lock[from]);
	other = 0
}

/* A run, after the hrtimer has expired. */
inline run_pacer(which, other, done)
{
	armed[which] = true;
	spin_lock(lock[which]);
	collect(which, which, other);
	if
	:: atomic { ready[which] -> ready[which] = false; assert(!freed) }
		spin_unlock(lock[which]);
		/* The turn; a lock that is contended is not waited for. */
		if
		:: atomic { !work -> work = true }
			assert(!freed);
			if
#ifdef KILL_UNLOCKED
			:: pacer == which && !dead -> done = true; scheduled = false
#else
			:: atomic { pacer == which && !dead -> done = true; scheduled = false }
#endif
			:: pacer == which && !dead && !turned -> turned = true	/* more work is left */
			:: pacer != which || dead
			fi;
			work = false
		:: work
		fi;
		spin_lock(lock[which]);
		if
		:: done || dead
		:: !(done || dead) ->
			other = pacer;
			if
			:: other == which -> atomic { assert(!freed && !on_lists); ready[which] = true }
			:: else -> add(other, which)
			fi;
			other = 0
		fi;
		done = false;
		collect(which, which, other)
	:: !ready[which]
	fi;
	if
	:: ready[which] -> start(which)
	:: else ->
		armed[which] = false;
		if
		:: incoming[which] -> start(which)
		:: else
		fi
	fi;
	spin_unlock(lock[which])
}

bool turned;

proctype cpu0()
{
	byte to;
	bool done;

end:	do
	:: atomic {
		online && hrtimer[0] && !migrated && !preempt0 ->
		hrtimer[0] = false;
		softirq0 = true;
		rcu_lock(1)
	   }
		run_pacer(0, to, done);
		atomic { rcu_unlock(1); softirq0 = false }
	:: atomic { online && kick[0] -> kick[0] = false; start(0) }
	od
}

proctype cpu1()
{
	byte to;
	bool done;

end:	do
	:: atomic { hrtimer[1] -> hrtimer[1] = false; rcu_lock(2) }
		run_pacer(1, to, done);
		rcu_unlock(2)
	:: atomic { kick[1] -> kick[1] = false; start(1) }
	:: atomic { hrtimer[0] && migrated -> hrtimer[0] = false; migrated = false; rcu_lock(2) }
#ifndef KEEP_ARMED
		armed[0] = false;
#endif
#ifdef ADOPTER_OR_KICK
		if
		:: adopter != NOBODY -> migrate(0, 1, to)
		:: adopter == NOBODY ->
			if
			:: CAN_KICK -> kick[0] = true
			:: !CAN_KICK -> refused
			fi
		fi;
#else
		if
		:: adopter != NOBODY -> migrate(0, 1, to)
		:: adopter == NOBODY
		fi;
		if
		:: CAN_KICK -> kick[0] = true
		:: !CAN_KICK -> refused
		fi;
#endif
		rcu_unlock(2)
	od
}

inline move(to)
{
#ifndef WAKE
	if
	:: !gone ->
		spin_lock(work);
		pacer = to;
		if
		:: atomic { !scheduled -> scheduled = true }
			add(to, 0)
		:: else
		fi;
		spin_unlock(work)
	:: gone
	fi
#else
	skip
#endif
}

inline finish_move(from, to)
{
#ifndef NO_FIRST_GP
	synchronize(gp_hotplug);
#endif
	migrate(from, 0, to);
#ifndef NO_SECOND_GP
	synchronize(gp_hotplug);
#endif
}

bool gone;	/* the wheel is on no CPU's list of bases */

proctype plug()
{
	byte to;

	spin_lock(hotplug);
	adopter = 1;
	move(1);
	finish_move(0, to);
	atomic {
		!softirq0 && !preempt0 ->
		online = false;
		if
		:: kick[0] -> kick[0] = false; start(0)	/* the core calls what is left */
		:: !kick[0]
		fi;
		migrated = hrtimer[0]
	}
	spin_unlock(hotplug);

	spin_lock(hotplug);
	online = true;
#ifdef STALE_ADOPTER
	adopter = NOBODY;
#else
	spin_lock(lock[0]);
	adopter = NOBODY;
	spin_unlock(lock[0]);
#endif
	move(0);
	finish_move(1, to);
	spin_unlock(hotplug)
}

/* Events on either CPU: a wheel's hrtimer, or a delivery that begins a walk. */
proctype schedule()
{
	byte rounds, cpu, to;

end:	do
	:: atomic {
		rounds < ROUNDS && !scheduled ->
		rounds++;
		if
		:: online -> cpu = 0; preempt0 = true
		:: cpu = 1
		fi;
		rcu_lock(4)
	   }
#ifdef WAKE
		spin_lock(work);
		if
		:: !dead && !scheduled ->
			pacer = cpu;
			scheduled = true;
			add(cpu, cpu)
		:: else
		fi;
		spin_unlock(work);
#else
		callback = true;
		if
		:: atomic { !scheduled -> scheduled = true }
			to = pacer;
			add(to, cpu);
			to = 0
		:: else
		fi;
		callback = false;
#endif
		atomic { rcu_unlock(4); preempt0 = false; cpu = 0 }
	:: rounds == ROUNDS || dead -> break
	od
}

proctype cancel()
{
	byte p;

#if !defined(WAKE) && !defined(NO_HOTPLUG_LOCK)
	spin_lock(hotplug);
#endif
	gone = true;
#ifdef KILL_UNLOCKED
	atomic { dead = true; scheduled = true }
#else
	atomic { !work -> dead = true; scheduled = true }
#endif
	!callback;
#ifdef CANCEL_ONCE
	p = pacer;
	spin_lock(lock[p]);
#else
	do
	:: p = pacer;
		spin_lock(lock[p]);
		if
		:: p == pacer -> break
		:: p != pacer -> spin_unlock(lock[p])
		fi
	od;
#endif
	atomic {
		incoming[p] = false;	/* collects it and sees that it is dead */
		ready[p] = false
	}
	spin_unlock(lock[p]);
#if !defined(WAKE) && !defined(NO_HOTPLUG_LOCK)
	spin_unlock(hotplug);
#endif
	synchronize(gp_cancel);
	atomic { assert(!on_lists); freed = true }
}

init
{
	atomic {
		run cpu0();
		run cpu1();
		run plug();
#ifdef CANCEL
		run cancel();
#endif
		run schedule()
	}
	timeout;
	assert(dead || !scheduled);
#ifndef WAKE
	assert(dead || pacer == 0)
#endif
}
