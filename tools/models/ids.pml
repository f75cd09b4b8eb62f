/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A page of timers is given back while others look ids up (core/pages.c, core/calls.c)
 *
 * Stands for htw_pages_shrink_some() beside calls that find a timer without its base's lock, but with
 * that of a base held: htw_call_look_up() and htw_call_lock_timer(), with htw_page_return() when they
 * cancel it. One page with one timer, which is pending in base 1 at first; two tasks that have its id, and
 * begin with either base; and with ADDS a task that takes it when it is free, and starts it in base 0.
 *
 * Promised: nobody touches the page after it was freed, it is taken out of the directory only when its
 * timer is free, the timer is ended once, and with its base's lock held.
 *
 * check:
 * check: -DADDS
 * reject: -DNOT_WAITED	it is freed as soon as it is out of the directory
 * reject: -DCOUNTED_EARLY	a timer counts as free before its base's lock is taken
 * reject: -DNOT_AGAIN	a call that has locked another base does not look again
 * reject: -DADDS -DGENERATION	the id of a timer that has ended matches the next one in the slot
 */

#define PENDING	1
#define FREE	2

byte base_lock = 0;		/* a bit for each base */
bool ids_lock;

/* The directory's entry: 1 is the page, 0 one whose timers are free for ever. */
bool entry = true;
bool freed;

/* The timer. */
byte state = PENDING;
byte base = 1;
byte generation = 1;

byte used = 1;			/* of the page: &htw_page.used */
byte cancelled;

#define TOUCH		assert(!freed)

inline lock_base(b)
{
	atomic { !(base_lock & (1 << (b))) -> base_lock = base_lock | (1 << (b)) }
}

inline unlock_base(b)
{
	atomic { base_lock = base_lock & ~(1 << (b)) }
}

inline lock_ids()
{
	atomic { !ids_lock -> ids_lock = true }
}

/* htw_ids_return(); the timer has ended a little earlier, with the lock held. */
inline give_back()
{
	lock_ids();
	TOUCH;
	state = FREE;
#ifndef COUNTED_EARLY
	used--;
#endif
	ids_lock = false
}

/* HTW_CANCEL of the first id. */
proctype cancel(byte b)
{
	byte found;
	bool page, mine;

#ifdef COUNTED_EARLY
	lock_ids();
	used = 0;
	ids_lock = false;
#endif
	lock_base(b);
	page = entry;
	do
	:: !page -> break
	:: page ->
		TOUCH;
		if
		:: state != PENDING -> break
		:: else
		fi;
		TOUCH;
		found = base;
		if
		:: found != b ->
			unlock_base(b);
			b = found;
			lock_base(b);
#ifndef NOT_AGAIN
			page = entry;
#endif
			if
			:: !page -> break
			:: else
			fi
		:: else
		fi;
		/* With the lock of its base it stays as it is. */
		TOUCH;
		if
		:: state == PENDING && base != b	/* once more */
#ifdef GENERATION
		:: state == PENDING && base == b -> mine = true; break
#else
		:: state == PENDING && base == b && generation == 1 -> mine = true; break
#endif
		:: else -> break
		fi
	od;
	if
	:: mine ->
		TOUCH;
		assert(state == PENDING && base_lock & (1 << base));
		state = FREE;
		atomic {
			cancelled = cancelled + (generation == 1 -> 1 : 2);
			assert(cancelled <= 1)
		};
		give_back()
	:: else
	fi;
	unlock_base(b);
	skip
}

#ifdef ADDS
/* HTW_ADD: takes it off the free list, and starts it in base 0. */
proctype add()
{
	bool got;

	lock_ids();
	if
	:: !used && entry ->
		TOUCH;
		used++;
		generation++;
		got = true
	:: else
	fi;
	ids_lock = false;
	if
	:: got ->
		lock_base(0);
		TOUCH;
		base = 0;
		state = PENDING;
		unlock_base(0)
	:: else
	fi
}
#endif

inline wait_for_calls()
{
	lock_base(0);
	unlock_base(0);
	lock_base(1);
	unlock_base(1)
}

/* htw_pages_shrink_some(), with the context's mutex. */
proctype shrink()
{
	bool out;

	lock_ids();
	if
	:: !used ->
		assert(state == FREE);
		entry = false;
		out = true
	:: else
	fi;
	ids_lock = false;
	if
	:: out ->
#ifndef NOT_WAITED
		wait_for_calls();
#endif
		freed = true
	:: else
	fi
}

init
{
	atomic {
		run cancel(0);
		run cancel(1);
#ifdef ADDS
		run add();
#endif
		run shrink()
	}
}
