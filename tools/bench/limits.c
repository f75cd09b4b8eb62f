// SPDX-License-Identifier: GPL-2.0-only
/* Raise limits of the kernel; see limits.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "bench.h"
#include "limits.h"
#include "memory.h"

static char why[128];

const char *raise_rlimit(int resource, const char *name, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		die("getrlimit %s: %s", name, strerror(errno));
	if (limit.rlim_cur >= value)
		return NULL;
	limit.rlim_cur = value;
	if (limit.rlim_max < value)
		limit.rlim_max = value;
	if (!setrlimit(resource, &limit))
		return NULL;
	snprintf(why, sizeof(why), "%s cannot be %llu: %s", name, (unsigned long long)value,
		 strerror(errno));
	return why;
}

const char *raise_sysctl(const char *path, uint64_t value)
{
	unsigned long long now = 0;
	FILE *f = fopen(path, "r+");
	bool ok;

	ok = f && fscanf(f, "%llu", &now) == 1;
	if (ok && now < value) {
		rewind(f);
		ok = fprintf(f, "%llu\n", (unsigned long long)value) > 0;
	}
	if (f && fclose(f))
		ok = false;
	if (ok)
		return NULL;
	snprintf(why, sizeof(why), "%s cannot be %llu: %s", path, (unsigned long long)value,
		 strerror(errno));
	return why;
}

const char *need_memory(uint64_t size)
{
	const uint64_t needed = size + size / 8, available = memory_free();

	if (available > needed)
		return NULL;
	snprintf(why, sizeof(why), "needs %llu MB of memory, and the VM has %llu MB",
		 (unsigned long long)needed >> 20, (unsigned long long)available >> 20);
	return why;
}
