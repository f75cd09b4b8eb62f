/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a base's alarm rings and who is woken: @next, @armed, @told and the work bit (core/)
 *
 * Stands for htw_ring_unlock(), htw_ring_tell() and htw_alarm_check(), htw_alarm_set() and
 * htw_ring() with htw_ring_decide(), htw_lane_work(), and for what waits
 * and collects (core/collect.c). One base, two timers: each belongs to a task that starts it, or
 * with READY both are pending from the beginning, at one time or, with APART, one after the other. With AGAIN there is one task, which may put its timer
 * off or stop it; with PAIR another one starts its timer beside that. A waiter is a reader that blocks in read() (woken one at a time) or, with POLLS, a task
 * that polls and then reads (all are woken, and in the queue all the time); it takes one event at a time.
 * With TWO there are two of them. THIEF is a reader that takes one event and never waits.
 *
 * With LANE the alarm leaves the waking to the work item.
 *
 * With STALL task 0 may stop for good between its unlock and the setting of the alarm, as if it was
 * throttled. With KILL the first reader may die while it waits. With ONCE a waiter is busy for good
 * with the first event that it gets.
 *
 * Every step is seen by all in the order of the program: where a barrier or an atomic operation is
 * what makes that so, a broken variant has the steps the other way round.
 *
 * Not here: buckets that are moved down (@first: told.pml), a ring that is repeated (@again: stopped.pml), and
 * more bases.
 *
 * Promised: when nothing but the clock can happen any more, no waiter sleeps although a timer is due;
 * and if a timer is pending, the alarm rings no later than @next, or it is told, nobody sleeps, and
 * whoever comes will look. What a stopped task did not set is set by whoever drops the lock, or begins
 * to wait, after it.
 *
 * check: -DONCE
 * check: -DONCE -DPOLLS
 * check: -DAGAIN -DTHIEF -DEND=3
 * check: -DSTALL -DONCE
 * check: -DSTALL -DAGAIN
 * check: -DREADY -DONCE -DTHIEF -DTWO
 * check: -DREADY -DONCE -DTHIEF -DTWO -DPOLLS
 * check: -DREADY -DONCE -DKILL -DTWO
 * check: -DAGAIN -DPAIR -DONCE
 * check: -DREADY -DONCE -DTHIEF -DLANE
 * check: -DREADY -DONCE -DTWO -DPOLLS -DLANE
 * reject: -DREADY -DONCE -DTHIEF -DEARLY_CLEAR	a look takes the bit before it knows that nothing stays
 * reject: -DREADY -DONCE -DTHIEF -DPOLLS -DEARLY_CLEAR	the same, and who polls misses what is left
 * reject: -DUNMARKED	the alarm reads when there is work, and then marks the base as not armed
 * reject: -DTASK_BARRIER	a task reads when the alarm rings before others see when there is work
 * reject: -DWAITER_BARRIER	a waiter looks before others see it in the queue
 * reject: -DRING_BARRIER	the alarm looks for waiters before they see the bit
 * reject: -DTHIEF -DONCE -DCLEAR_ORDER	a look takes the bit away last
 * reject: -DTHIEF -DONCE -DTELL_ORDER	the alarm sets the bit first
 * reject: -DSTALL -DONCE -DOWN_ONLY	a task sets the alarm for what it has published itself
 * reject: -DSTALL -DAGAIN -DNO_WAITER_CHECK	a waiter does not look at the alarm
 * reject: -DTHIEF -DONCE -DLOOK_NO_CHECK	who has looked does not look at the alarm
 * reject: -DTELL_NOBODY	who makes a timer due wakes nobody
 * reject: -DTOLD_FOR_GOOD	a look that finds nothing leaves the base told
 * reject: -DREADY -DONCE -DKILL -DTWO -DNO_PASS_ON	a reader that dies takes its wake-up with it
 * reject: -DREADY -DONCE -DTWO -DNO_PASS_ON	a reader that leaves something does not wake the next
 */

#define NEVER	9
#ifndef END
#define END	2	/* of time; no deadline is later */
#endif
#ifdef APART
#define SOON	(END - 1)
#else
#define SOON	END
#endif
#ifdef READY
#define TASKS	0
#elif defined(AGAIN)
#define TASKS	1
#else
#define TASKS	2
#endif
#ifdef PAIR
#undef TASKS
#define TASKS	2
#endif
#ifdef TWO
#define WAITERS	2
#else
#define WAITERS	1
#endif
#ifdef THIEF
#define THIEVES	1
#else
#define THIEVES	0
#endif

byte now = 1;
bool base_lock, alarm_lock;

