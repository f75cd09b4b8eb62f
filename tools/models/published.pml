/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is published without a lock: bases, pages of timers, and a timer's key (core/)
 *
 * Stands for htw_bases_make() with htw_bases_make_room(), htw_pages_grow() with htw_pages_extend()
 * and htw_base_start() on the one side, and for htw_ids_lookup(), htw_lookup_find(),
 * htw_call_lock_timer() and htw_context_base_of() on the other: a task adds the first timer of a new page
 * on a CPU whose base it has made, another one finds it by its id, with the lock of another base held.
 *
 * Stores that nothing orders are seen in any order, and loads that nothing orders are made in any order:
 * each side is a set of steps of which each waits for those that have to come before it. A broken variant
 * drops one of these. A load from an address that was loaded waits for that by itself.
 *
 * Promised: who sees something sees all that it leads to: no page that is not there, no number that was
 * not written, no base that is missing.
 *
 * check:
 * reject: -DCOUNT_EARLY	how many pages there are may be seen before the page is in the directory
 * reject: -DDIRECTORY_FIRST	the directory may be looked at before the number of pages was read
 * reject: -DENTRIES_LATE	a directory may be seen before its entries
 * reject: -DPAGE_LATE	a page may be seen before it was cleared and has its number
 * reject: -DKEY_EARLY	a timer's key may be seen before its base
 * reject: -DBASE_EARLY	the bases may be looked at before the timer's key was read
 * reject: -DROOM_LATE	the array of bases may be seen before it was cleared
 */

/* What the adding task has written, as others see it. */
bool page_ready;		/* the page's contents */
bool entries_ready;		/* those of the new directory, with the old pages' */
bool entry;			/* the page, in the directory */
bool directory;			/* the new directory's address */
bool count;			/* that there is this page */
bool array_ready;		/* the array of bases has been cleared */
bool array;			/* its address */
bool base_ready;		/* the base's contents */
bool base;			/* the base, in the array */
bool key;			/* the timer's: pending in this base */

proctype add()
{
	byte steps;

	do
	:: atomic { !page_ready -> page_ready = true; steps++ }
	:: atomic { !entries_ready -> entries_ready = true; steps++ }
	/* rcu_assign_pointer() of the directory */
#ifdef ENTRIES_LATE
	:: atomic { !directory -> directory = true; steps++ }
#else
	:: atomic { !directory && entries_ready -> directory = true; steps++ }
#endif
	/* and of the page */
#ifdef PAGE_LATE
	:: atomic { !entry && entries_ready -> entry = true; steps++ }
#else
	:: atomic { !entry && entries_ready && page_ready -> entry = true; steps++ }
#endif
	/* smp_store_release() of the number */
#ifdef COUNT_EARLY
	:: atomic { !count && directory -> count = true; steps++ }
#else
	:: atomic { !count && directory && entry -> count = true; steps++ }
#endif
	:: atomic { !array_ready -> array_ready = true; steps++ }
	/* smp_store_release() of the array */
#ifdef ROOM_LATE
	:: atomic { !array -> array = true; steps++ }
#else
	:: atomic { !array && array_ready -> array = true; steps++ }
#endif
	:: atomic { !base_ready -> base_ready = true; steps++ }
	/* and of the base */
	:: atomic { !base && array_ready && base_ready -> base = true; steps++ }
	/* and of the key, in htw_base_start() */
#ifdef KEY_EARLY
	:: atomic { !key && page_ready -> key = true; steps++ }
#else
	:: atomic { !key && page_ready && array && base -> key = true; steps++ }
#endif
	:: steps == 10 -> break
	od
}

/* It has an id that it was given, or one that it guessed. */
proctype find()
{
	bool counted, count_read, new_read, is_new, key_read, is_pending, array_read, has_array;

	/* The number of pages, and the directory. */
	do
	:: atomic { !count_read -> counted = count; count_read = true }
#ifdef DIRECTORY_FIRST
	:: atomic { !new_read -> is_new = directory; new_read = true }
#else
	:: atomic { !new_read && count_read -> is_new = directory; new_read = true }
#endif
	:: count_read && new_read -> break
	od;
	if
	:: !counted -> goto none
	:: counted
	fi;
	/* The old directory has no room for it. */
	assert(is_new);
	assert(entries_ready);
	/* The page's address, and the timer there. */
	assert(entry);
	assert(page_ready);

	/* The timer's key, and the bases. */
	do
	:: atomic { !key_read -> is_pending = key; key_read = true }
#ifdef BASE_EARLY
	:: atomic { !array_read -> has_array = array; array_read = true }
#else
	:: atomic { !array_read && key_read -> has_array = array; array_read = true }
#endif
	:: key_read && array_read -> break
	od;
	if
	:: !is_pending -> goto none
	:: is_pending
	fi;
	assert(has_array);
	assert(array_ready);
	assert(base);
	assert(base_ready);
none:	skip
}

/* Another CPU looks for a base of its own, or at all bases, as read() does. */
proctype look()
{
	if
	:: array -> assert(array_ready)
	:: !array
	fi;
	if
	:: array && base -> assert(base_ready)
	:: else
	fi;
	if
	:: directory -> assert(entries_ready)
	:: !directory
	fi
}

init
{
	atomic {
		run add();
		run find();
		run look()
	}
}
