/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A page of timers is given back while others look ids up (core/pages.c, core/calls.c)
 *
 * Stands for htw_pages_shrink_some() beside calls that find a timer with the lock of some base held:
 * htw_call_look_up() and htw_call_lock_timer(), with htw_ids_return() when they cancel it. One page with
 * one timer, of base 1, which is pending at first; two tasks that have its id, and begin with either base;
 * with ADDS a task that takes the timer when it is free, and starts it anew, and another page of base 0
 * that may come in the place of the one that was given back.
 *
 * Promised: nobody touches the page after it was freed, it is taken out of the directory only when its
 * timer is free, a timer is ended once, by who has its id and holds its base's lock, and nothing of it but
 * its base, and whether it is live, is read without.
 *
 * check:
 * check: -DADDS
 * reject: -DNOT_WAITED	it is freed as soon as it is out of the directory
 * reject: -DCOUNTED_EARLY	a timer counts as free before its base's lock is taken
 * reject: -DNOT_AGAIN	a call that has locked another base does not look again
 * reject: -DADDS -DNOT_COMPARED	nor whether what it finds then is of that base
 * reject: -DADDS -DGENERATION	the id of a timer that has ended matches the next one in the slot
 */

/* The directory's entry: a page, or one whose timers are free for ever. */
#define HOLE	0
#define FIRST	1
#define SECOND	2

byte base_lock = 0;		/* a bit for each base */
byte entry = FIRST;
bool freed;			/* the first page */

/* Of the timer in each page. */
bool live[3];
byte base[3];
byte generation[3];

byte used = 1;			/* of the first page: &htw_page.used */
byte cancelled;			/* of the first id */

#define TOUCH(p)		assert(p != FIRST || !freed)
#define GUARDED(p, b)		assert(base[p] == b && base_lock & (1 << (b)))

inline lock_base(b)
{
	atomic { !(base_lock & (1 << (b))) -> base_lock = base_lock | (1 << (b)) }
}

inline unlock_base(b)
{
	atomic { base_lock = base_lock & ~(1 << (b)) }
}

/* HTW_CANCEL of the first id, which begins with base @b. */
proctype cancel(byte b)
{
	byte page, found;
	bool mine;

#ifdef COUNTED_EARLY
	used = 0;
#endif
	lock_base(b);
	page = entry;
	TOUCH(page);
	if
	:: live[page] ->
		TOUCH(page);
		found = base[page];
		if
		:: found != b ->
			unlock_base(b);
			b = found;
			lock_base(b);
#ifndef NOT_AGAIN
			page = entry
#endif
		:: else
		fi;
		TOUCH(page);
#ifdef NOT_COMPARED
		if
		:: live[page] ->
#else
		if
		:: live[page] && base[page] == b ->
#endif
			GUARDED(page, b);
#ifdef GENERATION
			mine = true
#else
			mine = generation[page] == 1
#endif
		:: else
		fi
	:: else
	fi;
	if
	:: mine ->
		TOUCH(page);
		GUARDED(page, b);
		assert(live[page] && generation[page] == 1);
		live[page] = false;
		cancelled++;
		assert(cancelled == 1);
#ifndef COUNTED_EARLY
		used--
#endif
	:: else
	fi;
	unlock_base(b)
}

#ifdef ADDS
/* HTW_ADD: takes the timer of the first page, if it is free, and starts it. */
proctype add()
{
	lock_base(1);
	if
	:: !used && entry == FIRST ->
		TOUCH(FIRST);
		used++;
		generation[FIRST]++;
		unlock_base(1);
		/* Its id is written to the program. */
		lock_base(1);
		TOUCH(FIRST);
		live[FIRST] = true
	:: else
	fi;
	unlock_base(1)
}
#endif

inline wait_for_calls()
{
	lock_base(0);
	unlock_base(0);
	lock_base(1);
	unlock_base(1)
}

/* htw_pages_shrink_some(), with the context's mutex; then htw_pages_grow() by another base. */
proctype shrink()
{
	bool out;

	lock_base(1);
	if
	:: !used ->
		assert(!live[FIRST]);
		entry = HOLE;
		out = true
	:: else
	fi;
	unlock_base(1);
	if
	:: out ->
#ifndef NOT_WAITED
		wait_for_calls();
#endif
		freed = true
	:: else
	fi;
#ifdef ADDS
	if
	:: out ->
		base[SECOND] = 0;
		generation[SECOND] = generation[FIRST] + 1;
		entry = SECOND;
		lock_base(0);
		live[SECOND] = true;
		unlock_base(0)
	:: else
	fi
#endif
}

init
{
	atomic {
		live[FIRST] = true;
		base[FIRST] = 1;
		generation[FIRST] = 1;
		run cancel(0);
		run cancel(1);
#ifdef ADDS
		run add();
#endif
		run shrink()
	}
}
