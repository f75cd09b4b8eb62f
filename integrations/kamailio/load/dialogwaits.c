// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * In the dialog module: count its timers' waits for locks, of all processes together
 *
 * The counters are shared by the processes that are forked after the module was loaded. Kamailio's
 * main process writes "waits COUNT NS LONGEST" to its log when it ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lockwait.h"

struct lock_waits *lock_waits;
static pid_t main_process;

__attribute__((constructor)) static void begin(void)
{
	lock_waits = mmap(NULL, sizeof(*lock_waits), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (lock_waits == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	main_process = getpid();
}

__attribute__((destructor)) static void end(void)
{
	if (getpid() == main_process)
		fprintf(stderr, "waits %lu %lu %lu\n", lock_waits->count, lock_waits->ns,
			lock_waits->longest);
}
