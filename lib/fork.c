// SPDX-License-Identifier: MIT
/*
 * Tell a child of fork() from its parent; see fork.h
 *
 * Nothing here takes a lock: another thread may hold it at the fork, and nobody
 * would release it in the child.
 */
#include "internal.h"
#include "fork.h"

#include <pthread.h>
#include <sys/mman.h>

u32 *htw_process;

/*
 * The last number that was given out. A child goes on from its parent's, so its
 * own number differs from those of all processes that it descends from.
 */
static u32 last_number;

/* Where the kernel does not do it; it is not done for a child made without fork(). */
static void clear_in_child(void)
{
	*htw_process = 0;
}

/* Map the page for the number, once in a program. */
static int map_number(void)
{
	const size_t size = sizeof(*htw_process);
	u32 *page, *none = NULL;

	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;

	/* gVisor and qemu-user may lack it, and Linux before 4.14. */
	if (madvise(page, size, MADV_WIPEONFORK) && pthread_atfork(NULL, NULL, clear_in_child)) {
		munmap(page, size);
		return -ENOMEM;
	}

	if (!__atomic_compare_exchange_n(&htw_process, &none, page, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		munmap(page, size);	/* another thread was faster */
	return 0;
}

/**
 * htw_process_number() - get a number that differs from that of every ancestor
 * @number: out: the number, never zero
 *
 * Return: 0, or -ENOMEM.
 */
int htw_process_number(u32 *number)
{
	const int error = errno;
	u32 mine, next;
	int ret = 0;

	if (!__atomic_load_n(&htw_process, __ATOMIC_ACQUIRE))
		ret = map_number();
	errno = error;
	if (ret)
		return ret;

	mine = __atomic_load_n(htw_process, __ATOMIC_RELAXED);
	if (!mine) {
		next = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
		/* The first thread to come here decides; the others are given its number. */
		if (__atomic_compare_exchange_n(htw_process, &mine, next, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			mine = next;
	}
	*number = mine;
	return 0;
}
