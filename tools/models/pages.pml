/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages of timers, and which base has them (core/ids.[ch], core/pages.c)
 *
 * Stands for htw_ids_take_one(), htw_pages_take() with htw_pages_grow(), htw_pages_shrink_some()
 * and htw_pages_take_any() on the one side, htw_call_lock_timer() with htw_ids_return(), or
 * htw_collect_end(), and htw_pages_shrink() on the other. Two bases; pages of two timers, by
 * number, with the last one that may have fewer; tasks that add on a base and tasks that end
 * timers, by an id or as a read does it. In the beginning base FROM has READY pages, all of whose
 * timers are live. LIMIT is the context's.
 *
 * How a page that is found is kept from being freed is what ids.pml looks at as well; here each
 * that was found is counted, and none is freed that is. A page's list is what the code has made
 * it, and is compared with its timers. Generations end at MAXGEN; a page with a later one than OLD
 * is not given back. The context keeps no empty page, and gives one back at a time, so that there
 * is something to do. With NO_MEMORY it may not grow.
 *
 * Promised: no page is freed that has been found, or has a timer which is not free; no id is used
 * twice; all pages together have as many timers as the limit says, and all counts are right; an
 * add fails with ENOSPC only if no timer is free, but for those that have become free since their
 * base was looked at; who ends the last timer, or who has kept it from giving pages back, leaves
 * no page too many; and nobody waits for ever.
 *
 * check: -DREADY=2 -DLIMIT=4 -DEND0=1
 * check: -DREADY=2 -DLIMIT=4 -DADD0=0 -DADD1=0 -DEND0=2 -DEND1=2
 * check: -DREADY=1 -DLIMIT=2 -DFROM=1 -DADD1=0 -DEND0=2
 * check: -DREADY=2 -DLIMIT=4 -DADD0=0 -DADD1=2 -DEND0=2
 * check: -DREADY=1 -DLIMIT=3 -DADD1=2 -DEND0=2 -DEND1=0
 * check: -DREADY=2 -DLIMIT=4 -DEND0=2 -DEND1=0 -DBEGIN=2 -DMAXGEN=2 -DOLD=0
 * check: -DREADY=2 -DLIMIT=4 -DEND0=2 -DEND1=0 -DMAXGEN=3 -DOLD=0
 * check: -DREADY=1 -DLIMIT=2 -DADD1=2 -DEND0=2 -DEND1=0 -DGIVE_UP
 * check: -DREADY=2 -DLIMIT=4 -DEND0=1 -DNO_MEMORY
 * reject: -DREADY=1 -DLIMIT=2 -DFROM=1 -DADD0=0 -DADD1=0 -DEND0=2 -DNOT_WAITED	a page is freed as soon as it is out of the directory
 * reject: -DREADY=2 -DLIMIT=4 -DEND0=1 -DNOT_LOCKED	a timer is returned with the lock of the base that was locked first
 * reject: -DREADY=1 -DLIMIT=3 -DADD1=2 -DEND0=2 -DEND1=0 -DSAME_GENERATION	a new page begins with the first generation
 * reject: -DREADY=2 -DLIMIT=4 -DEND0=1 -DONE_BASE	at the limit no timer of another base is taken
 * reject: -DREADY=2 -DLIMIT=4 -DEND0=2 -DEND1=0 -DBEGIN=2 -DMAXGEN=2 -DOLD=0 -DROOM_ONCE	nor is it seen that others have retired a page
 * reject: -DREADY=2 -DLIMIT=4 -DADD0=0 -DEND0=1 -DEND1=0 -DBEGIN=2 -DMAXGEN=2 -DOLD=0 -DRETIRED_WHOLE	a page that is retired makes room for timers that are used
 * reject: -DREADY=1 -DLIMIT=3 -DADD0=0 -DADD1=1 -DEND0=1 -DEND1=0 -DGIVE_UP -DSTARTED_ONLY	a timer counts as used when it is started
 * reject: -DREADY=2 -DLIMIT=4 -DADD0=0 -DADD1=0 -DEND0=2 -DEND1=2 -DCLEARED_LATE	that pages are too many is forgotten after bases were looked at
 * reject: -DREADY=2 -DLIMIT=4 -DADD0=0 -DADD1=0 -DEND0=2 -DEND1=2 -DNOT_AGAIN	who drops the mutex does not look whether pages are too many
 * reject: -DREADY=1 -DLIMIT=3 -DADD0=0 -DADD1=1 -DEND0=1 -DEND1=0 -DALL_OF_IT	a page has as many timers as it can, beyond the limit
 */

