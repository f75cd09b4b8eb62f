// SPDX-License-Identifier: GPL-2.0-only
#include "coverage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcov.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../torture/report.h"

#define KCOV		"/sys/kernel/debug/kcov"
#define AREA_WORDS	(1UL << 18)
/* Of the instance: any number that is not zero. */
#define HANDLE		kcov_remote_handle(KCOV_SUBSYSTEM_COMMON, 1)
/* htw has some thousand places, and about twice as many edges. */
#define PLACES		(1U << 16)
#define EDGES		(1U << 20)

struct area {
	int fd;
	unsigned long *words;	/* the number of places, and these */
};

/* Shared by the first process and those that run programs, which follow each other. */
static struct seen {
	unsigned long places[2][PLACES];	/* hashed, with open addressing */
	unsigned int nr_places[2];
	__u8 edges[EDGES / 8];
} *seen;

/* Of calls, and behind them. */
static struct area areas[2];
/* To look at edges without noting them. */
static __u8 present[EDGES / 8];

static void open_area(struct area *area)
{
	area->fd = open(KCOV, O_RDWR | O_CLOEXEC);
	if (area->fd < 0 || ioctl(area->fd, KCOV_INIT_TRACE, AREA_WORDS))
		report_broken("%s: %s", KCOV, strerror(errno));
	area->words = mmap(NULL, AREA_WORDS * sizeof(*area->words), PROT_READ | PROT_WRITE,
			   MAP_SHARED, area->fd, 0);
	if (area->words == MAP_FAILED)
		report_broken("%s: %s", KCOV, strerror(errno));
}

void coverage_init(void)
{
	struct kcov_remote_arg arg = {
		.trace_mode = KCOV_TRACE_PC, .area_size = AREA_WORDS, .common_handle = HANDLE,
	};

	open_area(&areas[0]);
	open_area(&areas[1]);
	if (ioctl(areas[1].fd, KCOV_REMOTE_ENABLE, &arg))
		report_broken("KCOV_REMOTE_ENABLE: %s", strerror(errno));
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (seen == MAP_FAILED)
		report_broken("mmap: %s", strerror(errno));
}

void coverage_enable(void)
{
	/* A child does not trace. ARCH=um would map each page for it while its parent waits. */
	for (int i = 0; i < 2; i++)
		if (madvise(areas[i].words, AREA_WORDS * sizeof(*areas[i].words), MADV_DONTFORK))
			report_broken("madvise: %s", strerror(errno));
	/* The handle of the first process is inherited. The end of this process disables it. */
	if (ioctl(areas[0].fd, KCOV_ENABLE, KCOV_TRACE_PC))
		report_broken("KCOV_ENABLE: %s", strerror(errno));
}

void coverage_begin(void)
{
	for (int i = 0; i < 2; i++)
		__atomic_store_n(&areas[i].words[0], 0, __ATOMIC_RELAXED);
}

static void note_place(unsigned long place, bool is_behind)
{
	unsigned long *places = seen->places[is_behind];
	unsigned int at = place * 0x9e3779b97f4a7c15UL >> 48;

	while (places[at % PLACES] && places[at % PLACES] != place)
		at++;
	if (places[at % PLACES])
		return;
	places[at % PLACES] = place;
	seen->nr_places[is_behind]++;
}

static __u32 edge_of(unsigned long from, unsigned long to)
{
	return (from * 0x9e3779b97f4a7c15UL + to) * 0xff51afd7ed558ccdUL >> 44;
}

static bool note_edge(__u8 *edges, __u32 edge)
{
	__u8 bit = 1 << edge % 8;

	if (edges[edge / 8] & bit)
		return false;
	edges[edge / 8] |= bit;
	return true;
}

static unsigned long traced(const struct area *area)
{
	unsigned long count = __atomic_load_n(&area->words[0], __ATOMIC_ACQUIRE);

	return count < AREA_WORDS ? count : AREA_WORDS - 1;
}

unsigned int coverage_end(__u32 *edges, unsigned int most)
{
	unsigned int found = 0;

	for (int i = 0; i < 2; i++) {
		unsigned long count = traced(&areas[i]), last = 0;

		for (unsigned long n = 1; n <= count; n++) {
			unsigned long place = areas[i].words[n];
			__u32 edge = edge_of(last, place);

			last = place;
			if (!note_edge(seen->edges, edge))
				continue;
			note_place(place, i);
			if (found < most)
				edges[found] = edge;
			found++;
		}
	}
	return found;
}

unsigned int coverage_count(const __u32 *edges, unsigned int count)
{
	unsigned int found = 0;

	memset(present, 0, sizeof(present));
	for (int i = 0; i < 2; i++) {
		unsigned long traces = traced(&areas[i]), last = 0;

		for (unsigned long n = 1; n <= traces; n++) {
			note_edge(present, edge_of(last, areas[i].words[n]));
			last = areas[i].words[n];
		}
	}
	for (unsigned int i = 0; i < count; i++)
		found += present[edges[i] / 8] >> edges[i] % 8 & 1;
	return found;
}

unsigned int coverage_places(bool behind)
{
	return seen->nr_places[behind];
}

void coverage_list(void (*print)(unsigned long place, bool is_behind))
{
	for (int i = 0; i < 2; i++)
		for (unsigned int at = 0; at < PLACES; at++)
			if (seen->places[i][at])
				print(seen->places[i][at], i);
}
