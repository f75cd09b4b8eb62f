// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory with tags (MTE of arm64): what a program passes by a pointer with
 * another tag than its memory's is EFAULT, and where a buffer goes on with
 * another tag, it ends
 *
 * QEMU 7.2 keeps only two tags for each page, one for all even 16 bytes and one
 * for all odd ones, and looks for a third one if an access of 32 bytes is not
 * aligned. So tags change at the ends of pages, and programs write by put().
 */
#include "htw-test.h"

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/uio.h>

/* Not in the headers of other architectures. */
#ifndef HWCAP2_MTE
#define HWCAP2_MTE		0x40000
#endif
#ifndef PROT_MTE
#define PROT_MTE		0x20
#endif
#ifndef PR_MTE_TCF_SYNC
#define PR_MTE_TCF_SYNC		2UL
#define PR_MTE_TAG_SHIFT	3
#endif
#ifndef PR_SET_TAGGED_ADDR_CTRL
#define PR_SET_TAGGED_ADDR_CTRL	55
#define PR_TAGGED_ADDR_ENABLE	1UL
#endif

#define GRANULE		16UL
#define TAG		5UL
#define OTHER_TAG	6UL

static char *with_tag(char *p, unsigned long tag)
{
	return (char *)(((uintptr_t)p & ~(0xfUL << 56)) | tag << 56);
}

/* Give @size bytes of memory at @p this tag; return a pointer that has it. */
static char *set_tag(char *p, size_t size, unsigned long tag)
{
	char *tagged = with_tag(p, tag);
	size_t at;

	for (at = 0; at < size; at += GRANULE) {
#ifdef __aarch64__
		__asm__ volatile(".arch armv8.5-a+memtag\n\tstg %0, [%0]"
				 : : "r"(tagged + at) : "memory");
#endif
	}
	return tagged;
}

/* memcpy(), 8 bytes at a time. */
static void put(void *to, const void *from, size_t size)
{
	volatile __u64 *words = to;
	__u64 word;
	size_t at;

	for (at = 0; at < size; at += sizeof(word)) {
		memcpy(&word, (const char *)from + at, sizeof(word));
		words[at / sizeof(word)] = word;
	}
}

static bool has_mte(void)
{
#ifdef __aarch64__
	return getauxval(AT_HWCAP2) & HWCAP2_MTE;
#else
	return false;
#endif
}

FIXTURE(mte) {
	int fd;
	/* A page of memory with TAG, and its end; behind it is one with OTHER_TAG. */
	char *right;
	char *end;
	/* The first page, by a pointer with OTHER_TAG. */
	char *wrong;
};

FIXTURE_SETUP(mte)
{
	const unsigned long control = PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_SYNC |
				      0xffffUL << PR_MTE_TAG_SHIFT;
	const size_t size = sysconf(_SC_PAGESIZE);
	char *page;

	if (!has_mte())
		SKIP(return, "the CPU has no MTE");
	ASSERT_EQ(0, prctl(PR_SET_TAGGED_ADDR_CTRL, control, 0, 0, 0));
	page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE | PROT_MTE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	set_tag(page + size, size, OTHER_TAG);
	self->right = set_tag(page, size, TAG);
	self->end = self->right + size;
	self->wrong = with_tag(page, OTHER_TAG);

	ASSERT_EQ(0, htw_pin(0));
	self->fd = htw_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(mte)
{
	close(self->fd);
}

#define MTE_TEST(name) TEST_F_TIMEOUT(mte, name, TEST_SECONDS)

/* Start @count timers and wait until all have expired. */
static bool expire(int fd, unsigned int count)
{
	return htw_start_many(fd, 1, 1, count, NULL) == count &&
	       htw_eventually(htw_due(fd) == count);
}

/* An argument of each call; the calls succeed with it. */
MTE_TEST(argument)
{
	__u64 id = htw_start(self->fd, HOUR, 1);
	struct htw_setup_args setup = { .limit = 1000 };
	struct htw_add_args add = htw_rel(HOUR, 2);
	struct htw_mod_args mod = { .id = id, .deadline = HOUR, .flags = HTW_MOD_DEADLINE };
	struct htw_timer_info query = { .id = id };
	struct htw_vector_args vector = { .op = HTW_OP_ADD };
	struct htw_list_args list = htw_list_of(NULL, 0);
	struct htw_cancel_args cancel = htw_cancel_of(id);
	struct htw_cancel_all_args cancel_all = {};
	struct htw_advance_args advance = { .ns = SEC };
	struct htw_info_args info = {};
	const struct {
		const char *name;
		unsigned long cmd;
		const void *arg;
		size_t size;
	} calls[] = {
		{ "HTW_SETUP", HTW_SETUP, &setup, sizeof(setup) },
		{ "HTW_INFO", HTW_INFO, &info, sizeof(info) },
		{ "HTW_ADD", HTW_ADD, &add, sizeof(add) },
		{ "HTW_MOD", HTW_MOD, &mod, sizeof(mod) },
		{ "HTW_QUERY", HTW_QUERY, &query, sizeof(query) },
		{ "HTW_VECTOR", HTW_VECTOR, &vector, sizeof(vector) },
		{ "HTW_LIST", HTW_LIST, &list, sizeof(list) },
		{ "HTW_HARVEST", HTW_HARVEST, &list, sizeof(list) },
		{ "HTW_CANCEL", HTW_CANCEL, &cancel, sizeof(cancel) },
		{ "HTW_ADVANCE", HTW_ADVANCE, &advance, sizeof(advance) },
		{ "HTW_CANCEL_ALL", HTW_CANCEL_ALL, &cancel_all, sizeof(cancel_all) },
	};
	unsigned int i;
	int fd;

	ASSERT_NE(0, id);
	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		const bool advances = calls[i].cmd == HTW_ADVANCE;
		__u64 timers = htw_timers(self->fd);

		put(self->right, calls[i].arg, calls[i].size);
		/* Only a context without timers is set up, and only a manual clock advanced. */
		fd = advances || calls[i].cmd == HTW_SETUP ? htw_open(0) : self->fd;
		if (advances)
			ASSERT_EQ(0, htw_setup_clock(fd, HTW_CLOCK_MANUAL));
		EXPECT_EQ(-EFAULT, htw_call(fd, calls[i].cmd, self->wrong)) {
			TH_LOG("%s", calls[i].name);
		}
		EXPECT_EQ(timers, htw_timers(self->fd));
		EXPECT_EQ(0, htw_call(fd, calls[i].cmd, self->right)) {
			TH_LOG("%s", calls[i].name);
		}
		if (fd != self->fd)
			close(fd);
	}
	EXPECT_EQ(0, htw_timers(self->fd));
}

