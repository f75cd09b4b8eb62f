/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The thread of softirqs
 *
 * While ksoftirqd has something to do, 6.1 runs softirqs nowhere else, and they wait as long as the
 * scheduler has it wait. With PREEMPT_RT softirqs have priorities of their own.
 */
#ifndef HTW_KSOFTIRQD_H
#define HTW_KSOFTIRQD_H

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The pid of a kernel thread, or 0. */
static inline pid_t find_thread(const char *wanted)
{
	char path[64], name[32];
	struct dirent *entry;
	DIR *proc = opendir("/proc");
	pid_t pid = 0;
	FILE *file;

	while (proc && !pid && (entry = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%.32s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%31s", name) == 1 && !strcmp(name, wanted))
			pid = atoi(entry->d_name);
		fclose(file);
	}
	if (proc)
		closedir(proc);
	return pid;
}

/*
 * Give CPU 0's a real-time priority. On PREEMPT_RT that is a thread of its own, since Linux
 * 6.2, in which timers expire: a task of a higher priority keeps it from running.
 */
static inline bool raise_ksoftirqd(int priority)
{
	const struct sched_param param = { .sched_priority = priority };
	pid_t pid = find_thread("ktimers/0");

	if (!pid)
		pid = find_thread("ksoftirqd/0");
	return pid && !sched_setscheduler(pid, SCHED_FIFO, &param);
}

#endif
