/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A base, its alarm, and the tasks that wait: the table of docs/waking.md
 *
 * One base with two timers. Stands for htw_ring_settle(), htw_alarm_time(), htw_ring(), htw_ring_decide(),
 * htw_ring_wake_left(), htw_collect_read(), htw_collect_poll(). The wheel, and what is published, are guarded by
 * the base's lock; the callback reads @told, @first and @next without it. @place, @armed, @owed and setting
 * @told are guarded by the alarm's lock. Who waits is in a queue, which is read without a lock.
 *
 * A timer that is in a bucket may be moved down from the tick before its own on, where @first is its own. Each
 * step of the callback may come between any two of a task that holds the base's lock. The clock ticks when it
 * likes, until some point; from there on only when nothing else can happen. Then, and in the end, what is
 * promised is compared.
 *
 * Actors: the callback; the work item (there are two, which do the same); a task that starts, moves and stops
 * timers (OPS operations); READERS that block in read() and take one or all; POLLERS, which are in the queue
 * all the time: level-triggered they read one event at a time, or never (IDLE); with EDGE, or for a SIGNAL
 * that the work item sends, they answer by moving away what is due, without reading; with PART they wait for an
 * edge, and read once, a part of what is due.
 *
 * With STALL the actors of these bits (READERS 1, 2, POLLERS 4, 8, the task 16) may stop for good between any
 * two steps; with STALL_LOCKED the task, which then has timer 1 alone, with the base's lock held; with
 * STALL_WORK the work item, beside tasks that keep the CPU or where its user rests: readers do not wait for
 * it. With KILL a reader may die, before or after it was woken; with ONCE it ends when it has read. READY
 * timers are pending in the beginning.
 *
 * Promised: when nothing but the clock can happen, no task that runs sleeps while a timer is due, or a bucket
 * is to be moved down; where one that was woken has stopped, the alarm is set to wake the others. What is
 * pending has the alarm set, or is work that whoever begins to wait finds. Nothing is left to a work item for ever.
 *
 * check: -DREADERS=1 -DOPS=1 -DEND=2
 * check: -DREADERS=1 -DREADY=2
 * check: -DPOLLERS=1 -DOPS=1 -DEND=2
 * check: -DPOLLERS=1 -DOPS=1
 * check: -DPOLLERS=1 -DREADY=2
 * check: -DPOLLERS=1 -DREADY=2 -DIDLE
 * check: -DPOLLERS=1 -DREADY=2 -DEDGE
 * check: -DPOLLERS=1 -DREADY=2 -DSIGNAL
 * check: -DPOLLERS=1 -DREADY=2 -DPART
 * check: -DPOLLERS=1 -DREADY=1 -DOPS=1 -DEND=2 -DPART
 * check: -DREADERS=1 -DPOLLERS=1 -DREADY=2 -DEND=2
 * check: -DREADERS=1 -DREADY=1 -DLONG_BUCKET -DSTALL_WORK
 * check: -DREADERS=2 -DREADY=1
 * check: -DREADERS=2 -DREADY=2 -DEND=2 -DONCE
 * check: -DREADERS=2 -DREADY=2 -DEND=2 -DKILL
 * check: -DREADERS=2 -DREADY=2 -DEND=2 -DSTALL=1
 * check: -DPOLLERS=2 -DREADY=2 -DEND=2 -DSTALL=4
 * check: -DREADERS=1 -DOPS=1 -DREADY=1 -DEND=2 -DSTALL=16
 * check: -DREADERS=1 -DOPS=1 -DREADY=1 -DEND=2 -DSTALL_LOCKED
 * reject: -DREADERS=1 -DOPS=1 -DREADY=1 -DEND=2 -DTASK_BARRIER	a task reads when the alarm rings, and then publishes
 * reject: -DREADERS=1 -DOPS=1 -DEND=2 -DQUEUE_BARRIER	a task looks for who waits, and then publishes
 * reject: -DREADERS=1 -DOPS=1 -DEND=2 -DWAITER_BARRIER	a reader looks, and then queues itself
 * reject: -DREADERS=1 -DOPS=1 -DREADY=1 -DEND=2 -DARMED_LATE	the callback reads next before it writes that the base is not armed
 * reject: -DPOLLERS=1 -DREADY=2 -DEDGE -DTOLD_STAYS	an operation that leaves nothing due does not take told back
 * reject: -DREADERS=1 -DOPS=1 -DEND=2 -DDUE_UNTIMED	a task that makes a timer due leaves that to nobody
 * reject: -DREADERS=1 -DOPS=1 -DREADY=1 -DEND=2 -DSTALL=16 -DALARM_UNLOCKED	a task sets the alarm after it has dropped the lock
 * reject: -DPOLLERS=1 -DREADY=2 -DPART -DNO_REST	nobody is told of what a read has left
 * reject: -DREADERS=1 -DREADY=1 -DLONG_BUCKET -DSTALL_WORK -DSTAYS_LEFT	a bucket stays left to the work item as a reader begins to wait
 * reject: -DPOLLERS=1 -DREADY=1 -DMOVED_BY_NOBODY	nobody is woken for a bucket that is to be moved down
 * reject: -DREADERS=2 -DREADY=2 -DEND=2 -DONCE -DNO_PASS_ON	a reader that leaves something does not wake the next
 * reject: -DREADERS=2 -DREADY=2 -DEND=2 -DKILL -DDIES_WITH_IT	a reader that is killed takes its wake-up with it
 * reject: -DREADERS=2 -DREADY=2 -DEND=2 -DSTALL=1 -DNEVER_AGAIN	nobody is woken again for what the one who was woken does not take
 */