#ifndef ADD0
#define ADD0	1		/* adds on each base */
#endif
#ifndef ADD1
#define ADD1	1
#endif
#ifndef END0
#define END0	2		/* timers that each of two tasks ends */
#endif
#ifndef END1
#define END1	1
#endif
#ifndef FROM
#define FROM	0		/* whose the first pages are */
#endif
#ifndef BEGIN
#define BEGIN	1		/* the generation of the first pages */
#endif
#ifndef MAXGEN
#define MAXGEN	20
#endif
#ifndef OLD
#define OLD	MAXGEN
#endif

#define NR	4		/* numbers of pages; more are not used */
#define SLOTS	2

/* Of a page. */
#define ABSENT	0
#define IN	1		/* the directory */
#define OUT	2		/* taken out, and not freed yet */
/* Which list it is in. */
#define NONE	0
#define PAGES	1
#define EMPTY	2
/* Of a timer; a page that was retired, or one at the limit, has fewer. */
#define MISSING	0
#define FREE	1
#define TAKEN	2
#define LIVE	3

bool base_lock[2], mutex;
byte room, newest;		/* &htw_ids.generation */
bool is_sparse;
byte nr_pages[2], nr_empty[2];

byte state[NR], list[NR], used[NR], gen[NR];
bool owner[NR];
byte timer[NR * SLOTS], id[NR * SLOTS];	/* generation */
byte found[NR];			/* tasks that have it in their hands */
byte last[NR];			/* the latest generation that was used with this number */
bool ended[2];			/* a timer has ended since the base was looked at, at the limit */
byte failed;

#define HAS(n)		((timer[(n) * 2] != MISSING) + (timer[(n) * 2 + 1] != MISSING))
#define FREES(n)	((timer[(n) * 2] == FREE) + (timer[(n) * 2 + 1] == FREE))
#define IS(n, b, l)	(state[n] == IN && owner[n] == (b) && list[n] == (l))
#define OF(n, b)	(state[n] == IN && owner[n] == (b))
#define ANY(b, l)	(IS(0, b, l) || IS(1, b, l) || IS(2, b, l) || IS(3, b, l))
#define COUNT(b, l)	(IS(0, b, l) + IS(1, b, l) + IS(2, b, l) + IS(3, b, l))
#define SPARSE(b)	(nr_empty[b] && nr_empty[b] > nr_pages[b] / 4)
#define LIVES		(timer[0] >= TAKEN || timer[1] >= TAKEN || timer[2] >= TAKEN || timer[3] >= TAKEN || \
			 timer[4] >= TAKEN || timer[5] >= TAKEN || timer[6] >= TAKEN || timer[7] >= TAKEN)

/* The counts, and the lists, of what @b's lock guards. */
#define LISTED(n, b)	(!OF(n, b) || (used[n] == SLOTS - FREES(n) && \
			 list[n] == (!FREES(n) -> NONE : (used[n] -> PAGES : EMPTY))))
inline right(b)
{
	assert(nr_pages[b] == OF(0, b) + OF(1, b) + OF(2, b) + OF(3, b));
	assert(nr_empty[b] == COUNT(b, EMPTY));
	assert(LISTED(0, b) && LISTED(1, b) && LISTED(2, b) && LISTED(3, b));
	assert(room + HAS(0) + HAS(1) + HAS(2) + HAS(3) == LIMIT)
}

inline lock_base(b)
{
	atomic { !base_lock[b] -> base_lock[b] = true }
}

inline unlock_base(b)
{
	atomic { right(b); base_lock[b] = false }
}

/* htw_page_retire() */
inline retire(n)
{
	nr_empty[owner[n]] = nr_empty[owner[n]] - !used[n];
	list[n] = NONE;
#ifdef RETIRED_WHOLE
	room = room + SLOTS;
#else
	room = room + SLOTS - used[n];
#endif
	used[n] = SLOTS;
	timer[n * 2] = (timer[n * 2] == FREE -> MISSING : timer[n * 2]);
	timer[n * 2 + 1] = (timer[n * 2 + 1] == FREE -> MISSING : timer[n * 2 + 1])
}

inline some_page(b, l)
{
	if
	:: IS(0, b, l) -> n = 0
	:: IS(1, b, l) -> n = 1
	:: IS(2, b, l) -> n = 2
	:: IS(3, b, l) -> n = 3
	fi
}

