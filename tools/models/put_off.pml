/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Timers that are put off by a store without a lock: the entry of a timer, and those who take it
 * away (lib/deadlines.h)
 *
 * Stands for htw_deadline_store() with what htw_put_off() does when that finds no timer, for
 * htw_deadline_start(), _end() and _keep(), and for those who call them with the handle's lock
 * held: a stop, a start of another timer in the same slot, and a read that finds that the timer has
 * come (lib/device.c; the other backend does the same).
 *
 * Timer 1 has the entry of slot 0. Two threads put it off, and one perhaps stops it. When it has
 * ended, timer 2 is started, in the same slot or in another one, and put off by a third thread. The
 * tag of an entry is two variables here, which change together: whose it is, and how many stores are
 * on their way.
 *
 * Promised: a store is never for another timer than the one that it names. A timer that was put off
 * does not come before that time, and is not lost. A store fails only if its timer has ended. Nobody
 * waits for a store.
 *
 * check:
 * reject: -DUNCOUNTED	a slot is given to another timer while a store is on its way
 * reject: -DTWO_STEPS	a store looks whose the entry is, and counts itself after that
 * reject: -DEARLY	a store is not counted any more when it writes
 * reject: -DREMEMBER	the new timer finds what the slot's last one was put off to
 * reject: -DONE_LOOK	a read does not look again after it has taken the entry
 * reject: -DHURRY	a timer comes while a store for it is on its way
 * reject: -DUNSURE	a store that finds no timer fails, though a read may give the entry back
 * reject: -DUNLOCKED	a timer is started without the lock, and has come before it has its entry
 */

#define END	4

mtype = { NONE, LIVE, STOPPED, COME };

bool lock;
byte now;

/* Entries, by slot. */
byte owner[2];		/* a timer, or zero */
byte count[2];
byte when[2];

/* Timers. */
mtype state[3] = NONE;
byte slot[3];
byte armed[3];		/* in the kernel, or in the wheel */
byte last[3];		/* what was stored last, for the assertions */

inline spin_lock()	{ atomic { !lock -> lock = true } }
inline spin_unlock()	{ lock = false }

inline write(t, v)
{
	atomic {
		assert(owner[slot[t]] == t || !owner[slot[t]]);
		when[slot[t]] = v;
		last[t] = v
	}
}

proctype storer(byte t; byte v)
{
	bool found;

	state[t] != NONE;
#ifdef TWO_STEPS
	found = owner[slot[t]] == t;
	count[slot[t]]++;
#else
	atomic { found = owner[slot[t]] == t; count[slot[t]]++ };
#endif
#ifdef EARLY
	count[slot[t]]--;
#endif
	if
	:: found -> write(t, v)
	:: else
	fi;
#ifndef EARLY
	count[slot[t]]--;
#endif
	if
	:: found
	:: !found ->
#ifdef UNSURE
		assert(state[t] != LIVE)
#else
		spin_lock();
		if
		:: owner[slot[t]] == t -> write(t, v)
		:: else -> assert(state[t] != LIVE)
		fi;
		spin_unlock()
#endif
	fi
}

active proctype stopper()
{
	if
	:: skip
	:: spin_lock();
		if
		:: state[1] == LIVE ->
			owner[0] = 0;
			state[1] = STOPPED
		:: else
		fi;
		spin_unlock()
	fi
}

/* The kernel's timer first, whose id the entry needs. */
inline start()
{
	armed[2] = (now < END -> now + 1 : END);
	state[2] = LIVE
}

active proctype starter()
{
	(state[1] == STOPPED || state[1] == COME);
#ifdef UNLOCKED
	start();
#else
	spin_lock();
#endif
	atomic {
		if
#ifdef UNCOUNTED
		:: !owner[0]
#else
		:: !owner[0] && !count[0]
#endif
			-> owner[0] = 2
		:: else -> slot[2] = 1; owner[1] = 2
		fi
	};
#ifndef REMEMBER
	when[slot[2]] = 0;
#endif
#ifndef UNLOCKED
	start();
	spin_unlock()
#endif
}

/* What a read does with an event, under the lock. */
inline come(t)
{
	assert(owner[slot[t]] == t);
	assert(when[slot[t]] == last[t]);
	w = when[slot[t]];
	if
	:: w > now -> armed[t] = w
	:: else ->
		atomic { quiet = !count[slot[t]]; owner[slot[t]] = 0 };
#ifndef ONE_LOOK
		w = when[slot[t]];
#endif
#ifdef HURRY
		quiet = true;
#endif
		if
		:: quiet && w <= now ->
			state[t] = COME;
			assert(last[t] <= now)
		:: else ->
			owner[slot[t]] = t;
			/* Or look again, at once or a tick later. */
			if
			:: w > now -> armed[t] = w
			:: else
			fi
		fi
	fi
}

active proctype reader()
{
	bool quiet;
	byte w;

end:	do
	:: atomic { !lock && state[1] == LIVE && armed[1] <= now -> lock = true };
		come(1);
		spin_unlock()
	:: atomic { !lock && state[2] == LIVE && armed[2] <= now -> lock = true };
		come(2);
		spin_unlock()
	od
}

active proctype clock()
{
	do
	:: now < END -> now++
	:: else -> break
	od
}

init
{
	atomic {
		owner[0] = 1;
		armed[1] = 1;
		state[1] = LIVE;
		run storer(1, 2);
		run storer(1, 3);
		run storer(2, 4)
	};
	timeout;
	assert(state[1] != LIVE && state[2] == COME);
	assert(!count[0] && !count[1])
}