#define NEVER	15
#define AGAIN	14		/* half a second later: when nothing else happens */
#ifndef END
#define END	3
#endif
#ifndef OPS
#define OPS	0
#endif
#ifndef READERS
#define READERS	0
#endif
#ifndef POLLERS
#define POLLERS	0
#endif
#ifndef STALL
#define STALL	0
#endif

/* Places. */
#define NOWHERE	0
#define TIMED	1
#define LEFT	2
/* What is owed. */
#define O_DUE	1
#define O_MOVE	2

byte now = 1;
bool base_lock, alarm_lock;

/* The wheel. */
byte when[2];			/* 0: not pending */
bool up[2];			/* in a bucket */

/* The base. */
byte next = NEVER, first = NEVER;
bool told;
byte place = NOWHERE, armed = NEVER, owed;
bool queued_work;

/* Who waits: a bit each. */
byte readers, pollers;		/* in these queues */
byte head;			/* the reader that has queued itself first */
byte awake;			/* woken since they queued themselves, or looked */
byte asleep;
byte stalled;
bool inside;			/* the task has stopped with the base's lock held */
byte agains;

#define DUE_AT(t)	((when[0] && when[0] <= t) || (when[1] && when[1] <= t))
#define FOUND(t)	((when[0] && when[0] <= t && !up[0]) || (when[1] && when[1] <= t && !up[1]))
#define TO_MOVE(t)	((up[0] && when[0] - 1 <= t) || (up[1] && when[1] - 1 <= t))
#define W(i)		(when[i] -> when[i] : NEVER)
#define N(i)		(when[i] -> when[i] - up[i] : NEVER)
#define FIRST		(W(0) <= W(1) -> W(0) : W(1))
#define NEXT		(N(0) <= N(1) -> N(0) : N(1))
#define WAITING		(readers || pollers)
/* Settling keeps it where it is: left to the work item, and no reader needs an alarm. */
#ifdef STAYS_LEFT
#define STAYS		(place == LEFT)
#else
#define STAYS		(place == LEFT && !readers)
#endif