/* htw_ids_take() of one timer: into @t, or NR * SLOTS. With the lock of @b. */
inline take(b)
{
	do
	:: !ANY(b, PAGES) && !ANY(b, EMPTY) -> break
	:: else ->
		if
		:: ANY(b, PAGES) -> some_page(b, PAGES)
		:: else -> some_page(b, EMPTY)
		fi;
		if
		:: gen[n] == MAXGEN -> retire(n)
		:: else ->
			t = n * 2;
			if
			:: timer[n * 2] == FREE
			:: else -> t = t + 1
			fi;
			gen[n]++;
			assert(gen[n] > last[n]);
			last[n] = gen[n];
			id[t] = gen[n];
			timer[t] = TAKEN;
#ifdef STARTED_ONLY
			if
			:: !FREES(n) -> list[n] = NONE
			:: else
			fi;
#else
			if
			:: !used[n] -> list[n] = PAGES; nr_empty[b]--
			:: else
			fi;
			used[n]++;
			if
			:: !FREES(n) -> list[n] = NONE
			:: else
			fi;
#endif
			break
		fi
	od;
	n = 0
}

/* htw_pages_take_of() */
inline take_of(b)
{
	atomic { !base_lock[b] -> take(b); right(b) }
}

/* htw_ids_return(), with the lock of the page's base; the page of timer @t */
inline give(t)
{
	if
	:: !FREES(t / 2) -> list[t / 2] = PAGES
	:: else
	fi;
	timer[t] = FREE;
	used[t / 2]--;
	ended[owner[t / 2]] = true;
	if
	:: !used[t / 2] ->
		list[t / 2] = EMPTY;
		nr_empty[owner[t / 2]]++;
		if
		:: SPARSE(owner[t / 2]) -> is_sparse = true
		:: else
		fi
	:: else
	fi
}

/* htw_pages_unhook() of base @b: one page at most */
inline unhook(b)
{
	atomic {
		!base_lock[b];
		if
		:: most && SPARSE(b) ->
			some_page(b, EMPTY);
			most = 0;
			if
			:: gen[n] > OLD -> retire(n)
			:: else ->
				nr_empty[b]--;
				nr_pages[b]--;
				room = room + SLOTS;
				timer[n * 2] = MISSING;
				timer[n * 2 + 1] = MISSING;
				newest = (gen[n] > newest -> gen[n] : newest);
				list[n] = NONE;
				state[n] = OUT;
				out = n
			fi;
			n = 0
		:: else
		fi;
		if
		:: SPARSE(b) -> is_sparse = true
		:: else
		fi;
		right(b)
	}
}

/* htw_pages_shrink_some() */
inline shrink_some()
{
	atomic { most = 1; out = NR };
#ifndef CLEARED_LATE
	is_sparse = false;
#endif
	unhook(0);
	unhook(1);
#ifdef CLEARED_LATE
	is_sparse = false;
#endif
	if
	:: out < NR ->
#ifndef NOT_WAITED
		atomic { !base_lock[0] };
		atomic { !base_lock[1] };
#endif
		atomic {
			assert(!found[out] && !used[out]);
			state[out] = ABSENT;
			out = NR
		}
	:: else
	fi
}

/* __htw_pages_shrink(), of a call that has ended one timer, or less */
inline shrink()
{
	do
	:: atomic { !mutex && is_sparse -> mutex = true };
		shrink_some();
		atomic { mutex = false; most = 0 };
		/* full barrier */
		if
#ifdef NOT_AGAIN
		:: true -> break
#else
		:: is_sparse && !LIVES
		:: else -> break
#endif
		fi
	:: atomic { else -> most = 0; break }
	od
}

/* htw_pages_unlock() */
inline pages_unlock()
{
	mutex = false;
#ifndef NOT_AGAIN
	/* full barrier */
	shrink()
#endif
}

/* htw_pages_grow(): with the mutex, and some room; no other task makes that less. */
inline grow(b)
{
	atomic {
		if
		:: state[0] == ABSENT -> n = 0
		:: else ->
			if
			:: state[1] == ABSENT -> n = 1
			:: else ->
				if
				:: state[2] == ABSENT -> n = 2
				:: else -> n = 3; assert(state[3] == ABSENT)
				fi
			fi
		fi;
#ifdef ALL_OF_IT
		count = SLOTS;
#else
		count = (room < SLOTS -> room : SLOTS);
#endif
		room = room - count;
		timer[n * 2] = FREE;
		timer[n * 2 + 1] = (count == SLOTS -> FREE : MISSING);
		used[n] = SLOTS - count;
#ifdef SAME_GENERATION
		gen[n] = 0;
#else
		gen[n] = newest;
#endif
		owner[n] = b;
		/* It can be looked up, but has no timer that is live, and is in no list. */
		state[n] = OUT
	};
	atomic {
		!base_lock[b] ->
		state[n] = IN;
		list[n] = (used[n] -> PAGES : EMPTY);
		nr_pages[b]++;
		nr_empty[b] = nr_empty[b] + !used[n];
		right(b);
		n = 0;
		count = 0
	}
}

#define GOT	(t < NR * SLOTS)

