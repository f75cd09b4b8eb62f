/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A file is closed beside an alarm's callback and the work item (core/)
 *
 * Stands for htw_chardev_release(), htw_alarm_take_out(), htw_wait_take_out() and htw_context_unpin()
 * beside htw_ring() with htw_wait_defer(), and htw_lane_work(). The context has a base, which is in
 * the alarm's queue. No task uses the context: the callback and the work item may, as long as they have
 * it pinned. The hrtimer rings whenever it likes. The next context has the memory as soon as it is free.
 *
 * Promised: nobody uses it after it was freed, close() returns, nothing refers to it then, and the work
 * item is not needed for that: it may be busy with a long wake-up, of another context.
 *
 * check:
 * check: -DBUSY
 * reject: -DPIN_LATE	the callback pins it after it has dropped the alarm's lock
 * reject: -DNOT_CLOSED -DBUSY	the callback may give it to the work item after close() has looked there
 * reject: -DNOT_TAKEN_OUT	close() leaves the base in the alarm's queue
 * reject: -DALARMS_FIRST	close() takes the base out before the work item is through
 * reject: -DNOT_AGAIN	close() does not wait for an alarm that has rung meanwhile
 * reject: -DLEFT_IN_LANE -DBUSY	close() waits for the work item to come to it
 * reject: -DNO_PIN_OF_LANE	the work item has no pin of its own
 * reject: -DFREED_AT_LAST_PIN	close() does not wait for others' pins
 */

bool alarm_lock, lanes_lock;
bool queued = true;		/* the base, in the alarm's queue */
bool in_lane;			/* the context waits for the work item */
bool closed, freed, done;
byte pins = 1;			/* the file's */

#define USE		assert(!freed)

/* htw_ring() */
proctype callback()
{
	bool rung;

	atomic { !alarm_lock -> alarm_lock = true };
	if
	:: queued ->
		USE;
		queued = false;
		rung = true;
#ifndef PIN_LATE
		pins++
#endif
	:: !queued
	fi;
	alarm_lock = false;
	if
	:: rung ->
#ifdef PIN_LATE
		USE;
		pins++;
#endif
		/* Wake, and leave what takes longer to the work item: htw_wait_defer(). */
		USE;
		if
		:: true
		:: atomic { !lanes_lock -> lanes_lock = true };
			USE;
			if
#ifdef NOT_CLOSED
			:: !in_lane ->
#else
			:: !in_lane && !closed ->
#endif
#ifndef NO_PIN_OF_LANE
				pins++;
#endif
				in_lane = true
			:: else
			fi;
			lanes_lock = false
		fi;
		USE;
		pins--
	:: !rung
	fi
}

/* htw_lane_work() */
proctype worker()
{
	bool taken;

	do
	:: atomic { !lanes_lock -> lanes_lock = true };
		taken = in_lane;
		if
		:: taken ->
			USE;
			in_lane = false
		:: !taken
		fi;
		lanes_lock = false;
		if
		:: taken ->
			USE;		/* wake */
			/* For SIGIO it looks, and may set the alarm: htw_alarm_set(). */
			if
			:: true
			:: atomic { !alarm_lock -> alarm_lock = true };
				USE;
				queued = true;
				alarm_lock = false
			fi;
			USE;
#ifndef NO_PIN_OF_LANE
			pins--
#endif
		:: !taken
		fi;
		taken = false
	:: done -> break
#ifdef BUSY
	:: true -> break
#endif
	od
}

/* htw_alarm_take_out() */
inline take_out()
{
	atomic { !alarm_lock -> alarm_lock = true };
	queued = false;
	alarm_lock = false
}

/* htw_chardev_release() */
proctype close()
{
	bool was;

#ifdef ALARMS_FIRST
	take_out();
#endif
	atomic { !lanes_lock -> lanes_lock = true };
	closed = true;
#ifndef LEFT_IN_LANE
	was = in_lane;
	in_lane = false;
#endif
	lanes_lock = false;
	if
#ifndef NO_PIN_OF_LANE
	:: was -> pins--
#endif
	:: else
	fi;
	pins--;
#ifndef FREED_AT_LAST_PIN
	!pins;
#endif
#if !defined(NOT_TAKEN_OUT) && !defined(ALARMS_FIRST)
	take_out();
#endif
#if !defined(FREED_AT_LAST_PIN) && !defined(NOT_AGAIN)
	!pins;
#endif
	freed = true;
	assert(!queued && !in_lane);
	done = true
}

init
{
	atomic {
		run callback();
		run worker();
		run close()
	}
}