MTE_TEST(read)
{
	struct htw_event *two = (void *)(self->end - 2 * sizeof(*two));
	struct htw_event *part = (void *)(self->end - sizeof(*part) / 2);

	ASSERT_TRUE(expire(self->fd, 3));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, (void *)self->wrong, 3));
	EXPECT_EQ(-EFAULT, htw_read(self->fd, part, 1));
	EXPECT_EQ(3, htw_due(self->fd));

	EXPECT_EQ(2, htw_read(self->fd, two, 3));
	EXPECT_EQ(1, two[0].cookie);
	EXPECT_EQ(2, two[1].cookie);
	EXPECT_EQ(1, htw_read(self->fd, two, 3));
	EXPECT_EQ(3, two[0].cookie);
}

/* The second event would begin in the first buffer and end in the second one. */
MTE_TEST(readv)
{
	struct htw_event *right = (void *)self->right;
	struct iovec iov[2] = {
		{ .iov_base = right, .iov_len = sizeof(*right) + 16 },
		{ .iov_base = self->wrong + 8 * sizeof(*right), .iov_len = sizeof(*right) },
	};

	ASSERT_TRUE(expire(self->fd, 2));
	EXPECT_EQ((ssize_t)sizeof(*right), readv(self->fd, iov, 2));
	EXPECT_EQ(1, right[0].cookie);
	EXPECT_EQ(1, htw_read(self->fd, right, 2));
	EXPECT_EQ(2, right[0].cookie);
}

/* Each array. */
MTE_TEST(vector)
{
	const __u64 deadline = now_ns() + HOUR;
	__u64 ids[4], deadlines[4] = { deadline, deadline, deadline, deadline };
	__u64 *two = (void *)(self->end - 2 * sizeof(*two));
	struct htw_vector_args vector = { .count = 4, .flags = HTW_F_ABS, .op = HTW_OP_ADD };

	vector.ids = (uintptr_t)self->wrong;
	vector.deadlines = (uintptr_t)deadlines;
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &vector));
	vector.ids = (uintptr_t)ids;
	vector.deadlines = (uintptr_t)self->wrong;
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &vector));
	vector.deadlines = (uintptr_t)deadlines;
	vector.cookies = (uintptr_t)self->wrong;
	EXPECT_EQ(-EFAULT, htw_call(self->fd, HTW_VECTOR, &vector));
	vector.cookies = 0;
	EXPECT_EQ(0, htw_timers(self->fd));

	two[0] = two[1] = deadline;
	vector.deadlines = (uintptr_t)two;
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &vector));
	EXPECT_EQ(2, vector.done);
	vector.ids = (uintptr_t)two;
	vector.deadlines = (uintptr_t)deadlines;
	EXPECT_EQ(0, htw_call(self->fd, HTW_VECTOR, &vector));
	EXPECT_EQ(2, vector.done);
	EXPECT_EQ(4, htw_timers(self->fd));
}

static void list_in_part(struct __test_metadata *_metadata, int fd, unsigned long cmd,
			 void *wrong, char *end)
{
	struct htw_timer_info *two = (void *)(end - 2 * sizeof(*two));
	struct htw_list_args list = htw_list_of(wrong, 3);
	const bool harvest = cmd == HTW_HARVEST;

	EXPECT_EQ(-EFAULT, htw_call(fd, cmd, &list));
	EXPECT_EQ(3, htw_timers(fd));

	list = htw_list_of(two, 3);
	EXPECT_EQ(0, htw_call(fd, cmd, &list));
	EXPECT_EQ(2, list.done);
	EXPECT_EQ(harvest ? 1 : 3, htw_timers(fd));

	/* The one that could not be written. */
	EXPECT_EQ(0, htw_call(fd, cmd, &list));
	EXPECT_EQ(1, list.done);
	EXPECT_EQ(3, two[0].cookie);
	EXPECT_EQ(harvest ? 0 : 3, htw_timers(fd));
}

MTE_TEST(list)
{
	ASSERT_EQ(3, htw_start_many(self->fd, now_ns() + HOUR, 1, 3, NULL));
	list_in_part(_metadata, self->fd, HTW_LIST, self->wrong, self->end);
}

MTE_TEST(harvest)
{
	ASSERT_EQ(3, htw_start_many(self->fd, now_ns() + HOUR, 1, 3, NULL));
	list_in_part(_metadata, self->fd, HTW_HARVEST, self->wrong, self->end);
}

TEST_HARNESS_MAIN