/* May stop for good here. */
#if STALL
#define MAY_STALL(bits)	if :: (STALL & bits) -> stalled = stalled | bits; goto stop :: true fi;
#else
#define MAY_STALL(bits)
#endif

/* Readers come in turn; one that is woken leaves the queue. */
inline queue_reader(bits)
{
	if
	:: !readers -> head = bits
	:: else
	fi;
	readers = readers | bits;
	awake = awake & ~bits
}

inline unqueue_reader(bits)
{
	atomic { readers = readers & ~bits; head = readers }
}

inline wake_reader()
{
	atomic { awake = awake | head; readers = readers & ~head; head = readers }
}

inline wake_pollers()
{
	awake = awake | pollers
}

/* htw_alarm_time(): under the alarm's lock */
inline move_to(at)
{
	if
	:: at < NEVER -> place = TIMED; armed = at
	:: else -> place = NOWHERE; armed = NEVER
	fi
}

/* htw_base_has_work(), into @work: the clock is read first. */
inline has_work()
{
	atomic { t = now; work = told || next <= t }
}

/* htw_base_publish(): the callback may read in between */
inline publish()
{
	first = FIRST;
	next = NEXT
}

/* htw_ring_settle(): at the time @t, @due: something stays due. The base's lock is held. */
inline settle()
{
#ifdef TASK_BARRIER
	set = armed > NEXT;
	publish();
#else
#ifdef QUEUE_BARRIER
	any = WAITING;
#endif
	publish();
	/* full barrier */
#endif
	if
#ifdef TOLD_STAYS
	:: told
#else
	:: told -> set = !due
#endif
	:: else ->
#ifndef TASK_BARRIER
		set = armed > next;
#endif
		if
		:: set && next <= t ->
#ifdef DUE_UNTIMED
			set = false
#elif defined(QUEUE_BARRIER)
			set = any
#else
			set = WAITING
#endif
		:: else
		fi
	fi;
#ifdef ALARM_UNLOCKED
	if
	:: me == 16 -> base_lock = false; MAY_STALL(16)
	:: else
	fi;
#endif
#ifdef STALL_LOCKED
	if
	:: me == 16 -> inside = true; stalled = stalled | 16; goto stop
	:: true
	fi;
#endif
	if
	:: set ->
		atomic {
			!alarm_lock;
			if
			:: !due && (told || !STAYS || next > t) ->
				told = false;
				owed = 0;
				if
				:: next > t || WAITING -> move_to(next)
				:: else -> move_to(NEVER)
				fi
			:: due && !told && !STAYS && armed > next -> move_to(next)
			:: else
			fi
		}
	:: else
	fi;
	atomic { base_lock = false; set = false; any = false; due = false }
}

/* htw_collect_base(): move down, take, see what stays */
inline look(take)
{
	t = now;
	atomic {
		if
		:: !base_lock -> base_lock = true
#ifdef STALL_LOCKED
		/* Who waits for the lock of a task that has stopped waits for good. */
		:: inside -> goto stop
#endif
		fi;
		if			/* a portion, or all */
		:: up[0] && when[0] - 1 <= t -> up[0] = false;
			if
			:: up[1] && when[1] - 1 <= t -> up[1] = false
			:: true
			fi
		:: up[1] && when[1] - 1 <= t -> up[1] = false
		:: !TO_MOVE(t)
#ifdef LONG_BUCKET
		/* Of a long one, which stays. */
		:: TO_MOVE(t)
#endif
		fi;
		got = false;
		if
		:: take && when[0] && when[0] <= t && !up[0] -> when[0] = 0; got = true
		:: take && when[1] && when[1] <= t && !up[1] -> when[1] = 0; got = true
		:: !take || !FOUND(t)
		fi;
		if			/* one, or as many as there are */
		:: got && FOUND(t) ->
			when[0] = (when[0] <= t -> 0 : when[0]);
			when[1] = (when[1] <= t -> 0 : when[1])
		:: true
		fi;
		due = FOUND(t);
		left = due
	};
	settle()
}