/* htw_pages_take(), and starting what it has taken */
proctype add(bool b; byte adds)
{
	byte t, n, out, most, count, was;

	do
	:: adds ->
		atomic { adds--; t = NR * SLOTS };
		take_of(b);
		if
		:: GOT
		:: else ->
			atomic { !mutex -> mutex = true };
			do
			:: true ->
				take_of(b);
				if
				:: GOT -> break
				:: else
				fi;
				was = room;
				if
				:: room -> grow(b)
#ifdef NO_MEMORY
				:: true ->
#else
				:: else ->
#endif
#ifndef ONE_BASE
					/* htw_pages_take_any() */
					atomic { !base_lock[0] -> take(0); right(0); ended[0] = false };
					if
					:: GOT
					:: else ->
						atomic { !base_lock[1] -> take(1); right(1); ended[1] = false }
					fi;
#else
					atomic { ended[0] = false; ended[1] = false };
#endif
					if
					:: GOT -> break
					:: else ->
						atomic {
							if
#ifdef ROOM_ONCE
							:: true ->
#else
							:: room == was ->
#endif
								assert(ended[0] || (!ANY(0, PAGES) && !ANY(0, EMPTY)));
								assert(ended[1] || (!ANY(1, PAGES) && !ANY(1, EMPTY)));
#ifndef NO_MEMORY
								assert(!room);
#endif
								failed++;
								break
							:: else
							fi
						}
					fi
				fi
			od;
			atomic { most = 0; was = 0; ended[0] = false; ended[1] = false };
			pages_unlock()
		fi;
		if
		:: GOT ->
			/* The id is written to the program. */
			if
#ifdef GIVE_UP
			:: lock_base(owner[t / 2]);
				atomic { give(t); right(owner[t / 2]); base_lock[owner[t / 2]] = false };
				shrink()
#endif
			:: atomic {
				!base_lock[owner[t / 2]] ->
				assert(state[t / 2] == IN && timer[t] == TAKEN);
#ifdef STARTED_ONLY
				used[t / 2]++;
#endif
				timer[t] = LIVE
			   }
			fi
		:: else
		fi;
		t = 0
	:: else -> break
	od
}

/* Ends timers: a call that has the id of one, or a read of one of base @b. */
proctype end(byte ends)
{
	byte t, g, n, out, most;
	bool b, has;

	do
	:: ends ->
		/* Some timer that is live, if there is one. */
		atomic {
			ends--;
			if
			:: timer[0] == LIVE -> t = 0
			:: timer[1] == LIVE -> t = 1
			:: timer[2] == LIVE -> t = 2
			:: timer[3] == LIVE -> t = 3
			:: timer[4] == LIVE -> t = 4
			:: else -> break
			fi;
			g = id[t];
			if
			:: b = 0
			:: b = 1
			fi
		};
		lock_base(b);
		if
		:: atomic { state[t / 2] == IN -> found[t / 2]++; has = true };
#ifndef NOT_LOCKED
			if
			:: atomic {
				timer[t] == LIVE && owner[t / 2] != b ->
				found[t / 2]--;
				base_lock[b] = false;
				b = !b
			   };
				lock_base(b);
				atomic { has = state[t / 2] == IN; found[t / 2] = found[t / 2] + has }
			:: else
			fi
#endif
		:: else
		fi;
		atomic {
			if
#ifdef NOT_LOCKED
			:: has && timer[t] == LIVE && id[t] == g ->
#else
			:: has && timer[t] == LIVE && id[t] == g && owner[t / 2] == b ->
#endif
				assert(base_lock[owner[t / 2]] && owner[t / 2] == b);
				give(t)
			:: else
			fi;
			found[t / 2] = found[t / 2] - has;
			right(b);
			base_lock[b] = false;
			has = false; b = 0; t = 0; g = 0
		};
		shrink()
	:: else -> break
	od
}

init
{
	atomic {
		room = LIMIT;
		byte i;
		for (i : 0 .. READY - 1) {
			state[i] = IN;
			used[i] = SLOTS;
			gen[i] = BEGIN;
			last[i] = BEGIN;
			timer[i * 2] = LIVE;
			timer[i * 2 + 1] = LIVE;
			id[i * 2] = BEGIN;
			id[i * 2 + 1] = BEGIN;
			owner[i] = FROM;
			nr_pages[FROM]++;
			room = room - SLOTS
		};
		i = 0;
		run add(0, ADD0);
		run add(1, ADD1);
		run end(END0);
		run end(END1)
	};
	_nr_pr == 1 ->
	assert(LIVES || (!SPARSE(0) && !SPARSE(1)));
	assert(state[0] != OUT && state[1] != OUT && state[2] != OUT && state[3] != OUT)
}
