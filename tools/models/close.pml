/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A file is closed beside an alarm's callback and a work item, and its user goes with it (core/)
 *
 * Stands for htw_chardev_release(), htw_alarm_close(), htw_context_unpin() and htw_user_free() beside
 * htw_ring() and htw_ring_work_short(). The context has a base, which is timed. No task uses the context: the
 * callback and the work item may, as long as they have it pinned. The time may come whenever it likes. For
 * SIGIO the work item looks, which may time the base again (htw_ring_settle()). What has been freed is used by others
 * at once.
 *
 * Promised: nobody uses the base after it was freed, nor the alarm after the user was, and close() returns
 * although the work item, which is busy with others, does not come to the base.
 *
 * check:
 * check: -DBUSY
 * reject: -DPIN_LATE	the callback pins the context after it has dropped the alarm's lock
 * reject: -DNOT_CLOSED	a base that was taken out may be timed again
 * reject: -DNOT_TAKEN_OUT	close() leaves the base in its place
 * reject: -DNO_PIN_OF_WORK	the work item has no pin of its own
 * reject: -DFREED_AT_ONCE	close() does not wait for who has it pinned
 * reject: -DWORKS_FIRST	the work items are cancelled first, and the callback queues one
 */

#define NOWHERE	0
#define TIMED	1
#define LEFT	2
#define CLOSED	3

bool alarm_lock;
byte place = TIMED;
byte pins = 1;			/* the file's */
bool freed, user_freed;
bool queued, working, ringing;
bool timer_off, works_off;

#define USE	assert(!freed)
#define USER	assert(!user_freed)

/* htw_ring() */
proctype callback()
{
	bool woken, left;

end:	do
	:: atomic { place == TIMED && !timer_off && !alarm_lock -> ringing = true; alarm_lock = true };
		USER;
		if
		:: place == TIMED ->
			USE;
			if
			:: place = NOWHERE;
				woken = true;
#ifndef PIN_LATE
				pins++
#endif
			:: place = LEFT; left = true
			fi
		:: else
		fi;
		alarm_lock = false;
		if
		:: woken ->
#ifdef PIN_LATE
			USE;
			pins++;
#endif
			USE;		/* wakes */
			USER;
			pins--
		:: else
		fi;
		if
		:: left -> USER; queued = true
		:: else
		fi;
		atomic { woken = false; left = false; ringing = false }
	od
}

/* htw_ring_work_short() */
proctype work_item()
{
end:	do
	:: atomic { queued && !works_off -> queued = false; working = true };
#ifdef BUSY
		if
		:: working = false; goto stuck
		:: true
		fi;
#endif
		USER;
		atomic { !alarm_lock -> alarm_lock = true };
		if
		:: place == LEFT ->
			USE;
			place = NOWHERE;
#ifndef NO_PIN_OF_WORK
			pins++;
#endif
			alarm_lock = false;
			USE;		/* wakes, and looks */
			if
			:: true
			:: atomic { !alarm_lock -> alarm_lock = true };
				USE;
				if
#ifndef NOT_CLOSED
				:: place == CLOSED
				:: place != CLOSED -> place = TIMED
#else
				:: place = TIMED
#endif
				fi;
				alarm_lock = false
			fi;
			USE;
#ifndef NO_PIN_OF_WORK
			pins--
#endif
		:: else -> alarm_lock = false
		fi;
		USER;
		working = false
	od;
endstuck:
stuck:	false
}

proctype close()
{
#ifndef NOT_TAKEN_OUT
	atomic { !alarm_lock -> alarm_lock = true };
	place = CLOSED;
	alarm_lock = false;
#endif
	pins--;
#ifndef FREED_AT_ONCE
	!pins;
#endif
	freed = true;
	assert(place == CLOSED);

	/* htw_user_free(): hrtimer_cancel(), cancel_delayed_work_sync() */
#ifdef WORKS_FIRST
	queued = false;
	!working;
	timer_off = true;
	!ringing;
	assert(!queued);
	user_freed = true
#else
	timer_off = true;
	!ringing;
	queued = false;
	!working;
	assert(!queued);
	works_off = true;
	user_freed = true
#endif
}

init
{
	atomic {
		run callback();
		run work_item();
		run close()
	}
}
