// SPDX-License-Identifier: GPL-2.0-only
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/clock.h"
#include "report.h"

#define ROOT		"/sys/fs/cgroup/"
#define GROUP		ROOT "htw-torture/"
#define USERS		"/sys/kernel/debug/htw/users"

/* Memory is freed after grace periods, and by work items. */
#define EVENTUALLY	(60 * SEC)

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

bool memory_begin(void)
{
	return write_file(ROOT "cgroup.subtree_control", "+memory") &&
	       (!mkdir(GROUP, 0755) || errno == EEXIST) && write_file(GROUP "memory.high", "max");
}

void memory_join(void)
{
	char pid[32];

	snprintf(pid, sizeof(pid), "%d", getpid());
	if (!write_file(GROUP "cgroup.procs", pid))
		report_broken("cgroup.procs: %s", strerror(errno));
}

/* The first line of a user that holds something, or an empty string. */
static void find_holder(char *line, size_t size)
{
	FILE *file = fopen(USERS, "re");
	unsigned int contexts;
	int timers;

	if (!file)
		report_broken("%s: %s", USERS, strerror(errno));
	while (fgets(line, size, file)) {
		if (sscanf(line, "user %*s contexts %u timers %d", &contexts, &timers) == 2 &&
		    (contexts || timers)) {
			fclose(file);
			line[strcspn(line, "\n")] = '\0';
			return;
		}
	}
	fclose(file);
	*line = '\0';
}

void memory_check_users(void)
{
	const __u64 end = now_ns() + EVENTUALLY;
	char line[256];

	for (find_holder(line, sizeof(line)); *line; find_holder(line, sizeof(line))) {
		if (now_ns() > end) {
			report_violation("all is closed, but: %s", line);
			return;
		}
		sleep_until(now_ns() + 10 * MSEC);
	}
}

/* A count of memory.stat, in bytes. */
static __u64 stat_of(const char *wanted)
{
	FILE *file = fopen(GROUP "memory.stat", "re");
	unsigned long long value;
	char name[64];

	while (file && fscanf(file, "%63s %llu", name, &value) == 2) {
		if (!strcmp(name, wanted)) {
			fclose(file);
			return value;
		}
	}
	report_broken("memory.stat has no %s", wanted);
}

static __u64 charged(void)
{
	FILE *file = fopen(GROUP "memory.current", "re");
	unsigned long long bytes;

	if (!file || fscanf(file, "%llu", &bytes) != 1)
		report_broken("memory.current: %s", strerror(errno));
	fclose(file);
	return bytes;
}

/*
 * Bytes that are charged for objects, which are counted exactly, and for pages, but not for the
 * names and inodes of files that the processes have looked at, which the kernel keeps for later,
 * and memory that they share, which is there until they end.
 *
 * Pages are charged for small objects in advance. When these are gone, up to a page for each CPU
 * may stay charged, and one for the cgroup, for as long as this exists. It is the same one in all
 * rounds, so even a page that is lost in each is found.
 */
static __u64 held(void)
{
	const __u64 page = getpagesize();
	const __u64 ahead = (sysconf(_SC_NPROCESSORS_CONF) + 1) * page;
	const __u64 files = (stat_of("slab_reclaimable") + page - 1) / page * page +
			    stat_of("shmem");
	const __u64 all = charged();

	return all > files + ahead ? all - files :
	       stat_of("slab_unreclaimable") + stat_of("percpu") + stat_of("vmalloc");
}

/* What the memory is that is still charged. */
static void report_charges(void)
{
	FILE *file = fopen(GROUP "memory.stat", "re");
	unsigned long long value;
	char name[64];

	while (file && fscanf(file, "%63s %llu", name, &value) == 2)
		if (value)
			report_say("  %s %llu", name, value);
	if (file)
		fclose(file);
}

/*
 * An idle CPU keeps the address space of the task that it ran last, until it runs another; and in
 * a batch the pages that it is to add to the lists of reclaim, charged though nobody uses them any
 * more and no count has them, until something is unmapped there.
 */
static void run_on_each_cpu(void)
{
	const size_t page = getpagesize();
	cpu_set_t all, one;
	void *unused;

	if (sched_getaffinity(0, sizeof(all), &all))
		report_broken("sched_getaffinity: %s", strerror(errno));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		/* Fails if the CPU has gone off. */
		sched_setaffinity(0, sizeof(one), &one);
		unused = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (unused == MAP_FAILED || munmap(unused, page))
			report_broken("mmap: %s", strerror(errno));
	}
	sched_setaffinity(0, sizeof(all), &all);
}

void memory_end(bool is_unloaded)
{
	const __u64 end = now_ns() + EVENTUALLY;

	while (is_unloaded && held()) {
		/* Give back what CPUs keep charged without use, and what can be reclaimed. */
		if (!write_file(GROUP "memory.high", "0"))
			report_broken("memory.high: %s", strerror(errno));
		if (now_ns() > end) {
			report_violation("LEAK: the module is unloaded, and %llu bytes are still charged",
					 held());
			report_charges();
			break;
		}
		run_on_each_cpu();
		sleep_until(now_ns() + 10 * MSEC);
	}
}