/* Of the base. */
byte when[2];			/* deadlines of its timers; 0: not pending */
byte next = NEVER;
byte armed = NEVER;
bool told;
bool work;			/* the bit */
byte lane;			/* wake-ups that the work item is to make */

/* Of the context. */
byte queue;			/* waiters in it, a bit for each */
byte awake;			/* those that were woken since they looked */
byte asleep;

byte busy;			/* who has something to do: the clock may tick at any time all the same */
bool owed;			/* the stopped task did not set the alarm, and nobody came after it */

#define DUE_AT(t)	((when[0] && when[0] <= t) || (when[1] && when[1] <= t))
#define PENDING		(when[0] || when[1])
#define FIRST		(when[0] && (!when[1] || when[0] <= when[1]) -> when[0] : \
			 (when[1] -> when[1] : NEVER))

/* htw_base_mark() */
inline mark()
{
	work = true
}

/* Take it away. */
inline unmark()
{
	work = false
}

/* htw_context_has_work(), which leaves the answer in @any. */
inline has_work()
{
	any = work
}

/* A reader that is woken leaves the queue, who polls stays in it. */
inline wake()
{
	atomic {
#ifdef POLLS
		awake = awake | queue
#else
		if
		:: queue & 1 -> awake = awake | 1; queue = queue & ~1
		:: queue & 2 -> awake = awake | 2; queue = queue & ~2
		:: !queue
		fi
#endif
	}
}

/* htw_alarm_set(), under the alarm's lock. */
inline set_alarm()
{
	atomic {
		!alarm_lock;
		if
		:: armed > next -> armed = next
		:: else
		fi
	}
}

inline check_alarm()
{
	if
	:: armed > next ->
		if
		:: !told -> set_alarm()
		:: told
		fi
	:: else
	fi
}

/* Who has begun after a task was stopped has seen to what that left. */
inline settle()
{
	atomic {
		if
		:: seen -> owed = false
		:: else
		fi;
		seen = false
	}
}

/* htw_ring_unlock(), at the time @t that the task has read. */
inline unlock_base()
{
#ifdef TASK_BARRIER
	late = armed > FIRST;
#endif
#ifdef OWN_ONLY
	own = next != FIRST;
#endif
	next = FIRST;
	if
	:: next <= t && !told ->
		told = true;
		mark();
		base_lock = false;
#ifndef TELL_NOBODY
		wake()
#endif
	:: else -> base_lock = false
	fi;
#ifdef STALL
	if
	:: me == 0 && armed > next && !told -> owed = true; goto stop
	:: true
	fi;
#endif
#ifdef STALL
	seen = owed;
#endif
#ifdef OWN_ONLY
	if
	:: own -> check_alarm()
	:: else
	fi;
#elif defined(TASK_BARRIER)
	if
	:: late && !told -> set_alarm()
	:: else
	fi;
#else
	check_alarm();
#endif
#ifdef STALL
	settle();
#endif
	skip
}

/* A task with a timer: start, and then perhaps put off or stop. */
proctype task(byte me)
{
	byte t;
	bool own, late, seen;

	atomic {
		!base_lock -> base_lock = true;
		t = now;
		if
#ifdef PAIR
		:: !me || t == END -> when[me] = t
#else
		:: when[me] = t		/* its deadline has come */
#endif
		:: t < END -> when[me] = t + 1
		fi
	};
	unlock_base();
#ifdef AGAIN
	if
	:: true
	:: atomic {
			!me && !base_lock -> base_lock = true;
			t = now;
			if
			:: when[me] -> when[me] = 0
			:: when[me] -> when[me] = END
			:: else
			fi
		};
		unlock_base()
	fi;
#endif
stop:	atomic { t = 0; own = false; late = false; seen = false; busy-- }
}

/*
 * htw_collect_base(), without @to when @take is false: take an event, and see whether
 * something due is left.
 */
inline look(take)
{
	atomic {
		!base_lock -> base_lock = true;
		if
		:: take && when[0] && when[0] <= now -> when[0] = 0; got = true
		:: take && when[1] && when[1] <= now -> when[1] = 0; got = true
		:: else
		fi;
		left = DUE_AT(now)
	};
#ifdef EARLY_CLEAR
	unmark();
	told = false;
#endif
	if
#ifdef EARLY_CLEAR
	:: left -> told = true; mark()
#elif defined(CLEAR_ORDER)
	:: !left -> told = false; unmark()
#elif defined(TOLD_FOR_GOOD)
	:: !left -> unmark()
#else
	:: !left -> unmark(); told = false
#endif
	:: else
	fi;
	atomic { next = FIRST; base_lock = false };
#ifndef LOOK_NO_CHECK
	check_alarm()
#endif
}

