// SPDX-License-Identifier: GPL-2.0-only
/* The program's memory and the machine's free memory; see memory.h. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bench.h"
#include "memory.h"

/* Mapped, not from the heap, so that freeing it returns it to the machine. */
void *allocate(size_t count, size_t size)
{
	void *p = mmap(NULL, count * size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory for %zu times %zu bytes", count, size);
	memset(p, 1, count * size);
	return memset(p, 0, count * size);
}

void release(void *p, size_t count, size_t size)
{
	munmap(p, count * size);
}

uint64_t memory_free(void)
{
	unsigned long long pages = 0, n;
	char line[128];
	FILE *f = fopen("/proc/zoneinfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " pages free %llu", &n) == 1 ||
		    sscanf(line, " count: %llu", &n) == 1)
			pages += n;
	if (f)
		fclose(f);
	if (!pages)
		die("cannot read free pages in /proc/zoneinfo");
	return pages * sysconf(_SC_PAGESIZE);
}
