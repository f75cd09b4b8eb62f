// SPDX-License-Identifier: GPL-2.0-only
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEBUGFS		"/sys/kernel/debug/"

static int fail_nth;

static bool set(const char *name, const char *value)
{
	char path[128];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), DEBUGFS "%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	if (fd >= 0)
		close(fd);
	return ok;
}

/*
 * All allocations may fail, also those that may wait for memory and those for each CPU, and a
 * failure is not logged: what is logged is htw's.
 */
bool fault_init(void)
{
	fail_nth = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	return fail_nth >= 0 &&
	       set("failslab/ignore-gfp-wait", "N") && set("failslab/verbose", "0") &&
	       set("fail_page_alloc/ignore-gfp-wait", "N") &&
	       set("fail_page_alloc/ignore-gfp-highmem", "N") &&
	       set("fail_page_alloc/min-order", "0") && set("fail_page_alloc/verbose", "0") &&
	       set("fail_usercopy/verbose", "0") &&
	       set("fail_function/inject", "pcpu_alloc_noprof") &&
	       set("fail_function/verbose", "0");
}

/* The kernel counts it down when a copy fails, and heeds it only for faults at random. */
#define COPIES_LEFT	"fail_usercopy/times"

void fault_arm(unsigned int nth)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%u", nth);

	if (!set(COPIES_LEFT, "1")) {
		perror(COPIES_LEFT);
		exit(3);
	}
	if (pwrite(fail_nth, text, n, 0) != n) {
		perror("fail-nth");
		exit(3);
	}
}

/*
 * Reading and writing the count are calls that can fail themselves, if the fault has not happened
 * yet.
 */
enum fault fault_disarm(void)
{
	char text[16] = "";
	bool happened = true;
	FILE *left;
	int copies;

	if (pread(fail_nth, text, sizeof(text) - 1, 0) < 0)
		happened = false;
	else if (strtoul(text, NULL, 10))
		happened = false;
	if (pwrite(fail_nth, "0", 1, 0) != 1) {
		happened = false;
		if (pwrite(fail_nth, "0", 1, 0) != 1) {
			perror("fail-nth");
			exit(3);
		}
	}
	if (!happened)
		return FAULT_NONE;
	left = fopen(DEBUGFS COPIES_LEFT, "re");
	if (!left || fscanf(left, "%d", &copies) != 1) {
		perror(COPIES_LEFT);
		exit(3);
	}
	fclose(left);
	return copies ? FAULT_MEMORY : FAULT_COPY;
}