/* htw_collect_read() */
proctype reader(byte me)
{
	byte t;
	bool got, left, due, set, any, work, waited;

	do
	:: has_work();
		if
		:: work -> look(true)
		:: else
		fi;
		MAY_STALL(me)
		if
		:: got ->
			/* htw_collect_pass_on() */
			if
#ifndef NO_PASS_ON
			:: waited -> has_work();
				if
				:: work -> wake_reader()
				:: else
				fi
#endif
			:: else
			fi;
#ifdef ONCE
			break;
#endif
			atomic { got = false; left = false; waited = false; work = false; t = 0 }
		:: else ->
			/* Queue itself, and look again. */
#ifdef WAITER_BARRIER
			has_work();
			MAY_STALL(me)
			atomic { queue_reader(me); waited = true; left = false };
#else
			atomic { queue_reader(me); waited = true; left = false };
			/* full barrier */
			MAY_STALL(me)
			has_work();
#endif
			if
			:: work -> look(true)
			:: else
			fi;
			if
			:: got
			:: else ->
				MAY_STALL(me)
				atomic {
					if
					:: awake & me
					:: else -> asleep = asleep | me
					fi;
					t = 0; work = false; left = false
				};
end:				if
				:: atomic { awake & me -> asleep = asleep & ~me }
#ifdef KILL
				:: atomic { me == 1 -> asleep = asleep & ~me; goto dying }
#endif
				fi
			fi;
			unqueue_reader(me);
			MAY_STALL(me)
#ifdef KILL
			if
			:: me == 1 && !got -> goto dying
			:: true
			fi;
#endif
			if
			:: got -> has_work();
				if
				:: work
#ifndef NO_PASS_ON
				-> wake_reader()
#endif
				:: else
				fi;
#ifdef ONCE
				break
#endif
			:: else
			fi;
			atomic { got = false; left = false; work = false; t = 0 }
		fi
	od;
#ifdef KILL
dying:	unqueue_reader(me);
#ifndef DIES_WITH_IT
	has_work();
	if
	:: work -> wake_reader()
	:: else
	fi;
#endif
#endif
	atomic { got = false; left = false; work = false; waited = false; t = 0; goto done };
endstop:
stop:	false;
done:	skip
}

#ifdef PART
/* htw_ring_rest() */
inline rest()
{
	if
#ifndef NO_REST
	:: told && armed > AGAIN ->
		atomic {
			!alarm_lock;
			if
			:: told && place != LEFT && armed > AGAIN -> move_to(AGAIN)
			:: else
			fi
		}
#endif
	:: else
	fi
}
#endif

#if POLLERS
/* Answers an event by moving away, or stopping, all that is due. */
inline answer()
{
	t = now;
	atomic {
		!base_lock -> base_lock = true;
		if
		:: when[0] && when[0] <= t -> up[0] = false; when[0] = (t < END -> END : 0)
		:: else
		fi;
		if
		:: when[1] && when[1] <= t -> up[1] = false; when[1] = 0
		:: else
		fi
	};
	settle()
}

proctype poller(byte me)
{
	byte t;
	bool got, left, due, set, any, work;

	pollers = pollers | me;
	do
	:: awake = awake & ~me;
		MAY_STALL(me)
		has_work();
		if
		:: work -> look(false)
		:: else
		fi;
		MAY_STALL(me)
		if
#if defined(EDGE) || defined(SIGNAL)
		:: left -> left = false; answer(); goto sleep
#elif defined(PART)
		:: left -> look(true); rest(); atomic { got = false; left = false; goto sleep }
#elif defined(IDLE)
		/* Its program has been told, and does not read. */
		:: left -> atomic { left = false; work = false; t = 0 };
end1:			(awake & me) || !DUE_AT(now)
#else
		:: left -> look(true); atomic { got = false; left = false }
#endif
		:: else ->
sleep:			atomic { asleep = asleep | me; t = 0; work = false };
end2:			atomic { awake & me -> asleep = asleep & ~me };
#ifdef SIGNAL
			awake = awake & ~me;
			answer();
			goto sleep
#endif
		fi
	od;
endstop:
stop:	false
}
#endif

