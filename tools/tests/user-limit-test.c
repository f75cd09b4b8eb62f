// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limit of a user, all descriptors together: EDQUOT, and room again
 *
 * What counts is memory, in pages of timers: one descriptor can use all of the limit, and keeps
 * its pages when timers end.
 *
 * Needs a module loaded with a limit that can be reached.
 *
 * VM options: --module-args max_user_timers=1000
 */
#include "htw-test.h"

#include <sys/mman.h>
#include <sys/stat.h>

#define PARAMETER	HTW_MODULE "max_user_timers"
/* A higher limit would test the machine's memory. */
#define SENSIBLE	2000000ULL

#define LIMITED()							\
	const __u64 limit = htw_file_number(PARAMETER);			\
									\
	if (limit > SENSIBLE)						\
		SKIP(return, "max_user_timers=%llu is too many to use up", limit);	\
	ASSERT_EQ(0, chmod(HTW_DEVICE, 0666))

static bool as_user(uid_t uid)
{
	return !setresgid(uid, uid, uid) && !setresuid(uid, uid, uid);
}

#define STEP(cond) do {							\
	if (!(cond)) {							\
		TH_LOG("not so: " #cond);				\
		return false;						\
	}								\
} while (0)

/* Add a timer: store its id and return zero, or return the errno. */
static int add_one(int fd, __u64 *id)
{
	struct htw_add add = htw_rel(HOUR, 1);
	int ret = htw_call(fd, HTW_ADD, &add);

	if (!ret)
		*id = add.id;
	return ret;
}

/*
 * Start timers on several descriptors until one fails; each descriptor has its
 * own limit.
 */
static __u64 fill(int *fds, unsigned int count)
{
	__u64 all = 0;

	for (unsigned int i = 0; i < count; i++)
		all += htw_start_many(fds[i], ~0ULL, 0, SENSIBLE, NULL);
	return all;
}

static bool use_up(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	struct htw_setup setup = { .flags = HTW_SETUP_LIMIT, .limit = 10 };
	struct htw_cancel_all all = { 0 };
	__u64 ids[2] = { POISON, POISON };
	struct htw_vector vector = {
		.op = HTW_OP_ADD,
		.ids = (uintptr_t)ids,
		.deadlines = (uintptr_t)(__u64[]){ ~0ULL, ~0ULL },
		.count = 2,
	};
	struct htw_op ops[4];
	struct htw_event ev;
	__u64 id, expires;
	int fds[4], small;

	STEP(as_user(uid));
	for (int i = 0; i < 4; i++)
		STEP((fds[i] = htw_open(O_NONBLOCK)) >= 0);
	/*
	 * An add that fails at the descriptor's own limit does not count for
	 * the user.
	 */
	small = htw_open(O_NONBLOCK);
	STEP(small >= 0 && !htw_call(small, HTW_SETUP, &setup));
	STEP(htw_start_many(small, ~0ULL, 0, SENSIBLE, NULL) == setup.limit);
	STEP(!htw_call(small, HTW_CANCEL_ALL, &all) && all.count == setup.limit);
	STEP(!close(small));
	STEP(fill(fds, 3) == limit);
	/* On each descriptor, old or new. */
	for (int i = 0; i < 4; i++)
		STEP(add_one(fds[i], &id) == -EDQUOT);
	STEP(htw_timers(fds[3]) == 0);

	/* A batch continues after an add that fails; a cancel in it makes room. */
	STEP(!htw_call(fds[0], HTW_CANCEL_ALL, &all));
	STEP(htw_start_many(fds[0], ~0ULL, 0, all.count - 1, NULL) == all.count - 1);
	STEP(!add_one(fds[0], &id));
	ops[0] = htw_op_add(~0ULL, 1);
	ops[1] = htw_op_cancel(id, 0);
	STEP(!htw_batch_all(fds[0], ops, 2));
	STEP(ops[0].result == -EDQUOT && ops[0].add.id == POISON);
	STEP(ops[1].result == 0);

	/* There is room for one timer of a vector. */
	STEP(!htw_call(fds[0], HTW_VECTOR, &vector));
	STEP(vector.done == 2 && vector.failed == 1);
	STEP(ids[1] == (__u64)-EDQUOT && !htw_stop(fds[0], ids[0]));

	/* There is room for one timer, and again after it is read. */
	expires = htw_start(fds[0], 0, 1);
	STEP(expires);
	STEP(add_one(fds[0], &id) == -EDQUOT);
	STEP(htw_wait_readable(fds[0]));
	STEP(add_one(fds[0], &id) == -EDQUOT);
	STEP(htw_read(fds[0], &ev, 1) == 1);
	STEP(!add_one(fds[0], &id));
	STEP(add_one(fds[0], &id) == -EDQUOT);

	/* After a cancel. */
	STEP(!htw_stop(fds[0], id));
	STEP(!add_one(fds[0], &id));
	/* After a harvest. */
	if (htw_info(fds[0]).features & HTW_FEATURE_ALL) {
		struct htw_query entry;
		struct htw_list list = htw_list_of(&entry, 1);

		STEP(!htw_call(fds[0], HTW_HARVEST, &list) && list.done == 1);
		STEP(!add_one(fds[0], &id));
		STEP(add_one(fds[0], &id) == -EDQUOT);
	}
	/* The room is that descriptor's: it keeps its memory. */
	STEP(!htw_call(fds[0], HTW_CANCEL_ALL, &all));
	STEP(add_one(fds[3], &id) == -EDQUOT);
	/* After a close. */
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	STEP(!add_one(fds[3], &id));
	return true;
}

