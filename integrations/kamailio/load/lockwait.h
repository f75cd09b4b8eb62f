/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Included before dlg_timer.c is: count how often and how long lock_get() waits
 */
#ifndef LOCKWAIT_H
#define LOCKWAIT_H

#include <stdint.h>
#include <time.h>

#include "../../core/locking.h"

struct lock_waits {
	uint64_t count;
	uint64_t ns;
	uint64_t longest;
};

/* Where this process counts. */
extern struct lock_waits *lock_waits;

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static inline void timed_lock_get(gen_lock_t *lock)
{
	uint64_t waited;

	if (!lock_try(lock))
		return;
	waited = monotonic_ns();
	lock_get(lock);
	waited = monotonic_ns() - waited;
	__atomic_fetch_add(&lock_waits->count, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&lock_waits->ns, waited, __ATOMIC_RELAXED);
	if (waited > lock_waits->longest)
		lock_waits->longest = waited;
}

#undef lock_get
#define lock_get(lock) timed_lock_get(lock)

#endif /* LOCKWAIT_H */