inline pass_on()
{
	has_work();
	if
#ifndef NO_PASS_ON
	:: any -> wake()
#endif
	:: else
	fi;
	any = false
}

/* A reader that does not wait, and has room for one event. */
proctype thief()
{
	bool got, left, any;

	has_work();
	if
	:: any -> look(true)
	:: !any
	fi;
	atomic { got = false; left = false; any = false; busy-- }
}

inline sleep()
{
	atomic {
		if
		:: !(awake & me) -> asleep = asleep | me
		:: else
		fi;
		busy--
	};
end:	atomic { awake & me -> asleep = asleep & ~me; busy++ }
}

inline join()
{
	atomic { queue = queue | me; awake = awake & ~me }
}

/* Begin to wait: queue, look, set the alarm. */
inline begin_to_wait()
{
#ifdef WAITER_BARRIER
	has_work();
	join();
#else
	join();
	has_work();
#endif
	atomic { wait = !any; any = false };
	if
	:: wait ->
#ifdef STALL
		seen = owed;
#endif
#ifndef NO_WAITER_CHECK
		check_alarm();
#endif
#ifdef STALL
		settle()
#else
		skip
#endif
	:: else
	fi
}

proctype waiter(byte me)
{
	bool got, left, wait, seen, any;

#ifdef POLLS
	do
	:: begin_to_wait();
		if
		:: !wait ->
			look(false);		/* poll() */
			if
			:: left -> look(true)	/* read() */
			:: !left -> sleep()
			fi
		:: wait -> sleep()
		fi;
#ifdef ONCE
		if
		:: got -> break
		:: else
		fi;
#endif
		atomic { got = false; left = false; wait = false }
	od;
#else
	do
	:: has_work();
		if
		:: any -> look(true)
		:: !any
		fi;
		any = false;
		if
		:: got ->
			atomic { got = false; left = false };
			pass_on();
#ifdef ONCE
			break
#endif
		:: else ->
			begin_to_wait();
			if
			:: wait -> sleep()
			:: !wait
			fi;
			atomic { queue = queue & ~me; wait = false };
#ifdef KILL
			if
			:: me == 1 -> pass_on(); break
			:: true
			fi
#endif
		fi
	od;
#endif
	atomic { queue = queue & ~me; got = false; left = false; wait = false; busy-- }
}

/* htw_ring() with htw_ring_decide(). */
proctype alarm()
{
	byte t, n;
	bool any;

end:	do
	:: atomic {
			armed <= now && !alarm_lock -> alarm_lock = true;
			busy++;
			t = now;
#ifdef UNMARKED
			n = next
		};
#else
			armed = NEVER
		};
#endif
		if
		:: told -> n = NEVER
		:: !told ->
#ifndef UNMARKED
			n = next;
#endif
			if
			:: n > t
			:: else ->
				n = NEVER;
#ifdef RING_BARRIER
				any = queue != 0;
#endif
#ifdef TELL_ORDER
				mark();
				told = true;
#else
				told = true;
				mark();
#endif
#ifndef RING_BARRIER
				any = queue != 0;
#endif
			fi
		fi;
		/* It is queued anew, or not in the queue. */
		atomic { armed = n; alarm_lock = false };
		if
#ifdef LANE
		:: any -> atomic { lane++; busy++ }
#else
		:: any -> wake()
#endif
		:: !any
		fi;
		atomic { t = 0; n = 0; any = false; busy-- }
	od
}

/* htw_lane_work() */
proctype worker()
{
end:	do
	:: lane > 0 ->
		wake();
		atomic { lane--; busy-- }
	od
}

#define QUIET	(!busy && armed > now)

/* In each state in which nothing can happen before the clock ticks. */
proctype clock()
{
	do
	:: atomic {
			now < END ->
			if
			:: QUIET && !(awake & asleep) && !owed ->
				assert(!(asleep && DUE_AT(now)));
				assert(!PENDING || armed <= FIRST || (told && work && !asleep))
			:: else
			fi;
			now++
		}
	:: now == END -> break
	od
}

init
{
	atomic {
	#ifdef READY
		when[0] = SOON;
		when[1] = END;
		next = SOON;
		armed = SOON;
#else
		run task(0);
#if TASKS == 2
		run task(1);
#endif
#endif
		busy = TASKS + THIEVES + WAITERS;
		run clock();
		run alarm();
#ifdef LANE
		run worker();
#endif
#ifdef THIEF
		run thief();
#endif
#ifdef TWO
		run waiter(2);
#endif
		run waiter(1)
	}
	timeout;
	assert(now == END && !busy);
	assert(owed || !(asleep && DUE_AT(now)));
	assert(owed || !PENDING || (told && work))
}
