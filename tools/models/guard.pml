/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Guarding: which lock a timer is changed under, as it moves from one state and base to another
 *
 * Stands for htw_section_lock_timer(), htw_section_enter_target() and htw_section_arm()
 * (core/section.c), htw_contexts_stop_some() (core/contexts.c), htw_delivery_to_queue()
 * (core/delivery.c) and htw_reader_rearm() (core/reader.c), for one timer and the bases of two
 * CPUs. Calls on either CPU move it to their base, turns let it expire, a reader starts it again,
 * and closing stops it.
 *
 * A timer that is pending is guarded by the lock of its CPU's base, else by that of the context,
 * inside a base's. Its state and its CPU are looked at without a lock to find out which.
 *
 * Assumed: the CPU is seen no later than the state (find.pml).
 *
 * Promised: whoever changes a timer holds the lock that guards it.
 *
 * check:
 * reject: -DTRUST_STOP	closing does not look again when it has the lock
 * reject: -DTRUST_MOD	a call does not look again when it has the lock
 * reject: -DTRUST_CTX	nor when it has the context's as well
 * reject: -DTRUST_TURN	a timer that has left the list of those to be started is started
 */

#define PENDING	0
#define EXPIRED	1
#define REARM	2
#define CLOSED	3

byte state, cpu;
byte changes;	/* so that it ends */
bool base[2], ctx;

#define lock(l)		atomic { !l -> l = true }
#define unlock(l)	l = false
#define CHANGES	3

/* A change of the timer: its locks have been taken, and are held by no one else. */
inline change(from, at, to)
{
	atomic {
		assert(state == from && (from != PENDING || cpu == at));
		state = to
	}
}

/* A call on CPU @here that moves the timer there. */
proctype call(byte here)
{
	byte on, seen;

end:	do
	:: changes < CHANGES && state != CLOSED ->
		changes++;
		on = cpu;
		lock(base[on]);
		if
#ifdef TRUST_MOD
		:: seen == PENDING ->
#else
		:: state == PENDING && cpu == on ->
#endif
			change(PENDING, on, REARM);	/* it is on no list, and the lock is held */
			lock(ctx)
		:: else ->
			lock(ctx);
			if
#ifdef TRUST_CTX
			:: state == EXPIRED || state == PENDING -> change(EXPIRED, on, REARM)
			:: state == REARM
			:: state == CLOSED ->
#else
			:: state == EXPIRED -> change(EXPIRED, on, REARM)
			:: state == REARM
			:: state == PENDING || state == CLOSED ->
#endif
				unlock(ctx);
				unlock(base[on]);
				goto end
			fi
		fi;
		unlock(ctx);
		unlock(base[on]);
		lock(base[here]);
		lock(ctx);
		if
#ifdef TRUST_TURN
		:: true ->
#else
		:: state == REARM ->
#endif
			atomic { assert(state == REARM); cpu = here; state = PENDING }
		:: else
		fi;
		unlock(ctx);
		unlock(base[here]);
		seen = state
	:: else -> break
	od
}

/* A turn on a CPU. */
proctype turn(byte here)
{
end:	do
	:: changes < CHANGES && state == PENDING && cpu == here ->
		changes++;
		lock(base[here]);
		if
		:: state == PENDING && cpu == here ->
			lock(ctx);
			change(PENDING, here, EXPIRED);
			unlock(ctx)
		:: else
		fi;
		unlock(base[here])
	:: changes == CHANGES || state == CLOSED -> break
	od
}

/* Closing, when no call goes on any more; for a turn it makes no difference. */
proctype close()
{
	byte on;

	do
	:: state == PENDING ->
		on = cpu;
		lock(base[on]);
		if
#ifdef TRUST_STOP
		:: true -> change(PENDING, on, CLOSED)
#else
		:: state == PENDING && cpu == on -> change(PENDING, on, CLOSED)
#endif
		:: else
		fi;
		unlock(base[on])
	:: else -> break
	od
}

init
{
	atomic {
		run call(0);
		run call(1);
		run turn(0);
		run turn(1);
		run close()
	}
}
