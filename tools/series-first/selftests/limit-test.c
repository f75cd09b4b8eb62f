// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit on pages: /proc/sys/user/max_htw_pages
 */
#include "htw-test.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define LIMIT	"/proc/sys/user/max_htw_pages"
/* Of the test, which no other program has anything of. */
#define UID	54321
#define PAGES	40

static bool write_number(const char *path, long number)
{
	FILE *f = fopen(path, "w");
	bool ok = f && fprintf(f, "%ld\n", number) > 0;

	return f && !fclose(f) && ok;
}

/* Add until that fails; return how many there are. */
static unsigned int fill(int fd, __u64 *last)
{
	struct htw_add_args add = { .deadline = HOUR };
	unsigned int count = 0;

	while (!htw_add(fd, &add)) {
		*last = add.id;
		count++;
	}
	return errno == EDQUOT ? count : 0;
}

/* Return the number of what fails. */
static int as_user(void)
{
	const unsigned int each = sysconf(_SC_PAGESIZE) / 64 - 1;
	unsigned int all, again;
	__u64 last;
	int fd;

	if (setresgid(UID, UID, UID) || setresuid(UID, UID, UID))
		return 1;
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		return 2;
	/* Some pages are the context's own. */
	all = fill(fd, &last);
	if (all < PAGES / 2 * each || all > PAGES * each)
		return 3;
	if (htw_open(O_NONBLOCK) >= 0 || errno != EDQUOT)
		return 4;
	/* Each that ends makes room for one. */
	if (htw_stop(fd, last) || !htw_start(fd, HOUR, 0) || htw_start(fd, HOUR, 0))
		return 5;
	/* Closing gives all back. */
	close(fd);
	fd = htw_open(O_NONBLOCK);
	if (fd < 0)
		return 6;
	again = fill(fd, &last);
	return again == all ? 0 : 7;
}

HTW_TEST(pages)
{
	char before[32] = "";
	struct stat device;
	int status = -1;
	FILE *f = fopen(LIMIT, "r");
	pid_t pid;

	if (getuid() || !f)
		SKIP(return, "needs root, and " LIMIT);
	ASSERT_NE(NULL, fgets(before, sizeof(before), f));
	fclose(f);
	ASSERT_EQ(0, stat("/dev/htw", &device));
	ASSERT_EQ(0, chmod("/dev/htw", 0666));
	ASSERT_TRUE(write_number(LIMIT, PAGES));
	pid = fork();
	if (!pid)
		_exit(as_user());
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(write_number(LIMIT, atol(before)));
	EXPECT_EQ(0, chmod("/dev/htw", device.st_mode & 07777));
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
