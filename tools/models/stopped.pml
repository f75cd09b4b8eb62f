/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A reader that is woken alone and does not run: others are told again (core/)
 *
 * Stands for htw_ring_decide() with htw_ring_queue_again(), htw_lane_work() with HTW_WHY_AGAIN,
 * htw_ring_tell(), and readers that block in read() (core/collect.c) and take one event at a time. One
 * base with two timers; the alarm makes both due, or with TASK a task does it and tells. All readers
 * but one may be stopped for good: in the queue, as the one that is woken, when they have read an event, or
 * before they wake the next. When it is told again, others may have gone on or not. The order of barriers
 * is alarm.pml's.
 *
 * Promised: when nothing can happen any more, no reader that runs sleeps while a timer is due, and that is
 * so after a few times.
 *
 * check:
 * check: -DTASK
 * reject: -DNEVER_AGAIN	the alarm tells once
 * reject: -DTASK -DTASK_TELLS_ONCE	a task that has told does not have the alarm tell again
 * reject: -DNOBODY_WOKEN	when it is told again nobody is woken
 */

#define READERS	2

/* When the alarm rings. */
#define NEVER	0
#define NEXT	1	/* for what is due next */
#define AGAIN	2

bool base_lock;
byte pending = 2;
byte due;
#ifdef TASK
byte armed = NEVER;
#else
byte armed = NEXT;
#endif
bool told, work;
chan queue = [READERS] of { byte };	/* the oldest comes first; a bit for each reader */
byte awake, asleep;		/* those that were woken since they looked, and those that sleep */
byte stopped, nr_stopped;
byte early, late;		/* how often it was told again */
bool lane;			/* the work item is to wake */

byte woken;
/* Of the readers in the queue. */
#define ANY	(len(queue) > 0)
#define MORE	(len(queue) > 1)

/* A reader that is woken leaves the queue. */
inline wake_one()
{
	atomic {
		if
		:: queue?woken -> awake = awake | woken; woken = 0
		:: empty(queue)
		fi
	}
}

inline wake_all()
{
	atomic {
		do
		:: queue?woken -> awake = awake | woken
		:: empty(queue) -> break
		od;
		woken = 0
	}
}

/* htw_ring_queue_again(), under the alarm's lock */
inline queue_again()
{
#ifdef NEVER_AGAIN
	skip
#else
	armed = AGAIN
#endif
}

/* htw_ring_again() */
inline alarm_again()
{
	atomic { queue_again() }
}

/* htw_ring() */
proctype alarm()
{
	byte rung;
	bool wakes;

end:	do
	:: atomic {
			/* A few times sooner than it should, and else when all others have to wait. */
			armed && (armed == NEXT || early < 2 || timeout) ->
			if
			:: armed == AGAIN && early < 2 -> early++
			:: armed == AGAIN && early == 2 -> late++
			:: else
			fi;
			assert(late < 4);
			rung = armed;
			armed = NEVER;
			if
			:: rung == NEXT -> due = 2; pending = 0
			:: else
			fi;
			if
			:: told && ANY ->
				queue_again();
				if
#ifndef NOBODY_WOKEN
				/* One reader, or all. */
				:: rung == AGAIN -> wakes = true
				:: rung == AGAIN -> lane = true
#endif
				:: else
				fi
			:: told && !ANY
			:: !told && due ->
				told = true;
				work = true;
				if
				:: MORE -> queue_again()
				:: else
				fi;
				wakes = true
			:: !told && !due
			fi
		};
		if
		:: wakes -> wake_one()
		:: !wakes
		fi;
		atomic { rung = 0; wakes = false }
	od
}

/* htw_lane_work() */
proctype worker()
{
end:	do
	:: lane ->
		lane = false;
		wake_all()
	od
}

#ifdef TASK
/* It starts two timers that are due at once: htw_ring_unlock() with htw_ring_tell(). */
proctype task()
{
	bool tells;

	atomic { !base_lock -> base_lock = true };
	due = 2;
	pending = 0;
	if
	:: !told ->
		told = true;
		work = true;
		tells = true
	:: told
	fi;
	base_lock = false;
	if
	:: tells ->
		wake_one();
#ifndef TASK_TELLS_ONCE
		if
		:: ANY -> alarm_again()
		:: !ANY
		fi
#endif
	:: !tells
	fi
}
#endif

/* It goes no further, but it stays in the queue. */
inline may_stop()
{
	if
	:: atomic {
			nr_stopped < READERS - 1 ->
			nr_stopped++;
			stopped = stopped | me;
			goto end_stopped
		}
	:: true
	fi
}

/* htw_collect_base() */
inline look()
{
	atomic {
		!base_lock ->
		if
		:: due -> due--; got = true
		:: !due
		fi;
		left = due > 0;
		if
		:: !left -> work = false; told = false
		:: left
		fi
	}
}

/* htw_collect_pass_on() */
inline pass_on()
{
	if
	:: work -> wake_one()
	:: !work
	fi
}

proctype reader(byte me)
{
	bool got, left, waited;

	do
	:: if
		:: work -> look()
		:: !work
		fi;
		if
		:: got ->
			may_stop();
			if
			:: left && ANY -> alarm_again()
			:: else
			fi;
			may_stop();
			if
			:: waited -> pass_on()
			:: !waited
			fi;
			atomic { got = false; left = false; waited = false }
		:: !got ->
			waited = true;
			atomic { queue!me; awake = awake & ~me };
			if
			:: !work ->
				may_stop();
				atomic {
					if
					:: !(awake & me) -> asleep = asleep | me
					:: else
					fi
				};
end:				atomic { awake & me -> asleep = asleep & ~me };
				may_stop()
			:: work
			fi;
			atomic {
				if
				:: queue??eval(me)
				:: else
				fi
			}
		fi
	od;
end_stopped:
	false
}

init
{
	atomic {
		run alarm();
		run worker();
#ifdef TASK
		run task();
#endif
		run reader(2);
		run reader(1)
	}
	timeout && !armed;
	assert(!pending && !(due && asleep & ~stopped))
}
