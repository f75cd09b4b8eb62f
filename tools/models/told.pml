/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who waits by an edge: what was told ends without being read, while a bucket is to be moved down
 *
 * Stands for htw_base_publish(), htw_ring_unlock(), htw_ring_tell(), htw_ring_unlock_told(),
 * htw_ring_decide(), htw_collect_looked(), and for a program that sleeps in epoll_wait() with EPOLLET
 * and then reads until EAGAIN, or ends what is due by a call. Each step is one with the lock held: what comes between those is in
 * alarm.pml.
 *
 * Timer 0 is in its place on level 0. Timer 1 is in a bucket of level 1 that may be moved down from
 * MOVE on, and whose first tick is FIRST; it is due later than that. A task cancels or moves timer 0,
 * puts off timer 1, starts one that is due at once, or looks, each at any time and in any order.
 *
 * Promised: when nothing but the clock can happen any more, the program does not sleep while a timer
 * is due of which it was not told since it read.
 *
 * check:
 * reject: -DBUCKET_TOLD	a bucket that is to be moved down counts as something to be read
 * reject: -DSTAYS_TOLD		what was told ends by a call, and the next is not told
 * reject: -DNO_LOOK		nobody is woken for a bucket whose first tick has come
 */

#define NEVER	9
#define END	8
#define MOVE	3
#define FIRST	4

byte now = 1;
byte when[2];			/* deadlines; 0: not pending */
bool bucket = true;		/* timer 1 has not been moved down */
byte next = MOVE, first, armed;
bool guess, told;
bool ready;			/* epoll has the descriptor on its list: it will poll */
bool asleep = true;
byte calls = 4;

#define DUE(i)		(when[i] && when[i] <= now && !(i && bucket))
#define ANY_DUE		((when[0] && when[0] <= now) || (when[1] && when[1] <= now))
#define FOUND_DUE	(DUE(0) || DUE(1))
#define MIN(a, b)	(a < b -> a : b)
#define TIME(i)		(when[i] -> when[i] : NEVER)

/* htw_base_publish() */
inline publish()
{
	if
	:: when[1] && bucket ->
		next = MIN(TIME(0), MOVE);
		first = MIN(TIME(0), FIRST);
		guess = FIRST < TIME(0)
	:: else ->
		next = MIN(TIME(0), TIME(1));
		first = next;
		guess = false
	fi
}

/* htw_base_look(): timers that are due come first. */
inline move_down()
{
	if
	:: !FOUND_DUE && now >= MOVE -> bucket = false
	:: else
	fi
}

inline check_alarm()
{
	if
	:: armed > next && !told -> armed = next
	:: else
	fi
}

/* poll(), or a read() that finds nothing: htw_collect_base() with htw_collect_looked() */
inline look()
{
	move_down();
	if
	:: !FOUND_DUE -> told = false
	:: else
	fi;
	publish();
	check_alarm()
}

/* htw_ring_unlock() after a call. */
inline unlock_base()
{
	publish();
	if
	:: told ->
#ifdef STAYS_TOLD
		skip
#elif defined(BUCKET_TOLD)
		if
		:: next > now -> told = false
		:: else
		fi
#else
		if
		:: !FOUND_DUE && (first > now || guess) -> told = false
		:: else
		fi
#endif
	:: !told && next <= now ->
		move_down();
		publish();
		if
		:: FOUND_DUE -> told = true; ready = true
		:: else
		fi
	:: else
	fi;
	check_alarm()
}

proctype task()
{
end:	do
	:: atomic { calls > 0 && when[0] -> calls--; when[0] = 0; unlock_base() }
	:: atomic { calls > 0 && when[0] -> calls--; when[0] = now + 2; unlock_base() }
	:: atomic { calls > 0 && when[1] -> calls--; when[1] = END; bucket = false; unlock_base() }
	:: atomic { calls > 0 && !when[0] -> calls--; when[0] = now; told = false; unlock_base() }
	:: atomic { calls > 0 -> calls--; look() }
	od
}

/* htw_ring() with htw_ring_decide() */
proctype alarm()
{
end:	do
	:: atomic {
			armed <= now -> armed = NEVER;
			if
			:: told
			:: !told && next > now -> armed = next
			:: !told && next <= now && first > now -> armed = first; ready = true
#ifdef NO_LOOK
			:: !told && next <= now && first <= now && guess -> told = true
			:: !told && next <= now && first <= now && !guess -> told = true; ready = true
#else
			:: !told && next <= now && first <= now -> told = true; ready = true
#endif
			fi
		}
	od
}

/* epoll polls what is on its list; if a timer is due, the program reads until nothing is. */
proctype program()
{
end:	do
	:: atomic {
			ready -> ready = false;
			look();
			if
			:: FOUND_DUE -> asleep = false
			:: else
			fi
		}
	:: atomic { !asleep && DUE(0) -> when[0] = 0; look() }
	:: atomic { !asleep && DUE(1) -> when[1] = 0; look() }
	/* It reads until EAGAIN, or has ended what it was told of by a call. */
	:: atomic { !asleep && !FOUND_DUE -> look(); if :: !FOUND_DUE -> asleep = true :: else fi }
	:: atomic { !asleep && !ANY_DUE -> asleep = true }
	od
}

#define QUIET	(armed > now && !ready && asleep)

proctype clock()
{
	do
	:: atomic { now < END -> if :: QUIET -> assert(!ANY_DUE) :: else fi; now++ }
	:: now == END -> break
	od
}

init
{
	atomic {
		when[0] = 2;
		when[1] = FIRST + 1;
		publish();
		armed = next;
		run task();
		run alarm();
		run program();
		run clock()
	}
	timeout;
	assert(now == END && !ANY_DUE)
}
