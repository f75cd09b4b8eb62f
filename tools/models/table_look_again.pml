/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The table of deadlines: the look again at an entry after the timer has expired
 * (core/delivery.c, core/event.c, core/section.c)
 *
 * Stands for htw_delivery_defer_one(), htw_event_consume(), htw_section_mod_locked(),
 * htw_section_unread_locked(), and a program that stores, moves the timer by HTW_MOD, and looks at
 * the entry when it reads an event.
 *
 * One kept timer that fires twice, at 1 and 3 if nothing moves it; with -DRING its events go to a
 * ring, which counts as reading them. One thread stores later deadlines, one moves the timer by a
 * call, one reads. A store takes no lock, so it may come between any two steps.
 *
 * Promised: a deadline that was stored, and not revoked by a call, is in the entry or has come
 * whenever somebody decides by the entry, and a timer is armed for no deadline that was revoked.
 * Firings are not lost: those that are left, and those whose
 * events the program got, are as many as at the beginning. When nothing can happen any more, all
 * have been delivered, unless the entry disarms the timer. Unless a call moves the timer, it
 * expires at a deadline once for each store of it.
 *
 * check:
 * check: -DRING
 * check: -DREARM
 * check: -DRING -DREARM
 * reject: -DMOD	the timer is armed by a call that clears the entry
 * reject: -DMOD -DRING	the same with a ring
 * reject: -DKEEP_COUNT	the firing of an event that is dropped stays counted
 * reject: -DCLEAR	the entry is cleared after it was read
 * reject: -DREARM -DTRUST	the entry is not looked at again under the lock
 * reject: -DRING -DAGAIN	the timer is armed for an entry that it has expired at
 */

#define FIRINGS		2
#define INTERVAL	2
#define END		7
#define DISARMED	255

mtype = { PENDING, EXPIRED, IDLE };

/* Shared memory. */
byte word;
byte stored;		/* the last store that no call has revoked, for the assertions */

/* The kernel's, guarded by the lock. */
bool lock;
mtype state = PENDING;
byte deadline = 1;
byte left = FIRINGS;
bool one_shot;		/* it has had all its firings, and is a one-shot timer now */
byte now;

#ifdef RING
byte ring;		/* of one entry: the deadline of its event */
bool written;
#endif

byte wanted = FIRINGS;	/* events that the program is to get */

byte got;		/* events that the program returned */
#ifndef REARM
bool fired[END + 1];	/* at this deadline, since it was stored */
#endif

inline spin_lock()	{ atomic { !lock -> lock = true } }
inline spin_unlock()	{ lock = false }

/* Read the entry once; what was stored is in it, or has come. */
inline look(w, limit)
{
	atomic {
		w = word;
		assert(stored <= w || stored <= limit)
	}
}

inline consume()
{
	left--;
	if
	:: left -> atomic { deadline = deadline + INTERVAL; state = PENDING }
	:: else -> atomic { one_shot = true; state = IDLE }
	fi
}

active proctype clock()
{
	do
	:: now < END -> now++
	:: else -> break
	od
}

active proctype expiry()
{
	byte w;

end:	do
	:: atomic { !lock && state == PENDING && deadline <= now -> lock = true }
		look(w, deadline);
		if
		:: w == DISARMED -> state = IDLE
		:: w != DISARMED && w > deadline -> deadline = w
		:: else
		fi;
		if
		:: state == PENDING && deadline <= now ->
#ifndef REARM
			atomic { assert(!fired[deadline]); fired[deadline] = true }
#endif
#ifdef RING
			if
			:: !written ->
				atomic { ring = deadline; written = true }
				consume()
			:: else -> state = EXPIRED
			fi
#else
			state = EXPIRED
#endif
		:: else
		fi;
		w = 0;
		spin_unlock()
	od
}

/* HTW_MOD_UNREAD, under the lock; the event stands if @drop is false. */
inline unread(w, event, drop)
{
#ifndef TRUST
	look(w, event);
#endif
	drop = w > event;
#ifndef AGAIN
	if
	:: state != PENDING && w <= deadline -> drop = false
	:: state == PENDING && w < deadline && w <= now && deadline - event != INTERVAL -> drop = false
	:: else
	fi;
#endif
	if
	:: drop ->
		assert(w <= stored);	/* no call has revoked it */
		if
		:: one_shot && state != IDLE ->
			wanted--	/* armed by a call meanwhile, which withdraws the event */
		:: else ->
#ifndef KEEP_COUNT
			left++;
#endif
			skip
		fi;
#ifndef REARM
		if
		:: state == EXPIRED -> fired[deadline] = false	/* withdrawn */
		:: else
		fi;
#endif
		if
		:: w != DISARMED -> atomic { deadline = w; state = PENDING }
		:: else -> state = IDLE
		fi
#ifdef CLEAR
		; word = 0
#endif
	:: else
	fi
}

/* HTW_MOD with the entry that the program had read. */
inline mod(w, drop)
{
	drop = true;
	if
	:: w != DISARMED ->
		left++;
		atomic { word = 0; deadline = w; state = PENDING }
	:: else -> left++
	fi
}

active proctype reader()
{
	byte event, w;
	bool drop;

end:	do
	::
#ifdef RING
		atomic {
			!lock && (written || state == EXPIRED) ->
			lock = true;
			if
			:: !written ->	/* the queue is moved into the ring */
				ring = deadline;
				consume()
			:: else
			fi;
			event = ring;
			ring = 0;
			written = false;
			lock = false
		}
#else
		atomic { !lock && state == EXPIRED -> lock = true };
		event = deadline;
		consume();
		spin_unlock();
#endif
		drop = false;
		w = word;
		if
		:: w > event ->
			spin_lock();
#ifdef MOD
			mod(w, drop);
#else
			unread(w, event, drop);
#endif
			spin_unlock()
		:: else
		fi;
		if
		:: drop
		:: !drop ->
			got++
		fi;
		atomic { event = 0; w = 0; drop = false }
	od
}

/* Later and later, and perhaps disarmed in the end. */
active proctype storer()
{
	byte v = 2;

	do
	:: v < 4 ->
		atomic {
			word = v;
			stored = v
#ifndef REARM
			; fired[v] = false
#endif
		};
		v++
	:: v < 4 -> v++
	:: v == 4 ->
		atomic { word = DISARMED; stored = DISARMED };
		break
	:: v == 4 -> break
	od
}

#ifdef REARM
/* Revokes what was stored: perhaps for an earlier time. */
active proctype rearm()
{
	byte to;

	spin_lock();
	to = now;
	if
	:: to > 3	/* too late for all firings to come before the end */
	:: else ->
		if
		:: !left && state == IDLE -> left++; wanted++
		:: else
		fi;
		atomic { word = 0; stored = 0; deadline = to; state = PENDING }
	fi;
	spin_unlock()
}
#endif

init
{
	timeout;
	assert(got + left == wanted);
	assert(word == DISARMED || !left)
}