#if OPS
/* Starts, moves, stops. */
proctype task()
{
	byte t, i, n = OPS;
	bool due, set, any;
	byte me = 16;

	do
	:: n > 0 ->
		n--;
		t = now;
		MAY_STALL(16)
		atomic {
			!base_lock -> base_lock = true;
#ifdef STALL_LOCKED
			i = 1;
#else
			if
			:: i = 0
			:: i = 1
			fi;
#endif
			if
			:: when[i] -> when[i] = 0; up[i] = false
			:: when[i] = t; up[i] = false
			:: t + 1 <= END -> when[i] = t + 1; up[i] = false
			:: t + 2 <= END -> when[i] = t + 2; up[i] = true
			:: t + 2 <= END -> when[i] = t + 2; up[i] = false
			fi;
			/* It moves down what is to be, or a part. */
			if
			:: TO_MOVE(t) && !FOUND(t) -> up[0] = false; up[1] = false
			:: true
			fi;
			due = FOUND(t)
		};
#ifdef STALL_LOCKED
		if
		:: inside = true; stalled = stalled | 16; goto stop
		:: true
		fi;
#endif
		settle();
		MAY_STALL(16)
		atomic { t = 0; i = 0 }
	:: n == 0 -> break
	od;
	atomic { goto done };
endstop:
stop:	false;
done:	skip
}
#endif

/* htw_ring() with htw_ring_decide() */
proctype alarm()
{
	byte t, f, n;
	bool r, p, go;

end:	do
	:: atomic {
			place == TIMED && armed <= now && !alarm_lock -> alarm_lock = true;
			t = now;
#ifdef ARMED_LATE
		};
		f = first;
		n = next;
		atomic {
			place = NOWHERE;
			armed = NEVER
		};
#else
			place = NOWHERE;
			armed = NEVER
		};
		/* full barrier */
		f = first;
		n = next;
#endif
		if
		:: told ->
			/* Nobody has taken it: wake one more reader, or leave it to the work item, for all. */
			if
			:: readers ->
				go = true;
				if
				:: readers == 3 || pollers -> move_to(AGAIN)
				:: else
				fi
			:: WAITING -> atomic { place = LEFT; owed = O_DUE; queued_work = true }
			:: else
			fi
		:: !told && n > t -> move_to(n)
		:: !told && n <= t && f > t ->
			atomic { r = readers != 0; p = pollers != 0 };
#ifdef MOVED_BY_NOBODY
			atomic { r = false; p = false };
#endif
			if
#ifndef SIGNAL
			:: atomic { go = r || p; move_to(f) }
#endif
			:: atomic { p -> p = false; go = r; place = LEFT; owed = O_MOVE; queued_work = true }
#ifdef SIGNAL
			:: !p -> move_to(f)
#endif
			fi
		:: !told && n <= t && f <= t ->
			told = true;
			atomic { r = readers != 0; p = pollers != 0 };
			if
#ifndef SIGNAL
			:: go = r || p;
#ifndef NEVER_AGAIN
				/* Others than the one that is woken: again. */
				if
				:: readers == 3 || (readers && pollers) || pollers == 12 -> move_to(AGAIN)
				:: else
				fi
#endif
#endif
			:: atomic { p -> p = false; go = r; place = LEFT; owed = O_DUE; queued_work = true }
#ifdef SIGNAL
			:: !p
#endif
			fi
		fi;
		alarm_lock = false;
		if
		:: go ->
			wake_reader();
			if
			:: p -> wake_pollers()
			:: else
			fi
		:: else
		fi;
		atomic { t = 0; f = 0; n = 0; r = false; p = false; go = false }
	od
}

