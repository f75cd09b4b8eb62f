/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPU on which timers wait and expire, from debugfs and tracepoints
 */
#ifndef HTW_CPU_H
#define HTW_CPU_H

#include "htw-test.h"

#define TRACING		"/sys/kernel/tracing/"
#define WHEELS		"/sys/kernel/debug/htw/wheels"
#define USERS		"/sys/kernel/debug/htw/users"

static inline bool trace_clear(void)
{
	int fd = open(TRACING "trace", O_WRONLY | O_TRUNC | O_CLOEXEC);

	return fd >= 0 && !close(fd);
}

/* Pending CLOCK_MONOTONIC timers on a CPU; U64_MAX if debugfs does not list it. */
static inline __u64 pending_on(int cpu)
{
	FILE *file = fopen(WHEELS, "re");
	__u64 sum = ~0ULL, pending, tick;
	char line[512];
	int on;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "cpu %d clock monotonic tick_ns %llu pending %llu",
			   &on, &tick, &pending) == 3 && on == cpu)
			sum = sum == ~0ULL ? pending : sum + pending;
	}
	if (file)
		fclose(file);
	return sum;
}

static inline bool trace_expiries(bool on)
{
	return (!on || trace_clear()) &&
	       !htw_write_file(TRACING "events/htw/htw_expire/enable", on ? "1" : "0");
}

/*
 * Of the traced expirations of these cookies, how many were on @cpu; -1 if
 * there are none.
 */
static inline int expired_on(int cpu, __u64 cookie, unsigned int count)
{
	FILE *file = fopen(TRACING "trace", "re");
	int found = 0, all = 0, on;
	char line[512], *at;
	__u64 id, got;

	while (file && fgets(line, sizeof(line), file)) {
		at = strstr(line, ": htw_expire: ");
		if (!at || sscanf(at, ": htw_expire: id=%llx cookie=%llx", &id, &got) != 2 ||
		    got < cookie || got >= cookie + count ||
		    sscanf(strchr(line, '['), "[%d]", &on) != 1)
			continue;
		all++;
		found += on == cpu;
	}
	if (file)
		fclose(file);
	return all ? found : -1;
}

#endif /* HTW_CPU_H */
