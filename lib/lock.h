/* SPDX-License-Identifier: MIT */
/*
 * A lock that is handed over in order
 *
 * A mutex that is unlocked and locked again at once stays with its thread: the
 * one that waits has to wake up first. So a call that lets others in between its
 * parts would not. This one is a ticket lock: whoever locks it draws a number,
 * and the one whose number is served has the lock. A thread that waits longer
 * than a short call takes sleeps (futex).
 *
 * With priority inheritance it is a mutex of the system, for which the kernel
 * hands over: to the waiter of the highest priority, and in order among equals.
 */
#ifndef LIBHTW_LOCK_H
#define LIBHTW_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <linux/types.h>

/**
 * struct htw_lock - the lock
 * @drawn: the next number to be drawn
 * @served: the number of the thread that has the lock, or that is to draw next
 * @sleeping: threads that sleep, or are about to
 * @inherits: it is @mutex, and the fields above are not used
 * @mutex: with priority inheritance
 */
struct htw_lock {
	u32 drawn;
	u32 served;
	u32 sleeping;
	bool inherits;
	pthread_mutex_t mutex;
};

int htw_lock_init(struct htw_lock *l, bool inherits);
void htw_lock_destroy(struct htw_lock *l);
void htw_lock_take(struct htw_lock *l);
void htw_lock_give(struct htw_lock *l);
void htw_lock_give_way(struct htw_lock *l);

#endif /* LIBHTW_LOCK_H */