/* htw_ring_wake_left() */
proctype work_item()
{
	byte t, f, n, o;
	bool again;
#ifdef SIGNAL
	bool got, left, due, set, any;
	byte me;
#endif

end:	do
#ifdef STALL_WORK
	:: atomic { queued_work -> stalled = stalled | 32; goto stop }
#endif
	:: queued_work ->
		queued_work = false;
		atomic { !alarm_lock -> alarm_lock = true };
		if
		:: place == LEFT ->
			atomic { o = owed; owed = 0; place = NOWHERE; armed = NEVER; t = now };
			/* full barrier */
			f = first;
			n = next;
			if
			:: told ->
#ifndef NEVER_AGAIN
				if
				:: readers || pollers == 12 -> move_to(AGAIN)
				:: else
				fi
#else
				skip
#endif
			:: !told ->
				o = o & O_MOVE;
				if
				:: n > t -> move_to(n)
				:: else -> move_to(f)
				fi
			fi;
			alarm_lock = false;
			if
			:: o ->
#ifdef SIGNAL
				/* It looks, and sends the signal if something is due. */
				look(false);
				if
				:: left -> wake_pollers()
				:: else
				fi;
				left = false
#else
				atomic {
					awake = awake | pollers;
					if
					:: told -> awake = awake | readers; readers = 0; head = 0
					:: else
					fi
				}
#endif
			:: else
			fi
		:: else -> alarm_lock = false
		fi;
		atomic { t = 0; f = 0; n = 0; o = 0 }
	od;
endstop:
stop:	false
}

/* Nothing but the clock can happen, or, with PART, the rest of a read is to be told of. */
inline compare()
{
	assert(place != LEFT || (stalled & 32));
	if
	:: stalled & 32 ->
		/* Who polls waits for it. */
		assert(!asleep || !(DUE_AT(now) || TO_MOVE(now)))
	:: inside ->
		/* Timer 0 is not the task's. */
		assert(!((asleep & ~awake) && when[0] && when[0] <= now))
#ifdef PART
	:: !inside && !(stalled & 32) ->
#else
	:: !inside && !(stalled & 32) && (stalled & 15) ->
#endif
		assert(!(asleep && DUE_AT(now)) || (told && place == TIMED && armed == AGAIN))
	:: else ->
		assert(!(asleep && DUE_AT(now)));
		assert(stalled || !(asleep && TO_MOVE(now)))
	fi;
	assert(inside || FIRST == NEVER || told || next <= now || (place == TIMED && armed <= FIRST))
}

proctype clock()
{
	do
	:: now < END -> now++
	:: break
	od;
	do
	:: atomic {
			timeout ->
			compare();
			if
			:: asleep && place == TIMED && armed == AGAIN && agains < 2 ->
				agains++;
				armed = now
			:: else ->
				assert(inside || (stalled & 32) || !(asleep && DUE_AT(now)));
				if
				:: now < END -> now++
				:: else -> break
				fi
			fi
		}
	od
}

init
{
	atomic {
#ifdef READY
		if
		:: when[0] = 2
#if END > 2
		:: when[0] = 3; up[0] = true
		:: when[0] = 3
#endif
		fi;
#if READY > 1
		if
		:: when[1] = 2
#if END > 2
		:: when[1] = 3; up[1] = true
		:: when[1] = 3
#endif
		fi;
#endif
		publish();
		move_to(next);
#endif
		run clock();
		run alarm();
		run work_item();
#if OPS
		run task();
#endif
#ifdef STALL_WORK
		/* Somebody polls, and is not awaited. */
		pollers = 4;
#endif
#if READERS
		run reader(1);
#endif
#if READERS > 1
		run reader(2);
#endif
#if POLLERS
		run poller(4);
#endif
#if POLLERS > 1
		run poller(8);
#endif
		skip
	}
}
