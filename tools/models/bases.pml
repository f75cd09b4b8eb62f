/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A read beside the making of the array of bases (core/collect.c, core/bases.c)
 *
 * Stands for htw_collect_available() and htw_collect_wait(), htw_ring_decide() and
 * htw_bases_make_room(): one base, which is not that of the first CPU; a timer in it that comes due
 * once; a reader that blocks; a task whose add makes the array of bases, which has no base for the
 * first CPU.
 *
 * Promised: the reader has the event in the end.
 *
 * check:
 * reject: -DTWO_LOOKS	whether there is an array is looked at once more for each base
 */

bool due, told, queued, woken, taken, others;

/* htw_collect_available() */
inline available()
{
	alone = !others;
	if
#ifdef TWO_LOOKS
	:: alone && others		/* the first CPU has no base in it */
#endif
	:: else ->
		atomic {
			if
			:: due -> taken = true; told = false
			:: else
			fi
		}
	fi
}

active proctype reader()
{
	bool alone;

	available();
	if
	:: taken
	:: else ->
		queued = true;
		/* full barrier */
		available();
		if
		:: taken
		:: else ->
			woken;
			taken = true
		fi
	fi
}

/* htw_ring_decide() */
active proctype alarm()
{
	due = true;
	if
	:: taken
	:: else ->
		told = true;
		/* full barrier */
		if
		:: queued -> woken = true
		:: else
		fi
	fi
}

active proctype add()
{
	others = true
}