HTW_TEST(used_up_and_free_again)
{
	LIMITED();
	EXPECT_TRUE(htw_in_child(use_up(_metadata, 65534, limit)));
}

/* A killed process leaves nothing behind. */
HTW_TEST(after_kill)
{
	int pair[2], status, round;
	char byte;

	LIMITED();
	for (round = 0; round < 3; round++) {
		pid_t pid;

		ASSERT_EQ(0, pipe(pair));
		pid = fork();
		if (!pid) {
			int fds[3];
			bool full;

			if (!as_user(65533))
				_exit(1);
			for (int i = 0; i < 3; i++)
				fds[i] = htw_open(O_NONBLOCK);
			full = fill(fds, 3) == limit;
			if (full && write(pair[1], "", 1) == 1)
				pause();
			_exit(1);
		}
		close(pair[1]);
		EXPECT_EQ(1, read(pair[0], &byte, 1));
		close(pair[0]);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
	}
	/* The whole limit is available again. */
	EXPECT_TRUE(htw_in_child(as_user(65533) && ({
		int fd = htw_open(O_NONBLOCK);

		limit > htw_info(fd).limit || htw_start_many(fd, ~0ULL, 0, limit, NULL) == limit;
	})));
}

/* Users are counted separately, and root has no such limit. */
HTW_TEST(each_user_has_its_own)
{
	int mine = htw_open(O_NONBLOCK), status;
	int pair[2];
	char byte;
	pid_t pid;
	__u64 id;

	LIMITED();
	ASSERT_EQ(0, pipe(pair));
	pid = fork();
	if (!pid) {
		int fds[3];

		if (!as_user(65532))
			_exit(1);
		for (int i = 0; i < 3; i++)
			fds[i] = htw_open(O_NONBLOCK);
		if (fill(fds, 3) == limit && write(pair[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(pair[1]);
	EXPECT_EQ(1, read(pair[0], &byte, 1));
	EXPECT_TRUE(htw_in_child(as_user(65531) && !add_one(htw_open(O_NONBLOCK), &id)));
	EXPECT_FALSE(htw_in_child(as_user(65532) && !add_one(htw_open(O_NONBLOCK), &id)));
	if (self->limit > limit)
		EXPECT_EQ(limit + 1, htw_start_many(mine, ~0ULL, 0, limit + 1, NULL));
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	close(mine);
	close(pair[0]);
}

/* Timers in a page of 4 KiB; the tests run where pages have that size. */
#define PAGE_TIMERS	63

/* Each descriptor holds at least a page, which counts as the timers that fit in. */
static bool one_timer_each(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	const __u64 most = (limit + PAGE_TIMERS - 1) / PAGE_TIMERS;
	__u64 i, id;
	int fd = -1;

	STEP(as_user(uid));
	for (i = 0; i < most; i++) {
		fd = htw_open(O_NONBLOCK);
		STEP(fd >= 0 && !add_one(fd, &id));
	}
	/* The last one may have a part of a page only. */
	STEP(htw_start_many(fd, ~0ULL, 0, PAGE_TIMERS, NULL) ==
	     limit - (most - 1) * PAGE_TIMERS - 1);
	fd = htw_open(O_NONBLOCK);
	STEP(fd >= 0 && add_one(fd, &id) == -EDQUOT);
	return true;
}

HTW_TEST(one_timer_each)
{
	LIMITED();
	EXPECT_TRUE(htw_in_child(one_timer_each(_metadata, 65528, limit)));
}

/* A table page counts like a page of timers; it is charged when the table is mapped. */
static bool table(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	const size_t size = PAGE;
	const __u64 end = now_ns() + 60 * SEC;
	struct htw_event ev;
	int fd, other;
	void *p;

	STEP(as_user(uid));
	fd = htw_open(O_NONBLOCK);
	other = htw_open(O_NONBLOCK);
	/* Two pages are left, then a bit more than one. */
	STEP(htw_start_many(other, ~0ULL, 0, limit - 2 * PAGE_TIMERS, NULL) ==
	     limit - 2 * PAGE_TIMERS);
	STEP(htw_start(fd, HOUR, 1));
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, HTW_OFF_TABLE);
	if (limit % PAGE_TIMERS) {
		/* The page of which the other one uses a part has taken the rest. */
		STEP(p == MAP_FAILED && errno == EDQUOT);
		/* There is none: with a table, a timer would be kept. */
		STEP(htw_start_many(fd, 0, 0, 1, NULL) == 1 && htw_wait_readable(fd));
		STEP(htw_read(fd, &ev, 1) == 1 && htw_timers(fd) == 1);
		close(other);
		/* mmap() waits a moment only. */
		do {
			p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, HTW_OFF_TABLE);
		} while (p == MAP_FAILED && errno == EDQUOT && now_ns() < end);
	}
	STEP(p != MAP_FAILED);
	return true;
}

HTW_TEST(tables_count)
{
	LIMITED();
	NEEDS(HTW_FEATURE_TABLE);
	ASSERT_LT(3 * PAGE_TIMERS, limit);
	EXPECT_TRUE(htw_in_child(table(_metadata, 65527, limit)));
}

/* Who closes a descriptor and opens another one does not fail at the limit meanwhile. */
static bool reopen(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	const struct htw_setup ring = { .flags = HTW_SETUP_RING, .ring_entries = 512 };
	const struct htw_setup wheel = {
		.flags = HTW_SETUP_PRIVATE, .tick_ns = MSEC, .levels = 1, .slots = { 64 },
	};
	int fds[16], i, round;

	STEP(as_user(uid));
	for (round = 0; round < 20; round++) {
		STEP((fds[0] = htw_open(O_NONBLOCK)) >= 0);
		STEP(fill(fds, 1) == limit);
		STEP(!close(fds[0]));
	}
	for (round = 0; round < 20 && limit >= 512; round++) {
		STEP((fds[0] = htw_open(O_NONBLOCK)) >= 0);
		STEP(!htw_set_up(fds[0], ring));
		STEP(!close(fds[0]));
	}
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 16; i++) {
			STEP((fds[i] = htw_open(O_NONBLOCK)) >= 0);
			STEP(!htw_set_up(fds[i], wheel));
		}
		STEP((i = htw_open(O_NONBLOCK)) >= 0 && htw_set_up(i, wheel) == -EPERM);
		STEP(!close(i));
		for (i = 0; i < 16; i++)
			STEP(!close(fds[i]));
	}
	return true;
}

