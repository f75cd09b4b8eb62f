// SPDX-License-Identifier: MIT
/* A lock that is handed over in order; see lock.h. */
#include "internal.h"
#include "lock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looks at the lock before a thread sleeps: about what a few short calls take. */
#define LOOKS_AWAKE	100u

/* 32-bit machines whose time_t has 64 bits may have only this one. */
#ifndef SYS_futex
#define SYS_futex	SYS_futex_time64
#endif

/* Threads sleep by the last bits of their numbers, so that few are woken for nothing. */
static u32 sleepers(u32 number)
{
	return 1u << number % 32;
}

static void pause_cpu(void)
{
#if __has_builtin(__builtin_ia32_pause)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Wait until a number is served. */
static noinline void wait_for(struct htw_lock *l, u32 number)
{
	const int error = errno;
	unsigned int looks;
	u32 served;

	for (looks = 0; looks < LOOKS_AWAKE; looks++) {
		if (__atomic_load_n(&l->served, __ATOMIC_ACQUIRE) == number)
			return;
		pause_cpu();
	}

	/* Who serves this number looks for sleepers afterwards; the kernel compares again. */
	__atomic_fetch_add(&l->sleeping, 1, __ATOMIC_SEQ_CST);
	while ((served = __atomic_load_n(&l->served, __ATOMIC_SEQ_CST)) != number)
		syscall(SYS_futex, &l->served, FUTEX_WAIT_BITSET_PRIVATE, served, NULL, NULL,
			sleepers(number));
	__atomic_fetch_sub(&l->sleeping, 1, __ATOMIC_RELAXED);
	errno = error;
}

static noinline void wake(struct htw_lock *l, u32 number)
{
	const int error = errno;

	syscall(SYS_futex, &l->served, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL,
		sleepers(number));
	errno = error;
}

/**
 * htw_lock_init() - make a lock
 * @l: the lock
 * @inherits: with priority inheritance
 *
 * Return: 0, or a negative errno.
 */
int htw_lock_init(struct htw_lock *l, bool inherits)
{
	pthread_mutexattr_t attr;
	int ret;

	*l = (struct htw_lock){ .inherits = inherits };
	if (!inherits)
		return 0;
	ret = pthread_mutexattr_init(&attr);
	if (ret)
		return -ret;
	ret = pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	if (!ret)
		ret = pthread_mutex_init(&l->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return -ret;
}

/**
 * htw_lock_destroy() - end a lock
 * @l: the lock, which no thread has or waits for
 */
void htw_lock_destroy(struct htw_lock *l)
{
	if (l->inherits)
		pthread_mutex_destroy(&l->mutex);
}

/**
 * htw_lock_take() - lock
 * @l: the lock
 *
 * Threads that were there before have it first.
 */
void htw_lock_take(struct htw_lock *l)
{
	u32 number;

	if (unlikely(l->inherits)) {
		pthread_mutex_lock(&l->mutex);
		return;
	}
	number = __atomic_fetch_add(&l->drawn, 1, __ATOMIC_RELAXED);
	if (unlikely(__atomic_load_n(&l->served, __ATOMIC_ACQUIRE) != number))
		wait_for(l, number);
}

/**
 * htw_lock_give() - unlock
 * @l: the lock, which the caller has
 */
void htw_lock_give(struct htw_lock *l)
{
	u32 number;

	if (unlikely(l->inherits)) {
		pthread_mutex_unlock(&l->mutex);
		return;
	}
	/* A full barrier: before the look for sleepers. */
	number = __atomic_add_fetch(&l->served, 1, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&l->sleeping, __ATOMIC_SEQ_CST)))
		wake(l, number);
}

/**
 * htw_lock_give_way() - have those that wait take the lock in between
 * @l: the lock, which the caller has
 */
void htw_lock_give_way(struct htw_lock *l)
{
	htw_lock_give(l);
	htw_lock_take(l);
}
