/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shrinking against lookups and sections (core/shrink.c, core/pool.c, core/section.h)
 *
 * Stands for htw_shrink_mark(), htw_shrink_page_sum(), htw_shrink_reclaim(), htw_shrink_take(),
 * htw_shrink_unlink(), htw_pool_grow(), htw_pool_alloc(), htw_section_cancel(),
 * htw_section_return_freed(), htw_timer_end_id() and lookups by id, for a page of two timers.
 *
 * One task adds a timer, cancels it in a section, which keeps it on a private list to its end,
 * and does so again. Another looks up the first id, which may be out of date. A work item marks
 * the page and later frees it; then the task adds a new page in its place. RCU readers are
 * sections and lookups. A base's lock, under which a cancel finds its timer, is left out: only
 * one task cancels.
 *
 * Assumed: acquire and release keep their order; generations do not wrap.
 *
 * Promised: a page is freed only while all its timers are on the context's free list, and nobody
 * looks at it afterwards; no id is given out twice, and one that is out of date finds no timer.
 *
 * check:
 * reject: -DNO_GP	the page goes without a grace period after the mark
 * reject: -DNO_SUM	generations are not compared with those at the mark
 * reject: -DSTATE_FIRST	a timer that is freed has its state before its generation
 * reject: -DSUM_FIRST	a generation is read before the state
 * reject: -DFREE_AT_ONCE	memory is freed while lookups may have found it
 * reject: -DSAME_GENERATION	a new page starts where the first one did
 */

#define TIMERS	2
#define ROUNDS	3

mtype = { FREE, USED };
mtype = { LISTED, PRIVATE, NOWHERE };

mtype state[TIMERS] = FREE;
mtype place[TIMERS] = LISTED;
byte generation[TIMERS] = 2;	/* each was used once */
bool present = true;		/* the page is in the directory */
bool freed;			/* its memory is */
byte start = 1;			/* generation that the next page starts with */
byte given[TIMERS] = 1;		/* the last generation of each slot that was given out */
bool lock;			/* the context's */
byte version;			/* of the page: another one may be in its place */

byte readers, gp_mark, gp_free;

inline spin_lock()	{ atomic { !lock -> lock = true } }
inline spin_unlock()	{ lock = false }
inline rcu_lock(me)	{ readers = readers | me }
inline rcu_unlock(me)
{
	atomic {
		readers = readers & ~me;
		gp_mark = gp_mark & ~me;
		gp_free = gp_free & ~me
	}
}

/* htw_shrink_page_sum(): without a lock at the mark, each access is a step. */
inline sum_page(sum)
{
	i = 0;
	sum = 0;
	do
	:: i < TIMERS ->
#ifdef SUM_FIRST
		sum = sum + generation[i];
		if
		:: state[i] == FREE -> i++
#else
		if
		:: state[i] == FREE ->
			sum = sum + generation[i];
			i++
#endif
		:: else -> sum = 0; break
		fi
	:: i == TIMERS -> break
	od;
	i = 0
}

proctype task()
{
	byte n, t, i;

	do
	:: n < ROUNDS ->
		n++;
		/* htw_pool_alloc() */
		spin_lock();
		if
		:: present && place[0] == LISTED -> t = 0
		:: present && place[1] == LISTED -> t = 1
		:: !present && freed ->
			/* htw_pool_grow() */
			atomic {
				i = 0;
				do
				:: i < TIMERS ->
					state[i] = FREE;
					place[i] = LISTED;
					generation[i] = start;
					i++
				:: i == TIMERS -> break
				od;
				i = 0;
				version++;
				freed = false;
				present = true;
				t = 0
			}
		:: !present && !freed ->
			/* The page's memory is its own: here, wait for it. */
			spin_unlock();
			freed;
			n--;
			goto again
		fi;
		atomic {
			place[t] = NOWHERE;
			state[t] = USED;
			assert(generation[t] > given[t]);
			given[t] = generation[t]
		}
		spin_unlock();

		/* A section cancels it. */
		rcu_lock(1);
		assert(!freed);
#ifdef STATE_FIRST
		place[t] = PRIVATE;
		state[t] = FREE;
		generation[t] = generation[t] + 1;
#else
		generation[t] = generation[t] + 1;
		atomic { place[t] = PRIVATE; state[t] = FREE }
#endif
		spin_lock();
		assert(!freed);
		place[t] = LISTED;
		spin_unlock();
		rcu_unlock(1);
		t = 0;
again:		skip
	:: n == ROUNDS -> break
	od
}

/* Look up a timer's first id. */
proctype lookup()
{
	byte seen, n;

	do
	:: n < 2 ->
		n++;
		rcu_lock(2);
		if
		:: atomic { present -> seen = version }
			/* The page that was found must be there still. */
			assert(seen == version && !freed);
			if
			:: state[0] == USED ->
				assert(seen == version && !freed);
				assert(generation[0] != 1)	/* the id is out of date */
			:: else
			fi;
			seen = 0
		:: !present
		fi;
		rcu_unlock(2)
	:: n == 2 -> break
	od
}

proctype shrink()
{
	byte marked, sum, i;

	/* htw_shrink_mark() */
	sum_page(marked);
#ifndef NO_GP
	gp_mark = readers;
	!gp_mark;
#endif
	/* htw_shrink_reclaim() */
	spin_lock();
	sum_page(sum);
	if
#ifdef NO_SUM
	:: marked && sum ->
#else
	:: marked && sum == marked ->
#endif
		assert(place[0] == LISTED && place[1] == LISTED);
		place[0] = NOWHERE;
		place[1] = NOWHERE;
		spin_unlock();
#ifndef SAME_GENERATION
		start = (generation[0] > generation[1] -> generation[0] : generation[1]);
#endif
		present = false;
#ifndef FREE_AT_ONCE
		gp_free = readers;
		!gp_free;
#endif
		freed = true
	:: else -> spin_unlock()
	fi
}

init
{
	atomic {
		run task();
		run lookup();
		run shrink()
	}
}
