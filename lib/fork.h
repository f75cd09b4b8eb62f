/* SPDX-License-Identifier: MIT */
/*
 * Tell a child of fork() from its parent
 *
 * What belongs to one process remembers that process's number, and compares:
 *
 *	ret = htw_process_number(&p->process);		(when it is opened)
 *	if (htw_is_forked(p->process)) return -EPERM;	(in each call)
 *
 * A comparison is a load, and takes no lock that a child might find held.
 */
#ifndef LIBHTW_FORK_H
#define LIBHTW_FORK_H

#include <stdbool.h>
#include <linux/types.h>

/* The number of this process; the kernel sets it to zero in a child. */
extern u32 *htw_process;

int htw_process_number(u32 *number);

/* Is this a child of the process whose number that is? May be called after htw_process_number(). */
static inline bool htw_is_forked(u32 number)
{
	return __builtin_expect(__atomic_load_n(htw_process, __ATOMIC_RELAXED) != number, 0);
}

#endif /* LIBHTW_FORK_H */