HTW_TEST(reopened_at_the_limit)
{
	LIMITED();
	NEEDS(HTW_FEATURE_RING);
	EXPECT_TRUE(htw_in_child(reopen(_metadata, 65526, limit)));
}

/* A ring counts as one timer for each entry until the file is closed. */
static bool rings(struct __test_metadata *_metadata, uid_t uid, __u64 limit)
{
	struct htw_setup setup = { .flags = HTW_SETUP_RING, .ring_entries = 512 };
	int fd, other, late;

	STEP(as_user(uid));
	fd = htw_open(O_NONBLOCK);
	other = htw_open(O_NONBLOCK);
	late = htw_open(O_NONBLOCK);
	STEP(!htw_set_up(fd, setup));
	STEP(htw_set_up(other, setup) == (limit < 1024 ? -EDQUOT : 0));
	STEP(htw_info(other).ring_entries == (limit < 1024 ? 0 : 512));
	if (limit >= 1024)
		return true;
	STEP(fill(&other, 1) == limit - 512);
	STEP(htw_start(fd, HOUR, 1) == 0 && errno == EDQUOT);
	/* The context has a timer, so the error is EBUSY, not EDQUOT. */
	STEP(htw_set_up(other, setup) == -EBUSY);
	setup.ring_entries = 1;
	STEP(htw_set_up(late, setup) == -EDQUOT);
	close(fd);
	setup.ring_entries = 512;
	STEP(!htw_set_up(late, setup));
	return true;
}

HTW_TEST(rings_count)
{
	LIMITED();
	NEEDS(HTW_FEATURE_RING);
	EXPECT_TRUE(htw_in_child(rings(_metadata, 65529, limit)));
}

/* Timers are charged to the opener of the descriptor. */
HTW_TEST(charged_to_the_opener)
{
	__u64 id;

	LIMITED();
	/*
	 * Opened by root and used by another user: only the descriptor's limit
	 * holds.
	 */
	if (self->limit > limit)
		EXPECT_TRUE(htw_in_child(as_user(65530) &&
					 htw_start_many(self->fd, ~0ULL, 0, limit + 1, NULL) ==
						 limit + 1));
	EXPECT_TRUE(htw_in_child(as_user(65530) && !add_one(htw_open(O_NONBLOCK), &id)));
}

TEST_HARNESS_MAIN
